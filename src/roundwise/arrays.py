"""Arrays of runs: the last axis is the arms, every axis before it is independent runs.

A result must not depend on how many runs are computed together. NumPy's own `sum` adds in another order
for another memory layout, so sums over arms go through `total`, which always adds in the same order.

What a study keeps between rounds (`model.problem.Trial`) is a tree of named tuples of arrays. `pack` writes it as JSON
and `unpack` reads it back: the same bits, also of inf, nan and -0.0. Only names of fields are written, never those of
Python classes or modules: the reader of a tree supplies its type.
"""

from __future__ import annotations

import base64
import math
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]  # of any kind of values
Hashes = NDArray[np.uint64]
Plain = dict[str, Any]  # plain data, as JSON has it
Facts = Mapping[str, Any]  # the same, only to be read
Tree = TypeVar("Tree")

FEW = 32  # arms that are added one after the other

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")  # as a decorator


def total(values: ArrayLike) -> Floats:
    """Sum over the last axis, (K)->(): the same bits for one run or many, in any memory layout."""
    rest = np.asarray(values, dtype=np.float64)
    if rest.shape[-1] > FEW:  # halves are added until few are left
        rest = np.array(rest, order="K")
        while (length := rest.shape[-1]) > FEW:
            half = (length + 1) // 2
            rest[..., : length - half] += rest[..., half:]
            rest = rest[..., :half]
    if rest.size == rest.shape[-1]:
        return np.asarray(rest.cumsum(axis=-1)[..., -1] if rest.size else rest.sum(axis=-1))
    # with the runs contiguous NumPy adds arm after arm, as `cumsum` does; otherwise it would add in pairs
    return np.asarray(np.add.reduce(rest if rest.flags.f_contiguous else np.asfortranarray(rest), axis=-1))


def zeros(shape: tuple[int, ...]) -> Floats:
    """Zeros of shape (runs, K), laid out so that arithmetic over many runs is fast (runs contiguous)."""
    return np.zeros(shape[::-1]).transpose()


def one_hot(index: NDArray[np.intp], size: int) -> Bools:
    """True at the index of each run, False elsewhere, runs contiguous. ()->(K)"""
    places = np.arange(size).reshape((size,) + (1,) * index.ndim)
    return np.asarray(places == index.transpose()).transpose()


def tree_take(tree: Tree, index: NDArray[np.intp]) -> Tree:
    """The runs at `index` of an array, or of every array in a (named) tuple; None stays None."""
    done: dict[int, Array] = {}  # an array that occurs twice is taken once

    def taken(each: Any) -> Any:
        if isinstance(each, np.ndarray) and id(each) not in done:
            # along the last axis of the transpose, which keeps the runs contiguous; "clip" only skips a check
            done[id(each)] = each.transpose().take(index, axis=-1, mode="clip").transpose()
        return done.get(id(each), each)

    return tree_map(taken, tree)


def tree_concat(trees: Sequence[Tree]) -> Tree:
    """The runs of several arrays, or of (named) tuples of arrays, one after the other, runs contiguous."""
    if len(trees) == 1:
        return trees[0]
    return tree_map(lambda *arrays: np.concatenate([a.transpose() for a in arrays], axis=-1).transpose(), *trees)


def tree_where(mask: Bools, one: Tree, other: Tree) -> Tree:
    """`one` in the runs where `mask` holds and `other` elsewhere, through every array of a (named) tuple."""
    return tree_map(lambda a, b: np.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b), one, other)


def tree_map(function: Callable[..., Any], *trees: Any) -> Any:
    """A function applied to every array of a (named) tuple, or to the arrays at the same place of several."""
    first = trees[0]
    if first is None or isinstance(first, int):
        return first
    if not isinstance(first, tuple):
        return function(*trees)
    fields = [tree_map(function, *parts) for parts in zip(*trees, strict=True)]
    return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)


def sum_rows(rows: Floats) -> Floats:
    """The sum over the first axis, row by row: in the same order however many elements there are."""
    if rows[0].size == 1:  # NumPy would add in pairs
        return np.asarray(rows.cumsum(axis=0)[-1])
    return np.asarray(np.add.reduce(np.ascontiguousarray(rows), axis=0))


def log_sum_exp(rows: Floats) -> Floats:
    """log sum exp over the first axis."""
    top: Floats = rows.max(axis=0)
    rows -= top
    np.maximum(rows, -700.0, out=rows)  # exp is slow where it underflows; exp(-700) beside 1 is nothing
    np.exp(rows, out=rows)
    top += np.log(sum_rows(rows))
    return top


# --- trees as JSON: few numbers are readable, many packed

