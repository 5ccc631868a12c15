"""The stopping rule of Wager: predictable bets against every wrong answer (docs/why-the-guarantee-holds.md).

Before each batch it is fixed, from past data alone, what to bet on (`choice`); the batch then multiplies what was won
against each cell of the question's ledger. How the batch was sampled does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.above import AboveLedger
from roundwise.betting.above_shared import SharedAboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.bounds import Bets, Kept, Placed, Won
from roundwise.betting.candidates import CandidateLedger
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.ledger import Ledger
from roundwise.betting.linear import LinearLedger
from roundwise.errors import InputError
from roundwise.estimates import Past, known_from
from roundwise.noise import items_of, known_sigma
from roundwise.noise.paired import check_forms
from roundwise.noise.parts import in_parts
from roundwise.problem import Problem
from roundwise.questions.base import Answer
from roundwise.questions.besides import cells_of, features_of, level_of, tolerance_of
from roundwise.questions.design import basis
from roundwise.state import Batch, Plan, Record, Trial
from roundwise.stopping.base import Bounds, Claim, Standing, StoppingRule


class Saved(NamedTuple, Generic[Won]):
    """What the record of a study keeps of the rule's state."""

    wealth: Won
    past: Past


@dataclass(frozen=True)
class Betting(StoppingRule[Kept]):
    """Stop when every wrong answer has lost 1/delta times the stake."""

    shifts: bool = True  # estimates from differences within batches, where the question compares arms
    any_time: ClassVar[bool] = True
    learns: ClassVar[bool] = True
    migrates: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        """Every question and every noise model has its bets; claims have a rule of their own."""
        if cells_of(problem.question) not in LEDGERS:
            raise InputError(f"The question '{problem.question.name}' has a rule of its own: use the policy 'chances'.")
        if items_of(problem.noise) is not None and cells_of(problem.question) == "candidates":
            answer = problem.question.answer(np.zeros(problem.arms))
            check_forms(problem.question.halfspaces(answer, problem.arms))
        ledger_of(problem)

    def start(self, problem: Problem, runs: tuple[int, ...]) -> Kept:
        """Nothing seen, nothing won."""
        return self._kept(problem, ledger_of(problem).start(problem, runs), Past.none((*runs, problem.arms)))

    def fold(self, problem: Problem, kept: Kept, plan: Plan, batch: Batch) -> Kept:
        """Bet on the batch with what was fixed before, or on its parts with what those before showed; then fix anew."""
        ledger = ledger_of(problem)
        if batch.parts is None or in_parts(problem.noise) is None:
            won = ledger.settled(problem, *kept, batch)
        else:
            parts = batch.parts._replace(jump=plan.jump)
            won = ledger.in_parts(problem, *kept, parts, self.shifts and ledger.shifts)
        return self._kept(problem, won, kept.known.past.plus(batch))

    def replayed(self, problem: Problem, batches: Sequence[Batch]) -> Bets:
        """What bounds are made of: all batches with what was fixed before each, and what is kept after them.

        The first comes in its parts if it has any, since it has no past; of its dealings the first.
        """
        kept = self.start(problem, batches[0].counts.shape[:-1])
        placed = []
        for batch in batches:
            first = not kept.known.past.history
            if batch.parts is None or not first:
                placed.append(Placed(*kept, batch, first))
            else:
                before = kept
                for p in range(batch.parts.number):
                    part = batch.parts.batch(p)
                    placed.append(Placed(*before, part, first))
                    before = self._kept(problem, kept.won, before.known.past.plus(part, same_batch=p > 0))
            kept = self.fold(problem, kept, Plan(batch.counts, np.asarray(True)), batch)
        return Bets(problem, placed, kept)

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        """Whether only one answer is left."""
        return ledger_of(problem).stops(problem, trial.kept.won)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        """Where a cell that holds these means has lost."""
        return ledger_of(problem).false_rejection(problem, trial.kept.won, means)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        """The answer that is left."""
        return ledger_of(problem).answer(problem, trial.kept.won, trial.kept.known)

    def _kept(self, problem: Problem, won: Any, past: Past) -> Kept:
        ledger = ledger_of(problem)
        known = known_from(past, problem.noise.variance(past), self.shifts and ledger.shifts)
        choice = ledger.choice(problem, won, known)
        return Kept(won, known._replace(fit=None), choice)  # the choice has what it needs of the fit

    def state_tag(self, problem: Problem) -> str:
        """The kind of e-process."""
        return f"{ledger_of(problem).tag}/1"

    def save(self, problem: Problem, kept: Kept) -> Saved:
        """Wealth and past: everything else follows from them."""
        return Saved(kept.won, kept.known.past)

    def restore(self, problem: Problem, saved: Saved) -> Kept:
        """The wealth so far, whichever rules earned it, with the bets of this rule from here on (Proposition 21)."""
        return self._kept(problem, saved.wealth, saved.past)

    def effect_of_change(self, problem: Problem, dropped: bool) -> str | None:
        """By the e-process, where a rule is proved (Propositions 22 and 23)."""
        ledger = ledger_of(problem)
        return ledger.dropping if dropped else ledger.adding

    def migrate(self, before: Problem, after: Problem, kept: Kept, dropped: int | None, past: Past) -> Kept:
        """The wealth that is valid for the other arms."""
        ledger = ledger_of(before)
        won = ledger.with_one_more(kept.won) if dropped is None else ledger.without(before, kept.won, dropped)
        return self._kept(after, won, past)

    def warm_start(self, problem: Problem, kept: Kept, batch: Batch, left: Floats | None) -> Kept:
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

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[Claim]:
        """Those of the ledger."""
        return ledger_of(problem).claims(problem, trial.kept.won, trial.kept.choice, names)

    def standing(self, problem: Problem, trial: Trial) -> Standing:
        """Whether bets compare arms, and whether they went wrong."""
        ledger = ledger_of(problem)
        emptied = ledger.emptied(problem, trial.kept.won)
        return Standing(self.shifts and ledger.shifts, emptied, ledger.agrees)

    def bounds(self, problem: Problem, record: Record, batches: Sequence[Batch], kept: Kept | None = None) -> Bounds:
        """From the same bets, folded once; they agree with the decision that was made, if it is `kept`."""
        ledger, bets = ledger_of(problem), self.replayed(problem, batches)
        bets = bets if kept is None else Bets(problem, bets.placed, kept)
        return Bounds(
            partial(ledger.means, bets), partial(ledger.spare, bets), partial(ledger.behind, bets), bets.against
        )


