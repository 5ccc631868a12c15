"""How commands write files: whole or not at all, and never over something that is not theirs."""

from __future__ import annotations

import os
import re
import secrets
import stat
import zipfile
from pathlib import Path

from roundwise.errors import InputError

OURS = b"roundwise"  # is near the start of every file that we write as HTML, Markdown, JSON or a record
HEADERS = (
    b"arm,still_to_come",
    b"arm,results,missing,waiting,",
    b"claim,shown,shown_at,",
    b"round,arm,asked,",
    b"file,round,results,",
)
LOOK = 4096  # bytes in which a file says what it is


def check_output(path: Path | None, theirs: bool = True) -> None:
    """Raise an InputError if a file cannot be written there: better before the work than after it.

    A file that is not plain (a folder, a device, a pipe, a link) is never replaced; one that roundwise did not write
    is not replaced either where `theirs` is false.
    """
    if path is None:
        return
    from roundwise.studies.store import no_database

    no_database(path)
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a folder, not a file to write to.")
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "a device or a pipe"
        raise InputError(f"{path} is {kind}, not a plain file, and is not replaced. Give the name of a file.")
    if found is not None and not theirs and not _ours(path):
        raise InputError(
            f"{path} exists, and roundwise did not write it: it may hold results. Nothing was changed; give another "
            "name, or remove the file first."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _beside(path)
        with unfinished.open("xb"):
            pass
        unfinished.unlink()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def write_file(path: Path, contents: str | bytes) -> None:
    """Write a file, which appears complete or not at all."""
    check_output(path)
    unfinished = _beside(path)
    data = contents.encode("utf-8", "backslashreplace") if isinstance(contents, str) else contents
    try:
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                os.chmod(unfinished, stat.S_IMODE(path.stat().st_mode))
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Give another place.") from None


def file_name(study: str, ending: str) -> Path:
    """A file in this folder named after a study, whatever letters that has.

    >>> [file_name(name, ".jsonl").name for name in ("../../etc/x", "dose trial 2", "..")]
    ['_.._etc_x.jsonl', 'dose trial 2.jsonl', 'study.jsonl']
    """
    safe = re.sub(r"[^\w .()+,=@-]", "_", study).lstrip(". -").rstrip(". ")
    return Path(f"{safe[:150] or 'study'}{ending}")


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")


def _ours(path: Path) -> bool:
    """Whether roundwise wrote a file, or nobody did; results that users write have no mark of ours."""
    try:
        with path.open("rb") as file:
            start = file.read(LOOK)
    except OSError:
        return False
    if not start or start.startswith((b"%PDF", *HEADERS)) or OURS in start:
        return True
    try:
        with zipfile.ZipFile(path) as book:
            return OURS in book.read("docProps/core.xml")[:LOOK]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return False
