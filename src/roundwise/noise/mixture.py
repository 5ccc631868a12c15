"""The mixture all bets share: how a batch's stake is spread over drifts, from past data only (Lemma 1).

A drift is u standard errors of the past estimate. The prior is log-uniform (density 1/u) on [0.2, 44], in 20 cells;
the posterior weight of the wrong-signed half is kept in cash, and 2 % of the stake always is.
Whatever is done here to past data only (rounding, clipping, tables) cannot cost validity as long as the stakes sum
to at most 1: see docs/why-the-guarantee-holds.md, Lemma 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats

# Cells: nearly equal width below 4 (the posterior has width 1), nearly geometric above. 20 of them grow as fast as 500:
# the loss in E log e is below 0.005 where u0 <= 8 and n_new <= 2 N_past. Each drift is the prior mean of its cell.
_EDGES = 4.0 * np.sinh(np.linspace(np.arcsinh(0.2 / 4.0), np.arcsinh(44.0 / 4.0), 21))
DRIFTS: Floats = np.diff(_EDGES) / np.diff(np.log(_EDGES))  # u_k
_LOG_PRIOR: Floats = np.log(np.diff(np.log(_EDGES))) - DRIFTS**2 / 2  # of w_k, without the factor exp(u_k x)

CASH_FLOOR = 0.02
EDGE = 0.95  # share of the way to a factor of 0 that a bet on counts or bounded values may go
HUGE = 1e150  # standardised values beyond this count as this; larger ones would overflow when multiplied

_FAR = 60.0  # past z beyond this are treated as this: all the weight is on the last cell already
_STEPS = 128  # table entries per unit of z


def _tables() -> tuple[Floats, Floats]:
    z = np.arange(-_FAR * _STEPS, _FAR * _STEPS + 1) / _STEPS
    right = np.logaddexp.reduce(_LOG_PRIOR[:, None] + DRIFTS[:, None] * z, axis=0)
    return right, np.logaddexp(right, right[::-1])


# log sum_k w_k^+ and log Z at past z. Both are convex in z, so a chord lies above them: stakes divided by the
# interpolated Z never sum to more than they should.
_LOG_RIGHT, _LOG_Z = _tables()


def flat(*inputs: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
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


def log_stake(drift: int, z: Floats) -> Floats:
    """The log stake on one drift at past z, up to the scale."""
    return z * float(DRIFTS[drift]) + float(_LOG_PRIOR[drift])
