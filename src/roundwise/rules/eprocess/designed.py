"""The rule of designed studies: bets on whole looks, made for a budget and the smallest lead that matters.

Each look pays new levels, whose expectation under a true null is at most the old one (Proposition 41 of
docs/why-the-guarantee-holds.md). Everything that shapes the payoffs is fixed before the look: lead, budget, number of
looks and weights may change from look to look, because of results, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet, total, tree_where
from roundwise.errors import InputError
from roundwise.messages import count
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, Trial
from roundwise.questions import Above, BestArm, Question, SomeBeyond, TopK
from roundwise.rules.eprocess.designed_cells import (
    POWER_LEFT,
    DesignedAbove,
    DesignedBestArm,
    DesignedBeyond,
    DesignedEProcess,
    missing,
)
from roundwise.rules.eprocess.designed_parts import Look
from roundwise.rules.eprocess.designed_top import DesignedTopK
from roundwise.rules.eprocess.engine import RuleState
from roundwise.rules.eprocess.rule import EProcessRule

LOW_PRICE, PRICE = 0.05, 0.1  # default price of a look, as a share of the value of an answer: up to 3 arms, more
EXTENSION_VALUE = 0.3  # what one more look than planned is worth: an extension then gains most of what it could
MOST_LOOKS = 20.0  # that payoffs look ahead


@dataclass(frozen=True)
class DesignedRule(EProcessRule):
    """Stop when all but one answer are rejected; the bets are made for a budget and a lead.

    Without a budget the bets are those of `EProcessRule`; the wealth is the same thing, so a running study may change
    from the one to the other after any round.

    Args:
        lead: The smallest lead that matters, in units of the results; None: the one that the budget can just show.
        price: What a look is worth, as a share of the value of an answer (by default 0.05 for up to three arms, 0.1
            for more).
        extension_value: What one more look after the last is worth; 0 if the budget will not be extended.
    """

    lead: float | None = None
    price: float | None = None
    extension_value: float = EXTENSION_VALUE
    uses_budget: ClassVar[bool] = True

    def bets_on_whole_batches(self, problem: Problem) -> bool:
        in_parts = problem.noise.looks_in_parts or self.eprocess(problem).partitions_first_look(problem)
        return self.lead is not None and not in_parts

    def __post_init__(self) -> None:
        lead, price = self.lead, self.price
        if lead is not None and not 0 < lead < math.inf:
            raise InputError(f"`lead` must be positive; got {lead:g}.")
        if price is not None and not 0 <= price < 1:
            raise InputError(f"`price` must be at least 0 and below 1; got {price:g}.")
        if not 0 <= self.extension_value <= 0.9:
            raise InputError(f"`extension_value` must be between 0 and 0.9; got {self.extension_value:g}.")

    def eprocess(self, problem: Problem) -> DesignedEProcess:
        found = designed_eprocess(problem.question)
        if found is None:
            raise InputError(
                f"The policy 'designed' does not answer '{problem.question.name}'"
                f"{' with a tolerance' if problem.question.tolerance else ''}. Use the policy 'wager'."
            )
        if not found.fits(problem.arms):
            raise InputError(
                f"The policy 'designed' keeps too many hypotheses for {problem.arms} arms. Use the policy 'wager'."
            )
        return found

    def describe(self, delta: float) -> str:
        return (
            f"Every hypothesis that contradicts an answer has a level, which starts at {delta:g} (if arms are compared "
            "with a level, all of them together do). Each look replaces it by a function of the results of that look, "
            "which is fixed before they are seen, lies between 0 and 1, and has a mean of at most the present level if "
            "the hypothesis is true; dynamic programming finds the one with the best chance of an answer in the looks "
            "that are left. A hypothesis is rejected when its level reaches 1; the answer is what is left."
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

    @quiet
    def _pay(self, problem: Problem, kept: RuleState, plan: BatchPlan, batch: Batch) -> RuleState:
        """Fix what shapes the payoffs of a look, from the past and the numbers of its results; then pay."""
        known, size, left = kept.known, total(batch.counts), np.asarray(plan.left)
        last = np.asarray(left <= 0 if plan.last is None else plan.last)
        looks_left = np.where(last, 0.0, self.looks_left(plan, size))
        more = np.where(
            last, self.extension_value / 3 * size, left
        )  # a last look is bet on as if a share of it could follow
        rho = np.where(more > 0, np.minimum(size / np.maximum(size + more, 1.0), 1.0 - 1e-9), 1.0)
        lead = self.planned_lead(problem, kept, known.past.counts.sum(axis=-1) + size + left)
        price = (LOW_PRICE if problem.arms <= 3 else PRICE) if self.price is None else self.price
        look = Look(lead, np.sqrt(known.variance), looks_left, rho, self.lead is not None, price, self.extension_value)
        wealth = self.eprocess(problem).pay_look(problem, kept, look, batch)
        return self._state(problem, wealth, known.past.plus(batch))

    def planned_lead(self, problem: Problem, kept: RuleState, budget: Floats) -> Floats:
        """The lead that is planned for: as said, or what a test at the end of the budget shows with 90 %. ()"""
        if self.lead is not None:
            return np.broadcast_to(np.asarray(self.lead), budget.shape)
        return self.eprocess(problem).shown_lead(problem, budget, kept.known.variance)

    def why_final(self, problem: Problem, kept: RuleState) -> str | None:
        cells = self.eprocess(problem)
        if cells.stops(problem, kept.wealth):
            return "there is an answer"
        if cells.hopeless(problem, kept.wealth):
            return "a round that was bet on as the last one used up the level of what is still open"
        return None

    @quiet
    def effect_of_budget(self, problem: Problem, trial: Trial, budget: int, names: Sequence[str]) -> str | None:
        """Levels that are left, and the chance that all that is open is settled, if the lead is as planned for."""
        from scipy.special import ndtr

        cells, kept = self.eprocess(problem), trial.kept
        more = max(budget - float(trial.record.samples), 0.0)
        lead = self.planned_lead(problem, kept, np.asarray(float(budget)))
        need = float(total(cells.settle(problem, kept, lead).pulls))
        claims = [each for each in self.claims(problem, trial, names) if not each.shown]
        dead = [each.words for each in claims if each.evidence == -math.inf]
        level = max((math.exp(min(each.evidence - each.bar, 0.0)) for each in claims), default=0.0)
        # `settle` has a power of 95 % each: a share r of its results shows sqrt(r) of what a score lacks
        open_ = cells.open_levels(problem, kept)
        lacks = missing(np.asarray([level]) if open_ is None else open_)
        chance = float(ndtr(POWER_LEFT - lacks * (1 - math.sqrt(more / need))).prod()) if need > 0 else 1.0
        said = (
            f"This keeps the guarantee. What is open has a level of at most {level:.2g} (a new study starts at "
            f"{problem.delta:g}). With {count(more)} more results the chance of an answer is about "
            f"{100 * chance:.0f} %, if the lead is {problem.wording.gap(float(lead))}."
        )
        return f"{said} Results can no longer show that {'; '.join(dead)}." if dead else said

    @staticmethod
    def looks_left(plan: BatchPlan, size: Floats) -> Floats:
        """How many looks were planned after this one: as the plan says, or as many as its size makes."""
        if plan.looks is not None:
            return np.clip(plan.looks, 1.0, MOST_LOOKS)
        return np.clip(np.ceil(np.asarray(plan.left) / np.maximum(size, 1.0)), 1.0, MOST_LOOKS)


@singledispatch
def designed_eprocess(question: Question) -> DesignedEProcess | None:
    """Return the e-process of the question with designed looks; None if there is none."""
    return None


@designed_eprocess.register
def _(question: BestArm) -> DesignedEProcess | None:
    return None if question.tolerance else DesignedBestArm()


@designed_eprocess.register
def _(question: TopK) -> DesignedEProcess | None:
    return None if question.tolerance else DesignedTopK(question.k)


@designed_eprocess.register
def _(question: Above) -> DesignedEProcess | None:
    return DesignedAbove(question.level, question.tolerance, question.lower_is_better)


@designed_eprocess.register
def _(question: SomeBeyond) -> DesignedEProcess | None:
    return DesignedBeyond(question.level, question.tolerance, question.lower_is_better)
