"""A named, durable experiment, here or on a server: ask, tell, report, and everything that may change in it."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import fspath
from pathlib import Path, PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Plain
from roundwise.errors import ConflictError, DataError, InputError, StudyExistsError, StudyStateError, unknown
from roundwise.formats.readers import COLUMNS, columns_of
from roundwise.formats.sheet import digest_of, is_frame, is_path, opened, unreadable
from roundwise.ingest import ArmSums, Columns, Reading, RecordedFiles, Results, TellKeywords, TellOptions, read_results
from roundwise.ingest.covariates import Adjustment
from roundwise.ingest.duplicates import numbered_digest, sums_of_arms
from roundwise.ingest.ratios import Linearization, RatioSums, ratio_sums
from roundwise.ingest.row_checks import contradicted_assumptions
from roundwise.messages import FileNote, Remedy, several
from roundwise.model.problem import check_whole_number
from roundwise.model.spec import to_spec
from roundwise.noise import Noise
from roundwise.policies import Policy, usual_policy
from roundwise.policies.designed import LOOKS
from roundwise.questions import Question
from roundwise.store import Entry, EventKind, open_store
from roundwise.store.log import current_user, pending_entry
from roundwise.store.remote import MultipartField, Server, segment
from roundwise.study.amendments import Change, check_change, effect_of_change, relaxed_spec
from roundwise.study.fold import Round, evidence, redesign
from roundwise.study.guarantee import guarantee_of
from roundwise.study.item_list import ItemList
from roundwise.study.metrics import Metric
from roundwise.study.spec import StudySpec
from roundwise.study.state import State, replay

if TYPE_CHECKING:
    from roundwise.report import Report
    from roundwise.report.export import Frame
    from roundwise.store import Records

Made = TypeVar("Made")
Events = Sequence[tuple[str, Plain]]  # kind and payload
Step = Callable[[State], tuple[Events, Callable[[State], Made]]]  # what to record, and what to return after that

FRAME = "data frame"  # the name of one in the record
TRIES = 20  # times that a step is repeated because another writer was first
SHORT_LOG = 400  # entries up to which a full report follows what was recorded; it takes longer with every round


class Study:
    """A named, durable experiment: `ask` what to do next, `tell` what came back, until it is decided.

    Every method that records something appends to the log in one transaction, together with the fold of a complete
    round and the verdict if it follows, and returns a report.

    Attributes:
        key: of a request; what it recorded is not recorded again.
        expected: the digest of the entry that must be the last one when something is recorded.
        full_reports: whether reports after recording have intervals and dates (slower with every round).
        on_recorded: is called once something is recorded, before its report is made.
    """

    def __init__(self, name: str, store: Records) -> None:
        self.name = name
        self.store = store
        self.key: str | None = None
        self.expected: str | None = None
        self.full_reports = False
        self.on_recorded: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the storage; the study continues when it is loaded again."""
        self.store.close()

    # --- looking

    @property
    def state(self) -> State:
        """Where the study stands, read from its last checkpoint on."""
        return replay(self.store.recent(self.name), self.entries)

    def entries(self) -> list[Entry]:
        """The whole record, each entry checked against the one before it."""
        return self.store.read(self.name)

    def status(self) -> Report:
        """Where the study stands, without intervals: quick, however long it is."""
        from roundwise.report import build_report

        return build_report(self.state, intervals=False)

    def report(self) -> Report:
        """The full report, with intervals."""
        from roundwise.report import build_report

        entries = self.entries()
        return build_report(replay(entries) if entries else self.state, intervals=True, entries=entries)

    def __repr__(self) -> str:
        try:
            return f"<Study '{self.name}': {self.status().headline}>"
        except Exception:  # closed, unreachable or unreadable: a repr must not fail
            return f"<Study '{self.name}'>"

    def _repr_html_(self) -> str:
        """For a notebook: the report."""
        return self.report()._repr_html_()

    def rounds(self) -> Frame:
        """All rounds as a data frame: round, arm, asked, count, total, mean (needs pandas)."""
        from roundwise.report.export import make_frame

        rows: list[tuple[object, ...]] = []
        for each in self.state.rounds:
            batch = each.whole
            for arm, pulls, count, total in zip(each.arms, each.pulls, batch.counts, batch.totals, strict=True):
                mean = total / count if count else np.nan
                rows.append((each.number, arm, int(pulls), int(count), float(total), mean))
        return make_frame(("round", "arm", "asked", "count", "total", "mean"), rows)

    # --- ask and tell

    def ask(self) -> Round | None:
        """The round to do next: the same one until it is complete or closed; None once the study is over."""
        return self.asking()[0]

    def asking(self) -> tuple[Round | None, State]:
        """The round to do next, and where the study stands."""

        def step(state: State) -> tuple[Events, Callable[[State], tuple[Round | None, State]]]:
            if state.closed is not None or state.decided is not None or state.trial.done or state.over is not None:
                return [], lambda after: (None, after)
            if state.open_round is not None:
                return [], lambda after: (after.open_round, after)
            self._check_expected(state)
            planned, whole = state.planned, state.whole_plan
            payload: Plain = {
                "round": state.number + 1,
                "pulls": [int(each) for each in planned],
                "planned": None if np.array_equal(planned, whole) else [int(each) for each in whole],
                "by_number": state.spec.by_number,
                "rules": RULES,
            }
            return [(EventKind.ASKED, payload)], lambda after: (after.open_round, after)

        return self._write(step)

    def tell(
        self, *sources: object, round_over: str | None = None, key: str | None = None, **words: Unpack[TellKeywords]
    ) -> Report:
        """Record results of the open round. What is told is new.

        The same contents, and a file that begins with the rows of a recorded one, are refused unless `new` says that
        these are new results that came out the same; recorded ids are skipped; of a `cumulative` total the difference
        counts. After the decision results are recorded, too: the verdict stands, and estimates improve.

        Args:
            *sources: files or data frames.
            round_over: why the rest of the round will not come.
            key: a request with the key of one that was recorded records nothing.
            **words: `columns`, `ignore_arms`, `missing`, `empty`, `cumulative` and `new` describe the files.

        Returns:
            A report without intervals, unless `full_reports` is set.
        """
        options = TellOptions(**words)
        if not sources and round_over is None:
            close = Remedy("If the rest of the round will not come, use {@close_round}.", study=self.name)
            raise InputError("Give the results: a file or a data frame.", close)
        if round_over is not None:
            check_reason(round_over)

        def step(state: State) -> Events:
            return self._read_sources(state, sources, round_over, options)[1]

        return self._record("tell", options.plain() | {"round_over": round_over}, step, sources, key)

    def preview(
        self, *sources: object, round_over: str | None = None, **words: Unpack[TellKeywords]
    ) -> tuple[list[Results], Report]:
        """Read sources as `tell` would, and return the report after them; nothing is recorded.

        Args:
            sources: As for `tell`.
            round_over: As for `tell`.
            **words: As for `tell`.

        Returns:
            The results read from each source, and the report that recording them would give.
        """
        options, read = TellOptions(**words), list[Results]()

        def step(state: State) -> tuple[Events, Callable[[State], Report]]:
            found, new = self._read_sources(state, sources, round_over, options)
            read.extend(found)
            return new, self._report

        state = self.state
        _, result = self._work_out(state, step)
        return read, result(state)

    def close_round(self, why: str) -> Report:
        """Close the open round although results are missing: they will not come.

        Args:
            why: The reason, kept in the record.

        Returns:
            The report after the round is counted.
        """
        return self.tell(round_over=why)

    def _read_sources(
        self, state: State, sources: Sequence[object], round_over: str | None, options: TellOptions
    ) -> tuple[list[Results], Events]:
        """The results read from the sources, and the events that record them."""
        read: list[Results] = []
        for i, source in enumerate(sources, 1):  # an earlier file has it
            found = self._read_source(state, source, state.number, state.files + i, options, read)
            read.append(replace(found, same_call=i > 1))
        for i, results in enumerate(read):
            if results.digest in {each.digest for each in read[:i]}:
                raise InputError(
                    f"{results.name} is given twice (identical contents). Nothing changed. If these are new results "
                    "that came out the same, tell one file at a time."
                )
        self._check_not_closed(state)
        if state.decided is not None:
            if round_over is not None:
                raise InputError(f"The study '{self.name}' is decided, and no round is open. Nothing was changed.")
            return read, [(EventKind.TOLD_LATE, {"results": each.payload()}) for each in read]
        if state.over is not None:
            raise InputError(f"The study '{self.name}' is over, undecided: {state.over}. Nothing was changed.")
        if state.open_round is None:
            last = f": round {state.number} is complete" if state.number else ""
            first = Remedy(
                "{@ask} begins the next: its plan is fixed before its results are seen. Then record this again.",
                study=self.name,
            )
            raise StudyStateError(f"No round is open{last}. Nothing was changed.", first)
        number = state.open_round.number
        new: list[tuple[str, Plain]] = [
            (EventKind.TOLD, {"round": number, "results": results.payload()}) for results in read
        ]
        if round_over is not None:
            new.append((EventKind.ROUND_CLOSED, {"round": number, "why": round_over}))
        return read, new

    def _read_source(
        self,
        state: State,
        source: object,
        number: int,
        file: int,
        options: TellOptions,
        before: Sequence[Results] = (),
        replaces: Results | None = None,
        arms: tuple[str, ...] | None = None,
    ) -> Results:
        """Read one file of a round; recorded rows, and those read `before` it in the same call, do not count again."""
        named = Columns() if options.columns is None else options.columns
        for role, what in (("covariate", "covariate to adjust for"), ("denominator", "denominators")):
            if role in named.payload() and role not in state.spec.columns.payload():
                raise InputError(f"This study has no {what}: that is fixed when it is created. Nothing was changed.")
        found = self._read_metric(state, source, number, file, options, before, replaces, arms)
        others, said = [], options_for_metric(options, found)
        for m in range(len(state.spec.metrics)):
            ahead = [each.metrics[m] for each in before]
            old = None if replaces is None else replaces.metrics[m]
            others.append(self._read_metric(state.of_metric(m), source, number, file, said, ahead, old, arms))
        notes = without_columns(found.notes, [each.title for each in state.spec.metrics])
        return replace(found, metrics=tuple(others), notes=notes)

    def _read_metric(
        self,
        state: State,
        source: object,
        number: int,
        file: int,
        options: TellOptions,
        before: Sequence[Results],
        replaces: Results | None,
        arms: tuple[str, ...] | None,
    ) -> Results:
        """The same by one metric, that of the state."""
        spec = state.spec_at(number)
        policy = spec.limited_policy
        parts = policy.first(spec.problem, ()).parts
        parts = max(parts, min(spec.noise.most_parts, policy.live_parts)) if parts > 1 and number > 1 else parts
        results = read_results(
            source,
            arms or spec.arms,
            spec.noise,
            parts=parts,
            whole=spec.towards_a_budget,
            seed=spec.seed,
            file=file,
            columns=spec.columns,
            reading=spec.reading,
            adjustment=adjustment_of(state, replaces),
            ratio=ratio_of(state, arms or spec.arms, replaces),
            lower_is_better=spec.question.lower_is_better if spec.question.seeks_better else None,
            options=options,
            recorded=replace(
                recorded_files(state, arms or spec.arms, options, before, replaces),
                is_recorded=lambda digest: replaces is None and self._recorded_round(state, digest) is not None,
            ),
        )
        known = () if spec.list is None else spec.list.known_arms(spec.arms)
        if again := [spec.arms[i] for i in known if results.counts[i]]:
            raise DataError(
                f"{file}: the results of '{again[0]}' are known since the study was created. Leave them out."
            )
        recorded = self._recorded_round(state, results.digest)
        if recorded is None:
            return results
        renamed = replace(results, digest=numbered_digest(results.digest, file))
        if results.ids is not None and results.rows:  # ids identify new rows, as when an earlier file was withdrawn
            return renamed
        if not options.new:
            new = Remedy("If these are new results that came out the same, use {@new}.")
            where = f"as round {recorded}" if recorded else "after the decision"
            raise StudyStateError(
                f"{results.name} is already recorded {where} (identical contents). Nothing changed.",
                new if results.ids is None else Remedy("No id counts twice."),
            )
        note = FileNote("same_contents", file=results.name, round=recorded)
        return replace(renamed, notes=(*results.notes, note))

    def _recorded_round(self, state: State, digest: str) -> int | None:
        """The round of a file of these contents that is recorded and not replaced; 0 after the decision."""
        number = state.holds(digest)
        if number is None and state.read_before is not None:
            told = self.store.find(self.name, f"file {digest}")
            gone = sum(each["replaces"] == digest for each in state.amendments)
            if len(told) > gone:
                number = told[-1].payload.get("round", 0)
        if number is None and any(each.digest == digest for _, each in state.late_files):
            number = 0
        return number

    # --- changes

    def amend(self, replaces: str, source: object | None, why: str, **words: Unpack[TellKeywords]) -> Report:
        """Correct what a recorded file brought, with a reason; nothing is erased, and all rounds are folded anew.

        Args:
            replaces: the name of the recorded file, or the start of its digest.
            source: the corrected file or data frame; None withdraws the old one.
            why: the reason, which is recorded.
            **words: describe the file, as those of `tell`.
        """
        options = TellOptions(**words)
        check_reason(why)

        def step(state: State) -> Events:
            self._check_not_closed(state)
            if state.late_files:
                raise InputError(
                    f"Results were told after '{self.name}' was decided: what decided it can no longer be corrected. "
                    "Nothing was changed."
                )
            number, old = self._find_recorded(state, replaces)
            arms = next(each.arms for each in state.rounds if each.number == number)
            results = None
            if source is not None:
                file = state.files + 1
                results = self._read_source(state, source, number, file, options, replaces=old, arms=arms)
            payload = {
                "replaces": old.digest,
                "name": old.name,
                "round": number,
                "results": None if results is None else results.payload(),
                "why": why,
            }
            return [(EventKind.AMENDED, payload)]

        asked = options.plain() | {"file": replaces, "why": why}
        return self._record("amend", asked, step, [] if source is None else [source])

    def _find_recorded(self, state: State, name: str) -> tuple[int, Results]:
        """The round and results of a recorded file, found by name or the start of its digest."""
        every = [(each.number, file) for each in state.rounds for file in each.files]
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

    def end(self, why: str) -> Report:
        """End the study before it is decided; what has not been ruled out is reported.

        Args:
            why: The reason, kept in the record.

        Returns:
            The final report.
        """
        check_reason(why)

        def step(state: State) -> Events:
            if state.closed is not None:
                raise InputError(f"The study '{self.name}' is closed already ({state.closed}). Nothing was changed.")
            return [(EventKind.CLOSED, {"why": why})]

        return self._record("end", {"why": why}, step)

    def drop(self, arm: str, why: str, unrelated: bool = False) -> Report:
        """Leave an arm out from here on; `unrelated` says that the reason does not depend on any result.

        Args:
            arm: The name of the arm.
            why: The reason, kept in the record.
            unrelated: Whether the reason is unrelated to any result; then all rounds are recomputed without the arm.

        Returns:
            The report after the change.
        """
        return self._change_arms("drop", arm, why, unrelated)

    def add(self, arm: str, why: str = "", unrelated: bool = False) -> Report:
        """Add an arm; `unrelated` says that the reason does not depend on any result.

        Args:
            arm: The name of the new arm.
            why: The reason, kept in the record.
            unrelated: Whether the reason is unrelated to any result; then all rounds are recomputed with the arm.

        Returns:
            The report after the change.
        """
        return self._change_arms("add", arm, why, unrelated)

    def relax(self, why: str) -> Report:
        """Continue with the large-sample model from here (once) after rows contradicted the noise model.

        Evidence starts anew; earlier rows only estimate the variance. The guarantee is approximate.

        Args:
            why: The reason, kept in the record.

        Returns:
            The report after the change.
        """
        check_reason(why)

        def step(state: State) -> Events:
            self._check_relaxable(state)
            after = state.number - (state.open_round is not None)
            return [(EventKind.RELAXED, {"why": why, "after": after})]

        return self._record("relax", {"why": why}, step)

    def extend(self, budget: int) -> Report:
        """Set the number of results allowed in all.

        Args:
            budget: The number of results allowed in the whole study.

        Returns:
            The report after the change.
        """
        return self._record("extend", {"budget": budget}, lambda state: self._extended(state, budget))

    def redesign(self, budget: int | None = None, lead: float | str | None = None, looks: int | None = None) -> Report:
        """Redesign the rest of the study for a budget, a lead and a number of looks, or for none.

        Args:
            budget: the number of results allowed in all; None: the study continues until it is decided.
            lead: the smallest lead that matters, in units of the results.
            looks: the number of rounds that the rest of the budget is planned for.
        """
        said = {"budget": budget, "lead": lead, "looks": looks}
        return self._record("redesign", said, lambda state: self._redesigned(state, budget, lead, looks))

    def import_past(self, source: object) -> Report:
        """Use earlier data to plan the first rounds; they are not evidence, and must not be recorded as results.

        Args:
            source: A file or a data frame of earlier results.

        Returns:
            The report after the import.
        """

        def step(state: State) -> Events:
            self._check_importable(state)

            def read(spec: StudySpec) -> Results:
                results = read_results(
                    source,
                    spec.arms,
                    spec.noise,
                    seed=spec.seed,
                    columns=spec.columns,
                    reading=spec.reading,
                    adjustment=None if spec.columns.covariate is None else Adjustment(),
                    ratio=None if spec.columns.denominator is None else ratio_sums({}, spec.arms),
                )
                # ids stay, so that no row is recorded again
                return replace(results, strata=None, id_outcomes=None, row_statistics=None)

            slim = replace(read(state.spec), metrics=tuple(map(read, state.spec.by_metric)))
            if slim.digest in {each.digest for _, each in state.past}:
                raise InputError(f"{slim.name} was imported already (identical contents). Nothing was changed.")
            return [(EventKind.PAST_IMPORTED, {"results": slim.payload()})]

        return self._record("import_past", {}, step, [source])

    def reopen(self, why: str) -> Report:
        """Go on with a study that was closed undecided.

        Args:
            why: The reason, kept in the record.

        Returns:
            The report of the open study.
        """
        check_reason(why)
        return self._record("reopen", {"why": why}, lambda state: self._reopened(state, why))

    def note(self, text: str) -> Report:
        """Record a remark.

        Args:
            text: The text of the remark.

        Returns:
            The report with the remark.
        """
        if not text.strip():
            raise InputError("The note is empty. Nothing was changed.")
        return self._record("note", {"text": text}, lambda state: [(EventKind.NOTED, {"text": text})])

    def remove(self) -> None:
        """Forget a study that has no results: its name is free again."""
        state = self.state
        self._check_expected(state)
        self._check_removable(state)
        self.store.remove(self.name, expected=state.seq)

    def effect(self, what: str, **words: Any) -> str:
        """The effect of a change on the guarantee, in one sentence, before it is made; an InputError if it is
        impossible.

        `what` is the name of the method: drop, add, relax, extend, redesign, import_past, reopen, remove, note, end,
        close_round, amend.

        Args:
            what: The name of the method.
            **words: The arguments of the method.

        Returns:
            The effect in one sentence.
        """
        if what not in EFFECTS:
            raise unknown("change", what, EFFECTS)
        state, said = self.state, EFFECTS[what]
        if what in ("drop", "add"):
            return effect_of_change(state.spec, self._arm_change(state, what, **words))
        if what == "extend":
            self._extended(state, words["budget"])
            if state.decided is not None:
                won, _, shown = evidence(state.spec, state.trial)
                left = math.exp(min(won[~shown].max(), 700.0))
                return (
                    "This keeps the guarantee: what was shown stays shown, and open claims continue with their wealth, "
                    f"at most {left:.2g} : 1. With this budget from the start, more might be shown."
                )
            rule = state.spec.policy.stopping
            said = rule.effect_of_budget(state.spec.problem, state.trial, words["budget"], state.spec.arms) or said
        elif what == "redesign":
            ((_, design),) = self._redesigned(state, **words)
            spec, trial = redesign(state.spec, state.trial, design)
            rule, budget = spec.policy.stopping, design["budget"]
            said = (budget and rule.effect_of_budget(spec.problem, trial, budget, spec.arms)) or said
        elif what == "relax":
            self._check_relaxable(state)
            said = f"{said} {_say_wait(state)}"
        elif what == "import_past":
            self._check_importable(state)
            if state.spec.noise.needs == "cubes":
                said = (
                    "This keeps the guarantee, and guides nothing: how much results vary, on which large-sample bets "
                    "rest, is learned from results of the study alone. None of these rows may be recorded as results "
                    "later."
                )
        elif what == "reopen":
            self._reopened(state, "")
        elif what == "remove":
            self._check_removable(state)
        elif what == "end":
            if state.decided is not None:
                said = "The study is decided; closing it changes nothing about the verdict."
            if (waiting := state.partial_round) is not None:
                told, are = several(waiting.results, "result"), "is" if waiting.results == 1 else "are"
                said += f" The {told} told of round {waiting.number} {are} not counted."
        return said

    def _change_arms(self, verb: str, arm: str, why: str, unrelated: bool) -> Report:
        def step(state: State) -> Events:
            change = self._arm_change(state, verb, arm, why, unrelated)
            check_change(state.spec, change)
            payload = change.payload()
            return [(payload.pop("kind"), payload)]

        return self._record(verb, {"arm": arm, "why": why, "unrelated": unrelated}, step)

    def _arm_change(self, state: State, verb: str, arm: str, why: str = "", unrelated: bool = False) -> Change:
        self._check_not_closed(state)
        if verb == "drop":
            check_reason(why)
        if state.decided is not None:
            raise InputError(f"The study '{self.name}' is decided: its arms are fixed. Nothing was changed.")
        if state.partial_round is not None:
            raise InputError(
                f"Round {state.partial_round.number} is open and has results. Nothing was changed.",
                Remedy("Complete it, or close it ({@close_round}), before arms change.", study=self.name),
            )
        open_ = state.open_round is not None
        if state.spec.question.separate_claims:  # by one rule, whatever the reason
            unrelated = False
        return Change("dropped" if verb == "drop" else "added", arm.strip(), why, unrelated, state.number - open_)

    # --- what may be done

    def _check_not_closed(self, state: State) -> None:
        if state.closed is not None:
            raise InputError(f"The study '{self.name}' is closed ({state.closed}). Nothing was changed.")

    def _check_relaxable(self, state: State) -> None:
        self._check_not_closed(state)
        if state.relaxed is not None:
            raise InputError(
                f"The study '{self.name}' continued as large-sample after round {state.relaxed.after} already. That is "
                "possible once: every further start could be wrong with probability delta again. Nothing was changed."
            )
        relaxed_spec(state.spec)
        if not contradicted_assumptions(state.row_checks):
            raise InputError(
                f"No rows of '{self.name}' contradict its noise model. Changing it without such evidence, because of "
                "what results show, could add another error probability of delta. Nothing was changed.",
                Remedy("Create a study with {@large_sample} for new results."),
            )
        if state.partial_round is not None:
            raise InputError(
                f"Round {state.partial_round.number} is open and has results. Nothing was changed.",
                Remedy("Complete it, or close it ({@close_round}), before the noise model changes.", study=self.name),
            )
        if state.late_sums.counts.any():
            raise InputError(
                f"Results were told after '{self.name}' was decided: it cannot continue. Nothing was changed.",
                Remedy("Create a study with {@large_sample} for new results."),
            )

    def _extended(self, state: State, budget: int) -> Events:
        self._check_not_closed(state)
        rule = state.spec.policy.stopping
        if state.decided is not None or rule.uses_budget:
            why = rule.why_final(state.spec.problem, state.trial.kept)
            if why is not None:
                what = "is finally decided" if state.decided is not None else "can no longer be decided"
                raise InputError(f"The study '{self.name}' {what}: {why}. Nothing was changed.")
        if state.decided is not None and state.late_sums.counts.any():
            raise InputError(
                f"Results were told after '{self.name}' ended, before any bet was placed on them: it cannot continue. "
                "Nothing was changed."
            )
        if state.partial_round is not None:
            raise InputError(
                f"Round {state.partial_round.number} is open and has results, and the budget must be set before those "
                "are seen. Complete the round, or close it, and then extend the budget. Nothing was changed."
            )
        check_whole_number("budget", budget, 1)
        if state.spec.budget is None:
            raise InputError(f"The study '{self.name}' has no budget to extend. Nothing was changed.")
        if budget < (came := int(state.trial.record.samples)):
            raise InputError(f"The budget would be {budget}, but {came} results are counted. Nothing was changed.")
        return [(EventKind.EXTENDED, {"budget": int(budget)})]

    def _redesigned(
        self,
        state: State,
        budget: int | None = None,
        lead: float | str | None = None,
        looks: int | None = None,
    ) -> Events:
        self._check_not_closed(state)
        spec, rule = state.spec, state.spec.policy.stopping
        if state.decided is not None:
            raise InputError(f"The study '{self.name}' is decided. Nothing was changed.")
        if spec.question.separate_claims:
            raise InputError(
                "Claims are designed for their budget alone. Nothing was changed.", Remedy("Use {@extend}.")
            )
        if state.partial_round is not None:
            raise InputError(
                f"Round {state.partial_round.number} is open and has results, and its design must be set before those "
                "are seen. Complete the round, or close it, and then change the design. Nothing was changed."
            )
        if spec.list is not None:
            raise InputError("There is no design for a study of a list. Nothing was changed.")
        if budget is None and not spec.policy.plans_budget:
            raise InputError("The study is not designed for a budget. Nothing was changed.")
        if budget is None and (lead is not None or looks is not None):
            raise InputError(
                "A lead and a number of looks need a budget. Nothing was changed.", Remedy("Give it: {@budget}.")
            )
        alike = [each.policy for each in (spec, state.first) if each.policy.plans_budget == (budget is not None)]
        policy = alike[0] if alike else usual_policy(spec.question, budget is not None, len(spec.arms))
        rounds = None  # in all: those so far, and those that the rest is planned for
        if budget is not None:
            if not policy.plans_budget:
                near = " with a tolerance" if spec.question.tolerance else ""
                raise InputError(f"There is no design for '{spec.question.name}'{near}. Nothing was changed.")
            so_far = int(state.trial.record.batches)
            if looks is not None or so_far:
                rounds = so_far + (LOOKS if looks is None else check_whole_number("looks", looks, 1))
        kept = {name: each for name, each in to_spec(policy).items() if name not in ("budget", "lead", "looks")}
        after = spec.with_design({"policy": kept, "budget": budget, "lead": lead, "looks": rounds})
        if (after.design["policy"], after.budget) == (spec.design["policy"], spec.budget):
            raise InputError("The study has this design already. Nothing was changed.")
        if after.policy.stopping.state_tag(spec.problem) != rule.state_tag(spec.problem):
            raise InputError(
                f"What was shown by the policy '{spec.policy.name}' so far cannot be continued by "
                f"'{after.policy.name}' where the question is '{spec.question.name}'. Nothing was changed.",
                Remedy("Create a study, and give it the earlier data with {@import_past}."),
            )
        won, _, shown = evidence(spec, state.trial)
        if not after.policy.plans_budget and np.isneginf(won[~shown]).any():
            raise InputError(
                "A round that was bet on as the last one used up a level: without a budget it cannot be bet on. "
                "Nothing was changed."
            )
        if spec.policy.plans_budget and (why := rule.why_final(spec.problem, state.trial.kept)) is not None:
            raise InputError(f"The study '{self.name}' can no longer be decided: {why}. Nothing was changed.")
        if after.budget is not None and after.budget < (came := int(state.trial.record.samples)):
            raise InputError(
                f"The budget would be {after.budget}, but {came} results are counted. Nothing was changed."
            )
        return [(EventKind.REDESIGNED, after.design)]

    def _reopened(self, state: State, why: str) -> Events:
        if state.closed is None:
            raise InputError(f"The study '{self.name}' is not closed. Nothing was changed.")
        if state.decided is not None:
            raise InputError(f"The study '{self.name}' is decided: there is nothing to continue. Nothing was changed.")
        return [(EventKind.REOPENED, {"why": why})]

    def _check_removable(self, state: State) -> None:
        if state.files or state.late_files:
            raise InputError(
                f"The study '{self.name}' has results, and a record with results is never erased. Nothing was changed.",
                Remedy("To end it, use {@end}.", study=self.name),
            )

    def _check_importable(self, state: State) -> None:
        self._check_not_closed(state)
        if state.files or state.late_files or state.summary.rounds:
            raise InputError(
                f"The study '{self.name}' has results: earlier data can only be imported before the first of "
                "them. Nothing was changed."
            )
        if not state.spec.policy.stopping.learns:
            raise InputError(
                f"The policy {state.spec.policy.name} cannot use earlier data, because its rule counts all results "
                "alike. Nothing was changed.",
                Remedy("Use {@wager}."),
            )

    def _check_expected(self, state: State) -> None:
        """Raise a `ConflictError` where the record does not end with the expected entry."""
        last = state.last
        if self.expected is not None and last is not None and last.digest != self.expected:
            raise ConflictError(
                f"Study '{self.name}' has moved on: {last.by} recorded entry {last.seq} ('{last.kind}') on "
                f"{last.at:%Y-%m-%d at %H:%M} UTC, after what you have seen. Nothing was changed; look again and "
                "repeat."
            )

    # --- writing

    def _write(self, step: Step[Made]) -> Made:
        """Append what the step makes of the state, the fold of what is complete, and the verdict if it follows.

        All of it is one transaction; it is repeated from the start if another writer was first.
        """
        for _ in range(TRIES):
            state = self._read_state()
            expected = state.seq
            new, result = self._work_out(state, step)
            if new:
                try:
                    entries = self.store.append(self.name, new, expected=expected, overview=overview(state))
                except ConflictError:
                    continue
                state.log = [*state.log, *entries] if state.log else ()
                state.last = entries[-1] if entries else state.last
                if self.on_recorded is not None:
                    self.on_recorded()
            return result(state)
        raise ConflictError(f"The study '{self.name}' is being written to all the time. Try again.")

    def _record(
        self,
        verb: str,
        words: Plain,
        step: Callable[[State], Events],
        sources: Sequence[object] = (),
        key: str | None = None,
    ) -> Report:
        """Record what a user does: once for each `key`, and only if the record ends as `expected`.

        With a key goes the digest of what was asked for, the `verb`, its `words` and the contents of its `sources`, so
        that the key of another request is refused.
        """
        key = key or self.key
        request = "" if key is None else request_digest(verb, words, sources)

        def once(state: State) -> tuple[Events, Callable[[State], Report]]:
            if key is not None and (before := self.store.find(self.name, f"request {key}")):
                if before[0].payload["request"] != request:
                    raise InputError(
                        f"The key of this request was used for another request, which recorded entry {before[0].seq} "
                        f"('{before[0].kind}') of '{self.name}'. Nothing was changed; draw a new key for each request."
                    )
                return [], self._report
            self._check_expected(state)
            new = step(state)
            first = {} if key is None else {"key": key, "request": request}
            return [(kind, payload if i else payload | first) for i, (kind, payload) in enumerate(new)], self._report

        return self._write(once)

    def _read_state(self) -> State:
        """The state to write to; with the whole log where a full report is to follow and the log is not long."""
        if self.full_reports and self.store.head(self.name).entries <= SHORT_LOG:
            entries = self.entries()
            state = replay(entries)
            state.log = entries
            return state
        return self.state

    def _work_out(self, state: State, step: Step[Made]) -> tuple[Events, Callable[[State], Made]]:
        """The entries of a step and its consequences; the state is updated with them."""
        before = self._follow(state)  # of a log that ends before what follows from it
        new, result = step(state)
        if not new:
            return before, result
        self._apply(state, new)
        return [*before, *new, *self._follow(state)], result

    def _follow(self, state: State) -> list[tuple[str, Plain]]:
        """The consequences of the state: the checkpoint of a complete round, and the verdict."""
        found: list[tuple[str, Plain]] = []
        if state.ready:
            found.append((EventKind.CHECKPOINT, state.fold()))
            folded = state.spec, state.trial, state.summary
            self._apply(state, found)
            state.put(*folded)  # the same as what is recorded, and at hand
        if state.decided is None and not state.late_files and (verdict := state.verdict()) is not None:
            found.append((EventKind.DECIDED, verdict))
            self._apply(state, found[-1:])
        return found

    def _apply(self, state: State, new: Events) -> None:
        for kind, payload in new:
            state.apply(pending_entry(self.name, state.seq + 1, kind, payload))

    def _report(self, state: State) -> Report:
        from roundwise.report import build_report

        return build_report(state, intervals=bool(state.log), entries=state.log)


