"""Arms with features, and arms with known deviations of their own: against scipy, brute force and exact binomials."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Claims,
    Gaussian,
    GaussianArms,
    HeteroscedasticGaussian,
    InputError,
    Largest,
    Linear,
    MinimumBelow,
    Normal,
    Problem,
    RoundRobin,
    Statements,
    TopK,
    TrackAndStop,
    Wager,
    create_study,
    simulate,
)
from roundwise.environments import FamilyArms
from roundwise.model.batch import Batch, stack_parts
from roundwise.model.estimates import Past, estimate_from
from roundwise.model.spec import from_spec
from roundwise.policies import Rage
from roundwise.policies.base import best_weights, complexity_within
from roundwise.rules.eprocess.engine import RuleState
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.solvers.design import solve_design
from roundwise.solvers.halfspaces import BinaryFamily, NormalFamily
from roundwise.thresholds import LogDeterminant

INNER = {
    "best-arm": BestArm(),
    "best-arm within": BestArm(0.3),
    "top-k": TopK(2),
    "top-k within": TopK(2, 0.2),
    "above": Above(0.2),
    "above within": Above(0.2, 0.3),
    "control": Statements.against_control(5, 0, 0.1),
    "largest": Largest([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, -1]]),
}
inner = pytest.mark.parametrize("kind", INNER)


def instances(number, arms=5, size=2, seed=1):
    rng = np.random.default_rng([seed, arms, size])
    for _ in range(number):
        features = rng.normal(size=(arms, size))
        yield features, features @ rng.normal(size=size), rng


def right_answers(question, means):
    answers, there = question.right_answers(means)
    return [answer for answer, is_there in zip(answers, there, strict=True) if is_there]


def by_scipy(features, question, answer, means):
    """1/T of "this answer is right": max t with d_j^2 / (2 c_j'V(w)^-1 c_j) >= t, by SLSQP from several starts."""
    pieces = question.halfspaces(answer, len(means))
    forms = pieces.dense(len(means))
    needs = (forms @ means - pieces.offsets) ** 2 / 2
    rows = forms @ features
    arms = len(means)

    def values(w):
        information = features.T @ (w[:, None] * features)
        return needs / np.einsum("ij,ij->i", rows, np.linalg.solve(information, rows.T).T)

    best, rng = 0.0, np.random.default_rng(1)
    for _ in range(6):
        start = rng.dirichlet(np.ones(arms)) * 0.9 + 0.1 / arms
        scale = values(start).min()
        found = minimize(
            lambda x: -x[-1],
            np.append(start, 1.0),
            constraints=[
                {"type": "ineq", "fun": lambda x: values(np.maximum(x[:-1], 1e-12)) / scale - x[-1]},  # noqa: B023
                {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
            ],
            bounds=[(1e-9, 1)] * arms + [(0, None)],
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        w = np.maximum(found.x[:-1], 1e-12)
        best = max(best, float(values(w / w.sum()).min()))
    return best


class TestComplexity:
    @pytest.mark.long
    @inner
    def test_it_is_optimal_by_scipy(self, kind):
        for features, means, _ in instances(3):
            question = Linear(INNER[kind], features)
            value, weights = question.complexity(means)
            most = max(by_scipy(features, question, answer, means) for answer in right_answers(question, means))
            assert 1 / value == pytest.approx(most, rel=1e-4)
            assert 1 / value >= most * (1 - 1e-7)  # certified: nothing is better
            assert weights.sum() == pytest.approx(1)

    @pytest.mark.long
    @inner
    def test_evidence_at_the_weights_is_one_over_it_and_nowhere_more(self, kind):
        for features, means, rng in instances(6, seed=2):
            question = Linear(INNER[kind], features)
            value, weights = question.complexity(means, sigma=1.7)
            if not np.isfinite(value):
                continue
            assert question.evidence(weights, means, 1.7) * value == pytest.approx(1.0, rel=1e-6)
            others = question.evidence(rng.dirichlet(np.ones(5), 100), means, 1.7)
            assert (others * value <= 1 + 1e-6).all()
            assert question.floor(means, sigma=1.7) <= value * (1 + 1e-9)
            assert np.nanmin(question.complexities(means, 1.7)) == pytest.approx(value, rel=1e-6)
            assert value <= INNER[kind].complexity(means, sigma=1.7).value * (1 + 1e-6)  # the model can only help

    @inner
    def test_unit_vectors_are_arms_without_features(self, kind):
        question = Linear(INNER[kind], np.eye(5))
        for _, means, rng in instances(5, seed=3):
            counts = rng.integers(1, 100, 5).astype(float)
            plain, found = INNER[kind].complexity(means, 0.01, 1.3), question.complexity(means, 0.01, 1.3)
            if np.isfinite(plain.value):
                assert found.value == pytest.approx(plain.value, rel=1e-6)
                np.testing.assert_allclose(found.weights, plain.weights, atol=1e-4)
            assert question.evidence(counts, means, 1.3) == pytest.approx(INNER[kind].evidence(counts, means, 1.3))
            np.testing.assert_array_equal(question.verdict(counts, means), INNER[kind].verdict(counts, means))

    def test_what_the_ball_needs_is_enough_everywhere_in_it(self):
        for features, means, rng in instances(15, seed=4):
            question = Linear(BestArm(), features)
            value, weights = question.complexity(means, 0.02)
            moved = features @ (rng.normal(size=(200, 2)) * 0.02).T
            inside = means + (moved / np.maximum(np.abs(moved).max(axis=0), 0.02) * 0.02).T
            if np.isfinite(value):
                assert question.evidence(value * weights, inside).min() >= 1 - 1e-6

    def test_a_tie_is_infinite_and_features_may_be_dependent(self):
        features = np.array([[1.0, 0, 1], [0, 1, 1], [0.5, 0.5, 1], [-1, 0, -1]])  # of rank 2
        question = Linear(BestArm(), features)
        assert question.complexity(features @ [1.0, 1.0, 0.0]).value == np.inf
        assert np.isfinite(question.complexity(features @ [1.0, 0.5, 0.0]).value)

    def test_runs_are_computed_as_if_alone(self):
        features, _, rng = next(instances(1, arms=6, size=3))
        question = Linear(BestArm(0.1), features)
        means = (features @ rng.normal(size=(3, 12))).T
        counts = rng.integers(1, 50, (12, 6)).astype(float)
        value, weights = question.complexity(means, 0.01)
        noisy = means + rng.normal(size=means.shape)
        for run in range(12):
            alone = question.complexity(means[run], 0.01)
            assert value[run] == pytest.approx(alone.value, rel=1e-12)
            np.testing.assert_allclose(weights[run], alone.weights, rtol=1e-9, atol=1e-12)
            assert question.evidence(counts, noisy)[run] == question.evidence(counts[run], noisy[run])
            np.testing.assert_array_equal(
                question.fit_means(counts, noisy)[run], question.fit_means(counts[run], noisy[run])
            )

    def test_the_best_design_of_a_simplex_is_even(self):
        amount, pulls = solve_design(np.eye(3), np.eye(3)[None], np.ones((1, 3)))
        np.testing.assert_allclose(pulls, 1.0, rtol=1e-6)
        assert amount[0] == pytest.approx(3)


class TestEvidence:
    def test_it_is_the_nearest_wrong_theta_by_scipy(self):
        for features, means, rng in instances(4, seed=5):
            counts = rng.integers(1, 60, 5).astype(float)
            noisy = means + rng.normal(size=5) * 0.1

            def misfit(theta, counts=counts, noisy=noisy, features=features):
                return float((counts * (noisy - features @ theta) ** 2).sum() / 2)

            question = Linear(BestArm(), features)
            fitted = question.fit_means(counts, noisy)
            least = minimize(misfit, np.zeros(2), tol=1e-14)
            np.testing.assert_allclose(features @ least.x, fitted, atol=1e-5)
            best = int(fitted.argmax())
            costs = []
            for j in set(range(5)) - {best}:
                border = {"type": "eq", "fun": lambda theta, j=j: (features[best] - features[j]) @ theta}  # noqa: B023
                found = minimize(misfit, least.x, constraints=[border], method="SLSQP", options={"ftol": 1e-14})
                costs.append(found.fun - least.fun)
            assert question.evidence(counts, noisy) == pytest.approx(min(costs), rel=1e-4, abs=1e-8)

    @pytest.mark.long
    @inner
    def test_a_wrong_answer_has_no_more_than_the_means_have_strayed(self, kind):
        wrong = 0
        for features, truth, rng in instances(150, seed=6):
            question = Linear(INNER[kind], features)
            counts = np.ceil(10 ** rng.uniform(0, 3, 5))
            estimate = truth + rng.normal(size=5) * 10 ** rng.uniform(-1, 0.7)
            if not question.correct(question.verdict(counts, estimate), truth):
                wrong += 1
                strayed = (counts * (question.fit_means(counts, estimate) - truth) ** 2).sum() / 2
                assert question.evidence(counts, estimate) <= strayed * (1 + 1e-7)
        assert wrong > 3

    def test_arms_without_results_are_known_from_others_or_not_at_all(self):
        question = Linear(BestArm(), [[1, 0], [0, 1], [1, 1]])
        assert question.evidence([10, 10, 0], [1.0, 2.0, 0.0]) > 1
        assert question.evidence([10, 0, 0], [1.0, 0.0, 0.0]) < 1e-6


class TestVolume:
    def test_value(self):
        features = np.random.default_rng(1).normal(size=(6, 2))
        problem = Problem(Linear(BestArm(), features), 6, 0.1, HeteroscedasticGaussian((1, 2, 3, 1, 2, 3)))
        counts = np.array([3.0, 10, 7, 1, 20, 5])
        one, all_ = (
            sum(n * np.outer(x, x) / s**2 for n, x, s in zip(each, features, (1, 2, 3, 1, 2, 3), strict=True))
            for each in (np.ones(6), counts)
        )
        expected = 1.1 * (np.log(10) + np.log(np.linalg.det(np.eye(2) + np.linalg.solve(0.1 * one, all_))) / 2)
        assert LogDeterminant().value(problem, counts) == pytest.approx(expected)
        assert LogDeterminant().value(problem, counts) <= LogDeterminant().at(problem, counts.sum())
        assert LogDeterminant().value(problem, np.zeros(6)) == pytest.approx(
            LogDeterminant().value(problem, np.ones(6))
        )
        assert (
            LogDeterminant().value(problem, np.array([5.0, 0, 0, 0, 0, 0])) > 1e6
        )  # nothing is known of one direction
        plain = Problem(BestArm(), 6, 0.1)
        assert LogDeterminant().value(plain, counts) == pytest.approx(
            1.1 * (np.log(10) + np.log1p(counts / 0.1).sum() / 2)
        )
        assert LogDeterminant().value(plain, counts) <= LogDeterminant().at(plain, counts.sum())

    def test_what_strays_is_seldom_more(self):
        """500 runs of adaptive sampling to 400 results at delta .2: a bound that fails has probability below 1e-6."""
        rng = np.random.default_rng(2)
        features = rng.normal(size=(5, 2))
        question = Linear(BestArm(), features)
        problem, runs = Problem(question, 5, 0.2), 500
        counts, totals, failed = np.ones((runs, 5)), rng.normal(size=(runs, 5)), np.zeros(runs, dtype=bool)
        for _ in range(80):
            pulls = 5.0 * (np.arange(5) == (totals / counts).argmax(axis=1)[:, None])  # the best so far
            counts, totals = counts + pulls, totals + np.sqrt(pulls) * rng.normal(size=(runs, 5))
            fitted = question.fit_means(counts, totals / counts)
            failed |= (counts * fitted**2).sum(axis=1) / 2 > LogDeterminant().value(problem, counts)
        assert failed.sum() <= binom.isf(1e-6, runs, 0.2)


# --- the rules -------------------------------------------------------------------------------------------------

FEATURES = np.array([[1, 1, 0], [1, 0, 1], [1, -1, 0.5], [1, 0.5, -1], [1, 0, 0]])
WORLDS = {
    "best-arm": (BestArm(), FEATURES @ [0.0, 0.5, 0.2]),
    "best-arm within, just wrong": (BestArm(0.2), FEATURES @ [0.0, 0.5, 0.3 - 1e-6]),
    "above": (Above(0.0), FEATURES @ [0.1, 0.3, -0.3]),
    "above within": (Above(0.0, 0.3), FEATURES @ [0.0, 0.3 + 1e-6, -0.3 - 1e-6]),
    "top-k": (TopK(2), FEATURES @ [0.0, 0.6, 0.3]),
}
RULES = [
    Wager(first_pulls=10),
    PET(stopping=GLR(LogDeterminant())),
    RoundRobin(first_time=100, stopping=GLR(LogDeterminant())),
    TrackAndStop(first_time=100, stopping=GLR(LogDeterminant())),
    Rage(first_pulls=30),
]


@pytest.mark.long
@pytest.mark.parametrize("policy", RULES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "noise", [Gaussian(1.0), HeteroscedasticGaussian((2.0, 1.0, 0.5, 1.0, 0.3))], ids=lambda n: n.name
)
def test_errors_stay_below_delta(world, policy, noise):
    """A rule at delta fails with probability below 1e-6 (exact binomial)."""
    asked, means = WORLDS[world]
    question = Linear(asked, FEATURES)
    environment = GaussianArms(means) if noise.name == "gaussian" else FamilyArms(means, noise)
    try:
        policy.check(Problem(question, 5, 0.1, noise))
    except InputError:
        assert (policy.name, asked.name) == ("rage", "top-k")
        return
    (runs,) = simulate(question, environment, [policy], runs=120, delta=0.1, max_batches=60)
    assert runs.decided.all()
    assert (~runs.correct).sum() <= binom.isf(1e-6, 120, 0.1)
    assert (runs.lower_bound <= runs.samples.mean()).all()


def test_features_save_samples():
    """30 arms of two features: with them far fewer, for every rule."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(30, 2))
    means = features @ [1.0, 0.5]
    for policy in (Wager(first_pulls=5), RoundRobin(first_time=100, stopping=GLR(LogDeterminant()))):
        with_features, without = (
            simulate(question, GaussianArms(means), [policy], runs=50)[0].samples.mean()
            for question in (Linear(BestArm(), features), BestArm())
        )
        assert with_features < 0.8 * without


class TestBets:
    def test_a_bet_is_fair_at_the_border(self):
        """E e <= 1 where c.theta = b: 40 000 batches, three standard errors."""
        rng = np.random.default_rng(4)
        runs, theta = 40_000, np.array([0.0, 0.5, 0.5])  # arms 0 and 1 tie
        problem = Problem(Linear(BestArm(), FEATURES), 5, 0.1)
        ledger, means = eprocess_for(problem), FEATURES @ theta
        seen = np.tile([20.0, 10.0, 10.0, 10.0, 10.0], (runs, 1))
        one = Batch(seen, seen * (means + np.array([0.5, -0.5, 0, 0, 0])))  # the past says arm 0
        known = estimate_from(Past.none((runs, 5)).plus(one), np.ones(runs), False)
        won = ledger.start(problem, (runs,))
        choice = ledger.choose(problem, won, known)
        assert (choice.answer == 0).all()
        counts = np.tile([3.0, 2.0, 0.0, 4.0, 1.0], (runs, 1))
        totals = counts * means + np.sqrt(counts) * rng.normal(size=(runs, 5))
        before = ledger.of_candidate(problem, won, choice)[0]
        parts = stack_parts((Batch(counts, totals),))
        after = ledger.update(problem, RuleState(won, known, choice), parts, False)
        found = np.exp(after.gains[:, 0, 0] - before[:, 0])
        assert found.mean() <= 1 + 3 * found.std() / np.sqrt(runs)
        assert found.std() > 0.05  # something was bet

    def test_the_form_that_is_bet_on_has_the_mean_of_the_half_space_and_the_least_variance(self):
        """u = N X V^-1 c: compared with weighted least squares by numpy."""
        rng = np.random.default_rng(5)
        counts = rng.integers(1, 9, 5).astype(float)
        design = FEATURES * np.sqrt(counts)[:, None]
        c = FEATURES[0] - FEATURES[3]
        u = counts * (FEATURES @ np.linalg.solve(design.T @ design, c))
        np.testing.assert_allclose(FEATURES.T @ u, c, atol=1e-12)
        for _ in range(50):  # any other unbiased form varies more
            null = np.linalg.svd(FEATURES.T)[2][3:].T @ rng.normal(size=2)
            assert ((u + null) ** 2 / counts).sum() >= (u**2 / counts).sum() - 1e-12


# --- deviations of their own -------------------------------------------------------------------------------------

SIGMAS = np.array([2.0, 0.5, 1.0, 0.2, 1.5])
PLAIN = INNER | {"minimum-below": MinimumBelow(0.1), "any-above": AnyAbove(0.3, 0.1)}


@pytest.mark.parametrize("kind", PLAIN)
class TestDeviations:
    def test_the_complexity_is_that_of_the_family(self, kind):
        """Solved as a quadratic programme here, by Bregman projections there."""
        for _, means, rng in instances(4, seed=7):
            value, weights = PLAIN[kind].complexity_with_sigmas(means, 0.0, SIGMAS)
            other = PLAIN[kind].family_complexity(means, NormalFamily(SIGMAS))
            if np.isfinite(value) or np.isfinite(other.value):
                assert value == pytest.approx(float(other.value), rel=1e-6)
                problem = Problem(PLAIN[kind], 5, 0.1, HeteroscedasticGaussian(tuple(SIGMAS)))
                assert problem.evidence(weights, means) * value == pytest.approx(1.0, rel=1e-5)
                others = problem.evidence(rng.dirichlet(np.ones(5), 50), np.tile(means, (50, 1)))
                assert (others * value <= 1 + 1e-5).all()
                assert problem.floor(means) <= value * (1 + 1e-9)

    def test_equal_ones_are_one_sigma(self, kind):
        for _, means, rng in instances(4, seed=8):
            plain, same = (
                Problem(PLAIN[kind], 5, 0.1, each) for each in (Gaussian(1.5), HeteroscedasticGaussian((1.5,) * 5))
            )
            counts = rng.integers(1, 50, 5).astype(float)
            assert same.evidence(counts, means) == pytest.approx(float(plain.evidence(counts, means)))
            values = [each.complexity(means, 0.02).value for each in (same, plain)]
            np.testing.assert_allclose(*values, rtol=1e-6)

    def test_what_the_ball_needs_is_enough_everywhere_in_it(self, kind):
        problem = Problem(PLAIN[kind], 5, 0.1, HeteroscedasticGaussian(tuple(SIGMAS)))
        for _, means, rng in instances(6, seed=9):
            value, weights = problem.complexity(means, 0.03)
            if np.isfinite(value):
                corners = np.array(list(itertools.product([-1, 1], repeat=5)))
                points = means + 0.03 * SIGMAS / 2.0 * np.concatenate([corners, rng.uniform(-1, 1, (30, 5))])
                assert problem.evidence(value * weights, points).min() >= 1 - 1e-6

    @pytest.mark.long
    @pytest.mark.parametrize("policy", [RULES[0], RoundRobin(first_time=100), TrackAndStop(first_time=100)])
    def test_errors_stay_below_delta(self, kind, policy):
        world = FamilyArms([0.5, 0.0, 0.45, -0.2, 0.1], HeteroscedasticGaussian(tuple(SIGMAS)))
        (runs,) = simulate(PLAIN[kind], world, [policy], runs=100, delta=0.2, max_batches=40)
        assert (runs.decided & ~runs.correct).sum() <= binom.isf(1e-6, 100, 0.2)
        assert runs.summary.lower_bound > 0 or kind == "above within"


def test_bets_with_equal_deviations_are_those_of_one_sigma():
    """The same data, the same money: batches as a whole and in parts."""
    world = GaussianArms([0.5, 0.3, 0.0], 2.0)
    for question in (BestArm(), Above(0.2), TopK(1, 0.1), AnyAbove(0.2), Statements.against_control(3)):
        one, each = (
            simulate(question, world, [Wager()], runs=20, delta=0.1, noise=noise, seed=5)[0]
            for noise in (Gaussian(2.0), HeteroscedasticGaussian((2.0,) * 3))
        )
        np.testing.assert_allclose(one.samples, each.samples, rtol=0.02)
        assert (one.answer == each.answer).all()


# --- weights with divergences of their own --------------------------------------------------------------------------


def test_pet_and_track_and_stop_may_use_the_divergences_of_the_rewards():
    problem, means = Problem(BestArm(), 3, 0.1, Binary()), np.array([[0.3, 0.05, 0.04]])
    own = BestArm().family_complexity(means, BinaryFamily()).weights
    np.testing.assert_allclose(best_weights(problem, means, True), own)
    assert np.abs(best_weights(problem, means, False) - own).max() > 0.01
    radius = np.array([0.01])
    found = complexity_within(problem, means, radius, np.array([1e9]), kl_weights=True)
    np.testing.assert_allclose(found.weights, own)
    corners = means + 0.01 * np.array(list(itertools.product([-1, 1], repeat=3)))
    assert problem.evidence(found.value[:, None] * found.weights, corners).min() == pytest.approx(1.0, rel=1e-6)
    from roundwise import BernoulliArms

    for policy in (PET(kl_weights=True, exploration=0.5), TrackAndStop(kl_weights=True, first_time=60)):
        (runs,) = simulate(BestArm(), BernoulliArms([0.9, 0.4, 0.3]), [policy], runs=60, delta=0.1)
        assert runs.decided.all()
        assert runs.correct.mean() > 0.9


# --- what is refused, the command line, studies --------------------------------------------------------------------


def test_what_is_not_meant_is_refused():
    wrong = {"one row": [1, 2], "not all 0": [[0, 0], [0, 0]], "finite": [[1], [np.nan]], "row of": [[1, 2], [3]]}
    for words, bad in wrong.items():
        with pytest.raises(InputError, match=words):
            Linear(BestArm(), bad)
    for question in (MinimumBelow(0.1), AnyAbove(0.1), Claims.against_control(3, 0), Linear(BestArm(), np.eye(3))):
        with pytest.raises(InputError, match="features"):
            Linear(question, np.eye(3))
    question = Linear(BestArm(), np.eye(3)[:, :2] + 1)
    with pytest.raises(InputError, match="linear"):
        Problem(question, 3, noise=Binary())
    with pytest.raises(InputError, match="give one row each"):
        Problem(question, 4)
    with pytest.raises(InputError, match="features"):
        simulate(question, GaussianArms([1.0, 0.0, 0.0]), [RoundRobin()], runs=2)
    with pytest.raises(InputError):
        Wager().check(Problem(question, 3, noise=Normal()))
    with pytest.raises(InputError, match="give one each"):
        Problem(BestArm(), 3, noise=HeteroscedasticGaussian((1.0, 2.0)))
    with pytest.raises(InputError, match="at least two arms"):
        HeteroscedasticGaussian((1.0,))
    with pytest.raises(InputError, match="question"):
        from_spec("question", {"name": "linear", "question": "best-arm", "features": [[1.0], [2.0]]})
    with pytest.raises(InputError, match="`sigma` is -1"):
        HeteroscedasticGaussian((1.0, -1.0))


@pytest.fixture
def printed(roundwise):
    def call(*words):
        code, out, err = roundwise(*words, "--json")
        return json.loads(out) if code == 0 else err

    return call


@pytest.mark.long
def test_the_command_line(printed, tmp_path):
    table = tmp_path / "features.csv"
    table.write_text("arm,x,y\nb,0,1\na,1,0\nc,0.5,0.2\n")
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n1,0\n0,1\n0.5,0.2\n")
    asked = ("-q", "best-arm", "--means", "1,0.5,0.6", "--features", rows)
    assert printed("complexity", *asked)["complexity"] < 200
    (found,) = printed("simulate", *asked, "--runs", 20, "--policy", "rage")
    assert found["error"] == 0
    uneven_ones = ("-q", "best-arm", "--means", "1,0.5,0.6", "--sigmas", "1,2,0.5")
    one = printed("complexity", *uneven_ones)
    assert one["complexity"] == pytest.approx(
        float(BestArm().family_complexity([1, 0.5, 0.6], NormalFamily([1, 2, 0.5])).value)
    )
    assert printed("complexity", *uneven_ones, "--radius", 0.01)["complexity"] > one["complexity"]
    (found,) = printed("simulate", *uneven_ones, "--runs", 20)
    assert found["sample_lower_bound"] == pytest.approx(one["sample_lower_bound"], rel=1e-6)
    plan = ("--arms", "a,b,c", "--runs", 20, "--means", "1,0.5,0.6")
    assert printed("plan", "-q", "best-arm", "--sigmas", "1,2,0.5", *plan)["rows"][0]["error"] == 0
    assert printed("plan", "-q", "best-arm", "--sigma", 1, "--features", table, *plan)["rows"][0]["error"] == 0
    assert "not linear" in printed("complexity", *asked[:3], "1,0.5,0.7", *asked[4:])
    assert "no row for the arm" in printed("plan", "-q", "best-arm", "--sigma", 1, "--features", table,
                                           "--arms", "a,b,d", "--means", "1,0.5,0.6")  # fmt: skip


@pytest.mark.parametrize(
    "noise", [Gaussian(1.0), HeteroscedasticGaussian((1.0, 0.5, 2.0))], ids=lambda noise: noise.name
)
def test_a_study_with_features(tmp_path, noise):
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.2]])
    storage = f"sqlite:///{tmp_path}/s.db"
    words = {"question": Linear(BestArm(), features), "arms": ["a", "b", "c"], "noise": noise, "storage": storage}
    study = create_study("s", **words, policy=Wager(first_pulls=20), seed=1)
    rng, sigmas = np.random.default_rng(1), np.array(getattr(noise, "sigmas", (1.0, 1.0, 1.0)))
    while (asked := study.ask()) is not None:
        counts = asked.outstanding
        totals = counts * (features @ [1.0, 0.4]) + np.sqrt(counts) * sigmas * rng.normal(size=3)
        report = study.tell({"arm": ["a", "b", "c"], "count": counts.astype(int).tolist(), "total": totals.tolist()})
    assert "a is the best arm" in str(report)
    assert create_study("s", **words, policy=Wager(first_pulls=20), seed=1, load_if_exists=True).report() is not None
