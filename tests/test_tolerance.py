"""Best arm with a tolerance, where several answers may be right: evidence, verdict, complexities, balls and bounds."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from roundwise import PET, BestArm, GaussianArms, Problem, RoundRobin, TrackAndStop, simulate
from roundwise.cli import bounds as _complexity_command  # noqa: F401 - registers the command
from roundwise.environments import RandomGaps
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Record, Trial
from roundwise.rules import GLR
from roundwise.theory.bounds import (
    centre,
    instances,
    lower_bound_at,
    overview,
    promise,
    sample_lower_bound,
    scaling_error,
    sequence_probability,
    settled_phase,
    shared_lower_bound,
    stated_upper_bounds,
    upper_bounds,
    worst_case,
)
from roundwise.theory.figures.bounds import scaled
from strategies import assert_optimal


def evidence_for(i, counts, means, tolerance):
    """Evidence that arm i is right, sigma 1, by projection on each half-space "j exceeds i by the tolerance"."""
    costs = []
    for j in range(len(means)):
        if j != i:
            n, m = counts[i], counts[j]
            middle = (n * means[i] + m * (means[j] - tolerance)) / (n + m)  # where both are moved to, at the border
            moved = n * (means[i] - middle) ** 2 + m * (means[j] - tolerance - middle) ** 2
            costs.append(moved / 2 if means[i] + tolerance > means[j] else 0.0)
    return min(costs)


def cases(number, max_arms=12, seed=1):
    """Tolerances, means and counts of all sizes."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        arms = int(rng.integers(2, max_arms + 1))
        tolerance = float(10 ** rng.uniform(-1.5, 0.5))
        means = rng.normal(size=arms) * tolerance * 10 ** rng.uniform(-1, 0.5)
        yield tolerance, means, np.ceil(10 ** rng.uniform(0, 4, arms)), rng


class TestEvidence:
    def test_it_is_the_largest_over_the_answers_and_the_verdict_is_whose_it_is(self):
        others = 0
        for tolerance, means, counts, _ in cases(300):
            question = BestArm(tolerance)
            each = [evidence_for(i, counts, means, tolerance) for i in range(len(means))]
            assert question.evidence(counts, means) == pytest.approx(max(each), rel=1e-9)
            assert question.verdict(counts, means) == np.argmax(each)
            others += int(question.verdict(counts, means) != means.argmax())
        assert others > 20  # often it is not the arm with the largest mean

    def test_runs_are_computed_as_if_alone(self):
        rng = np.random.default_rng(2)
        question = BestArm(0.3)
        for arms in (2, 5, 60):
            means = rng.normal(size=(4, 25, arms)) * 0.2
            counts = rng.integers(0, 100, (4, 25, arms)).astype(float)
            found, who = question.evidence(counts, means, 1.3), question.verdict(counts, means)
            for run in np.ndindex(4, 25):
                assert found[run] == question.evidence(counts[run], means[run], 1.3)
                assert who[run] == question.verdict(counts[run], means[run])
            np.testing.assert_array_equal(
                question.evidence(counts[0, 0], means), [[question.evidence(counts[0, 0], m) for m in r] for r in means]
            )

    def test_a_wrong_answer_has_no_more_evidence_than_the_means_have_strayed(self):
        """The step of the proof: if i is wrong, evidence_i <= sum N (estimate - truth)^2 / 2, and so for a verdict."""
        wrong = 0
        for tolerance, truth, counts, rng in cases(2000, seed=3):
            estimate = truth + rng.normal(size=len(truth)) * tolerance * 10 ** rng.uniform(-1, 1)
            question = BestArm(tolerance)
            if not question.correct(question.verdict(counts, estimate), truth):
                wrong += 1
                strayed = (counts * (estimate - truth) ** 2).sum() / 2
                assert question.evidence(counts, estimate) <= strayed * (1 + 1e-9)
        assert wrong > 100  # so many cases there were

    def test_at_the_best_weights_it_is_one_over_the_complexity_and_nowhere_more(self):
        for tolerance, means, _, rng in cases(100, seed=4):
            question = BestArm(tolerance)
            value, weights = question.complexity(means, sigma=1.7)
            assert question.evidence(weights, means, 1.7) * value == pytest.approx(1.0, rel=1e-9)
            near = weights * np.exp(rng.normal(size=(40, len(means))) * 0.1)
            others = np.concatenate([rng.dirichlet(np.ones(len(means)), 40), near / near.sum(axis=1, keepdims=True)])
            assert (question.evidence(others, means, 1.7) * value <= 1 + 1e-9).all()
            assert question.floor(means, sigma=1.7) <= value * (1 + 1e-12)
            assert question.complexities(means, 1.7)[means.argmax()] == pytest.approx(value, rel=1e-12)
            assert np.nanmin(question.complexities(means, 1.7)) == pytest.approx(value, rel=1e-12)

    def test_without_a_tolerance_nothing_changes(self):
        question, means = BestArm(), np.array([[0.3, 1.0, 0.2], [1.0, 1.0, 0.0]])
        np.testing.assert_array_equal(question.verdict(np.ones((2, 3)), means), [1, 0])
        np.testing.assert_array_equal(question.right_mask(means), [[False, True, False], [True, False, False]])
        found = question.complexities(means)
        assert found[0, 1] == question.complexity(means[0]).value
        assert found[1, 0] == np.inf
        assert np.isnan(found).sum() == 4


