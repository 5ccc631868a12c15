"""What a ledger owes: the wrong answers of one kind of question, and how much has been won against each.

"One true null" (docs/why-the-guarantee-holds.md, Proposition 2): the means lie in at least one cell whose answer is
right; money is bet against every cell; an answer is given when the cells of all other answers have lost 1/delta times
the stake. An error needs that the one true cell lost, which has probability at most delta. No union over arms or looks
is paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.bounds import Bets, Choice, Won
from roundwise.estimates import Known
from roundwise.problem import Problem
from roundwise.questions.base import Answer
from roundwise.state import Batch, Parts
from roundwise.stopping.base import Behind, Claim, Interval


class Wanted(NamedTuple):
    """What would settle everything that is still open, if the estimates were true."""

    pulls: Floats  # (K)
    unfinished: Bools  # (K), arms of what is still open


class Ledger(Protocol[Won, Choice]):
    """The cells of one kind of question."""

    @property
    def shifts(self) -> bool:
        """Whether every bet compares arms of one batch, so that shifts of a whole batch cancel."""

    @property
    def agrees(self) -> bool:
        """Whether bounds of means agree with the decision, so that each end is one on its own."""

    @property
    def worth(self) -> float:
        """What a batch is worth where no price is said, beside one that looks for the best arm."""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Won:
        """The money before the first batch."""

    def choice(self, problem: Problem, won: Won, known: Known) -> Choice:
        """What to bet on in the next batch, from the past alone."""

    def confidence(self, problem: Problem, choice: Choice, known: Known) -> Floats:
        """log of the probability that the choice points the right way, as far as the past tells. ()"""

    def settled(self, problem: Problem, won: Won, known: Known, choice: Choice, batch: Batch) -> Won:
        """The money after a batch that is bet on as a whole."""

    def in_parts(self, problem: Problem, won: Won, known: Known, choice: Choice, parts: Parts, shifts: bool) -> Won:
        """The money after a batch in parts: each is bet on with what those before it showed, dealing by dealing.

        What counts is the average over dealings, at the end of the batch. With `shifts`, estimates within the batch
        come from differences, too.
        """

    def stops(self, problem: Problem, won: Won) -> Bools:
        """Whether all cells but those of one answer have lost."""

    def answer(self, problem: Problem, won: Won, known: Known) -> Answer:
        """The answer whose cells have not lost."""

    def struck(self, problem: Problem, won: Won, means: Floats) -> Bools:
        """Whether a cell that holds these means has lost: it must be so with probability at most delta. ()"""

    def wanted(self, problem: Problem, won: Won, choice: Choice, known: Known) -> Wanted:
        """The pulls that would settle what is open."""

    def claims(self, problem: Problem, won: Won, choice: Choice, names: Sequence[str]) -> list[Claim]:
        """What must be shown, one line each. One run only, as all that follows."""

    def emptied(self, problem: Problem, won: Won) -> bool:
        """Whether every answer has been ruled out: the right one, too."""

    def means(self, bets: Bets) -> Interval:
        """Bounds of means that hold at all times and agree with the decision.

        For each arm an interval that holds its mean with probability at least 1 - delta; for a question about a level
        each end with probability at least 1 - 2 delta: delta for the bound itself, and delta for the decision.
        """

    def spare(self, bets: Bets) -> Floats:
        """By how much each claim holds, at least, in their order: positive just where it is shown.

        Each is a bound on one side, which holds with probability at least 1 - 2 delta at all times: delta for the
        bound itself, and delta for the decision, with which it agrees.
        """

    def behind(self, bets: Bets, leader: int | None, spare: Floats) -> Behind | None:
        """How far arms are behind, where the best one is asked for; the leader is that of the estimates, if None."""


@runtime_checkable
class Changing(Protocol[Won]):
    """A ledger with a proved rule by which arms may leave and join because of results (Propositions 22 and 23)."""

    @property
    def dropping(self) -> str:
        """What leaving `{arm}` out does to what was won, after "This keeps the guarantee"."""

    @property
    def adding(self) -> str:
        """What taking `{arm}` in does."""

    def without(self, problem: Problem, won: Won, arm: int) -> Won:
        """What was won, without an arm. One run only."""

    def with_one_more(self, won: Won) -> Won:
        """What was won, with one more arm, the last. One run only."""


def changing(ledger: Ledger) -> Changing | None:
    """The ledger, if arms may leave and join because of results."""
    return ledger if isinstance(ledger, Changing) else None


def reached(need: Floats, gain: Floats, after: Floats, goal: Floats | float) -> Bools:
    """Whether a bet won what was needed: `after` may round to below the goal although it did, or to the goal before."""
    return np.asarray((need > 0) & ((gain >= need) | (after >= goal)))
