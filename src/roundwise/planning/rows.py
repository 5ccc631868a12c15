"""The rows of a plan: what a study takes if these were the means, from runs that are added set by set."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.arrays import Plain
from roundwise.planning.fixed_designs import FixedDesign, fixed_design, lower_bound
from roundwise.planning.forecast import (
    ROUGH,
    Ends,
    Forecast,
    join_ends,
    no_end,
    quantile,
    simulate_request,
    summarize,
)
from roundwise.planning.request import PlanRequest, Scenario

LEVELS = np.linspace(0.01, 0.99, 99).tolist()
FIRST = 40  # runs of the first numbers
FOLLOWED = 150  # runs at least, however many rounds there are
CHEAP = 15  # rounds up to which all runs are followed past the budget
WORK = 40_000  # runs times rounds of a row: where rounds are many, runs are fewer,
FEW_ARMS = 30  # and where arms are more than these
ITEMS = 0.05  # of that work where arms share items: these are drawn one by one


@dataclass(frozen=True, kw_only=True)
class Power:
    """How likely one claim is shown."""

    claim: str
    true: bool  # with these means
    power: float


@dataclass(frozen=True, kw_only=True)
class PlanRow(Forecast):
    """What a study takes if these were the means: until the answer, as if there were no budget."""

    expected: Scenario
    runs: int
    within_budget: float | None  # chance of an answer within the budget (of a true claim), if there is one
    wrong: float  # chance of a wrong one
    claims: tuple[Power, ...]
    at_least_one: float | None  # true claim shown
    all_true: float | None
    any_false: float | None
    lower_bound: float | None  # results that no method with this error can stay below on average
    fixed: FixedDesign | None
    quantiles: tuple[float, ...]  # of the results, at 1 %, 2 %, ... 99 %
    rounds_distribution: tuple[tuple[int, float], ...]  # a number of rounds, and how often it came

    @property
    def answerable(self) -> bool:
        """Whether half of the runs end with an answer."""
        return math.isfinite(self.samples.typical)

    def plain(self) -> Plain:
        """The row as JSON."""
        return {
            "label": self.expected.label,
            "lead": self.expected.lead,
            "means": list(self.expected.means),
            "runs": self.runs,
            "samples": vars(self.samples) | {"mean": self.mean_samples},
            "rounds": vars(self.rounds) | {"mean": self.mean_rounds},
            "days": None if self.days is None else vars(self.days),
            "cost": None if self.cost is None else self.cost.typical,
            "cost_p95": None if self.cost is None else self.cost.p95,
            "cost_mean": self.mean_cost,
            "within_budget": self.within_budget,
            "wrong": self.wrong,
            "claims": [vars(each) for each in self.claims],
            "at_least_one": self.at_least_one,
            "all_true": self.all_true,
            "any_false": self.any_false,
            "lower_bound": self.lower_bound,
            "fixed_design": None if self.fixed is None else dataclasses.asdict(self.fixed),
        }


class RowRuns:
    """The runs of one row: within the budget, and as if there were none."""

    def __init__(self, request: PlanRequest, expected: Scenario) -> None:
        self.request, self.expected = request, expected
        self.limited: list[Ends] = []
        self.needed: list[Ends] = []
        self.rough = False  # whether these are first numbers only
        self.endless = not answerable(request, expected)
        self.idle = self.endless and request.budget is None  # there is nothing to run
        self.claims = request.question.separate_claims and request.budget is not None  # they end with the budget
        self.bound = lower_bound(request.problem, expected.means, request.deviation)
        self.fixed = self._fixed()

    @property
    def open(self) -> bool:
        """Whether some runs have no answer within the budget, but may have one beyond it."""
        if self.request.budget is None or self.claims or self.endless:
            return False
        return not join_ends(self.limited).decided.all()

    def run(self, runs: int) -> None:
        """Add runs; fewer where rounds are many."""
        steps = max((each.steps for each in [*self.limited, *self.needed]), default=1)
        number = min(runs, max(int(WORK * self._ease / steps), FOLLOWED))
        if number <= 0 or self.idle:
            return
        if self.rough:
            self.limited, self.needed, self.rough = [], [], False
        means = self.expected.means
        self.limited.append(simulate_request(self.request, means, number, block=len(self.limited)))
        if self.open:
            followed = number if steps <= CHEAP else min(number, max(FOLLOWED, number // 4))
            beyond = simulate_request(self.request, means, followed, block=len(self.needed), budget=False)
            self.needed.append(beyond)

    @property
    def _ease(self) -> float:
        """The work of a usual step over that of one here: many arms, and bets towards a budget of many 0/1 results."""
        request = self.request
        ease = min(1.0, FEW_ARMS / len(request.arms)) * (ITEMS if request.noise.shares_items else 1.0)
        if not request.question.separate_claims:
            return ease
        if request.budget is None:
            return ease / 3
        events = request.budget * max(1.0, *self.expected.means) if request.noise.needs == "sums" else 0.0
        return ease / (1 + events / 2000)

    @property
    def row(self) -> PlanRow:
        """The numbers so far."""
        request, question = self.request, self.request.question
        nothing = no_end(len(request.arms), len(question.claim_texts(request.arms)))
        limited = join_ends(self.limited) if self.limited else nothing
        needed = join_ends(self.needed) if self.needed else limited
        if not self.claims:
            needed = needed.until_decided
        if self.endless:
            needed = nothing
        claims, (one, every, false) = self._power(limited)
        found = summarize(needed, request.costs)
        typical = found["rounds"].typical
        looked = question.separate_claims or (self.fixed is not None and self.fixed.comparisons == 1)
        several = looked and math.isfinite(typical) and typical >= 2  # designs with several looks are standard there
        answered = one or 0.0 if question.separate_claims else float(limited.decided.mean())
        values, times = np.unique(needed.rounds[np.isfinite(needed.rounds)], return_counts=True)
        shares = zip(values.astype(int).tolist(), (times / len(needed.rounds)).tolist(), strict=True)
        return PlanRow(
            **found,
            expected=self.expected,
            runs=len(limited.rounds),
            within_budget=None if request.budget is None else answered,
            wrong=float((~limited.correct).mean()),
            claims=claims,
            at_least_one=one,
            all_true=every,
            any_false=false,
            lower_bound=self.bound,
            fixed=self._fixed(int(typical)) if several else self.fixed,
            quantiles=tuple(quantile(needed.samples, LEVELS)),
            rounds_distribution=tuple(shares),
        )

    def _power(self, ends: Ends) -> tuple[tuple[Power, ...], tuple[float | None, float | None, float | None]]:
        """The power of each claim; of at least one true one; of all of them; and the chance of a false one."""
        question, names = self.request.question, self.request.question.claim_texts(self.request.arms)
        if not names:
            return (), (None, None, None)
        right = np.asarray(question.answer(np.asarray(self.expected.means)), dtype=np.bool_)
        each = zip(names, right.tolist(), ends.shown.mean(axis=0).tolist(), strict=True)
        claims = tuple(Power(claim=name, true=true, power=power) for name, true, power in each)
        true, false = ends.shown[:, right], float(ends.shown[:, ~right].any(axis=-1).mean())
        if not right.any():
            return claims, (None, None, false)
        return claims, (float(true.any(axis=-1).mean()), float(true.all(axis=-1).mean()), false)

    def _fixed(self, looks: int | None = None) -> FixedDesign | None:
        request = self.request
        assumed: dict[str, Any] = {"power": request.power, "deviation": request.deviation, "missing": request.missing}
        return fixed_design(request.problem, self.expected.means, shares=request.split, looks=looks, **assumed)


def run_first(rows: Sequence[RowRuns], runs: int) -> None:
    """A few runs of every row, all rows at once and many rounds taken together: it is steps that take time.

    They are forgotten as soon as a row is run by itself.
    """
    rows = [each for each in rows if not each.idle]
    for row, ends in zip(rows, _run_together(rows, runs, budget=True), strict=True):
        row.limited, row.rough = [ends], True
    beyond = [row for row in rows if row.open]
    for row, ends in zip(beyond, _run_together(beyond, runs, budget=False), strict=True):
        row.needed = [ends]


def _run_together(rows: Sequence[RowRuns], runs: int, budget: bool) -> list[Ends]:
    if not rows:
        return []
    means = [row.expected.means for row in rows]
    ends = simulate_request(rows[0].request, means, runs * len(rows), budget=budget, detail=ROUGH)
    return [ends.row(i, len(rows)) for i in range(len(rows))]


def answerable(request: PlanRequest, expected: Scenario) -> bool:
    """Whether these means have an answer that results can show: no ties, nothing on a level."""
    if request.question.separate_claims:
        return bool(request.question.answer(np.asarray(expected.means)).any()) or request.budget is not None
    return bool(np.isfinite(request.question.complexity(np.asarray(expected.means)).value))
