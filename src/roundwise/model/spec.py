"""Questions, noise models, policies and thresholds from plain data, and back.

Plain data is a mapping with a `name` (JSON, TOML, a form), or the text `name:key=value,...` of a command line. The name
is that of a built-in class, or `module:Class` for a class of your own, a frozen dataclass; its fields are its settings.
A module is imported only if the user names it (`trusted`). Data from elsewhere, such as the record of a study, can only
refer to modules that are already imported, and can only build objects of the required kind.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import sys
import typing
from collections.abc import Callable, Mapping
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from roundwise.arrays import Plain, expand_alias
from roundwise.errors import InputError, unknown
from roundwise.messages import Remedy
from roundwise.noise import NOISES, Noise
from roundwise.policies import POLICIES, Policy
from roundwise.questions import QUESTIONS, Question
from roundwise.rules import GLR, THRESHOLDS, Threshold

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?[a-z%]*")
POINTED = re.compile(r"\s*[1-9]\d{0,2}(\.\d{3})+\s*")  # 140.000: one hundred and forty, or 140 thousand?


def parse_quantity(value: str | float, what: str = "the number") -> float:
    """Parse a number in any usual notation: per cent, points, thousands separators, a share of another number.

    >>> parse_quantity("30%"), parse_quantity("2 points"), parse_quantity("20 000"), parse_quantity("10%-of-30%")
    (0.3, 0.02, 20000.0, 0.03)
    """
    number, match = math.nan, None
    if isinstance(value, str) and (part := re.fullmatch(r"([^a-z]*%)[\s-]*of[\s-]*([^a-z]*)", value.strip().lower())):
        return float(f"{parse_quantity(part[1], what) * parse_quantity(part[2], what):.12g}")
    if not isinstance(value, str):
        number = float(value)
    else:
        text = re.sub(r"[\s_]", "", value).lower()
        if THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        match = re.fullmatch(r"([^a-z%]*(?:e[+-]?\d+)?)(%|percent|points?|pp)?", text)
        try:
            number = float(match[1]) if match else math.nan
        except ValueError:
            number = math.nan
    if not math.isfinite(number):
        raise InputError(f"`{what}` is {value!r}, but must be a number such as 0.3, 30%, 2 points or 10%-of-30%.")
    return float(f"{number / 100:.15g}") if match and match[2] else number  # so that 3% is exactly 0.03


def is_number(value: object) -> bool:
    """Whether the value is a number: infinity is; NaN and integers too large for a float are not."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return isinstance(value, float) and not math.isnan(value)


def _is_array(value: object) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    if isinstance(value[0], list | tuple):
        return all(isinstance(row, list | tuple) and len(row) == len(value[0]) and _is_array(row) for row in value)
    return all(is_number(each) for each in value)


class _Text(str):
    """A value from a command line, converted to a number or a truth value where one is required."""

    __slots__ = ()

    def convert(self, hint: object) -> object:
        if hint is bool:
            return {"true": True, "yes": True, "false": False, "no": False}.get(self.lower(), str(self))
        try:
            return float(self) if hint in (int, float, _NUMBERS) else str(self)
        except ValueError:
            return str(self)


class _Reader(NamedTuple):
    """How settings of one type are parsed and checked."""

    words: str
    fits: Callable[[Any], bool]
    make: Callable[[Any], object]


def _floats(value: Any) -> object:
    return np.asarray(value, dtype=np.float64)


_NUMBERS = object()  # stands for the type "one number or several"
_READERS: dict[object, _Reader] = {
    bool: _Reader("true or false", lambda value: isinstance(value, bool), bool),
    int: _Reader("a whole number", lambda value: is_number(value) and value % 1 == 0, int),
    float: _Reader("a number", is_number, lambda value: value),
    str: _Reader("a text", lambda value: isinstance(value, str), str),
    tuple[str, ...]: _Reader(
        "a list of texts",
        lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
        tuple,
    ),
    tuple[float, ...]: _Reader("a list of numbers", _is_array, tuple),
    _NUMBERS: _Reader("a number, or a list of numbers", lambda value: is_number(value) or _is_array(value), _floats),
    np.ndarray: _Reader("a list of numbers, or a list of lists of equally many numbers", _is_array, _floats),
}


class Parameter(NamedTuple):
    """A setting of a class: its type, without `| None`, and its default."""

    hint: object
    default: object = dataclasses.MISSING


def list_parameters(thing: type[Any]) -> dict[str, Parameter]:
    """The settings of a class by name: its fields, with the threshold in place of a stopping rule."""
    hints = _find_hints(thing)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
    known: dict[str, Parameter] = {}
    for field in dataclasses.fields(thing):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name == "stopping":
            known |= {key: Parameter(None, value) for key, value in _threshold_spec(default).items()}
        elif field.init:
            known[field.name] = Parameter(_without_none(hints.get(field.name)), default)
    return known


