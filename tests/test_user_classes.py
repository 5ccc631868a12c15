"""Questions, noise models, policies and thresholds of a user's own: the recipes of docs/own.md, everywhere."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from roundwise import (
    GLR,
    PET,
    BestArm,
    Binary,
    Claims,
    DataError,
    Gaussian,
    GaussianArms,
    InputError,
    RoundRobin,
    Wager,
    create_study,
    load_study,
    simulate,
)
from roundwise.model.spec import from_spec, to_spec
from roundwise.planning import plan
from roundwise.policies.base import Limited
from roundwise.simulation.sweep import read_grid
from roundwise.store import open_store, write_log
from roundwise.study import replay
from roundwise.thresholds import Lemma32
from test_docs import ROOT, files_in
from test_study import rechained

RECIPES = files_in(ROOT / "docs" / "own.md")
MODULES = ("my_question", "my_noise", "my_policy", "my_threshold")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the recipes, where commands are run; they are not imported yet."""
    for name, text in RECIPES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def recipes(here):
    """The four, imported."""
    return [importlib.import_module(name) for name in MODULES]


@pytest.fixture
def roundwise(here, roundwise):
    return roundwise


def elsewhere(here, *words, **environment):
    """The same command in a process of its own."""
    command = [sys.executable, "-c", "from roundwise.cli import main; main()", *map(str, words)]
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run(command, cwd=here, env=os.environ | path | environment, capture_output=True, text=True)
    return found.returncode, found.stdout, found.stderr


# --- plain data ------------------------------------------------------------------------------------------------------


def test_plain_data_and_back(recipes):
    question, noise, policy, threshold = recipes
    rule = policy.Doubling(20, GLR(threshold.Stricter(2.0)))
    for kind, thing, spec in (
        ("question", question.Podium(), {"name": "my_question:Podium"}),
        ("noise", noise.Marks(5.0), {"name": "my_noise:Marks", "most": 5.0}),
        ("threshold", threshold.Stricter(), {"name": "my_threshold:Stricter", "times": 1.5}),
        ("policy", policy.Doubling(), {"name": "my_policy:Doubling", "start": 50, "threshold": "lemma-3.2"}),
        (
            "policy",
            rule,
            {
                "name": "my_policy:Doubling",
                "start": 20,
                "threshold": {"name": "my_threshold:Stricter", "times": 2.0},
            },
        ),
    ):
        assert to_spec(thing) == spec
        again = from_spec(kind, json.loads(json.dumps(spec)))
        assert again == thing
        assert type(again) is type(thing)
    assert from_spec("policy", "my_policy:Doubling:start=20,threshold=my_threshold:Stricter:times=2") == rule


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("my_polic:Doubling", "'my_polic'"),
        ("broken:Doubling", "'broken'"),
        ("my_policy:Doublin", "'my_policy'.*'Doublin'"),
        ("my_policy:np", "There is no class|'my_policy:np' is not a dataclass"),
        ("my_policy:everywhere", "'my_policy:everywhere'"),
        ("my_question:Podium", "derive the class from roundwise.Policy"),
        ("my_policy:Doubling:star=3", "'my_policy:Doubling'.*'star'"),
        ("my_policy:Doubling:start=x", "start.*'x'"),
        ("my_policy:Doubling:start=1.5", "start"),
        ("my_policy:Doubling:start=0", "start"),
        ("my_policy:Doubling:threshold=my_threshold:Strict", "'my_threshold'.*'Strict'"),
        ("my_policy:Doubling:threshold=my_noise:Marks", "Marks.*Threshold"),
        ("my_policy:", "'my_policy'"),
        (":Doubling", "':Doubling'"),
    ],
)  # fmt: skip
def test_mistakes(here, words, message):
    (here / "broken.py").write_text("def")
    with pytest.raises(InputError, match=message):
        from_spec("policy", words, trusted=True)


