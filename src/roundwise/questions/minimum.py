"""Is the smallest mean below a level? And its mirror: is any mean above a level?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.questions.above import check_room, checked_level, crossing_complexity
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Wording,
    at_least_two,
    checked_tolerance,
    column,
    complexity_where,
    finite,
    quiet,
)
from roundwise.questions.several import MOST


@dataclass(frozen=True)
class MinimumBelow:
    """Is the smallest mean below the level? The answer is yes (True) or no.

    With a tolerance both are right where the smallest mean is within it of the level.

    >>> question = MinimumBelow(0.6)
    >>> bool(question.answer([0.5, 0.6]))
    True
    >>> [round(float(x), 6) for x in question.complexity([0.5, 0.6]).weights]
    [1.0, 0.0]
    """

    level: float  # tau
    tolerance: float = 0.0  # epsilon
    name = "minimum-below"
    cells = "some below a level"

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
        """Whether the smallest mean is below the level."""
        return np.asarray(finite(means).min(axis=-1) < self.level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means, or the smallest is within the tolerance of the level."""
        near = np.abs(finite(means).min(axis=-1) - self.level) <= self.tolerance if self.tolerance else False
        return np.asarray((answer == self.answer(means)) | near)

    def ways(self, means: ArrayLike) -> Floats:
        """Two if the smallest mean is within the tolerance of the level, else one."""
        both = np.abs(finite(means).min(axis=-1) - self.level) <= self.tolerance if self.tolerance else False
        return np.where(both, 2.0, np.ones(np.shape(means)[:-1]))

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """Yes and no."""
        said = np.stack([np.full(np.shape(means)[:-1], each) for each in (True, False)])
        return said, np.stack([self.correct(each, means) for each in said])

    @quiet
    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T of yes and of no: with no, all arms lie above the level less the tolerance."""
        _, right = self.right_answers(means)
        both = [each.value for each in self._both(finite(means), 0.0, sigma)]
        return np.where(np.moveaxis(right, 0, -1), np.stack(both, axis=-1), np.nan)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """What the smallest mean says, or with a tolerance what has more evidence."""
        if not self.tolerance:
            return self.answer(means)
        yes, no = self._for_both(counts, finite(means))
        return np.asarray(yes > no)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """Yes: sum_i N_i (level - mu_i)_+^2 / (2 sigma^2); no: min_i N_i (mu_i - level)_+^2 / (2 sigma^2).

        (For yes the alternative is one polyhedron, all means at the level or above: docs/paper.md.) One of them is 0;
        with a tolerance, by which the level moves in favour of each, the larger counts.
        """
        yes, no = self._for_both(counts, finite(means))
        return np.asarray(np.maximum(yes, no) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """Yes: 2 sigma^2 / (level - min)^2, all on the smallest mean; no: as for all arms above the level.

        Over a ball: the complexity at means + radius for yes, at means - radius for no. With a tolerance, by which the
        level moves in favour of each, the smaller counts.
        """
        yes, no = self._both(finite(means), radius, sigma)
        easier = yes.value <= no.value
        value = np.where(easier, yes.value, no.value)
        weights = np.where(easier[..., None], yes.weights, no.weights)
        return complexity_where(np.asarray(np.isfinite(value)), value, weights)

    @quiet
    def _both(self, means: Floats, radius: ArrayLike, sigma: float) -> tuple[Complexity, Complexity]:
        """T* and w* of showing yes, and of showing no; infinite where that cannot be shown."""
        away = means - self.level
        lowest = away.min(axis=-1)
        no = crossing_complexity(away + self.tolerance - column(radius), sigma)
        depth = self.tolerance - lowest - np.asarray(radius)
        smallest = away == lowest[..., None]
        value = np.where(depth > 0, 2 * sigma**2 / depth / depth, np.inf)
        weights = np.broadcast_to(smallest / total(smallest)[..., None], (*value.shape, means.shape[-1]))
        return complexity_where(np.asarray(np.isfinite(value)), value, weights), no

    def _for_both(self, counts: ArrayLike, means: Floats) -> tuple[Floats, Floats]:
        """The evidence for yes, and for no, for 2 sigma^2 = 1."""
        away, counts = means - self.level, np.asarray(counts, dtype=np.float64)
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

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'The smallest mean is below 0.6.'"""
        close = f" (or is within {self.tolerance:g})" if self.tolerance else ""
        return f"the smallest mean is {'' if answer else 'not '}below {self.level:g}{close}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Is the lowest mean of 4 arms below 0.5?'"""
        near = f", give or take {wording.gap(self.tolerance)}" if self.tolerance else ""
        return f"Is the lowest {wording.mean} of {len(names)} arms below {wording.value(self.level)}{near}?"

    def plain(self, answer: Answer) -> object:
        """True or false."""
        return bool(answer)

    def led(self, means: Floats, lead: float) -> Floats:
        """One arm is so much lower, all others so much higher."""
        found = means + lead
        found[0] -= 2 * lead
        return found

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """The level; if the smallest mean is below it, only that arm needs to move: T* depends on nothing else.

        With a tolerance and one right answer the level moves by it; if both are right, there is none.
        """
        if self.ways(means) > 1:
            return None
        yes = bool(means.min() < self.level)
        level = self.level + (self.tolerance if yes else -self.tolerance)
        if constant or not yes:
            return np.full(means.shape, level)
        return np.where(np.arange(len(means)) == means.argmin(), level, means)


@dataclass(frozen=True)
class AnyAbove:
    """Is any mean above the level? The answer is yes (True) or no; with a tolerance as for `MinimumBelow`.

    >>> bool(AnyAbove(0.55).answer([0.5, 0.6]))
    True
    """

    level: float
    tolerance: float = 0.0  # epsilon
    name = "any-above"
    cells = "some above a level"

    def __post_init__(self) -> None:
        checked_level(self.level)
        checked_tolerance(self.tolerance)

    @property
    def mirror(self) -> MinimumBelow:
        """The question asked of the negated means."""
        return MinimumBelow(-self.level, self.tolerance)

    def check(self, arms: int) -> None:
        """Two arms or more."""
        self.mirror.check(arms)

    def check_range(self, low: float, high: float) -> None:
        """Means must be possible on either side, beyond the tolerance."""
        check_room(self.level, self.tolerance, low, high)

    def answer(self, means: ArrayLike) -> Answer:
        """Whether the largest mean is above the level."""
        return self.mirror.answer(-finite(means))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """As for the mirror image."""
        return self.mirror.correct(answer, -finite(means))

    def ways(self, means: ArrayLike) -> Floats:
        """As for the mirror image."""
        return self.mirror.ways(-finite(means))

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """As for the mirror image."""
        return self.mirror.right_answers(-finite(means), most)

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """As for the mirror image."""
        return self.mirror.complexities(-finite(means), sigma, most)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """As for the mirror image."""
        return self.mirror.verdict(counts, -finite(means))

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
        close = f" (or is within {self.tolerance:g})" if self.tolerance else ""
        return f"{'some' if answer else 'no'} mean is above {self.level:g}{close}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Does any of 4 arms have a mean above 0.5?'"""
        near = f", give or take {wording.gap(self.tolerance)}" if self.tolerance else ""
        return f"Does any of {len(names)} arms have a {wording.mean} above {wording.value(self.level)}{near}?"

    def plain(self, answer: Answer) -> object:
        """True or false."""
        return bool(answer)

    def led(self, means: Floats, lead: float) -> Floats:
        """As for the mirror image."""
        return -self.mirror.led(-means, lead)

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """As for the mirror image."""
        found = self.mirror.centre(-means, constant)
        return None if found is None else -found
