"""What a user may say of a file: names of columns, arms to leave out, missing outcomes, running totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.studies.results.columns import Columns
from roundwise.studies.results.words import spoken


class Words(TypedDict, total=False):
    """The same as keywords of `Study.tell` and `Study.amend`."""

    columns: Columns | None
    ignore_arms: str | Sequence[str]
    missing: str | None
    cumulative: bool
    again: bool
    average_ids: bool


@dataclass(frozen=True)
class Options:
    """What was said of a file, beside what is fixed in the study."""

    columns: Columns | None = None  # names of columns; those of the study where there is none
    ignore_arms: str | Sequence[str] = ()  # names (a list, or with commas between them) that are no arms; "*" for all
    missing: str | None = None  # why rows have no outcome: they are then counted as missing
    cumulative: bool = False  # it is a running total: what is recorded is taken off
    again: bool = False  # all of it is new, whatever it looks like
    average_ids: bool = False  # several rows of one id are one result, their mean

    def __post_init__(self) -> None:
        if self.missing is not None and not self.missing.strip():
            raise InputError("The reason why outcomes are missing is empty. Say it in a few words: it is recorded.")
        if self.cumulative and self.again:
            raise InputError(spoken("A file is a running total (--cumulative) or all new (--new), not both."))
        if self.columns is not None and not isinstance(self.columns, Columns):
            raise InputError("`columns` must be Columns(arm=..., outcome=..., id=..., time=..., item=...).")

    def plain(self) -> Plain:
        """What was said, as JSON."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {key: value for key, value in said.items() if value not in (None, (), "", False)}
        if self.columns is not None:
            said["columns"] = self.columns.payload()
        return said | ({"ignore_arms": list(self.ignored)} if self.ignored else {})

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names that are left out."""
        names = self.ignore_arms.split(",") if isinstance(self.ignore_arms, str) else self.ignore_arms
        return tuple(str(name).strip() for name in names if str(name).strip())
