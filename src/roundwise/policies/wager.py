"""Wager: our own policy. Sample where the bets of its stopping rule need it (docs/wager.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet, total
from roundwise.model.batch import FIRST_PARTS, LIVE_PARTS, PARTS
from roundwise.model.estimates import CROWD, Estimates, Past, signal_share
from roundwise.model.problem import BatchPlan, Problem, Trial
from roundwise.policies.base import Policy, apportion_pulls, check_room, checked, oriented, whole
from roundwise.rules.eprocess.rule import EProcessRule

UNIFORM = 0.3  # alpha: share of a batch that goes to all unfinished arms alike
FLOOR = 0.05  # eps: share of all samples that every arm gets part of, also one that has lost; less of many arms
REFILL = 2.0  # an arm below its floor is refilled to this multiple of it: an arm that lost by mistake recovers sooner
PRICE, OF_ALL = 120.0, 0.2  # without a price a batch is worth PRICE sqrt(K) samples, or this share of all so far
WIDTH = 3.0  # a batch is at most WIDTH sqrt(price / N) times the N samples so far
NARROWEST = 0.25  # but so much of them is always allowed
UNSURE = 2.0  # beta: a batch is at least this share of all samples so far, times the chance that the leader is wrong
CROWDED = 0.4  # the same while many arms are near the top, times the doubt and sqrt(K), K at most CROWD
TIED = 0.15  # that share grows by up to this where a tolerance decides
WIDEST = 6.0  # a batch is at most this times the samples so far, if no growth is set
CONTENDERS, WIDER = 25.0, 4.0  # more contenders than this, of more than CROWD arms, widen that by up to WIDER
TWO = 8.0  # two arms: a batch may have this many times the samples so far, times the chance that the leader is wrong
SHARED = 2 / 3  # of the first batch, where arms share items
SMALLEST = 0.1  # xmin: a batch is at least this share of all samples so far
LIKELY = 1.5  # the last planned batch is this times what settles everything if leads are one standard error smaller
LEAST_LEAD = 0.5  # than estimated, but at least this many standard errors
CAUTIOUS, BOLD = 20.0, 250.0  # of the price over K: bets are less bold below, and on the first batch bolder from here


@dataclass(frozen=True)
class Wager(Policy):
    """Batches sized so that the open bets of its stopping rule are won, if the estimates are right.

    Args:
        stopping: The betting rule.
        first_pulls: The least pulls of each arm in the first batch; more at a high price.
        growth: The most pulls of a batch, in multiples of the samples so far (by default 6, and up to 24 where more
            than 100 arms crowd near the top).
        batch_price: What a batch is worth to you, in samples. The first batch, the size of all others and how bold the
            bets are follow from it; nothing else needs tuning.
        max_batch: The most pulls of a batch.
        min_per_arm: The least pulls of an arm that is pulled at all.
        looks: How many batches it is planned for, at least 2: the last one is sized so that the answer is likely to
            come, as far as the others tell, or spends the budget, if there is one. Further ones follow if it does not.

    >>> from roundwise.questions import BestArm
    >>> Wager().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(300.0)
    """

    stopping: EProcessRule = field(default_factory=EProcessRule)
    first_pulls: float = 30.0
    growth: float | None = None
    batch_price: float | None = None
    max_batch: float | None = None
    min_per_arm: float = 0.0
    looks: int | None = None
    name = "wager"
    live_parts: ClassVar[int] = LIVE_PARTS

    def __post_init__(self) -> None:
        checked(1 <= self.first_pulls <= 2**53, f"`first_pulls` is {self.first_pulls:g}, but must be at least 1.")
        growth, price = self.growth, self.batch_price
        checked(growth is None or 0 < growth < 1e6, f"`growth` is {growth}, but must be positive (and below 1e6).")
        positive = f"`batch_price` is {price}, but must be a positive number of samples."
        checked(price is None or 0 < price <= 2**53, positive)
        looks = f"`looks` is {self.looks}, but must be a whole number of at least 2. One batch needs a budget."
        checked(self.looks is None or (self.looks >= 2 and float(self.looks).is_integer()), looks)

    def with_limits(self, max_batch: float | None, min_per_arm: float) -> Wager:
        most = self.max_batch if max_batch is None else max_batch
        return replace(self, max_batch=most, min_per_arm=min_per_arm or self.min_per_arm)

    def with_design(self, budget: float | None, lead: float | None, looks: int | None) -> Wager:
        super().with_design(budget, lead, None)
        return self if looks is None else replace(self, looks=looks)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        check_room(problem, self.max_batch, self.min_per_arm)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        each = (self.batch_price or 0.0) / problem.arms
        if (enough := self.stopping.eprocess(problem).sufficient_pulls(problem)) is not None:
            each = min(each, enough + 1.0)
        each = max(self.first_pulls, each)
        needed = problem.noise.rows_before_bets(Past.none((problem.arms,)))
        if needed is not None:
            each = max(each, float(needed.max()))
        if problem.noise.shares_items:  # differences on shared items tell more
            each *= SHARED
        if self.max_batch is not None:
            each = min(math.ceil(each), self.max_batch // problem.arms)
        alike = np.ceil(each * _alike(problem)) if problem.prices else np.full(problem.arms, math.ceil(each))
        pulls = apportion_pulls(np.broadcast_to(alike, (*runs, problem.arms)) + 0.0, None, self.min_per_arm)
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), parts=FIRST_PARTS, jump=self._jump(problem))

    @quiet
    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Most of the batch in the proportions that settle what is open, the rest alike, and a floor for everyone."""
        kept, counts, eprocess = trial.kept, trial.record.counts, self.stopping.eprocess(problem)
        wanted = eprocess.required_pulls(problem, kept)
        samples, prices = np.maximum(trial.record.samples, 1.0), _scaled_prices(problem)
        if problem.prices:  # money in place of samples
            samples = np.maximum(total(prices * counts), 1.0)
        lacking = np.zeros_like(samples)
        if (needed := problem.noise.rows_before_bets(kept.known.past)) is not None:  # before which bets are not placed
            each = np.where(wanted.unfinished & np.isfinite(needed), np.maximum(needed - counts, 0.0), 0.0)
            wanted = wanted._replace(pulls=np.maximum(wanted.pulls, each))
            lacking = np.minimum(total(each * prices), WIDEST * samples)
        need = total(wanted.pulls * prices)
        confidence = eprocess.confidence(problem, kept)
        worth = eprocess.batch_value * np.maximum(PRICE * math.sqrt(problem.arms), OF_ALL * samples)
        price = self.batch_price or worth
        growth = np.minimum(np.maximum(WIDTH * np.sqrt(price / samples), NARROWEST), self.growth or WIDEST)
        least = np.minimum(np.maximum(SMALLEST, -UNSURE * np.expm1(confidence)), growth)
        if self.batch_price is None and eprocess.shifts:
            least = np.maximum(least, self._crowd(problem, kept.known, wanted.pulls, confidence))
        most = np.maximum(growth, least)
        if problem.arms == 2 and eprocess.shifts and self.batch_price is None and self.growth is None:
            most = np.maximum(most, -TWO * np.expm1(confidence))
        aim, alike = (1 + growth) / 3, np.asarray(UNIFORM)
        if wanted.tie is not None:  # settled all at once, and more alike
            aim, alike = (1 - wanted.tie) * aim + wanted.tie, (UNIFORM + TIED * wanted.tie)[..., None]
        size = np.clip(aim * need, least * samples, most * samples)
        size = np.maximum(size, lacking)
        if self.looks is not None:
            size = np.maximum(size, self._towards_the_last(problem, trial, need, samples, confidence))
        unfinished = wanted.unfinished / np.maximum(wanted.unfinished.sum(axis=-1), 1.0)[..., None]
        if problem.prices:  # as many pulls as c^-1/2, for one unit of money
            each = wanted.unfinished / np.sqrt(prices)
            unfinished = each / np.maximum(total(each * prices), 1e-300)[..., None]
        share = np.where(need[..., None] > 0, wanted.pulls / np.maximum(need, 1e-300)[..., None], unfinished)
        pulls = whole(size[..., None] * ((1 - alike) * share + alike * unfinished))
        if wanted.least is not None:
            room = np.minimum(WIDEST * samples / np.maximum(total(wanted.least * prices), 1.0), 1.0)
            pulls = np.maximum(pulls, whole(room[..., None] * wanted.least))
            size = np.maximum(size, total(pulls * prices))
        after = samples + (size if self.max_batch is None else np.minimum(size, self.max_batch))
        due = (FLOOR * min(1.0, math.sqrt(10 / problem.arms)) * after / problem.arms)[..., None]
        due = due * _alike(problem) if problem.prices else due
        refill = REFILL if self.max_batch is None else 1.0
        floor = whole(np.where(counts < due, refill * due - counts, 0.0))
        record = oriented(problem, trial.record)
        pulls = apportion_pulls(np.maximum(pulls, floor), self.max_batch, self.min_per_arm, floor, record)
        jump = min(self._jump(problem), 0)  # a problem that is not over by now may be a hard one
        return BatchPlan(pulls, trial.plan.may_stop, parts=min(problem.noise.most_parts, PARTS), jump=jump)

    def _towards_the_last(
        self, problem: Problem, trial: Trial, need: Floats, samples: Floats, confidence: Floats
    ) -> Floats:
        """The least batch, so that the planned batches grow by one factor to what is likely to be enough. ()"""
        from scipy.special import ndtri

        assert self.looks is not None
        z = ndtri(np.exp(confidence))  # of one lead that is as sure
        enough = need * LIKELY * (np.maximum(z, 1.0) / np.maximum(z - 1.0, LEAST_LEAD)) ** 2
        certain = self.stopping.eprocess(problem).sufficient_pulls(problem)
        if certain is not None:
            enough = np.minimum(enough, total(np.maximum(certain + 1.0 - trial.record.counts, 0.0)))
        rounds = np.maximum(self.looks - trial.record.batches, 1.0)
        if trial.plan.left is not None:
            enough = np.where(rounds > 1, np.minimum(enough, trial.plan.left), trial.plan.left)
        return samples * np.expm1(np.log1p(enough / samples) / rounds)

    def _crowd(self, problem: Problem, known: Estimates, wanted: Floats, confidence: Floats) -> Floats:
        """The least batch while many arms crowd near the top, in samples so far (docs/wager.md). ()"""
        crowd = CROWDED * math.sqrt(min(problem.arms, CROWD)) * -confidence * signal_share(known) ** 4
        if self.growth is not None or problem.arms <= CROWD or known.past.batches < 2:  # one tells little of the top
            return np.minimum(crowd, self.growth or WIDEST)
        contenders = total(wanted) ** 2 / np.maximum(total(wanted * wanted), 1e-300)
        return np.minimum(crowd, WIDEST * np.clip(contenders / CONTENDERS, 1.0, WIDER))

    def _jump(self, problem: Problem) -> int:
        """How bold the bets are, by the price alone: by what is estimated they would be worse (docs/wager.md)."""
        each = math.nan if self.batch_price is None else self.batch_price / problem.arms
        return int(each >= BOLD) - int(each < CAUTIOUS)


def _scaled_prices(problem: Problem) -> Floats:
    """The price of a result of each arm, 1 on average. (K)"""
    prices = np.asarray(problem.prices or (1.0,) * problem.arms)
    return np.asarray(prices * (len(prices) / prices.sum()))


def _alike(problem: Problem) -> Floats:
    """Pulls of each arm that are proportional to c^-1/2 and cost as much as one of each. (K)"""
    prices = _scaled_prices(problem)
    return np.asarray(problem.arms / np.sqrt(prices) / np.sqrt(prices).sum())
