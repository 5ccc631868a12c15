"""How rows become results: the names of columns and the rules, fixed when a study is created and recorded with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Literal, get_args

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError
from roundwise.messages import COMBINED, Remedy, quoted

Empty = Literal["refused", "zero", "missing"]
UnitResult = Literal["sum", "mean", "max", "any"]
MixedIds = Literal["refused", "left-out"]

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_EPOCH, _DAYS = 25_569, (20_000, 80_000)  # 1 January 1970 as a day of Excel, and days from 1954 to 2119
_WINDOW = re.compile(r"(\d+(?:\.\d+)?)\s*(m|h|d|w)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


@dataclass(frozen=True)
class Columns:
    """The column names of a user's tables, where they differ from the standard ones.

    Args:
        arm: Column of the arms.
        outcome: Column of the results.
        id: Column of unit ids (rows, users, patients): no id counts twice.
        time: Column of times.
        item: Column of the items that several arms are tried on: questions, plates.
        covariate: Column of a number known of each id before the study, to adjust for.
        denominator: Column by whose total the total outcome is divided: revenue per session.
        cost: Column of the cost of each result.

    >>> Columns(arm="variant").over(Columns(arm="group", outcome="converted")).payload()
    {'arm': 'variant', 'outcome': 'converted'}
    """

    arm: str | None = None
    outcome: str | None = None
    id: str | None = None
    time: str | None = None
    item: str | None = None
    covariate: str | None = None
    denominator: str | None = None
    cost: str | None = None

    def __post_init__(self) -> None:
        named = [name.strip() if isinstance(name, str) else name for name in self.payload().values()]
        if not all(isinstance(name, str) and name for name in named):
            raise InputError("The name of a column is empty. Give it as it stands in the header of the file.")
        if len({name.casefold() for name in named}) < len(named):
            raise InputError("One column is named twice. Give the arm, the outcome, ids, times and items one each.")

    def over(self, other: Columns) -> Columns:
        """These names, and those of `other` where there is none."""
        return Columns(**other.payload() | self.payload())

    def payload(self) -> dict[str, str]:
        """The names as JSON."""
        return {key: name for key, name in asdict(self).items() if name is not None}


@dataclass(frozen=True)
class Reading:
    """Rules by which rows become results, applied in this order: empty outcomes, ids, shares.

    Args:
        empty: Treatment of rows without an outcome: "refused", "zero" or "missing".
        id_result: How the rows of an id are combined: "sum", "mean", "max" or "any"; None: an id has one row.
        id_window: The time after the first row of an id in which rows count, e.g. "7d" or "36h"; None: no limit.
        mixed_ids: Treatment of ids with rows of several arms: "refused" or "left-out".
        share_above: A result is 1 if its value is above this one, else 0.
        share_below: A result is 1 if its value is below this one, else 0.
        failed_is: On a list, the result of a request that failed; None: it is asked for again.
        arm_names: Other names of arms: {"org/small-2026": "small"}, or as text "org/small-2026=small".

    >>> Reading(id_result="sum", id_window="7d").words
    'Rows of one id are one result, their sum within 7d of the first.'
    """

    empty: Empty = "refused"
    id_result: UnitResult | None = None
    id_window: str | None = None
    mixed_ids: MixedIds = "refused"
    share_above: float | None = None
    share_below: float | None = None
    failed_is: float | None = None
    arm_names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arm_names", parse_arm_names(self.arm_names))
        for name, choices in (("empty", Empty), ("id_result", UnitResult | None), ("mixed_ids", MixedIds)):
            known = [word for each in (choices, *get_args(choices)) for word in get_args(each) if isinstance(word, str)]
            value = vars(self)[name]
            if value not in known and not (value is None and name == "id_result"):
                raise InputError(
                    f"'{value}' is not a rule for {name.replace('_', ' ')}.",
                    Remedy(f"Give {{@{name}}} as one of {', '.join(dict.fromkeys(known))}."),
                )
        if self.id_window is not None:
            if self.id_result is None:
                raise InputError("A window needs a rule for the rows in it.", Remedy("Add {@id_result}."))
            if _WINDOW.fullmatch(self.id_window.strip().lower()) is None or not self.window > 0:
                raise InputError(
                    f"'{self.id_window}' is not a window.", Remedy("Give {@id_window} as a number with m, h, d or w.")
                )
        for cut in (self.share_above, self.share_below, self.failed_is):
            if cut is not None and not math.isfinite(cut):
                raise InputError("A value that results count by must be a finite number.")
        if self.share_above is not None and self.share_below is not None:
            raise InputError("A result counts above a value or below one, not both.")

    @property
    def window(self) -> float:
        """The window of a unit in seconds; infinite where there is none."""
        found = None if self.id_window is None else _WINDOW.fullmatch(self.id_window.strip().lower())
        return math.inf if found is None else float(found[1]) * _SECONDS[found[2]]

    @property
    def shares(self) -> bool:
        """Whether results are 1 beyond a value and 0 otherwise."""
        return self.share_above is not None or self.share_below is not None

    def of_columns(self, columns: Columns) -> Reading:
        """The rules for these columns: a ratio is of the sums of each id, unless another rule was given."""
        if columns.denominator is None or self.id_result is not None:
            return self
        return replace(self, id_result="sum")

    def of_metric(self, rates: bool) -> Reading:
        """The rules for a further column of the same rows, whose results are 0 or 1 (`rates`) or amounts.

        >>> Reading(id_result="any").of_metric(rates=False).id_result
        'sum'
        """
        combined = self.id_result
        if rates and combined is not None:
            combined = "any"
        elif combined == "any":
            combined = "sum"
        return replace(self, share_above=None, share_below=None, id_result=combined)

    def payload(self) -> Plain:
        """The rules that differ from the usual ones, as JSON."""
        usual = Reading()
        return {name: value for name, value in asdict(self).items() if value != vars(usual)[name]}

    def results(self, values: Floats) -> Floats:
        """Apply the rules to values; nan stays."""
        if not self.shares:
            return values
        beyond = values > self.share_above if self.share_above is not None else values < self.share_below  # type: ignore[operator]
        return np.where(np.isnan(values), np.nan, beyond.astype(np.float64))

    @property
    def words(self) -> str:
        """The rules in sentences; empty where there are none."""
        said = []
        if self.empty != "refused":
            said.append(f"An empty outcome is {'0' if self.empty == 'zero' else 'missing'}.")
        if self.id_result is not None:
            within = "" if self.id_window is None else f" within {self.id_window} of the first"
            said.append(f"Rows of one id are one result, {COMBINED[self.id_result]}{within}.")
        if self.mixed_ids == "left-out":
            said.append("Ids with rows of several arms are left out.")
        if self.shares:
            side, cut = ("above", self.share_above) if self.share_above is not None else ("below", self.share_below)
            said.append(f"A result is 1 if its value is {side} {cut:g}, else 0.")
        if self.failed_is is not None:
            said.append(f"A request that failed counts as {self.failed_is:g}.")
        return " ".join(said)


def parse_arm_names(given: str | Mapping[str, str]) -> dict[str, str]:
    """Parse other names of arms, from text or a mapping; a name may contain =, an arm may not.

    >>> parse_arm_names("org/small=small, org/large=large")
    {'org/small': 'small', 'org/large': 'large'}
    """
    if isinstance(given, Mapping):
        return {str(theirs).strip(): str(arm).strip() for theirs, arm in given.items()}
    pairs = [each.rpartition("=") for each in given.split(",") if each.strip()]
    wrong = next((arm for theirs, equals, arm in pairs if not theirs.strip() or not arm.strip()), None)
    if wrong is not None:
        raise InputError(f"The names of arms are '{given[:60]}'. Give them as THEIRS=ARM, for example org/small=small.")
    return {theirs.strip(): arm.strip() for theirs, _, arm in pairs}


def index_arms(arms: Sequence[str], others: Mapping[str, str]) -> dict[str, int]:
    """Return the number of the arm behind each name, and behind the other names that stand for arms."""
    names = [arm.strip() for arm in arms]
    index = {arm: i for i, arm in enumerate(names)}
    if len(index) < len(names):
        twice = next(arm for i, arm in enumerate(names) if index[arm] != i)
        raise InputError(f"Two arms are called '{twice}'. Give every arm a unique name.")
    known = set(names)
    for theirs, arm in others.items():
        if arm not in known:
            raise InputError(f"The name {quoted(theirs)} stands for {quoted(arm)}, which is not an arm of this study.")
        if index.setdefault(theirs, index[arm]) != index[arm]:
            raise InputError(f"The name {quoted(theirs)} stands for {quoted(arm)}, but is itself an arm.")
    return index


def moment(cell: object) -> str | None:
    """A time as ISO 8601 writes it; None where the cell has none."""
    text = cell.isoformat() if isinstance(cell, date) else cell
    text = str(cell)[:26] if isinstance(cell, np.datetime64) else text
    return text.strip() if isinstance(text, str) and _MOMENT.fullmatch(text.strip()[:40]) else None


def seconds(cell: object) -> float:
    """A time in seconds since 1970, in UTC unless it says otherwise; nan where there is none.

    A number is a day of Excel, which counts from the end of 1899.

    >>> seconds("2026-05-04") == seconds(46146) == seconds("2026-05-04T02:00+02:00")
    True
    """
    if isinstance(cell, int | float) and _DAYS[0] <= cell <= _DAYS[1]:
        return (float(cell) - _EPOCH) * _SECONDS["d"]
    text = moment(cell)
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None:
        return math.nan
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
