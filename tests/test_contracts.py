"""What every question, noise model, threshold and policy owes: each that is built in is listed here once, and passes.

The laws of questions are in test_question_laws.py, those of policies in test_policies.py, those of stores in
test_store.py; user's classes that break a contract in test_user_class_checks.py.
"""

import json

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    BestGroup,
    Binary,
    Bounded,
    BoundedVariance,
    Capped,
    Claims,
    ConditionalPower,
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    InputError,
    LargeSample,
    Largest,
    Linear,
    MinimumBelow,
    Normal,
    Poisson,
    Statements,
    SubGaussian,
    TopK,
    TrackAndStop,
    Wager,
)
from roundwise.contract import check_noise, check_policy, check_question, check_threshold
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import Problem
from roundwise.model.spec import from_spec, to_spec
from roundwise.noise import NOISES
from roundwise.policies import LUCB, POLICIES, Agarwal, BatchRacing, OptBBAI, TopTwo
from roundwise.questions import QUESTIONS
from roundwise.rules import THRESHOLDS
from roundwise.thresholds import KaufmannKoolenPairwise, Lemma32ByCounts

ARMS = 4
FEATURES = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.2, 0.9]]
ASKED = [
    BestArm(),
    BestArm(0.25),
    TopK(3),
    TopK(2, 0.25),
    Above(0.5),
    Above(0.5, 0.1),
    MinimumBelow(0.3),
    MinimumBelow(0.5, 0.1),
    AnyAbove(0.8),
    AnyAbove(0.5, 0.1),
    Statements([[1.0, -1.0, 0.0, 0.0], [0.5, 0.5, -1.0, 0.0]], [0.1, 0.0], ("first", "second")),
    Statements.against_control(ARMS, 1, 0.2),
    Statements.ranking(ARMS),
    Claims.against_control(ARMS, 1, 0.2, futility=0.4),
    Claims.against_control(ARMS, 1, 1.5, scale="odds-ratio", weights=[1.0, 2.0, 1.0]),
    BestGroup(("left", "left", "right", "right")),
    Largest([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]], [0.5, 0.0], ("left", "right")),
    Linear(Above(0.5), FEATURES),
    Linear(BestArm(0.25), FEATURES),
]
MODELS = [
    Binary(),
    Bounded(-1.0, 3.5),
    BoundedVariance(4.0),
    Gaussian(0.1),
    HeteroscedasticGaussian((1.0, 0.5)),
    Poisson(),
    SubGaussian(2),
    Normal(),
    EqualVariances(),
    Capped(4.0, -1.0),
    LargeSample(),
    *(each.with_items() for each in (Binary(), Bounded(-1.0, 3.5), Normal())),
]
RULES = [
    *(each() for each in POLICIES.values()),
    Wager(batch_price=500.0, max_batch=1000, min_per_arm=3),
    PET(guess=4.0, test_every_batch=True, stopping=GLR(KaufmannKoolenPairwise())),
    TrackAndStop(tracking="C", forced=False, stopping=GLR(Lemma32ByCounts())),
    ConditionalPower(eta=0.5, reserve=0.02),
    OptBBAI(c=4.0, version=2),
    Agarwal(gap=0.3, rounds=4),
    BatchRacing(batch=70, most=5),
    LUCB(batch=8),
    TopTwo(batch=3, share=0.4),
]


def named(thing):
    return thing.name


def through_json(spec):
    return json.loads(json.dumps(spec, allow_nan=False))


def test_everything_that_is_built_in_is_listed():
    for registry, examples, where in (
        (QUESTIONS, ASKED, "ASKED"),
        (NOISES, MODELS, "MODELS"),
        (POLICIES, RULES, "RULES"),
    ):
        missing = set(registry) - {each.name for each in examples}
        assert not missing, f"add an example of each to {where} in this file"


@pytest.mark.parametrize("question", ASKED, ids=named)
class TestQuestions:
    @pytest.mark.parametrize("noise", [Gaussian(1.0), Binary()], ids=named)
    def test_the_contract(self, question, noise):
        if isinstance(question, Claims) and question.odds:
            pytest.skip("odds ratios have no complexity")
        if isinstance(question, Linear) and noise == Binary():
            pytest.skip("features need normal rewards")
        check_question(question, Problem(question, ARMS, 0.05, noise))

    def test_as_data_and_back(self, question):
        again = from_spec("question", through_json(to_spec(question)))
        assert type(again) is type(question)
        assert to_spec(again) == to_spec(question)
        means = np.array([0.3, 0.9, 0.1, 0.2])
        assert np.array_equal(again.answer(means), question.answer(means))


@pytest.mark.parametrize("noise", MODELS, ids=named)
class TestNoiseModels:
    def test_the_contract(self, noise):
        check_noise(noise)
        assert NOISES[noise.name] is type(noise)
        assert noise.outcome.low < noise.outcome.high
        assert noise.doubt(noise) is None

    def test_as_data_and_back(self, noise):
        assert from_spec("noise", through_json(to_spec(noise))) == noise

    def test_variances(self, noise):
        counts = np.full(2, 40.0)
        past = Past.none((2,)).plus(Batch(counts, counts * [0.1, 0.2], counts / 5))
        each = noise.variances(past)
        assert each.shape == (2,)
        assert (each > 0).all()


@pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=named)
def test_thresholds(threshold):
    for arms, delta in ((2, 0.05), (10, 1e-9), (50, 0.5)):
        check_threshold(threshold, Problem(BestArm(), arms, delta))


@pytest.mark.parametrize("policy", RULES, ids=named)
class TestPolicies:
    def test_the_contract(self, policy):
        answered = 0
        policy = policy.with_design(1000, None, None)
        for question in (BestArm(), BestArm(0.25), Claims.against_control(3, 0)):
            problem = Problem(question, 3, 0.05)
            try:
                policy.check(problem)
            except InputError:
                continue
            check_policy(policy, problem)
            answered += 1
        assert answered

    def test_as_data_and_back(self, policy):
        again = from_spec("policy", through_json(to_spec(policy)))
        assert again == policy
        assert again.stopping == policy.stopping
