"""How the means lie to a level: which are above it? (the thresholding bandit problem) Is any above, or below?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
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
    column,
    complexity_where,
    finite,
    quiet,
)
from roundwise.questions.several import MOST, halfspace_complexities, listed, sides, ways_of_sides
from roundwise.questions.top_k import set_words


@dataclass(frozen=True)
class OfLevel:
    """What questions about a level share."""

    level: float  # tau
    tolerance: float = 0.0  # epsilon

    def __post_init__(self) -> None:
        if not math.isfinite(self.level):
            raise InputError(f"`level` is {self.level}, but must be a finite number.")
        checked_tolerance(self.tolerance)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        at_least_two(arms)

    def check_range(self, low: float, high: float) -> None:
        """Means must be possible on either side, beyond the tolerance."""
        room = not self.tolerance or low < self.level - self.tolerance <= self.level + self.tolerance < high
        checked_open(f"The level is {self.level:g} with a tolerance of {self.tolerance:g}", room, low, high)

    def level_words(self, wording: Wording) -> str:
        """The level as people write it, and its tolerance."""
        return f"{wording.value(self.level)}{wording.near(self.tolerance)}"


@dataclass(frozen=True)
class Above(OfLevel):
    """Which arms have a mean above the level? The answer is a mask over the arms.

    With a tolerance an arm whose mean is within it of the level may be on either side.

    >>> Above(0.5).answer([1.0, 0.9, 0.2]).tolist()
    [True, True, False]
    >>> float(Above(0.5).complexity([1.0, 0.0]).value)
    16.0
    >>> float(Above(0.5, tolerance=0.5).complexity([0.5, 0.5]).value)
    16.0
    """

    name = "above"
    cells = "sides of a level"
    open_to_arms = True
    nearest_first = True

    def answer(self, means: ArrayLike) -> Answer:
        """Which means are above the level."""
        return np.asarray(finite(means) > self.level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether every arm is on its side, or within the tolerance of the level."""
        near = np.abs(finite(means) - self.level) <= self.tolerance if self.tolerance else False
        return np.asarray(((answer == self.answer(means)) | near).all(axis=-1))

    def ways(self, means: ArrayLike) -> Floats:
        """How many sets are right: two for every arm within the tolerance, in all combinations."""
        return ways_of_sides(finite(means) - self.level, self.tolerance)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """The sets that are right, the nearest sides first."""
        return listed(means, lambda row: sides(row - self.level, self.tolerance), most)

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T_S of right sets S; that of the nearest sides is the smallest."""
        return halfspace_complexities(self, *self.right_answers(means, most), means, sigma)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The side of each mean: it has more evidence than the other, whatever the tolerance."""
        return self.answer(means)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_i N_i (|mu_i - level| + tolerance)^2 / (2 sigma^2): of the nearest sides, which have most."""
        away = np.abs(finite(means) - self.level) + self.tolerance
        return np.asarray((np.asarray(counts) * away * away).min(axis=-1) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* = sum_i 2 sigma^2 / (|mu_i - level| + tolerance)^2 (docs/paper.md, deviation 5), less the radius."""
        return crossing_complexity(np.abs(finite(means) - self.level) + self.tolerance - column(radius), sigma)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The complexity itself: it has a closed form."""
        return self.complexity(means, radius, sigma).value

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each arm."""
        return Pieces(arms, 1)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every arm on its side of the level, less the tolerance."""
        signs = np.where(answer, 1.0, -1.0)
        index = np.broadcast_to(np.arange(arms), signs.shape)
        return Halfspaces(index[..., None], signs[..., None], signs * self.level - self.tolerance, False)

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'Above 0.5: x, y.'"""
        close = f", or within {self.tolerance:g} of it" if self.tolerance else ""
        return f"above {self.level:g}{close}: {set_words(answer, names)}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 4 arms have a mean above 0.5?'"""
        return f"Which of {len(names)} arms have a {wording.mean} above {self.level_words(wording)}?"

    def plain(self, answer: Answer) -> object:
        """The indices above the level."""
        return np.flatnonzero(answer).tolist()

    def led(self, means: Floats, lead: float) -> Floats:
        """Half of the arms are so much higher, the others so much lower."""
        return means + np.where(np.arange(means.size) < (means.size + 1) // 2, lead, -lead)

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """The level; with a tolerance and one right set a point just so far beyond it, else none."""
        if not self.tolerance:
            return np.full(means.shape, self.level)
        if self.ways(means) > 1 or (constant and self.answer(means).any() != self.answer(means).all()):
            return None
        return np.where(self.answer(means), self.level - self.tolerance, self.level + self.tolerance)


@dataclass(frozen=True)
class SomeBeyond(OfLevel):
    """Is any mean beyond the level? Yes (True) or no. Written for "below"; "above" is its mirror image, all negated."""

    name: ClassVar[str]
    side: ClassVar[float]  # 1 for below, -1 for above

    def _sides(self, means: ArrayLike) -> tuple[Floats, float]:
        """The means and the level as for "below"."""
        return self.side * finite(means), self.side * self.level

    def answer(self, means: ArrayLike) -> Answer:
        """Whether the smallest mean is below the level."""
        seen, level = self._sides(means)
        return np.asarray(seen.min(axis=-1) < level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means, or the smallest is within the tolerance of the level."""
        return np.asarray((answer == self.answer(means)) | self._near(means))

    def ways(self, means: ArrayLike) -> Floats:
        """Two if the smallest mean is within the tolerance of the level, else one."""
        return np.where(self._near(means), 2.0, 1.0)

    def _near(self, means: ArrayLike) -> Bools:
        """Whether both answers are right. ()"""
        seen, level = self._sides(means)
        if not self.tolerance:
            return np.zeros(seen.shape[:-1], dtype=np.bool_)
        return np.asarray(np.abs(seen.min(axis=-1) - level) <= self.tolerance)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """Yes and no."""
        said = np.stack([np.full(np.shape(means)[:-1], each) for each in (True, False)])
        return said, np.stack([self.correct(each, means) for each in said])

    @quiet
    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T of yes and of no: with no, all arms lie above the level less the tolerance."""
        _, right = self.right_answers(means)
        both = [each.value for each in self._both(means, 0.0, sigma)]
        return np.where(np.moveaxis(right, 0, -1), np.stack(both, axis=-1), np.nan)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """What the smallest mean says, or with a tolerance what has more evidence."""
        if not self.tolerance:
            return self.answer(means)
        yes, no = self._for_both(counts, means)
        return np.asarray(yes > no)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """Yes: sum_i N_i (level - mu_i)_+^2 / (2 sigma^2); no: min_i N_i (mu_i - level)_+^2 / (2 sigma^2).

        (For yes the alternative is one polyhedron, all means at the level or above: docs/paper.md.) One of them is 0;
        with a tolerance, by which the level moves in favour of each, the larger counts.
        """
        yes, no = self._for_both(counts, means)
        return np.asarray(np.maximum(yes, no) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """Yes: 2 sigma^2 / (level - min)^2, all on the smallest mean; no: as for all arms above the level.

        Over a ball: the complexity at means + radius for yes, at means - radius for no. With a tolerance, by which the
        level moves in favour of each, the smaller counts.
        """
        yes, no = self._both(means, radius, sigma)
        easier = yes.value <= no.value
        value = np.where(easier, yes.value, no.value)
        weights = np.where(easier[..., None], yes.weights, no.weights)
        return complexity_where(np.asarray(np.isfinite(value)), value, weights)

    @quiet
    def _both(self, means: ArrayLike, radius: ArrayLike, sigma: float) -> tuple[Complexity, Complexity]:
        """T* and w* of showing yes, and of showing no; infinite where that cannot be shown."""
        seen, level = self._sides(means)
        away = seen - level
        lowest = away.min(axis=-1)
        no = crossing_complexity(away + self.tolerance - column(radius), sigma)
        depth = self.tolerance - lowest - np.asarray(radius)
        smallest = away == lowest[..., None]
        value = np.where(depth > 0, 2 * sigma**2 / depth / depth, np.inf)
        weights = np.broadcast_to(smallest / total(smallest)[..., None], (*value.shape, seen.shape[-1]))
        return complexity_where(np.asarray(np.isfinite(value)), value, weights), no

    def _for_both(self, counts: ArrayLike, means: ArrayLike) -> tuple[Floats, Floats]:
        """The evidence for yes, and for no, for 2 sigma^2 = 1."""
        seen, level = self._sides(means)
        away, counts = seen - level, np.asarray(counts, dtype=np.float64)
        below, above = np.minimum(away - self.tolerance, 0.0), np.maximum(away + self.tolerance, 0.0)
        return total(counts * below * below), np.asarray((counts * above * above).min(axis=-1))

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The complexity itself: it has a closed form."""
        return self.complexity(means, radius, sigma).value

    def pieces(self, arms: int) -> None:
        """None: a wrong yes is one polyhedron, no union of half-spaces."""
        return

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """A yes is no intersection of half-spaces: there is nothing to give."""
        raise InputError(f"The answers of '{self.name}' are no intersections of half-spaces.")

    def plain(self, answer: Answer) -> object:
        """True or false."""
        return bool(answer)

    def led(self, means: Floats, lead: float) -> Floats:
        """One arm is so much lower, all others so much higher."""
        found = self.side * means + lead
        found[0] -= 2 * lead
        return self.side * found

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """The level; if the smallest mean is below it, only that arm needs to move: T* depends on nothing else.

        With a tolerance and one right answer the level moves by it; if both are right, there is none.
        """
        if self.ways(means) > 1:
            return None
        seen, level = self._sides(means)
        yes = bool(seen.min() < level)
        level += self.tolerance if yes else -self.tolerance
        all_move = constant or not yes
        return self.side * np.where(all_move | (np.arange(len(seen)) == seen.argmin()), level, seen)


@dataclass(frozen=True)
class MinimumBelow(SomeBeyond):
    """Is the smallest mean below the level? The answer is yes (True) or no.

    With a tolerance both are right where the smallest mean is within it of the level.

    >>> question = MinimumBelow(0.6)
    >>> bool(question.answer([0.5, 0.6]))
    True
    >>> [round(float(x), 6) for x in question.complexity([0.5, 0.6]).weights]
    [1.0, 0.0]
    """

    name = "minimum-below"
    cells = "some below a level"
    side = 1.0

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'The smallest mean is below 0.6.'"""
        close = f" (or is within {self.tolerance:g})" if self.tolerance else ""
        return f"the smallest mean is {'' if answer else 'not '}below {self.level:g}{close}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Is the lowest mean of 4 arms below 0.5?'"""
        return f"Is the lowest {wording.mean} of {len(names)} arms below {self.level_words(wording)}?"


@dataclass(frozen=True)
class AnyAbove(SomeBeyond):
    """Is any mean above the level? The answer is yes (True) or no; with a tolerance as for `MinimumBelow`.

    >>> bool(AnyAbove(0.55).answer([0.5, 0.6]))
    True
    """

    name = "any-above"
    cells = "some above a level"
    side = -1.0

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'Some mean is above 0.6.'"""
        close = f" (or is within {self.tolerance:g})" if self.tolerance else ""
        return f"{'some' if answer else 'no'} mean is above {self.level:g}{close}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Does any of 4 arms have a mean above 0.5?'"""
        return f"Does any of {len(names)} arms have a {wording.mean} above {self.level_words(wording)}?"


@quiet
def crossing_complexity(distances: Floats, sigma: float) -> Complexity:
    """The complexity of showing that every arm lies on its side: sum_i 2 sigma^2 / distance_i^2."""
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    smallest = np.where(possible, smallest, 1.0)
    needs = (smallest[..., None] / np.where(possible[..., None], distances, 1.0)) ** 2
    amount = total(needs)
    return complexity_where(possible, amount * (2 * sigma**2 / smallest / smallest), needs / amount[..., None])
