"""What each policy of the papers owes to its paper."""

import math

import numpy as np
import pytest

from roundwise import (
    PET,
    BestArm,
    GaussianArms,
    InputError,
    Problem,
    RoundRobin,
    SubGaussian,
    TopK,
    TrackAndStop,
    simulate,
)
from roundwise.environments import RandomGaps
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin, final_answer
from roundwise.policies import OptBBAI, TriBBAI
from roundwise.policies.base import filled
from roundwise.policies.paper import _sufficient
from roundwise.rules import Lemma32
from test_policies import played


class TestPET:
    problem = Problem(BestArm(), arms=10, delta=0.05)

    # docs/baselines.md: totals after the uniform batch of phase r = 0, 1, ...
    TOTALS = {
        10: [710, 1850, 4580, 10940, 25420, 57930, 130050, 288490, 633750, 1381070, 2989260],
        2: [90, 268, 710, 1776, 4260, 9938, 22714, 51106],
    }

    @pytest.mark.parametrize("arms", TOTALS)
    def test_uniform_totals(self, arms):
        problem = Problem(BestArm(), arms=arms)
        totals = [arms * np.ceil(PET().explored(problem, r)) for r in range(len(self.TOTALS[arms]))]
        assert totals == self.TOTALS[arms]

    def test_the_radius_is_sigma_over_sqrt_8_T(self):
        for growth in (2.0, 1.3):
            policy = PET(guess=3.0, growth=growth)
            problem = Problem(BestArm(), arms=7, noise=SubGaussian(2.5))
            for r in range(6):
                assert policy.radius(problem, r) == pytest.approx(2.5 / np.sqrt(8 * 3.0 * growth**r), rel=1e-12)

    @pytest.mark.parametrize(
        ("arms", "values"), [(10, {0: 64.234, 5: 77.106, 10: 84.356}), (2, {0: 15.103, 5: 17.910, 10: 19.381})]
    )
    def test_gamma_as_in_the_text_of_the_paper(self, arms, values):
        """docs/baselines.md lists gamma for tbar = K 2^r l + gamma T_r; our tbar is larger (docs/paper.md)."""
        problem = Problem(BestArm(), arms=arms, delta=0.05)
        for r, expected in values.items():
            text = _sufficient(Lemma32(), problem, arms * float(PET().explored(problem, r)), 2.0**r)
            assert text == pytest.approx(expected, abs=5e-4)
            assert PET().sufficient(problem, r) >= text

    @pytest.mark.parametrize("growth", [2.0, 1.5, 3.0])
    def test_gamma_covers_every_way_to_reach_the_end_of_a_phase(self, growth):
        """All second batches of phases 0..r entered, each of gamma_s T_s pulls and K for rounding up."""
        policy, problem = PET(growth=growth), Problem(BestArm(), arms=6, delta=1e-4)
        for r in range(12):
            second = sum(policy.sufficient(problem, s) * growth**s + 6 for s in range(r + 1))
            pulls = 6 * np.ceil(policy.explored(problem, r)) + second
            assert policy.sufficient(problem, r) >= Lemma32().at(problem, pulls)

    def test_the_second_batch_stops_under_the_good_event(self):
        """Lemma 3.7: if the means stay in the ball, the second batch ends it (delta so small that it is entered)."""
        problem = Problem(BestArm(), arms=4, delta=1e-300)
        trial = begin(problem, PET(), ())
        means = np.array([1.0, 0.2, 0.1, 0.0])
        entered = False
        for _ in range(40):
            trial = advance(problem, PET(), trial, Batch(trial.plan.pulls, trial.plan.pulls * means))
            if trial.plan.memory.second:
                entered = True
                assert not trial.done  # not tested in the middle of a phase
            elif entered:
                break
        assert entered
        assert trial.done

    def test_the_second_batch_follows_the_worst_case_weights(self):
        policy = PET(exploration=2.0)
        problem = Problem(BestArm(), arms=4, delta=0.05)
        means = np.array([1.0, 0.2, 0.1, 0.0])
        trial = begin(problem, policy, ())
        while not trial.plan.memory.second:
            phase = int(trial.plan.memory.phase)
            trial = advance(problem, policy, trial, Batch(trial.plan.pulls, trial.plan.pulls * means))
        worst = BestArm().complexity(means, policy.radius(problem, phase), 1.0)
        assert worst.value <= 2.0**phase
        expected = np.ceil(policy.sufficient(problem, phase) * worst.weights * worst.value)
        np.testing.assert_allclose(trial.plan.pulls, expected, atol=1)

    def test_the_guess_moves_the_first_phase(self):
        few = simulate(BestArm(), GaussianArms([1.0, 0.8, 0.7]), [PET(guess=64.0)], runs=200)[0]
        many = simulate(BestArm(), GaussianArms([1.0, 0.8, 0.7]), [PET()], runs=200)[0]
        assert few.batches.mean() < many.batches.mean() - 4

    @pytest.mark.parametrize("fields", [{"guess": 0.5}, {"growth": 1.0}, {"exploration": 0.0}])
    def test_impossible_constants(self, fields):
        with pytest.raises(InputError, match="but must be"):
            PET(**fields)