def test_the_rule_gives_the_answer_that_its_evidence_is_for():
    """Arm 1 leads, arm 0 has the evidence: 1000 pulls of it, 10 of the others."""
    problem = Problem(BestArm(1.0), 3)
    counts, means = np.array([[1000.0, 10.0, 10.0]]), np.array([[0.9, 1.0, 1.0]])
    record = Record(counts, counts * means, np.ones(1))
    plan = BatchPlan(np.ones((1, 3)), np.ones(1, dtype=bool))
    trial = Trial(record, Batch(counts, counts * means), plan, None, np.zeros(1, dtype=bool))
    assert GLR().answer(problem, trial).tolist() == [0]
    assert problem.question.answer(means).tolist() == [1]


WORLDS = {
    "just wrong": (0.2, [0.21, 0.0]),
    "one right, one at the edge of it": (0.2, [0.21, 0.0, 0.205, 0.0]),
    "many just wrong": (0.2, [0.21] + [0.0] * 9),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "policy", [RoundRobin(first_time=20, growth=1.3), TrackAndStop(first_time=20, growth=1.3), PET()]
)
def test_errors_stay_below_delta(world, policy):
    """A rule at delta fails with probability below 1e-6 (exact binomial)."""
    tolerance, means = WORLDS[world]
    (runs,) = simulate(BestArm(tolerance), GaussianArms(means), [policy], runs=500, delta=0.1)
    assert runs.decided.all()
    assert (~runs.correct).sum() <= binom.isf(1e-6, 500, 0.1)
    right = np.flatnonzero(BestArm(tolerance).right_mask(means))
    assert set(runs.answer[runs.correct]) <= set(right.tolist())


# --- the ball ------------------------------------------------------------------------------------------------


def points_of_the_ball(means, radius, rng, number=400):
    """Centre, random points, random corners, and the corners where one arm is against all others."""
    arms = len(means)
    one = 2 * np.eye(arms) - 1
    directions = [
        np.zeros((1, arms)),
        rng.uniform(-1, 1, (number, arms)),
        rng.choice([-1.0, 1.0], (number, arms)),
        one,
        -one,
    ]
    return means + radius * np.concatenate(directions)


@pytest.mark.parametrize("arms", [2, 3, 10, 50])
def test_what_the_ball_needs_is_enough_everywhere_in_it(arms):
    """With its weights so many samples give evidence of 1 at every point of the ball, as PET's second batch needs."""
    rng = np.random.default_rng(arms)
    for _ in range(40):
        tolerance = float(10 ** rng.uniform(-1, 0.5))
        means = rng.normal(size=arms) * tolerance * rng.choice([0.0, 0.05, 0.3, 1.0])
        question = BestArm(tolerance)
        radius = float(rng.uniform(0, 0.45)) * tolerance
        value, weights = question.complexity(means, radius)
        if np.isinf(value):
            continue
        reached = question.evidence(value * weights, points_of_the_ball(means, radius, rng))
        assert reached.min() >= 1 - 1e-9
        assert question.floor(means, radius) <= value * (1 + 1e-12)


