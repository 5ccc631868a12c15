"""Every bet: expectation at most 1 under its null, by quadrature or exact sums; extremes; slow evaluations; layout.

"Expectation" is always that of exp(bet) over the new batch with the past held fixed, computed from the public functions
only: nothing here looks at the weights, except where a slow evaluation rebuilds them from their definition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, special, stats

from roundwise.stopping import bets, bets_gaussian, bets_mixture
from roundwise.stopping.bets import (
    bernoulli_difference_bet,
    bernoulli_level_bet,
    bounded_difference_bet,
    bounded_level_bet,
    capped_gaussian_bet,
    poisson_difference_bet,
    poisson_level_bet,
    row_table,
    student_bet,
    sub_gaussian_bet,
)

Array = NDArray[np.float64]
TOLERANCE = 1e-9  # of the quadratures and sums, not of the bets
PAST_Z = np.array([-40.0, -8.0, -2.0, -0.3, 0.0, 0.7, 2.0, 5.0, 11.0, 40.0])
SIZES = 10.0 ** np.arange(-6, 7)  # n_new / N_past
RATES = [1e-5, 0.01, 0.3, 0.5, 0.9, 1 - 1e-5]


def panels(edges: Array, nodes: int = 12) -> tuple[Array, Array]:
    """Gauss-Legendre points and weights on consecutive intervals; the edges run along the first axis."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(edges, axis=0) / 2, (edges[1:] + edges[:-1]) / 2
    shape = (nodes,) + (1,) * half.ndim
    points, weights = middle + half * x.reshape(shape), half * w.reshape(shape)
    return points.reshape(-1, *half.shape[1:]), weights.reshape(-1, *half.shape[1:])


def binomial_pmf(n: int, p: float) -> Array:
    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, p))


# ---------------------------------------------------------------- sub-Gaussian


@pytest.mark.parametrize("mean", [0.0, -0.01, -0.7, -5.0])
def test_sub_gaussian_expectation_for_gaussian_batches(mean: float) -> None:
    # no bet is bolder than q = 64, so the mass of e(z) phi(z) lies within 12 of [0, 64]
    z, weight = panels(np.linspace(-14.0, 78.0, 185))
    past, size = np.meshgrid(PAST_Z, SIZES, indexing="ij")
    log_e = sub_gaussian_bet(past, 1.0, z[:, None, None] / np.sqrt(size), 1.0 / size)
    density = -((z - mean) ** 2) / 2 - math.log(2 * math.pi) / 2
    expectation = (np.exp(log_e + density[:, None, None]) * weight[:, None, None]).sum(axis=0)
    assert expectation.max() <= 1 + TOLERANCE
    if mean == 0.0:  # and nothing is given away at the boundary but the chord of the table
        assert expectation.min() >= 1 - 1e-3


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_sub_gaussian_expectation_for_two_point_laws(n: int) -> None:
    # coins are the extreme sub-Gaussian laws: +-1 has sigma = 1; a 0/1 outcome has sigma = 1/2 (Hoeffding)
    past, size = np.meshgrid(PAST_Z, SIZES, indexing="ij")
    wins = np.arange(n + 1)[:, None, None]
    for p in (0.5, 0.02, 0.98):
        for sign in (1.0, -1.0):
            difference = sign * (wins / n - p)
            log_e = sub_gaussian_bet(past * np.sqrt(0.25 * size / n), 0.25 * size / n, difference, 0.25 / n)
            expectation = (np.exp(log_e) * binomial_pmf(n, p)[:, None, None]).sum(axis=0)
            assert expectation.max() <= 1 + TOLERANCE


