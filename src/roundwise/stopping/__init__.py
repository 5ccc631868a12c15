"""When an answer may be given: `glr` with its `thresholds`; `base` has the base class of all rules."""

from roundwise.stopping.base import About, Claim, StoppingRule
from roundwise.stopping.declared import Declared
from roundwise.stopping.glr import GLR
from roundwise.stopping.thresholds import THRESHOLDS, Counts, Heuristic, Mixture, Pairwise, Sum, Threshold, Volume

__all__ = [
    "GLR",
    "THRESHOLDS",
    "About",
    "Claim",
    "Counts",
    "Declared",
    "Heuristic",
    "Mixture",
    "Pairwise",
    "StoppingRule",
    "Sum",
    "Threshold",
    "Volume",
]
