"""Designed studies: payoffs, laws and pairs by independent computations, power and errors, live studies."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, hypergeom

from roundwise import (
    BernoulliArms,
    BestArm,
    Binary,
    Gaussian,
    GaussianArms,
    Problem,
    TopK,
    Wager,
    create_study,
    simulate,
    verify_study,
)
from roundwise.arrays import tree_map
from roundwise.environments import PoissonArms
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, advance, begin
from roundwise.noise.budget_bets import binomial_law, hypergeometric_law
from roundwise.noise.lattice import pay_on_lattice
from roundwise.noise.payoffs import pay
from roundwise.policies import Designed
from roundwise.rules.eprocess.designed import DesignedRule, LargestLead, rival_weights

FIXED = {2: 34.26, 3: 74.8, 4: 119.2, 10: 431.1}  # results of a fixed design with power 90 %, in sigma^2/lead^2


@pytest.mark.parametrize("hope", [0.0, 0.3])
@pytest.mark.parametrize("looks", [0, 1, 4, 20])
@pytest.mark.parametrize("drift", [0.12, 0.5, 1.3, 3.0, 8.0])
def test_a_payoff_costs_at_most_its_level(drift, looks, hope):
    z = np.linspace(-9, 12, 10_501)
    chance = np.diff(ndtr(z))
    for level in (1e-9, 0.01, 0.05, 0.9):
        paid = pay(z, np.full(z.shape, level), np.full(z.shape, drift), np.full(z.shape, looks), 0.05, hope)
        assert (np.diff(paid) >= 0).all()
        assert paid.min() >= 0
        assert paid.max() <= 1
        least, most = (paid[:-1] * chance).sum(), (paid[1:] * chance).sum()  # of the step function, from both sides
        assert least <= level * (1 + 1e-9)
        assert most >= 0.98 * level or drift < 0.2 or level < 1e-6  # and little of the level is left unused


def test_levels_of_0_and_1_stay_and_missing_statistics_are_not_bet_on():
    level = np.array([0.0, 1.0, 0.05])
    paid = pay(np.array([9.0, -9.0, np.nan]), level, np.ones(3), np.array([2.0, 0.0, 1.0]), 0.05, 0.3)
    np.testing.assert_array_equal(paid, level)


@pytest.mark.parametrize("hope", [0.0, 0.3])
@pytest.mark.parametrize("looks", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(
    "pair", [(30, 30, 20), (7, 5, 6), (400, 300, 250), (200, 3, 60), (2000, 2000, 20), (5, 5, 1), (300, 300, 500)]
)
def test_payoffs_on_a_lattice_cost_at_most_their_level(pair, looks, hope):
    n_a, n_b, won = pair
    x = np.arange(max(won - n_b, 0), min(won, n_a) + 1.0)
    y, rate = np.arange(won + 1.0), n_a / (n_a + n_b)
    laws = [
        (hypergeometric_law(x, n_a + 0 * x, won - x, n_b + 0 * x, 0 * x), hypergeom.pmf(x, n_a + n_b, won, n_a)),
        (binomial_law(y, won + 0 * y, np.log(n_a / n_b) + 0 * y), binom.pmf(y, won, rate)),
    ]
    for law, chances in laws:
        one = np.ones(chances.shape)
        for level in (1e-7, 0.004, 0.05, 0.7):
            for drift in (0.2, 1.0, 3.0):
                paid = pay_on_lattice(law, level * one, drift * one, looks * one, 0.05, hope)
                assert (np.diff(paid) >= 0).all()
                assert 0 <= paid.min() <= paid.max() <= 1
                mean = chances @ paid
                assert mean <= level * (1 + 1e-9)
                assert mean >= 0.9 * level or chances.max() > 0.1 or level < 1e-3  # of lattices with some room


@pytest.mark.parametrize(
    ("own", "others"), [(100, [100, 100]), (10, [500, 20, 10]), (500, [10, 500]), (50, [50] * 9), (7, [350, 7, 70, 3])]
)
def test_the_law_of_the_largest_lead(own, others):
    rng = np.random.default_rng(1)
    other = np.array(others, dtype=float)
    lead, spread = 0.3, 1 / other + 1 / own
    bias = np.log(rng.dirichlet(np.ones(other.size))) - lead**2 / (2 * spread)
    law = LargestLead(bias[None], (np.sqrt(other) * spread / lead)[None], np.sqrt(other / own)[None])
    errors = rng.standard_normal((60_000, other.size)) / np.sqrt(other)
    errors -= rng.standard_normal((60_000, 1)) / np.sqrt(own)
    found = (bias + lead * errors / spread).max(axis=-1)
    for share in (0.5, 0.2, 0.05, 0.01, 0.001):
        tail = law.tail(np.quantile(found, [1 - share]))[0]
        assert abs(tail - share) <= 4.5 * np.sqrt(share * (1 - share) / 60_000)


def test_weights_of_rivals_sum_to_one_and_drop_the_unlikely():
    weights = rival_weights(np.array([[0.0, 0.0, -800.0], [-1e4, -1e4, 0.0]]), np.array([[1, 1, 1], [1, 1, 0]]) > 0)
    np.testing.assert_allclose(weights, [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])


def _expected_levels(rates, counts, plan, kept, problem, rule):
    """The exact mean of each arm's level after a look of 0/1 results, over all outcomes."""
    wins = np.array(list(itertools.product(*(range(n + 1) for n in counts))), dtype=float)
    chances = np.prod([binom.pmf(wins[:, i], n, p) for i, (n, p) in enumerate(zip(counts, rates, strict=True))], axis=0)
    plan, kept = (tree_map(lambda each: np.broadcast_to(each, (len(wins), *np.shape(each))), x) for x in (plan, kept))
    after = rule.fold(problem, kept, plan, Batch(np.broadcast_to(np.array(counts, float), wins.shape), wins))
    return chances @ np.exp(np.minimum(after.wealth.gains, problem.goal) - problem.goal)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3), (0.6, 0.2, 0.6), (0.1, 0.1, 0.1)])