class RemoteStudy(Study):
    """A study on a server: its record is read and computed here, and every change is made there.

    What records has a key: where the connection is lost the request is sent again, and recorded once.
    """

    UPLOADS = {"tell": "files", "amend": "amend", "import_past": "import-past"}  # noqa: RUF012 - verbs with files

    def __init__(self, name: str, store: Records, server: Server) -> None:
        super().__init__(name, store)
        self.server = server

    def asking(self) -> tuple[Round | None, State]:
        """The round to do next, and where the study stands."""
        found = self.server.post(f"/studies/{segment(self.name)}/ask", {})
        state = self.state
        return (None if found["round"] is None else state.open_round), state

    def _record(
        self,
        verb: str,
        words: Plain,
        step: Callable[[State], Events],
        sources: Sequence[object] = (),
        key: str | None = None,
    ) -> Report:
        path, key = f"/studies/{segment(self.name)}/{self.UPLOADS.get(verb, verb)}", key or self.key
        key = key or secrets.token_hex(16)
        if verb in self.UPLOADS:
            parts = [MultipartField("options", json.dumps(words).encode()), *map(part_of, sources)]
            self.server.upload(path, parts, key, self.expected)
        else:
            self.server.post(path, words, key, self.expected)
        if self.on_recorded is not None:
            self.on_recorded()
        return self._report(self._read_state())


