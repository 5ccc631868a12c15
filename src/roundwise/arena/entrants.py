"""Who takes part: every policy, with what it must be told of a contest, and a user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roundwise.arena.contests import Contest
from roundwise.policies import (
    LUCB,
    PET,
    Agarwal,
    BatchRacing,
    Chances,
    ClassicTrackAndStop,
    Elimination,
    Hillel,
    Jin2019,
    Karpov,
    OptBBAI,
    Policy,
    RoundRobin,
    TopTwo,
    TrackAndStop,
    TriBBAI,
    Wager,
)
from roundwise.spec import made

LOOKS = 50  # of a sequential yardstick, until it has as many results as the lower bound
SEQUENTIAL_ARMS, SEQUENTIAL_BOUND = 15, 2500.0  # arms and lower bounds up to which they take part: they pull one by one


@dataclass(frozen=True)
class Entrant:
    """A policy by name, made for a contest; None where it is not in its league."""

    name: str
    made: Callable[[Contest], Policy | None]
    sequential: bool = False  # looks after every few results: a yardstick, not for use in batches


def _always(policy: Policy) -> Callable[[Contest], Policy | None]:
    return lambda contest: policy


def _not_for_claims(policy: Policy) -> Callable[[Contest], Policy | None]:
    """Claims are shown one by one, also by a study that ends with some of them open: these rules say all or nothing."""
    return lambda contest: None if contest.question == "claims" else policy


def _agarwal(contest: Contest) -> Policy | None:
    return None if contest.gap is None else Agarwal(gap=contest.gap)


def _looks(make: Callable[[int], Policy]) -> Callable[[Contest], Policy | None]:
    """A sequential policy that looks about fifty times until the lower bound."""
    return lambda contest: (
        None
        if contest.problem.arms > SEQUENTIAL_ARMS
        or contest.lower_bound > SEQUENTIAL_BOUND
        or contest.question == "claims"
        else make(max(1, math.ceil(contest.lower_bound / LOOKS)))
    )


BUILT_IN: tuple[Entrant, ...] = (
    Entrant("Wager", _always(Wager())),
    Entrant("Wager, dear batches", _always(Wager(batch_price=1000.0))),
    Entrant("Chances", _always(Chances())),
    Entrant("PET", _not_for_claims(PET())),
    Entrant("Round Robin", _not_for_claims(RoundRobin())),
    Entrant("Track-and-Stop, batched", _not_for_claims(TrackAndStop())),
    Entrant("Tri-BBAI", _always(TriBBAI())),
    Entrant("Opt-BBAI", _always(OptBBAI())),
    Entrant("Elimination", _always(Elimination())),
    Entrant("Hillel 2013", _always(Hillel())),
    Entrant("Agarwal 2017, told the gap", _agarwal),
    Entrant("Jin 2019", _always(Jin2019())),
    Entrant("Karpov 2020", _always(Karpov())),
    Entrant("BatchRacing", _always(BatchRacing())),
    Entrant("Track-and-Stop, sequential", _looks(lambda b: ClassicTrackAndStop(batch=b)), sequential=True),
    Entrant("LUCB, sequential", _looks(lambda b: LUCB(batch=float(max(b, 2)))), sequential=True),
    Entrant("Top two, sequential", _looks(lambda b: TopTwo(batch=b)), sequential=True),
)


def entrants(own: Sequence[str] = ()) -> tuple[Entrant, ...]:
    """All that are built in, and a user's own, written as on the command line."""
    return (*BUILT_IN, *(Entrant(words, _always(made("policy", words, trusted=True))) for words in own))
