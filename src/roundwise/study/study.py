"""A named, durable experiment: ask, tell, report, and everything that may change in it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from os import fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown
from roundwise.formats.readers import columns_of
from roundwise.formats.sheet import digest_of, is_frame, is_path, opened
from roundwise.ingest import Amounts, Earlier, Options, Results, Words, read_results
from roundwise.ingest.duplicates import numbered_digest
from roundwise.messages import FileNote, Remedy
from roundwise.model.batch import PARTS
from roundwise.model.problem import check_whole_number
from roundwise.noise import items_of
from roundwise.noise.parts import most_parts
from roundwise.questions.base import Wording
from roundwise.report.wording import several
from roundwise.store import ConflictError, Entry, StudyStateError
from roundwise.store.log import Head, extended, user, written
from roundwise.study.amendments import Change, check_change, effect_of_change
from roundwise.study.events import Asked
from roundwise.study.fold import evidence
from roundwise.study.guarantee import guarantee_of
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, apply, replayed

if TYPE_CHECKING:
    from roundwise.report import Report
    from roundwise.report.export import Frame
    from roundwise.store import Records


Made = TypeVar("Made")
New = Sequence[tuple[str, Plain]]
Step = Callable[[State], tuple[New, Callable[[State], Made]]]

FRAME = "data frame"  # the name of one in the record
TRIES = 20  # times that a step is made anew because another writer was first


class Written:
    """A study and the store that it is kept in."""

    def __init__(self, name: str, store: Records) -> None:
        self.name = name
        self.store = store
        self.key: str | None = None  # of a request: what it recorded is not recorded again
        self.expected: str | None = None  # the digest of the entry after which alone something may be recorded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the storage; the study goes on when it is loaded again."""
        self.store.close()

    @property
    def state(self) -> State:
        """Where the study stands, read from its last checkpoint on."""
        return replayed(self.store.recent(self.name), self.entries)

    def entries(self) -> list[Entry]:
        """The whole record, each entry checked against the one before it."""
        return self.store.read(self.name)

    def _write(self, step: Step[Made]) -> Made:
        """Append what the step makes of the state, what counts by it and the verdict if it follows.

        All of it is one transaction, so what follows from it is worked out before it is recorded.
        """
        for _ in range(TRIES):
            state = self.state
            last = state.seq
            new, result = self._worked_out(state, step)
            if not new:
                return result(state)
            try:
                self.store.append(self.name, new, expected=last, overview=overview(state))
            except ConflictError:
                continue
            return result(state)
        raise ConflictError(f"The study '{self.name}' is being written to all the time. Try again.")

    def _record(
        self, step: Step[Report], verb: str, words: Plain, sources: Sequence[object] = (), key: str | None = None
    ) -> Report:
        """The same for what a user does: once for each `key`, and only if the record ends as `expected`.

        With a key goes the digest of what was asked for, the `verb`, its `words` and the contents of its `sources`, so
        that the key of another request is refused.
        """
        key = key or self.key
        request = "" if key is None else request_digest(verb, words, sources)

        def once(state: State) -> tuple[New, Callable[[State], Report]]:
            if key is not None and (before := self.store.find(self.name, f"request {key}")):
                self._same_request(before[0], request)
                return [], self._report
            self._not_moved()
            new, result = step(state)
            first = {} if key is None else {"key": key, "request": request}
            return [(kind, payload if i else payload | first) for i, (kind, payload) in enumerate(new)], result

        return self._write(once)

    def _same_request(self, entry: Entry, request: str) -> None:
        """Raise an InputError where an entry was recorded for another request with the same key."""
        if entry.payload.get("request", request) != request:  # entries of earlier versions do not say it
            raise InputError(
                f"The key of this request was used for another request, which recorded entry {entry.seq} "
                f"('{entry.kind}') of '{self.name}'. Nothing was changed; draw a new key for each request."
            )

    def _not_moved(self) -> None:
        """Raise a `ConflictError` where the record no longer ends as expected; later writes notice it, too."""
        if self.expected is None:
            return
        last = self.store.recent(self.name)[-1]
        if last.digest != self.expected:
            raise ConflictError(
                f"Study '{self.name}' has moved on: {last.by} recorded entry {last.seq} ('{last.kind}') on "
                f"{last.at:%Y-%m-%d at %H:%M} UTC, after what you have seen. Nothing was changed; look again and "
                "repeat."
            )

    def _worked_out(self, state: State, step: Step[Made]) -> tuple[New, Callable[[State], Made]]:
        """What the step and what follows from it would record; the state is brought up to date with it."""
        before = self._followed(state)  # of a log that ends before what follows from it
        new, result = step(state)
        if not new:
            return before, result
        self._foresee(state, new)
        return [*before, *new, *self._followed(state)], result

    def _followed(self, state: State) -> list[tuple[str, Plain]]:
        """What follows from the state: the count of what is complete, and the verdict."""
        found: list[tuple[str, Plain]] = []
        if state.ready:
            found.append(("counted", state.count()))
            kept = state.settings, state.trial, state.so_far
            self._foresee(state, found)
            state.becomes(*kept)  # the same as what was recorded, and at hand
        if state.decided is None and not state.later and (verdict := state.verdict()) is not None:
            found.append(("decided", verdict))
            self._foresee(state, found[-1:])
        return found

    def _foresee(self, state: State, new: New) -> None:
        """Apply entries that are about to be recorded, as they will be read."""
        texts = [(kind, written(payload)) for kind, payload in new]
        for entry in extended(self.name, Head(state.seq + 1), texts, datetime.now(UTC)):
            apply(state, entry)

    def _report(self, state: State) -> Report:
        from roundwise.report import report_of

        return report_of(state, intervals=False)

    def _not_closed(self, state: State) -> None:
        if state.closed is not None:
            raise InputError(f"The study '{self.name}' is closed ({state.closed}). Nothing was changed.")


