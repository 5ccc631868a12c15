"""The store: connections and transactions, tables, and create, append, read, find, list and remove.

What was acknowledged stays, readers never wait, and there is one engine a store and process. Two engines of one file
would be sound by themselves. But a fork copies what SQLite knows of its locks and not the locks, so before a fork the
connections of all engines are closed, and one registry of them makes that possible.

The log is the truth; the other columns make reading cheap and can be rebuilt from it: where a study may be read from on
(`checkpoint`), a line about it (`overview`), and which entries hold a file or the key of a request (`roundwise_key`).
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    QueuePool,
    Row,
    Table,
    Text,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from roundwise.arrays import Facts, Plain
from roundwise.errors import (
    ConflictError,
    DamagedError,
    DataError,
    InputError,
    StoreError,
    StudyExistsError,
    UnknownStudyError,
    unknown,
)
from roundwise.formats.sheet import HOLDERS
from roundwise.store.log import (
    Entry,
    EventKind,
    Head,
    Listing,
    check,
    extended,
    is_object,
    look,
    moment,
    restore,
    search_keys,
    stamp,
    with_payload,
    written,
)
from roundwise.store.url import PATIENCE, Address, Identity, beside, identity, nothing_there, one_name, room, sentences


class Opened(sqlite3.Connection):
    """A connection of SQLite that can be referred to weakly, so that it is known whether it is still there."""


def opened(file: Path, mode: str) -> Opened:
    """A connection of SQLite to a file, which is made in the mode 'rwc' alone."""
    return sqlite3.connect(
        f"{file.as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        factory=Opened,
    )


def takes_nothing(file: Path, error: str) -> bool:
    """Whether what SQLite complained of is that nothing can be written beside a file."""
    if error.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM", "SQLITE_IOERR_WRITE")):
        return True
    fixed = not os.access(file.parent, os.W_OK) or bool(os.statvfs(file.parent).f_flag & os.ST_RDONLY)
    return fixed and error.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))


def still_readable(file: Path) -> Callable[[], Opened]:
    """What opens a file beside which nothing can be written: as it is, or a copy where its log holds something.

    Nobody can write to it meanwhile; and every entry is checked against the one before it.
    """
    log = beside(file, "-wal")
    if not log.exists() or not log.stat().st_size:
        return lambda: opened(file, "ro&immutable=1")
    folder = Path(tempfile.mkdtemp(prefix="roundwise-"))
    copy = folder / "copy.db"
    shutil.copyfile(file, copy)
    shutil.copyfile(log, beside(copy, "-wal"))

    def connected() -> Opened:
        return opened(copy, "rw")

    weakref.finalize(connected, shutil.rmtree, folder, ignore_errors=True)  # goes with the last connection
    return connected


WRITING = "roundwise_writing"  # the execution option that tells the two kinds of transaction apart
MOVED = (
    "was moved, replaced or deleted while in use. {done}. Look where it is now, and open it again; stop all programs "
    "that use a store before its file is moved or restored."
)
CUT_OFF = (
    "lost its log (-wal, -shm) while in use: it was deleted, or another part of this program opened or copied the "
    "file. {done}. Start the program anew, {look}"
)


class Access:
    """The one engine of a store in this process, and the transactions that go through it."""

    def __init__(
        self,
        address: Address,
        home: Identity | None,
        gate: AbstractContextManager[None],
        finished: Callable[[Access], None],
        forsaken: Callable[[Access], None],
    ) -> None:
        self.address = address
        self.home = home  # the file of SQLite as it was opened: another one of the same name is another store
        self.pid = os.getpid()
        self.users = 0
        self.lost = ""  # why it cannot be used any more
        self.unwritable: BaseException | None = None  # what a disk said that can only be read
        self._gate, self._finished, self._forsaken = gate, finished, forsaken
        self._lock = threading.RLock()
        self.open: weakref.WeakSet[Opened] = weakref.WeakSet()  # connections of SQLite, whoever holds them
        self._beside: dict[str, Identity] = {}  # their -wal and -shm: the same as long as one of them is open
        self.engine = self._sqlite(address.file) if address.file else _postgresql(address)

    @property
    def busy(self) -> bool:
        """Whether connections are in use just now."""
        pool = self.engine.pool
        assert isinstance(pool, QueuePool)
        return pool.checkedout() > 0

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees the store as of one moment, and blocks nobody."""
        options = {} if self.address.file else {"isolation_level": "REPEATABLE READ"}
        with self._connection() as connection, connection.execution_options(**options).begin():
            self._look()
            yield connection
            self._look()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable once it is left, or leaves nothing behind."""
        with self._connection() as connection:
            if self.unwritable is not None:
                raise self.unwritable
            with connection.execution_options(**{WRITING: True}).begin():
                self._look()
                if self.address.file:
                    one_name(self.address)
                else:
                    connection.execute(_CAREFUL, {"patience": f"{PATIENCE}s"})
                yield connection
                self._look()
                self._still_open(connection)
            self._look("All or nothing of this was recorded")
            if self.address.file:
                self._settle(connection)

    def use_wal(self) -> None:
        """SQLite's write-ahead log, in which a writer and readers do not meet; kept in the file once set."""
        if self.unwritable is not None:
            return
        with self._gate, sentences(self.address), closing(self.engine.raw_connection()) as connection:
            connection.cursor().execute("pragma journal_mode = wal")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._gate:
            if self.lost:
                raise StoreError(self.lost)
            try:
                with sentences(self.address, connecting=True):
                    connection = self._connected()
                with sentences(self.address):
                    try:
                        yield connection
                    except Exception:
                        raise
                    except BaseException:  # interrupted anywhere: nobody knows what the connection was at
                        if not self.lost:
                            connection.invalidate()  # while it is ours: once back in the pool it may be another's
                        raise
                    finally:
                        connection.close()
            finally:
                if self.users == 0:  # the store was closed meanwhile
                    self._finished(self)

    def _connected(self) -> Connection:
        """A connection; one that only reads, where the disk takes nothing: it is full, or may not be written to."""
        try:
            return self.engine.connect()
        except DBAPIError as error:
            name = str(getattr(error.orig, "sqlite_errorname", ""))
            if self.address.file is None or self.unwritable is not None or not takes_nothing(self.address.file, name):
                raise
            readable = still_readable(self.address.file)
            engine = create_engine("sqlite://", creator=readable, poolclass=QueuePool, pool_size=0)
            connection = engine.connect()
            connection.exec_driver_sql("select count(*) from sqlite_master").scalar()
            connection.rollback()
            self.engine, self.unwritable = engine, error
            return connection

    def _still_open(self, connection: Connection) -> None:
        """Raise an error where there is no transaction any more: Python's `commit` would say nothing."""
        driver = connection.connection.dbapi_connection
        if isinstance(driver, Opened) and not driver.in_transaction:
            raise StoreError(f"The transaction on {self.address.place} was ended from outside. Nothing was recorded.")

    def check_place(self) -> None:
        """Raise an error where the file is not the one that was opened; and always, once that was seen."""
        if self.lost:
            raise StoreError(self.lost)
        self._look()

    def _look(self, done: str = "Nothing was changed") -> None:
        """Raise an error where the file or its log, by name, are not those that the connection has open.

        What is written then goes to a file that nobody else will find.
        """
        if self.pid != os.getpid():
            raise StoreError(f"This process was forked while {self.address.place} was written. Nothing was changed.")
        file = self.address.file
        if file is None:
            return
        if file.is_symlink() or identity(file) != self.home:  # the name was resolved: a link was put there since
            raise self._loss(MOVED, done)
        for ending, known in self._beside.items():
            if identity(beside(file, ending)) != known:
                raise self._loss(CUT_OFF, done)

    def _loss(self, what: str, done: str = "Nothing was changed") -> StoreError:
        self.lost = f"{self.address.place} {what.format(done='Nothing was changed', look=look())}"
        self._forsaken(self)
        return StoreError(f"{self.address.place} {what.format(done=done, look=look())}")

    def _settle(self, connection: Connection) -> None:
        """Bring what was committed from the log into the file itself, as far as nobody reads what it would replace.

        Under the lock of writers: before SQLite 3.51.3 a commit during a checkpoint may spoil the log ("WAL-reset
        bug"). Whoever does not get that lock at once leaves it to the other writer, and what fails here is as safe in
        the log.
        """
        mine = connection.connection.dbapi_connection
        assert isinstance(mine, sqlite3.Connection)
        with suppress(sqlite3.Error, SQLAlchemyError, StoreError), closing(self.engine.raw_connection()) as other:
            mine.execute("pragma busy_timeout = 0")
            try:
                mine.execute("begin immediate")
                try:
                    other.cursor().execute("pragma wal_checkpoint(passive)")
                finally:
                    mine.execute("rollback")
            finally:
                mine.execute(f"pragma busy_timeout = {1000 * PATIENCE}")

    def _learn(self, file: Path, connection: Any, mode: str | None) -> None:
        """Remember the log that a connection has just opened, which must be that of the others."""
        if mode == "wal":
            found = {ending: each for ending in ("-wal", "-shm") if (each := identity(beside(file, ending)))}
            with self._lock:
                if not self.open - {connection}:
                    self._beside = {}
                known = self._beside = found | self._beside
            if any(found.get(ending) != each for ending, each in known.items()):
                raise self._loss(CUT_OFF)

    def _sqlite(self, file: Path) -> Engine:
        def connected() -> Opened:
            connection = opened(file, "rw")
            if identity(file) != self.home:
                connection.close()
                raise self._loss(MOVED)
            return connection

        # as many connections as threads ask for, and each kept
        engine = create_engine("sqlite://", creator=connected, poolclass=QueuePool, pool_size=0)

        @event.listens_for(engine, "connect")
        def set_up(connection: Opened, _: Any) -> None:
            # checkpoints are made in `_settle` alone
            for pragma in ("synchronous = full", "fullfsync = on", "foreign_keys = on", "wal_autocheckpoint = 0"):
                connection.execute(f"pragma {pragma}")
            with self._lock:
                self.open.add(connection)
            try:
                self._learn(file, connection, connection.execute("pragma journal_mode").fetchone()[0])
            except BaseException:
                left(connection)
                connection.close()
                raise

        @event.listens_for(engine, "close")
        def left(connection: Opened, _: Any = None) -> None:
            with self._lock:
                self.open.discard(connection)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # a writer that begins as a reader fails at once when another one writes, whatever the timeout
            writing = connection.get_execution_options().get(WRITING)
            connection.exec_driver_sql("begin immediate" if writing else "begin")
            if len(self._beside) < 2:  # they were begun after this connection
                mine = connection.connection.dbapi_connection
                self._learn(file, mine, connection.exec_driver_sql("pragma journal_mode").scalar())

        return engine


