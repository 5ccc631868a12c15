"""Which arms are above a level on a list, and which claims hold there? One e-process per side of each statement.

A side is shown by rule (R) (Proposition 13), evaluated after every item, or by arithmetic. Settled statements stop
permanently, so that all e-processes in the sum of (R) stand at the same place (Proposition 52).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, LinearForm
from roundwise.rules.eprocess.bounds import match_decision
from roundwise.rules.eprocess.closed_testing import missing_wealth, reject_closed, wealth_in_goals
from roundwise.rules.finite.bets import LEADS, LEAST, ROUNDING, is_certain, left_mean, log_factors, log_wealth
from roundwise.rules.finite.bounds import Stakes, fixed_ends
from roundwise.rules.finite.known import KnownPart
from roundwise.rules.finite.process import FiniteProcess, ItemRow, Need


class Statement(NamedTuple):
    """A statement about the list: a linear combination of the arms' means is above one bound, or below another."""

    words: str
    opposite: str  # the text of the other side; empty if there is none
    about: LinearForm  # in units of the results
    label: str


class ListStatementWealth(NamedTuple):
    """Running sums of y, the form or its negative, and the wealth for each side of each statement."""

    sums: Floats  # (2, J)
    squares: Floats  # (J), over items with all results
    log_wealth: Floats  # (2, 6, J), logs
    shown: Bools  # (2, J), permanent
    certain: Bools  # (2, J), by arithmetic


