"""Which arm has the largest mean? (best-arm identification)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roundwise.errors import InputError
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    at_least_two,
    column,
    complexity_where,
    finite,
    pairs,
    quiet,
)
from roundwise.runs import Bools, Floats, total


@dataclass(frozen=True)
class BestArm:
    """Which arm has the largest mean? The answer is its index.

    With a tolerance, any arm is right whose mean is within it of the largest: then several may be, and ties are easy.

    >>> question = BestArm()
    >>> int(question.answer([1.0, 0.9, 0.8]))
    0
    >>> round(float(question.complexity([1.0, 0.0]).value), 9)
    8.0
    """

    tolerance: float = 0.0  # epsilon
    name = "best-arm"

    def __post_init__(self) -> None:
        if not (self.tolerance >= 0 and np.isfinite(self.tolerance)):
            raise InputError(f"`tolerance` is {self.tolerance:g}, but must be a number of at least 0.")

    def check(self, arms: int) -> None:
        """Two arms or more."""
        at_least_two(arms)

    def answer(self, means: ArrayLike) -> Answer:
        """The index of the largest mean; the first one in a tie."""
        return np.asarray(finite(means).argmax(axis=-1))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether no arm is better by more than the tolerance; without one, whether it is the answer."""
        means = finite(means)
        if not self.tolerance:
            return np.asarray(answer == self.answer(means))
        chosen = np.take_along_axis(means, np.asarray(answer)[..., None], axis=-1)[..., 0]
        return np.asarray(chosen >= means.max(axis=-1) - self.tolerance)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_b (mu_best - mu_b)^2 / (2 sigma^2 (1/N_best + 1/N_b)); 0 in a tie."""
        gaps, leads, unique = self._gaps(finite(means))
        counts, leads = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), leads)
        best = counts.sum(axis=-1, keepdims=True, where=leads)  # of one arm: exact (in a tie it does not matter)
        costs = counts + best
        np.maximum(costs, 1e-300, out=costs)
        np.divide(counts * best, costs, out=costs)
        costs *= np.square(gaps, out=gaps)
        np.copyto(costs, np.inf, where=leads)
        least = costs.min(axis=-1)
        return np.asarray(np.where(unique, least, 0.0) / (2 * sigma**2))

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball all gaps shrink by twice the radius (Lemma 3.12).

        With d_b = 2 sigma^2 / gap_b^2 and y = n_best, n_b = y u_b and u_b = d_b / (y - d_b), the optimum has
        sum_b u_b^2 = 1. The power mean (sum_b u_b^2)^(-1/2) is increasing and concave in y, so Newton's
        method from y = 2 max d rises to the root (STACK.md, section 1).
        """
        gaps, leads, possible = self._gaps(finite(means))
        radius = 2 * column(radius)
        gaps = gaps - radius if radius.ndim > 1 or radius.any() else gaps
        np.copyto(gaps, np.inf, where=leads)
        smallest = gaps.min(axis=-1)
        possible = possible & (smallest > 0)
        smallest = np.where(possible, smallest, 1.0)
        np.divide(smallest[..., None], gaps, out=gaps)
        np.minimum(gaps, 1.0, out=gaps)
        value, share = _others(np.square(gaps, out=gaps))
        total_share = total(share)
        np.copyto(share, 1.0, where=leads)
        share /= (1.0 + total_share)[..., None]
        return complexity_where(possible, value * (1.0 + total_share) * (2 * sigma**2 / smallest / smallest), share)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """8 sigma^2 / gap^2: what the best two arms need alone."""
        gaps, leads, unique = self._gaps(finite(means))
        smallest = np.where(leads, np.inf, gaps).min(axis=-1) - 2 * np.asarray(radius)
        return np.asarray(np.where(unique & (smallest > 0), 8 * sigma**2 / smallest / smallest, np.inf))

    def pieces(self, arms: int) -> Pieces:
        """One half-space of two arms for each other arm."""
        return Pieces(arms - 1, 2)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The arm exceeds every other arm, less the tolerance."""
        others = np.arange(arms - 1)
        others = others + (others >= np.asarray(answer)[..., None])
        return pairs(np.asarray(answer)[..., None], others, -self.tolerance)

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'x is the best arm.'"""
        close = f", or within {self.tolerance:g} of it" if self.tolerance else ""
        return f"{names[int(answer)]} is the best arm{close}"

    def plain(self, answer: Answer) -> Any:
        """The index."""
        return int(answer)

    def _gaps(self, means: Floats) -> tuple[Floats, Bools, Bools]:
        """How far each arm is from overturning the answer, who that is, and whether it is the only one.

        With a tolerance every gap grows by it, and of several largest means the first is the answer.
        """
        gaps = means.max(axis=-1, keepdims=True) - means
        if self.tolerance:
            leads = np.arange(means.shape[-1]) == means.argmax(axis=-1)[..., None]
            return gaps + self.tolerance, leads, np.ones(means.shape[:-1], dtype=np.bool_)
        leads = gaps == 0
        if np.count_nonzero(leads) == leads.size // leads.shape[-1]:  # each run has one at least: no ties
            return gaps, leads, np.ones(leads.shape[:-1], dtype=np.bool_)
        return gaps, leads, np.asarray(leads.sum(axis=-1) == 1)


def star(costs: Floats, leads: Bools) -> Floats:
    """min sum n subject to 1/n_lead + 1/n_b <= costs_b for all b of finite cost; 0 where there is none. (K),(K)->(K)"""
    smallest = np.where(leads, np.inf, costs).min(axis=-1)
    possible = np.asarray((smallest > 0) & np.isfinite(smallest))
    unit = np.where(possible, smallest, 1.0)[..., None]
    level, share = _others(np.where(leads, 0.0, np.minimum(unit / costs, 1.0)))
    return np.where(possible[..., None], np.where(leads, 1.0, share) * level[..., None] / unit, 0.0)


def _others(d: Floats) -> tuple[Floats, Floats]:
    """y and u of `BestArm.complexity`, for d in units of the largest (0 for the best arm)."""
    level = np.full(d.shape[:-1], 2.0)
    active = np.ones(level.shape, dtype=np.bool_)
    share, power = np.empty_like(d), np.empty_like(d)
    while True:
        np.subtract(level[..., None], d, out=share)
        np.divide(d, share, out=share)
        if not active.any():
            return level, share
        np.multiply(share, share, out=power)
        second = total(power)
        power *= share
        step = (second * np.sqrt(second) - second) / (second + total(power))
        # a run stops on its own, with a step that leaves an error of its square (quadratic convergence)
        level = np.where(active, level * (1.0 + np.maximum(step, 0.0)), level)
        active &= step > 1e-6