def part_of(source: object) -> MultipartField:
    """A source as it is sent: a file as it is, a data frame as JSON of its columns."""
    if is_path(source):
        path = str(fspath(source))
        try:
            with opened(path) as file:
                return MultipartField("file", file.read(), PurePath(path).name)
        except OSError as error:
            raise unreadable(path, error) from None
    if not is_frame(source):
        raise InputError(f"Results come from a file or a data frame, not from a value of type {type(source).__name__}.")
    return MultipartField("file", json.dumps(columns_of(FRAME, source), allow_nan=False).encode(), FRAME, COLUMNS)


def overview(state: State) -> Plain:
    """A line about a study, for lists of them."""
    spec, verdict, waiting = state.spec, state.decided, state.awaited_round
    stands = "decided" if verdict is not None else "closed" if state.closed is not None else "over"
    if stands == "over" and state.over is None:
        stands = "waiting" if waiting is not None else "open"
    return {
        "question": spec.question.name,
        "question_text": asked_in_words(spec),
        "arms": len(spec.arms),
        "state": stands,
        "round": state.number + (stands == "open"),
        "last_file": state.late_files[-1][1].name if state.late_files else state.facts.last_file,
        "answer_text": None if verdict is None else verdict["answer_text"],
        "results": int(state.record.samples),
        "pending": 0 if waiting is None else waiting.results,
        "budget": spec.budget,
        "list": None if spec.list is None else spec.list.items_digest,
        "waiting_since": None if waiting is None else waiting.since,
        "by": current_user(),
        "guarantee": guarantee_of(state).plain(),
    }


