"""Above a level: the cells are all 2^K sets of arms; what is won against one is a product over the arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, total
from roundwise.betting.bounds import Bets, agreed, interval
from roundwise.betting.ledger import Wanted
from roundwise.betting.parts import Field, averaged, chunks, field_of, log_phi, possible, settled, summed
from roundwise.estimates import Known
from roundwise.noise.parts import Seen, columns, levels_apart, seen, tilts_of
from roundwise.problem import Problem
from roundwise.questions.base import Answer, quiet
from roundwise.questions.several import near_words
from roundwise.state import Batch, Parts
from roundwise.stopping.base import About, Claim, Interval

ROOM = 0.7  # what capped bets may win beyond what is needed, because other arms may lose in the same batch
GATE, FIRST_GATE = (
    0.5,
    2.0,
)  # standard errors off the level from which on a part is bet on: what one arm loses, all do


class Won(NamedTuple):
    """log of what was won for each arm being above, and for its being below; and whose side is settled."""

    above: Floats  # (K), L^+
    below: Floats  # (K), L^-
    settled: Bools  # (K), all sets that have the arm on the other side lost, at one time


class Sides(NamedTuple):
    """On which side of the level each arm is bet to lie."""

    above: Bools  # (K)


@dataclass(frozen=True)
class AboveLedger:
    """log E_S = sum over S of L^- plus sum over the others of L^+; an arm is settled when all S that disagree lost.

    The product needs arms that are independent given the past. Its own maximum counts, never the product of each
    arm's maximum (docs/why-the-guarantee-holds.md).

    With a tolerance L^+ is won against "the mean is at most the level less the tolerance", L^- against "at least the
    level and the tolerance": an arm in between is in no such cell, so what is reckoned for the others is at most 0.
    """

    level: float
    tolerance: float = 0.0
    shifts = False
    agrees = True
    worth = 1.0
    independent: ClassVar[bool] = True  # whether what is won on different arms may be multiplied
    dropping = (
        ": {arm} is no longer asked about, what was lost on it stays lost, and what was shown of the others stays "
        "shown."
    )
    adding = ": {arm} starts with no evidence on either side, and nothing else changes."

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Won:
        """Nothing won."""
        nothing = np.zeros((*runs, problem.arms))
        return Won(nothing, nothing, nothing > 0)

    def choice(self, problem: Problem, won: Won, known: Known) -> Sides:
        """The side of the past mean."""
        return Sides(known.past.means > self.level)

    @quiet
    def confidence(self, problem: Problem, choice: Sides, known: Known) -> Floats:
        """log prod_i Phi(distance from the level in standard errors)."""
        away = self._distances(known) * np.sqrt(known.past.counts / known.variance[..., None])
        return total(log_phi(away))

    def settled(self, problem: Problem, won: Won, known: Known, choice: Sides, batch: Batch) -> Won:
        """Each arm's money on the side it was bet on; an arm that is settled is not bet on."""
        need = self.needs(problem, won, choice)
        level = self.level - np.where(choice.above, self.tolerance, -self.tolerance) if self.tolerance else self.level
        gain = problem.noise.level(known, batch, level, choice.above, np.where(need > 0, need + ROOM, 0.0))
        won = won._replace(
            above=won.above + np.where(choice.above, gain, 0.0),
            below=won.below + np.where(choice.above, 0.0, gain),
        )
        return won._replace(settled=self.decided(problem, won))

    @quiet
    def in_parts(self, problem: Problem, won: Won, known: Known, choice: Sides, parts: Parts, shifts: bool) -> Won:
        """The same after a batch in parts: for each arm and side the average over dealings.

        With several dealings nothing in the bets on an arm may depend on what others give in this batch, or the product
        over arms of their averages would be no purse: what the others have won is that of before. In one dealing it
        may.
        """
        runs, several = won.above.shape[:-1], parts.dealings
        data, first = seen(known.past, parts), not known.past.history
        above, below, done = (columns(each, several) for each in (won.above, won.below, won.settled))
        bars, means = columns(self.bars(problem, won), several), columns(known.past.means, several)
        found = np.empty_like(above), np.empty_like(below)
        for here in chunks(data.counts.shape):
            part = data.at(here)
            field = field_of(part, None if first else means[:, here], False)
            purses = (above[:, here], below[:, here])
            together = several == 1 and self.independent
            plus, minus = self._played(problem, purses, done[:, here], bars[:, here], part, field, together)
            found[0][:, here], found[1][:, here] = plus, minus
        won = won._replace(above=averaged(found[0], runs, several), below=averaged(found[1], runs, several))
        return won._replace(settled=self.decided(problem, won))

    def _played(
        self,
        problem: Problem,
        purses: tuple[Floats, Floats],
        done: Bools,
        goals: Floats,
        data: Seen,
        field: Field,
        together: bool,
    ) -> tuple[Floats, Floats]:
        """L^+ and L^- of each column after all parts. (K, n)"""
        parts, tilts = len(data.counts), tilts_of(problem.noise, data)
        open_ = np.flatnonzero(~done)
        arm = (np.arange(parts) * done.size)[:, None] + open_
        away, inverse, new, leverage = (
            each.reshape(parts, -1).take(open_, axis=1, mode="clip")
            for each in (field.means, field.inverse, field.new, field.per_row)
        )
        away -= self.level
        above = away > 0
        sign = np.where(above, 1.0, -1.0)
        variances = tilts.level_variances(self.level)
        z = np.abs(away, out=away)
        z += self.tolerance
        z /= np.sqrt(inverse * (variances.reshape(-1).take(arm) if variances.size > 1 else variances.item()))
        new -= self.level
        new *= sign
        new += self.tolerance
        good = possible(inverse, leverage, z >= (GATE if data.before.counts.any() else FIRST_GATE))
        tilt = levels_apart(tilts, arm, sign, new, leverage, self.level, -self.tolerance)
        inverse /= leverage
        plus, minus = (each.reshape(-1).take(open_) for each in purses)
        mine, other = np.where(above[0], plus, minus), np.where(above[0], minus, plus)
        goal, least = goals.reshape(-1).take(open_), np.ascontiguousarray(self._least(*purses))

        def switch(p: int, gains: Floats) -> None:
            turned = np.flatnonzero(above[p] != above[p - 1]) if p else np.empty(0, dtype=np.intp)
            if turned.size:
                gains[turned], other[turned] = other[turned], gains[turned]
            if together and p:
                here = self._least(gains, other)
                least.reshape(-1)[open_] = here
                np.subtract(problem.goal + here, summed(least[None])[0].take(open_ % done.shape[1]), out=goal)

        mine = settled(goal, mine, z, inverse, tilt, good, switch, data.jump)
        found = [each.reshape(-1).copy() for each in purses]
        found[0][open_], found[1][open_] = np.where(above[-1], mine, other), np.where(above[-1], other, mine)
        return found[0].reshape(done.shape), found[1].reshape(done.shape)

    def stops(self, problem: Problem, won: Won) -> Bools:
        """Every arm is settled."""
        return np.asarray(won.settled.all(axis=-1))

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """The set that lost least."""
        return np.asarray(won.above > won.below)

    def without(self, problem: Problem, won: Won, arm: int) -> Won:
        """What was lost on the arm goes into every set: once, by way of the first arm (Proposition 22)."""
        above, below = np.delete(won.above, arm), np.delete(won.below, arm)
        first = np.zeros_like(above)
        first[0] = min(float(won.above[arm]), float(won.below[arm]))
        return Won(above + first, below + first, np.delete(won.settled, arm))

    def with_one_more(self, won: Won) -> Won:
        """It starts with nothing (Proposition 23)."""
        return Won(np.append(won.above, 0.0), np.append(won.below, 0.0), np.append(won.settled, False))

    def struck(self, problem: Problem, won: Won, means: Floats) -> Bools:
        """Some arm is settled on the wrong side, or the set of the right sides has lost."""
        low, high = means < self.level - self.tolerance, means > self.level + self.tolerance
        against = won.settled & np.where(won.above > won.below, low, high)
        cell = np.where(high, won.below, np.where(low, won.above, 0.0 if self.tolerance else won.above))
        return np.asarray(against.any(axis=-1) | (total(cell) >= problem.goal))

    @quiet
    def wanted(self, problem: Problem, won: Won, choice: Sides, known: Known) -> Wanted:
        """n_j = 2 sigma^2 need_j / g_j^2 for each arm that is open."""
        need = self.needs(problem, won, choice)
        spread = known.variance[..., None] / np.maximum(known.past.counts, 1.0)
        distance = np.maximum(self._distances(known), np.sqrt(spread))
        return Wanted(2 * known.variance[..., None] * need / distance**2, ~won.settled)

    def needs(self, problem: Problem, won: Won, choice: Sides) -> Floats:
        """What the side that each arm is bet on must still win, 0 if it is settled."""
        mine = np.where(choice.above, won.above, won.below)
        return np.where(won.settled, 0.0, self.bars(problem, won) - mine)

    def bars(self, problem: Problem, won: Won) -> Floats:
        """What a side of each arm must win. (K)"""
        return problem.goal - self.others(won)

    def decided(self, problem: Problem, won: Won) -> Bools:
        """Which arms are settled by now: all sets that disagree have lost at one time. (K)"""
        most = np.maximum(won.above, won.below) + self.others(won)
        return np.asarray(won.settled | (most >= problem.goal))

    def claimed(self, problem: Problem, won: Won, choice: Sides) -> tuple[Bools, Floats]:
        """The side each arm is settled on, or else bet on, and what was won against the sets that disagree."""
        above = np.where(won.settled, won.above > won.below, choice.above)
        return above, np.where(above, won.above, won.below) + self.others(won)

    def others(self, won: Won) -> Floats:
        """For each arm what was won against the likelier sides of all others."""
        least = self._least(won.above, won.below)
        return total(least)[..., None] - least

    def claims(self, problem: Problem, won: Won, choice: Sides, names: Sequence[str]) -> list[Claim]:
        """Of each arm the side that it is on."""
        goal = problem.goal
        return [
            Claim(
                f"{name} is {'above' if side else 'below'} {self.level:g}{near_words(self.tolerance)}",
                float(max(gain, goal) if settled else gain),
                goal,
                bool(settled),
                about=About((arm,), (1.0,), self._border(bool(side)), below=not side),
            )
            for arm, (name, side, gain, settled) in enumerate(
                zip(names, *self.claimed(problem, won, choice), won.settled, strict=True)
            )
        ]

    def emptied(self, problem: Problem, won: Won) -> bool:
        """The set that lost least has lost."""
        return bool(total(self._least(won.above, won.below)) >= problem.goal)

    def means(self, bets: Bets) -> Interval:
        """An end passes the level, less the tolerance, just when the arm is settled on that side."""
        won, (lower, minus) = bets.end.won, bets.of_means(bets.problem.goal)
        above, _ = self.claimed(bets.problem, won, bets.end.choice)
        return interval(
            agreed(lower, self._border(True), won.settled & above),
            agreed(minus, -self._border(False), won.settled & ~above),
        )

    def spare(self, bets: Bets) -> Floats:
        """From the level to the bound on its side."""
        lower, upper = self.means(bets)
        above, _ = self.claimed(bets.problem, bets.end.won, bets.end.choice)
        return np.where(above, lower - self._border(True), self._border(False) - upper)

    def behind(self, bets: Bets, leader: int | None, spare: Floats) -> None:
        """Nothing: no arm is the best."""
        return

    def _border(self, above: bool) -> float:
        """From where on an arm may be said to be above, or below."""
        return self.level - self.tolerance if above else self.level + self.tolerance

    def _distances(self, known: Known) -> Floats:
        """How far each mean is from where its side would be wrong."""
        return np.abs(known.past.means - self.level) + self.tolerance

    def _least(self, above: Floats, below: Floats) -> Floats:
        """What was won against the likeliest cell of each arm: with a tolerance it may lie between the two."""
        least = np.minimum(above, below)
        return np.minimum(least, 0.0) if self.tolerance else least
