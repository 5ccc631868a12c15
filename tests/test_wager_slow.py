"""Long studies of Wager: errors on boundaries from 20 000 runs and more, tails from 100 000 (`make slow`).

`kept` is the exact binomial test of test_wager: a false alarm has probability at most 1e-5 each, below 3e-3 in all.
"""

import numpy as np
import pytest

from roundwise import BestArm, Problem, SubGaussian, Wager, simulate
from test_wager import (
    BOUNDARIES,
    CELLS,
    FIGURES,
    NOISES,
    PAPER,
    SIGMA_1,
    a_piece_rejected,
    arm_0_rejected,
    at_boundary,
    kept,
    piece_of_arm_0_rejected,
    play,
)

pytestmark = pytest.mark.slow

RUNS = 20_000

# every question with every noise at four arms; then other numbers of arms, first batches and deltas
DEEP = [
    (boundary, noise, *setting)
    for boundary in ("best arm, tie", "above, on the level", "minimum on the level: no")
    for noise in NOISES
    for setting in ((2, 1, 0.3), (2, 30, 0.05), (30, 4, 0.3))
]
DEEP += [("top-k, tie", noise, 5, 1, 0.3) for noise in NOISES]


WEIGHTED = (a_piece_rejected, piece_of_arm_0_rejected)


def happened(boundary, noise, arms, first, delta, runs=RUNS, batches=8, growth=2.0):
    """In how many runs, computed a thousand at a time."""
    block = 1000
    return sum(
        at_boundary(boundary, noise, arms, first, delta, block, batches, seed, growth=growth)
        for seed in range(100, 100 + runs // block)
    )


@pytest.mark.parametrize(("boundary", "noise"), CELLS)
def test_every_question_with_every_noise(boundary, noise):
    assert kept(happened(boundary, noise, 4, 8, 0.05), RUNS, 0.05)


@pytest.mark.parametrize(("boundary", "noise", "arms", "first", "delta"), DEEP)
def test_arms_first_batches_and_deltas(boundary, noise, arms, first, delta):
    batches = 6 if arms == 30 else 10
    assert kept(happened(boundary, noise, arms, first, delta, batches=batches), RUNS, delta)


@pytest.mark.parametrize("noise", ["sub-Gaussian, two-point", "exactly Gaussian", "unknown variance", "rates of 0.01"])
@pytest.mark.parametrize("boundary", ["best arm, tie", "above, on the level", "minimum on the level: yes"])
def test_small_deltas(boundary, noise):
    assert kept(happened(boundary, noise, 3, 8, 0.002, runs=50_000), 50_000, 0.002)


@pytest.mark.parametrize("noise", ["sub-Gaussian, two-point", "exactly Gaussian", "unknown variance"])
def test_many_small_batches(noise):
    """Twenty-five looks."""
    assert kept(happened("best arm, tie", noise, 2, 10, 0.05, batches=25, growth=0.3), RUNS, 0.05)


@pytest.mark.parametrize("boundary", [name for name in BOUNDARIES if BOUNDARIES[name][1] not in WEIGHTED])
def test_half_of_sigma_is_caught(boundary):
    """At delta 0.05; candidates pay for their number, so that more is needed there (test_wager has it)."""
    _, mean, world_of = NOISES["sub-Gaussian, normal"]
    asked, event, _ = BOUNDARIES[boundary]
    problem = Problem(asked(2, mean), 2, 0.05, SubGaussian(0.5))
    ended = play(problem, Wager(first_pulls=8), world_of(np.zeros(2)), RUNS, 10, 1, event(problem))
    assert not kept(int(ended.happened.sum()), RUNS, 0.05)


@pytest.mark.parametrize("name", ["minimum", "equal gaps", "paper", "two arms"])
def test_tails(name):
    """No run of 100 000 fails to stop, and at most one in a thousand needs more than 40 times the bound."""
    question, environment, noise, *_ = FIGURES[name]
    (runs,) = simulate(question, environment, [Wager()], runs=100_000, noise=noise, seed=3, max_batches=200)
    assert runs.decided.all()
    assert np.quantile(runs.samples / runs.lower_bound, 0.999) < 40
    assert kept(int((~runs.correct).sum()), 100_000, 0.005)


def test_the_level_is_used_but_not_exceeded():
    """Exactly Gaussian bets on two arms, many batches: close to delta from below."""
    times = happened("best arm, tie", "exactly Gaussian", 2, 30, 0.05, batches=25)
    assert kept(times, RUNS, 0.05)
    assert times / RUNS > 0.025


def test_small_deltas_cost_little_more_than_the_bound():
    (runs,) = simulate(BestArm(), PAPER, [Wager()], runs=5000, delta=1e-10, noise=SIGMA_1)
    assert runs.summary.samples_over_lower_bound < 1.7
    assert runs.correct.all()


def test_the_true_best_arm_stays_among_those_left():
    """Not only at ties: ten arms, the best by little, at every time."""
    problem = Problem(BestArm(), 10, 0.05, SIGMA_1)
    means = np.array([0.02] + [0.0] * 9)
    _, _, world_of = NOISES["sub-Gaussian, two-point"]
    ended = play(problem, Wager(first_pulls=4), world_of(means), RUNS, 9, 1, arm_0_rejected(problem))
    assert kept(int(ended.happened.sum()), RUNS, 0.05)
