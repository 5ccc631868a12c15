"""A study is the fold of its recorded entries: nothing else is kept, resuming is replaying.

Entries, in order: `created` (the settings); `asked` (the plan of a batch); `told` (what one file brought for the batch
that is outstanding); `settled` (a batch closed with a reason although results are missing); `decided` (the answer);
`amended` (what one file brought, corrected or withdrawn, with a reason); `closed` (the study ended, with a reason).
A batch counts when all that was asked has come back, or it was settled; never in halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import DataError
from roundwise.policies.limited import limited
from roundwise.state import Batch, Trial
from roundwise.stopping import exacting
from roundwise.studies.results import Results, batch_of
from roundwise.studies.settings import Settings
from roundwise.studies.store import Entry
from roundwise.trial import advance, begin, conclusion, stuck


@dataclass
class Asked:
    """A batch: what was asked, what came back so far, and whether the rest was given up."""

    number: int  # from 1
    pulls: Floats  # (K)
    told: list[Results] = field(default_factory=list)
    settled: str | None = None  # why the rest will not come, in the user's words
    amended: bool = False  # it was complete when one of its files was corrected or withdrawn, and stays so
    before: Trial | None = field(default=None, repr=False)  # where the study stood
    counted: bool = False  # whether the decision has seen it
    arms: tuple[str, ...] = ()  # what the arms are called

    @property
    def table(self) -> list[tuple[str, int]]:
        """What is still to be done: (arm, pulls) for every arm of which results are missing."""
        return [(arm, int(n)) for arm, n in zip(self.arms, self.outstanding, strict=True) if n > 0]

    @property
    def counts(self) -> Floats:
        """How much came back, for each arm."""
        return np.sum([each.counts for each in self.told], axis=0) if self.told else np.zeros_like(self.pulls)

    @property
    def missing(self) -> Floats:
        """How many came back without an outcome, for each arm."""
        return sum((each.missing for each in self.told if each.missing is not None), np.zeros_like(self.pulls))

    @property
    def outstanding(self) -> Floats:
        """How much is still to come, for each arm."""
        over = self.settled is not None or self.amended
        return np.zeros_like(self.pulls) if over else np.maximum(self.pulls - self.counts - self.missing, 0.0)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.outstanding.any()

    @property
    def batch(self) -> Batch:
        """What came back, as one batch."""
        nothing = np.zeros_like(self.pulls)
        return batch_of(self.told) if self.told else Batch(nothing, nothing)


@dataclass
class State:
    """Where a study stands."""

    name: str
    settings: Settings
    trial: Trial
    created: str
    seq: int = 0
    asked: list[Asked] = field(default_factory=list)
    files: int = 0  # ever recorded, also those that were corrected or withdrawn
    decided: dict[str, Any] | None = None
    closed: str | None = None
    amendments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def outstanding(self) -> Asked | None:
        """The batch that is waited for, if any."""
        return self.asked[-1] if self.asked and not self.asked[-1].complete else None

    @property
    def batches(self) -> list[Batch]:
        """The batches that count."""
        return [each.batch for each in self.asked if each.counted]

    @property
    def planned(self) -> Floats:
        """The next batch, within what is left of the budget."""
        pulls, budget = self.trial.plan.pulls, self.settings.budget
        if budget is None:
            return pulls
        return limited(pulls, max(budget - float(self.trial.record.samples), 0.0), 0.0, so_far=self.trial.record)

    @property
    def spent(self) -> bool:
        """Whether the budget ends the study before it is decided."""
        return self.outstanding is None and not self.trial.done and not self.planned.any()

    @property
    def broken(self) -> bool:
        """Whether the rule decides no more, because a batch came back otherwise than it was planned."""
        return bool(stuck(self.settings.problem, self.settings.policy, self.trial))

    @property
    def over(self) -> str | None:
        """Why nothing more is asked for although there is no answer and nobody closed the study."""
        if self.outstanding is not None or self.trial.done or self.decided is not None:
            return None
        policy, budget = self.settings.policy, self.settings.budget
        needs = f"the rule of {policy.name} needs every batch just as it was planned"
        if self.broken:
            return f"{self._other_than_planned()}, and {needs}"
        whole = self.trial.plan.pulls
        if exacting(policy.stopping) and not np.array_equal(self.planned, whole):
            return f"the budget of {budget} results does not cover the next batch of {int(whole.sum())}, and {needs}"
        return f"the budget of {budget} results is used up" if self.spent else None

    def holds(self, digest: str) -> int | None:
        """The batch in which a file of these contents was recorded, if it was."""
        for asked in self.asked:
            if any(each.digest == digest for each in asked.told):
                return asked.number
        return None

    def apply(self, entry: Entry) -> None:
        """The state after one more entry."""
        try:
            self._apply(entry)
        except (KeyError, IndexError, TypeError):
            raise DataError(
                f"Entry {entry.seq} of '{self.name}', a '{entry.kind}' by roundwise {entry.version}, cannot be "
                "replayed: it does not follow from the entries before it."
            ) from None

    def _apply(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.kind == "asked":
            self._check_plan(entry, np.asarray(payload["pulls"], dtype=np.float64))
            pulls = np.asarray(payload["pulls"], dtype=np.float64)
            self.asked.append(Asked(int(payload["batch"]), pulls, arms=self.settings.arms, before=self.trial))
        elif entry.kind == "told":
            self.asked[-1].told.append(Results.from_payload(payload["results"]))
            self.files += 1
            self._advance()
        elif entry.kind == "settled":
            self.asked[-1].settled = str(payload["why"])
            self._advance()
        elif entry.kind == "amended":
            self._amend(payload)
        elif entry.kind == "decided":
            self._check_answer(entry)
            self.decided = payload
        elif entry.kind == "closed":
            self.closed = str(payload["why"])
        else:
            raise DataError(
                f"Entry {entry.seq} of '{self.name}' is a '{entry.kind}', which this version does not know."
            )
        self.seq = entry.seq

    def verdict(self) -> dict[str, Any] | None:
        """The answer as an entry, if there is one."""
        return self._answer() if self.trial.done else None

    def _answer(self) -> dict[str, Any]:
        problem, policy = self.settings.problem, self.settings.policy
        answer = conclusion(problem, policy, self.trial)
        return {
            "answer": self.settings.question.plain(answer),
            "words": self.settings.question.words(answer, self.settings.arms),
            "batches": int(self.trial.record.batches),
            "samples": int(self.trial.record.samples),
        }

    def _other_than_planned(self) -> str:
        """The first batch that came back otherwise than planned, in words."""
        for asked in self.asked:
            assert asked.before is not None
            planned, came = asked.before.plan.pulls, asked.counts
            if asked.complete and not np.array_equal(planned, came):
                how = "less" if (came <= planned).all() else "more" if (came >= planned).all() else "other results"
                return f"batch {asked.number} brought {how} than was planned"
        return "a batch did not come back as it was planned"

    def _advance(self) -> None:
        """Count the last batch if it is complete; once, also where another file of it was recorded with this one."""
        asked = self.asked[-1]
        assert asked.before is not None
        self.trial = asked.before
        self._count(asked)

    def _amend(self, payload: dict[str, Any]) -> None:
        """Put the corrected results in the place of the old ones, and fold all batches anew."""
        for asked in self.asked:
            for i, each in enumerate(asked.told):
                if each.digest == payload["replaces"]:
                    corrected, counted = payload["results"], asked.complete
                    asked.told[i : i + 1] = [] if corrected is None else [Results.from_payload(corrected)]
                    asked.amended |= counted  # what was complete stays so
                    self.files += corrected is not None
        self.amendments.append(payload)
        self.decided = None
        self.trial = begin(self.settings.problem, self.settings.policy)
        for asked in self.asked:
            asked.before = self.trial
            self._count(asked)

    def _count(self, asked: Asked) -> None:
        """Fold a batch if it is complete and nothing is decided before it."""
        asked.counted = asked.complete and not bool(self.trial.done)
        if asked.counted:
            self.trial = advance(self.settings.problem, self.settings.policy, self.trial, asked.batch)

    def _check_plan(self, entry: Entry, pulls: Floats) -> None:
        if not np.array_equal(pulls, self.planned):
            raise DataError(
                f"Batch {entry.payload['batch']} of '{self.name}' was planned by roundwise {entry.version} as "
                f"{_few(pulls)}, but this version plans {_few(self.planned)}. "
                f"Go on with version {entry.version}, or export the study and report it."
            )

    def _check_answer(self, entry: Entry) -> None:
        found = self.verdict()
        if found is None and self.broken:  # earlier versions decided all the same: kept, and called void
            found = self._answer()
        if found is None or found["answer"] != entry.payload["answer"]:
            raise DataError(
                f"The answer of '{self.name}' was recorded by roundwise {entry.version} as {entry.payload['answer']}, "
                f"but this version finds {'none' if found is None else found['answer']}. "
                f"Read it with version {entry.version}."
            )


def replayed(entries: Sequence[Entry]) -> State:
    """The state of a study from all its entries."""
    first = entries[0]
    settings = Settings.from_payload(first.payload)
    state = State(first.study, settings, begin(settings.problem, settings.policy), str(first.at), first.seq)
    for entry in entries[1:]:
        state.apply(entry)
    return state


def _few(pulls: Floats) -> str:
    shown = ", ".join(f"{value:g}" for value in pulls[:6])
    return shown + (", ..." if len(pulls) > 6 else "")
