"""The calibration: complete, able to fail, resumable. A short one is a step of `make long` of its own."""

import json
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from roundwise.errors import InputError
from roundwise.noise import NOISES, poisson, unknown_variance
from roundwise.noise.parts import product_of, sums_at
from roundwise.policies import POLICIES, limited
from roundwise.problem import Problem
from roundwise.questions import QUESTIONS, BestArm, Linear
from roundwise.state import Parts
from roundwise.stopping import THRESHOLDS, Declared
from roundwise.studies.results import batches, lots
from roundwise.theory.calibration import measure
from roundwise.theory.calibration.laws import LAWS
from roundwise.theory.calibration.measure import Measured, grid, measured, quick
from roundwise.theory.calibration.page import page, plain, wrong
from roundwise.theory.calibration.rules import RULES
from roundwise.theory.calibration.shapes import SHAPES

CELLS, REFUSED = grid()


class TestTheGrid:
    def test_a_combination_is_measured_or_refused_with_a_sentence(self):
        """`product` tries each; anything but an InputError would be raised here."""
        keys = Counter((each.row, each.column) for each in (*CELLS, *REFUSED) if each.part == "product")
        assert {row for row, _ in keys} == {shape.name for shape in SHAPES}
        assert len(keys) == len(SHAPES) * len(LAWS) * len(RULES)
        assert all(each.sentence.endswith(".") for each in REFUSED)

    def test_it_has_every_question_noise_model_policy_and_threshold(self):
        assert {shape.asked(LAWS[0])[0].name for shape in SHAPES} == set(QUESTIONS)
        assert {type(law.noise) for law in LAWS} == set(NOISES.values())
        problem = Problem(BestArm(), 3)
        promising = {name for name, made in POLICIES.items() if made().stopping.doubt(problem) is None}
        assert {rule.policy.name for rule in RULES} == promising
        conditional = {each.column for each in CELLS if each.part == "conditions"}
        assert set(POLICIES) - promising - conditional == {"tri-bbai", "opt-bbai"}  # see docs/baselines.md
        proved = {name for name, each in THRESHOLDS.items() if each.doubt(problem) is None}
        assert {rule.name.split(", ")[1] for rule in RULES if rule.name.startswith("PET, ")} >= proved

    def test_every_question_is_measured_with_every_noise_model(self):
        found = {(type(each.count.law.noise), type(each.count.shape.asked(each.count.law)[0]))
                 for each in CELLS if each.part == "product"}  # fmt: skip
        bent = {NOISES[name] for name in NOISES if name not in ("gaussian", "sub-gaussian", "deviations")}
        every = {(noise, question) for noise in NOISES.values() for question in QUESTIONS.values()}
        assert found == every - {(noise, Linear) for noise in bent}  # features go with those that have one sigma

    def test_it_goes_from_2_to_1000_arms_and_from_a_half_to_a_thousandth(self):
        assert {shape.arms for shape in SHAPES} >= {2, 10, 100, 1000}
        assert {each.delta for each in CELLS} >= {0.5, 0.05, 0.001}

    def test_names_are_unique(self):
        assert len({each.digest for each in CELLS}) == len(CELLS)

    def test_the_short_one_has_every_part_and_shape(self):
        few = quick(CELLS)
        assert {each.part for each in few} == {each.part for each in CELLS}
        assert {each.row for each in few} == {each.row for each in CELLS}


class TestCounting:
    few = [each for each in CELLS if each.row == "best of 2, tie" and each.delta == 0.5][:3]

    def test_workers_change_nothing(self):
        one, two = (measured(self.few, 600, workers=workers) for workers in (1, 2))
        assert [each.happened for each in one] == [each.happened for each in two]
        assert all(each.runs >= 600 for each in one)

    def test_it_goes_on_where_it_was(self, tmp_path, monkeypatch):
        whole = measured(self.few, 300)
        measured(self.few[:2], 300, tmp_path)
        path = tmp_path / "counts.jsonl"
        path.write_text(path.read_text()[:-9])  # the last line was cut by a kill
        again = []
        real = measure._count
        monkeypatch.setattr(measure, "_count", lambda jobs: again.extend(jobs) or real(jobs))
        assert [each.happened for each in measured(self.few, 300, tmp_path)] == [each.happened for each in whole]
        assert {job.digest for job in again} == {each.digest for each in self.few[1:]}

    def test_counts_of_other_code_are_not_taken(self, tmp_path, monkeypatch):
        measured(self.few[:1], 10, tmp_path)
        monkeypatch.setattr(measure, "source", lambda: "another")
        with pytest.raises(InputError, match="another version of the code"):
            measured(self.few[:1], 10, tmp_path)

    def test_the_verdict_is_an_exact_binomial_test(self):
        from scipy.stats import binomtest

        found = Measured(self.few[0], 1000, 560)
        assert found.chance == pytest.approx(binomtest(560, 1000, 0.5, alternative="greater").pvalue)
        assert not found.broken(7000)
        assert Measured(self.few[0], 1000, 600).broken(7000)


