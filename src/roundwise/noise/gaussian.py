"""Normal rewards of known deviation, and any with tails no heavier: Lemma 1 and Proposition 4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, sum_rows
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, FormEstimate, Past, form_values, form_variances
from roundwise.noise.base import UNTRUE, Needs, Noise, Outcome, Steady, known_sigma
from roundwise.noise.bet_forms import counted, means_of, on_forms, on_levels, placed, steady_gaussian_bet
from roundwise.noise.budget_bets import MOST_NEED, drift_horizon_bet, normal_horizon_bet
from roundwise.noise.mixture import (
    BOLDEST,
    DRIFTS,
    HUGE,
    cash_and_scale,
    clipped_z,
    flat,
    log_gaussian_mixture,
    log_stake,
)
from roundwise.noise.parts import ArmPlaces, Index, PartForm, PartsData, Tilt
from roundwise.questions.base import Halfspaces, quiet

_MOST_NEED = 600.0  # above it a bet is not capped: exp(need) must stay far from overflow
_SLACK = 1e-10  # by how much E_0 e stays below 1 at least, far above the rounding of its computation (1e-12)
_ROUGH = 0.2  # the step in log e_mix after which the search for the best cap stops: log c then lacks 1e-3 at most
# (for needs below 0.1 it may lack more, which is no matter, because next to nothing is to be won)
_BLOCK = 4096  # elements worked on at a time, so that they stay in the cache


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

    def form(self, known: Estimates, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
        """On the form of the batch's means (Lemma 1)."""
        return sub_gaussian_form(self.sigma, batch, forecast, need)

    def level(self, known: Estimates, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """On the distance of each arm's mean in the batch from the level (Lemma 1)."""
        return sub_gaussian_level(self.sigma, known, batch, level, above, need)

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

    def form(self, known: Estimates, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
        """On the form of the batch's means, capped at the need (Proposition 4)."""
        return placed(capped_gaussian_bet, need, *_scaled(self.sigma, *on_forms(batch, forecast)), need)

    def level(self, known: Estimates, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """On the distance of each arm's mean in the batch from the level, capped at the need (Proposition 4)."""
        return placed(capped_gaussian_bet, need, *_scaled(self.sigma, *on_levels(known, batch, level, above)), need)

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


def sub_gaussian_form(sigma: float, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
    """Bets on forms that rewards with this sigma allow. (P)"""
    return placed(sub_gaussian_bet, need, *_scaled(sigma, *on_forms(batch, forecast)))


def sub_gaussian_level(
    sigma: float, known: Estimates, batch: Batch, level: Floats | float, above: Bools, need: Floats
) -> Floats:
    """Bets on levels that rewards with this sigma allow. (K)"""
    return placed(sub_gaussian_bet, need, *_scaled(sigma, *on_levels(known, batch, level, above)))


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


def _scaled(
    sigma: float, estimate: Floats, leverage: Floats, new: Floats, new_leverage: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    return estimate, sigma**2 * leverage, new, sigma**2 * new_leverage


def standardised(
    estimate: Floats, past_variance: Floats, difference: Floats, variance: Floats
) -> tuple[Bools, Floats, Floats, Floats]:
    """Where there is something to bet on, past z, sqrt(past variance / new variance), and new z."""
    good = counted(past_variance, variance, least=0.0, most=np.inf) & np.isfinite(estimate) & ~np.isnan(difference)
    past_variance, variance = np.where(good, past_variance, 1.0), np.where(good, variance, 1.0)
    z = clipped_z(np.where(good, estimate, 0.0), past_variance)
    ratio = np.sqrt(past_variance) / np.sqrt(variance)
    new_z = np.clip(np.where(good, difference, 0.0) / np.sqrt(variance), -HUGE, HUGE)
    return good, z, ratio, new_z


@np.errstate(all="ignore")
def sub_gaussian_bet(
    past_estimate: ArrayLike, past_variance: ArrayLike, difference: ArrayLike, variance: ArrayLike
) -> Floats:
    """The log e-value of one batch against "the mean of the difference is at most 0" (Lemma 1).

    Both variances include sigma squared; 0.0 where there is no past or no new data. `(),(),(),()->()`
    """
    shape, (estimate, past, new, var) = flat(past_estimate, past_variance, difference, variance)
    good, z, ratio, new_z = standardised(estimate, past, new, var)
    return np.where(good, log_gaussian_mixture(z, ratio, new_z), 0.0).reshape(shape)


@np.errstate(all="ignore")
def capped_gaussian_bet(
    past_estimate: ArrayLike,
    past_variance: ArrayLike,
    difference: ArrayLike,
    variance: ArrayLike,
    need: ArrayLike,
) -> Floats:
    """The same for an exactly Gaussian difference of known variance: min(c e_mix, exp(need)), c >= 1 (Proposition 4).

    `need` is log(1/delta) minus the log evidence so far. The result equals `need` exactly where the cap is reached:
    reject on `bet >= need`, because evidence + need may round to just below log(1/delta). `(),(),(),(),()->()`
    """
    shape, (estimate, past, new, var, cap) = flat(past_estimate, past_variance, difference, variance, need)
    good, z, ratio, new_z = standardised(estimate, past, new, var)
    mixture = log_gaussian_mixture(z, ratio, new_z)
    capped = good & (cap > 0) & (cap < _MOST_NEED)
    log_c = np.zeros_like(z)
    log_c[capped] = _log_multiplier(z[capped], ratio[capped], cap[capped])
    return np.where(capped, np.minimum(mixture + log_c, cap), np.where(good, mixture, 0.0)).reshape(shape)


def _log_multiplier(z: Floats, ratio: Floats, need: Floats) -> Floats:
    """log c >= 0 with E_0 min(c e_mix, exp(need)) <= 1, as a function of the past alone.

    Count c e_mix below any place y and the cap beyond it: E_0 <= c sum_k w_k Phi(y - q_k) + exp(need) Phi(-y). Hence
    every y gives a valid c = (1 - exp(need) Phi(-y)) / sum_k w_k Phi(y - q_k). The largest is at the y where c e_mix(y)
    meets the cap. Newton's method seeks it; as c is flat there, a rough y loses next to nothing.
    """
    log_c = np.empty_like(z)
    for start in range(0, z.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        log_c[block] = _log_multiplier_of_block(z[block], ratio[block], need[block])
    return log_c


def _log_multiplier_of_block(z: Floats, ratio: Floats, need: Floats) -> Floats:
    from scipy.special import ndtr, ndtri

    cash, log_scale = cash_and_scale(z)
    log_w = np.stack([np.log(cash), *(log_stake(k, z) + log_scale for k in range(DRIFTS.size))])
    w = np.exp(np.maximum(log_w, -700.0))
    q = np.stack([np.zeros_like(z), *(np.minimum(u * ratio, BOLDEST) for u in DRIFTS)])
    # the cap alone weighs 1 at the low end; at the high end one drift alone reaches it, so c <= 1
    low = -ndtri(np.exp(-need))
    high = ((need - log_w[1:]) / q[1:] + q[1:] / 2).min(axis=0)
    y = _first_guess(low, high)
    log_c = np.zeros_like(z)
    step = np.full_like(z, np.inf)
    left = np.arange(z.size)
    going = np.isfinite(high) & (low < high)
    for _ in range(60):
        if not going.all():
            left, y, low, high, need = left[going], y[going], low[going], high[going], need[going]
            log_w, w, q, step = log_w[:, going], w[:, going], q[:, going], step[going]
        if not left.size:
            break
        found = np.log((1.0 - _SLACK - np.exp(need) * ndtr(-y)) / sum_rows(w * ndtr(y - q)))
        log_c[left] = np.fmax(log_c[left], found)
        going = ~(np.abs(step) < _ROUGH)
        if not going.any():
            break
        stakes = np.exp(np.maximum(log_w + q * (y - q / 2), -700.0))
        e_mix = sum_rows(stakes)
        step = need - np.log(e_mix) - found  # in log e_mix, to where c e_mix meets the cap
        low, high = np.where(step < 0, low, y), np.where(step < 0, y, high)
        y = y + step * e_mix / sum_rows(stakes * q)
        y = np.where((y > low) & (y < high), y, (low + high) / 2)
    return log_c


def _first_guess(low: Floats, high: Floats) -> Floats:
    """Where the cap may be met: fitted to simulated studies, good to about 0.05 there."""
    width = high - low
    part = 1.54 - 0.723 / width - 0.87 / (1.0 + np.maximum(low, 0.0)) - 0.111 * np.log(width)
    return low + width * np.clip(part, 0.05, 0.98)


@dataclass(frozen=True)
class GaussianPartBets:
    """exp(q D/sqrt v - q^2/2), for any form D of sub-Gaussian rewards (Lemma 1)."""

    sigma: float

    @property
    def variances(self) -> Floats:
        """The square of sigma."""
        return np.full((1, 1, 1), self.sigma**2)

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """From the difference in each part; it is used up."""
        return self._tilt(difference, leverage)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """From the distance in each part; it is used up."""
        return self._tilt(distance, leverage)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """From the value of any form of the means of each part, less its offset; it is used up. (P, c)"""
        return self._tilt(value, leverage)

    def _tilt(self, value: Floats, leverage: Floats) -> Tilt:
        value /= np.sqrt(leverage) * self.sigma if self.sigma != 1.0 else np.sqrt(leverage)
        np.clip(value, -HUGE, HUGE, out=value)

        def tilt(p: int, q: Floats) -> Floats:
            x = value[p]
            x -= 0.5 * q
            x *= q
            return x

        return tilt


def bridged(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int, sigma: float | Floats) -> Floats:
    """Totals of parts of normal rows given the total of all, dealt so many times: a law free of the means.

    Counts of the parts with the parts first, (P, K, 1, ...), totals (K, 1, ...) -> (P, K, M, ...).
    """
    parts = rng.standard_normal((*counts.shape[:2], dealings, *counts.shape[3:]))
    parts *= sigma * np.sqrt(counts)
    found = totals - sum_rows(parts)
    parts += counts / np.maximum(sum_rows(counts), 1.0) * found
    return parts
