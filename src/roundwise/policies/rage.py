"""Batched elimination for arms with features, after RAGE: Fiez, Jain, Jamieson and Ratliff, NeurIPS 2019.

In every round the batch is spread so that the directions that matter are known best: from the leader to every arm left
(best arm), or of every arm whose side is open (above a level). Estimates are from the batch alone, by least squares;
an arm leaves when its estimate is off by more than a bound that holds for all rounds (proof: docs/linear.md). The
constants are ours: rounds grow by a factor, so that no scale of the gaps need be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, one_hot, quiet, total
from roundwise.model.batch import Batch, BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, check_sigma, checked, undeclared, whole
from roundwise.questions import Question
from roundwise.questions.base import Answer
from roundwise.rules import Declared, StoppingRule
from roundwise.solvers.design import ROUGH, fit_least_squares, orthonormal_basis, solve_design

PROVED = Declared(proof="docs/linear.md, a batched elimination")


class RageState(NamedTuple):
    """Where it stands."""

    round: Floats  # r, from 1
    open: Bools  # (K), who may still be the best; or whose side is open
    above: Bools  # (K), of the others: on which side


@dataclass(frozen=True)
class Rage(Policy):
    """Best arm or above a level, of arms with features; arms without features have the unit vectors.

    Args:
        first_pulls: Pulls of the first batch for each dimension of the features.
        growth: By how much batches grow from round to round.
        stopping: The stopping rule, by default that of its proof.
    """

    first_pulls: float = 100.0
    growth: float = 3.0
    stopping: StoppingRule = PROVED
    name = "rage"

    def __post_init__(self) -> None:
        checked(1 <= self.first_pulls <= 2**53, f"`first_pulls` is {self.first_pulls:g}, but must be at least 1.")
        checked(1 < self.growth < 1e6, f"`growth` is {self.growth:g}, but must be above 1 (below 1e6).")

    def check(self, problem: Problem) -> None:
        """For best arm and above a level."""
        check_sigma(problem)
        name = _asked(problem).name
        fits = name in ("best-arm", "above")
        checked(fits, f"The policy '{self.name}' answers 'best-arm' and 'above' only, not '{name}'.")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[RageState]:
        """All directions."""
        everyone = np.ones((*runs, problem.arms), dtype=np.bool_)
        return self._plan(problem, RageState(np.ones(runs), everyone, ~everyone), np.zeros((*runs, problem.arms)), None)

    @quiet
    def next(self, problem: Problem, trial: Trial[RageState]) -> BatchPlan[RageState]:
        """Who can leave leaves; the next batch is for the others."""
        now, batch = trial.plan.memory, trial.batch
        fitted, deviation = _estimates(problem, batch, now.open)
        level, near = _asked(problem).level, problem.question.tolerance
        reach = self.reach(problem, now.round)[..., None] * deviation
        if level is None:
            leader = np.where(now.open, fitted, -np.inf).argmax(axis=-1)
            ahead = np.take_along_axis(fitted, leader[..., None], axis=-1) - fitted
            mine = one_hot(leader, problem.arms)
            left = now.open & (mine | ~(ahead > reach))
            done = (left.sum(axis=-1) == 1) | (~left | mine | (ahead > reach - near)).all(axis=-1)
            after = RageState(now.round + 1, left, now.above)
            answer: Answer = leader
        else:
            sure = now.open & (np.abs(fitted - level) > reach - near)
            after = RageState(now.round + 1, now.open & ~sure, np.where(sure, fitted > level, now.above))
            done, answer = ~after.open.any(axis=-1), after.above
        return self._plan(problem, after, fitted, Declaration(np.asarray(done), answer))

    def reach(self, problem: Problem, r: Floats) -> Floats:
        """x_r over the standard deviation of an estimate in units of sigma: sigma sqrt(2 ln(M r (r+1)/delta))."""
        ways = problem.arms - 1 if _asked(problem).level is None else problem.arms
        return np.asarray(problem.sigma * np.sqrt(2 * np.log(ways * r * (r + 1) / problem.delta)))

    @quiet
    def _plan(
        self, problem: Problem, now: RageState, means: Floats, declared: Declaration | None
    ) -> BatchPlan[RageState]:
        """The batch that makes the largest variance of an open direction least."""
        runs, features = now.open.shape[:-1], problem.question.features
        leader = None
        if _asked(problem).level is None and declared is not None:
            leader = np.where(now.open, means, -np.inf).argmax(axis=-1)
        pulls = _spread_over_arms(problem, now.open, leader) if features is None else _design(problem, now.open, leader)
        amount = total(pulls)[..., None]
        share = np.where(amount > 0, pulls / np.maximum(amount, 1e-300), 1.0 / problem.arms)
        size = self.first_pulls * _dimension(problem) * self.growth ** (now.round - 1)
        planned = whole(size[..., None] * share)
        asked = np.ones(runs, dtype=np.bool_)
        return BatchPlan(planned, asked, now, declared=undeclared(problem, runs) if declared is None else declared)


def _asked(problem: Problem) -> Question:
    """What is asked, whatever arms it is asked of."""
    return problem.question.without_features()


def _dimension(problem: Problem) -> int:
    """d, or K without features."""
    features = problem.question.features
    return problem.arms if features is None else orthonormal_basis(features).shape[-1]


def _estimates(problem: Problem, batch: Batch, open_: Bools) -> tuple[Floats, Floats]:
    """From a batch alone: means, and deviations over sigma, of each mean or (best arm) of the leader's less it."""
    shape, features = batch.counts.shape, problem.question.features
    means, counts = batch.totals / np.maximum(batch.counts, 1.0), problem.weighed(batch.counts)
    compares = _asked(problem).level is None
    if features is None:
        spread = 1 / counts
        leader = np.where(open_, means, -np.inf).argmax(axis=-1)[..., None]
        return means, np.sqrt(spread + np.take_along_axis(spread, leader, axis=-1) if compares else spread)
    rows = orthonormal_basis(features)
    theta, inverse = fit_least_squares(rows, counts.reshape(-1, problem.arms), means.reshape(-1, problem.arms))
    fitted = (theta[:, None, :] @ rows.T).reshape(shape)
    leader = np.where(open_, fitted, -np.inf).argmax(axis=-1).reshape(-1)
    directions = rows[leader][:, None, :] - rows if compares else np.broadcast_to(rows, (len(theta), *rows.shape))
    return fitted, np.sqrt(total((directions @ inverse) * directions)).reshape(shape)


