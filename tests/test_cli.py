"""The commands as a user meets them: what they print, JSON, and one sentence for a mistake."""

import json
import math
import re
import subprocess
import sys

import pytest

BEST = ("--question", "best-arm", "--means", "1,0.9,0.8")


class TestComplexity:
    def test_json(self, roundwise):
        code, out, err = roundwise("complexity", *BEST, "--json")
        found = json.loads(out)
        assert (code, err, found["answer"]) == (0, "", 0)
        assert found["complexity"] == pytest.approx(857.12206, rel=1e-6)  # as in docs/baselines.md, by hand
        assert sum(found["weights"]) == pytest.approx(1)
        assert found["sample_lower_bound"] == pytest.approx(found["complexity"] * 0.9 * 2.944439, rel=1e-6)

    def test_table(self, roundwise):
        code, out, _ = roundwise("complexity", *BEST)
        assert code == 0
        assert "arm 0 is the best arm" in out
        assert "857.1" in out
        assert "roundwise simulate" in out

    def test_radius_and_sigma(self, roundwise):
        plain = json.loads(roundwise("complexity", *BEST, "--json")[1])
        double = json.loads(roundwise("complexity", *BEST, "--sigma", 2, "--json")[1])
        ball = json.loads(roundwise("complexity", *BEST, "--radius", 0.02, "--json")[1])
        assert double["complexity"] == pytest.approx(4 * plain["complexity"])
        assert ball["complexity"] > plain["complexity"]

    def test_infinite_is_null_in_json_and_a_sentence_for_people(self, roundwise):
        code, out, _ = roundwise("complexity", *BEST, "--radius", 0.05, "--json")
        assert (code, json.loads(out)["complexity"]) == (0, None)
        assert "contains means with different answers" in roundwise("complexity", *BEST, "--radius", 0.05)[1]
        assert "lie between two answers" in roundwise("complexity", "-q", "best-arm", "--means", "1,1")[1]

    @pytest.mark.parametrize(
        ("words", "answer"),
        [
            (("top-k", "--k", 2), [0, 1]),
            (("above", "--level", 0.85), [0, 1]),
            (("minimum-below", "--level", 0.85), True),
            (("any-above", "--level", 1.1), False),
        ],
    )
    def test_every_question(self, roundwise, words, answer):
        code, out, _ = roundwise("complexity", "--means", "1,0.9,0.8", "--question", *words, "--json")
        assert (code, json.loads(out)["answer"]) == (0, answer)
        assert roundwise("complexity", "--means", "1,0.9,0.8", "--question", *words)[0] == 0

    def test_statements_and_largest_from_files(self, roundwise, tmp_path):
        statements, scores = tmp_path / "statements.csv", tmp_path / "scores.csv"
        statements.write_text("name,a,b,c,above\nb beats a,-1,1,0,0.1\naverage,0.333,0.333,0.333,0.8\n")
        scores.write_text("name,a,b,c\nfirst two,1,1,0\nlast two,0,1,1\n")
        words = ("complexity", "--means", "1,0.9,0.8", "--question")
        assert json.loads(roundwise(*words, "statements", "--file", statements, "--json")[1])["answer"] == [1]
        assert json.loads(roundwise(*words, "largest", "--file", scores, "--json")[1])["answer"] == 0
        assert "average" in roundwise(*words, "statements", "--file", statements)[1]
        assert "first two is the largest" in roundwise(*words, "largest", "--file", scores)[1]