def asked_in_words(spec: StudySpec) -> str:
    """The question of a study in plain words, in the units of its results."""
    return spec.question_words


def request_digest(verb: str, words: Plain, sources: Sequence[object]) -> str:
    """SHA-256 of what is asked for: a verb, its words and the contents of its files, whatever these are called."""
    contents = []
    for each in sources:
        if is_path(each):
            with opened(fspath(each)) as file:
                contents.append(digest_of(file))
        elif is_frame(each):
            contents.append(hashlib.sha256(json.dumps(columns_of(FRAME, each)).encode()).hexdigest())
    return hashlib.sha256(json.dumps([verb, words, contents], sort_keys=True, default=str).encode()).hexdigest()


def files_of_round(state: State, replaces: Results | None) -> Sequence[Results]:
    """The files of the open round, or the one that is replaced: what they were read by holds for all of the round."""
    if replaces is not None:
        return [replaces]
    return () if state.open_round is None else state.open_round.files


def adjustment_of(state: State, replaces: Results | None) -> Adjustment | None:
    """What results of the open round are adjusted by: the same in all files of a round; None without a covariate."""
    told = (each.covariate.adjustment for each in files_of_round(state, replaces) if each.covariate is not None)
    return next(told, None if state.spec.columns.covariate is None else state.summary.covariate.adjustment)


