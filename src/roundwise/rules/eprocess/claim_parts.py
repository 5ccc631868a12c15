"""Claims without a budget: every batch is bet on in its parts, and what was won is averaged over its dealings.

(docs/why-the-guarantee-holds.md, Propositions 19 and 20.) A noise model without bets on parts has whole batches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roundwise.arrays import Bools, Floats, quiet
from roundwise.model.batch import Parts
from roundwise.model.estimates import Estimates, FormEstimate, form_variances
from roundwise.model.problem import Problem
from roundwise.noise.parts import PartBets
from roundwise.rules.eprocess.claim_state import claims_of
from roundwise.rules.eprocess.engine import OpenNulls, bet_on_parts
from roundwise.rules.eprocess.part_bets import PartsView
from roundwise.rules.eprocess.part_halfspaces import forms_at, level_of
from roundwise.solvers.halfspaces import Halfspaces


@quiet
def bet_on_claims(
    problem: Problem, known: Estimates, forecast: FormEstimate, parts: Parts, gains: Floats, bars: Floats, shifts: bool
) -> Floats:
    """log of what each line has after a batch in parts; one whose bar is not above what it has is not bet on. (L)

    Nothing in the bets on a line depends on what other lines win in this batch.
    """
    first, late = not known.past.history, shifts and known.past.batches > 1
    without = form_variances(1.0 / known.past.counts, forecast.pieces)
    extra = np.maximum(forecast.leverage - without, 0.0) / without**2 if late else bars
    pieces = claims_of(problem).bets(())  # the same in all runs

    def opened(field: PartsView, tilts: PartBets, money: Floats, goal: Floats, extra: Floats) -> OpenNulls | None:
        size, arms, n = field.means.shape
        at = np.flatnonzero((goal > -np.inf) & _fed(pieces, field.seen.counts))
        if not at.size:  # results of arms that have nothing open
            return None
        form, scale = forms_at(pieces, at, size, arms, n)
        never = np.arange(size)[:, None] > 0
        return OpenNulls(
            form,
            at,
            goal.reshape(-1).take(at),
            at % n,
            gate=lambda z: np.broadcast_to(never, z.shape) if first else None,
            extra=_more(extra.reshape(-1).take(at), scale) if late else None,
            level=level_of(form),
        )

    goals = np.where(bars > gains, bars, -np.inf)
    return bet_on_parts(problem, known, parts, shifts, opened, gains, goals, extra, wide=gains.shape[-1])


def _fed(pieces: Halfspaces, counts: Floats) -> Bools:
    """Where all arms with the largest coefficient have results: elsewhere no bet is `possible`. (P, K, n)->(L, n)"""
    pulled, factors = np.maximum.reduce(counts) > 0, np.abs(pieces.coefficients)
    small = factors < factors.max(axis=-1, keepdims=True)
    each = zip(pieces.arms.transpose(), small.transpose(), strict=True)
    return np.logical_and.reduce([pulled[arm] | few[:, None] for arm, few in each])


def _more(extra: Floats, scale: Floats | None) -> Callable[[Floats], Floats]:
    """What the shifts of earlier batches add to the variance of each form, given what it is without."""

    def more(before: Floats) -> Floats:
        found = (before if scale is None else before * scale) ** 2 * extra
        return np.where(np.isfinite(found), found, 0.0)

    return more
