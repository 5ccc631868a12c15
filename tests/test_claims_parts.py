"""Claims without a budget: bets on parts, averaged over partitions; claims that share no arm, multiplied."""

import itertools

import numpy as np
import pytest

from roundwise import (
    BernoulliArms,
    Binary,
    ConditionalPower,
    Gaussian,
    GaussianArms,
    InputError,
    Normal,
    Poisson,
    Problem,
    SubGaussian,
    simulate,
)
from roundwise.environments import PoissonArms
from roundwise.model.batch import Batch, partition_sums
from roundwise.model.problem import BatchPlan, advance, begin
from roundwise.questions import Claims
from roundwise.rules.eprocess import claims
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.closed_testing import reject_independent

RULE, RUNS = ClosedTestingRule(), 4000
NULLS = {  # claims at the borders of their nulls, a world, what is assumed
    "control, normal": (Claims.against_control(3, 0), GaussianArms([0.0] * 3), Gaussian(1.0)),
    "control, 0/1": (Claims.against_control(3, 0), BernoulliArms([0.3] * 3), Binary()),
    "control, 0/1, a margin": (Claims.against_control(2, 0, 0.1), BernoulliArms([0.3, 0.4]), Binary()),
    "control, counts": (Claims.against_control(3, 0), PoissonArms([2.0] * 3), Poisson()),
    "control, unknown deviation": (Claims.against_control(3, 0), GaussianArms([0.0] * 3), Normal()),
    "levels, 0/1": (Claims.above(2, 0.1), BernoulliArms([0.1, 0.1]), Binary()),
    "levels, both sides": (Claims.above(2, 0.3, sides="two"), BernoulliArms([0.3, 0.3]), Binary()),
    "ranking, 0/1": (Claims.pairs(3), BernoulliArms([0.2] * 3), Binary()),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NULLS)
def test_what_is_won_for_a_false_claim_is_fair(name):
    """Two batches in parts, several partitions: the mean of each purse is at most 1 at the border."""
    question, world, noise = NULLS[name]
    problem, rng = Problem(question, world.arms, 0.05, noise), np.random.default_rng(1)
    now, kept = world.initial_state(rng, RUNS), RULE.start(problem, (RUNS,))
    for pulls, parts in ((40.0, 4), (60.0, 12)):
        plan = BatchPlan(np.full((RUNS, world.arms), pulls), np.ones(RUNS, dtype=bool), parts=parts)
        batch, now = world.pull_parts(rng, now, plan.pulls, parts, 4, noise.needs)
        kept = RULE.fold(problem, kept, plan, batch)
    purses = np.exp(kept.gains)
    assert (purses.mean(axis=0) <= 1.0 + 4 * purses.std(axis=0) / np.sqrt(RUNS)).all()
    assert (purses.std(axis=0) > 0.1).all()  # something is bet
    assert (kept.gains > np.log(1e-3) * 16).all()  # and never everything


@pytest.mark.parametrize("question", [Claims.against_control(2, 0), Claims.above(2, 0.33)])
def test_forty_seeds_give_one_verdict(question):
    """1200 rows of each of two arms: the evidence hangs on the data, hardly on the seed."""
    problem, policy = Problem(question, 2, 0.05, Binary()), ConditionalPower(first_pulls=1200)
    trial, counts, totals = begin(problem, policy), np.full(2, 1200.0), np.array([364.0, 442.0])
    gains, shown, alone = [], set(), []
    for seed in range(40):
        parts = partition_sums(Binary().draw_part_totals, counts, totals, seed, 1, trial.plan.parts)
        after = advance(problem, policy, trial, Batch(counts, totals, parts=parts)).kept
        gains.append(float(after.gains.max()))
        shown.add(tuple(after.shown.tolist()))
        single = parts._replace(totals=parts.totals[:1])
        alone.append(float(advance(problem, policy, trial, Batch(counts, totals, parts=single)).kept.gains.max()))
    assert len(shown) == 1
    assert np.ptp(gains) < 0.5 < np.ptp(alone)


