"""What can be shown by claims: forms of the means, their levels and their opposites, and all of it in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Facts, Floats, Plain, total
from roundwise.errors import InputError, unknown
from roundwise.questions.base import Answer, Complexity, Halfspaces, Pieces, column, finite, form_words, spread_over
from roundwise.questions.halfspaces import halfspace_complexity, halfspace_floor, packed
from roundwise.questions.linear import Statements

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


_NEAR = 1e-12  # a form this close to its level, relative, is on it
_FURTHEST = 1e3  # log odds of a rate of 0 or 1: beyond those of every other rate, so that two of 0 are alike


@dataclass(frozen=True, eq=False)
class Lines:
    """Claims `forms[j] . means > levels[j]`, then their opposites: the mathematics of `Claims`."""

    forms: Floats  # a, (J, K)
    levels: Floats  # b, (J)
    weights: Floats | float = 1.0
    futility: Floats | float | None = None  # m2
    sides: str = "one"
    odds: bool = False
    name = "claims"
    cells = "claims"

    def __post_init__(self) -> None:
        held = Statements(self.forms, self.levels)
        number = len(held.forms)
        object.__setattr__(self, "forms", held.forms)
        object.__setattr__(self, "levels", held.levels)
        object.__setattr__(self, "weights", one_each(self.weights, number, "weights"))
        if not (np.asarray(self.weights) > 0).all():
            raise InputError("The weights of claims must be positive numbers.")
        if self.sides not in ("one", "two"):
            raise unknown("number of sides", self.sides, ("one", "two"))
        if self.futility is not None:
            if self.sides == "two":
                raise InputError("Give either `futility` or two sides: two sides are futility at the level itself.")
            object.__setattr__(self, "futility", one_each(self.futility, number, "futility"))
            if (np.asarray(self.futility) < self.levels).any():
                raise InputError(
                    f"The futility margin {np.min(self.futility):g} is below the level {np.max(self.levels):g}: it "
                    "says what would be too little, and must be at least the level."
                )
        if self.odds:
            signs = np.sort(self.forms, axis=-1)
            if not ((signs[:, 0] == -1) & (signs[:, -1] == 1) & (np.count_nonzero(self.forms, axis=-1) == 2)).all():
                raise InputError("Claims about odds compare two rates: coefficients 1 and -1, and zeros.")

    @property
    def number(self) -> int:
        """How many claims there are, J."""
        return len(self.forms)

    @property
    def opposites(self) -> bool:
        """Whether the opposite of a claim can be shown, too."""
        return self.futility is not None or self.sides == "two"

    @cached_property
    def lines(self) -> Statements:
        """All that can be shown: the claims, then their opposites."""
        if not self.opposites:
            return Statements(self.forms, self.levels)
        ends = self.levels if self.futility is None else np.asarray(self.futility)
        return Statements(np.vstack([self.forms, -self.forms]), np.append(self.levels, -ends))

    def check(self, arms: int) -> None:
        """As many arms as the forms have coefficients."""
        self.lines.check(arms)

    def values(self, means: ArrayLike) -> Floats:
        """The forms at these means, each less its level; for the opposites, what they hold by. (K)->(L)"""
        found = finite(means)
        self.check(found.shape[-1])
        if self.odds:
            with np.errstate(divide="ignore"):
                found = np.clip(np.log(found) - np.log1p(-found), -_FURTHEST, _FURTHEST)
        each = [
            total(form[arms] * found[..., arms]) - level
            for form, level in zip(self.lines.forms, self.lines.levels, strict=True)
            for arms in [np.flatnonzero(form)]
        ]
        return np.stack(each, axis=-1)

    def holds(self, means: ArrayLike) -> Bools:
        """What may be shown at these means: a form on its level is not above it, nor below a futility margin.

        Where the margin is the level itself, or sides are two, the opposite is "not above it": one of the two is true.
        """
        found = finite(means)
        away = self.values(found)
        near = _NEAR * (1.0 + np.abs(self.lines.levels) + np.abs(found).max(axis=-1, keepdims=True))
        ends = self.lines.levels.reshape(-1, self.number)
        least = np.zeros(ends.shape, dtype=np.bool_)
        least[1:] = ends[0] == -ends[1:]
        return np.asarray(np.where(least.reshape(-1), away >= -near, away > near))

    def answer(self, means: ArrayLike) -> Answer:
        """What is true of these means."""
        return self.holds(means)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether nothing false was shown."""
        return np.asarray(~(np.asarray(answer) & ~self.holds(means)).any(axis=-1))

    def true_shown(self, answer: Answer, means: ArrayLike) -> Floats:
        """How many true claims (not opposites) were shown. ()"""
        true = np.asarray(answer) & self.holds(means)
        return np.asarray(true[..., : self.number].sum(axis=-1), dtype=np.float64)

    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """That of all lines together, on whichever side they are."""
        return self._linear().evidence(counts, means, sigma)

    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w* of showing all that is true, and nothing else: 0 if nothing is."""
        lines = self._linear()
        spread, radii = spread_over(finite(means), radius)
        runs, arms = spread.shape[:-1], spread.shape[-1]
        given, some = spread.reshape(-1, arms), radii.reshape(-1, 1)
        if (given == given[:1]).all() and (some == some[:1]).all():  # the same means in all runs
            given, some = given[:1], some[:1]
        flat, sides = self.values(given), self.holds(given)
        value, weights = np.zeros(len(flat)), np.full((len(flat), arms), 1.0 / arms)
        for mask in np.unique(sides, axis=0):
            if mask.any():
                rows = np.flatnonzero((sides == mask).all(axis=-1))
                found = halfspace_complexity(lines.forms[mask], flat[rows][:, mask], some[rows], sigma)
                value[rows], weights[rows] = found
        whole = np.zeros(spread.size // arms)  # also where the means of one run stand for all
        return Complexity((value + whole).reshape(runs), (weights + whole[:, None]).reshape(*runs, arms))

    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The largest need of one true line alone."""
        away = np.where(self.holds(means), self.values(means), np.inf)
        column(radius)
        return np.where(np.isinf(away).all(axis=-1), 0.0, halfspace_floor(self._linear().forms, away, radius, sigma))

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each line."""
        return self._linear().pieces(arms)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every line that is in the answer as it is, every other one turned round."""
        return self._linear().halfspaces(answer, arms)

    def bets(self, runs: tuple[int, ...]) -> Halfspaces:
        """What is bet on: every line, in every run. (L, S)"""
        found = self._bets
        arms = np.broadcast_to(found.arms, (*runs, *found.arms.shape))
        if found.factors is None:
            return found._replace(arms=arms)
        return found._replace(arms=arms, factors=np.broadcast_to(found.factors, arms.shape))

    @cached_property
    def _bets(self) -> Halfspaces:
        """The same in one run."""
        forms = self.lines.forms
        width = int(np.count_nonzero(forms, axis=-1).max())
        found = packed(forms, self.lines.levels, width)
        if width == 2 and (found.coefficients == [1.0, -1.0]).all():
            return found._replace(factors=None, pairs=True)
        return found

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Where every claim is at its level."""
        return self._linear().centre(means, constant)

    def _linear(self) -> Statements:
        if self.odds:
            raise InputError(
                "Odds ratios have bets, but no complexity or likelihood ratio here: use the policy 'conditional-power'."
            )
        return self.lines