def slow_mixture(past: float, size: float, new: float, boldest: float = 64.0) -> float:
    """The definition in long double, without the table: log of cash + sum_k w_k exp(q_k new - q_k^2/2)."""
    big = np.longdouble
    edges = 4 * np.sinh(np.linspace(np.arcsinh(big(0.05)), np.arcsinh(big(11)), 21))
    prior = np.log(edges[1:] / edges[:-1])
    u = np.diff(edges) / prior
    np.testing.assert_allclose(u.astype(float), bets_mixture.DRIFTS, rtol=1e-12)
    right, wrong = prior * np.exp(-u * u / 2 + u * big(past)), prior * np.exp(-u * u / 2 - u * big(past))
    total = right.sum() + wrong.sum()
    q = np.minimum(u * np.sqrt(big(size)), boldest)
    cash = big(0.98) * wrong.sum() / total + big(0.02)
    return float(np.log(cash + (big(0.98) * right / total * np.exp(q * big(new) - q * q / 2)).sum()))


def test_sub_gaussian_bet_is_the_mixture_it_says() -> None:
    # the table's chord costs at most step^2/8 times the variance of the drift, about 6e-5, and only lowers the stakes
    for past, size, new in itertools.product(
        [-40.0, -3.0, 0.0, 0.8, 2.7, 9.0, 40.0], [1e-4, 0.3, 2.0, 50.0], [-5.0, 0.4, 6.0, 30.0]
    ):
        slow = slow_mixture(past, size, new)
        assert sub_gaussian_bet(past, 1.0, new / math.sqrt(size), 1 / size) == pytest.approx(slow, abs=2e-4)


def test_sub_gaussian_bet_survives_extremes() -> None:
    # trap 4 of WAGER.md section 8: new z of 60 to 80 gave minus infinity
    for past in (-40.0, 0.0, 3.0, 40.0):
        for new in (60.0, 80.0, 1e4):
            value = float(sub_gaussian_bet(past, 1.0, new, 1.0))
            assert math.isfinite(value)
            assert value > (100.0 if past >= 0 or new > 1e3 else math.log(0.02))
    huge = np.array([1e300, -1e300, 1e-300, 5.0, math.inf, -math.inf])
    result = sub_gaussian_bet(huge[:5, None, None, None], abs(huge[:5, None, None]), huge[:, None], abs(huge[:4]))
    assert np.isfinite(result).all()
    assert (result >= math.log(0.02) - 1e-12).all()  # the cash floor
    assert float(sub_gaussian_bet(3.0, 1.0, math.inf, 1.0)) > 1e100


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
    assert (
        float(bernoulli_level_bet(0, 0, 3, 10, 0.5, True)) == float(bernoulli_level_bet(3, 10, 0, 0, 0.5, False)) == 0.0
    )
    assert float(bounded_difference_bet(0, 0, 0, 3, 2, 10, [0.0, 1.0], [3, 7], [3, 7])) == 0.0
    assert float(bounded_difference_bet(3, 2, 10, 3, 2, 10, [0.0, 1.0], [0, 0], [3, 7])) == 0.0


def test_growth_is_not_below_the_prototypes() -> None:
    # E log e when the past estimate has mean u0 standard errors, by Gauss-Hermite over past and new z, against the
    # definition of WAGER.md section 2 (36 points, prior power -3/4) written out here
    x, w = np.polynomial.hermite_e.hermegauss(40)
    past, new = np.meshgrid(x, x, indexing="ij")
    weight = np.outer(w, w) / w.sum() ** 2
    u = np.exp(np.linspace(math.log(0.03), math.log(40), 36))[:, None, None]
    for size in (0.3, 1.0, 2.0):
        for u0 in (0.3, 1.0, 2.0, 4.0, 8.0):
            z, fresh = past + u0, new + u0 * math.sqrt(size)
            log_w = 0.25 * np.log(u) - u * u / 2
            right, wrong = np.logaddexp.reduce(log_w + u * z, axis=0), np.logaddexp.reduce(log_w - u * z, axis=0)
            total = np.logaddexp(right, wrong)
            q = u * math.sqrt(size)
            bet = np.logaddexp.reduce(log_w + u * z - total + q * fresh - q * q / 2, axis=0)
            theirs = np.logaddexp(np.log(0.98 * np.exp(wrong - total) + 0.02), math.log(0.98) + bet)
            ours = sub_gaussian_bet(z, 1.0, fresh / math.sqrt(size), 1 / size)
            gain = float((weight * (ours - theirs)).sum())
            # measured: -0.05 at u0 = 0.3 (nothing to win there anyway), +0.02 to +0.10 at 1 and 2, 0 to -0.02 above
            assert gain > (-0.06 if u0 < 1 else -0.03 if u0 > 2 else 0.01)


