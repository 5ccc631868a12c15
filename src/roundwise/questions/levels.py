"""Questions about a level: which means are above it, or below (the thresholding bandit problem), and is any?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.errors import InputError
from roundwise.questions.base import (
    MOST,
    PLAIN_WORDING,
    Answer,
    Question,
    SidesQuestion,
    Wording,
    check_open,
    check_tolerance,
    column,
    easier_complexity,
    finite,
    near_words,
    within_words,
)
from roundwise.questions.top_k import name_arms
from roundwise.solvers.halfspaces import Complexity, Family, Halfspaces, Pieces, complexity_where


@dataclass(frozen=True)
class LevelQuestion(Question):
    """A question that compares the means with a level."""

    level: float  # tau
    tolerance: float = 0.0  # epsilon

    def __post_init__(self) -> None:
        if not math.isfinite(self.level):
            raise InputError(f"`level` is {self.level}, but must be a finite number.")
        check_tolerance(self.tolerance)

    def check_range(self, low: float, high: float) -> None:
        """Means must be possible on either side of the level, beyond the tolerance."""
        super().check_range(low, high)
        room = not self.tolerance or low < self.level - self.tolerance <= self.level + self.tolerance < high
        check_open(f"The level is {self.level:g} with a tolerance of {self.tolerance:g}", room, low, high)

    @property
    def side_text(self) -> str:
        """The side of the level that the question asks about."""
        return "below" if self.lower_is_better else "above"

    def level_text(self, wording: Wording) -> str:
        """The level and its tolerance in words."""
        return f"{wording.value(self.level)}{wording.near(self.tolerance)}"

    def level_costs(self, means: Floats, family: Family) -> Floats:
        """KL to the nearest mean at which "above", and "below", is wrong; 0 if it already is. (K)->(2, K)"""
        found = []
        for sign in (1.0, -1.0):
            border = self.level - sign * self.tolerance
            costs = family.divergence(means, border - means) if family.low < border < family.high else np.inf
            found.append(np.where(sign * (border - means) < 0, costs, 0.0))  # a mean that cannot be there never is
        return np.stack(found)


@dataclass(frozen=True)
class Above(LevelQuestion, SidesQuestion):
    """Which arms have a mean above the level, or below it if `lower_is_better`? The answer is a mask over the arms.

    An arm whose mean is within the tolerance of the level may be put on either side.

    Args:
        level: The level with which means are compared.
        tolerance: Arms whose mean is within this of the level may be put on either side.
        lower_is_better: Whether the question is which arms lie below the level.

    >>> Above(0.5).answer([1.0, 0.9, 0.2]).tolist()
    [True, True, False]
    >>> float(Above(0.5).complexity([1.0, 0.0]).value)
    16.0
    >>> float(Above(0.5, tolerance=0.5).complexity([0.5, 0.5]).value)
    16.0
    """

    lower_is_better: bool = False
    name = "above"
    accepts_arm_changes = True

    def heights(self, means: Floats) -> Floats:
        return self.merits(means - self.level)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_i N_i (|mu_i - level| + tolerance)^2 / (2 sigma^2), the most of any answer."""
        away = np.abs(finite(means) - self.level) + self.tolerance
        return np.asarray((np.asarray(counts) * away * away).min(axis=-1) / (2 * sigma**2))

    @quiet
    def complexity_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
        """T* = sum_i 2 sigma_i^2 / (|mu_i - level| + tolerance)^2 (docs/paper.md, deviation 5), less the radius."""
        away = np.abs(finite(means) - self.level) + self.tolerance
        return _show_all_arms(away - column(radius) * (sigmas / sigmas.max()), sigmas)

    @quiet
    def family_complexity(self, means: ArrayLike, family: Family) -> Complexity:
        """T~* = sum_i 1/KL(mu_i, level); with a tolerance the level moves away by it."""
        return _share(1 / self.level_costs(family.clip_means(finite(means)), family).max(axis=0))

    floor = Question.floor  # the complexity itself has a closed form
    floor_with_sigmas = Question.floor_with_sigmas

    def pieces(self, arms: int) -> Pieces:
        return Pieces(arms, 1)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        signs = np.where(answer, self.sign, -self.sign)
        index = np.broadcast_to(np.arange(arms), signs.shape)
        return Halfspaces(index[..., None], signs[..., None], signs * self.level - self.tolerance, False)

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"{self.side_text} {self.level:g}{within_words(self.tolerance)}: {name_arms(answer, names)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"Which of {len(names)} arms have a {wording.mean} {self.side_text} {self.level_text(wording)}?"

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        """Half of the arms lie above the level by the lead, the others below it by the lead."""
        return means + self.sign * np.where(np.arange(means.size) < (means.size + 1) // 2, lead, -lead)

    def border_point(self, means: Floats, constant: bool) -> Floats | None:
        """The level; with a tolerance and one right set, a point that far beyond it; otherwise None."""
        if not self.tolerance:
            return np.full(means.shape, self.level)
        if self.count_right_answers(means) > 1 or (constant and self.answer(means).any() != self.answer(means).all()):
            return None
        return self.level + self.sign * np.where(self.answer(means), -self.tolerance, self.tolerance)


@dataclass(frozen=True)
class SomeBeyond(LevelQuestion):
    """Is any mean beyond the level? Yes (True) or no. Written for "below"; "above" negates everything."""

    has_border = True

    @property
    def side(self) -> float:
        """1 for below, -1 for above."""
        return -self.sign

    def _sides(self, means: ArrayLike) -> tuple[Floats, float]:
        """The means and the level, negated for "above"."""
        return self.side * finite(means), self.side * self.level

    def answer(self, means: ArrayLike) -> Answer:
        seen, level = self._sides(means)
        return np.asarray(seen.min(axis=-1) < level)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        return np.asarray((answer == self.answer(means)) | self._near(means))

    def count_right_answers(self, means: ArrayLike) -> Floats:
        return np.where(self._near(means), 2.0, 1.0)

    def _near(self, means: ArrayLike) -> Bools:
        """Whether both answers are right. ()"""
        seen, level = self._sides(means)
        if not self.tolerance:
            return np.zeros(seen.shape[:-1], dtype=np.bool_)
        return np.asarray(np.abs(seen.min(axis=-1) - level) <= self.tolerance)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        said = np.stack([np.full(np.shape(means)[:-1], each) for each in (True, False)])
        return said, np.stack([self.correct(each, means) for each in said])

    @quiet
    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T of yes and of no. To show "no" is to show that all arms lie above the level minus the tolerance."""
        _, right = self.right_answers(means)
        both = [each.value for each in self._both(means, 0.0, np.array([sigma]))]
        return np.where(np.moveaxis(right, 0, -1), np.stack(both, axis=-1), np.nan)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        if not self.tolerance:
            return self.answer(means)
        yes, no = self._for_both(counts, means)
        return np.asarray(yes > no)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """Yes: sum_i N_i (level - mu_i)_+^2 / (2 sigma^2); no: min_i N_i (mu_i - level)_+^2 / (2 sigma^2).

        (The alternative of yes is one polyhedron: all means at or above the level, docs/paper.md.) One of the two is 0;
        with a tolerance, which moves the level in favour of each answer, the larger one counts.
        """
        yes, no = self._for_both(counts, means)
        return np.asarray(np.maximum(yes, no) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        return self.complexity_with_sigmas(means, radius, np.array([float(sigma)]))

    @quiet
    def complexity_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
        """Yes: 2 (sigma_i / (level - mu_i))^2, with all samples on the arm that needs the fewest; no: as for `Above`.

        Over a ball: the complexity at means + radius for yes, at means - radius for no. With a tolerance, which moves
        the level in favour of each answer, the smaller one counts.
        """
        return easier_complexity(*self._both(means, radius, sigmas))

    @quiet
    def _both(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> tuple[Complexity, Complexity]:
        """T* and w* of showing yes, and of showing no; infinite if it cannot be shown."""
        seen, level = self._sides(means)
        scales, largest = sigmas / sigmas.max(), float(sigmas.max())
        shrunk = column(radius) * scales
        depths = (self.tolerance - (seen - level) - shrunk) / scales
        deepest = depths.max(axis=-1)
        value = np.where(deepest > 0, 2 * largest**2 / deepest / deepest, np.inf)
        return _show_one(value, depths), _show_all_arms((seen - level) + self.tolerance - shrunk, sigmas)

    def _for_both(self, counts: ArrayLike, means: ArrayLike) -> tuple[Floats, Floats]:
        """The evidence for yes, and for no, for 2 sigma^2 = 1."""
        seen, level = self._sides(means)
        away, counts = seen - level, np.asarray(counts, dtype=np.float64)
        below, above = np.minimum(away - self.tolerance, 0.0), np.maximum(away + self.tolerance, 0.0)
        return total(counts * below * below), np.asarray((counts * above * above).min(axis=-1))

    @quiet
    def family_complexity(self, means: ArrayLike, family: Family) -> Complexity:
        """Yes: 1/KL, with all samples on the arm with the largest divergence from the level; no: sum_i 1/KL."""
        return easier_complexity(*self._both_in_family(family.clip_means(finite(means)), family))

    @quiet
    def family_complexities(self, means: ArrayLike, family: Family) -> Floats:
        values = family.clip_means(finite(means))
        both = [each.value for each in self._both_in_family(values, family)]
        _, right = self.right_answers(values)
        return np.where(np.moveaxis(right, 0, -1), np.stack(both, axis=-1), np.nan)

    def _both_in_family(self, means: Floats, family: Family) -> tuple[Complexity, Complexity]:
        yes, no = self.level_costs(means, family)[:: -int(self.side)]
        return _show_one(1 / yes.max(axis=-1), yes), _share(1 / no)

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        """One arm lies beyond the level by the lead, and all others on the other side by the lead."""
        found = self.side * means + lead
        found[0] -= 2 * lead
        return self.side * found

    def lead_patterns(self, arms: int) -> Floats:
        """Yes and no are equally likely: any one arm is beyond the level, or none is."""
        return self.side * (1.0 - 2.0 * np.concatenate([np.eye(arms), np.zeros((arms, arms))]))

    def easier_side(self, means: Floats) -> float:
        return -self.side if self.answer(means) else self.side

    def border_point(self, means: Floats, constant: bool) -> Floats | None:
        """The level; if the smallest mean is below it, only that arm moves, since T* depends on no other.

        With a tolerance and one right answer the level moves by the tolerance; None if both are right.
        """
        if self.count_right_answers(means) > 1:
            return None
        seen, level = self._sides(means)
        yes = bool(seen.min() < level)
        level += self.tolerance if yes else -self.tolerance
        all_move = constant or not yes
        return self.side * np.where(all_move | (np.arange(len(seen)) == seen.argmin()), level, seen)


@dataclass(frozen=True)
class MinimumBelow(SomeBeyond):
    """Is the smallest mean below the level? The answer is yes (True) or no.

    Both answers are right while the smallest mean is within the tolerance of the level.

    Args:
        level: The level with which the smallest mean is compared.
        tolerance: Both answers are right while the smallest mean is within this of the level.

    >>> question = MinimumBelow(0.6)
    >>> bool(question.answer([0.5, 0.6]))
    True
    >>> [round(float(x), 6) for x in question.complexity([0.5, 0.6]).weights]
    [1.0, 0.0]
    """

    name = "minimum-below"
    lower_is_better = True

    def direction_options(self) -> list[str]:
        return []

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"the smallest mean is {'' if answer else 'not '}below {self.level:g}{near_words(self.tolerance)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"Is the lowest {wording.mean} of {len(names)} arms below {self.level_text(wording)}?"


@dataclass(frozen=True)
class AnyAbove(SomeBeyond):
    """Is any mean above the level, or below it if `lower_is_better`? Yes (True) or no; tolerance as for `MinimumBelow`.

    Args:
        level: The level with which means are compared.
        tolerance: Both answers are right while the best mean is within this of the level.
        lower_is_better: Whether the question is whether any arm lies below the level.

    >>> bool(AnyAbove(0.55).answer([0.5, 0.6]))
    True
    """

    lower_is_better: bool = False
    name = "any-above"

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"{'some' if answer else 'no'} mean is {self.side_text} {self.level:g}{near_words(self.tolerance)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"Does any of {len(names)} arms have a {wording.mean} {self.side_text} {self.level_text(wording)}?"


@quiet
def _show_all_arms(distances: Floats, sigmas: Floats) -> Complexity:
    """The complexity of showing that every arm lies on its side: sum_i 2 sigma_i^2 / distance_i^2. (K)->(),(K)"""
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    smallest, largest = np.where(possible, smallest, 1.0), float(sigmas.max())
    needs = (smallest[..., None] / np.where(possible[..., None], distances, 1.0) * (sigmas / largest)) ** 2
    value, weights = _share(needs)
    return complexity_where(possible, value * (2 * largest**2 / smallest / smallest), weights)


def _share(needs: Floats) -> Complexity:
    """The complexity and shares if every arm must be shown and arm i needs this many results. (K)->(),(K)"""
    amount = total(needs)
    return complexity_where(np.asarray(np.isfinite(amount)), amount, needs / amount[..., None])


def _show_one(value: Floats, merits: Floats) -> Complexity:
    """The complexity and shares if one arm must be shown, the one with the largest merit. (),(K)->(),(K)"""
    first = merits == merits.max(axis=-1, keepdims=True)
    return complexity_where(np.asarray(np.isfinite(value)), value, first / total(first)[..., None])
