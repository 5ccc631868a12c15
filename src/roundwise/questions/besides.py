"""What a question may say besides what it owes, and what is taken for granted where it does not.

- `cells`, `level`                    of what kind its cells are for bets (`Cells`); candidates, if it does not say
- `tolerance`                         by how much an answer may miss the best; 0, if it does not say
- `piece_words(answer, names)`        what each half-space of an answer says; if not, `form_words`
- `asks(names, wording)`              the question in plain words; if not, its name
- `control`, `against`                the arm (an index) that all others are compared with, or None; on whatever scale
- `forms`, `levels`, `names`          of what is stated in linear forms: their coefficients, levels and names
- `line_words(names)`                 of several statements: each in words
- `led(means, lead)`                  means, all alike before, where what is sought is ahead by so much: a plan's ladder
- `flags(names)`                      the options that ask it on the command line; None if it takes a file
- `open_to_arms`                      that arms may leave and join, because it speaks of none by itself
- `check_range(low, high)`            raises an InputError if means between these alone answer it
- `fitted(counts, means)`             the means as the question knows them, if arms teach about each other
- `nearest_first`                     that of its right answers the first has the largest distances, one by one
- `features`                          of the arms, (K, d), if their means are linear in them
- `check_means(means)`                raises an InputError for true means that cannot be
- `true_shown(answer, means)`         of claims that are shown one by one: how many of those are true
- `centre(means, constant)`           the point on the border of every wrong answer nearest to the means, or None
                                      (`theory.bounds.affine`; `halfspaces.border_point` serves half-spaces)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.questions.base import Answer, Cells, Question, Tolerant, Wording, checked_open, form_words

PLAIN = Wording()


def asks(question: Question, names: Sequence[str], wording: Wording = PLAIN) -> str:
    """The question in plain words, in its own if it has some."""
    own: Callable[[Sequence[str], Wording], str] | None = getattr(question, "asks", None)
    return f"{question.name} of {len(names)} arms?" if own is None else own(names, wording)


def cells_of(question: Question) -> Cells:
    """The kind of its cells: candidates, unless it says otherwise."""
    found: Cells = getattr(question, "cells", "candidates")
    return found


def piece_words(question: Question, answer: Answer, names: Sequence[str]) -> list[str]:
    """What each half-space of an answer says, in the words of the question if it has its own."""
    own = getattr(question, "piece_words", None)
    return form_words(question.halfspaces(answer, len(names)), names) if own is None else list(own(answer, names))


def one_by_one(question: Question) -> bool:
    """Whether what is true is shown piece by piece, for good, and nothing need be shown in the end: claims."""
    return cells_of(question) == "claims"


def tolerance_of(question: Question) -> float:
    """By how much an answer may miss the best: 0, unless it says otherwise."""
    return float(getattr(question, "tolerance", 0.0))


def level_of(question: Question) -> float | None:
    """The level that means are compared with, if there is one."""
    found: float | None = getattr(question, "level", None)
    return found


def control_of(question: Question) -> int | None:
    """The arm that all others are compared with, if there is one."""
    found: int | None = getattr(question, "control", None)
    return found


def against(question: Question) -> int | None:
    """The same, on whatever scale they are compared."""
    found: int | None = getattr(question, "against", control_of(question))
    return found


def answer_names(question: Question, arms: Sequence[str]) -> Sequence[str]:
    """What the indices of an answer stand for: what the question names itself, or the arms."""
    own: Sequence[str] = getattr(question, "names", ())
    return own or arms


def answers_by_arm(question: Question) -> bool:
    """Whether the indices of an answer are those of arms, not of statements or scores."""
    return not hasattr(question, "forms")


def levels_of(question: Question) -> list[float]:
    """The different levels of what is stated; 0 where there are none."""
    return sorted({float(each) for each in getattr(question, "levels", [0.0])})


def seeks_best(question: Question) -> bool:
    """Whether one arm of the largest mean is sought, or one within a tolerance of it."""
    return cells_of(question) in ("one best", "best within a tolerance")


def line_words(question: Question, names: Sequence[str]) -> tuple[str, ...]:
    """What is stated or claimed, each in words; nothing where the question is not of several statements."""
    own: Callable[[Sequence[str]], Sequence[str]] | None = getattr(question, "line_words", None)
    return () if own is None else tuple(own(names))


def open_to_arms(question: Question) -> bool:
    """Whether arms may leave and join: it speaks of none of them by itself."""
    return bool(getattr(question, "open_to_arms", False))


def led(question: Question, means: Floats, lead: float) -> Floats:
    """Means with a lead: what is sought is ahead by it, all else is as it was. (K)->(K)"""
    own: Callable[[Floats, float], Floats | None] | None = getattr(question, "led", None)
    found = None if own is None else own(means, lead)
    if found is None:
        raise InputError(f"The question '{question.name}' has no ladder of leads. Give the means that are expected.")
    return found


def flags(question: Question, names: Sequence[str]) -> list[str] | None:
    """The options that ask it on the command line, beside its name; None where they are not enough."""
    own: Callable[[Sequence[str]], list[str] | None] | None = getattr(question, "flags", None)
    if own is not None:
        return own(names)
    known = {"--k": getattr(question, "k", None), "--level": level_of(question)}
    known |= {"--tolerance": tolerance_of(question) or None}
    return [word for option, value in known.items() if value is not None for word in (option, f"{value:g}")]


def tolerant(question: Question) -> Tolerant | None:
    """The question, as one of which several answers may be right; None if one alone is."""
    return question if isinstance(question, Tolerant) else None


def several_right(question: Question, means: ArrayLike) -> Bools:
    """Whether more than one answer is right, in each run."""
    values, may = np.asarray(means, dtype=np.float64), tolerant(question)
    if may is None:
        return np.zeros(values.shape[:-1], dtype=np.bool_)
    return np.asarray(may.ways(values) > 1)


def verdict(question: Question, counts: Floats, means: Floats) -> Answer:
    """The answer that the evidence is for: that at the means, or where several may be right the one with the most."""
    may = tolerant(question)
    return question.answer(means) if may is None else may.verdict(counts, means)


def fitted(question: Question, counts: Floats, means: Floats) -> Floats:
    """What is known of the means: those of the arms, unless arms teach about each other."""
    own: Callable[[Floats, Floats], Floats] | None = getattr(question, "fitted", None)
    return means if own is None else own(counts, means)


def candidates_at(question: Question, means: Floats, most: int) -> tuple[Answer, Bools]:
    """Right answers of which one has the most evidence, on the first axis, and which a run has. (A,...),(A)"""
    may = tolerant(question)
    if may is None or not tolerance_of(question):
        return question.answer(means)[None], np.ones((1, *means.shape[:-1]), dtype=np.bool_)
    return may.right_answers(means, 1 if getattr(question, "nearest_first", False) else most)


def features_of(question: Question) -> Floats | None:
    """Features of the arms that their means are linear in, if there are any. (K, d)"""
    found: Floats | None = getattr(question, "features", None)
    return found


def check_means(question: Question, means: ArrayLike) -> None:
    """Raise an InputError for true means that cannot be."""
    if hasattr(question, "check_means"):
        question.check_means(means)


def true_shown(question: Question, answer: Answer, means: Floats) -> Floats | None:
    """How many true claims were shown, in each run; None of a question that has one answer."""
    own: Callable[[Answer, Floats], Floats] | None = getattr(question, "true_shown", None)
    return None if own is None else own(answer, means)


def complexity_at(question: Question, means: Floats, sigma: float) -> Floats:
    """T* in each run; nan of a question that has none, as claims about odds ratios."""
    try:
        return question.complexity(means, sigma=sigma).value
    except InputError:
        return np.full(means.shape[:-1], np.nan)


def check_range(question: Question, low: float, high: float) -> None:
    """Raise an InputError where means between these two alone give the answer."""
    level = level_of(question)
    checked_open(f"The level is {level}", level is None or low <= level <= high, low, high)
    if hasattr(question, "check_range"):
        question.check_range(low, high)
