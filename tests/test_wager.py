"""Wager: its measured figures, its error at ties and on boundaries, what is fixed before a batch, its limits.

Errors are decided by exact binomial tests: `kept` fails where the true probability is at most delta with probability
at most 1e-5 (some 150 such tests in this file: below 2e-3 in all), and the seeds are fixed. Every kind of test
has a control: the same test on a rule or on data that are known to be broken, which it must reject.
"""

import itertools
import math
from collections import namedtuple
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binomtest

from products import diagonals, thinned
from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BernoulliArms,
    BestArm,
    Binary,
    Bounded,
    Gaussian,
    GaussianArms,
    InputError,
    Largest,
    MinimumBelow,
    Normal,
    Poisson,
    Problem,
    RoundRobin,
    Statements,
    SubGaussian,
    TopK,
    TrackAndStop,
    Wager,
    simulate,
)
from roundwise.arrays import tree_map, tree_take
from roundwise.environments import RandomGaps, Replay
from roundwise.model.batch import Batch, Parts, ValueTable, join_parts, stack_parts
from roundwise.model.batch import split_counts as cut_counts
from roundwise.model.estimates import signal_share
from roundwise.model.problem import BatchPlan, advance, begin, final_answer
from roundwise.noise import bets
from roundwise.questions.lower_bounds import sample_lower_bound
from roundwise.rules.eprocess.bet_sizes import ALONE, slopes
from roundwise.rules.eprocess.rule import EProcessRule, eprocess_for
from roundwise.rules.eprocess.sets import SetsWealth
from roundwise.solvers.halfspaces import pairs
from roundwise.thresholds import KaufmannKoolenPairwise, Lemma32

# ---------------------------------------------------------------------------------------------- worlds and a driver

Played = namedtuple("Played", "happened done answer samples batches trial")


def cut(plan):
    """The pulls of each part of a plan, as `simulate` cuts them."""
    return [cut_counts(plan.pulls, plan.parts)[..., 0, :, p] for p in range(plan.parts)]


def told(plan, draw):
    """The batch that comes back for a plan: `draw(pulls)` for each of its parts, which share the batch's conditions."""
    parts = [draw(pulls) for pulls in cut(plan)]
    return parts[0] if len(parts) == 1 else join_parts(parts)


def play(problem, policy, world, runs, batches, seed, event=None, start=None):
    """Trials in a world `(rng, plan, r) -> Batch`, all of them to the horizon, also past their end.

    `happened` is where `event(trial)` held after any batch; `answer`, `samples` and `batches` are those of the first
    time that a run was done.
    """
    rng = np.random.default_rng(seed)
    trial = begin(problem, policy, (runs,)) if start is None else start
    happened, done = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    samples, count, answer = np.full(runs, np.nan), np.full(runs, np.nan), None
    for r in range(batches):
        trial = advance(problem, policy, trial, world(rng, trial.plan, r))
        now = final_answer(problem, policy, trial)
        new = trial.done & ~done
        answer = now.copy() if answer is None else np.where(new.reshape((-1,) + (1,) * (now.ndim - 1)), now, answer)
        samples[new], count[new] = trial.record.samples[new], r + 1
        done |= trial.done
        if event is not None:
            happened |= event(trial)
    return Played(happened, done, answer, samples, count, trial)


def normal(means, sigma=1.0):
    """Normal rewards, with their scatter."""

    def draw(rng, pulls):
        totals = pulls * means + sigma * np.sqrt(pulls) * rng.standard_normal(pulls.shape)
        chi2 = np.where(pulls > 1, rng.chisquare(np.maximum(pulls - 1, 1)), 0.0)
        return Batch(pulls, totals, np.broadcast_to(np.square(sigma) * chi2, pulls.shape))

    return drawn(draw)


def two_point(means):
    """Mean plus or minus 1, each with probability 1/2: sub-Gaussian with sigma 1, and extremal."""
    return drawn(lambda rng, n: Batch(n, n * means + 2.0 * rng.binomial(n.astype(np.int64), 0.5) - n))


def binary(means):
    return drawn(lambda rng, n: Batch(n, rng.binomial(n.astype(np.int64), means).astype(float)))


def poisson(means):
    return drawn(lambda rng, n: Batch(n, rng.poisson(n * means).astype(float)))


VALUES = np.array([0.0, 0.05, 0.1, 0.6, 1.0])
LAWS = np.array([[0.30, 0.20, 0.35, 0.05, 0.10], [0.275, 0.20, 0.30, 0.225, 0.0], [0.825, 0.0, 0.0, 0.0, 0.175]])


def bounded(arms):
    """Values in [0, 1], as tables; three laws with the same mean 0.175, arm by arm."""
    assert np.allclose(LAWS @ VALUES, 0.175)
    laws = LAWS[np.arange(arms) % 3] / LAWS.sum(axis=1)[np.arange(arms) % 3, None]

    def draw(rng, pulls):
        table = rng.multinomial(pulls.astype(np.int64), laws).astype(float)
        totals = table @ VALUES
        scatter = np.maximum(table @ VALUES**2 - totals**2 / np.maximum(pulls, 1.0), 0.0)
        values = np.broadcast_to(VALUES, (*pulls.shape[:-1], len(VALUES)))
        return Batch(pulls, totals, scatter, ValueTable(values, table))

    return drawn(draw)


def drawn(draw):
    return lambda rng, plan, r: told(plan, lambda pulls: draw(rng, pulls))


