"""Text tables: comma, semicolon or tab, UTF-8, quoted or not. Plain blocks are split at once, others by `csv`.

A file is read once, and its digest is taken of the very bytes that were parsed (of a compressed file, unpacked).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

import numpy as np

from roundwise.errors import DataError
from roundwise.formats.messages import refusal
from roundwise.formats.sheet import Chunk, Problems, Sheet, damaged, empty

BLOCK = 1 << 20  # bytes read at once
ROWS = 2000  # rows that `csv` hands over at once; many more, and Python's garbage collector takes half of the time
_LONGEST = 1 << 24  # bytes of one line, beyond which this is no table
_KINDS = {
    b"\x1f\x8b": ("is compressed twice", "Unpack it first."),
    b"PK\x03\x04": ("is a compressed workbook or archive", "Unpack it first."),
    b"PAR1": ("is a compressed Parquet file", "Unpack it first."),
    b"\xd0\xcf\x11\xe0": ("is a workbook of an old Excel (.xls)", "Save it as .xlsx or as CSV UTF-8."),
    b"%PDF": ("is a PDF document", "Export the table as CSV UTF-8."),
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
        """The block as text."""
        try:
            return block.decode()
        except UnicodeDecodeError as error:
            line = self.line + breaks(block[: error.start].decode())
            raise refusal(
                f"{self.name}, line {line}", "this is not text in UTF-8.", "Save the table as CSV UTF-8."
            ) from None

    @property
    def done(self) -> bool:
        """Whether everything was handed out."""
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
            sheet.notes.append(f"{name}: the last line has no line end; check that the file was not cut.")

    sheet = Sheet(name, header, chunks, blocks.digest, "line", at, delimiter == ";")
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
