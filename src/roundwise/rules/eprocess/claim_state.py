"""What the rule of claims keeps between batches, and how it is looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats
from roundwise.errors import InputError
from roundwise.model.estimates import Past
from roundwise.model.problem import Problem
from roundwise.questions.claims import Claims
from roundwise.rules.eprocess.claim_bounds import ClaimStep
from roundwise.rules.eprocess.closed_testing import adjusted_e_values, lost_by_others, missing_wealth, wealth_in_goals
from roundwise.rules.eprocess.wealth_grid import ClaimTail

MOST_STEPS = 12  # batches that are kept one by one for bounds


class ClaimState(NamedTuple):
    """The purses, what was shown and when, what is known, and what can be expected. Lines: claims, then opposites."""

    gains: Floats  # (L), log E
    shown: Bools  # (L)
    batch: Floats  # (L), after which it was shown, 0 if it was not
    samples: Floats  # (L), after how many results, 0 if it was not
    past: Past
    value: Floats  # (L), what each line is estimated to hold by
    leverage: Floats  # (L), the variance of that, per unit of the variance of a result
    error: Floats  # (L), its standard error
    spread: Floats  # (K), a guess at the variance of one result, on the scale of the forms
    fed: Bools  # (J), which claims the next results should go to
    chances: Floats  # (J), that each is shown by the end; a forecast
    expected: Floats  # (), how many more will be; infinite without a budget
    over: Bools  # (), the last batch was bet on
    rounds: Floats  # (), how many batches had any result
    steps: tuple[
        ClaimStep, ...
    ] = ()  # of one run, at most `MOST_STEPS`, for bounds; without claims that were added later
    tail: ClaimTail | None = None  # what goes on after these, for bounds: claims that were added later have none of it
    out: Bools | None = None  # (J), claims about arms that were left out, which are not fed any more
    means: Floats | None = None  # (K), the estimates that values are made of; None before a batch, and in older records
    taught: Past | None = None  # the past with earlier data before it, if any were imported: no evidence (24)

    @property
    def seen(self) -> Past:
        """All that estimates and plans are made of: the past, and earlier data."""
        return self.past if self.taught is None else self.taught


def claims_of(problem: Problem) -> Claims:
    """The question, which is of claims."""
    question = problem.question
    if not isinstance(question, Claims):
        raise InputError(f"The rule of claims does not fit the question '{question.name}'.")
    return question


def weights_of(problem: Problem) -> Floats:
    """The weights of the claims. (J)"""
    return np.asarray(claims_of(problem).weights, dtype=np.float64)


def open_of(problem: Problem, kept: ClaimState) -> Bools:
    """The claims that may still be fed: neither side is shown, and no arm of theirs was left out. (J)"""
    unsettled = ~sides_of(problem, kept.shown).any(axis=-2)
    return np.asarray(unsettled if kept.out is None else unsettled & ~kept.out)


def compares(question: Claims) -> bool:
    """Whether every claim compares arms, so that a shift of a whole batch cancels."""
    forms = question.forms
    return bool((np.abs(forms.sum(axis=-1)) <= 1e-12 * np.abs(forms).sum(axis=-1)).all())


def sides_of(problem: Problem, lines: Array) -> Array:
    """Lines with an axis of sides. (L)->(D, J)"""
    return lines.reshape(*lines.shape[:-1], -1, claims_of(problem).number)


def lines_of(problem: Problem, kept: ClaimState) -> tuple[Floats, Floats]:
    """log of what was won for each line, and of what it must reach now. (L) each"""
    weights, sides, gains = weights_of(problem), sides_of(problem, kept.shown), sides_of(problem, kept.gains)
    if claims_of(problem).independent:
        bars = problem.goal + lost_by_others(gains, sides)
    else:
        bars = problem.goal + np.log1p(missing_wealth(wealth_in_goals(gains, problem.goal), sides, weights) / weights)
    bars = np.concatenate([bars] * sides.shape[-2], axis=-1)
    return kept.gains, np.where(kept.shown, np.minimum(bars, kept.gains), bars)


def adjusted_of(problem: Problem, kept: ClaimState) -> Floats:
    """log of the adjusted e-value of each line: one that is open is shown where this reaches log 1/delta. (L)"""
    sides, gains = sides_of(problem, kept.shown), sides_of(problem, kept.gains)
    if claims_of(problem).independent:
        found = gains - lost_by_others(gains, sides)[..., None, :]
    else:
        with np.errstate(divide="ignore"):
            found = problem.goal + np.log(
                adjusted_e_values(wealth_in_goals(gains, problem.goal), sides, weights_of(problem))
            )
    return np.asarray(found.reshape(kept.gains.shape))
