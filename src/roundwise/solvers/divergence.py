"""Complexity and evidence with the KL divergences of the rewards' own family: the paper's T~* (Section 1.1).

For half-space j, a_j.mu > b_j: C_j(n) = min of sum_i n_i KL(mu_i, lambda_i) over a_j.lambda <= b_j. It is concave and
homogeneous of degree 1 in n, with derivative KL(mu_i, lambda_i) in n_i. The minimiser lambda is the n-weighted common
mean for "one arm exceeds another", the level for a single arm, and otherwise lambda_i - mu_i = eta a_i V(lambda_i) /
n_i for all i, with the eta that puts it on the border.

1/T~* = max_w min_j C_j(w), C_j(w) = min of sum_i w_i KL(mu_i, lambda_i) over the wrong side of each half-space j of the
answer, certified to 1e-6 or better (`interior_point`; docs/paper.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total, tree_map
from roundwise.deadline import check_deadline
from roundwise.errors import InputError
from roundwise.solvers import program
from roundwise.solvers.halfspaces import Complexity, Family, Halfspaces, range_of_forms
from roundwise.solvers.interior_point import CostDerivatives, solve_least_pulls

START = 1e-3  # the gap at which the programme of normal rewards is close enough for a start


class Sides(NamedTuple):
    """The half-spaces of an answer and the means of their arms."""

    pieces: Halfspaces
    means: Floats  # (P, S)
    distances: Floats  # (P), a.mu - b
    possible: Bools  # (P), whether means of the family can lie on the wrong side at all
    single: Bools  # (P), whether it involves only one arm
    even: Bools  # (P), whether it says that its first arm exceeds its second

    def take_runs(self, runs: Bools) -> Sides:
        return tree_map(lambda each: each[runs], self)


def build_sides(pieces: Halfspaces, means: Floats, family: Family) -> Sides:
    """The half-spaces of an answer at these means; an InputError if the family cannot handle them."""
    arms = np.broadcast_to(pieces.arms, (*means.shape[:-1], *pieces.arms.shape[-2:]))
    factors = np.broadcast_to(pieces.coefficients, arms.shape)
    own = np.take_along_axis(means[..., None, :], arms, axis=-1)
    offsets = np.broadcast_to(pieces.offsets, arms.shape[:-1])
    least, _ = range_of_forms(factors, family.low, family.high)
    alone = pieces._replace(arms=arms, factors=factors, offsets=offsets)
    used = (factors != 0).sum(axis=-1)
    even = (used == 2) & (offsets == 0) & (factors[..., 0] == -factors[..., min(1, factors.shape[-1] - 1)])
    if not (family.convex or ((used <= 1) | even).all()):
        raise InputError(f"For {family.name} only levels and comparisons of two arms without a margin are supported.")
    return Sides(alone, own, total(factors * own) - offsets, np.asarray(least < offsets), used <= 1, even)


@quiet
def halfspace_costs(sides: Sides, pulls: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """C_j at these pulls, and KL(mu_i, lambda_i) and lambda_i - mu_i for the arms of each half-space."""
    pieces, means = sides.pieces, sides.means
    weights = np.take_along_axis(pulls[..., None, :], pieces.arms, axis=-1)
    own, factors = family.select_arms(pieces.arms), pieces.coefficients
    steps = np.where(factors == 0, 0.0, -sides.distances[..., None] / np.where(factors == 0, 1.0, factors))
    if sides.even.any():
        steps = np.where(sides.even[..., None], _steps_to_common_mean(means, weights, own), steps)
    if not (sides.single | sides.even).all():
        least = 1e-100 * weights.max(axis=(-2, -1), keepdims=True)
        border = _steps_to_border(sides, np.maximum(weights, least), own)
        steps = np.where((sides.single | sides.even)[..., None], steps, border)
    each = np.where(sides.possible[..., None], own.divergence(means, steps), np.inf)
    each = np.where(factors == 0, 0.0, each)
    return np.where(sides.possible, total(np.where(each > 0, weights * each, 0.0)), np.inf), each, steps


def _steps_to_common_mean(means: Floats, weights: Floats, family: Family) -> Floats:
    """The steps of the first two arms to their common mean, with the family's pooling weights."""
    pair = np.arange(means.shape[-1]) < 2
    share = np.where(pair, family.pooling_weights(weights), 0.0)
    share = share / np.maximum(total(share), 1e-300)[..., None]
    gap = means[..., 1] - means[..., 0]
    first, second = gap * share[..., 1], -gap * share[..., 0]
    return np.asarray(np.where(np.arange(means.shape[-1]) == 0, first[..., None], second[..., None]) * pair)


