"""A line of the list of studies, in words."""

from __future__ import annotations

from typing import NamedTuple

from roundwise.arrays import Plain
from roundwise.studies.guarantee import CONDITIONAL, KEPT
from roundwise.studies.words import count, day
from roundwise.web.said import of_options


class Line(NamedTuple):
    """A study in the list."""

    name: str
    question: str
    state: str
    kind: str  # of the state, for its colour: decided, waiting, open, over, closed, damaged
    results: str
    changed: str
    by: str
    file: str  # the last one that was handed in
    danger: str  # what became of the guarantee, unless it was kept


def listed(each: Plain) -> Line:
    """A study of `list_studies`, in words."""
    budget = "" if each["budget"] is None else f" of {count(each['budget'])}"
    waiting = f" + {count(each['waiting'])}" if each["waiting"] else ""
    guarantee = str(each["guarantee"])
    danger = "" if guarantee == KEPT else "conditional" if guarantee.startswith(CONDITIONAL) else "void"
    return Line(
        each["name"],
        of_options(each.get("asks") or f"{each['question']} of {each['arms']} arms"),
        _state(each),
        each["state"],
        f"{count(each['results'])}{waiting}{budget}",
        day(each["changed"]),
        each["by"],
        each.get("file") or "",
        danger,
    )


def _state(each: Plain) -> str:
    state, number = each["state"], each.get("round") or 0
    if state == "decided":
        return f"decided: {of_options(str(each['answer']))}"
    if state == "waiting":
        return f"running, round {number}: waiting for {'the rest' if each['waiting'] else 'results'}"
    words = {"open": f"running, round {number} can begin", "over": "ended, undecided", "closed": "closed"}
    return words.get(state, str(state))
