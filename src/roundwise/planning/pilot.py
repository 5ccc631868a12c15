"""Estimates from past results: baseline, spread, skewness, missing share, traffic, and a noise model.

The model follows the question tree of docs/which-model.md, as far as a file can answer it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError
from roundwise.ingest import Repeats
from roundwise.ingest.past import read_past
from roundwise.ingest.reading import Columns, Reading
from roundwise.ingest.row_checks import FIRST, RowCounter, RowStatistics, check_once, contradicted_assumptions
from roundwise.messages import Remedy
from roundwise.noise import Binary, Capped, LargeSample, Noise, Normal, Poisson

FEWEST = 20  # results from which anything is taken
LARGE_COUNTS = 20.0  # means from which counts are nearly normal
QUANTILES = (0.999, 0.9999)  # caps that are looked at


class PilotMoments(NamedTuple):
    """The results of a pilot under a noise model: as they are, or with its cap."""

    mean: float
    deviation: float
    skewness: float
    cut: float  # share of the total that the cap removes


@dataclass(frozen=True, kw_only=True, eq=False)
class Pilot:
    """The results of a past file: of the control where there are enough of it, else all, about the mean of each arm."""

    file: str
    results: int  # in the file, of all arms
    missing: float  # share of them that is not there
    days: float | None  # that the file covers
    of_control: bool
    ratio: bool  # whether results are ratios of two columns
    values: Floats  # (n), without those that are missing; of ratios, linearized
    arms: NDArray[np.intp]  # (n), the arm of each; all of one where the file has no arms of the study
    names: tuple[str, ...]  # of these arms
    repeats: Repeats | None  # of a column that looks like an identifier, and was not said to be one

    @property
    def per_day(self) -> float | None:
        """Results of all arms together."""
        return None if self.days is None else self.results / self.days

    def spread(self, noise: Noise) -> PilotMoments:
        """Mean, deviation and skewness under a noise model, and what its cap removes."""
        low, high, clip = noise.outcome.low, noise.outcome.high, noise.outcome.clip
        values = np.clip(self.values, low, high) if clip else self.values
        off = self._about_own_means(values)
        deviation = math.sqrt(float((off**2).sum()) / max(len(off) - len(np.unique(self.arms)), 1))
        skewness = float((off**3).mean() / (off**2).mean() ** 1.5) if deviation > 0 else 0.0
        total = float(np.abs(self.values).sum())
        cut = float(np.abs(self.values - values).sum()) / total if total else 0.0
        return PilotMoments(float(values.mean()), deviation, skewness, cut)

    def doubt(self, noise: Noise) -> str | None:
        """Evidence in these results against a noise model, as a clause; None if there is none.

        Nor is there any against deviations of the study's arms: those of a past file may be others.
        """
        if noise.arm_sigmas is not None:
            return None
        found = contradicted_assumptions(check_once(noise, *self._statistics))
        return str(found[0]) if found else None

    def _about_own_means(self, values: Floats) -> Floats:
        """How far each value is from the mean of its arm: arms that differ do not add to the spread. (n)"""
        means = np.bincount(self.arms, weights=values) / np.maximum(np.bincount(self.arms), 1)
        return np.asarray(values - means[self.arms])

    @cached_property
    def _statistics(self) -> tuple[RowStatistics, list[str]]:
        """The statistics that are checked, arm by arm; of few rows of each, all together about their means."""
        if np.bincount(self.arms).max() >= FIRST:
            return _statistics_of(self.values, self.arms, len(self.names)), list(self.names)
        together = np.zeros_like(self.arms)
        moments = _statistics_of(self._about_own_means(self.values) + self.values.mean(), together, 1).moments
        return RowStatistics(moments, _statistics_of(self.values, together, 1).repetition), [self.file]

    @cached_property
    def proposed(self) -> tuple[Noise, str]:
        """The noise model that the question tree leads to, and why."""
        values = self.values
        if self.ratio:
            return LargeSample(), "how much a ratio varies is taken from earlier results"
        if np.isin(values, (0.0, 1.0)).all():
            return Binary(), "every result is 0 or 1"
        counts = bool((values >= 0).all() and (values == np.floor(values)).all())
        if counts and self.doubt(Poisson()) is None:
            return Poisson(), "results are counts that vary no more than Poisson counts"
        if (counts and values.mean() < LARGE_COUNTS) or self.doubt(Normal()) is not None:
            return LargeSample(), f"results are not bell-shaped (skewness {self.spread(LargeSample()).skewness:.1f})"
        return Normal(), "results look bell-shaped"

    def caps(self) -> list[Capped]:
        """Caps worth a look: at two high quantiles of the results, to two digits; nothing below 0 is cut.

        None of ratios: what is linearized is no value that a user has.
        """
        if self.ratio:
            return []
        floor = min(float(self.values.min()), 0.0)
        found = {float(f"{each:.2g}") for each in np.quantile(self.values, QUANTILES)}
        return [Capped(each, floor) for each in sorted(found) if self.values.mean() < each < self.values.max()]

    def plain(self, noise: Noise) -> Plain:
        """The estimates from the file under this noise model, as JSON."""
        about = {"file": self.file, "results": self.results, "of_control": self.of_control, "missing": self.missing}
        proposed, why = self.proposed
        about |= {"days": self.days, "per_day": self.per_day} | self.spread(noise)._asdict()
        return about | {"proposed": proposed.name, "why": why, "doubt": self.doubt(noise)}


def _statistics_of(values: Floats, arms: NDArray[np.intp], number: int) -> RowStatistics:
    """The row statistics of the results of so many arms."""
    counts = np.bincount(arms, minlength=number)
    counter = RowCounter(
        counts.astype(np.float64), np.bincount(arms, weights=values, minlength=number).astype(np.float64)
    )
    order = np.argsort(arms, kind="stable")
    places = np.empty_like(arms)
    places[order] = np.arange(len(arms)) - np.repeat(np.cumsum(counts) - counts, counts)
    counter.add(arms, values, places)
    return counter.statistics()


def read_pilot(
    source: object, arms: Sequence[str], control: int, columns: Columns, reading: Reading, noise: Noise | None
) -> Pilot:
    """Read a past file by the rules of the study that is planned.

    Args:
        source: A file or a data frame, with or without a column of arms.
        arms: The arms of the study.
        control: The place of the one whose results are the baseline, if the file has enough of them.
        columns: Names of its columns; with a denominator, results are ratios.
        reading: Rules by which its rows become results.
        noise: The noise model of the study, whose cap is applied; None if it is to be proposed.

    Raises:
        DataError: If the file cannot be read, has too few results, or has some that the model rules out.
    """
    past = read_past(source, arms, columns, reading.of_columns(columns))
    own = past.arms == control
    of_control = int(own.sum()) >= FEWEST
    values, which = (past.values[own], past.arms[own]) if of_control else (past.values, past.arms)
    found, which = np.unique(which, return_inverse=True)
    names = [*map(str, arms), "other arms"] if len(found) > 1 else [past.file] * (len(arms) + 1)
    if len(values) < FEWEST:
        raise DataError(f"{past.file} has {len(values)} results: too few to plan with. Give at least {FEWEST}.")
    if noise is not None and not noise.outcome.clip:
        low, high, whole, *_ = noise.outcome
        wrong = values[(values < low) | (values > high) | (whole & (values != np.floor(values)))]
        if wrong.size:
            raise DataError(
                f"{past.file}: the result {wrong[0]:g} is impossible under the noise model '{noise.name}'.",
                Remedy("Correct it; or leave the noise model out, and the plan proposes one."),
            )
    results = len(past.values) + past.missing
    return Pilot(
        file=past.file,
        results=results,
        missing=past.missing / results,
        days=past.days,
        of_control=of_control,
        ratio=columns.denominator is not None,
        values=values,
        arms=which.astype(np.intp),
        names=tuple(names[i] for i in found),
        repeats=past.repeats,
    )
