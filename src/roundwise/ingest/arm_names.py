"""The arms of a study in the cells of a table, and what became of other names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.errors import InputError
from roundwise.formats.cells import blank, name_in
from roundwise.formats.messages import by_arm, quoted, refusal, shown, some
from roundwise.formats.sheet import Problems

Index = NDArray[np.int64]

EVERY = "*"  # for `--ignore-arms`: all that are not of this study
WRONG, IGNORED, BLANK = -1, -2, -3  # in place of the number of an arm
_TOLD = 20  # names that are no arms which are told
_REMEMBERED = 100_000  # different names
_LONG = 5  # letters of a name in which one is easily lost


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
        self.matched = 0
        self._lines: list[int] = []  # of names that are no arms
        self._slips: dict[str, bool] = {}

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
            elif name in self._ignored or (EVERY in self._ignored and name and not self._meant(name)):
                index[k] = IGNORED
                self.left_out[shown(name)] = self.left_out.get(shown(name), 0) + 1
            elif not name and all(blank(column[k]) for column in others):
                index[k] = BLANK
            else:
                self._refused(problems, int(lines[k]), name)
        self.matched += int((index >= 0).sum())
        return index

    def _meant(self, name: str) -> bool:
        """Whether a name is an arm of this study that was mistyped, and none of another experiment."""
        found = self._slips.get(name)
        if found is None:
            found = self.nearest(name, exact=True) is not None or any(_slip(name, arm) for arm in self.arms[:2000])
            if len(self._slips) < _REMEMBERED:
                self._slips[name] = found
        return found

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
        """Put down all names that are no arms; raise an error if none of the table is one."""
        unknown = self._unknown
        if not unknown:
            return
        near = {name: self.nearest(name) for name in list(unknown)[:_TOLD]}
        slips = any(self.nearest(name, exact=True) for name in near)  # each of which is told the right name
        if not self.matched and not slips:
            raise refusal(
                f"{problems.name}, {problems.unit} {self._lines[0]}",
                f"there is no arm {quoted(next(iter(unknown)))} in this study, nor any other of this file "
                f"({', '.join(shown(name) for name in sorted(unknown)[:3])}, ...).",
                f"Is it a file of another study? The arms of this one are {some(self.arms)}.",
            )
        known = "" if any(near.values()) else f" Known: {some(self.arms)}."
        if len(unknown) == 1:
            name, meant = next(iter(near.items()))
            found = f"there is no arm {quoted(name)} in this study."
            found += f" Did you mean {quoted(meant)}?" if meant else known
        else:
            each = [f"{quoted(name)}{f' ({quoted(meant)}?)' if meant else ''}" for name, meant in near.items()]
            more = f" and {len(unknown) - _TOLD} more" if len(unknown) > _TOLD else ""
            found = f"{len(unknown)} names are no arms of this study: {', '.join(each)}{more}.{known}"
        remedy = (
            "Correct the name, also its capitals; rows of other experiments are left out with --ignore-arms NAMES "
            "(or '*' for all)."
        )
        for line in self._lines:
            problems.one("arms", line, found, remedy)

    def note(self, name: str) -> str | None:
        """What was left out, if anything was."""
        if not self.left_out:
            return None
        many = sum(self.left_out.values())
        rows = "1 row of another arm was" if many == 1 else f"{many} rows of other arms were"
        return f"{name}: {rows} left out ({by_arm(self.left_out)})."

    def _refused(self, problems: Problems, line: int, name: str) -> None:
        if not name:
            problems.one("no arm", line, "there is no name of an arm.", "Add it, or remove the line.")
            return
        if len(self._unknown) < _REMEMBERED:
            self._unknown.setdefault(name[:200])
        self._lines.append(line)


def _slip(name: str, arm: str) -> bool:
    """Whether a name is an arm with one letter too many or too few, or two of them exchanged.

    >>> [_slip(each, "Big button") for each in ("Big buton", "Big buttton", "Big buttno", "Big buttom", "Big butto")]
    [True, True, True, False, True]
    >>> _slip("variant 1", "variant 12")
    False
    """
    if name == arm or min(len(name), len(arm)) < _LONG or abs(len(name) - len(arm)) > 1:
        return False
    same = [one == other for one, other in zip(name, arm, strict=False)]
    at = same.index(False) if False in same else len(same)
    if len(name) == len(arm):
        return name[at + 2 :] == arm[at + 2 :] and name[at : at + 2] == arm[at : at + 2][::-1]
    longer, shorter = (name, arm) if len(name) > len(arm) else (arm, name)
    return longer[at].isalpha() and longer[at + 1 :] == shorter[at:]


def _folded(name: str) -> str:
    """A name without capitals, blanks, hyphens and underscores."""
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")