# Where a server is told to acknowledge commits before they are on disk, not so for studies.
_CAREFUL = text(
    "select set_config('lock_timeout', :patience, true), set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), true)"
)


def _postgresql(address: Address) -> Engine:
    try:
        return create_engine(
            address.url,
            pool_pre_ping=True,  # a server that was restarted is met again without an error
            connect_args={
                "connect_timeout": int(str(address.url.query.get("connect_timeout", PATIENCE))),
                "fallback_application_name": "roundwise",
                "prepare_threshold": None,  # poolers such as PgBouncer cannot keep prepared statements
            },
        )
    except ImportError:
        raise InputError("PostgreSQL needs the extra 'store': pip install 'roundwise[store]'.") from None
    except (ArgumentError, ValueError) as error:
        raise InputError(
            f"The storage URL of {address.place} cannot be used: {address.censored(str(error)).rstrip('.')}."
        ) from None


class Gate:
    """What every use of a database passes, any number at once, and which is shut during a fork."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # of an RLock: a finalizer may come in between
        self._inside: dict[int, int] = {}  # by thread
        self._forking: int | None = None

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking in (None, me) or me in self._inside)
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
            self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in, and wait until the others are out; not for ever, and not for this thread itself."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking is None, timeout=2 * PATIENCE)  # another thread forks
            self._forking = me
            self._changed.wait_for(lambda: not self._inside.keys() - {me}, timeout=2 * PATIENCE)

    def open(self) -> None:
        """Let everybody in again."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()


