"""Bets on 0/1 outcomes and on Poisson counts, for two arms and against a level (docs/why-the-guarantee-holds.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .bets_mixture import DRIFTS, EDGE, Array, Mask, added, clipped_z, flat, log_mixture

_MOST = 1e100  # above this, or below its inverse, nothing is bet on: products would overflow


def _counted(*counts: Array) -> Mask:
    good = np.ones(counts[0].shape, dtype=np.bool_)
    for count in counts:
        good &= (count > 1 / _MOST) & (count < _MOST)
    return good


def _totalled(good: Mask, *totals: Array) -> Mask:
    for total in totals:
        good = good & (total >= 0) & (total < _MOST)
    return good


def centre(past_a: Array, n_past_a: Array, past_b: Array, n_past_b: Array, n_a: Array, n_b: Array) -> Array:
    """A guess at the common mean under the null: past means, half a success in all added, weighted as the new batch is.

    With these weights the drift that equals the true difference bets exactly on the true rates.
    """
    half = 0.5 / (n_past_a + n_past_b)
    mean_a = (past_a / n_past_a + half) / (1.0 + half + half)
    mean_b = (past_b / n_past_b + half) / (1.0 + half + half)
    return np.minimum(mean_a * (n_a / (n_a + n_b)) + mean_b * (n_b / (n_a + n_b)), 1.0 - 1e-12)


def parted(m: Array, margin: Array, up: Array, down: Array) -> tuple[Array, Array]:
    """Centres of the two arms, the margin apart, whose average weighted as the new batch is stays near m."""
    m_b = np.clip(m - down * margin, np.maximum(0.0, -margin), np.minimum(1.0, 1.0 - margin))
    return m_b + margin, m_b


@np.errstate(all="ignore")
def bernoulli_difference_bet(
    past_successes_a: ArrayLike,
    past_counts_a: ArrayLike,
    past_successes_b: ArrayLike,
    past_counts_b: ArrayLike,
    successes_a: ArrayLike,
    counts_a: ArrayLike,
    successes_b: ArrayLike,
    counts_b: ArrayLike,
    margin: ArrayLike = 0.0,
) -> Array:
    """The log e-value of one batch of 0/1 outcomes against "the rate of a is at most that of b plus a margin".

    0.0 where either arm has no past or no new rows. `(),...->()`
    """
    shape, (past_a, N_a, past_b, N_b, won_a, n_a, won_b, n_b, apart) = flat(
        past_successes_a, past_counts_a, past_successes_b, past_counts_b, successes_a, counts_a, successes_b, counts_b,
        margin,
    )  # fmt: skip
    good = _totalled(_counted(N_a, N_b, n_a, n_b), past_a, past_b, won_a, won_b)
    good &= (past_a <= N_a) & (past_b <= N_b) & (won_a <= n_a) & (won_b <= n_b) & (np.abs(apart) < 1)
    N_a, N_b, n_a, n_b = (np.where(good, n, 1.0) for n in (N_a, N_b, n_a, n_b))
    past_a, past_b, won_a, won_b = (np.where(good, s, 0.0) for s in (past_a, past_b, won_a, won_b))
    apart = np.where(good, apart, 0.0)
    m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = parted(m, apart, up, down)
    noise = m * (1.0 - m)
    variance = noise * (1.0 / N_a + 1.0 / N_b)
    z = clipped_z(past_a / N_a - past_b / N_b - apart, variance)
    # the factors are 1 + up t (x - m_a) and 1 - down t (x - m_b): without a margin the likelihood ratio of the rates
    # m + up theta and m - down theta, t = theta / noise
    furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        t = np.minimum(u * np.sqrt(variance) / noise, furthest)
        factors[k] = (
            won_a * np.log1p(up * t * (1.0 - m_a))
            + (n_a - won_a) * np.log1p(-up * t * m_a)
            + won_b * np.log1p(-down * t * (1.0 - m_b))
            + (n_b - won_b) * np.log1p(down * t * m_b)
        )
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def bernoulli_level_bet(
    past_successes: ArrayLike,
    past_counts: ArrayLike,
    successes: ArrayLike,
    counts: ArrayLike,
    level: ArrayLike,
    above: ArrayLike,
) -> Array:
    """The log e-value of one batch of 0/1 outcomes for "the rate is above the level"; or below, where not `above`.

    The null is rate <= level (or >=): binomial likelihood ratio against the level. 0.0 where there is
    no past, no new row, or the level is not strictly between 0 and 1. `(),...->()`
    """
    shape, (past, N, won, n, tau, side) = flat(past_successes, past_counts, successes, counts, level, above)
    good = _totalled(_counted(N, n), past, won) & (tau > 1 / _MOST) & (tau < 1) & (past <= N) & (won <= n)
    N, n, tau = np.where(good, N, 1.0), np.where(good, n, 1.0), np.where(good, tau, 0.5)
    past, won = np.where(good, past, 0.0), np.where(good, won, 0.0)
    low = side == 0  # below: count failures against 1 - level instead
    m, rest = np.where(low, 1.0 - tau, tau), np.where(low, tau, 1.0 - tau)
    past, won = np.where(low, N - past, past), np.where(low, n - won, won)
    variance = m * rest / N
    z = clipped_z(past / N - m, variance)
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        theta = np.minimum(u * np.sqrt(variance), EDGE * rest)
        factors[k] = won * np.log1p(theta / m) + (n - won) * np.log1p(-theta / rest)
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def poisson_difference_bet(
    past_events_a: ArrayLike,
    past_exposure_a: ArrayLike,
    past_events_b: ArrayLike,
    past_exposure_b: ArrayLike,
    events_a: ArrayLike,
    exposure_a: ArrayLike,
    events_b: ArrayLike,
    exposure_b: ArrayLike,
    margin: ArrayLike = 0.0,
) -> Array:
    """The log e-value of one batch of Poisson counts against "the rate of a is at most that of b plus a margin".

    An arm's exposure is its number of rows, or the time watched. 0.0 where either has none, past or new. `(),...->()`
    """
    shape, (past_a, N_a, past_b, N_b, won_a, n_a, won_b, n_b, apart) = flat(
        past_events_a,
        past_exposure_a,
        past_events_b,
        past_exposure_b,
        events_a,
        exposure_a,
        events_b,
        exposure_b,
        margin,
    )
    good = _totalled(_counted(N_a, N_b, n_a, n_b), past_a, past_b, won_a, won_b) & np.isfinite(apart)
    apart = np.where(good, apart, 0.0)
    N_a, N_b, n_a, n_b = (np.where(good, n, 1.0) for n in (N_a, N_b, n_a, n_b))
    past_a, past_b, won_a, won_b = (np.where(good, s, 0.0) for s in (past_a, past_b, won_a, won_b))
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m = down * (past_a / N_a) + up * (past_b / N_b) + 0.5 / (N_a + N_b)  # half an event in all added
    variance = m * (1.0 / N_a + 1.0 / N_b)
    z = clipped_z(past_a / N_a - past_b / N_b - apart, variance)
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        theta = np.minimum(u * np.sqrt(variance), EDGE * m / down) / m
        # the exponential parts cancel, n_a (theta_a - m) + n_b (theta_b - m) = 0, but for the margin
        factors[k] = won_a * np.log1p(up * theta) + won_b * np.log1p(-down * theta) - n_a * up * theta * apart
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def poisson_form_bet(
    factors: ArrayLike,
    past_events: ArrayLike,
    past_exposure: ArrayLike,
    events: ArrayLike,
    exposure: ArrayLike,
    offset: ArrayLike,
) -> Array:
    """The log e-value of one batch of Poisson counts for "the sum of factors times rates exceeds the offset".

    prod_s (1 + t f_s/n_s)^X_s exp(-t offset), whose mean is exp(t (sum_s f_s rate_s - offset)). An arm whose factor is
    0 takes no part; 0.0 where another has no exposure, past or new. `(S),(S),(S),(S),(S),()->()`
    """
    arms = np.broadcast_arrays(factors, past_events, past_exposure, events, exposure, np.asarray(offset)[..., None])
    f, past, N, won, n, b = (np.asarray(each, dtype=np.float64).reshape(-1, each.shape[-1]).T for each in arms)
    b, shape = b[0], arms[0].shape[:-1]
    scale = np.abs(f).max(axis=0)
    good = ((f == 0) | _totalled(_counted(N, n), past, won)).all(axis=0) & _counted(scale)
    good &= np.abs(b / scale) < _MOST
    used = good & (f != 0)
    scale = np.where(good, scale, 1.0)
    f, b = np.where(used, f / scale, 0.0), np.where(good, b / scale, 0.0)
    N, n = np.where(used, N, 1.0), np.where(used, n, 1.0)
    past, won = np.where(used, past, 0.0), np.where(used, won, 0.0)
    rates = (past + 0.5) / N  # half an event added
    z = clipped_z(added(f * (past / N)) - b, np.where(good, added(f * f * rates / N), 1.0))
    unit = np.sqrt(added(f * f * rates / N)) / np.where(good, added(f * f * rates / n), 1.0)
    furthest = np.where(f < 0, EDGE * n / -f, _MOST).min(axis=0)  # no factor of 0, and no overflow
    t = np.minimum(DRIFTS[:, None] * unit, furthest)
    log_factors = -t * b
    for share, count in zip(f / n, won, strict=True):
        log_factors += count * np.log1p(t * share)
    return np.where(good, log_mixture(z, log_factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def poisson_level_bet(
    past_events: ArrayLike,
    past_exposure: ArrayLike,
    events: ArrayLike,
    exposure: ArrayLike,
    level: ArrayLike,
    above: ArrayLike,
) -> Array:
    """The log e-value of one batch of Poisson counts for "the rate is above the level"; or below, where not `above`.

    The null is rate <= level (or >=): likelihood ratio against the level. 0.0 where there is no past,
    no new exposure, or the level is not positive. `(),...->()`
    """
    shape, (past, N, won, n, tau, side) = flat(past_events, past_exposure, events, exposure, level, above)
    good = _totalled(_counted(N, n, tau), past, won)
    N, n, tau = (np.where(good, a, 1.0) for a in (N, n, tau))
    past, won = np.where(good, past, 0.0), np.where(good, won, 0.0)
    sign = np.where(side == 0, -1.0, 1.0)
    variance = tau / N
    z = clipped_z(sign * (past / N - tau), variance)
    furthest = np.where(side == 0, EDGE, np.inf)
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        theta = sign * np.minimum(u * np.sqrt(variance) / tau, furthest)  # relative to the level
        factors[k] = won * np.log1p(theta) - n * tau * theta
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)
