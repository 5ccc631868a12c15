"""Answers within a tolerance: candidates, and wealth against every comparison that answers are made of.

Among arms that nearly tie the candidate changes often, and each new one starts its evidence over. So part of the stake
is bet on every *comparison*: best arm, top k and largest score are made of ordered pairs (i is not behind j by more
than the tolerance), statements of their two sides. The wealth of a comparison does not depend on who leads, and never
restarts. An answer is given once the wealth of its candidate and of the comparison together has reached 1/delta for
each of its comparisons (docs/why-the-guarantee-holds.md, Proposition 37).

For fixed means only some comparisons can do harm, k (K - k) pairs or one side of each statement: each comparison
starts with SHARE over that number, although there are more.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats, log_sum_exp, quiet, total
from roundwise.model.batch import Batch, Parts, join_parts
from roundwise.model.estimates import Estimates, Past, estimate_from, form_values, form_variances, signal_share
from roundwise.model.problem import Problem
from roundwise.noise.bets import Index
from roundwise.questions.base import Answer
from roundwise.rules.eprocess.candidates import (
    Candidate,
    CandidateEProcess,
    CandidateWealth,
    ComparisonWealth,
    most_of_each_arm,
    numbers_to_answer,
)
from roundwise.rules.eprocess.engine import RequiredPulls, RuleState, log_phi
from roundwise.solvers.halfspaces import Halfspaces, pairs

MOST = 40_000  # comparisons; beyond, only candidates are bet on: they would take too much memory
SHARE = 0.3  # rho: of the stake, that is bet on comparisons
NEAREST = 0.8  # w_0: share of a comparison's wealth that is bet on the drift of a tie, the tolerance
DECAY = 0.8  # of the weights of larger drifts
UNKNOWN_SCALE = 3  # larger drifts where the deviation is not known; else up to WIDEST deviations
WIDEST = 1.6
MOST_DRIFTS = 10  # a tolerance so small that more would be needed decides nothing
BY_WEALTH = 20  # batches after which the candidate is that of the estimates, for which it is proved that it ends
LEAST_NEED = 0.1  # of what is not shown
EVEN_ENOUGH = {True: 0.7, False: 1.0}  # of the pulls that always suffice, aimed at where arms tie: one of many, a set
AT_ONCE = {True: 2.0, False: 6.0}  # times the samples so far, at most, for that aim: arms may yet turn out to lead


@dataclass(frozen=True)
class ToleranceEProcess(CandidateEProcess):
    """Candidates with 1 - SHARE of the stake, and comparisons with the rest."""

    tag = "tolerance"
    by_wealth: ClassVar[bool] = False  # whether the candidate is, at first, the answer whose worst comparison has most

    @abstractmethod
    def comparisons(self, problem: Problem) -> Halfspaces:
        """Return all that answers are made of. (A)"""

    @abstractmethod
    def places(self, problem: Problem, answer: Answer) -> Index:
        """Return where the pieces of an answer are among all comparisons. ...->(P)"""

    @abstractmethod
    def most_harmful(self, problem: Problem) -> int:
        """Return how many comparisons can do harm at the same means, at most."""

    @abstractmethod
    def harmful(self, problem: Problem, means: Floats) -> Bools:
        """Return which can do harm at these means. (A)"""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> CandidateWealth:
        found = super().start(problem, runs)
        logs = np.zeros((*runs, self._drifts(problem), self.comparisons(problem).offsets.size))
        gains = self._sum_drifts(problem, logs)
        begun = ComparisonWealth(logs, gains, gains >= problem.goal)
        return found._replace(reserve=found.reserve + math.log1p(-SHARE), comparisons=begun)

    def _named(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Answer:
        """One of many: the answer whose worst comparison has most; the top k of the estimates (else they get stuck)."""
        found = problem.question.answer(known.means)
        if not self.by_wealth or known.past.batches >= BY_WEALTH:
            return found
        _, gains, shown = _of_comparisons(wealth)
        gains = np.where(shown, problem.goal, np.minimum(gains, problem.goal))
        every = np.arange(self.most_harmful(problem) + 1)
        safest = gains[..., self.places(problem, every)].min(axis=-1).argmax(axis=-1)
        return np.where((known.past.counts > 0).all(axis=-1), safest, found)

    def of_candidate(self, problem: Problem, wealth: CandidateWealth, alternative: Candidate) -> tuple[Floats, Bools]:
        """With the wealth of its comparisons; LEAST_NEED is missing at least as long as one is not shown."""
        gains, rejected = super().of_candidate(problem, wealth, alternative)
        places = self.places(problem, numbers_to_answer(problem, alternative.answer))
        _, own, shown = _of_comparisons(wealth)
        together = np.logaddexp(gains, np.take_along_axis(own, places, axis=-1))
        rejected = rejected | np.take_along_axis(shown, places, axis=-1)
        return np.where(rejected, together, np.minimum(together, problem.goal - LEAST_NEED)), rejected

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> CandidateWealth:
        """Return the wealth of candidates as usual, and that of comparisons after the batch as a whole."""
        before, past = state.wealth, state.known.past
        found = super().update(problem, state, parts, shifts)
        batches = [parts.batch(p) for p in range(parts.number)]
        learned = problem.noise.needs != "sums" or problem.noise.law is not None  # sizes of bets, from earlier results
        if past.history or not learned:  # the first batch has no past but its own earlier parts
            batches = batches if len(batches) == 1 else [join_parts(batches)]
        logs, _, shown = _of_comparisons(before)
        for number, batch in enumerate(batches):
            logs = logs + self._log_factors(problem, past, batch)
            past = past.plus(batch, same_batch=number > 0)
        gains = self._sum_drifts(problem, logs)
        shown = shown | (gains >= problem.goal)
        found = found._replace(comparisons=ComparisonWealth(logs, gains, shown))
        visited = found.answers[..., 0] >= 0
        like = np.asarray(problem.question.answer(np.zeros(problem.arms)), dtype=np.float64).reshape(-1)
        places = self.places(problem, numbers_to_answer(problem, np.where(visited[..., None], found.answers, like)))
        out = np.take_along_axis(shown[..., None, :], places, axis=-1)
        own = np.take_along_axis(gains[..., None, :], places, axis=-1)
        rejected = found.rejected | (visited[..., None] & (out | (np.logaddexp(found.gains, own) >= problem.goal)))
        return self._add_shown(problem, found._replace(rejected=rejected), past, shifts)

    def _add_shown(self, problem: Problem, wealth: CandidateWealth, past: Past, shifts: bool) -> CandidateWealth:
        """An answer whose comparisons are all shown is a candidate without wealth, if no other has won."""
        known = estimate_from(past, problem.noise.variance(past), shifts)
        for answer in (problem.question.answer(past.means), self._named(problem, wealth, known)):
            places = self.places(problem, answer)
            safe = np.take_along_axis(_of_comparisons(wealth).shown, places, axis=-1).all(axis=-1)
            safe = safe & ~self.stops(problem, wealth)
            if not safe.any():
                continue
            names = np.asarray(answer, dtype=np.float64).reshape((*safe.shape, -1))
            number = (wealth.answers[..., 0] >= 0).sum(axis=-1)
            wealth = wealth.extended(int(np.where(safe, number, 0).max(initial=0)) + 1)
            new = safe[..., None] & (np.arange(wealth.answers.shape[-2]) == number[..., None])
            answers = np.where(new[..., None], names[..., None, :], wealth.answers)
            wealth = wealth._replace(answers=answers, rejected=wealth.rejected | new[..., None])
        return wealth

    def false_rejection(self, problem: Problem, wealth: CandidateWealth, means: Floats) -> Bools:
        """Also a comparison that can do harm has reached the bar."""
        harm = _of_comparisons(wealth).shown & self.harmful(problem, means)
        return super().false_rejection(problem, wealth, means) | harm.any(axis=-1)

    @quiet
    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Between what settles the candidate at least cost, and alike where arms tie (docs/wager.md)."""
        found = super().required_pulls(problem, state)
        known, forecast, tolerance = state.known, state.alternative.forecast, problem.question.tolerance
        gains, rejected = self.of_candidate(problem, state.wealth, state.alternative)
        lead, error = forecast.value - tolerance, known.error(forecast)
        gap = np.maximum(lead, 0.0)
        gap = gap * gap**2 / np.maximum(gap**2 + 2 * error**2, 1e-300)
        spread = problem.noise.difference_variances(known.past, forecast.pieces)
        each = np.where(rejected, 0.0, 2 * spread * (problem.goal - gains) / (gap + tolerance) ** 2)
        amount = np.maximum(total(each), 1e-300)
        tie = (total(each * tolerance / (gap + tolerance)) / amount) ** 2
        unsure = -np.expm1(total(log_phi(lead / error)))
        even = most_of_each_arm(problem, forecast.pieces, each)
        mix = (tie * unsure)[..., None]
        enough = EVEN_ENOUGH[self.by_wealth] * self._even_pulls(problem, spread.mean(axis=-1))
        least = np.where(found.unfinished, np.maximum(enough[..., None] - known.past.counts, 0.0), 0.0)
        near = total(least) <= AT_ONCE[self.by_wealth] * total(known.past.counts)
        jump = np.where(near, (1 - signal_share(known)) ** 6 * unsure**3, 0.0)
        return RequiredPulls((1 - mix) * found.pulls + mix * even, found.unfinished, tie, jump[..., None] * least)

    def sufficient_pulls(self, problem: Problem) -> float | None:
        """2 s^2 ln(H/(delta rho w_0))/tolerance^2 of each arm, H the most harmful comparisons (Proposition 37)."""
        sigma = problem.noise.known_sigma
        if sigma is None:
            return None
        largest = form_variances(np.full(problem.arms, sigma**2), self.comparisons(problem)).max()
        return float(self._even_pulls(problem, largest))

    def _even_pulls(self, problem: Problem, spread: Floats) -> Floats:
        """Pulls of each arm, the same of all, that end it, where one result an arm has forms of this variance."""
        bar = problem.goal + math.log(self.most_harmful(problem) / (SHARE * NEAREST))
        return 2 * spread * bar / problem.question.tolerance**2

    def _drifts(self, problem: Problem) -> int:
        sigma = problem.noise.known_sigma
        if sigma is None:
            return 1 + UNKNOWN_SCALE
        largest = math.sqrt(form_variances(np.ones(problem.arms), self.comparisons(problem)).max() / 2)
        needed = math.ceil(math.log2(WIDEST * sigma * largest / problem.question.tolerance))
        return 1 + min(max(1, needed), MOST_DRIFTS)

    def _sum_drifts(self, problem: Problem, logs: Floats) -> Floats:
        """log B, the wealth of each comparison, from that of its drifts. (M, A)->(A)"""
        larger = DECAY ** np.arange(logs.shape[-2] - 1)
        weights = np.append(NEAREST, (1 - NEAREST) * larger / larger.sum()) * (SHARE / self.most_harmful(problem))
        return log_sum_exp(np.moveaxis(logs, -2, 0) + np.log(weights).reshape(-1, *[1] * (logs.ndim - 1)))

    def _log_factors(self, problem: Problem, past: Past, batch: Batch) -> Floats:
        """log e of each drift of each comparison, from a batch: bets whose sizes the past fixes. (M, A)"""
        runs, tolerance, pieces = batch.counts.shape[:-1], problem.question.tolerance, self.comparisons(problem)
        shape = (*runs, *pieces.arms.shape)
        factors = None if pieces.factors is None else np.broadcast_to(pieces.factors, shape)
        offsets = np.broadcast_to(pieces.offsets, shape[:-1])
        pieces = pieces._replace(arms=np.broadcast_to(pieces.arms, shape), factors=factors, offsets=offsets)
        sizes = 2.0 ** np.arange(self._drifts(problem)).reshape(-1, *[1] * offsets.ndim) * tolerance
        sizes = sizes / np.sqrt(problem.noise.difference_variances(past, pieces))
        logs = problem.noise.fixed_size_bet(past, batch, pieces, np.ones(batch.counts.shape), sizes)(offsets)
        if problem.noise.estimates_variance:  # before any deviation was seen, drifts have no scale
            logs = np.where((total(past.freedom) > 0)[..., None], logs, 0.0)
        return np.moveaxis(logs, 0, -2)