def _design(problem: Problem, open_: Bools, leader: NDArray[np.intp] | None) -> Floats:
    """The least pulls that know all open directions equally well, with features. (K)"""
    features = problem.question.features
    assert features is not None
    rows, flat = orthonormal_basis(features), open_.reshape(-1, problem.arms)
    directions = np.broadcast_to(rows, (len(flat), *rows.shape))
    if leader is not None:
        directions = rows[leader.reshape(-1)][:, None, :] - rows
        flat = flat & ~one_hot(leader.reshape(-1), problem.arms)
    live = flat & (total(directions * directions) > 1e-20)
    scaled = rows * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
    return solve_design(scaled, directions, np.where(live, 1.0, np.inf), ROUGH)[1].reshape(open_.shape)


def _spread_over_arms(problem: Problem, open_: Bools, leader: NDArray[np.intp] | None) -> Floats:
    """The same without features: in proportion to sigma_i^2; the leader has sigma_l sqrt(sum of the others'). (K)"""
    squares = np.where(open_, 1 / problem.weighed(np.ones(problem.arms)), 0.0)
    if leader is None:
        return squares
    mine = one_hot(leader, problem.arms)
    others = total(np.where(mine, 0.0, squares))[..., None]
    return np.where(mine, np.sqrt(squares * others), squares)
