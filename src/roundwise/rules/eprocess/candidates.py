"""Any question whose right answers are intersections of half-spaces: bets on every half-space of the candidate.

The candidate is the answer of the estimates before every part; the wealth of others waits for their return. A bank
starts at 1. A candidate that was never visited is opened only once it is more likely right than wrong; its half-spaces
then start with OPENING of the bank, and the rest stays there for later ones (docs/why-the-guarantee-holds.md,
Proposition 3). Each random partition has a bank and wealth of its own within a batch; at its end they are averaged, and
a candidate that a partition did not visit has nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, quiet, total
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates, FormEstimate, form_values, form_variances
from roundwise.model.problem import Problem
from roundwise.noise import SubGaussian
from roundwise.noise.bets import GaussianPartBets, Index, PartForm, columns, is_pair, parts_data
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus, GapToLeader, LinearForm
from roundwise.rules.eprocess.bounds import BetHistory, match_decision
from roundwise.rules.eprocess.engine import (
    LIKELY,
    EProcess,
    OpenNulls,
    PartsView,
    RequiredPulls,
    RuleState,
    bet_on_nulls,
    chunks,
    forms_of,
    log_phi,
    settle_parts,
    sum_arms,
    view_parts,
)
from roundwise.solvers import program
from roundwise.solvers.design import ROUGH, information_matrix, solve_design
from roundwise.solvers.halfspaces import Halfspaces

OPENING = 0.8  # share of the bank that a new candidate gets


class ComparisonWealth(NamedTuple):
    """The wealth of every comparison that answers are made of, with a tolerance (rules/eprocess/tolerance.py)."""

    drifts: Floats  # (M, A), log of what each drift has won
    gains: Floats  # (A), log B, with the comparison's share of the stake
    shown: Bools  # (A), it reached 1/delta at some time


class CandidateWealth(NamedTuple):
    """The candidates in the order of their first visit, and the wealth against each way that one is wrong."""

    answers: Floats  # (C, A), as numbers; -1 where there is no such candidate yet
    gains: Floats  # (C, P), log A_{S,p}, with the candidate's share of the bank; -inf where there is none
    rejected: Bools  # (C, P), it reached 1/delta at some time
    reserve: Floats  # (), log of the share for candidates to come
    comparisons: ComparisonWealth | None = None  # with a tolerance

    def extended(self, size: int) -> CandidateWealth:
        """With room for this many candidates."""
        answers, gains = _extended(self.answers, size, -1.0, -2), _extended(self.gains, size, -np.inf, -2)
        return self._replace(answers=answers, gains=gains, rejected=_extended(self.rejected, size, False, -2))


class PartitionWealth(NamedTuple):
    """The same of each column, within a batch."""

    answers: Floats  # (C, A, n)
    gains: Floats  # (C, Q, n)
    reserve: Floats  # (n)

    def extended(self, size: int) -> PartitionWealth:
        """With room for this many candidates."""
        return PartitionWealth(
            _extended(self.answers, size, -1.0, 0), _extended(self.gains, size, -np.inf, 0), self.reserve
        )


def _extended(array: Array, size: int, value: float, axis: int) -> Array:
    extra = size - array.shape[axis]
    if extra <= 0:
        return array
    room = list(array.shape)
    room[axis] = extra
    return np.concatenate([array, np.full(room, value, dtype=array.dtype)], axis=axis)


class Candidate(NamedTuple):
    """The answer of the past means: its number in the order of visits, and its half-spaces."""

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
    best: bool = False  # whether each answer is an arm that no other exceeds by more than a tolerance
    tag = "candidates"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> CandidateWealth:
        answer = problem.question.answer(np.zeros(problem.arms))
        gains = np.full((*runs, 1, problem.question.halfspaces(answer, problem.arms).offsets.size), -np.inf)
        return CandidateWealth(np.full((*runs, 1, answer.size), -1.0), gains, gains > 0, np.zeros(runs))

    def choose(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Candidate:
        """The answer of the estimates: a candidate of before, or the next one."""
        answer = self._named(problem, wealth, known)
        numbers = np.asarray(answer, dtype=np.float64).reshape((*known.past.counts.shape[:-1], -1))
        match = (wealth.answers == numbers[..., None, :]).all(axis=-1)
        visited = (wealth.answers[..., 0] >= 0).sum(axis=-1)
        number = np.where(match.any(axis=-1), match.argmax(axis=-1), visited)
        pieces = problem.question.halfspaces(answer, problem.arms)
        return Candidate(number, numbers, problem.noise.estimate_forms(known, pieces))

    def _named(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Answer:
        """The answer that is bet on next."""
        return problem.question.answer(known.means)

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> CandidateWealth:
        wealth, known, alternative = state
        runs, several = wealth.reserve.shape, parts.partitions

        def to_columns(array: Array) -> Array:
            """Runs (C, Q), (Q) or () as columns: the same with all runs last, once for every partition."""
            return columns(array.reshape((*runs, -1)), several).reshape((*array.shape[len(runs) :], -1))

        def to_runs(array: Array) -> Array:
            return array.reshape(-1, *runs[::-1]).transpose().reshape((*runs, *array.shape[:-1]))

        spread = [to_columns(each) for each in (wealth.answers, wealth.gains, wealth.reserve)]
        before: list[Floats] = []  # the candidate, the variance of its pieces, and what shifts add to it
        if shifts and known.past.batches > 1:
            without = form_variances(1.0 / np.maximum(known.past.counts, 1.0), alternative.forecast.pieces)
            leverage = alternative.forecast.leverage
            extra = np.where(np.isfinite(leverage), np.maximum(leverage - without, 0.0), 0.0)
            before = [to_columns(each) for each in (alternative.answer, without, extra)]
        data = parts_data(known.past, parts)
        means = columns(known.means, several) if known.past.history else None
        size, arms, n = data.counts.shape
        found = [
            _bet_on_columns(
                problem,
                PartitionWealth(*(each[..., here] for each in spread)),
                view_parts(data.at(here), None if means is None else means[:, here], shifts),
                [each[..., here] for each in before],
            )
            for here in chunks(size, max(2 * arms, wealth.gains.shape[-1]), n)
        ]
        most = max(len(each.answers) for each in found)
        each_part = zip(*(each.extended(most) for each in found), strict=True)
        after = _average(PartitionWealth(*(np.concatenate(each, axis=-1) for each in each_part)), several)
        answers, gains, reserve = (to_runs(each) for each in after)
        rejected = wealth.extended(len(after.answers)).rejected | (gains >= problem.goal)
        return wealth._replace(answers=answers, gains=gains, rejected=rejected, reserve=reserve)

    def of_candidate(self, problem: Problem, wealth: CandidateWealth, alternative: Candidate) -> tuple[Floats, Bools]:
        """log of the wealth against each piece of the candidate, and which have lost; a new one has its share. (P)"""
        wealth = wealth.extended(int(alternative.number.max(initial=0)) + 1)
        here = alternative.number[..., None, None]
        gains = np.take_along_axis(wealth.gains, here, axis=-2)[..., 0, :]
        rejected = np.take_along_axis(wealth.rejected, here, axis=-2)[..., 0, :]
        return np.where(np.isneginf(gains), (wealth.reserve + math.log(OPENING))[..., None], gains), rejected

    def stops(self, problem: Problem, wealth: CandidateWealth) -> Bools:
        return np.asarray(wealth.rejected.all(axis=-1).any(axis=-1))

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """The first candidate of which all pieces have lost."""
        first = state.wealth.rejected.all(axis=-1).argmax(axis=-1)
        return numbers_to_answer(
            problem, np.take_along_axis(state.wealth.answers, first[..., None, None], axis=-2)[..., 0, :]
        )

    def false_rejection(self, problem: Problem, wealth: CandidateWealth, means: Floats) -> Bools:
        """Of a wrong candidate, the piece that the means violate most has lost."""
        question, visited = problem.question, wealth.answers[..., 0] >= 0
        like = np.asarray(question.answer(means), dtype=np.float64).reshape(-1)
        answers = numbers_to_answer(problem, np.where(visited[..., None], wealth.answers, like))
        pieces = question.halfspaces(answers, problem.arms)
        every = np.broadcast_to(means, (*visited.shape, problem.arms))
        worst = (form_values(every, pieces) - pieces.offsets).argmin(axis=-1)
        rejected = np.take_along_axis(wealth.rejected, worst[..., None], axis=-1)[..., 0]
        return np.asarray((visited & ~question.correct(answers, every) & rejected).any(axis=-1))

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """min sum n subject to sum_s f_s^2/n_s <= g_p^2 / (2 sigma^2 need_p) for all open pieces."""
        gains, rejected = self.of_candidate(problem, state.wealth, state.alternative)
        return settle_pieces(problem, state.known, state.alternative.forecast, gains, rejected)

    def _claimed(self, problem: Problem, state: RuleState) -> tuple[Answer, Floats, Bools]:
        """The candidate that won, else that of the estimates: its answer, wealth (P) and lost pieces (P). One run."""
        wealth, _, alternative = state
        complete = wealth.rejected.all(axis=-1)
        if complete.any():
            number = complete.argmax()
            alternative = alternative._replace(number=np.asarray(number), answer=wealth.answers[number])
        return numbers_to_answer(problem, alternative.answer), *self.of_candidate(problem, wealth, alternative)

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        """The half-spaces of the candidate."""
        return claim_halfspaces(problem, names, *self._claimed(problem, state))

    def all_rejected(self, problem: Problem, wealth: CandidateWealth) -> bool:
        """Two candidates were shown to be right, and no means make both so.

        Only candidates of which all pieces were shown count: that this happens to a wrong one has at most the error
        probability, while single pieces of several candidates may well contradict each other.
        """
        from scipy.optimize import linprog

        shown = np.flatnonzero(wealth.rejected.all(axis=-1))
        if len(shown) < 2:
            return False
        answers = [numbers_to_answer(problem, wealth.answers[c]) for c in shown]
        pieces = [problem.question.halfspaces(each, problem.arms) for each in answers]
        above = np.concatenate([each.dense(problem.arms) for each in pieces])
        found = linprog(  # the largest amount, up to 1, by which all forms can exceed their offsets
            np.append(np.zeros(problem.arms), -1.0),
            A_ub=np.hstack([-above, np.ones((len(above), 1))]),
            b_ub=-np.concatenate([each.offsets for each in pieces]),
            bounds=[*[(None, None)] * problem.arms, (None, 1.0)],
        )
        return bool(found.status == 0 and found.x[-1] <= 0)

    def margins(self, bets: BetHistory) -> Floats:
        answer, _, shown = self._claimed(bets.problem, bets.end)
        return bound_margins(bets, answer, shown)

    def gap_to_leader(self, bets: BetHistory, leader: int | None, margins: Floats) -> GapToLeader | None:
        """The margins, less the tolerance."""
        if not self.best:
            return None
        who = bets.leader if leader is None else leader
        least = np.insert(margins + bets.end.alternative.forecast.pieces.offsets, who, 0.0)
        return GapToLeader(None, least, bets.gap_to_leader(who))


@quiet
def settle_pieces(
    problem: Problem, known: Estimates, forecast: FormEstimate, gains: Floats, rejected: Bools
) -> RequiredPulls:
    """min sum n subject to sum_s f_s^2/n_s <= g_p^2 / (2 sigma^2 need_p) for all open pieces, from their wealth. (P)"""
    open_, need, pieces = ~rejected, problem.goal - gains, forecast.pieces
    distance = np.maximum(forecast.value, known.error(forecast))
    used = (pieces.coefficients != 0) & open_[..., None]
    index = np.where(used, pieces.arms, problem.arms)  # unused arms go to a dummy place
    unfinished = np.zeros((*open_.shape[:-1], problem.arms + 1), dtype=np.bool_)
    np.put_along_axis(unfinished, index.reshape(*open_.shape[:-1], -1), True, axis=-1)
    if problem.noise.shares_items:
        between = problem.noise.difference_variances(known.past, pieces)
        spread = np.where(is_pair(pieces), between, known.variance[..., None])
        pulls = most_of_each_arm(problem, pieces, np.where(open_, 2 * spread * need / distance**2, 0.0))
    else:
        limits = np.where(open_, distance**2 / (2 * known.variance[..., None] * need), np.inf)
        pulls = _allocate(problem, pieces, limits)
    return RequiredPulls(pulls, unfinished[..., : problem.arms])


def claim_halfspaces(
    problem: Problem, names: Sequence[str], answer: Answer, gains: Floats, rejected: Bools
) -> list[ClaimStatus]:
    """The half-spaces of an answer, with the wealth against their complements. One run."""
    pieces = problem.question.halfspaces(answer, problem.arms)
    forms = zip(pieces.arms.tolist(), pieces.coefficients.tolist(), pieces.offsets.tolist(), strict=True)
    rows = zip(problem.question.halfspace_texts(answer, names, problem.wording), gains, rejected, forms, strict=True)
    return [
        ClaimStatus(text, float(gain), problem.goal, bool(out), about=LinearForm(tuple(arms), tuple(factors), offset))
        for text, gain, out, (arms, factors, offset) in rows
    ]


def bound_margins(bets: BetHistory, answer: Answer, shown: Bools) -> Floats:
    """Bound each half-space of an answer, from bets on it since the estimates first named that answer.

    At 2^c/delta for the c-th that they named, from 1: who that is was known before each of its bets.
    """
    pieces = bets.problem.question.halfspaces(answer, bets.problem.arms)
    named = np.asarray(answer, dtype=np.float64).reshape(-1)
    seen = [np.asarray(bet.alternative.answer) if bet.known.past.counts.any() else None for bet in bets.placed]
    first = next((i for i, each in enumerate(seen) if each is not None and (each == named).all()), len(seen))
    others = {tuple(each.tolist()) for each in seen[:first] if each is not None}
    bound = bets.since(first).bound(pieces, bets.problem.goal + (len(others) + 1) * math.log(2))
    return match_decision(bound, pieces.offsets, shown) - pieces.offsets


def numbers_to_answer(problem: Problem, numbers: Floats) -> Answer:
    """An answer from the numbers that it is kept as. (A)->..."""
    like = problem.question.answer(np.zeros((*numbers.shape[:-1], problem.arms)))
    return numbers.reshape(like.shape).astype(like.dtype)


def _bet_on_columns(
    problem: Problem, wealth: PartitionWealth, view: PartsView, before: Sequence[Floats]
) -> PartitionWealth:
    """The wealth of each column after all parts; `before` has the candidate before the batch (A, n), the variance of
    its pieces without shifts (Q, n), and what the shifts of earlier batches add to it (Q, n)."""
    question, data = problem.question, view.data
    parts, arms, n = data.counts.shape
    answer = question.answer(np.moveaxis(view.means, 1, -1))  # (P, n, ...)
    names = np.asarray(answer, dtype=np.float64).reshape(parts, n, -1).transpose(0, 2, 1)  # (P, A, n)
    pieces = question.halfspaces(answer, arms)
    number = pieces.offsets.shape[-1]
    every = np.arange(number * n)
    form, units = forms_of(pieces, every, parts, arms, n)
    accounts = _Accounts(wealth, names)

    def gate(z: Floats) -> None:
        accounts.confident = sum_arms(log_phi(z).reshape(parts, number, n)) >= LIKELY
        accounts.confident[0] &= bool(data.before.counts.any())

    def add_shifts(variance: Floats) -> Floats:
        named, without, extra = before
        same = (names == named).all(axis=1)[:, None]
        shape = (parts, number, n)
        shrunk = variance.reshape(shape) / without * units.reshape(shape)
        return np.where(same, shrunk * shrunk * extra, 0.0).reshape(variance.shape)

    bets = OpenNulls(form, every, problem.goal, gate=gate, extra=add_shifts if before else None, switch=accounts.switch)
    gains = np.zeros(every.size)
    bet_on_nulls(bets, gains, view, problem.noise.part_bets(data))
    accounts.put_back(gains.reshape(number, n), np.arange(n))
    return accounts.wealth


class _Accounts:
    """The wealth that pays for the bets on each part."""

    def __init__(self, wealth: PartitionWealth, names: Floats) -> None:
        self.wealth = PartitionWealth(*(each.copy() for each in wealth))
        self.names, n = names, wealth.reserve.size
        self.confident: Bools = np.zeros((len(names), n), dtype=np.bool_)  # set by the gate
        self.current = np.full(n, -1)  # the candidate of each column, -1 if it was not opened
        self.changed = np.ones((len(names), n), dtype=np.bool_)
        (names[1:] != names[:-1]).any(axis=1, out=self.changed[1:])

    def switch(self, p: int, gains: Floats) -> None:
        """Before part p: put back the wealth of candidates that changed, and take that of the new ones."""
        who = np.flatnonzero(self.changed[p] | (self.confident[p] & (self.current < 0)))
        if not who.size:
            return
        amounts = gains.reshape(-1, self.current.size)
        self.put_back(amounts, who)
        self.current[who] = number = self._number(p, who)
        amounts[:, who] = np.where(number >= 0, self.wealth.gains[np.maximum(number, 0), :, who].T, np.inf)  # no bet

    def put_back(self, amounts: Floats, who: Index) -> None:
        """Keep the wealth of the candidates of these columns."""
        who = who[self.current[who] >= 0]
        self.wealth.gains[self.current[who], :, who] = amounts[:, who].T

    def _number(self, p: int, who: Index) -> Index:
        """The candidate of part p in these columns, opened if it is new and likely enough; else -1."""
        wanted = self.names[p][:, who]
        match = (self.wealth.answers[:, :, who] == wanted).all(axis=1)
        number = np.where(match.any(axis=0), match.argmax(axis=0), -1)
        new = np.flatnonzero((number < 0) & self.confident[p, who])
        if new.size:
            here = who[new]
            number[new] = visited = (self.wealth.answers[:, 0, here] >= 0).sum(axis=0)
            self.wealth = self.wealth.extended(int(visited.max()) + 1)
            self.wealth.answers[visited, :, here] = wanted[:, new].T
            self.wealth.gains[visited, :, here] = (math.log(OPENING) + self.wealth.reserve[here])[:, None]
            self.wealth.reserve[here] += math.log(1.0 - OPENING)
        return number


def _average(wealth: PartitionWealth, partitions: int) -> PartitionWealth:
    """The wealth of each run, averaged over its partitions: column m * runs + i is partition m of run i."""
    if partitions == 1:
        return wealth
    runs = wealth.reserve.size // partitions
    found = PartitionWealth(*(each[..., :runs].copy() for each in wealth))
    amounts, reserve = np.exp(found.gains), np.exp(found.reserve)
    for m in range(1, partitions):
        here = slice(m * runs, (m + 1) * runs)
        reserve += np.exp(wealth.reserve[here])
        for c in range(len(wealth.answers)):
            named = wealth.answers[c][:, here]
            some = np.flatnonzero(named[0] >= 0)
            if not some.size:
                continue
            match = (found.answers[:, :, some] == named[:, some]).all(axis=1)
            visited = (found.answers[:, 0, some] >= 0).sum(axis=0)
            number = np.where(match.any(axis=0), match.argmax(axis=0), visited)
            found = found.extended(int(number.max()) + 1)
            amounts = _extended(amounts, len(found.answers), 0.0, 0)
            found.answers[number, :, some] = named[:, some].T
            amounts[number, :, some] += np.exp(wealth.gains[c][:, here][:, some]).T
    with np.errstate(divide="ignore"):
        return PartitionWealth(found.answers, np.log(amounts / partitions), np.log(reserve / partitions))


def most_of_each_arm(problem: Problem, pieces: Halfspaces, needs: Floats) -> Floats:
    """Of each arm as much as the piece needs that needs most of it. (P)->(K)"""
    found = np.zeros((*needs.shape[:-1], problem.arms))
    if pieces.grid:
        order, rows = pairs_on_grid(problem, pieces)
        grid = needs.reshape((*needs.shape[:-1], rows, -1))
        np.put_along_axis(found, order, np.concatenate([grid.max(axis=-1), grid.max(axis=-2)], axis=-1), axis=-1)
        return found
    where = np.broadcast_to(pieces.arms, (*needs.shape, pieces.arms.shape[-1]))
    used = np.where(np.broadcast_to(pieces.coefficients, where.shape) != 0, needs[..., None], 0.0)
    for i in np.ndindex(needs.shape[:-1]):
        np.maximum.at(found[i], where[i].reshape(-1), used[i].reshape(-1))
    return found


def pairs_on_grid(problem: Problem, pieces: Halfspaces) -> tuple[Index, int]:
    """The better arms in the order of rows, then the others in that of columns (K); and how many rows there are."""
    k, better = pieces.grid, int(problem.question.lower_is_better)  # the place of the better arm in each pair
    grid = pieces.arms.reshape(*pieces.arms.shape[:-2], k, -1, 2)
    return np.concatenate([grid[..., :, 0, better], grid[..., 0, :, 1 - better]], axis=-1), k


def _allocate(problem: Problem, pieces: Halfspaces, limits: Floats) -> Floats:
    """min sum n subject to the limits of the pieces. (P)->(K)"""
    runs, k, arms = limits.shape[:-1], pieces.grid, problem.arms
    if k:
        pulls, (order, _) = np.zeros((*runs, arms)), pairs_on_grid(problem, pieces)
        found = program.solve_bipartite(limits.reshape(-1, k, arms - k), program.ROUGH).pulls.reshape((*runs, arms))
        np.put_along_axis(pulls, order, found, axis=-1)
        return pulls
    squares = (pieces.dense(arms) ** 2).reshape(-1, limits.shape[-1], arms)
    return program.solve_general(squares, limits.reshape(-1, limits.shape[-1]), program.ROUGH).pulls.reshape(
        (*runs, arms)
    )


@dataclass(frozen=True)
class LinearEProcess(CandidateEProcess):
    """Arms with features: candidates as for any half-spaces, with least squares in place of means.

    A half-space a.mu > b of the means is c.theta > b, c = X'a. Any weights u with X'u = c have u.mu = c.theta, whatever
    theta: so the form u of a batch's means may be bet on in place of a (Lemma 1), if u is known before the batch. The u
    of least variance, u_i = n_i x_i'V^-1 c with V = sum_i n_i x_i x_i' of the batch, depends on its counts alone
    (docs/linear.md). A batch is bet on as one part.
    """

    basis: Floats = field(kw_only=True, hash=False, compare=False)  # orthonormal features, (K, r)
    tag = "linear"

    def choose(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Candidate:
        """The answer of least squares: a candidate of before, or the next one."""
        past = known.past
        found = super().choose(problem, wealth, known._replace(means=problem.fitted(past.counts, past.means)))
        pieces, rows = found.forecast.pieces, problem.weighed(past.counts).reshape(-1, problem.arms)
        inverse = np.linalg.inv(information_matrix(self.basis, rows))
        forms = self._forms(problem, pieces, len(rows))
        leverage = total((forms @ inverse) * forms).reshape(found.forecast.value.shape)
        leverage = np.where((past.counts > 0).any(axis=-1, keepdims=True), leverage, np.inf)
        return found._replace(forecast=FormEstimate(pieces, found.forecast.value, leverage))

    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        variance = np.full_like(state.known.variance, problem.sigma**2)  # the unit of leverages
        return super().confidence(problem, state._replace(known=state.known._replace(variance=variance)))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> CandidateWealth:
        """Return the wealth after the batch as a whole: the candidate's; that of the others waits."""
        wealth, known, alternative = state
        counts, totals = (np.asarray(each[..., 0, :, :].sum(axis=-1)) for each in (parts.counts, parts.totals))
        new = alternative.number >= (wealth.answers[..., 0] >= 0).sum(axis=-1)
        sure = (self.confidence(problem, state) >= LIKELY) & (known.past.counts > 0).any(axis=-1)
        live = ~new | sure
        gains, rejected = self.of_candidate(problem, wealth, alternative)
        need = np.where(live[..., None] & ~rejected, problem.goal - gains, 0.0)
        gain = self._bet(problem, Batch(counts, totals), alternative.forecast, need)
        after = gains + gain
        # the sum may round to below the goal although the bet won what was needed
        rejected = rejected | ((need > 0) & ((gain >= need) | (after >= problem.goal)))
        here = alternative.number[..., None, None]
        found = wealth.extended(int(alternative.number.max(initial=0)) + 1)
        found = CandidateWealth(found.answers.copy(), found.gains.copy(), found.rejected.copy(), found.reserve)
        for array, value in zip(found[:3], (alternative.answer, after, rejected), strict=True):
            kept = np.take_along_axis(array, here, axis=-2)[..., 0, :]
            np.put_along_axis(array, here, np.where(live[..., None], value, kept)[..., None, :], axis=-2)
        return found._replace(reserve=wealth.reserve + np.where(live & new, math.log(1.0 - OPENING), 0.0))

    def _bet(self, problem: Problem, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
        """log e of the forms of the batch's means that are known best, as one part. (P)"""
        pieces = self._best_known(problem, batch.counts, forecast.pieces)
        new = SubGaussian(problem.sigma).standard_score(batch, pieces)
        past = forecast.value / np.sqrt(problem.sigma**2 * forecast.leverage)
        leverage = form_variances(1.0 / batch.counts, pieces)
        live = np.isfinite(past) & np.isfinite(new) & (need > 0)
        z, ratio, value, one = (
            np.where(live, each, fill).reshape(1, -1)
            for each, fill in ((past, 0.0), (forecast.leverage / leverage, 1.0), (new, 0.0), (np.ones(need.shape), 1.0))
        )
        log_factor = GaussianPartBets(1.0).forms(PartForm([], None, value), value, one)
        found = settle_parts(need.reshape(-1), np.zeros(need.size), z, ratio, log_factor, live.reshape(1, -1))
        return found.reshape(need.shape)

    def _best_known(self, problem: Problem, counts: Floats, pieces: Halfspaces) -> Halfspaces:
        """The half-spaces with the weights u in place of a; as they are where the batch does not determine u."""
        weighed = problem.weighed(counts.reshape(-1, problem.arms))
        forms = self._forms(problem, pieces, len(weighed))
        inverse = np.linalg.inv(information_matrix(self.basis, weighed))
        inside = (forms @ inverse) @ self.basis.T * weighed[:, None, :]  # u, (R, P, K)
        rest = forms - inside @ self.basis  # X'u = c, to all digits
        inside += (rest @ inverse) @ self.basis.T * weighed[:, None, :]
        shape = (*counts.shape[:-1], *pieces.arms.shape[-2:-1], problem.arms)
        dense, inside = np.broadcast_to(pieces.dense(problem.arms), shape), inside.reshape(shape)
        off = np.abs(inside @ self.basis - forms.reshape((*shape[:-1], -1))).max(axis=-1)
        factors = np.where((off <= 1e-12 * np.abs(dense).sum(axis=-1))[..., None], inside, dense)
        arms = np.broadcast_to(np.arange(problem.arms), shape)
        return Halfspaces(arms, factors, np.broadcast_to(pieces.offsets, shape[:-1]), False)

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """min sum n subject to c'V^-1 c <= g_p^2 / (2 sigma^2 need_p) for all open pieces."""
        gains, rejected = self.of_candidate(problem, state.wealth, state.alternative)
        forecast, runs = state.alternative.forecast, gains.shape[:-1]
        distance = np.maximum(forecast.value, np.sqrt(problem.sigma**2 * forecast.leverage))
        needs = np.where(~rejected, distance**2 / (2 * problem.sigma**2 * (problem.goal - gains)), np.inf)
        rows = self.basis * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
        forms = self._forms(problem, forecast.pieces, int(np.prod(runs, dtype=int)))
        _, pulls = solve_design(rows, forms, needs.reshape(len(forms), -1), ROUGH)
        return RequiredPulls(pulls.reshape((*runs, -1)), np.ones((*runs, problem.arms), dtype=np.bool_))

    def _forms(self, problem: Problem, pieces: Halfspaces, runs: int) -> Floats:
        """c of each piece in orthonormal features. (R, P, r)"""
        dense = pieces.dense(problem.arms)
        return np.asarray(np.broadcast_to(dense.reshape(-1, *dense.shape[-2:]), (runs, *dense.shape[-2:])) @ self.basis)
