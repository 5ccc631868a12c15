"""Uploading results: first a preview of a file and its effects, then the record.

Between the two an upload is a temporary file of this process; those are limited in number, size and age.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.arrays import Floats
from roundwise.errors import ConflictError, DataError, InputError, RoundwiseError
from roundwise.formats.readers import COLUMNS
from roundwise.formats.sheet import Limits
from roundwise.ingest import Columns, TellOptions
from roundwise.ingest.columns import TellKeywords
from roundwise.ingest.rows import ColumnPreview, preview_columns
from roundwise.messages import count, shown
from roundwise.report import Report
from roundwise.report.model import sentence
from roundwise.report.text import describe_guarantee
from roundwise.study import Study
from roundwise.study.diagnostics import SURPRISING, missing_p_value
from roundwise.web.forms import EMPTY
from roundwise.web.rendering import page, set_cookie, texts
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import UPLOAD, study_of

LONGEST = 3600.0  # seconds
MOST = 40  # uploads at once
ROOM = 512 * 2**20  # bytes in all
MANY_MISSING = 0.2  # share of the rows of a file
UNPACKED = Limits(128 * 2**20, 5_000_000)  # of an uploaded file after decompression
BLANKS = {  # what rows without a result are, in words
    "": "as the study says",
    "refused": "are an error",
    "zero": "count as 0",
    "missing": "are missing: the result is not known",
    "failed": "are given up (on a list)",
}
REMEMBERED = "file"  # the cookie with what was said of the last file of a study, which its address limits to that study
KEPT = ("others", "empty", "missing", "counts_as")  # of it, beside the columns
ROLES = {  # of columns, in the words of the form of a new study
    "arm": "Column of arms",
    "outcome": "Column of results",
    "id": "Column of ids",
    "time": "Column of times",
    "item": "Column of items",
}


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


class Table(dict[str, list[Any]]):
    """Columns by name, and what the record calls them."""

    def __init__(self, name: str, columns: dict[str, list[Any]]) -> None:
        super().__init__(columns)
        self.shown_as = name

    @classmethod
    def from_json(cls, name: str, content: bytes) -> Table:
        """Read a data frame that was sent."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
            raise DataError(f"{shown(name)} is not a data frame as it is sent: lists by column, as JSON.")
        return cls(shown(name, 200), found)


def _write(folder: str, name: str, content: bytes, study: str) -> Upload:
    """Write an upload to a folder under a random name with its own plain file ending."""
    plain = PurePath(name.replace("\\", "/")).name or "upload"
    suffix = PurePath(plain).suffix.lower()
    suffix = suffix if suffix[1:].isalnum() and len(suffix) <= 9 else ""
    path = Path(folder) / f"{secrets.token_hex(8)}{suffix}"
    path.write_bytes(content)
    return Upload(path, plain, study, len(content))


@contextmanager
def on_disk(study: str, files: Sequence[UploadFile]) -> Iterator[list[Upload | Table]]:
    """Files of a request as `tell` takes them, for as long as the request takes."""
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        found: list[Upload | Table] = []
        for each in files:
            name, content = each.filename or "upload", each.file.read()
            if each.content_type == COLUMNS:
                found.append(Table.from_json(name, content))
            else:
                found.append(_write(folder, name, content, study))
        yield found


