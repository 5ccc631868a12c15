"""Wager with many arms: which leads are bet on, how wide batches may be, and that few are needed."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from roundwise import BestArm, GaussianArms, SubGaussian, Wager, simulate
from roundwise.model.batch import PARTS, Batch
from roundwise.model.problem import Problem, advance, begin
from roundwise.rules.eprocess.rule import eprocess_for

SIGMA_1 = SubGaussian(1.0)


def crowd(arms, near=60):
    """Arms that cannot be told apart at the top, and as many that are far behind."""
    return np.where(np.arange(arms) < near, 0.5 - 1e-5 * np.arange(arms), -0.5)


def after(policy, means, *counts):
    """A trial after batches of so many results of each arm, whose means are the true ones."""
    problem = Problem(BestArm(), means.size, noise=SIGMA_1)
    trial = begin(problem, policy)
    for each in counts:
        pulls = np.full(means.size, float(each))
        trial = advance(problem, policy, trial, Batch(pulls, pulls * means))
    return problem, trial


def test_a_thousand_arms_need_few_batches():
    """3.9 lower bounds in 6.4 batches (300 runs of seeds 911 to 913); with bets on every lead 5.3 in 7.5."""
    (runs,) = simulate(
        BestArm(), GaussianArms(np.linspace(1, 0, 1000)), [Wager()], runs=60, noise=SIGMA_1, max_batches=60, seed=3
    )
    assert runs.decided.all()
    assert runs.summary.batches_mean < 6.8
    assert runs.summary.samples_over_lower_bound < 4.4


class TestWidth:
    """A crowd is met by up to 6 times what was drawn; of more than 100 arms by 6 times their contenders over 25."""

    @pytest.mark.parametrize(("arms", "near", "counts", "widest"), [
        (100, 60, (200, 200), 6.0),
        (120, 60, (400,), 6.0),
        (120, 10, (200, 200), 6.0),
        (120, 60, (200, 200), None),
        (400, 200, (200, 200), 24.0),
    ])  # fmt: skip
    def test_contenders(self, arms, near, counts, widest):
        means = crowd(arms, near)
        problem, trial = after(Wager(), means, *counts)
        kept = trial.kept
        wanted = eprocess_for(problem).required_pulls(problem, kept).pulls
        if widest is None:
            widest = 6 * wanted.sum() ** 2 / (wanted**2).sum() / 25
            assert 8 < widest < 20
        doubt = -sum(math.log(NormalDist().cdf((means[0] - each) / math.sqrt(2 / 400))) for each in means[1:])
        apart = 1 - (1 / 400) / means.var(ddof=1)
        assert 0.4 * 10 * doubt * apart**4 > widest
        assert trial.plan.pulls.sum() == pytest.approx(widest * arms * 400, rel=0.01)

    @pytest.mark.parametrize("growth", [0.5, 6.0])
    def test_a_growth_that_is_said_is_kept(self, growth):
        _, trial = after(Wager(growth=growth), crowd(400, 200), 200, 200)
        assert trial.plan.pulls.sum() == pytest.approx(growth * 400 * 400, rel=0.01)


class TestGate:
    """Of more than 10 arms only clear leads are bet on, as long as it is unsure who leads."""

    @staticmethod
    def won(means, each=400, new=40):
        """What was won against each arm by a second batch in parts, of two runs."""
        problem = Problem(BestArm(), means.size, noise=SIGMA_1)
        trial = begin(problem, Wager(), (2,))
        counts = np.full((2, means.size), float(each))
        trial = advance(problem, Wager(), trial, Batch(counts, counts * means))
        assert not trial.kept.wealth.gains.any()
        rng, world = np.random.default_rng(5), GaussianArms(means)
        pulls = np.full((2, means.size), float(new))
        batch, _ = world.pull_parts(rng, world.initial_state(rng, 2), pulls, PARTS, 1, SIGMA_1.needs)
        return advance(problem, Wager(), trial, batch).kept.wealth.gains

    @pytest.mark.parametrize("arms", [12, 120])
    def test_near_rivals_are_let_alone(self, arms):
        found = self.won(crowd(arms, arms // 2))
        assert (found[:, : arms // 2] == 0).all()
        assert (found[:, arms // 2 :] > 0).mean() > 0.9

    def test_up_to_ten_arms_they_are_not(self):
        assert (self.won(crowd(10, 5))[:, :5] != 0).all()

    def test_nor_where_the_leader_is_sure_enough(self):
        """A lead of 1.5 standard errors over two arms: right with a chance of 0.87."""
        means = np.where(np.arange(120) < 3, 0.5, -0.5)
        means[0] += 1.5 * math.sqrt(2 / 400)
        assert (self.won(means)[:, 1:3] != 0).all()

    def test_nor_where_noise_alone_tells_arms_apart(self):
        noise = [0.05 * NormalDist().inv_cdf((i + 0.5) / 120) for i in range(120)]
        assert (self.won(np.array(noise)) != 0).mean() > 0.95
