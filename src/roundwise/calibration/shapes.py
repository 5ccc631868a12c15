"""The questions, each in the shapes in which a wrong answer is nearest: ties, means on a level, borders of a tolerance.

A shape places the means by a law's centre and unit. Means that should be equal differ by `TINY` units, so that one
answer is right, and an error is as likely as if they were equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.calibration.laws import Law
from roundwise.questions import (
    Above,
    AnyAbove,
    BestArm,
    Claims,
    Largest,
    Linear,
    MinimumBelow,
    Question,
    Statements,
    TopK,
)

TINY = 1e-6
BEYOND = 0.5 + TINY  # a tolerance of half a unit
Asked = tuple[Question, Floats]


@dataclass(frozen=True)
class Shape:
    """A question with means that make it hard."""

    name: str
    arms: int
    asked: Callable[[Law], Asked]
    compares: bool = False  # only differences of means matter, so a shift of all arms is harmless
    separate: bool = False  # every statement is about one arm, so each arm may have a deviation of its own


def _placed(law: Law, *offsets: float) -> Floats:
    return np.asarray(law.centre + law.unit * np.array(offsets))


def _best(*offsets: float) -> Callable[[Law], Asked]:
    return lambda law: (BestArm(), _placed(law, *offsets))


def _tolerance(*offsets: float) -> Callable[[Law], Asked]:
    """Within half a unit of the best is right."""
    return lambda law: (BestArm(tolerance=0.5 * law.unit), _placed(law, *offsets))


def _top(k: int, *offsets: float, near: float = 0.0) -> Callable[[Law], Asked]:
    return lambda law: (TopK(k, near * law.unit), _placed(law, *offsets))


def _level(kind: Callable[[float, float], Question], *offsets: float, near: float = 0.0) -> Callable[[Law], Asked]:
    return lambda law: (kind(law.centre, near * law.unit), _placed(law, *offsets))


def _control(margin: float, *offsets: float, near: float = 0.0) -> Callable[[Law], Asked]:
    return lambda law: (
        Statements.against_control(len(offsets), 0, margin * law.unit, near * law.unit),
        _placed(law, *offsets),
    )


def _claims(margin: float, *offsets: float, futility: float | None = None) -> Callable[[Law], Asked]:
    return lambda law: (
        Claims.against_control(
            len(offsets), 0, margin * law.unit, futility=None if futility is None else futility * law.unit
        ),
        _placed(law, *offsets),
    )


def _ratio(law: Law) -> Asked:
    """Two arms at 1.2 times the control, less a hair."""
    means = np.array([1.0, 1.2, 1.2]) * law.centre - np.array([0.0, TINY, TINY]) * law.unit
    return Claims.against_control(3, 0, 1.2, scale="ratio"), means


def _odds(law: Law) -> Asked:
    """Two arms whose odds are 1.5 times those of the control, less a hair."""
    rate = 1.5 * law.centre / (1.0 + 0.5 * law.centre) - TINY * law.unit
    return Claims.against_control(3, 0, 1.5, scale="odds-ratio"), np.array([law.centre, rate, rate])


def _independent(*offsets: float) -> Callable[[Law], Asked]:
    return lambda law: (Claims.above(len(offsets), law.centre, independent=True), _placed(law, *offsets))


def _ranking(*offsets: float) -> Callable[[Law], Asked]:
    return lambda law: (Statements.ranking(len(offsets)), _placed(law, *offsets))


def _statements(forms: list[list[float]], *offsets: float) -> Callable[[Law], Asked]:
    """Forms of the means against what they are when all means lie at the centre."""

    def asked(law: Law) -> Asked:
        factors = np.array(forms, dtype=np.float64)
        return Statements(factors, factors.sum(axis=-1) * law.centre), _placed(law, *offsets)

    return asked


def _largest(
    forms: list[list[float]], ahead: list[float], *offsets: float, near: float = 0.0
) -> Callable[[Law], Asked]:
    """Scores that, at these means, lie `ahead` units above each other's: their offsets make it so."""

    def asked(law: Law) -> Asked:
        factors, means = np.array(forms, dtype=np.float64), _placed(law, *offsets)
        return Largest(factors, law.unit * np.array(ahead) - factors @ means, tolerance=near * law.unit), means

    return asked