def test_later_batches_are_asked_for_in_parts():
    problem = Problem(Claims.against_control(3, 0), 3, 0.05, Binary())
    trial = begin(problem, ConditionalPower(), (1,))
    assert trial.plan.parts == 4
    counts = trial.plan.pulls
    assert advance(problem, ConditionalPower(), trial, Batch(counts, np.floor(counts / 2))).plan.parts == 12


def test_rates_against_a_level_are_bet_on_by_their_own_law():
    """Near 0.05 a result has a fifth of the variance that rewards between 0 and 1 may have."""
    (found,) = simulate(Claims.above(3, 0.05), BernoulliArms([0.08] * 3), [ConditionalPower()], runs=50, delta=0.025)
    assert found.correct.all()
    assert found.samples.mean() < 5000  # 3100; 13 100 with the bet for any reward between 0 and 1


@pytest.mark.parametrize("independent", [False, True])
def test_results_after_everything_was_shown_change_nothing(independent):
    problem = Problem(Claims.above(2, 0.3, independent=independent), 2, 0.05, Binary())
    counts, policy = np.full(2, 200.0), ConditionalPower(first_pulls=200)
    trial = begin(problem, policy)
    parts = partition_sums(Binary().draw_part_totals, counts, counts * 0.9, 1, 1, 4)
    batch = Batch(counts, counts * 0.9, parts=parts)
    kept = RULE.fold(problem, trial.kept, trial.plan, batch)
    assert kept.shown.all()
    after = RULE.fold(problem, kept, trial.plan, batch)
    assert np.array_equal(after.gains, kept.gains)
    assert after.shown.all()


class TestMultiplied:
    """Claims that share no arm."""

    def test_against_brute_force(self):
        """A line is shown when every intersection that it is in rejects, by the product of its purses."""
        rng = np.random.default_rng(2)
        for _ in range(300):
            sides, number = int(rng.integers(1, 3)), int(rng.integers(1, 5))
            gains, goal = rng.normal(1.0, 2.0, (sides, number)), 3.0
            shown = np.zeros((sides, number), dtype=bool)
            expected = shown
            while True:
                now = expected.copy()
                for side, j in itertools.product(range(sides), range(number)):
                    others = [
                        [0.0, *(gains[s, i] for s in range(sides) if not expected[s, i])]
                        for i in range(number)
                        if i != j
                    ]
                    now[side, j] |= all(
                        gains[side, j] + sum(each) >= goal - 1e-11 for each in itertools.product(*others)
                    )
                if (now == expected).all():
                    break
                expected = now
            assert np.array_equal(reject_independent(gains, shown, goal), expected)

    @pytest.mark.long
    def test_it_shows_more_where_all_are_true_and_keeps_the_error(self):
        true, null = GaussianArms([0.3] * 10), GaussianArms([0.0] * 5)
        amounts = []
        for independent in (False, True):
            (found,) = simulate(Claims.above(10, 0.0, independent=independent), true, [ConditionalPower()], runs=60)
            assert found.correct.all()
            amounts.append(found.samples.mean())
        assert amounts[1] < 0.9 * amounts[0]  # 2220 and 2765 (400 runs)
        question = Claims.above(5, 0.0, independent=True)
        (found,) = simulate(question, null, [ConditionalPower()], runs=1000, delta=0.05, max_samples=3000)
        assert found.answer.any(axis=-1).sum() <= 75  # 0.027 in 4000 runs

    def test_the_product_of_purses_is_fair(self):
        """Nothing that is bet on one arm depends on another arm's results of the same batch, in any partition."""
        rng = np.random.default_rng(3)
        world, question = BernoulliArms([0.3, 0.3]), Claims.above(2, 0.3, independent=True)
        problem = Problem(question, 2, 0.05, Binary())
        now, kept = world.initial_state(rng, RUNS), RULE.start(problem, (RUNS,))
        for pulls, parts in ((40.0, 4), (60.0, 12)):
            plan = BatchPlan(np.full((RUNS, 2), pulls), np.ones(RUNS, dtype=bool), parts=parts)
            batch, now = world.pull_parts(rng, now, plan.pulls, parts, 4, "sums")
            kept = RULE.fold(problem, kept, plan, batch)
        product = np.exp(kept.gains.sum(axis=-1))
        assert product.mean() <= 1.0 + 4 * product.std() / np.sqrt(RUNS)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Claims([[1, -1, 0], [0, -1, 1]], [0, 0], independent=True), "arm"),
            (lambda: Claims([[1, 0], [1, 0]], [0, 1], independent=True), "arm"),
            (lambda: Claims(np.eye(2), [0, 1], weights=[1.0, 2.0], independent=True), "with the same weight"),
            (
                lambda: RULE.check(Problem(Claims.above(2, 0.5, independent=True), 2, 0.05, Binary().with_items())),
                "items",
            ),
        ],
    )
    def test_only_where_it_is_proved(self, make, words):
        with pytest.raises(InputError, match=words):
            make()

    def test_a_budget_cuts_and_is_not_bet_towards(self):
        """The last bet would leave nothing of a claim, and so nothing of a product."""
        question = Claims.above(3, 0.0, independent=True)
        (found,) = simulate(
            question, GaussianArms([0.5, 0.5, -0.5]), [ConditionalPower()], runs=50, budget=600, noise=SubGaussian(1.0)
        )
        assert found.correct.all()
        assert found.true_shown.mean() > 1.8
        assert (found.samples <= 600).all()


