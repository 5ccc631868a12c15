"""Running the arena: every entrant in every contest that it can enter, stored as it goes, with what came out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roundwise.arena.contests import Contest, Entrant
from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.formats.small_table import read_rows
from roundwise.policies import Policy
from roundwise.simulation.run import simulate
from roundwise.simulation.sweep import Cell, is_finished, run_cells, summary_row
from roundwise.simulation.sweep.grid import question_words

MANY_ARMS = 100.0  # beyond it the runs are fewer in proportion
FEWER = 10  # times fewer runs of sequential yardsticks, which take long
TIMED = 4  # runs of which the time is taken


@dataclass(frozen=True, eq=False)
class Entry:
    """One entrant in one contest."""

    contest: Contest
    entrant: Entrant
    cell: Cell


@dataclass(frozen=True)
class Draw:
    """Who meets whom, and why some do not."""

    entries: list[Entry]
    refused: dict[str, list[str]]  # the entrants of each sentence


def drawn(contests: Sequence[Contest], entrants: Sequence[Entrant], runs: int, seed: int) -> Draw:
    """Every entrant in every contest whose question it can answer."""
    entries: list[Entry] = []
    refused: dict[str, list[str]] = {}
    for contest in contests:
        for entrant in entrants:
            policy = entrant.made(contest)
            if policy is None:
                continue
            cell = _cell(contest, policy, runs if not entrant.sequential else -(-runs // FEWER), seed)
            try:
                cell.limited.check(contest.problem)
            except InputError as error:
                who = refused.setdefault(str(error), [])
                who += [] if entrant.name in who else [entrant.name]
            else:
                entries.append(Entry(contest, entrant, cell))
    return Draw(entries, refused)


def _cell(contest: Contest, policy: Policy, runs: int, seed: int) -> Cell:
    share = min(1.0, MANY_ARMS / contest.problem.arms)
    return Cell(
        contest.problem,
        contest.instance.environment,
        policy,
        max(1, math.ceil(runs * share)),
        seed,
        {"budget": contest.budget},
        contest.instance.plain,
        question_words(contest.problem.question),
        contest.name,
    )


def fought(draw: Draw, folder: Path, *, workers: int = 1, progress: Callable[[int], None] | None = None) -> list[Plain]:
    """A row for every entry; what the folder already holds is not run again."""
    missing = [entry.cell for entry in draw.entries if not is_finished(entry.cell, folder)]
    if progress is not None:
        progress(sum(entry.cell.runs for entry in draw.entries) - sum(cell.runs for cell in missing))
    run_cells(missing, folder, workers=workers, progress=progress)
    times = Times(folder / "times.csv")
    return [_row(entry, folder, times) for entry in draw.entries]


def _row(entry: Entry, folder: Path, times: Times) -> Plain:
    contest = entry.contest
    return {
        "contest": contest.name,
        "source": contest.source,
        "entrant": entry.entrant.name,
        "sequential": entry.entrant.sequential,
        "arms": contest.problem.arms,
        "budget": contest.budget,
        "near_tie": contest.near_tie,
        **summary_row(entry.cell, folder),
        "question": contest.question,
        "true": contest.true_claims,
        "ms_a_run": times.of(entry.cell),
    }


class Times:
    """Milliseconds of one core for one run of a cell, measured once on this machine and kept in a table."""

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, dict[str, float]()
        if path.exists():
            _, rows = read_rows(path, ("cell", "ms_a_run"))
            self._known = {row.text("cell"): row.number("ms_a_run") for row in rows}

    def of(self, cell: Cell) -> float:
        """The time of this cell; taken now if it is not known."""
        if cell.digest not in self._known:
            self._known[cell.digest] = _taken(cell)
            fresh = not self._path.exists()
            with self._path.open("a", newline="", encoding="utf-8") as file:
                file.write(("cell,ms_a_run\n" if fresh else "") + f"{cell.digest},{self._known[cell.digest]:.4g}\n")
        return self._known[cell.digest]


def _taken(cell: Cell) -> float:
    runs = min(TIMED, cell.runs)
    start = time.process_time()
    simulate(
        cell.problem.question,
        cell.environment,
        [cell.limited],
        runs=runs,
        delta=cell.problem.delta,
        noise=cell.problem.noise,
        seed=cell.seed,
    )
    return 1000.0 * (time.process_time() - start) / runs
