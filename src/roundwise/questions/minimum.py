"""Is the smallest mean below a level? And its mirror: is any mean above a level?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.questions.above import checked_level, crossing_complexity
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Wording,
    at_least_two,
    column,
    complexity_where,
    finite,
    quiet,
)


@dataclass(frozen=True)
class MinimumBelow:
    """Is the smallest mean below the level? The answer is yes (True) or no.

    >>> question = MinimumBelow(0.6)
    >>> bool(question.answer([0.5, 0.6]))
    True
    >>> [round(float(x), 6) for x in question.complexity([0.5, 0.6]).weights]
    [1.0, 0.0]
    """

    level: float  # tau
    name = "minimum-below"
    cells = "some below a level"

    def __post_init__(self) -> None:
        checked_level(self.level)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        at_least_two(arms)

    def answer(self, means: ArrayLike) -> Answer:
        """Whether the smallest mean is below the level."""
        return np.asarray(finite(means).min(axis=-1) < self.level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means."""
        return np.asarray(answer == self.answer(means))

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """Yes: sum_i N_i (level - mu_i)_+^2 / (2 sigma^2); no: min_i N_i (mu_i - level)^2 / (2 sigma^2).

        (For yes the alternative is one polyhedron, all means at the level or above: docs/paper.md.)
        """
        away = finite(means) - self.level
        below = np.minimum(away, 0.0)
        counts = np.asarray(counts, dtype=np.float64)
        yes = total(counts * below * below)
        no = (counts * away * away).min(axis=-1)
        return np.asarray(np.where(away.min(axis=-1) < 0, yes, no) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """Yes: 2 sigma^2 / (level - min)^2, all on the smallest mean; no: as for all arms above the level.

        Over a ball: the complexity at means + radius if they still say yes, at means - radius if no.
        """
        away = finite(means) - self.level
        lowest = away.min(axis=-1)
        no = crossing_complexity(away - column(radius), sigma)
        depth = -lowest - np.asarray(radius)
        smallest = away == lowest[..., None]
        yes = depth > 0
        value = np.where(yes, 2 * sigma**2 / depth / depth, np.where(lowest > 0, no.value, np.inf))
        weights = np.where(yes[..., None], smallest / total(smallest)[..., None], no.weights)
        return complexity_where(np.asarray(np.isfinite(value)), value, weights)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The complexity itself: it has a closed form."""
        return self.complexity(means, radius, sigma).value

    def pieces(self, arms: int) -> None:
        """None: a wrong yes is one polyhedron, no union of half-spaces."""
        return

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """A yes is no intersection of half-spaces: there is nothing to give."""
        raise InputError(f"The answers of '{self.name}' are no intersections of half-spaces.")

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'The smallest mean is below 0.6.'"""
        return f"the smallest mean is {'' if answer else 'not '}below {self.level:g}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Is the lowest mean of 4 arms below 0.5?'"""
        return f"Is the lowest {wording.mean} of {len(names)} arms below {wording.value(self.level)}?"

    def plain(self, answer: Answer) -> object:
        """True or false."""
        return bool(answer)

    def centre(self, means: Floats, constant: bool) -> Floats:
        """The level; if the smallest mean is below it, only that arm needs to move: T* depends on nothing else."""
        if constant or not means.min() < self.level:
            return np.full(means.shape, self.level)
        return np.where(np.arange(len(means)) == means.argmin(), self.level, means)


@dataclass(frozen=True)
class AnyAbove:
    """Is any mean above the level? The answer is yes (True) or no.

    >>> bool(AnyAbove(0.55).answer([0.5, 0.6]))
    True
    """

    level: float
    name = "any-above"
    cells = "some above a level"

    def __post_init__(self) -> None:
        checked_level(self.level)

    @property
    def mirror(self) -> MinimumBelow:
        """The question asked of the negated means."""
        return MinimumBelow(-self.level)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        self.mirror.check(arms)

    def answer(self, means: ArrayLike) -> Answer:
        """Whether the largest mean is above the level."""
        return self.mirror.answer(-finite(means))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means."""
        return np.asarray(answer == self.answer(means))

    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """As for the mirror image."""
        return self.mirror.evidence(counts, -finite(means), sigma)

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """As for the mirror image."""
        return self.mirror.complexity(-finite(means), radius, sigma)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """As for the mirror image."""
        return self.mirror.floor(-finite(means), radius, sigma)

    def pieces(self, arms: int) -> None:
        """None: a wrong yes is one polyhedron, no union of half-spaces."""
        return

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """A yes is no intersection of half-spaces: there is nothing to give."""
        raise InputError(f"The answers of '{self.name}' are no intersections of half-spaces.")

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'Some mean is above 0.6.'"""
        return f"{'some' if answer else 'no'} mean is above {self.level:g}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Does any of 4 arms have a mean above 0.5?'"""
        return f"Does any of {len(names)} arms have a {wording.mean} above {wording.value(self.level)}?"

    def plain(self, answer: Answer) -> object:
        """True or false."""
        return bool(answer)

    def centre(self, means: Floats, constant: bool) -> Floats:
        """As for the mirror image."""
        return -self.mirror.centre(-means, constant)