class TestSimulate:
    def test_json(self, roundwise):
        words = ("simulate", *BEST, "--policy", "pet", "--policy", "track-and-stop", "--runs", 40, "--seed", 1)
        code, out, err = roundwise(*words, "--delta", 0.05, "--sigma", 1, "--json")
        found = json.loads(out)
        assert (code, err) == (0, "")
        assert [each["policy"] for each in found] == ["pet", "track-and-stop"]
        assert {"policy", "runs", "samples", "batches", "error", "error_upper_95", "samples_over_lower_bound"} <= set(
            found[0]
        )
        assert set(found[0]["samples"]) == {"mean", "se", "quantiles"}
        assert set(found[0]["batches"]) == {"mean", "se", "max"}
        assert json.loads(roundwise(*words, "--json")[1]) == found  # the same seed, and the defaults

    @pytest.mark.parametrize("policy", ["pet", "round-robin", "track-and-stop", "tri-bbai", "opt-bbai"])
    def test_every_policy(self, roundwise, policy):
        code, out, _ = roundwise("simulate", *BEST, "--policy", policy, "--runs", 5)
        assert code == 0
        assert policy in out

    def test_settings_of_a_policy(self, roundwise):
        words = (
            "simulate",
            *BEST,
            "--runs",
            20,
            "--json",
            "--policy",
            "pet:guess=64,threshold=pairwise,test_every_batch=yes",
        )
        slow = json.loads(roundwise("simulate", *BEST, "--runs", 20, "--json")[1])
        assert json.loads(roundwise(*words)[1])[0]["batches"]["mean"] < slow[0]["batches"]["mean"]

    def test_no_guarantee_is_marked(self, roundwise):
        _, out, _ = roundwise("simulate", *BEST, "--runs", 5, "--policy", "track-and-stop:threshold=heuristic")
        assert "threshold=heuristic *" in out
        assert "no guarantee" in out

    def test_replay(self, roundwise, tmp_path):
        path = tmp_path / "table.csv"
        path.write_text("instance,arm,outcome,count\nx,a,0,10\nx,a,1,90\nx,b,0,90\nx,b,1,10\n")
        code, out, _ = roundwise("simulate", "-q", "best-arm", "--data", path, "--instance", "x", "--runs", 10)
        assert code == 0
        assert "a is the best arm" in out

    def test_binary(self, roundwise):
        code, out, _ = roundwise("simulate", "-q", "best-arm", "--means", "0.9,0.1", "--binary", "--runs", 10, "--json")
        assert (code, json.loads(out)[0]["error"]) == (0, 0)

    def test_all_runs_as_parquet(self, roundwise, tmp_path):
        import duckdb

        out = tmp_path / "deep" / "runs.parquet"
        roundwise("simulate", *BEST, "--policy", "pet", "--policy", "round-robin", "--runs", 7, "--out", out)
        with duckdb.connect() as connection:
            rows = connection.execute(
                "select policy, count(*), min(samples) from read_parquet(?) group by 1 order by 1", [str(out)]
            )
            assert [row[:2] for row in rows.fetchall()] == [("pet", 7), ("round-robin", 7)]
        assert [path.name for path in out.parent.iterdir()] == ["runs.parquet"]


def test_a_tie_ends_undecided_by_itself(roundwise):
    for words in (("--policy", "pet"), ("--policy", "opt-bbai"), ("--policy", "track-and-stop"), ("--binary",)):
        code, out, _ = roundwise("simulate", "-q", "best-arm", "--means", "0.5,0.5", "--runs", 3, *words)
        assert code == 0
        assert "Undecided runs reached a limit" in out


def test_a_mean_that_is_cut_off_is_not_compared_with_the_bound(roundwise):
    words = ("simulate", "-q", "best-arm", "--means", "0.01,0", "--policy", "round-robin", "--runs", 5)
    _, out, _ = roundwise(*words, "--max-batches", 2)
    row = next(line for line in out.splitlines() if line.strip().startswith("round-robin "))
    head = next(line for line in out.splitlines() if "× bound" in line)
    assert re.split("  +", row.strip())[re.split("  +", head.strip()).index("× bound")] == "-"
    assert "cut off in this way is not compared with the bound" in out
    plain = json.loads(roundwise(*words, "--max-batches", 2, "--json")[1])[0]
    assert plain["samples_over_lower_bound"] is None
    assert plain["sample_lower_bound"] == pytest.approx(80_000 * 0.9 * math.log(19))


