"""Claims in words, and what describes them from outside: names and numbers of arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from roundwise.arrays import Facts, Floats, Plain
from roundwise.errors import InputError, unknown
from roundwise.questions.base import form_words
from roundwise.questions.halfspaces import packed

Scale = Literal["difference", "ratio", "odds-ratio"]
ODDS = "odds ratio"  # a scale on which sizes are kept as logarithms
SCALES: tuple[Scale, ...] = ("difference", "ratio", "odds-ratio")


def claim_words(form: Floats, level: float, odds: bool, names: Sequence[str]) -> str:
    """One claim in words."""
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if odds:
        more = "" if level == 0 else f" by an odds ratio above {math.exp(level):g}"
        return f"{names[plus[0]]} beats {names[minus[0]]}{more}"
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1:
        a, b, ratio = names[plus[0]], names[minus[0]], -form[minus[0]]
        if ratio == 1:
            if level < 0:
                return f"{a} is not worse than {b} by {-level:g} or more"
            return f"{a} beats {b}" + (f" by more than {level:g}" if level else "")
        if level == 0:
            return f"{a} is more than {ratio:g} times {b}"
    if len(plus) + len(minus) == 1 and form[(plus if len(plus) else minus)[0]] in (1, -1):
        return f"{names[plus[0]]} is above {level:g}" if len(plus) else f"{names[minus[0]]} is below {-level:g}"
    return form_words(packed(form[None], np.array([level]), len(plus) + len(minus)), names)[0]


def scale_words(form: Floats, level: float, odds: bool, names: Sequence[str]) -> str | None:
    """What the size of a claim is the size of, where it is neither a mean nor the difference that its words compare."""
    if odds:
        return ODDS
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1 and form[minus[0]] != -1 and level == 0:
        return f"{names[plus[0]]} - {-form[minus[0]]:g} {names[minus[0]]}"
    return None


def opposite_words(form: Floats, end: float, level: float, odds: bool, names: Sequence[str]) -> str:
    """The opposite of a claim: the form is below this, or, if it is the level of the claim itself, not above it."""
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if odds:
        ratio = f"{math.exp(end):g}"
        more = "" if end == 0 else f" by an odds ratio {f'above {ratio}' if end == level else f'of {ratio} or more'}"
        return f"{names[plus[0]]} does not beat {names[minus[0]]}{more}"
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1 and form[minus[0]] == -1:
        if end == 0:
            return f"{names[plus[0]]} does not beat {names[minus[0]]}"
        more = f"more than {end:g}" if end == level else f"{end:g} or more"
        return f"{names[plus[0]]} does not beat {names[minus[0]]} by {more}"
    if end == level and len(plus) + len(minus) == 1 and form[(plus if len(plus) else minus)[0]] in (1, -1):
        return f"{names[plus[0]]} is not above {end:g}" if len(plus) else f"{names[minus[0]]} is not below {-end:g}"
    return claim_words(-form, -end, False, names)


def one_each(values: Any, number: int, what: str) -> Floats:
    """One number for each of so many claims, given once or one by one."""
    try:
        array = np.asarray(values, dtype=np.float64)
        array = np.broadcast_to(array, (number,)).copy()
    except ValueError:
        raise InputError(f"Give one number for all {number} claims, or one each, as `{what}`.") from None
    if not np.isfinite(array).all():
        raise InputError(f"The {what} of claims must be finite numbers.")
    return array


def named(arms: int | Sequence[str]) -> tuple[list[str], int]:
    """The names of the arms, none if they are only counted, and how many there are."""
    if isinstance(arms, int | np.integer):
        return [], int(arms)
    names = [str(each) for each in arms]
    twice = next((each for i, each in enumerate(names) if each in names[:i]), None)
    if twice is not None:
        raise InputError(f"There are two arms called '{twice}'. Give every arm a name of its own.")
    return names, len(arms)


def index_of(control: int | str, names: list[str], number: int) -> int:
    """The place of a control, by its name or its number."""
    if isinstance(control, str):
        if control in names:
            return names.index(control)
        raise unknown("arm", control, names)
    if not 0 <= int(control) < number:
        raise InputError(f"The control is arm {control}, but the arms are 0 to {number - 1}.")
    return int(control)


def read_fields(fields: Facts) -> Plain:
    """The arguments of `Claims.against_control` that plain data or words on a command line stand for."""
    known = ("arms", "control", "margin", "futility", "sides", "scale", "weights")
    for key in fields:
        if key not in known:
            raise unknown("setting of claims against a control", key, known)
    if "arms" not in fields:
        raise InputError("Claims against a control need `arms`, their names or how many there are.")
    try:
        margin, futility = (float(fields[key]) if key in fields else None for key in ("margin", "futility"))
        arms = fields["arms"] if isinstance(fields["arms"], list | tuple) else int(fields["arms"])
        control = fields["control"]
        if isinstance(control, str) and not (isinstance(arms, list | tuple) and control in arms):
            control = int(control)
    except (TypeError, ValueError) as error:
        raise InputError(f"Claims against a control cannot be made: {error}.") from None
    others = {key: fields[key] for key in ("sides", "scale", "weights") if key in fields}
    return {"arms": arms, "control": control, "margin": margin or 0.0, "futility": futility, **others}
