"""Questions that users state as linear forms of the means: which statements hold? (And `largest`.)"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError, unknown
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    Wording,
    checked_open,
    checked_tolerance,
    finite,
    quiet,
    range_of_forms,
    spread_over,
)
from roundwise.questions.halfspaces import border_point, halfspace_complexity, halfspace_floor, packed
from roundwise.questions.several import (
    MOST,
    halfspace_complexities,
    listed,
    sides,
    ways_of_sides,
)


@dataclass(frozen=True, eq=False)
class Statements:
    """Which of the statements `forms[j] . means > levels[j]` hold? The answer is a mask over the statements.

    With a tolerance a statement may be said to hold or not where its form is within it of the level.

    >>> beats_control = Statements.against_control(arms=3, control=0, margin=0.1)
    >>> beats_control.answer([1.0, 1.05, 1.3]).tolist()
    [False, True]
    """

    forms: Floats  # a, (m, K)
    levels: Floats  # b, (m)
    names: tuple[str, ...] = ()
    tolerance: float = 0.0  # epsilon, in units of the forms
    name = "statements"
    nearest_first = True

    def __post_init__(self) -> None:
        forms, names = checked_forms(self.forms, self.names, "statement")
        levels = np.asarray(self.levels, dtype=np.float64)
        if levels.shape != forms.shape[:1]:
            raise InputError(f"There are {len(forms)} statements but {levels.size} levels; give one level each.")
        if not np.isfinite(levels).all():
            raise InputError("The levels of the statements must be finite numbers.")
        if not forms.any(axis=1).all():
            empty = names[int(np.argmin(forms.any(axis=1)))]
            raise InputError(f"The statement '{empty}' has only zero coefficients: it says nothing of the means.")
        checked_tolerance(self.tolerance)
        object.__setattr__(self, "forms", forms)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "names", names)

    @classmethod
    def against_control(
        cls, arms: int | Sequence[str], control: int | str = 0, margin: float = 0.0, tolerance: float = 0.0
    ) -> Statements:
        """Which arms beat the control by more than a margin? The arms are named, or only counted.

        >>> Statements.against_control(["placebo", "10 mg", "20 mg"], "placebo", margin=0.5).names
        ('10 mg beats placebo by more than 0.5', '20 mg beats placebo by more than 0.5')
        """
        named = [str(i) for i in range(arms)] if isinstance(arms, int) else list(arms)
        if isinstance(control, str):
            if control not in named:
                raise unknown("arm", control, named)
            control = named.index(control)
        if not 0 <= control < len(named):
            raise InputError(f"The control is arm {control}, but the arms are 0 to {len(named) - 1}.")
        others = [i for i in range(len(named)) if i != control]
        forms = np.eye(len(named))[others] - np.eye(len(named))[control]
        by = f" by more than {margin:g}" if margin else ""
        words = tuple(f"{named[i]} beats {named[control]}{by}" for i in others)
        return cls(forms, np.full(len(others), margin), words, tolerance)

    @classmethod
    def ranking(cls, arms: int, tolerance: float = 0.0) -> Statements:
        """Which arm of each pair is better, that is, the full ranking."""
        pairs = list(itertools.combinations(range(arms), 2))
        forms = np.array([np.eye(arms)[i] - np.eye(arms)[j] for i, j in pairs])
        return cls(forms, np.zeros(len(pairs)), tuple(f"{i} above {j}" for i, j in pairs), tolerance)

    def check(self, arms: int) -> None:
        """As many arms as the forms have coefficients."""
        check_arms(self.forms, arms)

    def check_range(self, low: float, high: float) -> None:
        """Every level must be where its form can lie."""
        ends = range_of_forms(self.forms, low, high)
        for name, level, least, most in zip(self.names, self.levels, *ends, strict=True):
            room = least < level - self.tolerance <= level + self.tolerance < most if self.tolerance else True
            checked_open(
                f"The statement '{name}' has the level {level:g}", bool(least <= level <= most and room), low, high
            )

    def answer(self, means: ArrayLike) -> Answer:
        """Which statements hold."""
        return np.asarray(self._away(finite(means)) > 0)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means, but for statements within the tolerance of their level."""
        near = np.abs(self._away(finite(means))) <= self.tolerance if self.tolerance else False
        return np.asarray(((answer == self.answer(means)) | near).all(axis=-1))

    def ways(self, means: ArrayLike) -> Floats:
        """How many answers are right: two for every statement within the tolerance, in all combinations."""
        return ways_of_sides(self._away(finite(means)), self.tolerance)

    def right_answers(self, means: ArrayLike, most: int = MOST) -> tuple[Answer, Bools]:
        """The masks that are right, that of the means first."""
        return listed(means, lambda row: sides(self._away(row), self.tolerance), most)

    def complexities(self, means: ArrayLike, sigma: float = 1.0, most: int = MOST) -> Floats:
        """T_i of right answers i; that of the means is the smallest."""
        return halfspace_complexities(self, *self.right_answers(means, most), means, sigma)

    def verdict(self, counts: ArrayLike, means: ArrayLike) -> Answer:
        """What the means say: it has more evidence than anything else, whatever the tolerance."""
        return self.answer(means)

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_j (|a_j.mu - b_j| + tolerance)^2 / (2 sigma^2 sum_i a_ji^2 / N_i)."""
        away = self._distances(finite(means))
        counts = np.asarray(counts, dtype=np.float64)
        least = np.full(away.shape[:-1], np.inf)
        for j, arms in enumerate(self._supports()):
            spread = total(self.forms[j, arms] ** 2 / counts[..., arms])
            least = np.minimum(least, away[..., j] ** 2 / spread)
        return least / (2 * sigma**2)

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball the distance of statement j shrinks by radius |a_j|_1."""
        means, radii = spread_over(finite(means), radius)
        return halfspace_complexity(self.forms, self._distances(means), radii, sigma)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The largest need of one statement alone: 2 sigma^2 |a_j|_1^2 / distance_j^2."""
        return halfspace_floor(self.forms, self._distances(finite(means)), radius, sigma)

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each statement."""
        return Pieces(len(self.forms), max(len(arms) for arms in self._supports()))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every statement that holds as it is, every other one turned round; less the tolerance."""
        signs = np.where(answer, 1.0, -1.0)
        forms = signs[..., None] * self.forms
        return packed(forms, signs * self.levels - self.tolerance, max(len(arms) for arms in self._supports()))

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'These hold: x, y.'"""
        held = ", ".join(self.names[j] for j in np.flatnonzero(answer)) or "none"
        close = f" (or are within {self.tolerance:g})" if self.tolerance else ""
        return f"statements that hold{close}: {held}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 3 arms beat placebo by more than 0.5?', or which statements hold."""
        control, margins = self.control, np.unique(self.levels)
        if control is None or len(margins) > 1:
            return f"Which of {numbered(self.names, 'statement')} hold{wording.near(self.tolerance)}?"
        by = f" by more than {wording.gap(float(margins[0]))}" if margins[0] else ""
        return f"Which of {len(names) - 1} arms beat {names[control]}{by}{wording.near(self.tolerance)}?"

    @property
    def control(self) -> int | None:
        """The arm that every other one is compared with, if that is what is asked."""
        arms = self.forms.shape[1]
        if len(self.forms) != arms - 1 or not (self.forms < 0).any(axis=1).all():
            return None
        control = int((self.forms < 0)[0].argmax())
        others = [i for i in range(arms) if i != control]
        compared = np.eye(arms)[others] - np.eye(arms)[control]
        return control if np.array_equal(np.unique(self.forms, axis=0), np.unique(compared, axis=0)) else None

    @property
    def against(self) -> int | None:
        """The same."""
        return self.control

    def led(self, means: Floats, lead: float) -> Floats | None:
        """Effects in even steps, from none to the lead; None where arms are not compared with one of them."""
        control, found = self.control, np.array(means)
        if control is None:
            return None
        others = [i for i in range(means.size) if i != control]
        found[others] += np.linspace(0.0, lead, len(others)) if len(others) > 1 else lead
        return found

    def flags(self, names: Sequence[str]) -> list[str] | None:
        """How it is asked on the command line; None where that takes a file."""
        control, margins = self.control, np.unique(self.levels)
        if control is None or margins.size > 1:
            return None
        known = {"--margin": float(margins[0]), "--tolerance": self.tolerance}
        return ["--control", names[control], *(word for key, x in known.items() if x for word in (key, f"{x:g}"))]

    def line_words(self, names: Sequence[str]) -> list[str]:
        """Each statement by its name."""
        return list(self.names)

    def plain(self, answer: Answer) -> object:
        """The indices of the statements that hold."""
        return np.flatnonzero(answer).tolist()

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x: yes' or 'x: no'."""
        return [f"{name}: {'yes' if holds else 'no'}" for name, holds in zip(self.names, answer, strict=True)]

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Where every statement is at its level: a number y with b = y sum(a) for all, or else a point.

        With a tolerance and one right answer, where every statement is just so far beyond it; else none.
        """
        if self.ways(means) > 1:
            return None
        return border_point(
            means, self.forms, self.levels - self.tolerance * np.where(self.answer(means), 1, -1), constant
        )

    def _supports(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(form) for form in self.forms]

    def _distances(self, means: Floats) -> Floats:
        """How far each form is from making the answer of the means wrong."""
        return np.abs(self._away(means)) + self.tolerance

    def _away(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        sides = [
            total(self.forms[j, arms] * means[..., arms]) - self.levels[j] for j, arms in enumerate(self._supports())
        ]
        return np.stack(sides, axis=-1)


def numbered(names: Sequence[str], kind: str) -> str:
    """How many there are, and the first of them."""
    return f"{len(names)} {kind}s ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})"


def checked_forms(forms: ArrayLike, names: Sequence[str], kind: str) -> tuple[Floats, tuple[str, ...]]:
    """Forms, a coefficient for each arm, with a name each; an InputError says what is wrong with them."""
    try:
        array = np.asarray(forms, dtype=np.float64)
    except ValueError:
        raise InputError(f"Every {kind} needs one coefficient for each arm.") from None
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise InputError(f"Give at least one {kind}, with one coefficient for each of at least two arms.")
    if not np.isfinite(array).all():
        raise InputError(f"The coefficients of a {kind} must be finite numbers.")
    names = tuple(names) or tuple(f"{kind} {j}" for j in range(len(array)))
    if len(names) != len(array):
        raise InputError(f"There are {len(array)} {kind}s but {len(names)} names; give one name each.")
    for name, form in zip(names, array, strict=True):
        check_scale(f"The coefficients of the {kind} '{name}'", form)
    return array, names


def check_scale(what: str, form: Floats) -> None:
    """Raise an InputError where squares of the coefficients would underflow or overflow."""
    largest = float(np.abs(form).max())
    if largest and not 1e-100 < largest < 1e100:
        raise InputError(f"{what} are up to {largest:g}: their squares cannot be reckoned with; use other units.")


def check_arms(forms: Floats, arms: int) -> None:
    """Raise an InputError unless there are as many arms as coefficients."""
    if forms.shape[1] != arms:
        raise InputError(f"The question has coefficients for {forms.shape[1]} arms, but there are {arms} arms.")
