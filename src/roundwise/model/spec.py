"""The one way in for plain data: questions, noise models, policies and thresholds from it, and back.

Plain data is a mapping with a `name` (of JSON, TOML, a form), or words as on a command line, `name:key=value,...`. The
name is that of a built-in thing, or `module:Class` for one of a user's own, a frozen dataclass that has what its kind
owes. A module is imported only on the word of the user (`trusted`): plain data that came from elsewhere, as the record
of a study, finds only what is imported already, and it makes nothing but what its kind may be.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import sys
import typing
from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np

from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown
from roundwise.messages import Remedy
from roundwise.noise import (
    NOISES,
    Noise,
)
from roundwise.policies import POLICIES, Policy
from roundwise.questions import QUESTIONS, Question
from roundwise.rules import GLR, THRESHOLDS, Threshold


class Word(str):
    """A text that stands for a number or a truth value where one is wanted."""

    __slots__ = ()


THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?[a-z%]*")


def quantity(value: str | float, what: str = "the number") -> float:
    """A number as people write it: also a per cent, in points (hundredths), with commas between thousands.

    >>> quantity("30%"), quantity("2 points"), quantity("20 000"), quantity(0.5), quantity("1,000")
    (0.3, 0.02, 20000.0, 0.5, 1000.0)
    """
    if isinstance(value, str):
        text = re.sub(r"[\s_]", "", value).lower()
        if THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        match = re.fullmatch(r"([^a-z%]*(?:e[+-]?\d+)?)(%|percent|points?|pp)?", text)
        try:
            number = float(match[1]) if match else math.nan
        except ValueError:
            number = math.nan
        if match and match[2] and math.isfinite(number):
            number = float(f"{number / 100:.15g}")  # 3% is just 0.03
    else:
        number = float(value)
    if not math.isfinite(number):
        raise InputError(f"`{what}` is {value!r}, but must be a number such as 0.3, 30% or 2 points.")
    return number


def is_number(value: object) -> bool:
    """Whether it is a number that can be reckoned with: infinity can, NaN and integers beyond all floats cannot."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return isinstance(value, float) and not math.isnan(value)


def hints_of(thing: type[Any]) -> dict[str, object]:
    """The type of each field without `| None`; nothing where types are named that are not there."""
    try:
        hints = typing.get_type_hints(thing)
    except (NameError, AttributeError, TypeError):
        return {}
    return {key: _without_none(hint) for key, hint in hints.items()}


def _without_none(hint: object) -> object:
    if typing.get_origin(hint) not in (typing.Union, UnionType):
        return hint
    rest = [each for each in typing.get_args(hint) if each is not NoneType]
    numbers = {typing.get_origin(each) or each for each in rest} == {float, np.ndarray}
    return NUMBERS if numbers else rest[0] if len(rest) == 1 else hint


def _is_array(value: object) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    if isinstance(value[0], list | tuple):
        return all(isinstance(row, list | tuple) and len(row) == len(value[0]) and _is_array(row) for row in value)
    return all(is_number(each) for each in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


_FLOATS = partial(np.asarray, dtype=np.float64)
NUMBERS = object()  # the type of one number or several
# what a setting must be, by its type: in words, whether a value is that, and what is made of it
READERS: dict[object, tuple[str, Callable[[Any], bool], Callable[[Any], object]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool), bool),
    int: ("a whole number", lambda value: is_number(value) and value % 1 == 0, int),
    float: ("a number", is_number, lambda value: value),
    str: ("a text", lambda value: isinstance(value, str), str),
    tuple[str, ...]: ("a list of texts", _are_texts, tuple),
    tuple[float, ...]: ("a list of numbers", _is_array, tuple),
    NUMBERS: ("a number, or a list of numbers", lambda value: is_number(value) or _is_array(value), _FLOATS),
    np.ndarray: ("a list of numbers, or a list of lists of equally many numbers", _is_array, _FLOATS),
}
TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def read_value(what: str, key: str, hint: object, value: object) -> object:
    """The value of a setting, checked by its type."""
    reader = READERS.get(hint) or READERS.get(typing.get_origin(hint))
    if isinstance(value, Word):
        value = _said(value, hint)
    if reader is None or (value is None and hint is not None):
        return value
    words, fits, make = reader
    if not fits(value):
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
        raise InputError(f"The {what} cannot be made: `{key}` is {shown}, but must be {words}.")
    return make(value)


