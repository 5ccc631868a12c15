"""Means that the data of a running study allow: not the estimates alone, but draws around them.

Arms are taken as drawn from one normal law whose mean and deviation are unknown (a hierarchy): estimates of arms that
have few results are drawn towards the others, so that the luckiest of many does not look like a leader. Rates are drawn
on the scale of log odds, counts on that of logarithms. A prior, not a promise: nothing but forecasts rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.noise import Noise, family_of, known_sigma, range_of_means
from roundwise.noise.base import Scale, scale_of
from roundwise.planning.worlds import TableArms, limited_world, world_of
from roundwise.simulation.environments import Environment, Generator

WORLDS = 400  # tables of results between two limits that are drawn
SMALL = 0.3  # effects, in deviations of a result, that arms are thought to differ by


@dataclass(frozen=True, kw_only=True)
class Data:
    """What came back so far, arm by arm."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum of squares about the means of batches
    freedom: Floats | None = None  # (K)

    @property
    def deviation(self) -> float | None:
        """Of one result, if its squares are known."""
        if self.scatter is None or self.freedom is None or self.freedom.sum() <= 0:
            return None
        return float(np.sqrt(self.scatter.sum() / self.freedom.sum()))


def allowed_world(noise: Noise, data: Data, seed: int) -> Environment:
    """A world whose means are drawn anew in each run from what these data allow."""
    if not (data.counts > 0).any():
        raise InputError("There are no results yet: plan it as a new study, with what is expected.")
    estimate, variance, back, unit = _scale(noise, data)

    def means(rng: Generator, runs: int) -> Floats:
        return back(draws(rng, runs, estimate, variance, SMALL * unit))

    if family_of(noise) is not None:
        return world_of(noise, means)
    if noise.outcome.limited:
        rows = means(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,))), WORLDS)
        world = limited_world(noise, rows.reshape(-1), data.deviation)
        return TableArms(world.values, world.shares.reshape(*rows.shape, -1), noise)
    return world_of(noise, means, _deviation(noise, data))


def draws(rng: Generator, runs: int, estimate: Floats, variance: Floats, effects: float) -> Floats:
    """Means from the posterior of the hierarchy, given its grid of deviations between arms. (K)->(runs, K)

    For a deviation t between arms the estimates are independent normal with variances v_i + t^2 about one mean, which
    has a flat prior; t has a half-Cauchy prior of scale `effects`.
    """
    grid = effects * np.concatenate([[0.0], np.geomspace(0.02, 50.0, 80)])
    steps = np.gradient(grid)
    spread = variance + grid[:, None] ** 2  # (grid, K)
    weights = 1 / spread
    centre = (weights * estimate).sum(axis=-1) / weights.sum(axis=-1)
    fit = -0.5 * (np.log(spread) + (estimate - centre[:, None]) ** 2 / spread).sum(axis=-1)
    log_weight = fit - 0.5 * np.log(weights.sum(axis=-1)) - np.log1p((grid / effects) ** 2) + np.log(steps)
    chances = np.exp(log_weight - log_weight.max())
    which = rng.choice(len(grid), size=runs, p=chances / chances.sum())
    middle = centre[which] + rng.standard_normal(runs) / np.sqrt(weights.sum(axis=-1)[which])
    between = grid[which, None] ** 2
    pull = variance / (variance + between)  # towards the others
    mean = (1 - pull) * estimate + pull * middle[:, None]
    return np.asarray(mean + np.sqrt((1 - pull) * variance) * rng.standard_normal((runs, len(estimate))))


def _scale(noise: Noise, data: Data) -> Scale:
    """Estimates on the scale they are drawn on: that of the noise model, or as they are, within their limits."""
    counts, totals = data.counts, data.totals
    own = scale_of(noise, counts, totals)
    if own is not None:
        return own
    sigma, (low, high) = _deviation(noise, data), range_of_means(noise)
    middle = totals.sum() / counts.sum()
    estimate = np.where(counts > 0, totals / np.maximum(counts, 1.0), middle)
    return Scale(estimate, sigma**2 / np.maximum(counts, 1e-3), lambda drawn: np.clip(drawn, low, high), sigma)


def _deviation(noise: Noise, data: Data) -> float:
    """Of one result: as the model says, or as the data do."""
    if noise.outcome.limited:
        low, high = range_of_means(noise)
        return data.deviation or 0.25 * (high - low)
    sigma = known_sigma(noise)
    if sigma is None:
        sigma = data.deviation
    if sigma is None or sigma <= 0:
        raise InputError("The deviation of one result is not known yet: tell rows, or sums with their squares.")
    return sigma
