"""The closed test of many claims with weighted means of e-values, in no more time than it takes to add them up.

Wealth is in units of 1/delta on an axis of sides (the claim, and its opposite if that can be shown) before the axis of
claims. (docs/why-the-guarantee-holds.md, Proposition 13.)
"""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Bools, Floats, total

_MOST = 50.0  # log of the wealth that counts
_NOTHING = 1e6  # -log of what counts as nothing
_SLACK = 1e-12  # relative: a bet that pays just what was needed must count


def wealth_in_goals(gains: Floats, goal: float) -> Floats:
    """Wealth in units of 1/delta."""
    return np.exp(np.minimum(gains - goal, _MOST))


def reject_closed(wealth: Floats, shown: Bools, weights: Floats) -> Bools:
    """The claims shown by now: rule (R), repeated until nothing changes. `(D, J),(D, J),(J)->(D, J)`

    A claim is shown if w_j (X_j - 1) is at least what all other claims lack, w_i max(1 - X_i, 0), each counted with the
    smaller of its sides that are not shown.
    """
    while True:
        now = shown | (
            weights[..., None, :] * (wealth * (1.0 + _SLACK) - 1.0)
            >= missing_wealth(wealth, shown, weights)[..., None, :]
        )
        if (now == shown).all():
            return shown
        shown = now


def reject_independent(gains: Floats, shown: Bools, goal: float) -> Bools:
    """The same for claims whose e-values may be multiplied (Proposition 28). `(D, J),(D, J)->(D, J)`

    A claim is shown if its wealth times all that other claims lost reaches 1/delta.
    """
    while True:
        now = shown | (gains >= goal + lost_by_others(gains, shown)[..., None, :] - _SLACK)
        if (now == shown).all():
            return shown
        shown = now


def lost_by_others(gains: Floats, shown: Bools) -> Floats:
    """-log of what the claims other than each have left of 1, where they have less. `(D, J),(D, J)->(J)`"""
    lost = -np.clip(least_of(gains, shown), -_NOTHING, 0.0)
    return np.maximum(total(lost)[..., None] - lost, 0.0)


def missing_wealth(wealth: Floats, shown: Bools, weights: Floats) -> Floats:
    """The wealth that all other claims lack, for each claim. `(D, J),(D, J),(J)->(J)`"""
    lack = weights * np.maximum(1.0 - least_of(wealth, shown), 0.0)
    return total(lack)[..., None] - lack


def least_of(wealth: Floats, shown: Bools) -> Floats:
    """The smaller of the sides of each claim that are not shown, infinite if both are. `(D, J),(D, J)->(J)`"""
    return np.asarray(np.where(shown, np.inf, wealth).min(axis=-2))


def open_weight(shown: Bools, weights: Floats) -> Floats:
    """The weight of all claims of which something is not shown. `(D, J),(J)->()`"""
    return total(np.where(shown.all(axis=-2), 0.0, weights))


def adjusted_e_values(wealth: Floats, shown: Bools, weights: Floats) -> Floats:
    """The adjusted e-value of each line, in units of 1/delta: the least weighted mean over all sets it is in. (D, J)

    The sets are of the claims of which something is not shown; the least mean is over a line and those below it. For a
    line that is not shown it is at least 1 just where rule (R) shows it.
    """
    least = least_of(wealth, shown)
    inside = np.isfinite(least)
    order = np.argsort(least, axis=-1, kind="stable")
    heavy = np.where(inside, weights, 0.0)
    held = np.where(inside, weights * np.where(inside, least, 0.0), 0.0)
    rank = np.argsort(order, axis=-1, kind="stable")
    weight = np.cumsum(np.take_along_axis(np.broadcast_to(heavy, order.shape), order, axis=-1), axis=-1)
    amount = np.cumsum(np.take_along_axis(held, order, axis=-1), axis=-1)
    found = wealth.copy()
    for k in range(order.shape[-1]):
        own = rank <= k  # then its least side is among those added up, and is put back by its own wealth
        mass = weight[..., k, None] + np.where(own, weights - heavy, weights)
        for side in range(wealth.shape[-2]):
            paid = amount[..., k, None] + weights * wealth[..., side, :] - np.where(own, held, 0.0)
            found[..., side, :] = np.minimum(found[..., side, :], paid / mass)
    return found