# ---------------------------------------------------------------- capped Gaussian


def test_capped_gaussian_expectation() -> None:
    # trap 1 of WAGER.md section 8: small new batches and very negative past z gave expectations up to 8000
    need, past, size = np.meshgrid([0.01, 0.1, 0.5, 1.0, 3.0, 9.0, 20.0, 50.0], PAST_Z, SIZES[::2], indexing="ij")

    def bet(z: Array) -> Array:
        return capped_gaussian_bet(past, 1.0, z / np.sqrt(size), 1.0 / size, need)

    low, high = np.full(need.shape, -14.0), np.full(need.shape, 40.0)
    for _ in range(50):  # where the cap is reached, at most 40 (beyond, nothing happens under the null)
        middle = (low + high) / 2
        reached = bet(middle) >= need
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    # panels of width 1, and shorter ones towards the cap, because the bet may climb 64 nats per unit just below it
    near = low - np.concatenate([[0.0], 0.02 * 1.6 ** np.arange(9)]).reshape(-1, 1, 1, 1)
    everywhere = np.broadcast_to(np.arange(-14.0, 17.0).reshape(-1, 1, 1, 1), (31, *low.shape))
    z, weight = panels(np.sort(np.minimum(np.concatenate([near, everywhere]), low), axis=0), nodes=10)
    inside = (np.exp(bet(z) - z * z / 2) * weight).sum(axis=0) / math.sqrt(2 * math.pi)
    expectation = inside + np.exp(need + special.log_ndtr(-high))
    assert expectation.max() <= 1 + TOLERANCE
    # it is worth having: the level is used but for 1e-3 wherever the mixture can be multiplied at all
    assert (expectation >= 1 - 1e-3).mean() > 0.95


def test_capped_gaussian_bet_is_never_below_the_smaller_of_mixture_and_need() -> None:
    rng = np.random.default_rng(1)
    past, new = rng.normal(0, 6, 4000), rng.normal(0, 4, 4000)
    size, need = 10.0 ** rng.uniform(-6, 6, 4000), 10.0 ** rng.uniform(-2, 3, 4000)
    args = (past, 1.0, new / np.sqrt(size), 1.0 / size)
    mixture, capped = sub_gaussian_bet(*args), capped_gaussian_bet(*args, need)
    assert (capped >= np.minimum(mixture, need)).all()
    assert (capped <= np.where(need < 600, need, np.inf)).all()
    np.testing.assert_array_equal(capped[need >= 600], mixture[need >= 600])
    # with nothing left to prove, or no limit, it is the plain mixture
    for nothing in (0.0, -1.0, math.inf, math.nan):
        np.testing.assert_array_equal(capped_gaussian_bet(*args, nothing), mixture)


# ---------------------------------------------------------------- t bets


@pytest.mark.parametrize("dof", [1, 2, 5, 30, 200, 1000])
def test_student_expectation_at_the_boundary(dof: int) -> None:
    # rho = sin(angle) of the angle with density proportional to cos^(dof - 1): t = sqrt(dof) tan(angle)
    angle, weight = panels(np.linspace(-math.pi / 2, math.pi / 2, 301), nodes=8)
    log_density = (dof - 1) * np.log(np.cos(angle)) - special.betaln(dof / 2, 0.5)
    past, size = np.meshgrid(PAST_Z[::2], SIZES[::2], indexing="ij")
    t = math.sqrt(dof) * np.tan(angle)[:, None, None]
    log_e = student_bet(past, 1.0, 1.0, t / np.sqrt(size), 1.0, 1.0 / size, dof)
    expectation = (np.exp(log_e + log_density[:, None, None]) * weight[:, None, None]).sum(axis=0)
    assert expectation.max() <= 1 + TOLERANCE


