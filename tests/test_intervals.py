"""Bounds from the same bets say what the decision says."""

from itertools import pairwise

import numpy as np
import pytest

from products import diagonals
from roundwise import (
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    Statements,
    SubGaussian,
    TopK,
    Wager,
)
from roundwise.arrays import tree_map
from roundwise.environments import PoissonArms, Replay
from roundwise.model.batch import Batch, join_parts
from roundwise.model.problem import advance, begin
from roundwise.rules.eprocess import bounds as intervals
from roundwise.rules.eprocess.bounds import drift_ladder, find_end, match_decision


def mean_intervals(problem, rule, batches):
    """The bounds of means after these batches."""
    return rule.bounds(problem, None, batches).means()


def to_spare(problem, rule, batches):
    """By how much each claim holds."""
    return rule.bounds(problem, None, batches).margins()


def behind_leader(problem, rule, batches, leader):
    """How far each arm is behind the leader, at most."""
    return rule.replay(problem, batches).gap_to_leader(leader)


def studied(problem, environment, policy, seed, most=30):
    """One live trial with all its batches, the first in parts."""
    rng = np.random.default_rng(seed)
    world = environment.initial_state(rng, 1)
    trial, batches = begin(problem, policy), []
    while not trial.done and len(batches) < most:
        edges = [np.floor(trial.plan.pulls * i / trial.plan.parts) for i in range(trial.plan.parts + 1)]
        parts = []
        for low, high in pairwise(edges):
            batch, _ = environment.pull(rng, world, (high - low)[None], problem.noise.needs)
            parts.append(tree_map(lambda array: array[0], batch))
        batches.append(join_parts(parts) if len(parts) > 1 else parts[0])
        trial = advance(problem, policy, trial, batches[-1])
    return trial, batches


def stages(problem, policy, batches):
    """The batches up to each time, with the trial after them."""
    trial = begin(problem, policy)
    for end, batch in enumerate(batches, 1):
        trial = advance(problem, policy, trial, batch)
        yield batches[:end], trial


def graded(means):
    """Values 0, 1/2 and 1, with these means."""
    halves = np.full(len(means), 200.0)
    ones = 1000 * np.asarray(means) - 100
    return Replay(("a", "b", "c"), np.array([0.0, 0.5, 1.0]), np.stack([800 - ones, halves, ones], axis=-1))


NOISES = {
    "sub-gaussian": (SubGaussian(1.0), GaussianArms),
    "gaussian": (Gaussian(1.0), GaussianArms),
    "unknown variance": (Normal(), GaussianArms),
    "binary": (Binary(), BernoulliArms),
    "bounded": (Bounded(0.0, 1.0), graded),
    "poisson": (Poisson(), PoissonArms),
}
QUESTIONS = {
    "best arm": BestArm(),
    "tolerance": BestArm(tolerance=0.1),
    "top-2": TopK(2),
    "above": Above(0.45),
    "any above": AnyAbove(0.45),
    "none above": AnyAbove(0.85),
    "minimum": MinimumBelow(0.45),
    "no minimum": MinimumBelow(0.15),
    "statements": Statements([[1, -1, 0], [0, 1, -1]], [0.1, -0.1], ["a exceeds b", "b exceeds c"]),
    "largest": Largest([[0, 1, 1], [2, 0, 0]]),
}
MEANS = (0.8, 0.3, 0.2)


PAIRS = diagonals(QUESTIONS, NOISES, 3)


@pytest.mark.long
@pytest.mark.parametrize(("question", "noise"), PAIRS)
def test_what_is_shown_has_something_to_spare(question, noise):
    """At every batch of a study: a claim is shown just when its bound is beyond what is asked."""
    model, world = NOISES[noise]
    problem, policy = Problem(QUESTIONS[question], 3, 0.1, model), Wager(first_pulls=8)
    seen = set()
    for seed in range(8):
        _, batches = studied(problem, world(MEANS), policy, seed, most=7)
        for some, trial in stages(problem, policy, batches):
            shown = [each.shown for each in policy.stopping.claims(problem, trial, "abc")]
            np.testing.assert_array_equal(to_spare(problem, policy.stopping, some) > 0, shown)
            seen |= set(shown)
        if seen == {True, False}:
            return
    pytest.fail("Nothing was shown, or everything at once.")


@pytest.mark.parametrize(
    ("question", "noise"), diagonals(["above", "any above", "none above", "minimum", "no minimum"], NOISES, 3)
)
def test_bounds_of_means_say_no_more_than_the_decision(question, noise):
    """A level lies outside the bounds of an arm only if that is shown, of this arm or of any."""
    model, world = NOISES[noise]
    asked = QUESTIONS[question]
    problem, policy = Problem(asked, 3, 0.1, model), Wager(first_pulls=8)
    _, batches = studied(problem, world(MEANS), policy, 3, most=5)
    for some, trial in stages(problem, policy, batches):
        lower, upper = mean_intervals(problem, policy.stopping, some)
        assert (lower <= upper).all()
        shown = np.array([each.shown for each in policy.stopping.claims(problem, trial, "abc")])
        if question == "above":
            np.testing.assert_array_equal((lower > 0.45) | (upper < 0.45), shown)
        elif isinstance(asked, AnyAbove):
            np.testing.assert_array_equal(upper < asked.level, shown[1:])
            assert shown[0] or not (lower > asked.level).any()
        else:
            np.testing.assert_array_equal(lower > asked.level, shown[1:])
            assert shown[0] or not (upper < asked.level).any()