def test_the_ball_of_fifty_equal_arms():
    """130.6 samples are claimed; on the evidence of the arm that leads, as it was before, 224 are needed."""
    question = BestArm(1.0)
    value, weights = question.complexity(np.zeros(50), 0.005)
    assert value == pytest.approx(128 / 0.99**2, rel=1e-9)
    points = points_of_the_ball(np.zeros(50), 0.005, np.random.default_rng(1))
    assert question.evidence(value * weights, points).min() >= 1 - 1e-9
    leading = [evidence_for(int(p.argmax()), weights, p, 1.0) for p in points]
    assert 1 / min(leading) == pytest.approx(224, abs=1)


def test_no_other_answer_needs_less_all_over_the_ball():
    """With i fixed all gaps of i shrink by twice the radius; the arm with the largest mean has the largest gaps."""
    for tolerance, means, _, rng in cases(50, max_arms=6, seed=5):
        radius = float(rng.uniform(0, 0.4)) * tolerance
        needs = []
        for i in range(len(means)):
            corner = means + radius * np.where(np.arange(len(means)) == i, -1, 1)
            needs.append(BestArm(tolerance).complexities(corner)[i])  # nan where i is wrong there
        value = float(BestArm(tolerance).complexity(means, radius).value)
        assert value == pytest.approx(np.nanmin(needs), rel=1e-9) if not np.isnan(needs).all() else np.isinf(value)


# --- the lower bound on samples ------------------------------------------------------------------------------


def test_the_complexity_of_each_right_answer_against_a_convex_solver():
    for tolerance, means, _, _ in cases(25, max_arms=6, seed=6):
        found = BestArm(tolerance).complexities(means)
        one = np.eye(len(means))
        for i, value in enumerate(found):
            others = [j for j in range(len(means)) if j != i]
            if means[i] < means.max() - tolerance:
                assert np.isnan(value)
            else:
                assert_optimal(value, one[others] - one[i], means[i] - means[others] + tolerance)


def divergence(p, delta):
    return sum(a * math.log(a / b) for a, b in ((p, delta), (1 - p, 1 - delta)) if a > 0)


def bound_by_roots(complexities, delta):
    """The definition, with a root-finder for each p and one for x."""

    def share(limit):
        if limit >= math.log(1 / delta):
            return 1.0
        return brentq(lambda p: divergence(p, delta) - limit, delta, 1.0, xtol=1e-15) if limit > 0 else delta

    def lacking(x):
        return sum(share(x / each) for each in complexities) - (1 - delta)

    if lacking(0.0) >= 0:
        return 0.0
    return brentq(lacking, 0.0, min(complexities) * divergence(1 - delta, delta) * (1 + 1e-9), xtol=1e-12, rtol=1e-13)


