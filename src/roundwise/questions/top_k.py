"""Which k arms have the largest means?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    Wording,
    at_least_two,
    checked_open,
    checked_tolerance,
    complexity_where,
    finite,
    midrange,
    quiet,
    spread_over,
)
from roundwise.questions.several import (
    MOST,
    halfspace_complexities,
    listed,
    strongest_set,
    top_sets,
    ways_of_top,
)
from roundwise.solvers import program


@dataclass(frozen=True)
class TopK:
    """Which k arms have the largest means? The answer is a mask over the arms.

    With a tolerance every set of k is right of which no arm is exceeded by one outside by more than that.

    >>> TopK(2).answer([0.2, 1.0, 0.9]).tolist()
    [False, True, True]
    >>> float(TopK(2, tolerance=0.2).ways([1.0, 0.8, 0.7, 0.0]))  # with the first, either of the next two
    2.0
    """

    k: int
    tolerance: float = 0.0  # epsilon
    name = "top-k"
    open_to_arms = True

    def __post_init__(self) -> None:
        if not (self.k >= 1 and float(self.k).is_integer()):
            raise InputError(f"`k` is {self.k}, but must be a whole number of at least 1.")
        object.__setattr__(self, "k", int(self.k))
        checked_tolerance(self.tolerance)

    def check(self, arms: int) -> None:
        """More arms than k."""
        at_least_two(arms)
        if self.k >= arms:
            raise InputError(f"`k` is {self.k}, but must be below the number of arms, which is {arms}.")

    def check_range(self, low: float, high: float) -> None:
        """A tolerance must be less than means can differ by."""
        small = not self.tolerance or self.tolerance < high - low
        checked_open(f"The tolerance is {self.tolerance:g}", small, low, high)

    def answer(self, means: ArrayLike) -> Answer:
        """The set of the k largest means; the first ones in a tie."""
        means = self._checked(means)
        mask = np.zeros(means.shape, dtype=np.bool_)
        np.put_along_axis(mask, _order(means)[..., : self.k], True, axis=-1)
        return mask

    @property
    def places(self) -> int:
        """How many arms are sought, k."""
        return self.k

    def of_set(self, chosen: Bools) -> Answer:
        """The set, as it is. (K)->(K)"""
        return chosen

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether no arm outside exceeds one inside by more than the tolerance; or it is the answer."""
        if not self.tolerance:
            return np.asarray((answer == self.answer(means)).all(axis=-1))
        means = self._checked(means)
        least = np.where(answer, means, np.inf).min(axis=-1)
        return np.asarray(least >= np.where(answer, -np.inf, means).max(axis=-1) - self.tolerance)

    def ways(self, means: ArrayLike) -> Floats:
        """How many sets are right."""
        means = self._checked(means)
        rows = means.reshape(-1, means.shape[-1])
        return np.array([ways_of_top(row, self.k, self.tolerance) for row in rows]).reshape(means.shape[:-1])

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """The sets that are right, the k largest means first."""
        return listed(self._checked(means), lambda row: top_sets(row, self.k, self.tolerance), most)

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T_S of right sets S; that of the k largest means is the smallest: no other has larger gaps."""
        return halfspace_complexities(self, *self.right_answers(means, most), means, sigma)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The k largest means, or with a tolerance the set with the most evidence."""
        return self._supported(counts, self._checked(means))[0] if self.tolerance else self.answer(means)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min over a in the top, b not, of (mu_a - mu_b)^2 / (2 sigma^2 (1/N_a + 1/N_b)) (Lemma A.9).

        With a tolerance: the largest over sets, of mu_a - mu_b + tolerance in place of the difference.
        """
        if self.tolerance:
            return np.asarray(self._supported(counts, self._checked(means))[1] / (2 * sigma**2))
        means, counts = np.broadcast_arrays(self._checked(means), np.asarray(counts, dtype=np.float64))
        order = _order(means)
        means, counts = np.take_along_axis(means, order, axis=-1), np.take_along_axis(counts, order, axis=-1)
        few, many = slice(None, self.k), slice(self.k, None)
        if self.k > means.shape[-1] - self.k:
            few, many = many, few
        means_few, counts_few = means[..., few], counts[..., few]
        means_many, counts_many = means[..., many], counts[..., many]
        least = np.full(means.shape[:-1], np.inf)
        for j in range(means_few.shape[-1]):  # the shorter side, so memory stays (runs, K)
            count = counts_few[..., j, None]
            both = count + counts_many
            costs = (means_few[..., j, None] - means_many) ** 2 * (count * counts_many / np.where(both > 0, both, 1.0))
            least = np.minimum(least, costs.min(axis=-1))
        return least / (2 * sigma**2)

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball all gaps shrink by twice the radius (Lemma 3.12)."""
        means, radii = spread_over(self._checked(means), radius)
        arms = means.shape[-1]
        order = _order(means)
        ranked = np.take_along_axis(means, order, axis=-1)
        gaps = ranked[..., : self.k, None] - ranked[..., None, self.k :] + self.tolerance
        gaps = np.maximum(gaps - 2 * radii[..., None], 0.0)
        smallest = gaps.min(axis=(-2, -1))
        possible = np.asarray(smallest > 0)
        unit = np.where(possible, smallest, 1.0)  # squares of tiny gaps would underflow
        limits = (gaps / unit[..., None, None]) ** 2 / 2
        found = program.certified(program.bipartite(limits.reshape(-1, self.k, arms - self.k)))
        weights = np.empty(means.shape)
        np.put_along_axis(weights, order, found.pulls.reshape(means.shape), axis=-1)
        value = found.total.reshape(possible.shape)
        safe = np.where(possible, value, 1.0)
        return complexity_where(possible, safe * (sigma**2 / unit / unit), weights / safe[..., None])

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """8 sigma^2 / gap^2: what the two arms at the border need alone."""
        means = self._checked(means)
        border = means.shape[-1] - self.k
        ranked = np.partition(means, (border - 1, border), axis=-1)
        gap = ranked[..., border] - ranked[..., border - 1] + self.tolerance - 2 * np.asarray(radius)
        return np.asarray(np.where(gap > 0, 8 * sigma**2 / gap / gap, np.inf))

    def pieces(self, arms: int) -> Pieces:
        """One half-space of two arms for each pair across the border."""
        return Pieces(self.k * (arms - self.k), 2)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every arm of the set exceeds every other arm, less the tolerance."""
        order = np.argsort(~answer, axis=-1, kind="stable")
        last = max(order.ndim - 2, 0)  # of the axes of runs, if there are any: contiguous, also in what is found
        found = np.moveaxis(order, -1, last).take(_grid(self.k, arms), axis=last)
        pieces = np.moveaxis(found, (last, last + 1), (-1, -2))
        offsets = np.full_like(pieces[..., 0], 0.0 - self.tolerance, dtype=np.float64)
        return Halfspaces(pieces, None, offsets, pairs=True, grid=self.k)

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'The top 2 are x, y.'"""
        close = f", or within {self.tolerance:g} of them" if self.tolerance else ""
        return f"the top {self.k}{close}: {set_words(answer, names)}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which 2 of 4 arms have the highest means?'"""
        return f"Which {self.k} of {len(names)} arms have the highest {wording.mean}s{wording.near(self.tolerance)}?"

    def plain(self, answer: Answer) -> object:
        """The indices of the top arms."""
        return np.flatnonzero(answer).tolist()

    def led(self, means: Floats, lead: float) -> Floats:
        """k arms are ahead."""
        return np.where(np.arange(means.size) < self.k, means + lead, means)

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Every number serves; with a tolerance and one right set a point with the others just so far above."""
        if not self.tolerance:
            return midrange(means)
        if constant or self.ways(means) > 1:
            return None
        top = self.answer(means)
        middle = midrange(np.where(top, means, means - self.tolerance))
        return np.where(top, middle, middle + self.tolerance)

    @quiet
    def _supported(self, counts: ArrayLike, means: Floats) -> tuple[Answer, Floats]:
        """The set with the most evidence that it is right, given a tolerance, and that evidence for 2 sigma^2 = 1."""
        means, counts = np.broadcast_arrays(means, np.asarray(counts, dtype=np.float64))
        runs, arms = means.shape[:-1], means.shape[-1]
        rows = means.reshape(-1, arms)
        inside, most = strongest_set(rows, counts.reshape(-1, arms), self.answer(rows), self.tolerance)
        return inside.reshape(means.shape), most.reshape(runs)

    def _checked(self, means: ArrayLike) -> Floats:
        array = finite(means)
        self.check(array.shape[-1])
        return array


def set_words(answer: Answer, names: Sequence[str]) -> str:
    """A set of arms by name; 'none' if it is empty."""
    return ", ".join(names[int(i)] for i in np.flatnonzero(answer)) or "none"


def _order(means: Floats) -> NDArray[np.intp]:
    return np.argsort(-means, axis=-1, kind="stable")


@lru_cache(maxsize=8)
def _grid(inside: int, arms: int) -> NDArray[np.intp]:
    """Each of the first with each of the others. (2, P)"""
    first, second = np.indices((inside, arms - inside), dtype=np.intp).reshape(2, -1)
    return np.stack([first, inside + second])
