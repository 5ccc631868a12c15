"""Rows of a file that say something else than is recorded of their ids: how many, which, and the sentence for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from roundwise.arrays import Plain
from roundwise.errors import said

LINES = 20  # whose numbers are kept
_KINDS = {
    "outcome": "another outcome",
    "arm": "another arm",
    "late": "an outcome where none was recorded",
    "gone": "no outcome where one is recorded",
}


class Source(NamedTuple):
    """A file by which some of the ids were recorded."""

    digest: str
    name: str
    rows: int


@dataclass(frozen=True)
class Contradicted:
    """Rows whose id is recorded, and that say something else than the record; they were skipped."""

    kinds: dict[str, int]  # how many of each of the kinds above
    lines: tuple[int, ...]  # the first of them
    files: tuple[Source, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.kinds.values())

    def words(self, unit: str) -> str:
        """Which rows, and what becomes of them; a `unit` is a line or a row of the table.

        >>> found = Contradicted({"outcome": 3}, (4, 9, 12), (Source("d", "monday.csv", 3),))
        >>> found.words("line").partition(":")[0]
        '3 rows have an id seen before but another outcome (lines 4, 9, 12; recorded by monday.csv)'
        """
        one, several = self.rows == 1, len(self.kinds) > 1
        each = ", ".join(_KINDS[kind] + (f" ({rows})" if several else "") for kind, rows in self.kinds.items())
        lines = ", ".join(map(str, self.lines)) + (", ..." if self.rows > len(self.lines) else "")
        names = list(dict.fromkeys(source.name for source in self.files))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        where = f"{unit}{'' if one else 's'} {lines}; recorded by {', '.join(names[:3])}{more}"
        amend = said("`study.amend`", "`roundwise amend`")
        return (
            f"{self.rows} {'row has' if one else 'rows have'} an id seen before but {each} ({where}): skipped, and "
            f"what is recorded stands; {amend} corrects it, if it is wrong"
        )

    def payload(self) -> Plain:
        """As it is recorded."""
        return {"kinds": self.kinds, "lines": list(self.lines), "files": [list(each) for each in self.files]}

    @classmethod
    def from_payload(cls, payload: Plain) -> Contradicted:
        """What the payload was made of."""
        kinds = {str(kind): int(payload["kinds"][kind]) for kind in _KINDS if kind in payload["kinds"]}
        files = tuple(Source(str(digest), str(name), int(rows)) for digest, name, rows in payload["files"])
        found = cls(kinds, tuple(int(line) for line in payload["lines"]), files)
        if not kinds or min(*kinds.values(), *(each.rows for each in files), 1) < 1:
            raise ValueError("rows that contradict nothing")
        return found

    def plain(self) -> Plain:
        """For programs."""
        names = [source.name for source in self.files]
        return {"rows": self.rows, **self.kinds, "lines": list(self.lines), "recorded_by": names}
