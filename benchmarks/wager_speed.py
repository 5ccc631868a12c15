"""What Wager costs: one decision of a live study, and 1000 runs beside the time that PET takes for the same work."""

from dataclasses import dataclass, field

import numpy as np

from roundwise import (
    PET,
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Claims,
    ConditionalPower,
    Gaussian,
    GaussianArms,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.environments import PoissonArms
from roundwise.model.batch import Batch, partition_sums
from roundwise.model.problem import advance, begin
from run import SIGMA_1, cpu, header, row
from wager_cases import HELD_OUT, INSTANCES, LOCATELLI


def decisions():
    print("\nOne decision of a live study (`advance`), CPU time: slowest of its first 8 batches, in one partition,")
    print("of all of them, and as a whole; after 100 small ones as a whole")
    for label, question, arms, limits in (
        ("best of 10", BestArm(), 10, (2.0, 100.0)),
        ("top-3 of 10", TopK(3), 10, (2.0, 100.0)),
        ("above, 10 arms", Above(0.0), 10, (2.0, 100.0)),
        ("minimum, 10 arms", MinimumBelow(0.0), 10, (2.0, 100.0)),
        ("best of 1000", BestArm(), 1000, (10.0, 100.0)),
        ("above, 1000 arms", Above(0.0), 1000, (10.0, 100.0)),
    ):
        problem = Problem(question, arms, 0.05, Gaussian(1.0))
        one, every, whole = (1e3 * dearest(problem, Wager(), 0, 8, partitions) for partitions in (1, 256, 0))
        late = 1e3 * dearest(problem, Wager(max_batch=20 * arms), 98, 100, 0)
        goal = f"(limits {limits[0]:g} and {limits[1]:g} ms)"
        print(f"  {label:18s} {one:9.2f} ms {every:9.2f} ms {whole:9.2f} ms {late:9.2f} ms  {goal}")


def dearest(problem, policy, start, end, partitions):
    """The largest time of one decision among these batches of a close race; 0 partitions: as a whole."""
    rng = np.random.default_rng(1)
    means = rng.uniform(-0.05, 0.0, problem.arms)
    means[0] = 0.02
    trial, worst = begin(problem, policy), 0.0
    for number in range(end):
        pulls = trial.plan.pulls
        batch = Batch(pulls, pulls * means + np.sqrt(pulls) * rng.standard_normal(problem.arms))
        if partitions:
            parts = partition_sums(
                problem.noise.draw_part_totals, batch.counts, batch.totals, 1, number, trial.plan.parts
            )
            batch = batch._replace(parts=parts._replace(totals=parts.totals[:partitions]))
        if number >= start:
            worst = max(
                worst, cpu(lambda t=trial, b=batch: advance(problem, policy, t, b), 40 if problem.arms < 100 else 5)
            )
        trial = advance(problem, policy, trial, batch)
    return worst


@dataclass(frozen=True)
class Work:
    """A simulation of ours, and what PET is given to do: the same question in the same world, where it can answer it.

    PET has no claims: it settles the statements, on which side of its level each form of the claims lies. Where one is
    on its level nobody can: ours is then kept within a budget, or to so many batches, and PET to as many batches.
    """

    question: object
    world: object
    noise: object
    sigma: float = 1.0  # that PET assumes
    limits: dict = field(default_factory=dict)  # of both
    budget: dict = field(default_factory=dict)  # ours; as many rounds are PET's limit

    def ours(self, runs):
        policy = ConditionalPower() if isinstance(self.question, Claims) else Wager()
        simulate(self.question, self.world, [policy], runs=runs, noise=self.noise, **self.limits, **self.budget)

    def pets(self, runs):
        asked, limits = self.question, dict(self.limits)
        if isinstance(asked, Claims):
            asked = Statements(asked.forms, asked.levels)
        if self.budget:
            limits["max_batches"] = round(self.budget["budget"] / self.budget["round_size"])
        simulate(asked, self.world, [PET()], runs=runs, noise=SubGaussian(self.sigma), **limits)

    def times(self, runs=1000, repeats=8):
        """CPU times of PET and of ours, the least of several, in turns so that both see the same machine."""
        spent = [np.inf, np.inf]
        for _ in range(repeats):
            for i, work in enumerate((self.pets, self.ours)):
                spent[i] = min(spent[i], cpu(lambda w=work: w(runs), 1))
        return spent


EFFECTS = (0.0, 0.1, 0.2, 0.3, 0.5)  # of a control and four arms
WITH_A_NULL = (0.0, *EFFECTS)
GUIDES = (0.0,) * 46 + (0.5,) * 5
ROUNDS = {"budget": 3000, "round_size": 300}


def claims(means):
    """Every other arm against the first."""
    return Claims.against_control(len(means), 0)


CLAIMS = {
    "claims (5), no budget": Work(claims(EFFECTS), GaussianArms(EFFECTS), SIGMA_1),
    "claims (5), no budget, exactly Gaussian": Work(claims(EFFECTS), GaussianArms(EFFECTS), Gaussian(1.0)),
    "claims (11), no budget": Work(claims(range(11)), GaussianArms([0.0] + [0.3] * 10), SIGMA_1),
    "claims (6), one on its level, 10 batches": Work(
        claims(WITH_A_NULL), GaussianArms(WITH_A_NULL), SIGMA_1, limits={"max_batches": 10}
    ),
    "claims (6), budget 3000 in 10 rounds": Work(
        claims(WITH_A_NULL), GaussianArms(WITH_A_NULL), SIGMA_1, budget=ROUNDS
    ),
    "claims (6), budget 3000 in 10 rounds, exactly Gaussian": Work(
        claims(WITH_A_NULL), GaussianArms(WITH_A_NULL), Gaussian(1.0), budget=ROUNDS
    ),
    "claims (51), budget 3000 in 5 rounds, exactly Gaussian": Work(
        claims(GUIDES), GaussianArms(GUIDES), Gaussian(1.0), budget={"budget": 3000, "round_size": 600}
    ),
}


def beside_pet(only="", runs=1000):
    """Ours on all instances."""
    cases = {name: Work(*INSTANCES[name], SIGMA_1) for name in INSTANCES if "0.01" not in name}
    cases |= {name: Work(*HELD_OUT[name], SIGMA_1) for name in HELD_OUT} | CLAIMS
    header(f"{runs} runs in one process (limit 12)", "instance", "PET", "Wager", "ratio")
    for name, work in cases.items():
        if only in name:
            pet, ours = work.times(runs)
            row(name, f"{1e3 * pet:.1f} ms", f"{1e3 * ours:.1f} ms", f"{ours / pet:.1f}")


def rates(means):
    """Around one half, in halves, so that sigma is one half."""
    return BernoulliArms(0.5 + 0.5 * np.asarray(means))


def events(means):
    """Around 2, in deviations of 1.4."""
    return PoissonArms(2.0 + 1.4 * np.asarray(means))


MODELS = {  # noise, how a world of such results is made of means, what 0 is in it, the sigma of PET
    "sub-Gaussian": (SubGaussian(1.0), GaussianArms, 0.0, 1.0),
    "Gaussian": (Gaussian(1.0), GaussianArms, 0.0, 1.0),
    "unknown variance": (Normal(), GaussianArms, 0.0, 1.0),
    "0/1": (Binary(), rates, 0.5, 0.5),
    "bounded": (Bounded(0.0, 1.0), rates, 0.5, 0.5),
    "Poisson": (Poisson(), events, 2.0, 1.5),
}
ASKED = {  # a question, given what 0 is, the means, and the budget
    "best of 10": (lambda zero: BestArm(), [0.3] + [0.0] * 9, {}),
    "best within 0.1, 10 arms": (lambda zero: BestArm(0.1), [0.3, 0.25] + [0.0] * 8, {}),
    "top-3 of 10": (lambda zero: TopK(3), -0.1 * np.arange(10), {}),
    "above, 10 arms": (Above, np.subtract(LOCATELLI, 0.5), {}),
    "minimum, 3 arms": (MinimumBelow, [-0.2, 0.1, 0.2], {}),
    "any above, 8 arms": (AnyAbove, -np.linspace(0.1, 0.6, 8), {}),
    "statements, 3 arms": (lambda zero: Statements([[1.0, -1, 0], [0, 1.0, -1]], [0.0, 0.0]), [0.5, 0.3, 0.0], {}),
    "largest of 3 sums": (lambda zero: Largest([[1.0, 1, 0], [0, 1.0, 1], [1.0, 0, 1]]), [0.5, 0.3, 0.0], {}),
    "claims, no budget": (lambda zero: claims(EFFECTS), EFFECTS, {}),
    "claims, budget": (lambda zero: claims(WITH_A_NULL), WITH_A_NULL, ROUNDS),
}


def every_model(only="", runs=1000):
    """The ratio to PET for every question in every noise model."""
    header(f"Time over that of PET, {runs} runs, every question and noise model (limit 12)", "question", *MODELS)
    for name, (question, means, budget) in ASKED.items():
        if only in name:
            works = [
                Work(question(zero), make(means), noise, s, {}, budget) for noise, make, zero, s in MODELS.values()
            ]
            times = [work.times(runs, 4) for work in works]
            row(name, *(f"{ours / pet:.1f}" for pet, ours in times))
