"""Normal rewards of unknown deviation: t statistics of each batch (Proposition 5)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, log_sum_exp, quiet, total
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, form_values, form_variances
from roundwise.noise.base import UNTRUE, FixedSizeBet, Needs, Noise
from roundwise.noise.bets import (
    HUGE,
    bet_where_needed,
    means_and_inverse_counts,
    single_arms,
    take_arm,
    where_sized,
)
from roundwise.noise.budget_bets import MOST_NEED, normal_budget_bet
from roundwise.noise.crossed import ITEMS, CrossedNoise
from roundwise.noise.parts import Index, LogFactor, PartBets, PartForm, PartsData, sums_before
from roundwise.solvers.halfspaces import Halfspaces

NODES = 8  # of the quadrature
BOLD = 1.4  # q is at most this times sqrt(dof + 1): a bolder bet would lose even if the difference is huge


@dataclass(frozen=True)
class UnknownVariance(Noise):
    """Normal rewards with the same, unknown standard deviation for every arm.

    For forms of several arms the variance is pooled over all arms of the batch, which must have it in common. For a
    form of one arm, and against a level, it is that arm's own: variances may differ there, and what is won on different
    arms may be multiplied.
    """

    name: ClassVar[str] = "unknown-variance"
    monotone_budget_bets: ClassVar[bool] = True
    needs: ClassVar[Needs] = "squares"
    most_parts: ClassVar[int] = 8  # of a batch: each has its own deviation, from rows enough to tell
    flags: ClassVar[tuple[str, ...]] = ("--normal",)
    words: ClassVar[str] = "Results are normal with the same, unknown standard deviation for every arm."

    @property
    def sigma(self) -> float:
        """There is none."""
        raise InputError(
            "With an unknown variance there is no sigma: use the policy 'wager', or say which sigma to use."
        )

    def doubt(self, true: Noise) -> Reason | None:
        """True of normal rewards."""
        return None if self == true or true.outcome.normal else UNTRUE

    def variance(self, past: Past) -> Floats:
        """The pooled variance within arms and batches; 1 as long as there is none."""
        freedom = total(past.freedom)
        return np.where(freedom > 0, np.maximum(total(past.scatter), 1e-300) / np.maximum(freedom, 1.0), 1.0)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """On the form of the batch's means, over the deviation that `form` has."""
        means, spread = means_and_inverse_counts(batch)
        new, leverage = form_values(means, pieces), form_variances(spread, pieces)
        square, dof = self._squares(batch, pieces)
        possible = (square > 0) & (dof >= 1)
        sizes = np.where(possible, drifts * np.sqrt(form_variances(1.0 / units, pieces) / leverage), 0.0)
        error, dof = np.sqrt(np.where(possible, square * leverage, 1.0)), np.where(possible, dof, 1.0)
        return lambda offsets: fixed_size_student_bet(sizes, new - offsets, error, dof)

    def part_bets(self, data: PartsData) -> PartBets:
        """Return bets of one size on parts."""
        return _StudentPartBets(data)

    def with_items(self) -> Noise:
        """Return the model for arms that are tried on the same items."""
        return PairedNormal()

    @quiet
    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """On the score of the same chance as the batch's t statistic, which is exactly normal (Proposition 14a)."""
        from scipy.special import ndtri, stdtr

        means, spread = means_and_inverse_counts(batch)
        new, leverage = form_values(means, pieces) - pieces.offsets, form_variances(spread, pieces)
        square, dof = self._squares(batch, pieces)
        t = new / np.sqrt(square * leverage)
        possible = (square > 0) & (dof >= 1) & np.isfinite(leverage) & np.isfinite(t)
        score = -np.sign(t) * ndtri(stdtr(np.where(possible, dof, 1.0), -np.abs(np.where(possible, t, 0.0))))
        need = np.where(need < MOST_NEED, need, 0.0)  # beyond it there is no bet
        return bet_where_needed(
            functools.partial(normal_budget_bet, eta=eta), need, np.where(possible, score, np.nan), need, rho
        )

    def _squares(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """The variance within the arms of the batch that each form is measured with, and its degrees of freedom."""
        each, freedom = _within(batch)
        scatter, dof = total(each)[..., None], total(freedom)[..., None]
        if not pieces.pairs:
            single, arm, _ = single_arms(pieces)
            scatter, dof = np.where(single, take_arm(each, arm), scatter), np.where(single, take_arm(freedom, arm), dof)
        return scatter / np.maximum(dof, 1.0), dof


@dataclass(frozen=True)
class PairedNormal(CrossedNoise, UnknownVariance):
    """Normal results on shared items: differences of two arms are normal with an unknown deviation of their own."""

    name: ClassVar[str] = "paired-normal"
    words: ClassVar[str] = f"Differences of two arms on one item are normal, their deviation unknown. {ITEMS}"
    differences: ClassVar[Noise] = UnknownVariance()

    def without_items(self) -> Noise:
        """Return the model for arms that have items of their own."""
        return UnknownVariance()


@dataclass(frozen=True)
class _StudentPartBets(PartBets):
    """Bets of one size on parts: over the part's own deviation, pooled for forms of several arms, an arm's for a level.

    A rule of one node takes the place of chi: parts have small drifts, for which it loses next to nothing.
    """

    data: PartsData

    @cached_property
    def variances(self) -> Floats:
        data, (scatter, freedom) = self.data, self._within
        if data.scatter is None:
            return _variance(*(_over_arms(each) for each in data.scatter_so_far))
        freedom = sums_before(_over_arms(freedom), _over_arms(data.before.freedom[None]))  # whole: exact in any order
        return _variance(_over_arms(sums_before(scatter, data.before.scatter)), freedom)

    def level_variances(self, level: float) -> Floats:
        return _variance(*self.data.scatter_so_far)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        pooled = self._pooled(form.places[0][0] % self.data.counts.shape[-1])
        if form.factors is None:
            return self._log_factor(value, leverage, *pooled)
        used = np.stack([each != 0 for each in form.factors])
        arm = np.take_along_axis(np.stack(form.places), used.argmax(axis=0)[None], axis=0)[0]
        own = _units(*(each.reshape(-1).take(arm) for each in self._within))
        single = used.sum(axis=0) == 1
        return self._log_factor(value, leverage, *(np.where(single, a, b) for a, b in zip(own, pooled, strict=True)))

    def _pooled(self, run: Index) -> list[Floats]:
        """The units of all arms together, in these columns. (c)->(P, c)"""
        return [each[:, 0].take(run, axis=1) for each in _units(*(_over_arms(each) for each in self._within))]

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return self._log_factor(distance, leverage, *_units(*(each.reshape(-1).take(arm) for each in self._within)))

    @cached_property
    def _within(self) -> tuple[Floats, Floats]:
        scatter = np.zeros_like(self.data.counts) if self.data.scatter is None else self.data.scatter
        return scatter, np.maximum(self.data.counts - 1.0, 0.0)

    def _log_factor(
        self, value: Floats, leverage: Floats, scatter: Floats, dof: Floats, root: Floats, most: Floats
    ) -> LogFactor:
        """The value is used up."""
        error = leverage * scatter
        error /= dof
        np.maximum(error, 1e-300, out=error)
        t = np.divide(value, np.sqrt(error, out=error), out=value)
        np.clip(t, -HUGE, HUGE, out=t)
        length = np.multiply(t, t, out=error)
        length += dof
        rho = np.divide(t, np.sqrt(length, out=length), out=t)
        rho *= root  # the one node of the rule for chi

        def log_factor(p: int, q: Floats) -> Floats:
            q = np.minimum(q, most[p])
            return q * (rho[p] - 0.5 * q)

        return log_factor


def _units(scatter: Floats, freedom: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Scatter, its degrees of freedom (at least 1), sqrt(dof + 1), and the boldest bet, 0 without a deviation."""
    dof = np.maximum(freedom, 1.0)
    root = np.sqrt(dof + 1.0)
    return scatter, dof, root, root * (BOLD * ((freedom >= 1) & (scatter > 0)))


def _over_arms(values: Floats) -> Floats:
    """The sum over the arms, in the same order however many columns there are. (P, K, n)->(P, 1, n)"""
    if values.shape[-1] == 1:  # NumPy would add in pairs
        return values.cumsum(axis=1)[:, -1:]
    return np.asarray(np.add.reduce(values, axis=1, keepdims=True))


def _variance(scatter: Floats, freedom: Floats) -> Floats:
    """Infinite (z is 0) as long as there is none."""
    return np.where(freedom > 0, np.maximum(scatter, 1e-300) / np.maximum(freedom, 1.0), np.inf)


def _within(batch: Batch) -> tuple[Floats, Floats]:
    """The sum of squares about each arm's mean, 0 if it is not known, and its degrees of freedom. (K), (K)"""
    scatter = np.zeros_like(batch.counts) if batch.scatter is None else batch.scatter
    return scatter, np.maximum(batch.counts - 1.0, 0.0)


@np.errstate(all="ignore")
def fixed_size_student_bet(sizes: Floats, new: Floats, error: Floats, dof: Floats) -> Floats:
    """log e of fixed-size bets: `new` is less the value, `error` has `dof` degrees of freedom. `(k),(),(),()->(k)`"""
    t = np.clip(new / error, -HUGE, HUGE)
    rho = t / np.hypot(np.sqrt(dof), t)
    nodes, log_weights = (each.reshape(NODES, 1, *dof.shape) for each in _rule(tuple(dof.reshape(-1).tolist())))

    def logs(q: Floats) -> Floats:
        q = np.minimum(q, BOLD * np.sqrt(dof + 1.0))
        return log_sum_exp(log_weights + q * (rho * nodes - q / 2))

    return where_sized(sizes, logs)


@functools.lru_cache(maxsize=256)
def _rule(dof: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Nodes and log weights of the quadrature on the first axis; bets are looked at again for many values."""
    distinct, which = np.unique(dof, return_inverse=True)
    nodes, log_weights = chi_rule(distinct)
    return nodes[which].T, log_weights[which].T


def chi_rule(dof: Floats) -> tuple[Floats, Floats]:
    """Nodes x and log weights, on a last axis, of the Gauss rule for X^2/2 ~ Gamma((dof + 1)/2), X ~ chi(dof + 1).

    Golub and Welsch (1969) for the nodes, in the standardize variable (X^2/2 - shape)/sqrt(shape), so that it tends to
    Gauss-Hermite; Christoffel numbers for the weights, whose small values eigenvectors would get wrong.
    """
    shape = (dof + 1.0)[:, None] / 2.0  # alpha + 1
    k = np.arange(NODES)
    diagonal = 2.0 * k / np.sqrt(shape)
    beside = np.sqrt(k[1:] * (1.0 + (k[1:] - 1) / shape))
    jacobi = np.zeros((dof.size, NODES, NODES))
    jacobi[:, k, k] = diagonal
    jacobi[:, k[1:], k[:-1]] = jacobi[:, k[:-1], k[1:]] = beside
    place = np.linalg.eigvalsh(jacobi)
    before, now, total = np.zeros_like(place), np.ones_like(place), np.ones_like(place)
    for j in range(NODES - 1):
        past = beside[:, j - 1, None] if j else 0.0
        before, now = now, ((place - diagonal[:, j, None]) * now - past * before) / beside[:, j, None]
        total += now * now
    nodes = np.sqrt(2.0 * np.maximum(shape + np.sqrt(shape) * place, 0.0))
    return nodes, -np.log(total)