# name: the model, a common mean, and the world of arms that all have it (plus, where it is not None, an offset)
NOISES = {
    "sub-Gaussian, normal": (SubGaussian(1.0), 0.0, normal),
    "sub-Gaussian, two-point": (SubGaussian(1.0), 0.0, two_point),
    "exactly Gaussian": (Gaussian(1.0), 0.0, normal),
    "unknown variance": (Normal(), 0.0, lambda means: normal(means, sigma=7.0)),
    "rates of 0.01": (Binary(), 0.01, binary),
    "rates of 0.5": (Binary(), 0.5, binary),
    "rates of 0.99": (Binary(), 0.99, binary),
    "bounded, tables": (Bounded(0.0, 1.0), 0.175, lambda means: bounded(means.shape[-1])),
    "0.05 events": (Poisson(), 0.05, poisson),
    "20 events": (Poisson(), 20.0, poisson),
}


# ------------------------------------------------------------------------------- events of probability at most delta


def arm_0_rejected(problem):
    """Best arm: the cell of arm 0, which is among the best."""
    return lambda trial: trial.kept.wealth.lost[..., 0]


def a_piece_rejected(problem):
    """Candidates: the first half-space of any candidate; all forms being equal, every half-space is a true null.

    By Proposition 3 with this choice of one true piece for each answer, it has probability at most delta.
    """
    return lambda trial: trial.kept.wealth.lost[..., 0].any(axis=-1)


def first_set_rejected(problem):
    """Top-k: the set of the first k arms, which is among the best; candidates, where sets are not bet on."""
    pieces = a_piece_rejected(problem)

    def event(trial):
        wealth = trial.kept.wealth
        return wealth.lost[..., 0] if isinstance(wealth, SetsWealth) else pieces(trial)

    return event


def piece_of_arm_0_rejected(problem):
    """Tolerance: for any candidate but arm 0, that arm 0 leads it by the tolerance, which is just true."""

    def event(trial):
        won = trial.kept.wealth
        return (won.lost[..., 0] & (won.answers[..., 0] > 0)).any(axis=-1)

    return event


def half_the_arms_rejected(problem):
    """Above: one S has lost, or an arm is settled against it; all means being on the level, every S is a true null."""
    inside = np.arange(problem.arms) < problem.arms / 2

    def event(trial):
        won = trial.kept.wealth
        against = (won.settled & (inside != (won.above > won.below))).any(axis=-1)
        return against | (np.where(inside, won.below, won.above).sum(axis=-1) >= math.log(1 / problem.delta))

    return event


def none_rejected(problem):
    """Minimum and any-above: the cell "no arm is beyond", just true."""
    return lambda trial: trial.kept.wealth.none_lost


def arm_0_beyond_rejected(problem):
    """Minimum and any-above: the cell "arm 0 is beyond", just true."""
    return lambda trial: trial.kept.wealth.arms_lost[..., 0]