LISTED = 100  # up to this many numbers are written out; more are packed
LARGEST = 1 << 31  # bytes that a packed string may unfold to
_KINDS = {"f": "float", "i": "int", "b": "bool"}  # of NumPy, 64 bits of the first two, and how a record names them
_TYPES = {"f": np.float64, "i": np.int64, "b": np.bool_}
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
    [None, 2, {'shape': [2], 'float': [1, 'inf']}]
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
        numbers = pack_numbers(np.asarray(tree))
        found = {"shape": list(tree.shape), _KINDS[tree.dtype.kind]: numbers}
        return {**found, "scalar": True} if isinstance(tree, np.generic) else found
    raise TypeError(f"A {type(tree).__name__} is not part of a tree of arrays.")


def unpack(kind: type[Tree], written: Any, like: Any = None) -> Tree:
    """Read a tree of this type; `Unreadable` if it is of another.

    `like` is a tree of the same type: it says what stands in fields that may hold anything, such as `BatchPlan.memory`.
    """
    try:
        found = _read(kind, written, like)
    except (AttributeError, KeyError, NameError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise Unreadable(repr(error)) from None
    if not isinstance(found, kind):
        raise Unreadable(f"a {type(found).__name__} in place of a {kind.__name__}")
    return found


def unpack_array(written: Any) -> Any:
    """Read one array; `Unreadable` if it is none."""
    return unpack(np.ndarray, written)


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and "_fields" in vars(kind)


_types_of_fields = lru_cache(maxsize=256)(get_type_hints)


def expand_alias(hint: Any) -> Any:
    """The type that a type alias stands for: `NDArray` is one from NumPy 2.5 on."""
    origin = get_origin(hint) or hint
    return origin.__value__[get_args(hint)] if hasattr(origin, "__value__") else hint


def _read(kind: Any, written: Any, like: Any) -> Any:
    """Read a tree just as its type says; what may be anything (`Any`, a type variable) is like what it stands for."""
    kind = expand_alias(kind)
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        if written is None and types.NoneType in args:
            return None
        some = [each for each in args if each is not types.NoneType]
        named = [each for each in some if _is_named(get_origin(each) or each)]
        return _read((named or some)[0], written, like)
    if isinstance(kind, TypeVar) or kind is Any:
        origin, args = type(like), ()
    if _is_named(origin):
        fields = _types_of_fields(origin)
        inside = like._asdict() if isinstance(like, origin) else {}
        return origin(**{name: _read(fields[name], each, inside.get(name)) for name, each in written.items()})
    if origin is tuple and Ellipsis in args:
        return tuple(_read(args[0], each, None) for each in written)
    if origin is tuple:
        hints = args or [type(each) for each in like]
        others = like or [None] * len(hints)
        return tuple(_read(*each) for each in zip(hints, written, others, strict=True))
    if origin is np.ndarray or issubclass(origin, np.generic):
        found = _from_array(written)
        of = get_args(args[1])[0] if len(args) > 1 else None
        if of is not Any and of is not None and not np.issubdtype(found.dtype, of):
            raise TypeError(f"an array of {found.dtype} in the place of {of.__name__}")
        return found
    if origin is float and isinstance(written, dict):
        return float(written["number"])
    if type(written) is not origin and not (origin is float and type(written) is int):
        raise TypeError(f"{written!r} in the place of a {origin.__name__}")
    return written


def _from_array(written: Plain) -> Any:
    ((kind, name),) = [(kind, name) for kind, name in _KINDS.items() if name in written]
    array = unpack_numbers(written[name], kind).reshape([int(each) for each in written["shape"]])
    return array[()] if written.get("scalar") else array


def pack_numbers(array: Array) -> list[float | int | str] | str:
    """Numbers for JSON: a list of a few, a string of many (such as "<f8z:" and base64 of zlib)."""
    kind = array.dtype.kind
    if kind not in _KINDS or array.dtype.itemsize > 8:
        raise TypeError(f"An array of {array.dtype} cannot be kept.")
    if array.size <= LISTED:
        return [_plain_number(each) if kind == "f" else each for each in array.reshape(-1).tolist()]
    exact: Array = array.astype(_TYPES[kind])
    for size in _SIZES[kind]:
        with np.errstate(over="ignore", invalid="ignore"):
            small = exact.astype(size)
        if small.astype(_TYPES[kind]).tobytes() == exact.tobytes():
            break
    return f"{size}z:{_compress(small.tobytes())}"


def unpack_numbers(written: list[float | int | str] | str, kind: str = "f") -> Array:
    """The numbers that were packed, as floats, ints or bools: `kind` is that of their dtype."""
    if isinstance(written, list):
        if kind != "f" and not all(isinstance(each, bool if kind == "b" else int) for each in written):
            raise ValueError(f"numbers of another kind than {kind}")
        return np.array(written, dtype=_TYPES[kind])
    size, _, text = written.partition("z:")
    if size not in _SIZES[kind]:
        raise ValueError(f"numbers of size {size!r}")
    return np.frombuffer(_decompress(text), dtype=size).astype(_TYPES[kind])


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
