"""The top k by sets: wealth against each set of k arms, "these are the k best". No bank, and no candidates.

Against the set S a part is bet on as if it had two arms: A, the arms that lead and are not in S, and B, those in S that
do not lead, each with the results that the part has of its arms. If the arms of S are the k best, no arm of A has a
larger mean than one of B, so that a bet on A exceeding B is fair (docs/why-the-guarantee-holds.md, "Top-k by sets").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, zeros
from roundwise.model.batch import Parts, ValueTable
from roundwise.model.estimates import Estimates, FormEstimate
from roundwise.model.problem import Problem
from roundwise.noise.bets import NO_ROWS, Index, PartBets, PartForm, PartsData, columns, parts_data
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus
from roundwise.rules.eprocess.bounds import BetHistory
from roundwise.rules.eprocess.candidates import bound_margins, claim_halfspaces, settle_pieces
from roundwise.rules.eprocess.engine import (
    LIKELY,
    MOST,
    EProcess,
    OpenNulls,
    PartsView,
    RequiredPulls,
    RuleState,
    average_partitions,
    bet_on_nulls,
    chunks,
    log_phi,
    sum_arms,
    view_parts,
)

MOST_SETS = 300  # beyond, candidates are bet on: simulations would take 12 to 18 times as long as PET's


class SetsWealth(NamedTuple):
    """log of the wealth against each set, in the order of `sets_of`, and which have lost."""

    gains: Floats  # (C)
    rejected: Bools  # (C)


class LeadingSet(NamedTuple):
    """The top k of the estimates, and how far its arms lead."""

    answer: Bools  # (K)
    forecast: FormEstimate  # (P), of its pairs


class Sets(NamedTuple):
    """All sets of k of K arms."""

    inside: Bools  # (C, K)
    members: Index  # (C, M), the arms of the set, or of the rest if that has fewer
    of_rest: bool
    steps: list[tuple[Index, Index]]  # each member added to sets of those before it: their places, and the member
    places: Index  # of the sets in the order of their largest members

    def number(self, members: Index) -> Index:
        """The place of the set with these members, in any order. (P, M, n)->(P, n)"""
        return self.places.take(_rank(np.sort(members, axis=1), self.inside.shape[-1]))

    def sum_members(self, values: Floats) -> Floats:
        """Sums over the members of every set. (P, K, n)->(P, C, n)"""
        (_, arms), *steps = self.steps
        found = values.take(arms, axis=1)
        for before, arms in steps:
            found = found.take(before, axis=1)
            found += values.take(arms, axis=1)
        return found


def _rank(members: Index, arms: int) -> Index:
    """Rank sets in the order of their largest members, the next largest, and so on. (P, M, n)->(P, n)"""
    sizes = np.arange(members.shape[1])
    ways = np.array([[comb(arm, size + 1) for arm in range(arms)] for size in sizes])
    return np.asarray(ways[sizes[:, None], members].sum(axis=1))


@lru_cache(maxsize=16)
def sets_of(arms: int, k: int) -> Sets:
    """Return all sets of k arms, in the order of their arms."""
    few = min(k, arms - k)
    subsets = list(combinations(range(arms), few))
    members = np.array(subsets[::-1] if few < k else subsets)
    inside = np.zeros((len(members), arms), dtype=np.bool_)
    np.put_along_axis(inside, members, True, axis=1)
    steps, before = [], {(): 0}
    for size in range(1, few + 1):
        after = list(dict.fromkeys(tuple(each) for each in members[:, :size].tolist()))
        steps.append((np.array([before[each[:-1]] for each in after]), np.array([each[-1] for each in after])))
        before = {each: place for place, each in enumerate(after)}
    ranks = _rank(members.T[None], arms)[0]
    return Sets(inside != (few < k), members, few < k, steps, np.argsort(ranks))


@dataclass(frozen=True)
class Merge:
    """Sums over the arms of A and of B, for each null that is bet on. Against the set that leads, A is the best arm
    outside it, and B its last one."""

    sets: Sets
    order: Index  # (P, K, n), the arms from the best to the last, as known before each part
    k: int
    at: Index  # (c), the places of the nulls in (C, n) as one row

    def __call__(self, values: Floats) -> Floats:
        """(P, K, n)->(P, 2, c)"""
        return self._set_leading(self._sum_sides(values), values)

    def _set_leading(self, found: Floats, values: Floats) -> Floats:
        """With the values of the two arms that are compared where a null is about the set that leads."""
        part, null, arms = self._leading
        for side, arm in enumerate(arms):
            found[part, side, null] = values[part, arm, self.run[null]]
        return found

    def fold(self, combine: np.ufunc, values: Floats, start: float) -> Floats:
        """Combine the values of the arms of A, and of B, without differences of sums. (P, K, n)->(P, 2, c)"""
        found = np.full((len(values), 2, self.at.size), start)
        for arm, sides in enumerate(self._sides):
            combine(found, values[:, arm].take(self.run, axis=1)[:, None], out=found, where=sides)
        return self._set_leading(found, values)

    @cached_property
    def _sides(self) -> Bools:
        """Whether each arm is in A, and in B. (K, P, 2, c)"""
        inside = self.sets.inside.T.take(self.at // self.order.shape[-1], axis=1)[:, None]
        leads = np.moveaxis(self._top > 0, 1, 0).take(self.run, axis=2)
        return np.stack([leads & ~inside, ~leads & inside], axis=2)

    @cached_property
    def run(self) -> Index:
        """The column of (K, n) that each null is of. (c)"""
        return np.asarray(self.at % self.order.shape[-1])

    @cached_property
    def _top(self) -> Floats:
        """1 for the k arms that lead. (P, K, n)"""
        found = np.zeros(self.order.shape)
        np.put_along_axis(found, self.order[:, : self.k], 1.0, axis=1)
        return found

    @cached_property
    def _leading(self) -> tuple[Index, Index, list[Index]]:
        """Where a null is about the set that leads: part, null, and the arms that are compared."""
        n = self.order.shape[-1]
        null = np.full(len(self.sets.members) * n, -1)
        null[self.at] = np.arange(self.at.size)
        members = self.order[:, self.k :] if self.sets.of_rest else self.order[:, : self.k]
        null = null.take(self.sets.number(members) * n + np.arange(n))
        part, run = np.nonzero(null >= 0)
        return part, null[part, run], [self.order[part, rank, run] for rank in (self.k, self.k - 1)]

    def _sum_sides(self, values: Floats) -> Floats:
        leading = values * self._top
        found = np.empty((len(values), 2, self.at.size))
        for side, each in enumerate((leading, values - leading)):
            own = self._sum_members(each)
            if side == self.sets.of_rest:
                own = sum_arms(each).take(self.run, axis=1) - own
            found[:, side] = own
        return found

    def _sum_members(self, values: Floats) -> Floats:
        """Sums over the members of each null's set, or those of the rest. (P, K, n)->(P, c)"""
        if self.at.size == len(self.sets.members) * self.order.shape[-1]:
            return self.sets.sum_members(values).reshape(len(values), -1)
        rows = np.ascontiguousarray(values.reshape(len(values), -1).T)  # taken for all parts together
        first, *others = self._places
        found = rows.take(first, axis=0)
        for places in others:
            found += rows.take(places, axis=0)
        return found.T

    @cached_property
    def _places(self) -> list[Index]:
        """The members of each null's set, or of the rest, in (K, n) as one row."""
        n = self.order.shape[-1]
        return [arm * n + self.run for arm in self.sets.members[self.at // n].T]


@dataclass(frozen=True)
class MergedParts(PartsData):
    """A batch in parts with A and B as its arms, and the nulls as columns. (P, 2, c)"""

    merge: Merge = field(kw_only=True)
    single: PartsData = field(kw_only=True)  # the same of the arms themselves

    @cached_property
    def so_far(self) -> Floats:
        return self.merge(self.single.so_far)

    @cached_property
    def totals_so_far(self) -> Floats:
        return self.merge(self.single.totals_so_far)

    @cached_property
    def scatter_so_far(self) -> tuple[Floats, Floats]:
        """Within the arms: that their means differ adds nothing to the variance of a mean of fixed counts."""
        scatter, freedom = self.single.scatter_so_far
        return self.merge(scatter), self.merge(freedom)

    @property
    def of_arms(self) -> PartsData:
        return self.single

    def mean_of(self, variances: Floats) -> Floats:
        """As their arms weigh in the estimates."""
        single = self.single
        weights = np.maximum(single.counts, NO_ROWS) ** 2 / np.maximum(single.so_far, 1e-9)
        return self.merge.fold(np.add, weights * variances, 0.0) / self.merge.fold(np.add, weights, 0.0)

    def error_of(self, variances: Floats) -> Floats:
        """sum u_i^2 v_i / n_i; no difference of sums, which arms of much larger variances would spoil."""
        return self.merge.fold(np.add, self.single.counts * variances, 0.0) / np.maximum(self.counts, NO_ROWS) ** 2

    def least(self, values: Floats) -> Floats:
        found = self.merge.fold(np.minimum, np.where(self.single.counts > 0, values, np.inf), np.inf)
        return np.where(np.isfinite(found), found, 0.0)

    def column(self, place: Index) -> Index:
        return self.merge.run.take(super().column(place))


@dataclass(frozen=True)
class SidesForm(PartForm):
    """A exceeds B, or B exceeds A: the two arms of `MergedParts`, whose values are not looked up one by one."""

    sign: float = field(kw_only=True)

    @classmethod
    def of_nulls(cls, parts: int, nulls: int, lower: bool) -> SidesForm:
        """The form of each null, in each part."""
        ahead = np.arange(parts)[:, None] * (2 * nulls) + np.arange(nulls)
        sides = [ahead, ahead + nulls]
        return cls(sides[::-1] if lower else sides, None, np.zeros(ahead.shape), sign=-1.0 if lower else 1.0)

    def take(self, some: Index) -> PartForm:
        return PartForm(self.places, None, self.offsets).take(some)

    def of(self, values: Floats) -> Floats:
        found = values[:, 0] - values[:, 1]
        return np.negative(found, out=found) if self.sign < 0 else found

    def squares(self, values: Floats) -> Floats:
        return np.asarray(values[:, 0] + values[:, 1])


def merge_arms(view: PartsView, merge: Merge) -> PartsView:
    """The estimates before each part, and the results in it, of A and B; arms count as they do in the part."""
    data, rows = view.data, view.data.counts
    counts = merge(rows)
    weight = 1.0 / np.maximum(counts, NO_ROWS)
    table = None
    if data.rows is not None:
        table = ValueTable(data.rows.values, np.stack([merge(each) for each in data.rows.counts]))
    return PartsView(
        merge(rows * view.means) * weight,
        merge(rows * rows * view.inverse) * weight * weight,
        None if view.share is None else merge(rows * view.share) * weight,
        None if view.weight is None else view.weight.take(merge.run, axis=1),
        MergedParts(data.before, counts, merge(data.totals), None, table, data.jump, merge=merge, single=data),
    )


@dataclass(frozen=True)
class SetEProcess(EProcess):
    """Cells Q_S = {the arms of S are the k best}, one for each set of k arms (Proposition 2)."""

    k: int
    shifts = True
    tag = "sets"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> SetsWealth:
        nothing = zeros((*runs, len(sets_of(problem.arms, self.k).inside)))
        return SetsWealth(nothing, nothing > 0)

    def choose(self, problem: Problem, wealth: SetsWealth, known: Estimates) -> LeadingSet:
        answer = problem.question.answer(known.means)
        pieces = problem.question.halfspaces(answer, problem.arms)
        return LeadingSet(answer, problem.noise.estimate_forms(known, pieces))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> SetsWealth:
        wealth, known, _ = state
        several, first = parts.partitions, not known.past.history
        data, means = parts_data(known.past, parts), None if first else columns(known.means, several)
        found, rejected = columns(wealth.gains, several).copy(), columns(wealth.rejected, several)
        size, arms, n = data.counts.shape
        wide = len(found) * (1 if data.rows is None else len(data.rows.values))
        for here in chunks(size, max(arms, wide), n):
            view = view_parts(data.at(here), None if means is None else means[:, here], shifts)
            flat = found[:, here].reshape(-1)
            self._bet(problem, view, flat, np.flatnonzero(~rejected[:, here]), first)
            found[:, here] = flat.reshape(len(found), -1)
        after = average_partitions(found, wealth.gains.shape[:-1], several)
        return SetsWealth(after, wealth.rejected | (after >= problem.goal))

    def _bet(self, problem: Problem, view: PartsView, flat: Floats, at: Index, first: bool) -> None:
        """Bring the log of the wealth against the sets at some places of (C, n) up to date."""
        n, live = view.means.shape[-1], None
        order = np.argsort(-problem.question.merits(view.means), axis=1, kind="stable")
        if first:  # bet on once the set that leads is more likely right than wrong
            live = _log_chance(view, problem.noise.part_bets(view.data), order, self.k) >= LIKELY
            at = at[np.asarray(live.any(axis=0))[at % n]]
        if not at.size:
            return
        if at.size > MOST * flat.size:  # nothing is bet against those that have lost: they need nothing
            at = np.arange(flat.size)
        merged = merge_arms(view, Merge(sets_of(problem.arms, self.k), order, self.k, at))
        form = SidesForm.of_nulls(len(order), at.size, problem.question.lower_is_better)
        gate = None if live is None else live[:, at % n]
        own = flat.take(at)
        bets = OpenNulls(form, np.arange(at.size), problem.goal, None if gate is None else lambda z: gate)
        bet_on_nulls(bets, own, merged, problem.noise.part_bets(merged.data))
        flat[at] = own

    def stops(self, problem: Problem, wealth: SetsWealth) -> Bools:
        return np.asarray(wealth.rejected.sum(axis=-1) >= wealth.rejected.shape[-1] - 1)

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        return best_looking_set(problem, self.k, state)

    def false_rejection(self, problem: Problem, wealth: SetsWealth, means: Floats) -> Bools:
        """The set of the best has lost."""
        right = (sets_of(problem.arms, self.k).inside == problem.question.answer(means)).all(axis=-1)
        return wealth.rejected[..., int(right.argmax())]

    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Settle every open set S by the best arm that leads and is not in S, and the last arm of S.

        A pair needs what the set needs that lost least of those it stands for.
        """
        sets, answer = sets_of(problem.arms, self.k), state.alternative.answer
        merits = columns(problem.question.merits(state.known.means), 1)
        order = np.argsort(-merits, axis=0, kind="stable")
        rank = np.argsort(order, axis=0)
        gains, rejected = columns(state.wealth.gains, 1), columns(state.wealth.rejected, 1)
        which, run = np.divmod(np.flatnonzero(~rejected), rejected.shape[1])
        # sorted ranks of the members, from the best; if those of the rest are known, from the last
        ranks = rank[sets.members[which].T, run]
        ranks = np.sort(problem.arms - 1 - ranks if sets.of_rest else ranks, axis=0)
        near = np.logical_and.accumulate(ranks == np.arange(len(ranks))[:, None]).sum(
            axis=0
        )  # the first that is missing
        far = ranks[-1]
        ahead, behind = (problem.arms - 1 - far, problem.arms - 1 - near) if sets.of_rest else (near, far)
        other = np.flatnonzero(ahead < self.k)  # not the set that leads
        which, run, ahead, behind = (each[other] for each in (which, run, ahead, behind))
        inside = columns(answer, 1)
        row, column = np.cumsum(inside, axis=0) - 1, np.cumsum(~inside, axis=0) - 1
        place = row[order[ahead, run], run] * (problem.arms - self.k) + column[order[behind, run], run]
        least = np.full((self.k * (problem.arms - self.k), rejected.shape[1]), np.inf)
        np.minimum.at(least, (place, run), gains[which, run])
        least = average_partitions(least, state.wealth.gains.shape[:-1], 1)
        return settle_pieces(problem, state.known, state.alternative.forecast, least, np.isposinf(least))

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        return claim_halfspaces(problem, names, *claim_pairs(problem, self.k, state))

    def all_rejected(self, problem: Problem, wealth: SetsWealth) -> bool:
        return bool(wealth.rejected.all())

    def margins(self, bets: BetHistory) -> Floats:
        answer, _, shown = claim_pairs(bets.problem, self.k, bets.end)
        return bound_margins(bets, answer, shown)


def _log_chance(view: PartsView, part_bets: PartBets, order: Index, k: int) -> Floats:
    """log of the chance that the k arms that lead before each part are the best. (P, n)"""
    spread = view.inverse * part_bets.variances
    means, spread = (np.take_along_axis(each, order, axis=1) for each in (view.means, spread))
    lead = np.abs(means[:, :k, None] - means[:, None, k:])
    lead /= np.sqrt(spread[:, :k, None] + spread[:, None, k:])
    return sum_arms(log_phi(lead).reshape(len(order), -1, order.shape[-1]))


def best_looking_set(problem: Problem, k: int, state: RuleState) -> Answer:
    """The best-looking set among those that have not lost, or of all if all have."""
    sets, rejected = sets_of(problem.arms, k).inside, state.wealth.rejected
    merits = problem.question.merits(state.known.means) @ sets.T.astype(np.float64)
    merits = np.where(rejected & ~rejected.all(axis=-1, keepdims=True), -np.inf, merits)
    return sets[merits.argmax(axis=-1)]


def claim_pairs(problem: Problem, k: int, state: RuleState) -> tuple[Answer, Floats, Bools]:
    """The answer, and of each of its pairs the least that was won against a set that contradicts it. One run.

    That i is better than j follows from i being one of the top k and j not: sets without i, or with j, contradict it.
    """
    answer, sets = best_looking_set(problem, k, state), sets_of(problem.arms, k).inside
    pieces = problem.question.halfspaces(answer, problem.arms)
    better, worse = pieces.arms[:, :: -1 if problem.question.lower_is_better else 1].T
    against = ~sets[:, better] | sets[:, worse]  # (C, P)
    gains = np.where(against, state.wealth.gains[:, None], np.inf).min(axis=0)
    return answer, gains, np.asarray((state.wealth.rejected[:, None] | ~against).all(axis=0))
