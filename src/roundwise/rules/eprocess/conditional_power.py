"""Conditional power: the probability that each claim is shown with the results left. No guarantee depends on it. If the
first k claims around one arm (a control), in some order, are sampled, the control has sqrt(k) times the results of each
other arm: so the information of every claim is known for every k without counting arms (`_sums_around`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, quiet, sum_rows, total, zeros
from roundwise.model.estimates import form_variances
from roundwise.solvers.halfspaces import Halfspaces
from roundwise.solvers.shared_arm import SharedArm, find_shared_arm

Index = NDArray[np.intp]

_FEW = 8  # claims up to which the chances of every number of them are computed
_SAME = 1e-11  # sums of chances that differ by less are the same: then fewer claims are sampled


class PowerForecast(NamedTuple):
    """Which claims to feed, how likely each is then shown by the end, and how many are expected to be."""

    targeted: Bools  # (J)
    chances: Floats  # (J), 0 where it is shown
    expected: Floats  # (), of those that are not shown yet


def shares_of(squares: Floats, items: bool = False) -> Floats:
    """The shares of the arms of sampled claims: sqrt of how often an arm occurs in them; equal on shared items."""
    return np.where(squares > 0, 1.0, 0.0) if items else np.sqrt(squares)


def squares_of(forms: Floats) -> Floats:
    """The squares of the coefficients, each form in units of its largest. (J, K)"""
    return np.asarray((forms / np.abs(forms).max(axis=-1, keepdims=True)) ** 2)


def counted_arms(squares: Floats, targeted: Bools) -> Floats:
    """How often each arm occurs in the sampled claims, by the squares of its coefficients. (J, K),(J)->(K)"""
    counted = zeros((*targeted.shape[:-1], squares.shape[-1]))
    rows, which = counted.transpose(), targeted.transpose()
    for claim, arm in np.argwhere(squares).tolist():
        rows[arm] += which[claim] * squares[claim, arm]
    return counted


@quiet
def forecast_power(
    forms: Floats,
    pieces: Halfspaces,
    unshown: Bools,
    need: Floats,
    value: Floats,
    error: Floats,
    variances: Floats,
    left: Floats,
    items: Floats | None = None,
) -> PowerForecast:
    """The nested set of claims with the largest sum of chances, if `left` results are shared among their arms.

    Lines are on the last axis of `unshown`, `need`, `value` (less the level) and `error`: the claims, then their
    opposites if there are any; `pieces` are those of any run. chance = Phi((theta sqrt(I) - y)/sqrt(1 + error^2 I)),
    y the score that must be reached, I the information that the results will bring. Where arms are tried on the same
    `items`, these are of each line the variance that a result of each of its arms would have if they had items of their
    own: half that of a difference.
    """
    number, squares, left = len(forms), squares_of(forms), np.broadcast_to(left, value.shape[:-1])
    unfinished = np.asarray(unshown.reshape(*left.shape, -1, number).any(axis=-2)).reshape(-1, number)
    lines = _Lines(value, error, need, unshown, number)
    variances, amount = variances.reshape(-1, variances.shape[-1]), left.reshape(-1)
    apart = None if items is None else items.reshape(-1, items.shape[-1])

    def chances(targeted: Bools) -> Floats:
        """The larger of the chances of the two sides of each sampled claim. (J)"""
        found = lines.chances(_spread(counted_arms(squares, targeted), amount, variances, pieces, apart), targeted)
        return np.asarray(found.reshape(-1, number, found.shape[-1]).max(axis=0).transpose())

    everything = chances(unfinished)
    order = np.argsort(np.where(unfinished, -everything, np.inf), axis=-1, kind="stable")
    rank = np.asfortranarray(np.argsort(order, axis=-1, kind="stable"))
    many = unfinished.sum(axis=-1)
    centre = find_shared_arm(forms) if apart is None and number > _FEW else None
    most = max(int(many.max(initial=0)), 1)
    if centre is None:  # by the number of sampled claims
        every = np.array([*(chances(rank < np.minimum(k, many)[:, None]) for k in range(1, most)), everything])
        sums = total(every)
    else:
        sums = _sums_around(centre, forms, order[:, :most], variances, amount, lines)
    sums = np.where(np.arange(1, most + 1)[:, None] <= many, sums, -1.0)
    best = sums.max(axis=0, initial=0.0)
    size = np.where(many > 0, (sums >= best - _SAME).argmax(axis=0) + 1, 0)
    still = np.flatnonzero(amount == 0)
    if still.size:  # the chances do not depend on the number
        size[still] = _fewest(everything[still], rank[still], unfinished[still])
    targeted = rank < size[..., None]
    found = every[np.maximum(size, 1) - 1, np.arange(len(size))] if centre is None else chances(targeted)
    found = np.where(targeted, np.where((amount == 0)[:, None], everything, found), 0.0)
    return PowerForecast(
        targeted.reshape(*left.shape, number), found.reshape(*left.shape, number), total(found).reshape(left.shape)
    )


def _sums_around(
    centre: SharedArm, forms: Floats, order: Index, variances: Floats, left: Floats, lines: _Lines
) -> Floats:
    """The total conditional power of the first k claims around one arm if these are sampled, for every k. (J, n)"""
    from scipy.special import ndtr

    rows, every, squares = order.transpose(), np.arange(len(forms)), squares_of(forms)
    own, central = np.sqrt(squares[every, centre.others]), np.sqrt(squares[:, centre.arm][rows].cumsum(axis=0))
    result = (central + own[rows].cumsum(axis=0)) / np.maximum(left, 1e-300)  # one per unit of a share

    def sort(values: Floats) -> Floats:
        return np.take_along_axis(values, rows, axis=0)

    inner = sort(forms[:, centre.arm, None] ** 2 * variances[:, centre.arm])
    outer = sort(forms[every, centre.others, None] ** 2 * variances[:, centre.others].transpose() / own[:, None])
    sides = [[sort(each) for each in side] for side in zip(*lines.sides(), strict=True)]
    sums = np.empty(rows.shape)
    for k in range(1, len(rows) + 1):
        information = 1.0 / (inner[:k] * (result[k - 1] / central[k - 1]) + outer[:k] * result[k - 1])
        root, away = np.sqrt(information), []
        for value, score, square in sides:
            found = value[:k] * root
            found -= score[:k]
            found /= np.sqrt(1.0 + square[:k] * information)
            away.append(found)
        sums[k - 1] = sum_rows(np.fmax(ndtr(np.maximum.reduce(away)), 0.0))
    return sums


def _fewest(chances: Floats, rank: Index, open_: Bools) -> Index:
    """The fewest claims with the largest sum of chances, where nothing is left and they do not depend on the number.

    With more of them a sum is no smaller, also when it is rounded, so it is found by halving. (J),(J),(J)->()
    """
    most, high = total(chances), open_.sum(axis=-1)
    low = np.minimum(high, 1)
    while (low < high).any():
        middle = (low + high) // 2
        enough = total(np.where(rank < middle[..., None], chances, 0.0)) >= most
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return low


class _Lines:
    """The claims, then their opposites if there are any, all runs of one line in a row."""

    def __init__(self, value: Floats, error: Floats, need: Floats, unshown: Bools, number: int) -> None:
        from scipy.special import ndtri

        self.number = number
        score = -ndtri(np.exp(-np.maximum(need, 0.0)))
        self.value, self.score, self.unshown = (_rows(each) for each in (value, score, unshown))
        self.square = _rows(error**2)
        self.known = np.isfinite(_rows(error)) & np.isfinite(self.value)

    def sides(self) -> tuple[Floats, Floats, Floats]:
        """Value, score and square of the error of the claims, and of their opposites; all 0 if not known. (D, J, n)"""
        value, score, square = (
            np.where(self.known, each, 0.0).reshape(-1, self.number, self.known.shape[-1])
            for each in (self.value, self.score, self.square)
        )
        return value, score, square

    def chances(self, spread: Floats, of: Bools) -> Floats:
        """The chances of the lines of some claims, if results have this variance for them; else 0. (L, n)

        With I = 1/spread it is Phi((value sqrt I - score)/sqrt(1 + error^2 I)).
        """
        from scipy.special import ndtr

        at = np.flatnonzero(np.concatenate([of.transpose()] * (len(self.unshown) // self.number)) & self.unshown)
        information = 1.0 / _rows(spread).reshape(-1).take(at)
        away = self.value.take(at) * np.sqrt(information)
        away -= self.score.take(at)
        away /= np.sqrt(1.0 + self.square.take(at) * information)
        found = np.zeros(self.unshown.shape)
        found.reshape(-1)[at] = np.where(self.known.take(at), np.fmax(ndtr(away), 0.0), 0.5)
        return found


def _spread(counted: Floats, left: Floats, variances: Floats, pieces: Halfspaces, items: Floats | None) -> Floats:
    """The variance of each line from `left` results, shared among arms that are in claims so often. (L)"""
    share = shares_of(counted, items is not None)
    pulls = left[..., None] * share / np.maximum(total(share), 1e-300)[..., None]
    return form_variances(variances / pulls, pieces) if items is None else items * form_variances(1.0 / pulls, pieces)


def _rows(lines: Array) -> Array:
    """Lines (L) of all runs in rows. (L, n)"""
    return np.ascontiguousarray(lines.reshape(-1, lines.shape[-1]).transpose())


@quiet
def power_by_line(
    forms: Floats,
    pieces: Halfspaces,
    targeted: Bools,
    need: Floats,
    value: Floats,
    error: Floats,
    variances: Floats,
    left: Floats,
    items: Floats | None = None,
) -> Floats:
    """The conditional power of each line if `left` results are shared among the arms of the claims that are `fed`
    (sampled). 0 for the others. One run only. (L)
    """
    spread = _spread(counted_arms(squares_of(forms), targeted), left, variances, pieces, items)
    lines = _Lines(value, error, need, np.broadcast_to(left > 0, value.shape), len(forms))
    return lines.chances(spread, targeted[None])[:, 0]
