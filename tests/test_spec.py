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
    Counts,
    Gaussian,
    InputError,
    Largest,
    MinimumBelow,
    OptBBAI,
    Pairwise,
    Poisson,
    RoundRobin,
    Statements,
    SubGaussian,
    TopK,
    TrackAndStop,
    TriBBAI,
    UnknownVariance,
    Wager,
)
from roundwise.policies import POLICIES
from roundwise.spec import (
    NOISES,
    QUESTIONS,
    noise_of,
    noise_spec,
    policy_of,
    policy_spec,
    question_of,
    question_spec,
)


def through_json(spec):
    return json.loads(json.dumps(spec, allow_nan=False))


ASKED = [
    BestArm(),
    BestArm(0.25),
    TopK(3),
    Above(0.5),
    MinimumBelow(-1.5),
    AnyAbove(2.0),
    Statements([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]], [0.1, 0.0], ("first", "second")),
    Statements.against_control(3, 1, 0.2),
    Largest([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [0.5, 0.0], ("left", "right")),
]


@pytest.mark.parametrize("question", ASKED, ids=lambda question: question.name)
def test_questions(question):
    again = question_of(through_json(question_spec(question)))
    assert type(again) is type(question)
    assert question_spec(again) == question_spec(question)
    means = np.array([0.3, 0.9, 0.1])
    if not isinstance(question, TopK):
        assert np.array_equal(again.answer(means), question.answer(means))


def test_every_question_and_noise_model_is_here():
    assert {question.name for question in ASKED} == set(QUESTIONS)
    assert {type(noise) for noise in MODELS} == set(NOISES.values())
    assert {policy.name for policy in RULES} == set(POLICIES)


MODELS = [Binary(), Bounded(-1.0, 3.5), Gaussian(0.1), Poisson(), SubGaussian(2), UnknownVariance()]


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: type(noise).__name__)
def test_noise_models(noise):
    assert noise_of(through_json(noise_spec(noise))) == noise


RULES = [
    Wager(),
    Wager(batch_price=500.0, max_batch=1000, min_per_arm=3),
    PET(guess=4.0, test_every_batch=True, stopping=GLR(Pairwise())),
    TrackAndStop(tracking="C", forced=False, stopping=GLR(Counts())),
    RoundRobin(),
    TriBBAI(),
    OptBBAI(),
    OptBBAI(c=4.0),
]


@pytest.mark.parametrize("policy", RULES, ids=lambda policy: policy.name)
def test_policies(policy):
    again = policy_of(through_json(policy_spec(policy)))
    assert again == policy
    assert again.stopping == policy.stopping


@pytest.mark.parametrize(
    ("make", "spec", "message"),
    [
        (question_of, {"name": "best-arms"}, "no question called 'best-arms'. Did you mean 'best-arm'"),
        (question_of, {}, "no question called ''"),
        (question_of, {"name": "top-k", "n": 3}, "no setting of the question 'top-k' called 'n'"),
        (question_of, {"name": "top-k"}, "The question 'top-k' cannot be made without `k`."),
        (question_of, {"name": "top-k", "k": "2"}, "`k` is '2', but must be a whole number."),
        (question_of, {"name": "statements"}, "The question 'statements' cannot be made without `forms`."),
        (
            policy_of,
            {"name": "pet", "guess": "a"},
            "The policy 'pet' cannot be made: `guess` is 'a', but must be a number",
        ),
        (policy_of, {"name": "pet", "guess": True}, "`guess` is True, but must be a number"),
        (policy_of, {"name": "wager", "max_batch": "9"}, "`max_batch` is '9', but must be a number"),
        (policy_of, {"name": "track-and-stop", "forced": 2}, "`forced` is 2, but must be true or false"),
        (policy_of, {"name": "pet", "stopping": 3}, "is chosen by its `threshold`"),
        (policy_of, {"name": "wager", "threshold": "sum"}, "'wager' has a stopping rule of its own"),
        (policy_of, {"name": "pet", "threshold": 3}, "There is no threshold called '3'"),
        (noise_of, {"name": "binery"}, "no noise model called 'binery'. Did you mean 'binary'"),
        (noise_of, {"name": "gaussian", "sigma": -1}, "`sigma` is -1"),
        (noise_of, {"name": "bounded", "low": 0}, "The noise model 'bounded' cannot be made"),
        (policy_of, {"name": "pett"}, "no policy called 'pett'. Did you mean 'pet'"),
        (policy_of, {"name": "pet", "threshold": "pair"}, "no threshold called 'pair'"),
        (policy_of, {"name": "wager", "growth": -1}, "`growth` is -1"),
        (policy_of, {"name": "wager", "greed": 1}, "no setting of the policy 'wager' called 'greed'"),
    ],
)
def test_mistakes(make, spec, message):
    with pytest.raises(InputError, match=message):
        make(spec)
