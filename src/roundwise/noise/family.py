"""The family of laws that a noise model is, where it is one: for complexities with its own divergences."""

from __future__ import annotations

from roundwise.noise.base import Noise
from roundwise.noise.binary import Binary
from roundwise.noise.poisson import Poisson
from roundwise.questions.families import BinaryFamily, Family, PoissonFamily


def family_of(noise: Noise) -> Family | None:
    """The one-parameter family of these rewards; None where means do not say all, and for normal rewards.

    Those have the complexities that the questions give themselves.
    """
    if isinstance(noise, Binary):
        return BinaryFamily()
    return PoissonFamily() if isinstance(noise, Poisson) else None
