"""Trees of arrays as JSON, and back: the same bits, also of inf, nan and -0.0. Few numbers are readable, many packed.

What a study keeps between rounds (`model.problem.Trial`) is a tree of named tuples of arrays. Only names of fields are
written, never those of Python classes or modules: whoever reads a tree says of which type it is.
"""

from __future__ import annotations

import base64
import math
import types
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Plain, Tree

Hashes = NDArray[np.uint64]

LISTED = 100  # so many numbers are written out; more are packed
LARGEST = 1 << 31  # bytes that a packed string may unfold to
_KINDS = {"f": "float64", "i": "int64", "b": "bool"}
_SIZES = {  # the first that holds all numbers exactly is used
    "f": ("<u1", "<u2", "<u4", "<f4", "<f8"),
    "i": ("<u1", "<u2", "<u4", "<i8"),
    "b": ("<u1",),
}


class Unreadable(Exception):  # noqa: N818 - it is caught, and never seen
    """The JSON is not a tree of the expected type."""


def pack(tree: Any) -> Any:
    """Write a tree of (named) tuples, arrays, plain numbers, truth values and None as JSON.

    >>> pack((None, 2, np.array([1.0, np.inf])))
    [None, 2, {'f': [2], 'is': [1, 'inf']}]
    """
    if tree is None or isinstance(tree, bool | int):
        return tree
    if isinstance(tree, float) and not isinstance(tree, np.generic):
        return {"number": _plain_number(tree)}
    if _is_named(type(tree)):
        return {name: pack(each) for name, each in zip(tree._fields, tree, strict=True)}
    if isinstance(tree, tuple):
        return [pack(each) for each in tree]
    if isinstance(tree, np.ndarray | np.generic):
        found = {tree.dtype.kind: list(tree.shape), "is": pack_numbers(np.asarray(tree))}
        return {**found, "single": True} if isinstance(tree, np.generic) else found
    raise TypeError(f"A {type(tree).__name__} is no part of a tree of arrays.")


def unpack(kind: type[Tree], written: Any, like: Any = None) -> Tree:
    """Read a tree of this type; `Unreadable` if it is of another.

    `like` is a tree of the same type: it says what stands in fields that may hold anything, such as `BatchPlan.memory`.
    """
    try:
        found = _read(kind, written, like)
    except (AttributeError, KeyError, NameError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise Unreadable(repr(error)) from None
    if not isinstance(found, kind):
        raise Unreadable(f"a {type(found).__name__} in the place of a {kind.__name__}")
    return found


def unpack_array(written: Any) -> Any:
    """Read one array; `Unreadable` if it is none."""
    return unpack(np.ndarray, written)


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and "_fields" in vars(kind)


@lru_cache(maxsize=256)
def _types_of_fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, written: Any, like: Any) -> Any:
    """Read a tree whose type is only a hint where its JSON says enough: numbers, arrays, lists."""
    if written is None or isinstance(written, bool | int):
        return written
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        named = [each for each in args if _is_named(get_origin(each) or each)]
        return _read(named[0] if named else next(each for each in args if each is not type(None)), written, like)
    if isinstance(kind, TypeVar) or kind is Any:
        origin = type(like)
    if isinstance(written, list):
        if origin is tuple and len(args) == len(written) and Ellipsis not in args:
            return tuple(_read(hint, each, None) for hint, each in zip(args, written, strict=True))
        return tuple(_read(args[0] if args else Any, each, None) for each in written)
    if _is_named(origin):
        fields = _types_of_fields(origin)
        inside = like._asdict() if isinstance(like, origin) else {}
        return origin(**{name: _read(fields[name], each, inside.get(name)) for name, each in written.items()})
    if "number" in written:
        return float(written["number"])
    return _from_array(written)


def _from_array(written: Plain) -> Any:
    ((kind, shape),) = [(key, written[key]) for key in written if key in _KINDS]
    array = unpack_numbers(written["is"], kind).reshape([int(each) for each in shape])
    return array[()] if written.get("single") else array


def pack_numbers(array: Array) -> list[float | int | str] | str:
    """Numbers for JSON: a list of a few, a string of many (such as "<f8z:" and base64 of zlib)."""
    kind = array.dtype.kind
    if kind not in _KINDS or array.dtype.itemsize > 8:
        raise TypeError(f"An array of {array.dtype} cannot be kept.")
    if array.size <= LISTED:
        return [_plain_number(each) if kind == "f" else each for each in array.reshape(-1).tolist()]
    exact = array.astype(_KINDS[kind])
    for size in _SIZES[kind]:
        with np.errstate(over="ignore", invalid="ignore"):
            small = exact.astype(size)
        if small.astype(_KINDS[kind]).tobytes() == exact.tobytes():
            break
    return f"{size}z:{_compress(small.tobytes())}"


def unpack_numbers(written: list[float | int | str] | str, kind: str = "f") -> Array:
    """The numbers that were packed, as floats, ints or bools: `kind` is that of their dtype."""
    if isinstance(written, list):
        if kind != "f" and not all(isinstance(each, bool if kind == "b" else int) for each in written):
            raise ValueError(f"numbers of another kind than {kind}")
        return np.array(written, dtype=_KINDS[kind])
    size, _, text = written.partition("z:")
    if size not in _SIZES[kind]:
        raise ValueError(f"numbers of size {size!r}")
    return np.frombuffer(_decompress(text), dtype=size).astype(_KINDS[kind])


def _plain_number(number: float) -> float | int | str:
    """A number as JSON has it: whole ones short, those that JSON does not know as words."""
    if not math.isfinite(number):
        return str(number)
    whole = number.is_integer() and abs(number) < 2**53 and math.copysign(1.0, number) > 0
    return int(number) if whole else number


def pack_hashes(hashes: Hashes) -> str:
    """Different hashes, sorted: their steps, first all highest bytes, which are mostly 0, and so on.

    >>> import numpy as np
    >>> unpack_hashes(pack_hashes(np.array([5, 2**63, 7], dtype=np.uint64))).tolist()
    [5, 7, 9223372036854775808]
    """
    steps = np.diff(np.sort(hashes), prepend=np.uint64(0)).astype(">u8")
    return _compress(np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T).tobytes())


def unpack_hashes(written: str) -> Hashes:
    """The hashes that were packed, in ascending order."""
    planes = np.frombuffer(_decompress(written), dtype=np.uint8)
    if planes.size % 8:
        raise ValueError("hashes that were cut")
    steps = np.ascontiguousarray(planes.reshape(8, -1).T).view(">u8").ravel()
    return np.cumsum(steps.astype(np.uint64), dtype=np.uint64)


def _compress(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _decompress(text: str) -> bytes:
    unfolding = zlib.decompressobj()
    try:
        data = unfolding.decompress(base64.b64decode(text, validate=True), LARGEST)
    except zlib.error as error:
        raise ValueError(f"packed numbers that were damaged ({error})") from None
    if not unfolding.eof:
        raise ValueError("packed numbers that were cut")
    return data


def plain_json(value: object) -> Any:
    """Return a value as strict JSON has it: numpy values become plain ones, infinite numbers null."""
    if isinstance(value, np.ndarray | np.generic):
        return plain_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
