"""The size of bets on a part of a batch: stake and slope by past z, ratio of variances, and need.

What is still needed, l, is a conditional level e^-l for the rest of the batch. The payoff wanted at its end, of the
standardised rest Z, is f(Z) = B = e^l from y on, and c e_mix(Z) below, with E_0 f = 1 for a normal Z: a test of that
level, and what misses it stays as evidence. y is where X c e_mix(y) = B. With lam = E_0[f Z] and gam = E_0[f (Z^2-1)]
a stake pi = lam^2/gam on one drift lam/pi has the same first two sensitivities: parts replicate f (docs/wager.md).

None of this matters for validity: any stake in [0, 1] and any slope >= 0 make a fair bet (Lemma 1). So a table will do.
`bet_sizes.u2` has lam and pi for each X on a coarse grid, as fixed-point numbers whose means are exact in binary: the
refined table has the same bits on every machine. `python -m roundwise.rules.eprocess.bet_sizes` writes it anew
(`nodes` takes less than a second, and a test compares).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

JUMPS = {0: 4.0, -1: 1.5, 1: 12.0}  # X: the dearer a further batch, the more is given up for reaching B in this one
SUREST = 4.0  # drifts of the rest beyond this many standard errors count as that: f would wait for them, and not bet
LEAST = 0.001  # of the stake in cash, and on the drift, at least
BOLDEST_PART = 30.0  # q of a part never above this

_Z, _RATIO, _NEED = (-3.0, 10.0, 0.5), (-8.0, 5.0, 0.5), (0.0, 5.0, 0.25)  # first, last, step of z, log2, square root
_FINER = (4, 2, 4)  # nodes of the refined table to one of the coarse
_UNIT = (2.0**-12, 2.0**-16)  # of lam and pi
_FILE = "bet_sizes.u2"

Z_STEPS, RATIO_STEPS, NEED_STEPS = 8, 4, 16  # to one unit, refined
SHAPE = (105, 53, 81)
LEAST_RATIO = 2.0**-8


# The mixture of drifts. A drift is u standard errors of the past estimate. The prior is log-uniform (density 1/u) on
# [0.2, 44], in 20 cells; the posterior weight of the wrong-signed half is kept in cash, and 2 % of the stake always is.
# Cells: nearly equal width below 4 (the posterior has width 1), nearly geometric above. 20 of them grow as fast as 500:
# the loss in E log e is below 0.005 where u0 <= 8 and n_new <= 2 N_past. Each drift is the prior mean of its cell.
_EDGES = 4.0 * np.sinh(np.linspace(np.arcsinh(0.2 / 4.0), np.arcsinh(44.0 / 4.0), 21))
DRIFTS: Floats = np.diff(_EDGES) / np.diff(np.log(_EDGES))  # u_k
_LOG_PRIOR: Floats = np.log(np.diff(np.log(_EDGES))) - DRIFTS**2 / 2  # of w_k, without the factor exp(u_k x)
_CASH_FLOOR = 0.02


def log_stakes(z: Floats) -> Floats:
    """log of the cash, and of the stake on each drift, given the past z. (1 + k, n)"""
    right, wrong = (_LOG_PRIOR[:, None] + DRIFTS[:, None] * each for each in (z, -z))
    for_right = np.logaddexp.reduce(right, axis=0)
    every = np.logaddexp(for_right, np.logaddexp.reduce(wrong, axis=0))
    cash = 1.0 - (1.0 - _CASH_FLOOR) * np.exp(for_right - every)
    return np.concatenate([np.log(cash)[None], right + (np.log1p(-_CASH_FLOOR) - every)])


class Slopes(NamedTuple):
    """A refined table, flat: the slope lam/pi and the stake pi."""

    slope: NDArray[np.float32]
    stake: NDArray[np.float32]


@lru_cache(maxsize=len(JUMPS))
def slopes(jump: int = 0) -> Slopes:
    """The table of one X, read and refined at its first use."""
    coarse = shipped()[list(JUMPS).index(jump)].astype(np.float64)
    lam, stake = (_refined(each * unit) for each, unit in zip(coarse, _UNIT, strict=True))
    stake = np.clip(stake, LEAST, 1.0 - LEAST)
    return Slopes((lam / stake).astype(np.float32).reshape(-1), stake.astype(np.float32).reshape(-1))


def shipped() -> NDArray[np.uint16]:
    """The coarse tables as they are in the package. (3, 2, 27, 27, 21)"""
    return np.frombuffer(files(__package__).joinpath(_FILE).read_bytes(), dtype="<u2").reshape(-1, 2, 27, 27, 21)


def _refined(nodes: Floats) -> Floats:
    """Linear between the nodes, by halving: exact for fixed-point numbers."""
    for axis, finer in enumerate(_FINER):
        while finer > 1:
            nodes = np.moveaxis(nodes, axis, 0)
            found = np.empty((2 * len(nodes) - 1, *nodes.shape[1:]))
            found[::2] = nodes
            found[1::2] = (nodes[1:] + nodes[:-1]) / 2
            nodes, finer = np.moveaxis(found, 0, axis), finer // 2
    return nodes


def nodes(jump: float) -> NDArray[np.uint16]:
    """A coarse table: lam and pi as fixed-point numbers. (2, 27, 27, 21)"""
    z, place, root = (np.arange(first, last + step / 2, step) for first, last, step in (_Z, _RATIO, _NEED))
    whole = np.floor(place)
    ratio = 2.0**whole * (1.0 + place - whole)  # piecewise linear in log2, as the bits of a float are
    grid = np.meshgrid(z, ratio, np.maximum(root, 0.1) ** 2, indexing="ij")
    flat_z, flat_ratio, flat_need = (each.reshape(-1) for each in grid)
    lam, stake = replicated(flat_z, flat_ratio, flat_need, jump)
    fixed = [np.clip(np.rint(each / unit), 0, 65535) for each, unit in zip((lam, stake), _UNIT, strict=True)]
    return np.stack(fixed).astype(np.uint16).reshape(2, *grid[0].shape)


def replicated(z: Floats, ratio: Floats, need: Floats, jump: float) -> tuple[Floats, Floats]:
    """lam and pi of the payoff f, given past z, past variance over that of the rest, and what is needed."""
    from scipy.special import ndtr, ndtri

    log_w = log_stakes(z)
    w = np.exp(log_w)
    q = np.stack([np.zeros_like(z), *(np.minimum(u * np.sqrt(ratio), SUREST) for u in DRIFTS)])
    bar = np.exp(need)
    low, high = -ndtri(np.exp(-need)), ((need - log_w[1:]) / q[1:] + q[1:] / 2).min(axis=0)

    def multiple(y: Floats) -> Floats:
        return (1.0 - bar * ndtr(-y)) / (w * ndtr(y - q)).sum(axis=0)

    for _ in range(60):
        y = (low + high) / 2
        short = jump * multiple(y) * np.exp(log_w + q * (y - q / 2)).sum(axis=0) < bar
        low, high = np.where(short, y, low), np.where(short, high, y)
    y = (low + high) / 2
    c = multiple(y)
    density, beside = (np.exp(-(each**2) / 2) / np.sqrt(2 * np.pi) for each in (y, y - q))
    lam = bar * density + c * (w * (q * ndtr(y - q) - beside)).sum(axis=0)
    gam = bar * y * density + c * (w * (q * q * ndtr(y - q) - (y + q) * beside)).sum(axis=0)
    lam = np.maximum(lam, 0.0)
    return lam, np.where(gam > lam**2, lam**2 / np.where(gam > lam**2, gam, 1.0), 1.0)


if __name__ == "__main__":
    with open(__file__.replace("bet_sizes.py", _FILE), "wb") as to:
        to.write(np.stack([nodes(jump) for jump in JUMPS.values()]).astype("<u2").tobytes())