class Registry:
    """The engines of one process."""

    def __init__(self, spoilt: frozenset[Hashable] = frozenset()) -> None:
        self.pid = os.getpid()
        self.gate = Gate()
        self.lock = threading.RLock()  # taken inside the gate, never around it
        self.accesses: dict[Hashable, Access] = {}
        self.pinned: list[Access] = []  # whose names must not lead to other files in this process
        self.spoilt = set(spoilt)  # files that this process cannot use again, since connections to them stay open

    def taken(self, address: Address, create: bool = False) -> Access:
        """The way into a store, for one more user."""
        with self.gate, self.lock:
            access = self.accesses.get(_key(address))
            if access is None:
                access = self._new(address, create)
            access.users += 1
            return access

    def _new(self, address: Address, create: bool) -> Access:
        if address.file is None:
            home = None
        else:
            if identity(address.file) is None and not create:
                raise nothing_there(address)
            new = identity(address.file) is None
            # layered file systems give a file another number when it is first opened to be written
            with sentences(address), closing(opened(address.file, "rwc" if create else "rw")):
                home = identity(address.file)
                if new:  # for its owner alone to read; SQLite's own files beside it take after it
                    with suppress(OSError):
                        address.file.chmod(0o600)
            if home in self.spoilt:
                raise StoreError(
                    f"{address.place} was open in this process when it was forked, or lost its log while in use, and "
                    "SQLite cannot use it here again. Nothing was changed; start the program anew (for "
                    "multiprocessing: the start method 'spawn')."
                )
        access = self.accesses[home or _key(address)] = Access(address, home, self.gate, self.finished, self.forsaken)
        return access

    def check_pins(self, address: Address) -> bool:
        """Whether a store is pinned at this address; an error where its file was moved, replaced or deleted since."""
        with self.gate, self.lock:
            found = [access for access in self.pinned if access.address.file == address.file is not None]
        for access in found:
            access.check_place()
        return bool(found)

    def given_back(self, access: Access) -> None:
        """One user less; the last closes the connections."""
        with self.gate, self.lock:
            access.users -= 1
            self.finished(access)

    def finished(self, access: Access) -> None:
        """Close the connections where nobody uses them: neither a store, nor a thread that is still at it."""
        with self.gate, self.lock:
            if access.users == 0 and not access.busy and not access.lost:
                self.accesses = {key: each for key, each in self.accesses.items() if each is not access}
                access.engine.dispose()

    def forsaken(self, access: Access) -> None:
        """No longer to be used, nor closed: SQLite would write its log into a file that went on without it."""
        with self.gate, self.lock:
            self.accesses = {key: each for key, each in self.accesses.items() if each is not access}
            if access.open:
                self.spoilt.add(access.home)
                _keep(access)

    def holds(self, path: Path) -> bool:
        """Whether a path is that of a database in use here, or of a file of SQLite beside it."""
        found = identity(path)
        with self.gate, self.lock:
            files = [access.address.file for access in self.accesses.values() if access.address.file]
        beside_them = [beside(file, ending) for file in files for ending in ("", "-wal", "-shm", "-journal")]
        return found is not None and (found in self.spoilt or found in map(identity, beside_them))

    def before_fork(self) -> None:
        """Close all connections, once those who use them are done; they are opened again when needed."""
        self.gate.shut()
        for access in self.accesses.values():
            if not access.busy:  # by this thread itself
                access.engine.dispose()

    def inherited(self) -> Registry:
        """The registry of a forked process: empty, but for the files whose connections could not be closed before."""
        spoilt = set(self.spoilt)
        for access in self.accesses.values():
            if access.open:
                spoilt.add(access.home)
                _keep(access)
        return Registry(frozenset(spoilt))