# name: the question for so many arms with a common mean, the event, how far all arms but the first are below the mean
BOUNDARIES = {
    "best arm, tie": (lambda k, mean: BestArm(), arm_0_rejected, 0.0),
    "top-k, tie": (lambda k, mean: TopK(max(1, k // 2)), first_set_rejected, 0.0),
    "above, on the level": (lambda k, mean: Above(mean), half_the_arms_rejected, 0.0),
    "minimum on the level: no": (lambda k, mean: MinimumBelow(mean), none_rejected, 0.0),
    "minimum on the level: yes": (lambda k, mean: MinimumBelow(mean), arm_0_beyond_rejected, 0.0),
    "largest on the level: no": (lambda k, mean: AnyAbove(mean), none_rejected, 0.0),
    "largest on the level: yes": (lambda k, mean: AnyAbove(mean), arm_0_beyond_rejected, 0.0),
    "statements, at equality": (lambda k, mean: Statements.against_control(k), a_piece_rejected, 0.0),
    "largest score, tie": (lambda k, mean: Largest(np.eye(k)), a_piece_rejected, 0.0),
    "tolerance, just reached": (lambda k, mean: BestArm(0.25 * scale(mean)), piece_of_arm_0_rejected, 0.25),
}


def scale(mean):
    """A size of differences that fits a common mean."""
    return 1.0 if mean == 0 else min(mean, 1.0) * 0.5 if mean <= 0.5 or mean > 1 else 1 - mean


def at_boundary(boundary, noise, arms, first, delta, runs, batches, seed, world=None, growth=2.0):
    """How many runs had the event of a boundary."""
    asked, event, behind = BOUNDARIES[boundary]
    model, mean, world_of = NOISES[noise]
    means = np.full(arms, mean)
    means[1:] -= behind * scale(mean)
    question = asked(arms, mean)
    problem = Problem(question, arms, delta, model)
    policy = Wager(first_pulls=first, growth=growth)
    world = world_of(means) if world is None else world
    return int(play(problem, policy, world, runs, batches, seed, event(problem)).happened.sum())


def kept(times, runs, delta):
    """The data do not contradict a probability of at most delta."""
    return binomtest(times, runs, delta, alternative="greater").pvalue > 1e-5


def possible(boundary, noise):
    """Tables of one law cannot be moved by a tolerance."""
    return not (boundary == "tolerance, just reached" and noise == "bounded, tables")


CELLS = [(b, n) for b in BOUNDARIES for n in NOISES if possible(b, n)]


class TestBoundaries:
    """A given true null is rejected with probability at most delta, within any horizon."""

    @pytest.mark.long
    @pytest.mark.parametrize(("boundary", "noise"), thinned(CELLS, 3))
    def test_every_question_with_every_noise(self, boundary, noise):
        times = at_boundary(boundary, noise, arms=4, first=8, delta=0.1, runs=800, batches=7, seed=1)
        assert kept(times, 800, 0.1)

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("noise", "size"),
        diagonals(
            ["sub-Gaussian, two-point", "exactly Gaussian", "unknown variance"],
            [(2, 1, 0.3), (2, 30, 0.05), (5, 4, 0.3), (30, 30, 0.05)],
            3,
        ),
    )
    def test_arms_first_batches_and_deltas(self, noise, size):
        arms, first, delta = size
        times = at_boundary("best arm, tie", noise, arms, first, delta, runs=800, batches=10, seed=2)
        assert kept(times, 800, delta)

    @pytest.mark.long
    @pytest.mark.parametrize("noise", ["sub-Gaussian, two-point", "rates of 0.01", "rates of 0.99", "20 events"])
    @pytest.mark.parametrize("boundary", ["best arm, tie", "above, on the level", "minimum on the level: no"])
    def test_means_just_beside_the_boundary(self, boundary, noise):
        """1e-9 beside it the answer is unique, and giving another has probability at most delta."""
        asked, _, _ = BOUNDARIES[boundary]
        model, mean, world_of = NOISES[noise]
        means = np.array([mean + 1e-9, mean, mean])
        question = asked(3, mean + (0.0 if boundary == "best arm, tie" else -1e-9))
        problem = Problem(question, 3, 0.3, model)
        ended = play(problem, Wager(first_pulls=4), world_of(means), 800, 9, 3)
        wrong = ended.done & ~question.correct(ended.answer, np.broadcast_to(means, (800, 3)))
        assert kept(int(wrong.sum()), 800, 0.3)

    def test_the_bets_are_not_empty(self):
        """Capped bets on two arms use much of the level, so that the tests above look at something."""
        times = at_boundary("best arm, tie", "exactly Gaussian", 2, 30, 0.3, runs=1000, batches=20, seed=4)
        assert times / 1000 > 0.15

    def test_wrong_answers_where_the_answer_is_unique(self):
        """As users meet it: no more wrong answers than delta on close instances of every question."""
        for question, means in (
            (BestArm(), [0.02, 0.0, 0.0]),
            (TopK(2), [0.1, 0.05, 0.03, 0.0]),
            (Above(0.0), [0.02, -0.02, 0.3]),
            (MinimumBelow(0.0), [0.02, 0.03]),
            (AnyAbove(0.0), [-0.02, -0.03]),
            (BestArm(0.05), [0.06, 0.0, 0.0]),
        ):
            (runs,) = simulate(
                question,
                GaussianArms(means),
                [Wager(first_pulls=4)],
                runs=600,
                delta=0.1,
                noise=SubGaussian(1.0),
                max_batches=60,
            )
            assert kept(int((runs.decided & ~runs.correct).sum()), 600, 0.1)


class TestControls:
    """The tests above must catch a rule whose bets are too bold, and data that break the model."""

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    def test_a_sigma_that_is_too_small_is_caught(self, boundary):
        world = normal(np.array([0.0, 0.0, 0.0]), sigma=4.0)  # while the bets believe in 1
        if boundary == "tolerance, just reached":
            world = normal(np.array([0.0, -0.25, -0.25]), sigma=4.0)
        times = at_boundary(boundary, "sub-Gaussian, normal", 3, 8, 0.1, runs=400, batches=8, seed=1, world=world)
        assert not kept(times, 400, 0.1)

    @pytest.mark.parametrize("noise", NOISES)
    def test_data_that_break_the_noise_model_are_caught(self, noise):
        """Each row comes nine times: the variance is that of the model, but the rows are not independent."""
        model, mean, world_of = NOISES[noise]

        def nine_times(rng, plan, r):
            once = told(plan, lambda n: world_of(np.full(2, mean))(rng, plan._replace(pulls=n, parts=1), r))
            return repeated(once, 9.0)

        problem = Problem(BestArm(), 2, 0.1, model)
        ended = play(problem, Wager(first_pulls=30), nine_times, 400, 8, 1, arm_0_rejected(problem))
        assert not kept(int(ended.happened.sum()), 400, 0.1)

    def test_inflated_bets_are_caught(self, monkeypatch):
        honest = bets.gaussian_factor

        def inflated(*known):
            tilt = honest(*known)
            return lambda p, q: tilt(p, q) + 0.1 * (q > 0)

        monkeypatch.setattr(bets, "gaussian_factor", inflated)
        for boundary in ("best arm, tie", "above, on the level", "minimum on the level: yes"):
            times = at_boundary(boundary, "sub-Gaussian, normal", 3, 8, 0.1, runs=400, batches=10, seed=1)
            assert not kept(times, 400, 0.1)

    def test_a_leader_chosen_after_looking_is_caught(self, monkeypatch):
        """The bets of the real rule, but with the batch itself as past."""

        def peeking(self, problem, kept, plan, batch):
            seen = honest(self, problem, kept, plan, batch)
            won = eprocess_for(problem).update(problem, seen._replace(wealth=kept.wealth), batch.parts, True)
            return seen._replace(wealth=won)

        honest = EProcessRule.fold
        monkeypatch.setattr(EProcessRule, "fold", peeking)
        times = at_boundary("best arm, tie", "sub-Gaussian, normal", 5, 8, 0.1, runs=400, batches=8, seed=1)
        assert not kept(times, 400, 0.1)


def repeated(batch, times):
    """The batch with every row so many times over."""

    def more(one):
        return [None if each is None else each * times for each in one[:3]]

    def tables(one):
        return None if one.table is None else ValueTable(one.table.values, one.table.counts * times)

    return Batch(*more(batch), tables(batch), Parts(*more(batch.parts), tables(batch.parts)))


# ------------------------------------------------------------------------------------------------------------ figures

PAPER = GaussianArms(RandomGaps())
LOCATELLI = (0.1, 0.1, 0.1, 0.35, 0.45, 0.55, 0.65, 0.9, 0.9, 0.9)
SIGMA_1 = SubGaussian(1.0)

# name: question, environment, noise, its lower bound, at most so many samples over it, in at most so many batches
FIGURES = {
    "paper": (BestArm(), PAPER, SIGMA_1, None, 2.95, 5.0),
    "equal gaps": (BestArm(), GaussianArms([0.3] + [0.0] * 9), SIGMA_1, 942, 3.1, 4.4),
    "one close rival": (BestArm(), GaussianArms([1.0, 0.9] + [0.5] * 8), SIGMA_1, 2293, 2.4, 4.65),
    "100 arms, linear": (BestArm(), GaussianArms(np.linspace(1, 0, 100)), SIGMA_1, 243_145, 3.4, 6.5),
    "two arms": (BestArm(), GaussianArms([0.1, 0.0]), SIGMA_1, 2120, 2.0, 5.2),
    "top-3 of 10": (TopK(3), GaussianArms(-0.1 * np.arange(10)), SIGMA_1, 2629, 3.15, 5.2),
    "above": (Above(0.5), GaussianArms(LOCATELLI), SIGMA_1, 4910, 2.8, 5.6),
    "minimum": (MinimumBelow(0.6), GaussianArms([0.5, 0.6]), SIGMA_1, 530, 3.4, 4.9),
    "paper, exactly Gaussian": (BestArm(), PAPER, Gaussian(1.0), None, 2.95, 5.0),
}


class TestFigures:
    """What is wanted of it, at 2000 runs and delta 0.05, seed 1; means over 5 seeds are in docs/wager.md."""

    @pytest.mark.long
    @pytest.mark.parametrize("name", FIGURES)
    def test_samples_and_batches(self, name):
        question, environment, noise, bound, ratio, batches = FIGURES[name]
        (runs,) = simulate(question, environment, [Wager()], runs=2000, noise=noise, max_batches=100)
        found = runs.summary
        if bound is not None:
            assert found.lower_bound == pytest.approx(bound, rel=1e-3)
        assert found.samples_over_lower_bound <= ratio
        assert found.batches_mean <= batches
        assert found.undecided == 0
        assert kept(round(found.error * 2000), 2000, 0.01)  # far below delta

    def test_rates_near_one_twentieth_need_far_fewer_samples_than_with_half(self):
        """The variance of a rare event is small, which bets on counts know and a sigma of 1/2 does not."""
        world = BernoulliArms([0.05, 0.045, 0.043, 0.04])
        policy = [Wager(first_pulls=1000)]
        (half,) = simulate(BestArm(), world, policy, runs=400, noise=SubGaussian(0.5))
        (rates,) = simulate(BestArm(), world, policy, runs=400, noise=Binary())
        assert half.samples.mean() >= 3.5 * rates.samples.mean()

    def test_small_deltas_cost_little_more_than_the_bound(self):
        ratios = {}
        for delta in (0.05, 1e-3, 1e-6, 1e-10):
            (runs,) = simulate(BestArm(), PAPER, [Wager()], runs=300, delta=delta, noise=SIGMA_1)
            ratios[delta] = runs.summary.samples_over_lower_bound
            assert runs.correct.all() or delta == 0.05
        assert ratios[0.05] > ratios[1e-3] > ratios[1e-6] > ratios[1e-10]
        assert ratios[1e-10] < 1.7

    def test_unknown_variance_costs_next_to_nothing(self):
        (known,) = simulate(BestArm(), PAPER, [Wager()], runs=1000, noise=SIGMA_1)
        (unknown,) = simulate(BestArm(), PAPER, [Wager()], runs=1000, noise=Normal())
        assert unknown.samples.mean() < 1.06 * known.samples.mean()

    def test_values_of_small_variance_need_far_fewer_samples_than_their_range_suggests(self):
        """Means .5 and .45, variance .05: a fifth of what values in [0, 1] may have."""
        counts = np.array([[10.0, 80.0, 10.0], [15.0, 80.0, 5.0]])
        world = Replay(("a", "b"), np.array([0.0, 0.5, 1.0]), counts)
        (values,) = simulate(BestArm(), world, [Wager()], runs=300, noise=Bounded(0, 1))
        (sums,) = simulate(BestArm(), world, [Wager()], runs=300, noise=SubGaussian(0.5))
        assert values.samples.mean() < 0.4 * sums.samples.mean()

    def test_every_run_ends(self):
        """Also where the best arm was rejected by mistake: every arm keeps a floor of samples."""
        for name in ("minimum", "equal gaps"):
            question, environment, noise, *_ = FIGURES[name]
            (runs,) = simulate(question, environment, [Wager()], runs=2000, noise=noise, seed=5, max_batches=100)
            assert runs.decided.all()


def points(policies):
    """Samples over the lower bound, and mean batches, of each policy on the paper's instances."""
    found = simulate(BestArm(), PAPER, policies, runs=600, noise=SIGMA_1)
    return [(runs.summary.samples_over_lower_bound, runs.summary.batches_mean) for runs in found]


@pytest.fixture(scope="module")
def bound():
    (runs,) = simulate(BestArm(), PAPER, [Wager()], runs=600, noise=SIGMA_1)
    return runs.summary.lower_bound


@pytest.fixture(scope="module")
def front(bound):
    return points({str(price): Wager(batch_price=price * bound) for price in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)})


class TestFront:
    """More batches or more samples: the dial's front leaves every setting of the others behind."""

    def test_the_front_is_a_front(self, front):
        ratios, batches = np.array(front).T
        assert (np.diff(batches) < 0).all()
        assert (np.diff(ratios) > -0.15).all()  # the cheapest batches differ by less than 600 runs can tell
        assert ratios[0] < ratios[3] < ratios[4] < ratios[5] < ratios[6]

    def test_it_dominates_the_others(self, front):
        times = (100, 300, 900, 2700, 8100, 24300)
        others = {f"PET {guess}": PET(guess=guess) for guess in (1, 4, 16, 64)}
        for threshold in (Lemma32(), KaufmannKoolenPairwise()):
            rule = GLR(threshold)
            others |= {f"TaS {threshold.name} {t}": TrackAndStop(stopping=rule, first_time=t) for t in times}
            others |= {f"RR {threshold.name} {t}": RoundRobin(stopping=rule, first_time=t) for t in times}
        for name, (ratio, batches) in zip(others, points(others), strict=True):
            assert any(r < ratio and b < batches for r, b in front), name

    def test_except_pets_single_batch(self, front):
        """One batch of 280 times the bound: nothing can use fewer; ours is near one batch at a 20th of that."""
        ((ratio, batches),) = points({"PET": PET(guess=256)})
        assert batches == 1
        assert min(b for _, b in front) < 1.35
        assert min(ratio / r for r, _ in front) > 20

    def test_cheap_batches_are_more_and_smaller(self, bound):
        problem = Problem(BestArm(), 10)
        first = [Wager(batch_price=price).first(problem, ()).pulls for price in (1.0, bound, 10 * bound)]
        assert first[0].tolist() == [30.0] * 10
        assert first[1].tolist() == [math.ceil(bound / 10)] * 10
        assert first[2].tolist() == [math.ceil(bound)] * 10

    def test_what_follows_from_the_price(self):
        """The first batch, the size of the next and how bold bets are; without a price the rule of docs/wager.md."""
        problem, rng = Problem(BestArm(), 10), np.random.default_rng(1)
        means = np.array([0.02, *[0.0] * 9])
        for price, pulls, bold, growth in (
            (50.0, 30, -1, 3 * math.sqrt(1 / 6)),
            (1000.0, 100, 0, 3.0),
            (5000.0, 500, 1, 3.0),
        ):
            policy = Wager(batch_price=price)
            trial = begin(problem, policy)
            assert trial.plan.pulls.tolist() == [pulls] * 10
            assert trial.plan.jump == bold
            batch = Batch(trial.plan.pulls, rng.normal(pulls * means, math.sqrt(pulls)))
            trial = advance(problem, policy, trial, batch)
            assert trial.plan.pulls.sum() == pytest.approx(growth * 10 * pulls, rel=0.02)  # a hard one: all it may
            assert trial.plan.jump == min(bold, 0)
        trial = begin(problem, Wager())
        trial = advance(problem, Wager(), trial, Batch(trial.plan.pulls, rng.normal(30 * means, math.sqrt(30))))
        assert trial.plan.pulls.sum() == pytest.approx(3 * math.sqrt(120 * math.sqrt(10) / 300) * 300, rel=0.02)
        assert trial.plan.jump == 0

    def test_many_arms_near_the_top(self):
        """At least .4 sqrt(K) doubt apart^4 times the samples so far, at most `growth`; not at a price."""
        arms = 64
        problem, counts = Problem(BestArm(), arms, noise=SIGMA_1), np.full(arms, 400.0)
        near = np.where(np.arange(arms) < 20, 0.5 - 0.001 * np.arange(arms), -0.5)
        batch = Batch(counts, counts * near)
        spread = near.var(ddof=1)
        apart = 1 - (1 / 400) / spread
        z = (near[0] - near[1:]) / math.sqrt(2 / 400)
        doubt = -np.log([NormalDist().cdf(each) for each in z]).sum()
        crowd = 0.4 * math.sqrt(arms) * doubt * apart**4
        assert crowd > 6
        for growth in (6.0, 2.0, 100.0):
            policy = Wager(first_pulls=400, growth=growth)
            trial = advance(problem, policy, begin(problem, policy), batch)
            assert trial.plan.pulls.sum() == pytest.approx(min(crowd, growth) * counts.sum(), rel=0.01)
        priced = Wager(first_pulls=400, batch_price=1000.0)
        trial = advance(problem, priced, begin(problem, priced), batch)
        assert trial.plan.pulls.sum() < counts.sum()

    def test_arms_that_only_noise_tells_apart_are_no_crowd(self):
        problem, counts = Problem(BestArm(), 64, noise=SIGMA_1), np.full(64, 30.0)
        means = NormalDist(0, math.sqrt(1 / 30)).inv_cdf
        batch = Batch(counts, counts * [means((i + 0.5) / 64) for i in range(64)])
        trial = advance(problem, Wager(), begin(problem, Wager()), batch)
        assert signal_share(trial.kept.known) < 0.05
        assert trial.plan.pulls.sum() < 2.3 * counts.sum()  # 3 sqrt(120 sqrt(64) / 1920)

    def test_an_arm_that_was_left_behind_gets_twice_its_floor(self):
        """Below 5 % of an equal share of all samples it is brought to 10 %; with a limit on batches to 5 %."""
        problem, means = Problem(BestArm(), 4, noise=SIGMA_1), np.array([0.1, 0.098, -5.0, -5.0])
        for policy, share in ((Wager(), 0.1), (Wager(max_batch=200_000), 0.05)):
            trial = begin(problem, policy)
            for counts in (np.full(4, 100.0), np.array([50_000.0, 50_000.0, 4_000.0, 10.0])):
                trial = advance(problem, policy, trial, Batch(counts, counts * means))
            assert trial.kept.wealth.lost.tolist() == [False, False, True, True]
            after = trial.record.counts + trial.plan.pulls
            assert trial.plan.pulls[2] == 0
            assert after[3] == pytest.approx(share * after.sum() / 4, rel=0.05)

    def test_a_batch_is_worth_less_where_one_arm_is_asked_about(self):
        """0.55 of what it is worth for the best arm: by its square root narrower."""
        sizes = []
        for question in (BestArm(), MinimumBelow(0.0)):
            problem, counts = Problem(question, 10, noise=SIGMA_1), np.full(10, 30.0)
            batch = Batch(counts, np.zeros(10))  # a hard one: all it may
            sizes.append(advance(problem, Wager(), begin(problem, Wager()), batch).plan.pulls.sum())
        assert sizes[1] / sizes[0] == pytest.approx(math.sqrt(0.55), rel=0.02)

    @pytest.mark.parametrize("jump", [-1, 0, 1])
    def test_a_jump_is_the_table_that_bets_are_read_from(self, jump, monkeypatch):
        problem = Problem(BestArm(), 2, noise=SIGMA_1)
        kept = EProcessRule().start(problem, ())
        first = Batch(np.full(2, 50.0), np.array([30.0, 10.0]))
        kept = EProcessRule().fold(problem, kept, BatchPlan(first.counts, np.asarray(True)), first)
        parts = Parts(np.full((1, 2, 2), 25.0), np.array([[[20.0, 12.0], [3.0, 9.0]]]))
        batch = Batch(np.full(2, 50.0), np.array([32.0, 12.0]), parts=parts)
        plan, table = BatchPlan(batch.counts, np.asarray(True), jump=jump), jump or ALONE
        found = EProcessRule().fold(problem, kept, plan, batch).wealth.gains
        monkeypatch.setattr("roundwise.rules.eprocess.engine.slopes", lambda other, own=slopes: own(table))
        expected = EProcessRule().fold(problem, kept, plan._replace(jump=-1 if jump == 1 else 1), batch).wealth.gains
        assert found.tolist() == expected.tolist()
        assert (found != 0).any()


# ----------------------------------------------------------------------------------------------------- predictability

SEVEN = {
    "best arm": BestArm(),
    "tolerance": BestArm(0.1),
    "top-k": TopK(2),
    "above": Above(0.45),
    "minimum": MinimumBelow(0.1),
    "any above": AnyAbove(0.8),
    "statements": Statements.against_control(5, 1, 0.05),
    "largest": Largest([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]),
}


def same(one, other):
    """Trees of arrays with the same numbers."""

    def compared(a, b):
        np.testing.assert_array_equal(a, b)
        return a

    tree_map(compared, one, other)


class TestPredictability:
    """What a batch is bet on is fixed before it, and nothing in the batch can change it."""

    MEANS = np.array([0.5, 0.45, 0.3, 0.6, 0.0])

    def after(self, question, batches, noise=SIGMA_1, runs=40, seed=3):
        problem = Problem(question, 5, 0.1, noise)
        return problem, play(problem, Wager(), normal(self.MEANS), runs, batches, seed).trial

    @pytest.mark.parametrize("question", SEVEN.values(), ids=SEVEN)
    @pytest.mark.parametrize("noise", [SIGMA_1, Gaussian(1.0), Normal()])
    def test_the_bets_are_those_fixed_before_the_batch(self, question, noise):
        problem, trial = self.after(question, 2, noise)
        batch = normal(self.MEANS)(np.random.default_rng(9), trial.plan, 2)
        ledger = eprocess_for(problem)
        settled = ledger.update(problem, trial.kept, batch.parts, ledger.shifts)
        same(advance(problem, Wager(), trial, batch).kept.wealth, settled)
        whole = batch._replace(parts=None)
        settled = ledger.update(problem, trial.kept, stack_parts((whole,)), ledger.shifts)
        same(advance(problem, Wager(), trial, whole).kept.wealth, settled)

    @pytest.mark.parametrize("question", SEVEN.values(), ids=SEVEN)
    def test_the_next_outcomes_change_the_next_plan_but_not_this_one(self, question):
        problem, trial = self.after(question, 2)
        before = tree_map(np.copy, trial.plan)
        pulls = trial.plan.pulls
        one = advance(problem, Wager(), trial, Batch(pulls, pulls * self.MEANS))
        other = advance(problem, Wager(), trial, Batch(pulls, pulls * self.MEANS[::-1]))
        same(before, trial.plan)
        assert (one.plan.pulls != other.plan.pulls).any()

    def test_the_first_part_is_never_bet_on(self):
        problem = Problem(BestArm(), 3, 0.1, SIGMA_1)
        plan = Wager().first(problem, ())
        parts = [Batch(n, n * 9.0 * (np.arange(3) == 0) * (i == 0)) for i, n in enumerate(cut(plan))]
        kept = EProcessRule().fold(problem, EProcessRule().start(problem, ()), plan, join_parts(parts[:1]))
        assert (kept.wealth.gains == 0).all()

    @pytest.mark.parametrize("question", SEVEN.values(), ids=SEVEN)
    def test_permuted_runs_are_permuted_results(self, question):
        problem, trial = self.after(question, 2)
        order = np.random.default_rng(1).permutation(40)
        batch = normal(self.MEANS)(np.random.default_rng(9), trial.plan, 2)
        same(
            tree_take(advance(problem, Wager(), trial, batch), order),
            advance(problem, Wager(), tree_take(trial, order), tree_take(batch, order)),
        )

    def test_replaying_the_batches_gives_the_same_trial(self):
        """Nothing is hidden: a fold over the same batches ends in the same place."""
        problem = Problem(TopK(2), 5, 0.1, SIGMA_1)
        rng, trial, batches = np.random.default_rng(4), begin(problem, Wager()), []
        for _ in range(4):
            batches.append(normal(self.MEANS)(rng, trial.plan, 0))
            trial = advance(problem, Wager(), trial, batches[-1])
        again = begin(problem, Wager())
        for batch in batches:
            again = advance(problem, Wager(), again, batch)
        same(trial, again)


# ------------------------------------------------------------------------------------------------------------- limits


class TestLimits:
    @pytest.mark.parametrize(("arms", "room", "least"), [(20, 20, 0), (20, 33, 0), (3, 3, 0), (6, 40, 5)])
    def test_no_arm_is_starved_by_a_small_batch(self, arms, room, least):
        """Batches are full, every arm keeps its floor (Theorem 9 needs it), and the study ends."""
        problem, policy = Problem(BestArm(), arms, 0.05, SIGMA_1), Wager(max_batch=room, min_per_arm=least)
        rng, means = np.random.default_rng(1), np.r_[0.8, np.zeros(arms - 1)]
        trial = begin(problem, policy)
        for r in range(300):
            pulls = trial.plan.pulls
            assert pulls.sum() <= room
            assert ((pulls == 0) | (pulls >= least)).all()
            assert r == 0 or pulls.sum() >= min(0.9 * room, 0.1 * trial.record.samples)
            trial = advance(problem, policy, trial, Batch(pulls, rng.normal(pulls * means, np.sqrt(pulls))))
            assert (trial.record.counts >= math.floor(0.03 * trial.record.samples / arms)).all()
            if trial.done:
                break
        assert trial.done
        assert final_answer(problem, policy, trial) == 0

    def test_the_minimum_is_rounded_up_before_room_is_looked_for(self):
        with pytest.raises(InputError, match="arms"):
            begin(Problem(BestArm(), 2, 0.05, SIGMA_1), Wager(max_batch=3, min_per_arm=1.5))

    @pytest.mark.parametrize("setting", [{"growth": math.inf}, {"batch_price": math.inf}, {"batch_price": 1e300}])
    def test_settings_that_have_no_end(self, setting):
        with pytest.raises(InputError, match="but must be"):
            Wager(**setting)

    def test_an_unknown_deviation_needs_two_results_of_an_arm(self):
        problem = Problem(BestArm(), 5, 0.05, Normal())
        with pytest.raises(InputError, match="deviation"):
            begin(problem, Wager(max_batch=9))
        begin(problem, Wager(max_batch=10))

    @pytest.mark.parametrize("policy", [Wager(max_batch=60), Wager(max_batch=60, batch_price=5000.0)])
    def test_no_batch_is_larger_than_the_limit(self, policy):
        problem = Problem(BestArm(), 5, 0.1, SIGMA_1)
        sizes = []

        def world(rng, plan, r):
            sizes.append(plan.pulls.sum(axis=-1))
            return normal(np.array([0.6, 0.0, 0.0, 0.2, 0.3]))(rng, plan, r)

        ended = play(problem, policy, world, 100, 40, 1)
        assert max(size.max() for size in sizes) <= 60
        assert min(size.min() for size in sizes) > 0
        assert ended.done.mean() > 0.95

    def test_an_arm_that_is_pulled_is_pulled_often_enough(self):
        problem = Problem(TopK(2), 5, 0.1, SIGMA_1)
        seen = []

        def world(rng, plan, r):
            seen.append(plan.pulls)
            return normal(np.array([0.6, 0.5, 0.0, 0.2, 0.1]))(rng, plan, r)

        play(problem, Wager(first_pulls=3, min_per_arm=7, max_batch=300), world, 100, 12, 1)
        for pulls in seen:
            assert ((pulls == 0) | (pulls >= 7)).all()
            assert (pulls.sum(axis=-1) <= 300).all()
        assert any((pulls == 0).any() for pulls in seen)

    @pytest.mark.parametrize("limits", [{"max_batch": 40}, {"min_per_arm": 20}, {"max_batch": 90, "min_per_arm": 15}])
    def test_the_error_is_kept(self, limits):
        problem = Problem(BestArm(), 4, 0.2, SIGMA_1)
        ended = play(problem, Wager(**limits), normal(np.zeros(4)), 400, 12, 1, arm_0_rejected(problem))
        assert kept(int(ended.happened.sum()), 400, 0.2)

    def test_a_limit_must_leave_room_for_every_arm(self):
        with pytest.raises(InputError, match="arms"):
            Wager(max_batch=99, min_per_arm=20).check(Problem(BestArm(), 5))

    @pytest.mark.parametrize("limit", [{"max_samples": 400}, {"max_batches": 2}])
    def test_a_budget_gives_undecided(self, limit):
        (runs,) = simulate(
            BestArm(),
            GaussianArms([0.1, 0.0, -1.0]),
            [Wager()],
            runs=200,
            noise=SIGMA_1,
            watch={"open": lambda trial: (~trial.kept.wealth.lost).sum(axis=-1)},
            **limit,
        )
        assert runs.summary.undecided > 0.5
        assert (runs.watched["open"][~runs.decided] >= 2).all()
        assert (runs.watched["open"][runs.decided] <= 1).all()

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"first_pulls": 0}, "first_pulls"),
            ({"growth": 0}, "growth"),
            ({"batch_price": 0}, "batch_price"),
            ({"min_per_arm": -1}, "min_per_arm"),
        ],
    )
    def test_settings_that_make_no_sense(self, wrong, message):
        with pytest.raises(InputError, match=message):
            Wager(**wrong).check(Problem(BestArm(), 5))