def overview(state: State) -> Plain:
    """A line about a study, for lists of them."""
    verdict, waiting = state.decided, state.awaited
    stands = "decided" if verdict is not None else "closed" if state.closed is not None else "over"
    if stands == "over" and state.over is None:
        stands = "waiting" if waiting is not None else "open"
    told = [file.name for asked in state.recent for file in asked.files]
    return {
        "question": state.settings.question.name,
        "asks": asked_in_words(state.settings),
        "arms": len(state.settings.arms),
        "state": stands,
        "round": state.number + (stands == "open"),
        "file": told[-1] if told else None,  # None: the one before stays
        "answer": None if verdict is None else verdict["words"],
        "results": int(state.record.samples),
        "waiting": 0 if waiting is None else int(waiting.counts.sum()),
        "budget": state.settings.budget,
        "since": None if waiting is None else waiting.since,
        "by": user(),
        "guarantee": guarantee_of(state).plain(),
    }


def asked_in_words(settings: StudySpec) -> str:
    """The question of a study in plain words, in the units of its results."""
    from roundwise.report.wording import units_of

    units = units_of(settings.noise)
    return settings.question.question_text(settings.arms, Wording(units.mean, units.given, units.given_gap))


def request_digest(verb: str, words: Plain, sources: Sequence[object]) -> str:
    """SHA-256 of what is asked for: a verb, its words and the contents of its files, whatever these are called."""
    contents = []
    for each in sources:
        if is_path(each):
            with opened(fspath(each)) as file:
                contents.append(digest_of(file))
        elif is_frame(each):
            contents.append(hashlib.sha256(json.dumps(columns_of(FRAME, each)).encode()).hexdigest())
    return hashlib.sha256(json.dumps([verb, words, contents], sort_keys=True).encode()).hexdigest()


def reasoned(why: str) -> None:
    """Raise an InputError where a reason is empty."""
    if not why.strip():
        raise InputError("The reason is empty. Say why in a few words: it is recorded. Nothing was changed.")


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
            return effect_of_change(state.settings, self._change(state, what, **words))
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
            check_change(state.settings, made)
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
                f"Round {state.waiting.batch} is open and has results. Nothing was changed.",
                Remedy("Complete it, or close it ({@close_round}), before arms change.", study=self.name),
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
                f"The study '{self.name}' has results, and a record with results is never erased. Nothing was changed.",
                Remedy("To end it, use {@end}.", study=self.name),
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
                "alike. Nothing was changed.",
                Remedy("Use {@wager}."),
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