UNLIKE = {
    "poisson": (Poisson(), lambda rng, n, rates: rng.poisson(n * rates), np.r_[50.0, np.full(29, 0.1)], 20.0, 100),
    "binary": (Binary(), lambda rng, n, rates: rng.binomial(n, rates), np.r_[0.5, np.full(29, 0.001)], 0.3, 1000),
}


@pytest.mark.long
@pytest.mark.parametrize("case", UNLIKE)
def test_arms_of_very_different_variance(case):
    """One arm is far noisier than the others: its bounds are those it has among arms like itself, and all agree."""
    noise, drawn, rates, level, n = UNLIKE[case]
    rng, policy = np.random.default_rng(5), Wager()
    batches = [Batch(np.full(30, float(n)), drawn(rng, n, rates).astype(float)) for _ in range(4)]
    first = [Batch(batch.counts[:2], np.repeat(batch.totals[:1], 2)) for batch in batches]
    for question in (BestArm(), TopK(1), Above(level), AnyAbove(level)):
        problem, alone = Problem(question, 30, 0.05, noise), Problem(question, 2, 0.05, noise)
        *_, (_, trial) = stages(problem, policy, batches)
        shown = [each.shown for each in policy.stopping.claims(problem, trial, [str(i) for i in range(30)])]
        np.testing.assert_array_equal(to_spare(problem, policy.stopping, batches) > 0, shown)
        assert sum(shown) >= 29
        ends = mean_intervals(problem, policy.stopping, batches), mean_intervals(alone, policy.stopping, first)
        np.testing.assert_allclose(*(np.array(each)[:, 0] for each in ends), rtol=0.02)


def test_what_is_to_spare_is_of_the_candidate_that_is_claimed():
    """A candidate that was not bet on (a part of the first batch that came too early) leaves its number to the next."""
    levels = np.array([0.3, 0.3])
    problem = Problem(Statements([[1, -1, 0], [0, 1, -1]], levels), 3, 0.05, Binary())
    for seed in range(30):
        trial, batches = studied(problem, BernoulliArms([0.5, 0.2, 0.2]), Wager(first_pulls=8), seed, most=1)
        held = trial.kept.alternative.answer > 0
        found = to_spare(problem, Wager().stopping, batches)
        least = np.where(held, -1.0 - levels, levels - 1.0)  # what the range of the rates alone allows
        assert (found >= least - 1e-9).all()


@pytest.mark.long
@pytest.mark.parametrize(("question", "noise"), PAIRS)
def test_what_is_ruled_out_is_a_half_line_and_the_bound_its_end(monkeypatch, question, noise):
    """At 80 values on both sides of every bound that is searched for, and just beside it."""
    found, seen = intervals.find_end, []

    def looked(excess, start, error, limits):
        def exceeded(values):
            return excess(values) >= 0

        bound = found(excess, start, error, limits)
        wide = np.where(np.isfinite(error), error, 1.0)
        known = np.isfinite(bound) & (bound > limits[0])
        here = np.where(known, bound, start)
        near = 1e-9 * (wide + np.abs(here))
        assert exceeded(here - near)[known].all()
        assert not exceeded(np.clip(here + near, *limits))[known & (here + near < limits[1])].any()
        away = np.r_[-np.geomspace(300, 1e-7, 40), np.geomspace(1e-7, 300, 40)]
        values = np.clip(here + away[:, None] * wide, *limits)
        out = np.array([exceeded(each) for each in values])
        assert (out[:-1] | ~out[1:]).all()  # never ruled out above a value that is not
        seen.append(known.sum())
        return bound

    monkeypatch.setattr(intervals, "find_end", looked)
    model, world = NOISES[noise]
    problem, policy = Problem(QUESTIONS[question], 3, 0.1, model), Wager(first_pulls=60)
    _, batches = studied(problem, world(MEANS), policy, 2, most=4)
    to_spare(problem, policy.stopping, batches)
    mean_intervals(problem, policy.stopping, batches)
    behind_leader(problem, policy.stopping, batches, 0)
    assert sum(seen) > 6


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "noise"), diagonals(["best arm", "above", "any above", "minimum", "statements"], NOISES, 3)
)
def test_bounds_only_tighten(question, noise):
    """A value that was ruled out stays ruled out."""
    model, world = NOISES[noise]
    problem, policy = Problem(QUESTIONS[question], 3, 0.1, model), Wager(first_pulls=8, growth=0.7)
    _, batches = studied(problem, world(MEANS), policy, 4, most=5)
    ends = [mean_intervals(problem, policy.stopping, some) for some, _ in stages(problem, policy, batches)]
    for (low, high), (lower, upper) in pairwise(ends):
        assert (lower >= low - 1e-9 * np.abs(np.where(np.isfinite(low), low, 0.0))).all()
        assert (upper <= high + 1e-9 * np.abs(np.where(np.isfinite(high), high, 0.0))).all()


