"""How large everything is: means, differences and claims with their bounds, from one fold of the bets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, Plain
from roundwise.noise.base import Outcome
from roundwise.questions.claims import ODDS
from roundwise.report.model import RATIO, ArmRow, ClaimRow, EvidenceHistory, Point
from roundwise.report.wording import choose_units
from roundwise.rules import ClaimStatus
from roundwise.rules.base import Bounds, Interval, LinearForm
from roundwise.serialization import Unreadable
from roundwise.store import Entry, EventKind
from roundwise.study.fold import evidence, restore_trial
from roundwise.study.guarantee import bounds_hold, means_hold
from roundwise.study.state import State

MANY = 1000  # arms up to which intervals are computed
MOST_COURSES = 200  # claims, and rounds, up to which their course is followed
MANY_CLAIMS = 10_000  # claims up to which it is computed by how much they hold


def measure(
    state: State, answer: object, courses: Sequence[EvidenceHistory], intervals: bool
) -> tuple[list[ArmRow], list[ClaimRow]]:
    """The arms and what is claimed of them, with bounds where they are wanted; the bets are folded once."""
    settings, record = state.settings, state.record
    rule = settings.policy.stopping
    claims = rule.claims(settings.problem, state.trial, settings.arms)
    arms, spare, hold = _arms(state), None, bounds_hold(state)
    batches = state.batches if intervals and hold else []
    if batches:
        bounds = rule.bounds(settings.problem, record, batches, state.trial.kept)
        spare = bounds.margins() if len(claims) <= MANY_CLAIMS else None
        if len(arms) <= MANY:
            leader = answer if isinstance(answer, int) and not isinstance(answer, bool) else None
            arms = _bounded(arms, bounds, spare, leader)
            arms = _compared(state, arms, bounds, claims)
            arms = arms if means_hold(state) else [replace(each, lower=None, upper=None) for each in arms]
    seen = _Seen.of(state)
    found = [_shown(seen, each, None if spare is None else _known(float(spare[i]))) for i, each in enumerate(claims)]
    sizes = {each.name: each for each in arms if each.difference is not None}
    found = [_as_compared(each, sizes.get(each.compares or "")) for each in found]
    since = {each.claim: each.shown_at for each in courses}
    found = [
        each if each.shown_at is not None else replace(each, shown_at=since.get(claim.words))
        for each, claim in zip(found, claims, strict=True)
    ]
    leading = next((each.mean for each in arms if each.index == answer and not isinstance(answer, bool)), None)
    best = max((each.mean for each in arms if each.mean is not None), default=None)
    arms = [_around_estimates(each, best, leading) for each in arms]
    return _placed(state, arms, found, answer), [_around_estimate(each) if hold else _unbounded(each) for each in found]


def _around_estimates(arm: ArmRow, best: float | None, leading: float | None) -> ArmRow:
    """An arm none of whose bounds leaves out its own estimate: a wider interval holds where a narrower one does."""
    if arm.mean is None:
        return arm
    lower, upper = _around(arm.mean, arm.lower, arm.upper)
    behind = None if best is None else _around(best - arm.mean, arm.gap_to_best_lower, None)[0]
    trails: tuple[float | None, float | None] = arm.gap_to_leader_lower, arm.gap_to_leader_upper
    if leading is not None and arm.gap_to_leader_upper != 0.0:
        trails = _around(leading - arm.mean, *trails)
    difference = _around(arm.difference, arm.difference_lower, arm.difference_upper)
    lift = _around(arm.lift, arm.lift_lower, arm.lift_upper)
    return replace(
        arm,
        lower=lower,
        upper=upper,
        gap_to_best_lower=behind,
        gap_to_leader_lower=trails[0],
        gap_to_leader_upper=trails[1],
        difference_lower=difference[0],
        difference_upper=difference[1],
        lift_lower=lift[0],
        lift_upper=lift[1],
        widened=(lower, upper) != (arm.lower, arm.upper),
    )


def _around_estimate(claim: ClaimRow) -> ClaimRow:
    """The same for a claim."""
    lower, upper = _around(claim.estimate, claim.lower, claim.upper)
    single = _around(claim.estimate, claim.single_lower, claim.single_upper)
    return replace(claim, lower=lower, upper=upper, single_lower=single[0], single_upper=single[1])


def _unbounded(claim: ClaimRow) -> ClaimRow:
    """A claim without bounds."""
    return replace(claim, lower=None, upper=None, single_lower=None, single_upper=None, margins=None)


def _around(estimate: float | None, lower: float | None, upper: float | None) -> tuple[float | None, float | None]:
    """The ends of an interval, extended to the estimate if that lies outside."""
    if estimate is None:
        return lower, upper
    return None if lower is None else min(lower, estimate), None if upper is None else max(upper, estimate)


def _arms(state: State) -> list[ArmRow]:
    """What came back of every arm; also what is recorded and does not count yet."""
    record, waiting = state.record, state.awaited
    open_ = None if waiting is None or not waiting.files else waiting.whole
    later: dict[str, int] = {}
    for names, each in state.later:
        for name, missing in zip(names, [] if each.missing is None else each.missing.tolist(), strict=False):
            later[name] = later.get(name, 0) + int(missing)
    found = []
    for i, name in enumerate(state.settings.arms):
        n, more = int(record.counts[i]), 0 if open_ is None else int(open_.counts[i])
        found.append(
            ArmRow(
                name=name,
                index=i,
                results=n,
                mean=float(record.means[i]) if n else None,
                missing=int(state.lost.get(name, 0)) + later.get(name, 0),
                waiting=more,
                waiting_mean=float(open_.totals[i] / more) if open_ is not None and more else None,
            )
        )
    return found


def _bounded(arms: list[ArmRow], bounds: Bounds, spare: Floats | None, leader: int | None) -> list[ArmRow]:
    """The arms with bounds on their means, and with how far they are behind."""
    unknown = np.full(len(arms), np.nan)
    lower, upper = bounds.means()
    best = least = most = unknown
    if spare is not None and (behind := bounds.gap_to_leader(leader, spare)) is not None:
        best, least, most = (unknown if each is None else each for each in behind)
    columns = zip(arms, lower, upper, best, least, most, strict=True)
    return [
        replace(
            arm,
            lower=_known(low),
            upper=_known(high),
            gap_to_best_lower=_known(behind),
            gap_to_leader_lower=_known(at_least),
            gap_to_leader_upper=_known(at_most),
        )
        for arm, low, high, behind, at_least, at_most in columns
    ]


def _compared(state: State, arms: list[ArmRow], bounds: Bounds, claims: Sequence[ClaimStatus]) -> list[ArmRow]:
    """The arms with their differences from the control, if there is one: as the rule estimates them, if it does, with
    bounds that agree with what is shown.

    Each end is wrong with probability at most 2 delta: half of delta for the bound, delta for the decision. A lift
    takes the difference and the control's own interval together.
    """
    control = state.settings.question.control
    if control is None or not arms[control].results:
        return arms
    found = bounds.against(control) or Interval(np.full(len(arms), -np.inf), np.full(len(arms), np.inf))
    lower, upper = (np.array(each) for each in found)
    estimates: dict[str, float] = {}
    for claim in claims:
        about, name = _about(state, claim), _other_than_control(state, _about(state, claim))
        if about is None or name is None:
            continue
        i, level = state.settings.arms.index(name), about.level
        if claim.estimate is not None:
            estimates[name] = claim.estimate
        lower[i] = max(lower[i], -np.inf if claim.lower is None else claim.lower)
        upper[i] = min(upper[i], np.inf if claim.upper is None else claim.upper)
        if not (claim.shown and not about.below):
            lower[i] = min(lower[i], level)
        elif lower[i] <= level:
            lower[i] = np.nextafter(level, np.inf)
        if not (claim.shown and about.below):
            upper[i] = max(upper[i], level)
        elif upper[i] >= level:
            upper[i] = np.nextafter(level, -np.inf)
    base, upper = arms[control], np.maximum(lower, upper)
    compared = []
    for arm, low, high in zip(arms, lower, upper, strict=True):
        if arm.index == control or arm.mean is None or base.mean is None:
            compared.append(arm)
            continue
        difference = estimates.get(arm.name, arm.mean - base.mean)
        of = float(state.trial.record.means[control]) if arm.name in estimates else base.mean  # before the same results
        lifts = _lifts(state, base, float(low), float(high))
        compared.append(
            replace(
                arm,
                difference=difference,
                difference_lower=_known(float(low)),
                difference_upper=_known(float(high)),
                lift=difference / of if lifts is not None and of > 0 else None,
                lift_lower=None if lifts is None else _known(lifts[0]),
                lift_upper=None if lifts is None else _known(lifts[1]),
            )
        )
    return compared


def _lifts(state: State, base: ArmRow, low: float, high: float) -> tuple[float, float] | None:
    """Bounds on a difference as a share of the control's mean, never below -1; None where means may be negative."""
    if state.settings.noise.outcome.low < 0 or not base.mean or base.mean <= 0:
        return None
    if not base.lower or base.upper is None or base.lower <= 0:
        return -math.inf, math.inf
    return max(min(low / base.lower, low / base.upper), -1.0), max(high / base.lower, high / base.upper)


