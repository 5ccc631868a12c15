"""What a policy owes, and what several of them share.

A policy has no hidden state: what it must remember travels in its plan. It samples; its `stopping` rule, a field,
decides when an answer may be given. docs/own.md shows how to write one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, take, total, zeros
from roundwise.errors import InputError
from roundwise.problem import Problem
from roundwise.questions import Complexity, Question
from roundwise.state import Declaration, Memory, Plan, Trial
from roundwise.stopping import Stopping


class Policy(Protocol[Memory]):
    """How to sample."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def stopping(self) -> Stopping:
        """When an answer may be given."""

    def check(self, problem: Problem) -> None:
        """Raise an InputError if the policy does not fit the problem."""

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan[Memory]:
        """The first batch, for each run."""

    def next(self, problem: Problem, trial: Trial[Memory]) -> Plan[Memory]:
        """The next batch; `trial.plan` is the one just pulled, `trial.batch` what came back for it."""


def whole(pulls: Floats) -> Floats:
    """Pulls rounded up to whole numbers, but not for a rounding error."""
    rounded = np.asarray(pulls - 1e-6)
    np.ceil(rounded, out=rounded)
    return np.maximum(rounded, 0.0, out=rounded)


def everywhere(runs: tuple[int, ...], arms: int, pulls: float) -> Floats:
    """The same number of pulls for every arm in every run."""
    return zeros((*runs, arms)) + pulls


def undeclared(problem: Problem, runs: tuple[int, ...]) -> Declaration:
    """No answer yet, for policies that stop by their own rule."""
    nothing = np.zeros((*runs, problem.arms))
    return Declaration(np.zeros(runs, dtype=np.bool_), problem.question.answer(nothing))


def complexity_within(
    question: Question, means: Floats, radius: ArrayLike, sigma: float, limit: ArrayLike
) -> Complexity:
    """The complexity where it may be at most `limit`; infinity where a cheap bound says that it is not."""
    may = question.floor(means, radius, sigma) <= np.asarray(limit, dtype=np.float64)
    value = np.full(may.shape, np.inf)
    weights = np.full(means.shape, 1.0 / means.shape[-1])
    if may.any():
        radius = np.broadcast_to(np.asarray(radius), may.shape)
        value[may], weights[may] = question.complexity(means[may], radius[may], sigma)
    return Complexity(value, weights)


def filled(lower: Floats, wanted: Floats, amount: Floats) -> Floats:
    """max(lower, wanted - c) with c such that it adds up to `amount`; `lower` if that is more already."""
    room = np.asarray(amount - total(lower))
    excess = wanted - lower
    cut = _cut(excess.reshape(-1, excess.shape[-1]), room.reshape(-1)).reshape(room.shape)
    cut = np.where(room > 0, cut, np.inf)
    excess -= cut[..., None]
    np.maximum(excess, 0.0, out=excess)
    return np.add(lower, excess, out=excess)


def _cut(excess: Floats, room: Floats) -> Floats:
    """c with sum max(excess - c, 0) = room: it rises to the average over who is above it, until nobody drops out."""
    cut = (total(excess) - room) / excess.shape[-1]
    left, least = np.arange(len(cut)), cut
    while True:
        above = excess > least[:, None]
        higher = (total(above * excess) - room) / np.maximum(above.sum(axis=-1), 1)
        rising = np.flatnonzero(higher > least)
        if not rising.size:
            return cut
        left, least = left[rising], higher[rising]
        cut[left] = least
        excess, room = take((excess, room), rising)


def grid_step(first: float, growth: float, step: Floats, samples: Floats) -> Floats:
    """The next step r of the grid first * growth^r that lies after `step` and beyond the samples so far."""
    behind = np.floor(np.log(np.maximum(samples / first, 1.0)) / np.log(growth) + 1e-9)
    return np.maximum(step, behind) + 1


def check_sigma(problem: Problem) -> None:
    """Raise an InputError if the noise model has no known sigma."""
    _ = problem.sigma


def checked(condition: bool, message: str) -> None:
    """Raise an InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)
