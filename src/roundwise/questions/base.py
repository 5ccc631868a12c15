"""The base classes of questions.

A question is about the unknown means of K arms. The last axis of an array is the arms, any axes before it runs:

- `answer: (K)->...`                  the answer if these were the means (arrays; see each question)
- `evidence: (K),(K)->()`             counts, means: inf over alternatives of sum_i N_i (mu_i - lambda_i)^2/(2 sigma^2),
                                      the generalised likelihood ratio (eq. 1 of the paper), maximised over the right
                                      answers
- `complexity: (K)->(),(K)`           T* and w*; with a radius Tbar* and wbar* over the sup-norm ball (Definition 3.3)
- `floor: (K)->()`                    a cheap lower bound on the complexity

Infinite complexity (a tie, a mean on the level, a ball with two answers) is `inf`, with equal weights.

`HalfspaceQuestion` derives all of this from the half-spaces of each answer. Derive from `Question` itself where the
region of an answer is no such intersection.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Array, Bools, Facts, Floats, one_hot, quiet, total
from roundwise.errors import InputError
from roundwise.solvers import divergence
from roundwise.solvers.halfspaces import (
    Complexity,
    Family,
    Halfspaces,
    Pieces,
    halfspace_complexity,
    midrange,
    nearest_border_point,
)

Answer = Array

MOST = 200  # the most right answers that are enumerated
MOST_PATTERNS = 1000  # the most lead patterns that are enumerated
_ENTRIES = 2**21  # coefficients of half-spaces processed at a time


class Wording(NamedTuple):
    """How values are written for people: the word for a mean, and formats for a value and a difference."""

    mean: str = "mean"
    value: Callable[[float], str] = "{:g}".format
    gap: Callable[[float], str] = "{:g}".format

    def near(self, tolerance: float) -> str:
        """The tolerance as text; "" without one."""
        return f", give or take {self.gap(tolerance)}" if tolerance else ""


PLAIN_WORDING = Wording()
CURRENCIES = "$€£¥"  # signs written before the number
RATE_WORDING = Wording("rate", lambda rate: f"{100 * rate:.6g} %", lambda gap: f"{100 * gap:.6g} points")


def write_in_unit(number: str, unit: str) -> str:
    """A number with its unit, if it has one.

    >>> write_in_unit("3.5", "s"), write_in_unit("-3.50", "$"), write_in_unit("3.5", "")
    ('3.5 s', '-$3.50', '3.5')
    """
    if unit not in CURRENCIES or not unit:
        return f"{number} {unit}".rstrip()
    return f"-{unit}{number[1:]}" if number.startswith("-") else f"{unit}{number}"


def wording_in_unit(unit: str) -> Wording:
    """The wording for values in a unit."""
    return Wording(value=lambda x: write_in_unit(f"{x:g}", unit), gap=lambda x: write_in_unit(f"{x:g}", unit))


class Question(ABC):
    """A question about the means of K arms.

    A subclass is a frozen dataclass with a `name`; its fields are its settings. It defines `answer`, `evidence` and
    `complexity`; everything else has a default. Derive from `HalfspaceQuestion` where every answer is right on an
    intersection of half-spaces: then `answer` and `halfspaces` are enough.
    """

    name: ClassVar[str]  # used on the command line and in reports
    tolerance: float = 0.0  # epsilon: by how much an answer may miss the best
    lower_is_better: bool = False  # whether small means are sought
    level: float | None = None  # that means are compared with
    names: tuple[str, ...] = ()  # the names of an answer's indices; () if these are arms
    forms: Floats | None = None  # (m, K), coefficients of statements, claims or scores
    levels: Floats | None = None  # (m), the levels with which statements or claims compare the forms
    control: int | None = None  # the arm that all others are compared with, by the difference of means
    reference_arm: int | None = None  # the same, on any scale (also odds ratios)
    margin: float | None = 0.0  # the margin of all these comparisons; None if they have different ones
    independent: bool = False  # whether e-values of different claims are multiplied
    odds: bool = False  # whether claims are about odds ratios: they have neither complexity nor likelihood ratio
    number_sought: int | None = None  # k, if the question seeks the k largest means
    features: Floats | None = None  # (K, d), if the means are linear in features of the arms
    has_border: ClassVar[bool] = False  # whether `border_point` is known
    separate_claims: ClassVar[bool] = False  # whether claims are shown one at a time, permanently (`Claims`)
    accepts_arm_changes: ClassVar[bool] = False  # whether arms may leave and join a running study
    needs_one_sigma: ClassVar[bool] = False  # whether the complexity needs one sigma for all arms
    nearest_answer_first: ClassVar[bool] = False  # whether the first right answer has the most evidence

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for field in inspect.get_annotations(cls):
            if field not in cls.__dict__ and field in vars(Question):  # a required field must not get a default here
                setattr(cls, field, dataclasses.field())

    # --- direction

    def merits(self, values: Floats) -> Floats:
        """Means or totals, negated if lower is better, so that larger ones are always better. (K)->(K)"""
        return -values if self.lower_is_better else values

    @property
    def seeks_better(self) -> bool:
        """Whether the question compares arms by merit, so that the direction matters; levels and forms have directions
        of their own.
        """
        return self.reference_arm is not None or (self.level is None and self.levels is None)

    @property
    def sign(self) -> float:
        """1, or -1 if lower is better."""
        return -1.0 if self.lower_is_better else 1.0

    @property
    def opposites(self) -> bool:
        """Whether the opposite of a claim can be shown as well."""
        return False

    # --- checks

    def check(self, arms: int) -> None:
        """Raise an InputError if the question cannot be asked of this number of arms."""
        at_least_two(arms)

    def check_range(self, low: float, high: float) -> None:
        """Raise an InputError if means between `low` and `high` all have the same answer."""
        check_open(f"The level is {self.level}", self.level is None or low <= self.level <= high, low, high)

    def check_means(self, means: ArrayLike) -> None:
        """Raise an InputError for true means that the question rules out."""
        return

    # --- answers

    @abstractmethod
    def answer(self, means: ArrayLike) -> Answer:
        """The answer if these were the means: an index, a mask or indices for each run. (K)->...

        Args:
            means: The means of all arms, (..., K).

        Returns:
            The answer of each run.
        """

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether the answer is right for these means, in each run.

        Args:
            answer: The answer of each run.
            means: The true means, (..., K).

        Returns:
            A truth value for each run.
        """
        values = finite(means)
        same = np.asarray(answer == self.answer(values))
        return np.asarray(same.all(axis=tuple(range(values.ndim - 1, same.ndim))))

    def count_right_answers(self, means: ArrayLike) -> Floats:
        """The number of right answers at these means. ()"""
        return np.ones(np.shape(means)[:-1])

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """Up to `most` right answers on a new first axis, and whether a run has that one. (A,...),(A)"""
        answer = self.answer(means)
        return answer[None], np.ones((1, *np.shape(means)[:-1]), dtype=np.bool_)

    def candidate_answers(self, means: Floats) -> tuple[Answer, Bools]:
        """A subset of the right answers that includes the one with the most evidence. (A,...),(A)"""
        if not self.tolerance:
            return Question.right_answers(self, means)
        return self.right_answers(means, 1 if self.nearest_answer_first else MOST)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The answer with the most evidence."""
        return self.answer(means)

    def fit_means(self, counts: ArrayLike, means: ArrayLike) -> Floats:
        """The estimates of all means: the empirical ones, unless arms inform about each other. (K),(K)->(K)"""
        return np.asarray(means, dtype=np.float64)

    def count_true_claims(self, answer: Answer, means: ArrayLike) -> Floats | None:
        """The number of true claims that were shown, in each run; None without `separate_claims`."""
        return None

    # --- evidence and complexity

    @abstractmethod
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """The generalised likelihood ratio of the answer at `means` against all others. (K),(K)->()

        Args:
            counts: The number of results of each arm, (..., K).
            means: The empirical means, (..., K).
            sigma: The standard deviation of one result.

        Returns:
            The evidence in nats, one number per run.
        """

    @abstractmethod
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; with a radius, their worst case over the ball. (K)->(),(K)

        Args:
            means: The true means, (..., K).
            radius: The radius of the ball around them.
            sigma: The standard deviation of one result.

        Returns:
            The complexity T* and the optimal shares w*.
        """

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T_i of each right answer i, the smallest among them: what it takes to show i; nan beyond. (K)->(A)"""
        return self.complexity(means, sigma=sigma).value[..., None]

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """A cheap lower bound on `complexity(...).value`."""
        return self.complexity(means, radius, sigma).value

    def complexity_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
        """T* and w* if arm i has deviation sigma_i; the ball has radius r sigma_i/max sigma in arm i."""
        raise InputError(f"The question '{self.name}' needs one sigma for all arms.")

    def floor_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Floats:
        """A cheap lower bound on `complexity_with_sigmas(...).value`."""
        return self.complexity_with_sigmas(means, radius, sigmas).value

    def family_complexity(self, means: ArrayLike, family: Family) -> Complexity:
        """T~* and w*, with the KL divergences of the family of the rewards; the easiest right answer counts."""
        raise InputError(f"The question '{self.name}' has no complexity for {family.name}.")

    def family_complexities(self, means: ArrayLike, family: Family) -> Floats:
        """T~_i of each right answer i; nan beyond them. (K)->(A)"""
        return self.family_complexity(means, family).value[..., None]

    def pieces(self, arms: int) -> Pieces | None:
        """How half-spaces cover the alternatives of an answer; None if these are no such union."""
        return None

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The half-spaces on whose intersection the answer is right; their complements are the pieces.

        Args:
            answer: The answer of each run.
            arms: K, the number of arms.

        Returns:
            The half-spaces, one piece per comparison.
        """
        raise InputError(f"The answers of '{self.name}' are not intersections of half-spaces.")

    def border_point(self, means: Floats, constant: bool) -> Floats | None:
        """The nearest point on the borders of all wrong answers, or None; `constant`: all arms equal. (K)"""
        return None

    def easier_side(self, means: Floats) -> float | None:
        """1 or -1 if the answer gets easier as all means move up or down together; None otherwise."""
        return None

    def without_features(self) -> Question:
        """The same question without the features of the arms."""
        return self

    # --- words and data

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        """The question as a sentence."""
        return f"{self.name} of {len(names)} arms?"

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        """An answer in words."""
        found, named = self.answer_to_json(answer), self.answer_names(names)
        if isinstance(found, bool):
            return "yes" if found else "no"
        return ", ".join(named[i] for i in (found if isinstance(found, list) else [found])) or "none"

    def answer_to_json(self, answer: Answer) -> Any:
        """An answer as JSON: an index, a list of indices, or true/false."""
        found = np.asarray(answer)
        return (np.flatnonzero(found) if found.ndim and found.dtype == np.bool_ else found).tolist()

    def answer_names(self, arms: Sequence[str]) -> Sequence[str]:
        """The names of an answer's indices: those of the question, or of the arms."""
        return self.names or arms

    def halfspace_texts(self, answer: Answer, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> list[str]:
        """Each half-space of an answer in words."""
        return describe_halfspaces(self.halfspaces(answer, len(names)), names, self.lower_is_better, wording)

    def claim_texts(self, names: Sequence[str]) -> tuple[str, ...]:
        """Each statement or claim in words; () if the question has none."""
        return ()

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        """Equal means, changed so that the right answer leads by `lead`: a row of a plan. (K)->(K)"""
        raise InputError(f"The question '{self.name}' has no ladder of leads. Give the expected means instead.")

    def lead_patterns(self, arms: int) -> Floats | None:
        """Equally likely patterns of means, in units of the lead, in which the right answer leads by one lead. (P, K)

        None if each arm may be on either side of the level, or no patterns are known.
        """
        return None

    def cli_options(self, names: Sequence[str]) -> list[str] | None:
        """The command-line options that follow the name of the question; None if it must be given as a file."""
        known = {"--level": self.level, "--tolerance": self.tolerance or None}
        found = [word for option, value in known.items() if value is not None for word in (option, f"{value:g}")]
        return [*found, *self.direction_options()]

    def direction_options(self) -> list[str]:
        """`--lower-is-better`, if it applies."""
        return ["--lower-is-better"] if self.lower_is_better else []

    @classmethod
    def from_shorthand(cls, fields: Facts) -> Self | None:
        """The question that a shorthand describes; None if `fields` are its fields."""
        return None


class HalfspaceQuestion(Question):
    """A question whose answers are each right on an intersection of half-spaces of the means.

    Evidence, complexity, its lower bound, verdict and border point follow from `halfspaces`. A tolerance belongs in the
    offsets; with one, override `right_answers` and `count_right_answers`.
    """

    has_border = True

    @abstractmethod
    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The half-spaces on whose intersection the answer is right; axes of runs come first. ...->(P)"""

    def pieces(self, arms: int) -> Pieces:
        """Always valid: one piece with all arms. Fewer arms per piece lower the threshold."""
        return Pieces(1, arms)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether the answer is the one at these means, or the means are in all of its half-spaces."""
        _, distances = self._distances(answer, finite(means))
        inside = (distances >= 0 if self.tolerance else distances > 0).all(axis=-1)
        return np.asarray(super().correct(answer, means) | inside)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The answer at the estimates; with a tolerance, the right answer with the most evidence."""
        fitted = self.fit_means(counts, means)
        if not self.tolerance:
            return self.answer(fitted)
        answers, _ = self.candidate_answers(fitted)
        most = self._supports(counts, means).argmax(axis=0)
        index = most.reshape((1, *most.shape, *[1] * (answers.ndim - 1 - most.ndim)))
        answers = np.broadcast_to(answers, (len(answers), *most.shape, *answers.shape[1 + most.ndim :]))
        return np.take_along_axis(answers, np.broadcast_to(index, (1, *answers.shape[1:])), axis=0)[0]

    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """max over answers of min_j (a_j.mu - b_j)_+^2 / (2 sigma^2 sum_i a_ji^2 / N_i)."""
        return np.asarray(self._supports(counts, means).max(axis=0) / (2 * sigma**2))

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w* of the easiest right answer; over a ball the distance to half-space j shrinks by radius |a_j|_1."""
        return self.complexity_with_sigmas(means, radius, np.array([float(sigma)]))

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The samples that the most demanding half-space needs on its own, for the easiest right answer."""
        return self.floor_with_sigmas(means, radius, np.array([float(sigma)]))

    @quiet
    def complexity_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
        """T* and w* of the easiest right answer."""
        values, radii, runs = flatten_runs(means, radius)
        same = len(values) > 1 and bool((values == values[:1]).all() and (radii == radii[:1]).all())
        if same:  # as in a simulation of one instance
            values, radii = values[:1], radii[:1]
        best = Complexity(np.full(len(values), np.inf), np.full(values.shape, 1.0 / values.shape[-1]))
        for answer, there in zip(*self.candidate_answers(values), strict=True):
            for rows in self._chunks(values):
                found = self._answer_complexity(answer[rows], values[rows], radii[rows], sigmas)
                less = there[rows] & (found.value < best.value[rows])
                best.value[rows] = np.where(less, found.value, best.value[rows])
                best.weights[rows] = np.where(less[:, None], found.weights, best.weights[rows])
        value, weights = (np.repeat(each, math.prod(runs), axis=0) if same else each for each in best)
        return Complexity(value.reshape(runs), weights.reshape((*runs, values.shape[-1])))

    def _answer_complexity(self, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
        """T and w of showing that this answer is right. (R,...),(R,K),(R)->(R),(R,K)

        The variance of a form is sum_i a_i^2 sigma_i^2/n_i, so a_i sigma_i replaces a_i.
        """
        forms, distances = self._distances(answer, means)
        largest = float(sigmas.max())
        found = halfspace_complexity(forms * (sigmas / largest), np.maximum(distances, 0.0), radii[:, None], largest)
        nothing = np.isinf(distances).all(axis=-1, keepdims=True)  # no half-space needs to be shown
        return found._replace(weights=np.where(nothing, 1.0 / means.shape[-1], found.weights))

    @quiet
    def floor_with_sigmas(self, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Floats:
        """As `floor`, with a standard deviation for each arm."""
        values, radii, runs = flatten_runs(means, radius)
        least = np.full(len(values), np.inf)
        for answer, there in zip(*self.candidate_answers(values), strict=True):
            for rows in self._chunks(values):
                found = self._answer_floor(answer[rows], values[rows], radii[rows], sigmas)
                least[rows] = np.where(there[rows], np.minimum(least[rows], found), least[rows])
        return least.reshape(runs)

    def _answer_floor(self, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Floats:
        """2 sigma^2 |a|_1^2 / distance^2 (Cauchy-Schwarz)."""
        forms, distances = self._distances(answer, means)
        largest = float(sigmas.max())
        lengths = np.abs(forms * (sigmas / largest)).sum(axis=-1)
        distances = np.maximum(distances, 0.0) - radii[:, None] * lengths
        return np.where(distances > 0, 2 * largest**2 * (lengths / distances) ** 2, np.inf).max(axis=-1)

    @quiet
    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        values = finite(means)
        found = []
        for answer, there in zip(*self.right_answers(values, most), strict=True):
            needs = np.full(there.shape, np.nan)
            if there.any():
                mine = values[there]
                needs[there] = self._answer_complexity(
                    answer[there], mine, np.zeros(len(mine)), np.array([float(sigma)])
                ).value
            found.append(needs)
        return np.stack(found, axis=-1)

    def family_complexity(self, means: ArrayLike, family: Family) -> Complexity:
        values = family.clip_means(finite(means))
        each = (self._family_complexity(*answer, values, family) for answer in self._family_answers(values))
        return reduce(easier_complexity, each)

    def family_complexities(self, means: ArrayLike, family: Family) -> Floats:
        values = family.clip_means(finite(means))
        each = [
            np.where(right, self._family_complexity(answer, right, values, family).value, np.nan)
            for answer, right in self._family_answers(values)
        ]
        return np.stack(each, axis=-1)

    def border_point(self, means: Floats, constant: bool) -> Floats | None:
        """The nearest point on the borders of all half-spaces of the answer; None if several answers are right."""
        if self.count_right_answers(means) > 1:
            return None
        pieces = self.halfspaces(self.answer(means), len(means))
        return nearest_border_point(means, pieces.dense(len(means)), pieces.offsets, constant)

    def _distances(self, answer: Answer, means: Floats) -> tuple[Floats, Floats]:
        """The half-spaces as dense forms, and how far inside the means are. (..., P, K), (..., P)"""
        pieces = self.halfspaces(answer, means.shape[-1])
        dense = pieces.dense(means.shape[-1])
        forms = np.broadcast_to(dense, (*means.shape[:-1], *dense.shape[-2:]))
        return forms, np.asarray(total(forms * means[..., None, :]) - pieces.offsets)

    @quiet
    def _supports(self, counts: ArrayLike, means: ArrayLike) -> Floats:
        """The evidence for each candidate answer, for 2 sigma^2 = 1. (A, ...)"""
        values, pulls = np.broadcast_arrays(finite(means), np.asarray(counts, dtype=np.float64))
        found = []
        for answer, there in zip(*self.candidate_answers(values), strict=True):
            forms, distances = self._distances(answer, values)
            spread = total(np.where(forms != 0, forms**2 / pulls[..., None, :], 0.0))
            found.append(np.where(there, (np.square(np.maximum(distances, 0.0)) / spread).min(axis=-1), 0.0))
        return np.stack(found)

    def _chunks(self, means: Floats) -> list[slice]:
        """Slices of runs that are processed together, which limits the memory."""
        if not len(means):
            return []
        pieces = self.halfspaces(self.answer(means[:1]), means.shape[-1]).offsets.size
        step = max(1, _ENTRIES // (means.shape[-1] * max(1, pieces)))
        return [slice(i, i + step) for i in range(0, len(means), step)]

    def _family_answers(self, means: Floats) -> list[tuple[Answer, Bools]]:
        """Every right answer, and the runs in which it is right."""
        if not self.tolerance:
            return list(zip(*Question.right_answers(self, means), strict=True))
        if (self.count_right_answers(means) > max(MOST, means.shape[-1])).any():
            raise InputError(
                f"More than {MOST} answers are right within the tolerance, too many for the divergences of these "
                "rewards. Choose a smaller tolerance."
            )
        return list(zip(*self.right_answers(means), strict=True))

    def _family_complexity(self, answer: Answer, right: Bools, means: Floats, family: Family) -> Complexity:
        return divergence.family_complexity(self.halfspaces(answer, means.shape[-1]), means, family, right)


class SidesQuestion(HalfspaceQuestion):
    """Which of several quantities are above their levels? The answer is a mask over them.

    A quantity within the tolerance of its level may be put on either side.
    """

    nearest_answer_first = True

    @abstractmethod
    def heights(self, means: Floats) -> Floats:
        """How far each quantity is above its level. (K)->(P)"""

    def answer(self, means: ArrayLike) -> Answer:
        return np.asarray(self.heights(finite(means)) > 0)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        heights = self.heights(finite(means))
        near = np.abs(heights) <= self.tolerance if self.tolerance else False
        return np.asarray(((answer == (heights > 0)) | near).all(axis=-1))

    def count_right_answers(self, means: ArrayLike) -> Floats:
        heights = self.heights(finite(means))
        free = (np.abs(heights) <= self.tolerance).sum(axis=-1) if self.tolerance else np.zeros(heights.shape[:-1])
        return np.asarray(2.0 ** np.minimum(free, 1000.0))

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        return enumerate_answers(finite(means), self._right_masks, most)

    def _right_masks(self, means: Floats) -> Iterable[Bools]:
        heights = self.heights(means)
        near = np.abs(heights) <= self.tolerance if self.tolerance else np.zeros(heights.shape, dtype=np.bool_)
        free = np.flatnonzero(near)
        for turned in itertools.product((False, True), repeat=len(free)):
            mask = heights > 0
            mask[free[list(turned)]] ^= True
            yield mask

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """The answer at the means, which has the most evidence whatever the tolerance."""
        return self.answer(means)


class ScoreQuestion(HalfspaceQuestion):
    """Which of several scores is the largest? The answer is its index, or any within the tolerance of it."""

    @abstractmethod
    def scores(self, means: Floats) -> Floats:
        """The scores at these means. (K)->(m)"""

    def answer(self, means: ArrayLike) -> Answer:
        """The index of the largest score; the first one in a tie."""
        return np.asarray(self.scores(finite(means)).argmax(axis=-1))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        return np.asarray(np.take_along_axis(self.right_mask(means), np.asarray(answer)[..., None], axis=-1)[..., 0])

    def count_right_answers(self, means: ArrayLike) -> Floats:
        return np.asarray(self.right_mask(means).sum(axis=-1), dtype=np.float64)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        right = np.moveaxis(self.right_mask(means), -1, 0)
        scores = np.arange(len(right)).reshape(-1, *[1] * (right.ndim - 1))
        return np.broadcast_to(scores, right.shape), right

    def right_mask(self, means: ArrayLike) -> Bools:
        """Which scores are within the tolerance of the largest; without a tolerance, only the answer. (K)->(m)"""
        scores = self.scores(finite(means))
        if not self.tolerance:
            return one_hot(scores.argmax(axis=-1), scores.shape[-1])
        return np.asarray(scores >= scores.max(axis=-1, keepdims=True) - self.tolerance)


class RankingQuestion(HalfspaceQuestion):
    """A question about the arms with the largest means (the smallest, if lower is better): the best, or the top k."""

    number_sought: int

    @property
    def end_text(self) -> str:
        return "lowest" if self.lower_is_better else "highest"

    def check_range(self, low: float, high: float) -> None:
        """The tolerance must be smaller than the range of the means."""
        small = not self.tolerance or self.tolerance < high - low
        check_open(f"The tolerance is {self.tolerance:g}", small, low, high)

    @abstractmethod
    def answer_from_set(self, chosen: Bools) -> Answer:
        """The answer that this set of `number_sought` arms stands for. (K)->..."""

    @abstractmethod
    def _supported(self, counts: ArrayLike, merits: Floats) -> tuple[Answer, Floats]:
        """The answer with the most evidence, given a tolerance, and that evidence for 2 sigma^2 = 1. (K),(K)->...,()"""

    def _merits(self, means: ArrayLike) -> Floats:
        array = finite(means)
        self.check(array.shape[-1])
        return self.merits(array)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        return self._supported(counts, self._merits(means))[0] if self.tolerance else self.answer(means)

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        return np.where(np.arange(means.size) < self.number_sought, means + self.sign * lead, means)

    def lead_patterns(self, arms: int) -> Floats | None:
        """One pattern for each answer, if there are few."""
        number = math.comb(arms, self.number_sought)
        if number > MOST_PATTERNS:
            return None
        found = np.zeros((number, arms))
        for row, chosen in zip(found, itertools.combinations(range(arms), self.number_sought), strict=True):
            row[list(chosen)] = self.sign
        return found

    def border_point(self, means: Floats, constant: bool) -> Floats | None:
        """Any constant; with a tolerance and one right answer, the sought arms lie that far below the others.

        Moving away from (c, ..., c + tolerance, ...), with c for the sought arms, scales all gaps, tolerance included.
        """
        if not self.tolerance:
            return midrange(means)
        if constant or self.count_right_answers(means) > 1:
            return None
        values = self.merits(means)
        top = largest_mask(values, self.number_sought)
        middle = midrange(np.where(top, values, values - self.tolerance))
        return self.merits(np.where(top, middle, middle + self.tolerance))


def largest_mask(values: Floats, number: ArrayLike) -> Bools:
    """The given number of arms with the largest values, in each run; the first ones in a tie. (K),()->(K)"""
    places = np.argsort(np.argsort(-values, axis=-1, kind="stable"), axis=-1)
    return np.asarray(places < np.asarray(number)[..., None])


def describe_halfspaces(
    pieces: Halfspaces, names: Sequence[str], lower_is_better: bool = False, wording: Wording = PLAIN_WORDING
) -> list[str]:
    """Each half-space in words; if lower is better, a pair reads "the second arm is below the first".

    >>> from roundwise.solvers.halfspaces import pairs
    >>> describe_halfspaces(pairs(np.array([0]), np.array([1]), -0.1), "xy")
    ['x beats y (or is within 0.1)']
    >>> describe_halfspaces(Halfspaces(np.array([[0, 1]]), np.array([[1.0, -2.0]]), np.array([0.5]), False), "xy")
    ['+1 x -2 y exceeds 0.5']
    """
    if pieces.pairs:
        better, verb = (pieces.arms[:, ::-1], "is below") if lower_is_better else (pieces.arms, "beats")
        return [
            f"{names[int(a)]} {verb} {names[int(b)]}{near_words(max(0.0, -offset), wording)}"
            for (a, b), offset in zip(better, pieces.offsets, strict=True)
        ]
    terms = [
        " ".join(f"{f:+g} {names[int(arm)]}" for arm, f in zip(*each, strict=True) if f)
        for each in zip(pieces.arms, pieces.coefficients, strict=True)
    ]
    return [f"{each} exceeds {offset:g}" for each, offset in zip(terms, pieces.offsets, strict=True)]


def within_words(tolerance: float, of: str = "it") -> str:
    """', or within 0.1 of it'; nothing without a tolerance."""
    return f", or within {tolerance:g} of {of}" if tolerance else ""


def near_words(tolerance: float, wording: Wording = PLAIN_WORDING) -> str:
    """', or within 0.1 of it'; "" without a tolerance."""
    return f" (or is within {wording.gap(tolerance)})" if tolerance else ""


def check_open(what: str, inside: bool, low: float, high: float) -> None:
    """' (or is within 0.1)'; "" without a tolerance."""
    if not inside:
        rates = " For 30 % write 0.3." if (low, high) == (0, 1) else ""
        raise InputError(
            f"{what}, but the means of such results lie between {low:g} and {high:g}, so the answer is certain "
            f"without any.{rates}"
        )


def check_tolerance(tolerance: float) -> None:
    """Raise an InputError unless it is a number of at least 0."""
    if not (tolerance >= 0 and np.isfinite(tolerance)):
        raise InputError(f"`tolerance` is {tolerance:g}, but must be a number of at least 0.")


def at_least_two(arms: int) -> None:
    """Raise an InputError for fewer arms."""
    if arms < 2:
        raise InputError(f"A question needs at least two arms; found {arms}.")


def finite(means: ArrayLike) -> Floats:
    """The means as an array of at least two arms without NaN or infinity."""
    array = np.asarray(means, dtype=np.float64)
    at_least_two(array.shape[-1] if array.ndim else 1)
    if not np.isfinite(array).all():
        raise InputError("The means must be finite numbers; found NaN or infinity.")
    return array


def column(radius: ArrayLike) -> Floats:
    """A radius for each run, ready to be used against an axis of arms."""
    array = np.asarray(radius, dtype=np.float64)
    if not (array >= 0).all():
        raise InputError(f"`radius` is {array.min():g}, but must be a number of at least 0.")
    return array[..., None]


def spread_over(means: Floats, radius: ArrayLike) -> tuple[Floats, Floats]:
    """Means and radii with the same axes of runs; the radii as a column."""
    radii = column(radius)
    runs = np.broadcast_shapes(means.shape[:-1], radii.shape[:-1])
    return np.broadcast_to(means, (*runs, means.shape[-1])), np.broadcast_to(radii, (*runs, 1))


def flatten_runs(means: ArrayLike, radius: ArrayLike) -> tuple[Floats, Floats, tuple[int, ...]]:
    """Means (R, K) and radii (R) of all runs on one axis, and the axes that they had."""
    values, radii = spread_over(finite(means), radius)
    return values.reshape(-1, values.shape[-1]), radii.reshape(-1), values.shape[:-1]


def easier_complexity(one: Complexity, other: Complexity) -> Complexity:
    """The smaller of two, in each run; the first in a tie."""
    easier = other.value < one.value
    weights = np.where(easier[..., None], other.weights, one.weights)
    return Complexity(np.where(easier, other.value, one.value), weights)


def enumerate_answers(means: Floats, answers: Callable[[Floats], Iterable[Array]], most: int) -> tuple[Answer, Bools]:
    """The right answers of every run, on the first axis, and which of these there are. (K)->(A,...),(A)"""
    runs = means.shape[:-1]
    found = [list(itertools.islice(answers(row), most)) for row in means.reshape(-1, means.shape[-1])]
    number = max((len(each) for each in found), default=0)
    filled = [[*each, *[each[0]] * (number - len(each))] for each in found]
    stacked = np.array(filled).swapaxes(0, 1)  # (A, runs, ...)
    there = np.array([[i < len(each) for each in found] for i in range(number)])
    return stacked.reshape((number, *runs, *stacked.shape[2:])), there.reshape((number, *runs))
