"""A study is what its recorded entries say: they are taken as facts, and nothing is computed again.

Entries, in order: `created` (the settings); `asked` (the plan of a batch); `told` (what one file brought for the batch
that is open); `round_over` (a batch closed with a reason although results are missing); `counted` (what was won, the
state of policy and rule and the next plan, after a batch: a checkpoint); `decided` (the answer); `later` (what a file
brought after that); `amended` (what one file brought, corrected or withdrawn, with a reason); `dropped` and `added` (an
arm); `extended` (the budget); `past` (earlier data that teach and are no evidence); `noted` (a remark); `closed` and
`reopened` (the study, with a reason). A batch counts when all that was asked has come back, or it was closed; never in
halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from roundwise.arrays import Bools, Floats, Plain
from roundwise.contract import check_answer
from roundwise.deadline import check_deadline
from roundwise.errors import DataError, InputError
from roundwise.ingest import Results
from roundwise.model.batch import Batch
from roundwise.model.problem import check_whole_number
from roundwise.noise import Noise
from roundwise.store import Entry
from roundwise.study import fold
from roundwise.study.arm_changes import Change, names_after, with_arms
from roundwise.study.rounds import Asked, of_arms, pulls_of
from roundwise.study.spec import StudySpec
from roundwise.study.state import State
from roundwise.study.summary import having

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
    check_answer(question, arms, answer, question.plain(question.answer(np.zeros(len(arms)))))


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
