"""The bounds of the paper: what any algorithm must pay (Section 2), and what PET is promised to pay (Section 3).

docs/bounds.md has the proofs, and where they differ from the paper; docs/paper.md has a row for each statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, Plain
from roundwise.errors import InputError, unknown
from roundwise.model.problem import Problem, check_delta
from roundwise.policies import PET
from roundwise.questions import Complexity, Question
from roundwise.questions.base import finite
from roundwise.questions.lower_bounds import lower_bound_at as lower_bound_at
from roundwise.questions.lower_bounds import sample_lower_bound as sample_lower_bound
from roundwise.questions.lower_bounds import shared_lower_bound as shared_lower_bound
from roundwise.rules import GLR, Lemma32, Lemma32ByCounts
from roundwise.solvers.program import check_certificate, solve_general

Constants = Literal["proved", "stated"]
STATED = ("best-arm", "top-k", "above")  # for which the paper states Theorem 2.3 and proves Assumption 3.9
LONGEST = 1000  # batches up to which probabilities are computed
SEARCHED = 8  # batches up to which the best chain is searched for; longer chains are geometric
POINTS = 400  # of the table of T*(mu + t v)
FAILURE = 3.0  # P(E_r fails) <= 3 p_r


def one_instance(means: ArrayLike) -> Floats:
    """The means of one instance, (K)."""
    values = finite(means)
    if values.ndim != 1:
        raise InputError("Bounds are for one instance: give a list of means, one for each arm.")
    return values


def complexity_at(problem: Problem, means: ArrayLike) -> float:
    """T* of one instance; an InputError where it is infinite."""
    found = float(problem.question.complexity(means, sigma=problem.sigma).value)
    if math.isinf(found):
        raise InputError("The complexity is infinite: the means lie on the border of two answers.")
    return found


# Easier instances: means moved away from a point on the border of every half-space of the answer (Assumption 2.2; the
# proof never uses that its coordinates are equal), in a direction, or to a corner of a ball.
#
# An answer is right where a_j.mu > b_j for all its half-spaces j; d_j = a_j.mu - b_j is the distance to the wrong side,
# and T* falls if any d_j grows. If every arm has the same sign in all its half-spaces, then one step of size t in the
# sup norm, up for the arms with plus and down for those with minus, adds t |a_j|_1 to every d_j, as much as any step of
# that size can: that corner of the ball is its easiest instance, and the opposite corner the hardest, the b of Lemma
# 3.12. Where signs disagree (the second arm of a ranking of three) there is no such corner.


@dataclass(frozen=True, eq=False)
class Centre:
    """A point on the border of every wrong answer, and how far the farthest mean is from it."""

    values: Floats  # y, (K)
    spread: float  # Delta = max_i |mu_i - y_i|

    @property
    def constant(self) -> bool:
        """Whether it is one number for all arms, as Assumption 2.2 has it."""
        return bool((self.values == self.values[0]).all())


def centre(question: Question, means: ArrayLike, constant: bool = False) -> Centre | None:
    """The centre y with the smallest spread, or None if there is none (Assumption 2.2).

    With `constant` y is one number for all arms, as in the paper. Best arm and top-k: every number serves,
    and the midrange is best (Section A.3). Above, minimum-below and any-above: the level. Statements a.mu > b:
    a number with b = y sum(a) for all of them. Largest: a number at which all scores tie. Where one number does
    not serve, a point often does: "beats the control by a margin" has the centre (c, c + margin, ...), and so has
    best arm with a tolerance if only one arm is right; if several are, there is no centre. A question of your own that
    does not state a centre has the one that follows from its half-spaces.

    >>> from roundwise.questions import BestArm
    >>> centre(BestArm(), [1.0, 0.9, 0.0]).values.tolist()
    [0.5, 0.5, 0.5]
    """
    values = one_instance(means)
    question.check(len(values))
    if not question.has_border:
        raise InputError(
            f"The border of the question '{question.name}' is not known; make a `Centre` and try it with "
            "`scaling_error`."
        )
    found = question.border_point(values, constant)
    return None if found is None else Centre(found, float(np.abs(values - found).max()))


def moved(means: ArrayLike, centre: Centre, factor: float) -> Floats:
    """The means moved away from the centre by a factor: T* is divided by its square."""
    return np.asarray(centre.values + factor * (one_instance(means) - centre.values))


def scaling_error(
    question: Question, means: ArrayLike, centre: Centre, factors: Sequence[float] = (1.5, 4.0, 30.0, 1000.0)
) -> float:
    """The largest relative error of T*(moved) factor^2 = T*: 0, up to rounding, if Assumption 2.2 holds there.

    The proof moves away from the centre, hence factors above 1; the paper writes the assumption for factors below 1.
    """
    values = one_instance(means)
    start = float(question.complexity(values).value)
    ends = [float(question.complexity(moved(values, centre, factor)).value) for factor in factors]
    return max(abs(end / start * factor**2 - 1) for end, factor in zip(ends, factors, strict=True))


def instances(means: ArrayLike, centre: Centre, ratio: float, steps: int) -> Floats:
    """mu^0, ..., mu^N, (N+1, K), the easiest first and `means` last, with T*(mu^n) = ratio^(N-n) T* (Section 2).

    >>> from roundwise.questions import BestArm
    >>> best = BestArm()
    >>> best.complexity(instances([0.2, 0.0], centre(best, [0.2, 0.0]), 0.25, 2)).value.round(6).tolist()
    [12.5, 50.0, 200.0]
    """
    if not 0 < ratio < 1:
        raise InputError(f"`ratio` is {ratio:g}, but must lie strictly between 0 and 1.")
    if steps < 0 or steps != int(steps):
        raise InputError(f"`steps` is {steps:g}, but must be a whole number of at least 0.")
    return np.stack([moved(means, centre, ratio ** (-(steps - n) / 2)) for n in range(int(steps) + 1)])


def _halfspaces_at(question: Question, means: Floats) -> tuple[Floats, Floats] | None:
    """The forms a_j (P, K) and distances d_j (P) of the half-spaces of the answer; None for questions without."""
    try:
        pieces = question.halfspaces(question.answer(means), len(means))
    except InputError:
        return None
    forms = pieces.dense(len(means))
    return forms, forms @ means - pieces.offsets


class Easing(NamedTuple):
    """A direction of sup norm 1 in which every distance d_j grows."""

    direction: Floats  # v, (K)
    rate: float  # the least (a_j.v) / d_j: after a step t every d_j has grown by the factor 1 + rate t or more
    corner: bool  # whether it leads to the easiest instance of every ball


def easing(question: Question, means: ArrayLike) -> Easing | None:
    """The direction in which the answer at these means gets easier, or None where none is known.

    The easiest corner of a ball (above), if there is one; else the v that maximises the least growth a_j.v / |a_j|_1 (a
    linear programme). None where several answers are right, where no v serves all half-spaces, and for questions that
    have none.

    >>> from roundwise.questions import BestArm
    >>> easing(BestArm(), [1.0, 0.9, 0.0]).direction.tolist()
    [1.0, -1.0, -1.0]
    """
    values = one_instance(means)
    if (question.count_right_answers(values) > 1).any():
        return None
    side = question.easier_side(values)
    if side is not None:
        assert question.level is not None
        farthest = (side * (values - question.level)).max()  # yes: only it matters; no: it grows slowest
        return Easing(np.full(values.shape, side), float(1 / farthest), True) if farthest > 0 else None
    found = _halfspaces_at(question, values)
    if found is None or not (found[1] > 0).all():
        return None
    forms, distances = found
    up, down = (forms > 0).any(axis=0), (forms < 0).any(axis=0)
    if not (up & down).any():
        return Easing(up.astype(float) - down, float((np.abs(forms).sum(axis=1) / distances).min()), True)
    return _steepest(forms, distances)


def _steepest(forms: Floats, distances: Floats) -> Easing | None:
    """max r subject to a_j.v >= r |a_j|_1 for all j and |v_i| <= 1, a linear programme in (v, r)."""
    from scipy.optimize import linprog

    arms, lengths = forms.shape[1], np.abs(forms).sum(axis=1, keepdims=True)
    found = linprog(
        np.append(np.zeros(arms), -1.0),
        A_ub=np.hstack([-forms / lengths, np.ones((len(forms), 1))]),
        b_ub=np.zeros(len(forms)),
        bounds=[(-1.0, 1.0)] * arms + [(None, None)],
    )
    if found.x is None:
        return None
    direction = np.clip(found.x[:arms], -1.0, 1.0)
    rate = float((forms @ direction / distances).min())  # of this very v, whatever the solver's accuracy
    return Easing(direction, rate, False) if -found.fun > 1e-9 and rate > 0 else None


def hardest_corner(question: Question, means: ArrayLike, radius: float) -> Floats | None:
    """b of Lemma 3.12: the instance of the ball with T*(b) = Tbar*, whose weights serve the whole ball.

    None where the ball has two answers (Tbar* is infinite), and where no corner is hardest for all half-spaces at once,
    so that Assumption 3.9 may fail.

    >>> from roundwise.questions import BestArm
    >>> hardest_corner(BestArm(), [1.0, 0.5, 0.25], 0.125).tolist()
    [0.875, 0.625, 0.375]
    """
    values = one_instance(means)
    found = easing(question, values)
    if found is None or not found.corner or not np.isfinite(question.complexity(values, radius).value):
        return None
    return np.asarray(values - radius * found.direction)


def worst_case_over(question: Question, instances: ArrayLike, sigma: float = 1.0) -> Complexity:
    """Tbar*(B) and wbar*(B) of a finite set B of instances, its rows, (n, K)->(),(K) (Definition 3.3).

    Samples in one proportion that are enough for every instance; their answers may differ. Every half-space of every
    instance is one limit of the programme for T*: sum_i a_i^2/n_i <= d^2/(2 sigma^2). For balls there is
    `question.complexity(means, radius)`.

    >>> from roundwise.questions import BestArm
    >>> both = [[1.0, 0.5, 0.0], [1.0, 0.0, 0.5]]
    >>> [round(float(each), 2) for each in BestArm().complexity(both).value]
    [34.28, 34.28]
    >>> round(float(worst_case_over(BestArm(), both).value), 2)
    46.63
    """
    rows = finite(instances)
    if rows.ndim != 2 or not len(rows):
        raise InputError("Give the instances as rows: shape (n, K), at least one.")
    question.check(rows.shape[1])
    squares, limits = [], []
    for means in rows:
        pieces = _halfspaces_at(question, means)
        if pieces is None:
            raise InputError(f"The answer to '{question.name}' at {means.tolist()} is not made of half-spaces.")
        forms, distances = pieces
        squares.append(forms**2)
        limits.append(np.maximum(distances, 0.0) ** 2 / (2 * sigma**2))
    found = check_certificate(solve_general(np.concatenate(squares)[None], np.concatenate(limits)[None]))
    return Complexity(found.total[0], found.pulls[0] / found.pulls[0].sum())


# How many batches any sample-efficient algorithm needs (Section 2 and Appendix A): a chain of instances mu^0, ...,
# mu^N, each harder than the one before and with one right answer. The algorithm must be delta-correct on every
# Gaussian instance, and frugal on mu^0, ..., mu^(N-1) only.
#
# With a_n = P_n(R >= n+1, and the first n batches hold at most X_(n-1) samples), X_n = x_0 + ... + x_n, a_0 = 1:
#     from a_n to P_(n+1)(R >= n+1, n+1 batches hold at most X_n)
#                        costs c_n + sqrt(X_(n-1) D_n / 2)            (Lemma A.2 and Pinsker's inequality),
#     from there to a_(n+1)
#                        costs 2 delta + sqrt(X_n / (2 T*_(n+1)))     (Lemma A.4),
# where c_n bounds P_n(tau > x_n) and D_n = max_i (mu_i^(n+1) - mu_i^n)^2 / (2 sigma^2). The paper applies the two
# lemmas in the other order, which gives P(R >= N), not the P(R > N) that it states.


@dataclass(frozen=True)
class Promise:
    """A bound on an algorithm's samples, and the instance for which batches are counted.

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
        for name, value in (("complexity", self.complexity), ("easiest", self.easiest), ("gamma", self.gamma)):
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
    values, question = one_instance(means), problem.question
    complexity = complexity_at(problem, values)
    if centre is not None:
        spread = _check_centre(question, values, centre)
    elif (found := _own_centre(question, values)) is not None:
        spread = found.spread
    elif (eased := easing(question, values)) is not None:
        spread = 1 / eased.rate
    else:
        return None
    return Promise(complexity, easiest, gamma, problem.delta, math.sqrt(complexity / 2) * spread / problem.sigma, tail)


