"""The finite list of items that a study is about, and the random order in which they are tried (docs/lists.md)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Floats, Hashes, Plain
from roundwise.errors import DataError, InputError
from roundwise.formats.sheet import name_in
from roundwise.formats.small_table import TableRow, read_rows
from roundwise.ingest.columns import Index
from roundwise.ingest.duplicates import hash_ids
from roundwise.ingest.record import Results
from roundwise.messages import Remedy, count, quoted
from roundwise.model.problem import check_whole_number
from roundwise.noise.base import Noise
from roundwise.rules.finite.known import KnownColumns

Order = Literal["random", "given"]
REPEAT = "#"  # between an item and the number of the repeat
LARGEST = 1_000_000  # entries of a list: each of them is kept with the study


@dataclass(frozen=True)
class ItemList:
    """The items of a finite list, each of which every arm is tried on once, or `repeats` times.

    Args:
        items: Their ids, all different.
        repeats: How often every arm is tried on every item.
        order: "random", drawn from the seed of the study, or "given", that of the list.
        strict: Whether the answer must be ahead of every other arm, at half of delta for each.
        known: Columns that are known of all items, by name, in the order of the items: results of arms, which are not
            asked for, and scores. They make bets surer (docs/lists.md).
        digest: Of the order of the entries, once the study has a seed.

    >>> ItemList(("q1", "q2"), repeats=2).entries
    ('q1#1', 'q1#2', 'q2#1', 'q2#2')
    """

    items: tuple[str, ...]
    repeats: int = 1
    order: Order = "random"
    strict: bool = False
    known: Mapping[str, Sequence[float]] = field(default_factory=dict, hash=False)
    digest: str = ""

    def __post_init__(self) -> None:
        items = tuple(name_in(each) for each in self.items)
        object.__setattr__(self, "items", items)
        check_whole_number("repeats", self.repeats, 1)
        if not items:
            raise InputError("The list of items is empty. Give at least one item.")
        _check_size(len(items) * self.repeats)
        if not all(items):
            raise InputError(f"Item {items.index('') + 1} of the list has no id. Give every item a unique id.")
        if self.order not in ("random", "given"):
            raise InputError(f"The order of the list is {self.order!r}, but must be random or given.")
        if len(set(hash_ids(items, 0).tolist())) < len(items):
            twice = Counter(items).most_common(1)[0][0]
            raise InputError(f"The item {quoted(twice)} is on the list twice. Give every item once.")
        known = {name_in(name): tuple(map(float, values)) for name, values in dict(self.known).items()}
        object.__setattr__(self, "known", known)
        for name, values in known.items():
            if len(values) != len(items) or not np.isfinite(values).all():
                raise InputError(f"The known column {quoted(name)} needs a number for each of the {len(items)} items.")

    @classmethod
    def parse(cls, value: Any) -> ItemList:
        """The list that a person gives: ids, their number, a file, JSON, or an ItemList."""
        if is_dataclass(value):
            return value  # type: ignore[return-value]
        if isinstance(value, bool):
            raise InputError(f"The list of items is {value}, but must be a number, a file or a list of ids.")
        if isinstance(value, int):
            return cls(numbered_items(value))
        if isinstance(value, str | Path):
            return cls(read_list(Path(value)))
        if isinstance(value, Mapping):
            fields = {key: each for key, each in value.items() if each is not None}
            if "size" in fields:
                fields["items"] = numbered_items(fields.pop("size"))
            try:
                return cls(**fields | {"items": tuple(fields["items"])})
            except (KeyError, TypeError):
                raise InputError(
                    "A list of items needs `items` or `size`; it may have repeats, order, strict, known."
                ) from None
        if isinstance(value, Iterable):
            return cls(tuple(value))
        raise InputError(f"The list of items cannot be made of a {type(value).__name__}.")

    def to_json(self) -> Plain:
        """The list as JSON."""
        numbered = self.items == numbered_items(len(self.items))
        found: Plain = {"size": len(self.items)} if numbered else {"items": list(self.items)}
        rest = {"repeats": self.repeats, "order": self.order, "strict": self.strict, "digest": self.digest}
        found |= {key: value for key, value in rest.items() if value != getattr(ItemList, key)}
        return found | ({"known": {name: list(each) for name, each in self.known.items()}} if self.known else {})

    @property
    def words(self) -> str:
        """What a study of the list assumes."""
        given = "that of the file, taken to be unrelated to the results"
        order = given if self.order == "given" else "random, drawn before any result was known"
        tried = f"The order in which the items of the list are tried is {order}"
        return f"{tried}; what an arm gives on an item does not depend on that order."

    @property
    def flags(self) -> list[str]:
        """The options of a command that make the list; FILE where its ids are not numbers."""
        numbered = self.items == numbered_items(len(self.items))
        found = ["--list-size", str(len(self.items))] if numbered else ["--list", "FILE"]
        found += ["--repeats", str(self.repeats)] if self.repeats > 1 else []
        found += ["--order", self.order] if self.order != "random" else []
        found += ["--known", "FILE"] if self.known else []
        return [*found, *(["--strict"] if self.strict else [])]

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries that an arm is tried on, in order: the items, or every repeat of every item."""
        if self.repeats == 1:
            return self.items
        return tuple(f"{item}{REPEAT}{k}" for item in self.items for k in range(1, self.repeats + 1))

    def __len__(self) -> int:
        return len(self.items) * self.repeats

    def hashes(self, seed: int) -> Hashes:
        """Of the entries, by which rows are known."""
        return _hashes(self.entries, seed)

    def places(self, seed: int) -> NDArray[np.intp]:
        """Which entry is at each place of the order."""
        if self.order == "given":
            return np.arange(len(self))
        return np.argsort(self.hashes(seed), kind="stable")

    def ordered(self, seed: int) -> tuple[str, ...]:
        """The entries in the order in which they are tried."""
        entries = self.entries
        return tuple(entries[k] for k in self.places(seed))

    @cached_property
    def items_digest(self) -> str:
        """Of the items, whatever their order and repeats: by which another study of the same list is noticed."""
        return hashlib.sha256("\n".join(sorted(self.items)).encode()).hexdigest()[:16]

    def order_digest(self, seed: int) -> str:
        """SHA-256 of the entries in their order, so that an audit knows it again."""
        return hashlib.sha256("\n".join(self.ordered(seed)).encode()).hexdigest()

    def rows(self, files: Sequence[Results], arms: int, seed: int) -> Floats:
        """The recorded results by place: nan where there is none, inf where a request was given up. (n, K)"""
        found = np.full((len(self), arms), np.nan)
        known = self.hashes(seed)[self.places(seed)]
        order = np.argsort(known)

        def fill(items: Hashes, of: Index, values: ArrayLike) -> None:
            at = order[np.minimum(np.searchsorted(known[order], items), len(known) - 1)]
            if not np.array_equal(known[at], items):
                raise ValueError("items that are not on the list")
            found[at, of] = values

        for each in files:
            if each.strata is not None and each.strata.items is not None:
                fill(each.strata.items, each.strata.arms, each.strata.totals)
            if each.failed is not None:
                fill(each.failed.items, each.failed.arms, np.inf)
        some = np.flatnonzero((~np.isnan(found)).any(axis=-1))
        return found[: int(some[-1]) + 1 if some.size else 0]

    def cells(self, known: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """The cells of every entry, from those of the items; an InputError where one has none."""
        lacking = next((item for item in self.items if item not in known), None)
        if lacking is not None:
            raise InputError(
                f"The item {quoted(lacking)} of the list is not in this table. Give one row for each item."
            )
        return {entry: known[item] for entry, item in self.item_of.items()}

    @cached_property
    def item_of(self) -> dict[str, str]:
        """The item of each entry."""
        every = (item for item in self.items for _ in range(self.repeats))
        return dict(zip(self.entries, every, strict=True))

    def known_arms(self, arms: Sequence[str]) -> tuple[int, ...]:
        """The arms whose results are known."""
        return tuple(i for i, arm in enumerate(arms) if arm in self.known)

    def known_columns(self, arms: Sequence[str], noise: Noise, flips: bool, seed: int) -> KnownColumns | None:
        """The known columns by place, as bets use them: results of arms, and one score of the items."""
        if not self.known:
            return None
        of_arms, (low, high) = self.known_arms(arms), noise.mean_range
        if len(of_arms) == len(arms):
            raise InputError("The results of all arms are known: there is nothing to ask. Leave out one.")
        columns = np.array([self.known[arms[i]] for i in of_arms]).reshape(len(of_arms), len(self.items))
        if columns.size and (columns.min() < low or columns.max() > high):
            raise InputError(f"Known results of arms must lie between {low:g} and {high:g}, as all results do.")
        scaled = (columns - low) / (high - low)
        every = np.array(list(self.known.values()))
        spread = np.ptp(every, axis=1, keepdims=True)
        score = ((every - every.min(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)).mean(axis=0)
        values = np.stack([*(1.0 - scaled if flips else scaled), score], axis=1)
        return KnownColumns.of(np.repeat(values, self.repeats, axis=0)[self.places(seed)], of_arms)

    def check_noise(self, noise: Noise) -> None:
        """Raise an InputError unless results lie in a range."""
        low, high = noise.mean_range
        if not (noise.outcome.limited and np.isfinite([low, high]).all()) or noise.outcome.clip:
            raise InputError(
                f"A list needs 0/1 results, or results in a range; this study has '{noise.name}'.",
                Remedy("Use {@binary}, or {@range}.", low=0, high=1),
            )


@lru_cache(maxsize=16)
def _hashes(entries: tuple[str, ...], seed: int) -> Hashes:
    return hash_ids(entries, seed)


def numbered_items(size: object) -> tuple[str, ...]:
    """The items 0, 1, ... of a list that is given by its size."""
    return tuple(map(str, range(_check_size(check_whole_number("size", size, 1)))))


def _check_size(entries: int) -> int:
    """The number of entries; an InputError where no study keeps as many."""
    if entries > LARGEST:
        raise InputError(f"A list has at most {count(LARGEST)} items, repeats included; this one would have {entries}.")
    return entries


def read_list(path: Path, column: str = "item") -> tuple[str, ...]:
    """The ids of the items in a table, one row per item."""
    column, _, rows = rows_of_items(path, column)
    found: dict[str, int] = {}
    for row in rows:
        item = row.text(column)
        if not item or item in found:
            wrong = f"the item {quoted(item)} is there twice" if item else "there is no item"
            raise DataError(f"{row.where}: {wrong}. Give every item one row, with an id.")
        found[item] = row.line
    if not found:
        raise DataError(f"{path} has no items. Give one row per item.")
    return tuple(found)


def read_known(path: Path, items: Sequence[str], column: str = "item") -> dict[str, list[float]]:
    """The columns of a table with a row for each item, but for that of the items: all of them numbers."""
    column, names, rows = rows_of_items(path, column)
    by_item = {row.text(column): row for row in rows}
    lacking = next((item for item in items if item not in by_item), None)
    if lacking is not None:
        raise DataError(f"{path} has no row for the item {quoted(lacking)}. Give one row for each item of the list.")
    return {name: [by_item[item].number(name) for item in items] for name in names if name != column}


def rows_of_items(path: Path, column: str) -> tuple[str, list[str], list[TableRow]]:
    """The column of the items, all columns and the rows; `item` if `column` is one of result files, or a path."""
    names, rows = read_rows(path, [])
    if column not in names:
        column, other = "item", column
        if column not in names:
            raise DataError(f"{path}: no column {quoted(other)}. The table needs {other}.")
    return column, names, rows
