"""The options that several commands share, derived from `StudySpec` where it declares them, and what they describe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, is_dataclass, replace
from functools import partial, wraps
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
import typer

from roundwise.arrays import Floats, Plain
from roundwise.errors import DataError, InputError, unknown
from roundwise.ingest import Columns, Reading
from roundwise.model.spec import find_class, from_spec, list_parameters, parse_quantity, parse_spec
from roundwise.noise import (
    Binary,
    Bounded,
    BoundedVariance,
    Capped,
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    LargeSample,
    Noise,
    Normal,
    Poisson,
    SubGaussian,
)
from roundwise.questions import QUESTIONS, BestGroup, Claims, Linear, Question, Statements
from roundwise.questions.claims import SCALES, Scale
from roundwise.simulation.tables import read_features, read_forms
from roundwise.study.item_list import ItemList, numbered_items, read_known, read_list
from roundwise.study.metrics import Metric, Role, parse_metric
from roundwise.study.spec import StudySpec, ValueType, arm_names, parse_numbers, settings_of

Spec = TypeVar("Spec", bound=StudySpec)

FORMS = {"statements": ("above", "levels"), "largest": ("plus", "offsets")}  # column of the --file, and what it sets
METAVARS: dict[ValueType, str] = {
    "number": "NUMBER",
    "whole": "NUMBER",
    "numbers": "LIST",
    "prices": "LIST",
    "shares": "LIST",
    "policy": "NAME[:SETTINGS]",
    "path": "FILE",
}
HELP = {name: about.help for name, (about, _) in settings_of(StudySpec).items()}
SAY_NOISE = (
    "Say what a result is: --binary (yes or no), --range LOW HIGH (a score between two limits), --normal (bell-shaped; "
    "with --sigma S if its standard deviation is known, or --sigmas LIST of the arms), --large-sample (money, times, "
    "any shape, with hundreds of results of each arm), --max-variance V (any shape, with a variance of at most V), "
    "--cap X (any shape, with values above X counted as X), --counts (events, defects), --sigma S (tails no "
    "heavier than normal), or --noise NAME."
)
ASKED = {  # what a question is about, where its name does not say it
    "best-arm": "the highest or lowest mean",
    "top-k": "the best few",
    "claims": "which beat a control",
    "above": "which pass a level",
    "any-above": "does any pass a level",
    "best-group": "which group has the best arm",
}
SPELT_OUT = ("question", "arms", "noise", "columns", "reading", "metrics", "list")  # StudyOptions has several options


def option(flag: str, help: str, metavar: str | None = None, **about: Any) -> Any:
    """An option of a command: a flag, its help text and the name of its value."""
    return typer.Option(flag, help=help, metavar=metavar, **about)


rule = partial(option, rich_help_panel="Files")  # of result files
_list = partial(option, rich_help_panel="Lists")


def setting_options(kind: type[StudySpec]) -> dict[str, inspect.Parameter]:
    """The options for the settings that a dataclass declares, with their names, help texts and defaults, as text."""
    found = {}
    for name, (about, default) in settings_of(kind).items():
        if name not in SPELT_OUT:
            flag = option(f"--{name.replace('_', '-')}", about.help, METAVARS.get(about.type, "TEXT"))
            found[name] = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=str(default) if default else None,
                annotation=Annotated[str | None, flag],
            )
    return found


StudySettings = Annotated[dict[str, Any], StudySpec]  # a parameter that stands for the options of all settings


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command with groups of options as parameters: every option of a group becomes one of the command."""
    options: dict[str, inspect.Parameter] = {}
    arguments = _flatten(command, options)

    @wraps(command)
    def called(**given: Any) -> None:
        command(**arguments(given))

    called.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: each.annotation for name, each in options.items()}
    return called