def _own_centre(question: Question, means: Floats, constant: bool = False) -> Centre | None:
    return centre(question, means, constant) if question.has_border else None


def _check_centre(question: Question, means: Floats, centre: Centre) -> float:
    """The true spread of a centre, once T* was seen to scale as it must when the means move away from it."""
    values = np.broadcast_to(np.asarray(centre.values, dtype=np.float64), means.shape)
    spread = float(np.abs(means - values).max())
    if (question.count_right_answers(means) > 1).any():
        raise InputError("Several answers are right at these means: the lower bound on batches is proved for one.")
    error = scaling_error(question, means, Centre(values, spread))
    if not error < 1e-5:
        raise InputError(
            f"This is not a centre: moving the means away from it does not divide T* by the square of the factor "
            f"(relative error {error:.2g}). Give a point on the border of every wrong answer."
        )
    return spread


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
    losses = _affine_losses(ratios, batches, promise.reach)
    least = int(losses.argmin())
    loss = float(losses[least]) * math.sqrt(promise.gamma * promise.confidence)
    tail = min(1.0, (loss / (2 * batches)) ** (2 / 3)) if promise.tail is None else promise.tail
    if promise.tail is None:
        loss /= math.sqrt(tail)
    probability = 1 - batches * (2 * promise.delta + tail) - loss
    return Certificate(batches, max(0.0, probability), float(ratios[least]), tail)


