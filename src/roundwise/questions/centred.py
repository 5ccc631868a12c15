"""Limits that share one arm: the cheapest k of them, for many runs at once.

T_k = min n_0 + sum_j n_j  subject to  a_j / n_0 + b_j / n_j <= c_j for the first k of the limits. At t = n_0 the others
need n_j = e_j t / (t - d_j), with d_j = a_j / c_j and e_j = b_j / c_j, so t solves sum_j g_j / (t - d_j)^2 = 1 with
g_j = d_j e_j. Of that sum, to the power -1/2, which rises and is concave in t, Newton's method comes from below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total
from roundwise.questions.base import quiet

_STEPS = 60  # of Newton's method: 3 or 4 are usual
_NEAR = 1e-6  # a step of this share of t leaves an error of its square


class Centre(NamedTuple):
    """The arm that all forms share, and of each form the other one."""

    arm: int
    others: NDArray[np.intp]  # (J), all different


class Cheapest(NamedTuple):
    """How many of the limits, in their order, are fewest pulls for each, and these pulls; none where none can be."""

    number: Floats  # ()
    pulls: Floats  # (K)


def centre_of(forms: Floats) -> Centre | None:
    """The arm that all forms share, if each has one more and no two the same. (J, K)"""
    used = forms != 0
    shared = np.flatnonzero(used.all(axis=0))
    if shared.size == 0 or not (used.sum(axis=-1) == 2).all():
        return None
    arm = int(shared[0])
    others = (used & (np.arange(forms.shape[-1]) != arm)).argmax(axis=-1)
    return Centre(arm, others) if np.unique(others).size == others.size else None


@quiet
def cheapest(
    centre: Centre,
    forms: Floats,
    variances: Floats,
    limits: Floats,
    order: NDArray[np.intp],
    open_: Bools,
    every: bool,
) -> Cheapest:
    """The k of the open limits, in this order, with the largest k / T_k; with `every`, all of them.

    Limits are those of the variances of the forms. An infinite one costs nothing, and one of 0 cannot be kept.
    `(J, K),(K),(J),(J),(J)->(),(K)`
    """
    rows, spread = order.transpose(), variances.transpose()
    factors = [forms[:, centre.arm] ** 2, forms[np.arange(len(forms)), centre.others] ** 2]
    shape = (-1, *(1,) * (rows.ndim - 1))
    a = factors[0].reshape(shape) * spread[centre.arm]
    b = factors[1].reshape(shape) * spread[centre.others]
    c, a, b = (np.take_along_axis(each, rows, axis=0) for each in (limits.transpose(), a, b))
    d, e = a / c, b / c
    g = d * e
    many = np.asarray(open_.sum(axis=-1).transpose())
    runs = many.shape
    many, (c, d, e, g) = many.reshape(-1), (each.reshape(len(c), -1) for each in (c, d, e, g))
    t, best, number, place = (np.zeros(many.size) for _ in range(4))
    left = np.arange(many.size)  # the runs of which more may be better
    for k in range(1, int(many.max(initial=0)) + 1):
        # one more limit costs e_k at least, and each after it no less: if that is above the mean, it is no better
        going = (many[left] >= k) & (every | ~(e[k - 1, left] * best[left] >= 1.0))
        if not going.all():
            left = left[going]
        if not left.size:
            break
        here = slice(None) if left.size == many.size else left
        t[here] = _solved(
            np.maximum(np.maximum(t[here], d[k - 1, here] + np.sqrt(g[k - 1, here])), 1e-150), d[:k, here], g[:k, here]
        )
        amount = t[here] + total((e[:k, here] * (t[here] / (t[here] - d[:k, here]))).transpose())
        good = np.isfinite(amount) & (amount > 1e-140) & (k == many[here] if every else True)
        rate = np.where(good, k / amount, 0.0)
        better = rate > best[here]
        best[here], number[here] = np.where(better, rate, best[here]), np.where(better, k, number[here])
        place[here] = np.where(better, t[here], place[here])
    each = np.where(np.arange(len(c))[:, None] < number, e * (place / (place - d)), 0.0)
    pulls = np.zeros((forms.shape[-1], *runs))
    pulls[centre.arm] = place.reshape(runs)
    back = np.argsort(rows, axis=0, kind="stable")
    pulls[centre.others] = np.take_along_axis(each.reshape(len(c), *runs), back, axis=0)
    return Cheapest(number.reshape(runs).transpose(), pulls.transpose())


def _solved(t: Floats, d: Floats, g: Floats) -> Floats:
    """The t with sum_j g_j / (t - d_j)^2 = 1, from one that is not above it. (n),(k, n),(k, n)->(n)"""
    active = np.ones(t.shape, dtype=np.bool_)
    for _ in range(_STEPS):
        x = 1.0 / (t - d)
        power = g * x
        power *= x
        second = total(power.transpose())
        power *= x
        step = (second * np.sqrt(second) - second) / total(power.transpose())
        active &= step > 0
        t = np.where(active, t + step, t)
        active &= step > _NEAR * t
        if not active.any():
            break
    return t
