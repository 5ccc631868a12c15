"""Normal results whose deviations are unknown and differ: Welch's statistic, the smallest degrees of freedom.

Proposition 30 of docs/why-the-guarantee-holds.md by quadrature, for every kind of bet; error rates by simulation.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from tests.expectations import panels

from roundwise import (
    BestArm,
    Claims,
    ConditionalPower,
    EqualVariances,
    Normal,
    Statements,
    Wager,
    create_study,
    simulate,
)
from roundwise.calibration.laws import NormalArms
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past
from roundwise.noise.bets import PartForm, PartsData
from roundwise.noise.budget_bets import normal_budget_bet
from roundwise.noise.scores import student_score, welch_score
from roundwise.solvers.halfspaces import Halfspaces

SLACK = 2e-4  # of the quadrature


def squares(dof: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Chi-squared/dof at the nodes of a rule for its distribution function."""
    u, w = panels(np.array([0.0, 0.02, 0.3, 0.8, 1.0]), points)
    return stats.chi2.ppf(u, dof) / dof, w


def batches(rows: tuple[int, ...], shares: tuple[float, ...], points: int, steps: int) -> tuple[Batch, np.ndarray]:
    """Batches of arms at equal means, each of which carries a share of the variance of their form; the weight of each.

    The form is the first arm less the mean of the others: only its value matters, so the first arm has all of it.
    """
    z, w = panels(np.linspace(-9.0, 9.0, steps), 3)
    spreads = [squares(n - 1, points) for n in rows]
    grid = np.meshgrid(z, *(each for each, _ in spreads), indexing="ij")
    weights = w * stats.norm.pdf(z)
    for _, each in spreads:
        weights = np.multiply.outer(weights, each)
    counts, factors = np.array(rows, dtype=float), factors_of(len(rows))
    sigmas = np.sqrt(np.array(shares) * counts / factors**2)  # of means of variance `shares` in the form
    scatter = np.stack([(n - 1) * s**2 * c.reshape(-1) for n, s, c in zip(rows, sigmas, grid[1:], strict=True)], -1)
    totals = np.zeros_like(scatter)
    totals[:, 0] = rows[0] * grid[0].reshape(-1)
    return Batch(np.broadcast_to(counts, scatter.shape), totals, scatter), weights.reshape(-1)


def factors_of(arms: int) -> np.ndarray:
    return np.array([1.0, *[-1.0 / (arms - 1)] * (arms - 1)])


def form_of(arms: int, runs: int) -> Halfspaces:
    return Halfspaces(
        np.broadcast_to(np.arange(arms), (runs, 1, arms)),
        np.broadcast_to(factors_of(arms), (runs, 1, arms)),
        np.zeros((runs, 1)),
        False,
    )


def past_of(runs: int, arms: int) -> Past:
    counts = np.full((runs, arms), 30.0)
    return Past.none((runs, arms)).plus(Batch(counts, np.zeros_like(counts), counts - 1.0))


def part_bet(noise, batch, q):
    """The log factor of one part with bets of this size."""
    n, arms = batch.totals.shape
    data = PartsData(
        past_of(n, arms).map_sums(np.transpose), *(np.ascontiguousarray(each.T[None]) for each in batch[:3])
    )
    places = [np.arange(n)[None] + arm * n for arm in range(arms)]
    form = PartForm(places, [np.full((1, n), f) for f in factors_of(arms)], np.zeros((1, n)))
    leverage = form.squares(1.0 / data.counts)
    return noise.part_bets(data).forms(form, form.of(data.totals / data.counts), leverage)(0, np.full(n, q))


def fixed_size_bet(noise, batch, q):
    n, arms = batch.totals.shape
    bet = noise.fixed_size_bet(past_of(n, arms), batch, form_of(arms, n), batch.counts, np.full((1, 1, 1), q))
    return bet(np.zeros((n, 1)))[0, :, 0]


def budget_bet(noise, batch, need, rho):
    n, arms = batch.totals.shape
    past = past_of(n, arms)
    known = Estimates(past, past.means, noise.variance(past))
    return noise.budget_bet(known, batch, form_of(arms, n), np.full((n, 1), need), np.full((n, 1), rho), 0.2)[:, 0]


