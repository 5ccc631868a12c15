"""What a report says of claims: how much was won for each, its size with bounds, and what can be expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, total
from roundwise.messages import Note
from roundwise.model.batch import Batch, Record, Trial
from roundwise.model.estimates import Estimates, Past
from roundwise.model.problem import Problem
from roundwise.questions.base import Halfspaces
from roundwise.questions.claims import Claims, scale_words
from roundwise.rules.base import Bounds, ClaimStatus, LinearForm
from roundwise.rules.eprocess.bounds import BetHistory, PlacedBet
from roundwise.rules.eprocess.bounds import RuleState as Folded
from roundwise.rules.eprocess.claim_bounds import ClaimStep, Towards, agreeing, guess, single_step
from roundwise.rules.eprocess.claim_state import (
    MOST_STEPS,
    ClaimState,
    adjusted_of,
    claims_of,
    lines_of,
    sides_of,
    weights_of,
)
from roundwise.rules.eprocess.padded_claims import PaddedClaims, pad_to_claims, select_pieces


class BatchWithParts(NamedTuple):
    """A batch, and the parts that it is bet on in, one after the other: itself, but for a first batch."""

    whole: Batch
    parts: Sequence[Batch]


def mean_bounds(problem: Problem, record: Record, batches: Sequence[Batch]) -> Bounds:
    """Of the means of all arms, from bets on each."""
    lots = [BatchWithParts(each, parts_of(each) if number == 0 else (each,)) for number, each in enumerate(batches)]
    return Bounds(bets_of(problem, record.counts.shape, lots).intervals)


def parts_of(batch: Batch) -> tuple[Batch, ...]:
    """The parts of a batch as it was dealt first; itself if it was not."""
    parts = batch.parts
    return (batch,) if parts is None else tuple(parts.batch(p) for p in range(parts.number))


def bets_of(problem: Problem, shape: tuple[int, ...], lots: Sequence[BatchWithParts], first: int = 0) -> BetHistory:
    """Bets with no budget in sight, from the `first` batch on: before any result there is a guess, the same always."""
    past, end, placed = guess(problem, shape), Past.none(shape), []

    def known(past: Past) -> Estimates:
        return Estimates(past, past.means, problem.noise.variance(past))

    for number, (whole, parts) in enumerate(lots):
        before = past
        for p, part in enumerate(parts):
            placed += [PlacedBet(None, known(before), None, part, number == 0)] if number >= first else []
            before = before.plus(part, same_batch=p > 0)
        past, end = past.plus(whole), end.plus(whole)
    return BetHistory(problem, placed, Folded(None, known(end), None))


def _open_ended(problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int) -> Floats:
    """The largest value that each form was shown to exceed by bets on many drifts, all forms together. (P)"""
    lots = [BatchWithParts(step.batch, step.parts or (step.batch,)) for step in steps]
    bets = bets_of(problem, steps[0].counts.shape, lots, first)
    moved = pieces._replace(offsets=np.zeros(pieces.offsets.shape))
    found = np.empty(pieces.offsets.shape)
    for bar in np.unique(bars):
        found = np.where(bars == bar, bets.bound(moved, float(bar)), found)
    return found


def describe_claims(
    problem: Problem, trial: Trial, names: Sequence[str], towards: Towards, chances: Floats
) -> list[ClaimStatus]:
    """Every claim, then every opposite: what was won for it, its size with bounds, and what can be expected of it.

    Once one side of a claim is shown there is no forecast for the other: no results are asked for its sake.
    """
    question, kept = claims_of(problem), trial.kept
    number = question.number
    evidence, bars = lines_of(problem, kept)
    against = adjusted_of(problem, kept)
    value, (lower, single) = _sizes(problem, kept), _lower(problem, kept, towards)
    settled = np.tile(sides_of(problem, kept.shown).any(axis=-2), len(kept.shown) // number)
    chances = np.where(kept.shown, 1.0, np.where(settled, np.nan, chances))
    last = kept.past.history
    pulls = last[-1][0] if last and not trial.plan.pulls.any() else trial.plan.pulls
    left_out = ((question.forms != 0) & (pulls == 0)).any(axis=-1)  # no results of this batch are for it
    left_out = left_out if kept.out is None else left_out | kept.out
    found = []
    for i, words in enumerate(question.claim_texts(names)):
        j, opposite = i % number, i >= number
        low, high = (-np.inf, -lower[number + j]) if len(lower) > number else (-np.inf, np.inf)
        if not opposite:
            low = lower[j]
        found.append(
            ClaimStatus(
                words,
                float(evidence[i]),
                float(bars[i]),
                bool(kept.shown[i]),
                about=None if question.odds else _about(question.forms[j], question.lines.levels[i], opposite),
                label=question.labels(names)[j],
                shown_at=int(kept.batch[i]) if kept.shown[i] else None,
                samples=int(kept.samples[i]) if kept.shown[i] else None,
                estimate=_finite(value[j]),
                lower=_finite(low),
                upper=_finite(high),
                chance=_finite(chances[i]),
                margin=float(question.lines.levels[i] * (-1.0 if opposite else 1.0)),
                given_up=bool(not settled[i] and left_out[j]),
                opposite=opposite,
                scale=scale_words(question.forms[j], question.levels[j], question.odds, names),
                adjusted=_finite(against[i]),
                single_lower=None if opposite else _finite(single[j]),
                single_upper=_finite(-single[number + j]) if opposite or len(evidence) == number else None,
            )
        )
    return found


def _sizes(problem: Problem, kept: ClaimState) -> Floats:
    """The estimate of what each claim is about; nan without results. (J)"""
    question = claims_of(problem)
    value = kept.value[: question.number] + question.levels
    return np.where(np.isfinite(kept.error[: question.number]), value, np.nan)


def _lower(problem: Problem, kept: ClaimState, towards: Towards) -> tuple[Floats, Floats]:
    """Of each line what it exceeds, at least, agreeing with what is shown; then of each opposite. (2J)

    Where there are no opposites, upper bounds of the claims take their place. Then the same by single steps alone.
    """
    question = claims_of(problem)
    pieces = question.bets(())
    lines = len(pieces.offsets)
    nothing = np.full(2 * question.number, -np.inf)
    if not kept.steps or not kept.past.counts.any():
        return nothing, nothing
    shown, level = kept.shown, pieces.offsets
    both = both_sides(question)
    every, ahead = grown_of(problem, kept), ahead_of(kept)
    single = nothing.copy()
    if not question.odds:
        for family, first in enumerate(each for each in every.families if each < len(every.steps)):
            own = every.joined == first
            bars, here = bars_of(problem, own, family), np.tile(own, 2)
            by = single_step if ahead else _open_ended
            single[here] = by(problem, every.steps, select_pieces(both.bets(()), here), np.tile(bars, 2), first)
    tail, number = kept.tail, question.number
    if tail is not None and tail.track is not None:
        single = np.maximum(single, _padded(tail.track.ends, tail.claims, number))
    found = single[:lines]
    if agrees(problem, kept, ahead):
        found = np.maximum(found, agreeing(problem, question, every.steps, towards, every.joined))
        if tail is not None and tail.purses is not None:
            found = np.maximum(found, _padded(tail.purses.ends, tail.claims, number))
    found = np.where(shown, np.maximum(found, level), np.minimum(found, level))
    return np.append(found, single[lines:]), single


def both_sides(question: Claims) -> Claims:
    """The question with the opposites of its claims."""
    return question if len(question.lines.forms) > question.number else replace(question, sides="two", names=())


def ahead_of(kept: ClaimState) -> bool:
    """Whether there was a budget to bet towards, at all times."""
    return all(np.isfinite(step.rho).all() for step in kept.steps)


def agrees(problem: Problem, kept: ClaimState, ahead: bool) -> bool:
    """Whether bounds are made of the purses of the rule, too: where what is won falls as the level rises."""
    return ahead and _whole(kept) and (claims_of(problem).odds or problem.noise.monotone_budget_bets)


def _padded(ends: Floats, before: int, number: int) -> Floats:
    """The ends of the lines of so many claims, among those of all claims there are now."""
    found = np.full((len(ends) // before, number), -np.inf)
    found[:, :before] = ends.reshape(-1, before)
    return found.reshape(-1)


def grown_of(problem: Problem, kept: ClaimState) -> PaddedClaims:
    """The batches that are kept, with all arms and lines there are now."""
    return pad_to_claims(kept.steps, problem.arms, claims_of(problem).number, len(kept.shown))


def bars_of(problem: Problem, own: Bools, family: int) -> Floats:
    """log of what bounds of the claims of one family must reach: those there were at first, or those added k-th. (F)

    delta is shared among the former, delta/2^k among the latter (Proposition 17).
    """
    weights = weights_of(problem)[own]
    return np.asarray(problem.goal + family * math.log(2) + np.log(total(weights) / weights))


def _whole(kept: ClaimState) -> bool:
    """Whether what bounds are made of reaches back to the first batch: earlier versions began anew with a claim."""
    return len(kept.steps) >= min(float(kept.rounds), MOST_STEPS)


def note_joint_bounds(problem: Problem, kept: ClaimState) -> Note:
    """Return the note on what all bounds promise together."""
    times = 2 if len(grown_of(problem, kept).families) < 2 else 3
    return Note("joint_bounds", times=times, changed=not _whole(kept))


def _about(form: Floats, level: float, opposite: bool) -> LinearForm:
    """What a claim or its opposite is about."""
    arms = np.flatnonzero(form)
    end = -level if opposite else level
    return LinearForm(tuple(arms.tolist()), tuple(form[arms].tolist()), float(end), opposite)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
