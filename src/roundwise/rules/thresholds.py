"""Thresholds for the generalised likelihood ratio.

A threshold has `value(problem, counts): (K)->()`, which never decreases as counts grow, and `at(problem, samples)`, an
upper bound for any allocation of this many samples with at least one per arm (PET sizes its batches with it).
`doubt(problem)` returns the reservation about its guarantee, or None. A `joint` threshold bounds the total deviation of
all arms, hence also that of each: reports derive bounds on means from it.

Arms without results count as pulled once: they add nothing to the deviation that a threshold bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, total
from roundwise.errors import InputError
from roundwise.messages import Doubt, Reason
from roundwise.model.problem import Problem
from roundwise.solvers.design import orthonormal_basis

_PRIOR = 0.1  # a, of the threshold `log-det`


class Threshold(ABC):
    """The evidence required to stop. A subclass is a frozen dataclass with a `name`."""

    name: ClassVar[str]  # used on the command line
    joint: ClassVar[bool] = False  # whether it bounds the total deviation of all arms

    @abstractmethod
    def value(self, problem: Problem, counts: Floats) -> Floats:
        """The threshold at these counts, in which it never decreases. (K)->()

        Args:
            problem: The problem, with its delta.
            counts: The number of results of each arm, (..., K).

        Returns:
            The threshold of each run, in nats.
        """

    @abstractmethod
    def at(self, problem: Problem, samples: float) -> float:
        """The largest value over all allocations of this many samples that pull every arm.

        Args:
            problem: The problem, with its delta.
            samples: The total number of results.

        Returns:
            The largest threshold at this total, in nats.
        """

    @abstractmethod
    def doubt(self, problem: Problem) -> Doubt | None:
        """Return the reservation about the threshold's guarantee, or None."""


class SampleThreshold(Threshold):
    """A threshold that depends on the counts only through their sum."""

    @abstractmethod
    def formula(self, problem: Problem, samples: Floats) -> Floats:
        """The threshold after this many samples. ()->()"""

    def value(self, problem: Problem, counts: Floats) -> Floats:
        return np.asarray(self.formula(problem, np.maximum(counts, 1.0).sum(axis=-1)))

    def at(self, problem: Problem, samples: float) -> float:
        return float(self.formula(problem, np.asarray(max(samples, problem.arms), dtype=np.float64)))


@dataclass(frozen=True)
class Lemma32(SampleThreshold):
    """beta(t, delta) of Lemma 3.2: valid for every question and every sigma-sub-Gaussian arm.

    >>> from roundwise.questions import BestArm
    >>> round(Lemma32().at(Problem(BestArm(), arms=10, delta=0.05), 1e5), 2)
    78.19
    """

    name = "lemma-3.2"
    joint = True

    def formula(self, problem: Problem, samples: Floats) -> Floats:
        """K/2 Wbar(2/K ln(1/delta) + 4 ln ln(e t/K) + 2 ln(e pi^2/6))."""
        return _concentrated(problem, 4 * np.log1p(np.log(samples / problem.arms)))

    def doubt(self, problem: Problem) -> None:
        return


@dataclass(frozen=True)
class Lemma32ByCounts(Threshold):
    """The theorem of Appendix B, with the actual counts in place of t/K: never above Lemma 3.2."""

    name = "counts"
    joint = True

    def value(self, problem: Problem, counts: Floats) -> Floats:
        """K/2 Wbar(2/K ln(1/delta) + 2/K sum_k 2 ln(1 + ln N_k) + 2 ln(e pi^2/6))."""
        spread = 4 / problem.arms * total(np.log1p(np.log(np.maximum(counts, 1.0))))
        return _concentrated(problem, spread)

    def at(self, problem: Problem, samples: float) -> float:
        """Lemma 3.2, which is its maximum over the counts."""
        return Lemma32().at(problem, samples)

    def doubt(self, problem: Problem) -> None:
        return


