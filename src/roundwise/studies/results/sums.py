"""Counts, totals and scatter, added line by line in the order of the file, whatever the pieces it is read in."""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Floats
from roundwise.studies.results.names import Index


class Sums:
    """Sums of lines for `size` arms. A line stands for `counts` results with their total and their own spread.

    Every addition is made in the order of the lines (`np.add.at`), so the bits do not depend on how a file is cut up.
    Spreads are taken about the first mean of each arm, so that a large common value does not eat the digits.
    """

    def __init__(self, size: int) -> None:
        self.counts, self.totals, self.within = np.zeros(size), np.zeros(size), np.zeros(size)
        self._origin = np.zeros(size)
        self._off, self._off_squared = np.zeros(size), np.zeros(size)

    def add(self, arms: Index, counts: Floats, totals: Floats, scatter: Floats | None = None) -> None:
        """Add lines; those without results say nothing."""
        some = counts > 0
        if not some.all():
            arms, counts, totals = arms[some], counts[some], totals[some]
            scatter = None if scatter is None else scatter[some]
        means = totals / counts
        new = self.counts[arms] == 0
        if new.any():  # in reverse, so that of several lines of one arm the first stays
            self._origin[arms[new][::-1]] = means[new][::-1]
        off = means - self._origin[arms]
        np.add.at(self.counts, arms, counts)
        np.add.at(self.totals, arms, totals)
        np.add.at(self._off, arms, counts * off)
        np.add.at(self._off_squared, arms, counts * off * off)
        if scatter is not None:
            np.add.at(self.within, arms, scatter)

    @property
    def scatter(self) -> Floats:
        """sum (x - mean)^2 within each arm."""
        between = self._off_squared - self._off**2 / np.maximum(self.counts, 1.0)
        return self.within + np.maximum(between, 0.0)
