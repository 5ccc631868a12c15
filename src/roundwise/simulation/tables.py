"""Results as files: Parquet and CSV, written by DuckDB, which is imported only here."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.errors import InputError


def write_parquet(path: Path, parts: Sequence[Mapping[str, NDArray[Any]]]) -> None:
    """Write tables with the same columns, one after the other, to one Parquet file."""
    try:
        import duckdb
    except ImportError:
        raise InputError("Parquet files need the extra 'sim': pip install 'roundwise[sim]'.") from None
    table = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
    table = {name: column.astype(object) if column.dtype.kind == "U" else column for name, column in table.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.register("result", table)
        connection.execute("copy result to ? (format parquet, compression zstd)", [str(unfinished)])
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(unfinished, path)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as a CSV table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