class TestThePage:
    def test_it_says_what_was_counted_and_what_is_wrong(self):
        found = [Measured(cell, 100, 0) for cell in CELLS if not cell.must_fail]
        found += [Measured(cell, 100, 0 if cell.must_fail else 100) for cell in CELLS if cell.must_fail]
        text = page(found, REFUSED, "roundwise calibrate", "figures/calibration.svg")
        assert "| Wager |" in text
        assert all(sentence in text for sentence in {each.sentence for each in REFUSED})
        assert len(wrong(found)) == sum(cell.must_fail for cell in CELLS)
        assert json.dumps(plain(found, REFUSED))


# ----------------------------------------------------------------- the holes of the first release, put back one by one


def as_a_level(self, form, value, leverage):
    """Poisson, before: a form that is no pair was bet on as if it were about its first arm alone."""
    here = np.abs(np.stack(form.factors)).argmax(axis=0)[None]
    factor, place = (np.take_along_axis(np.stack(each), here, axis=0)[0] for each in (form.factors, form.places))
    won, n, past, N = sums_at(self.seen, place)
    sign, unit = np.sign(factor), np.sqrt(N / (n * (past + 0.5)))
    return product_of(unit, np.where(sign > 0, np.inf, 0.99), ((won, sign),), n * form.offsets / np.abs(factor))


def over_all_arms(self, form, value, leverage):
    """The t bet, before: a form of one arm alone was measured by the deviation of all arms."""
    return self._tilt(value, leverage, *self._pooled(form.places[0][0] % self.seen.counts.shape[-1]))


def dealt_alike(monkeypatch):
    """Dealing, before: every file by itself, with the same permutation."""
    keys, parts_of = lots.keys, batches.parts_of

    def alike(files, parts, number=1):
        every = [parts_of([each], parts, number) for each in files]
        return Parts(sum(each.counts for each in every), sum(each.totals for each in every))

    monkeypatch.setattr(lots, "keys", lambda seed, arms, places, file=0: keys(seed, arms, places))
    monkeypatch.setattr(batches, "parts_of", alike)


HOLES = {
    "Poisson counts and 'largest'": lambda m: m.setattr(poisson.PoissonTilts, "forms", as_a_level),
    "statements on levels": lambda m: m.setattr(unknown_variance.StudentTilts, "forms", over_all_arms),
    "Opt-BBAI, batches of at most 1000": lambda m: m.setattr(limited, "_together", lambda before, batch: batch),
    "Opt-BBAI, batches settled at 30 rows": lambda m: m.setattr(
        Declared, "fold", lambda self, p, kept, plan, batch: kept
    ),
    "40 files of 8 rows, each sorted": dealt_alike,
}


@pytest.mark.parametrize(
    "hole", [pytest.param(hole, marks=[pytest.mark.slow] if "files" in hole else []) for hole in HOLES]
)
def test_a_hole_that_is_put_back_is_caught(hole, monkeypatch):
    """Each counted as `roundwise calibrate` counts it, and caught at a level of 1e-3; without the hole it is not."""
    mine = [each for each in CELLS if each.part == "reproductions" and hole in each.row]
    assert mine
    assert not any(each.broken(1) for each in measured(mine, 30))
    HOLES[hole](monkeypatch)
    assert all(each.broken(1) for each in measured(mine, 30))


def test_the_command_says_what_it_found_and_fails_where_something_is_wrong(monkeypatch):
    """The short calibration itself is a step of `make long` of its own."""
    from roundwise.cli import app, calibrate  # noqa: F401 - registers the command

    few = ["--workers", "1", "--only", "best of 2, tie / 0/1, rate .5; PET"]
    run = CliRunner().invoke(app, ["calibrate", "--runs", "20", *few, "--json"])
    data = json.loads(run.stdout)
    assert run.exit_code == 0
    assert data["as_it_should"]
    assert {each["row"] for each in data["cells"]} == {"best of 2, tie"}
    monkeypatch.setattr(measure.Measured, "as_it_should", lambda self, cells: False)
    run = CliRunner().invoke(app, ["calibrate", "--runs", "1", *few])
    assert run.exit_code == 1
    assert "Not as it should be" in run.stdout
