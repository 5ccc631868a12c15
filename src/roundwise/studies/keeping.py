"""All studies of a storage, and the record of one: list, verify, export, import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roundwise.errors import RoundwiseError
from roundwise.studies.guarantee import VOID, guarantee_of
from roundwise.studies.replay import replayed
from roundwise.studies.report import Event, events_of, report_of
from roundwise.studies.store import Entry, Listing, open_store, read_log, write_log
from roundwise.studies.store.log import stamp
from roundwise.studies.study import Study, load_study


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One line about a study: where it stands."""

    study: str
    asks: str | None  # the question in words
    status: str  # decided, undecided, closed; or unreadable, and the headline says why
    answer: Any
    headline: str
    guarantee: str
    results: int
    waiting: int  # results of an open round, which do not count yet
    budget: int | None
    rounds: int
    waiting_since: str | None
    created: str
    changed: str
    by: tuple[str, ...]
    entries: int

    def plain(self) -> dict[str, Any]:
        """The overview as JSON."""
        return asdict(self) | {"by": list(self.by)}


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A record that was recomputed and found the same."""

    study: str
    entries: int
    rounds: int  # plans that were recomputed
    decided: bool
    guarantee: str
    digest: str  # of the last entry: whoever wrote it down before can see that nothing was replaced

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


def list_studies(storage: str | None = None) -> list[Overview]:
    """Where every study of the storage stands, by name; one that cannot be read says so."""
    with open_store(storage, create=False) as store:
        return [_overview(each, lambda name=each.name: store.read(name)) for each in store.studies()]


def verify_study(name: str, storage: str | None = None) -> Verified:
    """Recompute every plan and the verdict of a study from its record; raise an error where one differs."""
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    state = replayed(entries)
    return Verified(
        study=name,
        entries=len(entries),
        rounds=len(state.asked),
        decided=state.decided is not None,
        guarantee=str(guarantee_of(state)),
        digest=entries[-1].digest,
    )


def export_study(name: str, path: str | Path, storage: str | None = None) -> Path:
    """Write the whole record of a study to a file, which appears complete or not at all."""
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(Path(path), entries)
    return Path(path)


def import_study(path: str | Path, storage: str | None = None) -> Study:
    """Bring a study that was exported into a storage; its chain of digests is checked."""
    entries = read_log(Path(path))
    with open_store(storage) as store:
        listing = store.put(entries)
    return load_study(listing.name, storage)


def study_log(name: str, storage: str | None = None) -> list[Event]:
    """Every entry of the record of a study: when, by whom, what, which file, how many rows."""
    with open_store(storage, create=False) as store:
        return events_of(store.read(name))


def guarantee_of_record(entries: Sequence[Entry]) -> str:
    """What became of the guarantee of a study; there is none where its record cannot be replayed."""
    try:
        return str(guarantee_of(replayed(entries)))
    except RoundwiseError as error:
        return f"{VOID}the record cannot be replayed: {error}"


def _overview(listing: Listing, read: Any) -> Overview:
    """One study; whatever is wrong with it does not hide the others."""
    about: dict[str, Any] = {"study": listing.name, "entries": listing.entries}
    about |= {"created": stamp(listing.created), "changed": stamp(listing.changed)}
    try:
        entries = read()
        report = report_of(replayed(entries), intervals=False, events=events_of(entries))
    except RoundwiseError as error:
        return Overview(
            **about,
            asks=None,
            status="unreadable",
            answer=None,
            headline=str(error),
            guarantee=f"{VOID}the record cannot be replayed: {error}",
            results=0,
            waiting=0,
            budget=None,
            rounds=0,
            waiting_since=None,
            by=(),
        )
    names = ("asks", "status", "answer", "headline", "guarantee", "results", "waiting", "budget", "rounds")
    return Overview(
        **about,
        **{name: getattr(report, name) for name in names},
        waiting_since=report.waiting_since,
        by=report.by,
    )
