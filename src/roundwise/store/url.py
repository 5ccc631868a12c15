"""Where a store is: storage URLs, said back without the password, what can be known of a database file without opening
it, and what a database complains of, as one sentence that says what to do.

Nobody but SQLite may open the file, nor its -wal and -shm: closing any descriptor of a file drops all locks that the
process holds on it (POSIX), and those are what keeps another process from removing the log under an open store. A
look by name (`os.stat`) opens nothing.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from roundwise.errors import ConflictError, DamagedError, DataError, InputError, RoundwiseError, StoreError
from roundwise.messages import Remedy
from roundwise.store.log import look, restore

EXAMPLES = (
    "Write sqlite:///roundwise.db (a file here), sqlite:////data/roundwise.db (a full path), "
    "postgresql://user:password@host/database, or http://host:8000 (a server of roundwise)."
)


@dataclass(frozen=True)
class Address:
    """Where a store is."""

    url: URL = field(repr=False)
    place: str  # for messages: the file, or the URL without password and options
    file: Path | None  # of SQLite
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def censored(self, text: str) -> str:
        """A driver's message without the passwords of this address."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse_url(text: str) -> Address:
    """The address that a storage URL means."""
    scheme = text.partition("://")[0]
    try:
        url = make_url(quoted(text))
    except (ArgumentError, ValueError):  # the text may hold a password: only a path without scheme is repeated
        shown = f"'{text}'" if "@" not in text and ":" not in text else f"The given text ({len(text)} characters)"
        raise InputError(f"{shown} is not a storage URL. {EXAMPLES}") from None
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _sqlite(url)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return _postgresql(url)
    raise InputError(f"The storage URL begins with '{scheme}://', which roundwise does not know. {EXAMPLES}")


HOST = re.compile(  # and what may follow it: a port, a database, options
    r"(\[[^\]@]*\]|[^:/?@\[\]]*)(:\d*)?(/[^?@]*)?(\?(\w+=[^&]*(&\w+=[^&]*)*)?)?"
)


def quoted(text: str) -> str:
    """A URL whose password may hold @, / and ? as they are: it ends at the first @ before something that can be a host.

    >>> quoted("postgresql://user:p@ss/w@host/db"), quoted("postgresql://user:pw@host/db?sslpassword=a@b")
    ('postgresql://user:p%40ss%2Fw@host/db', 'postgresql://user:pw@host/db?sslpassword=a@b')
    >>> quoted("postgresql://user:p@ss/w?rd@host/db")
    'postgresql://user:p%40ss%2Fw%3Frd@host/db'
    """
    scheme, found, rest = text.partition("://")
    user, colon, behind = rest.partition(":")
    if not found or not colon or "@" in user or "/" in user:
        return text
    for i in (i for i, letter in enumerate(behind) if letter == "@"):
        if HOST.fullmatch(behind[i + 1 :]):
            password = behind[:i]
            for letter in "@/?":
                password = password.replace(letter, f"%{ord(letter):02X}")
            return f"{scheme}://{user}:{password}{behind[i:]}"
    return text


def _sqlite(url: URL) -> Address:
    name = url.database
    if not name or name == ":memory:" or url.query or url.host or "\0" in name:
        found = url.render_as_string(hide_password=True)
        raise InputError(f"The storage URL '{found}' names no file, and a study must outlive its process. {EXAMPLES}")
    file = Path(os.path.realpath(name))  # whatever links lead to it, its log has one name
    return Address(URL.create("sqlite", database=str(file)), name, file)


def _postgresql(url: URL) -> Address:
    secrets = (url.password, url.query.get("password"), url.query.get("sslpassword"))
    place = URL.create("postgresql", url.username, None, url.host, url.port, url.database)
    return Address(
        url.set(drivername="postgresql+psycopg"),
        place.render_as_string(),
        None,
        tuple(str(each) for each in secrets if each),
    )


Identity = tuple[int, int]  # device and inode

