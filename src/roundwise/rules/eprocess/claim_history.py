"""What bounds of claims are made of, kept from batch to batch: the first batches, and what goes on after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from roundwise.arrays import Bools, Floats, quiet
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem
from roundwise.rules.eprocess.claim_bounds import (
    ClaimStep,
    Towards,
    purses_at,
    repeated,
    single_bets,
    units_of,
    with_guess,
)
from roundwise.rules.eprocess.claim_report import (
    BatchWithParts,
    agrees,
    ahead_of,
    bars_of,
    bets_of,
    both_sides,
    grown_of,
    parts_of,
)
from roundwise.rules.eprocess.claim_state import MOST_STEPS, ClaimState, claims_of, sides_of, weights_of
from roundwise.rules.eprocess.closed_testing import missing_wealth, wealth_in_goals
from roundwise.rules.eprocess.padded_claims import select_pieces
from roundwise.rules.eprocess.wealth_grid import (
    BELOW,
    COARSE,
    FINE,
    GONE,
    ClaimTail,
    WealthGrid,
    around,
    start_drifts,
    update_grid,
)
from roundwise.solvers.halfspaces import Halfspaces


class BatchOutcome(NamedTuple):
    """How a batch was bet on, and what was won."""

    rho: Floats | None
    bars: Floats  # (L)
    gains: Floats  # (L)
    shown: Bools  # (L)


class ClaimHistory(TypedDict):
    """What is kept of batches."""

    steps: tuple[ClaimStep, ...]
    tail: ClaimTail | None


def update_history(
    problem: Problem, kept: ClaimState, batch: Batch, turn: BatchOutcome, towards: Towards
) -> ClaimHistory:
    """What bounds are made of after a batch; `kept` is before it. Of one run: of several it stays as it is."""
    steps = kept.steps
    if batch.counts.ndim > 1:
        return ClaimHistory(steps=steps, tail=kept.tail)
    if len(steps) >= MOST_STEPS:
        tail = carried_on(problem, kept, batch, turn, towards) if batch.counts.any() else kept.tail
        return ClaimHistory(steps=steps, tail=tail)
    share = np.full(batch.counts.shape[:-1], np.nan) if turn.rho is None else turn.rho
    step = ClaimStep(batch.counts, batch.totals, batch.scatter, share, turn.bars, turn.gains, turn.shown, batch.pairs)
    if batch.parts is not None and not steps:
        step = step._replace(parts=tuple(part._replace(table=None) for part in parts_of(batch)))
    return ClaimHistory(steps=(*steps, step), tail=None)


@quiet
def carried_on(problem: Problem, kept: ClaimState, batch: Batch, turn: BatchOutcome, towards: Towards) -> ClaimTail:
    """What bounds are made of after a batch that is not kept by itself; `kept` is before it. One run only."""
    question = claims_of(problem)
    tail = _tail(problem, kept, towards) if kept.tail is None else kept.tail
    there = np.arange(question.number) < tail.claims
    if tail.track is not None:
        own = select_pieces(both_sides(question).bets(()), np.tile(there, 2))
        tail = update_grid(problem, tail, own, kept.past.plus(batch), with_guess(problem, kept.past), batch)
    if tail.purses is None or turn.rho is None:
        return tail
    mine = np.tile(there, len(kept.shown) // question.number)
    pieces = select_pieces(question.bets(()), mine)
    level, error = pieces.offsets, kept.error[mine]
    track = tail.purses.laid(*_below(level, kept.value[mine] + level, error, tail.purses.ends), error)
    size = track.logs.shape[-1]
    values, logs = track.values.reshape(-1), track.logs.reshape(-1)
    still = np.repeat(~kept.shown[mine], size) & np.isfinite(logs)
    need = np.where(still, np.repeat(turn.bars[mine], size) - logs, 0.0)
    logs = logs + towards(kept.past, batch, repeated(pieces, size)._replace(offsets=values), need, turn.rho)
    weights, money = weights_of(problem), sides_of(problem, wealth_in_goals(turn.gains, problem.goal))
    lack = missing_wealth(money, sides_of(problem, kept.shown), weights)
    bars = np.tile(problem.goal + np.log1p(lack / weights), len(money))[mine] - 1e-12
    return tail._replace(purses=track.reached(bars, logs.reshape(track.logs.shape), ~kept.shown[mine]))


def _tail(problem: Problem, kept: ClaimState, towards: Towards) -> ClaimTail:
    """What was won against values about the ends in the batches that are kept, to go on with."""
    question, every, ahead = claims_of(problem), grown_of(problem, kept), ahead_of(kept)
    both, number, steps = both_sides(question).bets(()), question.number, every.steps
    families = [each for each in every.families if each < len(steps)]
    size, none = FINE if ahead else COARSE, np.zeros(2 * number)
    bars, family, units = none.copy(), np.full(2 * number, -1.0), np.ones((len(families), problem.arms))
    low, high, _ = around(problem, kept.past, both, np.full(2 * number, -np.inf))
    track = WealthGrid(low, high, np.full((1, 2 * number, size), GONE), np.full(2 * number, -np.inf))
    for k, first in enumerate(families):
        here = np.tile(every.joined == first, 2)
        bars[here], family[here] = np.tile(bars_of(problem, every.joined == first, k), 2), k
        own, values = select_pieces(both, here), track.values[here]
        if ahead:
            bets, _ = single_bets(problem, steps, repeated(own, size), np.repeat(bars[here], size), first)
            won = sum((bet(values.reshape(-1))[0] for bet in bets), np.zeros(values.size))
            track.logs[0, here], units[k] = won.reshape(values.shape), units_of(steps[first])
        else:
            track.logs[0, here] = _money(problem, steps, own, bars[here], first, values)
            units[k] = np.maximum(kept.past.counts, 1.0)
    drifts = np.sqrt(2 * bars)[None]
    if not ahead:
        drifts, shares = start_drifts(bars)
        track = track._replace(logs=track.logs + shares[..., None])
    purses = None
    if agrees(problem, kept, ahead):
        level = question.bets(()).offsets
        ends = _below(level, kept.value + level, kept.error, np.full(level.shape, -np.inf))
        purses = WealthGrid(*ends, np.zeros((1, len(level), COARSE)), np.full(level.shape, -np.inf))
        won = purses_at(problem, question, steps, towards, every.joined, COARSE)(purses.values.reshape(-1))[1]
        purses = purses._replace(logs=won.reshape(purses.logs.shape))
    return ClaimTail(None if question.odds else track, bars, drifts, units, family, purses)


def _below(level: Floats, estimate: Floats, error: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Between which values up to the level the end of each line will lie."""
    wide = np.where(np.isfinite(error), error, 1.0)
    return np.minimum(np.maximum(estimate - BELOW * wide, ends), level - wide), level


def _money(
    problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int, values: Floats
) -> Floats:
    """log of what the bets that bounds without a budget are made of have won against values of each piece. (P, G)"""
    lots = [BatchWithParts(each.batch, each.parts or (each.batch,)) for each in steps]
    bets, found = bets_of(problem, steps[0].counts.shape, lots, first), np.empty(values.shape)
    moved = pieces._replace(offsets=np.zeros(pieces.offsets.shape))
    for bar in np.unique(bars):
        here, won = bars == bar, bets.won(moved, float(bar))
        for g in range(values.shape[-1]):
            *_, last = won(values[:, g])
            found[here, g] = last[here]
    return found