@dataclass(frozen=True)
class KaufmannKoolenPairwise(SampleThreshold):
    """Kaufmann and Koolen's Gaussian threshold for the arms of one half-space, with a union over half-spaces.

    Best arm: 2 C_G(ln((K-1)/delta)/2) + 4 ln(4 + ln(t/2)) (docs/baselines.md). Any question: a wrong answer must cross
    one of M half-spaces that contain the true means, with s arms each: s C_G(ln(M/delta)/s) + 2 s ln(4 + ln(t/s)).
    """

    name = "pairwise"

    def formula(self, problem: Problem, samples: Floats) -> Floats:
        """s C_G(ln(M/delta)/s) + 2 s ln(4 + ln(t/s))."""
        pieces = problem.question.pieces(problem.arms)
        if pieces is None:
            raise InputError(
                f"The threshold 'pairwise' does not fit the question '{problem.question.name}', whose wrong answers "
                "are not a union of half-spaces. Use 'sum' or 'lemma-3.2'."
            )
        arms = pieces.support
        start = arms * gaussian_calibration(math.log(pieces.number / problem.delta) / arms)
        return start + 2 * arms * np.log(4 + np.log(samples / arms))

    def doubt(self, problem: Problem) -> Doubt | None:
        """It is only proved for Gaussian rewards."""
        return _gaussian_only(problem)


@dataclass(frozen=True)
class KaufmannKoolenSum(Threshold):
    """Kaufmann and Koolen's Gaussian threshold for the sum over all arms, valid for every question."""

    name = "sum"
    joint = True

    def value(self, problem: Problem, counts: Floats) -> Floats:
        """sum_a 2 ln(4 + ln N_a) + K C_G(ln(1/delta)/K) (docs/baselines.md)."""
        return self._start(problem) + 2 * total(np.log(4 + np.log(np.maximum(counts, 1.0))))

    def at(self, problem: Problem, samples: float) -> float:
        """The value at equal counts, which is the largest by concavity."""
        each = max(samples / problem.arms, 1.0)
        return self._start(problem) + 2 * problem.arms * math.log(4 + math.log(each))

    def doubt(self, problem: Problem) -> Doubt | None:
        """It is only proved for Gaussian rewards."""
        return _gaussian_only(problem)

    def _start(self, problem: Problem) -> float:
        return problem.arms * gaussian_calibration(math.log(1 / problem.delta) / problem.arms)


@dataclass(frozen=True)
class LogDeterminant(Threshold):
    """The log-determinant threshold for arms with features, whose dimension d may be far below K.

    (1 + a) (ln(1/delta) + ln det(I + V_0^-1 V/a)/2), V = sum_i N_i x_i x_i'/sigma_i^2 and V_0 the same with every arm
    pulled once (docs/linear.md); with a/k in place of the first a if V is only k < 1 times V_0, because some arms have
    no results. Without features the x_i are the unit vectors.
    """

    name = "log-det"
    joint = True

    def value(self, problem: Problem, counts: Floats) -> Floats:
        """(1 + a) (ln(1/delta) + ln det(I + V_0^-1 V/a)/2)."""
        if problem.question.features is None:  # arms without results count as pulled once
            return np.asarray((1 + _PRIOR) * (problem.goal + total(np.log1p(np.maximum(counts, 1.0) / _PRIOR)) / 2))
        rows = _whitened(problem)
        sizes = np.maximum(np.linalg.eigvalsh((rows.T * counts[..., None, :]) @ rows), 0.0)  # of V_0^-1 V
        sizes = np.where((counts > 0).any(axis=-1, keepdims=True), sizes, 1.0)  # no results yet: at most as later
        with np.errstate(divide="ignore"):
            factor = 1 + _PRIOR / np.minimum(sizes.min(axis=-1), 1.0)
        return np.asarray(factor * (problem.goal + total(np.log1p(sizes / _PRIOR)) / 2))

    def at(self, problem: Problem, samples: float) -> float:
        """det is at most (trace/d)^d, and the trace at most the samples times the largest leverage."""
        each = max(samples / problem.arms, 1.0)
        if problem.question.features is None:
            return (1 + _PRIOR) * (problem.goal + problem.arms * math.log1p(each / _PRIOR) / 2)
        rows = _whitened(problem)
        leverage, size = float((rows**2).sum(axis=-1).max()), rows.shape[-1]
        trace = max(samples, float(problem.arms)) * leverage / _PRIOR
        return (1 + _PRIOR) * (problem.goal + size * math.log1p(trace / size) / 2)

    def doubt(self, problem: Problem) -> None:
        return


