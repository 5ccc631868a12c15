"""Estimates from past results: baseline, spread, skewness, missing share, traffic, and a noise model.

The model follows the question tree of docs/which-model.md, as far as a file can answer it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError
from roundwise.ingest.past import read_past
from roundwise.ingest.reading import Columns, Reading
from roundwise.ingest.row_checks import RowCounter, RowStatistics, check_once, contradicted_assumptions
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
    """The results of a past file: of the control where it is among them, else all."""

    file: str
    results: int  # in the file, of all arms
    missing: float  # share of them that is not there
    days: float | None  # that the file covers
    of_control: bool
    ratio: bool  # whether results are ratios of two columns
    values: Floats  # (n), without those that are missing; of ratios, linearized

    @property
    def per_day(self) -> float | None:
        """Results of all arms together."""
        return None if self.days is None else self.results / self.days

    def spread(self, noise: Noise) -> PilotMoments:
        """Mean, deviation and skewness under a noise model, and what its cap removes."""
        low, high, clip = noise.outcome.low, noise.outcome.high, noise.outcome.clip
        values = np.clip(self.values, low, high) if clip else self.values
        off, deviation = values - values.mean(), float(values.std(ddof=1))
        skewness = float((off**3).mean() / (off**2).mean() ** 1.5) if deviation > 0 else 0.0
        total = float(np.abs(self.values).sum())
        cut = float(np.abs(self.values - values).sum()) / total if total else 0.0
        return PilotMoments(float(values.mean()), deviation, skewness, cut)

    def doubt(self, noise: Noise) -> str | None:
        """Evidence in these results against a noise model, as a clause; None if there is none."""
        found = contradicted_assumptions(check_once(noise, self._statistics, [self.file]))
        return str(found[0]) if found else None

    @cached_property
    def _statistics(self) -> RowStatistics:
        n = len(self.values)
        counter = RowCounter(np.array([float(n)]), np.array([self.values.sum()]))
        counter.add(np.zeros(n, dtype=np.int64), self.values, np.arange(n))
        return counter.statistics()

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


def read_pilot(source: object, control: str, columns: Columns, reading: Reading, noise: Noise | None) -> Pilot:
    """Read a past file by the rules of the study that is planned.

    Args:
        source: A file or a data frame, with or without a column of arms.
        control: The arm whose results are the baseline, if the file has it.
        columns: Names of its columns; with a denominator, results are ratios.
        reading: Rules by which its rows become results.
        noise: The noise model of the study, whose cap is applied; None if it is to be proposed.

    Raises:
        DataError: If the file cannot be read, has too few results, or has some that the model rules out.
    """
    past = read_past(source, control, columns, reading.of_columns(columns))
    own = past.of_arm > 0
    of_control = int(own.sum()) >= FEWEST
    values = past.values[own] if of_control else past.values
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
    )
