"""Which kind of file was given, by its first bytes, and the table in it."""

from __future__ import annotations

import gzip
import zlib
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from roundwise.errors import InputError
from roundwise.studies.results.books import LARGEST, excel_sheet
from roundwise.studies.results.frames import frame_sheet, parquet_sheet
from roundwise.studies.results.limits import Limits
from roundwise.studies.results.objects import is_json, json_sheet
from roundwise.studies.results.sheets import Sheet, damaged, is_frame, is_path, opened
from roundwise.studies.results.text import text_sheet
from roundwise.studies.results.words import refusal


def sheet_of(source: object, path: str, name: str, known: set[str], stack: ExitStack) -> Sheet:
    """The table in whatever was given; a source that was sent by somebody else has limits."""
    limits: Limits | None = getattr(source, "limits", None)
    found = _sheet(source, path, name, known, stack, limits)
    return found if limits is None else limits.counted(found)


def _sheet(source: object, path: str, name: str, known: set[str], stack: ExitStack, limits: Limits | None) -> Sheet:
    if is_frame(source):
        return frame_sheet(name, source)
    if not is_path(source):
        raise InputError(f"Results come from a file or a data frame, not from a value of type {type(source).__name__}.")
    file = stack.enter_context(opened(path))
    start = _start(file)
    if start.startswith(b"PAR1"):
        return parquet_sheet(name, path, file)
    if start.startswith(b"PK\x03\x04"):
        return excel_sheet(name, file, LARGEST if limits is None else limits.unpacked)
    for suffix, what in ((".xlsx", "an Excel workbook"), (".parquet", "a Parquet file")):
        if start and path.lower().endswith(suffix):
            raise refusal(name, f"this is not {what}, whatever its name.", "Write it again, or rename it to .csv.")
    if start.startswith(b"\x1f\x8b"):
        unpacked = gzip.GzipFile(fileobj=file) if limits is None else limits.gzip(name, file)
        file = cast(BinaryIO, stack.enter_context(unpacked))
        try:
            start = _start(file)
        except (OSError, EOFError, zlib.error) as error:
            raise damaged(name, "a compressed file", error) from None
    return json_sheet(name, file) if is_json(start) else text_sheet(name, file, known)


def _start(file: Any) -> bytes:
    return bytes(file.peek(64)[:64]) if hasattr(file, "peek") else b""
