"""Worlds to plan in: of assumed means under the noise model of a study, and of means that its data allow.

The data allow draws around the estimates. Arms come from one normal law of unknown mean and deviation (a hierarchy), so
estimates of arms with few results are drawn towards the others, and the luckiest of many does not look like a leader.
Rates are drawn on the scale of log odds, counts on that of logarithms. A prior: nothing but forecasts rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, Parts, ValueTable, split_counts
from roundwise.noise import Needs, Noise
from roundwise.noise.base import Scale
from roundwise.questions import Question
from roundwise.simulation.environments import ArmState, Environment, FamilyArms, GaussianArms, Generator, Means
from roundwise.simulation.items import ItemEnvironment

POINTS = 20  # steps of the scale for results between two limits
ITEM_STEPS = 4  # of that scale for shared items: differences are tabulated one by one
ITEM_CORRELATION = 0.3  # of two equally good arms on one item, unless given
ZERO_ONE = np.array([0.0, 1.0])
WORLDS = 400  # draws of means between two limits
SMALL = 0.3  # prior scale of differences between arms, in deviations of a result
AHEAD = np.linspace(0.0, 4.0, 41)  # how far apart arms may be, in leads that a study is designed for,
USUAL_LEAD = 1.5  # and the prior scale of that


class TableWorld(NamedTuple):
    """True means, and the probability of each value."""

    means: Floats  # (K)
    shares: Floats  # (K, V)


@dataclass(frozen=True, eq=False)
class TableArms(Environment[TableWorld]):
    """Results with a few values, each with its own probability; run i has world i modulo their number."""

    values: Floats  # (V)
    shares: Floats  # (K, V) or (worlds, K, V)
    noise: Noise

    @property
    def arms(self) -> int:
        return int(self.shares.shape[-2])

    def initial_state(self, rng: Generator, runs: int) -> TableWorld:
        known = self.shares if self.shares.ndim == 3 else self.shares[None]
        shares = known[np.arange(runs) % len(known)]
        return TableWorld(shares @ self.values, shares)

    def pull(self, rng: Generator, state: TableWorld, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, TableWorld]:
        drawn = rng.multinomial(pulls.astype(np.int64), state.shares).astype(np.float64)  # (runs, K, V)
        if needs == "sums":
            return Batch(pulls, drawn @ self.values), state
        table = self._table(drawn) if needs == "rows" else None
        return Batch(pulls, *self._moments(drawn, pulls), table), state

    def pull_parts(
        self, rng: Generator, state: TableWorld, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, TableWorld]:
        """Rows are drawn once and put in several random orders; a single partition is drawn part by part."""
        if needs != "rows" or partitions == 1:
            return super().pull_parts(rng, state, pulls, parts, partitions, needs)
        counts = split_counts(pulls, parts)
        batch, state = self.pull(rng, state, counts[..., 0, :, :].sum(axis=-1), "rows")
        assert batch.table is not None
        sizes = np.broadcast_to(counts, (*counts.shape[:-3], partitions, *counts.shape[-2:]))  # (runs, M, K, P)
        left, found = np.repeat(batch.table.counts[..., None, :, :], partitions, axis=-3), []
        for part in range(counts.shape[-1]):
            taken = _draw_without_replacement(rng, left, sizes[..., part])
            left = left - taken
            found.append(taken)
        table = np.stack(found, axis=-2)  # (runs, M, K, P, V)
        return batch._replace(parts=Parts(counts, *self._moments(table, counts), self._table(table))), state

    def _moments(self, drawn: Floats, counts: Floats) -> tuple[Floats, Floats]:
        totals = drawn @ self.values
        return totals, np.maximum(drawn @ self.values**2 - totals**2 / np.maximum(counts, 1.0), 0.0)

    def _table(self, counts: Floats) -> ValueTable:
        return ValueTable(np.broadcast_to(self.values, (len(counts), self.values.size)), counts)


def _draw_without_replacement(rng: Generator, left: Floats, sizes: Floats) -> Floats:
    """How often each value is among `sizes` rows, drawn from those that are left. (..., V), ()->(..., V)"""
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
    """Another world, in which each result is missing with the same probability, whatever it is."""

    world: Environment
    missing: float

    @property
    def arms(self) -> int:
        return self.world.arms

    @property
    def noise(self) -> Noise:
        return self.world.noise

    def initial_state(self, rng: Generator, runs: int) -> object:
        return self.world.initial_state(rng, runs)

    def pull(self, rng: Generator, state: object, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, object]:
        return self.world.pull(rng, state, self._returned(rng, pulls), needs)

    def pull_parts(
        self, rng: Generator, state: object, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, object]:
        return self.world.pull_parts(rng, state, self._returned(rng, pulls), parts, partitions, needs)

    def _returned(self, rng: Generator, pulls: Floats) -> Floats:
        kept = rng.binomial(pulls.transpose().astype(np.int64), 1 - self.missing)
        return np.asarray(kept.transpose().astype(np.float64))


class SeveralNow(NamedTuple):
    """The state of the world of each metric; `means` are those of the main one."""

    main: Any
    others: tuple[Any, ...]

    @property
    def means(self) -> Floats:
        """The true means of the main metric. (K)"""
        return np.asarray(self.main.means)


@dataclass(frozen=True, eq=False)
class SeveralMetrics(Environment[SeveralNow]):
    """A world for each metric of the same rows, as if metrics were independent of each other."""

    main: Environment
    others: tuple[Environment, ...]
    needs: tuple[Needs, ...]  # of the noise models of the others

    @property
    def arms(self) -> int:
        return self.main.arms

    @property
    def noise(self) -> Noise:
        return self.main.noise

    def initial_state(self, rng: Generator, runs: int) -> SeveralNow:
        return SeveralNow(self.main.initial_state(rng, runs), tuple(e.initial_state(rng, runs) for e in self.others))

    def pull(self, rng: Generator, state: SeveralNow, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, SeveralNow]:
        return self._join(state, lambda world, now, own: world.pull(rng, now, pulls, own), needs)

    def pull_parts(
        self, rng: Generator, state: SeveralNow, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, SeveralNow]:
        return self._join(
            state, lambda world, now, own: world.pull_parts(rng, now, pulls, parts, partitions, own), needs
        )

    def _join(
        self, state: SeveralNow, pull: Callable[[Environment, Any, Needs], tuple[Batch, Any]], needs: Needs
    ) -> tuple[Batch, SeveralNow]:
        batch, main = pull(self.main, state.main, needs)
        others = [pull(*each) for each in zip(self.others, state.others, self.needs, strict=True)]
        now = SeveralNow(main, tuple(after for _, after in others))
        return batch._replace(metrics=tuple(found for found, _ in others)), now


class ItemsNow(NamedTuple):
    """True means, and, where results take few values, their distribution function."""

    means: Floats  # (K)
    below: Floats | None  # (K, V - 1)


@dataclass(frozen=True, eq=False)
class AlikeItems(ItemEnvironment[ItemsNow]):
    """Arms on shared items: with probability `correlation` all arms have the same luck on an item.

    The result of an arm is its quantile at that luck, so two arms of the same mean have that correlation. Run i has the
    means of row i modulo their number.
    """

    noise: Noise
    rows: Floats  # (R, K)
    correlation: float = ITEM_CORRELATION
    missing: float = 0.0
    deviation: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.correlation <= 1:
            raise InputError(f"`item_correlation` must be between 0 and 1; got {self.correlation:g}.")
        _ = self._distributions

    @property
    def arms(self) -> int:
        return int(self.rows.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ItemsNow:
        which, (_, below) = np.arange(runs) % len(self.rows), self._distributions
        return ItemsNow(self.rows[which], None if below is None else below[which])

    @property
    def values(self) -> Floats | None:
        values, _ = self._distributions
        return None if values is ZERO_ONE else values  # sums say everything about 0/1 results

    def draw_items(self, rng: Generator, state: ItemsNow, run: int, items: int) -> Floats:
        from scipy.special import ndtri

        values, _ = self._distributions
        luck = rng.random((items, self.arms))
        same = rng.random(items) < self.correlation
        luck[same] = luck[same, :1]
        if values is None or state.below is None:
            return np.asarray(state.means[run] + (1.0 if self.deviation is None else self.deviation) * ndtri(luck))
        return np.asarray(values[(luck[..., None] >= state.below[run]).sum(axis=-1)])

    @cached_property
    def _distributions(self) -> tuple[Floats | None, Floats | None]:
        """The values of results, and P(result <= value) but for the last, (R, K, V - 1); nothing if they are normal."""
        alone, rows = self.noise.without_items(), self.rows
        if not alone.outcome.limited:
            return None, None
        if alone.outcome.rates:
            if ((rows < 0) | (rows > 1)).any():
                raise InputError("The means of 0/1 results lie between 0 and 1.")
            return ZERO_ONE, 1.0 - rows[..., None]
        world = limited_world(alone, rows, self.deviation, ITEM_STEPS)
        return world.values, world.shares.cumsum(axis=-1)[..., :-1]


class ListNow(NamedTuple):
    """The state of `AlikeList`."""

    means: Floats  # (K), the true means
    below: Floats | None  # (K, V - 1)
    place: Floats  # (K), items so far


@dataclass(frozen=True, eq=False)
class AlikeList(AlikeItems):
    """The same on the items of a finite list: each comes once, by its place."""

    size: int = 1

    def initial_state(self, rng: Generator, runs: int) -> ListNow:  # type: ignore[override]
        means, below = super().initial_state(rng, runs)
        return ListNow(means, below, np.zeros((runs, self.arms)))

    def pull(self, rng: Generator, state: ListNow, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ListNow]:  # type: ignore[override]
        rows, ends = np.full((len(pulls), self.size, self.arms), np.nan), state.place + pulls
        for run, (start, end) in enumerate(zip(state.place.astype(int), ends.astype(int), strict=True)):
            first, last = int(start[end > start].min(initial=self.size)), int(end.max())
            items = self.draw_items(rng, ItemsNow(state.means, state.below), run, max(last - first, 0))
            at = np.arange(first, last)[:, None]
            rows[run, first:last] = np.where((at >= start) & (at < end), items, np.nan)
        there = ~np.isnan(rows)
        totals = np.where(there, rows, 0.0).sum(axis=1)
        return Batch(there.sum(axis=1, dtype=np.float64), totals, rows=rows), state._replace(place=ends)


@dataclass(frozen=True, eq=False)
class SkewedNormal(GaussianArms):
    """Normal rewards whose sums of cubes say that they are skewed: a noise model that waits for rows waits for them."""

    skewness: float = 0.0

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        batch, state = super().pull(rng, state, pulls, needs)
        return batch._replace(cubes=self._skewed(batch.counts, batch.scatter, batch.cubes)), state

    def pull_parts(
        self, rng: Generator, state: ArmState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ArmState]:
        batch, state = super().pull_parts(rng, state, pulls, parts, partitions, needs)
        batch, cut = batch._replace(cubes=self._skewed(batch.counts, batch.scatter, batch.cubes)), batch.parts
        if cut is None:
            return batch, state
        return batch._replace(parts=cut._replace(cubes=self._skewed(cut.counts, cut.scatter, cut.cubes))), state

    def _skewed(self, counts: Floats, scatter: Floats | None, cubes: Floats | None) -> Floats | None:
        """Sums of cubes about the mean with this skewness more."""
        if scatter is None or cubes is None:
            return None
        return cubes + self.skewness * np.maximum(scatter, 0.0) ** 1.5 / np.sqrt(np.maximum(counts, 1.0))


def world_of(noise: Noise, means: Means, deviation: float | None = None, skewness: float = 0.0) -> Environment:
    """A world with these means in which the noise model holds.

    Args:
        noise: The noise model.
        means: K numbers, rows (R, K) of which run i has that of i modulo R, or a function (rng, runs) -> (runs, K).
        deviation: Standard deviation of one result where the model does not say it: by default 1, and between two
            limits a quarter of their distance.
        skewness: Of one result, as the noise model sees it.

    >>> from roundwise.noise import Binary
    >>> world_of(Binary(), [0.3, 0.31]).noise.name
    'binary'
    """
    if noise.family is None and noise.outcome.limited:
        assert not callable(means)
        return limited_world(noise, np.asarray(means, dtype=np.float64), deviation)
    if not callable(means) and (rows := np.asarray(means, dtype=np.float64)).ndim > 1:
        means = lambda _, runs: zeros((runs, rows.shape[-1])) + rows[np.arange(runs) % len(rows)]  # noqa: E731
    if noise.family is not None:
        return FamilyArms(means, noise)
    sigma = noise.known_sigma if deviation is None else deviation
    if sigma is None and noise.estimates_variance:  # it is not known beforehand
        sigma = 1.0
    if sigma is None:
        raise InputError(f"There is no world to plan in for the noise model '{noise.name}'.")
    return SkewedNormal(means, sigma, skewness) if skewness else GaussianArms(means, sigma)


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
    """Beta-binomial results on a scale between two limits, with these means and as nearly as possible this deviation.

    The scale has `steps` steps, or as many as the deviation needs. (..., K)
    """
    from scipy.special import betaln, gammaln

    low, high = noise.mean_range
    span = high - low
    middle = np.clip((means - low) / span, 1e-9, 1 - 1e-9)[..., None]
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


@dataclass(frozen=True, kw_only=True)
class Data:
    """The results so far, arm by arm."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum of squares about the means of rounds
    freedom: Floats | None = None  # (K)

    @property
    def deviation(self) -> float | None:
        """Of one result, if squares are known."""
        if self.scatter is None or self.freedom is None or self.freedom.sum() <= 0:
            return None
        return float(np.sqrt(self.scatter.sum() / self.freedom.sum()))


