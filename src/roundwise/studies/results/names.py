"""What stands in a cell, whatever table it comes from: nothing, a name, an arm of the study, a number."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.studies.results.sheets import Problems
from roundwise.studies.words import by_arm, quoted, refusal, shown, some

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


Index = NDArray[np.int64]

EVERY = "*"  # for `--ignore-arms`: all that are not of this study
WRONG, IGNORED, BLANK = -1, -2, -3  # in place of the number of an arm
_TOLD = 20  # names that are no arms which are told
_LONG = 5  # letters of a name in which one is easily lost


class Names:
    """The arms of the study, and what became of other names."""

    def __init__(self, arms: Sequence[str], ignored: Collection[str] = ()) -> None:
        self.arms = [arm.strip() for arm in arms]
        self.index = {arm: i for i, arm in enumerate(self.arms)}
        if len(self.index) < len(arms):
            twice = next(arm for i, arm in enumerate(self.arms) if self.index[arm] != i)
            raise InputError(f"Two arms are called '{twice}'. Give every arm a name of its own.")
        self._ignored = {name.strip() for name in ignored}
        both = self._ignored & self.index.keys()
        if both:
            raise InputError(f"{quoted(min(both))} is an arm of this study and cannot be ignored.")
        self._near: dict[str, str] | None = None
        self._unknown: dict[str, None] = {}
        self.left_out: dict[str, int] = {}  # names that were ignored, and how often
        self.matched = 0
        self._lines: list[int] = []  # of names that are no arms
        self._slips: dict[str, bool] = {}

    def found(
        self, problems: Problems, lines: Sequence[int], cells: Sequence[Any], others: Sequence[Sequence[object]]
    ) -> Index:
        """The number of the arm of each line, or what else is there; a line is blank if all `others` are, too."""
        try:
            index = np.fromiter(map(self.index.get, cells, repeat(WRONG)), np.int64, len(cells))
        except TypeError:  # a cell that cannot be looked up
            index = np.full(len(cells), WRONG)
        for k in np.flatnonzero(index < 0).tolist():
            name = name_in(cells[k])
            if name in self.index:
                index[k] = self.index[name]
            elif name in self._ignored or (EVERY in self._ignored and name and not self._meant(name)):
                index[k] = IGNORED
                self.left_out[shown(name)] = self.left_out.get(shown(name), 0) + 1
            elif not name and all(blank(column[k]) for column in others):
                index[k] = BLANK
            else:
                self._refused(problems, int(lines[k]), name)
        self.matched += int((index >= 0).sum())
        return index

    def _meant(self, name: str) -> bool:
        """Whether a name is an arm of this study that was mistyped, and none of another experiment."""
        found = self._slips.get(name)
        if found is None:
            found = self.nearest(name, exact=True) is not None or any(_slip(name, arm) for arm in self.arms[:2000])
            if len(self._slips) < _REMEMBERED:
                self._slips[name] = found
        return found

    def nearest(self, name: str, exact: bool = False) -> str | None:
        """The arm that was probably meant; with `exact` only if capitals, blanks and hyphens alone are different."""
        if self._near is None:
            self._near = {_folded(arm): arm for arm in reversed(self.arms[:200_000])}
        near = self._near.get(_folded(name[:200]))
        if near is not None or exact or len(name) > 100:
            return near
        close = difflib.get_close_matches(name, self.arms[:2000], n=1, cutoff=0.5)
        return close[0] if close else None

    def refuse_others(self, problems: Problems) -> None:
        """Put down all names that are no arms; raise an error if none of the table is one."""
        unknown = self._unknown
        if not unknown:
            return
        near = {name: self.nearest(name) for name in list(unknown)[:_TOLD]}
        slips = any(self.nearest(name, exact=True) for name in near)  # each of which is told the right name
        if not self.matched and not slips:
            raise refusal(
                f"{problems.name}, {problems.unit} {self._lines[0]}",
                f"there is no arm {quoted(next(iter(unknown)))} in this study, nor any other of this file "
                f"({', '.join(shown(name) for name in sorted(unknown)[:3])}, ...).",
                f"Is it a file of another study? The arms of this one are {some(self.arms)}.",
            )
        known = "" if any(near.values()) else f" Known: {some(self.arms)}."
        if len(unknown) == 1:
            name, meant = next(iter(near.items()))
            found = f"there is no arm {quoted(name)} in this study."
            found += f" Did you mean {quoted(meant)}?" if meant else known
        else:
            each = [f"{quoted(name)}{f' ({quoted(meant)}?)' if meant else ''}" for name, meant in near.items()]
            more = f" and {len(unknown) - _TOLD} more" if len(unknown) > _TOLD else ""
            found = f"{len(unknown)} names are no arms of this study: {', '.join(each)}{more}.{known}"
        remedy = (
            "Correct the name, also its capitals; rows of other experiments are left out with --ignore-arms NAMES "
            "(or '*' for all)."
        )
        for line in self._lines:
            problems.one("arms", line, found, remedy)

    def note(self, name: str) -> str | None:
        """What was left out, if anything was."""
        if not self.left_out:
            return None
        many = sum(self.left_out.values())
        rows = "1 row of another arm was" if many == 1 else f"{many} rows of other arms were"
        return f"{name}: {rows} left out ({by_arm(self.left_out)})."

    def _refused(self, problems: Problems, line: int, name: str) -> None:
        if not name:
            problems.one("no arm", line, "there is no name of an arm.", "Add it, or remove the line.")
            return
        if len(self._unknown) < _REMEMBERED:
            self._unknown.setdefault(name[:200])
        self._lines.append(line)


def _slip(name: str, arm: str) -> bool:
    """Whether a name is an arm with one letter too many or too few, or two of them exchanged.

    >>> [_slip(each, "Big button") for each in ("Big buton", "Big buttton", "Big buttno", "Big buttom", "Big butto")]
    [True, True, True, False, True]
    >>> _slip("variant 1", "variant 12")
    False
    """
    if name == arm or min(len(name), len(arm)) < _LONG or abs(len(name) - len(arm)) > 1:
        return False
    same = [one == other for one, other in zip(name, arm, strict=False)]
    at = same.index(False) if False in same else len(same)
    if len(name) == len(arm):
        return name[at + 2 :] == arm[at + 2 :] and name[at : at + 2] == arm[at : at + 2][::-1]
    longer, shorter = (name, arm) if len(name) > len(arm) else (arm, name)
    return longer[at].isalpha() and longer[at + 1 :] == shorter[at:]


def _folded(name: str) -> str:
    """A name without capitals, blanks, hyphens and underscores."""
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")
