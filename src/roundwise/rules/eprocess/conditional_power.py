"""Conditional power: how likely each claim is to be shown with the results that are left. It promises nothing.

How many claims around one arm (a control) to feed is found with rough chances first. If the first k, in some order, are
fed, the control has sqrt(k) times the results of each other arm, so the information of every claim is known for every k
without counting arms. Chances in single precision from a table are good to `_OFF`; a number of claims whose sum of
chances is further below the largest than these errors allow is not the best, and only the others are computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, quiet, total, tree_take, zeros
from roundwise.model.estimates import form_variances
from roundwise.solvers.halfspaces import Halfspaces
from roundwise.solvers.shared_arm import SharedArm, find_shared_arm

Index = NDArray[np.intp]
Singles = NDArray[np.float32]

_STEPS, _LEAST = 4096, 6  # entries of the table of Phi per unit, from -_LEAST to _LEAST
_OFF = 1e-4  # of one chance, at most: 0.4 times half a step, single precision, and Phi(-_LEAST) = 1e-9
_FARTHEST = 1e15  # values beyond it, in deviations, are as good as that


@dataclass(frozen=True)
class Around:
    """Claims around one arm, in an order of each run, of which so many are open."""

    centre: SharedArm
    forms: Floats  # (J, K)
    squares: Floats  # (J, K), of the coefficients, each form in units of its largest
    order: Index  # (n, J)
    rank: Index  # (n, J)
    many: Index  # (n)

    def likely(self, variances: Floats, left: Floats, value: Floats, score: Floats, square: Floats) -> Bools:
        """Which numbers of claims could have the largest sum of chances. (K),(),(D, J),(D, J),(D, J)->(J)

        Arms have these variances, and `left` results are shared among those of the first k. Runs come first in the
        former, and last in the latter and in what is returned.
        """
        rows, spread = self.order.transpose(), variances.transpose()
        unit = spread[self.centre.arm]
        good = np.isfinite(spread).all(axis=0) & (unit > 0) & np.isfinite(left)
        unit = np.where(good, unit, 1.0)
        own = np.sqrt(self.squares[np.arange(len(self.forms)), self.centre.others])  # its share
        central = np.sqrt(self._central())
        results = (central + own[rows].cumsum(axis=0)) / np.maximum(left, 1e-300)  # one per unit of a share
        a = self._alike(self.forms[:, self.centre.arm, None] ** 2 * (spread[self.centre.arm] / unit))
        other = self.forms[np.arange(len(self.forms)), self.centre.others] ** 2 / own
        b = self._alike(other[:, None] * (spread[self.centre.others] / unit))
        u, w = (each.astype(np.float32) for each in (results / central, results))
        value, square = value / np.sqrt(unit), square / unit
        sides = [
            [np.take_along_axis(np.clip(each, -_FARTHEST, _FARTHEST), rows, axis=0).astype(np.float32) for each in side]
            for side in zip(value, score, square, strict=True)
        ]
        table, sums = _phi_table(), np.full(rows.shape, -1.0)
        for k in range(1, int(self.many.max(initial=0)) + 1):
            information = 1.0 / (a[:k] * u[k - 1] + b[:k] * w[k - 1])
            root = np.sqrt(information)
            away = _away(sides[0], k, root, information)
            for side in sides[1:]:
                np.maximum(away, _away(side, k, root, information), out=away)
            away *= np.float32(_STEPS)
            away += np.float32(_LEAST * _STEPS + 0.5)
            np.maximum(away, np.float32(0.0), out=away)
            np.minimum(away, np.float32(table.size - 1), out=away)
            sums[k - 1] = np.add.reduce(table.take(away.astype(np.int32), mode="clip"), axis=0)
        number = np.arange(1.0, len(rows) + 1.0)[:, None]
        possible = number <= self.many
        enough = np.where(possible, sums - _OFF * number, -np.inf).max(axis=0)
        return np.asarray(possible & ((sums + _OFF * number >= enough) | ~good))

    def lots(self, numbers: Bools) -> Iterator[tuple[Index, Index, Floats]]:
        """Some runs with one of these numbers each, and how often each arm is in so many. (J)->(),(),(K)"""
        central, others = self._central(), self.squares[np.arange(len(self.forms)), self.centre.others]
        nth = numbers.cumsum(axis=0)
        for number in range(1, int(nth.max(initial=0)) + 1):
            k, here = np.nonzero(numbers & (nth == number))
            counted = zeros((here.size, self.squares.shape[-1]))
            rows = counted.transpose()
            rows[self.centre.others] = others[:, None] * (self.rank.transpose().take(here, axis=1) <= k)
            rows[self.centre.arm] = central[k, here]
            yield here, k + 1, counted

    def _central(self) -> Floats:
        """How often the centre is in the first k. (J, n)"""
        return np.asarray(self.squares[:, self.centre.arm][self.order.transpose()].cumsum(axis=0))

    def _alike(self, factors: Floats) -> Singles:
        """In the order of each run, (J, n); one row where all claims have the same."""
        if (factors == factors[:1]).all():
            return np.asarray(factors[:1], dtype=np.float32)
        return np.take_along_axis(factors, self.order.transpose(), axis=0).astype(np.float32)


def _away(side: list[Singles], k: int, root: Singles, information: Singles) -> Singles:
    value, score, square = (each[:k] for each in side)
    away = value * root
    away -= score
    wide = square * information
    wide += np.float32(1.0)
    away /= np.sqrt(wide, out=wide)
    return away


@lru_cache(maxsize=1)
def _phi_table() -> Singles:
    from scipy.special import ndtr

    return np.asarray(ndtr(np.arange(-_LEAST * _STEPS, _LEAST * _STEPS + 1) / _STEPS), dtype=np.float32)


_FEW = 8  # claims up to which the chances of every number of them are computed
_SMALL = 20_000  # numbers of forms that are kept in mind


class PowerForecast(NamedTuple):
    """Which claims to feed, how likely each is then shown by the end, and how many are expected to be."""

    fed: Bools  # (J)
    chances: Floats  # (J), 0 where it is shown
    expected: Floats  # (), of those that are not shown yet


def shares_of(squares: Floats, items: bool = False) -> Floats:
    """In which proportions claims of these arms are fed: sqrt of how often an arm is in them; alike on shared items."""
    return np.where(squares > 0, 1.0, 0.0) if items else np.sqrt(squares)


def squares_of(forms: Floats) -> Floats:
    """The squares of the coefficients, each form in units of its largest. (J, K)"""
    return np.asarray((forms / np.abs(forms).max(axis=-1, keepdims=True)) ** 2)


def counted_arms(squares: Floats, fed: Bools) -> Floats:
    """How often each arm is in the claims that are fed, by the squares of its coefficients. (J, K),(J)->(K)"""
    counted = zeros((*fed.shape[:-1], squares.shape[-1]))
    rows, which = counted.transpose(), fed.transpose()
    once, claim, factor, several = (_members if squares.size < _SMALL else _members.__wrapped__)(
        squares.tobytes(), squares.shape
    )
    rows[once] = which[claim] * factor.reshape(-1, *[1] * (which.ndim - 1))
    for arm, claims, alike in several:
        if alike:  # exact in any order
            rows[arm] = np.add.reduce(which[claims], axis=0, dtype=np.intp)
        else:
            for j in claims:
                rows[arm] += which[j] * squares[j, arm]
    return counted


@lru_cache(maxsize=16)
def _members(squares: bytes, shape: tuple[int, int]) -> tuple[Index, Index, Floats, list[tuple[int, Index, bool]]]:
    """Arms of one claim, that claim, and its square; arms of several, these claims, and whether all squares are 1."""
    found = np.frombuffer(squares).reshape(shape)
    often = np.count_nonzero(found, axis=0)
    once = np.flatnonzero(often == 1)
    claim = (found[:, once] != 0).argmax(axis=0)
    several = [(int(arm), np.flatnonzero(found[:, arm])) for arm in np.flatnonzero(often > 1)]
    alike = [(arm, claims, bool((found[claims, arm] == 1).all())) for arm, claims in several]
    return once, claim, found[claim, once], alike


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

    def chances(counted: Floats, of: Bools, here: Index | None = None) -> Floats:
        """Of some claims the larger of the chances of their sides, in all runs or some. (J)"""
        results, each = (amount, variances) if here is None else (amount[here], tree_take(variances, here))
        found = lines.chances(_spread(counted, results, each, pieces, apart), of, here)
        return np.asarray(found.reshape(-1, number, found.shape[-1]).max(axis=0).transpose())

    everything = chances(counted_arms(squares, unfinished), unfinished)
    order = np.argsort(np.where(unfinished, -everything, np.inf), axis=-1, kind="stable")
    rank = np.asfortranarray(np.argsort(order, axis=-1, kind="stable"))
    still = np.flatnonzero(amount == 0)
    many = np.where(amount == 0, 0, unfinished.sum(axis=-1))
    centre = find_shared_arm(forms) if apart is None and number > _FEW else None
    if centre is None:
        lots = _all_numbers(squares, order, many)
    else:
        around = Around(centre, forms, squares, order, rank, many)
        lots = around.lots(around.likely(variances, amount, *lines.sides()))
    best, found = np.full(many.shape, -1.0), zeros(unfinished.shape)
    size = np.zeros(many.shape, dtype=np.intp)
    for here, k, counted in lots:
        each = chances(counted, (tree_take(rank, here) if here is not None else rank) < k[..., None], here)
        sums, at = total(each), slice(None) if here is None else here
        better = (k <= many[at]) & (sums > best[at])
        best[at], size[at] = np.where(better, sums, best[at]), np.where(better, k, size[at])
        found.transpose()[:, at] = np.where(better, each.transpose(), found.transpose()[:, at])
    if still.size:
        size[still] = _fewest(everything[still], rank[still], unfinished[still])
        found[still] = np.where(rank[still] < size[still, None], everything[still], 0.0)
        best[still] = total(found[still])
    return PowerForecast(
        (rank < size[..., None]).reshape(*left.shape, number),
        found.reshape(*left.shape, number),
        np.maximum(best, 0.0).reshape(left.shape),
    )


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


def _all_numbers(squares: Floats, order: Index, many: Index) -> Iterator[tuple[Index | None, Index, Floats]]:
    """One number of claims after the other, in all runs, and how often each arm is in so many."""
    counted = zeros((len(order), squares.shape[-1]))
    for k in range(1, int(many.max(initial=0)) + 1):
        counted.transpose()[...] += squares.transpose().take(order[..., k - 1].transpose(), axis=-1)
        yield None, np.asarray(k), counted


class _Lines:
    """The claims, then their opposites if there are any, all runs of one line in a row."""

    def __init__(self, value: Floats, error: Floats, need: Floats, unshown: Bools, number: int) -> None:
        from scipy.special import ndtri

        self.number = number
        score = -ndtri(np.exp(-np.maximum(need, 0.0)))
        self.value, self.score, self.unshown = (_rows(each) for each in (value, score, unshown))
        self.square = _rows(error**2)
        self.known = np.isfinite(_rows(error)) & np.isfinite(self.value)
        self.all_known = self.known.all()

    def sides(self) -> tuple[Floats, Floats, Floats]:
        """Value, score and square of the error of the claims, and of their opposites; all 0 if not known. (D, J, n)"""
        value, score, square = (
            np.where(self.known, each, 0.0).reshape(-1, self.number, self.known.shape[-1])
            for each in (self.value, self.score, self.square)
        )
        return value, score, square

    def chances(self, spread: Floats, of: Bools, here: Index | None) -> Floats:
        """The chances of the lines of some claims, if results have this variance for them; else 0. (L, n)

        With I = 1/spread it is Phi((value sqrt I - score)/sqrt(1 + error^2 I)). In all runs, or in some.
        """
        from scipy.special import ndtr

        unshown = self.unshown if here is None else self.unshown.take(here, axis=1)
        lines, runs = unshown.shape
        wanted = np.concatenate([of.transpose()] * (lines // self.number))
        wanted &= unshown
        at = np.flatnonzero(wanted)
        information = 1.0 / _rows(spread).reshape(-1).take(at)
        if here is not None:
            line, run = np.divmod(at, runs)
            at, place = line * self.unshown.shape[-1] + here[run], at
        else:
            place = at
        away = self.value.take(at) * np.sqrt(information)
        away -= self.score.take(at)
        away /= np.sqrt(1.0 + self.square.take(at) * information)
        found = np.zeros(lines * runs)
        chance = ndtr(away)
        if np.isnan(chance).any():
            chance = np.where(np.isnan(chance), 0.0, chance)
        found[place] = chance if self.all_known else np.where(self.known.take(at), chance, 0.5)
        return found.reshape(lines, runs)


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
    fed: Bools,
    need: Floats,
    value: Floats,
    error: Floats,
    variances: Floats,
    left: Floats,
    items: Floats | None = None,
) -> Floats:
    """How likely each line is to be shown if `left` results are shared among the arms of the claims that are `fed`.

    0 for a claim that is not fed. One run only. (L)
    """
    spread = _spread(counted_arms(squares_of(forms), fed), left, variances, pieces, items)
    lines = _Lines(value, error, need, np.broadcast_to(left > 0, value.shape), len(forms))
    return lines.chances(spread, fed[None], None)[:, 0]