def _said(word: Word, hint: object) -> object:
    """What a word stands for where this type is wanted."""
    if hint is bool:
        return TRUTHS.get(word.lower(), str(word))
    if hint not in (int, float, NUMBERS):
        return str(word)
    try:
        return float(word)
    except ValueError:
        return str(word)


Kind = Literal["question", "noise", "policy", "threshold"]
Given = Mapping[str, object] | str
Thing = Question | Noise | Policy | Threshold


class Registry(NamedTuple):
    """One kind of things: what it is called, what one of them owes, and those that are built in."""

    word: str
    owes: type
    built_in: Mapping[str, type[Thing]]


ROOMS: dict[Kind, Registry] = {
    "question": Registry("question", Question, QUESTIONS),
    "noise": Registry("noise model", Noise, NOISES),
    "policy": Registry("policy", Policy, POLICIES),
    "threshold": Registry("threshold", Threshold, {name: type(each) for name, each in THRESHOLDS.items()}),
}


@overload
def from_spec(kind: Literal["question"], given: Given, *, trusted: bool = False) -> Question: ...
@overload
def from_spec(kind: Literal["noise"], given: Given, *, trusted: bool = False) -> Noise: ...
@overload
def from_spec(kind: Literal["policy"], given: Given, *, trusted: bool = False) -> Policy: ...
@overload
def from_spec(kind: Literal["threshold"], given: Given, *, trusted: bool = False) -> Threshold: ...
def from_spec(kind: Kind, given: Given, *, trusted: bool = False) -> Thing:
    """What plain data describes; an InputError says what is wrong with it.

    >>> made("question", {"name": "top-k", "k": 3})
    TopK(k=3, tolerance=0.0)
    >>> made("policy", "pet:guess=4,threshold=pairwise").stopping
    GLR(threshold=Pairwise())
    """
    fields = dict(parse_spec(kind, given) if isinstance(given, str) else given)
    name = str(fields.pop("name", ""))
    thing, what = find_class(kind, name, trusted), f"{ROOMS[kind].word} '{name}'"
    known = parameters_of(thing)
    if kind == "question" and (described := thing.from_shorthand(fields)) is not None:
        return described
    for key in fields:
        if key not in known:
            raise unknown(f"setting of the {what}", key, known)
    for key, each in known.items():
        if each.usual is dataclasses.MISSING and key not in fields:
            raise InputError(f"The {what} cannot be made without `{key}`.")
    for key, value in fields.items():
        if known[key].hint is Question:  # a question within a question
            if not isinstance(value, Mapping):
                raise InputError(f"The {what} cannot be made: `{key}` must be a question with its settings.")
            fields[key] = from_spec("question", value, trusted=trusted)
    values = {key: read_value(what, key, known[key].hint, value) for key, value in fields.items()}
    if "threshold" in values:
        threshold = values.pop("threshold")
        named = threshold if isinstance(threshold, Mapping | str) else str(threshold)
        values["stopping"] = GLR(from_spec("threshold", named, trusted=trusted))
    try:
        return thing(**values)
    except TypeError as error:
        raise InputError(f"The {what} cannot be made: {error}.") from None


def to_spec(thing: Thing) -> Plain:
    """Plain data that `made` reads back; the stopping rule of a policy by its threshold.

    >>> from roundwise.noise import Bounded
    >>> plain(Bounded(1, 3))
    {'name': 'bounded', 'low': 1, 'high': 3}
    """
    fields: Plain = {"name": name_of(thing)}
    for field in dataclasses.fields(thing):  # type: ignore[arg-type]  # every one of them is a dataclass
        value = getattr(thing, field.name)
        if field.name == "stopping":
            fields |= _threshold(value)
        elif value is not None:
            fields[field.name] = _written(thing, field.name, value)
    return fields


def parse_spec(kind: Kind, text: str) -> dict[str, str]:
    """The fields of `name:key=value,key=value`, where the name may be `module:Class`.

    >>> worded("policy", "my_rules:Doubling:start=20")
    {'name': 'my_rules:Doubling', 'start': '20'}
    """
    name, rest = (part.strip() for part in text.partition(":")[::2])
    if name not in ROOMS[kind].built_in and "=" not in (own := rest.partition(":")[0]) and own:
        name, rest = f"{name}:{own}", rest.partition(":")[2]
    fields = {"name": name}
    for setting in filter(None, rest.split(",")):
        key, _, value = setting.partition("=")
        fields[key.strip()] = Word(value.strip())
    return fields