# by the cells of the question, with its level and tolerance if it has them
LEDGERS: dict[str, Callable[[Problem, float, float], Ledger]] = {
    "one best": lambda problem, level, near: BestArmLedger(),
    "best within a tolerance": lambda problem, level, near: CandidateLedger(_compares(problem), best=True),
    "sides of a level": lambda problem, level, near: _above(problem, level, near),
    "some above a level": lambda problem, level, near: ExtremeLedger(level, True, near),
    "some below a level": lambda problem, level, near: ExtremeLedger(level, False, near),
    "arms with features": lambda problem, level, near: LinearLedger(_orthonormal(problem)),
    "candidates": lambda problem, level, near: CandidateLedger(_compares(problem)),
}


def _above(problem: Problem, level: float, near: float) -> Ledger:
    """Products over arms, where they have items of their own."""
    return AboveLedger(level, near) if items_of(problem.noise) is None else SharedAboveLedger(level, near)


@lru_cache(maxsize=256)
def ledger_of(problem: Problem) -> Ledger:
    """The ledger of the cells of the question."""
    question = problem.question
    level = level_of(question)
    return LEDGERS[cells_of(question)](problem, math.nan if level is None else level, tolerance_of(question))


def _orthonormal(problem: Problem) -> Floats:
    """Features that span the same means; an InputError without a sigma, and where arms are tried on the same items."""
    if known_sigma(problem.noise) is None:
        raise InputError("Arms with features go with a deviation that is known: say which it is (--sigma).")
    if items_of(problem.noise) is not None:
        raise InputError("Arms with features cannot be tried on the same items: leave out the features, or the items.")
    features = features_of(problem.question)
    assert features is not None
    return basis(features)


def _compares(problem: Problem) -> bool:
    """Whether every form has coefficients that sum to 0, so that a common shift cancels."""
    pieces = problem.question.halfspaces(problem.question.answer(np.zeros(problem.arms)), problem.arms)
    factors = pieces.coefficients
    return bool((np.abs(factors.sum(axis=-1)) <= 1e-12 * np.abs(factors).sum(axis=-1)).all())  # in any units
