"""What is planned: a study as `new` would create it, what is expected of it, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.noise import Noise
from roundwise.planning.costs import Costs
from roundwise.planning.worlds import Unreliable, world_of, worlds_of
from roundwise.policies import Policy
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
    def settings(self) -> Settings:
        """What the study would be created with; its own seed is drawn then."""
        return Settings(
            self.question,
            self.names,
            self.noise,
            self.delta,
            self.policy,
            seed=0,
            budget=self.budget,
            round=self.round,
            split=self.split,
        )

    @property
    def acting(self) -> Policy:
        """The policy within budget, round and split, as the study would ask it."""
        return self.settings.acting

    def worlds(self, rows: Sequence[Sequence[float]]) -> Environment:
        """The worlds of several rows at once: run i is one of row i modulo their number."""
        world = worlds_of(self.noise, np.asarray(rows, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world

    def world(self, means: Sequence[float]) -> Environment:
        """Results as they would come back."""
        world = world_of(self.noise, np.asarray(means, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world
