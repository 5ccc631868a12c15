"""The calibration: complete, able to fail, resumable. A short one is a step of `make long` of its own."""

import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from roundwise.calibration import calibrate, measure, skewed
from roundwise.calibration.cells import CalibrationCell
from roundwise.calibration.hardest import PART, STEADY, simulated
from roundwise.calibration.laws import LAWS
from roundwise.calibration.measure import (
    FALSE_ALARM,
    LEAST,
    PACKAGE,
    CalibrationResult,
    CellCount,
    Failed,
    by_rule,
    cell_level,
    critical,
    grid,
    measure_cells,
    power_of,
    runs_needed,
    short,
    sizes_of,
)
from roundwise.calibration.page import list_problems, page, plain
from roundwise.calibration.rules import RULES
from roundwise.calibration.shapes import SHAPES
from roundwise.errors import InputError
from roundwise.ingest import record
from roundwise.model.batch import Parts
from roundwise.model.problem import Problem
from roundwise.noise import NOISES, Capped, gaussian, poisson
from roundwise.noise.bets import arm_sums, product_factor
from roundwise.policies import POLICIES
from roundwise.policies import base as policies
from roundwise.questions import QUESTIONS, BestArm, Linear
from roundwise.rules import THRESHOLDS, Declared


@pytest.fixture(scope="module")
def whole():
    """All cells, and the combinations that are refused: it takes seconds, so not while tests are collected."""
    return grid()


@pytest.fixture
def cells(whole):
    return whole[0]


@pytest.fixture
def refused(whole):
    return whole[1]


@pytest.fixture
def few(cells):
    return [each for each in cells if each.row == "best of 2, tie" and each.delta == 0.5][:3]


@pytest.mark.long
class TestTheGrid:
    def test_a_combination_is_measured_or_refused_with_a_sentence(self, cells, refused):
        """`product` tries each; anything but an InputError would be raised here."""
        keys = Counter((each.row, each.column) for each in (*cells, *refused) if each.part == "product")
        assert {row for row, _ in keys} == {shape.name for shape in SHAPES}
        assert len(keys) == len(SHAPES) * len(LAWS) * len(RULES)
        assert all(each.sentence.endswith(".") for each in refused)

    def test_it_has_every_question_noise_model_policy_and_threshold(self, cells):
        without = set(QUESTIONS) - {shape.asked(LAWS[0])[0].name for shape in SHAPES}
        assert not without, "add a shape that makes it hard to calibration/shapes.py"
        without = set(NOISES.values()) - {Capped} - {type(law.noise) for law in LAWS}  # capped: the bets of Bounded
        assert not without, "add a law under which it is true to calibration/laws.py"
        problem = Problem(BestArm(), 3)
        promising = {name for name, made in POLICIES.items() if made().stopping.doubt(problem) is None}
        assert {rule.policy.name for rule in RULES} == promising
        conditional = {each.column for each in cells if each.part == "conditions"}
        without = {"tri-bbai", "opt-bbai", "sequential-halving", "successive-rejects"}  # see docs/baselines.md
        assert set(POLICIES) - promising - conditional == without
        proved = {name for name, each in THRESHOLDS.items() if each.doubt(problem) is None}
        assert {rule.name.split(", ")[1] for rule in RULES if rule.name.startswith("PET, ")} >= proved

    def test_every_question_is_measured_with_every_noise_model(self, cells):
        problems = [each.count.case.problem for each in cells if each.part == "product"]
        found = {(type(each.noise), type(each.question)) for each in problems}
        bent = {NOISES[name] for name in NOISES if name not in ("gaussian", "sub-gaussian", "deviations")}
        every = {
            (noise, question) for noise in NOISES.values() for question in QUESTIONS.values() if noise is not Capped
        }
        assert found == every - {(noise, Linear) for noise in bent}  # features go with those that have one sigma

    def test_it_goes_from_2_to_1000_arms_and_from_a_half_to_a_thousandth(self, cells):
        assert {shape.arms for shape in SHAPES} >= {2, 10, 100, 1000}
        assert {each.delta for each in cells} >= {0.5, 0.05, 0.001}

    def test_names_are_unique(self, cells):
        assert len({each.digest for each in cells}) == len(cells)

    def test_what_changes_under_way_and_scales_of_claims_and_their_bounds_are_counted(self, cells):
        names = " ".join(each.name for each in cells)
        for words in ("arms leave", "arms join", "larger budgets", "earlier data", "ratio just missed", "odds ratio",
                      "independent", "graded", "claims: single step, lower bounds"):  # fmt: skip
            assert words in names


