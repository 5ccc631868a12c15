"""Alternatives to a plan, each simulated: easier questions and a larger budget where it is out of reach, and caps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.messages import number
from roundwise.noise import LargeSample
from roundwise.planning.budgets import BudgetProposal
from roundwise.planning.forecast import Ends, Quantiles, quantiles, share, simulate_request, whole
from roundwise.planning.pilot import PilotMoments
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.rows import PlanRow
from roundwise.planning.tradeoff import guess_settings
from roundwise.policies import usual_policy
from roundwise.questions import BestArm, Question, TopK
from roundwise.study.study import asked_in_words

RUNS = 100
ENOUGH = 0.8  # chance of an answer within the budget from which nothing else is looked for
EASIER = 0.1  # more of that chance is worth another question
SENSIBLE = 300_000  # results that are many, where there is no budget
CAP_RUNS = 400

Kind = Literal["tolerance", "top-k", "fewer arms", "budget"]
Easier = tuple[Kind, float, PlanRequest, tuple[float, ...]]  # what is easier, by how much, the study and its means


@dataclass(frozen=True, kw_only=True)
class PlanAlternative:
    """Another question, or a larger budget for the same one, and what it would take."""

    kind: Kind
    words: str
    value: float
    samples: Quantiles
    rounds: Quantiles
    within_budget: float


def find_alternatives(
    request: PlanRequest, row: PlanRow, enough: BudgetProposal | None = None
) -> tuple[PlanAlternative, ...]:
    """Easier questions and a sufficient budget where this row is out of reach; otherwise none."""
    dear = row.samples.p95 > SENSIBLE if row.within_budget is None else row.within_budget < ENOUGH
    if not dear:
        return ()
    easier = () if request.question.separate_claims else _easier_questions(request, row)
    found = sorted(easier, key=lambda each: (-each.within_budget, each.samples.typical))
    if enough is not None:
        what = "at least one true claim is shown" if request.question.separate_claims else "an answer"
        ends = simulate_request(dataclasses.replace(request, budget=enough.budget), row.expected.means, RUNS)
        found.append(
            PlanAlternative(
                kind="budget",
                words=f"a budget of about {number(enough.budget)}: {what} in {share(enough.power)}",
                value=float(enough.budget),
                samples=quantiles(ends.samples),
                rounds=quantiles(ends.rounds),
                within_budget=enough.power,
            )
        )
    return tuple(found)


def _easier_questions(request: PlanRequest, row: PlanRow) -> Iterator[PlanAlternative]:
    """Easier questions if these were the means, each simulated; those that are no easier are left out."""
    for kind, value, easier, means in _list_easier(request, row.expected):
        other = guess_settings(easier, dataclasses.replace(row.expected, means=means))
        ends = _simulate(other, means)
        if ends is None:
            continue
        samples, within = quantiles(ends.samples), float(ends.decided.mean())
        if row.within_budget is None:
            saves = samples.typical < 0.9 * row.samples.typical
            numbers = f"typically {whole(samples.typical)} results, {whole(samples.p95)} in 19 of 20 studies"
        else:
            saves = within > row.within_budget + EASIER
            numbers = f"an answer within {number(request.budget or 0)} in {share(within)}"
        if not saves:
            continue
        yield PlanAlternative(
            kind=kind,
            words=f"to ask '{asked_in_words(other)}': {numbers}",
            value=value,
            samples=samples,
            rounds=quantiles(ends.rounds),
            within_budget=within,
        )


def _simulate(request: PlanRequest, means: tuple[float, ...]) -> Ends | None:
    """Simulate another question; None where it has no answer at these means, or the policy does not support it."""
    if not np.isfinite(request.question.complexity(np.asarray(means)).value):
        return None
    try:
        request.acting.check(request.problem)
    except InputError:
        return None
    ends = simulate_request(request, means, RUNS, most_rounds=200)
    return ends.until_decided if request.budget is None else ends


def _ask_instead(request: PlanRequest, question: Question) -> PlanRequest:
    """The request with another question, and with its usual policy where the other question's usual one differs."""
    budget, arms = request.budget is not None, len(request.arms)
    usual = usual_policy(question, budget, arms)
    if request.policy.name == usual_policy(request.question, budget, arms).name != usual.name:
        return dataclasses.replace(request, question=question, policy=usual, lead=None, looks=None)
    return dataclasses.replace(request, question=question)