# Another machine takes part in these, and it sees neither the locks nor the shared memory of this one.
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|9p|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs|davfs\d?|ceph|lustre|gpfs|beegfs|glusterfs"
    r"|orangefs|pvfs2|ocfs2|gfs2|"
    r"fuse\.(sshfs|s3fs|goofys|gcsfuse|blobfuse\d?|rclone|davfs\d?|curlftpfs|glusterfs|ceph-fuse|ceph|smbnetfs|cifs|nfs"
    r"|juicefs|seaweedfs|weed|moosefs|mfs|lizardfs|hdfs|hadoop-hdfs|vmhgfs-fuse|grpcfuse|osxfs|gvfsd-fuse|google-drive"
    r"-ocamlfuse|onedriver|afp|httpfs\d?|keybase)"
)
SMALLEST = 512  # bytes in a page of SQLite; a file of one byte it would overwrite
MOUNTS = Path("/proc/self/mountinfo")  # Linux; elsewhere nothing is known of mounts


def identity(file: Path) -> Identity | None:
    """Which file the path leads to now, None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def beside(file: Path, ending: str) -> Path:
    """SQLite's own file next to a database."""
    return file.with_name(file.name + ending)


def room(address: Address, create: bool) -> None:
    """Raise an error where the file of a store cannot be, or is not there and may not be made."""
    file = address.file
    if file is None:
        return
    if not os.access(file.parent, os.X_OK) and file.parent.is_dir():
        raise StoreError(f"You may not look into the folder {file.parent}. Give yourself that right.")
    if file.is_dir():
        raise InputError(
            f"{address.place} is a folder. Give the name of a file in it: sqlite:///{address.place}/roundwise.db."
        )
    if not file.parent.is_dir():
        raise InputError(
            f"The folder {file.parent} does not exist, so {address.place} cannot be opened. "
            f"Create it (mkdir -p {file.parent}) or correct the storage URL."
        )
    if not file.exists():
        if not create:
            raise nothing_there(address)
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise StoreError(
                f"{address.place} cannot be created: you may not write to the folder {file.parent}. "
                "Give yourself that right, or choose another place."
            )
    else:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or 0 < found.st_size < SMALLEST:
            raise not_a_database(address)
        one_name(address)
    _local(address, file)


def one_name(address: Address) -> None:
    """Raise an error where a file has several names: SQLite keeps a log for each, and none sees the others'."""
    try:
        names = address.file.stat().st_nlink if address.file else 1
    except OSError:
        return  # it was moved or deleted, which is another matter
    if names > 1:
        raise StoreError(
            f"{address.place} has {names} names (hard links), and SQLite would keep a log of its own for each, "
            "so that results get lost. Nothing was changed; remove the other names (find / -samefile FILE lists them), "
            "or give a copy."
        )


def _local(address: Address, file: Path) -> None:
    """Raise an error where a file is on another machine, or is mounted without its folder."""
    where, kind = mount(file)
    if NETWORK.fullmatch(kind):
        raise StoreError(
            f"{address.place} is in a folder of the network ({where}, {kind}), where SQLite cannot keep processes "
            "apart and results get lost. Nothing was changed; give a file on a disk of this machine, or a PostgreSQL "
            "server (postgresql://user:password@host/database) to be reached from several."
        )
    if where == str(file):
        raise StoreError(
            f"{address.place} is mounted as a single file, so that its log (-wal) would be kept apart from it and get "
            f"lost. Nothing was changed; mount its folder {file.parent} instead."
        )


def mount(file: Path) -> tuple[str, str]:
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


def not_a_database(address: Address) -> DataError:
    """The error for a file that is something else."""
    return DataError(f"{address.place} is not an SQLite database. Give another file for the studies of roundwise.")


def nothing_there(address: Address) -> InputError:
    """The error for a store that was never made."""
    where = address.file or address.place
    return InputError(
        f"There are no studies in {where} yet.",
        Remedy("{@create} begins the first; if there should be some, correct {@storage} or ROUNDWISE_STORAGE."),
    )


