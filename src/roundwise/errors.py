"""The exceptions of roundwise.

    RoundwiseError
    ├── InputError                 a value, option or name that cannot be used (also a ValueError)
    │   ├── StudyExistsError       the name of a new study is taken
    │   ├── StudyStateError        the study's state does not allow it: no round is open, or it is already recorded
    │   └── UnknownStudyError      no study has this name
    ├── DataError                  a table that cannot be used, with the file and the line; a database that is no store
    │   └── DamagedError           a log or file that is no longer as it was written
    └── StoreError                 the store cannot do it now: disk full, server away, file locked or not writable
        └── ConflictError          someone else wrote first; nothing was changed

A message says what was found and where, what is required, and what to do. On the command line each of
them is one sentence on standard error and exit code 2.
"""

from __future__ import annotations

import difflib
import heapq
import operator
from collections.abc import Iterable

from roundwise.messages import LONGEST, Remedy


class RoundwiseError(Exception):
    """Base class of every exception that roundwise raises on purpose.

    Args:
        message: what was found and where, and what is required.
        remedy: what to do, rendered in the words of the surface on which the error is shown.
    """

    def __init__(self, message: str = "", remedy: Remedy | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        return super().__str__() if self.remedy is None else f"{super().__str__()} {self.remedy}"


class InputError(RoundwiseError, ValueError):
    """A value, an option or a name that cannot be used."""


class DataError(RoundwiseError):
    """A table that cannot be used; the message names the file and the line."""


class StudyExistsError(InputError):
    """A new study under a name that is taken."""


class StudyStateError(InputError):
    """The study's state does not allow it: no round is open, or it is already recorded."""


class UnknownStudyError(InputError):
    """No study has this name."""


class DamagedError(DataError):
    """A log or a file that is no longer as it was written."""


class StoreError(RoundwiseError):
    """The store cannot do it now: disk full, server away, file locked or not writable."""


class ConflictError(StoreError):
    """Another process wrote first; nothing was changed."""


COMPARED = 20  # names that are compared letter by letter with one that is not known
LISTED = 100  # names that an error lists


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, with the nearest one that is.

    Of many names only those with about the same letters in the same places are compared: each comparison takes time
    that grows with the product of the lengths.
    """
    names, letters = sorted(known), set(name)

    def unlike(other: str) -> tuple[int, int]:
        places = sum(map(operator.ne, name, other))
        return len(letters.symmetric_difference(other)), places + abs(len(other) - len(name))

    near = difflib.get_close_matches(name, heapq.nsmallest(COMPARED, names, key=unlike), n=1, cutoff=0.5)
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names[:LISTED])}{more}."
    return InputError(f"There is no {kind} called '{name[:LONGEST]}'. {hint}")


def refusal(where: str, found: str, remedy: str | Remedy) -> DataError:
    """The error for a user's table: what was found and where, and what to do."""
    if isinstance(remedy, str):
        return DataError(f"{where}: {found}\n  {remedy}")
    return DataError(f"{where}: {found}\n ", remedy)
