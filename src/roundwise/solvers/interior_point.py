"""The fewest pulls that separate an answer from its alternatives, with a certificate.

min sum_i n_i subject to C_j(n) >= 1 for all j, where C_j, the cost of moving the means into alternative j, is concave
and homogeneous of degree 1 in n: a convex programme (`ConcaveCosts`). The pulls n / min_j C_j(n) suffice; for any
prices y >= 0 at least sum_j y_j / max_i sum_j y_j dC_j/dn_i pulls are needed, because C_j(n) <= sum_i n_i dC_j/dn_i
with derivatives at any other point. A primal-dual interior point closes the gap for many runs at once; no step mixes
runs.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.deadline import check_deadline
from roundwise.errors import RoundwiseError

STEPS = 200  # most Newton steps; 10 to 30 are usual
EXACT = 1e-8  # certified relative gap at which a run stops


class StepLimits(NamedTuple):
    """Limits on one step."""

    growth: float  # the largest relative change of pulls: far away the gradient says little
    aim: float  # the smallest factor by which the mean of the products may be reduced
    even: float = 0.0  # weight of equal proportions in the initial ones


STEP_LIMITS = (
    StepLimits(2.0, 1e-4),
    StepLimits(0.2, 0.3),
    StepLimits(0.2, 0.3, 0.1),
    StepLimits(0.5, 0.1, 0.5),
    StepLimits(0.5, 0.1, 1.0),
)  # ) # tried in turn until one converges


class CostDerivatives(NamedTuple):
    """C_j at some pulls and its derivatives: the gradient, and minus the Hessian of sum_j y_j C_j."""

    costs: Floats  # (P)
    gradient: Floats  # (P, K)
    curvature: Floats  # (K, K)


class ConcaveCosts(Protocol):
    """The costs C_j of several runs, which are the first axis."""

    @property
    def possible(self) -> Bools:
        """Which constraints exist. (R, P)"""

    def evaluate(self, pulls: Floats, prices: Floats) -> CostDerivatives:
        """The costs and their derivatives at these pulls, with prices y. (R, K), (R, P)"""

    def initial_pulls(self) -> Floats:
        """Initial proportions of pulls, all positive. (R, K)"""

    def take_runs(self, runs: Bools) -> Self:
        """The costs of these runs."""


class Iterate(NamedTuple):
    """The primal and dual variables."""

    pulls: Floats  # (K), n
    unused: Floats  # (K), the prices of n >= 0: an arm may not be needed at all
    margins: Floats  # (P), s = C - 1
    prices: Floats  # (P), y


def solve_least_pulls(problem: ConcaveCosts, exact: float = EXACT) -> tuple[Floats, Floats]:
    """The fewest pulls with C_j >= 1 for all j, certified. (R)->(R),(R,K)"""
    least, best, most = _follow_path(problem, STEP_LIMITS[0], exact)
    for limits in STEP_LIMITS[1:]:
        again = ~(least <= (1 + exact) * most)
        if not again.any():
            break
        careful = _follow_path(problem.take_runs(again), limits, exact)
        better = careful[0] < least[again]
        least[again], most[again] = np.fmin(careful[0], least[again]), np.fmax(careful[2], most[again])
        best[again] = np.where(better[:, None], careful[1], best[again])
    gap = float((least / most - 1).max(initial=0.0))
    if not gap <= max(1e-6, 2 * exact):
        raise RoundwiseError(f"The complexity could be computed only to a relative gap of {gap:.1e}; please report it.")
    return least, best


@quiet
def _follow_path(problem: ConcaveCosts, limits: StepLimits, exact: float) -> tuple[Floats, Floats, Floats]:
    """A sufficient number of pulls, these pulls, and a lower bound on the number. (R)->(R),(R,K),(R)

    Newton's method on 1 = sum_j y_j dC_j/dn_i + x_i, C_j(n) - 1 = s_j, s_j y_j -> 0 and x_i n_i -> 0.
    """
    now = _start(problem, limits.even)
    runs = len(now.pulls)
    best, least, most = np.ones(now.pulls.shape), np.full(runs, np.inf), np.zeros(runs)
    at = np.arange(runs)
    for _ in range(STEPS):
        check_deadline()
        at_point = problem.evaluate(now.pulls, now.prices)
        weakest = at_point.costs.min(axis=-1)
        amount = total(now.pulls) / weakest
        better = amount < least[at]
        least[at[better]], best[at[better]] = amount[better], (now.pulls / weakest[:, None])[better]
        dual = (now.prices[:, None, :] @ at_point.gradient)[:, 0, :]
        most[at] = np.fmax(most[at], now.prices.sum(axis=-1) / dual.max(axis=-1))
        going = least[at] > (1 + exact) * most[at]
        at, now, at_point = at[going], Iterate(*(x[going] for x in now)), CostDerivatives(*(x[going] for x in at_point))
        if not at.size:
            break
        problem = problem.take_runs(going)
        now = _newton(now, at_point, dual[going], problem.possible, limits)
    return least, best, most


def _newton(now: Iterate, at_point: CostDerivatives, dual: Floats, possible: Bools, limits: StepLimits) -> Iterate:
    """One step of Mehrotra's predictor-corrector; pulls are scaled to 1."""
    pulls, unused, spare, prices = now
    number = possible.sum(axis=-1, keepdims=True) + pulls.shape[-1]
    short = np.where(possible, at_point.costs - 1 - spare, 0.0)
    by = at_point.gradient * pulls[:, None, :]
    matrix = by.swapaxes(1, 2) @ ((prices / spare)[..., None] * by)
    matrix += at_point.curvature * pulls[:, :, None] * pulls[:, None, :]
    entries = np.arange(pulls.shape[-1])
    matrix[:, entries, entries] += unused * pulls
    scale = 1 / np.sqrt(np.maximum(matrix[:, entries, entries], 1e-300))
    matrix = matrix * scale[:, :, None] * scale[:, None, :]
    matrix[:, entries, entries] += 1e-15

    def direction(aim: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        rest = np.where(possible, (aim - spare * prices - prices * short) / spare, 0.0)
        right = (dual - 1) * pulls + aim + (rest[:, None, :] @ by)[:, 0, :]
        move = scale * np.linalg.solve(matrix, (scale * right)[..., None])[..., 0]
        more = (by @ move[..., None])[..., 0] + short
        dearer = np.where(possible, (aim - spare * prices - prices * more) / spare, 0.0)
        return move, aim / pulls - unused - unused * move, more, dearer

    def reached(move: Floats, idle: Floats, more: Floats, dearer: Floats) -> Iterate:
        far = np.minimum(_reach(np.ones_like(move), move), _reach(spare, more))
        far = np.minimum(far, limits.growth / np.maximum(np.abs(move).max(axis=-1, keepdims=True), limits.growth))
        dual_far = np.minimum(_reach(unused, idle), _reach(prices, dearer))
        return Iterate(
            pulls * (1 + far * move), unused + dual_far * idle, spare + far * more, prices + dual_far * dearer
        )

    def mean(point: Iterate) -> Floats:
        return (total(point.margins * point.prices) + total(point.pulls * point.unused))[:, None] / number

    share = np.clip(mean(reached(*direction(np.zeros((len(pulls), 1))))) / mean(now), 1e-3, 1.0)
    return reached(*direction(mean(now) * np.clip(share**3, limits.aim, 0.5)))


def _reach(values: Floats, change: Floats) -> Floats:
    """The largest share of the change, at most 1, that keeps the values positive."""
    steepest = np.where(values > 0, -change / np.where(values > 0, values, 1.0), 0.0).max(axis=-1, keepdims=True)
    return np.asarray(0.95 / np.maximum(steepest, 0.95))


def _start(problem: ConcaveCosts, even: float) -> Iterate:
    """Twice the pulls that suffice in the initial proportions."""
    possible, pulls = problem.possible, problem.initial_pulls()
    pulls = (1.0 - even) * pulls + even * pulls.mean(axis=-1, keepdims=True)
    at_point = problem.evaluate(pulls, np.ones(possible.shape))
    factor = 2 / at_point.costs.min(axis=-1, keepdims=True)
    spare = np.where(possible, at_point.costs * factor - 1, 1.0)
    prices = np.where(possible, 1 / spare, 0.0)
    prices /= np.maximum((prices[:, None, :] @ at_point.gradient)[:, 0, :].max(axis=-1), 1e-300)[:, None]
    pulls = pulls * factor
    return Iterate(pulls, (prices * spare).max(axis=-1, keepdims=True) / pulls, spare, prices)
