"""Whether the promise of a study stands, after everything that happened in it: this is its only home.

"kept"; "conditional on the assumption that ..." with everything that must be true and cannot be seen in the record; or
"void because ..." with every reason. What is assumed of the noise is said beside it, and is not a condition here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roundwise.arrays import total
from roundwise.betting.above import AboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.candidates import CandidateLedger, Won
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.rule import Betting, ledger_of
from roundwise.problem import Problem
from roundwise.studies.drift import SURPRISING, Disagreement, disagreement
from roundwise.studies.replay import Asked, State

KEPT = "kept"
CONDITIONAL = "conditional on the assumption that "
VOID = "void because "
NONE = "no guarantee: "  # how rules say it


@dataclass(frozen=True)
class Guarantee:
    """What must be true for the guarantee to hold, beside what is assumed of the noise, and what voids it."""

    conditions: tuple[str, ...] = ()  # each to be read after "that"
    reasons: tuple[str, ...] = ()  # each to be read after "because"

    def __str__(self) -> str:
        """As it stands in JSON.

        >>> str(Guarantee(("a holds", "b holds")))
        'conditional on the assumption that a holds; and that b holds'
        >>> str(Guarantee(("a holds",), ("c failed",)))
        'void because c failed'
        """
        if self.reasons:
            return VOID + "; and because ".join(self.reasons)
        return CONDITIONAL + self.provided if self.conditions else KEPT

    @property
    def provided(self) -> str:
        """All conditions, to be read after "that"."""
        return "; and that ".join(self.conditions)


def guarantee_of(state: State) -> Guarantee:
    """What became of the guarantee of a study."""
    doubt = state.settings.policy.stopping.doubt(state.settings.problem)
    reasons = [] if doubt is None or doubt.startswith(CONDITIONAL) else [doubt.removeprefix(NONE)]
    if state.decided is not None and state.broken:
        name = state.settings.policy.name
        reasons.append(f"{name} decided although a batch did not come back as it was planned, which its rule needs")
    if emptied(state):
        reasons.append(
            "all answers have been ruled out, which happens with at most the error probability if what is assumed "
            "holds, so it can hardly hold"
        )
    conditions = [] if doubt is None or not doubt.startswith(CONDITIONAL) else [doubt.removeprefix(CONDITIONAL)]
    for each in short(state):
        conditions.append(f"what is missing of batch {each.number} has nothing to do with its values")
    for entry in state.amendments:
        what = "withdrawal" if entry["results"] is None else "correction"
        conditions.append(
            f"the {what} of {entry['name']} in batch {entry['batch']} has nothing to do with what results showed"
        )
    if dealt_alike(state):
        conditions.append("the rows in the files of batch 1 came in an order that has nothing to do with their values")
    if disagreeing(state) is not None:
        conditions.append("the batches differ from each other by chance")
    return Guarantee(tuple(conditions), tuple(reasons))


def short(state: State) -> list[Asked]:
    """The batches that were settled although results were missing."""
    return [each for each in state.asked if each.settled is not None and (each.counts < each.pulls).any()]


def dealt_alike(state: State) -> bool:
    """Whether the first batch came in several files that an earlier version dealt into parts all alike."""
    told = state.asked[0].told if state.asked else []
    return len(told) > 1 and all(each.parts and each.dealt == "alike" for each in told)


def compares(state: State) -> bool:
    """Whether a shift of all arms together does not matter to the decision."""
    rule = state.settings.policy.stopping
    return isinstance(rule, Betting) and rule.shifts and ledger_of(state.settings.problem).shifts


def disagreeing(state: State) -> Disagreement | None:
    """How the batches differ by more than chance allows, in a way that matters to the decision; None if they agree."""
    found = disagreement(state.settings.problem, state.batches, compares(state))
    return None if found is None or found.chance >= SURPRISING else found


def emptied(state: State) -> bool:
    """Whether every answer has been ruled out: the right one, too."""
    problem, rule = state.settings.problem, state.settings.policy.stopping
    if not isinstance(rule, Betting):
        return False
    ledger, won = ledger_of(problem), state.trial.kept.won
    if isinstance(ledger, BestArmLedger):
        return bool(won.lost.all())
    if isinstance(ledger, ExtremeLedger):
        return bool(won.none_lost and won.arms_lost.all())
    if isinstance(ledger, AboveLedger):  # the set that lost least has lost
        return bool(total(np.minimum(won.above, won.below)) >= problem.goal)
    assert isinstance(ledger, CandidateLedger)
    return contradictory(problem, won)


def contradictory(problem: Problem, won: Won) -> bool:
    """Whether two candidates were shown to be right of which no means make both so. One run only.

    Only candidates of which all pieces were shown count: that this happens to a wrong one has at most the error
    probability, while single pieces of several candidates may well contradict each other.
    """
    from scipy.optimize import linprog

    shown = np.flatnonzero(won.lost.all(axis=-1))
    if len(shown) < 2:
        return False
    like = problem.question.answer(np.zeros(problem.arms))
    forms, offsets = [], []
    for c in shown:
        pieces = problem.question.halfspaces(won.answers[c].reshape(like.shape).astype(like.dtype), problem.arms)
        dense = np.zeros((len(pieces.arms), problem.arms))
        np.add.at(dense, (np.arange(len(dense))[:, None], pieces.arms), pieces.coefficients)
        forms.append(dense)
        offsets.append(np.broadcast_to(pieces.offsets, len(dense)))
    above = np.concatenate(forms)
    found = linprog(  # the largest amount, up to 1, by which all forms can exceed their offsets
        np.append(np.zeros(problem.arms), -1.0),
        A_ub=np.hstack([-above, np.ones((len(above), 1))]),
        b_ub=-np.concatenate(offsets),
        bounds=[*[(None, None)] * problem.arms, (None, 1.0)],
    )
    return bool(found.status == 0 and found.x[-1] <= 0)
