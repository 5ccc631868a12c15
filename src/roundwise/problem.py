"""The problem to be solved: a question, asked of so many arms, under a noise model, at a level delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from roundwise.errors import InputError
from roundwise.noise import Gaussian, Noise, range_of_means
from roundwise.questions import Question
from roundwise.questions.besides import check_range


@dataclass(frozen=True)
class Problem:
    """A question asked of `arms` arms: find the answer with error probability at most delta.

    >>> from roundwise.questions import BestArm
    >>> Problem(BestArm(), arms=10, delta=0.05).sigma
    1.0
    """

    question: Question
    arms: int  # K
    delta: float = 0.05
    noise: Noise = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        if not float(self.arms).is_integer():
            raise InputError(f"`arms` is {self.arms}, but must be a whole number.")
        self.question.check(self.arms)
        check_range(self.question, *range_of_means(self.noise))

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant of the rewards."""
        return self.noise.sigma

    @property
    def goal(self) -> float:
        """ln(1/delta): how much must be won against a wrong answer."""
        return math.log(1 / self.delta)


def checked_delta(delta: float) -> None:
    """Raise an InputError unless delta lies strictly between 0 and 1."""
    if 0 < delta < 1e-300:
        raise InputError(f"`delta` is {delta:g}, but numbers below 1e-300 cannot be reckoned with.")
    if 0 < 1 - delta < 1e-9:
        raise InputError(f"`delta` is {delta:.12g}: an error that is all but certain can be had without any result.")
    if not 0 < delta < 1:
        hint = f" For {delta:g} % write {delta / 100:g}." if 1 <= delta < 100 and math.isfinite(delta) else ""
        raise InputError(f"`delta` is {delta:g}, but must lie strictly between 0 and 1.{hint}")
