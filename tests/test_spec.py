"""Questions, noise models and policies from plain data and from the words of the command line."""

import pytest

from roundwise import (
    GLR,
    PET,
    Above,
    BestArm,
    Bounded,
    InputError,
    TopK,
    TrackAndStop,
    Wager,
)
from roundwise.model.spec import from_spec
from roundwise.thresholds import KaufmannKoolenPairwise, Lemma32ByCounts

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
