"""What results, rounds and days cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.fields import quantity
from roundwise.planning.quantities import one_for_each


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The price of one result of each arm, of a round, and how many days a round takes."""

    sample: tuple[float, ...] | None = None  # one for each arm
    batch: float = 0.0
    days: float | None = None  # of a round

    def __post_init__(self) -> None:
        numbers = [*(self.sample or ()), self.batch, self.days or 0.0]
        if not all(math.isfinite(each) and each >= 0 for each in numbers):
            raise InputError("Costs and days must be numbers of at least 0.")

    @property
    def known(self) -> bool:
        """Whether anything has a price."""
        return bool(self.sample and any(self.sample)) or self.batch > 0

    def of(self, counts: Floats, batches: Floats) -> Floats:
        """What these results and rounds cost; what never ends has no price. (K)->()"""
        prices = np.zeros(counts.shape[-1]) if self.sample is None else np.asarray(self.sample)
        ends = np.isfinite(batches)
        cost = np.where(ends[..., None], counts, 0.0) @ prices + self.batch * np.where(ends, batches, 0.0)
        return np.where(ends, cost, np.inf)

    @property
    def price_of_batch(self) -> float | None:
        """A round in results of average price: what the policy is to weigh it with."""
        mean = float(np.mean(self.sample)) if self.sample else 0.0
        return self.batch / mean if mean > 0 and self.batch > 0 else None


def costs_of(
    sample: str | float | Sequence[float] | Mapping[str, float] | None,
    batch: str | float,
    days: str | float | None,
    names: Sequence[str],
) -> Costs:
    """Prices as people write them: of a result, one for all arms or one each; of a round; and its days."""
    return Costs(
        sample=None if sample is None else tuple(one_for_each(sample, names, "sample cost").tolist()),
        batch=quantity(batch, "batch_cost"),
        days=None if days is None else quantity(days, "batch_days"),
    )
