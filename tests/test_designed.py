"""Designed studies: payoffs, laws and pairs by independent computations, power and errors, live studies."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, hypergeom

from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Gaussian,
    GaussianArms,
    Problem,
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
from roundwise.rules.eprocess.designed import DesignedRule
from roundwise.rules.eprocess.designed_cells import LargestLead, rival_weights

FIXED = {2: 34.26, 3: 74.8, 4: 119.2, 10: 431.1}  # results of a fixed design with power 90 %, in sigma^2/lead^2


@pytest.mark.parametrize("extension_value", [0.0, 0.3])
@pytest.mark.parametrize("looks", [0, 1, 4, 20])
@pytest.mark.parametrize("drift", [0.12, 0.5, 1.3, 3.0, 8.0])
def test_a_payoff_costs_at_most_its_level(drift, looks, extension_value):
    z = np.linspace(-9, 12, 10_501)
    chance = np.diff(ndtr(z))
    for level in (1e-9, 0.01, 0.05, 0.9):
        paid = pay(z, np.full(z.shape, level), np.full(z.shape, drift), np.full(z.shape, looks), 0.05, extension_value)
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


@pytest.mark.parametrize("extension_value", [0.0, 0.3])
@pytest.mark.parametrize("looks", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(
    "pair", [(30, 30, 20), (7, 5, 6), (400, 300, 250), (200, 3, 60), (2000, 2000, 20), (5, 5, 1), (300, 300, 500)]
)
def test_payoffs_on_a_lattice_cost_at_most_their_level(pair, looks, extension_value):
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
                paid = pay_on_lattice(law, level * one, drift * one, looks * one, 0.05, extension_value)
                assert (np.diff(paid) >= 0).all()
                assert 0 <= paid.min() <= paid.max() <= 1
                mean = chances @ paid
                assert mean <= level * (1 + 1e-9)
                assert mean >= 0.9 * level or chances.max() > 0.1 or level < 1e-3  # of lattices with some room


def test_a_level_that_is_next_to_nothing_stays():
    """After many looks: its logarithm is a number, but what is left out of the law is none."""
    x, one = np.arange(21.0), np.ones(21)
    law = hypergeometric_law(x, 20 * one, 53 * one - 20 - x, 33 * one, 0 * x)
    for level in (2e-319, 1e-300, 1e-281, 1e-270):
        paid = pay_on_lattice(law, level * one, 0.1 * one, 3 * one, 0.05, 0.3)
        assert np.isfinite(paid).all()
        assert (paid == level).all() or level == 1e-270


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
    rule, problem = DesignedRule(lead=0.2, extension_value=0.0), Problem(BestArm(), 3, 0.1, Binary())
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
    problem, rule = Problem(BestArm(), 3, 0.1, Gaussian(1.0)), DesignedRule(lead=0.4, extension_value=0.3)
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
    policy = Designed(budget=budget, lead=lead, looks=looks, extension_value=0.0, **design)
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
                looks=int(rng.integers(1, 8)), extension_value=float(rng.choice([0.0, 0.3])),
            )  # fmt: skip
            trial = trial._replace(plan=policy.next(problem, trial)) if trial.record.samples.any() else trial
        if not trial.plan.pulls.any():
            break
        batch, state = env.pull(rng, state, trial.plan.pulls, noise.needs)
        trial = advance(problem, policy, trial, batch)
    return trial.kept.wealth.rejected[..., 0].mean()


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


@pytest.mark.parametrize("lead", [1e-300, 1e9, 1e200])
@pytest.mark.parametrize("arms", [2, 4])
def test_leads_of_any_size(arms, lead):
    """Where the square of the lead overflows, every study answered after its first look."""
    error = _false_rejections(GaussianArms(np.zeros(arms)), Gaussian(1.0), Designed(budget=200 * arms, lead=lead), 500)
    assert 0 < error <= _allowed(0.05, 500)


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
        assert np.isfinite(trial.kept.wealth.gains[~trial.kept.wealth.rejected]).all()


def _scripted_run(question, rng, lead):
    """One run whose plans change in every way that is allowed, also because of results; whether a true null was lost.

    All arms are alike. Rounds bring more or fewer results than asked for; plans and the extension value change; fixed
    rounds and splits; an arm may leave because of its results, and one may join.
    """
    arms, noise = 3, Binary()
    problem, policy = Problem(question, arms, 0.1, noise), Designed(budget=600, lead=lead)
    trial = begin(problem, policy)
    for number in range(8):
        pulls = trial.plan.pulls
        if rng.random() < 0.3:  # a fixed round with a fixed split
            pulls = np.round(120 * rng.dirichlet(np.full(problem.arms, 20.0)))
        came = np.maximum(np.round(pulls * rng.uniform(0.5, 1.5, problem.arms)), 0.0)
        if came.any():
            won = rng.binomial(came.astype(int), 0.3).astype(float)
            trial = advance(problem, policy, trial, Batch(came, won))
        if problem.question.name == "best-arm" and rng.random() < 0.2 and not trial.done:
            rule, kept, past = policy.stopping, trial.kept, trial.kept.known.past
            join = problem.arms == 2 or rng.random() < 0.5
            gone = None if join else int(trial.record.means.argmin())  # the arm that looks worst leaves
            spread = [np.append(each, 0.0) if join else np.delete(each, gone) for each in (past.counts, past.totals)]
            after = Problem(question, problem.arms + (1 if join else -1), 0.1, noise)
            fresh = rule.start(after, ()).known.past.plus(Batch(*spread))
            state = rule.migrate(problem, after, kept, gone, fresh)
            problem = after
            record = trial.record._replace(counts=spread[0], totals=spread[1])
            trial = trial._replace(kept=state, record=record, batch=Batch(*spread))
        used, bold = float(trial.record.samples), rng.random() < 0.5
        budget = int(used + rng.choice([60, 200, 600]))
        policy = Designed(
            budget=budget,
            lead=lead * (2.0 if bold else 0.7),
            looks=int(rng.integers(1, 7)),
            extension_value=0.0 if bold else 0.3,
        )
        trial = trial._replace(plan=policy.next(problem, trial))
        if number >= 3 and rng.random() < 0.3:
            break
    return trial.kept.wealth


@pytest.mark.long
def test_scripted_runs_with_changes_of_every_kind():
    rng, runs = np.random.default_rng(21), 2000
    best = sides = some = 0
    for _ in range(runs):
        wealth = _scripted_run(BestArm(), rng, 0.15)
        best += bool(wealth.rejected[0])
        wealth = _scripted_run(Above(0.3), rng, 0.15)
        sides += bool((wealth.settled & (wealth.above > wealth.below)).any())
        wealth = _scripted_run(AnyAbove(0.3), rng, 0.15)
        some += bool(wealth.none_rejected)
    for errors in (best, sides, some):
        assert errors / runs <= _allowed(0.1, runs)
    assert max(best, sides, some) / runs >= 0.03


def test_a_level_of_0_is_dead():
    problem = Problem(BestArm(), 3, 0.05, Gaussian(1.0))
    policy = Designed(budget=300, lead=0.4)
    rule, trial = policy.stopping, begin(problem, policy)
    pulls = trial.plan.pulls
    trial = advance(problem, policy, trial, Batch(pulls, 0.1 * pulls * [1.0, 0.5, 0.0]))

    def with_gains(*gains):
        wealth = trial.kept.wealth._replace(gains=np.array(gains, dtype=float))
        return trial._replace(kept=trial.kept._replace(wealth=wealth))

    one, two = with_gains(-np.inf, 0.5, 1.0), with_gains(-np.inf, -np.inf, 1.0)
    assert rule.why_final(problem, trial.kept) is None
    assert rule.why_final(problem, one.kept) is None
    assert "used up the level" in rule.why_final(problem, two.kept)
    said = rule.effect_of_budget(problem, one, 600, ["a", "b", "c"])
    assert said.endswith("Results can no longer show that a is not the best.")
    more = rule.effect_of_budget(problem, trial, 3000, ["a", "b", "c"])
    assert "about 100 %" in more
    assert "can no longer show" not in more
    plan = policy.next(problem, two)  # and no result is wasted on it
    assert np.isfinite(plan.pulls).all()
    after = advance(problem, policy, two._replace(plan=plan), Batch(plan.pulls, 0.1 * plan.pulls))
    assert np.isneginf(after.kept.wealth.gains[:2]).all()


# --- questions about a level


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3), (0.3, 0.2, 0.3)])
def test_sides_of_a_level_keep_the_product_of_all_that_is_not_staked(rates, last):
    """Proposition 47, by enumeration: E prod (1 - f_j) >= prod (1 - w_j) over the true nulls "at most the level"."""
    rule, problem = DesignedRule(lead=0.2, extension_value=0.3), Problem(Above(0.3), 3, 0.1, Binary())
    kept, counts = rule.start(problem, ()), (11, 10, 12)
    left = np.asarray(0.0 if last else 60.0)
    plan = BatchPlan(np.full(3, 11.0), np.asarray(True), left=left, last=np.asarray(last), looks=np.asarray(1.0 - last))
    second = rule.fold(
        problem, kept, plan._replace(left=np.asarray(90.0), last=np.asarray(False)), _batch(11, (5, 4, 3))
    )
    wins = np.array(list(itertools.product(*(range(n + 1) for n in counts))), dtype=float)
    chances = np.prod([binom.pmf(wins[:, i], n, p) for i, (n, p) in enumerate(zip(counts, rates, strict=True))], axis=0)
    first_level = 1 - 0.9 ** (1 / 3)
    for before in (kept, second):
        many = tree_map(lambda each: np.broadcast_to(each, (len(wins), *np.shape(each))), (plan, before))
        batch = Batch(np.broadcast_to(np.array(counts, float), wins.shape), wins)
        after = rule.fold(problem, many[1], many[0], batch)
        old, new = (first_level * np.exp(each.wealth.above) for each in (before, after))
        assert new.max() <= 1 + 1e-9
        assert chances @ (1 - np.minimum(new, 1)).prod(axis=-1) >= (1 - old).prod() - 1e-12
        assert (chances @ new <= old * (1 + 1e-9)).all()
        assert (chances @ new >= 0.8 * old)[np.asarray(rates) == 0.3].all()


def _settle(question, env, noise, runs, changes=False, **design):
    """The wealth at the end of the budget, of many runs."""
    problem, policy, rng = Problem(question, env.arms, 0.05, noise), Designed(**design), np.random.default_rng(11)
    trial = begin(problem, policy, (runs,))
    state = env.initial_state(rng, runs)
    for _ in range(10):
        if changes and trial.record.samples.any():
            policy = Designed(
                budget=int(policy.budget * rng.uniform(0.9, 1.3)), lead=float(design["lead"] * rng.uniform(0.5, 2)),
                looks=int(rng.integers(1, 8)), extension_value=float(rng.choice([0.0, 0.3])),
            )  # fmt: skip
            trial = trial._replace(plan=policy.next(problem, trial))
        if not trial.plan.pulls.any():
            break
        batch, state = env.pull(rng, state, trial.plan.pulls, noise.needs)
        trial = advance(problem, policy, trial, batch)
    return trial.kept.wealth


@pytest.mark.long
@pytest.mark.parametrize(("lower", "changes"), [(False, False), (True, True)])
@pytest.mark.parametrize(
    ("env", "noise", "level", "lead"),
    [
        (GaussianArms(np.zeros(6)), Gaussian(1.0), 0.0, 0.25),
        (BernoulliArms(np.full(4, 0.3)), Binary(), 0.3, 0.1),
        (PoissonArms(np.full(3, 2.0)), PoissonArms([2.0, 2.0]).noise, 2.0, 0.4),
    ],
)
def test_arms_on_the_level(env, noise, level, lead, lower, changes):
    runs, design = 4000, {"budget": 300 * env.arms, "lead": lead}
    above = _settle(Above(level, lower_is_better=lower), env, noise, runs, changes, **design)
    for side in (above.above > above.below, above.above < above.below):
        assert (above.settled & side).any(axis=-1).mean() <= _allowed(0.05, runs)
    some = _settle(AnyAbove(level, lower_is_better=lower), env, noise, runs, changes, **design)
    assert some.none_rejected.mean() <= _allowed(0.05, runs)
    assert some.arms_rejected.mean(axis=0).max() <= _allowed(0.05, runs)
    if not changes and noise.outcome.normal:  # the bets are placed
        assert some.none_rejected.mean() >= 0.03
        assert (above.settled & (above.above > above.below)).any(axis=-1).mean() >= 0.03


@pytest.mark.parametrize("lower", [False, True])
def test_levels_are_answered_within_the_budget(lower):
    """Answered, and mean results in F; the numbers of the prototype, with all that is left in the last look."""
    sign, lead = -1 if lower else 1, 0.1
    fixed = {"above": 178.3 / lead**2, "any-above": 119.8 / lead**2}
    for question, means, share, power, mean in (
        (Above(0.0, lower_is_better=lower), [1, 1, 1, 1, -1, -1, -1, -1], 0.65, 0.923, 0.56),
        (AnyAbove(0.0, lower_is_better=lower), [1] + [-1] * 7, 0.6, 0.972, 0.345),
        (AnyAbove(0.0, lower_is_better=lower), [-1] * 8, 0.6, 0.932, 0.512),
    ):
        full, env = fixed[question.name], GaussianArms(sign * lead * np.array(means))
        policy = Designed(budget=int(share * full), lead=lead, extension_value=0.0)
        (found,) = simulate(question, env, [policy], runs=500, noise=Gaussian(1.0), seed=6)
        right = (found.decided & found.correct).mean()
        assert right >= power - 3.5 * np.sqrt(power * (1 - power) / 500)
        assert found.samples.mean() <= 1.03 * mean * full
        assert not (found.decided & ~found.correct).mean() > 0.006


def test_shared_items_have_levels_of_delta_over_the_number_of_arms():
    problem = Problem(Above(0.5), 4, 0.05, Binary().with_items())
    rule = DesignedRule(lead=0.1)
    cells, wealth = rule.eprocess(problem), rule.start(problem, ()).wealth
    np.testing.assert_allclose(cells._bars(problem, wealth), np.log(80))
    alone = Problem(Above(0.5), 4, 0.05, Binary())
    np.testing.assert_allclose(cells._bars(alone, wealth), -np.log(1 - 0.95**0.25))
    fewer = cells.without(alone, wealth, 1)  # an arm that leaves gives its level to nobody
    np.testing.assert_allclose(cells._bars(Problem(Above(0.5), 3, 0.05, Binary()), fewer), -np.log(1 - 0.95**0.25))


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


def test_a_look_costs_less_where_there_are_few():
    assert [Designed(budget=900, looks=looks).stopping.price for looks in (3, 4, None)] == [0.05, None, None]
    assert Designed(budget=900, looks=3, price=0.2).stopping.price == 0.2


def test_words_that_do_not_fit(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    with pytest.raises(InputError, match="needs a budget"):
        create_study("x", question=BestArm(), arms=["a", "b"], noise=Binary(), policy=Designed(), storage=storage)
    with pytest.raises(InputError, match="A lead needs a budget"):
        create_study("x", question=BestArm(), arms=["a", "b"], noise=Binary(), lead=0.1, storage=storage)
    with pytest.raises(InputError, match="does not answer 'best-arm' with a tolerance"):
        simulate(BestArm(tolerance=0.1), GaussianArms([1.0, 0.0]), [Designed(budget=100)], runs=2)
    with pytest.raises(InputError, match="`lead` must be positive"):
        Designed(budget=100, lead=0)


def test_a_budget_designs_studies_about_a_level(tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    rates = {"a": 0.5, "b": 0.1, "c": 0.45, "d": 0.3}
    for name, question in (("which", Above(0.3)), ("any", AnyAbove(0.3, lower_is_better=True))):
        study = create_study(
            name, question=question, arms=list(rates), noise=Binary(), budget=1500, lead=0.1, storage=storage
        )
        assert study.state.spec.policy.name == "designed"
        report, rounds = _tell_all(study, rates)
        assert 1 <= rounds <= 5
        assert report.guarantee.status == "kept"
        if name == "which":
            assert report.answer is None
            assert "What is open has a level of" in study.effect("extend", budget=2500)
            assert study.extend(2500).guarantee.status == "kept"
            report = study.drop("d", why="it is on the level")
            assert report.guarantee.status == "kept"
            assert report.answer is not None
        assert verify_study(name, storage=storage).sound
        study.close()
