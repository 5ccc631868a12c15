"""Limits that share one arm: the cheapest k of them, for many runs at once.

T_k = min n_0 + sum_j n_j  subject to  a_j / n_0 + b_j / n_j <= c_j for the first k of the limits. At t = n_0 the others
need n_j = e_j t / (t - d_j), with d_j = a_j / c_j and e_j = b_j / c_j, so t solves sum_j g_j / (t - d_j)^2 = 1 with g_j
= d_j e_j. The sum to the power -1/2 is increasing and concave in t, so Newton's method converges from below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import FEW, Bools, Floats, quiet, total

_STEPS = 60  # most Newton steps; 3 or 4 are usual
_NEAR = 1e-6  # a relative step this small leaves an error of its square
_FEWER = 0.75  # runs that have stopped are dropped once those left are fewer than this share


class SharedArm(NamedTuple):
    """The arm that all forms share, and the other arm of each form."""

    arm: int
    others: NDArray[np.intp]  # (J), all different


class CheapestLimits(NamedTuple):
    """The number of limits, in their order, with the fewest pulls per limit, and these pulls; 0 if none can be met."""

    number: Floats  # ()
    pulls: Floats  # (K)


def find_shared_arm(forms: Floats) -> SharedArm | None:
    """The arm that all forms share, if each has exactly one other and these all differ. (J, K)"""
    used = forms != 0
    shared = np.flatnonzero(used.all(axis=0))
    if shared.size == 0 or not (used.sum(axis=-1) == 2).all():
        return None
    arm = int(shared[0])
    others = (used & (np.arange(forms.shape[-1]) != arm)).argmax(axis=-1)
    return SharedArm(arm, others) if np.unique(others).size == others.size else None


@quiet
def solve_cheapest(
    shared: SharedArm,
    forms: Floats,
    variances: Floats,
    limits: Floats,
    order: NDArray[np.intp],
    open_: Bools,
    every: bool,
) -> CheapestLimits:
    """The k of the open limits, in this order, with the largest k / T_k; with `every`, all of them.

    Limits are on the variances of the forms. An infinite limit costs nothing; a limit of 0 cannot be met. `(J,
    K),(K),(J),(J),(J)->(),(K)`
    """
    number, runs = len(forms), order.shape[:-1][::-1]
    spread = variances.transpose().reshape(variances.shape[-1], -1)
    factors = [forms[:, shared.arm] ** 2, forms[np.arange(number), shared.others] ** 2]
    a = factors[0][:, None] * spread[shared.arm]
    b = factors[1][:, None] * spread[shared.others]
    rows = np.ascontiguousarray(order.transpose()).reshape(number, -1)
    places = rows * rows.shape[-1] + np.arange(rows.shape[-1])
    c, a, b = (each.reshape(-1).take(places) for each in (limits.transpose(), a, b))
    d, e = a / c, b / c
    many = np.asarray(open_.sum(axis=-1).transpose()).reshape(-1)
    best, place = _search_number(many, d, e, d * e, every)
    each = np.empty_like(c)
    each.reshape(-1)[places] = np.where(np.arange(number)[:, None] < best, e * (place / (place - d)), 0.0)
    pulls = np.zeros((forms.shape[-1], rows.shape[-1]))
    pulls[shared.arm], pulls[shared.others] = place, each
    return CheapestLimits(best.reshape(runs).transpose(), pulls.reshape(-1, *runs).transpose())


def _search_number(many: NDArray[np.intp], d: Floats, e: Floats, g: Floats, every: bool) -> tuple[Floats, Floats]:
    """The number k of limits with the largest k / T_k, and its t. (n),(J, n),(J, n),(J, n)->(n),(n)"""
    number, place = np.zeros(many.size), np.zeros(many.size)
    t, best, most, at = np.zeros(many.size), np.zeros(many.size), place, number
    here, going = np.arange(many.size), np.ones(many.size, dtype=np.bool_)  # runs that more limits may improve
    for k in range(1, int(many.max(initial=0)) + 1):
        # limit k and each later one cost at least e_k: once that exceeds the average, more limits cannot help
        going = going & (many >= k)
        if not every:
            going &= ~(e[k - 1] * best >= 1.0)
        left = np.count_nonzero(going)
        if not left:
            break
        if left < _FEWER * going.size:
            number[here], place[here] = at, most
            some = np.flatnonzero(going)
            d, e, g = (each.take(some, axis=1) for each in (d, e, g))
            here, going, many = here[some], going[some], many[some]
            t, best, at, most = (each[some] for each in (t, best, at, most))
        t = _solve_shared(np.maximum(np.maximum(t, d[k - 1] + np.sqrt(g[k - 1])), 1e-150), d[:k], g[:k])
        amount = t + _sum_limits(e[:k] * (t / (t - d[:k])))
        good = going & np.isfinite(amount) & (amount > 1e-140)
        if every:
            good &= many == k
        rate = np.where(good, k / amount, 0.0)
        better = rate > best
        best, at, most = np.where(better, rate, best), np.where(better, k, at), np.where(better, t, most)
    number[here], place[here] = at, most
    return number, place


def _sum_limits(rows: Floats) -> Floats:
    """The sum over the first axis, in the same order as `total`."""
    if len(rows) <= FEW and rows.shape[-1] > 1:
        return np.asarray(np.add.reduce(rows, axis=0))
    return total(rows.transpose())


def _solve_shared(t: Floats, d: Floats, g: Floats) -> Floats:
    """The t with sum_j g_j / (t - d_j)^2 = 1, starting at or below it. (n),(k, n),(k, n)->(n)"""
    active = np.ones(t.shape, dtype=np.bool_)
    for _ in range(_STEPS):
        x = 1.0 / (t - d)
        power = g * x
        power *= x
        second = _sum_limits(power)
        power *= x
        step = np.sqrt(second)
        step *= second
        step -= second
        step /= _sum_limits(power)
        active &= step > 0
        t = np.where(active, t + step, t)
        active &= step > _NEAR * t
        if not active.any():
            break
    return t
