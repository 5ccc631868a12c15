"""The base classes of policies, limits and budgets around a policy, and functions that several policies share.

A policy has no hidden state: what it must remember travels in its plan. It samples; its `stopping` rule, a field,
decides when an answer may be given. docs/own.md shows how to write one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, quiet, total, tree_map, tree_take, tree_where, zeros
from roundwise.errors import InputError
from roundwise.model.batch import PARTS, Batch, join_parts
from roundwise.model.problem import BatchPlan, Declaration, Memory, Problem, Record, Trial
from roundwise.questions import BestArm, Complexity
from roundwise.questions.base import RankingQuestion
from roundwise.rules import StoppingRule

if TYPE_CHECKING:
    from roundwise.rules.finite.known import KnownColumns

LOOKS = 10  # rounds that a budget is cut into, where a policy looks ahead to it and no size is given


class Policy(ABC, Generic[Memory]):
    """The base class of sampling policies: a subclass defines `name`, `stopping`, `first` and `next`.

    Attributes:
        name: The name on the command line.
        stopping: The stopping rule, which decides when an answer may be given; usually a field.
        max_batch: The most pulls of a batch, if the policy has such a limit.
        min_per_arm: The least pulls of an arm that is pulled at all.
        needs_sigma: Whether the noise model must have a known sigma.
        live_parts: Into how many parts later rounds of a live study are cut, if the first one is.
    """

    if TYPE_CHECKING:  # fields or class attributes of each policy

        @property
        def name(self) -> str:
            """The name on the command line."""

        @property
        def stopping(self) -> StoppingRule:
            """When an answer may be given."""

    max_batch: float | None = None
    min_per_arm: float = 0.0
    needs_sigma: ClassVar[bool] = False
    live_parts: ClassVar[int] = PARTS  # of a later batch of a live study, if its first one is bet on in parts
    looks: int | None = None  # the largest planned number of batches, if declared
    plans_budget: ClassVar[bool] = False  # whether it sizes its batches for a budget by itself

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the policy, or its stopping rule, does not fit the problem.

        Args:
            problem: The problem to be solved.
        """
        if self.needs_sigma:
            _ = problem.sigma  # an InputError where it is unknown
            one = problem.noise.arm_sigmas is None or not problem.question.needs_one_sigma
            checked(one, f"'{self.name}' answers '{problem.question.name}' only if all arms have one sigma.")
        self.stopping.check(problem)

    @abstractmethod
    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Memory]:
        """Return the first batch of each run; `runs` is the shape before the axis of arms, () for a live study.

        Args:
            problem: The problem to be solved.
            runs: The shape of independent runs, () for one experiment.

        Returns:
            The plan of the first batch.
        """

    @abstractmethod
    def next(self, problem: Problem, trial: Trial[Memory]) -> BatchPlan[Memory]:
        """Return the next batch; `trial.plan` is the one just pulled, `trial.batch` its results.

        Args:
            problem: The problem to be solved.
            trial: The trial after the last batch.

        Returns:
            The plan of the next batch.
        """

    def with_limits(self, max_batch: float | None, min_per_arm: float) -> Policy:
        """Return the policy with these limits; by default, each of its plans is pulled in several batches."""
        return Limited(self, max_batch, min_per_arm)

    def with_design(self, budget: float | None, lead: float | None, looks: int | None) -> Policy:
        """Return the policy made for a budget, a lead and a number of looks; by default it does not mind a budget."""
        checked(lead is None, f"A lead goes with the policy 'designed' and a budget, not with '{self.name}'.")
        checked(looks is None, f"A number of looks goes with the policies 'wager' and 'designed', not '{self.name}'.")
        return self

    def with_list(
        self, size: int, strict: bool, known: KnownColumns | None = None, max_cost: float | None = None
    ) -> Policy:
        """Return the policy for a finite list of this many items; by default there is none."""
        raise InputError(f"A list has its own policy, 'lockstep': leave out '{self.name}'.")

    def missing_entries(self, problem: Problem, trial: Trial[Memory]) -> Bools | None:
        """For a list, the results of the planned batch that are not recorded yet, (places, K); None without a list."""
        return None

    @property
    def inner(self) -> Policy:
        """The policy itself, without limits around it."""
        return self


