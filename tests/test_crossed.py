"""Arms tried on the same items: bets on differences, pairs from files, plans, and the error at ties."""

import itertools
import math

import numpy as np
import pytest

import test_wager
from roundwise import (
    Above,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Claims,
    ConditionalPower,
    Normal,
    Statements,
    SubGaussian,
    TopK,
    Wager,
    simulate,
)
from roundwise.errors import InputError
from roundwise.model.batch import Batch, PartitionRows, pair_sums, partition_pairs, stack_parts, sum_pairs
from roundwise.model.estimates import Estimates, Past
from roundwise.model.problem import Problem, advance, begin
from roundwise.noise import PairedBinary, PairedBounded
from roundwise.noise.bets import PartForm, parts_data
from roundwise.noise.budget_bets import binomial_budget_bet
from roundwise.rules.eprocess import bounds
from roundwise.rules.eprocess.cells import AboveEProcess, AboveWealth, CrossedAboveEProcess
from roundwise.rules.eprocess.rule import eprocess_for
from roundwise.simulation.items import ItemReplay, NormalItems
from roundwise.solvers.halfspaces import Halfspaces, pairs

PAIR = pairs(np.array([0]), np.array([1]))


def batch_of(values, used=None, table=False):
    """A batch of items from a table, one row an item and one column an arm; nan where an arm was not tried."""
    values = np.asarray(values, dtype=np.float64)
    used = ~np.isnan(values) if used is None else used
    items, arms = np.nonzero(used)
    order = np.lexsort((items, arms))
    items, arms = items[order], arms[order]
    rows = PartitionRows(arms, np.ones(len(arms)), values[items, arms], np.zeros(len(arms)), items.astype(np.uint64))
    size = values.shape[1]
    counts, totals = np.bincount(arms, minlength=size).astype(float), np.bincount(arms, rows.totals, size)
    squares = np.bincount(arms, rows.totals**2, size) - totals**2 / np.maximum(counts, 1)
    return Batch(counts, totals, squares, pairs=sum_pairs(rows, size, (0.0, 1.0) if table else None))


def known_of(noise, *batches):
    past = Past.none((2,))
    for each in batches:
        past = past.plus(each)
    return Estimates(past, past.means, noise.variance(past))


def log_bet(noise, past, values, margin=0.0, table=False, size=0.7):
    """log of a bet of one size on "the first arm exceeds the second by the margin", after one batch of the past."""
    known, batch = known_of(noise, batch_of(past, table=table)), batch_of(values, table=table)
    bets = noise.part_bets(parts_data(known.past, stack_parts((batch,))))
    places = [np.zeros((1, 1), dtype=np.intp), np.ones((1, 1), dtype=np.intp)]
    apart, leverage = np.zeros((1, 1)), (1.0 / batch.counts).sum().reshape(1, 1)
    form = PartForm(places, None, np.full((1, 1), margin))
    return float(bets.forms(form, apart, leverage)(0, np.array([size]))[0])


def test_sums_of_pairs_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    values, used = rng.normal(size=(30, 4)), (rng.random((30, 4)) < 0.7).astype(float)
    counts, totals, scatter = (each.reshape(4, 4) for each in pair_sums(values, used))
    for a, b in itertools.product(range(4), repeat=2):
        both = (used[:, a] * used[:, b]) > 0
        apart = values[both, a] - values[both, b]
        assert counts[a, b] == both.sum()
        assert totals[a, b] == pytest.approx(apart.sum())
        assert scatter[a, b] == pytest.approx(((apart - apart.mean()) ** 2).sum(), abs=1e-9)


def test_parts_of_pairs_add_up_and_keep_items_together():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 4, (60, 3)).astype(float)
    arms, items = np.repeat(np.arange(3), 60), np.tile(np.arange(60), 3).astype(np.uint64)
    rows = PartitionRows(arms, np.ones(180), values.T.reshape(-1), np.zeros(180), items)
    whole, parts = sum_pairs(rows, 3, (0.0, 3.0)), partition_pairs(rows, 3, 7, 2, 5, 4, (0.0, 3.0))
    assert parts.totals.shape == (4, 9, 5)
    np.testing.assert_allclose(parts.totals.sum(axis=-1), np.broadcast_to(whole.totals, (4, 9)))
    np.testing.assert_allclose(parts.table.counts.sum(axis=2), np.broadcast_to(whole.table.counts, (4, 9, 7)))
    assert (parts.counts == parts.counts[:, :1]).all()  # every arm was tried on every item of a part
    assert len({each.tobytes() for each in parts.totals}) == 4


