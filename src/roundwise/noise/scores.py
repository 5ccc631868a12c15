"""Normal scores of t statistics, for bets designed for a normal statistic (Propositions 14, 30 and 42)."""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Floats, total

FURTHEST = 37.0  # scores are clipped here, where the tail probability is below 1e-299
_AIM = 1e-10  # relative distance below t^2 at which the search for a score aims, so that it ends below
_STEPS = 100  # most iterations; three or four are usual


@np.errstate(all="ignore")
def student_score(t: Floats, dof: Floats) -> Floats:
    """The normal score with the tail probability of a t statistic; nan if undefined. `(),()->()`"""
    from scipy.special import ndtri, stdtr

    score = np.sign(t) * -ndtri(stdtr(np.maximum(dof, 1.0), -np.abs(t)))
    return np.where(np.isnan(t), np.nan, np.clip(score, -FURTHEST, FURTHEST))


@np.errstate(all="ignore")
def welch_score(t: Floats, squares: Floats, dof: Floats) -> Floats:
    """A score of Welch's statistic that is no wider than normal, whatever the variances of the arms (Proposition 30).

    Its magnitude is the largest z such that t^2 is at least the mean of t_j(z)^2, weighted by each arm's share of the
    squared error, where t_j(z) is the quantile of the t distribution with arm j's `dof` at the level of z under the
    normal. Arms with infinite `dof` are left out. `(),(s),(s)->()`
    """
    least, most = dof.min(axis=-1), np.where(np.isfinite(dof), dof, 0.0).max(axis=-1)
    found = student_score(t, least)
    flat = found.reshape(-1)
    at = np.flatnonzero((least < most) & (t != 0) & ~np.isnan(t))
    if at.size:
        size, freedom, shares = (each.reshape(t.size, -1)[at] for each in (np.abs(t), dof, squares))
        high = np.abs(student_score(size[:, 0], np.broadcast_to(most, t.shape).reshape(-1)[at]))
        flat[at] = np.sign(flat[at]) * _solve(
            size[:, 0] ** 2, shares / total(shares)[:, None], freedom, np.abs(flat[at]), high
        )
    return found


def _solve(square: Floats, shares: Floats, dof: Floats, low: Floats, high: Floats) -> Floats:
    """The z in [low, high] at which the weighted mean of squared quantiles is `square`, from below; vectors.

    Newton's method on the log of the mean, aimed slightly below and bracketed: the returned z was evaluated and is
    within the bound.
    """
    from scipy.special import gammaln, ndtr, stdtrit

    dof = np.where(shares > 0, dof, 1.0)
    scale = gammaln((dof + 1) / 2) - gammaln(dof / 2) - np.log(dof) / 2 + np.log(2) / 2  # of the density over phi
    at, found, z = np.arange(low.size), low.copy(), (low + high) / 2
    for number in range(_STEPS):
        quantiles = stdtrit(dof, ndtr(-z)[:, None]) ** 2
        each = shares * quantiles
        mean = total(each)
        slopes = np.exp((dof + 1) / 2 * np.log1p(quantiles / dof) - scale - (z**2)[:, None] / 2) / np.sqrt(quantiles)
        excess = np.log(mean / square)
        over = ~(excess <= 0)
        low, high = np.where(over, low, z), np.where(over, z, high)
        found[at] = low
        after = z - (excess + _AIM) * mean / total(np.where(each > 0, 2 * each * slopes, 0.0))
        halved = number % 8 == 7
        z = np.where((after > low) & (after < high) & (not halved), after, (low + high) / 2)
        keep = np.flatnonzero((over | (excess < -3 * _AIM)) & (high - low > _AIM))
        if not keep.size:
            break
        at = at[keep]
        low, high, z, square, shares, dof, scale = (e[keep] for e in (low, high, z, square, shares, dof, scale))
    return found
