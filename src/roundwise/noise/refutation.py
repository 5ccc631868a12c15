"""Whether the results refute the noise model itself, whatever the means are (Proposition 29).

For all possible means there are e-processes against "these are the means, and the noise is as assumed". Where even the
least of them over all means reaches the bar, the confidence set of the means is empty, and what is assumed of the
results is refuted: a true model ever is with probability at most `FALSE_ALARM`, however often one looks. What is kept
between batches is a few numbers an arm:

- *Between batches*: how far the means of an arm in its batches lie from its mean over all (its deviance), for values in
  a range, counts, and every model with a sigma: means that move, rows of a batch that depend on each other.
- *Within batches*: how far results lie from the mean of their batch, for models with a sigma: one that is too small.
- *Normal results of unknown deviation*: a confidence sequence for the mean of each arm, which may become empty.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.model.batch import Batch
from roundwise.noise.base import Noise

FALSE_ALARM = 1e-3  # the probability that a true model is ever refuted, at most
BAR = math.log(2 / FALSE_ALARM)  # of either of two tests
_PRIOR = 1.0  # results that the mixture over normal means is worth
_TILTS = 0.97 * 0.7 ** np.arange(30)  # u, of the mixture over exponents
_NORMAL = 0.5 * np.log1p(-_TILTS)  # log 1/E exp(u z^2/2), z sub-Gaussian
_CHERNOFF = np.log1p(-_TILTS) - _TILTS * math.log(2)  # log 1/E exp(u x) at most, where P(x >= t) <= 2 exp(-t)


class Held(NamedTuple):
    """What the tests keep of the batches so far."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats  # (K), sum of squares about the mean of the arm; nan once a batch came without
    lower: Floats  # (K), of the means that are left, where the deviation is unknown
    upper: Floats  # (K)
    deviance: Floats  # (K), of the means of batches from those over all
    cells: Floats  # (K), the means of batches that it is of
    square: float = 0.0  # within batches and arms, in units of sigma^2
    rows: float = 0.0  # the results that it is of
    apart: float = 0.0  # log of the most that was won on batches that lie apart
    spread: float = 0.0  # log of the most that was won on results that vary too much

    @classmethod
    def none(cls, arms: int) -> Held:
        """Before the first batch."""
        nothing = np.zeros(arms)
        return cls(nothing, nothing, nothing, np.full(arms, -np.inf), np.full(arms, np.inf), nothing, nothing)

    @property
    def moving(self) -> int | None:
        """The arm whose batches lie furthest apart, if no means fit them all."""
        if (self.lower > self.upper).any():
            return int((self.lower - self.upper).argmax())
        return int(self.deviance.argmax()) if self.apart >= BAR else None

    @property
    def spreading(self) -> bool:
        """Whether results vary more than sigma allows."""
        return self.spread >= BAR


@quiet
def further(noise: Noise, held: Held, batch: Batch) -> Held:
    """With one more batch."""
    n, more = held.counts, batch.counts
    counts, totals = n + more, held.totals + batch.totals
    old, new, mean = (sums / np.maximum(sizes, 1.0) for sums, sizes in _sums(held, batch))
    within = np.where(more > 1, np.nan, 0.0) if batch.scatter is None else batch.scatter
    squares = n * more / np.maximum(counts, 1.0) * (new - old) ** 2
    found = held._replace(counts=counts, totals=totals, scatter=held.scatter + within + squares)
    sigmas, seen = _sigmas(noise), more > 0
    if sigmas is not None and batch.scatter is not None:
        square = held.square + float((batch.scatter / sigmas**2).sum())
        rows = held.rows + float(more.sum())
        spread = max(held.spread, _log_mean(_TILTS * square / 2 + rows * _NORMAL))
        found = found._replace(square=square, rows=rows, spread=spread)
    if sigmas is None and not noise.outcome.limited and not noise.outcome.counts:
        if noise.needs != "squares":
            return found
        radius = _radius(counts, found.scatter, BAR + math.log(len(counts)))
        lower = np.where(seen, np.fmax(held.lower, mean - radius), held.lower)
        upper = np.where(seen, np.fmin(held.upper, mean + radius), held.upper)
        return found._replace(lower=lower, upper=upper)
    between = more * _deviance(noise, sigmas, new, mean) + np.where(n > 0, n * _deviance(noise, sigmas, old, mean), 0.0)
    deviance = held.deviance + np.where(seen, between, 0.0)
    cells = held.cells + seen
    factors = _CHERNOFF if sigmas is None else _NORMAL
    logs = _TILTS[:, None] * deviance + factors[:, None] * cells
    logs = logs if noise.shares_items else logs.sum(axis=-1)  # arms are multiplied where they are independent
    return found._replace(deviance=deviance, cells=cells, apart=max(held.apart, _log_mean(logs)))


def _sums(held: Held, batch: Batch) -> tuple[tuple[Floats, Floats], ...]:
    """Totals and counts: before the batch, of it, and after it."""
    old, new = (held.totals, held.counts), (batch.totals, batch.counts)
    return old, new, (old[0] + new[0], old[1] + new[1])


def _sigmas(noise: Noise) -> Floats | None:
    """The deviations of all arms; None without any, and for values in a range, which says more."""
    sigma = None if noise.outcome.limited else noise.known_sigma
    return None if sigma is None else np.asarray(sigma) if noise.arm_sigmas is None else noise.arm_sigmas


def _deviance(noise: Noise, sigmas: Floats | None, value: Floats, mean: Floats) -> Floats:
    """Of the average of n results from their mean, for each of them: P(n d >= t) <= exp(-t) on either side."""
    if sigmas is not None:
        return (value - mean) ** 2 / (2 * sigmas**2)
    outcome = noise.outcome
    if not outcome.limited:
        return _excess(value, mean - value)
    width = outcome.high - outcome.low
    value, mean = (np.clip((each - outcome.low) / width, 0.0, 1.0) for each in (value, mean))
    return _excess(value, mean - value) + _excess(1.0 - value, value - mean)


@quiet
def _excess(value: Floats, off: Floats) -> Floats:
    """value h(off/value) with h(x) = x - log(1 + x); its limit, off, at 0."""
    share = np.maximum(off / value, -1.0)
    return np.where(value > 0, value * (share - np.log1p(share)), np.maximum(off, 0.0))


@quiet
def _radius(n: Floats, scatter: Floats, bar: float) -> Floats:
    """How far from its average the mean of an arm may lie: a normal mixture of t statistics, at all n at once."""
    share = -(n + _PRIOR) * np.expm1(-(2 * bar + np.log1p(n / _PRIOR)) / n)  # of the squares about a mean
    return np.where(share < n, np.sqrt(share * scatter / (n * (n - share))), np.inf)


def _log_mean(logs: Floats) -> float:
    return float(np.logaddexp.reduce(logs, axis=None)) - math.log(logs.size)