def test_with_a_radius_the_bound_is_for_the_means_that_are_given(roundwise):
    """Of a ball the worst case over all statements need not be at one of its points, so it bounds nothing."""
    plain = json.loads(roundwise("complexity", *BEST, "--json")[1])
    ball = json.loads(roundwise("complexity", *BEST, "--radius", 0.02, "--json")[1])
    assert ball["complexity"] > plain["complexity"]
    assert ball["sample_lower_bound"] == plain["sample_lower_bound"]
    assert "samples on average at these means than" in roundwise("complexity", *BEST, "--radius", 0.02)[1]


def test_flags_take_no_value_in_the_help(roundwise):
    """`--binary <bool>` would be read as `--binary true`."""
    for command in ("new", "simulate", "tell"):
        _, out, _ = roundwise(command, "--help")
        flags = [line for line in out.splitlines() if "<bool>" in line and "--help" not in line]
        assert flags == []


def test_every_command_has_json(roundwise):
    """As the README says."""
    import typer

    from roundwise.cli import app

    roundwise("--help")  # registers all commands
    commands = typer.main.get_command(app).commands
    assert {"bounds", "complexity", "paper", "simulate", "sweep", "new", "export", "import", "serve"} <= set(commands)
    without = [name for name, each in commands.items() if "--json" not in [o for p in each.params for o in p.opts]]
    assert without == []


def test_what_the_lower_bound_is_about_is_said(roundwise):
    """Of 0/1 rewards and counts it is their own; where normal rewards with another sigma are assumed, that of those."""
    for kind in (["--binary"], ["--noise", "poisson"]):
        _, out, _ = roundwise("simulate", "-q", "best-arm", "--means", "0.3,0.1", *kind, "--runs", 20)
        assert "Lower bound on the mean samples of any method with error at most 0.05: " in out
    words = ("simulate", "-q", "best-arm", "--means", "0.05,0.04,0.03", "--binary", "--runs", 5, "--json")
    (found,) = json.loads(roundwise(*words)[1])
    assert found["sample_lower_bound"] == pytest.approx(9696, abs=0.5)
    assert found["lower_bound_for"] == "these rewards"


def test_complexities_of_other_rewards(roundwise):
    _, out, _ = roundwise("complexity", "-q", "best-arm", "--means", "0.05,0.04,0.03", "--binary")
    assert "Complexity T* for 0/1 rewards: 3\N{NO-BREAK SPACE}659" in out
    assert "than 9\N{NO-BREAK SPACE}696." in out
    # two arms of counts, both weights 1/2 by symmetry of small gaps: T* = 2 (s1 + s2)^2 / gap^2 with s^2 = mean
    found = json.loads(roundwise("complexity", "-q", "best-arm", "--means", "4,4.01", "--poisson", "--json")[1])
    assert found["complexity"] == pytest.approx(2 * (2 * 2.00125) ** 2 / 0.01**2, rel=1e-3)
    assert found["rewards"] == "Poisson counts"
    found = json.loads(roundwise("complexity", "-q", "best-arm", "--means", "1,0", "--sigmas", "1,3", "--json")[1])
    assert found["complexity"] == pytest.approx(2 * (1 + 3) ** 2)
    assert found["weights"] == pytest.approx([0.25, 0.75], abs=1e-3)
    found = json.loads(
        roundwise("complexity", "-q", "above", "--level", 2, "--means", "1,3", "--exponential", "--json")[1]
    )
    assert found["complexity"] == pytest.approx(1 / (math.log(2) - 0.5) + 1 / (math.log(2 / 3) + 0.5))
    for words, sentence in (
        (("--binary", "--poisson"), "--binary"),
        (("--binary", "--radius", 0.1), "--radius"),
        (("--sigmas", "1,2,3"), "deviations"),
    ):
        code, out, err = roundwise("complexity", "-q", "best-arm", "--means", "0.5,0.4", *words)
        assert (code, out) == (2, "")
        assert sentence in err


