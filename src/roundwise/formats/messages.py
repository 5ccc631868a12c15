"""What messages say of a user's table: nothing of it reaches the screen but a few printable letters (`shown`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from roundwise.errors import DataError, said

LETTERS = 40  # of a cell or title that are shown
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


def shown(text: object, most: int = LETTERS) -> str:
    r"""A few letters of a text, none of which moves the cursor of a terminal.

    >>> shown("a\x1b[2Jb" + "c" * 10**7, most=14)
    'a\\x1b[2Jbcccc…'
    """
    try:
        whole = text if isinstance(text, str) else str(text)
    except (ValueError, RecursionError):  # a whole number of thousands of digits; a table in itself
        whole = f"<{type(text).__name__}>"
    start = whole[: most + 1].strip() if len(whole) > most else whole.strip()
    plain = "".join(each if _harmless(each) else each.encode("unicode_escape").decode() for each in start)
    return plain if len(plain) <= most and len(whole.strip()) <= most else plain[: most - 1] + "…"


def quoted(text: object, most: int = LETTERS) -> str:
    """The same in quotes."""
    return f"'{shown(text, most)}'"


def listed(names: Iterable[object], most: int = 8) -> str:
    """Some names in quotes, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(quoted(name) for name in every[:most]) + more


def by_arm(counts: Mapping[str, int], most: int = 6) -> str:
    """How many of each arm.

    >>> by_arm({"placebo": 2, "25mg": 1})
    'placebo 2, 25mg 1'
    """
    said = [f"{shown(arm)} {count}" for arm, count in list(counts.items())[:most]]
    return ", ".join(said) + (f" and {len(counts) - most} more" if len(counts) > most else "")


def some(names: Sequence[str]) -> str:
    """The first names in quotes."""
    return ", ".join(quoted(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _harmless(letter: str) -> bool:
    """Printable (no control, no change of direction), and not one of many marks piled on one letter."""
    return letter.isprintable() and unicodedata.category(letter) not in ("Mn", "Me")