@cache
def _find_hints(thing: type[Any]) -> dict[str, Any]:
    """The types of the fields of a class; fields whose types cannot be found are not checked."""
    try:
        return {name: expand_alias(hint) for name, hint in typing.get_type_hints(thing).items()}
    except (NameError, AttributeError, TypeError):
        return {}


def _without_none(hint: object) -> object:
    if typing.get_origin(hint) not in (typing.Union, UnionType):
        return hint
    rest = [each for each in typing.get_args(hint) if each is not NoneType]
    numbers = {typing.get_origin(expand_alias(each)) or each for each in rest} == {float, np.ndarray}
    return _NUMBERS if numbers else rest[0] if len(rest) == 1 else hint


def _read_value(what: str, key: str, hint: object, value: object) -> object:
    reader = _READERS.get(hint) or _READERS.get(typing.get_origin(hint))
    if isinstance(value, _Text):
        value = value.convert(hint)
    if reader is None or (value is None and hint is not None):
        return value
    if not reader.fits(value):
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
        raise InputError(f"The {what} cannot be made: `{key}` is {shown}, but must be {reader.words}.")
    return reader.make(value)


Kind = Literal["question", "noise", "policy", "threshold"]
Spec = Mapping[str, object] | str
Thing = Question | Noise | Policy | Threshold


class _ClassKind(NamedTuple):
    """A kind of classes: its name, its base class, and the built-in classes by name."""

    word: str
    base: type
    built_in: Mapping[str, type[Thing]]


KINDS: dict[Kind, _ClassKind] = {
    "question": _ClassKind("question", Question, QUESTIONS),
    "noise": _ClassKind("noise model", Noise, NOISES),
    "policy": _ClassKind("policy", Policy, POLICIES),
    "threshold": _ClassKind("threshold", Threshold, {name: type(each) for name, each in THRESHOLDS.items()}),
}


@overload
def from_spec(kind: Literal["question"], given: Spec, *, trusted: bool = False) -> Question: ...
@overload
def from_spec(kind: Literal["noise"], given: Spec, *, trusted: bool = False) -> Noise: ...
@overload
def from_spec(kind: Literal["policy"], given: Spec, *, trusted: bool = False) -> Policy: ...
@overload
def from_spec(kind: Literal["threshold"], given: Spec, *, trusted: bool = False) -> Threshold: ...
def from_spec(kind: Kind, given: Spec, *, trusted: bool = False) -> Thing:
    """The object that plain data describes.

    Args:
        kind: The kind of the object.
        given: A mapping with a `name` and settings, or `name:key=value,...`.
        trusted: Whether a named module may be imported.

    Raises:
        InputError: Says which name or setting is wrong, and what is required.

    >>> from_spec("question", {"name": "top-k", "k": 3})
    TopK(k=3, tolerance=0.0, lower_is_better=False)
    >>> from_spec("policy", "pet:guess=4,threshold=sum").stopping
    GLR(threshold=KaufmannKoolenSum())
    """
    fields = dict(parse_spec(kind, given) if isinstance(given, str) else given)
    name = str(fields.pop("name", ""))
    thing, what = find_class(kind, name, trusted), f"{KINDS[kind].word} '{name}'"
    if kind == "question" and (described := thing.from_shorthand(fields)) is not None:
        return described
    known = list_parameters(thing)
    for key in fields:
        if key not in known:
            raise unknown(f"setting of the {what}", key, known)
    for key, each in known.items():
        if each.default is dataclasses.MISSING and key not in fields:
            raise InputError(f"The {what} cannot be made without `{key}`.")
    for key, value in fields.items():
        if known[key].hint is Question:  # a question within a question
            if not isinstance(value, Mapping):
                raise InputError(f"The {what} cannot be made: `{key}` must be a question with its settings.")
            fields[key] = from_spec("question", value, trusted=trusted)
    values = {key: _read_value(what, key, known[key].hint, value) for key, value in fields.items()}
    if "threshold" in values:
        threshold = values.pop("threshold")
        named = threshold if isinstance(threshold, Mapping | str) else str(threshold)
        values["stopping"] = GLR(from_spec("threshold", named, trusted=trusted))
    try:
        return thing(**values)
    except TypeError as error:
        raise InputError(f"The {what} cannot be made: {error}.") from None


def to_spec(thing: Thing) -> Plain:
    """Plain data from which `from_spec` rebuilds the object; a stopping rule is given by its threshold.

    >>> from roundwise.noise import Bounded
    >>> to_spec(Bounded(1, 3))
    {'name': 'bounded', 'low': 1, 'high': 3}
    """
    fields: Plain = {"name": class_name(thing)}
    for field in dataclasses.fields(thing):  # type: ignore[arg-type]  # all of them are dataclasses
        value = getattr(thing, field.name)
        if field.name == "stopping":
            fields |= _threshold_spec(value)
        elif field.init and value is not None:
            nested = isinstance(value, Question)
            fields[field.name] = to_spec(value) if nested else _to_plain(thing, field.name, value)
    return fields


