"""The convex programme behind the complexity T*, solved for many runs at once, with a certificate.

T = min sum_i n_i  subject to  sum_i q_ji / n_i <= c_j for all j,  with q, c >= 0 (docs/paper.md).

In v = 1/n it reads min sum_i 1/v_i, Q v <= c. For any z >= 0, T >= (sum_i sqrt((Q'z)_i))^2 / (c'z): this is
the certificate. It is tight where v_i sqrt((Q'z)_i) = 1 and z_j (c - Q v)_j = 0, the two equations that a
primal-dual interior point (Mehrotra's predictor and corrector) follows. The first is linearised as it stands:
in its usual form, (Q'z)_i = 1/v_i^2, Newton's method fails on hard instances. Rows are scaled to c = 1 and
arms to a feasible v = 1, so units do not matter. No step mixes runs: a run alone and the same run among
others agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats
from roundwise.deadline import check_deadline
from roundwise.errors import RoundwiseError

_Scaled: TypeAlias = "tuple[_System, Floats]"  # Q of some runs, scaled to c = 1, and the cost of v = 1 in each arm

EXACT = 1e-9  # certified relative gap at which a run stops
ROUGH = 1e-2  # the same for planning, where the estimates are off by far more
_ITERATIONS = 100  # 6 to 19 are usual; the most seen is 41 (950 x 50 arms)
_CYCLING = 50  # after this many, short steps along the central path: the corrector is cycling (1 of 1e7 runs)
_TO_BOUNDARY = 0.999  # share of the way to the boundary that one step may go
_ROUNDING = 1e-13  # pulls are raised by this share, so that rounding cannot make them infeasible
_CHUNK = 2**18  # entries of Q processed at a time


class Allocation(NamedTuple):
    """The fewest pulls within all limits, in total and by arm, and their certified gap."""

    total: Floats  # (R,); inf where no pulls suffice
    pulls: Floats  # (R, K); all 1 where no pulls suffice
    gap: Floats  # (R,); total / lower bound - 1


def check_certificate(found: Allocation) -> Allocation:
    """Return the allocation; raise a RoundwiseError if the certified gap of some run is too large."""
    worst = float(found.gap.max(initial=0.0))
    if worst > 1e-6:
        raise RoundwiseError(
            f"The complexity could be computed only to a relative gap of {worst:.1e}; please report it."
        )
    return found


def solve_general(squares: ArrayLike, limits: ArrayLike, gap: float = EXACT) -> Allocation:
    """Return the least n with sum_i squares[..., j, i] / n_i <= limits[:, j]: (m,K),(m)->(),(K),()."""
    q = np.ascontiguousarray(squares, dtype=np.float64)
    m, arms = q.shape[-2:]
    largest = q.max(-1, initial=0.0)
    with np.errstate(over="ignore"):
        c = np.where(largest > 0, limits / np.where(largest > 0, largest, 1.0), np.inf)
    q = np.broadcast_to(q / np.where(largest > 0, largest, 1.0)[..., None], (len(c), m, arms))

    def scaled(runs: NDArray[np.intp], tightness: Floats) -> _Scaled:
        used: Floats = q[runs] * (c[runs] < np.inf)[..., None]
        rows = np.ascontiguousarray(used * tightness[..., None])
        crowd = np.count_nonzero(rows, axis=-1)[..., None]  # arms that share a limit
        cost = _floored(2.0 * (crowd * rows).max(-2), np.any(used > 0, axis=-2))
        rows /= np.where(cost > 0, cost, 1.0)[:, None]
        return (_ByArms if arms <= m else _ByLimits)(rows), cost

    return _allocation(c, arms, m * arms, scaled, gap)


def solve_bipartite(limits: ArrayLike, gap: float = EXACT) -> Allocation:
    """Return the least n with 1/n_a + 1/n_b <= limits[:, a, b], b counted after all a: (k,l)->(),(k+l),()."""
    c = np.ascontiguousarray(limits, dtype=np.float64)
    k, others = c.shape[1:]
    if k > others:  # the linear systems are k x k
        mirrored = solve_bipartite(c.swapaxes(1, 2), gap)
        return mirrored._replace(pulls=np.roll(mirrored.pulls, k, axis=-1))

    def scaled(runs: NDArray[np.intp], tightness: Floats) -> _Scaled:
        rows, used = tightness.reshape(-1, k, others), c[runs] < np.inf
        cost = _floored(
            4.0 * np.concatenate([rows.max(-1), rows.max(-2)], axis=-1),
            np.concatenate([used.any(-1), used.any(-2)], axis=-1),
        )
        share = np.where(cost > 0, cost, 1.0)
        return _Bipartite(rows / share[:, :k, None], rows / share[:, None, k:]), cost

    return _allocation(c.reshape(len(c), k * others), k + others, k * others, scaled, gap)


def _floored(cost: Floats, live: Bools) -> Floats:
    """Keep underflow from making a constrained arm look unconstrained."""
    return np.where(live, np.maximum(cost, 1e-100 * cost.max(-1, keepdims=True)), 0.0)


def _allocation(
    c: Floats, arms: int, size: int, scaled: Callable[[NDArray[np.intp], Floats], _Scaled], tolerance: float
) -> Allocation:
    """Solve the runs that have limits and can meet them, in chunks, and undo the scaling."""
    total, pulls, gap = np.zeros(len(c)), np.zeros((len(c), arms)), np.zeros(len(c))
    impossible = (c == 0).any(-1)
    todo = np.flatnonzero(~impossible & (c < np.inf).any(-1))
    chunk = max(1, _CHUNK // max(1, size))
    for runs in (todo[i : i + chunk] for i in range(0, len(todo), chunk)):
        least = c[runs].min(-1, keepdims=True)
        found, gap[runs] = _interior_point(*scaled(runs, least / c[runs]), tolerance)
        with np.errstate(over="ignore"):  # more pulls than a float can hold count as impossible
            pulls[runs] = found / least
            total[runs] = pulls[runs].sum(-1)
    impossible |= np.isinf(total)
    total[impossible], pulls[impossible], gap[impossible] = np.inf, 1.0, 0.0
    return Allocation(total, pulls, gap)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # a run that breaks down keeps its best pulls
def _interior_point(system: _System, cost: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return pulls and gap for min sum_i cost_i / v_i subject to Q v <= 1."""
    pulls, total, lower = np.ones_like(cost), np.full(len(cost), np.inf), np.zeros(len(cost))
    at = np.arange(len(cost))  # the runs that have not converged

    # A start near the central path: s z is nearly the same everywhere, v sqrt(x / cost) = 1 and v <= 1.
    z = 1.0 / (1.0 - system.rows(np.ones_like(cost)))
    x = system.columns(z)
    free = np.where(x > 0, 0.0, 1.0)  # an arm without limits stays at v = 1
    z *= (cost / (x + free)).max(-1, keepdims=True)
    v = np.sqrt((cost + free) / (system.columns(z) + free))
    w = np.concatenate([1.0 - system.rows(v), v], axis=-1)  # s, then v: they take steps of the same length
    m = z.shape[-1]

    for iteration in range(_ITERATIONS):
        check_deadline()
        s, v = w[:, :m], w[:, m:]
        spent, x = system.rows(v), system.columns(z)
        n = cost / v * (np.maximum.reduce(spent, axis=-1, keepdims=True) * (1.0 + _ROUNDING))
        value = np.add.reduce(n, axis=-1)
        better = value < total[at]
        which = slice(None) if better.all() else better
        total[at[which]], pulls[at[which]] = value[which], n[which]
        lower[at] = np.fmax(lower[at], np.add.reduce(np.sqrt(cost * x), axis=-1) ** 2 / np.add.reduce(z, axis=-1))
        going = (total[at] > (1.0 + tolerance) * lower[at]) & np.isfinite(value)
        if not going.all():
            system = system.only(going)
            at, w, z, cost, free, spent, x = (y[going] for y in (at, w, z, cost, free, spent, x))
            s, v = w[:, :m], w[:, m:]
        if not at.size:
            break

        x += free
        slack = s / z
        newton = system.newton(2.0 * x / v, z / s)
        a = 2.0 * (np.sqrt((cost + free) * x) / v - x)
        b = 1.0 - spent  # the residual of Q v + s = 1, plus s
        dv, dz = newton(a, b)  # the predictor aims at s z = 0
        ds = -s - dz * slack
        primal, dual = _longest(w, np.concatenate([ds, dv], axis=-1)), _longest(z, dz)
        mean = np.add.reduce(s * z, axis=-1, keepdims=True) / m
        ahead = np.add.reduce((s + primal * ds) * (z + dual * dz), axis=-1, keepdims=True) / m
        # The corrector aims at a smaller mean of s z. Its second-order term is damped where the predictor's
        # step is short: in full it drives large instances off the path.
        aim = (mean * np.minimum(1.0, ahead / mean) ** 3 - np.sqrt(np.minimum(primal, dual)) * ds * dz) / z
        if iteration >= _CYCLING:
            aim = 0.3 * mean / z
        dv, dz = newton(a, b - aim)
        step = np.concatenate([aim - s - dz * slack, dv], axis=-1)
        w, z = w + _longest(w, step) * step, z + _longest(z, dz) * dz
    return pulls, np.maximum(total / lower - 1.0, 0.0)


