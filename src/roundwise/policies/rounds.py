"""A policy within a budget, in rounds of one size, with a fixed split: the same in simulations and in studies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.model.batch import BatchPlan, Record, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, apportion_pulls, checked
from roundwise.rules import StoppingRule

LOOKS = 10  # rounds that a budget is cut into, where a policy looks ahead to it and nothing else is said


class RoundState(NamedTuple):
    """The plan of the policy within, and whether a plan of it was ever cut."""

    plan: BatchPlan
    cut: Bools  # ()


@dataclass(frozen=True)
class Rounds(Policy):
    """A policy within a budget, in rounds of one size, with a fixed split; each only if given.

    Every plan says how many results are left after it, and whether it is the last one, before it is pulled. A rest at
    the end that is less than half a round is added to the last one.

    Args:
        policy: The policy within.
        budget: The most results in all.
        round: How many results each batch has.
        split: The shares of the arms in all results.
        told: Whether plans say how many results are left; if not, they are only cut off.

    >>> from roundwise.policies.wager import Wager
    >>> from roundwise.questions import BestArm
    >>> Rounds(Wager(), budget=100, split=(2, 1)).first(Problem(BestArm(), arms=2), runs=()).pulls.tolist()
    [40.0, 20.0]
    """

    policy: Policy
    budget: float | None = None
    round: float | None = None
    split: tuple[float, ...] | None = None
    told: bool = True

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("round", self.round)):
            good = value is None or (value >= 1 and float(value).is_integer())
            checked(good, f"`{name}` is {value}, but must be a whole number of at least 1.")
        if self.split is not None:
            object.__setattr__(self, "split", tuple(float(each) for each in self.split))
            good = all(each >= 0 and math.isfinite(each) for each in self.split) and any(self.split)
            checked(good, f"`split` is {self.split}, but must be numbers of at least 0, for example 2:1:1.")

    @property
    def name(self) -> str:
        """The name of the policy within."""
        return self.policy.name

    @property
    def stopping(self) -> StoppingRule:
        """The stopping rule of the policy within."""
        return self.policy.stopping

    def check(self, problem: Problem) -> None:
        """A rule that may be asked after any batch; a share for every arm; room for all of them."""
        self.policy.check(problem)
        checked(
            self.stopping.any_time or (self.round is None and self.split is None),
            f"The policy '{self.name}' has rounds of its own: a size or a split goes with a policy that may look "
            "after any round, such as 'wager'.",
        )
        if self.split is not None:
            given = len(self.split)
            checked(given == problem.arms, f"The split has {given} shares, but there are {problem.arms} arms.")
        room = problem.arms * (2 if problem.noise.needs == "squares" else 1)
        for what, most in (("budget", self.budget), ("round", self.round)):
            few = self.told and most is not None and most < room
            checked(not few, f"The {what} is {most} results, but {problem.arms} arms need {room}.")

    @property
    def size(self) -> float | None:
        """How many results a round has, if that is fixed."""
        if self.round is not None or self.budget is None or not (self.told and self.stopping.uses_budget):
            return self.round
        return max(1.0, math.ceil(self.budget / LOOKS))

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first round."""
        nothing = np.zeros((*runs, problem.arms))
        record = Record(nothing, nothing, np.zeros(runs))
        return self._within(self.policy.first(problem, runs), record, np.zeros(runs, dtype=np.bool_))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """The next round of what the policy plans."""
        plan = self.policy.next(problem, trial._replace(plan=self.own_plan(trial.plan)))
        return self._within(plan, trial.record, trial.plan.memory.cut)

    def own_plan(self, plan: BatchPlan) -> BatchPlan:
        """The plan of the policy within, as that policy sees it: with what is left of the budget."""
        own: BatchPlan = plan.memory.plan
        return own._replace(left=plan.left, last=plan.last)

    def again(self, plan: BatchPlan, record: Record) -> BatchPlan:
        """A plan that was made for another budget, kept within this one."""
        own, cut = round_of(plan)
        before = cut & (own.pulls == plan.pulls).all(axis=-1)  # if this one was cut, none was before it
        return self._within(own, record, np.asarray(before))

    def asked(self, plan: BatchPlan, record: Record, pulls: Floats) -> BatchPlan:
        """A plan whose batch was asked for with these pulls: what is left after them, and whether they are the last.

        Only for rules that look ahead: what others make of a batch has nothing to do with what is left.
        """
        if self.budget is None or not (self.told and self.stopping.uses_budget):
            return plan
        after = np.maximum(self.budget - record.samples - pulls.sum(axis=-1), 0.0)
        own = round_of(plan).plan.last
        last = np.asarray(after <= 0 if own is None else own | (after <= 0))
        return plan._replace(pulls=pulls, left=after, last=last)

    def _within(self, plan: BatchPlan, record: Record, cut: Bools) -> BatchPlan:
        """A plan of the policy, kept within all this."""
        left = np.full(record.samples.shape, np.inf)
        if self.budget is not None:
            left = np.maximum(self.budget - record.samples, 0.0)
        wanted = plan.pulls.sum(axis=-1) if self.size is None else np.full(left.shape, float(self.size))
        room = np.minimum(wanted, left)
        if self.size is not None:
            room = np.where(left < 1.5 * self.size, left, room)
        pulls = plan.pulls
        if self.split is not None:
            shares = np.asarray(self.split)
            pulls = _filled(shares / shares.sum() * (record.samples + room)[..., None] - record.counts, room)
        elif self.size is not None:
            pulls = _filled(plan.pulls, room)
        elif self.budget is not None:
            pulls = limited_to(plan.pulls, room, record)
        declared = plan.declared
        if declared is not None:  # what is proved of its own batches does not hold of one that was cut
            declared = declared._replace(made=declared.made & ~cut)
        memory = RoundState(plan, np.asarray(cut | (pulls != plan.pulls).any(axis=-1)))
        if self.budget is None:
            return plan._replace(pulls=pulls, memory=memory, declared=declared)
        after = np.maximum(left - pulls.sum(axis=-1), 0.0)
        last = (after <= 0) | (
            (pulls.sum(axis=-1) <= 0) & (plan.pulls.sum(axis=-1) > 0)
        )  # too few are left for a batch
        last = np.asarray(last if plan.last is None else plan.last | last)
        plan = plan._replace(pulls=pulls, memory=memory, declared=declared, last=last)
        return plan._replace(left=after) if self.told else plan


