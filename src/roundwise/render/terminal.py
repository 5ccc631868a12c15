"""Paragraphs and tables in columns, for a terminal of some width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

Table = list[list[str]]  # the titles, and then the rows

_BLANK = "\ue000"  # stands for a blank at which no line may end
_TOGETHER = re.compile(r"`[^`]*`|\d %|± \d")  # commands that people copy; numbers with their signs


def wrap_text(text: str, width: int | None) -> str:
    """Break the lines of a text at blanks, so that they fit into a width; what stands in backticks stays whole.

    >>> print(wrap_text("Next: run `roundwise tell study results.csv` today.", 30))
    Next: run
    `roundwise tell study results.csv`
    today.
    """
    return text if width is None else "\n".join(each for line in text.split("\n") for each in _wrap_line(line, width))


def _wrap_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    kept = _TOGETHER.sub(lambda found: found[0].replace(" ", _BLANK), line)
    lines = textwrap.wrap(kept, max(width, 1), break_on_hyphens=False, break_long_words=False)
    return [each.replace(_BLANK, " ") for each in lines]


def align_table(table: Table, numeric: Sequence[bool], width: int | None = None) -> list[str]:
    """Align the columns of a table, numbers to the right; one that is too wide gets cells of several lines.

    >>> align_table([["arm", "results"], ["a", "12"], ["blue", "5"]], [False, True])
    ['arm   results', 'a          12', 'blue        5']
    >>> align_table([["arm", "results so far"], ["a", "12"]], [False, True], 12)
    ['     results', 'arm   so far', 'a         12']
    """
    columns = list(zip(*table, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is not None:
        words = [[max(map(len, _words(cell))) for cell in column] for column in columns]
        unbroken = [max([title, *map(len, cells)]) for (title, *_), (_, *cells) in zip(words, columns, strict=True)]
        for least in (unbroken, [max(column) for column in words]):  # titles are broken before cells
            while sum(widths) + 2 * (len(widths) - 1) > width and widths != least:
                _, widest = max((each, i) for i, each in enumerate(widths) if each > least[i])
                widths[widest] -= 1
    lines = []
    for number, row in enumerate(table):
        cells = [_wrap_line(cell, size) for cell, size in zip(row, widths, strict=True)]
        tall = max(map(len, cells))
        for cell in cells:
            cell[len(cell) if number else 0 : 0] = [""] * (tall - len(cell))  # titles stand on the rows below them
        for parts in zip(*cells, strict=True):
            put = [
                part.rjust(size) if right else part.ljust(size)
                for part, size, right in zip(parts, widths, numeric, strict=True)
            ]
            lines.append("  ".join(put).rstrip())
    return lines


def _words(cell: str) -> list[str]:
    return _TOGETHER.sub(lambda found: found[0].replace(" ", _BLANK), cell).split(" ")
