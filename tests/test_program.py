"""The solver behind T*: against closed forms, an independent solver, its certificate, and hard instances."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from roundwise.solvers import program
from roundwise.solvers.program import EXACT, Allocation, solve_bipartite, solve_general

TOLERANCE = 1e-9  # promised by the module


def pair_matrix(k, others):
    """The 0-1 matrix of the limits 1/n_a + 1/n_b <= c_ab, in the order of c.reshape(-1)."""
    a, b = np.divmod(np.arange(k * others), others)
    q = np.zeros((k * others, k + others))
    q[np.arange(len(q)), a] = q[np.arange(len(q)), k + b] = 1.0
    return q


def top_k_limits(means, k):
    """Delta_ab^2 / 2 between the k largest means and the others (sigma = 1)."""
    means = -np.sort(-np.asarray(means), axis=-1)
    return (means[..., :k, None] - means[..., None, k:]) ** 2 / 2


def assert_feasible(q, c, pulls):
    """Pulls meet every limit, with no allowance for rounding."""
    q, c = np.broadcast_to(q, (len(pulls), *np.shape(q)[-2:])), np.asarray(c)
    assert (pulls >= 0).all()
    for squares, limits, n in zip(q, c, pulls, strict=True):
        assert (n[(squares > 0)[limits < np.inf].any(0)] > 0).all()
        spent = (squares / np.where(n > 0, n, np.inf)).sum(-1)
        assert (spent[limits < np.inf] <= limits[limits < np.inf]).all()


def assert_solved(q, c, found):
    """Feasible, totals right, gaps as promised."""
    assert_feasible(q, c, found.pulls)
    np.testing.assert_allclose(found.total, found.pulls.sum(-1), rtol=1e-14)
    assert (found.gap >= 0).all()
    assert (found.gap <= TOLERANCE).all()


def lower_bound(squares, limits, n):
    """A dual bound from the pulls alone: z >= 0 on the limits that bind, with Q'z as near n^2 as can be."""
    rows = squares / limits[:, None]
    binding = rows[(rows / n).sum(-1) > 1 - 1e-6]
    z, _ = nnls((binding / n**2).T, np.ones(len(n)))  # SciPy's
    return np.sqrt(z @ binding).sum() ** 2 / z.sum()


