"""The record of a study: audits, exports, imports, lists and logs.

In an audit everything is computed again from the beginning, and every difference is listed. Nothing else compares: what
was asked, told, counted and decided are facts. It is not a fault of the study if another version recorded it:
rules change from version to version, and what was won by older ones is carried on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Floats, Plain, Unreadable, unpack, unpack_array
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.ingest.covariates import CovariateSums
from roundwise.ingest.ratios import Linearization, RatioSums
from roundwise.ingest.row_checks import contradicted_assumptions
from roundwise.messages import Guarantee, Reason, Remedy
from roundwise.model.problem import Record
from roundwise.store import Entry, EventKind, Listing, check_chain, open_store, read_log, write_log
from roundwise.study.fold import evidence
from roundwise.study.guarantee import guarantee_of
from roundwise.study.state import WRONG, State, replay
from roundwise.study.study import Study, adjustment_of, load_study, overview, ratio_of

if TYPE_CHECKING:
    from roundwise.report import Event

SHORTEST = 12  # letters of a digest that are enough to know it
CLOSE = 1e-9  # log e-values that are nearer are the same: another machine may round otherwise


class Difference(NamedTuple):
    """Something that this version computes differently from what was recorded."""

    entry: int
    version: str  # that recorded it
    rules: int | None  # by which it was recorded, if it says so
    words: str

    @property
    def same_rules(self) -> bool:
        """Whether it was recorded by the rules of this version, so that it should not differ."""
        return self.rules == RULES


class Audit(NamedTuple):
    """The result of an audit."""

    state: State
    entries: int  # of the record,
    digest: str  # and that of the last
    plans: int  # that were computed again
    checkpoints: int
    verdicts: int
    differences: tuple[Difference, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing differs that was recorded by the rules of this version."""
        return not any(each.same_rules for each in self.differences)

    def plain(self) -> Plain:
        """What was found as JSON."""
        return {
            "study": self.state.name,
            **{name: getattr(self, name) for name in ("entries", "digest", "plans", "checkpoints", "sound")},
            "decided": self.state.decided is not None,
            "differences": [each._asdict() for each in self.differences],
            "guarantee": guarantee_of(self.state).plain(),
        }


def find_entry(entries: Sequence[Entry], digest: str) -> Entry:
    """The entry with this digest (or its first letters), kept outside the store; an InputError if there is none. The
    chain alone proves nothing, since anyone can recompute it; a digest kept elsewhere fixes all entries up to it.
    """
    start = digest.strip().lower()
    if len(start) < SHORTEST or not set(start) <= set("0123456789abcdef"):
        raise InputError(f"'{digest[:80]}' is not a digest: give at least {SHORTEST} of its 64 letters 0-9, a-f.")
    found = next((entry for entry in entries if entry.digest.startswith(start)), None)
    if found is None:
        raise DataError(
            f"No entry of '{entries[0].study}' has the digest {start}: this is not the record it was taken from, or "
            "the record was rewritten. Compare it with an export that you kept."
        )
    return found


def audit_entries(entries: Sequence[Entry], progress: Callable[[int], None] | None = None) -> Audit:
    """Compute a study again from all its entries, each step from what was recorded before it.

    `progress` is called with the number of entries that were done since the last call.
    """
    state = replay(entries[:1])
    found: list[Difference] = []
    rules: int | None = RULES
    for i, entry in enumerate(entries[1:], 1):
        rules = entry.payload.get("rules", rules)
        words = _differences(state, entry)
        if state.ready and not _is_followed(entries, i, EventKind.CHECKPOINT):
            words.append("a round was complete, but was not counted")
        state.apply(entry)
        if entry.kind == EventKind.CHECKPOINT:
            words += _contradictions(state, entry.payload)
        found += [Difference(entry.seq, entry.version, rules, each) for each in words]
        if progress is not None:
            progress(1)
    last = entries[-1]
    if state.decided is None and not state.ready and state.verdict() is not None:
        found.append(Difference(last.seq, last.version, rules, "a verdict follows, but was not recorded"))
    kinds = Counter(entry.kind for entry in entries)
    plans, folds, verdicts = (kinds[each] for each in (EventKind.ASKED, EventKind.CHECKPOINT, EventKind.DECIDED))
    return Audit(state, len(entries), last.digest, plans, folds, verdicts, tuple(found))