class TestTrackAndStop:
    def test_filled_by_brute_force(self):
        """max(lower, wanted - c) summing to the amount, with c found by bisection."""
        rng = np.random.default_rng(1)
        for _ in range(200):
            arms = rng.integers(2, 12)
            lower, wanted = rng.uniform(0, 10, arms), rng.uniform(0, 30, arms)
            amount = rng.uniform(0.5, 2) * lower.sum()
            low, high = -1e3, 1e3
            for _ in range(200):
                c = (low + high) / 2
                low, high = (c, high) if np.maximum(lower, wanted - c).sum() > amount else (low, c)
            expected = np.maximum(lower, wanted - c) if amount > lower.sum() else lower
            np.testing.assert_allclose(filled(lower, wanted, np.asarray(amount)), expected, atol=1e-9)

    @pytest.mark.parametrize("tracking", ["C", "D"])
    @pytest.mark.parametrize("forced", [True, False])
    def test_counts_follow_the_weights_on_the_grid(self, tracking, forced):
        policy = TrackAndStop(tracking=tracking, forced=forced)
        problem = Problem(BestArm(), arms=5, delta=1e-9)
        means = np.array([1.0, 0.95, 0.3, 0.0, -3.0])
        trial = begin(problem, policy, ())
        for r in range(12):
            trial = advance(problem, policy, trial, Batch(trial.plan.pulls, trial.plan.pulls * means))
            assert 900 * 2**r <= trial.record.samples <= 900 * 2**r * (1.02 if forced else 1) + 5 * (r + 1)
            if forced:
                assert (trial.record.counts >= np.sqrt(900 * 2**r) - 2.5).all()
        weights = BestArm().complexity(means).weights
        np.testing.assert_allclose(trial.record.counts / trial.record.samples, weights, atol=2e-3)

    def test_unknown_tracking(self):
        with pytest.raises(InputError, match="'D' or 'C'"):
            TrackAndStop(tracking="E")

    def test_impossible_grid(self):
        with pytest.raises(InputError, match="growth"):
            RoundRobin(growth=1.0)


