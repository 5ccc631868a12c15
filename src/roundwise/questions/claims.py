"""What can be shown of each arm, for good: claims that are shown one by one and stay shown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Facts, Floats, total
from roundwise.errors import InputError, unknown
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    Wording,
    column,
    finite,
    spread_over,
)
from roundwise.questions.claim_words import (
    SCALES,
    Scale,
    claim_words,
    index_of,
    named,
    one_each,
    opposite_words,
    read_fields,
)
from roundwise.questions.halfspaces import halfspace_complexity, halfspace_floor, packed
from roundwise.questions.linear import Statements

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
    >>> bool(doses.correct(np.array([False, False]), [0.36, 0.40, 0.54]))  # nothing false was shown
    True
    """

    forms: Floats  # a, (J, K)
    levels: Floats  # b, (J)
    weights: Floats | float = 1.0
    futility: Floats | float | None = None  # m2
    sides: str = "one"
    odds: bool = False
    names: tuple[str, ...] = ()  # of the claims, then of their opposites; otherwise in the words of their arms
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
        given, numbered = tuple(self.names), self._worded([str(i) for i in range(held.forms.shape[1])])
        if len(given) not in (0, number, len(numbered)):
            raise InputError(f"There are {number} claims but {len(given)} names; give one name each.")
        object.__setattr__(self, "names", (*given, *numbered[len(given) :]))

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
        names, number = named(arms)
        several = [control] if isinstance(control, int | str | np.integer) else list(control)
        controls = [index_of(each, names, number) for each in several]
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
            return cls(np.array(forms), np.zeros(len(forms)), weights)._called(names)  # type: ignore[arg-type]
        forms = [unit[i] - unit[c] for i in others for c in controls]
        odds = scale == "odds-ratio"
        if odds:
            margin, futility = math.log(margin), None if futility is None else math.log(futility)
        found = cls(np.array(forms), np.full(len(forms), margin), weights, futility, sides, odds)  # type: ignore[arg-type]
        return found._called(names)

    @classmethod
    def pairs(cls, arms: int | Sequence[str], margin: float = 0.0) -> Claims:
        """Every arm exceeds every other one by more than a margin: what is shown of the ranking."""
        names, number = named(arms)
        unit = np.eye(number)
        forms = [unit[i] - unit[j] for i, j in itertools.permutations(range(number), 2)]
        return cls(np.array(forms), np.full(len(forms), margin))._called(names)

    @classmethod
    def above(
        cls, arms: int | Sequence[str], level: float, *, futility: float | None = None, sides: str = "one"
    ) -> Claims:
        """Every arm is above a level, whatever the dependence between arms; with two sides, or it is not."""
        names, number = named(arms)
        return cls(np.eye(number), np.full(number, level), futility=futility, sides=sides)._called(names)

    @classmethod
    def from_words(cls, fields: Facts) -> Claims | None:
        """The claims that are described by a control and the number of arms in place of forms; None if they are not.

        >>> Claims.from_words({"arms": 3, "control": 0, "margin": 0.1}).levels.tolist()
        [0.1, 0.1]
        """
        return cls.against_control(**read_fields(fields)) if "control" in fields else None

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
            Statements(self.forms, self.levels, self.names[: self.number]).check_range(low, high)
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
        """'x beats control; y beats control'"""
        each = self.line_words(names)
        return "; ".join(each[j] for j in np.flatnonzero(answer)) or "no claim is shown"

    def plain(self, answer: Answer) -> Any:
        """The indices of what was shown: of the claims, then of their opposites."""
        return np.flatnonzero(answer).tolist()

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x beats y: yes' or 'x beats y: no'."""
        each = zip(self.line_words(names), answer, strict=True)
        return [f"{words}: {'yes' if holds else 'no'}" for words, holds in each]

    def line_words(self, names: Sequence[str]) -> list[str]:
        """Each claim in words, then each opposite: by their own names, or else with the names of the arms."""
        numbered = self._worded([str(i) for i in range(self.forms.shape[1])])
        own = zip(self.names, numbered, self._worded(names), strict=True)
        return [words if name == plain else name for name, plain, words in own]

    def _called(self, names: Sequence[str]) -> Claims:
        """With the names of the arms in those of the claims, if there are any."""
        return replace(self, names=tuple(self._worded(names))) if names else self

    def _worded(self, names: Sequence[str]) -> list[str]:
        words = [claim_words(*each, self.odds, names) for each in zip(self.forms, self.levels, strict=True)]
        if not self.opposites:
            return words
        ends = self.levels if self.futility is None else np.asarray(self.futility)
        return [
            *words,
            *(opposite_words(form, end, self.odds, names) for form, end in zip(self.forms, ends, strict=True)),
        ]

    def labels(self, names: Sequence[str]) -> list[str]:
        """The shortest name of each claim: its arm, where no other claim is about it."""
        words, first = self.line_words(names)[: self.number], [int(np.argmax(form)) for form in self.forms]
        several = len(set(first)) < len(first) or (self.forms.max(axis=-1) <= 0).any()
        return words if several or words != self._worded(names)[: self.number] else [names[i] for i in first]

    @property
    def against(self) -> int | None:
        """The arm that every other one is compared with, on whatever scale, if that is what is claimed."""
        return Statements(self.forms, self.levels).control

    @property
    def control(self) -> int | None:
        """The same, where the difference of means is what is compared."""
        return self.against if not self.odds else None

    def led(self, means: Floats, lead: float) -> Floats | None:
        """Effects in even steps."""
        return Statements(self.forms, self.levels).led(means, lead)

    def flags(self, names: Sequence[str]) -> list[str] | None:
        """How it is asked on the command line, if nothing but a control and a margin is said."""
        called = self.names not in ((), tuple(self._worded(names)))  # otherwise than by the names of its arms
        if self.opposites or self.odds or called or np.ptp(self.weights) != 0:
            return None
        return Statements(self.forms, self.levels).flags(names)

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 4 arms beat placebo, each by itself?'"""
        control, margins = self.control, np.unique(self.levels)
        if control is None or len(margins) > 1:
            words = self.line_words(names)[: self.number]
            listed = ", ".join(words[:6]) + (", ..." if len(words) > 6 else "")
            return f"Which of {self.number} claims can be shown ({listed})?"
        by = f" by more than {wording.gap(float(margins[0]))}" if margins[0] else ""
        return f"Which of {len(names) - 1} arms beat {names[control]}{by}, each by itself?"

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Where every claim is at its level."""
        return self._linear().centre(means, constant)

    def _linear(self) -> Statements:
        if self.odds:
            raise InputError(
                "Odds ratios have bets, but no complexity or likelihood ratio here: use the policy 'chances'."
            )
        return self.lines
