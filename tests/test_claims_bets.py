"""Bets towards a budget: fair at the border of their null by quadrature and enumeration, and rising with the result."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import binom, hypergeom, nchypergeom_fisher, norm, poisson, t

from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past
from roundwise.noise import Binary, Bounded, EqualVariances, Gaussian, Normal, Poisson, SubGaussian
from roundwise.noise.budget_bets import (
    binomial_budget_bet,
    drift_budget_bet,
    hypergeometric_budget_bet,
    normal_budget_bet,
    product_budget_bet,
)
from roundwise.noise.scores import welch_score
from roundwise.questions import Claims

NEEDS = [0.05, 0.5, 2.0, 5.0, 12.0, 40.0]
SHARES = [1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999, 1.0]
ETAS = [0.05, 0.2, 0.5, 0.8]
PANELS = np.polynomial.legendre.leggauss(20)


def means_of(eta, shift=0.0):
    """E e(Z + shift), Z standard normal, of all needs and shares: panels up to the bar, and the bar beyond."""
    need, rho = (each.ravel() for each in np.meshgrid(NEEDS, SHARES))
    low, high = np.full(need.shape, -60.0), 60.0 + need
    for _ in range(100):  # to where the bar is reached
        middle = (low + high) / 2
        reached = normal_budget_bet(middle, need, rho, eta) >= need
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    ends = np.linspace(np.minimum(low, 12.0) - 24.0, low, 401)
    left, width = ends[:-1, :, None], np.diff(ends, axis=0)[..., None]
    places = left + width * (1 + PANELS[0]) / 2
    logs = normal_budget_bet(places, need[:, None], rho[:, None], eta) + norm.logpdf(places - shift)
    inner = (np.exp(logs) * PANELS[1] * width / 2).sum(axis=(0, 2))
    return need, rho, inner + np.exp(need) * norm.sf(high - shift)


@pytest.mark.long
@pytest.mark.parametrize("eta", ETAS)
def test_the_normal_bet_is_fair_by_quadrature(eta):
    need, rho, means = means_of(eta)
    assert means.max() <= 1 + 1e-9
    usual = (need >= 2) & (rho <= 0.5) | (rho == 1)
    assert means[usual].min() > 0.85  # and nothing much is given away
    assert means_of(eta, shift=-0.3)[2].max() < 1


@pytest.mark.parametrize("eta", ETAS)
def test_the_normal_bet_rises_with_the_score_and_ends_at_the_bar(eta):
    z = np.linspace(-40, 60, 4001)
    for need, rho in itertools.product(NEEDS, SHARES):
        logs = normal_budget_bet(z, need, rho, eta)
        assert (np.diff(logs) >= 0).all() if rho < 1 else set(logs) <= {-np.inf, need}
        assert logs.max() <= need
        assert not np.isnan(logs).any()


def tables(seed, number):
    """Counts and totals of two arms, small and lopsided ones among them."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        n_a, n_b = (int(each) for each in rng.integers(1, 60, 2))
        whole = int(rng.integers(1, n_a + n_b))
        need, rho = rng.choice(NEEDS), rng.choice(SHARES[1:])
        yield n_a, n_b, whole, float(need), float(rho), float(rng.choice(ETAS))


@pytest.mark.parametrize("log_odds", [0.0, 0.4, -1.1])
def test_the_bet_on_two_rates_is_fair_by_enumeration(log_odds):
    """scipy's own laws: hypergeometric, and Fisher's noncentral one."""
    means = []
    for n_a, n_b, whole, need, rho, eta in tables(1, 150):
        x = np.arange(max(0, whole - n_b), min(whole, n_a) + 1)
        e = np.exp(hypergeometric_budget_bet(x, n_a, whole - x, n_b, log_odds, need, rho, eta))
        if log_odds:
            law = nchypergeom_fisher.pmf(x, n_a + n_b, n_a, whole, np.exp(log_odds))
        else:
            law = hypergeom.pmf(x, n_a + n_b, n_a, whole)
        means.append(law @ e)
        assert (np.diff(e) >= 0).all()
        assert e.max() <= np.exp(need) * (1 + 1e-12)
    assert max(means) <= 1 + (1e-9 if log_odds else 1e-11)
    assert np.mean(means) > 0.9