def ratio_of(state: State, arms: Sequence[str], replaces: Results | None) -> RatioSums | Linearization | None:
    """The sums of earlier rounds, which say how ids become results, or how those of the round did; None: no ratio.

    Earlier data do not: ratios and denominators of another time would make errors that do not vanish.
    """
    if state.spec.columns.denominator is None:
        return None
    told = (each.linearization for each in files_of_round(state, replaces) if each.linearization is not None)
    first, known = next(told, None), ratio_sums(state.summary.ratios, arms)
    all_known = bool((known.denominators > 0).all())  # an arm without a past is read by its own rows, whichever file
    return known if first is None or (replaces is None and not all_known) else first


def check_reason(why: str) -> None:
    """Raise an InputError where a reason is empty."""
    if not why.strip():
        raise InputError("The reason is empty. Say why in a few words: it is recorded. Nothing was changed.")


def options_for_metric(options: TellOptions, results: Results) -> TellOptions:
    """The options for reading a further metric of a file: another column, and no duplicate check.

    Ids, items and running totals say which rows are new; otherwise the `results` of the first metric were looked at.
    """
    own = dict.fromkeys(("outcome", "covariate", "denominator"))
    columns = None if options.columns is None else replace(options.columns, **own)
    by_rows = results.ids is None and (results.strata is None or results.strata.items is None)
    return replace(options, columns=columns, new=options.new or (by_rows and not options.cumulative))


