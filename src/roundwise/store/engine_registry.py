"""One engine a store and process, whoever opens it; no connection is carried into a forked process.

Two engines of one file would be sound by themselves. But a fork copies what SQLite knows of its locks and not the
locks, so before one the connections of all engines are closed, and one list of them is what makes that possible.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Hashable
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

from roundwise.errors import StoreError
from roundwise.formats.sheet import HOLDERS
from roundwise.store.engine import Access, opened
from roundwise.store.storage_url import PATIENCE, Address, beside, identity, nothing_there, sentences


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
