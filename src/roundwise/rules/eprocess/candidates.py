"""Any question whose right answers are intersections of half-spaces: bets on every half-space of the candidate.

The candidate is the answer of the estimates before every part; the wealth of others waits for their return. A bank
starts at 1. A candidate that was never visited is opened only once it is more likely right than wrong; its half-spaces
then start with OPENING of what is in the bank, and the rest stays there for later ones
(docs/why-the-guarantee-holds.md, Proposition 3). Each random partition has a bank and wealth of its own within a batch;
at its end they are averaged, and a candidate that a partition did not visit has nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, quiet, total
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates, FormEstimate, form_values, form_variances
from roundwise.model.problem import Problem
from roundwise.noise.bets import is_pair
from roundwise.noise.parts import Index, columns, parts_data
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, GapToLeader, LinearForm
from roundwise.rules.eprocess.base import EProcess, RequiredPulls
from roundwise.rules.eprocess.bounds import BetHistory, match_decision
from roundwise.rules.eprocess.engine import (
    OpenNulls,
    PartsView,
    bet_on_nulls,
    chunks,
    forms_of,
    log_phi,
    sum_arms,
    view_parts,
)
from roundwise.solvers import program
from roundwise.solvers.halfspaces import Halfspaces

OPENING = 0.8  # share of the bank that a new candidate gets
_FEW_NAMES = 1000  # numbers in the names of all candidates, below which those of all parts are looked up at once


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
        return PartitionWealth(_pad(self.answers, extra, -1.0), _pad(self.gains, extra, -np.inf), self.bank)


class CandidateBefore(NamedTuple):
    """The candidate before the batch, and what the shifts of earlier batches add to the variance of its pieces."""

    answer: Floats  # (A, n)
    without: Floats  # (Q, n), the variance if there were no shifts
    extra: Floats  # (Q, n)


def bet_on_candidates(
    problem: Problem,
    wealth: PartitionWealth,
    known: Estimates,
    start: CandidateBefore | None,
    parts: Parts,
    shifts: bool,
) -> PartitionWealth:
    """The wealth of each run, (n) runs, after a batch in parts, averaged over its partitions."""
    several, runs = parts.partitions, wealth.bank.size
    data, first = parts_data(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    spread, beside = (
        PartitionWealth(*_repeated(wealth, several)),
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
    problem: Problem, wealth: PartitionWealth, view: PartsView, start: CandidateBefore | None
) -> PartitionWealth:
    """The wealth of each column after all parts."""
    question, data = problem.question, view.data
    parts, arms, n = data.counts.shape
    answer = question.answer(np.moveaxis(view.means, 1, -1))  # (P, n, ...)
    names = np.asarray(answer, dtype=np.float64).reshape(parts, n, -1).transpose(0, 2, 1)  # (P, A, n)
    form, scale = forms_of(question.halfspaces(answer, arms), parts, arms, n)
    number = scale.shape[1]
    part_bets, accounts = problem.noise.part_bets(data), _Accounts(wealth, names)

    def likely(z: Floats) -> None:
        accounts.confident = sum_arms(log_phi(z).reshape(parts, number, n)) >= math.log(0.5)
        accounts.confident[0] &= bool(data.before.counts.any())

    extra = None if start is None else partial(_more, start, names, scale)
    bets = OpenNulls(form, np.arange(number * n), problem.goal, gate=likely, extra=extra, switch=accounts.switch)
    gains = bet_on_nulls(bets, np.zeros(number * n), view, part_bets)
    accounts.put_back(gains)
    return accounts.wealth


def _more(start: CandidateBefore, names: Floats, scale: Floats, before: Floats) -> Floats:
    """What the shifts of earlier batches add to the variance of each form, where the candidate is that of before."""
    same = (names == start.answer).all(axis=1)[:, None]
    shrunk = before.reshape(scale.shape) / start.without * scale
    return np.where(same, shrunk * shrunk * start.extra, 0.0).reshape(before.shape)


class _Accounts:
    """Whose wealth the bets on each part are paid from: kept while the parts are gone through."""

    def __init__(self, wealth: PartitionWealth, names: Floats) -> None:
        self.wealth = PartitionWealth(*(each.copy() for each in wealth))
        self.names, self.confident = names, np.zeros((len(names), wealth.bank.size), dtype=np.bool_)  # set by the gate
        self.number: Index | None = None  # of each part's candidate, -1 if it was not opened before: for few columns
        if self.wealth.answers.size < _FEW_NAMES:
            match = (self.wealth.answers == names[:, None]).all(axis=2)  # (P, C, n)
            self.number = np.where(match.any(axis=1), match.argmax(axis=1), -1)
        self.current = np.full(wealth.bank.size, -1)  # the candidate of each column, -1 if it was not opened
        changed = np.ones((len(names), wealth.bank.size), dtype=np.bool_)
        (names[1:] != names[:-1]).any(axis=1, out=changed[1:])
        self.changed = changed
        self.some_changed: list[bool] = np.logical_or.reduce(changed, axis=1).tolist()
        self.all_opened = False

    def switch(self, p: int, gains: Floats) -> None:
        """Before part p: put back the wealth of candidates that changed, and take that of the new ones."""
        if not (self.some_changed[p] or (self.confident[p].any() and not self.all_opened)):
            return
        moved = self.changed[p] | (self.confident[p] & (self.current < 0))
        who = np.flatnonzero(moved)
        if not who.size:
            return
        amounts = gains.reshape(-1, self.current.size)
        self._put_back(amounts, who)
        number = self._number(p, who)
        self.current[who] = number
        self.all_opened = bool((self.current >= 0).all())
        amounts[:, who] = np.where(
            number >= 0, self.wealth.gains[np.maximum(number, 0), :, who].T, np.inf
        )  # inf: no bet

    def put_back(self, gains: Floats) -> None:
        """After the last part."""
        self._put_back(gains.reshape(-1, self.current.size), np.arange(self.current.size))

    def _put_back(self, amounts: Floats, who: Index) -> None:
        who = who[self.current[who] >= 0]
        if who.size:
            self.wealth.gains[self.current[who], :, who] = amounts[:, who].T

    def _number(self, p: int, who: Index) -> Index:
        """The candidate of part p in these columns, opened if it is new and likely enough; else -1."""
        wanted = self.names[p][:, who]
        if self.number is not None:
            number = self.number[p, who]
        else:
            match = (self.wealth.answers[:, :, who] == wanted).all(axis=1)
            number = np.where(match.any(axis=0), match.argmax(axis=0), -1)
        new = np.flatnonzero((number < 0) & self.confident[p, who])
        if new.size:
            columns_ = who[new]
            visited = (self.wealth.answers[:, 0, columns_] >= 0).sum(axis=0)
            self.wealth = self.wealth.longer(int(visited.max()) + 1)
            self.wealth.answers[visited, :, columns_] = wanted[:, new].T
            self.wealth.gains[visited, :, columns_] = (math.log(OPENING) + self.wealth.bank[columns_])[:, None]
            self.wealth.bank[columns_] += math.log(1.0 - OPENING)
            number[new], self.number = visited, None  # there are more now
        return number


def _averaged(wealth: PartitionWealth, partitions: int, runs: int) -> PartitionWealth:
    """The wealth of each run, averaged over its partitions: column m * runs + i is partition m of run i."""
    found = PartitionWealth(*(each[..., :runs].copy() for each in wealth))
    amounts = np.exp(found.gains)
    bank = np.exp(found.bank)
    for m in range(1, partitions):
        here = slice(m * runs, (m + 1) * runs)
        bank += np.exp(wealth.bank[here])
        for c in range(len(wealth.answers)):
            named = wealth.answers[c][:, here]
            some = np.flatnonzero(named[0] >= 0)
            if not some.size:
                continue
            match = (found.answers[:, :, some] == named[:, some]).all(axis=1)
            visited = (found.answers[:, 0, some] >= 0).sum(axis=0)
            number = np.where(match.any(axis=0), match.argmax(axis=0), visited)
            found = found.longer(int(number.max()) + 1)
            amounts = _pad(amounts, len(found.answers) - len(amounts), 0.0)
            found.answers[number, :, some] = named[:, some].T
            amounts[number, :, some] += np.exp(wealth.gains[c][:, here][:, some]).T
    with np.errstate(divide="ignore"):
        return PartitionWealth(found.answers, np.log(amounts / partitions), np.log(bank / partitions))


def _repeated(arrays: tuple[Floats, ...], times: int) -> list[Floats]:
    return [np.concatenate([each] * times, axis=-1) for each in arrays]


def _pad(array: Array, extra: int, value: float) -> Array:
    if extra <= 0:
        return array
    return np.concatenate([array, np.full((extra, *array.shape[1:]), value)])


class CandidateWealth(NamedTuple):
    """The candidates in the order of their first visit, and what was won against each way that one is wrong."""

    answers: Floats  # (C, A), as numbers; -1 where there is no such candidate yet
    gains: Floats  # (C, P), log A_{S,p}, with what the candidate got from the bank; -inf where there is none
    lost: Bools  # (C, P), it reached 1/delta at some time
    bank: Floats  # (), log of what is left for candidates to come


class Candidate(NamedTuple):
    """The answer of the past means: its number in the order of visits, and what makes it right."""

    number: NDArray[np.intp]  # (), from 0
    answer: Floats  # (A)
    forecast: FormEstimate  # (P), of the pieces


@dataclass(frozen=True)
class CandidateEProcess(EProcess):
    """Candidates get shares of one bank: .8, .16, ... in the order of first visits, once more likely right than wrong.

    The shares sum to at most 1 and pay for choosing the candidate from the data (docs/why-the-guarantee-holds.md,
    Proposition 3). Every candidate is kept. Several correct answers are allowed.
    """

    shifts: bool
    best: bool = False  # whether each is an arm, said not to be exceeded by any other by more than a tolerance
    tag = "candidates"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> CandidateWealth:
        """No candidate."""
        answer = problem.question.answer(np.zeros(problem.arms))
        pieces = problem.question.halfspaces(answer, problem.arms).offsets.size
        return CandidateWealth(
            np.full((*runs, 1, answer.size), -1.0),
            np.full((*runs, 1, pieces), -np.inf),
            np.zeros((*runs, 1, pieces), dtype=np.bool_),
            np.zeros(runs),
        )

    def choose(self, problem: Problem, won: CandidateWealth, known: Estimates) -> Candidate:
        """The answer of the estimates: a candidate of before, or the next one."""
        answer = problem.question.answer(known.means)
        numbers = self._numbers(answer, known.past.counts.shape[:-1])
        match = (won.answers == numbers[..., None, :]).all(axis=-1)
        visited = (won.answers[..., 0] >= 0).sum(axis=-1)
        number = np.where(match.any(axis=-1), match.argmax(axis=-1), visited)
        pieces = problem.question.halfspaces(answer, problem.arms)
        return Candidate(number, numbers, problem.noise.estimate_forms(known, pieces))

    @quiet
    def confidence(self, problem: Problem, alternative: Candidate, known: Estimates) -> Floats:
        """log prod_p Phi(margin of piece p in standard errors)."""
        error = known.error(alternative.forecast)
        return total(log_phi(alternative.forecast.value / error))

    @quiet
    def update(
        self,
        problem: Problem,
        won: CandidateWealth,
        known: Estimates,
        alternative: Candidate,
        parts: Parts,
        shifts: bool,
    ) -> CandidateWealth:
        """Return the wealth after a batch in parts."""
        runs = won.bank.shape
        wealth = PartitionWealth(*(_columns(each, runs) for each in (won.answers, won.gains, won.bank)))
        start = None
        if shifts and known.past.batches > 1:
            without = form_variances(1.0 / np.maximum(known.past.counts, 1.0), alternative.forecast.pieces)
            with_shifts = alternative.forecast.leverage
            extra = np.where(np.isfinite(with_shifts), np.maximum(with_shifts - without, 0.0), 0.0)
            start = CandidateBefore(*(_columns(each, runs) for each in (alternative.answer, without, extra)))
        after = bet_on_candidates(problem, wealth, known, start, parts, shifts)
        won = extend_candidates(won, len(after.answers))
        answers, gains, bank = (_runs(each, runs) for each in after)
        return CandidateWealth(answers, gains, won.lost | (gains >= problem.goal), bank)

    def _gains(self, won: CandidateWealth, alternative: Candidate) -> Floats:
        """What was won against each piece of the candidate; one that is new starts with its share of the bank."""
        won = extend_candidates(won, int(alternative.number.max(initial=0)) + 1)
        gains = np.take_along_axis(won.gains, alternative.number[..., None, None], axis=-2)[..., 0, :]
        return np.where(np.isneginf(gains), (won.bank + math.log(OPENING))[..., None], gains)

    def stops(self, problem: Problem, won: CandidateWealth) -> Bools:
        """All pieces of some candidate have lost."""
        return np.asarray(won.lost.all(axis=-1).any(axis=-1))

    def answer(self, problem: Problem, won: CandidateWealth, known: Estimates) -> Answer:
        """That candidate."""
        first = won.lost.all(axis=-1).argmax(axis=-1)
        numbers = np.take_along_axis(won.answers, first[..., None, None], axis=-2)[..., 0, :]
        return _answer(problem, numbers)

    def false_rejection(self, problem: Problem, won: CandidateWealth, means: Floats) -> Bools:
        """Of a wrong candidate, the piece that the means violate most has lost."""
        question, like = problem.question, problem.question.answer(means)
        visited = won.answers[..., 0] >= 0
        numbers = np.where(visited[..., None], won.answers, np.asarray(like, dtype=np.float64).reshape(-1))
        answers = _answer(problem, numbers)
        pieces = question.halfspaces(answers, problem.arms)
        worst = (form_values(np.broadcast_to(means, (*visited.shape, problem.arms)), pieces) - pieces.offsets).argmin(
            axis=-1
        )
        lost = np.take_along_axis(won.lost, worst[..., None], axis=-1)[..., 0]
        wrong = ~question.correct(answers, np.broadcast_to(means, (*visited.shape, problem.arms)))
        return np.asarray((visited & wrong & lost).any(axis=-1))

    def open_needs(self, problem: Problem, won: CandidateWealth, alternative: Candidate) -> tuple[Bools, Floats]:
        """Which pieces of the candidate are open, and what is still to be won against each. (P), (P)"""
        won = extend_candidates(won, int(alternative.number.max(initial=0)) + 1)
        open_ = ~np.take_along_axis(won.lost, alternative.number[..., None, None], axis=-2)[..., 0, :]
        return open_, problem.goal - self._gains(won, alternative)

    @quiet
    def required_pulls(
        self, problem: Problem, won: CandidateWealth, alternative: Candidate, known: Estimates
    ) -> RequiredPulls:
        """min sum n subject to sum_s f_s^2/n_s <= g_p^2 / (2 sigma^2 need_p) for all open pieces."""
        open_, need = self.open_needs(problem, won, alternative)
        error = known.error(alternative.forecast)
        distance = np.maximum(alternative.forecast.value, error)
        limits = np.where(open_, distance**2 / (2 * known.variance[..., None] * need), np.inf)
        unfinished = _touched(problem.arms, alternative.forecast.pieces, open_)
        if problem.noise.shares_items:
            between = problem.noise.difference_variances(known.past, alternative.forecast.pieces)
            spread = np.where(is_pair(alternative.forecast.pieces), between, known.variance[..., None])
            items = np.where(open_, 2 * spread * need / distance**2, 0.0)
            return RequiredPulls(_shared(problem.arms, alternative.forecast.pieces, items), unfinished)
        return RequiredPulls(_allocation(problem.arms, alternative.forecast.pieces, limits), unfinished)

    def claims(
        self, problem: Problem, won: CandidateWealth, alternative: Candidate, names: Sequence[str]
    ) -> list[ClaimStatus]:
        """What makes the candidate right: the one that won, once there is one, else that of the estimates."""
        number = self.number(won, alternative)
        won = extend_candidates(won, number + 1)
        answer = self._named(problem, won, alternative, number)
        gains = np.where(np.isneginf(won.gains[number]), won.bank + math.log(OPENING), won.gains[number])
        pieces = problem.question.halfspaces(answer, problem.arms)
        forms = zip(pieces.arms.tolist(), pieces.coefficients.tolist(), pieces.offsets.tolist(), strict=True)
        return [
            ClaimStatus(
                each, float(gain), problem.goal, bool(lost), about=LinearForm(tuple(arms), tuple(factors), offset)
            )
            for each, gain, lost, (arms, factors, offset) in zip(
                problem.question.halfspace_texts(answer, names), gains, won.lost[number], forms, strict=True
            )
        ]

    def all_rejected(self, problem: Problem, won: CandidateWealth) -> bool:
        """Two candidates were shown to be right of which no means make both so.

        Only candidates of which all pieces were shown count: that this happens to a wrong one has at most the error
        probability, while single pieces of several candidates may well contradict each other.
        """
        from scipy.optimize import linprog

        shown = np.flatnonzero(won.lost.all(axis=-1))
        if len(shown) < 2:
            return False
        forms, offsets = [], []
        for c in shown:
            pieces = problem.question.halfspaces(_answer(problem, won.answers[c]), problem.arms)
            forms.append(pieces.dense(problem.arms))
            offsets.append(pieces.offsets)
        above = np.concatenate(forms)
        found = linprog(  # the largest amount, up to 1, by which all forms can exceed their offsets
            np.append(np.zeros(problem.arms), -1.0),
            A_ub=np.hstack([-above, np.ones((len(above), 1))]),
            b_ub=-np.concatenate(offsets),
            bounds=[*[(None, None)] * problem.arms, (None, 1.0)],
        )
        return bool(found.status == 0 and found.x[-1] <= 0)

    def margins(self, bets: BetHistory) -> Floats:
        """Of each piece of the candidate that is claimed, from bets on it since the estimates first named it.

        At 2^c/delta for the c-th that they named, from 1: who that is was known before each of its bets.
        """
        end, number = bets.end, self.number(bets.end.won, bets.end.alternative)
        pieces = self._pieces(bets.problem, end.won, end.alternative, number)
        shown = extend_candidates(end.won, number + 1).lost[number]
        named = self._numbers(self._named(bets.problem, end.won, end.alternative, number), ())
        seen = [bet.alternative.answer if bet.known.past.counts.any() else None for bet in bets.placed]
        first = next((i for i, each in enumerate(seen) if each is not None and (each == named).all()), len(seen))
        others = {tuple(each.tolist()) for each in seen[:first] if each is not None}
        bound = bets.since(first).bound(pieces, bets.problem.goal + (len(others) + 1) * math.log(2))
        return match_decision(bound, pieces.offsets, shown) - pieces.offsets

    def gap_to_leader(self, bets: BetHistory, leader: int | None, spare: Floats) -> GapToLeader | None:
        """What is to spare, less the tolerance."""
        if not self.best:
            return None
        who = int(bets.end.known.means.argmax()) if leader is None else leader
        return GapToLeader(
            None, np.insert(spare + bets.end.alternative.forecast.pieces.offsets, who, 0.0), bets.gap_to_leader(who)
        )

    def _named(self, problem: Problem, won: CandidateWealth, alternative: Candidate, number: int) -> Answer:
        return _answer(problem, alternative.answer if number == alternative.number else won.answers[number])

    def _pieces(self, problem: Problem, won: CandidateWealth, alternative: Candidate, number: int) -> Halfspaces:
        return problem.question.halfspaces(self._named(problem, won, alternative, number), problem.arms)

    def number(self, won: CandidateWealth, alternative: Candidate) -> int:
        """The candidate that won, or that of the estimates. One run only."""
        complete = won.lost.all(axis=-1)
        return int(complete.argmax() if complete.any() else alternative.number)

    def _numbers(self, answer: Answer, runs: tuple[int, ...]) -> Floats:
        return np.asarray(answer, dtype=np.float64).reshape((*runs, -1))


def _answer(problem: Problem, numbers: Floats) -> Answer:
    """An answer from the numbers that it is kept as. (A)->..."""
    like = problem.question.answer(np.zeros((*numbers.shape[:-1], problem.arms)))
    return numbers.reshape(like.shape).astype(like.dtype)


def extend_candidates(won: CandidateWealth, candidates: int) -> CandidateWealth:
    """Room for so many candidates."""
    extra = candidates - won.gains.shape[-2]
    if extra <= 0:
        return won

    def longer(array: Array, value: float) -> Array:
        room = np.full((*array.shape[:-2], extra, array.shape[-1]), value, dtype=array.dtype)
        return np.concatenate([array, room], axis=-2)

    return CandidateWealth(longer(won.answers, -1.0), longer(won.gains, -np.inf), longer(won.lost, False), won.bank)


def _columns(array: Array, runs: tuple[int, ...]) -> Array:
    """Runs (C, Q), (Q) or () as columns: the same with all runs last, in the order of parts."""
    own = array.ndim - len(runs)
    rows = array.transpose()
    return rows.reshape((*rows.shape[:own], -1)).transpose((*range(own - 1, -1, -1), own))


def _runs(array: Array, runs: tuple[int, ...]) -> Array:
    """And back."""
    own = array.ndim - 1
    rows = array.transpose((*range(own - 1, -1, -1), own))
    return rows.reshape((*rows.shape[:own], *runs[::-1])).transpose()


def _touched(arms: int, pieces: Halfspaces, open_: Bools) -> Bools:
    """Which arms take part in a piece that is open. (P)->(K)"""
    used = (pieces.coefficients != 0) & open_[..., None]
    index = np.where(used, pieces.arms, arms)  # what is not used goes to a place of its own
    touched = np.zeros((*open_.shape[:-1], arms + 1), dtype=np.bool_)
    np.put_along_axis(touched, index.reshape(*open_.shape[:-1], -1), True, axis=-1)
    return touched[..., :arms]


def _shared(arms: int, pieces: Halfspaces, items: Floats) -> Floats:
    """Of each arm as many items as the piece needs that needs most of it: items serve all pieces. (P)->(K)"""
    where = np.broadcast_to(pieces.arms, (*items.shape, pieces.arms.shape[-1]))
    used = np.where(np.broadcast_to(pieces.coefficients, where.shape) != 0, items[..., None], 0.0)
    found = np.zeros((*items.shape[:-1], arms))
    for i in np.ndindex(items.shape[:-1]):
        np.maximum.at(found[i], where[i].reshape(-1), used[i].reshape(-1))
    return found


def _allocation(arms: int, pieces: Halfspaces, limits: Floats) -> Floats:
    """min sum n subject to the limits of the pieces. (P)->(K)"""
    runs, k = limits.shape[:-1], pieces.grid
    if k:
        pulls = np.zeros((*runs, arms))
        grid = pieces.arms.reshape(*runs, k, arms - k, 2)
        order = np.concatenate([grid[..., :, 0, 0], grid[..., 0, :, 1]], axis=-1)
        found = program.solve_bipartite(limits.reshape(-1, k, arms - k), program.ROUGH).pulls.reshape((*runs, arms))
        np.put_along_axis(pulls, order, found, axis=-1)
        return pulls
    squares = pieces.dense(arms) ** 2
    return program.solve_general(
        squares.reshape(-1, *squares.shape[-2:]), limits.reshape(-1, limits.shape[-1]), program.ROUGH
    ).pulls.reshape((*runs, arms))
