"""A number of batches that is planned for: the most of a design, and what Wager's last one is sized for."""

import math

import numpy as np
import pytest

from roundwise import BestArm, Binary, Claims, GaussianArms, InputError, Problem, SubGaussian, TopK, Wager, simulate
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.policies import Designed, Elimination, Rounds
from roundwise.study.spec import StudySpec

SIGMA_1 = SubGaussian(1.0)


def after_one_batch(policy, means=(0.3, 0.0), each=100):
    problem = Problem(BestArm(), len(means), 0.05, SIGMA_1)
    counts = np.full(len(means), float(each))
    return advance(problem, policy, begin(problem, policy), Batch(counts, counts * means)).plan.pulls


class TestWager:
    def test_the_last_batch_is_what_is_likely_to_be_enough_and_others_grow_towards_it(self):
        """Two arms, by hand: 8 ln(20)/lead^2 settles it, 1.5 times that if the lead is a standard error smaller."""
        z = 0.3 / math.sqrt(2 / 100)
        enough = 1.5 * 8 * math.log(20) / 0.3**2 * (z / (z - 1)) ** 2
        for looks, wanted in ((2, enough), (3, 200 * (math.sqrt(1 + enough / 200) - 1))):
            assert after_one_batch(Wager(looks=looks)).sum() == pytest.approx(wanted, rel=0.01)
        assert after_one_batch(Wager(looks=20)).tolist() == after_one_batch(Wager()).tolist()

    def test_a_lead_counts_as_half_a_standard_error_at_least(self):
        enough = 1.5 * 8 * math.log(20) / (2 / 100) * 4  # the lead itself counts as one
        assert after_one_batch(Wager(looks=2), (0.001, 0.0)).sum() == pytest.approx(enough, rel=0.01)

    def test_a_tolerance_ends_it_for_certain(self):
        problem, policy = Problem(BestArm(0.5), 3, 0.05, SIGMA_1), Wager(looks=2)
        counts = np.full(3, 30.0)
        trial = advance(problem, policy, begin(problem, policy), Batch(counts, np.zeros(3)))
        certain = policy.stopping.eprocess(problem).sufficient_pulls(problem)
        assert trial.plan.pulls.sum() == pytest.approx(3 * (certain + 1 - 30), rel=0.05)

    def test_a_budget_is_spent(self):
        policy = Rounds(Wager(looks=2), budget=900)
        assert after_one_batch(policy).sum() == 900 - 200

    def test_fewer_batches_are_needed(self):
        (few, usual) = simulate(
            BestArm(), GaussianArms([0.3, 0.0]), [Wager(looks=3), Wager()], runs=100, noise=SIGMA_1, seed=3
        )
        assert (few.batches <= 3).mean() > 0.85
        assert (usual.batches <= 3).mean() < (few.batches <= 3).mean()


@pytest.mark.parametrize("looks", [1, 2, 3, 5])
@pytest.mark.parametrize("lead", [None, 0.2])
def test_a_design_has_no_more_looks_than_said(looks, lead):
    world, runs = GaussianArms([0.05, 0.0, 0.0]), {"runs": 40, "noise": SIGMA_1, "seed": 1}
    (found,) = simulate(BestArm(), world, [Designed()], budget=3000, lead=lead, looks=looks, **runs)
    assert found.batches.max() <= looks
    assert found.samples[~found.decided].min() == 3000


class TestStudies:
    usual = {"question": BestArm(), "arms": ["a", "b"], "noise": SIGMA_1}

    def test_looks_without_a_budget_are_wagers(self):
        spec = StudySpec.declare(**self.usual, looks=4)
        assert spec.policy == Wager(looks=4)
        assert StudySpec.from_json(spec.to_json()) == spec
        assert StudySpec.declare(**self.usual, looks=4, budget=1000).policy == Designed(budget=1000, looks=4)

    @pytest.mark.parametrize(
        ("settings", "why"),
        [
            ({"looks": 1}, "One batch needs a budget"),
            ({"looks": 3, "policy": Elimination()}, "goes with the policies 'wager' and 'designed'"),
            ({"looks": 3, "question": Claims.against_control(("a", "b"), "a")}, "goes with the policies"),
            ({"lead": 0.1, "policy": Wager()}, "A lead goes with the policy 'designed'"),
            ({"lead": 0.1}, "A lead needs a budget"),
            ({"lead": 1.1, "budget": 900, "noise": Binary()}, "means differ by at most 1"),
            ({"lead": 0.1, "budget": 900, "question": BestArm(tolerance=0.01)}, "no design for 'best-arm' with a tol"),
            ({"lead": 0.1, "budget": 900, "question": TopK(5), "arms": list(map(str, range(30)))}, "of 30 arms"),
        ],
    )
    def test_what_is_refused(self, settings, why):
        with pytest.raises(InputError, match=why):
            StudySpec.declare(**self.usual | settings)