class TestTheShortOne:
    level = cell_level(len(short()))

    def test_every_rule_has_a_broken_copy_but_whole_studies(self):
        rules = {each.row for each in short() if each.part == PART}
        broken = {each.row for each in short() if each.part == "controls"}
        assert {rule for rule in rules if not rule.startswith("studies")} == broken
        assert all(each.must_fail for each in short() if each.part == "controls")

    @pytest.mark.long
    def test_twice_delta_is_caught_with_probability_99_percent_in_every_cell(self):
        from scipy.stats import binom

        for cell in short():
            runs = sizes_of(short(), None)[cell.digest]
            least = critical(runs, cell.delta, self.level)
            assert binom.sf(least - 1, runs, cell.delta) < self.level <= binom.sf(least - 2, runs, cell.delta)
            assert binom.sf(least - 1, runs, 2 * cell.delta) >= 0.99
        assert runs_needed(0.05, self.level) < 1500  # and no more than needed
        assert power_of(runs_needed(0.05, self.level) // 2, 0.05, self.level) < 0.9

    def test_false_alarms_of_cells_and_rules_sum_to_what_is_stated(self):
        rules = {each.row for each in short() if each.part == PART}
        total = len(short()) * self.level + len(rules) * FALSE_ALARM / 2 / len(rules)
        assert total == pytest.approx(FALSE_ALARM)

    @pytest.mark.long
    def test_a_bar_of_7_to_1_in_the_place_of_20_is_caught(self, monkeypatch):
        """True error about .1 at .05: none of 1362 cells was called broken by it once."""
        cell = simulated("bets", "minimum of 10 just not below", "normal, sigma known", STEADY, 0.05)
        number = len(short())
        assert not measure_cells([cell], 127).found[0].broken(number)  # 1270 runs
        goal = Problem.goal.fget
        monkeypatch.setattr(Problem, "goal", property(lambda problem: goal(problem) - np.log(3.0)))
        found = measure_cells([cell], 127).found[0]
        assert 1.5 < found.rate / cell.delta < 3.5
        assert found.broken(number)

    def test_several_cells_of_a_rule_show_together_what_none_shows_alone(self, few):
        cells = [replace(each, part=PART, row="one") for each in few]
        found = [CellCount(cell, 1000, 555) for cell in cells]
        assert not any(each.broken(200) for each in found)
        (rule,) = by_rule(found)
        assert rule.broken(50)
        assert "one, all cells together: 1665 of 3000" in " ".join(list_problems(CalibrationResult(found, [])))


class TestCounting:
    def test_workers_change_nothing(self, few):
        one, two = (measure_cells(few, 600, workers=workers).found for workers in (1, 2))
        assert [each.errors for each in one] == [each.errors for each in two]
        assert all(each.runs >= 600 for each in one)

    @pytest.mark.long
    def test_it_goes_on_where_it_was(self, tmp_path, monkeypatch, few):
        whole = measure_cells(few, 300).found
        measure_cells(few[:2], 300, tmp_path)
        path = tmp_path / "counts.jsonl"
        path.write_text(path.read_text()[:-9])  # the last line was cut by a kill
        again = []
        real = measure._count
        monkeypatch.setattr(measure, "_count", lambda job: again.append(job) or real(job))
        assert [each.errors for each in measure_cells(few, 300, tmp_path).found] == [each.errors for each in whole]
        assert {job.digest for job in again} == {each.digest for each in few[1:]}

    def test_counts_of_other_code_are_not_continued(self, tmp_path, monkeypatch, few):
        measure_cells(few[:1], 10, tmp_path)
        monkeypatch.setattr(measure, "source", lambda: "another")
        with pytest.raises(InputError, match="version"):
            measure_cells(few[:1], 10, tmp_path)

    @pytest.mark.parametrize("where", ["rules/eprocess/rule.py", "noise/gaussian.py", "_version.py"])
    def test_other_code_is_any_other_file_of_the_package(self, where, tmp_path, monkeypatch):
        copy = tmp_path / "roundwise"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        before = measure.source()
        monkeypatch.setattr(measure, "PACKAGE", copy)
        assert measure.source() == before
        with (copy / where).open("a") as file:
            file.write("# changed\n")
        assert measure.source() != before

    def test_the_verdict_is_an_exact_binomial_test(self, few):
        from scipy.stats import binomtest

        found = CellCount(few[0], 1000, 560)
        assert found.p_value == pytest.approx(binomtest(560, 1000, 0.5, alternative="greater").pvalue)
        assert not found.broken(7000)
        assert CellCount(few[0], 1000, 600).broken(7000)

    @pytest.mark.long
    def test_every_cell_has_runs_enough_to_be_called_broken(self, cells):
        level = cell_level(len(cells))
        assert all(cell.delta**LEAST < level for cell in cells if cell.delta <= 0.15)
        assert all(critical(size, cell.delta, level) <= size
                   for cell, size in zip(cells, sizes_of(cells, 1100).values(), strict=True) if cell.delta)  # fmt: skip


class Raises:
    """Counting that fails."""

    def __init__(self, how):
        self.how = how

    def __call__(self, runs, rng):
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("no such thing")


class TestFailure:
    @pytest.mark.parametrize("how", ["raises", "dies"])
    def test_a_cell_that_fails_is_reported_and_the_others_are_counted(self, how, tmp_path, few):
        bad = CalibrationCell("rules", "bad", how, 0.05, 1.0, Raises(how))
        cells = [few[0], bad, few[1]]
        counted = measure_cells(cells, 100, tmp_path, workers=2)
        assert [each.cell.digest for each in counted.found] == [few[0].digest, few[1].digest]
        assert [each.errors for each in counted.found] == [each.errors for each in measure_cells(cells[::2], 100).found]
        (failed,) = counted.failed
        assert failed.cell is bad
        assert ("no such thing" if how == "raises" else "died") in failed.why
        assert "could not be counted" in list_problems(counted)[-1]
        assert bad.digest not in (tmp_path / "counts.jsonl").read_text()  # so the next run tries it again

    def test_one_that_fails_once_is_counted_alone(self, monkeypatch, few):
        real, seen = measure._count, []
        monkeypatch.setattr(measure, "_count", lambda job: seen.append(job) or (len(seen) == 1 and "once") or real(job))
        counted = measure_cells([few[0]], 100)
        assert not counted.failed
        assert counted.found[0].errors == measure_cells([few[0]], 100).found[0].errors


class TestThePage:
    @pytest.mark.long
    def test_it_says_what_was_counted_and_what_is_wrong(self, cells, refused):
        found = [CellCount(cell, 100, 0) for cell in cells if not cell.must_fail]
        found += [CellCount(cell, 100, 0 if cell.must_fail else 100) for cell in cells if cell.must_fail]
        counted = CalibrationResult(found, [Failed(cells[0], "it broke")])
        text = page(counted, refused, "roundwise calibrate", "figures/calibration.svg")
        assert "| Wager: best arm |" in text
        assert sum(word != "|" for word in text.split()) < 2400  # short enough to be read
        assert len(list_problems(counted)) == sum(cell.must_fail for cell in cells) + 1
        data = json.loads(json.dumps(plain(counted, refused)))
        assert {each["sentence"] for each in data["refused"]} == {each.sentence for each in refused}


# ----------------------------------------------------------------- the holes of the first release, put back one by one


def as_a_level(self, form, value, leverage):
    """Poisson, before: a form that is no pair was bet on as if it were about its first arm alone."""
    here = np.abs(np.stack(form.factors)).argmax(axis=0)[None]
    factor, place = (np.take_along_axis(np.stack(each), here, axis=0)[0] for each in (form.factors, form.places))
    won, n, past, N = arm_sums(self.data, place)
    sign, unit = np.sign(factor), np.sqrt(N / (n * (past + 0.5)))
    return product_factor(unit, np.where(sign > 0, np.inf, 0.99), ((won, sign),), n * form.offsets / np.abs(factor))


def over_all_arms(self, form, value, leverage):
    """The t bet, before: a form of one arm alone was measured by the deviation of all arms."""
    run = form.places[0][0] % self.data.counts.shape[-1]
    scatter, freedom = (gaussian._over_arms(each)[:, 0].take(run, axis=1) for each in self._within)
    return gaussian.student_factor(value, leverage * scatter / np.maximum(freedom, 1.0), freedom)


def split_alike(monkeypatch):
    """Dealing, before: every file by itself, with the same permutation."""
    keys, parts_of = record.draw_keys, record.parts_of

    def alike(files, parts, number=1):
        every = [parts_of([each], parts, number) for each in files]
        return Parts(sum(each.counts for each in every), sum(each.totals for each in every))

    monkeypatch.setattr(record, "draw_keys", lambda seed, arms, places, file=0: keys(seed, arms, places))
    monkeypatch.setattr(record, "parts_of", alike)


HOLES = {
    "Poisson counts and 'largest'": lambda m: m.setattr(poisson._PoissonPartBets, "forms", as_a_level),
    "statements on levels": lambda m: m.setattr(gaussian._PooledPartBets, "forms", over_all_arms),
    "Opt-BBAI, batches of at most 1000": lambda m: m.setattr(policies, "_join", lambda pulled, batch: batch),
    "Opt-BBAI, batches settled at 30 rows": lambda m: m.setattr(
        Declared, "fold", lambda self, p, kept, plan, batch: kept
    ),
    "40 files of 8 rows, each sorted": split_alike,
}


@pytest.mark.long
@pytest.mark.parametrize(
    "hole", [pytest.param(hole, marks=[pytest.mark.slow] if "files" in hole else []) for hole in HOLES]
)
def test_a_hole_that_is_put_back_is_caught(hole, monkeypatch, cells):
    """Each counted as `roundwise calibrate` counts it, and caught at a level of 1e-3; without the hole it is not."""
    mine = [each for each in cells if each.part == "reproductions" and hole in each.row]
    assert mine
    assert not any(each.broken(1) for each in measure_cells(mine, 30).found)
    HOLES[hole](monkeypatch)
    assert all(each.broken(1) for each in measure_cells(mine, 30).found)


def test_the_command_says_what_it_found_and_fails_where_something_is_wrong(monkeypatch):
    """The short calibration itself is a step of `make long` of its own."""
    from roundwise.cli import app, experiments  # noqa: F401 - registers the command

    few = ["--workers", "1", "--only", "best of 2, tie / 0/1, rate .5; PET"]
    run = CliRunner().invoke(app, ["calibrate", "--runs", "20", *few, "--json"])
    data = json.loads(run.stdout)
    assert run.exit_code == 0
    assert data["as_expected"]
    assert {each["row"] for each in data["cells"]} == {"best of 2, tie"}
    monkeypatch.setattr(measure.CellCount, "as_expected", lambda self, cells: False)
    run = CliRunner().invoke(app, ["calibrate", "--runs", "1", *few])
    assert run.exit_code == 1
    assert "Failed: product" in run.stdout


def test_a_calibration_from_python(tmp_path):
    name = short()[0].name
    result = calibrate(folder=tmp_path, only=name)
    assert [each.cell.name for each in result.found] == [name]
    assert list_problems(result) == []
    with pytest.raises(InputError, match="No cell has 'nothing'"):
        calibrate(only="nothing")


def test_the_page_shows_skewed_results_by_law_and_round():
    """A row a law with its class of guarantee; the control is said to be one, and to be caught."""
    cells = list(skewed.skewed())
    found = [CellCount(each, 400, 120 if each.must_fail else 12) for each in cells]
    text = page(CalibrationResult(found, []), [], "roundwise calibrate", "x.svg")
    table = text[text.index("## Skewed results") : text.index("## Nearest")]
    assert "| Wager | rounds of 1 000 | rounds of 4 000 | rounds of 20 000 |" in table
    assert table.count("approximate: within 5 %") == 10
    assert "| whale | 30.0 | 30.0 | 30.0 | 30.0 | 1 600 | control: must fail, caught |" in table
    assert "skewed results under large-sample, whose guarantee is approximate | 44 |" in text
    missed = [CellCount(each, 400, 12) for each in cells]
    assert "control: must fail, MISSED" in page(CalibrationResult(missed, []), [], "x", "x.svg")
