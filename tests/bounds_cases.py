"""Instances and promises that the tests of bounds share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from roundwise import Above, AnyAbove, BestArm, Largest, MinimumBelow, Problem, Statements, TopK
from roundwise.theory.bounds import Promise
from roundwise.theory.figures.bounds import scaled

MARGIN = Statements.against_control(arms=4, control=0, margin=0.1)
SCORES = Largest([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 2]], offsets=[0.5, 0.5, 0.0])

# question and means, each with a finite complexity
CASES = {
    "best arm": (BestArm(), [0.3, 1.0, 0.2, 0.9]),
    "top 2": (TopK(2), [0.3, 1.0, 0.2, 0.9]),
    "above": (Above(0.5), [0.3, 1.0, 0.2, 0.9]),
    "minimum, yes": (MinimumBelow(0.5), [0.3, 1.0, 0.2, 0.9]),
    "minimum, no": (MinimumBelow(0.1), [0.3, 1.0, 0.2, 0.9]),
    "any above, yes": (AnyAbove(0.5), [0.3, 1.0, 0.2, 0.9]),
    "any above, no": (AnyAbove(1.1), [0.3, 1.0, 0.2, 0.9]),
    "ranking": (Statements.ranking(4), [0.3, 1.0, 0.2, 0.9]),
    "margin": (MARGIN, [0.3, 1.0, 0.2, 0.9]),
    "scores": (SCORES, [0.3, 1.0, 0.2, 0.9]),
}


def a_promise(**changes: float) -> Promise:
    return replace(Promise(complexity=1e8, easiest=1.0, gamma=5.0, delta=0.01, reach=1.0), **changes)


def spread_means(complexity: float, arms: int, question: BestArm | TopK | Above) -> np.ndarray:
    """Means with this complexity: evenly spread, moved along their affine sequence."""
    return scaled(Problem(question, arms), np.linspace(1.0, 0.05, arms), [complexity])[0]
