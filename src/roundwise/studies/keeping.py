"""The record of a study: verify, export, import, and what happened."""

from __future__ import annotations

from pathlib import Path

from roundwise.studies.listing import imported
from roundwise.studies.opening import load_study
from roundwise.studies.report import Event, events_of
from roundwise.studies.store import open_store, read_log, write_log
from roundwise.studies.study import Study
from roundwise.studies.verify import Audit, entry_of, verified


def verify_study(name: str, storage: str | None = None, digest: str | None = None) -> Audit:
    """An audit of a study: everything is computed again from its record, and every difference is listed.

    With the `digest` of a report that was kept: an error, unless the record is still the one it was taken of.
    """
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    if digest is not None:
        entry_of(entries, digest)
    return verified(entries)


def export_study(name: str, path: str | Path, storage: str | None = None) -> Path:
    """Write the whole record of a study to a file, which appears complete or not at all."""
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(Path(path), entries)
    return Path(path)


def import_study(path: str | Path, storage: str | None = None, unsound: bool = False) -> Study:
    """Bring a study that was exported into a storage; its chain is checked, and all of it is computed again.

    Where something comes out otherwise than this very version would have recorded it, it must be said to be `unsound`.
    """
    listing = imported(read_log(Path(path)), storage, unsound)
    return load_study(listing.name, storage)


def study_log(name: str, storage: str | None = None) -> list[Event]:
    """Every entry of the record of a study: when, by whom, what, which file, how many rows."""
    with open_store(storage, create=False) as store:
        return events_of(store.read(name))
