"""The questions, each in the shapes in which a wrong answer is nearest: ties, means on a level, borders of a tolerance.

Means that should be equal differ by `TINY` units, so that one answer is right, and an error is as likely as if they
were equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.calibration.laws import Setting
from roundwise.questions import (
    Above,
    AnyAbove,
    BestArm,
    BestGroup,
    Claims,
    Largest,
    Linear,
    MinimumBelow,
    Question,
    Statements,
    TopK,
)

TINY = 1e-6
NEAR = 0.5  # a tolerance, in units
BEYOND = NEAR + TINY
DIFFERENCES = "differences"  # only they matter, so a shift of all arms is harmless
SINGLE = "one arm at a time"  # every statement is about one arm, so deviations may differ
Asked = tuple[Question, Floats]


@dataclass(frozen=True)
class Shape:
    """A question with means that make it hard."""

    name: str
    arms: int
    asked: Callable[[Setting], Asked]
    about: str = ""  # DIFFERENCES, SINGLE, or neither


def _shape(about: str, name: str, question: Callable[[Setting], Question], *offsets: float) -> Shape:
    """A question about means at these distances from the centre, in units."""
    return Shape(name, len(offsets), lambda at: (question(at), at.place(*offsets)), about)


def _best(at: Setting) -> Question:
    return BestArm()


def _best_within(at: Setting) -> Question:
    return BestArm(tolerance=NEAR * at.unit)


def _group(*groups: str) -> Callable[[Setting], Question]:
    return lambda at: BestGroup(groups)


def _top(k: int, near: float = 0.0) -> Callable[[Setting], Question]:
    return lambda at: TopK(k, near * at.unit)


def _level(kind: Callable[[float, float], Question], near: float = 0.0) -> Callable[[Setting], Question]:
    return lambda at: kind(at.centre, near * at.unit)


def _control(arms: int, margin: float = 0.0, near: float = 0.0) -> Callable[[Setting], Question]:
    return lambda at: Statements.against_control(arms, 0, margin * at.unit, near * at.unit)


def _claims(arms: int, margin: float = 0.0, futility: float | None = None) -> Callable[[Setting], Question]:
    return lambda at: Claims.against_control(
        arms, 0, margin * at.unit, futility=None if futility is None else futility * at.unit
    )


def _claims_below(at: Setting) -> Question:
    return Claims.against_control(5, 0, lower_is_better=True)


def _independent(at: Setting) -> Question:
    return Claims.above(4, at.centre, independent=True)


def _statements(forms: Sequence[Sequence[float]]) -> Callable[[Setting], Question]:
    """Forms of the means against what they are when all means lie at the centre."""
    factors = np.array(forms, dtype=np.float64)
    return lambda at: Statements(factors, factors.sum(axis=-1) * at.centre)


def _ratio(at: Setting) -> Asked:
    """Two arms at 1.2 times the control, less a hair."""
    means = np.array([1.0, 1.2, 1.2]) * at.centre - np.array([0.0, TINY, TINY]) * at.unit
    return Claims.against_control(3, 0, 1.2, scale="ratio"), means


def _odds(at: Setting) -> Asked:
    """Two arms whose odds are 1.5 times those of the control, less a hair."""
    rate = 1.5 * at.centre / (1.0 + 0.5 * at.centre) - TINY * at.unit
    return Claims.against_control(3, 0, 1.5, scale="odds-ratio"), np.array([at.centre, rate, rate])


def _largest(
    about: str, name: str, forms: Sequence[Sequence[float]], ahead: Sequence[float], near: float = 0.0
) -> Shape:
    """Scores that lie `ahead` units above each other's where all means lie at the centre: their offsets make it so."""
    factors = np.array(forms, dtype=np.float64)

    def asked(at: Setting) -> Asked:
        means = at.place(*[0.0] * factors.shape[1])
        return Largest(factors, at.unit * np.array(ahead) - factors @ means, tolerance=near * at.unit), means

    return Shape(name, factors.shape[1], asked, about)


