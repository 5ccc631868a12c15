"""What no method with this error can stay below on average, if these were the means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.planning.worlds import deviations
from roundwise.problem import Problem
from roundwise.questions import Claims
from roundwise.simulation.summary import lower_bound_at


def lower_bound(problem: Problem, means: Sequence[float], deviation: float | None = None) -> float | None:
    """T* kl(delta, 1 - delta): exact for normal results; for others with the smallest deviation of an arm, about.

    >>> from roundwise.noise import Gaussian
    >>> from roundwise.questions import BestArm
    >>> round(lower_bound(Problem(BestArm(), 2, 0.05, Gaussian()), [0.2, 0.0]) or 0)
    530
    """
    mu = np.asarray(means, dtype=np.float64)
    if isinstance(problem.question, Claims) and problem.question.odds:
        return None
    sigma = float(deviations(problem.noise, mu, deviation).min())
    if sigma <= 0:
        return None
    found = float(lower_bound_at(problem.question, mu, problem.delta, sigma))
    return found if np.isfinite(found) and found > 0 else None
