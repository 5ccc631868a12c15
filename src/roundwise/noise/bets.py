"""What the bets of all noise models share: the mixture of drifts, and what a bet is bet_where_needed on.

A drift is u standard errors of the past estimate. The prior is log-uniform (density 1/u) on [0.2, 44], in 20 cells;
the posterior weight of the wrong-signed half is kept in cash, and 2 % of the stake always is.
Rounding, clipping and tables that depend on past data alone cannot cost validity as long as the stakes sum to at
most 1: see docs/why-the-guarantee-holds.md, Lemma 1.

The functions `..._bet` are elementwise over any shape, never NaN, and 0.0 (no bet) where a bet is impossible. Their
arguments `past_...` may depend on everything seen before the batch, but on nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, log_sum_exp, zeros
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, FormEstimate, Past, arm_of, form_values, form_variances
from roundwise.questions.base import Halfspaces, quiet

# Cells: nearly equal width below 4 (the posterior has width 1), nearly geometric above. 20 of them grow as fast as 500:
# the loss in E log e is below 0.005 where u0 <= 8 and n_new <= 2 N_past. Each drift is the prior mean of its cell.
_EDGES = 4.0 * np.sinh(np.linspace(np.arcsinh(0.2 / 4.0), np.arcsinh(44.0 / 4.0), 21))
DRIFTS: Floats = np.diff(_EDGES) / np.diff(np.log(_EDGES))  # u_k
_LOG_PRIOR: Floats = np.log(np.diff(np.log(_EDGES))) - DRIFTS**2 / 2  # of w_k, without the factor exp(u_k x)

CASH_FLOOR = 0.02
BOLDEST = 64.0  # q_k never above this: a bet of 2048 nats is enough, and larger ones only lose digits
EDGE = 0.95  # share of the way to a factor of 0 that a bet on counts or bounded values may go
HUGE = 1e150  # standardize values beyond this count as this; larger ones would overflow when multiplied

MOST = 1e100  # there is no bet on values above this, or below its inverse: products would overflow

_FAR = 60.0  # past z beyond this are treated as this: all the weight is on the last cell already
_STEPS = 128  # table entries per unit of z
_BLOCK = 16384  # elements worked on at a time, so that the grid takes a few megabytes at most


def _tables() -> tuple[Floats, Floats]:
    z = np.arange(-_FAR * _STEPS, _FAR * _STEPS + 1) / _STEPS
    right = np.logaddexp.reduce(_LOG_PRIOR[:, None] + DRIFTS[:, None] * z, axis=0)
    return right, np.logaddexp(right, right[::-1])


# log sum_k w_k^+ and log Z at past z. Both are convex in z, so a chord lies above them: stakes divided by the
# interpolated Z never sum to more than they should.
_LOG_RIGHT, _LOG_Z = _tables()


def flatten(*inputs: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the inputs, and each of them broadcast to it as a contiguous vector."""
    arrays = np.broadcast_arrays(*[np.asarray(a, dtype=np.float64) for a in inputs])
    return arrays[0].shape, [np.ascontiguousarray(a).reshape(-1) for a in arrays]


def cash_and_scale(z: Floats) -> tuple[Floats, Floats]:
    """Cash, and log scale such that drift k is staked exp(log scale + log_stake(k)), given the past z."""
    place = (z + _FAR) * _STEPS
    left = np.minimum(place.astype(np.intp), _LOG_Z.size - 2)
    part = place - left
    log_z = _LOG_Z[left] + part * (_LOG_Z[left + 1] - _LOG_Z[left])
    log_right = _LOG_RIGHT[left] + part * (_LOG_RIGHT[left + 1] - _LOG_RIGHT[left])
    at_risk = (1.0 - CASH_FLOOR) * np.exp(np.minimum(log_right - log_z, 0.0))
    return 1.0 - at_risk, np.log1p(-CASH_FLOOR) - log_z


def clipped_z(estimate: Floats, variance: Floats) -> Floats:
    """The past z: estimate over standard error, within the table."""
    return np.clip(estimate / np.sqrt(variance), -_FAR, _FAR)


def log_stake(drift: int, z: Floats) -> Floats:
    """The log stake on one drift at past z, up to the scale."""
    return z * float(DRIFTS[drift]) + float(_LOG_PRIOR[drift])


