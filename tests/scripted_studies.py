"""Studies by script: each is created as a plan says, and told what a world of one's own brings, round by round."""

import csv

import numpy as np

from roundwise import create_study
from roundwise.noise import Binary, Bounded, Gaussian, Poisson
from roundwise.simulation.environments import limited_world


def values_of(noise, mean, deviation, number, rng):
    """So many results of an arm, one by one."""
    if isinstance(noise, Poisson):
        return rng.poisson(mean, number)
    if isinstance(noise, Bounded):
        world = limited_world(noise, np.array([mean]), deviation)
        return rng.choice(world.values, size=number, p=world.shares[0])
    sigma = noise.sigma if isinstance(noise, Gaussian) else deviation or 1.0
    return rng.normal(mean, sigma, number)


def told(path, noise, means, asked, rng, missing=0.0, deviation=None):
    """A file with what came back for a batch; some of it never does."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("arm", "count", "successes") if isinstance(noise, Binary) else ("arm", "outcome"))
        for arm, mean, pulls in zip(asked.arms, means, asked.pulls, strict=True):
            back = int(rng.binomial(int(pulls), 1 - missing))
            if isinstance(noise, Binary):
                rows.writerow((arm, back, rng.binomial(back, mean)))
            else:
                rows.writerows((arm, repr(float(each))) for each in values_of(noise, mean, deviation, back, rng))


def studies(folder, wish, means, number, first=0):
    """How so many studies of a wish ended: decided, asked for, rounds, claims shown."""
    ends = []
    words = {
        name: getattr(wish, name)
        for name in (
            "question",
            "noise",
            "delta",
            "policy",
            "max_round_size",
            "min_per_arm",
            "budget",
            "round_size",
            "split",
        )
    }
    for i in range(first, first + number):
        rng = np.random.default_rng((7, i))
        store = folder / f"study_{i}.db"
        with create_study("s", arms=wish.arms, storage=f"sqlite:///{store}", seed=i, **words) as study:
            pulled = 0.0
            while (asked := study.ask()) is not None:
                pulled += asked.pulls.sum()
                told(folder / "batch.csv", wish.noise, means, asked, rng, wish.missing, wish.deviation)
                over = "they will not come" if wish.missing else None
                study.tell(folder / "batch.csv", new=True, round_over=over)
            ends.append(_end(study.state, pulled))
        for file in folder.glob(f"{store.name}*"):
            file.unlink()
    return ends


def _end(state, pulled):
    shown = getattr(state.trial.kept, "shown", np.zeros(0, dtype=bool))
    rounds = sum(1 for each in state.rounds if each.pulls.any())
    return [float(state.decided is not None), float(pulled), float(rounds), *map(float, np.ravel(shown))]