def name_of(thing: Thing) -> str:
    """The name that `made` knows it by; an InputError if it could not be found by any."""
    kind = type(thing)
    if any(room.built_in.get(thing.name) is kind for room in ROOMS.values()):
        return thing.name
    module, path = kind.__module__, kind.__qualname__
    if module == "__main__" or _found(module, path) is not kind:
        raise InputError(
            f"The class '{module}:{path}' cannot be found again from elsewhere, as none that is defined in a script, a "
            "notebook or a function: put it into a module of its own, for example my_rules.py, and import that."
        )
    return f"{module}:{path}"


def find_class(kind: Kind, name: str, trusted: bool = False) -> type[Any]:
    """The class of this name: built in, or `module:Class`."""
    room = ROOMS[kind]
    if name in room.built_in:
        return room.built_in[name]
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        raise unknown(room.word, name, room.built_in)
    if trusted:
        import_module(module)
    elif module not in sys.modules:
        raise InputError(
            f"The {room.word} '{name}' needs the module '{module}', which is not imported, and a record imports "
            "nothing by itself.",
            Remedy("If it is yours: {@own}.", module=module),
        )
    found = _found(module, path)
    if found is None:
        classes = [key for key, each in vars(sys.modules[module]).items() if dataclasses.is_dataclass(each)]
        raise unknown(f"class in the module '{module}'", path, classes)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise InputError(f"'{name}' is no dataclass, so it cannot be a {room.word}.")
    check_class(kind, found)
    return found


def check_class(kind: Kind, thing: type) -> None:
    """Raise an InputError unless a class has everything that its kind requires."""
    word, base = ROOMS[kind].word, ROOMS[kind].owes
    if Protocol in base.__mro__:
        fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
        has = {*dir(thing), *(field.name for field in fields)}
        missing = [each for each in vars(base) if not each.startswith("_") and each not in has]
    elif not issubclass(thing, base):
        raise InputError(f"'{thing.__name__}' is no {word}: derive the class from roundwise.{base.__name__}.")
    else:
        missing = sorted(getattr(thing, "__abstractmethods__", ()))
    if base is Question and not isinstance(getattr(thing, "name", None), str):
        missing = ["name", *missing]
    if missing:
        raise InputError(f"'{thing.__name__}' is no {word}: it has no {', '.join(f'`{each}`' for each in missing)}.")


def import_module(module: str) -> None:
    """Import a module of the user's."""
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever is wrong with it
        raise InputError(f"The module '{module}' cannot be imported ({type(error).__name__}: {error}).") from None


class Parameter(NamedTuple):
    """What may be said of a thing: its type, and what it is if nothing is said."""

    hint: object
    usual: object = dataclasses.MISSING


def parameters_of(thing: type[Any]) -> dict[str, Parameter]:
    """What may be said of things of a class; of a stopping rule, its threshold, if it has one."""
    hints = hints_of(thing)
    known: dict[str, Parameter] = {}
    for field in dataclasses.fields(thing):
        usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name == "stopping":
            known |= {key: Parameter(None, value) for key, value in _threshold(usual).items()}
        elif field.init:
            known[field.name] = Parameter(hints.get(field.name), usual)
    return known


def _threshold(rule: object) -> Plain:
    """The threshold of a stopping rule as plain data, if it has one: by its name alone if that has no settings."""
    if not isinstance(rule, GLR):
        return {}
    fields = to_spec(rule.threshold)
    return {"threshold": fields if len(fields) > 1 else fields["name"]}


def noise_from_spec(given: Given, sigma: float) -> Noise:
    """The noise model that a user names; a sigma that it takes and is not named is this one."""
    fields = dict(parse_spec("noise", given) if isinstance(given, str) else given)
    if "sigma" not in fields and "sigma" in parameters_of(
        find_class("noise", str(fields.get("name", "")), trusted=True)
    ):
        fields["sigma"] = sigma
    return from_spec("noise", fields, trusted=True)


def _found(module: str, path: str) -> object:
    return reduce(lambda at, name: getattr(at, name, None), path.split("."), sys.modules.get(module))


def _written(thing: Thing, key: str, value: object) -> object:
    """The value of a setting as plain data."""
    if hints_of(type(thing)).get(key) is Question:
        return to_spec(value)  # type: ignore[arg-type]
    found = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(found, list | tuple):
        for each in found:
            _written(thing, key, each)
    elif not isinstance(found, bool | int | float | str):
        raise InputError(
            f"The setting `{key}` of '{thing.name}' is a {type(value).__name__}, which cannot be written down: use "
            "numbers, texts, truth values and lists of them."
        )
    return found
