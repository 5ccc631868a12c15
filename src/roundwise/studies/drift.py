"""Do the batches agree? A check of what the guarantee assumes, for a warning; it proves nothing.

If the results of an arm have the same law in every batch (up to a shift common to all arms, where the question compares
arms), a batch lies about what the batches before it lead one to expect as chance has it: the residual d of its means,
with its covariance V, has d'V^-1 d about chi-squared, and these squares add up, batch after batch, to the sum of
squares about the common fit. Shifts of single arms, and rows that depend on each other within a batch (clusters), make
it larger. What is kept between batches does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.estimates import Past, known_from
from roundwise.noise import variances
from roundwise.problem import Problem
from roundwise.questions.base import quiet
from roundwise.state import Batch
from roundwise.studies.tails import chi_squared_tail

Places = NDArray[np.intp]

SURPRISING = 1e-3  # batches that agree worse than this by chance alone are warned of
ENOUGH = 5.0  # events (and non-events) that a batch must be expected to have, for a normal law to be near


class Disagreement(NamedTuple):
    """How likely chance alone scatters the batches so far apart, and which arm and batch stand out most."""

    chance: float
    arm: int
    batch: int  # its number


class Apart(NamedTuple):
    """How far batches were from what those before them led to expect, and where most of all."""

    square: float = 0.0  # chi-squared if chance alone was at work
    freedom: int = 0  # its degrees of freedom
    most: float = 0.0  # the largest residual, in standard deviations
    arm: int = 0
    batch: int = 0


class Agreement(NamedTuple):
    """What is kept of the batches so far."""

    sums: Past  # of all results, without the batches one by one
    used: Past  # of the arms that had enough results, weighed by 1/variance
    shifted: Apart = Apart()  # up to a shift of all arms together
    plain: Apart = Apart()

    @classmethod
    def none(cls, arms: int) -> Agreement:
        """Before the first batch."""
        return cls(Past.none((arms,)), Past.none((arms,)))


@quiet
def agreement(problem: Problem, so_far: Agreement, batch: Batch, number: int) -> Agreement:
    """With one more batch."""
    sums = so_far.sums.plus(batch)._replace(history=(), earlier=None)
    variance = variances(problem.noise, sums)
    counts, totals = _usable(problem, variance, batch)
    scale = variance.max() / variance  # an arm that varies less weighs more, as if it had more results
    weighed = Batch(scale * counts, scale * totals)
    unit = 1.0 if _estimated(problem) else float(variance.max())
    found = [
        _further(so_far.used, weighed, unit, number, shifts, known)
        for shifts, known in ((True, so_far.shifted), (False, so_far.plain))
    ]
    used = so_far.used.plus(weighed) if counts.any() else so_far.used
    return Agreement(sums, used, *found)


def differs(problem: Problem, so_far: Agreement, shifts: bool) -> Disagreement | None:
    """How well the batches agree, up to a `shift` of all arms together; None if that cannot be said."""
    apart = so_far.shifted if shifts else so_far.plain
    if apart.freedom < 1:
        return None
    chance = chi_squared_tail(apart.freedom, apart.square)
    if _estimated(problem):  # the variance is an estimate, too
        from scipy.special import fdtrc

        variance = float(variances(problem.noise, so_far.sums).max())
        ratio = apart.square / variance / apart.freedom if variance > 0 else math.nan
        chance = fdtrc(apart.freedom, so_far.sums.freedom.sum(), ratio)
    return Disagreement(float(chance), apart.arm, apart.batch) if math.isfinite(chance) else None


def disagreement(problem: Problem, batches: Sequence[Batch], shifts: bool) -> Disagreement | None:
    """The same of a list of batches."""
    found = Agreement.none(problem.arms)
    for number, batch in enumerate(batches, 1):
        found = agreement(problem, found, batch, number)
    return differs(problem, found, shifts)


def _further(past: Past, batch: Batch, unit: float, number: int, shifts: bool, apart: Apart) -> Apart:
    """With the residual of one more batch, whose weights have variance `unit`."""
    arms = np.flatnonzero((batch.counts > 0) & (past.counts > 0))
    if len(arms) < (2 if shifts else 1):
        return apart
    known = known_from(past, np.asarray(unit), shifts)
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


def _most(apart: Apart, single: Floats, square: float, freedom: int, arms: Places, number: int) -> Apart:
    place = int(np.abs(single).argmax())
    most, arm, batch = apart.most, apart.arm, apart.batch
    if abs(single[place]) > most:
        most, arm, batch = float(abs(single[place])), int(arms[place]), number
    return Apart(apart.square + square, apart.freedom + freedom, most, arm, batch)


def _estimated(problem: Problem) -> bool:
    """Whether one variance of all results is estimated: squares are then divided by it at the end."""
    return problem.noise.needs == "squares"


def _usable(problem: Problem, variance: Floats, batch: Batch) -> tuple[Floats, Floats]:
    """Counts and totals of the arms that had enough results in the batch."""
    outcome = problem.noise.outcome
    width = outcome.high - outcome.low
    # of events; n p (1 - p) is below both n p and n (1 - p)
    unit = 1.0 if outcome.whole else width**2 / 4 if math.isfinite(width) else 0.0
    enough = (batch.counts > 0) & (batch.counts * variance >= ENOUGH * unit)
    return np.where(enough, batch.counts, 0.0), np.where(enough, batch.totals, 0.0)
