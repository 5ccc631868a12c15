"""Uploads between preview and record: temporary files of this process, limited in number, size and age."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from roundwise.formats.sheet import Limits

LONGEST = 3600.0  # seconds
MOST = 40  # uploads at once
ROOM = 512 * 2**20  # bytes in all

UNPACKED = Limits(128 * 2**20, 5_000_000)  # of an uploaded file after decompression


@dataclass
class Upload(os.PathLike[str]):
    """An uploaded file and its original name."""

    path: Path
    shown_as: str  # what `tell` calls it
    study: str
    size: int
    at: float = field(default_factory=time.monotonic)
    limits: Limits = UNPACKED

    def __fspath__(self) -> str:
        return str(self.path)


class StagedUploads:
    """Uploads by a random key."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # made for the first upload
        self._held: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Delete all uploads."""
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()
            self._folder, self._held = None, {}

    def keep(self, name: str, content: bytes, study: str) -> str:
        """Keep an upload and return its key; the oldest are deleted where there is no room."""
        key = secrets.token_urlsafe(16)
        plain = PurePath(name.replace("\\", "/")).name or "upload"
        with self._lock:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="roundwise-")
            path = Path(self._folder.name) / f"{secrets.token_hex(8)}{ending(plain)}"
        path.write_bytes(content)
        with self._lock:
            now = time.monotonic()
            self._held[key] = Upload(path, plain, study, len(content))
            for old, each in list(self._held.items()):
                full = len(self._held) > MOST or sum(one.size for one in self._held.values()) > ROOM
                if old != key and (full or now - each.at > LONGEST):
                    self._held.pop(old).path.unlink(missing_ok=True)
        return key

    def get(self, key: str, study: str) -> Upload | None:
        """An upload for this study, unless it has been deleted."""
        with self._lock:
            found = self._held.get(key)
        return found if found is not None and found.study == study else None

    def forget(self, key: str) -> None:
        """Delete an upload."""
        with self._lock:
            found = self._held.pop(key, None)
        if found is not None:
            found.path.unlink(missing_ok=True)


def ending(name: str) -> str:
    """The ending of a file name, if it is plain.

    >>> ending("day 4.XLSX"), ending("x.csv/../y"), ending("noend")
    ('.xlsx', '', '')
    """
    found = PurePath(name).suffix.lower()
    return found if found[1:].isalnum() and len(found) <= 9 else ""
