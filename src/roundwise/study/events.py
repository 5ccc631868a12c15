"""A batch of a study: what was asked, what came back so far, and when it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Facts, Floats, Plain
from roundwise.ingest import Results, batch_of, whole_of
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.policies.base import limited


@dataclass
class Asked:
    """A batch: what was asked, what came back so far, and whether the rest was given up."""

    number: int  # from 1
    pulls: Floats  # (K)
    files: list[Results] = field(default_factory=list)  # what was told
    closed_early: str | None = None  # why the rest will not come, in the user's words
    amended: bool = False  # it was complete when one of its files was corrected or withdrawn, and stays so
    counted: bool = False  # whether the decision has seen it
    arms: tuple[str, ...] = ()  # what the arms are called
    planned: Floats | None = None  # (K), the plan where the budget cut it short
    by_number: bool = False  # a round of so many results: complete when they are there, whatever the split
    since: str = ""  # when it was asked for
    budget: int | None = None  # of the study, as it was last said before any result of this batch

    @property
    def table(self) -> list[tuple[str, int]]:
        """What is still to be done: (arm, pulls) for every arm of which results are missing."""
        return [(arm, int(n)) for arm, n in zip(self.arms, self.outstanding, strict=True) if n > 0]

    @property
    def counts(self) -> Floats:
        """How much came back, for each arm."""
        return np.sum([each.counts for each in self.files], axis=0) if self.files else np.zeros_like(self.pulls)

    @property
    def lost(self) -> Floats:
        """How many came back without an outcome, for each arm."""
        return sum((each.missing for each in self.files if each.missing is not None), np.zeros_like(self.pulls))

    @property
    def outstanding(self) -> Floats:
        """How much is still to come, for each arm."""
        if self.closed_early is not None or self.amended:
            return np.zeros_like(self.pulls)
        came = self.counts + self.lost
        missing = np.maximum(self.pulls - came, 0.0)
        if not self.by_number:
            return missing
        return limited(missing, max(float(self.pulls.sum() - came.sum()), 0.0), 0.0)

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        if self.by_number and self.closed_early is None and not self.amended:
            return bool((self.counts + self.lost).sum() >= self.pulls.sum())
        return not self.outstanding.any()

    @property
    def short(self) -> bool:
        """Whether it was closed although results were missing."""
        if self.closed_early is None:
            return False
        if self.by_number:
            return bool(self.counts.sum() < self.pulls.sum())
        return bool((self.counts < self.pulls).any())

    @property
    def missing(self) -> int:
        """How many results that were asked for never came."""
        if self.by_number:
            return int(max(self.pulls.sum() - self.counts.sum(), 0.0))
        return int(np.maximum(self.pulls - self.counts, 0.0).sum())

    @property
    def added(self) -> int:
        """How many results beyond what was asked for were told after others, in a later call: those may be known."""
        came, before, found = np.zeros_like(self.pulls), np.zeros_like(self.pulls), 0.0
        for each in self.files:
            before = before if each.together else came
            after = came + each.counts + (0.0 if each.missing is None else each.missing)
            if before.any():
                found += self._beyond(after) - self._beyond(came)
            came = after
        return int(found)

    def _beyond(self, came: Floats) -> float:
        """How many results are beyond what was asked for."""
        if self.by_number:
            return max(float(came.sum() - self.pulls.sum()), 0.0)
        return float(np.maximum(came - self.pulls, 0.0).sum())

    @property
    def batch(self) -> Batch:
        """What came back, as one batch, dealt into parts."""
        return batch_of(self.files, self.number) if self.files else self.whole

    @property
    def whole(self) -> Batch:
        """What came back, in no parts: for all but bets."""
        nothing = np.zeros_like(self.pulls)
        return whole_of(self.files) if self.files else Batch(nothing, nothing)

    def payload(self) -> Plain:
        """The batch as JSON."""
        return {
            "number": self.number,
            "pulls": _whole(self.pulls),
            "files": [each.payload() for each in self.files],
            "closed_early": self.closed_early,
            "amended": self.amended,
            "planned": None if self.planned is None else _whole(self.planned),
            "by_number": self.by_number,
            "since": self.since,
            "budget": self.budget,
        }

    @classmethod
    def from_payload(cls, payload: Facts, arms: tuple[str, ...], budget: int | None = None) -> Asked:
        """The batch that `payload` was made of; `budget` is that of the study, where the batch does not say its own."""
        planned = payload["planned"]
        return cls(
            int(payload["number"]),
            pulls_of(payload["pulls"], len(arms)),
            [Results.from_payload(each) for each in payload["files"]],
            payload["closed_early"],
            bool(payload["amended"]),
            arms=arms,
            planned=None if planned is None else pulls_of(planned, len(arms)),
            by_number=bool(payload["by_number"]),
            since=str(payload["since"]),
            budget=payload.get("budget", budget),
        )


def pulls_of(written: object, arms: int) -> Floats:
    """Pulls from JSON, one for each arm."""
    pulls = np.asarray(written, dtype=np.float64)
    if pulls.shape != (arms,) or not np.isfinite(pulls).all() or (pulls < 0).any():
        raise ValueError(f"pulls of {arms} arms are needed")
    return pulls


def of_arms(batch: Batch, names: Sequence[str], wanted: Sequence[str]) -> Batch:
    """A batch of the arms `names` as one of the arms `wanted`: without those that left, with nothing of the others."""
    if tuple(names) == tuple(wanted):
        return batch
    at = np.array([names.index(name) if name in names else -1 for name in wanted])

    def taken(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        found = values[np.maximum(at, 0)]
        return np.where((at >= 0).reshape(-1, *(1,) * (values.ndim - 1)), found, 0.0)

    table = None if batch.table is None else ValueTable(batch.table.values, _some(taken(batch.table.counts)))

    def of_parts(values: Floats | None) -> Floats | None:
        return None if values is None else _some(taken(values.swapaxes(0, 1))).swapaxes(0, 1)

    parts, inside = None, batch.parts
    if inside is not None:
        of_part = (
            None if inside.table is None else ValueTable(inside.table.values, _some(of_parts(inside.table.counts)))
        )
        parts = Parts(_some(of_parts(inside.counts)), _some(of_parts(inside.totals)), of_parts(inside.scatter), of_part)
    whole = batch._replace(
        counts=_some(taken(batch.counts)),
        totals=_some(taken(batch.totals)),
        scatter=taken(batch.scatter),
        table=table,
        parts=parts,
        pairs=None,
    )
    if batch.pairs is None:
        return whole
    both = of_arms(batch.pairs._replace(parts=None if inside is None else inside.pairs), _two(names), _two(wanted))
    if parts is not None:
        whole = whole._replace(parts=parts._replace(pairs=both.parts))
    return whole._replace(pairs=both._replace(parts=None))


def _two(names: Sequence[str]) -> list[str]:
    """Names for every two arms, in the order of pairs."""
    return [f"{one}\n{other}" for one in names for other in names]


def _some(values: Floats | None) -> Floats:
    assert values is not None
    return values


def _whole(pulls: Floats) -> list[int]:
    return [int(each) for each in pulls]
