"""The lines of a table that have an arm, and what is seen of all of them: signs of numbers, the digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools
from roundwise.studies.results.cells import Numbers, blank
from roundwise.studies.results.columns import Layout
from roundwise.studies.results.marks import Contents
from roundwise.studies.results.names import Index, Names
from roundwise.studies.results.sheets import Chunk, Sheet
from roundwise.studies.results.words import shown


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
    index = names.found(sheet.problems, chunk.lines, chunk.columns[0], chunk.columns[1:])
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


def digest(sheet: Sheet, contents: Contents | None) -> str:
    """Of a file its own, of a data frame that of what was read."""
    if sheet.digest is not None:
        return sheet.digest()
    return "" if contents is None else contents.hex()
