"""Counting a batch: what the entry `counted` holds, and how a study goes on from it.

The entry has what was won on every claim, the state that policy and rule need, the next plan, and the number of the
rules by which it was made. Whoever reads it goes on from there: nothing before it is computed again. A version with
other rules carries on what was won and makes its own bets from the next batch on, which is exact, because each factor
is an e-value given the past (docs/why-the-guarantee-holds.md, Proposition 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Bools, Facts, Floats, Plain
from roundwise.ingest import Results, batch_of
from roundwise.model.batch import Batch, BatchPlan, Record, Trial, budget_before
from roundwise.model.estimates import Past
from roundwise.model.trial import advance, begin
from roundwise.policies.rounds import as_rounds
from roundwise.serialization import Unreadable, pack, unpack
from roundwise.study.arm_changes import Change, changed, first_arms
from roundwise.study.diagnostics import Agreement, agreement
from roundwise.study.rounds import Asked, of_arms
from roundwise.study.spec import StudySpec
from roundwise.study.summary import SoFar, well_formed


def started(settings: StudySpec, taught: Sequence[tuple[tuple[str, ...], Results]] = ()) -> Trial:
    """The trial before its first batch; earlier data `taught` are known, and are no evidence (Proposition 24)."""
    trial = begin(settings.problem, settings.acting)
    for names, results in taught:
        batch = of_arms(batch_of([results]), names, settings.arms)._replace(parts=None, table=None)
        trial = learned(settings, trial, batch)
    return _fed(settings, trial) if taught else trial


def learned(settings: StudySpec, trial: Trial, batch: Batch) -> Trial:
    """The trial with a past that is known but not bet on."""
    rule = settings.policy.stopping
    return trial._replace(kept=rule.warm_start(settings.problem, trial.kept, batch, budget_before(trial.plan)))


def _fed(settings: StudySpec, trial: Trial) -> Trial:
    """With a first batch for what can be expected of a budget; if that is nothing, for all: results are to say so."""
    left = budget_before(trial.plan)
    if left is None or not settings.policy.stopping.uses_budget:
        return trial
    plan = settings.acting.next(settings.problem, trial._replace(plan=trial.plan._replace(left=left)))
    return trial._replace(plan=plan._replace(parts=trial.plan.parts)) if plan.pulls.any() else trial


def begun(settings: StudySpec) -> SoFar:
    """No batch yet."""
    return SoFar(agreement=Agreement.none(len(settings.arms)))


def counted(settings: StudySpec, trial: Trial, so_far: SoFar, asked: Asked) -> tuple[Trial, SoFar]:
    """The trial and the facts after one more batch."""
    problem = settings.problem
    batch = of_arms(asked.batch, asked.arms, settings.arms)
    after = advance(problem, settings.acting, as_asked(settings, trial, asked), batch)
    return after, so_far.plus(problem, settings.arms, asked)


def folded(
    first: StudySpec,
    rounds: Sequence[Asked],
    changes: Sequence[Change] = (),
    taught: Sequence[tuple[tuple[str, ...], Results]] = (),
    budget: int | None = None,
) -> tuple[StudySpec, Trial, SoFar]:
    """All batches that are complete, counted by the present rules, with every change at its place.

    Each is bet on with the budget that was said before its results; after the last, `budget` is what is said now. What
    comes after the batch that decides is kept as that, also if it was asked for before all was counted anew.
    """
    seen: list[Asked] = []
    settings = first_arms(first, changes)
    trial, so_far = started(settings, taught), begun(settings)
    gone = {each.arm for each in changes if each.unrelated and each.kind == "dropped"}
    waiting = [each for each in changes if not each.unrelated and each.arm not in gone]
    for asked in rounds:
        while waiting and waiting[0].after < asked.number:
            settings, trial = changed(settings, trial, waiting.pop(0), past_of(seen))
            so_far = replace(so_far, agreement=agreed(settings, seen))
        if asked.complete and asked.budget != settings.budget:
            settings, trial = extended(settings, trial, asked.budget)
        if asked.complete and trial.done:
            so_far = so_far.passing(settings.problem, settings.arms, asked)
        elif asked.complete:
            trial, so_far = counted(settings, trial, so_far, asked)
            seen.append(asked)
    for each in waiting:
        settings, trial = changed(settings, trial, each, past_of(seen))
        so_far = replace(so_far, agreement=agreed(settings, seen))
    if budget != settings.budget:
        settings, trial = extended(settings, trial, budget)
    return settings, trial, so_far


def past_of(rounds: Sequence[Asked]) -> Sequence[tuple[tuple[str, ...], Batch]]:
    """The batches with the names of their arms."""
    return [(asked.arms, asked.batch) for asked in rounds]


def agreed(settings: StudySpec, rounds: Sequence[Asked]) -> Agreement:
    """How the batches agree, for the arms there are now."""
    found = Agreement.none(len(settings.arms))
    for asked in rounds:
        found = agreement(settings.problem, found, of_arms(asked.whole, asked.arms, settings.arms), asked.number)
    return found


def extended(
    settings: StudySpec, trial: Trial, budget: int | None, open_: Asked | None = None
) -> tuple[StudySpec, Trial]:
    """The study with another budget: its next plan kept within it, or what follows for a batch that is asked for.

    A rule that looks ahead goes on with what it has, also where the budget had ended it (Proposition 18, 6).
    """
    settings = replace(settings, budget=budget)
    problem, rule, acting = settings.problem, settings.policy.stopping, settings.acting
    rounds = as_rounds(acting)
    if budget is None or rounds is not acting:
        return settings, trial
    if rule.uses_budget and trial.record.samples > 0:
        left = np.maximum(budget - trial.record.samples, 0.0)
        trial = trial._replace(kept=rule.with_budget(problem, trial.kept, left), plan=trial.plan._replace(left=left))
        trial = trial._replace(plan=rounds.next(problem, trial), done=np.asarray(False))
        if open_ is None:
            return settings, trial._replace(done=rule.stops(problem, trial))
    else:
        trial = trial._replace(plan=rounds.again(trial.plan, trial.record))
    return settings, trial if open_ is None else as_asked(settings, trial, open_)


def as_asked(settings: StudySpec, trial: Trial, asked: Asked) -> Trial:
    """The trial whose next plan is what was asked for, with the budget that was said before its results."""
    if asked.budget is None:
        return trial
    rounds = as_rounds(replace(settings, budget=asked.budget).acting)
    pulls = of_arms(Batch(asked.pulls, asked.pulls), asked.arms, settings.arms).counts
    return trial._replace(plan=rounds.asked(trial.plan, trial.record, pulls))


def entry(settings: StudySpec, trial: Trial, so_far: SoFar, extra: Facts) -> Plain:
    """What is recorded when a batch counts; `extra` are the facts of the study that are not about batches."""
    won, bars, shown = evidence(settings, trial)
    rule, problem = settings.policy.stopping, settings.problem
    return {
        "batch": so_far.batches,
        "rules": RULES,
        "claims": {
            "log_e": pack(won),
            "log_bar": pack(bars),
            "shown": pack(shown),
        },
        "plan": pack(trial.plan.pulls),
        "state": {
            "record": pack(trial.record),
            "rule": {"kind": rule.state_tag(problem), "saved": pack(rule.save(problem, trial.kept))},
            "plan": pack(trial.plan),
            "done": bool(trial.done),
        },
        "so_far": so_far.payload(),
        **extra,
    }


def evidence(settings: StudySpec, trial: Trial) -> tuple[Floats, Floats, Bools]:
    """log of what was won for each claim, of what it must reach, and whether it is shown."""
    return settings.policy.stopping.evidence(settings.problem, trial, settings.arms)


def restored(settings: StudySpec, payload: Facts) -> Trial:
    """The trial after a counted batch; `Unreadable` where this version does not know what it holds."""
    problem, arms = settings.problem, (len(settings.arms),)
    try:
        state = payload["state"]
        record = unpack(Record, state["record"])
        plan = unpack(BatchPlan, state["plan"], settings.acting.first(problem, ()))
        _check_shapes(arms, record.counts, record.totals, plan.pulls)
        _check_shapes((), record.batches, plan.may_stop)
        if not (np.isfinite(record.counts).all() and np.isfinite(record.totals).all() and np.isfinite(record.batches)):
            raise Unreadable("numbers that are not finite")
        kept = _restored_rule(settings, state["rule"])
        nothing = np.zeros(arms)
        return Trial(record, Batch(nothing, nothing), plan, kept, np.asarray(bool(state["done"])))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(repr(error)) from None


def _restored_rule(settings: StudySpec, written: Any) -> Any:
    """The state of the rule; it continues with the wealth so far also where other rules earned it."""
    problem, rule = settings.problem, settings.policy.stopping
    if written["kind"] != rule.state_tag(problem):
        raise Unreadable(f"the state of another rule ({written['kind']})")
    like = rule.save(problem, rule.start(problem, ()))
    if like is None:
        return None
    saved = unpack(type(like), written["saved"], like)
    _check_alike(saved, like)
    return rule.restore(problem, saved)


def _check_shapes(shape: tuple[int, ...], *arrays: Floats | Bools) -> None:
    if any(np.shape(each) != shape for each in arrays):
        raise Unreadable("arrays of another shape")


def _check_alike(found: Any, like: Any) -> None:
    """Raise unless a tree has the dtypes and last axes of another, and every past in it makes sense."""
    if isinstance(found, Past):
        if not well_formed(found) or (isinstance(like, Past) and found.counts.shape != like.counts.shape):
            raise Unreadable("no past")
    elif isinstance(like, tuple) and hasattr(like, "_fields"):
        for one, other in zip(found, like, strict=True):
            _check_alike(one, other)
    elif isinstance(like, np.ndarray | np.generic):
        fits = isinstance(found, np.ndarray | np.generic) and found.dtype == like.dtype
        if not fits or np.shape(found)[-1:] != np.shape(like)[-1:]:
            raise Unreadable("arrays of another shape")
