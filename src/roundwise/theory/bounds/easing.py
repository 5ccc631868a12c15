"""Where the answer gets easier, and where harder: directions in the space of means, and the corners of a ball.

An answer is right where a_j.mu > b_j for all its half-spaces j; d_j = a_j.mu - b_j is the distance to the wrong side,
and T* falls if any d_j grows. If every arm has the same sign in all half-spaces that it is in, then one step of size t
in the sup norm, up for the arms with plus and down for those with minus, adds t |a_j|_1 to every d_j, which is as much
as any step of that size can: that corner of the ball is its easiest instance, and the opposite corner the hardest, the
b of Lemma 3.12. Where signs disagree (the second arm of a ranking of three) there is no such corner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.questions import Question
from roundwise.questions.besides import cells_of, several_right
from roundwise.theory.bounds.affine import one_instance, pieces_at


class Easing(NamedTuple):
    """A direction of sup norm 1 in which every distance d_j grows."""

    direction: Floats  # v, (K)
    rate: float  # the least (a_j.v) / d_j: after a step t every d_j has grown by the factor 1 + rate t or more
    corner: bool  # whether it leads to the easiest instance of every ball


def easing(question: Question, means: ArrayLike) -> Easing | None:
    """The direction in which the answer at these means gets easier, or None where none is known.

    The corner of the module's docstring, if there is one; else the v that maximises the least growth a_j.v / |a_j|_1 (a
    linear programme). None where several answers are right, where no v serves all half-spaces, and for questions that
    have none.

    >>> from roundwise.questions import BestArm
    >>> easing(BestArm(), [1.0, 0.9, 0.0]).direction.tolist()
    [1.0, -1.0, -1.0]
    """
    values = one_instance(means)
    if several_right(question, values).any():
        return None
    side = _side(question, values)
    if side is not None:
        away = side * (values - question.level)  # type: ignore[attr-defined]
        farthest = away.max()  # yes: only the farthest arm matters; no: the farthest grows slowest
        return Easing(np.full(values.shape, side), float(1 / farthest), True) if farthest > 0 else None
    found = pieces_at(question, values)
    if found is None or not (found[1] > 0).all():
        return None
    forms, distances = found
    up, down = (forms > 0).any(axis=0), (forms < 0).any(axis=0)
    if not (up & down).any():
        return Easing(up.astype(float) - down, float((np.abs(forms).sum(axis=1) / distances).min()), True)
    return _steepest(forms, distances)


def hardest_corner(question: Question, means: ArrayLike, radius: float) -> Floats | None:
    """b of Lemma 3.12: the instance of the ball with T*(b) = Tbar*, whose weights serve the whole ball.

    None where the ball has two answers (Tbar* is infinite), and where no corner is hardest for all half-spaces at once,
    so that Assumption 3.9 may fail.

    >>> from roundwise.questions import BestArm
    >>> hardest_corner(BestArm(), [1.0, 0.5, 0.25], 0.125).tolist()
    [0.875, 0.625, 0.375]
    """
    values = one_instance(means)
    found = easing(question, values)
    if found is None or not found.corner or not np.isfinite(question.complexity(values, radius).value):
        return None
    return np.asarray(values - radius * found.direction)


def _side(question: Question, means: Floats) -> float | None:
    """For "is any mean above (below) the level": the side to which all means move to make the answer easier."""
    cells = cells_of(question)
    if cells not in ("some above a level", "some below a level"):
        return None
    return 1.0 if bool(question.answer(means)) == (cells == "some above a level") else -1.0


def _steepest(forms: Floats, distances: Floats) -> Easing | None:
    """max r subject to a_j.v >= r |a_j|_1 for all j and |v_i| <= 1, a linear programme in (v, r)."""
    from scipy.optimize import linprog

    arms, lengths = forms.shape[1], np.abs(forms).sum(axis=1, keepdims=True)
    found = linprog(
        np.append(np.zeros(arms), -1.0),
        A_ub=np.hstack([-forms / lengths, np.ones((len(forms), 1))]),
        b_ub=np.zeros(len(forms)),
        bounds=[(-1.0, 1.0)] * arms + [(None, None)],
    )
    if found.x is None:
        return None
    direction = np.clip(found.x[:arms], -1.0, 1.0)
    rate = float((forms @ direction / distances).min())  # of this very v, whatever the solver's accuracy
    return Easing(direction, rate, False) if -found.fun > 1e-9 and rate > 0 else None
