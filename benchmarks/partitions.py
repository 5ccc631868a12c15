"""What parts and partitions bring, and how far a verdict depends on the name of a study.

`python benchmarks/partitions.py`. `--saved`: samples over the lower bound, and batches, for M partitions of every
batch. `--names`: the same data told to studies that differ in their seed alone: how far their evidence is apart, and
whether they agree. `--errors`: how often a true null is ever rejected where two arms are tied. The numbers of
docs/wager.md are from all three.
"""

import argparse
import math

import numpy as np

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Claims,
    ConditionalPower,
    GaussianArms,
    MinimumBelow,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.model.batch import Batch, Parts, split_counts
from roundwise.model.problem import advance, begin
from roundwise.simulation import environments
from run import PAPER, row

NORMAL = {
    "paper's random instances (10 arms)": PAPER,
    "equal gaps 0.3 (10)": GaussianArms([0.3] + [0.0] * 9),
    "gap 0.1 (2)": GaussianArms([0.1, 0.0]),
}
RATES = {
    ".5 .45 .43 .4, first 100": ((0.5, 0.45, 0.43, 0.4), 100),
    ".05 .045 .043 .04, first 1000": ((0.05, 0.045, 0.043, 0.04), 1000),
    ".05 .04, first 1000": ((0.05, 0.04), 1000),
}
COUNTS, TOTALS = np.full(2, 1200.0), np.array([364.0, 442.0])  # 30.3 and 36.8 % of 1200 rows each
SEVERAL = (1, 8, 32, 128, 256, 512, 2048)


def draw_partitions(partitions):
    """Simulations with so many partitions of every batch."""
    environments.FIRST_PARTITIONS = environments.PARTITIONS = partitions


def saved(runs):
    """Samples and batches by the number of partitions."""
    row("", "M", "samples / lower bound", "batches", "wrong")
    for name, world in NORMAL.items():
        for several in (1, 2, 8):
            draw_partitions(several)
            (found,) = simulate(BestArm(), world, [Wager()], runs=runs, delta=0.05, noise=SubGaussian(1.0))
            ratio = found.samples / found.lower_bound
            error = ratio.std() / math.sqrt(runs)
            row(
                name,
                several,
                f"{ratio.mean():.2f} ± {error:.2f}",
                f"{found.batches.mean():.2f}",
                int((~found.correct).sum()),
            )
    for name, (means, first) in RATES.items():
        for several in (1, 8):
            draw_partitions(several)
            policy = Wager(first_pulls=first)
            (found,) = simulate(BestArm(), BernoulliArms(list(means)), [policy], runs=runs, delta=0.05)
            error = found.samples.std() / math.sqrt(runs)
            text = f"N = {found.samples.mean():.0f} ± {error:.0f}"
            row(name, several, text, f"{found.batches.mean():.2f}", int((~found.correct).sum()))


def questions():
    """Two arms, and what is asked of them."""
    return {
        "best arm": (BestArm(), Wager(first_pulls=1200)),
        "top-1": (TopK(1), Wager(first_pulls=1200)),
        "above 0.33": (Above(0.33), Wager(first_pulls=1200)),
        "any above 0.33": (AnyAbove(0.33), Wager(first_pulls=1200)),
        "minimum below 0.34": (MinimumBelow(0.34), Wager(first_pulls=1200)),
        "statements": (Statements(np.array([[-1.0, 1.0]]), np.array([0.0])), Wager(first_pulls=1200)),
        "claims, no budget": (Claims.against_control(2, 0), ConditionalPower(first_pulls=1200)),
        "claims about levels, no budget": (Claims.above(2, 0.33), ConditionalPower(first_pulls=1200)),
    }


def describe_evidence(question, policy, seed, several):
    """log of what was won for what the data favour, and whether the study is over: one seed, one batch."""
    problem = Problem(question, 2, 0.05, Binary())
    trial = begin(problem, policy)
    parts = split_counts(COUNTS, trial.plan.parts)
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    totals = Binary().draw_part_totals(rng, parts.transpose(), TOTALS[:, None], several).transpose()
    trial = advance(problem, policy, trial, Batch(COUNTS, TOTALS, parts=Parts(parts, totals)))
    kept = trial.kept
    if hasattr(kept, "gains"):
        return float(kept.gains.max()), bool(kept.shown.any())
    best = max(
        float(np.max(np.where(np.isfinite(each), each, -9.0))) for each in kept.wealth if each.dtype == np.float64
    )
    return best, bool(trial.done)


def names(seeds):
    """How far apart the evidence of studies of one data set is, by the number of partitions."""
    row("question", "M", "evidence (5 to 95 %)", "decided", f"one verdict of {seeds}")
    for name, (question, policy) in questions().items():
        for several in SEVERAL:
            found = [describe_evidence(question, policy, seed, several) for seed in range(seeds)]
            low, high = np.exp(np.quantile([each for each, _ in found], [0.05, 0.95]))
            share = np.mean([done for _, done in found])
            row(name, several, f"{low:.3g} to {high:.3g} : 1", f"{share:.0%}", "yes" if share in (0, 1) else "no")


def errors(runs):
    """How often a given one of two tied arms is ruled out within 8 batches."""
    row("partitions", "a true null was rejected", "of at most")
    for several in (1, 8):
        draw_partitions(several)
        (found,) = simulate(
            BestArm(), GaussianArms([0.0, 0.0]), [Wager()], runs=runs, delta=0.05, noise=SubGaussian(1.0), max_batches=8
        )
        row(several, f"{found.decided.mean() / 2:.4f}", 0.05)


def main():
    """All of them, or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=40)
    words = parser.parse_args()
    every = not (words.saved or words.names or words.errors)
    if words.saved or every:
        saved(words.runs)
    if words.names or every:
        names(words.seeds)
    if words.errors or every:
        errors(words.runs)


if __name__ == "__main__":
    main()
