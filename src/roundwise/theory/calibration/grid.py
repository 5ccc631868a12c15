"""All parts of the calibration in one list."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from roundwise.theory.calibration import cells, controls, coverage, holes, live
from roundwise.theory.calibration.cells import Cell, Refused


@functools.cache
def grid() -> Sequence[Cell | Refused]:
    """Every combination, in the order of the report."""
    return (
        *cells.product(),
        *live.paths(),
        *coverage.bounds(),
        *controls.reproductions(),
        *holes.reproductions(),
        *controls.controls(),
        *holes.violations(),
    )


def quick(every: Sequence[Cell | Refused]) -> list[Cell]:
    """A choice for a minute: one rule everywhere; of other rules, levels and bounds, combinations now and then."""
    found = [each for each in every if isinstance(each, Cell)]
    return [
        cell
        for i, cell in enumerate(found)
        if cell.part not in ("product", "bounds")
        or (cell.part == "bounds" and i % 5 == 0)
        or (cell.column.endswith(("; Wager", "; Chances, budget")) and cell.delta == 0.05)
        or i % 29 == 0
    ]
