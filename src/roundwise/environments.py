"""Environments for simulations: where rewards come from, simulated or replayed from a table.

>>> from roundwise import BestArm, Wager, simulate
>>> from roundwise.environments import PoissonArms
>>> (runs,) = simulate(BestArm(), PoissonArms([3.0, 1.0]), [Wager()], runs=5)
>>> runs.correct.all()
np.True_

An environment of your own derives from `Environment` (docs/own.md).
"""

from roundwise.simulation.environments import (
    ArmState,
    BernoulliArms,
    Environment,
    FamilyArms,
    GaussianArms,
    PoissonArms,
    RandomGaps,
)
from roundwise.simulation.items import ItemReplay, NormalItems, StickItems
from roundwise.simulation.replay import Replay

__all__ = [
    "ArmState",
    "BernoulliArms",
    "Environment",
    "FamilyArms",
    "GaussianArms",
    "ItemReplay",
    "NormalItems",
    "PoissonArms",
    "RandomGaps",
    "Replay",
    "StickItems",
]
