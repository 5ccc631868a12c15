"""Where a question is not to be answered at a sensible cost: what can be, with its numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError
from roundwise.noise import Noise
from roundwise.planning.ahead import Ends, ahead, without_budget
from roundwise.planning.expected import Expected
from roundwise.planning.quantities import amount, exact, share, whole
from roundwise.planning.rows import Spread, spread
from roundwise.planning.wish import Wish
from roundwise.questions import BestArm, TopK
from roundwise.questions.besides import seeks_best, tolerance_of

RUNS = 100
ENOUGH = 0.8  # chance of an answer within the budget from which nothing else is looked for
SENSIBLE = 300_000  # results that are a lot, where no budget says what is


@dataclass(frozen=True, kw_only=True)
class Instead:
    """Another question, or more means for the same one, and what it would take."""

    kind: str  # tolerance, top-k, fewer arms, budget
    words: str
    value: float
    samples: Spread
    batches: Spread
    within_budget: float

    def plain(self) -> Plain:
        """As JSON."""
        return {
            "kind": self.kind,
            "words": self.words,
            "value": self.value,
            "samples": self.samples.plain(),
            "batches": self.batches.plain(),
            "within_budget": self.within_budget,
        }


def instead_of(wish: Wish, expected: Expected, needed: Spread) -> tuple[Instead, ...]:
    """What could be asked instead if these were the means, each simulated; those that are no easier are left out."""
    found = []
    for kind, value, words, other, means in _others(wish, expected):
        ends, limited = _simulated(other, means)
        if ends is None or limited is None:
            continue
        samples, batches, within = spread(ends.samples), spread(ends.batches), float(limited.decided.mean())
        if samples.typical >= 0.9 * needed.typical:
            continue
        numbers = f"typically {whole(samples.typical)} results, {whole(samples.p95)} in 19 of 20 studies"
        chance = "" if wish.budget is None else f"; an answer within {exact(wish.budget)} in {share(within)}"
        found.append(
            Instead(
                kind=kind,
                words=f"{words}: {numbers}{chance}",
                value=value,
                samples=samples,
                batches=batches,
                within_budget=within,
            )
        )
    return tuple(sorted(found, key=lambda each: each.samples.typical))


def larger_budget(wish: Wish, samples: Spread, batches: Spread) -> Instead | None:
    """The same question with as many results as 19 of 20 studies need."""
    if wish.budget is None or not np.isfinite(samples.p95) or samples.p95 <= wish.budget:
        return None
    words = f"a budget of {whole(samples.p95)} in place of {exact(wish.budget)}: an answer in 19 of 20 studies"
    return Instead(kind="budget", words=words, value=samples.p95, samples=samples, batches=batches, within_budget=0.95)


def larger_budgets(wish: Wish, expected: Expected) -> tuple[Instead, ...]:
    """Claims with twice the budget, and with four times: at least one that is true is shown so often."""
    if wish.budget is None:
        return ()
    found = []
    for factor in (2, 4):
        more = dataclasses.replace(wish, budget=factor * wish.budget)
        ends = ahead(more.problem, more.acting, more.world(expected.means), runs=RUNS, seed=wish.seed)
        right = np.asarray(more.question.answer(np.asarray(expected.means)), dtype=np.bool_)
        one = float(ends.shown[:, right].any(axis=-1).mean()) if right.any() else 0.0
        words = f"a budget of {exact(more.budget or 0)}: at least one true claim is shown in {share(one)}"
        samples, batches = spread(ends.samples), spread(ends.batches)
        found.append(
            Instead(
                kind="budget",
                words=words,
                value=float(more.budget or 0),
                samples=samples,
                batches=batches,
                within_budget=one,
            )
        )
    return tuple(found)


def _simulated(wish: Wish, means: tuple[float, ...]) -> tuple[Ends | None, Ends | None]:
    """As if there were no budget, and within it; nothing where there is nothing to find, or the policy does not fit."""
    if not np.isfinite(wish.question.complexity(np.asarray(means)).value):
        return None, None
    try:
        wish.acting.check(wish.problem)
    except InputError:
        return None, None
    world, problem = wish.world(means), wish.problem
    limited = ahead(problem, wish.acting, world, runs=RUNS, seed=wish.seed)
    if limited.decided.all():
        return limited, limited
    free = ahead(problem, without_budget(wish.acting), world, runs=RUNS, seed=wish.seed, most_rounds=200)
    return free.until_decided, limited


def _others(wish: Wish, expected: Expected) -> list[tuple[str, float, str, Wish, tuple[float, ...]]]:
    """Easier questions at the same means: kind, its number, words, what is then planned, means."""
    question, means = wish.question, np.asarray(expected.means)
    if not seeks_best(question):
        return []
    order = np.argsort(-means, kind="stable")
    lead = float(means[order[0]] - means[order[1]]) or (expected.lead or 0.0)
    rates = wish.noise.outcome.rates
    found: list[tuple[str, float, str, Wish, tuple[float, ...]]] = []
    for tolerance in sorted({float(f"{each:.6g}") for each in _tolerances(lead, wish.noise, means)}):
        if tolerance > tolerance_of(question):
            words = f"any option within {amount(tolerance, rates)} of the best"
            other = dataclasses.replace(wish, question=BestArm(tolerance))
            found.append(("tolerance", tolerance, words, other, expected.means))
    gaps = -np.diff(means[order])
    if len(means) > 2 and gaps[1:].size and gaps[1:].max() > 0:
        k = int(gaps[1:].argmax()) + 2
        other = dataclasses.replace(wish, question=TopK(k))
        found.append(("top-k", k, f"which are the best {k}", other, expected.means))
    fewer = (len(means) + 1) // 2
    if 2 <= fewer < len(means) and wish.split is None:
        kept = np.sort(order[:fewer])
        names = tuple(wish.names[i] for i in kept)
        other = dataclasses.replace(wish, names=names)
        words = f"{fewer} of the {len(means)} options"
        found.append(("fewer arms", fewer, words, other, tuple(float(each) for each in means[kept])))
    return found


def _tolerances(lead: float, noise: Noise, means: Floats) -> list[float]:
    """A difference that may not matter: the lead itself, and twice that."""
    if lead > 0:
        return [lead, 2 * lead]
    spread = float(np.sqrt(means[0] * (1 - means[0]))) if noise.outcome.rates else 1.0
    return [float(f"{0.05 * spread:.1g}"), float(f"{0.1 * spread:.1g}")]
