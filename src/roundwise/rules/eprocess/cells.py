"""The e-processes of questions with closed forms: the best arm, the arms above a level, any arm beyond a level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, one_hot, quiet, total, zeros
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates, FormEstimate, signal_share
from roundwise.model.problem import Problem
from roundwise.noise.bets import Index, PartBets, PartForm
from roundwise.questions.base import Answer, near_words
from roundwise.questions.best_arm import solve_star
from roundwise.rules.base import ClaimStatus, GapToLeader, Interval, LinearForm
from roundwise.rules.eprocess.bounds import BetHistory, interval, match_decision, means_of
from roundwise.rules.eprocess.closed_testing import missing_wealth, reject_closed, wealth_in_goals
from roundwise.rules.eprocess.engine import (
    LIKELY,
    EProcess,
    OpenNulls,
    PartsView,
    RequiredPulls,
    RuleState,
    bet_on_parts,
    largest_arm,
    log_phi,
    sum_arms,
)
from roundwise.solvers.halfspaces import Halfspaces, pairs

WARY = 10  # with more arms than this, bets are wary once their differences are mostly signal
TOLD_APART = 0.5  # the share of signal in them from which on they are
CLEAR = 2.5  # standard errors: a lead that is bet on even if it is unsure who leads
SURE = 0.35  # the chance that the leader is right, as the past sees it, from which on every lead is bet on
GATE, FIRST_GATE = 0.5, 2.0  # standard errors off a level from which on a part is bet on: if one arm loses, all do


class BestArmWealth(NamedTuple):
    """log of the wealth against each cell, and which cells have lost."""

    gains: Floats  # (K), log E_i
    rejected: Bools  # (K), E_i reached 1/delta at some time
    departed: Floats = np.zeros(())  # (), how many arms left because of results


class Leader(NamedTuple):
    """Who is compared with whom: every arm is doubted in favour of its rival."""

    leader: NDArray[np.intp]  # ()
    rival: NDArray[np.intp]  # (K), the leader; for the leader its closest follower
    lead: FormEstimate  # (K), of the rival over the arm


@dataclass(frozen=True)
class BestArmEProcess(EProcess):
    """Cells Q_i = {mu_i is the largest}, or the smallest; the bet against Q_i is that its rival is better."""

    shifts = True
    tag = "best-arm"
    dropping: ClassVar[str | None] = (
        ", at a price: what was won against each other arm is cut to what was won against {arm}, and what was ruled "
        "out stays so only if {arm} was ruled out, too."
    )
    adding: ClassVar[str | None] = (
        ": {arm} starts with the least evidence against it that any arm has, and what was ruled out stays so."
    )

    def start(self, problem: Problem, runs: tuple[int, ...]) -> BestArmWealth:
        nothing = zeros((*runs, problem.arms))
        return BestArmWealth(nothing, nothing > 0, np.zeros(runs))

    @quiet
    def choose(self, problem: Problem, wealth: BestArmWealth, known: Estimates) -> Leader:
        """The leader is the best-looking arm; one that has lost must look better by a standard error."""
        looks = np.where(known.past.counts > 0, problem.question.merits(known.means), -np.inf)
        if wealth.rejected.any():
            error = np.sqrt(known.variance[..., None] / np.maximum(known.past.counts, 1.0))
            looks = np.where(wealth.rejected, looks - error, looks)
        leader = looks.argmax(axis=-1)
        leads = one_hot(leader, problem.arms)
        follower = np.where(leads, -np.inf, looks).argmax(axis=-1)
        rival = np.where(leads, follower[..., None], leader[..., None])
        return Leader(leader, rival, problem.noise.estimate_forms(known, _ahead(rival, problem)))

    @quiet
    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        """log prod_i Phi(lead over i in standard errors)."""
        lead, leads = state.alternative.lead, one_hot(state.alternative.leader, problem.arms)
        return total(np.where(leads, 0.0, log_phi(lead.value / state.known.error(lead))))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> BestArmWealth:
        wealth, known, alternative = state
        past, first = known.past, not known.past.history
        extra = error = np.sqrt(known.variance[..., None] / np.maximum(past.counts, 1.0))
        late = shifts and past.batches > 1
        if late:  # N^2 times what shifts of earlier batches add to the variance of each lead over the leader before
            inverse = 1.0 / np.maximum(past.counts, 1.0)
            lead = np.take_along_axis(inverse, alternative.leader[..., None], axis=-1)
            leads = one_hot(alternative.leader, problem.arms)
            added = np.where(leads, 0.0, alternative.lead.leverage - inverse - lead)
            extra = np.where(np.isfinite(added), np.maximum(added, 0.0), 0.0) * past.counts**2
        wary = wealth.rejected[..., :1]
        if problem.arms > WARY and not first:
            wary = signal_share(known)[..., None] >= TOLD_APART

        def open_nulls(
            view: PartsView,
            part_bets: PartBets,
            gains: Floats,
            rejected: Bools,
            error: Floats,
            extra: Floats,
            wary: Bools,
        ) -> OpenNulls | None:
            at = np.flatnonzero(~rejected)
            if not at.size:
                return None
            looks = problem.question.merits(view.means)
            looks = looks - rejected * error if rejected.any() and not first else looks.copy()
            if first or view.data.before.counts.min() <= 0:
                np.copyto(looks, -np.inf, where=~(view.inverse < 1e8))
            n, place = looks.shape[-1], np.arange(len(looks))[:, None] * rejected.size
            lead = largest_arm(looks) * n + (place + np.arange(n))  # places in (P, K, n)
            looks.reshape(-1)[lead] = -np.inf
            follow = largest_arm(looks) * n + (place + np.arange(n))
            run, arm = at % n, place + at
            leader = lead.take(run, axis=1)
            own = leader == arm
            rival = np.where(own, follow.take(run, axis=1), leader)
            high, low = (arm, rival) if problem.question.lower_is_better else (rival, arm)
            form = PartForm([high, low], None, np.broadcast_to(0.0, arm.shape))

            def add_shifts(before: Floats) -> Floats:
                other = np.where(own, rival, arm)
                return view.inverse.reshape(-1).take(other) ** 2 * extra.reshape(-1).take(other - place)

            def gate(z: Floats) -> Bools | None:
                if first:  # bet on once the leader is more likely right than wrong
                    live = sum_arms(np.where(own, 0.0, log_phi(z)).reshape(looks.shape)) >= LIKELY
                    live[0] = False
                    return live[:, run]
                if problem.arms <= WARY or not wary.any():
                    return None
                sums = [np.bincount(run, row, n) for row in np.where(own, 0.0, log_phi(z))]
                return (z >= CLEAR) | (np.array(sums) >= math.log(SURE))[:, run] | ~wary[0, run]

            variances = part_bets.variances
            variance: Floats | float = float(variances.flat[0])
            if variances.size > 1:
                spread = np.broadcast_to(variances, looks.shape).reshape(-1)
                variance = (spread.take(arm) + spread.take(rival)) / 2
            return OpenNulls(form, at, problem.goal, gate, add_shifts if late else None, variance)

        others = (wealth.rejected, error, extra, wary)
        after = bet_on_parts(problem, known, parts, shifts, open_nulls, wealth.gains, *others)
        return BestArmWealth(after, wealth.rejected | (after >= problem.goal), wealth.departed)

    def stops(self, problem: Problem, wealth: BestArmWealth) -> Bools:
        return np.asarray(wealth.rejected.sum(axis=-1) >= problem.arms - 1)

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """The arm that has not lost; if all have, the best-looking one."""
        rejected, means = state.wealth.rejected, problem.question.merits(state.known.means)
        return np.where(
            rejected.all(axis=-1), means.argmax(axis=-1), np.where(rejected, -np.inf, means).argmax(axis=-1)
        )

    def without(self, problem: Problem, wealth: BestArmWealth, arm: int) -> BestArmWealth:
        """Each arm's wealth is cut to that of the arm (Proposition 22)."""
        gains = np.minimum(np.delete(wealth.gains, arm), wealth.gains[arm])
        rejected = (np.delete(wealth.rejected, arm) & wealth.rejected[arm]) | (gains >= problem.goal)
        return BestArmWealth(gains, rejected, wealth.departed + 1.0)

    def with_arm(self, wealth: BestArmWealth) -> BestArmWealth:
        """It starts with the least that any arm has, at most 1 (Proposition 23)."""
        gains = np.append(wealth.gains, min(float(wealth.gains.min()), 0.0))
        return BestArmWealth(gains, np.append(wealth.rejected, False), wealth.departed)

    def false_rejection(self, problem: Problem, wealth: BestArmWealth, means: Floats) -> Bools:
        return wealth.rejected[..., int(problem.question.merits(means).argmax())]

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """min sum n subject to 1/n_leader + 1/n_i <= g_i^2 / (2 sigma^2 need_i) for all who are still in."""
        wealth, known, (leader, _, lead) = state
        leads = one_hot(leader, problem.arms)
        open_ = ~wealth.rejected & ~leads
        distance = np.maximum(lead.value, known.error(lead))
        need = problem.goal - wealth.gains
        if problem.noise.shares_items:  # the items of the leader serve all: it needs as many as any other
            spread = problem.noise.difference_variances(known.past, lead.pieces)
            items = np.where(open_, 2 * spread * need / distance**2, 0.0)
            return RequiredPulls(np.where(leads, items.max(axis=-1, keepdims=True), items), open_ | leads)
        costs = np.where(open_, distance * distance / (2 * known.variance[..., None] * need), np.inf)
        return RequiredPulls(solve_star(costs, leads, problem.prices), open_ | leads)

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        return [
            ClaimStatus(f"{name} is not the best", float(gain), problem.goal, bool(rejected), left=name)
            for name, gain, rejected in zip(names, state.wealth.gains, state.wealth.rejected, strict=True)
        ]

    def all_rejected(self, problem: Problem, wealth: BestArmWealth) -> bool:
        return bool(wealth.rejected.all())

    def margins(self, bets: BetHistory) -> Floats:
        """How far each arm is behind the best one; 0 if it may be the best.

        Once arms left because of results, the rivals in earlier batches were not known before these: then it is one
        rival for all batches, and its choice among all arms there were is paid for.
        """
        wealth, _, alternative = bets.end
        if wealth.departed:
            ahead = _ahead(alternative.rival, bets.problem)
            found = bets.bound(ahead, bets.bar_of_leader(float(wealth.departed)))
        else:
            rivals = [_ahead(bet.alternative.rival, bets.problem) for bet in bets.placed]
            found = bets.bound(rivals[-1], bets.problem.goal, rivals)
        return np.where(wealth.rejected, match_decision(found, 0.0, wealth.rejected), 0.0)

    def gap_to_leader(self, bets: BetHistory, leader: int | None, margins: Floats) -> GapToLeader | None:
        leader = bets.leader if leader is None else leader
        return GapToLeader(margins, None, bets.gap_to_leader(leader, float(bets.end.wealth.departed)))


