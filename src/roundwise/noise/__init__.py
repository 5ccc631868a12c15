"""What is assumed of the rewards, and the bets that it allows: one file a model, each a section of the proof page."""

from roundwise.noise.base import (
    Needs,
    Noise,
    Outcome,
    check_arms,
    deviations_of,
    doubt,
    family_of,
    items_of,
    known_sigma,
    range_of_means,
    variances,
    without_items,
)
from roundwise.noise.binary import Binary
from roundwise.noise.bounded import Bounded
from roundwise.noise.crossed import PairedBinary, PairedBounded, PairedNormal, with_items
from roundwise.noise.gaussian import Gaussian, SubGaussian
from roundwise.noise.poisson import Poisson
from roundwise.noise.sigma_by_arm import HeteroscedasticGaussian
from roundwise.noise.unknown_variance import UnknownVariance

_KINDS = (
    Binary,
    Bounded,
    HeteroscedasticGaussian,
    Gaussian,
    PairedBinary,
    PairedBounded,
    PairedNormal,
    Poisson,
    SubGaussian,
)
NOISES: dict[str, type[Noise]] = {each.name: each for each in (*_KINDS, UnknownVariance)}

__all__ = [
    "NOISES",
    "Binary",
    "Bounded",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Needs",
    "Noise",
    "Outcome",
    "PairedBinary",
    "PairedBounded",
    "PairedNormal",
    "Poisson",
    "SubGaussian",
    "UnknownVariance",
    "check_arms",
    "deviations_of",
    "doubt",
    "family_of",
    "items_of",
    "known_sigma",
    "range_of_means",
    "variances",
    "with_items",
    "without_items",
]