def _longest(y: Floats, dy: Floats) -> Floats:
    """The largest share of the step dy, at most 1, that keeps y positive."""
    furthest = np.maximum.reduce(dy / -y, axis=-1, keepdims=True)
    return np.asarray(_TO_BOUNDARY / np.maximum(furthest, _TO_BOUNDARY))


_Newton: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class _Dense:
    """The matrix Q of each run."""

    q: Floats  # (R, m, K)

    def rows(self, v: Floats) -> Floats:
        """Q v."""
        return (self.q @ v[..., None])[..., 0]

    def columns(self, z: Floats) -> Floats:
        """Q'z."""
        return (z[:, None, :] @ self.q)[:, 0, :]

    def only(self, runs: Bools) -> Self:
        return type(self)(self.q[runs])


class _ByArms(_Dense):
    """At most as many arms as limits: dz is eliminated."""

    def newton(self, h: Floats, d: Floats) -> _Newton:
        """The function that solves h dv + Q'dz = a, Q dv - dz / d = b for dv and dz, given a and b."""
        solve = _solver(self.q.swapaxes(1, 2) @ (d[..., None] * self.q), h)

        def direction(a: Floats, b: Floats) -> tuple[Floats, Floats]:
            dv = solve(a + self.columns(d * b))
            return dv, d * (self.rows(dv) - b)

        return direction


