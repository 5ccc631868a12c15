"""How much may come out of a file that somebody else sent: a few bytes may unpack to more than a machine holds."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from roundwise.errors import DataError
from roundwise.studies.results.sheets import Chunk, Sheet

REMEDY = "Nothing was recorded; give it in several files."


@dataclass(frozen=True)
class Limits:
    """Bytes of a file when it is unpacked, and rows."""

    unpacked: int
    rows: int

    def gzip(self, name: str, file: BinaryIO) -> gzip.GzipFile:
        """A compressed file, read up to the limit."""
        return _Counted(name, file, self.unpacked)

    def counted(self, sheet: Sheet) -> Sheet:
        """A table, read up to the limit."""
        chunks: Callable[[Sequence[int]], Iterator[Chunk]] = sheet.chunks

        def few(places: Sequence[int]) -> Iterator[Chunk]:
            rows = 0
            for chunk in chunks(places):
                rows += len(chunk.lines)
                if rows > self.rows:
                    raise DataError(f"{sheet.name} has over {self.rows} rows. {REMEDY}")
                yield chunk

        sheet.chunks = few
        return sheet


class _Counted(gzip.GzipFile):
    """A compressed file of which only so many bytes are unpacked."""

    def __init__(self, name: str, file: BinaryIO, most: int) -> None:
        super().__init__(fileobj=file)
        self._shown, self._left = name, most

    def read(self, size: int | None = -1) -> bytes:
        """Some bytes."""
        found: Any = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise DataError(f"{self._shown} is too large when it is unpacked. {REMEDY}")
        return bytes(found)