def _ahead(rival: NDArray[np.intp], problem: Problem) -> Halfspaces:
    """Of each arm that its rival is better. (K)"""
    every = np.broadcast_to(np.arange(problem.arms), rival.shape)
    return pairs(every, rival) if problem.question.lower_is_better else pairs(rival, every)


@dataclass(frozen=True)
class LevelEProcess(EProcess):
    """Questions about a level. Where lower is better everything is mirrored: "beyond" the level is then below it.

    With a tolerance it is enough to be beyond the level less the tolerance, or short of the level and the tolerance.
    """

    level: float
    tolerance: float = 0.0
    lower_is_better: bool = False
    bounds_match_decision = True

    @property
    def _sign(self) -> float:
        return -1.0 if self.lower_is_better else 1.0

    def _heights(self, means: Floats) -> Floats:
        """How far each mean is beyond the level."""
        return (means - self.level) * self._sign

    def _border(self, above: bool) -> float:
        """The border of an answer: the level less its tolerance."""
        return self.level - self.tolerance if above else self.level + self.tolerance

    def _side_text(self, problem: Problem, above: bool) -> str:
        words = problem.wording
        return f"{'above' if above else 'below'} {words.value(self.level)}{near_words(self.tolerance, words)}"

    def _form(self, part_bets: PartBets, arm: Index, beyond: Bools) -> tuple[PartForm, Floats | float]:
        """Bets that arms, by their places, are beyond the level or short of it, and a guess at the variance. (P, c)"""
        sign = np.broadcast_to(np.where(beyond, self._sign, -self._sign), arm.shape)
        spread = part_bets.level_variances(self.level)
        variance = spread.reshape(-1).take(arm) if spread.size > 1 else spread.item()
        return PartForm([arm], [sign], sign * self.level - self.tolerance), variance

    def _pulls(self, known: Estimates, need: Floats) -> Floats:
        """n_j = 2 sigma^2 need_j / g_j^2, g_j how far the mean is from where its side would be wrong. (K)"""
        error = np.sqrt(known.variance[..., None] / np.maximum(known.past.counts, 1.0))
        distance = np.maximum(np.abs(known.past.means - self.level) + self.tolerance, error)
        return 2 * known.variance[..., None] * need / distance**2


