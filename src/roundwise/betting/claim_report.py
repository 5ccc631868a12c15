"""What a report says of claims: how much was won for each, its size with bounds, and what can be expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roundwise.arrays import Floats, total
from roundwise.betting.bounds import Bets, Placed
from roundwise.betting.bounds import Kept as Folded
from roundwise.betting.claim_bounds import Step, Towards, agreeing, single_step
from roundwise.betting.purses import MOST_STEPS, Kept, claims_of, lines_of, weights_of
from roundwise.estimates import Known, Past
from roundwise.problem import Problem
from roundwise.questions.base import Halfspaces
from roundwise.state import Batch, Record, Trial
from roundwise.stopping.explained import About, Bounds, Claim


def mean_bounds(problem: Problem, record: Record, batches: Sequence[Batch]) -> Bounds:
    """Of the means of all arms, from bets on each."""
    return Bounds(_bets(problem, record.counts.shape, batches).intervals)


def _bets(problem: Problem, shape: tuple[int, ...], batches: Sequence[Batch]) -> Bets:
    """Bets on whole batches, with no budget in sight."""
    past = Past.none(shape)
    placed: list[Placed] = []
    for batch in batches:
        placed.append(Placed(None, Known(past, past.means, problem.noise.variance(past)), None, batch, not placed))
        past = past.plus(batch)
    return Bets(problem, placed, Folded(None, Known(past, past.means, problem.noise.variance(past)), None))


def _open_ended(problem: Problem, steps: Sequence[Step], pieces: Halfspaces, bars: Floats) -> Floats:
    """The largest value that each form was shown to exceed by bets on many drifts, all forms together. (P)"""
    bets = _bets(problem, steps[0].counts.shape, [step.batch for step in steps])
    moved = pieces._replace(offsets=np.zeros(pieces.offsets.shape))
    found = np.empty(pieces.offsets.shape)
    for bar in np.unique(bars):
        found = np.where(bars == bar, bets.bound(moved, float(bar)), found)
    return found


def described(problem: Problem, trial: Trial, names: Sequence[str], towards: Towards) -> list[Claim]:
    """Every claim, then every opposite: what was won for it, its size with bounds, and what can be expected."""
    question, kept = claims_of(problem), trial.kept
    number = question.number
    evidence, bars = lines_of(problem, kept)
    value, lower = _sizes(problem, kept), _lower(problem, kept, towards)
    chances = np.zeros(number) if kept.over else kept.chances
    pulls = kept.steps[-1].counts if kept.steps and not trial.plan.pulls.any() else trial.plan.pulls
    left_out = ((question.forms != 0) & (pulls == 0)).any(axis=-1)  # no results of this batch are for it
    found = []
    for i, words in enumerate(question.line_words(names)):
        j, opposite = i % number, i >= number
        low, high = (-np.inf, -lower[number + j]) if len(lower) > number else (-np.inf, np.inf)
        if not opposite:
            low = lower[j]
        found.append(
            Claim(
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
                chance=None if opposite else _finite(1.0 if kept.shown[i] else chances[j]),
                margin=float(question.lines.levels[i] * (-1.0 if opposite else 1.0)),
                given_up=bool(not opposite and not kept.shown[i] and left_out[j]),
            )
        )
    return found


def _sizes(problem: Problem, kept: Kept) -> Floats:
    """The estimate of what each claim is about; nan without results. (J)"""
    question = claims_of(problem)
    value = kept.value[: question.number] + question.levels
    return np.where(np.isfinite(kept.error[: question.number]), value, np.nan)


def _lower(problem: Problem, kept: Kept, towards: Towards) -> Floats:
    """Of each line what it exceeds, at least, agreeing with what is shown; then of each opposite. (2J)

    Where there are no opposites, upper bounds of the claims take their place.
    """
    question = claims_of(problem)
    pieces = question.bets(())
    lines = len(pieces.offsets)
    nothing = np.full(2 * question.number, -np.inf)
    if not kept.steps or not kept.past.counts.any():
        return nothing
    shown, level = kept.shown, pieces.offsets
    weights = weights_of(problem)
    both = question if lines > question.number else replace(question, sides="two", names=())
    bars = np.tile(problem.goal + np.log(total(weights) / weights), 2)
    ahead = all(np.isfinite(step.rho).all() for step in kept.steps)
    by = single_step if ahead else _open_ended
    single = nothing if question.odds else by(problem, kept.steps, both.bets(()), bars)
    found = single[:lines]
    whole = len(kept.steps) >= min(float(kept.rounds), MOST_STEPS)  # if not, a claim was added, and they begin after it
    if ahead and whole and (question.odds or getattr(problem.noise, "moves", False)):
        found = np.maximum(found, agreeing(problem, claims_of(problem), kept.steps, towards))
    found = np.where(shown, np.maximum(found, level), np.minimum(found, level))
    return np.append(found, single[lines:])


def _about(form: Floats, level: float, opposite: bool) -> About:
    """What a claim or its opposite is about."""
    arms = np.flatnonzero(form)
    end = -level if opposite else level
    return About(tuple(arms.tolist()), tuple(form[arms].tolist()), float(end), opposite)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
