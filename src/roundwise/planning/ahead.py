"""What lies ahead: many runs of one study in an assumed world, from its start or from where it stands, to its end.

The budget is honoured as a study honours it: the batch that would pass it is cut, and nothing is asked for after it.
Such a run may then go on as if there were no budget, so that both are known: what it would take, and what the budget
allows. Until the budget bites the two are the same run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, mapped, take, zeros
from roundwise.policies import Policy
from roundwise.policies.limited import limited
from roundwise.problem import Problem
from roundwise.simulation.environments import Environment
from roundwise.simulation.lockstep import drawn
from roundwise.state import Batch, Trial, joined
from roundwise.stopping import exacting
from roundwise.trial import advance, begin, conclusion, stuck

MOST_ROUNDS = 400  # a run that is not over by then is taken as endless
EXACT_ROUNDS = 40  # rounds of limited size that are followed one by one where no budget is near;
COARSE = 0.05  # after them several are taken together, at most this share of the results so far


class Start(NamedTuple):
    """Where a study stands: its trial, and what came back so far for the batch that is outstanding."""

    trial: Trial  # of one run, ()
    told: Batch | None = None


@dataclass(frozen=True, kw_only=True)
class Ends:
    """How each of many runs ended."""

    counts: Floats  # (runs, K), asked for from here on
    batches: Floats  # (runs), rounds from here on
    decided: Bools  # (runs)
    correct: Bools  # (runs), decided and right
    shown: Bools  # (runs, J), claims that were shown

    @property
    def samples(self) -> Floats:
        """Results asked for from here on. (runs)"""
        return np.asarray(self.counts.sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Many runs: what they needed, and how they ended within the budget."""

    needed: Ends  # as if there were no budget; infinite where no answer was seen
    limited: Ends  # within the budget; the same where there is none
    crossed: Bools  # (runs), the budget was in the way
    followed: Bools  # (runs), the run was followed nevertheless
    truth: Floats  # (runs, K)
    steps: int  # of the longest run: what it took to compute

    @property
    def weights(self) -> Floats:
        """How many runs each stands for in `needed`: 0 where others were followed past the budget for it. (runs)"""
        found = np.ones(len(self.truth))
        seen = self.crossed & self.followed
        if seen.any():
            found[self.crossed] = 0.0
            found[seen] = self.crossed.sum() / seen.sum()
        return found


def joined_paths(parts: Sequence[Paths]) -> Paths:
    """Several lots of runs of the same study."""
    if len(parts) == 1:
        return parts[0]

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def ends(name: str) -> Ends:
        found = [getattr(part, name) for part in parts]
        return Ends(**{each.name: np.concatenate([getattr(one, each.name) for one in found]) for each in fields(Ends)})

    return Paths(
        needed=ends("needed"),
        limited=ends("limited"),
        crossed=column("crossed"),
        followed=column("followed"),
        truth=column("truth"),
        steps=max(part.steps for part in parts),
    )


def ahead(
    problem: Problem,
    policy: Policy,
    environment: Environment,
    *,
    runs: int,
    seed: int,
    block: int = 0,
    start: Start | None = None,
    budget: float | None = None,
    beyond: int | None = None,
    most_rounds: int = MOST_ROUNDS,
) -> Paths:
    """So many runs from the start, or from where a study stands; `beyond` of them are followed past the budget."""
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, stream))) for stream in range(3)]
    game = _Game(problem, policy, environment, start.told if start is not None else None)
    trial = begin(problem, policy, (runs,)) if start is None else repeated(start.trial, runs)
    world = environment.world(rngs[0], runs)
    truth = world.means
    needed, within = _Book.empty(problem, truth), _Book.empty(problem, truth)
    alive, crossed = np.arange(runs), np.zeros(runs, dtype=np.bool_)
    asked, rounds = zeros((runs, problem.arms)), np.zeros(runs)
    first, steps = True, 0
    while alive.size:
        if budget is not None and not crossed[alive].all():
            bites = ~crossed[alive] & (trial.plan.pulls.sum(axis=-1) > budget - trial.record.samples)
            if bites.any():
                who = np.flatnonzero(bites)
                state = _State(take(trial, who), take(world, who), take(asked, who), rounds[who])
                _to_the_end(game, rngs[2], state, alive[who], budget, within, first)
                crossed[alive[who]] = True
                followed = ~bites | (alive < (runs if beyond is None else beyond))
                if not followed.all():
                    keep = np.flatnonzero(followed)
                    alive, trial, world, asked, rounds = alive[keep], *take((trial, world, asked, rounds), keep)
                    continue
        asked, rounds = asked + trial.plan.pulls, rounds + rounds_of(policy, trial.plan.pulls)
        batch, world = game.drawn(rngs[1], world, trial, first)
        first = False
        free = budget is None or bool(crossed[alive].all())
        trial = advance(problem, coarser(policy, trial) if free else policy, trial, batch)
        steps += 1
        over = trial.done | stuck(problem, policy, trial) | (steps >= most_rounds)
        if not over.any():
            continue
        who = np.flatnonzero(over)
        last = take(trial, who)
        needed.write(game, alive[who], last, asked[who], rounds[who])
        apart = ~crossed[alive[who]]
        within.write(game, alive[who][apart], take(last, np.flatnonzero(apart)), asked[who][apart], rounds[who][apart])
        rest = np.flatnonzero(~over)
        trial = trial._replace(batch=Batch(trial.record.counts, trial.record.totals))
        alive, trial, world, asked, rounds = alive[rest], *take((trial, world, asked, rounds), rest)
    followed = ~crossed | np.isfinite(needed.batches)
    undecided = ~needed.decided
    needed.counts[undecided], needed.batches[undecided] = np.inf, np.inf
    return Paths(needed=needed.ends, limited=within.ends, crossed=crossed, followed=followed, truth=truth, steps=steps)


