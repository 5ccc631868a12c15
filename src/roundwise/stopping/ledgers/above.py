"""Above a level: the cells are all 2^K sets of arms; what is won against one is a product over the arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.problem import Problem
from roundwise.questions.base import Answer, quiet
from roundwise.record import Batch
from roundwise.runs import Bools, Floats, total
from roundwise.stopping.bettors import Bettor
from roundwise.stopping.ledgers.base import Wanted
from roundwise.stopping.past import Known


class Won(NamedTuple):
    """log of what was won for each arm being above, and for its being below."""

    above: Floats  # (K), L^+
    below: Floats  # (K), L^-


class Sides(NamedTuple):
    """On which side of the level each arm is bet to lie."""

    above: Bools  # (K)


@dataclass(frozen=True)
class AboveLedger:
    """log E_S = sum over S of L^- plus sum over the others of L^+; stop when the second smallest has lost.

    The product needs arms that are independent given the past, and is tested at the present, never at a past maximum
    (WAGER.md, section 3).
    """

    level: float
    shifts = False

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Won:
        """Nothing won."""
        nothing = np.zeros((*runs, problem.arms))
        return Won(nothing, nothing)

    def choice(self, problem: Problem, won: Won, known: Known) -> Sides:
        """The side of the past mean."""
        return Sides(known.past.means > self.level)

    @quiet
    def confidence(self, problem: Problem, choice: Sides, known: Known) -> Floats:
        """log prod_i Phi(distance from the level in standard errors)."""
        from scipy.special import log_ndtr

        away = np.abs(known.past.means - self.level) * np.sqrt(known.past.counts / known.variance[..., None])
        return total(log_ndtr(away))

    def settled(
        self,
        problem: Problem,
        bettor: Bettor,
        won: Won,
        known: Known,
        choice: Sides,
        batch: Batch,
        live: Bools,
    ) -> Won:
        """Each arm's money on the side it was bet on; an arm that is settled is not bet on."""
        need = self.needs(problem, won)
        need = np.where(live[..., None] & (need > 0), need + 1e-9, 0.0)  # rounding must not keep a bet open that is won
        gain = bettor.level(known, batch, self.level, choice.above, need)
        return Won(
            won.above + np.where(choice.above, gain, 0.0),
            won.below + np.where(choice.above, 0.0, gain),
        )

    def stops(self, problem: Problem, won: Won) -> Bools:
        """sum_j min(L^+, L^-) + min_j |L^+ - L^-| reaches log(1/delta)."""
        return np.asarray(self.needs(problem, won).max(axis=-1) <= 0.0)

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """The set that lost least."""
        return np.asarray(won.above > won.below)

    @quiet
    def wanted(self, problem: Problem, won: Won, choice: Sides, known: Known) -> Wanted:
        """n_j = 2 sigma^2 need_j / g_j^2 for each arm that is open."""
        need = np.maximum(self.needs(problem, won), 0.0)
        spread = known.variance[..., None] / np.maximum(known.past.counts, 1.0)
        distance = np.maximum(np.abs(known.past.means - self.level), np.sqrt(spread))
        return Wanted(2 * known.variance[..., None] * need / distance**2, need > 0)

    def needs(self, problem: Problem, won: Won) -> Floats:
        """What each arm's own side must still win."""
        lower = total(np.minimum(won.above, won.below))[..., None]
        return problem.goal - lower - np.abs(won.above - won.below)
