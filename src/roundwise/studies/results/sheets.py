"""What a table is before anything is known of its columns, and how to open whatever the user gave."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from roundwise.errors import DataError, InputError
from roundwise.studies.results.columns import problem
from roundwise.studies.store.files import not_open


class Chunk(NamedTuple):
    """Some lines of a table: their numbers, and the cells of the columns that were asked for."""

    lines: Sequence[int]
    columns: Sequence[Sequence[Any]]


@dataclass
class Sheet:
    """A table: its header, and its cells in chunks."""

    name: str
    header: Sequence[str]
    chunks: Callable[[Sequence[int]], Iterator[Chunk]]  # the places of the columns -> their cells, in order
    digest: Callable[[], str] | None = None  # of the whole contents, once all chunks are read; None: of what is read
    unit: str = "row"
    header_line: int | None = None
    decimal_comma: bool = False
    hint: str = ""  # what to say if the columns are wrong
    notes: list[str] = field(default_factory=list)

    def at(self, line: int) -> str:
        """Where a line is."""
        return f"{self.name}, {self.unit} {line}"

    @property
    def top(self) -> str:
        """Where the header is."""
        return self.name if self.header_line is None else self.at(self.header_line)


def opened(path: str) -> BinaryIO:
    """The file, or one sentence on why there is none."""
    try:
        not_open(Path(path))
        if Path(path).is_dir():
            raise IsADirectoryError
        return Path(path).open("rb")
    except InputError:
        raise
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.{_nearest(Path(path))}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a directory. Give the file with the results in it.") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(name: str, error: Exception) -> DataError:
    """The operating system refused."""
    reason = getattr(error, "strerror", None) or str(error)
    return problem(name, f"cannot be read ({reason}).", "Nothing was recorded; make it readable and try again.")


def is_frame(source: object) -> bool:
    """Whether it is a data frame of pandas or polars, or a mapping from names to columns."""
    return isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "__getitem__"))


def is_path(source: object) -> bool:
    """Whether it names a file."""
    return isinstance(source, str | os.PathLike)


def _nearest(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for _, entry in zip(range(1000), entries, strict=False)]
    except OSError:
        return f" There is no directory {path.parent} either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f" Did you mean {path.with_name(near[0])}?" if near else " Check the name and the directory."
