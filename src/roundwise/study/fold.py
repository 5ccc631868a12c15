"""Rounds of a study, their fold into a trial and a summary, and the checkpoint that holds both.

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
from typing import Any, NamedTuple, TypeVar

import numpy as np

from roundwise._version import RULES
from roundwise.arrays import Bools, Facts, Floats, Plain, Unreadable, pack, unpack
from roundwise.ingest import (
    FileStart,
    Results,
    ValueSketch,
    batch_of,
    merge_sketches,
    moments_of,
    of_arms,
    sketches_from,
    whole_of,
)
from roundwise.ingest.covariates import CovariateSummary
from roundwise.ingest.ratios import ArmRatio, Ratios, add_ratios
from roundwise.ingest.row_checks import RowChecks
from roundwise.messages import FileNote
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import BatchPlan, Record, Trial, advance, begin, budget_before
from roundwise.policies.base import apportion_pulls, as_rounds, round_of
from roundwise.rules.eprocess.bet_sizes import TABLES
from roundwise.study.amendments import Change, apply_change, first_arms, relax_noise
from roundwise.study.diagnostics import Agreement, Splits, update_agreement
from roundwise.study.spec import StudySpec

ArmResults = tuple[tuple[str, ...], Results]  # what a file brought, with the names of the arms at the time

SHORT = 16  # letters of a digest by which a file is known
STARTS = 100  # files whose rows are recognised at the start of another
MOST = 30  # notes, and rounds closed early, that are kept word by word


# --- rounds


@dataclass
class Round:
    """A round of a study: what was asked, what came back so far, and whether the rest was given up."""

    number: int  # from 1
    pulls: Floats  # (K)
    files: tuple[Results, ...] = ()  # the recorded files; changed by `set_files` alone
    closed_early: str | None = None  # why the rest will not come, in the user's words
    amended: bool = False  # it was complete when one of its files was corrected or withdrawn, and stays so
    counted: bool = False  # whether the decision has seen it
    arms: tuple[str, ...] = ()
    planned: Floats | None = None  # (K), the plan where the budget cut it short
    by_number: bool = False  # a fixed number of results: complete when they are there, whatever the split
    since: str = ""  # when it was asked for
    design: Plain | None = None  # of the study (`StudySpec.design`), as it was last set before any result of this round
    entries: Bools | None = None  # (places, K), of a list: what was asked for; None where only numbers are
    rows: Floats | None = None  # (n, K), of a list: recorded results, by place
    order: tuple[str, ...] = ()  # of a list: what each place is
    _batch: Batch | None = field(default=None, init=False, repr=False, compare=False)

    def set_files(self, files: Sequence[Results]) -> None:
        """Replace the recorded files."""
        self.files, self._batch = tuple(files), None

    @property
    def table(self) -> list[tuple[str, int]]:
        """The outstanding results: (arm, pulls) for every arm that lacks some."""
        return [(arm, int(n)) for arm, n in zip(self.arms, self.outstanding, strict=True) if n > 0]

    @property
    def counts(self) -> Floats:
        """Results with an outcome, for each arm."""
        return np.sum([each.counts for each in self.files], axis=0) if self.files else np.zeros_like(self.pulls)

    @property
    def results(self) -> int:
        """Results with an outcome, of all arms."""
        return int(self.counts.sum())

    @property
    def lost(self) -> Floats:
        """Results without an outcome, for each arm."""
        return sum((each.missing for each in self.files if each.missing is not None), np.zeros_like(self.pulls))

    @property
    def outstanding(self) -> Floats:
        """Results still to come, for each arm."""
        if self.closed_early is not None or self.amended:
            return np.zeros_like(self.pulls)
        if self.entries is not None:
            return np.asarray(self.lacking.sum(axis=0, dtype=np.float64))
        came = self.counts + self.lost
        missing = np.maximum(self.pulls - came, 0.0)
        return (
            apportion_pulls(missing, max(float(self.pulls.sum() - came.sum()), 0.0), 0.0) if self.by_number else missing
        )

    @property
    def lacking(self) -> Bools:
        """For a list, the entries that were asked for and not recorded yet. (places, K)"""
        assert self.entries is not None
        found = self.entries.copy()
        if self.rows is not None:
            there = ~np.isnan(self.rows[: len(found)])
            found[: len(there)] &= ~there
        return found

    @property
    def items(self) -> dict[str, list[str]]:
        """Of a list, what is still to be done: for each arm the items to try it on, in the order of the list."""
        if self.entries is None:
            return {}
        lacking = self.lacking
        return {
            arm: [self.order[place] for place in np.flatnonzero(lacking[:, i])]
            for i, arm in enumerate(self.arms)
            if lacking[:, i].any()
        }

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        if self.by_number and self.closed_early is None and not self.amended:
            return bool((self.counts + self.lost).sum() >= self.pulls.sum())
        return not self.outstanding.any()

    @property
    def short(self) -> bool:
        """Whether it was closed although results were missing."""
        return self.closed_early is not None and self._beyond(self.pulls, self.counts) > 0

    @property
    def missing(self) -> int:
        """Results that were asked for and never came."""
        return int(self._beyond(self.pulls, self.counts))

    @property
    def added(self) -> int:
        """Surplus results recorded in a later call, when earlier ones may be known."""
        came, before, found = np.zeros_like(self.pulls), np.zeros_like(self.pulls), 0.0
        for each in self.files:
            before = before if each.same_call else came
            after = came + each.counts + (0.0 if each.missing is None else each.missing)
            if before.any():
                found += self._beyond(after, self.pulls) - self._beyond(came, self.pulls)
            came = after
        return int(found)

    def _beyond(self, some: Floats, others: Floats) -> float:
        if self.by_number:
            return max(float(some.sum() - others.sum()), 0.0)
        return float(np.maximum(some - others, 0.0).sum())

    @property
    def batch(self) -> Batch:
        """The results as one batch in random parts; computed once."""
        if self._batch is None:
            self._batch = batch_of(self.files, self.number) if self.files else self.whole
        return self._batch

    @property
    def whole(self) -> Batch:
        """The results as one batch without parts: for everything but bets."""
        if self._batch is not None:
            return self._batch._replace(parts=None)
        nothing = np.zeros_like(self.pulls)
        return whole_of(self.files) if self.files else Batch(nothing, nothing)

    def of_metric(self, metric: int) -> Round:
        """The same round by one of the further metrics; what is complete stays so."""
        files = tuple(each.metrics[metric] for each in self.files)
        return replace(self, files=files, amended=self.amended or self.complete)

    def payload(self) -> Plain:
        """The round as JSON."""
        return {
            "number": self.number,
            "pulls": [int(each) for each in self.pulls],
            "files": [each.payload() for each in self.files],
            "closed_early": self.closed_early,
            "amended": self.amended,
            "planned": None if self.planned is None else [int(each) for each in self.planned],
            "by_number": self.by_number,
            "asked_at": self.since,
            "design": self.design,
        }

    @classmethod
    def from_payload(cls, payload: Facts, arms: tuple[str, ...]) -> Round:
        """The round that `payload` was made of."""
        return cls(
            int(payload["number"]),
            read_pulls(payload["pulls"], len(arms)),
            tuple(Results.from_payload(each) for each in payload["files"]),
            payload["closed_early"],
            bool(payload["amended"]),
            arms=arms,
            planned=None if payload["planned"] is None else read_pulls(payload["planned"], len(arms)),
            by_number=bool(payload["by_number"]),
            since=str(payload["asked_at"]),
            design=payload["design"],
        )


def read_pulls(written: object, arms: int) -> Floats:
    """Pulls from JSON, one for each arm; a ValueError if they are something else."""
    pulls = np.asarray(written, dtype=np.float64)
    if pulls.shape != (arms,) or not np.isfinite(pulls).all() or (pulls < 0).any():
        raise ValueError(f"pulls of {arms} arms are needed")
    return pulls


# --- summaries


class Surplus(NamedTuple):
    """Surplus results recorded after others of the same round, which may have been seen."""

    rounds: tuple[int, ...] = ()  # the first of those with such results
    asked: int = 0  # in all of those
    returned: int = 0
    added: int = 0  # beyond the plan, after others

    def plus(self, round: Round) -> Surplus:
        """With one more round."""
        if not (added := round.added):
            return self
        asked, returned = self.asked + int(round.pulls.sum()), self.returned + round.results
        return Surplus((*self.rounds, round.number)[:MOST], asked, returned, self.added + added)


class ArmTotal(NamedTuple):
    """Results of an arm, and what they, or their costs, add up to."""

    results: float = 0.0
    total: float = 0.0


OfArm = TypeVar("OfArm", ArmTotal, ArmRatio)


@dataclass(frozen=True)
class StudySummary:
    """Facts about the rounds so far: few, however many rounds there were."""

    rounds: int = 0  # the number of the last one that was folded
    files: int = 0  # ever recorded, also those that were corrected or withdrawn
    last_file: str | None = None  # the name of the last one that counts
    closed_early: tuple[Facts, ...] = ()  # rounds closed although results were missing
    more_closed_early: int = 0  # beyond the ones that are kept
    notes: tuple[FileNote, ...] = ()
    sums_only: bool = False  # whether a file had sums where the noise model could use rows
    deviation: str | None = None  # how a round first differed from its plan
    agreement: Agreement | None = None  # None if it cannot be read
    refolded: bool = False  # whether the wealth of earlier rules could not be read, and all was folded anew
    missing: Mapping[str, int] = field(default_factory=dict)  # results without an outcome, by the name of the arm
    contradicted: Mapping[str, int] = field(default_factory=dict)  # by digest: results that later files contradict
    starts: tuple[FileStart, ...] = ()  # the rows of the last files, as marks
    shared_items: bool = False  # whether several arms were tried on the same items
    sketches: Mapping[str, ValueSketch] = field(default_factory=dict)  # of columns that may identify units, by title
    surplus: Surplus = field(default_factory=Surplus)
    partitioned_rows: bool = False  # whether row order decided the part of each row, given the seed
    late_rounds: tuple[int, ...] = ()  # rounds that no decision has seen: folded anew, an earlier one decided
    late_sums: Mapping[str, ArmTotal] = field(default_factory=dict)  # what they brought, by the name of the arm
    splits: Splits = field(default_factory=Splits)  # of rounds that are a number of results
    covariate: CovariateSummary = field(default_factory=CovariateSummary)
    costs: Mapping[str, ArmTotal] = field(default_factory=dict)  # what results cost, by the name of the arm
    cost_units: tuple[str, ...] = ()  # in which it was recorded
    ratios: Ratios = field(default_factory=dict)  # what numerators and denominators add up to
    row_checks: RowChecks = field(default_factory=lambda: RowChecks.none(0))
    metrics: tuple[StudySummary, ...] = ()  # of the same rounds by each further metric

    def plus(self, round: Round, late: bool = False) -> StudySummary:
        """With what the files of one more round brought; the decision has not seen it if it is `late`."""
        files, lost, contradicted = round.files, dict(self.missing), self.contradicted
        for arm, number in zip(round.arms, round.lost.tolist(), strict=True):
            if number:
                lost[arm] = lost.get(arm, 0) + int(number)
        costs, units = dict(self.costs), set(self.cost_units)
        for each in files:
            contradicted = with_contradicted(contradicted, each)
            if each.costs is not None:
                units.add(each.costs.unit)
                for arm, counts, total in zip(round.arms, each.costs.counts, each.costs.totals, strict=True):
                    before = costs.get(arm, ArmTotal())
                    costs[arm] = ArmTotal(before.results + float(counts), before.total + float(total))
        strata = [each.strata for each in files if each.strata is not None]
        items = [each.items for each in strata if each.items is not None]
        repeated = bool(items) and len(np.unique(np.concatenate(items))) < sum(map(len, items))
        found = replace(
            self,
            last_file=files[-1].name if files else self.last_file,
            notes=_few_notes((*self.notes, *(note for each in files for note in each.notes))),
            sums_only=self.sums_only or any(each.values is None for each in files),
            missing=lost,
            contradicted=contradicted,
            costs=costs,
            cost_units=tuple(sorted(units)),
            starts=(*self.starts, *(each.start for each in files if each.start is not None))[-STARTS:],
            shared_items=self.shared_items or repeated,
            metrics=tuple(each.plus(round.of_metric(m), late) for m, each in enumerate(self.metrics)),
        )
        if round.short and len(self.closed_early) >= MOST:
            found = replace(found, more_closed_early=self.more_closed_early + 1)
        elif round.short:
            numbers = {"missing": round.missing, "asked": int(round.pulls.sum())}
            found = replace(
                found, closed_early=(*self.closed_early, {"round": round.number, **numbers, "why": round.closed_early})
            )
        if late:
            sums, batch = dict(self.late_sums), round.whole
            for arm, results, total in zip(round.arms, batch.counts.tolist(), batch.totals.tolist(), strict=True):
                before = sums.get(arm, ArmTotal())
                sums[arm] = ArmTotal(before.results + results, before.total + total)
            return replace(found, late_rounds=(*self.late_rounds, round.number), late_sums=sums)
        return replace(
            found,
            sketches=reduce(merge_sketches, (each.sketches for each in files), dict(self.sketches)),
            surplus=self.surplus.plus(round),
            partitioned_rows=self.partitioned_rows or any(each.strata and each.parts > 1 for each in files),
        )

    def mean_costs(self, arms: Sequence[str]) -> Floats | None:
        """The mean cost of a result of each arm; None unless all are known, in one unit. (K)"""
        known = [self.costs.get(arm, ArmTotal()) for arm in arms]
        if len(self.cost_units) != 1 or not all(each.results for each in known):
            return None
        return np.array([each.total / each.results for each in known])

    def folded(self, spec: StudySpec, round: Round) -> StudySummary:
        """With one more round, which is complete and counts."""
        agrees, splits = self.agreement, self.splits
        if agrees is not None:
            agrees = _compare_round(spec, agrees, round)
        if round.by_number:
            splits = splits.plus(round.pulls, round.counts + round.lost)
        deviation = self.deviation or describe_deviation(round)
        adjusted = [each.covariate for each in round.files if each.covariate is not None]
        checks = self.row_checks.plus(spec.noise, round.files, round.arms, spec.arms)
        ratios = self.ratios
        for each in round.files:
            ratios = ratios if each.ratio is None else add_ratios(ratios, round.arms, each.ratio)
        others = zip(self.metrics, spec.by_metric, strict=True)
        return replace(
            self.plus(round),
            rounds=round.number,
            deviation=deviation,
            agreement=agrees,
            splits=splits,
            row_checks=checks,
            covariate=self.covariate.plus(adjusted) if adjusted else self.covariate,
            ratios=ratios,
            metrics=tuple(each.folded(own, round.of_metric(m)) for m, (each, own) in enumerate(others)),
        )

    def payload(self) -> Plain:
        """The facts as JSON."""
        return {
            **vars(self),
            "notes": [each.values() for each in self.notes],
            "starts": [each._asdict() for each in self.starts],
            "agreement": pack(self.agreement),
            "sketches": {title: each.payload() for title, each in self.sketches.items()},
            "row_checks": self.row_checks.payload(),
            "metrics": [each.payload() for each in self.metrics],
            "covariate": pack(self.covariate),
            **{name: getattr(self, name)._asdict() for name in ("surplus", "splits")},
            **{name: _plain_by_arm(getattr(self, name)) for name in ("late_sums", "costs", "ratios")},
        }

    @classmethod
    def from_payload(cls, payload: Facts, arms: int) -> StudySummary:
        """The facts that `payload` was made of, in a study of this many arms."""
        surplus, splits = payload["surplus"], payload["splits"]
        return cls(
            rounds=int(payload["rounds"]),
            files=int(payload["files"]),
            last_file=payload["last_file"],
            closed_early=tuple(
                pick_keys(each, ("round", "missing", "asked", "why")) for each in payload["closed_early"]
            ),
            more_closed_early=int(payload["more_closed_early"]),
            notes=tuple(map(FileNote.from_values, payload["notes"])),
            sums_only=bool(payload["sums_only"]),
            deviation=payload["deviation"],
            agreement=_read_agreement(payload["agreement"], arms),
            refolded=bool(payload["refolded"]),
            missing={str(arm): int(number) for arm, number in payload["missing"].items()},
            contradicted={str(digest): int(number) for digest, number in payload["contradicted"].items()},
            starts=tuple(map(FileStart.from_payload, payload["starts"])),
            shared_items=bool(payload["shared_items"]),
            sketches=sketches_from(payload["sketches"]),
            surplus=Surplus(
                tuple(int(each) for each in surplus["rounds"]),
                *(int(surplus[name]) for name in ("asked", "returned", "added")),
            ),
            partitioned_rows=bool(payload["partitioned_rows"]),
            late_rounds=tuple(int(number) for number in payload["late_rounds"]),
            late_sums=_read_by_arm(ArmTotal, payload["late_sums"]),
            splits=Splits(
                float(splits["chi_squared"]), int(splits["freedom"]), tuple(float(each) for each in splits["asked"])
            ),
            covariate=unpack(CovariateSummary, payload["covariate"]),
            costs=_read_by_arm(ArmTotal, payload["costs"]),
            cost_units=tuple(map(str, payload["cost_units"])),
            ratios=_read_by_arm(ArmRatio, payload["ratios"]),
            row_checks=RowChecks.from_payload(payload["row_checks"], arms),
            metrics=tuple(cls.from_payload(each, arms) for each in payload["metrics"]),
        )


def _plain_by_arm(sums: Mapping[str, Any]) -> Plain:
    """Sums of each arm as JSON, by their names."""
    return {arm: each._asdict() for arm, each in sums.items()}


def _read_by_arm(kind: type[OfArm], payload: Mapping[str, Facts]) -> dict[str, OfArm]:
    """The sums that `_plain_by_arm` wrote."""
    return {str(arm): kind(**{name: float(value) for name, value in each.items()}) for arm, each in payload.items()}


def pick_keys(entry: Mapping[str, object], keys: Sequence[str]) -> Plain:
    """These keys of an entry of JSON; an error if one is missing."""
    return {key: entry[key] for key in keys}


def with_contradicted(known: Mapping[str, int], file: Results) -> Mapping[str, int]:
    """Results of each file that later ones contradict, with those that one more file names: the same come again."""
    sources = [] if file.contradicted is None else file.contradicted.files
    named = {each.digest[:SHORT]: max(known.get(each.digest[:SHORT], 0), each.rows) for each in sources}
    return {**known, **named}


def _few_notes(notes: Sequence[FileNote]) -> tuple[FileNote, ...]:
    """Each note once; of too many the first of a repeated kind go."""
    found = list(dict.fromkeys(notes))
    kinds = Counter(each.kind for each in found)
    for note in found[:]:
        if len(found) > MOST and kinds[note.kind] > 1:
            kinds[note.kind] -= 1
            found.remove(note)
    return tuple(found[:MOST])


def describe_deviation(round: Round) -> str | None:
    """Describe how the returned counts differ from the plan, or None."""
    planned, came = round.pulls if round.planned is None else round.planned, round.counts
    if (planned == came).all():
        return None
    how = "less" if (came <= planned).all() else "more" if (came >= planned).all() else "other results"
    return f"round {round.number} brought {how} than was planned"


def _read_agreement(written: object, arms: int) -> Agreement | None:
    """The agreement that was packed; None if it is none."""
    try:
        none = Agreement.none(arms)
        found = unpack(Agreement, written, none)
        _check_alike(found, none, unknown=True)
    except Unreadable:
        return None
    return found if all(np.shape(each) in ((), (arms,)) for each in found.refutation) else None


def is_past(past: Past) -> bool:
    """Whether what was read as a past is one: sums, and batches one by one, of one number of arms."""
    arrays = [*past[:4], *(one for each in past.history for one in each)]
    arrays += [each for each in (past.cubes, past.cube_freedom) if each is not None]
    if past.earlier is not None:
        arrays += [past.earlier.right, past.earlier.first, np.diagonal(past.earlier.system)]
    if past.pairs is not None:
        both = past.pairs.counts.shape
        if past.pairs.history or both != (past.counts.size**2,) or not is_past(past.pairs):
            return False
    return all(each.shape == past.counts.shape and np.isfinite(each).all() for each in arrays)


# --- the fold


def start_trial(spec: StudySpec, past: Sequence[ArmResults] = ()) -> Trial:
    """The trial before its first round; earlier data `past` are known, and are no evidence (Proposition 24)."""
    problem, rule = spec.problem, spec.policy.stopping
    trial = begin(problem, spec.acting)
    for names, results in past:
        batch = of_arms(batch_of([results]), names, spec.arms)._replace(parts=None, table=None)
        trial = trial._replace(kept=rule.warm_start(problem, trial.kept, batch, budget_before(trial.plan)))
    left = budget_before(trial.plan)
    if not past or left is None or not rule.uses_budget:
        return trial
    # a first round for what can be expected of the budget; if that is nothing, for all: results are to show it
    plan = spec.acting.next(problem, trial._replace(plan=trial.plan._replace(left=left)))
    return trial._replace(plan=plan._replace(parts=trial.plan.parts)) if plan.pulls.any() else trial


def start_summary(spec: StudySpec, past: Sequence[ArmResults] = ()) -> StudySummary:
    """The summary before the first round; earlier data `past` tell by how much to adjust for a covariate."""
    known = [each.covariate for _, each in past if each.covariate is not None]
    covariate = reduce(lambda found, each: found.plus([each]), known, CovariateSummary())
    return StudySummary(
        agreement=None if spec.list is not None else Agreement.none(len(spec.arms)),
        row_checks=RowChecks.none(len(spec.arms)),
        covariate=covariate._replace(chi_squared=0.0, freedom=0),  # how alike arms were then says nothing of this study
        metrics=tuple(map(start_summary, spec.by_metric)),
    )


def fold_round(spec: StudySpec, trial: Trial, summary: StudySummary, round: Round) -> tuple[Trial, StudySummary, bool]:
    """The trial and the summary after one more round, and whether it counts: not after the one that decides."""
    if trial.done:
        return trial, summary.plus(round, late=True), False
    batch = of_arms(round.batch._replace(rows=list_rows(spec, round)), round.arms, spec.arms)
    if not round.files:  # nothing came of it, by any metric
        batch = batch._replace(metrics=(batch,) * len(spec.metrics))
    summary = summary.folded(spec, round)
    problem, costs = spec.problem, summary.mean_costs(spec.arms)
    learns = spec.columns.cost is not None and not problem.prices and spec.list is None and not spec.noise.shares_items
    if learns and costs is not None and (costs > 0).all():  # what results cost so far: no bet depends on it
        problem = replace(problem, prices=tuple(costs.tolist()))
    return advance(problem, spec.acting, with_asked_plan(spec, trial, round), batch), summary, True


def list_rows(spec: StudySpec, round: Round) -> Floats | None:
    """The recorded results of a list in a round, by place; None without a list. (n, K)"""
    return None if spec.list is None else spec.list.rows(round.files, len(round.arms), spec.seed)


def asked_entries(spec: StudySpec, trial: Trial, pulls: Floats) -> Bools | None:
    """Which entries of a list a round of these pulls is about, the first that each arm lacks; None without a list."""
    missing = spec.policy.missing_entries(spec.problem, trial._replace(plan=round_of(trial.plan).plan))
    return None if missing is None else np.asarray(missing & (np.cumsum(missing, axis=0) <= pulls))


def fold_rounds(
    first: StudySpec,
    rounds: Sequence[Round],
    changes: Sequence[Change] = (),
    past: Sequence[ArmResults] = (),
    design: Plain | None = None,
) -> tuple[StudySpec, Trial, StudySummary]:
    """Fold all complete rounds by the present rules, with every change at its place.

    Each is bet on by the design that was set before its results; after the last, `design` is the present one.
    """
    seen: list[Round] = []
    spec = first_arms(first, changes)
    trial, summary = start_trial(spec, past), start_summary(spec, past)
    gone = {each.arm for each in changes if each.unrelated and each.kind == "dropped"}
    waiting = [each for each in changes if not each.unrelated and each.arm not in gone]
    for round in rounds:
        while waiting and waiting[0].after < round.number:
            spec, trial, summary = make_change(spec, trial, summary, waiting.pop(0), seen)
        if not round.complete:
            continue
        if round.design is not None and round.design != spec.design:
            spec, trial = redesign(spec, trial, round.design)
        trial, summary, counts = fold_round(spec, trial, summary, round)
        seen += [round] if counts else []
    for each in waiting:
        spec, trial, summary = make_change(spec, trial, summary, each, seen)
    if design is not None and design != spec.design:
        spec, trial = redesign(spec, trial, design)
    return spec, trial, summary


def make_change(
    spec: StudySpec, trial: Trial, summary: StudySummary, change: Change, rounds: Sequence[Round]
) -> tuple[StudySpec, Trial, StudySummary]:
    """The study after an arm left or joined, or its noise model changed; `rounds` are those that were counted."""
    if change.kind == "relaxed":
        known = [(round.arms, moments_of(round.files)) for round in rounds]
        spec, trial = relax_noise(spec, trial, [(names, batch) for names, batch in known if batch is not None])
        summary = replace(summary, row_checks=RowChecks.none(len(spec.arms)))  # they spoke of the other noise model
        return spec, trial, _with_agreement(spec, summary, rounds)
    before = spec.arms
    spec, trial = apply_change(spec, trial, change, [(round.arms, round.batch) for round in rounds])
    return spec, trial, _with_arms(spec, summary, before, rounds)


def _with_arms(spec: StudySpec, summary: StudySummary, before: Sequence[str], rounds: Sequence[Round]) -> StudySummary:
    """The summary for the arms there are now, by every metric."""
    others = zip(spec.by_metric, summary.metrics, strict=True)
    summary = replace(
        summary,
        row_checks=summary.row_checks.of_arms(before, spec.arms),
        metrics=tuple(
            _with_arms(own, each, before, [round.of_metric(m) for round in rounds])
            for m, (own, each) in enumerate(others)
        ),
    )
    return _with_agreement(spec, summary, rounds)


def _with_agreement(spec: StudySpec, summary: StudySummary, rounds: Sequence[Round]) -> StudySummary:
    """The summary with how well these rounds agree, for the arms and the noise model there are now."""
    if spec.list is not None:
        return summary
    found = Agreement.none(len(spec.arms))
    for round in rounds:
        found = _compare_round(spec, found, round)
    return replace(summary, agreement=found)


def _compare_round(spec: StudySpec, known: Agreement, round: Round) -> Agreement:
    """How well rounds agree, with one more.

    Adjusted for a covariate, results of later rounds vary less than those before anything was known of it, which are
    left out, and all arms move alike: that refutes nothing.
    """
    adjusted = spec.columns.covariate is not None
    if adjusted and not any(each.covariate.adjustment.slope for each in round.files if each.covariate is not None):
        return known
    found = update_agreement(spec.problem, known, of_arms(round.whole, round.arms, spec.arms), round.number)
    return found._replace(refutation=known.refutation) if adjusted else found


def redesign(spec: StudySpec, trial: Trial, design: Facts, open_: Round | None = None) -> tuple[StudySpec, Trial]:
    """The study with another budget, lead or number of looks, or another rule: its next plan, or that of an open round.

    It continues with its wealth, also where the budget had ended it (Propositions 18, 6 and 41).
    """
    before, spec = spec, spec.with_design(design)
    problem, rule, acting = spec.problem, spec.policy.stopping, spec.acting
    if spec.policy.plans_budget or before.policy.plans_budget:
        kept = rule.restore(problem, before.policy.stopping.save(problem, trial.kept))
        start, known = begin(problem, acting), rule.past(kept)
        trial = trial._replace(kept=kept, plan=start.plan)
        if known is not None and known.counts.any():
            trial = trial._replace(plan=acting.next(problem, trial))
    elif spec.budget is None:
        return spec, trial
    elif rule.uses_budget and trial.record.samples > 0:
        left = np.maximum(spec.budget - trial.record.samples, 0.0)
        trial = trial._replace(kept=rule.with_budget(problem, trial.kept, left), plan=trial.plan._replace(left=left))
        trial = trial._replace(plan=acting.next(problem, trial))
    else:
        trial = trial._replace(plan=as_rounds(acting).again(trial.plan, trial.record))
    if open_ is not None:
        return spec, with_asked_plan(spec, trial, open_)._replace(done=np.asarray(False))
    return spec, trial._replace(done=rule.stops(problem, trial))


def with_asked_plan(spec: StudySpec, trial: Trial, round: Round) -> Trial:
    """The trial whose next plan is that of the round, within the budget of the study."""
    if spec.budget is None:
        return trial
    rounds = as_rounds(spec.acting)
    pulls = of_arms(Batch(round.pulls, round.pulls), round.arms, spec.arms).counts
    return trial._replace(plan=rounds.asked(trial.plan, trial.record, pulls))


# --- checkpoints


def checkpoint_payload(spec: StudySpec, trial: Trial, summary: StudySummary, study: Facts) -> Plain:
    """The payload of a checkpoint; `study` are the facts that are not about folded rounds."""
    won, bars, shown = evidence(spec, trial)
    rule, problem = spec.policy.stopping, spec.problem
    return {
        "round": summary.rounds,
        "rules": RULES,
        "claims": {"log_evidence": pack(won), "log_threshold": pack(bars), "shown": pack(shown)},
        "next_pulls": pack(trial.plan.pulls),
        "state": {
            "record": pack(trial.record),
            "rule": {"tag": rule.state_tag(problem), "saved": pack(rule.save(problem, trial.kept))},
            "plan": pack(trial.plan),
            "done": bool(trial.done),
        },
        "summary": summary.payload(),
        **study,
    }


def evidence(spec: StudySpec, trial: Trial) -> tuple[Floats, Floats, Bools]:
    """log of the wealth of each claim, log of what it must reach, and whether it is shown."""
    return spec.policy.stopping.evidence(spec.problem, trial, spec.arms)


def restore_trial(spec: StudySpec, payload: Facts) -> Trial:
    """The trial of a checkpoint; `Unreadable` where this version does not know what it holds."""
    problem, arms = spec.problem, (len(spec.arms),)
    try:
        state = payload["state"]
        record = unpack(Record, state["record"])
        plan = unpack(BatchPlan, state["plan"], first := spec.acting.first(problem, ()))
        nothing, none = np.zeros(arms), np.asarray(0.0)
        _check_alike(plan, first)
        _check_alike(record, Record(nothing, nothing, none))
        if not all(np.isfinite(each).all() for each in (*record, plan.pulls)):
            raise Unreadable("numbers that are not finite")
        if plan.parts < 1 or plan.jump not in TABLES:
            raise Unreadable("parts that cannot be bet on")
        rule, written = spec.policy.stopping, state["rule"]
        if written["tag"] != rule.state_tag(problem):
            raise Unreadable(f"the state of another rule ({written['tag']})")
        kept, like = None, rule.save(problem, rule.start(problem, ()))
        if like is not None:  # it continues with the wealth so far also where other rules earned it
            saved = unpack(type(like), written["saved"], like)
            _check_alike(saved, like)
            kept = rule.restore(problem, saved)
        return Trial(record, Batch(nothing, nothing), plan, kept, np.asarray(bool(state["done"])))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(repr(error)) from None


def _check_alike(found: Any, like: Any, unknown: bool = False) -> None:
    """Raise unless a tree has the types and last axes of another, and every past in it makes sense.

    Where nothing is `unknown`, it has no NaN, either, except where the other has some or is empty.
    """
    fits = True
    if isinstance(found, Past):
        fits = is_past(found) and (not isinstance(like, Past) or found.counts.shape == like.counts.shape)
    elif isinstance(like, tuple) and like:
        fits = type(found) is type(like) and len(found) == len(like)
        for one, other in zip(found, like, strict=True) if fits else ():
            _check_alike(one, other, unknown)
    elif isinstance(like, np.ndarray | np.generic):
        fits = isinstance(found, np.ndarray | np.generic) and found.dtype == like.dtype
        fits = fits and np.shape(found)[-1:] == np.shape(like)[-1:]  # axes before it may have grown
        if fits and not unknown and like.dtype.kind == "f" and like.size and not np.isnan(like).any():
            fits = not np.isnan(found).any()
    elif isinstance(like, int | float):
        fits = isinstance(found, int | float)
    if not fits:
        raise Unreadable(f"what cannot stand in place of a {type(like).__name__}")
