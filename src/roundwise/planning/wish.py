"""What is planned: a study as `new` would create it, what is expected of it, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roundwise.noise import Noise, items_of, without_items
from roundwise.planning.items import SHARED, AlikeItems
from roundwise.planning.quantities import Costs
from roundwise.planning.worlds import Unreliable, world_of, worlds_of
from roundwise.policies import Policy
from roundwise.problem import Problem
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.studies.results.columns import NAMELESS, Columns
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
    columns: Columns = NAMELESS  # what the columns of its files are called
    shared: float = SHARED  # how alike arms do on an item, where they are tried on the same

    @property
    def problem(self) -> Problem:
        """The problem in arrays."""
        return Problem(self.question, len(self.names), self.delta, self.noise)

    @property
    def of_items(self) -> bool:
        """Whether arms are tried on the same items."""
        return items_of(self.noise) is not None

    @property
    def alone(self) -> Wish:
        """The same as if every arm had items of its own."""
        return replace(self, noise=without_items(self.noise))

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
            columns=self.columns,
        )

    @property
    def acting(self) -> Policy:
        """The policy within budget, round and split, as the study would ask it."""
        return self.settings.acting

    def worlds(self, rows: Sequence[Sequence[float]]) -> Environment:
        """The worlds of several rows at once: run i is one of row i modulo their number."""
        means = np.asarray(rows, dtype=np.float64)
        if self.of_items:
            return AlikeItems(self.noise, means, self.shared, self.missing, self.deviation)
        world = worlds_of(self.noise, means, self.deviation)
        return Unreliable(world, self.missing) if self.missing else world

    def world(self, means: Sequence[float]) -> Environment:
        """Results as they would come back."""
        if self.of_items:
            return self.worlds([means])
        world = world_of(self.noise, np.asarray(means, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world
