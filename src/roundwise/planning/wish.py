"""What is planned: a study as `new` would create it, what is expected of it, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roundwise.noise import Noise
from roundwise.planning.costs import Costs
from roundwise.planning.worlds import Unreliable, world_of
from roundwise.policies import Policy, Rounds
from roundwise.problem import Problem
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.studies.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is planned: a study as `new` would create it, and what is expected and paid."""

    name: str
    question: Question
    names: tuple[str, ...]
    noise: Noise
    delta: float
    policy: Policy  # with its limits
    budget: int | None
    round: int | None  # results that make a round, if that is fixed
    split: tuple[float, ...] | None  # shares of the arms, if they are fixed
    costs: Costs
    missing: float
    deviation: float | None  # of one result, where the noise model does not say it
    power: float  # of the fixed design
    seed: int

    @property
    def problem(self) -> Problem:
        """The problem in arrays."""
        return Problem(self.question, len(self.names), self.delta, self.noise)

    @property
    def acting(self) -> Policy:
        """The policy within budget, round and split, as the study would ask it."""
        if self.budget is None and self.round is None and self.split is None:
            return self.policy
        return Rounds(self.policy, self.budget, self.round, self.split)

    def check(self) -> None:
        """Raise an InputError if such a study could not be created."""
        Settings(self.question, self.names, self.noise, self.delta, self.policy, 0, self.budget)
        self.acting.check(self.problem)

    @property
    def payload(self) -> dict[str, Any]:
        """The settings of the study as JSON, without its seed, which is drawn when it is created."""
        fields = Settings(self.question, self.names, self.noise, self.delta, self.policy, 0, self.budget).payload()
        more = {"round": self.round, "split": None if self.split is None else list(self.split)}
        found = {**fields, **{key: value for key, value in more.items() if value is not None}}
        del found["seed"]
        return found

    def world(self, means: Sequence[float]) -> Environment:
        """Results as they would come back."""
        world = world_of(self.noise, np.asarray(means, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world
