"""Arrays of runs: sums that do not depend on company or layout, taking and merging runs."""

import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from roundwise.arrays import Unreadable, expand_alias, pack, total, tree_take, tree_where, unpack, zeros
from strategies import law


class Pair(NamedTuple):
    first: Any
    second: Any = None


@law
@given(st.integers(1, 400), st.integers(0, 10**6))
def test_total_is_the_same_for_one_run_and_many(arms, seed):
    rng = np.random.default_rng([seed, arms])
    values = rng.normal(size=(3, 2, arms)) * 10.0 ** rng.uniform(-8, 8, (3, 2, arms))
    alone = np.vectorize(total, signature="(k)->()")(values)
    wide = np.repeat(values, 2, axis=-1)
    wide[..., 1::2] = np.nan
    for laid_out in (values, np.asfortranarray(values), wide[..., ::2], values[::-1][::-1], values.tolist()):
        np.testing.assert_array_equal(total(laid_out), alone)
    np.testing.assert_array_equal(total(values[0]), alone[0])
    np.testing.assert_array_equal(total(values.transpose(1, 0, 2)), alone.T)
    exact = [[math.fsum(row) for row in rows] for rows in values]
    size = [[math.fsum(np.abs(row)) for row in rows] for rows in values]
    assert (np.abs(alone - exact) <= 1e-15 * np.log2(arms + 1) * np.array(size)).all()


def test_total_leaves_its_argument_alone():
    for order in ("C", "F"):
        values = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], order=order)
        np.testing.assert_array_equal(total(values), [6.0, 15.0])
        np.testing.assert_array_equal(values, [[1, 2, 3], [4, 5, 6]])


def test_total_of_few_things():
    assert total([7.0]) == 7.0
    assert total([1, 2, 4]) == 7.0
    assert total([True, False, True]) == 2.0
    assert total([]) == 0.0
    np.testing.assert_array_equal(total(np.zeros((3, 0))), np.zeros(3))
    assert total(np.zeros((0, 3))).shape == (0,)
    assert total([1.0, np.inf]) == np.inf


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 4, 3)])
def test_zeros_have_the_runs_contiguous(shape):
    found = zeros(shape)
    assert found.shape == shape
    assert found.dtype == np.float64
    assert not found.any()
    assert found.T.flags.c_contiguous
    found += 1  # writable
    assert found.all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_take(order):
    per_arm = np.arange(12.0).reshape(4, 3).copy(order)
    per_run = np.array([10, 11, 12, 13])
    index = np.array([3, 0, 0])
    found = tree_take(Pair(per_arm, (per_run, None)), index)
    assert isinstance(found, Pair)
    np.testing.assert_array_equal(found.first, per_arm[index])
    np.testing.assert_array_equal(found.second[0], per_run[index])
    assert found.second[1] is None
    assert tree_take(None, index) is None
    np.testing.assert_array_equal(tree_take(per_run, np.array([], dtype=np.intp)), [])


def test_merged():
    mask = np.array([True, False, True])
    one, other = np.zeros((3, 2)), np.ones((3, 2))
    found = tree_where(mask, Pair(one, mask), Pair(other, ~mask))
    assert isinstance(found, Pair)
    np.testing.assert_array_equal(found.first, [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(found.second, [True, True, True])
    assert tree_where(mask, None, None) is None
    cube = tree_where(np.array([[True], [False]]), np.zeros((2, 1, 3)), np.ones((2, 1, 3)))
    np.testing.assert_array_equal(cube[:, 0, 0], [0, 1])
    single = tree_where(np.array(True), Pair(np.zeros(2)), Pair(np.ones(2)))
    np.testing.assert_array_equal(single.first, [0, 0])


def test_trees_are_read_where_an_array_type_is_an_alias():
    """As `NDArray` is from NumPy 2.5 on, where Python has aliases by `type`."""
    kind = TypeVar("kind", bound=np.generic)
    alias = typing_extensions.TypeAliasType("alias", np.ndarray[Any, np.dtype[kind]], type_params=(kind,))

    class Held(NamedTuple):
        numbers: alias[np.float64]
        rest: alias[np.int64] | None

    found = unpack(Held, pack(Held(np.array([1.5, np.inf]), None)))
    np.testing.assert_array_equal(found.numbers, [1.5, np.inf])
    with pytest.raises(Unreadable, match="float64"):
        unpack(Held, pack(Held(np.array([1.5]), np.array([0.5]))))
    assert expand_alias(alias[np.float64]) == np.ndarray[Any, np.dtype[np.float64]]