def _affine_losses(ratios: Floats, batches: int, reach: float) -> Floats:
    """g_N(zeta): the square roots of the chain on the affine sequence, for gamma ln(1/delta) = 1.

    X_n / T*_(n+1) = zeta + ... + zeta^(n+1), and X_(n-1) D_n = (zeta + ... + zeta^n) (1 - sqrt(zeta))^2 reach^2.
    """
    powers = ratios[:, None] ** np.arange(1, batches + 1)
    drawn = np.cumsum(powers, axis=1)  # zeta + ... + zeta^(n+1), n = 0..N-1
    told = np.sqrt(drawn / 2).sum(axis=1)
    moved = reach * (1 - np.sqrt(ratios)) * np.sqrt((drawn - powers) / 2).sum(axis=1)
    return np.asarray(told + moved)


Certified = TypeVar("Certified", "Certificate", "Chain")


def _longest(find: Callable[[int], Certified], probability: float) -> Certified | None:
    """What `find` returns for the largest N that has this probability; None if not even N = 1 has it."""
    last = None
    for number in range(1, LONGEST + 1):
        found = find(number)
        if found.probability < probability:
            break
        last = found
    return last


def certificate(promise: Promise, probability: float = 0.5) -> Certificate | None:
    """The largest N that the affine sequence certifies with this probability; None if not even N = 1."""
    if not 0 < probability < 1:
        raise InputError(f"`probability` is {probability:g}, but must lie strictly between 0 and 1.")
    return _longest(partial(affine_certificate, promise), probability)


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


