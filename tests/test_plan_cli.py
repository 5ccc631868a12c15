"""`roundwise plan` as a user meets it: what it prints and writes, the study it creates, one sentence for a mistake."""

import json
import shlex
import subprocess
import sys

import pytest

from roundwise.study import load_study

PLAN = ("plan", "checkout", "--question", "best-arm", "--arms", "red,green,blue", "--binary", "--baseline", "30%")
FEW = ("--leads", "10%,20%", "--runs", "60")


@pytest.fixture
def works(roundwise):
    def call(*words):
        code, out, err = roundwise(*words)
        assert (code, err) == (0, "")
        return json.loads(out) if "--json" in words else out

    return call


@pytest.mark.long
def test_it_prints_a_plan(works):
    out = works(*PLAN, *FEW, "--budget", "3000", "--round-days", "2", "--sample-cost", "red=1,green=2,blue=50%")
    for said in (
        "if it",
        "In words.",
        "For a protocol.",
        "Settings, for",
        "Create it: roundwise new checkout",
    ):
        assert said in out
    assert out.rstrip().splitlines()[-1].startswith("Next: ")


@pytest.mark.long
def test_json(works):
    found = works(*PLAN, *FEW, "--budget", "3000", "--json")
    keys = {"rows", "recommended", "fixed_design", "lower_bound", "words", "protocol", "command"}
    assert keys <= found.keys()
    assert found["rows"][0]["samples"]["typical"] > 0
    assert works(*PLAN, *FEW, "--budget", "3000", "--json") == found


def test_a_plan_needs_the_spread_that_the_noise_model_leaves_open(roundwise):
    """Before, a deviation of 1 was assumed without a word: 2 000 results where 110 000 were needed."""
    words = ("plan", "--question", "best-arm", "--arms", "A,B", "--large-sample", "--baseline", "3")
    assert "Give --deviation, roughly" in roundwise(*words)[2]


CASES = [
    ("--question", "best-arm", "--binary", "--baseline", "30%", "--tolerance", "2%"),
    ("--question", "top-k", "--k", "2", "--sigma", "1", "--baseline", "0", "--leads", "0.5"),
    ("--question", "above", "--level", "30%", "--range", "0", "1", "--leads", "0.2", "--max-round-size", "300"),
    ("--question", "any-above", "--level", "2", "--counts", "--leads", "1", "--min-per-arm", "5"),
    ("--question", "statements", "--control", "red", "--margin", "5%", "--binary", "--means", "20%,50%,70%"),
    ("--question", "minimum-below", "--level", "0", "--sigma", "2", "--normal", "--leads", "1"),
    ("--question", "best-arm", "--normal", "--baseline", "0", "--leads", "0.5", "--deviation", "2", "--delta", "10%"),
    (
        "--question",
        "best-arm",
        "--binary",
        "--baseline",
        "30%",
        "--round-size",
        "200",
        "--split",
        "2:1:1",
        "--leads",
        "20%",
    ),
    ("--question", "best-arm", "--binary", "--baseline", "30%", "--policy", "pet", "--leads", "30%"),
]


@pytest.mark.long
@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words[1:4]))
def test_the_command_and_the_file_create_the_same_study(works, words):
    """And it is the one that was planned."""
    shared = ("--arms", "red,green,blue", "--budget", "4000", "--runs", "40")
    found = works("plan", "s", *words, *shared, "--out", "plan.json", "--json")
    works(*shlex.split(found["command"])[1:])
    works("new", "t", "--from-plan", "plan.json")
    with load_study("s") as one, load_study("t") as other:
        kept = [{**study.state.spec.to_json(), "seed": 0} for study in (one, other)]
    assert kept[0] == kept[1]
    assert json.loads(json.dumps(kept[0])) == {**found["recommended"]["settings"], "seed": 0}


def test_a_plan_leaves_the_seed_the_columns_and_the_rules_open(works):
    words = (*PLAN, "--leads", "20%", "--runs", "20", "--id-column", "user", "--id-result", "any", "--out", "plan.json")
    works(*words)
    said = ("--arm-column", "variant", "--empty", "zero", "--seed", "7")
    works("new", "s", "--from-plan", "plan.json", *said)
    with load_study("s") as study:
        spec = study.state.spec
    assert spec.columns.payload() == {"arm": "variant", "id": "user"}  # those of the plan stay
    assert spec.reading.payload() == {"empty": "zero", "id_result": "any"}
    assert (spec.seed, spec.seed_given) == (7, True)


