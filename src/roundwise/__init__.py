"""roundwise finds the best of several noisy options when results come in batches, with error at most delta.

Arrays have the arms on the last axis, and independent runs on every axis before it: a live experiment has shape (K,),
a simulation (runs, K), and every function takes both.
"""

from roundwise.environments import BernoulliArms, GaussianArms, PoissonArms, RandomGaps, Replay
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.noise import Binary, Bounded, Gaussian, Poisson, SubGaussian, UnknownVariance
from roundwise.policies import PET, OptBBAI, RoundRobin, TrackAndStop, TriBBAI, Wager
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Statements, TopK
from roundwise.record import Batch
from roundwise.simulate import simulate
from roundwise.stopping import GLR, Counts, Heuristic, Mixture, Pairwise, Sum
from roundwise.trial import advance, begin, conclusion

__version__ = "0.1.0"

_STUDIES = ("Study", "create_study", "load_study")


def __getattr__(name: str) -> object:
    """Live studies are imported when they are first used."""
    if name in _STUDIES:
        from roundwise import study

        return getattr(study, name)
    raise AttributeError(f"module 'roundwise' has no attribute '{name}'")


__all__ = [
    "GLR",
    "PET",
    "Above",
    "AnyAbove",
    "Batch",
    "BernoulliArms",
    "BestArm",
    "Binary",
    "Bounded",
    "Counts",
    "DataError",
    "Gaussian",
    "GaussianArms",
    "Heuristic",
    "InputError",
    "Largest",
    "MinimumBelow",
    "Mixture",
    "OptBBAI",
    "Pairwise",
    "Poisson",
    "PoissonArms",
    "Problem",
    "RandomGaps",
    "Replay",
    "RoundRobin",
    "RoundwiseError",
    "Statements",
    "Study",
    "SubGaussian",
    "Sum",
    "TopK",
    "TrackAndStop",
    "TriBBAI",
    "UnknownVariance",
    "Wager",
    "advance",
    "begin",
    "conclusion",
    "create_study",
    "load_study",
    "simulate",
]
