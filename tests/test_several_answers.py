"""A tolerance for every question: several right answers, against brute force over all answers and a convex solver."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from roundwise import (
    PET,
    Above,
    AnyAbove,
    GaussianArms,
    InputError,
    Largest,
    MinimumBelow,
    Problem,
    RoundRobin,
    Statements,
    TopK,
    TrackAndStop,
    Wager,
    create_study,
    simulate,
)
from roundwise.noise import Binary
from roundwise.policies import LUCB, Elimination
from roundwise.questions import top_k as sets
from roundwise.solvers.halfspaces import BinaryFamily
from roundwise.theory.bounds import centre, lower_bound_at, sample_lower_bound, scaling_error, shared_lower_bound
from strategies import assert_optimal, family_evidence

SCORES = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]
MAKERS = {  # four arms, a tolerance
    "top-k": lambda near: TopK(2, near),
    "above": lambda near: Above(0.1, near),
    "minimum-below": lambda near: MinimumBelow(0.1, near),
    "any-above": lambda near: AnyAbove(0.1, near),
    "statements": lambda near: Statements(
        [[1, -1, 0, 0], [0, 1, 1, -1], [0, 0, 0, 1]], [0.1, 0.0, -0.2], tolerance=near
    ),
    "control": lambda near: Statements.against_control(4, 1, 0.05, near),
    "largest": lambda near: Largest(SCORES, tolerance=near),
}
every = pytest.mark.parametrize("kind", MAKERS)


def all_answers(question):
    if isinstance(question, TopK):
        return [np.isin(np.arange(4), each) for each in itertools.combinations(range(4), question.k)]
    if isinstance(question, MinimumBelow | AnyAbove):
        return [np.array(True), np.array(False)]
    if isinstance(question, Largest):
        return [np.array(i) for i in range(len(question.forms))]
    number = len(question.forms) if isinstance(question, Statements) else 4
    return [np.array(each) for each in itertools.product([False, True], repeat=number)]


def pieces(question, answer):
    """(a, b) of every half-space a.mu > b that makes the answer right, from the words of the question."""
    one, near = np.eye(4), question.tolerance
    if isinstance(question, TopK):
        return [(one[a] - one[b], -near) for a in range(4) for b in range(4) if answer[a] and not answer[b]]
    if isinstance(question, Largest):
        forms = np.array(question.forms)
        return [(forms[answer] - forms[j], -near) for j in range(len(forms)) if j != answer]
    forms, levels = (
        (one, np.full(4, question.level)) if isinstance(question, Above) else (question.forms, question.levels)
    )
    signs = np.where(answer, 1, -1)
    return [(s * a, s * b - near) for s, a, b in zip(signs, forms, levels, strict=True)]


def evidence_for(question, answer, counts, means):
    """Against every mean at which this answer is wrong, sigma 1."""
    if isinstance(question, MinimumBelow | AnyAbove):
        side = 1 if isinstance(question, MinimumBelow) else -1
        level, values = side * question.level, side * means
        if answer:  # wrong if all are at level + tolerance or above
            return float((counts * np.maximum(level + question.tolerance - values, 0) ** 2).sum() / 2)
        return float((counts * np.maximum(values - level + question.tolerance, 0) ** 2).min() / 2)
    return min(max(a @ means - b, 0.0) ** 2 / (2 * (a**2 / counts).sum()) for a, b in pieces(question, answer))


def right(question, answer, means):
    if isinstance(question, MinimumBelow | AnyAbove):
        side = 1 if isinstance(question, MinimumBelow) else -1
        lowest = (side * means).min() - side * question.level
        return lowest <= question.tolerance if answer else lowest >= -question.tolerance
    return all(a @ means >= b for a, b in pieces(question, answer))


def cases(kind, number, seed=1):
    rng = np.random.default_rng([seed, *kind.encode()])
    for _ in range(number):
        near = float(10 ** rng.uniform(-1.5, 0.3))
        means = rng.normal(size=4) * near * 10 ** rng.uniform(-0.5, 0.7)
        yield MAKERS[kind](near), means, np.ceil(10 ** rng.uniform(0, 4, 4)), rng


@every
def test_evidence_is_the_largest_over_all_answers_and_the_verdict_is_whose_it_is(kind):
    others = 0
    for question, means, counts, _ in cases(kind, 150):
        each = [evidence_for(question, answer, counts, means) for answer in all_answers(question)]
        assert question.evidence(counts, means) == pytest.approx(max(each), rel=1e-9, abs=1e-300)
        verdict = question.verdict(counts, means)
        assert evidence_for(question, verdict, counts, means) == pytest.approx(max(each), rel=1e-9)
        others += int((verdict != question.answer(means)).any())
    assert others > 2 or kind in ("above", "statements", "control")  # there the nearest sides have most


@every
def test_the_right_answers_are_those_that_are_right(kind):
    for question, means, _, _ in cases(kind, 60, seed=2):
        true = [each for each in all_answers(question) if right(question, each, means)]
        assert [bool(question.correct(each, means)) for each in all_answers(question)] == [
            bool(right(question, each, means)) for each in all_answers(question)
        ]
        answers, there = question.right_answers(means)
        listed = sorted(np.asarray(each).tolist() for each, is_there in zip(answers, there, strict=True) if is_there)
        assert listed == sorted(each.tolist() for each in true)
        assert question.count_right_answers(means) == len(true) >= 1


@pytest.mark.long
@every
def test_complexities_are_optimal_and_the_smallest_counts(kind):
    for question, means, _, rng in cases(kind, 12, seed=3):
        value, weights = question.complexity(means, sigma=1.7)
        needs = question.complexities(means, 1.7)
        assert np.nanmin(needs) == pytest.approx(value, rel=1e-8)
        assert question.evidence(weights, means, 1.7) * value == pytest.approx(1.0, rel=1e-8)
        assert (question.evidence(rng.dirichlet(np.ones(4), 60), means, 1.7) * value <= 1 + 1e-8).all()
        assert question.floor(means, sigma=1.7) <= value * (1 + 1e-9)
        if kind in ("minimum-below", "any-above"):
            continue
        answers, there = question.right_answers(means)
        for answer, is_there, need in zip(answers, there, needs, strict=True):
            if is_there and np.isfinite(need):
                forms, levels = zip(*pieces(question, answer), strict=True)
                distances = np.array([a @ means - b for a, b in zip(forms, levels, strict=True)])
                if distances.min() > 1e-3 * distances.max():  # the solver of the test is for ordinary sizes
                    assert_optimal(need, np.array(forms), distances, 1.7**2)


@every
def test_a_wrong_answer_has_no_more_evidence_than_the_means_have_strayed(kind):
    """The step of the proof, for the rule that stops on the largest over the answers."""
    wrong = 0
    for question, truth, counts, rng in cases(kind, 400, seed=4):
        estimate = truth + rng.normal(size=4) * question.tolerance * 10 ** rng.uniform(-1, 1)
        if not question.correct(question.verdict(counts, estimate), truth):
            wrong += 1
            strayed = (counts * (estimate - truth) ** 2).sum() / 2
            assert question.evidence(counts, estimate) <= strayed * (1 + 1e-9)
    assert wrong > 1


@every
def test_what_the_ball_needs_is_enough_everywhere_in_it(kind):
    finite = 0
    for question, means, _, rng in cases(kind, 40, seed=5):
        radius = float(rng.uniform(0, 0.3)) * question.tolerance
        value, weights = question.complexity(means, radius)
        assert question.floor(means, radius) <= value * (1 + 1e-9)
        if np.isfinite(value):
            finite += 1
            corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
            points = means + radius * np.concatenate([corners, rng.uniform(-1, 1, (50, 4))])
            assert question.evidence(value * weights, points).min() >= 1 - 1e-8
    assert finite > 20


@every
def test_runs_are_computed_as_if_alone(kind):
    rng = np.random.default_rng(6)
    question = MAKERS[kind](0.3)
    means = rng.normal(size=(2, 15, 4)) * 0.3
    counts = rng.integers(0, 100, (2, 15, 4)).astype(float)
    found, who, ways = (
        question.evidence(counts, means, 1.3),
        question.verdict(counts, means),
        question.count_right_answers(means),
    )
    value, weights = question.complexity(means, 0.01)
    for run in np.ndindex(2, 15):
        assert found[run] == question.evidence(counts[run], means[run], 1.3)
        np.testing.assert_array_equal(who[run], question.verdict(counts[run], means[run]))
        assert ways[run] == question.count_right_answers(means[run])
        alone = question.complexity(means[run], 0.01)
        assert value[run] == alone.value
        np.testing.assert_array_equal(weights[run], alone.weights)


@every
def test_no_tolerance_is_one_right_answer(kind):
    for question, means, counts, _ in cases(kind, 10, seed=7):
        exact = MAKERS[kind](0.0)
        assert exact.count_right_answers(means) == 1
        np.testing.assert_array_equal(exact.verdict(counts, means), exact.answer(means))
        assert np.nanmin(exact.complexities(means)) == pytest.approx(exact.complexity(means).value, rel=1e-9)
        assert question.complexity(means).value < exact.complexity(means).value


@pytest.mark.long
@every
def test_with_one_right_answer_there_is_a_centre_or_none_is_claimed(kind):
    """T* is divided by the square of the factor when the means move away from it."""
    found = 0
    for question, means, _, _ in cases(kind, 60, seed=8):
        middle = centre(question, means)
        if question.count_right_answers(means) > 1:
            assert middle is None
        elif middle is not None:
            found += 1
            assert scaling_error(question, means, middle) < 1e-6
    assert found > 3 or kind in ("statements", "largest")


# --- top-k: the search --------------------------------------------------------------------------------------


def pair_costs(means, counts, near):
    gaps = np.maximum(means[..., :, None] - means[..., None, :] + near, 0.0)
    return gaps**2 / (1 / counts[..., :, None] + 1 / counts[..., None, :])


@pytest.mark.parametrize(("arms", "k"), [(5, 2), (8, 3), (9, 6), (10, 5)])
def test_the_search_for_a_set_is_exact(arms, k):
    rng = np.random.default_rng(arms)
    combos = [np.isin(np.arange(arms), each) for each in itertools.combinations(range(arms), k)]
    for _ in range(60):
        near = float(10 ** rng.uniform(-1, 0.5))
        means = rng.normal(size=arms) * near * 10 ** rng.uniform(-0.7, 0.5)
        counts = np.ceil(10 ** rng.uniform(0, 3, arms))
        question = TopK(k, near)
        costs = pair_costs(means, counts, near)
        most = max(float(sets.weakest_pair(each, costs)) for each in combos) / 2
        assert question.evidence(counts, means) == pytest.approx(most, rel=1e-12)
        assert question.correct(question.verdict(counts, means), means)


def test_many_arms_do_not_take_long():
    rng = np.random.default_rng(1)
    means, counts = rng.normal(size=(3, 150)) * 0.1, rng.integers(1, 1000, (3, 150)).astype(float)
    question = TopK(30, 0.2)
    assert (
        question.evidence(counts, means)
        >= sets.weakest_pair(question.answer(means), pair_costs(means, counts, 0.2)) / 2 - 1e-12
    ).all()


# --- the lower bound -----------------------------------------------------------------------------------------


def test_ways_that_are_not_listed_count_as_the_easiest():
    for delta, ways in ((0.05, 7), (1e-3, 50), (1e-6, 3000)):
        assert shared_lower_bound([3.0, 5.0], delta, 2) == pytest.approx(shared_lower_bound([3.0, 5.0], delta))
        listed = shared_lower_bound(np.r_[[3.0] * (ways - 1), 5.0], delta)
        assert shared_lower_bound([3.0, 5.0], delta, ways) == pytest.approx(listed, rel=1e-9)
    assert shared_lower_bound([3.0, 5.0], 0.05, 20) == 0


@every
def test_the_lower_bound_is_at_most_that_of_one_right_answer(kind):
    for question, means, _, _ in cases(kind, 20, seed=9):
        bound, value = lower_bound_at(question, means, 0.05), question.complexity(means).value
        assert 0 <= bound <= sample_lower_bound(value, 0.05) * (1 + 1e-9)
        if question.count_right_answers(means) == 1:
            assert bound == pytest.approx(sample_lower_bound(value, 0.05), rel=1e-8)


def test_a_correct_design_in_one_batch_is_not_forbidden():
    """n pulls of each of two arms: which are above 0, within .1? Wrong with probability delta at most, by a z test."""
    from scipy.stats import norm

    for delta in (0.2, 0.05, 1e-4):
        pulls = math.ceil((norm.isf(delta / 2) / 0.1) ** 2)
        for means in ([0.0, 0.0], [0.05, -0.09], [0.1, 0.1]):
            assert lower_bound_at(Above(0.0, 0.1), means, delta) <= 2 * pulls


# --- 0/1 rewards: divergences --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["top-k", "above", "minimum-below", "any-above", "control"])
def test_with_their_own_divergences_too(kind):
    family, rng = BinaryFamily(), np.random.default_rng(10)
    for _ in range(3):
        means = rng.uniform(0.05, 0.35, 4)
        question = MAKERS[kind](0.06) if kind != "above" else Above(0.15, 0.06)
        value, weights = question.family_complexity(means, family)
        assert family_evidence(question, weights, means, family) * value == pytest.approx(1.0, rel=1e-5)
        others = rng.dirichlet(np.ones(4), 40)
        assert (family_evidence(question, others, np.broadcast_to(means, (40, 4)), family) * value <= 1 + 1e-5).all()
        needs = question.family_complexities(means, family)
        assert np.nanmin(needs) == pytest.approx(value, rel=1e-5)
        assert (~np.isnan(needs)).sum() == question.count_right_answers(means)


def test_too_many_right_answers_for_divergences_are_refused():
    with pytest.raises(InputError, match="More than 200 answers are right"):
        TopK(5, 0.5).family_complexity(np.full(12, 0.3), BinaryFamily())


# --- the rules -----------------------------------------------------------------------------------------------

EDGE = 0.2 + 1e-6
WORLDS = {
    "top-k": (TopK(2, 0.2), [EDGE, EDGE, 0, 0]),
    "top-k, several right": (TopK(2, 0.2), [0.4, 0.1, 0, -0.1 - 1e-6]),
    "above": (Above(0.0, 0.2), [EDGE, -EDGE, 0, EDGE]),
    "minimum-below": (MinimumBelow(0.0, 0.2), [EDGE] * 5),
    "any-above": (AnyAbove(0.0, 0.2), [EDGE, -0.5, -0.5]),
    "control": (Statements.against_control(4, 0, 0.0, 0.2), [0, EDGE, -EDGE, 0.1]),
    "largest": (Largest(SCORES, tolerance=0.2), [EDGE, EDGE, 0.0, 0.0]),
}
POLICIES = [
    Wager(first_pulls=10),
    RoundRobin(first_time=40, growth=1.5),
    TrackAndStop(first_time=40, growth=1.5),
    PET(),
    LUCB(batch=300),
    Elimination(first_pulls=20, growth=2),
]


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("world", WORLDS)
def test_errors_stay_below_delta(world, policy):
    """A rule at delta fails with probability below 1e-6 (exact binomial)."""
    question, means = WORLDS[world]
    try:
        policy.check(Problem(question, len(means), 0.1))
    except InputError:
        pytest.skip("answers other questions")
    (runs,) = simulate(question, GaussianArms(means), [policy], runs=300, delta=0.1, max_batches=200)
    assert runs.decided.all()
    assert (~runs.correct).sum() <= binom.isf(1e-6, 300, 0.1)
    assert runs.lower_bound[0] == pytest.approx(lower_bound_at(question, means, 0.1))


def test_means_in_the_tolerance_are_easy():
    """All means on the level: without a tolerance nobody would ever stop."""
    (runs,) = simulate(Above(0.0, 0.3), GaussianArms([0.0] * 6), [Wager()], runs=200)
    assert runs.decided.all()
    assert runs.correct.all()
    assert runs.samples.mean() < 3000


def test_a_tolerance_that_is_too_wide_is_refused():
    for question in (Above(0.3, 0.3), AnyAbove(0.9, 0.1), MinimumBelow(0.5, 0.6), TopK(2, 1.0)):
        with pytest.raises(InputError, match="certain without any"):
            Problem(question, 4, noise=Binary())
    for make in MAKERS.values():
        with pytest.raises(InputError, match="`tolerance` is -1"):
            make(-1.0)


# --- the command line and studies ------------------------------------------------------------------------------


@pytest.fixture
def printed(roundwise):
    def call(*words):
        code, out, err = roundwise(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return call


@pytest.mark.long
@pytest.mark.parametrize("options", [("top-k", "--k", 2), ("above", "--level", 0.2), ("any-above", "--level", 0.2)])
def test_the_command_line_takes_it_everywhere(printed, options):
    asked = ("--question", *options, "--means", "0.5,0.4,0.1,0")
    wide = printed("complexity", *asked, "--tolerance", 0.3)
    assert wide["complexity"] < printed("complexity", *asked)["complexity"]
    found = printed("simulate", *asked, "--tolerance", 0.3, "--runs", 20, "--policy", "wager")
    assert found[0]["sample_lower_bound"] == pytest.approx(wide["sample_lower_bound"])
    plan = ("--arms", "a,b,c,d", "--sigma", 1, "--runs", 20)
    rows = printed("plan", *asked, "--tolerance", 0.3, *plan)["rows"]
    assert rows[0]["lower_bound"] == pytest.approx(wide["sample_lower_bound"])


def test_a_study_says_it(tmp_path):
    study = create_study(
        "s",
        question=Above(0.5, 0.2),
        arms=["a", "b", "c"],
        noise=Binary(),
        policy=Wager(first_pulls=60),
        storage=f"sqlite:///{tmp_path}/s.db",
        seed=1,
    )
    rng = np.random.default_rng(1)
    while (asked := study.ask()) is not None:
        counts = asked.outstanding.astype(int)
        report = study.tell(
            {"arm": list("abc"), "count": counts.tolist(), "successes": rng.binomial(counts, [0.9, 0.5, 0.1])}
        )
    assert "within 20" in str(report)
