"""What one file brought, as sums, and the same as JSON."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.errors import DataError

Form = Literal["rows", "sums", "successes"]
Dealt = Literal["alone", "apart", "alike"]  # as the whole batch; every row by itself; as every file was, once
Labels = NDArray[np.uint8]

READABLE = 100  # so many numbers are written out in JSON; more are packed
_SIZES = ("<u1", "<u2", "<u4", "<f4", "<f8")  # of one packed number; the first that holds all of them exactly is used


@dataclass(frozen=True, eq=False)
class Part:
    """The sums of one part of the rows."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None  # (K), sum (x - mean)^2 within each arm


@dataclass(frozen=True, eq=False)
class Results:
    """What one file (or data frame) brought."""

    name: str  # as the user gave it
    digest: str  # sha256 of the contents
    form: Form
    rows: int  # lines of data
    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum (x - mean)^2 within each arm, where it is known
    values: tuple[Floats, ...] | None = None  # of each arm, in the order read; only where the noise model asks for them
    parts: tuple[Part, ...] = ()
    labels: Labels | None = None  # the part of each of the `values`, arm after arm
    dealt: Dealt = "alone"  # how rows came into parts (see `deal`)
    notes: tuple[str, ...] = ()  # what the user should know: columns that were not used, a file that may be cut

    def payload(self) -> dict[str, Any]:
        """The results as JSON has them; `from_payload` brings back the same bits."""
        return {
            "name": self.name,
            "digest": self.digest,
            "form": self.form,
            "rows": self.rows,
            **_sums(self),
            "values": None if self.values is None else packed(np.concatenate(self.values)),
            "parts": [_sums(part) for part in self.parts],
            "labels": None if self.labels is None else packed(self.labels.astype(np.float64)),
            "dealt": self.dealt,
            "notes": list(self.notes),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Results:
        """The results that `payload` was made of."""
        try:
            sums = _from_sums(payload)
            values = None if payload["values"] is None else split(unpacked(payload["values"]), sums.counts)
            labels = None if payload["labels"] is None else unpacked(payload["labels"]).astype(np.uint8)
            return cls(
                **{name: payload[name] for name in ("name", "digest", "form", "rows")},
                counts=sums.counts,
                totals=sums.totals,
                scatter=sums.scatter,
                values=values,
                parts=tuple(_from_sums(part) for part in payload["parts"]),
                labels=labels,
                dealt=payload.get("dealt", "alike"),  # there was one way only
                notes=tuple(payload["notes"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DataError(f"These are not results as roundwise records them: {error!r}.") from None


def split(values: Floats, counts: Floats) -> tuple[Floats, ...]:
    """Values that lie arm after arm, as one array for each arm."""
    ends = np.cumsum(counts).astype(np.int64).tolist()
    if ends[-1] != values.size:
        raise ValueError(f"{values.size} values for {ends[-1]} results")
    return tuple(values[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))


def packed(array: Floats) -> list[float | int] | str:
    """Numbers for JSON: a list of a few, a string of many ("<f8:" and base64). Both keep every bit."""
    if array.size <= READABLE:
        return [_shortest(number) for number in array.tolist()]
    bits = array.astype("<f8").view("<u8")
    for size in _SIZES:
        with np.errstate(over="ignore", invalid="ignore"):
            small = array.astype(size)
        if np.array_equal(small.astype("<f8").view("<u8"), bits):
            break
    return f"{size}:{base64.b64encode(small.tobytes()).decode()}"


def unpacked(written: list[float | int] | str) -> Floats:
    """The numbers that were `packed`."""
    if isinstance(written, list):
        return np.array(written, dtype=np.float64)
    size, _, text = written.partition(":")
    if size not in _SIZES:
        raise ValueError(f"numbers of size {size!r}")
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=size).astype(np.float64)


def _shortest(number: float) -> float | int:
    whole = number.is_integer() and abs(number) < 2**53 and str(number) != "-0.0"
    return int(number) if whole else number


def _sums(sums: Part | Results) -> dict[str, Any]:
    scatter = None if sums.scatter is None else packed(sums.scatter)
    return {"counts": packed(sums.counts), "totals": packed(sums.totals), "scatter": scatter}


def _from_sums(payload: dict[str, Any]) -> Part:
    scatter = None if payload["scatter"] is None else unpacked(payload["scatter"])
    return Part(unpacked(payload["counts"]), unpacked(payload["totals"]), scatter)
