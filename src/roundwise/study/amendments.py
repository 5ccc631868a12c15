"""What may change in a study under way, each by a rule that says what becomes of the guarantee."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roundwise.errors import InputError, said, unknown
from roundwise.ingest import read_results
from roundwise.model.problem import check_whole_number
from roundwise.report.wording import several
from roundwise.study import arm_changes
from roundwise.study.arm_changes import Change
from roundwise.study.fold import evidence
from roundwise.study.state import State
from roundwise.study.transactions import New, Written, reasoned

if TYPE_CHECKING:
    from roundwise.report import Report

Next = tuple[New, "Callable[[State], Report]"]


class Changing(Written):
    """The part of a study that is about changing it."""

    def drop(self, arm: str, why: str, unrelated: bool = False) -> Report:
        """Leave an arm out from here on; `unrelated` says that the reason has nothing to do with any result."""
        return self._arms("dropped", arm, why, unrelated)

    def add(self, arm: str, why: str = "", unrelated: bool = False) -> Report:
        """Take in one more arm; `unrelated` says that the reason has nothing to do with any result."""
        return self._arms("added", arm, why, unrelated)

    def extend(self, budget: int) -> Report:
        """Allow so many results in all."""

        def extended(state: State) -> Next:
            self._extension(state, budget)
            return [("extended", {"budget": int(budget)})], self._report

        return self._record(extended, "extend", {"budget": str(budget)})

    def import_past(self, source: object) -> Report:
        """Let earlier data teach where to look; they are no evidence, and must not be told again as results."""

        def taught(state: State) -> Next:
            self._teachable(state)
            settings = state.settings
            results = read_results(
                source,
                settings.arms,
                settings.noise,
                seed=settings.seed,
                columns=settings.columns,
            )
            slim = dataclasses.replace(results, lots=None, codes=None)  # ids, so that no row is told again
            if slim.digest in {each.digest for _, each in state.lessons}:
                raise InputError(f"{results.name} was imported already (same contents). Nothing was changed.")
            return [("past", {"results": slim.payload()})], self._report

        return self._record(taught, "import_past", {}, [source])

    def reopen(self, why: str) -> Report:
        """Go on with a study that was closed undecided."""
        reasoned(why)

        def reopened(state: State) -> Next:
            self._reopenable(state)
            return [("reopened", {"why": why})], self._report

        return self._record(reopened, "reopen", {"why": why})

    def note(self, text: str) -> Report:
        """Record a remark."""
        if not text.strip():
            raise InputError("The note is empty. Nothing was changed.")
        return self._record(lambda state: ([("noted", {"text": text})], self._report), "note", {"text": text})

    def remove(self) -> None:
        """Forget a study that has no results: its name is free again."""
        self._not_moved()
        state = self.state
        self._removable(state)
        self.store.remove(self.name, expected=state.seq)

    def effect(self, what: str, **words: Any) -> str:
        """What a change does to the guarantee, in one sentence, before it is done; an InputError if it cannot be done.

        `what` is the name of the method: drop, add, extend, import_past, reopen, remove, note, end, close_round, amend.
        """
        state = self.state
        if what in ("drop", "add"):
            return arm_changes.effect(state.settings, self._change(state, what, **words))
        if what == "extend":
            self._extension(state, words["budget"])
            return EFFECTS[what] if state.decided is None else _going_on(state)
        if what == "import_past":
            self._teachable(state)
        if what == "reopen":
            self._reopenable(state)
        if what == "remove":
            self._removable(state)
        if what == "end":
            return _ending(state)
        if what not in EFFECTS:
            raise unknown("change", what, ("drop", "add", "end", *EFFECTS))
        return EFFECTS[what]

    def _arms(self, kind: str, arm: str, why: str, unrelated: bool) -> Report:
        def step(state: State) -> Next:
            made = self._change(state, "drop" if kind == "dropped" else "add", arm=arm, why=why, unrelated=unrelated)
            arm_changes.check(state.settings, made)
            payload = made.payload()
            del payload["kind"]
            return [(kind, payload)], self._report

        return self._record(step, kind, {"arm": arm, "why": why, "unrelated": unrelated})

    def _change(self, state: State, what: str, arm: str, why: str = "", unrelated: bool = False) -> Change:
        self._not_closed(state)
        if what == "drop":
            reasoned(why)
        if state.decided is not None:
            raise InputError(f"The study '{self.name}' is decided: its arms are fixed. Nothing was changed.")
        if state.waiting is not None:
            raise InputError(
                f"Round {state.waiting.batch} is open and has results. Complete it, or close it "
                f"({said('`study.close_round(REASON)`', f'`roundwise tell {self.name} --round-over REASON`')}), before "
                "arms change. Nothing was changed."
            )
        open_ = state.outstanding is not None
        if state.settings.question.separate_claims:  # by one rule, whatever the reason
            unrelated = False
        return Change("dropped" if what == "drop" else "added", arm.strip(), why, unrelated, state.number - open_)

    def _extension(self, state: State, budget: int) -> None:
        self._not_closed(state)
        if state.decided is not None:
            self._goes_on(state)
        if state.waiting is not None:
            raise InputError(
                f"Round {state.waiting.batch} is open and has results, and what is still to come must be said before "
                "those are seen. Complete it, or close it, and then extend the budget. Nothing was changed."
            )
        check_whole_number("budget", budget, 1)
        old, came = state.settings.budget, int(state.trial.record.samples)
        if old is None:
            raise InputError(f"The study '{self.name}' has no budget to extend. Nothing was changed.")
        if budget < came:
            raise InputError(f"The budget would be {budget}, but {came} results are counted. Nothing was changed.")

    def _goes_on(self, state: State) -> None:
        """Raise an InputError unless a study that has ended may go on with a larger budget."""
        settings = state.settings
        why = settings.policy.stopping.why_final(settings.problem, state.trial.kept)
        if why is not None:
            raise InputError(f"The study '{self.name}' is decided for good: {why}. Nothing was changed.")
        if state.late.counts.any():
            raise InputError(
                f"Results were told after '{self.name}' ended, which no claim was bet on before: it cannot go on. "
                "Nothing was changed."
            )

    def _reopenable(self, state: State) -> None:
        if state.closed is None:
            raise InputError(f"The study '{self.name}' is not closed. Nothing was changed.")
        if state.decided is not None:
            raise InputError(
                f"The study '{self.name}' is decided: there is nothing to go on with. Nothing was changed."
            )

    def _removable(self, state: State) -> None:
        if state.files or state.later:
            raise InputError(
                f"The study '{self.name}' has results, and a record with results is never erased. Nothing was changed; "
                f"{said('`study.end(REASON)`', f'`roundwise close {self.name} --why ...`')} ends it."
            )

    def _teachable(self, state: State) -> None:
        self._not_closed(state)
        if state.files or state.later or state.so_far.batches:
            raise InputError(
                f"The study '{self.name}' has results: earlier data may teach only what comes before the first of "
                "them. Nothing was changed."
            )
        if not state.settings.policy.stopping.learns:
            raise InputError(
                f"Earlier data teach nothing to the policy {state.settings.policy.name}, whose rule counts all results "
                f"alike. Nothing was changed; use {said('`policy=Wager()`', '--policy wager')}."
            )


def _going_on(state: State) -> str:
    """What another budget does after the end of the first."""
    won, _, shown = evidence(state.settings, state.trial)
    left = math.exp(min(won[~shown].max(), 700.0))
    return (
        "This keeps the guarantee: what was shown stays shown, and what is open goes on with what it has, at most "
        f"{left:.2g} : 1. Had this budget been said at first, more might be shown."
    )


def _ending(state: State) -> str:
    waiting = state.waiting
    lost = ""
    if waiting is not None:
        told, are = several(waiting.results, "result"), "is" if waiting.results == 1 else "are"
        lost = f" The {told} told of round {waiting.batch} {are} not counted."
    if state.decided is not None:
        return f"The study is decided; closing it changes nothing about the verdict.{lost}"
    return f"This keeps the guarantee: nothing is claimed but what was shown so far.{lost}"


EFFECTS = {
    "extend": "This keeps the guarantee: how many results there may be has no part in it.",
    "import_past": (
        "This keeps the guarantee: earlier data decide what is bet on, never what was won. None of these rows may be "
        "told as results later."
    ),
    "reopen": "This keeps the guarantee: looking at results and going on is always allowed.",
    "remove": "There is no guarantee to keep: the study has no results. Its record is erased, and its name is free.",
    "note": "A note does nothing to the guarantee.",
    "close_round": "The guarantee then rests on the assumption that what is missing has nothing to do with its values.",
    "amend": (
        "All rounds are counted anew; the guarantee then rests on the assumption that the correction has nothing to "
        "do with what results showed."
    ),
}
