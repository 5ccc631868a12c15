"""`roundwise bounds` on the command line."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from pathlib import Path

import pytest

import roundwise.cli.bounds  # noqa: F401 - registers the command
from roundwise import PET, Above, BestArm, Problem
from roundwise.noise import Gaussian
from roundwise.theory.bounds import overview


@pytest.fixture
def run(roundwise):
    return partial(roundwise, "bounds")


def test_bounds_side_by_side(run) -> None:
    code, out, err = run("--question", "best-arm", "--means", "0.01,0", "--runs", "50", "--gamma", "30")
    assert (code, err) == (0, "")
    found = overview(Problem(BestArm(), 2), [0.01, 0.0], gamma=30.0)
    rows = {re.split("  +", line.strip())[0]: line.split() for line in out.splitlines() if "  " in line}
    assert rows["any within the budget below, at least"][-1] == f"{found.expected_batches:.2f}"
    assert rows["PET, at most"][-1] == f"{found.upper.batches:.2f}"
    assert "as stated (Theorem 2.3)" in rows
    assert "as stated (Theorem 3.11)" in rows
    assert "PET in 50 runs" in out
    assert "2 batches or more with probability at least 0." in out
    assert "at most 30 times T* ln(1/delta) samples on average" in out


def test_json_is_the_overview(run) -> None:
    words = "-q above --level 0.5 --means 0.6,0.3 --sigma 0.5 --delta 0.01 --t-min 4 --json"
    code, out, _ = run(*words.split())
    plain = json.loads(out)
    assert code == 0
    # 2 sigma^2 (1/0.1^2 + 1/0.2^2) = 0.5 * 125
    assert plain["complexity"] == pytest.approx(62.5)
    assert plain["affine_scaling"] == {"centre": [0.5, 0.5], "spread": pytest.approx(0.2), "constant": 0.5}
    assert plain["promise"]["easiest"] == 4
    assert plain["promise"]["given"] is False
    assert plain["samples"]["lower"] == pytest.approx(62.5 * 0.98 * math.log(99))
    assert plain["estimable_complexity"] == pytest.approx(62.5 / (2 * math.tanh(0.25) ** 2))
    assert plain["hardest"] == pytest.approx([0.6 - plain["estimation_radius"], 0.3 + plain["estimation_radius"]])
    assert plain["measured"] is None
    ours = overview(Problem(Above(0.5), 2, 0.01, Gaussian(0.5)), [0.6, 0.3], PET(guess=4.0))
    assert plain["batches"]["upper"] == ours.upper.batches
    assert plain["settled_phase"] == ours.settled_phase


def test_a_vacuous_bound_says_why(run) -> None:
    _, out, _ = run("-q", "best-arm", "--means", "5,0")
    assert "says nothing here but 'at least one batch': T* = 0.32 is not above T_min = 1" in out
    _, out, _ = run("-q", "best-arm", "--means", "0.5,0", "--gamma", "0.1")
    assert "No algorithm with this delta needs so few samples" in out
    _, out, _ = run("-q", "best-arm", "--means", "1,0", "--t-min", "1000")
    assert "Theorem 3.11 as stated does not apply: T_0 is above T*_b." in out
    _, out, _ = run("-q", "best-arm", "--means", "0.01,0", "--gamma", "5", "--tail", "0.1")
    assert "with probability at least 0.9" in out
    assert "as stated (Lemma A.7)" in out


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "theorems"),
    [
        ("-q best-arm --means 0.1,0,0", {"Theorem 2.3", "Theorem 3.11"}),
        ("-q top-k --k 2 --means 0.2,0.1,0", {"Theorem 2.3", "Theorem 3.11"}),
        ("-q above --level 0.05 --means 0.1,0,0.2", {"Theorem 2.3", "Theorem 3.11"}),
        ("-q above --level 0.05 --means 0.1,0,0.2 --gamma 30 --tail 0.1", {"Lemma A.7", "Theorem 3.11"}),
        ("-q minimum-below --level 0.6 --means 0.5,0.6", set()),
        ("-q any-above --level 0.6 --means 0.5,0.4", set()),
        ("-q any-above --level 0.6 --means 0.5,0.4 --gamma 30 --tail 0.1", {"Lemma A.7"}),
        ("-q best-arm --means 0.3,0,0 --tolerance 0.1", set()),
        ("-q best-arm --means 0.3,0,0 --tolerance 0.1 --gamma 30 --tail 0.1", set()),
    ],
)
def test_as_stated_only_where_the_paper_states_it(run, words: str, theorems: set[str]) -> None:
    """Theorem 2.3: top-k and thresholding. Theorem 3.11 with T*_b = 8 T*: where it proves Assumption 3.9, the same."""
    code, out, _ = run(*words.split())
    assert code == 0
    assert set(re.findall(r"as stated \(([^)]*)\)", out)) == theorems
    plain = json.loads(run(*words.split(), "--json")[1])
    assert (plain["batches"]["lower_as_stated"] is not None) == bool(theorems)
    assert (plain["samples"]["upper_as_stated"] is not None) == ("Theorem 3.11" in theorems)


def test_a_point_where_a_number_does_not_serve(run, tmp_path: Path) -> None:
    table = tmp_path / "beats.csv"
    table.write_text("name,control,a,b,above\na beats control,-1,1,0,0.1\nb beats control,-1,0,1,0.1\n")
    _, out, _ = run("-q", "statements", "--file", str(table), "--means", "0.5,0.61,0.4")
    assert "Assumption 2.2 fails for a constant y" in out


@pytest.mark.long
@pytest.mark.parametrize("figure", ["batches", "trade-off", "sequence", "ball"])
def test_figures(run, tmp_path: Path, figure: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "figure.svg"
    code, out, _ = run(
        "-q", "best-arm", "--means", "0.2,0", "--runs", "20", "--plot", str(path), "--figure", figure
    )  # fmt: skip
    assert code == 0
    assert f"The figure is in {path}." in out
    text = path.read_text()
    words = {"batches": "PET, measured", "trade-off": "growth 32", "sequence": "instance 3: T* = 200"}
    assert (words | {"ball": "μ: T* = 200"})[figure] in text
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("-q", "best-arm", "--means", "1,1"),
            "means",
        ),
        (("-q", "best-arm", "--means", "1,0", "--runs", "-1"), "--runs"),
        (("-q", "best-arm", "--means", "1,0", "--t-min", "0"), "--t-min"),
        (("-q", "best-arm", "--means", "1,0", "--gamma", "-2"), "gamma"),
        (("-q", "best-arm", "--means", "1,0", "--tail", "0.1"), "A tail goes with a gamma"),
        (("-q", "best-arm", "--means", "1,0", "--figure", "batch"), "Did you mean 'batches'?"),
        (("-q", "best-arm", "--means", "1,0", "--plot", "x"), "call it for example x.svg"),
        (("-q", "best-arm", "--means", "9,0", "--plot", "x.svg"), "must be finite and above T_min = 1 for this figure"),
        (
            ("-q", "best-arm", "--means", "1,0,0", "--plot", "x.svg", "--figure", "sequence"),
            "arms",
        ),
        (
            ("-q", "best-arm", "--means", "1,0,0", "--plot", "x.svg", "--figure", "ball"),
            "arms",
        ),
    ],
)
def test_mistakes(run, words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("roundwise: ")
    assert sentence in err
    assert err.count("\n") == 1
