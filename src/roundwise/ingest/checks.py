"""The lines of a table that have an arm, and what cannot be true of them: a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.formats.cells import LARGEST, Numbers, blank
from roundwise.formats.messages import quoted, refusal, shown
from roundwise.formats.sheet import Chunk, Sheet
from roundwise.ingest.arm_names import Index, Names
from roundwise.ingest.columns import WATCH, Layout
from roundwise.noise import Noise
from roundwise.questions.base import quiet

MOST = 2.0**53  # of a count: whole numbers beyond are not exact
ROUNDING = 1e-6  # by how much sums that a user rounded may contradict each other
DIGITS = 1e-6  # squares must exceed those of equal values by this share, or rounding says how much values vary
EQUAL = 1e-13  # below this share values are equal, but for the rounding of the machine

Said = Callable[[int], tuple[str, str]]  # the place of a line -> what was found there, and the remedy


class Lines:
    """Some lines of a table, of which those that are wrong are put down and taken away."""

    def __init__(self, sheet: Sheet, arms: Sequence[str], lines: Sequence[int], index: Index) -> None:
        self.sheet, self.arms, self.lines, self.index = sheet, arms, lines, index
        self.good: Bools = np.ones(len(index), dtype=np.bool_)

    def refuse(self, kind: str, wrong: Bools, said: Said) -> None:
        """Put down what is wrong, unless something else is wrong with the line."""
        wrong = wrong & self.good
        if wrong.any():
            self.sheet.problems.some(kind, self.lines, wrong, said, self.index)
            self.good &= ~wrong

    def of(self, k: int, title: str, numbers: Floats) -> str:
        """A number, and whose it is."""
        return f"{shown(title)} {numbers[k]:.15g} of arm {self.arm(k)}"

    def arm(self, k: int) -> str:
        """The name of the arm of a line."""
        return quoted(self.arms[self.index[k]])


def numbers(lines: Lines, title: str, cells: Sequence[object], found: Floats) -> None:
    """Cells must be numbers that can be added."""

    def said(k: int) -> tuple[str, str]:
        value = float(found[k])
        fault = "not a number" if math.isnan(value) else "infinite" if math.isinf(value) else f"beyond {LARGEST:g}"
        fault = "missing" if blank(cells[k]) else fault
        remedy = (
            "Correct it, or remove the line if there is no result; missing values must not stand for results."
            if math.isnan(value)
            else "Correct it: every value must be a finite number."
        )
        return f"the {shown(title)} {quoted(cells[k])} of arm {lines.arm(k)} is {fault}.", remedy

    with np.errstate(invalid="ignore"):
        lines.refuse(f"numbers {title}", ~(np.abs(found) <= LARGEST), said)


def outcomes(lines: Lines, noise: Noise, title: str, values: Floats) -> None:
    """Single outcomes must be possible under the noise model."""
    low, high, whole, _, said, remedy = noise.outcome
    with np.errstate(invalid="ignore"):
        wrong = (values < low) | (values > high)
        if whole:
            wrong |= values != np.floor(values)
    lines.refuse(
        "outcomes",
        wrong,
        lambda k: (
            f"{lines.of(k, title, values)} {said}",
            "Correct the row, or start a new study with "
            + remedy.format(low=min(low, math.floor(values[k])), high=max(high, math.ceil(values[k]))),
        ),
    )


def sums(lines: Lines, noise: Noise, titles: dict[str, str], counts: Floats, totals: Floats) -> None:
    """Counts must be counts, and totals possible for them."""
    successes = "successes" in titles
    count_title, total_title = shown(titles["count"]), shown(titles["successes" if successes else "total"])
    with np.errstate(invalid="ignore"):
        wrong = (counts < 0) | (counts != np.floor(counts)) | (counts > MOST)
    lines.refuse(
        "counts",
        wrong,
        lambda k: (
            f"{lines.of(k, count_title, counts)} is not a whole number of at least 0.",
            f"{count_title} is how many results the line stands for: correct it.",
        ),
    )
    lines.refuse(
        "totals of nothing",
        (counts == 0) & (totals != 0),
        lambda k: (
            f"{lines.of(k, total_title, totals)} comes from 0 results.",
            f"Correct {count_title} or {total_title}.",
        ),
    )
    low, high, whole, *_ = noise.outcome
    if whole or successes:
        least, most = (0.0, 1.0) if successes else (low, high)
        lines.refuse(
            "totals",
            _outside(totals, counts, least, most) | (totals != np.floor(totals)),
            lambda k: (
                f"{lines.of(k, total_title, totals)} with {count_title} {counts[k]:.15g} is impossible: it must be a "
                f"whole number {_within(float(counts[k]), least, most, count_title)}.",
                "Correct the line; are the columns in the right order?",
            ),
        )
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    if ends and not whole:
        lines.refuse(
            "totals",
            _outside(totals, counts, low, high, slack=1e-9 * counts * max(ends)),
            lambda k: (
                f"{lines.of(k, total_title, totals)} is impossible: {counts[k]:.15g} results in [{low:g}, {high:g}], "
                f"the range this study was created with, add up to between {counts[k] * low:.15g} and "
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


def squares(lines: Lines, titles: dict[str, str], counts: Floats, totals: Floats, squared: Floats) -> Floats:
    """sum (x - mean)^2 of each line from its sum of squares, which must be large enough for its total."""
    title = shown(titles["squares"])
    with np.errstate(invalid="ignore", over="ignore"):
        least = totals * (totals / np.maximum(counts, 1.0))
        within = np.maximum(squared - least, 0.0)
        impossible = squared < least - ROUNDING * np.maximum(np.abs(squared), least)
        unclear = (counts > 1) & (np.abs(squared - least) > EQUAL * squared) & (within < DIGITS * squared)
    lines.refuse(
        "squares",
        impossible,
        lambda k: (
            f"{lines.of(k, title, squared)} is impossible: the squares of {counts[k]:.15g} values with "
            f"{shown(titles['total'])} {totals[k]:.15g} add up to at least {least[k]:.15g}.",
            f"{title} is the sum of the squared values, not a variance: correct it.",
        ),
    )
    lines.refuse(
        "squares of nothing",
        (counts == 0) & (squared != 0),
        lambda k: (
            f"{title} {squared[k]:.15g} comes from 0 results.",
            f"Correct {shown(titles['count'])} or {title}.",
        ),
    )
    lines.refuse(
        "squares that say nothing",
        unclear,
        lambda k: (
            f"{lines.of(k, title, squared)} differs from that of equal values by less than a millionth: how much the "
            "values vary cannot be told from it.",
            "Give every result as a row, or take a common value (such as the mean) off all results first.",
        ),
    )
    return within


def form_allowed(sheet: Sheet, noise: Noise, plan: Layout) -> None:
    """Raise an error if the noise model cannot do with such columns."""
    if noise.needs == "squares" and plan.form == "sums" and not plan.squares:
        raise refusal(
            sheet.top,
            "with an unknown variance, sums need the column 'squares' (the sum of the squared values of each arm).",
            "Add it, or give every result as a row arm,outcome.",
        )
    low, high, *_ = noise.outcome
    if plan.form == "successes" and not low <= 0 < 1 <= high:
        raise refusal(
            sheet.top,
            f"'{shown(plan.titles['successes'])}' counts outcomes 0 and 1, but this study was created with the range "
            f"[{low:g}, {high:g}].",
            "Give arm,outcome or arm,count,total with the outcomes themselves.",
        )


class Cells(NamedTuple):
    """Some lines that have an arm: their numbers, the arm of each, and the cells of the other columns."""

    lines: Sequence[int]
    arms: Index
    columns: Mapping[str, Sequence[object]]


def with_arms(sheet: Sheet, names: Names, plan: Layout, chunk: Chunk) -> Cells:
    """The lines of a chunk that have an arm of the study."""
    roles = list(plan.places)
    if plan.form == "wide":
        return _unfolded(names, roles, chunk)
    used = [column for role, column in zip(roles, chunk.columns, strict=True) if not role.startswith(WATCH)]
    index = names.found(sheet.problems, chunk.lines, used[0], used[1:])
    columns = dict(zip(roles[1:], chunk.columns[1:], strict=True))
    cells = Cells(chunk.lines, index, columns)
    good = index >= 0
    return cells if good.all() else taken(cells, good)


def taken(cells: Cells, good: Bools) -> Cells:
    """Some of the lines."""
    places = np.flatnonzero(good).tolist()
    columns = {role: [column[k] for k in places] for role, column in cells.columns.items()}
    return Cells([cells.lines[k] for k in places], cells.arms[good], columns)


def _unfolded(names: Names, roles: Sequence[str], chunk: Chunk) -> Cells:
    """One line for each cell of a table with one column an arm."""
    at = [i for i, role in enumerate(roles) if role.startswith("arm ")]
    arms = np.array([names.index[roles[i].removeprefix("arm ")] for i in at])
    filled = [k for k in range(len(chunk.lines)) if not all(blank(column[k]) for column in chunk.columns)]
    lines = np.repeat([chunk.lines[k] for k in filled], len(at)).astype(np.int64).tolist()
    columns: dict[str, Sequence[object]] = {"outcome": [chunk.columns[i][k] for k in filled for i in at]}
    for i, role in enumerate(roles):
        if i not in at:
            columns[role] = [chunk.columns[i][k] for k in filled for _ in at]
    names.matched += len(lines)
    return Cells(lines, np.tile(arms, len(filled)).astype(np.int64), columns)


def written(sheet: Sheet, columns: Sequence[Numbers]) -> None:
    """Put down numbers that contradict each other in how they are written; and note those that were understood."""
    for column in columns:
        seen = column.seen
        if "percent" in seen and "plain" in seen:
            sheet.problems.one(
                "percent",
                max(seen["percent"], seen["plain"]),
                f"some {shown(column.title)}s have a % sign ({sheet.unit} {seen['percent']}) and others have none "
                f"({sheet.unit} {seen['plain']}).",
                "Write all of them in one way.",
            )
        for text, value in (column.examples[kind] for kind in ("percent", "thousands") if kind in column.examples):
            sheet.notes.append(f"{sheet.name}: '{shown(text)}' was read as {value:.15g}.")
    points = [column.seen["point"] for column in columns if "point" in column.seen]
    commas = [column.seen["comma"] for column in columns if "comma" in column.seen]
    if points and commas:
        sheet.problems.one(
            "signs",
            min(commas),
            f"a number has a decimal comma, but there is a number with a point ({sheet.name}, {sheet.unit} "
            f"{min(points)}).",
            "Use one of them.",
        )
