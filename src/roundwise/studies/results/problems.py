"""Everything that is wrong with one table, by kind and arm, so that it is said at once and not line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools
from roundwise.errors import DataError
from roundwise.studies.results.words import by_arm, spoken

SHOWN = 8  # kinds of problems in one message
_LINES = 4  # of each kind, whose numbers are said


@dataclass
class _Kind:
    """One kind of problem: the sentence for its first line, and how many more there are."""

    found: str
    remedy: str
    count: int = 0
    lines: list[int] = field(default_factory=list)
    arms: dict[str, int] = field(default_factory=dict)


class Problems:
    """What was found wrong with a table so far."""

    def __init__(self, name: str, unit: str) -> None:
        self.name, self.unit = name, unit
        self.arms: Sequence[str] = ()  # what the arms of the study are called
        self._kinds: dict[str, _Kind] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def one(self, kind: str, line: int | None, found: str, remedy: str) -> None:
        """A problem of one line, or (None) of the whole table."""
        known = self._kinds.setdefault(kind, _Kind(found, remedy))
        known.count += 1
        if line is not None and len(known.lines) < _LINES:
            known.lines.append(line)

    def some(
        self,
        kind: str,
        lines: Sequence[int],
        wrong: Bools,
        said: Callable[[int], tuple[str, str]],
        arms: NDArray[np.int64] | None = None,
    ) -> None:
        """The lines that are wrong; `said` makes of a place what was found there, and the remedy."""
        places = np.flatnonzero(wrong)
        if not len(places):
            return
        known = self._kinds.get(kind) or self._kinds.setdefault(kind, _Kind(*said(int(places[0]))))
        known.count += len(places)
        known.lines += [int(lines[k]) for k in places[: _LINES - len(known.lines)]]
        if arms is not None:
            index, counts = np.unique(arms[places], return_counts=True)
            for i, count in zip(index.tolist(), counts.tolist(), strict=True):
                if 0 <= i < len(self.arms):
                    known.arms[self.arms[i]] = known.arms.get(self.arms[i], 0) + count

    def refuse(self) -> None:
        """Raise a DataError if anything was found."""
        if not self._kinds:
            return
        kinds = sorted(self._kinds.values(), key=lambda kind: kind.lines[0] if kind.lines else 0)
        if len(kinds) == 1:
            raise DataError(f"{self._where(kinds[0])}: {self._said(kinds[0])}")
        told = "".join(f"\n- {self._where(kind, '')}: {self._said(kind)}" for kind in kinds[:SHOWN])
        more = f"\n- and {len(kinds) - SHOWN} more kinds." if len(kinds) > SHOWN else ""
        raise DataError(f"{self.name} has {len(kinds)} kinds of problems; nothing was recorded.{told}{more}")

    def _where(self, kind: _Kind, name: str | None = None) -> str:
        name = self.name if name is None else name
        line = f"{self.unit} {kind.lines[0]}" if kind.lines else ""
        return ", ".join(filter(None, (name, line))) or "the whole table"

    def _said(self, kind: _Kind) -> str:
        if kind.count < 2 or not kind.lines:
            return f"{kind.found}\n  {spoken(kind.remedy)}"
        lines = ", ".join(map(str, kind.lines)) + (", ..." if kind.count > len(kind.lines) else "")
        arms = f"; {by_arm(kind.arms)}" if kind.arms else ""
        return f"{kind.found}\n  So in {kind.count} {self.unit}s ({lines}{arms}). {spoken(kind.remedy)}"
