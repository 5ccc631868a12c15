"""Where a question is not to be answered at a sensible cost: what can be, with its numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError
from roundwise.noise import Noise
from roundwise.planning.forecast import Ends, Quantiles, quantiles, simulate_ahead, without_budget
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.tradeoff import guess_settings
from roundwise.questions import BestArm, Question, TopK
from roundwise.study.study import asked_in_words

RUNS = 100
ENOUGH = 0.8  # chance of an answer within the budget from which nothing else is looked for
SENSIBLE = 300_000  # results that are a lot, where no budget says what is


@dataclass(frozen=True, kw_only=True)
class PlanAlternative:
    """Another question, or more means for the same one, and what it would take."""

    kind: str  # tolerance, top-k, fewer arms, budget
    words: str
    value: float
    samples: Quantiles
    batches: Quantiles
    within_budget: float

    def plain(self) -> Plain:
        """As JSON."""
        return {
            "kind": self.kind,
            "words": self.words,
            "value": self.value,
            "samples": self.samples.plain(),
            "rounds": self.batches.plain(),
            "within_budget": self.within_budget,
        }


def find_alternatives(request: PlanRequest, expected: Scenario, needed: Quantiles) -> tuple[PlanAlternative, ...]:
    """What could be asked instead if these were the means, each simulated; those that are no easier are left out."""
    found = []
    for kind, value, easier, means in _others(request, expected):
        other = guess_settings(easier, dataclasses.replace(expected, means=means))
        ends, limited = _simulated(other, means)
        if ends is None or limited is None:
            continue
        samples, batches, within = quantiles(ends.samples), quantiles(ends.batches), float(limited.decided.mean())
        if samples.typical >= 0.9 * needed.typical:
            continue
        words = f"to ask '{asked_in_words(other)}'"
        numbers = f"typically {whole(samples.typical)} results, {whole(samples.p95)} in 19 of 20 studies"
        chance = "" if request.budget is None else f"; an answer within {exact(request.budget)} in {share(within)}"
        found.append(
            PlanAlternative(
                kind=kind,
                words=f"{words}: {numbers}{chance}",
                value=value,
                samples=samples,
                batches=batches,
                within_budget=within,
            )
        )
    return tuple(sorted(found, key=lambda each: each.samples.typical))


def larger_budget(request: PlanRequest, samples: Quantiles, batches: Quantiles) -> PlanAlternative | None:
    """The same question with as many results as 19 of 20 studies need."""
    if request.budget is None or not np.isfinite(samples.p95) or samples.p95 <= request.budget:
        return None
    words = f"a budget of {whole(samples.p95)} in place of {exact(request.budget)}: an answer in 19 of 20 studies"
    return PlanAlternative(
        kind="budget", words=words, value=samples.p95, samples=samples, batches=batches, within_budget=0.95
    )


def larger_budgets(request: PlanRequest, expected: Scenario) -> tuple[PlanAlternative, ...]:
    """Claims with twice the budget, and with four times: at least one that is true is shown so often."""
    if request.budget is None:
        return ()
    found = []
    for factor in (2, 4):
        more = dataclasses.replace(request, budget=factor * request.budget)
        ends = simulate_ahead(more.problem, more.acting, more.world(expected.means), runs=RUNS, seed=request.seed)
        right = np.asarray(more.question.answer(np.asarray(expected.means)), dtype=np.bool_)
        one = float(ends.shown[:, right].any(axis=-1).mean()) if right.any() else 0.0
        words = f"a budget of {exact(more.budget or 0)}: at least one true claim is shown in {share(one)}"
        samples, batches = quantiles(ends.samples), quantiles(ends.batches)
        found.append(
            PlanAlternative(
                kind="budget",
                words=words,
                value=float(more.budget or 0),
                samples=samples,
                batches=batches,
                within_budget=one,
            )
        )
    return tuple(found)


def _simulated(request: PlanRequest, means: tuple[float, ...]) -> tuple[Ends | None, Ends | None]:
    """As if there were no budget, and within it; nothing where there is nothing to find, or the policy does not fit."""
    if not np.isfinite(request.question.complexity(np.asarray(means)).value):
        return None, None
    try:
        request.acting.check(request.problem)
    except InputError:
        return None, None
    world, problem = request.world(means), request.problem
    limited = simulate_ahead(problem, request.acting, world, runs=RUNS, seed=request.seed)
    if limited.decided.all():
        return limited, limited
    free = simulate_ahead(problem, without_budget(request.acting), world, runs=RUNS, seed=request.seed, most_rounds=200)
    return free.until_decided, limited


Other = tuple[str, float, PlanRequest, tuple[float, ...]]  # kind, its number, what is then planned, means


def _others(request: PlanRequest, expected: Scenario) -> list[Other]:
    """Easier questions at the same means."""
    means = np.asarray(expected.means)
    return [*_with_tolerance(request, expected, means), *_other_numbers(request, means), *_fewer_arms(request, means)]


def _with_tolerance(request: PlanRequest, expected: Scenario, means: Floats) -> Iterator[Other]:
    """The same question, where a difference of the size that is asked about does not matter, or one of twice that."""
    gap = _gap(request.question, means) or expected.lead or 0.0
    for tolerance in sorted({float(f"{each:.6g}") for each in _tolerances(gap, request.noise, means)}):
        if tolerance > request.question.tolerance:
            easier = _tolerating(request.question, tolerance)
            if easier is not None:
                yield "tolerance", tolerance, dataclasses.replace(request, question=easier), expected.means


def _tolerating(question: Question, tolerance: float) -> Question | None:
    """The question with a tolerance, if it has any."""
    try:
        found: Question = dataclasses.replace(question, tolerance=tolerance)  # type: ignore[type-var]
    except (InputError, TypeError):  # out of range, or not a field of its own
        return None
    return found


def _gap(question: Question, means: Floats) -> float:
    """The smallest difference that has to be shown: between arms, or from a level."""
    level, ranked = question.level, np.sort(means)[::-1]
    if level is not None:
        return float(np.abs(means - level).min())
    k = _number_sought(question)
    return 0.0 if k is None else float(ranked[k - 1] - ranked[k])


def _number_sought(question: Question) -> int | None:
    """How many of the best are asked for, if that is what is asked."""
    return question.number_sought


def _other_numbers(request: PlanRequest, means: Floats) -> Iterator[Other]:
    """The best k, where a larger gap lies behind the k-th."""
    k = _number_sought(request.question)
    gaps = -np.diff(np.sort(means)[::-1])
    if k is None or len(gaps) < 2:
        return
    behind = np.where(np.arange(1, len(gaps) + 1) == k, -1.0, gaps)
    best = int(behind.argmax()) + 1
    if behind[best - 1] > 0:
        easier: Question = BestArm() if best == 1 else TopK(best)
        yield "top-k", best, dataclasses.replace(request, question=easier), tuple(means.tolist())


def _fewer_arms(request: PlanRequest, means: Floats) -> Iterator[Other]:
    """The same of half the arms: those that look like what is sought."""
    least = (_number_sought(request.question) or 1) + 1
    fewer = max((len(means) + 1) // 2, least)
    of_any = request.question.accepts_arm_changes or request.question.level is not None  # it speaks of no arm by itself
    if not of_any or request.question.features is not None or fewer >= len(means) or request.split is not None:
        return
    sought = means if request.question.seeks_low_means else -means
    kept = np.sort(np.argsort(sought, kind="stable")[:fewer])
    if (sample := request.sample_cost) is not None:
        sample = tuple(sample[i] for i in kept)
    other = dataclasses.replace(
        request,
        arms=tuple(request.arms[i] for i in kept),
        sample_cost=sample,
    )
    yield "fewer arms", fewer, other, tuple(float(each) for each in means[kept])


def _tolerances(lead: float, noise: Noise, means: Floats) -> list[float]:
    """A difference that may not matter: the lead itself, and twice that."""
    if lead > 0:
        return [lead, 2 * lead]
    spread = float(np.sqrt(means[0] * (1 - means[0]))) if noise.outcome.rates else 1.0
    return [float(f"{0.05 * spread:.1g}"), float(f"{0.1 * spread:.1g}")]
