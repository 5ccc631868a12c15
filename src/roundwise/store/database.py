"""The store: storage URLs, connections and transactions, tables, and create, append, read, find, list and remove.

What was acknowledged stays, readers never wait, and there is one engine a store and process. Two engines of one file
would be sound by themselves. But a fork copies what SQLite knows of its locks and not the locks, so before a fork the
connections of all engines are closed, and one registry of them makes that possible.

Nobody but SQLite may open the file, nor its -wal and -shm: closing any descriptor of a file drops all locks that the
process holds on it (POSIX), and those are what keeps another process from removing the log under an open store. A
look by name (`os.stat`) opens nothing.

The log is the truth; the other columns make reading cheap and can be rebuilt from it: where a study may be read from on
(`checkpoint`), a line about it (`overview`), and which entries hold a file or the key of a request (`roundwise_key`).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from roundwise.arrays import Facts
from roundwise.errors import (
    ConflictError,
    DamagedError,
    DataError,
    InputError,
    RoundwiseError,
    StoreError,
    StudyExistsError,
    UnknownStudyError,
    unknown,
)
from roundwise.formats.sheet import HOLDERS
from roundwise.messages import Remedy, option
from roundwise.store.log import (
    Entry,
    EventKind,
    Head,
    Listing,
    chain_entries,
    check_chain,
    encode_payload,
    format_time,
    parse_time,
    restore_advice,
    retry_advice,
    search_keys,
)

EXAMPLES = (
    "Write sqlite:///roundwise.db (a file here), sqlite:////data/roundwise.db (a full path), "
    "postgresql://user:password@host/database, or http://host:8000 (a server of roundwise)."
)
PATIENCE = 10  # seconds to wait for another writer, or for a server to answer
LONGEST = 200  # letters in the name of a study
SECRET = 24  # bytes of the secret of a link
SMALLEST = 512  # bytes in a page of SQLite; a file of one byte it would overwrite
MOUNTS = Path("/proc/self/mountinfo")  # Linux; elsewhere nothing is known of mounts
HOST = re.compile(  # and what may follow it: a port, a database, options
    r"(\[[^\]@]*\]|[^:/?@\[\]]*)(:\d*)?(/[^?@]*)?(\?(\w+=[^&]*(&\w+=[^&]*)*)?)?"
)
# Another machine takes part in these, and it sees neither the locks nor the shared memory of this one.
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|9p|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs|davfs\d?|ceph|lustre|gpfs|beegfs|glusterfs"
    r"|orangefs|pvfs2|ocfs2|gfs2|"
    r"fuse\.(sshfs|s3fs|goofys|gcsfuse|blobfuse\d?|rclone|davfs\d?|curlftpfs|glusterfs|ceph-fuse|ceph|smbnetfs|cifs|nfs"
    r"|juicefs|seaweedfs|weed|moosefs|mfs|lizardfs|hdfs|hadoop-hdfs|vmhgfs-fuse|grpcfuse|osxfs|gvfsd-fuse|google-drive"
    r"-ocamlfuse|onedriver|afp|httpfs\d?|keybase)"
)
Identity = tuple[int, int]  # device and inode


def identity(file: Path) -> Identity | None:
    """Which file the path leads to now, None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _beside(file: Path, ending: str) -> Path:
    """SQLite's own file next to a database."""
    return file.with_name(file.name + ending)


@dataclass(frozen=True)
class Address:
    """Where a store is."""

    url: sa.URL = field(repr=False)
    place: str  # for messages: the file, or the URL without password and options
    file: Path | None  # of SQLite
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def key(self) -> Hashable:
        """The identity of a store: the file itself, whatever its name, or the address of a database."""
        return identity(self.file) if self.file else self.url.render_as_string(hide_password=False)

    def describe(self, error: BaseException) -> str:
        """The first line of a driver's message, without the passwords of this address."""
        said = str(error)
        for secret in self.secrets:
            said = said.replace(secret, "***")
        return (said.strip().splitlines() or [type(error).__name__])[0].rstrip(".")

    def nothing_there(self) -> InputError:
        """The error for a store that was never made."""
        return InputError(
            f"There are no studies in {self.file or self.place} yet.",
            Remedy("{@create} begins the first; if there should be some, correct {@storage} or ROUNDWISE_STORAGE."),
        )

    def check_room(self, create: bool) -> None:
        """Raise an error where the file of a store cannot be, or is not there and may not be made."""
        file = self.file
        if file is None:
            return
        if not os.access(file.parent, os.X_OK) and file.parent.is_dir():
            raise StoreError(f"The folder {file.parent} cannot be read. Change its permissions.")
        if file.is_dir():
            raise InputError(
                f"{self.place} is a folder. Give the name of a file in it: sqlite:///{self.place}/roundwise.db."
            )
        if not file.parent.is_dir():
            raise InputError(
                f"The folder {file.parent} does not exist, so {self.place} cannot be opened. "
                f"Create it (mkdir -p {file.parent}) or correct the storage URL."
            )
        if not file.exists():
            if not create:
                raise self.nothing_there()
            if not os.access(file.parent, os.W_OK | os.X_OK):
                raise StoreError(
                    f"{self.place} cannot be created: you may not write to the folder {file.parent}. "
                    "Change its permissions, or choose another place."
                )
        else:
            found = file.stat()
            if not stat.S_ISREG(found.st_mode) or 0 < found.st_size < SMALLEST:
                raise DataError(
                    f"{self.place} is not an SQLite database. Give another file for the studies of roundwise."
                )
            self.check_names()
        where, kind = find_mount(file)
        if NETWORK.fullmatch(kind):
            raise StoreError(
                f"{self.place} is in a folder of the network ({where}, {kind}), where SQLite cannot keep processes "
                "apart and results get lost. Nothing was changed; give a file on a disk of this machine, or a "
                "PostgreSQL server (postgresql://user:password@host/database) to be reached from several."
            )
        if where == str(file):
            raise StoreError(
                f"{self.place} is mounted as a single file, so that its log (-wal) would be kept apart from it and get "
                f"lost. Nothing was changed; mount its folder {file.parent} instead."
            )

    def check_names(self) -> None:
        """Raise an error where a file has several names: SQLite keeps a log for each, and none sees the others'."""
        try:
            names = self.file.stat().st_nlink if self.file else 1
        except OSError:
            return  # it was moved or deleted, which is another matter
        if names > 1:
            raise StoreError(
                f"{self.place} has {names} names (hard links), and SQLite would keep a log of its own for each, so "
                "that results get lost. Nothing was changed; remove the other names (find / -samefile FILE lists "
                "them), or give a copy."
            )


