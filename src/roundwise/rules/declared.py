"""The stopping rule of algorithms with their own: they declare the answer in their plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools
from roundwise.errors import RoundwiseError
from roundwise.messages import Condition, Doubt, Reason
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Declaration, Problem, Trial
from roundwise.questions.base import Answer
from roundwise.rules.base import StoppingRule


class PlanFollowed(NamedTuple):
    """Whether every batch so far came back exactly as planned."""

    as_planned: Bools  # ()


@dataclass(frozen=True)
class Declared(StoppingRule[PlanFollowed]):
    """Stop when the policy declares an answer, `plan.declared`, if every batch came back as planned.

    Such rules are proved for their own batches, so they do not decide once a batch was cut or its counts differ from
    the plan. There is a guarantee only if `proof` names a proof, and under the `condition` if there is one; a `caveat`
    explains why the proof does not cover this rule.
    """

    caveat: str | None = None
    proof: str | None = None  # reference to the proof
    condition: str | None = None  # what the proof requires, to be read after "that"
    exact_batches: ClassVar[bool] = True

    def state_tag(self, problem: Problem) -> str:
        return "declared/1"

    def start(self, problem: Problem, runs: tuple[int, ...]) -> PlanFollowed:
        return PlanFollowed(np.ones(runs, dtype=np.bool_))

    def fold(self, problem: Problem, kept: PlanFollowed, plan: BatchPlan, batch: Batch) -> PlanFollowed:
        """Update whether each arm had exactly the planned number of results in every batch."""
        _declaration(plan)
        return PlanFollowed(np.asarray(kept.as_planned & (batch.counts == plan.pulls).all(axis=-1)))

    def stops(self, problem: Problem, trial: Trial[Any, PlanFollowed]) -> Bools:
        """Whether an answer is declared, and every batch came back as planned."""
        return np.asarray(_declaration(trial.plan).made & trial.kept.as_planned)

    def broken(self, problem: Problem, trial: Trial[Any, PlanFollowed]) -> Bools:
        return np.asarray(~trial.kept.as_planned)

    def answer(self, problem: Problem, trial: Trial[Any, PlanFollowed]) -> Answer:
        """The declared answer."""
        return _declaration(trial.plan).answer

    def doubt(self, problem: Problem) -> Doubt | None:
        if problem.noise.shares_items:
            return Reason("shared_items")
        if self.caveat is not None:
            return Reason("rule", text=self.caveat)
        if self.proof is None:
            return Reason("unproved_rule")
        return None if self.condition is None else Condition("rule", text=self.condition)


def _declaration(plan: BatchPlan) -> Declaration:
    if plan.declared is None:
        raise RoundwiseError(
            "A policy that stops by the rule `Declared` has a `Declaration` in every plan, also the first."
        )
    return plan.declared
