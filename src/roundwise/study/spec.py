"""The declaration of a study: every setting with its type, default, help text and checks.

`create_study`, `roundwise new`, `roundwise plan`, the REST API, the form of the web page and the record of a study all
derive from `StudySpec`. A new setting is one more field of it.
"""

from __future__ import annotations

# ruff: noqa: RUF009 - `setting` returns a field
import dataclasses
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from roundwise.arrays import Facts, Plain
from roundwise.contract import check_classes
from roundwise.errors import InputError, unknown
from roundwise.ingest.reading import Columns, Reading, index_arms
from roundwise.messages import COMBINED, Remedy, option, several
from roundwise.model.problem import Problem, begin, check_whole_number
from roundwise.model.spec import POINTED, from_spec, parse_quantity, to_spec
from roundwise.noise import Noise
from roundwise.policies import POLICIES, Policy, Rounds, usual_policy
from roundwise.policies.base import Limited, shares
from roundwise.policies.lists import Lockstep
from roundwise.questions import QUESTIONS, Question
from roundwise.study.item_list import ItemList
from roundwise.study.metrics import Metric, check_question, parse_metrics

SEED_BITS = 53  # integers up to 2**53 survive every JSON reader

ValueType = Literal[
    "question", "noise", "policy", "names", "columns", "reading", "metrics", "list",
    "number", "numbers", "whole", "shares", "prices", "label", "path",
]  # fmt: skip


class SpecField(NamedTuple):
    """The declaration of a setting for every surface, beyond its name and default."""

    type: ValueType
    help: str  # one line, a noun phrase
    least: int = 1  # smallest whole number
    example: Any = None

    def parse(self, name: str, value: Any) -> Any:
        """Return `value` (an object, text as typed by a person, or JSON) as the setting `name` holds it.

        Raises:
            InputError: if the value does not fit.
        """
        shown = option(name).strip("`")
        if self.type == "number":
            return parse_quantity(value, shown)
        if self.type == "numbers":
            return parse_numbers(value, shown)
        if self.type == "whole":
            if isinstance(value, str) and POINTED.fullmatch(value):
                raise InputError(f"`{shown}` is {value!r}: write whole numbers without a point, such as 20 000.")
            return check_whole_number(
                shown, parse_quantity(value, shown) if isinstance(value, str) else value, self.least
            )
        if self.type == "names":
            return arm_names(value)
        if self.type == "metrics":
            return parse_metrics(value) if value else ()
        if self.type == "list":
            return ItemList.parse(value)
        if self.type in ("question", "noise", "policy"):
            if isinstance(value, str):
                example = {"question": "BestArm()", "noise": "Binary()", "policy": "Wager()"}[self.type]
                raise InputError(f"`{name}` is the text '{value[:40]}'. Give the object, for example {example}.")
            return from_spec(self.type, value) if isinstance(value, Mapping) else value
        if self.type in ("columns", "reading") and isinstance(value, Mapping):
            given = {key: each for key, each in value.items() if each is not None}
            return Columns(**given) if self.type == "columns" else Reading(**given)
        return value


def setting(
    type: ValueType,
    help: str,
    default: Any = dataclasses.MISSING,
    *,
    factory: Callable[[], Any] | None = None,
    least: int = 1,
    example: Any = None,
) -> Any:
    """A field of a dataclass that people set: the arguments are those of `SpecField`."""
    about = {"setting": SpecField(type, help, least, example)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=about)
    return dataclasses.field(default=default, metadata=about)


def settings_of(kind: type[Any]) -> dict[str, tuple[SpecField, Any]]:
    """The settings that a dataclass declares, by name: each with its default (MISSING where one must be given)."""
    return {
        each.name: (each.metadata["setting"], None if callable(each.default_factory) else each.default)
        for each in dataclasses.fields(kind)
        if "setting" in each.metadata
    }


