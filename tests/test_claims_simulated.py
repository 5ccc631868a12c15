"""Claims in simulations: rounds within a budget, who is fed, what is shown and how often anything false is."""

import math

import numpy as np
import pytest

from roundwise import (
    PET,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    InputError,
    Normal,
    Poisson,
    Problem,
    SubGaussian,
    Wager,
    simulate,
)
from roundwise.arrays import tree_take
from roundwise.environments import PoissonArms, Replay
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.policies import ConditionalPower, RoundRobin, Rounds, TriBBAI
from roundwise.questions import Claims
from roundwise.rules.eprocess.claims import ClosedTestingRule

ACR20 = [0.36, 0.34, 0.47, 0.465, 0.537]  # responders on placebo and four doses


def shown(means, runs, budget, delta=0.025, world=BernoulliArms, claims=None, seed=1, noise=None, eta=0.2, **rounds):
    claims = Claims.against_control(len(means), 0) if claims is None else claims
    policy = Rounds(ConditionalPower(eta=eta), budget=budget, **rounds)
    (found,) = simulate(claims, world(means), [policy], runs=runs, delta=delta, seed=seed, noise=noise)
    return found


class TestRounds:
    def plans(self, policy, problem, results=lambda pulls: pulls * 0.0):
        trial = begin(problem, policy)
        found = []
        while not trial.done and trial.plan.pulls.any():
            found.append(trial.plan)
            trial = advance(problem, policy, trial, Batch(trial.plan.pulls, results(trial.plan.pulls)))
        return found

    def test_a_rest_below_half_a_round_is_added_to_the_last_one(self):
        problem = Problem(Claims.against_control(5, 0), 5, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=600, round_size=65, split=(2, 1, 1, 1, 1))
        found = self.plans(policy, problem, lambda pulls: np.floor(pulls * [0.3, 0.3, 0.4, 0.4, 0.45]))
        assert [each.pulls.sum() for each in found] == [65.0] * 8 + [80.0]
        assert [each.left for each in found] == [600 - 65 * i for i in range(1, 9)] + [0.0]
        assert [bool(each.last) for each in found] == [False] * 8 + [True]
        assert sum(each.pulls for each in found).tolist() == [200, 100, 100, 100, 100]

    def test_a_split_is_kept_up_to_rounding_whatever_came_back(self):
        problem = Problem(Claims.against_control(3, 0), 3, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=300, round_size=30, split=(2, 1, 1))
        trial = begin(problem, policy)
        assert trial.plan.pulls.tolist() == [15, 8, 7]
        trial = advance(problem, policy, trial, Batch(np.array([15.0, 2.0, 7.0]), np.array([5.0, 1.0, 3.0])))
        assert trial.plan.left == 300 - 24 - 30
        assert trial.plan.pulls.tolist() == [12, 12, 6]  # 27, 13.5 and 13.5 in all

    @pytest.mark.parametrize(
        "policy", [Wager(), PET(), RoundRobin(), TriBBAI(), ConditionalPower()], ids=lambda each: each.name
    )
    @pytest.mark.parametrize("most", [1, 7, 100, 2000])
    def test_a_limit_of_samples_is_kept_exactly(self, policy, most):
        question = Claims.against_control(3, 0) if policy.name == "conditional-power" else BestArm()
        (runs,) = simulate(question, GaussianArms([0.01, 0.0, 0.0]), [policy], runs=20, max_samples=most)
        assert (runs.samples <= most).all()
        assert (runs.samples > most - 3)[~runs.decided].all()  # arms that are alike get the same

    @pytest.mark.parametrize("policy", [Wager(), PET(), TriBBAI()], ids=lambda each: each.name)
    def test_a_limit_that_is_not_reached_changes_nothing(self, policy):
        one, other = (
            simulate(BestArm(), GaussianArms([0.5, 0.0, 0.1]), [policy], runs=50, max_samples=most)[0]
            for most in (np.inf, 1e9)
        )
        assert one.decided.all()
        assert one.samples.tolist() == other.samples.tolist()
        assert one.answer.tolist() == other.answer.tolist()

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (lambda: Rounds(PET(), round_size=30), "'pet'"),
            (lambda: Rounds(Wager(), split=(1, 1)), "split"),
            (lambda: Rounds(Wager(), budget=2), "budget"),
            (lambda: Rounds(Wager(), round_size=0), "`round_size` is 0"),
            (lambda: Rounds(Wager(), split=(0, 0, 0)), "`split` is"),
            (lambda: ConditionalPower(), "'best-arm'"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, policy, message):
        with pytest.raises(InputError, match=message):
            policy().check(Problem(BestArm(), 3))

    def test_wager_says_whose_question_it_is(self):
        with pytest.raises(InputError, match="use the policy 'conditional-power'"):
            Wager().check(Problem(Claims.against_control(3, 0), 3))


