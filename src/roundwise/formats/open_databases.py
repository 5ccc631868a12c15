"""Files that this process keeps open and that nobody may open by the way: the databases of its studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roundwise.errors import InputError

HOLDERS: list[Callable[[Path], bool]] = []  # each says whether it holds a file; none before a store was opened


def not_open(path: Path) -> None:
    """Raise an error where a path is the file of a store that is open in this process (or SQLite's beside it).

    Reading it would drop the locks of SQLite, writing would destroy it: ask before a file is opened that a user named.
    """
    if any(holds(path) for holds in HOLDERS):
        raise InputError(
            f"{path} is the database in which the studies are kept. Nothing was changed; give another file."
        )
