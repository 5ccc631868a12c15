"""What must be caught: what went wrong once, rules known to be wrong, holes of the live path, studies in danger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from roundwise.arrays import Floats
from roundwise.calibration.cells import CalibrationCell, Simulated, times_harmed
from roundwise.calibration.laws import LAWS, Law, NormalArms
from roundwise.calibration.live import ASKED, SOURCES, Lived, LivePath
from roundwise.calibration.rules import NaiveT
from roundwise.calibration.shapes import SHAPES, TINY, Shape
from roundwise.calibration.telling import (
    Rows,
    as_drawn,
    by_value,
    corrected,
    file_of,
    hand_in,
    in_files,
    is_open,
    some,
)
from roundwise.model.problem import Problem
from roundwise.noise import Gaussian, Noise, Normal, SameVariance, SubGaussian
from roundwise.noise import Poisson as PoissonCounts
from roundwise.policies import Agarwal, Jin2019, OptBBAI, Policy, RoundRobin, TrackAndStop, TriBBAI, Wager
from roundwise.policies.base import Limited
from roundwise.questions import BestArm, Largest, MinimumBelow, Question, Statements, TopK
from roundwise.rules import GLR, LogLogHeuristic
from roundwise.simulation.environments import Environment, GaussianArms, Generator, PoissonArms
from roundwise.study.guarantee import guarantee_of
from roundwise.study.study import Study


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

    def careless(self, times: float, sigma: float) -> Case:
        """With a deviation assumed that is not 1."""
        return replace(self, noise=Gaussian(sigma))

    def __call__(self, runs: int, rng: np.random.Generator) -> int:
        """In how many of the runs a wrong answer was given, or a true null struck off."""
        problem = Problem(self.question, len(self.means), self.delta, self.noise)
        return times_harmed(problem, self.policy, self.world, self.means, runs, self.batches, rng)


def reproductions() -> Iterator[CalibrationCell]:
    """The holes of the first release, as they were found."""
    part = "reproductions"
    counts = np.array([4.0, 3.01])
    largest = Largest(np.array([[0, 0], [1, 0], [0, 1]]), np.array([0, -1.5, -0.5]))
    yield CalibrationCell(
        part,
        "Poisson counts and 'largest' with offsets",
        "Wager",
        0.05,
        2.0,
        Case(largest, PoissonCounts(), PoissonArms(counts), counts, Wager(), 12),
    )
    levels = np.where(np.arange(10) == 0, -TINY, -1.0)  # all but the one that varies much are clear
    uneven = NormalArms(levels, np.where(np.arange(10) == 0, 3.0, 0.1))
    yield CalibrationCell(
        part,
        "statements on levels, sigma unknown and unequal",
        "Wager",
        0.05,
        2.0,
        Case(Statements(np.eye(10), np.zeros(10)), SameVariance(), uneven, levels, Wager(), 12),
    )
    close = np.array([0.02, 0.0, 0.0])
    for most in (1000, 20_000):
        yield CalibrationCell(
            part,
            f"Opt-BBAI, batches of at most {most}",
            "three arms, gap .02",
            0.05,
            2.0,
            Case(BestArm(), Gaussian(1.0), GaussianArms(close), close, Limited(OptBBAI(), max_batch=most), 100),
        )


def conditions() -> Iterator[CalibrationCell]:
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
        yield CalibrationCell(part, row, policy.name, case.delta, 1.0, case, careless=case.careless)


def controls() -> Iterator[CalibrationCell]:
    """Rules and worlds that break the promise: counted as the others, and caught."""
    part = "controls"
    tie, level = np.array([0.0, -TINY]), np.full(20, TINY)
    normal = GaussianArms(tie)

    def cell(row: str, column: str, case: Case) -> CalibrationCell:
        return CalibrationCell(part, row, column, case.delta, 10.0, case, must_fail=True)

    yield cell(
        "a t test repeated at every look",
        "best of 2, tie",
        Case(BestArm(), Normal(), normal, tie, RoundRobin(stopping=NaiveT(), first_time=40.0), 12),
    )
    for rule in (TrackAndStop(stopping=GLR(LogLogHeuristic())), RoundRobin(stopping=GLR(LogLogHeuristic()))):
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


def cell_of_shift(part: str, shape: Shape, law: Law) -> CalibrationCell:
    """A level while all arms move: nothing is promised, and rightly so."""
    simulated = Simulated(shape, law, Wager(first_pulls=10, growth=1.0), 0.05)
    return CalibrationCell(part, "a level while all arms move", shape.name, 0.05, 10.0, simulated, must_fail=True)


def _alternating(rows: Rows) -> Rows:
    """The arms in turn, each arm's rows in their order."""
    place = np.empty(len(rows[1]))
    for name in np.unique(rows[0]):
        mine = rows[0] == name
        place[mine] = np.arange(mine.sum())
    return some(rows, np.argsort(place, kind="stable"))


