"""All parts of the calibration in one list."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from roundwise.calibration import cells, controls, live
from roundwise.calibration.cells import Cell, Refused


@functools.cache
def grid() -> Sequence[Cell | Refused]:
    """Every combination, in the order of the report."""
    return (
        *cells.product(),
        *live.paths(),
        *controls.reproductions(),
        *live.reproductions(),
        *controls.controls(),
        *live.violations(),
    )


def quick(every: Sequence[Cell | Refused]) -> list[Cell]:
    """A choice for a minute: one rule everywhere, of the other rules and levels each combination now and then."""
    found = [each for each in every if isinstance(each, Cell)]
    return [
        cell
        for i, cell in enumerate(found)
        if cell.part != "product" or (cell.column.endswith("; Wager") and cell.delta == 0.05) or i % 11 == 0
    ]
