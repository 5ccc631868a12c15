"""Uploads that were looked at but not yet recorded: kept in memory for a while, a few at a time."""

from __future__ import annotations

import io
import secrets
import threading
import time
from dataclasses import dataclass, field

LONGEST = 3600.0  # seconds
MOST = 20  # uploads at once
ROOM = 256 * 2**20  # bytes in all


@dataclass
class Upload:
    """The bytes of a file, its name, and when it came."""

    name: str
    content: bytes
    study: str
    at: float = field(default_factory=time.monotonic)

    def opened(self) -> io.BytesIO:
        """The file as `tell` reads it."""
        file = io.BytesIO(self.content)
        file.name = self.name
        return file


class Staged:
    """Uploads by a random key."""

    def __init__(self) -> None:
        self._held: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def keep(self, upload: Upload) -> str:
        """Keep an upload; the oldest go where there is no room."""
        key = secrets.token_urlsafe(16)
        with self._lock:
            now = time.monotonic()
            self._held = {k: each for k, each in self._held.items() if now - each.at < LONGEST}
            self._held[key] = upload
            while len(self._held) > MOST or sum(len(each.content) for each in self._held.values()) > ROOM:
                oldest = next(iter(self._held))
                if oldest == key:
                    break
                del self._held[oldest]
        return key

    def get(self, key: str, study: str) -> Upload | None:
        """An upload for this study that is still kept."""
        with self._lock:
            found = self._held.get(key)
        return found if found is not None and found.study == study else None

    def forget(self, key: str) -> None:
        """It was recorded."""
        with self._lock:
            self._held.pop(key, None)
