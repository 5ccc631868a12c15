"""Every bet: an element does not depend on the others, nothing is ever NaN, extremes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expectations import Array
from roundwise.noise.bets import sub_gaussian_bet
from roundwise.noise.binary import bernoulli_difference_bet, bernoulli_level_bet
from roundwise.noise.bounded import bounded_difference_bet, bounded_level_bet
from roundwise.noise.gaussian import capped_gaussian_bet
from roundwise.noise.poisson import poisson_difference_bet, poisson_form_bet, poisson_level_bet
from roundwise.noise.student import student_bet


def scattered(name: str, shape: tuple[int, ...]) -> tuple[Callable[..., Array], list[Array]]:
    """A bet and random arguments of the given shape."""
    rng = np.random.default_rng(7)

    def wide(low: float, high: float) -> Array:
        return 10.0 ** rng.uniform(low, high, shape)

    def signed() -> Array:
        return rng.normal(0, 3, shape)

    n = [rng.integers(0, 50, shape).astype(float) for _ in range(4)]
    s = [np.floor(c * rng.uniform(0, 1, shape)) for c in n]
    both = [s[0], n[0], s[1], n[1], s[2], n[2], s[3], n[3]]
    one = [s[0], n[0], s[1], n[1], rng.uniform(0, 1, shape), rng.integers(0, 2, shape).astype(float)]
    return {
        "sub": (sub_gaussian_bet, [signed(), wide(-2, 2), signed(), wide(-2, 2)]),
        "capped": (capped_gaussian_bet, [signed(), wide(-2, 2), signed(), wide(-2, 2), wide(-2, 1.5)]),
        "student": (student_bet, [signed(), wide(-1, 1), wide(-2, 2), signed(), wide(-1, 1), wide(-2, 2), n[0]]),
        "bernoulli": (bernoulli_difference_bet, both),
        "bernoulli level": (bernoulli_level_bet, one),
        "poisson": (poisson_difference_bet, both),
        "poisson level": (poisson_level_bet, one),
    }[name]


NAMES = ["sub", "capped", "student", "bernoulli", "bernoulli level", "poisson", "poisson level"]


@pytest.mark.parametrize("name", NAMES)
def test_an_element_does_not_depend_on_the_others_or_the_layout(name: str) -> None:
    bet, args = scattered(name, (37, 5))
    whole = bet(*args)
    assert whole.shape == (37, 5)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(whole, bet(*[np.asfortranarray(a) for a in args]))
    np.testing.assert_array_equal(whole[::2, 1::3], bet(*[a[::2, 1::3] for a in args]))
    np.testing.assert_array_equal(whole.T, bet(*[a.T for a in args]))
    for place in itertools.product(range(0, 37, 6), range(5)):
        assert bet(*[a[place] for a in args]) == whole[place]
    np.testing.assert_array_equal(bet(args[0], *[a[:1] for a in args[1:]])[:1], whole[:1])


@pytest.mark.parametrize("outcomes", [3, 100])
def test_an_element_of_a_bounded_bet_does_not_depend_on_the_others(outcomes: int) -> None:
    rng = np.random.default_rng(5)
    n, past = rng.integers(1, 30, (2, 6)).astype(float), rng.uniform(0, 1, (4, 6))
    a, b = rng.integers(0, 4, (2, 6, outcomes)).astype(float)
    values = np.linspace(0, 1, outcomes)
    args = (past[0] * n[0], past[0] ** 2 * n[0], n[0], past[1] * n[1], past[1] ** 2 * n[1], n[1])
    whole = bounded_difference_bet(*args, values, a, b)
    level = bounded_level_bet(*args[:3], values, a, 0.4, past[3] > 0.5)
    assert np.isfinite(whole).all()
    for i in range(6):
        assert bounded_difference_bet(*[x[i] for x in args], values, a[i], b[i]) == whole[i]
        assert bounded_level_bet(*[x[i] for x in args[:3]], values, a[i], 0.4, past[3, i] > 0.5) == level[i]
    np.testing.assert_array_equal(whole, bounded_difference_bet(*args, values, np.asfortranarray(a), b))


def test_an_element_of_a_form_bet_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(6)
    factors, rates = rng.normal(0, 1, (7, 5, 3)), rng.uniform(0, 3, (2, 7, 5, 3))
    counts = rng.integers(0, 40, (2, 7, 5, 3)).astype(float)
    args = [factors, np.floor(rates[0] * counts[0]), counts[0], np.floor(rates[1] * counts[1]), counts[1]]
    offset = rng.normal(0, 1, (7, 5))
    whole = poisson_form_bet(*args, offset)
    assert (whole != 0).mean() > 0.5
    np.testing.assert_array_equal(whole, poisson_form_bet(*[np.asfortranarray(a) for a in args], offset))
    for place in itertools.product(range(7), range(5)):
        assert poisson_form_bet(*[a[place] for a in args], offset[place]) == whole[place]
    padded = [np.concatenate([a, np.zeros((7, 5, 2))], axis=-1) for a in args]  # arms of factor 0, without rows
    np.testing.assert_array_equal(poisson_form_bet(*padded, offset), whole)


number = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=300, deadline=None)
@given(st.lists(number, min_size=8, max_size=8))
def test_no_bet_is_ever_nan(x: list[float]) -> None:
    results = [
        sub_gaussian_bet(*x[:4]),
        capped_gaussian_bet(*x[:5]),
        student_bet(*x[:7]),
        bernoulli_difference_bet(*x),
        bernoulli_level_bet(*x[:6]),
        poisson_difference_bet(*x),
        poisson_level_bet(*x[:6]),
        poisson_form_bet([x[0], -1.0], [x[1], 2], [x[2], 9], [x[3], 3], [x[4], 5], x[5]),
        poisson_form_bet([1.0, -2.0], [3, x[1]], [5, x[2]], [2, x[3]], [7, x[4]], x[5]),
        bounded_level_bet(*x[:3], [0.0, 0.5, 1.0], [3, 1, 2], x[3], x[4]),
        bounded_difference_bet(*x[:6], [0.0, 0.5, 1.0], [3, 1, 2], [1, 1, 1]),
    ]
    for result in results:
        assert np.isfinite(result).all()
        assert result >= math.log(0.02) - 1e-9


def test_no_bet_without_data() -> None:
    for past_variance, variance in (
        (0.0, 1.0),
        (1.0, 0.0),
        (math.inf, 1.0),
        (1.0, math.inf),
        (math.nan, 1.0),
        (1.0, -1.0),
    ):
        assert float(sub_gaussian_bet(1.0, past_variance, 1.0, variance)) == 0.0
        assert float(capped_gaussian_bet(1.0, past_variance, 1.0, variance, 3.0)) == 0.0
        assert float(student_bet(1.0, 1.0, past_variance, 1.0, 1.0, variance, 5)) == 0.0
    assert float(sub_gaussian_bet(math.nan, 1.0, 1.0, 1.0)) == 0.0
    assert float(sub_gaussian_bet(1.0, 1.0, math.nan, 1.0)) == 0.0
    for dof in (0, -1, math.nan, math.inf):
        assert float(student_bet(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, dof)) == 0.0
    assert float(student_bet(1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 5)) == 0.0
    assert float(student_bet(1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 5)) == 0.0
    some = [3, 10, 2, 10, 3, 10, 2, 10]
    for place in (1, 3, 5, 7):
        none = [0 if i in (place, place - 1) else x for i, x in enumerate(some)]
        assert float(bernoulli_difference_bet(*none)) == 0.0
        assert float(poisson_difference_bet(*none)) == 0.0
    for level in (0.0, 1.0, -0.2, math.nan):
        assert float(bernoulli_level_bet(3, 10, 3, 10, level, True)) == 0.0
        assert float(bounded_level_bet(3, 2, 10, [0.0, 1.0], [3, 7], level, True)) == 0.0
    assert float(poisson_level_bet(3, 10, 3, 10, 0.0, True)) == 0.0
    for place in range(2):  # no rows of an arm that counts, past or new
        one, none = np.full(2, 10.0), np.where(np.arange(2) == place, 0.0, 10.0)
        assert float(poisson_form_bet([2.0, -1.0], [3, 3], none, [3, 3], one, 0.5)) == 0.0
        assert float(poisson_form_bet([2.0, -1.0], [3, 3], one, [3, 3], none, 0.5)) == 0.0
    assert float(poisson_form_bet([0.0, 0.0], [3, 3], [9, 9], [3, 3], [9, 9], -0.5)) == 0.0
    assert (
        float(bernoulli_level_bet(0, 0, 3, 10, 0.5, True)) == float(bernoulli_level_bet(3, 10, 0, 0, 0.5, False)) == 0.0
    )
    assert float(bounded_difference_bet(0, 0, 0, 3, 2, 10, [0.0, 1.0], [3, 7], [3, 7])) == 0.0
    assert float(bounded_difference_bet(3, 2, 10, 3, 2, 10, [0.0, 1.0], [0, 0], [3, 7])) == 0.0


def test_bets_on_counts_survive_extremes() -> None:
    rng = np.random.default_rng(11)

    def counts() -> Array:
        kinds = [10.0 ** rng.uniform(-320, 120, 4000), np.floor(10.0 ** rng.uniform(0, 15, 4000)), np.zeros(4000)]
        return np.choose(rng.integers(0, 3, 4000), kinds)

    def part(n: Array) -> Array:
        return n * np.choose(rng.integers(0, 3, n.size), [np.zeros(n.size), np.ones(n.size), rng.uniform(0, 1, n.size)])

    n = [counts() for _ in range(4)]
    s = [part(c) for c in n]
    level = np.choose(
        rng.integers(0, 3, 4000),
        [10.0 ** rng.uniform(-320, 0, 4000), 1 - 10.0 ** rng.uniform(-16, 0, 4000), np.ones(4000) / 2],
    )
    above, table = rng.integers(0, 2, 4000), np.stack(n[2:], -1)
    results = [
        bernoulli_difference_bet(s[0], n[0], s[1], n[1], s[2], n[2], s[3], n[3]),
        poisson_difference_bet(s[0], n[0], s[1], n[1], s[2], n[2], s[3], n[3]),
        bernoulli_level_bet(s[0], n[0], s[1], n[1], level, above),
        poisson_level_bet(s[0], n[0], s[1], n[1], level, above),
        poisson_form_bet(
            np.stack([above * level, 1 - 2 * level], -1),
            np.stack(s[:2], -1),
            np.stack(n[:2], -1),
            np.stack(s[2:], -1),
            np.stack(n[2:], -1),
            level * 10.0 ** rng.uniform(-100, 100, 4000) * (2 * above - 1),
        ),
        bounded_difference_bet(s[0], part(s[0]), n[0], s[1], s[1] / 3, n[1], [0.2, 1.0], table, table[:, ::-1]),
        bounded_level_bet(s[0], part(s[0]), n[0], [0.2, 1.0], table, level, above),
    ]
    for result in results:
        assert np.isfinite(result).all()
        assert (result >= math.log(0.02) - 1e-9).all()
        assert (result != 0).mean() > 0.02
