"""Normal rewards of known standard deviation, and any rewards with tails no heavier: Lemma 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet, sum_rows
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, form_values, form_variances
from roundwise.noise.base import UNTRUE, FixedSizeBet, Noise, Outcome
from roundwise.noise.bets import (
    HUGE,
    bet_where_needed,
    log_factor_of_size,
    means_and_inverse_counts,
)
from roundwise.noise.budget_bets import MOST_NEED, drift_budget_bet, normal_budget_bet
from roundwise.noise.parts import NO_ROWS, Index, LogFactor, PartBets, PartForm, PartsData
from roundwise.solvers.families import NormalFamily
from roundwise.solvers.halfspaces import Halfspaces


def _check_sigma(sigma: float) -> None:
    if not (sigma > 0 and math.isfinite(sigma)):
        raise InputError(f"`sigma` is {sigma:g}, but must be a positive number.")
    if not 1e-100 < sigma < 1e100:
        raise InputError(f"`sigma` is {sigma:g}, but must lie between 1e-100 and 1e100. Use other units.")


@dataclass(frozen=True)
class SubGaussian(Noise):
    """Any rewards that are sigma-sub-Gaussian, as the paper assumes; an upper bound on sigma is enough.

    >>> SubGaussian(2.0).sigma
    2.0
    """

    sigma: float = 1.0
    name: ClassVar[str] = "sub-gaussian"

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    @property
    def flags(self) -> tuple[str, ...]:
        """Its sigma."""
        return "--sigma", f"{self.sigma:g}"

    @property
    def words(self) -> str:
        """Tails."""
        return f"Results have tails no heavier than normal with standard deviation {self.sigma:g}."

    def doubt(self, true: Noise) -> Reason | None:
        """True of every model with a sigma that is no larger."""
        sigma = true.known_sigma
        if sigma is None:
            return UNTRUE
        return None if self.sigma >= sigma else Reason("sigma_too_small")


class _Normal(Noise):
    """Exactly normal rewards, which have exact bets towards a budget (Proposition 14a)."""

    monotone_budget_bets: ClassVar[bool] = True
    outcome: ClassVar[Outcome] = Outcome(normal=True)

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Return the log e-value of the test of the form at the end of the budget (Proposition 14a)."""
        z = self.standard_score(batch, pieces)
        small = np.where(need < MOST_NEED, need, 0.0)
        exact = bet_where_needed(partial(normal_budget_bet, eta=eta), small, z, need, rho)
        return exact + bet_where_needed(drift_budget_bet, np.where(need < MOST_NEED, 0.0, need), z, need, rho)


@dataclass(frozen=True)
class Gaussian(_Normal):
    """Normal rewards with exactly this standard deviation: an upper bound is not enough.

    >>> Gaussian(0.5).sigma
    0.5
    """

    sigma: float = 1.0
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    @property
    def flags(self) -> tuple[str, ...]:
        """Its sigma."""
        return "--sigma", f"{self.sigma:g}", "--normal"

    @property
    def words(self) -> str:
        """A normal law."""
        return f"Results are normal with standard deviation {self.sigma:g}, exactly."

    def draw_part_totals(self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int) -> Floats:
        """Draw a normal bridge."""
        return _draw_bridge(rng, counts, totals, partitions, self.sigma)


