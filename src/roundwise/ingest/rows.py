"""Read results: open, recognise, check every line, add up. All of a file is read, or a DataError lists the problems."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from roundwise.arrays import Bools, Floats, quiet
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.formats.messages import quoted, refusal, shown
from roundwise.formats.readers import sheet_of
from roundwise.formats.sheet import (
    LARGEST,
    Chunk,
    Numbers,
    Sheet,
    blank,
    hashes,
    is_path,
    name_in,
    no_value,
    unreadable,
)
from roundwise.ingest.columns import (
    EVERY,
    WATCH,
    ArmNames,
    ColumnLayout,
    Columns,
    Index,
    TellOptions,
    known_titles,
    layout,
)
from roundwise.ingest.duplicates import (
    ArmSums,
    FrameDigest,
    IdRows,
    Ids,
    RecordedFiles,
    could_repeat,
    hash_ids,
    marks,
    nothing_new,
    numbered_digest,
    outcome_codes,
    with_arm,
    with_outcome,
)
from roundwise.ingest.record import (
    LINES,
    WATCHED,
    ColumnWatch,
    Contradicted,
    ContradictedFile,
    FileForm,
    FileStart,
    Results,
    RowStore,
    SumLaw,
    Sums,
    ValueSketch,
    keep_rows,
    unit_kind,
    width_for,
)
from roundwise.messages import FileNote, Remedy, list_by_arm, option
from roundwise.noise import Noise
from roundwise.serialization import Hashes

MOST = 2.0**53  # of a count: whole numbers beyond are not exact
ROUNDING = 1e-6  # by how much sums that a user rounded may contradict each other
DIGITS = 1e-6  # squares must exceed those of equal values by this share, or rounding says how much values vary
EQUAL = 1e-13  # below this share values are equal, but for the rounding of the machine

Said = Callable[[int], tuple[str, str]]  # the place of a line -> what was found there, and the remedy


class CheckedLines:
    """Some lines of a table, of which those that are wrong are put down and taken away."""

    def __init__(self, sheet: Sheet, arms: Sequence[str], lines: Sequence[int], index: Index) -> None:
        self.sheet, self.arms, self.lines, self.index = sheet, arms, lines, index
        self.good: Bools = np.ones(len(index), dtype=np.bool_)

    def refuse(self, kind: str, wrong: Bools, said: Said) -> None:
        """Put down what is wrong, unless something else is wrong with the line."""
        wrong = wrong & self.good
        if wrong.any():
            self.sheet.problems.some(kind, self.lines, wrong, said, self.index)
            self.good &= ~wrong

    def of(self, k: int, title: str, numbers: Floats) -> str:
        """A number, and whose it is."""
        return f"{shown(title)} {numbers[k]:.15g} of arm {self.arm(k)}"

    def arm(self, k: int) -> str:
        """The name of the arm of a line."""
        return quoted(self.arms[self.index[k]])


def check_numbers(lines: CheckedLines, title: str, cells: Sequence[object], found: Floats) -> None:
    """Cells must be numbers that can be added."""

    def said(k: int) -> tuple[str, str]:
        value = float(found[k])
        fault = "not a number" if math.isnan(value) else "infinite" if math.isinf(value) else f"beyond {LARGEST:g}"
        fault = "missing" if blank(cells[k]) else fault
        remedy = (
            "Correct it, or remove the line if there is no result; missing values must not stand for results."
            if math.isnan(value)
            else "Correct it: every value must be a finite number."
        )
        return f"the {shown(title)} {quoted(cells[k])} of arm {lines.arm(k)} is {fault}.", remedy

    with np.errstate(invalid="ignore"):
        lines.refuse(f"numbers {title}", ~(np.abs(found) <= LARGEST), said)


def check_outcomes(lines: CheckedLines, noise: Noise, title: str, values: Floats) -> None:
    """Single outcomes must be possible under the noise model."""
    low, high, whole, _, said, remedy = noise.outcome
    with np.errstate(invalid="ignore"):
        wrong = (values < low) | (values > high)
        if whole:
            wrong |= values != np.floor(values)
    lines.refuse(
        "outcomes",
        wrong,
        lambda k: (
            f"{lines.of(k, title, values)} {said}",
            str(
                Remedy(
                    "Correct the row, or create a study with " + remedy,
                    low=min(low, math.floor(values[k])),
                    high=max(high, math.ceil(values[k])),
                )
            ),
        ),
    )


def check_sums(lines: CheckedLines, noise: Noise, titles: dict[str, str], counts: Floats, totals: Floats) -> None:
    """Counts must be counts, and totals possible for them."""
    successes = "successes" in titles
    count_title, total_title = shown(titles["count"]), shown(titles["successes" if successes else "total"])
    with np.errstate(invalid="ignore"):
        wrong = (counts < 0) | (counts != np.floor(counts)) | (counts > MOST)
    lines.refuse(
        "counts",
        wrong,
        lambda k: (
            f"{lines.of(k, count_title, counts)} is not a whole number of at least 0.",
            f"{count_title} is how many results the line stands for: correct it.",
        ),
    )
    lines.refuse(
        "totals of nothing",
        (counts == 0) & (totals != 0),
        lambda k: (
            f"{lines.of(k, total_title, totals)} comes from 0 results.",
            f"Correct {count_title} or {total_title}.",
        ),
    )
    low, high, whole, *_ = noise.outcome
    if whole or successes:
        least, most = (0.0, 1.0) if successes else (low, high)
        lines.refuse(
            "totals",
            _outside(totals, counts, least, most) | (totals != np.floor(totals)),
            lambda k: (
                f"{lines.of(k, total_title, totals)} with {count_title} {counts[k]:.15g} is impossible: it must be a "
                f"whole number {_within(float(counts[k]), least, most, count_title)}.",
                "Correct the line; are the columns in the right order?",
            ),
        )
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    if ends and not whole:
        lines.refuse(
            "totals",
            _outside(totals, counts, low, high, slack=1e-9 * counts * max(ends)),
            lambda k: (
                f"{lines.of(k, total_title, totals)} is impossible: {counts[k]:.15g} results in [{low:g}, {high:g}], "
                f"the range this study was created with, add up to between {counts[k] * low:.15g} and "
                f"{counts[k] * high:.15g}.",
                "Correct the line, or start a new study with the true range: the error guarantee needs it.",
            ),
        )


@quiet  # 0 results in a range without an end
def _outside(totals: Floats, counts: Floats, low: float, high: float, slack: Floats | float = 0.0) -> Bools:
    """Which totals so many results between low and high cannot have."""
    return (totals < counts * low - slack) | (totals > counts * high + slack)


def _within(count: float, low: float, high: float, title: str) -> str:
    """Where the total of so many results lies."""
    if (low, high) == (0, 1):
        return f"between 0 and its {title}"
    upwards = math.isinf(high)
    return f"of at least {count * low:.15g}" if upwards else f"between {count * low:.15g} and {count * high:.15g}"


def check_squares(
    lines: CheckedLines, titles: dict[str, str], counts: Floats, totals: Floats, squared: Floats
) -> Floats:
    """sum (x - mean)^2 of each line from its sum of squares, which must be large enough for its total."""
    title = shown(titles["squares"])
    with np.errstate(invalid="ignore", over="ignore"):
        least = totals * (totals / np.maximum(counts, 1.0))
        within = np.maximum(squared - least, 0.0)
        impossible = squared < least - ROUNDING * np.maximum(np.abs(squared), least)
        unclear = (counts > 1) & (np.abs(squared - least) > EQUAL * squared) & (within < DIGITS * squared)
    lines.refuse(
        "squares",
        impossible,
        lambda k: (
            f"{lines.of(k, title, squared)} is impossible: the squares of {counts[k]:.15g} values with "
            f"{shown(titles['total'])} {totals[k]:.15g} add up to at least {least[k]:.15g}.",
            f"{title} is the sum of the squared values, not a variance: correct it.",
        ),
    )
    lines.refuse(
        "squares of nothing",
        (counts == 0) & (squared != 0),
        lambda k: (
            f"{title} {squared[k]:.15g} comes from 0 results.",
            f"Correct {shown(titles['count'])} or {title}.",
        ),
    )
    lines.refuse(
        "squares that say nothing",
        unclear,
        lambda k: (
            f"{lines.of(k, title, squared)} differs from that of equal values by less than a millionth: how much the "
            "values vary cannot be told from it.",
            "Give every result as a row, or take a common value (such as the mean) off all results first.",
        ),
    )
    return within


def check_form(sheet: Sheet, noise: Noise, plan: ColumnLayout) -> None:
    """Raise an error if the noise model cannot do with such columns."""
    if noise.needs == "squares" and plan.form == "sums" and not plan.squares:
        raise refusal(
            sheet.top,
            "with an unknown variance, sums need the column 'squares' (the sum of the squared values of each arm).",
            "Add it, or give every result as a row arm,outcome.",
        )
    low, high, *_ = noise.outcome
    if plan.form == "successes" and not low <= 0 < 1 <= high:
        raise refusal(
            sheet.top,
            f"'{shown(plan.titles['successes'])}' counts outcomes 0 and 1, but this study was created with the range "
            f"[{low:g}, {high:g}].",
            "Give arm,outcome or arm,count,total with the outcomes themselves.",
        )


class ArmCells(NamedTuple):
    """Some lines that have an arm: their numbers, the arm of each, and the cells of the other columns."""

    lines: Sequence[int]
    arms: Index
    columns: Mapping[str, Sequence[object]]


def with_arms(sheet: Sheet, names: ArmNames, plan: ColumnLayout, chunk: Chunk) -> ArmCells:
    """The lines of a chunk that have an arm of the study."""
    roles = list(plan.places)
    if plan.form == "wide":
        return _unfold_wide(names, roles, chunk)
    used = [column for role, column in zip(roles, chunk.columns, strict=True) if not role.startswith(WATCH)]
    index = names.found(sheet.problems, chunk.lines, used[0], used[1:])
    columns = dict(zip(roles[1:], chunk.columns[1:], strict=True))
    cells = ArmCells(chunk.lines, index, columns)
    good = index >= 0
    return cells if good.all() else taken(cells, good)


def taken(cells: ArmCells, good: Bools) -> ArmCells:
    """Some of the lines."""
    places = np.flatnonzero(good).tolist()
    columns = {role: [column[k] for k in places] for role, column in cells.columns.items()}
    return ArmCells([cells.lines[k] for k in places], cells.arms[good], columns)


def _unfold_wide(names: ArmNames, roles: Sequence[str], chunk: Chunk) -> ArmCells:
    """One line for each cell of a table with one column an arm."""
    at = [i for i, role in enumerate(roles) if role.startswith("arm ")]
    arms = np.array([names.index[roles[i].removeprefix("arm ")] for i in at])
    filled = [k for k in range(len(chunk.lines)) if not all(blank(column[k]) for column in chunk.columns)]
    lines = np.repeat([chunk.lines[k] for k in filled], len(at)).astype(np.int64).tolist()
    columns: dict[str, Sequence[object]] = {"outcome": [chunk.columns[i][k] for k in filled for i in at]}
    for i, role in enumerate(roles):
        if i not in at:
            columns[role] = [chunk.columns[i][k] for k in filled for _ in at]
    names.matched += len(lines)
    return ArmCells(lines, np.tile(arms, len(filled)).astype(np.int64), columns)


def check_notation(sheet: Sheet, columns: Sequence[Numbers]) -> None:
    """Put down numbers that contradict each other in how they are written; and note those that were understood."""
    for column in columns:
        seen = column.seen
        if "percent" in seen and "plain" in seen:
            sheet.problems.one(
                "percent",
                max(seen["percent"], seen["plain"]),
                f"some {shown(column.title)}s have a % sign ({sheet.unit} {seen['percent']}) and others have none "
                f"({sheet.unit} {seen['plain']}).",
                "Write all of them in one way.",
            )
        for text, value in (column.examples[kind] for kind in ("percent", "thousands") if kind in column.examples):
            sheet.note("number_read", text=shown(text), value=value)
    points = [column.seen["point"] for column in columns if "point" in column.seen]
    commas = [column.seen["comma"] for column in columns if "comma" in column.seen]
    if points and commas:
        sheet.problems.one(
            "signs",
            min(commas),
            f"a number has a decimal comma, but there is a number with a point ({sheet.name}, {sheet.unit} "
            f"{min(points)}).",
            "Use one of them.",
        )


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


class _Checked:
    """Lines of a sheet, and the digest of what was read of them where the sheet has none of its own."""

    def __init__(self, sheet: Sheet, names: ArmNames, noise: Noise, plan: ColumnLayout, form: str) -> None:
        self._sheet, self._names, self._noise, self._plan = sheet, names, noise, plan
        self._contents = FrameDigest(form) if sheet.digest is None else None

    def digest(self) -> str:
        """Of a file its own, of a data frame that of what was read."""
        if self._contents is not None:
            return self._contents.hex()
        return "" if self._sheet.digest is None else self._sheet.digest()


class RowLines(_Checked):
    """Lines that are one result each."""

    def __init__(
        self,
        sheet: Sheet,
        names: ArmNames,
        noise: Noise,
        plan: ColumnLayout,
        options: TellOptions,
        earlier: RecordedFiles,
        seed: int,
        file: int,
    ) -> None:
        roles = sorted(role for role in plan.places if not role.startswith(WATCH))
        super().__init__(sheet, names, noise, plan, f"rows {roles}")
        self._options, self._earlier, self._seed, self._file = options, earlier, seed, file
        self._wide = plan.form == "wide"
        self._title = plan.titles.get("outcome", "outcome")
        self._numbers = Numbers(self._title, sheet.decimal_comma, outcome=True)
        self.has_items = "item" in plan.places or self._wide
        self.with_ids = "id" in plan.places or "item" in plan.places
        self._what = "id" if "id" in plan.places else "item"
        self.ids, self._seen = (Ids(sheet, names.arms, self._what) for _ in range(2))
        self._pairs = Ids(sheet, names.arms, "item") if {"id", "item"} <= plan.places.keys() else None
        self.missing, self._empty = np.zeros(len(names.arms)), np.zeros(len(names.arms))
        self._first_missing = 0
        self.skipped = 0
        self.times: tuple[str, str] | None = None
        recorded = sum(each.rows for each in earlier.told) if options.cumulative and not self.with_ids else 0
        self._watches = {
            role: ColumnWatch(role.removeprefix(WATCH), seed, recorded)
            for role in plan.places
            if role.startswith(WATCH)
        }

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Index, Floats, Hashes | None]]:
        """Checked rows in chunks: arms, values, items."""
        for chunk in chunks:
            cells = with_arms(self._sheet, self._names, self._plan, chunk)
            if not len(cells.arms):
                continue
            values, missing = self._numbers.read(cells.lines, cells.columns["outcome"])
            if self._wide and self._options.missing is None and missing.any():  # not asked of this arm
                np.add.at(self._empty, cells.arms[missing], 1.0)
                cells, values, missing = taken(cells, ~missing), values[~missing], missing[~missing]
            items = self._items(cells)
            self._refuse_old_items(cells, items)
            ids = self._ids(cells, items)
            if ids is not None:
                old = self._earlier.has(ids)
                if old.any():
                    self.skipped += int(old.sum())
                    self._seen.add(taken(cells, old).lines, cells.arms[old], ids[old], values[old])
                    cells, values, missing, ids = taken(cells, ~old), values[~old], missing[~old], ids[~old]
                    items = None if items is None else items[~old]
            lines = CheckedLines(self._sheet, self._names.arms, cells.lines, cells.arms)
            if missing.any():
                np.add.at(self.missing, cells.arms[missing], 1.0)
                self._first_missing = self._first_missing or int(cells.lines[int(np.argmax(missing))])
                lines.good &= ~missing
            check_numbers(lines, self._title, cells.columns["outcome"], values)
            check_outcomes(lines, self._noise, self._title, values)
            if ids is not None:
                self.ids.add(cells.lines, cells.arms, ids, np.where(lines.good, values, np.nan))
            if self._pairs is not None and items is not None:
                self._pairs.add(cells.lines, cells.arms, with_arm(items, cells.arms), values)
            if "time" in cells.columns:
                self._clock(cells.columns["time"])
            good = lines.good
            for role, watch in self._watches.items():
                watch.add(cells.columns[role], cells.arms, good)
            index, values = cells.arms[good], values[good]
            items = None if items is None else items[good]
            if self._contents is not None:
                own = None if ids is None else ids[good]
                self._contents.add([self._names.arms[i] for i in index.tolist()], values, own, items, None)
            yield index, values, items

    def refuse(self, rows: int) -> None:
        """Raise an error if anything was wrong with the file of so many good rows."""
        problems = self._sheet.problems
        check_notation(self._sheet, [self._numbers])
        if self.missing.any() and self._options.missing is None:
            many, where = int(self.missing.sum()), "" if self._title == "outcome" else f" in {quoted(self._title)}"
            arms = list_by_arm(self._by_arm(self.missing))
            problems.one(
                "missing",
                self._first_missing,
                f"{many} row{'s have' if many > 1 else ' has'} no outcome{where} ({arms})"
                f"{', the first of them here' if many > 1 else ''}.",
                f"Complete the table; or say why, and they are counted as missing: {option('missing')}.",
            )
        for ids in (self._seen, self.ids):
            if not self._options.average_ids:
                ids.refuse()
            else:
                ids.refuse_several_arms()
        if self._pairs is not None:
            self._pairs.refuse()
        self._names.refuse_others(problems)
        problems.refuse()
        if not rows and not self.skipped and not self.missing.any():
            raise DataError(f"{self._sheet.name} has a header but no results. Give one line for each result or arm.")
        self._notes()

    def average(self, row_store: RowStore, found: RowStore) -> None:
        """Put the rows into another row_store, with one for each id: the mean of its rows."""
        self.ids.average(row_store, found)
        for index, values, _ in found.after():
            broken = np.flatnonzero(values != np.floor(values)) if self._noise.outcome.whole else index[:0]
            for k in broken[:1]:
                raise refusal(
                    self._sheet.name,
                    f"the mean of the rows of one id of arm {quoted(self._names.arms[index[k]])} is {values[k]:.6g}, "
                    "and this study needs whole numbers.",
                    Remedy("Give one row for each id, or create a study with {@range}.", low=0, high=1),
                )
        self._sheet.note("averaged", rows=row_store.rows - found.rows)

    @cached_property
    def contradicted(self) -> Contradicted | None:
        """The rows that were skipped, and say something else than is recorded."""
        if not self.skipped:
            return None
        return contradictions(self._seen.one_each(), self._earlier, self._names.arms, self._seed)

    @property
    def sketches(self) -> dict[str, ValueSketch]:
        """Of the columns that may identify units."""
        found = {watch.title: watch.sketch(self._names.arms) for watch in self._watches.values()}
        return {title: sketch for title, sketch in found.items() if sketch is not None}

    def contradiction(self) -> FileNote | None:
        """The note on the rows that contradict the record."""
        found = self.contradicted
        return None if found is None else found.note(self._sheet.name, self._sheet.unit, self._what)

    def _notes(self) -> None:
        if self.skipped:
            self._sheet.note("skipped", rows=self.skipped)
        if (found := self.contradiction()) is not None:
            self._sheet.notes.append(found)
        if self._empty.any():
            self._sheet.note("empty_cells", arms=self._by_arm(self._empty))
        if self.missing.any():
            self._sheet.note("missing_outcomes", arms=self._by_arm(self.missing), why=shown(self._options.missing, 200))

    def _by_arm(self, counts: Floats) -> dict[str, int]:
        return {arm: int(n) for arm, n in zip(self._names.arms, counts, strict=True) if n}

    def _items(self, cells: ArmCells) -> Hashes | None:
        if "item" in cells.columns:
            return hash_ids(cells.columns["item"], self._seed)
        if self._wide:
            return hashes([f"file {self._file}, line {line}" for line in cells.lines], self._seed)
        return None

    def _refuse_old_items(self, cells: ArmCells, items: Hashes | None) -> None:
        """Where arms are compared on items, one that was used before is known: it is no new chance."""
        if items is None or not self._noise.shares_items:
            return
        old = self._earlier.known(items)
        new = ~self._earlier.has(with_arm(items, cells.arms)) if not self._options.again else np.ones_like(old)
        lines = CheckedLines(self._sheet, self._names.arms, cells.lines, cells.arms)
        lines.refuse(
            "an item of an earlier round",
            old & new,
            lambda k: (
                f"the item '{shown(str(cells.columns['item'][k]))}' was used in an earlier round.",
                "Items of a round must be new to all arms: leave it out, and use others.",
            ),
        )

    def _ids(self, cells: ArmCells, items: Hashes | None) -> Hashes | None:
        if not self.with_ids:
            return None
        role = "id" if "id" in cells.columns else "item"
        nameless = np.array([no_value(cell) for cell in cells.columns[role]], dtype=np.bool_)
        if nameless.any():
            lines = CheckedLines(self._sheet, self._names.arms, cells.lines, cells.arms)
            lines.refuse(
                f"no {role}", nameless, lambda k: (f"there is no {role} in this row.", "Add it, or remove the row.")
            )
        if role == "id":
            ids = hash_ids(cells.columns["id"], self._seed)
            return with_arm(ids, cells.arms) if self._wide else ids
        assert items is not None
        return with_arm(items, cells.arms)

    def _clock(self, cells: Sequence[object]) -> None:
        """The first and the last time so far, of those that are written as ISO 8601."""
        texts = [cell.isoformat() if isinstance(cell, date) else cell for cell in cells]
        moments = [each.strip() for each in texts if isinstance(each, str) and _MOMENT.fullmatch(each.strip()[:40])]
        if moments:
            ends = (
                (min(moments), max(moments))
                if self.times is None
                else (min(*moments, self.times[0]), max(*moments, self.times[1]))
            )
            self.times = (shown(ends[0]), shown(ends[1]))


class SumLines(_Checked):
    """Lines that stand for many results."""

    def __init__(self, sheet: Sheet, names: ArmNames, noise: Noise, plan: ColumnLayout) -> None:
        super().__init__(sheet, names, noise, plan, f"{plan.form} {len(plan.places)}")
        self._total = "successes" if plan.form == "successes" else "total"
        roles = ("count", self._total, *(("squares",) if plan.squares else ()))
        self._numbers = {role: Numbers(plan.titles[role], sheet.decimal_comma) for role in roles}

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Index, Floats, Floats, Floats | None]]:
        """Checked lines in chunks: arms, counts, totals, and the scatter within each line where it is known."""
        plan = self._plan
        for chunk in chunks:
            cells = with_arms(self._sheet, self._names, plan, chunk)
            if not len(cells.arms):
                continue
            lines = CheckedLines(self._sheet, self._names.arms, cells.lines, cells.arms)
            found = {}
            for role, reader in self._numbers.items():
                found[role], _ = reader.read(cells.lines, cells.columns[role])
                check_numbers(lines, reader.title, cells.columns[role], found[role])
            counts, totals = found["count"], found[self._total]
            check_sums(lines, self._noise, plan.titles, counts, totals)
            within = None
            if plan.form == "successes":
                with np.errstate(invalid="ignore", over="ignore"):
                    within = np.maximum(totals - totals * (totals / np.maximum(counts, 1.0)), 0.0)
            elif plan.squares:
                within = check_squares(lines, plan.titles, counts, totals, found["squares"])
            good = lines.good
            own = cells.arms[good], counts[good], totals[good], None if within is None else within[good]
            if self._contents is not None:
                self._contents.add([self._names.arms[i] for i in own[0].tolist()], *own[1:], None)
            yield own

    def refuse(self) -> None:
        """Raise an error if anything was wrong."""
        check_notation(self._sheet, list(self._numbers.values()))
        self._names.refuse_others(self._sheet.problems)
        self._sheet.problems.refuse()


def contradictions(rows: IdRows, earlier: RecordedFiles, arms: Sequence[str], seed: int) -> Contradicted | None:
    """What rows whose ids are recorded, one for each id, say otherwise than the record; None if nothing."""
    ids, known = earlier.outcomes
    if not len(ids) or not len(rows.ids):
        return None

    def recorded(which: IdRows) -> Bools:
        return np.isin(with_outcome(which.ids, outcome_codes(arms, which.arms, which.values, seed)), known)

    wrong = np.isin(rows.ids, ids) & ~recorded(rows)
    if not wrong.any():
        return None
    other = IdRows(rows.ids[wrong], rows.lines[wrong], rows.arms[wrong], rows.values[wrong])
    gone = np.isnan(other.values)
    late = recorded(other._replace(values=np.full(len(gone), np.nan))) & ~gone
    moved = np.zeros(len(gone), dtype=np.bool_)
    for arm in range(len(arms)):
        moved |= recorded(other._replace(arms=np.full(len(gone), arm)))
    moved &= ~gone
    kinds = {"outcome": ~(moved | late | gone), "arm": moved, "late": late & ~moved, "gone": gone}
    held = [(each, int(np.isin(other.ids, each.hashes).sum())) for each in earlier.told if each.codes is not None]
    return Contradicted(
        {kind: int(which.sum()) for kind, which in kinds.items() if which.any()},
        tuple(sorted(other.lines.tolist())[:LINES]),
        tuple(ContradictedFile(each.digest, each.name, n) for each, n in held if n),
    )


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
    options: TellOptions | None = None,
    earlier: RecordedFiles | None = None,
) -> Results:
    """The results in a file or data frame; its batch is to be dealt into so many `parts`, or bet on as a `whole`, too.

    `seed` is the study's, `file` the number of the file in it: rows are kept in an order drawn from both. `columns` are
    those of the study; `options` say more of this file, and `earlier` what is recorded.
    """
    if not 1 <= parts <= 255:
        raise InputError(f"`parts` is {parts}, but must lie between 1 and 255.")
    options, earlier = options or TellOptions(), earlier or RecordedFiles()
    named = (options.columns or Columns()).over(columns or Columns())
    names = ArmNames(arms, options.ignored)
    with ExitStack() as stack:
        path = str(os.fspath(source)) if is_path(source) else "data frame"
        name = shown(getattr(source, "shown_as", path), 200)  # an upload lies elsewhere than its name says
        try:
            sheet = sheet_of(source, path, name, known_titles(named, names.arms), stack)
            sheet.problems.arms = names.arms
            reader = FileReader(sheet, names, noise, named, options, earlier, seed, file, stack)
            found = replace(reader.results(), parts=parts, seed=seed)
        except OSError as error:
            raise unreadable(path, error) from None
    teaches = parts > 1 and not whole and not found.deals
    return replace(found, notes=(*found.notes, FileNote("teaches_only", file=found.name))) if teaches else found


class FileReader:
    """One file on its way to results."""

    def __init__(
        self,
        sheet: Sheet,
        names: ArmNames,
        noise: Noise,
        columns: Columns,
        options: TellOptions,
        earlier: RecordedFiles,
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
        amounts = ArmSums(sums.counts, sums.totals, sums.scatter if known else None)
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
            cast(FileForm, plan.form),
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
        row_store = self._open_row_store()
        reader = RowLines(sheet, self.names, self.noise, self.plan, self.options, self.earlier, self.seed, self.file)
        if self.noise.shares_items and not reader.has_items:
            raise self._without_items()
        for index, values, items in reader.read(self._chunks()):
            row_store.put(index, values, items)
        reader.refuse(row_store.rows)
        if reader.ids.repeated and self.options.average_ids:
            every, row_store = row_store, self._open_row_store()
            reader.average(every, row_store)
        repeatable = not self._is_file and not reader.with_ids and could_repeat(row_store.after())
        digest = self._digest(reader, repeatable)
        same = not self.options.again and self.earlier.holds(digest)  # which the study refuses
        self.earlier.refuse_taught(sheet.name, digest)
        skipped = 0
        if self.earlier.told and self.options.cumulative and not reader.with_ids and not same:
            skipped = self.earlier.recorded_rows(sheet.name, row_store, self.names.arms, self.seed)
            self._note_cumulative(skipped, row_store.rows - skipped)
        elif self._is_file and not (self.options.again or self.options.cumulative or reader.with_ids or same):
            self.earlier.refuse_start(sheet.name, row_store, self.names.arms, self.seed)
        known = [each.missing for each in self.earlier.told if each.missing is not None] if skipped else []
        missing = np.maximum(reader.missing - sum(known, np.zeros(size)), 0.0)
        if row_store.rows <= skipped and not missing.any() and not same:
            raise nothing_new(sheet.name, skipped + reader.skipped, reader.contradiction())
        sums = Sums(size)
        for index, values, _ in row_store.after(skipped):
            sums.add(index, np.ones(len(index)), values)
        if not reader.with_ids:
            self._warn(ArmSums(sums.counts, sums.totals, sums.scatter))
        law = self._law()
        keep = law is None or reader.has_items
        width = None if self.noise.needs == "rows" or reader.has_items else width_for(size)
        start = None
        if not reader.with_ids and row_store.rows:
            mark = marks(row_store.after(), [row_store.rows], self.names.arms, self.seed)[row_store.rows]
            start = FileStart(row_store.rows, mark)
        return Results(
            sheet.name,
            digest,
            "rows",
            row_store.rows - skipped,
            sums.counts,
            sums.totals,
            sums.scatter,
            keep_rows(row_store.after(skipped), sums.counts, self.seed, self.file, width) if keep else None,
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

    def _warn(self, amounts: ArmSums) -> None:
        """Note that a file could be a running total, unless somebody said what it is."""
        if self._is_file and not (self.options.again or self.options.cumulative):
            found = self.earlier.possible_total(amounts, self.noise)
            if found is not None:
                self.sheet.note("possible_total", results=found[0], new=found[1])

    def _open_row_store(self) -> RowStore:
        found = RowStore()
        self.stack.callback(found.close)
        return found

    def _without_items(self) -> DataError:
        return DataError(
            f"{self.sheet.name} does not say which results belong to the same item, and this study compares arms on "
            "the items of both.",
            Remedy("Name the column of items ({@item_column}), or give one row an item, one column an arm."),
        )

    def _law(self) -> SumLaw | None:
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


class ColumnPreview(NamedTuple):
    """The columns of a table; those it could not be read by are taken for nothing."""

    header: tuple[str, ...]
    taken: dict[str, str]  # "arm", "outcome", "count", ... and the title of the column
    guessed: tuple[str, ...]  # what was found by the values alone
    form: str  # rows, sums, successes, wide; empty where the columns are not understood


def preview_columns(
    source: Any, arms: Sequence[str], noise: Noise, columns: Columns, options: TellOptions
) -> ColumnPreview:
    """The columns of a file; a table that cannot be opened has none."""
    named = (options.columns or Columns()).over(columns)
    with ExitStack() as stack:
        try:
            names = ArmNames(arms, options.ignored)
            path = str(os.fspath(source))
            sheet = sheet_of(source, path, shown(path), known_titles(named, names.arms), stack)
        except (RoundwiseError, OSError):
            return ColumnPreview((), {}, (), "")
        header = tuple(shown(title) for title in sheet.header if title.strip())
        try:
            plan = FileReader(sheet, names, noise, named, options, RecordedFiles(), 0, 0, stack).plan
        except (RoundwiseError, OSError):
            return ColumnPreview(header, {}, (), "")
        return ColumnPreview(
            header, {role: shown(title) for role, title in plan.titles.items()}, plan.guessed, plan.form
        )
