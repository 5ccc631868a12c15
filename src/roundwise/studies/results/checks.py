"""What cannot be true of results, and the sentence for each: names of arms, numbers, ranges, sums."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import repeat
from typing import Any

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import DataError, InputError
from roundwise.noise import Noise
from roundwise.questions.base import quiet
from roundwise.studies.results.columns import problem
from roundwise.studies.results.deal import Index
from roundwise.studies.results.frames import blank
from roundwise.studies.results.sheets import Chunk, Sheet

LARGEST = 1e100  # of a value: larger ones are mistakes, and their squares could not be added
MOST = 2.0**53  # of a count: whole numbers beyond are not exact
ROUNDING = 1e-6  # by how much sums that a user rounded may contradict each other
DIGITS = 1e-6  # squares must exceed those of equal values by this share, or rounding says how much values vary
EQUAL = 1e-13  # below this share values are equal, but for the rounding of the machine


class Names:
    """The arms of the study by name."""

    def __init__(self, arms: Sequence[str]) -> None:
        self.arms = [arm.strip() for arm in arms]
        self._index = {arm: i for i, arm in enumerate(self.arms)}
        if len(self._index) < len(arms):
            twice = next(arm for i, arm in enumerate(self.arms) if self._index[arm] != i)
            raise InputError(f"Two arms are called '{twice}'. Give every arm a name of its own.")

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def found(self, sheet: Sheet, chunk: Chunk) -> tuple[Index, Chunk]:
        """The number of the arm of each line, and the chunk without lines that are blank."""
        cells = chunk.columns[0]
        try:
            index = np.fromiter(map(self._index.get, cells, repeat(-1)), np.int64, len(cells))
        except TypeError:  # a cell that cannot be looked up
            index = np.full(len(cells), -1)
        missed = np.flatnonzero(index < 0).tolist()
        if not missed:
            return index, chunk
        keep = np.ones(len(cells), dtype=np.bool_)
        for k in missed:
            name = arm_name(cells[k])
            if name in self._index:
                index[k] = self._index[name]
            elif not name and all(blank(column[k]) for column in chunk.columns[1:]):
                keep[k] = False
            else:
                raise self._unknown(sheet, chunk.lines[k], name, cells)
        if not keep.all():
            kept = np.flatnonzero(keep).tolist()
            columns = [[column[k] for k in kept] for column in chunk.columns]
            chunk = Chunk([chunk.lines[k] for k in kept], columns)
        return index[keep], chunk

    def _unknown(self, sheet: Sheet, line: int, name: str, cells: Sequence[Any]) -> DataError:
        if not name:
            return problem(sheet.at(line), "there is no name of an arm.", "Add it, or remove the line.")
        others = {arm_name(cell) for cell in cells} - {""}
        if not any(other in self._index for other in others):
            shown = sorted(others, key=str)[:3]
            return problem(
                sheet.at(line),
                f"there is no arm '{name}' in this study, nor any other of this file ({', '.join(shown)}, ...).",
                f"Is it a file of another study? The arms of this one are {_some(self.arms)}.",
            )
        folded = {arm.casefold(): arm for arm in self.arms[:20_000]}
        near = [folded[name.casefold()]] if name.casefold() in folded else None
        near = near or difflib.get_close_matches(name, self.arms[:2000], n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {_some(self.arms)}."
        return problem(
            sheet.at(line), f"there is no arm '{name}' in this study. {hint}", "Correct the name, also its capitals."
        )


def arm_name(cell: Any) -> str:
    """The name in a cell; a number that a table keeps as 3.0 is '3'."""
    if blank(cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def numbers(sheet: Sheet, chunk: Chunk, column: int, title: str, names: Sequence[Any]) -> Floats:
    """The cells of a column as numbers that can be added."""
    cells = chunk.columns[column]
    try:
        found = _floats(cells, sheet.decimal_comma)
    except (ValueError, TypeError, OverflowError):
        found = np.array([_or_nan(cell, sheet.decimal_comma) for cell in cells])
    with np.errstate(invalid="ignore"):
        refuse_first(
            sheet,
            chunk,
            ~(np.abs(found) <= LARGEST),
            lambda k: (
                f"the {title} {_shown(cells[k])} of arm '{arm_name(names[k])}' is {_fault(cells[k], float(found[k]))}.",
                "Correct it, or remove the line if there is no result; missing values must not stand for results."
                if math.isnan(found[k])
                else "Correct it: every value must be a finite number.",
            ),
        )
    return found


def refuse_first(sheet: Sheet, chunk: Chunk, wrong: Bools, said: Any) -> None:
    """Raise for the first line that is wrong; `said` makes of its place what was found, and the remedy."""
    if wrong.any():
        k = int(np.argmax(wrong))
        raise problem(sheet.at(chunk.lines[k]), *said(k))


def outcomes(sheet: Sheet, chunk: Chunk, noise: Noise, title: str, values: Floats) -> None:
    """Single outcomes must be possible under the noise model."""

    def of(k: int) -> str:
        return f"{title} {values[k]:.15g} of arm '{arm_name(chunk.columns[0][k])}'"

    low, high, whole, _, said, remedy = noise.outcome
    wrong = (values < low) | (values > high)
    if whole:
        wrong |= values != np.floor(values)
    refuse_first(
        sheet,
        chunk,
        wrong,
        lambda k: (
            f"{of(k)} {said}",
            "Correct the row, or start a new study with "
            + remedy.format(low=min(low, math.floor(values[k])), high=max(high, math.ceil(values[k]))),
        ),
    )


def sums(sheet: Sheet, chunk: Chunk, noise: Noise, titles: Sequence[str], counts: Floats, totals: Floats) -> None:
    """Counts must be counts, and totals possible for them."""
    count_title, total_title = titles[1], titles[2]

    def of(k: int, title: str, number: Floats) -> str:
        return f"{title} {number[k]:.15g} of arm '{arm_name(chunk.columns[0][k])}'"

    refuse_first(
        sheet,
        chunk,
        (counts < 0) | (counts != np.floor(counts)) | (counts > MOST),
        lambda k: (
            f"{of(k, count_title, counts)} is not a whole number of at least 0.",
            f"{count_title} is how many results the line stands for: correct it.",
        ),
    )
    refuse_first(
        sheet,
        chunk,
        (counts == 0) & (totals != 0),
        lambda k: (
            f"{of(k, total_title, totals)} comes from 0 results.",
            f"Correct {count_title} or {total_title}.",
        ),
    )
    low, high, whole, *_ = noise.outcome
    successes = total_title.casefold() == "successes"
    if whole or successes:
        least, most = (0.0, 1.0) if successes else (low, high)
        refuse_first(
            sheet,
            chunk,
            _outside(totals, counts, least, most) | (totals != np.floor(totals)),
            lambda k: (
                f"{of(k, total_title, totals)} with {count_title} {counts[k]:.15g} is impossible: it must be a whole "
                f"number {_within(float(counts[k]), least, most, count_title)}.",
                "Correct the line; are the columns in the right order?",
            ),
        )
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    if ends and not whole:
        refuse_first(
            sheet,
            chunk,
            _outside(totals, counts, low, high, slack=1e-9 * counts * max(ends)),
            lambda k: (
                f"{of(k, total_title, totals)} is impossible: {counts[k]:.15g} results in [{low:g}, {high:g}], the "
                f"range this study was created with, add up to between {counts[k] * low:.15g} and "
                f"{counts[k] * high:.15g}.",
                "Correct the line, or start a new study with the true range: the error guarantee needs it.",
            ),
        )


@quiet  # 0 results in a range without an end
def _outside(totals: Floats, counts: Floats, low: float, high: float, slack: Floats | float = 0.0) -> Bools:
    """Which totals so many results between low and high cannot have."""
    return (totals < counts * low - slack) | (totals > counts * high + slack)


def _within(count: float, low: float, high: float, title: str) -> str:
    """Where the total of so many results lies."""
    if (low, high) == (0, 1):
        return f"between 0 and its {title}"
    upwards = math.isinf(high)
    return f"of at least {count * low:.15g}" if upwards else f"between {count * low:.15g} and {count * high:.15g}"


def zero_one_allowed(sheet: Sheet, noise: Noise, title: str) -> None:
    """Successes are results 0 and 1, which must be possible."""
    low, high, *_ = noise.outcome
    if not low <= 0 < 1 <= high:
        raise problem(
            sheet.top,
            f"'{title}' counts outcomes 0 and 1, but this study was created with the range [{low:g}, {high:g}].",
            "Give arm,outcome or arm,count,total with the outcomes themselves.",
        )


def scatter(
    sheet: Sheet, chunk: Chunk, titles: Sequence[str], counts: Floats, totals: Floats, squares: Floats
) -> Floats:
    """sum (x - mean)^2 of each line from its sum of squares, which must be large enough for its total."""
    least = totals * (totals / np.maximum(counts, 1.0))
    refuse_first(
        sheet,
        chunk,
        squares < least - ROUNDING * np.maximum(np.abs(squares), least),
        lambda k: (
            f"{titles[3]} {squares[k]:.15g} of arm '{arm_name(chunk.columns[0][k])}' is impossible: the squares of "
            f"{counts[k]:.15g} values with {titles[2]} {totals[k]:.15g} add up to at least {least[k]:.15g}.",
            f"{titles[3]} is the sum of the squared values, not a variance: correct it.",
        ),
    )
    refuse_first(
        sheet,
        chunk,
        (counts == 0) & (squares != 0),
        lambda k: (f"{titles[3]} {squares[k]:.15g} comes from 0 results.", f"Correct {titles[1]} or {titles[3]}."),
    )
    within = np.maximum(squares - least, 0.0)
    refuse_first(
        sheet,
        chunk,
        (counts > 1) & (np.abs(squares - least) > EQUAL * squares) & (within < DIGITS * squares),
        lambda k: (
            f"{titles[3]} {squares[k]:.15g} of arm '{arm_name(chunk.columns[0][k])}' differs from that of equal values "
            "by less than a millionth: how much the values vary cannot be told from it.",
            "Give every result as a row, or take a common value (such as the mean) off all results first.",
        ),
    )
    return within


def number(cell: Any, decimal_comma: bool = False) -> float:
    """The number in a cell; a ValueError or TypeError where there is none."""
    if isinstance(cell, str):
        if "_" in cell or not cell.strip().isascii():  # which Python would allow
            raise ValueError(cell)
        return float(cell.replace(",", ".") if decimal_comma else cell)
    if isinstance(cell, bool | int | float | Decimal | np.number | np.bool_):
        return float(cell)
    raise TypeError(cell)


def _floats(cells: Sequence[Any], decimal_comma: bool) -> Floats:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iufb":
        return cells.astype(np.float64)
    kinds = set(map(type, cells))
    if kinds <= {float, int, bool}:
        return np.fromiter(cells, np.float64, len(cells))
    if kinds == {str}:
        text = "".join(cells)
        if "_" not in text and text.isascii():
            if decimal_comma and "," in text:
                cells = [cell.replace(",", ".") for cell in cells]
            return np.fromiter(map(float, cells), np.float64, len(cells))
    return np.fromiter((number(cell, decimal_comma) for cell in cells), np.float64, len(cells))


def _or_nan(cell: Any, decimal_comma: bool) -> float:
    try:
        return number(cell, decimal_comma)
    except OverflowError:
        return math.inf
    except (ValueError, TypeError):
        return math.nan


def _fault(cell: Any, value: float) -> str:
    if blank(cell):
        return "missing"
    if math.isnan(value):
        return "not a number"
    return "infinite" if math.isinf(value) else f"beyond {LARGEST:g}"


def _shown(cell: Any) -> str:
    text = str(cell).strip()
    return f"'{text if len(text) <= 40 else text[:39] + '…'}'"


def _some(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
