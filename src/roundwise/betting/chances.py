"""What can be expected of each claim with the results that are left: a forecast, which promises nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats, total, zeros
from roundwise.estimates import squares_at
from roundwise.questions.base import Halfspaces, quiet


class Outlook(NamedTuple):
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
    for j, arm in zip(*np.nonzero(squares), strict=True):
        rows[arm] += which[j] * squares[j, arm]
    return counted


@quiet
def outlook(
    forms: Floats,
    pieces: Halfspaces,
    unshown: Bools,
    need: Floats,
    value: Floats,
    error: Floats,
    variances: Floats,
    left: Floats,
    items: Floats | None = None,
) -> Outlook:
    """The nested set of claims with the largest sum of chances, if `left` results are shared among their arms.

    Lines are on the last axis of `unshown`, `need`, `value` (less the level) and `error`: the claims, then their
    opposites if there are any. chance = Phi((theta sqrt(I) - y)/sqrt(1 + error^2 I)), y the score that must be reached,
    I the information that the results will bring. Where arms are tried on the same `items`, these are of each line the
    variance that a result of each of its arms would have if they had items of their own: half that of a difference.
    """
    from scipy.special import ndtri

    number, squares = len(forms), squares_of(forms)
    lines = _Lines(value, error, -ndtri(np.exp(-np.maximum(need, 0.0))), unshown, number)
    unfinished = np.asarray(unshown.reshape(*unshown.shape[:-1], -1, number).any(axis=-2))

    def chances(counted: Floats, of: Bools) -> Floats:
        share = shares_of(counted, items is not None)
        pulls = left[..., None] * share / np.maximum(total(share), 1e-300)[..., None]
        spread = squares_at(variances / pulls, pieces) if items is None else items * squares_at(1.0 / pulls, pieces)
        return lines.chances(spread, of)

    everything = chances(counted_arms(squares, unfinished), unfinished)
    order = np.argsort(np.where(unfinished, -everything, np.inf), axis=-1, kind="stable")
    rank = np.asfortranarray(np.argsort(order, axis=-1, kind="stable"))
    many = unfinished.sum(axis=-1)
    counted, best, found = zeros(variances.shape), np.full(many.shape, -1.0), zeros(unfinished.shape)
    size = np.zeros(many.shape, dtype=np.intp)
    for k in range(1, int(many.max(initial=0)) + 1):
        counted.transpose()[...] += squares.transpose().take(order[..., k - 1].transpose(), axis=-1)
        each = chances(counted, (rank < k) & unfinished)
        amount = total(each)
        better = (k <= many) & (amount > best)
        best, size = np.where(better, amount, best), np.where(better, k, size)
        found = np.where(better[..., None], each, found)
    return Outlook(rank < size[..., None], found, np.maximum(best, 0.0))


class _Lines:
    """The claims, then their opposites if there are any, all runs of one line in a row."""

    def __init__(self, value: Floats, error: Floats, score: Floats, unshown: Bools, number: int) -> None:
        self.runs, self.number = value.shape[:-1], number
        self.value, self.score, self.unshown = (_row(each) for each in (value, score, unshown))
        self.square = _row(error**2)
        self.known = np.isfinite(_row(error)) & np.isfinite(self.value)

    def chances(self, spread: Floats, of: Bools) -> Floats:
        """Of some claims the larger of the chances of their sides, if results have this variance for them; else 0. (J)

        With I = 1/spread it is Phi((value sqrt I - score)/sqrt(1 + error^2 I)).
        """
        from scipy.special import ndtr

        sides = self.unshown.size // _row(of).size
        at = np.flatnonzero(self.unshown & np.concatenate([_row(of)] * sides))
        information = 1.0 / _row(spread).take(at)
        away = self.value.take(at) * np.sqrt(information)
        away -= self.score.take(at)
        away /= np.sqrt(1.0 + self.square.take(at) * information)
        found = np.zeros(self.unshown.size)
        found[at] = np.where(self.known.take(at), ndtr(np.where(np.isnan(away), -np.inf, away)), 0.5)
        each = found.reshape(sides, self.number, *self.runs[::-1]).max(axis=0)
        return np.asarray(each.transpose())


def _row(lines: Array) -> Array:
    """Lines (L) of all runs as one row."""
    return np.ascontiguousarray(lines.transpose()).reshape(-1)
