"""Questions that users state as linear forms of the means: which statements hold, which score is largest."""

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
    finite,
    quiet,
    range_of_forms,
    spread_over,
)
from roundwise.questions.halfspaces import border_point, halfspace_complexity, halfspace_floor, packed


@dataclass(frozen=True, eq=False)
class Statements:
    """Which of the statements `forms[j] . means > levels[j]` hold? The answer is a mask over the statements.

    >>> beats_control = Statements.against_control(arms=3, control=0, margin=0.1)
    >>> beats_control.answer([1.0, 1.05, 1.3]).tolist()
    [False, True]
    """

    forms: Floats  # a, (m, K)
    levels: Floats  # b, (m)
    names: tuple[str, ...] = ()
    name = "statements"

    def __post_init__(self) -> None:
        forms, names = _checked_forms(self.forms, self.names, "statement")
        levels = np.asarray(self.levels, dtype=np.float64)
        if levels.shape != forms.shape[:1]:
            raise InputError(f"There are {len(forms)} statements but {levels.size} levels; give one level each.")
        if not np.isfinite(levels).all():
            raise InputError("The levels of the statements must be finite numbers.")
        if not forms.any(axis=1).all():
            empty = names[int(np.argmin(forms.any(axis=1)))]
            raise InputError(f"The statement '{empty}' has only zero coefficients: it says nothing of the means.")
        object.__setattr__(self, "forms", forms)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "names", names)

    @classmethod
    def against_control(cls, arms: int | Sequence[str], control: int | str = 0, margin: float = 0.0) -> Statements:
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
        return cls(forms, np.full(len(others), margin), words)

    @classmethod
    def ranking(cls, arms: int) -> Statements:
        """Which arm of each pair is better, that is, the full ranking."""
        pairs = list(itertools.combinations(range(arms), 2))
        forms = np.array([np.eye(arms)[i] - np.eye(arms)[j] for i, j in pairs])
        return cls(forms, np.zeros(len(pairs)), tuple(f"{i} above {j}" for i, j in pairs))

    def check(self, arms: int) -> None:
        """As many arms as the forms have coefficients."""
        _check_arms(self.forms, arms)

    def check_range(self, low: float, high: float) -> None:
        """Every level must be where its form can lie."""
        ends = range_of_forms(self.forms, low, high)
        for name, level, least, most in zip(self.names, self.levels, *ends, strict=True):
            checked_open(f"The statement '{name}' has the level {level:g}", bool(least <= level <= most), low, high)

    def answer(self, means: ArrayLike) -> Answer:
        """Which statements hold."""
        return np.asarray(self._away(finite(means)) > 0)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means."""
        return np.asarray((answer == self.answer(means)).all(axis=-1))

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_j (a_j.mu - b_j)^2 / (2 sigma^2 sum_i a_ji^2 / N_i)."""
        away = self._away(finite(means))
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
        return halfspace_complexity(self.forms, np.abs(self._away(means)), radii, sigma)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The largest need of one statement alone: 2 sigma^2 |a_j|_1^2 / distance_j^2."""
        return halfspace_floor(self.forms, np.abs(self._away(finite(means))), radius, sigma)

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each statement."""
        return Pieces(len(self.forms), max(len(arms) for arms in self._supports()))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """Every statement that holds as it is, every other one turned round."""
        sides = np.where(answer, 1.0, -1.0)
        forms = sides[..., None] * self.forms
        return packed(forms, sides * self.levels, max(len(arms) for arms in self._supports()))

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'These hold: x, y.'"""
        held = ", ".join(self.names[j] for j in np.flatnonzero(answer)) or "none"
        return f"statements that hold: {held}"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 3 arms beat placebo by more than 0.5?', or which statements hold."""
        control, margins = self.control, np.unique(self.levels)
        if control is None or len(margins) > 1:
            return f"Which of {_listed(self.names, 'statement')} hold?"
        by = f" by more than {wording.gap(float(margins[0]))}" if margins[0] else ""
        return f"Which of {len(names) - 1} arms beat {names[control]}{by}?"

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

    def plain(self, answer: Answer) -> object:
        """The indices of the statements that hold."""
        return np.flatnonzero(answer).tolist()

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x: yes' or 'x: no'."""
        return [f"{name}: {'yes' if holds else 'no'}" for name, holds in zip(self.names, answer, strict=True)]

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """Where every statement is at its level: a number y with b = y sum(a) for all, or else a point."""
        return border_point(means, self.forms, self.levels, constant)

    def _supports(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(form) for form in self.forms]

    def _away(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        sides = [
            total(self.forms[j, arms] * means[..., arms]) - self.levels[j] for j, arms in enumerate(self._supports())
        ]
        return np.stack(sides, axis=-1)


@dataclass(frozen=True, eq=False)
class Largest:
    """Which of the scores `forms[j] . means + offsets[j]` is largest? The answer is its index.

    >>> pairs = Largest([[1, 1, 0], [0, 1, 1]], names=("first two", "last two"))
    >>> int(pairs.answer([1.0, 0.5, 0.9]))
    0
    """

    forms: Floats  # a, (m, K)
    offsets: Floats | None = None
    names: tuple[str, ...] = ()
    name = "largest"

    def __post_init__(self) -> None:
        forms, names = _checked_forms(self.forms, self.names, "score")
        if len(forms) < 2:
            raise InputError("'largest' compares scores: give at least two.")
        offsets = np.zeros(len(forms)) if self.offsets is None else np.asarray(self.offsets, dtype=np.float64)
        if offsets.shape != forms.shape[:1] or not np.isfinite(offsets).all():
            raise InputError(f"There are {len(forms)} scores; give one finite offset each.")
        for i, j in itertools.combinations(range(len(forms)), 2):
            if (forms[i] == forms[j]).all():
                raise InputError(
                    f"The scores '{names[i]}' and '{names[j]}' have the same coefficients: leave one of them out."
                )
            _check_scale(f"The differences of the scores '{names[i]}' and '{names[j]}'", forms[i] - forms[j])
        object.__setattr__(self, "forms", forms)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "names", names)

    def check(self, arms: int) -> None:
        """As many arms as the forms have coefficients."""
        _check_arms(self.forms, arms)

    def answer(self, means: ArrayLike) -> Answer:
        """The index of the largest score; the first one in a tie."""
        return np.asarray(self._scores(finite(means)).argmax(axis=-1))

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        """Whether it is the answer for these means."""
        return np.asarray(answer == self.answer(means))

    @quiet
    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        """min_j (s_best - s_j)^2 / (2 sigma^2 sum_i (a_best,i - a_ji)^2 / N_i)."""
        behind, rivals = self._rivals(finite(means))
        counts = np.asarray(counts, dtype=np.float64)
        least = np.full(behind.shape[:-1], np.inf)
        for j in range(behind.shape[-1]):
            form = rivals[..., j, :]
            spread = total(np.where(form != 0, form**2 / counts, 0.0))
            least = np.minimum(least, behind[..., j] ** 2 / spread)
        return least / (2 * sigma**2)

    @quiet
    def complexity(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Complexity:
        """T* and w*; over a ball the lead over rival j shrinks by radius |a_best - a_j|_1."""
        means, radii = spread_over(finite(means), radius)
        behind, rivals = self._rivals(means)
        return halfspace_complexity(rivals, behind, radii, sigma)

    @quiet
    def floor(self, means: ArrayLike, radius: ArrayLike = 0.0, sigma: float = 1.0) -> Floats:
        """The largest need of one rival alone."""
        behind, rivals = self._rivals(finite(means))
        return halfspace_floor(rivals, behind, radius, sigma)

    def pieces(self, arms: int) -> Pieces:
        """One half-space for each rival."""
        widest = max(np.count_nonzero(a - b) for a, b in itertools.combinations(self.forms, 2))
        return Pieces(len(self.forms) - 1, int(widest))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The score exceeds every other score."""
        assert self.offsets is not None
        best = np.asarray(answer)
        others = np.arange(len(self.forms) - 1)
        others = others + (others >= best[..., None])
        forms = self.forms[best][..., None, :] - self.forms[others]
        widest = np.sort(np.count_nonzero(self.forms, axis=-1))[-2:].sum()  # of any two scores, whatever the answer
        return packed(forms, self.offsets[others] - self.offsets[best][..., None], min(arms, int(widest)))

    def words(self, answer: Answer, names: Sequence[str]) -> str:
        """'x has the largest score.'"""
        return f"{self.names[int(answer)]} is the largest"

    def asks(self, names: Sequence[str], wording: Wording) -> str:
        """'Which of 2 scores (x, y) is the largest?'"""
        return f"Which of {_listed(self.names, 'score')} is the largest?"

    def plain(self, answer: Answer) -> object:
        """The index."""
        return int(answer)

    def piece_words(self, answer: Answer, names: Sequence[str]) -> list[str]:
        """'x exceeds y.'"""
        return [f"{self.names[int(answer)]} exceeds {name}" for i, name in enumerate(self.names) if i != answer]

    def centre(self, means: Floats, constant: bool) -> Floats | None:
        """A point at which all scores tie."""
        assert self.offsets is not None
        best = int(self.answer(means))
        rivals = [j for j in range(len(self.forms)) if j != best]
        forms, levels = self.forms[rivals] - self.forms[best], self.offsets[best] - self.offsets[rivals]
        return border_point(means, forms, levels, constant)

    def _scores(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        assert self.offsets is not None
        sides = [total(form * means) + offset for form, offset in zip(self.forms, self.offsets, strict=True)]
        return np.stack(sides, axis=-1)

    def _rivals(self, means: Floats) -> tuple[Floats, Floats]:
        """How far every other score is behind, (..., m-1), and the form of the difference, (..., m-1, K)."""
        scores = self._scores(means)
        best = scores.argmax(axis=-1)
        order = np.arange(len(self.forms) - 1)
        rival = order + (order >= best[..., None])  # all indices but the best
        lead = np.take_along_axis(scores, best[..., None], axis=-1)
        behind = lead - np.take_along_axis(scores, rival, axis=-1)
        return behind, self.forms[rival] - self.forms[best][..., None, :]


def _listed(names: Sequence[str], kind: str) -> str:
    """How many there are, and the first of them."""
    return f"{len(names)} {kind}s ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})"


def _checked_forms(forms: ArrayLike, names: Sequence[str], kind: str) -> tuple[Floats, tuple[str, ...]]:
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
        _check_scale(f"The coefficients of the {kind} '{name}'", form)
    return array, names


def _check_scale(what: str, form: Floats) -> None:
    """Raise an InputError where squares of the coefficients would underflow or overflow."""
    largest = float(np.abs(form).max())
    if largest and not 1e-100 < largest < 1e100:
        raise InputError(f"{what} are up to {largest:g}: their squares cannot be reckoned with; use other units.")


def _check_arms(forms: Floats, arms: int) -> None:
    if forms.shape[1] != arms:
        raise InputError(f"The question has coefficients for {forms.shape[1]} arms, but there are {arms} arms.")