def test_the_bet_on_a_share_of_events_is_fair_by_enumeration():
    rng = np.random.default_rng(2)
    means = []
    for _ in range(200):
        n, odds = int(rng.integers(1, 80)), float(rng.normal(0, 1))
        need, rho, eta = (float(rng.choice(each)) for each in (NEEDS, SHARES[1:], ETAS))
        x = np.arange(n + 1)
        e = np.exp(binomial_budget_bet(x, n, odds, need, rho, eta))
        means.append(binom.pmf(x, n, 1 / (1 + np.exp(-odds))) @ e)
        assert (np.diff(e) >= 0).all()
    assert max(means) <= 1 + 1e-11


@pytest.mark.long
@pytest.mark.parametrize("eta", [1e-17, 1e-9, 1 - 1e-9])
@pytest.mark.parametrize("log_odds", [-690.0, -33.0, -8.0, 8.0, 33.0, 37.0, 690.0])
def test_exact_bets_are_fair_where_there_is_next_to_no_law(log_odds, eta):
    """A level next to 0 or 1, a ratio of any size: no bet, or a fair one that does not fall in x."""
    for need, rho in itertools.product((1e-12, 4.6, 599.0), (1e-300, 0.5, 1 - 1e-9, 1.0)):
        for n in (1, 40):
            x = np.arange(n + 1.0)
            weights = log_odds * x + gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
            logs = binomial_budget_bet(x, n, log_odds, need, rho, eta)
            assert logsumexp(weights + logs) - logsumexp(weights) <= 1e-9
            assert (logs[1:] >= logs[:-1] - 1e-9).all()
        x = np.arange(2.0, 6.0)  # of 5 in a, 7 successes of 10 in all
        weights = log_odds * x - sum(gammaln(each + 1) for each in (x, 5 - x, 7 - x, x - 2))
        logs = hypergeometric_budget_bet(x, 5, 7 - x, 5, log_odds, need, rho, eta)
        assert logsumexp(weights + logs) - logsumexp(weights) <= 1e-9
        assert (logs[1:] >= logs[:-1] - 1e-9).all()


def test_one_drift_is_fair_and_reaches_the_bar_at_the_horizon():
    z, step = np.linspace(-40, 50, 90_001, retstep=True)
    for need, rho in itertools.product(NEEDS, SHARES):
        assert np.exp(drift_budget_bet(z, need, rho) + norm.logpdf(z)).sum() * step <= 1 + 1e-9
    for need in NEEDS:
        np.testing.assert_allclose(drift_budget_bet(np.sqrt(2 * need), need, 1.0), need)


def product_mean(factors, counts, rates, offset, past, need, rho):
    """E of the product bet on 0/1 results, over all totals of all arms."""
    wins = list(itertools.product(*(range(n + 1) for n in counts)))
    table = np.array([[[n - x, x] for n, x in zip(counts, each, strict=True)] for each in wins], dtype=float)
    size = (len(wins), len(counts))
    guess = np.broadcast_to(past, size)
    logs = product_budget_bet(
        np.broadcast_to(factors, size), guess, guess * (1 - guess) + 0.01, np.array([0.0, 1.0]), table,
        np.full(len(wins), offset), np.full(len(wins), need), np.full(len(wins), rho),
    )  # fmt: skip
    law = [np.prod([binom.pmf(x, n, p) for x, n, p in zip(each, counts, rates, strict=True)]) for each in wins]
    return float(np.exp(logs) @ np.array(law)), logs


