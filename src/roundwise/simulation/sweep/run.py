"""Computing the cells of a sweep and storing each as one file, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roundwise.arrays import Array, Plain
from roundwise.errors import DataError, InputError
from roundwise.simulation.run import RunBlock, blocks, check_place, computed, joined_runs, number_of_blocks
from roundwise.simulation.summary import Runs, Summary
from roundwise.simulation.sweep.grid import SweepCell, SweepGrid, read_grid
from roundwise.simulation.tables import write_csv, write_parquet

if TYPE_CHECKING:
    from roundwise.simulation.workers import Cluster

UNFINISHED = ".unfinished-"
STALE = 3600.0  # seconds after which a file that is being written must be that of a killed process


class SweepResult(NamedTuple):
    """What a sweep found.

    Attributes:
        rows: One row for each cell: question, instance, noise, policy, delta and seed, and its runs in a few numbers.
        computed: How many cells were computed now; the others were stored before.
        impossible: Why some combinations could not be run, one sentence each.
    """

    rows: list[Plain]
    computed: int
    impossible: list[str]


def run_sweep(
    grid: SweepGrid | str | Path,
    folder: str | Path,
    *,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> SweepResult:
    """Run every combination of a sweep and store it; cells that the folder already holds are not run again.

    Args:
        grid: A TOML file (docs/scale.md), or the grid that `read_grid` made of one.
        folder: Where to store every run (cells/*.parquet) and the summary (summary.csv).
        workers: How many processes to use; the numbers do not depend on it.
        cluster: Address, scheduler file or client of a dask cluster to use in place of processes.
        progress: Called with the number of runs that were just finished.

    Returns:
        The rows of the summary, how many cells were computed, and which combinations were impossible.
    """
    grid = read_grid(Path(grid)) if isinstance(grid, str | Path) else grid
    folder = Path(folder)
    check_place(workers, cluster)
    missing = [cell for cell in grid.cells if not is_finished(cell, folder)]
    if missing:
        run_cells(missing, folder, workers=workers, cluster=cluster, progress=progress)
    for cell in grid.cells:
        relabel(cell, folder)
    rows = [summary_row(cell, folder) for cell in grid.cells]
    write_csv(folder / "summary.csv", rows)
    return SweepResult(rows, len(missing), grid.impossible)


def folder_of_cells(folder: Path) -> Path:
    """Where the cells are, below the folder of the sweep."""
    return folder / "cells"


def is_finished(cell: SweepCell, folder: Path) -> bool:
    """Whether the cell is stored."""
    return _path(cell, folder).is_file()


def run_cells(
    cells: Sequence[SweepCell],
    folder: Path,
    *,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Compute these cells and store each as soon as it is finished.

    The blocks of all cells go through the same workers, so small cells keep many of them busy.
    """
    check_place(workers, cluster)
    _clear(folder)
    sizes = [number_of_blocks(cell.problem, cell.runs) for cell in cells]
    ends = list(accumulate(sizes))
    parts: dict[int, dict[int, Runs]] = {}
    for place, part in computed(_jobs(cells), sum(sizes), workers, cluster):
        which = bisect_right(ends, place)
        mine = parts.setdefault(which, {})
        mine[place] = part
        if len(mine) == sizes[which]:
            _store(cells[which], joined_runs([mine[i] for i in sorted(mine)]), folder)
            del parts[which]
        if progress is not None:
            progress(len(part.samples))


def summary_row(cell: SweepCell, folder: Path) -> Plain:
    """One row of the summary: what the cell is, and its runs in a few numbers."""
    summary = _stored(cell, folder).summary
    return {"cell": cell.digest, **cell.labels, **_numbers(summary)}


def relabel(cell: SweepCell, folder: Path) -> None:
    """Write the names of today into a finished cell that was stored under others; its runs stay as they are."""
    before = _read(cell, folder, ", ".join(cell.labels), "where run = 0")
    if all(list(before[key]) == [value] for key, value in cell.labels.items()):
        return
    columns = _read(cell, folder, "*")
    _write(cell, columns | _constants(cell.labels, len(columns["run"])), folder)


def _jobs(cells: Sequence[SweepCell]) -> Iterator[RunBlock]:
    for cell in cells:
        yield from blocks(
            cell.problem,
            cell.environment,
            cell.digest,
            cell.limited,
            runs=cell.runs,
            seed=cell.seed,
            max_samples=cell.limits.get("max_samples", np.inf),
            max_batches=cell.limits.get("max_batches", np.inf),
        )


def _path(cell: SweepCell, folder: Path) -> Path:
    return folder_of_cells(folder) / f"{cell.digest}.parquet"


def _store(cell: SweepCell, runs: Runs, folder: Path) -> None:
    """Write the runs of a cell, each with what the cell is."""
    described = {
        "cell": cell.digest,
        **cell.labels,
        "caveat": runs.doubt or "",
        "lower_bound_for": runs.bound_for or "",
    }
    columns = {key: column for key, column in runs.columns().items() if key != "policy"}
    _write(cell, _constants(described, cell.runs) | columns, folder)


def _constants(values: Mapping[str, object], number: int) -> dict[str, Array]:
    """Columns that say the same in every run."""
    return {
        key: np.full(number, value, dtype=object if isinstance(value, str) else None) for key, value in values.items()
    }


def _write(cell: SweepCell, columns: Mapping[str, Array], folder: Path) -> None:
    """Write beside, then rename: whoever looks sees the whole cell or none, also if two sweeps finish it at once."""
    path = _path(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as beside:
        whole = Path(beside) / path.name
        write_parquet(whole, [columns])
        os.replace(whole, path)


def _clear(folder: Path) -> None:
    """Remove what killed sweeps left unfinished, but nothing that another one may be writing now."""
    for left in folder.glob(f"{UNFINISHED}*"):
        with suppress(FileNotFoundError):  # another sweep has just finished it
            if time.time() - left.stat().st_mtime > STALE:
                shutil.rmtree(left, ignore_errors=True)


def _read(cell: SweepCell, folder: Path, columns: str, which: str = "") -> dict[str, Array]:
    """Columns of a finished cell."""
    try:
        import duckdb
    except ImportError:
        raise InputError("Parquet files need the extra 'sim': pip install 'roundwise[sim]'.") from None
    path = _path(cell, folder)
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            found: dict[str, Array] = connection.execute(
                f"select {columns} from read_parquet(?) {which}", [str(path)]
            ).fetchnumpy()
    except duckdb.Error:
        raise DataError(f"{path} cannot be read as a cell; delete it and run the sweep again.") from None
    return found


def _stored(cell: SweepCell, folder: Path) -> Runs:
    """The runs of a finished cell, as far as a summary needs them."""
    path = _path(cell, folder)
    claims = cell.problem.question.separate_claims
    wanted = "samples, batches, decided, correct, complexity, lower_bound, caveat, lower_bound_for"
    found = _read(cell, folder, f"{wanted}, true_shown" if claims else wanted)
    if len(found["samples"]) != cell.runs:
        raise DataError(
            f"{path} holds {len(found['samples'])} runs instead of {cell.runs}; delete it and run the sweep again."
        )
    return Runs(
        policy=cell.labels["policy"],
        problem=cell.problem,
        samples=found["samples"].astype(np.float64),
        batches=found["batches"].astype(np.float64),
        decided=np.asarray(found["decided"]),
        answer=np.zeros(cell.runs),
        correct=np.asarray(found["correct"]),
        complexity=found["complexity"],
        lower_bound=found["lower_bound"],
        doubt=str(found["caveat"][0]) or None,
        bound_for=str(found["lower_bound_for"][0]) or None,
        true_shown=found["true_shown"].astype(np.float64) if claims else None,
    )


def _numbers(summary: Summary) -> Plain:
    plain = summary.plain()
    samples, batches = plain.pop("samples"), plain.pop("batches")
    plain.pop("policy")
    shown = plain.pop("claims", None)
    plain |= {} if shown is None else {f"true_shown_{key}": value for key, value in shown["true_shown"].items()}
    return (
        {"runs": plain.pop("runs"), "samples_mean": samples["mean"], "samples_se": samples["se"]}
        | {f"samples_{key}": value for key, value in samples["quantiles"].items()}
        | {f"batches_{key}": value for key, value in batches.items()}
        | plain
    )
