"""The items of the next round, from a table of all items that a study may use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roundwise.errors import DataError, InputError
from roundwise.formats.requests import Request
from roundwise.formats.sheet import name_in
from roundwise.ingest import TellOptions
from roundwise.ingest.duplicates import hash_ids, with_arm
from roundwise.messages import Remedy, quoted
from roundwise.study.fold import Round
from roundwise.study.item_list import rows_of_items
from roundwise.study.state import State
from roundwise.study.study import recorded_files


def read_items(state: State, path: Path | None) -> dict[str, dict[str, str]]:
    """Read a table with one row per item, for a study that compares arms on items: the cells of each item."""
    listed = state.spec.list
    if listed is not None and path is None:
        return {entry: {"item": item} for entry, item in listed.item_of.items()}
    if not state.spec.noise.shares_items and listed is None:
        raise InputError("This study does not compare arms on items.", Remedy("Create one with {@item_column}."))
    if path is None:
        raise InputError("--as needs the items: give --items FILE, a table with one row per item.")
    column, _, rows = rows_of_items(path, state.spec.columns.item or "item")
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        item = row.text(column)
        if not item or item in found:
            wrong = f"the item {quoted(item)} is there twice" if item else "there is no item"
            raise DataError(f"{row.where}: {wrong}. Give every item one row, with an id.")
        found[item] = {title: name_in(cell) for title, cell in row.cells.items()}
    return found if listed is None else listed.cells(found)


def request_for(state: State, place: int, arm: str, item: str, cells: Mapping[str, str]) -> Request:
    """A request for an arm's result on an item, or on an entry of a list."""
    listed = state.spec.list
    return Request(place, arm, item, cells, *(() if listed is None else (listed.item_of[item], listed.repeats)))


def choose_items(state: State, asked: Round, cells: Mapping[str, Mapping[str, str]]) -> tuple[list[Request], int]:
    """Choose what to run in the open round.

    Items come in an order drawn from the study's seed, which has nothing to do with them: the same one whenever it is
    asked for. Every arm gets the first of those that earlier rounds have not used, without what it was tried on.

    Args:
        state: Of the study.
        asked: The open round.
        cells: Those of every item that may be used.

    Returns:
        What to run, by place, and how many new items are lacking.
    """
    if asked.entries is not None:
        lacking = asked.lacking
        entries = [(int(place), asked.arms[arm], asked.order[place]) for place, arm in np.argwhere(lacking)]
        return [request_for(state, place + 1, arm, item, cells.get(item, {})) for place, arm, item in entries], 0
    spec, items = state.spec, list(cells)
    hashes = hash_ids(items, spec.seed)
    recorded = recorded_files(state, spec.arms, TellOptions(), (), None)
    order = np.argsort(hashes, kind="stable")
    order = order[~recorded.has_item(hashes[order])]
    requests: list[Request] = []
    for arm, pulls, outstanding in zip(asked.arms, asked.pulls, asked.outstanding, strict=True):
        mine = order[: int(pulls)]
        told = recorded.has(with_arm(hashes[mine], hash_ids([arm], spec.seed)))
        for place in np.flatnonzero(~told)[: int(outstanding)]:
            item = items[mine[place]]
            requests.append(Request(int(place) + 1, arm, item, cells[item]))
    requests.sort(key=lambda each: each.place)
    return requests, max(int(asked.pulls.max()) - len(order), 0)
