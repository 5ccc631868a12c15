"""Excel workbooks (.xlsx): the cells of the first sheet, row by row.

A workbook is a zip of XML. Missing cells take no memory, so one in the last corner of a sheet costs nothing. Only the
standard library is used.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError, iterparse

from roundwise.formats.sheet import UNPACKED, Chunk, Sheet, blank, damaged, digest_of, empty, where_header_is
from roundwise.messages import quoted

ROWS = 2000  # handed over at once
PEEKED = 20  # looked at for a header that is not at the top
WIDEST = 16_384  # columns of a sheet
_SHARED = 128 << 20  # letters of all texts together
_PART = 1 << 26  # bytes of the parts that list sheets
_FAILURES = (
    zipfile.BadZipFile, ParseError, KeyError, ValueError, IndexError, zlib.error, NotImplementedError, RuntimeError,
    EOFError, OverflowError, RecursionError, MemoryError, AttributeError, TypeError,
)  # fmt: skip


def is_workbook(file: BinaryIO, path: str) -> bool:
    """Whether a zip is a workbook, or so damaged that only its name says what it was."""
    try:
        names = zipfile.ZipFile(file).namelist()
        return "[Content_Types].xml" in names or any(name.startswith("xl/") for name in names)
    except _FAILURES:
        return not path.lower().endswith(".eval")
    finally:
        file.seek(0)


def excel_sheet(name: str, file: BinaryIO, known: Collection[str] = (), largest: int = UNPACKED) -> Sheet:
    """The first sheet of an Excel workbook, of `largest` bytes at most; rows are numbered as Excel does."""
    digest = digest_of(file)
    try:
        book = zipfile.ZipFile(file)
        titles, part = _first_sheet(book)
        texts = _shared_texts(book, largest)
        rows = _rows(book, part, texts, largest)
        top, head = next(((number, row) for number, row in rows if not _empty(row)), (0, {}))
        ahead = list(islice(rows, PEEKED))
    except _FAILURES as error:
        raise damaged(name, "an Excel workbook", error) from None
    if not head:
        raise empty(name)
    width = max(place for place, cell in head.items() if not blank(cell)) + 1
    header = ["" if blank(cell := head.get(place)) else _title(cell) for place in range(width)]

    def rest() -> Iterator[tuple[int, dict[int, object]]]:
        try:
            yield from chain(ahead, rows)
        except _FAILURES as error:
            raise damaged(name, "an Excel workbook", error) from None

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        lines: list[int] = []
        cells: list[list[object]] = [[] for _ in places]
        for number, row in rest():
            if _empty(row):
                continue
            beyond = [place for place, cell in row.items() if place >= width and not blank(cell)]
            if beyond:
                sheet.problems.one(
                    "too many cells",
                    number,
                    f"the header has {width} columns, but there is a cell in column {_letters(beyond[0])}.",
                    "Remove it, or give the column a name.",
                )
                continue
            lines.append(number)
            for column, place in zip(cells, places, strict=True):
                column.append(row.get(place))
            if len(lines) >= ROWS:
                yield Chunk(lines, cells)
                lines, cells = [], [[] for _ in places]
        if lines:
            yield Chunk(lines, cells)

    sheet = Sheet(name, header, chunks, lambda: digest, header_line=top)
    below = ((number, [[_title(cell) for cell in row.values()]]) for number, row in ahead)
    sheet.hint = where_header_is(header, below, known, "row")
    if len(titles) > 1:
        sheet.note("first_sheet", sheets=len(titles), sheet=titles[0])
        sheet.hint += f"Only the first of {len(titles)} sheets, {quoted(titles[0])}, is read. "
    return sheet


def _first_sheet(book: zipfile.ZipFile) -> tuple[list[str], str]:
    """The names of the sheets, and the part of the zip that holds the first of them."""
    links = {
        each.get("Id", ""): each.get("Target", "")
        for each in _elements(book, "xl/_rels/workbook.xml.rels", "Relationship")
    }
    sheets = _elements(book, "xl/workbook.xml", "sheet")
    if not sheets:
        raise ValueError("it has no sheets")
    link = next((value for key, value in sheets[0].attrib.items() if key.endswith("}id")), "")
    part = posixpath.normpath(posixpath.join("/xl", links[link])).lstrip("/")
    return [each.get("name", "") for each in sheets], part


def _elements(book: zipfile.ZipFile, part: str, tag: str) -> list[Element]:
    if book.getinfo(part).file_size > _PART:
        raise ValueError(f"{part} is too large")
    with book.open(part) as source:
        return [each for _, each in iterparse(source) if _local_name(each) == tag]


def _shared_texts(book: zipfile.ZipFile, largest: int) -> list[str]:
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    if book.getinfo("xl/sharedStrings.xml").file_size > largest:
        raise ValueError("its texts are too large; save it as CSV UTF-8")
    texts: list[str] = []
    size = 0
    with book.open("xl/sharedStrings.xml") as source:
        root: Element | None = None
        for event, each in iterparse(source, ("start", "end")):
            root = each if root is None else root
            if event == "end" and _local_name(each) == "si":
                texts.append(_text(each))
                size += len(texts[-1]) + 64
                if size > _SHARED:
                    raise ValueError("its texts are too large; save it as CSV UTF-8")
                root.clear()
    return texts


def _rows(
    book: zipfile.ZipFile, part: str, texts: Sequence[str], largest: int
) -> Iterator[tuple[int, dict[int, object]]]:
    """The rows that have cells: their number, and their cells by column."""
    if book.getinfo(part).file_size > largest:
        raise ValueError(f"a sheet of over {largest >> 20} MB; save it as CSV UTF-8")
    number = ended = 0
    with book.open(part) as source:
        data: Element | None = None
        for event, each in iterparse(source, ("start", "end")):
            tag = _local_name(each)
            ended += 1
            if ended > 20 * WIDEST:
                raise ValueError("a row of more cells than a sheet has columns")
            if event == "start":
                data = each if tag == "sheetData" else data
            elif tag == "row":
                ended = 0
                number = int(each.get("r", number + 1))
                cells: dict[int, object] = {}
                last = -1
                for cell in each:
                    if _local_name(cell) == "c":
                        at = cell.get("r")
                        last = last + 1 if at is None else _column(at)
                        cells[last] = _cell(cell, texts)
                yield number, cells
                if data is not None:
                    data.clear()


def _cell(cell: Element, texts: Sequence[str]) -> object:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    value = next((each.text for each in cell if _local_name(each) == "v"), None)
    if value is None and kind != "str":  # a formula that was never computed is not an empty cell
        return next((f"={each.text or ''}" for each in cell if _local_name(each) == "f"), None)
    if value is None:
        return None
    if kind == "s":
        place = int(value)
        if place < 0:
            raise IndexError("a text that is not there")
        return texts[place]
    if kind == "b":
        return value.strip() == "1"
    return float(value) if kind == "n" and "_" not in value else value


def _text(element: Element) -> str:
    """The text of a cell: all its runs, but not how they are pronounced."""
    pieces = []
    for each in element:
        if _local_name(each) == "t":
            pieces.append(each.text or "")
        elif _local_name(each) in ("r", "is"):
            pieces.append(_text(each))
    return "".join(pieces)


def _column(at: str) -> int:
    """The number of a column from a place such as AB12, from 0.

    >>> _column("A1"), _column("XFD1048576")
    (0, 16383)
    """
    letters = re.match(r"[A-Z]{1,3}", at)
    if letters is None:
        raise ValueError(f"a cell at {at[:20]}")
    found = 0
    for letter in letters[0]:
        found = 26 * found + ord(letter) - 64
    if found > WIDEST:
        raise ValueError(f"a cell at {at[:20]}")
    return found - 1


def _letters(column: int) -> str:
    """What Excel calls a column.

    >>> _letters(0), _letters(16383)
    ('A', 'XFD')
    """
    said = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        said = chr(65 + rest) + said
    return said


def _title(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _empty(row: dict[int, object]) -> bool:
    return all(blank(cell) for cell in row.values())