ROWS = [(2, 2), (2, 9), (4, 40), (15, 15), (3, 3, 8), (12, 5, 5)]
SHARES = {2: [(0.5, 0.5), (0.97, 0.03), (0.03, 0.97)], 3: [(0.4, 0.3, 0.3), (0.02, 0.96, 0.02), (0.1, 0.1, 0.8)]}
CASES = [(rows, shares) for rows in ROWS for shares in SHARES[len(rows)]]


@pytest.mark.parametrize(("rows", "shares"), CASES, ids=str)
def test_the_mean_of_a_bet_is_at_most_one_whatever_the_deviations(rows, shares):
    batch, weights = batches(rows, shares, 6 if len(rows) == 2 else 3, 80)
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    for size in (0.3, 1.0, 2.5, 20.0):  # the last is cut
        for bet in (part_bet, fixed_size_bet):
            mean = (weights * np.exp(bet(Normal(), batch, size))).sum()
            assert mean <= 1 + SLACK
            assert mean > 0.5 or size > 2


@pytest.mark.parametrize(("rows", "shares"), CASES, ids=str)
@pytest.mark.parametrize(("need", "rho"), [(0.1, 0.3), (0.1, 1.0), (0.7, 1.0), (3.0, 0.2), (3.0, 1.0)])
def test_the_mean_of_a_bet_towards_a_budget(rows, shares, need, rho):
    batch, weights = batches(rows, shares, 6 if len(rows) == 2 else 3, 80)
    mean = (weights * np.exp(budget_bet(Normal(), batch, need, rho))).sum()
    assert mean <= 1 + 0.01  # it jumps, which the quadrature feels
    assert mean > 0


def test_it_is_sharp_and_a_bolder_statistic_is_caught():
    """One arm carries the variance: the statistic has its degrees of freedom, and 10 % more is too much."""
    batch, weights = batches((20, 100), (0.999, 0.001), 6, 80)
    for bet, about in ((part_bet, 1.0), (fixed_size_bet, 1.0)):
        mean = (weights * np.exp(bet(Normal(), batch, about))).sum()
        assert mean == pytest.approx(1.0, abs=0.03)
        too_large = batch._replace(totals=batch.totals * 1.1)
        assert (weights * np.exp(bet(Normal(), too_large, about))).sum() > 1.05
    assert (weights * np.exp(budget_bet(Normal(), batch._replace(totals=batch.totals * 1.1), 3.0, 0.5))).sum() > 1.05
    assert (weights * np.exp(part_bet(EqualVariances(), batch, 1.0))).sum() > 1.2


def test_an_arm_with_one_result_is_not_bet_on():
    batch = Batch(np.array([[1.0, 40.0]]), np.array([[3.0, 0.0]]), np.array([[0.0, 39.0]]))
    assert part_bet(Normal(), batch, 1.0) == 0
    assert fixed_size_bet(Normal(), batch, 1.0) == 0
    assert budget_bet(Normal(), batch, 3.0, 0.5) == 0
    assert part_bet(EqualVariances(), batch, 1.0) != 0


# ----------------------------------------------------------------------------- scores, given how the variance is shared


