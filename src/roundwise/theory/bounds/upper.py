"""What PET is promised to pay: batches and samples (Section 3.4, Appendix C).

The argument, for the PET that we run (phases r = 0, 1, ..., pulls rounded up, any growth, exploration and threshold):

- In phase r let E_r be the event that the means after the first batch lie within eps_r of the truth, and the
  means after the second, if there is one, within eps_r of those (Definition 3.6). It fails with probability at
  most 3 p_r, p_r = T_(r+1)^-2. (Lemma C.2 says p_r, but bounds another event; see docs/bounds.md.)
- If E_r holds and the second batch is made, PET stops: gamma_r is at least the threshold after all pulls that there
  can be (Lemmas 3.4 and 3.7). So at most one second batch is made in a phase where E_r holds. (With a tolerance: the
  batch is sized for one answer that is right all over the ball, and the rule stops on the largest evidence.)
- From the settled phase r* on, where the worst case within 2 eps_r of the truth is at most T_r, E_r makes PET
  enter the second batch. So it goes beyond r* only through phases where E_r fails.

Hence with F the set of phases where E_r fails, U_r = ceil(2^r l_1r) and V_r = gamma_r T_r + K:
    R   <= r* + 2 + |F| + |F from r* on|
    tau <= K U_r* + V_r* + sum over F of V_r + sum over F from r* on of (K U_(r+1) - K U_r + V_(r+1) - V_r).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from numpy.typing import ArrayLike

from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.policies import PET
from roundwise.rules import GLR, Lemma32, Lemma32ByCounts
from roundwise.theory.bounds.affine import one_instance
from roundwise.theory.bounds.lower import Constants, stated_for

FAILURE = 3.0  # P(E_r fails) <= 3 p_r


@dataclass(frozen=True)
class Cost:
    """Batches and samples."""

    batches: float
    samples: float


def estimation_radius(complexity: float, sigma: float = 1.0, constants: Constants = "proved") -> float:
    """b(mu) of Assumption 3.8: within b the complexity is known up to a factor e.

    Proved, for every question: sqrt(2) tanh(1/4) sigma / sqrt(T*), and no larger one serves two arms (docs/bounds.md).
    Stated: sqrt(sigma^2 / (8 T*)) (Lemma 3.10), which is too large by 2 %.
    """
    if constants == "stated":
        return sigma / math.sqrt(8 * complexity)
    return math.sqrt(2) * math.tanh(1 / 4) * sigma / math.sqrt(complexity)


def estimable_complexity(complexity: float, radius: float, sigma: float = 1.0) -> float:
    """T*_b = max{sigma^2 / b^2, 2 e T*} (Theorem 3.11): 8.3354 T*, and 8 T* with the b of Lemma 3.10."""
    return max((sigma / radius) ** 2, 2 * math.e * complexity)


def worst_case(complexity: float, radius: float, sigma: float = 1.0) -> float:
    """A bound on Tbar* over a ball around the means: T* / (1 - u)^2, u = radius sqrt(T* / (2 sigma^2)).

    It holds for every question, by the triangle inequality in the norm with the weights w* (docs/bounds.md): with or
    without half-spaces, Assumption 3.9 or a tolerance. Two arms have equality.
    """
    share = radius * math.sqrt(complexity / 2) / sigma
    return complexity / (1 - share) ** 2 if share < 1 else math.inf


def best_case(complexity: float, radius: float, sigma: float = 1.0) -> float:
    """A lower bound on T* all over a ball around the means: T* / (1 + u)^2, for the u < 1 of `worst_case`."""
    share = radius * math.sqrt(complexity / 2) / sigma
    return complexity / (1 + share) ** 2 if share < 1 else 0.0


def settled_phase(policy: PET, problem: Problem, means: ArrayLike) -> int:
    """r*: from this phase on the worst case within 2 eps_r of the means is at most T_r (Lemma 3.7)."""
    values = one_instance(means)
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    if math.isinf(complexity):
        raise InputError("The complexity is infinite: the means lie on the border of two answers.")
    r = settled_by_complexity(policy, complexity)
    while r > 0 and _settles(policy, problem, values, r - 1):
        r -= 1
    return r


def settled_by_complexity(policy: PET, complexity: float) -> int:
    """A bound on r* for every instance of this complexity: the first phase with T_r >= 9/4 T*.

    9/4 is (1 + sqrt(8/exploration))^2: `worst_case` at 2 eps_r = 4 sigma / sqrt(exploration T_r), solved for T_r.
    """
    needed = (1 + math.sqrt(8 / policy.exploration)) ** 2 * complexity
    return max(0, math.ceil(math.log(needed / policy.guess) / math.log(policy.growth) + 1e-12))


def failure_bound(policy: PET, r: int) -> float:
    """3 p_r, which bounds the probability that E_r fails."""
    return FAILURE * (policy.guess * policy.growth ** (r + 1)) ** -2


def pull_limit(policy: PET, problem: Problem, r: int) -> float:
    """tbar_r: all pulls that there can be up to the end of phase r (docs/paper.md, deviation 1)."""
    rate = policy.growth / (policy.growth - 1) * policy.guess * policy.growth**r
    return problem.arms * (_uniform(policy, problem, r) + r + 1) + rate * policy.sufficient(problem, r)


def evidence_bound(policy: PET, problem: Problem, r: int) -> float:
    """gamma_r <= 4 ln(1/delta) + 8 K ln T_r + 4 K (11 + ln K) (Lemma B.6, for the paper's constants)."""
    if not _as_in_paper(policy):
        raise InputError("The closed form of gamma_r is for growth 2, exploration 32 and the threshold of Lemma 3.2.")
    guess = policy.guess * 2.0**r
    arms = problem.arms
    return 4 * -math.log(problem.delta) + 8 * arms * math.log(guess) + 4 * arms * (11 + math.log(arms))


def phase_cost(policy: PET, problem: Problem, settled: int, failures: Collection[int] = ()) -> Cost:
    """What PET pays at most if E_r fails in just these phases (Lemma 3.7, proved for r from 0)."""
    last = max([settled, *failures])
    return _cost(policy, problem, settled, lambda r: float(r in failures), last)


def stated_phase_cost(
    policy: PET, problem: Problem, complexity: float, settled: int, failures: Collection[int] = ()
) -> Cost:
    """Lemma 3.7 as stated: 2 R* - log2(T*/T_0) + 1 + 2 |F| batches, tbar_R* + sum of tbar_(r+1) samples."""
    batches = 2 * settled - math.log2(complexity / policy.guess) + 1 + 2 * len(failures)
    later = sum(pull_limit(policy, problem, r + 1) for r in failures if r >= settled)
    return Cost(batches, pull_limit(policy, problem, settled) + later)


def upper_bounds(policy: PET, problem: Problem, means: ArrayLike) -> Cost:
    """Bounds on E[R] and E[tau] of our PET at these means (Theorem 3.11, proved form: the module's docstring)."""
    return expected_cost(policy, problem, settled_phase(policy, problem, means))


def expected_cost(policy: PET, problem: Problem, settled: int) -> Cost:
    """Bounds on E[R] and E[tau] of our PET wherever r* is at most `settled`."""
    return _cost(policy, problem, settled, lambda r: failure_bound(policy, r), None)


def stated_upper_bounds(policy: PET, problem: Problem, complexity: float) -> Cost | None:
    """Theorem 3.11 as stated, with T*_b = 8 T*; None where it does not apply.

    That is where T_0 > T*_b, for other constants, with a tolerance (the paper has one right answer), and for other
    questions than best arm, top-k and thresholding: of those alone it proves Assumption 3.9, from which T*_b follows.

    log2(T*_b/T_0) + log2(T*_b/T*) + 2 batches;
    4 ln(1/delta) (T*_b + 1/T_0) + 20 K (ln K + 4) (T*_b + 1/T_0) + 48 K (T*_b ln T*_b + ln(4 T_0)/T_0) samples.
    """
    known = estimable_complexity(complexity, estimation_radius(complexity, constants="stated"))
    first, arms = policy.guess, problem.arms
    if first > known or not _as_in_paper(policy) or not stated_for(problem.question):
        return None
    each = 4 * -math.log(problem.delta) + 20 * arms * (math.log(arms) + 4)
    return Cost(
        math.log2(known / first) + math.log2(known / complexity) + 2,
        each * (known + 1 / first) + 48 * arms * (known * math.log(known) + math.log(4 * first) / first),
    )


def promised_gamma(policy: PET, problem: Problem, easiest: float, complexity: float) -> float:
    """The gamma that PET is proved to keep for all T* from `easiest` to `complexity`.

    The bound on E[tau] depends on T* through the settled phase only: it is largest against T* where a phase begins.
    """
    if not 0 < easiest <= complexity:
        raise InputError(f"`easiest` is {easiest:g}, but must be positive and at most T* = {complexity:.6g}.")
    first, last = (settled_by_complexity(policy, each) for each in (easiest, complexity))
    needed = (1 + math.sqrt(8 / policy.exploration)) ** 2
    ratios = []
    for r in range(first, last + 1):
        begins = policy.guess * policy.growth ** (r - 1) / needed if r > 0 else 0.0
        ratios.append(expected_cost(policy, problem, r).samples / max(begins, easiest))
    return max(ratios) / -math.log(problem.delta)


def _cost(policy: PET, problem: Problem, settled: int, failure: Callable[[int], float], last: int | None) -> Cost:
    """The two sums of the module's docstring, with a weight for each phase in F; to convergence if `last` is None."""
    batches, samples = settled + 2.0, sum(_paid(policy, problem, settled))
    r = 0
    while True:
        weight = failure(r)
        uniform, second = _paid(policy, problem, r)
        more_batches, more_samples = weight, weight * second
        if r >= settled:
            more_batches += weight
            more_samples += weight * (sum(_paid(policy, problem, r + 1)) - uniform - second)
        batches, samples = batches + more_batches, samples + more_samples
        r += 1
        if r > last if last is not None else r > settled and more_samples < 1e-13 * samples:
            return Cost(batches, samples)


def _paid(policy: PET, problem: Problem, r: int) -> tuple[float, float]:
    """K U_r and V_r."""
    second = policy.sufficient(problem, r) * policy.guess * policy.growth**r + problem.arms
    return problem.arms * _uniform(policy, problem, r), second


def _uniform(policy: PET, problem: Problem, r: int) -> float:
    return float(math.ceil(policy.explored(problem, float(r))))


def _settles(policy: PET, problem: Problem, means: ArrayLike, r: int) -> bool:
    radius = 2 * float(policy.radius(problem, float(r)))
    worst = float(problem.question.complexity(means, radius, problem.sigma).value)
    return worst * (1 + 1e-6) <= policy.guess * policy.growth**r  # room for the solver's rounding


def _as_in_paper(policy: PET) -> bool:
    constants = (policy.growth, policy.exploration) == (2.0, 32.0)
    return constants and policy.stopping in (GLR(Lemma32()), GLR(Lemma32ByCounts()))