def log_mixture(z: Floats, log_factors: Floats) -> Floats:
    """log of cash + sum_k w_k factor_k for log factors with the drifts on the first axis."""
    cash, log_scale = cash_and_scale(z)
    rows = np.empty((DRIFTS.size + 1, z.size))
    rows[0] = np.log(cash)
    for k in range(DRIFTS.size):
        rows[k + 1] = log_factors[k] + (log_stake(k, z) + log_scale)
    return log_sum_exp(rows)


def log_gaussian_mixture(z: Floats, ratio: Floats, new_z: Floats, boldest: Floats | None = None) -> Floats:
    """log of cash + sum_k w_k exp(q_k new_z - q_k^2/2), q_k = u_k ratio, ratio = sqrt(past variance / new variance)."""
    out = np.empty_like(z)
    cash, log_scale = cash_and_scale(z)
    log_cash = np.log(cash) - log_scale
    rows = np.empty((DRIFTS.size + 1, min(_BLOCK, z.size)))
    work = np.empty((DRIFTS.size, min(_BLOCK, z.size)))
    u, log_prior = DRIFTS[:, None], _LOG_PRIOR[:, None]
    for start in range(0, z.size, _BLOCK):
        piece = slice(start, min(start + _BLOCK, z.size))
        size = piece.stop - start
        row, q = rows[:, :size], work[:, :size]
        np.multiply(u, ratio[piece], out=q)
        np.minimum(q, BOLDEST if boldest is None else np.minimum(boldest[piece], BOLDEST), out=q)
        bets = row[1:]
        np.multiply(q, -0.5, out=bets)
        bets += new_z[piece]
        bets *= q
        np.multiply(u, z[piece], out=q)
        q += log_prior
        bets += q
        row[0] = log_cash[piece]
        out[piece] = log_sum_exp(row)
    return out + log_scale