def test_what_cannot_be_found_again_is_refused(here, monkeypatch):
    @dataclass(frozen=True)
    class Inner(RoundRobin):
        name = "inner"

    with pytest.raises(InputError, match="The class .*<locals>.Inner' cannot be found again from elsewhere"):
        create_study("s", question=BestArm(), arms=NAMES, noise=Gaussian(1.0), policy=Inner(), storage="sqlite:///s.db")
    script = dataclass(frozen=True)(type("Script", (Lemma32,), {"__module__": "__main__", "name": "script"}))
    with pytest.raises(InputError, match="'__main__:Script'"):
        to_spec(PET(stopping=GLR(script())))
    gone = dataclass(frozen=True)(type("Gone", (RoundRobin,), {"__module__": "test_user_classes", "name": "gone"}))
    with pytest.raises(InputError, match="'test_user_classes:Gone'"):
        to_spec(gone())
    assert not (here / "s.db").exists()


@dataclass(frozen=True)
class Holds(RoundRobin):
    """A policy with a setting that is no plain data."""

    within: object = field(default_factory=object)
    name = "holds"


def test_settings_are_plain_data():
    with pytest.raises(InputError, match=r"within.*'holds'"):
        to_spec(Holds())


# --- simulations -----------------------------------------------------------------------------------------------------


def test_the_command_line_gives_the_numbers_of_python(roundwise):
    words = ("simulate", "--question", "my_question:Podium", "--means", "3,1.5,0.5", "--runs", 40, "--json")
    code, out, err = roundwise(*words, "--policy", "my_policy:Doubling:start=20", "--policy", "wager")
    assert (code, err) == (0, "")
    own, wager = json.loads(out)
    question, policy = sys.modules["my_question"], sys.modules["my_policy"]
    found = simulate(question.Podium(), GaussianArms([3, 1.5, 0.5]), [policy.Doubling(20), Wager()], runs=40)
    assert [each["samples"]["mean"] for each in (own, wager)] == [runs.samples.mean() for runs in found]
    assert own["policy"] == "my_policy:Doubling:start=20"


@pytest.mark.long
def test_with_more_processes(here):
    words = ("simulate", "-q", "my_question:Podium", "--means", "3,1.5,0.5", "--policy", "my_policy:Doubling", "--json")
    one, two = (elsewhere(here, *words, "--runs", 2100, "--workers", workers) for workers in (1, 2))
    assert one[0] == 0, one[2]
    assert one == two


def test_a_noise_model_and_a_threshold(roundwise):
    world = ("simulate", "-q", "best-arm", "--means", "0.8,0.3", "--binary", "--runs", 30, "--json")
    (marks,) = json.loads(roundwise(*world, "--noise", "my_noise:Marks:most=1", "--policy", "pet")[1])
    (half,) = json.loads(roundwise(*world, "--noise", "sub-gaussian:sigma=0.5", "--policy", "pet")[1])
    assert marks["samples"] == half["samples"]
    assert marks["guarantee"]
    (wrong,) = json.loads(roundwise(*world, "--noise", "my_noise:Marks:most=0.5", "--policy", "pet")[1])
    assert not wrong["guarantee"]
    (pet,) = json.loads(roundwise(*world, "--policy", "pet")[1])
    (same,) = json.loads(roundwise(*world, "--policy", "pet:threshold=my_threshold:Stricter:times=1")[1])
    (strict,) = json.loads(roundwise(*world, "--policy", "pet:threshold=my_threshold:Stricter:times=3")[1])
    assert same["samples"] == pet["samples"]
    assert strict["samples"]["mean"] > 2 * pet["samples"]["mean"]


def test_complexity_and_bounds(roundwise):
    found = json.loads(roundwise("complexity", "-q", "my_question:Podium", "--means", "1,0", "--json")[1])
    same = json.loads(roundwise("complexity", "-q", "best-arm", "--means", "1,0", "--json")[1])
    assert found["complexity"] == pytest.approx(same["complexity"], rel=1e-6)
    code, _, err = roundwise("bounds", "-q", "my_question:Podium", "--means", "1,0.5,0")
    assert code in (0, 2)
    assert "Traceback" not in err


