"""Results adjusted for a covariate that was known before the study (CUPED, Deng et al. 2013).

A result y of a unit with covariate x counts as y - slope (x - centre). Slope and centre are the same for all arms and
fixed before the round: by random assignment x has one mean in all arms, so the adjustment shifts all arms of a round
alike, and comparisons of arms within rounds stay what they are, with less noise
(docs/why-the-guarantee-holds.md, Proposition 33).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.ingest.columns import Index

ENOUGH = 20  # rows an arm from which a comparison of mean covariates is nearly chi-squared


class Adjustment(NamedTuple):
    """The adjustment of results: slope times the distance of the covariate from the center."""

    slope: float = 0.0
    centre: float = 0.0

    def adjust(self, results: Floats, covariates: Floats) -> Floats:
        """The adjusted results; those without a covariate stay as they are."""
        return results - np.where(np.isnan(covariates), 0.0, self.slope * (covariates - self.centre))


class CovariateSums(NamedTuple):
    """Means, and sums of squares and products about them, of covariates x and results y of each arm. (K) each"""

    counts: Floats
    x: Floats
    y: Floats  # before adjustment
    xx: Floats
    xy: Floats
    yy: Floats
    adjustment: Adjustment

    @classmethod
    def of(cls, arms: Index, x: Floats, y: Floats, size: int, adjustment: Adjustment) -> CovariateSums:
        """The sums of rows; those without a covariate are ignored."""
        known = ~np.isnan(x)
        arms, x, y = arms[known], x[known], y[known]
        counts = np.bincount(arms, minlength=size).astype(np.float64)
        mean_x, mean_y = (np.bincount(arms, each, size) / np.maximum(counts, 1.0) for each in (x, y))
        x, y = x - mean_x[arms], y - mean_y[arms]
        xx, xy, yy = (np.bincount(arms, each, size).astype(np.float64) for each in (x * x, x * y, y * y))
        return cls(counts, mean_x, mean_y, xx, xy, yy, adjustment)

    def plus(self, other: CovariateSums) -> CovariateSums:
        """The sums of both."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1.0)
        weight, dx, dy = self.counts * share, other.x - self.x, other.y - self.y
        return CovariateSums(
            counts,
            self.x + dx * share,
            self.y + dy * share,
            self.xx + other.xx + weight * dx * dx,
            self.xy + other.xy + weight * dx * dy,
            self.yy + other.yy + weight * dy * dy,
            self.adjustment,
        )


class CovariateSummary(NamedTuple):
    """The covariate over all rounds: sums within arms and rounds, and whether arms agree."""

    rows: float = 0.0
    total: float = 0.0  # of the covariates
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    chi_squared: float = 0.0  # of how far arms lie apart within rounds, by random assignment
    freedom: int = 0

    @quiet
    def plus(self, files: Sequence[CovariateSums]) -> CovariateSummary:
        """With one more round."""
        round = reduce(CovariateSums.plus, files)
        some = round.counts >= ENOUGH
        n, x = round.counts[some], round.x[some]
        variance = round.xx[some].sum() / max(n.sum() - len(n), 1.0)
        square, freedom = self.chi_squared, self.freedom
        if len(n) > 1 and variance > 0:
            square += float((n * (x - (n * x).sum() / n.sum()) ** 2).sum() / variance)
            freedom += len(n) - 1
        xx, xy, yy = (float(each.sum()) for each in (round.xx, round.xy, round.yy))
        rows, total = float(round.counts.sum()), float((round.counts * round.x).sum())
        return CovariateSummary(
            self.rows + rows, self.total + total, self.xx + xx, self.xy + xy, self.yy + yy, square, freedom
        )

    @property
    def adjustment(self) -> Adjustment:
        """The adjustment of the next round: the regression within arms and rounds."""
        slope = self.xy / self.xx if self.xx > 0 else 0.0
        return Adjustment(slope, self.total / self.rows if self.rows else 0.0)

    @property
    def explained(self) -> float:
        """The share of the variance of results that the covariate explains."""
        return self.xy**2 / (self.xx * self.yy) if self.xx > 0 and self.yy > 0 else 0.0
