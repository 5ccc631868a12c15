"""Any question whose answers are intersections of half-spaces, asked of arms with features: mu = X theta.

A pull of one arm then informs about others. Everything works as without features, with the least-squares estimate in
place of the empirical means, and with a.lambda > b read as (X'a).theta > b (docs/linear.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.errors import InputError
from roundwise.questions.base import MOST, PLAIN_WORDING, Answer, HalfspaceQuestion, Question, Wording, finite
from roundwise.questions.forms import set_fields
from roundwise.solvers.design import fit_least_squares, orthonormal_basis, solve_design
from roundwise.solvers.halfspaces import Complexity, Halfspaces


@dataclass(frozen=True, eq=False)
class Linear(HalfspaceQuestion):
    """A question asked of arms with features: the mean of arm i is features[i] . theta, with an unknown theta.

    Args:
        question: The question about the arms' means.
        features: The features, one row per arm; means are linear in them.

    >>> from roundwise.questions import BestArm
    >>> question = Linear(BestArm(), [[1, 0], [0, 1], [0.9, 0.2]])
    >>> [round(float(x), 3) for x in question.fit_means(np.array([10.0, 10.0, 0.0]), np.array([1.0, 0.5, 0.0]))]
    [1.0, 0.5, 1.0]
    """

    question: Question
    features: Floats  # X, (K, d)
    name = "linear"

    def __post_init__(self) -> None:
        try:
            features = np.asarray(self.features, dtype=np.float64)
        except ValueError:
            features = np.zeros(0)
        if features.ndim != 2 or len(features) < 2 or not features.shape[1]:
            raise InputError("`features` must have one row of numbers for each of at least two arms.")
        if not np.isfinite(features).all() or not features.any():
            raise InputError("`features` must be finite numbers, and not all 0.")
        asked = self.question
        asked.check(len(features))
        if asked.pieces(len(features)) is None or asked.separate_claims or asked.features is not None:
            raise InputError(f"The question '{asked.name}' cannot be asked of arms with features.")
        set_fields(self, features=features, names=asked.names)
        set_fields(self, tolerance=asked.tolerance, lower_is_better=asked.lower_is_better)

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal features that span the same means. (K, r)"""
        return orthonormal_basis(self.features)

    def without_features(self) -> Question:
        return self.question

    def check(self, arms: int) -> None:
        if arms != len(self.features):
            raise InputError(f"There are {arms} arms, but features of {len(self.features)}: give one row each.")

    def check_range(self, low: float, high: float) -> None:
        """Means must be unbounded, since a linear model does not keep them in a range."""
        if np.isfinite([low, high]).any():
            raise InputError(
                "Arms with features go with normal or sub-Gaussian results: a linear model does not keep "
                f"means between {low:g} and {high:g}."
            )

    def check_means(self, means: ArrayLike) -> None:
        values = finite(means)
        off = float(np.abs(values - self._projected(values)).max(initial=0.0))
        if off > 1e-6 * max(1.0, float(np.abs(values).max(initial=0.0))):
            raise InputError(f"The means are not linear in the features: they are off by up to {off:g}.")

    @quiet
    def fit_means(self, counts: ArrayLike, means: ArrayLike) -> Floats:
        values, pulls, runs = self._flat(counts, means)
        theta, _ = fit_least_squares(self.basis, pulls, values)
        return (theta[:, None, :] @ self.basis.T)[:, 0, :].reshape((*runs, -1))

    def answer(self, means: ArrayLike) -> Answer:
        return self.question.answer(self._projected(finite(means)))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        return self.question.correct(answer, means)

    def count_right_answers(self, means: ArrayLike) -> Floats:
        return self.question.count_right_answers(means)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        return self.question.right_answers(self._projected(finite(means)), most)

    def candidate_answers(self, means: Floats) -> tuple[Answer, Bools]:
        return self.question.candidate_answers(self._projected(means))

    def _answer_complexity(self, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
        """T* = min_w max_j 2 sigma^2 c_j'V(w)^-1 c_j / d_j^2; over a ball distances shrink by radius |a_j|_1.

        If each arm has its own sigma, results of arm i have weight 1/sigma_i^2.
        """
        forms, distances, lengths = self._directions(answer, self._projected(means))
        distances = distances - radii[:, None] * lengths
        value, weights = np.full(len(means), np.inf), np.full(means.shape, 1.0 / means.shape[-1])
        solved = np.flatnonzero((distances > 0).all(axis=-1))
        if solved.size:
            amount, pulls = solve_design(self.basis / sigmas[:, None], forms[solved], distances[solved] ** 2 / 2)
            value[solved], weights[solved] = amount, pulls / amount[:, None]
        return Complexity(value, weights)

    def _answer_floor(self, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Floats:
        """max_j 2 sigma^2 |c_j|^2 / d_j^2 in orthonormal features, with the smallest sigma for every arm.

        It is a lower bound since c'V(w)^-1 c >= |c|^2 for all weights.
        """
        forms, distances, lengths = self._directions(answer, self._projected(means))
        distances = distances - radii[:, None] * lengths
        needs = 2 * sigmas.min() ** 2 * total(forms * forms) / distances**2
        return np.where(distances > 0, needs, np.inf).max(axis=-1)

    family_complexity = Question.family_complexity  # none is known
    family_complexities = Question.family_complexities

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        return self.question.halfspaces(answer, arms)

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return self.question.answer_text(answer, names)

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"{self.question.question_text(names, wording)} (Arms have {self.features.shape[1]} features.)"

    def halfspace_texts(self, answer: Answer, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> list[str]:
        return self.question.halfspace_texts(answer, names, wording)

    def cli_options(self, names: Sequence[str]) -> None:
        """None: a linear question is given as a file."""
        return

    def border_point(self, means: Floats, constant: bool) -> None:
        """None: no border point is known."""
        return

    @quiet
    def _supports(self, counts: ArrayLike, means: ArrayLike) -> Floats:
        """The evidence for each right answer at the estimate, for 2 sigma^2 = 1. (A, ...)"""
        values, pulls, runs = self._flat(counts, means)
        theta, inverse = fit_least_squares(self.basis, pulls, values)
        fitted = (theta[:, None, :] @ self.basis.T)[:, 0, :]
        found = []
        for answer, there in zip(*self.candidate_answers(fitted), strict=True):
            forms, distances, _ = self._directions(answer, fitted)
            spread = total((forms @ inverse) * forms)
            found.append(np.where(there, (np.square(np.maximum(distances, 0.0)) / spread).min(axis=-1), 0.0))
        return np.stack(found).reshape((-1, *runs))

    def _directions(self, answer: Answer, means: Floats) -> tuple[Floats, Floats, Floats]:
        """For each half-space: c in orthonormal features, its distance, and |a|_1. (R,P,r), (R,P), (R,P)"""
        pieces = self.question.halfspaces(answer, means.shape[-1])
        dense = pieces.dense(means.shape[-1])
        dense = np.broadcast_to(dense, (len(means), *dense.shape[-2:]))
        terms = dense * means[:, None, :]
        distances = total(terms) - pieces.offsets
        rounding = 1e-13 * (np.abs(terms).sum(axis=-1) + np.abs(pieces.offsets))  # a tie must remain a tie
        distances = np.where(np.abs(distances) <= rounding, 0.0, distances)
        return dense @ self.basis, distances, np.abs(dense).sum(axis=-1)

    def _projected(self, means: Floats) -> Floats:
        """The nearest means that the model allows."""
        self.check(means.shape[-1])
        rows = means.reshape(-1, 1, means.shape[-1])
        return ((rows @ self.basis) @ self.basis.T).reshape(means.shape)

    def _flat(self, counts: ArrayLike, means: ArrayLike) -> tuple[Floats, Floats, tuple[int, ...]]:
        values, pulls = np.broadcast_arrays(finite(means), np.asarray(counts, dtype=np.float64))
        self.check(values.shape[-1])
        arms = values.shape[-1]
        return values.reshape(-1, arms), pulls.reshape(-1, arms), values.shape[:-1]
