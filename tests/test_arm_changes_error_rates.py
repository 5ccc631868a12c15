"""Lives of studies whose arms join and leave because of results, at the hardest truth: wrong in at most delta of them.

By simulation, with bets on parts and partitions as in studies; test_migrated_evidence.py has the same by enumeration.
"""

import math

import numpy as np
import pytest

from roundwise import Above, BestArm, Gaussian, Wager
from roundwise.arrays import tree_map
from roundwise.model.problem import advance, begin
from roundwise.noise import PairedBinary
from roundwise.policies.conditional_power import ConditionalPower
from roundwise.questions import Claims
from roundwise.simulation.environments import ArmState, GaussianArms, draw_batch
from roundwise.simulation.items import StickItems
from roundwise.solvers.halfspaces import pairs
from roundwise.study.amendments import Change, apply_change
from roundwise.study.fold import of_arms
from roundwise.study.spec import StudySpec

DELTA = 0.05
SCRIPTS = ["ra", "rd", "raardd", "rrdrar", "radrad", "rarrddra"]  # a round, add an arm, drop one
NEAR = 1e-9  # on the wrong side of a border by as little as may be


class Life:
    """A study in which arms may join and leave; means by name."""

    def __init__(self, question, noise, means, policy, delta, seed):
        self.rng, self.means, self.seen = np.random.default_rng(seed), dict(means), []
        self.settings = StudySpec(question=question, arms=tuple(means), noise=noise, delta=delta, policy=policy, seed=1)
        self.trial = begin(self.settings.problem, policy)

    @property
    def names(self):
        return self.settings.arms

    @property
    def truth(self):
        return np.array([self.means[name] for name in self.names])

    def round(self):
        if not self.trial.done:
            problem, plan = self.settings.problem, self.trial.plan
            shared = isinstance(problem.noise, PairedBinary)
            world = (StickItems if shared else GaussianArms)(self.truth)
            several = tree_map(lambda each: np.asarray(each)[None], plan._replace(memory=None))
            batch, _ = draw_batch(problem, world, self.rng, ArmState(self.truth[None]), several)
            batch = tree_map(lambda each: each[0], batch)
            self.trial = advance(problem, self.settings.policy, self.trial, batch)
            self.seen.append((self.names, batch))

    def change(self, kind, name, mean=None):
        if mean is not None:
            self.means[name] = mean
        if not self.trial.done:
            change = Change(kind, name, "", False, len(self.seen))
            self.settings, self.trial = apply_change(self.settings, self.trial, change, self.seen)

    @property
    def untold(self):
        return [name for name, n in zip(self.names, self.trial.record.counts, strict=True) if not n]

    @property
    def wrong(self):
        """Whether what is true has lost."""
        return bool(self.settings.policy.stopping.false_rejection(self.settings.problem, self.trial, self.truth))

    @property
    def from_nothing(self):
        """log of the most evidence about an arm without results."""
        rule, problem = self.settings.policy.stopping, self.settings.problem
        won = rule.evidence(problem, self.trial, self.names)[0]
        if isinstance(problem.question, Claims):  # one for each arm but the first, the control
            won = np.append(-np.inf, won.reshape(-1, problem.arms - 1).max(axis=0))
        return float(won[self.trial.record.counts == 0].max(initial=-np.inf))


def limit(runs, delta=DELTA):
    """Three standard errors above delta."""
    return runs * delta + 3 * math.sqrt(runs * delta * (1 - delta))


def drop_most_hostile(life):
    """The arm, other than the first, whose leaving leaves most to the others."""
    kept = life.trial.kept
    if isinstance(life.settings.question, Claims):
        money = np.append(np.inf, kept.gains.reshape(-1, len(life.names) - 1).min(axis=0))
        money[np.isin(life.names, life.settings.left_out)] = np.inf
        if not np.isfinite(money).any():
            return
        place = int(money.argmin())
    else:
        won = kept.wealth
        money = won.gains if isinstance(life.settings.question, BestArm) else np.minimum(won.above, won.below)
        place = 1 + int(money[1:].argmax())
    life.change("dropped", life.names[place])


POLICY = Wager(first_pulls=16, growth=1.0)
BETWEEN, LOW, SHARED_LOW = 0.0, -0.9 - NEAR, 0.3 - NEAR
KINDS = {  # question, noise model, policy, means of the first arms, mean of those that join
    "best arm": (BestArm(), Gaussian(1.0), POLICY, [0.0] * 4, 0.0),
    "above": (Above(0.0), Gaussian(1.0), POLICY, [-NEAR] * 4, -NEAR),
    "above, tolerance": (Above(0.0, 0.9), Gaussian(1.0), POLICY, [LOW, BETWEEN, BETWEEN, BETWEEN], LOW),
    "above, shared items": (Above(0.5), PairedBinary(), POLICY, [0.5 - NEAR] * 4, 0.5 - NEAR),
    "above, shared items, tolerance": (
        Above(0.5, 0.2), PairedBinary(), POLICY, [SHARED_LOW, 0.5, 0.5, 0.5], SHARED_LOW,
    ),
    "claims": (Claims.against_control(4, 0), Gaussian(1.0), ConditionalPower(), [0.0] * 4, 0.0),
    "claims, two sides": (Claims.against_control(4, 0, sides="two"), Gaussian(1.0), ConditionalPower(), [0.0] * 4, 0.0),
    "claims, shared items": (Claims.against_control(4, 0), PairedBinary(), ConditionalPower(), [0.5] * 4, 0.5),
}  # fmt: skip


