"""The arms of a study by name, and the names in a table that are none of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.errors import InputError
from roundwise.studies.results.cells import blank, name_in
from roundwise.studies.results.problems import Problems
from roundwise.studies.results.words import by_arm, quoted, refusal, shown, some

Index = NDArray[np.int64]

EVERY = "*"  # for `--ignore-arms`: all that are not of this study
WRONG, IGNORED, BLANK = -1, -2, -3  # in place of the number of an arm
_KINDS = 5  # unknown names that get a sentence of their own


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
        self.matched, self._first = 0, 0

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
            elif name in self._ignored or (EVERY in self._ignored and name and self.nearest(name, exact=True) is None):
                index[k] = IGNORED
                self.left_out[shown(name)] = self.left_out.get(shown(name), 0) + 1
            elif not name and all(blank(column[k]) for column in others):
                index[k] = BLANK
            else:
                self._refused(problems, int(lines[k]), name)
        self.matched += int((index >= 0).sum())
        return index

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
        """Raise an error if no name of the table is an arm."""
        slips = any(self.nearest(name, exact=True) for name in self._unknown)  # each of which is told the right name
        if self._unknown and not self.matched and not slips:
            names = sorted(self._unknown)[:3]
            line = f", {problems.unit} {self._first}"
            raise refusal(
                f"{problems.name}{line}",
                f"there is no arm {quoted(next(iter(self._unknown)))} in this study, nor any other of this file "
                f"({', '.join(shown(name) for name in names)}, ...).",
                f"Is it a file of another study? The arms of this one are {some(self.arms)}.",
            )

    def note(self, name: str) -> str | None:
        """What was left out, if anything was."""
        if not self.left_out:
            return None
        return f"{name}: {sum(self.left_out.values())} rows of other arms were left out ({by_arm(self.left_out)})."

    def _refused(self, problems: Problems, line: int, name: str) -> None:
        if not name:
            problems.one("no arm", line, "there is no name of an arm.", "Add it, or remove the line.")
            return
        self._first = self._first or line
        if len(self._unknown) <= _KINDS:
            self._unknown.setdefault(name[:200])
        kind = f"arm {name[:200]}" if name[:200] in list(self._unknown)[:_KINDS] else "other arms"
        near = self.nearest(name)
        hint = f"Did you mean {quoted(near)}?" if near else f"Known: {some(self.arms)}."
        problems.one(
            kind,
            line,
            f"there is no arm {quoted(name)} in this study. {hint}",
            "Correct the name, also its capitals; rows of other experiments are left out with --ignore-arms NAMES "
            "(or '*' for all).",
        )


def _folded(name: str) -> str:
    """A name without capitals, blanks, hyphens and underscores."""
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")
