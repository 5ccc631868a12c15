"""Do the batches agree? A check of what the guarantee assumes, for a warning; it proves nothing.

If the results of an arm have the same law in every batch (up to a shift common to all arms, where the question compares
arms), the batch means scatter about their fit as chance has it: sum n (mean - fit)^2 / variance is about chi-squared.
Shifts of single arms, and rows that depend on each other within a batch (clusters), make it larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.estimates import Past, known_from
from roundwise.noise import variances
from roundwise.problem import Problem
from roundwise.questions.base import quiet
from roundwise.state import Batch

SURPRISING = 1e-3  # batches that agree worse than this by chance alone are warned of
ENOUGH = 5.0  # events (and non-events) that a batch must be expected to have, for a normal law to be near


class Disagreement(NamedTuple):
    """How likely chance alone scatters the batches so far apart, and which arm and batch stand out most."""

    chance: float
    arm: int
    batch: int  # from 0


@quiet
def disagreement(problem: Problem, batches: Sequence[Batch], shifts: bool) -> Disagreement | None:
    """How well the batches of one study agree, up to a `shift` of all arms together; None if that cannot be said."""
    if len(batches) < 2:
        return None
    from scipy.special import chdtrc, fdtrc

    past = Past.none((problem.arms,))
    for batch in batches:
        past = past.plus(batch)
    variance = variances(problem.noise, past)
    usable = [_usable(problem, variance, batch) for batch in batches]
    scale = variance.max() / variance  # an arm that varies less weighs more, as if it had more results
    weighed = [Batch(scale * counts, scale * totals) for counts, totals in usable]
    kept = Past.none((problem.arms,))
    for batch in weighed:
        kept = kept.plus(batch)
    fit = known_from(kept, np.asarray(variance.max()), shifts).means
    scatter = np.zeros((len(batches), problem.arms))
    for r, (counts, totals) in enumerate(usable):
        apart = np.where(counts > 0, totals / counts - fit, 0.0)
        if shifts and r > 0 and counts.any():
            apart = apart - (weighed[r].counts @ apart) / weighed[r].counts.sum()
        scatter[r] = np.where(counts > 0, apart * np.sqrt(counts / variance), 0.0)
    cells = sum(int((counts > 0).sum()) for counts, _ in usable)
    seen = sum(bool(counts.any()) for counts, _ in usable)
    freedom = cells - int((kept.counts > 0).sum()) - (max(seen - 1, 0) if shifts else 0)
    if freedom < 1:
        return None
    square = float((scatter**2).sum())
    chance = chdtrc(freedom, square)
    if problem.noise.needs == "squares":  # the variance is an estimate, too
        chance = fdtrc(freedom, past.freedom.sum(), square / freedom)
    number, arm = np.unravel_index(int(np.abs(scatter).argmax()), scatter.shape)
    return Disagreement(float(chance), int(arm), int(number))


def _usable(problem: Problem, variance: Floats, batch: Batch) -> tuple[Floats, Floats]:
    """Counts and totals of the arms that had enough results in the batch."""
    outcome = problem.noise.outcome
    width = outcome.high - outcome.low
    # of events; n p (1 - p) is below both n p and n (1 - p)
    unit = 1.0 if outcome.whole else width**2 / 4 if math.isfinite(width) else 0.0
    enough = (batch.counts > 0) & (batch.counts * variance >= ENOUGH * unit)
    return np.where(enough, batch.counts, 0.0), np.where(enough, batch.totals, 0.0)
