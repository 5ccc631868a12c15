"""The betting rule: predictable bets against every wrong answer (docs/why-the-guarantee-holds.md).

Before each batch the `alternative` that is bet on is fixed from past data alone; the batch then multiplies the wealth
against each cell of the question's e-process. How the batch was sampled does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, singledispatch
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.model.batch import Batch, BatchPlan, Record, Trial, stack_parts
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.problem import Problem
from roundwise.noise.crossed import check_forms
from roundwise.questions import Above, BestArm, Linear, Question, SomeBeyond
from roundwise.questions.base import Answer
from roundwise.rules.base import Bounds, ClaimStatus, StoppingRule, TrialStatus
from roundwise.rules.eprocess.above import AboveEProcess, CrossedAboveEProcess
from roundwise.rules.eprocess.any_beyond_level import BeyondLevelEProcess
from roundwise.rules.eprocess.base import EProcess
from roundwise.rules.eprocess.best_arm import BestArmEProcess
from roundwise.rules.eprocess.bounds import BetHistory, PlacedBet, RuleState, Wealth
from roundwise.rules.eprocess.candidates import CandidateEProcess
from roundwise.rules.eprocess.linear import LinearEProcess
from roundwise.solvers.design import orthonormal_basis


class SavedState(NamedTuple, Generic[Wealth]):
    """What the record of a study keeps of the rule's state."""

    wealth: Wealth
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

    def check(self, problem: Problem) -> None:
        """Every question and every noise model has its bets; claims have a rule of their own."""
        if problem.question.separate_claims:
            raise InputError(
                f"The question '{problem.question.name}' has a rule of its own: use the policy 'conditional-power'."
            )
        eprocess_for(problem)
        if problem.noise.shares_items and problem.question.pieces(problem.arms) is not None:
            answer = problem.question.answer(np.zeros(problem.arms))
            check_forms(problem.question.halfspaces(answer, problem.arms))

    def start(self, problem: Problem, runs: tuple[int, ...]) -> RuleState:
        """Nothing seen, nothing won."""
        return self._kept(problem, eprocess_for(problem).start(problem, runs), Past.none((*runs, problem.arms)))

    def fold(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> RuleState:
        """Bet on the batch with what was fixed before, or on its parts with what those before showed; then fix anew."""
        eprocess = eprocess_for(problem)
        parts = batch.parts or stack_parts((batch,))
        won = eprocess.update(problem, *kept, parts._replace(jump=plan.jump), self.shifts and eprocess.shifts)
        return self._kept(problem, won, kept.known.past.plus(batch))

    def replayed(self, problem: Problem, batches: Sequence[Batch]) -> BetHistory:
        """What bounds are made of: all batches with what was fixed before each, and what is kept after them.

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
                    before = self._kept(problem, kept.won, before.known.past.plus(part, same_batch=p > 0))
            kept = self.fold(problem, kept, BatchPlan(batch.counts, np.asarray(True)), batch)
        return BetHistory(problem, placed, kept)

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether only one answer is left."""
        return eprocess_for(problem).stops(problem, trial.kept.won)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        """Where a cell that holds these means has lost."""
        return eprocess_for(problem).false_rejection(problem, trial.kept.won, means)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The answer that is left."""
        return eprocess_for(problem).answer(problem, trial.kept.won, trial.kept.known)

    def _kept(self, problem: Problem, won: Any, past: Past) -> RuleState:
        eprocess = eprocess_for(problem)
        known = estimate_from(past, problem.noise.variance(past), self.shifts and eprocess.shifts)
        alternative = eprocess.choose(problem, won, known)
        return RuleState(won, known._replace(fit=None), alternative)  # the alternative has what it needs of the fit

    def state_tag(self, problem: Problem) -> str:
        """The kind of e-process."""
        return f"{eprocess_for(problem).tag}/1"

    def save(self, problem: Problem, kept: RuleState) -> SavedState:
        """Wealth and past: everything else follows from them."""
        return SavedState(kept.won, kept.known.past)

    def restore(self, problem: Problem, saved: SavedState) -> RuleState:
        """The wealth so far, whichever rules earned it, with the bets of this rule from here on (Proposition 21)."""
        return self._kept(problem, saved.wealth, saved.past)

    def effect_of_change(self, problem: Problem, dropped: bool) -> str | None:
        """By the e-process, where a rule is proved (Propositions 22 and 23)."""
        eprocess = eprocess_for(problem)
        return eprocess.dropping if dropped else eprocess.adding

    def migrate(self, before: Problem, after: Problem, kept: RuleState, dropped: int | None, past: Past) -> RuleState:
        """The wealth that is valid for the other arms."""
        eprocess = eprocess_for(before)
        won = eprocess.with_arm(kept.won) if dropped is None else eprocess.without(before, kept.won, dropped)
        return self._kept(after, won, past)

    def warm_start(self, problem: Problem, kept: RuleState, batch: Batch, left: Floats | None) -> RuleState:
        """With earlier results known, of which nothing is won (Proposition 24)."""
        return self._kept(problem, kept.won, kept.known.past.plus(batch))

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def describe(self, delta: float) -> str:
        """Products of bets."""
        return (
            "The evidence against every wrong answer is the product of the pay-offs of bets that are fixed before each "
            f"round; an answer is excluded when it reaches {1 / delta:.0f} : 1 (1/{delta:g})."
        )

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        """Those of the e-process."""
        return eprocess_for(problem).claims(problem, trial.kept.won, trial.kept.alternative, names)

    def standing(self, problem: Problem, trial: Trial) -> TrialStatus:
        """Whether bets compare arms, and whether they went wrong."""
        eprocess = eprocess_for(problem)
        emptied = eprocess.all_rejected(problem, trial.kept.won)
        return TrialStatus(self.shifts and eprocess.shifts, emptied, eprocess.bounds_match_decision)

    def bounds(
        self, problem: Problem, record: Record, batches: Sequence[Batch], kept: RuleState | None = None
    ) -> Bounds:
        """From the same bets, folded once; they agree with the decision that was made, if it is `kept`."""
        eprocess, bets = eprocess_for(problem), self.replayed(problem, batches)
        bets = bets if kept is None else BetHistory(problem, bets.placed, kept)
        return Bounds(
            partial(eprocess.means, bets),
            partial(eprocess.margins, bets),
            partial(eprocess.gap_to_leader, bets),
            bets.against,
        )


@lru_cache(maxsize=256)
def eprocess_for(problem: Problem) -> EProcess:
    """The e-process of the question; that of its half-spaces where it has none of its own."""
    return build_eprocess(problem.question, problem)


@singledispatch
def build_eprocess(question: Question, problem: Problem) -> EProcess:
    """The e-process of a class of questions: register another one for a class that has its own."""
    return CandidateEProcess(_compares(problem))


@build_eprocess.register
def _(question: BestArm, problem: Problem) -> EProcess:
    return CandidateEProcess(_compares(problem), best=True) if question.tolerance else BestArmEProcess()


@build_eprocess.register
def _(question: Above, problem: Problem) -> EProcess:  # products over arms, where they have items of their own
    own = AboveEProcess if not problem.noise.shares_items else CrossedAboveEProcess
    return own(question.level, question.tolerance)


@build_eprocess.register
def _(question: SomeBeyond, problem: Problem) -> EProcess:
    return BeyondLevelEProcess(question.level, not question.seeks_low_means, question.tolerance)


@build_eprocess.register
def _(question: Linear, problem: Problem) -> EProcess:
    return LinearEProcess(shifts=False, basis=_orthonormal(problem))


def _orthonormal(problem: Problem) -> Floats:
    """Features that span the same means; an InputError without a sigma, and where arms are tried on the same items."""
    if problem.noise.known_sigma is None:
        raise InputError("Arms with features go with a deviation that is known: say which it is (--sigma).")
    if problem.noise.shares_items:
        raise InputError("Arms with features cannot be tried on the same items: leave out the features, or the items.")
    features = problem.question.features
    assert features is not None
    return orthonormal_basis(features)


def _compares(problem: Problem) -> bool:
    """Whether every form has coefficients that sum to 0, so that a common shift cancels."""
    pieces = problem.question.halfspaces(problem.question.answer(np.zeros(problem.arms)), problem.arms)
    factors = pieces.coefficients
    return bool((np.abs(factors.sum(axis=-1)) <= 1e-12 * np.abs(factors).sum(axis=-1)).all())  # in any units
