"""The arena: contests, entrants, standings, the page, one's own policy."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from commands import shell
from roundwise import PET, BestArm, DataError, GaussianArms, RoundRobin, Wager, simulate
from roundwise.arena import run_arena
from roundwise.arena.contests import entrants, fixed, own, replayed
from roundwise.arena.page import docs_page, html_page
from roundwise.arena.ranking import advice, standings
from roundwise.arena.run import match_entrants

ROW = {
    "contest": "c",
    "source": "fixed",
    "question": "best-arm",
    "entrant": "Wager",
    "sequential": False,
    "guarantee": True,
    "arms": 2,
    "budget": 1000.0,
    "near_tie": False,
    "undecided": 0.0,
    "samples_mean": 200.0,
    "samples_over_lower_bound": 2.0,
    "batches_mean": 4.0,
    "error": 0.0,
    "runs": 100,
    "delta": 0.05,
    "true": None,
    "ms_a_run": 1.0,
    "lower_bound_for": "these rewards",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(tmp_path):
    """A folder as the command reads it: three tests, one of them a near-tie."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "instances.csv").write_text(
        "file,instance,question,param,n_total\n"
        "clicks.csv,easy,best arm,,3000\nclicks.csv,easy,top-k,2,3000\nclicks.csv,easy,threshold,0.4,3000\n"
        "clicks.csv,easy,any-above,0.9,3000\nclicks.csv,tie,best arm,,3000\n"
    )
    rows = [("easy", arm, ones) for arm, ones in zip("abc", (800, 500, 100), strict=True)]
    rows += [("tie", "a", 5000), ("tie", "b", 5001)]
    lines = ["instance,arm,outcome,count"]
    for name, arm, ones in rows:
        lines += [f"{name},{arm},1,{ones}", f"{name},{arm},0,{(1000 if name == 'easy' else 10_000) - ones}"]
    (folder / "clicks.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_fixed_contests():
    """The lower bounds of the paper's and our instances, as `complexity` and `lower_bound_at` have them."""
    found = {each.name: each for each in fixed()}
    assert {each.question for each in found.values()} == {
        "best-arm", "top-k", "above", "any-above", "minimum-below", "statements", "claims"
    }  # fmt: skip
    assert found["2 arms, gap 0.1"].lower_bound == pytest.approx(2120, abs=1)  # 800 kl(.05, .95)
    assert found["10 arms, one close rival"].gap == pytest.approx(0.1)
    assert [each.name for each in found.values() if each.near_tie] == ["2 arms, a near-tie: gap 0.002"]
    assert found["a dose trial: 600 patients, 4 doses against placebo"].true_claims == 3


def test_contests_of_data(data):
    found = {each.name: each for each in replayed(data)}
    assert {name: each.question for name, each in found.items()} == {
        "easy: best arm": "best-arm",
        "easy: what beats the first": "claims",
        "easy: top-k 2": "top-k",
        "easy: threshold 0.4": "above",
        "easy: any-above 0.9": "any-above",
        "tie: best arm": "best-arm",
        "tie: what beats the first": "claims",
    }
    assert found["tie: best arm"].near_tie
    assert found["easy: what beats the first"].budget == 3000
    assert found["easy: best arm"].gap == pytest.approx(0.3)
    assert [each.name for each in replayed(data, max_arms=2)] == ["tie: best arm", "tie: what beats the first"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("easy,best arm", "easy,best arms", "line 2"),
        ("easy,top-k,2", "easy,top-k,many", "line 3"),
        ("clicks.csv,tie", "../clicks.csv,tie", "line 6"),
        ("clicks.csv,tie", "nothing.csv,tie", "data/nothing.csv. Check the name"),
    ],
)
def test_data_that_cannot_be_used(data, old, new, sentence):
    table = data / "instances.csv"
    table.write_text(table.read_text().replace(old, new, 1))
    with pytest.raises(DataError) as error:
        replayed(data)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("contest = 1", "has tables [[contest]] and nothing else"),
        ("[[contest]]\nname = 'x'", "question"),
        ("[[contest]]\nquestion = {name='best-arm'}\ninstance = 3", "instance"),
        ("[[contest]", "file"),
    ],
)
def test_own_contests_that_cannot_be_used(tmp_path, text, sentence):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(DataError) as error:
        own(tmp_path / "own.toml")
    assert sentence in str(error.value)


def test_everybody_takes_part_or_is_told_why():
    draw = match_entrants(fixed(), entrants(), 10, 1)
    told = {name for who in draw.refused.values() for name in who}
    for entrant in entrants():
        assert any(entry.entrant is entrant for entry in draw.entries), entrant.name
    assert {"Conditional power", "Jin 2019", "Tri-BBAI"} <= told