def means_and_inverse_counts(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results. (K), (K)"""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


def form_statistics(batch: Batch, forecast: FormEstimate) -> tuple[Floats, Floats, Floats, Floats]:
    """Each form less its offset and its variance per unit of sigma^2, in the past; the same in the batch. (P) each"""
    means, spread = means_and_inverse_counts(batch)
    pieces = forecast.pieces
    return (
        forecast.value,
        forecast.leverage,
        form_values(means, pieces) - pieces.offsets,
        form_variances(spread, pieces),
    )


@quiet
def level_statistics(
    known: Estimates, batch: Batch, level: Floats | float, above: Bools
) -> tuple[Floats, Floats, Floats, Floats]:
    """The same for the distance of each arm's mean from a level. (K) each"""
    sign = np.where(above, 1.0, -1.0)
    means, spread = means_and_inverse_counts(batch)
    return sign * (known.past.means - level), 1.0 / known.past.counts, sign * (means - level), spread


def is_pair(pieces: Halfspaces) -> Bools:
    """Which pieces say that their first arm exceeds their second by the offset, and nothing else. (P)"""
    if pieces.pairs:
        return np.ones(pieces.offsets.shape, dtype=np.bool_)
    factors = pieces.coefficients
    if factors.shape[-1] < 2:
        return np.zeros(factors.shape[:-1], dtype=np.bool_)
    return (factors[..., 0] == 1) & (factors[..., 1] == -1) & (factors[..., 2:] == 0).all(axis=-1)


def single_arms(pieces: Halfspaces) -> tuple[Bools, NDArray[np.intp], Floats]:
    """Which pieces are about one arm only, and of each piece the arm that counts most and its factor. (P)"""
    factors = pieces.coefficients
    here = np.abs(factors).argmax(axis=-1)[..., None]
    arm = np.take_along_axis(pieces.arms, here, axis=-1)[..., 0]
    factor = np.take_along_axis(factors, here, axis=-1)[..., 0]
    return np.asarray((factors != 0).sum(axis=-1) == 1), arm, factor


def pair_sums(past: Past, batch: Batch, pieces: Halfspaces) -> list[Floats]:
    """Total and count of the first arm of each piece, then of the second: of the past, then of the batch. (P) each"""
    each = (past.totals, past.counts), (batch.totals, batch.counts)
    return [arm_of(values, pieces, s) for sums in each for s in (0, 1) for values in sums]


def take_arm(values: Floats, arm: NDArray[np.intp]) -> Floats:
    """The values of one arm of each piece. (K)->(P)"""
    runs = np.broadcast_shapes(values.shape[:-1], arm.shape[:-1])
    values, arm = np.broadcast_to(values, (*runs, values.shape[-1])), np.broadcast_to(arm, (*runs, arm.shape[-1]))
    return np.take_along_axis(values, arm, axis=-1)


def bet_where_needed(bet: Callable[..., Floats], need: Floats, *inputs: Floats | Bools) -> Floats:
    """The bet where `need` is positive, 0 elsewhere: bets are elementwise, so only those are computed."""
    wanted = (need > 0).transpose()  # runs are contiguous, so the transpose is faster to pick from
    logs = zeros(need.shape)
    if wanted.any():
        logs.transpose()[wanted] = bet(*(np.broadcast_to(each, need.shape).transpose()[wanted] for each in inputs))
    return logs


def where_sized(sizes: Floats, logs: Callable[[Floats], Floats]) -> Floats:
    """The log factors of bets whose size is positive and finite, 0 elsewhere."""
    good = np.isfinite(sizes) & (sizes > 0)
    return np.where(good, logs(np.where(good, sizes, 0.0)), 0.0)


def in_range(*counts: Floats, least: float = 1 / MOST, most: float = MOST) -> Bools:
    """Where all counts (exposures, levels, variances) are positive and cannot overflow."""
    good = np.ones(counts[0].shape, dtype=np.bool_)
    for count in counts:
        good &= (count > least) & (count < most)
    return good


def valid_totals(good: Bools, *totals: Floats) -> Bools:
    """Where `good`, and no total is negative or can overflow."""
    for each in totals:
        good = good & (each >= 0) & (each < MOST)
    return good


def common_mean(past_a: Floats, n_past_a: Floats, past_b: Floats, n_past_b: Floats, n_a: Floats, n_b: Floats) -> Floats:
    """A guess at the common mean under the null: past means, half a success in all added, weighted as the new batch is.

    With these weights the drift that equals the true difference bets exactly on the true rates.
    """
    half = 0.5 / (n_past_a + n_past_b)
    mean_a = (past_a / n_past_a + half) / (1.0 + half + half)
    mean_b = (past_b / n_past_b + half) / (1.0 + half + half)
    return np.minimum(mean_a * (n_a / (n_a + n_b)) + mean_b * (n_b / (n_a + n_b)), 1.0 - 1e-12)


def split_mean(m: Floats, margin: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Centres of the two arms, the margin apart, whose average weighted as the new batch is stays near m."""
    m_b = np.clip(m - down * margin, np.maximum(0.0, -margin), np.minimum(1.0, 1.0 - margin))
    return m_b + margin, m_b


@np.errstate(all="ignore")
def log_factor_of_size(sizes: Floats, new: Floats, error: Floats) -> Floats:
    """exp(q z - q^2/2), z = new / error: `new` is sub-Gaussian, less the value. `(k),(),()->(k)`"""
    return where_sized(sizes, lambda q: q * (np.clip(new / error, -HUGE, HUGE) - q / 2))


def standardize(
    estimate: Floats, past_variance: Floats, difference: Floats, variance: Floats
) -> tuple[Bools, Floats, Floats, Floats]:
    """Where there is something to bet on, past z, sqrt(past variance / new variance), and new z."""
    good = in_range(past_variance, variance, least=0.0, most=np.inf) & np.isfinite(estimate) & ~np.isnan(difference)
    past_variance, variance = np.where(good, past_variance, 1.0), np.where(good, variance, 1.0)
    z = clipped_z(np.where(good, estimate, 0.0), past_variance)
    ratio = np.sqrt(past_variance) / np.sqrt(variance)
    new_z = np.clip(np.where(good, difference, 0.0) / np.sqrt(variance), -HUGE, HUGE)
    return good, z, ratio, new_z


@np.errstate(all="ignore")
def sub_gaussian_bet(
    past_estimate: ArrayLike, past_variance: ArrayLike, difference: ArrayLike, variance: ArrayLike
) -> Floats:
    """The log e-value of one batch against "the mean of the difference is at most 0" (Lemma 1).

    Both variances include sigma squared; 0.0 where there is no past or no new data. `(),(),(),()->()`
    """
    shape, (estimate, past, new, var) = flatten(past_estimate, past_variance, difference, variance)
    good, z, ratio, new_z = standardize(estimate, past, new, var)
    return np.where(good, log_gaussian_mixture(z, ratio, new_z), 0.0).reshape(shape)
