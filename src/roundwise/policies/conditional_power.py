"""Conditional power: sample where claims can still be shown (docs/against-a-control.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, quiet, total, zeros
from roundwise.model.batch import FIRST_PARTS, PARTS
from roundwise.model.problem import BatchPlan, Problem, Trial
from roundwise.noise.budget_bets import ETA
from roundwise.policies.base import Policy, checked, whole
from roundwise.rules.eprocess.claim_bounds import ClaimState, claims_of, metrics_of, open_of, states_of
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.conditional_power import counted_arms, shares_of, squares_of
from roundwise.solvers import program
from roundwise.solvers.shared_arm import CheapestLimits, find_shared_arm, solve_cheapest

SMALLEST = 0.2  # without a budget a batch is at least this share of all samples so far
UNIFORM = 0.3  # share of it that is split equally among the sampled arms


@dataclass(frozen=True)
class ConditionalPower(Policy):
    """For questions of claims: sample for the claims that can still be shown, and their control with sqrt(their number)
    shares. Within a budget (`Rounds`) these are the claims with the largest total conditional power, updated after
    every batch. Without one, a batch is sized so that the claims that cost least are shown, if the estimates are right.

    Args:
        first_pulls: Pulls of each arm in the first batch, where no round size is given.
        growth: The most pulls of a batch, in multiples of the samples so far.
        eta: Of the rule: a claim is shown when the chance that the test at the budget rejects passes 1 - eta.
        reserve: Of the rule: the share of each claim's wealth withheld from a last bet, to continue beyond the budget.

    >>> from roundwise.questions import Claims
    >>> ConditionalPower().first(Problem(Claims.against_control(5, 0), arms=5), runs=()).pulls.tolist()
    [60.0, 30.0, 30.0, 30.0, 30.0]
    """

    first_pulls: float = 30.0
    growth: float = 1.0
    eta: float = ETA
    reserve: float = 0.0
    name = "conditional-power"

    def __post_init__(self) -> None:
        ClosedTestingRule(self.eta, self.reserve)
        checked(1 <= self.first_pulls <= 2**53, f"`first_pulls` is {self.first_pulls:g}, but must be at least 1.")
        checked(0 < self.growth < 1e6, f"`growth` is {self.growth:g}, but must be positive (and below 1e6).")

    @property
    def stopping(self) -> ClosedTestingRule:
        return ClosedTestingRule(self.eta, self.reserve)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        squares = squares_of(claims_of(problem).forms).sum(axis=0)
        pulls = zeros((*runs, problem.arms)) + self._first_pulls(shares_of(squares, problem.noise.shares_items))
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), parts=FIRST_PARTS)

    @quiet
    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Sample for the claims that can be shown, or, without a budget, for the cheapest."""
        every = list(zip(metrics_of(problem), states_of(trial.kept), strict=True))  # whose rows are the same
        if trial.plan.left is not None:
            share = np.maximum.reduce([self._shares(sub, state.targeted) for sub, state in every])
            left = np.minimum(trial.plan.left, 2.0**53)
            pulls = np.where(total(share)[..., None] > 0, share / total(share)[..., None] * left[..., None], 0.0)
            return BatchPlan(whole(pulls), trial.plan.may_stop)
        parts = min(1 if claims_of(sub).odds else min(sub.noise.most_parts, PARTS) for sub, _ in every)
        pulls = np.maximum.reduce([self._open_ended(*each, trial.record.samples) for each in every])
        return BatchPlan(pulls, trial.plan.may_stop, parts=parts)

    def _first_pulls(self, share: Floats) -> Floats:
        """Pulls in these proportions, `first_pulls` of the arms with the smallest. (K)->(K)"""
        least = np.where(share > 0, share, np.inf).min(axis=-1, keepdims=True)
        return np.asarray(np.ceil(self.first_pulls * share / least - 1e-9))

    def _shares(self, problem: Problem, targeted: Bools) -> Floats:
        counted = counted_arms(squares_of(claims_of(problem).forms), targeted)
        return shares_of(counted, problem.noise.shares_items)

    def _open_ended(self, problem: Problem, kept: ClaimState, samples: Floats) -> Floats:
        """The k cheapest claims, k such that most are shown for the samples: k/T_k is largest. All, with opposites.

        T_k is the least number of results that would show all k, if the estimates were true.
        """
        question = claims_of(problem)
        sides = (*kept.shown.shape[:-1], -1, question.number)
        unfinished = open_of(problem, kept)
        need = np.where(np.isfinite(kept.gains), self.stopping.bars(problem, kept) - kept.gains, np.inf)
        limits = (np.maximum(kept.value, kept.error) ** 2 / (2 * need)).reshape(sides).max(axis=-2)
        order = np.argsort(np.where(unfinished, -limits, np.inf), axis=-1, kind="stable")
        rank = np.argsort(order, axis=-1, kind="stable")
        found = _find_cheapest(problem, kept, limits, order, unfinished)
        amounts, amount = found.pulls, total(found.pulls)
        room = np.clip((1 + self.growth) / 3 * amount, min(SMALLEST, self.growth) * samples, self.growth * samples)
        alike = self._shares(problem, (rank < found.number[..., None]) & unfinished)
        share = (1 - UNIFORM) * amounts / amount[..., None] + UNIFORM * alike / total(alike)[..., None]
        everyone = self._shares(problem, unfinished)
        share = np.where(found.number[..., None] > 0, share, everyone / np.maximum(total(everyone), 1e-300)[..., None])
        nothing = samples[..., None] <= 0  # no result came of the first batch, or all were withdrawn
        return np.where(nothing, self._first_pulls(everyone), whole(share * room[..., None]))


