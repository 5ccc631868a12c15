"""Tables in JSON: one object a line, a list of objects, or an object of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from roundwise.arrays import Plain
from roundwise.errors import DataError
from roundwise.studies.results.sheets import Chunk, Sheet, empty
from roundwise.studies.results.text import Blocks
from roundwise.studies.results.words import refusal, shown

ROWS = 2000  # objects handed over at once
LARGEST = 256 << 20  # bytes of a document that is read whole


def is_json(start: bytes) -> bool:
    """Whether a file that starts so holds objects or lists."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def json_sheet(name: str, file: BinaryIO) -> Sheet:
    """One object a line if the first line is a whole object, and else one document."""
    blocks = Blocks(name, file)
    line = ""
    while not line.strip() and not blocks.done:
        at, line = blocks.line, blocks.first_line()
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        first = None
    scalar = isinstance(first, dict) and not any(isinstance(each, list | dict) for each in first.values())
    if scalar or (isinstance(first, dict) and not blocks.done):
        return _lines(name, blocks, at, line)
    return _document(name, blocks, line)


def _lines(name: str, blocks: Blocks, at: int, line: str) -> Sheet:
    def groups() -> Iterator[list[tuple[int, Plain]]]:
        group = [(at, _object(name, at, line))]
        while block := blocks.next():
            for text in blocks.decoded(block).replace("\r\n", "\n").split("\n"):
                if text.strip():
                    group.append((blocks.line, _object(name, blocks.line, text)))
                    if len(group) >= ROWS:
                        yield group
                        group = []
                blocks.line += 1
            blocks.line -= 1  # after its last line end there was nothing yet
        if group:
            yield group

    rest = groups()
    first = next(rest)
    header = list(dict.fromkeys(key for _, each in first for key in each))

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        for group in chain([first], rest):
            cells = [[each.get(header[place]) for _, each in group] for place in places]
            yield Chunk([line for line, _ in group], cells)
        if blocks.cut:
            sheet.notes.append(f"{name}: the last line has no line end; check that the file was not cut.")

    sheet = Sheet(name, header, chunks, blocks.digest, "line", at)
    return sheet


def _object(name: str, line: int, text: str) -> Plain:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(f"{name}, line {line}", error) from None
    if not isinstance(found, dict):
        raise refusal(f"{name}, line {line}", 'this is no object such as {"arm": "a", "outcome": 1}.', "Correct it.")
    return {str(key).strip(): cell for key, cell in found.items()}


def _document(name: str, blocks: Blocks, line: str) -> Sheet:
    pieces = [line]
    size = len(line)
    while block := blocks.next():
        pieces.append(blocks.decoded(block))
        size += len(block)
        blocks.line += pieces[-1].count("\n")
        if size > LARGEST:
            raise DataError(f"{name} is a JSON document of over {LARGEST >> 20} MB. Give one object a line instead.")
    text = "\n".join(pieces[:2]) + "".join(pieces[2:])
    if not text.strip():
        raise empty(name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(name, error) from None
    digest = blocks.digest()
    if isinstance(found, dict):
        tables = [each for each in found.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
        if len(tables) == 1:
            found = tables[0]
        elif all(isinstance(each, list) for each in found.values()):
            return _of_columns(name, {str(key): each for key, each in found.items()}, digest)
        else:
            found = [found]
    if not found:
        raise empty(name)
    if not all(isinstance(each, dict) for each in found):
        raise refusal(
            name,
            "this JSON is no table.",
            'Give a list of objects such as [{"arm": "a", "outcome": 1}, ...], or one object a line.',
        )
    header = list(dict.fromkeys(str(key) for each in found for key in each))
    return _of_columns(name, {key: [each.get(key) for each in found] for key in header}, digest)


def _of_columns(name: str, columns: dict[str, list[object]], digest: str) -> Sheet:
    header = list(columns)
    lengths = {len(each) for each in columns.values()}
    if len(lengths) > 1:
        raise DataError(f"{name}: the columns have different lengths. Give as many arms as values.")

    def chunks(places: Sequence[int]) -> Iterator[Chunk]:
        for start in range(0, max(lengths, default=0), ROWS):
            cells = [columns[header[place]][start : start + ROWS] for place in places]
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
