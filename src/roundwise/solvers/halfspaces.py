"""Half-spaces of the means: what makes an answer right, what it takes to show it, and the nearest point on all borders.

The alternatives of an answer are unions of half-spaces `a.lambda <= b`. With counts N, moving the means into one costs
(a.mu - b)^2 / (2 sigma^2 sum_i a_i^2/N_i); over a ball of radius eps its distance shrinks by eps |a|_1, which does not
depend on N (docs/paper.md). Hence one function serves T* and Tbar*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, quiet, total, zeros
from roundwise.solvers import program


class Complexity(NamedTuple):
    """T*, the samples per ln(1/delta) that the best fixed allocation needs, and w*, that allocation."""

    value: Floats
    weights: Floats


class Pieces(NamedTuple):
    """How a wrong answer can come about: at most `number` half-spaces contain it, of `support` arms each."""

    number: int
    support: int


class Halfspaces(NamedTuple):
    """What makes an answer right: sum_s factors[p, s] means[arms[p, s]] > offsets[p] for every piece p."""

    arms: NDArray[np.intp]  # (P, S)
    factors: Floats | None  # (P, S); None for pairs: 1 and -1
    offsets: Floats  # (P)
    pairs: bool  # whether every piece is "the first arm exceeds the second by the offset"
    each: bool = False  # whether, moreover, the second arm of piece p is arm p (then `arms` has the first only)
    grid: int = 0  # k, if the pairs are k arms with all others, in the order of rows and columns

    @property
    def coefficients(self) -> Floats:
        """The factors, also of pairs. (P, S)"""
        return np.broadcast_to(np.array([1.0, -1.0]), self.arms.shape) if self.factors is None else self.factors

    def dense(self, arms: int) -> Floats:
        """The coefficient of every arm. (P, K)"""
        found = np.zeros((*self.arms.shape[:-1], arms))
        np.put_along_axis(found, self.arms, self.coefficients, axis=-1)
        return found


def pairs(first: NDArray[np.intp], second: NDArray[np.intp] | None, offset: float = 0.0, grid: int = 0) -> Halfspaces:
    """Pieces that say: each arm of `first` exceeds its partner in `second`, None for all arms in order. (P),(P)"""
    each = second is None
    arms = first[..., None] if second is None else np.stack(np.broadcast_arrays(first, second), axis=-1)
    return Halfspaces(arms, None, zeros(arms.shape[:-1]) + offset, True, each, grid)


def pack_forms(forms: Floats, offsets: Floats, width: int) -> Halfspaces:
    """Half-spaces from dense forms (P, K), keeping `width` arms of each, largest factors first and zeros last.

    The width must not depend on the answer, so that a run looks the same alone as among others.
    """
    arms = np.argsort(np.where(forms == 0, np.inf, -forms), axis=-1, kind="stable")[..., :width]
    return Halfspaces(arms, np.take_along_axis(forms, arms, axis=-1), offsets, False)


def range_of_forms(factors: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """The smallest and largest value of each form over means between `low` and `high`. (P, S)->(P),(P)"""
    with np.errstate(invalid="ignore"):
        least = np.where(factors == 0, 0.0, np.where(factors > 0, factors * low, factors * high))
        most = np.where(factors == 0, 0.0, np.where(factors > 0, factors * high, factors * low))
    return total(least), total(most)


def complexity_where(possible: Bools, value: Floats, weights: Floats) -> Complexity:
    """The complexity where it is finite; elsewhere infinity and equal weights."""
    possible = possible & np.isfinite(value)
    if possible.all():
        return Complexity(value, weights)
    return Complexity(
        np.where(possible, value, np.inf), np.where(possible[..., None], weights, 1.0 / weights.shape[-1])
    )


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
    found = program.check_certificate(program.solve_general(squares, limits.reshape(-1, limits.shape[-1])))
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


def midrange(means: Floats) -> Floats:
    """The number, for every arm, from which the farthest mean is nearest."""
    return np.full(means.shape, (means.max() + means.min()) / 2)


def nearest_border_point(means: Floats, forms: Floats, levels: Floats, constant: bool) -> Floats | None:
    """The nearest point (in the sup norm) on all hyperplanes a.y = b, with `constant` one number; or None."""
    lengths = np.abs(forms).sum(axis=1, keepdims=True)
    forms, levels = forms / lengths, levels / lengths[:, 0]
    size = max(1.0, float(np.abs(levels).max()), float(np.abs(means).max()))
    if constant:
        sums = forms.sum(axis=1)
        sums[np.abs(sums) < 1e-12] = 0.0
        values = np.full(means.shape, levels @ sums / (sums @ sums)) if sums.any() else midrange(means)
    else:
        from scipy.optimize import linprog

        # min t subject to |means - y| <= t and forms y = levels: a linear programme in (y, t)
        arms = len(means)
        found = linprog(
            np.append(np.zeros(arms), 1.0),
            A_ub=np.hstack([np.vstack([np.eye(arms), -np.eye(arms)]), -np.ones((2 * arms, 1))]),
            b_ub=np.concatenate([means, -means]),
            A_eq=np.hstack([forms, np.zeros((len(forms), 1))]),
            b_eq=levels,
            bounds=(None, None),
        )
        if found.x is None:
            return None
        values = np.asarray(found.x[:arms])
        # the programme is solved to 1e-7; one projection brings the point onto the hyperplanes
        values = np.asarray(values + np.linalg.lstsq(forms, levels - forms @ values, rcond=None)[0])
    return values if np.abs(forms @ values - levels).max() <= 1e-9 * size else None
