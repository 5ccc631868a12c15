"""What is kept between batches comes back bit for bit, for every question, noise model and policy that there is."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from roundwise import PET, Above, AnyAbove, BestArm, MinimumBelow, RoundRobin, TopK, TrackAndStop, Wager
from roundwise.arrays import Unreadable, pack, unpack
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.problem import advance, begin
from roundwise.noise import Binary, Bounded, Gaussian, Normal, Poisson, SubGaussian
from roundwise.policies import OptBBAI, TriBBAI
from roundwise.policies.base import Limited
from roundwise.questions import Largest, Statements
from roundwise.study import fold
from roundwise.study.spec import StudySpec

ARMS = ("a", "b", "c", "d")
QUESTIONS = [
    BestArm(),
    BestArm(tolerance=0.05),
    TopK(2),
    Above(0.5),
    AnyAbove(0.6),
    MinimumBelow(0.4),
    Statements.against_control(4, 0),
    Largest([[1.0, 0, 0, 0], [0, 1.0, 1.0, 0], [0, 0, 0, 2.0]]),
]
NOISES = [Gaussian(0.5), SubGaussian(0.5), Normal(), Binary(), Bounded(0.0, 1.0), Poisson()]


class Odd(NamedTuple):
    """A tree with everything that may be in one."""

    numbers: np.ndarray
    number: float
    pair: tuple
    nothing: None = None


def same(one, other, place="tree"):
    """Both have the same classes, shapes and bits."""
    assert type(one) is type(other), place
    if isinstance(one, tuple):
        assert len(one) == len(other), place
        for name, mine, theirs in zip(getattr(one, "_fields", range(len(one))), one, other, strict=True):
            same(mine, theirs, f"{place}.{name}")
    elif isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()), place
    elif isinstance(one, float):
        assert one.hex() == other.hex(), place
    else:
        assert one == other, place


def through(tree):
    return unpack(type(tree), json.loads(json.dumps(pack(tree), allow_nan=False)), tree)


SPECIAL = np.array([0.0, -0.0, 1.0, 1e300, 5e-324, np.inf, -np.inf, np.nan, 0.1, 2.0**53, 2.0**53 + 2, -7.0])


@pytest.mark.parametrize(
    "tree",
    [
        None,
        True,
        7,
        -0.0,
        float("inf"),
        (),
        (1, (2.5, None)),
        SPECIAL,
        np.tile(SPECIAL, 20),
        np.arange(200.0),
        np.arange(200.0) / 7,
        np.float32([1.5, 2.5]).astype(float),
        np.arange(300).reshape(3, 100),
        np.arange(12).reshape(3, 4) % 2 == 0,
        np.arange(99) % 3 == 0,
        np.zeros((0, 4)),
        np.array(3.0),
        np.float64(3.0),
        np.bool_(True),
        np.intp(5),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        Odd(SPECIAL, -0.0, (np.array([1]), 2)),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_bits(tree):
    same(through(tree), np.ascontiguousarray(tree) if isinstance(tree, np.ndarray) and tree.ndim else tree)


def batch_of(pulls, noise, rng):
    """What a batch may hold in a noise model, with a table where one is asked for."""
    n = pulls.astype(int)
    rates = np.array([0.3, 0.45, 0.5, 0.7])
    if noise.needs == "rows":
        ones = rng.binomial(n, rates).astype(float)
        table = ValueTable(np.array([0.0, 1.0]), np.stack([pulls - ones, ones], axis=-1))
        return Batch(pulls, ones, pulls * 0.0 + ones * (1 - ones / np.maximum(pulls, 1)), table)
    if isinstance(noise, Binary):
        return Batch(pulls, rng.binomial(n, rates).astype(float))
    if isinstance(noise, Poisson):
        return Batch(pulls, rng.poisson(n * rates).astype(float))
    scatter = 0.25 * rng.chisquare(np.maximum(n - 1, 1)) if noise.needs == "squares" else None
    return Batch(pulls, pulls * rates + 0.5 * np.sqrt(pulls) * rng.standard_normal(4), scatter)


def folded(question, noise, policy, batches=22, seed=0):
    """A trial after every batch, with its settings, until it is done."""
    rng, settings = (
        np.random.default_rng(seed),
        StudySpec(question=question, arms=ARMS, noise=noise, delta=0.01, policy=policy, seed=1),
    )
    problem = settings.problem
    trial = begin(problem, policy)
    for _ in range(batches):
        if trial.done:
            return
        trial = advance(problem, policy, trial, batch_of(np.minimum(trial.plan.pulls, 1e6), noise, rng))
        yield settings, trial


def checkpoint(settings, trial, rules=None):
    found = fold.checkpoint_payload(settings, trial, fold.start_summary(settings), {"last_folded": 1})
    return json.loads(json.dumps(found | ({} if rules is None else {"rules": rules}), allow_nan=False))


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda question: f"{question.name}{getattr(question, 'tolerance', '')}"
)
def test_the_state_of_wager_goes_on_as_if_nothing_had_happened(question, noise):
    policy = Wager(first_pulls=5, growth=0.4, max_batch=40)
    seen = 0
    for settings, trial in folded(question, noise, policy):
        again = fold.restore_trial(settings, checkpoint(settings, trial))
        for field in ("record", "kept", "plan", "done"):
            same(getattr(again, field), getattr(trial, field), field)
        seen += 1
    assert seen > 2


@pytest.mark.parametrize(
    "policy",
    [PET(guess=2), TrackAndStop(), RoundRobin(), OptBBAI(), TriBBAI(), Limited(PET(guess=2), 60.0, 2.0)],
    ids=lambda policy: type(policy).__name__,
)
def test_the_state_of_other_policies(policy):
    for settings, trial in folded(BestArm(), Gaussian(0.5), policy, batches=6):
        again = fold.restore_trial(settings, checkpoint(settings, trial))
        for field in ("record", "kept", "plan", "done"):
            same(getattr(again, field), getattr(trial, field), field)


@pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda question: f"{question.name}{getattr(question, 'tolerance', '')}"
)
def test_other_rules_carry_what_was_won(question):
    """Wealth, past, record and plan are taken over; what is bet on next is chosen anew, here by the same rules."""
    for settings, trial in folded(question, Gaussian(0.5), Wager(first_pulls=5, growth=0.4), batches=4):
        again = fold.restore_trial(settings, checkpoint(settings, trial, rules=0))
        same(again.kept.wealth, trial.kept.wealth)
        same(again.kept.known.past, trial.kept.known.past)
        same(again.plan.pulls, trial.plan.pulls)
        same(again.record, trial.record)
        same(again.kept.alternative, trial.kept.alternative)


class TestWhatCannotBeRead:
    @pytest.fixture
    def case(self):
        *_, (settings, trial) = folded(BestArm(), Gaussian(0.5), Wager(first_pulls=5, growth=0.4), batches=3)
        return settings, checkpoint(settings, trial)

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda rule: rule.update(tag="above/1"),
            lambda rule: rule["saved"]["wealth"].update(more=1),
            lambda rule: rule["saved"]["wealth"].pop("rejected"),
            lambda rule: rule["saved"]["wealth"].update(gains={"shape": [3], "float": [1, 2, 3]}),
            lambda rule: rule["saved"]["wealth"].update(gains={"shape": [4], "float": [1, 2, 3]}),
            lambda rule: rule["saved"]["wealth"].update(gains={"shape": [4], "float": "<u1z:x"}),
            lambda rule: rule["saved"]["wealth"].update(gains={"shape": [4], "float": "<c16:AAAA"}),
            lambda rule: rule["saved"]["wealth"].update(rejected={"shape": [4], "bool": [0, 1, 2, 3]}),
            lambda rule: rule["saved"].update(wealth=None),
            lambda rule: rule.clear(),
        ],
    )
    @pytest.mark.parametrize("rules", [None, 0], ids=["same rules", "other rules"])
    def test_a_state_of_another_kind(self, case, spoil, rules):
        settings, payload = case
        spoil(payload["state"]["rule"])
        with pytest.raises(Unreadable):
            fold.restore_trial(settings, payload | ({} if rules is None else {"rules": rules}))

    def test_a_record_names_no_python_class(self, case):
        assert "roundwise" not in json.dumps(case[1])

    def test_what_is_no_tree(self):
        for thing in ({1: 2}, "text", [1], np.array(["a"]), np.array([1j])):
            with pytest.raises(TypeError):
                pack(thing)
