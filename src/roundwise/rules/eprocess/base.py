"""The base class of e-processes: the wrong answers of one kind of question, and the wealth against each.

"One true null" (docs/why-the-guarantee-holds.md, Proposition 2): the means lie in at least one cell whose answer is
right; there are bets against every cell; an answer is given when the cells of all other answers have lost 1/delta times
the stake. An error needs that the one true cell lost, which has probability at most delta. No union over arms or looks
is paid for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, GapToLeader, Interval
from roundwise.rules.eprocess.bounds import Alternative, BetHistory, Wealth


class RequiredPulls(NamedTuple):
    """What would settle everything that is still open, if the estimates were true."""

    pulls: Floats  # (K)
    unfinished: Bools  # (K), arms of what is still open


class EProcess(ABC, Generic[Wealth, Alternative]):
    """The cells of one kind of question."""

    tag: ClassVar[str]  # names the kind of e-process in the record of a study
    shifts: bool = False  # whether every bet compares arms of one batch, so that shifts of a whole batch cancel
    bounds_match_decision: ClassVar[bool] = (
        False  # whether bounds of means agree with the decision, each end on its own
    )
    batch_value: ClassVar[float] = 1.0  # default price of a batch, relative to one that looks for the best arm
    dropping: ClassVar[str | None] = None  # what leaving `{arm}` out does to the wealth; None: it may not leave
    adding: ClassVar[str | None] = None  # what adding `{arm}` does; None: it may not join because of results

    @abstractmethod
    def start(self, problem: Problem, runs: tuple[int, ...]) -> Wealth:
        """The wealth before the first batch."""

    @abstractmethod
    def choose(self, problem: Problem, won: Wealth, known: Estimates) -> Alternative:
        """What to bet on in the next batch, from the past alone."""

    @abstractmethod
    def confidence(self, problem: Problem, alternative: Alternative, known: Estimates) -> Floats:
        """log of the probability that the alternative points the right way, as far as the past tells. ()"""

    @abstractmethod
    def update(
        self, problem: Problem, won: Wealth, known: Estimates, alternative: Alternative, parts: Parts, shifts: bool
    ) -> Wealth:
        """The wealth after a batch in parts: each is bet on with what those before it showed, partition by partition.

        What counts is the average over partitions, at the end of the batch. With `shifts`, estimates within the batch
        come from differences, too.
        """

    @abstractmethod
    def stops(self, problem: Problem, won: Wealth) -> Bools:
        """Whether all cells but those of one answer have lost."""

    @abstractmethod
    def answer(self, problem: Problem, won: Wealth, known: Estimates) -> Answer:
        """The answer whose cells have not lost."""

    @abstractmethod
    def false_rejection(self, problem: Problem, won: Wealth, means: Floats) -> Bools:
        """Whether a cell that holds these means has lost: it must be so with probability at most delta. ()"""

    @abstractmethod
    def required_pulls(
        self, problem: Problem, won: Wealth, alternative: Alternative, known: Estimates
    ) -> RequiredPulls:
        """The pulls that would settle what is open."""

    @abstractmethod
    def claims(
        self, problem: Problem, won: Wealth, alternative: Alternative, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """What must be shown, one line each. One run only, as all that follows."""

    @abstractmethod
    def all_rejected(self, problem: Problem, won: Wealth) -> bool:
        """Whether every answer has been ruled out: the right one, too."""

    def means(self, bets: BetHistory) -> Interval:
        """Return bounds of means that hold at all times and agree with the decision.

        For each arm an interval that holds its mean with probability at least 1 - delta; for a question about a level
        each end with probability at least 1 - 2 delta: delta for the bound itself, and delta for the decision.
        """
        return bets.intervals()

    @abstractmethod
    def margins(self, bets: BetHistory) -> Floats:
        """Return by how much each claim holds, at least, in their order: positive just where it is shown.

        Each is a one-sided bound, which holds with probability at least 1 - 2 delta at all times: delta for the bound
        itself, and delta for the decision, with which it agrees.
        """

    def gap_to_leader(self, bets: BetHistory, leader: int | None, spare: Floats) -> GapToLeader | None:
        """Return how far arms are behind the leader (None: that of the estimates), if the best arm is asked for."""
        return None

    def without(self, problem: Problem, won: Wealth, arm: int) -> Wealth:
        """Return the wealth without an arm (Proposition 22). One run only."""
        raise NotImplementedError

    def with_arm(self, won: Wealth) -> Wealth:
        """Return the wealth with one more arm, the last (Proposition 23). One run only."""
        raise NotImplementedError
