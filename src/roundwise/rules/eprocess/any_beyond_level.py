"""Is the smallest mean below a level (or any above it): one cell for no, one for every arm that would be the yes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, quiet, total
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.parts import Index, PartBets, PartForm
from roundwise.questions.base import Answer, near_words
from roundwise.rules.base import ClaimStatus, Interval, LinearForm
from roundwise.rules.eprocess.base import EProcess, RequiredPulls
from roundwise.rules.eprocess.bounds import BetHistory, interval, match_decision, means_of
from roundwise.rules.eprocess.engine import OpenNulls, PartsView, bet_on_parts, level_of, log_phi, sum_arms


class BeyondLevelWealth(NamedTuple):
    """log of what was won against "no arm is beyond", and against "this arm is beyond"."""

    none: Floats  # (), log E_0
    none_lost: Bools  # ()
    arms: Floats  # (K), log E_j
    arms_lost: Bools  # (K)


class ExtremeArm(NamedTuple):
    """The arm that looks furthest beyond the level."""

    arm: NDArray[np.intp]  # ()


@dataclass(frozen=True)
class BeyondLevelEProcess(EProcess):
    """Cells Q_0 = {no mean beyond the level}, Q_j = {mean j at the level or beyond}.

    Beyond is below for the minimum, above for "is any above". With a tolerance Q_0 has all means within the level by at
    least as much, and Q_j has mean j as far beyond: where neither is so, either answer is right.
    """

    level: float
    beyond_is_above: bool
    tolerance: float = 0.0
    bounds_match_decision = True
    tag = "any-beyond-level"
    batch_value = 0.55

    def start(self, problem: Problem, runs: tuple[int, ...]) -> BeyondLevelWealth:
        """Nothing won, nobody out."""
        arms = np.zeros((*runs, problem.arms))
        return BeyondLevelWealth(
            np.zeros(runs), np.zeros(runs, dtype=np.bool_), arms, np.zeros(arms.shape, dtype=np.bool_)
        )

    def choose(self, problem: Problem, won: BeyondLevelWealth, known: Estimates) -> ExtremeArm:
        """The arm whose mean lies furthest beyond."""
        return ExtremeArm(np.where(known.past.counts > 0, self._beyond(known), -np.inf).argmax(axis=-1))

    @quiet
    def confidence(self, problem: Problem, alternative: ExtremeArm, known: Estimates) -> Floats:
        """Yes: how sure the one arm is beyond; no: how sure all are not."""
        away, root = self._beyond(known), np.sqrt(known.past.counts / known.variance[..., None])
        chosen = np.take_along_axis(away, alternative.arm[..., None], axis=-1)[..., 0]
        yes = np.take_along_axis((away + self.tolerance) * root, alternative.arm[..., None], axis=-1)[..., 0]
        return np.where(chosen > 0, log_phi(yes), total(log_phi((self.tolerance - away) * root)))

    @quiet
    def update(
        self,
        problem: Problem,
        won: BeyondLevelWealth,
        known: Estimates,
        alternative: ExtremeArm,
        parts: Parts,
        shifts: bool,
    ) -> BeyondLevelWealth:
        """Return the wealth after a batch in parts: the average over its partitions, at its end."""
        first = not known.past.history

        def opened(view: PartsView, part_bets: PartBets, gains: Floats, lost: Bools) -> OpenNulls | None:
            size, arms, n = view.means.shape
            at = np.flatnonzero(~lost)
            if not at.size:
                return None
            beyond = (view.means - self.level) * self._sign
            place = (np.arange(size) * (arms * n))[:, None]
            chosen = np.where(view.inverse < 1e8, beyond, -np.inf).argmax(axis=1) * n + place + np.arange(n)
            arm = np.where(at < arms * n, place + at % (arms * n), chosen.take(at % n, axis=1))
            sign = np.broadcast_to(np.where(at < arms * n, -self._sign, self._sign), arm.shape)
            form = PartForm([arm], [sign], sign * self.level - self.tolerance)
            spread = part_bets.level_variances(self.level)
            live = self._confident(beyond, view, chosen, spread)[:, at % n] if first else None
            variance = spread.reshape(-1).take(arm) if spread.size > 1 else spread.item()
            return OpenNulls(form, at, problem.goal, gate=lambda z: live, variance=variance, level=level_of(form))

        lost = _beside(won.arms_lost, won.none_lost)
        after = bet_on_parts(problem, known, parts, False, opened, _beside(won.arms, won.none), lost)
        none, arms = after[..., -1], after[..., :-1]
        return BeyondLevelWealth(
            none, won.none_lost | (none >= problem.goal), arms, won.arms_lost | (arms >= problem.goal)
        )

    def _confident(self, beyond: Floats, view: PartsView, chosen: Index, variances: Floats) -> Bools:
        """Whether what the parts before say is more likely right than wrong; never before the first. (P, n)"""
        error = np.sqrt(view.inverse * variances)
        yes = ((beyond + self.tolerance) / error).reshape(-1).take(chosen)
        no = sum_arms(log_phi((self.tolerance - beyond) / error))
        live = np.where(beyond.reshape(-1).take(chosen) > 0, log_phi(yes), no) >= math.log(0.5)
        live[0] = False
        return np.asarray(live)

    def stops(self, problem: Problem, won: BeyondLevelWealth) -> Bools:
        """ "No arm" has lost, or every arm has."""
        return np.asarray(won.none_lost | won.arms_lost.all(axis=-1))

    def answer(self, problem: Problem, won: BeyondLevelWealth, known: Estimates) -> Answer:
        """Yes if "no arm" has lost; if everything has lost, what the means say."""
        both = won.none_lost & won.arms_lost.all(axis=-1)
        return np.where(both, (self._beyond(known) > 0).any(axis=-1), won.none_lost)

    def false_rejection(self, problem: Problem, won: BeyondLevelWealth, means: Floats) -> Bools:
        """An arm that is beyond has been ruled out, or "no arm" although none is."""
        beyond = (means - self.level) * self._sign
        if (beyond > self.tolerance).any():
            return won.arms_lost[..., int(beyond.argmax())]
        return won.none_lost if beyond.max() <= -self.tolerance else np.zeros_like(won.none_lost)

    @quiet
    def required_pulls(
        self, problem: Problem, won: BeyondLevelWealth, alternative: ExtremeArm, known: Estimates
    ) -> RequiredPulls:
        """Yes: the one arm; no: every arm that is open; as for a level."""
        goal = problem.goal
        away = self._beyond(known)
        chosen = np.arange(problem.arms) == alternative.arm[..., None]
        yes = (np.where(chosen, away, -np.inf).max(axis=-1) > 0)[..., None]
        need = np.where(yes, (goal - won.none)[..., None], goal - won.arms)
        aimed = np.where(yes, chosen, ~won.arms_lost)
        spread = known.variance[..., None] / np.maximum(known.past.counts, 1.0)
        distance = np.maximum(np.abs(away) + self.tolerance, np.sqrt(spread))
        return RequiredPulls(
            np.where(aimed, 2 * known.variance[..., None] * need / distance**2, 0.0), aimed | ~won.arms_lost
        )

    def claims(
        self, problem: Problem, won: BeyondLevelWealth, alternative: ExtremeArm, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """That some mean is beyond, and of each arm that it is not."""
        goal, near = problem.goal, near_words(self.tolerance)
        beyond = f"{'above' if self.beyond_is_above else 'below'} {self.level:g}{near}"
        return [
            ClaimStatus(f"some mean is {beyond}", float(won.none), goal, bool(won.none_lost)),
            *(
                ClaimStatus(
                    f"{name} is not {beyond}",
                    float(gain),
                    goal,
                    bool(lost),
                    about=LinearForm((arm,), (1.0,), self._border(False), below=self.beyond_is_above),
                )
                for arm, (name, gain, lost) in enumerate(zip(names, won.arms, won.arms_lost, strict=True))
            ),
        ]

    def all_rejected(self, problem: Problem, won: BeyondLevelWealth) -> bool:
        """ "No arm" has lost, and every arm has."""
        return bool(won.none_lost and won.arms_lost.all())

    def means(self, bets: BetHistory) -> Interval:
        """No arm's bound passes the level before it is shown that some arm is beyond."""
        won, ends = bets.end.won, bets.of_means(bets.problem.goal)
        beyond, inner = ends if self.beyond_is_above else ends[::-1]
        beyond = beyond if won.none_lost else np.minimum(beyond, self._sign * self._border(True))
        inner = match_decision(inner, -self._sign * self._border(False), won.arms_lost)
        return interval(beyond, inner) if self.beyond_is_above else interval(inner, beyond)

    def margins(self, bets: BetHistory) -> Floats:
        """Of the arm that looked furthest beyond, and of each arm."""
        won, goal, arms = bets.end.won, bets.problem.goal, bets.problem.arms
        yes, no = (self._sign * self._border(each) for each in (True, False))
        chosen = [means_of(arms, self._sign, bet.alternative.arm) for bet in bets.placed]
        some = match_decision(bets.bound(chosen[-1], goal, chosen), yes, won.none_lost)
        every = match_decision(bets.bound(means_of(arms, -self._sign), goal), -no, won.arms_lost)
        return np.append(some - yes, every + no)

    def _beyond(self, known: Estimates) -> Floats:
        return (known.past.means - self.level) * self._sign

    def _border(self, yes: bool) -> float:
        """From where on an arm may be said to be beyond, or not to be."""
        return self.level - self._sign * (self.tolerance if yes else -self.tolerance)

    @property
    def _sign(self) -> float:
        return 1.0 if self.beyond_is_above else -1.0


def _beside(arms: Array, none: Array) -> Array:
    """What belongs to each arm, and to none of them as the last."""
    return np.concatenate([arms.transpose(), none.transpose()[None]]).transpose()
