"""What Wager spends where arms have prices, as a share of what it spends without knowing them (docs/wager.md).

    PYTHONPATH=src python benchmarks/prices.py [--runs 400]

One line an instance: the lower bound on cost over the cost of the allocation with the fewest samples, the cost that was
measured with its standard error, batches without and with prices, and the share of wrong answers.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from roundwise import BestArm, GaussianArms, Wager
from roundwise.model.problem import Problem
from roundwise.questions.lower_bounds import cost_lower_bound
from roundwise.simulation.run import RunSettings, compute_blocks, join_runs, split_into_blocks

SPREAD = 1 - (np.arange(8) / 8) ** 0.4
EQUAL = np.array([0.5, *[0.0] * 7])
LINEAR = 1 - 0.1 * np.arange(8)


def one_dear(arm: int, arms: int = 8) -> np.ndarray:
    """Prices of 1, but 50 for one arm."""
    return np.where(np.arange(arms) == arm, 50.0, 1.0)


INSTANCES = {
    "2 arms, one at 50": ([0.5, 0.0], one_dear(0, 2)),
    "8 arms, the leader at 50": (SPREAD, one_dear(0)),
    "8 arms, the closest rival at 50": (SPREAD, one_dear(1)),
    "8 arms, a far rival at 50": (SPREAD, one_dear(7)),
    "8 equal gaps, 1 to 50 shuffled": (EQUAL, np.random.default_rng(0).permutation(np.geomspace(1, 50, 8))),
    "8 linear means, dear is good": (LINEAR, np.linspace(50, 1, 8)),
    "8 linear means, cheap is good": (LINEAR, np.linspace(1, 50, 8)),
}


def spend(means: np.ndarray, prices: np.ndarray, known: bool, runs: int) -> tuple[float, float, float, float]:
    """The mean cost, its standard error, batches and errors."""
    world = GaussianArms(means)
    problem = Problem(BestArm(), len(means), 0.05, world.noise, prices=tuple(prices) if known else ())
    setting = RunSettings(problem, world, "wager", Wager(), runs, 1, True, np.inf, np.inf, None)
    found = join_runs([block for _, block in compute_blocks(split_into_blocks(setting), 1, 1, None)])
    cost = found.counts @ prices
    return cost.mean(), cost.std() / math.sqrt(runs), found.batches.mean(), 1 - found.correct.mean()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    for name, (means, prices) in INSTANCES.items():
        means = np.asarray(means)
        fewest = BestArm().complexity(means)
        plain = float(fewest.value) * float(fewest.weights @ prices) * 0.9 * math.log(19)
        bound = float(cost_lower_bound(BestArm(), means, 0.05, prices)) / plain
        (cost, error, batches, wrong), (before, its, more, _) = (spend(means, prices, k, runs) for k in (True, False))
        ratio = cost / before
        error = ratio * math.hypot(error / cost, its / before)
        print(f"{name:33} {bound:.2f}  {ratio:.2f} ± {error:.2f}  {more:.1f} / {batches:.1f}  {wrong:.4f}", flush=True)


if __name__ == "__main__":
    main()
