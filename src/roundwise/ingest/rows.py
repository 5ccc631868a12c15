"""Lines of a table, checked: of one result each, or of many. Everything that is wrong is put down, then refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import DataError, said
from roundwise.formats.cells import Numbers, no_value
from roundwise.formats.messages import by_arm, quoted, shown
from roundwise.formats.sheet import Chunk, Sheet
from roundwise.ingest import checks
from roundwise.ingest.arm_names import Index, Names
from roundwise.ingest.checks import Cells, taken, with_arms, written
from roundwise.ingest.columns import WATCH, Layout, Options
from roundwise.ingest.duplicates import Earlier
from roundwise.ingest.record import LINES, Contradicted, Source
from roundwise.ingest.row_ids import (
    Contents,
    Ids,
    Rows,
    hashes,
    hashes_read,
    outcome_codes,
    with_arm,
    with_outcome,
)
from roundwise.ingest.row_store import Spool
from roundwise.ingest.shared_items import Sketch, Watch
from roundwise.noise import Noise
from roundwise.serialization import Hashes

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


class _Checked:
    """Lines of a sheet, and the digest of what was read of them where the sheet has none of its own."""

    def __init__(self, sheet: Sheet, names: Names, noise: Noise, plan: Layout, form: str) -> None:
        self._sheet, self._names, self._noise, self._plan = sheet, names, noise, plan
        self._contents = Contents(form) if sheet.digest is None else None

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
        names: Names,
        noise: Noise,
        plan: Layout,
        options: Options,
        earlier: Earlier,
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
            role: Watch(role.removeprefix(WATCH), seed, recorded) for role in plan.places if role.startswith(WATCH)
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
            lines = checks.Lines(self._sheet, self._names.arms, cells.lines, cells.arms)
            if missing.any():
                np.add.at(self.missing, cells.arms[missing], 1.0)
                self._first_missing = self._first_missing or int(cells.lines[int(np.argmax(missing))])
                lines.good &= ~missing
            checks.numbers(lines, self._title, cells.columns["outcome"], values)
            checks.outcomes(lines, self._noise, self._title, values)
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
        written(self._sheet, [self._numbers])
        if self.missing.any() and self._options.missing is None:
            many, where = int(self.missing.sum()), "" if self._title == "outcome" else f" in {quoted(self._title)}"
            arms = self._by_arm(self.missing)
            problems.one(
                "missing",
                self._first_missing,
                f"{many} row{'s have' if many > 1 else ' has'} no outcome{where} ({arms})"
                f"{', the first of them here' if many > 1 else ''}.",
                "Complete the table; or say why, and they are counted as missing: "
                f"{said('missing=REASON', '--missing REASON')}.",
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

    def average(self, spool: Spool, found: Spool) -> None:
        """Put the rows into another spool, with one for each id: the mean of its rows."""
        self.ids.average(spool, found)
        for index, values, _ in found.after():
            lines = checks.Lines(self._sheet, self._names.arms, range(1, len(index) + 1), index)
            wrong = (values != np.floor(values)) if self._noise.outcome.whole else np.zeros(len(index), dtype=np.bool_)
            lines.refuse(
                "means",
                wrong,
                lambda k, lines=lines, values=values: (  # type: ignore[misc]
                    f"the mean {values[k]:.6g} of the rows of one id of arm {lines.arm(k)} is no whole number, which "
                    "this study needs.",
                    "Start a new study with --range 0 1 for means of 0/1 results, or give one row an id.",
                ),
            )
        self._sheet.problems.refuse()
        self._sheet.notes.append(
            f"{self._sheet.name}: {spool.rows - found.rows} rows were averaged with others of the same id."
        )

    @cached_property
    def contradicted(self) -> Contradicted | None:
        """The rows that were skipped, and say something else than is recorded."""
        if not self.skipped:
            return None
        return contradictions(self._seen.one_each(), self._earlier, self._names.arms, self._seed)

    @property
    def sketches(self) -> dict[str, Sketch]:
        """Of the columns that may identify units."""
        found = {watch.title: watch.sketch(self._names.arms) for watch in self._watches.values()}
        return {title: sketch for title, sketch in found.items() if sketch is not None}

    def otherwise(self) -> str | None:
        """That in words."""
        return None if self.contradicted is None else self.contradicted.words(self._sheet.unit, self._what)

    def _notes(self) -> None:
        name = self._sheet.name
        if self.skipped:
            rows, were = ("row", "was") if self.skipped == 1 else ("rows", "were")
            self._sheet.notes.append(f"{name}: {self.skipped} {rows} {were} recorded before and {were} skipped.")
        if self.contradicted is not None:
            self._sheet.notes.append(f"{name}: {self.otherwise()}.")
        if self._empty.any():
            self._sheet.notes.append(
                f"{name}: empty cells were taken for items that an arm was not tried on ({self._by_arm(self._empty)}); "
                "--missing REASON counts them as missing."
            )
        if self.missing.any():
            many = int(self.missing.sum())
            self._sheet.notes.append(
                f"{name}: {many} outcome{'s are' if many > 1 else ' is'} missing ({self._by_arm(self.missing)}): "
                f"{shown(self._options.missing, 200)}."
            )

    def _by_arm(self, counts: Floats) -> str:
        return by_arm({arm: int(n) for arm, n in zip(self._names.arms, counts, strict=True) if n})

    def _items(self, cells: Cells) -> Hashes | None:
        if "item" in cells.columns:

            def known(items: Hashes) -> Bools:
                return self._earlier.known(items) | self._earlier.has(with_arm(items, cells.arms))

            return hashes_read(cells.columns["item"], self._seed, known)
        if self._wide:
            return hashes([f"file {self._file}, line {line}" for line in cells.lines], self._seed)
        return None

    def _refuse_old_items(self, cells: Cells, items: Hashes | None) -> None:
        """Where arms are compared on items, one that was used before is known: it is no new chance."""
        if items is None or not self._noise.shares_items:
            return
        old = self._earlier.known(items)
        new = ~self._earlier.has(with_arm(items, cells.arms)) if not self._options.again else np.ones_like(old)
        lines = checks.Lines(self._sheet, self._names.arms, cells.lines, cells.arms)
        lines.refuse(
            "an item of an earlier round",
            old & new,
            lambda k: (
                f"the item '{shown(str(cells.columns['item'][k]))}' was used in an earlier round.",
                "Items of a round must be new to all arms: leave it out, and use others.",
            ),
        )

    def _ids(self, cells: Cells, items: Hashes | None) -> Hashes | None:
        if not self.with_ids:
            return None
        role = "id" if "id" in cells.columns else "item"
        nameless = np.array([no_value(cell) for cell in cells.columns[role]], dtype=np.bool_)
        if nameless.any():
            lines = checks.Lines(self._sheet, self._names.arms, cells.lines, cells.arms)
            lines.refuse(
                f"no {role}", nameless, lambda k: (f"there is no {role} in this row.", "Add it, or remove the row.")
            )
        if role == "id":

            def of_rows(ids: Hashes) -> Hashes:
                return with_arm(ids, cells.arms) if self._wide else ids

            return of_rows(hashes_read(cells.columns["id"], self._seed, lambda ids: self._earlier.has(of_rows(ids))))
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

    def __init__(self, sheet: Sheet, names: Names, noise: Noise, plan: Layout) -> None:
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
            lines = checks.Lines(self._sheet, self._names.arms, cells.lines, cells.arms)
            found = {}
            for role, reader in self._numbers.items():
                found[role], _ = reader.read(cells.lines, cells.columns[role])
                checks.numbers(lines, reader.title, cells.columns[role], found[role])
            counts, totals = found["count"], found[self._total]
            checks.sums(lines, self._noise, plan.titles, counts, totals)
            within = None
            if plan.form == "successes":
                with np.errstate(invalid="ignore", over="ignore"):
                    within = np.maximum(totals - totals * (totals / np.maximum(counts, 1.0)), 0.0)
            elif plan.squares:
                within = checks.squares(lines, plan.titles, counts, totals, found["squares"])
            good = lines.good
            own = cells.arms[good], counts[good], totals[good], None if within is None else within[good]
            if self._contents is not None:
                self._contents.add([self._names.arms[i] for i in own[0].tolist()], *own[1:], None)
            yield own

    def refuse(self) -> None:
        """Raise an error if anything was wrong."""
        written(self._sheet, list(self._numbers.values()))
        self._names.refuse_others(self._sheet.problems)
        self._sheet.problems.refuse()


def contradictions(rows: Rows, earlier: Earlier, arms: Sequence[str], seed: int) -> Contradicted | None:
    """What rows whose ids are recorded, one for each id, say otherwise than the record; None if nothing."""
    ids, known = earlier.outcomes
    if not len(ids) or not len(rows.ids):
        return None

    def recorded(which: Rows) -> Bools:
        return np.isin(with_outcome(which.ids, outcome_codes(arms, which.arms, which.values, seed)), known)

    wrong = np.isin(rows.ids, ids) & ~recorded(rows)
    if not wrong.any():
        return None
    other = Rows(rows.ids[wrong], rows.lines[wrong], rows.arms[wrong], rows.values[wrong])
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
        tuple(Source(each.digest, each.name, n) for each, n in held if n),
    )
