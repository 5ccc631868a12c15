"""The one engine of bets on parts: each null is a half-space of the means, bet on part after part, then averaged.

A ledger says, for a block of columns, which half-spaces its open nulls are about before each part (`Open`); everything
else is here: what is known before a part, how each half-space stands, the bet, the money, the average over dealings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates, FormEstimate, form_variances
from roundwise.model.problem import Problem
from roundwise.noise.gaussian import SubGaussian
from roundwise.noise.parts import GaussianPartBets, Index, PartBets, PartForm, columns, parts_data
from roundwise.questions.base import quiet
from roundwise.rules.eprocess.part_bets import (
    PartsView,
    Switch,
    average_partitions,
    can_bet,
    chunks,
    settle_parts,
    view_parts,
)
from roundwise.rules.eprocess.part_halfspaces import bet_of_form, evaluate_forms

Extra = Callable[[Floats], Floats]
Gate = Callable[[Floats], Bools | None]  # z (P, c) -> where a bet may be placed; None: everywhere


class OpenNulls(NamedTuple):
    """The nulls of a block of columns that are bet on."""

    form: PartForm  # (P, c), the half-space that each is bet to lose to
    at: Index  # (c), their places in (nulls, n) as one row
    goal: Floats | float  # (c), log of what each must win
    run: Index | None = None  # (c), their columns; None: all columns in turn
    gate: Gate | None = None
    extra: Extra | None = None  # what the shifts of earlier batches add to the variance
    variance: Floats | float | None = None  # of a result, for z; None: of the arms of the form, weighted
    level: Floats | None = None
    switch: Switch | None = None
    money: Floats | None = None  # (c), if it is not that of the nulls themselves


Opened = Callable[..., OpenNulls | None]


def bet_on_parts(
    problem: Problem,
    known: Estimates,
    parts: Parts,
    shifts: bool,
    opened: Opened,
    money: Floats,
    *others: Array,
    wide: int = 0,
) -> Floats:
    """log of what each null has after a batch in parts. (N)"""
    several, data, first = parts.partitions, parts_data(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    gains, rest = columns(money, several), [columns(each, several) for each in others]
    found = gains.copy()
    size, arms, n = data.counts.shape
    for here in chunks((size, max(arms, wide), n)):
        field = view_parts(data.at(here), None if means is None else means[:, here], shifts)
        tilts = problem.noise.part_bets(field.seen)
        bets = opened(field, tilts, gains[:, here], *(each[:, here] for each in rest))
        if bets is not None:
            flat = found[:, here].reshape(-1)
            flat[bets.at] = bet_on_nulls(bets, flat, field, tilts)
            found[:, here] = flat.reshape(len(found), -1)
    return average_partitions(found, money.shape[:-1], several)


def bet_on_nulls(bets: OpenNulls, flat: Floats, field: PartsView, tilts: PartBets) -> Floats:
    """log of what the open nulls have after all parts. (c)"""
    z, before, new, leverage = evaluate_forms(bets.form, bets.run, tilts, field, bets.extra, bets.level, bets.variance)
    live = can_bet(before, leverage, None if bets.gate is None else bets.gate(z))
    tilt = bet_of_form(tilts, bets.form, new, leverage, bets.level)
    before /= leverage
    money = flat.take(bets.at) if bets.money is None else bets.money
    return settle_parts(bets.goal, money, z, before, tilt, live, bets.switch, field.seen.jump)


@quiet
def whole_bet(problem: Problem, batch: Batch, forecast: FormEstimate, need: Floats) -> Floats:
    """log e of forms that need all arms of a batch (arms with features), by its sigma, as one part. (P)"""
    new = SubGaussian(problem.sigma).standard_score(batch, forecast.pieces)
    past = forecast.value / np.sqrt(problem.sigma**2 * forecast.leverage)
    leverage = form_variances(1.0 / batch.counts, forecast.pieces)
    live = np.isfinite(past) & np.isfinite(new) & (need > 0)
    z, ratio, value, one = (
        np.where(live, each, fill).reshape(1, -1)
        for each, fill in ((past, 0.0), (forecast.leverage / leverage, 1.0), (new, 0.0), (np.ones(need.shape), 1.0))
    )
    tilt = GaussianPartBets(1.0).forms(PartForm([], None, value), value, one)
    won = settle_parts(need.reshape(-1), np.zeros(need.size), z, ratio, tilt, live.reshape(1, -1))
    return won.reshape(need.shape)