class _Seen(NamedTuple):
    """What the sizes of claims are made of, for all of them."""

    state: State
    means: Floats
    counts: Floats
    best: float  # the largest mean
    places: dict[str, int]  # of the arms, by name

    @classmethod
    def of(cls, state: State) -> _Seen:
        """Worked out once."""
        record = state.record
        means, counts = record.means, record.counts
        best = float(np.where(counts > 0, means, -np.inf).max())
        return cls(state, means, counts, best, {name: i for i, name in enumerate(state.settings.arms)})


def _shown(seen: _Seen, claim: ClaimStatus, spare: float | None) -> ClaimRow:
    """A claim with the size of what it is about; what a rule computes itself stays."""
    state, means, counts = seen.state, seen.means, seen.counts
    estimate = lower = upper = None
    gap, about = False, _about(state, claim)
    if claim.left is not None:
        arm = seen.places[claim.left]
        if counts[arm]:
            estimate, lower, gap = seen.best - float(means[arm]), spare, True
    elif about is not None:
        index, factors = list(about.arms), np.array(about.factors)
        if all(counts[index] > 0):
            estimate = float(factors @ means[index])
        gap = abs(float(factors.sum())) <= 1e-12 * float(np.abs(factors).sum()) or claim.scale is not None
        if spare is not None:
            lower, upper = (None, about.level - spare) if about.below else (about.level + spare, None)
    own: Plain = {name: getattr(claim, name, None) for name in ("estimate", "lower", "upper", "chance", "shown_at")}
    if claim.scale == ODDS:
        own |= {name: math.exp(own[name]) for name in ("estimate", "lower", "upper") if own[name] is not None}
    found = ClaimRow(
        claim=_in_units(state, claim),
        shown=claim.shown,
        shown_at=own["shown_at"],
        log_evidence=claim.evidence,
        log_threshold=claim.bar,
        estimate=estimate if own["estimate"] is None else own["estimate"],
        lower=lower if own["lower"] is None else own["lower"],
        upper=upper if own["upper"] is None else own["upper"],
        scale=claim.scale,
        chance=own["chance"],
        given_up=bool(getattr(claim, "given_up", False)),
        margins=spare,
        arm=claim.left,
        gap=gap,
        below=claim.opposite or (about is not None and about.below),
        compares=_other_than_control(state, about),
        label=claim.label,
        log_adjusted=claim.adjusted,
        single_lower=claim.single_lower,
        single_upper=claim.single_upper,
    )
    return found if claim.scale in (None, ODDS) else _as_ratio(found, about, means, state.settings.noise.outcome)