class TestLowerBound:
    @pytest.mark.parametrize(
        ("means", "tolerance", "expected"),
        [([0.01, 0.0], 0.1, 605), ([0.0] * 5, 0.1, 224), ([1.0, 0.95, 0.9, 0.5], 0.2, 121)],
    )
    def test_values(self, means, tolerance, expected):
        """Worked out beforehand, for sigma 1 and delta .05."""
        question = BestArm(tolerance)
        found = float(lower_bound_at(question, means, 0.05))
        assert round(found) == expected
        needs = question.complexities(means)
        assert found == pytest.approx(bound_by_roots(needs[~np.isnan(needs)], 0.05), rel=1e-9)
        assert lower_bound_at(question, means, 0.05, sigma=3.0) == pytest.approx(9 * found, rel=1e-9)
        assert found < sample_lower_bound(question.complexity(means).value, 0.05)

    def test_against_root_finders(self):
        rng = np.random.default_rng(7)
        for k in range(200):
            delta = float(10 ** rng.uniform(-12, -0.31))
            needs = 10 ** rng.uniform(-3, 6, rng.integers(1, 8))
            needs = np.append(needs, np.inf) if k % 3 == 0 else needs  # right, on the edge of it
            found = float(shared_lower_bound(np.append(needs, np.nan), delta))
            assert found == pytest.approx(bound_by_roots(needs, delta), rel=1e-9)

    def test_one_right_answer_is_the_old_bound(self):
        for delta in (0.3, 0.05, 1e-8):
            assert shared_lower_bound([7.0, np.nan], delta) == pytest.approx(sample_lower_bound(7.0, delta), rel=1e-12)
            means = [0.5, 0.2, 0.0]
            found = lower_bound_at(BestArm(0.1), means, delta)
            assert found == pytest.approx(sample_lower_bound(BestArm(0.1).complexity(means).value, delta), rel=1e-12)
        assert lower_bound_at(BestArm(), [1.0, 1.0], 0.05) == np.inf

    def test_where_guessing_among_the_right_ones_will_do_it_says_nothing(self):
        assert lower_bound_at(BestArm(0.1), np.zeros(20), 0.05) == 0
        assert shared_lower_bound([5.0], 0.6) == 0
        assert shared_lower_bound([np.inf, np.inf], 0.4) == 0
        assert shared_lower_bound([np.inf, np.inf], 0.05) == np.inf

    def test_runs_are_computed_as_if_alone(self):
        rng = np.random.default_rng(8)
        means = rng.normal(size=(3, 40, 4)) * 0.1
        found = lower_bound_at(BestArm(0.1), means, 0.05)
        alone = [[lower_bound_at(BestArm(0.1), row, 0.05) for row in block] for block in means]
        np.testing.assert_allclose(found, alone, rtol=1e-11)
        same = lower_bound_at(BestArm(0.1), np.zeros((2, 3, 5)), 0.05)
        assert same.shape == (2, 3)
        np.testing.assert_allclose(same, 224.1247, rtol=1e-6)

    @pytest.mark.parametrize("delta", [0.2, 0.05, 0.01, 1e-6])
    @pytest.mark.parametrize("gap", [0.0, 0.01, 0.05, 0.099])
    def test_a_correct_design_in_one_batch_is_not_forbidden(self, delta, gap):
        """n pulls of two arms and the larger mean is wrong with probability delta at most, at gaps above .1."""
        pulls = math.ceil(2 * (norm.isf(delta) / 0.1) ** 2)
        assert norm.cdf(-0.1 * math.sqrt(pulls / 2)) <= delta
        assert delta != 0.05 or pulls == 542
        assert lower_bound_at(BestArm(0.1), [gap, 0.0], delta) <= 2 * pulls

    def test_runs_carry_it(self):
        question = BestArm(0.1)
        (runs,) = simulate(question, GaussianArms([0.01, 0.0]), [PET()], runs=20)
        np.testing.assert_allclose(runs.lower_bound, 604.899, rtol=1e-5)
        np.testing.assert_array_equal(runs.columns()["lower_bound"], runs.lower_bound)
        assert runs.summary.lower_bound == pytest.approx(604.899, rel=1e-5)
        np.testing.assert_allclose(runs.complexity, 8 / 0.11**2)
        (runs,) = simulate(question, GaussianArms(RandomGaps()), [RoundRobin()], runs=30)
        assert len(set(runs.lower_bound)) == 30


# --- bounds on batches ---------------------------------------------------------------------------------------


def test_with_one_right_answer_the_centre_is_a_point():
    question, means = BestArm(0.1), [0.5, 0.2, 0.0]
    found = centre(question, means)
    assert found is not None
    assert (found.values[1:] - found.values[0]).tolist() == pytest.approx([0.1, 0.1])
    assert found.spread == pytest.approx(0.3)  # arm 0 at .5 and the others, less .1, down to -.1: half of .6
    assert scaling_error(question, means, found) < 1e-9
    assert centre(question, means, constant=True) is None
    chain = instances(means, found, 0.25, 4)
    assert (question.right_mask(chain).sum(axis=1) == 1).all()
    hard = question.complexity(chain).value
    np.testing.assert_allclose(hard[1:] / hard[:-1], 4.0, rtol=1e-9)
    nearest = [abs(np.asarray(means) - y).max() for y in (found.values + s for s in (-0.01, 0.01))]
    assert min(nearest) > found.spread


def test_with_several_right_answers_there_is_none():
    question, means = BestArm(0.1), [0.5, 0.45, 0.0]
    problem = Problem(question, 3)
    assert centre(question, means) is None
    assert promise(problem, means, 1.0, 30.0) is None
    found = overview(problem, means)
    assert found.promise is None
    assert found.certificate is None
    assert found.expected_batches == 1.0
    assert "several answers are right" in (found.vacuous or "")
    assert found.stated_upper is None
    assert found.sample_lower == lower_bound_at(question, means, 0.05)
    json.dumps(found.plain())


