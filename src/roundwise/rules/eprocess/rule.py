"""The betting rule: predictable bets against every wrong answer (docs/why-the-guarantee-holds.md).

Before each batch the `alternative` that is bet on is fixed from past data alone; the batch then multiplies the wealth
against each cell of the question's e-process. How the batch was sampled does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, singledispatch
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.model.batch import Batch, stack_parts
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.problem import BatchPlan, Problem, Record, Trial
from roundwise.noise.paired import check_forms
from roundwise.questions import Above, BestArm, BestGroup, Largest, Linear, Question, SomeBeyond, Statements, TopK
from roundwise.questions.base import Answer
from roundwise.rules.base import Bounds, ClaimStatus, StoppingRule, TrialStatus
from roundwise.rules.eprocess.bounds import BetHistory, PlacedBet
from roundwise.rules.eprocess.candidates import CandidateEProcess, LinearEProcess
from roundwise.rules.eprocess.cells import AboveEProcess, BestArmEProcess, BeyondLevelEProcess, CrossedAboveEProcess
from roundwise.rules.eprocess.engine import EProcess, RuleState
from roundwise.rules.eprocess.groups import BestGroupEProcess
from roundwise.rules.eprocess.sets import MOST_SETS, SetEProcess
from roundwise.rules.eprocess.tolerance import (
    MOST,
    BestArmToleranceEProcess,
    RankingToleranceEProcess,
    ScoreToleranceEProcess,
    StatementToleranceEProcess,
    ToleranceEProcess,
)
from roundwise.solvers.design import orthonormal_basis
from roundwise.solvers.halfspaces import Halfspaces


class SavedState(NamedTuple):
    """The part of the rule's state that a study records."""

    wealth: Any
    past: Past


