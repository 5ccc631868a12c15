"""Readers of tables: delimited text, JSON, data frames, Parquet; the kind of a file is detected by its first bytes.

A file is read once, and its digest is taken of the very bytes that were parsed (of a compressed file, unpacked). DuckDB
is imported only here, `excel` when a workbook is opened.
"""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import importlib
import io
import json
import math
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any, BinaryIO, cast

import numpy as np

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError, refusal
from roundwise.formats.paths import Absent, follow, is_starred, nested_rows
from roundwise.formats.requests import arm_keys, parse_request_id
from roundwise.formats.sheet import (
    UNPACKED,
    Chunk,
    LimitedGzip,
    Limits,
    Problems,
    Sheet,
    blank,
    damaged,
    digest_of,
    empty,
    is_frame,
    is_path,
    opened,
    too_large,
    where_header_is,
)
from roundwise.formats.sources import (
    File,
    Wanted,
    archive_sheet,
    refuse_database,
    refuse_search,
    source_of,
    source_sheet,
    split_names,
)
from roundwise.messages import list_quoted, quoted, shown

BLOCK = 1 << 20  # bytes read at once
PEEKED = 1 << 13  # of them looked at for a header that is not at the top
ROWS = 2000  # rows that `csv` hands over at once; many more, and Python's garbage collector takes half of the time
_LONGEST = 1 << 24  # bytes of one line, beyond which this is not a table
csv.field_size_limit(max(_LONGEST, csv.field_size_limit()))  # answers of a model take more than the usual 128 kB
_KINDS = {
    b"\x1f\x8b": ("is compressed twice", "Unpack it first."),
    b"PK\x03\x04": ("is a compressed workbook or archive", "Unpack it first."),
    b"PAR1": ("is a compressed Parquet file", "Unpack it first."),
    b"\xd0\xcf\x11\xe0": ("is a workbook of an old Excel (.xls)", "Save it as .xlsx or as CSV UTF-8."),
    b"\x28\xb5\x2f\xfd": ("is compressed with Zstandard", "Unpack it first, or compress it with gzip."),
    b"BZh91AY&SY": ("is compressed with bzip2", "Unpack it first, or compress it with gzip."),
    b"\xfd7zXZ\0": ("is compressed with xz", "Unpack it first, or compress it with gzip."),
    b"%PDF": ("is a PDF document", "Export the table as CSV UTF-8."),
    b"<!DOCTYPE html": ("is a web page", "If it is the page of a login, sign in and download the table again."),
    b"\xff\xfe": ("is text in UTF-16", "Save it as CSV UTF-8."),
    b"\xfe\xff": ("is text in UTF-16", "Save it as CSV UTF-8."),
}


