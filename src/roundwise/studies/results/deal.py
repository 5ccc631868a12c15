"""The rows of a first batch, dealt into parts by a rule that has nothing to do with their values.

Each part is bet on with what the parts before it showed, so parts must be independent: that needs an order unrelated to
the values (docs/why-the-guarantee-holds.md, "The first batch, in chunks"), and files often come sorted. A row therefore
draws a number from the seed, its arm and its place among the arm's rows.

- A file that is the whole batch: the parts are the quarters (for four) of the arm's numbers, which is a uniformly
  random permutation of the arm's rows, cut evenly.
- One of several files: the number is also drawn from the number of the file in the study, and the part is the quarter
  of all numbers that it falls in. So every row draws its part by itself, whatever the order of the rows and the way
  they were cut into files; the sizes of the parts are random, but have nothing to do with the values.

Anything that makes the parts of one of several files more alike than that voids the guarantee, because the parts then
repeat each other: the same permutation for every file, but also another one for each, if a sorted list was cut into
files (each part would have its share of the lowest, of the next, and so on); and dealing neighbours to different parts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.studies.results.told import Labels

Index = NDArray[np.int64]
Keys = NDArray[np.uint64]

EXACT = 1 << 20  # up to so many rows the sizes of an arm's parts differ by at most 1; beyond, by about sqrt(rows)
_IN_MEMORY = 64 << 20  # bytes of rows kept in memory before they go to a temporary file


def keys(seed: int, arms: Index, places: Index, file: int = 0) -> Keys:
    """The number drawn by each row: the finaliser of SplitMix64 over seed, file, arm and place; the same everywhere."""
    state = _mixed(np.full(1, seed % 2**64, dtype=np.uint64))
    if file:
        state = _mixed(state + np.uint64(file))
    state = _mixed(state ^ arms.astype(np.uint64))
    return _mixed(state + places.astype(np.uint64))


def cuts(seed: int, counts: Floats, parts: int, file: int = 0) -> Keys:
    """Where the numbers of each arm are cut into parts, (K, parts - 1): evenly over its rows, or over all numbers."""
    even = [(2**64 * part) // parts for part in range(1, parts)]
    found = np.tile(np.array(even, dtype=np.uint64), (len(counts), 1))
    if file:
        return found
    sizes = counts.astype(np.int64)
    order = np.argsort(sizes, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        size = int(sizes[group[0]])
        if not 0 < size <= EXACT:
            continue
        ranks = [size * part // parts for part in range(1, parts)]
        step = max(EXACT // size, 1)
        for start in range(0, len(group), step):
            arms = group[start : start + step]
            drawn = np.sort(keys(seed, arms[:, None], np.arange(size)[None, :]), axis=-1)
            found[arms] = drawn[:, ranks]
    return found


def labels(seed: int, cut: Keys, arms: Index, seen: Index, file: int = 0) -> Labels:
    """The part of each row; `seen`, how many rows each arm had before these, is brought up to date."""
    order = np.argsort(arms, kind="stable")
    sorted_arms = arms[order]
    starts = np.flatnonzero(np.diff(sorted_arms, prepend=-1))
    sizes = np.diff(starts, append=len(arms))
    places = np.empty(len(arms), dtype=np.int64)
    places[order] = np.arange(len(arms)) - np.repeat(starts, sizes)
    places += seen[arms]
    seen[sorted_arms[starts]] += sizes
    drawn = keys(seed, arms, places, file)
    part = np.zeros(len(arms), dtype=np.uint8)
    for column in range(cut.shape[1]):
        part += drawn >= cut[arms, column]
    return part


def _mixed(state: Keys) -> Keys:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


class Spool:
    """Rows put aside to be gone through once more: few in memory, many in a temporary file."""

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by `close`
        self._sizes: list[int] = []

    def put(self, arms: Index, values: Floats) -> None:
        """Append rows."""
        self._file.write(arms.tobytes())
        self._file.write(values.tobytes())
        self._sizes.append(len(arms))

    def __iter__(self) -> Iterator[tuple[Index, Floats]]:
        self._file.seek(0)
        for size in self._sizes:
            arms = np.frombuffer(self._file.read(8 * size), dtype=np.int64)
            yield arms, np.frombuffer(self._file.read(8 * size), dtype=np.float64)

    def close(self) -> None:
        """Give memory and file back."""
        self._file.close()
