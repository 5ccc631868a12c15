"""How a study went, round by round: what each brought, and what it did to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from roundwise.state import Trial
from roundwise.stopping import explained
from roundwise.studies.replay import State
from roundwise.studies.report.model import Cell, Course

MANY = 200  # claims (or batches) up to which their course is followed


def cells_of_batches(state: State) -> tuple[Cell, ...]:
    """What every round brought of every arm that it asked for or had."""
    found = []
    for asked in state.asked:
        came = asked.batch
        for arm, pulls, count, total in zip(state.settings.arms, asked.pulls, came.counts, came.totals, strict=True):
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


def courses_of(state: State) -> tuple[Course, ...]:
    """The evidence after every round for each claim that is made now."""
    rule, problem, names = explained(state.settings.policy.stopping), state.settings.problem, state.settings.arms
    now = rule.claims(problem, state.trial, names)
    steps = trials_after(state)
    if not now or len(now) > MANY or len(steps) > MANY:
        return ()
    found: dict[str, list[tuple[int, float, bool]]] = {each.words: [] for each in now}
    for batch, trial in steps:
        for each in rule.claims(problem, trial, names):
            if each.words in found:
                found[each.words].append((batch, each.evidence, each.shown))
    return tuple(
        Course(
            claim=words,
            rounds=tuple(batch for batch, _, _ in steps),
            log_evidence=tuple(evidence for _, evidence, _ in steps),
            shown=bool(steps and steps[-1][2]),
            shown_at=_since(steps),
        )
        for words, steps in found.items()
    )


def trials_after(state: State) -> Sequence[tuple[int, Trial]]:
    """Where the study stood after each batch that counts."""
    counted = [each for each in state.asked if each.counted]
    after = [each.before for each in state.asked if each.before is not None]
    found = []
    for asked in counted:
        place = state.asked.index(asked) + 1
        trial = after[place] if place < len(after) and len(after) == len(state.asked) else state.trial
        found.append((asked.number, trial))
    return found


def _since(steps: list[tuple[int, float, bool]]) -> int | None:
    """The round from which on a claim was shown all the time, if it is."""
    first = None
    for batch, _, shown in reversed(steps):
        if not shown:
            break
        first = batch
    return first
