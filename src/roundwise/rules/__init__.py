"""When an answer may be given: `glr` with its `thresholds`; `base` has the base class of all rules."""

from roundwise.rules.base import ClaimStatus, LinearForm, StoppingRule
from roundwise.rules.declared import Declared
from roundwise.rules.glr import GLR
from roundwise.rules.thresholds import (
    THRESHOLDS,
    KaufmannKoolenPairwise,
    KaufmannKoolenSum,
    Lemma32,
    Lemma32ByCounts,
    LogDeterminant,
    LogLogHeuristic,
    Threshold,
)

__all__ = [
    "GLR",
    "THRESHOLDS",
    "ClaimStatus",
    "Declared",
    "KaufmannKoolenPairwise",
    "KaufmannKoolenSum",
    "Lemma32",
    "Lemma32ByCounts",
    "LinearForm",
    "LogDeterminant",
    "LogLogHeuristic",
    "StoppingRule",
    "Threshold",
]
