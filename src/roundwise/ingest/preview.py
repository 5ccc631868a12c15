"""A look at the columns of a table, before anything of it is read: for whoever hands it in on a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from roundwise.errors import RoundwiseError
from roundwise.formats.detect import sheet_of
from roundwise.formats.messages import shown
from roundwise.ingest.arm_names import Names
from roundwise.ingest.columns import Columns, Options, known_titles
from roundwise.ingest.duplicates import Earlier
from roundwise.ingest.read import Reader
from roundwise.noise import Noise


class Looked(NamedTuple):
    """The columns of a table; those it could not be read by are taken for nothing."""

    header: tuple[str, ...]
    taken: dict[str, str]  # "arm", "outcome", "count", ... and the title of the column
    guessed: tuple[str, ...]  # what was found by the values alone
    form: str  # rows, sums, successes, wide; empty where the columns are not understood


def looked_at(source: Any, arms: Sequence[str], noise: Noise, columns: Columns, options: Options) -> Looked:
    """The columns of a file; a table that cannot be opened has none."""
    named = (options.columns or Columns()).over(columns)
    with ExitStack() as stack:
        try:
            names = Names(arms, options.ignored)
            path = str(os.fspath(source))
            sheet = sheet_of(source, path, shown(path), known_titles(named, names.arms), stack)
        except (RoundwiseError, OSError):
            return Looked((), {}, (), "")
        header = tuple(shown(title) for title in sheet.header if title.strip())
        try:
            plan = Reader(sheet, names, noise, named, options, Earlier(), 0, 0, stack).plan
        except (RoundwiseError, OSError):
            return Looked(header, {}, (), "")
        return Looked(header, {role: shown(title) for role, title in plan.titles.items()}, plan.guessed, plan.form)