def test_chances_on_shared_items_are_those_of_each_difference():
    """Two arms have the same rate; one agrees with the control item by item, the other does not."""
    from roundwise.model.batch import pair_sums

    rng = np.random.default_rng(4)
    control = rng.random(400) < 0.5
    flips = rng.random(400) < 0.05
    items = np.stack([control, control ^ flips, rng.random(400) < 0.5], axis=1).astype(float)
    pairs = Batch(*pair_sums(items, np.ones_like(items)))
    noise = Binary().with_items()
    problem = Problem(Claims.against_control(3, 0), 3, 0.05, noise)
    batch = Batch(np.full(3, 400.0), items.sum(axis=0), pairs=pairs)
    kept = RULE.fold(problem, RULE.start(problem, ()), BatchPlan(batch.counts, np.asarray(True)), batch)
    near, far = noise.variance_per_arm(kept.past, problem.question.bets(()))
    apart = items[:, [1, 2]] - items[:, [0]]
    np.testing.assert_allclose([2 * near, 2 * far], apart.var(axis=0), rtol=0.05)
    lead = kept._replace(value=np.array([0.02, 0.02]))
    first, second = RULE.conditional_power(problem, lead, np.asarray(900.0)).chances
    assert first > 2 * second  # a fortieth of the variance


UNITS = np.eye(4)


@pytest.mark.parametrize("noise", [SubGaussian(1.0), Normal()])
@pytest.mark.parametrize("level", [0.0, 0.1])
def test_lines_of_arms_without_results_are_passed_over(noise, level, monkeypatch):
    """What they have stays, to the last bit as if they were looked at."""
    forms = [UNITS[1] - UNITS[0], UNITS[2] - UNITS[0], UNITS[2] - 0.8 * UNITS[1] - 0.2 * UNITS[3], 2 * UNITS[3]]
    problem = Problem(Claims(np.array(forms), np.full(4, level)), 4, 0.05, noise)
    pulls = 60.0 * np.array([[1, 1, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
    world, plan = GaussianArms([0.0, 0.1, 0.1, 0.1]), BatchPlan(pulls, np.ones(5, dtype=bool), parts=8)

    def won():
        rng = np.random.default_rng(1)
        kept, now = RULE.start(problem, (5,)), world.initial_state(rng, 5)
        for asked in (np.full_like(pulls, 40.0), pulls):
            before = kept.gains
            batch, now = world.pull_parts(rng, now, asked, 8, 2, noise.needs)
            kept = RULE.fold(problem, kept, plan._replace(pulls=asked), batch)
        return before, kept.gains

    before, after = won()
    moved = [[1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(after != before, np.array(moved) == 1)
    monkeypatch.setattr(claims, "_fed", lambda pieces, counts: np.ones((4, counts.shape[-1]), dtype=bool))
    np.testing.assert_array_equal(won()[1], after)
