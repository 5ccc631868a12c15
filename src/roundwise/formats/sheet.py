"""A table before anything is known of its columns: the one form into which every kind of file is read.

`Problems` gathers everything that is wrong with it, by kind and arm, so that it is said at once and not line by line;
`Limits` say how much may come out of a file that somebody else sent: a few bytes may unpack to more than memory holds.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools
from roundwise.errors import DataError, InputError
from roundwise.formats.messages import by_arm, refusal, shown, spoken
from roundwise.formats.open_databases import not_open

SHOWN = 20  # kinds of problems in one message
_LINES = 4  # of each kind, whose numbers are said


@dataclass
class _Kind:
    """One kind of problem: the sentence for its first line, and how many more there are."""

    found: str
    remedy: str
    count: int = 0
    lines: list[int] = field(default_factory=list)
    arms: dict[str, int] = field(default_factory=dict)


class Problems:
    """What was found wrong with a table so far."""

    def __init__(self, name: str, unit: str) -> None:
        self.name, self.unit = name, unit
        self.arms: Sequence[str] = ()  # what the arms of the study are called
        self._kinds: dict[str, _Kind] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def one(self, kind: str, line: int | None, found: str, remedy: str) -> None:
        """A problem of one line, or (None) of the whole table."""
        known = self._kinds.setdefault(kind, _Kind(found, remedy))
        known.count += 1
        if line is not None and len(known.lines) < _LINES:
            known.lines.append(line)

    def some(
        self,
        kind: str,
        lines: Sequence[int],
        wrong: Bools,
        said: Callable[[int], tuple[str, str]],
        arms: NDArray[np.int64] | None = None,
    ) -> None:
        """The lines that are wrong; `said` makes of a place what was found there, and the remedy."""
        places = np.flatnonzero(wrong)
        if not len(places):
            return
        known = self._kinds.get(kind) or self._kinds.setdefault(kind, _Kind(*said(int(places[0]))))
        known.count += len(places)
        known.lines += [int(lines[k]) for k in places[: _LINES - len(known.lines)]]
        if arms is not None:
            index, counts = np.unique(arms[places], return_counts=True)
            for i, count in zip(index.tolist(), counts.tolist(), strict=True):
                if 0 <= i < len(self.arms):
                    known.arms[self.arms[i]] = known.arms.get(self.arms[i], 0) + count

    def refuse(self) -> None:
        """Raise a DataError if anything was found."""
        if not self._kinds:
            return
        kinds = sorted(self._kinds.values(), key=lambda kind: kind.lines[0] if kind.lines else 0)
        if len(kinds) == 1:
            raise DataError(f"{self._where(kinds[0])}: {self._said(kinds[0])}")
        told = "".join(f"\n- {self._where(kind, '')}: {self._said(kind)}" for kind in kinds[:SHOWN])
        more = f"\n- and {len(kinds) - SHOWN} more kinds." if len(kinds) > SHOWN else ""
        raise DataError(f"{self.name} has {len(kinds)} kinds of problems; nothing was recorded.{told}{more}")

    def _where(self, kind: _Kind, name: str | None = None) -> str:
        name = self.name if name is None else name
        line = f"{self.unit} {kind.lines[0]}" if kind.lines else ""
        return ", ".join(filter(None, (name, line))) or "the whole table"

    def _said(self, kind: _Kind) -> str:
        if kind.count < 2 or not kind.lines:
            return f"{kind.found}\n  {spoken(kind.remedy)}"
        lines = ", ".join(map(str, kind.lines)) + (", ..." if kind.count > len(kind.lines) else "")
        arms = f"; {by_arm(kind.arms)}" if kind.arms else ""
        return f"{kind.found}\n  So in {kind.count} {self.unit}s ({lines}{arms}). {spoken(kind.remedy)}"


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
        raise DataError(f"{shown(path, 200)} is a directory. Give the file with the table in it.") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def digest_of(file: BinaryIO) -> str:
    """The SHA-256 of a file, which is then at its start again."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


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
    return DataError(f"{name} is empty. Give a table with a header and at least one more line.")


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


REMEDY = "Nothing was recorded; give it in several files."


def too_large(name: str) -> DataError:
    """A small file that holds more than may be unpacked."""
    return DataError(f"{name} is too large when it is unpacked. {REMEDY}")


@dataclass(frozen=True)
class Limits:
    """Bytes of a file when it is unpacked, and rows."""

    unpacked: int
    rows: int

    def check(self, name: str, unpacked: int, rows: int) -> None:
        """Refuse a file that says itself how much is in it."""
        if rows > self.rows:
            raise DataError(f"{name} has over {self.rows} rows. {REMEDY}")
        if unpacked > self.unpacked:
            raise too_large(name)

    def gzip(self, name: str, file: BinaryIO) -> gzip.GzipFile:
        """A compressed file, read up to the limit."""
        return _Counted(name, file, self.unpacked)

    def counted(self, sheet: Sheet) -> Sheet:
        """A table, read up to the limit."""
        chunks: Callable[[Sequence[int]], Iterator[Chunk]] = sheet.chunks

        def few(places: Sequence[int]) -> Iterator[Chunk]:
            rows = 0
            for chunk in chunks(places):
                rows += len(chunk.lines)
                self.check(sheet.name, 0, rows)
                yield chunk

        sheet.chunks = few
        return sheet


class _Counted(gzip.GzipFile):
    """A compressed file of which only so many bytes are unpacked."""

    def __init__(self, name: str, file: BinaryIO, most: int) -> None:
        super().__init__(fileobj=file)
        self._shown, self._left = name, most

    def read(self, size: int | None = -1) -> bytes:
        """Some bytes."""
        found: Any = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise too_large(self._shown)
        return bytes(found)