@lru_cache(maxsize=64)
def _whitened(problem: Problem) -> Floats:
    """Features in which V_0 is the identity. (K, d)"""
    features = problem.question.features
    assert features is not None
    scaled = features * np.sqrt(problem.weighed(np.ones(problem.arms)))[:, None]
    return orthonormal_basis(scaled)


@dataclass(frozen=True)
class LogLogHeuristic(Threshold):
    """ln((1 + ln t)/delta), popular but unproved: for research only, without a guarantee."""

    name = "heuristic"

    def value(self, problem: Problem, counts: Floats) -> Floats:
        """ln((1 + ln t)/delta)."""
        return np.asarray(np.log((1 + np.log(np.maximum(counts.sum(axis=-1), 1.0))) / problem.delta))

    def at(self, problem: Problem, samples: float) -> float:
        return math.log((1 + math.log(max(samples, 1.0))) / problem.delta)

    def doubt(self, problem: Problem) -> Doubt:
        """There is no proof."""
        return Reason("unproved_threshold", threshold="ln((1 + ln t)/delta)")


THRESHOLDS: dict[str, Threshold] = {
    each.name: each
    for each in (
        Lemma32(),
        Lemma32ByCounts(),
        KaufmannKoolenPairwise(),
        KaufmannKoolenSum(),
        LogDeterminant(),
        LogLogHeuristic(),
    )
}


def wbar(x: ArrayLike) -> Floats:
    """The solution y >= 1 of y - ln y = x for x > 1, that is -W_{-1}(-exp(-x)), without overflow.

    Newton's method on a convex function, started at x + ln x + 1/2, which lies above the root (Section 3.1): every
    iterate stays above it, so a threshold is never too small. For x >= 1.5 three steps reach floating-point accuracy.
    """
    x = np.asarray(x, dtype=np.float64)
    y = x + np.log(x) + 0.5
    for _ in range(3 if x.min(initial=np.inf) > 1.5 else 5):
        y = y * (x - 1 + np.log(y)) / (y - 1)
    return np.asarray(y)


@lru_cache(maxsize=256)
def gaussian_calibration(x: float) -> float:
    """C_G(x) = min over 1/2 < l <= 1 of (g(l) + x)/l, with g(l) = 2l - 2l ln(4l) + ln zeta(2l) - ln(1 - l)/2.

    (Kaufmann and Koolen 2021, second-hand: docs/baselines.md.)
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    def cost(l: float) -> float:  # noqa: E741 - the letter of the formula
        g = 2 * l - 2 * l * math.log(4 * l) + math.log(zeta(2 * l)) - math.log1p(-l) / 2
        return float((g + x) / l)

    found = minimize_scalar(cost, bounds=(0.5 + 1e-9, 1 - 1e-12), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)  # evaluated at a point of the interval, so never below the minimum


def _concentrated(problem: Problem, spread: Floats) -> Floats:
    arms = problem.arms
    start = 2 * math.log(math.e * math.pi**2 / 6) + 2 / arms * math.log(1 / problem.delta)
    return arms / 2 * wbar(start + spread)


def _gaussian_only(problem: Problem) -> Doubt | None:
    return None if problem.noise.outcome.normal else Reason("normal_only")
