"""What can be shown of each arm, for good: claims that are shown one by one and stay shown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Facts, Floats
from roundwise.errors import InputError, unknown
from roundwise.questions.base import Answer, Wording
from roundwise.questions.claim_lines import (
    SCALES,
    Lines,
    Scale,
    claim_words,
    index_of,
    named,
    opposite_words,
    read_fields,
)
from roundwise.questions.linear import Statements


@dataclass(frozen=True, eq=False)
class Claims(Lines):
    """Claims `forms[j] . means > levels[j]`, each shown when there is enough for it; none need be shown in the end.

    The answer is a mask over what was shown: first the claims, then, with `futility` or two `sides`, their opposites:
    "no more than that". The probability that anything false is ever shown is at most delta. `futility` is m2, one
    number or one a claim: it can be shown, too, that a form is below m2 (at least the level). `sides="two"` is
    m2 = level. Claims with larger `weights`, fixed beforehand, are shown sooner. `odds`: of the log odds of rates.
    `independent` claims are each about an arm of its own, whose results have nothing to do with those of other arms:
    what was won for them is multiplied, which shows more where most claims are true. (No bets towards a budget.)

    `Statements` asks which of its statements hold, all together: there is one answer, when every one of them is settled
    on one side or the other. Of claims each is shown by itself, and one that is not true holds nothing up.

    >>> doses = Claims.against_control(["placebo", "75mg", "300mg"], control="placebo", margin=0.1)
    >>> doses.answer([0.36, 0.40, 0.54]).tolist()
    [False, True]
    >>> bool(doses.correct(np.array([False, False]), [0.36, 0.40, 0.54]))  # nothing false was shown
    True
    """

    names: tuple[str, ...] = ()  # of the claims, then of their opposites; otherwise in the words of their arms
    independent: bool = False  # whether what was won for different claims is multiplied

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.independent:
            self._check_independent()
        given, numbered = tuple(self.names), self._worded([str(i) for i in range(self.forms.shape[1])])
        if len(given) not in (0, self.number, len(numbered)):
            raise InputError(f"There are {self.number} claims but {len(given)} names; give one name each.")
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
        cls,
        arms: int | Sequence[str],
        level: float,
        *,
        futility: float | None = None,
        sides: str = "one",
        independent: bool = False,
    ) -> Claims:
        """Every arm is above a level, whatever the dependence between arms; with two sides, or it is not."""
        names, number = named(arms)
        levels = np.full(number, level)
        return cls(np.eye(number), levels, futility=futility, sides=sides, independent=independent)._called(names)

    @classmethod
    def from_words(cls, fields: Facts) -> Claims | None:
        """The claims that are described by a control and the number of arms in place of forms; None if they are not.

        >>> Claims.from_words({"arms": 3, "control": 0, "margin": 0.1}).levels.tolist()
        [0.1, 0.1]
        """
        return cls.against_control(**read_fields(fields)) if "control" in fields else None

    def check_range(self, low: float, high: float) -> None:
        """Every level must be where its form can lie."""
        if not self.odds:
            Statements(self.forms, self.levels, self.names[: self.number]).check_range(low, high)
        elif (low, high) != (0.0, 1.0):
            raise InputError("Odds ratios are of rates: they need 0/1 results.")

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

    def _check_independent(self) -> None:
        each = np.count_nonzero(self.forms, axis=-1), np.count_nonzero(self.forms, axis=0)
        if self.odds or (each[0] != 1).any() or (each[1] > 1).any() or np.ptp(self.weights):
            raise InputError(
                "Independent claims must each be about one arm that no other claim is about, with the same weight: "
                "leave out `independent` for others."
            )

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
            *(
                opposite_words(form, end, level, self.odds, names)
                for form, end, level in zip(self.forms, ends, self.levels, strict=True)
            ),
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

    def with_arm(self, names: Sequence[str]) -> Claims:
        """One claim more, of an arm that joins as the last of these names: it beats the control by the same margin.

        >>> Claims.against_control(3, 0, 0.1).with_arm(["a", "b", "c", "d"]).forms[-1].tolist()
        [-1.0, 0.0, 0.0, 1.0]
        """
        control = self.against
        if control is None or np.ptp(self.levels) or np.ptp(self.weights):
            raise InputError(
                "An arm can join where every other arm is compared with one control, all by the same margin and with "
                "the same weight. Nothing was changed; start a new study with the other claims."
            )
        wider = np.hstack([self.forms, np.zeros((self.number, 1))])
        more = np.zeros((1, wider.shape[1]))
        more[0, control], more[0, -1] = -1.0, 1.0
        futility = None if self.futility is None else float(np.asarray(self.futility)[0])
        weight, levels = float(np.asarray(self.weights)[0]), np.append(self.levels, self.levels[0])
        found = Claims(np.vstack([wider, more]), levels, weight, futility, self.sides, self.odds)
        return found._called(names) if self.names else found

    def led(self, means: Floats, lead: float) -> Floats | None:
        """Effects in even steps."""
        return Statements(self.forms, self.levels).led(means, lead)

    def flags(self, names: Sequence[str]) -> list[str] | None:
        """How it is asked on the command line, if nothing but a control and a margin is said."""
        called = self.names not in ((), tuple(self._worded(names)))  # otherwise than by the names of its arms
        if self.opposites or self.odds or self.independent or called or np.ptp(self.weights) != 0:
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