class TestStandings:
    def test_means_are_geometric_and_near_ties_do_not_count(self):
        rows = [
            ROW,
            ROW | {"contest": "d", "samples_over_lower_bound": 8.0, "batches_mean": 9.0},
            ROW | {"contest": "tie", "near_tie": True, "undecided": 0.9, "samples_over_lower_bound": None},
        ]
        (found,) = standings(rows)
        assert (found.contests, found.decided, found.runs) == (2, 2, 300)
        assert (found.over_bound, found.batches) == (pytest.approx(4.0), pytest.approx(6.0))

    def test_others_are_compared_with_wager_where_both_decide(self):
        rows = [
            ROW,
            ROW | {"contest": "d", "samples_mean": 100.0},
            ROW | {"entrant": "PET", "samples_mean": 2000.0, "samples_over_lower_bound": 20.0},
            ROW | {"entrant": "PET", "contest": "d", "undecided": 0.5, "samples_over_lower_bound": None},
        ]
        wager, pet = standings(rows)
        assert (pet.over_wager, pet.decided, wager.over_wager) == (pytest.approx(10.0), 1, pytest.approx(1.0))

    def test_whoever_is_wrong_too_often_is_last_and_not_recommended(self):
        rows = [ROW, ROW | {"entrant": "Bold", "samples_over_lower_bound": 0.1, "error": 0.2}]
        found = standings(rows)
        assert [each.broken for each in found] == [False, True]
        (words,) = advice(found)
        assert "Fewest results: Wager, 2.0 times the lower bound in 4.0 batches." in words
        assert "Wrong more often than allowed: Bold." in words

    def test_claims_are_by_what_was_shown(self):
        (found,) = standings(
            [
                ROW
                | {
                    "question": "claims",
                    "entrant": "Conditional power",
                    "true": 4,
                    "true_shown_mean": 3.0,
                    "error": 0.01,
                }
            ]
        )
        assert found.shown == pytest.approx(0.75)
        (words,) = advice([found])
        assert "showed 75 % of the true claims within the budgets of 1 contest, and a false one in 1 of 100" in words

    def test_names_in_the_page_are_text(self):
        page = html_page([ROW | {"contest": "<script>alert(1)</script>"}], {"<b>": ["<i>"]}, "<u>")
        assert "<script>alert" not in page
        assert "<b>" not in page.replace("<body>", "")
        assert "<i>" not in page
        assert "<u>" not in page
        assert "](figures/x.svg)" in docs_page([ROW], "about", "command", "figures/x.svg")


@pytest.mark.long
def test_the_command(here, data):
    import duckdb

    words = ("arena", "--runs", "4", "--workers", "1", "--only", "easy", "--data", data, "--docs", here / "docs")
    first = shell(*words, "--json")
    assert (first.returncode, first.stderr) == (0, "")
    rows = json.loads(first.stdout)["rows"]
    assert {row["question"] for row in rows} == {"best-arm", "top-k", "above", "any-above", "claims"}
    cells = sorted((here / "results" / "arena" / "cells").iterdir())
    before = [path.stat().st_mtime_ns for path in cells]
    again = shell(*words)
    assert "Which is best? Fewest results: " in again.stdout
    assert [path.stat().st_mtime_ns for path in cells] == before  # resumed: nothing was run again
    frame = pd.read_parquet("results/arena/arena.parquet")
    assert len(frame) == len(rows)
    assert len(pd.read_parquet("results/arena/cells")) == sum(row["runs"] for row in rows)
    best = duckdb.sql(
        "select entrant, avg(samples_over_lower_bound) from 'results/arena/arena.parquet' group by entrant order by 2"
    ).fetchall()
    assert len(best) == frame.entrant.nunique()
    page = (here / "results" / "arena" / "arena.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "").replace("https://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "").replace("https://matplotlib.org", "")
    assert (here / "docs" / "arena.md").read_text().startswith("# The arena")
    assert (here / "docs" / "figures" / "arena.svg").exists()


@pytest.mark.long
def test_the_numbers_are_those_of_simulate(here):
    """The same seed, question, world and budget: what the arena says of PET and Wager is what `simulate` says."""
    found = shell("arena", "--runs", "6", "--workers", "1", "--only", "2 arms, gap 0.1", "--json")
    rows = {row["entrant"]: row for row in json.loads(found.stdout)["rows"]}
    budget = math.ceil(400 * float(rows["PET"]["sample_lower_bound"]))
    alone = simulate(BestArm(), GaussianArms([0.1, 0.0]), [PET(), Wager()], runs=6, budget=budget)
    for name, runs in zip(("PET", "Wager"), alone, strict=True):
        assert rows[name]["samples_mean"] == np.mean(runs.samples)


@pytest.mark.long
def test_a_policy_of_ones_own(here):
    """The recipe of docs/own.md takes part beside all others."""
    (here / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from roundwise.policies import RoundRobin\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Patient(RoundRobin):\n"
        "    first_time: float = 400.0\n"
        "    name = 'patient'\n"
    )
    words = ("arena", "--runs", "2", "--workers", "1", "--only", "top 2", "--policy")
    found = shell(*words, "mine:Patient", "--json")
    assert found.returncode == 0, found.stderr
    assert "mine:Patient" in {row["entrant"] for row in json.loads(found.stdout)["rows"]}
    wrong = shell(*words, "mine:Nobody")
    assert wrong.returncode == 2
    assert "Nobody" in wrong.stderr


@pytest.mark.long
def test_the_arena_from_python(tmp_path):
    contests = [each for each in fixed() if each.problem.arms <= 5][:1]
    found = run_arena(tmp_path, contests=contests, policies={"mine": RoundRobin(first_time=100.0)}, runs=2)
    assert {"mine", "Wager"} <= {row["entrant"] for row in found.rows}
    assert {each.entrant for each in found.standings} == {row["entrant"] for row in found.rows}
    assert "Conditional power" in [who for names in found.refused.values() for who in names]
