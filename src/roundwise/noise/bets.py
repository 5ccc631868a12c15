"""Bets: the log e-value of one batch against one null, given what was known before the batch.

Each function is elementwise over any shape, never NaN, and 0.0 (no bet) where a bet is impossible. The e-value's
expectation is at most 1 under every law of its null, whatever the past; proofs in docs/why-the-guarantee-holds.md.
Arguments named `past_...` may depend on everything seen before the batch, and on nothing in it.
"""

from __future__ import annotations

from .bets_bounded import bounded_difference_bet, bounded_level_bet, row_table, spread
from .bets_counts import (
    bernoulli_difference_bet,
    bernoulli_level_bet,
    centre,
    poisson_difference_bet,
    poisson_form_bet,
    poisson_level_bet,
)
from .bets_gaussian import capped_gaussian_bet, student_bet, sub_gaussian_bet
from .bets_steady import (
    steady_difference_bet,
    steady_gaussian_bet,
    steady_level_bet,
    steady_poisson_bet,
    steady_student_bet,
)

__all__ = [
    "bernoulli_difference_bet",
    "bernoulli_level_bet",
    "bounded_difference_bet",
    "bounded_level_bet",
    "capped_gaussian_bet",
    "centre",
    "poisson_difference_bet",
    "poisson_form_bet",
    "poisson_level_bet",
    "row_table",
    "spread",
    "steady_difference_bet",
    "steady_gaussian_bet",
    "steady_level_bet",
    "steady_poisson_bet",
    "steady_student_bet",
    "student_bet",
    "sub_gaussian_bet",
]
