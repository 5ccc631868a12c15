"""The top k in designed studies: the law of the widest gap, levels by enumeration, power, errors, a live study."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from roundwise import (
    BernoulliArms,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    Problem,
    SubGaussian,
    TopK,
    create_study,
    simulate,
    verify_study,
)
from roundwise.arrays import tree_map
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, advance, begin
from roundwise.policies import Designed
from roundwise.rules.eprocess import designed_top
from roundwise.rules.eprocess.designed import DesignedRule
from roundwise.rules.eprocess.designed_top import WidestGap
from roundwise.rules.eprocess.sets import sets_of


@pytest.mark.parametrize(
    ("past", "errors", "inside"),
    [
        ([0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]),
        ([0, 1, 0.5, -1, 2, 0], [0.3, 0.3, 2, 0.3, 1, 2.1], [1, 0, 1, 0, 0, 0]),
        ([0, 0, 0, 0], [0.15, 1, 2.4, 0.15], [1, 1, 0, 0]),
        ([0, 0, 0, 0], [2.4, 0.15, 0.15, 0.15], [1, 1, 0, 0]),
    ],
)
def test_the_law_of_the_widest_gap(past, errors, inside, monkeypatch):
    """By draws, with errors of 1 : 16 (counts of 1 : 256), and by a rule of many more nodes."""
    past, errors, inside = np.array([past], float), np.array([errors], float), np.array([inside], bool)
    law = WidestGap.of(past, errors, inside, ~inside)
    drawn = past + errors * np.random.default_rng(1).standard_normal((60_000, past.shape[1]))
    found = law._replace(used=tuple(np.broadcast_to(each, drawn.shape) for each in law.used)).gap(drawn)
    shares = np.array([0.5, 0.2, 0.05, 0.01, 0.001])
    at = np.quantile(found, 1 - shares)
    tails = np.array([law.tail(np.array([x]))[0][0] for x in at])
    assert (np.abs(tails - shares) <= 4.5 * np.sqrt(shares * (1 - shares) / 60_000)).all()
    monkeypatch.setattr(designed_top, "_STEPS", 12.0)
    monkeypatch.setattr(designed_top, "_REACH", 8.0)
    np.testing.assert_allclose(tails, [law.tail(np.array([x]))[0][0] for x in at], rtol=1e-6)


def _plan(counts, looks):
    last = np.asarray(looks == 0)
    left = looks * np.asarray(float(np.sum(counts)))
    return BatchPlan(np.array(counts, float), np.asarray(True), left=left, last=last, looks=np.asarray(looks))


def _right(arms, k, means):
    """Which sets are a top k."""
    sets, means = sets_of(arms, k).inside, np.asarray(means, dtype=float)
    return np.where(sets, means, np.inf).min(axis=1) >= np.where(sets, -np.inf, means).max(axis=1)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("looks", [0.0, 2.0])
@pytest.mark.parametrize("rates", [(0.3, 0.3, 0.3, 0.3), (0.6, 0.3, 0.3, 0.3), (0.5, 0.5, 0.5, 0.1)])
def test_a_look_at_rates_keeps_the_level_of_every_right_set(rates, looks, lower):
    rates = tuple(1 - each for each in rates) if lower else rates
    rule, problem = (
        DesignedRule(lead=0.3, extension_value=0.0),
        Problem(TopK(2, lower_is_better=lower), 4, 0.2, Binary()),
    )
    counts, first = (6, 5, 6, 4), rule.start(problem, ())
    seen = Batch(np.array(counts, float), np.array([3.0, 3.0, 2.0, 0.0]))
    second = rule.fold(problem, first, _plan(counts, 3.0), seen)
    wins = np.array(list(itertools.product(*(range(n + 1) for n in counts))), dtype=float)
    chances = np.prod([binom.pmf(wins[:, i], n, p) for i, (n, p) in enumerate(zip(counts, rates, strict=True))], axis=0)
    batch = Batch(np.broadcast_to(np.array(counts, float), wins.shape), wins)
    right = _right(4, 2, [-each for each in rates] if lower else rates)
    for kept in (first, second):
        many = tree_map(lambda x: np.broadcast_to(x, (len(wins), *np.shape(x))), (kept, _plan(counts, looks)))
        after = rule.fold(problem, *many, batch).wealth
        level, mean = (np.exp(np.minimum(each - problem.goal, 0.0)) for each in (kept.wealth.gains, after.gains))
        assert ((chances @ mean)[right] <= level[right] * (1 + 1e-9)).all()


def _settle(problem, env, policy, runs, split=None, seed=5):
    """The wealth when the budget is used up; `split` changes the counts of each look because of its past."""
    rng = np.random.default_rng(seed)
    trial, state = begin(problem, policy, (runs,)), env.initial_state(rng, runs)
    levels = []
    while trial.plan.pulls.any():
        plan = trial.plan if split is None else trial.plan._replace(pulls=split(trial))
        batch, state = env.pull(rng, state, plan.pulls, problem.noise.needs)
        trial = advance(problem, policy, trial._replace(plan=plan), batch)
        levels.append(np.exp(np.minimum(trial.kept.wealth.gains - problem.goal, 0.0)))
    return trial.kept.wealth, levels


def _starve_the_leader(trial):
    """A seventh of its results to the best-looking arm, in every other run: unequal counts, because of results."""
    pulls, runs = trial.plan.pulls, len(trial.plan.pulls)
    best = np.arange(pulls.shape[1]) == trial.record.means.argmax(axis=-1)[:, None]
    return np.where(best & (np.arange(runs) % 2 == 0)[:, None], np.ceil(pulls / 7), pulls)


@pytest.mark.parametrize("split", [None, _starve_the_leader])
@pytest.mark.parametrize("means", [(0, 0, 0, 0), (0.3, 0, 0, -0.3)])
def test_ties_at_the_cut(means, split):
    problem = Problem(TopK(2), 4, 0.1, Gaussian(1.0))
    wealth, levels = _settle(problem, GaussianArms(means), Designed(budget=800, lead=0.3, looks=3), 1500, split)
    right = _right(4, 2, means)
    assert wealth.rejected[:, right].mean(axis=0).max() <= 0.1 + 4 * np.sqrt(0.09 / 1500)
    for level in levels:
        assert (level.mean(axis=0) <= 0.1 + 4 * level.std(axis=0) / np.sqrt(1500))[right].all()
    assert any(means) or wealth.rejected.mean() >= 0.05  # the bets are placed


@pytest.mark.parametrize("counts", [(4, 200, 50, 8), (200, 4, 8, 4)])
def test_a_look_with_counts_of_1_to_50(counts):
    rng, runs, rule = np.random.default_rng(8), 20_000, DesignedRule(lead=0.5, extension_value=0.0)
    problem, counts = Problem(TopK(2), 4, 0.1, Gaussian(1.0)), np.array(counts, dtype=float)
    plan = tree_map(lambda x: np.broadcast_to(x, (runs, *np.shape(x))), _plan(counts, 0.0))
    batch = Batch(np.broadcast_to(counts, (runs, 4)), np.sqrt(counts) * rng.standard_normal((runs, 4)))
    lost = rule.fold(problem, rule.start(problem, (runs,)), plan, batch).wealth.rejected.mean(axis=0)
    np.testing.assert_allclose(lost, 0.1, atol=4 * np.sqrt(0.09 / runs))  # the last look is a test of its level


@pytest.mark.long
def test_three_of_ten_are_found_within_the_budget():
    """Two groups, a lead apart: the prototype, which partitions its first look, has 0.889 with 0.598 F."""
    lead, fixed = 0.1, 55_640
    policy = Designed(budget=int(0.8 * fixed), lead=lead, extension_value=0.0)
    env = GaussianArms(lead * (np.arange(10) < 3))
    (found,) = simulate(TopK(3), env, [policy], runs=300, noise=Gaussian(1.0), seed=1)
    assert (found.decided & found.correct).mean() >= 0.889 - 3 * 0.018
    assert found.samples.mean() <= 1.05 * 0.62 * fixed
    assert not (found.decided & ~found.correct).any()


@pytest.mark.parametrize("noise", [Binary(), SubGaussian(0.5), Bounded(0.0, 1.0)], ids=lambda each: each.name)
def test_rates_and_the_smallest(noise):
    """A law that is exact, and bets on parts."""
    for question, rates in ((TopK(2), (0.6, 0.6, 0.4, 0.4)), (TopK(2, lower_is_better=True), (0.4, 0.4, 0.6, 0.6))):
        (found,) = simulate(
            question, BernoulliArms(rates), [Designed(budget=1500, lead=0.2)], runs=60, noise=noise, seed=2
        )
        assert (found.decided & found.correct).mean() >= 0.88
        (alone,) = simulate(question, BernoulliArms(rates), [Designed(budget=1500)], runs=40, noise=noise, seed=2)
        assert (alone.decided & alone.correct).mean() >= 0.75


def test_a_designed_study_of_the_top_two(tmp_path):
    storage, rng = f"sqlite:///{tmp_path}/studies.db", np.random.default_rng(3)
    rates = {"a": 0.5, "b": 0.3, "c": 0.6, "d": 0.25}
    study = create_study(
        "top", question=TopK(2), arms=list(rates), noise=Binary(), budget=1000, lead=0.15, storage=storage
    )
    assert study.state.spec.policy.name == "designed"
    report = None
    while (asked := study.ask()) is not None:
        rows = [arm for arm, pulls in asked.table for _ in range(pulls)]
        report = study.tell({"arm": rows, "outcome": [int(rng.random() < rates[arm]) for arm in rows]})
    assert report.answer == ["a", "c"]
    assert report.guarantee.status == "kept"
    assert verify_study("top", storage=storage).sound
    study.close()


def test_too_many_sets():
    with pytest.raises(InputError, match="too many hypotheses for 20 arms"):
        simulate(TopK(5), GaussianArms(np.arange(20.0)), [Designed(budget=1000, lead=1.0)], runs=2)