def parse_url(given: str) -> Address:
    """The address that a storage URL means."""
    scheme = given.partition("://")[0]
    try:
        url = sa.make_url(_quote_password(given))
    except (ArgumentError, ValueError):  # the text may hold a password: only a path without scheme is repeated
        shown = f"'{given}'" if "@" not in given and ":" not in given else f"The given text ({len(given)} characters)"
        raise InputError(f"{shown} is not a storage URL. {EXAMPLES}") from None
    if scheme in ("sqlite", "sqlite+pysqlite"):
        name = url.database
        if not name or name == ":memory:" or url.query or url.host or "\0" in name:
            raise InputError(
                f"The storage URL '{url.render_as_string(hide_password=True)}' names no file, and a study must outlive "
                f"its process. {EXAMPLES}"
            )
        file = Path(os.path.realpath(name))  # whatever links lead to it, its log has one name
        return Address(sa.URL.create("sqlite", database=str(file)), name, file)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        hidden = (url.password, url.query.get("password"), url.query.get("sslpassword"))
        place = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database).render_as_string()
        return Address(url.set(drivername="postgresql+psycopg"), place, None, tuple(map(str, filter(None, hidden))))
    raise InputError(f"The storage URL begins with '{scheme}://', which roundwise does not know. {EXAMPLES}")


def _quote_password(given: str) -> str:
    """A URL whose password may hold @, / and ? as they are: it ends at the first @ before something that can be a host.

    >>> _quote_password("postgresql://user:p@ss/w@host/db"), _quote_password("postgresql://user:pw@host/db?x=a@b")
    ('postgresql://user:p%40ss%2Fw@host/db', 'postgresql://user:pw@host/db?x=a@b')
    >>> _quote_password("postgresql://user:p@ss/w?rd@host/db")
    'postgresql://user:p%40ss%2Fw%3Frd@host/db'
    """
    scheme, found, rest = given.partition("://")
    user, colon, behind = rest.partition(":")
    if not found or not colon or "@" in user or "/" in user:
        return given
    for i in (i for i, letter in enumerate(behind) if letter == "@"):
        if HOST.fullmatch(behind[i + 1 :]):
            password = behind[:i].replace("@", "%40").replace("/", "%2F").replace("?", "%3F")
            return f"{scheme}://{user}:{password}{behind[i:]}"
    return given