def _as_ratio(claim: ClaimRow, about: LinearForm | None, means: Floats, outcome: Outcome) -> ClaimRow:
    """A claim y - r p > 0 with y/p for its size, where no result is below 0; any other as it is.

    What is bounded is y - r p. From y - r p >= L >= 0 follows y/p >= r + L/p, and p is at most the largest result;
    where L < 0 nothing follows, as p may be as small as it likes: there is no bound then. Likewise above.
    """
    if about is None or about.level != 0 or not outcome.low >= 0:
        return claim
    (y, p), factors = about.arms, about.factors
    if factors[0] < 0:
        y, p, factors = p, y, factors[::-1]
    margin = -factors[1] / factors[0]
    over, under = claim.shown and not claim.below, claim.shown and claim.below  # then its own bound is on its side of 0
    lower, upper = (
        margin + bound / outcome.high if bound is not None and (side * bound > 0 or own) else None
        for bound, side, own in ((claim.lower, 1, over), (claim.upper, -1, under))
    )
    single_lower, single_upper = (
        margin + bound / outcome.high if bound is not None and side * bound > 0 else None
        for bound, side in ((claim.single_lower, 1), (claim.single_upper, -1))
    )
    known = claim.estimate is not None and means[p] > 0
    estimate = float(means[y] / means[p]) if known else None
    return replace(
        claim, scale=RATIO, estimate=estimate, lower=lower, upper=upper, margin=margin,
        single_lower=single_lower, single_upper=single_upper,
    )  # fmt: skip


def _in_units(state: State, claim: ClaimStatus) -> str:
    """What a claim says, with the level or tolerance that was chosen in the units of the results."""
    question, units, words = state.settings.question, choose_units(state.settings.noise), claim.words
    level, tolerance = question.level, question.tolerance
    near = f" (or is within {tolerance:g})"
    close = f" (or is within {units.given_gap(tolerance)})" if words.endswith(near) else ""
    words = words.removesuffix(near)
    if level is not None and words.endswith(f" {level:g}"):
        words = words.removesuffix(f"{level:g}") + units.given(level)
        words = words.replace("some mean is", f"some {units.mean} is", 1) if words.startswith("some mean is") else words
    return words + close