class StatementProcess(FiniteProcess[ListStatementWealth]):
    """Statements `forms . means > bounds[0]` and their opposites `< bounds[1]`, of results in [0, 1].

    Args:
        size: N.
        goal: log(1/delta).
        forms: (J, K).
        bounds: The bounds of both sides; (2, J).
        sharp: Whether each side is false exactly at its bound. (2)
        sides: 2 if opposites can be shown, else 1; statements that are certainly false are settled in any case.
        weights: The weights of the statements. (J)
        flips: Whether results are negated, because lower ones are better.
        describe: The statements in words, given the names of the arms.
    """

    tag = "list-statements"
    growth: ClassVar[tuple[float, float]] = (1.1, 1.5)

    def __init__(
        self,
        size: int,
        goal: float,
        forms: Floats,
        bounds: Floats,
        sharp: tuple[bool, bool],
        sides: int,
        weights: Floats,
        flips: bool,
        describe: Callable[[Sequence[str]], list[Statement]],
    ) -> None:
        super().__init__(size, goal, flips)
        self.sides, self.weights, self.describe = sides, weights, describe
        self.up, self.down = np.maximum(forms, 0.0), np.minimum(forms, 0.0)
        self.of_arms = forms != 0
        self.compares = np.abs(forms.sum(axis=-1)) <= 1e-12
        self.bounds = np.stack([bounds[0], -bounds[1]])  # both sides claim that the mean of y exceeds a bound
        self.low = np.stack([self.down.sum(axis=-1), -self.up.sum(axis=-1)])
        self.sharp = np.array(sharp)[:, None]

    @cached_property
    def known_part(self) -> KnownPart:
        """The known part of each side: of a known arm or, for a level without one, of the items' score. (2, J)"""
        assert self.known is not None
        forms = self.up + self.down
        of_arms = self.known.column_of(forms.shape[-1])
        known = self.of_arms & (of_arms >= 0)
        arm, some = known.argmax(axis=-1), known.any(axis=-1)
        column = np.where(some, of_arms[arm], np.where(self.compares, -1, len(self.known.arms)))
        own = np.arange(forms.shape[-1]) == np.where(some, arm, -1)[:, None]
        share = np.where(own, forms, 0.0).sum(axis=-1)
        down, up = (np.where(own, 0.0, each).sum(axis=-1) for each in (self.down, self.up))
        return KnownPart(np.stack([column, column]), np.stack([share, -share]), np.stack([down, -up]))

    def start(self, runs: tuple[int, ...], arms: int) -> ListStatementWealth:
        two, number = (*runs, 2, len(self.weights)), len(self.weights)
        certain = np.zeros(two, dtype=np.bool_)
        if self.known is not None:  # statements about known arms only
            means = np.zeros(arms)
            means[list(self.known.arms)] = self.known.means[:-1]
            alone = ~(self.of_arms & (self.known.column_of(arms) < 0)).any(axis=-1)
            certain |= alone & self._certain(self.size * self._values(means, means), np.full((1, 1), float(self.size)))
        logs = np.zeros((*runs, 2, len(LEADS), number))
        return ListStatementWealth(np.zeros(two), np.zeros((*runs, number)), logs, certain, certain)

    def _values(self, low: Floats, high: Floats) -> Floats:
        """y of both sides, with failed requests at their least favourable. (K)->(2, J)"""
        above = low @ self.up.T + high @ self.down.T
        below = -(high @ self.up.T + low @ self.down.T)
        return np.stack([above, below], axis=-2)

    def step(self, wealth: ListStatementWealth, row: ItemRow) -> ListStatementWealth:
        place, open_ = row.place[..., None, None], ~self._closed(wealth)
        y = self._values(row.low, row.high)
        mean = left_mean(self.size, place, self.bounds, wealth.sums)
        variance = np.broadcast_to(self._variance(wealth, place)[..., None, :], y.shape)
        stretch = np.broadcast_to(self.size / (self.size - place), y.shape)
        stakes = Stakes(y, wealth.sums, variance, open_[..., None, :], self.low)
        if self.known is not None and row.control is not None:
            sums = row.control.cross.swapaxes(-1, -2) @ (self.up + self.down).T  # (Q, J)
            cross = sums[..., self.known_part.column[0], np.arange(y.shape[-1])][..., None, :] * [[1.0], [-1.0]]
            stakes = self.known.adjust(stakes, place, row.control, cross, self.known_part)
        factors = log_factors(stakes.y, mean, stakes.low, stakes.variance, stretch)
        logs = wealth.log_wealth + np.where(open_[..., None, None, :], factors, 0.0)
        complete = (row.seen[..., None, :] | ~self.of_arms).all(axis=-1)
        wealth = wealth._replace(
            sums=np.where(open_[..., None, :], wealth.sums + y, wealth.sums),
            squares=wealth.squares + np.where(complete & open_, y[..., 0, :] ** 2, 0.0),
            log_wealth=logs,
        )
        certain = self._certain(wealth.sums, place + 1.0) & open_[..., None, :]
        return self._show(wealth._replace(certain=wealth.certain | certain))

    def _certain(self, sums: Floats, place: Floats) -> Bools:
        """The sides certain by arithmetic, including a side at its bound if it is true there."""
        above = is_certain(self.size, place, self.bounds, sums, self.low)
        least = sums + (self.size - place) * self.low
        at = least >= self.size * self.bounds - ROUNDING * self.size
        return np.asarray(np.where(self.sharp, above, at))

    def _show(self, wealth: ListStatementWealth) -> ListStatementWealth:
        shown = wealth.shown | wealth.certain
        logs = wealth_in_goals(log_wealth(wealth.log_wealth), self.goal)
        sides = slice(0, self.sides)
        shown[..., sides, :] |= reject_closed(logs[..., sides, :], shown[..., sides, :], self.weights)
        return wealth._replace(shown=shown)

    def _closed(self, wealth: ListStatementWealth) -> Bools:
        return np.asarray(wealth.shown.any(axis=-2))

    def _variance(self, wealth: ListStatementWealth, place: Floats) -> Floats:
        n = place[..., 0, :]
        about = np.where(self.compares, 0.0, wealth.sums[..., 0, :] ** 2 / np.maximum(n, 1.0))
        variance = (0.5 + np.maximum(wealth.squares - about, 0.0)) / (n + 2.0)
        return np.asarray(np.where(self.compares, variance, np.maximum(variance, LEAST)))

    def conclude(self, wealth: ListStatementWealth, low: Floats, high: Floats) -> ListStatementWealth:
        sums = self._values(low, high)
        certain = self._certain(sums, np.full((*sums.shape[:-2], 1, 1), float(self.size)))
        return wealth._replace(sums=sums, certain=certain, shown=certain.copy())

    def needed(self, wealth: ListStatementWealth) -> Bools:
        return np.asarray((~self._closed(wealth)[..., :, None] & self.of_arms).any(axis=-2))

    def settled(self, wealth: ListStatementWealth) -> Bools:
        return np.asarray(self._closed(wealth).all(axis=-1))

    def needs(self, wealth: ListStatementWealth, place: Floats) -> Need:
        n = np.maximum(place, 1.0)[..., None, None]
        leads = wealth.sums / n - self.bounds
        if self.sides == 1:
            leads[..., 1, :] = -np.inf
        side = leads.argmax(axis=-2)[..., None, :]
        won = np.take_along_axis(log_wealth(wealth.log_wealth), side, axis=-2)[..., 0, :]
        open_ = ~self._closed(wealth)
        crowd = np.log(np.maximum(open_.sum(axis=-1), 1))[..., None]
        lead = np.take_along_axis(leads, side, axis=-2)[..., 0, :]
        return Need(lead, self._variance(wealth, place[..., None, None]), self.goal + crowd - won, open_)

    def answer(self, wealth: ListStatementWealth) -> Answer:
        """The mask of shown statements, then of their opposites if these can be shown."""
        return np.concatenate([wealth.shown[..., k, :] for k in range(self.sides)], axis=-1)

    def claims(self, wealth: ListStatementWealth, names: Sequence[str]) -> list[ClaimStatus]:
        sides = slice(0, self.sides)
        won = np.where(wealth.certain, np.inf, log_wealth(wealth.log_wealth))[sides]
        logs = wealth_in_goals(log_wealth(wealth.log_wealth), self.goal)[sides]
        lack = np.log1p(missing_wealth(logs, wealth.shown[sides], self.weights) / self.weights)
        found = []
        for side in range(self.sides):
            for j, each in enumerate(self.describe(names)):
                about = each.about._replace(below=each.about.below != bool(side))
                found.append(
                    ClaimStatus(
                        each.opposite if side else each.words,
                        float(won[side, j]),
                        float(self.goal + lack[j]),
                        bool(wealth.shown[side, j]),
                        about=about,
                        label=each.label,
                        opposite=bool(side),
                        given_up=bool(self._closed(wealth)[j] and not wealth.shown[side, j]),
                    )
                )
        return found

    def margins(self, wealth: ListStatementWealth, rows: ItemRow) -> Floats:
        """The lower confidence bound of each side minus its bound; positive just where the side is shown."""
        y = self._values(rows.low, rows.high)
        there, seen = ((each[..., None, :] | ~self.of_arms).all(axis=-1) for each in (rows.there, rows.seen))
        found = np.empty_like(self.bounds)
        for side in range(2):
            ends = self.low[side], -self.low[1 - side]
            found[side] = fixed_ends(y[:, side], there, seen, self.size, ends, self.goal, ~self.compares)
        return (match_decision(found, self.bounds, wealth.shown) - self.bounds)[: self.sides].ravel()

    def wrong(self, wealth: ListStatementWealth, means: Floats) -> Bools:
        """Whether a side is shown that is false for these list means, in [0, 1]."""
        y = self._values(means, means)
        true = np.where(self.sharp, y > self.bounds + 1e-9, y >= self.bounds - 1e-9)
        return np.asarray((wealth.shown & ~true)[..., : self.sides, :].any(axis=(-1, -2)))


