"""Claims without a budget: every batch is bet on in its parts, and what was won is averaged over its dealings.

(docs/why-the-guarantee-holds.md, Propositions 19 and 20.) A noise model without bets on parts has whole batches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.part_forms import AllPairs, Stand, forms_at, level_of, standing, tilt_of
from roundwise.betting.parts import averaged, chunks, field_of, possible, settled
from roundwise.betting.purses import claims_of
from roundwise.estimates import Forecast, Known, squares_at
from roundwise.noise.parts import columns, of_pairs, seen, tilts_of
from roundwise.problem import Problem
from roundwise.questions.base import Halfspaces, quiet
from roundwise.state import Parts

MOST, NEARLY = 0.5, 0.8  # share of the lines in all runs that are open, above which all are looked at, and passed over


@quiet
def played(
    problem: Problem, known: Known, forecast: Forecast, parts: Parts, gains: Floats, bars: Floats, shifts: bool
) -> Floats:
    """log of what each line has after a batch in parts; one whose bar is not above what it has is not bet on. (L)

    Nothing in the bets on a line depends on what other lines win in this batch.
    """
    several, runs = parts.dealings, gains.shape[:-1]
    data, first = seen(known.past, parts), not known.past.history
    wanted = columns(np.where(bars > gains, bars, -np.inf), several)
    money, means = columns(gains, several), columns(known.means, several)
    without = squares_at(1.0 / known.past.counts, forecast.pieces)
    late = shifts and known.past.batches > 1
    extra = columns(np.maximum(forecast.leverage - without, 0.0) / without**2, several) if late else None
    pieces = claims_of(problem).bets(())  # the same in all runs
    found = np.empty_like(money)
    lines = len(money)
    for here in chunks((data.counts.shape[0], max(lines, data.counts.shape[1]), data.counts.shape[2])):
        part = data.at(here)
        field = field_of(part, None if first else means[:, here], shifts)
        size, arms, n = part.counts.shape
        after, goal = money[:, here].flatten(), wanted[:, here].reshape(-1)
        open_ = np.flatnonzero((goal > -np.inf) & _fed(pieces, part.counts).reshape(-1))
        if not open_.size:  # results of arms that have nothing open
            found[:, here] = money[:, here]
            continue
        if open_.size > NEARLY * goal.size:
            open_ = np.arange(goal.size)
        form, scale = forms_at(pieces, open_, size, arms, n)
        tilts = tilts_of(problem.noise, part)
        level, shifted = level_of(form), None if extra is None else extra[:, here].reshape(-1)
        if pieces.pairs and open_.size > MOST * goal.size and of_pairs(tilts) is None:
            stand = standing(AllPairs.of_pieces(pieces, n), None, tilts, field, _more(shifted))
            if open_.size < goal.size:
                stand = Stand(*(each.take(open_, axis=1, mode="clip") for each in stand))
        else:
            more = _more(None if shifted is None else shifted.take(open_), scale)
            stand = standing(form, open_ % n, tilts, field, more, level)
        z, before, new, leverage = stand
        live = possible(before, leverage)
        if first:
            live = np.ones(z.shape, dtype=np.bool_) if live is None else live
            live[0] = False
        tilt = tilt_of(tilts, form, new, leverage, level)
        ratio = before / leverage
        after[open_] = settled(goal.take(open_), after.take(open_), z, ratio, tilt, live, jump=part.jump)
        found[:, here] = after.reshape(lines, n)
    return averaged(found, runs, several)


def _fed(pieces: Halfspaces, counts: Floats) -> Bools:
    """Where all arms with the largest coefficient have results: elsewhere no bet is `possible`. (P, K, n)->(L, n)"""
    pulled, factors = np.maximum.reduce(counts) > 0, np.abs(pieces.coefficients)
    small = factors < factors.max(axis=-1, keepdims=True)
    each = zip(pieces.arms.transpose(), small.transpose(), strict=True)
    return np.logical_and.reduce([pulled[arm] | few[:, None] for arm, few in each])


def _more(extra: Floats | None, scale: Floats | None = None) -> Callable[[Floats], Floats] | None:
    """What the shifts of earlier batches add to the variance of each form, given what it is without."""
    if extra is None:
        return None
    finite = bool(np.isfinite(extra).all())

    def more(before: Floats) -> Floats:
        found = before * before if scale is None else (before * scale) ** 2
        found *= extra
        return found if finite else np.where(np.isfinite(found), found, 0.0)

    return more
