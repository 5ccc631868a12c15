"""What bounds would be if they were made of the bets on parts: `python benchmarks/bounds.py` (docs: Proposition 11).

One mean of normal results, true value 0: by how many standard errors bounds from below stay under the estimate.
"""

import math

import numpy as np

from roundwise.betting.bounds import _ladder
from roundwise.betting.parts import averaged, settled
from roundwise.dealing import FIRST_PARTS, PARTS
from roundwise.noise.tilts import GaussianTilts
from run import row

SIZES, DEALINGS, GOAL = (30, 80, 160, 250, 300), 8, math.log(20)
GRID = np.linspace(-1.2, 0.3, 301)  # fixed beforehand
SHARES = {"steady bets": 1.0, "half of each": 0.5, "steady with 1/20": 0.05, "bets on parts": 0.0}  # of the stake


def dealt(rng, values, parts):
    """Rows of each part, and their sums, dealing by dealing. (P), (P, M)"""
    cuts = np.floor(len(values) * (1 - (1 - np.arange(parts + 1) / parts) ** 2) + 1e-9).astype(int)
    sums = [np.diff(np.append(0.0, rng.permutation(values).cumsum())[cuts]) for _ in range(DEALINGS)]
    return np.diff(cuts).astype(float), np.array(sums).T


def on_parts(gains, before, total, counts, sums):
    """log of what is won against each number of the grid after a batch. (K)"""
    known = before + np.append(0.0, counts.cumsum()[:-1])
    so_far = total + np.vstack([np.zeros(DEALINGS), sums.cumsum(axis=0)[:-1]])
    inverse, leverage = (1 / np.maximum(each, 1e-9)[:, None, None] for each in (known, counts))
    shape = (len(counts), DEALINGS, GRID.size)
    z = ((so_far[..., None] * inverse - GRID) / np.sqrt(inverse)).reshape(len(counts), -1)
    new = (sums[..., None] * leverage - GRID).reshape(z.shape)
    ratio, leverage = (np.broadcast_to(each, shape).reshape(z.shape).copy() for each in (inverse / leverage, leverage))
    live = None
    if not before:  # nothing is known of the first part, and bets go where the estimate points
        live = z > 0
        live[0] = False
    found = settled(GOAL, np.tile(gains, DEALINGS), z, ratio, GaussianTilts(1.0)._tilt(new, leverage), live)
    return averaged(found.reshape(DEALINGS, -1).T.reshape(GRID.size, -1), (), DEALINGS)


def bounds(rng):
    """After each batch, by how many standard errors each bound is below the estimate, and whether parts left a hole."""
    drifts, weights = _ladder(GOAL)
    sizes = drifts[:, None] / math.sqrt(SIZES[0])
    steady, gains = weights[:, None] + np.zeros((len(drifts), GRID.size)), np.zeros(GRID.size)
    ever = {name: np.zeros(GRID.size, dtype=bool) for name in SHARES}
    count = total = 0.0
    for n in SIZES:
        values = rng.standard_normal(n)
        gains = on_parts(gains, count, total, *dealt(rng, values, PARTS if count else FIRST_PARTS))
        steady = steady + sizes * (values.sum() - n * GRID) - sizes**2 * n / 2
        count, total = count + n, total + values.sum()
        won = np.logaddexp.reduce(steady, axis=0)
        with np.errstate(divide="ignore"):
            for name, share in SHARES.items():
                ever[name] |= np.logaddexp(won + np.log(share), gains + np.log1p(-share)) >= GOAL
        last = [GRID[np.argmin(each) - 1] if each[0] else math.nan for each in ever.values()]
        hole = ever["bets on parts"].nonzero()[0]
        yield [*((total / count - np.array(last)) * math.sqrt(count)), hole.size and hole[-1] >= hole.size]


if __name__ == "__main__":
    source = np.random.default_rng(3)
    every = np.array([list(bounds(source)) for _ in range(300)], dtype=float)
    row("after batch", *SHARES, "runs with a hole")
    row(*["---"] * (len(SHARES) + 2))
    for number, found in enumerate(np.moveaxis(every, 1, 0), 1):
        row(number, *(f"{x:.2f}" for x in np.nanmedian(found[:, :-1], axis=0)), f"{found[:, -1].mean():.3f}")
