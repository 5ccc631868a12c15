"""A replayed environment: real outcomes of a table, drawn anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.noise import Binary, Bounded, Needs, Noise
from roundwise.simulation.environments import (
    ArmState,
    Environment,
    Generator,
    batch_of_values,
    draw_without_replacement,
)
from roundwise.simulation.tables import read_outcomes


@dataclass(frozen=True, eq=False)
class Replay(Environment[ArmState]):
    """Real outcomes, drawn with or without replacement; the truth is the mean of the table, known exactly.

    Args:
        labels: The names of the arms.
        outcomes: The values that occur, (m).
        counts: How often each arm had each outcome, (K, m).
        replacement: Whether outcomes are drawn with replacement; without it there is no guarantee.
    """

    labels: tuple[str, ...]
    outcomes: Floats
    counts: Floats
    replacement: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcomes", np.asarray(self.outcomes, dtype=np.float64))
        object.__setattr__(self, "counts", np.asarray(self.counts, dtype=np.float64))
        if self.counts.shape != (len(self.labels), self.outcomes.size):
            raise InputError("`counts` must have a row for each name and a column for each outcome.")

    @classmethod
    def from_csv(cls, path: str | Path, instance: str | None = None, replacement: bool = True) -> Replay:
        """The table `arm,outcome,count` of a file, or of one `instance` in it."""
        names, outcomes, counts = read_outcomes(Path(path), instance)
        return cls(names, outcomes, counts, replacement)

    @property
    def arms(self) -> int:
        return len(self.labels)

    @property
    def noise(self) -> Noise:
        if set(self.outcomes.tolist()) <= {0.0, 1.0}:
            return Binary()
        return Bounded(float(self.outcomes.min()), float(self.outcomes.max()))

    @property
    def doubt(self) -> Reason | None:
        return None if self.replacement else Reason("without_replacement")

    def clipped(self, low: float, high: float) -> Replay:
        return replace(self, outcomes=np.clip(self.outcomes, low, high))

    def initial_state(self, rng: Generator, runs: int) -> ArmState:
        means = (self.counts @ self.outcomes) / self.counts.sum(axis=-1)
        left = None if self.replacement else np.broadcast_to(self.counts, (runs, *self.counts.shape))
        return ArmState(zeros((runs, self.arms)) + means, left)

    @property
    def names(self) -> tuple[str, ...]:
        return self.labels

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        if state.left is None:
            shares = self.counts / self.counts.sum(axis=-1, keepdims=True)
            drawn = rng.multinomial(pulls.astype(np.int64), shares).astype(np.float64)  # (runs, K, m)
            return batch_of_values(self.outcomes, drawn, needs), state
        drawn = draw_without_replacement(rng, state.left, np.minimum(pulls, state.left.sum(axis=-1)))
        return batch_of_values(self.outcomes, drawn, needs), state._replace(left=state.left - drawn)
