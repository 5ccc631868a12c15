"""What may stand behind a key of a sweep's file, and what is said if it is something else."""

from __future__ import annotations

import json
from typing import Any

from roundwise.errors import InputError
from roundwise.fields import is_number

LIMITS = ("max_samples", "max_batches", "budget", "round")
WHOLE = {"runs": (1, 10**9), "seed": (0, 2**63 - 1)}  # a cell is in memory until it is stored, so runs have a limit


def several(key: str, value: object) -> list[Any]:
    """One number or a list of numbers, as a list."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"`{key}` is an empty list; give at least one number, or leave it out.")
    for each in values:
        if key in WHOLE:
            _check_whole(key, each)
        elif not is_number(each):
            raise InputError(f"`{key}` is {shown(each)}, but must be a number, or a list of such.")
    return values


def limit(key: str, value: Any) -> float:
    """The one number that a limit is."""
    if isinstance(value, list):
        raise InputError(
            f"`{key}` is a list, but all cells share one limit: give one number; for another limit write another file."
        )
    whole = key != "max_samples"
    kind = "a whole number of at least 1" if whole else "a number of at least 1"
    if not is_number(value) or value < 1 or (whole and value % 1 != 0):
        raise InputError(f"`{key}` is {shown(value)}, but must be {kind}; for no limit leave it out.")
    return float(value)


def shares(value: object) -> list[float]:
    """The shares of the arms that a split is."""
    if not isinstance(value, list) or not all(is_number(each) and each >= 0 for each in value) or not any(value):
        raise InputError(f"`split` is {shown(value)}, but must be a list of numbers, for example [2, 1, 1].")
    return [float(each) for each in value]


def text(key: str, value: object) -> str:
    """The text that a name is."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f'`{key}` is {shown(value)}, but must be a text, for example {key} = "easy".')
    return value


def shown(value: object) -> str:
    """A value as it stands in the file, more or less."""
    words = json.dumps(value, default=str)
    return words if len(words) <= 40 else words[:37] + "..."


def _check_whole(key: str, value: object) -> None:
    least, most = WHOLE[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            f"`{key}` is {shown(value)}, but must be a whole number of at least {least}, or a list of such."
        )
    if value > most:
        hint = "; for more runs list several seeds" if key == "runs" else ""
        raise InputError(f"`{key}` is {shown(value)}, but must be at most {most}{hint}.")
