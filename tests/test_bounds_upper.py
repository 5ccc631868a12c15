"""Upper bounds of PET: each inequality of their proofs on random inputs, and against simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from bounds_cases import CASES, spread_means
from roundwise import GLR, PET, Above, BestArm, GaussianArms, Problem, TopK, simulate
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin
from roundwise.theory.bounds import (
    estimable_complexity,
    estimation_radius,
    expected_cost,
    failure_bound,
    phase_cost,
    promised_gamma,
    settled_by_complexity,
    settled_phase,
    stated_upper_bounds,
    upper_bounds,
    worst_case,
)
from roundwise.thresholds import KaufmannKoolenPairwise


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


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
            radius = estimation_radius(complexity, constants="stated")
            assert float(question.complexity(means, radius).value) <= math.e * complexity
            assert estimable_complexity(complexity, radius) == pytest.approx(8 * complexity)
    # but Assumption 3.8 itself fails with this b, already for two arms: the farthest instance of the ball is too easy
    means = np.array([1.0, 0.0])
    radius = estimation_radius(8.0, constants="stated")
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
                    complexity = 8 * arms * math.log(guess * 2.0**r) + 4 * arms * (11 + math.log(arms))
                    assert policy.sufficient(problem, r) <= 4 * math.log(1 / delta) + complexity


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


@pytest.mark.long
@pytest.mark.parametrize("question", [BestArm(), TopK(2), Above(0.5)], ids=lambda question: question.name)
@pytest.mark.parametrize("arms", [3, 8])
@pytest.mark.parametrize(
    "policy",
    [
        PET(),
        PET(exploration=1.0),
        PET(exploration=0.3, growth=3.0, stopping=GLR(KaufmannKoolenPairwise())),
        PET(guess=20.0),
    ],
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
            rate = policy.growth / (policy.growth - 1) * policy.guess
            limits = np.array([  # tbar_r
                problem.arms * (math.ceil(policy.explored(problem, r)) + r + 1)
                + rate * policy.growth**r * policy.sufficient(problem, r)
                for r in range(last.max() + 1)
            ])  # fmt: skip
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