class Blocks:
    """A file in blocks of whole lines, with its digest."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name, self._file, self._hash, self._rest, self._ended = name, file, hashlib.sha256(), b"", False
        self.line = 1  # the line the next block starts with
        self.cut = False  # whether the file ended without a line end
        self._rest = self._more().removeprefix(b"\xef\xbb\xbf")

    def first_line(self) -> str:
        """The next line, without its end."""
        while not re.search(rb"\n|\r[^\n]", self._rest) and not self._ended:
            self._more()
        found = re.match(rb"([^\r\n]*)(\r\n|\n|\r|$)", self._rest)
        assert found is not None
        self._rest = self._rest[found.end() :]
        text = self.decoded(found[1])
        self.line += 1
        return text

    def ahead(self) -> list[str]:
        """A few of the lines that are next, which stay."""
        return self._rest[:PEEKED].decode(errors="replace").splitlines()[:20]

    def next(self) -> bytes:
        """The next block, empty at the end."""
        while True:
            if not self._ended:
                self._more()
            end = len(self._rest)
            if not self._ended:
                end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r", 0, end - 1)) + 1
            if end or self._ended:
                block, self._rest = self._rest[:end], self._rest[end:]
                return block

    def decoded(self, block: bytes) -> str:
        try:
            return block.decode()
        except UnicodeDecodeError as error:
            line = self.line + breaks(block[: error.start].decode())
            raise refusal(
                f"{self.name}, line {line}", "this is not text in UTF-8.", "Save the table as CSV UTF-8."
            ) from None

    @property
    def done(self) -> bool:
        return self._ended and not self._rest

    def digest(self) -> str:
        """Of the whole file."""
        return self._hash.hexdigest()

    def _more(self) -> bytes:
        try:
            data = self._file.read(BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(self.name, "a compressed file", error) from None
        kind = next((kind for magic, kind in _KINDS.items() if self.line == 1 and data.startswith(magic)), None)
        if kind is not None:
            raise DataError(f"{self.name} {kind[0]}. {kind[1]}")
        if b"\0" in data:
            raise DataError(f"{self.name} is a binary file, not a table. Give a CSV, Excel (.xlsx) or Parquet file.")
        self._hash.update(data)
        self._ended = not data
        if data:
            self.cut = data[-1:] not in (b"\n", b"\r")
        self._rest += data
        if len(self._rest) > _LONGEST + BLOCK:
            raise DataError(
                f"{self.name}, line {self.line}: a line of over {_LONGEST >> 20} MB is not part of a table."
            )
        return self._rest


def text_sheet(name: str, file: BinaryIO, known: Collection[str]) -> Sheet:
    """The table in a text file. The delimiter is the one under which most of the header is `known`."""
    blocks = Blocks(name, file)
    line = ""
    while not line.strip(" \t,;") or re.fullmatch(r"sep=.", line.strip()):
        if blocks.done:
            raise empty(name)
        at, line = blocks.line, blocks.first_line()
    headers = {delimiter: _fields(line, delimiter) for delimiter in ",;\t"}
    found = {d: len({title.strip().casefold() for title in header} & set(known)) for d, header in headers.items()}
    delimiter = max(headers, key=lambda d: (found[d], len(headers[d])))
    header = headers[delimiter]
    if not header:
        raise refusal(f"{name}, line {at}", "the header cannot be read (a quote is not closed?).", "Correct it.")

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        width = max((i for i, title in enumerate(header) if title.strip()), default=0) + 1
        while block := blocks.next():
            text = blocks.decoded(block)
            flat = _plain(block, text, delimiter, len(header), width)
            if flat is None:
                yield from _quoted(blocks, text, delimiter, width, places, sheet.problems)
                break
            columns = [flat[place :: len(header)] for place in places]
            lines = range(blocks.line, blocks.line + len(columns[0]))
            blocks.line = lines.stop
            yield Chunk(lines, columns)
        if blocks.cut:
            sheet.note("possibly_cut")

    below = ((at + 1 + k, [_fields(each, d) for d in ",;\t"]) for k, each in enumerate(blocks.ahead()))
    hint = where_header_is(header, below, known, "line")
    sheet = Sheet(name, header, chunks, blocks.digest, "line", at, delimiter == ";", hint)
    return sheet


def breaks(text: str) -> int:
    """How many lines end in the text."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _fields(line: str, delimiter: str) -> list[str]:
    """The cells of the header under a delimiter; none if that cannot be the delimiter."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def _plain(block: bytes, text: str, delimiter: str, fields: int, width: int) -> list[str] | None:
    """All fields of a block, if no line of it has a quote, or more or fewer fields than the header."""
    if b'"' in block:
        return None
    if b"\r" in block:
        block, text = block.replace(b"\r\n", b"\n"), text.replace("\r\n", "\n")
        if b"\r" in block:
            return None
    if not block.endswith(b"\n"):
        block, text = block + b"\n", text + "\n"
    letters = np.frombuffer(block, dtype=np.uint8)
    separators = letters[(letters == ord(delimiter)) | (letters == ord("\n"))]
    if separators.size % fields:
        return None
    by_line = separators.reshape(-1, fields)
    if not ((by_line[:, :-1] == ord(delimiter)).all() and (by_line[:, -1] == ord("\n")).all()):
        return None
    flat = text[:-1].replace("\n", delimiter).split(delimiter)
    if any("".join(flat[extra::fields]).strip() for extra in range(width, fields)):
        return None  # something beyond the last column that has a name
    return flat


def _quoted(
    blocks: Blocks, text: str, delimiter: str, width: int, places: Sequence[int], problems: Problems
) -> Iterator[Chunk]:
    """The rest of the file, row by row."""
    first = blocks.line

    def lines() -> Iterator[str]:
        rest = text
        while rest:
            yield from io.StringIO(rest, newline="")
            blocks.line += breaks(rest)
            rest = blocks.decoded(blocks.next())

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    failure: csv.Error | None = None
    ended = False
    while not ended:
        rows: list[list[str]] = []
        start = first + reader.line_num
        try:
            rows.extend(islice(reader, ROWS))  # the rows before a failure stay
        except csv.Error as error:
            failure = error
        ended = len(rows) < ROWS
        numbers: Sequence[int] = range(start, start + len(rows) + 1)  # of each row, and of what comes after them
        if failure is not None or first + reader.line_num != numbers[-1]:
            numbers = [start, *(start + np.cumsum([1 + sum(map(breaks, row)) for row in rows], dtype=int)).tolist()]
        lines_of = numbers[:-1]
        if set(map(len, rows)) != {width}:
            kept = [k for k, row in enumerate(rows) if _is_row(problems, numbers[k], row, width)]
            lines_of, rows = [numbers[k] for k in kept], [rows[k][:width] for k in kept]
        if rows:
            turned = list(zip(*rows, strict=True))
            yield Chunk(lines_of, [turned[place] for place in places])
    if failure is not None:
        raise refusal(
            f"{blocks.name}, line {numbers[-1]}",
            "a quote that opens here is not closed, or something follows the closing quote.",
            "If the file was cut, write it again; else correct the quotes.",
        )


def _is_row(problems: Problems, line: int, row: list[str], width: int) -> bool:
    """Whether a line has cells, and not one too many or too few."""
    if not any(cell.strip() for cell in row):
        return False
    few, many = len(row) < width, any(cell.strip() for cell in row[width:])
    if few or many:
        found = f"the header has {width} columns, but this line {len(row)}."
        remedy = (
            "If the file was cut, write it again; else complete the line."
            if few
            else "Quote cells that hold the delimiter; numbers with a decimal comma need semicolons between columns."
        )
        problems.one("too few cells" if few else "too many cells", line, found, remedy)
    return not (few or many)


OBJECTS = 2000  # objects handed over at once
DOCUMENT = 256 << 20  # bytes of a document that is read whole


def json_sheet(name: str, path: str, file: BinaryIO, wanted: Wanted) -> Sheet:
    """One object a line if the first line is a whole object, and else one document; also a file of another tool."""
    blocks = Blocks(name, file)
    line = ""
    while not line.strip() and not blocks.done:
        at, line = blocks.line, blocks.first_line()
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        first = None
    scalar = isinstance(first, dict) and not any(isinstance(each, list | dict) for each in first.values())
    about = File(name, path, wanted)
    if scalar or (isinstance(first, dict) and not blocks.done):
        return _lines(about, blocks, at, line)
    return _document(about, blocks, line)


def _lines(about: File, blocks: Blocks, at: int, line: str) -> Sheet:
    name = about.name

    def groups() -> Iterator[list[tuple[int, Plain]]]:
        group = [(at, _object(name, at, line))]
        while block := blocks.next():
            for text in blocks.decoded(block).replace("\r\n", "\n").split("\n"):
                if text.strip():
                    group.append((blocks.line, _object(name, blocks.line, text)))
                    if len(group) >= OBJECTS:
                        yield group
                        group = []
                blocks.line += 1
            blocks.line -= 1  # after its last line end there was nothing yet
        if group:
            yield group

    rest = groups()
    first = next(rest)
    if (source := source_of(first[0][1])) is not None:
        return source_sheet(source, about, chain(first, chain.from_iterable(rest)), blocks.digest, "line")
    header = list(dict.fromkeys(key for _, each in first for key in each))
    header += _paths(about, [each for _, each in first], header)

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        for group in chain([first], rest):
            cells = [[_cell(each, header[place]) for _, each in group] for place in places]
            yield Chunk([line for line, _ in group], cells)
        if blocks.cut:
            sheet.note("possibly_cut")

    sheet = Sheet(name, header, chunks, blocks.digest, "line", at)
    return sheet


def _paths(about: File, objects: Sequence[Plain], header: Collection[str]) -> list[str]:
    """The columns that are paths into objects: of those that the user named, what is no key and is in some object."""
    names = (title for title in about.wanted.titles if title not in header)
    return [title for title in names if any(follow(each, title) is not Absent for each in objects)]


def _cell(given: Plain, title: str) -> object:
    if title in given:
        return given[title]
    found = follow(given, title) if "." in title or "[" in title else None
    return None if found is Absent else found


def _object(name: str, line: int, text: str) -> Plain:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(f"{name}, line {line}", error) from None
    if not isinstance(found, dict):
        raise refusal(
            f"{name}, line {line}", 'this is not an object such as {"arm": "a", "outcome": 1}.', "Correct it."
        )
    return {str(key).strip(): cell for key, cell in found.items()}


def _document(about: File, blocks: Blocks, line: str) -> Sheet:
    name = about.name
    pieces = [line]
    size = len(line)
    while block := blocks.next():
        pieces.append(blocks.decoded(block))
        size += len(block)
        blocks.line += pieces[-1].count("\n")
        if size > DOCUMENT:
            raise DataError(f"{name} is a JSON document of over {DOCUMENT >> 20} MB. Give one object per line instead.")
    text = "\n".join(pieces[:2]) + "".join(pieces[2:])
    if not text.strip():
        raise empty(name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(name, error) from None
    digest = blocks.digest()
    if any(map(is_starred, about.wanted.titles)):
        rows = nested_rows(name, found, about.wanted.titles)
        return _of_columns(name, {path: [row[path] for row in rows] for path in about.wanted.titles}, digest)
    members = found if isinstance(found, list) else [found]
    if members and (source := source_of(members[0])) is not None:
        if not all(isinstance(each, dict) for each in members):
            raise damaged(name, source.title, ValueError("a member is not an object"))
        return source_sheet(source, about, enumerate(members, 1), lambda: digest, "row")
    if isinstance(found, dict):
        tables = [each for each in found.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
        if len(tables) == 1:
            found = tables[0]
        elif all(isinstance(each, list) for each in found.values()):
            return _of_columns(name, {str(key): each for key, each in found.items()}, digest)
        elif _is_indexed(found):
            return _of_columns(name, {str(key): list(each.values()) for key, each in found.items()}, digest)
        else:
            found = [found]
    if not found:
        raise empty(name)
    if not all(isinstance(each, dict) for each in found):
        raise refusal(
            name,
            "this JSON is not a table.",
            'Give a list of objects such as [{"arm": "a", "outcome": 1}, ...], or one object per line.',
        )
    header = list(dict.fromkeys(str(key) for each in found for key in each))
    header += _paths(about, found, header)
    return _of_columns(name, {key: [_cell(each, key) for each in found] for key in header}, digest)


def _is_indexed(found: Plain) -> bool:
    """Whether columns are objects with the numbers of their rows as keys, as `DataFrame.to_json` writes them."""
    indices = {tuple(each) if isinstance(each, dict) else () for each in found.values()}
    return len(indices) == 1 and any(indices) and all(key.isdecimal() for each in indices for key in each)


def _of_columns(name: str, columns: dict[str, list[object]], digest: str) -> Sheet:
    header = list(columns)
    lengths = {len(each) for each in columns.values()}
    if len(lengths) > 1:
        raise DataError(f"{name}: the columns have different lengths. Give as many arms as values.")

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        for start in range(0, max(lengths, default=0), OBJECTS):
            cells = [columns[header[place]][start : start + OBJECTS] for place in places]
            yield Chunk(range(start + 1, start + 1 + len(cells[0])), cells)

    return Sheet(name, header, chunks, lambda: digest)


def _not_json(where: str, error: Exception) -> DataError:
    if isinstance(error, RecursionError):
        reason = "it is nested too deeply"
    elif isinstance(error, json.JSONDecodeError):
        reason = f"{shown(error.msg, 80)}, line {error.lineno}, column {error.colno}"
    else:
        reason = "a number has thousands of digits"
    return refusal(where, f"this is not JSON ({reason}).", "If the file was cut, write it again.")


FRAME_ROWS = 50_000  # of a data frame, handed over at once
TUPLES = 2000  # of a Parquet file: more, and the garbage collector takes half of the time
COLUMNS = "application/vnd.roundwise.columns+json"  # the kind of a data frame that is sent
NESTED = ("[", "STRUCT", "MAP", "UNION", "VARIANT")  # in kinds of DuckDB: no cell, and nothing limits how long it is
LENGTHS = {"VARCHAR": "strlen", "BLOB": "octet_length"}  # what DuckDB measures texts with, in bytes
_DUCKDB = {"autoinstall_known_extensions": "false", "memory_limit": "1GB", "threads": "1"}


def frame_sheet(name: str, frame: Any) -> Sheet:
    """A data frame of pandas or polars, an Arrow table, or a mapping from names to columns. Rows count from 1."""
    labels = _labels(frame)
    index = getattr(getattr(frame, "index", None), "name", None)
    hint = "The arms are the index: call `reset_index()` first. " if str(index).strip().casefold() == "arm" else ""

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        columns = [_cells(name, frame[labels[place]]) for place in places]
        sizes = {len(column) for column in columns}
        if len(sizes) > 1:
            raise DataError(f"{name}: the columns have different lengths. Give as many arms as values.")
        for start in range(0, max(sizes, default=0), FRAME_ROWS):
            some = [column[start : start + FRAME_ROWS] for column in columns]
            yield Chunk(range(start + 1, start + 1 + len(some[0])), some)

    return Sheet(name, [str(label) for label in labels], chunks, hint=hint)


def columns_of(name: str, frame: Any) -> dict[str, list[Any]]:
    """A data frame as JSON has it: cells that hold nothing are null, times are texts."""
    labels = _labels(frame)
    return {str(label): [_json_cell(cell) for cell in _cells(name, frame[label])] for label in labels}


def _labels(frame: Any) -> list[Any]:
    """The titles of a frame; the `columns` of an Arrow table are their contents."""
    if isinstance(frame, Mapping):
        return list(frame)
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _json_cell(cell: Any) -> str | int | float | bool | None:
    if blank(cell):
        return None
    if isinstance(cell, np.datetime64):
        return str(cell)
    if isinstance(cell, np.generic):
        return _json_cell(cell.item())
    if isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else str(cell)
    return str(cell.isoformat()) if hasattr(cell, "isoformat") else str(cell)


def parquet_sheet(name: str, path: str, file: BinaryIO, limits: Limits | None = None) -> Sheet:
    """A Parquet file, through DuckDB. Rows count from 1."""
    digest = digest_of(file)
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        install = "Run `pip install 'roundwise[frames]'`, or save the table as CSV UTF-8."
        raise refusal(name, "Parquet files need DuckDB.", install) from None
    pattern = glob.escape(os.path.abspath(path))  # DuckDB takes stars and brackets for patterns, and s3:// for a place
    config = _DUCKDB if limits is None else _DUCKDB | {"memory_limit": f"{2 * limits.unpacked}B"}

    def broken(error: Exception) -> DataError:  # an upload lies elsewhere than its name says
        if limits is not None and isinstance(error, duckdb.OutOfMemoryException):
            return too_large(name)
        return damaged(name, "a Parquet file", Exception(str(error).replace(pattern, name)))

    def fetched(selected: str) -> Iterator[list[tuple[Any, ...]]]:
        try:
            with duckdb.connect(config=config) as connection:
                result = connection.execute(f"{selected} from read_parquet(?)", [pattern])
                while rows := result.fetchmany(TUPLES):
                    yield rows
        except Exception as error:  # what a damaged file raises is nowhere promised
            raise broken(error) from None

    described = [row for rows in fetched("describe select *") for row in rows]
    header, kinds = ([str(row[i]) for row in described] for i in range(2))

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        names = ['"' + header[place].replace('"', '""') + '"' for place in places]
        wanted = [(column, kinds[place]) for column, place in zip(names, places, strict=True)]
        if limits is not None:  # a text of a dictionary is stored once, but is read in every row that has it
            ((number,),) = next(fetched("select count(*)"))
            limits.check_rows(name, number)
            sizes = [f"sum({LENGTHS[kind]}({column}))" for column, kind in wanted if kind in LENGTHS]
            if sizes:
                (found,) = next(fetched(f"select {', '.join(sizes)}"))
                if sum(int(each or 0) for each in found) > limits.unpacked:
                    raise too_large(name)
        cells = ("'(nested)'" if any(each in kind for each in NESTED) else column for column, kind in wanted)
        start = 1
        for rows in fetched(f"select {', '.join(cells)}"):
            yield Chunk(range(start, start + len(rows)), list(zip(*rows, strict=True)))
            start += len(rows)

    return Sheet(name, header, chunks, lambda: digest)


def _cells(name: str, column: Any) -> Sequence[Any]:
    cells: Any = column.to_numpy() if hasattr(column, "to_numpy") else column
    try:
        array: Any = cells if isinstance(cells, np.ndarray) else np.array(list(cells), dtype=object)
    except TypeError:
        raise DataError(f"{name}: a column is {shown(cells)}, not a list of values.") from None
    if array.ndim != 1:
        raise DataError(f"{name}: a column is itself a table. Give one value per row.")
    return array


def sheet_of(
    source: object, path: str, name: str, known: set[str], stack: ExitStack, wanted: Wanted | None = None
) -> Sheet:
    """Open any source as a table; uploaded sources have limits."""
    limits: Limits | None = getattr(source, "limits", None)
    wanted = wanted or Wanted()
    found = _sheet(source, path, name, known, stack, limits, wanted)
    found = found if "arm" in found.roles else _with_names(found, wanted)
    return found if limits is None else limits.counted(found)


def _with_names(sheet: Sheet, wanted: Wanted) -> Sheet:
    """The table, and if one of its columns holds the names of arm and item, with columns for them."""
    titles = [title.strip() for title in sheet.header]
    if (pattern := wanted.pattern) is not None:
        if pattern.path not in titles:
            found = list_quoted([title for title in titles if title])
            raise refusal(
                sheet.top, f"there is no column {quoted(pattern.path)}, only {found}.", "Correct the pattern."
            )
        return split_names(sheet, titles.index(pattern.path), pattern.names, wanted.columns["arm"])
    if wanted.arms and "custom_id" in titles and "arm" not in titles and "arm" not in wanted.columns:
        keys = arm_keys(wanted.arms)
        return split_names(
            sheet, titles.index("custom_id"), lambda text: parse_request_id(str(text), keys), "rw-{arm}-{item}"
        )
    return sheet


def _sheet(
    source: object, path: str, name: str, known: set[str], stack: ExitStack, limits: Limits | None, wanted: Wanted
) -> Sheet:
    if is_frame(source):
        if hasattr(source, "collect"):
            raise InputError(f"The {name} is lazy: its rows are not there yet. Give the result of its `collect()`.")
        return frame_sheet(name, source)
    if not is_path(source):
        raise InputError(f"Results come from a file or a data frame, not from a value of type {type(source).__name__}.")
    file = stack.enter_context(opened(path))
    start = _start(file)
    if start.startswith(b"PAR1"):
        return parquet_sheet(name, path, file, limits)
    if start.startswith(b"PK\x03\x04"):
        from roundwise.formats.excel import excel_sheet, is_workbook

        most = UNPACKED if limits is None else limits.unpacked
        if is_workbook(file, path):
            return excel_sheet(name, file, known, most)
        return archive_sheet(name, path, file, wanted, most)
    if start.startswith(b"SQLite format 3\0"):
        raise refuse_database(name, path)
    for suffix, what in ((".xlsx", "an Excel workbook"), (".parquet", "a Parquet file")):
        if start and path.lower().endswith(suffix):
            raise refusal(name, f"this is not {what}, whatever its name.", "Write it again, or rename it to .csv.")
    if start.startswith(b"\x1f\x8b"):
        unpacked = gzip.GzipFile(fileobj=file) if limits is None else LimitedGzip(name, file, limits.unpacked)
        file = cast(BinaryIO, stack.enter_context(unpacked))
        try:
            start = _start(file)
        except (OSError, EOFError, zlib.error) as error:
            raise damaged(name, "a compressed file", error) from None
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return json_sheet(name, path, file, wanted)
    sheet = text_sheet(name, file, known)
    if {"number", "value", "state"} <= set(sheet.header) and any(each.startswith("params_") for each in sheet.header):
        raise refuse_search(name, [])
    return sheet


def _start(file: Any) -> bytes:
    return bytes(file.peek(64)[:64]) if hasattr(file, "peek") else b""
