"""How commands print and write: tables for people, JSON for programs, a progress bar, files whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from roundwise.errors import InputError, visible
from roundwise.render.terminal import align_table, wrap_text

CELL = 300  # letters of a cell on a screen


class UnprintedError(Exception):
    """Standard output is full or closed."""


_recorded: list[str] = []  # what this command has recorded so far, for the case that it cannot be printed


def recorded(what: str) -> None:
    """Remember that something was recorded: whatever happens from now on, it was."""
    _recorded.append(what)


def take_recorded() -> str | None:
    """Return what was recorded, if anything, and forget it."""
    found = _recorded[-1] if _recorded else None
    _recorded.clear()
    return found


def say(text: str) -> None:
    """Print text in which nothing can steer the terminal; raise `UnprintedError` where that is not possible."""

    shown = visible(text)
    try:
        if sys.stdout is None:  # closed before the program began
            raise UnprintedError("it is closed")
        try:
            sys.stdout.write(f"{shown}\n")
        except UnicodeEncodeError:  # a terminal that knows few letters
            few = sys.stdout.encoding or "ascii"
            sys.stdout.write(shown.encode(few, "backslashreplace").decode(few) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise UnprintedError(getattr(error, "strerror", None) or "it is closed") from error


def print_json(value: object) -> None:
    """Strict JSON: numpy values become plain ones, infinities null."""
    say(json.dumps(_plain(value), indent=2, allow_nan=False))


def say_text(text: str) -> None:
    """Print paragraphs, broken to fit the terminal."""
    say(wrap_text(visible(text), console_width()))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]], longest: int = CELL) -> None:
    """Print a table that fits the terminal, numbers to the right, texts of at most `longest` letters."""
    cells = [[visible(each, longest) if isinstance(each, str) else number(each) for each in row] for row in rows]
    numeric = [all(_numeric(row[i]) for row in cells) for i in range(len(columns))]
    say("\n".join(align_table([list(columns), *cells], numeric, console_width())))


def console_width() -> int | None:
    """How many characters fit on a line: those of the terminal, or COLUMNS; None in a file or a pipe."""
    if sys.stdout is None or not (sys.stdout.isatty() or os.environ.get("COLUMNS")):
        return None
    return shutil.get_terminal_size().columns


def number(value: float) -> str:
    """A number as people write it: 12 345, 0.0523, infinite."""
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\N{NO-BREAK SPACE}")
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, on a terminal only, once the work has taken a second."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    import threading

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total)
    start = threading.Timer(1.0, bar.start)
    start.daemon = True
    start.start()
    try:
        yield lambda done: bar.advance(task, done)
    finally:
        start.cancel()
        bar.stop()


def _numeric(text: str) -> bool:
    return text[:1].isdigit() or text in ("infinite", "-", "")


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


STARTS = (  # of what we write as a page, Markdown, text, JSON, a record, and a plan
    b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="roundwise">\n',
    b"<!-- roundwise report -->\n",
    b"A report of roundwise\n\n",
    b'{\n  "roundwise": "',
    b'{"roundwise": "log", "format": ',
    b'{\n  "format": "roundwise plan ',
    b"Plan of '",
    b"# The arena\n\nGenerated by `roundwise arena",
)
AUTHOR = (b"<dc:creator>roundwise</dc:creator>", b"<cp:lastModifiedBy>roundwise</cp:lastModifiedBy>")  # of a workbook
SWEPT = re.compile(  # the columns of a sweep
    rb"cell,question,instance,noise,policy,delta,seed,runs,samples_mean,samples_se(,samples_[^,\r\n]+)*,batches_mean,"
    rb"batches_se,batches_max,error,error_upper_95,undecided,sample_lower_bound,lower_bound_for,"
    rb"samples_over_lower_bound,guarantee,caveat(,true_shown_mean,true_shown_se)?\r\n"
)
ASKED = ("arm", "remaining")  # the columns of a round that is asked for


def check_output(path: Path | None, theirs: bool = True) -> None:
    """Raise an InputError if a file cannot be written there: better before the work than after it.

    A file that is not plain (a folder, a device, a pipe, a link) is never replaced; one that is not as roundwise
    wrote it is not replaced either where `theirs` is false.
    """
    if path is None:
        return
    from roundwise.store import no_database

    no_database(path)
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a folder, not a file to write to.")
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "a device or a pipe"
        raise InputError(f"{path} is {kind}, not a plain file, and is not replaced. Give the name of a file.")
    if found is not None and not theirs and not _ours(path):
        raise InputError(
            f"{path} exists and is not as roundwise wrote it: it may hold results. Nothing was changed; give another "
            "name, or remove the file first."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _beside(path)
        with unfinished.open("xb"):
            pass
        unfinished.unlink()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def write_file(path: Path, contents: str | bytes) -> None:
    """Write a file, which appears complete or not at all."""
    check_output(path)
    unfinished = _beside(path)
    data = contents.encode("utf-8", "backslashreplace") if isinstance(contents, str) else contents
    try:
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                os.chmod(unfinished, stat.S_IMODE(path.stat().st_mode))
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Give another place.") from None


def file_name(study: str, ending: str) -> Path:
    """A file in this folder named after a study, whatever letters that has.

    >>> [file_name(name, ".jsonl").name for name in ("../../etc/x", "dose trial 2", "..")]
    ['_.._etc_x.jsonl', 'dose trial 2.jsonl', 'study.jsonl']
    """
    safe = re.sub(r"[^\w .()+,=@-]", "_", study).lstrip(". -").rstrip(". ")
    return Path(f"{safe[:150] or 'study'}{ending}")


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")


def _ours(path: Path) -> bool:
    """Whether a file is as roundwise wrote it, or empty: where anybody added a column or a row, it may hold results."""
    from roundwise.report.export import MARK
    from roundwise.simulation.tables import ours_as_parquet

    try:
        contents = path.read_bytes()
    except OSError:
        return False
    if contents.startswith(b"%PDF"):
        return contents.endswith(MARK)
    if contents.startswith(b"PAR1"):
        return ours_as_parquet(contents)
    return not contents or contents.startswith(STARTS) or _our_table(contents) or _our_workbook(path)


def _our_table(contents: bytes) -> bool:
    """Whether a CSV file has the columns of one of our tables and no cell besides."""
    from roundwise.report.export import TABLES

    ours = (ASKED, *TABLES.values())
    known = contents.startswith(tuple(f"{','.join(columns)}\n".encode() for columns in ours))
    if not (known or SWEPT.match(contents)):
        return False
    try:
        header, *rows = csv.reader(io.StringIO(contents.decode(), newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error):
        return False
    counted = tuple(header) != ASKED or all(row[-1].isdecimal() for row in rows if row)
    return counted and all(len(row) == len(header) for row in rows)


def _our_workbook(path: Path) -> bool:
    """Whether a workbook is ours and no other program saved it since."""
    try:
        with zipfile.ZipFile(path) as book:
            about = book.read("docProps/core.xml")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return False
    return all(each in about for each in AUTHOR)
