"""Rows whose ids are recorded are skipped; here they are compared with the record, so that nothing is lost unsaid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.arrays import Bools
from roundwise.studies.results.contradicted import LINES, Contradicted, Source
from roundwise.studies.results.earlier import Earlier, with_outcome
from roundwise.studies.results.ids import Rows
from roundwise.studies.results.marks import outcome_codes


def contradictions(rows: Rows, earlier: Earlier, arms: Sequence[str], seed: int) -> Contradicted | None:
    """What rows whose ids are recorded, one for each id, say otherwise than the record; None if nothing."""
    ids, known = earlier.outcomes
    if not len(ids) or not len(rows.ids):
        return None

    def recorded(which: Rows) -> Bools:
        return np.isin(with_outcome(which.ids, outcome_codes(arms, which.arms, which.values, seed)), known)

    wrong = np.isin(rows.ids, ids) & ~recorded(rows)
    if not wrong.any():
        return None
    other = Rows(rows.ids[wrong], rows.lines[wrong], rows.arms[wrong], rows.values[wrong])
    gone = np.isnan(other.values)
    late = recorded(other._replace(values=np.full(len(gone), np.nan))) & ~gone
    moved = np.zeros(len(gone), dtype=np.bool_)
    for arm in range(len(arms)):
        moved |= recorded(other._replace(arms=np.full(len(gone), arm)))
    moved &= ~gone
    kinds = {"outcome": ~(moved | late | gone), "arm": moved, "late": late & ~moved, "gone": gone}
    held = [(each, int(np.isin(other.ids, each.hashes).sum())) for each in earlier.told if each.codes is not None]
    return Contradicted(
        {kind: int(which.sum()) for kind, which in kinds.items() if which.any()},
        tuple(sorted(other.lines.tolist())[:LINES]),
        tuple(Source(each.digest, each.name, n) for each, n in held if n),
    )
