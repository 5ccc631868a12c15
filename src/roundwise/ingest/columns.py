"""The columns of a table of results, the names of its arms, and the options of `tell`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError, refusal
from roundwise.formats.sheet import Problems, blank, name_in
from roundwise.ingest.reading import Columns, Empty, Reading, index_arms, parse_arm_names
from roundwise.messages import Remedy, list_quoted, option, quoted, shown

ACCEPTED = (
    "Give the columns arm,outcome (one row a result), arm,count,total (sums; also squares, the sum of squared values), "
    "arm,count,successes (0/1 outcomes), or one column for each arm; or name yours with {@arm_column} and "
    "{@outcome_column}."
)
_NAMES: dict[str, tuple[str, ...]] = {
    "arm": (),
    "outcome": ("value", "reward", "result"),
    "count": ("n",),
    "total": ("sum",),
    "successes": (),
    "squares": (),
}
_SUM_TITLES = {  # of sums of 0/1 outcomes, taken only if there is one of each and nothing else could be the outcome
    "count": ("visitors", "visits", "users", "sessions", "impressions", "views", "patients", "trials", "total"),
    "successes": ("conversions", "converted", "clicks", "purchases", "orders", "signups", "responders", "cures"),
}
_SUMS = ("count", "total", "successes", "squares")
_EXTRAS = ("id", "time", "item", "covariate", "denominator", "cost")  # columns that a table of any form may have
_TO_COME = "remaining"  # a column of what is asked for: a round is not a table of results


WATCH = "watch "  # before the title of a column that is not used but may identify units, as a role


class ColumnLayout(NamedTuple):
    """The positions of the columns, by role."""

    form: Literal["rows", "sums", "successes", "wide"]
    places: dict[str, int]  # "arm", "outcome", ..., "id", "time", "item"; in a wide table also the name of each arm
    titles: dict[str, str]  # the same, as the user wrote them
    unused: tuple[str, ...]
    guessed: tuple[str, ...] = ()  # what was found by the values alone

    @property
    def squares(self) -> bool:
        """Whether sums of squares are there."""
        return "squares" in self.places


Guess = Callable[[str, Sequence[int]], list[int]]  # "arm" or "outcome", and places -> those that could be it


def known_titles(columns: Columns, arms: Collection[str]) -> set[str]:
    """All titles a header may have, in lower case; they determine the delimiter of a text table."""
    known = {name for name, others in _NAMES.items() for name in (name, *others)}
    known |= {name.strip().casefold() for name in columns.payload().values()}
    return known | {arm.casefold() for arm in arms}


def layout(
    where: str,
    header: Sequence[str],
    arms: Collection[str],
    hint: str,
    columns: Columns,
    guess: Guess,
    needs_arm: bool = True,
) -> ColumnLayout:
    """Find out which column is what.

    Args:
        where: The file, and the line of its header.
        header: The titles.
        arms: The names of the arms: in a wide table each has a column.
        hint: What to say if the columns are wrong.
        columns: Names that the user gave.
        guess: Looks at the cells where the header does not tell.
        needs_arm: Whether there must be a column of arms; without one, all rows are one group.
    """
    titles = [title.strip() for title in header]
    places = {role: _named_place(where, titles, role, name.strip()) for role, name in columns.payload().items()}
    named = set(places)
    places |= _usual_places(where, titles, places)
    places |= _sum_places(titles, places)
    if columns.outcome is not None:  # then the others are only columns with a common name
        places = {role: place for role, place in places.items() if role not in _SUMS}
    more = tuple(role for role in _EXTRAS if role in places)
    guessed: dict[str, int] = {}
    form: Literal["rows", "sums", "successes", "wide"] = "wide"
    if columns_of_arms := _arm_places(where, titles, arms, places):
        places |= columns_of_arms
        roles = tuple(columns_of_arms)
    else:
        if not any(title in arms or title[:1].isdigit() for title in titles):  # else these are results, no header
            guessed = _guessed_places(where, titles, places, guess, needs_arm)
        places |= guessed
        if not needs_arm and "outcome" in places:
            others = (i for i in range(len(titles)) if i != places["outcome"])
            places.setdefault("arm", next(others, places["outcome"]))  # any column, which tells blank lines
        form, roles = _choose_form(where, titles, places, named, arms, hint)
    used = {role: places[role] for role in (*roles, *more)}
    split = {title.removeprefix("arm in ") for title in titles if title.startswith("arm in ")}  # by `split_names`
    left = [title for i, title in enumerate(titles) if title and i not in used.values()]
    unused = tuple(title for title in left if title not in split)
    return ColumnLayout(form, used, {role: titles[place] for role, place in used.items()}, unused, tuple(guessed))


def _choose_form(
    where: str, titles: Sequence[str], places: Mapping[str, int], named: Set[str], arms: Collection[str], hint: str
) -> tuple[Literal["rows", "sums", "successes"], tuple[str, ...]]:
    """The form of a table that has one column of arms, and the roles of its columns."""
    has = places.keys()
    complete: list[tuple[Literal["rows", "sums", "successes"], tuple[str, ...]]] = []
    if {"arm", "outcome"} <= has:
        complete.append(("rows", ("arm", "outcome")))
    if {"arm", "count", "total"} <= has:
        complete.append(("sums", ("arm", "count", "total", *(("squares",) if "squares" in has else ()))))
    if {"arm", "count", "successes"} <= has:
        complete.append(("successes", ("arm", "count", "successes")))
    if not complete:
        raise _incomplete(where, titles, has, arms, hint)
    form, roles = complete[0]
    if len(complete) > 1 or (form == "rows" and "count" in has and "outcome" not in named):
        mixed = [titles[places[n]] for n in ("outcome", "count", "total", "successes") if n in has]
        raise refusal(
            where,
            f"the columns {list_quoted(mixed)} can be read in more than one way.",
            Remedy("Remove or rename those that do not belong, or name the outcome: {@outcome_column}. " + ACCEPTED),
        )
    if form != "rows" and {"id", "item"} & named:
        remedy = Remedy("Use one row per result, or leave out {@id_column} and {@item_column}.")
        raise refusal(where, "sums have no ids and no items.", remedy)
    return form, roles


def _named_place(where: str, titles: Sequence[str], role: str, name: str) -> int:
    """Where the column is that the user named."""
    at = [i for i, title in enumerate(titles) if title == name]
    at = at or [i for i, title in enumerate(titles) if title.casefold() == name.casefold()]
    if len(at) == 1:
        return at[0]
    said = f"there are {len(at)} columns {quoted(name)}."
    if not at:
        found = [title for title in titles if title]
        near = difflib.get_close_matches(name[:100], [title[:100] for title in found[:500]], n=1, cutoff=0.6)
        said = f"there is no column {quoted(name)}, only {list_quoted(found)}."
        said += f" Did you mean {quoted(near[0])}?" if near else ""
    raise refusal(where, said, Remedy(f"Name it with {{@{role}_column}}."))


def _usual_places(where: str, titles: Sequence[str], named: Mapping[str, int]) -> dict[str, int]:
    """Where each known column is: under its own name, or else under another that means the same."""
    folded = {i: title.casefold() for i, title in enumerate(titles) if i not in named.values()}
    places: dict[str, int] = {}
    for name, others in _NAMES.items():
        if name in named:
            continue
        at = [i for i, title in folded.items() if title == name] or [i for i, each in folded.items() if each in others]
        if len(at) > 1:
            choice = f", or use {{@{name}_column}}." if name in ("arm", "outcome") else "."
            raise refusal(
                where,
                f"the columns {list_quoted([titles[i] for i in at])} all mean '{name}'.",
                Remedy(f"Keep one of them, called '{name}'" + choice),
            )
        if at:
            places[name] = at[0]
    return places


def _sum_places(titles: Sequence[str], places: Mapping[str, int]) -> dict[str, int]:
    """Where sums of 0/1 outcomes are under the names that reports of other tools give them."""
    if {"outcome", "count", "successes"} & places.keys():
        return {}
    found = {
        role: [i for i, title in enumerate(titles) if title.casefold() in names and i not in places.values()]
        for role, names in _SUM_TITLES.items()
    }
    return {role: at[0] for role, at in found.items()} if all(len(at) == 1 for at in found.values()) else {}


def _arm_places(
    where: str, titles: Sequence[str], arms: Collection[str], places: Mapping[str, int]
) -> dict[str, int] | None:
    """The columns of a wide table, one an arm: if no column has arms or outcomes, and two arms or more have one."""
    extras = {places[role] for role in _EXTRAS if role in places}
    at = [(title, i) for i, title in enumerate(titles) if title in arms and i not in extras]
    if {"arm", "outcome"} & places.keys() or len(at) < 2:
        return None
    found = dict(at)
    if len(found) < len(at):
        twice = next(title for title, i in at if found[title] != i)
        raise refusal(where, f"there are two columns {quoted(twice)}.", "Give every arm one column.")
    return {f"arm {title}": i for title, i in at}


def _guessed_places(
    where: str, titles: Sequence[str], places: Mapping[str, int], guess: Guess, needs_arm: bool
) -> dict[str, int]:
    """The arm and the outcome where no header tells them and the cells of one column alone could be them."""
    found: dict[str, int] = {}
    if _TO_COME in titles:
        return found
    sums = {"count", "total"} <= places.keys() or {"count", "successes"} <= places.keys()
    for role in ("arm", "outcome"):
        without_arm = needs_arm and "arm" not in places.keys() | found.keys()
        if role in places or (role == "outcome" and (sums or without_arm)):
            continue
        taken = {*places.values(), *found.values()}
        could = guess(role, [i for i, title in enumerate(titles) if title and i not in taken])
        if len(could) > 1:
            what, names = "has the arms" if role == "arm" else "is the outcome", [titles[i] for i in could]
            unclear = f"it is not clear which column {what}: it could be {list_quoted(names)}."
            raise refusal(where, unclear, Remedy(f"Use {{@{role}_column}}."))
        if could:
            found[role] = could[0]
    return found


def _incomplete(where: str, titles: Sequence[str], has: Set[str], arms: Collection[str], hint: str) -> DataError:
    found = [title for title in titles if title]
    missing = "arm"
    if "arm" in has:
        missing = "count" if {"total", "successes"} & has else "total" if "count" in has else "outcome"
    if _TO_COME in titles and not has & {*_SUMS}:
        said = "this is a round that was asked for; it has no results."
        return refusal(where, said, Remedy("Write them down. " + ACCEPTED))
    said = f"found {list_quoted(found)}, but no column '{missing}'." if found else "the header is empty."
    if found and found[0] in arms:
        return refusal(where, said, Remedy("The first line must be the header. " + ACCEPTED))
    near = difflib.get_close_matches(missing, [title.casefold()[:40] for title in found[:500]], n=1, cutoff=0.6)
    if near:
        said += f" Did you mean '{missing}' by {quoted(next(t for t in found if t.casefold()[:40] == near[0]))}?"
    return refusal(where, said, Remedy("{hint}" + ACCEPTED, hint=hint))


class TellKeywords(TypedDict, total=False):
    """The same as keywords of `Study.tell` and `Study.amend`."""

    columns: Columns | None
    ignore_arms: str | Sequence[str]
    arm_names: str | Mapping[str, str]
    missing: str | None
    empty: Empty | None
    failed: bool
    cumulative: bool
    new: bool


@dataclass(frozen=True)
class TellOptions:
    """The options of one `tell`, in addition to the settings of the study."""

    columns: Columns | None = None  # names of columns; those of the study where there is none
    ignore_arms: str | Sequence[str] = ()  # names (a list, or with commas between them) that are no arms; "*" for all
    arm_names: str | Mapping[str, str] = ""  # what arms are called in it, where the study does not say: theirs=arm
    missing: str | None = None  # why rows have no outcome: they are then counted as missing
    empty: Empty | None = None  # what rows without an outcome are; None: what the study says
    failed: bool = False  # of a list: rows without an outcome are given up, and not asked for again
    cumulative: bool = False  # a running total: what is recorded is subtracted
    new: bool = False  # all of it is new, whatever it looks like

    def __post_init__(self) -> None:
        if self.missing is not None and not self.missing.strip():
            raise InputError("The reason why outcomes are missing is empty. Say it in a few words: it is recorded.")
        if self.empty is not None:
            Reading(empty=self.empty)  # checked
        object.__setattr__(self, "arm_names", parse_arm_names(self.arm_names))
        if self.missing is not None and self.empty not in (None, "missing"):
            raise InputError("Rows without an outcome are missing or something else.", Remedy("Use {@missing} alone."))
        if self.cumulative and self.new:
            raise InputError("A file is a running total or all new, not both.", Remedy("Use {@cumulative} or {@new}."))
        if self.columns is not None and not isinstance(self.columns, Columns):
            raise InputError("`columns` must be Columns(arm=..., outcome=..., id=..., ...).")

    def plain(self) -> Plain:
        """The options as JSON."""
        said = {key: value for key, value in vars(self).items() if value not in (None, (), "", False, {})}
        if self.columns is not None:
            said["columns"] = self.columns.payload()
        return said | ({"ignore_arms": list(self.ignored)} if self.ignored else {})

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names that are left out."""
        names = self.ignore_arms.split(",") if isinstance(self.ignore_arms, str) else self.ignore_arms
        return tuple(str(name).strip() for name in names if str(name).strip())