@pytest.mark.parametrize(
    ("factors", "offset", "rates"),
    [
        ((1.0, -1.0), 0.1, (0.5, 0.4)),  # a difference
        ((1.0, -1.0), 0.1, (0.1, 0.0)),
        ((1.0, -1.0), -0.2, (0.0, 0.2)),
        ((1.0, -1.5), 0.0, (0.6, 0.4)),  # a ratio
        ((1.0, -1.5), 0.0, (0.15, 0.1)),
        ((1.0,), 0.3, (0.3,)),  # a level
        ((1.0, -0.5, -0.5), 0.05, (0.4, 0.5, 0.2)),  # a contrast
    ],
)
def test_the_product_bet_is_fair_by_enumeration(factors, offset, rates):
    """Also where the guesses from the past are far off, or beyond what the offset allows."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        counts = tuple(int(each) for each in rng.integers(1, 9, len(factors)))
        past = rng.uniform(0.02, 0.98, len(factors))
        need, rho = float(rng.choice([0.5, 3.0, 12.0])), float(rng.choice([0.05, 0.5, 1.0]))
        mean, logs = product_mean(factors, counts, rates, offset, past, need, rho)
        assert mean <= 1 + 1e-12
        assert np.isfinite(logs).all()


def batch_of(counts, totals, **more):
    return Batch(np.array(counts, dtype=float), np.array(totals, dtype=float), **more)


def bet(noise, claims, batch, need, rho, eta=0.2):
    past = Past.none(batch.counts.shape)
    known = Estimates(past, past.means, noise.variance(past))
    lines = len(claims.lines.forms)
    shape = (*batch.counts.shape[:-1], lines)
    return noise.budget_bet(known, batch, claims.bets(shape[:-1]), np.full(shape, need), np.full(shape, rho), eta)


class TestModels:
    """Each model gives its own statistic to the bet it has."""

    claims = Claims.against_control(3, 0)

    def test_normal(self):
        batch = batch_of([10, 10, 5], [1.0, 8.0, -1.0])
        z = (np.array([0.8, -0.2]) - 0.1) / (2.0 * np.sqrt([0.2, 0.3]))
        found = bet(Gaussian(2.0), self.claims, batch, 3.0, 0.4)
        np.testing.assert_allclose(found, normal_budget_bet(z, 3.0, 0.4), rtol=1e-12)
        found = bet(SubGaussian(2.0), self.claims, batch, 3.0, 0.4)
        np.testing.assert_allclose(found, drift_budget_bet(z, 3.0, 0.4), rtol=1e-12)

    def test_a_need_that_cannot_be_held_in_money_is_bet_on_with_one_drift(self):
        found = bet(Gaussian(1.0), self.claims, batch_of([10, 10, 10], [0, 5, -5]), 900.0, 0.4)
        assert np.isfinite(found).all()
        assert found[0] > found[1]

    def test_unknown_deviations(self):
        """Of an arm with 10 results and one with 5 each has its own degrees of freedom; negative scores have all."""
        batch = batch_of([10, 10, 5], [1.0, 8.0, -1.0], scatter=np.array([9.0, 12.0, 3.0]))
        squares, dof = np.array([[12 / 90, 9 / 90], [3 / 20, 9 / 90]]), np.array([[9.0, 9.0], [4.0, 9.0]])
        statistic = (np.array([0.8, -0.2]) - 0.1) / np.sqrt(squares.sum(axis=-1))
        score, wide = welch_score(statistic, squares, dof), norm.isf(t.sf(statistic, [18, 13]))
        for need in (3.0, 0.1):
            found = bet(Normal(), self.claims, batch, need, 0.4)
            np.testing.assert_allclose(found, normal_budget_bet(score, need, 0.4, wide=wide), rtol=1e-9)
        np.testing.assert_allclose(score[0], norm.isf(t.sf(statistic[0], 9)), rtol=1e-9)
        assert found[1] == pytest.approx(normal_budget_bet(wide[1], 0.1, 0.4))  # of little need they are all there is

    def test_one_unknown_deviation(self):
        """The score has the tail probability of the t statistic, pooled over all arms."""
        batch = batch_of([10, 10, 5], [1.0, 8.0, -1.0], scatter=np.array([9.0, 12.0, 3.0]))
        square = 24.0 / 22.0
        score = norm.isf(t.sf((np.array([0.8, -0.2]) - 0.1) / np.sqrt(square * np.array([0.2, 0.3])), 22))
        found = bet(EqualVariances(), self.claims, batch, 3.0, 0.4)
        np.testing.assert_allclose(found, normal_budget_bet(score, 3.0, 0.4), rtol=1e-9)

    def test_rates(self):
        batch = batch_of([20, 12, 12], [5.0, 9.0, 2.0])
        found = bet(Binary(), self.claims, batch, 3.0, 0.4)
        expected = hypergeometric_budget_bet([9, 2], [12, 12], [5, 5], [20, 20], 0.0, 3.0, 0.4)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_a_rate_against_a_level_is_binomial_on_either_side(self):
        level = Claims.above(2, 0.3, futility=0.5)
        found = bet(Binary(), level, batch_of([20, 20], [12.0, 3.0]), 3.0, 0.4)
        up = binomial_budget_bet([12, 3], 20, np.log(0.3 / 0.7), 3.0, 0.4)
        down = binomial_budget_bet([8, 17], 20, 0.0, 3.0, 0.4)
        np.testing.assert_allclose(found, np.append(up, down), rtol=1e-9)

    def test_odds(self):
        odds = Claims.against_control(3, 0, 1.5, scale="odds-ratio")
        batch = batch_of([20, 12, 12], [5.0, 9.0, 2.0])
        found = Binary().odds_budget_bet(batch, odds.bets(()), np.full(2, 3.0), np.full(2, 0.4), 0.2)
        expected = hypergeometric_budget_bet([9, 2], [12, 12], [5, 5], [20, 20], np.log(1.5), 3.0, 0.4)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    @pytest.mark.parametrize("margin", [1.0, 1.4])
    def test_counts_with_a_ratio(self, margin):
        ratio = Claims.against_control(3, 0, margin, scale="ratio")
        found = bet(Poisson(), ratio, batch_of([20, 10, 10], [30.0, 40.0, 12.0]), 3.0, 0.4)
        odds = np.log(margin * 10 / 20)
        expected = binomial_budget_bet([40, 12], [70, 42], odds, 3.0, 0.4)
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_counts_with_a_difference_are_fair_by_enumeration(self):
        claims = Claims.against_control(2, 0, 0.5)
        x = np.arange(120)
        pairs = np.array(list(itertools.product(x, x)), dtype=float)
        batch = Batch(np.broadcast_to([6.0, 4.0], pairs.shape), pairs)
        logs = bet(Poisson(), claims, batch, 4.0, 0.5)[:, 0]
        law = poisson.pmf(pairs[:, 0], 6 * 1.0) * poisson.pmf(pairs[:, 1], 4 * 1.5)
        assert np.exp(logs) @ law <= 1 + 1e-12
        assert logs.max() > 1

    def test_values_in_a_range(self):
        """The same bet in any units; from sums alone the one for tails."""
        claims, values = Claims.against_control(2, 0, 0.1), np.array([0.0, 0.5, 1.0])
        counts = np.array([[5.0, 3.0, 2.0], [1.0, 2.0, 7.0]])
        unit = Batch(counts.sum(-1), counts @ values, None, ValueTable(values, counts))
        scaled = Claims.against_control(2, 0, 0.4)
        moved = Batch(counts.sum(-1), counts @ (1 + 4 * values), None, ValueTable(1 + 4 * values, counts))
        one, other = bet(Bounded(0, 1), claims, unit, 3.0, 0.4), bet(Bounded(1, 5), scaled, moved, 3.0, 0.4)
        np.testing.assert_allclose(one, other, rtol=1e-9)
        assert one[0] > 0
        sums = bet(Bounded(0, 1), claims, unit._replace(table=None), 3.0, 0.4)
        np.testing.assert_allclose(sums, bet(SubGaussian(0.5), claims, unit, 3.0, 0.4))

    @pytest.mark.parametrize("noise", [Gaussian(1.0), SubGaussian(1.0), Binary(), Bounded(0, 1), Poisson(), Normal()])
    def test_an_arm_without_results_is_not_bet_on(self, noise):
        batch = batch_of([10, 10, 0], [4.0, 6.0, 0.0], scatter=np.array([2.4, 2.4, 0.0]))
        found = bet(noise, self.claims, batch, 3.0, 0.4)
        assert found[0] != 0
        assert found[1] == 0


def test_equal_laws_are_bet_on_as_each_alone():
    """Elements with the same law, and in a first batch with the same need, are computed once."""
    rng = np.random.default_rng(8)
    events, won = rng.integers(90, 96, 80), rng.integers(30, 70, 80)
    for need, rho in ((np.full(80, 4.6), np.full(80, 0.1)), (rng.uniform(2.0, 6.0, 80), np.full(80, 0.2))):
        together = binomial_budget_bet(won, events, 0.1, need, rho)
        assert np.unique(together).size > 20
        for i in range(80):
            assert binomial_budget_bet(won[i], events[i], 0.1, need[i], rho[i]) == together[i]


def test_a_result_is_the_same_alone_and_among_others():
    rng = np.random.default_rng(4)
    n_a, n_b = rng.integers(1, 400, (2, 300)).astype(float)
    won_a, won_b = rng.binomial(n_a.astype(int), 0.3), rng.binomial(n_b.astype(int), 0.2)
    need, rho = rng.uniform(0.1, 20, 300), rng.choice([0.05, 0.4, 1.0], 300)
    together = hypergeometric_budget_bet(won_a, n_a, won_b, n_b, 0.0, need, rho)
    for i in range(0, 300, 7):
        alone = hypergeometric_budget_bet(won_a[i], n_a[i], won_b[i], n_b[i], 0.0, need[i], rho[i])
        assert alone == together[i]
