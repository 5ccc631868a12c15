"""Error counts of every cell, on all cores, stored on the way: an interrupted calibration resumes."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.calibration import cells, controls, coverage, hardest, live, skewed
from roundwise.calibration.cells import CalibrationCell, Refused
from roundwise.errors import InputError
from roundwise.simulation.summary import binomial_p_value, error_upper_bound
from roundwise.simulation.workers import follow_parent

FALSE_ALARM = 1e-3  # probability that a whole calibration calls anything broken although all is well
TWICE, POWER = 2.0, 0.99  # a cell of the short calibration whose error is twice delta is caught with this probability
LEAST = 10  # runs of any cell: fewer could never be called broken


class CalibrationGrid(NamedTuple):
    """Every combination, in the order of the report."""

    cells: Sequence[CalibrationCell]  # measured
    refused: Sequence[Refused]  # or refused with a sentence


@functools.cache
def short() -> Sequence[CalibrationCell]:
    """Every rule in the cells where its error is nearest to its bound, and broken copies of the rules."""
    return [*hardest.hardest(), *hardest.broken()]


@functools.cache
def grid() -> CalibrationGrid:
    """All there are."""
    every = (
        *short(),
        *cells.product(),
        *live.paths(),
        *live.changes("live", "changed under way", 0.2, 0.1),
        *coverage.bounds(),
        *controls.conditions(),
        *controls.reproductions(),
        *controls.live_reproductions(),
        *live.reproductions(),
        *controls.controls(),
        *skewed.skewed(),
        *controls.violations(),
    )
    found: list[CalibrationCell] = []
    refused: list[Refused] = []
    for each in every:
        if isinstance(each, CalibrationCell):
            found.append(each)
        else:
            refused.append(each)
    return CalibrationGrid(found, refused)


# ------------------------------------------------------------------------------------------------------ how many runs


def sizes_of(cells: Sequence[CalibrationCell], runs: int | None) -> dict[str, int]:
    """The runs of each cell, by its digest, if a cell of weight 1 gets `runs`.

    Without a number, each cell gets enough to have power by itself; broken copies always do, or missing them would say
    nothing.
    """
    level, sizes = cell_level(len(cells)), {}
    for cell in cells:
        needed = runs_needed(cell.delta, level) if runs is None or cell.must_fail else LEAST
        sizes[cell.digest] = needed if runs is None else max(needed, math.ceil(runs * cell.weight))
    return sizes


def cell_level(number: int) -> float:
    """The level of each of this number of tests: cells share one half of the false alarms, rules the other."""
    return FALSE_ALARM / 2 / number


def critical(runs: int, delta: float, level: float) -> int:
    """The smallest number of errors with a p-value below the level."""
    from scipy.stats import binom

    return int(binom.isf(level, runs, delta)) + 1


def power_of(runs: int, delta: float, level: float) -> float:
    """The exact probability that an error rate of twice delta is called broken."""
    from scipy.stats import binom

    return float(binom.sf(critical(runs, delta, level) - 1, runs, min(TWICE * delta, 1.0)))


@functools.cache
def runs_needed(delta: float, level: float) -> int:
    """The fewest runs with which an error of twice delta is caught with probability .99."""
    runs = LEAST
    while delta > 0 and power_of(runs, delta, level) < POWER:
        runs += max(1, runs // 100)
    return runs


# ------------------------------------------------------------------------------------------------ what was counted


@dataclass(frozen=True)
class CellCount:
    """A cell with what was counted in it."""

    cell: CalibrationCell
    runs: int
    errors: int

    @property
    def rate(self) -> float:
        """Errors as a share of the runs."""
        return self.errors / self.runs

    @property
    def upper(self) -> float:
        """The exact 95 % upper confidence bound on its probability."""
        return error_upper_bound(self.errors, self.runs)

    @property
    def p_value(self) -> float:
        """That of the exact binomial test against delta."""
        return binomial_p_value(self.errors, self.runs, self.cell.delta)

    def broken(self, cells: int) -> bool:
        """Whether there are too many errors, beyond what chance allows among this number of cells."""
        return self.p_value < cell_level(cells)

    def as_expected(self, cells: int) -> bool:
        """Whether the bound is kept where it must be, and broken where it must be."""
        return self.broken(cells) == self.cell.must_fail


@dataclass(frozen=True)
class RuleCount:
    """All cells of one rule together. If the rule keeps its bound in each, the sum over cells of one delta has at most
    the tail of a binomial distribution; several deltas share the level.
    """

    rule: str
    cells: Sequence[CellCount]

    @property
    def runs(self) -> int:
        """In all cells."""
        return sum(each.runs for each in self.cells)

    @property
    def errors(self) -> int:
        """In all cells."""
        return sum(each.errors for each in self.cells)

    @property
    def allowed(self) -> float:
        """How often it may happen on average, at most."""
        return sum(each.runs * each.cell.delta for each in self.cells)

    @property
    def p_value(self) -> float:
        """Of the least likely sum over the cells of one delta, times the number of deltas."""
        sums: dict[float, tuple[int, int]] = {}
        for each in self.cells:
            errors, runs = sums.get(each.cell.delta, (0, 0))
            sums[each.cell.delta] = errors + each.errors, runs + each.runs
        return min(1.0, len(sums) * min(binomial_p_value(*counts, delta) for delta, counts in sums.items()))

    def broken(self, rules: int) -> bool:
        """Whether there are too many errors in all cells together, beyond what chance allows among all rules."""
        return self.p_value < cell_level(rules)


def by_rule(found: Sequence[CellCount]) -> list[RuleCount]:
    """The cells of the part `rules`, rule by rule."""
    rows: dict[str, list[CellCount]] = {}
    for each in found:
        if each.cell.part == hardest.PART:
            rows.setdefault(each.cell.row, []).append(each)
    return [RuleCount(rule, mine) for rule, mine in rows.items()]


class Failed(NamedTuple):
    """A cell that could not be counted: why."""

    cell: CalibrationCell
    why: str


class CalibrationResult(NamedTuple):
    """What a calibration counted.

    Attributes:
        found: The counts of each cell.
        failed: The cells that could not be counted, and why.
    """

    found: list[CellCount]
    failed: list[Failed]


# ------------------------------------------------------------------------------------------------------------ counting


class CountingJob(NamedTuple):
    """One block of the runs of a cell, named so that it can be sent anywhere."""

    digest: str
    block: int
    runs: int
    seed: int


def select_cells(runs: int | None = None, only: str | None = None) -> CalibrationGrid:
    """Return the full grid (with `runs`) or the short one; only cells whose name contains the text `only`, if given."""
    cells, refused = grid() if runs is not None else (short(), ())
    if only is not None:
        cells = [each for each in cells if only in each.name]
        refused = [each for each in refused if only in f"{each.part}: {each.row} / {each.column}"]
        if not cells:
            raise InputError(f"No cell has '{only}' in its name. `roundwise calibrate --json` lists them.")
    return CalibrationGrid(cells, refused)


def calibrate(
    runs: int | None = None,
    folder: str | Path | None = None,
    *,
    only: str | None = None,
    seed: int = 1,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> CalibrationResult:
    """Count the errors of every rule where they are most likely.

    Args:
        runs: Count every cell of the full grid, a typical one this often; by default, the short calibration.
        folder: Where counts are stored; cells that it holds are not counted again.
        only: Count only cells whose name contains this text.
        seed: The seed of the random numbers.
        workers: How many processes to use; the counts do not depend on it.
        progress: Called with the number of runs that were just finished.

    Returns:
        The counts, and the cells that could not be counted; `list_problems` lists what is not as expected.
    """
    cells = select_cells(runs, only).cells
    where = None if folder is None else Path(folder)
    return measure_cells(cells, runs, where, seed=seed, workers=workers, progress=progress)


def measure_cells(
    cells: Sequence[CalibrationCell],
    runs: int | None,
    folder: Path | None = None,
    *,
    seed: int = 1,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> CalibrationResult:
    """Every cell with its count; what the folder already holds is not counted again.

    A block that raises, or whose worker dies, is retried once, alone; then its cell has failed. The others continue.
    """
    sizes, stored = sizes_of(cells, runs), Stored(folder, runs, seed)
    by_digest = {cell.digest: cell for cell in cells}
    missing = {digest: size for digest, size in sizes.items() if stored.counts.get(digest, (0, 0))[0] != size}
    if progress is not None:
        progress(sum(sizes.values()) - sum(missing.values()))
    jobs = [
        CountingJob(digest, block, min(chunk, size - block * chunk), seed)
        for digest, size in missing.items()
        for chunk in [by_digest[digest].chunk]
        for block in range(-(-size // chunk))
    ]
    counts, left = dict.fromkeys(missing, 0), dict(missing)
    failed: dict[str, Failed] = {}
    for job, errors in _counted(jobs, workers, by_digest):
        left[job.digest] -= job.runs
        if isinstance(errors, str):
            failed[job.digest] = Failed(by_digest[job.digest], errors)
        else:
            counts[job.digest] += errors
        if not left[job.digest] and job.digest not in failed:
            stored.add(job.digest, sizes[job.digest], counts[job.digest])
        if progress is not None:
            progress(job.runs)
    found = [CellCount(cell, *stored.counts[cell.digest]) for cell in cells if cell.digest not in failed]
    return CalibrationResult(found, list(failed.values()))


def _counted(
    jobs: Sequence[CountingJob], workers: int, known: Mapping[str, CalibrationCell]
) -> Iterator[tuple[CountingJob, int | str]]:
    """What each job counted, or why it could not, as they are done."""
    _KNOWN.update(known)  # worker processes are copies of this one, or look cells up themselves
    if workers == 1 or len(jobs) <= 1:
        for job in jobs:
            found = _count(job)
            yield job, _count(job) if isinstance(found, str) else found
        return
    waiting = deque(jobs)
    while waiting:
        flying: dict[Future[int | str], CountingJob] = {}
        pool = ProcessPoolExecutor(workers, initializer=follow_parent)
        try:
            while waiting or flying:
                while waiting and len(flying) < 2 * workers:
                    job = waiting.popleft()
                    flying[pool.submit(_count, job)] = job
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    found = future.result()  # raises if a worker died; then every job under way is suspected
                    job = flying.pop(future)
                    yield job, _alone(job) if isinstance(found, str) else found
        except BrokenProcessPool:
            for job in flying.values():
                yield job, _alone(job)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _alone(job: CountingJob) -> int | str:
    """One job in a separate process."""
    with ProcessPoolExecutor(1, initializer=follow_parent) as pool:
        try:
            return pool.submit(_count, job).result()
        except BrokenProcessPool:
            return "its worker process died, perhaps because memory ran out"


_KNOWN: dict[str, CalibrationCell] = {}


def _count(job: CountingJob) -> int | str:
    """The number of errors in its runs, or the exception that was raised."""
    if job.digest not in _KNOWN:
        _KNOWN.update({each.digest: each for each in grid().cells})
    rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(int(job.digest, 16), job.block)))
    try:
        return _KNOWN[job.digest].count(job.runs, rng)
    except Exception as error:  # any exception is reported, and other cells continue
        return f"{type(error).__name__}: {error}"


class Stored:
    """Counts in a folder, a line a cell; in memory only where there is no folder."""

    def __init__(self, folder: Path | None, runs: int | None, seed: int) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        self._path = None if folder is None else folder / "counts.jsonl"
        if self._path is None:
            return
        about = {"roundwise": __version__, "source": source(), "runs": runs, "seed": seed}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                self._path.write_text(json.dumps(about) + "\n", encoding="utf-8")
            text = self._path.read_text(encoding="utf-8")
            if not text.endswith("\n"):  # cut by a kill
                self._path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self._path} cannot be used: {error.strerror}. Give another folder.") from None
        lines: list[Plain] = []
        for line in text.splitlines():
            with suppress(ValueError):  # a line that was cut is counted again
                lines.append(json.loads(line))
        if lines[:1] != [about]:
            raise InputError(
                f"{self._path} holds counts of other runs, another seed or another version of the code. "
                "Give another folder, or remove it."
            )
        self.counts = {line["cell"]: (line["runs"], line["errors"]) for line in lines[1:]}

    def add(self, digest: str, runs: int, errors: int) -> None:
        """Keep one more count."""
        self.counts[digest] = (runs, errors)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"cell": digest, "runs": runs, "errors": errors}) + "\n")


PACKAGE = Path(__file__).parents[1]


def source() -> str:
    """A digest of every file of the package: counts of other code say nothing about this."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
