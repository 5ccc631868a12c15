"""All bounds for one instance, side by side."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from numpy.typing import ArrayLike

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.policies import PET
from roundwise.questions.lower_bounds import lower_bound_at
from roundwise.theory.bounds import affine
from roundwise.theory.bounds.affine import Centre, hardest_corner, has_border, one_instance
from roundwise.theory.bounds.lower import (
    Certificate,
    ClosedForm,
    Promise,
    affine_certificate,
    certificate,
    closed_form,
    expected_batches,
    promise,
    stated_closed_form,
)
from roundwise.theory.bounds.sequence import Chain, least_batches, likely_chain, route
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Overview:
    """What any algorithm must pay on an instance, and what PET is promised to pay."""

    complexity: float  # T*
    estimation_radius: float  # b(mu)
    estimable_complexity: float  # T*_b
    hardest: Floats | None  # the corner b of the ball of that radius with T*(b) = Tbar* (Lemma 3.12), if there is one
    sample_lower: float
    centre: Centre | None
    constant_centre: Centre | None  # as Assumption 2.2 has it
    promise: Promise | None
    gamma_given: bool  # or else what PET is proved to keep
    certificate: Certificate | None  # the largest N with probability 1/2 on the affine sequence
    chain: Chain | None  # the same on the best sequence
    expected_batches: float  # of the best sequences
    affine_batches: float  # of the affine ones
    proved: ClosedForm | None
    stated: ClosedForm | None  # where the paper states it
    vacuous: str | None  # why the lower bound on batches says nothing, or None
    settled_phase: int  # r*
    upper: Cost
    stated_upper: Cost | None  # where the paper states it

    def plain(self) -> Plain:
        """The overview as JSON."""
        return {
            "complexity": self.complexity,
            "estimation_radius": self.estimation_radius,
            "estimable_complexity": self.estimable_complexity,
            "hardest": None if self.hardest is None else self.hardest.tolist(),
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
                "lower_affine": self.affine_batches,
                "certificate": None if self.certificate is None else asdict(self.certificate),
                "chain": None
                if self.chain is None
                else {
                    "batches": self.chain.batches,
                    "probability": self.chain.probability,
                    "instances": self.chain.instances.tolist(),
                    "complexities": self.chain.complexities.tolist(),
                    "tails": self.chain.tails.tolist(),
                },
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
    centre: Centre | None = None,
) -> Overview:
    """All bounds for these means: gamma is by default what PET is proved to keep, T_min its first guess T_0.

    For a question of your own, too: where its border is not known, and no centre is given, the lower bound on batches
    says nothing, and all else is there.

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
    bordered = has_border(problem.question, values)
    known = affine.centre(problem.question, values) if bordered else None
    is_given = gamma is not None
    if gamma is None:
        gamma = promised_gamma(policy, problem, min(easiest, complexity), complexity)
    given = promise(problem, values, easiest, gamma, tail, centre)
    along = route(problem, values, easiest) if given is not None else None
    radius = estimation_radius(complexity, problem.sigma)
    settled = settled_phase(policy, problem, values)
    return Overview(
        complexity=complexity,
        estimation_radius=radius,
        estimable_complexity=estimable_complexity(complexity, radius, problem.sigma),
        hardest=hardest_corner(problem.question, values, radius),
        sample_lower=float(lower_bound_at(problem.question, values, problem.delta, problem.sigma)),
        centre=known if centre is None else centre,
        constant_centre=affine.centre(problem.question, values, constant=True) if bordered else None,
        promise=given,
        gamma_given=is_given,
        certificate=None if given is None else certificate(given),
        chain=None if given is None or along is None else likely_chain(given, along),
        expected_batches=1.0 if given is None else least_batches(given, along),
        affine_batches=1.0 if given is None else expected_batches(given),
        proved=None if given is None else closed_form(given),
        stated=stated_closed_form(problem, values, easiest, gamma, tail),
        vacuous=_why(problem, values, given, bordered),
        settled_phase=settled,
        upper=expected_cost(policy, problem, settled),
        stated_upper=stated_upper_bounds(policy, problem, complexity),
    )


def _why(problem: Problem, means: Floats, given: Promise | None, bordered: bool) -> str | None:
    if problem.question.count_right_answers(means) > 1:
        return SEVERAL
    if given is None and not bordered:
        return f"the border of the question '{problem.question.name}' is not known; give a centre if there is one"
    return vacuity(given)


def vacuity(promise: Promise | None) -> str | None:
    """Why the lower bound on batches says nothing but "at least one", or None."""
    if promise is None:
        return "no point lies on the border of every wrong answer, and in no direction do all of them get farther away"
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
