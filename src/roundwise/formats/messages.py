"""What messages say of a user's table: nothing of it reaches the screen but a few printable letters (`shown`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roundwise.errors import DataError, said
from roundwise.messages import quoted as quoted
from roundwise.messages import shown as shown

_IN_PYTHON = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"--(arm|outcome|id|time|item)-column( NAME)?", r"columns=Columns(\1=...)"),
        (r"--ignore-arms NAMES", "ignore_arms=NAMES"),
        (r"--missing REASON", "missing=REASON"),
        (r"--new\b", "again=True"),
        (r"--average-ids\b", "average_ids=True"),
        (r"--cumulative\b", "cumulative=True"),
        (r"--range or --sigma", "Bounded(low, high) or SubGaussian(sigma)"),
        (r"--range (\S+) ([^\s:]+)", r"Bounded(\1, \2)"),
    )
]


def spoken(remedy: str) -> str:
    """What to do, in the words of where it is done: options at the shell, keywords in Python.

    >>> spoken("Name it with --arm-column NAME, or start a new study with --range 0 5: it must fit.")
    'Name it with columns=Columns(arm=...), or start a new study with Bounded(0, 5): it must fit.'
    """
    python = remedy
    for pattern, words in _IN_PYTHON:
        python = pattern.sub(words, python)
    return said(python, remedy)


def refusal(where: str, found: str, remedy: str) -> DataError:
    """The error that says what was found and where, and what to do."""
    return DataError(f"{where}: {found}\n  {spoken(remedy)}")


def some(names: Sequence[str]) -> str:
    """The first names in quotes."""
    return ", ".join(quoted(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
