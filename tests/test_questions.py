"""Questions against independent computations: projections, convex programmes, brute force, reference values."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import differential_evolution, minimize, nnls

from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from strategies import (
    BY_LABEL,
    HALF_SPACES,
    KINDS,
    as_reference,
    assert_optimal,
    bisection,
    cheapest_alternative,
    example,
    halfspaces,
    other_cells,
    projection,
    reference_answer,
)

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
LEMMA_3_12 = ["best-arm", "top-1", "top-2", "top-half", "all-but-one", "above"]


def decided(kind, arms, seed):
    """An example whose complexity is finite and not astronomical, so that a general-purpose solver can do it."""
    for attempt in itertools.count():
        question, means, counts, rng = example(kind, arms, 1000 * seed + attempt)
        pieces = halfspaces(question, means)
        if pieces is None or pieces[1].min() > 0.01:
            return question, means, counts, rng
    raise AssertionError


# --- the answer and the evidence, from the definition ------------------------------------------------------


@every_kind
def test_answer(kind):
    for arms, seed in itertools.product((2, 3, 6), range(20)):
        question, means, _, _ = example(kind, max(arms, kind.fewest), seed)
        for point in (means, np.round(means), np.zeros_like(means), means * 0 + (question.level or 1.0)):
            assert as_reference(question.answer(point)) == reference_answer(question, point)


@pytest.mark.long
@every_kind
def test_evidence_is_the_cost_of_the_nearest_other_answer(kind):
    for arms, seed in itertools.product((2, 3, 4 if kind.label == "ranking" else 5), range(8)):
        question, means, counts, rng = example(kind, max(arms, kind.fewest), seed)
        nearest, cost = cheapest_alternative(question, counts, means)
        evidence = question.evidence(counts, means, 0.7)
        np.testing.assert_allclose(evidence, cost / 0.7**2, rtol=1e-7)
        # a step beyond the projection the answer is another one; anywhere cheaper it is the same
        beyond = nearest + 1e-6 * (nearest - means)
        assert reference_answer(question, beyond) != reference_answer(question, means)
        directions = rng.normal(size=(100, len(means)))
        costs = (counts * directions**2).sum(axis=1) / 2
        nearer = means + directions * np.sqrt(0.999 * evidence * 0.7**2 / costs)[:, None]
        for point in nearer:
            assert reference_answer(question, point) == reference_answer(question, means)


@pytest.mark.parametrize("label", ["top-2", "minimum-below", "dense-statements", "largest-dense"])
def test_projection_agrees_with_clarabel(label):
    # the tests above rest on `projection`; this is its own check, by another solver
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cvxpy as cp
    question, means, counts, _ = example(BY_LABEL[label], 4, 1)
    found = []
    for normals, levels in other_cells(question, means):
        x = cp.Variable(4)
        cost = cp.sum(cp.multiply(counts, cp.square(x - means))) / 2
        found.append(cp.Problem(cp.Minimize(cost), [normals @ x >= levels]).solve(solver=cp.CLARABEL))
    expected = [projection(counts, means, *cell)[1] for cell in other_cells(question, means)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(question.evidence(counts, means), min(found), rtol=1e-6)


# --- T* against general-purpose optimisers -----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", HALF_SPACES, ids=lambda kind: kind.label)
def test_complexity_against_a_convex_programme(kind):
    for seed, arms in enumerate((2, 3, 5, 10, 25, 50)):
        question, means, _, _ = decided(kind, min(max(arms, kind.fewest), kind.most), seed)
        pieces = halfspaces(question, means)
        assert_optimal(question.complexity(means).value, *pieces)
        assert_optimal(question.complexity(means, sigma=0.3).value, *pieces, factor=0.09)


@pytest.mark.parametrize(
    "question",
    [TopK(15), TopK(25), Statements.ranking(50), Largest(np.eye(50)[::-1])],
    ids=["top-15", "top-25", "ranking", "largest"],
)
def test_complexity_of_fifty_arms_against_a_convex_programme(question):
    means = np.random.default_rng(50).permutation(np.cumsum(np.random.default_rng(51).uniform(0.5, 1.5, 50)))
    assert_optimal(question.complexity(means).value, *halfspaces(question, means))


@pytest.mark.long
@every_kind
def test_complexity_against_differential_evolution(kind):
    # A second opinion that knows nothing of convexity or half-spaces: only the cells of the other answers.
    question, means, _, _ = decided(kind, 3, 2)
    cells = other_cells(question, means)

    def weights(z):
        w = np.exp(np.append(z, 0.0) - max(0.0, *z))
        return w / w.sum() + 1e-12

    def reached(z):
        return min(projection(weights(z), means, *cell)[1] for cell in cells)

    found = differential_evolution(lambda z: -reached(z), [(-12, 12)] * 2, maxiter=25, popsize=10, rng=1, polish=False)
    value = float(question.complexity(means).value)
    assert -found.fun * value <= 1 + 1e-7
    assert -found.fun * value >= 1 - 0.01


@pytest.mark.parametrize("kind", HALF_SPACES, ids=lambda kind: kind.label)
def test_complexity_against_slsqp(kind):
    question, means, _, rng = decided(kind, 4, 5)
    normals, distances = halfspaces(question, means)

    def slack(x):  # (b - a.mu)^2 / (2 sum_i a_i^2 / w_i) - t
        return distances**2 / (2 * (normals**2 / x[:-1]).sum(axis=1)) / scale - x[-1]

    scale = (distances**2).min() / 2
    best = 0.0
    for _ in range(5):
        start = np.append(rng.dirichlet(np.full(4, 5.0)), 0.0)
        found = minimize(
            lambda x: -x[-1],
            start,
            method="SLSQP",
            bounds=[(1e-6, 1)] * 4 + [(0, None)],
            constraints=[{"type": "ineq", "fun": slack}, {"type": "eq", "fun": lambda x: x[:-1].sum() - 1}],
            options={"ftol": 1e-13, "maxiter": 300},
        )
        if found.success:
            w = found.x[:-1] / found.x[:-1].sum()
            best = max(best, (distances**2 / (2 * (normals**2 / w).sum(axis=1))).min())
    value = float(question.complexity(means).value)
    assert best * value <= 1 + 1e-8
    assert best * value >= 1 - 1e-4


@pytest.mark.parametrize("label", ["minimum-below", "any-above"])
def test_complexity_of_yes_against_linear_programming(label):
    # Yes: evidence is linear in the weights, so the best weights are at a corner of the simplex.
    for seed in range(10):
        question, means, _, _ = example(BY_LABEL[label], 5, seed)
        if reference_answer(question, means):
            corners = [cheapest_alternative(question, corner, means)[1] for corner in np.eye(5) + 1e-13]
            value, weights = question.complexity(means)
            assert 1 / max(corners) == pytest.approx(float(value), rel=1e-6)
            assert weights[int(np.argmax(corners))] == 1


# --- the worst case over a ball ----------------------------------------------------------------------------


def ball(means, radius, rng, inside=200):
    """All corners of the ball, and points inside and on its faces."""
    corners = means + radius * np.array(list(itertools.product([-1.0, 1.0], repeat=len(means))))
    within = means + radius * np.clip(rng.uniform(-1.5, 1.5, (inside, len(means))), -1, 1)
    return corners, within


@every_kind
def test_worst_case_by_brute_force(kind):
    for arms, seed in itertools.product((2, 4), range(4)):
        arms = max(arms, kind.fewest)
        question, means, _, rng = decided(kind, arms, seed)
        radius = float(rng.uniform(0.05, 0.9)) * _reach(question, means)
        value, weights = question.complexity(means, radius, 1.3)
        assert np.isfinite(value)
        corners, within = ball(means, radius, rng)
        here = reference_answer(question, means)
        assert all(reference_answer(question, point) == here for point in np.concatenate([corners, within]))

        def worst(w, points, question=question):
            w, points = np.broadcast_arrays(w[..., None, :], points)
            return question.evidence(w, points, 1.3).min(axis=-1)

        np.testing.assert_allclose(worst(weights, corners) * value, 1.0, rtol=1e-8)  # reached at a corner
        assert worst(weights, within) * value >= 1 - 1e-8
        others = np.concatenate([rng.dirichlet(np.ones(arms), 200), weights * rng.uniform(0.9, 1.1, (100, arms))])
        others /= others.sum(axis=1, keepdims=True)
        assert (worst(others, corners) * value <= 1 + 1e-8).all()


def _reach(question, means):
    """The largest radius with one answer in the ball, to within 1e-3, by looking at corners (exact for cells)."""
    here = reference_answer(question, means)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=len(means))))
    low, high = 0.0, 50.0
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        one = all(reference_answer(question, point) == here for point in means + middle * corners)
        low, high = (middle, high) if one else (low, middle)
    return low


@every_kind
def test_worst_case_is_infinite_just_where_the_ball_has_two_answers(kind):
    for seed in range(5):
        question, means, _, _ = decided(kind, 4, seed)
        reach = _reach(question, means)
        assert np.isfinite(question.complexity(means, 0.99 * reach).value)
        assert question.complexity(means, 1.01 * reach).value == np.inf


@pytest.mark.parametrize("kind", HALF_SPACES, ids=lambda kind: kind.label)
def test_worst_case_against_a_convex_programme_over_all_corners(kind):
    # the definition of Tbar*, with the 2^K corners of the ball as B
    question, means, _, rng = decided(kind, 4, 3)
    radius = 0.6 * _reach(question, means)
    pieces = [halfspaces(question, corner) for corner in ball(means, radius, rng)[0]]
    together = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    assert_optimal(question.complexity(means, radius).value, *together)


@pytest.mark.parametrize("label", LEMMA_3_12)
def test_lemma_3_12(label):
    # Tbar*(ball) = sup of T* over the ball = T*(b), b the corner of the proof (Appendix C)
    for seed in range(5):
        kind = BY_LABEL[label]
        question, means, _, rng = decided(kind, 5, seed)
        radius = 0.7 * _reach(question, means)
        answer = reference_answer(question, means)
        inside = np.arange(5) == answer if label == "best-arm" else np.array(answer)
        b = means + radius * np.where(inside, -1.0, 1.0)
        worst, at_b = question.complexity(means, radius), question.complexity(b)
        np.testing.assert_allclose(worst.value, at_b.value, rtol=3e-9)
        np.testing.assert_allclose(worst.weights, at_b.weights, atol=1e-3)
        corners, within = ball(means, radius, rng, inside=50)
        assert (question.complexity(np.concatenate([corners, within])).value <= worst.value * (1 + 3e-9)).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_complexity_is_smooth_as_lemma_3_10_says(kind):
    # |ln T*(mu') - ln T*(mu)| <= sqrt(8 T*(mu)) |mu' - mu| where |mu' - mu| <= sqrt(1 / (2 T*(mu))) (sigma = 1)
    for seed in range(4):
        question, means, _, rng = decided(kind, 4, seed)
        value = question.complexity(means).value
        near = means + np.sqrt(1 / (2 * value)) * rng.uniform(-1, 1, (100, 4)) * rng.uniform(0, 1, (100, 1))
        moved = np.abs(near - means).max(axis=-1)
        change = np.abs(np.log(question.complexity(near).value / value))
        assert (change <= np.sqrt(8 * value) * moved * (1 + 1e-6) + 1e-8).all()


# --- reference values --------------------------------------------------------------------------------------


def test_the_paper_minimum_threshold_instance():
    # docs/paper.md, deviation 6: mu = (0.5, 0.6), tau = 0.6: "<", w* = (1, 0), T* = 2/0.1^2 = 200
    question = MinimumBelow(0.6)
    assert bool(question.answer([0.5, 0.6])) is True
    value, weights = question.complexity([0.5, 0.6])
    assert value == pytest.approx(200, rel=1e-12)
    np.testing.assert_array_equal(weights, [1.0, 0.0])
    # as a thresholding bandit an arm lies on the threshold
    assert Above(0.6).complexity([0.5, 0.6]).value == np.inf


def test_minimum_threshold_formulas_of_other_code():
    # published code: "<": sum_k N_k (g - mu)_+^2 / 2; ">": min_k N_k (mu - g)^2 / 2; w ~ 2/(mu - g)^2, T* their sum
    assert MinimumBelow(1.0).evidence([3, 5, 7], [0.5, 0.8, 2.0]) == pytest.approx((3 * 0.25 + 5 * 0.04) / 2)
    assert MinimumBelow(0.0).evidence([3, 5, 7], [0.5, 0.8, 2.0]) == pytest.approx(3 * 0.25 / 2)
    value, weights = MinimumBelow(0.0).complexity([0.5, 0.8, 2.0])
    needs = np.array([8.0, 3.125, 0.5])
    assert value == pytest.approx(needs.sum())
    np.testing.assert_allclose(weights, needs / needs.sum())


def test_the_peers_instance():
    # by another program: K = 10, means 1.0 and linspace(0.6, 0.9, 9): T* = 1178.9
    means = np.append(1.0, np.linspace(0.6, 0.9, 9))
    assert BestArm().complexity(means).value == pytest.approx(1178.9, abs=0.05)
    assert TopK(1).complexity(means).value == pytest.approx(1178.9, abs=0.05)
    # .5 against linspace(.2, .4, 9): T* = 334 with Bernoulli divergences, elsewhere; Gaussian with sigma = 1/2 is
    # the lower T* (Pinsker), so only the order of magnitude can agree
    bernoulli = BestArm().complexity(np.append(0.5, np.linspace(0.2, 0.4, 9)), sigma=0.5).value
    assert 250 < bernoulli < 450


@pytest.mark.parametrize("gap", [1e-3, 0.1, 1.0, 7.0])
def test_two_arms_in_closed_form(gap):
    # GK16: two Gaussian arms are pulled equally, T* = 8 sigma^2 / gap^2
    means = np.array([0.3, 0.3 + gap])
    exact = gap if gap > 1 else float(means[1] - means[0])
    for question in (BestArm(), TopK(1), Statements.ranking(2), Statements.against_control(2), Largest(np.eye(2))):
        value, weights = question.complexity(means, sigma=1.7)
        assert value == pytest.approx(8 * 1.7**2 / exact**2, rel=2e-9)
        np.testing.assert_allclose(weights, 0.5, atol=1e-4)
        # N_1 N_2 / (N_1 + N_2) gap^2 / (2 sigma^2)
        assert question.evidence([3.0, 5.0], means, 1.7) == pytest.approx(15 / 8 * exact**2 / (2 * 1.7**2))
        worst = question.complexity(means, gap / 8).value
        assert worst == pytest.approx(8 / (exact - gap / 4) ** 2, rel=1e-8)
        assert question.complexity(means, gap * 0.51).value == np.inf


@pytest.mark.parametrize("arms", [2, 3, 10, 50, 1000])
def test_equal_gaps_in_closed_form(arms):
    # GK16: K - 1 equal gaps: T* = 2 sigma^2 (1 + sqrt(K-1))^2 / gap^2, w_best = 1/(1 + sqrt(K-1))
    means = np.append(np.zeros(arms - 1), 0.5)
    value, weights = BestArm().complexity(means)
    root = np.sqrt(arms - 1)
    assert value == pytest.approx(8 * (1 + root) ** 2, rel=1e-12)
    assert weights[-1] == pytest.approx(1 / (1 + root), rel=1e-9)
    np.testing.assert_allclose(weights[:-1], weights[0], rtol=1e-12)


def test_one_statement_in_closed_form():
    # Cauchy-Schwarz: T* = 2 sigma^2 |a|_1^2 / (a.mu - b)^2, w_i ~ |a_i|: "is the average of the first three above 2?"
    question = Statements([[1 / 3, 1 / 3, 1 / 3, 0.0]], [2.0])
    value, weights = question.complexity([1.0, 2.0, 4.5, 9.0])
    assert value == pytest.approx(2 / 0.5**2, rel=2e-9)
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-4)
    assert question.answer([1.0, 2.0, 4.5, 9.0]).tolist() == [True]
    assert question.complexity([1.0, 2.0, 4.5, 9.0], 0.25).value == pytest.approx(2 / 0.25**2, rel=2e-9)
    skewed = Statements([[3.0, -1.0, 0.0]], [0.0]).complexity([1.0, 1.0, 5.0])
    assert skewed.value == pytest.approx(2 * 16 / 4, rel=2e-9)
    np.testing.assert_allclose(skewed.weights, [0.75, 0.25, 0.0], atol=1e-4)


def test_best_arm_against_bisection():
    # docs/baselines.md, written in `strategies.bisection`
    rng = np.random.default_rng(0)
    for arms in (2, 3, 10, 50):
        means = np.concatenate([rng.normal(size=(20, arms)), 10.0 ** rng.uniform(-4, 0, (20, arms))])
        found = BestArm().complexity(means)
        for value, weights, row in zip(*found, means, strict=True):
            expected, shares = bisection(row)
            assert value == pytest.approx(expected, rel=1e-10)
            np.testing.assert_allclose(weights, shares, rtol=1e-6)


def test_the_paper_random_instances():
    # docs/baselines.md: best 1, nine others U[0.6, 0.9]: T* mean 925 (of 1000), in another draw about 930, median 920
    rng = np.random.default_rng(1)
    means = np.concatenate([np.ones((20_000, 1)), rng.uniform(0.6, 0.9, (20_000, 9))], axis=1)
    values = BestArm().complexity(means).value
    np.testing.assert_allclose(values[:100], [bisection(row)[0] for row in means[:100]], rtol=1e-10)
    error = values.std() / np.sqrt(1000)  # of the notes' own 1000 instances
    assert abs(values.mean() - 925) < 4 * error
    assert abs(values.mean() - 930) < 4 * error
    assert 900 < np.median(values) < 940
    likelihood = 0.9 * np.log(19)  # kl(0.05, 0.95)
    assert abs(values.mean() * likelihood - 2451) < 4 * error * likelihood


# --- sizes -------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_arms():
    rng = np.random.default_rng(3)
    means = rng.uniform(0.0, 0.9, 100_000)
    means[777] = 1.0
    question = BestArm()
    tracemalloc.start()
    value, weights = question.complexity(means)
    worst = question.complexity(means, 0.01)
    evidence = question.evidence(weights, means)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * means.nbytes  # 24 MB; K x K would be 80 GB
    expected, shares = bisection(means)
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(weights, shares, rtol=1e-6)
    assert weights.sum() == pytest.approx(1.0, rel=1e-9)
    assert evidence * value == pytest.approx(1.0, rel=1e-8)
    assert int(question.answer(means)) == 777
    shrunk = means + 0.01
    shrunk[777] = 0.99
    assert worst.value == pytest.approx(bisection(shrunk)[0], rel=1e-9)
    for other in (Above(0.95), MinimumBelow(0.5), AnyAbove(0.95)):
        value, weights = other.complexity(means)
        assert other.evidence(weights, means) * value == pytest.approx(1.0, rel=1e-8)


def certified_lower_bound(normals, distances, weights):
    """A bound T* >= (sum_i sqrt((Q'z)_i))^2 / (c'z), from multipliers fitted to the pieces that bind at the weights."""
    rows = 2 * normals**2 / distances[:, None] ** 2
    needs = (rows / weights).sum(axis=1)
    binding = rows[needs > needs.max() * (1 - 1e-5)]
    z, _ = nnls((binding / weights**2).T, np.ones(len(weights)))
    return np.sqrt(z @ binding).sum() ** 2 / z.sum()


@pytest.mark.long
@pytest.mark.parametrize(("arms", "k"), [(200, 20), (1000, 50)])
def test_large_top_k(arms, k):
    means = np.random.default_rng(arms).permutation(np.append(np.linspace(1.1, 2.0, k), np.linspace(0, 1, arms - k)))
    question = TopK(k)
    value, weights = question.complexity(means)
    assert question.evidence(weights, means) * value == pytest.approx(1.0, rel=1e-8)
    assert weights.sum() == pytest.approx(1.0, rel=1e-9)
    inside = question.answer(means)
    # a relaxation and a restriction in closed form: the border pair alone; every gap as small as the border's
    assert 8 / 0.1**2 <= value <= 2 * (np.sqrt(k) + np.sqrt(arms - k)) ** 2 / 0.1**2
    # optimal: a dual bound from the pairs that bind
    first, second = np.flatnonzero(inside), np.flatnonzero(~inside)
    gaps = means[first][:, None] - means[second]
    needs = 2 * (1 / weights[first][:, None] + 1 / weights[second]) / gaps**2
    a, b = np.nonzero(needs > needs.max() * (1 - 1e-5))
    one = np.eye(arms)
    bound = certified_lower_bound(one[first[a]] - one[second[b]], gaps[a, b], weights)
    assert bound <= value * (1 + 1e-9)
    assert bound >= value * (1 - 1e-5)


def test_top_3_of_10_for_a_thousand_runs():
    means = np.random.default_rng(4).uniform(0, 1, (1000, 10))
    question = TopK(3)
    value, weights = question.complexity(means)
    np.testing.assert_allclose(question.evidence(weights, means) * value, 1.0, rtol=1e-8)
    for run in range(0, 1000, 100):
        assert_optimal(value[run], *halfspaces(question, means[run]))
    assert (question.floor(means) <= value * (1 + 1e-12)).all()
