"""When an answer may be given: `glr` with its `thresholds`; `base` says what a rule owes, and what else it may."""

from roundwise.stopping.base import (
    About,
    Claim,
    Exacting,
    Explained,
    Stopping,
    anytime,
    carrying,
    exacting,
    explained,
    final,
    looks_ahead,
    prolonged,
    rule_words,
    struck,
    teachable,
)
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
    "Exacting",
    "Explained",
    "Heuristic",
    "Mixture",
    "Pairwise",
    "Stopping",
    "Sum",
    "Threshold",
    "Volume",
    "anytime",
    "carrying",
    "exacting",
    "explained",
    "final",
    "looks_ahead",
    "prolonged",
    "rule_words",
    "struck",
    "teachable",
]
