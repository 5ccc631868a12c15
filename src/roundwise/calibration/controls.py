"""Controls that must be detected: past bugs, rules known to be wrong, holes in the live path, violated assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from roundwise.calibration.cells import CalibrationCell, Case, Simulated, case_of, horizon
from roundwise.calibration.laws import NormalArms, law_of
from roundwise.calibration.live import (
    NORMAL,
    SUB_GAUSSIAN,
    TIE,
    LivePath,
    LiveStudies,
    Rows,
    Tell,
    amend,
    as_drawn,
    in_files,
    submit,
)
from roundwise.calibration.rules import RepeatedTest
from roundwise.calibration.shapes import TINY, Shape, shape_of
from roundwise.model.problem import Problem
from roundwise.noise import EqualVariances, Gaussian, Noise, SubGaussian
from roundwise.noise import Poisson as PoissonCounts
from roundwise.policies import Agarwal, Jin2019, OptBBAI, Policy, RoundRobin, TrackAndStop, TriBBAI, Wager
from roundwise.policies.base import Limited
from roundwise.questions import BestArm, Largest, MinimumBelow, Question, Statements, TopK
from roundwise.rules import GLR, LogLogHeuristic
from roundwise.simulation.environments import Environment, GaussianArms, Generator, PoissonArms
from roundwise.study.guarantee import guarantee_of
from roundwise.study.study import Study


def _simulated(
    question: Question,
    means: Sequence[float],
    policy: Policy,
    batches: int = 12,
    noise: Noise | None = None,
    world: Environment | None = None,
) -> Simulated:
    """Runs of a policy at delta .05 with normal results, or with those of another world."""
    noise, world = noise or Gaussian(1.0), world or GaussianArms(means)
    return Simulated(Case(Problem(question, len(means), 0.05, noise), world, np.array(means)), policy, batches)


def reproductions() -> Iterator[CalibrationCell]:
    """The holes of the first release, as they were found."""

    def cell(row: str, column: str, found: Simulated) -> CalibrationCell:
        return CalibrationCell("reproductions", row, column, 0.05, 2.0, found)

    rates = [4.0, 3.01]
    largest = Largest(np.array([[0, 0], [1, 0], [0, 1]]), np.array([0, -1.5, -0.5]))
    counted = _simulated(largest, rates, Wager(), noise=PoissonCounts(), world=PoissonArms(rates))
    yield cell("Poisson counts and 'largest' with offsets", "Wager", counted)
    levels = np.where(np.arange(10) == 0, -TINY, -1.0)  # all but the one that varies much are clear
    uneven = NormalArms(levels, np.where(np.arange(10) == 0, 3.0, 0.1))
    statements = Statements(np.eye(10), np.zeros(10))
    unequal = _simulated(statements, levels.tolist(), Wager(), noise=EqualVariances(), world=uneven)
    yield cell("statements on levels, sigma unknown and unequal", "Wager", unequal)
    for most in (1000, 20_000):
        limited = _simulated(BestArm(), [0.02, 0.0, 0.0], Limited(OptBBAI(), max_batch=most), 100)
        yield cell(f"Opt-BBAI, batches of at most {most}", "three arms, gap .02", limited)


def conditions() -> Iterator[CalibrationCell]:
    """Policies with a conditional guarantee, where the condition is just met: a lead as large as the known gap."""
    gap = 0.5
    near, lead = BestArm(tolerance=gap), gap + TINY
    asked: dict[str, tuple[Question, Sequence[float], Policy]] = {
        "best of 2, by the gap": (BestArm(), [gap, 0], Agarwal(gap=gap, rounds=1)),
        "best of 10, by the gap": (BestArm(), [gap, *[0.0] * 9], Agarwal(gap=gap, rounds=2)),
        "best of 50, by the gap": (BestArm(), [gap, *[0.0] * 49], Agarwal(gap=gap, rounds=3)),
        "top 3 of 10, by the gap": (TopK(3), [*[gap] * 3, *[0.0] * 7], Agarwal(gap=gap, rounds=2)),
        "best of 2, beside a tolerance": (near, [lead, 0], Jin2019()),
        "best of 10, beside a tolerance": (near, [lead, *[0.0] * 9], Jin2019()),
        "best of 10, several right": (near, [lead, 0.3, *[0.0] * 8], Jin2019()),
    }
    for row, (question, means, policy) in asked.items():
        yield CalibrationCell("conditions", row, policy.name, 0.05, 1.0, _simulated(question, means, policy))


def controls() -> Iterator[CalibrationCell]:
    """Rules and worlds that break the guarantee: counted like the others, and detected."""

    def cell(row: str, column: str, found: Simulated) -> CalibrationCell:
        return CalibrationCell("controls", row, column, 0.05, 10.0, found, must_fail=True)

    tie, steady = [0.0, -TINY], Wager(first_pulls=10, growth=1.0)
    naive = RoundRobin(stopping=GLR(RepeatedTest()), first_time=40.0)
    yield cell("a z test repeated at every look", "best of 2, tie", _simulated(BestArm(), tie, naive))
    for rule in (TrackAndStop(stopping=GLR(LogLogHeuristic())), RoundRobin(stopping=GLR(LogLogHeuristic()))):
        column = f"minimum of 20 just not below; {rule.name}"
        yield cell("the threshold ln((1 + ln t)/delta)", column, _simulated(MinimumBelow(0.0), [TINY] * 20, rule))
    for noise in (Gaussian(0.4), SubGaussian(0.4)):
        column = f"best of 2, tie; {type(noise).__name__}"
        yield cell("a sigma of .4 where it is 1", column, _simulated(BestArm(), tie, steady, noise=noise))
    shape = shape_of("above, 5 on both sides")  # nothing is promised, and rightly so
    moved = Simulated(case_of(shape, law_of("normal, all arms move"), 0.05), steady, horizon(shape.arms))
    yield cell("a level while all arms move", shape.name, moved)


def _alternate(rows: Rows) -> Rows:
    """The arms in turn, each arm's rows in their order."""
    place = np.empty(len(rows.outcomes))
    for name in np.unique(rows.arms):
        mine = rows.arms == name
        place[mine] = np.arange(mine.sum())
    return rows.take(np.argsort(place, kind="stable"))


