"""Extras: replays of the real data sets, which are no part of the project; without them all of these are skipped."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from roundwise import Above, AnyAbove, BestArm, TopK, TrackAndStop, simulate
from roundwise.environments import Replay

DATA = Path(__file__).parents[2] / "shared" / "data"

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not (DATA / "instances.csv").exists(), reason=f"the real data are not here: {DATA}"),
]


def test_replay_of_real_data():
    """As computed by others, mmlu_all28, top-5: the answer is right; T* is 5 798, by the law of 0/1 results 5 790."""
    table = Replay.from_csv(DATA / "mmlu_pro_models.csv", "mmlu_all28")
    (runs,) = simulate(TopK(5), table, [TrackAndStop()], runs=20)
    assert runs.correct.all()
    assert runs.complexity[0] == pytest.approx(5790, rel=1e-3)


def load_instances():
    with (DATA / "instances.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["K"]) <= 300]
    needed = {(row["file"], row["instance"]) for row in rows}
    sums = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for name in {row["file"] for row in rows}:
        with (DATA / name).open(encoding="utf-8") as file:
            for line in csv.DictReader(file):
                if (name, line["instance"]) in needed:
                    entry = sums[name, line["instance"]][line["arm"]]
                    entry[0] += int(line["count"])
                    entry[1] += int(line["count"]) * float(line["outcome"])
    return rows, sums


def test_real_instances():
    # instances.csv: T* to four digits and the answer, computed by others from the same tables
    rows, sums = load_instances()
    seen = defaultdict(int)
    for row in rows:
        arms = sums[row["file"], row["instance"]]
        names = list(arms)
        means = np.array([value / count for count, value in arms.values()])
        assert len(means) == int(row["K"])
        asked = row["question"]
        question = {
            "best arm": lambda row: BestArm(),
            "top-k": lambda row: TopK(int(float(row["param"]))),
            "threshold": lambda row: Above(float(row["param"])),
            "any-above": lambda row: AnyAbove(float(row["param"])),
        }[asked](row)
        value = question.complexity(means, sigma=float(row["sigma"])).value
        assert value == pytest.approx(float(row["T_star"]), rel=6e-4), row
        answer, expected = question.answer(means), row["answer"]
        if asked == "best arm":
            assert names[int(answer)] == expected, row
        elif asked == "any-above":
            assert ("yes" if answer else "no") == expected, row
        else:
            chosen = {names[i] for i in np.flatnonzero(answer)}
            count, _, listed = expected.rpartition(" above: ")
            listed = listed.split(" | ")
            assert not count or int(count) == len(chosen), row
            assert chosen >= set(listed) - {"..."}, row
            assert "..." in listed or len(listed) == len(chosen), row
        seen[asked] += 1
    assert set(seen) == {"best arm", "top-k", "threshold", "any-above"}
    assert sum(seen.values()) > 80
