"""The stopping rule of algorithms that bring their own: they declare the answer in their plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.problem import Problem
from roundwise.questions.base import Answer
from roundwise.record import Batch, Plan, Trial
from roundwise.runs import Bools


@dataclass(frozen=True)
class Declared:
    """Stop when the policy declares an arm: `plan.declared`, -1 until then."""

    caveat: str | None = None

    def start(self, problem: Problem, runs: tuple[int, ...]) -> None:
        """Nothing."""
        return

    def fold(self, problem: Problem, kept: Any, plan: Plan, batch: Batch) -> None:
        """Nothing."""
        return

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether an arm is declared."""
        return np.asarray(trial.plan.declared) >= 0

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The arm that is declared."""
        return np.asarray(trial.plan.declared).astype(np.intp)

    def doubt(self, problem: Problem) -> str | None:
        """What the algorithm's authors do not promise, if anything."""
        return self.caveat
