"""All bounds for one instance, side by side."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from roundwise.errors import InputError
from roundwise.policies import PET
from roundwise.problem import Problem
from roundwise.simulation.summary import lower_bound_at, several_right
from roundwise.theory.bounds.affine import Centre, centre, one_instance
from roundwise.theory.bounds.lower import (
    Certificate,
    ClosedForm,
    Promise,
    affine_certificate,
    certificate,
    closed_form,
    expected_batches,
    promise,
)
from roundwise.theory.bounds.upper import (
    Cost,
    estimable_complexity,
    estimation_radius,
    expected_cost,
    promised_gamma,
    settled_phase,
    stated_upper_bounds,
)

SEVERAL = "several answers are right here, and the bound is proved for instances with one"


@dataclass(frozen=True, eq=False)
class Overview:
    """What any algorithm must pay on an instance, and what PET is promised to pay."""

    complexity: float  # T*
    estimation_radius: float  # b
    estimable_complexity: float  # T*_b
    sample_lower: float
    centre: Centre | None
    constant_centre: Centre | None  # as Assumption 2.2 has it
    promise: Promise | None
    gamma_given: bool  # or else what PET is proved to keep
    certificate: Certificate | None  # the largest N with probability 1/2
    expected_batches: float
    proved: ClosedForm | None
    stated: ClosedForm | None
    vacuous: str | None  # why the lower bound on batches says nothing, or None
    settled_phase: int  # r*
    upper: Cost
    stated_upper: Cost | None

    def plain(self) -> dict[str, Any]:
        """The overview as JSON."""
        return {
            "complexity": self.complexity,
            "estimation_radius": self.estimation_radius,
            "estimable_complexity": self.estimable_complexity,
            "affine_scaling": {
                "centre": None if self.centre is None else self.centre.values.tolist(),
                "spread": None if self.centre is None else self.centre.spread,
                "constant": None if self.constant_centre is None else float(self.constant_centre.values[0]),
            },
            "promise": None if self.promise is None else {**asdict(self.promise), "given": self.gamma_given},
            "samples": {
                "lower": self.sample_lower,
                "upper": self.upper.samples,
                "upper_as_stated": None if self.stated_upper is None else self.stated_upper.samples,
            },
            "batches": {
                "lower": self.expected_batches,
                "lower_closed_form": None if self.proved is None else self.proved.expected,
                "lower_as_stated": None if self.stated is None else self.stated.expected,
                "certificate": None if self.certificate is None else asdict(self.certificate),
                "vacuous": self.vacuous,
                "upper": self.upper.batches,
                "upper_as_stated": None if self.stated_upper is None else self.stated_upper.batches,
            },
            "settled_phase": self.settled_phase,
        }


def overview(
    problem: Problem,
    means: ArrayLike,
    policy: PET | None = None,
    easiest: float | None = None,
    gamma: float | None = None,
    tail: float | None = None,
) -> Overview:
    """All bounds for these means: gamma is by default what PET is proved to keep, T_min its first guess T_0.

    >>> from roundwise import BestArm
    >>> found = overview(Problem(BestArm(), arms=2), [0.1, 0.0])
    >>> round(found.sample_lower), round(found.upper.batches, 2)
    (2120, 14.0)
    """
    values = one_instance(means)
    policy = PET() if policy is None else policy
    easiest = policy.guess if easiest is None else easiest
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    if math.isinf(complexity):
        raise InputError(
            "The complexity is infinite: the means lie on the border of two answers, so every bound is infinite too."
        )
    if not (easiest > 0 and math.isfinite(easiest)):
        raise InputError(f"`easiest` (T_min) is {easiest:g}, but must be a positive number.")
    if gamma is None and tail is not None:
        raise InputError(
            "A tail goes with a gamma: give both, or neither to use the average that PET is proved to keep."
        )
    is_given = gamma is not None
    if gamma is None:
        gamma = promised_gamma(policy, problem, min(easiest, complexity), complexity)
    given = promise(problem, values, easiest, gamma, tail)
    radius = estimation_radius(complexity, problem.sigma)
    settled = settled_phase(policy, problem, values)
    return Overview(
        complexity,
        radius,
        estimable_complexity(complexity, radius, problem.sigma),
        float(lower_bound_at(problem.question, values, problem.delta, problem.sigma)),
        centre(problem.question, values),
        centre(problem.question, values, constant=True),
        given,
        is_given,
        None if given is None else certificate(given),
        1.0 if given is None else expected_batches(given),
        None if given is None else closed_form(given),
        None if given is None else closed_form(given, "stated"),
        SEVERAL if several_right(problem.question, values) else vacuity(given),
        settled,
        expected_cost(policy, problem, settled),
        stated_upper_bounds(policy, problem, complexity),
    )


def vacuity(promise: Promise | None) -> str | None:
    """Why the lower bound on batches says nothing but "at least one", or None."""
    if promise is None:
        return "no point lies on the border of every wrong answer, so there is no affine sequence of easier instances"
    if promise.range <= 1:
        return (
            f"T* = {promise.complexity:.6g} is not above T_min = {promise.easiest:g}: "
            "nothing is promised on easier instances"
        )
    if affine_certificate(promise, 1).probability > 0:
        return None
    if promise.delta >= 0.5:
        return f"delta = {promise.delta:g}: an answer by chance may be good enough"
    return (
        f"T*/T_min = {promise.range:.3g} is too small for gamma = {promise.gamma:.3g}: "
        "what the promise allows on the easiest instance is enough to answer this one in one batch"
    )