def _of_comparisons(wealth: CandidateWealth) -> ComparisonWealth:
    assert wealth.comparisons is not None
    return wealth.comparisons


@dataclass(frozen=True)
class RankingToleranceEProcess(ToleranceEProcess):
    """Best arm and top k: all ordered pairs of arms, of which those across the cut can do harm."""

    def comparisons(self, problem: Problem) -> Halfspaces:
        first, second = (each.reshape(-1) for each in np.indices((problem.arms, problem.arms)))
        return pairs(first, second, -problem.question.tolerance)

    def places(self, problem: Problem, answer: Answer) -> Index:
        arms = problem.question.halfspaces(answer, problem.arms).arms
        return arms[..., 0] * problem.arms + arms[..., 1]

    def most_harmful(self, problem: Problem) -> int:
        sought = problem.question.number_sought or 1
        return sought * (problem.arms - sought)

    def harmful(self, problem: Problem, means: Floats) -> Bools:
        answer, merits = np.asarray(problem.question.answer(means)), problem.question.merits(means)
        top = answer if answer.dtype == np.bool_ else np.arange(problem.arms) == answer
        harm = ~top[:, None] & top & (merits - merits[:, None] > problem.question.tolerance)  # (behind, ahead)
        return (harm.T if problem.question.lower_is_better else harm).reshape(-1)


