"""A named, durable experiment: ask, tell, report. All rules of what may be told are here."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np

from roundwise.errors import InputError, whole_number
from roundwise.noise import Noise
from roundwise.policies import Policy, Wager
from roundwise.questions import Question
from roundwise.studies.replay import Asked, State, replayed
from roundwise.studies.results import Columns, Earlier, Options, Results, Words, read_results
from roundwise.studies.settings import Settings, arm_names, within_limits
from roundwise.studies.store import Conflict, StudyExists, open_store
from roundwise.studies.store.log import Head, extended, written

if TYPE_CHECKING:
    from roundwise.studies.report import Report
    from roundwise.studies.store.database import Store

Made = TypeVar("Made")
New = Sequence[tuple[str, dict[str, Any]]]

SEED_BITS = 53  # what every reader of JSON keeps


def create_study(
    name: str,
    *,
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    delta: float = 0.05,
    policy: Policy | None = None,
    max_batch: float | None = None,
    min_per_arm: float = 0.0,
    budget: int | None = None,
    storage: str | None = None,
    load_if_exists: bool = False,
    seed: int | None = None,
    columns: Columns | None = None,
) -> Study:
    """A new study in the storage (ROUNDWISE_STORAGE, or sqlite:///roundwise.db); `load_if_exists` resumes an old one.

    `policy` is Wager unless said otherwise. After `budget` results nothing more is asked for: the study is then
    undecided, and its report says what has not been ruled out. An old study must have been created with the same
    settings. `seed` deals the rows of the first batch into parts: it is drawn, unless it is given to have the same
    study again, and must then be chosen before the results are known. `columns` are what the columns of its files are
    called, where they have names of their own.
    """
    names = arm_names(arms)
    chosen = within_limits(Wager() if policy is None else policy, max_batch, min_per_arm)
    drawn = secrets.randbits(SEED_BITS) if seed is None else whole_number("seed", seed, 0)
    settings = Settings(question, names, noise, delta, chosen, drawn, budget, columns or Columns())
    settings.check_kept()
    store = open_store(storage)
    try:
        store.create(name, settings.payload())
    except StudyExists:
        if not load_if_exists:
            store.close()
            raise
        old = Settings.from_payload(store.read(name)[0].payload)
        if old.payload() != settings.payload() | ({"seed": old.seed} if seed is None else {}):
            store.close()
            raise InputError(
                f"There is a study '{name}' with other settings. Nothing was changed; choose another name, or load it."
            ) from None
    return Study(name, store)


def load_study(name: str, storage: str | None = None) -> Study:
    """A study that exists."""
    store = open_store(storage, create=False)
    try:
        store.read(name)
    except BaseException:
        store.close()
        raise
    return Study(name, store)


class Study:
    """A named, durable experiment: `ask` what to do next, `tell` what came back, until it is decided."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the storage; the study goes on when it is loaded again."""
        self.store.close()

    @property
    def state(self) -> State:
        """Where the study stands, replayed from its log."""
        return replayed(self.store.read(self.name))

    def ask(self) -> Asked | None:
        """The batch to do next: the same one until it is complete or settled; None once the study is over."""

        def asked(state: State) -> tuple[New, Callable[[State], Asked | None]]:
            if state.closed is not None or state.decided is not None or state.trial.done or state.over is not None:
                return [], lambda after: None
            if state.outstanding is not None:
                return [], lambda after: after.outstanding
            pulls = [int(each) for each in state.planned]
            return [("asked", {"batch": len(state.asked) + 1, "pulls": pulls})], lambda after: after.outstanding

        return self._write(asked)

    def tell(self, *sources: Any, settle: str | None = None, **words: Unpack[Words]) -> Report:
        """Record results of the outstanding batch: files or data frames; `settle` says why the rest will not come.

        What looks like results that are recorded is refused, unless it is said that it is a `cumulative` total, of
        which the difference counts, or that these are new results that came out the same `again`. `columns`,
        `ignore_arms`, `missing` and `average_ids` say more of the files (see `Options`).
        """
        options = Options(**words)
        if not sources and settle is None:
            raise InputError("Give the results: a file or a data frame.")
        if settle is not None:
            _reasoned(settle)

        def told(state: State) -> tuple[New, Callable[[State], Report]]:
            read: list[Results] = []
            for i, source in enumerate(sources, 1):  # a file told before says so
                read.append(self._read(state, source, len(state.asked) <= 1, state.files + i, options, read))
            asked = self._waiting(state)
            for i, results in enumerate(read):
                if results.digest in {each.digest for each in read[:i]}:
                    raise InputError(
                        f"{results.name} is given twice (same contents). Nothing was changed. If these are new results "
                        "that came out the same, tell one file at a time."
                    )
            new: list[tuple[str, dict[str, Any]]] = [
                ("told", {"batch": asked.number, "results": results.payload()}) for results in read
            ]
            if settle is not None:
                new.append(("settled", {"batch": asked.number, "why": settle}))
            return new, lambda after: self._report(after)

        return self._write(told)

    def amend(self, replaces: str, source: Any | None, why: str, **words: Unpack[Words]) -> Report:
        """Correct what a recorded file brought (or withdraw it: `source` None), with a reason; nothing is erased."""
        options = Options(**words)
        _reasoned(why)

        def amended(state: State) -> tuple[New, Callable[[State], Report]]:
            if state.closed is not None:
                raise InputError(f"The study '{self.name}' is closed ({state.closed}). Nothing was changed.")
            old = self._recorded(state, replaces)
            first = state.holds(old.digest) == 1
            file = state.files + 1
            results = None if source is None else self._read(state, source, first, file, options, replaces=old)
            payload = {
                "replaces": old.digest,
                "name": old.name,
                "batch": state.holds(old.digest),
                "results": None if results is None else results.payload(),
                "why": why,
            }
            return [("amended", payload)], lambda after: self._report(after)

        return self._write(amended)

    def end(self, why: str) -> Report:
        """End the study before it is decided; what has not been ruled out is reported."""
        _reasoned(why)

        def closed(state: State) -> tuple[New, Callable[[State], Report]]:
            if state.closed is not None:
                raise InputError(f"The study '{self.name}' is closed already ({state.closed}). Nothing was changed.")
            return [("closed", {"why": why})], lambda after: self._report(after)

        return self._write(closed)

    def report(self) -> Report:
        """Everything there is to say, with intervals."""
        from roundwise.studies.report import report_of

        return report_of(self.state, intervals=True)

    def batches(self) -> Any:
        """All batches as a data frame: batch, arm, asked, count, total, mean (needs pandas)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("Data frames need the extra 'frames': pip install 'roundwise[frames]'.") from None
        rows, state = [], self.state
        for asked in state.asked:
            batch = asked.batch
            for arm, pulls, count, total in zip(
                state.settings.arms, asked.pulls, batch.counts, batch.totals, strict=True
            ):
                mean = total / count if count else np.nan
                rows.append((asked.number, arm, int(pulls), int(count), float(total), mean))
        return pd.DataFrame(rows, columns=["batch", "arm", "asked", "count", "total", "mean"])

    def _write(self, step: Callable[[State], tuple[New, Callable[[State], Made]]]) -> Made:
        """Append what the step makes of the state, and the verdict if it follows; anew if another writer was first.

        All of it is one transaction, so what follows from it is worked out before it is recorded.
        """
        for _ in range(20):
            state = self.state
            last = state.seq
            new, result = step(state)
            if not new:
                return result(state)
            self._foresee(state, new)
            verdict = state.verdict()
            if verdict is not None and state.decided is None:
                new = [*new, ("decided", verdict)]
                self._foresee(state, new[-1:])
            try:
                self.store.append(self.name, new, expected=last)
            except Conflict:
                continue
            return result(state)
        raise Conflict(f"The study '{self.name}' is being written to all the time. Try again.")

    def _foresee(self, state: State, new: New) -> None:
        """Apply entries that are about to be recorded, as they will be read."""
        texts = [(kind, written(payload)) for kind, payload in new]
        for entry in extended(self.name, Head(state.seq + 1), texts, datetime.now(UTC)):
            state.apply(entry)

    def _report(self, state: State) -> Report:
        from roundwise.studies.report import report_of

        return report_of(state, intervals=False)

    def _waiting(self, state: State) -> Asked:
        if state.closed is not None:
            raise InputError(f"The study '{self.name}' is closed ({state.closed}). Nothing was changed.")
        if state.trial.done or state.decided is not None:
            raise InputError(
                f"The study '{self.name}' is decided. See `roundwise report {self.name}`. Nothing was changed."
            )
        if state.over is not None:
            raise InputError(f"The study '{self.name}' is over, undecided: {state.over}. Nothing was changed.")
        if state.outstanding is None:
            raise InputError(f"No batch is outstanding. Run `roundwise ask {self.name}` first. Nothing was changed.")
        return state.outstanding

    def _read(
        self,
        state: State,
        source: Any,
        first: bool,
        file: int,
        options: Options,
        before: Sequence[Results] = (),
        replaces: Results | None = None,
    ) -> Results:
        """What a file brought, beyond what is recorded, and what was read `before` it in the same call."""
        settings = state.settings
        parts = settings.policy.first(settings.problem, ()).parts if first else 1
        told = [each for asked in state.asked for each in asked.told if each is not replaces]
        waiting = None if state.outstanding is None else state.outstanding.outstanding
        results = read_results(
            source,
            settings.arms,
            settings.noise,
            parts=parts,
            seed=settings.seed,
            file=file,
            columns=settings.columns,
            options=options,
            earlier=Earlier([*told, *before], waiting),
        )
        recorded = state.holds(results.digest)
        if recorded is None:
            return results
        if not options.again:
            raise InputError(
                f"{results.name} was already recorded as batch {recorded} (same contents). Nothing was changed. If "
                "these are new results that came out the same, say so: `--new` (in Python `again=True`)."
            )
        note = f"{results.name} has the same contents as a file of batch {recorded}, and was told as new results."
        digest = hashlib.sha256(f"{results.digest}, file {file}".encode()).hexdigest()  # a name of its own
        return dataclasses.replace(results, digest=digest, notes=(*results.notes, note))

    def _recorded(self, state: State, name: str) -> Results:
        """The results of a file that was told, by its name or the start of its digest."""
        found = [
            each
            for asked in state.asked
            for each in asked.told
            if each.name == name or Path(each.name).name == name or (len(name) >= 6 and each.digest.startswith(name))
        ]
        if len(found) != 1:
            told = ", ".join(f"{each.name} ({each.digest[:8]})" for asked in state.asked for each in asked.told)
            kind = "No file" if not found else "More than one file"
            raise InputError(
                f"{kind} '{name}' was told. Told so far: {told or 'none'}. Name one, or its digest. "
                "Nothing was changed."
            )
        return found[0]


def _reasoned(why: str) -> None:
    if not why.strip():
        raise InputError("The reason is empty. Say why in a few words: it is recorded. Nothing was changed.")
