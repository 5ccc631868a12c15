"""Tables that are not text: data frames, Excel workbooks, Parquet files. Their libraries are imported only here."""

from __future__ import annotations

import glob
import hashlib
import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from roundwise.errors import DataError
from roundwise.studies.results.columns import problem
from roundwise.studies.results.sheets import Chunk, Sheet

ROWS = 50_000  # of a data frame, handed over at once
TUPLES = 2000  # of a Parquet file: more, and the garbage collector takes half of the time


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
        for start in range(0, max(sizes), ROWS):
            some = [column[start : start + ROWS] for column in columns]
            yield Chunk(range(start + 1, start + 1 + len(some[0])), some)

    return Sheet(name, [str(label) for label in labels], chunks, hint=hint)


def excel_sheet(name: str, file: BinaryIO) -> Sheet:
    """The first sheet of an Excel workbook; rows are numbered as Excel does."""
    try:
        pandas = importlib.import_module("pandas")
        importlib.import_module("openpyxl")
    except ImportError:
        raise problem(
            name, "Excel files need pandas and openpyxl.", "Run `pip install pandas openpyxl`, or save it as CSV UTF-8."
        ) from None
    digest = _digest(file)
    try:
        with warnings.catch_warnings(), pandas.ExcelFile(file, engine="openpyxl") as book:
            warnings.simplefilter("ignore")  # of features of Excel that do not concern the cells
            names = list(book.sheet_names)
            cells = book.parse(names[0], header=None, dtype=object, keep_default_na=False, na_filter=False)
    except Exception as error:  # what a damaged workbook raises is nowhere promised
        raise _damaged(name, "an Excel workbook", error) from None
    rows = cells.to_numpy(dtype=object)
    filled = [k for k, row in enumerate(rows) if not all(blank(cell) for cell in row)]
    if not filled:
        raise DataError(f"{name} is empty. Give a table with a header and one line for each result or arm.")
    top = filled[0]
    notes = [f"{name}: only the first of {len(names)} sheets, '{names[0]}', was read."] if len(names) > 1 else []

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        yield Chunk(range(top + 2, len(rows) + 1), [rows[top + 1 :, place] for place in places])

    header = ["" if blank(cell) else str(cell) for cell in rows[top]]
    return Sheet(name, header, chunks, lambda: digest, header_line=top + 1, notes=notes)


def parquet_sheet(name: str, file: BinaryIO) -> Sheet:
    """A Parquet file, through DuckDB or pandas. Rows count from 1."""
    digest = _digest(file)
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        return _parquet_by_pandas(name, file, digest)
    pattern = glob.escape(name)  # DuckDB takes stars and brackets for patterns
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            described = connection.execute("describe select * from read_parquet(?)", [pattern]).fetchall()
    except duckdb.Error as error:
        raise _damaged(name, "a Parquet file", error) from None
    header = [str(row[0]) for row in described]

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        wanted = ", ".join('"' + header[place].replace('"', '""') + '"' for place in places)
        start = 1
        try:
            with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
                found = connection.execute(f"select {wanted} from read_parquet(?)", [pattern])
                while rows := found.fetchmany(TUPLES):
                    yield Chunk(range(start, start + len(rows)), list(zip(*rows, strict=True)))
                    start += len(rows)
        except duckdb.Error as error:
            raise _damaged(name, "a Parquet file", error) from None

    return Sheet(name, header, chunks, lambda: digest)


def blank(cell: Any) -> bool:
    """Whether a cell of any table holds nothing."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def _parquet_by_pandas(name: str, file: BinaryIO, digest: str) -> Sheet:
    try:
        frame = importlib.import_module("pandas").read_parquet(file)
    except ImportError:
        raise problem(
            name, "Parquet files need DuckDB.", "Run `pip install 'roundwise[sim]'`, or save the table as CSV UTF-8."
        ) from None
    except Exception as error:  # as for Excel
        raise _damaged(name, "a Parquet file", error) from None
    sheet = frame_sheet(name, frame)
    sheet.digest = lambda: digest
    return sheet


def _cells(name: str, column: Any) -> Sequence[Any]:
    cells: Any = column.to_numpy() if hasattr(column, "to_numpy") else column
    array: Any = cells if isinstance(cells, np.ndarray) else np.array(list(cells), dtype=object)
    if array.ndim != 1:
        raise DataError(f"{name}: a column is itself a table. Give one value a row.")
    return array


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


def _damaged(name: str, what: str, error: Exception) -> DataError:
    reason = str(error).strip().partition("\n")[0][:200]
    return problem(name, f"cannot be read as {what} ({reason}).", "If the file was cut or damaged, write it again.")
