"""The e-process of statements that compare two arms each: one cell for each pattern of which of them hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, quiet, zeros
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates, FormEstimate
from roundwise.model.problem import Problem
from roundwise.noise.bets import PartBets, PartForm
from roundwise.questions.base import Answer
from roundwise.questions.forms import Statements
from roundwise.rules.base import ClaimStatus
from roundwise.rules.eprocess.bounds import BetHistory
from roundwise.rules.eprocess.candidates import bound_margins, claim_halfspaces, settle_pieces
from roundwise.rules.eprocess.engine import (
    LIKELY,
    EProcess,
    OpenNulls,
    PartsView,
    RequiredPulls,
    RuleState,
    bet_on_parts,
    log_phi,
    sum_arms,
)

MOST_COMPARISONS = 6  # statements up to which each pattern has a cell: 64


class PatternsWealth(NamedTuple):
    """log of the wealth against each pattern, and which have lost."""

    gains: Floats  # (C)
    lost: Bools  # (C)


class LeadingPattern(NamedTuple):
    """The pattern that the estimates suggest."""

    answer: Bools  # (m)
    forecast: FormEstimate  # (m), of its half-spaces


@lru_cache(maxsize=8)
def patterns_of(number: int) -> Bools:
    """Return all patterns of so many statements. (C, m)"""
    return np.array(list(product((False, True), repeat=number)))


def compares_pairs(question: Statements) -> bool:
    """Whether every statement is about the difference of two arms."""
    ends = np.sort(question.forms, axis=-1)
    return bool(((ends[:, 0] == -1) & (ends[:, -1] == 1) & (np.count_nonzero(question.forms, axis=-1) == 2)).all())


@dataclass(frozen=True)
class PatternEProcess(EProcess):
    """Cells Q_S = {just the statements of S hold}, one for each pattern S (Proposition 2).

    Let T be the pattern that leads before a part. Against S it is bet that the statement on which S and T differ, and
    that is the least clear of these, is as T has it; against T that its least clear statement is not.
    """

    question: Statements
    shifts = True
    tag = "patterns"

    @property
    def arms(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of each statement the arm that is said to be ahead, and the other one. (m)"""
        return self.question.forms.argmax(axis=-1), self.question.forms.argmin(axis=-1)

    def start(self, problem: Problem, runs: tuple[int, ...]) -> PatternsWealth:
        nothing = zeros((*runs, len(patterns_of(len(self.question.forms)))))
        return PatternsWealth(nothing, nothing > 0)

    def choose(self, problem: Problem, wealth: PatternsWealth, known: Estimates) -> LeadingPattern:
        answer = self.question.answer(known.means)
        pieces = self.question.halfspaces(answer, problem.arms)
        return LeadingPattern(answer, problem.noise.estimate_forms(known, pieces))

    @quiet
    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> PatternsWealth:
        wealth, known, _ = state
        first, (ahead, behind), levels = not known.past.history, self.arms, self.question.levels
        patterns = patterns_of(len(levels))

        def open_nulls(view: PartsView, part_bets: PartBets, gains: Floats, lost: Bools) -> OpenNulls | None:
            at = np.flatnonzero(~lost)
            if not at.size:
                return None
            size, arms, n = view.means.shape
            which, run = np.divmod(at, n)
            margins = view.means[:, ahead] - view.means[:, behind] - levels[:, None]  # (P, m, n)
            leads = np.abs(margins) / np.sqrt(view.inverse[:, ahead] + view.inverse[:, behind])
            clear = leads[:, :, run].transpose(0, 2, 1)  # (P, c, m)
            differ = (margins > 0)[:, :, run].transpose(0, 2, 1) != patterns[which]
            same = ~differ.any(axis=-1, keepdims=True)
            least = np.where(differ | same, clear, np.inf).argmin(axis=-1)  # (P, c)
            holds = patterns[which, least]  # what the pattern says of it, against which is bet
            place = np.arange(size)[:, None] * (arms * n) + run
            pair = [each[least] * n + place for each in (ahead, behind)]
            high, low = np.where(holds, pair[1], pair[0]), np.where(holds, pair[0], pair[1])
            form = PartForm([high, low], None, np.where(holds, -levels[least], levels[least]))
            live = None
            if first:  # bet on once the pattern that leads is more likely right than wrong
                spread = view.inverse * part_bets.variances
                scores = np.abs(margins) / np.sqrt(spread[:, ahead] + spread[:, behind])
                live = (sum_arms(log_phi(scores)) >= LIKELY)[:, run]
                live[0] = False
            return OpenNulls(form, at, problem.goal, None if live is None else lambda z: live)

        wide = len(patterns)
        after = bet_on_parts(problem, known, parts, shifts, open_nulls, wealth.gains, wealth.lost, wide=wide)
        return PatternsWealth(after, wealth.lost | (after >= problem.goal))

    def stops(self, problem: Problem, wealth: PatternsWealth) -> Bools:
        return np.asarray(wealth.lost.sum(axis=-1) >= wealth.lost.shape[-1] - 1)

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        """The pattern nearest to the estimates that has not lost, or of all if all have."""
        patterns, lost = patterns_of(len(self.question.forms)), state.wealth.lost
        heights = self.question.heights(state.known.means)
        wrong = np.maximum(np.where(patterns, -1.0, 1.0) * heights[..., None, :], 0.0).sum(axis=-1)
        return patterns[np.where(lost & ~lost.all(axis=-1, keepdims=True), np.inf, wrong).argmin(axis=-1)]

    def false_rejection(self, problem: Problem, wealth: PatternsWealth, means: Floats) -> Bools:
        right = (patterns_of(len(self.question.forms)) == self.question.answer(means)).all(axis=-1)
        return wealth.lost[..., int(right.argmax())]

    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        """Settle every open pattern by the statement that is bet on: what needs most of them is needed."""
        answer, forecast = state.alternative
        patterns, (gains, lost) = patterns_of(len(self.question.forms)), state.wealth
        differ = answer[..., None, :] != patterns
        inverse = 1.0 / np.maximum(state.known.past.counts, 1e-9)  # as in `update` before the first part
        ahead, behind = self.arms
        clear = np.abs(self.question.heights(state.known.means)) / np.sqrt(inverse[..., ahead] + inverse[..., behind])
        by = np.where(differ, clear[..., None, :], np.inf).argmin(axis=-1)[..., None] == np.arange(patterns.shape[1])
        open_ = (differ.any(axis=-1) & ~lost)[..., None] & by  # (C, m)
        least = np.where(open_, gains[..., None], np.inf).min(axis=-2)
        return settle_pieces(problem, state.known, forecast, least, np.isposinf(least))

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        return claim_halfspaces(problem, names, *self._shown(problem, state))

    def all_rejected(self, problem: Problem, wealth: PatternsWealth) -> bool:
        return bool(wealth.lost.all())

    def margins(self, bets: BetHistory) -> Floats:
        answer, _, shown = self._shown(bets.problem, bets.end)
        return bound_margins(bets, answer, shown)

    def _shown(self, problem: Problem, state: RuleState) -> tuple[Answer, Floats, Bools]:
        """The answer, and of each statement the least that was won against a pattern that has it otherwise. One run."""
        answer, patterns = self.answer(problem, state), patterns_of(len(self.question.forms))
        against = patterns != answer
        gains = np.where(against, state.wealth.gains[:, None], np.inf).min(axis=0)
        return answer, gains, np.asarray((state.wealth.lost[:, None] | ~against).all(axis=0))
