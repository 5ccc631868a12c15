"""Arms whose deviations sigma_i differ, and are known: the complexity of any question in terms of its half-spaces.

With n_i results of arm i a form a of the means has the variance sum_i a_i^2 sigma_i^2/n_i: as if the coefficients were
a_i sigma_i and all deviations 1. (The evidence is that with n_i/sigma_i^2 in place of n_i.) A ball has radius
r sigma_i/max sigma in the mean of arm i, as results alone would give it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, one_hot, total
from roundwise.questions.base import Answer, Complexity, Question, complexity_where, finite, quiet
from roundwise.questions.besides import candidates_at, cells_of, level_of, one_by_one, tolerance_of
from roundwise.questions.halfspaces import halfspace_complexity, halfspace_floor
from roundwise.questions.several import MOST

_ENTRIES = 2**21  # of half-spaces that are worked on at a time
SIGNS = {"some above a level": 1.0, "some below a level": -1.0}


@quiet
def complexity(question: Question, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Complexity:
    """T* and w*, or their worst case over the ball; where several answers are right those of the easiest."""
    own = getattr(question, "own_complexity", None)
    if own is not None:
        found: Complexity = own(means, radius, sigmas)
        return found
    values, radii = _rows(means, radius)
    runs = np.broadcast_shapes(np.shape(means)[:-1], np.shape(radius))
    cells = cells_of(question)
    if cells in SIGNS:
        return _some_arm(question, values.reshape((*runs, -1)), radii.reshape(runs), sigmas)
    best, weights = np.full(len(values), np.inf), np.full(values.shape, 1.0 / values.shape[-1])
    for answer, there in _answers(question, values):
        for rows in _chunks(question, values):
            solve = SOLVERS.get(cells, _any)
            value, shares = solve(question, answer[rows], values[rows], radii[rows], sigmas)
            less = there[rows] & (value < best[rows])
            best[rows] = np.where(less, value, best[rows])
            weights[rows] = np.where(less[:, None], shares, weights[rows])
    return Complexity(best.reshape(runs), weights.reshape((*runs, -1)))


@quiet
def floor(question: Question, means: ArrayLike, radius: ArrayLike, sigmas: Floats) -> Floats:
    """A lower bound on it that costs next to nothing."""
    if hasattr(question, "own_complexity"):
        return question.floor(means, radius, float(sigmas.min()))
    if cells_of(question) in SIGNS or cells_of(question) in SOLVERS:
        return complexity(question, means, radius, sigmas).value
    values, radii = _rows(means, radius)
    runs, largest = np.broadcast_shapes(np.shape(means)[:-1], np.shape(radius)), float(sigmas.max())
    least = np.full(len(values), np.inf)
    for answer, there in _answers(question, values):
        for rows in _chunks(question, values):
            forms, distances = _pieces(question, answer[rows], values[rows], sigmas / largest)
            found = halfspace_floor(forms, distances, radii[rows], largest)
            least[rows] = np.where(there[rows], np.minimum(least[rows], found), least[rows])
    return least.reshape(runs)


def _any(question: Question, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
    """By the half-spaces of the answer."""
    forms, distances = _pieces(question, answer, means, sigmas / sigmas.max())
    found = halfspace_complexity(forms, distances, radii[:, None], float(sigmas.max()))
    nothing = np.isinf(distances).all(axis=-1, keepdims=True)  # nothing is to be shown
    return Complexity(found.value, np.where(nothing, 1.0 / means.shape[-1], found.weights))


def _sides(question: Question, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
    """Every arm on its side: sum_i 2 sigma_i^2 / distance_i^2."""
    level = level_of(question)
    assert level is not None
    away = np.where(answer, 1.0, -1.0) * (means - level) + tolerance_of(question)
    away = np.maximum(away - radii[:, None] * (sigmas / sigmas.max()), 0.0)
    needs = 2 * (sigmas / away) ** 2
    amount = total(needs)
    return complexity_where(np.asarray(np.isfinite(amount)), amount, needs / amount[:, None])


def _one(question: Question, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
    """One arm exceeds all others: with v_b = gap_b^2/2 and y = n_1/sigma_1^2 the least of the sum of all n_i is where

    sum_b sigma_b^2 / (v_b y - 1)^2 = sigma_1^2; n_b = sigma_b^2 y / (v_b y - 1). It falls in y: bisection.
    """
    mine = one_hot(answer, means.shape[-1])
    scale = sigmas / sigmas.max()
    own, first = np.take_along_axis(means, answer[:, None], axis=-1), sigmas[answer][:, None]
    gaps = own - means + tolerance_of(question) - radii[:, None] * (scale + scale[answer][:, None])
    gaps = np.where(mine, np.inf, np.maximum(gaps, 0.0))
    smallest = gaps.min(axis=-1)
    possible = np.asarray(smallest > 0)
    unit = np.where(possible, smallest, 1.0)[:, None]
    v = (gaps / unit) ** 2 / 2  # 1/2 at least
    low = np.full(unit.shape, 2.0)
    high = 2 * (1 + np.sqrt(total(np.where(mine, 0.0, sigmas**2)))[:, None] / first)
    for _ in range(60):
        y = (low + high) / 2
        over = total(np.where(mine, 0.0, (sigmas / (v * y - 1)) ** 2))[:, None] > first**2
        low, high = np.where(over, y, low), np.where(over, high, y)
    pulls = np.where(mine, first**2 * high, sigmas**2 / (v - 1 / high))
    amount = total(pulls)
    return complexity_where(possible, amount / unit[:, 0] ** 2, pulls / amount[:, None])


SOLVERS = {"sides of a level": _sides, "one best": _one, "best within a tolerance": _one}


def _chunks(question: Question, means: Floats) -> list[slice]:
    """Runs that are worked on together."""
    arms = means.shape[-1]
    found = question.pieces(arms)
    if found is None or cells_of(question) in SOLVERS:
        return [slice(None)]
    step = max(1, _ENTRIES // (arms * found.number))
    return [slice(i, i + step) for i in range(0, len(means), step)]


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
    distances = np.maximum(total(dense * means[:, None, :]) - pieces.offsets, 0.0)
    if one_by_one(question):  # what is not in the answer need not be shown to be wrong
        distances = np.where(answer, distances, np.inf)
    return dense * scales, distances


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
