"""What lies ahead: many runs of one study in an assumed world, from its start or from where it stands, to its end.

Budget, round and split are honoured because it is the same policy that a study asks (`policies.rounds.Rounds`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, tree_map, tree_take, zeros
from roundwise.deadline import check_deadline
from roundwise.model.batch import Batch, BatchPlan, Trial, join_parts
from roundwise.model.problem import Problem
from roundwise.model.trial import advance, begin, cannot_stop, final_answer
from roundwise.policies import Policy
from roundwise.policies.rounds import as_rounds, round_of
from roundwise.simulation.environments import Environment, Now, draw_batch

Places = NDArray[np.intp]

TYPICAL, NEARLY_ALWAYS = 0.5, 0.95
MOST_ROUNDS = 400  # a run that is not over by then is taken as endless,
MOST_RESULTS = 1e12  # and so is one with so many results


class Detail(NamedTuple):
    """How rounds of limited size are followed where there is no budget."""

    exact: int = 40  # so many one by one;
    coarse: float = 0.05  # after them several are taken together, at most this share of the results so far


FINE, ROUGH = Detail(), Detail(8, 0.2)
DEALT = ((80, 4, 16), (16, 1, 4))  # dealings of the first batch, and of later ones: times arms, at least, at most

MOST_DEALT = 1e8  # results of an arm in a batch


def dealings_for(problem: Problem, first: bool, most: float = 0.0) -> int | None:
    """How often the first batch, or a later one, is dealt into parts: a study deals 2048 and 256 times.

    What a bet wins is the average over dealings, and grows with their number; most of that is seen with a few. Of many
    arms the first batch is a small share of all results, so fewer will do (docs/planning.md, "How far to trust it").
    Items are drawn one by one, and dealt as simulations deal them; `most` results of an arm may be too many to deal.
    """
    if problem.noise.shares_items or most > MOST_DEALT:
        return None
    times, fewest, usual = DEALT[0 if first else 1]
    return int(np.clip(times // problem.arms, fewest, usual))


class ForecastStart(NamedTuple):
    """Where a study stands: its trial, and what came back so far for the batch that is outstanding."""

    trial: Trial  # of one run, ()
    told: Batch | None = None


@dataclass(frozen=True, kw_only=True)
class Ends:
    """How each of many runs ended."""

    counts: Floats  # (runs, K), asked for from here on; infinite where no end was seen
    batches: Floats  # (runs), rounds from here on
    decided: Bools  # (runs), there is an answer; of claims, all that are true were shown
    correct: Bools  # (runs), nothing false was said
    shown: Bools  # (runs, J), claims that were shown
    truth: Floats  # (runs, K)
    steps: int  # of the longest run: what it took to compute

    @property
    def samples(self) -> Floats:
        """Results asked for from here on. (runs)"""
        return np.asarray(self.counts.sum(axis=-1))

    @property
    def until_decided(self) -> Ends:
        """The same, but without an end where there was no answer."""
        counts = np.where(self.decided[:, None], self.counts, np.inf)
        return dataclasses.replace(self, counts=counts, batches=np.where(self.decided, self.batches, np.inf))


def join_ends(parts: Sequence[Ends]) -> Ends:
    """Several lots of runs of the same study."""
    names = [each.name for each in dataclasses.fields(Ends) if each.name != "steps"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Ends(**columns, steps=max(part.steps for part in parts))


def take_row(ends: Ends, first: int, step: int) -> Ends:
    """The runs first, first + step, ...: one row of several that were run together."""
    names = [each.name for each in dataclasses.fields(Ends) if each.name != "steps"]
    columns = {name: getattr(ends, name)[first::step] for name in names}
    longest = float(columns["batches"].max())
    return Ends(**columns, steps=int(min(ends.steps, longest)))


def simulate_ahead(
    problem: Problem,
    policy: Policy,
    environment: Environment,
    *,
    runs: int,
    seed: int,
    block: int = 0,
    start: ForecastStart | None = None,
    most_rounds: int = MOST_ROUNDS,
    detail: Detail = FINE,
) -> Ends:
    """So many runs from the start, or from where a study stands, to their end.

    The question of claims ends with the budget; without one, when all that is true has been shown.
    """
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, stream))) for stream in (0, 1)]
    trial = begin(problem, policy, (runs,)) if start is None else repeated(start.trial, runs)
    told = None if start is None else start.told
    world = environment.initial_state(rngs[0], runs)
    book = _Book(problem, policy, world.means)
    alive, asked, rounds, steps = np.arange(runs), zeros((runs, problem.arms)), np.zeros(runs), 0
    while alive.size:
        check_deadline()
        endless = (trial.record.samples >= MOST_RESULTS) | (steps >= most_rounds)
        over = _nothing_left(policy, trial.plan)
        if steps:
            over |= trial.done | cannot_stop(problem, policy, trial) | book.all_shown(trial, alive) | endless
        if over.any():
            who, rest = np.flatnonzero(over), np.flatnonzero(~over)
            book.write(alive[who], tree_take(trial, who), asked[who], rounds[who], endless[who])
            trial = trial._replace(batch=Batch(trial.record.counts, trial.record.totals))
            alive, trial, world, asked, rounds = alive[rest], *tree_take((trial, world, asked, rounds), rest)
            if not alive.size:
                break
        asked, rounds = asked + trial.plan.pulls, rounds + rounds_of(policy, trial.plan.pulls)
        dealings = dealings_for(problem, start is None and steps == 0, float(trial.plan.pulls.max()))
        batch, world = _pulled(problem, environment, rngs[1], world, trial.plan, told if steps == 0 else None, dealings)
        trial = advance(problem, coarser(policy, trial, detail), trial, batch)
        steps += 1
    return book.ends(steps)


def repeated(trial: Trial, runs: int) -> Trial:
    """The same trial in so many runs, without what only bounds need."""
    kept = trial.kept
    if hasattr(kept, "steps"):
        trial = trial._replace(kept=kept._replace(steps=(), tail=None))
    found: Trial = tree_map(lambda array: np.repeat(np.asarray(array)[None], runs, axis=0), trial)
    return found


def without_budget(policy: Policy) -> Policy:
    """The same policy in the same rounds, as if there were no budget."""
    rounds = as_rounds(policy)
    if rounds.budget is None:
        return policy
    if rounds.round is None and rounds.split is None:
        return rounds.policy
    return dataclasses.replace(rounds, budget=None)


def rounds_of(policy: Policy, pulls: Floats) -> Floats:
    """In how many rounds these pulls are made. (K)->()"""
    most, number = most_in_a_round(policy), pulls.sum(axis=-1)
    if most is None or as_rounds(policy).budget is not None:
        return np.asarray(number > 0, dtype=np.float64)
    return np.asarray(np.ceil(number / most), dtype=np.float64)


def most_in_a_round(policy: Policy) -> float | None:
    """The largest number of results in a round, if there is one."""
    rounds = as_rounds(policy)
    return rounds.policy.max_batch if rounds.size is None else rounds.size


def coarser(policy: Policy, trial: Trial, detail: Detail = FINE) -> Policy:
    """The policy with several rounds taken together, once there were many of a limited size and no budget is near.

    A forecast of hundreds of rounds would take as many steps; so it is a few per cent too large.
    """
    most = most_in_a_round(policy)
    if most is None or as_rounds(policy).budget is not None:
        return policy
    at_once = math.floor(detail.coarse * float(trial.record.samples.min()) / most)
    if trial.record.samples.min() < detail.exact * most or at_once < 2:
        return policy
    return _with_most(policy, at_once * most)


def _with_most(policy: Policy, most: float) -> Policy:
    rounds = as_rounds(policy)
    if rounds.round is not None:
        return dataclasses.replace(rounds, round=most)
    inner: Policy = dataclasses.replace(rounds.policy, max_batch=most)  # type: ignore[type-var]
    return inner if rounds.policy is policy else dataclasses.replace(rounds, policy=inner)


def _nothing_left(policy: Policy, plan: BatchPlan) -> Bools:
    """Whether nothing is asked for any more, although there is no answer. ()"""
    none = plan.pulls.sum(axis=-1) == 0
    if policy.stopping.exact_batches:  # it needs every batch just as planned
        none = none | round_of(plan).cut
    return np.asarray(none)


def _pulled(
    problem: Problem,
    environment: Environment[Now],
    rng: np.random.Generator,
    world: Now,
    plan: BatchPlan,
    told: Batch | None,
    dealings: int | None,
) -> tuple[Batch, Now]:
    """What comes back for the plan; for an outstanding batch, with what has come already."""
    if told is None:
        return draw_batch(problem, environment, rng, world, plan, dealings)
    before = tree_map(lambda array: np.repeat(array[None], len(plan.pulls), axis=0), told._replace(parts=None))
    rest = np.maximum(plan.pulls - before.counts, 0.0)
    batch, world = environment.pull(rng, world, rest, problem.noise.needs)
    if before.table is None or batch.table is None:
        before, batch = before._replace(table=None), batch._replace(table=None)
    return join_parts([before, batch])._replace(parts=None), world


class _Book:
    """How runs ended, written as they do."""

    def __init__(self, problem: Problem, policy: Policy, truth: Floats) -> None:
        runs = len(truth)
        self.problem, self.policy, self.truth = problem, policy, truth
        self.claims = problem.question.separate_claims
        self.true = problem.question.answer(truth) if self.claims else None  # (runs, J)
        lines = len(problem.question.claim_texts([""] * problem.arms))
        self.open_ended = self.claims and as_rounds(policy).budget is None
        self.counts, self.batches = np.full(truth.shape, np.inf), np.full(runs, np.inf)
        self.decided, self.correct = np.zeros(runs, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
        self.shown = np.zeros((runs, lines), dtype=np.bool_)

    def all_shown(self, trial: Trial, alive: Places) -> Bools:
        """Whether all that is true was shown, where claims have no budget to end with."""
        if not self.open_ended or self.true is None:
            return np.zeros(len(alive), dtype=np.bool_)
        shown = final_answer(self.problem, self.policy, trial)
        return np.asarray((shown | ~self.true[alive]).all(axis=-1))

    def write(self, who: Places, trial: Trial, asked: Floats, rounds: Floats, endless: Bools) -> None:
        """These runs ended so; `endless` where they were only cut off."""
        answer = np.asarray(final_answer(self.problem, self.policy, trial))
        question = self.problem.question
        if self.true is not None:
            self.decided[who] = (answer | ~self.true[who]).all(axis=-1)
            self.correct[who] = question.correct(answer, self.truth[who])
            self.shown[who] = answer
        else:
            self.decided[who] = trial.done
            self.correct[who] = ~trial.done | question.correct(answer, self.truth[who])
            if self.shown.shape[-1]:
                self.shown[who] = trial.done[:, None] & answer
        seen = self.decided[who] | ~endless
        self.counts[who] = np.where(seen[:, None], asked, np.inf)
        self.batches[who] = np.where(seen, rounds, np.inf)

    def ends(self, steps: int) -> Ends:
        """What was written."""
        return Ends(
            counts=self.counts,
            batches=self.batches,
            decided=self.decided,
            correct=self.correct,
            shown=self.shown,
            truth=self.truth,
            steps=steps,
        )


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A number that varies: half of the runs need no more than is typical, 19 of 20 no more than p95."""

    typical: float
    p95: float

    def plain(self) -> dict[str, float]:
        """As JSON."""
        return {"typical": self.typical, "p95": self.p95}


def quantiles(values: Floats) -> Quantiles:
    """Typical and nearly always."""
    typical, p95 = quantile(values, np.array([TYPICAL, NEARLY_ALWAYS]))
    return Quantiles(typical=float(typical), p95=float(p95))


def quantile(values: Floats, levels: NDArray[np.float64]) -> Floats:
    """The smallest value that at least this share of the runs does not exceed."""
    places = np.ceil(levels * len(values) - 1e-9).astype(np.intp) - 1
    return np.sort(values)[np.maximum(places, 0)]
