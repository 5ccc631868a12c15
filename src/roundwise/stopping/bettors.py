"""Which bets a noise model allows, and what it says of the variance. (WAGER.md, sections 2 and 7.)

A bettor sees what was known before a batch and the batch, and returns log e-values: that forms of the means exceed
their offsets, and that single means lie above (or below) a level. Each has expectation at most 1 under its null,
whatever was seen before (docs/why-the-guarantee-holds.md). `need` is what is still to be won; where it is not positive
nothing is bet, and log e is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from roundwise.questions.base import Halfspaces, quiet
from roundwise.record import Batch
from roundwise.runs import Bools, Floats, total
from roundwise.stopping import bets
from roundwise.stopping.past import Estimates, Past, at, squares_at


class Bettor(Protocol):
    """The bets of one noise model."""

    def variance(self, past: Past) -> Floats:
        """A guess at the variance of one result, from the past: it sizes bets and batches, and proves nothing. ()"""

    def form(self, past: Past, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats) -> Floats:
        """log e for each form exceeding its offset, from results of one batch. (P)"""

    def level(self, past: Past, batch: Batch, level: float, above: Bools, need: Floats) -> Floats:
        """log e for each arm's mean above the level, or below it. (K)"""


@dataclass(frozen=True)
class GaussianBettor:
    """Sub-Gaussian rewards with known sigma; `exact` if they are normal with just this sigma (capped bets)."""

    sigma: float
    exact: bool = False

    def variance(self, past: Past) -> Floats:
        """The square of sigma."""
        return np.full(past.counts.shape[:-1], self.sigma**2)

    def form(self, past: Past, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats) -> Floats:
        """On the form of the batch's means."""
        means, spread = _batch(batch)
        new = at(means, pieces) - pieces.offsets
        return self._bet(known.value(pieces), known.leverage(pieces), new, squares_at(spread, pieces), need)

    @quiet
    def level(self, past: Past, batch: Batch, level: float, above: Bools, need: Floats) -> Floats:
        """On the distance of each arm's mean in the batch from the level."""
        sign = np.where(above, 1.0, -1.0)
        means, spread = _batch(batch)
        return self._bet(sign * (past.means - level), 1.0 / past.counts, sign * (means - level), spread, need)

    def _bet(self, estimate: Floats, leverage: Floats, new: Floats, new_leverage: Floats, need: Floats) -> Floats:
        square = self.sigma**2
        if self.exact:
            return _placed(
                bets.capped_gaussian_bet, need, estimate, square * leverage, new, square * new_leverage, need
            )
        return _placed(bets.sub_gaussian_bet, need, estimate, square * leverage, new, square * new_leverage)


@dataclass(frozen=True)
class BinaryBettor:
    """0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is."""

    def variance(self, past: Past) -> Floats:
        """p (1 - p) at the smoothed rates, averaged over all results."""
        rates = (past.totals + 0.5) / (past.counts + 1.0)
        weight = np.maximum(total(past.counts), 1.0)
        return np.maximum(total(past.counts * rates * (1.0 - rates)) / weight, 1e-12)

    def form(self, past: Past, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats) -> Floats:
        """Two binomials; with an offset or another form, the sub-Gaussian bet (sigma 1/2)."""
        if not pieces.pairs or np.any(pieces.offsets):
            return GaussianBettor(0.5).form(past, known, batch, pieces, need)
        return _placed(bets.bernoulli_difference_bet, need, *_pair(past, pieces), *_pair(batch, pieces))

    def level(self, past: Past, batch: Batch, level: float, above: Bools, need: Floats) -> Floats:
        """A binomial against the level."""
        sums = (past.totals, past.counts, batch.totals, batch.counts)
        return _placed(bets.bernoulli_level_bet, need, *sums, np.asarray(level), np.asarray(above))


def _placed(bet: Callable[..., Floats], need: Floats, *inputs: Floats | Bools) -> Floats:
    """The bet where something is needed, 0 elsewhere: bets are elementwise, so only those are computed."""
    wanted = need > 0
    logs = np.zeros(need.shape)
    if wanted.any():
        logs[wanted] = bet(*(np.broadcast_to(each, need.shape)[wanted] for each in inputs))
    return logs


def _batch(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results."""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


def _pair(sums: Past | Batch, pieces: Halfspaces) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of the first arm of each piece, then of the second."""
    first, second = pieces.arms[..., 0], pieces.arms[..., 1]
    return (
        np.take_along_axis(sums.totals, first, axis=-1),
        np.take_along_axis(sums.counts, first, axis=-1),
        np.take_along_axis(sums.totals, second, axis=-1),
        np.take_along_axis(sums.counts, second, axis=-1),
    )
