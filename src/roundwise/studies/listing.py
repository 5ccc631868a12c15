"""All studies of a storage, and records that come from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError, RoundwiseError, said
from roundwise.studies.guarantee import VOID
from roundwise.studies.replay import WRONG, replayed
from roundwise.studies.store import Entry, Listing, check, open_store
from roundwise.studies.verify import verified
from roundwise.studies.writing import overview

UNKNOWN = {
    "question": "?",
    "asks": "?",
    "arms": 0,
    "round": 0,
    "file": None,
    "answer": None,
    "results": 0,
    "waiting": 0,
    "budget": None,
    "since": None,
}


def list_studies(storage: str | None = None) -> list[Plain]:
    """A line about each study, by name, without reading their logs."""
    rows = []
    with open_store(storage, create=False) as store:
        for each in store.studies():
            about = each.overview
            if not about:  # nobody wrote one
                try:
                    about = overview(replayed(store.recent(each.name)))
                except RoundwiseError as error:
                    why = f"{VOID}the record cannot be replayed: {error}"
                    about = {**UNKNOWN, "state": "damaged", "by": "?", "guarantee": why}
            dates = {"created": str(each.created), "changed": str(each.changed)}
            rows.append({"name": each.name, **dates, "entries": each.entries, **about})
    return rows


def imported(
    entries: Sequence[Entry],
    storage: str | None = None,
    unsound: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Listing:
    """Take in a whole record, once its chain is checked and all of it was computed again.

    What was recorded by the rules of this version must come out the same, unless it may be `unsound`.
    """
    check(entries)
    if not entries:
        raise InputError("A log without entries is no study.")
    state = replayed(entries)
    try:
        about = overview(state)
        audit = verified(entries, progress)
    except RoundwiseError:
        raise
    except WRONG as error:
        raise DataError(
            f"The record of '{entries[0].study}' cannot be computed again ({type(error).__name__}): roundwise did not "
            "write it so. Nothing was changed."
        ) from None
    wrong = [each for each in audit.differences if each.same_rules]
    if wrong and not unsound:
        anyway = said("`unsound=True`", "`--unsound`")
        raise DataError(
            f"The record of '{entries[0].study}' is not sound: {wrong[0].words} (entry {wrong[0].entry}, by the rules "
            f"of this very version). Nothing was changed. Ask who changed it; {anyway} takes it in all the same."
        )
    with open_store(storage) as store:
        return store.put(entries, about)
