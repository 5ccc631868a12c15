"""Contracts that every policy keeps."""

import numpy as np
import pytest

import roundwise
from products import thinned
from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    EProcessRule,
    GaussianArms,
    InputError,
    Largest,
    MinimumBelow,
    Problem,
    RoundRobin,
    Statements,
    TopK,
    TrackAndStop,
    Wager,
    simulate,
)
from roundwise.arrays import tree_take
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin, final_answer
from roundwise.policies import (
    LUCB,
    Agarwal,
    BatchRacing,
    ClassicTrackAndStop,
    Elimination,
    Hillel,
    Jin2019,
    Karpov,
    OptBBAI,
    Rage,
    StickyTrackAndStop,
    TopTwo,
    TriBBAI,
)
from roundwise.policies.base import Limited
from roundwise.rules import Declared
from roundwise.thresholds import KaufmannKoolenPairwise

GENERAL = {
    "pet": PET(),
    "pet, every batch": PET(test_every_batch=True),
    "pet, tracking": PET(exploration=0.5, stopping=GLR(KaufmannKoolenPairwise())),
    "round-robin": RoundRobin(first_time=40),
    "track-and-stop D": TrackAndStop(first_time=40),
    "track-and-stop C": TrackAndStop(tracking="C", first_time=40),
    "track-and-stop, not forced": TrackAndStop(forced=False, first_time=40),
    "wager": Wager(first_pulls=10),
    "wager, priced": Wager(batch_price=30.0),
    "wager, limited": Wager(first_pulls=10, max_batch=60, min_per_arm=3),
    "pet, limited": Limited(PET(), max_batch=500, min_per_arm=5),
    "track-and-stop, limited": Limited(TrackAndStop(first_time=40), max_batch=30),
}
SEQUENTIAL = {
    "classic track-and-stop": ClassicTrackAndStop(batch=40),
    "sticky-track-and-stop": StickyTrackAndStop(batch=40),
    "top-two": TopTwo(batch=40),
    "top-two, one by one": TopTwo(),
}
OWN_RULE = {
    "tri-bbai": TriBBAI(),
    "opt-bbai": OptBBAI(c=0.05),
    "opt-bbai 32": OptBBAI(),
    "elimination": Elimination(first_pulls=20),
    "hillel": Hillel(),
    "agarwal": Agarwal(gap=0.3, rounds=3),
    "jin-2019": Jin2019(),
    "karpov": Karpov(),
    "batch-racing": BatchRacing(batch=53),
    "batch-racing, few of each": BatchRacing(batch=53, most=9),
    "lucb": LUCB(batch=40),
    "rage": Rage(first_pulls=20),
    "elimination, limited": Limited(Elimination(first_pulls=20), max_batch=30),
    "agarwal, limited": Limited(Agarwal(gap=0.3), max_batch=500),
}
POLICIES = GENERAL | SEQUENTIAL | OWN_RULE

QUESTIONS = {
    "best-arm": BestArm(),
    "best-arm within": BestArm(0.3),
    "top-k": TopK(2),
    "above": Above(0.45),
    "minimum-below": MinimumBelow(0.1),
    "any-above": AnyAbove(0.8),
    "statements": Statements.against_control(arms=5, control=1, margin=0.05),
    "largest": Largest([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]),
}


def played(problem, policy, means, seeds, batches=6):
    """Trials after some batches, run for run with noise of its own seed, so that any split sees the same data."""
    runs = means.shape[:-1]
    trial = begin(problem, policy, runs)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    history = []
    for _ in range(batches):
        pulls = trial.plan.pulls
        flat = pulls.reshape(-1, problem.arms)
        noise = np.array([rng.standard_normal(problem.arms) for rng in rngs]).reshape(flat.shape)
        totals = (flat * means.reshape(flat.shape) + np.sqrt(flat) * noise).reshape(pulls.shape)
        trial = advance(problem, policy, trial, Batch(pulls, totals))
        history.append((pulls, trial.plan.may_stop, trial.done, final_answer(problem, policy, trial)))
    return history, trial


def leaves(tree):
    if tree is None:
        return []
    if isinstance(tree, int):
        return []
    if isinstance(tree, tuple):
        return [leaf for field in tree for leaf in leaves(field)]
    return [np.asarray(tree)]


