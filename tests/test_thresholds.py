"""Thresholds: reference values, the function Wbar, orders between them, and whether they hold."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import lambertw, zeta
from scipy.stats import binom

from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, Record, Trial
from roundwise.noise import Binary, Bounded, Gaussian, SubGaussian
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from roundwise.rules import GLR, KaufmannKoolenPairwise, KaufmannKoolenSum, Lemma32, Lemma32ByCounts, LogLogHeuristic
from roundwise.rules.thresholds import THRESHOLDS, gaussian_calibration, wbar
from strategies import law

EVERY = [Lemma32(), Lemma32ByCounts(), KaufmannKoolenPairwise(), KaufmannKoolenSum(), LogLogHeuristic()]
every_threshold = pytest.mark.parametrize("threshold", EVERY, ids=lambda threshold: threshold.name)


# --- Wbar and C_G ------------------------------------------------------------------------------------------


def test_wbar_is_the_lambert_function_of_the_paper():
    # Section 3.1: Wbar(x) = -W_{-1}(-exp(-x)); SciPy's W, where exp(-x) is not 0
    x = np.concatenate([np.linspace(1.5, 20, 200), np.linspace(20, 700, 200)])
    np.testing.assert_allclose(wbar(x), -lambertw(-np.exp(-x), -1).real, rtol=1e-12)


def test_wbar_solves_its_equation_far_beyond_the_range_of_exp():
    for x in np.concatenate([np.linspace(2.99, 12, 40), np.geomspace(3, 1e6, 60), [745.0, 746.0]]):
        y = float(wbar(x))
        with localcontext() as context:
            context.prec = 50
            residual = Decimal(y) - Decimal(y).ln() - Decimal(float(x))
            root = Decimal(y) - residual / (1 - 1 / Decimal(y))  # one exact Newton step from this close
            # never below the root by more than the rounding of one operation, and not above it either
            assert abs(Decimal(y) / root - 1) < Decimal("4e-16")
        # Section 3.1: x + ln x <= Wbar(x) <= x + ln x + 1/2 <= 2x
        assert x + np.log(x) <= y <= x + np.log(x) + 0.5 <= 2 * x


def test_gaussian_calibration_reference_values():
    # docs/baselines.md: C_G(1) = 2.5071, C_G(2.5965) = 4.2195, C_G(5) = 6.7573, C_G(10) = 11.9546
    for x, expected in [(1, 2.5071), (2.5965, 4.2195), (5, 6.7573), (10, 11.9546)]:
        assert gaussian_calibration(x) == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize("x", [1e-6, 1e-3, 0.1, 1.0, 30.0, 700.0])
def test_gaussian_calibration_is_the_global_minimum(x):
    # over a fine grid of 1/2 < l < 1, dense at both ends
    l = np.concatenate([0.5 + np.geomspace(1e-9, 0.25, 20_000), 1 - np.geomspace(1e-12, 0.25, 20_000)])  # noqa: E741
    g = 2 * l - 2 * l * np.log(4 * l) + np.log(zeta(2 * l)) - np.log(1 - l) / 2
    assert gaussian_calibration(x) == pytest.approx(((g + x) / l).min(), rel=1e-6)
    assert gaussian_calibration(x) <= ((g + x) / l).min() * (1 + 1e-12)
    assert g.min() > 0  # so more arms never lower the threshold


# --- reference values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "arms", "samples", "expected"),
    [  # delta = 0.05; the table of docs/baselines.md
        (Lemma32(), 10, 1e4, 72.72),
        (Lemma32(), 10, 1e5, 78.19),
        (Lemma32(), 2, 1e4, 17.89),
        (KaufmannKoolenPairwise(), 10, 1e4, 18.55),
        (KaufmannKoolenPairwise(), 10, 1e5, 19.22),
        (KaufmannKoolenPairwise(), 2, 1e4, 16.20),
        (LogLogHeuristic(), 10, 1e4, 5.32),
        (LogLogHeuristic(), 10, 1e5, 5.52),
        (LogLogHeuristic(), 2, 1e4, 5.32),
    ],
)
def test_reference_values(threshold, arms, samples, expected):
    problem = Problem(BestArm(), arms, 0.05)
    assert threshold.at(problem, samples) == pytest.approx(expected, abs=0.0051)
    counts = np.full(arms, samples / arms)
    assert threshold.value(problem, counts) == pytest.approx(expected, abs=0.0051)


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-10, 1e-300])
def test_formulas_written_out(delta):
    # Lemma 3.2, the theorem of Appendix B, and Kaufmann and Koolen's sum, term by term with SciPy's W
    counts = np.array([3.0, 50.0, 1000.0])
    problem = Problem(BestArm(), 3, delta)

    def lambert(x):
        return -lambertw(-np.exp(-x), -1).real

    log = math.log(1 / delta)
    lemma = lambert(2 / 3 * log + 4 * math.log(math.log(math.e * 1053 / 3)) + 2 * math.log(math.e * math.pi**2 / 6))
    assert Lemma32().value(problem, counts) == pytest.approx(3 / 2 * lemma, rel=1e-12)
    product = math.prod((1 + math.log(n)) ** 2 for n in counts)
    theorem = lambert(2 * math.log(math.e * math.pi**2 / 6) + 2 / 3 * math.log(product) + 2 / 3 * log)
    assert Lemma32ByCounts().value(problem, counts) == pytest.approx(3 / 2 * theorem, rel=1e-12)
    parts = sum(2 * math.log(4 + math.log(n)) for n in counts)
    assert KaufmannKoolenSum().value(problem, counts) == pytest.approx(
        parts + 3 * gaussian_calibration(log / 3), rel=1e-12
    )
    pairs = 2 * gaussian_calibration(math.log(2 / delta) / 2) + 4 * math.log(4 + math.log(1053 / 2))
    assert KaufmannKoolenPairwise().value(problem, counts) == pytest.approx(pairs, rel=1e-12)


def test_pairwise_counts_the_half_spaces_of_each_question():
    # s C_G(ln(M/delta)/s) + 2 s ln(4 + ln(t/s)) for M half-spaces of s arms
    cases = [
        (TopK(3), 3 * 7, 2),
        (Above(0.0), 10, 1),
        (Statements.ranking(10), 45, 2),
        (Statements([np.arange(10.0), np.ones(10)], [1.0, 2.0]), 2, 10),
        (Largest([[1] * 5 + [0] * 5, [0] * 5 + [1] * 5, [1] + [0] * 9]), 2, 10),
    ]
    for question, number, support in cases:
        problem = Problem(question, 10, 0.05)
        expected = support * gaussian_calibration(math.log(number / 0.05) / support)
        expected += 2 * support * math.log(4 + math.log(1e4 / support))
        assert KaufmannKoolenPairwise().at(problem, 1e4) == pytest.approx(expected, rel=1e-12)


# --- order -------------------------------------------------------------------------------------------------


@st.composite
def problems_and_counts(draw, least=1):
    arms = draw(st.sampled_from([2, 3, 10, 100]))
    delta = draw(st.floats(1e-12, 0.9))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    counts = np.floor(10.0 ** rng.uniform(0, draw(st.floats(0.1, 6)), arms))
    if least == 0:
        counts[rng.random(arms) < 0.3] = 0.0
    return Problem(BestArm(), arms, delta), counts


@law
@given(problems_and_counts(least=0))
def test_real_counts_never_need_more_than_lemma_3_2(given_counts):
    problem, counts = given_counts
    assert Lemma32ByCounts().value(problem, counts) <= Lemma32().value(problem, counts) * (1 + 1e-14)
    equal = np.full(problem.arms, counts.max() + 1)
    np.testing.assert_allclose(Lemma32ByCounts().value(problem, equal), Lemma32().value(problem, equal), rtol=1e-13)
    np.testing.assert_allclose(
        Lemma32ByCounts().value(problem, equal), Lemma32ByCounts().at(problem, equal.sum()), rtol=1e-13
    )


@every_threshold
@law
@given(given_counts=problems_and_counts())
def test_at_bounds_any_allocation(threshold, given_counts):
    problem, counts = given_counts
    assert threshold.value(problem, counts) <= threshold.at(problem, counts.sum()) * (1 + 1e-14)


@every_threshold
@law
@given(given_counts=problems_and_counts(least=0), more=st.floats(1.1, 100))
def test_thresholds_grow_with_the_samples_and_with_the_confidence(threshold, given_counts, more):
    problem, counts = given_counts
    value = threshold.value(problem, counts)
    assert np.isfinite(value)
    assert value >= math.log(1 / problem.delta) * (1 - 1e-14)  # no threshold can be lower
    assert threshold.value(problem, np.ceil(counts * more)) >= value
    surer = Problem(problem.question, problem.arms, problem.delta / more)
    assert threshold.value(surer, counts) > value
    samples = counts.sum()
    assert threshold.at(problem, samples * more) >= threshold.at(problem, samples)
    assert threshold.at(surer, samples) > threshold.at(problem, samples)


@every_threshold
@pytest.mark.parametrize("arms", [2, 50, 1000, 100_000])
def test_any_number_of_arms(threshold, arms):
    problem = Problem(BestArm(), arms, 0.05)
    for counts in (np.zeros(arms), np.ones(arms), np.full(arms, 1e9), np.eye(1, arms)[0] * 1e9):
        value = threshold.value(problem, counts)
        assert np.isfinite(value)
        assert math.log(20) * (1 - 1e-14) <= value < 60 * arms
    if threshold.name == "pairwise":
        assert threshold.at(problem, 1e9) < 50  # logarithmic in the number of arms


@every_threshold
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (300,)], ids=str)
def test_runs_do_not_touch_each_other(threshold, shape):
    for arms in (2, 3, 10, 50):
        problem = Problem(BestArm(), arms, 0.05)
        counts = np.random.default_rng(arms).integers(0, 10**6, (*shape, arms)).astype(float)
        alone = np.vectorize(lambda n, p=problem: threshold.value(p, n), signature="(k)->()")(counts)
        for order in ("C", "F"):
            np.testing.assert_array_equal(threshold.value(problem, counts.copy(order)), alone)


@every_threshold
def test_the_order_of_the_arms_does_not_matter(threshold):
    problem = Problem(BestArm(), 7, 0.05)
    counts = np.array([1.0, 5.0, 0.0, 100.0, 3.0, 1e6, 2.0])
    np.testing.assert_allclose(threshold.value(problem, counts[::-1]), threshold.value(problem, counts), rtol=1e-13)


# --- what is promised --------------------------------------------------------------------------------------


def test_names():
    assert list(THRESHOLDS) == ["lemma-3.2", "counts", "pairwise", "sum", "log-det", "heuristic"]
    assert all(THRESHOLDS[each.name] == each for each in EVERY)
    assert GLR().threshold == Lemma32()


@pytest.mark.parametrize("noise", [Gaussian(), SubGaussian(), Bounded(0, 1), Binary()], ids=lambda n: type(n).__name__)
def test_what_stands_between_a_threshold_and_a_guarantee(noise):
    problem = Problem(BestArm(), 3, 0.05, noise)
    for proved in (Lemma32(), Lemma32ByCounts()):  # for every sigma-sub-Gaussian arm
        assert proved.doubt(problem) is None
        assert GLR(proved).doubt(problem) is None
    for gaussian in (KaufmannKoolenPairwise(), KaufmannKoolenSum()):
        doubt = gaussian.doubt(problem)
        assert (doubt is None) == isinstance(noise, Gaussian)
        assert doubt is None or isinstance(doubt, Reason)
        assert GLR(gaussian).doubt(problem) == doubt
    assert isinstance(LogLogHeuristic().doubt(problem), Reason)
    assert GLR(LogLogHeuristic()).doubt(problem) == LogLogHeuristic().doubt(problem)


@pytest.mark.parametrize("question", [MinimumBelow(0.5), AnyAbove(0.5)], ids=lambda question: question.name)
def test_pairwise_does_not_fit_a_polyhedron(question):
    problem = Problem(question, 3)
    message = (
        rf"^The threshold 'pairwise' does not fit the question '{question.name}', whose wrong answers "
        r"are not a union of half-spaces\. Use 'sum' or 'lemma-3\.2'\.$"
    )
    with pytest.raises(InputError, match=message):
        KaufmannKoolenPairwise().value(problem, np.ones(3))
    with pytest.raises(InputError, match=message):
        KaufmannKoolenPairwise().at(problem, 100)


def test_the_rule_stops_where_evidence_exceeds_the_threshold_and_the_policy_asks():
    # evidence of two arms with n pulls each and gap 1: n/4 (sigma = 1)
    problem = Problem(BestArm(), 2, 0.05)
    n = np.array([2.0, 40.0, 70.0, 300.0, 300.0])
    counts = np.stack([n, n], axis=-1)
    totals = np.stack([n * 0.0, n * 1.0], axis=-1)
    asked = np.array([True, True, True, True, False])
    nothing = Batch(np.zeros_like(counts), np.zeros_like(counts))
    trial = Trial(Record(counts, totals, np.ones(5)), nothing, BatchPlan(counts, asked), None, np.zeros(5, dtype=bool))
    rule = GLR()
    assert 70 / 4 > Lemma32().at(problem, 140) > 40 / 4
    np.testing.assert_array_equal(rule.stops(problem, trial), [False, False, True, True, False])
    np.testing.assert_array_equal(rule.answer(problem, trial), [1] * 5)
    # twice the sigma is a quarter of the evidence
    noisy = Problem(BestArm(), 2, 0.05, Gaussian(2.0))
    np.testing.assert_array_equal(rule.stops(noisy, trial), [False, False, False, True, False])


# --- a statistical check with teeth ------------------------------------------------------------------------

STEPS = 2000
FALSE_ALARM = 1e-6  # probability that a test below fails although the threshold holds


def crossings(rule, allocation, draw, runs, share=1.0):
    """In how many of so many walks of two arms sum_i N_i (mu_hat_i - mu_i)^2 / 2 ever exceeds share * rule(counts)."""
    counts = np.stack([np.cumsum(allocation == 0), np.cumsum(allocation == 1)], axis=-1).astype(float)  # (steps, 2)
    limits = share * rule(counts)
    found = 0
    for _ in range(runs // 1000):
        noise = draw((1000, STEPS))
        deviation = np.zeros((1000, STEPS))
        for arm in (0, 1):
            sums = np.cumsum(np.where(allocation == arm, noise, 0.0), axis=-1)
            deviation += sums**2 / (2 * np.maximum(counts[:, arm], 1.0))
        found += int((deviation > limits).any(axis=-1).sum())
    return found


def refuted(found, runs, delta):
    """Whether so many crossings have probability below FALSE_ALARM if each run crosses with probability delta."""
    return binom.sf(found - 1, runs, delta) < FALSE_ALARM


ALLOCATIONS = {
    "in turn": np.arange(STEPS) % 2,
    "one arm mostly": (np.arange(STEPS) % 10 == 0).astype(int),
    "one after the other": (np.arange(STEPS) >= STEPS // 2).astype(int),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "threshold",
    [Lemma32(), Lemma32ByCounts(), KaufmannKoolenSum(), KaufmannKoolenPairwise()],
    ids=lambda threshold: threshold.name,
)
def test_walks_cross_with_probability_at_most_delta_and_half_the_threshold_would_not_do(threshold):
    # Lemma 3.1 asks for P(exists t: sum_i N_i (mu_hat_i - mu_i)^2 / (2 sigma^2) > beta) <= delta.
    normal = np.random.default_rng(11).standard_normal
    often, seldom = Problem(BestArm(), 2, 0.2), Problem(BestArm(), 2, 0.001)
    for allocation in ALLOCATIONS.values():
        for problem in (often, seldom):
            found = crossings(lambda n, p=problem: threshold.value(p, n), allocation, normal, 2000)
            assert not refuted(found, 2000, problem.delta)
    # the same test does refute half the threshold
    found = crossings(lambda n: threshold.value(seldom, n), ALLOCATIONS["in turn"], normal, 10_000, share=0.5)
    assert refuted(found, 10_000, seldom.delta)


@pytest.mark.parametrize("threshold", [Lemma32(), Lemma32ByCounts()], ids=lambda threshold: threshold.name)
def test_walks_of_other_sub_gaussian_rewards(threshold):
    rng = np.random.default_rng(12)
    draws = {
        "signs": lambda shape: rng.choice([-1.0, 1.0], shape),
        "uniform": lambda shape: rng.uniform(-1, 1, shape),
    }
    problem = Problem(BestArm(), 2, 0.05, SubGaussian(1.0))
    for draw in draws.values():
        found = crossings(lambda n: threshold.value(problem, n), ALLOCATIONS["one arm mostly"], draw, 1000)
        assert not refuted(found, 1000, 0.05)