class AboveWealth(NamedTuple):
    """log of the wealth for each arm being above, and for its being below; where lower is better, the other way."""

    above: Floats  # (K), L^+
    below: Floats  # (K), L^-
    settled: Bools  # (K), all sets that have the arm on the other side lost, at one time
    log_departed: Floats = np.zeros(())  # (), what arms that left have lost, at most 0


class LevelBets(NamedTuple):
    """On which side of the level each arm is bet to lie."""

    above: Bools  # (K)


@dataclass(frozen=True)
class AboveEProcess(LevelEProcess):
    """Above a level: the cells are all 2^K sets S of arms, log E_S = sum over S of L^- plus sum over the others of L^+.

    An arm is settled when all S that disagree have lost. The product needs arms that are independent given the past.
    Its own maximum counts, never the product of each arm's maximum (docs/why-the-guarantee-holds.md).

    Of every other arm the least of L^+, L^- and 0 is added, so the wealth on one arm is no evidence about another. With
    a tolerance L^+ is won against "the mean is at most the level less the tolerance", L^- against "at least the level
    and the tolerance", and an arm in between is in neither.
    """

    tag = "above"
    independent: ClassVar[bool] = True  # whether the wealth on different arms may be multiplied
    dropping = (
        ": {arm} is no longer asked about, what was lost on it stays lost, and what was shown of the others stays "
        "shown."
    )
    adding: ClassVar[str | None] = ": {arm} starts with no evidence on either side, and nothing else changes."

    def start(self, problem: Problem, runs: tuple[int, ...]) -> AboveWealth:
        nothing = np.zeros((*runs, problem.arms))
        return AboveWealth(nothing, nothing, nothing > 0, np.zeros(runs))

    def choose(self, problem: Problem, wealth: AboveWealth, known: Estimates) -> LevelBets:
        return LevelBets(self._heights(known.past.means) > 0)

    @quiet
    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        """log prod_i Phi(distance from the level in standard errors)."""
        known = state.known
        distance = np.abs(known.past.means - self.level) + self.tolerance
        return total(log_phi(distance * np.sqrt(known.past.counts / known.variance[..., None])))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> AboveWealth:
        """Return the wealth after a batch in parts: for each arm and side the average over partitions.

        With several partitions nothing in the bets on an arm may depend on the results of others in this batch, or the
        product over arms of their averages would be no e-process: the others have their wealth of before. In one
        partition it may.
        """
        wealth, known, arms = state.wealth, state.known, problem.arms
        gate = GATE if known.past.counts.any() else FIRST_GATE
        together = parts.partitions == 1 and self.independent

        def open_nulls(
            view: PartsView, part_bets: PartBets, gains: Floats, done: Bools, bars: Floats, gone: Floats
        ) -> OpenNulls | None:
            higher = self._heights(view.means) > 0
            sides = np.concatenate([higher.any(axis=0), ~higher.all(axis=0)]) & ~np.concatenate([done, done])
            at = np.flatnonzero(sides)  # an arm may change its side
            if not at.size:
                return None
            place, run = at % done.size, at % done.shape[1]
            arm = (np.arange(len(view.means)) * done.size)[:, None] + place
            beyond = at < done.size
            form, variance = self._form(part_bets, arm, beyond)
            goal, every, above = bars.reshape(-1).take(place), gains.flatten(), higher.reshape(-1).take(arm)

            def others(p: int, now: Floats) -> None:
                if together and p:
                    every[at] = now
                    least = np.minimum(np.minimum(*every.reshape(2, *done.shape)), 0.0)
                    rejected = sum_arms(least[None])[0] + gone[0]  # on all arms, those that left included
                    goal[:] = problem.goal + least.reshape(-1).take(place) - rejected.take(run)

            return OpenNulls(
                form,
                at,
                goal,
                gate=lambda z: (z >= gate) & (above == beyond),
                variance=variance,
                by_level=True,
                switch=others,
                alone=False,
            )

        both = np.concatenate([wealth.above, wealth.below], axis=-1)
        rest = (wealth.settled, self._bars(problem, wealth), wealth.log_departed[..., None])
        after = bet_on_parts(problem, known, parts, False, open_nulls, both, *rest, wide=2 * arms)
        wealth = wealth._replace(above=after[..., :arms], below=after[..., arms:])
        return wealth._replace(settled=self.decided(problem, wealth))

    def stops(self, problem: Problem, wealth: AboveWealth) -> Bools:
        return np.asarray(wealth.settled.all(axis=-1))

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """The set that lost least."""
        return np.asarray(state.wealth.above > state.wealth.below)

    def without(self, problem: Problem, wealth: AboveWealth, arm: int) -> AboveWealth:
        """The losses on the arm stay, whatever the others are (Proposition 22)."""
        above, below = np.delete(wealth.above, arm), np.delete(wealth.below, arm)
        return AboveWealth(above, below, np.delete(wealth.settled, arm), wealth.log_departed + _least(wealth)[arm])

    def with_arm(self, wealth: AboveWealth) -> AboveWealth:
        """It starts with nothing (Proposition 23)."""
        above, below = np.append(wealth.above, 0.0), np.append(wealth.below, 0.0)
        return AboveWealth(above, below, np.append(wealth.settled, False), wealth.log_departed)

    def false_rejection(self, problem: Problem, wealth: AboveWealth, means: Floats) -> Bools:
        """Some arm is settled on the wrong side, or the set of the right sides has lost."""
        low, high = means < self.level - self.tolerance, means > self.level + self.tolerance
        low, high = (high, low) if self.lower_is_better else (low, high)
        against = (wealth.settled & np.where(wealth.above > wealth.below, low, high)).any(axis=-1)
        if not self.independent:
            return np.asarray(against)
        cell = np.where(high, wealth.below, np.where(low, wealth.above, 0.0 if self.tolerance else wealth.above))
        return np.asarray(against | (total(cell) + wealth.log_departed >= problem.goal))

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        wealth, known, alternative = state
        mine = np.where(alternative.above, wealth.above, wealth.below)
        need = np.where(wealth.settled, 0.0, self._bars(problem, wealth) - mine)
        return RequiredPulls(self._pulls(known, need), ~wealth.settled)

    def _bars(self, problem: Problem, wealth: AboveWealth) -> Floats:
        """The bar of a side of each arm. (K)"""
        return problem.goal - _lost_by_others(wealth)

    def decided(self, problem: Problem, wealth: AboveWealth) -> Bools:
        """Which arms are settled by now: all sets that disagree have lost at one time. (K)"""
        most = np.maximum(wealth.above, wealth.below) + _lost_by_others(wealth)
        return np.asarray(wealth.settled | (most >= problem.goal))

    def _sides(self, wealth: AboveWealth, alternative: LevelBets) -> Bools:
        """Whether each arm is settled, or else bet, to be on the side that is asked about. (K)"""
        return np.where(wealth.settled, wealth.above > wealth.below, alternative.above)

    def evidence(self, problem: Problem, wealth: AboveWealth, above: Bools) -> Floats:
        """log of the wealth against the sets that disagree with these sides. (K)"""
        return np.where(above, wealth.above, wealth.below) + _lost_by_others(wealth)

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        wealth, goal = state.wealth, problem.goal
        sides = self._sides(wealth, state.alternative)
        evidence, above = self.evidence(problem, wealth, sides), sides != self.lower_is_better
        rows = zip(names, above.tolist(), evidence, wealth.settled, strict=True)
        return [
            ClaimStatus(
                f"{name} is {self._side_text(problem, high)}",
                float(max(gain, goal) if settled else gain),
                goal,
                bool(settled),
                about=LinearForm((arm,), (1.0,), self._border(high), below=not high),
            )
            for arm, (name, high, gain, settled) in enumerate(rows)
        ]

    def all_rejected(self, problem: Problem, wealth: AboveWealth) -> bool:
        """The set that lost least has lost; with a tolerance no set need be true."""
        least = total(np.minimum(wealth.above, wealth.below)) + wealth.log_departed
        return self.independent and not self.tolerance and bool(least >= problem.goal)

    def means(self, bets: BetHistory) -> Interval:
        """An end passes the level, less the tolerance, just when the arm is settled on that side."""
        wealth, (lower, minus) = bets.end.wealth, bets.of_means(bets.problem.goal)
        above = self._sides(wealth, bets.end.alternative) != self.lower_is_better
        return interval(
            match_decision(lower, self._border(True), wealth.settled & above),
            match_decision(minus, -self._border(False), wealth.settled & ~above),
        )

    def margins(self, bets: BetHistory) -> Floats:
        """From the level to the bound on its side."""
        lower, upper = self.means(bets)
        above = self._sides(bets.end.wealth, bets.end.alternative) != self.lower_is_better
        return np.where(above, lower - self._border(True), self._border(False) - upper)


