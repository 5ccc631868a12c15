"""The best arm or the top k within a tolerance: candidates, and wealth against every ordered pair that never restarts.

Among arms that nearly tie the candidate changes often, and each new one starts its evidence over. So part of the stake
is bet against every ordered pair (i, j), that i may not be given ahead of j: mu_i - mu_j <= -tolerance. A pair's wealth
does not depend on who leads. An answer is given once the wealth of its candidate and of the pair together has reached
1/delta for each of its pairs (docs/why-the-guarantee-holds.md, Proposition 37).

For fixed means only k (K - k) pairs can do harm, so each pair starts with PAIRS/(k (K - k)), although there are more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Bools, Floats, log_sum_exp, quiet, total
from roundwise.model.batch import Batch, Parts, join_parts
from roundwise.model.estimates import Estimates, Past, estimate_from, signal_share
from roundwise.model.problem import Problem
from roundwise.noise.bets import Index
from roundwise.questions.base import Answer
from roundwise.rules.eprocess.candidates import (
    Candidate,
    CandidateEProcess,
    CandidateWealth,
    PairWealth,
    numbers_to_answer,
    pairs_on_grid,
)
from roundwise.rules.eprocess.engine import RequiredPulls, RuleState, log_phi
from roundwise.solvers.halfspaces import Halfspaces, pairs

MOST_ARMS = 200  # beyond, only candidates are bet on: pairs would take too much memory
PAIRS = 0.3  # rho: share of the stake that is bet against pairs
NEAREST = 0.8  # w_0: share of a pair's wealth that is bet on the drift of two equal arms, the tolerance
DECAY = 0.8  # of the weights of larger drifts
UNKNOWN_SCALE = 3  # larger drifts where the deviation is not known; else up to WIDEST deviations
WIDEST = 1.6
MOST_DRIFTS = 10  # a tolerance so small that more would be needed decides nothing
BY_WEALTH = 20  # batches after which the candidate is that of the estimates, for which it is proved that it ends
LEAST_NEED = 0.1
EVEN_ENOUGH = {True: 0.7, False: 1.0}  # of the pulls that always suffice, aimed at where arms tie: best arm, top k
CROWD_OF_TIES = 100  # with more arms a tie is not seen before the third batch


@dataclass(frozen=True)
class ToleranceEProcess(CandidateEProcess):
    """Candidates with 1 - PAIRS of the stake, and every ordered pair with PAIRS/(k (K - k))."""

    tag = "tolerance"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> CandidateWealth:
        found = super().start(problem, runs)
        logs = np.zeros((*runs, _drifts(problem), problem.arms**2))
        gains = _pair_gains(problem, logs)
        return found._replace(
            bank=found.bank + math.log1p(-PAIRS), pairs=PairWealth(logs, gains, gains >= problem.goal)
        )

    def _named(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Answer:
        """The best arm: the one whose worst pair has most; the top k of the estimates (by wealth they get stuck)."""
        found = problem.question.answer(known.means)
        if not self.best or known.past.batches >= BY_WEALTH:
            return found
        _, gains, shown = _of_pairs(wealth)
        gains = np.where(shown, problem.goal, np.minimum(gains, problem.goal))
        places = _places(problem, problem.question.halfspaces(np.arange(problem.arms), problem.arms))
        safest = gains[..., places].min(axis=-1).argmax(axis=-1)
        return np.where((known.past.counts > 0).all(axis=-1), safest, found)

    def of_candidate(self, problem: Problem, wealth: CandidateWealth, alternative: Candidate) -> tuple[Floats, Bools]:
        """With the wealth against its pairs."""
        gains, lost = super().of_candidate(problem, wealth, alternative)
        answer = numbers_to_answer(problem, alternative.answer)
        places = _places(problem, problem.question.halfspaces(answer, problem.arms))
        _, own, shown = _of_pairs(wealth)
        together = np.logaddexp(gains, np.take_along_axis(own, places, axis=-1))
        return together, lost | np.take_along_axis(shown, places, axis=-1)

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> CandidateWealth:
        """Return the wealth of candidates as usual, and that of pairs after the batch as a whole."""
        before, past = state.wealth, state.known.past
        found = super().update(problem, state, parts, shifts)
        batches = [parts.batch(p) for p in range(parts.number)]
        learned = problem.noise.needs != "sums" or problem.noise.law is not None  # sizes of bets, from earlier results
        if past.history or not learned:  # the first batch has no past but its own earlier parts
            batches = batches if len(batches) == 1 else [join_parts(batches)]
        logs, _, shown = _of_pairs(before)
        for number, batch in enumerate(batches):
            logs = logs + _log_factors(problem, past, batch)
            past = past.plus(batch, same_batch=number > 0)
        gains = _pair_gains(problem, logs)
        shown = shown | (gains >= problem.goal)
        found = found._replace(pairs=PairWealth(logs, gains, shown))
        visited = found.answers[..., 0] >= 0
        like = np.asarray(problem.question.answer(np.zeros(problem.arms)), dtype=np.float64).reshape(-1)
        answers = numbers_to_answer(problem, np.where(visited[..., None], found.answers, like))
        places = _places(problem, problem.question.halfspaces(answers, problem.arms))
        out = np.take_along_axis(shown[..., None, :], places, axis=-1)
        own = np.take_along_axis(gains[..., None, :], places, axis=-1)
        lost = found.lost | (visited[..., None] & (out | (np.logaddexp(found.gains, own) >= problem.goal)))
        return self._add_shown(problem, found._replace(lost=lost), past, shifts)

    def _add_shown(self, problem: Problem, wealth: CandidateWealth, past: Past, shifts: bool) -> CandidateWealth:
        """An answer of which all pairs are shown is a candidate with nothing of its own, if no other has won."""
        known = estimate_from(past, problem.noise.variance(past), shifts)
        for answer in (problem.question.answer(past.means), self._named(problem, wealth, known)):
            places = _places(problem, problem.question.halfspaces(answer, problem.arms))
            safe = np.take_along_axis(_of_pairs(wealth).shown, places, axis=-1).all(axis=-1)
            safe = safe & ~self.stops(problem, wealth)
            if not safe.any():
                continue
            names = np.asarray(answer, dtype=np.float64).reshape((*safe.shape, -1))
            number = (wealth.answers[..., 0] >= 0).sum(axis=-1)
            wealth = wealth.extended(int(np.where(safe, number, 0).max(initial=0)) + 1)
            new = safe[..., None] & (np.arange(wealth.answers.shape[-2]) == number[..., None])
            answers = np.where(new[..., None], names[..., None, :], wealth.answers)
            wealth = wealth._replace(answers=answers, lost=wealth.lost | new[..., None])
        return wealth

    def false_rejection(self, problem: Problem, wealth: CandidateWealth, means: Floats) -> Bools:
        """Also a pair that can do harm has reached the bar: an arm outside the top k, one inside, too far ahead."""
        top = _as_mask(problem.question.answer(means), problem.arms)
        merits = problem.question.merits(means)
        harm = ~top[:, None] & top & (merits - merits[:, None] > problem.question.tolerance)  # (behind, ahead)
        harm = harm.T if problem.question.lower_is_better else harm
        shown = _of_pairs(wealth).shown
        return super().false_rejection(problem, wealth, means) | (shown & harm.reshape(-1)).any(axis=-1)

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Between what settles the candidate's pairs at least cost, and alike where arms tie (docs/wager.md)."""
        found = super().required_pulls(problem, state)
        known, forecast, tolerance = state.known, state.alternative.forecast, problem.question.tolerance
        gains, lost = self.of_candidate(problem, state.wealth, state.alternative)
        lead, error = forecast.value - tolerance, known.error(forecast)
        gap = np.maximum(lead, 0.0)
        gap = gap * gap**2 / np.maximum(gap**2 + 2 * error**2, 1e-300)
        spread = problem.noise.difference_variances(known.past, forecast.pieces)
        need = np.maximum(problem.goal - gains, LEAST_NEED)
        each = np.where(lost, 0.0, 2 * spread * need / (gap + tolerance) ** 2)
        amount = np.maximum(total(each), 1e-300)
        tie = (total(each * tolerance / (gap + tolerance)) / amount) ** 2
        unsure = -np.expm1(total(log_phi(lead / error)))
        order, grid = pairs_on_grid(problem, forecast.pieces)  # of each arm as many as any of its pairs needs
        needs = each.reshape((*each.shape[:-1], grid, -1))
        even = np.zeros(known.past.counts.shape)
        np.put_along_axis(even, order, np.concatenate([needs.max(axis=-1), needs.max(axis=-2)], axis=-1), axis=-1)
        mix = (tie * unsure)[..., None]
        short = EVEN_ENOUGH[self.best] * self.sufficient_pulls(problem, known.past)[..., None] - known.past.counts
        jump = (1 - signal_share(known)) ** 6 * unsure**3
        if problem.arms > CROWD_OF_TIES and known.past.batches < 2:
            jump = jump * 0.0
        least = np.where(found.unfinished, jump[..., None] * np.maximum(short, 0.0), 0.0)
        return RequiredPulls((1 - mix) * found.pulls + mix * even, found.unfinished, tie, least)

    def sufficient_pulls(self, problem: Problem, past: Past) -> Floats:
        """4 sigma^2 ln(k (K - k)/(delta rho w_0))/tolerance^2 of each arm (Proposition 37)."""
        sought = problem.question.number_sought or 1
        bar = problem.goal + math.log(sought * (problem.arms - sought) / (PAIRS * NEAREST))
        return 4 * problem.noise.variance(past) * bar / problem.question.tolerance**2


