"""Is the smallest mean below a level (or any above it): one cell for no, one for every arm that would be the yes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total
from roundwise.betting.bounds import Bets, agreed, interval, means_of
from roundwise.betting.ledger import Wanted, reached
from roundwise.estimates import Known
from roundwise.problem import Problem
from roundwise.questions.base import Answer, quiet
from roundwise.state import Batch
from roundwise.stopping.explained import About, Claim, Interval


class Won(NamedTuple):
    """log of what was won against "no arm is beyond", and against "this arm is beyond"."""

    none: Floats  # (), log E_0
    none_lost: Bools  # ()
    arms: Floats  # (K), log E_j
    arms_lost: Bools  # (K)


class Extreme(NamedTuple):
    """The arm that looks furthest beyond the level."""

    arm: NDArray[np.intp]  # ()


@dataclass(frozen=True)
class ExtremeLedger:
    """Cells Q_0 = {no mean beyond the level}, Q_j = {mean j at the level or beyond}.

    Beyond is below for the minimum, above for "is any above".
    """

    level: float
    beyond_is_above: bool
    shifts = False
    agrees = True

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Won:
        """Nothing won, nobody out."""
        arms = np.zeros((*runs, problem.arms))
        return Won(np.zeros(runs), np.zeros(runs, dtype=np.bool_), arms, np.zeros(arms.shape, dtype=np.bool_))

    def choice(self, problem: Problem, won: Won, known: Known) -> Extreme:
        """The arm whose mean lies furthest beyond."""
        return Extreme(np.where(known.past.counts > 0, self._beyond(known), -np.inf).argmax(axis=-1))

    @quiet
    def confidence(self, problem: Problem, choice: Extreme, known: Known) -> Floats:
        """Yes: how sure the one arm is beyond; no: how sure all are not."""
        from scipy.special import log_ndtr

        away = self._beyond(known) * np.sqrt(known.past.counts / known.variance[..., None])
        yes = np.take_along_axis(away, choice.arm[..., None], axis=-1)[..., 0]
        return np.where(yes > 0, log_ndtr(yes), total(log_ndtr(-away)))

    def settled(self, problem: Problem, won: Won, known: Known, choice: Extreme, batch: Batch, live: Bools) -> Won:
        """The one arm is bet to be beyond; every arm is bet not to be."""
        goal = problem.goal
        beyond = np.asarray(self.beyond_is_above)
        chosen = np.arange(problem.arms) == choice.arm[..., None]
        need = np.where(live & ~won.none_lost, goal - won.none, 0.0)
        yes = problem.noise.level(known, batch, self.level, beyond, np.where(chosen, need[..., None], 0.0))
        yes = np.take_along_axis(yes, choice.arm[..., None], axis=-1)[..., 0]
        needs = np.where(live[..., None] & ~won.arms_lost, goal - won.arms, 0.0)
        no = problem.noise.level(known, batch, self.level, ~beyond, needs)
        none, arms = won.none + yes, won.arms + no
        return Won(
            none,
            won.none_lost | reached(need, yes, none, goal),
            arms,
            won.arms_lost | reached(needs, no, arms, goal),
        )

    def stops(self, problem: Problem, won: Won) -> Bools:
        """ "No arm" has lost, or every arm has."""
        return np.asarray(won.none_lost | won.arms_lost.all(axis=-1))

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """Yes if "no arm" has lost; if everything has lost, what the means say."""
        both = won.none_lost & won.arms_lost.all(axis=-1)
        return np.where(both, (self._beyond(known) > 0).any(axis=-1), won.none_lost)

    def struck(self, problem: Problem, won: Won, means: Floats) -> Bools:
        """An arm that is beyond has been ruled out, or "no arm" although none is."""
        beyond = (means - self.level) * self._sign
        return won.arms_lost[..., int(beyond.argmax())] if (beyond > 0).any() else won.none_lost

    @quiet
    def wanted(self, problem: Problem, won: Won, choice: Extreme, known: Known) -> Wanted:
        """Yes: the one arm; no: every arm that is open; as for a level."""
        goal = problem.goal
        away = self._beyond(known)
        chosen = np.arange(problem.arms) == choice.arm[..., None]
        yes = (np.where(chosen, away, -np.inf).max(axis=-1) > 0)[..., None]
        need = np.where(yes, (goal - won.none)[..., None], goal - won.arms)
        aimed = np.where(yes, chosen, ~won.arms_lost)
        spread = known.variance[..., None] / np.maximum(known.past.counts, 1.0)
        distance = np.maximum(np.abs(away), np.sqrt(spread))
        return Wanted(np.where(aimed, 2 * known.variance[..., None] * need / distance**2, 0.0), aimed | ~won.arms_lost)

    def claims(self, problem: Problem, won: Won, choice: Extreme, names: Sequence[str]) -> list[Claim]:
        """That some mean is beyond, and of each arm that it is not."""
        beyond, goal = f"{'above' if self.beyond_is_above else 'below'} {self.level:g}", problem.goal
        return [
            Claim(f"some mean is {beyond}", float(won.none), goal, bool(won.none_lost)),
            *(
                Claim(
                    f"{name} is not {beyond}",
                    float(gain),
                    goal,
                    bool(lost),
                    about=About((arm,), (1.0,), self.level, below=self.beyond_is_above),
                )
                for arm, (name, gain, lost) in enumerate(zip(names, won.arms, won.arms_lost, strict=True))
            ),
        ]

    def emptied(self, problem: Problem, won: Won) -> bool:
        """ "No arm" has lost, and every arm has."""
        return bool(won.none_lost and won.arms_lost.all())

    def means(self, bets: Bets) -> Interval:
        """No arm's bound passes the level before it is shown that some arm is beyond."""
        won, ends, level = bets.end.won, bets.of_means(bets.problem.goal), self._sign * self.level
        beyond, inner = ends if self.beyond_is_above else ends[::-1]
        beyond = beyond if won.none_lost else np.minimum(beyond, level)
        inner = agreed(inner, -level, won.arms_lost)
        return interval(beyond, inner) if self.beyond_is_above else interval(inner, beyond)

    def spare(self, bets: Bets) -> Floats:
        """Of the arm that looked furthest beyond, and of each arm."""
        won, goal, arms, level = bets.end.won, bets.problem.goal, bets.problem.arms, self._sign * self.level
        chosen = [means_of(arms, self._sign, bet.choice.arm) for bet in bets.placed]
        some = agreed(bets.bound(chosen[-1], goal, chosen), level, won.none_lost)
        every = agreed(bets.bound(means_of(arms, -self._sign), goal), -level, won.arms_lost)
        return np.append(some - level, every + level)

    def behind(self, bets: Bets, leader: int | None, spare: Floats) -> None:
        """Nothing: no arm is the best."""
        return

    def _beyond(self, known: Known) -> Floats:
        return (known.past.means - self.level) * self._sign

    @property
    def _sign(self) -> float:
        return 1.0 if self.beyond_is_above else -1.0