def find_mount(file: Path) -> tuple[str, str]:
    """Where the file system that holds a path is mounted, and its kind; empty where the system does not say."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, behind = before.split(" "), after.split(" ")
        if len(fields) < 5 or not behind[0]:
            continue
        where = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = str(file) == where or str(file).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):  # of two at one place the later one is on top
            best, kind = where, behind[0]
    return best, kind


Described = tuple[tuple[str, ...], type[RoundwiseError], str]  # how a code begins, and what it means
SQLITE_ERRORS: tuple[Described, ...] = (
    (("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"), StoreError, "The disk that holds {place} is full. {intact} {repeat}"),
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED"),
        StoreError,
        "{place} was being written by another process for more than {patience} seconds. Nothing was changed; repeat "
        "when it is done.",
    ),
    (
        ("SQLITE_NOTADB",),
        DataError,
        "{place} is not an SQLite database. Give another file for the studies of roundwise.",
    ),
    (
        ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"),
        StoreError,
        "{place} cannot be opened for writing. Give yourself the right to write to the file and its folder (SQLite "
        "keeps its journal beside the file), or choose another place.",
    ),
    (
        ("SQLITE_IOERR_SHORT_READ",),
        DamagedError,
        "{place} is shorter than it should be, perhaps because its log (-wal) was deleted. Keep a copy, and {restore}",
    ),
    (
        ("SQLITE_IOERR",),
        StoreError,
        "The disk that holds {place} refused ({code}): a quota, a limit on the size of files, or broken hardware. All "
        "or nothing of this was recorded, everything before is intact. Look with {status}, then repeat.",
    ),
    (
        ("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT"),
        DamagedError,
        "{place} is damaged: SQLite cannot read it as it was written. Keep a copy, and {restore}",
    ),
    (("",), StoreError, "SQLite failed on {place} ({detail}). Nothing of this was recorded."),
)
POSTGRESQL_ERRORS: tuple[Described, ...] = (
    (("connecting",), StoreError, "{place} cannot be reached ({detail}). Start the server, or correct the address."),
    (
        ("lost", "08", "57P"),
        StoreError,
        "The connection to {place} was lost ({detail}). All or nothing of this was recorded: when the server is back, "
        "look with {status}, then repeat.",
    ),
    (("40001",), ConflictError, "Another writer of {place} was first ({detail}). Nothing was changed; repeat."),
    (("53100",), StoreError, "The disk of the server of {place} is full. {intact} {repeat}"),
    (
        ("55P03",),
        StoreError,
        "The study was being written by another process for more than {patience} seconds in {place}. Nothing was "
        "changed; repeat when it is done.",
    ),
    (
        ("57014", "25P03", "25P04"),
        StoreError,
        "The server of {place} stopped this because it took too long or was cancelled ({detail}). {intact} "
        "Repeat, or ask for a longer time there.",
    ),
    (
        ("42501", "3F000"),
        StoreError,
        "The user of {place} may not do this ({detail}). Ask for the right to create and write tables there.",
    ),
    (("25006",), StoreError, "{place} takes no writes ({detail}). Give the address of the primary server."),
    (
        ("42",),
        DamagedError,
        "{place} does not hold the tables of roundwise as they were made ({detail}). Restore a backup.",
    ),
    (("",), StoreError, "PostgreSQL failed on {place} ({detail}). Nothing of this was recorded."),
)


@contextmanager
def translate_errors(address: Address, connecting: bool = False) -> Iterator[None]:
    """Turn what the database raises into errors of roundwise."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # a driver that failed because of it
            raise error.__context__ from None
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        if address.file:
            garbled = isinstance(cause, UnicodeDecodeError) or "Could not decode" in str(cause)
            code = str(getattr(cause, "sqlite_errorname", "")) or ("SQLITE_CORRUPT" if garbled else "")
        else:
            code = "connecting" if connecting else str(getattr(cause, "sqlstate", None) or "lost")
        table = SQLITE_ERRORS if address.file else POSTGRESQL_ERRORS
        kind, said = next((kind, said) for codes, kind, said in table if code.startswith(codes))
        raise kind(  # not from the driver's own error, which may hold the password and the whole payload
            said.format(
                place=address.place,
                code=code,
                detail=address.describe(cause),
                patience=PATIENCE,
                intact="Nothing of this was recorded, everything before is intact.",
                repeat="Make room and repeat.",
                restore=restore_advice("restore the studies"),
                status=option("status"),
            )
        ) from None


class Opened(sqlite3.Connection):
    """A connection of SQLite that can be referred to weakly, so that it is known whether it is still there."""


def _open_file(file: Path, mode: str) -> Opened:
    """A connection of SQLite to a file, which is made in the mode 'rwc' alone."""
    return sqlite3.connect(
        f"{file.as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        factory=Opened,
    )


def _open_readable(file: Path) -> Callable[[], Opened]:
    """What opens a file beside which nothing can be written: as it is, or a copy where its log holds something.

    No process can write to it meanwhile, and every entry is checked against the one before it.
    """
    log = _beside(file, "-wal")
    if not log.exists() or not log.stat().st_size:
        return lambda: _open_file(file, "ro&immutable=1")
    folder = Path(tempfile.mkdtemp(prefix="roundwise-"))
    copy = folder / "copy.db"
    shutil.copyfile(file, copy)
    shutil.copyfile(log, _beside(copy, "-wal"))

    def connected() -> Opened:
        return _open_file(copy, "rw")

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
# Where a server is told to acknowledge commits before they are on disk, not so for studies.
CAREFUL = sa.text(
    "select set_config('lock_timeout', :patience, true), set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), true)"
)


