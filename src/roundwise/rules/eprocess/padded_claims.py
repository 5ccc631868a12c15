"""Batches as claims were bet on, also those before some of the claims and arms were added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import Batch, ValueTable
from roundwise.rules.eprocess.claim_bounds import ClaimStep
from roundwise.solvers.halfspaces import Halfspaces

Index = NDArray[np.intp]


class PaddedClaims(NamedTuple):
    """Batches with all arms and all lines there are now; what a line was not there for says nothing."""

    steps: tuple[ClaimStep, ...]
    joined: Index  # (J), at which of them each claim was first bet on; their number if at none yet

    @property
    def families(self) -> list[int]:
        """The steps at which claims joined, in their order."""
        return sorted(set(self.joined.tolist()))


def pad_to_claims(steps: Sequence[ClaimStep], arms: int, number: int, lines: int) -> PaddedClaims:
    """The batches of one run, widened: arms and claims are added after those there are."""
    sides = lines // number
    joined = np.full(number, len(steps), dtype=np.intp)
    for s, step in reversed(list(enumerate(steps))):
        joined[: len(step.bars) // sides] = s
    return PaddedClaims(tuple(_widened(step, arms, number, sides) for step in steps), joined)


def select_pieces(pieces: Halfspaces, lines: Bools) -> Halfspaces:
    """Some of the pieces, of one run."""
    factors = None if pieces.factors is None else pieces.factors[lines]
    return Halfspaces(pieces.arms[lines], factors, pieces.offsets[lines], pieces.pairs)


def _widened(step: ClaimStep, arms: int, number: int, sides: int) -> ClaimStep:
    before = len(step.counts)
    if before == arms and len(step.bars) == number * sides:
        return step

    def of_arms(values: Floats) -> Floats:
        return np.concatenate([values, np.zeros(arms - before)])

    def of_pairs(values: Floats) -> Floats:
        found = np.zeros((arms, arms))
        found[:before, :before] = values.reshape(before, before)
        return found.reshape(-1)

    def of_lines(values: Floats | Bools) -> Floats:
        found = np.zeros((sides, number))
        found[:, : len(values) // sides] = values.reshape(sides, -1)
        return found.reshape(-1)

    def sums(batch: Batch) -> Batch:
        pairs = batch.pairs
        if pairs is not None:
            scatter = None if pairs.scatter is None else of_pairs(pairs.scatter)
            table = None
            if pairs.table is not None:
                columns = [of_pairs(each) for each in np.moveaxis(pairs.table.counts, -1, 0)]
                table = ValueTable(pairs.table.values, np.stack(columns, axis=-1))
            pairs = Batch(of_pairs(pairs.counts), of_pairs(pairs.totals), scatter, table)
        scatter = None if batch.scatter is None else of_arms(batch.scatter)
        return Batch(of_arms(batch.counts), of_arms(batch.totals), scatter, pairs=pairs)

    batch = sums(step.batch)
    return ClaimStep(
        batch.counts,
        batch.totals,
        batch.scatter,
        step.rho,
        of_lines(step.bars),
        of_lines(step.gains),
        of_lines(step.shown) > 0,
        batch.pairs,
        tuple(sums(each) for each in step.parts),
    )
