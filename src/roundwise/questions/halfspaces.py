"""Unions of half-spaces: their complexity, a cheap bound of it, and the nearest point on all their borders."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.questions.base import Complexity, Halfspaces, complexity_where, midrange, quiet
from roundwise.solvers import program


def packed(forms: Floats, offsets: Floats, width: int) -> Halfspaces:
    """Half-spaces from dense forms (P, K), keeping `width` arms of each, largest factors first and zeros last.

    The width must not depend on the answer, so that a run looks the same alone as among others.
    """
    arms = np.argsort(np.where(forms == 0, np.inf, -forms), axis=-1, kind="stable")[..., :width]
    return Halfspaces(arms, np.take_along_axis(forms, arms, axis=-1), offsets, False)


def halfspace_complexity(forms: Floats, distances: Floats, radii: Floats, sigma: float) -> Complexity:
    """T* and w* of a union of half-spaces with these normals, (m, K) or (..., m, K), at these distances.

    T* = min sum_i n_i subject to sum_i a_ji^2 / n_i <= distance_j^2 / (2 sigma^2) (docs/paper.md).
    """
    runs, arms = distances.shape[:-1], forms.shape[-1]
    scales = np.abs(forms).max(axis=-1)  # a form and its distance may be large or small together
    forms, distances = forms / scales[..., None], distances / scales
    distances = distances - radii * np.abs(forms).sum(axis=-1)
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    unit = np.where(possible, smallest, 1.0)  # squares of tiny distances would underflow
    limits = np.maximum(distances / unit[..., None], 0.0) ** 2 / 2
    squares = (forms**2).reshape((-1, *forms.shape[-2:])) if forms.ndim > 2 else forms**2
    found = program.certified(program.general(squares, limits.reshape(-1, limits.shape[-1])))
    value = np.where(possible, found.total.reshape(runs), 1.0)
    weights = found.pulls.reshape((*runs, arms)) / value[..., None]
    return complexity_where(possible, value * (sigma**2 / unit / unit), weights)


@quiet
def halfspace_floor(forms: Floats, distances: Floats, radius: ArrayLike, sigma: float) -> Floats:
    """The largest need of one half-space alone: 2 sigma^2 |a|_1^2 / distance^2 (Cauchy-Schwarz)."""
    lengths = np.abs(forms).sum(axis=-1)
    distances = distances - np.asarray(radius, dtype=np.float64)[..., None] * lengths
    needs = np.where(distances > 0, 2 * sigma**2 * (lengths / distances) ** 2, np.inf)
    return np.asarray(needs.max(axis=-1))


def border_point(means: Floats, forms: Floats, levels: Floats, constant: bool) -> Floats | None:
    """The nearest point (in the sup norm) on all hyperplanes a.y = b, with `constant` one number; or None."""
    lengths = np.abs(forms).sum(axis=1, keepdims=True)
    forms, levels = forms / lengths, levels / lengths[:, 0]
    size = max(1.0, float(np.abs(levels).max()), float(np.abs(means).max()))
    if constant:
        sums = forms.sum(axis=1)
        sums[np.abs(sums) < 1e-12] = 0.0
        values = np.full(means.shape, levels @ sums / (sums @ sums)) if sums.any() else midrange(means)
    else:
        found = _nearest(means, forms, levels)
        if found is None:
            return None
        values = found
    return values if np.abs(forms @ values - levels).max() <= 1e-9 * size else None


def _nearest(means: Floats, forms: Floats, levels: Floats) -> Floats | None:
    """min t subject to |means - y| <= t and forms y = levels: a linear program in (y, t)."""
    from scipy.optimize import linprog

    arms = len(means)
    within = np.hstack([np.vstack([np.eye(arms), -np.eye(arms)]), -np.ones((2 * arms, 1))])
    found = linprog(
        np.append(np.zeros(arms), 1.0),
        A_ub=within,
        b_ub=np.concatenate([means, -means]),
        A_eq=np.hstack([forms, np.zeros((len(forms), 1))]),
        b_eq=levels,
        bounds=(None, None),
    )
    if found.x is None:
        return None
    values = np.asarray(found.x[:arms])
    # the program is solved to 1e-7; one projection brings the point onto the hyperplanes
    return np.asarray(values + np.linalg.lstsq(forms, levels - forms @ values, rcond=None)[0])
