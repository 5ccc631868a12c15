"""Designed looks in parts: where no bounded payoff is an e-value, bets on the parts of a look follow the best one.

A payoff f of a normal statistic can be replicated by bets on the parts of a look. With some of the look to come, the
level is w = E f(z), z the standardized sum of what is left, and each part stakes a share p on a drift q with
p q = E f'(z) / w and p q^2 = E f''(z) / w: sums over the steps of f. The bets are those of the noise model, so any
stake and any drift that are fixed before the part keep the level (docs/why-the-guarantee-holds.md, Proposition 46).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.model.batch import Parts, part_shares_of_rest
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.bets import NO_ROWS, Index, LogFactor, PartBets, PartForm, columns, parts_data
from roundwise.noise.payoffs import DRIFTS, FULL, LookAim, drift_cell, payoff_of, shown_drift, tabulate_payoff
from roundwise.rules.eprocess.engine import (
    NOTHING,
    UNKNOWN,
    PartsView,
    bet_of_form,
    chunks,
    forms_of,
    guess_variance,
    sum_arms,
    view_parts,
)
from roundwise.solvers.halfspaces import Halfspaces

CASH = 0.02  # of a level that no look stakes, if the budget may be extended
PARTS_OF_TWO, PARTS_OF_MORE = 32, 16  # of a look: two arms, more
_MOST_STAKE = 0.999
_BEYOND = 1.1  # times 1 is what is aimed at: bets that aim at 1 itself end just below it
_LOG_LEVELS = np.linspace(-14.0, 0.0, 141)  # at which stakes are tabulated
_GREATEST = 600.0  # log of the most that one part wins

# some columns, their parts, and variances (P, n) -> the weights of the forms of each null, (P, N, m, n)
Weigh = Callable[[slice, PartsView, Floats], Floats]


class Look(NamedTuple):
    """What is fixed before a look."""

    lead: Floats  # (), in units of the results
    sigma: Floats  # (), a guess
    looks_left: Floats  # (), after this one
    rho: Floats  # (), the share of this look in all that is to come
    said: bool  # whether the lead was declared, or follows from the budget
    price: float
    extension_value: float

    @property
    def cash(self) -> float:
        """The share of a level that is not staked."""
        return CASH if self.extension_value else 0.0

    def aim_at(self, times: Floats) -> LookAim:
        """The bets on forms that exceed their offsets by this many leads. (P)"""
        each = (self.looks_left, self.rho, self.lead)
        left, rho, lead = (np.broadcast_to(values[..., None], times.shape) for values in each)
        return LookAim(lead * times if self.said else None, left, rho, self.price, self.extension_value)


@lru_cache(maxsize=512)
def part_stakes(cell: int, looks_left: int, price: float, extension_value: float, parts: int) -> tuple[Floats, Floats]:
    """Return what each part stakes at each of the tabulated levels, and on which drift. (P, n) each

    The drift is in standard errors of what is left of the look, the part included; `cell` is that of the whole look.
    """
    payoff, logs = payoff_of(cell, looks_left, price, extension_value), _LOG_LEVELS
    stake, size = np.empty((parts, logs.size)), np.empty((parts, logs.size))
    for p in range(parts):  # (1 - p/P)^2 of the look is left
        rest = tabulate_payoff(payoff.drift * (1.0 - p / parts), payoff.corners, payoff.log_slopes, 161)
        at = rest.thresholds(np.interp(logs, rest.log_levels, rest.log_multipliers))
        dense = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi) * np.diff(payoff.corners)
        first, second = (each.sum(axis=-1) * np.exp(-logs) for each in (dense, dense * at))  # E f'/w, E f''/w
        bold = second <= first**2 / _MOST_STAKE
        size[p] = np.where(bold, first, second / np.maximum(first, 1e-300))
        stake[p] = np.where(bold, _MOST_STAKE, first**2 / np.maximum(second, 1e-300))
    return stake, size


@quiet
def pay_in_parts(
    problem: Problem,
    known: Estimates,
    parts: Parts,
    level: Floats,
    forms: Halfspaces,
    look: Look,
    times: Floats,
    weigh: Weigh,
    by_level: bool = False,
) -> Floats:
    """Return the level of each null after a look in parts. (N)

    Args:
        problem: The problem.
        known: The estimates before the look.
        parts: The results of the look.
        level: The level of each null before it. (N)
        forms: What is bet on: m forms of the first null, m of the second, ... (N m)
        look: What is fixed before it.
        times: By how many leads each null is expected to be wrong. (N)
        weigh: The weights of the forms of each null before each part.
        by_level: Whether forms are bets on a level, from the results of one arm alone.
    """
    several, nulls = parts.partitions, level.shape[-1]
    data = replace(parts_data(known.past, parts), joined=True)
    means = columns(known.means, several) if known.past.history else None
    found, gaps = columns(level, several), columns(look.lead[..., None] * times, several)
    looks = columns(look.looks_left[..., None], several)[0]
    size, arms, n = data.counts.shape
    number = forms.offsets.shape[-1]
    for here in chunks(size, max(arms, number), n):
        view = view_parts(data.at(here), None if means is None else means[:, here], not by_level)
        bets, now = problem.noise.part_bets(view.data), found[:, here]
        wide = now.shape[-1]
        weights = weigh(here, view, _pool_variances(bets, view)).reshape(size, -1)
        open_ = np.repeat((now > 0) & (now < FULL), number // nulls, axis=0)
        at = np.flatnonzero(open_.reshape(-1) & weights.any(axis=0))
        if at.size:
            form, units = forms_of(forms, at, size, arms, wide)
            null = at // wide * nulls // number * wide + at % wide
            after = looks[here][at % wide]
            error, log_factor = _bet_on(form, bets, view, by_level)
            shown = shown_drift(now.reshape(-1)[null], after)
            drift = gaps[:, here].reshape(-1)[null] / units / error
            drift = np.where(np.isfinite(drift) & look.said, drift, shown)
            stakes = _Stakes.of(drift, after, look.price, look.extension_value)
            found[:, here] = _settle(now.reshape(-1), null, weights[:, at], stakes, log_factor).reshape(now.shape)
    paid = found.reshape(nulls, several, *level.shape[:-1][::-1])
    sums = paid[:, 0].copy()
    for m in range(1, several):  # in the same order however many runs there are
        sums += paid[:, m]
    return np.asarray((sums / several).transpose())


def _pool_variances(bets: PartBets, view: PartsView) -> Floats:
    """A guess at the variance of a result before each part, of all arms together. (P, n)"""
    rows = view.data.so_far
    each = np.broadcast_to(bets.variances, rows.shape)
    return sum_arms(np.where(rows > 0, rows * each, 0.0)) / np.maximum(sum_arms(rows), 1.0)


def _bet_on(form: PartForm, bets: PartBets, view: PartsView, by_level: bool) -> tuple[Floats, LogFactor]:
    """The standard error of each form in the whole look, as seen before each part, and the bets on its parts. (P, c)"""
    level = form.offsets * form.factors[0] if by_level and form.factors is not None else None
    new, leverage = form.of(view.new), form.squares(view.per_row)
    new -= form.offsets
    whole = np.broadcast_to(1.0 / np.maximum(view.data.counts.sum(axis=0), NO_ROWS), view.means.shape)
    error = np.sqrt(form.squares(np.ascontiguousarray(whole)) * guess_variance(form, bets, view, level))
    of_items = bets.paired_statistics(form)
    if of_items is not None:
        items = np.sqrt(of_items.variance * np.maximum((1.0 / of_items.per_row).sum(axis=0), NO_ROWS) ** -1.0)
        error, leverage = np.where(form.pair, items, error), np.where(form.pair, of_items.per_row, leverage)
    log_factor = bet_of_form(bets, form, new, leverage, level)
    live = (leverage < NOTHING) & (form.squares(view.inverse) < UNKNOWN)
    return error, lambda p, q: np.where(live[p], log_factor(p, q), 0.0)


class _Stakes(NamedTuple):
    """Stakes and drifts of the payoffs that are used."""

    stake: Floats  # (U, P, levels)
    size: Floats  # (U, P, levels)
    which: Index  # (P, c), the payoff of each bet

    @classmethod
    def of(cls, drift: Floats, looks_left: Floats, price: float, extension_value: float) -> _Stakes:
        cells = drift_cell(drift) + DRIFTS * looks_left.astype(np.intp)
        used, which = np.unique(cells, return_inverse=True)
        tables = [
            part_stakes(int(each) % DRIFTS, int(each) // DRIFTS, price, extension_value, len(drift)) for each in used
        ]
        stake, size = (np.stack(each) for each in zip(*tables, strict=True))
        return cls(stake, size, which.reshape(cells.shape))


def _settle(level: Floats, null: Index, weights: Floats, stakes: _Stakes, log_factor: LogFactor) -> Floats:
    """The level of each null after all parts; each bet is against one of them. (N n)"""
    level, wider = level.copy(), np.sqrt(part_shares_of_rest(len(weights)))
    steps = (_LOG_LEVELS.size - 1) / -_LOG_LEVELS[0]
    for p, weight in enumerate(weights):
        now = level[null]
        bet = (now < FULL) & (weight > 0)
        at = np.rint((np.log(np.maximum(now / _BEYOND, 1e-300)) - _LOG_LEVELS[0]) * steps)
        place = stakes.which[p], p, np.clip(at, 0, _LOG_LEVELS.size - 1).astype(np.intp)
        won = np.exp(np.minimum(log_factor(p, np.where(bet, stakes.size[place] * wider[p], 0.0)), _GREATEST)) - 1.0
        gain = np.where(bet, weight * stakes.stake[place] * won, 0.0)
        level *= 1.0 + np.bincount(null, gain, level.size)
    return level
