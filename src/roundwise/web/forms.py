"""The form of a new study: its fields as text, and the study or plan that they declare."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import cast

from roundwise.arrays import Facts, Plain
from roundwise.errors import InputError
from roundwise.ingest import Columns, Reading
from roundwise.ingest.reading import Empty, UnitResult
from roundwise.model.spec import THOUSANDS, from_spec, parse_quantity
from roundwise.noise import Noise
from roundwise.planning.request import PlanRequest
from roundwise.questions import Claims, Question
from roundwise.study.spec import StudySpec

QUESTIONS = {  # what is asked, in words
    "best-arm": "Which option is best?",
    "claims": "Which options beat the control?",
    "top-k": "Which are the best few?",
    "above": "Which pass a level?",
}
RESULTS = {  # what a result is, in words
    "binary": "yes / no (converted, responded, correct)",
    "bounded": "a score in a range (stars, points)",
    "normal": "a measurement (its spread is not known)",
    "sub-gaussian": "a measurement (its spread is at most …)",
    "poisson": "a count (events, clicks, defects)",
}
SPLITS = {
    "adaptive": "roundwise, each round anew (fastest)",
    "equal": "equal shares, always",
    "own": "shares of my own, always",
}
EMPTY = {"refused": "an error in the file", "zero": "0", "missing": "missing"}
UNITS = {"": "an error", "sum": "their sum", "mean": "their mean", "max": "the largest", "any": "yes if any is not 0"}
LONGEST = 20_000  # letters of a field


@dataclass(frozen=True)
class Form:
    """The fields of the form, still as text."""

    name: str = ""
    question: str = "best-arm"
    arms: str = ""
    control: str = ""
    margin: str = ""
    k: str = "2"
    level: str = ""
    tolerance: str = ""
    noise: str = "binary"
    low: str = "0"
    high: str = "1"
    sigma: str = "1"
    deviation: str = ""
    delta: str = "5 %"
    round: str = ""
    days: str = ""
    budget: str = ""
    splitting: str = "adaptive"
    split: str = ""
    baseline: str = ""
    missing: str = ""
    empty: str = "refused"
    id_column: str = ""
    unit_result: str = ""
    unit_window: str = ""
    time_column: str = ""
    share_above: str = ""
    policy: str = ""  # that the planner recommends; empty for the usual one

    @classmethod
    def of(cls, given: Facts) -> Form:
        """The form as it was sent; fields that are not there have their defaults."""
        known = {each.name for each in fields(cls)}
        return cls(**{key: value[:LONGEST] for key, value in given.items() if key in known and isinstance(value, str)})

    @property
    def names(self) -> list[str]:
        """The options, one a line; in a single line, separated by commas."""
        text = self.arms.strip()
        return [each.strip() for each in re.split(r"\n" if "\n" in text else r",", text) if each.strip()]

    def asked(self) -> Question:
        """The question; one of the user's own by its name, if the server was started with its module."""
        if self.question == "claims":
            control = self.control.strip() or (self.names[0] if self.names else "")
            return Claims.against_control(self.names, control, number("A difference that matters", self.margin, 0.0))
        said: dict[str, Callable[[], Plain]] = {
            "best-arm": lambda: {"tolerance": number("A difference that matters", self.tolerance, 0.0)},
            "top-k": lambda: {"k": whole("How many", self.k)},
            "above": lambda: {"level": number("The level", self.level)},
        }
        if self.question in said:
            return from_spec("question", {"name": self.question, **said[self.question]()})
        if ":" in self.question:
            return from_spec("question", self.question)
        raise InputError(f"There is no question '{self.question[:40]}' on this page.")

    def model(self) -> Noise:
        """What a result is; a model of the user's own in the same way."""
        said: dict[str, Callable[[], Plain]] = {
            "bounded": lambda: {
                "low": number("The lowest score", self.low),
                "high": number("The highest score", self.high),
            },
            "sub-gaussian": lambda: {"sigma": number("The spread", self.sigma)},
        }
        if self.noise in RESULTS:
            return from_spec("noise", {"name": self.noise, **said.get(self.noise, dict)()})
        if ":" in self.noise:
            return from_spec("noise", self.noise)
        raise InputError(f"There is no kind of results '{self.noise[:40]}' on this page.")

    def spec(self) -> StudySpec:
        """The study that the form declares."""
        return StudySpec.declare(**self._study(), policy=from_spec("policy", self.policy) if self.policy else None)

    def request(self, runs: int) -> PlanRequest:
        """The plan that the form asks for."""
        deviation = self.deviation if self.noise == "normal" else ""
        return PlanRequest.declare(
            **self._study(),
            baseline=_optional("What you expect", self.baseline),
            missing=_optional("Expected to go missing", self.missing),
            round_days=_optional("Days a round", self.days),
            deviation=_optional("The spread", deviation),
            name=self.name.strip() or "study",
            runs=runs,
        )

    def _study(self) -> Plain:
        if len(self.names) < 2:
            raise InputError("Give at least two options, one a line.")
        own = self.split.strip().replace(",", ":").replace(" ", ":") or "equal"
        return {
            "question": self.asked(),
            "arms": self.names,
            "noise": self.model(),
            "delta": number("The chance of a wrong answer", self.delta),
            "round": whole("Results a round", self.round) if self.round.strip() else None,
            "budget": whole("At most in all", self.budget) if self.budget.strip() else None,
            "split": {"adaptive": None, "equal": "equal"}.get(self.splitting, own),
            "columns": Columns(id=self.id_column.strip() or None, time=self.time_column.strip() or None),
            "reading": Reading(
                empty=cast(Empty, self.empty),
                unit_result=cast(UnitResult, self.unit_result) if self.unit_result else None,
                unit_window=self.unit_window.strip() or None,
                share_above=_optional("The value above which a result is a yes", self.share_above),
            ),
        }


def _optional(what: str, text: str) -> float | None:
    return number(what, text) if text.strip() else None


def number(what: str, text: str, default: float | None = None) -> float:
    """A number as people write it.

    >>> number("it", "5 %"), number("it", "2 points"), number("it", "1,000"), number("it", "0,123")
    (0.05, 0.02, 1000.0, 0.123)
    """
    if not text.strip() and default is not None:
        return default
    commas = text if THOUSANDS.fullmatch(re.sub(r"\s", "", text).lower()) else text.replace(",", ".")
    try:
        return parse_quantity(commas)
    except InputError:
        said = f"{what} is '{text.strip()[:40]}', but must be a number such as 5 % or 0.05."
        raise InputError(said) from None


def whole(what: str, text: str) -> int:
    """A whole number as people write it.

    >>> whole("it", "20 000"), whole("it", "20,000")
    (20000, 20000)
    """
    value = number(what, text)
    if value != int(value) or value < 1:
        raise InputError(f"{what} is '{text.strip()[:40]}', but must be a whole number of at least 1.")
    return int(value)
