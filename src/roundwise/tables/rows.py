"""A table that is not large, whole: its rows, and what stands in them by the names of their columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roundwise.errors import DataError
from roundwise.tables.cells import Numbers, blank, name_in
from roundwise.tables.words import quoted, shown

if TYPE_CHECKING:
    from roundwise.tables.sheets import Sheet


class _Writing:
    """How the numbers of a table are written: with a point or with a comma, and not now so, now so."""

    def __init__(self, sheet: Sheet) -> None:
        self.comma, self.unit = sheet.decimal_comma, sheet.unit
        self.numbers = Numbers("", sheet.decimal_comma)
        self._signs: dict[str, int] = {}  # the first line with each

    def agree(self, row: Row, cell: object) -> None:
        """Raise an error where a number has a decimal comma and another a point."""
        if not self.comma or not isinstance(cell, str):
            return
        for sign in ",.":
            if sign in cell:
                self._signs.setdefault(sign, row.line)
        if len(self._signs) > 1:
            lines = f"{self.unit}s {self._signs[',']} and {self._signs['.']}"
            raise DataError(f"{row.where}: some numbers have a comma, others a point ({lines}). Use one of them.")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    name: str  # of the table
    line: int
    cells: Mapping[str, object]
    writing: _Writing

    @property
    def where(self) -> str:
        """The file and the line."""
        return f"{self.name}, {self.writing.unit} {self.line}"

    def text(self, column: str) -> str:
        """What stands in a column, empty if nothing does."""
        return name_in(self.cells[column])

    def number(self, column: str, called: str | None = None) -> float:
        """The finite number in a column; `called` is what an error calls it."""
        cell = self.cells[column]
        self.writing.agree(self, cell)
        number = self.writing.numbers.number(cell)
        if not math.isfinite(number) or self.writing.numbers.examples:  # 1,000 may be one or a thousand
            said = quoted(column) if called is None else called
            raise DataError(f"{self.where}: the {said} {quoted(self.text(column))} is not a number.")
        return number

    def numeral(self, column: str) -> str:
        """A number as it is written, with a decimal point."""
        self.writing.agree(self, self.cells[column])
        return self.text(column).replace(",", ".") if self.writing.comma else self.text(column)


def read_rows(path: Path, needed: Sequence[str]) -> tuple[list[str], list[Row]]:
    """The names of the columns of a table, some of which are `needed`, and its rows; a DataError says what is wrong."""
    from roundwise.tables.opening import sheet_of
    from roundwise.tables.sheets import unreadable

    name = shown(path, 200)
    with ExitStack() as stack:
        try:
            sheet = sheet_of(path, str(path), name, {each.casefold() for each in needed}, stack)
            head = _titles(sheet, needed)
            writing, rows = _Writing(sheet), []
            for chunk in sheet.chunks([place for place, _ in head]):
                for line, *cells in zip(chunk.lines, *chunk.columns, strict=True):
                    if not all(map(blank, cells)):
                        rows.append(Row(name, int(line), _named(sheet, line, head, cells), writing))
        except OSError as error:
            raise unreadable(str(path), error) from None
    sheet.problems.refuse()
    if not rows:
        raise DataError(f"{name}: the table is empty; it needs a line of column names and at least one more.")
    return [title for _, title in head if title], rows


def _titles(sheet: Sheet, needed: Sequence[str]) -> list[tuple[int, str]]:
    """The places and names of the columns, up to the last that has a name."""
    head = [(place, title.strip()) for place, title in enumerate(sheet.header)]
    while head and not head[-1][1]:
        head.pop()
    titles = [title for _, title in head if title]
    for column in needed:
        if column not in titles:
            raise DataError(f"{sheet.top}: no column {quoted(column)}. The table needs {shown(','.join(needed), 200)}.")
    twice = next((title for title, times in Counter(titles).items() if times > 1), None)
    if twice is not None:
        raise DataError(f"{sheet.top}: two columns are called {quoted(twice)}. Give every column a name of its own.")
    return head


def _named(sheet: Sheet, line: int, head: Sequence[tuple[int, str]], cells: Sequence[object]) -> dict[str, object]:
    """The cells by the names of their columns."""
    for (place, title), cell in zip(head, cells, strict=True):
        if not title and not blank(cell):
            where = f"{sheet.name}, {sheet.unit} {line}"
            raise DataError(f"{where}: column {place + 1} has no name, but a value here. Name it, or remove it.")
    return {title: cell for (_, title), cell in zip(head, cells, strict=True) if title}