def test_a_look_at_rates_keeps_the_level_of_every_true_null(rates, last):
    rule, problem = DesignedRule(lead=0.2, hope=0.0), Problem(BestArm(), 3, 0.1, Binary())
    kept = rule.start(problem, ())
    left = np.asarray(0.0 if last else 60.0)
    plan = BatchPlan(np.full(3, 9.0), np.asarray(True), left=left, last=np.asarray(last), looks=np.asarray(1.0 - last))
    first = rule.fold(problem, kept, plan._replace(left=np.asarray(90.0), last=np.asarray(False)), _batch(9, (4, 3, 2)))
    for before in (kept, first):
        level = np.exp(before.wealth.gains - problem.goal)
        mean = _expected_levels(rates, (9, 8, 9), plan, before, problem, rule)
        best = np.asarray(rates) == max(rates)
        assert (mean[best] <= level[best] * (1 + 1e-9)).all()


def _batch(count, wins):
    return Batch(np.full(len(wins), float(count)), np.array(wins, dtype=float))


def test_a_look_at_normal_results_keeps_the_level_of_every_true_null():
    rng = np.random.default_rng(3)
    problem, rule = Problem(BestArm(), 3, 0.1, Gaussian(1.0)), DesignedRule(lead=0.4, hope=0.3)
    runs = 10_000
    counts = np.broadcast_to(np.array([40.0, 25.0, 60.0]), (runs, 3))
    kept = rule.start(problem, (runs,))
    for looks in (2.0, 1.0, 0.0):
        plan = BatchPlan(
            counts, np.ones(runs, bool), left=np.full(runs, 125.0 * looks), last=np.full(runs, looks == 0),
            looks=np.full(runs, looks),
        )  # fmt: skip
        kept = rule.fold(problem, kept, plan, Batch(counts, np.sqrt(counts) * rng.standard_normal((runs, 3))))
        level = np.exp(np.minimum(kept.wealth.gains - problem.goal, 0.0))
        assert (level.mean(axis=0) <= 0.1 + 4 * level.std(axis=0) / runs**0.5).all()
        assert (level.mean(axis=0) >= 0.09).all()


# --- power, samples and errors


