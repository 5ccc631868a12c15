"""Designed looks keep the level of every true null: exact means by enumeration and quadrature, at the hardest laws."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, multinomial, poisson

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    EqualVariances,
    Gaussian,
    GaussianArms,
    Normal,
    Poisson,
    Problem,
    SubGaussian,
    TopK,
    simulate,
)
from roundwise.arrays import tree_map
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.problem import BatchPlan, begin
from roundwise.noise.budget_bets import poisson_law
from roundwise.noise.lattice import pay_on_lattice
from roundwise.noise.payoffs import LookAim, pay
from roundwise.policies import Designed
from roundwise.rules.eprocess.designed import DesignedRule
from roundwise.rules.eprocess.designed_parts import Look, pay_in_parts
from roundwise.simulation.environments import draw_batch
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
    n, problem, rule = (
        12,
        Problem(BestArm(), 2, 0.1, Binary().with_items()),
        DesignedRule(lead=0.4, extension_value=0.0),
    )
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


@pytest.mark.parametrize("noise", [Normal(), EqualVariances()])
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
    ("counts", "values", "chances", "question"),
    [
        ([[2, 3], [1, 2], [1, 1]], [0, 1], [(0.5, 0.5), (0.5, 0.5)], BestArm()),
        ([[2, 3], [1, 2], [1, 1]], [0, 1], [(0.9, 0.1), (0.9, 0.1)], BestArm()),
        ([[1, 9], [1, 5], [1, 2]], [0, 1], [(0.7, 0.3), (0.7, 0.3)], BestArm()),
        ([[2, 2], [2, 1], [1, 1]], [0, 0.5, 1], [(0.5, 0, 0.5), (0, 1, 0)], BestArm()),
        ([[2, 1, 1], [1, 1, 1], [1, 1, 1]], [0, 1], [(0.4, 0.6)] * 3, BestArm()),
        ([[2, 1, 1], [1, 1, 1], [1, 1, 1]], [0, 1], [(0.4, 0.6)] * 3, TopK(2)),
        ([[2, 1, 1], [1, 1, 1], [1, 1, 1]], [0, 1], [(0.8, 0.2)] * 3, TopK(2, lower_is_better=True)),
        ([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]], [0, 1], [(0.5, 0.5)] * 4, TopK(2)),
    ],
)
def test_bounded_looks_in_parts_keep_the_level(counts, values, chances, question, looks):
    """Proposition 46, by enumeration at equal means: a first look, and one with a past that was all the other way."""
    counts, values = np.array(counts), np.array(values, dtype=float)
    arms = counts.shape[1]
    batch, chance = _in_parts(counts, values, np.array(chances))
    problem, rule = Problem(question, arms, 0.1, Bounded(0.0, 1.0)), DesignedRule(lead=0.5, extension_value=0.3)
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
    """Proposition 46 where Lemma 1 is an equality, and for two-point laws; two arms, two parts, by quadrature."""
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


@pytest.mark.parametrize("looks", [0.0, 3.0])
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_a_dealt_first_look_keeps_the_level(rate, looks):
    """Proposition 45, by enumeration: one result of each of five arms tells who leads, two or three are bet on."""
    counts = np.array([[1, 1, 1, 1, 1], [3, 2, 2, 2, 2]])
    batch, chance = _in_parts(counts, np.array([0.0, 1.0]), np.tile((1 - rate, rate), (5, 1)))
    batch = batch._replace(parts=batch.parts._replace(scatter=None, table=None))
    problem, rule = Problem(BestArm(), 5, 0.3, Binary()), DesignedRule(lead=0.5, extension_value=0.0)
    mean = chance @ _levels(rule, problem, rule.start(problem, ()), _plan(counts.sum(axis=0), np.asarray(looks)), batch)
    assert (mean <= 0.3 * (1 + 1e-9)).all()
    assert (mean >= 0.15).all()


def test_more_deals_are_averaged():
    problem, rule, rng = (
        Problem(BestArm(), 5, 0.1, Binary()),
        DesignedRule(lead=0.2, extension_value=0.0),
        np.random.default_rng(3),
    )
    plan = begin(problem, Designed(budget=1500, lead=0.2), (30,)).plan
    env = BernoulliArms([0.5, 0.3, 0.3, 0.3, 0.3])
    batch, _ = draw_batch(problem, env, rng, env.initial_state(rng, 30), plan, partitions=3)
    start = rule.start(problem, (30,))
    every = [
        _levels_of(rule, problem, start, plan, batch._replace(parts=batch.parts._replace(totals=each)))
        for each in (batch.parts.totals, *np.split(batch.parts.totals, 3, axis=1))
    ]
    np.testing.assert_allclose(every[0], np.minimum(np.mean(every[1:], axis=0), 1.0), rtol=1e-9)
    assert plan.parts > 1
    assert begin(Problem(BestArm(), 4, 0.1, Binary()), Designed(budget=1500, lead=0.2)).plan.parts == 1


def _levels_of(rule, problem, kept, plan, batch):
    return np.exp(np.minimum(rule.fold(problem, kept, plan, batch).wealth.gains - problem.goal, 0.0))


# --- payoffs and sides of a level


def test_the_mean_of_a_payoff_is_at_most_its_level():
    """Exactly: every jump is located to 1e-12. Multipliers that are interpolated overpay by up to 0.5 %."""
    rng = np.random.default_rng(4)
    for _ in range(25):
        drift, level = np.exp(rng.uniform(-2.2, 2.2)), np.exp(rng.uniform(-9, -0.05))
        looks, extension_value, price = rng.choice([0, 1, 4]), rng.choice([0.0, 0.3]), rng.choice([0.02, 0.05, 0.2])

        def paid(z, *fixed):
            one = np.ones(z.shape)
            return pay(z, fixed[0] * one, fixed[1] * one, fixed[2] * one, *fixed[3:])

        fixed = (level, drift, looks, price, extension_value)
        grid = np.linspace(-12, 14, 400)
        here = paid(grid, *fixed)
        low, high = grid[:-1][np.diff(here) > 0], grid[1:][np.diff(here) > 0]
        mean, base = here[0], here[0]
        while low.size:  # jumps between two points of the grid, the lowest first
            most = paid(high, *fixed)
            left, right = low.copy(), high.copy()
            for _ in range(50):
                middle = (left + right) / 2
                jumped = paid(middle, *fixed) > paid(low, *fixed)
                left, right = np.where(jumped, left, middle), np.where(jumped, middle, right)
            step = paid(right, *fixed) - paid(low, *fixed)
            mean, base = mean + step @ ndtr(-right), base + step.sum()
            again = paid(right, *fixed) < most
            low, high = right[again], high[again]
        assert base == pytest.approx(here[-1])
        assert mean <= level * (1 + 1e-9)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("mean", [0.3, 4.0, 37.5, 900.0])
def test_counts_against_a_level(mean, above):
    """The exact mean of what is paid, and by how much less it is inside the null."""
    events = np.arange(poisson.isf(1e-14, mean) + 5)
    one = np.ones(events.shape)
    law = poisson_law(events, mean * one, np.full(events.shape, above))
    for level, drift, looks, extension_value in itertools.product(
        (1e-6, 0.05, 0.6), (0.3, 2.0), (0.0, 3.0), (0.0, 0.3)
    ):
        paid = pay_on_lattice(law, level * one, drift * one, looks * one, 0.05, extension_value)
        assert (np.diff(paid if above else paid[::-1]) >= 0).all()
        assert 0 <= paid.min() <= paid.max() <= 1
        cost = poisson.pmf(events, mean) @ paid
        assert cost <= level * (1 + 1e-9)
        assert cost >= 0.85 * level or mean < 30 or level < 1e-3
        assert poisson.pmf(events, mean * (0.9 if above else 1.05)) @ paid <= cost * (1 + 1e-6)


@pytest.mark.parametrize("looks", [0.0, 2.0])
@pytest.mark.parametrize(
    "noise", [Gaussian(1.0), EqualVariances(), Normal(), Binary(), Poisson(), Bounded(0.0, 9.0), SubGaussian(2.0)]
)
def test_the_side_of_an_arm_is_paid_by_its_own_results(noise, looks):
    """Proposition 47 multiplies over arms: a payoff that saw the rows of another arm would break it."""
    rng, rule = np.random.default_rng(2), DesignedRule(lead=0.3)
    problem = Problem(Above(0.4), 3, 0.1, noise)
    env = BernoulliArms([0.4] * 3)
    first = begin(problem, Designed(budget=400, lead=0.3), (20,)).plan._replace(looks=np.full(20, 3.0))
    before = rule.start(problem, (20,))
    state = env.initial_state(rng, 20)
    kept = rule.fold(problem, before, first, draw_batch(problem, env, rng, state, first)[0])
    plan = first._replace(looks=np.full(20, looks), last=np.full(20, looks == 0), left=np.full(20, 100 * looks))
    for start in (before, kept):
        one, other = (draw_batch(problem, env, rng, state, plan)[0] for _ in range(2))
        mixed = _of_two(one, other)
        found = [rule.fold(problem, start, plan, each).wealth for each in (one, mixed)]
        for side in ("above", "below"):
            ours, theirs = (getattr(each, side)[:, 0] for each in found)
            np.testing.assert_array_equal(ours, theirs)
        assert (found[0].above[:, 1:] != found[1].above[:, 1:]).any()


def _of_two(one, other):
    """The results of the first arm from one batch, of the others from another."""

    def pick(ours, theirs, axis):
        found = np.array(theirs)
        index = (slice(None),) * axis + (0,)
        found[index] = ours[index]
        return found

    batch = Batch(*(None if a is None else pick(a, b, 1) for a, b in zip(one[:3], other[:3], strict=True)))
    if one.table is not None:
        batch = batch._replace(table=ValueTable(one.table.values, pick(one.table.counts, other.table.counts, 1)))
    if one.parts is None:
        return batch
    ours, theirs = one.parts, other.parts
    parts = Parts(*(None if a is None else pick(a, b, 2) for a, b in zip(ours[:3], theirs[:3], strict=True)))
    if ours.table is not None:
        parts = parts._replace(table=ValueTable(ours.table.values, pick(ours.table.counts, theirs.table.counts, 2)))
    return batch._replace(parts=parts)


def test_sides_of_a_level_start_at_what_their_product_allows():
    for arms, delta in ((2, 0.05), (7, 0.1), (1000, 0.01)):
        problem, rule = Problem(Above(0.0), arms, delta, Gaussian(1.0)), DesignedRule(lead=0.3)
        wealth = rule.start(problem, ()).wealth
        level = np.exp(wealth.above - rule.eprocess(problem)._bars(problem, wealth))
        assert np.prod(1 - level) == pytest.approx(1 - delta, rel=1e-9)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("counts", [(40, 40, 40), (3, 150, 20), (150, 3, 3)])
def test_the_law_of_the_largest_height(counts, lower):
    """Proposition 48 at its border: the last look is a test of exactly its level, with weights from any past."""
    rng, runs, rule = np.random.default_rng(6), 20_000, DesignedRule(lead=0.4, extension_value=0.0)
    problem, counts = Problem(AnyAbove(0.2, lower_is_better=lower), 3, 0.1, Gaussian(1.0)), np.array(counts, float)
    sums = counts * 0.2 + np.sqrt(counts) * rng.standard_normal((runs, 3))
    batch = Batch(np.broadcast_to(counts, (runs, 3)), sums)
    for past in ((0, 0, 0), (30, 30, 30), (100, 5, 40)):
        seen = Batch(np.array(past, float), np.array(past) * np.array([0.3, 0.2, 0.05]))
        kept = rule.warm_start(problem, rule.start(problem, ()), seen, None)
        many = tree_map(lambda x: np.broadcast_to(x, (runs, *np.shape(x))), (kept, _plan(counts, np.asarray(0.0))))
        lost = rule.fold(problem, *many, batch).wealth.none_rejected.mean()
        assert abs(lost - 0.1) <= 4 * np.sqrt(0.09 / runs)


@pytest.mark.parametrize("looks", [0.0, 2.0])
def test_no_level_of_any_above_is_overpaid(looks):
    """Over a lattice of the results of two normal arms on the level, with what is kept back for an extension."""
    rule, problem = DesignedRule(lead=0.4, extension_value=0.3), Problem(AnyAbove(0.2), 2, 0.1, Gaussian(1.0))
    counts, each = np.array([30.0, 50.0]), _midpoints(30_000)
    away = ndtri(np.stack([each, np.arange(30_000) * (5**0.5 - 1) / 2 % 1 + 1e-9], axis=1))
    batch = Batch(np.broadcast_to(counts, away.shape), 0.2 * counts + np.sqrt(counts) * away)
    kept, plan = rule.start(problem, ()), _plan(counts, np.asarray(looks))
    many = tree_map(lambda x: np.broadcast_to(x, (len(away), *np.shape(x))), (kept, plan))
    after = rule.fold(problem, *many, batch).wealth
    for gains in (after.none, *after.arms.T):
        mean = np.exp(np.minimum(gains - problem.goal, 0.0)).mean()
        assert 0.097 <= mean <= 0.1003