class LeadPrior(NamedTuple):
    """What a study that is designed for a lead expects: its arms in one of these patterns, g leads apart.

    g has a half-normal prior.
    """

    lead: float
    level: float | None  # about which the patterns are; None: about a mean that is not known
    patterns: Floats | None  # (P, K), as likely each; None: every arm is on either side of the level

    @classmethod
    def of(cls, question: Question, arms: int, lead: float | None) -> LeadPrior | None:
        """That of a question with this lead, if there is one."""
        patterns = question.lead_patterns(arms)
        if lead is None or (patterns is None and question.level is None):
            return None
        return cls(lead, question.level, patterns)

    def log_weights(self, estimate: Floats, variance: Floats) -> Floats:
        """log of the prior times the likelihood of each pattern and g. (P, g)"""
        weights, gaps = 1 / variance, self.lead * AHEAD
        middle = np.average(estimate, weights=weights) if self.level is None else self.level
        away = estimate - middle
        fit = -0.5 * (np.log(variance) + weights * away**2).sum()
        if self.level is None:
            fit -= 0.5 * np.log(weights.sum())
        own = -0.5 * (AHEAD / USUAL_LEAD) ** 2
        found = fit + own - np.logaddexp.reduce(own)
        if self.patterns is None:  # the mean over both signs of each arm
            both = np.logaddexp(away * weights * gaps[:, None], -away * weights * gaps[:, None]) - np.log(2.0)
            return np.asarray(found - 0.5 * weights.sum() * gaps**2 + both.sum(axis=-1))[None]
        apart = self.patterns
        if self.level is None:  # the mean follows the pattern
            apart = apart - (apart @ weights / weights.sum())[:, None]
        across, square = apart @ (weights * away), apart**2 @ weights
        found = found + across[:, None] * gaps - 0.5 * square[:, None] * gaps**2
        return np.asarray(found - np.log(len(apart)))

    def draw(self, rng: Generator, which: NDArray[np.intp], estimate: Floats, variance: Floats) -> Floats:
        """How far each arm is from the middle, for these entries of the weights. (K)->(runs, K)"""
        pattern, g = np.divmod(which, len(AHEAD))
        gaps = (self.lead * AHEAD[g])[:, None]
        if self.patterns is not None:
            return gaps * self.patterns[pattern]
        assert self.level is not None
        chance = 1 / (1 + np.exp(np.clip(-2 * gaps * (estimate - self.level) / variance, -700, 700)))
        return np.where(rng.random(chance.shape) < chance, gaps, -gaps)


