"""Sentences of the command line, and lines of the list of studies, in the words of the page."""

from __future__ import annotations

import re
from typing import NamedTuple

from roundwise.arrays import Plain
from roundwise.report.wording import count, day

WORDS = [
    (r" \(`roundwise [^`]*`\)", ""),
    (r"`roundwise close [^`]*` ends it", "“End the study” ends it"),
    (r"(Call `study\.ask\(\)`|Run `roundwise ask [^`]*`) first\.", "Begin the next round first."),
    (r"(`again=True`|`--new`|--new\b|`again`)", "the box “all of it is new”"),
    (r"(`cumulative=True`|--cumulative\b|`cumulative`)", "the box “a running total”"),
    (r"(`average_ids=True`|--average-ids\b)", "the box “several rows of one id are one result”"),
    (r"(`missing=[^`]*`|--missing REASON)", "the field “rows without a result”"),
    (r"--ignore-arms NAMES \(or '\*' for all\)", "the box “leave out other options”"),
    (r"`?--ignore-arms`?", "the box “leave out other options”"),
    (r"--arm-column( NAME)?", "the menu “option”"),
    (r"--outcome-column( NAME)?", "the menu “result”"),
    (r"--id-column( NAME)?", "the menu “id”"),
    (r"--time-column( NAME)?", "the menu “time”"),
    (r"--item-column( NAME)?", "the menu “item”"),
    (r"\bno arm '", "no option '"),
    (r"\bwas taken for the arm\b", "was taken for the option"),
    (r"\bwas taken for the outcome\b", "was taken for the result"),
    (r"\b(has|have) no outcome\b", r"\1 no result"),
    (r"\bits arms are fixed\b", "its options are fixed"),
    (r"\brows of other arms\b", "rows of other options"),
    (r"--unrelated", "the box “nothing to do with any result”"),
    (r"with --range or --sigma", "whose results are scores or measurements"),
    (r"`roundwise import-past`", "“Import earlier data”"),
]
PATTERNS = [(re.compile(pattern), words) for pattern, words in WORDS]


def of_options(text: str) -> str:
    """A question or an answer in the words of the page, where what is compared are options.

    >>> of_options("Which 2 of 4 arms have the highest rates?")
    'Which 2 of 4 options have the highest rates?'
    >>> of_options("Left arm is the best arm"), of_options("B is the best arm, or within 0.01 of it")
    ('Left arm', 'B, or within 0.01 of it')
    """
    text = re.sub(r" is the best arm(?=$|, or within [\d.e-]+ of it$)", "", text)
    return re.sub(r"\b(\d+) arms\b", r"\1 options", text)


def on_the_page(text: str) -> str:
    """What a message says, for somebody who sees a page and no command line.

    >>> on_the_page("No round is open. Run `roundwise ask x` first. Nothing was changed.")
    'No round is open. Begin the next round first. Nothing was changed.'
    >>> on_the_page("Say --arm-column NAME.")
    'Use the menu “option”.'
    """
    for pattern, words in PATTERNS:
        text = pattern.sub(words, text)
    text = re.sub(r"; the menu (“\w+”) says so for good", r"; if that is wrong, use the menu \1", text)
    return text.replace("Say the ", "Use the ").replace("say so: the ", "say so with the ")


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
    return Line(
        each["name"],
        of_options(each.get("asks") or f"{each['question']} of {each['arms']} arms"),
        _state(each),
        each["state"],
        f"{count(each['results'])}{waiting}{budget}",
        day(each["changed"]),
        each["by"],
        each.get("file") or "",
        "" if each["guarantee"]["status"] == "kept" else each["guarantee"]["status"],
    )


def _state(each: Plain) -> str:
    state, number = each["state"], each.get("round") or 0
    if state == "decided":
        return f"decided: {of_options(str(each['answer']))}"
    if state == "waiting":
        return f"running, round {number}: waiting for {'the rest' if each['waiting'] else 'results'}"
    words = {"open": f"running, round {number} can begin", "over": "ended, undecided", "closed": "closed"}
    return words.get(state, str(state))
