"""Bounds beside measurements, over instances from easy to hard: the data of the figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.policies import PET, Policy
from roundwise.simulation.environments import GaussianArms
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import standard_error
from roundwise.theory.bounds.affine import centre, moved, one_instance
from roundwise.theory.bounds.lower import Promise, promise, stated_closed_form
from roundwise.theory.bounds.sequence import least_batches, route
from roundwise.theory.bounds.upper import stated_upper_bounds, upper_bounds


@dataclass(frozen=True, eq=False)
class MeasuredCurve:
    """One policy on instances of the same shape, from easy to hard."""

    complexities: Floats  # T*
    batches: Floats  # mean of R
    batches_se: Floats
    samples: Floats  # mean of tau
    delta: float

    @property
    def gamma(self) -> float:
        """The largest mean of tau / (T* ln(1/delta)): what the policy was seen to keep on these instances."""
        return float((self.samples / self.complexities).max() / -math.log(self.delta))


def measured(
    policy: Policy, problem: Problem, means: ArrayLike, complexities: ArrayLike, runs: int = 1000, seed: int = 1
) -> MeasuredCurve:
    """Simulate a policy on the means moved away from (or towards) their centre until T* has these values."""
    values, wanted = one_instance(means), np.asarray(complexities, dtype=np.float64)
    batches, errors, samples = (np.empty(len(wanted)) for _ in range(3))
    for i, instance in enumerate(scaled(problem, values, wanted)):
        world = GaussianArms(instance, problem.sigma)
        (found,) = simulate(
            problem.question, world, [policy], runs=runs, delta=problem.delta, noise=problem.noise, seed=seed
        )
        batches[i], errors[i] = found.batches.mean(), standard_error(found.batches)
        samples[i] = found.samples.mean()
    return MeasuredCurve(wanted, batches, errors, samples, problem.delta)


def scaled(problem: Problem, means: ArrayLike, complexities: ArrayLike) -> Floats:
    """The means moved along their affine sequence until T* has these values, (number, K)."""
    values = one_instance(means)
    middle = centre(problem.question, values)
    if middle is None:
        raise InputError("These means have no affine sequence of easier instances, so there is no curve to draw.")
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    factors = np.sqrt(complexity / np.asarray(complexities, dtype=np.float64))
    if problem.question.tolerance and (factors < 1 - 1e-9).any():
        raise InputError(
            "With a tolerance instances can be made easier only: ask for complexities of at most "
            f"T* = {complexity:.6g}."
        )
    return np.stack([moved(values, middle, factor) for factor in factors])


@dataclass(frozen=True, eq=False)
class BatchCurve:
    """Batches against T*/T_min: what any algorithm needs, what PET needed, what PET is promised to need."""

    problem: Problem
    easiest: float  # T_min
    pet: MeasuredCurve
    lower: Floats  # on E[R], for algorithms as sample-efficient as PET was measured to be
    lower_stated: Floats  # Theorem 2.3 as stated; NaN where it is not
    upper: Floats
    upper_stated: Floats  # Theorem 3.11 as stated; NaN where it does not apply


def batch_curve(
    problem: Problem,
    means: ArrayLike,
    complexities: ArrayLike,
    policy: PET | None = None,
    runs: int = 1000,
    seed: int = 1,
) -> BatchCurve:
    """Both bounds and a simulation for instances of the same shape with these complexities; T_min is PET's T_0."""
    policy = PET() if policy is None else policy
    wanted = np.asarray(complexities, dtype=np.float64)
    pet = measured(policy, problem, means, wanted, runs, seed)
    points = scaled(problem, means, wanted)
    promises = [_promise(problem, each, policy.guess, pet.gamma) for each in points]
    stated = [stated_upper_bounds(policy, problem, float(each)) for each in wanted]
    return BatchCurve(
        problem,
        policy.guess,
        pet,
        np.array(
            [least_batches(each, route(problem, at, policy.guess)) for each, at in zip(promises, points, strict=True)]
        ),
        np.array([_stated(problem, each, policy.guess, pet.gamma) for each in points]),
        np.array([upper_bounds(policy, problem, each).batches for each in points]),
        np.array([math.nan if each is None else each.batches for each in stated]),
    )


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Batches against gamma on one instance: the lower bound, and policies that buy batches with samples."""

    promise: Promise  # for the largest gamma
    gammas: Floats
    lower: Floats  # on E[R]
    lower_stated: Floats  # NaN where the paper does not state it
    points: dict[str, tuple[float, float]]  # policy: gamma and batches, measured


def trade_off(
    problem: Problem,
    means: ArrayLike,
    easiest: float,
    growths: Sequence[float] = (1.5, 2, 4, 8, 16, 32),
    runs: int = 300,
    seed: int = 1,
    number: int = 25,
) -> TradeOff:
    """PET with several growths at these means, and what no algorithm with the same gamma can stay below.

    Gamma is the largest that was measured at `number` complexities from T_min to T*.
    """
    values = one_instance(means)
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    if not easiest < complexity < math.inf:
        raise InputError(f"T* is {complexity:.6g}, but must be finite and above T_min = {easiest:g}.")
    grid = np.geomspace(easiest, complexity, number)
    points = {}
    for growth in growths:
        seen = measured(PET(guess=easiest, growth=growth), problem, values, grid, runs, seed)
        points[f"growth {growth:g}"] = (seen.gamma, float(seen.batches[-1]))
    least = (1 - 2 * problem.delta) * math.log(1 / problem.delta - 1) / -math.log(problem.delta)
    gammas = np.geomspace(max(least, 1e-3), 2 * max(gamma for gamma, _ in points.values()), 60)
    first = _promise(problem, values, easiest, float(gammas[-1]))
    promises = [replace(first, gamma=float(gamma)) for gamma in gammas]
    along = route(problem, values, easiest)
    return TradeOff(
        first,
        gammas,
        np.array([least_batches(each, along) for each in promises]),
        np.array([_stated(problem, values, easiest, float(gamma)) for gamma in gammas]),
        points,
    )


def _stated(problem: Problem, means: Floats, easiest: float, gamma: float) -> float:
    found = stated_closed_form(problem, means, easiest, gamma)
    return math.nan if found is None else found.expected


def _promise(problem: Problem, means: Floats, easiest: float, gamma: float) -> Promise:
    found = promise(problem, means, easiest, gamma)
    assert found is not None  # `scaled` has found a centre
    return found
