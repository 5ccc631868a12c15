"""Reading results: open, recognise, check, add up. Either all of it is read, or a DataError says why nothing was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import DataError, InputError
from roundwise.noise import Noise
from roundwise.studies.results import checks, deal
from roundwise.studies.results.columns import Layout, layout, problem
from roundwise.studies.results.deal import Index
from roundwise.studies.results.frames import excel_sheet, frame_sheet, parquet_sheet
from roundwise.studies.results.sheets import Sheet, is_frame, is_path, opened, unreadable
from roundwise.studies.results.tally import Tally
from roundwise.studies.results.text import text_sheet
from roundwise.studies.results.told import Labels, Part, Results, split


def read_results(
    source: Any,
    arms: Sequence[str],
    noise: Noise,
    *,
    parts: int = 1,
    seed: int = 0,
    file: int = 0,
    whole: Floats | None = None,
) -> Results:
    """The results in a file or data frame. With `parts`, rows are also dealt into so many parts (see `deal`).

    `file` is its number, from 1, if it may be one of several files of a batch. It is then dealt as the whole batch only
    if it has all that is asked in `whole`, which depends on how many results it has, never on what they are.
    """
    if not 1 <= parts <= 255:
        raise InputError(f"`parts` is {parts}, but must lie between 1 and 255.")
    deals = _Deal(parts, seed, file, whole)
    names = checks.Names(arms)
    with ExitStack() as stack:
        name = os.fspath(source) if is_path(source) else "data frame"
        try:
            sheet = _sheet(source, str(name), stack)
            return _read(sheet, names, noise, deals, stack)
        except OSError as error:
            raise unreadable(str(name), error) from None


class _Deal(NamedTuple):
    """How rows are to be dealt."""

    parts: int
    seed: int
    file: int  # its number, 0 if it stands alone
    whole: Floats | None  # with so much of each arm it stands alone, too

    def alone(self, counts: Floats) -> bool:
        """Whether a file with so many results is dealt as the whole batch."""
        return not self.file or (self.whole is not None and bool((counts >= self.whole).all()))


def _sheet(source: Any, name: str, stack: ExitStack) -> Sheet:
    if is_path(source):
        file = stack.enter_context(opened(name))
        start = file.peek(4)[:4] if hasattr(file, "peek") else b""
        if start == b"PAR1":
            return parquet_sheet(name, file)
        if start == b"PK\x03\x04":
            return excel_sheet(name, file)
        for suffix, what in ((".xlsx", "an Excel workbook"), (".parquet", "a Parquet file")):
            if start and name.lower().endswith(suffix):
                raise problem(name, f"this is not {what}, whatever its name.", "Write it again, or rename it to .csv.")
        return text_sheet(name, file)
    if is_frame(source):
        return frame_sheet(name, source)
    raise InputError(f"Results come from a file or a data frame, not from a value of type {type(source).__name__}.")


def _read(sheet: Sheet, names: checks.Names, noise: Noise, deals: _Deal, stack: ExitStack) -> Results:
    plan = layout(sheet.top, sheet.header, names.arms, sheet.hint)
    if noise.needs == "squares" and plan.form == "sums" and len(plan.places) == 3:
        raise problem(
            sheet.top,
            "with an unknown variance, sums need the column 'squares' (the sum of the squared values of each arm).",
            "Add it, or give every result as a row arm,outcome.",
        )
    size = len(names.arms)
    tally, lines = Tally(size), 0
    digest = _Contents(plan) if sheet.digest is None else None
    keep = plan.form == "rows" and (deals.parts > 1 or noise.needs == "rows")
    spool = deal.Spool()
    stack.callback(spool.close)
    for index, counts, totals, within in _lines(sheet, plan, names, noise):
        tally.add(index, counts, totals, within)
        lines += len(index)
        if keep:
            spool.put(index, totals)
        if digest is not None:
            digest.add([names.arms[i] for i in index.tolist()], counts, totals, within)
    if not lines:
        raise DataError(f"{sheet.name} has a header but no results. Give one line for each result or arm.")
    dealt, values, labels = _dealt(spool, tally, deals, noise.needs == "rows") if keep else ((), None, None)
    if plan.unused:
        shown = ", ".join(f"'{title}'" for title in plan.unused[:20])
        sheet.notes.insert(0, f"{sheet.name}: not used: {shown}.")
    known = plan.form != "sums" or len(plan.places) == 4
    return Results(
        sheet.name,
        sheet.digest() if sheet.digest is not None else digest.hex() if digest is not None else "",
        plan.form,
        lines,
        tally.counts,
        tally.totals,
        tally.scatter if known else None,
        values,
        dealt,
        labels,
        "alone" if deals.alone(tally.counts) else "apart",
        tuple(sheet.notes),
    )


def _lines(
    sheet: Sheet, plan: Layout, names: checks.Names, noise: Noise
) -> Iterator[tuple[Index, Floats, Floats, Floats | None]]:
    """Checked lines in chunks: arms, counts, totals, and the spread within each line where it is known."""
    points = commas = ""  # where a number was first seen with each
    for raw in sheet.chunks(plan.places):
        index, chunk = names.found(sheet, raw)
        if not len(index):
            continue
        if sheet.decimal_comma:
            points, commas = _one_decimal_sign(sheet, chunk.columns[1:], chunk.lines, points, commas)
        columns = [
            checks.numbers(sheet, chunk, c, plan.titles[c], chunk.columns[0]) for c in range(1, len(plan.places))
        ]
        if plan.form == "rows":
            checks.outcomes(sheet, chunk, noise, plan.titles[1], columns[0])
            yield index, np.ones(len(index)), columns[0], None
            continue
        counts, totals = columns[:2]
        checks.sums(sheet, chunk, noise, plan.titles, counts, totals)
        within = None
        if plan.form == "successes":
            checks.zero_one_allowed(sheet, noise, plan.titles[2])
            within = np.maximum(totals - totals * (totals / np.maximum(counts, 1.0)), 0.0)
        elif len(columns) == 3:
            within = checks.scatter(sheet, chunk, plan.titles, counts, totals, columns[2])
        yield index, counts, totals, within


def _one_decimal_sign(
    sheet: Sheet, columns: Sequence[Sequence[Any]], lines: Sequence[int], points: str, commas: str
) -> tuple[str, str]:
    """In one file 1.234 and 1,5 cannot both be trusted: the point may separate thousands."""
    for cells in columns:
        for sign in ".,":
            seen = points if sign == "." else commas
            if not seen and sign in "".join(cells):
                seen = sheet.at(next(line for line, cell in zip(lines, cells, strict=True) if sign in cell))
                points, commas = (seen, commas) if sign == "." else (points, seen)
    if points and commas:
        raise problem(
            commas, f"a number has a decimal comma, but there is a number with a point ({points}).", "Use one of them."
        )
    return points, commas


def _dealt(
    spool: deal.Spool, tally: Tally, deals: _Deal, keep: bool
) -> tuple[tuple[Part, ...], tuple[Floats, ...] | None, Labels | None]:
    """The sums of each part; if asked to keep them the values of each arm, and their parts."""
    size, parts, seed = len(tally.counts), deals.parts, deals.seed
    file = 0 if deals.alone(tally.counts) else deals.file
    by_part = [Tally(size) for _ in range(parts)]
    cut = deal.cuts(seed, tally.counts, parts, file)
    seen = np.zeros(size, dtype=np.int64)
    kept: list[tuple[Index, Floats, Labels]] = []
    for index, values in spool:
        label = deal.labels(seed, cut, index, seen, file)
        if parts > 1:
            for part, own in enumerate(by_part):
                mine = label == part
                own.add(index[mine], np.ones(int(mine.sum())), values[mine])
        if keep:
            kept.append((index, values, label))
    dealt = tuple(Part(own.counts, own.totals, own.scatter) for own in by_part) if parts > 1 else ()
    if not keep:
        return dealt, None, None
    index, values, label = (np.concatenate(each) for each in zip(*kept, strict=True))
    order = np.argsort(index, kind="stable")
    return dealt, split(values[order], tally.counts), label[order] if parts > 1 else None


class _Contents:
    """The digest of a data frame: of the arms and numbers in it, whatever its other columns and types."""

    def __init__(self, plan: Layout) -> None:
        self._names, self._numbers = hashlib.sha256(), [hashlib.sha256() for _ in range(3)]
        self._form = f"{plan.form} {len(plan.places)}"

    def add(self, names: Sequence[str], *numbers: Floats | None) -> None:
        """Lines in their order."""
        self._names.update(
            b"".join(len(name).to_bytes(4, "little") + name.encode("utf-8", "surrogatepass") for name in names)
        )
        for digest, column in zip(self._numbers, numbers, strict=True):
            if column is not None:
                digest.update((column + 0.0).astype("<f8").tobytes())

    def hex(self) -> str:
        """Of everything added."""
        every = [self._form.encode(), self._names.digest(), *(digest.digest() for digest in self._numbers)]
        return hashlib.sha256(b"".join(every)).hexdigest()
