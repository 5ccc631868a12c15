"""Expectations of bets: quadrature, laws, and the grids that every bet is looked at on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from roundwise.study.diagnostics import Agreement, find_disagreement, update_agreement

Array = NDArray[np.float64]
TOLERANCE = 1e-9  # of the quadratures and sums, not of the bets
SIZES = 10.0 ** np.arange(-6, 7)  # n_new / N_past
RATES = [1e-5, 0.01, 0.3, 0.5, 0.9, 1 - 1e-5]


def panels(edges: Array, nodes: int = 12) -> tuple[Array, Array]:
    """Gauss-Legendre points and weights on consecutive intervals; the edges run along the first axis."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(edges, axis=0) / 2, (edges[1:] + edges[:-1]) / 2
    shape = (nodes,) + (1,) * half.ndim
    points, weights = middle + half * x.reshape(shape), half * w.reshape(shape)
    return points.reshape(-1, *half.shape[1:]), weights.reshape(-1, *half.shape[1:])


def binomial_pmf(n: int, p: float) -> Array:
    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, p))


def disagreement(problem, batches, shifts):
    """How well a list of batches agrees, up to a shift of all arms together."""
    found = Agreement.none(problem.arms)
    for number, batch in enumerate(batches, 1):
        found = update_agreement(problem, found, batch, number)
    return find_disagreement(problem, found, shifts)
