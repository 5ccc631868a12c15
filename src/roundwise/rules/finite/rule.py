"""The rule for questions about a finite list: bets without replacement, one item at a time in random order.

The state holds every recorded result, by place. Bets proceed to the first place at which an arm that is still needed
has no result (the prefix rule), so they depend neither on the order in which results came nor on when they were asked
for (docs/why-the-guarantee-holds.md, Propositions 50 to 53).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, tree_map, tree_where
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import BatchPlan, Problem, Record, Trial
from roundwise.questions.base import Answer, near_words
from roundwise.rules.base import Bounds, ClaimStatus, GapToLeader, Interval, LinearForm, StoppingRule, TrialStatus
from roundwise.rules.eprocess.claim_bounds import claims_of
from roundwise.rules.finite.best_arm import BestArmProcess
from roundwise.rules.finite.bets import ROUNDING
from roundwise.rules.finite.bounds import fixed_ends
from roundwise.rules.finite.candidates import CandidateProcess
from roundwise.rules.finite.known import KnownColumns
from roundwise.rules.finite.process import FiniteProcess, ItemRow
from roundwise.rules.finite.statements import LevelProcess, Statement, StatementProcess


class ListState(NamedTuple):
    """The recorded results, and the wealth after the items bet on so far."""

    results: Floats  # (n, K), by place, up to the last recorded one; nan if missing
    items: Floats  # (), the number of items bet on
    wealth: Any  # the wealth of the process, a named tuple


@dataclass(frozen=True)
class ListRule(StoppingRule[ListState]):
    """Answer for a list of `size` items, each arm once on each; wrong with probability at most delta over its order.

    There is an answer at the end of the list at the latest, by arithmetic.

    Args:
        size: N, the number of items.
        strict: Whether each arm gets delta/2, so that "ahead of all others" is wrong with probability at most delta.
        known: Columns known for the whole list; results of known arms are never asked for.
    """

    size: int
    strict: bool = False
    known: KnownColumns | None = None
    any_time: ClassVar[bool] = True
    migrates: ClassVar[bool] = True
    always_ends: ClassVar[bool] = True

    def process(self, problem: Problem) -> FiniteProcess[Any]:
        return process_for(problem, self.size, self.strict, self.known)

    def check(self, problem: Problem) -> None:
        self.process(problem)

    def start(self, problem: Problem, runs: tuple[int, ...]) -> ListState:
        told = np.full((*runs, 0, problem.arms), np.nan)
        if self.known is not None and self.known.arms:
            low, high = problem.noise.mean_range
            told = self.known.fill(np.full((*runs, self.size, problem.arms), np.nan), self.process(problem).flips)
            told = low + (high - low) * told
        return ListState(told, np.zeros(runs), self.process(problem).start(runs, problem.arms))

    def fold(self, problem: Problem, kept: ListState, plan: BatchPlan, batch: Batch) -> ListState:
        """Add the recorded results, and bet on the items whose results are complete."""
        if batch.rows is None:
            return kept
        single = kept.items.ndim == 0
        state = tree_map(lambda each: each[None], kept) if single else kept
        told = merge_rows(state.results, batch.rows[None] if single else batch.rows)
        state = self._bet(problem, state._replace(results=told))
        return tree_map(lambda each: each[0], state) if single else state

    @quiet
    def _bet(self, problem: Problem, state: ListState) -> ListState:
        process, (told, place, wealth) = self.process(problem), state
        if told.shape[-2] == self.size and np.isfinite(told).all():  # the whole list is known, so no bets are needed
            whole = self._scale(problem, told, process.flips)
            wealth = process.conclude(wealth, whole[0].sum(axis=-2), whole[1].sum(axis=-2))
            return ListState(told, np.full_like(place, self.size), wealth)
        known, cross = self.known, None
        if known is not None:
            before = self._scale(problem, told[..., : int(place.min(initial=told.shape[-2])), :], process.flips)[0]
            cross = known.cross_sums(before)
        prefix = np.logical_and.accumulate(~np.isnan(told), axis=-2).sum(axis=-2)  # places up to the first gap, (K)
        for t in range(int(place.min(initial=told.shape[-2])), told.shape[-2] + 1):
            here = (place == t) & ~process.settled(wealth)
            lags = here[..., None] & process.lags(wealth, place)
            if (back := (lags & (prefix >= t)).any(axis=-1)).any():  # arms that had been paused
                rows = ItemRow(place, *self._scale(problem, told[..., :t, :], process.flips))
                wealth = tree_where(back, process.recount(wealth, rows), wealth)
            if t == told.shape[-2]:
                break
            goes_on = here & ((prefix > t) | ~process.needed(wealth)).all(axis=-1)
            row = ItemRow(place, *self._scale(problem, told[..., t, :], process.flips))
            if known is not None and cross is not None:
                row = row._replace(control=known.at(t, cross))
                cross = cross + row.low[..., None] * known.at(t, cross).now
            if goes_on.any():
                after = process.step(wealth, row)
                wealth = after if goes_on.all() else tree_where(goes_on, after, wealth)
                place = place + goes_on
            elif (place <= t).all():
                break
        at_end = np.asarray(place >= self.size)
        if at_end.any():
            wealth = tree_where(at_end, process.close(wealth), wealth)
        return ListState(told, place, wealth)

    def _scale(self, problem: Problem, values: Floats, flips: bool) -> tuple[Floats, Floats, Bools, Bools]:
        """Results in [0, 1] (negated if `flips`), failures as 0 and as 1; which results exist, and which are known."""
        seen, (low, high) = np.isfinite(values), problem.noise.mean_range
        x = np.where(seen, (values - low) / (high - low), 0.0)
        x = np.where(seen, 1.0 - x, 0.0) if flips else x
        return x, np.where(seen, x, 1.0), seen, ~np.isnan(values)

    def finished(self, problem: Problem, kept: ListState) -> Bools:
        """Whether nothing more is needed: there is an answer, or the list is used up. ()"""
        return self.process(problem).ended(kept.wealth, kept.items)

    def stops(self, problem: Problem, trial: Trial) -> Bools:
        return np.asarray(self.finished(problem, trial.kept) & ~self.broken(problem, trial))

    def broken(self, problem: Problem, trial: Trial) -> Bools:
        """Whether the list is used up, but failed requests leave the answer open. ()"""
        process, kept = self.process(problem), trial.kept
        return np.asarray((kept.items >= self.size) & process.open_at_end(kept.wealth))

    def answer(self, problem: Problem, trial: Trial) -> Answer:
        return self.process(problem).answer(trial.kept.wealth)

    def correct(self, problem: Problem, answer: Answer, means: Floats) -> Bools:
        """Each of several tied arms is right: "the best" means that no arm has a higher mean on the list."""
        question = problem.question
        if question.name in ("best-arm", "top-k"):
            question = replace(question, tolerance=max(question.tolerance, ROUNDING))  # type: ignore[type-var]
        return question.correct(answer, means)

    def answer_text(self, problem: Problem, trial: Trial, names: Sequence[str]) -> str:
        return self.process(problem).answer_text(problem, trial.kept.wealth, names)

    def false_rejection(self, problem: Problem, trial: Trial, means: Floats) -> Bools:
        process, (low, high) = self.process(problem), problem.noise.mean_range
        x = (np.broadcast_to(means, trial.record.counts.shape) - low) / (high - low)
        return process.wrong(trial.kept.wealth, 1.0 - x if process.flips else x)

    def doubt(self, problem: Problem) -> None:
        return

    def state_tag(self, problem: Problem) -> str:
        return f"{self.process(problem).tag}/1"

    def describe(self, delta: float) -> str:
        return (
            "The evidence against every wrong answer is the product of the payoffs of bets on one item after the "
            f"other, each about what is left of the list; an answer is excluded when it reaches {1 / delta:.0f} : 1 "
            f"(1/{delta:g}), or when no results on the items left could make it right."
        )

    def claims(self, problem: Problem, trial: Trial, names: Sequence[str]) -> list[ClaimStatus]:
        return self.process(problem).claims(trial.kept.wealth, names)

    def standing(self, problem: Problem, trial: Trial) -> TrialStatus:
        return TrialStatus(compares=True)

    def bounds(
        self, problem: Problem, record: Record, batches: Sequence[Batch], kept: ListState | None = None
    ) -> Bounds:
        """Bounds on the means over the whole list, clipped to what is certain."""
        if kept is None:
            kept = self.start(problem, ())
            for batch in batches:
                kept = self.fold(problem, kept, BatchPlan(batch.counts, np.asarray(True)), batch)
        return Bounds(
            partial(self._means, problem, kept),
            partial(self._margins, problem, kept),
            partial(self._gap_to_leader, problem, kept),
            partial(self._against, problem, kept),
        )

    def _means(self, problem: Problem, kept: ListState) -> Interval:
        (low, high), goal = problem.noise.mean_range, problem.goal + math.log(2.0)
        rows = ItemRow(kept.items, *self._scale(problem, kept.results, flips=False))
        lower = fixed_ends(rows.low, rows.there, rows.seen, self.size, (0.0, 1.0), goal, True)
        minus = fixed_ends(-rows.high, rows.there, rows.seen, self.size, (-1.0, 0.0), goal, True)
        return Interval(low + (high - low) * lower, low - (high - low) * minus)

    def _margins(self, problem: Problem, kept: ListState) -> Floats | None:
        process, (low, high) = self.process(problem), problem.noise.mean_range
        found = process.margins(kept.wealth, ItemRow(kept.items, *self._scale(problem, kept.results, process.flips)))
        return None if found is None else (high - low) * found

    def _gap_to_leader(
        self, problem: Problem, kept: ListState, leader: int | None, margins: Floats
    ) -> GapToLeader | None:
        """The margins, and upper bounds on each arm's gap to the leader, adjusted for its selection from the data."""
        if problem.question.name != "best-arm":
            return None
        who = int(kept.wealth.low.argmax()) if leader is None else leader
        goal = problem.goal + math.log(max(problem.arms - 1, 1))
        ahead = self._differences(problem, kept, who, 1.0, self.process(problem).flips, goal)
        return GapToLeader(margins, None, np.where(np.arange(problem.arms) == who, 0.0, -ahead))

    def _against(self, problem: Problem, kept: ListState, control: int) -> Interval:
        goal = problem.goal + math.log(2.0)
        lower, minus = (self._differences(problem, kept, control, sign, False, goal) for sign in (1.0, -1.0))
        return Interval(lower, -minus)

    def _differences(
        self, problem: Problem, kept: ListState, other: int, sign: float, flips: bool, goal: float
    ) -> Floats:
        """Lower bounds on how far each arm is above another; with a negative sign, how far below. (K)"""
        low, high = problem.noise.mean_range
        rows = ItemRow(kept.items, *self._scale(problem, kept.results, flips))
        one = slice(other, other + 1)
        y = rows.low - rows.high[:, one] if sign > 0 else rows.low[:, one] - rows.high
        there, seen = rows.there & rows.there[:, one], rows.seen & rows.seen[:, one]
        return (high - low) * fixed_ends(y, there, seen, self.size, (-1.0, 1.0), goal, False)