def without_columns(notes: Sequence[FileNote], used: Sequence[str]) -> tuple[FileNote, ...]:
    """The notes on a file without columns among those not used that metrics do use."""
    found, known = [], {each.casefold() for each in used}
    for note in notes:
        if note.code == "unused_columns":
            rest = [each for each in note.fields["columns"] if each.strip().casefold() not in known]
            found += [FileNote(note.code, **note.fields | {"columns": rest})] if rest else []
        else:
            found.append(note)
    return tuple(found)


def recorded_files(
    state: State, arms: Sequence[str], options: TellOptions, before: Sequence[Results], replaces: Results | None
) -> RecordedFiles:
    """The recorded files, and those read `before` in the same call, without the one that is replaced.

    Ids and running totals need every file. Otherwise marks of the last ones tell whether a file begins with them, and
    the sums of all whether it could be a running total.
    """
    paired = state.spec.noise.shares_items
    columns = (options.columns or state.spec.columns).over(state.spec.columns)
    every = options.cumulative or columns.id is not None or columns.item is not None or replaces is not None or paired
    files: list[tuple[Sequence[str], Results]]
    files = [(each.arms, file) for each in (state.rounds if every else state.recent) for file in each.files]
    files = [(names, each) for names, each in [*files, *state.late_files] if each is not replaces]
    files += [(arms, each) for each in before]
    waiting = None if state.open_round is None or replaces is not None else state.open_round.outstanding
    if state.decided is not None and replaces is None:
        waiting = np.zeros(len(arms))  # nothing was asked for
    found = RecordedFiles(sums_of_arms(files, arms), waiting)
    if paired and replaces is None:
        now = state.number + 1 if state.open_round is None else state.open_round.number
        strata = [file.strata for each in state.rounds if each.number < now for file in each.files]
        used = [each.items for each in strata if each is not None and each.items is not None]
        found = replace(found, items=np.unique(np.concatenate(used)) if used else None)
    past = sums_of_arms(state.past, arms)
    if state.spec.list is not None:
        listed = np.sort(state.spec.list.hashes(state.spec.seed))
        found = replace(found, listed=listed, repeats=state.spec.list.repeats > 1)
    if every:
        return replace(found, past=past)
    total = ArmSums(state.record.counts, state.record.totals)
    uncounted = [] if state.ended else [file for each in state.unfolded for file in each.files]
    for each in [*uncounted, *before]:
        total = total.plus(ArmSums(each.counts, each.totals))
    return RecordedFiles(found.told, waiting, total, state.summary.starts, past=past)


