"""Steady bets: expectation at most 1 whatever the value, by exact sums and quadrature; what they win falls in it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from expectations import RATES, TOLERANCE, Array, binomial_pmf, panels
from roundwise import Binary, Bounded, Gaussian, Normal, Poisson, Problem, Statements, SubGaussian
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Past
from roundwise.noise.bets import log_factor_of_size
from roundwise.noise.bounded import fixed_size_difference_bet, fixed_size_level_bet
from roundwise.noise.gaussian import fixed_size_student_bet
from roundwise.noise.poisson import fixed_size_poisson_bet
from roundwise.solvers.halfspaces import Halfspaces

SIZES = np.array([1e-3, 0.1, 1.0, 3.0, 30.0])
VALUES = np.array([0.0, 1.0])


def one(value: float) -> Array:
    return np.array([value])


def table(won: Array, n: float) -> Array:
    return np.stack([n - won, won], axis=-1)


def test_gaussian_expectation_and_fall() -> None:
    z, weights = panels(np.linspace(-60, 60, 400))
    for mean in (0.0, -0.3):  # at the boundary, and inside the null
        logs = log_factor_of_size(np.array([[1e-3], [0.1], [3.0], [12.0]]), z * 2.0, np.full(z.shape, 2.0))
        means = (np.exp(logs + stats.norm.logpdf(z, mean)) * weights).sum(axis=-1)
        assert (means <= 1 + TOLERANCE).all()
        if not mean:
            assert (means >= 1 - 1e-6).all()
    new = 3.0 - np.linspace(-50, 50, 1001)  # a difference of 3 less rising values
    assert (np.diff(log_factor_of_size(SIZES[:, None], new, np.ones(1001))) <= 0).all()


@pytest.mark.long
@pytest.mark.parametrize("dof", [1.0, 2.0, 7.0, 100.0, 1e6])
def test_student_expectation_and_fall(dof: float) -> None:
    probability = np.concatenate([np.geomspace(1e-12, 0.5, 2000), 1 - np.geomspace(0.5, 1e-12, 2000)[1:]])
    t, weights = panels(stats.t.ppf(probability, dof))
    for shift in (0.0, -0.7):
        logs = fixed_size_student_bet(SIZES[:, None], t + shift, np.ones(t.shape), np.full(t.shape, dof))
        density = stats.t.logpdf(t, dof)  # `new` of a negative mean is at most this, the deviation being what it is
        assert ((np.exp(logs + density) * weights).sum(axis=-1) <= 1 + 1e-7).all()
    rising = np.linspace(-50, 50, 1001)
    logs = fixed_size_student_bet(SIZES[:, None], 3.0 - rising, np.ones(1001), np.full(1001, dof))
    assert (np.diff(logs) <= 1e-12).all()


def test_poisson_expectation_and_fall() -> None:
    x = np.stack(np.meshgrid(np.arange(220.0), np.arange(120.0), indexing="ij"), axis=-1)
    for factors, n in itertools.product([(1.0, -1.0), (2.0, 0.5), (-1.0, -0.2), (1.0, 0.0)], [(1.0, 4.0), (3.0, 0.7)]):
        f, exposure = np.array(factors), np.array(n)
        for rates in ((0.3, 1.0), (2.0, 0.1)):
            law = stats.poisson.logpmf(x, exposure * rates).sum(axis=-1)
            for size in (0.01, 0.3, 1.5):
                for slack in (0.0, 0.4):
                    offset = f @ rates + slack
                    logs = fixed_size_poisson_bet(np.full((1, 1, 1), size), f, x, exposure, np.full((1, 1), offset))
                    mean = np.exp(logs[0] + law).sum()
                    assert mean <= 1 + TOLERANCE
                    if not slack:
                        assert mean >= 1 - 1e-6
        values = np.linspace(-5, 5, 300)
        logs = fixed_size_poisson_bet(SIZES[:, None], f, np.array([[7.0, 4.0]]), exposure, values)
        assert (np.diff(logs) < 0).all()


@pytest.mark.parametrize("n", [1, 5, 60])
def test_level_expectation(n: int) -> None:
    won = np.arange(n + 1.0)
    rows = table(won, n)
    for rate, slack, above in itertools.product(RATES, (0.0, 1e-3, 0.4, 2.0), (True, False)):
        value = np.full(n + 1, rate + slack if above else rate - slack)  # also beyond [0, 1]
        logs = fixed_size_level_bet(SIZES[:, None], VALUES, rows, value, np.full(n + 1, above))
        assert (np.exp(logs) @ binomial_pmf(n, rate) <= 1 + TOLERANCE).all()


def test_level_expectation_of_three_values() -> None:
    values, law = np.array([0.0, 0.3, 1.0]), np.array([0.5, 0.3, 0.2])
    rows = np.eye(3)  # one row, which has one of the values
    for size, slack in itertools.product(SIZES, (0.0, 0.1, 0.6)):
        for above in (True, False):
            value = np.full(3, law @ values + (slack if above else -slack))
            logs = fixed_size_level_bet(np.full((1, 1), size), values, rows, value, np.full(3, above))
            assert np.exp(logs[0]) @ law <= 1 + TOLERANCE


@pytest.mark.parametrize("counts", [(1, 1), (1, 9), (12, 3)])
@pytest.mark.parametrize("margin", [-1.0, -0.6, -0.01, 0.0, 0.2, 1.0])
def test_difference_expectation(counts: tuple[int, int], margin: float) -> None:
    n_a, n_b = counts
    won_a, won_b = np.meshgrid(np.arange(n_a + 1.0), np.arange(n_b + 1.0), indexing="ij")
    for middle, size in itertools.product((0.01, 0.5, 0.9), (0.1, 1.0, 30.0)):
        logs = fixed_size_difference_bet(
            np.full((1, 1, 1), size),
            np.full(won_a.shape, middle),
            VALUES,
            table(won_a, n_a),
            table(won_b, n_b),
            np.full(won_a.shape, margin),
        )[0]
        for p_b in np.linspace(max(0.0, -margin), min(1.0, 1.0 - margin), 9):
            for p_a in (p_b + margin, 0.7 * (p_b + margin)):
                assert binomial_pmf(n_a, p_a) @ np.exp(logs) @ binomial_pmf(n_b, p_b) <= 1 + TOLERANCE


def test_bets_on_values_fall() -> None:
    rng = np.random.default_rng(8)
    values = np.sort(rng.uniform(0, 1, 90))  # more than are worked on at once
    for outcomes in (VALUES, values[:5], values):
        rising, margins = np.linspace(-0.5, 1.5, 401), np.linspace(-1.2, 1.2, 401)
        for _ in range(20):
            a, b = rng.integers(0, 6, (2, outcomes.size)).astype(float) + 1e-9
            sizes = 10.0 ** rng.uniform(-4, 4, (7, 1))

            def rows(counts: Array, size: int = outcomes.size) -> Array:
                return np.broadcast_to(counts, (401, size))

            up = fixed_size_level_bet(sizes, outcomes, rows(a), rising, np.ones(401, dtype=bool))
            down = fixed_size_level_bet(sizes, outcomes, rows(a), rising, np.zeros(401, dtype=bool))
            middle = np.full(401, rng.uniform())
            pair = fixed_size_difference_bet(sizes, middle, outcomes, rows(a), rows(b), margins)
            assert (np.diff(up) <= 1e-12 * np.abs(up[:, 1:])).all()
            assert (np.diff(down) >= -1e-12 * np.abs(down[:, 1:])).all()
            assert (np.diff(pair) <= 1e-12 * (1 + np.abs(pair[:, 1:]))).all()
            assert (up[:, 0] > up[:, -1]).all()


# ---------------------------------------------------------------- as noise models place them

FORMS = Statements(
    [[1, 0, 0], [0, -2, 0], [1, -1, 0], [0, 1, -1], [1, 1, -1], [2, 0, -1]], np.zeros(6)
)  # one arm, turned round, two arms, more
DRIFTS = np.array([[0.05], [0.5], [2.0], [9.0]])
COUNTS = np.array([6.0, 4.0, 5.0])


def pieces() -> Halfspaces:
    return FORMS.halfspaces(np.ones(6, dtype=bool), 3)


def past() -> Past:
    scatter = np.array([4.0, 2.0, 6.0])
    seen = Batch(np.array([20.0, 8.0, 30.0]), np.array([9.0, 2.0, 16.0]), scatter)
    return Past.none((3,)).plus(seen)


@pytest.mark.long
@pytest.mark.parametrize(
    "noise", [SubGaussian(1.0), Gaussian(2.0), Normal(), Binary(), Bounded(-1.0, 3.0), Poisson()], ids=repr
)
def test_every_form_of_every_model_falls(noise: object) -> None:
    problem = Problem(FORMS, 3, 0.1, noise)  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    values = np.array([-1.0, 0.2, 3.0])
    for _ in range(20):
        rows = rng.multinomial(5, [0.5, 0.3, 0.2], size=3).astype(float)
        totals = np.array([2.0, 3.0, 1.0]) if isinstance(noise, Binary) else rows @ values
        totals = np.abs(np.round(totals)) if isinstance(noise, Poisson) else totals
        batch = Batch(np.full(3, 5.0), totals, np.full(3, 2.5), ValueTable(values, rows))
        logs = problem.noise.fixed_size_bet(past(), batch, pieces(), np.full(3, 5.0), DRIFTS)
        found = np.array([logs(np.full(6, offset)) for offset in np.linspace(-9, 9, 200)])
        assert (np.diff(found, axis=0) <= 1e-12 * (1 + np.abs(found[1:]))).all()
        assert (found[0] > found[-1]).all()


@pytest.mark.parametrize("before", [past(), Past.none((3,))], ids=["a past", "no past"])
def test_sizes_of_bets_on_rates_do_not_depend_on_the_batch(before: Past) -> None:
    """All outcomes of a batch of 6, 4 and 5 rows: the mean is at most 1 at every form's own value."""
    problem, rates = Problem(FORMS, 3, 0.1, Binary()), np.array([0.4, 0.15, 0.6])
    truth, means = FORMS.forms @ rates, np.zeros((4, 6))
    for won in itertools.product(*(np.arange(n + 1) for n in COUNTS)):
        logs = problem.noise.fixed_size_bet(before, Batch(COUNTS, np.array(won, dtype=float)), pieces(), COUNTS, DRIFTS)
        chance = stats.binom.pmf(won, COUNTS, rates).prod()
        means += chance * np.exp(logs(truth))
    assert (means <= 1 + TOLERANCE).all()
    assert (means[:, :2] >= 1 - TOLERANCE).all()  # exactly 1 for one arm
    assert (means[:, :4] >= (0.95 if before.history else 0.85)).all()  # less for two; the others are sub-Gaussian