def laws(rows, share, steps=1500, ratios=24):
    """Welch's statistic of two arms at equal means, the first of which carries a `share` of the variance of their form.

    Given the share of the first in the estimated variance, t is a t statistic of all degrees of freedom times a factor.
    Returned are t, the two squared errors and the weight of each, all of them equally likely given that share.
    """
    freedom = np.array(rows) - 1.0
    u, weight = panels(np.linspace(0.0, 1.0, 4), ratios // 3)
    odds = stats.f.ppf(u, *freedom) * share / (1 - share)
    first = odds / (1 + odds)
    factor = np.sqrt((first * freedom[0] / share + (1 - first) * freedom[1] / (1 - share)) / freedom.sum())
    t = np.multiply.outer(factor, stats.t.ppf((np.arange(steps) + 0.5) / steps, freedom.sum()))
    squares = np.broadcast_to(np.stack([first, 1 - first], -1)[:, None], (*t.shape, 2))
    return t, squares, np.broadcast_to(weight[:, None] / steps, t.shape)


def scores(rows, share):
    t, squares, weight = laws(rows, share)
    freedom = np.broadcast_to(np.array(rows) - 1.0, squares.shape)
    return welch_score(t, squares, freedom), student_score(t, freedom.sum(axis=-1)), weight


PAIRS = [(2, 2), (2, 9), (4, 16), (5, 5), (12, 30)]


@pytest.mark.long
@pytest.mark.parametrize("rows", PAIRS, ids=str)
@pytest.mark.parametrize("share", [0.03, 0.2, 0.5, 0.8, 0.99])
def test_scores_lie_on_either_side_of_a_normal_variable(rows, share):
    """Lemma 30: their tails; of the narrow one they are those of the normal law if one arm carries the variance."""
    narrow, wide, weight = scores(rows, share)
    assert (np.abs(narrow) <= np.abs(wide) + 1e-9).all()
    for bound in (0.3, 1.0, 1.7, 2.3):
        normal, step = 2 * stats.norm.sf(bound), 2 / 1500
        assert (weight * (np.abs(narrow) > bound)).sum() <= normal + step
        assert (weight * (np.abs(wide) > bound)).sum() >= normal - step
    carried = (weight * (np.abs(scores(rows, 1 - 1e-9)[0]) > 1.7)).sum()
    assert carried == pytest.approx(2 * stats.norm.sf(1.7), abs=2 / 1500)


def test_the_degrees_of_freedom_of_welch_would_be_too_many():
    """The usual approximation to the degrees of freedom is too bold: the narrow score is not."""
    t, squares, weight = laws((3, 5), 0.8)
    welch = squares.sum(-1) ** 2 / (squares**2 / [2.0, 4.0]).sum(-1)
    assert (weight * (np.abs(student_score(t, welch)) > 2.3)).sum() > 1.2 * 2 * stats.norm.sf(2.3)


def test_the_narrow_score_by_root_finding():
    rng = np.random.default_rng(4)
    for _ in range(200):
        dof, squares = rng.integers(1, 40, 3).astype(float), rng.exponential(size=3) * rng.choice([0.01, 1.0, 100.0], 3)
        t = float(rng.normal() * rng.choice([0.1, 1.0, 6.0]))

        def excess(z, dof=dof, squares=squares, t=t):
            return squares @ stats.t.isf(stats.norm.sf(z), dof) ** 2 / squares.sum() - t * t

        found = float(welch_score(np.array([t]), squares[None], dof[None])[0])
        assert found == pytest.approx(np.sign(t) * brentq(excess, 0.0, 20.0, xtol=1e-13), rel=1e-8)


NEEDS, PARTS = (0.02, 0.1, 0.5, 0.69, 0.75, 1.2, 3.0), (0.05, 0.2, 0.5, 0.9, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("rows", PAIRS, ids=str)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_a_bet_towards_a_budget_is_fair_also_where_little_is_needed(rows, share):
    """Proposition 30(c); with the narrow score on both sides it would not be."""
    narrow, wide, weight = scores(rows, share)
    means = {}
    for need, rho in itertools.product(NEEDS, PARTS):
        means[need, rho] = (weight * np.exp(normal_budget_bet(narrow, need, rho, wide=wide))).sum()
        assert means[need, rho] <= 1 + 1e-3
    assert min(means.values()) > (0.6 if min(rows) > 4 else 0.2)
    if share == 0.5 and rows == (5, 5):
        assert (weight * np.exp(normal_budget_bet(narrow, 0.1, 1.0))).sum() > 1.02


def test_wealth_rises_with_the_wealth_before_and_with_the_statistic():
    """So bounds end at one value (Proposition 17); a score that changes at a need of ln 2 would jump back."""
    t = np.linspace(-6, 6, 241)
    squares, freedom = np.broadcast_to([0.8, 0.2], (241, 2)), np.broadcast_to([3.0, 15.0], (241, 2))
    narrow, wide = welch_score(t, squares, freedom), student_score(t, np.full(241, 18.0))
    levels = np.exp(-np.linspace(0.01, 5, 200))[:, None]
    for rho in PARTS:
        after = levels * np.exp(normal_budget_bet(narrow, -np.log(levels), rho, wide=wide))
        assert (np.diff(after, axis=0) <= 1e-12).all()  # levels fall
        assert (np.diff(after, axis=1) >= -1e-12).all()
    switched = np.where((levels > 0.5) & (t < 0), wide, narrow)
    after = levels * np.exp(normal_budget_bet(switched, -np.log(levels), 0.2))
    assert (np.diff(after, axis=0) > 1e-4).any()


# ------------------------------------------------------------------------------------------ error rates by simulation


def false_claims(noise, sigmas, split, budget, size, runs):
    """How often an arm that equals the control is said to differ from it."""
    (found,) = simulate(
        Claims.against_control(2, 0), NormalArms(np.zeros(2), np.array(sigmas)), [ConditionalPower()],
        runs=runs, noise=noise, budget=budget, round_size=size, split=split, seed=5,
    )  # fmt: skip
    return int((~found.correct).sum())


WORLDS = {  # deviations and rows of control and arm, and whether one pooled variance must fail
    "equal": ((1.0, 1.0), (1.0, 1.0), False),
    "many rows of the quiet arm": ((1.0, 3.0), (4.0, 1.0), True),
    "more so": ((1.0, 10.0), (4.0, 1.0), True),
    "few rows of the quiet arm": ((1.0, 3.0), (1.0, 4.0), False),
    "equal rows": ((1.0, 10.0), (1.0, 1.0), False),
}


@pytest.mark.parametrize(("budget", "size"), [(2000, 200), (100, 10)])
@pytest.mark.parametrize("world", WORLDS)
def test_false_claims(world, budget, size):
    sigmas, split, fails = WORLDS[world]
    runs = 1000
    assert (
        stats.binomtest(false_claims(Normal(), sigmas, split, budget, size, runs), runs, 0.05, "greater").pvalue > 1e-4
    )
    if fails:
        wrong = false_claims(EqualVariances(), sigmas, split, budget, size, runs)
        assert stats.binomtest(wrong, runs, 0.05, "greater").pvalue < 1e-6


@pytest.mark.parametrize("ratio", [1.0, 3.0, 0.1])
def test_best_arm_at_a_tie(ratio):
    world = NormalArms(np.array([1e-9, 0.0]), np.array([1.0, ratio]))
    (found,) = simulate(BestArm(), world, [Wager()], runs=1000, noise=Normal(), max_samples=20_000, seed=2)
    assert stats.binomtest(int((found.decided & ~found.correct).sum()), 1000, 0.05, "greater").pvalue > 1e-4


def test_statements_of_three_arms():
    """A contrast that is zero, of arms with deviations 1, 5 and 0.2."""
    question = Statements([[1.0, -0.5, -0.5]], [0.0])
    world = NormalArms(np.array([0.0, 0.0, 0.0]), np.array([0.2, 5.0, 1.0]))
    (found,) = simulate(question, world, [Wager()], runs=1000, noise=Normal(), max_samples=5000, seed=3)
    assert stats.binomtest(int(found.decided.sum()), 1000, 0.05, "greater").pvalue > 1e-4  # neither side is true
    assert math.isfinite(found.samples.mean())


@pytest.mark.parametrize(("noise", "said"), [(Normal(), True), (EqualVariances(), False)], ids=["own", "same"])
def test_small_rounds_are_advised_against(tmp_path, noise, said):
    with create_study(
        "s", question=BestArm(), arms=["a", "b"], noise=noise, round_size=12, storage=f"sqlite:///{tmp_path}/s.db"
    ) as study:
        study.ask()
        path = tmp_path / "1.csv"
        path.write_text("arm,outcome\n" + "\n".join(f"{'ab'[i % 2]},{i * i % 7}" for i in range(12)) + "\n")
        study.tell(path)
        notes = [str(each) for each in study.report().notes if each.code == "few_rows"]
    assert [each.partition(" in a round say little")[0] for each in notes] == ["6 results of a"] * said