class TestRuns:
    @pytest.mark.long
    @pytest.mark.parametrize(
        ("world", "noise"),
        [
            (GaussianArms, Gaussian(1.0)),
            (GaussianArms, SubGaussian(1.0)),
            (GaussianArms, Normal()),
            (BernoulliArms, Binary()),
            (PoissonArms, Poisson()),
            (None, Bounded(0.0, 2.0)),
        ],
        ids=lambda each: getattr(each, "name", ""),
    )
    @pytest.mark.parametrize("budget", [None, 900])
    @pytest.mark.parametrize("kind", ["control", "margin", "futility", "two", "levels", "pairs", "ratio"])
    def test_every_model_and_kind_of_claim_shows_what_is_true(self, world, noise, budget, kind):
        """With and without a budget; a cross product, small."""
        means = [0.2, 0.25, 0.9]
        claims = {
            "control": Claims.against_control(3, 0),
            "margin": Claims.against_control(3, 0, 0.1),
            "futility": Claims.against_control(3, 0, 0.1, futility=0.4),
            "two": Claims.against_control(3, 0, 0.2, sides="two"),
            "levels": Claims.above(3, 0.5),
            "pairs": Claims.pairs(3),
            "ratio": Claims.against_control(3, 0, 1.5, scale="ratio"),
        }[kind]
        if world is None:
            counts = np.array([[80, 20, 0], [75, 25, 0], [10, 90, 0]])
            env = Replay(("a", "b", "c"), np.array([0.0, 1.0, 2.0]), counts)
        else:
            env = world(means)
        policy = ConditionalPower() if budget is None else Rounds(ConditionalPower(), budget=budget)
        (runs,) = simulate(claims, env, [policy], runs=12, delta=0.05, noise=noise, max_samples=4000)
        assert runs.correct.sum() >= 11 or not runs.decided.all()
        assert runs.true_shown.mean() > 0.8
        assert runs.doubt is None

    def test_a_run_is_the_same_alone_and_among_others(self):
        """Bit for bit: one run of the block computed by itself from the same results."""
        claims = Claims.against_control(5, 0, futility=0.15)
        problem = Problem(claims, 5, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=400, round_size=50)
        rng = np.random.default_rng(1)
        together, alone = begin(problem, policy, (7,)), begin(problem, policy)
        for _ in range(8):
            batch = Batch(together.plan.pulls, rng.binomial(together.plan.pulls.astype(int), ACR20).astype(float))
            one = Batch(batch.counts[3], batch.totals[3])
            together, alone = advance(problem, policy, together, batch), advance(problem, policy, alone, one)
            np.testing.assert_array_equal(tree_take(together, np.array([3])).kept.gains[0], alone.kept.gains)
            np.testing.assert_array_equal(together.plan.pulls[3], alone.plan.pulls)
            np.testing.assert_array_equal(together.kept.chances[3], alone.kept.chances)

    def test_what_was_shown_stays_although_another_sign_changes(self):
        """One dose wins early; then its rows turn, and another dose's sign flips: the claim stays, and is dated."""
        problem = Problem(Claims.against_control(3, 0), 3, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=2000, round_size=300, split=(1, 1, 1))
        trial = begin(problem, policy)
        trial = advance(problem, policy, trial, Batch(np.full(3, 100.0), np.array([10.0, 12.0, 70.0])))
        trial = advance(problem, policy, trial, Batch(np.full(3, 100.0), np.array([10.0, 12.0, 70.0])))
        assert trial.kept.shown.tolist() == [False, True]
        when = trial.kept.samples.tolist()
        for _ in range(3):
            trial = advance(problem, policy, trial, Batch(np.full(3, 100.0), np.array([60.0, 5.0, 2.0])))
        assert trial.kept.shown.tolist() == [False, True]
        assert trial.kept.samples.tolist() == when == [0, 600] or when == [0, 300]

    def test_why_it_stopped(self):
        rule = ClosedTestingRule()
        problem = Problem(Claims.against_control(2, 0), 2, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=400, round_size=100)

        def after(*totals):
            trial = begin(problem, policy)
            for each in totals:
                assert not trial.done
                trial = advance(problem, policy, trial, Batch(np.full(2, 50.0), np.array(each, dtype=float)))
            return rule.why(problem, trial)

        assert after([10, 20]) is None
        assert after([2, 48]) == "all claims are shown"
        assert after([20, 22], [20, 24], [22, 24], [20, 23]) == "the budget is used"
        assert after([45, 3]) == "nothing more is to be expected of the results that are left"

    def test_hopeless_doses_are_not_fed_and_may_come_back(self):
        problem = Problem(Claims.against_control(4, 0), 4, 0.025, Binary())
        policy = Rounds(ConditionalPower(), budget=800, round_size=100)
        trial = begin(problem, policy)
        assert (trial.plan.pulls > 0).all()
        trial = advance(problem, policy, trial, Batch(np.full(4, 25.0), np.array([10.0, 1.0, 16.0, 15.0])))
        assert trial.plan.pulls[1] == 0  # far below the control
        assert (trial.plan.pulls[[0, 2, 3]] > 0).all()
        assert trial.kept.chances[0] < 0.01
        pulls = trial.plan.pulls
        trial = advance(
            problem, policy, trial, Batch(pulls, np.floor(pulls * [0.02, 0.0, 0.9, 0.9]))
        )  # both others are shown
        assert trial.kept.shown.tolist() == [False, True, True]

    def test_the_control_gets_the_square_root_of_the_number_fed(self):
        problem = Problem(Claims.against_control(10, 0), 10, 0.025, Binary())
        first = Rounds(ConditionalPower(), budget=1200, round_size=120).first(problem, ())
        assert first.pulls.sum() == 120
        assert first.pulls.tolist() == [30] + [10] * 9

    def test_cash_that_is_kept_from_a_last_bet(self):
        problem = Problem(Claims.against_control(2, 0), 2, 0.025, Binary())
        for cash in (0.0, 0.02):
            policy = Rounds(ConditionalPower(reserve=cash), budget=100)
            trial = begin(problem, Rounds(policy.policy, budget=100, round_size=100))
            after = advance(problem, policy, trial, Batch(np.full(2, 50.0), np.array([20.0, 21.0])))
            np.testing.assert_allclose(np.exp(after.kept.gains), [cash])