class StagedUploads:
    """Uploads by a random key."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # made for the first upload
        self._held: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()
            self._folder, self._held = None, {}

    def keep(self, name: str, content: bytes, study: str) -> str:
        """Keep an upload and return its key; the oldest are deleted where there is no room."""
        key = secrets.token_urlsafe(16)
        with self._lock:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="roundwise-")
        upload = _write(self._folder.name, name, content, study)
        with self._lock:
            self._held[key] = upload
            for old, each in list(self._held.items()):
                full = len(self._held) > MOST or sum(one.size for one in self._held.values()) > ROOM
                if old != key and (full or upload.at - each.at > LONGEST):
                    self._held.pop(old).path.unlink(missing_ok=True)
        return key

    def get(self, key: str, study: str) -> Upload | None:
        """An upload for this study, unless it has been deleted."""
        with self._lock:
            found = self._held.get(key)
        return found if found is not None and found.study == study else None

    def forget(self, key: str) -> None:
        with self._lock:
            found = self._held.pop(key, None)
        if found is not None:
            found.path.unlink(missing_ok=True)


class ArmPreview(NamedTuple):
    """The results that a file adds to one arm."""

    name: str
    new: int
    mean: str
    missing: int
    to_come: int  # of the open round, after it


@dataclass(frozen=True)
class UploadPreview:
    """A file, how it is read, and what it would change."""

    file: str
    looked: ColumnPreview
    chosen: dict[str, str]  # columns by what they are
    error: str = ""
    rows: Sequence[ArmPreview] = ()
    total: int = 0
    skipped: int = 0
    missing: int = 0
    notes: Sequence[str] = ()
    changes: Sequence[str] = ()  # what would change
    alarms: Sequence[str] = ()  # what would endanger the guarantee
    gaps: Sequence[str] = ()  # what is suspicious about rows without a result
    complete: bool = False
    rules: str = ""  # by which rows become results
    of_items: bool = False  # whether rows are recognised by their items


router = Pages()


@router.post("/studies/{name}/check", UPLOAD)
def check(request: Request, name: str, sent: FormData) -> Response:
    """Preview a file or a pasted table: its contents, and what would change. Nothing is recorded."""
    staged: StagedUploads = request.app.state.staged
    given, key = texts(sent), texts(sent).get("key", "")
    file, pasted = sent.get("file"), given.get("pasted", "")
    if isinstance(file, UploadFile) and file.filename:
        key, given = staged.keep(file.filename, file.file.read(), name), _recall(request) | given
    elif pasted.strip() and not key:
        key, given = staged.keep("pasted table.csv", pasted.encode(), name), _recall(request) | given
    upload = staged.get(key, name)
    if upload is None:
        raise InputError("Choose a file or paste a table first.")
    with study_of(request, name) as found:
        seen, before = preview_upload(found, upload, given), found.store.head(name).digest
    return _show(request, name, key, given, seen, before, whole=not request.headers.get("hx-request"))


@router.post("/studies/{name}/record", UPLOAD)
def record(request: Request, name: str, sent: FormData) -> Response:
    """Record a previewed file, unless the study has changed since."""
    staged: StagedUploads = request.app.state.staged
    given = texts(sent)
    key = given.get("key", "")
    upload = staged.get(key, name)
    if upload is None:
        raise InputError("The file is not here any more, or it is recorded already. Nothing was recorded now.")
    with study_of(request, name) as found:
        found.key, found.expected = key, given.get("before", "")
        try:
            found.tell(upload, **read_options(given), round_over=_reason(given))
        except ConflictError:
            found.expected = None
            last = found.store.recent(name)[-1]
            seen = preview_upload(found, upload, given)
            moved = f"Meanwhile {last.by} wrote to this study. Nothing of yours was recorded"
            moved += f". {seen.error.removesuffix(' Nothing was changed.')}" if seen.error else ": look at it again."
            return _show(request, name, key, given, seen, last.digest, moved, 409)
    staged.forget(key)
    response = RedirectResponse(f"{address_of(name)}?recorded=1", status_code=303)
    said = {field: given[field] for field in (*KEPT, *(f"column_{role}" for role in ROLES)) if given.get(field)}
    if said.get("counts_as") == "new":  # of this file alone: it switches off the search for repeated rows
        del said["counts_as"]
    set_cookie(request, response, REMEMBERED, urlencode(said), 31_536_000, address_of(name))
    return response


def _recall(request: Request) -> dict[str, str]:
    """The options of the last file."""
    found = dict(parse_qsl(request.cookies.get(REMEMBERED, "")[:4000]))
    return {field: value for field, value in found.items() if field in KEPT or field.startswith("column_")}


def _show(
    request: Request,
    study: str,
    key: str,
    given: dict[str, str],
    seen: UploadPreview,
    before: str,
    moved: str = "",
    status: int = 200,
    whole: bool = True,
) -> Response:
    """Respond with a preview; `moved` says that another one wrote to the study meanwhile."""
    shown = {
        "key": key,
        "seen": seen,
        "given": given,
        "roles": ROLES,
        "blanks": BLANKS,
        "before": before,
        "moved": moved,
    }
    template = "preview_page.html" if whole else "preview.html"
    return page(request, template, status, study=study, at=address_of(study), **shown)


def _reason(given: dict[str, str]) -> str | None:
    return given.get("round_over", "").strip() or None


def read_options(given: dict[str, str]) -> TellKeywords:
    """The options of `tell` that a form gives."""
    named = {role: given[f"column_{role}"] for role in ROLES if given.get(f"column_{role}")}
    return TellKeywords(
        columns=Columns(**named) if named else None,
        ignore_arms="*" if given.get("others") else (),
        missing=(given.get("missing", "").strip() or None) if given.get("empty") == "missing" else None,
        empty=given["empty"] if given.get("empty") in EMPTY else None,  # type: ignore[typeddict-item]
        failed=given.get("empty") == "failed",
        cumulative=given.get("counts_as") == "cumulative",
        new=given.get("counts_as") == "new",
    )


def preview_upload(study: Study, upload: Upload, given: dict[str, str]) -> UploadPreview:
    """Preview a file; an error is part of the preview."""
    spec = study.state.spec

    def look(words: TellKeywords) -> tuple[ColumnPreview, dict[str, str]]:
        looked = preview_columns(upload, spec.arms, spec.noise, spec.columns, spec.reading, TellOptions(**words))
        return looked, {role: given.get(f"column_{role}") or looked.taken.get(role, "") for role in ROLES}

    try:
        words = read_options(given)
        looked, chosen = look(words)
        (results,), after = study.preview(upload, **words, round_over=_reason(given))
    except RoundwiseError as refused:
        return UploadPreview(upload.shown_as, *look(TellKeywords()), str(refused))
    lost = [0] * len(spec.arms) if results.missing is None else [int(n) for n in results.missing]
    rows = [
        ArmPreview(
            name, n, after.units.value(total / n, "near") if n else "-", missing, int(after.remaining.get(name, 0))
        )
        for name, n, total, missing in zip(spec.arms, map(int, results.counts), results.totals, lost, strict=True)
        if n or missing
    ]
    before = study.status()
    counted = results.counts.astype(float)
    return UploadPreview(
        file=upload.shown_as,
        looked=looked,
        chosen=chosen,
        rows=rows,
        total=int(results.counts.sum()),
        skipped=results.skipped,
        missing=sum(lost),
        notes=[each.text for each in results.notes],
        changes=_describe_changes(before, after),
        alarms=[
            *([] if after.guarantee == before.guarantee else describe_guarantee(after)),
            *(str(each) for each in after.dangers if each not in before.dangers),
        ],
        gaps=_describe_gaps(spec.arms, counted, np.array(lost, dtype=float)),
        complete=not after.remaining,
        rules=spec.reading_words,
        of_items=spec.list is not None or spec.noise.shares_items,
    )


def _describe_gaps(arms: Sequence[str], counts: Floats, missing: Floats) -> list[str]:
    """What is suspicious about rows without a result: that they are many, or not alike in all arms. (K), (K)"""
    every, said = counts + missing, []
    if missing.sum() > MANY_MISSING * every.sum():
        said.append(
            f"{100 * missing.sum() / every.sum():.0f} % of the results are missing. If an empty cell means 0, choose "
            "“count as 0”: an arm that loses its zeros looks better than it is."
        )
    if missing.any() and missing_p_value(counts, missing) < SURPRISING:
        shares = missing / np.maximum(every, 1.0)
        most, least = int(shares.argmax()), int(np.where(every > 0, shares, np.inf).argmin())
        said.append(
            f"{arms[most]} lacks {100 * shares[most]:.0f} % of its results, {arms[least]} {100 * shares[least]:.0f} %: "
            "more than chance. If results are missing because of the arm, comparisons are biased."
        )
    return said


def _describe_changes(before: Report, after: Report) -> list[str]:
    said = []
    if after.remaining:
        left = count(sum(after.remaining.values()))
        said.append(f"{left} results of the open round would still be to come; evidence moves when they are here.")
    elif before.remaining:
        said.append(f"Round {after.rounds} would be complete, and count.")
    was = {each.name for each in before.arm_rows if each.place == "out"}
    out = [each.name for each in after.arm_rows if each.place == "out" and each.name not in was]
    if out:
        said.append(f"Out from then on: {', '.join(out)}.")
    known = {each.claim for each in before.claim_rows if each.shown}
    new = [each.claim for each in after.claim_rows if each.shown and each.claim not in known and each.arm is None]
    said += [f"Shown from then on: {each}." for each in new[:5]]
    if after.status != before.status or after.headline != before.headline:
        said.append(f"The headline would be: {sentence(after.headline)}")
    return said or ["Nothing else would change."]
