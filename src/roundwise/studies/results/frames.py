"""Data frames, and Parquet files through DuckDB or pandas, which are imported only here."""

from __future__ import annotations

import glob
import hashlib
import importlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from roundwise.errors import DataError
from roundwise.studies.results.cells import blank
from roundwise.studies.results.sheets import Chunk, Sheet, damaged
from roundwise.studies.results.words import refusal, shown

ROWS = 50_000  # of a data frame, handed over at once
TUPLES = 2000  # of a Parquet file: more, and the garbage collector takes half of the time
COLUMNS = "application/vnd.roundwise.columns+json"  # the kind of a data frame that is sent
_DUCKDB = {"autoinstall_known_extensions": "false", "memory_limit": "1GB", "threads": "1"}


def frame_sheet(name: str, frame: Any) -> Sheet:
    """A data frame of pandas or polars, or a mapping from names to columns. Rows count from 1."""
    labels = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    index = getattr(getattr(frame, "index", None), "name", None)
    hint = "The arms are the index: call `reset_index()` first. " if str(index).strip().casefold() == "arm" else ""

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        columns = [_cells(name, frame[labels[place]]) for place in places]
        sizes = {len(column) for column in columns}
        if len(sizes) > 1:
            raise DataError(f"{name}: the columns have different lengths. Give as many arms as values.")
        for start in range(0, max(sizes, default=0), ROWS):
            some = [column[start : start + ROWS] for column in columns]
            yield Chunk(range(start + 1, start + 1 + len(some[0])), some)

    return Sheet(name, [str(label) for label in labels], chunks, hint=hint)


def columns_of(name: str, frame: Any) -> dict[str, list[Any]]:
    """A data frame as JSON has it: cells that hold nothing are null, times are texts."""
    labels = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    return {str(label): [_plain(cell) for cell in _cells(name, frame[label])] for label in labels}


def _plain(cell: Any) -> str | int | float | bool | None:
    if blank(cell):
        return None
    if isinstance(cell, np.datetime64):
        return str(cell)
    if isinstance(cell, np.generic):
        return _plain(cell.item())
    if isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else str(cell)
    return str(cell.isoformat()) if hasattr(cell, "isoformat") else str(cell)


def parquet_sheet(name: str, path: str, file: BinaryIO) -> Sheet:
    """A Parquet file, through DuckDB or pandas. Rows count from 1."""
    digest = digest_of(file)
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        return _parquet_by_pandas(name, file, digest)
    pattern = glob.escape(os.path.abspath(path))  # DuckDB takes stars and brackets for patterns, and s3:// for a place

    def broken(error: Exception) -> DataError:  # an upload lies elsewhere than its name says
        return damaged(name, "a Parquet file", Exception(str(error).replace(pattern, name)))

    try:
        with duckdb.connect(config=_DUCKDB) as connection:
            described = connection.execute("describe select * from read_parquet(?)", [pattern]).fetchall()
    except Exception as error:  # what a damaged file raises is nowhere promised
        raise broken(error) from None
    header = [str(row[0]) for row in described]

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        wanted = ", ".join('"' + header[place].replace('"', '""') + '"' for place in places)
        start = 1
        with duckdb.connect(config=_DUCKDB) as connection:
            try:
                found = connection.execute(f"select {wanted} from read_parquet(?)", [pattern])
                rows = found.fetchmany(TUPLES)
            except Exception as error:
                raise broken(error) from None
            while rows:
                yield Chunk(range(start, start + len(rows)), list(zip(*rows, strict=True)))
                start += len(rows)
                try:
                    rows = found.fetchmany(TUPLES)
                except Exception as error:
                    raise broken(error) from None

    return Sheet(name, header, chunks, lambda: digest)


def digest_of(file: BinaryIO) -> str:
    """The SHA-256 of a file, which is then at its start again."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


def _parquet_by_pandas(name: str, file: BinaryIO, digest: str) -> Sheet:
    try:
        frame = importlib.import_module("pandas").read_parquet(file)
    except ImportError:
        raise refusal(
            name, "Parquet files need DuckDB.", "Run `pip install 'roundwise[sim]'`, or save the table as CSV UTF-8."
        ) from None
    except Exception as error:
        raise damaged(name, "a Parquet file", error) from None
    sheet = frame_sheet(name, frame)
    sheet.digest = lambda: digest
    return sheet


def _cells(name: str, column: Any) -> Sequence[Any]:
    cells: Any = column.to_numpy() if hasattr(column, "to_numpy") else column
    try:
        array: Any = cells if isinstance(cells, np.ndarray) else np.array(list(cells), dtype=object)
    except TypeError:
        raise DataError(f"{name}: a column is {shown(cells)}, not a list of values.") from None
    if array.ndim != 1:
        raise DataError(f"{name}: a column is itself a table. Give one value a row.")
    return array
