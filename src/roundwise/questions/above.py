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
    column,
    complexity_where,
    finite,
    quiet,
)
from roundwise.questions.top_k import set_words


@dataclass(frozen=True)
class Above:
    """Which arms have a mean above the level? The answer is a mask over the arms.

    >>> Above(0.5).answer([1.0, 0.9, 0.2]).tolist()
    [True, True, False]
    >>> float(Above(0.5).complexity([1.0, 0.0]).value)
    16.0
    """

    level: float  # tau
    name = "above"
    cells = "sides of a level"

    def __post_init__(self) -> None:
        checked_level(self.level)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        at_least_two(arms)

    def answer(self, means: ArrayLike) -> Answer:
        """Which means are above the level."""
        return np.asarray(finite(means) > self.level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means."""
        return np.asarray((answer == self.answer(means)).all(axis=-1))

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_i N_i (mu_i - level)^2 / (2 sigma^2)."""
        away = finite(means) - self.level
        return np.asarray((np.asarray(counts) * away * away).min(axis=-1) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* = sum_i 2 sigma^2 / (mu_i - level)^2 (docs/paper.md, deviation 5); distances shrink by the radius."""
        return crossing_complexity(np.abs(finite(means) - self.level) - column(radius), sigma)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The complexity itself: it has a closed form."""
        return self.complexity(means, radius, sigma).value

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each arm."""
        return Pieces(arms, 1)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every arm on its side of the level."""
        sides = np.where(answer, 1.0, -1.0)
        index = np.broadcast_to(np.arange(arms), sides.shape)
        return Halfspaces(index[..., None], sides[..., None], sides * self.level, False)

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'Above 0.5: x, y.'"""
        return f"above {self.level:g}: {set_words(answer, names)}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 4 arms have a mean above 0.5?'"""
        return f"Which of {len(names)} arms have a {wording.mean} above {wording.value(self.level)}?"

    def plain(self, answer: Answer) -> object:
        """The indices above the level."""
        return np.flatnonzero(answer).tolist()

    def centre(self, means: Floats, constant: bool) -> Floats:
        """The level."""
        return np.full(means.shape, self.level)


@quiet
def crossing_complexity(distances: Floats, sigma: float) -> Complexity:
    """The complexity of showing that every arm lies on its side: sum_i 2 sigma^2 / distance_i^2."""
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    smallest = np.where(possible, smallest, 1.0)
    needs = (smallest[..., None] / np.where(possible[..., None], distances, 1.0)) ** 2
    amount = total(needs)
    return complexity_where(possible, amount * (2 * sigma**2 / smallest / smallest), needs / amount[..., None])


def checked_level(level: float) -> None:
    """Raise an InputError unless the level is a finite number."""
    if not math.isfinite(level):
        raise InputError(f"`level` is {level}, but must be a finite number.")
