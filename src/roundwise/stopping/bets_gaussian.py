"""Bets on a linear contrast of batch means: sub-Gaussian, exactly Gaussian, Gaussian of unknown variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .bets_mixture import (
    BOLDEST,
    DRIFTS,
    Array,
    Mask,
    cash_and_scale,
    clipped_z,
    flat,
    log_gaussian_mixture,
    log_stake,
    log_total,
)

_HUGE = 1e150  # new z beyond this count as this; larger ones would overflow when multiplied
_MOST_NEED = 600.0  # above it a bet is not capped: exp(need) must stay far from overflow
_SLACK = 1e-10  # by how much log E_0 e must stay below 0, far above the rounding of its computation (1e-12)
_AIM = 1e-4  # ... and where the search for c stops: what is lost is a factor exp(-1e-4)
_NODES = 8  # of the quadrature of the t bet


def _usable(*variances: Array) -> Mask:
    good = np.ones(variances[0].shape, dtype=np.bool_)
    for variance in variances:
        good &= (variance > 0) & (variance < np.inf)
    return good


def _standardised(
    estimate: Array, past_variance: Array, difference: Array, variance: Array
) -> tuple[Mask, Array, Array, Array]:
    good = _usable(past_variance, variance) & np.isfinite(estimate) & ~np.isnan(difference)
    past_variance, variance = np.where(good, past_variance, 1.0), np.where(good, variance, 1.0)
    z = clipped_z(np.where(good, estimate, 0.0), past_variance)
    ratio = np.sqrt(past_variance) / np.sqrt(variance)
    new_z = np.clip(np.where(good, difference, 0.0) / np.sqrt(variance), -_HUGE, _HUGE)
    return good, z, ratio, new_z


@np.errstate(all="ignore")
def sub_gaussian_bet(
    past_estimate: ArrayLike, past_variance: ArrayLike, difference: ArrayLike, variance: ArrayLike
) -> Array:
    """The log e-value of one batch against "the mean of the difference is at most 0" (WAGER.md, Lemma 1 and section 2).

    Both variances include sigma squared; 0.0 where there is no past or no new data. `(),(),(),()->()`
    """
    shape, (estimate, past, new, var) = flat(past_estimate, past_variance, difference, variance)
    good, z, ratio, new_z = _standardised(estimate, past, new, var)
    return np.where(good, log_gaussian_mixture(z, ratio, new_z), 0.0).reshape(shape)


@np.errstate(all="ignore")
def capped_gaussian_bet(
    past_estimate: ArrayLike,
    past_variance: ArrayLike,
    difference: ArrayLike,
    variance: ArrayLike,
    need: ArrayLike,
) -> Array:
    """The same for an exactly Gaussian difference of known variance: min(c e_mix, exp(need)), c >= 1 (section 6).

    `need` is log(1/delta) minus the log evidence so far. The result equals `need` exactly where the cap is reached:
    reject on `bet >= need`, because evidence + need may round to just below log(1/delta). `(),(),(),(),()->()`
    """
    shape, (estimate, past, new, var, cap) = flat(past_estimate, past_variance, difference, variance, need)
    good, z, ratio, new_z = _standardised(estimate, past, new, var)
    mixture = log_gaussian_mixture(z, ratio, new_z)
    capped = good & (cap > 0) & (cap < _MOST_NEED)
    log_c = np.zeros_like(z)
    log_c[capped] = _log_multiplier(z[capped], ratio[capped], cap[capped])
    return np.where(capped, np.minimum(mixture + log_c, cap), np.where(good, mixture, 0.0)).reshape(shape)


def _log_multiplier(z: Array, ratio: Array, need: Array) -> Array:
    """log c >= 0 with E_0 min(c e_mix, exp(need)) <= 1, as a function of the past alone.

    In terms of the place y at which the cap is reached, c = exp(need) / e_mix(y) and
    E_0 = exp(need) (sum_k w_k Phi(y - q_k) / e_mix(y) + Phi(-y)), which falls in y: search the smallest safe y.
    """
    from scipy.special import ndtri

    cash, log_scale = cash_and_scale(z)
    log_w = np.stack([np.log(cash), *(log_stake(k, z) + log_scale for k in range(DRIFTS.size))])
    q = np.stack([np.zeros_like(z), *(np.minimum(u * ratio, BOLDEST) for u in DRIFTS)])
    # E_0 >= 1 at the low end (the cap alone weighs 1); c <= 1 at the high end (one drift alone reaches the cap)
    low = -ndtri(np.exp(-need))
    high = ((need - log_w[1:]) / q[1:] + q[1:] / 2).min(axis=0)
    log_c = np.zeros_like(z)
    left = np.flatnonzero(np.isfinite(high) & (low < high))
    low, high, log_w, q, need = low[left], high[left], log_w[:, left], q[:, left], need[left]
    y = low + np.minimum(0.1, 0.5 * (high - low))
    for _ in range(60):
        if not left.size:
            break
        log_mean, log_e, slope = _log_capped_mean(y, log_w, q, need)
        safe = log_mean <= -_SLACK
        # any safe y gives a valid c; each is at least as good as the one before, because y only falls
        log_c[left[safe]] = np.maximum(need[safe] - log_e[safe], log_c[left[safe]])
        low, high = np.where(safe, low, y), np.where(safe, y, high)
        open_ = ~(safe & (log_mean >= -_AIM)) & (high - low > 1e-9 * (1.0 + high))
        step = y + (log_mean + _AIM / 2) / slope
        y = np.where((step > low) & (step < high), step, (low + high) / 2)
        left, y, low, high, need = left[open_], y[open_], low[open_], high[open_], need[open_]
        log_w, q = log_w[:, open_], q[:, open_]
    return log_c


def _log_capped_mean(y: Array, log_w: Array, q: Array, need: Array) -> tuple[Array, Array, Array]:
    """log E_0 of the bet whose cap is reached at y, log e_mix(y), and minus the slope of the former in y."""
    from scipy.special import ndtr

    gain = q * (y - q / 2)
    log_e = log_total(log_w + gain)
    stake = np.exp(np.maximum(log_w - log_e, -700.0))  # of each drift, in units of e_mix(y)
    share = np.exp(np.maximum(log_w - log_e + gain, -700.0))
    inside, tilt = np.zeros_like(y), np.zeros_like(y)
    for k in range(q.shape[0]):
        inside += stake[k] * ndtr(y - q[k])
        tilt += share[k] * q[k]
    mean = inside + ndtr(-y)
    return np.log(mean) + need, log_e, inside / mean * tilt


@np.errstate(all="ignore")
def student_bet(
    past_estimate: ArrayLike,
    past_sigma2: ArrayLike,
    past_leverage: ArrayLike,
    difference: ArrayLike,
    sigma2: ArrayLike,
    leverage: ArrayLike,
    dof: ArrayLike,
) -> Array:
    """The same for Gaussian rewards of unknown common variance, from the batch's own t statistic (WAGER.md, section 7).

    `past_sigma2` is an estimate from past data only, `sigma2` the pooled variance within the arms of the new batch with
    `dof` degrees of freedom; leverage is sum u_j^2/n_j. 0.0 without degrees of freedom or variance. `(),...->()`

    The likelihood ratio of the noncentral t averages exp(q rho X - q^2/2) over X ~ chi(dof + 1). A Gauss-Laguerre rule
    for X^2/2 takes the place of that average: it errs on the safe side whatever its number of nodes (docs, t bets).
    """
    shape, (estimate, past_s2, past_h, new, s2, h, nu) = flat(
        past_estimate, past_sigma2, past_leverage, difference, sigma2, leverage, dof
    )
    good, z, ratio, _ = _standardised(estimate, past_s2 * past_h, new, past_s2 * h)
    good &= _usable(past_s2, past_h, s2, h) & np.isfinite(new) & (nu >= 1) & (nu < np.inf)
    nu, h, s2 = np.where(good, nu, 1.0), np.where(good, h, 1.0), np.where(good, s2, 1.0)
    t = np.clip(np.where(good, new, 0.0) / np.sqrt(s2) / np.sqrt(h), -_HUGE, _HUGE)
    rho = t / np.hypot(np.sqrt(nu), t)
    distinct, which = np.unique(nu, return_inverse=True)
    nodes, log_weights = _chi_rule(distinct)
    rows = np.empty((_NODES, z.size))
    for i in range(_NODES):
        rows[i] = log_weights[which, i] + log_gaussian_mixture(z, ratio, rho * nodes[which, i])
    return np.where(good, log_total(rows), 0.0).reshape(shape)


def _chi_rule(dof: Array) -> tuple[Array, Array]:
    """Nodes x and log weights, on a last axis, of the Gauss rule for X^2/2 ~ Gamma((dof + 1)/2), X ~ chi(dof + 1).

    Golub and Welsch (1969) for the nodes, in the standardised variable (X^2/2 - shape)/sqrt(shape), so that it tends to
    Gauss-Hermite; Christoffel numbers for the weights, whose small values eigenvectors would get wrong.
    """
    shape = (dof + 1.0)[:, None] / 2.0  # alpha + 1
    k = np.arange(_NODES)
    diagonal = 2.0 * k / np.sqrt(shape)
    beside = np.sqrt(k[1:] * (1.0 + (k[1:] - 1) / shape))
    jacobi = np.zeros((dof.size, _NODES, _NODES))
    jacobi[:, k, k] = diagonal
    jacobi[:, k[1:], k[:-1]] = jacobi[:, k[:-1], k[1:]] = beside
    place = np.linalg.eigvalsh(jacobi)
    before, now, total = np.zeros_like(place), np.ones_like(place), np.ones_like(place)
    for j in range(_NODES - 1):
        past = beside[:, j - 1, None] if j else 0.0
        before, now = now, ((place - diagonal[:, j, None]) * now - past * before) / beside[:, j, None]
        total += now * now
    nodes = np.sqrt(2.0 * np.maximum(shape + np.sqrt(shape) * place, 0.0))
    return nodes, -np.log(total)