def _run(arms, share, looks, runs, *, lead=0.1, **design):
    means = np.zeros(arms)
    means[0] = lead
    budget = int(share * FIXED[arms] / lead**2)
    policy = Designed(budget=budget, lead=lead, looks=looks, hope=0.0, **design)
    (found,) = simulate(BestArm(), GaussianArms(means), [policy], runs=runs, noise=Gaussian(1.0), seed=5)
    return found, lead**2 / FIXED[arms]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arms", "share", "looks", "power", "mean"),
    [
        (2, 1.05, 5, 0.894, 0.696),
        (2, 1.05, 3, 0.903, 0.767),
        (3, 0.95, 5, 0.912, 0.632),
        (4, 0.85, 5, 0.914, 0.589),
        (10, 0.65, 5, 0.925, 0.466),
    ],
)
def test_power_and_mean_samples(arms, share, looks, power, mean):
    found, unit = _run(arms, share, looks, 2000)
    right = found.decided & found.correct
    assert right.mean() >= power - 3.5 * np.sqrt(power * (1 - power) / 2000)
    assert found.samples.mean() * unit <= 1.04 * mean
    assert (found.samples <= share / unit).all()
    assert not (found.decided & ~found.correct)[:].mean() > 0.002


@pytest.mark.parametrize(
    ("rates", "budget", "most"), [((0.32, 0.30), 20_000, 14_000), ((0.32, 0.30, 0.30), 40_000, 30_000)]
)
def test_the_planners_examples(rates, budget, most):
    policy = Designed(budget=budget, lead=0.02)
    (found,) = simulate(BestArm(), BernoulliArms(rates), [policy], runs=1500, noise=Binary(), seed=2)
    assert (found.decided & found.correct).mean() >= 0.90 - 0.015
    assert found.samples.mean() <= 1.02 * most


def _false_rejections(env, noise, policy, runs, delta=0.05, changes=False):
    """How often the cell of arm 0, which is (one of) the best, is rejected by the end of the budget."""
    problem, rng = Problem(BestArm(), env.arms, delta, noise), np.random.default_rng(7)
    trial = begin(problem, policy, (runs,))
    state = env.initial_state(rng, runs)
    for _ in range(12):
        if changes:  # lead, looks and budget are drawn anew before every look, more boldly where the level is low
            bold = float(trial.kept.wealth.gains.mean() < 0)
            policy = Designed(
                budget=int(policy.budget * rng.uniform(0.9, 1.3)), lead=float(rng.uniform(0.05, 0.4) * (1 + bold)),
                looks=int(rng.integers(1, 8)), hope=float(rng.choice([0.0, 0.3])),
            )  # fmt: skip
            trial = trial._replace(plan=policy.next(problem, trial)) if trial.record.samples.any() else trial
        if not trial.plan.pulls.any():
            break
        batch, state = env.pull(rng, state, trial.plan.pulls, noise.needs)
        trial = advance(problem, policy, trial, batch)
    return trial.kept.wealth.lost[..., 0].mean()


def _allowed(delta, runs):
    return delta + 4 * np.sqrt(delta * (1 - delta) / runs)


@pytest.mark.long
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("arms", [2, 3, 6])
def test_ties_of_normal_arms(arms, changes):
    env = GaussianArms(np.zeros(arms))
    policy = Designed(budget=600 * arms, lead=0.15)
    error = _false_rejections(env, Gaussian(1.0), policy, 6000, changes=changes)
    assert error <= _allowed(0.05, 6000)
    assert changes or error >= 0.02  # the bets are placed


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    ("env", "noise"),
    [(BernoulliArms([0.3, 0.3]), Binary()), (BernoulliArms([0.1, 0.1, 0.1]), Binary())],
)
def test_ties_of_rates(env, noise, changes):
    policy = Designed(budget=400 * env.arms, lead=0.1)
    assert _false_rejections(env, noise, policy, 4000, changes=changes) <= _allowed(0.05, 4000)


def test_ties_of_counts():
    env = PoissonArms([2.0, 2.0])
    assert _false_rejections(env, env.noise, Designed(budget=400, lead=0.4), 4000) <= _allowed(0.05, 4000)


