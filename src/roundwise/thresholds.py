"""Thresholds for the stopping rule `GLR`: how much evidence is enough (formulas: docs/guarantee.md, docs/baselines.md).

>>> from roundwise import GLR, PET
>>> from roundwise.thresholds import KaufmannKoolenPairwise
>>> PET(stopping=GLR(KaufmannKoolenPairwise())).stopping.threshold.name
'pairwise'
"""

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
    "THRESHOLDS",
    "KaufmannKoolenPairwise",
    "KaufmannKoolenSum",
    "Lemma32",
    "Lemma32ByCounts",
    "LogDeterminant",
    "LogLogHeuristic",
    "Threshold",
]
