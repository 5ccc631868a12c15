"""Connections and transactions: what was acknowledged stays, readers never wait, one engine a store and process.

Two engines of one file would be sound by themselves. But a fork copies what SQLite knows of its locks and not the
locks, so before a fork the connections of all engines are closed, and one registry of them makes that possible.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from roundwise.errors import InputError, StoreError
from roundwise.formats.sheet import HOLDERS
from roundwise.store.log import look
from roundwise.store.url import PATIENCE, Address, Identity, beside, identity, nothing_there, one_name, sentences


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