PATIENCE = 10  # seconds to wait for another writer, or for a server to answer


@contextmanager
def sentences(address: Address, connecting: bool = False) -> Iterator[None]:
    """Turn what the database raises into errors of roundwise."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # a driver that failed because of it
            raise error.__context__ from None
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        told = _of_sqlite(address, cause) if address.file else _of_postgresql(address, cause, connecting)
        raise told from None  # the driver's own error may hold the password and the whole payload


def _of_sqlite(address: Address, error: BaseException) -> RoundwiseError:
    place, name = address.place, str(getattr(error, "sqlite_errorname", ""))
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):
        return StoreError(
            f"The disk that holds {place} is full. Nothing of this was recorded, everything before is intact. "
            "Make room and repeat."
        )
    if name in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED"):
        return StoreError(
            f"{place} was being written by another process for more than {PATIENCE} seconds. "
            "Nothing was changed; repeat when it is done."
        )
    if name == "SQLITE_NOTADB":
        return not_a_database(address)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreError(
            f"{place} cannot be opened for writing. Give yourself the right to write to the file and its folder "
            "(SQLite keeps its journal beside the file), or choose another place."
        )
    if name == "SQLITE_IOERR_SHORT_READ":
        return DamagedError(
            f"{place} is shorter than it should be, perhaps because its log (-wal) was deleted. Keep a copy, and "
            f"{restore('restore the studies')}"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"The disk that holds {place} refused ({name}): a quota, a limit on the size of files, or broken hardware. "
            f"All or nothing of this was recorded, everything before is intact. {look('Look with')}"
        )
    garbled = isinstance(error, UnicodeDecodeError) or "Could not decode" in str(error)
    if garbled or name.startswith(("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT")):
        return DamagedError(
            f"{place} is damaged: SQLite cannot read it as it was written. Keep a copy, and "
            f"{restore('restore the studies')}"
        )
    return StoreError(f"SQLite failed on {place} ({_first_line(address, error)}). Nothing of this was recorded.")


def _of_postgresql(address: Address, error: BaseException, connecting: bool) -> RoundwiseError:
    place, state = address.place, str(getattr(error, "sqlstate", None) or "")
    detail = _first_line(address, error)
    if connecting:
        return StoreError(f"{place} cannot be reached ({detail}). Start the server, or correct the address.")
    if not state or state.startswith(("08", "57P")):
        return StoreError(
            f"The connection to {place} was lost ({detail}). All or nothing of this was recorded: when the server is "
            f"back, {look()}"
        )
    if state == "40001":
        return ConflictError(f"Another writer of {place} was first ({detail}). Nothing was changed; repeat.")
    if state == "53100":
        return StoreError(
            f"The disk of the server of {place} is full. Nothing of this was recorded, everything before is intact. "
            "Make room and repeat."
        )
    if state == "55P03":
        return StoreError(
            f"The study was being written by another process for more than {PATIENCE} seconds in {place}. "
            "Nothing was changed; repeat when it is done."
        )
    if state in ("57014", "25P03", "25P04"):
        return StoreError(
            f"The server of {place} stopped this because it took too long or somebody cancelled it ({detail}). Nothing "
            "of this was recorded, everything before is intact. Repeat, or ask for a longer time there."
        )
    if state in ("42501", "3F000"):
        return StoreError(
            f"The user of {place} may not do this ({detail}). Ask for the right to create and write tables there."
        )
    if state == "25006":
        return StoreError(f"{place} takes no writes ({detail}). Give the address of the primary server.")
    if state.startswith("42"):
        return DamagedError(
            f"{place} does not hold the tables of roundwise as they were made ({detail}). Restore a backup."
        )
    return StoreError(f"PostgreSQL failed on {place} ({detail}). Nothing of this was recorded.")


def _first_line(address: Address, error: BaseException) -> str:
    text = address.censored(str(error)).strip().splitlines() or [type(error).__name__]
    return text[0].rstrip(".")
