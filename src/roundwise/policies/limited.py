"""A policy whose batches are kept within limits: each of its plans is pulled in as many batches as it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.policies.base import Policy, checked
from roundwise.problem import Problem
from roundwise.record import Plan, Trial
from roundwise.runs import Floats, merged
from roundwise.stopping import Stopping


class Split(NamedTuple):
    """The plan under way, and what is left of it after the planned batch."""

    plan: Plan
    left: Floats  # (K)


@dataclass(frozen=True)
class Limited:
    """At most `max_batch` pulls in a batch, and at least `min_per_arm` of an arm that is pulled at all.

    The stopping rule is asked only when a whole plan of the policy has been pulled, as without limits.
    """

    policy: Policy
    max_batch: float | None = None
    min_per_arm: float = 0.0

    @property
    def name(self) -> str:
        """The name of the policy within."""
        return self.policy.name

    @property
    def stopping(self) -> Stopping:
        """The stopping rule of the policy within."""
        return self.policy.stopping

    def check(self, problem: Problem) -> None:
        """A batch must have room for every arm."""
        check_room(problem, self.max_batch, self.min_per_arm)
        self.policy.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan:
        """The first part of the first plan."""
        return self._part(self.policy.first(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> Plan:
        """The next part of the plan, or the first of the next one."""
        plan, left = trial.plan.memory
        whole = self.policy.next(problem, trial._replace(plan=plan))
        fresh = self._part(whole)
        pulls = limited(left, self.max_batch, 0.0)
        more = plan._replace(
            pulls=pulls, may_stop=np.zeros_like(plan.may_stop), memory=Split(plan, left - pulls), parts=1
        )
        return merged(np.asarray(left.sum(axis=-1) > 0), more._replace(parts=1), fresh._replace(parts=1))

    def _part(self, plan: Plan) -> Plan:
        wanted = np.where(plan.pulls > 0, np.maximum(plan.pulls, math.ceil(self.min_per_arm)), 0.0)
        pulls = limited(wanted, self.max_batch, self.min_per_arm)
        return plan._replace(pulls=pulls, memory=Split(plan, wanted - pulls))


def limited(pulls: Floats, max_batch: float | None, min_per_arm: float) -> Floats:
    """At least the minimum of each arm that is pulled, then as much of the rest as a batch has room for. (K)->(K)"""
    least = np.where(pulls > 0, math.ceil(min_per_arm), 0.0)
    rest = np.maximum(pulls - least, 0.0)
    if max_batch is None:
        return least + rest
    room = np.maximum(max_batch - least.sum(axis=-1), 0.0)
    share = np.minimum(room / np.maximum(rest.sum(axis=-1), 1.0), 1.0)
    some = least + np.floor(rest * share[..., None])
    # where every share rounds down to nothing, one pull of each arm that is wanted
    return np.where(some.sum(axis=-1, keepdims=True) > 0, some, np.minimum(pulls, 1.0))


def check_room(problem: Problem, max_batch: float | None, min_per_arm: float) -> None:
    """Raise an InputError unless a batch has room for every arm."""
    room = problem.arms * max(1.0, min_per_arm)
    checked(min_per_arm >= 0, f"`min_per_arm` is {min_per_arm:g}, but must be at least 0.")
    checked(
        max_batch is None or max_batch >= room,
        f"`max_batch` is {max_batch}, but {problem.arms} arms need at least {room:g} pulls a batch.",
    )
