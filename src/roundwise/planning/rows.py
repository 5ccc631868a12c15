"""The rows of a plan: forecasts at given means, from sets of simulated runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.arrays import Plain
from roundwise.planning.fixed_designs import FixedDesign, fixed_design, lower_bound
from roundwise.planning.forecast import ROUGH, Ends, Forecast, join_ends, no_end, quantile, simulate_request, summarize
from roundwise.planning.request import PlanRequest, Scenario
from roundwise.planning.scenarios import runs_of_list

LEVELS = np.linspace(0.01, 0.99, 99).tolist()
FIRST = 40  # runs of the first numbers
FEWEST = 150  # runs at least, however many rounds there are; of hundreds of arms
FEWEST_ARMS = 15_000  # over their number
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
    """The forecast at these means, until the answer or the end of the budget."""

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
    quantiles: tuple[float, ...]  # of the results until the answer (of claims, the end), at 1 %, 2 %, ... 99 %
    rounds_distribution: tuple[tuple[int, float], ...]  # a number of rounds, and how often it came

    @property
    def ends(self) -> bool:
        """Whether half of the runs end: with a budget, all do."""
        return math.isfinite(self.samples.typical)

    def plain(self) -> Plain:
        """The row as JSON."""
        return {
            "label": self.expected.label,
            "lead": self.expected.lead,
            "relative_lead": self.expected.relative_lead,
            "means": list(self.expected.means),
            "runs": self.runs,
            "samples": vars(self.samples) | {"mean": self.mean_samples},
            "rounds": vars(self.rounds) | {"mean": self.mean_rounds},
            "days": None if self.days is None else vars(self.days),
            "cost": None if self.cost is None else self.cost.typical,
            "cost_p95": None if self.cost is None else self.cost.p95,
            "cost_mean": self.mean_cost,
            "within_budget": self.within_budget,
            "error": self.wrong,
            "claims": [vars(each) for each in self.claims],
            "at_least_one": self.at_least_one,
            "all_true": self.all_true,
            "any_false": self.any_false,
            "lower_bound": self.lower_bound,
            "fixed_design": None if self.fixed is None else dataclasses.asdict(self.fixed),
        }


class RowRuns:
    """The runs of one row, within the budget if there is one."""

    def __init__(self, request: PlanRequest, expected: Scenario) -> None:
        self.request, self.expected = request, expected
        self.sets: list[Ends] = []
        self.rough = False  # whether these are first numbers only
        endless = request.budget is None and not request.policy.stopping.always_ends
        self.idle = endless and not answerable(request, expected)  # runs would never end
        listed = request.list is not None  # bounds and fixed designs are about a population
        self.bound = None if listed else lower_bound(request.problem, expected.means, request.deviation)
        self.fixed = self._fixed_design()

    def run(self, runs: int) -> None:
        """Add runs; fewer where rounds are many."""
        steps = max((each.steps for each in self.sets), default=1)
        fewest = int(np.clip(FEWEST_ARMS // len(self.request.arms), FIRST, FEWEST))
        number = min(runs, max(int(WORK * self._ease / steps), fewest))
        if self.request.list is not None:
            number = runs_of_list(len(self.request.list), len(self.request.arms), number)
        if number <= 0 or self.idle:
            return
        if self.rough:
            self.sets, self.rough = [], False
        self.sets.append(simulate_request(self.request, self.expected.means, number, block=len(self.sets)))

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
        request, question = self.request, self.request.question
        nothing = no_end(len(request.arms), len(question.claim_texts(request.arms)))
        runs = join_ends(self.sets) if self.sets else nothing
        until_decided = runs if question.separate_claims and request.budget is not None else runs.until_decided
        used = runs if request.budget is not None else until_decided
        claims, (one, every, false) = self._power(runs)
        found = summarize(used, request.costs)
        typical = found["rounds"].typical
        looked = question.separate_claims or (self.fixed is not None and self.fixed.comparisons == 1)
        several = looked and math.isfinite(typical) and typical >= 2  # designs with several looks are standard there
        answered = one or 0.0 if question.separate_claims else float(runs.decided.mean())
        values, times = np.unique(used.rounds[np.isfinite(used.rounds)], return_counts=True)
        shares = zip(values.astype(int).tolist(), (times / len(used.rounds)).tolist(), strict=True)
        return PlanRow(
            **found,
            expected=self.expected,
            runs=len(runs.rounds),
            within_budget=None if request.budget is None else answered,
            wrong=float((~runs.correct).mean()),
            claims=claims,
            at_least_one=one,
            all_true=every,
            any_false=false,
            lower_bound=self.bound,
            fixed=self._fixed_design(int(typical)) if several else self.fixed,
            quantiles=tuple(quantile(until_decided.samples, LEVELS)),
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

    def _fixed_design(self, looks: int | None = None) -> FixedDesign | None:
        request = self.request
        if request.list is not None:
            return None
        assumed: dict[str, Any] = {"power": request.power, "deviation": request.deviation, "missing": request.missing}
        return fixed_design(request.problem, self.expected.means, shares=request.split, looks=looks, **assumed)


def run_first(request: PlanRequest, expected: Sequence[Scenario], runs: int) -> list[RowRuns]:
    """A few runs of every row, all rows at once and many rounds taken together: it is steps that take time.

    They are forgotten as soon as a row is run by itself.
    """
    every = [RowRuns(request, each) for each in expected]
    if rows := [each for each in every if not each.idle]:
        if request.list is not None:
            runs = runs_of_list(len(request.list), len(request.arms) * len(rows), runs)
        means = [row.expected.means for row in rows]
        ends = simulate_request(request, means, runs * len(rows), detail=ROUGH)
        for i, row in enumerate(rows):
            row.sets, row.rough = [ends.row(i, len(rows))], True
    return every


def answerable(request: PlanRequest, expected: Scenario) -> bool:
    """Whether these means have an answer that results can show: no ties, nothing on a level."""
    claims_end = request.question.separate_claims and request.budget is not None
    return claims_end or has_answer(request, expected)


def has_answer(request: PlanRequest, expected: Scenario) -> bool:
    """Whether there is something to show with these means: a true claim, or an answer without ties."""
    if request.question.separate_claims:
        return bool(request.question.answer(np.asarray(expected.means)).any())
    return bool(np.isfinite(request.question.complexity(np.asarray(expected.means)).value))
