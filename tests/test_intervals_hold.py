"""Bounds hold at all times: how often they miss, and how often the truth itself is ruled out."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest

import test_wager
from roundwise import (
    Above,
    AnyAbove,
    BestArm,
    Gaussian,
    MinimumBelow,
    Problem,
    Wager,
)
from roundwise.betting import bounds as intervals
from roundwise.betting.above import AboveLedger
from roundwise.betting.bounds import behind_leader, mean_intervals, to_spare
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.rule import ledger_of
from roundwise.state import Batch
from roundwise.trial import advance, begin
from test_intervals import MEANS, NOISES, PAIRS, QUESTIONS, studied

TRUTHS = {  # of what is to spare, where the estimates have the right answer
    "best arm": (0.0, 0.5, 0.6),
    "tolerance": (0.6, 0.7),
    "top-2": (0.6, 0.1),
    "above": (0.35, 0.15, 0.25),
    "any above": (0.35, -0.35, 0.15, 0.25),
    "none above": (-0.05, 0.05, 0.55, 0.65),
    "minimum": (0.25, 0.35, -0.15, -0.25),
    "no minimum": (-0.05, 0.65, 0.15, 0.05),
    "statements": (0.4, 0.2),
    "largest": (1.1,),
}
EVERY = [pair for i, pair in enumerate(PAIRS) if i % 5 == 0]  # every question and every noise model, not every pair


@pytest.mark.parametrize(("question", "noise"), EVERY)
def test_what_is_to_spare_holds(question, noise):
    """A bound exceeds the truth with probability at most delta; what was ever shown counts, so the end is enough."""
    model, world = NOISES[noise]
    problem, policy = Problem(QUESTIONS[question], 3, 0.2, model), Wager(growth=1.0)
    truth, environment = np.array(TRUTHS[question]), world(MEANS)
    right = QUESTIONS[question].answer(np.array(MEANS))
    wrong, runs = np.zeros(len(truth)), 12
    for seed in range(runs):
        trial, batches = studied(problem, environment, policy, 100 + seed, most=5)
        if np.array_equal(QUESTIONS[question].answer(trial.kept.known.means), right):
            wrong += to_spare(problem, policy.stopping, batches) > truth
    for each in wrong:
        assert binomtest(int(each), runs, 0.2, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_hold_at_every_time(noise):
    model, world = NOISES[noise]
    problem, policy = Problem(BestArm(), 3, 0.2, model), Wager(growth=1.0)
    missed, behind, runs = np.zeros(3), np.zeros(3), 15
    for seed in range(runs):
        trial, batches = studied(problem, world(MEANS), policy, 100 + seed)
        found = mean_intervals(problem, policy.stopping, batches)
        assert (found.lower <= found.upper).all()
        missed += (np.array(MEANS) < found.lower) | (np.array(MEANS) > found.upper)
        leader = int(trial.kept.known.means.argmax())
        most = behind_leader(problem, policy.stopping, batches, leader)
        assert most[leader] == 0
        behind += MEANS[leader] - np.array(MEANS) > most
    for each in (*missed, *behind):
        assert binomtest(int(each), runs, 0.2, alternative="greater").pvalue > 1e-3


def test_the_choice_of_the_leader_is_paid_for():
    """300 equal arms: the one that leads is the luckiest. Unpaid, far more of the bounds would be below 0."""
    problem, policy = Problem(BestArm(), 300, 0.2, Gaussian(1.0)), Wager()
    missed = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        batches = [Batch(np.full(300, 50.0), rng.normal(0.0, math.sqrt(50.0), 300)) for _ in range(12)]
        last = int(sum(batch.totals for batch in batches).argmin())  # the unluckiest, to be unkind
        missed.append((behind_leader(problem, policy.stopping, batches, last) < -1e-9).mean())
    assert np.mean(missed) < 0.2


# ------------------------------------------------------------------------- the truth itself, in many runs at once

WORLDS = [noise for noise in test_wager.NOISES if noise != "bounded, tables"]  # tables of one law cannot be moved


def ruled_out(monkeypatch, noise, asked, runs, delta, seed=1, world_of=None):
    """How often each true value was ever ruled out, by kind of bound and arm: two on a level, one beside it, two far.

    The searches of the module are replaced: they look at the truth, in every run.
    """
    model, mean, usual = test_wager.NOISES[noise]
    world_of = world_of or usual
    means = mean + test_wager.scale(mean) * np.array([0.0, 0.0, 0.03, 0.7, -0.7])
    problem, policy = Problem(asked(mean), 5, delta, model), Wager(first_pulls=10, growth=0.6)
    rng, trial, batches = np.random.default_rng(seed), begin(problem, policy, (runs,)), []
    for number in range(12):
        batches.append(world_of(means)(rng, trial.plan, number))
        trial = advance(problem, policy, trial, batches[-1])
    values = np.broadcast_to(means, (runs, 5))
    monkeypatch.setattr(intervals, "_spread", lambda bets, size: bets)
    monkeypatch.setattr(intervals, "_mean_bound", lambda *given: given[2](values).astype(float))
    if isinstance(problem.question, BestArm):
        behind = np.broadcast_to(means.max() - means, (runs, 5))
        monkeypatch.setattr(intervals, "_bound", lambda shown, *others: shown(behind).astype(float))
        found = {"behind": to_spare(problem, policy.stopping, batches) > 0}
    placed, end = policy.stopping.replayed(problem, batches)
    ledger = ledger_of(problem)
    if isinstance(ledger, AboveLedger):
        found = {side: intervals._above(problem, ledger, placed, end, side) > 0 for side in (True, False)}
    elif isinstance(ledger, ExtremeLedger):
        found = {"inner": intervals._not_beyond(problem, ledger, placed, end) > 0}
        values = np.full((runs, 1), means.max() if ledger.beyond_is_above else means.min())
        start = ledger.start(problem, (runs,))._replace(arms_lost=np.ones((runs, 5), dtype=bool))
        won = intervals._moved_level(problem, ledger, placed, start, values)
        found["extreme"] = won.none_lost[:, None]
        values = np.broadcast_to(means, (runs, 5))
    for side in (True, False):
        found[f"own, {side}"] = intervals._own(problem, placed, end, side, problem.goal) > 0
    return {(kind, arm): int(times) for kind, each in found.items() for arm, times in enumerate(each.sum(axis=0))}


ASKED = {"above": Above, "any above": AnyAbove, "minimum": MinimumBelow, "best arm": lambda mean: BestArm()}


class TestTheTruth:
    @pytest.mark.parametrize("asked", ASKED)
    @pytest.mark.parametrize("noise", WORLDS)
    def test_it_is_rarely_ruled_out(self, monkeypatch, noise, asked):
        times = ruled_out(monkeypatch, noise, ASKED[asked], 400, 0.2)
        assert all(test_wager.kept(each, 400, 0.2) for each in times.values())
        assert sum(times.values()) > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("asked", ASKED)
    @pytest.mark.parametrize("noise", WORLDS)
    def test_it_is_rarely_ruled_out_in_many_runs(self, monkeypatch, noise, asked):
        times = Counter()
        for seed in range(10):
            with monkeypatch.context() as patched:
                times.update(ruled_out(patched, noise, ASKED[asked], 2000, 0.2, seed))
        assert all(test_wager.kept(each, 20_000, 0.2) for each in times.values())

    @pytest.mark.parametrize("asked", ASKED)
    def test_a_deviation_that_is_too_small_is_seen(self, monkeypatch, asked):
        """The same test on data that break the noise model."""
        wild = ruled_out(
            monkeypatch,
            "exactly Gaussian",
            ASKED[asked],
            400,
            0.2,
            world_of=lambda means: test_wager.normal(means, 4.0),
        )
        kinds = {kind for kind, arm in wild if not test_wager.kept(wild[kind, arm], 400, 0.2)}
        assert kinds == {kind for kind, _ in wild}
