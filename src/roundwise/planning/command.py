"""The command that creates a study: the words of `roundwise new`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

import numpy as np

from roundwise.errors import InputError
from roundwise.noise import Noise, items_of
from roundwise.planning.candidates import policy_words
from roundwise.planning.wish import Wish
from roundwise.policies import usual_policy
from roundwise.policies.limited import limits_of
from roundwise.questions import Claims, Question
from roundwise.questions.besides import flags, one_by_one
from roundwise.spec import Thing, name_of, plain


def command(wish: Wish) -> str | None:
    """The words of `roundwise new` that create the study; None where they need a file."""
    try:
        question, noise = _question_options(wish.question, wish.names), noise_options(wish.noise)
    except InputError:  # a class that cannot be found again
        return None
    if question is None or any("," in name for name in wish.names):
        return None
    words = ["roundwise", "new", wish.name, *question, "--arms", ",".join(wish.names), *noise]
    words += ["--delta", f"{wish.delta:g}"]
    if policy_words(wish.policy) != usual_policy(wish.question).name:
        words += ["--policy", policy_words(wish.policy)]
    most, least = limits_of(wish.policy)
    words += [] if most is None else ["--max-batch", f"{most:g}"]
    words += ["--min-per-arm", f"{least:g}"] if least else []
    words += [] if wish.round is None else ["--round", str(wish.round)]
    words += [] if wish.split is None else ["--split", ":".join(f"{each:g}" for each in wish.split)]
    words += [] if wish.budget is None else ["--budget", str(int(wish.budget))]
    for what, column in wish.columns.payload().items():
        words += [f"--{what}-column", column]
    return " ".join(quote(each) for each in words)


def noise_options(noise: Noise) -> list[str]:
    """The options of a noise model on the command line."""
    own: Sequence[str] | None = getattr(noise, "flags", None)
    if own is None:
        return ["--noise", _named(noise)]
    return [*own, *(["--items"] if items_of(noise) is not None else [])]


def _question_options(question: Question, names: Sequence[str]) -> list[str] | None:
    """The options that ask a question; None where they need a file."""
    if ":" in name_of(question):
        return ["--question", _named(question)]
    found = flags(question, names)
    if found is None and one_by_one(question):
        found = _control_options(question, names)
    return None if found is None else ["--question", question.name, *found]


def _named(thing: Thing) -> str:
    """A thing by its name and its settings."""
    settings = ",".join(f"{key}={value}" for key, value in plain(thing).items() if key != "name")
    return name_of(thing) + (f":{settings}" if settings else "")


def _control_options(question: Question, names: Sequence[str]) -> list[str] | None:
    """The options that give just this question: each way to compare with a control is tried."""
    forms = np.asarray(getattr(question, "forms", np.zeros((1, 0))))
    for control in np.flatnonzero((forms < 0).all(axis=0)):
        for options, other in _against(question, names, names[int(control)]):
            if plain(other) == plain(question):
                return ["--control", names[int(control)], *options]
    return None


def _against(question: Any, names: Sequence[str], control: str) -> Iterator[tuple[list[str], Question]]:
    level = float(question.levels[0])
    margin = ["--margin", f"{level:.12g}"] if level else []
    yield margin, Claims.against_control(names, control, level)
    yield [*margin, "--two-sided"], Claims.against_control(names, control, level, sides="two")
    if question.futility is not None:
        futility = float(np.asarray(question.futility)[0])
        words = [*margin, "--futility", f"{futility:.12g}"]
        yield words, Claims.against_control(names, control, level, futility=futility)
    ratio = -float(np.asarray(question.forms)[0, list(names).index(control)])
    words = ["--margin-is", "ratio", "--margin", f"{ratio:.12g}"]
    yield words, Claims.against_control(names, control, ratio, scale="ratio")
    odds = float(f"{np.exp(level):.12g}")
    words = ["--margin-is", "odds-ratio", "--margin", f"{odds:.12g}"]
    yield words, Claims.against_control(names, control, odds, scale="odds-ratio")
    yield [*words, "--two-sided"], Claims.against_control(names, control, odds, scale="odds-ratio", sides="two")
