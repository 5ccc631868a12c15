"""Holes of the live path as they were found, and what must be flagged: studies that something endangers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from roundwise.policies import OptBBAI, RoundRobin, TriBBAI, Wager
from roundwise.questions import BestArm
from roundwise.simulation.environments import Generator
from roundwise.stopping import GLR, Heuristic
from roundwise.studies.guarantee import KEPT, guarantee_of
from roundwise.studies.study import Study
from roundwise.theory.calibration.cells import Cell
from roundwise.theory.calibration.live import ASKED, SOURCES, Lived, Way
from roundwise.theory.calibration.shapes import Shape
from roundwise.theory.calibration.telling import (
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


def reproductions() -> Iterator[Cell]:
    """Holes of the live path, as they were found."""
    part, tie = "reproductions", (ASKED[0],)
    close = (Shape("three arms, gap .02", 3, lambda law: (BestArm(), np.array([0.02, 0.0, 0.0]))),)
    normal, sub_gaussian = SOURCES[:2]
    for files in (20, 40):
        policy = Wager(first_pulls=4 * files)
        each_sorted = Way("", _by_eight(_alternating, by_value), policy=policy)
        cut = Way("", _by_eight(lambda rows: _alternating(by_value(rows)), lambda piece: piece), policy=policy)
        for words, way in (("each sorted", each_sorted), ("cut from a sorted list", cut)):
            found = Lived(way, sub_gaussian, tie, batches=1)
            yield Cell(part, f"first batch in {files} files of 8 rows, {words}", "best of 2, tie", 0.05, 2.0, found)
    for words, way in (
        ("a budget of 40", Way("", as_drawn, policy=OptBBAI(), budget=40)),
        ("batches settled at 30 rows", Way("", _thirty, policy=OptBBAI())),
    ):
        yield Cell(part, f"Opt-BBAI, {words}", close[0].name, 0.05, 2.0, Lived(way, normal, close, batches=4))


@dataclass(frozen=True)
class Unflagged:
    """Studies in which something endangers the guarantee: in how many of them the flag says "kept"."""

    lived: Lived

    def __call__(self, runs: int, rng: Generator) -> int:
        """Over all questions of it in turn."""
        shapes = self.lived.shapes
        states = (self.lived.state(shapes[int(rng.integers(len(shapes)))], rng)[1] for _ in range(runs))
        return sum(str(guarantee_of(state)) == KEPT for state in states)


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
    corrected(study, study.state.asked[-1].files[-1].digest, path, "outliers")


def _drifting(study: Study, rows: Rows, rng: Generator) -> None:
    """One arm is two deviations better in every second batch."""
    later = len(study.state.asked) % 2 == 0
    hand_in(study, (rows[0], rows[1] + 2.0 * later * (rows[0] == "arm 0")), rng)


def _clustered(study: Study, rows: Rows, rng: Generator) -> None:
    """Every ten rows of an arm are copies of one."""
    names, values = rows[0].copy(), rows[1].copy()
    for name in np.unique(names):
        mine = np.flatnonzero(names == name)
        values[mine] = values[mine][(np.arange(len(mine)) // 10) * 10]
    hand_in(study, (names, values), rng)


def violations() -> Iterator[Cell]:
    """What must be flagged: in how many studies it was not."""
    normal, tie = SOURCES[0], (ASKED[0],)
    steady = Wager(first_pulls=100, growth=0.5, max_batch=400)
    ways = {
        "the lowest results left out": (Way("", _worst_lost), 0.0),
        "the lowest results taken out afterwards": (Way("", _worst_amended), 0.0),
        "a rule without a proof": (Way("", as_drawn, policy=RoundRobin(GLR(Heuristic()))), 0.0),
        "Opt-BBAI": (Way("", as_drawn, policy=OptBBAI()), 0.0),
        "Tri-BBAI": (Way("", as_drawn, policy=TriBBAI()), 0.0),
        "one arm drifts": (Way("", _drifting, policy=steady), 0.05),
        "rows in clusters of ten, twelve batches": (Way("", _clustered, policy=steady), 0.05),
    }
    for name, (way, allowed) in ways.items():
        # what only later batches can show needs studies that are not decided before
        found = Unflagged(Lived(way, normal, tie, 12, 1e-12) if allowed else Lived(way, normal, tie, 3))
        yield Cell("violations", name, "not flagged", allowed, 0.2, found)
