"""Designed looks keep the level of every true null: exact means by enumeration and quadrature, at the hardest laws."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chi2, multinomial

from roundwise import (
    BestArm,
    Binary,
    Bounded,
    GaussianArms,
    Normal,
    Problem,
    SameVariance,
    SubGaussian,
    simulate,
)
from roundwise.arrays import tree_map
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.problem import BatchPlan
from roundwise.noise.payoffs import LookAim
from roundwise.policies import Designed
from roundwise.rules.eprocess.designed import DesignedRule
from roundwise.rules.eprocess.designed_parts import Look, pay_in_parts
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


# --- looks in parts


def _in_parts(counts, values, chances):
    """All outcomes of a look in parts, and their chances, if each row has one of the values with these chances.

    Counts (P, K), values (V), chances (K, V).
    """
    parts, arms = counts.shape
    cells = []  # for each part and arm: how often each value came
    for p, k in itertools.product(range(parts), range(arms)):
        every = itertools.product(range(counts[p, k] + 1), repeat=len(values))
        here = np.array([each for each in every if sum(each) == counts[p, k]], dtype=float)
        likely = multinomial.pmf(here, counts[p, k], chances[k])
        cells.append((here[likely > 0], likely[likely > 0]))
    which = np.array(list(itertools.product(*(range(len(each)) for each, _ in cells))))
    chance = np.prod([likely[which[:, i]] for i, (_, likely) in enumerate(cells)], axis=0)
    table = np.stack([each[which[:, i]] for i, (each, _) in enumerate(cells)], axis=1)
    table = np.moveaxis(table.reshape(len(which), parts, arms, len(values)), 1, 2)[:, None]  # (n, 1, K, P, V)
    rows, totals = table.sum(axis=-1), table @ values
    scatter = table @ values**2 - totals**2 / np.maximum(rows, 1.0)
    cut = Parts(rows, totals, scatter, ValueTable(np.broadcast_to(values, (len(which), len(values))), table))
    whole = Batch(rows.sum(axis=-1)[:, 0], totals.sum(axis=-1)[:, 0], np.zeros((len(which), arms)), parts=cut)
    return whole, chance


@pytest.mark.parametrize("looks", [0.0, 3.0])
@pytest.mark.parametrize(
    ("counts", "values", "chances"),
    [
        ([[2, 3], [1, 2], [1, 1]], [0, 1], [(0.5, 0.5), (0.5, 0.5)]),
        ([[2, 3], [1, 2], [1, 1]], [0, 1], [(0.9, 0.1), (0.9, 0.1)]),
        ([[1, 9], [1, 5], [1, 2]], [0, 1], [(0.7, 0.3), (0.7, 0.3)]),
        ([[2, 2], [2, 1], [1, 1]], [0, 0.5, 1], [(0.5, 0, 0.5), (0, 1, 0)]),
        ([[2, 1, 1], [1, 1, 1], [1, 1, 1]], [0, 1], [(0.4, 0.6)] * 3),
    ],
)
def test_bounded_looks_in_parts_keep_the_level(counts, values, chances, looks):
    """Proposition D6, by enumeration at equal means: a first look, and one with a past that was all the other way."""
    counts, values = np.array(counts), np.array(values, dtype=float)
    arms = counts.shape[1]
    batch, chance = _in_parts(counts, values, np.array(chances))
    problem, rule = Problem(BestArm(), arms, 0.1, Bounded(0.0, 1.0)), DesignedRule(lead=0.5, hope=0.3)
    plan = _plan(counts.sum(axis=0), np.asarray(looks))
    first = rule.start(problem, ())
    likely = chance.argmax()
    second = rule.fold(problem, first, _plan(counts.sum(axis=0), np.asarray(4.0)), tree_map(lambda x: x[likely], batch))
    for kept in (first, second):
        before = np.exp(kept.wealth.gains - problem.goal)
        mean = chance @ _levels(rule, problem, kept, plan, batch)
        assert (mean <= before * (1 + 1e-9)).all()
    assert len(np.unique(_levels(rule, problem, second, plan, batch))) > 4  # the bets are placed


@pytest.mark.parametrize("looks", [0.0, 3.0])
@pytest.mark.parametrize("counts", [[(8, 8), (3, 3)], [(2, 100), (1, 50)], [(100, 2), (50, 1)]])
def test_sub_gaussian_looks_in_parts_keep_the_level(counts, looks):
    """Proposition D6 where Lemma 1 is an equality, and for two-point laws; two arms, two parts, by quadrature."""
    counts, problem = np.array(counts, float), Problem(BestArm(), 2, 0.1, SubGaussian(2.0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for z, chance in ((nodes, weights / weights.sum()), (np.array([-1.0, 1.0]), np.full(2, 0.5))):
        each = np.array(list(itertools.product(range(len(z)), repeat=2)))
        error = 2.0 * np.sqrt((1 / counts).sum(axis=1))
        away = z[each] * error  # of the first arm in each part; the second is 0
        cut = np.stack([away * counts[:, 0], 0 * away], axis=1)[:, None]
        rows = np.broadcast_to(counts.T, cut.shape)
        batch = Batch(rows.sum(axis=-1)[:, 0], cut.sum(axis=-1)[:, 0], parts=Parts(rows, cut))
        one = np.ones(len(each))
        known = estimate_from(Past.none((len(each), 2)).plus(Batch(batch.counts, 0 * batch.totals)), 4.0 * one, True)
        look = Look(3.0 * one, 2.0 * one, looks * one, one, True, 0.05, 0.3)

        def weigh(here, view, variance):
            return np.broadcast_to((1 - np.eye(2))[..., None], (2, 2, 2, variance.shape[-1]))

        level, forms = np.full((len(each), 2), 0.1), pairs(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
        mean = chance[each].prod(axis=1) @ pay_in_parts(
            problem, known, batch.parts, level, forms, look, np.ones(level.shape), weigh
        )
        assert (mean <= 0.1 * (1 + 1e-6)).all()
        assert len(z) == 2 or (mean >= 0.1 * (1 - 1e-6)).all()
