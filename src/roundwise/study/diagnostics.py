"""Do the batches agree, and are results split and missing as chance has it? Checks of what the guarantee assumes, for
warnings; they prove nothing, but for the confidence sequences that are kept with them (`noise/base.py`).

If the results of an arm have the same law in every batch (up to a shift common to all arms, where the question compares
arms), a batch lies about what the batches before it lead one to expect as chance has it: the residual d of its means,
with its covariance V, has d'V^-1 d about chi-squared, and these squares add up, batch after batch, to the sum of
squares about the common fit. Shifts of single arms, and rows that depend on each other within a batch (clusters), make
it larger. What is kept between batches does not grow with their number.

Whether arms differ in what is missing, or in how many there are, are chi-squared tests, too; where few are expected the
chance is found by drawing (with a fixed seed), which is exact up to the number of draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats, quiet
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.problem import Problem
from roundwise.noise.base import RefutationState, update_refutation


def chi_squared_tail(freedom: int, square: float) -> float:
    """The chance that chi-squared with `freedom` degrees of freedom is at least `square`.

    With h = square/2 it is exp(-h) (1 + h + ... + h^(m-1)/(m-1)!) for 2m degrees of freedom, and erfc(sqrt h) +
    exp(-h) (h^(1/2)/Gamma(3/2) + ... + h^(m-1/2)/Gamma(m+1/2)) for 2m + 1 (Abramowitz & Stegun, 26.4.4 and 26.4.5).

    >>> round(chi_squared_tail(1, 3.841458820694124), 12), round(chi_squared_tail(2, 5.991464547107979), 12)
    (0.05, 0.05)
    """
    if not square > 0:
        return 1.0 if square <= 0 else math.nan
    if math.isinf(square):
        return 0.0
    h, odd = 0.5 * square, freedom % 2
    first = -h + (0.5 * math.log(h) - math.lgamma(1.5) if odd else 0.0)  # the logarithm of the first term
    steps = math.log(h) - np.log(np.arange(1, freedom // 2) + 0.5 * odd)  # from each term to the next
    terms = np.exp(np.concatenate([[first], first + np.cumsum(steps)])[: freedom // 2])
    return min(1.0, float(terms.sum()) + (math.erfc(math.sqrt(h)) if odd else 0.0))


Places = NDArray[np.intp]

SURPRISING = 1e-3  # batches that agree worse than this by chance alone are warned of
ENOUGH = 5.0  # events (and non-events) that a batch must be expected to have, for a normal law to be near


class Disagreement(NamedTuple):
    """How likely chance alone scatters the batches so far apart, and which arm and batch stand out most."""

    chance: float
    arm: int
    batch: int  # its number


class Heterogeneity(NamedTuple):
    """How far batches were from what those before them led to expect, and where most of all."""

    chi_squared: float = 0.0  # of this law if chance alone was at work
    freedom: int = 0  # its degrees of freedom
    largest_residual: float = 0.0  # in standard deviations
    arm: int = 0
    batch: int = 0


class Agreement(NamedTuple):
    """The statistics of the batches so far."""

    sums: Past  # of all results, without the batches one by one
    weighted: Past  # of the arms that had enough results, by 1/variance
    refutation: RefutationState  # tests of the noise model itself
    up_to_shifts: Heterogeneity = Heterogeneity()  # of all arms together
    plain: Heterogeneity = Heterogeneity()

    @classmethod
    def none(cls, arms: int) -> Agreement:
        """Before the first batch."""
        return cls(Past.none((arms,)), Past.none((arms,)), RefutationState.none(arms))


@quiet
def update_agreement(problem: Problem, so_far: Agreement, batch: Batch, number: int) -> Agreement:
    """With one more batch."""
    sums = so_far.sums.plus(batch)._replace(history=(), earlier=None)
    variance = problem.noise.variances(sums)
    counts, totals = _usable(problem, variance, batch)
    scale = variance.max() / variance  # an arm that varies less weighs more, as if it had more results
    weighed = Batch(scale * counts, scale * totals)
    unit = 1.0 if _estimated(problem) else float(variance.max())
    shifted, plain = (
        _further(so_far.weighted, weighed, unit, number, shifts, known)
        for shifts, known in ((True, so_far.up_to_shifts), (False, so_far.plain))
    )
    used = so_far.weighted.plus(weighed) if counts.any() else so_far.weighted
    return Agreement(sums, used, update_refutation(problem.noise, so_far.refutation, batch), shifted, plain)


def find_disagreement(problem: Problem, so_far: Agreement, shifts: bool) -> Disagreement | None:
    """How well the batches agree, up to a `shift` of all arms together; None if that cannot be tested."""
    apart = so_far.up_to_shifts if shifts else so_far.plain
    if apart.freedom < 1:
        return None
    chance = chi_squared_tail(apart.freedom, apart.chi_squared)
    if _estimated(problem):  # the variances are estimates, too: one of all arms, or one of each
        from scipy.special import fdtrc

        variances, freedom = problem.noise.variances(so_far.sums), so_far.sums.freedom
        ratio = apart.chi_squared / variances.max() / apart.freedom if variances.max() > 0 else math.nan
        chance = fdtrc(apart.freedom, freedom.sum() if np.ptp(variances) == 0 else freedom.mean(), ratio)
    return Disagreement(float(chance), apart.arm, apart.batch) if math.isfinite(chance) else None


def _further(past: Past, batch: Batch, unit: float, number: int, shifts: bool, apart: Heterogeneity) -> Heterogeneity:
    """With the residual of one more batch, whose weights have variance `unit`."""
    arms = np.flatnonzero((batch.counts > 0) & (past.counts > 0))
    if len(arms) < (2 if shifts else 1):
        return apart
    known = estimate_from(past, np.asarray(unit), shifts)
    own, before = 1.0 / batch.counts[arms], 1.0 / past.counts[arms]
    residual = batch.totals[arms] * own - known.means[arms]
    if not shifts:
        single = residual / np.sqrt(unit * (own + before))
        return _most(apart, single, float((single**2).sum()), len(arms), arms, number)
    right = np.stack([residual, np.ones(len(arms))], axis=-1)
    solved, spread = right / (own + before)[:, None], own + before
    if known.fit is not None:
        solved, spread = known.fit.solved(arms, own, before, right)
    whole = right.T @ solved  # d'V^-1 d, d'V^-1 1, 1'V^-1 1
    shift = whole[0, 1] / whole[1, 1]
    square = max(float(whole[0, 0] - whole[0, 1] * shift), 0.0) / unit
    return _most(apart, (residual - shift) / np.sqrt(unit * spread), square, len(arms) - 1, arms, number)


def _most(
    apart: Heterogeneity, single: Floats, square: float, freedom: int, arms: Places, number: int
) -> Heterogeneity:
    place = int(np.abs(single).argmax())
    most, arm, batch = apart.largest_residual, apart.arm, apart.batch
    if abs(single[place]) > most:
        most, arm, batch = float(abs(single[place])), int(arms[place]), number
    return Heterogeneity(apart.chi_squared + square, apart.freedom + freedom, most, arm, batch)


def _estimated(problem: Problem) -> bool:
    """Whether the largest variance is estimated: squares are then divided by it at the end."""
    return problem.noise.estimates_variance


def _usable(problem: Problem, variance: Floats, batch: Batch) -> tuple[Floats, Floats]:
    """Counts and totals of the arms that had enough results in the batch."""
    outcome = problem.noise.outcome
    width = outcome.high - outcome.low
    # of events; n p (1 - p) is below both n p and n (1 - p)
    unit = 1.0 if outcome.whole else width**2 / 4 if math.isfinite(width) else 0.0
    enough = (batch.counts > 0) & (batch.counts * variance >= ENOUGH * unit)
    return np.where(enough, batch.counts, 0.0), np.where(enough, batch.totals, 0.0)


EXPECTED = 5.0  # in every cell, for the chi-squared law to be near
DRAWS = 9999


def missing_p_value(counts: Floats, missing: Floats) -> float:
    """How likely chance alone makes the shares of missing outcomes differ so much; 1 if none is missing.

    `counts` came back with an outcome, `missing` without one. (K), (K)

    >>> import numpy as np
    >>> missing_p_value(np.array([90.0, 99.0]), np.array([10.0, 1.0])) < 0.01
    True
    >>> missing_p_value(np.array([90.0, 93.0]), np.array([10.0, 7.0])) > 0.4
    True
    """
    counts, missing = counts[counts + missing > 0], missing[counts + missing > 0]
    sizes = counts + missing
    lost = missing.sum()
    if len(sizes) < 2 or not 0 < lost < sizes.sum():
        return 1.0
    expected = sizes * lost / sizes.sum()
    kept = sizes - expected

    def distance(drawn: Floats) -> Floats:
        return np.asarray(((drawn - expected) ** 2 * (1 / expected + 1 / kept)).sum(axis=-1))

    if min(expected.min(), kept.min()) >= EXPECTED or sizes.sum() > 10**9:
        return chi_squared_tail(len(sizes) - 1, float(distance(missing)))
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_hypergeometric(sizes.astype(np.int64), int(lost), DRAWS, method="marginals")
    return _share(distance(drawn.astype(np.float64)), float(distance(missing)))


def split_p_value(shares: Floats, counts: Floats) -> float:
    """How likely chance alone splits the results so differently from what was asked (sample-ratio mismatch).

    `shares` are of any size, such as what was asked for; `counts` came, missing ones included. (K), (K)

    >>> import numpy as np
    >>> split_p_value(np.array([1.0, 1.0]), np.array([5000.0, 5300.0])) < 0.01
    True
    >>> split_p_value(np.array([2.0, 1.0, 0.0]), np.array([61.0, 33.0, 0.0])) > 0.5
    True
    """
    if (counts[shares <= 0] > 0).any():
        return 0.0
    wanted, came = shares[shares > 0], counts[shares > 0]
    total = came.sum()
    if len(wanted) < 2 or not total:
        return 1.0
    chances = wanted / wanted.sum()
    expected = total * chances

    def distance(drawn: Floats) -> Floats:
        return np.asarray(((drawn - expected) ** 2 / expected).sum(axis=-1))

    if expected.min() >= EXPECTED or total > 10**9:
        return chi_squared_tail(len(wanted) - 1, float(distance(came)))
    drawn = np.random.default_rng(0).multinomial(int(total), chances, DRAWS)
    return _share(distance(drawn.astype(np.float64)), float(distance(came)))


class Splits(NamedTuple):
    """The same of several rounds, each with the shares it was asked with: rounds too small for the law are left out.

    >>> import numpy as np
    >>> equal, other = np.array([1.0, 1.0]), np.array([3.0, 1.0])
    >>> Splits().plus(equal, np.array([520.0, 480.0])).plus(other, np.array([760.0, 240.0])).chance > 0.2
    True
    >>> Splits().plus(equal, np.array([560.0, 440.0])).plus(other, np.array([690.0, 310.0])).chance < 1e-6
    True

    A page that always splits equally, whatever a round asks for, is judged by its own split.

    >>> Splits().plus(other, np.array([510.0, 490.0])).chance > 0.2
    True
    """

    chi_squared: float = 0.0
    freedom: int = 0
    asked: tuple[float, ...] = ()  # in all rounds, by arm

    def plus(self, shares: Floats, counts: Floats) -> Splits:
        """With one more round. (K), (K)"""
        old = np.zeros(len(shares))
        old[: len(self.asked)] = self.asked[: len(shares)]
        found = self._replace(asked=tuple((old + shares).tolist()))
        wanted, came = shares[shares > 0], counts[shares > 0]
        expected = came.sum() * wanted / max(wanted.sum(), 1e-300)
        if len(wanted) < 2 or expected.min() < EXPECTED:
            return found
        square = float(((came - expected) ** 2 / expected).sum())
        equal = np.full(len(shares), counts.mean())
        if chi_squared_tail(len(wanted) - 1, square) < SURPRISING <= split_p_value(equal, counts):
            return self.plus(equal, counts)
        return found._replace(chi_squared=self.chi_squared + square, freedom=self.freedom + len(wanted) - 1)

    @property
    def chance(self) -> float:
        """How likely chance alone splits results so differently."""
        return chi_squared_tail(self.freedom, self.chi_squared) if self.freedom else 1.0


def _share(drawn: Floats, seen: float) -> float:
    return float((1 + (drawn >= seen * (1 - 1e-9)).sum()) / (1 + len(drawn)))
