"""Questions that users state as linear forms of the means: which statements hold, which score is largest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Bools, Floats, total
from roundwise.errors import InputError
from roundwise.questions import program
from roundwise.questions.base import (
    Answer,
    Complexity,
    Halfspaces,
    Pieces,
    checked_open,
    complexity_where,
    finite,
    midrange,
    quiet,
    range_of_forms,
    spread_over,
)


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
    def against_control(cls, arms: int, control: int = 0, margin: float = 0.0) -> Statements:
        """Which arms beat the control by more than a margin?"""
        if not 0 <= control < arms:
            raise InputError(f"The control is arm {control}, but the arms are 0 to {arms - 1}.")
        others = [i for i in range(arms) if i != control]
        forms = np.eye(arms)[others] - np.eye(arms)[control]
        return cls(forms, np.full(len(others), margin), tuple(f"{i} beats {control}" for i in others))

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


def packed(forms: Floats, offsets: Floats, width: int) -> Halfspaces:
    """Half-spaces from dense forms (P, K), keeping `width` arms of each, largest factors first and zeros last.

    The width must not depend on the answer, so that a run looks the same alone as among others.
    """
    arms = np.argsort(np.where(forms == 0, np.inf, -forms), axis=-1, kind="stable")[..., :width]
    return Halfspaces(arms, np.take_along_axis(forms, arms, axis=-1), offsets, False)


def halfspace_complexity(forms: Floats, distances: Floats, radii: Floats, sigma: float) -> Complexity:
    """T* and w* of a union of half-spaces with these normals, (m, K) or (..., m, K), at these distances.

    T* = min sum_i n_i subject to sum_i a_ji^2 / n_i <= distance_j^2 / (2 sigma^2) (docs/paper.md).
    """
    runs, arms = distances.shape[:-1], forms.shape[-1]
    scales = np.abs(forms).max(axis=-1)  # a form and its distance may be large or small together
    forms, distances = forms / scales[..., None], distances / scales
    distances = distances - radii * np.abs(forms).sum(axis=-1)
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    unit = np.where(possible, smallest, 1.0)  # squares of tiny distances would underflow
    limits = np.maximum(distances / unit[..., None], 0.0) ** 2 / 2
    squares = (forms**2).reshape((-1, *forms.shape[-2:])) if forms.ndim > 2 else forms**2
    found = program.certified(program.general(squares, limits.reshape(-1, limits.shape[-1])))
    value = np.where(possible, found.total.reshape(runs), 1.0)
    weights = found.pulls.reshape((*runs, arms)) / value[..., None]
    return complexity_where(possible, value * (sigma**2 / unit / unit), weights)


def halfspace_floor(forms: Floats, distances: Floats, radius: ArrayLike, sigma: float) -> Floats:
    """The largest need of one half-space alone: 2 sigma^2 |a|_1^2 / distance^2 (Cauchy-Schwarz)."""
    lengths = np.abs(forms).sum(axis=-1)
    distances = distances - np.asarray(radius, dtype=np.float64)[..., None] * lengths
    needs = np.where(distances > 0, 2 * sigma**2 * (lengths / distances) ** 2, np.inf)
    return np.asarray(needs.max(axis=-1))


def border_point(means: Floats, forms: Floats, levels: Floats, constant: bool) -> Floats | None:
    """The nearest point (in the sup norm) on all hyperplanes a.y = b, with `constant` one number; or None."""
    lengths = np.abs(forms).sum(axis=1, keepdims=True)
    forms, levels = forms / lengths, levels / lengths[:, 0]
    size = max(1.0, float(np.abs(levels).max()), float(np.abs(means).max()))
    if constant:
        sums = forms.sum(axis=1)
        sums[np.abs(sums) < 1e-12] = 0.0
        values = np.full(means.shape, levels @ sums / (sums @ sums)) if sums.any() else midrange(means)
    else:
        found = _nearest(means, forms, levels)
        if found is None:
            return None
        values = found
    return values if np.abs(forms @ values - levels).max() <= 1e-9 * size else None


def _nearest(means: Floats, forms: Floats, levels: Floats) -> Floats | None:
    """min t subject to |means - y| <= t and forms y = levels: a linear program in (y, t)."""
    from scipy.optimize import linprog

    arms = len(means)
    within = np.hstack([np.vstack([np.eye(arms), -np.eye(arms)]), -np.ones((2 * arms, 1))])
    found = linprog(
        np.append(np.zeros(arms), 1.0),
        A_ub=within,
        b_ub=np.concatenate([means, -means]),
        A_eq=np.hstack([forms, np.zeros((len(forms), 1))]),
        b_eq=levels,
        bounds=(None, None),
    )
    if found.x is None:
        return None
    values = np.asarray(found.x[:arms])
    # the program is solved to 1e-7; one projection brings the point onto the hyperplanes
    return np.asarray(values + np.linalg.lstsq(forms, levels - forms @ values, rcond=None)[0])


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
