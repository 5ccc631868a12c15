"""Which k arms have the largest means, or the smallest?

With a tolerance several sets may be right. The evidence of a set S is that of its weakest pair, min of cost(a, b) over
a in S and b outside; the set with the most evidence counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, quiet
from roundwise.errors import InputError
from roundwise.questions.base import (
    MOST,
    PLAIN_WORDING,
    Answer,
    RankingQuestion,
    Wording,
    check_tolerance,
    enumerate_answers,
    largest_mask,
    spread_over,
    within_words,
)
from roundwise.questions.best_arm import pair_costs
from roundwise.solvers import program
from roundwise.solvers.halfspaces import Complexity, Family, Halfspaces, NormalFamily, Pieces, complexity_where
from roundwise.solvers.sparse_pairs import solve_pairs

FEW_PAIRS = 2000  # solve for all pairs at once up to this number, for 0/1 results and counts,
MOST_PAIRS = 10**6  # and up to this one for normal rewards


@dataclass(frozen=True)
class TopK(RankingQuestion):
    """Which k arms have the largest means, or the smallest if `lower_is_better`? The answer is a mask over the arms.

    A set is right if no arm outside exceeds an arm inside by more than the tolerance.

    Args:
        k: The number of arms to find.
        tolerance: A set is right if no arm outside exceeds one inside by more than this.
        lower_is_better: Whether the best arms have the lowest means.

    >>> TopK(2).answer([0.2, 1.0, 0.9]).tolist()
    [False, True, True]
    >>> float(TopK(2, tolerance=0.2).count_right_answers([1.0, 0.8, 0.7, 0.0]))  # the first and either of the next
    2.0
    """

    k: int
    tolerance: float = 0.0  # epsilon
    lower_is_better: bool = False
    name = "top-k"
    accepts_arm_changes = True

    def __post_init__(self) -> None:
        if not (self.k >= 1 and float(self.k).is_integer()):
            raise InputError(f"`k` is {self.k}, but must be a whole number of at least 1.")
        object.__setattr__(self, "k", int(self.k))
        object.__setattr__(self, "number_sought", self.k)
        check_tolerance(self.tolerance)

    def check(self, arms: int) -> None:
        super().check(arms)
        if self.k >= arms:
            raise InputError(f"`k` is {self.k}, but must be below the number of arms, which is {arms}.")

    def answer(self, means: ArrayLike) -> Answer:
        return largest_mask(self._merits(means), self.k)

    def answer_from_set(self, chosen: Bools) -> Answer:
        return chosen

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer, or no arm outside exceeds one inside by more than the tolerance."""
        if not self.tolerance:
            return np.asarray((answer == self.answer(means)).all(axis=-1))
        means = self._merits(means)
        least = np.where(answer, means, np.inf).min(axis=-1)
        return np.asarray(least >= np.where(answer, -np.inf, means).max(axis=-1) - self.tolerance)

    def count_right_answers(self, means: ArrayLike) -> Floats:
        means = self._merits(means)
        rows = means.reshape(-1, means.shape[-1])
        return np.array([count_top_sets(row, self.k, self.tolerance) for row in rows]).reshape(means.shape[:-1])

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        return enumerate_answers(self._merits(means), lambda row: top_sets(row, self.k, self.tolerance), most)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min over a in the top, b not, of (mu_a - mu_b)^2 / (2 sigma^2 (1/N_a + 1/N_b)) (Lemma A.9).

        With a tolerance: the maximum over sets, with mu_a - mu_b + tolerance in place of the difference.
        """
        if self.tolerance:
            return np.asarray(self._supported(counts, self._merits(means))[1] / (2 * sigma**2))
        means, counts = np.broadcast_arrays(self._merits(means), np.asarray(counts, dtype=np.float64))
        order = _order(means)
        means, counts = np.take_along_axis(means, order, axis=-1), np.take_along_axis(counts, order, axis=-1)
        few, many = slice(None, self.k), slice(self.k, None)
        if self.k > means.shape[-1] - self.k:
            few, many = many, few
        least = np.full(means.shape[:-1], np.inf)
        for j in range(means.shape[-1])[few]:  # loop over the shorter side, which keeps memory at (runs, K)
            gaps = np.abs(means[..., j, None] - means[..., many])
            least = np.minimum(least, pair_costs(gaps, counts[..., j, None], counts[..., many]).min(axis=-1))
        return least / (2 * sigma**2)

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball all gaps shrink by twice the radius (Lemma 3.12)."""
        means, radii = spread_over(self._merits(means), radius)
        arms = means.shape[-1]
        if self.k * (arms - self.k) > MOST_PAIRS:
            shift = (self.tolerance - 2 * radii) * largest_mask(means, self.k)
            return _solve_sparse(means + shift, largest_mask(means, self.k), NormalFamily(np.array(sigma)), 1)
        order = _order(means)
        ranked = np.take_along_axis(means, order, axis=-1)
        gaps = ranked[..., : self.k, None] - ranked[..., None, self.k :] + self.tolerance
        gaps = np.maximum(gaps - 2 * radii[..., None], 0.0)
        smallest = gaps.min(axis=(-2, -1))
        possible = np.asarray(smallest > 0)
        unit = np.where(possible, smallest, 1.0)  # squares of tiny gaps would underflow
        limits = (gaps / unit[..., None, None]) ** 2 / 2
        found = program.check_certificate(program.solve_bipartite(limits.reshape(-1, self.k, arms - self.k)))
        weights = np.empty(means.shape)
        np.put_along_axis(weights, order, found.pulls.reshape(means.shape), axis=-1)
        value = found.total.reshape(possible.shape)
        safe = np.where(possible, value, 1.0)
        return complexity_where(possible, safe * (sigma**2 / unit / unit), weights / safe[..., None])

    def _family_complexity(self, answer: Answer, right: Bools, means: Floats, family: Family) -> Complexity:
        if self.tolerance or self.k * (means.shape[-1] - self.k) <= FEW_PAIRS:
            return super()._family_complexity(answer, right, means, family)
        return _solve_sparse(means, right[..., None] & answer, family, self.sign)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """8 sigma^2 / gap^2: the samples that the two arms at the border need on their own."""
        means = self._merits(means)
        border = means.shape[-1] - self.k
        ranked = np.partition(means, (border - 1, border), axis=-1)
        gap = ranked[..., border] - ranked[..., border - 1] + self.tolerance - 2 * np.asarray(radius)
        return np.asarray(np.where(gap > 0, 8 * sigma**2 / gap / gap, np.inf))

    def pieces(self, arms: int) -> Pieces:
        return Pieces(self.k * (arms - self.k), 2)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        order = np.argsort(~answer, axis=-1, kind="stable")
        last = max(order.ndim - 2, 0)  # runs contiguous, here and in what is taken
        found = np.moveaxis(order, -1, last).take(_grid(self.k, arms), axis=last)
        pieces = np.moveaxis(found, (last, last + 1), (-1, -2))[..., :: -1 if self.lower_is_better else 1]
        offsets = np.full_like(pieces[..., 0], 0.0 - self.tolerance, dtype=np.float64)
        return Halfspaces(pieces, None, offsets, pairs=True, grid=self.k)

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"the top {self.k}{within_words(self.tolerance, 'them')}: {name_arms(answer, names)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        means = f"{self.end_text} {wording.mean}s{wording.near(self.tolerance)}"
        return f"Which {self.k} of {len(names)} arms have the {means}?"

    def cli_options(self, names: Sequence[str]) -> list[str] | None:
        return ["--k", f"{self.k}", *(super().cli_options(names) or [])]

    @quiet
    def _supported(self, counts: ArrayLike, merits: Floats) -> tuple[Answer, Floats]:
        """The right set with the most evidence, given a tolerance, and that evidence for 2 sigma^2 = 1.

        Only the first MOST sets are considered, which is conservative. Usually the top k has the most evidence.
        """
        merits, counts = np.broadcast_arrays(merits, np.asarray(counts, dtype=np.float64))
        arms = merits.shape[-1]
        values, pulls = merits.reshape(-1, arms), counts.reshape(-1, arms)
        inside, most = largest_mask(values, self.k), np.empty(len(values))
        step = max(1, _ENTRIES // arms**2)
        for start in range(0, len(values), step):
            rows = slice(start, start + step)
            gaps = values[rows, :, None] - values[rows, None, :] + self.tolerance
            costs = pair_costs(gaps, pulls[rows, :, None], pulls[rows, None, :])
            found = weakest_pair(inside[rows], costs)
            for run in np.flatnonzero(_improvable(costs <= found[:, None, None], self.k)):
                sets = np.array(list(itertools.islice(top_sets(values[start + run], self.k, self.tolerance), MOST)))
                each = weakest_pair(sets, costs[run])
                inside[start + run], found[run] = sets[each.argmax()], each.max()
            most[rows] = found
        return inside.reshape(merits.shape), most.reshape(merits.shape[:-1])


def _solve_sparse(means: Floats, inside: Bools, family: Family, sign: float) -> Complexity:
    """The complexity, run by run; infinite if some arm outside is as good as one inside, or none is inside."""
    values, weights = np.full(means.shape[:-1], np.inf), np.full(means.shape, 1.0 / means.shape[-1])
    for run in np.ndindex(means.shape[:-1]):
        mine, merits = inside[run], sign * means[run]
        if mine.any() and merits[mine].min() > merits[~mine].max():
            values[run], pulls = solve_pairs(means[run], mine, family)
            weights[run] = pulls / values[run]
    return Complexity(values, weights)


def name_arms(answer: Answer, names: Sequence[str]) -> str:
    """A set of arms by name; 'none' if it is empty."""
    return ", ".join(names[int(i)] for i in np.flatnonzero(answer)) or "none"


def _order(means: Floats) -> NDArray[np.intp]:
    return np.argsort(-means, axis=-1, kind="stable")


@lru_cache(maxsize=8)
def _grid(inside: int, arms: int) -> NDArray[np.intp]:
    """All pairs of one of the first `inside` arms with one of the others. (2, P)"""
    first, second = np.indices((inside, arms - inside), dtype=np.intp).reshape(2, -1)
    return np.stack([first, inside + second])


def top_sets(means: Floats, k: int, tolerance: float) -> Iterable[Bools]:
    """Every set of k arms that no arm outside exceeds by more than the tolerance; the top first. (K)

    Enumerated by the rank p of the smallest mean in the set: arms that exceed it by more than the tolerance must be in.
    """
    order = np.argsort(-means, kind="stable")
    for p, (forced, others) in enumerate(_places(means[order], k, tolerance), k - 1):
        for chosen in itertools.combinations(range(forced, p), others) if others >= 0 else ():
            mask = np.zeros(len(means), dtype=np.bool_)
            mask[order[[*range(forced), *chosen, p]]] = True
            yield mask
        if not tolerance:
            return


def count_top_sets(means: Floats, k: int, tolerance: float) -> float:
    """The number of sets that `top_sets` yields. (K)->()"""
    if not tolerance:
        return 1.0
    ranked = -np.sort(-means)
    ways = (
        math.comb(p - forced, others) if others >= 0 else 0
        for p, (forced, others) in enumerate(_places(ranked, k, tolerance), k - 1)
    )
    return float(min(sum(ways), 10**300))


def _places(ranked: Sequence[float] | Floats, k: int, tolerance: float) -> list[tuple[int, int]]:
    """For each rank p >= k - 1: how many means exceed it by more than the tolerance, and how many more are chosen."""
    values = np.asarray(ranked)
    forced = (values[None, :] > values[k - 1 :, None] + tolerance).sum(axis=-1)
    return [(int(each), k - 1 - int(each)) for each in forced]


_ENTRIES = 2**20  # entries of pair matrices processed at a time


def weakest_pair(inside: Bools, costs: Floats) -> Floats:
    """min over a in the set and b outside of cost(a, b). (K),(K,K)->()"""
    split = inside[..., :, None] & ~inside[..., None, :]
    return np.asarray(np.where(split, costs, np.inf).min(axis=(-2, -1)))


def _improvable(needs: Bools, k: int) -> Bools:
    """Whether there may be a set of k arms that splits no pair (a in, b out) in which a `needs` b. (R,K,K)->(R)

    An arm that needs k others, or an arm that needs it, is out; one that K - k others need, or that needs it, is in.
    """
    arms = needs.shape[-1]
    needs = needs & ~np.eye(arms, dtype=np.bool_)
    out, inside = needs.sum(axis=-1) > k - 1, needs.sum(axis=-2) > arms - k - 1
    for _ in range(2):
        out = out | (needs & out[:, None, :]).any(axis=-1)
        inside = inside | (needs & inside[:, :, None]).any(axis=-2)
    return np.asarray(~(out & inside).any(axis=-1) & (out.sum(axis=-1) <= arms - k) & (inside.sum(axis=-1) <= k))
