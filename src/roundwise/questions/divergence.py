"""Complexity and evidence with the divergences of the rewards' own family: the paper's T~* (Section 1.1).

1/T~* = max_w min_j C_j(w), C_j(w) = min of sum_i w_i KL(mu_i, lambda_i) over the wrong side of each half-space j of the
answer (`projection`), certified to 1e-6 or better (`interior`; docs/paper.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.questions.base import (
    Answer,
    Complexity,
    Question,
    complexity_where,
    finite,
    quiet,
)
from roundwise.questions.besides import cells_of, tolerance_of, tolerant
from roundwise.questions.families import Family
from roundwise.questions.interior import least_pulls
from roundwise.questions.projection import costs_of, sides_of


@quiet
def evidence(question: Question, counts: ArrayLike, means: ArrayLike, family: Family) -> Floats:
    """min over wrong answers of sum_i N_i KL(mu_i, lambda_i); where several are right, the largest over them."""
    values = family.inside(finite(means))
    pulls = np.asarray(counts, dtype=np.float64)
    values, pulls = np.broadcast_arrays(values, pulls)
    yes = _one_arm(question, values)
    if yes is not None:
        costs = _level_costs(question, values, family)
        return np.where(yes, total(np.where(_said(question, values), pulls * costs, 0.0)), (pulls * costs).min(axis=-1))
    found = [
        np.where(right, costs_of(sides_of(question, answer, values, family), pulls, family)[0].min(axis=-1), 0.0)
        for answer, right in _answers(question, values)
    ]
    return np.asarray(np.max(found, axis=0))


@quiet
def complexity(question: Question, means: ArrayLike, family: Family) -> Complexity:
    """T~* and w*; where several answers are right, those of the easiest."""
    values = family.inside(finite(means))
    yes = _one_arm(question, values)
    if yes is not None:
        return _some_arm(question, values, family, yes)
    best: Complexity | None = None
    for answer, right in _answers(question, values):
        found = _solved(question, answer, values, family, right)
        if best is None:
            best = found
        else:
            easier = found.value < best.value
            best = Complexity(
                np.where(easier, found.value, best.value), np.where(easier[..., None], found.weights, best.weights)
            )
    assert best is not None  # some answer is right
    return best


def complexities(question: Question, means: ArrayLike, family: Family) -> Floats:
    """T~_i of each right answer i of a question that may have several; nan for the others."""
    values = family.inside(finite(means))
    found = [
        np.where(right, _solved(question, answer, values, family, right).value, np.nan)
        for answer, right in _answers(question, values)
    ]
    return np.stack(found, axis=-1)


def _answers(question: Question, means: Floats) -> list[tuple[Answer, Bools]]:
    """Every answer that is right in some run, with the runs in which it is: one of each run, or every arm."""
    may = tolerant(question)
    if may is not None and tolerance_of(question):
        right = may.right(means)
        return [(np.full(means.shape[:-1], i), right[..., i]) for i in range(means.shape[-1])]
    return [(question.answer(means), np.ones(means.shape[:-1], dtype=np.bool_))]


def _solved(question: Question, answer: Answer, means: Floats, family: Family, right: Bools) -> Complexity:
    """T~* and w* of "this answer is right", in the runs where it is."""
    arms = means.shape[-1]
    sides = sides_of(question, answer, means, family)
    wanted = right & (~sides.possible | (sides.distances > 0)).all(axis=-1)
    certain = wanted & ~sides.possible.any(axis=-1)  # no means of the family make it wrong
    value, weights = np.where(certain, 0.0, np.inf), np.full(means.shape, 1.0 / arms)
    wanted &= ~certain
    if wanted.any():
        total_pulls, pulls = least_pulls(sides.only(wanted), means[wanted], family)
        value[wanted], weights[wanted] = total_pulls, pulls / total_pulls[:, None]
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)


# ---------------------------------------------------------------- one arm and a level


def _one_arm(question: Question, means: Floats) -> Bools | None:
    """Whether the answer is yes, for "is any mean above (below) the level"; None for other questions."""
    if cells_of(question) not in ("some above a level", "some below a level"):
        return None
    return np.asarray(question.answer(means), dtype=np.bool_)


def _said(question: Question, means: Floats) -> Bools:
    """Which arms are on the side that makes it yes."""
    level: float = question.level  # type: ignore[attr-defined]
    return np.asarray(means > level if cells_of(question) == "some above a level" else means < level)


def _level_costs(question: Question, means: Floats, family: Family) -> Floats:
    """KL(mu_i, level)."""
    return family.divergence(means, question.level - means)  # type: ignore[attr-defined]


def _some_arm(question: Question, means: Floats, family: Family, yes: Bools) -> Complexity:
    """Yes: all on the arm with the largest divergence from the level; no: in proportion to 1/KL, as for all arms."""
    costs = _level_costs(question, means, family)
    saying = np.where(_said(question, means), costs, 0.0)
    most = saying.max(axis=-1)
    first = (saying == most[..., None]) & yes[..., None]
    needs = 1 / costs
    value = np.where(yes, 1 / most, total(needs))
    weights = np.where(
        yes[..., None], first / np.maximum(total(first), 1.0)[..., None], needs / total(needs)[..., None]
    )
    return complexity_where(np.asarray(np.isfinite(value)), value, weights)