def merge_rows(told: Floats, rows: Floats) -> Floats:
    """Merge recorded results by place; the first result of each arm and place stays. (n, K),(m, K)->(max(n, m), K)"""
    some = (~np.isnan(rows)).any(axis=(*range(rows.ndim - 2), -1))
    rows = rows[..., : int(np.flatnonzero(some)[-1]) + 1 if some.any() else 0, :]
    places = max(told.shape[-2], rows.shape[-2])

    def filled(each: Floats) -> Floats:
        rest = np.full((*each.shape[:-2], places - each.shape[-2], each.shape[-1]), np.nan)
        return np.concatenate([each, rest], axis=-2)

    one, other = filled(told), filled(rows)
    return np.where(np.isnan(one), other, one)


@lru_cache(maxsize=256)
def process_for(problem: Problem, size: int, strict: bool, known: KnownColumns | None = None) -> FiniteProcess[Any]:
    """Return the e-processes of a question about a list."""
    process = _process_of(problem, size, strict)
    process.known = known
    return process


def _process_of(problem: Problem, size: int, strict: bool) -> FiniteProcess[Any]:
    goal = math.log((2.0 if strict else 1.0) / problem.delta)
    low, high = problem.noise.mean_range
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError("Bets on a list need results in a range: give 0/1 results, or the range of all results.")
    question = problem.question
    if question.name == "best-arm" and not question.tolerance:
        return BestArmProcess(size, goal, question.lower_is_better)
    if strict:
        raise InputError("Only the best arm, without a tolerance, can be asked for strictly.")
    if question.name in ("best-arm", "top-k"):
        return CandidateProcess(size, goal, question, question.tolerance / (high - low))  # type: ignore[arg-type]
    if question.name == "above":
        return _levels(problem, size, goal)
    if question.separate_claims:
        return _claims(problem, size, goal)
    raise InputError(f"The question '{question.name}' cannot be asked about a list.")