def _least(wealth: AboveWealth) -> Floats:
    """The losses on each arm, whichever side it is on, or none; at most 0."""
    return np.minimum(np.minimum(wealth.above, wealth.below), 0.0)


def _lost_by_others(wealth: AboveWealth) -> Floats:
    """For each arm the losses on all others, those that left included; at most 0."""
    least = _least(wealth)
    return total(least)[..., None] - least + wealth.log_departed[..., None]


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

    def _bars(self, problem: Problem, wealth: AboveWealth) -> Floats:
        """The bar that settles an arm whatever the others do."""
        return np.full(wealth.above.shape, problem.goal + math.log(problem.arms))

    def decided(self, problem: Problem, wealth: AboveWealth) -> Bools:
        now = reject_closed(*self._in_goals(problem, wealth), np.ones(problem.arms))
        return np.asarray(wealth.settled | now.any(axis=-2))

    def evidence(self, problem: Problem, wealth: AboveWealth, above: Bools) -> Floats:
        """log of the wealth for each side, less what it needs beyond 1/delta. (K)"""
        lack = np.log1p(missing_wealth(*self._in_goals(problem, wealth), np.ones(problem.arms)))
        return np.where(above, wealth.above, wealth.below) - lack

    def without(self, problem: Problem, wealth: AboveWealth, arm: int) -> AboveWealth:
        """Open sides are cut to the least of the arm that leaves, so that the mean over true nulls does not rise."""
        rejected, higher = np.minimum(wealth.above, wealth.below)[arm], wealth.above > wealth.below
        above = np.where(wealth.settled & higher, wealth.above, np.minimum(wealth.above, rejected))
        below = np.where(wealth.settled & ~higher, wealth.below, np.minimum(wealth.below, rejected))
        above, below, settled = np.delete(above, arm), np.delete(below, arm), np.delete(wealth.settled, arm)
        return AboveWealth(above, below, settled, np.minimum(wealth.log_departed, rejected))

    def with_arm(self, wealth: AboveWealth) -> AboveWealth:
        """It starts with the smallest wealth there is, at most 1 and what any arm had that left (Proposition 18)."""
        least = min(float(np.minimum(wealth.above, wealth.below).min()), float(wealth.log_departed))
        above, below = np.append(wealth.above, least), np.append(wealth.below, least)
        return AboveWealth(above, below, np.append(wealth.settled, False), wealth.log_departed)

    def _in_goals(self, problem: Problem, wealth: AboveWealth) -> tuple[Floats, Bools]:
        """Wealth on both sides of each arm, and which are shown. (2, K) each"""
        higher = wealth.above > wealth.below
        shown = np.stack([wealth.settled & higher, wealth.settled & ~higher], axis=-2)
        return wealth_in_goals(np.stack([wealth.above, wealth.below], axis=-2), problem.goal), shown


