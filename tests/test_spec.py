"""Questions, noise models and policies as plain data and back."""

import json

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    Binary,
    Bounded,
    Claims,
    ConditionalPower,
    Gaussian,
    HeteroscedasticGaussian,
    InputError,
    Largest,
    Linear,
    MinimumBelow,
    Poisson,
    RoundRobin,
    Statements,
    SubGaussian,
    TopK,
    TrackAndStop,
    UnknownVariance,
    Wager,
)
from roundwise.model.spec import from_spec, to_spec
from roundwise.noise import NOISES
from roundwise.policies import LUCB, POLICIES, Agarwal, BatchRacing, OptBBAI, TopTwo, TriBBAI
from roundwise.questions import QUESTIONS
from roundwise.thresholds import KaufmannKoolenPairwise, Lemma32ByCounts


def through_json(spec):
    return json.loads(json.dumps(spec, allow_nan=False))


ASKED = [
    BestArm(),
    BestArm(0.25),
    TopK(2, 0.25),
    Above(0.5, 0.1),
    MinimumBelow(0.5, 0.1),
    AnyAbove(0.5, 0.1),
    TopK(3),
    Above(0.5),
    MinimumBelow(-1.5),
    AnyAbove(2.0),
    Statements([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]], [0.1, 0.0], ("first", "second")),
    Statements.against_control(3, 1, 0.2),
    Claims.against_control(3, 1, 0.2, futility=0.4),
    Claims.against_control(3, 1, 1.5, scale="odds-ratio", weights=[1.0, 2.0]),
    Largest([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [0.5, 0.0], ("left", "right")),
    Linear(Above(0.5), [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]),
    Linear(BestArm(0.25), [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]),
]


@pytest.mark.parametrize("question", ASKED, ids=lambda question: question.name)
def test_questions(question):
    again = from_spec("question", through_json(to_spec(question)))
    assert type(again) is type(question)
    assert to_spec(again) == to_spec(question)
    means = np.array([0.3, 0.9, 0.1])
    if not isinstance(question, TopK):
        assert np.array_equal(again.answer(means), question.answer(means))


def test_every_question_and_noise_model_is_here():
    assert {question.name for question in ASKED} == set(QUESTIONS)
    assert {type(noise) for noise in MODELS} == set(NOISES.values())
    assert {policy.name for policy in RULES} == set(POLICIES)


MODELS = [Binary(), Bounded(-1.0, 3.5), Gaussian(0.1), Poisson(), SubGaussian(2), UnknownVariance()]
MODELS += [each.with_items() for each in (Binary(), Bounded(-1.0, 3.5), UnknownVariance())]
MODELS += [HeteroscedasticGaussian((1.0, 0.5, 2.0))]


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: type(noise).__name__)
def test_noise_models(noise):
    assert from_spec("noise", through_json(to_spec(noise))) == noise


RULES = [
    Wager(),
    Wager(batch_price=500.0, max_batch=1000, min_per_arm=3),
    PET(guess=4.0, test_every_batch=True, stopping=GLR(KaufmannKoolenPairwise())),
    TrackAndStop(tracking="C", forced=False, stopping=GLR(Lemma32ByCounts())),
    RoundRobin(),
    ConditionalPower(eta=0.5, cash=0.02),
    TriBBAI(),
    OptBBAI(),
    OptBBAI(c=4.0),
    *(each() for each in POLICIES.values() if each not in (Wager, PET, TrackAndStop, RoundRobin, TriBBAI, OptBBAI)),
    *(Agarwal(gap=0.3, rounds=4), BatchRacing(batch=70, most=5), LUCB(batch=8), TopTwo(batch=3, share=0.4)),
]


@pytest.mark.parametrize("policy", RULES, ids=lambda policy: policy.name)
def test_policies(policy):
    again = from_spec("policy", through_json(to_spec(policy)))
    assert again == policy
    assert again.stopping == policy.stopping


CLAIM = {"name": "claims", "forms": [[1, -1]], "levels": [0]}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("question", {"name": "best-arms"}, "'best-arms'.*'best-arm'"),
        ("question", {}, "no question called ''"),
        ("question", {"name": "top-k", "n": 3}, "'top-k'.*'n'"),
        ("question", {"name": "top-k"}, "'top-k'"),
        ("question", {"name": "top-k", "k": "2"}, "'2'"),
        ("question", {"name": "statements"}, "'statements'.*forms"),
        (
            "policy",
            {"name": "pet", "guess": "a"},
            "'pet'.*guess",
        ),
        ("policy", {"name": "pet", "guess": True}, "guess"),
        ("policy", {"name": "wager", "max_batch": "9"}, "max_batch.*'9'"),
        ("policy", {"name": "track-and-stop", "forced": 2}, "forced"),
        ("policy", {"name": "pet", "stopping": 3}, "'pet'.*'stopping'"),
        ("policy", {"name": "wager", "threshold": "sum"}, "'wager'.*'threshold'"),
        ("policy", {"name": "pet", "threshold": 3}, "'3'"),
        ("noise", {"name": "binery"}, "'binery'.*'binary'"),
        ("noise", {"name": "gaussian", "sigma": -1}, "`sigma` is -1"),
        ("noise", {"name": "bounded", "low": 0}, "'bounded'"),
        ("question", CLAIM | {"weights": "a"}, "weights"),
        ("question", CLAIM | {"weights": [1, "b"]}, "weights.*'b'"),
        ("question", CLAIM | {"odds": "yes"}, "odds.*'yes'"),
        ("policy", {"name": "pett"}, "'pett'.*'pet'"),
        ("policy", {"name": "pet", "threshold": "pair"}, "no threshold called 'pair'"),
        ("policy", {"name": "wager", "growth": -1}, "`growth` is -1"),
        ("policy", {"name": "wager", "greed": 1}, "'wager'.*'greed'"),
    ],
)
def test_mistakes(kind, spec, message):
    with pytest.raises(InputError, match=message):
        from_spec(kind, spec)


@pytest.mark.parametrize(
    ("kind", "words", "thing"),
    [
        ("question", "best-arm", BestArm()),
        ("question", "top-k:k=3", TopK(3)),
        ("question", " above : level = 0.5 ", Above(0.5)),
        ("question", "above:level=0.5", Above(0.5)),
        ("noise", "bounded:low=0,high=5", Bounded(0.0, 5.0)),
        ("threshold", "counts", Lemma32ByCounts()),
        ("policy", "track-and-stop:tracking=C,forced=no", TrackAndStop(tracking="C", forced=False)),
        ("policy", "pet:guess=4,threshold=pairwise", PET(guess=4.0, stopping=GLR(KaufmannKoolenPairwise()))),
        ("policy", "wager:max_batch=500", Wager(max_batch=500)),
    ],
)
def test_words_of_the_command_line(kind, words, thing):
    assert from_spec(kind, words) == thing