def _features(name: str, question: Callable[[Setting], Question], *rows: tuple[float, float]) -> Shape:
    """Arms with three features, a constant and two numbers, whose sum is how many units the mean is off the centre."""
    features = np.array([(1.0, *row) for row in rows])
    return Shape(
        name,
        len(rows),
        lambda at: (Linear(question(at), features), features @ np.array([at.centre, at.unit, at.unit])),
    )


def _behind(number: int) -> list[float]:
    """One arm a hair ahead of all others."""
    return [0.0, *[-TINY] * (number - 1)]


_DUPLICATES = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
_CONSTANT = [[0, 0], [1, 0], [0, 1]]

SHAPES: tuple[Shape, ...] = (
    _shape(DIFFERENCES, "best of 2, tie", _best, 0, -TINY),
    _shape(DIFFERENCES, "best of 5, tie", _best, *_behind(5)),
    _shape(DIFFERENCES, "best of 10, a pair ahead", _best, 0, -TINY, *[-1] * 8),
    _shape(DIFFERENCES, "best of 100, tie", _best, *_behind(100)),
    _shape(DIFFERENCES, "best of 1000, tie", _best, *_behind(1000)),
    _shape(DIFFERENCES, "lowest of 5, tie", lambda at: BestArm(lower_is_better=True), 0, *[TINY] * 4),
    _shape(DIFFERENCES, "tolerance, 2 arms at its border", _best_within, 0, -BEYOND),
    _shape(DIFFERENCES, "tolerance, 5 arms at its border", _best_within, 0, *[-BEYOND] * 4),
    _shape(DIFFERENCES, "tolerance, several right", _best_within, 0, -0.2, -BEYOND, -BEYOND, -1),
    _shape(DIFFERENCES, "top 2 of 4, tie at the cut", _top(2), 1, 0, -TINY, -TINY),
    _shape(DIFFERENCES, "top 3 of 10, tie at the cut", _top(3), 1, 0.5, 0, *[-TINY] * 7),
    _shape(DIFFERENCES, "top 5 of 30, tie", _top(5), *[0] * 5, *[-TINY] * 25),
    _shape(DIFFERENCES, "best of two groups, two arms each, tie", _group("a", "b", "a", "b"), 0, -TINY, 0, -TINY),
    _shape(DIFFERENCES, "best of two groups, one arm against four", _group("a", *"bbbb"), *_behind(5)),
    _shape(SINGLE, "above, 2 just above", _level(Above), TINY, TINY),
    _shape(SINGLE, "above, 5 on both sides", _level(Above), TINY, -TINY, TINY, -TINY, 1),
    _shape(SINGLE, "above, 30 just below", _level(Above), *[-TINY] * 30),
    _shape(SINGLE, "above, 300 just below", _level(Above), *[-TINY] * 300),
    _shape(SINGLE, "minimum just below", _level(MinimumBelow), -TINY, 1, 1),
    _shape(SINGLE, "minimum of 10 just not below", _level(MinimumBelow), *[TINY] * 10),
    _shape(SINGLE, "any above, just", _level(AnyAbove), TINY, -1, -1),
    _shape(SINGLE, "none of 10 above, just", _level(AnyAbove), *[-TINY] * 10),
    _shape(SINGLE, "none of 300 above, just", _level(AnyAbove), *[-TINY] * 300),
    _shape(DIFFERENCES, "control, 4 ties", _control(5), 0, -TINY, -TINY, TINY, TINY),
    _shape(DIFFERENCES, "control, margin just missed", _control(3, margin=0.5), 0, 0.5 - TINY, 0.5 - TINY),
    _shape(DIFFERENCES, "claims, 4 nulls", _claims(5), 0, 0, 0, 0, 0),
    _shape(DIFFERENCES, "claims, 2 nulls and 2 effects", _claims(5), 0, 0, 0, 1, 1),
    _shape(DIFFERENCES, "claims below a control, 4 nulls", _claims_below, 0, 0, 0, 0, 0),
    _shape(DIFFERENCES, "claims, margin just met", _claims(3, margin=0.5), 0, 0.5, 0.5),
    _shape(DIFFERENCES, "claims, on both borders of futility", _claims(4, futility=0.5), 0, 0, 0.5, 0.5),
    _shape(DIFFERENCES, "claims, 50 nulls", _claims(51), *[0] * 51),
    _shape(SINGLE, "claims about levels", lambda at: Claims.above(4, at.centre), 0, 0, 0, 1),
    _shape(DIFFERENCES, "claims, one null", _claims(2), 0, 0),
    Shape("claims, ratio just missed", 3, _ratio),
    Shape("claims, odds ratio just missed", 3, _odds),
    _shape(SINGLE, "claims, 4 independent nulls", _independent, 0, 0, 0, 0),
    _shape(SINGLE, "claims, independent, 1 null and 3 effects", _independent, 0, 1, 1, 1),
    _shape(DIFFERENCES, "ranking of 4, ties", lambda at: Statements.ranking(4), TINY, 0, 0.5, 0.5 + TINY),
    _shape(SINGLE, "statements on levels, ten arms", _statements(np.eye(10).tolist()), *[-TINY] * 10),
    _shape(SINGLE, "statements on levels, scaled", _statements([[2, 0], [0, -0.5]]), -TINY, TINY),
    _shape(DIFFERENCES, "statements, contradictory", _statements([[1, -1], [-1, 1]]), TINY, 0),
    _shape(DIFFERENCES, "statements, dependent", _statements([[1, -1, 0], [0, 1, -1], [1, 0, -1]]), TINY, 0, TINY),
    _shape(
        "", "statements, sums and a level", _statements([[1, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1]]), 0, -TINY, 0, TINY
    ),
    _shape("", "statements, a pair and a level", _statements([[1, -1], [1, 0]]), -TINY, 0),
    _largest(DIFFERENCES, "largest, near-duplicates", _DUPLICATES, [0, -TINY, -1]),
    _largest(DIFFERENCES, "largest, sums of groups", [[1, 1, 0, 0], [0, 0, 1, 1]], [0, -TINY]),
    _largest("", "largest, against a constant", _CONSTANT, [0, -TINY, -TINY]),
    _largest("", "largest, constant just beaten", _CONSTANT, [-TINY, 0, -0.5]),
    # with a tolerance of half a unit: only one answer right, just so; or several, and the others just wrong
    _shape(DIFFERENCES, "top 2 of 4 within a tolerance", _top(2, NEAR), BEYOND, BEYOND, 0, 0),
    _shape(DIFFERENCES, "top 2 of 4, several right", _top(2, NEAR), 1, 0.3, 0, -0.2 - TINY),
    _shape(SINGLE, "above within a tolerance", _level(Above, NEAR), BEYOND, -BEYOND, 0, BEYOND, -BEYOND),
    _shape(SINGLE, "above within a tolerance, 30 below", _level(Above, NEAR), *[-BEYOND] * 30),
    _shape(SINGLE, "minimum within a tolerance", _level(MinimumBelow, NEAR), -BEYOND, 1, 1),
    _shape(SINGLE, "none of 10 above, within a tolerance", _level(AnyAbove, NEAR), *[-BEYOND] * 10),
    _shape(DIFFERENCES, "control within a tolerance", _control(5, near=NEAR), 0, BEYOND, -BEYOND, 0, 0.2),
    _features("features, best of 5, tie", _best, (1, 0), (0, 1 - TINY), (-1, 0.5), (0.5, -1), (0, 0)),
    _features(
        "features, best of 4 within a tolerance",
        _best_within,
        *[(1, 0), (0, 0.5 - TINY), (-1, 1.5 - TINY), (0.4, 0.4)],
    ),
    _features(
        "features, above, 4 just below",
        _level(Above),
        *[(1, -1 - TINY), (-1, 1 - TINY), (0, -TINY), (0.5, -0.5 - TINY), (1, 0), (0, 1)],
    ),
    _largest(DIFFERENCES, "largest within a tolerance", _DUPLICATES, [0, -0.2, -BEYOND], near=NEAR),
)
_BY_NAME = {each.name: each for each in SHAPES}


def shape_of(name: str) -> Shape:
    """The shape of this name."""
    return _BY_NAME[name]
