"""The size of bets on a part of a batch: stake and slope by past z, ratio of variances, and need.

What is still needed, l, is a conditional level e^-l for the rest of the batch. The payoff wanted at its end, of the
standardised rest Z, is f(Z) = B = e^l from y on, and c e_mix(Z) below, with E_0 f = 1 for a normal Z: a test of that
level, and what misses it stays as evidence. y is where X c e_mix(y) = B. With lam = E_0[f Z] and gam = E_0[f (Z^2-1)]
a stake pi = lam^2/gam on one drift lam/pi has the same first two sensitivities: parts replicate f (docs/wager.md).

None of this matters for validity: any stake in [0, 1] and any slope >= 0 make a fair bet (Lemma 1). So tables will do.
`bet_sizes.u2` has lam and pi for each of `TABLES` on a coarse grid, as fixed-point numbers whose means are exact in
binary: the refined tables have the same bits on every machine. `python -m roundwise.rules.eprocess.bet_sizes` writes
it anew (`nodes` takes less than a second, and a test compares).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

SUREST = 4.0  # drifts of the rest beyond this many standard errors count as that: f would wait for them, and not bet
LEAST = 0.001  # of the stake in cash, and on the drift, at least
BOLDEST_PART = 30.0  # q of a part never above this

CELLS, HIGHEST = 20, 44.0  # of the prior of drifts
_CASH_FLOOR = 0.02


class Sizing(NamedTuple):
    """What a table of bet sizes is made for.

    A drift is u standard errors of the past estimate. Its prior has the density u^power from `lowest` to 44.
    """

    X: float  # the dearer a further batch, the more is given up for reaching B in this one
    lowest: float = 0.2
    power: float = -1.0  # log-uniform

    def prior(self) -> tuple[Floats, Floats]:
        """The drifts u_k, the prior mean of each cell, and the prior of each. (k), (k)

        Cells: nearly equal width below 4 (the posterior has width 1), nearly geometric above. 20 of them grow as fast
        as 500: the loss in E log e is below 0.005 where u0 <= 8 and n_new <= 2 N_past.
        """
        edges = 4.0 * np.sinh(np.linspace(np.arcsinh(self.lowest / 4.0), np.arcsinh(HIGHEST / 4.0), CELLS + 1))
        if self.power == -1.0:
            mass, first = np.diff(np.log(edges)), np.diff(edges)
        else:
            mass = np.diff(edges ** (self.power + 1)) / (self.power + 1)
            first = np.diff(edges ** (self.power + 2)) / (self.power + 2)
        return first / mass, mass

    def log_stakes(self, z: Floats) -> tuple[Floats, Floats]:
        """The drifts (k), and the log of the cash and of the stake on each drift, given the past z. (1 + k, n)

        The posterior weight of the wrong-signed half is kept in cash, and 2 % of the stake always is.
        """
        drifts, prior = self.prior()
        log_prior = (np.log(prior) - drifts**2 / 2)[:, None]  # of w_k, without the factor exp(u_k x)
        right, wrong = (log_prior + drifts[:, None] * each for each in (z, -z))
        for_right = np.logaddexp.reduce(right, axis=0)
        every = np.logaddexp(for_right, np.logaddexp.reduce(wrong, axis=0))
        cash = 1.0 - (1.0 - _CASH_FLOOR) * np.exp(for_right - every)
        return drifts, np.concatenate([np.log(cash)[None], right + (np.log1p(-_CASH_FLOOR) - every)])


ALONE = 2  # the table of usual bets against nulls that stand alone: what is lost on one is lost for no other
TABLES = {0: Sizing(4.0), -1: Sizing(1.5), 1: Sizing(12.0), ALONE: Sizing(3.0, 0.3, -0.5)}  # by how bold the bets are

_Z, _RATIO, _NEED = (-3.0, 10.0, 0.5), (-8.0, 5.0, 0.5), (0.0, 5.0, 0.25)  # first, last, step of z, log2, square root
_FINER = (4, 2, 4)  # nodes of the refined table to one of the coarse
_UNIT = (2.0**-12, 2.0**-16)  # of lam and pi
_FILE = "bet_sizes.u2"

Z_STEPS, RATIO_STEPS, NEED_STEPS = 8, 4, 16  # to one unit, refined
SHAPE = (105, 53, 81)
LEAST_RATIO = 2.0**-8


class Slopes(NamedTuple):
    """A refined table, flat: the slope lam/pi and the stake pi."""

    slope: NDArray[np.float32]
    stake: NDArray[np.float32]


@lru_cache(maxsize=len(TABLES))
def slopes(table: int = 0) -> Slopes:
    """One of `TABLES`, read and refined at its first use."""
    coarse = shipped()[list(TABLES).index(table)].astype(np.float64)
    lam, stake = (_refined(each * unit) for each, unit in zip(coarse, _UNIT, strict=True))
    stake = np.clip(stake, LEAST, 1.0 - LEAST)
    return Slopes((lam / stake).astype(np.float32).reshape(-1), stake.astype(np.float32).reshape(-1))


def shipped() -> NDArray[np.uint16]:
    """The coarse tables as they are in the package. (4, 2, 27, 27, 21)"""
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


def nodes(sizing: Sizing) -> NDArray[np.uint16]:
    """A coarse table: lam and pi as fixed-point numbers. (2, 27, 27, 21)"""
    z, place, root = (np.arange(first, last + step / 2, step) for first, last, step in (_Z, _RATIO, _NEED))
    whole = np.floor(place)
    ratio = 2.0**whole * (1.0 + place - whole)  # piecewise linear in log2, as the bits of a float are
    grid = np.meshgrid(z, ratio, np.maximum(root, 0.1) ** 2, indexing="ij")
    flat_z, flat_ratio, flat_need = (each.reshape(-1) for each in grid)
    lam, stake = replicated(flat_z, flat_ratio, flat_need, sizing)
    fixed = [np.clip(np.rint(each / unit), 0, 65535) for each, unit in zip((lam, stake), _UNIT, strict=True)]
    return np.stack(fixed).astype(np.uint16).reshape(2, *grid[0].shape)


def replicated(z: Floats, ratio: Floats, need: Floats, sizing: Sizing) -> tuple[Floats, Floats]:
    """lam and pi of the payoff f, given past z, past variance over that of the rest, and what is needed."""
    from scipy.special import ndtr, ndtri

    drifts, log_w = sizing.log_stakes(z)
    w = np.exp(log_w)
    q = np.stack([np.zeros_like(z), *(np.minimum(u * np.sqrt(ratio), SUREST) for u in drifts)])
    bar = np.exp(need)
    low, high = -ndtri(np.exp(-need)), ((need - log_w[1:]) / q[1:] + q[1:] / 2).min(axis=0)

    def multiple(y: Floats) -> Floats:
        return (1.0 - bar * ndtr(-y)) / (w * ndtr(y - q)).sum(axis=0)

    for _ in range(60):
        y = (low + high) / 2
        short = sizing.X * multiple(y) * np.exp(log_w + q * (y - q / 2)).sum(axis=0) < bar
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
        to.write(np.stack([nodes(sizing) for sizing in TABLES.values()]).astype("<u2").tobytes())
