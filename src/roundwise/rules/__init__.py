"""Stopping rules: likelihood ratios with their thresholds, e-processes, closed testing; `base` has the base class."""

from roundwise.rules.base import ClaimStatus, LinearForm, StoppingRule
from roundwise.rules.declared import Declared
from roundwise.rules.eprocess.claims import ClosedTestingRule
from roundwise.rules.eprocess.rule import EProcessRule
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
    "ClosedTestingRule",
    "Declared",
    "EProcessRule",
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
