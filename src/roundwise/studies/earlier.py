"""What a study holds already, as far as a new file must be compared with it: no more of its log is read than needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roundwise.noise import items_of
from roundwise.studies.results import Amounts, Earlier, Options, Results
from roundwise.studies.state import State


def earlier_of(
    state: State, arms: Sequence[str], options: Options, before: Sequence[Results], replaces: Results | None
) -> Earlier:
    """The files that are recorded, and those read `before` in the same call, without the one that is replaced.

    Ids and running totals need every file. Otherwise the first and the last one, marks of some more, and the sums of
    all tell whether a file goes on with them.
    """
    paired = items_of(state.settings.noise) is not None
    columns = (options.columns or state.settings.columns).over(state.settings.columns)
    every = options.cumulative or columns.id is not None or columns.item is not None or replaces is not None or paired
    files: list[tuple[Sequence[str], Results]]
    files = [(asked.arms, each) for asked in (state.asked if every else state.recent) for each in asked.files]
    files += state.later
    if not every:
        ends = [(tuple(each["arms"]), Results.from_payload(each["results"])) for each in state.so_far.ends]
        files = [*ends, *files]
    files = [(names, each) for names, each in files if each is not replaces]
    files += [(arms, each) for each in before]
    waiting = None if state.outstanding is None or replaces is not None else state.outstanding.outstanding
    if state.decided is not None and replaces is None:
        waiting = np.zeros(len(arms))  # nothing was asked for
    fresh = waiting is not None and not before and state.waiting is None
    found = Earlier.of(files, arms, waiting)
    if paired and replaces is None:
        now = state.number + 1 if state.outstanding is None else state.outstanding.number
        lots = [each.lots for asked in state.asked if asked.number < now for each in asked.files]
        used = [each.items for each in lots if each is not None and each.items is not None]
        found = replace(found, items=np.unique(np.concatenate(used)) if used else None)
    if every:
        return replace(found, fresh=fresh)
    total = Amounts(state.record.counts, state.record.totals)
    uncounted = [each for asked in state.recent if not asked.counted for each in asked.files]
    for each in [*uncounted, *before]:
        total = total.plus(Amounts(each.counts, each.totals))
    return Earlier(found.told, waiting, total, fresh, state.so_far.starts)