def _find_cheapest(
    problem: Problem, kept: ClaimState, limits: Floats, order: NDArray[np.intp], open_: Bools
) -> CheapestLimits:
    """How many of the open claims, in this order, cost least for each; all of them where opposites can be shown."""
    question = claims_of(problem)
    shared = problem.noise.variance_per_arm(kept.seen, question.bets(limits.shape[:-1]))
    centre = find_shared_arm(question.forms) if shared is None else None
    if centre is not None:
        return solve_cheapest(centre, question.forms, kept.spread, limits, order, open_, question.opposites)
    variances = kept.spread[..., None, :] if shared is None else shared[..., : question.number, None]
    squares = question.forms**2 * variances
    # limits of any kind: one number of claims after the other
    arms, many = squares.shape[-1], np.asarray(open_.sum(axis=-1)).reshape(-1)
    rows = np.take_along_axis(squares, order[..., None], axis=-2).reshape(many.size, -1, arms)
    most = np.take_along_axis(limits, order, axis=-1).reshape(many.size, -1)
    best, number, pulls = np.zeros(many.size), np.zeros(many.size), np.zeros((many.size, arms))
    for k in range(1, int(many.max(initial=0)) + 1):
        here = np.flatnonzero(many == k if question.opposites else many >= k)
        amounts = _least_pulls(rows[here, :k], most[here, :k], shared is not None)
        amount = total(amounts)
        rate = np.where(np.isfinite(amount) & (amount > 0), k / amount, 0.0)
        better = rate > best[here]
        here = here[better]
        best[here], number[here], pulls[here] = rate[better], k, amounts[better]
    return CheapestLimits(number.reshape(limits.shape[:-1]), pulls.reshape(*limits.shape[:-1], arms))


def _least_pulls(squares: Floats, limits: Floats, shared: bool) -> Floats:
    """min sum n subject to sum_i squares_ji / n_i <= limits_j; an arm of none of these gets nothing. (J, K),(J)->(K)

    Where arms share items, those of a claim get as many, and the items of one claim serve the others.
    """
    if shared:
        items = total(squares) / limits
        return np.asarray(np.where(squares > 0, items[..., None], 0.0).max(axis=-2))
    found = program.solve_general(squares, limits, gap=program.ROUGH)
    used = ((squares > 0) & np.isfinite(limits)[..., None]).any(axis=-2)
    return np.where(used, np.where(np.isfinite(found.total)[..., None], found.pulls, np.inf), 0.0)
