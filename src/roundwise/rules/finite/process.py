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

    A request that failed permanently has the least value where a high one would speak for a statement, and the largest
    where a low one would.
    """

    place: Floats  # (), n: how many items came before
    low: Floats  # (K)
    high: Floats  # (K)
    seen: Bools  # (K), whether there is a result
    there: Bools  # (K), the same or a request that failed
    control: Control | None = None  # of the columns that are known of the whole list


class Need(NamedTuple):
    """Open comparisons, for the planner: one entry for each that must be settled."""

    lead: Floats  # (J), as far as it is known
    variance: Floats  # (J), of one value
    log_wealth: Floats  # (J), still to be won
    open: Bools  # (J)


class FiniteProcess(ABC, Generic[Wealth]):
    """The wealth against every wrong answer about a list of `size` items, item after item in its random order.

    All arrays have the runs first. What `step` bets depends on earlier places alone.
    """

    tag: ClassVar[str]
    growth: ClassVar[tuple[float, float]] = (1.1, 2.5)  # of the items so far, after the next block: least and most

    known: KnownColumns | None = None

    def __init__(self, size: int, goal: float, flips: bool = False) -> None:
        self.size, self.goal, self.flips = size, goal, flips  # whether lower results are better

    @abstractmethod
    def start(self, runs: tuple[int, ...], arms: int) -> Wealth:
        """The state before the first item."""

    @abstractmethod
    def step(self, wealth: Wealth, row: ItemRow) -> Wealth:
        """The state after one more item: bets on it, and what is certain after it."""

    @abstractmethod
    def conclude(self, wealth: Wealth, low: Floats, high: Floats) -> Wealth:
        """The state once every result is there: arithmetic decides. The sums are of the whole list, as in `ItemRow`."""

    @abstractmethod
    def needed(self, wealth: Wealth) -> Bools:
        """Which arms must have a result at the next place. (K)"""

    def lags(self, wealth: Wealth, place: Floats) -> Bools:
        """Which needed arms have not been counted on all places before this one: they were not needed there. (K)"""
        return np.zeros_like(self.needed(wealth))

    def recount(self, wealth: Wealth, rows: ItemRow) -> Wealth:
        """The state with the sums of all arms that have results on all places so far; rows have an axis of places."""
        return wealth

    def close(self, wealth: Wealth) -> Wealth:
        """The state at the end of the list."""
        return wealth

    def ended(self, wealth: Wealth, place: Floats) -> Bools:
        """Whether there is an answer: shown, or because the list is used up. ()"""
        return np.asarray(self.settled(wealth) | (place >= self.size))

    def open_at_end(self, wealth: Wealth) -> Bools:
        """Whether requests that failed leave the answer open where the list is used up. ()"""
        return np.zeros_like(self.settled(wealth))

    @abstractmethod
    def settled(self, wealth: Wealth) -> Bools:
        """Whether there is an answer before the end of the list. ()"""

    @abstractmethod
    def needs(self, wealth: Wealth, place: Floats) -> Need:
        """The wealth still needed."""

    @abstractmethod
    def answer(self, wealth: Wealth) -> Answer:
        """The answer; that of arithmetic at the end of the list."""

    @abstractmethod
    def claims(self, wealth: Wealth, names: Sequence[str]) -> list[ClaimStatus]:
        """The claims to be shown. One run."""

    def margins(self, wealth: Wealth, rows: ItemRow) -> Floats | None:
        """By how much each claim holds at least, in units of the range; rows have an axis of places. One run."""
        return None

    def answer_text(self, problem: Problem, wealth: Wealth, names: Sequence[str]) -> str:
        """The answer in words. One run."""
        return f"{problem.question.answer_text(self.answer(wealth), names)} on this list"

    def wrong(self, wealth: Wealth, means: Floats) -> Bools:
        """Whether something is rejected that is true of these means of the list. ()

        By default nothing is known to be: errors then show in the answer alone.
        """
        return np.zeros_like(self.settled(wealth))