def test_an_item_tried_twice_by_an_arm_counts_for_no_pair():
    rows = PartitionRows(np.array([0, 0, 0, 1, 1]), np.ones(5), np.array([1.0, 0, 1, 0, 1]), np.zeros(5),
                np.array([1, 1, 2, 1, 2], dtype=np.uint64))  # fmt: skip
    assert sum_pairs(rows, 2).counts.reshape(2, 2)[0, 1] == 1


@pytest.mark.long
@pytest.mark.parametrize("margin", [0.0, 0.2, -0.3])
@pytest.mark.parametrize("noise", [PairedBinary(), PairedBounded(0.0, 1.0)])
def test_the_bet_on_differences_is_fair_whatever_an_item_has_in_common(noise, margin):
    """Exactly: all outcomes of three items of two arms with given, dependent rates; the mean of the factor."""
    past = [[1, 0]] * 6 + [[0, 1]] * 3 + [[1, 1]] * 4
    values = [(a, b) for a in (0, 1) for b in (0, 1)]
    for together in (0.0, 0.3, 0.45):  # P(1, 1); the rates are rate_a and rate_b with difference = margin
        rate_b = 0.5 - margin / 2
        rate_a = rate_b + margin
        both = min(together, rate_a, rate_b)
        chances = {(1, 1): both, (1, 0): rate_a - both, (0, 1): rate_b - both, (0, 0): 1 - rate_a - rate_b + both}
        assert min(chances.values()) >= -1e-12
        mean = sum(
            math.prod(chances[each] for each in items)
            * math.exp(log_bet(noise, past, items, margin, table=noise.needs == "rows"))
            for items in itertools.product(values, repeat=3)
        )
        assert mean <= 1 + 1e-9
        assert mean > 0.9 or margin


def test_towards_a_budget_it_is_mcnemars_law():
    new = [[1, 0]] * 9 + [[0, 1]] * 3 + [[1, 1]] * 20
    known, need, rho = known_of(PairedBinary()), np.array([2.5]), np.array([0.4])
    found = PairedBinary().budget_bet(known, batch_of(new), PAIR, need, rho, 0.2)
    assert float(found[0]) == pytest.approx(float(binomial_budget_bet(9, 12, 0.0, 2.5, 0.4, 0.2)))


def test_items_of_one_arm_only_tell_nothing_of_a_pair():
    past, new = [[1, 0]] * 6 + [[0, 1]] * 3, [[1, 0]] * 5
    alone = [[1, math.nan]] * 9 + [[math.nan, 0]] * 9
    assert log_bet(PairedBinary(), past, new + alone) == pytest.approx(log_bet(PairedBinary(), past, new))


def correlated(rates, shared, items=4000, seed=0):
    """A table of 0/1 results: with probability `shared` all arms of an item are measured with one stick."""
    rng = np.random.default_rng(seed)
    stick = np.where(rng.random((items, len(rates))) < shared, rng.random((items, 1)), rng.random((items, len(rates))))
    return (stick < np.asarray(rates)).astype(float)


def test_shared_items_save_answers():
    table = correlated([0.6, 0.5, 0.45, 0.4], 0.75)
    (paired,) = simulate(BestArm(), ItemReplay(table), [Wager()], runs=60, seed=1)
    (unpaired,) = simulate(BestArm(), BernoulliArms(table.mean(axis=0)), [Wager()], runs=60, seed=1)
    assert paired.correct.all()
    assert paired.samples.mean() < 0.7 * unpaired.samples.mean()


@pytest.mark.parametrize("question", [TopK(1), BestArm(tolerance=0.05), Statements.against_control(3, 0), Above(0.55)])
def test_every_question_ends_with_items(question):
    (found,) = simulate(question, ItemReplay(correlated([0.7, 0.5, 0.3], 0.6)), [Wager()], runs=10, seed=3)
    assert found.decided.all()
    assert found.correct.mean() >= 0.8


