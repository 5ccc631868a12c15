"""The rule of designed studies: bets on whole looks, made for a budget and the smallest lead that matters.

Levels w_i = delta E_i of the cells Q_i = {arm i is the best}; each look pays a new level whose expectation under Q_i is
at most the old one (docs/designed.md, Propositions D1 to D4). Everything that shapes the payoff is fixed
before the look: lead, budget, number of looks and weights may change from look to look, because of results, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, quiet, total, tree_where
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates
from roundwise.model.problem import BatchPlan, Problem
from roundwise.noise.payoffs import FULL, POWER, LookAim, pay
from roundwise.rules.eprocess.cells import BestArmWealth
from roundwise.rules.eprocess.engine import RuleState
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.solvers.halfspaces import pairs

TWO_ARMS, MORE_ARMS = 0.05, 0.1  # what a look is worth, as a share of an answer, if no price is said
HOPE = 0.3  # what one more look than planned is worth: an extension then gains most of what it could
LEAST_WEIGHT = 0.02  # of a rival that is bet on
NEAREST, FURTHEST = 0.5, 2.5  # times the lead: between these the drift follows the estimates
MOST_LOOKS = 20.0  # that payoffs look ahead
STEEPEST = 16.0  # sqrt of the ratio of two counts in a look, up to which they are compared
REACH = 8.0  # standard deviations over which the law of the largest lead is integrated
_ENTRIES = 1_000_000  # of an integrand, at a time


class Look(NamedTuple):
    """What is fixed before a look."""

    lead: Floats  # (), in units of the results
    sigma: Floats  # (), a guess
    looks_left: Floats  # (), after this one
    rho: Floats  # (), the share of this look in all that is to come
    level: Floats  # (K), before the look
    open: Bools  # (K)
    logs: Floats  # (K), log of the weight of each arm as the one that leads
    aim: Floats  # (K), the lead over each arm that is bet on, in units of the lead
    said: bool  # whether the lead was said, or follows from the budget


@dataclass(frozen=True)
class DesignedRule(EProcessRule):
    """Stop when all but one answer are rejected; the bets are made for a budget and a lead.

    Without a budget the bets are those of `EProcessRule`; the wealth is the same thing, so a running study may change
    from the one to the other after any round.

    Args:
        lead: The smallest lead that matters, in units of the results; None: the one that the budget can just show.
        price: What a look is worth, as a share of the value of an answer (by default 0.05 for two arms, 0.1 for more).
        hope: What one more look after the last is worth; 0 if the budget will not be extended.
    """

    lead: float | None = None
    price: float | None = None
    hope: float = HOPE
    uses_budget: ClassVar[bool] = True

    @property
    def whole_batches(self) -> bool:
        return self.lead is not None

    def __post_init__(self) -> None:
        lead, price = self.lead, self.price
        if lead is not None and not 0 < lead < math.inf:
            raise InputError(f"`lead` must be positive; got {lead:g}.")
        if price is not None and not 0 <= price < 1:
            raise InputError(f"`price` must be at least 0 and below 1; got {price:g}.")
        if not 0 <= self.hope <= 0.9:
            raise InputError(f"`hope` must be between 0 and 0.9; got {self.hope:g}.")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.question.name != "best-arm" or problem.question.tolerance:
            raise InputError(
                f"The policy 'designed' answers 'best-arm' without a tolerance, not '{problem.question.name}'. "
                "Use the policy 'wager'."
            )

    def fold(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> RuleState:
        """Pay the new levels where looks were announced; otherwise bet as `EProcessRule` does."""
        as_usual = np.ones(plan.may_stop.shape, dtype=np.bool_) if plan.left is None else plan.looks == np.inf
        if np.all(as_usual):
            return super().fold(problem, kept, plan, batch)
        paid = self._pay(problem, kept, plan, batch)
        if not np.any(as_usual):
            return paid
        usual = super().fold(problem, kept, plan, batch)
        return self._state(problem, tree_where(np.asarray(as_usual), usual.wealth, paid.wealth), paid.known.past)

    def _pay(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> RuleState:
        look = self.prepare(problem, kept, plan, batch)
        price = (TWO_ARMS if problem.arms == 2 else MORE_ARMS) if self.price is None else self.price
        if problem.noise.outcome.normal and problem.noise.arm_sigmas is None:
            level = _pay_by_largest_lead(look, batch, problem.question.sign, price, self.hope)
        else:
            level = _pay_by_pairs(problem, kept.known, look, batch, price, self.hope)
        level = np.where(look.open, level, look.level)
        wealth: BestArmWealth = kept.wealth
        with np.errstate(divide="ignore"):
            gains = np.where(look.open, np.log(level) + problem.goal, wealth.gains)
        lost = wealth.lost | (look.open & (level >= FULL))
        return self._state(problem, wealth._replace(gains=gains, lost=lost), kept.known.past.plus(batch))

    @quiet
    def prepare(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> Look:
        """Fix what shapes the payoffs of a look, from the past and the numbers of its results."""
        wealth, known = kept.wealth, kept.known
        size, past = total(batch.counts), known.past
        left = np.asarray(plan.left)
        last = np.asarray(left <= 0 if plan.last is None else plan.last)
        looks_left = np.where(last, 0.0, self.looks_left(plan, size))
        lead = lead_of(problem, self.lead, past.counts.sum(axis=-1) + size + left, known.variance)
        open_ = ~wealth.lost & (wealth.gains > -np.inf)
        level = np.where(wealth.lost, 1.0, np.exp(np.minimum(wealth.gains - problem.goal, 0.0)))
        logs = leader_weights(known, lead, problem.question.sign)
        more = np.where(last, self.hope / 3 * size, left)  # a last look is bet on as if a share of it could follow
        rho = np.where(more > 0, np.minimum(size / np.maximum(size + more, 1.0), 1.0 - 1e-9), 1.0)
        return Look(
            lead,
            np.sqrt(known.variance),
            looks_left,
            rho,
            level,
            open_,
            logs,
            lead_over(known, lead, problem.question.sign),
            self.lead is not None,
        )

    @staticmethod
    def looks_left(plan: BatchPlan, size: Floats) -> Floats:
        """How many looks were planned after this one: as the plan says, or as many as its size makes."""
        if plan.looks is not None:
            return np.clip(plan.looks, 1.0, MOST_LOOKS)
        return np.clip(np.ceil(np.asarray(plan.left) / np.maximum(size, 1.0)), 1.0, MOST_LOOKS)


@quiet
def lead_of(problem: Problem, lead: float | None, budget: Floats, variance: Floats) -> Floats:
    """The lead that is planned for: as said, or what a test at the end of the budget shows with 90 %. ()"""
    from scipy.special import ndtri

    if lead is not None:
        return np.broadcast_to(np.asarray(lead), budget.shape)
    each = np.maximum(budget, 1.0) / (2 * problem.arms)
    return np.asarray((-ndtri(problem.delta) + POWER) * np.sqrt(variance / each))


@quiet
def leader_weights(known: Estimates, lead: Floats, sign: float) -> Floats:
    """log of how likely each arm is the one that leads by the lead, as the past sees it, up to a constant. (K)

    N (lead (M - mean of all) - lead^2/2) / sigma^2: the likelihood of the arm at the lead above the others.
    """
    counts, means = known.past.counts, sign * known.means
    middle = total(counts * means) / np.maximum(total(counts), 1.0)
    step = lead[..., None]
    logs = counts * (step * (means - middle[..., None]) - step**2 / 2) / known.variance[..., None]
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
    gap = (np.take_along_axis(means, rival, axis=-1) - means) / lead[..., None]
    precision = lead[..., None] ** 2 / error  # of the gap, in units of the lead; that of the prior is 4
    found = (4.0 + np.where(precision > 0, gap * precision, 0.0)) / (4.0 + precision)
    return np.clip(np.where(np.isfinite(found), found, 1.0), NEAREST, FURTHEST)


@quiet
def rival_weights(logs: Floats, may: Bools) -> Floats:
    """Weights that sum to 1 over the rivals of an arm, without the small ones; all 0 where there is none. (m)->(m)"""
    logs = np.where(may, logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights = np.where(may, weights / weights.sum(axis=-1, keepdims=True), 0.0)
    weights = np.where(weights >= LEAST_WEIGHT, weights, 0.0)
    return np.where(weights > 0, weights / weights.sum(axis=-1, keepdims=True), 0.0)


@quiet
def _pay_by_largest_lead(look: Look, batch: Batch, sign: float, price: float, hope: float) -> Floats:
    """Normal results of known deviation: one statistic for each null, with its exact law (Proposition D3). (K)

    T = max_j (b_j + lead D_j / v_j) over the rivals j of arm i, b_j = log weight_j - lead^2/(2 v_j).
    """
    from scipy.special import ndtri

    arms = look.level.shape[-1]
    counts = batch.counts.reshape(-1, arms)
    means = sign * batch.totals.reshape(-1, arms) / np.maximum(counts, 1.0)
    levels, aims, logs = (each.reshape(-1, arms) for each in (look.level, look.aim, look.logs))
    run, arm = np.nonzero(look.open.reshape(-1, arms) & (counts > 0))  # the nulls that are bet on
    own, sigma = counts[run, arm][:, None], look.sigma.reshape(-1)[run][:, None]
    step = look.lead.reshape(-1)[run][:, None] / sigma
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
        drift = np.maximum(-ndtri(level) + POWER, 0.3) / np.sqrt(left + 1)
    paid = levels.copy()
    paid[run, arm] = pay(z, level, drift, left, price, hope)
    return paid.reshape(look.level.shape)


class LargestLead(NamedTuple):
    """The law of T = max_j (b_j + lead D_j / v_j) at the border of the null: all means equal (Proposition D3)."""

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
def _pay_by_pairs(problem: Problem, known: Estimates, look: Look, batch: Batch, price: float, hope: float) -> Floats:
    """Any noise model: the level of a null is split among its rivals, each with its own payoff (Proposition D4). (K)

    f_i = min(1, sum_j f_ij) with E f_ij <= weight_j w_i.
    """
    arms, counts = problem.arms, batch.counts
    seen = counts > 0
    may = (look.open & seen)[..., :, None] & seen[..., None, :] & ~np.eye(arms, dtype=np.bool_)
    weights = rival_weights(np.broadcast_to(look.logs[..., None, :], may.shape), may)  # (arm, rival)
    stake = (weights * look.level[..., :, None]).reshape(*look.level.shape[:-1], -1)
    arm, rival = np.divmod(np.arange(arms * arms), arms)
    high, low = (arm, rival) if problem.question.lower_is_better else (rival, arm)
    pieces = pairs(np.broadcast_to(high, stake.shape), np.broadcast_to(low, stake.shape))
    gap = (look.aim * look.lead[..., None])[..., arm] if look.said else None
    left, rho = (np.broadcast_to(each[..., None], stake.shape) for each in (look.looks_left, look.rho))
    paid = problem.noise.pay_look(known, batch, pieces, stake, LookAim(gap, left, rho, price, hope))
    return np.where(may.any(axis=-1), np.minimum(total(paid.reshape(weights.shape)), 1.0), look.level)
