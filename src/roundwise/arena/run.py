"""Running the arena: every entrant in every contest that it can enter, with results stored on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from roundwise.arena.contests import Contest, Entrant, entrants, fixed
from roundwise.arena.ranking import Standing, standings
from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.formats.small_table import read_rows
from roundwise.policies import Policy
from roundwise.simulation.run import simulate
from roundwise.simulation.sweep import SweepCell, describe, is_finished, run_cells, summary_row

MANY_ARMS = 100.0  # beyond it the runs are fewer in proportion
FEWER = 10  # times fewer runs of sequential yardsticks, which take long
TIMED = 4  # runs that are timed


class Match(NamedTuple):
    """One entrant in one contest."""

    contest: Contest
    entrant: Entrant
    cell: SweepCell


@dataclass(frozen=True)
class Matches:
    """The entrants of each contest, and why some do not take part."""

    entries: list[Match]
    refused: dict[str, list[str]]  # the entrants of each sentence


@dataclass(frozen=True)
class ArenaResult:
    """The results of the arena.

    Attributes:
        rows: One row for each match: contest, entrant, samples, batches, error and time.
        standings: The entrants of each kind of question, best first.
        refused: Why some entrants did not take part, with their names.
    """

    rows: list[Plain]
    standings: list[Standing]
    refused: dict[str, list[str]]


def run_arena(
    folder: str | Path,
    *,
    contests: Sequence[Contest] | None = None,
    policies: Mapping[str, Policy] | None = None,
    runs: int = 100,
    delta: float = 0.05,
    seed: int = 1,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> ArenaResult:
    """Compare all built-in policies, and yours, on the same contests; matches that the folder holds are not run again.

    Args:
        folder: Where every run is stored.
        contests: What to compete in, by default the built-in contests; `roundwise.arena.contests` reads others from
            a TOML file (`own`) or from tables of real outcomes (`replayed`).
        policies: Your policies by name, in addition to the built-in ones.
        runs: Runs of a policy in a contest; fewer with more than 100 arms and for pull-by-pull policies.
        delta: The error probability of the built-in contests.
        seed: The seed of the random numbers.
        workers: How many processes to use; the numbers do not depend on it.
        progress: Called with the number of runs that were just finished.

    Returns:
        The rows of all matches, the standings, and who was refused.
    """
    own = [Entrant(name, policy) for name, policy in (policies or {}).items()]
    matches = match_entrants(fixed(delta) if contests is None else contests, [*entrants(), *own], runs, seed)
    rows = run_matches(matches, Path(folder), workers=workers, progress=progress)
    return ArenaResult(rows, standings(rows), matches.refused)


def match_entrants(contests: Sequence[Contest], entrants: Sequence[Entrant], runs: int, seed: int) -> Matches:
    """Every entrant in every contest whose question it can answer."""
    entries: list[Match] = []
    refused: dict[str, list[str]] = {}
    for contest in contests:
        share = min(1.0, MANY_ARMS / contest.problem.arms)
        for entrant in entrants:
            policy = entrant.enter(contest)
            if policy is None:
                continue
            cell = SweepCell(
                contest.problem,
                contest.instance.environment,
                policy,
                max(1, math.ceil((-(-runs // FEWER) if entrant.sequential else runs) * share)),
                seed,
                {"budget": contest.budget},
                contest.instance.plain,
                describe(contest.problem.question),
                contest.name,
            )
            try:
                cell.limited.check(contest.problem)
            except InputError as error:
                names = refused.setdefault(str(error), [])
                if entrant.name not in names:
                    names.append(entrant.name)
            else:
                entries.append(Match(contest, entrant, cell))
    return Matches(entries, refused)


def run_matches(
    draw: Matches, folder: Path, *, workers: int = 1, progress: Callable[[int], None] | None = None
) -> list[Plain]:
    """A row for every entry; what the folder already holds is not run again."""
    missing = [entry.cell for entry in draw.entries if not is_finished(entry.cell, folder)]
    if progress is not None:
        progress(sum(entry.cell.runs for entry in draw.entries) - sum(cell.runs for cell in missing))
    run_cells(missing, folder, workers=workers, progress=progress)
    times = Times(folder / "times.csv")
    return [
        {
            "contest": contest.name,
            "source": contest.source,
            "entrant": entrant.name,
            "sequential": entrant.sequential,
            "arms": contest.problem.arms,
            "budget": contest.budget,
            "near_tie": contest.near_tie,
            **summary_row(cell, folder),
            "question": contest.question,
            "true": contest.true_claims,
            "ms_a_run": times.of(cell),
        }
        for contest, entrant, cell in draw.entries
    ]


class Times:
    """Milliseconds of one core for one run of a cell, measured once on this machine and kept in a table."""

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, dict[str, float]()
        if path.exists():
            _, rows = read_rows(path, ("cell", "ms_a_run"))
            self._known = {row.text("cell"): row.number("ms_a_run") for row in rows}

    def of(self, cell: SweepCell) -> float:
        """The time of this cell; taken now if it is not known."""
        if cell.digest not in self._known:
            problem, runs = cell.problem, min(TIMED, cell.runs)
            options: Plain = {"runs": runs, "delta": problem.delta, "noise": problem.noise, "seed": cell.seed}
            start = time.process_time()
            simulate(problem.question, cell.environment, [cell.limited], **options)
            self._known[cell.digest] = 1000.0 * (time.process_time() - start) / runs
            header = "" if self._path.exists() else "cell,ms_a_run\n"
            with self._path.open("a", newline="", encoding="utf-8") as file:
                file.write(f"{header}{cell.digest},{self._known[cell.digest]:.4g}\n")
        return self._known[cell.digest]
