"""How a study is read and written: from its last checkpoint, in one transaction, anew if another writer was first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import fspath
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.formats.detect import columns_of
from roundwise.formats.sheet import digest_of, is_frame, is_path, opened
from roundwise.questions.base import Wording
from roundwise.questions.besides import asks
from roundwise.store import ConflictError, Entry
from roundwise.store.log import Head, extended, user, written
from roundwise.study.guarantee import guarantee_of
from roundwise.study.replay import apply, replayed
from roundwise.study.spec import StudySpec
from roundwise.study.state import State

if TYPE_CHECKING:
    from roundwise.report import Report
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
        "guarantee": str(guarantee_of(state)),
    }


def asked_in_words(settings: StudySpec) -> str:
    """The question of a study in plain words, in the units of its results."""
    from roundwise.report.wording import units_of

    units = units_of(settings.noise)
    return asks(settings.question, settings.arms, Wording(units.mean, units.given, units.given_gap))


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