@pytest.mark.long
def test_a_sweep(roundwise, here):
    code, out, err = roundwise("sweep", "own.toml", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["cells"]
    assert {row["question"] for row in rows} == {"my_question:Podium", "best-arm"}
    for row in rows:
        assert row["noise"] == "my_noise:Marks:most=1"
        assert row["policy"] == "my_policy:Doubling:start=20,threshold=my_threshold:Stricter"
        assert row["guarantee"]
    assert json.loads(roundwise("sweep", "own.toml", "--json")[1])["computed"] == 0


def test_a_cell_is_known_by_the_code_too(here, monkeypatch):
    before = {cell.digest for cell in read_grid(here / "own.toml").cells}
    with (here / "my_threshold.py").open("a") as file:
        file.write("# changed\n")
    monkeypatch.delitem(sys.modules, "my_threshold")
    assert not before & {cell.digest for cell in read_grid(here / "own.toml").cells}


# --- studies ---------------------------------------------------------------------------------------------------------

URL = "sqlite:///own.db"
MEANS = (4.0, 2.5, 1.0)
NAMES = ("ann", "bob", "cleo")


def marks(rng, pulls):
    """Whole marks from 0 to 5 with these means."""
    counts = [rng.binomial(5, mean / 5, int(n)) for mean, n in zip(MEANS, pulls, strict=True)]
    return {
        "arm": [name for name, values in zip(NAMES, counts, strict=True) for _ in values],
        "outcome": [float(value) for values in counts for value in values],
    }


def finished(study, rng):
    while (asked := study.ask()) is not None:
        report = study.tell(marks(rng, asked.outstanding))
    return report


@pytest.mark.long
@pytest.mark.parametrize(
    "limits", [pytest.param({}, id="free", marks=pytest.mark.slow), pytest.param({"max_round_size": 60}, id="limited")]
)
def test_a_study_of_ones_own_is_read_in_another_process(here, recipes, limits):
    question, noise, policy, threshold = recipes
    rule = policy.Doubling(20, GLR(threshold.Stricter(1.1)))
    settings = {"question": question.Podium(), "arms": NAMES, "noise": noise.Marks(5.0), "policy": rule, **limits}
    with create_study("exam", storage=URL, **settings) as study:
        assert study.state.spec.to_json()["question"] == {"name": "my_question:Podium"}
        report = finished(study, np.random.default_rng(1))
        assert (report.status, report.answer, report.guarantee.status) == ("decided", list(NAMES[:2]), "kept")
    with load_study("exam", URL) as again:
        found = again.state.spec
    assert (found.question, found.noise) == (question.Podium(), noise.Marks(5.0))
    assert found.acting == (Limited(rule, 60) if limits else rule)
    own = [word for name in MODULES for word in ("--own", name)]
    for command in ("report", "verify"):
        code, out, err = elsewhere(here, *own, command, "exam", "--storage", URL)
        assert code == 0, err
        assert "ann is first and bob second" in out or "is sound" in out
    code, _, err = elsewhere(here, "report", "exam", "--storage", URL, ROUNDWISE_OWN=" ".join(MODULES))
    assert code == 0, err
    code, _, err = elsewhere(here, "report", "exam", "--storage", URL)
    assert code == 2
    assert "`roundwise --own my_question ...`" in err
    for name in MODULES:
        (here / f"{name}.py").unlink()
    code, _, err = elsewhere(here, *own, "report", "exam", "--storage", URL)
    assert code == 2
    assert "The module 'my_question' cannot be imported" in err


def test_a_study_with_bets_in_an_own_noise_model(here, recipes):
    """Wager bets, and its report has intervals."""
    question, noise, *_ = recipes
    with create_study("exam", question=question.Podium(), arms=NAMES, noise=noise.Marks(5.0), storage=URL) as study:
        finished(study, np.random.default_rng(2))
        report = study.report()
        assert (report.answer, report.guarantee.status) == (list(NAMES[:2]), "kept")
        with pytest.raises(DataError, match="'ann'"):
            study.amend(study.state.rounds[0].files[0].digest, {"arm": ["ann"], "outcome": [7.0]}, "wrong")


@pytest.mark.long
def test_a_study_from_the_command_line(roundwise, here):
    new = ("new", "exam", "-q", "my_question:Podium", "--arms", "ann,bob,cleo", "--noise", "my_noise:Marks:most=5")
    code, out, err = roundwise(*new, "--policy", "my_policy:Doubling:start=10", "--storage", URL)
    assert (code, err) == (0, "")
    own = [word for name in MODULES[:3] for word in ("--own", name)]
    assert f"Next: `roundwise {' '.join(own)} ask exam --storage sqlite:///own.db` says" in out
    code, out, err = elsewhere(here, *own, "ask", "exam", "--storage", URL, "--json")
    assert code == 0, err
    assert json.loads(out)["asked"] == {"ann": 10, "bob": 10, "cleo": 10}
    code, _, err = roundwise("new", "other", "-q", "best-arm", "--arms", "a,b", "--noise", "marks", "--storage", URL)
    assert code == 2
    assert "There is no noise model called 'marks'" in err
    code, _, err = roundwise("new", "other", "-q", "best-arm", "--arms", "a,b", "--binary", "--noise", "binary")
    assert code == 2
    assert "are different noise models: give one" in err


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["evil:Run", "subprocess:Popen", "os:system", "pathlib:Path", "roundwise.model.spec:Parameter"]
)
@pytest.mark.parametrize("kind", ["question", "noise", "policy"])
def test_a_record_of_others_imports_and_runs_nothing(here, name, kind):
    """The chain of digests is right, as somebody who forges a record would have it."""
    (here / "evil.py").write_text("open('ran', 'w').close()\nclass Run: pass\n")
    with create_study("s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=URL):
        pass
    with open_store(URL) as store:
        entries = store.read("s")

    def change(seq, what, payload):
        payload[kind] = {"name": name, "args": ["touch", "ran"], "command": "touch ran"}

    forged = rechained(entries, change)
    with pytest.raises(DataError, match="which is not imported|is not a dataclass|is no (question|noise model|policy)"):
        replay(forged)
    if name == "evil:Run":
        write_log(here / "s.jsonl", forged)
        code, _, err = elsewhere(here, "import", "s.jsonl", "--storage", "sqlite:///b.db")
        assert code == 2
        assert "a record imports nothing by itself" in err
    assert not (here / "ran").exists()


@pytest.mark.long
def test_they_are_planned_with(recipes):
    """A noise model for every question, also claims; a question with means, because it says no ladder of leads."""
    question, noise, *_ = recipes
    marks, podium = noise.Marks(10.0), question.Podium()
    found = plan(BestArm(), arms=3, noise=marks, baseline=5, leads="3", runs=10)
    assert "--noise my_noise:Marks:most=10.0" in found.command
    assert "Results are marks from 0 to 10." in found.protocol
    assert found.rows[0].samples.typical < 2000
    assert found.rows[0].lower_bound is None  # as for every model of results between limits
    claims = plan(Claims.against_control(3, 0), arms=3, noise=marks, baseline=5, leads="3", budget=600, runs=10)
    assert claims.rows[0].at_least_one > 0.5
    found = plan(podium, arms=3, noise=Binary(), means="10%,40%,80%", runs=10)
    assert "--question my_question:Podium" in found.command
    assert found.rows[0].samples.typical < 2000
    with pytest.raises(InputError, match="'podium' has no ladder of leads"):
        plan(podium, arms=3, noise=Binary(), baseline="30%")
