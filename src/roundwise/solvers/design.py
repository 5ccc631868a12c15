"""Optimal designs for linear models: how precisely directions are known after given pulls, and the cheapest pulls.

With features x_i and n_i pulls of arm i, the least-squares estimate of c.theta has variance c'V^-1 c (per unit of
sigma^2), where V = sum_i n_i x_i x_i'. Its inverse, the minimum of v'Vv over v with c.v = 1, is a minimum of linear
functions of n, hence concave and homogeneous of degree 1. So `interior_point` finds the fewest pulls that estimate
several directions precisely enough, with a certificate (docs/linear.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, total
from roundwise.solvers.interior_point import EXACT, CostDerivatives, solve_least_pulls

ROUGH = 1e-3  # a certified gap small enough for planning
_RIDGE = 1e-11  # of the mean eigenvalue of V, added so that a direction without pulls has a huge but finite variance
_ENTRIES = 2**21  # entries processed at a time


class Directions(NamedTuple):
    """C_j(n) = needs_j / (c_j'V^-1 c_j) of several runs (`interior_point.ConcaveCosts`)."""

    features: Floats  # X, (K, d)
    forms: Floats  # c, (R, P, d)
    needs: Floats  # (R, P)
    possible: Bools  # (R, P)

    def take_runs(self, runs: Bools) -> Directions:
        return Directions(self.features, self.forms[runs], self.needs[runs], self.possible[runs])

    def initial_pulls(self) -> Floats:
        """Equal pulls."""
        return np.ones((len(self.forms), len(self.features)))

    def evaluate(self, pulls: Floats, prices: Floats) -> CostDerivatives:
        """With g_ji = x_i'V^-1 c_j and h_j = c_j'V^-1 c_j: dC_j/dn_i = needs g^2/h^2.

        -C_j'' = 2 needs/h^2 ((g g') o (X V^-1 X') - (g^2)(g^2)'/h).
        """
        inverse = np.linalg.inv(information_matrix(self.features, pulls))
        g = (self.forms @ inverse) @ self.features.T  # (R, P, K)
        h = total((self.forms @ inverse) * self.forms)
        h = np.where(self.possible, h, 1.0)
        needs = np.where(self.possible, self.needs, 0.0)
        squares = g * g
        weights = 2 * prices * needs / h**2
        hat = self.features @ inverse @ self.features.T
        curvature = (g.swapaxes(1, 2) @ (weights[..., None] * g)) * hat
        curvature -= squares.swapaxes(1, 2) @ ((weights / h)[..., None] * squares)
        costs = np.where(self.possible, needs / h, np.inf)
        return CostDerivatives(costs, (needs / h**2)[..., None] * squares, curvature)


def solve_design(features: Floats, forms: Floats, needs: Floats, gap: float = EXACT) -> tuple[Floats, Floats]:
    """The fewest pulls with c_j'V^-1 c_j <= needs_j for positive, finite needs. (K,d),(R,P,d),(R,P)->(R),(R,K)

    No pulls in runs without such needs.
    """
    possible = np.isfinite(needs) & (needs > 0)
    amount, pulls = np.zeros(len(forms)), np.zeros((len(forms), len(features)))
    todo = np.flatnonzero(possible.any(axis=-1))
    unit = np.where(possible, needs, np.inf).min(axis=-1, initial=np.inf)  # needs may all be tiny or all be huge
    chunk = max(1, _ENTRIES // (len(features) * (forms.shape[1] + len(features))))
    for runs in (todo[i : i + chunk] for i in range(0, len(todo), chunk)):
        scaled = np.where(possible[runs], needs[runs] / unit[runs, None], 0.0)
        found = solve_least_pulls(Directions(features, forms[runs], scaled, possible[runs]), gap)
        amount[runs], pulls[runs] = found[0] / unit[runs], found[1] / unit[runs, None]
    return amount, pulls


def information_matrix(features: Floats, pulls: Floats) -> Floats:
    """V = sum_i n_i x_i x_i' plus a negligible ridge. (K,d),(R,K)->(R,d,d)"""
    found = (features.T * pulls[:, None, :]) @ features
    size = np.trace(found, axis1=-2, axis2=-1) / features.shape[-1]
    return np.asarray(found + (_RIDGE * size + 1e-300)[:, None, None] * np.eye(features.shape[-1]))


def fit_least_squares(features: Floats, counts: Floats, means: Floats) -> tuple[Floats, Floats]:
    """The least-squares theta and V^-1 from counts and means of arms. (K,d),(R,K),(R,K)->(R,d),(R,d,d)"""
    inverse = np.linalg.inv(information_matrix(features, counts))
    right = (counts * means)[:, None, :] @ features
    return (right @ inverse)[:, 0, :], np.asarray(inverse, dtype=np.float64)


def orthonormal_basis(features: Floats) -> Floats:
    """Orthonormal features that span the same means. (K,d)->(K,r)"""
    u, sizes, _ = np.linalg.svd(features, full_matrices=False)
    return np.asarray(u[:, sizes > 1e-10 * sizes.max(initial=0.0)])