def test_intervals_shrink_and_know_the_range():
    problem, policy = Problem(BestArm(), 2, delta=0.05, noise=Binary()), Wager(first_pulls=400)
    _, batches = studied(problem, BernoulliArms([0.02, 0.015]), policy, 1, most=4)
    early = mean_intervals(problem, policy.stopping, batches[:1])
    late = mean_intervals(problem, policy.stopping, batches)
    assert ((early.lower >= 0) & (early.upper <= 1)).all()
    assert (late.upper - late.lower < early.upper - early.lower).all()


@pytest.mark.long
@pytest.mark.parametrize("noise", [Gaussian(1.0), Normal()], ids=lambda each: type(each).__name__)
def test_bounds_are_there_from_the_second_batch_on(noise):
    """Also where other arms lose what they bet, and where the level is far away."""
    for question in (Above(0.5), Above(-40.0), AnyAbove(0.5), MinimumBelow(0.5), BestArm(), TopK(1)):
        problem, policy = Problem(question, 4, 0.05, noise), Wager()
        for seed in range(2):
            _, batches = studied(problem, GaussianArms([0.9, 0.6, 0.5, 0.4]), policy, seed, most=2)
            found = mean_intervals(problem, policy.stopping, batches)
            assert np.isfinite([found.lower, found.upper]).all()


@pytest.mark.parametrize(
    "bound", [to_spare, lambda *given: behind_leader(*given, 0)], ids=["to_spare", "behind_leader"]
)
def test_differences_do_not_see_a_shift_of_a_whole_batch(bound):
    problem, policy = Problem(BestArm(), 3, noise=SubGaussian(1.0)), Wager()
    _, batches = studied(problem, GaussianArms([1.0, 0.8, 0.7]), policy, 5)
    plain = [batch._replace(parts=None) for batch in batches]
    shifted = [b._replace(totals=b.totals + 5.0 * i * b.counts) for i, b in enumerate(plain)]
    np.testing.assert_allclose(
        bound(problem, policy.stopping, plain), bound(problem, policy.stopping, shifted), atol=1e-6
    )


SHAPES = {
    "straight": lambda x: 3.0 * x,
    "bent": lambda x: np.logaddexp(9.0 * x, 3.0 * x) - np.log(2),
    "a step": lambda x: np.where(x > 0, 1.0, -1.0),
    "a cliff": lambda x: np.where(x > 0, 1e-3 * x, 1e6 * x - 1.0),
}


class TestTheSearch:
    EVERYWHERE = np.full(1, -np.inf), np.full(1, np.inf)

    @pytest.mark.parametrize("end", [-1e9, -1.0, -1e-7, 0.0, 2.5, 1e7])
    def test_it_ends_at_the_end(self, end):
        for shape in SHAPES.values():
            (found,) = find_end(lambda v, shape=shape: shape(end - v), np.zeros(1), np.full(1, 0.1), self.EVERYWHERE)
            assert found < end or shape(end - found) >= 0  # on the safe side
            assert found == pytest.approx(end, rel=1e-9, abs=1e-9)

    def test_limits(self):
        limits = np.zeros(3), np.ones(3)
        ends = np.array([-1.0, 0.3, 2.0])
        found = find_end(lambda v: ends - v, np.full(3, 0.5), np.full(3, 0.1), limits)
        np.testing.assert_allclose(found, [0.0, 0.3, 1.0], atol=1e-9)

    def test_nothing_known_is_the_limit(self):
        limits = np.full(2, -7.0), np.full(2, np.inf)
        found = find_end(lambda v: np.full(v.shape, -1.0), np.ones(2), np.array([1.0, np.inf]), limits)
        np.testing.assert_array_equal(found, -7.0)


class TestAgreement:
    def test_a_bound_passes_what_is_asked_just_when_it_is_shown(self):
        bound, shown = np.array([0.1, 0.3, 0.5, 0.1, 0.3, 0.5]), np.arange(6) < 3
        np.testing.assert_array_equal(match_decision(bound, 0.3, shown) > 0.3, shown)
        np.testing.assert_allclose(match_decision(bound, 0.3, shown), [0.3, 0.3, 0.5, 0.1, 0.3, 0.3])

    def test_the_shares_of_the_stake_are_at_most_all_of_it(self):
        for bar in (0.1, 3.0, 700.0):
            drifts, logs = drift_ladder(bar)
            assert np.exp(logs).sum() <= 1 + 1e-12
            assert (drifts > 0).all()