def _say_wait(state: State) -> str:
    """How many results a study that is continued as large-sample waits for."""
    moments, spec = state.row_checks.statistics.moments, relaxed_spec(state.spec)
    rows = spec.problem.noise.rows_at_skewness(np.nan_to_num(moments.skewness))
    assert rows is not None
    arm = int(rows.argmax())
    needed, has = several(float(f"{rows[arm]:.2g}"), "result"), state.record.counts[arm]
    said = f"Nothing is concluded about {spec.arms[arm]} before it has about {needed}; so far it has {has:.0f}."
    if spec.budget is not None and spec.budget < rows.sum():
        said += f" The budget of {several(spec.budget, 'result')} does not allow that."
    return said


EFFECTS = {  # on the guarantee, of every change
    "drop": "",  # see `effect_of_change`
    "add": "",
    "relax": (
        "The guarantee becomes approximate, and no longer rests on the assumption that the rows contradict. What was "
        "shown or ruled out no longer stands: only later results are evidence, and earlier rows only estimate the "
        "variance. This is possible once."
    ),
    "end": "This keeps the guarantee: nothing is claimed beyond what has been shown so far.",
    "extend": "This keeps the guarantee, which does not depend on the number of results.",
    "redesign": (
        "This keeps the guarantee: the evidence so far stays, and the study continues without a budget until it is "
        "decided."
    ),
    "import_past": (
        "This keeps the guarantee: earlier data guide bets and are never evidence. None of these rows may be recorded "
        "as results later."
    ),
    "reopen": "This keeps the guarantee: you may always look at results and continue.",
    "remove": "There is no guarantee to keep: the study has no results. Its record is erased, and its name is free.",
    "note": "A note does not affect the guarantee.",
    "close_round": "The guarantee then rests on the assumption that what is missing is unrelated to its values.",
    "amend": (
        "All rounds are recounted; the guarantee then rests on the assumption that the correction is unrelated to what "
        "results showed."
    ),
}


