"""Numbers and hashes as JSON keeps them: short lists are readable, long ones packed; every bit comes back."""

from __future__ import annotations

import base64
import zlib

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

Hashes = NDArray[np.uint64]

READABLE = 100  # so many numbers are written out; more are packed
LARGEST = 1 << 31  # bytes that a packed string may unfold to
_SIZES = ("<u1", "<u2", "<u4", "<f4", "<f8")  # of one packed number; the first that holds all of them exactly is used


def packed(array: Floats) -> list[float | int] | str:
    """Numbers for JSON: a list of a few, a string of many (such as "<f8z:" and base64 of zlib)."""
    if array.size <= READABLE:
        return [_shortest(number) for number in array.tolist()]
    bits = array.astype("<f8").view("<u8")
    for size in _SIZES:
        with np.errstate(over="ignore", invalid="ignore"):
            small = array.astype(size)
        if np.array_equal(small.astype("<f8").view("<u8"), bits):
            break
    return f"{size}z:{_text(small.tobytes())}"


def unpacked(written: list[float | int] | str) -> Floats:
    """The numbers that were `packed`."""
    if isinstance(written, list):
        return np.array(written, dtype=np.float64)
    size, _, text = written.partition("z:")
    if size not in _SIZES:
        raise ValueError(f"numbers of size {size!r}")
    return np.frombuffer(_bytes(text), dtype=size).astype(np.float64)


def packed_hashes(hashes: Hashes) -> str:
    """Different hashes, sorted: their steps, first all highest bytes, which are mostly 0, and so on.

    >>> import numpy as np
    >>> unpacked_hashes(packed_hashes(np.array([5, 2**63, 7], dtype=np.uint64))).tolist()
    [5, 7, 9223372036854775808]
    """
    steps = np.diff(np.sort(hashes), prepend=np.uint64(0)).astype(">u8")
    return _text(np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T).tobytes())


def unpacked_hashes(written: str) -> Hashes:
    """The hashes that were packed, in ascending order."""
    planes = np.frombuffer(_bytes(written), dtype=np.uint8)
    if planes.size % 8:
        raise ValueError("hashes that were cut")
    steps = np.ascontiguousarray(planes.reshape(8, -1).T).view(">u8").ravel()
    return np.cumsum(steps.astype(np.uint64), dtype=np.uint64)


def _text(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _bytes(text: str) -> bytes:
    unfolding = zlib.decompressobj()
    try:
        data = unfolding.decompress(base64.b64decode(text, validate=True), LARGEST)
    except zlib.error as error:
        raise ValueError(f"packed numbers that were damaged ({error})") from None
    if not unfolding.eof:
        raise ValueError("packed numbers that were cut")
    return data


def _shortest(number: float) -> float | int:
    whole = number.is_integer() and abs(number) < 2**53 and str(number) != "-0.0"
    return int(number) if whole else number