class Access:
    """The one engine of a store in this process, and the transactions that go through it."""

    def __init__(self, address: Address, home: Identity | None, registry: Registry) -> None:
        self.address = address
        self.home = home  # the file of SQLite as it was opened: another one of the same name is another store
        self.pid = os.getpid()
        self.users = 0
        self.lost = ""  # why it cannot be used any more
        self.unwritable: BaseException | None = None  # what a disk said that can only be read
        self._registry = registry
        self._lock = threading.RLock()
        self.open: weakref.WeakSet[Opened] = weakref.WeakSet()  # connections of SQLite, in any thread
        self._beside: dict[str, Identity] = {}  # their -wal and -shm: the same as long as one of them is open
        self.engine = self._sqlite(address.file) if address.file else self._postgresql()

    @property
    def busy(self) -> bool:
        """Whether connections are in use just now."""
        pool = self.engine.pool
        assert isinstance(pool, sa.QueuePool)
        return pool.checkedout() > 0

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees a snapshot of the store, and blocks no other."""
        options = {} if self.address.file else {"isolation_level": "REPEATABLE READ"}
        with self._connection() as connection, connection.execution_options(**options).begin():
            self._look()
            yield connection
            self._look()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that is durable once it is left, or leaves nothing behind."""
        with self._connection() as connection:
            if self.unwritable is not None:
                raise self.unwritable
            with connection.execution_options(**{WRITING: True}).begin():
                self._look()
                if self.address.file:
                    self.address.check_names()
                else:
                    connection.execute(CAREFUL, {"patience": f"{PATIENCE}s"})
                yield connection
                self._look()
                driver = connection.connection.dbapi_connection
                if isinstance(driver, Opened) and not driver.in_transaction:  # Python's `commit` would say nothing
                    place = self.address.place
                    raise StoreError(f"The transaction on {place} was ended from outside. Nothing was recorded.")
            self._look("All or nothing of this was recorded")
            if self.address.file:
                self._settle(connection)

    def use_wal(self) -> None:
        """SQLite's write-ahead log, in which a writer and readers do not meet; kept in the file once set."""
        if self.unwritable is not None:
            return
        with self._registry.gate, translate_errors(self.address), closing(self.engine.raw_connection()) as connection:
            connection.cursor().execute("pragma journal_mode = wal")

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        with self._registry.gate:
            if self.lost:
                raise StoreError(self.lost)
            try:
                with translate_errors(self.address, connecting=True):
                    connection = self._connect()
                with translate_errors(self.address):
                    try:
                        yield connection
                    except Exception:
                        raise
                    except BaseException:  # interrupted anywhere: the state of the connection is unknown
                        if not self.lost:
                            connection.invalidate()  # while it is ours: once back in the pool it may be another's
                        raise
                    finally:
                        connection.close()
            finally:
                if self.users == 0:  # the store was closed meanwhile
                    self._registry.finish(self)

    def _connect(self) -> sa.Connection:
        """A connection; one that only reads, where the disk takes nothing: it is full, or may not be written to."""
        try:
            return self.engine.connect()
        except DBAPIError as error:
            name, file = str(getattr(error.orig, "sqlite_errorname", "")), self.address.file
            if file is None or self.unwritable is not None:
                raise
            if not name.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM", "SQLITE_IOERR_WRITE")):
                fixed = not os.access(file.parent, os.W_OK) or bool(os.statvfs(file.parent).f_flag & os.ST_RDONLY)
                if not fixed or not name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                    raise
            engine = sa.create_engine("sqlite://", creator=_open_readable(file), poolclass=sa.QueuePool, pool_size=0)
            connection = engine.connect()
            connection.exec_driver_sql("select count(*) from sqlite_master").scalar()
            connection.rollback()
            self.engine, self.unwritable = engine, error
            return connection

    def check_place(self) -> None:
        """Raise an error where the file is not the one that was opened; and always, once that was seen."""
        if self.lost:
            raise StoreError(self.lost)
        self._look()

    def _look(self, done: str = "Nothing was changed") -> None:
        """Raise an error where the file or its log, by name, are not those that the connection has open.

        Otherwise writes would go to a file that no other process finds.
        """
        if self.pid != os.getpid():
            raise StoreError(f"This process was forked while {self.address.place} was written. Nothing was changed.")
        file = self.address.file
        if file is None:
            return
        if file.is_symlink() or identity(file) != self.home:  # the name was resolved: a link was put there since
            raise self._loss(MOVED, done)
        for ending, known in self._beside.items():
            if identity(_beside(file, ending)) != known:
                raise self._loss(CUT_OFF, done)

    def _loss(self, what: str, done: str = "Nothing was changed") -> StoreError:
        self.lost = f"{self.address.place} {what.format(done='Nothing was changed', look=retry_advice())}"
        self._registry.forsake(self)
        return StoreError(f"{self.address.place} {what.format(done=done, look=retry_advice())}")

    def keep_open(self) -> None:
        """Keep connections from being closed, even at the end of the process: only the system closes them then."""
        for connection in self.open:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def _settle(self, connection: sa.Connection) -> None:
        """Bring what was committed from the log into the file itself, except pages that a reader still needs.

        Under the lock of writers: before SQLite 3.51.3 a commit during a checkpoint may spoil the log ("WAL-reset
        bug"). A writer that does not get that lock at once leaves it to the other, and what fails here is as safe in
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
            found = {ending: each for ending in ("-wal", "-shm") if (each := identity(_beside(file, ending)))}
            with self._lock:
                if not self.open - {connection}:
                    self._beside = {}
                known = self._beside = found | self._beside
            if any(found.get(ending) != each for ending, each in known.items()):
                raise self._loss(CUT_OFF)

    def _sqlite(self, file: Path) -> sa.Engine:
        def connected() -> Opened:
            connection = _open_file(file, "rw")
            if identity(file) != self.home:
                connection.close()
                raise self._loss(MOVED)
            return connection

        # as many connections as threads ask for, and each kept
        engine = sa.create_engine("sqlite://", creator=connected, poolclass=sa.QueuePool, pool_size=0)

        @sa.event.listens_for(engine, "connect")
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

        @sa.event.listens_for(engine, "close")
        def left(connection: Opened, _: Any = None) -> None:
            with self._lock:
                self.open.discard(connection)

        @sa.event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            # a writer that begins as a reader fails at once when another one writes, whatever the timeout
            writing = connection.get_execution_options().get(WRITING)
            connection.exec_driver_sql("begin immediate" if writing else "begin")
            if len(self._beside) < 2:  # they were begun after this connection
                mine = connection.connection.dbapi_connection
                self._learn(file, mine, connection.exec_driver_sql("pragma journal_mode").scalar())

        return engine

    def _postgresql(self) -> sa.Engine:
        address = self.address
        try:
            return sa.create_engine(
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
            raise InputError(f"The storage URL of {address.place} cannot be used: {address.describe(error)}.") from None


class Gate:
    """A gate that all uses of a database pass concurrently, and that is shut during a fork."""

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
        """Block new uses and wait for current ones to end, with a timeout; this thread's own do not count."""
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

    def take(self, address: Address, create: bool = False) -> Access:
        """The way into a store, for one more user."""
        with self.gate, self.lock:
            access = self.accesses.get(address.key)
            if access is None:
                home = None if address.file is None else self._find_home(address, address.file, create)
                access = self.accesses[home or address.key] = Access(address, home, self)
            access.users += 1
            return access

    def _find_home(self, address: Address, file: Path, create: bool) -> Identity | None:
        new = identity(file) is None
        if new and not create:
            raise address.nothing_there()
        # layered file systems give a file another number when it is first opened to be written
        with translate_errors(address), closing(_open_file(file, "rwc" if create else "rw")):
            home = identity(file)
            if new:  # for its owner alone to read; SQLite's own files beside it take after it
                with suppress(OSError):
                    file.chmod(0o600)
        if home in self.spoilt:
            raise StoreError(
                f"{address.place} was open in this process when it was forked, or lost its log while in use, and "
                "SQLite cannot use it here again. Nothing was changed; start the program anew (for "
                "multiprocessing: the start method 'spawn')."
            )
        return home

    def check_pins(self, address: Address) -> bool:
        """Whether a store is pinned at this address; an error where its file was moved, replaced or deleted since."""
        with self.gate, self.lock:
            found = [access for access in self.pinned if access.address.file == address.file is not None]
        for access in found:
            access.check_place()
        return bool(found)

    def finish(self, access: Access) -> None:
        """Close the connections if they are unused, by stores and by threads."""
        with self.gate, self.lock:
            if access.users == 0 and not access.busy and not access.lost:
                self.accesses = {key: each for key, each in self.accesses.items() if each is not access}
                access.engine.dispose()

    def forsake(self, access: Access) -> None:
        """No longer to be used, nor closed: SQLite would write its log into a file that went on without it."""
        with self.gate, self.lock:
            self.accesses = {key: each for key, each in self.accesses.items() if each is not access}
            if access.open:
                self.spoilt.add(access.home)
                access.keep_open()

    def holds(self, path: Path) -> bool:
        """Whether a path is that of a database in use here, or of one of SQLite's files next to it."""
        found = identity(path)
        with self.gate, self.lock:
            files = [access.address.file for access in self.accesses.values() if access.address.file]
        beside_them = [_beside(file, ending) for file in files for ending in ("", "-wal", "-shm", "-journal")]
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
                access.keep_open()
        return Registry(frozenset(spoilt))


