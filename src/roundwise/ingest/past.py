"""The results of a past file, read by the rules of a planned study; its arms may differ."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.errors import DataError
from roundwise.formats.sheet import is_path, unreadable
from roundwise.ingest.columns import AnyName, TellOptions
from roundwise.ingest.duplicates import RecordedFiles
from roundwise.ingest.ratios import ratio_sums
from roundwise.ingest.reading import Columns, Reading, seconds
from roundwise.ingest.record import Repeats
from roundwise.ingest.rows import FileReader
from roundwise.messages import Remedy
from roundwise.noise import LargeSample

DAY = 86_400.0


class PastRows(NamedTuple):
    """The results of a file: one for each row, or for each id; ratios are linearized, each arm by its own means."""

    file: str
    values: Floats  # (n)
    arms: NDArray[np.intp]  # (n), the place of the arm of each; the number of arms where it is none of them
    missing: int  # results that are not there
    days: float | None  # from the first row to the last, both included; None without times
    notes: tuple[str, ...]
    repeats: Repeats | None  # of a column that looks like an identifier, and was not said to be one


def read_past(source: object, arms: Sequence[str], columns: Columns, reading: Reading) -> PastRows:
    """Read a past file as `tell` would, whatever its arms; a column of arms is not needed.

    Args:
        source: A file or a data frame.
        arms: The arms of the planned study.
        columns: Names of its columns; with a column of times, the days that it covers are counted.
        reading: The rules by which rows become results.

    Raises:
        DataError: If the file cannot be read, with every kind of problem in it.
    """
    path = str(os.fspath(source)) if is_path(source) else "data frame"
    with ExitStack() as stack:
        try:
            names, options = AnyName(arms), TellOptions()
            reader = FileReader(
                source, path, names, LargeSample(), columns, reading, options, RecordedFiles(), 0, 0, stack
            )
            if columns.denominator is not None:
                reader.ratio = ratio_sums({}, names.arms)
            results = reader.read()
            rows = [(index, values) for index, values, _ in reader.row_store.after()]
        except OSError as error:
            raise unreadable(path, error) from None
    if columns.time is not None and results.times is None:
        raise DataError(
            f"{results.name}: the column '{columns.time}' has no times such as 2026-05-04 or 2026-05-04 09:13.",
            Remedy("Name another with {@time_column}, or leave it out."),
        )
    days = None
    if results.times is not None:
        first, last = (math.floor(seconds(each) / DAY) for each in results.times)
        days = float(last - first + 1)
    return PastRows(
        results.name,
        np.concatenate([np.zeros(0), *(values for _, values in rows)]),
        np.concatenate([np.zeros(0, dtype=np.intp), *(index.astype(np.intp) for index, _ in rows)]),
        0 if results.missing is None else int(results.missing.sum()),
        days,
        tuple(str(each) for each in results.notes),
        next((found for title, each in results.sketches.items() if (found := each.repeats(title)) is not None), None),
    )
