"""Hashes of seeded simulations over noise x questions: a refactoring leaves every line unchanged.

python benchmarks/seeded.py > before.txt      # then change the code
python benchmarks/seeded.py | diff before.txt -
"""

import hashlib

import numpy as np

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Claims,
    ConditionalPower,
    GaussianArms,
    Largest,
    MinimumBelow,
    Statements,
    TopK,
    Wager,
    simulate,
)
from roundwise.environments import NormalItems, PoissonArms, RandomGaps, Replay
from roundwise.simulation.items import StickItems


def three_values(means):
    """Outcomes 0, .3 and 1 with these means."""
    top = np.asarray(means) - 0.3 * 0.3
    chances = np.stack([1 - top - 0.3, np.full(len(means), 0.3), top], -1)
    return Replay(tuple(f"a{i}" for i in range(len(means))), np.array([0.0, 0.3, 1.0]), chances)


SHARES = [0.5, 0.4, 0.35, 0.3, 0.2]
MEANS = [1.0, 0.8, 0.6, 0.5, 0.5]
WORLDS = {
    "gauss": (GaussianArms(MEANS), (0.55, 0.9, 0.55), 60),
    "gaps": (GaussianArms(RandomGaps()), (0.55, 0.9, 0.55), 60),
    "bern": (BernoulliArms(SHARES), (0.33, 0.45, 0.25), 60),
    "pois": (PoissonArms([3.0, 2.5, 2.0, 1.5, 1.0]), (1.8, 2.7, 1.2), 60),
    "bound": (three_values(SHARES), (0.33, 0.45, 0.25), 60),
    "stick": (StickItems(SHARES), (0.33, 0.45, 0.25), 4),
    "normitems": (NormalItems(MEANS), (0.55, 0.9, 0.55), 4),
}


def questions(level, high, low, arms):
    """The questions of a world, by name."""
    yield "best", BestArm()
    yield "best tol", BestArm(tolerance=0.05)
    yield "top2", TopK(2)
    yield "above", Above(level)
    yield "above tol", Above(level, 0.05)
    yield "any", AnyAbove(high)
    yield "min", MinimumBelow(low)
    if arms == 5:
        yield "stat", Statements.against_control(5, 0)
        yield "largest", Largest(np.eye(5)[:3])


def show(world, name, runs):
    """Print one line: the hash of samples, batches and correctness of every run."""
    digest = hashlib.sha256()
    for each in (runs.samples, runs.batches, runs.correct):
        digest.update(np.ascontiguousarray(each).tobytes())
    print(f"{world:10s}{name:12s}{digest.hexdigest()[:12]} {runs.samples.mean():.1f}", flush=True)


def main():
    """Print every cell."""
    for world, (environment, levels, runs) in WORLDS.items():
        for name, question in questions(*levels, environment.arms):
            (found,) = simulate(question, environment, [Wager()], runs=runs, seed=3, max_samples=2e5)
            show(world, name, found)
        if environment.arms == 5 and world != "normitems":
            for budget in (None, 3000):
                question, runs_of_claims = Claims.against_control(5, 4), 4 if world == "stick" else 40
                (found,) = simulate(
                    question,
                    environment,
                    [ConditionalPower()],
                    runs=runs_of_claims,
                    seed=3,
                    budget=budget,
                    max_samples=1e5,
                )
                show(world, f"claims {budget}", found)


if __name__ == "__main__":
    main()
