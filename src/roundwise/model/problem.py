"""The problem to be solved: a question, asked of so many arms, under a noise model, at a level delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.noise import Gaussian, Noise
from roundwise.questions import Complexity, Question
from roundwise.questions.base import Answer


@dataclass(frozen=True)
class Problem:
    """A question asked of a number of arms: find the answer with error probability at most delta.

    Args:
        question: What is asked about the means.
        arms: K, how many arms there are.
        delta: The error probability.
        noise: What is assumed of the rewards.

    >>> from roundwise.questions import BestArm
    >>> Problem(BestArm(), arms=10, delta=0.05).sigma
    1.0
    """

    question: Question
    arms: int
    delta: float = 0.05
    noise: Noise = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        if not isinstance(self.question, Question):
            raise InputError(
                f"A '{type(self.question).__name__}' is no question: derive its class from roundwise.Question."
            )
        check_delta(self.delta)
        if not float(self.arms).is_integer():
            raise InputError(f"`arms` is {self.arms}, but must be a whole number.")
        self.question.check(self.arms)
        self.noise.check_arms(self.arms)
        self.question.check_range(*self.noise.mean_range)

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant of the rewards."""
        return self.noise.sigma

    def weighed(self, counts: Floats) -> Floats:
        """Counts in results of deviation sigma: N_i sigma^2/sigma_i^2, where arms have deviations of their own."""
        return counts if self.noise.arm_sigmas is None else counts * (self.sigma / self.noise.arm_sigmas) ** 2

    def evidence(self, counts: Floats, means: Floats) -> Floats:
        """The generalised likelihood ratio of the answer with the most evidence."""
        return self.question.evidence(self.weighed(counts), means, self.sigma)

    def verdict(self, counts: Floats, means: Floats) -> Answer:
        """The answer that the evidence is for."""
        return self.question.verdict(self.weighed(counts), means)

    def fitted(self, counts: Floats, means: Floats) -> Floats:
        """What is known of the means, from those of the arms."""
        return self.question.fit_means(self.weighed(counts), means)

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0) -> Complexity:
        """T* and w*, or with a radius their worst case over the ball."""
        if self.noise.arm_sigmas is None:
            return self.question.complexity(means, radius, self.sigma)
        return self.question.complexity_with_sigmas(means, radius, self.noise.arm_sigmas)

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0) -> Floats:
        """A cheap lower bound on it."""
        if self.noise.arm_sigmas is None:
            return self.question.floor(means, radius, self.sigma)
        return self.question.floor_with_sigmas(means, radius, self.noise.arm_sigmas)

    @property
    def goal(self) -> float:
        """ln(1/delta): how much must be won against a wrong answer."""
        return math.log(1 / self.delta)


def check_delta(delta: float) -> None:
    """Raise an InputError unless delta lies strictly between 0 and 1."""
    if 0 < delta < 1e-300:
        raise InputError(f"`delta` is {delta:g}, but numbers below 1e-300 cannot be reckoned with.")
    if 0 < 1 - delta < 1e-9:
        raise InputError(f"`delta` is {delta:.12g}: an error that is all but certain can be had without any result.")
    if not 0 < delta < 1:
        hint = f" For {delta:g} % write {delta / 100:g}." if 1 <= delta < 100 and math.isfinite(delta) else ""
        raise InputError(f"`delta` is {delta:g}, but must lie strictly between 0 and 1.{hint}")


def check_whole_number(name: str, value: object, least: int) -> int:
    """The value as a whole number of at least so much, also of 1e6; an InputError if it is none."""
    try:
        number = int(value)  # type: ignore[call-overload]
        good = number == value and number >= least and not isinstance(value, bool | str)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        found = f"{value:g}" if isinstance(value, float) else repr(value)
        raise InputError(f"`{name}` is {found}, but must be a whole number of at least {least}.")
    return int(number)
