"""Two arms: the Bayes-optimal group-sequential test beside Wager (`python benchmarks/two_arms_optimum.py`).

Both arms are sampled alike, so what is known after n pulls of each is the sum S of n differences, N(n theta, 2 n). The
gap theta has either sign and a size that is log-uniform over `GAPS`. A sample costs 1/L(theta), with the lower bound
L = T* kl(delta, 1 - delta) on samples, and a batch has a price. A method that keeps delta for every gap stops with
probability at most 2 delta if there is none. So stopping at (n, z), z = S/sqrt(2 n), costs w times the likelihood ratio
of no gap to the prior, and w is chosen such that a test without a gap ever stops with probability 2 delta. Backward
induction over a grid of n (in steps of a constant factor) and z finds the test whose cost, averaged over the prior, no
test can beat that keeps delta.
"""

import argparse
import math

import numpy as np
from scipy.special import ndtr

from roundwise import BestArm, GaussianArms, Wager, simulate
from run import SIGMA_1, row

DELTA = 0.05
PRICES = (0.1, 0.2)  # of a batch, in lower bounds
GAPS = np.geomspace(0.0016, 2.5, 29)  # a factor of 1600
THETA = np.concatenate([GAPS, -GAPS])
STEPS, Z = 61, np.linspace(-6.0, 6.0, 121)
WIDEST = 8.0  # a batch has at most this times the samples so far
SHOWN = (0.0125, 0.03, 0.1, 0.2, 0.3, 0.5)


def lower_bound(gap):
    """T* kl(delta, 1 - delta), samples of both arms: T* = 8/gap^2."""
    return 8 / gap**2 * (DELTA * math.log(DELTA / (1 - DELTA)) + (1 - DELTA) * math.log((1 - DELTA) / DELTA))


TIMES = np.geomspace(2.0, 60 / GAPS[0] ** 2, STEPS)  # pulls of each arm


def posterior(n):
    """The weights of all gaps, of either sign, given n and z (z, 2 gaps), and the likelihood ratio of no gap (z)."""
    logs = Z[:, None] * THETA * math.sqrt(n / 2) - n * THETA**2 / 4
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    return weights / weights.sum(axis=1, keepdims=True), np.exp(-top[:, 0]) / weights.mean(axis=1)


def kernel(n, later, theta):
    """The law of z after `later` pulls, given that after n, at each gap: cells of the grid of z. (z, z')"""
    mean = Z * math.sqrt(n / later) + theta * (later - n) / math.sqrt(2 * later)
    return cells(mean, math.sqrt(1 - n / later))


def solve(weight, price):
    """For each n and z the next n to sample to, by its place in TIMES, or -1 to stop (n, z); and the first n."""
    cost = 2 / lower_bound(THETA)
    value, choice = np.zeros((STEPS, Z.size)), np.full((STEPS, Z.size), -1)
    for i in range(STEPS - 2, -1, -1):
        weights, ratio = posterior(TIMES[i])
        value[i] = weight * ratio
        for j in range(i + 1, STEPS):
            if TIMES[j] > (1 + WIDEST) * TIMES[i]:
                break
            ahead = sum(weights[:, k] * (kernel(TIMES[i], TIMES[j], gap) @ value[j]) for k, gap in enumerate(THETA))
            found = ahead + (TIMES[j] - TIMES[i]) * (weights @ cost) + price
            better = found < value[i] - 1e-12
            value[i], choice[i] = np.where(better, found, value[i]), np.where(better, j, choice[i])
    start = [np.mean(cells(GAPS * math.sqrt(n / 2)) @ each) for n, each in zip(TIMES, value, strict=True)]
    return choice, int(np.argmin((np.array(start) + TIMES * cost.mean() + price)[:-1]))


def cells(mean, sd=1.0):
    """The law of z on its grid, normal with these means. (..., z)"""
    edges = np.concatenate([[-np.inf], (Z[1:] + Z[:-1]) / 2, [np.inf]])
    return np.diff(ndtr((edges - np.asarray(mean)[..., None]) / sd), axis=-1)


def evaluate(choice, first, gap):
    """Samples, batches, the probability to stop, and to stop with the wrong answer, at a gap."""
    law = np.zeros((STEPS, Z.size))
    law[first] = cells(gap * math.sqrt(TIMES[first] / 2))
    samples, batches, stopped, wrong = 2 * TIMES[first], 1.0, 0.0, 0.0
    for i in range(first, STEPS - 1):
        stops = choice[i] < 0
        stopped, wrong = stopped + law[i, stops].sum(), wrong + law[i, stops & (Z < 0)].sum()
        for j in np.unique(choice[i][~stops]):
            mass = np.where(choice[i] == j, law[i], 0.0)
            batches += mass.sum()
            samples += 2 * mass.sum() * (TIMES[j] - TIMES[i])
            law[j] += mass @ kernel(TIMES[i], TIMES[j], gap)
    return samples, batches, stopped, wrong


def optimum(price):
    """The best test that without a gap stops with probability 2 delta."""
    low, high = math.log(0.1), math.log(1e4)
    for _ in range(8):
        middle = (low + high) / 2
        found = solve(math.exp(middle), price)
        low, high = (middle, high) if evaluate(*found, 0.0)[2] > 2 * DELTA else (low, middle)
    return solve(math.exp(high), price)


def main(seed, runs=4000):
    """Print the table of docs/wager.md."""
    row("gap", *(f"{gap:g}" for gap in SHOWN))
    row(*("---" for _ in range(1 + len(SHOWN))))
    for price in PRICES:
        best = optimum(price)
        found = [(gap, *evaluate(*best, gap)) for gap in SHOWN]
        texts = [f"{n / lower_bound(gap):.2f} / {r:.2f} ({wrong:.3f})" for gap, n, r, _, wrong in found]
        row(f"optimum, a batch worth {price:g} lower bounds", *texts)
    texts = []
    for gap in SHOWN:
        (runs_of,) = simulate(BestArm(), GaussianArms([gap, 0.0]), [Wager()], runs=runs, noise=SIGMA_1, seed=seed)
        ratio, wrong = runs_of.samples.mean() / lower_bound(gap), runs_of.summary.error
        texts.append(f"{ratio:.2f} / {runs_of.batches.mean():.2f} ({wrong:.3f})")
    row("Wager", *texts)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    main(options.parse_args().seed)
