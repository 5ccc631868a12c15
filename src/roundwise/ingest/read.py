"""Read results: open, recognise, check, add up. Either all of a file is read, or a DataError says why nothing was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.formats.messages import shown
from roundwise.formats.readers import sheet_of
from roundwise.formats.sheet import Chunk, Numbers, Sheet, is_path, name_in, unreadable
from roundwise.ingest.columns import EVERY, WATCH, Columns, Names, Options, known_titles, layout
from roundwise.ingest.duplicates import Amounts, Earlier, could_repeat, marks, nothing_new, numbered_digest
from roundwise.ingest.record import Form, Law, Results, Spool, Start, Sums, kept, width_for
from roundwise.ingest.rows import RowLines, SumLines, check_form
from roundwise.ingest.shared_items import WATCHED, unit_kind
from roundwise.messages import FileNote, Remedy
from roundwise.noise import Noise


def read_results(
    source: object,
    arms: Sequence[str],
    noise: Noise,
    *,
    parts: int = 1,
    whole: bool = False,
    seed: int = 0,
    file: int = 0,
    columns: Columns | None = None,
    options: Options | None = None,
    earlier: Earlier | None = None,
) -> Results:
    """The results in a file or data frame; its batch is to be dealt into so many `parts`, or bet on as a `whole`, too.

    `seed` is the study's, `file` the number of the file in it: rows are kept in an order drawn from both. `columns` are
    those of the study; `options` say more of this file, and `earlier` what is recorded.
    """
    if not 1 <= parts <= 255:
        raise InputError(f"`parts` is {parts}, but must lie between 1 and 255.")
    options, earlier = options or Options(), earlier or Earlier()
    named = (options.columns or Columns()).over(columns or Columns())
    names = Names(arms, options.ignored)
    with ExitStack() as stack:
        path = str(os.fspath(source)) if is_path(source) else "data frame"
        name = shown(getattr(source, "shown_as", path), 200)  # an upload lies elsewhere than its name says
        try:
            sheet = sheet_of(source, path, name, known_titles(named, names.arms), stack)
            sheet.problems.arms = names.arms
            reader = Reader(sheet, names, noise, named, options, earlier, seed, file, stack)
            found = replace(reader.results(), parts=parts, seed=seed)
        except OSError as error:
            raise unreadable(path, error) from None
    teaches = parts > 1 and not whole and not found.deals
    return replace(found, notes=(*found.notes, FileNote("teaches_only", file=found.name))) if teaches else found


class Reader:
    """One file on its way to results."""

    def __init__(
        self,
        sheet: Sheet,
        names: Names,
        noise: Noise,
        columns: Columns,
        options: Options,
        earlier: Earlier,
        seed: int,
        file: int,
        stack: ExitStack,
    ) -> None:
        self.sheet, self.names, self.noise, self.options = sheet, names, noise, options
        self.earlier, self.seed, self.file, self.stack = earlier, seed, file, stack
        self._first: Chunk | None = None
        self._rest: Iterator[Chunk] | None = None
        self.plan = layout(sheet.top, sheet.header, names.index, sheet.hint, columns, self._guess)
        self.plan.places.update(self._watched())
        check_form(sheet, noise, self.plan)

    def results(self) -> Results:
        """What the file brought."""
        plan = self.plan
        found = self._rows() if plan.form in ("rows", "wide") else self._sums()
        if plan.unused:
            self.sheet.notes.insert(0, FileNote("unused_columns", file=self.sheet.name, columns=list(plan.unused)))
        for role in plan.guessed:
            self.sheet.note("guessed_column", column=plan.titles[role], role=role)
        if self.names.left_out:
            self.sheet.note("other_arms", arms={shown(arm): n for arm, n in self.names.left_out.items()})
        return replace(found, notes=tuple(self.sheet.notes))

    # --- columns

    def _chunks(self) -> Iterator[Chunk]:
        """The cells of the columns that are used."""
        places = list(self.plan.places.values())
        if self._rest is None:
            yield from self.sheet.chunks(places)
            return
        at = {place: i for i, place in enumerate(self._titled())}
        for each in chain([] if self._first is None else [self._first], self._rest):
            yield Chunk(each.lines, [each.columns[at[place]] for place in places])

    def _watched(self) -> dict[str, int]:
        """Columns that are not used and may identify what a row is about, as roles."""
        if self.plan.form != "rows" or "item" in self.plan.places or self.options.average_ids:
            return {}
        titles = [(each.strip(), i) for i, each in enumerate(self.sheet.header)]
        found = {WATCH + each: i for each, i in titles if each in self.plan.unused and unit_kind(each) is not None}
        return dict(list(found.items())[:WATCHED])

    def _titled(self) -> list[int]:
        return [i for i, title in enumerate(self.sheet.header) if title.strip()]

    def _guess(self, role: str, places: Sequence[int]) -> list[int]:
        """The columns that could be the arm or the outcome, by what is in the first lines."""
        if self._rest is None:
            self._rest = self.sheet.chunks(self._titled())
            self._first = next(self._rest, None)
        if self._first is None:
            return []
        at = {place: i for i, place in enumerate(self._titled())}
        could = self._could_be_arms if role == "arm" else self._could_be_outcomes
        return [place for place in places if could(self._first.columns[at[place]])]

    def _could_be_arms(self, cells: Sequence[Any]) -> bool:
        """Whether a column holds arms, each of them written well or nearly so (what is nearly so is then refused).

        Where the names of other experiments are left out, a single arm is enough.
        """
        found, names, ignored = {name_in(cell) for cell in cells} - {""}, self.names, self.options.ignored
        known = [name for name in found if name in names.index]
        if EVERY in ignored:
            return bool(known)
        near = [name for name in found if name in names.index or names.nearest(name, exact=not known) is not None]
        return bool(near) and len(near) + len(found & set(ignored)) == len(found)

    def _could_be_outcomes(self, cells: Sequence[object]) -> bool:
        values, missing = Numbers("", self.sheet.decimal_comma, outcome=True).read(range(len(cells)), cells)
        low, high, whole, *_ = self.noise.outcome
        there = values[~missing]
        fits = (there >= low) & (there <= high)
        return bool(len(there)) and bool(fits.all()) and (not whole or bool((there == np.floor(there)).all()))

    # --- sums

    def _sums(self) -> Results:
        size, plan, sheet = len(self.names.arms), self.plan, self.sheet
        if self.noise.shares_items:
            raise self._without_items()
        reader = SumLines(sheet, self.names, self.noise, plan)
        sums, lines = Sums(size), 0
        for index, counts, totals, within in reader.read(self._chunks()):
            sums.add(index, counts, totals, within)
            lines += len(index)
        reader.refuse()
        if not lines:
            raise DataError(f"{sheet.name} has a header but no results. Give one line for each result or arm.")
        known = plan.form != "sums" or plan.squares
        amounts = Amounts(sums.counts, sums.totals, sums.scatter if known else None)
        digest = self._digest(reader, not self._is_file)
        self.earlier.refuse_taught(sheet.name, digest)
        if self.options.cumulative and not self.earlier.holds(digest):
            whole = amounts
            amounts = self.earlier.difference(sheet.name, whole, self.noise, plan.form == "successes")
            if not amounts.counts.any():
                raise nothing_new(sheet.name, lines)
            if amounts is not whole:
                self._note_cumulative(int(whole.counts.sum() - amounts.counts.sum()), int(amounts.counts.sum()))
        self._warn(amounts)
        return Results(
            sheet.name,
            digest,
            cast(Form, plan.form),
            lines,
            amounts.counts,
            amounts.totals,
            amounts.scatter,
            law=self._law() or ("normal" if self._sigma() else None),
            sigma=self._sigma(),
            tables=self.noise.needs == "rows",
            limits=self._limits(),
        )

    # --- rows

    def _rows(self) -> Results:
        sheet, size = self.sheet, len(self.names.arms)
        spool = self._spool()
        reader = RowLines(sheet, self.names, self.noise, self.plan, self.options, self.earlier, self.seed, self.file)
        if self.noise.shares_items and not reader.has_items:
            raise self._without_items()
        for index, values, items in reader.read(self._chunks()):
            spool.put(index, values, items)
        reader.refuse(spool.rows)
        if reader.ids.repeated and self.options.average_ids:
            every, spool = spool, self._spool()
            reader.average(every, spool)
        repeatable = not self._is_file and not reader.with_ids and could_repeat(spool.after())
        digest = self._digest(reader, repeatable)
        same = not self.options.again and self.earlier.holds(digest)  # which the study refuses
        self.earlier.refuse_taught(sheet.name, digest)
        skipped = 0
        if self.earlier.told and self.options.cumulative and not reader.with_ids and not same:
            skipped = self.earlier.recorded_rows(sheet.name, spool, self.names.arms, self.seed)
            self._note_cumulative(skipped, spool.rows - skipped)
        elif self._is_file and not (self.options.again or self.options.cumulative or reader.with_ids or same):
            self.earlier.refuse_start(sheet.name, spool, self.names.arms, self.seed)
        known = [each.missing for each in self.earlier.told if each.missing is not None] if skipped else []
        missing = np.maximum(reader.missing - sum(known, np.zeros(size)), 0.0)
        if spool.rows <= skipped and not missing.any() and not same:
            raise nothing_new(sheet.name, skipped + reader.skipped, reader.contradiction())
        sums = Sums(size)
        for index, values, _ in spool.after(skipped):
            sums.add(index, np.ones(len(index)), values)
        if not reader.with_ids:
            self._warn(Amounts(sums.counts, sums.totals, sums.scatter))
        law = self._law()
        keep = law is None or reader.has_items
        width = None if self.noise.needs == "rows" or reader.has_items else width_for(size)
        start = None
        if not reader.with_ids and spool.rows:
            mark = marks(spool.after(), [spool.rows], self.names.arms, self.seed)[spool.rows]
            start = Start(spool.rows, mark)
        return Results(
            sheet.name,
            digest,
            "rows",
            spool.rows - skipped,
            sums.counts,
            sums.totals,
            sums.scatter,
            kept(spool.after(skipped), sums.counts, self.seed, self.file, width) if keep else None,
            law,
            tables=self.noise.needs == "rows",
            limits=self._limits(),
            paired=self.noise.shares_items,
            missing=missing if missing.any() else None,
            why=self.options.missing if missing.any() else None,
            skipped=skipped + reader.skipped,
            contradicted=reader.contradicted,
            ids=reader.ids.packed() if reader.with_ids else None,
            codes=reader.ids.packed_codes(self.seed) if reader.with_ids else None,
            start=start,
            sketches=reader.sketches,
            times=reader.times,
        )

    @property
    def _is_file(self) -> bool:
        return self.sheet.digest is not None

    def _digest(self, reader: RowLines | SumLines, repeatable: bool) -> str:
        """By which contents are known again; what is `repeatable` by chance has a digest of its own each time.

        So a Python loop that tells a few results at a time is never stopped because they came out the same.
        """
        return numbered_digest(reader.digest(), self.file) if repeatable else reader.digest()

    def _warn(self, amounts: Amounts) -> None:
        """Note that a file could be a running total, unless somebody said what it is."""
        if self._is_file and not (self.options.again or self.options.cumulative):
            found = self.earlier.possible_total(amounts, self.noise)
            if found is not None:
                self.sheet.note("possible_total", results=found[0], new=found[1])

    def _spool(self) -> Spool:
        found = Spool()
        self.stack.callback(found.close)
        return found

    def _without_items(self) -> DataError:
        return DataError(
            f"{self.sheet.name} does not say which results belong to the same item, and this study compares arms on "
            "the items of both.",
            Remedy("Name the column of items ({@item_column}), or give one row an item, one column an arm."),
        )

    def _law(self) -> Law | None:
        return self.noise.law

    def _limits(self) -> tuple[float, float] | None:
        """Between which values lie, where all of them are wanted."""
        low, high = self.noise.mean_range
        wanted = self.noise.needs == "rows" and self.noise.outcome.limited
        return (float(low), float(high)) if wanted else None

    def _sigma(self) -> float | None:
        """What sums must be of, to be dealt as normal ones: results of one, exactly known deviation."""
        return float(self.noise.sigma) if self.noise.outcome.normal and np.ndim(self.noise.sigma) == 0 else None

    def _note_cumulative(self, old: int, new: int) -> None:
        self.sheet.note("running_total", recorded=old, new=new)


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
