"""Designed studies: looks sized for a budget and the smallest lead that matters (docs/designed.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total, tree_where
from roundwise.model.batch import FIRST_PARTS, PARTS
from roundwise.model.problem import BatchPlan, Problem, Trial
from roundwise.policies.base import Policy, apportion_pulls, check_room, checked, everywhere, oriented, whole
from roundwise.policies.wager import Wager
from roundwise.rules.eprocess.designed import EXTENSION_VALUE, LOW_PRICE, DesignedRule
from roundwise.rules.eprocess.designed_cells import DesignedEProcess
from roundwise.rules.eprocess.designed_parts import PARTS_OF_MORE, PARTS_OF_TWO

LOOKS = 5  # the default number
FEW_LOOKS = 3  # up to so many, a look has the least price
LOOKS_AFTER_OPEN = 3  # where looks are said and no lead, at least so many follow the batches spent as without a budget
OPEN = 0.15  # share of the budget that is spent as without one, if no lead is said: large leads show before it is used
LEAST_OPEN = 0.03  # of the budget: no open batch is smaller
ROOM = 2.0  # a look is at most this multiple of what would settle everything, over the looks left


@dataclass(frozen=True)
class Designed(Policy):
    """At most `budget` results in at most `looks` batches, made for the smallest lead that matters.

    Without a lead, large ones must show early: the first 15 % of the budget are spent as `Wager` does, and the
    rest in four batches (at least three, if `looks` are said), for the lead that the budget can just show.

    Args:
        budget: The most results in all.
        lead: The smallest lead that matters, in units of the results; None: the one that the budget can just show.
        looks: The most batches; 5 if there is a lead. A limit on the size of batches may need more.
        price: What a look is worth, as a share of the value of an answer (by default 0.05 for up to three arms or
            three looks, else 0.1).
        extension_value: What one more look after the last is worth; 0 if the budget will never be extended.
        max_batch: The most pulls of a batch.
        min_per_arm: The least pulls of an arm that is pulled at all.

    >>> from roundwise.questions import BestArm
    >>> Designed(budget=1000, lead=0.2).first(Problem(BestArm(), arms=4), runs=()).pulls.tolist()
    [65.0, 65.0, 65.0, 65.0]
    """

    budget: int | None = None
    lead: float | None = None
    looks: int | None = None
    price: float | None = None
    extension_value: float = EXTENSION_VALUE
    max_batch: float | None = None
    min_per_arm: float = 0.0
    name = "designed"
    plans_budget = True

    def __post_init__(self) -> None:
        DesignedRule(lead=self.lead, price=self.price, extension_value=self.extension_value)
        good = self.budget is None or (self.budget >= 1 and float(self.budget).is_integer())
        checked(good, f"`budget` is {self.budget}, but must be a whole number of at least 1.")
        looks = f"`looks` is {self.looks}, but must be a whole number from 1 to 100."
        checked(self.looks is None or (1 <= self.looks <= 100 and float(self.looks).is_integer()), looks)

    @property
    def stopping(self) -> DesignedRule:
        price = LOW_PRICE if self.price is None and (self.looks or LOOKS) <= FEW_LOOKS else self.price
        return DesignedRule(lead=self.lead, price=price, extension_value=self.extension_value)

    def with_design(self, budget: float | None, lead: float | None, looks: int | None) -> Designed:
        return replace(
            self,
            budget=self.budget if budget is None else int(budget),
            lead=self.lead if lead is None else lead,
            looks=self.looks if looks is None else looks,
        )

    def with_limits(self, max_batch: float | None, min_per_arm: float) -> Designed:
        most = self.max_batch if max_batch is None else max_batch
        return replace(self, max_batch=most, min_per_arm=min_per_arm or self.min_per_arm)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        checked(self.budget is not None, "A designed study needs a budget: the largest number of results.")
        check_room(problem, self.max_batch, self.min_per_arm)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        assert self.budget is not None
        cells = self.stopping.eprocess(problem)
        if self._opens(cells, 0):
            plan = self._wager.first(problem, runs)
            if plan.pulls.sum(axis=-1).max() <= OPEN * self.budget:
                return self._open(plan, np.full(runs, float(self.budget)))
        part = self.budget / self._looks * (cells.first if problem.arms > 2 and self._looks > 1 else 1.0)
        part = min(part, self.budget, self.max_batch or math.inf)
        fewest = 2.0 if problem.noise.needs == "squares" else 1.0
        each = max(fewest, math.floor(part / problem.arms + 1e-9), math.ceil(self.min_per_arm))
        pulls = everywhere(runs, problem.arms, each)
        if self._looks == 1:  # all of the budget: a rest would need another look
            pulls[..., : max(int(part - each * problem.arms), 0)] += 1
        plan = self._announce(problem, pulls, np.full(runs, float(self.budget)), np.full(runs, self._looks - 1.0))
        return plan._replace(parts=FIRST_PARTS) if cells.partitions_first_look(problem) else plan

    @property
    def _looks(self) -> int:
        """The number of looks: more than declared where a batch is limited."""
        assert self.budget is not None
        looks = self.looks or LOOKS
        return looks if self.max_batch is None else max(looks, math.ceil(self.budget / self.max_batch))

    def _opens(self, cells: DesignedEProcess, batches: Floats | float) -> Bools:
        """Whether the next batch may be spent as without a budget: there is no lead, and enough looks are left. ()"""
        room = math.inf if self.looks is None else self._looks - LOOKS_AFTER_OPEN
        return np.asarray(self.lead is None and cells.opens) & np.asarray(batches < room)

    @quiet
    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Results that settle everything open, split equally over the looks left; all the rest in the last one."""
        assert self.budget is not None
        left, record = np.maximum(self.budget - trial.record.samples, 0.0), oriented(problem, trial.record)
        cells = self.stopping.eprocess(problem)
        if self.lead is None and self.looks is None and cells.opens:
            looks = np.ceil(left / ((1 - OPEN) * self.budget / max(self._looks - 1, 1)) - 0.05) - 1
        else:
            looks = self._looks - 1 - trial.record.batches
            # beyond those planned (an extension, or rounds that were cut): as many of the usual size as fit
            looks = np.where(looks < 0, np.ceil(left / (self.budget / self._looks) - 1e-9) - 1, looks)
        looks = np.maximum(looks, 0.0)
        lead = self.stopping.planned_lead(problem, trial.kept, trial.record.samples + left)
        settle, alike = cells.settle(problem, trial.kept, lead)
        need = total(settle)
        size = left / (looks + 1)
        if self.lead is not None:
            size = np.where(looks > 0, np.minimum(size, ROOM * need / (looks + 1)), left)
        size = np.where((size < 1) | (need <= 0), left / (looks + 1), size)
        alike = alike / np.maximum(total(alike), 1e-300)[..., None]
        needed = np.where(need[..., None] > 0, settle / np.maximum(need, 1e-300)[..., None], alike)
        wanted = whole(size[..., None] * (cells.uniform * alike + (1 - cells.uniform) * needed))
        most = np.minimum(np.minimum(np.ceil(size), left), self.max_batch or math.inf)
        pulls = apportion_pulls(wanted, most, self.min_per_arm, so_far=record)
        plan = self._announce(problem, pulls, left, looks)
        room = np.maximum(OPEN * self.budget - trial.record.samples, 0.0)
        open_ = self._opens(cells, trial.record.batches) & (room >= LEAST_OPEN * self.budget)
        open_ = open_ & np.asarray(trial.plan.looks == np.inf)
        if not open_.any():
            return plan
        other = self._wager.next(problem, trial)
        other = other._replace(pulls=apportion_pulls(other.pulls, room, self.min_per_arm, so_far=record))
        plan = plan._replace(parts=max(plan.parts, other.parts), jump=other.jump)
        return tree_where(open_, self._open(other._replace(parts=plan.parts), left), plan)

    @property
    def _wager(self) -> Wager:
        return Wager(stopping=self.stopping, max_batch=self.max_batch, min_per_arm=self.min_per_arm)

    def _open(self, plan: BatchPlan, left: Floats) -> BatchPlan:
        """A plan that is bet on as without a budget: the looks that follow are not counted yet."""
        never = np.zeros(left.shape, dtype=np.bool_)
        return plan._replace(left=left - total(plan.pulls), last=never, looks=np.full(left.shape, np.inf))

    def _announce(self, problem: Problem, pulls: Floats, left: Floats, looks: Floats) -> BatchPlan:
        """A plan that declares, before its results, the remaining budget and whether it is the last."""
        parts = PARTS if self.lead is None else PARTS_OF_TWO if problem.arms == 2 else PARTS_OF_MORE
        parts = min(parts, problem.noise.most_parts) if problem.noise.looks_in_parts else 1
        after = np.maximum(left - total(pulls), 0.0)
        last = (looks <= 0) | (after < 1) | (total(pulls) <= 0)
        may_stop = np.ones(left.shape, dtype=np.bool_)
        looks = np.where(last, 0.0, looks)
        return BatchPlan(pulls, may_stop, parts=parts, left=after, last=np.asarray(last), looks=looks)
