"""Bets on normal and sub-Gaussian rewards: expectation at most 1 under the null, growth, extremes.

"Expectation" is always that of exp(bet) over the new batch with the past held fixed, computed from the public functions
only: nothing here looks at the weights, except where a slow evaluation rebuilds them from their definition.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from expectations import PAST_Z, SIZES, TOLERANCE, Array, binomial_pmf, panels
from roundwise.noise import bets, student
from roundwise.noise.bets import sub_gaussian_bet
from roundwise.noise.gaussian import capped_gaussian_bet
from roundwise.noise.student import student_bet

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
    np.testing.assert_allclose(u.astype(float), bets.DRIFTS, rtol=1e-12)
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
    # new z of 60 to 80 once gave minus infinity
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


def test_growth_is_not_below_the_prototypes() -> None:
    # E log e when the past estimate has mean u0 standard errors, by Gauss-Hermite over past and new z, against the
    # definition with 36 points and prior power -3/4, written out here
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
    # small new batches and very negative past z once gave expectations up to 8000
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
        place, weight = special.roots_genlaguerre(student.NODES, (dof - 1) / 2)
        nodes, log_weights = student.chi_rule(np.array([float(dof)]))
        np.testing.assert_allclose(nodes[0], np.sqrt(2 * place), rtol=1e-11)
        np.testing.assert_allclose(np.exp(log_weights[0]), weight / weight.sum(), rtol=1e-8)
    for dof in (1.0, 3.0, 1e3, 1e6):  # a Gauss rule of 8 nodes integrates powers 0 to 15 of X^2/2 exactly
        nodes, log_weights = student.chi_rule(np.array([dof]))
        for power in range(16):
            log_moment = special.gammaln((dof + 1) / 2 + power) - special.gammaln((dof + 1) / 2)
            log_sum = special.logsumexp(log_weights[0] + 2 * power * np.log(nodes[0] / math.sqrt(2)))
            assert log_sum == pytest.approx(log_moment, abs=1e-9 * max(1.0, dof / 1e3))


def test_chi_rule_errs_on_the_safe_side() -> None:
    # E_0 exp(q rho x) = 0F1((dof + 1)/2; q^2 x^2/4), by its series; the rule's average must not exceed exp(q^2/2)
    j = np.arange(6000.0)[:, None]
    for dof in (1.0, 2.0, 9.0, 100.0, 1000.0):
        nodes, log_weights = student.chi_rule(np.array([dof]))
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