def parse_spec(kind: Kind, text: str) -> dict[str, str]:
    """The fields of `name:key=value,key=value`, where the name may be `module:Class`.

    >>> parse_spec("policy", "my_rules:Doubling:start=20")
    {'name': 'my_rules:Doubling', 'start': '20'}
    """
    name, rest = (part.strip() for part in text.partition(":")[::2])
    if name not in KINDS[kind].built_in and "=" not in (own := rest.partition(":")[0]) and own:
        name, rest = f"{name}:{own}", rest.partition(":")[2]
    fields = {"name": name}
    for setting in filter(None, rest.split(",")):
        key, _, value = setting.partition("=")
        fields[key.strip()] = _Text(value.strip())
    return fields


def noise_from_spec(given: Spec, sigma: float) -> Noise:
    """The noise model that a user names; `sigma` is its default deviation, if it has that setting."""
    fields = dict(parse_spec("noise", given) if isinstance(given, str) else given)
    known = list_parameters(find_class("noise", str(fields.get("name", "")), trusted=True))
    if "sigma" in known:
        fields.setdefault("sigma", sigma)
    return from_spec("noise", fields, trusted=True)


def class_name(thing: Thing) -> str:
    """The name by which `from_spec` finds the class; an InputError if another process could not find it."""
    own = type(thing)
    if any(kind.built_in.get(thing.name) is own for kind in KINDS.values()):
        return thing.name
    module, path = own.__module__, own.__qualname__
    if module == "__main__" or _find_attribute(module, path) is not own:
        raise InputError(
            f"The class '{module}:{path}' cannot be found again from elsewhere, like all classes of a script, a "
            "notebook or a function. Put it into its own module, for example my_rules.py, and import that."
        )
    return f"{module}:{path}"


def find_class(kind: Kind, name: str, trusted: bool = False) -> type[Any]:
    """The class with this name: built-in, or `module:Class`."""
    word, _, built_in = KINDS[kind]
    if name in built_in:
        return built_in[name]
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        raise unknown(word, name, built_in)
    if trusted:
        import_module(module)
    elif module not in sys.modules:
        raise InputError(
            f"The {word} '{name}' needs the module '{module}', which is not imported, and a record imports "
            "nothing by itself.",
            Remedy("If it is yours: {@own}.", module=module),
        )
    found = _find_attribute(module, path)
    if found is None:
        classes = [key for key, each in vars(sys.modules[module]).items() if dataclasses.is_dataclass(each)]
        raise unknown(f"class in the module '{module}'", path, classes)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise InputError(f"'{name}' is not a dataclass, so it cannot be a {word}.")
    check_class(kind, found)
    return found


def check_class(kind: Kind, thing: Any) -> None:
    """Raise an InputError unless a class has everything that its kind requires."""
    word, base = KINDS[kind].word, KINDS[kind].base
    if not issubclass(thing, base):
        where = "roundwise.thresholds" if kind == "threshold" else "roundwise"
        raise InputError(f"'{thing.__name__}' is not a {word}: derive the class from {where}.{base.__name__}.")
    missing = sorted(thing.__abstractmethods__)
    if not hasattr(thing, "name"):
        missing = ["name", *missing]
    if missing:
        raise InputError(f"'{thing.__name__}' is not a {word}: it has no {', '.join(f'`{each}`' for each in missing)}.")


def import_module(module: str) -> None:
    """Import a module that the user named."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a user's module may raise anything
        raise InputError(f"The module '{module}' cannot be imported ({type(error).__name__}: {error}).") from None


def _threshold_spec(rule: object) -> Plain:
    """The threshold of a stopping rule as plain data, if it has one; just its name if it has no settings."""
    if not isinstance(rule, GLR):
        return {}
    fields = to_spec(rule.threshold)
    return {"threshold": fields if len(fields) > 1 else fields["name"]}


def _find_attribute(module: str, path: str) -> object:
    return reduce(lambda at, name: getattr(at, name, None), path.split("."), sys.modules.get(module))


def _to_plain(thing: Thing, key: str, value: object) -> object:
    found = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(found, list | tuple):
        for each in found:
            _to_plain(thing, key, each)
    elif not isinstance(found, bool | int | float | str):
        raise InputError(
            f"The setting `{key}` of '{thing.name}' is a {type(value).__name__}, which cannot be written down. Use "
            "numbers, texts, truth values and lists of them."
        )
    return found
