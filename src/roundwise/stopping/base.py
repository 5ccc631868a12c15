"""What a stopping rule owes.

A rule folds over the batches: it sees what was planned before a batch and what came back, and keeps what it
needs. The error guarantee rests on it alone: any sampling, also pulling more or less than asked, keeps it. The
exceptions are rules that are `Exacting`: they cannot decide once a batch came back otherwise than planned.

A rule may have, besides: `anytime`, that it may be asked after a batch of any size; `looks_ahead`, that it uses what is
left of a budget; `prolonged(problem, kept, left)` and `final(problem, kept)`, how it goes on after another budget was
said, and why it cannot after its end; `struck(problem, trial, means)`, where it has wrongly ruled out what is true;
`words(delta)`, what it does as sentences for a protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.estimates import Past
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


@runtime_checkable
class Carrying(Stopping[Kept], Protocol[Kept]):
    """A rule that goes on from what was won by other rules, with what is known otherwise."""

    def carried(self, problem: Problem, won: Any, past: Past) -> Kept:
        """What was won so far, with this past, and the bets of this rule from here on."""


def carrying(rule: Stopping) -> TypeGuard[Carrying]:
    """Whether the rule is one of these."""
    return isinstance(rule, Carrying)


def exacting(rule: Stopping) -> TypeGuard[Exacting]:
    """Whether the rule is one of these: asked after every batch, so by the one thing that it has besides."""
    return callable(getattr(rule, "broken", None))


def anytime(rule: Stopping) -> bool:
    """Whether the rule may be asked after a batch of any size, whoever chose that."""
    return bool(getattr(rule, "anytime", False))


def looks_ahead(rule: Stopping) -> bool:
    """Whether the rule uses what is left of a budget, so that a plan must say it."""
    return bool(getattr(rule, "looks_ahead", False))


def prolonged(rule: Stopping, problem: Problem, kept: Any, left: Floats) -> Any:
    """What the rule keeps after another budget was said; the same, if what is left is nothing to it."""
    own = getattr(rule, "prolonged", None)
    return kept if own is None else own(problem, kept, left)


def final(rule: Stopping, problem: Problem, kept: Any) -> str | None:
    """Why a rule that has ended goes on with no budget; None if it may."""
    own: Callable[[Problem, Any], str | None] | None = getattr(rule, "final", None)
    return "there is an answer" if own is None else own(problem, kept)


def struck(rule: Stopping, problem: Problem, trial: Trial, means: Floats) -> Bools:
    """Where the rule has ruled out what is true of these means, whether an answer was given or not. ()"""
    own = getattr(rule, "struck", None)
    return np.zeros(trial.done.shape, dtype=np.bool_) if own is None else np.asarray(own(problem, trial, means))


def rule_words(rule: Stopping, delta: float) -> str | None:
    """What the rule does, in sentences for a protocol, if it says so."""
    own: Callable[[float], str] | None = getattr(rule, "words", None)
    return None if own is None else own(delta)