def stated_for(question: Question) -> bool:
    """Whether the paper states its theorems for this question: best arm, top-k or thresholding, one right answer."""
    return question.name in STATED and not question.tolerance


def stated_closed_form(
    problem: Problem, means: ArrayLike, easiest: float, gamma: float, tail: float | None = None
) -> ClosedForm | None:
    """Theorem 2.3 as stated, or with a tail Lemma A.7; None where the paper states neither.

    The theorem is for best arm, top-k and thresholding, the lemma for questions with a number y (Assumption 2.2).
    """
    question, values = problem.question, one_instance(means)
    if question.tolerance or (tail is None and not stated_for(question)):
        return None
    number = _own_centre(question, values, constant=True)
    given = None if number is None else promise(problem, values, easiest, gamma, tail, number)
    return None if given is None else closed_form(given, "stated")


# The best sequence for the lower bound on batches (Lemma 2.1): where one corner of every ball is easiest (`easing`), no
# sequence with the same answer, complexities, limits and tails loses less than mu^n = mu + t_n v, v that corner's
# direction. The t_n and, for a promise on the average, the tails c_n are found numerically; the result is the chain at
# these numbers, computed from their exact complexities: a bound whatever the search has found.


@dataclass(frozen=True, eq=False)
class Chain:
    """A sequence of instances; the last one needs more than N batches with at least this probability."""

    instances: Floats  # (N+1, K), the easiest first
    complexities: Floats  # (N+1)
    tails: Floats  # (N), c_n
    probability: float

    @property
    def batches(self) -> int:
        """N."""
        return len(self.tails)

    def plain(self) -> Plain:
        """The chain as JSON."""
        return {
            "batches": self.batches,
            "probability": self.probability,
            "instances": self.instances.tolist(),
            "complexities": self.complexities.tolist(),
            "tails": self.tails.tolist(),
        }


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