def fits(policy, question):
    """Whether the policy says that it answers the question."""
    try:
        policy.check(Problem(question, arms=5, delta=0.1))
    except InputError:
        return False
    return True


def best_arm(policy):
    """Best arm, with a tolerance for who needs one."""
    return BestArm() if fits(policy, BestArm()) else BestArm(0.3)


def test_who_answers_what():
    """Those with a rule of their own answer what is written of them, and nothing else."""
    answers = {
        "tri-bbai": {"best-arm"},
        "opt-bbai": {"best-arm"},
        "elimination": {"best-arm", "best-arm within", "top-k"},
        "hillel": {"best-arm", "best-arm within"},
        "agarwal": {"best-arm", "top-k"},
        "jin-2019": {"best-arm within"},
        "karpov": {"best-arm", "top-k"},
        "batch-racing": {"best-arm", "top-k"},
        "lucb": {"best-arm", "best-arm within", "top-k"},
        "rage": {"best-arm", "best-arm within", "above"},
    }
    for policy in OWN_RULE.values():
        assert {name for name, question in QUESTIONS.items() if fits(policy, question)} == answers[policy.name]


PAIRS = {
    f"{p}-{q}": (policy, question)
    for p, policy in POLICIES.items()
    for q, question in QUESTIONS.items()
    if fits(policy, question)
}


@pytest.mark.long
@pytest.mark.parametrize(("policy", "question"), thinned(PAIRS, 3))
def test_many_runs_at_once_equal_single_runs_bit_for_bit(policy, question):
    rng = np.random.default_rng(7)
    means = np.asfortranarray(rng.uniform(0, 1, (23, 5)))
    problem = Problem(question, arms=5, delta=0.1)
    together, end = played(problem, policy, means, range(23))
    for i in range(23):
        alone, alone_end = played(problem, policy, means[i], [i])
        for many, one in zip(together, alone, strict=True):
            for a, b in zip(many, one, strict=True):
                np.testing.assert_array_equal(a[i], b)
        for a, b in zip(leaves(end), leaves(alone_end), strict=True):
            own = a[i][tuple(slice(length) for length in b.shape)]  # others may have made room for more candidates
            np.testing.assert_array_equal(own, b)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_permuting_the_arms_permutes_the_plans(policy):
    if policy.name == "sticky-track-and-stop":
        pytest.skip("it sticks to the first answer in the order of the arms")
    means = np.random.default_rng(3).uniform(0, 1, (40, 5))
    problem = Problem(best_arm(policy), arms=5, delta=0.1)
    order = np.array([3, 0, 4, 1, 2])
    trial = begin(problem, policy, (40,))
    mirror = begin(problem, policy, (40,))
    rng = np.random.default_rng(5)
    for _ in range(5):
        pulls = trial.plan.pulls
        np.testing.assert_array_equal(mirror.plan.pulls, pulls[:, order])
        totals = pulls * means + np.sqrt(pulls) * rng.standard_normal((40, 5))
        trial = advance(problem, policy, trial, Batch(pulls, totals))
        mirror = advance(problem, policy, mirror, Batch(pulls[:, order], totals[:, order]))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_plans_are_whole_numbers_and_never_empty(policy):
    problem = Problem(best_arm(policy), arms=3, delta=0.2)
    means = np.array([[0.3, 0.0, 0.1]] * 50)
    history, _ = played(problem, policy, means, range(50))
    done = np.zeros(50, dtype=bool)
    for pulls, _, done_after, _ in history:
        assert (pulls == np.floor(pulls)).all()
        assert (pulls >= 0).all()
        assert (pulls.sum(axis=-1) > 0)[~done].all()
        done |= done_after


