"""Statements that compare arms: one cell for each pattern of which of them hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from roundwise import BernoulliArms, Binary, Gaussian, GaussianArms, Normal, Statements, SubGaussian, Wager, simulate
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem
from roundwise.rules.eprocess.candidates import CandidateEProcess
from roundwise.rules.eprocess.patterns import PatternEProcess, patterns_of
from roundwise.rules.eprocess.rule import EProcessRule, eprocess_for

CONTROL = Statements.against_control(3, 0, margin=0.1)
MEANS = np.array([0.0, 0.3, -0.2])  # the first statement holds, the second does not


def test_where_patterns_are_used():
    assert isinstance(eprocess_for(Problem(CONTROL, 3)), PatternEProcess)
    assert isinstance(eprocess_for(Problem(Statements.ranking(4), 4)), PatternEProcess)
    for question in (Statements.ranking(5), Statements([[1.0, -0.5, 0.0]], [0.0]), Statements([[1.0, 0.0]], [0.2])):
        assert isinstance(eprocess_for(Problem(question, question.forms.shape[1])), CandidateEProcess)
    assert not isinstance(eprocess_for(Problem(Statements.ranking(3, tolerance=0.1), 3)), PatternEProcess)
    assert patterns_of(2).tolist() == [list(each) for each in itertools.product((False, True), repeat=2)]


@pytest.mark.parametrize("noise", [Gaussian(1.0), SubGaussian(1.0)], ids=lambda each: each.name)
def test_bets_against_the_true_pattern_are_fair_and_others_win(noise):
    """Three batches as they are; the mean of the wealth against each pattern after them."""
    runs, rng, rule = 20_000, np.random.default_rng(4), EProcessRule()
    problem = Problem(CONTROL, 3, 0.05, noise)
    kept = rule.start(problem, (runs,))
    for each in (30.0, 40.0, 60.0):
        counts = np.full((runs, 3), each)
        batch = Batch(counts, counts * MEANS + np.sqrt(counts) * rng.standard_normal(counts.shape))
        kept = rule.fold(problem, kept, BatchPlan(counts, np.ones(runs, dtype=bool)), batch)
    wealth = np.exp(kept.wealth.gains)
    mean, error = wealth.mean(axis=0), wealth.std(axis=0) / np.sqrt(runs)
    true = (patterns_of(2) == [True, False]).all(axis=-1)
    assert (mean[true] <= 1 + 4 * error[true]).all()
    assert (mean[~true] > 1.2).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "world"),
    [
        (SubGaussian(1.0), GaussianArms([0.0, 0.5, -0.4])),
        (Normal(), GaussianArms([0.0, 0.5, -0.4])),
        (Binary(), BernoulliArms([0.4, 0.7, 0.2])),
    ],
    ids=("sub-gaussian", "normal", "binary"),
)
def test_it_answers_rightly_with_fewer_results_than_candidates(noise, world):
    class Candidates(EProcessRule):
        def eprocess(self, problem):
            return CandidateEProcess(shifts=True)

    found, before = (
        simulate(CONTROL, world, [Wager(stopping=rule)], runs=300, noise=noise, seed=2)[0]
        for rule in (EProcessRule(), Candidates())
    )
    assert (~found.correct).mean() <= 0.03
    assert found.samples.mean() < before.samples.mean()


@pytest.mark.slow
@pytest.mark.parametrize("means", [[0.0, 1e-6, -1e-6, 1e-6], [0.0, 1e-6, 0.5, -0.5]])
def test_errors_at_ties(means):
    (found,) = simulate(
        Statements.against_control(4, 0), GaussianArms(means), [Wager()], runs=20_000, noise=SubGaussian(1.0),
        max_batches=10,
    )  # fmt: skip
    assert (found.decided & ~found.correct).mean() <= 0.05
