"""Heavy tails with a known bound on the variance: Proposition 40 by enumeration, error rates by simulation."""

import itertools
import math

import numpy as np
import pytest

from roundwise import (
    BestArm,
    BoundedVariance,
    Columns,
    DataError,
    Gaussian,
    GaussianArms,
    InputError,
    Normal,
    SubGaussian,
    Wager,
    plan,
    simulate,
)
from roundwise.cli.options import NoiseOptions
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past
from roundwise.noise import bounded_variance
from roundwise.noise.bets import PartForm, PartsData
from roundwise.noise.bounded_variance import form_groups
from roundwise.simulation.environments import Arms
from roundwise.solvers.halfspaces import Halfspaces
from studies import same_when_read_again, studies

SIZES = (0.1, 0.7, 2.0, 9.0, 30.0)
SHAPES = ((2, 2), (4, 3), (5, 2), (6, 1))  # rows of two arms: as many groups as the fewer has, or one less even
ODDS = (0.5, 0.9, 0.97, 0.999)  # chance of the lower value of one arm, and of the higher value of the other


def two_points(chance: float, mean: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Two values with this mean and variance, the lower with this chance, and their chances."""
    sigma = math.sqrt(variance)
    low, high = -sigma * math.sqrt((1 - chance) / chance), sigma * math.sqrt(chance / (1 - chance))
    return mean + np.array([low, high]), np.array([chance, 1 - chance])


def outcomes(shape, laws):
    """The chance of everything that can happen, and counts, sums and scatter of it. (n), (A, n) each"""
    chance, sums, scatter = np.ones(1), [], []
    for rows, (values, chances) in zip(shape, laws, strict=True):
        every = np.array(list(itertools.product((0, 1), repeat=rows)))
        sums.append(values[every].sum(axis=1))
        scatter.append(((values[every] - values[every].mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
        chance = np.outer(chance, chances[every].prod(axis=1)).reshape(-1)
    sums, scatter = (
        np.stack([each.reshape(-1) for each in np.meshgrid(*found, indexing="ij")]) for found in (sums, scatter)
    )
    return chance, sums, scatter


def part_of(shape, sums, scatter, freedom=7.0, past=11.0) -> PartsData:
    """One part, with one column for each outcome, after a past of some rows."""
    wide = np.ones(sums.shape)
    before = Past(wide * (freedom + 1), wide * 0.3, wide * past, wide * freedom, ())
    return PartsData(before, (np.array(shape, dtype=float)[:, None] * wide)[None], sums[None], scatter[None])


@pytest.mark.parametrize("behind", [0.0, 0.4, 3.0, 40.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("squares", [True, False], ids=["squares", "sums"])
def test_the_mean_of_a_bet_is_at_most_1(shape, behind, squares) -> None:
    """Of a pair with a margin, of a form of three arms, of a level: rare large values, true means within the null."""
    noise, margin, closest = BoundedVariance(2.0), 0.25, 0.0
    for chance, share in itertools.product(ODDS, (1.0, 0.1)):
        laws = [two_points(chance, margin - behind, 2.0 * share), two_points(1 - chance, 0.0, 2.0 * share)]
        law, sums, scatter = outcomes(shape, laws)
        n = law.size
        data = part_of(shape, sums, scatter)
        if not squares:
            data = PartsData(data.before, data.counts, data.totals)
        means = sums / np.array(shape)[:, None]
        places, bets = [np.arange(n)[None], n + np.arange(n)[None]], noise.part_bets(data)
        value, leverage = (means[0] - means[1] - margin)[None], np.ones((1, n))
        pair = bets.forms(PartForm(places, None, np.full((1, n), margin)), value, leverage)
        factors = [np.full((1, n), 2.0), np.full((1, n), -0.5)]
        other = bets.forms(PartForm(places, factors, np.zeros((1, n))), (2 * means[0] - means[1] / 2)[None], leverage)
        above = bets.levels(places[0], np.ones((1, n)), (means[0] - margin)[None], leverage, margin)
        below = bets.levels(places[1], -np.ones((1, n)), (-behind - means[1])[None], leverage, -behind)
        for size in SIZES:
            q = np.full(n, size)
            found = [(law * np.exp(each(0, q))).sum() for each in (pair, above)]
            if behind >= margin:  # 2 mu_a <= mu_b/2
                found.append((law * np.exp(other(0, q))).sum())
            assert max(found) <= 1 + 1e-12
            if behind == 0:
                closest = max(closest, (law * np.exp(below(0, q))).sum(), *found)
    if behind == 0:
        assert 0.99 < closest <= 1 + 1e-12


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bets_on_whole_batches(shape) -> None:
    """Those of bounds and of budgets, for a pair and a level, have a mean of at most 1; those of bounds fall."""
    noise, margin = BoundedVariance(2.0), 0.25
    factors = np.array([[1.0, -1.0], [1.0, 0.0]])
    for chance in ODDS:
        law, sums, scatter = outcomes(shape, [two_points(chance, margin, 2.0), two_points(1 - chance, 0.0, 2.0)])
        n = law.size
        pieces = Halfspaces(np.array([[0, 1], [0, 1]]), factors, np.full(2, margin), False)
        batch = Batch(np.broadcast_to(np.array(shape, dtype=float), (n, 2)), sums.T.copy(), scatter.T.copy())
        past = Past.none((n, 2))
        bet = noise.fixed_size_bet(past, batch, pieces, np.ones((n, 2)), np.array([0.2, 1, 5, 40])[:, None, None])
        assert ((law[:, None] * np.exp(bet(np.full((n, 2), margin)))).sum(axis=1) <= 1 + 1e-12).all()
        logs = np.stack([bet(np.full((n, 2), offset)) for offset in np.linspace(-30, 30, 41)])
        assert (np.diff(logs, axis=0) <= 1e-12).all()
        known = Estimates(past, np.zeros((n, 2)), noise.variance(past))
        for need in (0.1, 3.0, 50.0):
            whole = noise.budget_bet(known, batch, pieces, np.full((n, 2), need), np.full((n, 2), 0.5), 0.2)
            assert (law @ np.exp(whole) <= 1 + 1e-12).all()


def test_every_way_to_form_groups() -> None:
    """The mean of the log of the bet over all ways, one after the other, is the formula."""
    rng, (n, m), slope = np.random.default_rng(3), (5, 3), 0.4
    a, b = rng.standard_t(3, n), rng.standard_t(3, m)
    noise, found = BoundedVariance(2.0), []
    for of_a in itertools.permutations(range(n)):
        for of_b in itertools.permutations(range(m)):
            groups = [a[list(of_a[:2])].mean(), a[list(of_a[2:4])].mean(), a[of_a[4]]]
            y = slope / 3 * (np.array(groups) - b[list(of_b)])
            found.append((y - y * y / 6).sum() - slope**2 / 27 * 2.0 * (0.5 + 0.5 + 1 + 3))
    scatter = np.array([[n * a.var()], [m * b.var()]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_variance, "SIZES", (1,))  # three groups
        groups = form_groups(np.ones((2, 1)), np.array([[n], [m]], dtype=float), scatter, noise)
    assert groups.log_factor(np.array([slope]), np.array([a.mean() - b.mean()])) == pytest.approx(np.mean(found))


def test_what_is_refused_and_what_is_doubted() -> None:
    with pytest.raises(InputError, match="`max_variance` is -1"):
        BoundedVariance(-1.0)
    with pytest.raises(InputError, match="has no sigma"):
        _ = BoundedVariance(1.0).sigma
    assert BoundedVariance(4.0).doubt(SubGaussian(2.0)) is None
    assert BoundedVariance(4.0).doubt(Gaussian(2.1)) is not None
    assert BoundedVariance(4.0).doubt(Normal()) is not None


class Student(Arms):
    """Student's t with 3 degrees of freedom, of variance 3."""

    noise = BoundedVariance(3.0)
    sigma = math.sqrt(3.0)

    def pull(self, rng, world, pulls, needs="sums"):
        totals, scatter = np.zeros_like(pulls), np.zeros_like(pulls)
        for place in np.ndindex(pulls.shape):
            rows = rng.standard_t(3, int(pulls[place]))
            totals[place], scatter[place] = rows.sum(), rows.var() * rows.size if rows.size else 0.0
        return Batch(pulls, totals + pulls * world.means, scatter), world


@pytest.mark.long
def test_heavy_tails_are_told_apart_as_fast_as_normal_results() -> None:
    """A lead of half a deviation under Student's t; rare large values at a tie are rejected with at most delta."""
    lead = 0.5 * Student.sigma
    (runs,) = simulate(BestArm(), Student([lead, 0.0, 0.0]), [Wager()], runs=200, noise=BoundedVariance(3.0), seed=1)
    (normal,) = simulate(
        BestArm(),
        GaussianArms([lead, 0.0, 0.0], Student.sigma),
        [Wager()],
        runs=400,
        noise=BoundedVariance(3.0),
        seed=1,
    )
    assert runs.summary.error == 0
    assert runs.summary.samples_mean < 1.1 * normal.summary.samples_mean


def test_a_live_study_and_its_plan(tmp_path) -> None:
    """Told rows with heavy tails, the guarantee is kept; sums need squares; a plan assumes the largest variance."""
    rng = np.random.default_rng(8)
    with studies(tmp_path) as make:
        study = make(arms=("a", "b"), noise=NoiseOptions(max_variance=3.0).model(), round_size=120)
        study.ask()
        with pytest.raises(DataError, match="'bounded-variance' sums need the column 'squares'"):
            study.tell({"arm": ["a", "b"], "count": [60, 60], "total": [1.0, 2.0]})
        rows = rng.standard_t(3, 120) + np.tile([0.0, 1.5], 60)
        report = study.tell({"arm": ["a", "b"] * 60, "outcome": rows.tolist()})
        assert [each.code for each in report.guarantee.conditions] == ["seed_chosen"]
        assert "b is best" in report.headline
        same_when_read_again(study)
    found = plan(BestArm(), arms=2, noise=BoundedVariance(3.0), baseline=0, leads="1", runs=20)
    assert found.rows
    with pytest.raises(InputError, match="must leave their variance open"):
        make(noise=BoundedVariance(1.0), columns=Columns(id="user", covariate="before"))
