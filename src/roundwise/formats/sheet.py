"""A table before anything is known of its columns: the one form into which every kind of file is read.

`Numbers`, `name_in` and `blank` read single cells; `Problems` collects everything that is wrong with a table, by kind
and arm; `Limits` bound what is unpacked from an uploaded file: a few bytes may unpack to more than memory holds.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, Hashes
from roundwise.errors import DataError, InputError, refusal
from roundwise.messages import FileNote, list_by_arm, shown

HOLDERS: list[Callable[[Path], bool]] = []  # each says whether it holds a file; none before a store was opened


def not_open(path: Path) -> None:
    """Raise an error if a path is a store file that is open in this process (or one of SQLite's files next to it).
    Reading it would drop SQLite's locks and writing would destroy it, so every user-named file is checked before it is
    opened.
    """
    if any(holds(path) for holds in HOLDERS):
        raise InputError(
            f"{path} is the database in which the studies are kept. Nothing was changed; give another file."
        )


UNPACKED = 1 << 30  # bytes of an archive or a workbook, unpacked
LARGEST = 1e100  # of a value: larger ones are mistakes, and their squares could not be added
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}  # what stands for a value that is not there
WORDS = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
GROUPED = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")  # a number with three decimals, or thousands
_REMEMBERED = 100_000  # different texts of a column
_LONGEST = 400  # letters of a number


def blank(cell: object) -> bool:
    """Whether a cell is empty."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def no_value(cell: object) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    return blank(cell) or (isinstance(cell, str) and len(cell) < 20 and cell.strip().casefold() in NOTHING)


def name_in(cell: object) -> str:
    """The name in a cell; a number that a table keeps as 3.0 is '3'."""
    if blank(cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    try:
        return str(cell).strip()
    except (ValueError, RecursionError):
        return shown(cell)


class Numbers:
    """The numbers of one column, chunk by chunk, and how they are written: in the outcome also 31 %, yes and no.

    In a column of counts, 1.000 is no number: it may be 1, or a thousand.
    """

    def __init__(self, title: str, decimal_comma: bool = False, outcome: bool = False, counts: bool = False) -> None:
        self.title, self._decimal_comma, self._outcome, self._counts = title, decimal_comma, outcome, counts
        self.examples: dict[str, tuple[str, float]] = {}  # how else numbers are written -> the first such cell
        self.seen: dict[str, int] = {}  # "percent", "plain", "point", "comma" -> the first line
        self._memory: dict[str, tuple[float, str]] = {}

    def read(self, lines: Sequence[int], cells: Sequence[object]) -> tuple[Floats, Bools]:
        """The number in each cell (NaN where there is none), and whether there is no value at all."""
        if self._decimal_comma:
            self._signs(lines, cells)
        try:
            found = self._at_once(cells)
        except (ValueError, TypeError, OverflowError):
            found = None
        if found is not None and not np.isnan(found).any():
            if found.any():
                self.seen.setdefault("plain", int(lines[0]))
            return found, np.zeros(len(cells), dtype=np.bool_)
        found, missing = np.empty(len(cells)), np.zeros(len(cells), dtype=np.bool_)
        for k, cell in enumerate(cells):
            value, kind = self._remembered(cell)
            found[k] = value
            if kind == "missing":
                missing[k] = True
            elif kind and not (kind == "plain" and not value):
                self.seen.setdefault(kind, int(lines[k]))
        return found, missing

    def number(self, cell: object) -> float:
        """The number in one cell; NaN where there is none."""
        return self._remembered(cell)[0]

    def _remembered(self, cell: object) -> tuple[float, str]:
        if not isinstance(cell, str):
            return self._read(cell)
        found = self._memory.get(cell)
        if found is None:
            found = self._read(cell)
            if len(self._memory) < _REMEMBERED and len(cell) <= _LONGEST:
                self._memory[cell] = found
        return found

    def _read(self, cell: object) -> tuple[float, str]:
        if no_value(cell):
            return np.nan, "missing"
        try:
            if isinstance(cell, str):
                return self._text(cell.strip())
            if isinstance(cell, bool | int | float | Decimal | np.number | np.bool_):
                return float(cell), "plain"
        except OverflowError:
            return np.inf, "plain"
        except (ValueError, TypeError):
            pass
        return np.nan, ""

    def _text(self, text: str) -> tuple[float, str]:
        if len(text) > _LONGEST or "_" in text or not text.isascii():  # which Python would allow
            raise ValueError
        if self._outcome and text.casefold() in WORDS:
            return self._said("word", text, WORDS[text.casefold()]), "word"
        if self._outcome and text.endswith("%"):
            return self._said("percent", text, self._plain(text[:-1].strip()) / 100.0), "percent"
        if not self._decimal_comma and _THOUSANDS.fullmatch(text):
            return self._said("thousands", text, float(text.replace(",", ""))), "plain"
        if self._counts and GROUPED.fullmatch(text):
            raise ValueError
        return self._plain(text), "plain"

    def _plain(self, text: str) -> float:
        return float(text.replace(",", ".") if self._decimal_comma else text)

    def _said(self, kind: str, text: str, value: float) -> float:
        self.examples.setdefault(kind, (text, value))
        return value

    def _at_once(self, cells: Sequence[Any]) -> Floats:
        """All of a column whose cells are plain numbers; else a ValueError or TypeError."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iufb":
            return cells.astype(np.float64)
        kinds = set(map(type, cells))
        if kinds <= {float, int, bool}:
            return np.fromiter(cells, np.float64, len(cells))
        if kinds != {str}:
            raise TypeError
        text = "".join(cells)
        if "_" in text or not text.isascii() or max(map(len, cells)) > _LONGEST:
            raise ValueError
        if self._counts and any(map(GROUPED.fullmatch, map(str.strip, cells))):
            raise ValueError
        if self._decimal_comma and "," in text:
            cells = [cell.replace(",", ".") for cell in cells]
        return np.fromiter(map(float, cells), np.float64, len(cells))

    def _signs(self, lines: Sequence[int], cells: Sequence[object]) -> None:
        for sign, kind in ((".", "point"), (",", "comma")):
            if kind not in self.seen:
                at = next((k for k, cell in enumerate(cells) if isinstance(cell, str) and sign in cell), None)
                if at is not None:
                    self.seen[kind] = int(lines[at])
                    text = str(cells[at]).strip()
                    if kind == "point" and GROUPED.fullmatch(text):
                        self._said("thousands", text, float(text))


_WHOLE = re.compile(r"[0-9]+\.0+")


def key_of(seed: int) -> bytes:
    """The key of a study's hashes."""
    return (seed % 2**64).to_bytes(8, "little")


def hashes(cells: Iterable[object], seed: int) -> Hashes:
    """A 64-bit hash of each cell, read as a name: 3, 3.0 and '3' are the same."""
    key, blake = key_of(seed), hashlib.blake2b
    names = (cell.strip() if type(cell) is str else name_in(cell) for cell in cells)
    joined = b"".join(blake(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def whole(cell: object) -> object:
    """An id as it is, but '7.0' as '7': so a column of whole numbers is written once a cell of it was empty."""
    return cell.strip().rstrip("0")[:-1] if type(cell) is str and _WHOLE.fullmatch(cell.strip()) else cell


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
    """The problems found in a table so far."""

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
        """Add lines that are wrong; `said` maps a place to what was found there, and the remedy."""
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
            return f"{kind.found}\n  {kind.remedy}"
        lines = ", ".join(map(str, kind.lines)) + (", ..." if kind.count > len(kind.lines) else "")
        arms = f"; {list_by_arm(kind.arms)}" if kind.arms else ""
        return f"{kind.found}\n  So in {kind.count} {self.unit}s ({lines}{arms}). {kind.remedy}"


def where_header_is(
    header: Sequence[str], below: Iterable[tuple[int, Iterable[Sequence[str]]]], known: Collection[str], unit: str
) -> str:
    """What to say of a table whose header is not at its top; nothing if the top may be one.

    Args:
        header: The titles at the top.
        below: The lines after it: the number of each, and the ways in which its cells can be read.
        known: The titles that a header may have.
        unit: A line, or a row.
    """
    fits = [sum(title.strip().casefold() in known for title in header), 1]
    for number, readings in below:
        if max(len({title.strip().casefold() for title in each} & set(known)) for each in readings) > max(fits):
            return f"The header seems to be in {unit} {number}: remove what is above it. "
    return ""


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
    notes: list[FileNote] = field(default_factory=list)
    roles: dict[str, str | None] = field(default_factory=dict)  # columns that the reader itself knows; None: not there
    reasons: Counter[str] = field(default_factory=Counter)  # why rows have no outcome, where the file says it
    cost_unit: str = ""  # of what rows cost, where the file says it: tokens
    lower_is_better: bool | None = None  # where the file says it, or its nature: times
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.name, self.unit)

    def note(self, code: str, **fields: object) -> None:
        self.notes.append(FileNote(code, file=self.name, **fields))

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
    """The error for a file that the operating system refused to open."""
    reason = getattr(error, "strerror", None) or str(error)
    remedy = "Nothing was recorded; make it readable and try again."
    return refusal(shown(name, 200), f"cannot be read ({shown(reason, 200)}).", remedy)


def damaged(name: str, what: str, error: Exception) -> DataError:
    """The error for a damaged file of a known kind."""
    reason = shown(str(error).strip().partition("\n")[0] or type(error).__name__, 160)
    return refusal(name, f"cannot be read as {what} ({reason}).", "If the file was cut or damaged, write it again.")


def empty(name: str) -> DataError:
    """The error for a file without a table."""
    return DataError(f"{name} is empty. Give a table with a header and at least one more line.")


def is_frame(source: object) -> bool:
    """Whether it is a data frame of pandas or polars, an Arrow table, or a mapping from names to columns."""
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
    """The error for a small file that unpacks to more than the limit."""
    return DataError(f"{name} is too large when it is unpacked. {REMEDY}")


@dataclass(frozen=True)
class Limits:
    """Bytes of a file when it is unpacked, and rows."""

    unpacked: int
    rows: int

    def check_rows(self, name: str, rows: int) -> None:
        """Refuse a file with more rows."""
        if rows > self.rows:
            raise DataError(f"{name} has over {self.rows} rows. {REMEDY}")

    def counted(self, sheet: Sheet) -> Sheet:
        """A table, read up to the limit."""
        chunks = sheet.chunks

        def few(places: Sequence[int]) -> Iterator[Chunk]:
            rows = 0
            for chunk in chunks(places):
                rows += len(chunk.lines)
                self.check_rows(sheet.name, rows)
                yield chunk

        sheet.chunks = few
        return sheet


class LimitedGzip(gzip.GzipFile):
    """A compressed file of which at most `most` bytes are unpacked."""

    def __init__(self, name: str, file: BinaryIO, most: int) -> None:
        super().__init__(fileobj=file)
        self._shown, self._left = name, most

    def read(self, size: int | None = -1) -> bytes:
        found: Any = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise too_large(self._shown)
        return bytes(found)
