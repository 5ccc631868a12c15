"""Claims about the means, each shown separately and permanently: forms, levels, opposites and their wording."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Facts, Floats, Plain
from roundwise.errors import InputError, unknown
from roundwise.questions.base import PLAIN_WORDING, Answer, HalfspaceQuestion, Wording, describe_halfspaces, finite
from roundwise.questions.forms import Statements, find_arm, find_control, find_margin, name_or_count, set_fields
from roundwise.solvers import divergence
from roundwise.solvers.halfspaces import Complexity, Family, Halfspaces, Pieces, pack_forms

Scale = Literal["difference", "ratio", "odds-ratio"]
SCALES: tuple[Scale, ...] = ("difference", "ratio", "odds-ratio")
ODDS = "odds ratio"  # a scale on which sizes are kept as logarithms
_NEAR = 1e-12  # a form whose relative distance from its level is below this is on the level
_FURTHEST = 1e3  # log odds that stand for a rate of 0 or 1, beyond those of every other rate; two rates of 0 tie


@dataclass(frozen=True, eq=False)
class Claims(HalfspaceQuestion):
    """Claims `forms[j] . means > levels[j]`, each shown as soon as its evidence suffices. None need be shown. The
    answer is a mask over what has been shown: first the claims, then, with `futility` or two `sides`, their opposites.
    The probability that anything false is ever shown (the familywise error) is at most delta. `Statements` gives one
    answer once every statement is settled; a claim is shown on its own, and a false claim delays no other.

    Args:
        forms: Coefficients, one row per claim. (J, K)
        levels: The level that each form is claimed to exceed. (J)
        weights: Claims with larger weights are shown sooner.
        futility: m2, at least the level: "the form is below m2" can be shown as well. One number, or one per claim.
        sides: "two" for futility at the level itself.
        odds: Whether the forms apply to the log odds of rates.
        names: Names of the claims, then of their opposites; by default built from the names of the arms.
        independent: Whether each claim is about a different arm with independent results. Their e-values are then
            multiplied, which shows more if most claims are true. (Excludes budget bets.)
        lower_is_better: How claims about two arms read: `mu_c - mu_a > m` becomes "a is below c by more than m".

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
    names: tuple[str, ...] = ()
    independent: bool = False
    lower_is_better: bool = False
    name = "claims"
    separate_claims = True

    def __post_init__(self) -> None:
        held = Statements(self.forms, self.levels)
        number = len(held.forms)
        set_fields(self, forms=held.forms, levels=held.levels, weights=_one_each(self.weights, number, "weights"))
        if not (np.asarray(self.weights) > 0).all():
            raise InputError("The weights of claims must be positive numbers.")
        if self.sides not in ("one", "two"):
            raise unknown("number of sides", self.sides, ("one", "two"))
        if self.futility is not None:
            if self.sides == "two":
                raise InputError("Give either `futility` or two sides: two sides are futility at the level itself.")
            set_fields(self, futility=_one_each(self.futility, number, "futility"))
            if (np.asarray(self.futility) < self.levels).any():
                raise InputError(
                    f"The futility margin {np.min(self.futility):g} is below the level {np.max(self.levels):g}: it "
                    "says what would be too little, and must be at least the level."
                )
        if self.odds:
            signs = np.sort(self.forms, axis=-1)
            if not ((signs[:, 0] == -1) & (signs[:, -1] == 1) & (np.count_nonzero(self.forms, axis=-1) == 2)).all():
                raise InputError("Claims about odds compare two rates: coefficients 1 and -1, and zeros.")
        if self.independent:
            each = np.count_nonzero(self.forms, axis=-1), np.count_nonzero(self.forms, axis=0)
            if self.odds or (each[0] != 1).any() or (each[1] > 1).any() or np.ptp(self.weights):
                raise InputError(
                    "Independent claims must each be about one arm that no other claim is about, with the same weight: "
                    "leave out `independent` for others."
                )
        control = find_control(self.merits(self.forms))
        set_fields(self, reference_arm=control, control=None if self.odds else control, margin=find_margin(self.levels))
        given, numbered = tuple(self.names), self._describe([str(i) for i in range(self.forms.shape[1])])
        if len(given) not in (0, self.number, len(numbered)):
            raise InputError(f"There are {self.number} claims but {len(given)} names; give one name each.")
        set_fields(self, names=(*given, *numbered[len(given) :]))

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
        lower_is_better: bool = False,
    ) -> Claims:
        """Claims that every other arm exceeds the control (or each of several) by a margin, as a difference or a ratio.

        If lower is better, every other arm is below the control: by more than a difference, or with less than 1/r of
        its mean or odds.
        """
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        names, number = name_or_count(arms)
        several = [control] if isinstance(control, int | str | np.integer) else list(control)
        controls = [find_arm(each, names, number) for each in several]
        others = [i for i in range(number) if i not in controls]
        if not others:
            raise InputError("All arms are controls: there is nothing to compare with them.")
        unit = np.eye(number)
        duels = [(i, c) for i in others for c in controls]
        better = [(c, i) for i, c in duels] if lower_is_better else duels  # pairs whose first arm has the larger mean
        if scale != "difference" and not margin > 0:
            raise InputError(f"The margin is {margin:g}, but a ratio must be positive; 1 means no difference.")
        if scale == "ratio":
            if futility is not None or sides != "one":
                raise InputError("Ratios can be claimed on one side only; use a difference or an odds ratio.")
            forms, levels = np.array([unit[a] - margin * unit[b] for a, b in better]), np.zeros(len(better))
            found = cls(forms, levels, weights, lower_is_better=lower_is_better)  # type: ignore[arg-type]
            return found._with_arm_names(names)
        forms, odds = np.array([unit[a] - unit[b] for a, b in better]), scale == "odds-ratio"
        if odds:
            margin, futility = math.log(margin), None if futility is None else math.log(futility)
        levels = np.full(len(forms), margin)
        found = cls(forms, levels, weights, futility, sides, odds, lower_is_better=lower_is_better)  # type: ignore[arg-type]
        return found._with_arm_names(names)

    @classmethod
    def pairs(cls, arms: int | Sequence[str], margin: float = 0.0, lower_is_better: bool = False) -> Claims:
        """Claims that each arm beats each other by more than a margin: all of the ranking that can be shown."""
        names, number = name_or_count(arms)
        unit = np.eye(number)
        forms = np.array([unit[i] - unit[j] for i, j in itertools.permutations(range(number), 2)])
        forms, levels = -forms if lower_is_better else forms, np.full(len(forms), margin)
        return cls(forms, levels, lower_is_better=lower_is_better)._with_arm_names(names)

    @classmethod
    def above(
        cls,
        arms: int | Sequence[str],
        level: float,
        *,
        futility: float | None = None,
        sides: str = "one",
        independent: bool = False,
        lower_is_better: bool = False,
    ) -> Claims:
        """Claims that each arm is above a level (below, if lower is better), whatever the dependence between arms.

        With two sides, also that it is not; with `futility`, a level that is at least as high (low, if lower is
        better), also that it is below (above) that one.
        """
        names, number = name_or_count(arms)
        sign = -1.0 if lower_is_better else 1.0
        found = cls(
            sign * np.eye(number),
            np.full(number, sign * level),
            futility=None if futility is None else sign * np.asarray(futility),
            sides=sides,
            independent=independent,
            lower_is_better=lower_is_better,
        )
        return found._with_arm_names(names)

    @classmethod
    def from_shorthand(cls, fields: Facts) -> Claims | None:
        """The claims that a control and the number of arms describe in place of forms.

        >>> Claims.from_shorthand({"arms": 3, "control": 0, "margin": 0.1}).levels.tolist()
        [0.1, 0.1]
        """
        return cls.against_control(**_read_shorthand(fields)) if "control" in fields else None

    def check_range(self, low: float, high: float) -> None:
        if not self.odds:
            Statements(self.forms, self.levels, self.names[: self.number]).check_range(low, high)
        elif (low, high) != (0.0, 1.0):
            raise InputError("Odds ratios are of rates: they need 0/1 results.")

    def answer_text(self, answer: Answer, names: Sequence[str]) -> str:
        each = self.claim_texts(names)
        return "; ".join(each[j] for j in np.flatnonzero(answer)) or "no claim is shown"

    def halfspace_texts(self, answer: Answer, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> list[str]:
        each = zip(self.claim_texts(names), answer, strict=True)
        return [f"{words}: {'yes' if holds else 'no'}" for words, holds in each]

    def claim_texts(self, names: Sequence[str]) -> tuple[str, ...]:
        """Each claim in words, then each opposite: by name if they have one, else by the arms."""
        numbered = self._describe([str(i) for i in range(self.forms.shape[1])])
        own = zip(self.names, numbered, self._describe(names), strict=True)
        return tuple(words if name == plain else name for name, plain, words in own)

    def _with_arm_names(self, names: Sequence[str]) -> Claims:
        return replace(self, names=tuple(self._describe(names))) if names else self

    def _describe(self, names: Sequence[str]) -> list[str]:
        """Each claim, then each opposite, built from the names of the arms."""
        claims = list(zip(self.forms, self.levels, strict=True))
        lower = self.lower_is_better
        words = [describe_claim(*each, self.odds, names, lower) for each in claims]
        if self.opposites:
            words += [
                describe_opposite(form, end, level, self.odds, names, lower)
                for (form, level), end in zip(claims, self._futility_levels, strict=True)
            ]
        return words

    @property
    def _futility_levels(self) -> Floats:
        return self.levels if self.futility is None else np.asarray(self.futility)

    def labels(self, names: Sequence[str]) -> list[str]:
        """The shortest label of each claim: the name of its arm, if no other claim is about it."""
        forms, words = self.merits(self.forms), list(self.claim_texts(names)[: self.number])
        first = [int(np.argmax(form)) for form in forms]
        several = len(set(first)) < len(first) or (forms.max(axis=-1) <= 0).any()
        return words if several or words != self._describe(names)[: self.number] else [names[i] for i in first]

    def with_arm(self, names: Sequence[str]) -> Claims:
        """These claims and one more: that the arm which joins, the last name, beats the control by the same margin.

        >>> Claims.against_control(3, 0, 0.1).with_arm(["a", "b", "c", "d"]).forms[-1].tolist()
        [-1.0, 0.0, 0.0, 1.0]
        """
        control = self.reference_arm
        if control is None or np.ptp(self.levels) or np.ptp(self.weights):
            raise InputError(
                "An arm can join where every other arm is compared with one control, all by the same margin and with "
                "the same weight. Nothing was changed; start a new study with the other claims."
            )
        wider = np.hstack([self.forms, np.zeros((self.number, 1))])
        more = np.zeros((1, wider.shape[1]))
        more[0, control], more[0, -1] = -self.sign, self.sign
        futility = None if self.futility is None else float(np.asarray(self.futility)[0])
        weight, levels = float(np.asarray(self.weights)[0]), np.append(self.levels, self.levels[0])
        forms, lower = np.vstack([wider, more]), self.lower_is_better
        found = Claims(forms, levels, weight, futility, self.sides, self.odds, lower_is_better=lower)
        return found._with_arm_names(names) if self.names else found

    def means_with_lead(self, means: Floats, lead: float) -> Floats:
        if self.reference_arm is None:
            return super().means_with_lead(means, lead)
        return Statements(self.forms, self.levels, lower_is_better=self.lower_is_better).means_with_lead(means, lead)

    def cli_options(self, names: Sequence[str]) -> list[str] | None:
        """The options that produce exactly these claims, if all are against one control."""
        form, level = self.forms[0], float(self.levels[0])
        controls = np.flatnonzero((self.merits(self.forms) < 0).all(axis=0)).tolist()
        scale: Scale = "odds-ratio" if self.odds else "difference" if form.min() == -1 else "ratio"
        margin = {"difference": level, "ratio": -float(form.min()), "odds-ratio": math.exp(level)}[scale]
        margin, futility = float(f"{margin:.12g}"), None if self.futility is None else float(self._futility_levels[0])
        for control in controls if futility is None or scale == "difference" else []:
            other = Claims.against_control(
                names,
                control,
                margin,
                futility=futility,
                sides=self.sides if scale != "ratio" else "one",
                scale=scale,
                lower_is_better=self.lower_is_better,
            )
            if all(map(np.array_equal, astuple(self), astuple(other))):
                found = ["--control", names[control]]
                found += [] if scale == "difference" else ["--margin-is", scale]
                found += [] if scale == "difference" and not margin else ["--margin", f"{margin:.12g}"]
                found += [] if futility is None else ["--futility", f"{futility:.12g}"]
                return [*found, *(["--two-sided"] if self.sides == "two" else []), *self.direction_options()]
        return None

    def question_text(self, names: Sequence[str], wording: Wording = PLAIN_WORDING) -> str:
        if self.control is None or self.margin is None:
            words = self.claim_texts(names)[: self.number]
            listed = ", ".join(words[:6]) + (", ..." if len(words) > 6 else "")
            return f"Which of {self.number} claims can be shown ({listed})?"
        by = f" by more than {wording.gap(self.margin)}" if self.margin else ""
        if len(names) == 2:
            asked = ("Is {} below" if self.lower_is_better else "Does {} beat").format(names[1 - self.control])
            return f"{asked} {names[self.control]}{by}?"
        verb = "are below" if self.lower_is_better else "beat"
        return f"Which of {len(names) - 1} arms {verb} {names[self.control]}{by}, each by itself?"

    @property
    def number(self) -> int:
        """J, the number of claims."""
        return len(self.forms)

    @property
    def opposites(self) -> bool:
        return self.futility is not None or self.sides == "two"

    @cached_property
    def lines(self) -> Statements:
        """Everything that can be shown: the claims, then their opposites."""
        if not self.opposites:
            return Statements(self.forms, self.levels)
        return Statements(np.vstack([self.forms, -self.forms]), np.append(self.levels, -self._futility_levels))

    def check(self, arms: int) -> None:
        self.lines.check(arms)

    def values(self, means: ArrayLike) -> Floats:
        """The forms at these means minus their levels; for opposites, the amounts by which they hold. (K)->(L)"""
        found = finite(means)
        if self.odds:
            with np.errstate(divide="ignore"):
                found = np.clip(np.log(found) - np.log1p(-found), -_FURTHEST, _FURTHEST)
        return self.lines.heights(found)

    def holds(self, means: ArrayLike) -> Bools:
        """The claims that are true at these means: a form on its level is not above it, nor below a futility margin.

        If the margin is the level itself, or `sides` is "two", the opposite is "not above the level": one of the two is
        true.
        """
        found = finite(means)
        away = self.values(found)
        near = _NEAR * (1.0 + np.abs(self.lines.levels) + np.abs(found).max(axis=-1, keepdims=True))
        ends = self.lines.levels.reshape(-1, self.number)
        least = np.zeros(ends.shape, dtype=np.bool_)
        least[1:] = ends[0] == -ends[1:]
        return np.asarray(np.where(least.reshape(-1), away >= -near, away > near))

    def answer(self, means: ArrayLike) -> Answer:
        return self.holds(means)

    def correct(self, answer: Answer, means: ArrayLike) -> Bools:
        return np.asarray(~(np.asarray(answer) & ~self.holds(means)).any(axis=-1))

    def count_true_claims(self, answer: Answer, means: ArrayLike) -> Floats:
        true = np.asarray(answer) & self.holds(means)
        return np.asarray(true[..., : self.number].sum(axis=-1), dtype=np.float64)

    def evidence(self, counts: ArrayLike, means: ArrayLike, sigma: float = 1.0) -> Floats:
        return self._linear().evidence(counts, means, sigma)

    def pieces(self, arms: int) -> Pieces:
        return self._linear().pieces(arms)

    def halfspaces(self, answer: Answer, arms: int) -> Halfspaces:
        """The half-space of each claim in the answer, and the complement of each other."""
        return self._linear().halfspaces(answer, arms)

    def bets(self, runs: tuple[int, ...]) -> Halfspaces:
        """The half-spaces that are bet on: of every claim and opposite, in every run. (L, S)"""
        found = self._bets
        arms = np.broadcast_to(found.arms, (*runs, *found.arms.shape))
        if found.factors is None:
            return found._replace(arms=arms)
        return found._replace(arms=arms, factors=np.broadcast_to(found.factors, arms.shape))

    @cached_property
    def _bets(self) -> Halfspaces:
        forms = self.lines.forms
        width = int(np.count_nonzero(forms, axis=-1).max())
        found = pack_forms(forms, self.lines.levels, width)
        if width == 2 and (found.coefficients == [1.0, -1.0]).all():
            return found._replace(factors=None, pairs=True)
        return found

    def _distances(self, answer: Answer, means: Floats) -> tuple[Floats, Floats]:
        """Distances as usual, but infinite for claims outside the answer, whose falsehood need not be shown."""
        forms, distances = super()._distances(answer, means)
        return forms, np.where(answer, distances, np.inf)

    def _family_complexity(self, answer: Answer, right: Bools, means: Floats, family: Family) -> Complexity:
        pieces = self.halfspaces(answer, means.shape[-1])
        return divergence.family_complexity(pieces, means, family, right, np.asarray(answer))

    def _linear(self) -> Statements:
        if self.odds:
            raise InputError(
                "Claims about odds ratios have no complexity or likelihood ratio. Use the policy 'conditional-power'."
            )
        return self.lines


def describe_claim(form: Floats, level: float, odds: bool, names: Sequence[str], lower_is_better: bool = False) -> str:
    """One claim in words."""
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1:
        high, low, ratio = names[plus[0]], names[minus[0]], -form[minus[0]]
        a, b, verb = (low, high, "is below") if lower_is_better else (high, low, "beats")
        if odds:
            return f"{a} {verb} {b}" + ("" if level == 0 else f" by an odds ratio above {math.exp(level):g}")
        if ratio == 1:
            if level < 0:
                return f"{a} is not worse than {b} by {-level:g} or more"
            return f"{a} {verb} {b}" + (f" by more than {level:g}" if level else "")
        if level == 0:
            times = f"less than {1 / ratio:g}" if lower_is_better else f"more than {ratio:g}"
            return f"{a} is {times} times {b}"
    if len(plus) + len(minus) == 1 and form[(plus if len(plus) else minus)[0]] in (1, -1):
        return f"{names[plus[0]]} is above {level:g}" if len(plus) else f"{names[minus[0]]} is below {-level:g}"
    return describe_halfspaces(pack_forms(form[None], np.array([level]), len(plus) + len(minus)), names)[0]


def describe_scale(form: Floats, level: float, odds: bool, names: Sequence[str]) -> str | None:
    """The quantity that a claim is about, if it is neither a mean nor the difference named in its text."""
    if odds:
        return ODDS
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1 and form[minus[0]] != -1 and level == 0:
        return f"{names[plus[0]]} - {-form[minus[0]]:g} {names[minus[0]]}"
    return None


def describe_opposite(
    form: Floats, end: float, level: float, odds: bool, names: Sequence[str], lower_is_better: bool = False
) -> str:
    """The opposite of a claim: the form is below `end`, or, if that is the level of the claim itself, not above it."""
    plus, minus = np.flatnonzero(form > 0), np.flatnonzero(form < 0)
    if len(plus) == 1 and len(minus) == 1 and form[plus[0]] == 1 and form[minus[0]] == -1:
        high, low = names[plus[0]], names[minus[0]]
        denied = f"{low} is not below {high}" if lower_is_better else f"{high} does not beat {low}"
        if end == level < 0 and not odds:  # the opposite of a claim of non-inferiority
            a, b = (low, high) if lower_is_better else (high, low)
            return f"{a} is worse than {b} by {-end:g} or more"
        if end == 0:
            return denied
        if odds:
            ratio = f"{math.exp(end):g}"
            return f"{denied} by an odds ratio {f'above {ratio}' if end == level else f'of {ratio} or more'}"
        return f"{denied} by {f'more than {end:g}' if end == level else f'{end:g} or more'}"
    if end == level and len(plus) + len(minus) == 1 and form[(plus if len(plus) else minus)[0]] in (1, -1):
        return f"{names[plus[0]]} is not above {end:g}" if len(plus) else f"{names[minus[0]]} is not below {-end:g}"
    return describe_claim(-form, -end, False, names)


def _one_each(values: Any, number: int, what: str) -> Floats:
    """One number per claim, from a single number or a list."""
    try:
        array = np.asarray(values, dtype=np.float64)
        array = np.broadcast_to(array, (number,)).copy()
    except ValueError:
        raise InputError(f"Give one number for all {number} claims, or one each, as `{what}`.") from None
    if not np.isfinite(array).all():
        raise InputError(f"The {what} of claims must be finite numbers.")
    return array


def _read_shorthand(fields: Facts) -> Plain:
    """The arguments of `Claims.against_control` in plain data or in the words of the command line."""
    known = ("arms", "control", "margin", "futility", "sides", "scale", "weights", "lower_is_better")
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
    lower = str(fields.get("lower_is_better", False)).lower() in ("true", "yes")
    given = {"arms": arms, "control": control, "margin": margin or 0.0, "futility": futility, "lower_is_better": lower}
    return given | others
