"""Which arms have a mean above a level? (the thresholding bandit problem)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
from roundwise.questions.several import (
    MOST,
    halfspace_complexities,
    listed,
    sides,
    ways_of_sides,
)
from roundwise.questions.top_k import set_words


@dataclass(frozen=True)
class Above:
    """Which arms have a mean above the level? The answer is a mask over the arms.

    With a tolerance an arm whose mean is within it of the level may be on either side.

    >>> Above(0.5).answer([1.0, 0.9, 0.2]).tolist()
    [True, True, False]
    >>> float(Above(0.5).complexity([1.0, 0.0]).value)
    16.0
    >>> float(Above(0.5, tolerance=0.5).complexity([0.5, 0.5]).value)
    16.0
    """

    level: float  # tau
    tolerance: float = 0.0  # epsilon
    name = "above"
    cells = "sides of a level"
    open_to_arms = True
    nearest_first = True

    def __post_init__(self) -> None:
        checked_level(self.level)
        checked_tolerance(self.tolerance)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        at_least_two(arms)

    def check_range(self, low: float, high: float) -> None:
        """Means must be possible on either side, beyond the tolerance."""
        check_room(self.level, self.tolerance, low, high)

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
        near = f", give or take {wording.gap(self.tolerance)}" if self.tolerance else ""
        return f"Which of {len(names)} arms have a {wording.mean} above {wording.value(self.level)}{near}?"

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


@quiet
def crossing_complexity(distances: Floats, sigma: float) -> Complexity:
    """The complexity of showing that every arm lies on its side: sum_i 2 sigma^2 / distance_i^2."""
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    smallest = np.where(possible, smallest, 1.0)
    needs = (smallest[..., None] / np.where(possible[..., None], distances, 1.0)) ** 2
    amount = total(needs)
    return complexity_where(possible, amount * (2 * sigma**2 / smallest / smallest), needs / amount[..., None])


def check_room(level: float, tolerance: float, low: float, high: float) -> None:
    """Raise an InputError if means between these are all within a tolerance of a level, on one side of it."""
    room = not tolerance or low < level - tolerance <= level + tolerance < high
    checked_open(f"The level is {level:g} with a tolerance of {tolerance:g}", room, low, high)


def checked_level(level: float) -> None:
    """Raise an InputError unless the level is a finite number."""
    if not math.isfinite(level):
        raise InputError(f"`level` is {level}, but must be a finite number.")
