"""Fixed-budget baselines beside plain programs, which see the same means."""

import math

import numpy as np
import pytest

from roundwise import BestArm, GaussianArms, InputError, Problem, simulate
from roundwise.model.batch import Batch
from roundwise.model.problem import advance, begin, final_answer
from roundwise.policies import SequentialHalving, SuccessiveRejects


def plain_halving(arms, budget, rounds, mean):
    left, samples, number = list(range(arms)), 0, rounds or math.ceil(math.log2(arms))
    for r in range(1, number + 1):
        pulls = budget // (len(left) * number)
        samples += pulls * len(left)
        stay = math.ceil(len(left) / 2) if rounds is None else math.ceil(round(arms ** (1 - r / rounds), 9))
        left = sorted(left, key=lambda i: -mean(i, r, pulls))[:stay]
    return samples, number, left


def plain_rejects(arms, budget, rounds, mean):
    left, before, samples, totals = list(range(arms)), 0, 0, [0.0] * arms
    scale = 1 / 2 + sum(1 / i for i in range(2, arms + 1))
    for k in range(1, arms):
        pulls = math.ceil((budget - arms) / scale / (arms + 1 - k))
        for i in left:
            totals[i] += (pulls - before) * mean(i, k, pulls - before)
            samples += pulls - before
        left.remove(min(left, key=lambda i: totals[i]))
        before = pulls
    return samples, arms - 1, left


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(
    ("make", "plain", "rounds"),
    [
        (SequentialHalving, plain_halving, None),
        (SequentialHalving, plain_halving, 2),
        (SuccessiveRejects, plain_rejects, None),
    ],
)
def test_they_do_what_plain_programs_do(make, plain, rounds, lower):
    for seed, arms in enumerate((2, 3, 5, 8, 13)):
        means, budget, sign = np.linspace(0, 0.2, arms), 900, -1 if lower else 1

        def mean(i, r, pulls, seed=seed, means=means, sign=sign):
            return means[i] + np.random.default_rng([seed, i, r]).normal() / math.sqrt(pulls)

        policy = make(budget=budget) if rounds is None else make(budget=budget, rounds=rounds)
        problem, r = Problem(BestArm(lower_is_better=lower), arms), 0
        trial = begin(problem, policy)
        while not trial.done:
            r, pulls = r + 1, trial.plan.pulls
            totals = [sign * n * mean(i, r, n) if n else 0.0 for i, n in enumerate(pulls)]
            trial = advance(problem, policy, trial, Batch(pulls, np.array(totals)))
        found = (trial.record.samples, r, [int(final_answer(problem, policy, trial))])
        assert found == plain(arms, budget, rounds, mean)
        assert trial.record.samples <= budget


def test_they_spend_their_budget_and_are_said_to_promise_nothing():
    policies = [
        SequentialHalving(budget=3000),
        SequentialHalving(budget=3000, rounds=2),
        SuccessiveRejects(budget=3000),
    ]
    found = simulate(BestArm(), GaussianArms([0.5] + [0.0] * 9), policies, runs=200, seed=1)
    for runs, batches in zip(found, (4, 2, 9), strict=True):
        assert (runs.batches == batches).all()
        assert (runs.samples > 2900).all()
        assert runs.correct.mean() > 0.9
        assert "no error probability is promised" in runs.doubt
    with pytest.raises(InputError, match="too small"):
        begin(Problem(BestArm(), 10), SequentialHalving(budget=20))
