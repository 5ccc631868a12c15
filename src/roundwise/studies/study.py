"""A named, durable experiment: ask, tell, report. All rules of what may be told are here."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Plain
from roundwise.dealing import PARTS
from roundwise.errors import InputError, said, whole_number
from roundwise.noise import Noise
from roundwise.policies import Policy, usual_policy
from roundwise.questions import Question
from roundwise.studies.changing import Changing
from roundwise.studies.earlier import earlier_of
from roundwise.studies.replay import begun, replayed
from roundwise.studies.results import Columns, Options, Results, Words, read_results
from roundwise.studies.rounds import Asked
from roundwise.studies.settings import Settings, arm_names, shares, within_limits
from roundwise.studies.state import State
from roundwise.studies.store import StudyExists, open_store
from roundwise.studies.writing import New, overview, reasoned

if TYPE_CHECKING:
    from roundwise.studies.report import Report

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
    round: int | None = None,
    split: Sequence[float] | str | None = None,
    storage: str | None = None,
    load_if_exists: bool = False,
    seed: int | None = None,
    columns: Columns | None = None,
) -> Study:
    """A new study in the storage (ROUNDWISE_STORAGE, or sqlite:///roundwise.db); `load_if_exists` resumes an old one.

    `policy` is the usual one of the question unless said otherwise. After `budget` results nothing more is asked for:
    the study is then undecided, and its report says what has not been ruled out. With a `round` every batch has so many
    results, with a `split` ("equal", or shares such as "2:1:1") so many of each arm; it is then complete when their
    number is there. An old study must have been created with the same
    settings. `seed` deals the rows of the first batch into parts: it is drawn, unless it is given to have the same
    study again, and must then be chosen before the results are known. `columns` are what the columns of its files are
    called, where they have names of their own.
    """
    names = arm_names(arms)
    chosen = within_limits(usual_policy(question) if policy is None else policy, max_batch, min_per_arm)
    drawn = secrets.randbits(SEED_BITS) if seed is None else whole_number("seed", seed, 0)
    fixed = shares(split, len(names))
    titles = columns or Columns()
    settings = Settings(question, names, noise, delta, chosen, drawn, budget, round, fixed, columns=titles)
    settings.check_kept()
    store = open_store(storage)
    try:
        store.create(name, settings.payload(), overview=overview(begun(name, settings)))
    except StudyExists:
        if not load_if_exists:
            store.close()
            raise
        old = Settings.from_payload(store.recent(name)[0].payload)
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
        store.known(name)
    except BaseException:
        store.close()
        raise
    return Study(name, store)


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
        self, *sources: Any, round_over: str | None = None, key: str | None = None, **words: Unpack[Words]
    ) -> Report:
        """Record results of the open batch: files or data frames; `round_over` says why the rest will not come.

        What looks like results that are recorded is refused, unless it is said that it is a `cumulative` total, of
        which the difference counts, or that these are new results that came out the same `again`. `columns`,
        `ignore_arms`, `missing` and `average_ids` say more of the files. A request with the `key` of one that was
        recorded records nothing. After the decision results are recorded, too: the verdict stands, and estimates
        improve.
        """
        options = Options(**words)
        if not sources and round_over is None:
            raise InputError("Give the results: a file or a data frame.")
        if round_over is not None:
            reasoned(round_over)
        return self._write(lambda state: self._telling(state, sources, round_over, options, key)[1:])

    def preview(
        self, *sources: Any, round_over: str | None = None, **words: Unpack[Words]
    ) -> tuple[list[Results], Report]:
        """What these sources would bring, and the report after them; nothing is recorded."""
        options = Options(**words)
        state, read = self.state, list[Results]()

        def step(state: State) -> tuple[New, Callable[[State], Report]]:
            found, new, result = self._telling(state, sources, round_over, options, None)
            read.extend(found)
            return new, result

        _, result = self._worked_out(state, step)
        return read, result(state)

    def close_round(self, why: str) -> Report:
        """Close the open batch although results are missing: they will not come."""
        return self.tell(round_over=why)

    def _telling(
        self, state: State, sources: Sequence[Any], round_over: str | None, options: Options, key: str | None
    ) -> tuple[list[Results], New, Callable[[State], Report]]:
        """What was read, and what is to be recorded of it."""
        if key is not None and self.store.find(self.name, f"request {key}"):
            return [], [], self._report
        read: list[Results] = []
        for i, source in enumerate(sources, 1):  # a file told before says so
            read.append(self._read(state, source, state.number <= 1, state.files + i, options, read))
        for i, results in enumerate(read):
            if results.digest in {each.digest for each in read[:i]}:
                raise InputError(
                    f"{results.name} is given twice (same contents). Nothing was changed. If these are new results "
                    "that came out the same, tell one file at a time."
                )
        request = {} if key is None else {"key": key}
        self._not_closed(state)
        if state.decided is not None:
            if round_over is not None:
                raise InputError(f"The study '{self.name}' is decided, and no round is open. Nothing was changed.")
            return read, [("later", {"results": each.payload(), **request}) for each in read], self._report
        number = self._open(state).number
        new: list[tuple[str, Plain]] = [
            ("told", {"batch": number, "results": results.payload(), **request}) for results in read
        ]
        if round_over is not None:
            new.append(("round_over", {"batch": number, "why": round_over}))
        return read, new, self._report

    def amend(self, replaces: str, source: Any | None, why: str, **words: Unpack[Words]) -> Report:
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

        return self._write(amended)

    def end(self, why: str) -> Report:
        """End the study before it is decided; what has not been ruled out is reported."""
        reasoned(why)

        def closed(state: State) -> tuple[New, Callable[[State], Report]]:
            if state.closed is not None:
                raise InputError(f"The study '{self.name}' is closed already ({state.closed}). Nothing was changed.")
            return [("closed", {"why": why})], self._report

        return self._write(closed)

    def report(self) -> Report:
        """Everything there is to say, with intervals."""
        from roundwise.studies.report import report_of

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

    def batches(self) -> Any:
        """All batches as a data frame: batch, arm, asked, count, total, mean (needs pandas)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("Data frames need the extra 'frames': pip install 'roundwise[frames]'.") from None
        rows = []
        for asked in self.state.asked:
            batch = asked.whole
            for arm, pulls, count, total in zip(asked.arms, asked.pulls, batch.counts, batch.totals, strict=True):
                mean = total / count if count else np.nan
                rows.append((asked.number, arm, int(pulls), int(count), float(total), mean))
        return pd.DataFrame(rows, columns=["batch", "arm", "asked", "count", "total", "mean"])

    def _open(self, state: State) -> Asked:
        if state.over is not None:
            raise InputError(f"The study '{self.name}' is over, undecided: {state.over}. Nothing was changed.")
        if state.outstanding is None:
            first = said("Call `study.ask()`", f"Run `roundwise ask {self.name}`")
            raise InputError(f"No round is open. {first} first. Nothing was changed.")
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
        arms: tuple[str, ...] | None = None,
    ) -> Results:
        """What a file brought, beyond what is recorded, and what was read `before` it in the same call."""
        settings = state.settings
        parts = settings.policy.first(settings.problem, ()).parts
        parts = PARTS if parts > 1 and not first else parts
        results = read_results(
            source,
            arms or settings.arms,
            settings.noise,
            parts=parts,
            seed=settings.seed,
            file=file,
            columns=settings.columns,
            options=options,
            earlier=earlier_of(state, arms or settings.arms, options, before, replaces),
        )
        recorded = self._held(state, results.digest)
        if recorded is None:
            return results
        if not options.again:
            raise InputError(
                f"{results.name} was already recorded {recorded} (same contents). Nothing was changed. If "
                f"these are new results that came out the same, say so: {said('`again=True`', '`--new`')}."
            )
        note = f"{results.name} has the same contents as a file recorded {recorded}, and was told as new results."
        digest = hashlib.sha256(f"{results.digest}, file {file}".encode()).hexdigest()  # a name of its own
        return dataclasses.replace(results, digest=digest, notes=(*results.notes, note))

    def _held(self, state: State, digest: str) -> str | None:
        """Where a file of these contents is recorded and not replaced, in words."""
        batch = state.holds(digest)
        if batch is None and state.whole is not None:
            told = self.store.find(self.name, f"file {digest}")
            gone = sum(each["replaces"] == digest for each in state.amendments)
            if len(told) > gone:
                batch = told[-1].payload.get("batch", 0)
        if batch is None and any(each.digest == digest for _, each in state.later):
            batch = 0
        return None if batch is None else f"in round {batch}" if batch else "after the decision"

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