def parse_settings(spec: Any) -> None:
    """Replace the settings of a frozen dataclass by their parsed values; None stays where it is the default."""
    for name, (about, default) in settings_of(type(spec)).items():
        value = getattr(spec, name)
        if value is not None or default is not None:
            object.__setattr__(spec, name, about.parse(name, value))


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A question asked of named arms under a noise model, at error probability delta, with a sampling policy.

    Fields with a help text are what people declare (see `create_study`). The others follow from how the study was
    created and what was changed since. Values are parsed and checked on construction, so every instance is valid.
    """

    question: Question = setting(
        "question", f"Question: {', '.join(QUESTIONS)}, or your own module:Class.", example={"name": "best-arm"}
    )
    arms: tuple[str, ...] = setting("names", "Arm names, comma-separated.", example=["Control", "Big button"])
    noise: Noise = setting("noise", "Noise model by name, or your own module:Class.", example={"name": "binary"})
    delta: float = setting("number", "Largest probability of a wrong answer, e.g. 0.05 or 5%.", 0.05)
    policy: Policy = setting(
        "policy",
        "Sampling policy, e.g. pet (default: conditional-power for claims, designed with a budget, else wager).",
        None,
    )
    max_round_size: int | None = setting("whole", "Maximum number of results per round.", None)
    min_per_arm: int = setting("whole", "Minimum number of results per arm that a round samples.", 0, least=0)
    budget: int | None = setting("whole", "Maximum number of results in the whole study.", None)
    lead: float | None = setting("number", "Smallest lead that matters, in units of the results: 2%, 10%-of-30%.", None)
    looks: int | None = setting(
        "whole", "Number of rounds that the study is planned for (with a budget and a lead: 5).", None
    )
    round_size: int | None = setting("whole", "Number of results in every round.", None)
    split: tuple[float, ...] | None = setting("shares", "Fixed allocation ratio, e.g. 2:1:1, or equal.", None)
    columns: Columns = setting("columns", "Names of the columns in result files.", factory=Columns)
    reading: Reading = setting("reading", "Rules by which rows become results.", factory=Reading)
    list: ItemList | None = setting(
        "list", "Finite list of items that every arm is tried on: the answer is about this list.", None
    )
    max_cost: float | None = setting("number", "Maximum cost of all results, at their prices.", None)
    prices: tuple[float, ...] | None = setting(
        "prices", "Price of a result: one number per arm, e.g. small=1,large=50.", None
    )
    unit: str | None = setting("label", "Unit of the results in reports, e.g. s, ms or $.", None)
    metrics: tuple[Metric, ...] = setting(
        "metrics",
        "Guardrails and secondary metrics of the same rows, for claims against a control.",
        factory=tuple,
        example=[{"name": "latency", "noise": {"name": "large-sample"}, "margin": 20, "lower_is_better": True}],
    )
    seed: int = setting(
        "whole",
        "Seed of the random partition of rows (drawn if omitted).",
        factory=lambda: secrets.randbits(SEED_BITS),
        least=0,
    )
    seed_given: bool = False  # the seed was chosen, not drawn: the partition of rows is known beforehand
    same_list: tuple[str, ...] = ()  # studies of the same list that there were in the storage when it was created
    left_out: tuple[str, ...] = ()  # arms that are no longer sampled, although claims are about them

    def __post_init__(self) -> None:
        if isinstance(limits := self.policy, Limited):
            for name, value in (
                ("policy", limits.policy),
                ("max_round_size", limits.max_batch),
                ("min_per_arm", limits.min_per_arm),
            ):
                object.__setattr__(self, name, value)
        parse_settings(self)
        if self.prices is not None:
            object.__setattr__(self, "prices", one_for_each(self.prices, self.arms, "price"))
        if self.max_cost is not None and (self.prices is None or self.budget is not None):
            raise InputError("A largest cost goes with prices, in place of a budget in results. Give one of the two.")
        if self.list is not None:
            self._set_up_list(self.list)
        if self.policy is None:
            object.__setattr__(self, "policy", usual_policy(self.question, self.budget is not None, len(self.arms)))
            if self.lead is not None and not self.policy.plans_budget:
                self._refuse_lead()
        object.__setattr__(self, "policy", self.policy.with_design(self.budget, self.lead, self.looks))
        object.__setattr__(self, "reading", self.reading.of_columns(self.columns))
        if self.policy.plans_budget:  # it may have been given with the policy
            for name in ("budget", "lead"):
                object.__setattr__(self, name, getattr(self.policy, name))
        if self.columns.item is not None and self.list is None:
            object.__setattr__(self, "noise", self.noise.with_items())
        self._check_reading()
        self._check_metrics()
        object.__setattr__(self, "split", shares(self.split, len(self.arms)))
        if self.unit is not None and not (str(self.unit).isprintable() and 0 < len(str(self.unit)) <= 20):
            raise InputError(f"The unit is {str(self.unit)[:40]!r}, but must be a short text such as s, ms or $.")
        self.acting.check(self.problem)
        low, high = self.noise.mean_range
        if self.lead is not None and self.lead > high - low:
            raise InputError(f"The lead is {self.lead:g}, but means differ by at most {high - low:g}.")

    def _refuse_lead(self) -> None:
        """Say why nothing is designed for the lead."""
        arms = len(self.arms)
        if self.budget is None and usual_policy(self.question, True, arms).plans_budget:
            raise InputError(
                "A lead needs a budget, for which the study is designed.",
                Remedy("Add {@budget}: a plan with the lead alone proposes one."),
            )
        near = " with a tolerance" if self.question.tolerance else ""
        if any(usual_policy(self.question, True, fewer).plans_budget for fewer in range(2, arms)):
            near = f" of {arms} arms: there are too many answers"
        raise InputError(f"There is no design for '{self.question.name}'{near}.", Remedy("Leave out {@lead}."))

    @classmethod
    def declare(cls, **settings: Any) -> Self:
        """Build the spec from what a person declares, in Python or as JSON; None stands for the default."""
        given = {name: value for name, value in settings.items() if value is not None}
        return cls(**given, seed_given="seed" in given)

    @classmethod
    def from_json(cls, payload: Facts) -> Self:
        """Read the spec that `to_json` wrote; an InputError where a later version wrote what this one would ignore."""
        names = [each.name for each in dataclasses.fields(cls)]
        if (others := [each for each in payload if each not in names]) != []:
            raise InputError(
                f"It has the setting '{others[0]}', which this version does not know. "
                "Upgrade with `pip install --upgrade roundwise`."
            )
        known = {name: payload[name] for name in names if name in payload}
        found = cls(**known | {name: tuple(payload.get(name, ())) for name in ("left_out", "same_list")})
        digest = None if found.list is None else payload["list"].get("digest", found.list.digest)  # a plan has no order
        if found.list is not None and found.list.digest != digest:
            raise InputError("the order of its list is not the one that was recorded.")
        return found

    def to_json(self) -> Plain:
        """Return the spec as JSON, without the settings that have their default."""
        found: Plain = {
            "question": to_spec(self.question),
            "arms": list(self.arms),
            "noise": to_spec(self.noise),
            "delta": self.delta,
            "policy": None if self.list is not None else to_spec(self.policy),  # a list has its own
            "max_round_size": self.max_round_size,
            "min_per_arm": self.min_per_arm,
            "budget": self.budget,
            "lead": self.lead,
            "looks": self.looks,
            "round_size": self.round_size,
            "split": None if self.split is None else list(self.split),
            "columns": self.columns.payload(),
            "reading": self.reading.payload(),
            "list": None if self.list is None else self.list.to_json(),
            "prices": None if self.prices is None else list(self.prices),
            "max_cost": self.max_cost,
            "unit": self.unit,
            "metrics": [each.to_json() for each in self.metrics],
            "seed": self.seed,
            "seed_given": self.seed_given,
            "same_list": list(self.same_list),
            "left_out": list(self.left_out),
        }
        return {name: value for name, value in found.items() if value or name == "seed"}

    @property
    def problem(self) -> Problem:
        """The problem in arrays."""
        others = tuple(each.problem for each in self.by_metric)
        prices = self.prices or ()
        return Problem(self.question, len(self.arms), self.delta, self.noise, self.unit or "", others, prices)

    @cached_property
    def by_metric(self) -> tuple[Self, ...]:
        """The same study of each further metric alone: its claims, noise model, column and unit."""
        return tuple(replace(self, **self._of_metric(each)) for each in self.metrics)

    def _of_metric(self, metric: Metric) -> dict[str, Any]:
        """The settings in which a study of this metric alone differs."""
        control = self.question.reference_arm
        return {
            "question": metric.claims(self.arms, 0 if control is None else control, self.question.opposites),
            "noise": metric.noise,
            "columns": replace(self.columns, outcome=metric.title, covariate=None, denominator=metric.denominator),
            "reading": self.reading.of_metric(metric.noise.outcome.rates),
            "unit": metric.unit,
            "metrics": (),
        }

    @property
    def reading_words(self) -> str:
        """How rows become results, in sentences; empty where they are results."""
        said = [self.reading.words]
        if self.columns.denominator is not None:
            ratio = f"total '{self.columns.outcome or 'outcome'}' over total '{self.columns.denominator}'"
            said.insert(0, f"Arms are compared by {ratio}, with ids as units.")
        for metric, other in zip(self.metrics, self.by_metric, strict=True):
            if other.reading.id_result != self.reading.id_result:
                said.append(f"Of '{metric.title}' it is {COMBINED[other.reading.id_result or 'sum']}.")
        return " ".join(each for each in said if each)

    @property
    def limited_policy(self) -> Policy:
        """The policy within `max_round_size` and `min_per_arm`."""
        if self.max_round_size is None and not self.min_per_arm:
            return self.policy
        return self.policy.with_limits(self.max_round_size, self.min_per_arm)

    @property
    def acting(self) -> Policy:
        """The policy as the study asks it: within its limits, budget, round and split."""
        policy = self.limited_policy
        max_cost = self.max_cost if self.list is None else None
        if self.budget is None and self.round_size is None and self.split is None and max_cost is None:
            return policy
        prices = () if self.prices is None else tuple(self.prices)
        return Rounds(policy, self.budget, self.round_size, self.split, max_cost=max_cost, prices=prices)

    @property
    def design(self) -> Plain:
        """The design of future rounds as JSON; it may change before any round."""
        policy = self.policy if self.list is None else self.policy.with_list(len(self.list), self.list.strict)
        return {"policy": to_spec(policy), "budget": self.budget, "lead": self.lead, "looks": self.looks}

    def with_design(self, design: Facts) -> Self:
        """The same study with another design."""
        budget, lead, looks = (design[name] for name in ("budget", "lead", "looks"))
        return replace(self, policy=design["policy"], budget=budget, lead=lead, looks=looks)

    @property
    def alone(self) -> Self:
        """The same study with separate items for every arm, which is what forecasts assume."""
        columns = replace(self.columns, item=None)
        return replace(self, noise=self.noise.without_items(), columns=columns, reading=Reading(), metrics=())

    @property
    def towards_a_budget(self) -> bool:
        """Whether every batch is bet on as a whole: claims within a budget, unless their e-values are multiplied."""
        multiplied = self.question.independent
        rule = self.policy.stopping
        return (
            self.budget is not None and rule.uses_budget and rule.bets_on_whole_batches(self.problem) and not multiplied
        )

    @property
    def by_number(self) -> bool:
        """Whether a round is complete at a number of results, whatever their split."""
        return self.round_size is not None or self.split is not None

    def _set_up_list(self, items: ItemList) -> None:
        """Settle what follows from a list: its policy, its item column, and the digest of its order."""
        noise = self.noise.without_items()
        items.check_noise(noise)
        for name in ("round_size", "split", "metrics", "lead", "looks"):
            if getattr(self, name):
                raise InputError(f"A study of a list has no {option(name)}: every arm is tried on the same items.")
        if self.reading.id_result is not None or self.columns.covariate is not None or self.columns.id is not None:
            raise InputError("Rows of a list are known by their item: leave out ids and covariates.")
        known = items.known_columns(self.arms, noise, self.question.lower_is_better, self.seed)
        if self.reading.empty != "refused":
            again = "On a list, a row without an outcome is a request that failed, and is asked for again."
            raise InputError(again, Remedy("Give {@failed_is} if it is to count as a result."))
        if (failed := self.reading.failed_is) is not None:
            low, high, whole, *_ = noise.outcome
            if not low <= failed <= high or (whole and failed != int(failed)):
                raise InputError(f"A failed request cannot count as {failed:g}: results lie in [{low:g}, {high:g}].")
        object.__setattr__(self, "list", replace(items, digest=items.order_digest(self.seed)))
        object.__setattr__(self, "noise", noise)
        object.__setattr__(
            self, "policy", (self.policy or Lockstep()).with_list(len(items), items.strict, known, self.max_cost)
        )
        object.__setattr__(self, "columns", replace(self.columns, item=self.columns.item or "item"))

    @property
    def question_words(self) -> str:
        """The question in plain words, in the units of the results."""
        asked = self.question.question_text(self.arms, self.problem.wording)
        if self.list is None:
            return asked
        items = several(len(self.list.items), "item")
        times = f", tried {self.list.repeats} times each" if self.list.repeats > 1 else ""
        return f"{asked.rstrip('?.')} on this list of {items}{times}?"

    @property
    def assumed(self) -> str:
        """The noise model in sentences."""
        return self.noise.words if self.list is None else self.list.words

    def _check_reading(self) -> None:
        """Raise an InputError where a rule for rows lacks a column, or makes results that the noise model has not."""
        columns, reading = self.columns, self.reading
        index_arms(self.arms, reading.arm_names)  # checked
        if reading.failed_is is not None and self.list is None:
            raise InputError("This study has no list, on which requests fail.", Remedy("Use {@empty}."))
        if reading.id_result is not None and columns.id is None and columns.item is None:
            raise InputError("Rows are combined by their id.", Remedy("Name its column with {@id_column}."))
        if reading.mixed_ids != "refused" and columns.id is None:
            raise InputError("Ids in several arms need ids.", Remedy("Name their column with {@id_column}."))
        if columns.covariate is not None and (columns.id is None or columns.item is not None):
            raise InputError(
                "A covariate belongs to an id, and items have none.", Remedy("Name the column of ids: {@id_column}.")
            )
        if columns.covariate is not None and not self.noise.estimates_variance:
            raise InputError(
                "Adjusted for a covariate, results are no longer 0 or 1, or within a range, and vary less: the noise "
                "model must leave their variance open.",
                Remedy("Use {@normal}, or {@large_sample} (also for 0/1 results)."),
            )
        if columns.denominator is not None:
            self._check_ratio()
        if reading.id_window is not None and columns.time is None:
            raise InputError("A window needs times.", Remedy("Name their column with {@time_column}."))
        if (reading.shares or reading.id_result == "any") and not self.noise.outcome.rates:
            rule = "above or below a value" if reading.shares else "any row"
            raise InputError(f"A result that asks for {rule} is 0 or 1.", Remedy("Use {@binary}."))

    def _check_ratio(self) -> None:
        """Raise an InputError where results cannot be ratios of sums."""
        columns, reading = self.columns, self.reading
        if columns.id is None:
            raise InputError("A ratio adds up the rows of each id.", Remedy("Name their column: {@id_column}."))
        if columns.covariate is not None or reading.shares or reading.id_result != "sum":
            raise InputError(
                "A ratio is of two sums over ids: it goes with no covariate, no share above or below a value, and no "
                f"other result of an id than its sum (found: {reading.id_result})."
            )
        if self.noise.needs != "cubes":
            raise InputError("How much a ratio varies is taken from earlier results.", Remedy("Use {@large_sample}."))

    def _check_metrics(self) -> None:
        """Raise an InputError where further metrics do not fit the question, the policy or the columns."""
        if not self.metrics:
            return
        check_question(self.question)
        if not self.policy.stopping.several_metrics:
            raise InputError(f"The policy '{self.policy.name}' has one metric.", Remedy("Use conditional-power."))
        outcome = (self.columns.outcome or "outcome").strip().casefold()
        for each in self.metrics:
            if each.title.casefold() == outcome:
                raise InputError(f"The column '{each.title}' is that of the results already: name another for it.")
        self.by_metric  # noqa: B018 (each is checked when it is built)

    def check(self) -> None:
        """Check what construction does not: user-defined classes, and `max_round_size` and `min_per_arm` in round one.

        Raises:
            InputError: if a class of the user's own returns what it must not, or fixed rounds break the limits.
        """
        check_classes(self.problem, self.policy)
        if self.columns.covariate is not None or self.columns.denominator is not None:
            start = begin(self.problem, self.acting)
            if not self.policy.stopping.standing(self.problem, start).compares:
                raise InputError(
                    "Ratios, and results that are adjusted for a covariate, need a question and a policy that compare "
                    "arms within rounds, such as best-arm or claims against a control with their usual policy."
                )
        most, least = self.limited_policy.max_batch, self.limited_policy.min_per_arm
        pulls = self.acting.first(self.problem, ()).pulls
        size, fewest = int(pulls.sum()), int(pulls[pulls > 0].min(initial=2.0**62))
        fixed = f"{option('round_size')}, {option('split')} and {option('budget')}"
        if most is not None and size > most:
            limit, other = option("max_round_size"), option("round_size")
            raise InputError(
                f"{limit} is {most:g}, but {fixed} make a first round of {size} results (claims with a budget: a tenth "
                f"of it). Give {other} {most:g} in place of {limit}."
            )
        if fewest < least:
            limit = option("min_per_arm")
            raise InputError(
                f"{limit} is {least:g}, but {fixed} leave an arm {fewest} results in the first round. Increase them, "
                f"or leave {limit} out."
            )

    def check_recordable(self) -> None:
        """Check that the same study can be rebuilt from its record.

        Raises:
            InputError: if the policy, the question or the noise model cannot be.
        """
        again = StudySpec.from_json(self.to_json())
        if again.policy != self.policy:
            raise InputError(
                f"The policy '{self.policy.name}' has settings that cannot be recorded. "
                f"Use one of {', '.join(POLICIES)}, or one of your own, with its usual stopping rule or a threshold."
            )
        if again.to_json() != self.to_json():
            raise InputError("The question or the noise model changes when it is rebuilt from its fields.")


def parse_numbers(value: str | Iterable[str | float], what: str) -> tuple[float, ...]:
    """Return several numbers, given as a list or as text with commas.

    >>> parse_numbers("30%, 0.5", "means")
    (0.3, 0.5)
    """
    words = value.replace(";", ",").split(",") if isinstance(value, str) else value
    return tuple(parse_quantity(each, what) for each in words)


def one_for_each(
    value: str | float | Sequence[str | float] | Mapping[str, str | float], names: Sequence[str], what: str
) -> tuple[float, ...]:
    """One number for every arm: the same for all, a list in their order, or by name.

    >>> one_for_each("a=2,b=5%", ["a", "b"], "sample cost")
    (2.0, 0.05)
    """
    if isinstance(value, str) and "=" in value:
        value = {name.strip(): number for name, _, number in (each.partition("=") for each in value.split(","))}
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                raise unknown("arm", name, names)
        missing = [name for name in names if name not in value]
        if missing:
            raise InputError(f"The {what} of '{missing[0]}' is not given. Give one number, or one for every arm.")
        return tuple(parse_quantity(value[name], what) for name in names)
    found = parse_numbers(value if isinstance(value, Sequence) else [value], what)
    if len(found) == 1:
        return found * len(names)
    if len(found) != len(names):
        raise InputError(
            f"The {what} has {len(found)} numbers, but there are {len(names)} arms. Give one, or one each."
        )
    return found


def arm_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the arms without surrounding blanks.

    Raises:
        InputError: unless there are at least two names, printable and all different.
    """
    if isinstance(names, str):
        raise InputError(f"The arms are given as one text, '{names[:40]}'. Give a list of names.")
    trimmed = tuple(str(name).strip() for name in names)
    if len(trimmed) < 2:
        found = f"A study needs at least two arms; found {len(trimmed)}."
        raise InputError(found, Remedy("Name them, for example {@arms_example}."))
    if not all(trimmed):
        raise InputError("An arm has no name. Give every arm a unique name.")
    for name in trimmed:
        if not name.isprintable():
            raise InputError(f"The arm name {name!r} has characters that cannot be printed. Choose another name.")
    if len(set(trimmed)) < len(trimmed):
        twice = next(name for name, count in Counter(trimmed).items() if count > 1)
        raise InputError(f"There are two arms called '{twice}'. Give every arm a unique name.")
    return trimmed
