"""Numbers as JSON, and back: the same bits, whatever they are (also inf, nan and -0.0). Few are readable, many packed.

What is kept between batches (`state.Trial`) is a tree of named tuples of arrays. A class is written down by its place
in the package; a version that has no such class, or other fields without defaults, says `Unreadable`, and goes on from
what it can read. What files bring are plain lists of numbers, and hashes of ids.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import math
import sys
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Floats, Plain, Tree

READABLE = 64  # so many numbers are written out; more are packed
PACKAGE = "roundwise"
_FLOATS = ("<u1", "<u2", "<u4", "<f4", "<f8")  # the first that holds all numbers exactly is used
_KINDS = {"f": "float64", "i": "int64", "b": "bool"}


class Unreadable(Exception):  # noqa: N818 - it is caught, and never seen
    """What is written is not a tree that this version knows."""


def packed(tree: Any) -> Any:
    """A tree of (named) tuples, arrays, plain numbers, truth values and None as JSON.

    >>> packed((None, 2, np.array([1.0, np.inf])))
    [None, 2, {'f': [2], 'is': [1, 'inf']}]
    """
    if tree is None or isinstance(tree, bool | int):
        return tree
    if isinstance(tree, float) and not isinstance(tree, np.generic):
        return {"number": _written(tree)}
    if isinstance(tree, tuple):
        if not hasattr(tree, "_fields"):
            return [packed(each) for each in tree]
        kind = type(tree)
        return {
            "of": f"{kind.__module__}:{kind.__qualname__}",
            **{name: packed(each) for name, each in zip(tree._fields, tree, strict=True)},
        }
    if isinstance(tree, np.ndarray | np.generic):
        return _array(np.asarray(tree), isinstance(tree, np.generic))
    raise TypeError(f"A {type(tree).__name__} is no part of a tree of arrays.")


def unpacked(written: Any) -> Any:
    """The tree that was packed; `Unreadable` where this version cannot know it."""
    try:
        return _read(written)
    except (
        AttributeError,
        ImportError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
        binascii.Error,
    ) as error:
        raise Unreadable(repr(error)) from None


def unpacked_as(kind: type[Tree], written: Any) -> Tree:
    """The tree that was packed, which is of this kind; `Unreadable` if it is not."""
    found = unpacked(written)
    if not isinstance(found, kind):
        raise Unreadable(f"a {type(found).__name__} in the place of a {kind.__name__}")
    return found


def _read(written: Any) -> Any:
    if written is None or isinstance(written, bool | int):
        return written
    if isinstance(written, list):
        return tuple(_read(each) for each in written)
    if "of" in written:
        kind = _kind(written["of"])
        return kind(**{name: _read(each) for name, each in written.items() if name != "of"})
    if "number" in written:
        return float(written["number"])
    return _from_array(written)


def _kind(place: str) -> Any:
    """A class of named tuples by its place: in this package, or in a module that is imported already."""
    module, _, name = place.partition(":")
    ours = module.split(".")[0] == PACKAGE
    # a policy or a rule of the user's own has its module at hand; nothing is imported because a log says so
    kind = getattr(importlib.import_module(module) if ours else sys.modules[module], name)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise TypeError(f"{place} is no named tuple")
    return kind


def _array(array: Array, single: bool) -> Plain:
    kind = array.dtype.kind
    if kind not in _KINDS or (kind == "f" and array.dtype.itemsize > 8):
        raise TypeError(f"An array of {array.dtype} cannot be kept.")
    flat = np.ascontiguousarray(array, dtype=_KINDS[kind]).reshape(-1)
    found: Plain = {kind: list(array.shape), "is": _numbers(flat, kind)}
    return {**found, "single": True} if single else found


def _numbers(flat: Array, kind: str) -> Any:
    if flat.size <= READABLE:
        return [_written(each) if kind == "f" else each for each in flat.tolist()]
    if kind == "b":
        return f"bits:{_text(np.packbits(flat))}"
    if kind == "i":
        return f"<i8:{_text(flat.astype('<i8'))}"
    size, small = _smallest(flat)
    return f"{size}:{_text(small)}"


def _smallest(flat: Array) -> tuple[str, Array]:
    """Numbers in the smallest size that holds all of them exactly."""
    bits = flat.astype("<f8").view("<u8")
    for size in _FLOATS:
        with np.errstate(over="ignore", invalid="ignore"):
            small = flat.astype(size)
        if np.array_equal(small.astype("<f8").view("<u8"), bits):
            break
    return size, small


def _text(array: Array) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _written(number: float) -> float | int | str:
    """A number as JSON has it: whole ones short, those that JSON does not know as words."""
    if not math.isfinite(number):
        return str(number)
    whole = number.is_integer() and abs(number) < 2**53 and math.copysign(1.0, number or math.copysign(1.0, number)) > 0
    return int(number) if whole else number


def _from_array(written: Plain) -> Any:
    ((kind, shape),) = [(key, written[key]) for key in written if key in _KINDS]
    values, size = written["is"], math.prod(shape)
    if isinstance(values, list):
        if kind == "f":
            flat = np.array([float(each) for each in values], dtype=np.float64)
        else:
            if not all(isinstance(each, bool if kind == "b" else int) for each in values):
                raise ValueError(f"numbers of another kind than {kind}")
            flat = np.array(values, dtype=_KINDS[kind])
    else:
        how, _, text = values.partition(":")
        data = base64.b64decode(text, validate=True)
        if how == "bits":
            flat = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=size).astype(np.bool_)
        elif how in _FLOATS or how == "<i8":
            flat = np.frombuffer(data, dtype=how).astype(_KINDS[kind])
        else:
            raise ValueError(f"numbers of size {how!r}")
    array = flat.reshape([int(each) for each in shape])
    return array[()] if written.get("single") else array


# --- what files bring


Hashes = NDArray[np.uint64]

LISTED = 100  # so many numbers are written out; more are packed
LARGEST = 1 << 31  # bytes that a packed string may unfold to


def packed_numbers(array: Floats) -> list[float | int] | str:
    """Numbers for JSON: a list of a few, a string of many (such as "<f8z:" and base64 of zlib)."""
    if array.size <= LISTED:
        return [_shortest(number) for number in array.tolist()]
    size, small = _smallest(array)
    return f"{size}z:{_squeezed(small.tobytes())}"


def unpacked_numbers(written: list[float | int] | str) -> Floats:
    """The numbers that were packed."""
    if isinstance(written, list):
        return np.array(written, dtype=np.float64)
    size, _, text = written.partition("z:")
    if size not in _FLOATS:
        raise ValueError(f"numbers of size {size!r}")
    return np.frombuffer(_unfolded(text), dtype=size).astype(np.float64)


def packed_hashes(hashes: Hashes) -> str:
    """Different hashes, sorted: their steps, first all highest bytes, which are mostly 0, and so on.

    >>> import numpy as np
    >>> unpacked_hashes(packed_hashes(np.array([5, 2**63, 7], dtype=np.uint64))).tolist()
    [5, 7, 9223372036854775808]
    """
    steps = np.diff(np.sort(hashes), prepend=np.uint64(0)).astype(">u8")
    return _squeezed(np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T).tobytes())


def unpacked_hashes(written: str) -> Hashes:
    """The hashes that were packed, in ascending order."""
    planes = np.frombuffer(_unfolded(written), dtype=np.uint8)
    if planes.size % 8:
        raise ValueError("hashes that were cut")
    steps = np.ascontiguousarray(planes.reshape(8, -1).T).view(">u8").ravel()
    return np.cumsum(steps.astype(np.uint64), dtype=np.uint64)


def _squeezed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _unfolded(text: str) -> bytes:
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
