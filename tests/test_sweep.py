"""Sweeps: the cells of a file, each stored whole and once, whatever interrupts."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from roundwise import PET, BestArm, DataError, GaussianArms, TopK, simulate
from roundwise.environments import RandomGaps
from roundwise.model.spec import to_spec
from roundwise.render.svg import merge_legends
from roundwise.simulation.sweep import is_finished, read_grid, relabel, run_cells, run_sweep, summary_row
from roundwise.simulation.tables import write_csv
from roundwise.theory.figures.sweep import draw_problems, draw_sweep

duckdb = pytest.importorskip("duckdb")

SMALL = """
runs = 60
delta = [0.1, 0.01]
seed = 3

[[question]]
name = "best-arm"

[[question]]
name = "top-k"
k = 2

[[instance]]
name = "fixed"
means = [1.0, 0.5, 0.0]

[[instance]]
random = { arms = 4, low = 0.0, high = 0.5 }
sigma = [1, 2]

[[policy]]
name = "pet"
guess = 4

[[policy]]
name = "track-and-stop"
threshold = "pairwise"
"""

# long enough to be interrupted: blocks of 1000 runs, a cell every tenth of a second or so
LONG = """
runs = 5000
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
[[question]]
name = "best-arm"
[[instance]]
random = { arms = 10 }
[[policy]]
name = "track-and-stop"
"""

COMMAND = [
    sys.executable,
    "-W",
    "error",
    "-c",
    "import roundwise.cli.simulate as s; from roundwise.cli import main; main()",
]


def write(folder, text=SMALL, name="study.toml"):
    path = folder / name
    path.write_text(text)
    return path


def cells_in(folder):
    return sorted((folder / "cells").glob("*"))


@pytest.fixture
def sweep(roundwise):
    return partial(roundwise, "sweep")


class TestGrid:
    def test_every_combination_once(self, tmp_path):
        grid = read_grid(write(tmp_path))
        assert len(grid.cells) == 2 * (1 + 2) * 2 * 2
        assert len({cell.digest for cell in grid.cells}) == 24
        first = grid.cells[0]
        assert first.labels == {
            "question": "best-arm", "instance": "fixed", "noise": "gaussian:sigma=1", "policy": "pet:guess=4",
            "delta": 0.1, "seed": 3,
        }  # fmt: skip
        assert {cell.instance for cell in grid.cells} == {"fixed", "4 random arms", "4 random arms, sigma 2"}
        assert {type(cell.problem.question) for cell in grid.cells} == {BestArm, TopK}

    def test_names_order_and_ways_to_write_a_number_do_not_matter(self, tmp_path):
        other = SMALL.replace('"fixed"', '"named otherwise"').replace("guess = 4", "guess = 4.0")
        other = other.replace("[0.1, 0.01]", "[0.01, 0.1, 0.1]").replace(
            "means = [1.0, 0.5, 0.0]", "means = [1, 0.5, 0]"
        )
        one, two = (read_grid(write(tmp_path, text)) for text in (SMALL, other))
        assert {cell.digest for cell in one.cells} == {cell.digest for cell in two.cells}

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("seed = 3", "seed = 4"),
            ("runs = 60", "runs = 61"),
            ("[0.1, 0.01]", "[0.2, 0.02]"),
            ("seed = 3", "seed = 3\nmax_samples = 1e6"),
            ("0.5, 0.0]", "0.5, 0.1]"),
        ],
    )
    def test_contents_do(self, tmp_path, old, new):
        one, two = (read_grid(write(tmp_path, text)) for text in (SMALL, SMALL.replace(old, new)))
        fixed = [{c.digest for c in grid.cells if c.instance == "fixed"} for grid in (one, two)]
        assert not fixed[0] & fixed[1]

    def test_data_is_known_by_its_contents(self, tmp_path):
        text = (
            'runs = 10\n[[question]]\nname = "best-arm"\n[[policy]]\nname = "wager"\n'
            '[[instance]]\ndata = "t.csv"\ninstance = "a"\n'
        )
        table = "instance,arm,outcome,count\na,x,0,5\na,x,1,5\na,y,0,1\na,y,1,9\n"
        (tmp_path / "t.csv").write_text(table)
        (one,) = read_grid(write(tmp_path, text)).cells
        (tmp_path / "t.csv").write_text(table.replace("y,1,9", "y,1,8"))
        (two,) = read_grid(write(tmp_path, text)).cells
        assert one.instance == "t, a"
        assert one.digest != two.digest
        run_cells([one], tmp_path)
        assert summary_row(one, tmp_path)["runs"] == 10

    def test_rewards_and_what_is_assumed(self, tmp_path):
        text = (
            'sigma = [1, 2]\n[[question]]\nname = "best-arm"\n[[policy]]\nname = "wager"\n'
            '[[instance]]\nmeans = [0.2, 0.1]\nrewards = "binary"\n'
            '[[instance]]\nmeans = [2, 1]\nrewards = "poisson"\n[[instance]]\nmeans = [2, 1]\n'
        )
        plain = read_grid(write(tmp_path, text)).cells
        assert [cell.labels["noise"] for cell in plain] == ["binary", "poisson", "gaussian:sigma=1", "gaussian:sigma=2"]
        told = read_grid(write(tmp_path, text + '[[noise]]\nname = "sub-gaussian"\n[[noise]]\nname = "binary"\n')).cells
        assert len(told) == 8
        assert told[0].labels["noise"] == "sub-gaussian:sigma=0.5"

    def test_what_a_policy_cannot_do_is_left_out_and_said(self, tmp_path):
        grid = read_grid(write(tmp_path, SMALL.replace('"track-and-stop"\nthreshold = "pairwise"', '"opt-bbai"')))
        assert len(grid.cells) == 12 + 6
        assert grid.impossible == ["opt-bbai on top-k:k=2: The policy 'opt-bbai' answers 'best-arm' only, not 'top-k'."]

    def test_what_cannot_be_asked_of_an_instance_is_left_out_and_said(self, tmp_path):
        grid = read_grid(write(tmp_path, SMALL.replace("k = 2", "k = 3")))
        assert len(grid.cells) == 24 - 4
        assert grid.impossible == ["top-k:k=3 on fixed: `k` is 3, but must be below the number of arms, which is 3."]

    def test_nothing_that_can_be_asked(self, tmp_path):
        only = SMALL.replace('[[question]]\nname = "best-arm"\n', "").replace("k = 2", "k = 4")
        with pytest.raises(DataError, match="fixed"):
            read_grid(write(tmp_path, only))

    def test_different_things_are_called_differently(self, tmp_path):
        text = SMALL + "[[instance]]\nrandom = { arms = 4, low = 0.1, high = 0.5 }\n"
        for level in (0, 1):
            text += f'[[question]]\nname = "statements"\nforms = [[1, 0, 0], [0, 1, 0]]\nlevels = [{level}, 0.2]\n'
        cells = read_grid(write(tmp_path, text)).cells
        problems = {(cell.question, cell.instance): to_spec(cell.problem.question) | cell.world for cell in cells}
        assert {name for _, name in problems} == {
            "fixed", "4 random arms", "4 random arms, sigma 2", "4 random arms (2)"
        }  # fmt: skip
        assert {asked for asked, _ in problems} == {"best-arm", "top-k:k=2", "statements", "statements (2)"}
        assert len({json.dumps(each) for each in problems.values()}) == len(problems)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("runs = 60", "runs = ", "line 2"),
            (
                "runs = 60",
                "rums = 60",
                "'rums'.*'runs'",
            ),
            ("runs = 60", "runs = 1.5", "runs"),
            ("runs = 60", 'runs = "many"', '`runs` is "many"'),
            ("runs = 60", "runs = []", "runs"),
            ("seed = 3", "seed = -3", "`seed` is -3"),
            ("seed = 3", "seed = 9223372036854775808", "seed"),
            ("seed = 3", "max_samples = 0", "`max_samples` is 0"),
            ("seed = 3", "max_samples = [10, 20]", "max_samples"),
            ("seed = 3", "max_batches = [10]", "`max_batches` is a list"),
            ("seed = 3", "max_batches = 0.5", "max_batches"),
            ("seed = 3", "max_batches = 1.5", "max_batches"),
            ("seed = 3", "max_batches = inf", "max_batches"),
            ("runs = 60", "runs = 1000000000000000", "runs"),
            ("runs = 60", f"runs = 1{'0' * 400}", "runs"),
            ("[0.1, 0.01]", f"1{'0' * 400}", "`delta` is 1000"),
            ('name = "fixed"', 'name = ["x"]', "name"),
            ('name = "fixed"', "name = 3", "name"),
            ("[0.1, 0.01]", "5", "For 5 % write 0.05"),
            ('"pet"', '"pat"', "'pat'.*'pet'"),
            ("guess = 4", "gues = 4", "'pet'.*'gues'"),
            ('"pairwise"', '"pairs"', "'pairs'"),
            (
                '"best-arm"',
                '"best"',
                "'best'.*'best-arm'",
            ),
            ("k = 2", "", "'top-k'"),
            ("k = 2", 'k = "two"', "'two'"),
            ('"top-k"\nk = 2', '"statements"', "forms"),
            ('"top-k"\nk = 2', '"statements"\nforms = "a"\nlevels = [1]', "forms"),
            ('"top-k"\nk = 2', '"statements"\nforms = [[1, 2], [1]]\nlevels = [1, 2]', "lists of equally many"),
            (
                '"top-k"\nk = 2',
                '"largest"\nforms = [[1, 2, 0], [1, 0, 0]]\nnames = 3',
                "names",
            ),
            ("guess = 4", 'guess = "a"', "guess"),
            ("guess = 4", "stopping = 4", "'pet'.*'stopping'"),
            ('"pairwise"', "3", "'3'"),
            ('"track-and-stop"', '"wager"', "'wager'.*'threshold'"),
            ("means =", "mean =", "'mean'"),
            ("means =", "random = {}\nmeans =", "means.*random"),
            ("[1.0, 0.5, 0.0]", '[1.0, "b"]', "means"),
            ("low = 0.0", "lo = 0.0", "'lo'.*'low'"),
            ("sigma = [1, 2]", "sigma = [1, -2]", "sigma"),
            ("sigma = [1, 2]", 'rewards = "binari"', "Did you mean 'binary'"),
            ("sigma = [1, 2]", "replacement = true", "`replacement` goes with `data`"),
            ('name = "fixed"\nmeans = [1.0, 0.5, 0.0]', 'data = "none.csv"', "file"),
        ],
    )
    def test_mistakes(self, tmp_path, old, new, message):
        assert old in SMALL
        with pytest.raises(DataError, match=message) as found:
            read_grid(write(tmp_path, SMALL.replace(old, new, 1)))
        assert str(found.value).startswith(str(tmp_path))

    @pytest.mark.parametrize("table", ["question", "instance", "policy"])
    def test_a_missing_table(self, tmp_path, table):
        with pytest.raises(DataError, match=rf"needs at least one table \[\[{table}\]\]"):
            read_grid(write(tmp_path, _without(table)))


def _without(table):
    tables = {
        "question": '[[question]]\nname = "best-arm"\n',
        "instance": "[[instance]]\nmeans = [1, 0]\n",
        "policy": '[[policy]]\nname = "pet"\n',
    }
    return "".join(text for name, text in tables.items() if name != table)


def _columns(folder):
    with duckdb.connect() as connection:
        pattern = str((folder / "cells") / "*.parquet")
        return connection.execute("select * from read_parquet(?) order by cell, run", [pattern]).fetchnumpy()


class TestCells:
    def test_a_cell_holds_the_runs_of_simulate(self, tmp_path):
        cell = read_grid(write(tmp_path)).cells[-4]
        assert cell.instance.endswith("sigma 2")
        run_cells([cell], tmp_path)
        (alone,) = simulate(
            TopK(2), GaussianArms(RandomGaps(4, low=0, high=0.5), 2.0), [PET(guess=4)], runs=60, delta=0.1, seed=3
        )
        (path,) = cells_in(tmp_path)
        with duckdb.connect() as connection:
            found = connection.execute("select * from read_parquet(?) order by run", [str(path)]).fetchnumpy()
        np.testing.assert_array_equal(found["samples"], alone.samples)
        np.testing.assert_array_equal(found["complexity"], alone.complexity)
        assert set(found["policy"]) == {"pet:guess=4"}
        row = summary_row(cell, tmp_path)
        assert row["samples_mean"] == alone.summary.samples_mean
        assert row["error_upper_95"] == alone.summary.error_upper_95
        np.testing.assert_array_equal(found["lower_bound"], alone.lower_bound)
        assert row["samples_over_lower_bound"] == pytest.approx((alone.samples / alone.lower_bound).mean(), rel=1e-12)

    def test_a_cell_that_is_finished_twice_is_stored_once(self, tmp_path):
        cells = read_grid(write(tmp_path)).cells[:2]
        run_cells(cells, tmp_path)
        before = summary_row(cells[0], tmp_path)
        run_cells(cells, tmp_path)
        assert len(cells_in(tmp_path)) == 2
        assert summary_row(cells[0], tmp_path) == before

    @pytest.mark.long
    def test_all_cells_are_one_table(self, tmp_path):
        cells = read_grid(write(tmp_path)).cells
        run_cells(cells, tmp_path, workers=2)
        with duckdb.connect() as connection:
            pattern = str((tmp_path / "cells") / "*.parquet")
            found = connection.execute(
                "select count(*), count(distinct cell) from read_parquet(?)", [pattern]
            ).fetchone()
        assert found == (24 * 60, 24)

    def test_blocks_are_not_counted_in_memory(self, tmp_path):
        (cell,) = read_grid(write(tmp_path, _without(""))).cells
        many = dataclasses.replace(cell, runs=10**15)

        def stop(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_cells([many, many], tmp_path, progress=stop)

    def test_blocks_find_their_cells(self, tmp_path):
        cells = [
            dataclasses.replace(cell, runs=runs)
            for cell, runs in zip(read_grid(write(tmp_path)).cells, (1, 1000, 1001, 2500), strict=False)
        ]
        run_cells(cells, tmp_path, workers=2)
        assert [summary_row(cell, tmp_path)["runs"] for cell in cells] == [1, 1000, 1001, 2500]

    def test_a_new_name_is_written_into_the_cell(self, tmp_path):
        (old,) = read_grid(write(tmp_path, _without(""))).cells
        run_cells([old], tmp_path)
        before = _columns(tmp_path)
        new = dataclasses.replace(old, instance="named otherwise")
        relabel(new, tmp_path)
        after = _columns(tmp_path)
        assert list(after) == list(before)
        assert set(after.pop("instance")) == {"named otherwise"}
        for key, column in after.items():
            np.testing.assert_array_equal(column, before[key])
            assert column.dtype == before[key].dtype
        (path,) = cells_in(tmp_path)
        time_of_writing = path.stat().st_mtime_ns
        relabel(new, tmp_path)
        assert path.stat().st_mtime_ns == time_of_writing
        assert not list(tmp_path.glob(".unfinished-*"))

    def test_a_damaged_cell_is_said(self, tmp_path):
        cell = read_grid(write(tmp_path)).cells[0]
        run_cells([cell], tmp_path)
        cells_in(tmp_path)[0].write_bytes(b"PAR1")
        with pytest.raises(DataError, match="cannot be read as a cell; delete it"):
            summary_row(cell, tmp_path)

    def test_what_a_killed_sweep_left_is_removed_later(self, tmp_path):
        old, new = tmp_path / ".unfinished-old", tmp_path / ".unfinished-new"
        for folder in (old, new):
            folder.mkdir()
        os.utime(old, (0, 0))
        run_cells([], tmp_path)
        assert (old.exists(), new.exists()) == (False, True)


class TestCommand:
    @pytest.mark.long
    def test_table_figure_and_resuming(self, sweep, tmp_path):
        file, out = write(tmp_path), tmp_path / "out"
        code, text, err = sweep(file, "--out", out)
        assert (code, err) == (0, "")
        assert "24 cells, 0 of them from before" in text
        assert "pet:guess=4" in text
        assert {path.name for path in out.iterdir()} == {"cells", "summary.csv", "figure-sweep.svg"}
        assert len((out / "summary.csv").read_text().splitlines()) == 25
        times = {path: path.stat().st_mtime_ns for path in cells_in(out)}
        code, text, _ = sweep(file, "--out", out, "--json")
        found = json.loads(text)
        assert (code, found["computed"], found["already_stored"], len(found["cells"])) == (0, 0, 24, 24)
        assert {path: path.stat().st_mtime_ns for path in cells_in(out)} == times

    @pytest.mark.long
    def test_one_delta_undecided_runs_and_impossible_cells(self, sweep, tmp_path):
        text = SMALL.replace("[0.1, 0.01]", "0.1\nmax_samples = 2000").replace("track-and-stop", "opt-bbai")
        code, out, err = sweep(write(tmp_path, text.replace('threshold = "pairwise"', "")), "--out", tmp_path / "out")
        assert code == 0
        assert "Undecided runs reached a limit" in out
        assert err.startswith("Cannot be run, left out: opt-bbai on top-k")

    @pytest.mark.long
    def test_nothing_to_draw(self, sweep, tmp_path):
        out = tmp_path / "out"
        out.mkdir()
        (out / "figure-sweep.svg").touch()  # of an earlier sweep
        text = SMALL.replace("[0.1, 0.01]", "0.1\nmax_samples = 2")
        code, said, _ = sweep(write(tmp_path, text), "--out", out)
        assert code == 0
        assert "No figure: 12 of 12 cells are left out: they have undecided runs" in said
        assert not list(out.glob("figure-sweep.*"))
        plain = json.loads(sweep(write(tmp_path, text), "--out", out, "--json")[1])
        assert len(plain["files"]) == 1
        assert {row["samples_over_lower_bound"] for row in plain["cells"]} == {None}

    def test_a_tolerance_has_its_own_bound(self, sweep, tmp_path):
        """What is stored with each run, not what would follow from the complexity alone."""
        text = """
            runs = 20
            [[question]]
            name = "best-arm"
            tolerance = 0.1
            [[instance]]
            means = [0.01, 0.0]
            [[policy]]
            name = "round-robin"
        """
        (row,) = json.loads(sweep(write(tmp_path, text), "--out", tmp_path / "out", "--json")[1])["cells"]
        assert row["sample_lower_bound"] == pytest.approx(604.899, rel=1e-5)
        assert row["samples_over_lower_bound"] == pytest.approx(row["samples_mean"] / 604.899, rel=1e-5)

    @pytest.mark.long
    def test_swapped_names_are_swapped_everywhere(self, sweep, tmp_path):
        one, other = "[[instance]]\nname = 'A'\nmeans = [1, 0]\n", "[[instance]]\nname = 'B'\nmeans = [9, 0]\n"
        rest, out = _without("instance"), tmp_path / "out"
        sweep(write(tmp_path, "runs = 20\n" + rest + one + other), "--out", out)
        swapped = (one + other).replace("'A'", "'C'").replace("'B'", "'A'").replace("'C'", "'B'")
        code, text, _ = sweep(write(tmp_path, "runs = 20\n" + rest + swapped), "--out", out, "--json")
        found = json.loads(text)
        assert (code, found["computed"]) == (0, 0)
        stored = _columns(out)
        assert dict(zip(stored["cell"], stored["instance"], strict=True)) == {
            row["cell"]: row["instance"] for row in found["cells"]
        }
        assert [row["instance"] for row in found["cells"]] == ["B", "A"]

    @pytest.mark.long
    @pytest.mark.parametrize("width", [80, 160])
    def test_names_are_not_broken(self, sweep, tmp_path, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", str(width))
        text = SMALL.replace('"top-k"\nk = 2', '"above"\nlevel = 0.45') + '[[policy]]\nname = "wager"\n'
        code, out, _ = sweep(write(tmp_path, text), "--out", tmp_path / "out")
        table = out[: out.index("36 cells")]
        assert code == 0
        assert max(len(line) for line in table.splitlines()) <= width
        for name, times in {"above:level=0.45": 1, "wager": 12, "threshold=pairwise": 12, "pet:guess=4": 12}.items():
            assert table.count(name) >= times
        assert "undecided" not in table

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["none.toml"], "none.toml: cannot be read"),
            (["--workers", "0"], "`workers` is 0"),
            (["--workers", "2", "--cluster", "127.0.0.1:9"], "either `workers` or `cluster`"),
            (["--cluster", "nonsense"], "neither an address"),
        ],
    )
    def test_mistakes_are_one_sentence(self, sweep, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        if "nonsense" in words:
            pytest.importorskip("distributed")
        file = [] if words[0].endswith("toml") else [write(tmp_path)]
        code, out, err = sweep(*file, *words)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


class TestInterruption:
    @pytest.mark.long
    @pytest.mark.parametrize(("blow", "workers"), [(signal.SIGKILL, 1), (signal.SIGINT, 2)])
    def test_only_whole_cells_are_left_and_the_sweep_goes_on(self, sweep, tmp_path, blow, workers):
        file, out = write(tmp_path, LONG), tmp_path / "out"
        grid = read_grid(file)
        process = subprocess.Popen(
            [*COMMAND, "sweep", file, "--out", out, "--workers", str(workers)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background job would ignore it
        )  # fmt: skip
        while len(cells_in(out)) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(blow)
        _, err = process.communicate()
        assert process.returncode == (-signal.SIGKILL if blow == signal.SIGKILL else 130)
        left = [cell for cell in grid.cells if is_finished(cell, out)]
        said = f"Interrupted: {len(left)} of 20 cells are stored; run the same command to resume.\n"
        assert err == ("" if blow == signal.SIGKILL else said)
        assert 2 <= len(left) == len(cells_in(out)) < 20
        rows = [summary_row(cell, out) for cell in left]
        assert all(row["runs"] == 5000 for row in rows)
        times = {path: path.stat().st_mtime_ns for path in cells_in(out)}
        code, text, _ = sweep(file, "--out", out, "--json")
        found = json.loads(text)
        assert (code, found["already_stored"], found["computed"]) == (0, len(left), 20 - len(left))
        assert [row for row in found["cells"] if row["cell"] in {each["cell"] for each in rows}] == rows
        assert {path: path.stat().st_mtime_ns for path in times} == times


def rows_of(problems=1, deltas=(0.1, 0.01), seeds=(1,), runs=(100,), policies=("pet", "wager"), **other):
    return [
        {
            "question": "best-arm", "instance": f"instance {i}", "noise": "binary", "policy": policy, "delta": delta,
            "seed": seed, "runs": number, "undecided": 0.0, "sample_lower_bound": 100.0, "batches_mean": 3.0,
            "samples_over_lower_bound": 2.0 + i,
        } | other
        for i in range(problems) for policy in policies for delta in deltas for seed in seeds for number in runs
    ]  # fmt: skip


class TestFigure:
    @pytest.mark.parametrize("problems", [1, 4, 15, 24])
    def test_a_chart_for_each_problem(self, problems):
        charts = draw_problems(rows_of(problems))
        assert [each.title for each in charts] == [f"best-arm\ninstance {i}" for i in range(problems)]
        assert {tuple(words for words, _, _ in merge_legends([each])) for each in charts} == {("pet", "wager")}

    def test_more_charts_than_can_be_read(self, tmp_path):
        (path,), left_out = draw_sweep(rows_of(30), tmp_path)
        assert left_out == [
            "the first 24 of 30 problems are drawn, the other 6 are left out; summary.csv and cells have all"
        ]
        assert "The first 24 of 30 problems are drawn" in path.read_text()

    def test_runs_and_seeds_are_not_joined(self):
        (chart,) = draw_problems(rows_of(seeds=(1, 2, 3), runs=(10, 20)))
        lines = re.findall(r'<polyline class="line s\d" points="([^"]*)"', "".join(chart.parts))
        assert len(lines) == 2 * 3 * 2
        assert all(len(each.split()) == 2 for each in lines)

    def test_delta_falls_to_the_right(self):
        (chart,) = draw_problems(rows_of())
        assert chart.x.place(0.1) < chart.x.place(0.01)

    def test_the_assumed_noise_is_in_the_title_where_it_varies(self):
        rows = rows_of() + rows_of(noise="sub-gaussian:sigma=1")
        lines = [each.title.splitlines()[-1] for each in draw_problems(rows)]
        assert lines == ["assumed binary", "assumed sub-gaussian:sigma=1"]

    def test_the_heading_says_why_cells_are_left_out(self, tmp_path):
        rows = rows_of() + rows_of(undecided=0.1) + rows_of(sample_lower_bound=0.0, samples_over_lower_bound=None)[:1]
        (path,), _ = draw_sweep(rows, tmp_path)
        assert "4 of 9 cells are left out: they have undecided runs, so their mean is cut off" in path.read_text()
        assert "1 of 9 cells are left out: their lower bound is 0 or infinite" in path.read_text()

    def test_forty_policies_look_different(self):
        (chart,) = draw_problems(rows_of(policies=[f"policy {i}" for i in range(40)]))
        assert len({look[1:] for look in chart.legend}) == 40

    def test_a_name_is_only_text(self, tmp_path):
        (path,), _ = draw_sweep(rows_of(instance="<b> & $5_ or ^$"), tmp_path)
        texts = {each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("text")}
        assert "<b> & $5_ or ^$" in texts


@pytest.mark.long
def test_a_cluster_gives_the_same_cells(sweep, tmp_path):
    distributed = pytest.importorskip("distributed")
    file = write(tmp_path, SMALL.replace("[0.1, 0.01]", "0.1").replace("[1, 2]", "1"))
    alone = json.loads(sweep(file, "--out", tmp_path / "a", "--json")[1])
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as local:
        shared = json.loads(sweep(file, "--out", tmp_path / "b", "--json", "--cluster", local.scheduler_address)[1])
    assert alone["cells"] == shared["cells"]
    assert shared["computed"] == 8


def test_the_example_of_the_documentation(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "scale.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    grid = read_grid(write(tmp_path, example.replace("runs = 1000", "runs = 2")))
    assert (len(grid.cells), grid.impossible) == (2 * 3 * 3 * 3, [])
    run_cells(grid.cells[:9], tmp_path)
    assert len(cells_in(tmp_path)) == 9


def test_a_sweep_from_python(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(
        'runs = 20\n[[question]]\nname = "best-arm"\n[[instance]]\nmeans = [1.0, 0.0]\n[[policy]]\nname = "wager"\n'
    )
    told = []
    first = run_sweep(file, tmp_path / "out", progress=told.append)
    assert (first.computed, len(first.rows), first.impossible, sum(told)) == (1, 1, [], 20)
    again = run_sweep(read_grid(file), tmp_path / "out")
    assert (again.computed, again.rows) == (0, first.rows)
    assert (tmp_path / "out" / "summary.csv").exists()


def test_a_summary_has_the_columns_of_all_its_rows(tmp_path):
    """Claims have columns that other questions have not."""
    write_csv(tmp_path / "summary.csv", [{"error": 0.0}, {"error": 0.1, "true_shown_mean": 2.0}])
    assert (tmp_path / "summary.csv").read_text().splitlines() == ["error,true_shown_mean", "0.0,", "0.1,2.0"]
