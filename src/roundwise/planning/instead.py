"""Where a question is not to be answered at a sensible cost: what can be, with its numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.noise import Binary, Noise
from roundwise.planning.ahead import ahead
from roundwise.planning.expected import Expected
from roundwise.planning.quantities import amount, exact, share, whole
from roundwise.planning.rows import Spread, spread
from roundwise.planning.worlds import Unreliable, world_of
from roundwise.policies import Policy
from roundwise.problem import Problem
from roundwise.questions import BestArm, TopK

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

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "words": self.words,
            "value": self.value,
            "samples": self.samples.plain(),
            "batches": self.batches.plain(),
            "within_budget": self.within_budget,
        }


def instead_of(
    problem: Problem,
    policy: Policy,
    expected: Expected,
    needed: Spread,
    budget: float | None,
    *,
    seed: int,
    deviation: float | None,
    missing: float,
) -> tuple[Instead, ...]:
    """What could be asked instead if these were the means, each simulated; those that are no easier are left out."""
    found = []
    for kind, value, words, other, means in _others(problem, expected):
        if not _finite(other, means):
            continue
        try:
            policy.check(other)
        except ValueError:
            continue
        world = world_of(other.noise, means, deviation)
        if missing:
            world = Unreliable(world, missing)
        paths = ahead(other, policy, world, runs=RUNS, seed=seed, budget=budget, beyond=RUNS // 2, most_rounds=200)
        samples = spread(paths.needed.samples, paths.weights)
        if samples.typical < 0.9 * needed.typical:
            within = float(paths.limited.decided.mean())
            batches = spread(paths.needed.batches, paths.weights)
            numbers = f"typically {whole(samples.typical)} results, {whole(samples.p95)} in 19 of 20 studies"
            chance = "" if budget is None else f"; an answer within {exact(budget)} in {share(within)}"
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


def larger_budget(samples: Spread, batches: Spread, budget: float | None) -> Instead | None:
    """The same question with as many results as 19 of 20 studies need."""
    if budget is None or not np.isfinite(samples.p95) or samples.p95 <= budget:
        return None
    words = f"a budget of {whole(samples.p95)} in place of {exact(budget)}: an answer in 19 of 20 studies"
    return Instead(kind="budget", words=words, value=samples.p95, samples=samples, batches=batches, within_budget=0.95)


def _others(problem: Problem, expected: Expected) -> list[tuple[str, float, str, Problem, tuple[float, ...]]]:
    """Easier questions at the same means: kind, its number, words, problem, means."""
    question, means = problem.question, np.asarray(expected.means)
    if not isinstance(question, BestArm):
        return []
    order = np.argsort(-means, kind="stable")
    lead = float(means[order[0]] - means[order[1]]) or (expected.lead or 0.0)
    rates = isinstance(problem.noise, Binary)
    found: list[tuple[str, float, str, Problem, tuple[float, ...]]] = []
    for tolerance in sorted({float(f"{each:.6g}") for each in _tolerances(lead, problem.noise, means)}):
        if tolerance > question.tolerance:
            words = f"any option within {amount(tolerance, rates)} of the best"
            other = dataclasses.replace(problem, question=BestArm(tolerance))
            found.append(("tolerance", tolerance, words, other, expected.means))
    gaps = -np.diff(means[order])
    if len(means) > 2 and gaps[1:].size and gaps[1:].max() > 0:
        k = int(gaps[1:].argmax()) + 2
        other = dataclasses.replace(problem, question=TopK(k))
        found.append(("top-k", k, f"which are the best {k}", other, expected.means))
    fewer = (len(means) + 1) // 2
    if fewer >= 2 and fewer < len(means):
        kept = tuple(float(each) for each in means[np.sort(order[:fewer])])
        other = dataclasses.replace(problem, arms=fewer)
        found.append(("fewer arms", fewer, f"{fewer} of the {len(means)} options", other, kept))
    return found


def _tolerances(lead: float, noise: Noise, means: np.ndarray[Any, Any]) -> list[float]:
    """A difference that may not matter: the lead itself, and twice that."""
    if lead > 0:
        return [lead, 2 * lead]
    spread = float(np.sqrt(means[0] * (1 - means[0]))) if isinstance(noise, Binary) else 1.0
    return [float(f"{0.05 * spread:.1g}"), float(f"{0.1 * spread:.1g}")]


def _finite(problem: Problem, means: tuple[float, ...]) -> bool:
    return bool(np.isfinite(problem.question.complexity(np.asarray(means)).value))
