"""A line of the list of studies, in words."""

from __future__ import annotations

from typing import NamedTuple

from roundwise.arrays import Plain
from roundwise.studies.guarantee import CONDITIONAL, KEPT
from roundwise.studies.report.words import count, day

QUESTIONS = {
    "best-arm": "Which is best",
    "top-k": "Which are the best",
    "above": "Which pass a level",
    "any-above": "Does any pass a level",
    "claims": "Which beat the control",
    "statements": "Which statements hold",
    "minimum-below": "Is the lowest below a level",
    "largest": "How large is the largest",
}


class Line(NamedTuple):
    """A study in the list."""

    name: str
    question: str
    state: str
    kind: str  # of the state, for its colour: decided, waiting, open, over, closed, damaged
    results: str
    changed: str
    by: str
    danger: str  # what became of the guarantee, unless it was kept


def listed(each: Plain) -> Line:
    """A study of `list_studies`, in words."""
    budget = "" if each["budget"] is None else f" of {count(each['budget'])}"
    waiting = f" + {count(each['waiting'])}" if each["waiting"] else ""
    guarantee = str(each["guarantee"])
    danger = "" if guarantee == KEPT else "conditional" if guarantee.startswith(CONDITIONAL) else "void"
    return Line(
        each["name"],
        f"{QUESTIONS.get(each['question'], each['question'])}, of {count(each['arms'])}?",
        _state(each),
        each["state"],
        f"{count(each['results'])}{waiting}{budget}",
        day(each["changed"]),
        each["by"],
        danger,
    )


def _state(each: Plain) -> str:
    state = each["state"]
    if state == "decided":
        return f"decided: {each['answer']}"
    if state == "waiting":
        return "waiting for results" if not each["waiting"] else "waiting for the rest of a round"
    return {"open": "running, ready for the next round", "over": "ended, undecided", "closed": "closed"}.get(
        state, str(state)
    )
