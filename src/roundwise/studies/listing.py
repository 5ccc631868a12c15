"""All studies of a storage, and records that come from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roundwise.arrays import Plain
from roundwise.errors import InputError, RoundwiseError
from roundwise.studies.guarantee import VOID
from roundwise.studies.replay import replayed
from roundwise.studies.store import Entry, Listing, check, open_store, read_log
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


def import_log(file: Path, storage: str | None = None) -> tuple[list[Entry], Listing]:
    """Take in a record that was exported."""
    entries = read_log(file)
    return entries, imported(entries, storage)


def imported(entries: Sequence[Entry], storage: str | None = None) -> Listing:
    """Take in a whole record, once its chain is checked and it can be replayed."""
    check(entries)
    if not entries:
        raise InputError("A log without entries is no study.")
    about = overview(replayed(entries))
    with open_store(storage) as store:
        return store.put(entries, about)