Index = NDArray[np.int64]

EVERY = "*"  # for `--ignore-arms`: all that are not of this study
WRONG, IGNORED, BLANK = -1, -2, -3  # in place of the number of an arm
_TOLD = 20  # unknown names that an error lists
_REMEMBERED = 100_000  # different names
_LONG = 5  # letters of a name in which one is easily lost


class ArmNames:
    """The arms of the study, and the other names found in a file."""

    any_name: ClassVar[bool] = False  # whether rows of any name count, and there need be no column of names

    def __init__(self, arms: Sequence[str], ignored: Collection[str] = (), others: Mapping[str, str] = {}) -> None:
        self.arms = [arm.strip() for arm in arms]
        self.index = index_arms(arms, others)
        self._ignored = {name.strip() for name in ignored}
        both = self._ignored & self.index.keys()
        if both:
            raise InputError(f"{quoted(min(both))} is an arm of this study and cannot be ignored.")
        self._folded: dict[str, str] | None = None  # the arms as `_fold` writes them
        self._slips: dict[str, bool] = {}  # whether a name is a mistyped arm
        self._unknown: dict[str, None] = {}
        self._unknown_lines: list[int] = []
        self.left_out: dict[str, int] = {}  # names that were ignored, and how often
        self.matched = 0  # lines with an arm

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
            elif name in self._ignored or (EVERY in self._ignored and name and not self._is_slip(name)):
                index[k] = IGNORED
                self.left_out[shown(name)] = self.left_out.get(shown(name), 0) + 1
            elif name:
                self._unknown_lines.append(int(lines[k]))
                if len(self._unknown) < _REMEMBERED:
                    self._unknown.setdefault(name[:200])
            elif all(blank(column[k]) for column in others):
                index[k] = BLANK
            else:
                problems.one("no arm", int(lines[k]), "there is no name of an arm.", "Add it, or remove the line.")
        self.matched += int((index >= 0).sum())
        return index

    def _is_slip(self, name: str) -> bool:
        """Whether a name is an arm of this study that was mistyped, and none of another experiment."""
        found = self._slips.get(name)
        if found is None:
            found = self.nearest(name, exact=True) is not None or any(_slip(name, arm) for arm in self.arms[:2000])
            if len(self._slips) < _REMEMBERED:
                self._slips[name] = found
        return found

    def nearest(self, name: str, exact: bool = False) -> str | None:
        """The arm that was probably meant; with `exact` only if capitals, blanks and hyphens alone are different."""
        if self._folded is None:
            self._folded = {_fold(arm): arm for arm in reversed(self.arms[:200_000])}
        near = self._folded.get(_fold(name[:200]))
        if near is not None or exact or len(name) > 100:
            return near
        return next(iter(difflib.get_close_matches(name, self.arms[:2000], n=1, cutoff=0.5)), None)

    def refuse_others(self, problems: Problems) -> None:
        """Record all names that are not arms as problems; raise an error if the table has no arm."""
        unknown = self._unknown
        if not unknown:
            return
        near = {name: self.nearest(name) for name in list(unknown)[:_TOLD]}
        slips = any(self.nearest(name, exact=True) for name in near)  # of which each gets a suggestion
        if not self.matched and not slips:
            raise refusal(
                f"{problems.name}, {problems.unit} {self._unknown_lines[0]}",
                f"there is no arm {quoted(next(iter(unknown)))} in this study, nor any other of this file "
                f"({', '.join(shown(name) for name in sorted(unknown)[:3])}, ...).",
                f"The arms of this study are {list_quoted(self.arms, 5)}. If the file calls them otherwise, say so: "
                f"{option('arm_names')}. Or is it a file of another study?",
            )
        known = "" if any(near.values()) else f" Known: {list_quoted(self.arms, 5)}."
        if len(unknown) == 1:
            name, meant = next(iter(near.items()))
            found = f"there is no arm {quoted(name)} in this study."
            found += f" Did you mean {quoted(meant)}?" if meant else known
        else:
            each = [f"{quoted(name)}{f' ({quoted(meant)}?)' if meant else ''}" for name, meant in near.items()]
            more = f" and {len(unknown) - _TOLD} more" if len(unknown) > _TOLD else ""
            found = f"{len(unknown)} names are not arms of this study: {', '.join(each)}{more}.{known}"
        remedy = (
            "Correct the name, also its capitals; to leave out rows of other experiments, use "
            f"{option('ignore_arms')} ('*' for all)."
        )
        for line in self._unknown_lines:
            problems.one("arms", line, found, remedy)


class AnyName(ArmNames):
    """The arms of a study, and all other names as one more: for files that need not have them."""

    any_name: ClassVar[bool] = True

    def __init__(self, arms: Sequence[str]) -> None:
        super().__init__([*arms, "other rows"])
        self._places = {name: i for i, name in enumerate(arms)}

    def found(
        self, problems: Problems, lines: Sequence[int], cells: Sequence[Any], others: Sequence[Sequence[object]]
    ) -> Index:
        """Return the place of each arm, the last one for other names; a line is blank if all its cells are."""
        which = np.array([self._places.get(str(name_in(cell)), len(self._places)) for cell in cells], dtype=np.intp)
        empty = np.array([blank(cell) and all(blank(each[k]) for each in others) for k, cell in enumerate(cells)])
        return np.where(empty, BLANK, which)


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


def _fold(name: str) -> str:
    """A name without capitals, blanks, hyphens and underscores."""
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")