class TestAbove:
    @pytest.mark.parametrize("noise", [SIGMA_1, Gaussian(1.0), Normal()], ids=lambda each: type(each).__name__)
    def test_an_arm_is_settled_when_all_sets_that_disagree_have_lost_at_one_time(self, noise):
        """By brute force over all 2^4 sets, at every batch; what was settled stays so."""
        problem, policy = Problem(Above(0.0), 4, 0.1, noise), Wager(growth=0.5)
        sets = np.array(list(itertools.product([False, True], repeat=4)))
        rng, world = np.random.default_rng(5), normal([0.3, 0.15, -0.1, -0.4])
        trial, settled, undone = begin(problem, policy, (200,)), np.zeros((200, 4), dtype=bool), 0
        for number in range(14):
            trial = advance(problem, policy, trial, world(rng, trial.plan, number)._replace(parts=None))
            won = trial.kept.wealth
            lost = np.where(sets, won.below[:, None, :], won.above[:, None, :]).sum(axis=-1) >= problem.goal - 1e-12
            side = won.above > won.below
            now = (lost[..., None] | (sets == side[:, None, :])).all(axis=1)
            undone += (settled & ~now).sum()
            settled |= now
            np.testing.assert_array_equal(won.settled, settled)
        assert settled.mean() > 0.3
        assert undone > 0  # it happens that sets come back; that they had lost is what counts
        assert trial.done.mean() == settled.all(axis=-1).mean()