def test_scores_and_normal_results_have_items_too():
    table = correlated([0.7, 0.5], 0.6) + correlated([0.6, 0.5], 0.6, seed=1)
    for world in (ItemReplay(table), NormalItems([0.5, 0.0], shared=0.7)):
        (found,) = simulate(BestArm(), world, [Wager()], runs=10, seed=3)
        assert found.correct.all()


def test_claims_about_items_towards_a_budget():
    world = ItemReplay(correlated([0.4, 0.4, 0.6], 0.6))
    (found,) = simulate(
        Claims.against_control(3, 0), world, [ConditionalPower()], runs=60, delta=0.05, budget=600, seed=1
    )
    assert found.true_shown.mean() > 0.9
    assert (~found.correct).mean() < 0.2


TIES = {
    "0/1, alike": (ItemReplay([[1, 1], [0, 0], [1, 0], [0, 1]]), BestArm()),
    "0/1, against each other": (ItemReplay([[1, 0], [0, 1]]), BestArm()),
    "0/1, near-tie of three": (ItemReplay(correlated([0.52, 0.5, 0.5], 0.8)), BestArm()),
    "scores": (ItemReplay([[2, 0], [0, 2], [1, 1], [2, 1], [1, 2]]), BestArm()),
    "normal, unequal noise": (NormalItems([0.0, 0.0], [1.0, 5.0], 0.5), BestArm()),
    "top 1 of 3": (ItemReplay(np.array(list(itertools.permutations([1.0, 0.0, 0.0])))), TopK(1)),
}


def struck(world, question, runs, batches, delta=0.1, seed=5):
    """In how many runs a true null was struck off, each played to the horizon, also past its end."""
    problem = Problem(question, world.arms, delta, world.noise)
    policy, rng = Wager(), np.random.default_rng(seed)
    state = world.initial_state(rng, runs)
    trial = begin(problem, policy, (runs,))
    ever, means = np.zeros(runs, dtype=bool), state.means[0]
    for _ in range(batches):
        pulls = np.clip(trial.plan.pulls, 1, 300)
        batch, state = world.pull_parts(rng, state, pulls, trial.plan.parts, 1)
        trial = advance(problem, policy, trial._replace(plan=trial.plan._replace(pulls=pulls)), batch)
        ever |= eprocess_for(problem).false_rejection(problem, trial.kept.wealth, means)
    return ever.mean()


@pytest.mark.long
@pytest.mark.parametrize("name", TIES)
def test_a_true_null_is_struck_off_with_at_most_the_error(name):
    assert struck(*TIES[name], runs=60, batches=4) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", TIES)
def test_a_true_null_is_struck_off_with_at_most_the_error_in_many_runs(name):
    assert struck(*TIES[name], runs=2000, batches=6) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 2000)


def replayed(world, runs, batches, delta, seed=6):
    """The bets of bounds after so many batches, and the differences of two arms in every run as forms."""
    problem, rng = Problem(BestArm(), world.arms, delta, world.noise), np.random.default_rng(seed)
    state, told = world.initial_state(rng, runs), []
    for number in range(batches):
        pulls = np.full((runs, world.arms), (20.0, 40.0, 80.0, 120.0, 160.0)[number])
        batch, state = world.pull_parts(rng, state, pulls, 12 if number else 4, 2 if number else 1)
        told.append(batch)
    arms = np.broadcast_to(np.array([[0, 1], [1, 0]]), (runs, 2, 2))
    return Wager().stopping.replay(problem, told), Halfspaces(arms, None, np.zeros(2), True)


def missed(name, runs, delta=0.2):
    """In how many runs the true difference, 0, was ever ruled out, from below and from above."""
    bets, forms = replayed(TIES[name][0], runs, 4, delta)
    return (bets.excess(forms, bets.problem.goal)(np.zeros((runs, 2))) >= 0).sum(axis=0)


ALIKE = ["0/1, alike", "0/1, against each other", "scores", "normal, unequal noise"]