class TestNumbers:
    """Small versions of the tables in docs/against-a-control.md; `benchmarks/claims.py` has the large ones."""

    @pytest.mark.parametrize(
        ("means", "world", "budget", "rounds", "expected"),
        [
            (ACR20, BernoulliArms, 600, {"round_size": 65, "split": (2, 1, 1, 1, 1)}, 1.09),
            (ACR20, BernoulliArms, 600, {"round_size": 65}, 1.38),
            ([0, 0, 0.1, 0.2, 0.3, 0.5], GaussianArms, 1000, {}, 2.30),
        ],
        ids=["ACR20 fixed split", "ACR20 own split", "normal own split"],
    )
    def test_true_claims_shown(self, means, world, budget, rounds, expected):
        found = shown(means, 1500, budget, world=world, **rounds)
        error = found.true_shown.std() / math.sqrt(1500)
        assert found.true_shown.mean() > expected - 3 * error - 0.03
        assert found.true_shown.mean() < expected + 0.15  # more would be too good to be true

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("means", "world", "delta", "rounds"),
        [
            ([0.0] * 6, GaussianArms, 0.05, {"split": (2, 1, 1, 1, 1, 1)}),
            ([0.0] * 6, GaussianArms, 0.05, {}),
            ([0.0, 0.0, 0.0, 0.0, 0.3, 0.3], GaussianArms, 0.05, {}),
            ([0.0, 0.0, 1.0, 1.0, 1.0, 1.0], GaussianArms, 0.05, {}),
            ([0.36] * 5, BernoulliArms, 0.025, {"round_size": 65, "split": (2, 1, 1, 1, 1)}),
            ([0.1] * 5, BernoulliArms, 0.025, {"round_size": 65}),
            ([0.36, 0.36, 0.6, 0.6, 0.6], BernoulliArms, 0.025, {"round_size": 65}),
        ],
        ids=str,
    )
    def test_the_familywise_error(self, means, world, delta, rounds):
        found = shown(means, 2000, 600, delta=delta, world=world, **rounds)
        assert (~found.correct).mean() < delta + 3 * math.sqrt(delta * (1 - delta) / 2000)

    @pytest.mark.long
    def test_the_familywise_error_of_statistics_of_every_kind(self):
        """t scores, ratios of counts, margins on odds and on differences, at the border of their nulls."""
        cases = [
            ([0.0] * 4, GaussianArms, Normal(), Claims.against_control(4, 0)),
            ([1.0, 1.5, 1.5, 1.5], PoissonArms, Poisson(), Claims.against_control(4, 0, 1.5, scale="ratio")),
            ([0.2] + [1 / 3] * 3, BernoulliArms, Binary(), Claims.against_control(4, 0, 2.0, scale="odds-ratio")),
            ([0.2, 0.3, 0.3, 0.3], BernoulliArms, Binary(), Claims.against_control(4, 0, 0.1)),
            ([0.2, 0.2, 0.3, 0.2], BernoulliArms, Binary(), Claims.against_control(4, 0, sides="two")),
            ([0.0, 0.2, 0.0, 0.2], GaussianArms, Gaussian(1.0), Claims.against_control(4, 0, futility=0.2)),
        ]
        for means, world, noise, claims in cases:
            found = shown(means, 1500, 400, delta=0.05, world=world, claims=claims, noise=noise, round_size=40)
            assert (~found.correct).mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1500), claims
