"""When an answer may be given: `glr` with its `thresholds`; `base` has the base class of all rules."""

from roundwise.rules.base import ClaimStatus, LinearForm, StoppingRule
from roundwise.rules.declared import Declared
from roundwise.rules.glr import GLR
from roundwise.rules.thresholds import THRESHOLDS, Counts, Heuristic, Mixture, Pairwise, Sum, Threshold, Volume

__all__ = [
    "GLR",
    "THRESHOLDS",
    "ClaimStatus",
    "Counts",
    "Declared",
    "Heuristic",
    "LinearForm",
    "Mixture",
    "Pairwise",
    "StoppingRule",
    "Sum",
    "Threshold",
    "Volume",
]
