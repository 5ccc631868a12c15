"""What the bets of all noise models share: which forms of the means they are placed on, and limits of their sizes.

The functions `..._bet` are elementwise over any shape, never NaN, and 0.0 (no bet) where a bet is impossible.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, zeros
from roundwise.model.batch import Batch
from roundwise.solvers.halfspaces import Halfspaces

EDGE = 0.95  # share of the way to a factor of 0 that a bet on counts or bounded values may go
HUGE = 1e150  # standardized values beyond this count as this; larger ones would overflow when multiplied
MOST = 1e100  # there is no bet on values above this, or below its inverse: products would overflow


def flatten(*inputs: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the inputs, and each of them broadcast to it as a contiguous vector."""
    arrays = np.broadcast_arrays(*[np.asarray(a, dtype=np.float64) for a in inputs])
    return arrays[0].shape, [np.ascontiguousarray(a).reshape(-1) for a in arrays]


def means_and_inverse_counts(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results. (K), (K)"""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


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
