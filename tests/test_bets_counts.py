"""Bets on 0/1 outcomes and counts: expectation at most 1 under the null, by exact sums (as in test_bets_gaussian)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from expectations import RATES, TOLERANCE, Array, binomial_pmf
from roundwise.noise import bets
from roundwise.noise.binary import bernoulli_difference_bet, bernoulli_level_bet
from roundwise.noise.poisson import poisson_difference_bet, poisson_form_bet, poisson_level_bet

# ---------------------------------------------------------------- 0/1 outcomes and counts

PASTS = [
    (0, 1, 0, 1),
    (1, 1, 0, 1),
    (0, 40, 3, 7),
    (30, 40, 2, 40),
    (500, 10**6, 400, 10**6),
    (10**6, 10**6, 0, 5),
    (5, 9, 5, 9),
]


@pytest.mark.parametrize("counts", [(1, 1), (1, 14), (9, 2), (12, 12)])
def test_bernoulli_difference_expectation(counts: tuple[int, int]) -> None:
    n_a, n_b = counts
    won_a, won_b = np.arange(n_a + 1)[:, None], np.arange(n_b + 1)[None, :]
    for past in PASTS:
        e = np.exp(bernoulli_difference_bet(*past, won_a, n_a, won_b, n_b))
        for p_b, share in itertools.product(RATES, (1.0, 0.999, 0.5, 0.0)):  # boundary, and inside the null
            assert binomial_pmf(n_a, p_b * share) @ e @ binomial_pmf(n_b, p_b) <= 1 + TOLERANCE


def test_bernoulli_difference_expectation_when_rates_drift_within_a_batch() -> None:
    # docs: only the averages of the rates over the batch matter. Poisson binomial laws by convolution
    def law(rates: Array) -> Array:
        pmf = np.ones(1)
        for p in rates:
            pmf = np.convolve(pmf, [1 - p, p])
        return pmf

    rng = np.random.default_rng(3)
    for past in PASTS:
        e = np.exp(bernoulli_difference_bet(*past, np.arange(7)[:, None], 6, np.arange(11)[None, :], 10))
        a, b = rng.uniform(0, 1, 6), rng.uniform(0, 1, 10)
        b = b + (a.mean() - b.mean()) * np.where(a.mean() > b.mean(), (1 - b) / (1 - b.mean()), b / b.mean())
        assert a.mean() == pytest.approx(b.mean())
        assert law(a) @ e @ law(b) <= 1 + TOLERANCE


@pytest.mark.parametrize("n", [1, 3, 30, 400])
def test_bernoulli_level_expectation(n: int) -> None:
    won = np.arange(n + 1)
    for (s, N), level in itertools.product([(0, 1), (1, 1), (0, 30), (30, 30), (7, 20), (10**5, 10**6)], RATES):
        for share in (1.0, 0.99, 0.3, 0.0):
            above = bernoulli_level_bet(s, N, won, n, level, True) + stats.binom.logpmf(won, n, level * share)
            assert np.exp(above).sum() <= 1 + TOLERANCE
            below = bernoulli_level_bet(s, N, n - won, n, level, False) + stats.binom.logpmf(
                won, n, (1 - level) * share
            )
            assert np.exp(below).sum() <= 1 + TOLERANCE


@pytest.mark.parametrize("exposures", [(1.0, 1.0), (1.0, 7.0), (5.0, 0.5)])
def test_poisson_difference_expectation(exposures: tuple[float, float]) -> None:
    n_a, n_b = exposures
    most = 260  # no law here, tilted by the boldest bet, has mass beyond (checked: the last term is negligible)
    x_a, x_b = np.arange(most + 1)[:, None], np.arange(61)[None, :]
    for past in [(0, 3, 1, 3), (9, 10, 5, 10), (400, 1000, 600, 1000), (30, 10, 2, 10), (3, 100, 0, 100)]:
        log_e = poisson_difference_bet(*past, x_a, n_a, x_b, n_b)
        for rate in (1e-5, 0.1, 1.0):
            for share in (1.0, 0.9, 0.1):
                log_a = stats.poisson.logpmf(x_a, n_a * rate * share)
                terms = np.exp(log_e + log_a + stats.poisson.logpmf(x_b, n_b * rate))
                assert terms.sum() <= 1 + TOLERANCE
                if share == 1.0 and rate > 1e-5:  # equality up to what the table rounds off: the law is exact
                    assert terms.sum() >= 1 - 1e-3


def test_poisson_level_expectation() -> None:
    x = np.arange(3000)
    for (s, N), n, level in itertools.product([(0, 2), (4, 2), (300, 1000)], (0.5, 3.0, 40.0), (1e-3, 0.2, 2.0)):
        for share in (1.0, 0.7, 0.01):
            above = poisson_level_bet(s, N, x, n, level, True) + stats.poisson.logpmf(x, n * level * share)
            assert np.exp(above).sum() <= 1 + TOLERANCE
            below = poisson_level_bet(s, N, x, n, level, False) + stats.poisson.logpmf(x, n * level / share)
            assert np.exp(below).sum() <= 1 + TOLERANCE


# factors of the arms, and rates on which the form equals its offset: a pair and a margin, a sum, unequal factors and an
# arm that does not count, one arm below 0 (where the null is a rate of 0 or less than that)
FORMS = [
    ([1.0, -1.0], [1.2, 0.7], 0.5),
    ([1.0, 1.0], [0.4, 0.9], 1.3),
    ([2.0, 0.0, -0.5], [0.3, 5.0, 1.6], -0.2),
    ([-3.0, 1.0], [0.5, 0.1], -1.4),
    ([1.0, 0.0], [0.0, 3.0], 0.0),
]


@pytest.mark.parametrize(("factors", "rates", "offset"), FORMS)
def test_poisson_form_expectation(factors: list[float], rates: list[float], offset: float) -> None:
    f, rate = np.array(factors), np.array(rates)
    assert f @ rate == pytest.approx(offset, abs=1e-12)
    here = np.flatnonzero(f)
    x = np.meshgrid(*[np.arange(300)] * here.size, indexing="ij")
    events = np.zeros((*x[0].shape, f.size))
    for s, each in zip(here, x, strict=True):
        events[..., s] = each
    for n, past in itertools.product([(1.0, 1.0, 0.0), (1.0, 7.0, 2.0), (5.0, 0.5, 9.0)], [0.0, 0.2, 1.0, 6.0]):
        exposure = np.array(n)[: f.size] if f.size == 2 else np.array(n)[[0, 2, 1]]
        exposure, N = np.where(f == 0, 0.0, np.maximum(exposure, 0.1)), np.arange(3.0, 3.0 + 9 * f.size, 9.0)
        log_e = poisson_form_bet(f, past * N * (1 + f) ** 2, N, events, exposure, offset)
        for share in (1.0, 0.9, 0.1):  # at the boundary, and inside the null: less of what counts for, more against
            law = np.where(f > 0, rate * share, rate / share)
            log_p = sum(stats.poisson.logpmf(each, exposure[s] * law[s]) for s, each in zip(here, x, strict=True))
            mean = np.exp(log_e + log_p).sum()
            assert mean <= 1 + TOLERANCE
            if share == 1.0:  # equality, up to what the table of weights rounds off
                assert mean >= 1 - 1e-3


def test_poisson_form_bets_rise_with_what_counts_for_them() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        f, N, n = rng.normal(0, 1, 3), rng.integers(1, 50, 3), rng.integers(1, 50, 3)
        past, won, offset = rng.poisson(2.0 * N), rng.poisson(2.0 * n), rng.normal()
        bet = poisson_form_bet(f, past, N, won, n, offset)
        for s in range(3):
            more = poisson_form_bet(f, past, N, won + (np.arange(3) == s), n, offset)
            assert (more - bet) * np.sign(f[s]) >= 0
        assert poisson_form_bet(7 * f, past, N, won, n, 7 * offset) == pytest.approx(float(bet), abs=1e-9)


def test_poisson_form_bets_are_the_mixtures_they_say() -> None:
    # (1 + t f/n)^x exp(-t b) sample by sample, drift by drift: t stands for so many standard errors of the past
    u, edges = bets.DRIFTS, bets._EDGES
    prior = np.log(edges[1:] / edges[:-1])
    f, S, N, x, n, b = [2.0, -1.0, 0.5], [9, 4, 30], [10, 8, 60], [11, 3, 50], [12, 5, 80], 1.1
    rates = [(s + 0.5) / m for s, m in zip(S, N, strict=True)]
    spread = math.fsum(c * c * r / m for c, r, m in zip(f, rates, N, strict=True))
    new = math.fsum(c * c * r / m for c, r, m in zip(f, rates, n, strict=True))
    z = (math.fsum(c * s / m for c, s, m in zip(f, S, N, strict=True)) - b) / math.sqrt(spread)
    right, wrong = prior * np.exp(-u * u / 2 + u * z), prior * np.exp(-u * u / 2 - u * z)
    total, won = math.fsum(right) + math.fsum(wrong), 0.0
    for k, weight in zip(u, right, strict=True):
        t = min(k * math.sqrt(spread) / new, 0.95 * n[1])
        factor = math.prod((1 + t * c / m) ** y for c, m, y in zip(f, n, x, strict=True)) * math.exp(-t * b)
        won += 0.98 * weight / total * factor
    slow = math.log(won + 0.98 * math.fsum(wrong) / total + 0.02)
    assert poisson_form_bet(f, S, N, x, n, b) == pytest.approx(slow, abs=2e-4)


def test_count_bets_are_the_mixtures_they_say() -> None:
    # direct products of the factors of the page of proofs, sample by sample, with math.fsum; weights as in the
    # long-double test, so the same tolerance
    u, edges = bets.DRIFTS, bets._EDGES
    prior = np.log(edges[1:] / edges[:-1])

    def mixed(z: float, log_factors: list[float]) -> float:
        right, wrong = prior * np.exp(-u * u / 2 + u * z), prior * np.exp(-u * u / 2 - u * z)
        total = math.fsum(right) + math.fsum(wrong)
        parts = [0.98 * r / total * math.exp(f) for r, f in zip(right, log_factors, strict=True)]
        return math.log(math.fsum([0.98 * math.fsum(wrong) / total + 0.02, *parts]))

    for S_a, N_a, S_b, N_b, s_a, n_a, s_b, n_b in [(30, 100, 20, 90, 25, 60, 9, 50), (2, 20, 3, 30, 1, 7, 40, 80)]:
        half = 0.5 / (N_a + N_b)
        rates = [(S / N + half) / (1 + 2 * half) for S, N in ((S_a, N_a), (S_b, N_b))]
        m = (n_a * rates[0] + n_b * rates[1]) / (n_a + n_b)
        v = m * (1 - m) * (1 / N_a + 1 / N_b)
        factors = []
        for k in u:
            theta = min(k * math.sqrt(v), 0.95 * (n_a + n_b) * min((1 - m) / n_b, m / n_a))
            a, b = m + theta * n_b / (n_a + n_b), m - theta * n_a / (n_a + n_b)
            each = [math.log(a / m)] * s_a + [math.log((1 - a) / (1 - m))] * (n_a - s_a)
            each += [math.log(b / m)] * s_b + [math.log((1 - b) / (1 - m))] * (n_b - s_b)
            factors.append(math.fsum(each))
        slow = mixed((S_a / N_a - S_b / N_b) / math.sqrt(v), factors)
        assert bernoulli_difference_bet(S_a, N_a, S_b, N_b, s_a, n_a, s_b, n_b) == pytest.approx(slow, abs=2e-4)
        m = (n_a * S_a / N_a + n_b * S_b / N_b) / (n_a + n_b) + half
        v = m * (1 / N_a + 1 / N_b)
        factors = []
        for k in u:
            theta = min(k * math.sqrt(v), 0.95 * m * (n_a + n_b) / n_a)
            a, b = m + theta * n_b / (n_a + n_b), m - theta * n_a / (n_a + n_b)
            factors.append(s_a * math.log(a / m) - n_a * (a - m) + s_b * math.log(b / m) - n_b * (b - m))
        slow = mixed((S_a / N_a - S_b / N_b) / math.sqrt(v), factors)
        assert poisson_difference_bet(S_a, N_a, S_b, N_b, s_a, n_a, s_b, n_b) == pytest.approx(slow, abs=2e-4)
    for S, N, s, n, tau in [(30, 100, 25, 60, 0.2), (1, 50, 0, 70, 0.04)]:
        for sign in (1, -1):
            v = tau * (1 - tau) / N
            drifts = [min(k * math.sqrt(v), 0.95 * (1 - tau if sign > 0 else tau)) * sign for k in u]
            factors = [s * math.log(1 + d / tau) + (n - s) * math.log(1 - d / (1 - tau)) for d in drifts]
            slow = mixed(sign * (S / N - tau) / math.sqrt(v), factors)
            assert bernoulli_level_bet(S, N, s, n, tau, sign > 0) == pytest.approx(slow, abs=2e-4)
            drifts = [
                sign * (k * math.sqrt(tau / N) if sign > 0 else min(k * math.sqrt(tau / N), 0.95 * tau)) for k in u
            ]
            factors = [s * math.log(1 + d / tau) - n * d for d in drifts]
            slow = mixed(sign * (S / N - tau) / math.sqrt(tau / N), factors)
            assert poisson_level_bet(S, N, s, n, tau, sign > 0) == pytest.approx(slow, abs=2e-4)


def test_level_bets_below_mirror_those_above() -> None:
    won = np.arange(21)
    np.testing.assert_allclose(
        bernoulli_level_bet(3, 10, won, 20, 0.25, True),
        bernoulli_level_bet(7, 10, 20 - won, 20, 0.75, False),
        atol=1e-12,
    )


# ---------------------------------------------------------------- margins: the null is mean_a <= mean_b + margin

MARGINS = [-0.9, -0.2, -0.01, 0.01, 0.2, 0.9]


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("counts", [(1, 1), (1, 14), (9, 2), (12, 12)])
def test_bernoulli_difference_expectation_with_a_margin(counts: tuple[int, int], margin: float) -> None:
    n_a, n_b = counts
    won_a, won_b = np.arange(n_a + 1)[:, None], np.arange(n_b + 1)[None, :]
    for past in PASTS:
        e = np.exp(bernoulli_difference_bet(*past, won_a, n_a, won_b, n_b, margin))
        for p_b in np.linspace(max(0.0, -margin), min(1.0, 1.0 - margin), 9):
            for p_a in (p_b + margin, 0.7 * (p_b + margin)):  # boundary, and inside the null
                assert binomial_pmf(n_a, p_a) @ e @ binomial_pmf(n_b, p_b) <= 1 + TOLERANCE


@pytest.mark.parametrize("margin", [-0.5, -0.05, 0.05, 0.5])
def test_poisson_difference_expectation_with_a_margin(margin: float) -> None:
    x_a, x_b = np.arange(261)[:, None], np.arange(61)[None, :]
    for past in [(0, 3, 1, 3), (9, 10, 5, 10), (400, 1000, 600, 1000), (3, 100, 0, 100)]:
        log_e = poisson_difference_bet(*past, x_a, 2.0, x_b, 3.0, margin)
        for rate in (0.5, 1.0):
            for rate_a in (rate + margin, 0.8 * (rate + margin)):
                log_a = stats.poisson.logpmf(x_a, 2.0 * rate_a)
                terms = np.exp(log_e + log_a + stats.poisson.logpmf(x_b, 3.0 * rate))
                assert terms.sum() <= 1 + TOLERANCE
