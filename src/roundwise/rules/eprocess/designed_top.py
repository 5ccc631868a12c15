"""The top k in designed studies: a level for every set of k arms, against which its worst member is compared.

Q_S = {S is a top k}: no mean outside exceeds one inside. The means lie in at least one of these cells, so each level
starts at delta, and the answer is the set whose cell is left (docs/why-the-guarantee-holds.md, Proposition 49).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, quiet, total, tree_map, zeros
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates
from roundwise.model.problem import Problem
from roundwise.noise.bets import columns
from roundwise.noise.payoffs import FULL, POWER, pay, shown_drift
from roundwise.questions.base import Answer, largest_mask
from roundwise.rules.base import ClaimStatus
from roundwise.rules.eprocess.bounds import BetHistory, match_decision
from roundwise.rules.eprocess.candidates import claim_halfspaces
from roundwise.rules.eprocess.designed_cells import (
    LEADS,
    LEAST_WEIGHT,
    STEEPEST,
    DesignedEProcess,
    Settling,
    expected_gap,
    missing,
    rival_weights,
)
from roundwise.rules.eprocess.designed_parts import Look, pay_in_parts
from roundwise.rules.eprocess.engine import PartsView, RequiredPulls, RuleState
from roundwise.rules.eprocess.sets import SetsWealth, best_looking_set, claim_pairs, sets_of
from roundwise.solvers.halfspaces import pairs

MOST_SETS = 1000
_PAIRS = 2_000_000  # of a set and two arms that are worked on at a time
_REACH = 6.5  # standard deviations over which the law of the widest gap is integrated
_STEPS = 2.0  # nodes for each of the smallest deviation
_ENTRIES = 1_000_000  # of an integrand, at a time


class TopSet(NamedTuple):
    """The top k of the estimates."""

    answer: Bools  # (K)


@lru_cache(maxsize=16)
def pairs_of(arms: int, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs of each set: the arm outside, and the one inside. (C, k (K - k)) each"""
    sets = sets_of(arms, k).inside
    out, in_ = (np.nonzero(each)[1].reshape(len(sets), -1) for each in (~sets, sets))
    return np.repeat(out, k, axis=1), np.tile(in_, (1, arms - k))