@pytest.mark.parametrize("dof", [1, 4, 60])
def test_student_expectation_inside_the_null(dof: int) -> None:
    # noncentral t density of scipy (Boost); s^2 = 1 and leverage 1, so that the difference is t itself
    for past, gap in itertools.product((-2.0, 1.0, 6.0), (-0.1, -2.0)):
        value = integrate.quad(
            lambda a, past=past, gap=gap: (
                math.exp(float(student_bet(past, 1.0, 1.0, math.tan(a), 1.0, 1.0, dof)))
                * stats.nct.pdf(math.tan(a), dof, gap)
                / math.cos(a) ** 2
            ),
            -math.pi / 2 + 1e-6,
            math.pi / 2 - 1e-6,
            limit=60,
            epsabs=1e-5,
            epsrel=1e-5,
        )[0]
        assert value <= 1 + 1e-4


def test_student_bet_rises_with_the_difference() -> None:
    # with the stochastic order of noncentral t this carries the boundary's expectation to the whole null
    difference = np.sinh(np.linspace(-20, 20, 401))
    for dof in (1, 3, 50, 10**6):
        for past in (-5.0, 0.0, 4.0):
            assert (np.diff(student_bet(past, 1.0, 1.0, difference, 1.0, 1.0, dof)) >= -1e-12).all()


def test_chi_rule_against_scipy_and_moments() -> None:
    for dof in (1, 2, 7, 40):  # scipy.special.roots_genlaguerre: an independent implementation
        place, weight = special.roots_genlaguerre(bets_gaussian._NODES, (dof - 1) / 2)
        nodes, log_weights = bets_gaussian._chi_rule(np.array([float(dof)]))
        np.testing.assert_allclose(nodes[0], np.sqrt(2 * place), rtol=1e-11)
        np.testing.assert_allclose(np.exp(log_weights[0]), weight / weight.sum(), rtol=1e-8)
    for dof in (1.0, 3.0, 1e3, 1e6):  # a Gauss rule of 8 nodes integrates powers 0 to 15 of X^2/2 exactly
        nodes, log_weights = bets_gaussian._chi_rule(np.array([dof]))
        for power in range(16):
            log_moment = special.gammaln((dof + 1) / 2 + power) - special.gammaln((dof + 1) / 2)
            log_sum = special.logsumexp(log_weights[0] + 2 * power * np.log(nodes[0] / math.sqrt(2)))
            assert log_sum == pytest.approx(log_moment, abs=1e-9 * max(1.0, dof / 1e3))


def test_chi_rule_errs_on_the_safe_side() -> None:
    # E_0 exp(q rho x) = 0F1((dof + 1)/2; q^2 x^2/4), by its series; the rule's average must not exceed exp(q^2/2)
    j = np.arange(6000.0)[:, None]
    for dof in (1.0, 2.0, 9.0, 100.0, 1000.0):
        nodes, log_weights = bets_gaussian._chi_rule(np.array([dof]))
        half = (dof + 1) / 2
        for q in (0.01, 0.3, 1.0, 4.0, 15.0, 64.0):
            y = q * nodes[0]
            log_terms = j * np.log(y * y / 4) - special.gammaln(j + 1) - special.gammaln(half + j)
            log_factor = special.logsumexp(log_terms, axis=0) + special.gammaln(half)
            assert special.logsumexp(log_weights[0] + log_factor) <= q * q / 2 + 1e-9


def test_student_bet_wins_on_a_huge_difference() -> None:
    # forty deviations and more: the past points there, and the bet must not be too bold to win
    for dof, difference in itertools.product((3.0, 7.0, 30.0, 400.0, 1e5), (5.0, 40.0, 1e3, 1e9)):
        leverage = 1 / (dof + 1)
        value = float(student_bet(difference, 1.0, leverage, difference, 1.0, leverage, dof))
        assert value > min(dof / 3, 100.0)


