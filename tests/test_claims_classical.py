"""The classical tests that claims are compared with have the critical values that others compute."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import classical
from roundwise.noise.budget_bets import normal_budget_bet

# R 4.2.2, package rpact 3.3.4: getDesignGroupSequential(kMax = 5, alpha = ALPHA, sided = 1, typeOfDesign = "OF")
# and "P"; the same as in tables 2.1 and 2.3 of Jennison and Turnbull 2000 (2.413 and 2.040 for alpha 0.05 two-sided)
RPACT = [
    (0.025, 0.5, [4.561742327, 3.225638934, 2.633723161, 2.280871164, 2.040073188]),
    (0.00625, 0.5, [5.694224036, 4.026424430, 3.287561780, 2.847112018, 2.546534405]),
    (0.025, 0.0, [2.413180287] * 5),
    (0.00625, 0.0, [2.913322636] * 5),
]
# rpact: getPowerAndAverageSampleNumber(design, theta = 0.3, nMax = 100): the chance to reject up to each look
POWER = [
    (0.025, 0.5, [0.00064072599, 0.09144087277, 0.28957756668, 0.28346376853, 0.17606255701]),
    (0.00625, 0.0, [0.058012177, 0.114284832, 0.140671207, 0.142762033, 0.129556367]),
]
# R 4.2.2, package mvtnorm 1.1.3 (what multcomp 1.4.22 uses): qmvnorm(1 - ALPHA, corr = ...), to its Monte Carlo error
MVTNORM = [(0.05, [0.5] * 5, 2.233779), (0.025, [1 / 3] * 4, 2.470911), (0.025, [0.2, 0.3, 0.5], 2.373013)]
# multcomp 1.4.22: glht(parm(z * sqrt(diag(S)), S), linfct = diag(4), alternative = "greater"), S of differences from a
# control with 200 patients, 100 on each of four doses: adjusted("single-step"), adjusted("free"), adjusted("holm")
SCORES = [2.7, 2.3, 2.1, 0.5]
SINGLE_STEP = [0.013156583, 0.038981984, 0.063017757, 0.658200730]
STEP_DOWN = [0.013156580, 0.030117586, 0.034140560, 0.308537539]
HOLM = [0.013867895, 0.032172330, 0.035728841, 0.308537539]


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "power", "bounds"), RPACT)
def test_group_sequential_bounds(alpha, power, bounds):
    np.testing.assert_allclose(classical.group_sequential_bounds(alpha, 5, power), bounds, atol=1e-6)


@pytest.mark.parametrize(("alpha", "squares", "bound"), MVTNORM)
def test_dunnett_bounds(alpha, squares, bound):
    assert classical.dunnett_bound(alpha, tuple(np.sqrt(squares))) == pytest.approx(bound, abs=5e-4)


@pytest.mark.parametrize(("alpha", "power", "rejected"), POWER)
def test_chances_to_reject_at_each_look(alpha, power, rejected):
    """Twenty of a hundred results a look, a mean of 0.3, deviation 1."""
    steps = np.random.default_rng(1).normal(0.3 * 20, 20**0.5, (5, 40_000))
    scores = steps.cumsum(axis=0) / np.sqrt(20.0 * np.arange(1, 6))[:, None]
    beyond = (scores >= classical.group_sequential_bounds(alpha, 5, power)[:, None]).cumsum(axis=0) > 0
    found = beyond.mean(axis=1)
    np.testing.assert_allclose(found, np.cumsum(rejected), atol=4 * 0.5 / 40_000**0.5)
    assert classical.sequential_holm(scores[..., None], alpha, power).mean() == found[-1]


def test_adjusted_p_values():
    """A score is the critical value at its own adjusted p-value, by every one of the tests."""
    loadings = (3**-0.5,) * 4
    for k, (score, single, stepped, holm) in enumerate(zip(SCORES, SINGLE_STEP, STEP_DOWN, HOLM, strict=True)):
        if single < 0.5:
            assert classical.dunnett_bound(single, loadings) == pytest.approx(score, abs=1e-4)
            assert classical.dunnett_bound(stepped, loadings[k:]) == pytest.approx(score, abs=1e-4)
        for adjusted, test in ((single, lambda a: classical.dunnett(np.array(SCORES), a, loadings)),
                               (stepped, lambda a: classical.dunnett_step_down(np.array(SCORES), a, loadings)),
                               (holm, lambda a: classical.holm(np.array(SCORES), a))):  # fmt: skip
            if adjusted < 0.3:
                assert [bool(test(adjusted * share)[k]) for share in (0.995, 1.005)] == [False, True]


def test_bets_towards_a_budget_are_conditional_rejection_probabilities():
    """rpact: getDesignInverseNormal(kMax = 2, alpha = .025, informationRates = c(.4, 1)), no stop at the first look;
    getConditionalRejectionProbabilities with 40 results of mean .35 and deviation 1. In money: of a bar of 40 : 1.
    """
    won = np.exp(normal_budget_bet(0.35 * 40**0.5, np.log(40.0), 0.4, eta=1e-12))
    assert won / 40 == pytest.approx(0.2348674681, rel=1e-6)


# rpact: getDesignGroupSequential(kMax = 2, alpha, sided = 1, typeOfDesign = "OF")
TWO_LOOKS = [(0.025, (2.796509681, 1.977430959)), (0.001, (4.371337471, 3.091002368))]


@pytest.mark.parametrize(("alpha", "bounds"), TWO_LOOKS)
def test_eta_of_one_half_is_the_boundary_of_obrien_and_fleming(alpha, bounds):
    """What is shown at the first look, and what the two looks together must pass: at most 0.02 above."""
    need, scores = -np.log(alpha), np.linspace(0, 8, 4001)
    first = scores[normal_budget_bet(scores, need, 0.5, eta=0.5) >= need - 1e-9][0]
    left = need - normal_budget_bet(1.0, need, 0.5, eta=0.5)
    last = scores[normal_budget_bet(scores, left, 1.0, eta=0.5) >= left - 1e-9][0]
    found = np.array([first, (1.0 + last) / 2**0.5])
    assert (found >= np.array(bounds) - 0.002).all()
    assert (found <= np.array(bounds) + 0.02).all()


def test_mams_bounds():
    """Table 1 of Magirr, Jaki and Whitehead 2012 (R's MAMS: 3.068, 2.169); one look is Dunnett's test."""
    equal = (0.5**0.5,) * 4
    np.testing.assert_allclose(classical.mams_bounds(0.05, equal, 2, 0.5), [3.068, 2.169], atol=0.012)
    np.testing.assert_allclose(
        classical.mams_bounds(0.05, equal, 1, 0.5), classical.dunnett_bound(0.05, equal), atol=0.01
    )
    scores = np.array([[[0.5, -0.1, 3.0]], [[3.0, 4.0, 0.0]]])  # the second arm is dropped, the third shown at once
    shown, used = classical.mams(scores, 0.05, np.full(4, 0.25), 0.0)
    assert shown.tolist() == [[True, False, True]]
    assert used.tolist() == [0.75]


def test_holm_steps_down():
    scores = np.array([[2.3, 2.0, 1.7], [2.0, 2.0, 2.0], [3.0, 0.0, 1.9]])
    assert classical.holm(scores, 0.05).tolist() == [[True, True, True], [False] * 3, [True, False, False]]
    assert classical.bonferroni(scores, 0.05).tolist() == [[True, False, False], [False] * 3, [True, False, False]]


@pytest.mark.long
def test_familywise_errors_of_sequential_holm():
    """Five looks, three nulls that share a control: at most 0.05, and not far below."""
    rng = np.random.default_rng(1)
    steps = rng.standard_normal((5, 5000, 4)).cumsum(axis=0)
    scores = classical.mean_scores(steps * 10 + 0.0, np.arange(1, 6)[:, None, None] * np.full(4, 100.0))
    for power in (0.5, 0.0):
        wrong = classical.sequential_holm(scores, 0.05, power).any(axis=-1).mean()
        assert 0.03 < wrong < 0.06
