"""Laws that every question obeys: shapes, symmetry, units, optimality, the worst case, infinite cases."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from products import diagonals
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from strategies import BY_LABEL, KINDS, LEVEL, example, examples, law, permuted, permuted_answer, scaled

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)


# --- leading axes are runs ---------------------------------------------------------------------------------

SHAPES = [(), (1,), (5,), (2, 3), (300,)]


def laid_out(array, layout):
    """The same numbers in another place: C, Fortran, or every second entry of something larger."""
    if layout == "strided":
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.array(array, order=layout)


def runs_of(kind, arms, shape):
    """A question, and counts, means and radii of so many runs: ordinary ones, ties, near ties, 9 decades."""
    question, _, _, rng = example(kind, arms, 7)
    means = rng.normal(size=(*shape, arms)) + rng.choice([0.0, 2.0, -2.0], size=(*shape, 1))
    flat = means.reshape(-1, arms)
    flat[3::7] = np.round(flat[3::7], 1)
    flat[4::7] = LEVEL + 1e-6 * flat[4::7]
    flat[5::7] *= 10.0 ** rng.uniform(-9, 0, flat[5::7].shape)
    counts = rng.integers(0, 10**6, size=(*shape, arms)).astype(float)
    counts.reshape(-1, arms)[1::3] += 1  # and some without zeros
    radius = np.where(rng.random(shape) < 0.5, 0.0, 10.0 ** rng.uniform(-6, -1, shape))
    return question, counts, flat.reshape(means.shape), np.asarray(radius)


def arms_of(kind):
    return [arms for arms in (2, 3, 7, 10, 50) if kind.fewest <= arms <= kind.most]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "shape"), diagonals(KINDS, SHAPES, 3))
def test_each_run_is_computed_as_if_alone(kind, shape):
    answer_axes = {"best-arm": "", "top-k": "(k)", "above": "(k)", "statements": "(m)", "largest": ""}
    for arms in arms_of(kind):
        if kind.solved and shape == (300,) and arms != min(10, kind.most // 2 + 3):
            continue  # one run at a time the solver takes a while
        question, counts, means, radius = runs_of(kind, arms, shape)
        axes = answer_axes.get(question.name, "").strip("()")
        one_by_one = {
            "answer": np.vectorize(question.answer, signature=f"(k)->({axes})")(means),
            "evidence": np.vectorize(lambda n, m, q=question: q.evidence(n, m, 1.3), signature="(k),(k)->()")(
                counts, means
            ),
            "floor": np.vectorize(lambda m, r, q=question: q.floor(m, r, 1.3), signature="(k),()->()")(means, radius),
        }
        value, weights = np.vectorize(lambda m, r, q=question: q.complexity(m, r, 1.3), signature="(k),()->(),(k)")(
            means, radius
        )
        for layout in ("C", "F", "strided"):
            n, m = laid_out(counts, layout), laid_out(means, layout)
            np.testing.assert_array_equal(question.answer(m), one_by_one["answer"])
            np.testing.assert_array_equal(question.evidence(n, m, 1.3), one_by_one["evidence"])
            np.testing.assert_array_equal(question.evidence(counts, m, 1.3), one_by_one["evidence"])
            np.testing.assert_array_equal(question.floor(m, radius, 1.3), one_by_one["floor"])
            found = question.complexity(m, radius, 1.3)
            np.testing.assert_array_equal(found.value, value)
            np.testing.assert_array_equal(found.weights, weights)
            assert np.shape(found.value) == shape
            assert found.weights.shape == (*shape, arms)
            # the arguments are the caller's own
            np.testing.assert_array_equal(m, means)
            np.testing.assert_array_equal(n, counts)


@every_kind
def test_correct_compares_runs(kind):
    question, _, means, _ = runs_of(kind, 3, (300,))
    one, other = question.answer(means), question.answer(means[::-1])
    same = question.correct(one, means[::-1])
    assert same.shape == (300,)
    np.testing.assert_array_equal(same, [np.array_equal(a, b) for a, b in zip(one, other, strict=True)])
    assert question.correct(one, means).all()
    assert not same.all() or kind.label in ("minimum-not-below", "none-above")


@every_kind
def test_one_set_of_counts_for_many_means_and_one_radius_for_many(kind):
    question, counts, means, _ = runs_of(kind, 3, (5,))
    expected = [question.evidence(counts[0], row) for row in means]
    np.testing.assert_array_equal(question.evidence(counts[0], means), expected)
    expected = [question.complexity(row, 0.01).value for row in means]
    np.testing.assert_array_equal(question.complexity(means, 0.01).value, expected)


@every_kind
def test_many_counts_for_one_set_of_means(kind):
    question, counts, means, _ = runs_of(kind, 3, (5,))
    expected = [question.evidence(row, means[0]) for row in counts]
    np.testing.assert_array_equal(question.evidence(counts, means[0]), expected)


@every_kind
def test_many_radii_for_one_set_of_means(kind):
    question, _, means, _ = runs_of(kind, 3, ())
    radii = np.array([0.0, 1e-3, 1e-2, 0.1, 10.0])
    alone = [question.complexity(means, r) for r in radii]
    found = question.complexity(means, radii)
    np.testing.assert_array_equal(found.value, [each.value for each in alone])
    np.testing.assert_array_equal(found.weights, [each.weights for each in alone])


@every_kind
def test_no_runs(kind):
    question, counts, means, _ = runs_of(kind, 3, (0,))
    assert question.evidence(counts, means).shape == (0,)
    found = question.complexity(means)
    assert (found.value.shape, found.weights.shape) == ((0,), (0, 3))
    assert question.floor(means).shape == (0,)


# --- symmetry and units ------------------------------------------------------------------------------------


@law
@given(examples(), st.randoms(use_true_random=False))
def test_permuting_the_arms_permutes_the_answer_and_the_weights(given_example, random):
    kind, question, means, counts, _ = given_example
    order = list(range(len(means)))
    random.shuffle(order)
    moved = permuted(question, order)
    np.testing.assert_array_equal(moved.answer(means[order]), permuted_answer(question, question.answer(means), order))
    np.testing.assert_allclose(moved.evidence(counts[order], means[order]), question.evidence(counts, means), rtol=1e-9)
    for radius in (0.0, 0.01):
        here, there = question.complexity(means, radius), moved.complexity(means[order], radius)
        np.testing.assert_allclose(there.value, here.value, rtol=2e-9 if kind.solved else 1e-12)
        # the total is flat around its minimum: weights are right to about the root of the certified gap
        np.testing.assert_allclose(
            there.weights, here.weights[order], atol=1e-3 if kind.solved else 1e-12, rtol=0 if kind.solved else 1e-9
        )
        np.testing.assert_allclose(moved.floor(means[order], radius), question.floor(means, radius), rtol=1e-9)


@law
@given(examples(), st.floats(0.01, 100), st.floats(0.01, 100))
def test_evidence_is_linear_in_the_counts_and_in_one_over_sigma_squared(given_example, factor, sigma):
    _, question, means, counts, _ = given_example
    plain = question.evidence(counts, means)
    np.testing.assert_allclose(question.evidence(counts * factor, means), plain * factor, rtol=1e-12)
    np.testing.assert_allclose(question.evidence(counts, means, sigma), plain / sigma**2, rtol=1e-12)
    more = counts + 1
    assert question.evidence(more, means) >= plain  # another pull of every arm never hurts


@pytest.mark.long
@law
@given(examples(), st.floats(0.01, 100), st.sampled_from([0.0, 0.02]))
def test_complexity_is_proportional_to_sigma_squared(given_example, sigma, radius):
    _, question, means, _, _ = given_example
    plain, noisy = question.complexity(means, radius), question.complexity(means, radius, sigma)
    np.testing.assert_allclose(noisy.value, plain.value * sigma**2, rtol=1e-12)
    np.testing.assert_array_equal(noisy.weights, plain.weights)
    floor = question.floor(means, radius)
    np.testing.assert_allclose(question.floor(means, radius, sigma), floor * sigma**2, rtol=1e-12)


@law
@given(examples(), st.floats(0.01, 100), st.sampled_from([0.0, 0.02]))
def test_units_of_the_rewards(given_example, factor, radius):
    kind, question, means, counts, _ = given_example
    other = scaled(question, factor)
    np.testing.assert_array_equal(other.answer(means * factor), question.answer(means))
    np.testing.assert_allclose(
        other.evidence(counts, means * factor), question.evidence(counts, means) * factor**2, rtol=1e-9
    )
    here, there = question.complexity(means, radius), other.complexity(means * factor, radius * factor)
    np.testing.assert_allclose(there.value, here.value / factor**2, rtol=1e-8)
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-3 if kind.solved else 1e-9)


@law
@given(st.sampled_from(["best-arm", "top-2", "ranking", "above", "minimum-below", "any-above"]), st.floats(-9, 9))
def test_where_zero_lies_does_not_matter(label, shift):
    kind = BY_LABEL[label]
    question, means, counts, _ = example(kind, 5, 3)
    other = type(question)(question.level + shift) if question.level is not None else question
    np.testing.assert_allclose(other.evidence(counts, means + shift), question.evidence(counts, means), rtol=1e-9)
    np.testing.assert_allclose(other.complexity(means + shift).value, question.complexity(means).value, rtol=1e-8)


@pytest.mark.parametrize(("kind", "factor"), diagonals(KINDS, [1e-150, 1e-100, 1e-20, 1e20, 1e100, 1e150], 3))
def test_extreme_units(kind, factor):
    question, means, counts, _ = example(kind, 6, 5)
    if np.isinf(question.complexity(means).value):
        means = means + 0.01
    other, plain = scaled(question, factor), question.complexity(means)
    found = other.complexity(means * factor)
    assert np.isfinite(found.value)
    np.testing.assert_allclose(found.value * factor * factor, plain.value, rtol=1e-8)
    np.testing.assert_allclose(found.weights, plain.weights, atol=1e-3 if kind.solved else 1e-9)
    np.testing.assert_allclose(
        other.evidence(counts, means * factor) / factor / factor, question.evidence(counts, means), rtol=1e-9
    )
    np.testing.assert_allclose(other.evidence(found.weights, means * factor), 1 / found.value, rtol=1e-8)


@every_kind
def test_many_pulls_of_huge_rewards_are_no_warning(kind):
    question, means, _, _ = example(kind, 6, 5)
    for count in (1e6, 1e10, 1e15):
        evidence = scaled(question, 1e150).evidence(np.full(6, count), means * 1e150)
        assert not np.isnan(evidence)
        assert evidence > 1e290


@every_kind
def test_twelve_decades_of_gaps_in_one_instance(kind):
    arms = min(13, kind.most)
    for seed in range(10):
        question, _, _, rng = example(kind, arms, seed)
        sides = rng.choice([-1.0, 1.0], arms)
        means = (question.level or 0.0) + sides * 10.0 ** rng.permutation(np.linspace(-12, 0, arms))
        found = question.complexity(means)
        assert np.isfinite(found.value)
        np.testing.assert_allclose(found.weights.sum(), 1.0, rtol=1e-9)
        np.testing.assert_allclose(question.evidence(found.weights, means), 1 / found.value, rtol=1e-8)
        assert question.floor(means) <= found.value * (1 + 1e-12)


# --- optimality --------------------------------------------------------------------------------------------


@law
@given(examples(), st.floats(0.1, 10))
def test_the_optimal_weights_attain_the_complexity(given_example, sigma):
    _, question, means, _, rng = given_example
    value, weights = question.complexity(means, sigma=sigma)
    assert value > 0
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(question.evidence(weights, means, sigma) * value, 1.0, rtol=1e-8)
    # and no weights do better: at random, and near the optimum
    arms = len(means)
    others = np.concatenate(
        [
            rng.dirichlet(np.ones(arms), 50),
            rng.dirichlet(np.full(arms, 0.2), 50),
            weights * np.exp(rng.normal(size=(50, arms)) * 10.0 ** rng.uniform(-4, 0, (50, 1))),
        ]
    )
    others /= others.sum(axis=1, keepdims=True)
    reached = question.evidence(others, np.broadcast_to(means, others.shape), sigma)
    assert (reached * value <= 1 + 2e-9).all()


@law
@given(examples())
def test_the_floor_is_a_lower_bound(given_example):
    _, question, means, _, _ = given_example
    for radius in (0.0, 1e-3, 0.05, 1.0):
        floor, value = question.floor(means, radius, 1.7), question.complexity(means, radius, 1.7).value
        assert 0 < floor <= value * (1 + 1e-12)
        assert np.isinf(floor) == np.isinf(value)


# --- the worst case over a ball ----------------------------------------------------------------------------


@law
@given(examples())
def test_at_radius_zero_the_worst_case_is_the_complexity(given_example):
    _, question, means, _, _ = given_example
    plain, ball = question.complexity(means), question.complexity(means, 0.0)
    np.testing.assert_array_equal(ball.value, plain.value)
    np.testing.assert_array_equal(ball.weights, plain.weights)
    near = question.complexity(means, 1e-12)
    np.testing.assert_allclose(near.value, plain.value, rtol=1e-6)


@law
@given(examples())
def test_the_worst_case_grows_with_the_radius(given_example):
    _, question, means, _, _ = given_example
    radii = [0.0, *np.geomspace(1e-4, 30, 12)]
    values = [float(question.complexity(means, radius).value) for radius in radii]
    assert values[-1] == np.inf
    for small, large in itertools.pairwise(values):
        assert large == small == np.inf or large > small * (1 - 2e-9)


# --- one question in the words of another ------------------------------------------------------------------


def assert_same_question(one, other, means, counts, mirrored=None):
    """The same numbers for the same means (or for their mirror image)."""
    shown = means if mirrored is None else mirrored
    np.testing.assert_allclose(other.evidence(counts, shown, 1.2), one.evidence(counts, means, 1.2), rtol=1e-10)
    for radius in (0.0, 0.01, 0.1):
        here, there = one.complexity(means, radius, 1.2), other.complexity(shown, radius, 1.2)
        np.testing.assert_allclose(there.value, here.value, rtol=2e-9)
        np.testing.assert_allclose(there.weights, here.weights, atol=1e-3)
        # the bounds may differ; each holds for both
        assert (one.floor(means, radius, 1.2) <= there.value * (1 + 2e-9)).all()
        assert (other.floor(shown, radius, 1.2) <= here.value * (1 + 2e-9)).all()


@st.composite
def many_means(draw):
    arms, seed = draw(st.integers(2, 20)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng([seed, arms])
    return rng.normal(size=(4, arms)) + 0.3, rng.integers(0, 1000, (4, arms)).astype(float)


@pytest.mark.long
@settings(law, max_examples=25)
@given(many_means())
def test_one_question_in_the_words_of_another(given_means):
    means, counts = given_means
    arms = means.shape[1]
    one_of_each = np.eye(arms)
    assert_same_question(BestArm(), TopK(1), means, counts)
    np.testing.assert_array_equal(TopK(1).answer(means).argmax(axis=-1), BestArm().answer(means))
    assert_same_question(BestArm(), Largest(one_of_each), means, counts)
    np.testing.assert_array_equal(Largest(one_of_each).answer(means), BestArm().answer(means))
    assert_same_question(BestArm(), Largest(one_of_each, np.full(arms, 7.0)), means, counts)
    assert_same_question(Above(0.3), Statements(one_of_each, np.full(arms, 0.3)), means, counts)
    np.testing.assert_array_equal(Statements(one_of_each, np.full(arms, 0.3)).answer(means), Above(0.3).answer(means))
    assert_same_question(Above(0.3), Statements(-2 * one_of_each, np.full(arms, -0.6)), means, counts)
    for level in (0.3, -2.0, 2.0):
        assert_same_question(MinimumBelow(level), AnyAbove(-level), means, counts, -means)
        np.testing.assert_array_equal(AnyAbove(-level).answer(-means), MinimumBelow(level).answer(means))
    k = arms // 2
    assert_same_question(TopK(k), TopK(arms - k), means, counts, -means)
    np.testing.assert_array_equal(TopK(arms - k).answer(-means), ~TopK(k).answer(means))


def test_the_top_of_two_is_the_ranking_of_two():
    means, counts = np.array([[0.4, 0.1], [0.0, 2.0]]), np.array([[3.0, 5.0], [1.0, 1.0]])
    assert_same_question(TopK(1), Statements.ranking(2), means, counts)
    assert_same_question(TopK(1), Statements.against_control(2), means, counts)


def test_offsets_of_scores_are_offsets_of_the_arms():
    rng = np.random.default_rng(1)
    means, counts, offsets = rng.normal(size=(3, 6)), rng.integers(1, 99, (3, 6)).astype(float), rng.normal(size=6)
    assert_same_question(BestArm(), Largest(np.eye(6), offsets), means + offsets, counts, means)


def test_a_margin_over_control_is_a_worse_treatment():
    rng = np.random.default_rng(2)
    means, counts = rng.normal(size=(3, 6)), rng.integers(1, 99, (3, 6)).astype(float)
    lower = means - 0.4 * (np.arange(6) != 2)
    assert_same_question(
        Statements.against_control(6, 2), Statements.against_control(6, 2, margin=0.4), lower, counts, means
    )


# --- infinite complexity -----------------------------------------------------------------------------------

HALF = [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
UNDECIDED = [
    ("best arm, tie", BestArm(), [1.0, 1.0, 0.0], 0.0),
    ("best arm, all equal", BestArm(), [1.0, 1.0, 1.0], 0.0),
    ("best arm, ball touches", BestArm(), [1.0, 0.5, 0.0], 0.25),
    ("best arm, ball with two answers", BestArm(), [1.0, 0.5, 0.0], 3.0),
    ("top 2, tie at the border", TopK(2), [1.0, 0.5, 0.5], 0.0),
    ("top 1, all equal", TopK(1), [1.0, 1.0, 1.0], 0.0),
    ("top 2, all equal", TopK(2), [0.0, 0.0, 0.0], 0.0),
    ("top 2, ball touches", TopK(2), [1.0, 0.5, 0.0], 0.25),
    ("top 2, ball with two answers", TopK(2), [1.0, 0.5, 0.0], 3.0),
    ("above, on the level", Above(0.5), [1.0, 0.5, 0.0], 0.0),
    ("above, all on the level", Above(0.5), [0.5, 0.5, 0.5], 0.0),
    ("above, ball touches", Above(0.5), [1.0, 0.75, 0.0], 0.25),
    ("above, ball with two answers", Above(0.5), [1.0, 0.75, 0.0], 3.0),
    ("minimum, on the level", MinimumBelow(0.5), [1.0, 0.5, 2.0], 0.0),
    ("minimum, all on the level", MinimumBelow(0.5), [0.5, 0.5, 0.5], 0.0),
    ("minimum, yes, ball touches", MinimumBelow(0.5), [1.0, 0.25, 2.0], 0.25),
    ("minimum, no, ball touches", MinimumBelow(0.5), [1.0, 0.75, 2.0], 0.25),
    ("minimum, yes, ball with two answers", MinimumBelow(0.5), [1.0, 0.25, 2.0], 3.0),
    ("minimum, no, ball with two answers", MinimumBelow(0.5), [1.0, 0.75, 2.0], 3.0),
    ("any above, on the level", AnyAbove(0.5), [0.0, 0.5, -2.0], 0.0),
    ("any above, ball touches", AnyAbove(0.5), [0.0, 0.75, -2.0], 0.25),
    ("any above, no, ball with two answers", AnyAbove(0.5), [0.0, 0.25, -2.0], 3.0),
    ("statements, on the level", Statements(HALF, [2.0, 1.0]), [1.0, 1.0, 3.0], 0.0),
    ("statements, ball touches", Statements(HALF, [1.5, 1.0]), [1.0, 1.0, 3.0], 0.25),
    ("statements, ball with two answers", Statements(HALF, [1.5, 1.0]), [1.0, 1.0, 3.0], 3.0),
    ("ranking, tie of the worst", Statements.ranking(3), [1.0, 0.0, 0.0], 0.0),
    ("ranking, all equal", Statements.ranking(3), [1.0, 1.0, 1.0], 0.0),
    ("control, tie with it", Statements.against_control(3), [1.0, 1.0, 0.0], 0.0),
    ("largest, tie", Largest(HALF), [1.0, 5.0, 1.0], 0.0),
    ("largest, ball touches", Largest(HALF), [1.5, 5.0, 1.0], 0.25),
    ("largest, ball with two answers", Largest(HALF), [1.5, 5.0, 1.0], 3.0),
]


@pytest.mark.parametrize(
    ("question", "means", "radius"), [case[1:] for case in UNDECIDED], ids=[c[0] for c in UNDECIDED]
)
def test_undecided_is_infinite(question, means, radius):
    value, weights = question.complexity(means, radius)
    assert value == np.inf
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-15)
    assert question.floor(means, radius) == np.inf
    # evidence is that of the centre: zero exactly where the centre itself is undecided
    for counts in ([3.0, 4.0, 5.0], [0.0, 0.0, 0.0], [0.0, 4.0, 0.0]):
        evidence = question.evidence(counts, means)
        assert not np.isnan(evidence)
        assert (evidence == 0) or (radius > 0)
    # among runs that are decided, each keeps its own
    decided = np.array([0.9, -0.3, 0.23]) if question.name != "largest" else np.array([1.0, 0.4, 0.2])
    together = question.complexity([decided, means, decided], [0.0, radius, 0.0])
    alone = question.complexity(decided)
    assert np.isfinite(alone.value)
    np.testing.assert_array_equal(together.value, [alone.value, np.inf, alone.value])
    np.testing.assert_array_equal(together.weights, [alone.weights, weights, alone.weights])
    both = question.evidence([[3.0, 4.0, 5.0]] * 2, [decided, means])
    np.testing.assert_array_equal(both, [question.evidence([3.0, 4.0, 5.0], m) for m in (decided, means)])


@every_kind
def test_just_decided_is_finite(kind):
    question, means, _, _ = example(kind, 5, 11)
    if np.isinf(question.complexity(means).value):
        means = means + 0.01
    low, high = 0.0, 100.0
    if np.isfinite(question.complexity(means, high).value):
        pytest.fail("a ball of radius 100 must hold two answers")
    for _ in range(70):  # the largest radius with one answer
        middle = (low + high) / 2
        low, high = (middle, high) if np.isfinite(question.complexity(means, middle).value) else (low, middle)
    edge = question.complexity(means, low)
    assert np.isfinite(edge.value)
    assert edge.value > 1e20
    np.testing.assert_allclose(edge.weights.sum(), 1.0, rtol=1e-9)
    assert question.complexity(means, high).value == np.inf


@every_kind
def test_arms_without_results(kind):
    # With no pulls of an arm nothing is known of it: the limit of ever fewer pulls.
    for seed in range(10):
        question, means, counts, rng = example(kind, 5, seed)
        counts[rng.random(5) < 0.4] = 0.0
        few = question.evidence(np.maximum(counts, 1e-9), means)
        found = question.evidence(counts, means)
        assert not np.isnan(found)
        np.testing.assert_allclose(found, few, rtol=1e-6, atol=1e-6)
        assert question.evidence(np.zeros(5), means) == 0


def test_ties_inside_the_answer_are_finite():
    # only the border matters for the top k; only the level for the others
    assert TopK(2).complexity([1.0, 1.0, 0.0, 0.0]).value == pytest.approx(2 * (np.sqrt(2) + np.sqrt(2)) ** 2, rel=2e-9)
    np.testing.assert_allclose(MinimumBelow(0.5).complexity([0.0, 0.0, 1.0]).weights, [0.5, 0.5, 0.0])
    assert MinimumBelow(0.5).complexity([0.0, 0.0, 1.0]).value == pytest.approx(8.0)
    assert BestArm().complexity([1.0, 0.0, 0.0]).value == pytest.approx(2 * (1 + np.sqrt(2)) ** 2)
