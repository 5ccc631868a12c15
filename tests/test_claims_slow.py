"""The familywise error of claims at the borders of their nulls, 20 000 runs each (`make slow`)."""

import sys
from pathlib import Path

import pytest
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import claims as benchmark

pytestmark = pytest.mark.slow

RUNS, ALARM = 20_000, 1e-5  # the chance of a false alarm, each


@pytest.mark.parametrize("name", benchmark.ERRORS)
def test_nothing_false_is_shown_more_often_than_promised(name):
    cell = benchmark.ERRORS[name]
    found = benchmark.claims(cell, RUNS)
    assert (~found.correct).sum() <= binom.isf(ALARM, RUNS, cell[2])


@pytest.mark.parametrize(
    ("name", "own", "least"),
    [
        ("ACR20, 600 patients", False, 1.09),
        ("ACR20, 600 patients", True, 1.38),
        ("ACR20, 1200 patients", False, 2.04),
        ("ACR20, 1200 patients", True, 2.25),
        ("migraine, 1200, equal split", False, 3.46),
        ("migraine, 1200, control sqrt 7", False, 3.94),
        ("migraine, 1200, equal split", True, 4.37),
        ("normal, 1000", False, 2.06),
        ("normal, 1000", True, 2.30),
        ("normal, 3000", False, 3.10),
        ("normal, 3000", True, 3.32),
        ("50 guides, 3000, 5 looks", True, 4.74),
        ("50 guides, 3120, 5 looks", False, 3.20),  # whole numbers at every look, as the prototype had them
    ],
)
def test_true_claims_shown(name, own, least):
    """As many as a prototype showed that was written before, whose standard errors were up to 0.03."""
    found = benchmark.claims(benchmark.CELLS[name], 4000, own)
    assert found.true_shown.mean() > least - 3 * (0.03**2 + found.true_shown.var() / 4000) ** 0.5