class RankingPolicy(Policy[Memory]):
    """A policy for the best arms: best arm and, with `sets`, top-k.

    Where lower is better, it works with negated means (`oriented`).
    """

    sets: ClassVar[bool] = True
    tolerant: ClassVar[bool] = False  # whether a tolerance is allowed
    needs_sigma = True

    def check(self, problem: Problem) -> None:
        super().check(problem)
        question = problem.question
        fits = question.number_sought is not None and (self.sets or question.name == BestArm.name)
        answers = "'best-arm' and 'top-k'" if self.sets else "'best-arm'"
        checked(fits, f"The policy '{self.name}' answers {answers} only, not '{question.name}'.")
        one = f"The policy '{self.name}' is proved for one right answer: it takes no tolerance."
        checked(self.tolerant or not question.tolerance, one)


@dataclass(frozen=True)
class WrappedPolicy(Policy):
    """A policy around another one, whose name and stopping rule it has."""

    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def stopping(self) -> StoppingRule:
        return self.policy.stopping

    def with_design(self, budget: float | None, lead: float | None, looks: int | None) -> Policy:
        return replace(self, policy=self.policy.with_design(budget, lead, looks))


class Split(NamedTuple):
    """The current plan, the part left after the planned batch, and the results so far."""

    plan: BatchPlan
    left: Floats  # (K)
    pulled: Batch | None = None  # None before the first batch of all


