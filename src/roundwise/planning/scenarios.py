"""Worlds to plan in: of assumed means under the noise model of a study, and of means that its data allow.

What data allow are not the estimates alone, but draws around them. Arms are taken as drawn from one normal law whose
mean and deviation are unknown (a hierarchy): estimates of arms that have few results are drawn towards the others, so
that the luckiest of many does not look like a leader. Rates are drawn on the scale of log odds, counts on that of
logarithms. A prior, not a promise: nothing but forecasts rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, Parts, ValueTable, split_counts
from roundwise.noise import Needs, Noise
from roundwise.noise.base import Scale
from roundwise.simulation.environments import (
    Environment,
    FamilyArms,
    GaussianArms,
    Generator,
    Means,
)

POINTS = 20  # steps of the scale that results between two limits are put on


class TableWorld(NamedTuple):
    """True means, and how likely each value is."""

    means: Floats  # (K)
    shares: Floats  # (K, V)


@dataclass(frozen=True, eq=False)
class TableArms(Environment[TableWorld]):
    """Results that take a few values, each with a probability of its own: `shares` (K, V), or (runs, K, V).

    With the axis of worlds, run i has that of i modulo their number.
    """

    values: Floats  # (V)
    shares: Floats  # (K, V) or (worlds, K, V)
    noise: Noise

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.shares.shape[-2])

    def initial_state(self, rng: Generator, runs: int) -> TableWorld:
        """The shares of each run: those there are, in turn."""
        known = self.shares if self.shares.ndim == 3 else self.shares[None]
        shares = known[np.arange(runs) % len(known)]
        return TableWorld(shares @ self.values, shares)

    def pull(self, rng: Generator, state: TableWorld, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, TableWorld]:
        """One multinomial draw for each arm."""
        drawn = rng.multinomial(pulls.astype(np.int64), state.shares).astype(np.float64)  # (runs, K, V)
        totals = drawn @ self.values
        if needs == "sums":
            return Batch(pulls, totals), state
        scatter = np.maximum(drawn @ self.values**2 - totals**2 / np.maximum(pulls, 1.0), 0.0)
        return Batch(pulls, totals, scatter, self._table(drawn) if needs == "rows" else None), state

    def pull_parts(
        self, rng: Generator, state: TableWorld, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, TableWorld]:
        """Rows are drawn once and put in several random orders; one partition is drawn part by part."""
        if needs != "rows" or partitions == 1:
            return super().pull_parts(rng, state, pulls, parts, partitions, needs)
        counts = split_counts(pulls, parts)
        batch, state = self.pull(rng, state, counts[..., 0, :, :].sum(axis=-1), "rows")
        assert batch.table is not None
        sizes = np.broadcast_to(counts, (*counts.shape[:-3], partitions, *counts.shape[-2:]))  # (runs, M, K, P)
        left, found = np.repeat(batch.table.counts[..., None, :, :], partitions, axis=-3), []
        for part in range(counts.shape[-1]):
            taken = dealt_out(rng, left, sizes[..., part])
            left = left - taken
            found.append(taken)
        table = np.stack(found, axis=-2)  # (runs, M, K, P, V)
        totals = table @ self.values
        scatter = np.maximum(table @ self.values**2 - totals**2 / np.maximum(counts, 1.0), 0.0)
        return batch._replace(parts=Parts(counts, totals, scatter, self._table(table))), state

    def _table(self, counts: Floats) -> ValueTable:
        """How often each value came, with the values of each run."""
        return ValueTable(np.broadcast_to(self.values, (len(counts), self.values.size)), counts)


def dealt_out(rng: Generator, left: Floats, sizes: Floats) -> Floats:
    """So many of these rows, drawn without replacement: how often each value. (..., V), ()->(..., V)"""
    rows, rest = left.sum(axis=-1).astype(np.int64), sizes.astype(np.int64)
    found = np.empty_like(left)
    for value in range(left.shape[-1]):
        here = left[..., value].astype(np.int64)
        taken = rng.hypergeometric(here, rows - here, rest)
        rows, rest = rows - here, rest - taken
        found[..., value] = taken
    return found


@dataclass(frozen=True, eq=False)
class Unreliable(Environment[object]):
    """Another world of which a share of the results never comes back, whatever they are."""

    world_of: Environment
    missing: float

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return self.world_of.arms

    @property
    def noise(self) -> Noise:
        """That of the world within."""
        return self.world_of.noise

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the world within."""
        return self.world_of.names

    @property
    def sigma(self) -> float:
        """That of the world within."""
        return self.world_of.sigma

    def initial_state(self, rng: Generator, runs: int) -> object:
        """That of the world within."""
        return self.world_of.initial_state(rng, runs)

    def pull(self, rng: Generator, state: object, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, object]:
        """What comes back of these pulls: each result by a coin of its own."""
        return self.world_of.pull(rng, state, self._back(rng, pulls), needs)

    def pull_parts(
        self, rng: Generator, state: object, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, object]:
        """What comes back, in parts as all of it would be: a study sees nothing else."""
        return self.world_of.pull_parts(rng, state, self._back(rng, pulls), parts, partitions, needs)

    def _back(self, rng: Generator, pulls: Floats) -> Floats:
        kept = rng.binomial(pulls.transpose().astype(np.int64), 1 - self.missing)
        return np.asarray(kept.transpose().astype(np.float64))