@dataclass(frozen=True)
class EProcessRule(StoppingRule[RuleState]):
    """Stop when the e-processes against all wrong answers have reached 1/delta.

    Bets that are fixed before each batch multiply the wealth against every wrong answer; the answer that is left is
    right with probability at least 1 - delta, however batches are sampled and however often results are looked at
    (docs/why-the-guarantee-holds.md). The rule serves every question but claims, every noise model and every policy
    that takes a `stopping` rule:

    >>> from roundwise.policies import RoundRobin
    >>> RoundRobin(stopping=EProcessRule()).stopping.any_time
    True

    Args:
        shifts: Whether a question that compares arms is estimated from differences within batches, so that a shift of
            all arms from one batch to the next does no harm.
    """

    shifts: bool = True
    any_time: ClassVar[bool] = True
    learns: ClassVar[bool] = True
    migrates: ClassVar[bool] = True

    def eprocess(self, problem: Problem) -> EProcess:
        """The wealth against every wrong answer, and how it is bet."""
        return eprocess_for(problem)

    def check(self, problem: Problem) -> None:
        if problem.question.separate_claims:
            raise InputError(
                f"The question '{problem.question.name}' has its own rule: use the policy 'conditional-power'."
            )
        self.eprocess(problem)
        if problem.noise.shares_items and problem.question.pieces(problem.arms) is not None:
            check_forms(_some_halfspaces(problem))

    def start(self, problem: Problem, runs: tuple[int, ...]) -> RuleState:
        return self._state(problem, self.eprocess(problem).start(problem, runs), Past.none((*runs, problem.arms)))

    def fold(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> RuleState:
        """Bet on the parts of the batch, each with the results of those before; then fix the next alternative."""
        eprocess = self.eprocess(problem)
        parts = (batch.parts or stack_parts((batch,)))._replace(jump=plan.jump)
        wealth = eprocess.update(problem, kept, parts, self.shifts and eprocess.shifts)
        return self._state(problem, wealth, kept.known.past.plus(batch))

    def _state(self, problem: Problem, wealth: Any, past: Past) -> RuleState:
        eprocess = self.eprocess(problem)
        known = estimate_from(past, problem.noise.variance(past), self.shifts and eprocess.shifts)
        alternative = eprocess.choose(problem, wealth, known)
        return RuleState(wealth, known._replace(fit=None), alternative)  # the alternative has what it needs of the fit

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        return self.eprocess(problem).stops(problem, trial.kept.wealth)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        return self.eprocess(problem).false_rejection(problem, trial.kept.wealth, means)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        return self.eprocess(problem).answer(problem, trial.kept)

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def state_tag(self, problem: Problem) -> str:
        return f"{self.eprocess(problem).tag}/1"

    def past(self, kept: RuleState) -> Past:
        return kept.known.past

    def save(self, problem: Problem, kept: RuleState) -> SavedState:
        """Wealth and past: everything else follows from them."""
        return SavedState(kept.wealth, kept.known.past)

    def restore(self, problem: Problem, saved: SavedState) -> RuleState:
        """The wealth so far, whichever rules earned it, with the bets of this rule from here on (Proposition 21)."""
        return self._state(problem, saved.wealth, saved.past)

    def effect_of_change(self, problem: Problem, dropped: bool) -> str | None:
        """By the e-process, where a rule is proved (Propositions 22 and 23)."""
        return self.eprocess(problem).dropping if dropped else self.eprocess(problem).adding

    def migrate(self, before: Problem, after: Problem, kept: RuleState, dropped: int | None, past: Past) -> RuleState:
        eprocess = self.eprocess(before)
        wealth = eprocess.with_arm(kept.wealth) if dropped is None else eprocess.without(before, kept.wealth, dropped)
        return self._state(after, wealth, past)

    def warm_start(self, problem: Problem, kept: RuleState, batch: Batch, left: Floats | None) -> RuleState:
        """With earlier results known, but no wealth from them (Proposition 24).

        Bets that rest on how much results vary (Proposition 31) learn it from results of the study alone.
        """
        if problem.noise.needs == "cubes":
            return kept
        return self._state(problem, kept.wealth, kept.known.past.plus(batch))

    def restart(self, problem: Problem, past: Past, left: Floats | None) -> RuleState:
        return self._state(problem, eprocess_for(problem).start(problem, past.counts.shape[:-1]), past)

    def describe(self, delta: float) -> str:
        return (
            "The evidence against every wrong answer is the product of the payoffs of bets that are fixed before each "
            f"round; an answer is excluded when it reaches {1 / delta:.0f} : 1 (1/{delta:g})."
        )

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        return self.eprocess(problem).claims(problem, trial.kept, names)

    def standing(self, problem: Problem, trial: Trial) -> TrialStatus:
        eprocess = self.eprocess(problem)
        all_rejected = eprocess.all_rejected(problem, trial.kept.wealth)
        return TrialStatus(self.shifts and eprocess.shifts, all_rejected, eprocess.bounds_match_decision)

    def bounds(
        self, problem: Problem, record: Record, batches: Sequence[Batch], kept: RuleState | None = None
    ) -> Bounds:
        """From the same bets, folded once; they agree with the decision that was made, if it is `kept`."""
        eprocess, bets = self.eprocess(problem), self.replay(problem, batches)
        bets = bets if kept is None else BetHistory(problem, bets.placed, kept)
        return Bounds(
            partial(eprocess.means, bets),
            partial(eprocess.margins, bets),
            partial(eprocess.gap_to_leader, bets),
            bets.against,
        )

    def replay(self, problem: Problem, batches: Sequence[Batch]) -> BetHistory:
        """Return the bets that bounds are made of: all batches with the state before each, and the state after them.

        The first comes in its parts if it has any, since it has no past; of its partitions the first.
        """
        kept = self.start(problem, batches[0].counts.shape[:-1])
        placed = []
        for batch in batches:
            first = not kept.known.past.history
            if batch.parts is None or not first:
                placed.append(PlacedBet(*kept, batch, first))
            else:
                before = kept
                for p in range(batch.parts.number):
                    part = batch.parts.batch(p)
                    placed.append(PlacedBet(*before, part, first))
                    before = self._state(problem, kept.wealth, before.known.past.plus(part, same_batch=p > 0))
            kept = self.fold(problem, kept, BatchPlan(batch.counts, np.asarray(True)), batch)
        return BetHistory(problem, placed, kept)


@lru_cache(maxsize=256)
def eprocess_for(problem: Problem) -> EProcess:
    """Return the e-process of the question; by default the one of its half-spaces."""
    return _build_eprocess(problem.question, problem)


@singledispatch
def _build_eprocess(question: Question, problem: Problem) -> EProcess:
    return _build_candidates(problem, None)


@_build_eprocess.register
def _(question: BestArm, problem: Problem) -> EProcess:
    return _build_candidates(problem, BestArmToleranceEProcess, best=True) if question.tolerance else BestArmEProcess()


@_build_eprocess.register
def _(question: BestGroup, problem: Problem) -> EProcess:
    return BestGroupEProcess(question)


@_build_eprocess.register
def _(question: TopK, problem: Problem) -> EProcess:
    few = math.comb(problem.arms, question.k) <= MOST_SETS
    if few and problem.noise.merges_arms and not question.tolerance:
        return SetEProcess(question.k)
    return _build_candidates(problem, RankingToleranceEProcess)


@_build_eprocess.register
def _(question: Largest, problem: Problem) -> EProcess:
    return _build_candidates(problem, ScoreToleranceEProcess)


@_build_eprocess.register
def _(question: Statements, problem: Problem) -> EProcess:
    return _build_candidates(problem, StatementToleranceEProcess)


def _build_candidates(problem: Problem, tolerant: type[ToleranceEProcess] | None, best: bool = False) -> EProcess:
    """The e-process of half-spaces; with a tolerance one that bets on comparisons, too, unless they are too many."""
    factors = _some_halfspaces(problem).coefficients  # a common shift cancels if they sum to 0, in any units
    shifts = bool((np.abs(factors.sum(axis=-1)) <= 1e-12 * np.abs(factors).sum(axis=-1)).all())
    if tolerant is not None and problem.question.tolerance:
        found = tolerant(shifts, best)
        if found.comparisons(problem).offsets.size <= MOST:
            return found
    return CandidateEProcess(shifts, best)


@_build_eprocess.register
def _(question: Above, problem: Problem) -> EProcess:  # products over arms, without shared items
    own = CrossedAboveEProcess if problem.noise.shares_items else AboveEProcess
    return own(question.level, question.tolerance, question.lower_is_better)


@_build_eprocess.register
def _(question: SomeBeyond, problem: Problem) -> EProcess:
    return BeyondLevelEProcess(question.level, question.tolerance, question.lower_is_better)


@_build_eprocess.register
def _(question: Linear, problem: Problem) -> EProcess:
    if problem.noise.known_sigma is None:
        raise InputError("Arms with features need a known standard deviation (--sigma).")
    if problem.noise.shares_items:
        raise InputError("Arms with features cannot share items: leave out the features, or the items.")
    assert question.features is not None
    return LinearEProcess(shifts=False, basis=orthonormal_basis(question.features))


def _some_halfspaces(problem: Problem) -> Halfspaces:
    """The half-spaces of one answer."""
    return problem.question.halfspaces(problem.question.answer(np.zeros(problem.arms)), problem.arms)
