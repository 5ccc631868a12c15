"""Bets on a linear contrast of batch means: sub-Gaussian, exactly Gaussian, Gaussian of unknown variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .bets_mixture import (
    BOLDEST,
    DRIFTS,
    Array,
    Mask,
    added,
    cash_and_scale,
    clipped_z,
    flat,
    log_gaussian_mixture,
    log_stake,
    log_total,
)

_HUGE = 1e150  # new z beyond this count as this; larger ones would overflow when multiplied
_MOST_NEED = 600.0  # above it a bet is not capped: exp(need) must stay far from overflow
_SLACK = 1e-10  # by how much E_0 e stays below 1 at least, far above the rounding of its computation (1e-12)
_ROUGH = (
    0.2  # the step in log e_mix after which the search for the best cap stops: for needs of 0.1 or more, log c then
)
# lacks 1e-3 at most; for smaller ones it may lack more, which is no matter, because next to nothing is to be won
_BLOCK = 4096  # elements worked on at a time, so that they stay in the cache
NODES = 8  # of the quadrature of the t bet
BOLD = 1.4  # q is at most this times sqrt(dof + 1) there: a bolder bet would lose even if the difference is huge


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
    """The log e-value of one batch against "the mean of the difference is at most 0" (Lemma 1 of the proofs).

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
    """The same for an exactly Gaussian difference of known variance: min(c e_mix, exp(need)), c >= 1.

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

    Count c e_mix below any place y and the cap beyond it: E_0 <= c sum_k w_k Phi(y - q_k) + exp(need) Phi(-y). Hence
    every y gives a valid c = (1 - exp(need) Phi(-y)) / sum_k w_k Phi(y - q_k). The largest is at the y where c e_mix(y)
    meets the cap. Newton's method seeks it; as c is flat there, a rough y loses next to nothing.
    """
    log_c = np.empty_like(z)
    for start in range(0, z.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        log_c[block] = _log_multiplier_of_block(z[block], ratio[block], need[block])
    return log_c


def _log_multiplier_of_block(z: Array, ratio: Array, need: Array) -> Array:
    from scipy.special import ndtr, ndtri

    cash, log_scale = cash_and_scale(z)
    log_w = np.stack([np.log(cash), *(log_stake(k, z) + log_scale for k in range(DRIFTS.size))])
    w = np.exp(np.maximum(log_w, -700.0))
    q = np.stack([np.zeros_like(z), *(np.minimum(u * ratio, BOLDEST) for u in DRIFTS)])
    # the cap alone weighs 1 at the low end; at the high end one drift alone reaches it, so c <= 1
    low = -ndtri(np.exp(-need))
    high = ((need - log_w[1:]) / q[1:] + q[1:] / 2).min(axis=0)
    y = _first_guess(low, high)
    log_c = np.zeros_like(z)
    step = np.full_like(z, np.inf)
    left = np.arange(z.size)
    going = np.isfinite(high) & (low < high)
    for _ in range(60):
        if not going.all():
            left, y, low, high, need = left[going], y[going], low[going], high[going], need[going]
            log_w, w, q, step = log_w[:, going], w[:, going], q[:, going], step[going]
        if not left.size:
            break
        found = np.log((1.0 - _SLACK - np.exp(need) * ndtr(-y)) / added(w * ndtr(y - q)))
        log_c[left] = np.fmax(log_c[left], found)
        going = ~(np.abs(step) < _ROUGH)
        if not going.any():
            break
        stakes = np.exp(np.maximum(log_w + q * (y - q / 2), -700.0))
        e_mix = added(stakes)
        step = need - np.log(e_mix) - found  # in log e_mix, to where c e_mix meets the cap
        low, high = np.where(step < 0, low, y), np.where(step < 0, y, high)
        y = y + step * e_mix / added(stakes * q)
        y = np.where((y > low) & (y < high), y, (low + high) / 2)
    return log_c


def _first_guess(low: Array, high: Array) -> Array:
    """Where the cap may be met: fitted to simulated studies, good to about 0.05 there."""
    width = high - low
    part = 1.54 - 0.723 / width - 0.87 / (1.0 + np.maximum(low, 0.0)) - 0.111 * np.log(width)
    return low + width * np.clip(part, 0.05, 0.98)


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
    """The same for Gaussian rewards of unknown common variance, from the batch's own t statistic.

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
    nodes, log_weights = chi_rule(distinct)
    rows, boldest = np.empty((NODES, z.size)), BOLD * np.sqrt(nu + 1.0)
    for i in range(NODES):
        rows[i] = log_weights[which, i] + log_gaussian_mixture(z, ratio, rho * nodes[which, i], boldest)
    return np.where(good, log_total(rows), 0.0).reshape(shape)


def chi_rule(dof: Array) -> tuple[Array, Array]:
    """Nodes x and log weights, on a last axis, of the Gauss rule for X^2/2 ~ Gamma((dof + 1)/2), X ~ chi(dof + 1).

    Golub and Welsch (1969) for the nodes, in the standardised variable (X^2/2 - shape)/sqrt(shape), so that it tends to
    Gauss-Hermite; Christoffel numbers for the weights, whose small values eigenvectors would get wrong.
    """
    shape = (dof + 1.0)[:, None] / 2.0  # alpha + 1
    k = np.arange(NODES)
    diagonal = 2.0 * k / np.sqrt(shape)
    beside = np.sqrt(k[1:] * (1.0 + (k[1:] - 1) / shape))
    jacobi = np.zeros((dof.size, NODES, NODES))
    jacobi[:, k, k] = diagonal
    jacobi[:, k[1:], k[:-1]] = jacobi[:, k[:-1], k[1:]] = beside
    place = np.linalg.eigvalsh(jacobi)
    before, now, total = np.zeros_like(place), np.ones_like(place), np.ones_like(place)
    for j in range(NODES - 1):
        past = beside[:, j - 1, None] if j else 0.0
        before, now = now, ((place - diagonal[:, j, None]) * now - past * before) / beside[:, j, None]
        total += now * now
    nodes = np.sqrt(2.0 * np.maximum(shape + np.sqrt(shape) * place, 0.0))
    return nodes, -np.log(total)
