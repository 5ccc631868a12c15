"""Alternatives where a question costs too much to answer: easier questions and larger budgets, with their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.messages import number
from roundwise.planning.forecast import Ends, Quantiles, quantiles, share, simulate_request, whole
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.rows import PlanRow
from roundwise.planning.tradeoff import guess_settings
from roundwise.policies import usual_policy
from roundwise.questions import BestArm, Question, TopK
from roundwise.study.study import asked_in_words

RUNS = 100
ENOUGH = 0.8  # chance of an answer within the budget from which nothing else is looked for
SENSIBLE = 300_000  # results that are many, where there is no budget

Kind = Literal["tolerance", "top-k", "fewer arms", "budget"]


@dataclass(frozen=True, kw_only=True)
class PlanAlternative:
    """Another question, or a larger budget for the same one, and what it would take."""

    kind: Kind
    words: str
    value: float
    samples: Quantiles
    rounds: Quantiles
    within_budget: float

    def plain(self) -> Plain:
        """The alternative as JSON."""
        return dataclasses.asdict(self)


def find_alternatives(request: PlanRequest, row: PlanRow) -> tuple[PlanAlternative, ...]:
    """What could be asked where this row is out of reach; nothing where it is not."""
    dear = row.samples.p95 > SENSIBLE if row.within_budget is None else row.within_budget < ENOUGH
    if not dear:
        return ()
    if request.question.separate_claims:
        return tuple(_larger_budgets(request, row.expected))
    found = sorted(_easier_questions(request, row), key=lambda each: each.samples.typical)
    if request.budget is not None and request.budget < row.samples.p95 < np.inf:
        more = f"a budget of {whole(row.samples.p95)} in place of {number(request.budget)}"
        found.append(
            PlanAlternative(
                kind="budget",
                words=f"{more}: an answer in 19 of 20 studies",
                value=row.samples.p95,
                samples=row.samples,
                rounds=row.rounds,
                within_budget=0.95,
            )
        )
    return tuple(found)


def _larger_budgets(request: PlanRequest, expected: Scenario) -> Iterator[PlanAlternative]:
    """Claims with twice the budget, and with four times: how often at least one true claim is shown."""
    for factor in (2, 4) if request.budget is not None else ():
        budget = factor * (request.budget or 0)
        more = dataclasses.replace(request, budget=budget)
        ends = simulate_request(more, expected.means, RUNS)
        right = np.asarray(more.question.answer(np.asarray(expected.means)), dtype=np.bool_)
        one = float(ends.shown[:, right].any(axis=-1).mean())
        yield PlanAlternative(
            kind="budget",
            words=f"a budget of {number(budget)}: at least one true claim is shown in {share(one)}",
            value=float(budget),
            samples=quantiles(ends.samples),
            rounds=quantiles(ends.rounds),
            within_budget=one,
        )


def _easier_questions(request: PlanRequest, row: PlanRow) -> Iterator[PlanAlternative]:
    """Easier questions if these were the means, each simulated; those that are no easier are left out."""
    for kind, value, easier, means in _list_easier(request, row.expected):
        other = guess_settings(easier, dataclasses.replace(row.expected, means=means))
        found = _simulate(other, means)
        if found is None:
            continue
        ends, limited = found
        samples, within = quantiles(ends.samples), float(limited.decided.mean())
        if samples.typical >= 0.9 * row.samples.typical:
            continue
        numbers = f"typically {whole(samples.typical)} results, {whole(samples.p95)} in 19 of 20 studies"
        chance = "" if request.budget is None else f"; an answer within {number(request.budget)} in {share(within)}"
        yield PlanAlternative(
            kind=kind,
            words=f"to ask '{asked_in_words(other)}': {numbers}{chance}",
            value=value,
            samples=samples,
            rounds=quantiles(ends.rounds),
            within_budget=within,
        )


def _simulate(request: PlanRequest, means: tuple[float, ...]) -> tuple[Ends, Ends] | None:
    """Runs without a budget and within it; None where there is nothing to find, or the policy does not fit."""
    if not np.isfinite(request.question.complexity(np.asarray(means)).value):
        return None
    try:
        request.acting.check(request.problem)
    except InputError:
        return None
    limited = simulate_request(request, means, RUNS)
    if limited.decided.all():
        return limited, limited
    return simulate_request(request, means, RUNS, budget=False, most_rounds=200).until_decided, limited


class _Easier(NamedTuple):
    kind: Kind
    value: float
    request: PlanRequest
    means: tuple[float, ...]


def _list_easier(request: PlanRequest, expected: Scenario) -> Iterator[_Easier]:
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
            policy, budget = request.policy, request.budget is not None
            if policy.name == usual_policy(question, budget).name != (usual := usual_policy(easier, budget)).name:
                policy = usual  # the other one is made for the question without a tolerance
            yield _Easier(
                "tolerance", tolerance, dataclasses.replace(request, question=easier, policy=policy), expected.means
            )
    if k is not None and len(gaps) >= 2:
        others = np.where(np.arange(1, len(gaps) + 1) == k, -1.0, gaps)
        best = int(others.argmax()) + 1  # a larger gap lies behind the best-th
        if others[best - 1] > 0:
            lower = question.lower_is_better
            easier = BestArm(lower_is_better=lower) if best == 1 else TopK(best, lower_is_better=lower)
            yield _Easier("top-k", best, dataclasses.replace(request, question=easier), tuple(means.tolist()))
    fewer = max((len(means) + 1) // 2, (k or 1) + 1)
    of_any = question.accepts_arm_changes or question.level is not None  # it names no arm
    if of_any and question.features is None and fewer < len(means) and request.split is None:
        kept = np.sort(np.argsort(-question.merits(means), kind="stable")[:fewer])
        sample = None if request.sample_cost is None else tuple(request.sample_cost[i] for i in kept)
        other = dataclasses.replace(request, arms=tuple(request.arms[i] for i in kept), sample_cost=sample)
        yield _Easier("fewer arms", fewer, other, tuple(means[kept].tolist()))
