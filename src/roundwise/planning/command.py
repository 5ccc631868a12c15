"""The command that creates a study: the words of `roundwise new`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

import numpy as np

from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian, UnknownVariance
from roundwise.planning.candidates import policy_words
from roundwise.planning.wish import Wish
from roundwise.policies import usual_policy
from roundwise.questions import Claims, Largest, Question, Statements
from roundwise.spec import name_of, plain


def command(wish: Wish) -> str | None:
    """The words of `roundwise new` that create the study; None where they need a file."""
    question = _question_options(wish.question, wish.names)
    if question is None:
        return None
    words = ["roundwise", "new", wish.name, *question, "--arms", ",".join(wish.names), *noise_options(wish.noise)]
    words += ["--delta", f"{wish.delta:g}"]
    if policy_words(wish.policy) != usual_policy(wish.question).name:
        words += ["--policy", policy_words(wish.policy)]
    most, least = getattr(wish.policy, "max_batch", None), getattr(wish.policy, "min_per_arm", 0.0)
    words += [] if most is None else ["--max-batch", f"{most:g}"]
    words += ["--min-per-arm", f"{least:g}"] if least else []
    words += [] if wish.round is None else ["--round", str(wish.round)]
    words += [] if wish.split is None else ["--split", ":".join(f"{each:g}" for each in wish.split)]
    words += [] if wish.budget is None else ["--budget", str(int(wish.budget))]
    return " ".join(quote(each) for each in words)


def _question_options(question: Question, names: Sequence[str]) -> list[str] | None:
    found = ["--question", question.name]
    if isinstance(question, Claims | Statements | Largest):
        options = _control_options(question, names)
        return None if options is None else [*found, *options]
    for option in ("k", "level", "tolerance"):
        value = getattr(question, option, None)
        if value is not None and not (option == "tolerance" and value == 0):
            found += [f"--{option}", f"{value:.12g}"]
    return found


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
    if isinstance(question, Statements):
        yield margin, Statements.against_control(names, control, level)
        return
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


def noise_options(noise: Noise) -> list[str]:
    """The options of a noise model on the command line."""
    if isinstance(noise, Binary):
        return ["--binary"]
    if isinstance(noise, Poisson):
        return ["--counts"]
    if isinstance(noise, Bounded):
        return ["--range", f"{noise.low:g}", f"{noise.high:g}"]
    if isinstance(noise, Gaussian):
        return ["--sigma", f"{noise.sigma:g}", "--normal"]
    if isinstance(noise, SubGaussian):
        return ["--sigma", f"{noise.sigma:g}"]
    if noise == UnknownVariance():
        return ["--normal"]
    fields = {key: value for key, value in plain(noise).items() if key != "name"}
    settings = ",".join(f"{key}={value}" for key, value in fields.items())
    return ["--noise", name_of(noise) + (f":{settings}" if settings else "")]
