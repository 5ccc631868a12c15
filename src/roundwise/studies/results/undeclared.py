"""Columns that nobody named and that look like items several arms were tried on: a warning, and nothing more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roundwise.studies.results.cells import name_in
from roundwise.studies.results.words import quoted

MOST = 8  # columns that are looked at
_FEWEST = 10  # different values below which nothing is said
_SHARE = 0.5  # of the values that must come back with another arm
_TITLE = re.compile(
    r"(^|[^a-z])(items?|questions?|prompts?|tasks?|quer(y|ies)|examples?|problems?|cases?|images?|documents?|patients?"
    r"|subjects?|users?|plates?|ids?)([^a-z]|$)|id$",
    re.IGNORECASE,
)


def could_be_items(title: str) -> bool:
    """Whether a column of this title may say on what an arm was tried.

    >>> [could_be_items(each) for each in ("question_id", "userid", "Prompt", "date", "side", "score")]
    [True, True, True, False, False, False]
    """
    return _TITLE.search(title) is not None and title.lower() not in ("side", "paid", "valid", "bid", "mid", "grid")


def come_back(arms: Sequence[object], cells: Sequence[object]) -> bool:
    """Whether most values come back with another arm, and none with the same arm.

    >>> come_back(["a", "b"] * 20, [i // 2 for i in range(40)])
    True
    >>> come_back(["a", "b"] * 20, range(40))
    False
    """
    of: dict[str, set[str]] = {}
    for arm, cell in zip(arms, cells, strict=True):
        value, name = name_in(cell), name_in(arm)
        if not value:
            continue
        known = of.setdefault(value, set())
        if name in known:
            return False
        known.add(name)
    several = sum(len(each) > 1 for each in of.values())
    return len(of) >= _FEWEST and several >= _SHARE * len(of)


def warning(file: str, title: str) -> str:
    """What is said of such a column."""
    return (
        f"{file}: values of {quoted(title)} come back with other arms. If arms were tried on the same items, their "
        "results are not independent, and the guarantee holds only if they are: start the study with "
        f"--item-column {title}."
    )
