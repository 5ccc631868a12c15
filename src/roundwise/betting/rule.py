"""The stopping rule of Wager: predictable bets against every wrong answer (docs/why-the-guarantee-holds.md).

Before each batch it is fixed, from past data alone, what to bet on (`choice`); the batch then multiplies what was won
against each cell of the question's ledger. How the batch was sampled does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from roundwise.arrays import Bools
from roundwise.betting.above import AboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.bounds import Bets, Kept, Placed
from roundwise.betting.candidates import CandidateLedger
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.ledger import Ledger
from roundwise.errors import InputError
from roundwise.estimates import Past, known_from
from roundwise.problem import Problem
from roundwise.questions.base import Answer, cells_of
from roundwise.state import Batch, Plan, Record, Trial
from roundwise.stopping.explained import Bounds, Claim, Standing


@dataclass(frozen=True)
class Betting:
    """Stop when every wrong answer has lost 1/delta times the stake."""

    shifts: bool = True  # estimates from differences within batches, where the question compares arms

    def check(self, problem: Problem) -> None:
        """Every question and every noise model has its bets; claims have a rule of their own."""
        if cells_of(problem.question) not in LEDGERS:
            raise InputError(f"The question '{problem.question.name}' has a rule of its own: use the policy 'chances'.")

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Nothing seen, nothing won."""
        return self._kept(problem, ledger_of(problem).start(problem, runs), Past.none((*runs, problem.arms)))

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """Bet on the batch with what was fixed before; then fix the next bets."""
        return self._played(problem, kept, batch)[-1][1]

    def replayed(self, problem: Problem, batches: Sequence[Batch]) -> Bets:
        """All bets on these batches with what was fixed before each, and what is kept after them."""
        kept = self.start(problem, batches[0].counts.shape[:-1])
        placed = []
        for batch in batches:
            steps = self._played(problem, kept, batch)
            placed += [bet for bet, _ in steps]
            kept = steps[-1][1]
        return Bets(problem, placed, kept)

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
            won = ledger.settled(problem, *bet)
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

    def carried(self, problem: Problem, won: Any, past: Past) -> Kept:
        """What was won so far, by whatever rules, with the bets of these from here on (Proposition 21)."""
        return self._kept(problem, won, past)

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[Claim]:
        """Those of the ledger."""
        return ledger_of(problem).claims(problem, trial.kept.won, trial.kept.choice, names)

    def standing(self, problem: Problem, trial: Trial) -> Standing:
        """Whether bets compare arms, and whether they went wrong."""
        ledger = ledger_of(problem)
        emptied = ledger.emptied(problem, trial.kept.won)
        return Standing(self.shifts and ledger.shifts, emptied, ledger.agrees)

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch]) -> Bounds:
        """From the same bets, folded once."""
        ledger, bets = ledger_of(problem), self.replayed(problem, batches)
        return Bounds(partial(ledger.means, bets), partial(ledger.spare, bets), partial(ledger.behind, bets))


LEDGERS: dict[str, Callable[[Problem, float], Ledger]] = {  # by the cells of the question, and its level if it has one
    "one best": lambda problem, level: BestArmLedger(),
    "best within a tolerance": lambda problem, level: CandidateLedger(_compares(problem), best=True),
    "sides of a level": lambda problem, level: AboveLedger(level),
    "some above a level": lambda problem, level: ExtremeLedger(level, True),
    "some below a level": lambda problem, level: ExtremeLedger(level, False),
    "candidates": lambda problem, level: CandidateLedger(_compares(problem)),
}


@lru_cache(maxsize=256)
def ledger_of(problem: Problem) -> Ledger:
    """The ledger of the cells of the question."""
    return LEDGERS[cells_of(problem.question)](problem, getattr(problem.question, "level", math.nan))


def _compares(problem: Problem) -> bool:
    """Whether every form has coefficients that sum to 0, so that a common shift cancels."""
    pieces = problem.question.halfspaces(problem.question.answer(np.zeros(problem.arms)), problem.arms)
    factors = pieces.coefficients
    return bool((np.abs(factors.sum(axis=-1)) <= 1e-12 * np.abs(factors).sum(axis=-1)).all())  # in any units
