"""The cells of designed studies: how each look pays new levels, and what a look should be to settle what is open.

The level of a null is w = delta E, with E its wealth (docs/why-the-guarantee-holds.md, Propositions 41 to 48).
Everything that shapes a payoff is fixed before the look.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, one_hot, quiet, total
from roundwise.model.batch import Batch, Parts
from roundwise.model.estimates import Estimates, Past, estimate_from
from roundwise.model.problem import Problem
from roundwise.noise.bets import columns
from roundwise.noise.payoffs import FULL, POWER, LookAim, pay, shown_drift
from roundwise.questions.best_arm import solve_star
from roundwise.rules.eprocess.cells import (
    AboveEProcess,
    AboveWealth,
    BestArmEProcess,
    BestArmWealth,
    BeyondLevelEProcess,
    BeyondLevelWealth,
    LevelEProcess,
)
from roundwise.rules.eprocess.designed_parts import Look, pay_in_parts
from roundwise.rules.eprocess.engine import EProcess, PartsView, RuleState
from roundwise.solvers.halfspaces import Halfspaces, pairs

MANY_RATES, PARTITIONS = (
    5,
    256,
)  # number of arms from which the first look of rates is partitioned, and the number of partitions
LEAST_WEIGHT = 0.02  # of a rival that is bet on
NEAREST, FURTHEST = 0.5, 2.5  # times the lead: between these the drift follows the estimates
POWER_LEFT = 1.6448536269514722  # z of the power, 95 %, with which a look should settle everything open
STEEPEST = 16.0  # sqrt of the ratio of two counts in a look, up to which they are compared
LEADS = (1e-9, 1e3)  # in standard deviations of a result: beyond, a lead is only a matter of rounding
REACH = 8.0  # standard deviations over which the law of the largest lead is integrated
_ENTRIES = 1_000_000  # of an integrand, at a time


class Settling(NamedTuple):
    """What would settle everything open with a power of 95 %, if the lead is as planned for."""

    pulls: Floats  # (K)
    alike: Floats  # (K), proportions in which a share of the look goes to all that is open


class DesignedEProcess(EProcess):
    """An e-process whose looks pay levels."""

    uniform: ClassVar[float]  # the share of a look that goes to all open arms alike
    first: ClassVar[float] = 1.0  # the first look, in parts of the budget over the number of looks
    opens: ClassVar[bool] = True  # whether it bets on batches that are no looks, too

    def fits(self, arms: int) -> bool:
        """Whether it can be kept for this many arms."""
        return True

    def partitions_first_look(self, problem: Problem) -> bool:
        """Whether a part of the first look, drawn at random, finds the leader, and the rest is bet on."""
        return False

    @abstractmethod
    def pay_look(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> Any:
        """Return the wealth after a look."""

    @abstractmethod
    def settle(self, problem: Problem, state: RuleState, lead: Floats) -> Settling:
        """Return the pulls that would settle everything."""

    def open_levels(self, problem: Problem, state: RuleState) -> Floats | None:
        """Return the levels that must all reach 1 if the estimates are right. One run.

        None where results saved on one hypothesis go to others: then the highest of their levels says more.
        """
        return None

    @abstractmethod
    def hopeless(self, problem: Problem, wealth: Any) -> list[int]:
        """List the claims, by their numbers, whose level of 0 rules out that there is ever an answer. One run."""

    @abstractmethod
    def shown_lead(self, problem: Problem, budget: Floats, variance: Floats) -> Floats:
        """Return the lead that a test at the end of the budget shows with 90 %. ()"""


@quiet
def missing(level: Floats) -> Floats:
    """How many standard errors a look lacks until its test of this level has a power of 95 %."""
    from scipy.special import ndtri

    return np.maximum(np.maximum(-ndtri(np.maximum(level, 1e-300)), -1.0) + POWER_LEFT, 0.3)


# --- the best arm


class BestArmNulls(NamedTuple):
    """The nulls "arm i is the best" before a look."""

    level: Floats  # (K)
    open: Bools  # (K)
    logs: Floats  # (K), log of the weight of each arm as the one that leads
    aim: Floats  # (K), the lead over each arm that is bet on, in units of the lead


@dataclass(frozen=True)
class DesignedBestArm(BestArmEProcess, DesignedEProcess):
    """Levels w_i of the cells Q_i = {arm i is the best}; the wealth is that of `BestArmEProcess`."""

    uniform = 0.25  # to the leader as sqrt(k) and to k other open arms as 1
    first = 1.3

    def partitions_first_look(self, problem: Problem) -> bool:
        noise = problem.noise
        return problem.arms >= MANY_RATES and noise.law is not None and not noise.shares_items

    @quiet
    def pay_look(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> BestArmWealth:
        wealth, known, sign = state.wealth, state.known, problem.question.sign
        open_ = ~wealth.rejected & (wealth.gains > -np.inf)
        level = np.where(wealth.rejected, 1.0, np.exp(np.minimum(wealth.gains - problem.goal, 0.0)))
        nulls = BestArmNulls(
            (1 - look.cash) * level,
            open_,
            leader_weights(known.past.counts, sign * known.means, look.lead, known.variance),
            lead_over(known, look.lead, sign),
        )
        if problem.noise.outcome.normal and problem.noise.arm_sigmas is None:
            paid = _pay_by_largest_lead(look, nulls, batch, sign)
        elif problem.noise.looks_in_parts and batch.parts is not None:
            paid = _pay_leads_in_parts(problem, known, look, nulls, batch.parts)
        elif self.partitions_first_look(problem) and batch.parts is not None and not known.past.history:
            paid = _pay_partitioned(problem, look, nulls, batch.parts)
        else:
            paid = _pay_by_pairs(problem, known, look, nulls, batch)
        paid = np.minimum(paid + look.cash * level, 1.0)
        gains = np.where(open_, np.log(paid) + problem.goal, wealth.gains)
        return wealth._replace(gains=gains, rejected=wealth.rejected | (open_ & (paid >= FULL)))

    def settle(self, problem: Problem, state: RuleState, lead: Floats) -> Settling:
        """min sum n subject to sigma^2 (1/n_leader + 1/n_i) <= (lead / missing_i)^2 for all who are open."""
        wealth, known, leader = state.wealth, state.known, state.alternative.leader
        leads = one_hot(leader, problem.arms)
        alive = ~wealth.rejected & ~leads & (wealth.gains > -np.inf)  # on a level of 0 results are wasted
        open_ = np.where(alive.any(axis=-1, keepdims=True), alive, ~wealth.rejected & ~leads)
        lacks = missing(np.exp(np.clip(wealth.gains - problem.goal, -700.0, 0.0)))
        costs = np.where(open_, (lead[..., None] / lacks) ** 2 / known.variance[..., None], np.inf)
        rivals = np.maximum(open_.sum(axis=-1, keepdims=True), 1)
        return Settling(solve_star(costs, leads), np.where(leads, np.sqrt(rivals), open_))

    def open_levels(self, problem: Problem, state: RuleState) -> Floats:
        rivals = ~state.wealth.rejected & ~one_hot(state.alternative.leader, problem.arms)
        return np.exp(np.minimum(state.wealth.gains[rivals] - problem.goal, 0.0))

    def hopeless(self, problem: Problem, wealth: BestArmWealth) -> list[int]:
        dead = np.flatnonzero(np.isneginf(wealth.gains) & ~wealth.rejected)
        return dead.tolist() if dead.size > 1 else []

    def shown_lead(self, problem: Problem, budget: Floats, variance: Floats) -> Floats:
        from scipy.special import ndtri

        each = np.maximum(budget, 1.0) / (2 * problem.arms)
        return np.asarray((POWER - ndtri(problem.delta)) * np.sqrt(variance / each))


@quiet
def leader_weights(counts: Floats, means: Floats, lead: Floats, variance: Floats) -> Floats:
    """log of how likely each arm is the one that leads by the lead, as the past sees it, up to a constant. (K)

    N (lead (M - mean of all) - lead^2/2) / sigma^2: the likelihood of the arm at the lead above the others.
    """
    middle = total(counts * means) / np.maximum(total(counts), 1.0)
    step = lead[..., None]
    logs = counts * (step * (means - middle[..., None]) - step**2 / 2) / variance[..., None]
    return np.where(np.isfinite(logs), logs, 0.0)


@quiet
def lead_over(known: Estimates, lead: Floats, sign: float) -> Floats:
    """The lead over each arm that is expected, in units of the lead: 1 before, then a posterior mean, clipped. (K)

    Of the best other arm, with the prior N(lead, (lead/2)^2).
    """
    counts, means = known.past.counts, sign * known.means
    arms = np.arange(counts.shape[-1])
    leader = means.argmax(axis=-1)[..., None]
    follower = np.where(arms == leader, -np.inf, means).argmax(axis=-1)[..., None]
    rival = np.where(arms == leader, follower, leader)
    error = known.variance[..., None] * (1 / counts + 1 / np.take_along_axis(counts, rival, axis=-1))
    return expected_gap(np.take_along_axis(means, rival, axis=-1) - means, error, lead[..., None])


def expected_gap(gap: Floats, variance: Floats, lead: Floats) -> Floats:
    """The posterior mean of a gap that was estimated with this variance, in units of the lead, clipped. ()"""
    precision = lead**2 / variance  # in units of the lead; that of the prior is 4
    found = (4.0 + np.where(precision > 0, gap / lead * precision, 0.0)) / (4.0 + precision)
    return np.clip(np.where(np.isfinite(found), found, 1.0), NEAREST, FURTHEST)


@quiet
def rival_weights(logs: Floats, may: Bools) -> Floats:
    """Weights that sum to 1 over the rivals of an arm, without the small ones; all 0 where there is none. (m)->(m)"""
    logs = np.where(may, logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights = np.where(may, weights / weights.sum(axis=-1, keepdims=True), 0.0)
    weights = np.where(weights >= np.minimum(LEAST_WEIGHT, weights.max(axis=-1, keepdims=True)), weights, 0.0)
    return np.where(weights > 0, weights / weights.sum(axis=-1, keepdims=True), 0.0)


@quiet
def _pay_by_largest_lead(look: Look, nulls: BestArmNulls, batch: Batch, sign: float) -> Floats:
    """Normal results of known deviation: one statistic for each null, with its exact law (Proposition 43). (K)

    T = max_j (b_j + lead D_j / v_j) over the rivals j of arm i, b_j = log weight_j - lead^2/(2 v_j).
    """
    from scipy.special import ndtri

    arms = nulls.level.shape[-1]
    counts = batch.counts.reshape(-1, arms)
    means = sign * batch.totals.reshape(-1, arms) / np.maximum(counts, 1.0)
    levels, aims, logs = (each.reshape(-1, arms) for each in (nulls.level, nulls.aim, nulls.logs))
    run, arm = np.nonzero(nulls.open.reshape(-1, arms) & (counts > 0))  # the nulls that are bet on
    own, sigma = counts[run, arm][:, None], look.sigma.reshape(-1)[run][:, None]
    step = np.clip(look.lead.reshape(-1)[run][:, None] / sigma, *LEADS)
    slopes = np.sqrt(counts[run] / own)
    near = (slopes <= STEEPEST) & (slopes >= 1 / STEEPEST)
    weights = rival_weights(logs[run], near & (np.arange(arms) != arm[:, None]))
    rivals = max(int((weights > 0).sum(axis=-1).max(initial=0)), 1)
    order = np.argsort(-weights, axis=-1, kind="stable")[:, :rivals]
    weights, slopes, other = (np.take_along_axis(each, order, axis=-1) for each in (weights, slopes, counts[run]))
    away = np.take_along_axis(means[run], order, axis=-1) - means[run, arm][:, None]
    spread = 1 / other + 1 / own  # v/sigma^2
    law = LargestLead(np.log(weights) - step**2 / (2 * spread), np.sqrt(other) * spread / step, slopes)
    found = law.tail((law.bias + step * away / sigma / spread).max(axis=-1))
    z = np.where(weights.any(axis=-1), -ndtri(np.maximum(found, 1e-300)), np.nan)
    level, left = levels[run, arm], look.looks_left.reshape(-1)[run]
    if look.said:
        aimed = law.tail((law.bias + step**2 / spread).max(axis=-1))
        drift = np.maximum(aims[run, arm] * -ndtri(np.maximum(aimed, 1e-300)), 0.1)
    else:
        drift = shown_drift(level, left)
    paid = levels.copy()
    paid[run, arm] = pay(z, level, drift, left, look.price, look.extension_value)
    return paid.reshape(nulls.level.shape)


class LargestLead(NamedTuple):
    """The law of T = max_j (b_j + lead D_j / v_j) at the border of the null: all means equal (Proposition 43)."""

    bias: Floats  # (m), b_j; -inf for a rival that is not bet on
    steps: Floats  # (m), sqrt(n_j) v_j / (lead sigma)
    slopes: Floats  # (m), sqrt(n_j / n_i)

    def tail(self, x: Floats) -> Floats:
        """P(T >= x): an integral over the error u of the arm itself, by the trapezoidal rule. ()

        1 - prod_j Phi(steps_j (x - b_j) + slopes_j u). The distance of nodes is at most a third of the width of the
        steepest factor, in classes of slopes, so that a run does not depend on the others; what lies beyond the last
        node is added.
        """
        steepest = np.where(np.isfinite(self.bias), self.slopes, 0.0).max(axis=-1)
        classes = np.ceil(np.log2(np.maximum(steepest, 1.0))).astype(np.intp)
        found = np.empty(x.shape)
        for each in np.unique(classes):
            nodes = np.linspace(-REACH, REACH, 1 + int(6 * REACH) * 2 ** int(each))
            dense = np.exp(-0.5 * nodes**2)
            dense /= dense.sum()
            at = np.flatnonzero(classes == each)
            most = max(1, _ENTRIES // nodes.size)
            for lot in (at[start : start + most] for start in range(0, at.size, most)):
                found[lot] = self._integrate(lot, x[lot], nodes, dense)
        return found

    @quiet
    def _integrate(self, lot: NDArray[np.intp], x: Floats, nodes: Floats, dense: Floats) -> Floats:
        from scipy.special import ndtr

        below = np.zeros((lot.size, nodes.size))  # log prod_j Phi
        for j in range(self.bias.shape[-1]):
            bias, steps, slopes = (each[lot, j] for each in self)
            base = np.where(np.isfinite(bias), (x - bias) * steps, np.inf)
            below += np.log1p(-ndtr(-(base[:, None] + slopes[:, None] * nodes)))
        return np.asarray((-np.expm1(below) * dense).sum(axis=-1) + 2 * ndtr(-REACH))


@quiet
def _pay_by_pairs(problem: Problem, known: Estimates, look: Look, nulls: BestArmNulls, batch: Batch) -> Floats:
    """Any noise model: the level of a null is split among its rivals, each with its own payoff (Proposition 44). (K)

    f_i = min(1, sum_j f_ij) with E f_ij <= weight_j w_i.
    """
    arms, counts = problem.arms, batch.counts
    seen = counts > 0
    may = (nulls.open & seen)[..., :, None] & seen[..., None, :] & ~np.eye(arms, dtype=np.bool_)
    weights = rival_weights(np.broadcast_to(nulls.logs[..., None, :], may.shape), may)  # (arm, rival)
    stake = (weights * nulls.level[..., :, None]).reshape(*nulls.level.shape[:-1], -1)
    arm = np.arange(arms * arms) // arms
    pieces = _leads(problem, stake.shape)
    paid = problem.noise.pay_look(known, batch, pieces, stake, look.aim_at(nulls.aim[..., arm]))
    return np.where(may.any(axis=-1), np.minimum(total(paid.reshape(weights.shape)), 1.0), nulls.level)


def _pay_partitioned(problem: Problem, look: Look, nulls: BestArmNulls, parts: Parts) -> Floats:
    """A first look of rates: in each random partition the first part tells who leads (Proposition 45). (K)"""
    many, arms, runs = min(parts.partitions, PARTITIONS), problem.arms, nulls.level.shape[:-1]

    def spread(values: Array) -> Array:
        """The same for all partitions, which come last among the runs. (...)->(M, ...)"""
        return np.broadcast_to(values[..., None, :], (*runs, many, arms))

    def cut(values: Floats) -> tuple[Floats, Floats]:
        some = np.broadcast_to(values, (*runs, parts.partitions, *values.shape[-2:]))[..., :many, :, :]
        return some[..., 0], some[..., 1:].sum(axis=-1)

    (first, counts), (won, totals) = cut(parts.counts), cut(parts.totals)
    past = Past.none((*runs, many, arms)).plus(Batch(first, won))
    known = estimate_from(past, problem.noise.variance(past), True)
    lead, sigma, left, rho = (np.broadcast_to(each[..., None], (*runs, many)) for each in look[:4])
    logs = leader_weights(first, problem.question.sign * known.means, lead, known.variance)
    every = BestArmNulls(spread(nulls.level), spread(nulls.open), logs, spread(nulls.aim))
    own = look._replace(lead=lead, sigma=sigma, looks_left=left, rho=rho)
    paid = _pay_by_pairs(problem, known, own, every, Batch(counts, totals))
    sums = paid[..., 0, :].copy()
    for m in range(1, many):  # in the same order however many runs there are
        sums += paid[..., m, :]
    return sums / many


def _leads(problem: Problem, shape: tuple[int, ...]) -> Halfspaces:
    """Forms that say: each arm is behind each other one. (K K)"""
    arm, rival = np.divmod(np.arange(problem.arms**2), problem.arms)
    high, low = (arm, rival) if problem.question.lower_is_better else (rival, arm)
    return pairs(np.broadcast_to(high, shape), np.broadcast_to(low, shape))


@quiet
def _pay_leads_in_parts(problem: Problem, known: Estimates, look: Look, nulls: BestArmNulls, parts: Parts) -> Floats:
    """Any model with bets on parts: before each, the level is split anew among the rivals (Proposition 46). (K)"""
    arms, sign = problem.arms, problem.question.sign
    lead, other = columns(look.lead[..., None], parts.partitions)[0], ~np.eye(arms, dtype=np.bool_)

    def weigh(here: slice, view: PartsView, variance: Floats) -> Floats:
        counts, means, rows = (np.moveaxis(each, 1, -1) for each in (view.data.so_far, view.means, view.data.counts))
        logs = leader_weights(counts, sign * means, np.broadcast_to(lead[here], variance.shape), variance)
        seen = rows > 0
        may = seen[..., :, None] & seen[..., None, :] & other
        weights = rival_weights(np.broadcast_to(logs[..., None, :], may.shape), may)  # (P, n, arm, rival)
        return np.moveaxis(weights, 1, -1)

    level = np.where(nulls.open, nulls.level, 0.0)
    paid = pay_in_parts(problem, known, parts, level, _leads(problem, (arms**2,)), look, nulls.aim, weigh)
    return np.where(nulls.open, np.minimum(paid, 1.0), nulls.level)


# --- levels


@dataclass(frozen=True)
class DesignedAbove(AboveEProcess, DesignedEProcess):
    """Two levels an arm, for "at most the level" and "at least the level" (Proposition 47).

    All start at 1 - (1 - delta)^(1/K), or at delta/K where arms share items; an arm is settled when one reaches 1.
    """

    tag = "above-levels"
    independent: ClassVar[bool] = False  # each side has its own bar
    uniform = 0.5
    dropping = ": {arm} is no longer asked about, and nothing else changes."
    adding: ClassVar[str | None] = None  # its level would have to come from the others

    def _bars(self, problem: Problem, wealth: AboveWealth) -> Floats:
        """log 1/w at the start; `gone` is how many arms left, whose levels nobody gets."""
        ever = (problem.arms + wealth.log_departed)[..., None]
        if problem.noise.shares_items:
            return np.broadcast_to(problem.goal + np.log(ever), wealth.above.shape)
        return np.broadcast_to(-np.log(-np.expm1(math.log1p(-problem.delta) / ever)), wealth.above.shape)

    def decided(self, problem: Problem, wealth: AboveWealth) -> Bools:
        most = np.maximum(wealth.above, wealth.below)
        return np.asarray(wealth.settled | (most >= self._bars(problem, wealth) + math.log(FULL)))

    def evidence(self, problem: Problem, wealth: AboveWealth, above: Bools) -> Floats:
        """log of the wealth for each side, less what it needs beyond 1/delta. (K)"""
        return np.where(above, wealth.above, wealth.below) + problem.goal - self._bars(problem, wealth)

    def without(self, problem: Problem, wealth: AboveWealth, arm: int) -> AboveWealth:
        above, below = np.delete(wealth.above, arm), np.delete(wealth.below, arm)
        return AboveWealth(above, below, np.delete(wealth.settled, arm), wealth.log_departed + 1.0)

    def _levels(self, problem: Problem, wealth: AboveWealth) -> Floats:
        """Of both sides of each arm. (2K)"""
        bars = self._bars(problem, wealth)
        both = np.concatenate([wealth.above - bars, wealth.below - bars], axis=-1)
        return np.exp(np.minimum(both, 0.0))

    @quiet
    def pay_look(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> AboveWealth:
        wealth, arms = state.wealth, problem.arms
        level, bars = self._levels(problem, wealth), self._bars(problem, wealth)
        open_ = ~wealth.settled & (batch.counts > 0)
        open_ = np.concatenate([open_, open_], axis=-1) & (level > 0)
        sides = np.repeat([True, False], arms)
        pieces = _on_sides(self, np.tile(np.arange(arms), 2), sides, level.shape)
        paid = _pay_sides(problem, state.known, look, batch, pieces, np.where(open_, (1 - look.cash) * level, 0.0))
        paid = np.minimum(paid + look.cash * level, 1.0)
        gains = np.where(
            open_, np.log(paid) + np.concatenate([bars, bars], axis=-1), np.concatenate(wealth[:2], axis=-1)
        )
        after = wealth._replace(above=gains[..., :arms], below=gains[..., arms:])
        return after._replace(settled=self.decided(problem, after))

    def settle(self, problem: Problem, state: RuleState, lead: Floats) -> Settling:
        wealth, level = state.wealth, self._levels(problem, state.wealth)
        most = np.maximum(level[..., : problem.arms], level[..., problem.arms :])
        open_ = ~wealth.settled
        needs = np.where(open_, missing(most) ** 2, 0.0) * (state.known.variance / lead**2)[..., None]
        return Settling(needs, open_.astype(np.float64))

    def hopeless(self, problem: Problem, wealth: AboveWealth) -> list[int]:
        dead = np.isneginf(wealth.above) & np.isneginf(wealth.below) & ~wealth.settled
        return np.flatnonzero(dead).tolist()

    def shown_lead(self, problem: Problem, budget: Floats, variance: Floats) -> Floats:
        return _shown_distance(problem, 1 - (1 - problem.delta) ** (1 / problem.arms), budget, variance)


@dataclass(frozen=True)
class DesignedBeyond(BeyondLevelEProcess, DesignedEProcess):
    """Levels of "no arm is beyond" and of each "this arm is beyond"; the wealth is that of `BeyondLevelEProcess`."""

    uniform = 0.2

    @quiet
    def pay_look(self, problem: Problem, state: RuleState, look: Look, batch: Batch) -> BeyondLevelWealth:
        wealth, known, arms, seen = state.wealth, state.known, np.arange(problem.arms), batch.counts > 0
        none, each = (np.exp(np.minimum(gains - problem.goal, 0.0)) for gains in (wealth.none, wealth.arms))
        open_ = ~wealth.arms_rejected & seen & (each > 0)
        short = _on_sides(self, arms, np.zeros(arms.shape, dtype=np.bool_), seen.shape)
        paid = _pay_sides(problem, known, look, batch, short, np.where(open_, (1 - look.cash) * each, 0.0))
        paid = np.minimum(paid + look.cash * each, 1.0)
        gains = np.where(open_, np.log(paid) + problem.goal, wealth.arms)
        stake = (1 - look.cash) * none
        weights = rival_weights(self._weights(known.past.counts, known.past.means, look.lead, known.variance), seen)
        beyond = _on_sides(self, arms, np.ones(arms.shape, dtype=np.bool_), seen.shape)
        if problem.noise.outcome.normal and problem.noise.arm_sigmas is None:
            some = _pay_by_largest_height(look, stake, weights, batch, problem.noise.standard_score(batch, beyond))
        elif problem.noise.looks_in_parts and batch.parts is not None:
            some = self._pay_in_parts(problem, known, look, batch.parts, stake)
        else:  # the level is split among the arms
            some = total(_pay_sides(problem, known, look, batch, beyond, weights * stake[..., None]))
        some = np.minimum(some + look.cash * none, 1.0)
        open_none = ~wealth.none_rejected & seen.any(axis=-1) & (none > 0)
        won = np.where(open_none, np.log(some) + problem.goal, wealth.none)
        return BeyondLevelWealth(
            won,
            wealth.none_rejected | (open_none & (some >= FULL)),
            gains,
            wealth.arms_rejected | (open_ & (paid >= FULL)),
        )

    def _weights(self, counts: Floats, means: Floats, lead: Floats, variance: Floats) -> Floats:
        """log of how likely each arm is the one beyond by the lead, not on the border, up to a constant. (K)"""
        heights, step = self._heights(means) + self.tolerance, lead[..., None]
        logs = counts * (step * heights - step**2 / 2) / variance[..., None]
        return np.where(np.isfinite(logs), logs, 0.0)

    def _pay_in_parts(self, problem: Problem, known: Estimates, look: Look, parts: Parts, level: Floats) -> Floats:
        """The level of "no arm is beyond", split anew among the arms before each part (Proposition 46). ()"""
        lead, arms = columns(look.lead[..., None], parts.partitions)[0], np.arange(problem.arms)
        forms = _on_sides(self, arms, np.ones(arms.shape, dtype=np.bool_), arms.shape)

        def weigh(here: slice, view: PartsView, variance: Floats) -> Floats:
            counts, means, now = (np.moveaxis(each, 1, -1) for each in (view.data.so_far, view.means, view.data.counts))
            logs = self._weights(counts, means, np.broadcast_to(lead[here], variance.shape), variance)
            return np.moveaxis(rival_weights(logs, now > 0), 1, -1)[:, None]

        one = level[..., None]
        return pay_in_parts(problem, known, parts, one, forms, look, np.ones(one.shape), weigh, True)[..., 0]

    @quiet
    def settle(self, problem: Problem, state: RuleState, lead: Floats) -> Settling:
        """For yes and for no, by their chances: one arm beyond by the lead, all others short by it, or none beyond."""
        wealth, known = state.wealth, state.known
        open_, unit = ~wealth.arms_rejected, (known.variance / lead**2)[..., None]
        ratio = 2 * known.past.counts * self._heights(known.past.means) * (lead / known.variance)[..., None]
        odds = np.logaddexp.reduce(ratio, axis=-1) - math.log(problem.arms)
        yes = (1 / (1 + np.exp(-np.clip(odds, -700, 700))))[..., None]
        logs = self._weights(known.past.counts, known.past.means, lead, known.variance)
        likely = rival_weights(logs, np.ones(open_.shape, dtype=np.bool_))
        none, each = (np.exp(np.minimum(gains - problem.goal, 0.0)) for gains in (wealth.none, wealth.arms))
        needs = np.where(open_, missing(each) ** 2, 0.0) * unit
        one = missing(none)[..., None] ** 2 * unit / likely.max(axis=-1, keepdims=True)
        return Settling(yes * one * likely + (1 - yes) * needs, open_.astype(np.float64))

    def hopeless(self, problem: Problem, wealth: BeyondLevelWealth) -> list[int]:
        dead = np.isneginf(wealth.arms) & ~wealth.arms_rejected
        none = bool(np.isneginf(wealth.none) and not wealth.none_rejected)
        return [0, *(1 + np.flatnonzero(dead)).tolist()] if none and dead.any() else []

    def shown_lead(self, problem: Problem, budget: Floats, variance: Floats) -> Floats:
        return _shown_distance(problem, problem.delta, budget, variance)


def _on_sides(eprocess: LevelEProcess, arms: NDArray[np.intp], beyond: Bools, shape: tuple[int, ...]) -> Halfspaces:
    """Forms that say: each arm is beyond the level, or short of it. (P)"""
    sign = np.where(beyond, 1.0, -1.0) * (-1.0 if eprocess.lower_is_better else 1.0)
    offsets = sign * eprocess.level - eprocess.tolerance
    index, factors = np.broadcast_to(arms, shape), np.broadcast_to(sign, shape)
    return Halfspaces(index[..., None], factors[..., None], np.broadcast_to(offsets, shape), False)


def _pay_sides(
    problem: Problem, known: Estimates, look: Look, batch: Batch, sides: Halfspaces, level: Floats
) -> Floats:
    """The levels of single sides after a look; each is bet on with the results of its arm alone. (P)"""
    if not problem.noise.looks_in_parts or batch.parts is None:
        return problem.noise.pay_look(known, batch, sides, level, look.aim_at(np.ones(level.shape)))

    def weigh(here: slice, view: PartsView, variance: Floats) -> Floats:
        arms = forms.arms[..., 0]
        return np.asarray(view.data.counts[:, arms] > 0, dtype=np.float64)[:, :, None]

    first = (0,) * (level.ndim - 1)
    forms = Halfspaces(sides.arms[first], sides.coefficients[first], sides.offsets[first], False)
    return pay_in_parts(problem, known, batch.parts, level, forms, look, np.ones(level.shape), weigh, True)


def _shown_distance(problem: Problem, level: float, budget: Floats, variance: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray((POWER - ndtri(level)) * np.sqrt(variance * problem.arms / np.maximum(budget, 1.0)))


@quiet
def _pay_by_largest_height(look: Look, level: Floats, weights: Floats, batch: Batch, z: Floats) -> Floats:
    """Normal results of known deviation: the level of "no arm is beyond" after a look (Proposition 48). ()

    T = max_j (b_j + r_j z_j), r_j = lead sqrt(n_j)/sigma, b_j = log weight_j - r_j^2/2; z_j are independent and N(0, 1)
    if all means are at the level.
    """
    from scipy.special import ndtr, ndtri

    roots = (look.lead / look.sigma)[..., None] * np.sqrt(batch.counts)
    used = weights > 0
    bias = np.where(used, np.log(weights) - roots**2 / 2, -np.inf)

    def score(x: Floats) -> Floats:  # with the same tail probability as T
        below = np.where(used, np.log1p(-ndtr(-(x[..., None] - bias) / roots)), 0.0)
        return -ndtri(np.maximum(-np.expm1(total(below)), 1e-300))

    found = score(np.where(used, bias + roots * z, -np.inf).max(axis=-1))
    aimed = score(np.where(used, bias + roots**2, -np.inf).max(axis=-1)) if look.said else None
    aim = LookAim(aimed, look.looks_left, look.rho, look.price, look.extension_value)
    return aim.pay(np.where(used.any(axis=-1), found, np.nan), np.ones(level.shape), level)
