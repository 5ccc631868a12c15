"""What travels between a policy, a stopping rule and the world: plans, batches and their parts, the record, the trial.

All are named tuples of arrays with the arms on the last axis, so that runs can be taken from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats

if TYPE_CHECKING:  # of a policy and of a stopping rule: named tuples of arrays, of any kind where it is not said which
    from typing_extensions import TypeVar

    Memory = TypeVar("Memory", default=Any)
    Kept = TypeVar("Kept", default=Any)
else:
    from typing import TypeVar

    Memory, Kept = TypeVar("Memory"), TypeVar("Kept")

FIRST_PARTS, PARTS = 4, 12  # of the first batch, and of every later one


class Declaration(NamedTuple):
    """The answer of a policy that stops by its own rule, and whether it is given yet."""

    made: Bools  # ()
    answer: Array  # as the question has it; of no meaning until it is made


class BatchPlan(NamedTuple, Generic[Memory]):
    """The next batch: how often to pull each arm, and what the policy must remember. See also `plan`, a forecast.

    Attributes:
        pulls: Pulls of each arm, whole numbers, (K).
        may_stop: Whether the stopping rule is asked before this batch is pulled, ().
        memory: What the policy must remember, a named tuple of arrays; None if nothing.
        parts: Into how many parts of the order in which rows came the batch is cut.
        declared: The answer, in every plan of a policy that stops by its own rule.
        left: Results that will be asked for after this batch, where a budget says how many, ().
        last: Whether it was said before its results that this batch is the last, ().
        jump: How bold the bets on its parts are: 0 as usual, -1 less, 1 more.

    >>> from roundwise import BestArm, Problem, Wager
    >>> Wager().first(Problem(BestArm(), arms=2), runs=()).pulls
    array([30., 30.])
    """

    pulls: Floats
    may_stop: Bools
    memory: Memory = None  # type: ignore[assignment]
    parts: int = 1
    declared: Declaration | None = None
    left: Floats | None = None
    last: Bools | None = None
    jump: int = 0


def budget_before(plan: BatchPlan) -> Floats | None:
    """How many results will be asked for with this batch and after it, where a budget says how many. ()"""
    return None if plan.left is None else np.asarray(plan.left + plan.pulls.sum(axis=-1))


class Batch(NamedTuple):
    """What came back: how often each arm was really pulled, and the sum of its rewards.

    Attributes:
        counts: Results of each arm, (K).
        totals: The sum of the results of each arm, (K).
        scatter: sum (x - mean)^2 within each arm, (K), for noise models that need it.
        table: How often each arm had each value, for noise models that need it.
        parts: The batch cut into parts, where the rows came in an order that does not depend on their values.
        pairs: Where arms were tried on the same items, the differences of every two of them as results of K^2 arms:
            number a K + b is the result of a minus that of b, on each item that both were tried on.
    """

    counts: Floats
    totals: Floats
    scatter: Floats | None = None
    table: ValueTable | None = None
    parts: Parts | None = None
    pairs: Batch | None = None


class Parts(NamedTuple):
    """A batch cut into parts, in one or several orders of its rows ("dealings") that have nothing to do with values.

    Runs come first, then dealings, arms and parts. All dealings may share their counts: then there is one of these.
    """

    counts: Floats  # (1 or M, K, P)
    totals: Floats  # (M, K, P)
    scatter: Floats | None = None  # (M, K, P)
    table: ValueTable | None = None  # counts (M, K, P, V)
    jump: int = 0  # how bold the bets on it are: 0 as usual, -1 less, 1 more; fixed before the first batch
    pairs: Parts | None = None  # of every two arms, (M, K^2, P)

    @property
    def number(self) -> int:
        """P, how many parts there are."""
        return int(self.totals.shape[-1])

    @property
    def partitions(self) -> int:
        """M, how many orders there are."""
        return int(self.totals.shape[-3])

    def batch(self, part: int, dealing: int = 0) -> Batch:
        """One part of one dealing."""
        at = (..., dealing, slice(None), part)
        table = self.table
        return Batch(
            self.counts[..., min(dealing, self.counts.shape[-3] - 1), :, part],
            self.totals[at],
            None if self.scatter is None else self.scatter[at],
            None if table is None else ValueTable(table.values, table.counts[..., dealing, :, part, :]),
            pairs=None if self.pairs is None else self.pairs.batch(part, dealing),
        )


def part_edges(parts: int) -> Floats:
    """The share of an arm's rows before each part, and 1 after the last. (P + 1)

    Parts shrink towards the end of a batch, where a bet must be re-planned most often: after a share x of the parts a
    share h(x) = 1 - (1-x)^2 of an arm's rows has come.
    """
    left = np.arange(parts, -1, -1) / parts
    return 1.0 - left * left


def part_shares_of_rest(parts: int) -> Floats:
    """kappa: what share each part has of what is left of its batch, itself included. (P)"""
    left = np.arange(parts, -1, -1.0) ** 2
    return 1.0 - left[1:] / left[:-1]


def split_counts(counts: Floats, parts: int) -> Floats:
    """How many rows of each arm are in each part: one dealing, runs contiguous. (K)->(1, K, P)"""
    ends = counts.transpose() * part_edges(parts).reshape(-1, *(1,) * counts.ndim)
    ends += 1e-9
    np.floor(ends, out=ends)
    return np.expand_dims(np.diff(ends, axis=0).transpose(), -3)


def stack_parts(parts: Sequence[Batch]) -> Parts:
    """Parts in one order of the rows; scatter and tables only where every part has them."""

    def stacked(arrays: Sequence[Floats], axis: int) -> Floats:
        """Parts on a new axis, one dealing before the arms, runs contiguous."""
        last = np.stack([each.transpose() for each in arrays], axis=axis)
        return np.expand_dims(last.transpose(), -2 - axis - 1)

    scatter = [part.scatter for part in parts if part.scatter is not None]
    tables = [part.table for part in parts if part.table is not None]
    pairs = [part.pairs for part in parts if part.pairs is not None]
    return Parts(
        stacked([part.counts for part in parts], 0),
        stacked([part.totals for part in parts], 0),
        stacked(scatter, 0) if len(scatter) == len(parts) else None,
        ValueTable(tables[0].values, stacked([table.counts for table in tables], 1))
        if len(tables) == len(parts)
        else None,
        pairs=stack_parts(pairs) if len(pairs) == len(parts) else None,
    )


def join_parts(parts: Sequence[Batch]) -> Batch:
    """One batch from its parts, in their order; scatter and tables only where every part has them."""
    counts = np.asarray(sum(part.counts for part in parts))
    totals = np.asarray(sum(part.totals for part in parts))
    scatter = [part.scatter for part in parts if part.scatter is not None]
    tables = [part.table for part in parts if part.table is not None]
    pairs = [part.pairs for part in parts if part.pairs is not None]
    spread, table = None, None
    if len(scatter) == len(parts):
        means = totals / np.maximum(counts, 1.0)
        spread = np.zeros_like(totals)
        for part, within in zip(parts, scatter, strict=True):
            own = part.totals / np.maximum(part.counts, 1.0)
            spread = spread + within + part.counts * (own - means) ** 2
    if len(tables) == len(parts):
        if any(not np.array_equal(each.values, tables[0].values) for each in tables):
            every = np.unique(np.concatenate([each.values.ravel() for each in tables]))
            parts = [part._replace(table=own.among(every)) for part, own in zip(parts, tables, strict=True)]
            return join_parts(parts)
        table = ValueTable(tables[0].values, np.asarray(sum(each.counts for each in tables)))
    both = join_parts(pairs)._replace(parts=None) if len(pairs) == len(parts) else None
    return Batch(counts, totals, spread, table, stack_parts(parts), both)


class ValueTable(NamedTuple):
    """How often each arm had each value."""

    values: Floats  # (V)
    counts: Floats  # (K, V)

    def among(self, values: Floats) -> ValueTable:
        """The same with a list of values, in order, that has all of its own."""
        counts = np.zeros((*self.counts.shape[:-1], len(values)))
        places = np.broadcast_to(np.searchsorted(values, self.values)[..., None, :], self.counts.shape)
        np.put_along_axis(counts, places, self.counts, axis=-1)
        return ValueTable(np.broadcast_to(values, (*self.values.shape[:-1], len(values))), counts)


class Record(NamedTuple):
    """Everything that came back so far, as sums."""

    counts: Floats
    totals: Floats
    batches: Floats  # (), how many batches had any result

    @property
    def samples(self) -> Floats:
        """How many pulls there were in all, (K)->()."""
        return np.asarray(self.counts.sum(axis=-1))  # whole numbers: exact in any order

    @property
    def means(self) -> Floats:
        """The empirical means; 0 for an arm without results."""
        counts = np.maximum(self.counts, 1.0)
        return np.divide(self.totals, counts, out=counts)

    def plus(self, batch: Batch) -> Record:
        """The record with one more batch."""
        any_result = (batch.counts > 0).any(axis=-1)
        return Record(self.counts + batch.counts, self.totals + batch.totals, self.batches + any_result)


class Trial(NamedTuple, Generic[Memory, Kept]):
    """An experiment under way, in one run or many.

    Attributes:
        record: Everything that came back so far, as sums.
        batch: The last batch.
        plan: The next batch; while a policy plans, the one just pulled.
        kept: The state of the stopping rule.
        done: Whether the rule has stopped, ().

    >>> from roundwise import BestArm, Problem, Wager, begin
    >>> begin(Problem(BestArm(), arms=2), Wager()).plan.pulls
    array([30., 30.])
    """

    record: Record
    batch: Batch
    plan: BatchPlan[Memory]
    kept: Kept
    done: Bools
