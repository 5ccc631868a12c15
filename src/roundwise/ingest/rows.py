"""Read results: open, detect columns, check every line, add up. A file is read completely, or a DataError lists its
problems.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from roundwise.arrays import Bools, Floats, Hashes, pack_hashes, pack_numbers, quiet
from roundwise.errors import DataError, InputError, RoundwiseError, refusal
from roundwise.formats.readers import sheet_of
from roundwise.formats.sheet import (
    GROUPED,
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
    whole,
)
from roundwise.formats.sources import MetricError, Wanted
from roundwise.ingest.columns import EVERY, WATCH, ArmNames, Index, TellOptions, known_titles, layout
from roundwise.ingest.covariates import Adjustment, CovariateSums
from roundwise.ingest.duplicates import (
    ArmSums,
    FrameDigest,
    IdResults,
    IdRows,
    Ids,
    RecordedFiles,
    RowBag,
    among,
    contradictions,
    could_repeat,
    hash_ids,
    marks,
    nothing_new,
    numbered_digest,
    outcome_codes,
    with_arm,
)
from roundwise.ingest.ratios import Linearization, RatioSums
from roundwise.ingest.reading import Columns, Reading, moment, parse_arm_names, seconds
from roundwise.ingest.record import (
    WATCHED,
    ColumnWatch,
    CostSums,
    FailedRequests,
    FileForm,
    FileStart,
    Results,
    RowStore,
    Sums,
    is_category,
    keep_rows,
    list_sketches,
    places_in_arm,
    unit_kind,
    width_for,
)
from roundwise.ingest.row_checks import ASSUMPTIONS, RowCounter, RowStatistics
from roundwise.messages import FileNote, Remedy, list_by_arm, option, quoted, shown
from roundwise.noise import Noise

MOST = 2.0**53  # of a count: whole numbers beyond are not exact
ROUNDING = 1e-6  # by how much sums that a user rounded may contradict each other
DIGITS = 1e-6  # squares must exceed those of equal values by this share, or rounding says how much values vary
EQUAL = 1e-13  # below this share values are equal, but for the rounding of the machine

EMPTY = "the outcome is empty"  # the reason of missing outcomes where the study says so

# --- checks of lines


class ArmLines:
    """Lines that have an arm of the study: their numbers, the arm of each, the cells of the other columns."""

    def __init__(
        self,
        sheet: Sheet,
        names: Sequence[str],
        lines: Sequence[int],
        arms: Index,
        columns: Mapping[str, Sequence[object]],
    ) -> None:
        self.sheet, self.names, self.lines, self.arms, self.columns = sheet, names, lines, arms, columns
        self.good: Bools = np.ones(len(arms), dtype=np.bool_)  # nothing is wrong with the line so far

    def only(self, some: Bools) -> ArmLines:
        """Some of the lines."""
        places = np.flatnonzero(some).tolist()
        columns = {role: [column[k] for k in places] for role, column in self.columns.items()}
        return ArmLines(self.sheet, self.names, [self.lines[k] for k in places], self.arms[some], columns)

    def refuse(
        self, kind: str, wrong: Bools, found: Callable[[int], str], remedy: str | Callable[[int], str | Remedy]
    ) -> None:
        """Put down the lines that are wrong, unless something else is wrong with them.

        Args:
            kind: Of the problem; lines of one kind are listed together.
            wrong: Which lines are wrong.
            found: The place of a line -> what was found there.
            remedy: What to do; or the place of a line -> that.
        """
        wrong = wrong & self.good
        if wrong.any():

            def said(k: int) -> tuple[str, str]:
                return found(k), remedy if isinstance(remedy, str) else str(remedy(k))

            self.sheet.problems.some(kind, self.lines, wrong, said, self.arms)
            self.good &= ~wrong

    def of(self, k: int, title: str, numbers: Floats) -> str:
        """A number, and whose it is."""
        return f"{shown(title)} {numbers[k]:.15g} of arm {self.arm(k)}"

    def arm(self, k: int) -> str:
        return quoted(self.names[self.arms[k]])


def check_numbers(lines: ArmLines, title: str, role: str, found: Floats) -> None:
    """Cells must be numbers that can be added."""
    cells = lines.columns[role]

    def formula(k: int) -> bool:
        return str(cells[k]).startswith("=")

    def unclear(k: int) -> bool:
        return math.isnan(float(found[k])) and GROUPED.fullmatch(str(cells[k]).strip()) is not None

    def fault(k: int) -> str:
        value = float(found[k])
        fault = "not a number" if math.isnan(value) else "infinite" if math.isinf(value) else f"beyond {LARGEST:g}"
        fault = "missing" if blank(cells[k]) else "a formula that was not computed" if formula(k) else fault
        if unclear(k):
            digits = str(cells[k]).strip().replace(",", ".")
            fault = f"unclear: it may be {float(digits):g} or {digits.replace('.', '')}"
        return f"the {shown(title)} {quoted(cells[k])} of arm {lines.arm(k)} is {fault}."

    def remedy(k: int) -> str:
        if unclear(k):
            return "Write whole numbers without a point or comma, such as 1234."
        if formula(k):
            return "Open the workbook in Excel and save it, or save the table as CSV UTF-8."
        if math.isnan(float(found[k])):
            return "Correct it, or remove the line if there is no result; missing values must not stand for results."
        return "Correct it: every value must be a finite number."

    with np.errstate(invalid="ignore"):
        lines.refuse(f"numbers {title}", ~(np.abs(found) <= LARGEST), fault, remedy)


def check_outcomes(lines: ArmLines, noise: Noise, title: str, values: Floats) -> None:
    """Single outcomes must be possible under the noise model."""
    low, high, whole, _, said, remedy, clip = noise.outcome
    if clip:
        return
    with np.errstate(invalid="ignore"):
        wrong = (values < low) | (values > high)
        if whole:
            wrong |= values != np.floor(values)

    def widened(k: int) -> Remedy:
        ends = {"low": min(low, math.floor(values[k])), "high": max(high, math.ceil(values[k]))}
        return Remedy("Correct the row, or create a study with " + remedy, **ends)

    lines.refuse("outcomes", wrong, lambda k: f"{lines.of(k, title, values)} {said}", widened)


@quiet  # 0 results in a range without an end
def check_sums(lines: ArmLines, noise: Noise, titles: dict[str, str], counts: Floats, totals: Floats) -> None:
    """Counts must be counts, and totals possible for them."""
    successes = "successes" in titles
    count_title, total_title = shown(titles["count"]), shown(titles["successes" if successes else "total"])
    lines.refuse(
        "counts",
        (counts < 0) | (counts != np.floor(counts)) | (counts > MOST),
        lambda k: f"{lines.of(k, count_title, counts)} is not a whole number of at least 0.",
        f"{count_title} is how many results the line stands for: correct it.",
    )
    lines.refuse(
        "totals of nothing",
        (counts == 0) & (totals != 0),
        lambda k: f"{lines.of(k, total_title, totals)} comes from 0 results.",
        f"Correct {count_title} or {total_title}.",
    )
    low, high, whole, *_ = noise.outcome
    if whole or successes:
        least, most = (0.0, 1.0) if successes else (low, high)

        def possible(k: int) -> str:
            if (least, most) == (0, 1):
                return f"between 0 and its {count_title}"
            if math.isinf(most):
                return f"of at least {counts[k] * least:.15g}"
            return f"between {counts[k] * least:.15g} and {counts[k] * most:.15g}"

        lines.refuse(
            "totals",
            (totals < counts * least) | (totals > counts * most) | (totals != np.floor(totals)),
            lambda k: (
                f"{lines.of(k, total_title, totals)} with {count_title} {counts[k]:.15g} is impossible: it must be a "
                f"whole number {possible(k)}."
            ),
            "Correct the line; are the columns in the right order?",
        )
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    if ends and not whole:
        slack = 1e-9 * counts * max(ends)
        lines.refuse(
            "totals",
            (totals < counts * low - slack) | (totals > counts * high + slack),
            lambda k: (
                f"{lines.of(k, total_title, totals)} is impossible: {counts[k]:.15g} results in [{low:g}, {high:g}], "
                f"the range this study was created with, add up to between {counts[k] * low:.15g} and "
                f"{counts[k] * high:.15g}."
            ),
            "Correct the line, or start a new study with the true range: the error guarantee needs it.",
        )


@quiet
def check_squares(lines: ArmLines, titles: dict[str, str], counts: Floats, totals: Floats, squared: Floats) -> Floats:
    """sum (x - mean)^2 of each line from its sum of squares, which must be large enough for its total."""
    title = shown(titles["squares"])
    least = totals * (totals / np.maximum(counts, 1.0))
    within = np.maximum(squared - least, 0.0)
    lines.refuse(
        "squares",
        squared < least - ROUNDING * np.maximum(np.abs(squared), least),
        lambda k: (
            f"{lines.of(k, title, squared)} is impossible: the squares of {counts[k]:.15g} values with "
            f"{shown(titles['total'])} {totals[k]:.15g} add up to at least {least[k]:.15g}."
        ),
        f"{title} is the sum of the squared values, not a variance: correct it.",
    )
    lines.refuse(
        "squares of nothing",
        (counts == 0) & (squared != 0),
        lambda k: f"{title} {squared[k]:.15g} comes from 0 results.",
        f"Correct {shown(titles['count'])} or {title}.",
    )
    lines.refuse(
        "squares that say nothing",
        (counts > 1) & (np.abs(squared - least) > EQUAL * squared) & (within < DIGITS * squared),
        lambda k: (
            f"{lines.of(k, title, squared)} differs from that of equal values by less than a millionth: how much the "
            "values vary cannot be told from it."
        ),
        "Give every result as a row, or take a common value (such as the mean) off all results first.",
    )
    return within


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
        where = f"({sheet.name}, {sheet.unit} {min(points)})"
        found = f"a number has a decimal comma, but there is a number with a point {where}."
        sheet.problems.one("signs", min(commas), found, "Use one of them.")


# --- reading a file


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
    reading: Reading | None = None,
    adjustment: Adjustment | None = None,
    ratio: RatioSums | Linearization | None = None,
    lower_is_better: bool | None = None,
    options: TellOptions | None = None,
    recorded: RecordedFiles | None = None,
) -> Results:
    """Read the results in a file or data frame.

    Args:
        source: A file or a data frame.
        arms: The names of the arms.
        noise: The noise model.
        parts: The number of random parts of its batch.
        whole: Whether the batch is bet on as a whole, too.
        seed: Of the study; rows are kept in an order drawn from it and `file`.
        file: The number of the file in the study.
        columns: Names of columns in the study.
        reading: The rules of the study by which rows become results.
        adjustment: What results are adjusted by, where the study has a covariate.
        ratio: Where the study is about a ratio, the sums of earlier rounds, or how ids become results.
        lower_is_better: Whether the study looks for low means, so that a file that says otherwise is refused.
        options: What the user says about this file.
        recorded: The recorded results of the study.

    Returns:
        The results of the file.

    Raises:
        DataError: If the file cannot be read, with every kind of problem in it.
    """
    if not 1 <= parts <= 255:
        raise InputError(f"`parts` is {parts}, but must lie between 1 and 255.")
    options, columns = options or TellOptions(), columns or Columns()
    with ExitStack() as stack:
        path = str(os.fspath(source)) if is_path(source) else "data frame"
        try:
            rules, recorded = reading or Reading(), recorded or RecordedFiles()
            names = ArmNames(arms, options.ignored, {**rules.arm_names, **parse_arm_names(options.arm_names)})
            reader = FileReader(source, path, names, noise, columns, rules, options, recorded, seed, file, stack)
            reader.adjustment, reader.ratio = adjustment, ratio
            reader.refuse_direction(lower_is_better)
            found = reader.read()
            if found.linearization is not None and found.linearization.from_own_rows:
                parts = 1  # earlier results alone may say how it is bet on
            found = replace(found, parts=parts, seed=seed)
        except OSError as error:
            raise unreadable(path, error) from None
    has_parts = found.strata is not None or found.distribution is not None or found.form == "successes"
    if parts > 1 and not whole and not has_parts:
        return replace(found, notes=(*found.notes, FileNote("teaches_only", file=found.name)))
    return found


class FileReader:
    """One file on its way to results: its columns, its checked lines, and their sums or rows."""

    def __init__(
        self,
        source: object,
        path: str,
        names: ArmNames,
        noise: Noise,
        columns: Columns,
        reading: Reading,
        options: TellOptions,
        recorded: RecordedFiles,
        seed: int,
        file: int,
        stack: ExitStack,
    ) -> None:
        self.columns = (options.columns or Columns()).over(columns)
        name = shown(getattr(source, "shown_as", path), 200)  # an upload lies elsewhere than its name says
        wanted = Wanted(list(names.index), self.columns.payload())
        self.sheet = sheet_of(source, path, name, known_titles(self.columns, names.index), stack, wanted)
        self.columns = Columns(**self.columns.payload() | self.sheet.roles)
        self.sheet.problems.arms = names.arms
        self.names, self.arms, self.noise, self.options = names, names.arms, noise, options
        self.recorded, self.seed, self.file, self.stack = recorded, seed, file, stack
        self.arm_hashes = hashes(self.arms, seed)
        self.reading = reading = replace(reading, empty=options.empty or reading.empty)
        self.adjustment: Adjustment | None = None
        self.ratio: RatioSums | Linearization | None = None
        self.why_missing = options.missing or (EMPTY if reading.empty == "missing" else None)
        self.is_file = self.sheet.digest is not None
        self.row_store: RowStore  # the results, once they are read
        self._first: Chunk | None = None
        self._rest: Iterator[Chunk] | None = None

    def refuse_direction(self, lower_is_better: bool | None) -> None:
        """Raise a DataError if the file declares the other direction of improvement."""
        stated = self.sheet.lower_is_better
        if None in (stated, lower_is_better) or stated is lower_is_better:
            return
        better, sought, how = ("lower", "higher", "with") if stated else ("higher", "lower", "without")
        raise refusal(
            self.sheet.name,
            f"{better} values are better in this file, but this study looks for {sought} means.",
            Remedy(f"Create a study {how} {{@lower_is_better}}."),
        )

    def read_layout(self) -> None:
        """Find out which column is what."""
        sheet = self.sheet
        known, guess, needs_arm = self.names.index, self._guess, not self.names.any_name
        self.plan = plan = layout(sheet.top, sheet.header, known, sheet.hint, self.columns, guess, needs_arm)
        low, high, *_ = self.noise.outcome
        if (self.noise.needs == "cubes" or self.noise.outcome.clip) and plan.form not in ("rows", "wide"):
            why = "how much of them lies beyond the cap" if self.noise.outcome.clip else "how skewed results are"
            raise refusal(sheet.top, f"sums do not say {why}.", "Give every result as a row arm,outcome.")
        if self.noise.needs == "squares" and plan.form == "sums" and not plan.squares:
            raise refusal(
                sheet.top,
                f"under the noise model '{self.noise.name}' sums need the column 'squares' (the sum of the squared "
                "values of each arm).",
                "Add it, or give every result as a row arm,outcome.",
            )
        if plan.form == "successes" and not low <= 0 < 1 <= high:
            raise refusal(
                sheet.top,
                f"'{shown(plan.titles['successes'])}' counts outcomes 0 and 1, but this study was created with the "
                f"range [{low:g}, {high:g}].",
                "Give arm,outcome or arm,count,total with the outcomes themselves.",
            )
        by_unit = self.reading.id_result is not None or self.columns.covariate is not None
        wide = plan.form == "wide" and self.columns.denominator is not None
        if (plan.form == "sums" and (by_unit or self.reading.shares)) or (plan.form == "successes" and by_unit) or wide:
            what = "one column an arm" if wide else "sums"
            said = f"{what} cannot be read by the rules of this study. {self.reading.words}".strip()
            raise refusal(sheet.top, said, "Give every row, with the columns that the study names.")
        if by_unit and not {"id", "item"} & plan.places.keys():
            raise refusal(sheet.top, "there is no column of ids.", Remedy("Name it with {@id_column}."))
        if self.recorded.repeats and "item" in plan.places:
            folded = [title.strip().casefold() for title in sheet.header]
            if "repeat" in folded:
                plan.places["repeat"] = folded.index("repeat")
                unused = tuple(each for each in plan.unused if each.casefold() != "repeat")
                self.plan = plan = plan._replace(unused=unused)
        # columns that are not used and may identify what a row is about are watched
        if plan.form == "rows" and "item" not in plan.places and not by_unit:
            titles = [(each.strip(), i) for i, each in enumerate(sheet.header)]
            named = [(WATCH + each, i) for each, i in titles if each in plan.unused and unit_kind(each) is not None]
            others = [(WATCH + each, i) for each, i in titles if each in plan.unused and not is_category(each)]
            plan.places.update(dict(list(dict([*named, *others]).items())[:WATCHED]))

    def read(self) -> Results:
        """Read all of the file."""
        self.read_layout()
        plan, sheet = self.plan, self.sheet
        by_row = plan.form in ("rows", "wide")
        self.has_items = "item" in plan.places or plan.form == "wide"
        if self.recorded.listed is not None and not (by_row and "item" in plan.places):
            raise DataError(
                f"{sheet.name} does not say which item of the list each result is of.",
                Remedy("Name the column of items ({@item_column})."),
            )
        if self.recorded.listed is None and self.options.failed:
            raise InputError("Requests are given up on a list.", Remedy("Use {@missing}: their results are missing."))
        if self.recorded.listed is not None and (self.options.missing or self.options.empty) is not None:
            raise InputError(
                "On a list, a row without an outcome is asked for again.", Remedy("Use {@failed} to give it up.")
            )
        if self.noise.shares_items and not (by_row and self.has_items):
            raise DataError(
                f"{sheet.name} does not say which results belong to the same item, and this study compares arms on "
                "the items of both.",
                Remedy("Name the column of items ({@item_column}), or use one row per item and one column per arm."),
            )
        roles = sorted(role for role in plan.places if not role.startswith(WATCH))
        form = f"rows {roles}" if by_row else f"{plan.form} {len(plan.places)}"
        self.contents = None if self.is_file else FrameDigest(form)
        found = self._read_rows() if by_row else self._read_sums()
        low, high = self.noise.mean_range
        needs_values = self.noise.needs == "rows"
        limits = (float(low), float(high)) if needs_values and self.noise.outcome.limited else None
        if plan.unused:
            sheet.notes.insert(0, FileNote("unused_columns", file=sheet.name, columns=list(plan.unused)))
        for role in plan.guessed:
            sheet.note("guessed_column", column=plan.titles[role], role=role)
        if self.names.left_out:
            sheet.note("other_arms", arms={shown(arm): n for arm, n in self.names.left_out.items()})
        cubes = self.noise.needs == "cubes"
        return replace(found, needs_values=needs_values, needs_cubes=cubes, limits=limits, notes=tuple(sheet.notes))

    # --- columns

    @property
    def _titled(self) -> list[int]:
        return [i for i, title in enumerate(self.sheet.header) if title.strip()]

    def _lines(self) -> Iterator[ArmLines]:
        """The lines that have an arm of the study, with the cells of the columns that are used."""
        places, chunks = list(self.plan.places.values()), self._rest
        if chunks is None:
            chunks = self.sheet.chunks(places)
        else:  # the first lines were looked at
            at = {place: i for i, place in enumerate(self._titled)}
            every = chain([] if self._first is None else [self._first], chunks)
            chunks = (Chunk(each.lines, [each.columns[at[place]] for place in places]) for each in every)
        for chunk in chunks:
            lines = self._unfold_wide(chunk) if self.plan.form == "wide" else self._with_arms(chunk)
            if len(lines.arms):
                yield lines

    def _with_arms(self, chunk: Chunk) -> ArmLines:
        roles = list(self.plan.places)
        used = [column for role, column in zip(roles, chunk.columns, strict=True) if not role.startswith(WATCH)]
        index = self.names.found(self.sheet.problems, chunk.lines, used[0], used[1:])
        columns = dict(zip(roles[1:], chunk.columns[1:], strict=True))
        lines = ArmLines(self.sheet, self.arms, chunk.lines, index, columns)
        return lines if (index >= 0).all() else lines.only(index >= 0)

    def _unfold_wide(self, chunk: Chunk) -> ArmLines:
        """One line for each cell of a table with one column an arm."""
        roles = list(self.plan.places)
        at = [i for i, role in enumerate(roles) if role.startswith("arm ")]
        arms = np.array([self.names.index[roles[i].removeprefix("arm ")] for i in at])
        filled = [k for k in range(len(chunk.lines)) if not all(blank(column[k]) for column in chunk.columns)]
        lines = np.repeat([chunk.lines[k] for k in filled], len(at)).astype(np.int64).tolist()
        columns: dict[str, Sequence[object]] = {"outcome": [chunk.columns[i][k] for k in filled for i in at]}
        for i, role in enumerate(roles):
            if i not in at:
                columns[role] = [chunk.columns[i][k] for k in filled for _ in at]
        self.names.matched += len(lines)
        return ArmLines(self.sheet, self.arms, lines, np.tile(arms, len(filled)).astype(np.int64), columns)

    def _guess(self, role: str, places: Sequence[int]) -> list[int]:
        """The columns that could be the arm or the outcome, by the cells in the first lines."""
        if self._rest is None:
            self._rest = self.sheet.chunks(self._titled)
            self._first = next(self._rest, None)
        if self._first is None:
            return []
        at = {place: i for i, place in enumerate(self._titled)}
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
        there = self.reading.results(values[~missing])
        if self.reading.id_result is not None:
            return bool(len(there)) and bool(np.isfinite(there).all())
        fits = ((there >= low) & (there <= high)) | self.noise.outcome.clip
        return bool(len(there)) and bool(fits.all()) and (not whole or bool((there == np.floor(there)).all()))

    # --- sums

    def _read_sums(self) -> Results:
        plan, sheet, recorded = self.plan, self.sheet, self.recorded
        successes = plan.form == "successes"
        total = "successes" if successes else "total"
        roles = ("count", total, *(("squares",) if plan.squares else ()))
        counted = {"count", "successes"}
        numbers = {role: Numbers(plan.titles[role], sheet.decimal_comma, counts=role in counted) for role in roles}
        sums, number = Sums(len(self.arms)), 0
        for lines in self._lines():
            found = {}
            for role, column in numbers.items():
                found[role], _ = column.read(lines.lines, lines.columns[role])
                check_numbers(lines, column.title, role, found[role])
            counts, totals = found["count"], found[total]
            check_sums(lines, self.noise, plan.titles, counts, totals)
            within = None
            if successes:
                with np.errstate(invalid="ignore", over="ignore"):
                    within = np.maximum(totals - totals * (totals / np.maximum(counts, 1.0)), 0.0)
            elif plan.squares:
                within = check_squares(lines, plan.titles, counts, totals, found["squares"])
            good = lines.good
            arms, counts, totals = lines.arms[good], counts[good], totals[good]
            within = None if within is None else within[good]
            if self.contents is not None:
                self.contents.add([self.arms[i] for i in arms.tolist()], counts, totals, within, None)
            sums.add(arms, counts, totals, within)
            number += len(arms)
        check_notation(sheet, list(numbers.values()))
        self._refuse_problems(empty=not number)
        known = plan.form != "sums" or plan.squares
        every = amounts = ArmSums(sums.counts, sums.totals, sums.scatter if known else None)
        digest = self._digest(repeatable=not self.is_file)
        recorded.refuse_taught(sheet.name, digest)
        if self.options.cumulative and not recorded.holds(digest):
            amounts = recorded.difference(sheet.name, every, self.noise, successes)
            if not amounts.counts.any():
                raise nothing_new(sheet.name, number)
            if amounts is not every:
                old, new = int(every.counts.sum() - amounts.counts.sum()), int(amounts.counts.sum())
                sheet.note("running_total", recorded=old, new=new)
        self._warn_of_running_total(amounts)
        n, ones = amounts.counts, amounts.totals
        zero_one = (ones == np.floor(ones)) & (ones >= 0) & (ones <= n)
        if not successes:  # sums of values and of their squares are the same only of 0 and 1
            squares = np.full_like(n, np.nan) if amounts.scatter is None else amounts.scatter
            zero_one &= np.isclose(squares, ones - ones * (ones / np.maximum(n, 1.0)), rtol=1e-9, atol=1e-9)
        checked = bool(zero_one.all()) and not ASSUMPTIONS.keys().isdisjoint(self.noise.row_checks)
        # sums of results with one exactly known deviation are partitioned as normal ones
        exact = self.noise.outcome.normal and np.ndim(self.noise.sigma) == 0
        return Results(
            sheet.name,
            digest,
            cast(FileForm, plan.form),
            number,
            amounts.counts,
            amounts.totals,
            amounts.scatter,
            distribution=self.noise.law or ("normal" if exact else None),
            sigma=float(self.noise.sigma) if exact else None,
            row_statistics=RowStatistics.of_zero_one(n, ones) if checked else None,
        )

    def _refuse_problems(self, empty: bool) -> None:
        """Raise an error if anything was wrong with the file."""
        self.names.refuse_others(self.sheet.problems)
        self.sheet.problems.refuse()
        if empty:
            raise DataError(f"{self.sheet.name} has a header but no results. Give one line for each result or arm.")

    def _digest(self, repeatable: bool) -> str:
        """The digest that identifies contents; contents that are `repeatable` by chance get a new one each time, so a
        Python loop that records a few results at a time is never stopped because they coincide.
        """
        own = self.contents.hex() if self.contents is not None else ""
        digest = own if self.sheet.digest is None else self.sheet.digest()
        return numbered_digest(digest, self.file) if repeatable else digest

    def _warn_of_running_total(self, amounts: ArmSums) -> None:
        """Note that a file could be a running total, unless the user said what it is."""
        if self.is_file and not (self.options.new or self.options.cumulative):
            found = self.recorded.possible_total(amounts, self.noise)
            if found is not None:
                self.sheet.note("possible_total", results=found[0], new=found[1])

    # --- rows

    def _read_rows(self) -> Results:
        sheet, options, recorded, size = self.sheet, self.options, self.recorded, len(self.arms)
        with_ids = "id" in self.plan.places or "item" in self.plan.places
        key = "id" if "id" in self.plan.places else "item"
        self.ids, self.seen = Ids(sheet, self.arms, key), Ids(sheet, self.arms, key)  # new ones, and recorded ones
        self.pairs = Ids(sheet, self.arms, "item") if {"id", "item"} <= self.plan.places.keys() else None
        self.missing, self.empty, self.first_missing = np.zeros(size), np.zeros(size), 0
        self.again, self.replaced = np.zeros(size), np.zeros(size)  # of a list: rows without an outcome
        self.failed: list[tuple[Index, Hashes]] = []  # of a list: what is given up
        self.costs = CostSums(np.zeros(size), np.zeros(size), sheet.cost_unit)
        self.skipped, self.zeros, self.latest = 0, 0, -math.inf
        self.times: tuple[str, str] | None = None
        told = sum(each.rows for each in recorded.told) if options.cumulative and not with_ids else 0
        watches = {
            role: ColumnWatch(role.removeprefix(WATCH), self.seed, told)
            for role in self.plan.places
            if role.startswith(WATCH)
        }
        row_store = self._open_row_store()
        numbers = Numbers(self.plan.titles.get("outcome", "outcome"), sheet.decimal_comma, outcome=True)
        self.numbers: dict[str, Numbers] = {}  # of further columns
        for lines in self._lines():
            row_store.put(*self._check_rows(lines, numbers, watches))
        self._refuse_rows(numbers, row_store.rows)
        units = self.ids.combine(self.reading, self.latest)
        told_ids = units.rows.only(units.closed)
        self.covariate: CovariateSums | None = None
        self.ratio_sums: RatioSums | None = None
        self.linearization: Linearization | None = None
        if self.reading.id_result is not None or self.adjustment is not None:
            row_store = self._open_row_store()
            self._tell_units(units, told_ids, numbers.title, row_store)
        seen = self.seen.combine(self.reading).rows
        contradicted = contradictions(seen, recorded, self.arms, self.seed) if self.skipped else None
        contradicts = None if contradicted is None else contradicted.note(sheet.name, sheet.unit, key)
        self._note_rows(contradicts)
        digest = self._digest(repeatable=not self.is_file and not with_ids and could_repeat(row_store.after()))
        same = not options.new and recorded.holds(digest)  # which the study refuses
        recorded.refuse_taught(sheet.name, digest)
        skipped = 0
        if recorded.told and options.cumulative and not with_ids and not same:
            skipped = recorded.recorded_rows(sheet.name, row_store, self.arms, self.seed)
            sheet.note("running_total", recorded=skipped, new=row_store.rows - skipped)
        elif self.is_file and not (options.new or options.cumulative or with_ids or same):
            recorded.refuse_start(sheet.name, row_store, self.arms, self.seed)
        known = [each.missing for each in recorded.told if each.missing is not None] if skipped else []
        self.row_store = row_store
        missing = np.maximum(self.missing - sum(known, np.zeros(size)), 0.0)
        if row_store.rows <= skipped and not missing.any() and not same:
            raise nothing_new(sheet.name, skipped + self.skipped, contradicts)
        sums = Sums(size)
        for index, values, _ in self._clipped(row_store.after(skipped)):
            sums.add(index, np.ones(len(index)), values)
        start = None
        if not with_ids:
            self._warn_of_running_total(ArmSums(sums.counts, sums.totals, sums.scatter))
            if rows := row_store.rows:
                mark = marks(row_store.after(), [rows], self.arms, self.seed)[rows]
                start = FileStart(rows, mark, RowBag.of(row_store.after(), self.arms, self.seed).mark)
        keep = self.noise.law is None or self.has_items
        width = None if self.noise.needs in ("rows", "cubes") or self.has_items else width_for(size)
        return Results(
            sheet.name,
            digest,
            "rows",
            row_store.rows - skipped,
            sums.counts,
            sums.totals,
            sums.scatter,
            keep_rows(self._clipped(row_store.after(skipped)), sums.counts, self.seed, self.file, width)
            if keep
            else None,
            self.noise.law,
            paired=self.noise.shares_items,
            missing=missing if missing.any() else None,
            missing_reason=self.why_missing if missing.any() else None,
            failed=FailedRequests.of(self.failed) if self.failed else None,
            costs=self.costs if self.costs.counts.any() and not skipped else None,
            skipped=skipped + self.skipped,
            contradicted=contradicted,
            ids=pack_hashes(told_ids.ids) if with_ids else None,
            id_outcomes=pack_numbers(outcome_codes(self.arms, told_ids, self.seed).astype(np.float64))
            if with_ids
            else None,
            waiting_ids=None if units.closed.all() else pack_hashes(units.waiting.ids),
            waiting_since=None if units.closed.all() else pack_numbers(units.waiting.times),
            start=start,
            sketches=list_sketches(watches.values(), self.arms),
            times=self.times,
            covariate=self.covariate,
            ratio=self.ratio_sums,
            linearization=self.linearization,
            row_statistics=self._count_rows(row_store, skipped, sums) if self.noise.row_checks else None,
        )

    def _count_rows(self, row_store: RowStore, skipped: int, sums: Sums) -> RowStatistics:
        counter = RowCounter(sums.counts, sums.totals, repetition="repeated" in self.noise.row_checks)
        seen = np.zeros(len(self.arms), dtype=np.int64)
        for index, values, _ in row_store.after(skipped):
            ((_, clipped, _),) = self._clipped([(index, values, None)])
            counter.add(index, clipped, places_in_arm(index, seen), values - clipped if clipped is not values else None)
        return counter.statistics()

    def _clipped(
        self, rows: Iterable[tuple[Index, Floats, Hashes | None]]
    ) -> Iterator[tuple[Index, Floats, Hashes | None]]:
        """The rows with the values that count: those beyond a cap are at it."""
        low, high, *_ = self.noise.outcome
        for index, values, items in rows:
            yield index, np.clip(values, low, high) if self.noise.outcome.clip else values, items

    def _open_row_store(self) -> RowStore:
        found = RowStore()
        self.stack.callback(found.close)
        return found

    def _check_rows(
        self, lines: ArmLines, numbers: Numbers, watches: Mapping[str, ColumnWatch]
    ) -> tuple[Index, Floats, Hashes | None]:
        """The rows of some lines that are new and right: arms, values, items."""
        values, missing = numbers.read(lines.lines, lines.columns["outcome"])
        if self.reading.empty == "zero":
            self.zeros += int(missing.sum())
            values, missing = np.where(missing, 0.0, values), np.zeros_like(missing)
        if self.plan.form == "wide" and self.why_missing is None and missing.any():  # not asked of this arm
            np.add.at(self.empty, lines.arms[missing], 1.0)
            lines, values, missing = lines.only(~missing), values[~missing], missing[~missing]
        if self.recorded.listed is not None and missing.any() and self.reading.failed_is is not None:
            np.add.at(self.replaced, lines.arms[missing], 1.0)
            values, missing = np.where(missing, self.reading.failed_is, values), np.zeros_like(missing)
        elif self.recorded.listed is not None and missing.any() and not self.options.failed:  # asked for again
            np.add.at(self.again, lines.arms[missing], 1.0)
            lines, values, missing = lines.only(~missing), values[~missing], missing[~missing]
        items = self._read_items(lines)
        ids, times = self._read_ids(lines, items), self._read_times(lines)
        covariates, divisors = self._read_covariates(lines), self._read_denominators(lines)
        if ids is not None and (old := self.recorded.has(ids)).any():
            self.skipped += int(old.sum())
            seen = ids[old], values[old], None, times[old], None, divisors[old]
            self.seen.add(lines.only(old).lines, lines.arms[old], *seen)
            lines, values, missing, ids = lines.only(~old), values[~old], missing[~old], ids[~old]
            items, times = None if items is None else items[~old], times[~old]
            covariates, divisors = covariates[~old], divisors[~old]
        if missing.any():
            np.add.at(self.missing, lines.arms[missing], 1.0)
            if self.recorded.listed is not None and items is not None:
                self.failed.append((lines.arms[missing], items[missing]))
            self.first_missing = self.first_missing or int(lines.lines[int(np.argmax(missing))])
            lines.good &= ~missing
        self._add_costs(lines)
        check_numbers(lines, numbers.title, "outcome", values)
        results = self.reading.results(values)
        if self.reading.id_result is None:
            check_outcomes(lines, self.noise, numbers.title, results)
        good = lines.good
        if ids is not None:
            found = np.where(good, values, np.nan)
            self.ids.add(lines.lines, lines.arms, ids, found, items, times, covariates, divisors)
        if self.pairs is not None and items is not None:
            self.pairs.add(lines.lines, lines.arms, with_arm(items, self.arm_hashes[lines.arms]), values)
        for role, watch in watches.items():
            watch.add(lines.columns[role], lines.arms, good)
        arms, items = lines.arms[good], None if items is None else items[good]
        if self.contents is not None:
            own, when = None if ids is None else ids[good], times[good] if self.reading.id_window else None
            both = values if np.isnan(divisors).all() else np.column_stack([values, divisors])
            self.contents.add([self.arms[i] for i in arms.tolist()], both[good], own, items, when)
        return arms, results[good], items

    def _read_items(self, lines: ArmLines) -> Hashes | None:
        """The item of each row; where arms are compared on items, one of an earlier round is refused: it is known."""
        if "repeat" in lines.columns:
            both = zip(lines.columns["item"], lines.columns["repeat"], strict=True)
            items = hash_ids([f"{name_in(whole(item))}#{name_in(whole(k))}" for item, k in both], self.seed)
        elif "item" in lines.columns:
            items = hash_ids(lines.columns["item"], self.seed)
        elif self.plan.form == "wide":
            items = hashes([f"file {self.file}, line {line}" for line in lines.lines], self.seed)
        else:
            return None
        if self.recorded.listed is not None:
            unknown = ~among(self.recorded.listed, items)

            def beyond(k: int) -> tuple[str, str]:
                found = f"the item '{shown(str(lines.columns['item'][k]))}' is not on the list of this study."
                return found, "Correct it, or remove the row: the list is fixed when a study is created."

            self.sheet.problems.some("an item that is not listed", lines.lines, unknown, beyond, lines.arms)
        if self.noise.shares_items:
            old = self.recorded.has_item(items)
            if not self.options.new:
                old &= ~self.recorded.has(with_arm(items, self.arm_hashes[lines.arms]))

            def said(k: int) -> tuple[str, str]:
                found = f"the item '{shown(str(lines.columns['item'][k]))}' was used in an earlier round."
                return found, "Items of a round must be new to all arms: leave it out, and use others."

            self.sheet.problems.some("an item of an earlier round", lines.lines, old, said, lines.arms)
        return items

    def _read_ids(self, lines: ArmLines, items: Hashes | None) -> Hashes | None:
        """The keys that must not count twice: an id, or an item with its arm."""
        role = "id" if "id" in lines.columns else "item"
        if role not in lines.columns:
            return None
        nameless = np.array([no_value(cell) for cell in lines.columns[role]], dtype=np.bool_)
        said = (f"there is no {role} in this row.", "Add it, or remove the row.")
        self.sheet.problems.some(f"no {role}", lines.lines, nameless, lambda k: said, lines.arms)
        if role == "id":
            ids = hash_ids(lines.columns["id"], self.seed)
            return with_arm(ids, self.arm_hashes[lines.arms]) if self.plan.form == "wide" else ids
        assert items is not None
        return with_arm(items, self.arm_hashes[lines.arms])

    def _read_times(self, lines: ArmLines) -> Floats:
        """The time of each row where windows need it, else nan; the first and the last so far are kept."""
        cells = lines.columns.get("time", ())
        if moments := [each for each in map(moment, cells) if each is not None]:
            every = (*moments, *(self.times or ()))
            self.times = (shown(min(every)), shown(max(every)))
        if self.reading.id_window is None:
            return np.full(len(lines.arms), np.nan)
        times = np.array([seconds(cell) for cell in cells], dtype=np.float64)
        lines.refuse(
            "times",
            np.isnan(times),
            lambda k: f"{quoted(cells[k])} is not a time.",
            f"Write times as 2026-05-04 or 2026-05-04 09:13: the window of {self.reading.id_window} needs them.",
        )
        self.latest = max(self.latest, float(np.nanmax(times, initial=-math.inf)))
        return times

    def _numbers(self, role: str) -> Numbers:
        """The numbers of a further column, and how they are written."""
        return self.numbers.setdefault(role, Numbers(self.plan.titles[role], self.sheet.decimal_comma))

    def _read_covariates(self, lines: ArmLines) -> Floats:
        """The covariate of each row; nan where there is none."""
        if "covariate" not in lines.columns:
            return np.full(len(lines.arms), np.nan)
        title = self.plan.titles["covariate"]
        values, missing = self._numbers("covariate").read(lines.lines, lines.columns["covariate"])
        wrong = ~missing & ~(np.abs(values) <= LARGEST)
        cells = lines.columns["covariate"]
        said = "Correct it, or leave it empty where it is not known."
        lines.refuse("covariates", wrong, lambda k: f"the {shown(title)} {quoted(cells[k])} is not a number.", said)
        return np.where(missing, np.nan, values)

    def _add_costs(self, lines: ArmLines) -> None:
        """Add up what rows cost, where a column says it."""
        if "cost" not in lines.columns:
            return
        title, cells = self.plan.titles["cost"], lines.columns["cost"]
        values, missing = self._numbers("cost").read(lines.lines, cells)
        wrong = ~missing & ~((values >= 0) & (values <= LARGEST))
        said = "Correct it: a cost is a number of at least 0, or empty where it is not known."
        lines.refuse("costs", wrong, lambda k: f"the {shown(title)} {quoted(cells[k])} cannot be one.", said)
        known = ~missing & ~wrong
        np.add.at(self.costs.counts, lines.arms[known], 1.0)
        np.add.at(self.costs.totals, lines.arms[known], values[known])

    def _read_denominators(self, lines: ArmLines) -> Floats:
        """The denominator of each row; nan where the study has none."""
        if "denominator" not in lines.columns:
            return np.full(len(lines.arms), np.nan)
        title, cells = self.plan.titles["denominator"], lines.columns["denominator"]
        values, missing = self._numbers("denominator").read(lines.lines, cells)
        if self.reading.empty == "zero":
            values, missing = np.where(missing, 0.0, values), np.zeros_like(missing)
        wrong = missing | ~((values >= 0) & (values <= LARGEST))
        said = "Correct it: a denominator is a number of at least 0."
        lines.refuse("denominators", wrong, lambda k: f"the {shown(title)} {quoted(cells[k])} cannot be one.", said)
        return values

    def _refuse_rows(self, numbers: Numbers, rows: int) -> None:
        """Raise an error if anything was wrong with the file, which has this many good rows."""
        check_notation(self.sheet, [numbers, *self.numbers.values()])
        if self.why_missing is None and self.sheet.reasons:  # another tool says what happened
            self.why_missing = ", ".join(why for why, _ in self.sheet.reasons.most_common(3))
        elif self.why_missing is None and self.options.failed:
            self.why_missing = EMPTY
        if self.missing.any() and self.why_missing is None:
            many, where = int(self.missing.sum()), "" if numbers.title == "outcome" else f" in {quoted(numbers.title)}"
            self.sheet.problems.one(
                "missing",
                self.first_missing,
                f"{many} row{'s have' if many > 1 else ' has'} no outcome{where} "
                f"({list_by_arm(self._by_arm(self.missing))}){', the first of them here' if many > 1 else ''}.",
                f"If an empty cell means 0, say so: {option('empty')}. If the result is not known, say why, and they "
                f"count as missing: {option('missing')}. Or complete the table.",
            )
        for ids in (self.seen, self.ids, *([] if self.pairs is None else [self.pairs])):
            ids.refuse(self.reading)
        nothing = not rows and not self.skipped and not self.missing.any()
        if nothing and self.again.any() and not self.sheet.problems:
            raise refusal(
                self.sheet.name,
                f"no row has an outcome ({list_by_arm(self._by_arm(self.again))}): they are asked for again.",
                Remedy("If they keep failing, give them up with {@failed}."),
            )
        self._refuse_problems(empty=nothing)

    def _note_rows(self, contradicts: FileNote | None) -> None:
        if self.skipped:
            self.sheet.note("skipped", rows=self.skipped)
        if contradicts is not None:
            self.sheet.notes.append(contradicts)
            if self.reading.id_result is not None:
                self.sheet.note("ids_in_two_files", rule=self.reading.id_result, window=self.reading.id_window)
        if self.again.any():
            self.sheet.note("asked_again", arms=self._by_arm(self.again))
        if self.empty.any():
            self.sheet.note("empty_cells", arms=self._by_arm(self.empty))
        if self.replaced.any():
            self.sheet.note("failed_count", arms=self._by_arm(self.replaced), value=self.reading.failed_is)
        if self.missing.any():
            code = "missing_outcomes" if self.recorded.listed is None else "given_up"
            self.sheet.note(code, arms=self._by_arm(self.missing), why=shown(self.why_missing, 200))
        if self.zeros:
            self.sheet.note("empty_zero", rows=self.zeros)

    def _tell_units(self, units: IdResults, told: IdRows, title: str, row_store: RowStore) -> None:
        """Write one row for each complete id into a row store, in the order of their first rows."""
        rule, several_arms = self.reading, units.several_arms[units.closed]
        self._refuse_incomplete_units(units)
        told, first = told.only(~several_arms), units.first[units.closed][~several_arms]
        gone = np.isnan(told.values)
        self.missing = np.bincount(told.arms[gone], minlength=len(self.arms)).astype(np.float64)
        order = np.argsort(first, kind="stable")
        told = told.only(order[~gone[order]])
        lines = ArmLines(self.sheet, self.arms, told.lines.tolist(), told.arms, {})
        of_ids = "" if rule.id_result is None else f" ({rule.id_result} of one id)"
        check_outcomes(lines, self.noise, title + of_ids, told.values)
        self.sheet.problems.refuse()
        values = told.values
        if self.adjustment is not None:
            sums = told.arms, told.covariates, values
            self.covariate = CovariateSums.of(*sums, len(self.arms), self.adjustment)
            values = self.adjustment.adjust(values, told.covariates)
        if self.ratio is not None:
            values = self._linearize(told)
        row_store.put(told.arms, values, told.items if self.has_items else None)
        rows = int(units.sizes[units.closed].sum())
        if rows > units.closed.sum():
            self.sheet.note("combined", rows=rows, ids=int(units.closed.sum()), rule=rule.id_result)
        if several_arms.any():
            self.sheet.note("several_arms", ids=int(several_arms.sum()))
        if units.after_window:
            self.sheet.note("after_window", rows=units.after_window, window=rule.id_window)
        if waiting := int((~units.closed).sum()):
            self.sheet.note("waiting", ids=waiting, window=rule.id_window)
        if waiting and not len(told.ids) and not gone.any():
            raise refusal(
                self.sheet.name,
                f"the window of {rule.id_window} is still open for all {waiting} new ids.",
                "Tell the file again when it has later rows. Nothing was changed.",
            )

    def _linearize(self, told: IdRows) -> Floats:
        """The results of ids that have a numerator and a denominator."""
        sums = RatioSums.of(told.arms, told.values, told.denominators, len(self.arms))
        assert self.ratio is not None
        rule = self.ratio.linearization(sums)
        if not len(told.arms):  # every id is recorded already
            rule = Linearization(np.zeros(len(self.arms)), np.zeros(len(self.arms)), True)
        elif not np.isfinite(rule.ratios).all():
            title = shown(self.plan.titles["denominator"])
            raise refusal(self.sheet.name, f"every {title} is 0.", "A ratio needs denominators above 0.")
        self.ratio_sums, self.linearization = sums, rule
        return rule.linearize(told.arms, told.values, told.denominators)

    def _refuse_incomplete_units(self, units: IdResults) -> None:
        """Raise an error where a file lacks rows of ids that an earlier one left waiting."""
        (known, since), rows = self.recorded.waiting_units, units.rows
        places = np.minimum(np.searchsorted(rows.ids, known), max(len(rows.ids) - 1, 0))
        there = rows.ids[places] == known if len(rows.ids) else np.zeros(len(known), dtype=np.bool_)
        there &= ~there if not len(rows.ids) else rows.times[places] <= since
        if not there.all():
            raise refusal(
                self.sheet.name,
                f"it lacks rows of {int((~there).sum())} of the {len(known)} ids whose windows were open in the last "
                "file.",
                "Give a file with all rows since the study began: ids that are recorded are skipped.",
            )

    def _by_arm(self, counts: Floats) -> dict[str, int]:
        return {arm: int(n) for arm, n in zip(self.arms, counts, strict=True) if n}


class ColumnPreview(NamedTuple):
    """The columns of a table; those that were not understood are ignored."""

    header: tuple[str, ...]
    taken: dict[str, str]  # "arm", "outcome", "count", ... and the title of the column
    guessed: tuple[str, ...]  # what was found by the values alone
    form: str  # rows, sums, successes, wide; empty where the columns are not understood


def preview_columns(
    source: Any, arms: Sequence[str], noise: Noise, columns: Columns, reading: Reading, options: TellOptions
) -> ColumnPreview:
    """The columns of a file; a table that cannot be opened has none."""
    header: tuple[str, ...] = ()
    with ExitStack() as stack:
        try:
            path = str(os.fspath(source))
            names = ArmNames(arms, options.ignored, {**reading.arm_names, **parse_arm_names(options.arm_names)})
            reader = FileReader(source, path, names, noise, columns, reading, options, RecordedFiles(), 0, 0, stack)
            header = tuple(shown(title) for title in reader.sheet.header if title.strip())
            reader.read_layout()
        except MetricError as several:
            return ColumnPreview(tuple(map(shown, several.names)), {}, (), "")
        except (RoundwiseError, OSError):
            return ColumnPreview(header, {}, (), "")
        titles = {role: shown(title) for role, title in reader.plan.titles.items()}
        return ColumnPreview(header, titles, reader.plan.guessed, reader.plan.form)