def test_claims(works):
    words = ("--question", "claims", "--control", "red", "--arms", "red,green,blue", "--binary", "--baseline", "30%")
    found = works("plan", "s", *words, "--leads", "40%", "--budget", "200", "--runs", "60", "--out", "p.json", "--json")
    (row,) = found["rows"]
    assert [each["claim"] for each in row["claims"]] == ["green beats red", "blue beats red"]
    assert row["at_least_one"] > 0.8
    assert works("new", "s", "--from-plan", "p.json", "--json")["question"] == "claims"


@pytest.mark.long
@pytest.mark.parametrize("ending", ["html", "txt", "svg"])
def test_it_is_written(works, ending, tmp_path):
    works(*PLAN, "--leads", "20%", "--runs", "40", "--out", f"plan.{ending}")
    assert (tmp_path / f"plan.{ending}").stat().st_size > 500


@pytest.mark.long
def test_scenarios(works, tmp_path):
    (tmp_path / "s.csv").write_text("scenario,red,green,blue\nlast year,30%,30%,60%\n")
    out = works(*PLAN[:-2], "--scenario", "s.csv", "--runs", "40")
    assert "last year" in out


@pytest.mark.long
def test_the_help_has_it_first_of_planning():
    out = subprocess.run(
        [sys.executable, "-m", "roundwise", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = [words[1] for line in out.splitlines() if len(words := line.split()) > 1 and words[0] == "│"]
    assert commands.index("plan") < commands.index("complexity")


@pytest.mark.long
def test_from_here(works, tmp_path):
    new = works("new", "checkout", "--question", "best-arm", "--arms", "red,green,blue", "--binary")
    assert "Forecast: if the lead is 5 points around 50 %, about" in new
    works("ask", "checkout")
    (tmp_path / "r.csv").write_text("arm,count,successes\nred,30,20\ngreen,30,12\nblue,30,9\n")
    works("tell", "checkout", "r.csv")
    found = works("plan", "--study", "checkout", "--runs", "100", "--json")
    assert {"samples", "more_rounds", "next_is_last", "within_budget", "words"} <= found.keys()
    out = works("plan", "--study", "checkout", "--runs", "100")
    assert "The next round is the last with probability" in out
    line = works("status", "checkout", "--json")["forecast"]
    assert line.startswith("about ")
    assert f"Forecast: {line}." in works("status", "checkout")
    assert works("report", "checkout", "--json")["forecast"] == line
    for ending, said in (("txt", f"Forecast: {line}."), ("md", f"- Forecast: {line}"), ("html", f"<dd>{line}</dd>")):
        works("report", "checkout", "--out", f"report.{ending}")
        assert said in (tmp_path / f"report.{ending}").read_text()
    works("close", "checkout", "--why", "no money", "--yes")
    assert works("report", "checkout", "--json")["forecast"] is None  # nothing more is to come


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("plan",), "Give --question"),
        ((*PLAN, "--means", "1,2,3"), "Give one of baseline"),
        ((*PLAN[:-2],), "baseline"),
        ((*PLAN, "--out", "plan.gif"), "must end in"),
        ((*PLAN, "--baseline", "much"), "must be a number such as"),
        ((*PLAN, "--budget", "2"), "3 arms need 3"),
        ((*PLAN, "--policy", "wagr"), "Did you mean 'wager'"),
        (("plan", "--study", "nobody"), "There are no studies"),
        (("new", "x"), "--question"),
        (("new", "x", "--from-plan", "none.json"), "There is no file"),
        (("new", "x", "--from-plan", "wrong.json"), "is not a plan"),
        (("new", "x", "--from-plan", "wrong.json", "--arms", "a,b"), "Give either --from-plan"),
        *(
            (("new", "x", "--from-plan", "wrong.json", *each), "Give either --from-plan")  # which were ignored
            for each in (("--delta", "0.1%"), ("--budget", "9"), ("--normal",), ("--k", "2"), ("--list-size", "9"))
        ),
    ],
)
def test_a_mistake_is_one_sentence(roundwise, words, sentence, tmp_path):
    (tmp_path / "wrong.json").write_text('{"format": "something else"}')
    code, out, err = roundwise(*words)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
