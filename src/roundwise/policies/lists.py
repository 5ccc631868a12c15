"""Lockstep: all arms in the running on the next items of a list, as many as the bets need (docs/lists.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.model.problem import BatchPlan, Problem, Trial, check_whole_number
from roundwise.policies.base import Policy, checked
from roundwise.rules.finite.known import KnownColumns
from roundwise.rules.finite.rule import ListRule, ListState

FIRST, MOST_FIRST, LEAST_FIRST = 0.1, 50, 20  # of the list, in the first block, and its limits
SAFETY = 1.2  # more items than the estimates ask for
LEAST_LOG = 0.3  # of the wealth still to be won
REST = 0.96  # of the list, from where on the rest is not worth another block


class BlockEdge(NamedTuple):
    """Where the block under way ends."""

    edge: Floats  # ()


@dataclass(frozen=True)
class Lockstep(Policy[BlockEdge]):
    """Blocks of a list that all arms in the running are tried on.

    A comparison that needs M items of an endless population needs M N/(M + N) of a list of N (docs/lists.md).

    Args:
        size: N, the number of items of the list.
        strict: Whether the answer must be ahead of all other arms, at half of delta for each.
        known: Columns that are known of the whole list.
        max_cost: The largest total cost, by the prices of the problem.
        max_batch: The most results of a batch.
    """

    size: int | None = None
    strict: bool = False
    known: KnownColumns | None = None
    max_cost: float | None = None
    max_batch: float | None = None
    name = "lockstep"

    def __post_init__(self) -> None:
        if self.size is not None:
            check_whole_number("size", self.size, 1)

    @property
    def stopping(self) -> ListRule:
        return ListRule(self.size or 1, self.strict, self.known)

    def check(self, problem: Problem) -> None:
        if self.size is None:
            raise InputError("The policy 'lockstep' is for lists of items: create the study with a list.")
        self.stopping.check(problem)
        each = np.ones(problem.arms, dtype=np.bool_)
        if self._affordable(problem, np.zeros(problem.arms), each) < 1.0:
            raise InputError(f"`max_cost` is {self.max_cost:g}, but one item costs more with all arms.")
        room = self.max_batch is None or self.max_batch >= problem.arms
        checked(room, f"`max_batch` is {self.max_batch}, but {problem.arms} arms need that many results for one item.")

    def with_limits(self, max_batch: float | None, min_per_arm: float) -> Policy:
        checked(not min_per_arm, "A block of a list has the same items for every arm: leave out the least per arm.")
        return replace(self, max_batch=max_batch)

    def with_list(
        self, size: int, strict: bool, known: KnownColumns | None = None, max_cost: float | None = None
    ) -> Policy:
        return replace(self, size=size, strict=strict, known=known, max_cost=max_cost)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[BlockEdge]:
        size = self.size or 1
        first = math.ceil(min(MOST_FIRST, max(LEAST_FIRST, FIRST * size)))
        edge = self._limit(np.full(runs, min(size, first), dtype=np.float64), np.zeros(runs), problem.arms)
        unknown = np.ones((*runs, problem.arms), dtype=np.bool_)
        edge = np.minimum(edge, self._affordable(problem, np.zeros((*runs, problem.arms)), unknown))
        pulls = np.broadcast_to(edge[..., None], (*runs, problem.arms)).copy()
        pulls[..., [] if self.known is None else list(self.known.arms)] = 0.0
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), BlockEdge(edge))

    def next(self, problem: Problem, trial: Trial[BlockEdge]) -> BatchPlan[BlockEdge]:
        """The rest of the block, or the next one, without results already recorded."""
        kept: ListState = trial.kept
        edge = np.where(kept.items < trial.plan.memory.edge, trial.plan.memory.edge, self._edge(problem, kept))
        plan = trial.plan._replace(memory=BlockEdge(edge))
        pulls = self.missing_entries(problem, trial._replace(plan=plan)).sum(axis=-2, dtype=np.float64)
        found = BatchPlan(pulls, plan.may_stop, plan.memory)
        return found if self.max_cost is None else found._replace(last=np.asarray(pulls.sum(axis=-1) == 0))

    def missing_entries(self, problem: Problem, trial: Trial[BlockEdge]) -> Bools:
        kept, edge = trial.kept, trial.plan.memory.edge
        places = np.arange(int(edge.max(initial=0)))
        told = kept.results[..., : len(places), :]
        there = np.zeros((*edge.shape, len(places), problem.arms), dtype=np.bool_)
        there[..., : told.shape[-2], :] = ~np.isnan(told)
        open_ = np.asarray(~self.stopping.finished(problem, kept))
        block = open_[..., None] & (places < edge[..., None])  # an arm that comes back catches up
        needed = self.stopping.process(problem).needed(kept.wealth)
        return np.asarray(block[..., None] & ~there & needed[..., None, :])

    def _edge(self, problem: Problem, kept: ListState) -> Floats:
        """The end of the next block: the median of what the open comparisons need. ()"""
        size, place = float(self.size or 1), kept.items
        process = self.stopping.process(problem)
        need = process.needs(kept.wealth, place)
        n = place[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            clock = n / (1.0 - np.minimum(n / size, 1.0))  # of the Brownian motion that the bridge is made of
            more = SAFETY * 2.0 * need.variance * np.maximum(need.log_wealth, LEAST_LOG) / need.lead**2
            clock = clock + more
            wanted = clock / (1.0 + clock / size)
        low, high = (each * n + 1.0 for each in process.growth)
        wanted = np.where((need.lead > 0) & np.isfinite(wanted), wanted, high)
        wanted = np.where(need.open, np.clip(wanted, low, high), np.nan)
        some = np.asarray(need.open.any(axis=-1))
        edge = np.where(some, np.nanmedian(np.where(some[..., None], wanted, 0.0), axis=-1), place + 1.0)
        edge = np.ceil(np.where(edge > REST * size, size, edge))
        arms = process.needed(kept.wealth).sum(axis=-1)
        edge = np.minimum(self._limit(np.maximum(edge, place + 1.0), place, arms), size)
        told = (~np.isnan(kept.results)).sum(axis=-2, dtype=np.float64)
        most = self._affordable(problem, told, process.needed(kept.wealth))
        return np.asarray(np.minimum(edge, place + most))

    def _affordable(self, problem: Problem, told: Floats, needed: Bools) -> Floats:
        """How many more items the needed arms can be tried on for the money that is left. ()"""
        if self.max_cost is None:
            return np.full(told.shape[:-1], np.inf)
        prices = np.asarray(problem.prices)
        prices = np.where(np.isin(np.arange(problem.arms), () if self.known is None else self.known.arms), 0.0, prices)
        left, each = self.max_cost - told @ prices, needed @ prices
        return np.asarray(np.floor(np.maximum(left, 0.0) / np.maximum(each, 1e-300) + 1e-9))

    def _limit(self, edge: Floats, place: Floats, arms: Floats | int) -> Floats:
        if self.max_batch is None:
            return edge
        return np.minimum(edge, place + np.maximum(np.floor(self.max_batch / np.maximum(arms, 1)), 1.0))
