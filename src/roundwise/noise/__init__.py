"""Noise models: assumptions about rewards, and the bets that they allow. The built-in models are in `_MODELS`."""

from roundwise.noise.base import Needs, Noise, Outcome
from roundwise.noise.bounded import Binary, Bounded, Capped, PairedBinary, PairedBounded
from roundwise.noise.bounded_variance import BoundedVariance
from roundwise.noise.gaussian import (
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    Normal,
    PairedNormal,
    SubGaussian,
)
from roundwise.noise.large_sample import LargeSample
from roundwise.noise.poisson import Poisson

_MODELS = (
    Binary, Bounded, BoundedVariance, Capped, HeteroscedasticGaussian, Gaussian, LargeSample, Normal, PairedBinary,
    PairedBounded, PairedNormal, Poisson, EqualVariances, SubGaussian,
)  # fmt: skip
NOISES: dict[str, type[Noise]] = {each.name: each for each in _MODELS}

__all__ = [
    "NOISES",
    "Binary",
    "Bounded",
    "BoundedVariance",
    "Capped",
    "EqualVariances",
    "Gaussian",
    "HeteroscedasticGaussian",
    "LargeSample",
    "Needs",
    "Noise",
    "Normal",
    "Outcome",
    "PairedBinary",
    "PairedBounded",
    "PairedNormal",
    "Poisson",
    "SubGaussian",
]  # fmt: skip
