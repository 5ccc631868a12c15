"""Arrays of runs: the last axis is the arms, every axis before it is independent runs.

A result must not depend on how many runs are computed together. NumPy's own `sum` adds in another order
for another memory layout, so sums over arms go through `total`, which always adds in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]  # of any kind of values
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
        if isinstance(each, np.ndarray):
            found = done.get(id(each))
            if found is None:
                # along the last axis of the transpose, which keeps the runs contiguous; "clip" only skips a check
                done[id(each)] = found = each.transpose().take(index, axis=-1, mode="clip").transpose()
            return found
        if not isinstance(each, tuple):
            return each
        return each._make(map(taken, each)) if hasattr(each, "_make") else tuple(map(taken, each))

    return cast(Tree, taken(tree))


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
