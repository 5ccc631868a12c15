"""What a stopping rule owes.

A rule folds over the batches: it sees what was planned before a batch and what came back, and keeps what it
needs. The error guarantee rests on it alone: any sampling, also pulling more or less than asked, keeps it. The
exceptions are rules that are `Exacting`: they cannot decide once a batch came back otherwise than planned.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from roundwise.arrays import Bools
from roundwise.problem import Problem
from roundwise.questions.base import Answer
from roundwise.state import Batch, Kept, Plan, Trial


class Stopping(Protocol[Kept]):
    """When an answer may be given, and which."""

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the rule does not fit the problem."""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """What the rule keeps, before the first batch: None or a named tuple of arrays."""

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """What the rule keeps after a batch that was planned so."""

    def stops(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether to stop now, before the plan of the trial is pulled."""

    def answer(self, problem: Problem, trial: Trial[Any, Kept]) -> Answer:
        """The answer to give when it stops."""

    def doubt(self, problem: Problem) -> str | None:
        """What stands between the rule and a guarantee, or None.

        Either "no guarantee: " and why, or "conditional on the assumption that " and what must be true.
        """


@runtime_checkable
class Exacting(Stopping[Kept], Protocol[Kept]):
    """A rule that decides only as long as every batch came back just as it was planned."""

    def broken(self, problem: Problem, trial: Trial[Any, Kept]) -> Bools:
        """Whether one did not, so that the rule never stops."""


def exacting(rule: Stopping) -> TypeGuard[Exacting]:
    """Whether the rule is one of these."""
    return isinstance(rule, Exacting)
