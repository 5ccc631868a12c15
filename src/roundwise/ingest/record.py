"""What one file brought, as a study records it, and the same as JSON; with its rows that contradict the record."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError, said
from roundwise.formats.messages import shown
from roundwise.ingest.row_store import Lots
from roundwise.ingest.shared_items import Sketch, sketches_from
from roundwise.serialization import Hashes, packed_hashes, packed_numbers, unpacked_hashes, unpacked_numbers

LINES = 20  # whose numbers are kept
SEEN = " seen before but "  # in what is said of rows that contradict the record, and in nothing else
_KINDS = {
    "outcome": "another outcome",
    "arm": "another arm",
    "late": "an outcome where none was recorded",
    "gone": "no outcome where one is recorded",
}


class Source(NamedTuple):
    """A file by which some of the ids were recorded."""

    digest: str
    name: str
    rows: int


@dataclass(frozen=True)
class Contradicted:
    """Rows whose id is recorded, and that say something else than the record; they were skipped."""

    kinds: dict[str, int]  # how many of each of the kinds above
    lines: tuple[int, ...]  # the first of them
    files: tuple[Source, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.kinds.values())

    def words(self, unit: str, what: str) -> str:
        """Which rows, and what becomes of them; a `unit` is a line or a row of the table, `what` an id or an item.

        >>> found = Contradicted({"outcome": 3}, (4, 9, 12), (Source("d", "monday.csv", 3),))
        >>> found.words("line", "id").partition(":")[0]
        '3 rows have an id seen before but another outcome (lines 4, 9, 12; recorded by monday.csv)'
        """
        one, several = self.rows == 1, len(self.kinds) > 1
        each = ", ".join(_KINDS[kind] + (f" ({rows})" if several else "") for kind, rows in self.kinds.items())
        lines = ", ".join(map(str, self.lines)) + (", ..." if self.rows > len(self.lines) else "")
        names = list(dict.fromkeys(source.name for source in self.files))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        where = f"{unit}{'' if one else 's'} {lines}; recorded by {', '.join(names[:3])}{more}"
        amend = said("`study.amend`", "`roundwise amend`")
        return (
            f"{self.rows} {'row has' if one else 'rows have'} an {what}{SEEN}{each} ({where}): skipped, and "
            f"what is recorded stands; {amend} corrects it, if it is wrong"
        )

    def payload(self) -> Plain:
        """As it is recorded."""
        return {"kinds": self.kinds, "lines": list(self.lines), "files": [list(each) for each in self.files]}

    @classmethod
    def from_payload(cls, payload: Plain) -> Contradicted:
        """What the payload was made of."""
        kinds = {str(kind): int(payload["kinds"][kind]) for kind in _KINDS if kind in payload["kinds"]}
        files = tuple(Source(str(digest), str(name), int(rows)) for digest, name, rows in payload["files"])
        found = cls(kinds, tuple(int(line) for line in payload["lines"]), files)
        if not kinds or min(*kinds.values(), *(each.rows for each in files), 1) < 1:
            raise ValueError("rows that contradict nothing")
        return found

    def plain(self) -> Plain:
        """For programs."""
        names = [source.name for source in self.files]
        return {"rows": self.rows, **self.kinds, "lines": list(self.lines), "recorded_by": names}


Form = Literal["rows", "sums", "successes"]
Law = Literal["binary", "poisson", "normal"]


class Start(NamedTuple):
    """The rows of a file, as a mark by which they are known again at the start of another: a keyed 64-bit hash."""

    rows: int
    mark: str


@dataclass(frozen=True, eq=False)
class Results:
    """What one file (or data frame) brought."""

    name: str  # as the user gave it
    digest: str  # sha256 of the contents
    form: Form
    rows: int  # lines of data that count
    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum (x - mean)^2 within each arm, where it is known
    lots: Lots | None = None  # the rows, in random order; None of sums, and where sums say as much
    law: Law | None = None  # what makes sums as good as rows: their parts can be drawn
    tables: bool = False  # the noise model asks for the values of all rows
    limits: tuple[float, float] | None = None  # between which they lie, if it does
    paired: bool = False  # the noise model compares arms on the items of both
    parts: int = 1  # into how many parts the batch is to be dealt
    seed: int = 0  # of the dealing
    missing: Floats | None = None  # (K), rows without an outcome
    why: str | None = None  # they have none, in the user's words
    skipped: int = 0  # rows that were recorded before
    contradicted: Contradicted | None = None  # those of them that say something else
    ids: str | None = None  # packed hashes of the ids of all rows
    codes: str | list[float | int] | None = None  # of each of these ids, a packed hash of its arm and outcome
    start: Start | None = None
    sketches: Mapping[str, Sketch] = field(default_factory=dict)  # of columns that may identify units, by title
    together: bool = False  # it was told in one call with the file before it
    times: tuple[str, str] | None = None  # the first and the last, where they can be compared
    notes: tuple[str, ...] = ()  # what the user should know: columns that were not used, a file that may be cut
    sigma: float | None = None  # the deviation of one result, where sums are of exactly normal ones

    @property
    def values(self) -> tuple[Floats, ...] | None:
        """All values of each arm, in random order, where the noise model asks for them and rows were told."""
        if self.lots is None or not self.tables:
            return None
        ends = np.cumsum(np.bincount(self.lots.arms, minlength=len(self.counts)))
        return tuple(np.split(self.lots.totals, ends[:-1]))

    @property
    def deals(self) -> bool:
        """Whether it can be dealt into parts."""
        return self.lots is not None or self.law is not None or self.form == "successes"

    @property
    def slim(self) -> Results:
        """The same without rows and ids, which may be many."""
        return replace(self, lots=None, ids=None, codes=None)

    def reconciled(self, digest: str) -> Results:
        """The same after the file of this digest, which some rows contradicted, was corrected or withdrawn."""
        if self.contradicted is None or digest not in {each.digest for each in self.contradicted.files}:
            return self
        left = tuple(each for each in self.contradicted.files if each.digest != digest)
        if left:
            return replace(self, contradicted=replace(self.contradicted, files=left))
        return replace(self, contradicted=None, notes=tuple(each for each in self.notes if SEEN not in each))

    @cached_property
    def hashes(self) -> Hashes:
        """Of the ids of all rows, ascending."""
        return np.zeros(0, dtype=np.uint64) if self.ids is None else unpacked_hashes(self.ids)

    @cached_property
    def outcomes(self) -> Hashes:
        """Of each of these ids, a hash of its arm and outcome."""
        found = np.zeros(0) if self.codes is None else unpacked_numbers(self.codes)
        return found.astype(np.uint64)

    def payload(self) -> Plain:
        """The results as JSON has them; `from_payload` brings back the same bits."""
        more = {
            "scatter": None if self.scatter is None else packed_numbers(self.scatter),
            "lots": None if self.lots is None else _lots(self.lots, len(self.counts)),
            "law": self.law,
            "sigma": self.sigma,
            "tables": self.tables or None,
            "limits": None if self.limits is None else list(self.limits),
            "paired": self.paired or None,
            "missing": None if self.missing is None else packed_numbers(self.missing),
            "why": self.why,
            "skipped": self.skipped or None,
            "contradicted": None if self.contradicted is None else self.contradicted.payload(),
            "ids": self.ids,
            "codes": self.codes,
            "start": None if self.start is None else list(self.start),
            "sketches": {title: each.payload() for title, each in self.sketches.items()} or None,
            "together": self.together or None,
            "times": None if self.times is None else list(self.times),
            "notes": list(self.notes) or None,
        }
        return {
            "name": self.name,
            "digest": self.digest,
            "form": self.form,
            "rows": self.rows,
            "counts": packed_numbers(self.counts),
            "totals": packed_numbers(self.totals),
            "parts": self.parts,
            "seed": self.seed,
            **{key: each for key, each in more.items() if each is not None},
        }

    @classmethod
    def from_payload(cls, payload: Plain) -> Results:
        """The results that `payload` was made of."""
        try:
            counts = unpacked_numbers(payload["counts"])
            start, times, against, limits = (payload.get(each) for each in ("start", "times", "contradicted", "limits"))
            found = cls(
                **{name: payload[name] for name in ("name", "digest", "form", "rows", "parts", "seed")},
                counts=counts,
                totals=unpacked_numbers(payload["totals"]),
                scatter=_maybe(payload, "scatter"),
                lots=None if payload.get("lots") is None else _from_lots(payload["lots"]),
                law=payload.get("law"),
                sigma=None if payload.get("sigma") is None else float(payload["sigma"]),
                tables=bool(payload.get("tables", False)),
                limits=None if limits is None else (float(limits[0]), float(limits[1])),
                paired=bool(payload.get("paired", False)),
                missing=_maybe(payload, "missing"),
                why=payload.get("why"),
                skipped=payload.get("skipped", 0),
                contradicted=None if against is None else Contradicted.from_payload(against),
                ids=payload.get("ids"),
                codes=payload.get("codes"),
                start=None if start is None else Start(int(start[0]), str(start[1])),
                sketches=sketches_from(payload["sketches"]) if "sketches" in payload else {},
                together=bool(payload.get("together", False)),
                times=None if times is None else (str(times[0]), str(times[1])),
                notes=tuple(payload.get("notes", ())),
            )
            _check(found)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise DataError(f"These are not results as roundwise records them: {shown(repr(error), 200)}.") from None
        return found


def _check(found: Results) -> None:
    """Raise a ValueError if numbers contradict each other: such a record was damaged, or made up."""
    if found.form not in ("rows", "sums", "successes") or found.law not in (None, "binary", "poisson", "normal"):
        raise ValueError("a form that is not known")
    if (found.law == "normal") != (found.sigma is not None and 0 < found.sigma < np.inf):
        raise ValueError("a deviation of what is not normal, or none")
    if (
        not isinstance(found.parts, int)
        or not 1 <= found.parts <= 255
        or not isinstance(found.seed, int)
        or found.seed < 0
    ):
        raise ValueError("parts or seed")
    if not all(isinstance(each, str) for each in (found.name, found.digest, *found.notes)):
        raise ValueError("names or notes that are no text")
    size = len(found.counts)
    for name, least in (("counts", 0.0), ("totals", -np.inf), ("scatter", 0.0), ("missing", 0.0)):
        each = getattr(found, name)
        if each is None:
            continue
        if each.shape != (size,) or not np.isfinite(each).all() or (each < least).any():
            raise ValueError(name)
        if name in ("counts", "missing") and (each != np.floor(each)).any():
            raise ValueError(f"{name} that are not whole numbers")
    if found.codes is not None and len(found.outcomes) != len(found.hashes):
        raise ValueError("ids that are not as many as what is known of them")
    lots = found.lots
    if lots is not None and found.tables and not lots.of_rows:
        raise ValueError("lots in place of rows")
    if lots is not None and found.limits is not None and lots.totals.size:
        low, high = found.limits
        if not (np.isfinite([low, high]).all() and low <= lots.totals.min() and lots.totals.max() <= high):
            raise ValueError("values beyond their limits")
    if lots is not None and not np.array_equal(np.bincount(lots.arms, lots.counts, minlength=size), found.counts):
        raise ValueError("rows that are not as many as was counted")


def _maybe(payload: Plain, name: str) -> Floats | None:
    return None if payload.get(name) is None else unpacked_numbers(payload[name])


def _lots(lots: Lots, size: int) -> Plain:
    rows = lots.of_rows
    found: Plain = {
        "width": lots.width,
        "sizes": packed_numbers(np.bincount(lots.arms, minlength=size).astype(np.float64)),
        "totals": packed_numbers(lots.totals),
    }
    if not rows:
        found |= {"counts": packed_numbers(lots.counts), "scatter": packed_numbers(lots.scatter)}
    if lots.items is not None:
        items, which = np.unique(lots.items, return_inverse=True)
        found |= {"items": packed_hashes(items), "item": packed_numbers(which.astype(np.float64))}
    return found


def _from_lots(payload: Plain) -> Lots:
    sizes, totals = unpacked_numbers(payload["sizes"]).astype(np.int64), unpacked_numbers(payload["totals"])
    if (sizes < 0).any() or int(sizes.sum()) != len(totals):
        raise ValueError("rows that are not as many as was counted")
    counts = _maybe(payload, "counts")
    items = None
    if payload.get("items") is not None:
        items = unpacked_hashes(payload["items"])[unpacked_numbers(payload["item"]).astype(np.int64)]
    lots = Lots(
        np.repeat(np.arange(len(sizes)), sizes),
        np.ones(len(totals)) if counts is None else counts,
        totals,
        np.zeros(len(totals)) if counts is None else unpacked_numbers(payload["scatter"]),
        int(payload["width"]),
        items,
    )
    same = {len(each) for each in (lots.counts, lots.totals, lots.scatter)}
    if same != {len(totals)} or (items is not None and len(items) != len(totals)) or (lots.counts < 0).any():
        raise ValueError("rows whose numbers do not match")
    if lots.width < 1 or lots.width & (lots.width - 1):
        raise ValueError("a number of lots that is no power of 2")
    return lots
