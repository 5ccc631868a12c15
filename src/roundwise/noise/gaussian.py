"""Normal rewards, of known or unknown standard deviation, and any rewards with tails no heavier.

Lemma 1 for a known deviation (or an upper bound of it), t statistics of each batch for unknown ones (Propositions 5 and
30).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats, log_sum_exp, quiet, sum_rows, total
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, all_arms, arm_of, form_values, form_variances
from roundwise.noise.base import UNTRUE, AssumedShape, FixedSizeBet, Needs, Noise, Outcome, RowCheck
from roundwise.noise.bets import (
    HUGE,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    bet_where_needed,
    gaussian_factor,
    log_factor_of_size,
    means_and_inverse_counts,
    single_arms,
    sums_before,
    take_arm,
    where_sized,
)
from roundwise.noise.budget_bets import MOST_NEED, drift_budget_bet, normal_budget_bet
from roundwise.noise.paired import ITEMS, PairedNoise
from roundwise.noise.payoffs import LookAim
from roundwise.noise.scores import student_score, welch_score
from roundwise.solvers.halfspaces import Halfspaces, NormalFamily

NODES = 8  # of the quadrature
BOLD = 1.4  # q is at most this times sqrt(dof + 1): a bolder bet would lose even if the difference is huge


def _check_sigma(sigma: float) -> None:
    if not (sigma > 0 and math.isfinite(sigma)):
        raise InputError(f"`sigma` is {sigma:g}, but must be a positive number.")
    if not 1e-100 < sigma < 1e100:
        raise InputError(f"`sigma` is {sigma:g}, but must lie between 1e-100 and 1e100. Use other units.")


@dataclass(frozen=True)
class SubGaussian(Noise):
    """Any rewards that are sigma-sub-Gaussian, as the paper assumes; an upper bound on sigma is enough.

    Args:
        sigma: The sub-Gaussian constant, or an upper bound on it.

    >>> SubGaussian(2.0).sigma
    2.0
    """

    sigma: float = 1.0
    name: ClassVar[str] = "sub-gaussian"
    merges_arms: ClassVar[bool] = True
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("sigma",)

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    @property
    def flags(self) -> tuple[str, ...]:
        return "--sigma", f"{self.sigma:g}"

    @property
    def words(self) -> str:
        return f"Results have tails no heavier than normal with standard deviation {self.sigma:g}."

    def doubt(self, true: Noise) -> Reason | None:
        sigma = true.known_sigma
        if sigma is None:
            return UNTRUE
        return None if self.sigma >= sigma else Reason("sigma_too_small")


class _KnownSigma(Noise):
    """Exactly normal rewards of known deviation, which have exact bets towards a budget (Proposition 14a)."""

    looks_in_parts: ClassVar[bool] = False
    monotone_budget_bets: ClassVar[bool] = True
    outcome: ClassVar[Outcome] = Outcome(normal=True)
    shape: ClassVar[AssumedShape] = "normal"
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("skewness", "kurtosis", "repeated", "sigma")

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        z = self.standard_score(batch, pieces)
        small = np.where(need < MOST_NEED, need, 0.0)
        exact = bet_where_needed(partial(normal_budget_bet, eta=eta), small, z, need, rho)
        return exact + bet_where_needed(drift_budget_bet, np.where(need < MOST_NEED, 0.0, need), z, need, rho)

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        _, inverse = means_and_inverse_counts(batch)
        error = np.sqrt(form_variances(self.variances(known.past) * inverse, pieces))
        return aim.pay(self.standard_score(batch, pieces), error, level)

    def draw_part_totals(self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int) -> Floats:
        """Draw normal bridges."""
        sigmas = self.sigma if self.arm_sigmas is None else self.arm_sigmas.reshape(-1, *[1] * (counts.ndim - 2))
        parts = rng.standard_normal((*counts.shape[:2], partitions, *counts.shape[3:]))
        parts *= sigmas * np.sqrt(counts)
        found = totals - sum_rows(parts)
        parts += counts / np.maximum(sum_rows(counts), 1.0) * found
        return parts


@dataclass(frozen=True)
class Gaussian(_KnownSigma):
    """Normal rewards with exactly this standard deviation: an upper bound is not enough.

    Args:
        sigma: The exact standard deviation of one result.

    >>> Gaussian(0.5).sigma
    0.5
    """

    sigma: float = 1.0
    name: ClassVar[str] = "gaussian"
    merges_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    @property
    def flags(self) -> tuple[str, ...]:
        return "--sigma", f"{self.sigma:g}", "--normal"

    @property
    def words(self) -> str:
        return f"Results are normal with standard deviation {self.sigma:g}, exactly."


@dataclass(frozen=True)
class HeteroscedasticGaussian(_KnownSigma):
    """Normal rewards with known standard deviations, one for each arm, exactly.

    Args:
        sigmas: The standard deviation of each arm.

    >>> HeteroscedasticGaussian((1.0, 0.5)).sigma  # the largest
    1.0
    """

    sigmas: tuple[float, ...]
    name: ClassVar[str] = "deviations"
    merges_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", tuple(float(each) for each in self.sigmas))
        if len(self.sigmas) < 2:
            raise InputError("Give one deviation for each of at least two arms.")
        for each in self.sigmas:
            _check_sigma(each)

    @property
    def sigma(self) -> float:
        return max(self.sigmas)

    @cached_property
    def arm_sigmas(self) -> Floats:
        return np.array(self.sigmas)

    @property
    def words(self) -> str:
        shown = ", ".join(f"{each:g}" for each in self.sigmas[:6]) + (", ..." if len(self.sigmas) > 6 else "")
        return f"Results are normal with standard deviations {shown}, exactly."

    @property
    def flags(self) -> tuple[str, ...]:
        return "--sigmas", ",".join(f"{each:g}" for each in self.sigmas)

    @property
    def family(self) -> NormalFamily:
        return NormalFamily(self.arm_sigmas)

    def check_arms(self, arms: int) -> None:
        if arms != len(self.sigmas):
            raise InputError(f"There are {arms} arms, but {len(self.sigmas)} deviations: give one each.")

    def variance(self, past: Past) -> Floats:
        return np.full(past.counts.shape[:-1], (self.arm_sigmas**2).mean())

    def variances(self, past: Past) -> Floats:
        return np.broadcast_to(self.arm_sigmas**2, past.counts.shape)

    def part_bets(self, data: PartsData) -> PartBets:
        return _PartBetsByArm(data, self.arm_sigmas**2)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        new, variance = self._form(batch, pieces)
        error = np.sqrt(variance)
        sizes = drifts * np.sqrt(form_variances(self.arm_sigmas**2 / units, pieces)) / error
        return lambda offsets: log_factor_of_size(sizes, new - offsets, error)

    @quiet
    def standard_score(self, batch: Batch, pieces: Halfspaces) -> Floats:
        new, variance = self._form(batch, pieces)
        return np.where(np.isfinite(variance), (new - pieces.offsets) / np.sqrt(variance), np.nan)

    def _form(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """Each form of the batch's means, and its variance. (P), (P)"""
        means, inverse = means_and_inverse_counts(batch)
        return form_values(means, pieces), form_variances(self.arm_sigmas**2 * inverse, pieces)