@pytest.mark.parametrize(
    "words",
    [
        ("--policy", "opt-bbai:c=0.5"),
        ("--binary", "--sigma", 0.05, "--policy", "pet"),
        ("--policy", "tri-bbai"),
    ],
)
def test_no_guarantee_is_said_in_json(roundwise, words):
    found = json.loads(roundwise("simulate", "-q", "best-arm", "--means", "0.6,0.3", "--runs", 5, *words, "--json")[1])
    assert found[0]["guarantee"] is False
    assert "no guarantee" in found[0]["caveat"]


@pytest.mark.long
def test_paper(roundwise, tmp_path):
    code, out, err = roundwise("paper", "--runs", 30, "--out", tmp_path / "results")
    assert (code, err) == (0, "")
    made = {path.name for path in (tmp_path / "results").iterdir()}
    figures = {"figure-3.png", "figure-3.svg", "figure-3.pdf", "figure-wager.png", "figure-wager.svg"}
    assert made == figures | {"runs.parquet", "summary.csv"}
    assert "What the paper says, and what was measured" in out
    assert "reproduces for c = 32, 128; reversed for c = 2, 8" in " ".join(out.split())
    code, out, _ = roundwise("paper", "--runs", 5, "--out", tmp_path / "results", "--json")
    assert {"summary", "claims", "files"} == set(json.loads(out))


MISTAKES = [
    ((*BEST, "--delta", 5), "delta"),
    ((*BEST, "--delta", 0), "`delta` is 0"),
    ((*BEST, "--delta", "nan"), "--delta"),
    (("-q", "best-arm", "--means", "1,nan"), "'nan'"),
    (("-q", "best-arm", "--means", "1,x"), "'x'"),
    (("-q", "best-arm", "--means", "1"), "arms"),
    (("-q", "best-arm"), "--means"),
    ((*BEST, "--sigma", -1), "sigma"),
    ((*BEST, "--k", 2), "'best-arm'"),
    (("-q", "top-k", "--means", "1,2"), "'top-k'"),
    (("-q", "top-k", "--k", 3, "--means", "1,2,3"), "number"),
    (("-q", "top-k", "--k", 0, "--means", "1,2,3"), "`k` is 0"),
    (("-q", "above", "--level", "nan", "--means", "1,2"), "--level"),
    (("-q", "bestarm", "--means", "1,2"), "'bestarm'"),
    (("--means", "1,2"), "Missing option '--question'"),
    ((*BEST, "--sigm", 1), "--sigm"),
    ((*BEST, "--delta", "x"), "--delta"),
]


