"""One row of a plan: what a study takes if these were the means, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.planning.ahead import Ends, Paths, claims_of
from roundwise.planning.costs import Costs
from roundwise.planning.expected import Expected
from roundwise.planning.fixed import FixedDesign
from roundwise.problem import Problem

TYPICAL, NEARLY_ALWAYS = 0.5, 0.95
LEVELS = np.linspace(0.01, 0.99, 99)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A number that varies: half of the runs need no more than is typical, 19 of 20 no more than p95."""

    typical: float
    p95: float

    def plain(self) -> dict[str, float]:
        """As JSON."""
        return {"typical": self.typical, "p95": self.p95}


@dataclass(frozen=True, kw_only=True)
class Power:
    """How likely one claim is shown."""

    claim: str
    true: bool  # with these means
    power: float

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"claim": self.claim, "true": self.true, "power": self.power}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a study takes if these were the means."""

    expected: Expected
    runs: int
    samples: Spread  # results asked for until the answer, as if there were no budget
    batches: Spread
    days: Spread | None
    cost: Spread | None
    mean_samples: float
    mean_batches: float
    mean_cost: float | None
    within_budget: float | None  # chance of an answer within the budget, if there is one
    wrong: float  # chance of a wrong one
    claims: tuple[Power, ...]
    at_least_one: float | None  # true claim shown
    all_true: float | None
    any_false: float | None
    lower_bound: float | None  # results that no method with this error can stay below on average
    fixed: FixedDesign | None
    quantiles: tuple[float, ...]  # of the results, at 1 %, 2 %, ... 99 %
    rounds: tuple[tuple[int, float], ...]  # how often so many

    @property
    def answerable(self) -> bool:
        """Whether half of the runs end with an answer."""
        return bool(np.isfinite(self.samples.typical))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "label": self.expected.label,
            "lead": self.expected.lead,
            "means": list(self.expected.means),
            "runs": self.runs,
            "samples": self.samples.plain() | {"mean": self.mean_samples},
            "batches": self.batches.plain() | {"mean": self.mean_batches},
            "days": None if self.days is None else self.days.plain(),
            "cost": None if self.cost is None else self.cost.typical,
            "cost_p95": None if self.cost is None else self.cost.p95,
            "cost_mean": self.mean_cost,
            "within_budget": self.within_budget,
            "wrong": self.wrong,
            "claims": [each.plain() for each in self.claims],
            "at_least_one": self.at_least_one,
            "all_true": self.all_true,
            "any_false": self.any_false,
            "lower_bound": self.lower_bound,
            "fixed_design": None if self.fixed is None else self.fixed.plain(),
        }


def row_of(
    problem: Problem,
    expected: Expected,
    paths: Paths,
    costs: Costs,
    budget: float | None,
    lower_bound: float | None,
    fixed: FixedDesign | None,
) -> Row:
    """The numbers of these runs."""
    ends, weights = paths.needed, paths.weights
    within = paths.limited
    held = true_claims(problem, expected)
    claims, one, every, false = powers(problem, within, held)
    cost = costs.of(ends.counts, ends.batches) if costs.known else None
    days = None if costs.days is None else spread(ends.batches * costs.days, weights)
    return Row(
        expected=expected,
        runs=len(weights),
        samples=spread(ends.samples, weights),
        batches=spread(ends.batches, weights),
        days=days,
        cost=None if cost is None else spread(cost, weights),
        mean_samples=average(ends.samples, weights),
        mean_batches=average(ends.batches, weights),
        mean_cost=None if cost is None else average(cost, weights),
        within_budget=None if budget is None else float(within.decided.mean()),
        wrong=float((within.decided & ~within.correct).mean()),
        claims=claims,
        at_least_one=one,
        all_true=every,
        any_false=false,
        lower_bound=lower_bound,
        fixed=fixed,
        quantiles=tuple(quantile(ends.samples, weights, LEVELS).tolist()),
        rounds=_rounds(ends.batches, weights),
    )


def true_claims(problem: Problem, expected: Expected) -> tuple[bool, ...]:
    """Which claims hold with these means."""
    if not claims_of(problem):
        return ()
    return tuple(bool(each) for each in problem.question.answer(np.asarray(expected.means)))


def powers(
    problem: Problem, ends: Ends, held: Sequence[bool]
) -> tuple[tuple[Power, ...], float | None, float | None, float | None]:
    """The power of each claim; of at least one true one; of all of them; and the chance of a false one."""
    names = claims_of(problem)
    if not names:
        return (), None, None, None
    right = np.asarray(held, dtype=np.bool_)
    each = ends.shown.mean(axis=0)
    claims = tuple(
        Power(claim=name, true=bool(true), power=float(power))
        for name, true, power in zip(names, held, each, strict=True)
    )
    one = float(ends.shown[:, right].any(axis=-1).mean()) if right.any() else None
    every = float(ends.shown[:, right].all(axis=-1).mean()) if right.any() else None
    return claims, one, every, float(ends.shown[:, ~right].any(axis=-1).mean())


def spread(values: Floats, weights: Floats) -> Spread:
    """Typical and nearly always."""
    typical, p95 = quantile(values, weights, np.array([TYPICAL, NEARLY_ALWAYS]))
    return Spread(typical=float(typical), p95=float(p95))


def quantile(values: Floats, weights: Floats, levels: NDArray[np.float64]) -> Floats:
    """The smallest value that at least this share of the runs does not exceed."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return np.asarray(values[order][np.searchsorted(reached, levels * reached[-1] * (1 - 1e-12))])


def average(values: Floats, weights: Floats) -> float:
    """The mean over the runs; infinite if one of them never ends."""
    seen = weights > 0
    return float((values[seen] * weights[seen]).sum() / weights[seen].sum())


def _rounds(batches: Floats, weights: Floats) -> tuple[tuple[int, float], ...]:
    seen = np.isfinite(batches)
    values, which = np.unique(batches[seen], return_inverse=True)
    shares = np.bincount(which, weights=weights[seen], minlength=values.size) / weights.sum()
    return tuple((int(value), float(each)) for value, each in zip(values, shares, strict=True))