def route(problem: Problem, means: ArrayLike, easiest: float) -> Route | None:
    """The route of easier instances down to T_min, or None where there is none, or T* is not above T_min."""
    values = one_instance(means)
    found = easing(problem.question, values)
    complexity = float(_complexities(problem, values))
    if found is None or not easiest < complexity < math.inf:
        return None
    low, high = 0.0, (math.sqrt(complexity / easiest) - 1) / found.rate  # there T* is T_min or less
    for _ in range(60):
        middle = (low + high) / 2
        hard = _complexities(problem, values + middle * found.direction)
        low, high = (middle, high) if hard >= easiest else (low, middle)
    if low == 0:  # T* is T_min, but for rounding
        return None
    # dense where T* has hardly fallen yet; the last step is where T* is T_min or just above
    steps = np.concatenate([[0.0], np.geomspace(min(1e-6 / found.rate, low / 2), low, POINTS - 1)])
    logs = np.log(_complexities(problem, values + steps[:, None] * found.direction))
    return Route(problem, values, found.direction, steps, np.minimum.accumulate(logs))


def _complexities(problem: Problem, means: Floats) -> Floats:
    return problem.question.complexity(means, sigma=problem.sigma).value


def best_chain(promise: Promise, along: Route, batches: int) -> Chain:
    """The best chain of N + 1 instances along a route that was found for an algorithm that keeps the promise."""
    rate = promise.gamma * promise.confidence
    logs, tails = _geometric_chain(promise, along, batches)
    if batches <= SEARCHED:
        logs, tails = _search_chain(promise, along, logs, tails)
    steps = np.append(along.at(logs), 0.0)
    points = along.means + steps[:, None] * along.direction
    hard = _complexities(along.problem, points)
    limits = rate * hard[:-1] / (tails if promise.tail is None else 1.0)
    moves = np.diff(steps) ** 2 * float(np.abs(along.direction).max()) ** 2 / (2 * along.problem.sigma**2)
    return Chain(points, hard, tails, chain_probability(hard, moves, limits, tails, promise.delta))


def likely_chain(promise: Promise, along: Route) -> Chain | None:
    """The longest chain that has probability 1/2; None if not even N = 1."""
    return _longest(partial(best_chain, promise, along), 0.5)


def expected_batches(promise: Promise, along: Route | None = None) -> float:
    """A lower bound on E[R]: 1 + sum over N >= 1 of the certified P(R > N); 1 says nothing.

    Each probability is that of the affine sequence or, along a route, of the better of the two.
    """
    bound = 1.0
    for number in range(1, LONGEST + 1):
        chance = affine_certificate(promise, number).probability
        if along is not None:
            chance = max(chance, best_chain(promise, along, number).probability)
        if chance == 0:
            break
        bound += chance
    return bound


def _chain_loss(promise: Promise, along: Route, logs: Floats, tails: Floats) -> Floats:
    """The losses of the chain but 2 delta N, from ln T*_n, n = 0..N-1, and c_n. (N),(N)->()"""
    rate = promise.gamma * promise.confidence
    drawn = np.cumsum(rate * np.exp(logs) / (tails if promise.tail is None else 1.0), axis=-1)  # X_n
    ends = np.concatenate([logs, np.broadcast_to(along.logs[0], (*logs.shape[:-1], 1))], axis=-1)
    steps = along.at(ends)
    told = np.sqrt(drawn / (2 * np.exp(ends[..., 1:])))
    moved = np.sqrt(drawn[..., :-1]) * (steps[..., 1:-1] - steps[..., 2:]) / (2 * along.problem.sigma)
    return np.asarray(tails.sum(axis=-1) + told.sum(axis=-1) + moved.sum(axis=-1))


def _geometric_chain(promise: Promise, along: Route, batches: int) -> tuple[Floats, Floats]:
    """The best geometric complexities, and one tail for all: as the affine chain, but along the route."""
    falls = np.geomspace(1e-3, 1.0, 200) * (along.logs[0] - along.logs[-1]) / batches
    logs = along.logs[0] - falls[:, None] * np.arange(batches, 0, -1)
    if promise.tail is not None:
        tails = np.full(logs.shape, promise.tail)
    else:  # loss = N c + A / sqrt(c)
        need = _chain_loss(promise, along, logs, np.ones(logs.shape)) - batches
        tails = np.minimum(1.0, (need / (2 * batches)) ** (2 / 3))[:, None] * np.ones(batches)
    best = int(_chain_loss(promise, along, logs, tails).argmin())
    return logs[best], tails[best]


