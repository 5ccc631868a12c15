"""Questions stated as linear forms of the means: which statements hold, and which score is the largest?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Floats, total
from roundwise.errors import InputError, unknown
from roundwise.questions.base import (
    PLAIN_WORDING,
    Answer,
    Question,
    ScoreQuestion,
    SidesQuestion,
    Wording,
    check_open,
    check_tolerance,
    near_words,
    within_words,
)
from roundwise.solvers.halfspaces import Halfspaces, Pieces, pack_forms, range_of_forms


@dataclass(frozen=True, eq=False)
class Statements(SidesQuestion):
    """Which of the statements `forms[j] . means > levels[j]` hold? The answer is a mask over the statements.

    A statement whose form is within the tolerance of its level may be answered either way. With `lower_is_better` every
    statement compares an arm with one control, as `control - arm > level`, and reads "the arm is below the control".

    Args:
        forms: The coefficients of each statement, one row per statement.
        levels: The level of each statement.
        names: Names of the statements in reports.
        tolerance: Statements whose form is within this of the level may be answered either way.
        lower_is_better: Whether statements say that an arm is below the control.

    >>> beats_control = Statements.against_control(arms=3, control=0, margin=0.1)
    >>> beats_control.answer([1.0, 1.05, 1.3]).tolist()
    [False, True]
    """

    forms: Floats  # a, (m, K)
    levels: Floats  # b, (m)
    names: tuple[str, ...] = ()
    tolerance: float = 0.0  # epsilon, in units of the forms
    lower_is_better: bool = False
    name = "statements"

    def __post_init__(self) -> None:
        forms, names = check_forms(self.forms, self.names, "statement")
        levels = np.asarray(self.levels, dtype=np.float64)
        if levels.shape != forms.shape[:1]:
            raise InputError(f"There are {len(forms)} statements but {levels.size} levels; give one level each.")
        if not np.isfinite(levels).all():
            raise InputError("The levels of the statements must be finite numbers.")
        if not forms.any(axis=1).all():
            empty = names[int(np.argmin(forms.any(axis=1)))]
            raise InputError(f"The statement '{empty}' has only zero coefficients: it says nothing of the means.")
        check_tolerance(self.tolerance)
        control, margin = find_control(self.sign * forms), find_margin(levels)
        if self.lower_is_better and control is None:
            raise InputError(
                "`lower_is_better` goes with statements that compare arms with a control. These statements say which "
                "side they mean by the signs of their coefficients: change those."
            )
        set_fields(self, forms=forms, levels=levels, names=names)
        set_fields(self, control=control, reference_arm=control, margin=margin)

    @classmethod
    def against_control(
        cls,
        arms: int | Sequence[str],
        control: int | str = 0,
        margin: float = 0.0,
        tolerance: float = 0.0,
        lower_is_better: bool = False,
    ) -> Statements:
        """Which arms beat the control (or are below it) by more than a margin? Arms are given by name or by number.

        >>> Statements.against_control(["placebo", "10 mg", "20 mg"], "placebo", margin=0.5).names
        ('10 mg beats placebo by more than 0.5', '20 mg beats placebo by more than 0.5')
        """
        named, number = name_or_count(arms)
        named = named or [str(i) for i in range(number)]
        control = find_arm(control, named)
        others = [i for i in range(len(named)) if i != control]
        forms = np.eye(len(named))[others] - np.eye(len(named))[control]
        verb, by = "is below" if lower_is_better else "beats", f" by more than {margin:g}" if margin else ""
        words = tuple(f"{named[i]} {verb} {named[control]}{by}" for i in others)
        forms = -forms if lower_is_better else forms
        return cls(forms, np.full(len(others), margin), words, tolerance, lower_is_better)

    @classmethod
    def ranking(cls, arms: int, tolerance: float = 0.0) -> Statements:
        """Which arm of each pair is better? That is, the full ranking."""
        pairs = list(itertools.combinations(range(arms), 2))
        forms = np.array([np.eye(arms)[i] - np.eye(arms)[j] for i, j in pairs])
        return cls(forms, np.zeros(len(pairs)), tuple(f"{i} above {j}" for i, j in pairs), tolerance)

    def check(self, arms: int) -> None:
        check_arm_count(self.forms, arms)

    def check_range(self, low: float, high: float) -> None:
        ends = range_of_forms(self.forms, low, high)
        for name, level, least, most in zip(self.names, self.levels, *ends, strict=True):
            room = least < level - self.tolerance <= level + self.tolerance < most if self.tolerance else True
            check_open(
                f"The statement '{name}' has the level {level:g}", bool(least <= level <= most and room), low, high
            )

    def pieces(self, arms: int) -> Pieces:
        return Pieces(len(self.forms), max(len(arms) for arms in self._arms_of_forms()))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The half-space of each true statement and the complement of each other, widened by the tolerance."""
        signs = np.where(answer, 1.0, -1.0)
        forms = signs[..., None] * self.forms
        return pack_forms(forms, signs * self.levels - self.tolerance, max(len(arms) for arms in self._arms_of_forms()))

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        held = ", ".join(self.names[j] for j in np.flatnonzero(answer)) or "none"
        close = f" (or are within {self.tolerance:g})" if self.tolerance else ""
        return f"statements that hold{close}: {held}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        if self.control is None or self.margin is None:
            return f"Which of {count_and_list(self.names, 'statement')} hold{wording.near(self.tolerance)}?"
        by = f" by more than {wording.gap(self.margin)}" if self.margin else ""
        verb = "are below" if self.lower_is_better else "beat"
        return f"Which of {len(names) - 1} arms {verb} {names[self.control]}{by}{wording.near(self.tolerance)}?"

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        control, found = self.control, np.array(means)
        if control is None:
            return super().means_with_lead(means, lead)
        others = [i for i in range(means.size) if i != control]
        found[others] += self.sign * (np.linspace(0.0, lead, len(others)) if len(others) > 1 else lead)
        return found

    def cli_options(self, names: Sequence[str]) -> list[str] | None:
        if self.control is None or self.margin is None:
            return None
        known = {"--margin": self.margin, "--tolerance": self.tolerance}
        options = [word for key, x in known.items() if x for word in (key, f"{x:g}")]
        return ["--control", names[self.control], *options, *self.direction_options()]

    def claim_texts(self, names: Sequence[str]) -> tuple[str, ...]:
        return self.names

    def halfspace_texts(self, answer: Answer, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> list[str]:
        return [f"{name}: {'yes' if holds else 'no'}" for name, holds in zip(self.names, answer, strict=True)]

    def _arms_of_forms(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(form) for form in self.forms]

    def heights(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        sides = [
            total(self.forms[j, arms] * means[..., arms]) - self.levels[j]
            for j, arms in enumerate(self._arms_of_forms())
        ]
        return np.stack(sides, axis=-1)


@dataclass(frozen=True, eq=False)
class Largest(ScoreQuestion):
    """Which of the scores `forms[j] . means + offsets[j]` is largest, or smallest if `lower_is_better`? Its index.

    Any score within the tolerance of the largest is right.

    Args:
        forms: The coefficients of each score, one row per score.
        offsets: A constant added to each score.
        names: Names of the scores in reports.
        tolerance: Any score within this of the largest is a right answer.
        lower_is_better: Whether the smallest score is sought.

    >>> pairs = Largest([[1, 1, 0], [0, 1, 1]], names=("first two", "last two"))
    >>> int(pairs.answer([1.0, 0.5, 0.9]))
    0
    """

    forms: Floats  # a, (m, K)
    offsets: Floats | None = None
    names: tuple[str, ...] = ()
    tolerance: float = 0.0  # epsilon, in units of the scores
    lower_is_better: bool = False
    name = "largest"

    def __post_init__(self) -> None:
        forms, names = check_forms(self.forms, self.names, "score")
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
            check_scale(f"The differences of the scores '{names[i]}' and '{names[j]}'", forms[i] - forms[j])
        check_tolerance(self.tolerance)
        set_fields(self, forms=forms, offsets=offsets, names=names)

    def check(self, arms: int) -> None:
        check_arm_count(self.forms, arms)

    def cli_options(self, names: Sequence[str]) -> None:
        return

    def pieces(self, arms: int) -> Pieces:
        widest = max(np.count_nonzero(a - b) for a, b in itertools.combinations(self.forms, 2))
        return Pieces(len(self.forms) - 1, int(widest))

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        assert self.offsets is not None
        best = np.asarray(answer)
        others = np.arange(len(self.forms) - 1)
        others = others + (others >= best[..., None])
        forms = self.forms[best][..., None, :] - self.forms[others]
        widest = np.sort(np.count_nonzero(self.forms, axis=-1))[-2:].sum()  # of any two scores, whatever the answer
        offsets = self.merits(self.offsets[others] - self.offsets[best][..., None]) - self.tolerance
        return pack_forms(self.merits(forms), offsets, min(arms, int(widest)))

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        return f"{self.names[int(answer)]} is the {self._end}{within_words(self.tolerance)}"

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        return f"Which of {count_and_list(self.names, 'score')} is the {self._end}{wording.near(self.tolerance)}?"

    def halfspace_texts(self, answer: Answer, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> list[str]:
        near, verb = near_words(self.tolerance, wording), "is below" if self.lower_is_better else "exceeds"
        return [f"{self.names[int(answer)]} {verb} {name}{near}" for i, name in enumerate(self.names) if i != answer]

    def scores(self, means: Floats) -> Floats:
        self.check(means.shape[-1])
        assert self.offsets is not None
        sides = [total(form * means) + offset for form, offset in zip(self.forms, self.offsets, strict=True)]
        return self.merits(np.stack(sides, axis=-1))

    @property
    def _end(self) -> str:
        return "smallest" if self.lower_is_better else "largest"


def count_and_list(names: Sequence[str], kind: str) -> str:
    """The number of names and the first few of them."""
    return f"{len(names)} {kind}s ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})"


def check_forms(forms: ArrayLike, names: Sequence[str], kind: str) -> tuple[Floats, tuple[str, ...]]:
    """The forms as an array with a coefficient per arm, and a name for each; an InputError if they are invalid."""
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
        raise InputError(f"{what} are up to {largest:g}: their squares overflow or underflow. Use other units.")


def check_arm_count(forms: Floats, arms: int) -> None:
    """Raise an InputError unless there is one coefficient per arm."""
    if forms.shape[1] != arms:
        raise InputError(f"The question has coefficients for {forms.shape[1]} arms, but there are {arms} arms.")


def find_control(forms: Floats) -> int | None:
    """The arm that all others are compared with by a difference, if the forms do that. (m, K)"""
    arms = forms.shape[1]
    if len(forms) != arms - 1 or not (forms < 0).any(axis=1).all():
        return None
    control = int((forms < 0)[0].argmax())
    others = [i for i in range(arms) if i != control]
    compared = np.eye(arms)[others] - np.eye(arms)[control]
    return control if np.array_equal(np.unique(forms, axis=0), np.unique(compared, axis=0)) else None


def find_margin(levels: Floats) -> float | None:
    """The common level of all forms; None if they differ."""
    return float(levels[0]) if np.ptp(levels) == 0 else None


def name_or_count(arms: int | Sequence[str]) -> tuple[list[str], int]:
    """The names of the arms, empty if only their number is given, and their number."""
    if isinstance(arms, int | np.integer):
        return [], int(arms)
    names = [str(each) for each in arms]
    twice = next((each for i, each in enumerate(names) if each in names[:i]), None)
    if twice is not None:
        raise InputError(f"There are two arms called '{twice}'. Give every arm a unique name.")
    return names, len(names)


def find_arm(arm: int | str, names: Sequence[str], number: int | None = None) -> int:
    """The index of an arm, given by name or index."""
    if isinstance(arm, str):
        if arm in names:
            return names.index(arm)
        raise unknown("arm", arm, names)
    number = len(names) if number is None else number
    if not 0 <= int(arm) < number:
        raise InputError(f"The control is arm {arm}, but the arms are 0 to {number - 1}.")
    return int(arm)


def set_fields(question: Question, **fields: Any) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in fields.items():
        object.__setattr__(question, name, value)
