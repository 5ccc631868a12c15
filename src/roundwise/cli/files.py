"""How commands write files: whole or not at all, and never over something that is not theirs."""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
import stat
import zipfile
from pathlib import Path

from roundwise.errors import InputError

STARTS = (  # of what we write as a page, Markdown, text, JSON and a record
    b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="roundwise">\n',
    b"<!-- roundwise report -->\n",
    b"A report of roundwise\n\n",
    b'{\n  "roundwise": "',
    b'{"roundwise": "study", "format": ',
)
AUTHOR = (b"<dc:creator>roundwise</dc:creator>", b"<cp:lastModifiedBy>roundwise</cp:lastModifiedBy>")  # of a workbook
ASKED = ("arm", "still_to_come")  # the columns of a round that is asked for


def check_output(path: Path | None, theirs: bool = True) -> None:
    """Raise an InputError if a file cannot be written there: better before the work than after it.

    A file that is not plain (a folder, a device, a pipe, a link) is never replaced; one that is not as roundwise
    wrote it is not replaced either where `theirs` is false.
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
            f"{path} exists and is not as roundwise wrote it: it may hold results. Nothing was changed; give another "
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
    """Whether a file is as roundwise wrote it, or empty: where anybody added a column or a row, it may hold results."""
    from roundwise.studies.report.files import MARK

    try:
        contents = path.read_bytes()
    except OSError:
        return False
    if contents.startswith(b"%PDF"):
        return contents.endswith(MARK)
    return not contents or contents.startswith(STARTS) or _our_table(contents) or _our_workbook(path)


def _our_table(contents: bytes) -> bool:
    """Whether a CSV file has the columns of one of our tables and no cell besides."""
    from roundwise.studies.report.files import TABLES

    ours = (ASKED, *(columns for columns, _ in TABLES.values()))
    if not contents.startswith(tuple(f"{','.join(columns)}\n".encode() for columns in ours)):
        return False
    try:
        header, *rows = csv.reader(io.StringIO(contents.decode(), newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error):
        return False
    counted = tuple(header) != ASKED or all(row[-1].isdecimal() for row in rows if row)
    return counted and all(len(row) == len(header) for row in rows)


def _our_workbook(path: Path) -> bool:
    """Whether a workbook is ours and no other program saved it since."""
    try:
        with zipfile.ZipFile(path) as book:
            about = book.read("docProps/core.xml")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return False
    return all(each in about for each in AUTHOR)
