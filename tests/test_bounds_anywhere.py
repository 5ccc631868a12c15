"""Theorem 3.11 without assumptions, the hardest corner of a ball, and the best sequence of Lemma 2.1."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bounds_cases import CASES
from roundwise import PET, Above, BestArm, InputError, MinimumBelow, Problem, Statements, TopK
from roundwise.questions import Complexity, Question
from roundwise.questions.base import finite, spread_over
from roundwise.solvers.halfspaces import complexity_where
from roundwise.theory.bounds import (
    Centre,
    affine_certificate,
    best_case,
    best_chain,
    chain_probability,
    easing,
    estimable_complexity,
    estimation_radius,
    expected_batches,
    hardest_corner,
    likely_chain,
    overview,
    promise,
    route,
    sequence_probability,
    upper_bounds,
    worst_case,
    worst_case_over,
)

ALL = CASES | {
    "several right": (BestArm(0.2), [0.3, 1.0, 0.2, 0.9]),
    "tolerance": (BestArm(0.05), [0.3, 1.0, 0.2, 0.9]),
    "top 1 of 4": (TopK(1), [0.0, 0.5, 0.1, 0.4]),
}
CORNERED = [name for name in ALL if name not in ("ranking", "scores")]


class Outside(Question):
    """Do the means lie outside of the unit circle? No union of half-spaces: a question that nothing is known of."""

    name = "outside"

    def __init__(self, tilt: float = 0.0) -> None:
        self.angles = tilt + np.linspace(0, 2 * np.pi, 721)

    def answer(self, means):
        return (finite(means) ** 2).sum(axis=-1) > 1

    def evidence(self, counts, means, sigma=1.0):
        raise NotImplementedError

    def complexity(self, means, radius=0.0, sigma=1.0) -> Complexity:
        """By grids: of weights, of the border, and of the ball (its own border is enough, and its centre)."""
        means, radii = spread_over(finite(means), radius)
        shares = np.linspace(0, 1, 401)
        weights = np.stack([shares, 1 - shares], axis=-1)
        border = np.stack([np.cos(self.angles), np.sin(self.angles)], axis=-1)
        line = np.linspace(-1, 1, 9)
        square = np.array([each for each in itertools.product(line, line) if np.abs(each).max() in (0, 1)])
        points = means[..., None, :] + radii[..., None] * square
        same = (self.answer(points) == self.answer(means)[..., None]).all(axis=-1)
        costs = ((points[..., None, :] - border) ** 2 @ weights.T).min(axis=(-3, -2)) / (2 * sigma**2)
        best = costs.argmax(axis=-1)
        value = 1 / np.take_along_axis(costs, best[..., None], axis=-1)[..., 0]
        return complexity_where(same, value, weights[best])

    def floor(self, means, radius=0.0, sigma=1.0):
        return np.zeros(np.shape(means)[:-1])


# ---------------------------------------------------------------- the triangle inequality


@pytest.mark.parametrize("name", ALL)
def test_the_complexity_in_a_ball(name: str) -> None:
    """Tbar* <= T*/(1-u)^2 and T*(mu') >= T*/(1+u)^2, and Assumption 3.8 with the proved b, for every question."""
    question, means = ALL[name]
    rng, sigma = np.random.default_rng(4), 0.7
    complexity = float(question.complexity(means, sigma=sigma).value)
    radius = estimation_radius(complexity, sigma)
    for share in (0.1, 0.5, 1.0, 2.5):
        worst = float(question.complexity(means, share * radius, sigma).value)
        assert worst <= worst_case(complexity, share * radius, sigma) * (1 + 1e-8)
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
        inside = np.array(means) + share * radius * np.vstack([corners, rng.uniform(-1, 1, (200, 4))])
        easiest = float(question.complexity(inside, sigma=sigma).value.min())
        assert easiest >= best_case(complexity, share * radius, sigma) * (1 - 1e-8)
        if share <= 1:
            assert math.log(worst / easiest) <= share * (1 + 1e-7)


def test_the_proved_radius_is_the_largest_that_serves_two_arms() -> None:
    means = np.array([1.0, 0.0])
    for factor, fine in ((1.0, True), (1.01, False)):
        radius = factor * estimation_radius(8.0)
        worst = float(BestArm().complexity(means, radius).value)
        easiest = float(BestArm().complexity([1.0 + radius, -radius]).value)
        assert (math.log(worst / easiest) <= factor * estimation_radius(8.0) / radius + 1e-9) == fine
    assert estimable_complexity(1.0, estimation_radius(1.0)) == pytest.approx(8.3354, abs=5e-5)
    assert worst_case(8.0, estimation_radius(8.0)) / best_case(8.0, estimation_radius(8.0)) == pytest.approx(math.e)


@pytest.mark.long
def test_assumption_3_9_fails_for_statements() -> None:
    """The worst case over a ball exceeds that of its worst instance, by up to (1 + sqrt 2)^2/4 - 1 = 45.7 %."""
    rng, most = np.random.default_rng(2), 1.0
    question = Statements.ranking(3)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    for _ in range(200):
        means = rng.uniform(0, 1, 3)
        gap = np.diff(np.sort(means)).min()
        radius = gap * rng.uniform(0.2, 0.48)
        worst = float(question.complexity(means, radius).value)
        each = question.complexity(means + radius * corners).value.max()
        most = max(most, worst / float(each))
    assert 1.2 < most < 1.4
    # both gaps shrink to x: (1 + sqrt 2)^2 2/x^2 for both, against 4 * 2/x^2 for the instance where one of them does
    limit = (1 + math.sqrt(2)) ** 2 / 4
    for share, near in ((0.49, 0.02), (0.4999, 2e-4)):
        worst = float(question.complexity([1.0, 0.0, -1.0], share).value)
        each = question.complexity(np.array([1.0, 0.0, -1.0]) + share * corners).value.max()
        assert limit * (1 - near) < worst / float(each) < limit
    assert limit == pytest.approx(1.457, abs=1e-3)


def test_a_finite_set_of_instances() -> None:
    """Definition 3.3, and the example below it: two arms switched have one T*, and both at once cost more."""
    rng = np.random.default_rng(4)
    for question in (BestArm(), TopK(2), Above(0.4), Statements.ranking(4)):
        for _ in range(5):
            pair = rng.uniform(0, 1, (2, 4))
            each = question.complexity(pair)
            found = worst_case_over(question, pair, sigma=1.3)
            assert found.weights.sum() == pytest.approx(1)
            assert found.value >= each.value.max() * 1.3**2 * (1 - 1e-9)
            # Tbar* samples in these proportions are just enough for both, and no proportions near need fewer
            shown = [float(question.evidence(found.value * found.weights, means, 1.3)) for means in pair]
            assert min(shown) == pytest.approx(1, rel=1e-6)
            for _ in range(20):
                other = found.weights * rng.uniform(0.9, 1.1, 4)
                other *= found.value / other.sum()
                assert min(float(question.evidence(other, means, 1.3)) for means in pair) <= 1 + 1e-9
    means, switched = [1.0, 0.5, 0.0], [1.0, 0.0, 0.5]
    alone = BestArm().complexity([means, switched]).value
    assert alone[0] == pytest.approx(alone[1])
    assert float(worst_case_over(BestArm(), [means, switched]).value) > 1.1 * alone[0]
    assert float(worst_case_over(BestArm(), [means]).value) == pytest.approx(alone[0])
    assert math.isinf(float(worst_case_over(BestArm(), [means, [0.5, 0.5, 0.0]]).value))
    with pytest.raises(InputError, match="not made of half-spaces"):
        worst_case_over(MinimumBelow(0.6), [[0.5, 0.7]])
    with pytest.raises(InputError, match="as rows"):
        worst_case_over(BestArm(), means)


@pytest.mark.slow
def test_a_question_without_half_spaces() -> None:
    """Nothing is known of its border; the triangle inequality, the upper bounds and the overview hold all the same."""
    question = Outside()
    for means in ([0.2, 0.5], [1.2, 0.9]):
        complexity = float(question.complexity(means).value)
        for radius in (0.03, 0.1, 0.2):
            worst = float(question.complexity(means, radius).value)
            assert worst <= worst_case(complexity, radius) * (1 + 1e-3)
            rng = np.random.default_rng(0)
            others = question.complexity(np.array(means) + rng.uniform(-radius, radius, (100, 2))).value
            assert others.min() >= best_case(complexity, radius) * (1 - 1e-3)
        problem = Problem(question, 2)
        found = overview(problem, means, gamma=10.0)
        assert found.upper == upper_bounds(PET(), problem, means)
        assert found.sample_lower < found.upper.samples
        assert (found.promise, found.centre, found.hardest, found.expected_batches) == (None, None, None, 1.0)
        assert found.vacuous is not None
        assert "border of the question 'outside' is not known" in found.vacuous
        assert found.plain()["batches"]["chain"] is None


def test_a_centre_of_your_own() -> None:
    """A user's question whose border is a point: best arm, with nothing known of it but answers and complexities."""

    class Hidden(Question):
        name = "hidden"
        answer, correct = BestArm().answer, BestArm().correct
        complexity, floor, evidence = BestArm().complexity, BestArm().floor, BestArm().evidence

    means = [0.003, 0.0, -0.001]
    problem, known = Problem(Hidden(), 3), promise(Problem(BestArm(), 3), means, 1.0, 9.0)
    assert promise(problem, means, 1.0, 9.0) is None
    assert promise(problem, means, 1.0, 9.0, centre=Centre(np.full(3, 0.001), 0.0)) == known  # with its true spread
    found = overview(problem, means, gamma=9.0, centre=Centre(np.full(3, 0.001), 0.0))
    assert found.expected_batches == expected_batches(known) > 1
    with pytest.raises(InputError, match="This is not a centre"):
        promise(problem, means, 1.0, 9.0, centre=Centre(np.array([0.0, 0.1, 0.2]), 0.0))
    with pytest.raises(InputError, match="proved for one"):
        promise(Problem(BestArm(1.0), 3), means, 1.0, 9.0, centre=Centre(np.zeros(3), 0.0))


# ---------------------------------------------------------------- corners


@pytest.mark.parametrize("name", CORNERED)
def test_the_hardest_corner(name: str) -> None:
    """T*(b) = Tbar*, b in the ball, and its weights serve every instance of the ball (Lemma 3.12)."""
    question, means = ALL[name]
    rng = np.random.default_rng(1)
    complexity = float(question.complexity(means).value)
    for radius in (estimation_radius(complexity), 0.3 * estimation_radius(complexity)):
        corner = hardest_corner(question, means, radius)
        if name in ("margin", "several right"):
            assert corner is None  # the control is below one arm and above another; no one answer to reckon from
            continue
        assert corner is not None
        assert np.abs(corner - means).max() <= radius * (1 + 1e-12)
        worst = question.complexity(means, radius)
        hard = question.complexity(corner)
        assert hard.value == pytest.approx(float(worst.value), rel=1e-8)
        inside = np.array(means) + rng.uniform(-radius, radius, (300, 4))
        assert (question.evidence(hard.weights, inside) >= (1 - 1e-7) / worst.value).all()


def test_there_may_be_no_hardest_corner() -> None:
    assert hardest_corner(Statements.ranking(3), [0.0, 0.5, 1.0], 0.01) is None
    assert hardest_corner(BestArm(), [1.0, 0.9], 0.06) is None  # two answers in the ball
    assert hardest_corner(BestArm(), [1.0, 0.9], 0.04) is not None


# ---------------------------------------------------------------- the best sequence


def a_problem(name: str) -> tuple[Problem, np.ndarray]:
    """An instance that is hard enough for chains of two: near the border, others far away."""
    question, means = {
        "best arm": (BestArm(), [1e-5, 0.0, -1e-3, -0.3]),
        "top 2": (TopK(2), [1e-5, 0.7, -1e-3, 0.0]),
        "ranking": (Statements.ranking(4), [1e-5, 0.7, -1e-3, 0.0]),
    }[name]
    return Problem(question, 4, 1e-3), np.array(means)


@pytest.mark.long
@pytest.mark.parametrize("name", ["best arm", "top 2", "ranking"])
@pytest.mark.parametrize("tail", [None, 0.01])
def test_the_best_sequence_is_a_sequence_and_beats_the_affine_one(name: str, tail: float | None) -> None:
    problem, means = a_problem(name)
    given = promise(problem, means, 1.0, 8.0, tail)
    along = route(problem, means, 1.0)
    assert given is not None
    assert along is not None
    for number in (1, 2, 3):
        found = best_chain(given, along, number)
        limits = given.gamma * given.confidence * found.complexities[:-1] / (found.tails if tail is None else 1.0)
        checked = sequence_probability(problem.question, found.instances, limits, found.tails, problem.delta)
        assert found.probability == pytest.approx(checked, rel=1e-9, abs=1e-12)
        if name != "ranking":  # which has no corner
            assert found.probability >= affine_certificate(given, number).probability - 1e-9
        assert found.complexities.min() >= 1.0 - 1e-9
        assert found.instances[-1] == pytest.approx(means)
        if tail is not None:
            assert (found.tails == tail).all()
    assert affine_certificate(given, 2).probability == 0  # the far arms make the affine steps too long
    assert best_chain(given, along, 2).probability > 0.5
    assert expected_batches(given, along) > expected_batches(given) + 0.5
    likely = likely_chain(given, along)
    assert likely is not None
    assert likely.batches >= 2


@pytest.mark.long
def test_no_other_sequence_was_found_that_is_better() -> None:
    """The theorem of docs/bounds.md, by trial: thousands of sequences with the same answer near the best one."""
    problem, means = a_problem("best arm")
    given, along = promise(problem, means, 1.0, 8.0), route(problem, means, 1.0)
    assert given is not None
    assert along is not None
    best = best_chain(given, along, 2)
    rng = np.random.default_rng(5)
    rate = given.gamma * given.confidence
    losses = []
    for _ in range(4000):
        scale = 10 ** rng.uniform(-3, 0)
        other = best.instances.copy()
        other[:-1] += scale * rng.normal(size=(2, 4)) * np.abs(best.instances[:-1] - means).max(axis=1, keepdims=True)
        tails = best.tails * np.exp(scale * rng.normal(size=2))
        hard = problem.question.complexity(other).value
        if (problem.question.answer(other) != 0).any() or hard[:-1].min() < 1:
            continue
        moves = (np.diff(other, axis=0) ** 2).max(axis=1) / 2
        losses.append(chain_probability(hard, moves, rate * hard[:-1] / tails, tails, problem.delta))
    assert len(losses) > 500
    assert max(losses) <= best.probability + 1e-4  # the search ends within so much of the optimum


def test_two_arms_have_one_path_only() -> None:
    """There the affine sequence is the path, and what is gained comes from unequal steps and tails."""
    problem = Problem(BestArm(), 2, 0.01)
    given, along = promise(problem, [1e-5, 0.0], 1.0, 30.0), route(problem, [1e-5, 0.0], 1.0)
    assert given is not None
    assert along is not None
    one, two = (best_chain(given, along, n).probability - affine_certificate(given, n).probability for n in (1, 2))
    assert one == pytest.approx(0, abs=1e-9)
    assert 0.005 < two < 0.02


def test_a_direction_without_a_corner() -> None:
    """A ranking: every distance grows at the rate at least; where two statements oppose each other there is none."""
    question, means = Statements.ranking(4), np.array([0.3, 1.0, 0.2, 0.9])
    found = easing(question, means)
    assert found is not None
    assert not found.corner
    assert np.abs(found.direction).max() <= 1
    for step in (0.1, 2.0):
        eased = question.complexity(means + step * found.direction).value
        assert eased <= question.complexity(means).value / (1 + found.rate * step) ** 2 * (1 + 1e-6)
    opposed = Statements([[1.0, 0.0], [1.0, 0.0]], [0.2, 0.7])
    assert easing(opposed, [0.5, 0.0]) is None
    assert route(Problem(opposed, 2), [0.5, 0.0], 1.0) is None
    # no point lies on both borders, but both get farther away to the right: there is a bound all the same
    parallel = Statements([[1.0, 0.0], [1.0, 0.0]], [0.2, 0.2001])
    hard = overview(Problem(parallel, 2), [0.2002, 0.0], gamma=10.0)
    assert hard.centre is None
    assert hard.expected_batches > 1.5
    assert easing(BestArm(0.5), [0.1, 0.0]) is None  # both are right