@pytest.mark.parametrize("name", ALIKE)
def test_bounds_of_differences_hold_and_bets_aim(name, monkeypatch):
    assert all(test_wager.kept(int(each), 200, 0.2) for each in missed(name, 200))
    bets, forms = replayed(TIES[name][0], 60, 5, 0.05)
    now = np.median(bets.bound(forms, bets.problem.goal))
    monkeypatch.setattr(bounds.BoundBetSchedule, "batch", lambda *given: None)
    assert 0.0 > now > 0.95 * np.median(bets.bound(forms, bets.problem.goal))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_bounds_of_differences_hold_in_many_runs(name):
    assert all(test_wager.kept(int(each), 4000, 0.2) for each in missed(name, 4000))


def test_a_level_needs_no_independence_of_arms():
    """Arms that are copies of each other, a little above the level: products count one piece of luck K times."""
    column = (np.arange(1000) < 505).astype(float)
    world = ItemReplay(np.repeat(column[:, None], 8, axis=1))
    rate = struck(world, Above(0.5), runs=100, batches=4)
    assert rate <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 100)
    assert not isinstance(eprocess_for(Problem(Above(0.5), 8, 0.1, Binary())), type(eprocess_for(
        Problem(Above(0.5), 8, 0.1, PairedBinary()))))  # fmt: skip
    assert type(eprocess_for(Problem(Above(0.5), 8, 0.1, Binary()))) is AboveEProcess


def test_arms_that_leave_or_join_do_not_raise_the_mean_over_true_nulls():
    rng, ledger = np.random.default_rng(0), CrossedAboveEProcess(0.5)
    problem = Problem(Above(0.5), 4, 0.1, PairedBinary())
    for _ in range(200):
        won = AboveWealth(rng.normal(size=4), rng.normal(size=4), np.zeros(4, dtype=bool))
        side = rng.integers(0, 2, 5)  # of each arm which side is the true null; the last is the one that joins
        arm = int(rng.integers(0, 4))

        def mean(won, side):
            return np.exp(np.where(side == 0, won.above, won.below)).mean()

        assert mean(ledger.without(problem, won, arm), np.delete(side[:4], arm)) <= mean(won, side[:4]) + 1e-12
        assert mean(ledger.with_arm(won), side) <= max(mean(won, side[:4]), 1.0) + 1e-12
    shown = AboveWealth(np.array([9.0, 0.0]), np.array([-1.0, -3.0]), np.array([True, False]))
    left = ledger.without(Problem(Above(0.5), 2, 0.1, PairedBinary()), shown, 1)
    assert left.settled.tolist() == [True]
    assert left.above[0] > left.below[0]


def test_models_with_and_without_items():
    for noise in (Binary(), Bounded(1, 5), Normal()):
        assert not noise.shares_items
        assert noise.with_items().shares_items
        assert noise.with_items().without_items() == noise
        assert noise.with_items().with_items() == noise.with_items()
    with pytest.raises(InputError, match="no bets on items"):
        SubGaussian(1.0).with_items()


def test_what_has_no_bet_on_items_is_refused():
    three = Statements(np.array([[1.0, -0.5, -0.5]]), np.zeros(1))
    with pytest.raises(InputError, match="arm"):
        Wager().check(Problem(three, 3, 0.05, PairedBinary()))
    with pytest.raises(InputError, match="items"):
        ConditionalPower().check(
            Problem(Claims.against_control(3, 0, 1.2, scale="odds-ratio"), 3, 0.05, PairedBinary())
        )
    with pytest.raises(InputError, match="items"):
        simulate(BestArm(), BernoulliArms([0.5, 0.4]), [Wager()], runs=2, noise=PairedBinary())
    with pytest.raises(InputError, match="number"):
        ItemReplay([[1, math.nan]])


def test_the_items_of_the_leader_serve_all():
    """The nested plan: the leader gets as many items as the arm that needs most."""
    world = ItemReplay(correlated([0.6, 0.55, 0.4], 0.6))
    problem, policy, rng = Problem(BestArm(), 3, 0.05, world.noise), Wager(), np.random.default_rng(1)
    trial = begin(problem, policy, (1,))
    batch, _ = world.pull_parts(rng, world.initial_state(rng, 1), trial.plan.pulls, trial.plan.parts, 1)
    trial = advance(problem, policy, trial, batch)
    wanted = eprocess_for(problem).required_pulls(problem, trial.kept).pulls[0]
    leader = int(trial.kept.alternative.leader[0])
    assert wanted[leader] == pytest.approx(np.delete(wanted, leader).max())
