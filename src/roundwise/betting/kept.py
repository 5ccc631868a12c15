"""What a rule of bets keeps between batches, and what was placed on each."""

from __future__ import annotations

from typing import Any, NamedTuple

from roundwise.arrays import Bools
from roundwise.estimates import Known
from roundwise.noise import Binary, Bounded, Gaussian, Poisson, UnknownVariance
from roundwise.noise.bettors import (
    Bettor,
    BinaryBettor,
    BoundedBettor,
    GaussianBettor,
    PoissonBettor,
    StudentBettor,
)
from roundwise.problem import Problem
from roundwise.state import Batch


class Kept(NamedTuple):
    """The money, what was seen, and what the next batch will be bet on."""

    won: Any  # of the ledger
    known: Known
    choice: Any  # of the ledger; fixed before the next batch


class Placed(NamedTuple):
    """A bet: what was won, known and chosen before, the results it is on, and in which runs it counts."""

    won: Any  # of the ledger
    known: Known
    choice: Any
    part: Batch
    live: Bools


def bettor_of(problem: Problem) -> Bettor:
    """The bets that the noise model allows."""
    noise = problem.noise
    if isinstance(noise, Binary):
        return BinaryBettor()
    if isinstance(noise, Poisson):
        return PoissonBettor()
    if isinstance(noise, UnknownVariance):
        return StudentBettor()
    if isinstance(noise, Bounded):
        return BoundedBettor(noise.low, noise.high)
    return GaussianBettor(noise.sigma, exact=isinstance(noise, Gaussian))