def _by_eight(arranged: Callable[[Rows], Rows], piece: Callable[[Rows], Rows]) -> Callable[..., None]:
    """Files of eight rows."""
    return lambda study, rows, rng: in_files(study, arranged(rows), rng, 8, piece)


def _thirty(study: Study, rows: Rows, rng: Generator) -> None:
    """No more than thirty rows, then the batch is settled."""
    hand_in(study, some(rows, slice(30)), rng)
    if is_open(study):
        study.tell(round_over="the rest was lost in the post")


def live_reproductions() -> Iterator[CalibrationCell]:
    """Holes of the live path, as they were found."""
    part, tie = "reproductions", (ASKED[0],)
    close = (Shape("three arms, gap .02", 3, lambda law: (BestArm(), np.array([0.02, 0.0, 0.0]))),)
    normal, sub_gaussian = SOURCES[:2]
    for files in (20, 40):
        policy = Wager(first_pulls=4 * files)
        each_sorted = LivePath("", _by_eight(_alternating, by_value), policy=policy)
        cut = LivePath("", _by_eight(lambda rows: _alternating(by_value(rows)), lambda piece: piece), policy=policy)
        for words, way in (("each sorted", each_sorted), ("cut from a sorted list", cut)):
            found = Lived(way, sub_gaussian, tie, batches=1)
            yield CalibrationCell(
                part, f"first batch in {files} files of 8 rows, {words}", "best of 2, tie", 0.05, 2.0, found
            )
    for words, way in (
        ("a budget of 40", LivePath("", as_drawn, policy=OptBBAI(), budget=40)),
        ("batches settled at 30 rows", LivePath("", _thirty, policy=OptBBAI())),
    ):
        yield CalibrationCell(
            part, f"Opt-BBAI, {words}", close[0].name, 0.05, 2.0, Lived(way, normal, close, batches=4)
        )


@dataclass(frozen=True)
class Unflagged:
    """Studies in which something endangers the guarantee: in how many of them the flag says "kept"."""

    lived: Lived

    def __call__(self, runs: int, rng: Generator) -> int:
        """Over all questions of it in turn."""
        shapes = self.lived.shapes
        states = (self.lived.state(shapes[int(rng.integers(len(shapes)))], rng)[1] for _ in range(runs))
        return sum(guarantee_of(state).kept for state in states)


def _worst_lost(study: Study, rows: Rows, rng: Generator) -> None:
    """The lowest fifth is left out because it is low."""
    hand_in(study, some(rows, rows[1] > np.quantile(rows[1], 0.2)), rng)
    if is_open(study):
        study.tell(round_over="outliers")


def _worst_amended(study: Study, rows: Rows, rng: Generator) -> None:
    """The lowest fifth is taken out afterwards."""
    hand_in(study, rows, rng)
    kept = some(rows, rows[1] > np.quantile(rows[1], 0.2))
    path = file_of(arm=kept[0], outcome=kept[1])
    corrected(study, study.state.rounds[-1].files[-1].digest, path, "outliers")


def _drifting(study: Study, rows: Rows, rng: Generator) -> None:
    """One arm is two deviations better in every second batch."""
    later = len(study.state.rounds) % 2 == 0
    hand_in(study, (rows[0], rows[1] + 2.0 * later * (rows[0] == "arm 0")), rng)


def _clustered(study: Study, rows: Rows, rng: Generator) -> None:
    """Every ten rows of an arm are copies of one."""
    names, values = rows[0].copy(), rows[1].copy()
    for name in np.unique(names):
        mine = np.flatnonzero(names == name)
        values[mine] = values[mine][(np.arange(len(mine)) // 10) * 10]
    hand_in(study, (names, values), rng)


def violations() -> Iterator[CalibrationCell]:
    """What must be flagged: in how many studies it was not."""
    normal, tie = SOURCES[0], (ASKED[0],)
    steady = Wager(first_pulls=100, growth=0.5, max_batch=400)
    ways = {
        "the lowest results left out": (LivePath("", _worst_lost), 0.0),
        "the lowest results taken out afterwards": (LivePath("", _worst_amended), 0.0),
        "a rule without a proof": (LivePath("", as_drawn, policy=RoundRobin(GLR(LogLogHeuristic()))), 0.0),
        "Opt-BBAI": (LivePath("", as_drawn, policy=OptBBAI()), 0.0),
        "Tri-BBAI": (LivePath("", as_drawn, policy=TriBBAI()), 0.0),
        "one arm drifts": (LivePath("", _drifting, policy=steady), 0.05),
        "rows in clusters of ten, twelve batches": (LivePath("", _clustered, policy=steady), 0.05),
    }
    for name, (way, allowed) in ways.items():
        # what only later batches can show needs studies that are not decided before
        found = Unflagged(Lived(way, normal, tie, 12, 1e-12) if allowed else Lived(way, normal, tie, 3))
        yield CalibrationCell("violations", name, "not flagged", allowed, 0.2, found)