@dataclass(frozen=True)
class Limited(WrappedPolicy):
    """At most `max_batch` pulls in a batch, and at least `min_per_arm` of an arm that is pulled at all.

    The stopping rule is asked only when a whole plan of the policy has been pulled, as without limits, and the policy
    then sees all results of that plan as one batch.

    Args:
        policy: The wrapped policy.
        max_batch: The most pulls of a batch.
        min_per_arm: The least pulls of an arm that is pulled at all.
    """

    max_batch: float | None = None
    min_per_arm: float = 0.0

    def check(self, problem: Problem) -> None:
        check_room(problem, self.max_batch, self.min_per_arm)
        self.policy.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        return self._first_part(self.policy.first(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        plan, left, pulled = trial.plan.memory
        whole = _join(pulled, trial.batch)
        nothing = tree_map(np.zeros_like, whole)
        if whole.table is not None:
            nothing = nothing._replace(table=nothing.table._replace(values=whole.table.values))
        fresh = self._first_part(self.policy.next(problem, trial._replace(plan=plan, batch=whole)), nothing)
        pulls = apportion_pulls(left, self.max_batch, 0.0, so_far=oriented(problem, trial.record))
        more = plan._replace(
            pulls=pulls, may_stop=np.zeros_like(plan.may_stop), memory=Split(plan, left - pulls, whole), parts=1
        )
        return tree_where(np.asarray(left.sum(axis=-1) > 0), more, fresh._replace(parts=1))

    def _first_part(self, plan: BatchPlan, pulled: Batch | None = None) -> BatchPlan:
        wanted = np.where(plan.pulls > 0, np.maximum(plan.pulls, math.ceil(self.min_per_arm)), 0.0)
        pulls = apportion_pulls(wanted, self.max_batch, self.min_per_arm)
        return plan._replace(pulls=pulls, memory=Split(plan, wanted - pulls, pulled))

    @property
    def inner(self) -> Policy:
        return self.policy


def _join(pulled: Batch | None, batch: Batch) -> Batch:
    """What came back for a plan before, and with the last batch; without a table if its values were others."""
    if pulled is None or not pulled.counts.any():
        return batch
    if not batch.counts.any():
        return pulled
    one, other = pulled.table, batch.table
    if one is None or other is None or not np.array_equal(one.values, other.values):
        pulled, batch = pulled._replace(table=None), batch._replace(table=None)
    return join_parts([pulled, batch])._replace(parts=None)


class RoundState(NamedTuple):
    """The plan of the policy within, and whether a plan of it was ever cut."""

    plan: BatchPlan
    cut: Bools  # ()


@dataclass(frozen=True)
class Rounds(WrappedPolicy):
    """A policy within a budget, in rounds of one size, with a fixed split; each only if given.

    Every plan says how many results are left after it, and whether it is the last one, before it is pulled. A rest at
    the end that is less than half a round is added to the last one.

    Args:
        policy: The wrapped policy.
        budget: The most results in all.
        round_size: How many results each batch has.
        split: The shares of the arms in all results.
        announced: Whether plans say how many results are left; if not, they are only cut off.
        max_cost: The most that all results may cost.
        prices: Of a result of each arm, for `max_cost`.

    >>> from roundwise.policies.wager import Wager
    >>> Rounds(Wager(), budget=100, split=(2, 1)).first(Problem(BestArm(), arms=2), runs=()).pulls.tolist()
    [40.0, 20.0]
    """

    budget: float | None = None
    round_size: float | None = None
    split: tuple[float, ...] | None = None
    announced: bool = True
    max_cost: float | None = None
    prices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("round_size", self.round_size)):
            good = value is None or (value >= 1 and float(value).is_integer())
            checked(good, f"`{name}` is {value}, but must be a whole number of at least 1.")
        if self.split is not None:
            object.__setattr__(self, "split", tuple(float(each) for each in self.split))
            good = all(each >= 0 and math.isfinite(each) for each in self.split) and any(self.split)
            checked(good, f"`split` is {self.split}, but must be numbers of at least 0, for example 2:1:1.")

    def check(self, problem: Problem) -> None:
        self.policy.check(problem)
        checked(
            self.stopping.any_time or (self.round_size is None and self.split is None),
            f"The policy '{self.name}' plans its own rounds: a size or a split goes with a policy that may look "
            "after any round, such as 'wager'.",
        )
        if self.split is not None:
            given = len(self.split)
            checked(given == problem.arms, f"The split has {given} shares, but there are {problem.arms} arms.")
        room = problem.arms * (2 if problem.noise.estimates_variance else 1)
        for what, most in (("budget", self.budget), ("round_size", self.round_size)):
            few = self.announced and most is not None and most < room
            checked(not few, f"The {what} is {most} results, but {problem.arms} arms need {room}.")

    @property
    def size(self) -> float | None:
        """How many results a round has, if that is fixed."""
        if self.round_size is not None or self.budget is None or not self._looks_ahead or self.policy.plans_budget:
            return self.round_size
        return max(1.0, math.ceil(self.budget / LOOKS))

    @property
    def _looks_ahead(self) -> bool:
        return self.announced and self.stopping.uses_budget

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        nothing = np.zeros((*runs, problem.arms))
        record = Record(nothing, nothing, np.zeros(runs))
        return self._fit(self.policy.first(problem, runs), record, np.zeros(runs, dtype=np.bool_))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        plan = self.policy.next(problem, trial._replace(plan=self.own_plan(trial.plan)))
        return self._fit(plan, oriented(problem, trial.record), trial.plan.memory.cut)

    def own_plan(self, plan: BatchPlan) -> BatchPlan:
        """The wrapped policy's own plan, with the budget that is left."""
        own: BatchPlan = plan.memory.plan
        return own._replace(left=plan.left, last=plan.last, looks=plan.looks)

    def again(self, plan: BatchPlan, record: Record) -> BatchPlan:
        """A plan that was made for another budget, kept within this one."""
        own, cut = round_of(plan)
        before = cut & (own.pulls == plan.pulls).all(axis=-1)  # if this one was cut, none was before it
        return self._fit(own, record, np.asarray(before))

    def asked(self, plan: BatchPlan, record: Record, pulls: Floats) -> BatchPlan:
        """A plan whose batch was asked for with these pulls: what is left after them, and whether they are the last.

        Only rules that look ahead need it.
        """
        if self.budget is None or not self._looks_ahead:
            return plan
        after = np.maximum(self.budget - record.samples - pulls.sum(axis=-1), 0.0)
        own = round_of(plan).plan.last
        last = np.asarray(after <= 0 if own is None else own | (after <= 0))
        return plan._replace(pulls=pulls, left=after, last=last)

    def _fit(self, plan: BatchPlan, record: Record, cut: Bools) -> BatchPlan:
        """A plan of the policy within, brought to the size, the split and the budget."""
        left = np.full(record.samples.shape, np.inf)
        if self.budget is not None:
            left = np.maximum(self.budget - record.samples, 0.0)
        pulls, size = plan.pulls, self.size
        room = np.minimum(pulls.sum(axis=-1) if size is None else float(size), left)
        if size is not None:
            room = np.where(left < 1.5 * size, left, room)
        if self.split is not None:
            shares = np.asarray(self.split)
            pulls = _fill(shares / shares.sum() * (record.samples + room)[..., None] - record.counts, room)
        elif size is not None:
            pulls = _fill(pulls, room)
        elif (pulls.sum(axis=-1) > room).any():
            pulls = apportion_pulls(pulls, room, 0.0, so_far=record)
        if self.max_cost is not None:
            wanted = pulls.sum(axis=-1) > 0
            pulls = self._afford(self.max_cost, pulls, record)
            plan = plan._replace(last=np.asarray(wanted & (pulls.sum(axis=-1) == 0)))
        declared = plan.declared
        if declared is not None:  # its proof does not cover a batch that was cut
            declared = declared._replace(made=declared.made & ~cut)
        memory = RoundState(plan, np.asarray(cut | (pulls != plan.pulls).any(axis=-1)))
        found = plan._replace(pulls=pulls, memory=memory, declared=declared)
        if self.budget is None:
            return found
        number = pulls.sum(axis=-1)
        after = np.maximum(left - number, 0.0)
        last = (after <= 0) | ((number <= 0) & (plan.pulls.sum(axis=-1) > 0))  # too few are left for a batch
        if size is not None:
            found = found._replace(looks=np.where(last, 0.0, np.maximum(np.floor(after / size + 0.5), 1.0)))
        elif plan.last is not None:
            last = last | plan.last
        found = found._replace(last=np.asarray(last))
        return found._replace(left=after) if self.announced else found

    def _afford(self, max_cost: float, pulls: Floats, record: Record) -> Floats:
        """As many of the pulls as the rest of the money pays for, the same share of each arm; none without all arms."""
        prices = np.asarray(self.prices)
        left, cost = np.maximum(max_cost - record.counts @ prices, 0.0), pulls @ prices
        share = np.minimum(left / np.maximum(cost, 1e-300), 1.0)[..., None]
        found = np.floor(pulls * share + 1e-9)
        return np.where(((found > 0) | (pulls == 0)).all(axis=-1, keepdims=True), found, 0.0)


def as_rounds(policy: Policy) -> Rounds:
    """The policy as one in rounds: as it is, or with no limits."""
    return policy if isinstance(policy, Rounds) else Rounds(policy)


def round_of(plan: BatchPlan) -> RoundState:
    """The wrapped policy's plans, and whether any of them was cut."""
    return plan.memory if isinstance(plan.memory, RoundState) else RoundState(plan, np.zeros_like(plan.may_stop))


def _fill(wanted: Floats, room: Floats) -> Floats:
    """Whole numbers in proportion to what is wanted that add up to the room: the largest rests are rounded up. (K)"""
    wanted = np.maximum(wanted, 0.0)
    exact = wanted * (room[..., None] / np.maximum(total(wanted), 1e-300)[..., None])
    given = np.floor(exact + 1e-9)
    rest = np.where(wanted > 0, exact - given, -1.0)
    place = np.argsort(np.argsort(-rest, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(given + (place < (room - given.sum(axis=-1))[..., None]))


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
    checked(0 not in found, "The split leaves an arm without any result: give every arm a share above 0.")
    one_each = f"The split has {len(found)} shares, but there are {arms} arms: give one for each."
    checked(len(found) == arms, one_each)
    return found


# --- functions that several policies share


def whole(pulls: Floats) -> Floats:
    """Pulls rounded up to whole numbers, but not for a rounding error."""
    rounded = np.asarray(pulls - 1e-6)
    np.ceil(rounded, out=rounded)
    return np.maximum(rounded, 0.0, out=rounded)


def everywhere(runs: tuple[int, ...], arms: int, pulls: float) -> Floats:
    """The same number of pulls for every arm in every run."""
    return zeros((*runs, arms)) + pulls


def undeclared(problem: Problem, runs: tuple[int, ...]) -> Declaration:
    """No answer yet, for policies that stop by their own rule."""
    nothing = np.zeros((*runs, problem.arms))
    return Declaration(np.zeros(runs, dtype=np.bool_), problem.question.answer(nothing))


def ranking(problem: Problem) -> RankingQuestion:
    """The question, which asks for the best arms."""
    question = problem.question
    if not isinstance(question, RankingQuestion):
        raise InputError(f"The question '{question.name}' does not ask for the best arms.")
    return question


def oriented(problem: Problem, record: Record) -> Record:
    """The record with means such that larger ones are better: negated where lower is better."""
    return record._replace(totals=problem.question.merits(record.totals))


def batch_merits(problem: Problem, batch: Batch) -> Floats:
    """The means of one batch, negated where lower is better; 0 for an arm without results. (K)"""
    return problem.question.merits(batch.totals / np.maximum(batch.counts, 1.0))


def best_weights(problem: Problem, means: Floats, kl_weights: bool) -> Floats:
    """w* at these means: for normal rewards, or with the divergences of the noise model's own family, if it has one."""
    family = problem.noise.family if kl_weights else None
    if family is None:
        return problem.complexity(means).weights
    return problem.question.family_complexity(np.clip(means, family.low, family.high), family).weights


@quiet
def complexity_within(
    problem: Problem, means: Floats, radius: ArrayLike, limit: ArrayLike, kl_weights: bool = False
) -> Complexity:
    """The complexity over a ball where it may be at most `limit`; infinity where a cheap bound says that it is not.

    With `kl_weights`, where the noise model has a family: w* with the divergences of that family, and how many
    samples with it make the evidence 1 all over the ball. That is max_j 2 sigma^2 sum_i a_ji^2/w_i / (a_j.mu - b_j -
    radius |a_j|_1)^2 over the half-spaces of the answer.
    """
    may = problem.floor(means, radius) <= np.asarray(limit, dtype=np.float64)
    value, weights = np.full(may.shape, np.inf), np.full(means.shape, 1.0 / means.shape[-1])
    if not may.any():
        return Complexity(value, weights)
    mine, near = means[may], np.broadcast_to(np.asarray(radius), may.shape)[may]
    if not kl_weights or problem.noise.family is None or problem.question.pieces(problem.arms) is None:
        value[may], weights[may] = problem.complexity(mine, near)
        return Complexity(value, weights)
    weights[may] = best = best_weights(problem, mine, kl_weights=True)
    pieces = problem.question.halfspaces(problem.question.answer(mine), problem.arms)
    forms = pieces.dense(problem.arms)
    away = total(forms * mine[:, None, :]) - pieces.offsets - near[:, None] * np.abs(forms).sum(axis=-1)
    spread = total(np.where(forms != 0, forms**2 / best[:, None, :], 0.0))
    value[may] = np.where(away > 0, 2 * problem.sigma**2 * spread / away**2, np.inf).max(axis=-1)
    return Complexity(value, weights)


def filled(lower: Floats, wanted: Floats, amount: Floats) -> Floats:
    """max(lower, wanted - c) with c such that it adds up to `amount`; `lower` if that is more already."""
    room = np.asarray(amount - total(lower))
    excess = wanted - lower
    cut = _cut(excess.reshape(-1, excess.shape[-1]), room.reshape(-1)).reshape(room.shape)
    excess -= np.where(room > 0, cut, np.inf)[..., None]
    np.maximum(excess, 0.0, out=excess)
    return np.add(lower, excess, out=excess)


def _cut(excess: Floats, room: Floats) -> Floats:
    """c with sum max(excess - c, 0) = room: it rises to the average over the arms above it, until none drops out."""
    cut = (total(excess) - room) / excess.shape[-1]
    left, least = np.arange(len(cut)), cut
    while True:
        above = excess > least[:, None]
        higher = (total(above * excess) - room) / np.maximum(above.sum(axis=-1), 1)
        rising = np.flatnonzero(higher > least)
        if not rising.size:
            return cut
        left, least = left[rising], higher[rising]
        cut[left] = least
        excess, room = tree_take((excess, room), rising)


def apportion_pulls(
    pulls: Floats,
    max_batch: float | Floats | None,
    min_per_arm: float,
    urgent: Floats | None = None,
    so_far: Record | None = None,
) -> Floats:
    """At least the minimum of each arm that is pulled, then what is urgent, then as much of the rest as there is room.

    What does not come out even goes to the arms with the fewest results `so_far` for what they want. (K)->(K)
    """
    least = np.where(pulls > 0, math.ceil(min_per_arm), 0.0)
    if max_batch is None:
        return np.maximum(pulls, least)
    room = np.maximum(np.floor(max_batch) - least.sum(axis=-1), 0.0)
    first = np.zeros_like(pulls)
    if urgent is not None:
        first = _apportion(np.clip(urgent - least, 0.0, pulls), room, so_far)
    rest = np.maximum(pulls - least - first, 0.0)
    return least + first + _apportion(rest, room - first.sum(axis=-1), so_far)


def _apportion(wanted: Floats, room: Floats, so_far: Record | None) -> Floats:
    """Whole numbers in proportion to what is wanted, as many as there is room for; arms that are alike get the same."""
    amount = wanted.sum(axis=-1)
    share = np.minimum(room / np.maximum(amount, 1.0), 1.0)
    given = np.floor(wanted * share[..., None] + 1e-9)
    over = np.minimum(amount, room) - given.sum(axis=-1)
    counts, totals = (np.zeros_like(wanted),) * 2 if so_far is None else (so_far.counts, so_far.totals)
    need = np.where(given < wanted, wanted / (counts + given + 1.0), -1.0)
    # the place of an arm is how many need as much or more; of those that need the same the larger totals come first
    order = np.lexsort((-totals, -need), axis=-1)
    ends = np.ones(need.shape, dtype=np.bool_)  # whether the next one comes after
    for key in (need, totals):
        ordered = np.take_along_axis(key, order, axis=-1)
        ends[..., :-1] &= ordered[..., 1:] == ordered[..., :-1]
    ends[..., :-1] = ~ends[..., :-1]
    ranks = np.where(ends, np.arange(1.0, need.shape[-1] + 1), np.inf)
    places = np.empty(need.shape)
    np.put_along_axis(places, order, np.minimum.accumulate(ranks[..., ::-1], axis=-1)[..., ::-1], axis=-1)
    return given + ((places <= over[..., None]) & (need >= 0))


def check_room(problem: Problem, max_batch: float | None, min_per_arm: float) -> None:
    """Raise an InputError unless a batch has room for every arm, twice where its own spread must be seen."""
    spread = problem.noise.estimates_variance
    room = problem.arms * max(2 if spread else 1, math.ceil(min_per_arm))
    checked(min_per_arm >= 0, f"`min_per_arm` is {min_per_arm:g}, but must be at least 0.")
    why = ", because the deviation is estimated within each round" if spread else ""
    few = f"At most {max_batch} results per round are too few: {problem.arms} arms need at least {room:g}{why}."
    checked(max_batch is None or max_batch >= room, few)


def checked(condition: bool, message: str) -> None:
    """Raise an InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)
