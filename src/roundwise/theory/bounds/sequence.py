"""The best sequence of instances for the lower bound on batches (Lemma 2.1): along a corner, not from a centre.

The paper writes that the sequence which minimises its sum is difficult to get, and takes affine ones. Where one corner
of every ball is easiest (`easing`), it is known: mu^n = mu + t_n v, v that corner's direction. No sequence with the
same answer, complexities, limits and tails loses less (docs/bounds.md): within M_n = m_n + ... + m_(N-1) of mu, m_n the
size of step n, no instance is easier than mu + M_n v, so t_n <= M_n; and sum_n sqrt(X_(n-1)) m_n is a sum of the M_n
with weights sqrt(X_(n-1)) - sqrt(X_(n-2)) >= 0.

What is left are the t_n and, for a promise on the average, the tails c_n: 2N numbers, found numerically. What is
returned is the chain at these numbers, computed from their exact complexities: a bound whatever the search has found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.model.problem import Problem
from roundwise.theory.bounds.affine import Easing, easing, one_instance
from roundwise.theory.bounds.lower import Promise, affine_certificate, chain_probability, expected_batches

SEARCHED = 8  # chains of up to so many batches are searched for; longer ones are geometric
POINTS = 400  # of the table of T*(mu + t v)


@dataclass(frozen=True, eq=False)
class Chain:
    """Instances of which the last one needs more than N batches with at least this probability."""

    instances: Floats  # (N+1, K), the easiest first
    complexities: Floats  # (N+1)
    tails: Floats  # (N), c_n
    probability: float

    @property
    def batches(self) -> int:
        """N."""
        return len(self.tails)


@dataclass(frozen=True, eq=False)
class Route:
    """T* along mu + t v, tabulated from t = 0 to where it is T_min."""

    problem: Problem
    means: Floats
    direction: Floats
    steps: Floats  # t, rising from 0
    logs: Floats  # ln T*, falling

    def at(self, logs: Floats) -> Floats:
        """t for these ln T*."""
        return np.interp(-logs, -self.logs, self.steps)

    def complexity(self, steps: Floats) -> Floats:
        """T* at these t, computed."""
        points = self.means + steps[..., None] * self.direction
        return self.problem.question.complexity(points, sigma=self.problem.sigma).value


def route(problem: Problem, means: ArrayLike, easiest: float) -> Route | None:
    """The route of easier instances down to T_min, or None where there is none, or T* is not above T_min."""
    values = one_instance(means)
    found = easing(problem.question, values)
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    if found is None or not easiest < complexity < math.inf:
        return None
    steps = _table(problem, values, found, easiest, complexity)
    if not steps[-1] > 0:  # T* is T_min, but for rounding
        return None
    points = values + steps[:, None] * found.direction
    logs = np.log(problem.question.complexity(points, sigma=problem.sigma).value)
    return Route(problem, values, found.direction, steps, np.minimum.accumulate(logs))


def best_chain(promise: Promise, along: Route, batches: int) -> Chain:
    """The best chain of N + 1 instances along a path that was found for an algorithm that keeps the promise."""
    rate = promise.gamma * promise.confidence
    start = _geometric(promise, along, batches)
    if batches <= SEARCHED:
        start = _searched(promise, along, start)
    logs, tails = start
    steps = np.append(along.at(logs), 0.0)
    hard = along.complexity(steps)
    limits = rate * hard[:-1] / (tails if promise.tail is None else 1.0)
    moves = np.diff(steps) ** 2 * float(np.abs(along.direction).max()) ** 2 / (2 * along.problem.sigma**2)
    chance = chain_probability(hard, moves, limits, tails, promise.delta)
    return Chain(along.means + steps[:, None] * along.direction, hard, tails, chance)


def likely_chain(promise: Promise, along: Route, probability: float = 0.5) -> Chain | None:
    """The longest chain that has this probability; None if not even N = 1."""
    last = None
    for number in range(1, 1001):
        found = best_chain(promise, along, number)
        if found.probability < probability:
            break
        last = found
    return last


def least_batches(promise: Promise, along: Route | None) -> float:
    """A lower bound on E[R]: 1 + sum over N >= 1 of P(R > N), each by the better of its chain and the affine one."""
    if along is None:
        return expected_batches(promise)
    found = 1.0
    for number in range(1, 1001):
        chance = max(best_chain(promise, along, number).probability, affine_certificate(promise, number).probability)
        if chance == 0:
            break
        found += chance
    return found


def _table(problem: Problem, means: Floats, found: Easing, easiest: float, complexity: float) -> Floats:
    """Steps t, dense where T* has hardly fallen yet; the last one is where T* is T_min or just above."""
    low, high = 0.0, (math.sqrt(complexity / easiest) - 1) / found.rate  # there T* is T_min or less
    for _ in range(60):
        middle = (low + high) / 2
        hard = problem.question.complexity(means + middle * found.direction, sigma=problem.sigma).value
        low, high = (middle, high) if hard >= easiest else (low, middle)
    if low == 0:
        return np.zeros(1)
    return np.concatenate([[0.0], np.geomspace(min(1e-6 / found.rate, low / 2), low, POINTS - 1)])


def _loss(promise: Promise, along: Route, logs: Floats, tails: Floats) -> Floats:
    """The losses of the chain but 2 delta N, from ln T*_n, n = 0..N-1, and c_n. (N),(N)->()"""
    rate = promise.gamma * promise.confidence
    drawn = np.cumsum(rate * np.exp(logs) / (tails if promise.tail is None else 1.0), axis=-1)  # X_n
    ends = np.concatenate([logs, np.broadcast_to(along.logs[0], (*logs.shape[:-1], 1))], axis=-1)
    steps = along.at(ends)
    told = np.sqrt(drawn / (2 * np.exp(ends[..., 1:])))
    moved = np.sqrt(drawn[..., :-1]) * (steps[..., 1:-1] - steps[..., 2:]) / (2 * along.problem.sigma)
    return np.asarray(tails.sum(axis=-1) + told.sum(axis=-1) + moved.sum(axis=-1))


def _geometric(promise: Promise, along: Route, batches: int) -> tuple[Floats, Floats]:
    """The best geometric complexities, and one tail for all: as the affine chain, but along the path."""
    falls = np.geomspace(1e-3, 1.0, 200) * (along.logs[0] - along.logs[-1]) / batches
    logs = along.logs[0] - falls[:, None] * np.arange(batches, 0, -1)
    if promise.tail is not None:
        tails = np.full(logs.shape, promise.tail)
    else:  # loss = N c + A / sqrt(c)
        need = _loss(promise, along, logs, np.ones(logs.shape)) - batches
        tails = np.minimum(1.0, (need / (2 * batches)) ** (2 / 3))[:, None] * np.ones(batches)
    best = int(_loss(promise, along, logs, tails).argmin())
    return logs[best], tails[best]


def _searched(promise: Promise, along: Route, start: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Better complexities and tails near these: each fall of ln T* and each tail is free."""
    from scipy.optimize import minimize

    logs, tails = start
    number, top = len(logs), along.logs[0]
    room = top - along.logs[-1]
    free = promise.tail is None

    def unpacked(x: Floats) -> tuple[Floats, Floats]:
        falls = np.exp(x[..., :number])
        falls = falls * np.minimum(1.0, room / falls.sum(axis=-1, keepdims=True))
        ends = top - np.cumsum(falls[..., ::-1], axis=-1)[..., ::-1]
        return ends, np.exp(x[..., number:]) if free else np.broadcast_to(tails, ends.shape)

    def value(x: Floats) -> tuple[float, Floats]:
        nudged = np.vstack([x, x + 1e-6 * np.eye(len(x))])
        found = _loss(promise, along, *unpacked(nudged))
        return float(found[0]), (found[1:] - found[0]) / 1e-6

    falls = -np.diff(np.append(logs, top))
    x = np.log(np.concatenate([-falls, tails]) if free else -falls)
    found = minimize(
        value, x, jac=True, method="L-BFGS-B", bounds=[(-30.0, None)] * number + [(-30.0, 0.0)] * free * number
    )
    better = unpacked(found.x) if found.fun < _loss(promise, along, *start) else start
    return np.asarray(better[0]), np.asarray(better[1])
