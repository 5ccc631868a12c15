"""A table before anything is known of its columns: the one form into which every kind of file is read."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeGuard

from roundwise.errors import DataError, InputError
from roundwise.studies.results.problems import Problems
from roundwise.studies.results.words import refusal, shown
from roundwise.studies.store.files import not_open


class Chunk(NamedTuple):
    """Some lines of a table: their numbers, and the cells of the columns that were asked for."""

    lines: Sequence[int]
    columns: Sequence[Sequence[object]]


@dataclass
class Sheet:
    """A table: its header, and its cells in chunks."""

    name: str  # as messages say it
    header: Sequence[str]
    chunks: Callable[[Sequence[int]], Iterator[Chunk]]  # the places of the columns -> their cells, in order
    digest: Callable[[], str] | None = None  # of the whole contents, once all chunks are read; None: of what is read
    unit: str = "row"
    header_line: int | None = None
    decimal_comma: bool = False
    hint: str = ""  # what to say if the columns are wrong
    notes: list[str] = field(default_factory=list)
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.name, self.unit)

    @property
    def top(self) -> str:
        """Where the header is."""
        return self.name if self.header_line is None else f"{self.name}, {self.unit} {self.header_line}"


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
        raise DataError(f"There is no file {shown(path, 200)}.{_nearest(Path(path))}") from None
    except IsADirectoryError:
        raise DataError(f"{shown(path, 200)} is a directory. Give the file with the results in it.") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(name: str, error: Exception) -> DataError:
    """The operating system refused."""
    reason = getattr(error, "strerror", None) or str(error)
    remedy = "Nothing was recorded; make it readable and try again."
    return refusal(shown(name, 200), f"cannot be read ({shown(reason, 200)}).", remedy)


def damaged(name: str, what: str, error: Exception) -> DataError:
    """A file of a known kind that cannot be read as such."""
    reason = shown(str(error).strip().partition("\n")[0] or type(error).__name__, 160)
    return refusal(name, f"cannot be read as {what} ({reason}).", "If the file was cut or damaged, write it again.")


def empty(name: str) -> DataError:
    """A file without a table."""
    return DataError(f"{name} is empty. Give a table with a header and one line for each result or arm.")


def is_frame(source: object) -> bool:
    """Whether it is a data frame of pandas or polars, or a mapping from names to columns."""
    return isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "__getitem__"))


def is_path(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it names a file."""
    return isinstance(source, str | os.PathLike)


def _nearest(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for _, entry in zip(range(1000), entries, strict=False)]
    except OSError:
        return f" There is no directory {shown(path.parent, 200)} either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f" Did you mean {shown(path.with_name(near[0]), 200)}?" if near else " Check the name and the directory."