def _search_chain(promise: Promise, along: Route, logs: Floats, tails: Floats) -> tuple[Floats, Floats]:
    """Better complexities and tails near these: each fall of ln T* and each tail is free."""
    from scipy.optimize import minimize

    number, top = len(logs), along.logs[0]
    room = top - along.logs[-1]
    free = promise.tail is None

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        falls = np.exp(x[..., :number])
        falls = falls * np.minimum(1.0, room / falls.sum(axis=-1, keepdims=True))
        ends = top - np.cumsum(falls[..., ::-1], axis=-1)[..., ::-1]
        return ends, np.exp(x[..., number:]) if free else np.broadcast_to(tails, ends.shape)

    def value(x: Floats) -> tuple[float, Floats]:
        nudged = np.vstack([x, x + 1e-6 * np.eye(len(x))])
        found = _chain_loss(promise, along, *unpack(nudged))
        return float(found[0]), (found[1:] - found[0]) / 1e-6

    falls = np.diff(np.append(logs, top))
    start = np.log(np.concatenate([falls, tails]) if free else falls)
    limits = [(-30.0, None)] * number + [(-30.0, 0.0)] * free * number
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=limits)
    if not found.fun < _chain_loss(promise, along, logs, tails):
        return logs, tails
    better = unpack(found.x)
    return np.asarray(better[0]), np.asarray(better[1])


# What PET is promised to pay: batches and samples (Section 3.4, Appendix C), for the PET that we run (phases r = 0,
# 1, ..., pulls rounded up, any growth, exploration and threshold). In phase r let E_r be the event that the means
# after the first batch lie within eps_r of the truth, and those after the second, if there is one, within eps_r of
# these (Definition 3.6): it fails with probability at most 3 p_r, p_r = T_(r+1)^-2. At most one second batch is made
# in a phase where E_r holds. From the settled phase r* on, where the worst case within 2 eps_r of the truth is at
# most T_r, E_r makes PET enter it. Hence with F the set of phases where E_r fails, U_r = ceil(2^r l_1r) and V_r =
# gamma_r T_r + K:
#     R   <= r* + 2 + |F| + |F from r* on|
#     tau <= K U_r* + V_r* + sum over F of V_r + sum over F from r* on of (K U_(r+1) - K U_r + V_(r+1) - V_r).


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
    settled = settled_by_complexity(policy, complexity_at(problem, values))
    while settled > 0:
        r = settled - 1
        worst = float(
            problem.question.complexity(values, 2 * float(policy.radius(problem, float(r))), problem.sigma).value
        )
        if not worst * (1 + 1e-6) <= policy.guess * policy.growth**r:  # room for the solver's rounding
            break
        settled = r
    return settled


def settled_by_complexity(policy: PET, complexity: float) -> int:
    """A bound on r* for every instance of this complexity: the first phase with T_r >= 9/4 T*.

    9/4 is (1 + sqrt(8/exploration))^2: `worst_case` at 2 eps_r = 4 sigma / sqrt(exploration T_r), solved for T_r.
    """
    needed = (1 + math.sqrt(8 / policy.exploration)) ** 2 * complexity
    return max(0, math.ceil(math.log(needed / policy.guess) / math.log(policy.growth) + 1e-12))


def failure_bound(policy: PET, r: int) -> float:
    """3 p_r, which bounds the probability that E_r fails."""
    return FAILURE * (policy.guess * policy.growth ** (r + 1)) ** -2


def phase_cost(policy: PET, problem: Problem, settled: int, failures: Collection[int] = ()) -> Cost:
    """The largest cost of PET if E_r fails in exactly these phases (Lemma 3.7, proved for r from 0)."""
    return _cost(policy, problem, settled, lambda r: float(r in failures), max([settled, *failures]))