def _of_pairs(wealth: CandidateWealth) -> PairWealth:
    assert wealth.pairs is not None
    return wealth.pairs


def _drifts(problem: Problem) -> int:
    sigma = problem.noise.known_sigma
    if sigma is None:
        return 1 + UNKNOWN_SCALE
    return 1 + min(max(1, math.ceil(math.log2(WIDEST * sigma / problem.question.tolerance))), MOST_DRIFTS)


def _pair_gains(problem: Problem, logs: Floats) -> Floats:
    """log B_ij, the wealth against each pair, from that of its drifts. (M, P)->(P)"""
    larger = DECAY ** np.arange(logs.shape[-2] - 1)
    weights = np.append(NEAREST, (1 - NEAREST) * larger / larger.sum())
    sought = problem.question.number_sought or 1
    weights *= PAIRS / (sought * (problem.arms - sought))
    return log_sum_exp(np.moveaxis(logs, -2, 0) + np.log(weights).reshape(-1, *[1] * (logs.ndim - 1)))


def _log_factors(problem: Problem, past: Past, batch: Batch) -> Floats:
    """log e of each drift against each pair, from a batch: bets whose sizes the past fixes. (M, K^2)"""
    runs, arms, tolerance = batch.counts.shape[:-1], problem.arms, problem.question.tolerance
    first, second = (np.broadcast_to(each.reshape(-1), (*runs, arms**2)) for each in np.indices((arms, arms)))
    pieces = pairs(first, second, -tolerance)
    sizes = 2.0 ** np.arange(_drifts(problem)).reshape(-1, *[1] * pieces.offsets.ndim) * tolerance
    sizes = sizes / np.sqrt(problem.noise.difference_variances(past, pieces))
    bet = problem.noise.fixed_size_bet(past, batch, pieces, np.ones(batch.counts.shape), sizes)
    logs = bet(pieces.offsets)
    if problem.noise.estimates_variance:  # before any deviation was seen, drifts have no scale
        logs = np.where((total(past.freedom) > 0)[..., None], logs, 0.0)
    return np.moveaxis(logs, 0, -2)


def _places(problem: Problem, pieces: Halfspaces) -> Index:
    """Where the pairs of an answer are among all. (P)"""
    return pieces.arms[..., 0] * problem.arms + pieces.arms[..., 1]


def _as_mask(answer: Answer, arms: int) -> Bools:
    found = np.asarray(answer)
    return found if found.dtype == np.bool_ else np.arange(arms) == found