def allowed_world(noise: Noise, data: Data, seed: int, prior: LeadPrior | None = None) -> Environment:
    """A world whose means are drawn anew in each run from what these data allow.

    Args:
        noise: The noise model.
        data: The results so far.
        seed: Seed of the draws, where those are made beforehand.
        prior: What the study is designed for.
    """
    if not (data.counts > 0).any():
        raise InputError("There are no results yet. Plan it as a new study, with expected means.")
    estimate, variance, of, back, unit = _estimates(noise, data)

    if prior is not None and prior.level in noise.mean_range:  # at the end of the range no arm is on either side
        prior = None
    if prior is not None:  # on the scale of the estimates
        level = None if prior.level is None else of(prior.level)
        middle = np.asarray([np.average(estimate, weights=1 / variance) if level is None else level])
        step = 1e-4 * unit
        lead = prior.lead * 2 * step / float((back(middle + step) - back(middle - step))[0])
        prior = prior._replace(lead=lead, level=level)

    def means(rng: Generator, runs: int) -> Floats:
        return back(draws(rng, runs, estimate, variance, SMALL * unit, prior))

    if noise.family is not None:
        return world_of(noise, means)
    if noise.outcome.limited:
        rows = means(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,))), WORLDS)
        return world_of(noise, rows, data.deviation)
    return world_of(noise, means, _deviation(noise, data))


