"""Normal rewards of known deviation, and any with tails no heavier: Lemma 1 and Proposition 4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet, sum_rows
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, form_values, form_variances
from roundwise.noise.base import UNTRUE, Needs, Noise, Outcome, Steady, known_sigma
from roundwise.noise.bet_forms import means_of, placed, steady_gaussian_bet
from roundwise.noise.budget_bets import MOST_NEED, drift_horizon_bet, normal_horizon_bet
from roundwise.noise.parts import GaussianPartBets, PartsData
from roundwise.solvers.halfspaces import Halfspaces


@dataclass(frozen=True)
class SubGaussian:
    """Any rewards that are sigma-sub-Gaussian, as the paper assumes; an upper bound on sigma is enough.

    >>> SubGaussian(2.0).sigma
    2.0
    """

    sigma: float = 1.0
    name: ClassVar[str] = "sub-gaussian"
    needs: ClassVar[Needs] = "sums"
    outcome: ClassVar[Outcome] = Outcome()

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise InputError(f"`sigma` is {self.sigma:g}, but must be a positive number.")
        if not 1e-100 < self.sigma < 1e100:
            raise InputError(f"`sigma` is {self.sigma:g}: its square cannot be reckoned with; use other units.")

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
        sigma = known_sigma(true)
        if sigma is None:
            return UNTRUE
        return None if self.sigma >= sigma else Reason("sigma_too_small")

    def variance(self, past: Past) -> Floats:
        """The square of sigma."""
        return np.full(past.counts.shape[:-1], self.sigma**2, dtype=np.float64)

    def tilts(self, seen: PartsData) -> GaussianPartBets:
        """Bets of one size on parts."""
        return GaussianPartBets(self.sigma)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """On the form of the batch's means (Lemma 1)."""
        return sub_gaussian_steady(self.sigma, batch, pieces, units, drifts)

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """One drift, on the form of the batch's means (Proposition 15)."""
        return sub_gaussian_horizon(self.sigma, batch, pieces, need, rho)


@dataclass(frozen=True)
class Gaussian:
    """Normal rewards with known standard deviation sigma, exactly: also one that is too large is not covered.

    >>> Gaussian(0.5).sigma
    0.5
    """

    sigma: float = 1.0
    name: ClassVar[str] = "gaussian"
    moves: ClassVar[bool] = True  # what is won towards a budget falls as the offset rises (Proposition 17)
    needs: ClassVar[Needs] = "sums"
    outcome: ClassVar[Outcome] = Outcome(normal=True)

    def __post_init__(self) -> None:
        SubGaussian(self.sigma)

    @property
    def flags(self) -> tuple[str, ...]:
        """Its sigma."""
        return "--sigma", f"{self.sigma:g}", "--normal"

    @property
    def words(self) -> str:
        """A normal law."""
        return f"Results are normal with standard deviation {self.sigma:g}, exactly."

    def variance(self, past: Past) -> Floats:
        """The square of sigma."""
        return SubGaussian(self.sigma).variance(past)

    def dealt(self, rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
        """Totals of parts given the total of all rows: a normal bridge."""
        return bridged(rng, counts, totals, dealings, self.sigma)

    def tilts(self, seen: PartsData) -> GaussianPartBets:
        """Bets of one size on parts."""
        return GaussianPartBets(self.sigma)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """On the form of the batch's means (Lemma 1): bounds do not use capped bets."""
        return sub_gaussian_steady(self.sigma, batch, pieces, units, drifts)

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """The test of the form at the budget, in money (Proposition 14a)."""
        z = standard_score(self.sigma, batch, pieces)
        exact = placed(partial(normal_horizon_bet, eta=eta), np.where(need < MOST_NEED, need, 0.0), z, need, rho)
        return exact + placed(drift_horizon_bet, np.where(need < MOST_NEED, 0.0, need), z, need, rho)


@quiet
def sub_gaussian_steady(sigma: float, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
    """Steady bets on forms that rewards with this sigma allow. (k, P)"""
    means, spread = means_of(batch)
    new, error = form_values(means, pieces), sigma * np.sqrt(form_variances(spread, pieces))
    sizes = drifts * sigma * np.sqrt(form_variances(1.0 / units, pieces)) / error
    return lambda offsets: steady_gaussian_bet(sizes, new - offsets, error)


def sub_gaussian_horizon(sigma: float, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats) -> Floats:
    """Bets towards a budget that rewards with this sigma allow. (P)"""
    return placed(drift_horizon_bet, need, standard_score(sigma, batch, pieces), need, rho)


@quiet
def standard_score(sigma: float, batch: Batch, pieces: Halfspaces) -> Floats:
    """The form of the batch's means less its offset, over its standard error; nan without results of an arm. (P)"""
    means, spread = means_of(batch)
    error = sigma * np.sqrt(form_variances(spread, pieces))
    return np.where(np.isfinite(error), (form_values(means, pieces) - pieces.offsets) / error, np.nan)


def bridged(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int, sigma: float | Floats) -> Floats:
    """Totals of parts of normal rows given the total of all, dealt so many times: a law free of the means.

    Counts of the parts with the parts first, (P, K, 1, ...), totals (K, 1, ...) -> (P, K, M, ...).
    """
    parts = rng.standard_normal((*counts.shape[:2], dealings, *counts.shape[3:]))
    parts *= sigma * np.sqrt(counts)
    found = totals - sum_rows(parts)
    parts += counts / np.maximum(sum_rows(counts), 1.0) * found
    return parts
