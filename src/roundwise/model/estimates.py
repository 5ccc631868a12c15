"""Estimates and their variances before a batch, robust to shifts of whole batches.

A result of arm j in batch r is mu_j + s_r + noise, where the shift s_r (a season, a new grader) is common to all arms.
Least squares over both removes the shifts from every difference of means. The system has one equation per batch (the
arms are eliminated) or, once there are many more batches than arms, one per arm: from then on batches are no longer
stored one by one, so the state stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats, quiet, total, zeros
from roundwise.model.batch import Batch
from roundwise.solvers.halfspaces import Halfspaces

CROWD = 100  # with more arms, extra rules apply to those that crowd near the top
FEW = 16  # with at most this many batches, a loop over pairs of them is faster than one stacked array
_LOOSE = 1e-9  # a prior on the shifts, so wide that it only matters if a shift cannot be told from the means


class EarlierBatches(NamedTuple):
    """Batches that are no longer stored one by one, as normal equations of the means.

    The shift s_r of every batch is eliminated: A mu = b, up to a constant.
    """

    system: Floats  # (K, K), A = sum over batches of diag(n) - n n'/w, where w is the number of results in the batch
    right: Floats  # (K), b = sum over batches of t - n T/w, where T is the total of all arms
    first: Floats  # (K), results of each arm in the first batch that had any
    batches: int

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> EarlierBatches:
        return cls(np.zeros((*shape, shape[-1])), np.zeros(shape), np.zeros(shape), 0)

    def plus(self, counts: Floats, totals: Floats) -> EarlierBatches:
        share = counts / _weight(counts)[..., None]
        system = self.system + _diagonal(counts) - share[..., None] * counts[..., None, :]
        right = self.right + (totals - share * total(totals)[..., None])
        return EarlierBatches(system, right, np.where(self.first > 0, self.first, counts), self.batches + 1)


class Past(NamedTuple):
    """All batches so far, as sums, and also one by one while they are few."""

    counts: Floats  # (K), N
    totals: Floats  # (K)
    scatter: Floats  # (K), sum of squares about each batch's own mean, where known
    freedom: Floats  # (K), their degrees of freedom
    history: tuple[tuple[Floats, Floats], ...]  # counts and totals of each batch; only of the last if there are many
    earlier: EarlierBatches | None = None  # the batches that are not in the history
    pairs: Past | None = None  # of every two arms on their common items, as sums alone (`Batch.pairs`)
    cubes: Floats | None = None  # (K), sum of cubes about each batch's own mean; None once a batch came without it
    cube_freedom: Floats | None = None  # (K), sum (n - 1)(n - 2)/n, to which their expectation is proportional

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Past:
        """The past before the first batch."""
        nothing = zeros(shape)
        return cls(nothing, nothing, nothing, nothing, ())

    def plus(self, batch: Batch, same_batch: bool = False) -> Past:
        """The past with one more batch, or with one more part of the last batch."""
        history, earlier = self.history, self.earlier
        if same_batch and history:
            counts, totals = history[-1]
            history = (*history[:-1], (counts + batch.counts, totals + batch.totals))
        else:
            history = (*history, (batch.counts, batch.totals))
        if earlier is not None or len(history) > max(FEW, batch.counts.shape[-1]):
            earlier = EarlierBatches.none(self.counts.shape) if earlier is None else earlier
            for counts, totals in history[:-1]:
                earlier = earlier.plus(counts, totals)
            history = history[-1:]
        scatter, freedom = self.scatter, self.freedom
        if batch.scatter is not None:
            scatter, freedom = scatter + batch.scatter, freedom + np.maximum(batch.counts - 1.0, 0.0)
        counts, totals, pairs = self.counts + batch.counts, self.totals + batch.totals, self.pairs
        if batch.pairs is not None:
            pairs = self.of_pairs.plus(batch.pairs)._replace(history=(), earlier=None)
        cubes, cubed = (None, None) if batch.counts.any() else (self.cubes, self.cube_freedom)
        if batch.cubes is not None and (self.cubes is not None or not self.counts.any()):
            cubes = batch.cubes if self.cubes is None else self.cubes + batch.cubes
            cubed = cube_freedom(batch.counts) + (0.0 if self.cube_freedom is None else self.cube_freedom)
        return Past(counts, totals, scatter, freedom, history, earlier, pairs, cubes, cubed)

    def map_sums(self, function: Callable[[Floats], Floats]) -> Past:
        """The past with a function applied to each sum, without the history."""
        counts, totals, scatter, freedom = (function(each) for each in self[:4])
        cubes, cubed = (None if each is None else function(each) for each in self[-2:])
        return Past(counts, totals, scatter, freedom, (), cubes=cubes, cube_freedom=cubed)

    @property
    def of_pairs(self) -> Past:
        """The differences of every two arms on their common items. (K^2)"""
        if self.pairs is not None:
            return self.pairs
        return Past.none((*self.counts.shape[:-1], self.counts.shape[-1] ** 2))

    @property
    def batches(self) -> int:
        return len(self.history) + (0 if self.earlier is None else self.earlier.batches)

    @property
    def first(self) -> Floats:
        """The results of each arm in the first batch that had any. (K)"""
        found = np.zeros_like(self.counts) if self.earlier is None else self.earlier.first
        for counts, _ in self.history:
            found = np.where(found > 0, found, counts)
        return found

    @property
    @quiet
    def skewness(self) -> Floats:
        """The skewness of the results of each arm, within batches; infinite if unknown. (K)"""
        if self.cubes is None or self.cube_freedom is None:
            return np.full(self.counts.shape, np.inf)
        return skewness_of(self.scatter, self.freedom, self.cubes, self.cube_freedom)

    @property
    def means(self) -> Floats:
        """The pooled means; 0 for an arm without results."""
        return self.totals / np.maximum(self.counts, 1.0)

    @property
    def pooled_variance(self) -> Floats:
        """The variance within arms and batches, pooled over arms; 1 before there is any scatter. ()"""
        freedom = total(self.freedom)
        return np.where(freedom > 0, np.maximum(total(self.scatter), 1e-300) / np.maximum(freedom, 1.0), 1.0)

    @property
    def own_variances(self) -> Floats:
        """The variance of each arm, with the pooled variance weighted as one degree of freedom. (K)"""
        return (self.scatter + self.pooled_variance[..., None]) / (self.freedom + 1.0)


def cube_freedom(counts: Floats) -> Floats:
    """(n - 1)(n - 2)/n: the expected sum of cubes about the mean of n results, per third central moment."""
    return np.maximum(counts - 1.0, 0.0) * np.maximum(counts - 2.0, 0.0) / np.maximum(counts, 1.0)


@quiet
def skewness_of(scatter: Floats, freedom: Floats, cubes: Floats, cubed: Floats) -> Floats:
    """Skewness from sums of squares and cubes and their degrees of freedom; infinite if undefined."""
    found = cubes / cubed / (scatter / freedom) ** 1.5
    return np.where(np.isfinite(found), found, np.inf)


class FormEstimate(NamedTuple):
    """The estimate of some forms of the means, and its variance per unit of sigma^2."""

    pieces: Halfspaces  # (P, S)
    value: Floats  # (P), minus the offset
    leverage: Floats  # (P), infinite for an arm without results


class BatchShiftFit(NamedTuple):
    """The covariance of the batch shifts; the first batch has none."""

    shares: Floats  # (K, R), share of each arm's results in batch r = 2..R
    covariance: Floats  # (R, R), of the shifts, per unit of sigma^2

    def leverage(self, spread: Floats, pieces: Halfspaces) -> Floats:
        """The variance of forms of the means, from their variance without shifts. (P)"""
        weights = [form_values(self.shares[..., r], pieces) for r in range(self.shares.shape[-1])]
        if len(weights) <= FEW:
            twice = 2 * self.covariance
            for r, one in enumerate(weights):
                found = one * self.covariance[..., r, r, None]
                for s in range(r):
                    found += weights[s] * twice[..., r, s, None]
                found *= one
                spread = spread + found
        else:
            stacked = np.stack(weights, axis=-1)
            for r, one in enumerate(weights):
                spread = spread + one * total(stacked * self.covariance[..., None, r, :])
        return np.maximum(spread, 0.0)

    def solved(self, arms: NDArray[np.intp], own: Floats, before: Floats, right: Floats) -> tuple[Floats, Floats]:
        """V^-1 times the right side, and the diagonal of V: the variance of a batch plus that of the means before it.

        For one run and some of the arms. V = diag + S C S', inverted by Woodbury's formula.
        """
        plain, shares = own + before, self.shares[arms]
        over = shares / plain[:, None]
        inner = np.linalg.inv(self.covariance) + shares.T @ over
        found = right / plain[:, None] - over @ np.linalg.solve(inner, over.T @ right)
        return found, plain + ((shares @ self.covariance) * shares).sum(axis=-1)


class ArmMeanFit(NamedTuple):
    """The covariance of the means, used when there are more batches than arms."""

    covariance: Floats  # (K, K), of the means, per unit of sigma^2

    def leverage(self, spread: Floats, pieces: Halfspaces) -> Floats:
        """The variance of forms of the means, from their variance without shifts. (P)"""
        found = np.zeros_like(spread)
        for i, arm in enumerate(np.eye(self.covariance.shape[-1])):
            row = self.covariance[..., i, :]
            found = found + form_values(np.broadcast_to(arm, row.shape), pieces) * form_values(row, pieces)
        return np.where(np.isfinite(spread), np.maximum(found, 0.0), np.inf)

    def solved(self, arms: NDArray[np.intp], own: Floats, before: Floats, right: Floats) -> tuple[Floats, Floats]:
        covariance = self.covariance[np.ix_(arms, arms)] + np.diag(own)
        return np.asarray(np.linalg.solve(covariance, right), dtype=np.float64), np.diag(covariance).copy()


class Estimates(NamedTuple):
    """The estimates before a batch, their covariance structure, and the past they come from."""

    past: Past
    means: Floats  # (K), without the shifts (if there are shifts, up to a constant)
    variance: Floats  # (), an estimate of the variance of one result
    fit: BatchShiftFit | ArmMeanFit | None = None  # if there are shifts

    @quiet
    def forecast(self, pieces: Halfspaces) -> FormEstimate:
        """The estimates of these forms from the past."""
        spread = form_variances(1.0 / self.past.counts, pieces)
        leverage = spread if self.fit is None else self.fit.leverage(spread, pieces)
        return FormEstimate(pieces, form_values(self.means, pieces) - pieces.offsets, leverage)

    def error(self, forecast: FormEstimate) -> Floats:
        """The standard error of each form. (P)"""
        return np.sqrt(self.variance[..., None] * forecast.leverage)


def signal_share(known: Estimates) -> Floats:
    """The share of the variance of the estimated means that is not noise: near 1 once arms are separated. ()"""
    counts = known.past.counts
    seen = counts > 0
    number = np.maximum(seen.sum(axis=-1), 2.0)
    noise = known.variance * total(np.where(seen, 1.0 / np.maximum(counts, 1.0), 0.0)) / number
    means = np.where(seen, known.means, 0.0)
    away = np.where(seen, means - (total(means) / number)[..., None], 0.0)
    return np.clip(1 - noise * (number - 1) / np.maximum(total(away * away), 1e-300), 0.0, 1.0)


def estimate_from(past: Past, variance: Floats, shifts: bool) -> Estimates:
    """Estimates from the past; with `shifts`, from differences within batches only."""
    if not shifts or past.batches < 2:
        return Estimates(past, past.means, variance)
    return _known_by_batch(past, variance) if past.earlier is None else _known_by_arm(past, past.earlier, variance)


def _known_by_batch(past: Past, variance: Floats) -> Estimates:
    """Eliminate the arms: solve a system for the shifts of all batches but the first."""
    pooled, later = past.means, past.history[1:]
    safe = np.maximum(past.counts, 1.0)
    size = len(later)
    runs = past.counts.shape[:-1][::-1]
    shares = [counts / safe for counts, _ in later]
    system, right = np.empty((size, size, *runs)), np.empty((size, *runs))  # runs contiguous
    every = np.stack([counts for counts, _ in later], axis=-2) if size > FEW else None
    product = zeros(past.counts.shape)
    for r, (counts, totals) in enumerate(later):
        if every is not None:  # a loop over pairs of batches would take longer; batches come before the arms
            system[r, : r + 1] = -total(shares[r][..., None, :] * every[..., : r + 1, :]).transpose()
        else:
            for s in range(r + 1):
                system[r, s] = -total(np.multiply(shares[r], later[s][0], out=product)).transpose()
        system[:r, r] = system[r, :r]
        system[r, r] += _weight(counts).transpose()
        right[r] = total(totals - counts * pooled).transpose()
    covariance = _inverse(system)
    means = pooled
    for r in range(size):
        shift = total((covariance[r] * right).transpose())
        means = means - shares[r] * shift[..., None]
    each = np.stack([share.transpose() for share in shares]).transpose()
    return Estimates(past, means, variance, BatchShiftFit(each, covariance.transpose()))


def _inverse(system: Floats) -> Floats:
    """The inverses of symmetric positive definite matrices, runs last; Gauss-Jordan over all runs if small."""
    size = len(system)
    if size > FEW:
        return np.ascontiguousarray(np.linalg.inv(system.transpose()).transpose())
    for p in range(size):  # in place, since no pivoting is needed
        column, scale = system[:, p].copy(), 1.0 / system[p, p]
        row = system[p] * scale
        system -= column[:, None] * row
        system[p] = row
        np.multiply(column, -scale, out=system[:, p])
        system[p, p] = scale
    return system


def _known_by_arm(past: Past, within: EarlierBatches, variance: Floats) -> Estimates:
    """Eliminate the shifts: solve a system for the means of all arms, N-weighted to the pooled mean."""
    for counts, totals in past.history:
        within = within.plus(counts, totals)
    share = past.counts / _weight(past.counts)[..., None]  # one constant is free; N'mu = T fixes it, for accuracy
    system = within.system + share[..., None] * past.counts[..., None, :] + _diagonal((past.counts == 0) * 1.0)
    right = within.right + share * total(past.totals)[..., None]
    covariance = np.asarray(np.linalg.inv(system), dtype=np.float64)
    return Estimates(past, total(covariance * right[..., None, :]), variance, ArmMeanFit(covariance))


def _weight(counts: Floats) -> Floats:
    """The number of results in a batch, plus a little for the prior on its shift. (K)->()"""
    amount = counts.sum(axis=-1)  # integers: exact in any order
    return np.asarray(amount + _LOOSE * (1.0 + amount))


def _diagonal(values: Floats) -> Floats:
    return values[..., None] * np.eye(values.shape[-1])


def form_values(values: Floats, pieces: Halfspaces) -> Floats:
    """sum_s factors_s values[arms_s]. (K)->(P)"""
    if pieces.pairs:
        return arm_of(values, pieces, 0) - arm_of(values, pieces, 1)
    return total(pieces.coefficients * all_arms(values, pieces))


@quiet
def form_variances(values: Floats, pieces: Halfspaces) -> Floats:
    """sum_s factors_s^2 values[arms_s]; infinite values count only if their factor is not 0. (K)->(P)"""
    if pieces.pairs:
        return arm_of(values, pieces, 0) + arm_of(values, pieces, 1)
    factors = pieces.coefficients
    return total(np.where(factors != 0, factors**2 * all_arms(values, pieces), 0.0))


def arm_of(values: Floats, pieces: Halfspaces, s: int) -> Floats:
    """The values of the first (s = 0) or second arm of each pair; the arms may differ by run. (K)->(P)"""
    arms = pieces.arms[..., s]
    if any(arms.strides[:-1]):
        return np.take_along_axis(values, arms, axis=-1)
    return values.transpose()[arms[(0,) * (arms.ndim - 1)]].transpose()  # the same in all runs: faster, runs contiguous


def all_arms(values: Floats, pieces: Halfspaces) -> Floats:
    """The values of all arms of each piece. (K)->(P, S)"""
    arms = pieces.arms
    if not any(arms.strides[:-2]):
        return values.transpose()[arms[(0,) * (arms.ndim - 2)].transpose()].transpose()
    return np.take_along_axis(values, arms.reshape(*arms.shape[:-2], -1), axis=-1).reshape(arms.shape)