@dataclass(frozen=True)
class _PartBetsByArm(PartBets):
    """Bets on forms D of normal rewards, over the variance of D (Lemma 1)."""

    data: PartsData
    squares: Floats  # sigma_i^2, (K)

    @cached_property
    def variances(self) -> Floats:
        return self.data.mean_of(self._own)

    @cached_property
    def _own(self) -> Floats:
        return np.ascontiguousarray(np.broadcast_to(self.squares[:, None], self.data.of_arms.counts.shape))

    @cached_property
    def _spread(self) -> Floats:
        """sigma_i^2 / n_i. (P, K, n)"""
        return self.data.error_of(self._own)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return gaussian_factor(distance, np.sqrt(self._spread.reshape(-1).take(arm)))

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return gaussian_factor(value, np.sqrt(form.squares(self._spread)))


# --- unknown deviation


@dataclass(frozen=True)
class Normal(Noise):
    """Normal rewards; the mean and the standard deviation of each arm are unknown.

    Forms of several arms are measured by Welch's statistic, with the smallest degrees of freedom of their arms
    (Proposition 30). An arm with fewer than two results in a part is not bet on there.
    """

    looks_in_parts: ClassVar[bool] = False
    name: ClassVar[str] = "normal"
    merges_arms: ClassVar[bool] = True
    shape: ClassVar[AssumedShape] = "normal"
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("skewness", "kurtosis", "repeated")
    monotone_budget_bets: ClassVar[bool] = True
    needs: ClassVar[Needs] = "squares"
    most_parts: ClassVar[int] = 4  # of a batch: each arm of each has its own deviation, from rows enough to tell
    flags: ClassVar[tuple[str, ...]] = ("--normal",)
    words: ClassVar[str] = "Results are normal with an unknown mean and standard deviation for each arm."
    few_rows: ClassVar[float] = 8.0

    def doubt(self, true: Noise) -> Reason | None:
        return None if self == true or true.outcome.normal else UNTRUE

    def variance(self, past: Past) -> Floats:
        return past.pooled_variance

    def variances(self, past: Past) -> Floats:
        return past.own_variances

    def part_bets(self, data: PartsData) -> PartBets:
        return _WelchPartBets(data)

    def with_items(self) -> Noise:
        return PairedNormal()

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        means, per_row = means_and_inverse_counts(batch)
        new, guess = form_values(means, pieces), self.variances(past)
        square, dof = self._squared_errors(batch, pieces)
        possible = (square > 0) & np.isfinite(square) & (dof >= 1)
        ahead = form_variances(guess / units, pieces) / form_variances(guess * per_row, pieces)
        sizes = np.where(possible, drifts * np.sqrt(ahead), 0.0)
        error, dof = np.sqrt(np.where(possible, square, 1.0)), np.where(possible, dof, 1.0)
        return lambda offsets: fixed_size_student_bet(sizes, new - offsets, error, dof)

    @quiet
    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Bet on the normal score of the batch's t statistic (14a, 30)."""
        need, (score, wide) = np.where(need < MOST_NEED, need, 0.0), self._scores(batch, pieces, need > 0)
        bet = partial(normal_budget_bet, eta=eta)
        return bet_where_needed(lambda *each: bet(*each[:3], wide=each[3]), need, score, need, rho, wide)

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """By the score, a negative one by that which is no narrower than normal (42, 30)."""
        _, inverse = means_and_inverse_counts(batch)
        error = np.sqrt(form_variances(self.variances(known.past) * inverse, pieces))
        error = np.where((total(known.past.freedom) > 0)[..., None], error, np.nan)  # nothing is known of the variance
        score, wide = self._scores(batch, pieces, np.ones(level.shape, dtype=np.bool_))
        return aim.pay(np.where(score < 0, wide, score), error, level)

    def _scores(self, batch: Batch, pieces: Halfspaces, wanted: Bools) -> tuple[Floats, Floats]:
        """Of each form a score no wider than normal, and one no narrower; nan where there is none. (P), (P)"""
        squares, freedom = self._spread(batch, pieces)
        t = np.where(wanted, self._statistic(batch, pieces), np.nan)
        every = total(np.where(np.isfinite(freedom), freedom, 0.0))
        return welch_score(t, squares, freedom), student_score(t, every)

    def _statistic(self, batch: Batch, pieces: Halfspaces) -> Floats:
        """The t statistic of each form; nan where there is none. (P)"""
        means, _ = means_and_inverse_counts(batch)
        square, dof = self._squared_errors(batch, pieces)
        t = (form_values(means, pieces) - pieces.offsets) / np.sqrt(square)
        return np.where((square > 0) & (dof >= 1) & np.isfinite(square) & np.isfinite(t), t, np.nan)

    def _spread(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """The squared error due to each arm of each form, and its degrees of freedom, inf for no arm. (P, S), (P, S)"""
        scatter, freedom = _within(batch.counts, batch.scatter)
        squares = scatter / np.maximum(freedom, 1.0) / batch.counts
        if pieces.pairs:
            squares, freedom = (np.stack([arm_of(each, pieces, s) for s in (0, 1)], -1) for each in (squares, freedom))
            return squares, freedom
        factors = pieces.coefficients
        squares = np.where(factors != 0, factors**2 * all_arms(squares, pieces), 0.0)
        return squares, np.where(factors != 0, all_arms(freedom, pieces), np.inf)

    def _squared_errors(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """The squared standard error of each form of the batch's means, and its degrees of freedom. (P), (P)"""
        squares, freedom = self._spread(batch, pieces)
        return total(squares), freedom.min(axis=-1)


@dataclass(frozen=True)
class EqualVariances(Normal):
    """Normal rewards with the same, unknown standard deviation for every arm.

    For forms of several arms the variance is pooled over all arms of the batch, which must have it in common. For a
    form of one arm, and against a level, it is that arm's own: variances may differ there, and what is won on different
    arms may be multiplied.
    """

    name: ClassVar[str] = "equal-variances"
    row_checks: ClassVar[tuple[RowCheck, ...]] = (*Normal.row_checks, "deviations")
    most_parts: ClassVar[int] = 8
    flags: ClassVar[tuple[str, ...]] = ("--normal", "--equal-variances")
    words: ClassVar[str] = "Results are normal with the same, unknown standard deviation for every arm."
    few_rows: ClassVar[float] = 0.0

    def variances(self, past: Past) -> Floats:
        return np.broadcast_to(self.variance(past)[..., None], past.counts.shape)

    def part_bets(self, data: PartsData) -> PartBets:
        return _PooledPartBets(data)

    def _scores(self, batch: Batch, pieces: Halfspaces, wanted: Bools) -> tuple[Floats, Floats]:
        """The law of the statistic is known: both are its score."""
        _, dof = self._squared_errors(batch, pieces)
        score = student_score(np.where(wanted, self._statistic(batch, pieces), np.nan), dof)
        return score, score

    def _squared_errors(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        scatter, freedom = _within(batch.counts, batch.scatter)
        square, dof = total(scatter)[..., None], total(freedom)[..., None]
        if not pieces.pairs:
            single, arm, _ = single_arms(pieces)
            square, dof = (
                np.where(single, take_arm(own, arm), pooled) for own, pooled in ((scatter, square), (freedom, dof))
            )
        return square / np.maximum(dof, 1.0) * form_variances(1.0 / batch.counts, pieces), dof


@dataclass(frozen=True)
class PairedNormal(PairedNoise, Normal):
    """Normal results on shared items: differences of two arms are normal with an unknown deviation of their own."""

    name: ClassVar[str] = "paired-normal"
    most_parts: ClassVar[int] = 8
    few_rows: ClassVar[float] = 0.0
    words: ClassVar[str] = f"Differences of two arms on one item are normal, their deviation unknown. {ITEMS}"
    differences: ClassVar[Noise] = Normal()

    def without_items(self) -> Noise:
        return Normal()


def _within(counts: Floats, scatter: Floats | None) -> tuple[Floats, Floats]:
    """Scatter (0 if it is not known) and degrees of freedom of each arm."""
    return np.zeros_like(counts) if scatter is None else scatter, np.maximum(counts - 1.0, 0.0)


@dataclass(frozen=True)
class _WelchPartBets(PartBets):
    """Bets of one size on parts, over the part's own deviations: of the arms of the form, or of one arm for a level.

    A rule of one node takes the place of chi: parts have small drifts, for which it loses next to nothing.
    """

    data: PartsData

    @property
    def variances(self) -> Floats:
        return self.data.mean_of(self._own)

    @cached_property
    def _own(self) -> Floats:
        """Of each arm. (P, K, n)"""
        scatter, freedom = self.data.of_arms.scatter_so_far
        return (scatter + self._pooled) / (freedom + 1.0)

    @cached_property
    def _pooled(self) -> Floats:
        """The variance within all arms before each part. (P, 1, n)"""
        data, (scatter, freedom) = self.data.of_arms, self._within
        if data.scatter is None:
            return _variance(*(_over_arms(each) for each in data.scatter_so_far))
        freedom = sums_before(_over_arms(freedom), _over_arms(data.before.freedom[None]))  # whole: exact in any order
        return _variance(_over_arms(sums_before(scatter, data.before.scatter)), freedom)

    def level_variances(self, level: float) -> Floats:
        return _variance(*self.data.scatter_so_far)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        scatter, freedom = self._within
        square = form.squares(self.data.error_of(scatter / np.maximum(freedom, 1.0)))
        own = [self.data.least(freedom).reshape(-1).take(each) for each in form.places]
        if form.factors is not None:
            own = [np.where(f != 0, each, np.inf) for f, each in zip(form.factors, own, strict=True)]
        return student_factor(value, square, reduce(np.minimum, own))

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        scatter, freedom = (each.reshape(-1).take(arm) for each in self._within)
        return student_factor(distance, leverage * scatter / np.maximum(freedom, 1.0), freedom)

    @cached_property
    def _within(self) -> tuple[Floats, Floats]:
        return _within(self.data.of_arms.counts, self.data.of_arms.scatter)


class _PooledPartBets(_WelchPartBets):
    """The same over the deviation of all arms together for forms of several arms."""

    @cached_property
    def _own(self) -> Floats:
        return self._pooled

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        run = self.data.column(form.places[0][0])
        scatter, freedom = (_over_arms(each)[:, 0].take(run, axis=1) for each in self._within)
        if form.factors is not None:
            used = np.stack([each != 0 for each in form.factors])
            arm = np.take_along_axis(np.stack(form.places), used.argmax(axis=0)[None], axis=0)[0]
            scatter, freedom = (
                np.where(used.sum(axis=0) == 1, own.reshape(-1).take(arm), pooled)
                for own, pooled in zip(self._within, (scatter, freedom), strict=True)
            )
        return student_factor(value, leverage * scatter / np.maximum(freedom, 1.0), freedom)


def student_factor(value: Floats, square: Floats, freedom: Floats) -> LogFactor:
    """exp(q rho - q^2/2) of the t statistic of a value with this squared error; no bet without one. (P, c)"""
    dof = np.maximum(freedom, 1.0)
    root = np.sqrt(dof + 1.0)
    t = np.clip(value / np.sqrt(np.maximum(square, 1e-300)), -HUGE, HUGE)
    rho = t / np.sqrt(t * t + dof) * root  # the one node of the rule for chi
    most = root * (BOLD * ((freedom >= 1) & (square > 0)))

    def log_factor(p: int, q: Floats) -> Floats:
        q = np.minimum(q, most[p])
        return q * (rho[p] - 0.5 * q)

    return log_factor


def _over_arms(values: Floats) -> Floats:
    """The sum over the arms, in the same order however many columns there are. (P, K, n)->(P, 1, n)"""
    if values.shape[-1] == 1:  # NumPy would add in pairs
        return values.cumsum(axis=1)[:, -1:]
    return np.asarray(np.add.reduce(values, axis=1, keepdims=True))


def _variance(scatter: Floats, freedom: Floats) -> Floats:
    """Infinite (z is 0) as long as there is none."""
    return np.where(freedom > 0, np.maximum(scatter, 1e-300) / np.maximum(freedom, 1.0), np.inf)


@np.errstate(all="ignore")
def fixed_size_student_bet(sizes: Floats, new: Floats, error: Floats, dof: Floats) -> Floats:
    """log e of fixed-size bets: `new` is less the value, `error` has `dof` degrees of freedom. `(k),(),(),()->(k)`"""
    t = np.clip(new / error, -HUGE, HUGE)
    rho = t / np.hypot(np.sqrt(dof), t)
    distinct, which = np.unique(dof, return_inverse=True)
    nodes, log_weights = (each[:, which.reshape(1, *dof.shape)] for each in _rule(tuple(distinct.tolist())))

    def logs(q: Floats) -> Floats:
        q = np.minimum(q, BOLD * np.sqrt(dof + 1.0))
        return log_sum_exp(log_weights + q * (rho * nodes - q / 2))

    return where_sized(sizes, logs)


@lru_cache(maxsize=256)
def _rule(dof: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Nodes and log weights, on the first axis, of the Gauss rule for X^2/2 ~ Gamma((dof + 1)/2), X ~ chi(dof + 1).

    Golub and Welsch (1969) for the nodes, in the standardized variable (X^2/2 - shape)/sqrt(shape), so that it tends to
    Gauss-Hermite; Christoffel numbers for the weights, whose small values eigenvectors would get wrong.
    """
    shape = (np.array(dof) + 1.0)[:, None] / 2.0  # alpha + 1
    k = np.arange(NODES)
    diagonal = 2.0 * k / np.sqrt(shape)
    beside = np.sqrt(k[1:] * (1.0 + (k[1:] - 1) / shape))
    jacobi = np.zeros((len(dof), NODES, NODES))
    jacobi[:, k, k] = diagonal
    jacobi[:, k[1:], k[:-1]] = jacobi[:, k[:-1], k[1:]] = beside
    place = np.linalg.eigvalsh(jacobi)
    before, now, weight = np.zeros_like(place), np.ones_like(place), np.ones_like(place)
    for j in range(NODES - 1):
        past = beside[:, j - 1, None] if j else 0.0
        before, now = now, ((place - diagonal[:, j, None]) * now - past * before) / beside[:, j, None]
        weight += now * now
    nodes = np.sqrt(2.0 * np.maximum(shape + np.sqrt(shape) * place, 0.0))
    return nodes.T, -np.log(weight).T
