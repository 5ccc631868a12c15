"""A batch that comes as sums is bet on as one part: the exact mean of the wealth after it is at most 1 under the null.

Every outcome of a small batch of two arms is enumerated (0/1, values in a range, counts), or drawn by quadrature
(normal results), after a past that leads the rule to bet. The rule itself places the bets.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from roundwise import Above, AnyAbove, BestArm, Binary, Bounded, Gaussian, MinimumBelow, Poisson, SubGaussian
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.problem import BatchPlan, Problem
from roundwise.rules.eprocess.rule import EProcessRule

ROWS = (5, 4)  # results of each arm in the batch


def two_point(rate, low=0.0, high=1.0):
    """All batches of 0/1 results, with their probabilities."""
    for wins in itertools.product(*(range(n + 1) for n in ROWS)):
        chance = math.prod(stats.binom.pmf(k, n, rate) for k, n in zip(wins, ROWS, strict=True))
        totals = [low * n + (high - low) * k for k, n in zip(wins, ROWS, strict=True)]
        scatter = [(high - low) ** 2 * k * (1 - k / n) for k, n in zip(wins, ROWS, strict=True)]
        yield chance, totals, scatter, [[n - k, k] for k, n in zip(wins, ROWS, strict=True)]


def counted(rate):
    """All batches of Poisson results that matter."""
    top = [int(stats.poisson.isf(1e-12, rate * n)) + 2 for n in ROWS]
    for events in itertools.product(*map(range, top)):
        chance = math.prod(stats.poisson.pmf(k, rate * n) for k, n in zip(events, ROWS, strict=True))
        yield chance, events, events, None


def normal(mean, sigma):
    """Totals of normal results at the nodes of a quadrature rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for (x, u), (y, v) in itertools.product(zip(nodes, weights / weights.sum(), strict=True), repeat=2):
        yield u * v, [n * mean + sigma * math.sqrt(n) * z for n, z in zip(ROWS, (x, y), strict=True)], (0, 0), None


CASES = {
    "binary": (Binary(), lambda: two_point(0.4), 0.4),
    "bounded, sums": (Bounded(0.0, 1.0), lambda: two_point(0.4), 0.4),
    "bounded, rows": (Bounded(0.0, 1.0), lambda: two_point(0.4), 0.4),
    "sub-gaussian": (SubGaussian(0.5), lambda: two_point(0.5), 0.5),
    "gaussian": (Gaussian(2.0), lambda: normal(1.0, 2.0), 1.0),
    "gaussian, sigma an upper bound": (Gaussian(2.0), lambda: normal(1.0, 0.3), 1.0),
    "poisson": (Poisson(), lambda: counted(1.5), 1.5),
}
PASTS = ((0.15, -0.1), (-0.1, 0.1), (0.3, 0.2))  # how far the means of the past were from the truth


@pytest.mark.parametrize("lead", PASTS)
@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_the_wealth_is_at_most_one(name, lead):
    noise, drawn, mean = CASES[name]
    outcomes = list(drawn())
    runs = len(outcomes)
    chances = np.array([each[0] for each in outcomes])
    totals, scatter = (np.array([each[i] for each in outcomes], dtype=float) for i in (1, 2))
    table = None
    if name == "bounded, rows":
        table = ValueTable(np.broadcast_to([0.0, 1.0], (runs, 2)), np.array([each[3] for each in outcomes], float))
    counts = np.broadcast_to(np.array(ROWS, dtype=float), (runs, 2))
    batch = Batch(counts, totals, scatter, table)
    before = np.full((runs, 2), 40.0)
    past = Batch(before, before * (mean + np.array(lead)), before * max(mean * (1 - mean), 0.05))
    bets = 0
    for question in (BestArm(), Above(mean), AnyAbove(mean), MinimumBelow(mean)):
        problem, rule = Problem(question, 2, 0.05, noise), EProcessRule()
        known = rule.warm_start(problem, rule.start(problem, (runs,)), past, None)
        wealth = rule.fold(problem, known, BatchPlan(counts, np.ones(runs, dtype=bool)), batch).wealth
        for logs in wealth:
            if logs.dtype == bool or logs.shape[:1] != (runs,):
                continue
            bets += bool(np.any(logs))
            means = np.tensordot(chances, np.exp(logs.reshape(runs, -1)), axes=(0, 0))
            assert (means <= 1 + 1e-9).all(), (question, means)
    assert bets >= 3  # the rule did bet
