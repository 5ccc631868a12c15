"""The base class of policies, limits on their batches, and functions that several of them share.

A policy has no hidden state: what it must remember travels in its plan. It samples; its `stopping` rule, a field,
decides when an answer may be given. docs/own.md shows how to write one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, quiet, total, tree_take, tree_where, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, BatchPlan, Declaration, Memory, Record, Trial, ValueTable, join_parts
from roundwise.model.problem import Problem
from roundwise.questions import Complexity
from roundwise.rules import StoppingRule


class Policy(ABC, Generic[Memory]):
    """How to sample: a policy of your own defines `name`, `stopping`, `first` and `next`.

    Attributes:
        name: The name on the command line.
        stopping: The stopping rule, which decides when an answer may be given; usually a field.
        max_batch: The most pulls of a batch, if the policy has such a limit.
        min_per_arm: The least pulls of an arm that is pulled at all.
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

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the policy does not fit the problem; by default, if its stopping rule does not."""
        self.stopping.check(problem)

    @abstractmethod
    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Memory]:
        """Return the first batch of each run; `runs` is the shape before the axis of arms, () for a live study."""

    @abstractmethod
    def next(self, problem: Problem, trial: Trial[Memory]) -> BatchPlan[Memory]:
        """Return the next batch; `trial.plan` is the one just pulled, `trial.batch` what came back for it."""

    def with_limits(self, max_batch: float | None, min_per_arm: float) -> Policy:
        """Return the policy with these limits; by default, each of its plans is pulled in several batches."""
        return Limited(self, max_batch, min_per_arm)

    @property
    def inner(self) -> Policy:
        """The policy itself, without limits around it."""
        return self


class Split(NamedTuple):
    """The plan under way, what is left of it after the planned batch, and what came back for it before that."""

    plan: BatchPlan
    left: Floats  # (K)
    pulled: Batch | None = None  # None before the first batch of all


@dataclass(frozen=True)
class Limited(Policy):
    """At most `max_batch` pulls in a batch, and at least `min_per_arm` of an arm that is pulled at all.

    The stopping rule is asked only when a whole plan of the policy has been pulled, as without limits, and the policy
    is then shown what came back for all of that plan, as one batch.

    Args:
        policy: The policy within.
        max_batch: The most pulls of a batch.
        min_per_arm: The least pulls of an arm that is pulled at all.
    """

    policy: Policy
    max_batch: float | None = None
    min_per_arm: float = 0.0

    @property
    def name(self) -> str:
        """The name of the policy within."""
        return self.policy.name

    @property
    def stopping(self) -> StoppingRule:
        """The stopping rule of the policy within."""
        return self.policy.stopping

    def check(self, problem: Problem) -> None:
        """A batch must have room for every arm."""
        check_room(problem, self.max_batch, self.min_per_arm)
        self.policy.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first part of the first plan."""
        return self._part(self.policy.first(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """The next part of the plan, or the first of the next one."""
        plan, left, pulled = trial.plan.memory
        whole = _together(pulled, trial.batch)
        fresh = self._part(self.policy.next(problem, trial._replace(plan=plan, batch=whole)), _nothing(whole))
        pulls = apportion_pulls(left, self.max_batch, 0.0, so_far=trial.record)
        more = plan._replace(
            pulls=pulls, may_stop=np.zeros_like(plan.may_stop), memory=Split(plan, left - pulls, whole), parts=1
        )
        return tree_where(np.asarray(left.sum(axis=-1) > 0), more._replace(parts=1), fresh._replace(parts=1))

    def _part(self, plan: BatchPlan, pulled: Batch | None = None) -> BatchPlan:
        wanted = np.where(plan.pulls > 0, np.maximum(plan.pulls, math.ceil(self.min_per_arm)), 0.0)
        pulls = apportion_pulls(wanted, self.max_batch, self.min_per_arm)
        return plan._replace(pulls=pulls, memory=Split(plan, wanted - pulls, pulled))

    @property
    def inner(self) -> Policy:
        """The policy within."""
        return self.policy


def _together(pulled: Batch | None, batch: Batch) -> Batch:
    """What came back for a plan before, and with the last batch; without a table if its values were others."""
    if pulled is None or not pulled.counts.any():
        return batch
    if not batch.counts.any():
        return pulled
    one, other = pulled.table, batch.table
    if one is None or other is None or not np.array_equal(one.values, other.values):
        pulled, batch = pulled._replace(table=None), batch._replace(table=None)
    return join_parts([pulled, batch])._replace(parts=None)


def _nothing(like: Batch) -> Batch:
    """No results, in the same detail."""
    table = None if like.table is None else ValueTable(like.table.values, np.zeros_like(like.table.counts))
    scatter = None if like.scatter is None else np.zeros_like(like.scatter)
    return Batch(np.zeros_like(like.counts), np.zeros_like(like.totals), scatter, table)


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


def complexity_within(problem: Problem, means: Floats, radius: ArrayLike, limit: ArrayLike) -> Complexity:
    """The complexity where it may be at most `limit`; infinity where a cheap bound says that it is not."""
    may = problem.floor(means, radius) <= np.asarray(limit, dtype=np.float64)
    value = np.full(may.shape, np.inf)
    weights = np.full(means.shape, 1.0 / means.shape[-1])
    if may.any():
        radius = np.broadcast_to(np.asarray(radius), may.shape)
        value[may], weights[may] = problem.complexity(means[may], radius[may])
    return Complexity(value, weights)


def best_weights(problem: Problem, means: Floats, own: bool) -> Floats:
    """w* at these means: for normal rewards, or with the divergences of the noise model's own family, if it has one."""
    family = problem.noise.family if own else None
    if family is None:
        return problem.complexity(means).weights
    return problem.question.family_complexity(np.clip(means, family.low, family.high), family).weights


@quiet
def within_by_own(problem: Problem, means: Floats, radius: ArrayLike, limit: ArrayLike) -> Complexity:
    """w* with the divergences of the family, and how many samples with it make the evidence 1 all over the ball.

    That is max_j 2 sigma^2 sum_i a_ji^2/w_i / (a_j.mu - b_j - radius |a_j|_1)^2 over the half-spaces of the answer.
    Where there are none, or no family, as `complexity_within`.
    """
    if problem.noise.family is None or problem.question.pieces(problem.arms) is None:
        return complexity_within(problem, means, radius, limit)
    may = problem.floor(means, radius) <= np.asarray(limit, dtype=np.float64)
    value, weights = np.full(may.shape, np.inf), np.full(means.shape, 1.0 / means.shape[-1])
    if may.any():
        mine, near = means[may], np.broadcast_to(np.asarray(radius), may.shape)[may]
        shares = best_weights(problem, mine, True)
        pieces = problem.question.halfspaces(problem.question.answer(mine), problem.arms)
        forms = pieces.dense(problem.arms)
        away = total(forms * mine[:, None, :]) - pieces.offsets - near[:, None] * np.abs(forms).sum(axis=-1)
        spread = total(np.where(forms != 0, forms**2 / shares[:, None, :], 0.0))
        needs = np.where(away > 0, 2 * problem.sigma**2 * spread / away**2, np.inf).max(axis=-1)
        value[may], weights[may] = needs, shares
    return Complexity(value, weights)


def filled(lower: Floats, wanted: Floats, amount: Floats) -> Floats:
    """max(lower, wanted - c) with c such that it adds up to `amount`; `lower` if that is more already."""
    room = np.asarray(amount - total(lower))
    excess = wanted - lower
    cut = _cut(excess.reshape(-1, excess.shape[-1]), room.reshape(-1)).reshape(room.shape)
    cut = np.where(room > 0, cut, np.inf)
    excess -= cut[..., None]
    np.maximum(excess, 0.0, out=excess)
    return np.add(lower, excess, out=excess)


def _cut(excess: Floats, room: Floats) -> Floats:
    """c with sum max(excess - c, 0) = room: it rises to the average over who is above it, until nobody drops out."""
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


def grid_step(first: float, growth: float, step: Floats, samples: Floats) -> Floats:
    """The next step r of the grid first * growth^r that lies after `step` and beyond the samples so far."""
    behind = np.floor(np.log(np.maximum(samples / first, 1.0)) / np.log(growth) + 1e-9)
    return np.maximum(step, behind) + 1


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
        first = _apportioned(np.clip(urgent - least, 0.0, pulls), room, so_far)
    rest = np.maximum(pulls - least - first, 0.0)
    return least + first + _apportioned(rest, room - first.sum(axis=-1), so_far)


def _apportioned(wanted: Floats, room: Floats, so_far: Record | None) -> Floats:
    """Whole numbers in proportion to what is wanted, as many as there is room for; arms that are alike get the same."""
    whole = wanted.sum(axis=-1)
    share = np.minimum(room / np.maximum(whole, 1.0), 1.0)
    given = np.floor(wanted * share[..., None] + 1e-9)
    over = np.minimum(whole, room) - given.sum(axis=-1)
    counts, totals = (np.zeros_like(wanted),) * 2 if so_far is None else (so_far.counts, so_far.totals)
    need = np.where(given < wanted, wanted / (counts + given + 1.0), -1.0)
    return given + ((_places(need, totals) <= over[..., None]) & (need >= 0))


def _places(need: Floats, totals: Floats) -> Floats:
    """How many need as much as each or more; of those that need the same the larger totals come first. (K),(K)->(K)"""
    order = np.lexsort((-totals, -need), axis=-1)
    last = np.ones(need.shape, dtype=np.bool_)  # whether the next one comes after
    for key in (need, totals):
        ordered = np.take_along_axis(key, order, axis=-1)
        last[..., :-1] &= ordered[..., 1:] == ordered[..., :-1]
    last[..., :-1] = ~last[..., :-1]
    ends = np.where(last, np.arange(1.0, need.shape[-1] + 1), np.inf)
    ends = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    places = np.empty(need.shape)
    np.put_along_axis(places, order, ends, axis=-1)
    return places


def check_room(problem: Problem, max_batch: float | None, min_per_arm: float) -> None:
    """Raise an InputError unless a batch has room for every arm, twice where its own spread must be seen."""
    spread = problem.noise.needs == "squares"
    room = problem.arms * max(2 if spread else 1, math.ceil(min_per_arm))
    checked(min_per_arm >= 0, f"`min_per_arm` is {min_per_arm:g}, but must be at least 0.")
    why = ", because the deviation is estimated within each round" if spread else ""
    checked(
        max_batch is None or max_batch >= room,
        f"At most {max_batch} results a round are too few: {problem.arms} arms need at least {room:g}{why}.",
    )


def check_sigma(problem: Problem) -> None:
    """Raise an InputError if the noise model has no known sigma."""
    _ = problem.sigma


def checked(condition: bool, message: str) -> None:
    """Raise an InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)
