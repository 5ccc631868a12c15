"""Changes of a running study that keep a guarantee: arms that leave or join, and a relaxed noise model.

If the reason is unrelated to any result, the study is what it would have been with the other list of arms from
the beginning: all batches are recomputed. If it may have, what was won is carried on by the rules of
docs/why-the-guarantee-holds.md (Propositions 22 and 23), which exist for some questions only. A study whose rows
contradict its noise model may continue as large-sample, once, with nothing won (Proposition 34).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from roundwise.arrays import Facts, Floats, Plain
from roundwise.errors import InputError
from roundwise.ingest import of_arms
from roundwise.messages import Remedy
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import Trial, begin, budget_before
from roundwise.noise import LargeSample
from roundwise.rules.eprocess.claim_bounds import ClaimState, claims_of
from roundwise.rules.eprocess.claims import ClosedTestingRule, left_out, with_claims
from roundwise.study.spec import StudySpec, arm_names

Batches = Sequence[tuple[tuple[str, ...], Batch]]  # with the names of their arms


@dataclass(frozen=True)
class Change:
    """An arm that left or joined, or the noise model that was given up."""

    kind: Literal["dropped", "added", "relaxed"]
    arm: str  # empty where the noise model changed
    why: str
    unrelated: bool  # whether the reason is unrelated to any result
    after: int  # the number of the last batch before it

    def payload(self) -> Plain:
        """The change as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_payload(cls, payload: Facts) -> Change:
        """The change that `payload` was made of."""
        kind = payload["kind"]
        if kind not in ("dropped", "added", "relaxed"):
            raise ValueError(f"no change {kind!r}")
        return cls(kind, str(payload["arm"]), str(payload["why"]), bool(payload["unrelated"]), int(payload["after"]))


def first_arms(first: StudySpec, changes: Sequence[Change]) -> StudySpec:
    """The spec as they would have been, had all changes for unrelated reasons been made at the beginning."""
    spec = first
    for each in changes:
        if each.unrelated:
            spec = with_arms(spec, names_after(spec, each))
    return spec


def with_arms(spec: StudySpec, names: Sequence[str]) -> StudySpec:
    """The spec of a study of other arms; one that joins gets the smallest share of a fixed split."""
    found, split = arm_names(names), spec.split
    if split is not None:
        known = dict(zip(spec.arms, split, strict=True))
        least = min((each for each in split if each > 0), default=1.0)
        split = tuple(known.get(name, least) for name in found)
    question = spec.question
    if question.separate_claims and len(found) > len(spec.arms):
        question = claims_of(spec.problem).with_arm(found)
    prices = spec.prices
    if prices is not None:  # an arm that joins costs as much as the others do on average
        known, mean = dict(zip(spec.arms, prices, strict=True)), sum(prices) / len(prices)
        prices = tuple(known.get(name, mean) for name in found)
    others = {theirs: arm for theirs, arm in spec.reading.arm_names.items() if arm in found}
    reading = dataclasses.replace(spec.reading, arm_names=others)
    return dataclasses.replace(spec, question=question, arms=found, split=split, prices=prices, reading=reading)


def check_change(spec: StudySpec, change: Change) -> None:
    """Raise an InputError with one sentence where a change cannot keep the guarantee, or makes no sense."""
    question = spec.question
    if change.kind == "dropped" and change.arm not in spec.arms:
        raise InputError(f"There is no arm '{change.arm}': there are {', '.join(spec.arms)}. Nothing was changed.")
    if change.kind == "added" and change.arm in spec.arms:
        raise InputError(f"There is an arm '{change.arm}' already. Nothing was changed.")
    claims, rule = question.separate_claims, spec.policy.stopping
    if claims and isinstance(rule, ClosedTestingRule):
        if change.kind == "added":  # against a control
            with_arms(spec, names_after(spec, change))
        elif change.arm in spec.left_out:
            raise InputError(f"{change.arm} is left out already. Nothing was changed.")
        elif (claims_of(spec.problem).forms[:, spec.arms.index(change.arm)] != 0).all():
            raise InputError(
                f"Every claim compares with {change.arm}: without it nothing can be shown. Nothing was changed; close "
                "the study, if it is to end."
            )
        return
    if claims or not rule.migrates:
        raise InputError(
            f"The arms of a study with the policy {spec.policy.name} are fixed: its rule is proved for all of them "
            "together. Nothing was changed; start a new study with the other arms."
        )
    if not question.accepts_arm_changes:
        raise InputError(
            f"The arms of the question '{question.name}' are fixed, because it speaks of them. Nothing was changed.",
            Remedy("Create a study with the other arms, and give it the earlier data with {@import_past}."),
        )
    if not change.unrelated and spec.list is not None:
        raise InputError(
            "On a list an arm may leave or join only for a reason that is unrelated to any result: one that falls "
            "behind is ruled out by the study itself. Nothing was changed.",
            Remedy("Use {@unrelated} if that is so."),
        )
    if not change.unrelated and rule.effect_of_change(spec.problem, change.kind == "dropped") is None:
        what = "left out" if change.kind == "dropped" else "added"
        raise InputError(
            f"No rule is proved by which an arm may be {what} because of results where the question is "
            f"'{question.name}'. Nothing was changed.",
            Remedy(
                "If the reason is unrelated to any result, use {@unrelated}; otherwise create a study, and give it the "
                "earlier data with {@import_past}."
            ),
        )
    with_arms(spec, names_after(spec, change))  # too few arms, or a name that cannot be one


