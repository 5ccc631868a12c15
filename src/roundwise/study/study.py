"""A named, durable experiment: ask, tell, report. All rules of what may be told are here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Plain
from roundwise.errors import InputError, said
from roundwise.ingest import Amounts, Earlier, Options, Results, Words, read_results
from roundwise.ingest.row_ids import numbered_digest
from roundwise.model.batch import PARTS
from roundwise.store import Untimely
from roundwise.study.amendments import Changing
from roundwise.study.replay import replayed
from roundwise.study.rounds import Asked
from roundwise.study.state import State
from roundwise.study.transactions import New, reasoned

if TYPE_CHECKING:
    from roundwise.report import Report
    from roundwise.report.export import Frame


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
            shell = "Give a file with results, or --round-over REASON if the rest of the round will not come."
            raise InputError(said("Give the results: a file or a data frame.", shell))
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
            first = said("Call `study.ask()`", f"Run `roundwise ask {self.name}`")
            last = f" Round {state.number} is complete." if state.number else ""
            raise Untimely(f"No round is open. {first} first.{last} Nothing was changed.")
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
        parts = settings.policy.first(settings.problem, ()).parts
        parts = min(settings.noise.most_parts, PARTS) if parts > 1 and not first else parts
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
            new = f" If these are new results that came out the same, say so: {said('`again=True`', '`--new`')}."
            raise Untimely(
                f"{results.name} was already recorded {recorded} (same contents). Nothing was changed."
                f"{new if results.ids is None else ' No id counts twice.'}"
            )
        note = f"{results.name} has the same contents as a file recorded {recorded}, and was told as new results."
        return dataclasses.replace(_renamed(results, file), notes=(*results.notes, note))

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
    paired = state.settings.noise.shares_items
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
