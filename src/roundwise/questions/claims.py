"""What can be shown of each arm, for good: claims that are shown one by one and stay shown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError, unknown
from roundwise.questions.base import Answer, Complexity, Halfspaces, Pieces, column, finite, form_words, spread_over
from roundwise.questions.linear import Statements, halfspace_complexity, halfspace_floor, packed

Scale = Literal["difference", "ratio", "odds-ratio"]
SCALES: tuple[Scale, ...] = ("difference", "ratio", "odds-ratio")
_NEAR = 1e-12  # a form this close to its level, relative, is on it


@dataclass(frozen=True, eq=False)
class Claims:
    """Claims `forms[j] . means > levels[j]`, each shown when there is enough for it; none need be shown in the end.

    The answer is a mask over what was shown: first the claims, then, with `futility` or two `sides`, their opposites:
    "no more than that". The probability that anything false is ever shown is at most delta. `futility` is m2, one
    number or one a claim: it can be shown, too, that a form is below m2 (at least the level). `sides="two"` is
    m2 = level. Claims with larger `weights`, fixed beforehand, are shown sooner. `odds`: of the log odds of rates.

    `Statements` asks which of its statements hold, all together: there is one answer, when every one of them is settled
    on one side or the other. Of claims each is shown by itself, and one that is not true holds nothing up.

    >>> doses = Claims.against_control(["placebo", "75mg", "300mg"], control="placebo", margin=0.1)
    >>> doses.answer([0.36, 0.40, 0.54]).tolist()
    [False, True]
    >>> doses.correct(np.array([False, False]), [0.36, 0.40, 0.54])  # nothing false was shown
    np.True_
    """

    forms: Floats  # a, (J, K)
    levels: Floats  # b, (J)
    weights: Floats | float = 1.0
    futility: Floats | float | None = None  # m2
    sides: str = "one"
    odds: bool = False
    names: tuple[str, ...] = ()  # what the claims are called; otherwise in the words of their arms
    name = "claims"
    cells = "claims"

    def __post_init__(self) -> None:
        held = Statements(self.forms, self.levels, self.names)
        number = len(held.forms)
        object.__setattr__(self, "forms", held.forms)
        object.__setattr__(self, "levels", held.levels)
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "weights", _each(self.weights, number, "weights"))
        if not (np.asarray(self.weights) > 0).all():
            raise InputError("The weights of claims must be positive numbers.")
        if self.sides not in ("one", "two"):
            raise unknown("number of sides", self.sides, ("one", "two"))
        if self.futility is not None:
            if self.sides == "two":
                raise InputError("Give either `futility` or two sides: two sides are futility at the level itself.")
            object.__setattr__(self, "futility", _each(self.futility, number, "futility"))
            if (np.asarray(self.futility) < self.levels).any():
                raise InputError(
                    f"The futility margin {np.min(self.futility):g} is below the level {np.max(self.levels):g}: it "
                    "says what would be too little, and must be at least the level."
                )
        if self.odds:
            signs = np.sort(self.forms, axis=-1)
            if not ((signs[:, 0] == -1) & (signs[:, -1] == 1) & (np.count_nonzero(self.forms, axis=-1) == 2)).all():
                raise InputError("Claims about odds compare two rates: coefficients 1 and -1, and zeros.")

    @classmethod
    def against_control(
        cls,
        arms: int | Sequence[str],
        control: int | str | Sequence[int | str] = 0,
        margin: float = 0.0,
        *,
        futility: float | None = None,
        sides: str = "one",
        scale: Scale = "difference",
        weights: ArrayLike = 1.0,
    ) -> Claims:
        """Every other arm exceeds the control (or each of several) by more than a margin: a difference, or a ratio."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        names, number = _named(arms)
        several = [control] if isinstance(control, int | str | np.integer) else list(control)
        controls = [_index(each, names, number) for each in several]
        others = [i for i in range(number) if i not in controls]
        if not others:
            raise InputError("All arms are controls: there is nothing to compare with them.")
        unit = np.eye(number)
        if scale != "difference" and not margin > 0:
            raise InputError(f"The margin is {margin:g}, but a ratio must be positive; 1 means no difference.")
        if scale == "ratio":
            if futility is not None or sides != "one":
                raise InputError("Ratios can be claimed on one side only; use a difference or an odds ratio.")
            forms = [unit[i] - margin * unit[c] for i in others for c in controls]
            return cls(np.array(forms), np.zeros(len(forms)), weights)  # type: ignore[arg-type]
        forms = [unit[i] - unit[c] for i in others for c in controls]
        odds = scale == "odds-ratio"
        if odds:
            margin, futility = math.log(margin), None if futility is None else math.log(futility)
        return cls(np.array(forms), np.full(len(forms), margin), weights, futility, sides, odds)  # type: ignore[arg-type]

    @classmethod
    def pairs(cls, arms: int | Sequence[str], margin: float = 0.0) -> Claims:
        """Every arm exceeds every other one by more than a margin: what is shown of the ranking."""
        _, number = _named(arms)
        unit = np.eye(number)
        forms = [unit[i] - unit[j] for i, j in itertools.permutations(range(number), 2)]
        return cls(np.array(forms), np.full(len(forms), margin))

    @classmethod
    def above(cls, arms: int | Sequence[str], level: float, *, futility: float | None = None) -> Claims:
        """Every arm is above a level, whatever the dependence between arms."""
        _, number = _named(arms)
        return cls(np.eye(number), np.full(number, level), futility=futility)

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

    def check_range(self, low: float, high: float) -> None:
        """Every level must be where its form can lie."""
        if not self.odds:
            Statements(self.forms, self.levels, self.names).check_range(low, high)
        elif (low, high) != (0.0, 1.0):
            raise InputError("Odds ratios are of rates: they need 0/1 results.")

    def values(self, means: ArrayLike) -> Floats:
        """The forms at these means, each less its level; for the opposites, what they hold by. (K)->(L)"""
        found = finite(means)
        self.check(found.shape[-1])
        if self.odds:
            with np.errstate(divide="ignore"):
                found = np.log(found) - np.log1p(-found)
        each = [
            total(form[arms] * found[..., arms]) - level
            for form, level in zip(self.lines.forms, self.lines.levels, strict=True)
            for arms in [np.flatnonzero(form)]
        ]
        return np.stack(each, axis=-1)

    def holds(self, means: ArrayLike) -> Bools:
        """What may be shown at these means: a form on its level is neither above nor below, unless sides are two."""
        found = finite(means)
        away = self.values(found)
        near = _NEAR * (1.0 + np.abs(self.lines.levels) + np.abs(found).max(axis=-1, keepdims=True))
        return np.asarray(away >= -near if self.sides == "two" else away > near)

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
        away, true = self.values(spread), self.holds(spread)
        flat, sides = away.reshape(-1, away.shape[-1]), true.reshape(-1, true.shape[-1])
        value, weights = np.zeros(len(flat)), np.full((len(flat), spread.shape[-1]), 1.0 / spread.shape[-1])
        some = radii.reshape(-1, 1)
        for mask in np.unique(sides, axis=0):
            if mask.any():
                rows = np.flatnonzero((sides == mask).all(axis=-1))
                found = halfspace_complexity(lines.forms[mask], flat[rows][:, mask], some[rows], sigma)
                value[rows], weights[rows] = found
        runs = away.shape[:-1]
        return Complexity(value.reshape(runs), weights.reshape(*runs, -1))

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
        forms = self.lines.forms
        width = int(np.count_nonzero(forms, axis=-1).max())
        found = packed(forms, self.lines.levels, width)
        arms = np.broadcast_to(found.arms, (*runs, *found.arms.shape))
        factors = found.coefficients
        if width == 2 and (factors == [1.0, -1.0]).all():
            return Halfspaces(arms, None, found.offsets, True)
        return Halfspaces(arms, np.broadcast_to(factors, arms.shape), found.offsets, False)

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'shown: x beats control, y beats control'"""
        each = self.line_words(names)
        held = "; ".join(each[j] for j in np.flatnonzero(answer)) or "nothing"
        return f"shown: {held}"

    def plain(self, answer: Answer) -> Any:
        """The indices of the claims that were shown; with opposites, those of both."""
        mask = np.asarray(answer)
        up = np.flatnonzero(mask[: self.number]).tolist()
        return up if not self.opposites else {"shown": up, "not": np.flatnonzero(mask[self.number :]).tolist()}

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x beats y: yes' or 'x beats y: no'."""
        each = zip(self.line_words(names), answer, strict=True)
        return [f"{words}: {'yes' if holds else 'no'}" for words, holds in each]

    def line_words(self, names: Sequence[str]) -> list[str]:
        """Each claim in words, then each opposite."""
        words = list(self.names) or [
            _words(*each, self.odds, names) for each in zip(self.forms, self.levels, strict=True)
        ]
        if not self.opposites:
            return words
        ends = self.levels if self.futility is None else np.asarray(self.futility)
        return [*words, *(_below(form, end, self.odds, names) for form, end in zip(self.forms, ends, strict=True))]

    def labels(self, names: Sequence[str]) -> list[str]:
        """The shortest name of each claim: its arm, where all claims are about one arm and the same others."""
        first = [int(np.argmax(form)) for form in self.forms]
        several = len(set(first)) < len(first) or (self.forms.max(axis=-1) <= 0).any()
        return self.line_words(names)[: self.number] if several or self.names else [names[i] for i in first]

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Where every claim is at its level."""
        return self._linear().centre(means, constant)

    def _linear(self) -> Statements:
        if self.odds:
            raise InputError(
                "Odds ratios have bets, but no complexity or likelihood ratio here: use the policy 'chances'."
            )
        return self.lines


def _words(form: Floats, level: float, odds: bool, names: Sequence[str]) -> str:
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


def _below(form: Floats, end: float, odds: bool, names: Sequence[str]) -> str:
    """The opposite of a claim: the form is at most this."""
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if odds:
        return f"{names[plus[0]]} beats {names[minus[0]]} by an odds ratio of {math.exp(end):g} at most"
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1 and form[minus[0]] == -1:
        if end == 0:
            return f"{names[plus[0]]} does not beat {names[minus[0]]}"
        return f"{names[plus[0]]} does not beat {names[minus[0]]} by {end:g} or more"
    return _words(-form, -end, False, names)


def _each(values: Any, number: int, what: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
        array = np.broadcast_to(array, (number,)).copy()
    except ValueError:
        raise InputError(f"Give one number for all {number} claims, or one each, as `{what}`.") from None
    if not np.isfinite(array).all():
        raise InputError(f"The {what} of claims must be finite numbers.")
    return array


def _named(arms: int | Sequence[str]) -> tuple[list[str], int]:
    if isinstance(arms, int | np.integer):
        return [], int(arms)
    return [str(each) for each in arms], len(arms)


def _index(control: int | str, names: list[str], number: int) -> int:
    """The place of a control, by its name or its number."""
    if isinstance(control, str):
        if control in names:
            return names.index(control)
        raise unknown("arm", control, names)
    if not 0 <= int(control) < number:
        raise InputError(f"The control is arm {control}, but the arms are 0 to {number - 1}.")
    return int(control)
