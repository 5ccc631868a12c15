"""The rule for questions about a finite list: bets without replacement, item after item in its random order.

The state holds every result that was told, by place. The bets go on to the first place at which an arm that is still
needed has no result (the prefix rule), so that neither the order in which results came nor what was asked for when has
any part in them (docs/why-the-guarantee-holds.md, Propositions 35 to 37).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, tree_map, tree_where
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, Record, Trial
from roundwise.questions.base import Answer
from roundwise.rules.base import Bounds, ClaimStatus, Interval, StoppingRule, TrialStatus
from roundwise.rules.finite.best_arm import BestArmProcess
from roundwise.rules.finite.bounds import list_means
from roundwise.rules.finite.process import FiniteProcess, Row

FAILED = np.inf  # in place of a result: the request was given up


class ListState(NamedTuple):
    """What was told, and how far the bets are."""

    told: Floats  # (n, K), results by place, as far as any was told; nan where there is none
    place: Floats  # (), items that were bet on
    purses: Any


@dataclass(frozen=True)
class ListRule(StoppingRule[ListState]):
    """Answer for a list of `size` items, each arm once on each: wrong with probability at most delta over its order.

    There is an answer at the end of the list at the latest, by arithmetic.

    Args:
        size: N, the number of items.
        strict: Half of delta for every arm, so that "ahead of all others" is wrong with probability at most delta.
    """

    size: int
    strict: bool = False
    any_time: ClassVar[bool] = True
    migrates: ClassVar[bool] = True

    def process(self, problem: Problem) -> FiniteProcess[Any]:
        """The e-processes of the question."""
        return process_for(problem, self.size, self.strict)

    def check(self, problem: Problem) -> None:
        self.process(problem)

    def start(self, problem: Problem, runs: tuple[int, ...]) -> ListState:
        told = np.full((*runs, 0, problem.arms), np.nan)
        return ListState(told, np.zeros(runs), self.process(problem).start(runs, problem.arms))

    def fold(self, problem: Problem, kept: ListState, plan: BatchPlan, batch: Batch) -> ListState:
        """Take in what was told, and bet on the items whose results are all there."""
        if batch.rows is None:
            return kept
        single = kept.place.ndim == 0
        state = tree_map(lambda each: each[None], kept) if single else kept
        told = merge_rows(state.told, batch.rows[None] if single else batch.rows)
        state = self._bet(problem, state._replace(told=told))
        return tree_map(lambda each: each[0], state) if single else state

    def _bet(self, problem: Problem, state: ListState) -> ListState:
        process, (told, place, purses) = self.process(problem), state
        if told.shape[-2] == self.size and not np.isnan(told).any():  # the whole list is known: no need to bet
            x, most, _ = self._scale(problem, told)
            purses = process.conclude(purses, x.sum(axis=-2), most.sum(axis=-2))
            return ListState(told, np.full_like(place, self.size), purses)
        first = int(place.min(initial=told.shape[-2]))
        for t in range(first, told.shape[-2]):
            values = told[..., t, :]
            there = ~np.isnan(values)
            goes_on = (place == t) & ~process.settled(purses) & (there | ~process.needed(purses)).all(axis=-1)
            if not goes_on.any():
                if (place < t).all():
                    break
                continue
            after = process.step(purses, Row(place, *self._scale(problem, values)))
            purses = after if goes_on.all() else tree_where(goes_on, after, purses)
            place = place + goes_on
        return ListState(told, place, purses)

    def _scale(self, problem: Problem, values: Floats) -> tuple[Floats, Floats, Bools]:
        """Results in [0, 1], failed ones as 0 and as 1, and which there are; higher is better."""
        seen, (low, high) = np.isfinite(values), problem.noise.mean_range
        x = np.where(seen, (values - low) / (high - low), 0.0)
        x = np.where(seen, 1.0 - x, 0.0) if problem.question.lower_is_better else x
        return x, np.where(seen, x, 1.0), seen

    def finished(self, problem: Problem, kept: ListState) -> Bools:
        """Whether there is an answer: shown, or because the list is used up. ()"""
        return np.asarray(self.process(problem).settled(kept.purses) | (kept.place >= self.size))

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        return self.finished(problem, trial.kept)

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        return self.process(problem).answer(trial.kept.purses)

    def answer_text(self, problem: Problem, trial: Trial, names: Sequence[str]) -> str:
        return self.process(problem).answer_text(problem, trial.kept.purses, names)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        return self.process(problem).wrong(trial.kept.purses, problem.question.merits(means))

    def doubt(self, problem: Problem) -> None:
        """None: it is proved (docs/why-the-guarantee-holds.md)."""
        return

    def state_tag(self, problem: Problem) -> str:
        return f"{self.process(problem).tag}/1"

    def describe(self, delta: float) -> str:
        return (
            "The items are tried in a random order that was drawn at the start. The evidence against every wrong "
            "answer is the product of the pay-offs of bets on one item after the other, each about what is left of the "
            f"list; an answer is excluded when it reaches {1 / delta:.0f} : 1 (1/{delta:g}), or when no results on the "
            "items left could make it right."
        )

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        return self.process(problem).claims(trial.kept.purses, names)

    def standing(self, problem: Problem, trial: Trial) -> TrialStatus:
        return TrialStatus(compares=True)

    def bounds(
        self, problem: Problem, record: Record, batches: Sequence[Batch], kept: ListState | None = None
    ) -> Bounds:
        """Of the means on the whole list, which what is certain of it cuts, too."""
        if kept is None:
            kept = self.start(problem, ())
            for batch in batches:
                kept = self.fold(problem, kept, BatchPlan(batch.counts, np.asarray(True)), batch)
        return Bounds(partial(self._means, problem, kept))

    def _means(self, problem: Problem, kept: ListState) -> Interval:
        low, high = problem.noise.mean_range
        told = np.where(np.isfinite(kept.told), (kept.told - low) / (high - low), np.nan)
        lower, upper = list_means(told, self.size, problem.goal + math.log(2.0))
        return Interval(low + (high - low) * lower, low + (high - low) * upper)


def merge_rows(told: Floats, rows: Floats) -> Floats:
    """What was told by place, with more of it; what was told first stays. (n, K),(m, K)->(max(n, m), K)"""
    some = (~np.isnan(rows)).any(axis=(*range(rows.ndim - 2), -1))
    rows = rows[..., : int(np.flatnonzero(some)[-1]) + 1 if some.any() else 0, :]
    places = max(told.shape[-2], rows.shape[-2])

    def filled(each: Floats) -> Floats:
        rest = np.full((*each.shape[:-2], places - each.shape[-2], each.shape[-1]), np.nan)
        return np.concatenate([each, rest], axis=-2)

    one, other = filled(told), filled(rows)
    return np.where(np.isnan(one), other, one)


@lru_cache(maxsize=256)
def process_for(problem: Problem, size: int, strict: bool) -> FiniteProcess[Any]:
    """The e-processes of a question about a list."""
    goal = math.log((2.0 if strict else 1.0) / problem.delta)
    low, high = problem.noise.mean_range
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError("Bets on a list need results in a range: give 0/1 results, or the range of all results.")
    if problem.question.name == "best-arm" and not problem.question.tolerance:
        return BestArmProcess(size, goal)
    raise InputError(f"The question '{problem.question.name}' cannot be asked about a list.")