def _is_followed(entries: Sequence[Entry], i: int, kind: str) -> bool:
    """Whether an entry of this kind is recorded in the same transaction as entry i, or is it."""
    at = entries[i].at
    together = takewhile(lambda j: entries[j].at == at, range(i, len(entries)))
    return any(entries[j].kind == kind for j in together)


def _differences(state: State, entry: Entry) -> list[str]:
    """The differences between a recorded entry and what this version computes from the entries before it."""
    payload, words = entry.payload, list[str]()
    if entry.kind == EventKind.ASKED:
        recorded = np.asarray(payload["pulls"], dtype=np.float64)
        if not np.array_equal(recorded, state.planned):
            plans = f"{_few(recorded)}, this version plans {_few(state.planned)}"
            words.append(f"round {payload['round']} was planned as {plans}")
    elif entry.kind == EventKind.TOLD:
        words += _list_adjustment_differences(state, payload["results"])
    elif entry.kind == EventKind.RELAXED and not contradicted_assumptions(state.row_checks):
        words.append("the study continued as large-sample, but no rows contradicted its noise model")
    elif entry.kind == EventKind.DECIDED:
        verdict = state.verdict()
        mine = "none" if verdict is None else verdict["answer"]
        if mine != payload["answer"]:
            words.append(f"the answer was recorded as {payload['answer']}, this version finds {mine}")
    elif entry.kind == EventKind.CHECKPOINT and not state.ready:
        words.append("something was counted although no round was complete")
    elif entry.kind == EventKind.CHECKPOINT:
        after, again = f"after round {payload['round']}", state.fold()
        try:
            mine, other = (unpack_array(each["claims"]["log_evidence"]) for each in (again, payload))
            if not _close(mine, other):
                words.append(f"{after} the log evidence was {_few(other)}, this version finds {_few(mine)}")
            mine, other = (unpack_array(each["next_pulls"]) for each in (again, payload))
            if not np.array_equal(mine, other):
                words.append(f"{after} {_few(other)} was planned, this version plans {_few(mine)}")
            mine, other = (unpack(Record, each["state"]["record"]).totals for each in (again, payload))
            if not _close(mine, other):
                words.append(f"{after} the totals were {_few(other)}, the files add up to {_few(mine)}")
        except (AttributeError, LookupError, TypeError, Unreadable) as error:
            words.append(f"what was recorded {after} cannot be read by this version ({error})")
    return words


def _list_adjustment_differences(state: State, written: Plain) -> list[str]:
    """Differences between recorded adjustments or linearizations and those recomputed from earlier rounds."""
    words = []
    if (covariate := written.get("covariate")) is not None:
        given, due = unpack(CovariateSums, covariate).adjustment, adjustment_of(state, None)
        if due is None or not _close(np.array(due), np.array(given)):
            words.append(f"results were adjusted by {given}, but what was known before gives {due}")
    if (ratio := written.get("ratio")) is not None:
        sums, linear = unpack(RatioSums, ratio), unpack(Linearization, written["linearization"])
        known = ratio_of(state, state.spec.arms, None)
        rule = None if known is None else known.linearization(sums)
        if rule is None or not all(map(_close, rule[:2], linear[:2])):
            words.append(f"ratios were linearized by {linear}, but what was known before gives {rule}")
    for m, each in enumerate(written.get("metrics", ())):
        if "ratio" in each:
            words += _list_adjustment_differences(state.of_metric(m), each)
    return words


def _contradictions(state: State, checkpoint: Plain) -> list[str]:
    """Contradictions within a checkpoint: its state against its stated evidence."""
    try:
        if _close(evidence(state.spec, state.trial)[0], unpack_array(checkpoint["claims"]["log_evidence"])):
            return []
    except (AttributeError, LookupError, TypeError, Unreadable):
        return []  # unreadable entries are reported above
    return [f"after round {checkpoint['round']} the state that was recorded contradicts its stated evidence"]