class TestBBAI:
    problem = Problem(BestArm(), arms=10, delta=0.05)

    # docs/baselines.md: d_r for c = 32, 8, 2, 128 and r = 1, 2, 3
    @pytest.mark.parametrize(
        ("c", "pulls"),
        [
            (32, [24515, 109414, 464226]),
            (8, [6129, 27354, 116057]),
            (2, [1533, 6839, 29015]),
            (128, [98057, 437653, 1856901]),
        ],
    )
    def test_pulls_of_a_round(self, c, pulls):
        found = [OptBBAI(c=c).round_pulls(self.problem, np.array(float(r)), np.array(0.0)) for r in (1, 2, 3)]
        assert found == pulls

    def test_first_batches_are_the_theorem_form(self):
        """docs/baselines.md: L_1 = 2, L_2 = 1, L_3 = 9 at K = 10, delta = 0.05."""
        means = np.tile(np.linspace(0, 0.4, 10), (30, 1))
        history, _ = played(self.problem, TriBBAI(), means, range(30), batches=3)
        assert (history[0][0] == 2).all()
        assert (history[1][0] <= 1).all()
        assert ((history[0][0] + history[1][0] + history[2][0]) == 9).all()
        assert history[2][2].all()

    def test_elimination_drops_who_is_behind(self):
        problem = Problem(BestArm(), arms=3, delta=0.05)
        means = np.array([0.5, 0.45, 0.1])
        trial = begin(problem, OptBBAI(), ())
        seen = []
        while not trial.done:
            seen.append(trial.plan.pulls)
            trial = advance(problem, OptBBAI(), trial, Batch(trial.plan.pulls, trial.plan.pulls * means))
        # eps_1 = 1/8 drops the third arm; 1/16 keeps the second, 1/32 drops it
        assert [list(pulls > 0) for pulls in seen[2:]] == [[True] * 3, [True, True, False], [True, True, False]]
        assert final_answer(problem, OptBBAI(), trial) == 0

    def test_the_second_version_repeats_stage_two_until_its_weights_settle(self):
        """Batches whose means differ, so that the weights w*(b) move: they are followed by a plain program."""
        problem = Problem(BestArm(), arms=4, delta=1e-8)
        policy, goal = OptBBAI(version=2), problem.goal
        rng = np.random.default_rng(4)
        for _ in range(8):
            batches = [rng.normal([0.6, 0.4, 0.3, 0.0], spread) for spread in (0.6, 0.5, 0.4, *[0.0] * 12)]
            trial, weights, settled, seen = begin(problem, policy, ()), [], False, []
            for means in batches:
                asked = trial.plan.pulls
                seen.append(asked)
                trial = advance(problem, policy, trial, Batch(asked, asked * means))
                found = trial.record.means
                leads = np.arange(4) == found.argmax()
                best = BestArm().complexity(found + np.where(leads, -1, 1) / math.log(goal))
                weights.append(best.weights)
                settled = len(weights) > 1 and np.abs(weights[-1] - weights[-2]).max() <= 1 / math.sqrt(4)
                most = max(1.0, math.ceil(goal * math.log(goal) / 4))
                wanted = np.minimum(np.ceil(policy.alpha * goal * best.value * best.weights - 1e-6), most)
                np.testing.assert_array_equal(trial.plan.pulls, wanted)
                assert float(trial.plan.memory.stage) == (2.0 if settled else 3.0)
                if settled:
                    break
            assert settled
            (first, *_) = seen
            one = begin(problem, OptBBAI(), ())
            one = advance(problem, OptBBAI(), one, Batch(first, first * batches[0]))
            assert float(one.plan.memory.stage) == 2.0  # the first version pulls once

    def test_the_check_declares_an_arm_that_was_dropped_by_bad_luck(self):
        """The best arm is dropped in round 1 by a wrong batch; after many rounds on a near tie the check finds it."""
        problem, policy = Problem(BestArm(), arms=3, delta=0.05), OptBBAI(c=1.0)
        trial = begin(problem, policy, ())
        truth = np.array([1.0, 0.5, 0.5 - 1e-9])
        wrong = np.array([0.0, 0.5, 0.5])
        checked = False
        for step in range(40):
            means = wrong if step <= 2 else truth
            trial = advance(problem, policy, trial, Batch(trial.plan.pulls, trial.plan.pulls * means))
            if trial.done:
                break
            checked |= bool(trial.plan.memory.stage == 5)
        assert checked
        assert final_answer(problem, policy, trial) == 0

    @pytest.mark.parametrize("policy", [TriBBAI(), OptBBAI()])
    def test_for_best_arm_only(self, policy):
        with pytest.raises(InputError, match=r"'best-arm'.*'top-k'"):
            begin(Problem(TopK(2), arms=5), policy)

    @pytest.mark.parametrize("delta", [0.9, 0.5, 1e-10])
    def test_any_delta(self, delta):
        runs = simulate(BestArm(), GaussianArms([1.0, 0.0]), [TriBBAI(), OptBBAI()], runs=50, delta=delta)
        assert all(np.isfinite(each.samples).all() and each.decided.all() for each in runs)


def test_random_gaps_are_the_instances_of_the_paper():
    means = RandomGaps()(np.random.default_rng(0), 5000)
    assert (means[:, 0] == 1).all()
    assert 0.6 <= means[:, 1:].min() < 0.601
    assert 0.899 < means[:, 1:].max() <= 0.9
