"""A small table: its rows, and their cells by column name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from roundwise.errors import DataError
from roundwise.formats.readers import sheet_of
from roundwise.formats.sheet import Numbers, Sheet, blank, name_in, unreadable
from roundwise.messages import quoted, shown


class _Writing:
    """Whether numbers use a decimal point or a decimal comma, consistently."""

    def __init__(self, sheet: Sheet) -> None:
        self.comma, self.unit = sheet.decimal_comma, sheet.unit
        self.numbers = Numbers("", sheet.decimal_comma)
        self._signs: dict[str, int] = {}  # the first line with each

    def agree(self, row: TableRow, cell: object) -> None:
        """Raise an error where a number has a decimal comma and another a point."""
        for sign in ",.":
            if isinstance(cell, str) and sign in cell:
                self._signs.setdefault(sign, row.line)
        if len(self._signs) > 1:
            lines = f"{self.unit}s {self._signs[',']} and {self._signs['.']}"
            raise DataError(f"{row.where}: some numbers have a comma, others a point ({lines}). Use one of them.")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    name: str  # of the table
    line: int
    cells: Mapping[str, object]
    writing: _Writing

    @property
    def where(self) -> str:
        return f"{self.name}, {self.writing.unit} {self.line}"

    def text(self, column: str) -> str:
        """What stands in a column, empty if nothing does."""
        return name_in(self.cells[column])

    def number(self, column: str, called: str | None = None) -> float:
        """The finite number in a column; `called` is what an error calls it."""
        cell = self.cells[column]
        if self.writing.comma:
            self.writing.agree(self, cell)
        number = self.writing.numbers.number(cell)
        if not math.isfinite(number) or self.writing.numbers.examples:  # 1,000 may be one or a thousand
            said = quoted(column) if called is None else called
            raise DataError(f"{self.where}: the {said} {quoted(self.text(column))} is not a number.")
        return number

    def numeral(self, column: str) -> str:
        """A number as it is written, with a decimal point."""
        if not self.writing.comma:
            return self.text(column)
        self.writing.agree(self, self.cells[column])
        return self.text(column).replace(",", ".")


def read_rows(path: Path, needed: Sequence[str]) -> tuple[list[str], list[TableRow]]:
    """The names of the columns of a table, some of which are `needed`, and its rows; a DataError says what is wrong."""
    name = shown(path, 200)
    with ExitStack() as stack:
        try:
            sheet = sheet_of(path, str(path), name, {each.casefold() for each in needed}, stack)
            titles = _titles(sheet, needed)
            places = [place for place, title in enumerate(titles) if title]
            nameless = [place for place, title in enumerate(titles) if not title]
            head, writing = [titles[place] for place in places], _Writing(sheet)
            rows: list[TableRow] = []
            for lines, columns in sheet.chunks([*places, *nameless]):
                _empty(sheet, nameless, lines, columns[len(places) :])
                for line, *cells in zip(lines, *columns[: len(places)], strict=True):
                    if not all(map(blank, cells)):
                        rows.append(TableRow(name, int(line), dict(zip(head, cells, strict=True)), writing))
        except OSError as error:
            raise unreadable(str(path), error) from None
    sheet.problems.refuse()
    if not rows:
        raise DataError(f"{name}: the table is empty; it needs a line of column names and at least one more.")
    return head, rows


def _titles(sheet: Sheet, needed: Sequence[str]) -> list[str]:
    """The names of the columns, up to the last that has one."""
    titles = [title.strip() for title in sheet.header]
    while titles and not titles[-1]:
        titles.pop()
    if not titles:
        raise DataError(f"{sheet.top}: no column has a name. The first line names the columns.")
    for column in needed:
        if column not in titles:
            raise DataError(f"{sheet.top}: no column {quoted(column)}. The table needs {shown(','.join(needed), 200)}.")
    twice = next((title for title, times in Counter(titles).items() if title and times > 1), None)
    if twice is not None:
        raise DataError(f"{sheet.top}: two columns are called {quoted(twice)}. Give every column a unique name.")
    return titles


def _empty(sheet: Sheet, places: Sequence[int], lines: Sequence[int], columns: Sequence[Sequence[object]]) -> None:
    """Raise an error where a column without a name has a value."""
    for place, column in zip(places, columns, strict=True):
        for line, cell in zip(lines, column, strict=True):
            if not blank(cell):
                where = f"{sheet.name}, {sheet.unit} {line}"
                raise DataError(f"{where}: column {place + 1} has no name, but a value here. Name it, or remove it.")
