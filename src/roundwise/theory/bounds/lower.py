"""How many batches any sample-efficient algorithm needs (Section 2 and Appendix A).

The chain. Take instances mu^0, ..., mu^N, each harder than the one before. An algorithm that is frugal on mu^n
makes a small (n+1)-st batch there. If it cannot tell mu^n from mu^(n+1) yet, that batch is as small on mu^(n+1),
and what it holds then is too little to answer on mu^(n+1): it must make another. Hence it makes more than N
batches on mu^N.

With a_n = P_n(R >= n+1, and the first n batches hold at most X_(n-1) samples), X_n = x_0 + ... + x_n, a_0 = 1:
    from a_n to P_(n+1)(R >= n+1, n+1 batches hold at most X_n)
                       costs c_n + sqrt(X_(n-1) D_n / 2)            (Lemma A.2 and Pinsker's inequality),
    from there to a_(n+1)
                       costs 2 delta + sqrt(X_n / (2 T*_(n+1)))     (Lemma A.4),
where c_n bounds P_n(tau > x_n) and D_n = max_i (mu_i^(n+1) - mu_i^n)^2 / (2 sigma^2). The paper applies the two
lemmas in the other order, which gives P(R >= N), not the P(R > N) that it states (docs/bounds.md).

What is asked of the algorithm: delta-correct on every Gaussian instance (the proof compares with alternatives as
near as one likes), and frugal on the easier instances mu^0, ..., mu^(N-1) only. Each instance has one right answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.errors import InputError, unknown
from roundwise.model.problem import Problem, check_delta
from roundwise.questions import Question
from roundwise.questions.lower_bounds import sample_lower_bound
from roundwise.theory.bounds import affine
from roundwise.theory.bounds.affine import Centre, checked_centre, easing, has_border, one_instance

Constants = Literal["proved", "stated"]
NAMED = ("best-arm", "top-k", "above")  # for which the paper states Theorem 2.3 and proves Assumption 3.9


@dataclass(frozen=True)
class Promise:
    """What is promised of an algorithm's samples, and for which instance batches are counted.

    On every Gaussian instance with complexity between `easiest` and `complexity`, the algorithm is promised to
    need at most gamma T* ln(1/delta) samples: on average, or, if `tail` is given, up to that probability.
    """

    complexity: float  # T*(mu)
    easiest: float  # T_min
    gamma: float
    delta: float
    reach: float  # sqrt(T* Delta^2 / (2 sigma^2)): the spread of the means against the nearest wrong answer
    tail: float | None = None  # c

    def __post_init__(self) -> None:
        check_delta(self.delta)
        for name in ("complexity", "easiest", "gamma"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"`{name}` is {value:g}, but must be a positive number.")
        if not (self.reach >= 0 and math.isfinite(self.reach)):
            raise InputError(f"`reach` is {self.reach:g}, but must be a number of at least 0.")
        if self.tail is not None and not 0 <= self.tail < 1:
            raise InputError(f"`tail` is {self.tail:g}, but is a probability: at least 0 and below 1.")

    @property
    def range(self) -> float:
        """T* / T_min."""
        return self.complexity / self.easiest

    @property
    def confidence(self) -> float:
        """ln(1/delta)."""
        return -math.log(self.delta)

    @property
    def possible(self) -> bool:
        """Whether a delta-correct algorithm could keep it: an average below T* kl(delta, 1-delta) is impossible."""
        needed = float(sample_lower_bound(1.0, self.delta))
        return self.tail is not None or self.gamma * self.confidence >= needed


def promise(
    problem: Problem,
    means: ArrayLike,
    easiest: float,
    gamma: float,
    tail: float | None = None,
    centre: Centre | None = None,
) -> Promise | None:
    """The promise for an instance of a question, or None if there is nothing to move away from.

    The instances move away from the centre, yours or that of the question; where there is none, in the direction of
    `easing`, in which every distance grows by 1 + rate t or more, as if from a centre at the distance 1/rate.
    """
    values = one_instance(means)
    complexity = float(problem.question.complexity(values, sigma=problem.sigma).value)
    if math.isinf(complexity):
        raise InputError("The complexity is infinite: the means lie on the border of two answers.")
    spread = _spread(problem.question, values, centre)
    if spread is None:
        return None
    return Promise(complexity, easiest, gamma, problem.delta, math.sqrt(complexity / 2) * spread / problem.sigma, tail)


def _spread(question: Question, means: Floats, given: Centre | None) -> float | None:
    """How far the farthest mean is from the centre, or None."""
    if given is not None:
        return checked_centre(question, means, given).spread
    found = affine.centre(question, means) if has_border(question, means) else None
    if found is not None:
        return found.spread
    eased = easing(question, means)
    return None if eased is None else 1 / eased.rate


def chain_probability(
    complexities: ArrayLike, moves: ArrayLike, limits: ArrayLike, tails: ArrayLike, delta: float
) -> float:
    """The probability that more than N batches are used on the last of N+1 instances (Lemma A.6, proved form).

    `complexities` T*(mu^n), n = 0..N; `moves` D_n; `limits` x_n and `tails` c_n >= P_n(tau > x_n), n = 0..N-1.
    """
    check_delta(delta)
    hard = np.asarray(complexities, dtype=np.float64)
    steps, limits, tails = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), (len(hard) - 1,)) for each in (moves, limits, tails)
    )
    if not ((hard > 0).all() and (steps >= 0).all() and (limits >= 0).all() and (tails >= 0).all()):
        raise InputError("A chain needs positive complexities, and moves, limits and tails of at least 0.")
    drawn = np.cumsum(limits)  # X_n
    before = drawn - limits  # X_(n-1)
    losses = 2 * delta + tails + np.sqrt(drawn / (2 * hard[1:])) + np.sqrt(before * steps / 2)
    return max(0.0, 1.0 - float(losses.sum()))


def sequence_probability(
    question: Question, means: ArrayLike, limits: ArrayLike, tails: ArrayLike, delta: float, sigma: float = 1.0
) -> float:
    """The same for a sequence of instances that you give, (N+1, K), the easiest first."""
    array = np.asarray(means, dtype=np.float64)
    if array.ndim != 2:
        raise InputError("Give the sequence of instances as rows: shape (N+1, K), the easiest first.")
    if (several := question.count_right_answers(array) > 1).any():
        raise InputError(
            f"Instance {int(several.argmax())} of the sequence has several right answers within the tolerance; the "
            "lower bound on batches is proved for one. Give instances whose best arm leads by more than the tolerance."
        )
    complexities = question.complexity(array, sigma=sigma).value
    moves = (np.diff(array, axis=0) ** 2).max(axis=1) / (2 * sigma**2)
    return chain_probability(complexities, moves, limits, tails, delta)


def geometric_probability(
    easiest: float, ratio: float, moves: ArrayLike, gamma: float, tail: float, delta: float
) -> float:
    """Lemma 2.1: more than N batches, if T*(mu^n) = T*(mu^0) ratio^-n and tau <= gamma T* ln(1/delta) up to c.

    1 - N(2 delta + c) - sqrt(gamma ln(1/delta) / (2 (1/ratio - 1))) sum_n [1 + sqrt(T*(mu^0) ratio^-n D_n)].
    """
    check_delta(delta)
    steps = np.asarray(moves, dtype=np.float64)
    number = np.arange(len(steps))
    each = 1 + np.sqrt(easiest * ratio ** -number.astype(np.float64) * steps)
    factor = math.sqrt(gamma * -math.log(delta) / (2 * (1 / ratio - 1)))
    return max(0.0, 1.0 - len(steps) * (2 * delta + tail) - factor * float(each.sum()))


@dataclass(frozen=True)
class Certificate:
    """More than `batches` batches are used with at least this probability."""

    batches: int  # N
    probability: float
    ratio: float  # zeta: each instance of the sequence is this much easier than the next
    tail: float  # c, given or chosen


def affine_certificate(promise: Promise, batches: int) -> Certificate:
    """The best that the affine sequence says of P(R > N): the chain, maximised over zeta, and over c for averages.

    The losses but 2 delta + c add up to sqrt(gamma ln(1/delta)) g_N(zeta), so zeta minimises g_N on
    [(T_min/T*)^(1/N), 1). For a promise on the average, Markov's inequality puts gamma/c for gamma, and the
    best c is (sqrt(gamma ln(1/delta)) g_N / 2N)^(2/3).
    """
    if batches < 1 or batches != int(batches):
        raise InputError(f"`batches` is {batches:g}, but must be a whole number of at least 1.")
    if promise.range <= 1:
        return Certificate(batches, 0.0, 1.0, promise.tail or 0.0)
    first = promise.range ** (-1 / batches)
    ratios = np.concatenate([[first], np.linspace(first, 1.0, 200, endpoint=False)[1:]])
    losses = affine_losses(ratios, batches, promise.reach)
    least = int(losses.argmin())
    loss = float(losses[least]) * math.sqrt(promise.gamma * promise.confidence)
    tail = min(1.0, (loss / (2 * batches)) ** (2 / 3)) if promise.tail is None else promise.tail
    if promise.tail is None:
        loss /= math.sqrt(tail)
    probability = 1 - batches * (2 * promise.delta + tail) - loss
    return Certificate(batches, max(0.0, probability), float(ratios[least]), tail)


def affine_losses(ratios: Floats, batches: int, reach: float) -> Floats:
    """g_N(zeta): the square roots of the chain on the affine sequence, for gamma ln(1/delta) = 1.

    X_n / T*_(n+1) = zeta + ... + zeta^(n+1), and X_(n-1) D_n = (zeta + ... + zeta^n) (1 - sqrt(zeta))^2 reach^2.
    """
    powers = ratios[:, None] ** np.arange(1, batches + 1)
    drawn = np.cumsum(powers, axis=1)  # zeta + ... + zeta^(n+1), n = 0..N-1
    told = np.sqrt(drawn / 2).sum(axis=1)
    moved = reach * (1 - np.sqrt(ratios)) * np.sqrt((drawn - powers) / 2).sum(axis=1)
    return np.asarray(told + moved)


def certificates(promise: Promise) -> Iterator[Certificate]:
    """The certificates for N = 1, 2, ... (to 1000) as long as they say anything; their probabilities fall."""
    for number in range(1, 1001):
        found = affine_certificate(promise, number)
        if found.probability == 0:
            return
        yield found


def certificate(promise: Promise, probability: float = 0.5) -> Certificate | None:
    """The largest N that the affine sequence certifies with this probability; None if not even N = 1."""
    if not 0 < probability < 1:
        raise InputError(f"`probability` is {probability:g}, but must lie strictly between 0 and 1.")
    last = None
    for found in certificates(promise):
        if found.probability < probability:
            break
        last = found
    return last


def expected_batches(promise: Promise) -> float:
    """A lower bound on E[R]: 1 + sum over N >= 1 of the certified P(R > N); 1 says nothing."""
    return 1.0 + sum(found.probability for found in certificates(promise))


@dataclass(frozen=True)
class ClosedForm:
    """More than floor(limit) batches with probability at least 1/2, and the bound on the average that follows."""

    limit: float
    expected: float  # on E[R]
    reason: str | None  # why it says nothing, or None

    @property
    def batches(self) -> int:
        """N, a whole number; R > N is the same as R >= limit."""
        return math.floor(self.limit)


def stated_for(question: Question) -> bool:
    """Whether the paper states its theorems for this question: best arm, top-k or thresholding, one right answer."""
    return question.name in NAMED and not question.tolerance


def stated_closed_form(
    problem: Problem, means: ArrayLike, easiest: float, gamma: float, tail: float | None = None
) -> ClosedForm | None:
    """Theorem 2.3 as stated, or with a tail Lemma A.7; None where the paper states neither.

    The theorem is for best arm, top-k and thresholding, the lemma for questions with a number y (Assumption 2.2).
    """
    question, values = problem.question, one_instance(means)
    if question.tolerance or (tail is None and not stated_for(question)) or not has_border(question, values):
        return None
    number = affine.centre(question, values, constant=True)
    given = None if number is None else promise(problem, values, easiest, gamma, tail, number)
    return None if given is None else closed_form(given, "stated")


def closed_form(promise: Promise, constants: Constants = "proved") -> ClosedForm:
    """Theorem 2.3 (promise on the average) or Lemma A.7 (with a tail), with the proved or the stated constants.

    Let rho = T*/T_min and C = 1 + 4 gamma ln(1/delta) (1 + reach)^2. The limit is the smallest of
    ln rho / ln((ln rho)^2 max{e, C}) and, in Lemma A.7, 1/(8 (2 delta + c)) (stated: without the 8); in Theorem
    2.3, where gamma ln rho stands for gamma, ln(rho)/24 and 1/(24 delta) (stated: 3 for 24, and T* Delta^2/sigma^2
    for its half). E[R] >= 1 + floor(limit)/2 (stated: limit/2).
    """
    if constants not in ("proved", "stated"):
        raise unknown("set of constants", constants, ("proved", "stated"))
    stated = constants == "stated"
    log = math.log(promise.range)
    if log < 1:
        return ClosedForm(0.0, 0.0 if stated else 1.0, "T* is below e T_min, where Lemma A.5 does not apply")
    gamma, reach = promise.gamma, promise.reach
    if promise.tail is None:
        gamma *= log
        reach *= math.sqrt(2) if stated else 1.0
        share = 3 if stated else 24
        limits = {f"ln(T*/T_min)/{share}": log / share, f"1/({share} delta)": 1 / (share * promise.delta)}
    else:
        share = 1 if stated else 8
        name = "1/(2 delta + c)" if stated else "1/(8 (2 delta + c))"
        limits = {name: 1 / (share * (2 * promise.delta + promise.tail))}
    constant = 1 + 4 * gamma * promise.confidence * (1 + reach) ** 2  # C
    limits["ln(T*/T_min) / ln((ln(T*/T_min))^2 C)"] = log / math.log(log**2 * max(math.e, constant))
    least = min(limits, key=lambda name: limits[name])
    limit = limits[least]
    reason = f"{least} = {limit:.3g} is below 1" if limit < 1 else None
    return ClosedForm(limit, limit / 2 if stated else 1 + math.floor(limit) / 2, reason)
