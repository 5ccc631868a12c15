"""What a trial would use without roundwise: Bonferroni, Holm, Dunnett, O'Brien-Fleming or Pocock with Holm, MAMS.

Nothing of roundwise is used. Arms are on the last axis, the control first; scores are one-sided z, large is good.
"""

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri


def rate_scores(wins, counts):
    """z of each rate against the control's, with the pooled variance. (K),(K)->(K-1)"""
    pooled = (wins[..., 1:] + wins[..., :1]) / (counts[..., 1:] + counts[..., :1])
    gap = wins[..., 1:] / counts[..., 1:] - wins[..., :1] / counts[..., :1]
    error = np.sqrt(pooled * (1 - pooled) * (1 / counts[..., 1:] + 1 / counts[..., :1]))
    return np.divide(gap, error, out=np.zeros_like(gap), where=error > 0)


def mean_scores(totals, counts, sigma=1.0):
    """z of each mean against the control's, with known deviation. (K),(K)->(K-1)"""
    gap = totals[..., 1:] / counts[..., 1:] - totals[..., :1] / counts[..., :1]
    return gap / (sigma * np.sqrt(1 / counts[..., 1:] + 1 / counts[..., :1]))


def bonferroni(scores, alpha):
    """Every claim at alpha / J."""
    return scores >= -ndtri(alpha / scores.shape[-1])


def holm(scores, alpha):
    """The largest score at alpha / J, the next at alpha / (J - 1), and so on until one fails."""
    return _step_down(scores, [-ndtri(alpha / k) for k in range(1, scores.shape[-1] + 1)])


def dunnett(scores, alpha, loadings):
    """Every claim at the quantile of the largest of all scores; `loadings` are their correlations with the control."""
    return scores >= dunnett_bound(alpha, tuple(loadings))


def dunnett_step_down(scores, alpha, loadings):
    """The same, step by step over those that are left; for equal loadings."""
    return _step_down(scores, [dunnett_bound(alpha, tuple(loadings[:k])) for k in range(1, scores.shape[-1] + 1)])


def _step_down(scores, bars):
    """The largest of J scores against bars[J-1], the next against bars[J-2], until one fails."""
    order = np.argsort(-scores, axis=-1)
    passed = np.take_along_axis(scores, order, axis=-1) >= np.array(bars[::-1])
    found = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(found, order, np.logical_and.accumulate(passed, axis=-1), axis=-1)
    return found


@functools.cache
def dunnett_bound(alpha, loadings):
    """c with P(max_i Z_i > c) = alpha, Z_i = loading_i Z_0 + sqrt(1 - loading_i^2) e_i: one integral over Z_0."""
    places, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / math.sqrt(2 * math.pi)
    loading = np.array(loadings)[:, None]

    def excess(c):
        inside = ndtr((c + loading * places) / np.sqrt(1 - loading**2)).prod(axis=0)
        return 1 - float(weights @ inside) - alpha

    return brentq(excess, 0.0, 10.0)


@functools.cache
def group_sequential_bounds(alpha, looks, power):
    """c (k/looks)^-power for k = 1..looks, one-sided error alpha: power 1/2 is O'Brien-Fleming, 0 Pocock.

    The recursion of Armitage, McPherson and Rowe (1969): the density of the score that was never beyond a bound.
    """
    shape = np.arange(1, looks + 1, dtype=float) ** -power * looks**power
    return brentq(lambda c: crossing(c * shape) - alpha, 0.5, 8.0) * shape


def crossing(bounds, points=801):
    """The chance that a random walk of equal normal steps has a score beyond one of these bounds."""
    spent, grid, mass = 0.0, np.zeros(1), np.ones(1)  # the walk starts at 0
    for k, bound in enumerate(bounds, start=1):
        top = bound * math.sqrt(k)  # on the scale of the walk
        spent += float(mass @ ndtr(grid - top))
        places, step = np.linspace(-8 * math.sqrt(k), top, points, retstep=True)
        simpson = np.ones(points)
        simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
        density = np.exp(-((places[:, None] - grid) ** 2) / 2) @ mass / math.sqrt(2 * math.pi)
        grid, mass = places, density * simpson * step / 3
    return spent


def sequential_holm(scores, alpha, power):
    """Holm at every look, each claim against the bounds of alpha / (claims that are left). (looks, ..., J)->(..., J)"""
    looks, number = scores.shape[0], scores.shape[-1]
    bounds = np.array([group_sequential_bounds(alpha / k, looks, power) for k in range(1, number + 1)])
    found = np.zeros(scores.shape[1:], dtype=bool)
    for k in range(looks):
        while True:
            left = np.maximum((~found).sum(axis=-1), 1)
            bars = np.moveaxis(bounds[left - 1, : k + 1], -1, 0)[..., None]  # of all looks so far
            new = found | (scores[: k + 1] >= bars).any(axis=0)
            if (new == found).all():
                break
            found = new
    return found


@functools.cache
def mams_bounds(alpha, loadings, looks, power, runs=400_000, lot=20_000):
    """c (k/looks)^-power with a chance of alpha that any score is ever beyond it, if no arm is better than the control.

    The generalized Dunnett test of Magirr, Jaki and Whitehead (2012), Biometrika 99, with the futility bound 0: an arm
    whose score is below it is dropped. Before it is, its scores do not depend on c, so c is a quantile of their
    largest, here of simulated trials with equal looks.
    """
    rng, times = np.random.default_rng(1), np.arange(1, looks + 1)[:, None, None]
    loading = np.array(loadings)
    largest = []
    for _ in range(runs // lot):
        steps = rng.standard_normal((looks, lot, 1 + loading.size)).cumsum(axis=0) / np.sqrt(times)
        scores = np.sqrt(1 - loading**2) * steps[..., 1:] - loading * steps[..., :1]
        largest.append(np.where(_inside(scores), scores * (times / looks) ** power, -np.inf).max(axis=(0, 2)))
    return np.quantile(np.concatenate(largest), 1 - alpha) * (times[:, 0, 0] / looks) ** -power


def _inside(scores):
    """Which arms are not dropped before each look. (looks, ..., J)"""
    dropped = np.cumsum(scores < 0, axis=0) > 0
    return np.concatenate([np.ones((1, *scores.shape[1:]), dtype=bool), ~dropped[:-1]])


def mams(scores, alpha, shares, power):
    """Every arm that passes its bound before it is dropped, and the share of the patients that are treated.

    An arm ends at its bound, too, and the control with the last arm. (looks, ..., J) -> (..., J), (...)
    """
    loadings = tuple(np.sqrt(shares[1:] / (shares[1:] + shares[0])).round(12))
    bounds = mams_bounds(alpha, loadings, len(scores), power).reshape(-1, *[1] * (scores.ndim - 1))
    inside = _inside(scores)
    passed = np.cumsum((scores >= bounds) & inside, axis=0) > 0
    treated = inside & ~np.concatenate([np.zeros_like(passed[:1]), passed[:-1]])
    return passed[-1], (treated @ shares[1:] + treated.any(axis=-1) * shares[0]).mean(axis=0)
