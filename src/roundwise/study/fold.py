"""Fold a round: what a checkpoint holds, how a study continues from it, and a summary of its rounds.

A checkpoint has the wealth of every claim, the state that policy and rule need, the next plan, and the number of the
rules by which it was made. A reader continues from there: nothing before it is computed again. A version with other
rules keeps the wealth and makes its own bets from the next round on, which is exact, because each factor is an e-value
given the past (docs/why-the-guarantee-holds.md, Proposition 21).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Bools, Facts, Floats, Plain
from roundwise.ingest import Results, Sketch, Start, batch_of, merge_sketches, sketches_from
from roundwise.messages import FileNote
from roundwise.model.batch import Batch, BatchPlan, Record, Trial, budget_before
from roundwise.model.estimates import Past
from roundwise.model.problem import Problem
from roundwise.model.trial import advance, begin
from roundwise.noise.refutation import Held
from roundwise.policies.rounds import as_rounds
from roundwise.serialization import Unreadable, pack, unpack
from roundwise.study.amendments import Change, changed, first_arms
from roundwise.study.diagnostics import Agreement, Apart, Splits, agreement
from roundwise.study.events import Asked, of_arms
from roundwise.study.spec import StudySpec

SHORT = 16  # letters of a digest by which a file is known
STARTS = 100  # files whose rows are known again at the start of another
MOST = 30  # notes, and batches closed early, that are kept word by word


class Surplus(NamedTuple):
    """Results beyond what was asked for that were told after others of the same batch, which may have been seen."""

    batches: tuple[int, ...] = ()  # the first of those with such results
    asked: int = 0  # in all of those
    came: int = 0
    added: int = 0  # beyond what was asked for, after others

    def plus(self, asked: Asked) -> Surplus:
        """With one more batch."""
        added = asked.added
        if not added:
            return self
        asked_for, came = self.asked + int(asked.pulls.sum()), self.came + int(asked.counts.sum())
        return Surplus((*self.batches, asked.number)[:MOST], asked_for, came, self.added + added)

    @classmethod
    def from_payload(cls, payload: Plain) -> Surplus:
        """What the payload was made of."""
        batches, asked, came, added = payload
        return cls(tuple(int(each) for each in batches), int(asked), int(came), int(added))


class Late(NamedTuple):
    """What came back of an arm after the decision."""

    results: float
    total: float


@dataclass(frozen=True)
class SoFar:
    """Facts about the batches that count."""

    batches: int = 0  # the number of the last one that was folded
    files: int = 0  # ever recorded, also those that were corrected or withdrawn
    short: tuple[Facts, ...] = ()  # batches closed although results were missing
    more_short: int = 0  # and so many more
    notes: tuple[FileNote, ...] = ()
    sums_only: bool = False  # whether a file told no rows where the noise model has use for them
    other: str | None = None  # how a batch first came back otherwise than it was planned
    agreement: Agreement | None = None  # None if it cannot be read
    refolded: bool = False  # whether what earlier rules had won could not be read, and all was counted anew
    lost: Mapping[str, int] = field(default_factory=dict)  # results without an outcome, by the name of the arm
    contradicted: Mapping[str, int] = field(default_factory=dict)  # by digest: results that later files contradict
    starts: tuple[Start, ...] = ()  # the rows of the last files, as marks
    shared: bool = False  # whether several arms were tried on the same items
    sketches: Mapping[str, Sketch] = field(default_factory=dict)  # of columns that may identify units, by title
    surplus: Surplus = field(default_factory=Surplus)
    dealt: bool = False  # whether the order of rows decided which part each was dealt to, given the seed
    passed: tuple[int, ...] = ()  # batches that no decision has seen: counted anew, an earlier one decided
    late: Mapping[str, Late] = field(default_factory=dict)  # what they brought, by the name of the arm
    splits: Splits | None = field(default_factory=Splits)  # of rounds that are a number of results; None: unknown

    def plus(self, problem: Problem, names: tuple[str, ...], asked: Asked) -> SoFar:
        """With one more batch."""
        found = replace(
            self,
            batches=asked.number,
            notes=with_notes(self.notes, asked),
            sums_only=self.sums_only or sums_only(asked),
            other=self.other or other_than_planned(asked),
            lost=with_lost(self.lost, asked),
            contradicted=with_contradicted(self.contradicted, asked.files),
            starts=(*self.starts, *(each.start for each in asked.files if each.start is not None))[-STARTS:],
            shared=self.shared or shares_items(asked),
            sketches=with_sketches(self.sketches, asked),
            surplus=self.surplus.plus(asked),
            dealt=self.dealt or deals_rows(asked),
            splits=None if self.splits is None else with_split(self.splits, asked),
        )
        if self.agreement is not None:
            batch = of_arms(asked.whole, asked.arms, names)
            found = replace(found, agreement=agreement(problem, self.agreement, batch, asked.number))
        if not asked.short:
            return found
        if len(self.short) >= MOST:
            return replace(found, more_short=self.more_short + 1)
        return replace(found, short=(*self.short, shortfall(asked)))

    def passing(self, problem: Problem, names: tuple[str, ...], asked: Asked) -> SoFar:
        """With a batch that came after the one that decides: its facts are kept, and the decision has not seen it."""
        found, batch, late = self.plus(problem, names, asked), asked.whole, dict(self.late)
        for arm, results, total in zip(asked.arms, batch.counts.tolist(), batch.totals.tolist(), strict=True):
            before = late.get(arm, Late(0.0, 0.0))
            late[arm] = Late(before.results + results, before.total + total)
        return replace(
            found,
            batches=self.batches,
            other=self.other,
            agreement=self.agreement,
            sketches=self.sketches,
            surplus=self.surplus,
            dealt=self.dealt,
            passed=(*self.passed, asked.number),
            late=late,
            splits=self.splits,
        )

    def payload(self) -> Plain:
        """The facts as JSON."""
        return {
            "batches": self.batches,
            "files": self.files,
            "short": [dict(each) for each in self.short],
            "more_short": self.more_short,
            "notes": [each.values() for each in self.notes],
            "sums_only": self.sums_only,
            "other": self.other,
            "agreement": pack(self.agreement),
            "refolded": self.refolded,
            **({"lost": dict(self.lost)} if self.lost else {}),
            **({"contradicted": dict(self.contradicted)} if self.contradicted else {}),
            **({"starts": [list(each) for each in self.starts]} if self.starts else {}),
            "shared": self.shared,
            **({"sketches": {title: each.payload() for title, each in self.sketches.items()}} if self.sketches else {}),
            **({"surplus": list(self.surplus)} if self.surplus.added else {}),
            **({"dealt": True} if self.dealt else {}),
            **(
                {"passed": list(self.passed), "late": {arm: list(each) for arm, each in self.late.items()}}
                if self.passed
                else {}
            ),
            **({} if self.splits is None else {"splits": list(self.splits)}),
        }

    @classmethod
    def from_payload(cls, payload: Facts) -> SoFar:
        """The facts that `payload` was made of."""
        try:
            kept = _agreement(payload["agreement"])
        except Unreadable:
            kept = None
        return cls(
            int(payload["batches"]),
            int(payload["files"]),
            tuple(having(each, ("batch", "came", "asked", "missing", "why")) for each in payload["short"]),
            int(payload["more_short"]),
            tuple(map(FileNote.from_values, payload["notes"])),
            bool(payload["sums_only"]),
            payload["other"],
            kept,
            bool(payload["refolded"]),
            {str(arm): int(number) for arm, number in payload.get("lost", {}).items()},
            {str(digest): int(number) for digest, number in payload.get("contradicted", {}).items()},
            tuple(Start(int(rows), str(mark)) for rows, mark, *_ in payload.get("starts", ())),
            bool(payload["shared"]),
            sketches_from(payload.get("sketches", {})),
            Surplus.from_payload(payload["surplus"]) if "surplus" in payload else Surplus(),
            bool(payload.get("dealt", False)),
            tuple(int(number) for number in payload.get("passed", ())),
            {str(arm): Late(*map(float, each)) for arm, each in payload.get("late", {}).items()},
            _splits(payload),
        )


def having(entry: Mapping[str, object], keys: Sequence[str]) -> Plain:
    """An entry of JSON that has these keys; an error if it does not."""
    return {**entry, **{key: entry[key] for key in keys}}


def _splits(payload: Facts) -> Splits | None:
    if "splits" not in payload:
        return None
    square, freedom, asked = payload["splits"]
    return Splits(float(square), int(freedom), tuple(float(each) for each in asked))


def _agreement(written: object) -> Agreement:
    """The agreement that was packed; `Unreadable` if it is none."""
    kept = unpack(Agreement, written)
    try:
        kept = kept._replace(shifted=Apart(*kept.shifted), plain=Apart(*kept.plain))
        numbers = all(type(each) in (int, float) for each in (*kept.shifted, *kept.plain))
        if numbers and well_formed(kept.sums) and well_formed(kept.used) and _held_well(kept.held, kept.sums):
            return kept
    except (AttributeError, TypeError):
        pass
    raise Unreadable("no agreement")


def _held_well(held: Held | None, sums: Past) -> bool:
    """Whether what was read as the means that are left is that, of as many arms."""
    if held is None:
        return True
    arrays, numbers = held[:7], held[7:]
    shaped = all(isinstance(each, np.ndarray) and each.shape == sums.counts.shape for each in arrays)
    return shaped and all(type(each) in (int, float) for each in numbers)


def well_formed(past: Past) -> bool:
    """Whether what was read as a past is one: sums, and batches one by one, of one number of arms."""
    pairs = past.history
    if not isinstance(pairs, tuple) or not all(isinstance(each, tuple) and len(each) == 2 for each in pairs):
        return False
    arrays = [*past[:4], *(one for each in pairs for one in each)]
    if past.earlier is not None:
        if not isinstance(past.earlier.batches, int):
            return False
        arrays += [past.earlier.right, past.earlier.first, np.diagonal(past.earlier.system)]
    if past.pairs is not None:
        both = np.shape(past.pairs.counts)
        if past.pairs.history or both != (np.size(past.counts) ** 2,) or not well_formed(past.pairs):
            return False
    return all(isinstance(each, np.ndarray) and each.shape == np.shape(past.counts) for each in arrays)


def shortfall(asked: Asked) -> Plain:
    """How short a batch was closed."""
    return {
        "batch": asked.number,
        "came": int(asked.counts.sum()),
        "asked": int(asked.pulls.sum()),
        "missing": asked.missing,
        "why": asked.closed_early,
    }


def with_lost(lost: Mapping[str, int], asked: Asked) -> dict[str, int]:
    """The results without an outcome with those of a batch."""
    found = dict(lost)
    for arm, number in zip(asked.arms, asked.lost.tolist(), strict=True):
        if number:
            found[arm] = found.get(arm, 0) + int(number)
    return found


def with_split(splits: Splits, asked: Asked) -> Splits:
    """How rounds were split with one more, if that is a number of results."""
    return splits.plus(asked.pulls, asked.counts + asked.lost) if asked.by_number else splits


def with_contradicted(known: Mapping[str, int], files: Sequence[Results]) -> dict[str, int]:
    """How many results of each file later ones contradict, with some more of those: the same ones come again."""
    found = dict(known)
    for each in files:
        for source in [] if each.contradicted is None else each.contradicted.files:
            key = source.digest[:SHORT]
            found[key] = max(found.get(key, 0), source.rows)
    return found


def with_sketches(sketches: Mapping[str, Sketch], asked: Asked) -> dict[str, Sketch]:
    """The sketches with those of the files of a batch."""
    return reduce(merge_sketches, (each.sketches for each in asked.files), dict(sketches))


def deals_rows(asked: Asked) -> bool:
    """Whether rows are dealt into parts by their places; sums, and what they say as much as, are not."""
    return any(each.lots is not None and each.parts > 1 for each in asked.files)


def with_notes(notes: tuple[FileNote, ...], asked: Asked) -> tuple[FileNote, ...]:
    """The notes with those of the files of a batch, each once; of too many the first of a kind that came again go."""
    found = list(dict.fromkeys((*notes, *(note for each in asked.files for note in each.notes))))
    kinds = Counter(each.kind for each in found)
    for note in found[:]:
        if len(found) > MOST and kinds[note.kind] > 1:
            kinds[note.kind] -= 1
            found.remove(note)
    return tuple(found[:MOST])


def sums_only(asked: Asked) -> bool:
    """Whether some file told no rows."""
    return any(each.values is None for each in asked.files)


def shares_items(asked: Asked) -> bool:
    """Whether some item stands in several rows: arms that were tried on the same one."""
    items = [each.lots.items for each in asked.files if each.lots is not None and each.lots.items is not None]
    if not items:
        return False
    every = np.concatenate(items)
    return len(np.unique(every)) < len(every)


def other_than_planned(asked: Asked) -> str | None:
    """How a batch came back otherwise than it was planned, in words; None if it did not."""
    planned, came = asked.pulls if asked.planned is None else asked.planned, asked.counts
    if (planned == came).all():
        return None
    how = "less" if (came <= planned).all() else "more" if (came >= planned).all() else "other results"
    return f"round {asked.number} brought {how} than was planned"


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
