"""Complexities with the divergences of 0/1, Poisson, exponential and normal rewards, against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog, minimize

from roundwise import Above, AnyAbove, BestArm, InputError, Largest, MinimumBelow, Statements, TopK
from roundwise.solvers.halfspaces import (
    BinaryFamily,
    ExponentialFamily,
    NormalFamily,
    PoissonFamily,
    halfspace_complexity,
)
from strategies import family_evidence

BINARY, POISSON, EXPONENTIAL = BinaryFamily(), PoissonFamily(), ExponentialFamily()


def kl(family, mean, to):
    """The divergences, from their definitions."""
    if family is BINARY:
        return mean * np.log(mean / to) + (1 - mean) * np.log((1 - mean) / (1 - to))
    if family is POISSON:
        return to - mean + mean * np.log(mean / to)
    if family is EXPONENTIAL:
        return np.log(to / mean) + mean / to - 1
    return (mean - to) ** 2 / (2 * family.sigmas**2)


def instance(family, arms, rng):
    if family is BINARY:  # rates from 1e-4 to 1 - 1e-4
        return 1 / (1 + np.exp(-rng.uniform(-9.21, 9.21, arms)))
    return np.exp(rng.uniform(-4, 4, arms))


def questions(family, arms, rng):
    middle = float(np.median(instance(family, 99, rng)))
    found = [BestArm(), TopK(max(1, arms // 3)), Above(middle), MinimumBelow(middle), AnyAbove(middle)]
    if family is not EXPONENTIAL:
        found += [Statements.against_control(arms, 0, 0.02), Largest(rng.normal(size=(4, arms)))]
        found += [BestArm(0.03)] if arms <= 10 else []  # one programme for every right answer
    return found + ([Statements.ranking(arms)] if arms <= 6 else [])


# ---------------------------------------------------------------- against scipy


@np.errstate(all="ignore")
def projected(family, weights, means, form, offset):
    """The cheapest means with form.lambda <= offset, by scipy, in logarithms (or odds) so that they stay in range."""
    arms = np.flatnonzero(form)
    w, m, a = weights[arms], means[arms], form[arms]
    to, back = (lambda x: 1 / (1 + np.exp(-x)), np.log(m / (1 - m))) if family is BINARY else (np.exp, np.log(m))
    if isinstance(family, NormalFamily):
        to, back = (lambda x: x), m

    def cost(x):
        return float((w * kl(family, m, to(x))).sum() / scale)

    if len(arms) == 1:
        return arms, np.array([offset / a[0]])
    if len(arms) == 2 and offset == 0 and a[0] == -a[1]:  # a common mean between the two
        low, high = sorted(m)
        scale = 1.0

        def slope(x):
            variance = {BINARY: x * (1 - x), POISSON: x, EXPONENTIAL: x * x}
            return (w * (x - m)).sum() / variance.get(family, 1.0)

        if isinstance(family, NormalFamily):
            v = family.sigmas[arms] ** 2
            x = (w * m / v).sum() / (w / v).sum()
        else:
            x = brentq(slope, low, high, xtol=1e-300, rtol=1e-15)
        return arms, np.array([x, x])
    scale = 1.0
    scale = max(cost(back - np.sign(a)), 1e-300)
    found = minimize(
        cost,
        back - 0.1 * np.sign(a),
        constraints=[{"type": "ineq", "fun": lambda x: offset - a @ to(x)}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return arms, to(found.x)


@np.errstate(all="ignore")
def sandwich(question, answer, weights, means, family):
    """1/T from below, by the cost of the nearest wrong answer at these weights, and from above, by a linear programme.

    For any lambda^j on the wrong side of half-space j, 1/T <= max_w min_j sum_i w_i KL(mu_i, lambda_i^j).
    """
    pieces = question.halfspaces(answer, len(means))
    rows = []
    for form, offset in zip(pieces.dense(len(means)), pieces.offsets, strict=True):
        low = np.where(form > 0, form * family.low, form * family.high if np.isfinite(family.high) else -np.inf)
        if np.where(form == 0, 0.0, low).sum() >= offset:  # no means are on the wrong side
            continue
        arms, to = projected(family, weights, means, form, offset)
        own = NormalFamily(family.sigmas[arms]) if isinstance(family, NormalFamily) else family
        row = np.zeros(len(means))
        row[arms] = kl(own, means[arms], to)
        rows.append(row)
    costs = np.array(rows)
    unit = (costs @ weights).min()
    most = linprog(
        np.append(np.zeros(len(means)), -1.0),
        A_ub=np.hstack([-costs / unit, np.ones((len(costs), 1))]),
        b_ub=np.zeros(len(costs)),
        A_eq=np.append(np.ones(len(means)), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * len(means) + [(None, None)],
    )
    return unit, -most.fun * unit


@pytest.mark.long
@pytest.mark.parametrize("family", [BINARY, POISSON, EXPONENTIAL], ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("arms", [2, 3, 10, pytest.param(50, marks=pytest.mark.slow)])
def test_it_is_optimal_by_scipy(family, arms):
    """Pairs and levels, where scipy finds the nearest wrong answers to the last digits."""
    rng = np.random.default_rng(arms)
    for _ in range(3):
        means = instance(family, arms, rng)
        level = float(np.exp(np.log(means).mean()))
        asked = [BestArm(), TopK(max(1, arms // 2)), Above(level), Statements.against_control(arms, arms - 1)]
        for question in asked:
            found = question.family_complexity(means, family)
            below, above = sandwich(question, question.answer(means), found.weights, means, family)
            assert found.value == pytest.approx(1 / below, rel=1e-6), question.name
            assert found.value == pytest.approx(1 / above, rel=1e-6), question.name


@pytest.mark.parametrize("family", [BINARY, POISSON], ids=lambda family: type(family).__name__)
def test_margins_and_scores_are_optimal_by_scipy(family):
    """Half-spaces of several arms: scipy finds the nearest wrong answers itself, in the middle of the range."""
    rng = np.random.default_rng(8)
    for _ in range(4):
        means = rng.uniform(0.2, 0.8, 4)
        for question in (Statements.against_control(4, 0, 0.05), Largest(rng.uniform(-1, 1, (3, 4)))):
            found = question.family_complexity(means, family)
            below, above = sandwich(question, question.answer(means), found.weights, means, family)
            assert found.value == pytest.approx(1 / below, rel=1e-5), question.name
            assert found.value == pytest.approx(1 / above, rel=1e-4), question.name


@np.errstate(all="ignore")
def garivier_kaufmann(means, family):
    """T* of best arm by the two nested bisections of Garivier and Kaufmann 2016, Theorem 5."""
    order = np.sort(means)[::-1]
    best, others = order[0], order[1:]

    def middle(x, mean):
        return (best + x * mean) / (1 + x)

    def share(y, mean):
        gain = lambda x: kl(family, best, middle(x, mean)) + x * kl(family, mean, middle(x, mean)) - y  # noqa: E731
        high = 1.0
        while gain(high) < 0:
            high *= 2
        return brentq(gain, 0, high, xtol=1e-300, rtol=1e-14)

    def balance(y):
        shares = np.array([share(y, mean) for mean in others])
        at = middle(shares, others)
        return (kl(family, best, at) / kl(family, others, at)).sum() - 1

    most = min(kl(family, best, mean) for mean in others)
    y = brentq(balance, most * 1e-9, most * (1 - 1e-9), rtol=1e-14)
    shares = np.array([share(y, mean) for mean in others])
    return (1 + shares.sum()) / y


@pytest.mark.parametrize("family", [BINARY, POISSON, EXPONENTIAL], ids=lambda family: type(family).__name__)
def test_best_arm_by_garivier_and_kaufmann(family):
    rng = np.random.default_rng(2)
    for arms in (2, 4, 9, 50):
        means = rng.uniform(0.05, 0.95, arms)
        found = float(BestArm().family_complexity(means, family).value)
        assert found == pytest.approx(garivier_kaufmann(means, family), rel=1e-6)


def test_rates_of_a_few_per_cent():
    """0/1 with rates .05, .04, .03: T* kl(.05, .95) is 9 696, where normal rewards would need 56 785."""
    found = BestArm().family_complexity([0.05, 0.04, 0.03], BINARY)
    assert float(found.value) * 0.9 * math.log(19) == pytest.approx(9696, abs=0.5)
    normal = BestArm().complexity([0.05, 0.04, 0.03], sigma=0.5).value
    assert float(normal) * 0.9 * math.log(19) == pytest.approx(56785, abs=1)


# ---------------------------------------------------------------- laws


@pytest.mark.long
@pytest.mark.parametrize("family", [BINARY, POISSON, EXPONENTIAL], ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("arms", [2, 5, 20, pytest.param(50, marks=pytest.mark.slow)])
def test_evidence_at_the_weights_is_one_over_the_complexity(family, arms):
    rng = np.random.default_rng(arms)
    for question in questions(family, arms, rng):
        means = np.array([instance(family, arms, rng) for _ in range(3)])
        found = question.family_complexity(means, family)
        fine = np.isfinite(found.value) & (found.value > 0)
        gained = family_evidence(question, found.weights, means, family)
        np.testing.assert_allclose(gained[fine], 1 / found.value[fine], rtol=1e-6)
        np.testing.assert_allclose(found.weights.sum(axis=-1), 1, rtol=1e-9)
        assert (found.weights >= 0).all()


def test_no_other_weights_do_better():
    rng = np.random.default_rng(1)
    for family in (BINARY, POISSON, EXPONENTIAL):
        for question in questions(family, 5, rng):
            means = instance(family, 5, rng)
            found = question.family_complexity(means, family)
            if not 0 < found.value < np.inf:
                continue
            other = np.maximum(found.weights * np.exp(rng.normal(size=(300, 5)) * 0.3), 1e-12)
            other /= other.sum(axis=-1, keepdims=True)
            assert (family_evidence(question, other, means, family) <= (1 + 1e-6) / found.value).all()


def test_normal_rewards_are_the_gaussian_complexity():
    rng = np.random.default_rng(5)
    means = rng.uniform(0, 1, (4, 6))
    for question in [*questions(BINARY, 6, rng)]:
        one = question.family_complexity(means, NormalFamily(0.7))
        two = question.complexity(means, sigma=0.7)
        np.testing.assert_allclose(one.value, two.value, rtol=1e-7)
        # the weights are known as well as the value's square root
        np.testing.assert_allclose(one.weights, two.weights, atol=1e-3)
        counts = rng.uniform(1, 9, (4, 6))
        evidence = family_evidence(question, counts, means, NormalFamily(0.7))
        np.testing.assert_allclose(evidence, question.evidence(counts, means, 0.7), rtol=1e-9)


def test_normal_rewards_with_deviations_of_their_own():
    """A half-space costs d^2 / (2 sum_i a_i^2 sigma_i^2 / n_i): the Gaussian programme with forms times deviations."""
    rng = np.random.default_rng(6)
    sigmas, means = rng.uniform(0.2, 3, 5), rng.uniform(0, 1, 5)
    family = NormalFamily(sigmas)
    for question in (BestArm(), TopK(2), Statements.against_control(5, 1, 0.1), Above(0.5)):
        pieces = question.halfspaces(question.answer(means), 5)
        forms = pieces.dense(5)
        away = forms @ means - pieces.offsets
        expected = halfspace_complexity(forms * sigmas, away, np.zeros(1), 1.0)
        found = question.family_complexity(means, family)
        assert float(found.value) == pytest.approx(float(expected.value), rel=1e-7)
    # at least one below the level: not the smallest mean, but the one that shows it soonest
    found = MinimumBelow(0.5).family_complexity([0.1, 0.3], NormalFamily([3.0, 0.2]))
    assert found.weights.tolist() == [0.0, 1.0]
    assert float(found.value) == pytest.approx(2 * 0.2**2 / 0.2**2)
    with pytest.raises(InputError, match="deviations"):
        BestArm().family_complexity([1.0, 2.0, 3.0], NormalFamily([1.0, 1.0]))


def test_the_bound_of_the_paper_is_between():
    """0/1 rewards are 1/2-sub-Gaussian: T~* <= T* (Section 1.1), with near equality where rates are near 1/2."""
    rng = np.random.default_rng(3)
    for means in rng.uniform(0, 1, (20, 4)):
        for question in (BestArm(), TopK(2), Above(0.5), AnyAbove(0.5)):
            own = question.family_complexity(means, BINARY).value
            assert own <= question.complexity(means, sigma=0.5).value * (1 + 1e-9)
    near = [0.5, 0.501, 0.499]
    assert BestArm().family_complexity(near, BINARY).value == pytest.approx(
        float(BestArm().complexity(near, sigma=0.5).value), rel=1e-4
    )


def test_tiny_gaps_do_not_cancel():
    for family, variance in ((BINARY, 0.21), (POISSON, 0.3), (EXPONENTIAL, 0.09)):
        found = float(BestArm().family_complexity([0.3, 0.3 + 1e-9], family).value)
        assert found == pytest.approx(8 * variance / 1e-18, rel=1e-6)


@pytest.mark.parametrize("family", [BINARY, POISSON, EXPONENTIAL], ids=lambda family: family.name)
def test_many_at_once_are_as_one_by_one_bit_for_bit(family):
    rng = np.random.default_rng(9)
    means = np.array([instance(family, 5, rng) for _ in range(6)])
    for question in questions(family, 5, rng):
        together = question.family_complexity(means, family)
        for i, row in enumerate(means):
            alone = question.family_complexity(row, family)
            assert (float(alone.value), alone.weights.tolist()) == (together.value[i], together.weights[i].tolist())


def test_several_right_answers():
    """T_i of each right answer, and T* the least of them."""
    means = [0.6, 0.58, 0.3]
    each = BestArm(0.1).family_complexities(means, BINARY)
    assert np.isnan(each[2])
    assert BestArm(0.1).family_complexity(means, BINARY).value == pytest.approx(float(np.nanmin(each)))
    gaussian = BestArm(0.1).complexities(means, sigma=0.5)
    np.testing.assert_allclose(each[:2], gaussian[:2], rtol=0.1)


def test_borders():
    assert BestArm().family_complexity([0.5, 0.5], BINARY).value == np.inf
    assert Above(0.5).family_complexity([0.5, 0.2], BINARY).value == np.inf
    # a rate of 0: KL(0, x) = -ln(1 - x)
    found = Above(0.1).family_complexity([0.0, 0.0], BINARY)
    assert float(found.value) == pytest.approx(2 / -math.log(0.9), rel=1e-6)
    # no rates make it wrong: certain without any sample
    assert Statements([[1.0, 1.0]], [-0.5]).family_complexity([0.2, 0.3], BINARY).value == 0
    with pytest.raises(InputError, match="0/1 rewards must lie between 0 and 1"):
        BestArm().family_complexity([0.5, 1.5], BINARY)
    with pytest.raises(InputError, match="margin"):
        Statements.against_control(2, 0, 0.1).family_complexity([1.0, 2.0], EXPONENTIAL)
    with pytest.raises(InputError, match="positive"):
        NormalFamily([1.0, 0.0])


@pytest.mark.parametrize(
    "family", [BINARY, POISSON, EXPONENTIAL, NormalFamily(1.3)], ids=lambda family: type(family).__name__
)
def test_families(family):
    """Divergence from its definition, its derivatives by differences, and the step that a pull makes."""
    rng = np.random.default_rng(0)
    means = rng.uniform(0.05, 0.95, 500)
    to = rng.uniform(0.05, 0.95, 500)
    np.testing.assert_allclose(family.divergence(means, to - means), kl(family, means, to), rtol=1e-9, atol=1e-15)
    first, second = family.derivatives(means, to - means)
    h = 1e-5
    point = (lambda t: to * np.exp(t)) if family is EXPONENTIAL else (lambda t: to + t)
    values = [kl(family, means, point(t)) for t in (-h, 0.0, h)]
    np.testing.assert_allclose(first, (values[2] - values[0]) / (2 * h), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(second, (values[2] - 2 * values[1] + values[0]) / h**2, rtol=1e-3, atol=1e-3)
    pull = rng.uniform(-0.3, 0.25, 500)
    steps = family.solve_steps(means, pull)
    fine = np.isfinite(steps)
    np.testing.assert_allclose(steps[fine], (pull * family.variance(means + steps))[fine], rtol=1e-9)
