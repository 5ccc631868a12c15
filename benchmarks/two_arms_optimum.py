"""Two arms: the Bayes-optimal group-sequential test beside Wager (`python benchmarks/two_arms_optimum.py`).

Both arms are sampled alike, so what is known after n pulls of each is the sum S of n differences, N(n theta, 2 n). The
gap theta has either sign and a size that is log-uniform over `GAPS`. A sample costs 1/L(theta), with the lower bound
L = T* kl(delta, 1 - delta) on samples, a batch PRICE, a wrong answer w. Backward induction over a grid of n (in steps
of a constant factor) and of z = S/sqrt(2 n) finds the best test; w is chosen such that the error probability, averaged
over the prior, is as asked. Wager keeps delta for every gap, so the optimum has the easier task: no method can beat its
average over this prior.
"""

import argparse
import math

import numpy as np
from scipy.special import ndtr

from roundwise import BestArm, GaussianArms, Wager, simulate
from run import SIGMA_1, row

DELTA = 0.05
PRICE = 0.1  # of a batch, in lower bounds
GAPS = np.geomspace(0.0016, 2.5, 29)  # a factor of 1600
STEPS, Z = 61, np.linspace(-6.0, 6.0, 121)
WIDEST = 8.0  # a batch has at most this times the samples so far
SHOWN = (0.0125, 0.03, 0.1, 0.2, 0.3, 0.5)
ERRORS = (0.05, 0.01)


def lower_bound(gap):
    """T* kl(delta, 1 - delta), samples of both arms: T* = 8/gap^2."""
    return 8 / gap**2 * (DELTA * math.log(DELTA / (1 - DELTA)) + (1 - DELTA) * math.log((1 - DELTA) / DELTA))


TIMES = np.geomspace(2.0, 60 / GAPS[0] ** 2, STEPS)  # pulls of each arm


def posterior(n):
    """The weights of all gaps, of either sign, given n and z. (z, 2 gaps)"""
    theta = np.concatenate([GAPS, -GAPS])
    logs = Z[:, None] * theta * math.sqrt(n / 2) - n * theta**2 / 4
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return theta, weights / weights.sum(axis=1, keepdims=True)


def kernel(n, later, theta):
    """The law of z after `later` pulls, given that after n, at each gap: cells of the grid of z. (z, z')"""
    mean = Z * math.sqrt(n / later) + theta * (later - n) / math.sqrt(2 * later)
    return cells(mean, math.sqrt(1 - n / later))


def solve(wrong):
    """For each n and z the next n to sample to, by its place in TIMES, or -1 to stop (n, z); and the first n."""
    cost = 2 / lower_bound(np.concatenate([GAPS, GAPS]))
    value, choice = np.empty((STEPS, Z.size)), np.full((STEPS, Z.size), -1)
    for i in range(STEPS - 1, -1, -1):
        theta, weights = posterior(TIMES[i])
        value[i] = wrong * np.minimum(weights[:, theta > 0].sum(axis=1), weights[:, theta < 0].sum(axis=1))
        for j in range(i + 1, STEPS):
            if TIMES[j] > (1 + WIDEST) * TIMES[i]:
                break
            ahead = sum(weights[:, k] * (kernel(TIMES[i], TIMES[j], gap) @ value[j]) for k, gap in enumerate(theta))
            found = ahead + (TIMES[j] - TIMES[i]) * (weights @ cost) + PRICE
            better = found < value[i] - 1e-12
            value[i], choice[i] = np.where(better, found, value[i]), np.where(better, j, choice[i])
    start = [np.mean(cells(GAPS * math.sqrt(n / 2)) @ each) for n, each in zip(TIMES, value, strict=True)]
    return choice, int(np.argmin(np.array(start) + TIMES * cost.mean() + PRICE))


def cells(mean, sd=1.0):
    """The law of z on its grid, normal with these means. (..., z)"""
    edges = np.concatenate([[-np.inf], (Z[1:] + Z[:-1]) / 2, [np.inf]])
    return np.diff(ndtr((edges - np.asarray(mean)[..., None]) / sd), axis=-1)


def evaluate(choice, first, gap):
    """Samples over the lower bound, batches and the error probability at a gap."""
    law = np.zeros((STEPS, Z.size))
    law[first] = cells(gap * math.sqrt(TIMES[first] / 2))
    samples, batches, wrong = 2 * TIMES[first], 1.0, 0.0
    for i in range(first, STEPS):
        stops = choice[i] < 0
        wrong += law[i, stops & (Z < 0)].sum() + law[i, stops & (Z == 0)].sum() / 2
        for j in np.unique(choice[i][~stops]):
            mass = np.where(choice[i] == j, law[i], 0.0)
            batches += mass.sum()
            samples += 2 * mass.sum() * (TIMES[j] - TIMES[i])
            law[j] += mass @ kernel(TIMES[i], TIMES[j], gap)
    return samples / lower_bound(gap), batches, wrong


def optimum(error):
    """The best test whose error probability, averaged over the prior, is this."""
    low, high = math.log(1.0), math.log(1e4)
    for _ in range(7):
        middle = (low + high) / 2
        found = solve(math.exp(middle))
        wrong = np.mean([evaluate(*found, gap)[2] for gap in GAPS])
        low, high = (middle, high) if wrong > error else (low, middle)
    return found


def main(seed, runs=4000):
    """Print the table of docs/wager.md."""
    row("gap", *(f"{gap:g}" for gap in SHOWN))
    row(*("---" for _ in range(1 + len(SHOWN))))
    for error in ERRORS:
        best = optimum(error)
        cells_of = [evaluate(*best, gap) for gap in SHOWN]
        row(f"optimum, wrong {error:g} on average", *(f"{x:.2f} / {y:.2f} ({w:.3f})" for x, y, w in cells_of))
    texts = []
    for gap in SHOWN:
        (found,) = simulate(BestArm(), GaussianArms([gap, 0.0]), [Wager()], runs=runs, noise=SIGMA_1, seed=seed)
        wrong = found.summary.error
        texts.append(f"{found.samples.mean() / lower_bound(gap):.2f} / {found.batches.mean():.2f} ({wrong:.3f})")
    row("Wager", *texts)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    main(options.parse_args().seed)
