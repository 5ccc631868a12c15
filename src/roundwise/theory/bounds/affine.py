"""Easier and easier instances: means moved away from a point on all borders, in a direction, to corners of a ball.

Assumption 2.2 asks for a number y such that moving all means towards y by a factor x multiplies 1/T* by x^2.
A wrong answer that lies behind a half-space `a.lambda >= b` is at the distance b - a.mu, which is multiplied by
x exactly if a.(y, ..., y) = b. So y must lie on the border of every half-space, and nothing else is needed: the
proof of the lower bound never uses that the coordinates of y are equal. We therefore take any point y of R^K
on all borders.

With several right answers there are several borders, and what is too little to give one of them may be enough to give
another: the chain says nothing there, and no centre is given. Best arm with a tolerance has one right answer where the
best leads by more than the tolerance; then y is that arm's point with all its rivals just a tolerance above it.

An answer is right where a_j.mu > b_j for all its half-spaces j; d_j = a_j.mu - b_j is the distance to the wrong side,
and T* falls if any d_j grows. If every arm has the same sign in all half-spaces that it is in, then one step of size t
in the sup norm, up for the arms with plus and down for those with minus, adds t |a_j|_1 to every d_j, which is as much
as any step of that size can: that corner of the ball is its easiest instance, and the opposite corner the hardest, the
b of Lemma 3.12. Where signs disagree (the second arm of a ranking of three) there is no such corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.questions import Question
from roundwise.questions.base import finite


@dataclass(frozen=True, eq=False)
class Centre:
    """A point on the border of every wrong answer, and how far the farthest mean is from it."""

    values: Floats  # y, (K)
    spread: float  # Delta = max_i |mu_i - y_i|

    @property
    def constant(self) -> bool:
        """Whether it is one number for all arms, as Assumption 2.2 has it."""
        return bool((self.values == self.values[0]).all())


def centre(question: Question, means: ArrayLike, constant: bool = False) -> Centre | None:
    """The centre y with the smallest spread, or None if there is none (Assumption 2.2, and the module's docstring).

    With `constant` y is one number for all arms, as the paper has it. Best arm and top-k: every number serves,
    and the midrange is best (Section A.3). Above, minimum-below and any-above: the level. Statements a.mu > b:
    a number with b = y sum(a) for all of them. Largest: a number at which all scores tie. Where one number does
    not serve, a point often does: "beats the control by a margin" has the centre (c, c + margin, ...), and so has
    best arm with a tolerance if one arm only is right; if several are, there is no centre. A question of your own that
    says nothing of a centre has the one that follows from its half-spaces.

    >>> from roundwise.questions import BestArm
    >>> centre(BestArm(), [1.0, 0.9, 0.0]).values.tolist()
    [0.5, 0.5, 0.5]
    """
    values = one_instance(means)
    question.check(len(values))
    if not has_border(question, values):
        raise InputError(
            f"The border of the question '{question.name}' is not known; make a `Centre` and try it with "
            "`scaling_error`."
        )
    found = question.border_point(values, constant)
    return None if found is None else Centre(found, float(np.abs(values - found).max()))


def has_border(question: Question, means: Floats) -> bool:
    """Whether the border of the answer at these means is known: the question says its centre, or its half-spaces."""
    return question.has_border


def pieces_at(question: Question, means: Floats) -> tuple[Floats, Floats] | None:
    """The forms a_j (P, K) and distances d_j (P) of the half-spaces of the answer; None for questions without."""
    try:
        pieces = question.halfspaces(question.answer(means), len(means))
    except InputError:
        return None
    forms = pieces.dense(len(means))
    return forms, forms @ means - pieces.offsets


def moved(means: ArrayLike, centre: Centre, factor: float) -> Floats:
    """The means moved away from the centre by a factor: T* is divided by its square."""
    return np.asarray(centre.values + factor * (one_instance(means) - centre.values))


def scaling_error(
    question: Question, means: ArrayLike, centre: Centre, factors: Sequence[float] = (1.5, 4.0, 30.0, 1000.0)
) -> float:
    """The largest relative error of T*(moved) factor^2 = T*: 0, up to rounding, if Assumption 2.2 holds there.

    The proof moves away from the centre, hence factors above 1; the paper writes the assumption for factors below 1.
    """
    values = one_instance(means)
    start = float(question.complexity(values).value)
    ends = [float(question.complexity(moved(values, centre, factor)).value) for factor in factors]
    return max(abs(end / start * factor**2 - 1) for end, factor in zip(ends, factors, strict=True))


def checked_centre(question: Question, means: Floats, centre: Centre) -> Centre:
    """The centre, with its true spread, once T* was seen to scale as it must when the means move away from it."""
    values = np.broadcast_to(np.asarray(centre.values, dtype=np.float64), means.shape)
    found = Centre(values, float(np.abs(means - values).max()))
    if (question.count_right_answers(means) > 1).any():
        raise InputError("Several answers are right at these means: the lower bound on batches is proved for one.")
    error = scaling_error(question, means, found)
    if not error < 1e-5:
        raise InputError(
            f"This is no centre: moving the means away from it does not divide T* by the square of the factor "
            f"(relative error {error:.2g}). Give a point on the border of every wrong answer."
        )
    return found


def instances(means: ArrayLike, centre: Centre, ratio: float, steps: int) -> Floats:
    """mu^0, ..., mu^N, (N+1, K), the easiest first and `means` last, with T*(mu^n) = ratio^(N-n) T* (Section 2).

    >>> from roundwise.questions import BestArm
    >>> best = BestArm()
    >>> best.complexity(instances([0.2, 0.0], centre(best, [0.2, 0.0]), 0.25, 2)).value.round(6).tolist()
    [12.5, 50.0, 200.0]
    """
    if not 0 < ratio < 1:
        raise InputError(f"`ratio` is {ratio:g}, but must lie strictly between 0 and 1.")
    if steps < 0 or steps != int(steps):
        raise InputError(f"`steps` is {steps:g}, but must be a whole number of at least 0.")
    return np.stack([moved(means, centre, ratio ** (-(steps - n) / 2)) for n in range(int(steps) + 1)])


def one_instance(means: ArrayLike) -> Floats:
    """The means of one instance, (K)."""
    values = finite(means)
    if values.ndim != 1:
        raise InputError("Bounds are for one instance: give a list of means, one for each arm.")
    return values


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
    if (question.count_right_answers(values) > 1).any():
        return None
    side = question.easier_side(values)
    if side is not None:
        assert question.level is not None
        away = side * (values - question.level)
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