def lived(kind, script, seed):
    """Whether a study is ever wrong in a script and four more rounds; no arm has evidence from nothing."""
    question, noise, policy, means, new = KINDS[kind]
    life = Life(question, noise, {f"m{i}": each for i, each in enumerate(means)}, policy, DELTA, seed)
    wrong = False
    for i, letter in enumerate(f"{script}rrrr"):
        if life.trial.done:
            break
        if letter == "r":
            life.round()
        elif letter == "a":
            life.change("added", f"new{i}", new)
        elif len(life.names) > 2:
            drop_most_hostile(life)
        wrong |= life.wrong
        assert life.from_nothing <= 1e-9
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_arms_that_join_and_leave_because_of_results(kind):
    runs = 4 * len(SCRIPTS)
    assert sum(lived(kind, SCRIPTS[i % len(SCRIPTS)], i) for i in range(runs)) <= limit(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_arms_that_join_and_leave_because_of_results_for_each_script(kind, script):
    assert sum(lived(kind, script, 1000 + i) for i in range(300)) <= limit(300)


def ten_in_between(seed):
    """Arms within the tolerance win on both sides; they leave, and the two that joined have no results."""
    names = {f"m{i}": 0.0 for i in range(1, 11)}
    life = Life(Above(0.0, 1.0), Gaussian(1.0), names, Wager(first_pulls=20), 0.05, seed)
    life.round()
    life.change("added", "x", 1.0 + NEAR)
    life.change("added", "y", 1.0 + NEAR)
    for name in names:
        life.change("dropped", name)
    evidence = life.from_nothing
    for _ in range(8):
        life.round()
    return life.wrong, evidence


@pytest.mark.long
def test_arms_within_the_tolerance_leave_no_evidence_about_others():
    lives = [ten_in_between(seed) for seed in range(40)]
    assert max(evidence for _, evidence in lives) <= 0
    assert sum(wrong for wrong, _ in lives) <= limit(40, 0.05)


@pytest.mark.slow
def test_arms_within_the_tolerance_leave_no_evidence_about_others_in_2000_studies():
    assert sum(wrong for wrong, _ in map(ten_in_between, range(2000))) <= limit(2000, 0.05)


def bounds_of(life):
    """Those of a report."""
    settings, trial = life.settings, life.trial
    batches = [of_arms(batch, names, settings.arms) for names, batch in life.seen]
    return settings.policy.stopping.bounds(settings.problem, trial.record, batches, trial.kept)


def only_the_worst_stays(arms, seed):
    """All arms are 1 above the first. After a round only the one that looks worst stays: the bound of its lead."""
    means = {"first": 0.0, **{f"m{i}": 1.0 for i in range(arms - 1)}}
    life = Life(BestArm(), Gaussian(1.0), means, Wager(first_pulls=20), 0.05, seed)
    life.round()
    for i in np.argsort(-life.trial.record.means[1:])[:-1]:
        life.change("dropped", f"m{i}")
    bounds = bounds_of(life)
    return float(bounds.gap_to_leader(1, bounds.margins())[2][0])


def test_bounds_pay_for_a_leader_that_is_chosen_by_dropping_the_others():
    """As they do where the others stay: the same bar for the same two arms."""
    means = {"first": 0.0, "a": 1.0, "b": 1.2, "c": 0.9, "d": 1.1}
    before, after = (Life(BestArm(), Gaussian(1.0), means, Wager(first_pulls=20), 0.05, 3) for _ in range(2))
    for life in (before, after):
        life.round()
    for name in "acd":
        after.change("dropped", name)
    same = [
        bounds_of(life).gap_to_leader(life.names.index("b"), np.zeros(len(life.names)))[2][0]
        for life in (before, after)
    ]
    assert same[0] == pytest.approx(same[1], abs=1e-9)


@pytest.mark.long
def test_bounds_of_the_gap_do_not_follow_rivals_that_were_chosen_later():
    """Whoever is dropped, a bound of the gap to one rival is no larger than with the choice of the rival paid for."""
    for seed in range(6):
        means = {"first": 0.0, **{f"m{i}": 0.8 for i in range(7)}}
        life = Life(BestArm(), Gaussian(1.0), means, Wager(first_pulls=20, growth=0.5), 0.05, seed)
        life.round()
        life.round()
        for i in np.argsort(life.trial.record.means[1:])[:-1]:
            life.change("dropped", f"m{i}")
        while not life.trial.done:
            life.round()
        bounds = bounds_of(life)
        spare, bets = bounds.margins(), bounds.margins.args[0]
        paid = bets.bound(pairs(np.array([1]), np.array([0])), math.log(7 / 0.05))
        assert 0 < spare[0] <= max(paid[0], 0.0) + 1e-9


@pytest.mark.slow
def test_bounds_hold_for_a_leader_that_is_chosen_by_dropping_the_others():
    assert sum(only_the_worst_stays(80, seed) < 1.0 for seed in range(300)) <= limit(300, 0.05)