def _features(question: Callable[[Law], Question], *rows: tuple[float, float]) -> Callable[[Law], Asked]:
    """Arms with three features, a constant and two numbers, whose sum is how many units the mean is off the centre."""

    def asked(law: Law) -> Asked:
        features = np.array([(1.0, *row) for row in rows])
        return Linear(question(law), features), features @ np.array([law.centre, law.unit, law.unit])

    return asked


def _spread(number: int, first: float = 0.0) -> list[float]:
    """One arm a hair ahead of all others."""
    return [first, *[first - TINY] * (number - 1)]


SHAPES: tuple[Shape, ...] = (
    Shape("best of 2, tie", 2, _best(0, -TINY), compares=True),
    Shape("best of 5, tie", 5, _best(*_spread(5)), compares=True),
    Shape("best of 10, a pair ahead", 10, _best(0, -TINY, *[-1] * 8), compares=True),
    Shape("best of 100, tie", 100, _best(*_spread(100)), compares=True),
    Shape("best of 1000, tie", 1000, _best(*_spread(1000)), compares=True),
    Shape("tolerance, 2 arms at its border", 2, _tolerance(0, -0.5 - TINY), compares=True),
    Shape("tolerance, 5 arms at its border", 5, _tolerance(0, *[-0.5 - TINY] * 4), compares=True),
    Shape("tolerance, several right", 5, _tolerance(0, -0.2, -0.5 - TINY, -0.5 - TINY, -1), compares=True),
    Shape("top 2 of 4, tie at the cut", 4, _top(2, 1, 0, -TINY, -TINY), compares=True),
    Shape("top 3 of 10, tie at the cut", 10, _top(3, 1, 0.5, 0, *[-TINY] * 7), compares=True),
    Shape("top 5 of 30, tie", 30, _top(5, *[0] * 5, *[-TINY] * 25), compares=True),
    Shape("above, 2 just above", 2, _level(Above, TINY, TINY), separate=True),
    Shape("above, 5 on both sides", 5, _level(Above, TINY, -TINY, TINY, -TINY, 1), separate=True),
    Shape("above, 30 just below", 30, _level(Above, *[-TINY] * 30), separate=True),
    Shape("above, 300 just below", 300, _level(Above, *[-TINY] * 300), separate=True),
    Shape("minimum just below", 3, _level(MinimumBelow, -TINY, 1, 1), separate=True),
    Shape("minimum of 10 just not below", 10, _level(MinimumBelow, *[TINY] * 10), separate=True),
    Shape("any above, just", 3, _level(AnyAbove, TINY, -1, -1), separate=True),
    Shape("none of 10 above, just", 10, _level(AnyAbove, *[-TINY] * 10), separate=True),
    Shape("none of 300 above, just", 300, _level(AnyAbove, *[-TINY] * 300), separate=True),
    Shape("control, 4 ties", 5, _control(0.0, 0, -TINY, -TINY, TINY, TINY), compares=True),
    Shape("control, margin just missed", 3, _control(0.5, 0, 0.5 - TINY, 0.5 - TINY), compares=True),
    Shape("claims, 4 nulls", 5, _claims(0.0, 0, 0, 0, 0, 0), compares=True),
    Shape("claims, 2 nulls and 2 effects", 5, _claims(0.0, 0, 0, 0, 1, 1), compares=True),
    Shape("claims, margin just met", 3, _claims(0.5, 0, 0.5, 0.5), compares=True),
    Shape("claims, on both borders of futility", 4, _claims(0.0, 0, 0, 0.5, 0.5, futility=0.5), compares=True),
    Shape("claims, 50 nulls", 51, _claims(0.0, *[0] * 51), compares=True),
    Shape(
        "claims about levels",
        4,
        lambda law: (Claims.above(4, law.centre), _placed(law, 0, 0, 0, 1)),
        separate=True,
    ),
    Shape("claims, one null", 2, _claims(0.0, 0, 0), compares=True),
    Shape("claims, ratio just missed", 3, _ratio),
    Shape("claims, odds ratio just missed", 3, _odds),
    Shape("claims, 4 independent nulls", 4, _independent(0, 0, 0, 0), separate=True),
    Shape("claims, independent, 1 null and 3 effects", 4, _independent(0, 1, 1, 1), separate=True),
    Shape("ranking of 4, ties", 4, _ranking(TINY, 0, 0.5, 0.5 + TINY), compares=True),
    Shape("statements on levels, ten arms", 10, _statements(np.eye(10).tolist(), *[-TINY] * 10), separate=True),
    Shape("statements on levels, scaled", 2, _statements([[2, 0], [0, -0.5]], -TINY, TINY), separate=True),
    Shape("statements, contradictory", 2, _statements([[1, -1], [-1, 1]], TINY, 0), compares=True),
    Shape("statements, dependent", 3, _statements([[1, -1, 0], [0, 1, -1], [1, 0, -1]], TINY, 0, TINY), compares=True),
    Shape(
        "statements, sums and a level", 4, _statements([[1, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1]], 0, -TINY, 0, TINY)
    ),
    Shape("statements, a pair and a level", 2, _statements([[1, -1], [1, 0]], -TINY, 0)),
    Shape(
        "largest, near-duplicates",
        3,
        _largest([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], [0, -TINY, -1], 0, 0, 0),
        compares=True,
    ),
    Shape("largest, sums of groups", 4, _largest([[1, 1, 0, 0], [0, 0, 1, 1]], [0, -TINY], 0, 0, 0, 0), compares=True),
    Shape("largest, against a constant", 2, _largest([[0, 0], [1, 0], [0, 1]], [0, -TINY, -TINY], 0, 0)),
    Shape("largest, constant just beaten", 2, _largest([[0, 0], [1, 0], [0, 1]], [-TINY, 0, -0.5], 0, 0)),
    # with a tolerance of half a unit: only one answer right, just so; or several, and the others just wrong
    Shape("top 2 of 4 within a tolerance", 4, _top(2, BEYOND, BEYOND, 0, 0, near=0.5), compares=True),
    Shape("top 2 of 4, several right", 4, _top(2, 1, 0.3, 0, -0.2 - TINY, near=0.5), compares=True),
    Shape(
        "above within a tolerance",
        5,
        _level(Above, BEYOND, -BEYOND, 0, BEYOND, -BEYOND, near=0.5),
        separate=True,
    ),
    Shape("above within a tolerance, 30 below", 30, _level(Above, *[-BEYOND] * 30, near=0.5), separate=True),
    Shape("minimum within a tolerance", 3, _level(MinimumBelow, -BEYOND, 1, 1, near=0.5), separate=True),
    Shape("none of 10 above, within a tolerance", 10, _level(AnyAbove, *[-BEYOND] * 10, near=0.5), separate=True),
    Shape("control within a tolerance", 5, _control(0.0, 0, BEYOND, -BEYOND, 0, 0.2, near=0.5), compares=True),
    Shape(
        "features, best of 5, tie",
        5,
        _features(lambda law: BestArm(), (1, 0), (0, 1 - TINY), (-1, 0.5), (0.5, -1), (0, 0)),
    ),
    Shape(
        "features, best of 4 within a tolerance",
        4,
        _features(lambda law: BestArm(0.5 * law.unit), (1, 0), (0, 0.5 - TINY), (-1, 1.5 - TINY), (0.4, 0.4)),
    ),
    Shape(
        "features, above, 4 just below",
        6,
        _features(
            lambda law: Above(law.centre),
            (1, -1 - TINY),
            (-1, 1 - TINY),
            (0, -TINY),
            (0.5, -0.5 - TINY),
            (1, 0),
            (0, 1),
        ),
    ),
    Shape(
        "largest within a tolerance",
        3,
        _largest([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], [0, -0.2, -BEYOND], 0, 0, 0, near=0.5),
        compares=True,
    ),
)
