"""Counting in every cell, on all cores, stored as it goes: an interrupted calibration goes on where it was."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.simulation.summary import error_upper_bound
from roundwise.theory.calibration import cells, controls, coverage, live
from roundwise.theory.calibration.cells import Cell, Refused


class Grid(NamedTuple):
    """Every combination, in the order of the report."""

    cells: Sequence[Cell]  # measured
    refused: Sequence[Refused]  # or refused with a sentence


@functools.cache
def grid() -> Grid:
    """All there are."""
    every = (
        *cells.product(),
        *live.paths(),
        *coverage.bounds(),
        *controls.conditions(),
        *controls.reproductions(),
        *controls.live_reproductions(),
        *controls.controls(),
        *controls.violations(),
    )
    found: list[Cell] = []
    refused: list[Refused] = []
    for each in every:
        if isinstance(each, Cell):
            found.append(each)
        else:
            refused.append(each)
    return Grid(found, refused)


def quick(cells: Sequence[Cell]) -> list[Cell]:
    """A choice for a minute: one rule everywhere; of other rules, levels and bounds, combinations now and then."""
    return [
        cell
        for i, cell in enumerate(cells)
        if cell.part not in ("product", "bounds")
        or (cell.part == "bounds" and i % 5 == 0)
        or (
            cell.column.endswith(("; Wager", "; Chances, budget"))
            and cell.delta == 0.05
            and (not cell.column.startswith("shared items") or i % 3 == 0)
        )
        or i % 29 == 0
    ]


FALSE_ALARM = 1e-3  # probability that any cell of a whole calibration is called broken although all is well
BLOCK = 500  # runs that share a random generator


@dataclass(frozen=True)
class Measured:
    """A cell with what was counted in it."""

    cell: Cell
    runs: int
    happened: int

    @property
    def rate(self) -> float:
        """The share of the runs in which it happened."""
        return self.happened / self.runs

    @property
    def upper(self) -> float:
        """The exact 95 % upper confidence bound on its probability."""
        return error_upper_bound(self.happened, self.runs)

    @property
    def chance(self) -> float:
        """How likely so many are, or more, if the probability is just what is allowed."""
        from scipy.special import bdtrc

        return 1.0 if not self.happened else float(bdtrc(self.happened - 1, self.runs, self.cell.delta))

    def broken(self, cells: int) -> bool:
        """Whether it happened too often, beyond what chance allows among so many cells."""
        return self.chance < FALSE_ALARM / cells

    def as_it_should(self, cells: int) -> bool:
        """Kept where it is promised; broken where it must be."""
        return self.broken(cells) == self.cell.must_fail


class Job(NamedTuple):
    """One block of the runs of a cell, named so that it can be sent anywhere."""

    digest: str
    block: int
    runs: int
    seed: int


def runs_of(cell: Cell, runs: int) -> int:
    """How many runs a cell gets if a cell of weight 1 gets so many."""
    return max(1, math.ceil(runs * cell.weight))


def measured(
    cells: Sequence[Cell],
    runs: int,
    folder: Path | None = None,
    *,
    seed: int = 1,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Measured]:
    """Every cell with its count; what the folder already holds is not counted again."""
    stored = Stored(folder, runs, seed)
    missing = [cell for cell in cells if cell.digest not in stored.counts]
    if progress is not None:
        progress(sum(runs_of(cell, runs) for cell in cells if cell.digest in stored.counts))
    sizes = {cell.digest: runs_of(cell, runs) for cell in missing}
    counts, left = dict.fromkeys(sizes, 0), dict(sizes)
    jobs = [job for cell in missing for job in _blocks(cell, runs, seed)]
    for job, happened in _counted(jobs, workers):
        counts[job.digest] += happened
        left[job.digest] -= job.runs
        if not left[job.digest]:
            stored.add(job.digest, sizes[job.digest], counts[job.digest])
        if progress is not None:
            progress(job.runs)
    return [Measured(cell, *stored.counts[cell.digest]) for cell in cells]


def _blocks(cell: Cell, runs: int, seed: int) -> Iterator[Job]:
    total = runs_of(cell, runs)
    for block in range(-(-total // BLOCK)):
        yield Job(cell.digest, block, min(BLOCK, total - block * BLOCK), seed)


def _counted(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, int]]:
    if workers == 1 or len(jobs) <= 1:
        for job in jobs:
            yield job, _count([job])[0]
        return
    from roundwise.simulation.workers import done

    for place, happened in done(_count, jobs, len(jobs), workers):
        yield jobs[place], happened


def _count(jobs: Iterable[Job]) -> list[int]:
    known = _by_digest()
    return [
        known[job.digest].count(
            job.runs,
            np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(int(job.digest, 16), job.block))),
        )
        for job in jobs
    ]


@functools.cache
def _by_digest() -> dict[str, Cell]:
    return {each.digest: each for each in grid().cells}


class Stored:
    """Counts in a folder, a line a cell; in memory only where there is no folder."""

    def __init__(self, folder: Path | None, runs: int, seed: int) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        self._path = None if folder is None else folder / "counts.jsonl"
        if self._path is None:
            return
        about = {"roundwise": __version__, "source": source(), "runs": runs, "seed": seed}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._read(self._path, about)
            else:
                self._path.write_text(json.dumps(about) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self._path} cannot be used: {error.strerror}. Give another folder.") from None

    def _read(self, path: Path, about: Plain) -> None:
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # cut by a kill
            path.write_text(text + "\n", encoding="utf-8")
        lines = [_parsed(line) for line in text.splitlines()]
        if not lines or lines[0] != about:
            raise InputError(
                f"{path} holds counts of other runs, another seed or another version of the code. "
                "Give another folder, or remove it."
            )
        for line in lines[1:]:
            if line is not None:  # a line that was cut is counted again
                self.counts[line["cell"]] = (line["runs"], line["happened"])

    def add(self, digest: str, runs: int, happened: int) -> None:
        """Keep one more count."""
        self.counts[digest] = (runs, happened)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"cell": digest, "runs": runs, "happened": happened}) + "\n")


def _parsed(line: str) -> Plain | None:
    try:
        found: Plain = json.loads(line)
    except ValueError:
        return None
    return found


def source() -> str:
    """A digest of all code: counts of other code say nothing of this."""
    here = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        digest.update(str(path.relative_to(here)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
