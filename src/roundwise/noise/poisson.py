"""Counts of events: likelihood ratios of Poisson laws (Proposition 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from roundwise.arrays import Floats, quiet, sum_rows, total, zeros
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, all_arms, arm_of
from roundwise.noise.base import AssumedShape, FixedSizeBet, Noise, Outcome, RowCheck, Scale
from roundwise.noise.bets import (
    EDGE,
    MOST,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    arm_sums,
    bet_where_needed,
    choose_factor,
    flatten,
    product_factor,
    single_arms,
    take_arm,
    where_sized,
)
from roundwise.noise.budget_bets import binomial_budget_bet, binomial_law, poisson_law
from roundwise.noise.lattice import pay_on_lattice
from roundwise.noise.payoffs import LookAim
from roundwise.solvers.halfspaces import Family, Halfspaces, PoissonFamily, check_countable


@dataclass(frozen=True)
class Poisson(Noise):
    """Counts of events: Poisson with one rate for each arm, per pull."""

    looks_in_parts: ClassVar[bool] = False
    name: ClassVar[str] = "poisson"
    shape: ClassVar[AssumedShape] = "poisson"
    merges_arms: ClassVar[bool] = True
    outcome: ClassVar[Outcome] = Outcome(
        0.0, whole=True, wrong="is not a number of events: it must be a whole number of at least 0."
    )
    words: ClassVar[str] = "Results are Poisson counts."
    flags: ClassVar[tuple[str, ...]] = ("--counts",)
    law: ClassVar[Literal["binary", "poisson"] | None] = "poisson"
    family: ClassVar[Family] = PoissonFamily()
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("dispersion",)

    def variance(self, past: Past) -> Floats:
        """The smoothed rate, averaged over all pulls."""
        return (total(past.totals) + 0.5) / (total(past.counts) + 0.5)

    def variances(self, past: Past) -> Floats:
        return (past.totals + 0.5) / (past.counts + 1.0)

    def scale(self, counts: Floats, totals: Floats) -> Scale:
        """Logarithms."""
        return Scale(np.log((totals + 0.5) / (counts + 0.5)), 1 / (totals + 0.5), math.log, np.exp, 1.0)

    def draw_part_totals(self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int) -> Floats:
        """Draw how many events fall in each part, in proportion to its exposure: multinomial."""
        shape = (counts.shape[1], partitions, *counts.shape[3:])
        events, left = np.broadcast_to(check_countable(totals), shape).astype(np.int64), sum_rows(counts)
        found = np.empty((counts.shape[0], *shape))
        for part, time in enumerate(counts):
            drawn = rng.binomial(events, np.clip(time / np.maximum(left, 1e-300), 0.0, 1.0))
            found[part] = drawn
            events, left = events - drawn, left - time
        return found

    def part_bets(self, data: PartsData) -> PartBets:
        return _PoissonPartBets(data)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        factors, squares = pieces.coefficients, pieces.coefficients**2
        totals, counts, unit, events, exposure = (
            all_arms(each, pieces) for each in (past.totals, past.counts, units, batch.totals, batch.counts)
        )
        noise = np.where(squares > 0, squares * (totals + 0.5) / counts, 0.0)  # half an event added
        spread, new = (total(np.where(squares > 0, noise / each, 0.0)) for each in (unit, exposure))
        sizes = drifts * np.sqrt(spread) / new
        return lambda offsets: fixed_size_poisson_bet(sizes, factors, events, exposure, offsets)

    @quiet
    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Exact for the ratio of two rates, given the events of both (14c); one drift for other forms (15).

        The ratio of the first rate to the second exceeds a margin where the factors are 1 and minus the margin.
        """
        factors = pieces.coefficients
        rates = (np.asarray((factors != 0).sum(axis=-1)) == 2) & (factors[..., 0] > 0) & (pieces.offsets == 0)
        rates = rates & (factors[..., 1:2] < 0).any(axis=-1)
        logs = zeros(need.shape)
        if rates.any():
            events, time = ([arm_of(each, pieces, s) for s in (0, 1)] for each in (batch.totals, batch.counts))
            margin = np.where(rates, -factors[..., min(1, factors.shape[-1] - 1)] / factors[..., 0], 1.0)
            odds = np.log(margin * time[0] / time[1])
            bet, needed = partial(binomial_budget_bet, eta=eta), np.where(rates, need, 0.0)
            logs = bet_where_needed(bet, needed, events[0], events[0] + events[1], odds, need, rho)
        wanted = ~rates & (need > 0)
        if wanted.any():
            past, shape = known.past, (*need.shape, pieces.arms.shape[-1])
            totals, counts, events_all, exposure = (
                np.broadcast_to(all_arms(each, pieces), shape)[wanted]
                for each in (past.totals, past.counts, batch.totals, batch.counts)
            )
            share = np.broadcast_to(factors, shape)[wanted]
            noise = total(np.where(share != 0, share**2 * (totals + 0.5) / (counts + 1.0) / exposure, 0.0))
            sizes = np.sqrt(2 * need[wanted] * np.broadcast_to(rho, need.shape)[wanted] / noise)
            offsets = np.broadcast_to(pieces.offsets, need.shape)[wanted]
            logs[wanted] = fixed_size_poisson_bet(sizes, share, events_all, exposure, offsets)
        return logs

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """By the exact law of one rate, and of two given the events of both (14c)."""
        single, arm, factor = single_arms(pieces)
        rate = pieces.offsets / np.where(single, factor, 1.0)
        if (single & (rate > 0)).all():
            exposure, above = take_arm(batch.counts, arm), np.broadcast_to(factor > 0, level.shape)
            drift = aim.drift(np.sqrt(rate / exposure), level)
            shape, (won, mean, level, drift, looks, up) = flatten(
                take_arm(batch.totals, arm), rate * exposure, level, drift, aim.looks_left, above
            )
            law = poisson_law(won, mean, up > 0)
            return pay_on_lattice(law, level, drift, looks, aim.price, aim.extension_value).reshape(shape)
        if not pieces.pairs or pieces.offsets.any():
            return super().pay_look(known, batch, pieces, level, aim)
        events, time = ([arm_of(each, pieces, s) for s in (0, 1)] for each in (batch.totals, batch.counts))
        both = events[0] + events[1]
        drift = aim.drift(np.sqrt(both / (time[0] + time[1]) * (1.0 / time[0] + 1.0 / time[1])), level)
        shape, (won, n, odds, level, drift, looks) = flatten(
            events[0], both, np.log(time[0] / time[1]), level, drift, aim.looks_left
        )
        return pay_on_lattice(binomial_law(won, n, odds), level, drift, looks, aim.price, aim.extension_value).reshape(
            shape
        )