def as_rounds(policy: Policy) -> Rounds:
    """The policy as one in rounds: as it is, or with nothing that is given."""
    return policy if isinstance(policy, Rounds) else Rounds(policy)


def round_of(plan: BatchPlan) -> RoundState:
    """What the policy within planned, and whether any of its plans was cut."""
    return plan.memory if isinstance(plan.memory, RoundState) else RoundState(plan, np.zeros_like(plan.may_stop))


def limited_to(pulls: Floats, room: Floats, record: Record) -> Floats:
    """The pulls, cut where there is less room. (K),()->(K)"""
    short = pulls.sum(axis=-1) > room
    if not short.any():
        return pulls
    found = pulls.copy()
    of = Record(record.counts[short], record.totals[short], np.asarray(record.batches)[short])
    found[short] = apportion_pulls(pulls[short], room[short], 0.0, so_far=of)
    return found


def _filled(wanted: Floats, room: Floats) -> Floats:
    """Whole numbers in proportion to what is wanted that add up to the room: the largest rests are rounded up. (K)"""
    wanted = np.maximum(wanted, 0.0)
    whole = np.maximum(total(wanted), 1e-300)[..., None]
    exact = wanted * (room[..., None] / whole)
    given = np.floor(exact + 1e-9)
    over = room - given.sum(axis=-1)
    rest = np.where(wanted > 0, exact - given, -1.0)
    order = np.argsort(-rest, axis=-1, kind="stable")
    place = np.argsort(order, axis=-1, kind="stable")
    return np.asarray(given + (place < over[..., None]))


def shares(split: Sequence[float] | str | None, arms: int) -> tuple[float, ...] | None:
    """The shares of a split: "equal", "2:1:1", or numbers.

    >>> shares("2:1:1", 3)
    (2.0, 1.0, 1.0)
    """
    if split is None:
        return None
    if isinstance(split, str):
        text = split.strip()
        if text == "equal":
            return (1.0,) * arms
        try:
            split = [float(each) for each in text.replace(",", ":").split(":")]
        except ValueError:
            raise InputError(f"The split is '{text}', but must be 'equal' or shares such as 2:1:1.") from None
    found = tuple(float(each) for each in split)
    if any(each == 0 for each in found):
        raise InputError("The split leaves an arm without any result: give every arm a share above 0.")
    if len(found) != arms:
        raise InputError(f"The split has {len(found)} shares, but there are {arms} arms: give one for each.")
    return found