@dataclass(frozen=True)
class HeteroscedasticGaussian(_Normal):
    """Normal rewards with known standard deviations, one for each arm, exactly.

    Args:
        sigmas: The standard deviation of each arm.

    >>> HeteroscedasticGaussian((1.0, 0.5)).sigma  # the largest
    1.0
    """

    sigmas: tuple[float, ...]
    name: ClassVar[str] = "deviations"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", tuple(float(each) for each in self.sigmas))
        if len(self.sigmas) < 2:
            raise InputError("Give one deviation for each of at least two arms.")
        for each in self.sigmas:
            _check_sigma(each)

    @property
    def sigma(self) -> float:
        """The largest: no tails are heavier."""
        return max(self.sigmas)

    @cached_property
    def arm_sigmas(self) -> Floats:
        """The deviations as an array. (K)"""
        return np.array(self.sigmas)

    @property
    def words(self) -> str:
        """Normal laws."""
        shown = ", ".join(f"{each:g}" for each in self.sigmas[:6]) + (", ..." if len(self.sigmas) > 6 else "")
        return f"Results are normal with standard deviations {shown}, exactly."

    @property
    def flags(self) -> tuple[str, ...]:
        """The deviations."""
        return "--sigmas", ",".join(f"{each:g}" for each in self.sigmas)

    @property
    def family(self) -> NormalFamily:
        """The normal laws with these deviations."""
        return NormalFamily(self.arm_sigmas)

    def check_arms(self, arms: int) -> None:
        """Raise an InputError unless there is one deviation for each arm."""
        if arms != len(self.sigmas):
            raise InputError(f"There are {arms} arms, but {len(self.sigmas)} deviations: give one each.")

    def variance(self, past: Past) -> Floats:
        """Return the mean of the variances."""
        return np.full(past.counts.shape[:-1], (self.arm_sigmas**2).mean())

    def variances(self, past: Past) -> Floats:
        """Return that of each arm."""
        return np.broadcast_to(self.arm_sigmas**2, past.counts.shape)

    def draw_part_totals(self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int) -> Floats:
        """Draw normal bridges."""
        sigmas = self.arm_sigmas.reshape(-1, *[1] * (counts.ndim - 2))
        return _draw_bridge(rng, counts, totals, partitions, sigmas)

    def part_bets(self, data: PartsData) -> PartBets:
        """Return bets of one size on parts."""
        return _PartBetsByArm(data, self.arm_sigmas**2)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """Bet on the form of the batch's means (Lemma 1)."""
        new, variance = self._form(batch, pieces)
        error = np.sqrt(variance)
        sizes = drifts * np.sqrt(form_variances(self.arm_sigmas**2 / units, pieces)) / error
        return lambda offsets: log_factor_of_size(sizes, new - offsets, error)

    @quiet
    def standard_score(self, batch: Batch, pieces: Halfspaces) -> Floats:
        """Return each form of the batch's means less its offset, in standard errors; nan without results. (P)"""
        new, variance = self._form(batch, pieces)
        return np.where(np.isfinite(variance), (new - pieces.offsets) / np.sqrt(variance), np.nan)

    def _form(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """Each form of the batch's means, and its variance. (P), (P)"""
        means, inverse = means_and_inverse_counts(batch)
        return form_values(means, pieces), form_variances(self.arm_sigmas**2 * inverse, pieces)


@dataclass(frozen=True)
class _PartBetsByArm(PartBets):
    """exp(q D/sqrt v - q^2/2), v the variance of D (Lemma 1)."""

    data: PartsData
    squares: Floats  # sigma_i^2, (K)

    @cached_property
    def variances(self) -> Floats:
        return np.ascontiguousarray(np.broadcast_to(self.squares[:, None], self.data.counts.shape))

    @cached_property
    def _spread(self) -> Floats:
        """sigma_i^2 / n_i. (P, K, n)"""
        return self.variances / np.maximum(self.data.counts, NO_ROWS)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return self._log_factor(distance, self._spread.reshape(-1).take(arm))

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return self._log_factor(value, form.squares(self._spread))

    def _log_factor(self, value: Floats, variance: Floats) -> LogFactor:
        z = np.clip(value / np.sqrt(variance), -HUGE, HUGE)
        return lambda p, q: q * (z[p] - 0.5 * q)


def _draw_bridge(
    rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int, sigma: float | Floats
) -> Floats:
    """Totals of parts of normal rows given the total of all: a law free of the means."""
    parts = rng.standard_normal((*counts.shape[:2], partitions, *counts.shape[3:]))
    parts *= sigma * np.sqrt(counts)
    found = totals - sum_rows(parts)
    parts += counts / np.maximum(sum_rows(counts), 1.0) * found
    return parts
