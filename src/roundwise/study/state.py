"""Where a study stands: the state that its recorded events lead to. They are taken as facts, nothing is recomputed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, Plain
from roundwise.contract import check_answer
from roundwise.deadline import check_deadline
from roundwise.errors import DataError, InputError
from roundwise.ingest import Repeats, Results, batch_of
from roundwise.messages import FileNote
from roundwise.model.batch import Batch, Record, Trial
from roundwise.model.problem import check_whole_number
from roundwise.model.trial import cannot_stop, final_answer
from roundwise.noise import Noise
from roundwise.policies.base import limited
from roundwise.policies.rounds import round_of
from roundwise.serialization import Unreadable
from roundwise.store import Entry
from roundwise.study import fold
from roundwise.study.amendments import Change, changed, names_after, with_arms
from roundwise.study.events import Asked, of_arms, pulls_of
from roundwise.study.fold import (
    SHORT,
    SoFar,
    Surplus,
    deals_rows,
    having,
    shares_items,
    shortfall,
    sums_only,
    with_contradicted,
    with_lost,
    with_notes,
    with_sketches,
)
from roundwise.study.spec import StudySpec


class Waiting(NamedTuple):
    """What was told of the open batch, and is not counted yet."""

    batch: int
    files: int
    counts: Floats  # (K)
    means: Floats  # (K), 0 for an arm without results
    results: int


class State:
    """Where a study stands. What lies before its last checkpoint is read only when it is asked for."""

    def __init__(self, name: str, settings: StudySpec, trial: Trial, created: str, seq: int = 0) -> None:
        self.name, self.created, self.seq = name, created, seq
        self.first = settings  # as the study was created
        self.settings = settings
        self.decided: Plain | None = None
        self.closed: str | None = None
        self.amendments: list[Plain] = []
        self.changes: list[Change] = []
        self.taught: list[tuple[tuple[str, ...], Results]] = []  # earlier data, with the names of their arms
        self.later: list[tuple[tuple[str, ...], Results]] = []  # what came after the decision
        self.remarks: list[Plain] = []
        self.stale = False  # whether all batches must be counted anew
        self.pending: list[Change] = []  # changes that what was won was not carried over yet
        self.files_since = 0  # files told since the checkpoint
        self.checkpoint: Plain | None = None  # the last entry `counted`
        self.recent: list[Asked] = []  # the batches from the checkpoint on that it was read from
        self.whole: Callable[[], State] | None = None  # reads all of the log; None if that was done
        self._trial: Trial | None = trial
        self._so_far: SoFar | None = fold.begun(settings)

    @property
    def trial(self) -> Trial:
        """What came back, what is planned next, and whether it may stop."""
        if self._trial is None:
            assert self.checkpoint is not None
            try:
                self._trial = fold.restored(self.settings, self.checkpoint)
            except Unreadable:  # of a version whose state this one does not know: its batches are facts
                done = [each for each in self.asked if each.counted or each.number in self.so_far.passed]
                self.settings, self._trial, so_far = fold.folded(
                    self.first, done, self.changes, self.taught, self.settings.budget
                )
                self._so_far = dataclasses.replace(so_far, files=self.so_far.files, refolded=True)
                for each in done:
                    each.counted = each.number not in so_far.passed
        return self._trial

    @property
    def so_far(self) -> SoFar:
        """Facts about the batches that count."""
        if self._so_far is None:
            assert self.checkpoint is not None
            try:
                self._so_far = SoFar.from_payload(self.checkpoint["so_far"])
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise DataError(
                    f"The last 'counted' of '{self.name}' cannot be read ({type(error).__name__}). Restore the study "
                    "from a backup or an export."
                ) from None
        return self._so_far

    def becomes(self, settings: StudySpec, trial: Trial, so_far: SoFar) -> None:
        """Put a trial in the place of the old one, with the facts that go with it."""
        self.settings, self._trial, self._so_far = settings, trial, so_far

    def returns(self, payload: Plain) -> None:
        """Go on from a checkpoint; what it holds is looked at when it is needed."""
        self.checkpoint, self._trial, self._so_far = payload, None, None
        self.stale, self.pending, self.files_since = False, [], 0

    @property
    def asked(self) -> list[Asked]:
        """All batches; the log is read from its beginning, if that was not done."""
        if self.whole is not None:
            before, self.whole = self.whole(), None
            known = {each.number for each in self.recent}
            self.recent = [*(each for each in before.recent if each.number not in known), *self.recent]
            self.taught = self.taught or before.taught
        return self.recent

    @property
    def lessons(self) -> Sequence[tuple[tuple[str, ...], Results]]:
        """Earlier data, also if they lie before the checkpoint."""
        if self.lessons_number and not self.taught:
            self.asked  # noqa: B018 (reads the log)
        return self.taught

    @property
    def lessons_number(self) -> int:
        """How many earlier data there are, also if they lie before the checkpoint and were not read."""
        return len(self.taught) or (0 if self.checkpoint is None else int(self.checkpoint.get("taught", 0)))

    @property
    def number(self) -> int:
        """Of the last batch that was asked for; 0 before the first."""
        return self.recent[-1].number if self.recent else self.so_far.batches

    @property
    def outstanding(self) -> Asked | None:
        """The batch that is waited for, if any."""
        return self.recent[-1] if self.recent and not self.recent[-1].complete else None

    @property
    def ended(self) -> bool:
        """Whether it is decided, so that whatever comes, or came of later batches, comes after the decision."""
        return self.decided is not None or bool(self.trial.done)

    @property
    def awaited(self) -> Asked | None:
        """The open batch, unless nothing is waited for any more: nothing counts as its part then."""
        return None if self.closed is not None or self.outstanding is None or self.ended else self.outstanding

    @property
    def waiting(self) -> Waiting | None:
        """What was told of the open batch, if anything; once all is decided it came after that."""
        asked = None if self.outstanding is None or self.ended else self.outstanding
        if asked is None or not asked.files:
            return None
        batch = asked.whole
        means = batch.totals / np.maximum(batch.counts, 1.0)
        return Waiting(asked.number, len(asked.files), batch.counts, means, int(batch.counts.sum()))

    @property
    def ready(self) -> bool:
        """Whether there is something to count."""
        return self.decided is None and (self.stale or bool(self.pending) or bool(self._ready))

    @property
    def _ready(self) -> list[Asked]:
        new = [each for each in self.recent if not each.counted and each.number > self._folded]
        return [each for each in new if each.complete]

    @property
    def _folded(self) -> int:
        """The number of the last batch that was looked at, also if it was not counted because all was decided."""
        return 0 if self.checkpoint is None else int(self.checkpoint["through"])

    def count(self) -> Plain:
        """Count what is complete (all anew, where that is needed), and what to record of it."""
        files = self.files
        if self.stale:
            found = fold.folded(self.first, self.asked, self.changes, self.taught, self.settings.budget)
            self.becomes(found[0], found[1], dataclasses.replace(found[2], refolded=self.so_far.refolded))
        for change in self.pending:
            done = [each for each in self.asked if each.counted]
            settings, trial = changed(self.settings, self.trial, change, fold.past_of(done))
            so_far = dataclasses.replace(self.so_far, agreement=fold.agreed(settings, done))
            self.becomes(settings, trial, so_far)
        for asked in [] if self.stale else self._ready:
            if self.trial.done:
                late = self.so_far.passing(self.settings.problem, self.settings.arms, asked)
                self.becomes(self.settings, self.trial, late)
            else:
                self.becomes(self.settings, *fold.counted(self.settings, self.trial, self.so_far, asked))
        self.becomes(self.settings, self.trial, dataclasses.replace(self.so_far, files=files))
        return fold.entry(self.settings, self.trial, self.so_far, self._extra())

    def _extra(self) -> Plain:
        """The facts that are not about counted batches."""
        waiting = self.outstanding
        return {
            "through": next((each.number for each in reversed(self.recent) if each.complete), self._folded),
            "settings": None if self.settings == self.first else self.settings.to_json(),
            "open": None if waiting is None else waiting.payload(),
            "amendments": self.amendments,
            "changes": [each.payload() for each in self.changes],
            "taught": self.lessons_number,
            "remarks": self.remarks,
        }

    @property
    def files(self) -> int:
        """How many files were ever recorded, also those that were corrected or withdrawn."""
        return self.so_far.files + self.files_since

    @property
    def batches(self) -> list[Batch]:
        """The batches that count, and what came after the decision, for the arms there are now."""
        rounds = [each for each in self.asked if each.counted or self.after_decision(each)]
        found = [of_arms(each.batch, each.arms, self.settings.arms) for each in rounds]
        return [*found, *(of_arms(batch_of([each]), names, self.settings.arms) for names, each in self.later)]

    def after_decision(self, asked: Asked) -> bool:
        """Whether a batch has results that came after the one that decides, by what was recorded last."""
        return bool(asked.files) and not asked.counted and (asked.number in self.so_far.passed or self.ended)

    @property
    def late(self) -> Batch:
        """The sums of all that came after the decision, for the arms there are now."""
        arms, kept = self.settings.arms, self.so_far.late
        sums = [kept.get(arm, (0.0, 0.0)) for arm in arms]
        counts, totals = (np.array([each[k] for each in sums]) for k in (0, 1))
        more = [(each.arms, each.whole) for each in self.uncounted if self.after_decision(each)]
        for names, batch in [*more, *((names, batch_of([each])) for names, each in self.later)]:
            one = of_arms(batch, names, arms)
            counts, totals = counts + one.counts, totals + one.totals
        return Batch(counts, totals)

    @property
    def record(self) -> Record:
        """Everything that came back: what the decision has seen, and what came after it."""
        return self.trial.record.plus(self.late)

    @property
    def short(self) -> list[Plain]:
        """The batches that were closed although results were missing."""
        new = [shortfall(each) for each in self.uncounted if each.short]
        return [*(dict(each) for each in self.so_far.short), *new]

    @property
    def lost(self) -> dict[str, int]:
        """How many results have no outcome, by the name of the arm."""
        lost = dict(self.so_far.lost)
        for each in self.uncounted:
            lost = with_lost(lost, each)
        return lost

    @property
    def contradicted(self) -> int:
        """How many results that count are contradicted by files that were told after them."""
        found = self.so_far.contradicted
        for each in self.uncounted:
            found = with_contradicted(found, each.files)
        found = with_contradicted(found, [each for _, each in self.later])
        gone = {each["replaces"][:SHORT] for each in self.amendments}
        return sum(rows for digest, rows in found.items() if digest not in gone)

    @property
    def notes(self) -> list[FileNote]:
        """What was said about files, each once."""
        notes = self.so_far.notes
        for each in self.uncounted:
            notes = with_notes(notes, each)
        return list(notes)

    @property
    def sums_only(self) -> bool:
        """Whether a file told no rows."""
        return self.so_far.sums_only or any(sums_only(each) for each in self.uncounted)

    @property
    def shares_items(self) -> bool:
        """Whether several arms were tried on the same items."""
        return self.so_far.shared or any(shares_items(each) for each in self.uncounted)

    @property
    def repeats(self) -> list[Repeats]:
        """How values of columns repeat that look like identifiers and were not declared."""
        every = reduce(with_sketches, self._undecided, dict(self.so_far.sketches))
        found = (sketch.repeats(title) for title, sketch in every.items())
        return [each for each in found if each is not None]

    @property
    def surplus(self) -> Surplus:
        """Results beyond what was asked for that were told after others of the same batch."""
        return reduce(Surplus.plus, self._undecided, self.so_far.surplus)

    @property
    def deals_rows(self) -> bool:
        """Whether the order of rows decided which part each was dealt to, given the seed."""
        return self.so_far.dealt or any(deals_rows(each) for each in self._undecided)

    @property
    def _undecided(self) -> Sequence[Asked]:
        """The batches whose facts `so_far` does not have, unless they came after the decision."""
        return [] if self.ended else self.uncounted

    @property
    def uncounted(self) -> Sequence[Asked]:
        """The batches whose facts `so_far` does not have."""
        return [each for each in self.recent if not each.counted and each.number > self._folded]

    @property
    def planned(self) -> Floats:
        """The next batch, within what is left of the budget, without the arms that are left out."""
        pulls, out = self.trial.plan.pulls, self.settings.left_out
        if not out:
            return pulls
        stays = ~np.isin(self.settings.arms, out)
        wanted = np.where(stays, pulls if pulls[stays].any() else 1.0, 0.0)
        return limited(wanted * pulls.sum(), float(pulls.sum()), 0.0)

    @property
    def whole_plan(self) -> Floats:
        """The next batch as it would be without a budget."""
        return round_of(self.trial.plan).plan.pulls

    @property
    def spent(self) -> bool:
        """Whether the budget ends the study before it is decided."""
        return self.outstanding is None and not self.trial.done and not self.planned.any()

    @property
    def broken(self) -> bool:
        """Whether the rule decides no more, because a batch came back otherwise than it was planned."""
        return bool(cannot_stop(self.settings.problem, self.settings.acting, self.trial))

    @property
    def over(self) -> str | None:
        """Why nothing more is asked for although there is no answer and nobody closed the study."""
        if self.outstanding is not None or self.trial.done or self.decided is not None:
            return None
        policy, budget = self.settings.policy, self.settings.budget
        needs = f"the rule of {policy.name} needs every round just as it was planned"
        if self.broken:
            return f"{self.so_far.other or 'a round did not come back as it was planned'}, and {needs}"
        if policy.stopping.exact_batches and not np.array_equal(self.planned, whole := self.whole_plan):
            return f"the budget of {budget} results does not cover the next round of {int(whole.sum())}, and {needs}"
        return f"the budget of {budget} results is used up" if self.spent else None

    def holds(self, digest: str) -> int | None:
        """The batch in which a file of these contents was recorded, as far as batches were read."""
        for asked in self.recent:
            if any(each.digest == digest for each in asked.files):
                return asked.number
        return None

    def verdict(self) -> Plain | None:
        """The answer as an entry, if there is one."""
        if not self.trial.done:
            return None
        problem, policy = self.settings.problem, self.settings.policy
        answer = final_answer(problem, policy, self.trial)
        return {
            "answer": self.settings.question.answer_to_json(answer),
            "words": self.settings.question.answer_text(answer, self.settings.arms),
            "batches": int(self.trial.record.batches),
            "samples": int(self.trial.record.samples),
        }


WRONG = (ArithmeticError, AssertionError, AttributeError, InputError, LookupError, TypeError, ValueError)


def replayed(entries: Sequence[Entry], earlier: Callable[[], Sequence[Entry]] | None = None) -> State:
    """The state of a study from its entries: all, or the first and those from a checkpoint on.

    `earlier` then reads all entries, when it is asked what lies before.
    """
    first = entries[0]
    state = _created(first)
    if earlier is not None and len(entries) > 1 and entries[1].seq > 1:
        state.whole = lambda: replayed(earlier())
    for entry in entries[1:]:
        apply(state, entry)
    return state


def apply(state: State, entry: Entry) -> None:
    """Bring a state up to date with one more entry."""
    check_deadline()
    try:
        payload = entry.payload
        if not isinstance(payload, dict):
            raise TypeError("no payload")
        KINDS[entry.kind](state, payload, entry)
    except WRONG as error:
        if entry.kind not in KINDS:
            raise DataError(
                f"Entry {entry.seq} of '{state.name}' is a '{entry.kind}', which this version does not know. "
                "Upgrade with `pip install --upgrade roundwise`."
            ) from None
        raise _senseless(state.name, entry, error) from None
    state.seq = entry.seq


def begun(name: str, settings: StudySpec, created: str = "") -> State:
    """A study that was just created."""
    return State(name, settings, fold.started(settings), created)


def _created(entry: Entry) -> State:
    try:
        settings = StudySpec.from_json(entry.payload)
        if list(settings.arms) != entry.payload["arms"]:
            raise TypeError("names of arms")
        return begun(entry.study, settings, str(entry.at))
    except InputError as error:  # a sentence, for instance on a module that is not imported
        raise DataError(f"The study '{entry.study}' cannot be made from its record: {error}") from None
    except (*WRONG, RecursionError) as error:
        raise _senseless(entry.study, entry, error) from None


def _senseless(name: str, entry: Entry, error: BaseException) -> DataError:
    return DataError(
        f"Entry {entry.seq} of '{name}', a '{entry.kind}' by roundwise {entry.version}, cannot be replayed: it does "
        f"not follow from the entries before it ({type(error).__name__})."
    )


def _asked(state: State, payload: Plain, entry: Entry) -> None:
    arms = len(state.settings.arms)
    planned = payload.get("planned")
    number = check_whole_number("batch", payload["batch"], 1)
    if number != state.number + 1:
        raise ValueError("batches are numbered one after the other")
    state.recent.append(
        Asked(
            number,
            pulls_of(payload["pulls"], arms),
            arms=state.settings.arms,
            planned=None if planned is None else pulls_of(planned, arms),
            by_number=bool(payload.get("by_number", False)),
            since=str(entry.at),
            budget=state.settings.budget,
        )
    )


def _told(state: State, payload: Plain, entry: Entry) -> None:
    state.recent[-1].files.append(_results(state.settings.noise, state.recent[-1].arms, payload["results"]))
    state.files_since += 1


def _round_over(state: State, payload: Plain, entry: Entry) -> None:
    state.recent[-1].closed_early = str(payload["why"])


def _counted(state: State, payload: Plain, entry: Entry) -> None:
    for key in ("state", "so_far", "rules"):
        payload[key]
    changed = payload["settings"]
    state.settings = state.first if changed is None else StudySpec.from_json(changed)
    state.amendments = [
        having(each, ("name", "batch", "replaces", "why", "withdrawn")) for each in payload["amendments"]
    ]
    state.changes = [Change.from_payload(each) for each in payload["changes"]]
    state.remarks = [having(each, ("at", "by", "text")) for each in payload["remarks"]]
    last = int(payload["batch"])
    through = int(payload["through"])
    passed = set(payload["so_far"].get("passed", ()))
    if through < last:
        raise ValueError("no batch was counted")
    for asked in state.recent:
        seen = asked.number <= last and asked.number not in passed
        asked.counted = seen and (asked.counted or asked.complete)  # what was complete stays so
    if payload["open"] is not None and (not state.recent or state.recent[-1].number < payload["open"]["number"]):
        state.recent.append(Asked.from_payload(payload["open"], state.settings.arms, state.settings.budget))
    state.returns(payload)


def _decided(state: State, payload: Plain, entry: Entry) -> None:
    if not isinstance(payload["words"], str):
        raise TypeError("no answer")
    _check_answer(state.settings, payload["answer"])
    state.decided = payload


def _check_answer(settings: StudySpec, answer: object) -> None:
    """Raise an error unless an answer has the form of those to the question."""
    question, arms = settings.question, settings.arms
    check_answer(question, arms, answer, question.answer_to_json(question.answer(np.zeros(len(arms)))))


def _later(state: State, payload: Plain, entry: Entry) -> None:
    state.later.append((state.settings.arms, _results(state.settings.noise, state.settings.arms, payload["results"])))
    state.files_since += 1


def _amended(state: State, payload: Plain, entry: Entry) -> None:
    """Put the corrected results in the place of the old ones; what was counted must be counted anew."""
    corrected = payload["results"]
    here = any(each.digest == payload["replaces"] for asked in state.recent for each in asked.files)
    for asked in state.recent if here else state.asked:
        for i, each in enumerate(asked.files):
            if each.digest == payload["replaces"]:
                complete = asked.complete
                asked.files[i : i + 1] = (
                    []
                    if corrected is None
                    else [replace(_results(state.settings.noise, asked.arms, corrected), together=each.together)]
                )
                asked.amended |= complete  # what was complete stays so
                state.stale |= complete
                state.files_since += corrected is not None
    for asked in state.recent:
        asked.files = [each.reconciled(payload["replaces"]) for each in asked.files]
    kept = {key: payload[key] for key in ("name", "batch", "replaces", "why")}
    state.amendments.append({**kept, "withdrawn": corrected is None})
    state.decided = None


def _changed(state: State, payload: Plain, entry: Entry) -> None:
    change = Change.from_payload({**payload, "kind": entry.kind})
    state.changes.append(change)
    state.stale |= change.unrelated
    if not change.unrelated:
        state.pending.append(change)
    if (asked := state.outstanding) is not None:  # nothing was told of it
        names = with_arms(state.settings, names_after(state.settings, change)).arms
        pulls = of_arms(Batch(asked.pulls, asked.pulls), asked.arms, names).counts
        if change.kind == "dropped" and change.arm in names:
            pulls = _without(pulls, np.array(names) == change.arm, np.isin(names, state.settings.left_out))
        asked.pulls, asked.arms, asked.planned = pulls, names, None


def _without(pulls: Floats, gone: Bools, left_out: Bools) -> Floats:
    """Of an open batch what is asked without an arm; if only one arm is left, the others get what it had."""
    others = np.where(gone, 0.0, pulls)
    if np.count_nonzero(others) > 1:
        return others
    back = ~gone & ~left_out & (others == 0)
    return others + np.where(back, np.ceil(pulls[gone].sum() / max(np.count_nonzero(back), 1)), 0.0)


def _extended(state: State, payload: Plain, entry: Entry) -> None:
    asked = state.outstanding
    if asked is not None and not asked.files:
        asked.budget = payload["budget"]
    state.becomes(*fold.extended(state.settings, state.trial, payload["budget"], asked), state.so_far)
    state.decided = None  # what was shown stays shown, and what is open goes on


def _past(state: State, payload: Plain, entry: Entry) -> None:
    if state.whole is not None and not state.taught:  # those before the checkpoint teach, too
        state.taught = state.whole().taught[: state.lessons_number]
    state.taught.append((state.settings.arms, _results(state.settings.noise, state.settings.arms, payload["results"])))
    state.becomes(state.settings, fold.started(state.settings, state.taught), fold.begun(state.settings))


def _noted(state: State, payload: Plain, entry: Entry) -> None:
    state.remarks.append({"at": str(entry.at), "by": entry.by, "text": str(payload["text"])})


def _closed(state: State, payload: Plain, entry: Entry) -> None:
    state.closed = str(payload["why"])


def _reopened(state: State, payload: Plain, entry: Entry) -> None:
    state.closed = None


def _results(noise: Noise, arms: tuple[str, ...], payload: Plain) -> Results:
    """What a file brought, for the arms there are."""
    results = Results.from_payload(payload)
    if len(results.counts) != len(arms):
        raise ValueError("results of other arms")
    counts, totals = results.counts, results.totals
    low, high = noise.outcome.low, noise.outcome.high
    with np.errstate(invalid="ignore"):
        slack = 1e-9 * (1.0 + np.abs(totals))
        if (totals < low * counts - slack).any() or (totals > high * counts + slack).any():
            raise ValueError("results that there cannot be")
        if any(((each < low) | (each > high)).any() for each in results.values or ()):
            raise ValueError("results that there cannot be")
    return results


KINDS: dict[str, Callable[[State, Plain, Entry], None]] = {
    "asked": _asked,
    "told": _told,
    "round_over": _round_over,
    "counted": _counted,
    "decided": _decided,
    "later": _later,
    "amended": _amended,
    "dropped": _changed,
    "added": _changed,
    "extended": _extended,
    "past": _past,
    "noted": _noted,
    "closed": _closed,
    "reopened": _reopened,
}
