"""Best arm: one cell an arm, "this arm is the best"; bets compare every arm with the leader of the past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, one_hot, quiet, total, zeros
from roundwise.model.batch import Parts
from roundwise.model.estimates import CROWD, Estimates, FormEstimate, signal_share
from roundwise.model.problem import Problem
from roundwise.noise.parts import Index, PartBets, PartForm
from roundwise.questions.base import Answer
from roundwise.questions.best_arm import solve_star
from roundwise.rules.base import ClaimStatus, GapToLeader
from roundwise.rules.eprocess.base import EProcess, RequiredPulls
from roundwise.rules.eprocess.bounds import BetHistory, match_decision
from roundwise.rules.eprocess.engine import OpenNulls, PartsView, bet_on_parts, first_largest, log_phi, sum_arms
from roundwise.solvers.halfspaces import pairs

CLEAR = 3.0  # standard errors: a lead that is bet on even if it is unsure who leads
SURE = 0.2  # the chance that the leader is right, as the past sees it, from which on every lead is bet on
TOLD_APART = 0.25  # with more than CROWD arms: bets are wary once so much of what tells them apart is not noise


class BestArmWealth(NamedTuple):
    """log of what was won against each cell, and which cells have lost."""

    gains: Floats  # (K), log E_i
    lost: Bools  # (K), E_i reached 1/delta at some time
    left: Floats = np.zeros(())  # (), how many arms left because of results


class Leader(NamedTuple):
    """Who is compared with whom: every arm is doubted in favour of its rival."""

    leader: NDArray[np.intp]  # ()
    rivals: FormEstimate  # (K): the rival exceeds the arm; it is the leader, for the leader its closest follower


@dataclass(frozen=True)
class BestArmEProcess(EProcess):
    """Cells Q_i = {mu_i is the largest}; the bet against Q_i is that its rival is better."""

    shifts = True
    tag = "best-arm"
    dropping = (
        ", at a price: what was won against each other arm is cut to what was won against {arm}, and what was ruled "
        "out stays so only if {arm} was ruled out, too."
    )
    adding = ": {arm} starts with the least evidence against it that any arm has, and what was ruled out stays so."

    def start(self, problem: Problem, runs: tuple[int, ...]) -> BestArmWealth:
        """Nothing won, nobody out."""
        nothing = zeros((*runs, problem.arms))
        return BestArmWealth(nothing, nothing > 0, np.zeros(runs))

    @quiet
    def choose(self, problem: Problem, won: BestArmWealth, known: Estimates) -> Leader:
        """The leader is the best-looking arm; one that has lost must look better by a standard error."""
        looks = np.where(known.past.counts > 0, known.means, -np.inf)
        if won.lost.any():
            error = np.sqrt(known.variance[..., None] / np.maximum(known.past.counts, 1.0))
            looks = np.where(won.lost, looks - error, looks)
        leader = looks.argmax(axis=-1)
        leads = one_hot(leader, problem.arms)
        follower = np.where(leads, -np.inf, looks).argmax(axis=-1)
        rival = np.where(leads, follower[..., None], leader[..., None])
        return Leader(leader, problem.noise.estimate_forms(known, pairs(rival, None)))

    @quiet
    def confidence(self, problem: Problem, alternative: Leader, known: Estimates) -> Floats:
        """log prod_i Phi(lead over i in standard errors)."""
        error = known.error(alternative.rivals)
        leads = one_hot(alternative.leader, problem.arms)
        return total(np.where(leads, 0.0, log_phi(alternative.rivals.value / error)))

    @quiet
    def update(
        self, problem: Problem, won: BestArmWealth, known: Estimates, alternative: Leader, parts: Parts, shifts: bool
    ) -> BestArmWealth:
        """Return the wealth after a batch in parts: the average over its partitions, at its end."""
        past, first = known.past, not known.past.history
        error = np.sqrt(known.variance[..., None] / np.maximum(past.counts, 1.0))
        late = shifts and past.batches > 1
        extra = self._extra(known, alternative) if late else error
        wary = signal_share(known)[..., None] >= TOLD_APART if problem.arms > CROWD and not first else won.lost[..., :1]

        def opened(
            view: PartsView, part_bets: PartBets, gains: Floats, lost: Bools, error: Floats, extra: Floats, wary: Bools
        ) -> OpenNulls | None:
            at = np.flatnonzero(~lost)
            if not at.size:
                return None
            looks = view.means.copy() if first else view.means - lost * error
            place = np.arange(len(looks))[:, None] * lost.size
            lead, follow = leaders(looks, view, first)
            run, arm = at % lost.shape[1], place + at
            leader = lead.take(run, axis=1)
            own = leader == arm
            rival = np.where(own, follow.take(run, axis=1), leader)
            form = PartForm([rival, arm], None, np.broadcast_to(0.0, arm.shape))
            spread = np.broadcast_to(part_bets.variances, looks.shape).reshape(-1)

            def more(before: Floats) -> Floats:
                other = np.where(own, rival, arm)
                return view.inverse.reshape(-1).take(other) ** 2 * extra.reshape(-1).take(other - place)

            def gate(z: Floats) -> Bools | None:
                if first:  # bet on once the leader is more likely right than wrong
                    live = sum_arms(np.where(own, 0.0, log_phi(z)).reshape(looks.shape)) >= math.log(0.5)
                    live[0] = False
                    return live[:, run]
                if problem.arms <= CROWD or not wary.any():
                    return None
                sums = [np.bincount(run, row, lost.shape[1]) for row in np.where(own, 0.0, log_phi(z))]
                return (z >= CLEAR) | (np.array(sums) >= math.log(SURE))[:, run] | ~wary[0, run]

            variance = (spread.take(arm) + spread.take(rival)) / 2 if part_bets.variances.size > 1 else float(spread[0])
            return OpenNulls(form, at, problem.goal, run, gate, more if late else None, variance)

        after = bet_on_parts(problem, known, parts, shifts, opened, won.gains, won.lost, error, extra, wary)
        return BestArmWealth(after, won.lost | (after >= problem.goal), won.left)

    def _extra(self, known: Estimates, alternative: Leader) -> Floats:
        """N^2 times what the shifts of earlier batches add to the variance of each lead, for the leader of before."""
        counts = known.past.counts
        inverse = 1.0 / np.maximum(counts, 1.0)
        lead = np.take_along_axis(inverse, alternative.leader[..., None], axis=-1)
        more = np.where(
            one_hot(alternative.leader, counts.shape[-1]), 0.0, alternative.rivals.leverage - inverse - lead
        )
        return np.where(np.isfinite(more), np.maximum(more, 0.0), 0.0) * counts**2

    def stops(self, problem: Problem, won: BestArmWealth) -> Bools:
        """At most one arm is still in."""
        return np.asarray(won.lost.sum(axis=-1) >= problem.arms - 1)

    def answer(self, problem: Problem, won: BestArmWealth, known: Estimates) -> Answer:
        """Who is still in; if nobody, the best-looking arm."""
        still = np.where(won.lost, -np.inf, known.means)
        nobody = won.lost.all(axis=-1)
        return np.where(nobody, known.means.argmax(axis=-1), still.argmax(axis=-1))

    def without(self, problem: Problem, won: BestArmWealth, arm: int) -> BestArmWealth:
        """Each arm's wealth is cut to that of the arm (Proposition 22)."""
        gains = np.minimum(np.delete(won.gains, arm), won.gains[arm])
        return BestArmWealth(
            gains, (np.delete(won.lost, arm) & won.lost[arm]) | (gains >= problem.goal), won.left + 1.0
        )

    def with_arm(self, won: BestArmWealth) -> BestArmWealth:
        """It starts with the least that any arm has, at most 1 (Proposition 23)."""
        return BestArmWealth(
            np.append(won.gains, min(float(won.gains.min()), 0.0)), np.append(won.lost, False), won.left
        )

    def false_rejection(self, problem: Problem, won: BestArmWealth, means: Floats) -> Bools:
        """The best arm has been ruled out."""
        return won.lost[..., int(means.argmax())]

    @quiet
    def required_pulls(
        self, problem: Problem, won: BestArmWealth, alternative: Leader, known: Estimates
    ) -> RequiredPulls:
        """min sum n subject to 1/n_leader + 1/n_i <= g_i^2 / (2 sigma^2 need_i) for all who are still in."""
        leads = one_hot(alternative.leader, problem.arms)
        open_ = ~won.lost & ~leads
        error = known.error(alternative.rivals)
        distance = np.maximum(alternative.rivals.value, error)
        need = problem.goal - won.gains
        if problem.noise.shares_items:  # the items of the leader serve all
            spread = problem.noise.difference_variances(known.past, alternative.rivals.pieces)
            return RequiredPulls(nested(2 * spread * need / distance**2, open_, leads), open_ | leads)
        costs = np.where(open_, distance * distance / (2 * known.variance[..., None] * need), np.inf)
        return RequiredPulls(solve_star(costs, leads), open_ | leads)

    def claims(
        self, problem: Problem, won: BestArmWealth, alternative: Leader, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """Of each arm that it is not the best."""
        return [
            ClaimStatus(f"{name} is not the best", float(gain), problem.goal, bool(lost), left=name)
            for name, gain, lost in zip(names, won.gains, won.lost, strict=True)
        ]

    def all_rejected(self, problem: Problem, won: BestArmWealth) -> bool:
        """Nobody is in."""
        return bool(won.lost.all())

    def margins(self, bets: BetHistory) -> Floats:
        """How far each arm is behind the best one; 0 if it may be the best.

        Once arms left because of results, who the rivals in earlier batches are was not known before these: then it is
        one rival for all batches, whose alternative among all arms there were is paid for.
        """
        arms, lost = np.arange(bets.problem.arms), bets.end.won.lost
        if bets.end.won.left:
            rival = pairs(bets.end.alternative.rivals.pieces.arms[..., 0], arms)
            found = bets.bound(rival, bets.bar_of_leader(float(bets.end.won.left)))
        else:
            rivals = [pairs(bet.alternative.rivals.pieces.arms[..., 0], arms) for bet in bets.placed]
            found = bets.bound(rivals[-1], bets.problem.goal, rivals)
        return np.where(lost, match_decision(found, 0.0, lost), 0.0)

    def gap_to_leader(self, bets: BetHistory, leader: int | None, spare: Floats) -> GapToLeader:
        """What is to spare."""
        leader = int(bets.end.known.means.argmax()) if leader is None else leader
        return GapToLeader(spare, None, bets.gap_to_leader(leader, float(bets.end.won.left)))


def nested(items: Floats, open_: Bools, leads: Bools) -> Floats:
    """Items of each arm that is open, and of the leader as many as of any other. (K)"""
    items = np.where(open_, items, 0.0)
    return np.where(leads, items.max(axis=-1, keepdims=True), items)


def leaders(looks: Floats, view: PartsView, first: bool) -> tuple[Index, Index]:
    """The best-looking arm before each part, and the next one, as places in (P, K, n); `looks` is used up. (P, n)"""
    size, arms, n = looks.shape
    if first or view.data.before.counts.min() <= 0:
        np.copyto(looks, -np.inf, where=~(view.inverse < 1e8))
    offset = (np.arange(size) * (arms * n))[:, None] + np.arange(n)
    lead = first_largest(looks) * n + offset
    looks.reshape(-1)[lead] = -np.inf
    return lead, first_largest(looks) * n + offset
