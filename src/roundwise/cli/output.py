"""How commands print: tables for people, JSON for programs, a progress bar for long work."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


def print_json(value: Any) -> None:
    """Strict JSON: numpy values become plain ones, infinities null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], lines: bool = False) -> None:
    """A table for the terminal, numbers to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_lines=lines)
    for i, column in enumerate(columns):
        text = any(isinstance(row[i], str) and not _numeric(row[i]) for row in rows)
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(each if isinstance(each, str) else number(each) for each in row))
    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False, markup=False).print(table)


def number(value: float) -> str:
    """A number as people write it: 12 345, 0.0523, infinite."""
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", " ")
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, on a terminal only, once the work has taken a second."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    import time

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
    begun = time.monotonic()

    def advance(done: int) -> None:
        bar.advance(task, done)
        if not bar.live.is_started and time.monotonic() - begun > 1:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


def _numeric(text: str) -> bool:
    return text[:1].isdigit() or text in ("infinite", "-", "")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
