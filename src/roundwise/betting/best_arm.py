"""Best arm: one cell an arm, "this arm is the best"; bets compare every arm with the leader of the past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, marked, total, zeros
from roundwise.betting.bounds import Bets, agreed
from roundwise.betting.ledger import Wanted, reached
from roundwise.estimates import Forecast, Known
from roundwise.problem import Problem
from roundwise.questions.base import Answer, pairs, quiet
from roundwise.questions.best_arm import star
from roundwise.state import Batch
from roundwise.stopping.explained import Behind, Claim, Interval


class Won(NamedTuple):
    """log of what was won against each cell, and which cells have lost."""

    gains: Floats  # (K), log E_i
    lost: Bools  # (K), E_i reached 1/delta at some time


class Leader(NamedTuple):
    """Who is compared with whom: every arm is doubted in favour of its rival."""

    leader: NDArray[np.intp]  # ()
    rivals: Forecast  # (K): the rival exceeds the arm; it is the leader, for the leader its closest follower


@dataclass(frozen=True)
class BestArmLedger:
    """Cells Q_i = {mu_i is the largest}; the bet against Q_i is that its rival is better."""

    shifts = True
    agrees = False

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Won:
        """Nothing won, nobody out."""
        nothing = zeros((*runs, problem.arms))
        return Won(nothing, nothing > 0)

    @quiet
    def choice(self, problem: Problem, won: Won, known: Known) -> Leader:
        """The leader is the best-looking arm; one that has lost must look better by a standard error."""
        looks = np.where(known.past.counts > 0, known.means, -np.inf)
        if won.lost.any():
            error = np.sqrt(known.variance[..., None] / np.maximum(known.past.counts, 1.0))
            looks = np.where(won.lost, looks - error, looks)
        leader = looks.argmax(axis=-1)
        leads = marked(leader, problem.arms)
        follower = np.where(leads, -np.inf, looks).argmax(axis=-1)
        rival = np.where(leads, follower[..., None], leader[..., None])
        return Leader(leader, known.forecast(pairs(rival, None)))

    @quiet
    def confidence(self, problem: Problem, choice: Leader, known: Known) -> Floats:
        """log prod_i Phi(lead over i in standard errors)."""
        from scipy.special import log_ndtr

        error = known.error(choice.rivals)
        leads = marked(choice.leader, problem.arms)
        return total(np.where(leads, 0.0, log_ndtr(choice.rivals.value / error)))

    def settled(self, problem: Problem, won: Won, known: Known, choice: Leader, batch: Batch, live: Bools) -> Won:
        """Each cell's money after the batch; a cell that once lost stays lost."""
        need = np.where(live[..., None] & ~won.lost, problem.goal - won.gains, 0.0)
        gain = problem.noise.form(known, batch, choice.rivals, need)
        after = won.gains + gain
        return Won(after, won.lost | reached(need, gain, after, problem.goal))

    def stops(self, problem: Problem, won: Won) -> Bools:
        """At most one arm is still in."""
        return np.asarray(won.lost.sum(axis=-1) >= problem.arms - 1)

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """Who is still in; if nobody, the best-looking arm."""
        still = np.where(won.lost, -np.inf, known.means)
        nobody = won.lost.all(axis=-1)
        return np.where(nobody, known.means.argmax(axis=-1), still.argmax(axis=-1))

    def struck(self, problem: Problem, won: Won, means: Floats) -> Bools:
        """The best arm has been ruled out."""
        return won.lost[..., int(means.argmax())]

    @quiet
    def wanted(self, problem: Problem, won: Won, choice: Leader, known: Known) -> Wanted:
        """min sum n subject to 1/n_leader + 1/n_i <= g_i^2 / (2 sigma^2 need_i) for all who are still in."""
        leads = marked(choice.leader, problem.arms)
        open_ = ~won.lost & ~leads
        error = known.error(choice.rivals)
        distance = np.maximum(choice.rivals.value, error)
        need = problem.goal - won.gains
        costs = np.where(open_, distance * distance / (2 * known.variance[..., None] * need), np.inf)
        return Wanted(star(costs, leads), open_ | leads)

    def claims(self, problem: Problem, won: Won, choice: Leader, names: Sequence[str]) -> list[Claim]:
        """Of each arm that it is not the best."""
        return [
            Claim(f"{name} is not the best", float(gain), problem.goal, bool(lost), left=name)
            for name, gain, lost in zip(names, won.gains, won.lost, strict=True)
        ]

    def emptied(self, problem: Problem, won: Won) -> bool:
        """Nobody is in."""
        return bool(won.lost.all())

    def means(self, bets: Bets) -> Interval:
        """They have nothing to agree with."""
        return bets.intervals()

    def spare(self, bets: Bets) -> Floats:
        """How far each arm is behind the best one; 0 if it may be the best."""
        arms, lost = np.arange(bets.problem.arms), bets.end.won.lost
        rivals = [pairs(bet.choice.rivals.pieces.arms[..., 0], arms) for bet in bets.placed]
        return np.where(lost, agreed(bets.bound(rivals[-1], bets.problem.goal, rivals), 0.0, lost), 0.0)

    def behind(self, bets: Bets, leader: int | None, spare: Floats) -> Behind:
        """What is to spare."""
        return Behind(spare, None, bets.behind(int(bets.end.known.means.argmax()) if leader is None else leader))
