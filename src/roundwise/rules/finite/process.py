"""The base class of e-processes for questions about a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.problem import Problem
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus
from roundwise.rules.finite.known import Control, KnownColumns

Wealth = TypeVar("Wealth")  # a named tuple of arrays


class ItemRow(NamedTuple):
    """The results of all arms on the item at one place, in [0, 1], higher is better.

    A request that failed permanently counts as the value that is least favourable to each statement.
    """

    place: Floats  # (), n, the number of earlier items
    low: Floats  # (K)
    high: Floats  # (K)
    seen: Bools  # (K), whether there is a result
    there: Bools  # (K), whether there is a result or a failed request
    control: Control | None = None  # the columns known for the whole list


class Need(NamedTuple):
    """The open comparisons, for the planner: one entry for each that must be settled."""

    lead: Floats  # (J), as estimated
    variance: Floats  # (J), of one value
    log_wealth: Floats  # (J), log of the factor by which wealth must still grow
    open: Bools  # (J)


class FiniteProcess(ABC, Generic[Wealth]):
    """The wealth against every wrong answer about a list of `size` items, one item at a time in random order.

    The first axes of all arrays are runs. The bets of `step` depend only on earlier places.
    """

    tag: ClassVar[str]
    growth: ClassVar[tuple[float, float]] = (1.1, 2.5)  # least and most growth of the items by the next block

    known: KnownColumns | None = None

    def __init__(self, size: int, goal: float, flips: bool = False) -> None:
        self.size, self.goal, self.flips = size, goal, flips  # `flips`: whether lower results are better

    @abstractmethod
    def start(self, runs: tuple[int, ...], arms: int) -> Wealth:
        """The state before the first item."""

    @abstractmethod
    def step(self, wealth: Wealth, row: ItemRow) -> Wealth:
        """The state after one more item: its bets, and what is certain after it."""

    @abstractmethod
    def conclude(self, wealth: Wealth, low: Floats, high: Floats) -> Wealth:
        """The state once all results are known, when arithmetic decides; `low` and `high` sum over the list."""

    @abstractmethod
    def needed(self, wealth: Wealth) -> Bools:
        """Which arms must have a result at the next place. (K)"""

    def lags(self, wealth: Wealth, place: Floats) -> Bools:
        """The needed arms that were not counted on all earlier places, because they were not needed there. (K)"""
        return np.zeros_like(self.needed(wealth))

    def recount(self, wealth: Wealth, rows: ItemRow) -> Wealth:
        """The state with recomputed sums of all arms with results on all places so far; rows have an axis of places."""
        return wealth

    def close(self, wealth: Wealth) -> Wealth:
        """The state at the end of the list."""
        return wealth

    def ended(self, wealth: Wealth, place: Floats) -> Bools:
        """Whether there is an answer: it is shown, or the list is used up. ()"""
        return np.asarray(self.settled(wealth) | (place >= self.size))

    def open_at_end(self, wealth: Wealth) -> Bools:
        """Whether failed requests leave the answer open once the list is used up. ()"""
        return np.zeros_like(self.settled(wealth))

    @abstractmethod
    def settled(self, wealth: Wealth) -> Bools:
        """Whether there is an answer before the end of the list. ()"""

    @abstractmethod
    def needs(self, wealth: Wealth, place: Floats) -> Need:
        """The open comparisons and what they still need."""

    @abstractmethod
    def answer(self, wealth: Wealth) -> Answer:
        """The answer; at the end of the list, the one found by arithmetic."""

    @abstractmethod
    def claims(self, wealth: Wealth, names: Sequence[str]) -> list[ClaimStatus]:
        """The claims to be shown. One run."""

    def margins(self, wealth: Wealth, rows: ItemRow) -> Floats | None:
        """Lower bounds on the margins of claims, in units of the range; rows have an axis of places. One run."""
        return None

    def answer_text(self, problem: Problem, wealth: Wealth, names: Sequence[str]) -> str:
        """The answer in words. One run."""
        return f"{problem.question.answer_text(self.answer(wealth), names)} on this list"

    def wrong(self, wealth: Wealth, means: Floats) -> Bools:
        """Whether something true of these list means is rejected. ()

        False by default: errors then only show in the answer.
        """
        return np.zeros_like(self.settled(wealth))
