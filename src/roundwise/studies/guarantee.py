"""Whether the promise of a study stands, after everything that happened in it: this is its only home.

"kept"; "conditional on the assumption that ..." with everything that must be true and cannot be seen in the record; or
"void because ..." with every reason. What is assumed of the noise is said beside it, and is not a condition here.
"""

from __future__ import annotations

from dataclasses import dataclass

from roundwise.noise import items_of
from roundwise.stopping.base import Standing, explained
from roundwise.studies.drift import SURPRISING, Disagreement, differs
from roundwise.studies.state import State

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
    if state.decided is not None and not state.trial.done:
        reasons.append("the answer that was recorded does not follow from what was counted")
    if emptied(state):
        reasons.append(
            "all answers have been ruled out, which happens with at most the error probability if what is assumed "
            "holds, so it can hardly hold"
        )
    conditions = [] if doubt is None or not doubt.startswith(CONDITIONAL) else [doubt.removeprefix(CONDITIONAL)]
    conditions += missing(state)
    for entry in state.amendments:
        what = "withdrawal" if entry["withdrawn"] else "correction"
        conditions.append(
            f"the {what} of {entry['name']} in round {entry['batch']} has nothing to do with what results showed"
        )
    if state.contradicted:
        ids = "1 id" if state.contradicted == 1 else f"{state.contradicted} ids"
        conditions.append(f"what was recorded of {ids} is right, although later files say otherwise")
    for change in state.changes:
        if change.unrelated:
            what = "left out" if change.kind == "dropped" else "added"
            conditions.append(f"{change.arm} was {what} for a reason that has nothing to do with any result")
    if state.so_far.refolded:
        conditions.append("the rules by which earlier rounds were counted anew were not chosen because of them")
    if state.shares_items and items_of(state.settings.noise) is None:
        conditions.append("results of different arms on the same item have nothing to do with each other")
    if disagreeing(state) is not None:
        conditions.append("the rounds differ from each other by chance")
    return Guarantee(tuple(conditions), tuple(reasons))


def missing(state: State) -> list[str]:
    """What must be true of results that never came."""
    short, more = [str(each["batch"]) for each in state.short], state.so_far.more_short
    found = []
    if short:
        which = short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}"
        which += f" and {more} more" if more else ""
        rounds = "round" if len(short) == 1 else "rounds"
        found.append(f"what is missing of {rounds} {which} has nothing to do with its values")
    lost = sum(state.lost.values())
    if lost:
        found.append(
            f"the reasons why {lost} outcomes are missing have nothing to do with what they would have been"
            if lost > 1
            else "the reason why 1 outcome is missing has nothing to do with what it would have been"
        )
    return found


def compares(state: State) -> bool:
    """Whether a shift of all arms together does not matter to the decision."""
    return standing(state).compares


def disagreeing(state: State) -> Disagreement | None:
    """How the batches differ by more than chance allows, in a way that matters to the decision; None if they agree."""
    found = disagreement_of(state, compares(state))
    return None if found is None or found.chance >= SURPRISING else found


def disagreement_of(state: State, shifts: bool) -> Disagreement | None:
    """How well the batches agree, up to a `shift` of all arms together; None if that cannot be said."""
    kept = state.so_far.agreement
    return None if kept is None else differs(state.settings.problem, kept, shifts)


def emptied(state: State) -> bool:
    """Whether every answer has been ruled out: the right one, too."""
    return standing(state).emptied


def standing(state: State) -> Standing:
    """What else the rule has to say of it."""
    return explained(state.settings.policy.stopping).standing(state.settings.problem, state.trial)
