"""A policy whose batches are kept within limits sees what it would see without them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from roundwise import GLR, BestArm, Bounded, GaussianArms, Problem, simulate
from roundwise.model.batch import Batch, ValueTable, join_parts
from roundwise.model.problem import BatchPlan, advance, begin, final_answer
from roundwise.policies import OptBBAI, Policy, TriBBAI
from roundwise.policies.base import Limited, everywhere

ALARM = 1e-4  # of the one test that draws


class Streams:
    """Whole-numbered results of each run and arm, drawn beforehand: how they are cut into batches changes no sum."""

    def __init__(self, means, length, seed):
        rng = np.random.default_rng(seed)
        steps = np.where(rng.random((*means.shape, length)) < (1 + means[..., None]) / 2, 1.0, -1.0)
        self.sums = np.concatenate([np.zeros((*means.shape, 1)), np.cumsum(steps, axis=-1)], axis=-1)
        self.place = np.zeros(means.shape, dtype=np.int64)

    def __call__(self, pulls, live):
        new = self.place + np.where(live[..., None], pulls, 0).astype(np.int64)
        before, after = (np.take_along_axis(self.sums, each[..., None], axis=-1)[..., 0] for each in (self.place, new))
        self.place = new
        return Batch(np.where(live[..., None], pulls, 0.0), after - before)


def plans(problem, policy, means, seed):
    """For each run the plans of the policy within, in order, and its answer."""
    size = len(means)
    streams, trial = Streams(means, 60_000, seed), begin(problem, policy, (size,))
    found: list[list[tuple[float, ...]]] = [[] for _ in range(size)]
    answers = np.full(size, -1)
    live = np.ones(size, dtype=bool)
    whole = isinstance(policy, Limited)
    for _ in range(400):
        inner = trial.plan.memory.plan if whole else trial.plan
        for i in np.flatnonzero(live):
            now = (*inner.pulls[i].tolist(), float(inner.memory.stage[i]))
            if not found[i] or found[i][-1] != now:
                found[i].append(now)
        after = advance(problem, policy, trial, streams(trial.plan.pulls, live))
        ended = live & after.done
        answers[ended] = final_answer(problem, policy, after)[ended]
        live &= ~after.done
        trial = after
        if not live.any():
            return found, answers
    raise AssertionError("some runs did not end")


@pytest.mark.long
@pytest.mark.parametrize("policy", [OptBBAI(c=0.05), TriBBAI()], ids=lambda each: each.name)
@pytest.mark.parametrize("most", [7, 50, 333])
def test_a_policy_of_fresh_batches_plans_and_answers_as_without_limits(policy, most):
    """Bit for bit, in runs that end their plans at different times."""
    problem = Problem(BestArm(), arms=3, delta=0.1)
    means = np.random.default_rng(1).uniform(-0.3, 0.3, (30, 3))
    without, answers = plans(problem, policy, means, seed=2)
    within, the_same = plans(problem, Limited(policy, max_batch=most), means, seed=2)
    assert within == without
    assert the_same.tolist() == answers.tolist()


@pytest.mark.long
def test_opt_bbai_with_max_batch_is_not_wrong_more_often():
    """Three arms and a gap of 0.02: wrong in half of the runs when only the last part of a plan was looked at."""
    arms = GaussianArms([0.02, 0.0, 0.0])
    (runs,) = simulate(BestArm(), arms, [Limited(OptBBAI(), max_batch=3000)], runs=100, seed=3)
    assert runs.decided.all()
    assert (~runs.correct).sum() <= binom.isf(ALARM, 100, 0.05)


SEEN: list[Batch] = []


@dataclass(frozen=True)
class Looking(Policy):
    """Twelve, then twenty of each arm, and so on; notes what it is shown."""

    stopping: GLR = field(default_factory=GLR)
    name = "looking"

    def check(self, problem: Problem) -> None:
        """Fits every question."""

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        return BatchPlan(everywhere(runs, problem.arms, 12), np.ones(runs, dtype=bool))

    def next(self, problem: Problem, trial: Any) -> BatchPlan:
        SEEN.append(trial.batch)
        return BatchPlan(trial.plan.pulls + 8, trial.plan.may_stop)


def told(rng, pulls, values):
    """A batch with scatter and a table of these values."""
    counts = np.array([rng.multinomial(int(n), np.full(len(values), 1 / len(values))) for n in pulls], dtype=float)
    totals, squares = counts @ values, counts @ values**2
    return Batch(pulls, totals, squares - totals**2 / np.maximum(pulls, 1), ValueTable(values, counts))


def test_spreads_and_tables_are_joined():
    SEEN.clear()
    problem, policy = Problem(BestArm(), arms=3, noise=Bounded(0, 1)), Limited(Looking(), max_batch=10)
    rng, values = np.random.default_rng(4), np.array([0.1, 0.5, 0.9])
    trial, parts = begin(problem, policy), []
    for _ in range(4 + 6):  # 36 and 60 results, at most 10 at a time
        parts.append(told(rng, trial.plan.pulls, values))
        trial = advance(problem, policy, trial, parts[-1])
    for seen, of in ((SEEN[3], parts[:4]), (SEEN[9], parts[4:])):
        whole = join_parts(of)
        np.testing.assert_array_equal(seen.counts, whole.counts)
        np.testing.assert_allclose(seen.totals, whole.totals, rtol=1e-14)
        np.testing.assert_allclose(seen.scatter, whole.scatter, rtol=1e-12)
        np.testing.assert_array_equal(seen.table.counts, whole.table.counts)
        np.testing.assert_array_equal(seen.table.values, values)
        assert seen.parts is None


def test_tables_of_other_values_are_left_out_and_the_rest_is_joined():
    SEEN.clear()
    problem, policy = Problem(BestArm(), arms=3, noise=Bounded(0, 1)), Limited(Looking(), max_batch=18)
    rng, trial = np.random.default_rng(5), begin(Problem(BestArm(), arms=3, noise=Bounded(0, 1)), policy)
    for i in range(2):
        trial = advance(problem, policy, trial, told(rng, trial.plan.pulls, np.array([0.1 + i / 10, 0.9])))
    assert SEEN[-1].table is None
    assert SEEN[-1].counts.tolist() == [12, 12, 12]
    trial = advance(problem, policy, trial, told(rng, trial.plan.pulls, np.array([0.3, 0.9])))
    assert SEEN[-1].table.values.tolist() == [0.3, 0.9]  # of the next plan, so far


def test_tables_of_other_values_are_joined_to_one_of_all_values():
    rng = np.random.default_rng(6)
    parts = [told(rng, np.full(3, 12.0), np.array(values)) for values in ([0.9, 0.1], [0.1, 0.5, 0.9], [0.5])]
    whole = join_parts(parts)
    assert whole.table.values.tolist() == [0.1, 0.5, 0.9]
    np.testing.assert_array_equal(whole.table.counts.sum(axis=-1), whole.counts)
    np.testing.assert_allclose(whole.table.counts @ whole.table.values, whole.totals, rtol=1e-12)
    at = [part.table.counts for part in parts]
    np.testing.assert_array_equal(whole.table.counts[:, 1], at[1][:, 1] + at[2][:, 0])