def _levels(problem: Problem, size: int, goal: float) -> LevelProcess:
    question, (low, high) = problem.question, problem.noise.mean_range
    level, near, flips = float(question.level or 0.0), question.tolerance, question.lower_is_better
    at, apart = (level - low) / (high - low), near / (high - low)
    at = 1.0 - at if flips else at
    bounds = np.repeat([[at - apart], [at + apart]], problem.arms, axis=1)
    words = problem.wording.value(level) + near_words(near, problem.wording)
    sides = ("below", "above") if flips else ("above", "below")

    def describe(names: Sequence[str]) -> list[Statement]:
        return [
            Statement(
                f"{name} is {sides[0]} {words}",
                f"{name} is {sides[1]} {words}" if near else f"{name} is not {sides[0]} {words}",
                LinearForm((arm,), (1.0,), level, below=flips),
                "",
            )
            for arm, name in enumerate(names)
        ]

    forms, weights = np.eye(problem.arms), np.ones(problem.arms)
    return LevelProcess(size, goal, forms, bounds, (not near, False), 2, weights, flips, describe)


def _claims(problem: Problem, size: int, goal: float) -> StatementProcess:
    question, (low, high) = claims_of(problem), problem.noise.mean_range
    if question.odds or question.independent:
        raise InputError("Claims about a list are about means or their differences, without odds or products.")
    width, moved = high - low, low * question.forms.sum(axis=-1)
    levels = np.asarray(question.levels)
    futile = levels if question.futility is None else np.asarray(question.futility)
    bounds = np.stack([(levels - moved) / width, (futile - moved) / width])
    sides = 2 if question.opposites else 1

    def describe(names: Sequence[str]) -> list[Statement]:
        texts, labels = question.claim_texts(names), question.labels(names)
        found = []
        for j, form in enumerate(question.forms):
            arms = tuple(int(arm) for arm in np.flatnonzero(form))
            of = LinearForm(arms, tuple(float(form[arm]) for arm in arms), float(levels[j]))
            found.append(Statement(texts[j], texts[j + len(levels)] if sides == 2 else "", of, labels[j]))
        return found

    sharp = (True, question.futility is not None)
    weights = np.broadcast_to(np.asarray(question.weights, dtype=np.float64), levels.shape)
    return StatementProcess(size, goal, question.forms, bounds, sharp, sides, weights, False, describe)
