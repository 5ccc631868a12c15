"""Further metrics of a study: guardrails and secondary metrics, each a column of the same rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from roundwise.arrays import Facts, Plain
from roundwise.errors import InputError, unknown
from roundwise.messages import Remedy
from roundwise.model.spec import from_spec, parse_quantity, to_spec
from roundwise.noise import Noise
from roundwise.questions import Claims, Question

Role = Literal["guardrail", "secondary"]
ROLES: tuple[Role, ...] = ("guardrail", "secondary")


@dataclass(frozen=True)
class Metric:
    """A further metric of the rows of a study, which are claims against the control, too.

    A guardrail claims that an arm is not worse than the control by the margin or more, a secondary metric that it is
    better by more than the margin. All claims of all metrics are one closed test (docs/against-a-control.md).

    Args:
        name: What reports call it.
        noise: What is assumed of its values.
        role: "guardrail" or "secondary".
        margin: How much worse an arm may be (guardrail), or how much better it must be.
        lower_is_better: Whether lower values are better: times, costs, errors.
        column: Its column in result files, by default the one that is called as the metric is.
        unit: Of its values in reports.
        denominator: The column of denominators, if it is a ratio of sums over ids.

    >>> from roundwise import LargeSample
    >>> Metric("latency", LargeSample(), margin=20, lower_is_better=True, unit="ms").claims(["a", "b"], "a").names
    ('b is not worse than a by 20 or more',)
    """

    name: str
    noise: Noise
    role: Role = "guardrail"
    margin: float = 0.0
    lower_is_better: bool = False
    column: str | None = None
    unit: str | None = None
    denominator: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip().isprintable() and 0 < len(self.name.strip()) <= 60):
            raise InputError(f"The metric {str(self.name)[:60]!r} needs a name of at most 60 letters.")
        if self.role not in ROLES:
            raise unknown("role of a metric", self.role, ROLES)
        margin = parse_quantity(self.margin, f"margin of {self.name}")
        object.__setattr__(self, "margin", margin)
        least = "positive" if self.role == "guardrail" else "at least 0"
        if not math.isfinite(margin) or margin < 0 or (self.role == "guardrail" and margin == 0):
            raise InputError(
                f"The margin of the {self.role} '{self.name}' is {margin:g}, but must be {least}: "
                + (
                    "how much worse than the control an arm may be."
                    if least == "positive"
                    else "how much better it is."
                )
            )

    @property
    def title(self) -> str:
        """The title of its column in result files."""
        return (self.column or self.name).strip()

    def claims(self, arms: Sequence[str], control: int | str, two_sided: bool = False) -> Claims:
        """Build its claims about every other arm, with their opposites if `two_sided`."""
        level = -self.margin if self.role == "guardrail" else self.margin
        sides, lower = "two" if two_sided else "one", self.lower_is_better
        return Claims.against_control(list(arms), control, level, sides=sides, lower_is_better=lower)

    def to_json(self) -> Plain:
        """Return the metric as JSON, without the settings that have their default."""
        usual = {each.name: each.default for each in dataclasses.fields(self)}
        found = {name: value for name, value in vars(self).items() if value != usual[name]}
        return found | {"noise": to_spec(self.noise)}

    @classmethod
    def from_json(cls, payload: Facts) -> Self:
        """Read the metric that `to_json` wrote, or a person."""
        known = [each.name for each in dataclasses.fields(cls)]
        for key in payload:
            if key not in known:
                raise unknown("setting of a metric", key, known)
        if "name" not in payload or "noise" not in payload:
            raise InputError("A metric needs a `name` and a `noise` model.")
        noise = payload["noise"]
        return cls(**{**payload, "noise": from_spec("noise", noise) if isinstance(noise, Mapping | str) else noise})


LOWER = ("lower", "lower-is-better", "lower_is_better")


def parse_metric(text: str, role: Role, trusted: bool = False) -> Metric:
    """Return the metric that a text such as `latency:large-sample,column=ms,lower,margin=20` describes.

    The name and the noise model come first; settings of neither kind are those of the noise model. A module that it
    names is imported only if the text is `trusted`.

    >>> parse_metric("stars:bounded,low=1,high=5,margin=0.2", "guardrail").noise
    Bounded(low=1.0, high=5.0)
    """
    name, _, rest = (part.strip() for part in text.partition(":"))
    model, *settings = (word.strip() for word in rest.split(","))
    if not name or not model:
        raise InputError(
            f"'{text}' is not a metric. Give its name and noise model, as in latency:large-sample,column=ms,lower,"
            "margin=20."
        )
    own: dict[str, Any] = {"lower_is_better": any(each in LOWER for each in settings)}
    others = []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key in ("column", "margin", "unit", "denominator"):
            own[key] = value.strip()
        elif setting not in LOWER:
            others.append(setting)
    try:
        noise = from_spec("noise", ":".join([model, *([",".join(others)] if others else [])]), trusted=trusted)
    except InputError as error:
        known = "Every metric has the settings column=, denominator=, lower, margin= and unit=."
        raise InputError(f"{name}: {error}", Remedy(known)) from None
    return Metric(name, noise, role, **own)


def parse_metrics(given: Any) -> tuple[Metric, ...]:
    """Return several metrics, given as objects or as JSON."""
    if not isinstance(given, list | tuple):
        raise InputError("Give a list of metrics, for example [Metric('latency', LargeSample(), margin=20)].")
    found = tuple(Metric.from_json(each) if isinstance(each, Mapping) else each for each in given)
    for what in ("name", "title"):
        titles = [getattr(each, what).strip().casefold() for each in found]
        if len(set(titles)) < len(titles):
            raise InputError(f"Two metrics have the same {'name' if what == 'name' else 'column'}.")
    return found


def check_question(question: Question) -> None:
    """Raise an InputError unless further metrics can join the claims of this question."""
    if not question.separate_claims or question.reference_arm is None or question.independent:
        raise InputError(
            "Several metrics need claims against one control: use the question 'claims' with a control "
            "(`Claims.against_control`)."
        )