class LevelProcess(StatementProcess):
    """The arms above a level, as a set."""

    tag = "list-levels"

    def open_at_end(self, wealth: ListStatementWealth) -> Bools:
        return ~self.settled(wealth)

    def answer(self, wealth: ListStatementWealth) -> Answer:
        return np.asarray(wealth.shown[..., 0, :])

    def claims(self, wealth: ListStatementWealth, names: Sequence[str]) -> list[ClaimStatus]:
        """For each arm the side that is shown, or has more evidence."""
        every, sides = super().claims(wealth, names), self._sides(wealth).tolist()
        return [
            every[arm + side * len(names)]._replace(opposite=False, label=None, given_up=False)
            for arm, side in enumerate(sides)
        ]

    def margins(self, wealth: ListStatementWealth, rows: ItemRow) -> Floats:
        every, sides = super().margins(wealth, rows), self._sides(wealth)
        return every[np.arange(len(sides)) + sides * len(sides)]

    def _sides(self, wealth: ListStatementWealth) -> NDArray[np.intp]:
        """0 for above, 1 for not above. (K)"""
        won = np.where(wealth.certain, np.inf, log_wealth(wealth.log_wealth))
        below = wealth.shown[1] | (~wealth.shown[0] & (won[1] > won[0]))
        return below.astype(np.intp)