def world_of(noise: Noise, means: Means, deviation: float | None = None) -> Environment:
    """A world with these means in which the noise model holds.

    `deviation` is the standard deviation of one result where the model does not say it: needed for an unknown one, and
    for results between two limits a quarter of their distance unless it is given.

    >>> from roundwise.noise import Binary
    >>> world_of(Binary(), [0.3, 0.31]).noise.name
    'binary'
    """
    if noise.family is not None:
        return FamilyArms(means, noise)
    if noise.outcome.limited:
        if callable(means):
            raise InputError("Means between two limits are given one by one.")
        return limited_world(noise, np.asarray(means, dtype=np.float64), deviation)
    sigma = noise.known_sigma if deviation is None else deviation
    if sigma is None and noise.needs == "squares":  # it is not known beforehand
        sigma = 1.0
    if sigma is None:
        raise InputError(f"There is no world to plan in for the noise model '{noise.name}'.")
    return GaussianArms(means, sigma)


def worlds_of(noise: Noise, rows: Floats, deviation: float | None = None) -> Environment:
    """A world whose run i has the means of row i modulo their number. (R, K)"""
    if noise.family is None and noise.outcome.limited:
        flat = limited_world(noise, rows.reshape(-1), deviation)
        return TableArms(flat.values, flat.shares.reshape(*rows.shape, -1), noise)
    return world_of(noise, lambda _, runs: spread_over(runs, rows[np.arange(runs) % len(rows)]), deviation)


def deviations(noise: Noise, means: Floats, deviation: float | None = None) -> Floats:
    """The standard deviation of one result of each arm in that world. (K)"""
    family = noise.family
    if family is not None:
        return np.sqrt(family.variance(means))
    if noise.outcome.limited:
        world = limited_world(noise, means, deviation)
        return np.sqrt(np.maximum(world.shares @ world.values**2 - means**2, 0.0))
    sigma = noise.known_sigma if deviation is None else deviation
    return np.full(means.shape, 1.0 if sigma is None else sigma)


def limited_world(noise: Noise, means: Floats, deviation: float | None, steps: int | None = None) -> TableArms:
    """Results on a scale between two limits: beta-binomial, with these means and as nearly as can be this deviation.

    The scale has so many steps, or as many as the deviation needs.
    """
    from scipy.special import betaln, gammaln

    low, high = noise.mean_range
    span = high - low
    middle = np.clip((means - low) / span, 1e-9, 1 - 1e-9)[:, None]
    if ((means < low) | (means > high)).any():
        raise InputError(f"The means must lie between {low:g} and {high:g}, as the results do.")
    wanted = (0.25 if deviation is None else deviation / span) ** 2
    if steps is None:
        steps = int(np.clip(np.ceil((middle * (1 - middle)).max() / wanted), POINTS, 200))
    excess = (wanted / (middle * (1 - middle)) * steps - 1) / (steps - 1)  # 1 + (n - 1) rho is n var/(m (1 - m))
    rho = np.clip(excess, 1e-6, 0.999)
    a, b = middle * (1 / rho - 1), (1 - middle) * (1 / rho - 1)
    k = np.arange(steps + 1.0)
    ways = gammaln(steps + 1) - gammaln(k + 1) - gammaln(steps - k + 1)
    shares = np.exp(ways + betaln(k + a, steps - k + b) - betaln(a, b))
    return TableArms(low + span * k / steps, shares / shares.sum(axis=-1, keepdims=True), noise)


def spread_over(runs: int, means: Floats) -> Floats:
    """Means of every run, runs contiguous. (K) or (runs, K)->(runs, K)"""
    return zeros((runs, means.shape[-1])) + means


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

    if noise.family is not None:
        return world_of(noise, means)
    if noise.outcome.limited:
        rows = means(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,))), WORLDS)
        return worlds_of(noise, rows, data.deviation)
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
    own = noise.scale(counts, totals)
    if own is not None:
        return own
    sigma, (low, high) = _deviation(noise, data), noise.mean_range
    middle = totals.sum() / counts.sum()
    estimate = np.where(counts > 0, totals / np.maximum(counts, 1.0), middle)
    return Scale(estimate, sigma**2 / np.maximum(counts, 1e-3), lambda drawn: np.clip(drawn, low, high), sigma)


def _deviation(noise: Noise, data: Data) -> float:
    """Of one result: as the model says, or as the data do."""
    if noise.outcome.limited:
        low, high = noise.mean_range
        return data.deviation or 0.25 * (high - low)
    sigma = noise.known_sigma
    if sigma is None:
        sigma = data.deviation
    if sigma is None or sigma <= 0:
        raise InputError("The deviation of one result is not known yet: tell rows, or sums with their squares.")
    return sigma
