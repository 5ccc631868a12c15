"""Whether the promise of a study stands, after everything that happened in it: this is its only home.

"kept"; "conditional on the assumption that ..." with everything that must be true and cannot be seen in the record; or
"void because ..." with every reason. What is assumed of the noise is said beside it, and is not a condition here.
"""

from __future__ import annotations

from dataclasses import dataclass

from roundwise.stopping.explained import Standing, explained
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
    for asked in state.asked:
        if asked.missing.any():
            conditions.append(
                f"the reason why outcomes of batch {asked.number} are missing has nothing to do with what they would "
                "have been"
            )
    if disagreeing(state) is not None:
        conditions.append("the batches differ from each other by chance")
    return Guarantee(tuple(conditions), tuple(reasons))


def short(state: State) -> list[Asked]:
    """The batches that were settled although results were missing."""
    return [each for each in state.asked if each.settled is not None and (each.counts < each.pulls).any()]


def compares(state: State) -> bool:
    """Whether a shift of all arms together does not matter to the decision."""
    return standing(state).compares


def disagreeing(state: State) -> Disagreement | None:
    """How the batches differ by more than chance allows, in a way that matters to the decision; None if they agree."""
    found = disagreement(state.settings.problem, state.batches, compares(state))
    return None if found is None or found.chance >= SURPRISING else found


def emptied(state: State) -> bool:
    """Whether every answer has been ruled out: the right one, too."""
    return standing(state).emptied


def standing(state: State) -> Standing:
    """What else the rule has to say of it."""
    return explained(state.settings.policy.stopping).standing(state.settings.problem, state.trial)
