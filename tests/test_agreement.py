"""Whether batches agree: an independent fit, false alarms under adaptive sampling, and what must be seen."""

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from expectations import disagreement
from products import thinned
from roundwise import (
    PET,
    Above,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    Normal,
    Poisson,
    Problem,
    Wager,
    create_study,
)
from roundwise.arrays import tree_map
from roundwise.environments import PoissonArms, Replay
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.study.diagnostics import SURPRISING

FIVE = GaussianArms([0.3, 0.2, 0.1, 0.0, 0.0])
THIRDS = Replay(("a", "b", "c"), [0.0, 0.5, 1.0], [[10, 80, 10], [15, 80, 5], [20, 70, 10]])


def fitted(counts, totals, variance, shifts):
    """chi-squared and its degrees of freedom, by least squares on a design matrix."""
    batches, arms = counts.shape
    r, i = np.nonzero(counts)
    design = np.zeros((len(r), arms + (batches if shifts else 0)))
    design[np.arange(len(r)), i] = 1.0
    if shifts:
        design[np.arange(len(r)), arms + r] = 1.0
    root = np.sqrt(counts[r, i] / variance[i])
    means = totals[r, i] / counts[r, i]
    best = np.linalg.lstsq(design * root[:, None], means * root, rcond=None)[0]
    return float((((means - design @ best) * root) ** 2).sum()), len(r) - np.linalg.matrix_rank(design)


@pytest.mark.parametrize("shifts", [True, False])
def test_the_statistic_is_that_of_least_squares(shifts):
    rng = np.random.default_rng(5)
    counts = rng.integers(20, 300, (4, 5)).astype(float)
    counts[2, 1] = 0.0  # an arm without results in one batch
    totals = rng.normal(counts * [0.3, 0.1, 0.0, 0.2, 0.5], np.sqrt(counts) * 2.0)
    found = disagreement(Problem(BestArm(), 5, 0.05, Gaussian(2.0)), [*map(Batch, counts, totals)], shifts)
    square, freedom = fitted(counts, totals, np.full(5, 4.0), shifts)
    assert found.chance == pytest.approx(chi2.sf(square, freedom), rel=1e-6)

    rates = np.array([0.3, 0.05, 0.5, 0.6, 0.95])
    counts = counts * 10.0
    totals = rng.binomial(counts.astype(int), rates).astype(float)
    pooled = (totals.sum(0) + 0.5) / (counts.sum(0) + 1.0)
    found = disagreement(Problem(BestArm(), 5, 0.05, Binary()), [*map(Batch, counts, totals)], shifts)
    square, freedom = fitted(counts, totals, pooled * (1 - pooled), shifts)
    # variances are those known at each batch, not those of the end: the statistics differ by their estimates only
    assert found.chance == pytest.approx(chi2.sf(square, freedom), rel=0.1)


def chances(question, noise, world, moved=lambda rng, batch: batch, first=30, runs=150, seed=1):
    """The least chance over all looks at each of some studies by Wager."""
    rng, problem = np.random.default_rng(seed), Problem(question, world.arms, 0.05, noise)
    policy, least = Wager(first_pulls=first), np.ones(runs)
    for run in range(runs):
        trial, truth, batches = begin(problem, policy), world.initial_state(rng, 1), []
        while not trial.done and len(batches) < 12:
            batch, _ = world.pull(rng, truth, trial.plan.pulls[None], noise.needs)
            batches.append(moved(rng, tree_map(lambda array: array[0], batch)))
            trial = advance(problem, policy, trial, batches[-1])
            found = disagreement(problem, batches, shifts=isinstance(question, BestArm))
            least[run] = min(least[run], 1.0 if found is None else found.chance)
    return least


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "noise", "world", "first"),
    thinned(
        [
            (BestArm(), Normal(), FIVE, 30),
            (BestArm(), Gaussian(1.0), FIVE, 30),
            (BestArm(), Binary(), BernoulliArms([0.1, 0.08, 0.05, 0.05]), 100),
            (BestArm(), Binary(), BernoulliArms([0.02, 0.015, 0.01, 0.01]), 300),
            (Above(0.1), Gaussian(1.0), FIVE, 30),
            (BestArm(), Bounded(0.0, 1.0), THIRDS, 30),
            (BestArm(), Poisson(), PoissonArms([2.0, 1.8, 1.5]), 30),
        ],
        2,
    ),
)
def test_false_alarms_are_rare(question, noise, world, first):
    """At most one study in a hundred is warned of at any of its looks (p < SURPRISING each)."""
    alarms = int((chances(question, noise, world, first=first) < SURPRISING).sum())
    assert binomtest(alarms, 150, 0.01, alternative="greater").pvalue > 1e-4


