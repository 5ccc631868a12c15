"""Best arm in parts: every arm against the leader of each part, and the leader against its closest follower."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.parts import Field, largest, log_phi, per_row, possible, settled, summed
from roundwise.noise.parts import Index, Seen, of_pairs, tilts_of
from roundwise.problem import Problem

CLEAR = 3.0  # standard errors: a lead that is bet on even if it is unsure who leads
SURE = 0.2  # the chance that the leader is right, as the past sees it, from which on every lead is bet on
FEW, MOST = 0.3, 0.9  # share of the arms in all runs that are in: below it only these are looked at; above it, all


class Rivals(Protocol):
    """Who is compared with whom: all arms of all runs, or some of them. Values come as (P, K, n)."""

    def leading(self, values: Floats) -> Floats:
        """Of the leader of each part."""

    def own(self, values: Floats) -> Floats:
        """Of who is compared with it."""

    def before(self, values: Floats) -> Floats:
        """The same of what was known before the batch. (K, n)"""

    def of_run(self, values: Floats) -> Floats:
        """What is the same for all arms of a run. (P, n)"""

    def seen(self, field: Field) -> tuple[Floats, Floats]:
        """What the leader had more in each part, and the variance of that per unit of the variance of a result."""

    def places(self) -> tuple[Index, Index]:
        """The two as places in (P, K, n) as one row."""


@dataclass(frozen=True)
class All:
    """Every arm with the leader, the leader with itself."""

    lead: Index  # (P, n), places in (P, K, n) as one row
    arms: int

    def leading(self, values: Floats) -> Floats:
        """(P, 1, n)"""
        return values.reshape(-1).take(self.lead)[:, None]

    def own(self, values: Floats) -> Floats:
        """As they are."""
        return values

    def before(self, values: Floats) -> Floats:
        """As they are."""
        return values

    def of_run(self, values: Floats) -> Floats:
        """(P, 1, n)"""
        return values[:, None]

    def seen(self, field: Field) -> tuple[Floats, Floats]:
        """(P, K, n)"""
        new, rows = field.new, field.per_row
        return self.leading(new) - new, self.leading(rows) + rows

    def places(self) -> tuple[Index, Index]:
        """(P, K, n)"""
        shape = (self.lead.shape[0], self.arms, self.lead.shape[1])
        return np.broadcast_to(self.lead[:, None], shape), np.arange(math.prod(shape)).reshape(shape)


@dataclass(frozen=True)
class Some:
    """Some arms with the leader, the leader with its follower."""

    first: Index  # (P, c), places in (P, K, n) as one row
    second: Index  # (P, c)
    run: Index  # (c)

    def leading(self, values: Floats) -> Floats:
        """(P, c)"""
        return values.reshape(-1).take(self.first)

    def own(self, values: Floats) -> Floats:
        """(P, c)"""
        return values.reshape(-1).take(self.second)

    def before(self, values: Floats) -> Floats:
        """(P, c)"""
        return values.reshape(-1).take(self.second % values.size)

    def of_run(self, values: Floats) -> Floats:
        """(P, c)"""
        return values if values.shape[1] == 1 else values.take(self.run, axis=1)

    def seen(self, field: Field) -> tuple[Floats, Floats]:
        """(P, c)"""
        counts, totals = field.seen.counts, field.seen.totals
        lead, own = per_row(self.leading(counts)), per_row(self.own(counts))
        return self.leading(totals) * lead - self.own(totals) * own, lead + own

    def places(self) -> tuple[Index, Index]:
        """(P, c)"""
        return self.first, self.second


@dataclass(frozen=True)
class Compared:
    """Where some arms are found, and who each is compared with (`noise.parts.Places`)."""

    open_: Index  # (c), places in (K, n) as one row
    lead: Index  # (P, n), places in (P, K, n) as one row
    follow: Index  # (P, n)
    arms: int

    def runs(self) -> Index:
        """The column of each. (c)"""
        return self.open_ % self.lead.shape[1]

    def rivals(self) -> Some:
        """With the leader of each part; the leader with its follower."""
        run, arm = self.runs(), self._arm()
        leader = self.lead.take(run, axis=1)
        return Some(leader, np.where(leader == arm, self.follow.take(run, axis=1), arm), run)

    def __call__(self) -> tuple[Index, Index]:
        """Of the rival of each, and of the arm itself. (P, c)"""
        found, arm = self.rivals(), self._arm()
        return np.where(found.first == arm, found.second, found.first), arm

    def _arm(self) -> Index:
        parts, n = self.lead.shape
        return (np.arange(parts) * (self.arms * n))[:, None] + self.open_


def played(
    problem: Problem,
    gains: Floats,
    lost: Bools,
    data: Seen,
    field: Field,
    looks: Floats,
    extra: Floats | None,
    first: bool,
    wary: Bools | None = None,
) -> Floats:
    """log E_i of each column after all parts. (K, n)

    `looks` is how good each arm looks before each part; it is used up. In columns that are `wary` (n) a part is bet on
    where the lead is clear, or the leader not too unlikely to be right.
    """
    parts, arms, n = data.counts.shape
    tilts = tilts_of(problem.noise, data)
    if first or data.before.counts.min() <= 0:
        np.copyto(looks, -np.inf, where=~(field.inverse < 1e8))
    offset = (np.arange(parts) * (arms * n))[:, None] + np.arange(n)
    lead = largest(looks) * n + offset  # places in (P, K, n) as one row
    looks.reshape(-1)[lead] = -np.inf
    follow = largest(looks) * n + offset
    open_ = np.flatnonzero(~lost)
    few = not first and open_.size < FEW * lost.size
    goal: Floats | float = problem.goal

    compared = Compared(open_, lead, follow, arms)
    who: Rivals = compared.rivals() if few else All(lead, arms)
    z, before = _standing(who, field, tilts.variances, extra)
    new, leverage = who.seen(field)
    paired = of_pairs(tilts)
    if paired is not None:
        z, before, leverage = paired.standing(*who.places(), 0.0)
    live = None
    if few:
        turned = np.where(lead.take(open_ % n, axis=1) % (arms * n) == open_, -1.0, 1.0)
        z *= turned
        new *= turned
    else:
        if first:  # bet on once the leader is more likely right than wrong
            chances = log_phi(z)
            chances.reshape(-1)[lead] = 0.0
            live = summed(chances) >= math.log(0.5)
            live[0] = False
            open_ = np.flatnonzero(~lost & live.any(axis=0))
        for values, sign in ((z, -1.0), (before, 1.0), (new, -1.0), (leverage, 1.0)):  # the leader and its follower
            flat = values.reshape(-1)
            flat[lead] = sign * flat.take(follow)
        z, before, new, leverage = (each.reshape(parts, -1) for each in (z, before, new, leverage))
        if open_.size > MOST * lost.size:  # those who are not are passed over with the others
            open_, goal = np.arange(lost.size), np.where(lost.reshape(-1), -np.inf, problem.goal)
        else:
            z, before, new, leverage = (each.take(open_, axis=1, mode="clip") for each in (z, before, new, leverage))

    if live is not None:
        live = live[:, open_ % n]
    elif wary is not None:
        live = _clear(z, lead % (arms * n), open_, wary, lost)
    good = possible(before, leverage, live)
    tilt = tilts.pairs(Compared(open_, lead, follow, arms), new, leverage, 0.0)
    before /= leverage
    found = gains.reshape(-1).copy()
    found[open_] = settled(goal, found.take(open_), z, before, tilt, good, jump=data.jump)
    return found.reshape(arms, n)


def _clear(z: Floats, lead: Index, open_: Index, wary: Bools, lost: Bools) -> Bools:
    """Where a bet is placed: the lead is CLEAR, or the one over all who are still in SURE enough. (P, c)"""
    parts, n = lead.shape
    run = open_ % n
    place = (np.arange(parts) * n)[:, None] + run
    own = lead.take(run, axis=1) == open_
    chances = np.where(own | lost.reshape(-1).take(open_), 0.0, log_phi(z))
    sure = np.bincount(place.reshape(-1), chances.reshape(-1), parts * n) >= math.log(SURE)
    return (z >= CLEAR) | sure.take(place) | ~wary.take(run)


def _standing(who: Rivals, field: Field, variances: Floats, extra: Floats | None) -> tuple[Floats, Floats]:
    """By how many standard errors each is behind, and the variance of that per unit of the variance of a result."""
    before = who.leading(field.inverse) + who.own(field.inverse)
    if field.share is not None and field.weight is not None:
        x = who.leading(field.share) - who.own(field.share)
        x *= x
        x *= who.of_run(field.weight)
        before += x
    if extra is not None:
        own = who.own(field.inverse)
        x = own * own
        x *= who.before(extra)
        before += x
    error = np.sqrt(before)
    if variances.shape[1] == 1:
        error *= np.sqrt(who.of_run(variances[:, 0]))
    else:
        spread = np.ascontiguousarray(np.broadcast_to(variances, field.inverse.shape))
        error *= np.sqrt((who.own(spread) + who.leading(spread)) / 2)
    z = who.leading(field.means) - who.own(field.means)
    z /= error
    return z, before
