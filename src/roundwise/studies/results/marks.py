"""How ids, rows and data frames are known again: keyed hashes, so that no old file is needed and no id is kept.

64 bits are enough: among a million ids two different ones collide with probability 3e-8, and a row is then skipped.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

import numpy as np

from roundwise.arrays import Floats
from roundwise.dealing import mixed
from roundwise.studies.results.cells import name_in
from roundwise.studies.results.lots import Chunks
from roundwise.studies.results.names import Index
from roundwise.studies.results.packing import Hashes

_ROW = np.dtype([("arm", "<u8"), ("value", "<f8")])


def key_of(seed: int) -> bytes:
    """The key of a study's hashes."""
    return (seed % 2**64).to_bytes(8, "little")


def hashes(cells: Iterable[object], seed: int) -> Hashes:
    """A 64-bit hash of each cell, read as a name: 3, 3.0 and '3' are the same."""
    key, blake = key_of(seed), hashlib.blake2b
    names = (cell.strip() if type(cell) is str else name_in(cell) for cell in cells)
    joined = b"".join(blake(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def with_arm(items: Hashes, arms: Index) -> Hashes:
    """The hash of an item together with the arm that was tried on it."""
    return mixed(items ^ mixed(arms.astype(np.uint64)))


def outcome_codes(names: Sequence[str], arms: Index, values: Floats, seed: int) -> Hashes:
    """A 32-bit hash of each row's arm, by its name, and value, to seven digits; nan is a value, too."""
    with np.errstate(over="ignore"):
        small = np.where(np.isnan(values), np.nan, values).astype(np.float32) + np.float32(0.0)  # one nan, no -0
    codes = hashes(names, seed)[arms] ^ mixed(small.view(np.uint32).astype(np.uint64))
    return codes >> np.uint64(32)


def marks(rows: Chunks, sizes: Sequence[int], arms: Sequence[str], seed: int) -> dict[int, str]:
    """The marks of the first rows, for each of the sizes that there are rows for; by the names of the arms."""
    codes = hashes(arms, seed)
    running = hashlib.blake2b(digest_size=8, key=key_of(seed))
    found: dict[int, str] = {}
    at, wanted = 0, iter(sorted(set(sizes)))
    size = next(wanted, None)
    for index, values, _ in rows:
        packed = np.empty(len(index), dtype=_ROW)
        packed["arm"], packed["value"] = codes[index], values + 0.0
        start = 0
        while size is not None and size <= at + len(packed):
            running.update(packed[start : size - at].tobytes())
            start = size - at
            found[size] = running.hexdigest()
            size = next(wanted, None)
        if size is None:
            break
        running.update(packed[start:].tobytes())
        at += len(packed)
    return found


def surprising(counts: Floats, totals: Floats, zero_one: bool) -> bool:
    """Whether other rows would hardly be the same: once in a thousand times if they are 0 and 1 in any order."""
    if not zero_one:
        return bool(counts.sum() >= 3)
    some = counts > 0
    rates = totals[some] / counts[some]
    bits = sum(
        -count * share * math.log2(share)
        for count, rate in zip(counts[some].tolist(), rates.tolist(), strict=True)
        for share in (rate, 1.0 - rate)
        if share > 0
    )
    return bits > math.log2(1000)


class Contents:
    """The digest of a data frame: of the arms, numbers and ids in it, whatever its other columns and types."""

    def __init__(self, form: str) -> None:
        self._names, self._numbers = hashlib.sha256(), [hashlib.sha256() for _ in range(4)]
        self._form = form

    def add(self, names: Sequence[str], *numbers: Floats | Hashes | None) -> None:
        """Lines in their order."""
        self._names.update(
            b"".join(len(name).to_bytes(4, "little") + name.encode("utf-8", "surrogatepass") for name in names)
        )
        for digest, column in zip(self._numbers, numbers, strict=True):
            if column is not None:
                whole = column.dtype.kind == "u"
                digest.update(column.astype("<u8").tobytes() if whole else (column + 0.0).astype("<f8").tobytes())

    def hex(self) -> str:
        """Of everything added."""
        every = [self._form.encode(), self._names.digest(), *(digest.digest() for digest in self._numbers)]
        return hashlib.sha256(b"".join(every)).hexdigest()
