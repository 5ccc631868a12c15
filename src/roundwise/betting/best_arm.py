"""Best arm: one cell an arm, "this arm is the best"; bets compare every arm with the leader of the past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, marked, total, zeros
from roundwise.betting.best_arm_parts import played
from roundwise.betting.bounds import Bets, agreed
from roundwise.betting.ledger import Wanted, reached
from roundwise.betting.parts import averaged, chunks, field_of, log_phi
from roundwise.estimates import CROWD, Forecast, Known, apart
from roundwise.noise import items_of
from roundwise.noise.parts import columns, seen
from roundwise.problem import Problem
from roundwise.questions.base import Answer, pairs, quiet
from roundwise.questions.best_arm import star
from roundwise.state import Batch, Parts
from roundwise.stopping.base import Behind, Claim, Interval

TOLD_APART = 0.25  # with more than CROWD arms: bets are wary once so much of what tells them apart is not noise


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
    worth = 1.0
    dropping = (
        ", at a price: what was won against each other arm is cut to what was won against {arm}, and what was ruled "
        "out stays so only if {arm} was ruled out, too."
    )
    adding = ": {arm} starts with the least evidence against it that any arm has, and what was ruled out stays so."

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
        shared, between = items_of(problem.noise), pairs(rival, None)
        return Leader(leader, known.forecast(between) if shared is None else shared.between(known, between))

    @quiet
    def confidence(self, problem: Problem, choice: Leader, known: Known) -> Floats:
        """log prod_i Phi(lead over i in standard errors)."""
        error = known.error(choice.rivals)
        leads = marked(choice.leader, problem.arms)
        return total(np.where(leads, 0.0, log_phi(choice.rivals.value / error)))

    def settled(self, problem: Problem, won: Won, known: Known, choice: Leader, batch: Batch) -> Won:
        """Each cell's money after the batch; a cell that once lost stays lost."""
        need = np.where(won.lost, 0.0, problem.goal - won.gains)
        gain = problem.noise.form(known, batch, choice.rivals, need)
        after = won.gains + gain
        return Won(after, won.lost | reached(need, gain, after, problem.goal))

    @quiet
    def in_parts(self, problem: Problem, won: Won, known: Known, choice: Leader, parts: Parts, shifts: bool) -> Won:
        """The same after a batch in parts: the average over its dealings counts, at its end."""
        several = parts.dealings
        data, first = seen(known.past, parts), not known.past.history
        gains, lost, means = (columns(each, several) for each in (won.gains, won.lost, known.means))
        error = columns(np.sqrt(known.variance[..., None] / np.maximum(known.past.counts, 1.0)), several)
        extra = columns(self._extra(known, choice), several) if shifts and known.past.batches > 1 else None
        many = problem.arms > CROWD and not first
        wary = columns(apart(known)[..., None] >= TOLD_APART, several)[0] if many else None
        found = np.empty_like(gains)
        for here in chunks(data.counts.shape):
            part, out = data.at(here), lost[:, here]
            field = field_of(part, None if first else means[:, here], shifts)
            looks = field.means.copy() if first else field.means - out * error[:, here]
            before = None if extra is None else extra[:, here]
            crowd = None if wary is None or not wary[here].any() else wary[here]
            found[:, here] = played(problem, gains[:, here], out, part, field, looks, before, first, crowd)
        after = averaged(found, won.gains.shape[:-1], several)
        return Won(after, won.lost | (after >= problem.goal))

    def _extra(self, known: Known, choice: Leader) -> Floats:
        """N^2 times what the shifts of earlier batches add to the variance of each lead, for the leader of before."""
        counts = known.past.counts
        inverse = 1.0 / np.maximum(counts, 1.0)
        lead = np.take_along_axis(inverse, choice.leader[..., None], axis=-1)
        more = np.where(marked(choice.leader, counts.shape[-1]), 0.0, choice.rivals.leverage - inverse - lead)
        return np.where(np.isfinite(more), np.maximum(more, 0.0), 0.0) * counts**2

    def stops(self, problem: Problem, won: Won) -> Bools:
        """At most one arm is still in."""
        return np.asarray(won.lost.sum(axis=-1) >= problem.arms - 1)

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """Who is still in; if nobody, the best-looking arm."""
        still = np.where(won.lost, -np.inf, known.means)
        nobody = won.lost.all(axis=-1)
        return np.where(nobody, known.means.argmax(axis=-1), still.argmax(axis=-1))

    def without(self, problem: Problem, won: Won, arm: int) -> Won:
        """Each arm's money is cut to that of the arm (Proposition 22)."""
        gains = np.minimum(np.delete(won.gains, arm), won.gains[arm])
        return Won(gains, (np.delete(won.lost, arm) & won.lost[arm]) | (gains >= problem.goal))

    def with_one_more(self, won: Won) -> Won:
        """It starts with the least that any arm has (Proposition 23)."""
        return Won(np.append(won.gains, won.gains.min()), np.append(won.lost, False))

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
        shared = items_of(problem.noise)
        if shared is not None:  # the items of the leader serve all
            spread = shared.spreads(known.past, choice.rivals.pieces)
            return Wanted(nested(2 * spread * need / distance**2, open_, leads), open_ | leads)
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


def nested(items: Floats, open_: Bools, leads: Bools) -> Floats:
    """Items of each arm that is open, and of the leader as many as of any other. (K)"""
    items = np.where(open_, items, 0.0)
    return np.where(leads, items.max(axis=-1, keepdims=True), items)