@dataclass(frozen=True)
class DesignedTopK(DesignedEProcess):
    """Levels of all sets; a batch that was not announced as a look of a design wins nothing."""

    k: int
    shifts = True
    tag = "top-k-levels"
    uniform = 0.05
    first = 1.6
    opens: ClassVar[bool] = False

    def fits(self, arms: int) -> bool:
        return math.comb(arms, self.k) <= MOST_SETS

    def start(self, problem: Problem, runs: tuple[int, ...]) -> SetsWealth:
        nothing = zeros((*runs, math.comb(problem.arms, self.k)))
        return SetsWealth(nothing, nothing > 0)

    def choose(self, problem: Problem, wealth: SetsWealth, known: Estimates) -> TopSet:
        return TopSet(np.asarray(problem.question.answer(known.means)))

    def confidence(self, problem: Problem, state: RuleState) -> Floats:
        return np.zeros(state.known.past.counts.shape[:-1])

    def update(self, problem: Problem, state: RuleState, parts: Parts, shifts: bool) -> SetsWealth:
        return SetsWealth(*state.wealth)

    def stops(self, problem: Problem, wealth: SetsWealth) -> Bools:
        return np.asarray(wealth.rejected.sum(axis=-1) >= wealth.rejected.shape[-1] - 1)

    def answer(self, problem: Problem, state: RuleState) -> Answer:
        return best_looking_set(problem, self.k, state)

    def false_rejection(self, problem: Problem, wealth: SetsWealth, means: Floats) -> Bools:
        merits, sets = problem.question.merits(np.asarray(means)), sets_of(problem.arms, self.k).inside
        right = np.where(sets, merits, np.inf).min(axis=-1) >= np.where(sets, -np.inf, merits).max(axis=-1)
        return np.asarray((wealth.rejected & right).any(axis=-1))

    def required_pulls(self, problem: Problem, state: RuleState) -> RequiredPulls:
        lead = self.shown_lead(problem, total(state.known.past.counts), state.known.variance)
        pulls, alike = self.settle(problem, state, lead)
        return RequiredPulls(pulls, alike > 0)

    def claims(self, problem: Problem, state: RuleState, names: Sequence[str]) -> list[ClaimStatus]:
        return claim_halfspaces(problem, names, *claim_pairs(problem, self.k, state))

    def all_rejected(self, problem: Problem, wealth: SetsWealth) -> bool:
        return bool(wealth.rejected.all())

    def margins(self, bets: BetHistory) -> Floats:
        """Of each pair of the answer, from bets on all pairs: which they are is paid for."""
        arms = bets.problem.arms
        answer, _, shown = claim_pairs(bets.problem, self.k, bets.end)
        pieces = bets.problem.question.halfspaces(answer, arms)
        return match_decision(bets.bound(pieces, bets.problem.goal + math.log(arms * (arms - 1))), 0.0, shown)

    def pay_look(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> SetsWealth:
        runs, sets = state.wealth.gains.shape[:-1], state.wealth.gains.shape[-1]
        most = max(1, _PAIRS // (sets * max(self.k * (problem.arms - self.k), problem.arms)))
        in_parts = problem.noise.looks_in_parts and batch.parts is not None
        if len(runs) != 1 or runs[0] <= most or in_parts:
            return self._pay_some(problem, state, look, batch)
        batch = batch._replace(parts=None, table=None)
        found = []
        for start in range(0, runs[0], most):
            lot = slice(start, start + most)
            own, seen = tree_map(lambda each, lot=lot: each[lot], (state, batch))
            here = look._replace(
                lead=look.lead[lot], sigma=look.sigma[lot], looks_left=look.looks_left[lot], rho=look.rho[lot]
            )
            found.append(self._pay_some(problem, own, here, seen))
        return SetsWealth(*(np.concatenate(each) for each in zip(*found, strict=True)))

    @quiet
    def _pay_some(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> SetsWealth:
        wealth, known = state.wealth, state.known
        open_ = ~wealth.rejected & (wealth.gains > -np.inf)
        level = np.where(wealth.rejected, 1.0, np.exp(np.minimum(wealth.gains - problem.goal, 0.0)))
        scale = (look.lead / known.variance)[..., None]
        scores = arm_scores(known.past.counts, problem.question.merits(known.means), scale, state.alternative.answer)
        times = self._expected_gaps(problem, known, look.lead, scores)
        stake = np.where(open_, (1 - look.cash) * level, 0.0)
        if problem.noise.outcome.normal and problem.noise.arm_sigmas is None:
            paid = self._pay_by_widest_gap(problem, look, batch, scores, times, stake)
        elif problem.noise.looks_in_parts and batch.parts is not None:
            paid = self._pay_in_parts(problem, known, look, batch.parts, times, stake)
        else:
            paid = self._pay_by_pairs(problem, known, look, batch, scores, times, stake)
        paid = np.minimum(paid + look.cash * level, 1.0)
        gains = np.where(open_, np.log(paid) + problem.goal, wealth.gains)
        return SetsWealth(gains, wealth.rejected | (open_ & (paid >= FULL)))

    def settle(self, problem: Problem, state: RuleState, lead: Floats) -> Settling:
        """For each arm the most that a set needs that has it on the other side, and differs from the top k by a pair.

        sigma^2 (1/n_in + 1/n_out) <= (lead / missing)^2 with n_in = n_out sqrt(outside/inside).
        """
        wealth, answer, sets = state.wealth, state.alternative.answer, sets_of(problem.arms, self.k).inside
        alive = ~wealth.rejected & (wealth.gains > -np.inf)
        near = (answer.astype(np.float64) @ sets.T == self.k - 1) & alive
        near = np.where(near.any(axis=-1, keepdims=True), near, alive)
        lacks = np.where(near, missing(np.exp(np.clip(wealth.gains - problem.goal, -700.0, 0.0))) ** 2, 0.0)
        most = np.stack(  # (K)
            [np.where(sets[:, i] != answer[..., i, None], lacks, 0.0).max(axis=-1) for i in range(problem.arms)],
            axis=-1,
        )
        ratio = math.sqrt((problem.arms - self.k) / self.k)
        each = most * (state.known.variance / lead**2)[..., None] * (1 + 1 / ratio)
        return Settling(np.where(answer, ratio * each, each), (most > 0).astype(np.float64))

    def hopeless(self, problem: Problem, wealth: SetsWealth) -> list[int]:
        dead = np.isneginf(wealth.gains) & ~wealth.rejected
        return list(range(self.k * (problem.arms - self.k))) if dead.sum() > 1 else []

    def shown_lead(self, problem: Problem, budget: Floats, variance: Floats) -> Floats:
        from scipy.special import ndtri

        each = np.maximum(budget, 1.0) / (2 * problem.arms)
        return np.asarray((POWER - ndtri(problem.delta)) * np.sqrt(variance / each))

    def _expected_gaps(self, problem: Problem, known: Estimates, lead: Floats, scores: Floats) -> Floats:
        """By how many leads the likeliest pair of each set is expected to be the wrong way round. (C)"""
        sets, merits = sets_of(problem.arms, self.k).inside, problem.question.merits(known.means)
        best = np.where(sets, -np.inf, scores[..., None, :]).argmax(axis=-1)
        worst = np.where(sets, scores[..., None, :], np.inf).argmin(axis=-1)
        (best_mean, worst_mean), (n_best, n_worst) = (
            [np.take_along_axis(values, each, axis=-1) for each in (best, worst)]
            for values in (merits, known.past.counts)
        )
        variance = known.variance[..., None] * (1.0 / n_best + 1.0 / n_worst)
        return expected_gap(best_mean - worst_mean, variance, lead[..., None])

    def _pay_by_pairs(
        self,
        problem: Problem,
        known: Estimates,
        look: Look,
        batch: Batch,
        scores: Floats,
        times: Floats,
        level: Floats,
    ) -> Floats:
        """Any noise model: the level of a set is split among its pairs of arms across the cut (Proposition 44). (C)"""
        runs, seen = level.shape[:-1], batch.counts > 0
        out, in_ = pairs_of(problem.arms, self.k)
        may = seen[..., out] & seen[..., in_] & (level > 0)[..., None]
        weights = rival_weights(scores[..., out] - scores[..., in_], may)
        stake = (weights * level[..., None]).reshape(*runs, -1)
        high, low = (in_, out) if problem.question.lower_is_better else (out, in_)
        pieces = pairs(np.broadcast_to(high.reshape(-1), stake.shape), np.broadcast_to(low.reshape(-1), stake.shape))
        aim = look.aim_at(np.repeat(times, out.shape[1], axis=-1))
        paid = problem.noise.pay_look(known, batch, pieces, stake, aim).reshape(weights.shape)
        return np.where(may.any(axis=-1), np.minimum(total(paid), 1.0), level)

    def _pay_in_parts(
        self, problem: Problem, known: Estimates, look: Look, parts: Parts, times: Floats, level: Floats
    ) -> Floats:
        """Any model with bets on parts: before each, levels are split anew among the pairs (Proposition 46). (C)"""
        question, (out, in_) = problem.question, pairs_of(problem.arms, self.k)
        lead = columns(look.lead[..., None], parts.partitions)[0]
        high, low = (in_, out) if question.lower_is_better else (out, in_)
        forms = pairs(high.reshape(-1), low.reshape(-1))

        def weigh(here: slice, view: PartsView, variance: Floats) -> Floats:
            counts, means, rows = (np.moveaxis(a, 1, -1) for a in (view.data.so_far, view.means, view.data.counts))
            merits = question.merits(means)
            top = largest_mask(merits, self.k)
            scores = arm_scores(counts, merits, (lead[here] / variance)[..., None], top)
            seen = (rows > 0) & (counts > 0)
            weights = rival_weights(scores[..., out] - scores[..., in_], seen[..., out] & seen[..., in_])
            return np.moveaxis(weights, 1, -1)  # (P, C, pairs, n)

        paid = pay_in_parts(problem, known, parts, level, forms, look, times, weigh)
        return np.where(level > 0, np.minimum(paid, 1.0), level)

    def _pay_by_widest_gap(
        self, problem: Problem, look: Look, batch: Batch, scores: Floats, times: Floats, level: Floats
    ) -> Floats:
        """Normal results of known deviation: one statistic for each set, with its exact law (Proposition 49). (C)"""
        from scipy.special import ndtri

        arms, sets, flat = problem.arms, sets_of(problem.arms, self.k).inside, level.reshape(-1, level.shape[-1])
        counts = batch.counts.reshape(-1, arms)
        means = problem.question.merits(batch.totals.reshape(-1, arms) / np.maximum(counts, 1.0))
        past, sigma, times = scores.reshape(-1, arms), look.sigma.reshape(-1, 1), times.reshape(flat.shape)
        step = np.clip(look.lead.reshape(-1, 1) / sigma, *LEADS)
        seen = (counts > 0) & (counts * STEEPEST**2 >= counts.max(axis=-1, keepdims=True))
        inverse = np.where(seen, 1.0 / counts, 0.0)
        number = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
        slope = step * number / (2.0 * total(inverse)[:, None])  # lead/v in standard deviations
        moved = past + slope * np.where(seen, means - means[:, :1], 0.0) / sigma
        error = slope * np.sqrt(np.where(seen, inverse, 1.0))
        run, which = np.nonzero(flat > 0)
        inside, may = sets[which], seen[run]
        law = WidestGap.of(past[run], error[run], inside & may, ~inside & may)
        found, aimed = law.tail(law.gap(moved[run]), law.gap(past[run]) + (slope * step)[run, 0])
        z = np.where(law.possible, -ndtri(np.maximum(found, 1e-300)), np.nan)
        stake, left = flat[run, which], look.looks_left.reshape(-1)[run]
        if look.said:
            drift = np.maximum(times[run, which] * -ndtri(np.maximum(aimed, 1e-300)), 0.1)
        else:
            drift = shown_drift(stake, left)
        paid = flat.copy()
        paid[run, which] = pay(z, stake, drift, left, look.price, look.extension_value)
        return paid.reshape(level.shape)


@quiet
def arm_scores(counts: Floats, merits: Floats, scale: Floats, top: Bools) -> Floats:
    """log of how much likelier each arm is at the upper than at the lower of two means, a lead apart. (K)

    N lead (M - c) / sigma^2, c between the means of the top k and of the rest; 0 before there are results. `scale` is
    lead / sigma^2.
    """
    groups = [total(np.where(each, merits, 0.0)) / each.sum(axis=-1) for each in (top, ~top)]
    logs = counts * scale * (merits - ((groups[0] + groups[1]) / 2)[..., None])
    return np.where(np.isfinite(logs), logs, 0.0)


class WidestGap(NamedTuple):
    """The law of T = max_a Y_a - min_b Y_b over arms a outside and b inside a set, Y_i ~ N(past_i, error_i^2)."""

    outside: Floats  # (o), past_a; -inf where there is none
    error_outside: Floats  # (o)
    inside: Floats  # (i), past_b; inf where there is none
    error_inside: Floats  # (i)
    used: tuple[Bools, Bools]  # (K), arms outside and inside

    @classmethod
    def of(cls, past: Floats, error: Floats, inside: Bools, outside: Bools) -> WidestGap:
        """Of arms that may be compared; the unlikely ones are left out, as far as the past knows. (K)"""
        room = np.minimum(-math.log(LEAST_WEIGHT), 13.0 * error.max(axis=-1, keepdims=True))
        outside = outside & (past >= np.where(outside, past, -np.inf).max(axis=-1, keepdims=True) - room)
        inside = inside & (past <= np.where(inside, past, np.inf).min(axis=-1, keepdims=True) + room)

        def compact(used: Bools, none: float) -> tuple[Floats, Floats]:
            order = np.argsort(~used, axis=-1, kind="stable")[:, : max(int(used.sum(axis=-1).max(initial=0)), 1)]
            there, centre, spread = (np.take_along_axis(each, order, axis=-1) for each in (used, past, error))
            return np.where(there, centre, none), np.where(there, spread, 1.0)

        return cls(*compact(outside, -np.inf), *compact(inside, np.inf), (outside, inside))

    @property
    def possible(self) -> Bools:
        """Whether there is an arm on either side. ()"""
        return np.asarray(self.used[0].any(axis=-1) & self.used[1].any(axis=-1))

    def gap(self, values: Floats) -> Floats:
        """max - min of these values. (K)->()"""
        outside, inside = self.used
        return np.where(outside, values, -np.inf).max(axis=-1) - np.where(inside, values, np.inf).min(axis=-1)

    @quiet
    def tail(self, *values: Floats) -> list[Floats]:
        """P(T >= x) for each x among the values: integrals over max_a Y_a by the trapezoidal rule. ()

        The number of nodes follows from the range and the smallest deviation, so that a run does not depend on the
        others; what lies beyond the last node is added.
        """
        from scipy.special import ndtr

        reach = _REACH * self.error_outside
        low, high = (self.outside - reach).max(axis=-1), (self.outside + reach).max(axis=-1)
        least = np.minimum(
            np.where(np.isfinite(self.outside), self.error_outside, np.inf).min(axis=-1),
            np.where(np.isfinite(self.inside), self.error_inside, np.inf).min(axis=-1),
        )
        wanted = np.where(self.possible, (high - low) * _STEPS / least, 1.0)
        sizes = 16 * np.clip(np.ceil(wanted / 16), 2, 256).astype(np.intp)
        found = [np.ones(x.shape) for x in values]
        for size in np.unique(sizes):
            at, most = np.flatnonzero((sizes == size) & self.possible), max(1, _ENTRIES // int(size))
            for lot in (at[start : start + most] for start in range(0, at.size, most)):
                y = np.linspace(low[lot], high[lot], size + 1, axis=-1)
                dense = self._density(lot, y) * (y[:, 1] - y[:, 0])[:, None]
                for x, each in zip(values, found, strict=True):
                    each[lot] = (dense * self._reached(lot, y - x[lot, None])).sum(axis=-1)
        beyond = 2 * self.outside.shape[-1] * ndtr(-_REACH)
        return [np.minimum(each + beyond, 1.0) for each in found]

    def _density(self, lot: NDArray[np.intp], y: Floats) -> Floats:
        """The density of max_a Y_a."""
        from scipy.special import ndtr

        below, hazard = np.ones(y.shape), np.zeros(y.shape)
        for j in range(self.outside.shape[-1]):
            error = self.error_outside[lot, j, None]
            z = (y - self.outside[lot, j, None]) / error
            chance = np.maximum(ndtr(z), 1e-300)
            below *= chance
            hazard += np.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * error * chance)
        return below * hazard

    def _reached(self, lot: NDArray[np.intp], y: Floats) -> Floats:
        """P(min_b Y_b <= y)."""
        from scipy.special import ndtr

        above = np.zeros(y.shape)
        for j in range(self.inside.shape[-1]):
            above += np.log1p(-ndtr((y - self.inside[lot, j, None]) / self.error_inside[lot, j, None]))
        return -np.expm1(above)