_registry = Registry()


def registry() -> Registry:
    """That of this process."""
    global _registry
    if _registry.pid != os.getpid():  # a fork that bypassed Python
        _registry = _registry.inherited()
    return _registry


HOLDERS.append(lambda path: registry().holds(path))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: registry().before_fork(),
        after_in_parent=lambda: registry().gate.open(),
        after_in_child=registry,
    )


def _release(access: Access) -> None:
    """One user less, in the process that opened it; what was inherited is left alone. The last closes connections."""
    if access.pid == os.getpid():
        here = registry()
        with here.gate, here.lock:
            access.users -= 1
            here.finish(access)


UNREADABLE = (TypeError, ValueError, OverflowError)  # what comes of a cell that is not of its type any more
VERSION = 4  # 1 to 3 were never released

_METADATA = sa.MetaData()
SCHEMA = sa.Table("roundwise_schema", _METADATA, sa.Column("version", sa.Integer, nullable=False))
STUDY = sa.Table(
    "roundwise_study",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("changed_at", sa.Text, nullable=False),
    sa.Column("entries", sa.Integer, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),  # of the last entry: a log that lost its end is noticed
    sa.Column("checkpoint", sa.Integer, nullable=False),  # the last entry that holds all of the state, or 0
    sa.Column("overview", sa.Text, nullable=False),  # JSON, for lists of studies; empty if there is none
)
ENTRY = sa.Table(
    "roundwise_entry",
    _METADATA,
    sa.Column("study_id", sa.ForeignKey(STUDY.c.id), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.Text, nullable=False),
    sa.Column("recorded_by", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
KEY = sa.Table(
    "roundwise_key",
    _METADATA,
    sa.Column("study_id", sa.ForeignKey(STUDY.c.id), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
)
LINK = sa.Table(
    "roundwise_link",
    _METADATA,
    sa.Column("study_id", sa.ForeignKey(STUDY.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("begins", sa.Text, nullable=False),  # the digest of its first entry: numbers of studies are used again
    sa.Column("secret", sa.Text, nullable=False),
)


def has_schema(connection: sa.Connection, place: str) -> bool:
    """Whether the tables of this version are there; an error where there are other ones."""
    tables = sa.inspect(connection)
    if tables.has_table(SCHEMA.name):
        found = connection.scalar(sa.select(SCHEMA.c.version))
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
        return True
    # a PostgreSQL database may be shared with other programs, a file may not
    others = tables.get_table_names() if connection.dialect.name == "sqlite" else []
    if others:
        raise DataError(
            f"{place} is the database of another program (it holds the table '{others[0]}'). "
            "Give another file for the studies of roundwise."
        )
    return False


def _entry_from(name: str, place: int, row: sa.Row[Any]) -> Entry:
    """The entry in a row; an error if it was changed."""
    try:
        at = parse_time(row.recorded_at)
        entry = Entry(name, row.seq, row.kind, at, row.recorded_by, row.version, row.payload, row.digest)
        if not all(isinstance(each, str) for each in (entry.kind, entry.by, entry.version, entry.text, entry.digest)):
            raise TypeError
        return entry
    except UNREADABLE:
        raise _unreadable_entry(name, place) from None


def _unreadable_entry(name: str, place: int) -> DamagedError:
    return DamagedError(f"The log of study '{name}' was changed: entry {place} cannot be read. {restore_advice()}")


def _last_checkpoint(entries: Sequence[Entry]) -> int | None:
    return next((entry.seq for entry in reversed(entries) if entry.kind == EventKind.CHECKPOINT), None)


def _check_name(name: str) -> str:
    if not name or len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise InputError(
            f"A study cannot be called {name[:50]!r}: give a name of 1 to {LONGEST} printable letters, "
            "without blanks at its ends."
        )
    return name


def open_database(address: Address, create: bool) -> Store:
    """The store at an address, made where needed; where its tables are there, a look and no lock."""
    create = not registry().check_pins(address) and create
    address.check_room(create)
    store = Store(address)
    access = store.reached(create)
    try:
        with access.reading() as connection:
            found = has_schema(connection, address.place)
        if not found and not create:
            raise address.nothing_there()
        if address.file:
            access.use_wal()
        if not found:
            with access.writing() as connection:
                if not address.file:  # of two who make tables at once the second waits, then finds them
                    connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": 0x726F756E64})
                if not has_schema(connection, address.place):
                    _METADATA.create_all(connection)
                    connection.execute(SCHEMA.insert().values(version=VERSION))
    except BaseException:
        store.close()
        raise
    return store


class Store:
    """Studies and their logs. May be shared by threads, and is opened anew in a process that was forked."""

    server = None  # studies are written directly

    def __init__(self, address: Address) -> None:
        self.address = address
        self._access: Access | None = None

    def __repr__(self) -> str:
        return f"Store({self.address.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back files and connections, which other stores of this process may continue to use."""
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
                    self._access = access = here.take(self.address, create)
                    self._finalizer = weakref.finalize(self, _release, access)
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

    def create(self, name: str, payload: Facts, kind: str = "created", overview: Facts | None = None) -> Entry:
        """Begin a study: its entry 0."""
        (entry,) = chain_entries(_check_name(name), Head(), [(kind, encode_payload(payload))], datetime.now(UTC))
        self._insert([entry], overview)
        return entry

    def put(self, entries: Sequence[Entry], overview: Facts | None = None) -> Listing:
        """Take in a whole log, as it was exported."""
        if not entries:
            raise InputError("A log without entries is not a study.")
        check_chain(entries)
        name = _check_name(entries[0].study)
        if any(entry.study != name for entry in entries):
            raise InputError("A log belongs to one study, but these entries name several.")
        self._insert(entries, overview)
        return Listing(name, entries[0].at, entries[-1].at, len(entries), dict(overview or {}))

    def append(
        self, name: str, new: Sequence[tuple[str, Facts]], expected: int, overview: Facts | None = None
    ) -> list[Entry]:
        """Record each (kind, payload) after the entry `expected`: all, or none where the study has moved on since."""
        texts = [(kind, encode_payload(payload)) for kind, payload in new]  # before the lock: a payload may be large
        with self.reached().writing() as connection:
            number, head = self._locked_head(connection, name, expected)
            made = chain_entries(name, head, texts, datetime.now(UTC))
            entries = [entry.keep_payload(payload) for entry, (_, payload) in zip(made, new, strict=True)]
            if not entries:
                return entries
            self._add(connection, number, entries)
            last, kept = entries[-1], _last_checkpoint(entries)
            values = {"entries": last.seq + 1, "digest": last.digest, "changed_at": format_time(last.at)}
            values |= {} if kept is None else {"checkpoint": kept}
            if overview is not None:
                values["overview"] = encode_payload(overview)
            connection.execute(sa.update(STUDY).where(STUDY.c.id == number).values(values))
        return entries

    def remove(self, name: str, expected: int) -> None:
        """Forget a study altogether, unless it has moved on since the entry `expected`; its name is free again."""
        with self.reached().writing() as connection:
            number, _ = self._locked_head(connection, name, expected)
            for table in (LINK, KEY, ENTRY):
                connection.execute(sa.delete(table).where(table.c.study_id == number))
            connection.execute(sa.delete(STUDY).where(STUDY.c.id == number))

    def read(self, name: str, after: int = -1) -> list[Entry]:
        """The entries of a study after number `after`, in order, each checked against the one before it."""
        with self.reached().reading() as connection:
            number, head = self._head(connection, name)
            return self._entries(connection, name, number, head, after)

    def recent(self, name: str) -> list[Entry]:
        """The first entry, and those from the last checkpoint on (all, if there is none), each checked."""
        with self.reached().reading() as connection:
            number, head = self._head(connection, name)
            first = self._entries(connection, name, number, head, last=0) if head.checkpoint else []
            return [*first, *self._entries(connection, name, number, head, head.checkpoint - 1)]

    def head(self, name: str) -> Head:
        """Where the log of a study ends; an `UnknownStudyError` where there is no such study."""
        with self.reached().reading() as connection:
            return self._head(connection, name)[1]

    def find(self, name: str, key: str) -> list[Entry]:
        """The entries of a study that tell a file or answer a request (see `log.search_keys`)."""
        with self.reached().reading() as connection:
            number, _ = self._head(connection, name)
            rows = connection.execute(
                sa.select(ENTRY)
                .join(KEY, (KEY.c.study_id == ENTRY.c.study_id) & (KEY.c.seq == ENTRY.c.seq))
                .where(KEY.c.study_id == number, KEY.c.name == key)
                .order_by(ENTRY.c.seq)
            ).all()
        found = [_entry_from(name, row.seq, row) for row in rows]
        for each in found:  # what an index leads to is not checked against the entry before it
            with suppress(ValueError, RecursionError):
                if isinstance(each.payload, dict):
                    continue
            raise _unreadable_entry(name, each.seq)
        return found

    def link(self, name: str) -> str | None:
        """The secret of the link to a study; None where there is none, or no such study."""
        with self.reached().reading() as connection:
            begun = (ENTRY.c.study_id == STUDY.c.id) & (ENTRY.c.seq == 0) & (ENTRY.c.digest == LINK.c.begins)
            found = connection.scalar(
                sa.select(LINK.c.secret).join(STUDY).join(ENTRY, begun).where(STUDY.c.name == name)
            )
        return found if isinstance(found, str) and found else None

    def make_link(self, name: str) -> None:
        """Draw the secret of a link to a study, unless there is one."""
        link, entry = LINK.c, ENTRY.c
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
            begins = connection.scalar(sa.select(entry.digest).where(entry.study_id == number, entry.seq == 0))
            connection.execute(sa.delete(LINK).where(link.study_id == number, link.begins != begins))
            if connection.scalar(sa.select(link.study_id).where(link.study_id == number)) is None:
                drawn = secrets.token_urlsafe(SECRET)
                connection.execute(sa.insert(LINK).values(study_id=number, begins=begins, secret=drawn))

    def withdraw_link(self, name: str) -> None:
        """Forget the link to a study, if there is one."""
        with self.reached().writing() as connection:
            number, _ = self._head(connection, name, lock=True)
            connection.execute(sa.delete(LINK).where(LINK.c.study_id == number))

    def studies(self) -> list[Listing]:
        """All studies, by name."""
        columns = STUDY.c
        with self.reached().reading() as connection:
            rows = connection.execute(
                sa.select(columns.name, columns.created_at, columns.changed_at, columns.entries, columns.overview)
            ).all()
        found = []
        with self._readable_list():
            for name, created, changed, entries, overview in rows:
                about = json.loads(overview) if overview else {}
                if not isinstance(about, dict):
                    raise TypeError
                found.append(Listing(str(name), parse_time(created), parse_time(changed), int(entries), about))
        return sorted(found, key=lambda each: each.name)

    def ends(self) -> dict[str, tuple[int, str]]:
        """Of every study how many entries it has, and the digest of the last: cheap, to see what has changed."""
        with self.reached().reading() as connection:
            rows = connection.execute(sa.select(STUDY.c.name, STUDY.c.entries, STUDY.c.digest)).all()
        with self._readable_list():
            return {str(row.name): (int(row.entries), str(row.digest)) for row in rows}

    @contextmanager
    def _readable_list(self) -> Iterator[None]:
        try:
            yield
        except UNREADABLE:
            place = self.address.place
            raise DamagedError(f"{place} is damaged: the list of studies cannot be read. {restore_advice()}") from None

    def _entries(
        self, connection: sa.Connection, name: str, number: int, head: Head, after: int = -1, last: int | None = None
    ) -> list[Entry]:
        """The entries after number `after`, up to `last` or the end, each checked against the one before it."""
        if after >= head.entries:
            raise InputError(f"Study '{name}' has no entry {after}; its last is {head.entries - 1}.")
        columns, start = ENTRY.c, Head()
        mine = sa.select(ENTRY).where(columns.study_id == number).order_by(columns.seq)
        if after >= 0:
            known = connection.scalar(mine.where(columns.seq == after).with_only_columns(columns.digest))
            start = Head(after + 1, str(known))
        query = mine.where(columns.seq >= start.entries)
        rows = connection.execute(query if last is None else query.where(columns.seq <= last)).all()
        entries = [_entry_from(name, start.entries + i, row) for i, row in enumerate(rows)]
        check_chain(entries, start)
        end = start.entries + len(entries), entries[-1].digest if entries else start.digest
        if last is None and end != (head.entries, head.digest):
            raise DamagedError(
                f"The log of study '{name}' was changed: it should end with entry {head.entries - 1}, but ends with "
                f"another one, entry {end[0] - 1}. {restore_advice()}"
            )
        return entries

    def _insert(self, entries: Sequence[Entry], overview: Facts | None) -> None:
        first, last = entries[0], entries[-1]
        values = {
            "name": first.study,
            "created_at": format_time(first.at),
            "changed_at": format_time(last.at),
            "entries": len(entries),
            "digest": last.digest,
            "checkpoint": _last_checkpoint(entries) or 0,
            "overview": "" if overview is None else encode_payload(overview),
        }
        with self.reached().writing() as connection:
            try:
                connection.execute(sa.insert(STUDY).values(values))
            except IntegrityError:
                raise StudyExistsError(
                    f"There is already a study called '{first.study}' in {self.address.place}. Nothing was changed; "
                    "choose another name, or continue that study."
                ) from None
            number = connection.execute(sa.select(STUDY.c.id).where(STUDY.c.name == first.study)).scalar_one()
            self._add(connection, number, entries)

    def _add(self, connection: sa.Connection, number: int, entries: Sequence[Entry]) -> None:
        """Record entries, and what they can be found by."""
        for entry in entries:  # one at a time: a payload may have many megabytes
            connection.execute(
                sa.insert(ENTRY),
                {
                    "study_id": number,
                    "seq": entry.seq,
                    "kind": entry.kind,
                    "recorded_at": format_time(entry.at),
                    "recorded_by": entry.by,
                    "version": entry.version,
                    "payload": entry.text,
                    "digest": entry.digest,
                },
            )
        keys = [
            {"study_id": number, "name": key, "seq": entry.seq}
            for entry in entries
            for key in set(search_keys(entry.kind, entry.payload))
        ]
        if keys:
            connection.execute(sa.insert(KEY), keys)

    def _head(self, connection: sa.Connection, name: str, lock: bool = False) -> tuple[int, Head]:
        """The number of a study and where its log ends, locked against other writers where asked."""
        columns = STUDY.c
        query = sa.select(columns.id, columns.entries, columns.digest, columns.changed_at, columns.checkpoint).where(
            columns.name == name
        )
        query = query.with_for_update() if lock else query
        row = connection.execute(query).one_or_none() if name.isprintable() else None  # some letters no database takes
        if row is None:
            names = [str(each) for each in connection.scalars(sa.select(columns.name))]
            raise UnknownStudyError(str(unknown("study", name, names) if names else self.address.nothing_there()))
        try:
            found = Head(int(row.entries), str(row.digest), parse_time(row.changed_at), int(row.checkpoint))
            if not 0 <= found.checkpoint < found.entries < 2**53:
                raise ValueError
            return row.id, found
        except UNREADABLE:
            raise DamagedError(f"{self.address.place} is damaged at study '{name}'. {restore_advice()}") from None

    def _locked_head(self, connection: sa.Connection, name: str, expected: int) -> tuple[int, Head]:
        """The number and head of a study, locked; a `ConflictError` where its last entry is not `expected`."""
        number, head = self._head(connection, name, lock=True)
        end = head.entries - 1
        if end == expected:
            return number, head
        row = connection.execute(sa.select(ENTRY).where(ENTRY.c.study_id == number, ENTRY.c.seq == end)).one_or_none()
        if row is None or expected > end:
            raise ConflictError(f"Study '{name}' ends with entry {end}, not {expected}. Nothing was changed.")
        last = _entry_from(name, end, row)
        raise ConflictError(
            f"Study '{name}' has moved on: {last.by} recorded entry {last.seq} ('{last.kind}') on "
            f"{last.at:%Y-%m-%d at %H:%M} UTC, but entry {expected} is the last one known here. Nothing was changed; "
            "look again and repeat."
        )