@pytest.mark.parametrize("command", ["complexity", "simulate"])
@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_mistakes_are_one_sentence_and_code_2(roundwise, command, words, message):
    code, out, err = roundwise(command, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("roundwise: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", *BEST, "--policy", "petr"), "'petr'"),
        (("simulate", *BEST, "--policy", "pet:gess=4"), "'pet'"),
        (("simulate", *BEST, "--policy", "pet:guess=x"), "guess"),
        (("simulate", *BEST, "--policy", "pet:threshold=pairwis"), "Did you mean 'pairwise'?"),
        (("simulate", *BEST, "--policy", "opt-bbai:threshold=sum"), "'opt-bbai'"),
        (("simulate", *BEST, "--policy", "track-and-stop:forced=maybe"), "must be true or false"),
        (("simulate", *BEST, "--policy", "track-and-stop:tracking=E"), "'D' or 'C'"),
        (("simulate", *BEST, "--runs", 0), "`runs` is 0"),
        (("simulate", *BEST, "--data", "x.csv"), "either --means or --data"),
        (("simulate", "-q", "best-arm", "--data", "absent.csv"), "absent.csv"),
        (("simulate", "-q", "top-k", "--k", 2, "--means", "1,2,3", "--policy", "opt-bbai"), "answers 'best-arm' only"),
        (
            ("simulate", "-q", "any-above", "--level", 1, "--means", "1,2", "--policy", "pet:threshold=pairwise"),
            "not a union of half-spaces",
        ),
        (("complexity", *BEST, "--radius", -1), "--radius is -1"),
        (("complexity", *BEST, "--sigma", "1e200"), "`sigma` is 1e+200"),
        (("complexity", *BEST, "--delta", "1e-320"), "at least 1e-300"),
        (("simulate", *BEST, "--seed", -1), "`seed` is -1"),
        (("simulate", *BEST, "--max-samples", -1), "must be positive"),
        (("simulate", *BEST, "--out", "."), "is a folder"),
        (("simulate", *BEST, "--out", "/proc/x/y.parquet"), "cannot be written"),
        (("simulate", *BEST, "--instance", "x"), "--instance needs --data"),
        (("simulate", *BEST, "--without-replacement"), "--without-replacement needs --data"),
        (("simulate", "-q", "best-arm", "--data", "x.csv", "--binary"), "--binary goes with --means"),
        (("simulate", *BEST, "--noise", "gausian"), "Did you mean 'gaussian'?"),
        (("simulate", *BEST, "--policy", "pet:guess=inf"), "must be at least 1"),
        (("simulate", *BEST, "--policy", "opt-bbai:c=inf"), "`c` is inf"),
        (("paper", "--runs", 5, "--out", "/proc/foo"), "cannot be written"),
        (("bounds", *BEST, "--plot", "x.jpg"), "must end in .png, .svg or .pdf"),
        (("complexity", "-q", "statements", "--means", "1,2", "--file", "absent.csv"), "absent.csv"),
        (("simulat",), "'simulat'"),
        (("bounds", "-q", "claims", "--means", "1,2"), "'claims'"),
        (("ask",), "'NAME'"),
        (("ask", "my", "study"), "--help"),
        (("close", "x", "--why"), "--help"),
    ],
)  # fmt: skip
def test_more_mistakes(roundwise, words, message):
    code, out, err = roundwise(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "statements.csv"),
        ("name,a,b,above\n", "the table is empty"),
        ("a,b,above\n1,2,3\n", "line 1"),
        ("name,a,b\nx,1,2\n", "line 1"),
        ("name,a,b,above\nx,1,2\n", "line 2"),
        ("name,a,b,above\nx,1,y,0\n", "line 2"),
        ("name,a,b,c,above\nx,1,1,1,0\n", "coefficients"),
        ("name,a,b,above\nx,0,0,1\n", "'x'"),
    ],
)
def test_statements_that_cannot_be_used(roundwise, tmp_path, text, message):
    path = tmp_path / "statements.csv"
    path.write_text(text)
    code, _, err = roundwise("complexity", "-q", "statements", "--means", "1,2", "--file", path)
    assert code == 2
    assert message in err


class TestStart:
    HEAVY = {"scipy", "matplotlib", "duckdb", "sqlalchemy", "psycopg", "fastapi", "dask", "pandas"}
    HEAVY |= {"concurrent.futures.process"}

    def run(self, *words):
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)

    def test_import_is_light(self):
        out = self.run("-c", "import roundwise, sys; print(*sys.modules)").stdout.split()
        assert not self.HEAVY & set(out)
        assert "typer" not in out

    @pytest.mark.long
    def test_help_is_light_and_lists_the_commands(self):
        code = "import sys, roundwise.cli as c\nsys.argv = ['roundwise', '--help']\n"
        code += "try: c.main()\nexcept SystemExit: print('MODULES', *sys.modules)"
        out = self.run("-c", code).stdout
        page, modules = out.split("MODULES")
        assert not self.HEAVY & set(modules.split())
        for command in ("complexity", "simulate", "paper"):
            assert command in page

    def test_the_installed_command(self):
        out = self.run("-m", "roundwise", "--version").stdout
        assert out.strip() == __import__("roundwise").__version__
