"""Bounds: each inequality of their proofs on random inputs, and the bounds against simulations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from roundwise import (
    GLR,
    PET,
    Above,
    AnyAbove,
    BestArm,
    GaussianArms,
    InputError,
    Largest,
    MinimumBelow,
    OptBBAI,
    Pairwise,
    Problem,
    RoundRobin,
    Statements,
    TopK,
    TrackAndStop,
    TriBBAI,
    simulate,
)
from roundwise.bounds import (
    Centre,
    Promise,
    affine_certificate,
    centre,
    certificate,
    chain_probability,
    closed_form,
    estimable_complexity,
    estimation_radius,
    evidence_bound,
    expected_batches,
    expected_cost,
    failure_bound,
    geometric_probability,
    instances,
    overview,
    phase_cost,
    promise,
    promised_gamma,
    pull_limit,
    sample_lower_bound,
    scaling_error,
    sequence_probability,
    settled_by_complexity,
    settled_phase,
    stated_phase_cost,
    stated_upper_bounds,
    upper_bounds,
    worst_case,
)
from roundwise.bounds.curves import batch_curve, measured, scaled, trade_off
from roundwise.noise import Gaussian
from roundwise.record import Batch
from roundwise.trial import advance, begin

MARGIN = Statements.against_control(arms=4, control=0, margin=0.1)
SCORES = Largest([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 2]], offsets=[0.5, 0.5, 0.0])

# question and means, each with a finite complexity
CASES = {
    "best arm": (BestArm(), [0.3, 1.0, 0.2, 0.9]),
    "top 2": (TopK(2), [0.3, 1.0, 0.2, 0.9]),
    "above": (Above(0.5), [0.3, 1.0, 0.2, 0.9]),
    "minimum, yes": (MinimumBelow(0.5), [0.3, 1.0, 0.2, 0.9]),
    "minimum, no": (MinimumBelow(0.1), [0.3, 1.0, 0.2, 0.9]),
    "any above, yes": (AnyAbove(0.5), [0.3, 1.0, 0.2, 0.9]),
    "any above, no": (AnyAbove(1.1), [0.3, 1.0, 0.2, 0.9]),
    "ranking": (Statements.ranking(4), [0.3, 1.0, 0.2, 0.9]),
    "margin": (MARGIN, [0.3, 1.0, 0.2, 0.9]),
    "scores": (SCORES, [0.3, 1.0, 0.2, 0.9]),
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def a_promise(**changes: float) -> Promise:
    return replace(Promise(complexity=1e8, easiest=1.0, gamma=5.0, delta=0.01, reach=1.0), **changes)


def spread_means(complexity: float, arms: int, question: BestArm | TopK | Above) -> np.ndarray:
    """Means with this complexity: evenly spread, moved along their affine sequence."""
    return scaled(Problem(question, arms), np.linspace(1.0, 0.05, arms), [complexity])[0]


# ---------------------------------------------------------------- affine sequences


@pytest.mark.parametrize("name", CASES)
def test_moving_away_from_the_centre_divides_the_complexity_by_the_square(name: str) -> None:
    question, means = CASES[name]
    middle = centre(question, means)
    assert middle is not None
    assert scaling_error(question, means, middle) < 1e-7
    assert middle.spread == pytest.approx(np.abs(np.array(means) - middle.values).max(), rel=1e-12)


@pytest.mark.parametrize("name", ["above", "minimum, no", "any above, no", "margin"])
def test_another_centre_does_not_serve(name: str) -> None:
    question, means = CASES[name]
    middle = centre(question, means)
    assert middle is not None
    values = middle.values + np.array([0.05, 0.0, 0.0, 0.0])
    assert scaling_error(question, means, Centre(values, 1.0)) > 1e-3


def test_the_constant_centre_is_the_one_of_assumption_2_2() -> None:
    # derived by hand: midrange; the level; 0 = y 0 for all statements; 0.1 = y 0 is impossible; the scores of the
    # constant vector y are 2y + 0.5, 2y + 0.5 and 3y, equal at y = 0.5
    expected = {"best arm": 0.6, "top 2": 0.6, "above": 0.5, "minimum, yes": 0.5, "any above, no": 1.1}
    expected |= {"ranking": 0.6, "scores": 0.5}
    for name, value in expected.items():
        found = centre(*CASES[name], constant=True)
        assert found is not None
        assert found.constant
        assert found.values[0] == pytest.approx(value)
    assert centre(*CASES["margin"], constant=True) is None
    point = centre(*CASES["margin"])
    assert point is not None
    assert not point.constant
    assert np.diff(point.values) == pytest.approx([0.1, 0.0, 0.0], abs=1e-9)


def test_there_may_be_no_centre_at_all() -> None:
    twice = Statements([[1.0, 0.0], [1.0, 0.0]], [0.2, 0.7])
    assert centre(twice, [0.5, 0.0]) is None
    problem = Problem(twice, 2)
    assert promise(problem, [0.5, 0.0], 1.0, 5.0) is None
    found = overview(problem, [0.5, 0.0])
    assert found.expected_batches == 1.0
    assert found.vacuous is not None
    assert "no point lies on the border" in found.vacuous


def test_the_centre_has_the_smallest_spread(rng: np.random.Generator) -> None:
    for name in ("margin", "scores", "ranking"):
        question, means = CASES[name]
        found = centre(question, means)
        assert found is not None
        directions = rng.normal(size=(300, 4)) * 0.3
        if name == "scores":  # the best is score 0: y must tie it with the others
            forms = SCORES.forms[1:] - SCORES.forms[0]
        else:
            assert isinstance(question, Statements)
            forms = question.forms
        along = directions - directions @ np.linalg.pinv(forms) @ forms  # directions that stay on every border
        spreads = np.abs(np.array(means) - found.values - along).max(axis=1)
        assert found.spread <= spreads.min() + 1e-9


def test_a_smallest_mean_below_the_level_moves_alone() -> None:
    found = centre(MinimumBelow(0.5), [0.3, 1.0, 0.2, 0.9])
    assert found is not None
    assert found.values.tolist() == [0.3, 1.0, 0.5, 0.9]
    mirrored = centre(AnyAbove(-0.5), [-0.3, -1.0, -0.2, -0.9])
    assert mirrored is not None
    assert mirrored.values.tolist() == [-0.3, -1.0, -0.5, -0.9]


def test_instances_go_from_easy_to_hard() -> None:
    for question, means in CASES.values():
        middle = centre(question, means)
        assert middle is not None
        found = instances(means, middle, 0.3, 4)
        hard = question.complexity(found).value
        assert found[-1] == pytest.approx(means)
        assert hard[1:] / hard[:-1] == pytest.approx(1 / 0.3, rel=1e-7)


# ---------------------------------------------------------------- the lower bound on samples


def test_sample_lower_bound_is_the_binary_divergence() -> None:
    for delta in (1e-6, 0.05, 0.3):
        divergence = delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)
        assert float(sample_lower_bound(200.0, delta)) == pytest.approx(200 * divergence)
    assert float(sample_lower_bound(200.0, 0.9)) == 0.0  # a coin is right often enough


# ---------------------------------------------------------------- the lower bound on batches


def test_pinsker_for_gaussians(rng: np.random.Generator) -> None:
    # exact total variation of m normal draws each: 2 Phi(sqrt(m) d / (2 sigma)) - 1
    d, sigma, m = rng.uniform(0, 2, 500), rng.uniform(0.2, 3, 500), rng.integers(1, 50, 500)
    exact = 2 * norm.cdf(np.sqrt(m) * d / (2 * sigma)) - 1
    assert (exact <= np.sqrt(m * d**2 / (2 * sigma**2) / 2)).all()


def test_lemma_a_5_and_why_it_needs_its_conditions(rng: np.random.Generator) -> None:
    def number(rho: float, k: float, a: float) -> int:
        return math.floor(math.log(rho) / math.log(math.log(rho) ** 2 * max(math.e, k + a)))

    for _ in range(500):
        rho, a = math.exp(rng.uniform(1, 300)), math.exp(rng.uniform(-3, 12))
        n = number(rho, 1.0, a)
        assert n * math.log(1 + n**2 * a) <= math.log(rho) * (1 + 1e-12)
    # rho < e: N = 10, though (1 + 100 a)^10 is far above rho
    rho, a = math.exp(0.1), 100.0
    assert number(rho, 1.0, a) == 10
    assert (1 + 10**2 * a) ** 10 > rho
    # k < 0, which the lemma allows: N = 2, but (3e6)^2 is far above e^12
    assert number(math.exp(12), -1e6, 1e6) == 2
    assert math.exp(12) < (-1e6 + 4 * 1e6) ** 2


@pytest.mark.parametrize("name", CASES)
def test_the_affine_certificate_is_the_chain_on_real_instances(name: str) -> None:
    question, means = CASES[name]
    sigma = 0.7
    problem = Problem(question, 4, 0.01, Gaussian(sigma))
    given = promise(problem, means, easiest=1e-20, gamma=3.0, tail=0.02)
    middle = centre(question, means)
    assert given is not None
    assert middle is not None
    for steps in (1, 2, 3):
        found = affine_certificate(given, steps)
        sequence = instances(means, middle, found.ratio, steps)
        hard = question.complexity(sequence, sigma=sigma).value
        assert hard[0] >= 1e-20 * (1 - 1e-6)
        limits = 3.0 * hard[:-1] * math.log(1 / 0.01)
        direct = sequence_probability(question, sequence, limits, 0.02, 0.01, sigma)
        assert found.probability == pytest.approx(direct, rel=1e-6)
        assert 0 < direct < 1


def test_the_chain_says_at_least_what_lemma_2_1_says(rng: np.random.Generator) -> None:
    seen = 0
    for _ in range(300):
        steps, ratio = int(rng.integers(1, 6)), math.exp(rng.uniform(-14, -3))
        gamma, tail, delta = rng.uniform(0.5, 5), rng.uniform(0, 0.05), rng.uniform(0.001, 0.05)
        hard = 3.0 * ratio ** -np.arange(steps + 1.0)
        moves = rng.uniform(0, 3, steps) / hard[:-1]
        chain = chain_probability(hard, moves, gamma * hard[:-1] * math.log(1 / delta), tail, delta)
        lemma = geometric_probability(3.0, ratio, moves, gamma, tail, delta)
        assert chain >= lemma - 1e-12
        seen += lemma > 0.1
    assert seen > 50


def test_lemma_a_6_as_stated_cannot_hold() -> None:
    # One large batch is a possible algorithm: tau = 1e6 always, so c = 0. As stated, with x_(-1) -> 0, the lemma would
    # give P(R > 1) >= 1 - 2 delta; the chain that is proved knows that 1e6 samples settle an instance with T* = 100.
    assert chain_probability([10.0, 100.0], [0.05], [1e6], 0.0, 0.01) == 0.0
    assert chain_probability([10.0, 1e9], [0.05], [1e6], 0.0, 0.01) == pytest.approx(1 - 0.02 - math.sqrt(1e6 / 2e9))


def test_the_proved_closed_form_is_certified_and_the_stated_one_is_not(rng: np.random.Generator) -> None:
    proved = stated = 0
    for _ in range(200):
        given = Promise(
            complexity=math.exp(rng.uniform(5, 690)),
            easiest=1.0,
            gamma=math.exp(rng.uniform(0, 7)),
            delta=math.exp(-rng.uniform(3, 12)),
            reach=math.exp(rng.uniform(0, 3)),
            tail=rng.choice([None, 0.0, 0.001, 0.02]),
        )
        n = closed_form(given).batches
        if n >= 1:
            gamma = given.gamma * (math.log(given.range) if given.tail is None else 1.0)
            ratio = 1 / (1 + 4 * n**2 * gamma * given.confidence * (1 + given.reach) ** 2)
            assert n * math.log(ratio) >= -math.log(given.range) * (1 + 1e-12)  # the easiest is above T_min
            assert affine_certificate(given, n).probability >= 0.5
            best = certificate(given)
            assert best is not None
            assert best.batches >= n
            assert expected_batches(given) >= closed_form(given).expected
            proved += 1
        m = closed_form(given, "stated").batches
        stated += m >= 1 and affine_certificate(given, m).probability < 0.5
    assert proved > 30
    assert stated > 30  # no proof: the sequence that the paper uses does not give it


def test_theorem_2_3_by_hand() -> None:
    # ln rho = 60, delta = 1e-3, gamma = 2, s = sqrt(T* Delta^2 / (2 sigma^2)) = 1 (two arms)
    given = Promise(math.exp(60), 1.0, 2.0, 1e-3, 1.0)
    log = math.log(1000)
    first = 60 / math.log(3600 * (1 + 4 * 2 * log * 60 * 4))
    assert closed_form(given).limit == pytest.approx(min(first, 60 / 24, 1000 / 24))
    assert closed_form(given).expected == 1 + 2 / 2
    first = 60 / math.log(3600 * (1 + 4 * 2 * log * 60 * (1 + math.sqrt(2)) ** 2))
    assert closed_form(given, "stated").expected == pytest.approx(min(first / 2, 60 / 6, 1000 / 6))
    tail = replace(given, tail=0.01)
    first = 60 / math.log(3600 * (1 + 4 * 2 * log * 4))
    assert closed_form(tail).limit == pytest.approx(min(first, 1 / (8 * 0.012)))
    assert closed_form(tail, "stated").limit == pytest.approx(min(first, 1 / 0.012))


def test_the_certificate_is_the_best_over_ratio_and_tail() -> None:
    given = a_promise()
    for batches in (1, 2, 3):
        best = affine_certificate(given, batches)
        others = []
        for ratio in np.geomspace(given.range ** (-1 / batches), 0.9, 60):
            for tail in np.geomspace(1e-4, 1, 60):
                hard = given.complexity * ratio ** np.arange(batches, -1.0, -1)
                factors = ratio ** (-np.arange(batches, -1.0, -1) / 2)
                moves = given.reach**2 / given.complexity * np.diff(factors) ** 2
                limits = given.gamma / tail * hard[:-1] * given.confidence
                others.append(chain_probability(hard, moves, limits, tail, given.delta))
        assert best.probability >= max(others) - 1e-9
        assert best.probability <= max(others) + 0.01  # the grid is fine enough to come near


def test_the_lower_bound_is_monotone() -> None:
    def values(name: str, points: list[float]) -> list[float]:
        return [expected_batches(a_promise(**{name: point})) for point in points]

    assert values("complexity", [2, 1e2, 1e4, 1e8, 1e16, 1e64]) == sorted(
        values("complexity", [2, 1e2, 1e4, 1e8, 1e16, 1e64])
    )
    for name, points in {
        "gamma": [1.0, 5.0, 50.0, 1e4, 1e7],
        "reach": [0.0, 1.0, 10.0, 100.0],
        "easiest": [1e-3, 1.0, 1e4, 1e7],
        "tail": [0.0, 0.01, 0.1, 0.3],
    }.items():
        found = values(name, points)
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
    probabilities = [affine_certificate(a_promise(), n).probability for n in range(1, 8)]
    assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize(
    "policy",
    [PET(), PET(growth=16.0), RoundRobin(first_time=20.0), RoundRobin(first_time=20.0, growth=64.0),
     TrackAndStop(first_time=20.0), OptBBAI()],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'growth', '')}",
)  # fmt: skip
def test_no_policy_needs_less_than_the_lower_bounds(policy: PET) -> None:
    """Each policy against the bound for algorithms as frugal as it was itself, on the same affine sequence."""
    delta = 0.01
    problem = Problem(BestArm(), 2, delta)
    grid = np.geomspace(1.0, 1e12, 13)
    means = spread_means(1e12, 2, BestArm())
    seen = measured(policy, problem, means, grid, runs=200)
    given = promise(problem, means, 1.0, seen.gamma * 2)  # between two points of the grid it may be up to twice as much
    assert given is not None
    assert expected_batches(given) <= seen.batches[-1]
    assert expected_batches(given) > 1.9
    assert (sample_lower_bound(grid, delta) <= seen.samples).all()


def test_who_stays_below_the_lower_bound_is_not_correct() -> None:
    # Tri-BBAI's guarantee is for delta -> 0; at a fixed delta it stops after as few samples on every hard instance
    (runs,) = simulate(BestArm(), GaussianArms(spread_means(1e6, 2, BestArm())), [TriBBAI()], runs=500, delta=0.01)
    assert runs.samples.mean() < float(sample_lower_bound(1e6, 0.01))
    assert runs.summary.error > 0.3


def test_the_probability_form_holds_for_pet() -> None:
    delta, tail = 0.01, 0.02
    problem = Problem(BestArm(), 2, delta)
    factors, batches = [], np.empty(0)
    for complexity in np.geomspace(1.0, 1e10, 11):
        (runs,) = simulate(
            BestArm(), GaussianArms(spread_means(complexity, 2, BestArm())), [PET()], runs=500, delta=delta
        )
        factors.append(np.quantile(runs.samples, 1 - tail / 2) / complexity / math.log(1 / delta))
        batches = runs.batches
    given = promise(problem, spread_means(1e10, 2, BestArm()), 1.0, 2 * max(factors), tail)
    assert given is not None
    for n in (1, 2, 3):
        assert affine_certificate(given, n).probability <= (batches > n).mean()
    assert affine_certificate(given, 2).probability > 0.5


def test_vacuous_bounds_say_why() -> None:
    problem = Problem(BestArm(), 2)
    for gap, changes, words in (
        (5.0, {}, "is not above T_min = 1"),
        (0.5, {}, "too small for gamma"),
        (0.001, {"gamma": 1e9}, "too small for gamma"),
    ):
        found = overview(problem, [gap, 0.0], **changes)
        assert found.expected_batches == 1.0
        assert found.certificate is None
        assert found.vacuous is not None
        assert words in found.vacuous
    assert "delta = 0.6" in (overview(Problem(BestArm(), 2, 0.6), [0.001, 0.0], gamma=1.0).vacuous or "")
    assert overview(problem, [1e-4, 0.0], gamma=5.0).vacuous is None
    assert "below e T_min" in (closed_form(a_promise(easiest=5e7)).reason or "")
    assert "ln(T*/T_min)/24" in (closed_form(a_promise()).reason or "")
    assert "1/(24 delta)" in (closed_form(a_promise(complexity=1e60, delta=0.2, gamma=1.0)).reason or "")
    assert closed_form(a_promise(complexity=1e60, delta=1e-3)).reason is None
    assert not a_promise(gamma=0.5).possible
    assert a_promise(gamma=0.5, tail=0.1).possible
    assert a_promise().possible


# ---------------------------------------------------------------- the upper bounds: inequalities of the proofs


def test_the_probability_that_a_phase_fails(rng: np.random.Generator) -> None:
    """The three steps that give P(E_r fails) <= 3 p_r for sub-Gaussian arms (docs/bounds.md)."""
    # the mean of n more pulls: n (eps (N+n)/n + d)^2 >= 4 eps N (eps + d) for every n, by the inequality of the means
    eps, counts, more = rng.uniform(0.01, 1, 1000), rng.uniform(1, 100, 1000), rng.uniform(0.1, 1000, 1000)
    away = rng.uniform(-1, 1, 1000) * eps
    assert (more * (eps * (counts + more) / more + away) ** 2 >= 4 * eps * counts * (eps + away) * (1 - 1e-12)).all()
    # the integral over the first batch: 2x int_x^2x exp(-v^2/2) dv + exp(-2 x^2) <= 2 exp(-x^2/2)
    x = np.linspace(0.05, 12, 500)
    integral = math.sqrt(2 * math.pi) * (norm.sf(x) - norm.sf(2 * x))
    assert (2 * x * integral + np.exp(-2 * x**2) <= 2 * np.exp(-(x**2) / 2)).all()
    # Monte Carlo, with the number of pulls in the second batch chosen as badly as possible
    x0, first, sigma = 2.0, 400.0, 1.5
    radius = x0 * sigma / math.sqrt(first)
    d = sigma * rng.standard_normal(400_000) / math.sqrt(first)
    more = np.maximum(radius * first / np.maximum(radius - np.abs(d), 1e-9), 1.0)
    y = sigma * rng.standard_normal(len(d)) / np.sqrt(more)
    step = more / (first + more) * (y - d)  # hat mu - tilde mu
    fails = (np.abs(d) > radius) | (np.abs(step) > radius)
    assert 0.02 < fails.mean() <= 6 * math.exp(-(x0**2) / 2)
    # Lemma C.2 bounds another event: both means can lie near the truth, and yet far from each other
    near = (np.abs(d) <= radius) & (np.abs(d + step) <= radius)
    assert (near & (np.abs(step) > radius)).any()


@pytest.mark.parametrize("name", CASES)
def test_the_worst_case_over_a_ball(name: str, rng: np.random.Generator) -> None:
    question, means = CASES[name]
    sigma = 0.6
    complexity = float(question.complexity(means, sigma=sigma).value)
    for radius in rng.uniform(0, 0.1, 20):
        worst = float(question.complexity(means, radius, sigma).value)
        assert worst <= worst_case(complexity, radius, sigma) * (1 + 1e-7)
    assert worst_case(complexity, 10.0, sigma) == math.inf


def test_the_worst_case_is_sharp_for_two_arms() -> None:
    found = float(BestArm().complexity([0.8, 0.1], 0.2, 0.6).value)
    assert worst_case(float(BestArm().complexity([0.8, 0.1], sigma=0.6).value), 0.2, 0.6) == pytest.approx(found)


def test_lemma_3_10_and_its_consequence(rng: np.random.Generator) -> None:
    for question in (BestArm(), TopK(2), Above(0.5)):
        for _ in range(30):
            means = rng.uniform(0, 1, 5)
            complexity = float(question.complexity(means).value)
            limit = math.sqrt(1 / (2 * complexity))
            other = means + rng.uniform(-1, 1, 5) * limit
            distance = float(np.abs(other - means).max())
            change = abs(math.log(float(question.complexity(other).value) / complexity))
            assert change <= math.sqrt(8 * complexity) * distance * (1 + 1e-6)
            # what the proof of Theorem 3.11 needs: within b the worst case is at most e T*
            radius = estimation_radius(complexity)
            assert float(question.complexity(means, radius).value) <= math.e * complexity
            assert estimable_complexity(complexity, radius) == pytest.approx(8 * complexity)
    # but Assumption 3.8 itself fails with this b, already for two arms: the farthest instance of the ball is too easy
    means = np.array([1.0, 0.0])
    radius = estimation_radius(8.0)
    worst = float(BestArm().complexity(means, radius).value)
    easiest = float(BestArm().complexity([1.0 + radius, -radius]).value)
    assert math.log(worst / easiest) == pytest.approx(4 * math.atanh(1 / 4))
    assert math.log(worst / easiest) > 1.02


def test_gamma_r_is_below_its_closed_form() -> None:
    for arms in (2, 5, 30):
        for delta in (0.3, 0.05, 1e-6, 1e-100):
            for guess in (1.0, 7.0, 1000.0):
                problem, policy = Problem(BestArm(), arms, delta), PET(guess=guess)
                for r in (0, 1, 5, 20, 60):
                    assert policy.sufficient(problem, r) <= evidence_bound(policy, problem, r)
    with pytest.raises(InputError, match="growth 2, exploration 32"):
        evidence_bound(PET(growth=3.0), Problem(BestArm(), 2), 0)


def test_settled_phase() -> None:
    for name, (question, means) in CASES.items():
        problem = Problem(question, 4)
        complexity = float(question.complexity(means).value)
        for policy in (PET(), PET(exploration=2.0), PET(growth=3.0), PET(guess=50.0)):
            r = settled_phase(policy, problem, means)
            assert r <= settled_by_complexity(policy, complexity), name
            for phase in (r, r - 1):
                if phase >= 0:
                    radius = 2 * float(policy.radius(problem, float(phase)))
                    worst = float(question.complexity(means, radius).value)
                    assert (worst <= policy.guess * policy.growth**phase) == (phase == r), name
    # the paper's constants: the first phase with T_r >= 9/4 T*, here T* = 8 and 18 <= 2^5
    assert settled_phase(PET(), Problem(BestArm(), 2), [1.0, 0.0]) == 5


# ---------------------------------------------------------------- the upper bounds against simulations


@pytest.mark.parametrize("question", [BestArm(), TopK(2), Above(0.5)], ids=lambda question: question.name)
@pytest.mark.parametrize("arms", [3, 8])
@pytest.mark.parametrize(
    "policy",
    [PET(), PET(exploration=1.0), PET(exploration=0.3, growth=3.0, stopping=GLR(Pairwise())), PET(guess=20.0)],
    ids=["paper", "exploration 1", "exploration 0.3", "guess 20"],
)
def test_pet_keeps_its_upper_bounds(question: BestArm | TopK | Above, arms: int, policy: PET) -> None:
    tracked = 0.0
    for delta in (0.2, 1e-3, 1e-20):
        for complexity in (0.5, 12.0, 3000.0):
            means = spread_means(complexity, arms, question)
            problem = Problem(question, arms, delta)
            bound = upper_bounds(policy, problem, means)
            (runs,) = simulate(
                question,
                GaussianArms(means),
                [policy],
                runs=150,
                delta=delta,
                watch={
                    "tracked": lambda trial: trial.plan.memory.tracked,
                    "phases": lambda trial: trial.plan.memory.phase,
                },
            )
            assert runs.batches.mean() <= bound.batches
            assert runs.samples.mean() <= bound.samples
            last = runs.watched["phases"].astype(int) - 1  # the plan at the end is that of the next phase
            limits = np.array([pull_limit(policy, problem, r) for r in range(last.max() + 1)])
            assert (runs.samples <= limits[last]).all()
            tracked += runs.watched["tracked"].mean()
    if policy.exploration < 32:
        assert tracked > 1  # the second batch is really made


def test_the_phase_lemma_holds_run_by_run() -> None:
    """Follow single runs, note the phases where E_r fails, and compare with what the lemma allows."""
    rng = np.random.default_rng(8)
    policy = PET(exploration=4.3)  # 6 pulls in phase 0, not rounded up by much: then E_0 does fail
    problem = Problem(BestArm(), 2, 0.05)
    means = np.array([0.6, 0.0])
    settled = settled_phase(policy, problem, means)
    failing = 0
    for _ in range(250):
        trial = begin(problem, policy)
        failures: set[int] = set()
        first = np.zeros(2)
        while not trial.done:
            phase, second, _ = trial.plan.memory
            pulls = trial.plan.pulls
            batch = Batch(pulls, pulls * means + np.sqrt(pulls) * rng.standard_normal(2))
            trial = advance(problem, policy, trial, batch)
            radius = float(policy.radius(problem, phase))
            away = np.abs(trial.record.means - (first if second else means)).max()
            if away > radius:
                failures.add(int(phase))
            first = trial.record.means
        allowed = phase_cost(policy, problem, settled, failures)
        assert trial.record.batches <= allowed.batches
        assert trial.record.samples <= allowed.samples
        failing += bool(failures)
    assert failing > 5


def test_phase_costs_by_hand() -> None:
    policy, problem = PET(), Problem(BestArm(), 2)
    gamma = [policy.sufficient(problem, r) for r in range(6)]
    uniform = [2 * math.ceil(32 * 2**r * math.log(4 * 2**r)) for r in range(6)]
    second = [gamma[r] * 2**r + 2 for r in range(6)]
    assert phase_cost(policy, problem, 3).batches == 5
    assert phase_cost(policy, problem, 3).samples == pytest.approx(uniform[3] + second[3])
    found = phase_cost(policy, problem, 3, {1, 4})
    assert found.batches == 5 + 2 + 1
    assert found.samples == pytest.approx(
        uniform[3] + second[3] + second[1] + second[4] + (uniform[5] + second[5] - uniform[4] - second[4])
    )
    stated = stated_phase_cost(policy, problem, 8.0, 3, {1, 4})
    assert stated.batches == 2 * 3 - 3 + 1 + 4
    limits = [uniform[r] + 2 * (r + 1) + 2 * 2**r * gamma[r] for r in range(6)]
    assert stated.samples == pytest.approx(limits[3] + limits[5])
    # expected cost: the same sums with 3 p_r = 3 / 4^(r+1) for each phase
    weights = [failure_bound(policy, r) for r in range(200)]
    assert weights[:2] == [3 / 4, 3 / 16]
    assert expected_cost(policy, problem, 3).batches == pytest.approx(5 + sum(weights) + sum(weights[3:]))


def test_theorem_3_11_as_stated() -> None:
    problem = Problem(BestArm(), 10)
    found = stated_upper_bounds(PET(), problem, 1000.0)
    assert found is not None
    assert found.batches == pytest.approx(math.log2(1000) + 8)  # not the "+ 5" of the text below the theorem
    each = 4 * math.log(20) + 200 * (math.log(10) + 4)
    assert found.samples == pytest.approx(each * 8001 + 480 * (8000 * math.log(8000) + math.log(4)))
    # ours is smaller wherever T* >= T_0
    for arms in (2, 10, 100):
        for delta in (0.1, 1e-3, 1e-30):
            for complexity in np.geomspace(1.0, 1e9, 19):
                for policy in (PET(), PET(guess=complexity)):
                    asked = Problem(BestArm(), arms, delta)
                    ours = expected_cost(policy, asked, settled_by_complexity(policy, complexity))
                    stated = stated_upper_bounds(policy, asked, complexity)
                    assert stated is not None
                    assert ours.batches <= stated.batches
                    assert ours.samples <= stated.samples


def test_theorem_3_11_as_stated_is_wrong_for_a_large_first_guess() -> None:
    # T* = 8, T_0 = 10 000: log2(64/10 000) + 3 + 2 < 0 batches, and some 38 000 samples, but the first batch alone has
    # 2 x 32 x 10 000 x ln(40 000) = 6.8 million pulls.
    policy, problem = PET(guess=1e4), Problem(BestArm(), 2)
    known = 64.0
    stated_batches = math.log2(known / 1e4) + math.log2(known / 8) + 2
    each = 4 * math.log(20) + 40 * (math.log(2) + 4)
    stated_samples = each * (known + 1e-4) + 96 * (known * math.log(known) + math.log(4e4) / 1e4)
    assert stated_upper_bounds(policy, problem, 8.0) is None
    first = float(policy.first(problem, ()).pulls.sum())
    assert first > 100 * stated_samples
    assert stated_batches < 0
    ours = upper_bounds(policy, problem, [1.0, 0.0])
    assert first <= ours.samples
    assert ours.batches == pytest.approx(2, abs=1e-6)


def test_knowing_the_complexity_leaves_few_batches() -> None:
    # "if we know T* we can use it as T_0, and the algorithm runs in at most 5 batches": proved by our count, on average
    for complexity in (2.0, 30.0, 1e6):
        ours = expected_cost(
            PET(guess=complexity), Problem(BestArm(), 5), settled_by_complexity(PET(guess=complexity), complexity)
        )
        assert ours.batches <= 4 + 1.0625 / complexity**2 + 1e-9
    for complexity in np.geomspace(1.2, 1e9, 50):
        for guess in (1.2, 7.0):
            if guess <= complexity:
                r = settled_by_complexity(PET(guess=guess), complexity)
                ours = expected_cost(PET(guess=guess), Problem(BestArm(), 5), r)
                assert ours.batches <= math.log2(complexity / guess) + 5


def test_upper_bounds_grow_with_the_complexity_and_the_confidence() -> None:
    problem = Problem(BestArm(), 4)
    found = [upper_bounds(PET(), problem, spread_means(t, 4, BestArm())) for t in (0.1, 1.0, 10.0, 1e3, 1e6)]
    assert [each.batches for each in found] == sorted(each.batches for each in found)
    assert [each.samples for each in found] == sorted(each.samples for each in found)
    samples = [upper_bounds(PET(), Problem(BestArm(), 4, d), [1.0, 0.5, 0.2, 0.0]).samples for d in (0.3, 0.05, 1e-9)]
    assert samples == sorted(samples)


def test_promised_gamma_covers_every_complexity_in_its_range(rng: np.random.Generator) -> None:
    for policy in (PET(), PET(growth=3.0), PET(guess=9.0), PET(exploration=4.0)):
        problem = Problem(BestArm(), 3, 0.02)
        gamma = promised_gamma(policy, problem, 0.5, 4000.0)
        ratios = []
        for complexity in np.append(np.exp(rng.uniform(math.log(0.5), math.log(4000), 200)), [0.5, 4000.0]):
            cost = expected_cost(policy, problem, settled_by_complexity(policy, complexity)).samples
            ratios.append(cost / complexity / math.log(50))
        assert max(ratios) <= gamma * (1 + 1e-9)
        assert max(ratios) > 0.6 * gamma


# ---------------------------------------------------------------- side by side


def test_the_overview_is_in_order() -> None:
    for question, means in CASES.values():
        found = overview(Problem(question, 4), means, gamma=20.0)
        assert found.sample_lower <= found.upper.samples
        assert 1 <= found.expected_batches <= found.upper.batches
        plain = found.plain()
        assert plain["batches"]["lower"] == found.expected_batches
        assert plain["samples"]["upper"] == found.upper.samples


def test_curves() -> None:
    problem = Problem(BestArm(), 2)
    means = [2 * math.sqrt(2e-6), 0.0]  # T* = 8 / gap^2 = 1e6
    curve = batch_curve(problem, means, np.geomspace(1, 1e6, 5), runs=50)
    assert (curve.lower <= curve.pet.batches).all()
    assert (curve.pet.batches <= curve.upper).all()
    assert (curve.upper <= curve.upper_stated).all()
    assert (np.diff(curve.lower) >= 0).all()
    found = trade_off(problem, means, 1.0, growths=(2, 8), runs=50, number=5)
    (few_gamma, many), (much_gamma, few) = found.points.values()
    assert few_gamma < much_gamma
    assert few < many
    assert (np.diff(found.lower) <= 0).all()
    with pytest.raises(InputError, match="must be finite and above T_min"):
        trade_off(problem, [9.0, 0.0], 1.0)
    with pytest.raises(InputError, match="no curve to draw"):
        scaled(Problem(Statements([[1, 0], [1, 0]], [0, 1]), 2), [0.5, 0.0], [1.0])


def test_figures_are_the_same_bytes_twice(tmp_path: object) -> None:
    pytest.importorskip("matplotlib")
    from pathlib import Path

    from roundwise.figures.bounds import sequence_figure
    from roundwise.figures.paper import save

    texts = []
    for name in ("a.svg", "b.svg"):
        path = Path(str(tmp_path)) / name
        save(sequence_figure(Problem(BestArm(), 2), [0.3, 0.0], 0.25, 3), path)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert b"instance 3: T* = 88.9" in texts[0]


def test_errors_say_what_to_do() -> None:
    problem = Problem(BestArm(), 2)
    for words, call in (
        ("infinite: the means lie on the border", lambda: overview(problem, [1.0, 1.0])),
        ("infinite: the means lie on the border", lambda: upper_bounds(PET(), problem, [1.0, 1.0])),
        ("infinite: the means lie on the border", lambda: promise(problem, [1.0, 1.0], 1.0, 5.0)),
        ("`easiest` .T_min. is 0", lambda: overview(problem, [1.0, 0.0], easiest=0.0)),
        ("A tail goes with a gamma", lambda: overview(problem, [1.0, 0.0], tail=0.1)),
        ("`gamma` is -1", lambda: a_promise(gamma=-1.0)),
        ("`easiest` is 0", lambda: a_promise(easiest=0.0)),
        ("`reach` is -1", lambda: a_promise(reach=-1.0)),
        ("`tail` is 1", lambda: a_promise(tail=1.0)),
        ("`delta` is 5", lambda: a_promise(delta=5.0)),
        ("`batches` is 0", lambda: affine_certificate(a_promise(), 0)),
        ("`probability` is 1", lambda: certificate(a_promise(), 1.0)),
        ("no set of constants called 'state'. Did you mean 'stated'", lambda: closed_form(a_promise(), "state")),
        ("`ratio` is 1", lambda: instances([1.0, 0.0], Centre(np.zeros(2), 1.0), 1.0, 3)),
        ("`steps` is -1", lambda: instances([1.0, 0.0], Centre(np.zeros(2), 1.0), 0.5, -1)),
        ("one instance", lambda: centre(BestArm(), [[1.0, 0.0], [0.0, 1.0]])),
        ("as rows", lambda: sequence_probability(BestArm(), [1.0, 0.0], 1.0, 0.1, 0.05)),
        ("positive complexities", lambda: chain_probability([0.0, 1.0], [1.0], [1.0], [0.1], 0.05)),
        ("at most T. = 10", lambda: promised_gamma(PET(), problem, 20.0, 10.0)),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_an_unknown_question_is_told_what_to_do() -> None:
    class Odd:
        name = "odd"

        def check(self, arms: int) -> None:
            """Any number of arms."""

    with pytest.raises(InputError, match="make a `Centre` and try it with `scaling_error`"):
        centre(Odd(), [1.0, 0.0])
