"""Lower bounds on the expected number of samples of delta-correct algorithms (docs/bounds.md)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, total
from roundwise.errors import InputError, RoundwiseError
from roundwise.questions.base import Question
from roundwise.solvers.halfspaces import Family


def sample_lower_bound(complexity: ArrayLike, delta: float) -> Floats:
    """T* kl(delta, 1 - delta): with one right answer no delta-correct algorithm needs fewer on average (Section 1.1).

    >>> round(float(sample_lower_bound(200.0, 0.05)), 1)
    530.0
    """
    least = max(0.0, 1 - 2 * delta) * math.log((1 - delta) / delta)  # kl(delta, 1 - delta); no bound beyond delta = 1/2
    return np.asarray(complexity, dtype=np.float64) * least


def shared_lower_bound(complexities: ArrayLike, delta: float, ways: ArrayLike | None = None) -> Floats:
    """The lower bound for several right answers i, from T_i (nan for wrong answers). (answers)->()

    Right answers beyond those listed (`ways` in all) count as the easiest one, which keeps the bound valid.

    Any algorithm has E[tau] >= T_i kl(P(i), delta) for each of them, and the P(i) add up to 1 - delta or more
    (docs/bounds.md): the bound is the x with sum_i max{p: kl(p, delta) <= x/T_i} = 1 - delta. The sum is concave in x,
    so Newton's method from T_min kl((1 - delta)/number, delta) rises to it: no iterate is above.

    >>> round(float(shared_lower_bound([200.0, np.nan], 0.05)), 1)  # one right answer
    530.0
    >>> round(float(shared_lower_bound([200.0, 200.0], 0.05)), 1)
    151.6
    """
    needs = np.asarray(complexities, dtype=np.float64)
    number = (~np.isnan(needs)).astype(np.float64)
    easiest = np.where(number > 0, needs, np.inf).min(axis=-1)
    if ways is not None:
        needs = np.concatenate([needs, easiest[..., None]], axis=-1)
        unlisted = np.maximum(np.asarray(ways) - total(number), 0.0)
        number = np.concatenate([number, unlisted[..., None]], axis=-1)
    share = (1 - delta) / np.maximum(total(number), 1)
    bound = np.where(share > delta, easiest, 0.0)  # 0 if guessing among them will do
    todo = (share > delta) & np.isfinite(easiest)
    start = easiest[todo] * _kl(share[todo], delta)
    bound[todo] = _where_shares_suffice(needs[todo], number[todo], start, delta)
    return bound


def cost_lower_bound(
    question: Question, means: ArrayLike, delta: float, prices: ArrayLike, sigma: float = 1.0
) -> Floats:
    """The lower bound on the expected cost of any delta-correct algorithm, where a result of arm i costs `prices[i]`.

    In n' = c n an arm of price c is one of price 1 whose variance is c times as large (docs/bounds.md).

    >>> from roundwise.questions import BestArm
    >>> round(float(cost_lower_bound(BestArm(), [1.0, 0.0], 0.05, [1.0, 4.0])), 2)  # (1 + 2)^2 in place of 4
    47.7
    """
    each = np.asarray(prices, dtype=np.float64)
    if not ((each > 0) & np.isfinite(each)).all():
        raise InputError("Prices are positive numbers, one for each arm.")
    deviations = sigma * np.sqrt(each)
    return sample_lower_bound(question.complexity_with_sigmas(means, 0.0, deviations).value, delta)


def lower_bound_at(
    question: Question, means: ArrayLike, delta: float, sigma: float = 1.0, complexity: Floats | None = None
) -> Floats:
    """The lower bound at these means, whether one answer is right or more.

    Args:
        question: The question.
        means: The true means. (K)
        delta: The error probability.
        sigma: The deviation of the rewards.
        complexity: T*, where it is known already.

    >>> from roundwise.questions import BestArm
    >>> [round(float(lower_bound_at(BestArm(tolerance), [0.01, 0.0], 0.05))) for tolerance in (0.0, 0.1)]
    [212000, 605]
    """
    values = np.asarray(means, dtype=np.float64)
    if question.separate_claims:  # showing nothing is never wrong
        return np.zeros(values.shape[:-1])
    if not (question.count_right_answers(values) > 1).any():
        known = question.complexity(values, sigma=sigma).value if complexity is None else complexity
        return sample_lower_bound(known, delta)
    rows = values.reshape(-1, values.shape[-1])
    if (rows == rows[:1]).all():  # the same instance in every run
        rows = rows[:1]
    ways = question.count_right_answers(rows)
    todo = ways * delta < 1 - delta  # else guessing will do
    found = np.zeros(len(rows))
    if todo.any():
        found[todo] = shared_lower_bound(question.complexities(rows[todo], sigma), delta, ways[todo])
    return np.broadcast_to(found, math.prod(values.shape[:-1])).reshape(values.shape[:-1]).copy()


def own_lower_bound(question: Question, means: ArrayLike, delta: float, family: Family) -> tuple[Floats, Floats] | None:
    """T~* with the divergences of the rewards' own family, and the lower bound that follows; None where there is none.

    There is none for claims, for questions that are not made of half-spaces, and where it cannot be solved for.

    >>> from roundwise.questions import BestArm
    >>> from roundwise.solvers.halfspaces import BinaryFamily
    >>> found = own_lower_bound(BestArm(), [0.05, 0.04, 0.03], 0.05, BinaryFamily())
    >>> round(float(found[1]))
    9696
    """
    values = np.asarray(means, dtype=np.float64)
    if question.separate_claims:
        return None
    rows = values.reshape(-1, values.shape[-1])
    if (rows == rows[:1]).all():  # the same instance in every run
        rows = rows[:1]
    try:
        needed = question.family_complexity(rows, family).value
        bound = sample_lower_bound(needed, delta)
        ways = question.count_right_answers(rows)
        several = ways > 1
        if several.any():
            each = question.family_complexities(rows[several], family)
            bound[several] = shared_lower_bound(each, delta, ways[several])
    except RoundwiseError:
        return None
    runs = values.shape[:-1]
    number = math.prod(runs)
    return tuple(np.broadcast_to(each, number).reshape(runs).copy() for each in (needed, bound))  # type: ignore[return-value]


def _where_shares_suffice(needs: Floats, number: Floats, bound: Floats, delta: float) -> Floats:
    """The x with sum_i number_i p_i(x) = 1 - delta, p_i = max{p: kl(p, delta) <= x/T_i}, from below."""
    right = number > 0
    logit = math.log(delta / (1 - delta))
    rates = np.where(right, 1 / needs, 0.0)
    for _ in range(100):
        shares = _largest_share(rates * bound[:, None], delta)
        slopes = np.log(shares / (1 - shares)) - logit  # of kl(p, delta)
        rises = total(np.where(slopes > 0, number * rates / np.where(slopes > 0, slopes, 1.0), 0.0))
        step = (1 - delta - total(np.where(right, number * shares, 0.0))) / rises
        rising = step > 1e-12 * bound
        if not rising.any():
            break
        bound = np.where(rising, bound + step, bound)
    return bound


def _largest_share(divergence: Floats, delta: float) -> Floats:
    """max{p: kl(p, delta) <= divergence}, but at most 1 - delta: Newton's method on a convex function, from above."""
    share = np.minimum(delta + np.sqrt(divergence / 2), 1 - delta)  # Pinsker's inequality
    logit = math.log(delta / (1 - delta))
    for _ in range(200):
        slope = np.log(share / (1 - share)) - logit
        step = np.where(slope > 0, (_kl(share, delta) - divergence) / np.where(slope > 0, slope, 1.0), 0.0)
        falling = step > 1e-15
        if not falling.any():
            break
        share = np.where(falling, np.maximum(share - step, delta), share)
    return share


def _kl(share: Floats, delta: float) -> Floats:
    """kl(p, delta) of two coins, 0 < p < 1."""
    return np.asarray(share * np.log(share / delta) + (1 - share) * np.log((1 - share) / (1 - delta)))