def test_student_bet_is_the_likelihood_ratio_it_says() -> None:
    # slow: the chi average of the mixture at z = rho X by scipy.integrate.quad
    for dof, past, t in itertools.product((3, 25, 400), (0.5, 2.5), (-1.0, 1.5, 3.0)):
        rho = t / math.sqrt(dof + t * t)
        slow = integrate.quad(
            lambda x, past=past, rho=rho, dof=dof: (
                math.exp(slow_mixture(past, 1.0, rho * x, 1.4 * math.sqrt(dof + 1))) * stats.chi.pdf(x, dof + 1)
            ),
            max(0.0, math.sqrt(dof) - 9),
            math.sqrt(dof) + 14,
            limit=100,
        )[0]
        assert student_bet(past, 1.0, 1.0, t, 1.0, 1.0, dof) == pytest.approx(math.log(slow), abs=0.02)
    # and with many degrees of freedom it is the bet of known variance
    assert student_bet(2.0, 4.0, 1.0, 2.5, 4.0, 1.0, 1e12) == pytest.approx(
        float(sub_gaussian_bet(2.0, 4.0, 2.5, 4.0)), abs=1e-5
    )


def test_student_bets_of_arms_that_share_a_variance_must_not_be_multiplied() -> None:
    # docs, "Above a level": given s the arms are independent, but each expectation falls in s, so the product gains
    z, w = np.polynomial.hermite_e.hermegauss(60)
    sigma2 = stats.chi2.ppf((np.arange(300) + 0.5) / 300, 50) / 50
    given_sigma = (np.exp(student_bet(1.0, 1.0, 1.0, z, sigma2[:, None], 1.0, 50)) * w).sum(axis=1) / w.sum()
    assert given_sigma.mean() <= 1.001
    assert (given_sigma**10).mean() > 1.5


def test_student_bet_survives_extremes() -> None:
    wide = np.array([1e300, -1e300, 1e-300, -60.0, 3.0])
    positive = abs(wide)
    grids = np.meshgrid(wide, positive, positive, wide, positive, positive, [1.0, 1e6], sparse=True)
    assert np.isfinite(student_bet(*grids)).all()


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


def poisson_law(mean: float, most: int) -> Array:
    return np.asarray(stats.poisson.pmf(np.arange(most + 1), mean))


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


def test_count_bets_are_the_mixtures_they_say() -> None:
    # direct products of the factors of WAGER.md section 7, sample by sample, with math.fsum; weights as in the
    # long-double test, so the same tolerance
    u, edges = bets_mixture.DRIFTS, bets_mixture._EDGES
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
    spreads = [past[1] - past[0] ** 2 / past[2], past[4] - past[3] ** 2 / past[5]]
    half = 0.5 / 100
    rate_a, rate_b = (0.4 + half) / (1 + 2 * half), (0.3 + half) / (1 + 2 * half)
    m = (a.size * rate_a + b.size * rate_b) / (a.size + b.size)
    noise = (sum(spreads) + m * (1 - m)) / 101
    v = noise * (2 / 50)
    up, down = b.size / (a.size + b.size), a.size / (a.size + b.size)
    z, u, edges = 0.1 / math.sqrt(v), bets_mixture.DRIFTS, bets_mixture._EDGES
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


# ---------------------------------------------------------------- all bets


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
        bounded_level_bet(*x[:3], [0.0, 0.5, 1.0], [3, 1, 2], x[3], x[4]),
        bounded_difference_bet(*x[:6], [0.0, 0.5, 1.0], [3, 1, 2], [1, 1, 1]),
    ]
    for result in results:
        assert np.isfinite(result).all()
        assert result >= math.log(0.02) - 1e-9


def test_all_bets_are_public() -> None:
    assert set(bets.__all__) == {n for n in vars(bets) if n.endswith("_bet")} | {"row_table"}


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
        bounded_difference_bet(s[0], part(s[0]), n[0], s[1], s[1] / 3, n[1], [0.2, 1.0], table, table[:, ::-1]),
        bounded_level_bet(s[0], part(s[0]), n[0], [0.2, 1.0], table, level, above),
    ]
    for result in results:
        assert np.isfinite(result).all()
        assert (result >= math.log(0.02) - 1e-9).all()
        assert (result != 0).mean() > 0.02


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
