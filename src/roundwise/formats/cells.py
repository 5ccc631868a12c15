"""What stands in a cell, whatever table it comes from: nothing, a name, a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.formats.messages import shown

LARGEST = 1e100  # of a value: larger ones are mistakes, and their squares could not be added
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}  # what stands for a value that is not there
WORDS = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_REMEMBERED = 100_000  # different texts of a column
_LONGEST = 400  # letters of a number


def blank(cell: object) -> bool:
    """Whether a cell of any table holds nothing."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def no_value(cell: object) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    return blank(cell) or (isinstance(cell, str) and len(cell) < 20 and cell.strip().casefold() in NOTHING)


def name_in(cell: object) -> str:
    """The name in a cell; a number that a table keeps as 3.0 is '3'."""
    if blank(cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    try:
        return str(cell).strip()
    except (ValueError, RecursionError):
        return shown(cell)


class Numbers:
    """The numbers of one column, chunk by chunk, and how they are written: in the outcome also 31 %, yes and no."""

    def __init__(self, title: str, decimal_comma: bool = False, outcome: bool = False) -> None:
        self.title, self._decimal_comma, self._outcome = title, decimal_comma, outcome
        self.examples: dict[str, tuple[str, float]] = {}  # how else numbers are written -> the first such cell
        self.seen: dict[str, int] = {}  # "percent", "plain", "point", "comma" -> the first line
        self._memory: dict[str, tuple[float, str]] = {}

    def read(self, lines: Sequence[int], cells: Sequence[object]) -> tuple[Floats, Bools]:
        """The number in each cell (NaN where there is none), and whether there is no value at all."""
        if self._decimal_comma:
            self._signs(lines, cells)
        try:
            found = self._at_once(cells)
        except (ValueError, TypeError, OverflowError):
            found = None
        if found is not None and not np.isnan(found).any():
            self.seen.setdefault("plain", int(lines[0]) if found.any() else 0)
            if not self.seen["plain"]:
                del self.seen["plain"]
            return found, np.zeros(len(cells), dtype=np.bool_)
        found, missing = np.empty(len(cells)), np.zeros(len(cells), dtype=np.bool_)
        for k, cell in enumerate(cells):
            value, kind = self._remembered(cell)
            found[k] = value
            if kind == "missing":
                missing[k] = True
            elif kind and not (kind == "plain" and not value):
                self.seen.setdefault(kind, int(lines[k]))
        return found, missing

    def number(self, cell: object) -> float:
        """The number in one cell; NaN where there is none."""
        return self._remembered(cell)[0]

    def _remembered(self, cell: object) -> tuple[float, str]:
        if not isinstance(cell, str):
            return self._read(cell)
        found = self._memory.get(cell)
        if found is None:
            found = self._read(cell)
            if len(self._memory) < _REMEMBERED and len(cell) <= _LONGEST:
                self._memory[cell] = found
        return found

    def _read(self, cell: object) -> tuple[float, str]:
        if no_value(cell):
            return np.nan, "missing"
        try:
            if isinstance(cell, str):
                return self._text(cell.strip())
            if isinstance(cell, bool | int | float | Decimal | np.number | np.bool_):
                return float(cell), "plain"
        except OverflowError:
            return np.inf, "plain"
        except (ValueError, TypeError):
            pass
        return np.nan, ""

    def _text(self, text: str) -> tuple[float, str]:
        if len(text) > _LONGEST or "_" in text or not text.isascii():  # which Python would allow
            raise ValueError
        if self._outcome and text.casefold() in WORDS:
            return self._said("word", text, WORDS[text.casefold()]), "word"
        if self._outcome and text.endswith("%"):
            return self._said("percent", text, self._plain(text[:-1].strip()) / 100.0), "percent"
        if not self._decimal_comma and _THOUSANDS.fullmatch(text):
            return self._said("thousands", text, float(text.replace(",", ""))), "plain"
        return self._plain(text), "plain"

    def _plain(self, text: str) -> float:
        return float(text.replace(",", ".") if self._decimal_comma else text)

    def _said(self, kind: str, text: str, value: float) -> float:
        self.examples.setdefault(kind, (text, value))
        return value

    def _at_once(self, cells: Sequence[Any]) -> Floats:
        """All of a column whose cells are plain numbers; else a ValueError or TypeError."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iufb":
            return cells.astype(np.float64)
        kinds = set(map(type, cells))
        if kinds <= {float, int, bool}:
            return np.fromiter(cells, np.float64, len(cells))
        if kinds != {str}:
            raise TypeError
        text = "".join(cells)
        if "_" in text or not text.isascii() or max(map(len, cells)) > _LONGEST:
            raise ValueError
        if self._decimal_comma and "," in text:
            cells = [cell.replace(",", ".") for cell in cells]
        return np.fromiter(map(float, cells), np.float64, len(cells))

    def _signs(self, lines: Sequence[int], cells: Sequence[object]) -> None:
        for sign, kind in ((".", "point"), (",", "comma")):
            if kind not in self.seen:
                at = next((k for k, cell in enumerate(cells) if isinstance(cell, str) and sign in cell), None)
                if at is not None:
                    self.seen[kind] = int(lines[at])