@np.errstate(all="ignore")
def fixed_size_poisson_bet(sizes: Floats, factors: Floats, events: Floats, exposure: Floats, offset: Floats) -> Floats:
    """prod_s (1 + t f_s/n_s)^X_s exp(-t offset), arms on the last axis. `(k),(S),(S),(S),()->(k)`"""
    share = np.where(factors != 0, factors / exposure, 0.0)
    most = EDGE / np.maximum(-share, 0.0).max(axis=-1)

    def logs(t: Floats) -> Floats:
        t = np.minimum(t, most)
        found = np.asarray(-t * offset)
        for s in range(share.shape[-1]):
            found = found + events[..., s] * np.log1p(t * share[..., s])
        return found

    return where_sized(sizes, logs)


@dataclass(frozen=True)
class _PoissonPartBets(PartBets):
    """Likelihood ratios of Poisson laws: of two rates (Proposition 8a), of one and a level (8b)."""

    data: PartsData

    @cached_property
    def variances(self) -> Floats:
        return (self.data.totals_so_far + 0.5) / (self.data.so_far + 1.0)

    def level_variances(self, level: float) -> Floats:
        return np.full((1, 1, 1), level) if level > 0 else self.variances

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(form.pair, lambda: self._pair(form, leverage), lambda: self._any(form))

    def _pair(self, form: PartForm, leverage: Floats) -> LogFactor:
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (arm_sums(self.data, each) for each in form.places[:2])
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m = down * (past_a / N_a) + up * (past_b / N_b) + 0.5 / (N_a + N_b)  # half an event in all added
        less = n_a * up * form.offsets
        return product_factor(np.sqrt(leverage / m), EDGE / down, ((won_a, up), (won_b, -down)), less)

    def _any(self, form: PartForm) -> LogFactor:
        assert form.factors is not None
        terms: list[tuple[Floats, Floats | float]] = []
        noise, furthest = np.zeros(form.offsets.shape), np.full(form.offsets.shape, np.inf)
        for f, place in zip(form.factors, form.places, strict=True):
            won, n, past, N = arm_sums(self.data, place)
            share = np.where(f != 0, f / n, 0.0)
            noise = noise + np.where(f != 0, f * share * (past + 0.5) / N, 0.0)
            furthest = np.minimum(furthest, np.where(f < 0, EDGE / np.maximum(-share, 1e-300), np.inf))
            terms.append((won, share))
        return product_factor(1.0 / np.sqrt(noise), np.minimum(furthest, MOST), tuple(terms), form.offsets)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        won, n, past, N = arm_sums(self.data, arm)
        rate = level if level > 0 else (past + 0.5) / N
        furthest = np.where(sign > 0, np.inf, EDGE)
        return product_factor(np.sqrt(leverage / rate), furthest, ((won, sign),), n * level * sign)