# files of eight rows
FILES_OF_8: dict[str, Tell] = {
    "each sorted": lambda study, rows, rng: in_files(study, _alternate(rows), 8, Rows.by_value),
    "cut from a sorted list": lambda study, rows, rng: in_files(study, _alternate(rows.by_value()), 8),
}


def _thirty(study: Study, rows: Rows, rng: Generator) -> None:
    """At most thirty rows, then the round is closed."""
    submit(study, rows.take(slice(30)), over="the rest was lost in the post")


def live_reproductions() -> Iterator[CalibrationCell]:
    """Holes of the live path, as they were found."""

    def cell(row: str, column: str, found: LiveStudies) -> CalibrationCell:
        return CalibrationCell("reproductions", row, column, 0.05, 2.0, found)

    for files in (20, 40):
        for words, tell in FILES_OF_8.items():
            way = LivePath("", tell, Wager(first_pulls=4 * files))
            row = f"first batch in {files} files of 8 rows, {words}"
            yield cell(row, "best of 2, tie", LiveStudies(way, SUB_GAUSSIAN, TIE, rounds=1))
    close = Shape("three arms, gap .02", 3, lambda at: (BestArm(), np.array([0.02, 0.0, 0.0])))
    for words, way in (
        ("a budget of 40", LivePath("", as_drawn, OptBBAI(), {"budget": 40})),
        ("batches settled at 30 rows", LivePath("", _thirty, OptBBAI())),
    ):
        yield cell(f"Opt-BBAI, {words}", close.name, LiveStudies(way, NORMAL, (close,), rounds=4))


def _without_lowest_fifth(rows: Rows) -> Rows:
    return rows.take(rows.outcomes > np.quantile(rows.outcomes, 0.2))


def _lowest_left_out(study: Study, rows: Rows, rng: Generator) -> None:
    submit(study, _without_lowest_fifth(rows), over="outliers")


def _lowest_amended(study: Study, rows: Rows, rng: Generator) -> None:
    submit(study, rows)
    amend(study, _without_lowest_fifth(rows), "outliers")


def _drifting(study: Study, rows: Rows, rng: Generator) -> None:
    """One arm is two deviations better in every second round."""
    later = len(study.state.rounds) % 2 == 0
    submit(study, rows._replace(outcomes=rows.outcomes + 2.0 * later * (rows.arms == "arm 0")))


def _clustered(study: Study, rows: Rows, rng: Generator) -> None:
    """Every ten rows of an arm are copies of one."""
    values = rows.outcomes.copy()
    for name in np.unique(rows.arms):
        mine = np.flatnonzero(rows.arms == name)
        values[mine] = values[mine][(np.arange(len(mine)) // 10) * 10]
    submit(study, rows._replace(outcomes=values))


def violations() -> Iterator[CalibrationCell]:
    """Studies in which something endangers the guarantee: in how many of them the flag says "kept"."""
    steady = Wager(first_pulls=100, growth=0.5, max_batch=400)
    ways: dict[str, tuple[LivePath, float]] = {
        "the lowest results left out": (LivePath("", _lowest_left_out), 0.0),
        "the lowest results taken out afterwards": (LivePath("", _lowest_amended), 0.0),
        "a rule without a proof": (LivePath("", as_drawn, RoundRobin(GLR(LogLogHeuristic()))), 0.0),
        "Opt-BBAI": (LivePath("", as_drawn, OptBBAI()), 0.0),
        "Tri-BBAI": (LivePath("", as_drawn, TriBBAI()), 0.0),
        "one arm drifts": (LivePath("", _drifting, steady), 0.05),
        "rows in clusters of ten, twelve batches": (LivePath("", _clustered, steady), 0.05),
    }
    for name, (way, allowed) in ways.items():
        # what only later rounds can show needs studies that are not decided before
        rounds, delta = (12, 1e-12) if allowed else (3, 0.05)
        found = LiveStudies(way, NORMAL, TIE, rounds, delta, judge=lambda state, means: guarantee_of(state).kept)
        yield CalibrationCell("violations", name, "not flagged", allowed, 0.2, found)
