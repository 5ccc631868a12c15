"""The stopping rule of Wager: predictable bets against every wrong answer (WAGER.md, sections 1 to 3).

Before each batch it is fixed, from past data alone, what to bet on (`choice`); the batch then multiplies what was won
against each cell of the question's ledger. How the batch was sampled does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from roundwise.noise import Binary, Gaussian
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from roundwise.questions.base import Answer
from roundwise.record import Batch, Plan, Trial
from roundwise.runs import Bools
from roundwise.stopping.bettors import Bettor, BinaryBettor, GaussianBettor
from roundwise.stopping.ledgers.above import AboveLedger
from roundwise.stopping.ledgers.base import Ledger
from roundwise.stopping.ledgers.best_arm import BestArmLedger
from roundwise.stopping.ledgers.candidates import CandidateLedger
from roundwise.stopping.ledgers.minimum import ExtremeLedger
from roundwise.stopping.past import Estimates, Past, estimates


class Kept(NamedTuple):
    """The money, what was seen, and what the next batch will be bet on."""

    won: Any  # of the ledger
    past: Past
    known: Estimates  # from the past
    choice: Any  # of the ledger; fixed before the next batch


@dataclass(frozen=True)
class Betting:
    """Stop when every wrong answer has lost 1/delta times the stake."""

    shifts: bool = True  # estimates from differences within batches, where the question compares arms

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Nothing seen, nothing won."""
        ledger, past = ledger_of(problem), Past.none((*runs, problem.arms))
        won = ledger.start(problem, runs)
        known = estimates(past, self.shifts and ledger.shifts)
        return Kept(won, past, known, ledger.choice(problem, won, past, known))

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """Bet on the batch with what was fixed before; then fix the next bets.

        The first batch may come in parts: each is bet on with the choice of those before it, once that choice is more
        likely right than wrong.
        """
        ledger, bettor = ledger_of(problem), bettor_of(problem)
        before = kept.past
        for i, part in enumerate(batch.parts or (batch,)):
            live = np.ones(part.counts.shape[:-1], dtype=np.bool_)
            if batch.parts:
                sure = ledger.confidence(problem, kept.choice, kept.past, kept.known, bettor.variance(kept.past))
                live = np.asarray((i > 0) & (sure >= math.log(0.5)))
            won = ledger.settled(problem, bettor, kept.won, kept.choice, kept.past, kept.known, part, live)
            last = i + 1 >= len(batch.parts)
            past = before.plus(batch) if last else kept.past.plus(part, same_batch=i > 0)
            known = estimates(past, self.shifts and ledger.shifts)
            kept = Kept(won, past, known, ledger.choice(problem, won, past, known))
        return kept

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether only one answer is left."""
        return ledger_of(problem).stops(problem, trial.kept.won)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The answer that is left."""
        return ledger_of(problem).answer(problem, trial.kept.won, trial.kept.past)

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return


def ledger_of(problem: Problem) -> Ledger:
    """The ledger of the question."""
    question = problem.question
    if isinstance(question, BestArm):
        return BestArmLedger()
    if isinstance(question, Above):
        return AboveLedger(question.level)
    if isinstance(question, MinimumBelow | AnyAbove):
        return ExtremeLedger(question.level, isinstance(question, AnyAbove))
    return CandidateLedger(shifts=isinstance(question, TopK | Largest | Statements) and _compares(question))


def _compares(question: TopK | Largest | Statements) -> bool:
    """Whether every form has coefficients that sum to 0, so that a common shift cancels."""
    if isinstance(question, TopK):
        return True
    sums = question.forms.sum(axis=-1)
    return bool(np.allclose(sums if isinstance(question, Statements) else sums - sums[0], 0.0))


def bettor_of(problem: Problem) -> Bettor:
    """The bets that the noise model allows."""
    noise = problem.noise
    if isinstance(noise, Binary):
        return BinaryBettor()
    return GaussianBettor(noise.sigma, exact=isinstance(noise, Gaussian))