class TestAnySampling:
    def test_the_rule_keeps_its_promise_with_other_policies(self):
        """It is the stopping rule that promises: Round Robin and Track-and-Stop may sample for it."""
        problem = Problem(BestArm(), 3, 0.2, SIGMA_1)
        for policy in (
            RoundRobin(stopping=EProcessRule(), first_time=30),
            TrackAndStop(stopping=EProcessRule(), first_time=30),
        ):
            ended = play(problem, policy, two_point(np.zeros(3)), 500, 10, 1, arm_0_rejected(problem))
            assert kept(int(ended.happened.sum()), 500, 0.2)

    def test_with_round_robin_it_needs_a_fraction_of_the_samples(self):
        rules = {"glr": RoundRobin(), "bets": RoundRobin(stopping=EProcessRule())}
        glr, betting = simulate(BestArm(), PAPER, rules, runs=300, noise=SIGMA_1)
        assert betting.samples.mean() < glr.samples.mean() / 8


def test_the_paper_instances_have_the_lower_bound_that_is_stated():
    """2494 was found elsewhere: a mean over random instances, of which 20 000 differ from 2000 by about 1 %."""
    means = RandomGaps()(np.random.default_rng(1), 20_000)
    bound = sample_lower_bound(BestArm().complexity(means).value, 0.05)
    assert bound.mean() == pytest.approx(2494, rel=0.01)


