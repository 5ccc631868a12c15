"""Intervals from the same bets: they hold at all times, and they say what the decision says."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binomtest

from roundwise import (
    Above,
    BernoulliArms,
    BestArm,
    Binary,
    Gaussian,
    GaussianArms,
    Poisson,
    PoissonArms,
    Problem,
    SubGaussian,
    TopK,
    UnknownVariance,
    Wager,
)
from roundwise.record import Batch, joined
from roundwise.runs import mapped
from roundwise.stopping.intervals import behind_best, leader_differences, mean_intervals
from roundwise.trial import advance, begin, conclusion


def studied(problem, environment, policy, seed, most=30):
    """One live trial with all its batches, the first in parts."""
    rng = np.random.default_rng(seed)
    world = environment.world(rng, 1)
    trial, batches = begin(problem, policy), []
    while not trial.done and len(batches) < most:
        edges = [np.floor(trial.plan.pulls * i / trial.plan.parts) for i in range(trial.plan.parts + 1)]
        parts = []
        for low, high in pairwise(edges):
            batch, _ = environment.pull(rng, world, (high - low)[None], problem.noise.needs)
            parts.append(mapped(lambda array: array[0], batch))
        batches.append(joined(parts) if len(parts) > 1 else parts[0])
        trial = advance(problem, policy, trial, batches[-1])
    return trial, batches


CASES = {
    "sub-gaussian": (SubGaussian(1.0), GaussianArms([1.0, 0.4, 0.2])),
    "gaussian": (Gaussian(1.0), GaussianArms([1.0, 0.4, 0.2])),
    "unknown variance": (UnknownVariance(), GaussianArms([1.0, 0.0, -0.5], sigma=2.0)),
    "binary": (Binary(), BernoulliArms([0.3, 0.1, 0.05])),
    "poisson": (Poisson(), PoissonArms([3.0, 2.0, 1.0])),
}


@pytest.mark.parametrize("case", CASES)
def test_an_arm_is_out_just_when_its_bound_is_positive(case):
    noise, environment = CASES[case]
    problem, policy = Problem(BestArm(), 3, delta=0.1, noise=noise), Wager()
    seen = set()
    for seed in range(4):
        _, batches = studied(problem, environment, policy, seed)
        for end in range(1, len(batches) + 1):
            part = begin(problem, policy)
            for batch in batches[:end]:
                part = advance(problem, policy, part, batch)
            bound = behind_best(problem, policy.stopping, batches[:end])
            np.testing.assert_array_equal(bound > 0, part.kept.won.lost)
            seen |= set(part.kept.won.lost.tolist())
    assert seen == {True, False}


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_at_every_time(case):
    """What was ever won counts, so the last interval lies within all before it: a miss at any time shows at the end."""
    noise, environment = CASES[case]
    problem, policy = Problem(BestArm(), 3, delta=0.2, noise=noise), Wager(growth=1.0)
    truth = environment.world(np.random.default_rng(0), 1).means[0]
    missed, wrong, runs = 0, 0, 15
    for seed in range(runs):
        _, batches = studied(problem, environment, policy, 100 + seed)
        found = mean_intervals(problem, policy.stopping, batches)
        assert (found.lower <= found.upper).all()
        missed += bool((truth[0] < found.lower[0]) | (truth[0] > found.upper[0]))
        wrong += bool(behind_best(problem, policy.stopping, batches)[1] > truth[0] - truth[1])
    assert binomtest(missed, runs, 0.2, alternative="greater").pvalue > 1e-3
    assert binomtest(wrong, runs, 0.2, alternative="greater").pvalue > 1e-3


def test_intervals_shrink_and_know_the_range():
    problem, policy = Problem(BestArm(), 2, delta=0.05, noise=Binary()), Wager(first_pulls=400)
    environment = BernoulliArms([0.02, 0.015])
    _, batches = studied(problem, environment, policy, 1, most=4)
    early = mean_intervals(problem, policy.stopping, batches[:1])
    late = mean_intervals(problem, policy.stopping, batches)
    assert ((early.lower >= 0) & (early.upper <= 1)).all()
    assert (late.upper - late.lower < early.upper - early.lower).all()


def test_behind_best_is_for_best_arm():
    with pytest.raises(TypeError, match="for best arm"):
        behind_best(Problem(TopK(1), 3), Wager().stopping, [])


@pytest.mark.parametrize("case", CASES)
def test_differences_from_the_leader(case):
    """They hold the true differences (a miss has probability at most delta) and tell the same story as the decision."""
    noise, environment = CASES[case]
    problem, policy = Problem(BestArm(), 3, delta=0.05, noise=noise), Wager()
    truth = environment.world(np.random.default_rng(0), 1).means[0]
    missed, runs = 0, 8
    for seed in range(runs):
        trial, batches = studied(problem, environment, policy, 200 + seed)
        found = leader_differences(problem, policy.stopping, batches)
        leader = int(trial.kept.known.means.argmax())
        assert (found.lower <= found.upper).all()
        assert found.lower[leader] == found.upper[leader] == 0
        outside = (truth[leader] - truth < found.lower) | (truth[leader] - truth > found.upper)
        missed += bool(outside[(leader + 1) % 3])
    assert binomtest(missed, runs, 0.05, alternative="greater").pvalue > 1e-3


def test_differences_do_not_see_a_shift_of_a_whole_batch():
    problem, policy = Problem(BestArm(), 3, noise=SubGaussian(1.0)), Wager()
    _, batches = studied(problem, GaussianArms([1.0, 0.8, 0.7]), policy, 5)
    shifted = [mapped(np.array, batch._replace(parts=())) for batch in batches]
    plain = [batch._replace(parts=()) for batch in batches]
    shifted = [b._replace(totals=b.totals + 5.0 * i * b.counts) for i, b in enumerate(shifted)]
    for one, other in zip(
        leader_differences(problem, policy.stopping, plain),
        leader_differences(problem, policy.stopping, shifted),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_differences_pay_for_the_choice_of_the_leader():
    """300 equal arms: the one that leads is the luckiest. Unpaid, a third of the intervals would miss 0."""
    problem, policy = Problem(BestArm(), 300, 0.2, Gaussian(1.0)), Wager()
    missed = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        batches = [Batch(np.full(300, 50.0), rng.normal(0.0, math.sqrt(50.0), 300)) for _ in range(12)]
        found = leader_differences(problem, policy.stopping, batches)
        missed.append(((found.lower > 1e-9) | (found.upper < -1e-9)).mean())
    assert np.mean(missed) < 0.2


@pytest.mark.parametrize("noise", [SubGaussian(1.0), UnknownVariance()], ids=lambda noise: type(noise).__name__)
def test_what_is_decided_about_a_level_is_outside_the_bounds(noise):
    """A study that says that an arm is above has the level below the lower bound of this arm, and so on."""
    problem, policy = Problem(Above(0.5), 3, 0.05, noise), Wager()
    for seed in range(20):
        trial, batches = studied(problem, GaussianArms([0.9, 0.2, 0.1]), policy, seed, most=30)
        assert trial.done
        found, above = mean_intervals(problem, policy.stopping, batches), conclusion(problem, policy, trial)
        assert (found.lower[above] >= 0.5 - 1e-6).all()
        assert (found.upper[~above] <= 0.5 + 1e-6).all()
        assert np.isfinite([found.lower, found.upper]).all()
