"""Normal rewards whose known deviation is another one for each arm: Lemma 1 and Proposition 4, arm by arm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, form_values, form_variances
from roundwise.noise.base import Needs, Outcome, Steady
from roundwise.noise.bet_forms import means_of, placed, steady_gaussian_bet
from roundwise.noise.budget_bets import MOST_NEED, drift_horizon_bet, normal_horizon_bet
from roundwise.noise.gaussian import SubGaussian, bridged
from roundwise.noise.mixture import HUGE
from roundwise.noise.parts import ArmPlaces, Index, PartForm, PartsData, Tilt
from roundwise.solvers.families import NormalFamily
from roundwise.solvers.halfspaces import Halfspaces


@dataclass(frozen=True)
class HeteroscedasticGaussian:
    """Normal rewards with known standard deviations, one for each arm, exactly.

    >>> HeteroscedasticGaussian((1.0, 0.5)).sigma  # of all of them at most
    1.0
    """

    sigmas: tuple[float, ...]
    name: ClassVar[str] = "deviations"
    moves: ClassVar[bool] = True  # as for `Gaussian`
    needs: ClassVar[Needs] = "sums"
    outcome: ClassVar[Outcome] = Outcome(normal=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", tuple(float(each) for each in self.sigmas))
        if len(self.sigmas) < 2:
            raise InputError("Give one deviation for each of at least two arms.")
        for each in self.sigmas:
            SubGaussian(each)

    @property
    def sigma(self) -> float:
        """The largest: no tails are heavier."""
        return max(self.sigmas)

    @property
    def words(self) -> str:
        """Normal laws."""
        shown = ", ".join(f"{each:g}" for each in self.sigmas[:6]) + (", ..." if len(self.sigmas) > 6 else "")
        return f"Results are normal with standard deviations {shown}, exactly."

    @property
    def flags(self) -> list[str]:
        """How it is named on the command line."""
        return ["--sigmas", ",".join(f"{each:g}" for each in self.sigmas)]

    @property
    def family(self) -> NormalFamily:
        """The normal laws with these deviations."""
        return NormalFamily(self._sigmas)

    @cached_property
    def _sigmas(self) -> Floats:
        return np.array(self.sigmas)

    def check_arms(self, arms: int) -> None:
        """Raise an InputError unless there is one for each arm."""
        if arms != len(self.sigmas):
            raise InputError(f"There are {arms} arms, but {len(self.sigmas)} deviations: give one each.")

    def variance(self, past: Past) -> Floats:
        """The mean of the variances."""
        return np.full(past.counts.shape[:-1], (self._sigmas**2).mean())

    def variances(self, past: Past) -> Floats:
        """That of each arm."""
        return np.broadcast_to(self._sigmas**2, past.counts.shape)

    def dealt(self, rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
        """Totals of parts given the total of all rows: normal bridges."""
        return bridged(rng, counts, totals, dealings, self._sigmas.reshape(-1, *[1] * (counts.ndim - 2)))

    def tilts(self, seen: PartsData) -> SigmaByArmPartBets:
        """Bets of one size on parts."""
        return SigmaByArmPartBets(seen, self._sigmas**2)

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """On the form of the batch's means (Lemma 1): bounds do not use capped bets."""
        new, variance = self._of(batch, pieces, offset=False)
        error = np.sqrt(variance)
        sizes = drifts * np.sqrt(form_variances(self._sigmas**2 / units, pieces)) / error
        return lambda offsets: steady_gaussian_bet(sizes, new - offsets, error)

    @quiet
    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """The test of the form at the budget, in money (Proposition 14a)."""
        new, variance = self._of(batch, pieces)
        z = np.where(np.isfinite(variance), new / np.sqrt(variance), np.nan)
        exact = placed(partial(normal_horizon_bet, eta=eta), np.where(need < MOST_NEED, need, 0.0), z, need, rho)
        return exact + placed(drift_horizon_bet, np.where(need < MOST_NEED, 0.0, need), z, need, rho)

    def _of(self, batch: Batch, pieces: Halfspaces, offset: bool = True) -> tuple[Floats, Floats]:
        """Each form of the batch's means (less its offset), and its variance. (P), (P)"""
        means, spread = means_of(batch)
        new = form_values(means, pieces)
        return new - pieces.offsets if offset else new, form_variances(self._sigmas**2 * spread, pieces)


@dataclass(frozen=True)
class SigmaByArmPartBets:
    """exp(q D/sqrt v - q^2/2), v the variance of D (Lemma 1)."""

    seen: PartsData
    squares: Floats  # sigma_i^2, (K)

    @cached_property
    def variances(self) -> Floats:
        """Of each arm. (P, K, n)"""
        return np.ascontiguousarray(np.broadcast_to(self.squares[:, None], self.seen.counts.shape))

    @cached_property
    def _spread(self) -> Floats:
        """sigma_i^2 / n_i. (P, K, n)"""
        return self.variances / np.maximum(self.seen.counts, 1e-18)

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """From the difference in each part."""
        first, second = places()
        flat = self._spread.reshape(-1)
        return _tilt(difference, flat.take(first) + flat.take(second))

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """From the distance in each part."""
        return _tilt(distance, self._spread.reshape(-1).take(arm))

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """From the value of any form of the means of each part, less its offset. (P, c)"""
        return _tilt(value, form.squares(self._spread))


def _tilt(value: Floats, variance: Floats) -> Tilt:
    z = np.clip(value / np.sqrt(variance), -HUGE, HUGE)
    return lambda p, q: q * (z[p] - 0.5 * q)
