"""How a study went, round by round: what each brought, and what it did to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from roundwise.stopping import explained
from roundwise.studies.count import restored
from roundwise.studies.packing import Unreadable
from roundwise.studies.report.model import Cell, Course
from roundwise.studies.rounds import Asked
from roundwise.studies.state import State
from roundwise.studies.store import Entry

MANY = 200  # claims (or batches) up to which their course is followed


def cells_of(rounds: Sequence[Asked]) -> tuple[Cell, ...]:
    """What every round brought of every arm that it asked for or had."""
    found = []
    for asked in rounds:
        came = asked.whole
        for arm, pulls, count, total in zip(asked.arms, asked.pulls, came.counts, came.totals, strict=True):
            if pulls or count:
                mean = float(total / count) if count else None
                found.append(
                    Cell(
                        round=asked.number,
                        arm=arm,
                        asked=int(pulls),
                        results=int(count),
                        mean=mean,
                        counts=asked.counted,
                    )
                )
    return tuple(found)


def courses_of(state: State, entries: Sequence[Entry]) -> tuple[Course, ...]:
    """The evidence after every round, as it was recorded, for each claim that is made now."""
    rule, problem, names = explained(state.settings.policy.stopping), state.settings.problem, state.settings.arms
    now = rule.claims(problem, state.trial, names)
    steps = [entry.payload for entry in entries if entry.kind == "counted"]
    if not now or len(now) > MANY or len(steps) > MANY:
        return ()
    found: dict[str, dict[int, tuple[float, bool]]] = {each.words: {} for each in now}
    for payload in steps:
        try:
            trial = restored(state.settings, payload)
        except (Unreadable, KeyError, TypeError, ValueError):  # of other arms, or of a version that is not known
            continue
        for each in rule.claims(problem, trial, names):
            if each.words in found:
                found[each.words][int(payload["batch"])] = (each.evidence, each.shown)
    return tuple(
        Course(
            claim=words,
            rounds=tuple(steps),
            log_evidence=tuple(evidence for evidence, _ in steps.values()),
            shown=bool(steps) and list(steps.values())[-1][1],
            shown_at=_since([(number, shown) for number, (_, shown) in steps.items()]),
        )
        for words, steps in found.items()
    )


def _since(steps: list[tuple[int, bool]]) -> int | None:
    """The round from which on a claim was shown all the time, if it is."""
    first = None
    for number, shown in reversed(steps):
        if not shown:
            break
        first = number
    return first