# --- studies by name


def create_study(
    name: str,
    *,
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    delta: float | str = 0.05,
    policy: Policy | None = None,
    max_round_size: int | None = None,
    min_per_arm: int = 0,
    budget: int | None = None,
    lead: float | None = None,
    looks: int | None = None,
    round_size: int | None = None,
    split: Sequence[float] | str | None = None,
    columns: Columns | None = None,
    reading: Reading | None = None,
    list: ItemList | Sequence[str] | int | str | Path | None = None,
    prices: str | Sequence[float] | Mapping[str, float] | None = None,
    max_cost: float | str | None = None,
    unit: str | None = None,
    metrics: Sequence[Metric] | None = None,
    seed: int | None = None,
    storage: str | None = None,
    load_if_exists: bool = False,
) -> Study:
    """Create a study and record its settings.

    Args:
        name: Name of the study, unique in its storage.
        question: Question to answer, e.g. `BestArm()` or `Claims.against_control(arms, "a")`.
        arms: Names of the arms, at least two.
        noise: Noise model of the results, e.g. `Binary()` or `Bounded(1, 5)`. `noise.with_items()` is for arms that are
            tried on the same items.
        delta: Largest probability of a wrong answer.
        policy: Sampling policy with its stopping rule. Default: `ConditionalPower()` for claims, `Designed()`
            for the best arm within a budget, else `Wager()`.
        max_round_size: Largest number of results in a round.
        min_per_arm: Smallest number of results of an arm that a round samples.
        budget: Largest number of results in the whole study. When it is used up, the study ends undecided and its
            report says what has not been ruled out. A best-arm study with a budget is designed for it
            (docs/designed.md).
        lead: Smallest lead that matters, in units of the results, for a study with a budget.
        looks: Number of rounds that the study is planned for (with a budget and a lead: 5).
        round_size: Number of results in every round. The round is complete at that number, whatever the allocation.
        split: Fixed allocation ratio: "equal", or shares such as "2:1:1" or [2, 1, 1].
        columns: Names of the columns in result files, where they are not the usual ones. With a column of items, arms
            are compared on the items they share.
        reading: Rules by which rows become results: empty outcomes, several rows of one id, shares above a value.
        list: Finite list of items, by their ids, their number, or a file with a column of items. The question is then
            which arm is best *on this list*, had every arm been tried once on every item, and is always answered
            (docs/lists.md). `ItemList` has more settings: repeats, a given order, strict answers.
        prices: Price of a result of each arm, e.g. "small=1,large=50". Where arms have results of their own, `Wager`
            asks for what costs least; reports say what was spent.
        max_cost: The most that all results may cost, by their prices, in place of a budget in results.
        unit: Unit of the results in reports, e.g. "s", "ms" or "$".
        metrics: Guardrails and secondary metrics of the same rows, for claims against a control: the error
            probability is that of all claims together.
        seed: Seed of the random partition of rows, drawn if omitted. If you choose it, do so before results are known:
            the guarantee is then conditional on row order being unrelated to values.
        storage: URL of the storage: a file ("sqlite:///roundwise.db"), a database ("postgresql://..."), or a server
            ("http://host:8000", see `roundwise serve`). The default is ROUNDWISE_STORAGE, else roundwise.db.
        load_if_exists: Load the study of this name if there is one with the same settings.

    Returns:
        The study, ready for `ask` and `tell`.

    Raises:
        InputError: If a setting is invalid, or the existing study has other settings.
        StudyExistsError: If there is a study of this name and `load_if_exists` is false.

    Example:
        ::

            study = create_study("checkout", question=BestArm(), arms=["red", "green"], noise=Binary())
            while (round_ := study.ask()) is not None:
                report = study.tell(collect(round_))
    """
    spec = StudySpec.declare(
        question=question,
        arms=arms,
        noise=noise,
        delta=delta,
        policy=policy,
        max_round_size=max_round_size,
        min_per_arm=min_per_arm,
        budget=budget,
        lead=lead,
        looks=looks,
        round_size=round_size,
        split=split,
        columns=columns,
        reading=reading,
        list=list,
        prices=prices,
        max_cost=max_cost,
        unit=unit,
        metrics=metrics,
        seed=seed,
    )
    return create_from_spec(name, spec, storage, load_if_exists)


def create_from_spec(name: str, spec: StudySpec, storage: str | None = None, load_if_exists: bool = False) -> Study:
    """Create the study that `spec` declares; see `create_study`."""
    spec.check_recordable()
    spec.check()
    store = open_store(storage)
    if spec.list is not None and store.server is None:  # a server sees to it itself
        others = [each for each in store.studies() if each.name != name]
        same = tuple(each.name for each in others if each.overview.get("list") == spec.list.items_digest)
        spec = replace(spec, same_list=same)
    try:
        store.create(name, spec.to_json(), overview=overview(State(name, spec)))
    except StudyExistsError:
        if not load_if_exists:
            store.close()
            raise
        old = StudySpec.from_json(store.recent(name)[0].payload)
        seed = spec.seed if spec.seed_given else old.seed
        again = replace(spec, seed=seed, seed_given=old.seed_given, same_list=old.same_list)
        if again.to_json() != old.to_json():
            store.close()
            raise InputError(
                f"A study '{name}' exists with other settings. Nothing was changed; choose another name, or load it."
            ) from None
    return _open_study(name, store)


def load_study(name: str, storage: str | None = None) -> Study:
    """Return a study that exists; an UnknownStudyError if there is none of this name.

    Args:
        name: The name of the study.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.

    Returns:
        The study; on a server, a `RemoteStudy`.
    """
    store = open_store(storage, create=False)
    try:
        store.head(name)
    except BaseException:
        store.close()
        raise
    return _open_study(name, store)


def _open_study(name: str, store: Records) -> Study:
    """The study; on a server a `RemoteStudy`."""
    return Study(name, store) if store.server is None else RemoteStudy(name, store, store.server)
