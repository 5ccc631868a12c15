"""The classical tests that claims are compared with have the critical values that others compute."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import classical

# R 4.2.2, package rpact 3.3.4: getDesignGroupSequential(kMax = 5, alpha = ALPHA, sided = 1, typeOfDesign = "OF")
# and "P"; the same as in tables 2.1 and 2.3 of Jennison and Turnbull 2000 (2.413 and 2.040 for alpha 0.05 two-sided)
RPACT = [
    (0.025, 0.5, [4.561742327, 3.225638934, 2.633723161, 2.280871164, 2.040073188]),
    (0.00625, 0.5, [5.694224036, 4.026424430, 3.287561780, 2.847112018, 2.546534405]),
    (0.025, 0.0, [2.413180287] * 5),
    (0.00625, 0.0, [2.913322636] * 5),
]
# R 4.2.2, package mvtnorm 1.1.3 (what multcomp 1.4.22 uses): qmvnorm(1 - ALPHA, corr = ...), to its Monte Carlo error
MVTNORM = [(0.05, [0.5] * 5, 2.233779), (0.025, [1 / 3] * 4, 2.470911), (0.025, [0.2, 0.3, 0.5], 2.373013)]


@pytest.mark.parametrize(("alpha", "power", "bounds"), RPACT)
def test_group_sequential_bounds(alpha, power, bounds):
    np.testing.assert_allclose(classical.group_sequential_bounds(alpha, 5, power), bounds, atol=1e-6)


@pytest.mark.parametrize(("alpha", "squares", "bound"), MVTNORM)
def test_dunnett_bounds(alpha, squares, bound):
    assert classical.dunnett_bound(alpha, tuple(np.sqrt(squares))) == pytest.approx(bound, abs=5e-4)


def test_holm_steps_down():
    scores = np.array([[2.3, 2.0, 1.7], [2.0, 2.0, 2.0], [3.0, 0.0, 1.9]])
    assert classical.holm(scores, 0.05).tolist() == [[True, True, True], [False] * 3, [True, False, False]]
    assert classical.bonferroni(scores, 0.05).tolist() == [[True, False, False], [False] * 3, [True, False, False]]


def test_familywise_errors_of_sequential_holm():
    """Five looks, three nulls that share a control: at most 0.05, and not far below."""
    rng = np.random.default_rng(1)
    steps = rng.standard_normal((5, 5000, 4)).cumsum(axis=0)
    scores = classical.mean_scores(steps * 10 + 0.0, np.arange(1, 6)[:, None, None] * np.full(4, 100.0))
    for power in (0.5, 0.0):
        wrong = classical.sequential_holm(scores, 0.05, power).any(axis=-1).mean()
        assert 0.03 < wrong < 0.06
