"""The form of a new study: its fields as text, and the study or plan that they declare."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

from roundwise.arrays import Facts, Plain
from roundwise.errors import InputError
from roundwise.ingest import Columns, Reading
from roundwise.ingest.reading import Empty, MixedIds, UnitResult
from roundwise.messages import count
from roundwise.model.spec import POINTED, THOUSANDS, from_spec, parse_quantity
from roundwise.noise import Noise
from roundwise.planning.pilot import read_pilot
from roundwise.planning.render import describe_caps, describe_past
from roundwise.planning.request import OF_BASELINE, SHARE, PlanRequest, check_share, needs_deviation, parse_lead
from roundwise.policies import usual_policy
from roundwise.questions import Claims, Question
from roundwise.study.metrics import Metric, Role
from roundwise.study.spec import StudySpec

QUESTIONS = {  # what is asked, in words
    "best-arm": "Which arm is best?",
    "claims": "Which arms beat the control?",
    "top-k": "Which are the best few?",
    "above": "Which pass a level?",
    "any-above": "Does any pass a level?",
}
RESULTS = {  # what a result is, in words
    "binary": "yes / no (converted, responded, correct)",
    "bounded": "a score in a range (stars, points)",
    "normal": "bell-shaped (lab values, scores)",
    "large-sample": "money, times, counts of any shape",
    "capped": "the same, but large values count as a cap at most",
    "sub-gaussian": "a measurement whose spread is at most …",
    "poisson": "a count (events, clicks, defects)",
}
DIRECTIONS = {"": "higher is better", "lower": "lower is better"}
SPLITS = {
    "adaptive": "roundwise, each round anew (fastest)",
    "equal": "equal shares, always",
    "own": "shares of my own, always",
}
METRIC_ROLES = {  # what a further metric is for, in words
    "": "none",
    "guardrail": "guardrail: must not get worse",
    "secondary": "secondary: good to know",
}
METRIC_RESULTS = {name: RESULTS[name] for name in ("large-sample", "binary", "normal", "poisson")}
EMPTY = {"refused": "are an error in the file", "zero": "count as 0", "missing": "are missing: not known"}
TWO_ARMS = {"refused": "is an error in the file", "left-out": "is left out"}
UNITS = {"": "an error", "sum": "their sum", "mean": "their mean", "max": "the largest", "any": "yes if any is not 0"}
METRICS = 3  # further ones on the form
SETTINGS = {  # the fields of the form that a question or a noise model has
    "best-arm": ("tolerance",),
    "top-k": ("k",),
    "above": ("level",),
    "any-above": ("level",),
    "bounded": ("low", "high"),
    "capped": ("cap", "floor"),
    "sub-gaussian": ("sigma",),
}
LABELS = {  # of the fields that are numbers
    "margin": "Beat it by more than",
    "tolerance": "Too close to matter",
    "k": "How many",
    "level": "The level",
    "low": "The lowest score",
    "high": "The highest score",
    "cap": "The cap",
    "floor": "The floor",
    "sigma": "The spread",
    "deviation": "The spread",
    "skewness": "The skewness",
    "delta": "The chance of a wrong answer",
    "round": "Results per round",
    "budget": "At most in all",
    "looks": "Rounds at most",
    "baseline": "What you expect",
    "lead": "The smallest lead that matters",
    "missing": "Expected to go missing",
    "days": "Days a round",
    "per_day": "Results per day",
    "share_above": "The value above which a result is a yes",
    "share_below": "The value below which a result is a yes",
}
MENUS = {  # by their names in `new.html`
    "questions": QUESTIONS,
    "directions": DIRECTIONS,
    "results": RESULTS,
    "splits": SPLITS,
    "empties": EMPTY,
    "units": UNITS,
    "mixed_ids": TWO_ARMS,
    "roles": METRIC_ROLES,
    "metric_results": METRIC_RESULTS,
}
FULL = 7 / 8  # of what comes in the days of a round: days differ, and ids that return count once
PACE = 0.05  # how far results a round may be from results per day times days
COLUMN_ROLES = ("arm", "outcome", "denominator", "id", "time", "item", "covariate")
WHOLE = ("k", "round", "budget", "looks")
LONGEST = 20_000  # letters of a field


class MetricFields(NamedTuple):
    """The fields of a further metric, still as text."""

    role: str = ""
    name: str = ""
    column: str = ""
    noise: str = "large-sample"
    direction: str = ""
    margin: str = ""
    unit: str = ""

    def metric(self) -> Metric:
        margin = number(f"How much of {self.name} matters", self.margin) if self.margin.strip() else 0.0
        return Metric(
            self.name,
            from_spec("noise", self.noise),
            cast(Role, self.role),
            margin,
            self.direction == "lower",
            self.column.strip() or None,
            self.unit.strip() or None,
        )


@dataclass(frozen=True)
class Form:
    """The fields of the form, still as text."""

    name: str = ""
    question: str = "best-arm"
    direction: str = ""
    unit: str = ""
    arms: str = ""
    control: str = ""
    margin: str = ""
    metrics: tuple[MetricFields, ...] = ()
    k: str = "2"
    level: str = ""
    tolerance: str = ""
    noise: str = "binary"
    low: str = "0"
    high: str = "1"
    cap: str = ""
    floor: str = ""
    sigma: str = "1"
    deviation: str = ""
    skewness: str = ""
    delta: str = "5 %"
    round: str = ""
    days: str = ""
    per_day: str = ""
    budget: str = ""
    looks: str = ""
    splitting: str = "adaptive"
    split: str = ""
    baseline: str = ""
    lead: str = ""
    missing: str = ""
    empty: str = "refused"
    arm_column: str = ""
    outcome_column: str = ""
    denominator_column: str = ""
    id_column: str = ""
    id_result: str = ""
    id_window: str = ""
    time_column: str = ""
    item_column: str = ""
    covariate_column: str = ""
    mixed_ids: str = "refused"
    share_above: str = ""
    share_below: str = ""
    policy: str = ""  # that the planner recommends; empty for the usual one
    planned: str = ""  # the fingerprint of the form that it was recommended for

    @classmethod
    def of(cls, given: Facts) -> Form:
        """The form as it was sent; fields that are not there have their defaults."""
        known = {each.name for each in fields(cls)} - {"metrics"}
        metrics = []
        for i in range(1, METRICS + 1):
            found = {key: given.get(f"metric_{i}_{key}") for key in MetricFields._fields}
            if found["role"]:
                metrics.append(MetricFields(**{key: str(value)[:200] for key, value in found.items() if value}))
        texts = {key: value[:LONGEST] for key, value in given.items() if key in known and isinstance(value, str)}
        return cls(**texts, metrics=tuple(metrics))

    @property
    def alone(self) -> Form:
        """The first metric alone, with its part of the chance of a wrong answer: what is forecast of several."""
        return replace(self, metrics=(), delta=f"{(self.read('delta') or 0.05) / (1 + len(self.metrics)):.6g}")

    @property
    def names(self) -> list[str]:
        """The arms, one per line; in a single line, separated by commas."""
        text = self.arms.strip()
        return [each.strip() for each in re.split(r"\n" if "\n" in text else r",", text) if each.strip()]

    def read(self, name: str) -> Any:
        """The number in a field; None where it is empty."""
        text: str = vars(self)[name]
        if not text.strip():
            return None
        return (whole if name in WHOLE else number)(LABELS[name], text)

    def _settings(self, name: str) -> Plain:
        """A question or a noise model as plain data, with its settings."""
        found = {key: self.read(key) for key in SETTINGS.get(name, ())}
        for key, value in found.items():
            if value is None and key not in ("tolerance", "floor"):
                raise InputError(f"{LABELS[key]} is missing. Give a number such as 5 % or 0.05.")
        return {"name": name, **{key: value for key, value in found.items() if value is not None}}

    def asked(self) -> Question:
        """The question: one of the menu, or any other as `name:setting=value`, such as one of the user's own."""
        if self.question == "claims":
            control = self.control.strip() or (self.names[0] if self.names else "")
            margin, lower = self.read("margin") or 0.0, self.direction == "lower"
            sides = "two" if self.metrics else "one"  # so that it can be shown that a guardrail is violated
            return Claims.against_control(self.names, control, margin, sides=sides, lower_is_better=lower)
        if self.question not in QUESTIONS:
            return from_spec("question", self.question)
        return from_spec("question", self._settings(self.question) | {"lower_is_better": self.direction == "lower"})

    def model(self) -> Noise:
        """The noise model: one of the menu, or any other in the same way."""
        return from_spec("noise", self._settings(self.noise) if self.noise in RESULTS else self.noise)

    def spec(self) -> StudySpec:
        recommended = self.policy and self.planned == self.fingerprint
        return StudySpec.declare(**self._study(), policy=from_spec("policy", self.policy) if recommended else None)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the fields that a recommendation depends on."""
        return hashlib.sha256(repr(replace(self, name="", policy="", planned="")).encode()).hexdigest()[:16]

    def request(self, runs: int) -> PlanRequest:
        lead = self._lead()
        return PlanRequest.declare(
            **self._study(),
            baseline=self.read("baseline"),
            leads=None if lead is None or self._designed else (lead, 2 * lead),
            target=None if self._designed else lead,
            missing=self.read("missing"),
            round_days=None if self.per_day.strip() else self._days(),
            per_day=self.read("per_day"),
            deviation=self.read("deviation") if self.noise in ("normal", "large-sample", "capped") else None,
            skewness=self.read("skewness") if self.noise == "large-sample" else None,
            name=self.name.strip() or "study",
            runs=runs,
        )

    def _lead(self) -> float | None:
        """The lead to plan for, also relative to what is expected."""
        if OF_BASELINE.fullmatch(self.lead.strip()):
            return parse_lead(self.lead, self.read("baseline"))
        check_share(self.lead, self.model())
        return self.read("lead")

    def from_past(self, source: object) -> tuple[Form, str]:
        """The form with what a past file says, and that in words; a range, a spread or a cap that was chosen stays."""
        study = replace(self, lead="")._study()
        question, chosen = study["question"], self.noise in SETTINGS
        control, noise = question.reference_arm or 0, study["noise"] if chosen else None
        past = read_pilot(source, self.names, control, study["columns"], study["reading"], noise)
        noise = past.proposed[0] if noise is None else noise
        spread = past.spread(noise)
        fields: dict[str, Any] = {
            "noise": self.noise if chosen else noise.name,
            "missing": f"{100 * past.missing:.3g} %",
        }
        if needs_deviation(noise):
            fields["deviation"] = f"{spread.deviation:.4g}"
        if noise.needs == "cubes":
            fields["skewness"] = f"{spread.skewness:.3g}"
        if question.level is None:
            fields["baseline"] = f"{100 * spread.mean:.4g} %" if noise.outcome.rates else f"{spread.mean:.4g}"
        if not noise.outcome.limited and SHARE.fullmatch(self.lead):  # of a rate, such as the example's
            fields["lead"] = "10 % of baseline"
        if past.per_day is not None and not self.days.strip():
            fields["per_day"] = f"{past.per_day:.0f}"
        return replace(self, **fields), f"{describe_past(past, noise)} {describe_caps(past, noise)}".strip()

    def _round(self) -> int | None:
        """The results of a round, also where they follow from results per day and days per round."""
        size, days, per_day = self.read("round"), self.read("days"), self.read("per_day")
        looks, budget = self.read("looks"), self.read("budget")
        if looks is not None and size is None:
            chosen = budget is None or (per_day is None and self.question != "claims")  # by the policy
            return None if chosen else math.ceil(budget / looks)
        if looks is not None and budget is not None and size * looks < (1 - PACE) * budget:
            raise InputError(
                f"These do not fit together: at most {count(looks)} rounds of {count(size)} results are fewer than "
                f"{count(budget)} in all. Leave one of them empty."
            )
        if per_day is None or (size is None and (days or 1.0) * per_day < 1):
            return size
        come = (days or 1.0) * per_day
        if size is not None and days is not None and abs(size - come) > PACE * size:
            raise InputError(
                f"These do not fit together: {count(size)} results per round, {count(per_day)} per day, and rounds of "
                f"{days:g} days, in which {count(come)} come. Leave one of them empty."
            )
        if size is None and budget is not None and come > budget:
            return int(budget)
        return max(int(FULL * come), 1) if size is None else size

    def _days(self) -> float | None:
        """The days of a round, which say nothing without the results that come in them."""
        days: float | None = self.read("days")
        if days is not None and not self.round.strip():
            raise InputError(
                f"Rounds take {days:g} days, but how many results come in them? Give results per day or per "
                "round, or leave the days empty."
            )
        return days

    @property
    def _designed(self) -> bool:
        return bool(self.budget.strip()) and usual_policy(self.asked(), True, len(self.names)).plans_budget

    def _study(self) -> Plain:
        if len(self.names) < 2:
            raise InputError("Give at least two arms, one per line.")
        size, budget = self._round(), self.read("budget")
        if size is not None and budget is not None and size > budget:
            raise InputError(
                f"A round of {count(size)} results is more than the {count(budget)} that there may be in all."
            )
        if self.question == "claims" and self.looks.strip() and budget is None:
            raise InputError(f"“{LABELS['looks']}” needs “{LABELS['budget']}”: a round is then a part of it.")
        own = self.split.strip().replace(",", ":").replace(" ", ":") or "equal"
        return {
            "question": self.asked(),
            "arms": self.names,
            "noise": self.model(),
            "delta": self.read("delta"),
            "round_size": size,
            "budget": budget,
            "lead": self._lead() if self._designed else None,
            "looks": None if self.question == "claims" else self.read("looks"),  # the size of rounds says it
            "unit": self.unit.strip() or None,
            "metrics": tuple(each.metric() for each in self.metrics) if self.question == "claims" else (),
            "split": {"adaptive": None, "equal": "equal"}.get(self.splitting, own),
            "columns": Columns(**{role: getattr(self, f"{role}_column").strip() or None for role in COLUMN_ROLES}),
            "reading": Reading(
                empty=cast(Empty, self.empty),
                id_result=cast(UnitResult, self.id_result) if self.id_result else None,
                id_window=self.id_window.strip() or None,
                mixed_ids=cast(MixedIds, self.mixed_ids),
                share_above=self.read("share_above"),
                share_below=self.read("share_below"),
            ),
        }


def number(what: str, text: str) -> float:
    """A number as people write it.

    >>> number("it", "5 %"), number("it", "2 points"), number("it", "1,000"), number("it", "0,123")
    (0.05, 0.02, 1000.0, 0.123)
    """
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
    try:
        value = number(what, text)
    except InputError:
        value = 0
    if value != int(value) or value < 1 or POINTED.fullmatch(text):
        said = f"{what} is '{text.strip()[:40]}', but must be a whole number of at least 1, such as 20 000."
        raise InputError(said)
    return int(value)