def _list_easier(request: PlanRequest, expected: Scenario) -> Iterator[Easier]:
    """Easier questions at the same means: with a tolerance, about another number of arms, about half the arms."""
    question, means = request.question, np.asarray(expected.means)
    k, ranked = question.number_sought, np.sort(question.merits(means))[::-1]
    gaps = ranked[:-1] - ranked[1:]
    gap = 0.0 if k is None else float(gaps[k - 1])  # the smallest difference that has to be shown
    if question.level is not None:
        gap = float(np.abs(means - question.level).min())
    gap = gap or expected.lead or 0.0
    if gap > 0:
        tolerances = {gap, 2 * gap}
    else:
        spread = float(np.sqrt(means[0] * (1 - means[0]))) if request.noise.outcome.rates else 1.0
        tolerances = {float(f"{each * spread:.1g}") for each in (0.05, 0.1)}
    for tolerance in sorted({float(f"{each:.6g}") for each in tolerances}):
        if tolerance > question.tolerance:
            try:
                easier: Question = dataclasses.replace(question, tolerance=tolerance)  # type: ignore[type-var]
            except (InputError, TypeError):  # out of range, or not a field of its own
                continue
            yield "tolerance", tolerance, _ask_instead(request, easier), expected.means
    if k is not None and len(gaps) >= 2:
        others = np.where(np.arange(1, len(gaps) + 1) == k, -1.0, gaps)
        best = int(others.argmax()) + 1  # a larger gap lies behind the best-th
        if others[best - 1] > 0:
            lower = question.lower_is_better
            easier = BestArm(lower_is_better=lower) if best == 1 else TopK(best, lower_is_better=lower)
            yield "top-k", best, _ask_instead(request, easier), tuple(means.tolist())
    fewer = max((len(means) + 1) // 2, (k or 1) + 1)
    of_any = question.accepts_arm_changes or question.level is not None  # it names no arm
    if of_any and question.features is None and fewer < len(means) and request.split is None:
        kept = np.sort(np.argsort(-question.merits(means), kind="stable")[:fewer])
        sample = None if request.sample_cost is None else tuple(request.sample_cost[i] for i in kept)
        other = dataclasses.replace(request, arms=tuple(request.arms[i] for i in kept), sample_cost=sample)
        yield "fewer arms", fewer, other, tuple(means[kept].tolist())


@dataclass(frozen=True, kw_only=True)
class CapEffect:
    """A cap, or none, on the results of a pilot, and what a study takes with it in the row that matters."""

    cap: float | None
    spread: PilotMoments
    samples: Quantiles
    within_budget: float | None  # chance of an answer, if there is a budget

    def plain(self) -> Plain:
        return {
            "cap": self.cap,
            **self.spread._asdict(),
            "samples": vars(self.samples),
            "within_budget": self.within_budget,
        }


def compare_caps(request: PlanRequest, row: PlanRow) -> tuple[CapEffect, ...]:
    """The plan without a cap and with some, where a pilot has results of any shape; else nothing.

    The lead is the same share of the mean in all of them: more buyers, not larger baskets, of which a cap cuts more.
    """
    past, noise = request.past, request.noise
    capped = noise.outcome.clip
    if past is None or not (noise.needs == "cubes" or capped) or not row.ends:
        return ()
    own, found, models = past.spread(noise), [], [LargeSample(), noise] if capped else [noise, *past.caps()]
    for model in models:
        spread, cap = past.spread(model), model.outcome.high if model.outcome.clip else None
        samples, within = row.samples, row.within_budget
        if model != noise:
            scale, skewness = spread.mean / own.mean, spread.skewness if cap is None else 0.0
            lead = None if request.lead is None else scale * request.lead
            other = dataclasses.replace(request, noise=model, deviation=spread.deviation, skewness=skewness, lead=lead)
            means = scale * np.asarray(row.expected.means)
            ends = simulate_request(other, means.tolist(), min(request.runs, CAP_RUNS))
            samples = quantiles((ends if request.budget is not None else ends.until_decided).samples)
            within = None if request.budget is None else ends.answered(other)
        found.append(CapEffect(cap=cap, spread=spread, samples=samples, within_budget=within))
    return tuple(found) if len(found) > 1 else ()
