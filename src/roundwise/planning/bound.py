"""What no method with this error can stay below on average, if these were the means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.noise import family_of, items_of
from roundwise.planning.worlds import deviations
from roundwise.problem import Problem
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound


def lower_bound(problem: Problem, means: Sequence[float], deviation: float | None = None) -> float | None:
    """Results that no method can stay below on average at these means; None where nothing can be said.

    It cannot where arms are tried on the same items: fewer may do.

    T* kl(delta, 1 - delta), for 0/1 results and counts with their own divergences (docs/bounds.md). With an unknown
    deviation no alternative is dearer than with a known one, so the bound of normal results holds.

    >>> from roundwise.noise import Gaussian
    >>> from roundwise.questions import BestArm
    >>> round(lower_bound(Problem(BestArm(), 2, 0.05, Gaussian()), [0.2, 0.0]) or 0)
    530
    """
    if items_of(problem.noise) is not None:
        return None
    mu = np.asarray(means, dtype=np.float64)
    family = family_of(problem.noise)
    if family is None and problem.noise.outcome.limited:  # means do not say all of such results
        return None
    if family is None:
        sigma = float(deviations(problem.noise, mu, deviation).min())
        value = float(lower_bound_at(problem.question, mu, problem.delta, sigma))
    else:
        own = own_lower_bound(problem.question, mu, problem.delta, family)
        value = 0.0 if own is None else float(own[1])
    return value if np.isfinite(value) and value > 0 else None