class _ByLimits(_Dense):
    """Fewer limits than arms: dv is eliminated."""

    def newton(self, h: Floats, d: Floats) -> _Newton:
        solve = _solver((self.q / h[:, None, :]) @ self.q.swapaxes(1, 2), 1.0 / d)

        def direction(a: Floats, b: Floats) -> tuple[Floats, Floats]:
            dz = solve(self.rows(a / h) - b)
            return (a - self.columns(dz)) / h, dz

        return direction


@dataclass(frozen=True)
class _Bipartite:
    """Each limit is on one arm of each side: dz is eliminated, then the larger side."""

    left: Floats  # (R, k, l), entry of arm a in limit (a, b)
    right: Floats  # (R, k, l), entry of arm b in limit (a, b)

    @cached_property
    def _products(self) -> tuple[Floats, Floats, Floats]:
        return self.left * self.right, self.left**2, self.right**2

    def rows(self, v: Floats) -> Floats:
        k = self.left.shape[1]
        return (self.left * v[:, :k, None] + self.right * v[:, None, k:]).reshape(len(v), -1)

    def columns(self, z: Floats) -> Floats:
        grid = z.reshape(self.left.shape)
        k, others = self.left.shape[1:]
        found = np.empty((len(z), k + others))
        np.add.reduce(self.left * grid, axis=-1, out=found[:, :k])
        np.add.reduce(self.right * grid, axis=-2, out=found[:, k:])
        return found

    def only(self, runs: Bools) -> Self:
        return type(self)(self.left[runs], self.right[runs])

    def newton(self, h: Floats, d: Floats) -> _Newton:
        k, grid = self.left.shape[1], d.reshape(self.left.shape)
        across, left, right = (each * grid for each in self._products)
        smaller = h[:, :k] + np.add.reduce(left, axis=-1)
        larger = h[:, k:] + np.add.reduce(right, axis=-2)
        solve = _solver(-(across / larger[:, None, :]) @ across.swapaxes(1, 2), smaller)

        def direction(a: Floats, b: Floats) -> tuple[Floats, Floats]:
            y = a + self.columns(d * b)
            first = solve(y[:, :k] - (across @ (y[:, k:] / larger)[..., None])[..., 0])
            second = (y[:, k:] - (first[:, None, :] @ across)[:, 0, :]) / larger
            dv = np.concatenate([first, second], axis=-1)
            return dv, d * (self.rows(dv) - b)

        return direction


_System: TypeAlias = _ByArms | _ByLimits | _Bipartite


def _solver(matrix: Floats, diagonal: Floats) -> Callable[[Floats], Floats]:
    """A function that solves (matrix + diagonal) x = y; nan for runs in which this is singular."""
    entries = np.arange(matrix.shape[-1])
    matrix[:, entries, entries] += diagonal
    scale = 1.0 / np.sqrt(matrix[:, entries, entries])
    matrix *= scale[..., None] * scale[:, None, :]

    return lambda y: scale * _solution(matrix, (scale * y)[..., None])[..., 0]


def _solution(matrix: Floats, y: Floats) -> NDArray[np.floating[Any]]:
    try:
        return np.linalg.solve(matrix, y)
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return np.full_like(y, np.nan)
        return np.concatenate([_solution(*run) for run in zip(matrix[:, None], y[:, None], strict=True)])
