"""What went wrong once and must not again, and rules that are known to be wrong: a calibration must catch them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.noise import Gaussian, Noise, SubGaussian, UnknownVariance
from roundwise.noise import Poisson as PoissonCounts
from roundwise.policies import Agarwal, Jin2019, OptBBAI, Policy, RoundRobin, TrackAndStop, Wager
from roundwise.policies.limited import Limited
from roundwise.problem import Problem
from roundwise.questions import BestArm, Largest, MinimumBelow, Question, Statements, TopK
from roundwise.simulation.environments import Environment, GaussianArms, PoissonArms
from roundwise.stopping import GLR, Heuristic
from roundwise.theory.calibration.cells import Cell, Simulated, times_harmed
from roundwise.theory.calibration.laws import LAWS, Law, NormalArms
from roundwise.theory.calibration.rules import NaiveT
from roundwise.theory.calibration.shapes import SHAPES, TINY, Shape


@dataclass(frozen=True)
class Case:
    """One problem in one world, to a horizon."""

    question: Question
    noise: Noise
    world: Environment
    means: Floats
    policy: Policy
    batches: int
    delta: float = 0.05

    def __call__(self, runs: int, rng: np.random.Generator) -> int:
        """In how many of the runs a wrong answer was given, or a true null struck off."""
        problem = Problem(self.question, len(self.means), self.delta, self.noise)
        return times_harmed(problem, self.policy, self.world, self.means, runs, self.batches, rng)


def reproductions() -> Iterator[Cell]:
    """The holes of the first release, as they were found."""
    part = "reproductions"
    counts = np.array([4.0, 3.01])
    largest = Largest(np.array([[0, 0], [1, 0], [0, 1]]), np.array([0, -1.5, -0.5]))
    yield Cell(
        part,
        "Poisson counts and 'largest' with offsets",
        "Wager",
        0.05,
        2.0,
        Case(largest, PoissonCounts(), PoissonArms(counts), counts, Wager(), 12),
    )
    levels = np.where(np.arange(10) == 0, -TINY, -1.0)  # all but the one that varies much are clear
    uneven = NormalArms(levels, np.where(np.arange(10) == 0, 3.0, 0.1))
    yield Cell(
        part,
        "statements on levels, sigma unknown and unequal",
        "Wager",
        0.05,
        2.0,
        Case(Statements(np.eye(10), np.zeros(10)), UnknownVariance(), uneven, levels, Wager(), 12),
    )
    close = np.array([0.02, 0.0, 0.0])
    for most in (1000, 20_000):
        yield Cell(
            part,
            f"Opt-BBAI, batches of at most {most}",
            "three arms, gap .02",
            0.05,
            2.0,
            Case(BestArm(), Gaussian(1.0), GaussianArms(close), close, Limited(OptBBAI(), max_batch=most), 100),
        )


def conditions() -> Iterator[Cell]:
    """Policies that promise under a condition only, where it is just met: a lead as large as the gap that they know."""
    part, gap = "conditions", 0.5
    asked: list[tuple[str, Question, list[float], Policy]] = [
        ("best of 2, by the gap", BestArm(), [gap, 0], Agarwal(gap=gap, rounds=1)),
        ("best of 10, by the gap", BestArm(), [gap, *[0.0] * 9], Agarwal(gap=gap, rounds=2)),
        ("best of 50, by the gap", BestArm(), [gap, *[0.0] * 49], Agarwal(gap=gap, rounds=3)),
        ("top 3 of 10, by the gap", TopK(3), [*[gap] * 3, *[0.0] * 7], Agarwal(gap=gap, rounds=2)),
        ("best of 2, beside a tolerance", BestArm(tolerance=gap), [gap + TINY, 0], Jin2019()),
        ("best of 10, beside a tolerance", BestArm(tolerance=gap), [gap + TINY, *[0.0] * 9], Jin2019()),
        ("best of 10, several right", BestArm(tolerance=gap), [gap + TINY, 0.3, *[0.0] * 8], Jin2019()),
    ]
    for row, question, placed, policy in asked:
        means = np.array(placed)
        case = Case(question, Gaussian(1.0), GaussianArms(means), means, policy, 12)
        yield Cell(part, row, policy.name, case.delta, 1.0, case)


def controls() -> Iterator[Cell]:
    """Rules and worlds that break the promise: counted as the others, and caught."""
    part = "controls"
    tie, level = np.array([0.0, -TINY]), np.full(20, TINY)
    normal = GaussianArms(tie)

    def cell(row: str, column: str, case: Case) -> Cell:
        return Cell(part, row, column, case.delta, 10.0, case, must_fail=True)

    yield cell(
        "a t test repeated at every look",
        "best of 2, tie",
        Case(BestArm(), UnknownVariance(), normal, tie, RoundRobin(stopping=NaiveT(), first_time=40.0), 12),
    )
    for rule in (TrackAndStop(stopping=GLR(Heuristic())), RoundRobin(stopping=GLR(Heuristic()))):
        yield cell(
            "the threshold ln((1 + ln t)/delta)",
            f"minimum of 20 just not below; {rule.name}",
            Case(MinimumBelow(0.0), Gaussian(1.0), GaussianArms(level), level, rule, 12),
        )
    for noise in (Gaussian(0.4), SubGaussian(0.4)):
        yield cell(
            "a sigma of .4 where it is 1",
            f"best of 2, tie; {type(noise).__name__}",
            Case(BestArm(), noise, normal, tie, Wager(first_pulls=10, growth=1.0), 12),
        )
    ten: Shape = next(each for each in SHAPES if each.name == "above, 5 on both sides")
    moved: Law = next(each for each in LAWS if each.covers == "differences")
    yield cell_of_shift(part, ten, moved)


def cell_of_shift(part: str, shape: Shape, law: Law) -> Cell:
    """A level while all arms move: nothing is promised, and rightly so."""
    simulated = Simulated(shape, law, Wager(first_pulls=10, growth=1.0), 0.05)
    return Cell(part, "a level while all arms move", shape.name, 0.05, 10.0, simulated, must_fail=True)
