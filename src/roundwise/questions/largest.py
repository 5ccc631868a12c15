"""Which of several scores, linear forms of the means, is the largest?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, one_hot, total
from roundwise.errors import InputError
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    Wording,
    checked_tolerance,
    finite,
    quiet,
    spread_over,
)
from roundwise.questions.halfspaces import border_point, halfspace_complexity, halfspace_floor, packed
from roundwise.questions.linear import check_arms, check_scale, checked_forms, numbered
from roundwise.questions.several import MOST, halfspace_complexities, near_words


@dataclass(frozen=True, eq=False)
class Largest:
    """Which of the scores `forms[j] . means + offsets[j]` is largest? The answer is its index.

    With a tolerance any score is right that is within it of the largest.

    >>> pairs = Largest([[1, 1, 0], [0, 1, 1]], names=("first two", "last two"))
    >>> int(pairs.answer([1.0, 0.5, 0.9]))
    0
    """

    forms: Floats  # a, (m, K)
    offsets: Floats | None = None
    names: tuple[str, ...] = ()
    tolerance: float = 0.0  # epsilon, in units of the scores
    name = "largest"

    def __post_init__(self) -> None:
        forms, names = checked_forms(self.forms, self.names, "score")
        if len(forms) < 2:
            raise InputError("'largest' compares scores: give at least two.")
        offsets = np.zeros(len(forms)) if self.offsets is None else np.asarray(self.offsets, dtype=np.float64)
        if offsets.shape != forms.shape[:1] or not np.isfinite(offsets).all():
            raise InputError(f"There are {len(forms)} scores; give one finite offset each.")
        for i, j in itertools.combinations(range(len(forms)), 2):
            if (forms[i] == forms[j]).all():
                raise InputError(
                    f"The scores '{names[i]}' and '{names[j]}' have the same coefficients: leave one of them out."
                )
            check_scale(f"The differences of the scores '{names[i]}' and '{names[j]}'", forms[i] - forms[j])
        checked_tolerance(self.tolerance)
        object.__setattr__(self, "forms", forms)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "names", names)

    def check(self, arms: int) -> None:
        """As many arms as the forms have coefficients."""
        check_arms(self.forms, arms)

    def flags(self, names: Sequence[str]) -> None:
        """It takes a file."""
        return

    def answer(self, means: ArrayLike) -> Answer:
        """The index of the largest score; the first one in a tie."""
        return np.asarray(self._scores(finite(means)).argmax(axis=-1))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means, or its score within the tolerance of the largest."""
        if not self.tolerance:
            return np.asarray(answer == self.answer(means))
        right = self._right(finite(means))
        return np.asarray(np.take_along_axis(right, np.asarray(answer)[..., None], axis=-1)[..., 0])

    def ways(self, means: ArrayLike) -> Floats:
        """How many scores are within the tolerance of the largest."""
        return np.asarray(self._right(finite(means)).sum(axis=-1), dtype=np.float64)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """All scores, of which those count that are right."""
        right = np.moveaxis(self._right(finite(means)), -1, 0)
        scores = np.arange(len(right)).reshape(-1, *[1] * (right.ndim - 1))
        return np.broadcast_to(scores, right.shape), right

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T_i of right scores i. The smallest need not be that of the largest score."""
        return halfspace_complexities(self, *self.right_answers(means), means, sigma)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The largest score, or with a tolerance the one with the most evidence."""
        return self._supports_of(counts, finite(means)).argmax(axis=-1) if self.tolerance else self.answer(means)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_j (s_best - s_j)^2 / (2 sigma^2 sum_i (a_best,i - a_ji)^2 / N_i).

        With a tolerance: max_i min_j (s_i - s_j + tolerance)_+^2 / (2 sigma^2 sum_l (a_il - a_jl)^2 / N_l).
        """
        values = finite(means)
        if self.tolerance:
            return np.asarray(self._supports_of(counts, values).max(axis=-1) / (2 * sigma**2))
        return np.asarray(self._support(counts, values, self.answer(values)) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball the lead over rival j shrinks by radius |a_best - a_j|_1.

        With a tolerance those of the score for which they are least, all over the ball.
        """
        means, radii = spread_over(finite(means), radius)
        if not self.tolerance:
            return halfspace_complexity(*self._rivals(means, self.answer(means)), radii, sigma)
        value, weights = np.full(means.shape[:-1], np.inf), np.full(means.shape, 1.0 / means.shape[-1])
        answers, right = self.right_answers(means)
        for answer, here in zip(answers, right, strict=True):
            if here.any():
                found = halfspace_complexity(*self._rivals(means[here], answer[here]), radii[here], sigma)
                less = found.value < value[here]
                value[here] = np.where(less, found.value, value[here])
                weights[here] = np.where(less[..., None], found.weights, weights[here])
        return Complexity(value, weights)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The largest need of one rival alone; with a tolerance the least of these over the scores."""
        values = finite(means)
        if not self.tolerance:
            return halfspace_floor(*self._rivals(values, self.answer(values)), radius, sigma)
        answers, right = self.right_answers(values)
        found = [halfspace_floor(*self._rivals(values, answer), radius, sigma) for answer in answers]
        return np.where(right, found, np.inf).min(axis=0)

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each rival."""
        widest = max(np.count_nonzero(a - b) for a, b in itertools.combinations(self.forms, 2))
        return Pieces(len(self.forms) - 1, int(widest))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The score exceeds every other score, less the tolerance."""
        assert self.offsets is not None
        best = np.asarray(answer)
        others = np.arange(len(self.forms) - 1)
        others = others + (others >= best[..., None])
        forms = self.forms[best][..., None, :] - self.forms[others]
        widest = np.sort(np.count_nonzero(self.forms, axis=-1))[-2:].sum()  # of any two scores, whatever the answer
        offsets = self.offsets[others] - self.offsets[best][..., None] - self.tolerance
        return packed(forms, offsets, min(arms, int(widest)))

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'x has the largest score.'"""
        close = f", or within {self.tolerance:g} of it" if self.tolerance else ""
        return f"{self.names[int(answer)]} is the largest{close}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 2 scores (x, y) is the largest?'"""
        return f"Which of {numbered(self.names, 'score')} is the largest{wording.near(self.tolerance)}?"

    def plain(self, answer: Answer) -> object:
        """The index."""
        return int(answer)

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x exceeds y.'"""
        near = near_words(self.tolerance)
        return [f"{self.names[int(answer)]} exceeds {name}{near}" for i, name in enumerate(self.names) if i != answer]

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """A point at which all scores tie, or with a tolerance and one right score all others are just so far ahead."""
        assert self.offsets is not None
        if self.ways(means) > 1:
            return None
        best = int(self.answer(means))
        rivals = [j for j in range(len(self.forms)) if j != best]
        forms, levels = self.forms[rivals] - self.forms[best], self.offsets[best] - self.offsets[rivals]
        return border_point(means, forms, levels + self.tolerance, constant)

    def _scores(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        assert self.offsets is not None
        sides = [total(form * means) + offset for form, offset in zip(self.forms, self.offsets, strict=True)]
        return np.stack(sides, axis=-1)

    def _right(self, means: Floats) -> Bools:
        """Which scores are within the tolerance of the largest; without one, which is the answer."""
        scores = self._scores(means)
        if not self.tolerance:
            return one_hot(scores.argmax(axis=-1), len(self.forms))
        return np.asarray(scores >= scores.max(axis=-1, keepdims=True) - self.tolerance)

    @quiet
    def _supports_of(self, counts: ArrayLike, means: Floats) -> Floats:
        """The evidence for each score, for 2 sigma^2 = 1. (K)->(m)"""
        runs = np.broadcast_shapes(np.shape(counts)[:-1], means.shape[:-1])
        means = np.broadcast_to(means, (*runs, means.shape[-1]))
        each = [self._support(counts, means, np.full(runs, i)) for i in range(len(self.forms))]
        return np.stack(each, axis=-1)

    def _support(self, counts: ArrayLike, means: Floats, answer: Answer) -> Floats:
        """The evidence for one score, for 2 sigma^2 = 1. ()"""
        rivals, ahead = self._rivals(means, answer)
        counts = np.asarray(counts, dtype=np.float64)
        least = np.full(ahead.shape[:-1], np.inf)
        for j in range(ahead.shape[-1]):
            form = rivals[..., j, :]
            spread = total(np.where(form != 0, form**2 / counts, 0.0))
            least = np.minimum(least, np.square(np.maximum(ahead[..., j], 0.0)) / spread)
        return least

    def _rivals(self, means: Floats, answer: Answer) -> tuple[Floats, Floats]:
        """The forms of a score less every other one, (..., m-1, K), and how far it is ahead, with the tolerance."""
        scores = self._scores(means)
        order = np.arange(len(self.forms) - 1)
        rival = order + (order >= answer[..., None])  # all indices but its own
        lead = np.take_along_axis(scores, answer[..., None], axis=-1)
        ahead = lead - np.take_along_axis(scores, rival, axis=-1) + self.tolerance
        return self.forms[rival] - self.forms[answer][..., None, :], ahead
