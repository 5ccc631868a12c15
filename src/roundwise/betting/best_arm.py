"""Best arm: one cell an arm, "this arm is the best"; bets compare every arm with the leader of the past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, mapped, marked, total, zeros
from roundwise.betting.bounds import Bets, agreed
from roundwise.betting.ledger import Wanted, reached
from roundwise.betting.parts import (
    averaged,
    chunks,
    columns,
    field_of,
    gaussian_tilt,
    log_phi,
    part_arrays,
    settled,
    summed,
)
from roundwise.estimates import Forecast, Known
from roundwise.problem import Problem
from roundwise.questions.base import Answer, pairs, quiet
from roundwise.questions.best_arm import star
from roundwise.state import Batch, Parts
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

    @quiet
    def in_parts(self, problem: Problem, won: Won, known: Known, choice: Leader, parts: Parts, shifts: bool) -> Won:
        """The same after a batch in parts: the average over its dealings counts, at its end."""
        counts, totals = part_arrays(parts)
        gains, lost = columns(won.gains, parts), columns(won.lost, parts)
        start = _start(known, choice, parts, shifts) if known.past.history else None
        deviation = np.sqrt(columns(np.broadcast_to(known.variance[..., None], won.gains.shape), parts)[:1])
        found = np.empty_like(gains)
        for here in chunks(*counts.shape):
            before = None if start is None else mapped(lambda each, here=here: each[:, here], start)
            found[:, here] = _played(
                problem, before, gains[:, here], lost[:, here], counts[..., here], totals[..., here], deviation[:, here], shifts
            )
        after = averaged(found, won.gains.shape[:-1], parts.dealings)
        return Won(after, won.lost | (after >= problem.goal))

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


class Start(NamedTuple):
    """What was known before a batch, as columns."""

    counts: Floats  # (K, n)
    means: Floats  # (K, n)
    extra: Floats | None  # (K, n), N^2 times what the shifts of earlier batches add to the variance of each lead


def _start(known: Known, choice: Leader, parts: Parts, shifts: bool) -> Start:
    past, extra = known.past, None
    if shifts and len(past.history) > 1:
        inverse = 1.0 / np.maximum(past.counts, 1e-9)
        leading = np.take_along_axis(inverse, choice.leader[..., None], axis=-1)
        leads = marked(choice.leader, past.counts.shape[-1])
        more = np.where(leads, 0.0, choice.rivals.leverage - inverse - leading)
        extra = columns(np.maximum(np.where(np.isfinite(more), more, 0.0), 0.0) * past.counts**2, parts)
    return Start(columns(past.counts, parts), columns(known.means, parts), extra)


def _played(
    problem: Problem,
    start: Start | None,
    gains: Floats,
    lost: Bools,
    counts: Floats,
    totals: Floats,
    deviation: Floats,
    shifts: bool,
) -> Floats:
    """log E_i of each column after all parts. (K, n)"""
    P, K, n = counts.shape
    field = field_of(*((None, None) if start is None else start[:2]), counts, totals, shifts)
    looks = field.means.copy() if start is None else field.means - lost * (deviation / np.sqrt(np.maximum(start.counts, 1.0)))
    unseen = field.inverse > 1e8
    if unseen.any():
        looks[unseen] = -np.inf
    offset = (np.arange(P) * (K * n))[:, None] + np.arange(n)
    lead = looks.argmax(axis=1) * n + offset
    looks.reshape(-1)[lead] = -np.inf
    follow = looks.argmax(axis=1) * n + offset

    def leading(values: Floats) -> Floats:
        return values.reshape(-1).take(lead)[:, None]

    D = leading(field.means) - field.means
    before = leading(field.inverse) + field.inverse
    if field.share is not None and field.weight is not None:
        x = leading(field.share) - field.share
        x *= x
        x *= field.weight[:, None]
        before += x
    if start is not None and start.extra is not None:
        before += field.inverse * field.inverse * start.extra
    live = None
    if start is None:  # a first batch is bet on once its leader is more likely right than wrong
        chances = log_phi(D / (np.sqrt(before) * deviation))
        chances.reshape(-1)[lead] = 0.0
        live = summed(chances) >= math.log(0.5)
        live[0] = False
    d = leading(field.new) - field.new
    v = leading(field.per_row) + field.per_row
    for values, sign in ((D, -1.0), (before, 1.0), (d, -1.0), (v, 1.0)):  # the leader's own bet: against its follower
        flat = values.reshape(-1)
        flat[lead] = sign * flat.take(follow)
    open_ = np.flatnonzero(~lost)
    if live is not None:
        open_ = open_[live.any(axis=0)[open_ % n]]
    D, before, d, v = (each.reshape(P, -1).take(open_, axis=1, mode="clip") for each in (D, before, d, v))
    mask = None
    if live is not None or unseen.any() or counts.min() <= 0:
        mask = (v < 1e17) & (before < 1e8)
        if live is not None:
            mask &= live[:, open_ % n]
    scale = deviation.reshape(-1)[open_ % n]
    D /= np.sqrt(before) * scale
    d /= np.sqrt(v) * scale
    before /= v
    found = gains.reshape(-1).copy()
    found[open_] = settled(problem.goal, found.take(open_), D, before, gaussian_tilt(d), mask)
    return found.reshape(K, n)