def test_sizes_of_bets_on_counts_do_not_depend_on_the_batch() -> None:
    problem, rates = Problem(FORMS, 3, 0.1, Poisson()), np.array([0.2, 0.1, 0.3])
    truth, means = FORMS.forms @ rates, np.zeros((4, 6))
    for won in itertools.product(range(16), range(12), range(18)):
        logs = problem.noise.fixed_size_bet(past(), Batch(COUNTS, np.array(won, dtype=float)), pieces(), COUNTS, DRIFTS)
        means += stats.poisson.pmf(won, COUNTS * rates).prod() * np.exp(logs(truth))
    assert (means <= 1 + TOLERANCE).all()
    assert (means[:2] >= 1 - 1e-3).all()  # equality, but for what lies beyond the sums


def test_no_bet_without_rows_or_past() -> None:
    for noise in (SubGaussian(1.0), Normal(), Binary(), Bounded(0.0, 1.0), Poisson()):
        none = Batch(np.array([0.0, 4.0, 5.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 0.5]))
        logs = noise.fixed_size_bet(past(), none, pieces(), COUNTS, DRIFTS)(np.full(6, 0.3))
        assert (logs[:, [0, 2, 4, 5]] == 0).all()
        assert (logs[:, [1, 3]] != 0).all()
    some = Batch(COUNTS, np.array([2.0, 1.0, 3.0]))
    first = Poisson().fixed_size_bet(Past.none((3,)), some, pieces(), COUNTS, DRIFTS)(np.full(6, 0.3))
    assert (first == 0).all()  # the others need no past