def test_what_is_not_proved_with_a_tolerance_is_refused():
    question = BestArm(0.1)
    with pytest.raises(InputError, match="Instance"):
        sequence_probability(question, [[1.0, 0.0], [0.05, 0.0]], 1.0, 0.1, 0.05)
    assert sequence_probability(question, [[1.0, 0.0], [0.5, 0.0]], 0.01, 0.1, 0.05) > 0
    problem = Problem(question, 2)
    with pytest.raises(InputError, match="can be made easier only: ask for complexities of at most"):
        scaled(problem, [0.5, 0.0], [1e6])
    np.testing.assert_allclose(question.complexity(scaled(problem, [0.5, 0.0], [1.0, 9.0])).value, [1.0, 9.0])
    assert stated_upper_bounds(PET(), problem, 100.0) is None
    assert stated_upper_bounds(PET(), Problem(BestArm(), 2), 100.0) is not None


@pytest.mark.parametrize(("tolerance", "means"), [(0.1, [0.01, 0.0]), (0.3, [0.0] * 5), (0.2, [0.5, 0.45, 0.1])])
def test_pet_pays_no_more_than_it_is_promised_to(tolerance, means):
    question = BestArm(tolerance)
    problem = Problem(question, len(means))
    policy = PET(exploration=8.0)
    (runs,) = simulate(question, GaussianArms(means), [policy], runs=200)
    found = upper_bounds(policy, problem, means)
    assert runs.batches.mean() <= found.batches
    assert lower_bound_at(question, means, 0.05) <= runs.samples.mean() <= found.samples
    r = settled_phase(policy, problem, means)
    radius = 2 * float(policy.radius(problem, float(r)))
    worst = float(question.complexity(means, radius).value)
    assert worst <= policy.guess * policy.growth**r
    assert worst <= worst_case(float(question.complexity(means).value), radius) * (1 + 1e-9)


# --- the command line ----------------------------------------------------------------------------------------


NEAR = ("-q", "best-arm", "--means", "0.01,0", "--tolerance", "0.1")


def test_complexity_on_the_command_line(roundwise):
    code, out, _ = roundwise("complexity", *NEAR)
    assert code == 0
    assert "needs fewer samples on average than 605." in out
    assert "of the bound" not in out  # which no allocation attains
    plain = json.loads(roundwise("complexity", *NEAR, "--json")[1])
    assert plain["sample_lower_bound"] == pytest.approx(604.899, rel=1e-5)
    assert plain["tolerance"] == 0.1
    ball = json.loads(roundwise("complexity", *NEAR, "--radius", "0.01", "--json")[1])
    assert ball["sample_lower_bound"] == plain["sample_lower_bound"]  # at these means: no bound for the ball
    assert ball["complexity"] > plain["complexity"]
    assert "on average at these means than 605." in roundwise("complexity", *NEAR, "--radius", "0.01")[1]


def test_bounds_on_the_command_line(roundwise, tmp_path):
    plain = json.loads(roundwise("bounds", *NEAR, "--json")[1])
    assert plain["samples"]["lower"] == pytest.approx(604.899, rel=1e-5)
    assert (plain["promise"], plain["samples"]["upper_as_stated"]) == (None, None)
    assert "several answers are right here" in plain["batches"]["vacuous"]
    _, out, _ = roundwise("bounds", *NEAR)
    assert "Theorem 3.11 as stated does not apply: it is for questions with one right answer." in out
    far = ("-q", "best-arm", "--means", "0.2,0", "--tolerance", "0.1", "--plot", str(tmp_path / "x.svg"))
    code, _, err = roundwise("bounds", *far, "--figure", "sequence")
    assert (code, "for questions without a tolerance" in err) == (2, True)
    code, _, err = roundwise("bounds", *NEAR, "--plot", str(tmp_path / "x.svg"))
    assert (code, "no affine sequence of easier instances" in err) == (2, True)


def test_all_pairs_of_a_small_grid_agree_with_the_definition_of_right():
    for means in itertools.product([0.0, 0.1, 0.2, 0.25], repeat=3):
        for tolerance in (0.05, 0.1, 0.2):
            question = BestArm(tolerance)
            values = np.array(means)
            each = [question.correct(np.array(i), values) for i in range(3)]
            np.testing.assert_array_equal(question.right_mask(values), each)
            np.testing.assert_array_equal(~np.isnan(question.complexities(values)), each)
