"""What no method with this error can stay below on average, if these were the means.

For normal results it is T* kl(delta, 1 - delta) (docs/bounds.md). For 0/1 results and counts the divergence of the law
with mean x from that with mean y is the integral of (u - x)/V(u) from x to y, V(u) being the variance at u, hence at
most (y - x)^2/(2 v) with v the least variance between them. V is concave, so v is reached at an end: with the variance
at the ends of the range that the alternatives lie in, the normal bound is a bound for these results, too; the exact one
is a little larger. With an unknown deviation no alternative is dearer than with a known one, and the bound holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.noise import Binary, Bounded, Poisson
from roundwise.planning.worlds import deviations
from roundwise.problem import Problem
from roundwise.questions import Claims, Largest, Statements
from roundwise.simulation.summary import lower_bound_at


def lower_bound(problem: Problem, means: Sequence[float], deviation: float | None = None) -> float | None:
    """Results that no method can stay below on average at these means; None where nothing can be said.

    >>> from roundwise.noise import Gaussian
    >>> from roundwise.questions import BestArm
    >>> round(lower_bound(Problem(BestArm(), 2, 0.05, Gaussian()), [0.2, 0.0]) or 0)
    530
    """
    question, mu = problem.question, np.asarray(means, dtype=np.float64)
    if isinstance(question, Claims):  # it is no error not to show a claim, so nothing is forbidden
        return None
    sigma = float(deviations(problem.noise, mu, deviation).min())
    if isinstance(problem.noise, Bounded):
        return None
    if isinstance(problem.noise, Binary | Poisson):
        if isinstance(question, Largest):
            return None
        slack, places = getattr(question, "tolerance", 0.0), [*mu, getattr(question, "level", mu[0])]
        if isinstance(question, Statements):
            if (np.count_nonzero(question.forms, axis=-1) > 2).any() or (np.abs(question.forms) > 1).any():
                return None
            slack = float(np.abs(question.levels).max())
        ends = np.array([min(places) - slack, max(places) + slack])
        least = (ends * (1 - ends) if isinstance(problem.noise, Binary) else ends).min()
        sigma = float(np.sqrt(max(least, 0.0)))
    if sigma <= 0:
        return None
    found = float(lower_bound_at(question, mu, problem.delta, sigma))
    return found if np.isfinite(found) and found > 0 else None