class Study(Changing):
    """A named, durable experiment: `ask` what to do next, `tell` what came back, until it is decided."""

    def ask(self) -> Asked | None:
        """The batch to do next: the same one until it is complete or closed; None once the study is over."""
        return self.asking()[0]

    def asking(self) -> tuple[Asked | None, State]:
        """The batch to do next, and where the study stands."""

        def asked(state: State) -> tuple[New, Callable[[State], tuple[Asked | None, State]]]:
            if state.closed is not None or state.decided is not None or state.trial.done or state.over is not None:
                return [], lambda after: (None, after)
            if state.outstanding is not None:
                return [], lambda after: (after.outstanding, after)
            self._not_moved()
            planned, whole = state.planned, state.whole_plan
            pulls = [int(each) for each in planned]
            payload: Plain = {"batch": state.number + 1, "pulls": pulls, "rules": RULES}
            if not np.array_equal(planned, whole):
                payload["planned"] = [int(each) for each in whole]
            if state.settings.by_number:
                payload["by_number"] = True
            return [("asked", payload)], lambda after: (after.outstanding, after)

        return self._write(asked)

    def tell(
        self, *sources: object, round_over: str | None = None, key: str | None = None, **words: Unpack[Words]
    ) -> Report:
        """Record results of the open batch: files or data frames; `round_over` says why the rest will not come.

        What is told is new. Of a `cumulative` total the difference counts. The same contents, and a file that begins
        with the rows of one that is recorded, are refused unless it is said that these are new results that came out
        the same `again`; ids that are recorded are skipped. `columns`, `ignore_arms`, `missing` and `average_ids` say
        more of the files. A request with the `key` of one that was recorded records nothing. After the decision
        results are recorded, too: the verdict stands, and estimates improve.
        """
        options = Options(**words)
        if not sources and round_over is None:
            close = Remedy("If the rest of the round will not come, use {@close_round}.", study=self.name)
            raise InputError("Give the results: a file or a data frame.", close)
        if round_over is not None:
            reasoned(round_over)
        asked = options.plain() | {"round_over": round_over}
        return self._record(
            lambda state: self._telling(state, sources, round_over, options)[1:], "tell", asked, sources, key
        )

    def preview(
        self, *sources: object, round_over: str | None = None, **words: Unpack[Words]
    ) -> tuple[list[Results], Report]:
        """What these sources would bring, and the report after them; nothing is recorded."""
        options = Options(**words)
        state, read = self.state, list[Results]()

        def step(state: State) -> tuple[New, Callable[[State], Report]]:
            found, new, result = self._telling(state, sources, round_over, options)
            read.extend(found)
            return new, result

        _, result = self._worked_out(state, step)
        return read, result(state)

    def close_round(self, why: str) -> Report:
        """Close the open batch although results are missing: they will not come."""
        return self.tell(round_over=why)

    def _telling(
        self, state: State, sources: Sequence[object], round_over: str | None, options: Options
    ) -> tuple[list[Results], New, Callable[[State], Report]]:
        """What was read, and what is to be recorded of it."""
        read: list[Results] = []
        for i, source in enumerate(sources, 1):  # a file told before says so
            found = self._read(state, source, state.number <= 1, state.files + i, options, read)
            read.append(replace(found, together=i > 1))
        for i, results in enumerate(read):
            if results.digest in {each.digest for each in read[:i]}:
                raise InputError(
                    f"{results.name} is given twice (same contents). Nothing was changed. If these are new results "
                    "that came out the same, tell one file at a time."
                )
        self._not_closed(state)
        if state.decided is not None:
            if round_over is not None:
                raise InputError(f"The study '{self.name}' is decided, and no round is open. Nothing was changed.")
            return read, [("later", {"results": each.payload()}) for each in read], self._report
        number = self._open(state).number
        new: list[tuple[str, Plain]] = [("told", {"batch": number, "results": results.payload()}) for results in read]
        if round_over is not None:
            new.append(("round_over", {"batch": number, "why": round_over}))
        return read, new, self._report

    def amend(self, replaces: str, source: object | None, why: str, **words: Unpack[Words]) -> Report:
        """Correct what a recorded file brought (or withdraw it: `source` None), with a reason; nothing is erased.

        All batches are then counted anew, by the present rules.
        """
        options = Options(**words)
        reasoned(why)

        def amended(state: State) -> tuple[New, Callable[[State], Report]]:
            self._not_closed(state)
            if state.later:
                raise InputError(
                    f"Results were told after '{self.name}' was decided: what decided it can no longer be corrected. "
                    "Nothing was changed."
                )
            batch, old = self._recorded(state, replaces)
            arms = next(each.arms for each in state.asked if each.number == batch)
            file = state.files + 1
            results = None
            if source is not None:
                results = self._read(state, source, batch == 1, file, options, replaces=old, arms=arms)
            payload = {
                "replaces": old.digest,
                "name": old.name,
                "batch": batch,
                "results": None if results is None else results.payload(),
                "why": why,
            }
            return [("amended", payload)], self._report

        return self._record(
            amended,
            "amend",
            options.plain() | {"file": replaces, "why": why},
            [] if source is None else [source],
        )

    def end(self, why: str) -> Report:
        """End the study before it is decided; what has not been ruled out is reported."""
        reasoned(why)

        def closed(state: State) -> tuple[New, Callable[[State], Report]]:
            if state.closed is not None:
                raise InputError(f"The study '{self.name}' is closed already ({state.closed}). Nothing was changed.")
            return [("closed", {"why": why})], self._report

        return self._record(closed, "end", {"why": why})

    def status(self) -> Report:
        """Where the study stands, without intervals: quick, however long it is."""
        return self._report(self.state)

    def report(self) -> Report:
        """Everything there is to say, with intervals."""
        from roundwise.report import report_of

        entries = self.entries()
        return report_of(replayed(entries) if entries else self.state, intervals=True, entries=entries)

    def __repr__(self) -> str:
        try:
            return f"<Study '{self.name}': {self._report(self.state).headline}>"
        except Exception:  # closed, unreachable or unreadable: a repr must not fail
            return f"<Study '{self.name}'>"

    def _repr_html_(self) -> str:
        """For a notebook: the report."""
        return self.report()._repr_html_()

    def batches(self) -> Frame:
        """All batches as a data frame: batch, arm, asked, count, total, mean (needs pandas)."""
        from roundwise.report.export import frame_of

        rows: list[tuple[object, ...]] = []
        for asked in self.state.asked:
            batch = asked.whole
            for arm, pulls, count, total in zip(asked.arms, asked.pulls, batch.counts, batch.totals, strict=True):
                mean = total / count if count else np.nan
                rows.append((asked.number, arm, int(pulls), int(count), float(total), mean))
        return frame_of(("batch", "arm", "asked", "count", "total", "mean"), rows)

    def _open(self, state: State) -> Asked:
        if state.over is not None:
            raise InputError(f"The study '{self.name}' is over, undecided: {state.over}. Nothing was changed.")
        if state.outstanding is None:
            last = f" Round {state.number} is complete." if state.number else ""
            first = Remedy("First use {@ask}.", study=self.name)
            raise StudyStateError(f"No round is open.{last} Nothing was changed.", first)
        return state.outstanding

    def _read(
        self,
        state: State,
        source: object,
        first: bool,
        file: int,
        options: Options,
        before: Sequence[Results] = (),
        replaces: Results | None = None,
        arms: tuple[str, ...] | None = None,
    ) -> Results:
        """What a file brought, beyond what is recorded, and what was read `before` it in the same call."""
        settings = state.settings
        parts = settings.limited_policy.first(settings.problem, ()).parts
        parts = most_parts(settings.noise, PARTS) if parts > 1 and not first else parts
        results = read_results(
            source,
            arms or settings.arms,
            settings.noise,
            parts=parts,
            whole=settings.towards_a_budget,
            seed=settings.seed,
            file=file,
            columns=settings.columns,
            options=options,
            earlier=earlier_of(state, arms or settings.arms, options, before, replaces),
        )
        recorded = self._held(state, results.digest)
        if recorded is None:
            return results
        if results.ids is not None and results.rows:  # ids say what is new, as when a file before it was withdrawn
            return _renamed(results, file)
        if not options.again:
            where = f"in round {recorded}" if recorded else "after the decision"
            raise StudyStateError(
                f"{results.name} was already recorded {where} (same contents). Nothing was changed.",
                Remedy("If these are new results that came out the same, use {@again}.")
                if results.ids is None
                else Remedy("No id counts twice."),
            )
        note = FileNote("same_contents", file=results.name, round=recorded)
        return dataclasses.replace(_renamed(results, file), notes=(*results.notes, note))

    def _held(self, state: State, digest: str) -> int | None:
        """The round of a file of these contents that is recorded and not replaced; 0 after the decision."""
        batch = state.holds(digest)
        if batch is None and state.whole is not None:
            told = self.store.find(self.name, f"file {digest}")
            gone = sum(each["replaces"] == digest for each in state.amendments)
            if len(told) > gone:
                batch = told[-1].payload.get("batch", 0)
        if batch is None and any(each.digest == digest for _, each in state.later):
            batch = 0
        return batch

    def _recorded(self, state: State, name: str) -> tuple[int, Results]:
        """The batch and the results of a file that was told, by its name or the start of its digest."""
        every = [(asked.number, each) for asked in state.asked for each in asked.files]
        found = [
            (number, each)
            for number, each in every
            if each.name == name or Path(each.name).name == name or (len(name) >= 6 and each.digest.startswith(name))
        ]
        if len(found) != 1:
            told = ", ".join(f"{each.name} ({each.digest[:8]})" for _, each in every)
            kind = "No file" if not found else "More than one file"
            raise InputError(
                f"{kind} '{name}' was told. Told so far: {told or 'none'}. Name one, or its digest. "
                "Nothing was changed."
            )
        return found[0]


