"""Complexity and evidence with the divergences of the rewards' own family: the paper's T~* (Section 1.1).

1/T~* = max_w min_j C_j(w), C_j(w) = min of sum_i w_i KL(mu_i, lambda_i) over the wrong side of each half-space j of the
answer (`projection`), certified to 1e-6 or better (`interior`; docs/paper.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.questions.base import (
    Answer,
    Complexity,
    Question,
    complexity_where,
    finite,
    quiet,
)
from roundwise.questions.besides import cells_of, one_by_one, tolerance_of, tolerant
from roundwise.questions.families import Family
from roundwise.questions.interior import least_pulls
from roundwise.questions.projection import Nearest, costs_of, sides_of
from roundwise.questions.several import MOST


@quiet
def evidence(question: Question, counts: ArrayLike, means: ArrayLike, family: Family) -> Floats:
    """min over wrong answers of sum_i N_i KL(mu_i, lambda_i); where several are right, the largest over them."""
    values, pulls = np.broadcast_arrays(family.inside(finite(means)), np.asarray(counts, dtype=np.float64))
    cells = cells_of(question)
    if cells == "sides of a level":
        return np.asarray((pulls * _from_level(question, values, family).max(axis=0)).min(axis=-1))
    if cells in SIGNS:
        yes, no = _yes_and_no(question, values, family)
        return np.asarray(np.maximum(total(pulls * yes), (pulls * no).min(axis=-1)))
    found = [
        np.where(right, costs_of(sides_of(question, answer, values, family), pulls, family)[0].min(axis=-1), 0.0)
        for answer, right in _answers(question, values)
    ]
    return np.asarray(np.max(found, axis=0))


@quiet
def complexity(question: Question, means: ArrayLike, family: Family) -> Complexity:
    """T~* and w*; where several answers are right, those of the easiest."""
    values = family.inside(finite(means))
    cells = cells_of(question)
    if cells == "arms with features":
        raise InputError("Arms with features have no divergences of their own.")
    if cells == "sides of a level":
        return _every_arm(_from_level(question, values, family).max(axis=0))
    if cells in SIGNS:
        return _easier(*_some_and_none(question, values, family))
    best: Complexity | None = None
    for answer, right in _answers(question, values):
        found = _solved(question, answer, values, family, right)
        best = found if best is None else _easier(best, found)
    assert best is not None  # some answer is right
    return best


@quiet
def complexities(question: Question, means: ArrayLike, family: Family) -> Floats:
    """T~_i of the right answers i; nan beyond. (A)"""
    values = family.inside(finite(means))
    if cells_of(question) in SIGNS:
        both = [each.value for each in _some_and_none(question, values, family)]
        right = [question.correct(np.full(values.shape[:-1], each), values) for each in (True, False)]
        return np.where(np.stack(right, axis=-1), np.stack(both, axis=-1), np.nan)
    found = [
        np.where(right, _solved(question, answer, values, family, right).value, np.nan)
        for answer, right in _answers(question, values)
    ]
    return np.stack(found, axis=-1)


def _answers(question: Question, means: Floats) -> list[tuple[Answer, Bools]]:
    """Every answer that is right in some run, with the runs in which it is: one of each run, or several."""
    may = tolerant(question)
    if may is not None and tolerance_of(question):
        if (may.ways(means) > max(MOST, means.shape[-1])).any():
            raise InputError(
                f"More than {MOST} answers are right within the tolerance, too many to look at one by one with the "
                "divergences of these rewards: choose a smaller tolerance."
            )
        return list(zip(*may.right_answers(means), strict=True))
    return [(question.answer(means), np.ones(means.shape[:-1], dtype=np.bool_))]


def _easier(one: Complexity, other: Complexity) -> Complexity:
    """The smaller of two."""
    easier = other.value < one.value
    weights = np.where(easier[..., None], other.weights, one.weights)
    return Complexity(np.where(easier, other.value, one.value), weights)


def _solved(question: Question, answer: Answer, means: Floats, family: Family, right: Bools) -> Complexity:
    """T~* and w* of "this answer is right", in the runs where it is."""
    arms = means.shape[-1]
    sides = sides_of(question, answer, means, family)
    if one_by_one(question):  # what is not in the answer need not be shown to be wrong
        sides = sides._replace(possible=sides.possible & np.asarray(answer))
    wanted = right & (~sides.possible | (sides.distances > 0)).all(axis=-1)
    certain = wanted & ~sides.possible.any(axis=-1)  # no means of the family make it wrong
    value, weights = np.where(certain, 0.0, np.inf), np.full(means.shape, 1.0 / arms)
    wanted &= ~certain
    if wanted.any():
        total_pulls, pulls = least_pulls(Nearest(sides.only(wanted), arms, means[wanted], family))
        value[wanted], weights[wanted] = total_pulls, pulls / total_pulls[:, None]
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)


# ---------------------------------------------------------------- arms and a level

SIGNS = {"some above a level": 1.0, "some below a level": -1.0}  # the side on which an arm makes it yes


def _from_level(question: Question, means: Floats, family: Family) -> Floats:
    """What it costs to move each mean to where "above", and "below", is wrong of it; 0 where it is. (2, K)"""
    level: float = question.level  # type: ignore[attr-defined]
    found = []
    for sign in (1.0, -1.0):
        border = level - sign * tolerance_of(question)
        costs = family.divergence(means, border - means) if family.low < border < family.high else np.inf
        found.append(np.where(sign * (border - means) < 0, costs, 0.0))  # a mean that cannot be there never is
    return np.stack(found)


def _yes_and_no(question: Question, means: Floats, family: Family) -> Floats:
    """The same for "is any mean above (below) the level": what speaks for yes, and for no. (2, K)"""
    above, below = _from_level(question, means, family)
    return np.stack([above, below] if SIGNS[cells_of(question)] > 0 else [below, above])


def _every_arm(costs: Floats) -> Complexity:
    """All arms must be shown: in proportion to 1/KL."""
    needs = 1 / costs
    amount = total(needs)
    return complexity_where(np.asarray(np.isfinite(amount)), amount, needs / amount[..., None])


def _some_and_none(question: Question, means: Floats, family: Family) -> tuple[Complexity, Complexity]:
    """Yes: all on the arm with the largest divergence from the level; no: as for all arms."""
    yes, no = _yes_and_no(question, means, family)
    most = yes.max(axis=-1)
    first = yes == most[..., None]
    value = 1 / most
    shown = complexity_where(np.asarray(np.isfinite(value)), value, first / total(first)[..., None])
    return shown, _every_arm(no)
