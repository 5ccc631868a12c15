"""Values of settings: what they must be by their type, from plain data or from words on a command line."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable
from functools import partial
from types import NoneType, UnionType
from typing import Any

import numpy as np

from roundwise.errors import InputError


class Word(str):
    """A text that stands for a number or a truth value where one is wanted."""

    __slots__ = ()


def quantity(value: str | float, what: str = "the number") -> float:
    """A number, also written as a per cent or in points (hundredths).

    >>> quantity("30%"), quantity("2 points"), quantity("20 000"), quantity(0.5)
    (0.3, 0.02, 20000.0, 0.5)
    """
    if isinstance(value, str):
        text = value.strip().replace("\N{NO-BREAK SPACE}", "").replace(" ", "").replace("_", "").lower()
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
