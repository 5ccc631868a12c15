"""The engine of bets on the parts of a batch: every null is a half-space of the means, bet on part after part.

An e-process says, for a block of columns, which half-spaces its open nulls are about before each part (`OpenNulls`).
The rest is here: what is known before a part, how each half-space stands, the bets, the wealth, the average over random
partitions. Arrays have the parts first, then the arms, then runs (with their partitions) as columns.

Estimates, leaders and variances before each part do not depend on what is won in the batch, so they are computed for
all parts at once; only need -> table -> bet -> need goes part by part (`settle_parts`). The estimates within a batch,
with N, mu from before it, c and t the counts and sums of its parts so far, are

    i = 1/(N+c), f = c i, y = t i - f mu, shift = sum_j N_j y_j / sum_j N_j f_j, means = mu + y - f shift;

the shifts of earlier batches stay as they were estimated before the batch (docs/wager.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats
from roundwise.deadline import check_deadline
from roundwise.model.batch import Parts, part_shares_of_rest
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.parts import (
    NO_ROWS,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    choose_factor,
    columns,
    parts_data,
    sums_before,
)
from roundwise.rules.eprocess.bet_sizes import (
    BOLDEST_PART,
    LEAST_RATIO,
    NEED_STEPS,
    RATIO_STEPS,
    SHAPE,
    Z_STEPS,
    slopes,
)
from roundwise.solvers.halfspaces import Halfspaces

CHUNK = 240_000  # parts times arms times columns that are computed at once: what fits the cache
_FEWEST = 1e-9  # in place of no results
_FEW = 32  # arms up to which, and columns from which on, arms are compared one after the other
_UNKNOWN, _NOTHING = 1e8, 1e17  # a variance beyond these is that of no results before a part, or in it

Switch = Callable[[int, Floats], None]  # before a part: what was won, changed in place where the null is another now


def can_bet(before: Floats, leverage: Floats, live: Bools | None = None) -> Bools | None:
    """Where there are results before each part and in it, and the bet is `live`; None if that is everywhere. (P, c)"""
    good = (leverage < _NOTHING) & (before < _UNKNOWN)
    if live is not None:
        good &= live
    return None if good.all() else good


@dataclass(frozen=True)
class PartsView:
    """What is known before each part, and what came in it, per unit of the variance of one result."""

    means: Floats  # (P, K, n), before each part
    inverse: Floats  # (P, K, n), 1/(N + c)
    share: Floats | None  # (P, K, n), f: of this batch in what is known; None if its shift is not estimated
    weight: Floats | None  # (P, n), 1 / sum_j N_j f_j
    data: PartsData

    @cached_property
    def per_row(self) -> Floats:
        """1 / rows of the part. (P, K, n)"""
        return per_row(self.data.counts)

    @cached_property
    def new(self) -> Floats:
        """Means of the part. (P, K, n)"""
        return self.data.totals * self.per_row


def per_row(counts: Floats) -> Floats:
    """1 / rows."""
    found = np.maximum(counts, NO_ROWS)
    return np.divide(1.0, found, out=found)


def average_partitions(logs: Floats, runs: tuple[int, ...], partitions: int) -> Floats:
    """log of the average over partitions of what was won: columns (K, n) back to runs (K)."""
    found = logs.reshape(-1, partitions, *runs[::-1])
    if partitions == 1:
        return found[:, 0].transpose()
    top = found.max(axis=1, keepdims=True)
    sums = np.zeros_like(top[:, 0])
    for m in range(partitions):  # in the same order however many runs there are
        sums += np.exp(found[:, m] - top[:, 0])
    return (np.log(sums / partitions) + top[:, 0]).transpose()


def chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Columns that are worked on together."""
    parts, arms, size = shape
    step = max(1, CHUNK // (parts * arms))
    for start in range(0, size, step):
        check_deadline()
        yield slice(start, min(start + step, size))


def sum_arms(values: Floats) -> Floats:
    """Sum over the arms, (P, K, n)->(P, n): in the same order however many columns there are."""
    while (length := values.shape[1]) > 64:  # halves are added until few are left
        half = (length + 1) // 2
        rest = values[:, half:]
        values = values[:, :half].copy()
        values[:, : length - half] += rest
    if values.shape[-1] == 1:  # NumPy would add in pairs
        return np.asarray(values.cumsum(axis=1)[:, -1])
    return np.asarray(np.add.reduce(values, axis=1))


def first_largest(values: Floats) -> Index:
    """The first arm with the largest value. (P, K, n)->(P, n)"""
    arms, size = values.shape[1:]
    if arms > _FEW or size < _FEW:
        return values.argmax(axis=1)
    top, found = values.max(axis=1), np.zeros((len(values), size), dtype=np.intp)
    for arm in range(arms - 1, 0, -1):  # faster than NumPy, which looks at one column after the other
        found = np.where(values[:, arm] == top, arm, found)
    return np.where(values[:, 0] == top, 0, found)


def view_parts(data: PartsData, mu: Floats | None, shifts: bool) -> PartsView:
    """What is known before each part, after earlier batches with means mu (K, n), or in a first batch (None)."""
    counts, N = data.counts, data.before.counts
    c, t = sums_before(counts), sums_before(data.totals)
    if mu is None:
        inverse = 1.0 / np.maximum(c, _FEWEST)
        t *= inverse
        return PartsView(t, inverse, None, None, data)
    inverse = N + c
    np.maximum(inverse, _FEWEST, out=inverse)
    np.divide(1.0, inverse, out=inverse)
    f = c
    f *= inverse
    t *= inverse
    x = f * mu
    t -= x
    weight = None
    if shifts:
        np.multiply(f, N, out=x)
        weight = 1.0 / np.maximum(sum_arms(x), _FEWEST)
        np.multiply(t, N, out=x)
        shift = sum_arms(x) * weight
        np.multiply(f, shift[:, None], out=x)
        t -= x
    t += mu
    return PartsView(t, inverse, f if shifts else None, weight, data)


def table_cells(z: Floats, ratio: Floats) -> Index:
    """The place in the table of past z and past variance over that of the rest, up to the need. Both are used up."""
    z *= Z_STEPS
    z += 3.0 * Z_STEPS + 0.5
    np.maximum(z, 0.0, out=z)
    np.minimum(z, SHAPE[0] - 0.5, out=z)
    place = z.astype(np.int64)
    bits = ratio.view(np.int64)  # exponent and two bits of the fraction: 4 log2, piecewise linear
    bits += 1 << 49
    bits >>= 50
    bits -= RATIO_STEPS * (1023 - 8)
    np.maximum(bits, 0, out=bits)
    np.minimum(bits, SHAPE[1] - 1, out=bits)
    place *= SHAPE[1]
    place += bits
    place *= SHAPE[2]
    return place


def settle_parts(
    goal: Floats | float,
    gains: Floats,
    z: Floats,
    ratio: Floats,
    log_factor: LogFactor,
    live: Bools | None,
    switch: Switch | None = None,
    jump: int = 0,
) -> Floats:
    """log of what is won against each null after all parts, (c): the one loop over parts.

    z and past variance over that of the part are (P, c), and are used up. A null that has lost is not bet on further;
    `live` says where there is something to bet on, and `jump` how bold bets are (`slopes.JUMPS`).
    """
    table, kappa = slopes(jump), part_shares_of_rest(len(z))
    ratio *= (1.0 / kappa)[:, None]
    few = None
    if ratio.min(initial=1.0) < LEAST_RATIO:  # below the table slopes fall with the square root
        few = ratio * (1.0 / LEAST_RATIO)
        np.minimum(few, 1.0, out=few)
        np.sqrt(few, out=few)
    place, wider = table_cells(z, ratio), np.sqrt(kappa)
    gains = gains.copy()
    mixed = [False] * len(place) if live is None else np.logical_not(live.all(axis=1)).tolist()
    for p in range(len(place)):
        if switch is not None:
            switch(p, gains)
        need = goal - gains
        bet = need > 0
        if live is not None and mixed[p]:
            bet &= live[p]
        if not bet.any():
            continue
        need *= float(NEED_STEPS**2)
        np.maximum(need, 0.25, out=need)
        np.sqrt(need, out=need)
        need += 0.5
        np.minimum(need, SHAPE[2] - 0.5, out=need)
        at = need.astype(np.int64)
        at += place[p]
        q = table.slope.take(at, mode="clip") * wider[p]  # float32 times a NumPy float64: float64
        if few is not None:
            q *= few[p]
        np.minimum(q, BOLDEST_PART, out=q)
        q *= bet
        x = log_factor(p, q)
        if mixed[p]:
            x = np.where(bet, x, 0.0)  # where there is nothing to bet on, it may be anything
        np.minimum(x, 600.0, out=x)
        np.exp(x, out=x)
        x -= 1.0
        x *= table.stake.take(at, mode="clip")
        x += 1.0
        gains += np.log(x, out=x)
    return gains


_PHI_STEPS = 512
_log_phi: Floats | None = None


def log_phi(z: Floats) -> Floats:
    """log Phi from a table, good to 1e-6: it gates bets, and proves nothing."""
    global _log_phi
    if _log_phi is None:
        from scipy.special import log_ndtr

        _log_phi = log_ndtr(np.arange(-8 * _PHI_STEPS, 8 * _PHI_STEPS + 1) / _PHI_STEPS)
    place = np.clip(z, -8.0, 8.0)
    place *= _PHI_STEPS
    place += 8 * _PHI_STEPS + 0.5
    return _log_phi.take(place.astype(np.int64), mode="clip")


class ScaledForms(NamedTuple):
    """Forms of all columns as one row, each in units of its largest coefficient."""

    form: PartForm  # (P, Q n)
    scale: Floats  # (P, Q, n), that unit


class FormStanding(NamedTuple):
    """How forms stand before each part, and what the part brings. (P, c) each"""

    z: Floats
    before: Floats  # the variance of the estimate, per unit
    new: Floats  # the form of the part's means, less its offset
    leverage: Floats  # its variance, per unit


def forms_of(pieces: Halfspaces, parts: int, arms: int, n: int) -> ScaledForms:
    """The pieces (P, n, Q) before each part, or (Q) if they are always the same."""
    number = pieces.offsets.shape[-1]
    offsets = np.ascontiguousarray(np.broadcast_to(pieces.offsets, (parts, n, number)).swapaxes(1, 2))
    corner = (np.arange(parts) * (arms * n))[:, None, None] + np.arange(n)
    places = [
        (np.broadcast_to(pieces.arms[..., s], (parts, n, number)).swapaxes(1, 2) * n + corner).reshape(parts, -1)
        for s in range(pieces.arms.shape[-1])
    ]
    factors, scale = None, np.ones_like(offsets)
    if not pieces.pairs:
        spread = np.broadcast_to(pieces.coefficients, (parts, n, *pieces.coefficients.shape[-2:]))
        factors = [np.ascontiguousarray(spread[..., s].swapaxes(1, 2)).reshape(parts, -1) for s in range(len(places))]
        largest = np.maximum.reduce([np.abs(each) for each in factors])  # a form means the same in any units
        units = np.where(largest > 0, largest, 1.0)
        factors, scale = [each / units for each in factors], units.reshape(offsets.shape)
        offsets = offsets / scale
    return ScaledForms(PartForm(places, factors, offsets.reshape(parts, -1)), scale)


def forms_at(pieces: Halfspaces, some: Index, parts: int, arms: int, n: int) -> tuple[PartForm, Floats | None]:
    """Some of the pieces (Q) of all columns, which are the same before every part, and their units, if not 1. (P, c)"""
    line, run = np.divmod(some, n)

    def places() -> list[Index]:
        corner = (np.arange(parts) * (arms * n))[:, None]
        return [corner + (pieces.arms[line, s] * n + run) for s in range(pieces.arms.shape[-1])]

    offsets, shape = pieces.offsets[line], (parts, some.size)
    if pieces.pairs:
        return PartForm(places, None, np.broadcast_to(offsets, shape)), None
    units = np.abs(pieces.coefficients[line]).max(axis=-1)
    units = np.where(units > 0, units, 1.0)
    factors = [np.broadcast_to(each / units, shape) for each in pieces.coefficients[line].transpose()]
    return PartForm(places, factors, np.broadcast_to(offsets / units, shape)), np.broadcast_to(units, shape)


def evaluate_forms(
    form: PartForm,
    run: Index | None,
    part_bets: PartBets,
    view: PartsView,
    extra: Callable[[Floats], Floats] | None,
    level: Floats | None = None,
    variance: Floats | float | None = None,
) -> FormStanding:
    """By what is known before each part. (P, c)

    `extra` is what the shifts of earlier batches add to the variance, given what it is without any. `run` is the column
    that each is about, None if they are about all columns in turn. With a `level` each form is about one arm, and its
    variance is guessed from that arm alone.
    """
    value, before = form.of(view.means), form.squares(view.inverse)
    value -= form.offsets
    more = None if extra is None else extra(before)
    if view.share is not None and view.weight is not None:
        x = form.of(view.share)
        x *= x
        if run is None:
            x.reshape(len(x), -1, view.weight.shape[1])[...] *= view.weight[:, None]
        else:
            x *= view.weight.take(run, axis=1)
        before += x
    if more is not None:
        before += more
    error = before * (_variance(form, part_bets, view, level) if variance is None else variance)
    value /= np.sqrt(error, out=error)
    new, leverage = form.of(view.new), form.squares(view.per_row)
    new -= form.offsets
    z, of_items = value, part_bets.paired_statistics(form)
    if of_items is not None:
        z, before, leverage = (
            np.where(form.pair, ours, usual) for ours, usual in zip(of_items, (z, before, leverage), strict=True)
        )
    return FormStanding(z, before, new, leverage)


def level_of(form: PartForm) -> Floats | None:
    """Above (factor 1) or below (-1) which level the one arm of each form lies; None if it has more. (P, c)"""
    if form.factors is None or len(form.factors) > 1:
        return None
    return form.offsets * form.factors[0]


def _variance(form: PartForm, part_bets: PartBets, view: PartsView, level: Floats | None) -> Floats | float:
    """A guess at the variance of a result before each part."""
    if level is not None:
        found = np.zeros(level.shape)
        for each in np.unique(level):
            own = np.broadcast_to(part_bets.level_variances(float(each)), view.means.shape).reshape(-1)
            found = np.where(level == each, own.take(form.places[0]), found)
        return found
    variances = part_bets.variances
    if variances.size == 1:
        return float(variances.flat[0])
    return form.mean_of(np.broadcast_to(variances, view.means.shape), view.inverse)


def bet_of_form(part_bets: PartBets, form: PartForm, new: Floats, leverage: Floats, level: Floats | None) -> LogFactor:
    """The bet on every form; with a `level`, of one arm from its results alone."""
    if level is None or form.factors is None:
        return part_bets.forms(form, new, leverage)
    sign, arm = form.factors[0], form.places[0]

    def on(levels: list[float]) -> LogFactor:
        first, *rest = levels
        if not rest:
            return part_bets.levels(arm, sign, new.copy(), leverage, first)
        return choose_factor(level == first, lambda: on([first]), lambda: on(rest))

    return on(np.unique(level).tolist())


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
    wealth: Floats | None = None  # (c), if it is not that of the nulls themselves


Opened = Callable[..., OpenNulls | None]


def bet_on_parts(
    problem: Problem,
    known: Estimates,
    parts: Parts,
    shifts: bool,
    opened: Opened,
    wealth: Floats,
    *others: Array,
    wide: int = 0,
) -> Floats:
    """log of what each null has after a batch in parts. (N)"""
    several, data, first = parts.partitions, parts_data(known.past, parts), not known.past.history
    means = None if first else columns(known.means, several)
    gains, rest = columns(wealth, several), [columns(each, several) for each in others]
    found = gains.copy()
    size, arms, n = data.counts.shape
    for here in chunks((size, max(arms, wide), n)):
        view = view_parts(data.at(here), None if means is None else means[:, here], shifts)
        part_bets = problem.noise.part_bets(view.data)
        bets = opened(view, part_bets, gains[:, here], *(each[:, here] for each in rest))
        if bets is not None:
            flat = found[:, here].reshape(-1)
            flat[bets.at] = bet_on_nulls(bets, flat, view, part_bets)
            found[:, here] = flat.reshape(len(found), -1)
    return average_partitions(found, wealth.shape[:-1], several)


def bet_on_nulls(bets: OpenNulls, flat: Floats, view: PartsView, part_bets: PartBets) -> Floats:
    """log of what the open nulls have after all parts. (c)"""
    z, before, new, leverage = evaluate_forms(
        bets.form, bets.run, part_bets, view, bets.extra, bets.level, bets.variance
    )
    live = can_bet(before, leverage, None if bets.gate is None else bets.gate(z))
    log_factor = bet_of_form(part_bets, bets.form, new, leverage, bets.level)
    before /= leverage
    wealth = flat.take(bets.at) if bets.wealth is None else bets.wealth
    return settle_parts(bets.goal, wealth, z, before, log_factor, live, bets.switch, view.data.jump)
