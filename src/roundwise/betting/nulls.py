"""The one engine of bets on parts: each null is a half-space of the means, bet on part after part, then averaged.

A ledger says, for a block of columns, which half-spaces its open nulls are about before each part (`Open`); everything
else is here: what is known before a part, how each half-space stands, the bet, the money, the average over dealings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from roundwise.arrays import Array, Bools, Floats
from roundwise.betting.part_forms import standing, tilt_of
from roundwise.betting.parts import Field, Switch, averaged, chunks, field_of, possible, settled
from roundwise.estimates import Known
from roundwise.noise.parts import Form, Index, Tilts, columns, seen, tilts_of
from roundwise.problem import Problem
from roundwise.state import Parts

Extra = Callable[[Floats], Floats]
Gate = Callable[[Floats], Bools | None]  # z (P, c) -> where a bet may be placed; None: everywhere


class Open(NamedTuple):
    """The nulls of a block of columns that are bet on."""

    form: Form  # (P, c), the half-space that each is bet to lose to
    at: Index  # (c), their places in (nulls, n) as one row
    goal: Floats | float  # (c), log of what each must win
    run: Index | None = None  # (c), their columns; None: all columns in turn
    gate: Gate | None = None
    extra: Extra | None = None  # what the shifts of earlier batches add to the variance
    variance: Floats | float | None = None  # of a result, for z; None: of the arms of the form, weighted
    level: Floats | None = None
    switch: Switch | None = None
    money: Floats | None = None  # (c), if it is not that of the nulls themselves


Opened = Callable[..., Open | None]


def in_parts(
    problem: Problem,
    known: Known,
    parts: Parts,
    shifts: bool,
    opened: Opened,
    money: Floats,
    *others: Array,
    wide: int = 0,
) -> Floats:
    """log of what each null has after a batch in parts. (N)"""
    several, data, first = parts.dealings, seen(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    gains, rest = columns(money, several), [columns(each, several) for each in others]
    found = gains.copy()
    size, arms, n = data.counts.shape
    for here in chunks((size, max(arms, wide), n)):
        field = field_of(data.at(here), None if means is None else means[:, here], shifts)
        tilts = tilts_of(problem.noise, field.seen)
        bets = opened(field, tilts, gains[:, here], *(each[:, here] for each in rest))
        if bets is not None:
            flat = found[:, here].reshape(-1)
            flat[bets.at] = bet_on(bets, flat, field, tilts)
            found[:, here] = flat.reshape(len(found), -1)
    return averaged(found, money.shape[:-1], several)


def bet_on(bets: Open, flat: Floats, field: Field, tilts: Tilts) -> Floats:
    """log of what the open nulls have after all parts. (c)"""
    z, before, new, leverage = standing(bets.form, bets.run, tilts, field, bets.extra, bets.level, bets.variance)
    live = possible(before, leverage, None if bets.gate is None else bets.gate(z))
    tilt = tilt_of(tilts, bets.form, new, leverage, bets.level)
    before /= leverage
    money = flat.take(bets.at) if bets.money is None else bets.money
    return settled(bets.goal, money, z, before, tilt, live, bets.switch, field.seen.jump)
