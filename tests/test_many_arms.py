"""Complexities of many arms in the divergences of their family: fast solvers, and the general one on small cases."""

import numpy as np
import pytest

from roundwise import BestArm, TopK
from roundwise.questions.base import HalfspaceQuestion
from roundwise.questions.lower_bounds import own_lower_bound
from roundwise.solvers.halfspaces import BinaryFamily, ExponentialFamily, NormalFamily, PoissonFamily
from roundwise.solvers.sparse_pairs import Pairs, solve_pairs


def instances(number, seed):
    """Means of four families, some of them near the border of their range."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        arms = int(rng.integers(4, 9))
        yield [
            (BinaryFamily(), rng.uniform(0, 1, arms) ** rng.choice([1, 6])),
            (PoissonFamily(), rng.gamma(0.5, 3, arms)),
            (ExponentialFamily(), rng.gamma(0.7, 3, arms)),
            (NormalFamily(rng.uniform(0.1, 4, arms)), rng.normal(0, 1, arms)),
        ][i % 4]


def general(question, means, family):
    """The interior point over all half-spaces of the answer."""
    values = family.clip_means(means)
    ((answer, right),) = question._family_answers(values)
    return HalfspaceQuestion._family_complexity(question, answer, right, values, family)


@pytest.mark.parametrize("lower", [False, True])
def test_the_best_arm(lower):
    for family, means in instances(24, 1 + lower):
        question = BestArm(lower_is_better=lower)
        found, known = question.family_complexity(means, family), general(question, means, family)
        assert found.value == pytest.approx(known.value, rel=1e-7)
        assert found.weights == pytest.approx(known.weights, abs=1e-4)


@pytest.mark.parametrize("lower", [False, True])
def test_the_best_few(lower):
    for family, means in instances(12, 3 + lower):
        question = TopK(2, lower_is_better=lower)
        known = general(question, means, family)
        total, pulls = solve_pairs(family.clip_means(means), question.answer(means), family)
        assert total == pytest.approx(known.value, rel=2e-6)
        assert pulls / total == pytest.approx(known.weights, abs=2e-3)


def test_several_runs_and_ties():
    found = BestArm().family_complexity([[0.5, 0.5, 0.1], [0.5, 0.4, 0.3], [0.0, 1.0, 0.5]], BinaryFamily())
    assert np.isinf(found.value[0])
    alone = BestArm().family_complexity([0.5, 0.4, 0.3], BinaryFamily())
    assert found.value[1] == alone.value
    assert np.isfinite(found.value[2])
    means = np.linspace(0.2, 0.7, 100)
    means[50] = means[49]
    assert np.isinf(TopK(50).family_complexity(means, BinaryFamily()).value)


def test_bends_are_second_derivatives():
    """-C'' in the logarithms of pulls is bend [1, -1; -1, 1], less the first derivatives on the diagonal."""
    for family, means in instances(8, 9):
        pair = Pairs(np.array([0]), np.array([1]), family.clip_means(means), family)
        pulls, step = np.full(len(means), 3.0), 1e-4
        bent = [
            pair.evaluate(pulls * np.exp([s * step, t * step, *np.zeros(len(means) - 2)])).costs
            for s in (-1, 1)
            for t in (-1, 1)
        ]
        crossed = (bent[0] - bent[1] - bent[2] + bent[3]) / (4 * step**2)
        at = pair.evaluate(pulls)
        assert crossed == pytest.approx(at.bends, rel=1e-4, abs=1e-6 * float(at.costs[0]))


def test_thousands_of_arms():
    """Equal gaps of a normal reward have a closed form: T* = 2 sigma^2 (1 + sqrt(K - 1))^2 / gap^2."""
    means = np.append(np.zeros(9_999), 0.5)
    found = BestArm().family_complexity(means, NormalFamily(np.array(2.0)))
    assert found.value == pytest.approx(2 * 4 * (1 + np.sqrt(9_999)) ** 2 / 0.25, rel=1e-9)
    rates = np.append(np.full(9_999, 0.3), 0.32)
    _, bound = own_lower_bound(BestArm(), rates, 0.05, BinaryFamily())
    normal = 2 * 0.31 * 0.69 * (1 + np.sqrt(9_999)) ** 2 / 0.02**2 * 0.9 * np.log(19)  # kl(5 %, 95 %)
    assert bound == pytest.approx(normal, rel=0.03)


def test_half_of_many_arms_in_memory():
    """Two levels: T* = 4 sigma^2 K / gap^2 for normal rewards, by symmetry n = 4 sigma^2/gap^2 for every arm."""
    means = np.repeat([0.5, 0.0], 1100)
    assert TopK(1100).complexity(means).value == pytest.approx(4 * 2200 / 0.25, rel=2e-6)
    assert TopK(1100, tolerance=0.1).complexity(means, 0.05).value == pytest.approx(4 * 2200 / 0.25, rel=2e-6)


@pytest.mark.slow
def test_half_of_ten_thousand_arms():
    rng = np.random.default_rng(1)
    means = np.sort(rng.uniform(0.2, 0.6, 10_000))[::-1].copy()
    means[:5000] += 0.02
    found = TopK(5000).family_complexity(means, BinaryFamily())
    assert 1.2e6 < found.value < 1.5e6