@pytest.mark.parametrize("policy", (GENERAL | SEQUENTIAL).values(), ids=GENERAL | SEQUENTIAL)
def test_results_may_differ_from_what_was_asked(policy):
    """An arm that returns nothing, less or more: no NaN, no empty plan, and the rule still sees all counts."""
    problem = Problem(BestArm(), arms=3, delta=0.1)
    trial = begin(problem, policy, ())
    rng = np.random.default_rng(0)
    for factor in ([0.0, 1.0, 1.0], [0.5, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.1, 1.0], [1.0, 1.0, 1.0]):
        counts = np.floor(trial.plan.pulls * factor)
        totals = counts * [0.5, 0.2, 0.1] + np.sqrt(counts) * rng.standard_normal(3)
        before = trial.record.samples
        trial = advance(problem, policy, trial, Batch(counts, totals))
        assert np.isfinite(trial.plan.pulls).all()
        assert trial.done or trial.plan.pulls.sum() > 0
        assert trial.record.samples == before + counts.sum()


def test_an_arm_without_results_keeps_a_trial_from_stopping():
    problem = Problem(BestArm(), arms=3, delta=0.1)
    trial = begin(problem, PET(), ())
    counts = np.array([1e6, 1e6, 0.0])
    trial = advance(problem, PET(), trial, Batch(counts, counts * [1.0, -1.0, 0.0]))
    assert not trial.done


@pytest.mark.parametrize(
    ("policy", "most", "least"),
    [
        (Wager(max_batch=100, min_per_arm=4), 100, 4),
        (Limited(PET(), 100, 4), 100, 4),
        (Limited(RoundRobin(), 100, 4), 100, 4),
        (Limited(TrackAndStop(), 100), 100, 0),
        (Limited(OptBBAI(c=0.05), 50), 50, 0),
    ],
)
def test_limits_are_honoured(policy, most, least):
    problem = Problem(BestArm(), arms=5, delta=0.1)
    means = np.tile([1.0, 0.4, 0.3, 0.2, 0.0], (20, 1))
    history, _ = played(problem, policy, means, range(20), batches=25)
    for pulls, _, _, _ in history:
        assert (pulls.sum(axis=-1) <= most).all()
        last_bit = pulls.sum(axis=-1, keepdims=True) < most  # what is left over of a plan may be less
        assert ((pulls == 0) | (pulls >= least) | last_bit).all()


def test_limits_do_not_change_the_plans_of_the_paper():
    """PET in small batches pulls in all what PET pulls, phase by phase, and stops with the same answer."""
    problem, inner = Problem(BestArm(), arms=3, delta=0.1), PET()
    means = np.array([0.6, 0.2, 0.0])
    whole, small = begin(problem, inner), begin(problem, Limited(inner, max_batch=40))
    while not whole.done:
        whole = advance(problem, inner, whole, Batch(whole.plan.pulls, whole.plan.pulls * means))
    while not small.done:
        small = advance(problem, Limited(inner, max_batch=40), small, Batch(small.plan.pulls, small.plan.pulls * means))
    np.testing.assert_array_equal(whole.record.counts, small.record.counts)
    assert small.record.batches > whole.record.batches


@pytest.mark.parametrize("policy", [Wager(max_batch=4), Limited(PET(), 4), Limited(PET(), 20, 5)])
def test_limits_without_room(policy):
    with pytest.raises(InputError, match="arms"):
        begin(Problem(BestArm(), arms=5), policy)


def test_taking_runs_from_a_trial():
    trial = begin(Problem(BestArm(), arms=3), OptBBAI(), (6,))
    part = tree_take(trial, np.array([4, 1]))
    assert part.plan.pulls.shape == (2, 3)
    assert part.plan.memory.spent.shape[0] == 2


BY_NAME = roundwise.policies.POLICIES
PULL_BY_PULL = {"classic-track-and-stop", "sticky-track-and-stop", "lucb", "top-two"}


@pytest.mark.parametrize("name", sorted({*BY_NAME} - {"conditional-power", "designed"} - PULL_BY_PULL))
def test_the_betting_rule_goes_with_every_policy(name):
    question = BestArm(tolerance=0.1) if name == "jin-2019" else BestArm()
    policy = BY_NAME[name](stopping=EProcessRule())
    (runs,) = simulate(question, GaussianArms([1.0, 0.6, 0.5]), [policy], runs=20, max_samples=1e6)
    assert runs.doubt is None
    assert (runs.correct | ~runs.decided).all()
    assert runs.decided.all() or isinstance(BY_NAME[name]().stopping, Declared)  # it may end before the rule decides
