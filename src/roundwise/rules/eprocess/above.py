"""Above a level: the cells are all 2^K sets of arms; what is won against one is a product over the arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.parts import PartBets, PartForm
from roundwise.questions.base import Answer, near_words
from roundwise.rules.base import ClaimStatus, Interval, LinearForm
from roundwise.rules.eprocess.base import EProcess, RequiredPulls
from roundwise.rules.eprocess.bounds import BetHistory, interval, match_decision
from roundwise.rules.eprocess.closed_testing import missing_wealth, reject_closed, wealth_in_goals
from roundwise.rules.eprocess.engine import OpenNulls, PartsView, bet_on_parts, level_of, log_phi, sum_arms

ROOM = 0.7  # what capped bets may win beyond what is needed, because other arms may lose in the same batch
GATE, FIRST_GATE = (
    0.5,
    2.0,
)  # standard errors off the level from which on a part is bet on: what one arm loses, all do


class AboveWealth(NamedTuple):
    """log of what was won for each arm being above, and for its being below; and whose side is settled."""

    above: Floats  # (K), L^+
    below: Floats  # (K), L^-
    settled: Bools  # (K), all sets that have the arm on the other side lost, at one time
    gone: Floats = np.zeros(())  # (), what arms that left have lost, at most 0


class LevelBets(NamedTuple):
    """On which side of the level each arm is bet to lie."""

    above: Bools  # (K)


@dataclass(frozen=True)
class AboveEProcess(EProcess):
    """log E_S = sum over S of L^- plus sum over the others of L^+; an arm is settled when all S that disagree lost.

    The product needs arms that are independent given the past. Its own maximum counts, never the product of each
    arm's maximum (docs/why-the-guarantee-holds.md).

    Of every other arm the least of L^+, L^- and 0 is added, so what was won on one arm is no evidence about another.
    With a tolerance L^+ is won against "the mean is at most the level less the tolerance", L^- against "at least the
    level and the tolerance", and an arm in between is in neither.
    """

    level: float
    tolerance: float = 0.0
    bounds_match_decision = True
    tag = "above"
    independent: ClassVar[bool] = True  # whether what is won on different arms may be multiplied
    dropping = (
        ": {arm} is no longer asked about, what was lost on it stays lost, and what was shown of the others stays "
        "shown."
    )
    adding = ": {arm} starts with no evidence on either side, and nothing else changes."

    def start(self, problem: Problem, runs: tuple[int, ...]) -> AboveWealth:
        """Nothing won."""
        nothing = np.zeros((*runs, problem.arms))
        return AboveWealth(nothing, nothing, nothing > 0, np.zeros(runs))

    def choose(self, problem: Problem, won: AboveWealth, known: Estimates) -> LevelBets:
        """The side of the past mean."""
        return LevelBets(known.past.means > self.level)

    @quiet
    def confidence(self, problem: Problem, alternative: LevelBets, known: Estimates) -> Floats:
        """log prod_i Phi(distance from the level in standard errors)."""
        away = self._distances(known) * np.sqrt(known.past.counts / known.variance[..., None])
        return total(log_phi(away))

    @quiet
    def update(
        self, problem: Problem, won: AboveWealth, known: Estimates, alternative: LevelBets, parts: Parts, shifts: bool
    ) -> AboveWealth:
        """Return the wealth after a batch in parts: for each arm and side the average over partitions.

        With several partitions nothing in the bets on an arm may depend on the results of others in this batch, or the
        product over arms of their averages would be no e-process: the others have their wealth of before. In one
        partition it may.
        """
        gate, arms = GATE if known.past.counts.any() else FIRST_GATE, problem.arms
        together = parts.partitions == 1 and self.independent

        def opened(
            view: PartsView, part_bets: PartBets, gains: Floats, done: Bools, bars: Floats, gone: Floats
        ) -> OpenNulls | None:
            higher = view.means > self.level
            sides = np.concatenate([higher.any(axis=0), ~higher.all(axis=0)]) & ~np.concatenate([done, done])
            at = np.flatnonzero(sides)  # an arm may change its side
            if not at.size:
                return None
            place, run = at % done.size, at % done.shape[1]
            arm = (np.arange(len(view.means)) * done.size)[:, None] + place
            sign = np.broadcast_to(np.where(at < done.size, 1.0, -1.0), arm.shape)
            form = PartForm([arm], [sign], sign * self.level - self.tolerance)
            goal, every = bars.reshape(-1).take(place), gains.flatten()
            above, spread = higher.reshape(-1).take(arm), part_bets.level_variances(self.level)

            def others(p: int, wealth: Floats) -> None:
                if together and p:
                    every[at] = wealth
                    least = self._least(*every.reshape(2, *done.shape))
                    lost = sum_arms(least[None])[0] + gone[0]  # on all arms, those that left included
                    goal[:] = problem.goal + least.reshape(-1).take(place) - lost.take(run)

            return OpenNulls(
                form,
                at,
                goal,
                gate=lambda z: (z >= gate) & (above == (sign > 0)),
                variance=spread.reshape(-1).take(arm) if spread.size > 1 else spread.item(),
                level=level_of(form),
                switch=others,
            )

        wealth = np.concatenate([won.above, won.below], axis=-1)
        others_of = (won.settled, self.bars(problem, won), won.gone[..., None])
        after = bet_on_parts(problem, known, parts, False, opened, wealth, *others_of, wide=2 * arms)
        won = won._replace(above=after[..., :arms], below=after[..., arms:])
        return won._replace(settled=self.decided(problem, won))

    def stops(self, problem: Problem, won: AboveWealth) -> Bools:
        """Every arm is settled."""
        return np.asarray(won.settled.all(axis=-1))

    def answer(self, problem: Problem, won: AboveWealth, known: Estimates) -> Answer:
        """The set that lost least."""
        return np.asarray(won.above > won.below)

    def without(self, problem: Problem, won: AboveWealth, arm: int) -> AboveWealth:
        """What was lost on the arm stays lost, whatever the others are (Proposition 22)."""
        lost = self._least(won.above, won.below)[arm]
        above, below, settled = np.delete(won.above, arm), np.delete(won.below, arm), np.delete(won.settled, arm)
        return AboveWealth(above, below, settled, won.gone + lost)

    def with_arm(self, won: AboveWealth) -> AboveWealth:
        """It starts with nothing (Proposition 23)."""
        return AboveWealth(
            np.append(won.above, 0.0), np.append(won.below, 0.0), np.append(won.settled, False), won.gone
        )

    def false_rejection(self, problem: Problem, won: AboveWealth, means: Floats) -> Bools:
        """Some arm is settled on the wrong side, or the set of the right sides has lost."""
        low, high = means < self.level - self.tolerance, means > self.level + self.tolerance
        against = won.settled & np.where(won.above > won.below, low, high)
        cell = np.where(high, won.below, np.where(low, won.above, 0.0 if self.tolerance else won.above))
        return np.asarray(against.any(axis=-1) | (total(cell) + won.gone >= problem.goal))

    @quiet
    def required_pulls(
        self, problem: Problem, won: AboveWealth, alternative: LevelBets, known: Estimates
    ) -> RequiredPulls:
        """n_j = 2 sigma^2 need_j / g_j^2 for each arm that is open."""
        need = self.needs(problem, won, alternative)
        spread = known.variance[..., None] / np.maximum(known.past.counts, 1.0)
        distance = np.maximum(self._distances(known), np.sqrt(spread))
        return RequiredPulls(2 * known.variance[..., None] * need / distance**2, ~won.settled)

    def needs(self, problem: Problem, won: AboveWealth, alternative: LevelBets) -> Floats:
        """What the side that each arm is bet on must still win, 0 if it is settled."""
        mine = np.where(alternative.above, won.above, won.below)
        return np.where(won.settled, 0.0, self.bars(problem, won) - mine)

    def bars(self, problem: Problem, won: AboveWealth) -> Floats:
        """What a side of each arm must win. (K)"""
        return problem.goal - self.others(won)

    def decided(self, problem: Problem, won: AboveWealth) -> Bools:
        """Which arms are settled by now: all sets that disagree have lost at one time. (K)"""
        most = np.maximum(won.above, won.below) + self.others(won)
        return np.asarray(won.settled | (most >= problem.goal))

    def claimed(self, problem: Problem, won: AboveWealth, alternative: LevelBets) -> tuple[Bools, Floats]:
        """The side each arm is settled on, or else bet on, and what was won against the sets that disagree."""
        above = np.where(won.settled, won.above > won.below, alternative.above)
        return above, np.where(above, won.above, won.below) + self.others(won)

    def others(self, won: AboveWealth) -> Floats:
        """For each arm what was lost on all others, those that left included; at most 0."""
        least = self._least(won.above, won.below)
        return total(least)[..., None] - least + won.gone[..., None]

    def claims(
        self, problem: Problem, won: AboveWealth, alternative: LevelBets, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """Of each arm the side that it is on."""
        goal = problem.goal
        return [
            ClaimStatus(
                f"{name} is {'above' if side else 'below'} {self.level:g}{near_words(self.tolerance)}",
                float(max(gain, goal) if settled else gain),
                goal,
                bool(settled),
                about=LinearForm((arm,), (1.0,), self._border(bool(side)), below=not side),
            )
            for arm, (name, side, gain, settled) in enumerate(
                zip(names, *self.claimed(problem, won, alternative), won.settled, strict=True)
            )
        ]

    def all_rejected(self, problem: Problem, won: AboveWealth) -> bool:
        """The set that lost least has lost; with a tolerance no set need be true."""
        least = total(np.minimum(won.above, won.below)) + won.gone
        return not self.tolerance and bool(least >= problem.goal)

    def means(self, bets: BetHistory) -> Interval:
        """An end passes the level, less the tolerance, just when the arm is settled on that side."""
        won, (lower, minus) = bets.end.won, bets.of_means(bets.problem.goal)
        above, _ = self.claimed(bets.problem, won, bets.end.alternative)
        return interval(
            match_decision(lower, self._border(True), won.settled & above),
            match_decision(minus, -self._border(False), won.settled & ~above),
        )

    def margins(self, bets: BetHistory) -> Floats:
        """From the level to the bound on its side."""
        lower, upper = self.means(bets)
        above, _ = self.claimed(bets.problem, bets.end.won, bets.end.alternative)
        return np.where(above, lower - self._border(True), self._border(False) - upper)

    def _border(self, above: bool) -> float:
        """From where on an arm may be said to be above, or below."""
        return self.level - self.tolerance if above else self.level + self.tolerance

    def _distances(self, known: Estimates) -> Floats:
        """How far each mean is from where its side would be wrong."""
        return np.abs(known.past.means - self.level) + self.tolerance

    def _least(self, above: Floats, below: Floats) -> Floats:
        """What was lost on each arm, whichever side it is on, or none."""
        return np.minimum(np.minimum(above, below), 0.0)


@dataclass(frozen=True)
class CrossedAboveEProcess(AboveEProcess):
    """An e-process for each side of each arm; a side is shown by rule (R), with weights of 1 (Proposition 13).

    The error, that any arm is ever settled on a wrong side, is at most delta whatever the dependence between arms.
    """

    independent: ClassVar[bool] = False
    dropping = (
        ", at a price: what was won on each side of the other arms is cut to the least of {arm}, and what was shown of "
        "the others stays shown."
    )
    adding = ": {arm} starts with the least that any arm has on a side, and nothing else changes."

    def bars(self, problem: Problem, won: AboveWealth) -> Floats:
        """What settles an arm whatever the others do."""
        return np.full(won.above.shape, problem.goal + math.log(problem.arms))

    def decided(self, problem: Problem, won: AboveWealth) -> Bools:
        """Which arms have a side that is shown."""
        wealth, shown = _sides(problem, won)
        now = reject_closed(wealth, shown, np.ones(problem.arms))
        return np.asarray(won.settled | now.any(axis=-2))

    def claimed(self, problem: Problem, won: AboveWealth, alternative: LevelBets) -> tuple[Bools, Floats]:
        """The side each arm is settled on, or else bet on, and what was won for it, less what it needs beyond delta."""
        above = np.where(won.settled, won.above > won.below, alternative.above)
        lack = np.log1p(missing_wealth(*_sides(problem, won), np.ones(problem.arms)))
        return above, np.where(above, won.above, won.below) - lack

    def false_rejection(self, problem: Problem, won: AboveWealth, means: Floats) -> Bools:
        """Some arm is settled on the wrong side."""
        low, high = means < self.level - self.tolerance, means > self.level + self.tolerance
        return np.asarray((won.settled & np.where(won.above > won.below, low, high)).any(axis=-1))

    def without(self, problem: Problem, won: AboveWealth, arm: int) -> AboveWealth:
        """Open sides are cut to the least of the arm that leaves, so that the mean over true nulls does not rise."""
        lost, higher = np.minimum(won.above, won.below)[arm], won.above > won.below
        above = np.where(won.settled & higher, won.above, np.minimum(won.above, lost))
        below = np.where(won.settled & ~higher, won.below, np.minimum(won.below, lost))
        above, below, settled = np.delete(above, arm), np.delete(below, arm), np.delete(won.settled, arm)
        return AboveWealth(above, below, settled, np.minimum(won.gone, lost))

    def with_arm(self, won: AboveWealth) -> AboveWealth:
        """It starts with the smallest wealth there is, at most 1 and what any arm had that left (Proposition 18)."""
        least = min(float(np.minimum(won.above, won.below).min()), float(won.gone))
        return AboveWealth(
            np.append(won.above, least), np.append(won.below, least), np.append(won.settled, False), won.gone
        )

    def all_rejected(self, problem: Problem, won: AboveWealth) -> bool:
        """Never: no arm has both sides shown."""
        return False


def _sides(problem: Problem, won: AboveWealth) -> tuple[Floats, Bools]:
    """Wealth on both sides of each arm, and which are shown. (2, K) each"""
    higher = won.above > won.below
    shown = np.stack([won.settled & higher, won.settled & ~higher], axis=-2)
    return wealth_in_goals(np.stack([won.above, won.below], axis=-2), problem.goal), shown
