"""What is assumed of the rewards: sigma-sub-Gaussian with known sigma, its usual sources, and two models without.

The paper assumes that every arm is sigma-sub-Gaussian: E exp(s (X - mu)) <= exp(sigma^2 s^2 / 2) for all s.
Normal rewards with standard deviation sigma are; so are rewards in [low, high] with sigma = (high - low)/2
(Hoeffding's lemma), and 0/1 outcomes with sigma = 1/2. Every policy takes these. `UnknownVariance` and `Poisson` have
no known sigma: only Wager, which has bets made for them, takes those.

`needs` is what a model wants to see of the data: "sums" (count and total), "squares" (also the sum of squares) or
"rows" (every value; without them it falls back to its sigma).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from roundwise.errors import InputError

Needs = Literal["sums", "squares", "rows"]


class Noise(Protocol):
    """What is assumed of the rewards."""

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant; an InputError where there is none."""

    @property
    def needs(self) -> Needs:
        """What it wants to see of the data."""


@dataclass(frozen=True)
class SubGaussian:
    """Any rewards that are sigma-sub-Gaussian.

    >>> SubGaussian(2.0).sigma
    2.0
    """

    sigma: float = 1.0
    needs: ClassVar[Needs] = "sums"

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise InputError(f"`sigma` is {self.sigma:g}, but must be a positive number.")
        if not 1e-100 < self.sigma < 1e100:
            raise InputError(f"`sigma` is {self.sigma:g}: its square cannot be reckoned with; use other units.")


@dataclass(frozen=True)
class Gaussian:
    """Normal rewards with known standard deviation sigma.

    >>> Gaussian(0.5).sigma
    0.5
    """

    sigma: float = 1.0
    needs: ClassVar[Needs] = "sums"

    def __post_init__(self) -> None:
        SubGaussian(self.sigma)


@dataclass(frozen=True)
class Bounded:
    """Rewards that always lie in [low, high].

    >>> Bounded(1, 3).sigma
    1.0
    """

    low: float
    high: float
    needs: ClassVar[Needs] = "rows"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"The range [{self.low:g}, {self.high:g}] is empty: the first number must be below the second."
            )

    @property
    def sigma(self) -> float:
        """Half the range (Hoeffding's lemma)."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Binary:
    """Outcomes that are 0 or 1.

    >>> Binary().sigma
    0.5
    """

    needs: ClassVar[Needs] = "sums"

    @property
    def sigma(self) -> float:
        """Half the range (Hoeffding's lemma)."""
        return 0.5


@dataclass(frozen=True)
class UnknownVariance:
    """Normal rewards with the same, unknown standard deviation for every arm."""

    needs: ClassVar[Needs] = "squares"

    @property
    def sigma(self) -> float:
        """There is none."""
        raise InputError(
            "With an unknown variance there is no sigma: use the policy 'wager', or say which sigma to use."
        )


@dataclass(frozen=True)
class Poisson:
    """Counts of events: Poisson with one rate for each arm, per pull."""

    needs: ClassVar[Needs] = "sums"

    @property
    def sigma(self) -> float:
        """There is none: the tails are heavier than normal."""
        raise InputError("Poisson counts have no sigma: use the policy 'wager', which has bets made for them.")


def range_of_means(noise: Noise) -> tuple[float, float]:
    """Where means can lie at all."""
    if isinstance(noise, Bounded):
        return noise.low, noise.high
    if isinstance(noise, Binary):
        return 0.0, 1.0
    return (0.0 if isinstance(noise, Poisson) else -math.inf), math.inf
