"""Ways to tell a study its results: in files, in any order, in parts, late, as sums, corrected."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from roundwise.arrays import Array, Floats
from roundwise.simulation.environments import Generator
from roundwise.study.study import Study

Rows = tuple[Array, Floats]  # arms and outcomes, one for each row


def file_of(**columns: Array | Sequence[float]) -> Path:
    """A table as a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
        file.write(",".join(columns) + "\n")
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
        file.writelines(",".join(map(str, line)) + "\n" for line in zip(*lists, strict=True))
    return Path(file.name)


def tell_once(study: Study, path: Path) -> None:
    """Tell a file; results that came out the same as others are new ones here."""
    try:
        study.tell(path, new=True)
    finally:
        path.unlink()


def some(rows: Rows, which: Array | slice) -> Rows:
    """Some of the rows."""
    return rows[0][which], rows[1][which]


def hand_in(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, if there is anything to put into it."""
    if len(rows[1]):
        tell_once(study, file_of(arm=rows[0], outcome=rows[1]))


def is_open(study: Study) -> bool:
    """Whether a batch is outstanding."""
    return study.state.open_round is not None


def as_drawn(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, in random order."""
    hand_in(study, rows, rng)


def by_value(rows: Rows) -> Rows:
    """The rows sorted by outcome."""
    return some(rows, np.argsort(rows[1], kind="stable"))


def sorted_file(study: Study, rows: Rows, rng: Generator) -> None:
    """One file, sorted by outcome."""
    hand_in(study, by_value(rows), rng)


def in_files(study: Study, rows: Rows, rng: Generator, size: int, arranged: Callable[[Rows], Rows]) -> None:
    """Files of so many rows, each arranged in some way."""
    number = len(rows[1])
    for start in range(0, number, size):
        piece = some(rows, np.arange(start, min(start + size, number)))
        if len(piece[1]) and is_open(study):
            hand_in(study, arranged(piece), rng)


def sorted_files(study: Study, rows: Rows, rng: Generator) -> None:
    """Each file sorted by outcome."""
    in_files(study, some(rows, rng.permutation(len(rows[1]))), rng, max(16, len(rows[1]) // 12), by_value)


def cut_files(study: Study, rows: Rows, rng: Generator) -> None:
    """One sorted list, cut into files."""
    in_files(study, by_value(rows), rng, max(16, len(rows[1]) // 12), lambda piece: piece)


def late_files(study: Study, rows: Rows, rng: Generator) -> None:
    """A random part first, the rest later."""
    order = rng.permutation(len(rows[1]))
    in_files(study, some(rows, order), rng, max(12, len(order) // 3), lambda piece: piece)


def settled_short(study: Study, rows: Rows, rng: Generator) -> None:
    """What came, and that the rest will not."""
    hand_in(study, rows, rng)
    if is_open(study):
        study.tell(round_over="the rest was lost in the post")


def without_an_arm(study: Study, rows: Rows, rng: Generator) -> None:
    """An arm, at random, has no results in this batch."""
    missing = rng.choice(np.unique(rows[0]))
    kept = some(rows, rows[0] != missing)
    if len(kept[1]):
        hand_in(study, kept, rng)
    if is_open(study):
        study.tell(round_over="that arm could not be had")


def sums(study: Study, rows: Rows, rng: Generator) -> None:
    """Sums of each arm."""
    names = np.unique(rows[0])
    values = [rows[1][rows[0] == name] for name in names]
    columns: dict[str, Array | Sequence[float]] = {
        "arm": names,
        "count": [len(v) for v in values],
        "total": [float(v.sum()) for v in values],
    }
    if study.state.spec.noise.needs == "squares":
        columns["squares"] = [float((v**2).sum()) for v in values]
    tell_once(study, file_of(**columns))


def rows_and_sums(study: Study, rows: Rows, rng: Generator) -> None:
    """Some arms as rows, sorted, the others as sums."""
    names = np.unique(rows[0])
    as_rows = np.isin(rows[0], names[: len(names) // 2])
    if as_rows.any():
        hand_in(study, by_value(some(rows, as_rows)), rng)
    if (~as_rows).any() and is_open(study):
        sums(study, some(rows, ~as_rows), rng)


def corrected(study: Study, digest: str, path: Path | None, why: str) -> None:
    """Put a file in the place of another, or nothing; results that came out the same as others are new ones here."""
    try:
        study.amend(digest, path, why, new=True)
    finally:
        if path is not None:
            path.unlink()


def amended(study: Study, rows: Rows, rng: Generator) -> None:
    """One file in three is replaced by a copy without a random third of its rows, or withdrawn: a coin decides."""
    hand_in(study, rows, rng)
    state = study.state
    if state.trial.done or state.closed or rng.random() > 0.4:
        return
    told = state.rounds[-1].files[-1]
    keep = rng.random(len(rows[1])) > 0.3
    source = file_of(arm=rows[0][keep], outcome=rows[1][keep]) if keep.any() and rng.random() < 0.7 else None
    corrected(study, told.digest, source, "rows of a test run were in it")
