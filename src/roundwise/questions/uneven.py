"""Arms whose deviations sigma_i differ, and are known: the complexity of any question in terms of its half-spaces.

With n_i results of arm i a form a of the means has the variance sum_i a_i^2 sigma_i^2/n_i: as if the coefficients were
a_i sigma_i and all deviations 1. (The evidence is that with n_i/sigma_i^2 in place of n_i.) A ball has radius
r sigma_i/max sigma in the mean of arm i, as results alone would give it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.questions.base import Answer, Complexity, Question, complexity_where, finite, quiet
from roundwise.questions.besides import candidates_at, cells_of, level_of, tolerance_of
from roundwise.questions.halfspaces import halfspace_complexity, halfspace_floor
from roundwise.questions.several import MOST

SIGNS = {"some above a level": 1.0, "some below a level": -1.0}


@quiet
def complexity(question: Question, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
    """T* and w*, or their worst case over the ball; where several answers are right those of the easiest."""
    own = getattr(question, "own_complexity", None)
    if own is not None:
        found: Complexity = own(means, radius, sigmas)
        return found
    values, radii = _rows(means, radius)
    runs, largest = np.broadcast_shapes(np.shape(means)[:-1], np.shape(radius)), float(sigmas.max())
    if cells_of(question) in SIGNS:
        return _some_arm(question, values.reshape((*runs, -1)), radii.reshape(runs), sigmas)
    best, weights = np.full(len(values), np.inf), np.full(values.shape, 1.0 / values.shape[-1])
    for answer, there in _answers(question, values):
        forms, distances = _pieces(question, answer, values, sigmas / largest)
        found = halfspace_complexity(forms, distances, radii[:, None], largest)
        less = there & (found.value < best)
        best, weights = np.where(less, found.value, best), np.where(less[:, None], found.weights, weights)
    return Complexity(best.reshape(runs), weights.reshape((*runs, -1)))


@quiet
def floor(question: Question, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Floats:
    """A lower bound on it that costs next to nothing."""
    if cells_of(question) in SIGNS:
        return complexity(question, means, radius, sigmas).value
    if hasattr(question, "own_complexity"):
        return question.floor(means, radius, float(sigmas.min()))
    values, radii = _rows(means, radius)
    runs, largest = np.broadcast_shapes(np.shape(means)[:-1], np.shape(radius)), float(sigmas.max())
    least = np.full(len(values), np.inf)
    for answer, there in _answers(question, values):
        forms, distances = _pieces(question, answer, values, sigmas / largest)
        found = halfspace_floor(forms, distances, radii, largest)
        least = np.where(there, np.minimum(least, found), least)
    return least.reshape(runs)


def _rows(means: ArrayLike, radius: ArrayLike) -> tuple[Floats, Floats]:
    values, radii = finite(means), np.asarray(radius, dtype=np.float64)
    runs = np.broadcast_shapes(values.shape[:-1], radii.shape)
    rows = np.broadcast_to(values, (*runs, values.shape[-1])).reshape(-1, values.shape[-1])
    return rows, np.broadcast_to(radii, runs).reshape(-1)


def _answers(question: Question, means: Floats) -> list[tuple[Answer, Bools]]:
    return list(zip(*candidates_at(question, means, MOST), strict=True))


def _pieces(question: Question, answer: Answer, means: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """Forms in units of the arms' deviations, and distances; 0 for a half-space that the means are beyond."""
    pieces = question.halfspaces(answer, means.shape[-1])
    dense = pieces.dense(means.shape[-1])
    dense = np.broadcast_to(dense, (len(means), *dense.shape[-2:]))
    return dense * scales, np.maximum(total(dense * means[:, None, :]) - pieces.offsets, 0.0)


def _some_arm(question: Question, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
    """Yes: all on the arm with the largest (distance/sigma_i)^2; no: sum_i 2 sigma_i^2/distance^2."""
    level, sign = level_of(question), SIGNS[cells_of(question)]
    assert level is not None
    shrunk = radii[..., None] * (sigmas / sigmas.max())
    away = sign * (means - level)
    for_yes = np.maximum(away + tolerance_of(question) - shrunk, 0.0) ** 2 / (2 * sigmas**2)
    for_no = np.maximum(tolerance_of(question) - away - shrunk, 0.0) ** 2 / (2 * sigmas**2)
    most = for_yes.max(axis=-1)
    first = for_yes == most[..., None]
    needs = 1 / for_no
    yes, no = 1 / most, total(needs)
    easier = yes <= no
    weights = np.where(easier[..., None], first / total(first)[..., None], needs / no[..., None])
    value = np.where(easier, yes, no)
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)
