"""A policy whose batches are kept within limits: each of its plans is pulled in as many batches as it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, tree_where
from roundwise.model.batch import Batch, BatchPlan, Trial, ValueTable, join_parts
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, check_room, limited
from roundwise.rules import StoppingRule


class Split(NamedTuple):
    """The plan under way, what is left of it after the planned batch, and what came back for it before that."""

    plan: BatchPlan
    left: Floats  # (K)
    pulled: Batch | None = None  # None before the first batch of all


@dataclass(frozen=True)
class Limited:
    """At most `max_batch` pulls in a batch, and at least `min_per_arm` of an arm that is pulled at all.

    The stopping rule is asked only when a whole plan of the policy has been pulled, as without limits, and the policy
    is then shown what came back for all of that plan, as one batch.
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
        pulls = limited(left, self.max_batch, 0.0, so_far=trial.record)
        more = plan._replace(
            pulls=pulls, may_stop=np.zeros_like(plan.may_stop), memory=Split(plan, left - pulls, whole), parts=1
        )
        return tree_where(np.asarray(left.sum(axis=-1) > 0), more._replace(parts=1), fresh._replace(parts=1))

    def _part(self, plan: BatchPlan, pulled: Batch | None = None) -> BatchPlan:
        wanted = np.where(plan.pulls > 0, np.maximum(plan.pulls, math.ceil(self.min_per_arm)), 0.0)
        pulls = limited(wanted, self.max_batch, self.min_per_arm)
        return plan._replace(pulls=pulls, memory=Split(plan, wanted - pulls, pulled))


def within_limits(policy: Policy, max_batch: float | None, min_per_arm: float) -> Policy:
    """The policy with these limits: by its own `limited`, which plans for them, or else pulled in parts."""
    own: Callable[[float | None, float], Policy] | None = getattr(policy, "limited", None)
    return Limited(policy, max_batch, min_per_arm) if own is None else own(max_batch, min_per_arm)


def without_limits(policy: Policy) -> tuple[Policy, Limited | None]:
    """The policy within, and the limits around it, if there are any."""
    return (policy.policy, policy) if isinstance(policy, Limited) else (policy, None)


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
