"""What shared items save, on a table of your own: `python benchmarks/pairing.py TABLE [--names FILE] [--arms a,b,c]`.

TABLE is a CSV file with one row an item and one column an arm; or with a column `bits`, of which character j is the
result of arm j (`.` where it was not tried) and --names has one name a line. Items without a result of every arm are
left out, and items are drawn with replacement. The same best arm is looked for with items of its own for every arm, and
with shared items. The numbers of docs/wager.md are from answers of 28 language models to MMLU-Pro.
"""

import argparse
import csv

import numpy as np

from roundwise import BernoulliArms, BestArm, Wager, simulate
from roundwise.environments import ItemReplay, Replay


def table_of(words):
    """The table and the names of its columns."""
    with open(words.table, newline="") as file:
        head = next(csv.reader(file))
    if "bits" not in head:
        world = ItemReplay.from_csv(words.table)
        return np.asarray(world.table), list(world.names)
    with open(words.table, newline="") as file:
        bits = [row["bits"] for row in csv.DictReader(file)]
    with open(words.names) as file:
        names = [line.strip() for line in file if line.strip()]
    return np.array([[float(each) for each in row] for row in bits if "." not in row]), names


def alone(table, names):
    """The same arms, each with items of its own."""
    values = np.unique(table)
    if set(values.tolist()) <= {0.0, 1.0}:
        return BernoulliArms(table.mean(axis=0))
    return Replay(
        tuple(names), values, np.stack([(table == each).sum(axis=0) for each in values], axis=-1).astype(float)
    )


def main():
    """Print both, and what is saved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--names")
    parser.add_argument("--arms")
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--delta", type=float, default=0.05)
    words = parser.parse_args()
    table, names = table_of(words)
    if words.arms:
        wanted = words.arms.split(",")
        table, names = table[:, [names.index(each) for each in wanted]], wanted
    amounts = []
    for title, world in (("items of its own for every arm", alone(table, names)), ("shared items", ItemReplay(table))):
        (found,) = simulate(BestArm(), world, [Wager()], runs=words.runs, delta=words.delta, seed=1 + len(amounts))
        amounts.append(found.samples.mean())
        error = found.samples.std() / np.sqrt(words.runs)
        print(
            f"{title:32s} {amounts[-1]:9.0f} ± {error:.0f} results, {found.batches.mean():.1f} batches, "
            f"{int((~found.correct).sum())} wrong of {words.runs}",
            flush=True,
        )
    print(f"saved: {1 - amounts[1] / amounts[0]:.0%}")


if __name__ == "__main__":
    main()