def clarabel_total(squares, limits):
    """The optimum by cvxpy and Clarabel, in v = 1/n."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cvxpy, at import
        import cvxpy as cp
    unit = limits.min()  # in other units it is less accurate
    v = cp.Variable(squares.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(v))), [squares @ v <= limits / unit])
    return problem.solve(solver=cp.CLARABEL) / unit


# --- closed forms ------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_one_limit(q, c):
    # Cauchy-Schwarz: (sum_i sqrt(q_i))^2 <= sum_i n_i * sum_i q_i / n_i, with equality at n_i ~ sqrt(q_i).
    found = solve_general([q], [[c]])
    root = np.sqrt(q)
    np.testing.assert_allclose(found.total, root.sum() ** 2 / c, rtol=2e-9)
    np.testing.assert_allclose(found.pulls[0] / found.total, root / root.sum(), atol=1e-4)
    assert_solved([q], np.array([[c]]), found)


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_limits_on_single_arms(pairs):
    # q_i / n_i <= c_i for each arm alone, as in thresholding bandits: n_i = q_i / c_i.
    q, c = np.array(pairs).T
    found = solve_general(np.diag(q), c[None])
    np.testing.assert_allclose(found.total, (q / c).sum(), rtol=2e-9)
    assert (found.pulls >= q / c).all()


def test_independent_limits_add_up():
    # Limits with no arm in common: the totals of the parts, each by Cauchy-Schwarz as above.
    q = np.array([[1.0, 4.0, 0, 0, 0], [0, 0, 9.0, 1.0, 16.0]])
    found = solve_general(q, [[0.5, 0.01]])
    np.testing.assert_allclose(found.total, 3.0**2 / 0.5 + 8.0**2 / 0.01, rtol=2e-9)
    assert_solved(q, np.array([[0.5, 0.01]]), found)


@pytest.mark.parametrize("gap", [1e-70, 1e-6, 0.3, 1.0, 1e70])
def test_two_arms(gap):
    # Best of two arms: T* = 8 sigma^2 / Delta^2, pulled equally.
    found = solve_bipartite([[[gap**2 / 2]]])
    np.testing.assert_allclose(found.total, 8 / gap**2, rtol=2e-9)
    np.testing.assert_allclose(found.pulls[0], 4 / gap**2, rtol=1e-4)


def test_a_corrector_that_goes_round_in_circles_is_left():
    """Estimated means of ten arms, from a simulated run: the gap stayed at 3.4e-5 however many steps were taken."""
    limits = [
        [0.67342168, 0.79204649, 1.06315474, 1.28848906, 1.31377503, 1.45072317, 1.69275606],
        [0.54685397, 0.65422692, 0.90243724, 1.11089352, 1.13438108, 1.26187639, 1.48823557],
        [0.5, 0.60288078, 0.84194937, 1.0436673, 1.06643686, 1.19015824, 1.41025988],
    ]
    assert solve_bipartite([limits]).gap.max() <= EXACT


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_equal_gaps(k):
    # All limits c: by symmetry n_a = x on one side, y on the other; k/u + l/(c - u) is least at
    # (sqrt k + sqrt l)^2 / c.
    others = 10 - k
    found = solve_bipartite(np.full((1, k, others), 0.02))
    np.testing.assert_allclose(found.total, (np.sqrt(k) + np.sqrt(others)) ** 2 / 0.02, rtol=2e-9)


def test_best_arm_by_newton():
    # docs/paper.md: x = 1/n_best is the zero of sum_b (x / (c_b - x))^2 - 1 below min c.
    c = top_k_limits(np.random.default_rng(1).uniform(0, 1, (20, 10)), 1)
    found = solve_bipartite(c)
    for limits, total in zip(c[:, 0], found.total, strict=True):
        low, high = 0.0, limits.min()
        for _ in range(200):
            x = (low + high) / 2
            low, high = (low, x) if ((x / (limits - x)) ** 2).sum() > 1 else (x, high)
        np.testing.assert_allclose(total, 1 / low + (1 / (limits - low)).sum(), rtol=2e-9)


# --- an independent solver, and independent certificates ---------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_general_against_clarabel(seed):
    rng = np.random.default_rng(seed)
    m, arms = rng.integers(1, 25, 2)
    q = rng.normal(size=(m, arms)) ** 2
    c = rng.uniform(0.1, 2.0, (1, m))
    found = solve_general(q, c)
    assert_solved(q, c, found)
    assert found.total[0] == pytest.approx(clarabel_total(q, c[0]), rel=1e-7)


@pytest.mark.parametrize(("arms", "k"), [(2, 1), (6, 1), (6, 3), (10, 3), (10, 8), (25, 10)])
def test_bipartite_against_clarabel(arms, k):
    rng = np.random.default_rng(arms + k)  # no tiny gaps: there Clarabel is off by 1e-4
    c = top_k_limits(np.concatenate([rng.uniform(0.6, 1, (1, k)), rng.uniform(0, 0.5, (1, arms - k))], axis=1), k)
    found = solve_bipartite(c)
    q, c = pair_matrix(k, arms - k), c.reshape(1, -1)
    assert_solved(q, c, found)
    assert found.total[0] == pytest.approx(clarabel_total(q, c[0]), rel=1e-7)


def test_certificate_from_the_pulls_alone():
    # Pulls with a gap of 1e-9 are off by about its root; the bound made of them by that squared again.
    rng = np.random.default_rng(3)
    for _ in range(30):
        m, arms = rng.integers(1, 20, 2)
        q, c = rng.normal(size=(m, arms)) ** 2, rng.uniform(0.1, 1.0, (1, m))
        found = solve_general(q, c)
        bound = lower_bound(q, c[0], found.pulls[0])
        assert bound <= found.total[0] <= bound * (1 + 1e-6)


def test_bipartite_is_general():
    rng = np.random.default_rng(4)
    for k, others in [(1, 1), (1, 9), (3, 7), (7, 3), (5, 5), (12, 30)]:
        c = top_k_limits(rng.uniform(0, 1, (20, k + others)), k)
        fast, plain = solve_bipartite(c), solve_general(pair_matrix(k, others), c.reshape(20, -1))
        np.testing.assert_allclose(fast.total, plain.total, rtol=2e-9)
        np.testing.assert_allclose(fast.pulls, plain.pulls, atol=1e-4 * plain.total.max())


# --- what is no limit, and what cannot be met --------------------------------------------------------------


def test_rows_that_ask_for_nothing():
    q = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [5.0, 0.0, 1.0]])
    c = [[0.3, 0.0, np.inf], [0.3, 0.7, np.inf]]  # a zero row, and a row with no limit
    found = solve_general(q, c)
    alone = solve_general(q[:1], [[0.3]])
    np.testing.assert_allclose(found.total, alone.total[0], rtol=2e-9)
    assert (found.pulls[:, 2] == 0).all()  # in no limit, so never pulled
    assert (found.pulls[:, :2] > 0).all()


def test_no_limit_at_all():
    for found in (
        solve_general([[0.0, 0.0]], [[0.0], [1.0], [np.inf]]),
        solve_general([[1.0, 2.0]], np.full((3, 1), np.inf)),
        solve_general(np.empty((0, 2)), np.empty((3, 0))),
        solve_bipartite(np.full((3, 1, 1), np.inf)),
    ):
        for part, shape in zip(found, [(3,), (3, 2), (3,)], strict=True):
            np.testing.assert_array_equal(part, np.zeros(shape))


def test_no_runs():
    assert [part.shape for part in solve_general(np.ones((2, 3)), np.empty((0, 2)))] == [(0,), (0, 3), (0,)]
    assert [part.shape for part in solve_bipartite(np.empty((0, 2, 3)))] == [(0,), (0, 5), (0,)]


def test_limits_that_cannot_be_met():
    found = solve_general([[1.0, 2.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(found.total == np.inf, [True, False, True])
    np.testing.assert_array_equal(found.pulls[[0, 2]], np.ones((2, 2)))
    np.testing.assert_array_equal(found.gap[[0, 2]], 0)
    tie = solve_bipartite(top_k_limits([[1.0, 0.5, 0.5, 0.0], [1.0, 0.6, 0.5, 0.0]], 2))  # 2nd and 3rd are equal
    np.testing.assert_array_equal(tie.total == np.inf, [True, False])
    np.testing.assert_array_equal(tie.pulls[0], np.ones(4))


def test_ties_within_a_side_and_repeated_limits():
    found = solve_bipartite(top_k_limits([[0.9, 0.9, 0.9, 0.4, 0.4, 0.4, 0.4]], 3))  # equal gaps: closed form above
    np.testing.assert_allclose(found.total, (np.sqrt(3) + 2) ** 2 / 0.125, rtol=2e-9)
    rng = np.random.default_rng(5)
    for m, arms in [(3, 20), (20, 3)]:
        q, c = rng.normal(size=(m, arms)) ** 2, rng.uniform(0.1, 1, (1, m))
        once, thrice = solve_general(q, c), solve_general(np.tile(q, (3, 1)), np.tile(c, 3))
        assert_solved(q, c, thrice)
        np.testing.assert_allclose(thrice.total, once.total, rtol=2e-9)


def test_infinite_limits_in_a_bipartite_programme():
    rng = np.random.default_rng(6)
    c = rng.uniform(0.1, 1, (50, 4, 6))
    c[rng.random(c.shape) < 0.6] = np.inf
    found = solve_bipartite(c)
    assert_solved(pair_matrix(4, 6), c.reshape(50, -1), found)
    idle = np.concatenate([np.isinf(c).all(2), np.isinf(c).all(1)], axis=1)
    assert idle.any()
    np.testing.assert_array_equal(found.pulls == 0, idle)
    np.testing.assert_allclose(found.total, solve_general(pair_matrix(4, 6), c.reshape(50, -1)).total, rtol=2e-9)


@pytest.mark.parametrize("factor", [1e-149, 1e-30, 1e30, 1e149])
def test_units_do_not_matter(factor):
    c = top_k_limits(np.random.default_rng(7).uniform(0, 1, (5, 8)), 3)
    found, scaled = solve_bipartite(c), solve_bipartite(c * factor)
    np.testing.assert_allclose(scaled.total * factor, found.total, rtol=1e-10)
    q, c = np.random.default_rng(8).uniform(0, 1, (4, 6)), c.reshape(5, -1)[:, :4]
    found = solve_general(q, c)
    np.testing.assert_allclose(solve_general(q, c * factor).total * factor, found.total, rtol=1e-10)
    np.testing.assert_allclose(solve_general(q * factor, c).total / factor, found.total, rtol=1e-10)


def test_more_pulls_than_a_float_can_hold():
    found = solve_bipartite([[[5e-324]], [[1e-300]]])
    np.testing.assert_array_equal(found.total == np.inf, [True, False])
    np.testing.assert_array_equal(found.pulls[0], [1.0, 1.0])
    assert solve_general([[1e200, 1e200]], [[1e-200]]).total[0] == np.inf


def test_300_decades_within_a_run():
    rng = np.random.default_rng(9)
    for _ in range(20):
        m, arms = rng.integers(1, 20, 2)
        q = 10 ** rng.uniform(-3, 3, (m, arms)) * (rng.random((m, arms)) < 0.5)
        c = 10 ** rng.uniform(-149, 149, (4, m))
        assert_solved(q, c, solve_general(q, c))


# --- hard instances (the textbook Newton fails on a quarter of them) ----------------------------------------


def hard_means(rng, kind, arms, k):
    if kind == "random":
        return rng.uniform(0, 1, arms)
    if kind == "tiny gaps":
        return 1 + 1e-6 * rng.uniform(0, 1, arms)
    if kind == "near ties":
        return np.round(rng.uniform(0, 1, arms), 1) + rng.uniform(0, 1e-6, arms)
    if kind == "decades between arms":
        return np.cumsum(10 ** rng.uniform(-6, 0, arms))
    signs = np.where(np.arange(arms) < k, 1.0, -1.0)  # gaps of every size around the border
    return signs * 10 ** rng.uniform(-12 if kind == "12 decades" else -6, 0, arms)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    ["random", "tiny gaps", "near ties", "decades between arms", "decades at the border", "12 decades"],
)
def test_stress_top_k(kind):
    rng = np.random.default_rng(10)
    for _ in range(100):
        arms = int(rng.integers(2, 101))
        k = int(rng.integers(1, min(15, arms - 1) + 1))
        c = top_k_limits(hard_means(rng, kind, arms, k), k)[None]
        found = solve_bipartite(c)
        assert found.gap[0] <= TOLERANCE, (arms, k)
        assert (1 / found.pulls[:, :k, None] + 1 / found.pulls[:, None, k:] <= c).all(), (arms, k)


@pytest.mark.parametrize("kind", ["dense", "sparse", "graded", "signs", "steep"])
def test_stress_half_spaces(kind):
    rng = np.random.default_rng(11)
    for _ in range(60):
        m, arms = rng.integers(1, 60, 2)
        normals = rng.normal(size=(m, arms))
        if kind == "sparse":
            normals *= rng.random((m, arms)) < 0.2
        if kind == "signs":
            normals = rng.integers(-1, 2, (m, arms)).astype(float)
        if kind in ("graded", "steep"):
            normals *= 10 ** rng.uniform(-6, 0, (m, arms))
        c = 10 ** rng.uniform(-12 if kind in ("sparse", "steep") else -2, 0, (1, m))
        assert_solved(normals**2, c, solve_general(normals**2, c))


def test_large_instances():
    rng = np.random.default_rng(12)
    c = (10 ** rng.uniform(-6, 0, (50, 1)) + 10 ** rng.uniform(-6, 0, 950)) ** 2 / 2  # the slowest kind met
    assert solve_bipartite(c[None]).gap[0] <= TOLERANCE
    for m, arms in [(5, 2000), (2000, 5), (150, 150)]:
        q, c = rng.normal(size=(m, arms)) ** 2, rng.uniform(0.1, 1, (1, m))
        assert_solved(q, c, solve_general(q, c))


# --- runs do not touch each other --------------------------------------------------------------------------


def assert_runs_are_independent(solve, inputs):
    """Each of 300 runs is, to the last bit, the same alone and among others, in any place and layout."""
    alone = [solve(*(x[i : i + 1] for x in inputs)) for i in range(len(inputs[0]))]
    alone = Allocation(*(np.concatenate(parts) for parts in zip(*alone, strict=True)))
    rng = np.random.default_rng(13)
    orders = [np.arange(300), np.arange(300)[::-1], rng.permutation(300)]
    orders += [rng.permutation(300)[:size] for size in (1, 2, 2, 7, 7, 7)]
    for order in orders:
        for layout in ("C", "F"):
            together = solve(*(np.asarray(x[order], order=layout) for x in inputs))
            for part, expected in zip(together, alone, strict=True):
                np.testing.assert_array_equal(part, expected[order])


@pytest.mark.long
@pytest.mark.parametrize(("k", "others"), [(1, 1), (1, 9), (3, 7), (7, 3), (11, 11)])
def test_bipartite_runs_are_independent(k, others):
    rng = np.random.default_rng(14)
    kinds = ["random", "near ties", "decades at the border"]
    means = np.array([hard_means(rng, kinds[i % 3], k + others, k) for i in range(300)])
    c = top_k_limits(means, k)
    c[5::50] = 0.0
    c[6::50] = np.inf
    assert_runs_are_independent(solve_bipartite, [c])


@pytest.mark.long
@pytest.mark.parametrize(("m", "arms"), [(1, 1), (1, 5), (5, 1), (4, 19), (19, 4), (8, 8)])
def test_general_runs_are_independent(m, arms):
    rng = np.random.default_rng(15)
    q = rng.normal(size=(300, m, arms)) ** 2 * 10 ** rng.uniform(-3, 0, (300, m, arms))
    c = 10 ** rng.uniform(-4, 0, (300, m))
    c[5::50, 0] = 0.0
    c[6::50] = np.inf
    assert_runs_are_independent(solve_general, [q, c])
    assert_runs_are_independent(lambda limits: solve_general(q[0], limits), [c])
    np.testing.assert_array_equal(solve_general(q[0], c).pulls, solve_general(np.broadcast_to(q[0], q.shape), c).pulls)


# --- symmetry ----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_permuting_permutes(seed, m, arms):
    # Totals agree within the gap; pulls within about its root, as the total is flat around its minimum.
    rng = np.random.default_rng(seed)
    q, c = rng.normal(size=(m, arms)) ** 2, rng.uniform(0.1, 1, (1, m))
    rows, columns = rng.permutation(m), rng.permutation(arms)
    found, moved = solve_general(q, c), solve_general(q[rows][:, columns], c[:, rows])
    np.testing.assert_allclose(moved.total, found.total, rtol=TOLERANCE)
    np.testing.assert_allclose(moved.pulls, found.pulls[:, columns], atol=1e-3 * found.total[0])
    grid = rng.uniform(0.1, 1, (1, m, arms))
    found, moved = solve_bipartite(grid), solve_bipartite(grid[:, rows][:, :, columns])
    np.testing.assert_allclose(moved.total, found.total, rtol=TOLERANCE)
    order = np.concatenate([rows, m + columns])
    np.testing.assert_allclose(moved.pulls, found.pulls[:, order], atol=1e-3 * found.total[0])


# --- when things go wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_out_of_iterations_the_gap_is_true(monkeypatch, iterations):
    c = top_k_limits(np.random.default_rng(17).uniform(0, 1, (20, 12)), 4)
    best = solve_bipartite(c)
    monkeypatch.setattr(program, "_ITERATIONS", iterations)
    found = solve_bipartite(c)
    assert_feasible(pair_matrix(4, 8), c.reshape(20, -1), found.pulls)
    assert (found.gap > TOLERANCE).any()
    assert (found.total >= best.total * (1 - TOLERANCE)).all()
    assert (found.total / (1 + found.gap) <= best.total).all()


def test_a_run_that_breaks_down_keeps_its_best_pulls(monkeypatch):
    """What a singular system gives: the pulls still meet the limits, and the gap is a number."""
    monkeypatch.setattr(program, "_solution", lambda matrix, y: np.full_like(y, np.nan))
    c = top_k_limits(np.random.default_rng(18).uniform(0, 1, (5, 6)), 2)
    found = solve_bipartite(c)
    assert_feasible(pair_matrix(2, 4), c.reshape(5, -1), found.pulls)
    assert np.isfinite(found.gap).all()