class TestWhatMustBeSeen:
    @pytest.mark.long
    def test_shifts_of_single_arms(self):
        def moved(rng, batch):
            return batch._replace(totals=batch.totals + batch.counts * rng.normal(0, 0.3, 5), parts=None)

        assert (chances(BestArm(), Gaussian(1.0), FIVE, moved, runs=100) < SURPRISING).mean() > 0.6

    @pytest.mark.long
    def test_clusters(self):
        def moved(rng, batch):  # rows in clusters of the same value: four times the variance of a mean
            return batch._replace(totals=batch.totals + np.sqrt(3 * batch.counts) * rng.standard_normal(5), parts=None)

        assert (chances(BestArm(), Gaussian(1.0), FIVE, moved, runs=100) < SURPRISING).mean() > 0.6

    @pytest.mark.long
    def test_a_common_shift_matters_for_levels_only(self):
        def moved(rng, batch):
            return batch._replace(totals=batch.totals + batch.counts * rng.normal(0, 1.0), parts=None)

        assert (chances(BestArm(), Gaussian(1.0), FIVE, moved, runs=100) < SURPRISING).mean() < 0.05
        assert (chances(Above(0.1), Gaussian(1.0), FIVE, moved, runs=100) < SURPRISING).mean() > 0.8

    def test_the_arm_and_the_batch_that_stand_out(self):
        counts, totals = np.full((4, 3), 100.0), np.zeros((4, 3))
        totals[2, 1] = 100.0
        problem = Problem(BestArm(), 3, 0.05, Gaussian(1.0))
        for shifts in (True, False):
            found = disagreement(problem, [*map(Batch, counts, totals)], shifts)
            assert (found.arm, found.batch) == (1, 3)
            assert found.chance < 1e-6


def test_what_cannot_be_said():
    problem = Problem(BestArm(), 2, 0.05, Binary())
    batch = Batch(np.full(2, 100.0), np.full(2, 30.0))
    assert disagreement(problem, [], True) is None
    assert disagreement(problem, [batch], True) is None
    rare = Batch(np.full(2, 100.0), np.ones(2))  # too few events for a normal law
    assert disagreement(problem, [rare, rare], True) is None
    only_one = Batch(np.array([100.0, 0.0]), np.array([30.0, 0.0]))
    assert disagreement(problem, [batch, only_one], True) is None  # its shift could be anything
    assert disagreement(problem, [batch, only_one], False).chance == pytest.approx(1.0)


@pytest.mark.parametrize(("policy", "words"), [(None, "arms"), (PET(), "same arm differ")])
def test_the_report_warns(tmp_path, policy, words):
    options = {} if policy is None else {"policy": policy}
    with create_study(
        "s",
        question=BestArm(),
        arms=("a", "b", "c"),
        noise=Gaussian(1.0),
        storage=f"sqlite:///{tmp_path}/s.db",
        **options,
    ) as study:
        for b in (0.0, 2.0):
            pulls = dict(study.ask().table)
            rows = {"arm": [*pulls], "count": [*pulls.values()], "sum": [pulls["a"] * 0.1, pulls["b"] * b, 0.0]}
            report = study.tell(rows)
        (note,) = [each for each in report.warnings if "do not agree" in each]
        assert words in note
        assert "b in round" in note
        assert "the guarantee does not hold" in note
        assert note in study.report().text()


def test_the_report_says_that_all_arms_moved_together(tmp_path):
    """The decision does not mind; the means and their intervals do."""
    options = {
        "question": BestArm(),
        "arms": ("a", "b"),
        "noise": Gaussian(1.0),
        "storage": f"sqlite:///{tmp_path}/s.db",
    }
    with create_study("s", **options) as study:
        for shift in (0.0, 3.0):
            pulls = dict(study.ask().table)
            sums = [pulls["a"] * (shift + 0.1), pulls["b"] * shift]
            report = study.tell({"arm": ["a", "b"], "count": [pulls["a"], pulls["b"]], "sum": sums})
        assert [each for each in report.warnings if "All arms moved together" in each]
        assert not [each for each in report.warnings if "do not agree" in each]
