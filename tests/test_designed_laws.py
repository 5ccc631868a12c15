"""Designed looks keep the level of every true null: exact means by enumeration and quadrature, at the hardest laws."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chi2, multinomial

from roundwise import BestArm, Binary, GaussianArms, Normal, Problem, SameVariance, simulate
from roundwise.arrays import tree_map
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan
from roundwise.noise.payoffs import LookAim
from roundwise.policies import Designed
from roundwise.rules.eprocess.designed import DesignedRule
from roundwise.solvers.halfspaces import pairs


def _plan(counts, looks):
    """A look that was announced, with so many to follow."""
    last, size = np.asarray(looks == 0), float(np.sum(counts))
    return BatchPlan(np.array(counts, float), np.asarray(True), left=looks * np.asarray(size), last=last, looks=looks)


def _levels(rule, problem, kept, plan, batches):
    """The level of each arm's null after each of many batches. (n, K)"""
    many = tree_map(lambda each: np.broadcast_to(each, (len(batches.counts), *np.shape(each))), (kept, plan))
    after = rule.fold(problem, *many, batches)
    return np.exp(np.minimum(after.wealth.gains - problem.goal, 0.0))


@pytest.mark.parametrize("looks", [0.0, 2.0])
@pytest.mark.parametrize(
    "law", [(0, 0.5, 0.5, 0), (0.1, 0.4, 0.4, 0.1), (0.45, 0.05, 0.05, 0.45), (0.7, 0.15, 0.15, 0)]
)
def test_rates_on_shared_items_may_depend_on_each_other_in_any_way(law, looks):
    """The law of an item (both, only a, only b, none): the pair's successes alone would overpay where a and b clash."""
    n, problem, rule = 12, Problem(BestArm(), 2, 0.1, Binary().with_items()), DesignedRule(lead=0.4, hope=0.0)
    seen = np.array([each for each in itertools.product(range(n + 1), repeat=4) if sum(each) == n], dtype=float)
    chances = multinomial.pmf(seen, n, law)
    both, a, b, _ = seen.T
    totals, zero = np.stack([both + a, both + b], axis=1), np.zeros(len(seen))
    apart, scatter = np.stack([zero, a - b, b - a, zero], axis=1), a + b - (a - b) ** 2 / n
    pairs = Batch(np.full(apart.shape, float(n)), apart, np.stack([zero, scatter, scatter, zero], axis=1))
    batch = Batch(np.full(totals.shape, float(n)), totals, totals * (n - totals) / n, pairs=pairs)
    mean = chances @ _levels(rule, problem, rule.start(problem, ()), _plan((n, n), np.asarray(looks)), batch)
    assert (mean <= 0.1 * (1 + 1e-9)).all()
    assert looks or (mean >= 0.08).all() or law[1] < 0.2


def _midpoints(size):
    return (np.arange(size) + 0.5) / size


@pytest.mark.parametrize(
    ("counts", "sigmas"), [((4, 4), (1, 1)), ((3, 12), (1, 6)), ((3, 150), (9, 1)), ((5, 9), (1, 0.01))]
)
def test_normal_results_with_variances_of_their_own(counts, sigmas):
    """Welch's statistic with the fewest degrees of freedom: its law is narrower than t, so low scores win nothing."""
    own = np.meshgrid(*(chi2.ppf(_midpoints(10), n - 1) for n in counts), ndtri(_midpoints(150)), indexing="ij")
    size, (n_a, n_b), (s_a, s_b) = own[0].size, counts, sigmas
    away = own[2].reshape(-1) * np.hypot(s_a / n_a**0.5, s_b / n_b**0.5)
    batch = Batch(
        np.broadcast_to(np.array(counts, float), (size, 2)), np.stack([away * n_a, 0 * away], axis=1),
        np.stack([own[0].reshape(-1) * s_a**2, own[1].reshape(-1) * s_b**2], axis=1),
    )  # fmt: skip
    noise, pieces = Normal(), pairs(np.zeros((size, 1), int), np.ones((size, 1), int))
    known = DesignedRule(lead=1.0).start(Problem(BestArm(), 2, 0.1, noise), (size,)).known
    for level, looks in itertools.product((0.05, 0.7), (0.0, 2.0)):
        one = np.ones((size, 1))
        aim = LookAim(None, looks * one, 0.5 * one, 0.05, 0.3)
        paid = noise.pay_look(known, batch, pieces, level * one, aim)
        assert paid.mean() <= 1.01 * level
        assert level > 0.5 or sigmas != (9, 1) or paid.mean() >= 0.85 * level


@pytest.mark.parametrize("noise", [Normal(), SameVariance()])
def test_units_do_not_matter_where_the_deviation_is_unknown(noise):
    """The first look knows no deviation: its bets must not take 1 for one."""
    for unit in (1.0, 2.0**-6, 2.0**6):
        policy = Designed(budget=3600, lead=0.1 * unit)
        (found,) = simulate(BestArm(), GaussianArms([0.1 * unit, 0.0], unit), [policy], runs=400, noise=noise, seed=3)
        assert (found.decided & found.correct).mean() >= 0.85
