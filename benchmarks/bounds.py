"""How wide bounds are with bets that aim, and with steady ones alone: `python benchmarks/bounds.py` (Proposition 11).

Two arms, batches of 30, 80, 160, 250 and 300 results of each (times what is said), 16 partitions, delta = 0.05: by how
many standard errors bounds stay below (or above) the estimate after each batch, medians of 200 runs.
"""

import argparse
import math

import numpy as np

from roundwise import BestArm, Binary, Gaussian, Poisson, Problem, SubGaussian
from roundwise.model.batch import FIRST_PARTS, PARTS, Batch, Parts, split_counts
from roundwise.model.estimates import Estimates, Past
from roundwise.rules.eprocess import bounds
from roundwise.rules.eprocess.bounds import BetHistory, PlacedBet, RuleState, means_of
from roundwise.solvers.halfspaces import pairs
from run import row

SIZES, PARTITIONS, RUNS = (30, 80, 160, 250, 300), 16, 200
LAWS = {  # model, mean, deviation, results times so many, totals of n results, how totals are partitioned
    "normal": (SubGaussian(1.0), 0.3, 1.0, 1, lambda rng, n, m: rng.normal(n * m, math.sqrt(n), (RUNS, 2)), None),
    "0/1, 10 %": (Binary(), 0.1, 0.3, 3, lambda rng, n, m: rng.binomial(n, m, (RUNS, 2)), Binary().draw_part_totals),
    "0/1, 50 %": (Binary(), 0.5, 0.5, 1, lambda rng, n, m: rng.binomial(n, m, (RUNS, 2)), Binary().draw_part_totals),
    "Poisson, 1": (Poisson(), 1.0, 1.0, 1, lambda rng, n, m: rng.poisson(n * m, (RUNS, 2)), Poisson().draw_part_totals),
}
LONG = {"20 of 30": (30,) * 20, "each as large as all before": (30, *(30 * 2**i for i in range(8)))}
LATER = (3, 6, 9, 20)
FORMS = {
    "a mean, from below": means_of(2, 1.0),
    "a mean, from above": means_of(2, -1.0),
    "a difference": pairs(np.array([0]), np.array([1])),
}


def draw_batch(rng, law, n, parts, partitions):
    """A batch of n results of both arms in all runs."""
    _, mean, _, _, drawn, partition = law
    counts, totals = np.full((RUNS, 2), float(n)), drawn(rng, n, mean).astype(float)
    cuts = split_counts(counts, parts)
    given = np.ascontiguousarray(cuts.transpose()), np.ascontiguousarray(totals.transpose())[:, None], partitions
    found = Gaussian(1.0).draw_part_totals(rng, *given) if partition is None else partition(rng, *given)
    return Batch(counts, totals, parts=Parts(cuts, found.transpose()))


def widths(law, forms, seed=1, sizes=SIZES, after=range(1, 100)):
    """After these batches, the medians of how far bounds are from the estimate, in standard errors."""
    noise, _, deviation, times, *_ = law
    rng, problem = np.random.default_rng(seed), Problem(BestArm(), 2, 0.05, noise)
    factors = None if forms.factors is None else np.broadcast_to(forms.factors, (RUNS, *forms.factors.shape))
    forms = forms._replace(arms=np.broadcast_to(forms.arms, (RUNS, *forms.arms.shape)), factors=factors)
    past, placed = Past.none((RUNS, 2)), []

    def known():
        return Estimates(past, past.means, noise.variance(past))

    for number, n in enumerate(sizes):
        batch = draw_batch(rng, law, n * times, PARTS if number else FIRST_PARTS, PARTITIONS if number else 1)
        for p in [None] if number else range(FIRST_PARTS):
            part = batch if p is None else batch.parts.batch(p)
            placed.append(PlacedBet(None, known(), None, part, not number))
            past = past.plus(part, same_batch=bool(p))
        if number + 1 not in after:
            continue
        bound = BetHistory(problem, placed, RuleState(None, known(), None)).bound(forms, problem.goal)
        dense = forms.coefficients[0]
        estimate = (dense * past.means[:, forms.arms[0]]).sum(axis=-1)
        error = deviation * np.sqrt((dense**2).sum(axis=-1) / past.counts[0, 0])
        yield float(np.median((estimate - bound) / error))


def compared(*given):
    """Widths with steady bets alone, and now."""
    aiming = bounds.BoundBetSchedule.batch
    bounds.BoundBetSchedule.batch = lambda *given: None
    before = list(widths(*given))
    bounds.BoundBetSchedule.batch = aiming
    return [f"{a:.2f} → {b:.2f} ({b / a - 1:+.0%})" for a, b in zip(before, widths(*given), strict=True)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    row("results", "bound of", *(f"after batch {i}" for i in range(1, len(SIZES) + 1)))
    row(*["---"] * (len(SIZES) + 2))
    for name, law in LAWS.items():
        for what, forms in FORMS.items():
            row(name, what, *compared(law, forms, seed))
    print()
    row("batches of normal results", *(f"after batch {i}" for i in LATER))
    row(*["---"] * (len(LATER) + 1))
    for name, sizes in LONG.items():
        row(name, *compared(LAWS["normal"], FORMS["a mean, from below"], seed, sizes, LATER))
