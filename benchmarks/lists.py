"""Answers that studies of a finite list take, as a share of running everything, and how often they are wrong.

    PYTHONPATH=src python benchmarks/lists.py [--runs 300] [--table FILE]

FILE has a row an item and a column an arm; without it lists are made up: two arms that differ on a fifth of the items,
and eight arms in equal steps. One line a list: arms, items, lead, share of all answers with its standard error, rounds
and errors.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from roundwise import BestArm, simulate
from roundwise.policies import Lockstep
from roundwise.simulation.items import ListReplay


def two_arms(size: int, lead: float, apart: float = 0.2) -> np.ndarray:
    """A list on which one of two arms leads, and they differ on a share of the items."""
    one, other = round(size * (apart + lead) / 2), round(size * (apart - lead) / 2)
    table = np.zeros((size, 2))
    table[:one, 0] = 1
    table[one : one + other, 1] = 1
    table[one + other : (size + one + other) // 2] = 1
    return table


def several_arms(size: int, arms: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """A list on which each arm is a step behind the one before it, the second two steps."""
    rates = 0.7 - step * np.array([0, *range(2, arms + 1)])
    hard = rng.random((size, 1))
    luck = np.where(rng.random((size, arms)) < 0.6, hard, rng.random((size, arms)))
    return (luck < rates).astype(float)


def measure(name: str, table: np.ndarray, runs: int) -> None:
    """Print a line about a list."""
    (found,) = simulate(BestArm(), ListReplay(table), [Lockstep(len(table))], runs=runs, seed=1)
    used, means = found.samples / table.size, np.sort(table.mean(axis=0))
    error = used.std() / math.sqrt(runs)
    print(
        f"{name:12} {table.shape[1]:3} {len(table):6} {means[-1] - means[-2]:6.3f}  {used.mean():.3f} ± {error:.3f}  "
        f"{found.batches.mean():4.1f}  {1 - found.correct.mean():.4f}",
        flush=True,
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    print("list        arms  items  lead    used             rounds  errors")
    if given.table is not None:
        measure(given.table.stem, np.asarray(ListReplay.from_csv(given.table).table), given.runs)
        return
    for size, lead in ((200, 0.06), (500, 0.06), (1319, 0.03), (5000, 0.03)):
        measure("two arms", two_arms(size, lead), given.runs)
    for size in (200, 1319):
        measure("eight arms", several_arms(size, 8, 0.025, rng), given.runs)
    for arms, size in ((2, 200), (8, 200)):  # one item ahead
        column = (rng.random(size) < 0.5).astype(float)
        table = np.stack([rng.permutation(column) for _ in range(arms)], axis=1)
        table[np.flatnonzero(table[:, 0] == 0)[0], 0] = 1
        measure("one item", table, 10 * given.runs)


if __name__ == "__main__":
    main()
