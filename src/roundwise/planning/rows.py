"""One row of a plan: what a study takes if these were the means, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats, Plain
from roundwise.planning.ahead import Ends
from roundwise.planning.expected import Expected
from roundwise.planning.fixed import FixedDesign
from roundwise.planning.wish import Wish
from roundwise.problem import Problem
from roundwise.questions.besides import line_words, one_by_one

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

    def plain(self) -> Plain:
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
    within_budget: float | None  # chance of an answer within the budget (of a true claim), if there is one
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

    def plain(self) -> Plain:
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
    wish: Wish,
    expected: Expected,
    needed: Ends,
    limited: Ends,
    lower_bound: float | None,
    fixed: FixedDesign | None,
) -> Row:
    """The numbers of these runs: what they needed, and how they ended within the budget."""
    costs, problem = wish.costs, wish.problem
    lines, held = line_words(problem.question, wish.names), true_claims(problem, expected)
    claims, one, every, false = powers(lines, limited, held)
    cost = costs.of(needed.counts, needed.batches) if costs.known else None
    answered = one or 0.0 if one_by_one(problem.question) else float(limited.decided.mean())
    return Row(
        expected=expected,
        runs=len(limited.batches),
        samples=spread(needed.samples),
        batches=spread(needed.batches),
        days=None if costs.days is None else spread(needed.batches * costs.days),
        cost=None if cost is None else spread(cost),
        mean_samples=float(needed.samples.mean()),
        mean_batches=float(needed.batches.mean()),
        mean_cost=None if cost is None else float(cost.mean()),
        within_budget=None if wish.budget is None else answered,
        wrong=float((~limited.correct).mean()),
        claims=claims,
        at_least_one=one,
        all_true=every,
        any_false=false,
        lower_bound=lower_bound,
        fixed=fixed,
        quantiles=tuple(quantile(needed.samples, LEVELS).tolist()),
        rounds=_rounds(needed.batches),
    )


def true_claims(problem: Problem, expected: Expected) -> tuple[bool, ...]:
    """Which claims hold with these means; nothing where the question has one answer."""
    if not line_words(problem.question, [""] * problem.arms):
        return ()
    return tuple(bool(each) for each in problem.question.answer(np.asarray(expected.means)))


def powers(
    names: Sequence[str], ends: Ends, held: Sequence[bool]
) -> tuple[tuple[Power, ...], float | None, float | None, float | None]:
    """The power of each claim; of at least one true one; of all of them; and the chance of a false one."""
    if not names:
        return (), None, None, None
    right = np.asarray(held, dtype=np.bool_)
    each = zip(names, held, ends.shown.mean(axis=0), strict=True)
    claims = tuple(Power(claim=name, true=bool(true), power=float(power)) for name, true, power in each)
    one = float(ends.shown[:, right].any(axis=-1).mean()) if right.any() else None
    every = float(ends.shown[:, right].all(axis=-1).mean()) if right.any() else None
    return claims, one, every, float(ends.shown[:, ~right].any(axis=-1).mean())


def spread(values: Floats) -> Spread:
    """Typical and nearly always."""
    typical, p95 = quantile(values, np.array([TYPICAL, NEARLY_ALWAYS]))
    return Spread(typical=float(typical), p95=float(p95))


def quantile(values: Floats, levels: NDArray[np.float64]) -> Floats:
    """The smallest value that at least this share of the runs does not exceed."""
    places = np.ceil(levels * len(values) - 1e-9).astype(np.intp) - 1
    return np.sort(values)[np.maximum(places, 0)]


def _rounds(batches: Floats) -> tuple[tuple[int, float], ...]:
    values, times = np.unique(batches[np.isfinite(batches)], return_counts=True)
    return tuple((int(value), float(each) / len(batches)) for value, each in zip(values, times, strict=True))