def test_pairs_are_what_best_arm_bets_on():
    problem = Problem(BestArm(), 3, 0.1, SIGMA_1)
    trial = play(problem, Wager(), normal(np.array([3.0, 0.0, 1.0])), 1, 1, 1).trial
    rivals = trial.kept.alternative.lead.pieces
    same(rivals, pairs(np.array([[2, 0, 0]]), np.arange(3)))


class TestWhatCanBeAsked:
    @pytest.mark.parametrize(
        ("question", "noise"),
        [
            (Above(1.5), Binary()),
            (BestArm(1.0), Binary()),
            (Statements.against_control(2, 0, 1.2), Binary()),
            (MinimumBelow(-1.0), Poisson()),
            (Above(1.5), Bounded(0.0, 1.0)),
            (Statements([[1.0, 1.0]], [-0.5]), Poisson()),
        ],
    )
    def test_what_is_certain_is_not_sampled_for(self, question, noise):
        with pytest.raises(InputError, match="so the answer is certain without any"):
            Problem(question, 2, 0.05, noise)

    def test_counts_of_single_arms_against_levels(self):
        """Statements about single rates are bet on with Poisson laws."""
        question = Statements([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]], [2.0, -2.0])
        problem, policy = Problem(question, 3, 0.05, Poisson()), Wager()
        ended = play(problem, policy, poisson(np.array([4.0, 1.0, 1.0])), 50, 12, 1)
        assert ended.done.all()
        assert (ended.answer == [True, True]).all()
        edge = play(problem, policy, poisson(np.array([2.0, 1.0, 2.0])), 500, 8, 1)  # both on their levels
        assert kept(int(edge.done.sum()), 500, 0.05)
