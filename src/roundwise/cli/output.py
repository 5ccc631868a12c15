"""How commands print: tables for people, JSON for programs, a progress bar for long work."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from roundwise.errors import InputError


def print_json(value: object) -> None:
    """Strict JSON: numpy values become plain ones, infinities null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]], lines: bool = False) -> None:
    """A table for the terminal, numbers to the right and never broken."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_lines=lines)
    for i, column in enumerate(columns):
        text = any(isinstance(cell, str) and not _numeric(cell) for cell in (row[i] for row in rows))
        table.add_column(column, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for row in rows:
        table.add_row(*(each if isinstance(each, str) else number(each) for each in row))
    Console(width=console_width(), highlight=False, markup=False).print(table)


def console_width() -> int:
    """How many characters fit on a line: those of the terminal, 160 in a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def number(value: float) -> str:
    """A number as people write it: 12 345, 0.0523, infinite."""
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\N{NO-BREAK SPACE}")
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def ratio(value: float | None) -> str:
    """A ratio to a lower bound, or a dash where there is none."""
    return "-" if value is None else number(value)


def check_output(path: Path | None) -> None:
    """Raise an InputError if a file cannot be written there: better before the work than after it."""
    if path is None:
        return
    from roundwise.studies.store import no_database

    no_database(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file to write to.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        if path.stat().st_size == 0:
            path.unlink()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


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
