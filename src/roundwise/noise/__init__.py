"""What is assumed of the rewards, and the bets that it allows."""

from roundwise.noise.models import (
    Binary,
    Bounded,
    Gaussian,
    Needs,
    Noise,
    Poisson,
    SubGaussian,
    UnknownVariance,
    range_of_means,
)

__all__ = [
    "Binary",
    "Bounded",
    "Gaussian",
    "Needs",
    "Noise",
    "Poisson",
    "SubGaussian",
    "UnknownVariance",
    "range_of_means",
]
