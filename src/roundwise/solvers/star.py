"""The complexity of the best arm in the divergences of an exponential family, O(K) (Garivier and Kaufmann 2016, Theorem
5).

Let arm 1 be the best and n_b = x_b n_1. Making b as good as 1 costs n_1 g_b(x_b), where g_b(x) = KL(mu_1, lambda) + x
KL(mu_b, lambda), and lambda is the common mean of the two. g_b is increasing and concave, with g_b' = KL(mu_b, lambda).
At the optimum all costs are equal, g_b(x_b) = y, and sum_b KL(mu_1, lambda_b) / KL(mu_b, lambda_b) = 1; then T~* = (1 +
sum_b x_b) / y. Both x_b and the sum increase with y: Newton's method finds x_b from below, and y is the root of the
logarithm of the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, one_hot, quiet, total
from roundwise.solvers.divergence import find_roots
from roundwise.solvers.halfspaces import Complexity, Family, complexity_where

TURNS = 100  # most iterations; 5 to 10 are usual
NEAR = 1e-9  # a relative step this small leaves an error of its square
EXACT = 1e-12  # relative accuracy of y


@quiet
def solve_star(means: Floats, best: NDArray[np.intp], right: Bools, family: Family) -> Complexity:
    """T~* and w* of showing that one arm exceeds all others, in runs where it is right. (K),(),()->(),(K)"""
    values, who = means.reshape(-1, means.shape[-1]), np.ravel(best)
    mine = one_hot(who, values.shape[-1])
    gaps = values - np.take_along_axis(values, who[:, None], axis=-1)  # steps from the best arm to the others
    possible = np.ravel(right) & (mine | (gaps != 0)).all(axis=-1)
    value, pulls = np.full(len(values), np.inf), np.ones(values.shape)
    if possible.any():
        found = _solve_runs(values[possible], who[possible], mine[possible], gaps[possible], family)
        value[possible], pulls[possible] = found
    runs = means.shape[:-1]
    weights = (pulls / total(pulls)[:, None]).reshape(means.shape)
    return complexity_where(possible.reshape(runs), value.reshape(runs), np.asarray(weights))


def _solve_runs(
    values: Floats, who: NDArray[np.intp], mine: Bools, gaps: Floats, family: Family
) -> tuple[Floats, Floats]:
    """T~*, and pulls relative to those of the best arm. (R, K)"""
    arms = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    own, first = family.select_arms(arms), family.select_arms(np.broadcast_to(who[:, None], values.shape))
    means = np.take_along_axis(values, who[:, None], axis=-1)
    ratio = np.broadcast_to(own.pooling_weights(np.ones(values.shape)), values.shape)
    ratio = ratio / np.take_along_axis(ratio, who[:, None], axis=-1)  # of the pooling weights at equal pulls

    def divergences(x: Floats) -> tuple[Floats, Floats]:
        """KL(mu_1, lambda) and KL(mu_b, lambda)."""
        way = ratio * x / (1.0 + ratio * x)
        return first.divergence(means, gaps * way), own.divergence(values, gaps * (way - 1.0))

    steepest = np.where(mine, 1.0, own.divergence(values, -gaps))

    def shares(y: Floats) -> Floats:
        """The x_b with g_b = y; 0 for the best arm."""
        x = np.where(mine, 0.0, y[:, None] / steepest)
        going = np.ones(len(x), dtype=np.bool_)  # each run stops by itself
        for _ in range(TURNS):
            here, there = divergences(x)
            step = np.where(mine | ~going[:, None], 0.0, (y[:, None] - here - x * there) / np.where(mine, 1.0, there))
            x = x + np.maximum(step, 0.0)
            going &= (step > NEAR * x).any(axis=-1)
            if not going.any():
                break
        return x

    def excess(y: Floats) -> Floats:
        """The logarithm of the sum whose target is 1. (R)"""
        here, there = divergences(shares(y))
        return np.log(total(np.where(mine, 0.0, here / np.where(mine, 1.0, there))))

    most = np.where(mine, np.inf, first.divergence(means, gaps)).min(axis=-1)  # an upper bound on y
    low = most / (1.0 + np.sqrt(values.shape[-1] - 1.0))
    for _ in range(TURNS):  # a bound below, for families that are far from normal
        far = excess(low) > 0
        if not far.any():
            break
        low = np.where(far, low / 4, low)
    every = np.ones(low.shape, dtype=np.bool_)
    y = np.exp(find_roots(lambda log_y: excess(np.exp(log_y)), np.log(low), np.log(most), every, EXACT))
    x = np.where(mine, 1.0, shares(y))
    return np.asarray(total(x) / y), x
