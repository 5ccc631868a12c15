"""Tables of numbers as files: in, forms, features and outcomes; out, CSV, and Parquet, which DuckDB writes."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roundwise.arrays import Array, Floats
from roundwise.errors import DataError, InputError, unknown
from roundwise.formats.sheet import blank
from roundwise.formats.small_table import read_rows
from roundwise.messages import quoted
from roundwise.simulation.environments import numbered

WRITER, PACKAGE = "writer", "roundwise"  # what a Parquet file says of itself: a key, and its value


def read_forms(
    path: Path, level: str, needed: bool, wanted: Sequence[str] = ()
) -> tuple[list[str], list[list[float]], list[float]]:
    """Names, coefficients (the columns of arms) and levels of a table of linear forms, `name,...[,level]`.

    Coefficients are in the order of the `wanted` arms, whatever that of the columns; arms that have numbers for names
    are in the order of the columns.
    """
    head, rows = read_rows(path, ["name", *([level] if needed else [])])
    for other in {"above", "plus"} & {*head} - {level}:
        raise DataError(f"{path}, line 1: this question has no column '{other}'. Remove it, or ask the other question.")
    arms = [word for word in head if word not in ("name", level)]
    if wanted and tuple(wanted) != numbered(len(wanted)):
        if {*arms} != {*wanted}:
            said, known = ", ".join(arms), ", ".join(wanted)
            raise DataError(f"{path}, line 1: the columns are {said}, but the arms are {known}: give one column each.")
        arms = list(wanted)
    forms = [[row.number(arm, f"coefficient of {quoted(arm)},") for arm in arms] for row in rows]
    levels = [row.number(level, level) if level in head else 0.0 for row in rows]
    return [row.text("name") for row in rows], forms, levels


def read_features(path: Path, arms: Sequence[str]) -> Floats:
    """Features of arms from a table of numbers: one row each, in the order of the arms or with a column `arm`. (K,d)

    Arms that have numbers for names are in the order of the rows, whatever that column calls them.
    """
    head, rows = read_rows(path, [])
    columns = [word for word in head if word != "arm"]
    found = [[row.number(word, f"feature {quoted(word)},") for word in columns] for row in rows]
    if "arm" in head and tuple(arms) != numbered(len(arms)):
        places = {row.text("arm"): i for i, row in enumerate(rows)}
        for i, row in enumerate(rows):
            if places[row.text("arm")] != i:
                raise DataError(f"{row.where}: the arm {quoted(row.text('arm'))} has another row. Give one row each.")
        for arm in arms:
            if arm not in places:
                raise DataError(f"{path}: there is no row for the arm '{arm}' in the column 'arm'.")
        found = [found[places[arm]] for arm in arms]
    if len(found) != len(arms):
        raise DataError(f"{path} has {len(found)} rows of features, but there are {len(arms)} arms: give one row each.")
    return np.array(found)


def read_outcomes(path: Path, instance: str | None) -> tuple[tuple[str, ...], Floats, Floats]:
    """The arms, outcomes and counts of a table `[instance,]arm,outcome,count`: how often each arm had each outcome."""
    head, rows = read_rows(path, ("arm", "outcome", "count"))
    if "instance" in head:
        instances = {row.text("instance") for row in rows}
        if instance is None and len(instances) > 1:
            raise DataError(
                f"{path} holds {len(instances)} instances. Choose an instance, for example {min(instances)}."
            )
        if instance is not None and instance not in instances:
            raise unknown("instance", instance, instances)
    elif instance is not None:
        raise DataError(f"{path}, line 1: no column 'instance'. Add the column, or name no instance.")
    tally: dict[str, dict[float, int]] = {}
    for row in rows:
        if instance is not None and row.text("instance") != instance:
            continue
        outcome, arm, count = row.number("outcome", "outcome"), row.text("arm"), row.text("count")
        if not count.isdecimal() or len(count) > 300:
            raise DataError(f"{row.where}: the count {quoted(count)} is not a whole number of at least 0.")
        if not arm:
            raise DataError(f"{row.where}: the arm has no name.")
        outcomes = tally.setdefault(arm, {})
        outcomes[outcome] = outcomes.get(outcome, 0) + int(count)
    values = sorted({outcome for outcomes in tally.values() for outcome in outcomes})
    if len(tally) < 2:
        raise DataError(f"{path}: the table needs at least two arms; found {len(tally)}.")
    if len(values) < 2:
        raise DataError(f"{path}: every outcome is {values[0]:g}; there is nothing to find out.")
    for name, outcomes in tally.items():
        if not any(outcomes.values()):
            raise DataError(f"{path}: arm '{name}' has no outcome (all counts are 0).")
    counts = np.array([[float(outcomes.get(value, 0)) for value in values] for outcomes in tally.values()])
    return tuple(tally), np.array(values), counts


def read_wide(path: Path) -> tuple[Floats, tuple[str, ...]]:
    """A table with one row per item and one column per arm, and the arms; rows with an empty cell are left out.

    A first column whose name is `item` or ends in `_id` names the items.
    """
    head, rows = read_rows(path, ())
    arms = head[1:] if head[0] == "item" or head[0].endswith("_id") else head
    if len(arms) < 2:
        raise DataError(f"{path}, line 1: one column per arm is needed, and at least two arms.")
    full = [row for row in rows if not any(blank(row.cells[arm]) for arm in arms)]
    if not full:
        raise DataError(f"{path}: no row has a result of every arm.")
    return np.array([[row.number(arm) for arm in arms] for row in full]), tuple(arms)


def import_duckdb() -> Any:
    """DuckDB, which reads and writes Parquet files; an InputError says how to install it."""
    try:
        import duckdb
    except ImportError:
        raise InputError("Parquet files need the extra 'sim': pip install 'roundwise[sim]'.") from None
    return duckdb


def connect_duckdb() -> Any:
    """A connection to an empty database in memory."""
    return import_duckdb().connect(config={"autoinstall_known_extensions": "false"})


def write_parquet(path: Path, parts: Sequence[Mapping[str, Array]]) -> None:
    """Write tables with the same columns, one after the other, to one Parquet file."""
    with connect_duckdb() as connection:
        table = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
        table = {name: column.astype(object) if column.dtype.kind == "U" else column for name, column in table.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".part")
        connection.register("result", table)
        options = f"format parquet, compression zstd, kv_metadata {{{WRITER}: '{PACKAGE}'}}"
        connection.execute(f"copy result to ? ({options})", [str(unfinished)])
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(unfinished, path)


def ours_as_parquet(contents: bytes) -> bool:
    """Whether a Parquet file is one that `write_parquet` wrote: by what its last part says of it and of its writer."""
    size = int.from_bytes(contents[-8:-4], "little")
    about = contents[-8 - size : -8] if contents.endswith(b"PAR1") else b""
    mark = b"".join(b"\x18" + bytes([len(word)]) + word.encode() for word in (WRITER, PACKAGE))
    return mark in about and b"DuckDB version" in about


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a CSV table; what a row does not have stays empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