def _close(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=CLOSE, atol=CLOSE, equal_nan=True)


def _few(numbers: Floats) -> str:
    shown = ", ".join(f"{value:g}" for value in np.ravel(numbers)[:6])
    return shown + (", ..." if np.size(numbers) > 6 else "")


DAMAGED: Plain = {  # what `overview` says of a study
    "question": "?",
    "question_text": "?",
    "arms": 0,
    "state": "damaged",
    "round": 0,
    "last_file": None,
    "answer_text": None,
    "results": 0,
    "pending": 0,
    "budget": None,
    "list": None,
    "waiting_since": None,
    "by": "?",
}


def list_studies(storage: str | None = None) -> list[Plain]:
    """Return a line about each study, by name, without reading their logs.

    Args:
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.

    Returns:
        A mapping for each study: name, state, answer, results, budget, guarantee and dates.
    """
    rows = []
    with open_store(storage, create=False) as store:
        for each in store.studies():
            try:
                about = each.overview or overview(replay(store.recent(each.name)))
            except RoundwiseError as error:  # one record that cannot be read hides no other
                guarantee = Guarantee.of([Reason("unreadable", error=str(error))]).plain()
                about = {**DAMAGED, "guarantee": guarantee}
            dates = {"created": str(each.created), "changed": str(each.changed)}
            rows.append({"name": each.name, **dates, "entries": each.entries, **about})
    return rows


def import_entries(
    entries: Sequence[Entry],
    storage: str | None = None,
    unsound: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Listing:
    """Take in a whole record, once its chain is checked and all of it was computed again.

    What was recorded by the rules of this version must come out the same, unless it may be `unsound`.
    """
    check_chain(entries)
    if not entries:
        raise InputError("A log without entries is not a study.")
    state = replay(entries)
    try:
        about = overview(state)
        audit = audit_entries(entries, progress)
    except RoundwiseError:
        raise
    except WRONG as error:
        raise DataError(
            f"The record of '{entries[0].study}' cannot be computed again ({type(error).__name__}): roundwise did not "
            "write it so. Nothing was changed."
        ) from None
    wrong = [each for each in audit.differences if each.same_rules]
    if wrong and not unsound:
        raise DataError(
            f"The record of '{entries[0].study}' is not sound: {wrong[0].words} (entry {wrong[0].entry}, by the rules "
            "of this very version). Nothing was changed.",
            Remedy("Find out who changed it; {@unsound} imports it anyway."),
        )
    with open_store(storage) as store:
        return store.put(entries, about)


def verify_study(name: str, storage: str | None = None, digest: str | None = None) -> Audit:
    """Audit a study: recompute everything from its record and list every difference.

    Args:
        name: The name of the study.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.
        digest: The digest of a report that was kept: raise an error unless the record still contains it.

    Returns:
        The audit, whose `sound` says whether the record is unchanged and complete; `differences` lists the rest.
    """
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    if digest is not None:
        find_entry(entries, digest)
    return audit_entries(entries)


def export_study(name: str, path: str | Path, storage: str | None = None) -> Path:
    """Write the whole record of a study to a file, which appears complete or not at all.

    Args:
        name: The name of the study.
        path: The file to write.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.

    Returns:
        The path of the file.
    """
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(Path(path), entries)
    return Path(path)


def import_study(path: str | Path, storage: str | None = None, unsound: bool = False) -> Study:
    """Bring an exported study into a storage; its chain is checked, and all of it is recomputed.

    Args:
        path: The exported file.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.
        unsound: Accept a record that this version recomputes differently.

    Returns:
        The imported study.
    """
    listing = import_entries(read_log(Path(path)), storage, unsound)
    return load_study(listing.name, storage)


def study_log(name: str, storage: str | None = None) -> list[Event]:
    """Return every entry of the record of a study: when, by whom, what, which file, how many rows.

    Args:
        name: The name of the study.
        storage: Where studies are kept, by default ROUNDWISE_STORAGE or roundwise.db in the current folder.

    Returns:
        The entries of the record, in order.
    """
    from roundwise.report import list_events

    with open_store(storage, create=False) as store:
        return list_events(store.read(name))
