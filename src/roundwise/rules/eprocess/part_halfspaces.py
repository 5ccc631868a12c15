"""Half-spaces as bets on the parts of a batch: where their arms are found, how they stand before each part, the bet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.noise.parts import Index, LogFactor, PartBets, PartForm, choose_factor
from roundwise.questions.base import Halfspaces
from roundwise.rules.eprocess.part_bets import PartsView


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
    tilts: PartBets,
    field: PartsView,
    extra: Callable[[Floats], Floats] | None,
    level: Floats | None = None,
    variance: Floats | float | None = None,
) -> FormStanding:
    """By what is known before each part. (P, c)

    `extra` is what the shifts of earlier batches add to the variance, given what it is without any. `run` is the column
    that each is about, None if they are about all columns in turn. With a `level` each form is about one arm, and its
    variance is guessed from that arm alone.
    """
    value, before = form.of(field.means), form.squares(field.inverse)
    value -= form.offsets
    more = None if extra is None else extra(before)
    if field.share is not None and field.weight is not None:
        x = form.of(field.share)
        x *= x
        if run is None:
            x.reshape(len(x), -1, field.weight.shape[1])[...] *= field.weight[:, None]
        else:
            x *= field.weight.take(run, axis=1)
        before += x
    if more is not None:
        before += more
    error = before * (_variance(form, tilts, field, level) if variance is None else variance)
    value /= np.sqrt(error, out=error)
    new, leverage = form.of(field.new), form.squares(field.per_row)
    new -= form.offsets
    z, of_items = value, tilts.paired_statistics(form)
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


def _variance(form: PartForm, tilts: PartBets, field: PartsView, level: Floats | None) -> Floats | float:
    """A guess at the variance of a result before each part."""
    if level is not None:
        found = np.zeros(level.shape)
        for each in np.unique(level):
            own = np.broadcast_to(tilts.level_variances(float(each)), field.means.shape).reshape(-1)
            found = np.where(level == each, own.take(form.places[0]), found)
        return found
    variances = tilts.variances
    if variances.size == 1:
        return float(variances.flat[0])
    return form.mean_of(np.broadcast_to(variances, field.means.shape), field.inverse)


def bet_of_form(tilts: PartBets, form: PartForm, new: Floats, leverage: Floats, level: Floats | None) -> LogFactor:
    """The bet on every form; with a `level`, of one arm from its results alone."""
    if level is None or form.factors is None:
        return tilts.forms(form, new, leverage)
    sign, arm = form.factors[0], form.places[0]

    def on(levels: list[float]) -> LogFactor:
        first, *rest = levels
        if not rest:
            return tilts.levels(arm, sign, new.copy(), leverage, first)
        return choose_factor(level == first, lambda: on([first]), lambda: on(rest))

    return on(np.unique(level).tolist())
