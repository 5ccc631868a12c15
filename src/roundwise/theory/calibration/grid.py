"""All parts of the calibration in one list."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.theory.calibration import cells, controls, coverage, holes, live
from roundwise.theory.calibration.cells import Cell, Refused


class Grid(NamedTuple):
    """Every combination, in the order of the report."""

    cells: Sequence[Cell]  # measured
    refused: Sequence[Refused]  # or refused with a sentence


@functools.cache
def grid() -> Grid:
    """All there are."""
    every = (
        *cells.product(),
        *live.paths(),
        *coverage.bounds(),
        *controls.conditions(),
        *controls.reproductions(),
        *holes.reproductions(),
        *controls.controls(),
        *holes.violations(),
    )
    found: list[Cell] = []
    refused: list[Refused] = []
    for each in every:
        if isinstance(each, Cell):
            found.append(each)
        else:
            refused.append(each)
    return Grid(found, refused)


def quick(cells: Sequence[Cell]) -> list[Cell]:
    """A choice for a minute: one rule everywhere; of other rules, levels and bounds, combinations now and then."""
    return [
        cell
        for i, cell in enumerate(cells)
        if cell.part not in ("product", "bounds")
        or (cell.part == "bounds" and i % 5 == 0)
        or (
            cell.column.endswith(("; Wager", "; Chances, budget"))
            and cell.delta == 0.05
            and (not cell.column.startswith("shared items") or i % 3 == 0)
        )
        or i % 29 == 0
    ]