def test_the_best_may_be_the_smallest():
    for noise, env, mirrored in (
        (Gaussian(1.0), GaussianArms([0.3, 0.0, 0.1]), GaussianArms([-0.3, 0.0, -0.1])),
        (Binary(), BernoulliArms([0.6, 0.4, 0.5]), BernoulliArms([0.4, 0.6, 0.5])),
    ):
        policy = Designed(budget=900, lead=0.2)
        highest, lowest = (
            simulate(BestArm(lower_is_better=low), each, [policy], runs=400, noise=noise, seed=4)[0]
            for low, each in ((False, env), (True, mirrored))
        )
        assert abs(highest.decided.mean() - lowest.decided.mean()) <= 0.12
        assert lowest.correct[lowest.decided].mean() >= 0.97


def test_runs_are_the_same_alone_and_among_others():
    problem, policy, rng = Problem(BestArm(), 4, 0.05, Gaussian(1.0)), Designed(budget=1200, lead=0.3), None
    rng = np.random.default_rng(0)
    together, alone = begin(problem, policy, (50,)), begin(problem, policy)
    for _ in range(5):
        if not together.plan.pulls[7].any():
            break
        batch = Batch(together.plan.pulls, together.plan.pulls * 0.1 * rng.standard_normal((50, 4)))
        np.testing.assert_array_equal(together.plan.pulls[7], alone.plan.pulls)
        together = advance(problem, policy, together, batch)
        alone = advance(problem, policy, alone, Batch(batch.counts[7], batch.totals[7]))
        np.testing.assert_array_equal(together.kept.wealth.gains[7], alone.kept.wealth.gains)


def test_a_running_study_may_become_a_designed_one_and_back():
    problem = Problem(BestArm(), 3, 0.05, Gaussian(1.0))
    wager, designed, rng = Wager(), Designed(budget=2000, lead=0.3), np.random.default_rng(1)
    trial = begin(problem, wager)
    for policy in (wager, designed, designed, wager, designed):
        trial = trial._replace(plan=policy.next(problem, trial)) if trial.record.samples else trial
        pulls = trial.plan.pulls
        trial = advance(problem, policy, trial, Batch(pulls, rng.normal(pulls * [0.2, 0, 0], np.sqrt(pulls))))
        assert np.isfinite(trial.kept.wealth.gains[~trial.kept.wealth.lost]).all()


# --- studies


def _tell_all(study, rates, seed=0):
    rng = np.random.default_rng(seed)
    report, rounds = None, 0
    while (asked := study.ask()) is not None:
        rows = [arm for arm, pulls in asked.table for _ in range(pulls)]
        report = study.tell({"arm": rows, "outcome": [int(rng.random() < rates[arm]) for arm in rows]})
        rounds += 1
    return report, rounds


def test_a_budget_makes_a_designed_study(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    study = create_study(
        "tiles", question=BestArm(), arms=["a", "b"], noise=Binary(), budget=1000, lead=0.1, looks=4, storage=storage
    )
    assert study.ask().table == [("a", 125), ("b", 125)]
    report, rounds = _tell_all(study, {"a": 0.3, "b": 0.3})
    assert rounds == 4
    assert report.guarantee.status == "kept"
    assert verify_study("tiles", storage=storage).sound
    study.extend(2000)
    more, again = _tell_all(study, {"a": 0.3, "b": 0.3}, 1)
    assert again >= 1
    assert more.guarantee.status == "kept"
    assert verify_study("tiles", storage=storage).sound
    study.close()


def test_words_that_do_not_fit(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    with pytest.raises(InputError, match="needs a budget"):
        create_study("x", question=BestArm(), arms=["a", "b"], noise=Binary(), policy=Designed(), storage=storage)
    with pytest.raises(InputError, match="'designed', not with 'wager'"):
        create_study("x", question=BestArm(), arms=["a", "b"], noise=Binary(), lead=0.1, storage=storage)
    with pytest.raises(InputError, match="answers 'best-arm'"):
        simulate(TopK(1), GaussianArms([1.0, 0.0]), [Designed(budget=100)], runs=2)
    with pytest.raises(InputError, match="`lead` must be positive"):
        Designed(budget=100, lead=0)
