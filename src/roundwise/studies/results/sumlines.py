"""Lines of a table that stand for many results each, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from roundwise.arrays import Floats
from roundwise.noise import Noise
from roundwise.studies.results import checks
from roundwise.studies.results.cells import Numbers
from roundwise.studies.results.columns import Layout
from roundwise.studies.results.marks import Contents
from roundwise.studies.results.names import Index, Names
from roundwise.studies.results.placed import digest, with_arms, written
from roundwise.studies.results.sheets import Chunk, Sheet


class SumLines:
    """Lines that stand for many results."""

    def __init__(self, sheet: Sheet, names: Names, noise: Noise, plan: Layout) -> None:
        self._sheet, self._names, self._noise, self._plan = sheet, names, noise, plan
        self._total = "successes" if plan.form == "successes" else "total"
        roles = ("count", self._total, *(("squares",) if plan.squares else ()))
        self._numbers = {role: Numbers(plan.titles[role], sheet.decimal_comma) for role in roles}
        self._contents = Contents(f"{plan.form} {len(plan.places)}") if sheet.digest is None else None

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Index, Floats, Floats, Floats | None]]:
        """Checked lines in chunks: arms, counts, totals, and the scatter within each line where it is known."""
        plan = self._plan
        for chunk in chunks:
            cells = with_arms(self._sheet, self._names, plan, chunk)
            if not len(cells.arms):
                continue
            lines = checks.Lines(self._sheet, self._names.arms, cells.lines, cells.arms)
            found = {}
            for role, reader in self._numbers.items():
                found[role], _ = reader.read(cells.lines, cells.columns[role])
                checks.numbers(lines, reader.title, cells.columns[role], found[role])
            counts, totals = found["count"], found[self._total]
            checks.sums(lines, self._noise, plan.titles, counts, totals)
            within = None
            if plan.form == "successes":
                with np.errstate(invalid="ignore", over="ignore"):
                    within = np.maximum(totals - totals * (totals / np.maximum(counts, 1.0)), 0.0)
            elif plan.squares:
                within = checks.squares(lines, plan.titles, counts, totals, found["squares"])
            good = lines.good
            own = cells.arms[good], counts[good], totals[good], None if within is None else within[good]
            if self._contents is not None:
                self._contents.add([self._names.arms[i] for i in own[0].tolist()], *own[1:], None)
            yield own

    def refuse(self) -> None:
        """Raise an error if anything was wrong."""
        written(self._sheet, list(self._numbers.values()))
        self._names.refuse_others(self._sheet.problems)
        self._sheet.problems.refuse()

    def digest(self) -> str:
        """Of the contents."""
        return digest(self._sheet, self._contents)