def effect_of_change(spec: StudySpec, change: Change) -> str:
    """The effect of a change on the guarantee, in one sentence."""
    check_change(spec, change)
    arm = change.arm
    if spec.question.separate_claims and change.kind == "added" and not change.unrelated:
        return (
            f"The guarantee is kept: the claim of {arm} starts with the least that any open claim has, and what was "
            "shown stays shown."
        )
    if spec.question.separate_claims and change.kind == "dropped":
        return (
            f"This keeps the guarantee: nothing more is asked of {arm}, its claims stay open as they are, and what was "
            "shown stays shown."
        )
    if change.unrelated:
        joined = "had never been there" if change.kind == "dropped" else "had been there from the beginning"
        return (
            f"All rounds are recounted as if {arm} {joined}; the guarantee then rests on the assumption that the "
            "reason is unrelated to any result."
        )
    said = spec.policy.stopping.effect_of_change(spec.problem, change.kind == "dropped")
    assert said is not None  # it was checked
    return "This keeps the guarantee" + said.format(arm=arm)


def apply_change(spec: StudySpec, trial: Trial, change: Change, batches: Batches) -> tuple[StudySpec, Trial]:
    """The study after a change that may have to do with results; `batches` are those that were counted."""
    check_change(spec, change)
    if spec.question.separate_claims:
        if change.kind == "added":
            return _with_claim(spec, trial, change)
        return _without_arm(spec, trial, change)
    after = with_arms(spec, names_after(spec, change))
    problem, rule = after.problem, after.policy.stopping
    past, record = Past.none((problem.arms,)), begin(problem, after.acting).record
    for names, batch in batches:
        one = of_arms(batch, names, after.arms)
        past, record = past.plus(one), record.plus(one)
    dropped = spec.arms.index(change.arm) if change.kind == "dropped" else None
    kept = rule.migrate(spec.problem, problem, trial.kept, dropped, past)
    trial = begin(problem, after.acting)._replace(record=record, kept=kept)
    if record.samples > 0:
        trial = trial._replace(plan=after.acting.next(problem, trial))
    return after, trial._replace(done=rule.stops(problem, trial))


def _with_claim(spec: StudySpec, trial: Trial, change: Change) -> tuple[StudySpec, Trial]:
    """One claim more, with the smallest wealth that is open, at most 1 (Proposition 18)."""
    after = with_arms(spec, names_after(spec, change))
    problem, rule = after.problem, after.policy.stopping
    assert isinstance(rule, ClosedTestingRule)
    counts, totals = (np.append(each, 0.0) for each in (trial.record.counts, trial.record.totals))
    start = begin(problem, after.acting)
    left = budget_before(trial.plan)
    kept = with_claims(rule, spec.problem, trial.kept, problem, left=left)
    plan = start.plan._replace(left=left)
    trial = start._replace(record=trial.record._replace(counts=counts, totals=totals), kept=kept, plan=plan)
    if trial.record.samples > 0:
        trial = trial._replace(plan=after.acting.next(problem, trial))
    return after, trial._replace(done=rule.stops(problem, trial))


def _without_arm(spec: StudySpec, trial: Trial, change: Change) -> tuple[StudySpec, Trial]:
    """Drop an arm of claims: it is no longer sampled, and its claims stay in the sum as they are (Proposition 18)."""
    after = dataclasses.replace(spec, left_out=(*spec.left_out, change.arm))
    left = budget_before(trial.plan)
    trial = trial._replace(kept=_feed_others(after, trial.kept, left))
    if trial.record.samples > 0 and after.limited_policy.inner is after.limited_policy:
        pulled = trial._replace(plan=trial.plan._replace(left=left))
        trial = trial._replace(plan=after.acting.next(after.problem, pulled))
    return after, trial._replace(done=after.policy.stopping.stops(after.problem, trial))


def _feed_others(spec: StudySpec, kept: ClaimState, left: Floats | None) -> ClaimState:
    """The state in which dropped arms are no longer sampled."""
    rule = spec.policy.stopping
    assert isinstance(rule, ClosedTestingRule)
    return left_out(rule, spec.problem, kept, np.isin(spec.arms, spec.left_out), left)


def relaxed_spec(spec: StudySpec) -> StudySpec:
    """The study as large-sample; an InputError where it cannot be."""
    if spec.noise.approximation is not None:
        raise InputError("The noise model of this study is large-sample already. Nothing was changed.")
    if spec.metrics or spec.noise.shares_items or not spec.policy.stopping.learns:
        what = "compares arms on shared items" if spec.noise.shares_items else f"has the policy {spec.policy.name}"
        what = "has several metrics" if spec.metrics else what
        raise InputError(
            f"This study {what}, for which there is no large-sample rule. Nothing was changed.",
            Remedy("Create a study with {@large_sample} and its usual policy."),
        )
    return dataclasses.replace(spec, noise=LargeSample())


def relax_noise(spec: StudySpec, trial: Trial, batches: Batches) -> tuple[StudySpec, Trial]:
    """The study as large-sample: every arm is back, nothing is won, and `batches` are known (Proposition 34)."""
    after = relaxed_spec(spec)
    problem, rule, past = after.problem, after.policy.stopping, Past.none((len(after.arms),))
    for names, batch in batches:
        past = past.plus(of_arms(batch, names, after.arms))
    left = budget_before(trial.plan)
    kept = rule.restart(problem, past, left)
    if after.left_out:
        kept = _feed_others(after, kept, left)
    trial = trial._replace(kept=kept, plan=trial.plan._replace(left=left), done=np.asarray(False))
    trial = trial._replace(plan=after.acting.next(problem, trial))
    return after, trial._replace(done=rule.stops(problem, trial))


def names_after(spec: StudySpec, change: Change) -> list[str]:
    """The arms after a change."""
    if spec.question.separate_claims and change.kind == "dropped":
        return list(spec.arms)
    if change.kind == "dropped":
        return [name for name in spec.arms if name != change.arm]
    return [*spec.arms, change.arm]
