"""Refusals of a user's table, of which only a few printable letters reach the screen (`shown`)."""

from __future__ import annotations

from collections.abc import Sequence

from roundwise.errors import DataError
from roundwise.messages import Remedy
from roundwise.messages import quoted as quoted
from roundwise.messages import shown as shown


def refusal(where: str, found: str, remedy: str | Remedy) -> DataError:
    """Return the error that says what was found and where, and what to do."""
    if isinstance(remedy, str):
        return DataError(f"{where}: {found}\n  {remedy}")
    return DataError(f"{where}: {found}\n ", remedy)


def some(names: Sequence[str]) -> str:
    """The first names in quotes."""
    return ", ".join(quoted(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
