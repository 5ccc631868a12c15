"""The rows of a plan: what a study takes if these were the means, in numbers, from runs that come lot after lot."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.model.problem import Problem
from roundwise.planning.fixed_designs import FixedDesign, fixed_design, lower_bound
from roundwise.planning.forecast import (
    ROUGH,
    Ends,
    Quantiles,
    join_ends,
    quantile,
    quantiles,
    simulate_ahead,
    take_row,
    without_budget,
)
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.policies import Policy

LEVELS = np.linspace(0.01, 0.99, 99)


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
class PlanRow:
    """What a study takes if these were the means."""

    expected: Scenario
    runs: int
    samples: Quantiles  # results asked for until the answer, as if there were no budget
    batches: Quantiles
    days: Quantiles | None
    cost: Quantiles | None
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
            "rounds": self.batches.plain() | {"mean": self.mean_batches},
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


def build_row(
    request: PlanRequest,
    expected: Scenario,
    needed: Ends,
    limited: Ends,
    lower_bound: float | None,
    fixed: FixedDesign | None,
) -> PlanRow:
    """The numbers of these runs: what they needed, and how they ended within the budget."""
    costs, problem = request.costs, request.problem
    lines, held = problem.question.claim_texts(request.arms), true_claims(problem, expected)
    claims, one, every, false = powers(lines, limited, held)
    cost = costs.of(needed.counts, needed.batches) if costs.known else None
    answered = one or 0.0 if problem.question.separate_claims else float(limited.decided.mean())
    return PlanRow(
        expected=expected,
        runs=len(limited.batches),
        samples=quantiles(needed.samples),
        batches=quantiles(needed.batches),
        days=None if costs.days is None else quantiles(needed.batches * costs.days),
        cost=None if cost is None else quantiles(cost),
        mean_samples=float(needed.samples.mean()),
        mean_batches=float(needed.batches.mean()),
        mean_cost=None if cost is None else float(cost.mean()),
        within_budget=None if request.budget is None else answered,
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


def true_claims(problem: Problem, expected: Scenario) -> tuple[bool, ...]:
    """Which claims hold with these means; nothing where the question has one answer."""
    if not problem.question.claim_texts([""] * problem.arms):
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


def _rounds(batches: Floats) -> tuple[tuple[int, float], ...]:
    values, times = np.unique(batches[np.isfinite(batches)], return_counts=True)
    return tuple((int(value), float(each) / len(batches)) for value, each in zip(values, times, strict=True))


FIRST = 40  # runs of the first numbers
FOLLOWED = 150  # runs at least, however many rounds there are
CHEAP = 15  # rounds up to which all runs are followed past the budget
WORK = 40_000  # runs times rounds of a row: where rounds are many, fewer runs must do,
FEW_ARMS = 30  # and where arms are more than these
ITEMS = 0.05  # as many where arms share items: these are drawn one by one


class RowRuns:
    """The runs of one row: within the budget, and as if there were none."""

    def __init__(self, request: PlanRequest, expected: Scenario) -> None:
        self.request, self.expected = request, expected
        self.limited: list[Ends] = []
        self.needed: list[Ends] = []
        self.rough = False  # whether these are first numbers only
        self.endless = not answerable(request, expected)
        self.claims = request.question.separate_claims and request.budget is not None  # they end with the budget
        self.bound = lower_bound(request.problem, expected.means, request.deviation)
        self.fixed = self._fixed()
        one = self.fixed is not None and self.fixed.comparisons == 1
        self.sequential = one or request.question.separate_claims  # designs with several looks are standard there

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run: no end without a budget, and there is none."""
        return self.request.budget is None and self.endless

    @property
    def open(self) -> bool:
        """Whether some runs have no answer within the budget, but may have one beyond it."""
        if self.request.budget is None or self.claims or self.endless:
            return False
        return not join_ends(self.limited).decided.all()

    def run(self, runs: int) -> None:
        """So many more, or fewer where rounds are many."""
        steps = max((each.steps for each in [*self.limited, *self.needed]), default=1)
        number = min(runs, max(int(WORK * self._ease / steps), FOLLOWED))
        if number <= 0 or self.idle:
            return
        if self.rough:
            self.limited, self.needed, self.rough = [], [], False
        self.limited.append(self._ahead(self.request.acting, number, len(self.limited)))
        if self.open:
            followed = number if steps <= CHEAP else min(number, max(FOLLOWED, number // 4))
            self.needed.append(self._ahead(without_budget(self.request.acting), followed, len(self.needed)))

    @property
    def _ease(self) -> float:
        """The work of a step against that of a usual one: many arms, and bets towards a budget of many 0/1 results."""
        ease = min(1.0, FEW_ARMS / len(self.request.arms)) * (ITEMS if self.request.of_items else 1.0)
        if not self.request.question.separate_claims:
            return ease
        if self.request.budget is None:
            return ease / 3
        events = self.request.budget * max(1.0, *self.expected.means) if self.request.noise.needs == "sums" else 0.0
        return ease / (1 + events / 2000)

    def _ahead(self, policy: Policy, runs: int, block: int) -> Ends:
        world = self.request.world(self.expected.means)
        return simulate_ahead(self.request.problem, policy, world, runs=runs, seed=self.request.seed, block=block)

    @property
    def row(self) -> PlanRow:
        """The numbers so far."""
        limited = join_ends(self.limited) if self.limited else no_end(self.request)
        needed = join_ends(self.needed) if self.needed else limited
        if not self.claims:
            needed = needed.until_decided
        if self.endless:
            needed = no_end(self.request)
        row = build_row(self.request, self.expected, needed, limited, self.bound, None)
        typical = row.batches.typical
        looks = int(typical) if math.isfinite(typical) and typical >= 2 else None
        fixed = self.fixed if looks is None or not self.sequential else self._fixed(looks)
        return dataclasses.replace(row, fixed=fixed)

    def _fixed(self, looks: int | None = None) -> FixedDesign | None:
        request = self.request
        found = fixed_design(
            request.problem,
            self.expected.means,
            power=request.power,
            shares=request.split,
            looks=looks,
            deviation=request.deviation,
        )
        return None if found is None else found.scaled(1 / (1 - request.missing))


def run_first(lots: Sequence[RowRuns], runs: int) -> None:
    """A few runs of every row, all rows at once and many rounds taken together: it is steps that take time.

    They are forgotten as soon as a row is run by itself.
    """
    rows = [each for each in lots if not each.idle]
    if rows:
        request = rows[0].request
        for row, ends in zip(rows, _together(request, request.acting, rows, runs), strict=True):
            row.limited, row.rough = [ends], True
        beyond = [row for row in rows if row.open]
        if beyond:
            for row, ends in zip(beyond, _together(request, without_budget(request.acting), beyond, runs), strict=True):
                row.needed = [ends]


def _together(request: PlanRequest, policy: Policy, rows: Sequence[RowRuns], runs: int) -> list[Ends]:
    world = request.worlds([row.expected.means for row in rows])
    ends = simulate_ahead(request.problem, policy, world, runs=runs * len(rows), seed=request.seed, detail=ROUGH)
    return [take_row(ends, i, len(rows)) for i in range(len(rows))]


def no_end(request: PlanRequest) -> Ends:
    """One run that goes on for ever."""
    arms, no = len(request.arms), np.zeros(1, dtype=np.bool_)
    lines = np.zeros((1, len(request.question.claim_texts(request.arms))), dtype=np.bool_)
    return Ends(
        counts=np.full((1, arms), np.inf),
        batches=np.full(1, np.inf),
        decided=no,
        correct=~no,
        shown=lines,
        truth=np.zeros((1, arms)),
        steps=1,
    )


def answerable(request: PlanRequest, expected: Scenario) -> bool:
    """Whether these means have an answer that results can show: no ties, nothing on a level."""
    if request.question.separate_claims:
        return bool(request.question.answer(np.asarray(expected.means)).any()) or request.budget is not None
    return bool(np.isfinite(request.question.complexity(np.asarray(expected.means)).value))
