"""What a form says, as the settings of a study and as the command that says the same."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roundwise.errors import InputError

QUESTIONS = {  # what is asked, in words
    "best-arm": "Which option is best?",
    "claims": "Which options beat the control?",
    "top-k": "Which k are the best?",
    "above": "Which pass a level?",
}
RESULTS = {  # what a result is, in words
    "binary": "yes / no (converted, responded, correct)",
    "bounded": "a score in a range",
    "unknown-variance": "a measurement (normal, its spread unknown)",
    "sub-gaussian": "a measurement (its spread at most known)",
    "poisson": "a count (events, clicks)",
}


@dataclass(frozen=True)
class Form:
    """The fields of the form for a new study or a plan, still as text."""

    name: str = ""
    question: str = "best-arm"
    arms: str = "Control\nShort form\nBig button\nGuest checkout"
    control: str = ""
    noise: str = "binary"
    low: str = "0"
    high: str = "1"
    sigma: str = "1"
    delta: str = "5 %"
    margin: str = "0"
    tolerance: str = ""
    k: str = "2"
    level: str = ""
    round: str = ""
    budget: str = "20000"
    split: str = ""
    around: str = "30 %"
    missing: str = "0 %"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Form:
        """The form as it was sent; fields that are not there have their defaults."""
        known = {key: str(value)[:20_000] for key, value in given.items() if key in cls.__dataclass_fields__}
        return cls(**known)

    @property
    def names(self) -> list[str]:
        """The options, one a line or separated by commas."""
        lines = [each.strip() for each in re.split(r"[\n,]" if "\n" not in self.arms.strip() else r"\n", self.arms)]
        return [each for each in lines if each]

    def words(self) -> dict[str, Any]:
        """The words of `roundwise new` and `roundwise plan`: an option and its value."""
        found: dict[str, Any] = {"question": self.question, "arms": self.names}
        if self.question == "claims":
            found["control"] = self.control.strip() or (self.names[0] if self.names else "")
            found["margin"] = number("A difference that matters", self.margin, 0.0)
        if self.question == "top-k":
            found["k"] = whole("How many", self.k)
        if self.question == "above":
            found["level"] = number("The level", self.level)
        if self.question == "best-arm" and self.tolerance.strip():
            found["tolerance"] = number("A difference that matters", self.tolerance)
        noise: dict[str, Any] = {"name": self.noise}
        if self.noise == "bounded":
            noise |= {"low": number("The lowest score", self.low), "high": number("The highest score", self.high)}
        if self.noise == "sub-gaussian":
            noise |= {"sigma": number("The spread", self.sigma)}
        found["noise"] = noise
        found["delta"] = number("The chance of a wrong answer", self.delta)
        if self.round.strip():
            found["round"] = whole("Results a round", self.round)
        if self.budget.strip():
            found["budget"] = whole("At most in all", self.budget)
        if self.split.strip():
            found["split"] = self.split.strip()
        return found

    def command(self) -> str:
        """The command that creates the same study."""
        words = self.words()
        noise = words.pop("noise")
        parts = ["roundwise", "new", self.name or "NAME", "--question", words.pop("question")]
        parts += ["--arms", ",".join(words.pop("arms"))]
        parts += {
            "binary": ["--binary"],
            "poisson": ["--counts"],
            "unknown-variance": ["--normal"],
            "bounded": ["--range", f"{noise.get('low', 0):g}", f"{noise.get('high', 1):g}"],
            "sub-gaussian": ["--sigma", f"{noise.get('sigma', 1):g}"],
        }[self.noise]
        for key, value in words.items():
            parts += [f"--{key.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join(parts)


def number(what: str, text: str, default: float | None = None) -> float:
    """A number as people write it: 5 %, 2 points, 0.05, 1,000."""
    cleaned = re.sub(r"[\s\u202f\u00a0]", "", text).lower()
    if not cleaned and default is not None:
        return default
    scale = 1.0
    for ending in ("points", "point", "%", "percent"):
        if cleaned.endswith(ending):
            cleaned, scale = cleaned.removesuffix(ending), 0.01
            break
    try:
        value = float(re.sub(r",(?=\d{3}(\D|$))", "", cleaned)) * scale
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{what} is '{text[:40]}', but must be a number such as 5 % or 0.05.")
    return value


def whole(what: str, text: str) -> int:
    """A whole number as people write it: 20 000, 20,000."""
    value = number(what, text)
    if value != int(value) or value < 1:
        raise InputError(f"{what} is '{text[:40]}', but must be a whole number of at least 1.")
    return int(value)