@dataclass(frozen=True)
class BestArmToleranceEProcess(RankingToleranceEProcess):
    """Best arm: at first the candidate is the arm whose worst pair has most."""

    by_wealth = True


@dataclass(frozen=True)
class ScoreToleranceEProcess(ToleranceEProcess):
    """The largest score: all ordered pairs of scores, of which those with the largest can do harm."""

    by_wealth = True

    def comparisons(self, problem: Problem) -> Halfspaces:
        pieces = problem.question.halfspaces(np.arange(self.most_harmful(problem) + 1), problem.arms)
        return pieces._replace(
            arms=pieces.arms.reshape(-1, pieces.arms.shape[-1]),
            factors=pieces.coefficients.reshape(-1, pieces.arms.shape[-1]),
            offsets=pieces.offsets.reshape(-1),
        )

    def places(self, problem: Problem, answer: Answer) -> Index:
        others = self.most_harmful(problem)
        return np.asarray(answer)[..., None] * others + np.arange(others)

    def most_harmful(self, problem: Problem) -> int:
        assert problem.question.forms is not None
        return len(problem.question.forms) - 1

    def harmful(self, problem: Problem, means: Floats) -> Bools:
        pieces, others = self.comparisons(problem), self.most_harmful(problem)
        best = int(problem.question.answer(means))
        against = np.arange(others) + (np.arange(others) >= np.arange(others + 1)[:, None])  # (score, place)
        return (form_values(means, pieces) < pieces.offsets) & (against == best).reshape(-1)


