"""When an answer may be given: `glr` with its `thresholds`; `base` says what a rule owes, `explained` what else."""

from roundwise.stopping.base import (
    Exacting,
    Stopping,
    anytime,
    carrying,
    exacting,
    final,
    looks_ahead,
    prolonged,
    rule_words,
    struck,
)
from roundwise.stopping.declared import Declared
from roundwise.stopping.explained import About, Claim, Explained, explained
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
]
