"""Candidates in the parts of a batch: who is one is asked before every part, and what was won waits for its return.

A bank starts at 1. A candidate that was never visited is opened only once it is more likely right than wrong; its
pieces then start with OPENING of what is in the bank, and the rest stays there for later ones
(docs/why-the-guarantee-holds.md, Proposition 3). Each dealing has a bank and purses of its own within a batch; at its
end they are averaged, a candidate that a dealing did not visit having nothing there.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Floats
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.parts import Index, columns, parts_data
from roundwise.rules.eprocess.engine import OpenNulls, bet_on_nulls
from roundwise.rules.eprocess.part_bets import PartsView, chunks, log_phi, sum_arms, view_parts
from roundwise.rules.eprocess.part_halfspaces import forms_of

OPENING = 0.8  # share of the bank that a new candidate gets
_FEW = 1000  # numbers in the names of all candidates, below which those of all parts are looked up at once


class PartitionWealth(NamedTuple):
    """What each column has: candidates in the order of their first visit, what was won against them, and the bank."""

    answers: Floats  # (C, A, n), -1 where there is no such candidate
    gains: Floats  # (C, Q, n), -inf where there is no such candidate
    bank: Floats  # (n), log of what is left

    def longer(self, candidates: int) -> PartitionWealth:
        """With room for so many candidates."""
        extra = candidates - len(self.answers)
        if extra <= 0:
            return self
        return PartitionWealth(_extended(self.answers, extra, -1.0), _extended(self.gains, extra, -np.inf), self.bank)


class CandidateBefore(NamedTuple):
    """The candidate before the batch, and what the shifts of earlier batches add to the variance of its pieces."""

    answer: Floats  # (A, n)
    without: Floats  # (Q, n), the variance if there were no shifts
    extra: Floats  # (Q, n)


def bet_on_candidates(
    problem: Problem,
    purses: PartitionWealth,
    known: Estimates,
    start: CandidateBefore | None,
    parts: Parts,
    shifts: bool,
) -> PartitionWealth:
    """The purses of each run, (n) runs, after a batch in parts, averaged over its dealings."""
    several, runs = parts.partitions, purses.bank.size
    data, first = parts_data(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    spread, beside = (
        PartitionWealth(*_repeated(purses, several)),
        None if start is None else CandidateBefore(*_repeated(start, several)),
    )
    found = [
        _of_columns(
            problem,
            PartitionWealth(*(each[..., here] for each in spread)),
            view_parts(data.at(here), None if means is None else means[:, here], shifts),
            None if beside is None else CandidateBefore(*(each[..., here] for each in beside)),
        )
        for here in chunks(
            (data.counts.shape[0], max(2 * data.counts.shape[1], _pieces(problem)), data.counts.shape[2])
        )
    ]
    most = max(len(each.answers) for each in found)
    whole = PartitionWealth(
        *(np.concatenate(each, axis=-1) for each in zip(*(one.longer(most) for one in found), strict=True))
    )
    return whole if several == 1 else _averaged(whole, several, runs)


def _pieces(problem: Problem) -> int:
    """Of how many comparisons an answer consists: of the top 100 among 200, of 10 000."""
    question = problem.question
    return int(question.halfspaces(question.answer(np.zeros(problem.arms)), problem.arms).offsets.size)


def _of_columns(
    problem: Problem, purses: PartitionWealth, field: PartsView, start: CandidateBefore | None
) -> PartitionWealth:
    """The purses of each column after all parts."""
    question, data = problem.question, field.seen
    parts, arms, n = data.counts.shape
    answer = question.answer(np.moveaxis(field.means, 1, -1))  # (P, n, ...)
    names = np.asarray(answer, dtype=np.float64).reshape(parts, n, -1).transpose(0, 2, 1)  # (P, A, n)
    form, scale = forms_of(question.halfspaces(answer, arms), parts, arms, n)
    number = scale.shape[1]
    tilts, ledger = problem.noise.part_bets(data), _Accounts(purses, names)

    def likely(z: Floats) -> None:
        ledger.confident = sum_arms(log_phi(z).reshape(parts, number, n)) >= math.log(0.5)
        ledger.confident[0] &= bool(data.before.counts.any())

    extra = None if start is None else partial(_more, start, names, scale)
    bets = OpenNulls(form, np.arange(number * n), problem.goal, gate=likely, extra=extra, switch=ledger.switch)
    gains = bet_on_nulls(bets, np.zeros(number * n), field, tilts)
    ledger.put_back(gains)
    return ledger.purses


def _more(start: CandidateBefore, names: Floats, scale: Floats, before: Floats) -> Floats:
    """What the shifts of earlier batches add to the variance of each form, where the candidate is that of before."""
    same = (names == start.answer).all(axis=1)[:, None]
    shrunk = before.reshape(scale.shape) / start.without * scale
    return np.where(same, shrunk * shrunk * start.extra, 0.0).reshape(before.shape)


class _Accounts:
    """Whose purse the bets on each part are paid from: kept while the parts are gone through."""

    def __init__(self, purses: PartitionWealth, names: Floats) -> None:
        self.purses = PartitionWealth(*(each.copy() for each in purses))
        self.names, self.confident = names, np.zeros((len(names), purses.bank.size), dtype=np.bool_)  # said by `likely`
        self.number: Index | None = None  # of each part's candidate, -1 if it was not opened before: for few columns
        if self.purses.answers.size < _FEW:
            match = (self.purses.answers == names[:, None]).all(axis=2)  # (P, C, n)
            self.number = np.where(match.any(axis=1), match.argmax(axis=1), -1)
        self.current = np.full(purses.bank.size, -1)  # the candidate of each column, -1 if it was not opened
        changed = np.ones((len(names), purses.bank.size), dtype=np.bool_)
        (names[1:] != names[:-1]).any(axis=1, out=changed[1:])
        self.changed = changed
        self.some_changed: list[bool] = np.logical_or.reduce(changed, axis=1).tolist()
        self.all_opened = False

    def switch(self, p: int, gains: Floats) -> None:
        """Before part p: the money of those whose candidate is another now is put back, and that of the other taken."""
        if not (self.some_changed[p] or (self.confident[p].any() and not self.all_opened)):
            return
        moved = self.changed[p] | (self.confident[p] & (self.current < 0))
        who = np.flatnonzero(moved)
        if not who.size:
            return
        money = gains.reshape(-1, self.current.size)
        self._put_back(money, who)
        number = self._number(p, who)
        self.current[who] = number
        self.all_opened = bool((self.current >= 0).all())
        money[:, who] = np.where(number >= 0, self.purses.gains[np.maximum(number, 0), :, who].T, np.inf)  # inf: no bet

    def put_back(self, gains: Floats) -> None:
        """After the last part."""
        self._put_back(gains.reshape(-1, self.current.size), np.arange(self.current.size))

    def _put_back(self, money: Floats, who: Index) -> None:
        who = who[self.current[who] >= 0]
        if who.size:
            self.purses.gains[self.current[who], :, who] = money[:, who].T

    def _number(self, p: int, who: Index) -> Index:
        """The candidate of part p in these columns, opened if it is new and likely enough; else -1."""
        wanted = self.names[p][:, who]
        if self.number is not None:
            number = self.number[p, who]
        else:
            match = (self.purses.answers[:, :, who] == wanted).all(axis=1)
            number = np.where(match.any(axis=0), match.argmax(axis=0), -1)
        new = np.flatnonzero((number < 0) & self.confident[p, who])
        if new.size:
            columns_ = who[new]
            visited = (self.purses.answers[:, 0, columns_] >= 0).sum(axis=0)
            self.purses = self.purses.longer(int(visited.max()) + 1)
            self.purses.answers[visited, :, columns_] = wanted[:, new].T
            self.purses.gains[visited, :, columns_] = (math.log(OPENING) + self.purses.bank[columns_])[:, None]
            self.purses.bank[columns_] += math.log(1.0 - OPENING)
            number[new], self.number = visited, None  # there are more now
        return number


def _averaged(purses: PartitionWealth, dealings: int, runs: int) -> PartitionWealth:
    """The purses of each run, averaged over its dealings: column m * runs + i is dealing m of run i."""
    found = PartitionWealth(*(each[..., :runs].copy() for each in purses))
    money = np.exp(found.gains)
    bank = np.exp(found.bank)
    for m in range(1, dealings):
        here = slice(m * runs, (m + 1) * runs)
        bank += np.exp(purses.bank[here])
        for c in range(len(purses.answers)):
            named = purses.answers[c][:, here]
            some = np.flatnonzero(named[0] >= 0)
            if not some.size:
                continue
            match = (found.answers[:, :, some] == named[:, some]).all(axis=1)
            visited = (found.answers[:, 0, some] >= 0).sum(axis=0)
            number = np.where(match.any(axis=0), match.argmax(axis=0), visited)
            found = found.longer(int(number.max()) + 1)
            money = _extended(money, len(found.answers) - len(money), 0.0)
            found.answers[number, :, some] = named[:, some].T
            money[number, :, some] += np.exp(purses.gains[c][:, here][:, some]).T
    with np.errstate(divide="ignore"):
        return PartitionWealth(found.answers, np.log(money / dealings), np.log(bank / dealings))


def _repeated(arrays: tuple[Floats, ...], times: int) -> list[Floats]:
    return [np.concatenate([each] * times, axis=-1) for each in arrays]


def _extended(array: Array, extra: int, value: float) -> Array:
    if extra <= 0:
        return array
    return np.concatenate([array, np.full((extra, *array.shape[1:]), value)])
