"""The stopping rule of Wager: predictable bets against every wrong answer (docs/why-the-guarantee-holds.md).

Before each batch it is fixed, from past data alone, what to bet on (`choice`); the batch then multiplies what was won
against each cell of the question's ledger. How the batch was sampled does not matter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools
from roundwise.betting.above import AboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.candidates import CandidateLedger
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.ledger import Ledger
from roundwise.estimates import Known, Past, known_from
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, BestArm, MinimumBelow
from roundwise.questions.base import Answer
from roundwise.state import Batch, Plan, Trial


class Kept(NamedTuple):
    """The money, what was seen, and what the next batch will be bet on."""

    won: Any  # of the ledger
    known: Known
    choice: Any  # of the ledger; fixed before the next batch


class Placed(NamedTuple):
    """A bet: what was won, known and chosen before, the results it is on, and in which runs it counts."""

    won: Any  # of the ledger
    known: Known
    choice: Any
    part: Batch
    live: Bools


@dataclass(frozen=True)
class Betting:
    """Stop when every wrong answer has lost 1/delta times the stake."""

    shifts: bool = True  # estimates from differences within batches, where the question compares arms

    def check(self, problem: Problem) -> None:
        """Every question and every noise model has its bets."""

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Nothing seen, nothing won."""
        return self._kept(problem, ledger_of(problem).start(problem, runs), Past.none((*runs, problem.arms)))

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """Bet on the batch with what was fixed before; then fix the next bets."""
        return self._played(problem, kept, batch)[-1][1]

    def replayed(self, problem: Problem, batches: Sequence[Batch]) -> tuple[list[Placed], Kept]:
        """All bets on these batches with what was fixed before each, and what is kept after them."""
        kept = self.start(problem, batches[0].counts.shape[:-1])
        placed = []
        for batch in batches:
            steps = self._played(problem, kept, batch)
            placed += [bet for bet, _ in steps]
            kept = steps[-1][1]
        return placed, kept

    def _played(self, problem: Problem, kept: Kept, batch: Batch) -> list[tuple[Placed, Kept]]:
        """The bets on a batch and what is kept after each.

        The first batch may come in parts: each is bet on with the choice of those before it, once that choice is more
        likely right than wrong. A later batch is bet on as a whole.
        """
        ledger = ledger_of(problem)
        before, steps = kept.known.past, []
        parts = () if before.history else batch.parts
        for i, part in enumerate(parts or (batch,)):
            live = np.ones(part.counts.shape[:-1], dtype=np.bool_)
            if parts and i == 0:
                live = ~live
            elif parts:
                live = np.asarray(ledger.confidence(problem, kept.choice, kept.known) >= math.log(0.5))
            bet = Placed(*kept, part, live)
            won = ledger.settled(problem, problem.noise, *bet)
            last = i + 1 >= len(parts)
            past = before.plus(batch) if last else kept.known.past.plus(part, same_batch=i > 0)
            kept = self._kept(problem, won, past)
            steps.append((bet, kept))
        return steps

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether only one answer is left."""
        return ledger_of(problem).stops(problem, trial.kept.won)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The answer that is left."""
        return ledger_of(problem).answer(problem, trial.kept.won, trial.kept.known)

    def _kept(self, problem: Problem, won: Any, past: Past) -> Kept:
        ledger = ledger_of(problem)
        known = known_from(past, problem.noise.variance(past), self.shifts and ledger.shifts)
        choice = ledger.choice(problem, won, known)
        return Kept(won, known._replace(fit=None), choice)  # the choice has what it needs of the fit

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return


@functools.lru_cache(maxsize=256)
def ledger_of(problem: Problem) -> Ledger:
    """The ledger of the question."""
    question = problem.question
    if isinstance(question, BestArm) and not question.tolerance:
        return BestArmLedger()
    if isinstance(question, Above):
        return AboveLedger(question.level)
    if isinstance(question, MinimumBelow | AnyAbove):
        return ExtremeLedger(question.level, isinstance(question, AnyAbove))
    return CandidateLedger(shifts=_compares(problem))


def _compares(problem: Problem) -> bool:
    """Whether every form has coefficients that sum to 0, so that a common shift cancels."""
    pieces = problem.question.halfspaces(problem.question.answer(np.zeros(problem.arms)), problem.arms)
    return bool(np.allclose(pieces.coefficients.sum(axis=-1), 0.0))
