"""Which arm has the largest mean, or the smallest? (best-arm identification)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, one_hot, quiet, total
from roundwise.questions.base import (
    PLAIN_WORDING,
    Answer,
    RankingQuestion,
    ScoreQuestion,
    Wording,
    check_tolerance,
    column,
    within_words,
)
from roundwise.solvers import star
from roundwise.solvers.halfspaces import Complexity, Family, Halfspaces, Pieces, complexity_where, pairs


@dataclass(frozen=True)
class BestArm(RankingQuestion, ScoreQuestion):
    """Which arm has the largest mean, or the smallest if `lower_is_better`? The answer is its index.

    With a tolerance, every arm whose mean is within it of the largest is a right answer, so several may be right and
    ties are easy. The evidence for arm i is the evidence against all means at which i is wrong. The verdict is the arm
    with the most evidence, which need not be the one with the largest mean (docs/bounds.md). Formulas are for the
    largest mean; if lower is better, they apply to the negated means.

    Args:
        tolerance: Any arm within this of the best is a right answer.
        lower_is_better: Whether the best arm has the lowest mean.

    >>> question = BestArm()
    >>> int(question.answer([1.0, 0.9, 0.8]))
    0
    >>> round(float(question.complexity([1.0, 0.0]).value), 9)
    8.0
    >>> int(BestArm(tolerance=1.0).verdict([1000, 10, 10], [0.9, 1.0, 1.0]))
    0
    >>> int(BestArm(lower_is_better=True).answer([1.0, 0.9, 0.8]))
    2
    """

    tolerance: float = 0.0  # epsilon
    lower_is_better: bool = False
    name = "best-arm"
    number_sought = 1
    accepts_arm_changes = True

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)

    def scores(self, means: Floats) -> Floats:
        return self.merits(means)

    def answer_from_set(self, chosen: Bools) -> Answer:
        return np.asarray(chosen.argmax(axis=-1))

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_b (mu_best - mu_b)^2 / (2 sigma^2 (1/N_best + 1/N_b)); 0 in a tie.

        With a tolerance: max_i min_b (mu_i - mu_b + tolerance)_+^2 / (2 sigma^2 (1/N_i + 1/N_b)).
        """
        if self.tolerance:
            return np.asarray(self._supported(counts, self._merits(means))[1] / (2 * sigma**2))
        gaps, leads, unique = self._gaps(self._merits(means))
        counts, leads = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), leads)
        best = counts.sum(axis=-1, keepdims=True, where=leads)  # of one arm: exact (in a tie the evidence is 0 anyway)
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

        With a tolerance it is the complexity of the arm with the largest mean, which is the easiest, also over a ball,
        where all gaps of all arms shrink alike and the same arm keeps the most evidence.

        With d_b = 2 sigma^2 / gap_b^2 and y = n_best, n_b = y u_b and u_b = d_b / (y - d_b), the optimum has sum_b
        u_b^2 = 1. The power mean (sum_b u_b^2)^(-1/2) is increasing and concave in y, so Newton's method from y = 2 max
        d rises to the root.
        """
        gaps, leads, possible = self._gaps(self._merits(means))
        radius = 2 * column(radius)
        gaps = gaps - radius if radius.ndim > 1 or radius.any() else gaps
        return complexity_of_gaps(gaps, leads, possible, sigma)

    def _answer_complexity(self, answer: Answer, means: Floats, radii: Floats, sigmas: Floats) -> Complexity:
        """min sum_i sigma_i^2 m_i, 1/m_1 + 1/m_b <= gap_b^2/2, m_i = n_i/sigma_i^2: variances act as prices."""
        values, mine = self.scores(means), one_hot(answer, means.shape[-1])
        scales = np.broadcast_to(sigmas / sigmas.max(), values.shape[-1:])
        gaps = np.take_along_axis(values, answer[:, None], axis=-1) - values + self.tolerance
        gaps = np.maximum(gaps - radii[:, None] * (scales + scales[answer][:, None]), 0.0)
        if len(sigmas) == 1:
            return complexity_of_gaps(gaps, mine, np.ones(len(means), dtype=np.bool_), float(sigmas[0]))
        smallest = np.where(mine, np.inf, gaps).min(axis=-1)
        possible = np.asarray(smallest > 0)
        unit = np.where(possible, smallest, 1.0)[:, None]  # squares of tiny gaps would underflow
        pulls = sigmas**2 * solve_star((gaps / unit) ** 2 / 2, mine, tuple((sigmas**2).tolist()))
        amount = np.where(possible, total(pulls), 1.0)
        return complexity_where(possible, amount / unit[:, 0] ** 2, pulls / amount[:, None])

    def _family_complexity(self, answer: Answer, right: Bools, means: Floats, family: Family) -> Complexity:
        if self.tolerance:
            return super()._family_complexity(answer, right, means, family)
        return star.solve_star(means, answer, right, family)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """8 sigma^2 / gap^2: the samples that the best two arms need on their own."""
        gaps, leads, unique = self._gaps(self._merits(means))
        smallest = np.where(leads, np.inf, gaps).min(axis=-1) - 2 * np.asarray(radius)
        return np.asarray(np.where(unique & (smallest > 0), 8 * sigma**2 / smallest / smallest, np.inf))

    def pieces(self, arms: int) -> Pieces:
        return Pieces(arms - 1, 2)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        others = np.arange(arms - 1)
        best, others = np.asarray(answer)[..., None], others + (others >= np.asarray(answer)[..., None])
        first, second = (others, best) if self.lower_is_better else (best, others)
        return pairs(first, second, -self.tolerance, grid=1)

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"{names[int(answer)]} is the best arm{within_words(self.tolerance)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"Which of {len(names)} arms has the {self.end_text} {wording.mean}{wording.near(self.tolerance)}?"

    @quiet
    def _supported(self, counts: ArrayLike, means: Floats) -> tuple[Answer, Floats]:
        """The arm with the most evidence that it is right, given a tolerance, and that evidence for 2 sigma^2 = 1.

        The evidence against one rival, the strongest by mean, bounds the evidence against all. Arms are tried in
        falling order of this bound until no other can win: usually one or two.
        """
        means, counts = np.broadcast_arrays(means, np.asarray(counts, dtype=np.float64))
        runs, arms = means.shape[:-1], means.shape[-1]
        means, counts = means.reshape(-1, arms), counts.reshape(-1, arms)
        every = np.arange(len(means))
        who = means.argmax(axis=-1)
        second = np.where(one_hot(who, arms), -np.inf, means).argmax(axis=-1)
        rival = np.where(one_hot(who, arms), second[:, None], who[:, None])
        against = np.take_along_axis(counts, rival, axis=-1)
        may = pair_costs(means - np.take_along_axis(means, rival, axis=-1) + self.tolerance, counts, against)
        most, todo = np.zeros(len(means)), every
        while todo.size:
            i = may[todo].argmax(axis=-1)
            todo, i = (each[may[todo, i] > most[todo]] for each in (todo, i))
            mine = np.arange(arms) == i[:, None]
            gaps = means[todo, i][:, None] - means[todo] + self.tolerance
            found = np.where(mine, np.inf, pair_costs(gaps, counts[todo], counts[todo, i][:, None])).min(axis=-1)
            better = found > most[todo]
            most[todo[better]], who[todo[better]] = found[better], i[better]
            may[todo, i] = -np.inf
        return who.reshape(runs), most.reshape(runs)

    def _gaps(self, means: Floats) -> tuple[Floats, Bools, Bools]:
        """The distance of each arm from overturning the answer, who leads, and whether there is no tie.

        The tolerance is added to every gap; of several largest means the first is the answer.
        """
        gaps = means.max(axis=-1, keepdims=True) - means
        if self.tolerance:
            leads = np.arange(means.shape[-1]) == means.argmax(axis=-1)[..., None]
            return gaps + self.tolerance, leads, np.ones(means.shape[:-1], dtype=np.bool_)
        leads = gaps == 0
        if np.count_nonzero(leads) == leads.size // leads.shape[-1]:  # every run has at least one, so there are no ties
            return gaps, leads, np.ones(leads.shape[:-1], dtype=np.bool_)
        return gaps, leads, np.asarray(leads.sum(axis=-1) == 1)


def pair_costs(gaps: Floats, one: Floats, other: Floats) -> Floats:
    """gap_+^2 / (1/N + 1/N'): the cost of closing a gap, for 2 sigma^2 = 1; 0 without results."""
    both = np.maximum(one + other, 1e-300)
    return np.asarray(np.maximum(gaps, 0.0) ** 2 * (one * other / both))


@quiet
def cost_of_leading(pulls: Floats, value: Floats, counts: Floats, values: Floats, least: float = -math.inf) -> Floats:
    """min over x >= least of n (x - mu)^2 + sum_j N_j (mu_j - x)_+^2, mu_j in falling order. (),(),(K),(K)->()

    The cost of making one arm the largest, for 2 sigma^2 = 1. The optimal x is the pooled mean of that arm and of those
    others that exceed x, which are the first few.
    """
    ahead = np.maximum(values - value[..., None], 0.0)
    moved = (counts * ahead).cumsum(axis=-1) / np.maximum(counts.cumsum(axis=-1) + pulls[..., None], 1e-300)
    follows = np.concatenate([ahead[..., 1:], np.zeros_like(ahead[..., :1])], axis=-1)
    last = (follows <= moved).argmax(axis=-1)[..., None]
    step = np.maximum(np.take_along_axis(moved, last, axis=-1), (least - value)[..., None])
    rest = np.maximum(ahead - step, 0.0)
    return np.asarray(pulls * step[..., 0] ** 2 + total(counts * rest**2))


def complexity_of_gaps(gaps: Floats, leads: Bools, possible: Bools, sigma: float) -> Complexity:
    """T* and w* of showing that all gaps between one arm and the others are positive; overwrites `gaps`."""
    np.copyto(gaps, np.inf, where=leads)
    smallest = gaps.min(axis=-1)
    possible = possible & (smallest > 0)
    smallest = np.where(possible, smallest, 1.0)
    np.divide(smallest[..., None], gaps, out=gaps)
    np.minimum(gaps, 1.0, out=gaps)
    value, share = _solve_shares(np.square(gaps, out=gaps))
    total_share = total(share)
    np.copyto(share, 1.0, where=leads)
    share /= (1.0 + total_share)[..., None]
    return complexity_where(possible, value * (1.0 + total_share) * (2 * sigma**2 / smallest / smallest), share)


def solve_star(costs: Floats, leads: Bools, prices: tuple[float, ...] = ()) -> Floats:
    """min sum n subject to 1/n_lead + 1/n_b <= costs_b for all finite costs_b; 0 if there are none. (K),(K)->(K)

    With prices c the objective is sum c n, and the optimum has sum_b c_b n_b^2 = c_lead n_lead^2. So y = 1/n_lead is
    the root of y^2 sum_b c_b/(costs_b - y)^2 = c_lead below the smallest cost, where the left side increases.
    """
    smallest = np.where(leads, np.inf, costs).min(axis=-1)
    possible = np.asarray((smallest > 0) & np.isfinite(smallest))
    unit = np.where(possible, smallest, 1.0)[..., None]
    if prices:
        relative, of = np.where(leads, np.inf, costs / unit), np.asarray(prices)
        low, high, first = np.zeros(unit.shape), np.ones(unit.shape), total(np.where(leads, of, 0.0))[..., None]
        for _ in range(60):
            y = (low + high) / 2
            over = total(of * (y / (relative - y)) ** 2)[..., None] > first
            low, high = np.where(over, low, y), np.where(over, y, high)
        pulls = np.where(leads, 1.0 / low, 1.0 / (relative - low))
        return np.where(possible[..., None], pulls / unit, 0.0)
    level, share = _solve_shares(np.where(leads, 0.0, np.minimum(unit / costs, 1.0)))
    return np.where(possible[..., None], np.where(leads, 1.0, share) * level[..., None] / unit, 0.0)


def _solve_shares(d: Floats) -> tuple[Floats, Floats]:
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
        # each run stops by itself, once the error after a step, of the order of its square (quadratic convergence), is
        # negligible
        level = np.where(active, level * (1.0 + np.maximum(step, 0.0)), level)
        active &= step > 1e-6