def upper_bounds(policy: PET, problem: Problem, means: ArrayLike) -> Cost:
    """Bounds on E[R] and E[tau] of our PET at these means (Theorem 3.11, in the proved form above)."""
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
    as_stated = (policy.growth, policy.exploration) == (2.0, 32.0)
    as_stated &= policy.stopping in (GLR(Lemma32()), GLR(Lemma32ByCounts()))
    if first > known or not as_stated or not stated_for(problem.question):
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
    """The bounds on R and tau above, with a weight for each phase in F; to convergence if `last` is None."""

    def paid(r: int) -> tuple[float, float]:
        """K U_r and V_r."""
        second = policy.sufficient(problem, r) * policy.guess * policy.growth**r + problem.arms
        return problem.arms * float(math.ceil(policy.explored(problem, float(r)))), second

    batches, samples = settled + 2.0, sum(paid(settled))
    r = 0
    while True:
        weight = failure(r)
        uniform, second = paid(r)
        more_batches, more_samples = weight, weight * second
        if r >= settled:
            more_batches += weight
            more_samples += weight * (sum(paid(r + 1)) - uniform - second)
        batches, samples = batches + more_batches, samples + more_samples
        r += 1
        if r > last if last is not None else r > settled and more_samples < 1e-13 * samples:
            return Cost(batches, samples)


@dataclass(frozen=True, eq=False, kw_only=True)
class Overview:
    """Lower bounds for any algorithm on an instance, and upper bounds for PET."""

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
        centre, stated = self.centre, self.stated_upper
        return {
            "complexity": self.complexity,
            "estimation_radius": self.estimation_radius,
            "estimable_complexity": self.estimable_complexity,
            "hardest": None if self.hardest is None else self.hardest.tolist(),
            "affine_scaling": {
                "centre": centre and centre.values.tolist(),
                "spread": centre and centre.spread,
                "constant": self.constant_centre and float(self.constant_centre.values[0]),
            },
            "promise": self.promise and {**asdict(self.promise), "given": self.gamma_given},
            "samples": {
                "lower": self.sample_lower,
                "upper": self.upper.samples,
                "upper_as_stated": stated and stated.samples,
            },
            "batches": {
                "lower": self.expected_batches,
                "lower_closed_form": self.proved and self.proved.expected,
                "lower_as_stated": self.stated and self.stated.expected,
                "lower_affine": self.affine_batches,
                "certificate": self.certificate and asdict(self.certificate),
                "chain": self.chain and self.chain.plain(),
                "vacuous": self.vacuous,
                "upper": self.upper.batches,
                "upper_as_stated": stated and stated.batches,
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
    values, question = one_instance(means), problem.question
    policy = PET() if policy is None else policy
    easiest = policy.guess if easiest is None else easiest
    complexity = complexity_at(problem, values)
    if not (easiest > 0 and math.isfinite(easiest)):
        raise InputError(f"`easiest` (T_min) is {easiest:g}, but must be a positive number.")
    if gamma is None and tail is not None:
        raise InputError(
            "A tail goes with a gamma: give both, or neither to use the average that PET is proved to keep."
        )
    kept = promised_gamma(policy, problem, min(easiest, complexity), complexity) if gamma is None else gamma
    given = promise(problem, values, easiest, kept, tail, centre)
    along = route(problem, values, easiest) if given is not None else None
    radius = estimation_radius(complexity, problem.sigma)
    settled = settled_phase(policy, problem, values)
    return Overview(
        complexity=complexity,
        estimation_radius=radius,
        estimable_complexity=estimable_complexity(complexity, radius, problem.sigma),
        hardest=hardest_corner(question, values, radius),
        sample_lower=float(lower_bound_at(question, values, problem.delta, problem.sigma)),
        centre=_own_centre(question, values) if centre is None else centre,
        constant_centre=_own_centre(question, values, constant=True),
        promise=given,
        gamma_given=gamma is not None,
        certificate=None if given is None else certificate(given),
        chain=None if given is None or along is None else likely_chain(given, along),
        expected_batches=1.0 if given is None else expected_batches(given, along),
        affine_batches=1.0 if given is None else expected_batches(given),
        proved=None if given is None else closed_form(given),
        stated=stated_closed_form(problem, values, easiest, kept, tail),
        vacuous=_why_vacuous(question, values, given),
        settled_phase=settled,
        upper=expected_cost(policy, problem, settled),
        stated_upper=stated_upper_bounds(policy, problem, complexity),
    )


def _why_vacuous(question: Question, means: Floats, promise: Promise | None) -> str | None:
    """Why the lower bound on batches says nothing but "at least one", or None."""
    if question.count_right_answers(means) > 1:
        return "several answers are right here, and the bound is proved for instances with one"
    if promise is None and not question.has_border:
        return f"the border of the question '{question.name}' is not known; give a centre if there is one"
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
