"""Definition 3.3 for a finite set of instances: samples in one proportion that are enough for every one of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.errors import InputError
from roundwise.questions import Complexity, Question
from roundwise.questions.base import finite
from roundwise.solvers.program import check_certificate, solve_general
from roundwise.theory.bounds.affine import pieces_at


def worst_case_over(question: Question, instances: ArrayLike, sigma: float = 1.0) -> Complexity:
    """Tbar*(B) and wbar*(B) of the instances that are the rows of B, (n, K)->(),(K); their answers may differ.

    Every half-space of every instance is one limit of the programme for T*: sum_i a_i^2/n_i <= d^2/(2 sigma^2). For
    balls there is `question.complexity(means, radius)`.

    >>> from roundwise.questions import BestArm
    >>> both = [[1.0, 0.5, 0.0], [1.0, 0.0, 0.5]]
    >>> [round(float(each), 2) for each in BestArm().complexity(both).value]
    [34.28, 34.28]
    >>> round(float(worst_case_over(BestArm(), both).value), 2)
    46.63
    """
    rows = finite(instances)
    if rows.ndim != 2 or not len(rows):
        raise InputError("Give the instances as rows: shape (n, K), at least one.")
    question.check(rows.shape[1])
    squares, limits = [], []
    for means in rows:
        pieces = pieces_at(question, means)
        if pieces is None:
            raise InputError(f"The answer to '{question.name}' at {means.tolist()} is not made of half-spaces.")
        forms, distances = pieces
        squares.append(forms**2)
        limits.append(np.maximum(distances, 0.0) ** 2 / (2 * sigma**2))
    found = check_certificate(solve_general(np.concatenate(squares)[None], np.concatenate(limits)[None]))
    return Complexity(found.total[0], found.pulls[0] / found.pulls[0].sum())