@dataclass(frozen=True)
class StatementToleranceEProcess(ToleranceEProcess):
    """Statements: both sides of each, first that it holds; one of them at most can do harm."""

    def _named(self, problem: Problem, wealth: CandidateWealth, known: Estimates) -> Answer:
        """A side that is shown; of the other statements that of the estimates."""
        if known.past.batches >= BY_WEALTH:
            return problem.question.answer(known.means)
        _, _, shown = _of_comparisons(wealth)
        holds, fails = np.split(shown, 2, axis=-1)
        return np.where(holds | fails, holds, problem.question.answer(known.means))

    def comparisons(self, problem: Problem) -> Halfspaces:
        number = self.most_harmful(problem)
        holds, fails = (problem.question.halfspaces(np.full(number, each), problem.arms) for each in (True, False))
        return holds._replace(
            arms=np.concatenate([holds.arms, fails.arms]),
            factors=np.concatenate([holds.coefficients, fails.coefficients]),
            offsets=np.concatenate([holds.offsets, fails.offsets]),
        )

    def places(self, problem: Problem, answer: Answer) -> Index:
        number = self.most_harmful(problem)
        return np.where(answer, np.arange(number), np.arange(number) + number)

    def most_harmful(self, problem: Problem) -> int:
        assert problem.question.forms is not None
        return len(problem.question.forms)

    def harmful(self, problem: Problem, means: Floats) -> Bools:
        pieces = self.comparisons(problem)
        return form_values(means, pieces) < pieces.offsets