def _renamed(results: Results, file: int) -> Results:
    """With a digest of its own, where another file has the same contents."""
    return replace(results, digest=numbered_digest(results.digest, file))


def earlier_of(
    state: State, arms: Sequence[str], options: Options, before: Sequence[Results], replaces: Results | None
) -> Earlier:
    """The files that are recorded, and those read `before` in the same call, without the one that is replaced.

    Ids and running totals need every file. Otherwise marks of the last ones tell whether a file begins with them, and
    the sums of all whether it could be a running total.
    """
    paired = items_of(state.settings.noise) is not None
    columns = (options.columns or state.settings.columns).over(state.settings.columns)
    every = options.cumulative or columns.id is not None or columns.item is not None or replaces is not None or paired
    files: list[tuple[Sequence[str], Results]]
    files = [(asked.arms, each) for asked in (state.asked if every else state.recent) for each in asked.files]
    files += state.later
    files = [(names, each) for names, each in files if each is not replaces]
    files += [(arms, each) for each in before]
    waiting = None if state.outstanding is None or replaces is not None else state.outstanding.outstanding
    if state.decided is not None and replaces is None:
        waiting = np.zeros(len(arms))  # nothing was asked for
    found = Earlier.of(files, arms, waiting)
    if paired and replaces is None:
        now = state.number + 1 if state.outstanding is None else state.outstanding.number
        lots = [each.lots for asked in state.asked if asked.number < now for each in asked.files]
        used = [each.items for each in lots if each is not None and each.items is not None]
        found = replace(found, items=np.unique(np.concatenate(used)) if used else None)
    past = Earlier.of(state.lessons, arms).told
    if every:
        return replace(found, past=past)
    total = Amounts(state.record.counts, state.record.totals)
    uncounted = [] if state.ended else [each for asked in state.uncounted for each in asked.files]
    for each in [*uncounted, *before]:
        total = total.plus(Amounts(each.counts, each.totals))
    return Earlier(found.told, waiting, total, state.so_far.starts, past=past)
