"""Claims on the command line: simulate, sweep and complexity take the same words."""

import json

import numpy as np
import pytest

from roundwise import BernoulliArms, Claims, ConditionalPower, InputError, load_study, simulate
from roundwise.model.spec import from_spec

ACR20 = "0.36,0.34,0.47,0.465,0.537"


def test_simulate_shows_what_python_shows(roundwise):
    code, out, _ = roundwise(
        *("simulate", "--question", "claims", "--control", "0", "--means", ACR20, "--binary", "--delta", "0.025"),
        *("--budget", "600", "--round-size", "65", "--split", "2:1:1:1:1", "--runs", "200", "--json"),
    )
    assert code == 0
    means = [float(each) for each in ACR20.split(",")]
    (same,) = simulate(
        Claims.against_control(5, 0), BernoulliArms(means), [ConditionalPower()], runs=200, delta=0.025,
        budget=600, round_size=65, split=(2, 1, 1, 1, 1),
    )  # fmt: skip
    (found,) = json.loads(out)
    assert found["claims"]["true_shown"]["mean"] == pytest.approx(same.true_shown.mean())
    assert found["claims"]["shown"] == pytest.approx(same.answer.mean(axis=0).tolist())
    assert found["samples"]["mean"] == pytest.approx(same.samples.mean())
    assert found["guarantee"] is True


def test_simulate_says_it_in_words(roundwise):
    code, out, _ = roundwise(
        *("simulate", "--question", "claims", "--control", "0", "--means", "0.3,0.6", "--binary"),
        *("--budget", "200", "--futility", "0.1", "--runs", "20"),
    )
    assert code == 0
    assert "Truth: arm 1 beats arm 0." in out
    assert "arm 1 does not beat arm 0 by 0.1 or more" in out
    assert "true claims shown" in out
    assert "bound" not in out


