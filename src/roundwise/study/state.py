"""Where a study stands: the state that its recorded events lead to. They are facts, nothing is computed again."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from roundwise.arrays import Floats, Plain, Unreadable
from roundwise.contract import check_answer
from roundwise.deadline import check_deadline
from roundwise.errors import DataError, InputError
from roundwise.ingest import Results, batch_of, of_arms, whole_of
from roundwise.ingest.row_checks import RowChecks
from roundwise.model.batch import Batch
from roundwise.model.problem import Record, Trial, check_whole_number, final_answer
from roundwise.noise.base import Outcome
from roundwise.policies.base import apportion_pulls, round_of
from roundwise.store import Entry, EventKind
from roundwise.study import fold
from roundwise.study.amendments import Change, names_after, with_arms
from roundwise.study.fold import ArmResults, Round, StudySummary
from roundwise.study.spec import StudySpec

# what a record that was changed by hand may raise when it is replayed
WRONG = (ArithmeticError, AssertionError, AttributeError, InputError, LookupError, TypeError, ValueError)


def replay(entries: Sequence[Entry], read_all: Callable[[], Sequence[Entry]] | None = None) -> State:
    """The state of a study from its entries: all, or the first and those from a checkpoint on.

    Args:
        entries: of the log, in order.
        read_all: reads the whole log when something before the checkpoint is needed.

    Returns:
        The state after the last entry.
    """
    first = entries[0]
    try:
        spec = StudySpec.from_json(first.payload)
        if list(spec.arms) != first.payload["arms"]:
            raise TypeError("names of arms")
        state = State(first.study, spec, str(first.at))
    except InputError as error:  # a sentence, for instance on a module that is not imported
        raise DataError(f"The study '{first.study}' cannot be made from its record: {error}") from None
    except (*WRONG, RecursionError) as error:
        raise _does_not_follow(first, error) from None
    state.last = first
    if read_all is not None and len(entries) > 1 and entries[1].seq > 1:
        state.read_before = lambda: replay(read_all())
    for entry in entries[1:]:
        state.apply(entry)
    return state


class State:
    """Where a study stands. What lies before its last checkpoint is read only when it is needed."""

    def __init__(self, name: str, spec: StudySpec, created: str = "") -> None:
        self.name, self.created = name, created
        self.seq = 0  # of the last entry
        self.last: Entry | None = None  # the last entry that is recorded
        self.log: Sequence[Entry] = ()  # all entries, where the whole log was read for a report
        self.first = spec  # as the study was created
        self.spec = spec
        self.decided: Plain | None = None
        self.closed: str | None = None
        self.amendments: list[Plain] = []
        self.changes: list[Change] = []
        self._past: list[ArmResults] = []  # earlier data
        self.late_files: list[ArmResults] = []  # what came after the decision
        self.remarks: list[Plain] = []
        self.stale = False  # whether all rounds must be folded anew
        self.pending_changes: list[Change] = []  # since the checkpoint
        self.files_since = 0  # files recorded since the checkpoint
        self.checkpoint: Plain | None = None  # the last one
        self.recent: list[Round] = []  # the rounds from the checkpoint on
        self.read_before: Callable[[], State] | None = None  # reads the whole log; None if that was done
        self._trial: Trial | None = fold.start_trial(spec)
        self._summary: StudySummary | None = fold.start_summary(spec)

    # --- events

    def apply(self, entry: Entry) -> None:
        """Bring the state up to date with one more event."""
        check_deadline()
        if entry.kind not in self._EVENTS:
            raise DataError(
                f"Entry {entry.seq} of '{self.name}' is a '{entry.kind}', which this version does not know. "
                "Upgrade with `pip install --upgrade roundwise`."
            )
        try:
            if not isinstance(entry.payload, dict):
                raise TypeError("no payload")
            self._EVENTS[EventKind(entry.kind)](self, entry.legible, entry)
        except WRONG as error:
            raise _does_not_follow(entry, error) from None
        self.seq = entry.seq
        if entry.digest:
            self.last = entry

    def _apply_asked(self, payload: Plain, entry: Entry) -> None:
        arms, planned = len(self.spec.arms), payload["planned"]
        number = check_whole_number("round", payload["round"], 1)
        if number != self.number + 1:
            raise ValueError("rounds are numbered one after the other")
        if self.open_round is not None:
            raise ValueError("the round before is open")
        self.recent.append(
            Round(
                number,
                fold.read_pulls(payload["pulls"], arms),
                arms=self.spec.arms,
                planned=None if planned is None else fold.read_pulls(planned, arms),
                by_number=bool(payload["by_number"]),
                since=str(entry.at),
                design=self.spec.design,
            )
        )
        self._place_entries(self.recent[-1])

    def _apply_told(self, payload: Plain, entry: Entry) -> None:
        open_ = self.recent[-1]
        open_.set_files([*open_.files, self._read_results(open_.arms, payload["results"])])
        open_.rows = fold.list_rows(self.spec, open_)
        self.files_since += 1

    def _apply_round_closed(self, payload: Plain, entry: Entry) -> None:
        self.recent[-1].closed_early = str(payload["why"])

    def _apply_checkpoint(self, payload: Plain, entry: Entry) -> None:
        for key in ("state", "rules"):
            payload[key]
        spec, summary = payload["spec"], payload["summary"]
        self.spec = self.first if spec is None else StudySpec.from_json(spec)
        amendment = ("name", "round", "replaces", "why", "withdrawn")
        self.amendments = [fold.pick_keys(each, amendment) for each in payload["amendments"]]
        self.changes = [Change.from_payload(each) for each in payload["changes"]]
        self.remarks = [fold.pick_keys(each, ("at", "by", "text")) for each in payload["remarks"]]
        last, passed = int(payload["round"]), set(summary["late_rounds"])
        if int(payload["last_folded"]) < last:
            raise ValueError("no round was counted")
        for each in self.recent:
            seen = each.number <= last and each.number not in passed
            each.counted = seen and (each.counted or each.complete)  # what was complete stays so
        open_ = payload["open_round"]
        if open_ is not None and (not self.recent or self.recent[-1].number < open_["number"]):
            self.recent.append(Round.from_payload(open_, self.spec.arms))
        if not all(isinstance(payload[name], int) for name in ("last_folded", "past_files")):
            raise ValueError("a checkpoint whose counts are not numbers")
        self.checkpoint, self._trial, self._summary = payload, None, None  # read when they are needed
        self.stale, self.pending_changes, self.files_since = False, [], 0
        if open_ is not None:
            self._place_entries(self.recent[-1])

    def _apply_decided(self, payload: Plain, entry: Entry) -> None:
        if not isinstance(payload["answer_text"], str):
            raise TypeError("no answer")
        question, arms = self.spec.question, self.spec.arms
        check_answer(question, arms, payload["answer"], question.answer_to_json(question.answer(np.zeros(len(arms)))))
        self.decided = payload

    def _apply_told_late(self, payload: Plain, entry: Entry) -> None:
        self.late_files.append((self.spec.arms, self._read_results(self.spec.arms, payload["results"])))
        self.files_since += 1

    def _apply_amended(self, payload: Plain, entry: Entry) -> None:
        """Replace results by the corrected ones; counted rounds must be folded again."""
        old, corrected = payload["replaces"], payload["results"]
        here = any(file.digest == old for each in self.recent for file in each.files)
        for each in self.recent if here else self.rounds:
            if not any(file.digest == old for file in each.files):
                continue
            complete, files = each.complete, list[Results]()
            for file in each.files:
                if file.digest != old:
                    files.append(file)
                elif corrected is not None:
                    new = self._read_results(each.arms, corrected)
                    files.append(dataclasses.replace(new, same_call=file.same_call))
                    self.files_since += 1
            each.set_files(files)
            each.amended |= complete  # what was complete stays so
            self.stale |= complete
        for each in self.recent:
            each.set_files([file.reconciled(old) for file in each.files])
            each.rows = fold.list_rows(self.spec, each)
        kept = {key: payload[key] for key in ("name", "round", "replaces", "why")}
        self.amendments.append({**kept, "withdrawn": corrected is None})
        self.decided = None

    def _apply_arm_changed(self, payload: Plain, entry: Entry) -> None:
        change = Change.from_payload({**payload, "kind": entry.kind})
        self.changes.append(change)
        self.stale |= change.unrelated
        if not change.unrelated:
            self.pending_changes.append(change)
        if (open_ := self.open_round) is None:
            return
        # the open round has no results: it is asked of the present arms
        names = with_arms(self.spec, names_after(self.spec, change)).arms
        pulls = of_arms(Batch(open_.pulls, open_.pulls), open_.arms, names).counts
        if change.kind == "dropped" and change.arm in names:
            gone, left_out = np.array(names) == change.arm, np.isin(names, self.spec.left_out)
            others = np.where(gone, 0.0, pulls)
            if np.count_nonzero(others) <= 1:  # if only one arm is left, the others get what the dropped one had
                back = ~gone & ~left_out & (others == 0)
                others += np.where(back, np.ceil(pulls[gone].sum() / max(np.count_nonzero(back), 1)), 0.0)
            pulls = others
        open_.pulls, open_.arms, open_.planned, open_.entries = pulls, names, None, None

    def _apply_relaxed(self, payload: Plain, entry: Entry) -> None:
        """Discard decisions and wealth; the open round, without results, stays as asked."""
        change = Change.from_payload({**payload, "kind": entry.kind, "arm": "", "unrelated": False})
        self.changes.append(change)
        self.pending_changes.append(change)
        self.decided = None

    def _apply_extended(self, payload: Plain, entry: Entry) -> None:
        self._apply_redesigned({**self.spec.design, **payload}, entry)

    def _apply_redesigned(self, payload: Plain, entry: Entry) -> None:
        open_, trial = self.open_round, self.trial
        spec, trial = fold.redesign(self.spec, trial, payload, open_)
        if open_ is not None and not open_.files:
            open_.design = spec.design
        self.put(spec, trial, self.summary)
        self.decided = None  # what was shown stays shown, and open claims continue

    def _apply_past_imported(self, payload: Plain, entry: Entry) -> None:
        spec = self.spec
        if self.read_before is not None and not self._past:  # those before the checkpoint are past data, too
            self._past = self.read_before().past[: self.past_files]
        self._past.append((spec.arms, self._read_results(spec.arms, payload["results"])))
        self.put(spec, fold.start_trial(spec, self._past), fold.start_summary(spec, self._past))

    def _apply_noted(self, payload: Plain, entry: Entry) -> None:
        self.remarks.append({"at": str(entry.at), "by": entry.by, "text": str(payload["text"])})

    def _apply_closed(self, payload: Plain, entry: Entry) -> None:
        self.closed = str(payload["why"])

    def _apply_reopened(self, payload: Plain, entry: Entry) -> None:
        self.closed = None

    def _place_entries(self, open_: Round) -> None:
        """Set the entries of a list that a round asks for, and their recorded results."""
        if self.spec.list is not None:
            open_.entries = fold.asked_entries(self.spec, self.trial, open_.pulls)
            open_.rows = fold.list_rows(self.spec, open_)
            open_.order = self.spec.list.ordered(self.spec.seed)

    def _read_results(self, arms: tuple[str, ...], payload: Plain) -> Results:
        """The results of a file for the arms at that time; a ValueError if they are impossible."""
        results = Results.from_payload(payload)
        if len(results.counts) != len(arms):
            raise ValueError("results of other arms")
        for spec, each in zip((self.spec, *self.spec.by_metric), (results, *results.metrics), strict=True):
            _check_possible(each, spec.noise.outcome)
        return results

    _EVENTS = {  # noqa: RUF012 - the events that may follow the first, `created`
        EventKind.ASKED: _apply_asked,
        EventKind.TOLD: _apply_told,
        EventKind.ROUND_CLOSED: _apply_round_closed,
        EventKind.CHECKPOINT: _apply_checkpoint,
        EventKind.DECIDED: _apply_decided,
        EventKind.TOLD_LATE: _apply_told_late,
        EventKind.AMENDED: _apply_amended,
        EventKind.DROPPED: _apply_arm_changed,
        EventKind.ADDED: _apply_arm_changed,
        EventKind.RELAXED: _apply_relaxed,
        EventKind.EXTENDED: _apply_extended,
        EventKind.REDESIGNED: _apply_redesigned,
        EventKind.PAST_IMPORTED: _apply_past_imported,
        EventKind.NOTED: _apply_noted,
        EventKind.CLOSED: _apply_closed,
        EventKind.REOPENED: _apply_reopened,
    }

    # --- the trial

    @property
    def trial(self) -> Trial:
        """The trial: results so far, next plan, and whether it may stop."""
        if self._trial is None:
            assert self.checkpoint is not None
            try:
                self._trial = fold.restore_trial(self.spec, self.checkpoint)
            except Unreadable:  # of a version whose state this one does not know: its rounds are facts
                done = [each for each in self.rounds if each.counted or each.number in self.summary.late_rounds]
                self.spec, self._trial, summary = fold.fold_rounds(
                    self.first, done, self.changes, self._past, self.spec.design
                )
                self._summary = dataclasses.replace(summary, files=self.summary.files, refolded=True)
                for each in done:
                    each.counted = each.number not in summary.late_rounds
        return self._trial

    @property
    def summary(self) -> StudySummary:
        """Facts about the rounds that count."""
        if self._summary is None:
            assert self.checkpoint is not None
            try:
                self._summary = StudySummary.from_payload(self.checkpoint["summary"], len(self.spec.arms))
            except (AttributeError, LookupError, TypeError, Unreadable, ValueError) as error:
                raise DataError(
                    f"The last checkpoint of '{self.name}' cannot be read ({type(error).__name__}). Restore the study "
                    "from a backup or an export."
                ) from None
        return self._summary

    def put(self, spec: StudySpec, trial: Trial, summary: StudySummary) -> None:
        """Replace the trial, with its spec and summary."""
        self.spec, self._trial, self._summary = spec, trial, summary

    def fold(self) -> Plain:
        """Fold what is complete (all anew, where that is needed).

        Returns:
            The payload of the checkpoint to record.
        """
        files = self.files
        if self.stale:
            spec, trial, summary = fold.fold_rounds(self.first, self.rounds, self.changes, self._past, self.spec.design)
            self.put(spec, trial, dataclasses.replace(summary, refolded=self.summary.refolded))
        for change in self.pending_changes:
            done = [each for each in self.rounds if each.counted]
            self.put(*fold.make_change(self.spec, self.trial, self.summary, change, done))
        for each in [] if self.stale else self._complete:
            trial, summary, _ = fold.fold_round(self.spec, self.trial, self.summary, each)
            self.put(self.spec, trial, summary)
        self._summary = dataclasses.replace(self.summary, files=files)
        open_ = self.open_round
        return fold.checkpoint_payload(
            self.spec,
            self.trial,
            self.summary,
            {
                "last_folded": next((each.number for each in reversed(self.recent) if each.complete), self._through),
                "spec": None if self.spec == self.first else self.spec.to_json(),
                "open_round": None if open_ is None else open_.payload(),
                "amendments": self.amendments,
                "changes": [each.payload() for each in self.changes],
                "past_files": self.past_files,
                "remarks": self.remarks,
            },
        )

    @property
    def ready(self) -> bool:
        """Whether there is something to fold."""
        return self.decided is None and (self.stale or bool(self.pending_changes) or bool(self._complete))

    @property
    def _complete(self) -> list[Round]:
        return [each for each in self.unfolded if each.complete]

    @property
    def _through(self) -> int:
        """The number of the last round that was folded, also if it was not counted because all was decided."""
        return 0 if self.checkpoint is None else int(self.checkpoint["last_folded"])

    def verdict(self) -> Plain | None:
        """The answer as the payload of an event, if there is one."""
        if not self.trial.done:
            return None
        question, record = self.spec.question, self.trial.record
        answer = final_answer(self.spec.problem, self.spec.policy, self.trial)
        return {
            "answer": question.answer_to_json(answer),
            "answer_text": self.spec.policy.stopping.answer_text(self.spec.problem, self.trial, self.spec.arms),
            "rounds": int(record.batches),
            "samples": int(record.samples),
        }

    # --- rounds

    @property
    def rounds(self) -> list[Round]:
        """All rounds; the log is read from its beginning, if that was not done."""
        if self.read_before is not None:
            before, self.read_before = self.read_before(), None
            known = {each.number for each in self.recent}
            self.recent = [*(each for each in before.recent if each.number not in known), *self.recent]
            self._past = self._past or before.past
        return self.recent

    @property
    def past(self) -> list[ArmResults]:
        """Earlier data, also if they lie before the checkpoint."""
        if self.past_files and not self._past:
            self.rounds  # noqa: B018 (reads the log)
        return self._past

    @property
    def past_files(self) -> int:
        """The number of files of earlier data, also if they lie before the checkpoint and were not read."""
        return len(self._past) or (0 if self.checkpoint is None else int(self.checkpoint["past_files"]))

    @property
    def number(self) -> int:
        """The number of the last round that was asked for; 0 before the first."""
        return self.recent[-1].number if self.recent else self.summary.rounds

    @property
    def open_round(self) -> Round | None:
        """The round whose results are not complete, if any."""
        return self.recent[-1] if self.recent and not self.recent[-1].complete else None

    @property
    def ended(self) -> bool:
        """Whether it is decided, so that all further results come after the decision."""
        return self.decided is not None or bool(self.trial.done)

    @property
    def awaited_round(self) -> Round | None:
        """The open round, unless the study is closed or decided: nothing counts as its part then."""
        return None if self.closed is not None or self.open_round is None or self.ended else self.open_round

    @property
    def partial_round(self) -> Round | None:
        """The open round, if it has results; after a decision these are late results."""
        open_ = self.open_round
        return None if open_ is None or not open_.files or self.ended else open_

    @property
    def files(self) -> int:
        """Files ever recorded, also those that were corrected or withdrawn."""
        return self.summary.files + self.files_since

    @property
    def batches(self) -> list[Batch]:
        """The rounds that count as batches, and what came after the decision, for the arms there are now.

        Those from before the noise model changed are no evidence any more.
        """
        rounds = [each for each in self.rounds if each.counted or self.after_decision(each)]
        rounds = [each for each in rounds if self.relaxed is None or each.number > self.relaxed.after]
        found = [of_arms(each.batch, each.arms, self.spec.arms) for each in rounds]
        return [*found, *(of_arms(batch_of([each]), names, self.spec.arms) for names, each in self.late_files)]

    def after_decision(self, round: Round) -> bool:
        """Whether a round has results that came after the one that decides."""
        return bool(round.files) and not round.counted and (round.number in self.summary.late_rounds or self.ended)

    @property
    def late_sums(self) -> Batch:
        """The sums of all that came after the decision, for the arms there are now."""
        arms, kept = self.spec.arms, (self.facts if self.ended else self.summary).late_sums
        counts, totals = (np.array([kept.get(arm, fold.ArmTotal())[k] for arm in arms]) for k in (0, 1))
        for names, each in self.late_files:
            one = of_arms(whole_of([each]), names, arms)
            counts, totals = counts + one.counts, totals + one.totals
        return Batch(counts, totals)

    @property
    def record(self) -> Record:
        """Everything that came back: what the decision has seen, and what came after it."""
        return self.trial.record.plus(self.late_sums)

    @property
    def measured(self) -> Record:
        """The same, with the results of arms that were known before the study."""
        items, found = self.spec.list, self.record
        if items is None or not items.known:
            return found
        counts, totals = np.zeros_like(found.counts), np.zeros_like(found.totals)
        for arm in items.known_arms(self.spec.arms):
            counts[arm], totals[arm] = len(items), items.repeats * sum(items.known[self.spec.arms[arm]])
        return found.plus(Batch(counts, totals))

    @property
    def unfolded(self) -> Sequence[Round]:
        """The rounds that are not in the summary."""
        return [each for each in self.recent if not each.counted and each.number > self._through]

    @property
    def facts(self) -> StudySummary:
        """The summary, with what files brought for the rounds that are not in it yet."""
        found, late = self.summary, self.ended
        for each in self.unfolded:
            if each.files or not late:
                found = found.plus(each, late)
        return found

    @property
    def contradicted(self) -> int:
        """Counted results that later files contradict."""
        found = self.facts.contradicted
        for _, file in self.late_files:
            found = fold.with_contradicted(found, file)
        gone = {each["replaces"][: fold.SHORT] for each in self.amendments}
        return sum(rows for digest, rows in found.items() if digest not in gone)

    @property
    def row_checks(self) -> RowChecks:
        """The row checks, including rows recorded after the decision."""
        found, arms = self.summary.row_checks, self.spec.arms
        for names, file in self.late_files:
            found = found.plus(self.spec.noise, [file], names, arms)
        return found

    @property
    def relaxed(self) -> Change | None:
        """The change that relaxed the study to large-sample, if any."""
        return next((each for each in self.changes if each.kind == "relaxed"), None)

    def spec_at(self, round: int) -> StudySpec:
        """The spec with the noise model and the design of a round."""
        design = next((each.design for each in self.recent if each.number == round), None)
        spec = self.spec if design is None or design == self.spec.design else self.spec.with_design(design)
        if self.relaxed is None or round > self.relaxed.after:
            return spec
        return dataclasses.replace(spec, noise=self.first.noise)

    # --- what comes next

    @property
    def planned(self) -> Floats:
        """The next round, within the rest of the budget, without the arms that are left out."""
        pulls, out = self.trial.plan.pulls, self.spec.left_out
        if not out:
            return pulls
        stays = ~np.isin(self.spec.arms, out)
        wanted = np.where(stays, pulls if pulls[stays].any() else 1.0, 0.0)
        return apportion_pulls(wanted * pulls.sum(), float(pulls.sum()), 0.0)

    @property
    def whole_plan(self) -> Floats:
        """The next round as it would be without a budget."""
        return round_of(self.trial.plan).plan.pulls

    @property
    def over(self) -> str | None:
        """Why the study is over without an answer although it was not closed."""
        if self.open_round is not None or self.trial.done or self.decided is not None:
            return None
        policy, budget, cost = self.spec.policy, self.spec.budget, self.spec.max_cost
        needs = f"the rule of {policy.name} needs every round just as it was planned"
        if self.spec.acting.stopping.broken(self.spec.problem, self.trial):
            if self.spec.list is not None:
                return "the list is used up, and requests that failed leave the answer open"
            return f"{self.summary.deviation or 'a round did not come back as it was planned'}, and {needs}"
        if policy.stopping.exact_batches and not np.array_equal(self.planned, whole := self.whole_plan):
            most = f"budget of {budget} results" if cost is None else f"maximum cost of {cost:g}"
            return f"the {most} does not cover the next round of {int(whole.sum())} results, and {needs}"
        if self.planned.any():
            return None
        return (
            f"the budget of {budget} results is used up"
            if cost is None
            else f"another {'round' if self.spec.list is None else 'item'} would cost more than {cost:g} in all"
        )

    def of_metric(self, metric: int) -> State:
        """The same study by one of its further metrics, to be looked at: its claims, noise model and results."""
        found, before = copy.copy(self), self.read_before
        found.spec, found.first = self.spec.by_metric[metric], self.first.by_metric[metric]
        found.recent = [each.of_metric(metric) for each in self.recent]
        found.read_before = None if before is None else lambda: before().of_metric(metric)
        found.late_files = [(names, each.metrics[metric]) for names, each in self.late_files]
        found._past = [(names, each.metrics[metric]) for names, each in self._past]
        kept = self.trial.kept.metrics[metric]
        record = Record(kept.past.counts, kept.past.totals, self.trial.record.batches)
        found._trial = self.trial._replace(record=record, kept=kept)
        found._summary = self.summary.metrics[metric]
        found.amendments, found.changes, found.remarks, found.pending_changes = [], [], [], []
        return found

    def holds(self, digest: str) -> int | None:
        """The round in which a file of these contents was recorded, as far as rounds were read."""
        return next((each.number for each in self.recent if any(file.digest == digest for file in each.files)), None)


def _check_possible(results: Results, outcome: Outcome) -> None:
    """Raise a ValueError where there cannot be such results."""
    with np.errstate(invalid="ignore"):
        slack = 1e-9 * (1.0 + np.abs(results.totals))
        low, high = (np.where(results.counts > 0, results.counts * end, 0.0) for end in (outcome.low, outcome.high))
        wrong = (results.totals < low - slack).any() or (results.totals > high + slack).any()
    values = results.values or ()
    if wrong or any(((each < outcome.low) | (each > outcome.high)).any() for each in values):
        raise ValueError("results that there cannot be")


def _does_not_follow(entry: Entry, error: BaseException) -> DataError:
    return DataError(
        f"Entry {entry.seq} of '{entry.study}', a '{entry.kind}' by roundwise {entry.version}, cannot be replayed: it "
        f"does not follow from the entries before it ({type(error).__name__}). The record was changed, or "
        "written before its format was frozen (1.0.0); such studies cannot be read."
    )
