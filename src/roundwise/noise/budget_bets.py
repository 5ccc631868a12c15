"""Budget bets: one batch's e-value for "a form of the means exceeds its offset", aimed at the end of a budget.

`need` is the log of the factor by which wealth must still grow; `rho` is the share of this batch in the information
still to come, 1 for the last batch. If the exact law of the batch's statistic is known, the bet follows the most
powerful test at the budget: the wealth after the batch is the bar times the probability under the null that this test
rejects (Proposition 14). If only moments are known, the bet is on one drift, which reaches the bar at the budget
(Propositions 15, 16).

All functions are elementwise and return log e-values; 0.0 (no bet) where nothing is needed or no bet is possible. The
result of an element does not depend on the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats
from roundwise.noise.bets import EDGE, HUGE, flatten
from roundwise.noise.lattice import SLACK, WIDE, Lattice, LawShape, lattice_bet

ETA = 0.2  # a claim is shown early once the conditional power of the test at the budget exceeds 1 - ETA
MOST_NEED = 600.0  # no bet beyond this: exp(need) must stay far from overflow
MOST_ODDS = 33.0  # beyond these log odds a law is, to floating-point accuracy, a point mass
_STEPS = 100  # most iterations for y; 4 or 5 are usual
_AIM = 1e-11  # relative distance below the bound at which the search for y aims, so that it ends within the bound
_ROOT = float(np.sqrt(2 * np.pi))


@np.errstate(all="ignore")
def normal_budget_bet(
    z: ArrayLike, need: ArrayLike, rho: ArrayLike, eta: float = ETA, wide: ArrayLike | None = None
) -> Floats:
    """For a statistic that is N(0, 1) at the border of the null and smaller inside it (Proposition 14). `(),(),()->()`

    If z is symmetric there but only known to be no wider than N(0, 1), `wide` is a score that is no narrower, with the
    sign of z and at least its magnitude: it is used where z is far below 0 or little is needed (Proposition 30).
    """
    from scipy.special import log_ndtr, ndtri

    shape, (new, log_bar, share, far) = flatten(z, need, rho, z if wide is None else wide)
    good = _placeable(log_bar, share) & ~np.isnan(new)
    log_bar, share = np.where(good, log_bar, 1.0), np.where(good, share, 1.0)
    new, far = (np.clip(np.where(good, each, 0.0), -HUGE, HUGE) for each in (new, far))
    last = share >= 1.0
    middle = np.where(last, 0.5, share)
    q = ndtri(1.0 - eta)
    y = np.where(last, -ndtri(np.exp(-log_bar) * (1.0 - SLACK)), _critical(log_bar, middle, eta))
    if wide is not None:
        near = (y > 0) & (-far <= np.sqrt((1.0 - middle) / middle) * q)
        new = np.where(new < 0, np.where(near, np.minimum(new, far + y / np.sqrt(middle)), far), new)
    a = (np.sqrt(middle) * new - y) / np.sqrt(1.0 - middle)
    logs = log_bar + np.where(last, np.where(new >= y, 0.0, -np.inf), np.where(a >= q, 0.0, log_ndtr(a)))
    return np.where(good & ~np.isnan(logs), logs, 0.0).reshape(shape)


def _critical(need: Floats, rho: Floats, eta: float) -> Floats:
    """The least y, from above, with Phi(-y) + eta Phi(-(y + sqrt(1-rho) q)/sqrt(rho)) <= exp(-need); nan for none.

    Newton's method on the log of the sum, aimed a little below the bound and kept between a y that is too small and one
    that is not: what is returned was seen to be within the bound, and is too large by 1e-9 or so at most.
    """
    from scipy.special import ndtr, ndtri

    q = ndtri(1.0 - eta)
    target = np.exp(-need) * (1.0 - SLACK)
    narrow, shift = np.sqrt(rho), np.sqrt(1.0 - rho) * q
    low = -ndtri(target)
    high, y = low + WIDE, low + 0.3 / (1.0 + np.maximum(low, 0.0))
    possible = ndtr(-high) + eta * ndtr(-(high + shift) / narrow) <= target
    aim, found = np.log(target) - _AIM, np.where(possible, high, np.nan)
    at = np.arange(y.size)
    for number in range(_STEPS):
        z = (y + shift) / narrow
        spent = ndtr(-y) + eta * ndtr(-z)
        fall = (np.exp(-0.5 * y * y) + eta / narrow * np.exp(-0.5 * z * z)) / _ROOT
        excess = np.log(spent) - aim
        over = spent > target
        low, high = np.where(over, y, low), np.where(over, high, y)
        found[at] = np.where(over, found[at], y)
        after = y + excess * spent / fall
        halved = number % 8 == 7  # where the sum falls by a step, Newton's method may creep
        y = np.where((after > low) & (after < high) & (not halved), after, (low + high) / 2)
        keep = np.flatnonzero((over | (np.abs(excess) > 100 * _AIM)) & (high - low > _AIM))
        if not keep.size:
            break
        at, y, low, high, aim = (each[keep] for each in (at, y, low, high, aim))
        target, narrow, shift = target[keep], narrow[keep], shift[keep]
    return np.where(possible, found, np.nan)


@np.errstate(all="ignore")
def hypergeometric_budget_bet(
    successes_a: ArrayLike,
    counts_a: ArrayLike,
    successes_b: ArrayLike,
    counts_b: ArrayLike,
    log_odds: ArrayLike,
    need: ArrayLike,
    rho: ArrayLike,
    eta: float = ETA,
) -> Floats:
    """0/1 outcomes of two arms against "the odds of a are at most exp(log_odds) times those of b" (Proposition 14b).

    Given all successes of the two, those of a have Fisher's noncentral hypergeometric law at the border. `(),...->()`
    """
    shape, (won_a, n_a, won_b, n_b, odds, log_bar, share) = flatten(
        successes_a, counts_a, successes_b, counts_b, log_odds, need, rho
    )
    return _bet_on_lattice(hypergeometric_law(won_a, n_a, won_b, n_b, odds), log_bar, share, eta).reshape(shape)


def hypergeometric_law(won_a: Floats, n_a: Floats, won_b: Floats, n_b: Floats, odds: Floats) -> Lattice:
    """The successes of a given those of both; vectors."""
    good = (n_a >= 1) & (n_b >= 1) & (won_a >= 0) & (won_b >= 0) & (np.abs(odds) <= MOST_ODDS)
    good &= (won_a <= n_a) & (won_b <= n_b) & _whole(won_a, n_a, won_b, n_b)
    all_won = won_a + won_b
    low, high = np.maximum(all_won - n_b, 0.0), np.minimum(all_won, n_a)

    times, fewest = np.exp(odds), n_b - all_won
    # its shape as of a smooth law: the mean is where the log of the ratio is 0, (times - 1) m^2 - b m + c = 0
    b, c = times * (all_won + n_a) + fewest, times * all_won * n_a
    mean = 2.0 * c / (b + np.sqrt(np.maximum(b * b - 4.0 * (times - 1.0) * c, 0.0)))
    rooms = [1.0 / np.maximum(each, 1e-3) for each in (mean, all_won - mean, n_a - mean, fewest + mean)]
    variance = (n_a + n_b) / (n_a + n_b - 1.0) / (rooms[0] + rooms[1] + rooms[2] + rooms[3])
    bent = rooms[0] ** 2 - rooms[1] ** 2 - rooms[2] ** 2 + rooms[3] ** 2

    def ratios(x: Floats, i: NDArray[np.intp]) -> Floats:
        up = all_won[i] - x
        up *= n_a[i] - x
        down = x + (n_b[i] - all_won[i] + 1.0)
        down *= x + 1.0
        up /= down
        up *= times[i]
        return up

    shape = LawShape(mean, np.sqrt(variance), bent * variance**1.5)
    return Lattice(ratios, [all_won, n_a, n_b, odds], shape, won_a, low, high, good)


@np.errstate(all="ignore")
def binomial_budget_bet(
    successes: ArrayLike, trials: ArrayLike, log_odds: ArrayLike, need: ArrayLike, rho: ArrayLike, eta: float = ETA
) -> Floats:
    """Successes of a binomial against "their odds are at most exp(log_odds)" (Proposition 14c). `(),...->()`

    Poisson counts: events of arm a among all of two arms. One rate against a level: successes among results.
    """
    shape, (won, n, odds, log_bar, share) = flatten(successes, trials, log_odds, need, rho)
    return _bet_on_lattice(binomial_law(won, n, odds), log_bar, share, eta).reshape(shape)


def binomial_law(won: Floats, n: Floats, odds: Floats) -> Lattice:
    """The successes among n; vectors."""
    good = (np.abs(odds) <= MOST_ODDS) & (won >= 0) & (won <= n) & _whole(won, n)
    times = np.exp(odds)

    def ratios(x: Floats, i: NDArray[np.intp]) -> Floats:
        up = n[i] - x
        up /= x + 1.0
        up *= times[i]
        return up

    rate = times / (1.0 + times)
    deviation = np.sqrt(n * rate * (1.0 - rate))
    shape = LawShape(n * rate, deviation, (1.0 - 2.0 * rate) / deviation)
    return Lattice(ratios, [n, odds], shape, won, np.zeros_like(n), n, good)


def poisson_law(events: Floats, mean: Floats, above: Bools) -> Lattice:
    """Events with this mean, or, where not `above`, how many fewer they are than can occur; vectors."""
    most = np.ceil(mean + 40.0 * np.sqrt(mean) + 400.0)  # beyond it there is nothing, to the digits there are
    good = (mean > 0) & (mean < 1e12) & (events >= 0) & _whole(events)
    won = np.where(above, np.minimum(events, most), most - np.minimum(events, most))

    def ratios(x: Floats, i: NDArray[np.intp]) -> Floats:
        # x + 1 events against x, or most - x - 1 against most - x
        return np.where(above[i], np.where(x < most[i], mean[i] / (x + 1.0), 0.0), (most[i] - x) / mean[i])

    sign = np.where(above, 1.0, -1.0)
    shape = LawShape(np.where(above, mean, most - mean), np.sqrt(mean), sign / np.sqrt(mean))
    return Lattice(ratios, [mean, sign], shape, won, np.zeros_like(mean), most, good)


def _bet_on_lattice(law: Lattice, need: Floats, rho: Floats, eta: float) -> Floats:
    return lattice_bet(law._replace(good=law.good & _placeable(need, rho)), need, rho, eta)


@np.errstate(all="ignore")
def drift_budget_bet(z: ArrayLike, need: ArrayLike, rho: ArrayLike) -> Floats:
    """exp(q z - q^2/2), q = sqrt(2 need rho), for a statistic with tails no heavier than N(0, 1) (Proposition 15)."""
    shape, (new, log_bar, share) = flatten(z, need, rho)
    good = (log_bar > 0) & (log_bar < np.inf) & (share > 0) & (share <= 1) & ~np.isnan(new)
    q = np.sqrt(2.0 * np.where(good, log_bar * share, 0.0))
    return np.where(good, q * (np.clip(np.where(good, new, 0.0), -HUGE, HUGE) - q / 2), 0.0).reshape(shape)


@np.errstate(all="ignore")
def product_budget_bet(
    factors: Floats,
    past_means: Floats,
    variances: Floats,
    values: Floats,
    tables: Floats,
    offsets: Floats,
    need: Floats,
    rho: Floats,
) -> Floats:
    """Values in [0, 1] of several arms against "sum_s factors_s mu_s is at most the offset" (Proposition 16).

    prod over rows of arm s of 1 + lambda_s (x - m_s), lambda_s = kappa factors_s / n_s, with predictable centres m_s
    in [0, 1] and one kappa >= 0. `tables` has how often each of the values occurred, on the last axis; `past_means` and
    `variances` are guesses from the past. `(S),(S),(S),(V),(S,V),(),(),()->()`
    """
    counts = np.zeros(tables.shape[:-1])
    for v in range(values.size):
        counts = counts + tables[..., v]
    used = factors != 0
    good = np.asarray((~used | (counts >= 1)).all(axis=-1)) & (need > 0) & (need < np.inf) & (rho > 0) & (rho <= 1)
    n = np.where(used, np.maximum(counts, 1.0), 1.0)
    lean = np.where(used, factors * variances / n, 0.0)
    spread, away = np.zeros(good.shape), -np.asarray(offsets, dtype=np.float64)
    for s in range(factors.shape[-1]):
        spread = spread + factors[..., s] * lean[..., s]
        away = away + factors[..., s] * past_means[..., s]
    good &= (spread > 0) & np.isfinite(away)
    centres = np.clip(past_means - (away / spread)[..., None] * lean, 0.0, 1.0)
    beyond = np.asarray(offsets, dtype=np.float64)  # what the centres lack
    for s in range(factors.shape[-1]):
        beyond = beyond - factors[..., s] * centres[..., s]
    slopes = factors / n
    reach = np.where(slopes > 0, slopes * centres, -slopes * (1.0 - centres)).max(axis=-1)
    kappa = np.sqrt(2.0 * need * rho / spread)
    kappa = np.where(good, np.minimum(kappa, EDGE / np.maximum(reach, 1e-300)), 0.0)
    logs = -kappa * np.maximum(beyond, 0.0)
    for s in range(factors.shape[-1]):
        slope = kappa * slopes[..., s]
        for v, value in enumerate(values):
            logs = logs + tables[..., s, v] * np.log1p(slope * (value - centres[..., s]))
    return np.where(good & ~np.isnan(logs), logs, 0.0)


def _placeable(need: Floats, rho: Floats) -> Bools:
    return np.asarray((need > 0) & (need < MOST_NEED) & (rho > 0) & (rho <= 1))


def _whole(*counts: Floats) -> Bools:
    found = np.ones(counts[0].shape, dtype=np.bool_)
    for each in counts:
        found &= each == np.floor(each)
    return found