def test_complexity(roundwise):
    code, out, _ = roundwise("complexity", "--question", "claims", "--control", "0", "--means", "0,0,0.2", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["answer"] == [1]
    assert found["complexity"] == pytest.approx(4 * 2 / 0.2**2)  # of one pair
    assert "nothing is not wrong" in roundwise("complexity", "-q", "claims", "--control", "0", "--means", "0,0,0.2")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--question", "claims"), "--control"),
        (("--question", "claims", "--control", "7"), "no arm called '7'"),
        (("--question", "best-arm", "--control", "0"), "go with --question claims"),
        (("--question", "claims", "--control", "0", "--split", "2:1"), "split has 2 shares"),
        (("--question", "claims", "--control", "0", "--split", "2:x"), "'equal'"),
        (("--question", "claims", "--control", "0", "--budget", "2"), "budget is 2 results"),
        (("--question", "claims", "--control", "0", "--margin-is", "odds"), "no kind of margin"),
        (("--question", "claims", "--control", "0", "--margin-is", "odds-ratio"), "need 0/1 results"),
        (("--question", "claims", "--control", "0", "--policy", "wager"), "use the policy 'conditional-power'"),
        (("--question", "best-arm", "--policy", "pet", "--round-size", "30"), "'pet'"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(roundwise, words, message):
    code, _, err = roundwise("simulate", *words, "--means", "0.1,0.2,0.3", "--runs", "2")
    assert code == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize(("split", "arms"), [("[2, 1, 1, 1, 1]", "arms = 5"), ('"2:1:1:1:1"', "")])
def test_a_sweep_of_claims(roundwise, tmp_path, split, arms):
    """In the words of Python, and in those of the command line, which knows the arms by their means."""
    pytest.importorskip("duckdb")
    file = tmp_path / "sweep.toml"
    file.write_text(
        f"""
runs = 40
delta = 0.025
budget = 600
round_size = 65
split = {split}

[[question]]
name = "claims"
{arms}
control = 0

[[instance]]
rewards = "binary"
means = [0.36, 0.34, 0.47, 0.465, 0.537]

[[policy]]
name = "conditional-power"
"""
    )
    code, out, err = roundwise("sweep", str(file), "--out", str(tmp_path / "out"), "--json")
    assert code == 0, err
    (row,) = json.loads(out)["cells"]
    (same,) = simulate(
        Claims.against_control(5, 0), BernoulliArms([0.36, 0.34, 0.47, 0.465, 0.537]), [ConditionalPower()], runs=40,
        delta=0.025, budget=600, round_size=65, split=(2, 1, 1, 1, 1),
    )  # fmt: skip
    assert row["true_shown_mean"] == pytest.approx(same.true_shown.mean())
    assert row["samples_mean"] == pytest.approx(same.samples.mean())


def test_every_command_takes_the_same_words(roundwise):
    """What a study is created with also simulates, and has a complexity."""
    words = [
        "--question",
        "claims",
        "--control",
        "0",
        "--margin",
        "0.02",
        "--futility",
        "0.1",
        "--means",
        "0.3,0.4,0.5",
    ]
    rounds = ["--budget", "600", "--round-size", "65", "--split", "equal"]
    for command in (["simulate", "--runs", "20", *rounds], ["complexity"]):
        code, _, err = roundwise(*command, *words, "--binary")
        assert code == 0, err


def test_the_words_of_a_file_are_checked():
    same = from_spec("question", "claims:arms=3,control=1,margin=0.1,scale=difference")
    assert np.array_equal(same.forms, Claims.against_control(3, 1).forms)
    assert same.levels.tolist() == [0.1, 0.1]
    for words, message in (
        ("claims:control=1", "need `arms`"),
        ("claims:arms=3,control=1,margins=2", "control"),
        ("claims:arms=x,control=1", "cannot be made"),
    ):
        with pytest.raises(InputError, match=message):
            from_spec("question", words)


def test_other_claims_than_against_one_control(roundwise, tmp_path):
    """Several controls, a level, and linear claims from a file, whose columns may be in any order."""
    file = tmp_path / "claims.csv"
    file.write_text("name,c,b,a,above\nb over a,0,1,-1,0\n")
    at = ("--storage", f"sqlite:///{tmp_path}/s.db", "--arms", "a,b,c", "--binary")
    for name, words, claims in (
        ("two", ("--control", "a,b"), ["c beats a", "c beats b"]),
        ("level", ("--level", "50%"), ["a is above 0.5", "b is above 0.5", "c is above 0.5"]),
        ("file", ("--file", file), ["b over a"]),
    ):
        code, out, _ = roundwise("new", name, "--question", "claims", *words, *at)
        assert code == 0
        assert all(each in out for each in claims)
    with load_study("file", storage=f"sqlite:///{tmp_path}/s.db") as found:
        assert found.state.spec.question.forms.tolist() == [[-1.0, 1.0, 0.0]]
    file.write_text("name,x,b,a,above\nb over a,0,1,-1,0\n")
    code, _, err = roundwise("new", "other", "--question", "claims", "--file", file, *at)
    assert (code, "x, b, a" in err) == (2, True)
    code, _, err = roundwise("new", "other", "--question", "claims", "--level", "0.5", "--control", "a", *at)
    assert (code, "--control" in err) == (2, True)
    code, _, err = roundwise("new", "other", "--question", "claims", "--level", "0.5", "--margin", "0.1", *at)
    assert (code, "--margin and --margin-is go with --control" in err) == (2, True)


def test_complexity_takes_ratios_and_refuses_odds(roundwise):
    words = ("complexity", "--question", "claims", "--control", "0", "--means", "0.3,0.5", "--margin", "1.1")
    code, out, _ = roundwise(*words, "--margin-is", "ratio", "--binary")
    assert (code, "arm 1 is more than 1.1 times arm 0" in out) == (0, True)
    code, _, err = roundwise(*words, "--margin-is", "odds-ratio", "--binary")
    assert (code, "Odds ratios have no complexity" in err) == (2, True)