def _steps_to_border(sides: Sides, weights: Floats, family: Family) -> Floats:
    """The steps lambda_i - mu_i with lambda - mu = eta a V(lambda) / w for all arms, and a.lambda = b. (P,S)

    The distance a.(mu - lambda) increases with y, where eta = -scale exp(y); initially it is proportional to exp(y).
    """
    factors, distances = sides.pieces.coefficients, sides.distances
    rates = -factors / weights
    rates = rates / np.maximum(np.abs(rates).max(axis=-1, keepdims=True), 1e-300)
    todo = sides.possible & (distances > 0)
    goal = np.log(np.where(todo, distances, 1.0))

    def excess(y: Floats) -> Floats:
        way = -total(
            np.where(factors == 0, 0.0, factors * family.solve_steps(sides.means, rates * np.exp(y)[..., None]))
        )
        return np.where(np.isnan(way), np.inf, np.log(np.maximum(way, 1e-300)) - goal)

    y = find_roots(excess, np.full(goal.shape, -690.0), np.full(goal.shape, 690.0), todo, 1e-15)
    steps = family.solve_steps(sides.means, rates * np.exp(y)[..., None])
    return np.where(todo[..., None], steps, 0.0)


def find_roots(excess: Callable[[Floats], Floats], low: Floats, high: Floats, todo: Bools, exact: float) -> Floats:
    """The roots, from below, of increasing functions that are initially about linear; each element stops by itself.

    Secant steps, with bounds that are bisected in every third iteration: 200 iterations always suffice.
    """
    below, above = excess(low), np.full(low.shape, np.inf)
    going = todo & (below < -exact)
    for turn in range(200):
        if not going.any():
            break
        check_deadline()
        secant = np.where(np.isfinite(above), low - below * (high - low) / (above - below), low - below)
        y = np.where((turn % 3 < 2) & (secant > low) & (secant < high), secant, (low + high) / 2)
        found = excess(y)
        past, short = going & (found > 0), going & ~(found > 0)
        low, below = np.where(short, y, low), np.where(short, found, below)
        high, above = np.where(past, y, high), np.where(past, found, above)
        going &= (below < -exact) & (high - low > exact * np.maximum(1.0, np.abs(low)))
    return low


class FamilyCosts(NamedTuple):
    """C_j of half-spaces in the divergence of a family, as `interior_point.ConcaveCosts`."""

    sides: Sides
    arms: int
    means: Floats  # (K)
    family: Family

    @property
    def possible(self) -> Bools:
        return self.sides.possible

    def take_runs(self, runs: Bools) -> FamilyCosts:
        return self._replace(sides=self.sides.take_runs(runs), means=self.means[runs])

    def initial_pulls(self) -> Floats:
        """The optimal proportions for normal rewards with the variances at the means."""
        sides = self.sides
        squares = (
            sides.pieces.spread(sides.pieces.coefficients**2, self.arms) * self.family.variance(self.means)[:, None, :]
        )
        limits = np.where(sides.possible, sides.distances**2 / 2, np.inf)
        q = squares / np.where(np.isinf(limits), 1.0, limits)[..., None]
        pulls = program.solve_general(q, np.where(np.isinf(limits), np.inf, 1.0), START).pulls
        return np.maximum(pulls, 1e-3 * pulls.max(axis=-1, keepdims=True))

    def evaluate(self, pulls: Floats, prices: Floats) -> CostDerivatives:
        """dC_j/dn_i = KL(mu_i, lambda_i); -C_j'' = diag(t) - r r'.

        h_i = 1/(n_i KL''), t_i = KL'^2 h_i and r_i = a_i KL' h_i / sqrt(sum a^2 h).
        """
        sides, family = self.sides, self.family
        costs, each, steps = halfspace_costs(sides, pulls, family)
        first, second = family.select_arms(sides.pieces.arms).derivatives(sides.means, steps)
        weights = np.take_along_axis(pulls[..., None, :], sides.pieces.arms, axis=-1)
        ease = 1 / (np.maximum(weights, 1e-300) * second)
        factors = sides.pieces.coefficients
        together = np.sqrt(np.maximum(total(factors**2 * ease), 1e-300))[..., None]
        live = sides.possible[..., None] & (factors != 0)
        bends = first**2 * ease, factors * first * ease / together
        gradient, curves, crossed = (
            sides.pieces.spread(np.where(live & np.isfinite(x), x, 0.0), self.arms) for x in (each, *bends)
        )
        curvature = -crossed.swapaxes(1, 2) @ (prices[..., None] * crossed)
        entries = np.arange(self.arms)
        curvature[:, entries, entries] += total((prices[..., None] * curves).swapaxes(1, 2))
        return CostDerivatives(np.where(sides.possible, costs, np.inf), gradient, curvature)


@quiet
def family_complexity(
    pieces: Halfspaces, means: Floats, family: Family, right: Bools, required: Bools | None = None
) -> Complexity:
    """T~* and w* of showing all half-spaces of an answer (or the `required` ones), in runs where it is right."""
    arms = means.shape[-1]
    sides = build_sides(pieces, means, family)
    if required is not None:
        sides = sides._replace(possible=sides.possible & required)
    wanted = right & (~sides.possible | (sides.distances > 0)).all(axis=-1)
    certain = wanted & ~sides.possible.any(axis=-1)  # no means of the family make the answer wrong
    value, weights = np.where(certain, 0.0, np.inf), np.full(means.shape, 1.0 / arms)
    wanted &= ~certain
    if wanted.any():
        total_pulls, pulls = solve_least_pulls(FamilyCosts(sides.take_runs(wanted), arms, means[wanted], family))
        value[wanted], weights[wanted] = total_pulls, pulls / total_pulls[:, None]
    return Complexity(value, weights)