class BeyondLevelWealth(NamedTuple):
    """log of the wealth against "no arm is beyond", and against "this arm is beyond"."""

    none: Floats  # (), log E_0
    none_rejected: Bools  # ()
    arms: Floats  # (K), log E_j
    arms_rejected: Bools  # (K)


class ExtremeArm(NamedTuple):
    """The arm that looks furthest beyond the level."""

    arm: NDArray[np.intp]  # ()


@dataclass(frozen=True)
class BeyondLevelEProcess(LevelEProcess):
    """Is any mean beyond a level: cells Q_0 = {no mean beyond the level}, Q_j = {mean j at the level or beyond}.

    Beyond is below for the minimum, above for "is any above". With a tolerance Q_0 has all means within the level by at
    least as much, and Q_j has mean j as far beyond: where neither is so, either answer is right.
    """

    tag = "any-beyond-level"
    batch_value = 0.55

    def start(self, problem: Problem, runs: tuple[int, ...]) -> BeyondLevelWealth:
        none, arms = np.zeros(runs), np.zeros((*runs, problem.arms))
        return BeyondLevelWealth(none, none > 0, arms, arms > 0)

    def choose(self, problem: Problem, wealth: BeyondLevelWealth, known: Estimates) -> ExtremeArm:
        return ExtremeArm(np.where(known.past.counts > 0, self._heights(known.past.means), -np.inf).argmax(axis=-1))

    @quiet
    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        """Yes: how sure the one arm is beyond; no: how sure all are not."""
        known, arm = state.known, state.alternative.arm[..., None]
        away, root = self._heights(known.past.means), np.sqrt(known.past.counts / known.variance[..., None])
        chosen = np.take_along_axis(away, arm, axis=-1)[..., 0]
        yes = np.take_along_axis((away + self.tolerance) * root, arm, axis=-1)[..., 0]
        return np.where(chosen > 0, log_phi(yes), total(log_phi((self.tolerance - away) * root)))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> BeyondLevelWealth:
        wealth, known, _ = state
        first = not known.past.history

        def open_nulls(view: PartsView, part_bets: PartBets, gains: Floats, rejected: Bools) -> OpenNulls | None:
            size, arms, n = view.means.shape
            at = np.flatnonzero(~rejected)
            if not at.size:
                return None
            beyond = self._heights(view.means)
            place = (np.arange(size) * (arms * n))[:, None]
            chosen = np.where(view.inverse < 1e8, beyond, -np.inf).argmax(axis=1) * n + place + np.arange(n)
            arm = np.where(at < arms * n, place + at % (arms * n), chosen.take(at % n, axis=1))
            form, variance = self._form(part_bets, arm, at >= arms * n)
            live = None
            if first:  # bet once the parts before are more likely right than wrong; never on the first
                error = np.sqrt(view.inverse * part_bets.level_variances(self.level))
                yes = ((beyond + self.tolerance) / error).reshape(-1).take(chosen)
                no = sum_arms(log_phi((self.tolerance - beyond) / error))
                sure = np.where(beyond.reshape(-1).take(chosen) > 0, log_phi(yes), no) >= LIKELY
                sure[0] = False
                live = sure[:, at % n]
            return OpenNulls(form, at, problem.goal, gate=lambda z: live, variance=variance, by_level=True)

        def join(arms: Array, none: Array) -> Array:
            return np.concatenate([arms.transpose(), none.transpose()[None]]).transpose()

        gains, rejected = join(wealth.arms, wealth.none), join(wealth.arms_rejected, wealth.none_rejected)
        after = bet_on_parts(problem, known, parts, False, open_nulls, gains, rejected)
        rejected |= after >= problem.goal
        return BeyondLevelWealth(after[..., -1], rejected[..., -1], after[..., :-1], rejected[..., :-1])

    def stops(self, problem: Problem, wealth: BeyondLevelWealth) -> Bools:
        return np.asarray(wealth.none_rejected | wealth.arms_rejected.all(axis=-1))

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """Yes if "no arm" has lost; if everything has lost, what the means say."""
        wealth, beyond = state.wealth, self._heights(state.known.past.means)
        return np.where(
            wealth.none_rejected & wealth.arms_rejected.all(axis=-1), (beyond > 0).any(axis=-1), wealth.none_rejected
        )

    def false_rejection(self, problem: Problem, wealth: BeyondLevelWealth, means: Floats) -> Bools:
        """An arm that is beyond has been ruled out, or "no arm" although none is."""
        beyond = self._heights(means)
        if (beyond > self.tolerance).any():
            return wealth.arms_rejected[..., int(beyond.argmax())]
        return wealth.none_rejected if beyond.max() <= -self.tolerance else np.zeros_like(wealth.none_rejected)

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Yes: the one arm; no: every arm that is open; as for a level."""
        wealth, known, alternative = state
        away = self._heights(known.past.means)
        chosen = np.arange(problem.arms) == alternative.arm[..., None]
        yes = (np.where(chosen, away, -np.inf).max(axis=-1) > 0)[..., None]
        need = np.where(yes, (problem.goal - wealth.none)[..., None], problem.goal - wealth.arms)
        aimed = np.where(yes, chosen, ~wealth.arms_rejected)
        return RequiredPulls(np.where(aimed, self._pulls(known, need), 0.0), aimed | ~wealth.arms_rejected)

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        """That some mean is beyond, and of each arm that it is not."""
        wealth, goal = state.wealth, problem.goal
        beyond = self._side_text(problem, not self.lower_is_better)
        some = f"some {problem.wording.mean} is {beyond}"
        found = [ClaimStatus(some, float(wealth.none), goal, bool(wealth.none_rejected))]
        for arm, (name, gain, rejected) in enumerate(zip(names, wealth.arms, wealth.arms_rejected, strict=True)):
            about = LinearForm((arm,), (1.0,), self._border(self.lower_is_better), below=not self.lower_is_better)
            found.append(ClaimStatus(f"{name} is not {beyond}", float(gain), goal, bool(rejected), about=about))
        return found

    def all_rejected(self, problem: Problem, wealth: BeyondLevelWealth) -> bool:
        return bool(wealth.none_rejected and wealth.arms_rejected.all())

    def means(self, bets: BetHistory) -> Interval:
        """No arm's bound passes the level before it is shown that some arm is beyond."""
        wealth, ends = bets.end.wealth, bets.of_means(bets.problem.goal)
        yes, no = self._sign * self._border(not self.lower_is_better), self._sign * self._border(self.lower_is_better)
        beyond, inner = ends[::-1] if self.lower_is_better else ends
        beyond = beyond if wealth.none_rejected else np.minimum(beyond, yes)
        inner = match_decision(inner, -no, wealth.arms_rejected)
        return interval(inner, beyond) if self.lower_is_better else interval(beyond, inner)

    def margins(self, bets: BetHistory) -> Floats:
        """Of the arm that looked furthest beyond, and of each arm."""
        wealth, goal, arms = bets.end.wealth, bets.problem.goal, bets.problem.arms
        yes, no = self._sign * self._border(not self.lower_is_better), self._sign * self._border(self.lower_is_better)
        chosen = [means_of(arms, self._sign, bet.alternative.arm) for bet in bets.placed]
        some = match_decision(bets.bound(chosen[-1], goal, chosen), yes, wealth.none_rejected)
        every = match_decision(bets.bound(means_of(arms, -self._sign), goal), -no, wealth.arms_rejected)
        return np.append(some - yes, every + no)