def _as_compared(claim: ClaimRow, arm: ArmRow | None) -> ClaimRow:
    """A claim against the control with the bound of that comparison: one number for one thing."""
    if arm is None:
        return claim
    if claim.below:
        return replace(claim, upper=arm.difference_upper)
    return replace(claim, lower=arm.difference_lower)


def _other_than_control(state: State, about: LinearForm | None) -> str | None:
    control = state.settings.question.control
    if control is None or about is None or len(about.arms) != 2 or control not in about.arms:
        return None
    return state.settings.arms[next(i for i in about.arms if i != control)]


def _about(state: State, claim: ClaimStatus) -> LinearForm | None:
    """What a claim is about; that a statement does not hold is said of the same quantity as that it holds."""
    about, question = claim.about, state.settings.question
    if about is None or question.forms is None or question.levels is None or question.separate_claims:
        return about
    dense = np.zeros(question.forms.shape[1])
    dense[list(about.arms)] = about.factors
    mirrored = bool((question.forms == -dense).all(axis=1).any()) and not (question.forms == dense).all(axis=1).any()
    if not mirrored:
        return about
    return about._replace(factors=tuple(-each for each in about.factors), level=-about.level, below=True)


def _placed(state: State, arms: list[ArmRow], claims: Sequence[ClaimRow], answer: object) -> list[ArmRow]:
    """The arms with their place: who may still be the best, who is out, who is the answer."""
    out = {each.arm for each in claims if each.arm is not None and each.shown}
    if any(each.arm is not None for each in claims):
        last = len(out) == len(arms) - 1
        place = ["out" if each.name in out else "the only one left" if last else "in the running" for each in arms]
        return [replace(each, place=where) for each, where in zip(arms, place, strict=True)]
    if isinstance(answer, int) and not isinstance(answer, bool) and not state.settings.question.names:
        return [replace(each, place="the answer" if each.index == answer else "") for each in arms]
    if isinstance(answer, list) and not state.settings.question.names:
        return [replace(each, place="in the answer" if each.index in answer else "") for each in arms]
    return arms


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def trace_evidence(state: State, entries: Sequence[Entry]) -> tuple[EvidenceHistory, ...]:
    """The evidence after every round, as it was recorded, for each claim that is made now."""
    if not entries:
        return ()
    rule, problem, names = state.settings.policy.stopping, state.settings.problem, state.settings.arms
    now = rule.claims(problem, state.trial, names)
    found: dict[str, dict[int, Point]] = {each.words: {} for each in now}
    if (
        not now
        or len(now) > MOST_COURSES
        or sum(entry.kind == EventKind.CHECKPOINT for entry in entries) > MOST_COURSES
    ):
        return ()
    anew = False  # whether the next count is of all rounds: what was won in each is not recorded again
    for entry in entries:
        anew |= entry.kind == EventKind.AMENDED or bool(entry.payload.get("unrelated"))
        if entry.kind != EventKind.CHECKPOINT:
            continue
        if anew:
            found, anew = {words: {} for words in found}, False
        try:
            trial = restore_trial(state.settings, entry.payload)
        except (Unreadable, KeyError, TypeError, ValueError):  # of other arms, or of a version that is not known
            continue
        if state.settings.question.separate_claims:  # without bounds, in the order of the claims
            won, bars, shown = (each.tolist() for each in evidence(state.settings, trial))
            then = {each.words: Point(*at) for each, *at in zip(now, won, bars, shown, strict=True)}
        else:
            then = {each.words: Point(*each[1:4]) for each in rule.claims(problem, trial, names)}
        for words in found.keys() & then.keys():
            found[words][int(entry.payload["round"])] = then[words]
    return tuple(
        EvidenceHistory(
            claim=words,
            rounds=tuple(steps),
            log_evidence=tuple(each.log_evidence for each in steps.values()),
            log_threshold=tuple(each.log_threshold for each in steps.values()),
            shown=bool(steps) and list(steps.values())[-1].shown,
            shown_at=_since([(number, each.shown) for number, each in steps.items()]),
        )
        for words, steps in found.items()
    )


def _since(steps: list[tuple[int, bool]]) -> int | None:
    """The round from which on a claim was shown all the time, if it is."""
    first = None
    for number, shown in reversed(steps):
        if not shown:
            break
        first = number
    return first
