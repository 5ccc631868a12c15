"""Ask and tell for arrays: the one loop that a live study and a simulation share.

trial = begin(problem, policy)          # trial.plan.pulls says how often to pull each arm
while not trial.done.all():
    trial = advance(problem, policy, trial, batch)
conclusion(problem, policy, trial)      # the answer
"""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Bools, tree_map, tree_where, zeros
from roundwise.errors import RoundwiseError
from roundwise.model.batch import Batch, Memory, Record, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy
from roundwise.questions.base import Answer


def begin(problem: Problem, policy: Policy[Memory], runs: tuple[int, ...] = ()) -> Trial[Memory]:
    """Return the trial before its first batch.

    Args:
        problem: The question, the number of arms, delta and the noise model.
        policy: How to sample, and when to stop.
        runs: The shape of independent runs, () for one experiment.
    """
    policy.check(problem)
    nothing = zeros((*runs, problem.arms))
    return Trial(
        Record(nothing, nothing, np.zeros(runs)),
        Batch(nothing, nothing),
        policy.first(problem, runs),
        policy.stopping.start(problem, runs),
        np.zeros(runs, dtype=np.bool_),
    )


def advance(problem: Problem, policy: Policy[Memory], trial: Trial[Memory], batch: Batch) -> Trial[Memory]:
    """Return the trial after a batch; plans that ask for nothing are skipped.

    Args:
        problem: The problem of the trial.
        policy: The policy of the trial.
        trial: The trial before the batch.
        batch: What came back for `trial.plan`; it may be more or less than planned.
    """
    trial = _step(problem, policy, trial, batch)
    for _ in range(100):
        idle = ~trial.done & ~cannot_stop(problem, policy, trial) & (trial.plan.pulls.sum(axis=-1) == 0)
        if trial.plan.last is not None:
            idle &= ~trial.plan.last  # nothing is left of the budget
        if trial.plan.declared is not None:
            idle &= ~trial.plan.declared.made  # the policy has finished, whatever the rule says
        if not idle.any():
            return trial
        trial = tree_where(idle, _step(problem, policy, trial, tree_map(np.zeros_like, batch)), trial)
    raise RoundwiseError(f"The policy '{policy.name}' keeps planning empty batches.")


def cannot_stop(problem: Problem, policy: Policy, trial: Trial) -> Bools:
    """Whether the rule will never stop, because a batch came back otherwise than planned. ()"""
    return policy.stopping.broken(problem, trial)


def final_answer(problem: Problem, policy: Policy, trial: Trial) -> Answer:
    """Return the answer where the trial is done.

    Args:
        problem: The problem of the trial.
        policy: The policy of the trial.
        trial: The trial.
    """
    return policy.stopping.answer(problem, trial)


def _step(problem: Problem, policy: Policy[Memory], trial: Trial[Memory], batch: Batch) -> Trial[Memory]:
    kept = policy.stopping.fold(problem, trial.kept, trial.plan, batch)
    trial = trial._replace(record=trial.record.plus(batch), batch=batch._replace(parts=None, pairs=None), kept=kept)
    trial = trial._replace(plan=policy.next(problem, trial))
    return trial._replace(done=policy.stopping.stops(problem, trial))
