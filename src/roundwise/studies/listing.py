"""All studies of a storage, and records that come from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.studies.guarantee import VOID
from roundwise.studies.replay import WRONG, replayed
from roundwise.studies.store import Entry, Listing, check, open_store, read_log
from roundwise.studies.store.log import CHECKPOINT
from roundwise.studies.verify import verified
from roundwise.studies.writing import overview

MANY = 500  # rounds up to which a record is computed again before it is taken in

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


def import_log(file: Path, storage: str | None = None) -> tuple[list[Entry], Listing]:
    """Take in a record that was exported."""
    entries = read_log(file)
    return entries, imported(entries, storage)


def imported(entries: Sequence[Entry], storage: str | None = None) -> Listing:
    """Take in a whole record, once its chain is checked and it can be replayed."""
    check(entries)
    if not entries:
        raise InputError("A log without entries is no study.")
    state = replayed(entries)
    try:
        about = overview(state)
        if sum(entry.kind == CHECKPOINT for entry in entries) <= MANY:
            verified(entries)
    except RoundwiseError:
        raise
    except WRONG as error:
        raise DataError(
            f"The record of '{entries[0].study}' cannot be computed again ({type(error).__name__}): roundwise did not "
            "write it so. Nothing was changed."
        ) from None
    with open_store(storage) as store:
        return store.put(entries, about)