def _flatten(
    function: Callable[..., Any], options: dict[str, inspect.Parameter]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Add the options of a command or group to `options`; return what makes its arguments from their values."""
    hints = get_type_hints(function, include_extras=True)
    arguments: dict[str, Callable[[dict[str, Any]], Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, tuple)):
            inner = _flatten(hint, options)
            arguments[name] = partial(lambda kind, inner, given: kind(**inner(given)), hint, inner)
        elif get_args(hint)[:1] == (dict[str, Any],):
            settings = setting_options(get_args(hint)[1])
            options |= settings
            arguments[name] = partial(lambda names, given: {each: given[each] for each in names}, tuple(settings))
        else:
            options[name] = parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            arguments[name] = itemgetter(name)
    return lambda given: {name: value(given) for name, value in arguments.items()}


def per_cent(text: str | float) -> float:
    """Parse a number, also in per cent or points."""
    try:
        return parse_quantity(text)
    except InputError:
        raise typer.BadParameter(f"{text!r} is not a number such as 0.3, 30% or 2 points.") from None


def whole_number(text: str | int) -> int:
    """Parse a whole number, also 20 000 or 20,000."""
    value = per_cent(text)
    if value != int(value):
        raise typer.BadParameter(f"{text!r} is not a whole number such as 500 or 20000.")
    return int(value)


def numbers(text: str | None, what: str = "--means") -> Floats:
    """Parse a list of numbers such as 1,0.9,0.8."""
    if not text:
        raise InputError(f"Give {what} as a list of numbers, for example {what} 1,0.9,0.8.")
    return np.array(parse_numbers(text, what))


_number = partial(option, metavar="NUMBER", parser=per_cent)


def whole_option(name: str) -> Any:
    """The option for a setting that is a whole number."""
    return option(f"--{name.replace('_', '-')}", HELP[name], "NUMBER", parser=whole_number)


QuestionName = Annotated[str, typer.Option("--question", "-q", help=HELP["question"], metavar="NAME[:SETTINGS]")]
FeaturesFile = Annotated[
    Path | None, option("--features", "Table of arm features for linear means, one row per arm.", "FILE")
]
Means = Annotated[str | None, option("--means", "True means, e.g. 1,0.9,0.8.", "LIST")]
Sigma = Annotated[float, option("--sigma", "Sub-Gaussian constant of the rewards.", "NUMBER")]
Sigmas = Annotated[str | None, option("--sigmas", "Noise: normal, with one standard deviation per arm.", "LIST")]
Prices = Annotated[
    str | None, option("--prices", "Price of a result of each arm, for the lower bound on cost.", "LIST")
]
Delta = Annotated[float, _number("--delta", HELP["delta"])]
Budget = Annotated[int | None, whole_option("budget")]
Lead = Annotated[str | None, option("--lead", HELP["lead"], "NUMBER")]
RoundSize = Annotated[int | None, whole_option("round_size")]
Split = Annotated[str | None, option("--split", HELP["split"], "LIST")]
Seed = Annotated[int, option("--seed", "Random seed; the same seed gives the same numbers.", "NUMBER")]
Workers = Annotated[int, option("--workers", "Number of processes; results do not depend on it.", "NUMBER")]
AllWorkers = Annotated[
    int | None, option("--workers", "Number of processes (default: all cores); results do not depend on it.", "NUMBER")
]
Json = Annotated[bool, option("--json", "Print JSON (infinite numbers as null).")]
LEVEL = "Level to compare means with (above, minimum-below, any-above, claims)."
FORMS_FILE = "Table of statements, claims or scores: name, one column per arm, above or plus."


class QuestionOptions(NamedTuple):
    """The settings of a question, apart from claims."""

    k: Annotated[int | None, option("--k", "Number of arms to find (top-k).", "NUMBER")] = None
    level: Annotated[float | None, _number("--level", LEVEL)] = None
    file: Annotated[Path | None, option("--file", FORMS_FILE, "FILE")] = None
    groups: Annotated[str | None, option("--groups", "Groups of arms, as 'new=b,c;old=a' (best-group).", "LIST")] = None
    tolerance: Annotated[
        float | None, _number("--tolerance", "Indifference zone: differences too small to matter.")
    ] = None
    lower_is_better: Annotated[bool, option("--lower-is-better", "Lower means are better: times, costs, errors.")] = (
        False
    )


class ClaimOptions(NamedTuple):
    """The settings of claims."""

    control: Annotated[
        str | None, option("--control", "Control arm, or several, comma-separated (claims, statements).", "LIST")
    ] = None
    margin: Annotated[float | None, _number("--margin", "Smallest improvement to claim (default 0; 1 for ratios).")] = (
        None
    )
    futility: Annotated[float | None, _number("--futility", "Claims: effect below which an arm is futile.")] = None
    two_sided: Annotated[bool, option("--two-sided", "Claims: also show which arms are not better.")] = False
    margin_is: Annotated[str, option("--margin-is", f"Scale of the margin: {', '.join(SCALES)}.", "NAME")] = (
        "difference"
    )

    def claims(self, arms: Sequence[str], form: QuestionOptions) -> Claims:
        level, file, lower = form.level, form.file, form.lower_is_better
        if sum(each is not None for each in (self.control, level, file)) != 1:
            raise InputError(
                "The question 'claims' needs one of --control (the arm that all others are compared with, or several: "
                "a,b), --level (every arm is above it) and --file (linear claims)."
            )
        sides = "two" if self.two_sided else "one"
        if self.control is None:
            if self.margin is not None or self.margin_is != "difference":
                raise InputError("--margin and --margin-is go with --control.")
            if level is not None:
                return Claims.above(list(arms), level, futility=self.futility, sides=sides, lower_is_better=lower)
            assert file is not None
            if lower:
                raise InputError("The claims of --file state their direction by the signs of their coefficients.")
            names, forms, levels = read_forms(file, FORMS["statements"][0], needed=True, wanted=arms)
            return Claims(np.array(forms), np.array(levels), 1.0, self.futility, sides, names=tuple(names))
        if self.margin_is not in SCALES:
            raise unknown("kind of margin", self.margin_is, SCALES)
        scale: Scale = next(each for each in SCALES if each == self.margin_is)
        controls: str | list[int | str] = self.control
        if self.control not in arms:
            several = [each.strip() for each in self.control.split(",")]
            controls = [
                int(each) if each not in arms and each.isdigit() and int(each) < len(arms) else each for each in several
            ]
        margin = self.margin
        if margin is None:
            margin = 0.0 if scale == "difference" else 1.0
        return Claims.against_control(
            list(arms), controls, margin, futility=self.futility, sides=sides, scale=scale, lower_is_better=lower
        )


def question_from(
    text: str,
    form: QuestionOptions,
    claims: ClaimOptions | None = None,
    arms: Sequence[str] = (),
    features: Path | None = None,
) -> Question:
    """Build the question that the options describe, about these arms."""
    if features is not None:
        return Linear(question_from(text, form, claims, arms), read_features(features, arms))
    said = parse_spec("question", text)
    if said["name"] not in QUESTIONS and ":" not in said["name"]:
        listed = ", ".join(f"{each} ({ASKED[each]})" if each in ASKED else each for each in sorted(QUESTIONS))
        raise InputError(f"There is no question called '{said['name']}'. Known: {listed}.")
    if said["name"] == Linear.name:
        raise InputError("Give the question about the arms (--question best-arm, ...) together with --features FILE.")
    if claims is not None and claims != ClaimOptions() and said["name"] != Claims.name:
        raise InputError(f"--control, --margin, --futility and --two-sided go with --question claims, not '{text}'.")
    if said["name"] == Claims.name and claims is None:
        raise InputError(
            "There are no such bounds for 'claims'; `roundwise complexity` has the lower bound on samples."
        )
    if text == Claims.name and claims is not None:
        return claims.claims(arms, form)
    name, options = said["name"], {"k": form.k, "level": form.level, "tolerance": form.tolerance}
    fields: dict[str, object] = {**said, **{key: value for key, value in options.items() if value is not None}}
    if (name in FORMS) != (form.file is not None):
        raise InputError(f"The question '{name}' {'needs' if form.file is None else 'does not take'} --file.")
    known = list_parameters(find_class("question", name, trusted=True))
    if (name == BestGroup.name) != (form.groups is not None):
        needs = "needs --groups, such as 'new=b,c;old=a'" if form.groups is None else "does not take --groups"
        raise InputError(f"The question '{name}' {needs}.")
    if form.groups is not None:
        fields["groups"] = parse_groups(form.groups, arms)
    for key in options:
        if key in known and known[key].default is MISSING and key not in fields:
            raise InputError(f"The question '{name}' needs --{key}.")
    if form.lower_is_better:
        if "lower_is_better" not in known:
            raise InputError(f"The question '{name}' states its direction itself: leave out --lower-is-better.")
        fields["lower_is_better"] = True
    if form.file is not None:
        column, key = FORMS[name]
        fields["names"], fields["forms"], fields[key] = read_forms(form.file, column, key == "levels", arms)
    return from_spec("question", fields, trusted=True)


def parse_groups(text: str, arms: Sequence[str]) -> list[str]:
    """The group of each arm, from 'new=b,c;old=a'."""
    found: dict[str, str] = {}
    for part in text.split(";"):
        group, equals, members = part.partition("=")
        if not equals:
            raise InputError(f"--groups is {text!r}, but must name groups and their arms, such as 'new=b,c;old=a'.")
        for arm in (each.strip() for each in members.split(",")):
            if arm not in arms and arm.isdigit() and int(arm) < len(arms):
                arm = arms[int(arm)]
            if arm not in arms:
                raise unknown("arm", arm, arms)
            if arm in found:
                raise InputError(f"--groups has the arm '{arm}' twice. Name every arm once.")
            found[arm] = group.strip()
    if (missing := [arm for arm in arms if arm not in found]) != []:
        raise InputError(f"--groups leaves out the arm '{missing[0]}'. Name every arm once.")
    return [found[arm] for arm in arms]


class NoiseOptions(NamedTuple):
    """The noise model of a study."""

    sigma: Annotated[float | None, option("--sigma", "Noise: sub-Gaussian with this standard deviation.", "NUMBER")] = (
        None
    )
    sigmas: Sigmas = None
    normal: Annotated[bool, option("--normal", "Noise: normal, with standard deviation --sigma or unknown.")] = False
    equal_variances: Annotated[
        bool, option("--equal-variances", "With --normal: the same unknown deviation in all arms.")
    ] = False
    large_sample: Annotated[bool, option("--large-sample", "Noise: any law with a finite variance; approximate.")] = (
        False
    )
    max_variance: Annotated[
        float | None, option("--max-variance", "Noise: any law with a variance of at most this.", "NUMBER")
    ] = None
    value_range: Annotated[
        tuple[float, float] | None, option("--range", "Noise: results in this range.", "LOW HIGH")
    ] = None
    cap: Annotated[float | None, option("--cap", "Noise: larger results count as this value.", "NUMBER")] = None
    floor: Annotated[
        float | None, option("--floor", "With --cap: smaller results count as this value (0).", "NUMBER")
    ] = None
    binary: Annotated[bool, option("--binary", "Noise: 0/1 results.")] = False
    counts: Annotated[bool, option("--counts", "Noise: Poisson counts.")] = False
    noise: Annotated[str | None, option("--noise", HELP["noise"], "NAME[:SETTINGS]")] = None
    items: Annotated[bool, option("--items", "Paired design: every arm is tried on the same items.")] = False

    def model(self) -> Noise:
        """Build the noise model: exactly one must be described."""
        unknown_sigma = self.normal and self.sigma is None
        models: dict[str, tuple[Any, Callable[[Any], Noise]]] = {  # what is given, and the model that it describes
            "--sigma": (self.sigma, Gaussian if self.normal else SubGaussian),
            "--sigmas": (self.sigmas, lambda text: HeteroscedasticGaussian(tuple(numbers(text, "--sigmas").tolist()))),
            "--normal": (unknown_sigma or None, lambda _: EqualVariances() if self.equal_variances else Normal()),
            "--large-sample": (self.large_sample or None, lambda _: LargeSample()),
            "--max-variance": (self.max_variance, BoundedVariance),
            "--range": (self.value_range, lambda ends: Bounded(*ends)),
            "--cap": (self.cap, lambda cap: Capped(cap, self.floor or 0.0)),
            "--binary": (self.binary or None, lambda _: Binary()),
            "--counts": (self.counts or None, lambda _: Poisson()),
            "--noise": (self.noise, lambda text: from_spec("noise", text, trusted=True)),
        }
        given = [flag for flag, (value, _) in models.items() if value is not None]
        if not given:
            raise InputError(SAY_NOISE)
        if len(given) > 1:
            spread = "; the spread that a plan expects is --deviation" if "--sigma" in given else ""
            raise InputError(f"{' and '.join(given)} are different noise models: give one{spread}.")
        if self.equal_variances and not unknown_sigma:
            raise InputError(
                "--equal-variances goes with --normal without --sigma: one unknown deviation for all arms."
            )
        if self.floor is not None and self.cap is None:
            raise InputError("--floor goes with --cap.")
        value, make = models[given[0]]
        found = make(value)
        return found.with_items() if self.items else found


def _column(role: str, help: str) -> Any:
    return rule(f"--{role}-column", help, "NAME")


class ColumnOptions(NamedTuple):
    """The names of columns in result files."""

    arm_column: Annotated[str | None, _column("arm", "Column of arms.")] = None
    outcome_column: Annotated[str | None, _column("outcome", "Column of results.")] = None
    id_column: Annotated[str | None, _column("id", "Column of unit ids; each id counts once.")] = None
    time_column: Annotated[str | None, _column("time", "Column of times.")] = None
    item_column: Annotated[str | None, _column("item", "Column of the items that every arm is tried on.")] = None
    covariate_column: Annotated[
        str | None, _column("covariate", "Column of a number known before the study, to adjust for.")
    ] = None
    denominator_column: Annotated[
        str | None, _column("denominator", "Column of denominators: arms are compared by ratios of sums.")
    ] = None

    cost_column: Annotated[str | None, _column("cost", "Column of what each result cost.")] = None

    def columns(self) -> Columns | None:
        """The columns as `create_study` takes them; None if none were given."""
        return Columns(*self) if any(each is not None for each in self) else None


class ReadingOptions(NamedTuple):
    """Rules by which rows become results."""

    empty: Annotated[str | None, rule("--empty", "Empty outcomes: refused (default), zero or missing.", "RULE")] = None
    id_result: Annotated[
        str | None, rule("--id-result", "One result from all rows of an id: sum, mean, max or any.", "RULE")
    ] = None
    id_window: Annotated[
        str | None, rule("--id-window", "Rows of an id count for this long after its first, e.g. 7d or 36h.", "TIME")
    ] = None
    mixed_ids: Annotated[
        str | None, rule("--mixed-ids", "Ids with rows of several arms: refused (default) or left-out.", "RULE")
    ] = None
    share_above: Annotated[
        float | None, rule("--share-above", "Results are 1 above this value, else 0 (implies --binary).", "NUMBER")
    ] = None
    share_below: Annotated[
        float | None, rule("--share-below", "Results are 1 below this value, else 0 (implies --binary).", "NUMBER")
    ] = None

    arm_names: Annotated[
        str | None, rule("--arm-names", "Names of arms in other tools, e.g. org/small-2026=small.", "LIST")
    ] = None
    failed_is: Annotated[
        float | None, rule("--failed-is", "Lists: result of a failed request (default: asked for again).", "NUMBER")
    ] = None

    def reading(self) -> Reading:
        return Reading(**{name: value for name, value in self._asdict().items() if value is not None})


_metric = partial(option, metavar="NAME:MODEL[,SETTINGS]")


class MetricOptions(NamedTuple):
    """Further metrics of the same rows: column=, margin=, unit=, lower, and the settings of their noise model."""

    guardrail: Annotated[
        list[str] | None, _metric("--guardrail", "Metric that may not worsen by its margin or more; repeatable.")
    ] = None
    secondary: Annotated[
        list[str] | None, _metric("--secondary", "Further metric with claims of its own; not part of the decision.")
    ] = None

    def metrics(self) -> tuple[Metric, ...]:
        given: dict[Role, list[str] | None] = {"guardrail": self.guardrail, "secondary": self.secondary}
        return tuple(parse_metric(text, role, trusted=True) for role, texts in given.items() for text in texts or ())


class ListOptions(NamedTuple):
    """A finite list of items that the answer is about."""

    list_file: Annotated[
        Path | None, _list("--list", "Table with one row per item: the answer is about this list.", "FILE")
    ] = None
    list_size: Annotated[int | None, _list("--list-size", "A list of N items, named 0 to N - 1.", "N")] = None
    repeats: Annotated[int | None, _list("--repeats", "Number of times every arm is tried on every item.", "N")] = None
    order: Annotated[str | None, _list("--order", "Order of items: random (default), or given.", "ORDER")] = None
    known: Annotated[
        Path | None, _list("--known", "Table of values known for every item: results of arms, or scores.", "FILE")
    ] = None
    strict: Annotated[bool, _list("--strict", "Require the answer to be strictly ahead of every other arm.")] = False

    def items(self, columns: ColumnOptions) -> ItemList | None:
        """The list as `create_study` takes it; None if none is given."""
        if self.list_file is not None and self.list_size is not None:
            raise InputError("Give either --list FILE or --list-size N.")
        if self.list_file is None and self.list_size is None:
            if self != ListOptions():
                raise InputError("--repeats, --order, --known and --strict go with --list FILE or --list-size N.")
            return None
        if self.list_file is not None:
            ids = read_list(self.list_file, columns.item_column or "item")
        else:
            ids = numbered_items(self.list_size)
        known = None if self.known is None else read_known(self.known, ids, columns.item_column or "item")
        given: Plain = {"repeats": self.repeats, "order": self.order, "strict": self.strict or None, "known": known}
        return ItemList(ids, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The settings of a study that take several options: question, arms, noise model, columns, reading, metrics."""

    question: Annotated[
        str | None, typer.Option("--question", "-q", help=HELP["question"], metavar="NAME[:SETTINGS]")
    ] = None
    arms: Annotated[str | None, option("--arms", HELP["arms"], "LIST")] = None
    arms_file: Annotated[Path | None, option("--arms-file", "File of arm names, one per line.", "FILE")] = None
    form: QuestionOptions
    features: FeaturesFile = None
    claims: ClaimOptions
    noise: NoiseOptions
    columns: ColumnOptions
    reading: ReadingOptions
    metrics: MetricOptions
    listed: ListOptions

    def declare(self, kind: type[Spec], settings: dict[str, Any]) -> Spec:
        """Build the study, with the other settings as text."""
        if self.question is None:
            raise InputError("Give --question.")
        arms = arm_names(self._names())
        policy, reading, noise = settings.get("policy"), self.reading.reading(), self.noise
        if noise == NoiseOptions(items=noise.items):
            ratio = self.columns.denominator_column is not None
            noise = noise._replace(binary=reading.shares, large_sample=ratio and not reading.shares)
        proposed = settings.get("pilot") is not None and noise == NoiseOptions()  # by the pilot
        return kind.declare(
            **settings
            | {
                "question": self._question(self.question, arms),
                "arms": arms,
                "noise": None if proposed else noise.model(),
                "policy": None if policy is None else from_spec("policy", policy, trusted=True),
                "columns": self.columns.columns(),
                "reading": reading,
                "metrics": self.metrics.metrics(),
                "list": self.listed.items(self.columns),
            }
        )

    def beyond_plan(self, settings: dict[str, Any]) -> bool:
        """Whether more is said than a plan leaves open: the seed, the columns and the rules at reading."""
        usual = {name: each.default for name, each in setting_options(StudySpec).items()}
        nothing = StudyOptions(
            form=QuestionOptions(),
            claims=ClaimOptions(),
            noise=NoiseOptions(items=self.noise.items),
            columns=self.columns,
            reading=self.reading,
            metrics=MetricOptions(),
            listed=ListOptions(),
        )
        return self != nothing or settings != usual | {"seed": settings["seed"]}

    def of_plan(self, spec: StudySpec, settings: dict[str, Any]) -> StudySpec:
        """The study of a plan with what these options say of columns, rules at reading and seed."""
        rules = {name: each for name, each in self.reading._asdict().items() if each is not None}
        found = replace(
            spec,
            noise=spec.noise.with_items() if self.noise.items else spec.noise,
            columns=(self.columns.columns() or Columns()).over(spec.columns),
            reading=replace(spec.reading, **rules),
        )
        seed = settings["seed"]
        return found if seed is None else replace(found, seed=seed, seed_given=True)

    def _names(self) -> list[str]:
        if (self.arms is None) == (self.arms_file is None):
            raise InputError("Give either --arms a,b,c or --arms-file FILE.")
        if self.arms is not None:
            return self.arms.split(",")
        assert self.arms_file is not None
        return read_names(self.arms_file)

    def _question(self, text: str, arms: Sequence[str]) -> Question:
        """The question; in a study statements may be about a control, too."""
        control = self.claims.control
        if text != Statements.name or control is None or self.form.file is not None:
            return question_from(text, self.form, self.claims, arms, self.features)
        if self.claims != ClaimOptions(control, self.claims.margin):
            raise InputError("--futility, --two-sided and --margin-is go with --question claims.")
        margin, tolerance, lower = self.claims.margin or 0.0, self.form.tolerance or 0.0, self.form.lower_is_better
        found = Statements.against_control(arms, control, margin, tolerance, lower)
        return found if self.features is None else Linear(found, read_features(self.features, arms))


def read_names(path: Path) -> list[str]:
    """Read the names in a file, one per line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as a list of names ({error}).") from None
    return [line for line in lines if line.strip()]
