"""The forecast of each line by itself: of a claim, and of its opposite, each has a chance of its own."""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total
from roundwise.model.estimates import form_variances
from roundwise.rules.eprocess.conditional_power import counted_arms, shares_of, squares_of
from roundwise.solvers.halfspaces import Halfspaces


@quiet
def power_by_line(
    forms: Floats,
    pieces: Halfspaces,
    fed: Bools,
    need: Floats,
    value: Floats,
    error: Floats,
    variances: Floats,
    left: Floats,
    items: Floats | None = None,
) -> Floats:
    """How likely each line is to be shown if `left` results are shared among the arms of the claims that are `fed`.

    As in `outlook`, whose chances are those of the better side: Phi((theta sqrt(I) - y)/sqrt(1 + error^2 I)), y being
    the score that must be reached, I the information that the results will bring. 0 for a claim that is not fed. (L)
    """
    from scipy.special import ndtr, ndtri

    share = shares_of(counted_arms(squares_of(forms), fed), items is not None)
    pulls = left[..., None] * share / np.maximum(total(share), 1e-300)[..., None]
    spread = form_variances(variances / pulls, pieces) if items is None else items * form_variances(1.0 / pulls, pieces)
    score = -ndtri(np.exp(-np.maximum(need, 0.0)))
    away = (value / np.sqrt(spread) - score) / np.sqrt(1.0 + error**2 / spread)
    known = np.isfinite(error) & np.isfinite(value)
    found = np.where(known, ndtr(np.where(np.isnan(away), -np.inf, away)), 0.5)
    wanted = np.concatenate([fed] * (value.shape[-1] // fed.shape[-1]), axis=-1) & (left > 0)[..., None]
    return np.where(wanted, found, 0.0)
