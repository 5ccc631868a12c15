"""What algorithms share that accept and reject arms until the best k are found: where the race stands, and who leaves.

With bounds that hold (L_i <= mu_i <= U_i, or only L_a - U_b <= mu_a - mu_b for a of the best k and b not), nobody is
placed wrongly: were an arm accepted that is not among the best k, then one of those that are, and are still in the
race, would have a U below its L; likewise for rejected arms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import check_sigma, checked, everywhere, undeclared
from roundwise.questions import BestArm
from roundwise.questions.base import RankingQuestion


class Race(NamedTuple):
    """Where such an algorithm stands."""

    round: Floats  # r, from 1
    place: Floats  # (K): 1 accepted, 0 still in the race, -1 rejected

    @property
    def racing(self) -> Bools:
        """Who is still in. (K)"""
        return np.asarray(self.place == 0)


def started(problem: Problem, runs: tuple[int, ...]) -> Race:
    """Everyone is in, in the first round."""
    return Race(np.ones(runs), zeros((*runs, problem.arms)))


def first_round(problem: Problem, runs: tuple[int, ...], each: float) -> BatchPlan[Race]:
    """So many pulls of every arm, with nothing declared."""
    pulls, asked = everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_)
    return BatchPlan(pulls, asked, started(problem, runs), declared=undeclared(problem, runs))


def next_round(
    problem: Problem,
    trial: Trial[Race],
    reach: Floats,
    goal: Callable[[Floats], Floats],
    declared: Callable[[Race], Declaration] | None = None,
) -> BatchPlan[Race]:
    """Place who can be placed with differences known to `reach`; pull the others up to the goal of the next round."""
    race, means = trial.plan.memory, trial.record.means
    after = placed(problem, race, means - reach[..., None] / 2, means + reach[..., None] / 2)
    found = outcome(problem, after) if declared is None else declared(after)
    after = after._replace(round=race.round + 1)
    pulls = np.where(after.racing, np.maximum(goal(after.round)[..., None] - trial.record.counts, 1.0), 0.0)
    return BatchPlan(pulls, trial.plan.may_stop, after, declared=found)


def placed(problem: Problem, race: Race, lower: Floats, upper: Floats) -> Race:
    """Accept whose L exceeds the (k'+1)-th largest U, reject whose U is below the k'-th largest L, k' places left."""
    racing = race.racing
    places = ranking(problem).number_sought - (race.place > 0).sum(axis=-1)
    rival = ranked(np.where(racing, upper, -np.inf), places)
    last = ranked(np.where(racing, lower, -np.inf), places - 1)
    accepted = racing & (lower > rival[..., None])
    rejected = racing & ~accepted & (upper < last[..., None])
    return race._replace(place=race.place + accepted - rejected)


def ranked(values: Floats, rank: NDArray[np.intp]) -> Floats:
    """The value of this rank, 0 for the largest; infinity before the first and minus infinity after the last."""
    ordered = -np.sort(-values, axis=-1)
    inside = np.clip(rank, 0, values.shape[-1] - 1)
    found = np.take_along_axis(ordered, inside[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(rank < 0, np.inf, np.where(rank >= values.shape[-1], -np.inf, found)))


def outcome(problem: Problem, race: Race) -> Declaration:
    """The accepted arms, once they are all."""
    accepted, sought = race.place > 0, ranking(problem)
    return Declaration(np.asarray(accepted.sum(axis=-1) == sought.number_sought), sought.answer_from_set(accepted))


def ranking(problem: Problem) -> RankingQuestion:
    """The question, which asks for the arms with the largest means."""
    question = problem.question
    if not isinstance(question, RankingQuestion):
        raise InputError(f"The question '{question.name}' does not ask for the arms with the largest means.")
    return question


def leading(values: Floats, number: NDArray[np.intp]) -> Bools:
    """The arms with the largest values, so many of each run; the first ones in a tie. (K),()->(K)"""
    places = np.argsort(np.argsort(-values, axis=-1, kind="stable"), axis=-1)
    return np.asarray(places < number[..., None])


def check_racing(name: str, problem: Problem, sets: bool = True, tolerant: bool = False) -> None:
    """Raise an InputError unless the question is best arm, or (with `sets`) top-k, and a tolerance is allowed."""
    check_sigma(problem)
    question = problem.question
    fits = question.number_sought is not None and (sets or question.name == BestArm.name)
    answers = "'best-arm' and 'top-k'" if sets else "'best-arm'"
    checked(fits, f"The policy '{name}' answers {answers} only, not '{question.name}'.")
    checked(
        tolerant or not question.tolerance,
        f"The policy '{name}' is proved for one right answer: it takes no tolerance.",
    )
