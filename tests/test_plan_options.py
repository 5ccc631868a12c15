"""`plan` takes the words of `new`, and hands them on to it: on the command line, in Python, in a file."""

import inspect
import json
import shlex

import pytest

from commands import shell
from roundwise import BestArm, Binary, Wager, create_study, load_study, plan
from roundwise.cli import commands
from roundwise.noise import PairedBinary

# What one has and the other has not, and why.
ONLY_NEW = {
    "--from-plan": "a plan is not made from a plan",
}
ONLY_PLAN = {
    **dict.fromkeys(["--baseline", "--leads", "--means", "--scenario", "--target"], "what is expected"),
    **dict.fromkeys(["--pilot", "--missing", "--deviation", "--skewness", "--item-correlation"], "what is expected"),
    **dict.fromkeys(["--metric-baseline", "--metric-deviation"], "what is expected"),
    **dict.fromkeys(["--sample-cost", "--round-cost", "--round-days"], "what is paid"),
    "--power": "of the fixed design beside it",
    "--per-day": "traffic, for days",
    "--runs": "of the simulation",
    "--study": "from the middle of a study",
    "--out": "a plan is a file; a study is in its storage",
}


def options(name):
    command = commands().commands[name]
    return {option: each for each in command.params for option in each.opts if option.startswith("--")}


def test_the_same_options():
    new, ours = options("new"), options("plan")
    assert new.keys() - ours.keys() == ONLY_NEW.keys()
    assert ours.keys() - new.keys() == ONLY_PLAN.keys()
    for option in new.keys() & ours.keys() - {"--seed", "--budget", "--json", "--storage"}:
        assert new[option].default == ours[option].default, option


def test_the_same_words_in_python():
    new, ours = (set(inspect.signature(each).parameters) for each in (create_study, plan))
    assert new - ours == {"storage", "load_if_exists"}  # nothing is recorded
    said = {each.removeprefix("--").replace("-", "_") for each in ONLY_PLAN} - {"study", "out"}
    assert ours - new == said | {"quick", "progress"}


STUDIES = {
    "best-arm": "--question best-arm --arms a,b --binary",
    "top-k": "--question top-k --k 2 --arms a,b,c --counts",
    "above": "--question above --level 0.3 --arms a,b --binary --tolerance 0.02",
    "any-above": "--question any-above --level 0.3 --arms a,b --range 0 1",
    "minimum": "--question minimum-below --level 0.3 --arms a,b --sigma 1",
    "claims": "--question claims --control a --margin 0.05 --arms a,b,c --binary --budget 300",
    "two-sided": "--question claims --control a --two-sided --arms a,b,c --binary --budget 300",
    "futility": "--question claims --control a --futility 0.4 --arms a,b,c --binary --budget 300",
    "odds": "--question claims --control a --margin-is odds-ratio --margin 1.2 --arms a,b,c --binary --budget 300",
    "statements": "--question statements --control a --arms a,b,c --sigma 1 --normal",
    "limits": "--question best-arm --arms a,b --binary --max-round-size 100 --min-per-arm 2 --budget 900 --delta 10%",
    "rounds": "--question best-arm --arms a,b --binary --round-size 60 --split 2:1 --policy wager:first_pulls=50",
    "sigmas": "--question best-arm --arms a,b --sigmas 1,2",
    "unknown": "--question best-arm --arms a,b --normal --items",
    "items": "--question best-arm --arms a,b --binary --item-column q --arm-column model --id-column user",
    "noise": "--question best-arm --arms a,b --noise sub-gaussian:sigma=0.5",
    "prices": "--question best-arm --arms a,b --binary --prices 1,5 --arm-names org/x=a,org/y=b --delta 1.2345678%",
    "list": "--question best-arm --arms a,b,c --binary --list-size 60 --cost-column usd --failed-is 0",
}


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_as_planned(name, tmp_path):
    """The words that create a study plan it; the command that the plan prints, and its file, create the same study."""
    words, arms = shlex.split(STUDIES[name]), STUDIES[name].split("--arms ")[1].split()[0].split(",")
    means = ",".join(["0.2"] * (len(arms) - 1) + ["0.5"])
    file = tmp_path / "plan.json"
    policy = [] if name in ("rounds", "list") or "claims" in words else ["--policy", "wager:first_pulls=40"]
    spread = ["--deviation", "1"] if name == "unknown" else []  # that the noise model leaves open
    shown = shell("plan", "s", *words, *policy, *spread, "--means", means, "--runs", "5", "--out", str(file))
    assert shown.returncode == 0, shown.stderr
    ours = json.loads(file.read_text())["command"]
    for each, made in (
        ("typed", ["new", "typed", *words, *policy]),
        ("printed", ["new", "printed", *shlex.split(ours)[3:]]),
        ("filed", ["new", "filed", "--from-plan", str(file)]),
    ):
        done = shell(*made, "--storage", f"sqlite:///{tmp_path}/{each}.db", "--seed", "1")
        assert done.returncode == 0, (each, done.stderr)
    settings = [_settings(each, f"sqlite:///{tmp_path}/{each}.db") for each in ("typed", "printed", "filed")]
    assert settings[1] == settings[2]
    assert settings[0] == settings[2]


def _settings(name, store):
    with load_study(name, store) as study:
        return study.state.spec.to_json()


@pytest.mark.long
def test_features(tmp_path):
    file = tmp_path / "features.csv"
    file.write_text("arm,x,y\na,1,0\nb,0,1\nc,1,1\n")
    words = ["--question", "best-arm", "--arms", "a,b,c", "--sigma", "1", "--features", str(file)]
    shown = shell("plan", "s", *words, "--means", "0.2,0.3,0.5", "--runs", "5")
    assert shown.returncode == 0, shown.stderr
    assert "(Arms have 2 features.)" in shown.stdout


def test_shared_goes_with_items():
    shown = shell(
        "plan",
        "s",
        "--question",
        "best-arm",
        "--arms",
        "a,b",
        "--binary",
        "--baseline",
        "30%",
        "--item-correlation",
        "50%",
    )
    assert shown.returncode == 2
    assert "Add --items or --item-column." in shown.stderr


class TestItems:
    WORDS = {"arms": ["a", "b"], "means": [0.5, 0.7], "policy": Wager(first_pulls=60), "runs": 60}

    def test_what_arms_share_saves_results(self):
        alike = plan(BestArm(), noise=PairedBinary(), item_correlation="80%", **self.WORDS).row
        apart = plan(BestArm(), noise=Binary().with_items(), item_correlation=0, **self.WORDS).row
        assert alike.mean_samples < 0.85 * apart.mean_samples
        assert alike.lower_bound is None
        assert alike.fixed is None