def _key(address: Address) -> Hashable:
    """What tells stores apart: the file itself, whatever it is called, or the address of a database."""
    return identity(address.file) if address.file else address.url.render_as_string(hide_password=False)


_registry = Registry()


def registry() -> Registry:
    """That of this process."""
    global _registry
    if _registry.pid != os.getpid():  # a fork that Python was not told of
        _registry = _registry.inherited()
    return _registry


HOLDERS.append(lambda path: registry().holds(path))


def given_back(access: Access) -> None:
    """One user less, in the process that opened it; what was inherited is left alone."""
    if access.pid == os.getpid():
        registry().given_back(access)


def _keep(access: Access) -> None:
    """Keep connections from being closed, even at the end of the process: only the system closes them then."""
    for connection in access.open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _before() -> None:
    registry().before_fork()


def _in_parent() -> None:
    registry().gate.open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=registry)


UNREADABLE = (TypeError, ValueError, OverflowError)  # what comes of a cell that is not of its type any more
VERSION = 4  # 1 to 3 were never released

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

LINK = Table(
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
            connection.execute(delete(LINK).where(LINK.c.study_id == number))
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
            begun = (ENTRY.c.study_id == STUDY.c.id) & (ENTRY.c.seq == 0) & (ENTRY.c.digest == LINK.c.begins)
            found = connection.scalar(select(LINK.c.secret).join(STUDY).join(ENTRY, begun).where(STUDY.c.name == name))
        return found if isinstance(found, str) and found else None

    def make_link(self, name: str) -> None:
        """Draw the secret of a link to a study, unless there is one."""
        link, entry = LINK, ENTRY.c
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
            begins = connection.scalar(select(entry.digest).where(entry.study_id == number, entry.seq == 0))
            connection.execute(delete(link).where(link.c.study_id == number, link.c.begins != begins))
            if connection.scalar(select(link.c.study_id).where(link.c.study_id == number)) is None:
                drawn = secrets.token_urlsafe(SECRET)
                connection.execute(insert(link).values(study_id=number, begins=begins, secret=drawn))

    def withdraw_link(self, name: str) -> None:
        """Forget the link to a study, if there is one."""
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
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