def draws(
    rng: Generator, runs: int, estimate: Floats, variance: Floats, effects: float, prior: LeadPrior | None = None
) -> Floats:
    """Means from the posterior of the hierarchy, on a grid of deviations between arms. (K)->(runs, K)

    For a deviation t between arms the estimates are independent normal with variances v_i + t^2 about one mean, which
    has a flat prior, or is the level; t has a half-Cauchy prior of scale `effects`, or of what is usual for the lead.
    With a prior of a lead, this has probability 1/2, and else the arms are in one of its patterns.
    """
    level = None if prior is None else prior.level
    if prior is not None and level is not None:
        effects = USUAL_LEAD * prior.lead
    grid = effects * np.concatenate([[0.0], np.geomspace(0.02, 50.0, 80)])
    log_prior = np.log(np.gradient(grid)) - np.log1p((grid / effects) ** 2)
    spread = variance + grid[:, None] ** 2  # (grid, K)
    weights = 1 / spread
    centre = (weights * estimate).sum(axis=-1) / weights.sum(axis=-1) if level is None else np.full(grid.shape, level)
    fit = -0.5 * (np.log(spread) + (estimate - centre[:, None]) ** 2 / spread).sum(axis=-1)
    if level is None:
        fit -= 0.5 * np.log(weights.sum(axis=-1))
    log_weight = fit + log_prior - np.logaddexp.reduce(log_prior)
    if prior is not None:
        log_weight = np.concatenate([log_weight, prior.log_weights(estimate, variance).reshape(-1)])
    chances = np.exp(log_weight - log_weight.max())
    which = rng.choice(len(chances), size=runs, p=chances / chances.sum())
    lucky, own = rng.standard_normal(runs), rng.standard_normal((runs, len(estimate)))
    ahead, between = zeros(own.shape), np.where(which < len(grid), grid[np.minimum(which, len(grid) - 1)], 0.0)[:, None]
    if prior is not None:
        in_pattern = which >= len(grid)
        ahead[in_pattern] = prior.draw(rng, which[in_pattern] - len(grid), estimate, variance)
    weights, apart = 1 / (variance + between**2), estimate - ahead
    if level is None:
        middle = (weights * apart).sum(axis=-1) / weights.sum(axis=-1) + lucky / np.sqrt(weights.sum(axis=-1))
    else:
        middle = np.full(runs, level)
    pull = variance * weights  # towards the others
    mean = (1 - pull) * apart + pull * middle[:, None] + ahead
    return np.asarray(mean + np.sqrt((1 - pull) * variance) * own)


def _estimates(noise: Noise, data: Data) -> Scale:
    """Estimates on the scale of the noise model, or as they are, within their limits."""
    counts, totals = data.counts, data.totals
    own = noise.scale(counts, totals)
    if own is not None:
        return own
    sigma, (low, high) = _deviation(noise, data), noise.mean_range
    estimate = np.where(counts > 0, totals / np.maximum(counts, 1.0), totals.sum() / counts.sum())
    return Scale(estimate, sigma**2 / np.maximum(counts, 1e-3), float, lambda drawn: np.clip(drawn, low, high), sigma)


def _deviation(noise: Noise, data: Data) -> float:
    if noise.outcome.limited:
        low, high = noise.mean_range
        return data.deviation or 0.25 * (high - low)
    sigma = noise.known_sigma if noise.known_sigma is not None else data.deviation
    if sigma is None or sigma <= 0:
        raise InputError(
            "The standard deviation of the results is not known yet. Record rows, or sums with their squares."
        )
    return sigma
