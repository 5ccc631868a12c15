"""The store: its tables, and create, append, read, find, list and remove, one transaction each.

The log is the truth; the other columns make reading cheap and can be rebuilt from it: where a study may be read from on
(`checkpoint`), a line about it (`overview`), and which entries hold a file or the key of a request (`roundwise_key`).
"""

from __future__ import annotations

import json
import secrets
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from roundwise.arrays import Facts, Plain
from roundwise.errors import (
    ConflictError,
    DamagedError,
    DataError,
    InputError,
    StudyExistsError,
    UnknownStudyError,
    unknown,
)
from roundwise.store.engine import Access, given_back, registry
from roundwise.store.log import (
    Entry,
    EventKind,
    Head,
    Listing,
    check,
    extended,
    is_object,
    moment,
    restore,
    search_keys,
    stamp,
    with_payload,
    written,
)
from roundwise.store.url import Address, nothing_there, room

UNREADABLE = (TypeError, ValueError, OverflowError)  # what comes of a cell that is not of its type any more
VERSION = 3  # 1 and 2 were never released

_METADATA = MetaData()
SCHEMA = Table("roundwise_schema", _METADATA, Column("version", Integer, nullable=False))
STUDY = Table(
    "roundwise_study",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("digest", Text, nullable=False),  # of the last entry: a log that lost its end is noticed
    Column("checkpoint", Integer, nullable=False),  # the last entry that holds all of the state; 0 if there is none
    Column("overview", Text, nullable=False),  # JSON, for lists of studies; empty if nobody wrote one
)
ENTRY = Table(
    "roundwise_entry",
    _METADATA,
    Column("study_id", ForeignKey(STUDY.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("digest", Text, nullable=False),
)
KEY = Table(
    "roundwise_key",
    _METADATA,
    Column("study_id", ForeignKey(STUDY.c.id), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
)

LINK = Table(  # made when the first link is: stores of earlier versions do not have it
    "roundwise_link",
    _METADATA,
    Column("study_id", ForeignKey(STUDY.c.id, ondelete="CASCADE"), primary_key=True),
    Column("begins", Text, nullable=False),  # the digest of its first entry: numbers of studies are used again
    Column("secret", Text, nullable=False),
)


def schema_version(connection: Connection, place: str) -> int | None:
    """The version of the schema that is there, None where there is nothing yet."""
    tables = inspect(connection)
    if tables.has_table(SCHEMA.name):
        found = connection.scalar(select(SCHEMA.c.version))
        if not isinstance(found, int) or found < 1:
            raise DamagedError(f"{place} does not say which version of roundwise wrote it. Restore it from a backup.")
        if found > VERSION:
            raise DataError(
                f"{place} was written by a newer roundwise (schema {found}, this version knows up to {VERSION}). "
                "Upgrade with `pip install --upgrade roundwise`."
            )
        if found < VERSION:
            raise DataError(
                f"{place} was written before the first release of roundwise (schema {found}), and is not read any "
                "more. Give another place for the studies."
            )
        return found
    # a PostgreSQL database may be shared with other programs, a file may not
    others = tables.get_table_names() if connection.dialect.name == "sqlite" else []
    if others:
        raise DataError(
            f"{place} is the database of another program (it holds the table '{others[0]}'). "
            "Give another file for the studies of roundwise."
        )
    return None


def install_tables(connection: Connection, place: str) -> None:
    """Make the tables, inside the transaction of `connection`, unless somebody else just did."""
    _alone(connection)
    if schema_version(connection, place) is None:
        _METADATA.create_all(connection)
        connection.execute(SCHEMA.insert().values(version=VERSION))


def install_links(connection: Connection) -> None:
    """Make the table of links, where it is not there."""
    _alone(connection)
    _METADATA.create_all(connection, tables=[LINK])


def _alone(connection: Connection) -> None:
    """Of two who make tables at once the second waits, then finds them; of SQLite there is one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": 0x726F756E64})


LONGEST = 200  # letters in the name of a study


def row_of(number: int, entry: Entry) -> Plain:
    """An entry of the study with this number, as a row."""
    return {
        "study_id": number,
        "seq": entry.seq,
        "kind": entry.kind,
        "recorded_at": stamp(entry.at),
        "recorded_by": entry.by,
        "version": entry.version,
        "payload": entry.text,
        "digest": entry.digest,
    }


def entry_of(name: str, place: int, row: Row[Any]) -> Entry:
    """The entry in a row; an error if it was changed."""
    try:
        at = moment(row.recorded_at)
        entry = Entry(name, row.seq, row.kind, at, row.recorded_by, row.version, row.payload, row.digest)
        if not all(isinstance(each, str) for each in (entry.kind, entry.by, entry.version, entry.text, entry.digest)):
            raise TypeError
    except UNREADABLE:
        raise DamagedError(
            f"The log of study '{name}' was changed: entry {place} cannot be read. {restore()}"
        ) from None
    return entry


def with_file(connection: Connection, number: int, overview: Facts) -> Plain:
    """A line about a study, in which the last file stays where no other came."""
    if overview.get("file") is not None:
        return dict(overview)
    old = connection.execute(select(STUDY.c.overview).where(STUDY.c.id == number)).scalar_one()
    try:
        return {**overview, "file": json.loads(old)["file"]}
    except (ValueError, TypeError, KeyError):  # nobody wrote one, or it says nothing
        return dict(overview)


def listing_of(address: Address, name: str, created: str, changed: str, entries: int, overview: str) -> Listing:
    """A study in the list of all."""
    try:
        about = json.loads(overview) if overview else {}
        if not isinstance(about, dict):
            raise TypeError
        return Listing(str(name), moment(created), moment(changed), int(entries), about)
    except UNREADABLE:
        raise unreadable_list(address) from None


def unreadable_list(address: Address) -> DamagedError:
    """The error where a line about a study is not as it was written."""
    return DamagedError(f"{address.place} is damaged: the list of studies cannot be read. {restore()}")


def check_name(name: str) -> str:
    """A name that a study may have."""
    if not name or len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise InputError(
            f"A study cannot be called {name[:50]!r}: give a name of 1 to {LONGEST} printable letters, "
            "without blanks at its ends."
        )
    return name


SECRET = 24  # bytes of the secret of a link


def open_database(address: Address, create: bool) -> Store:
    """The store at an address, made where needed."""
    create = not registry().check_pins(address) and create
    room(address, create)
    store = Store(address)
    store.reached(create)
    try:
        store.prepare(create)
    except BaseException:
        store.close()
        raise
    return store


class Store:
    """Studies and their logs. May be shared by threads, and is opened anew in a process that was forked."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._access: Access | None = None

    @property
    def server(self) -> None:
        """No server is between: studies are written directly."""

    def __repr__(self) -> str:
        return f"Store({self.address.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back files and connections, which other stores of this process may go on using."""
        if self._access is not None:
            self._access = None
            self._finalizer()

    def reached(self, create: bool = False) -> Access:
        """The way into the store, which all stores of this address share in a process."""
        access, here = self._access, registry()
        if access is None or access.pid != here.pid:
            with here.gate, here.lock:
                access = self._access
                if access is None or access.pid != here.pid:
                    self._access = access = here.taken(self.address, create)
                    self._finalizer = weakref.finalize(self, given_back, access)
        return access

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """As long as this lasts, no other file is opened or made under this name by this process."""
        access, here = self.reached(), registry()
        here.pinned.append(access)
        try:
            yield
        finally:
            here.pinned.remove(access)

    def prepare(self, create: bool) -> None:
        """Make the tables; a look, and no lock, where they are there."""
        with self.reached().reading() as connection:
            found = schema_version(connection, self.address.place)
        if found is None and not create:
            raise nothing_there(self.address)
        if self.address.file:
            self.reached().use_wal()
        if found is None:
            with self.reached().writing() as connection:
                install_tables(connection, self.address.place)

    def create(self, name: str, payload: Facts, kind: str = "created", overview: Facts | None = None) -> Entry:
        """Begin a study: its entry 0."""
        (entry,) = extended(check_name(name), Head(), [(kind, written(payload))], datetime.now(UTC))
        self._insert([entry], overview)
        return entry

    def put(self, entries: Sequence[Entry], overview: Facts | None = None) -> Listing:
        """Take in a whole log, as it was exported."""
        if not entries:
            raise InputError("A log without entries is no study.")
        check(entries)
        name = check_name(entries[0].study)
        if any(entry.study != name for entry in entries):
            raise InputError("A log belongs to one study, but these entries name several.")
        self._insert(entries, overview)
        return Listing(name, entries[0].at, entries[-1].at, len(entries), dict(overview or {}))

    def append(
        self,
        name: str,
        new: Sequence[tuple[str, Facts]],
        expected: int,
        overview: Facts | None = None,
    ) -> list[Entry]:
        """Record each (kind, payload) after the entry `expected`: all, or none where the study has moved on since."""
        texts = [(kind, written(payload)) for kind, payload in new]  # before the lock: a payload may be large
        with self.reached().writing() as connection:
            number, head = self._head(connection, name, lock=True)
            if head.entries - 1 != expected:
                raise self._conflict(connection, name, number, head, expected)
            about = {} if overview is None else {"overview": written(with_file(connection, number, overview))}
            made = extended(name, head, texts, datetime.now(UTC))
            entries = [with_payload(entry, payload) for entry, (_, payload) in zip(made, new, strict=True)]
            if entries:
                connection.execute(insert(ENTRY), [row_of(number, entry) for entry in entries])
                self._index(connection, number, entries)
                last = entries[-1]
                kept = [entry.seq for entry in entries if entry.kind == EventKind.CHECKPOINT]
                connection.execute(
                    update(STUDY)
                    .where(STUDY.c.id == number)
                    .values(entries=last.seq + 1, digest=last.digest, changed_at=stamp(last.at), **about)
                    .values({"checkpoint": kept[-1]} if kept else {})
                )
        return entries

    def remove(self, name: str, expected: int) -> None:
        """Forget a study altogether, unless it has moved on since the entry `expected`; its name is free again."""
        with self.reached().writing() as connection:
            number, head = self._head(connection, name, lock=True)
            if head.entries - 1 != expected:
                raise self._conflict(connection, name, number, head, expected)
            self._forget_link(connection, number)
            for table in (KEY, ENTRY):
                connection.execute(delete(table).where(table.c.study_id == number))
            connection.execute(delete(STUDY).where(STUDY.c.id == number))

    def read(self, name: str, after: int = -1) -> list[Entry]:
        """The entries of a study after number `after`, in order, each checked against the one before it."""
        with self.reached().reading() as connection:
            number, head = self._head(connection, name)
            found = self._after(connection, name, number, head, after)
        return found()

    def recent(self, name: str) -> list[Entry]:
        """The first entry, and those from the last checkpoint on (all, if there is none), each checked."""
        with self.reached().reading() as connection:
            number, head = self._head(connection, name)
            found = self._after(connection, name, number, head, max(head.checkpoint - 1, -1))
            first = self._after(connection, name, number, head, -1, 0) if head.checkpoint > 0 else list
        return [*first(), *found()]

    def head(self, name: str) -> Head:
        """Where the log of a study ends."""
        with self.reached().reading() as connection:
            return self._head(connection, name)[1]

    def known(self, name: str) -> None:
        """Raise `UnknownStudyError` where there is no such study."""
        with self.reached().reading() as connection:
            self._head(connection, name)

    def find(self, name: str, key: str) -> list[Entry]:
        """The entries of a study that tell a file or answer a request (see `log.search_keys`)."""
        with self.reached().reading() as connection:
            number, _ = self._head(connection, name)
            rows = connection.execute(
                select(ENTRY)
                .join(KEY, (KEY.c.study_id == ENTRY.c.study_id) & (KEY.c.seq == ENTRY.c.seq))
                .where(KEY.c.study_id == number, KEY.c.name == key)
                .order_by(ENTRY.c.seq)
            ).all()
        found = [entry_of(name, row.seq, row) for row in rows]
        for each in found:  # what an index leads to is not checked against the entry before it
            if not is_object(each):
                raise DamagedError(
                    f"The log of study '{name}' was changed: entry {each.seq} cannot be read. {restore()}"
                )
        return found

    def link(self, name: str) -> str | None:
        """The secret of the link to a study; None where there is none, or no such study."""
        with self.reached().reading() as connection:
            if not inspect(connection).has_table(LINK.name):
                return None
            begun = (ENTRY.c.study_id == STUDY.c.id) & (ENTRY.c.seq == 0) & (ENTRY.c.digest == LINK.c.begins)
            found = connection.scalar(select(LINK.c.secret).join(STUDY).join(ENTRY, begun).where(STUDY.c.name == name))
        return found if isinstance(found, str) and found else None

    def make_link(self, name: str) -> None:
        """Draw the secret of a link to a study, unless there is one."""
        link, entry = LINK, ENTRY.c
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
            install_links(connection)
            begins = connection.scalar(select(entry.digest).where(entry.study_id == number, entry.seq == 0))
            connection.execute(delete(link).where(link.c.study_id == number, link.c.begins != begins))
            if connection.scalar(select(link.c.study_id).where(link.c.study_id == number)) is None:
                drawn = secrets.token_urlsafe(SECRET)
                connection.execute(insert(link).values(study_id=number, begins=begins, secret=drawn))

    def withdraw_link(self, name: str) -> None:
        """Forget the link to a study, if there is one."""
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
            self._forget_link(connection, number)

    def _forget_link(self, connection: Connection, number: int) -> None:
        if inspect(connection).has_table(LINK.name):
            connection.execute(delete(LINK).where(LINK.c.study_id == number))

    def _after(
        self, connection: Connection, name: str, number: int, head: Head, after: int, last: int | None = None
    ) -> Callable[[], list[Entry]]:
        """What reads the entries after number `after`, up to `last` or the end; checks are left for later."""
        columns = ENTRY.c
        mine = select(ENTRY).where(columns.study_id == number).order_by(columns.seq)
        start = Head()
        if after >= 0:
            known = connection.scalar(mine.where(columns.seq == after).with_only_columns(columns.digest))
            start = Head(after + 1, str(known))
        query = mine.where(columns.seq >= start.entries)
        rows = connection.execute(query if last is None else query.where(columns.seq <= last)).all()

        def checked() -> list[Entry]:
            if after >= head.entries:
                raise InputError(f"Study '{name}' has no entry {after}; its last is {head.entries - 1}.")
            entries = [entry_of(name, start.entries + i, row) for i, row in enumerate(rows)]
            check(entries, start)
            found = Head(start.entries + len(entries), entries[-1].digest if entries else start.digest)
            if last is None and (found.entries, found.digest) != (head.entries, head.digest):
                raise DamagedError(
                    f"The log of study '{name}' was changed: it should end with entry {head.entries - 1}, but ends "
                    f"with another one, entry {found.entries - 1}. {restore()}"
                )
            return entries

        return checked

    def studies(self) -> list[Listing]:
        """All studies, by name."""
        columns = STUDY.c
        with self.reached().reading() as connection:
            rows = connection.execute(
                select(columns.name, columns.created_at, columns.changed_at, columns.entries, columns.overview)
            ).all()
        return sorted((listing_of(self.address, *row) for row in rows), key=lambda each: each.name)

    def ends(self) -> dict[str, tuple[int, str]]:
        """Of every study how many entries it has, and the digest of the last: cheap, to see what has changed."""
        columns = STUDY.c
        with self.reached().reading() as connection:
            rows = connection.execute(select(columns.name, columns.entries, columns.digest)).all()
        try:
            return {str(row.name): (int(row.entries), str(row.digest)) for row in rows}
        except UNREADABLE:
            raise unreadable_list(self.address) from None

    def _insert(self, entries: Sequence[Entry], overview: Facts | None = None) -> None:
        first, last = entries[0], entries[-1]
        kept = [entry.seq for entry in entries if entry.kind == EventKind.CHECKPOINT]
        with self.reached().writing() as connection:
            try:
                connection.execute(
                    insert(STUDY).values(
                        name=first.study,
                        created_at=stamp(first.at),
                        changed_at=stamp(last.at),
                        entries=len(entries),
                        digest=last.digest,
                        checkpoint=kept[-1] if kept else 0,
                        overview="" if overview is None else written(overview),
                    )
                )
            except IntegrityError:
                raise StudyExistsError(
                    f"There is already a study called '{first.study}' in {self.address.place}. Nothing was changed; "
                    "choose another name, or go on with that study."
                ) from None
            number = connection.execute(select(STUDY.c.id).where(STUDY.c.name == first.study)).scalar_one()
            for entry in entries:  # one at a time: a payload may have many megabytes
                connection.execute(insert(ENTRY), row_of(number, entry))
            self._index(connection, number, entries)

    def _index(self, connection: Connection, number: int, entries: Sequence[Entry]) -> None:
        """Record what the entries can be found by."""
        rows = [
            {"study_id": number, "name": key, "seq": entry.seq}
            for entry in entries
            for key in set(search_keys(entry.kind, entry.payload))
        ]
        if rows:
            connection.execute(insert(KEY), rows)

    def _head(self, connection: Connection, name: str, lock: bool = False) -> tuple[int, Head]:
        """The number of a study and where its log ends, locked against other writers where asked."""
        columns = STUDY.c
        query = select(columns.id, columns.entries, columns.digest, columns.changed_at, columns.checkpoint).where(
            columns.name == name
        )
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            names = [str(each) for each in connection.scalars(select(columns.name))]
            raise UnknownStudyError(str(unknown("study", name, names) if names else nothing_there(self.address)))
        try:
            found = Head(int(row.entries), str(row.digest), moment(row.changed_at), int(row.checkpoint))
            if not 0 <= found.checkpoint < found.entries < 2**53:
                raise ValueError
            return row.id, found
        except UNREADABLE:
            raise DamagedError(f"{self.address.place} is damaged at study '{name}'. {restore()}") from None

    def _conflict(self, connection: Connection, name: str, number: int, head: Head, expected: int) -> ConflictError:
        columns = ENTRY.c
        row = connection.execute(
            select(ENTRY).where(columns.study_id == number, columns.seq == head.entries - 1)
        ).one_or_none()
        if row is None or expected >= head.entries:
            return ConflictError(
                f"Study '{name}' ends with entry {head.entries - 1}, not {expected}. Nothing was changed."
            )
        last = entry_of(name, head.entries - 1, row)
        return ConflictError(
            f"Study '{name}' has moved on: {last.by} recorded entry {last.seq} ('{last.kind}') on "
            f"{last.at:%Y-%m-%d at %H:%M} UTC, but entry {expected} is the last one known here. Nothing was changed; "
            "look again and repeat."
        )
