"""Bets on bounded values: expectation at most 1 under the null, by exact sums (as in test_bets_gaussian)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from expectations import TOLERANCE, Array, row_table
from roundwise.noise import bets
from roundwise.noise.binary import bernoulli_difference_bet
from roundwise.noise.bounded import bounded_difference_bet, bounded_level_bet

# ---------------------------------------------------------------- bounded values


def tables(n: int, outcomes: int) -> Array:
    """All tables of n rows over the outcomes."""
    return np.array([t for t in itertools.product(range(n + 1), repeat=outcomes) if sum(t) == n], dtype=float)


BOUNDED_PASTS = [
    (3.0, 2.0, 10, 2.0, 1.0, 10),
    (0.0, 0.0, 1, 1.0, 1.0, 1),
    (500.0, 250.1, 1000, 480.0, 231.0, 1000),
    (9.0, 9.0, 9, 0.0, 0.0, 4),
]


def test_bounded_difference_expectation() -> None:
    values = np.array([0.0, 0.4, 1.0])
    # laws on the three values: the same mean by different laws, and means in the order of the null
    laws = [(0.5, 0.0, 0.5), (0.0, 5 / 6, 1 / 6), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, 0.0, 0.4), (0.0, 0.0, 1.0)]
    laws += [(1 - 1e-5, 0.0, 1e-5), (1 - 2.5e-5, 2.5e-5, 0.0), (0.001, 0.0, 0.999)]
    for n_a, n_b in [(1, 1), (4, 4), (2, 6)]:
        t_a, t_b = tables(n_a, 3), tables(n_b, 3)
        for past in BOUNDED_PASTS:
            e = np.exp(bounded_difference_bet(*past, values, t_a[:, None, :], t_b[None, :, :]))
            for law_a, law_b in itertools.product(laws, laws):
                if np.dot(law_a, values) > np.dot(law_b, values) + 1e-12:
                    continue
                p_a, p_b = stats.multinomial.pmf(t_a, n_a, law_a), stats.multinomial.pmf(t_b, n_b, law_b)
                assert p_a @ e @ p_b <= 1 + TOLERANCE


def test_bounded_level_expectation() -> None:
    values = np.array([0.0, 0.3, 1.0])
    for n, past in itertools.product((1, 7), BOUNDED_PASTS):
        table = tables(n, 3)
        for law in [
            (0.7, 0.0, 0.3),
            (0.0, 1.0, 0.0),
            (0.35, 0.5, 0.15),
            (0.9, 0.05, 0.05),
            (0.1, 0.1, 0.8),
            (1 - 1e-5, 0, 1e-5),
        ]:
            mean, pmf = float(np.dot(law, values)), stats.multinomial.pmf(table, n, law)
            for slack in (0.0, 0.01, 0.5):
                for level, above in ((mean + slack * (1 - mean), True), (mean * (1 - slack), False)):
                    log_e = bounded_level_bet(*past[:3], values, table, level, above)
                    assert pmf @ np.exp(log_e) <= 1 + TOLERANCE


def test_bounded_bets_on_coins_are_close_to_the_bets_on_successes() -> None:
    # the same factors up to how the variance is estimated: see the docstrings
    a, b = np.arange(0, 201, 20), np.full(11, 80)
    coins = [0.0, 1.0]
    ours = bounded_difference_bet(
        900, 900, 2000, 800, 800, 2000, coins, np.stack([200 - a, a], -1), np.stack([200 - b, b], -1)
    )
    theirs = bernoulli_difference_bet(900, 2000, 800, 2000, a, 200, b, 200)
    np.testing.assert_allclose(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rows", [40, 300])
def test_bounded_bets_from_raw_rows(rows: int) -> None:
    # below and above the number of distinct values at which the order of work changes; slow: math.fsum over the rows
    rng = np.random.default_rng(rows)
    a, b = rng.beta(2, 3, rows // 2), rng.beta(2, 4, rows // 3)
    values, (count_a, count_b) = row_table(a, b)
    assert count_a.sum() == a.size
    assert count_b.sum() == b.size
    past = (20.0, 10.0, 50, 15.0, 7.0, 50)
    fast = float(bounded_difference_bet(*past, values, count_a, count_b))
    scatter = [past[1] - past[0] ** 2 / past[2], past[4] - past[3] ** 2 / past[5]]
    half = 0.5 / 100
    rate_a, rate_b = (0.4 + half) / (1 + 2 * half), (0.3 + half) / (1 + 2 * half)
    m = (a.size * rate_a + b.size * rate_b) / (a.size + b.size)
    noise = (sum(scatter) + m * (1 - m)) / 101
    v = noise * (2 / 50)
    up, down = b.size / (a.size + b.size), a.size / (a.size + b.size)
    z, u, edges = 0.1 / math.sqrt(v), bets.DRIFTS, bets._EDGES
    right = np.log(edges[1:] / edges[:-1]) * np.exp(-u * u / 2 + u * z)
    wrong = np.log(edges[1:] / edges[:-1]) * np.exp(-u * u / 2 - u * z)
    terms = [0.02 + 0.98 * wrong.sum() / (right.sum() + wrong.sum())]
    for k, stake in zip(u, 0.98 * right / (right.sum() + wrong.sum()), strict=True):
        theta = k * math.sqrt(v)
        bold = min(theta / (noise + up * down * theta**2), 0.95 / (m * up), 0.95 / ((1 - m) * down))
        logs = [math.log1p(bold * up * (x - m)) for x in a] + [math.log1p(-bold * down * (x - m)) for x in b]
        terms.append(stake * math.exp(math.fsum(logs)))
    assert fast == pytest.approx(math.log(math.fsum(terms)), abs=2e-4)


def test_bounded_bets_refuse_values_outside_the_range() -> None:
    with pytest.raises(ValueError, match="must lie in"):
        bounded_difference_bet(3, 2, 10, 3, 2, 10, [0.0, 1.2], [1, 1], [1, 1])
    with pytest.raises(ValueError, match="must lie in"):
        bounded_level_bet(3, 2, 10, [math.nan, 1.0], [1, 1], 0.5, True)


# ---------------------------------------------------------------- margins


@pytest.mark.parametrize("margin", [-0.3, 0.1, 0.4])
def test_bounded_difference_expectation_with_a_margin(margin: float) -> None:
    values = np.array([0.0, 0.4, 1.0])
    laws = [(0.5, 0.0, 0.5), (0.0, 5 / 6, 1 / 6), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.1, 0.0, 0.9), (0.4, 0.5, 0.1)]
    t_a, t_b = tables(3, 3), tables(4, 3)
    for past in BOUNDED_PASTS:
        e = np.exp(bounded_difference_bet(*past, values, t_a[:, None, :], t_b[None, :, :], margin))
        for law_a, law_b in itertools.product(laws, laws):
            if np.dot(law_a, values) <= np.dot(law_b, values) + margin + 1e-12:
                p_a, p_b = stats.multinomial.pmf(t_a, 3, law_a), stats.multinomial.pmf(t_b, 4, law_b)
                assert p_a @ e @ p_b <= 1 + TOLERANCE