def rounds_of(policy: Policy, pulls: Floats) -> Floats:
    """In how many rounds these pulls are made. (K)->()"""
    most = getattr(policy, "max_batch", None)
    number = pulls.sum(axis=-1)
    return np.asarray(number > 0 if most is None else np.ceil(number / most), dtype=np.float64)


def coarser(policy: Policy, trial: Trial) -> Policy:
    """The policy with several rounds taken together, once there were many of a limited size.

    A forecast of hundreds of rounds would take as many steps; so it is at most half of `COARSE` too large.
    """
    most: float | None = getattr(policy, "max_batch", None)
    if most is None:
        return policy
    at_once = math.floor(COARSE * float(trial.record.samples.min()) / most)
    if trial.record.samples.min() < EXACT_ROUNDS * most or at_once < 2:
        return policy
    found: Policy = dataclasses.replace(policy, max_batch=at_once * most)  # type: ignore[type-var]
    return found


def repeated(trial: Trial, runs: int) -> Trial:
    """The same trial in so many runs."""
    found: Trial = mapped(lambda array: np.repeat(np.asarray(array)[None], runs, axis=0), trial)
    return found


class _State(NamedTuple):
    trial: Trial
    world: Any
    asked: Floats
    rounds: Floats


@dataclass(frozen=True)
class _Game:
    problem: Problem
    policy: Policy
    environment: Environment
    told: Batch | None  # of the first batch

    def drawn(self, rng: np.random.Generator, world: Any, trial: Trial, first: bool) -> tuple[Batch, Any]:
        """What comes back for the plan; for an outstanding batch, with what has come already."""
        pulls, parts = trial.plan.pulls, trial.plan.parts
        if not first or self.told is None:
            return drawn(self.problem, self.environment, rng, world, pulls, parts)
        told = mapped(lambda array: np.repeat(array[None], len(pulls), axis=0), self.told._replace(parts=()))
        rest = np.maximum(pulls - told.counts, 0.0)
        batch, world = self.environment.pull(rng, world, rest, self.problem.noise.needs)
        if told.table is None or batch.table is None:
            told, batch = told._replace(table=None), batch._replace(table=None)
        return joined([told, batch])._replace(parts=()), world


@dataclass(frozen=True)
class _Book:
    """How runs ended, written as they do."""

    truth: Floats
    counts: Floats
    batches: Floats
    decided: Bools
    correct: Bools
    shown: Bools

    @classmethod
    def empty(cls, problem: Problem, truth: Floats) -> _Book:
        runs = len(truth)
        no = np.zeros(runs, dtype=np.bool_)
        counts = np.full(truth.shape, np.inf)
        shown = np.zeros((runs, len(claims_of(problem))), dtype=np.bool_)
        return cls(truth, counts, np.full(runs, np.inf), no, no.copy(), shown)

    def write(self, game: _Game, who: Any, trial: Trial, asked: Floats, rounds: Floats) -> None:
        """These runs ended so."""
        if not len(who):
            return
        answer = conclusion(game.problem, game.policy, trial)
        self.counts[who], self.batches[who], self.decided[who] = asked, rounds, trial.done
        self.correct[who] = trial.done & game.problem.question.correct(answer, self.truth[who])
        if self.shown.shape[-1]:
            self.shown[who] = trial.done[:, None] & np.asarray(answer, dtype=np.bool_)

    @property
    def ends(self) -> Ends:
        return Ends(**{each.name: getattr(self, each.name) for each in fields(Ends)})


def claims_of(problem: Problem) -> tuple[str, ...]:
    """What the question claims one by one, in words; nothing where it has one answer."""
    return tuple(getattr(problem.question, "names", ())) if problem.question.name == "statements" else ()


def _to_the_end(
    game: _Game, rng: np.random.Generator, state: _State, who: Any, budget: float, book: _Book, first: bool
) -> None:
    """These runs with what is left of the budget: the batch that passes it is cut, and then nothing more is asked."""
    trial, world, asked, rounds = state
    if exacting(game.policy.stopping):  # it needs every batch just as planned
        book.write(game, who, trial, asked, rounds)
        return
    while len(who):
        left = np.maximum(budget - trial.record.samples, 0.0)
        pulls = limited(trial.plan.pulls, left, 0.0, so_far=trial.record)
        trial = trial._replace(plan=trial.plan._replace(pulls=pulls))
        spent = pulls.sum(axis=-1) == 0
        if not spent.any():
            batch, world = game.drawn(rng, world, trial, first)
            first = False
            trial = advance(game.problem, game.policy, trial, batch)
            asked, rounds = asked + pulls, rounds + 1
            spent = trial.done | stuck(game.problem, game.policy, trial)
        ended, rest = np.flatnonzero(spent), np.flatnonzero(~spent)
        book.write(game, who[ended], take(trial, ended), asked[ended], rounds[ended])
        who, trial, world, asked, rounds = who[rest], *take((trial, world, asked, rounds), rest)
