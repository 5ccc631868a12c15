"""The lower bound beside a plan: with the divergences of the results, against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from roundwise import Above, BestArm, Binary, Bounded, Claims, Gaussian, Normal, Poisson, Problem, TopK
from roundwise.planning.fixed_designs import lower_bound


def divergence(noise, x, y):
    """KL of one result with mean x from one with mean y."""
    if noise == "binary":
        return x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y))
    return x * np.log(x / y) - x + y


def complexity(noise, means, pairs=None, level=None):
    """T* by a general optimiser: max over weights of the cheapest way to be wrong."""
    means = np.asarray(means)

    def cheapest(logits):
        w = np.exp(logits - logits.max())
        w /= w.sum()
        if level is not None:
            return -min(w * divergence(noise, means, level))
        costs = []
        for a, b in pairs:
            between = (w[a] * means[a] + w[b] * means[b]) / (w[a] + w[b])
            costs.append(w[a] * divergence(noise, means[a], between) + w[b] * divergence(noise, means[b], between))
        return -min(costs)

    starts = [np.zeros(len(means)), np.linspace(0.5, -0.5, len(means))]
    options = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-10, "fatol": 1e-16}
    scale = -cheapest(starts[0])
    found = [minimize(lambda x: cheapest(x) / scale, s, method="Nelder-Mead", options=options).fun for s in starts]
    return 1 / (-min(found) * scale)


KL = 0.9 * np.log(19)  # kl(0.05, 0.95)


@pytest.mark.parametrize("noise", [Binary(), Poisson()], ids=lambda each: each.name)
@pytest.mark.parametrize("means", [(0.05, 0.04, 0.03), (0.35, 0.3, 0.3), (0.9, 0.6), (0.5, 0.45, 0.2)])
def test_best_arm(noise, means):
    found = lower_bound(Problem(BestArm(), len(means), 0.05, noise), means)
    exact = complexity(noise.name, means, [(0, i) for i in range(1, len(means))]) * KL
    assert found == pytest.approx(exact, rel=1e-5)


def test_a_known_case():
    """9 696 with divergences; a bound with sigma 1/2 would say 56 785, which is none."""
    assert complexity("binary", (0.05, 0.04, 0.03), [(0, 1), (0, 2)]) * KL == pytest.approx(9696, rel=1e-3)
    assert lower_bound(Problem(BestArm(), 3, 0.05, Binary()), (0.05, 0.04, 0.03)) == pytest.approx(9696, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("noise", [Binary(), Poisson()], ids=lambda each: each.name)
def test_others(noise):
    means = (0.5, 0.4, 0.25, 0.2)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
    found = lower_bound(Problem(TopK(2), 4, 0.05, noise), means)
    assert found == pytest.approx(complexity(noise.name, means, pairs) * KL, rel=1e-3)
    found = lower_bound(Problem(Above(0.3), 4, 0.05, noise), means)
    assert found == pytest.approx(complexity(noise.name, means, level=0.3) * KL, rel=1e-3)


def test_normal_results():
    assert lower_bound(Problem(BestArm(), 2, 0.05, Gaussian(2)), (0.5, 0.0)) == pytest.approx(8 * 4 / 0.25 * KL)
    assert lower_bound(Problem(BestArm(), 2, 0.05, Normal()), (0.5, 0.0), 2) == pytest.approx(8 * 4 / 0.25 * KL)


def test_where_nothing_can_be_said():
    assert lower_bound(Problem(BestArm(), 2, 0.05, Bounded(0, 1)), (0.5, 0.4)) is None
    assert lower_bound(Problem(BestArm(), 2, 0.05, Binary()), (0.5, 0.5)) is None
    assert lower_bound(Problem(Claims.against_control(2), 2, 0.05, Binary()), (0.5, 0.6)) is None
