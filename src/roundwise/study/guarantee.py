"""Whether the guarantee of a study stands after everything that happened in it, and what else readers should know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from roundwise.arrays import Floats
from roundwise.ingest import of_arms
from roundwise.ingest.row_checks import contradicted_assumptions, cut_shares, notes_on_rows
from roundwise.messages import Condition, Danger, Doubt, FileNote, Guarantee, Note, Reason, visible
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import begin
from roundwise.noise.base import FALSE_ALARM
from roundwise.rules.base import TrialStatus
from roundwise.rules.finite.rule import merge_rows
from roundwise.study.diagnostics import (
    SURPRISING,
    Disagreement,
    chi_squared_tail,
    find_disagreement,
    missing_p_value,
    split_p_value,
)
from roundwise.study.state import State

MOST_CUT_APART = 0.05  # of an arm's total: how much more of it a cap may cut than of another's
WHOLE_STUDY = (  # doubts that are the same by every metric
    "answer_not_reproduced", "all_rejected", "short_rounds", "recounted", "shared_items", "repeated_ids", "surplus",
    "seed_chosen",
)  # fmt: skip
SAID_ONCE = ("large_sample", "contradicted")  # doubts that need no repetition where two metrics have the same
MOST_REMARKS = 20  # the last ones, word by word
SESSIONS = 3  # files of runs that were made one after another: from here on drifts of the machine average out


def guarantee_of(state: State) -> Guarantee:
    """Return what became of the guarantee of a study."""
    doubts = list(_doubts(state))
    once = [each for each in doubts if each.code in SAID_ONCE]
    for m, metric in enumerate(state.spec.metrics):  # a wrong model of one metric is a false bet in the common sum
        for each in _doubts(state.of_metric(m)):
            if each.code not in WHOLE_STUDY and each not in once:
                doubts.append(type(each)("metric", metric=metric.name, about=each.values()))
    models = (state.spec.noise, *(each.noise for each in state.spec.metrics))
    return Guarantee.of(doubts, sorted({shape for each in models if (shape := each.shape) is not None}))


def _doubts(state: State) -> Iterator[Doubt]:
    """Everything that stands between a study and its guarantee, by one metric."""
    spec, facts = state.spec, state.facts
    if (doubt := spec.policy.stopping.doubt(spec.problem)) is not None:
        yield doubt
    if state.decided is not None and not state.trial.done:
        yield Reason("answer_not_reproduced")
    if (approximation := spec.problem.noise.approximation) is not None:
        yield approximation
    if standing(state).all_rejected:
        yield Reason("all_rejected")
    if (refuted := refutation_of(state)) is not None:
        yield refuted
    if (chance := covariates_differ(state)) < SURPRISING:
        yield Condition("covariate_differs", column=spec.columns.covariate, chance=chance)
    yield from contradicted_assumptions(state.row_checks)
    listed = spec.list is not None  # its bets wait for missing results, whatever their order
    if facts.closed_early and not listed:
        yield Condition("short_rounds", rounds=list(facts.closed_early), more=facts.more_closed_early)
    if lost := sum(facts.missing.values()):
        yield Condition("given_up" if listed else "missing_outcomes", number=lost)
    for entry in state.amendments:
        about = {"name": entry["name"], "round": entry["round"], "why": entry["why"]}
        yield Condition("amended", withdrawn=bool(entry["withdrawn"]), **about)
    if state.contradicted:
        yield Condition("contradicted", ids=state.contradicted)
    for change in state.changes:
        if change.unrelated:
            yield Condition(f"arm_{change.kind}", arm=change.arm)
    if facts.refolded:
        yield Condition("recounted")
    if facts.shared_items and not spec.noise.shares_items and not listed:
        yield Condition("shared_items")
    for title, sketch in facts.sketches.items():
        if (each := sketch.repeats(title)) is not None:
            about = {"values": each.values, "exact": each.exact, "several_arms": each.several}
            yield Condition("repeated_ids", column=title, repeated=each.repeated, **about)
    # A bet on a round needs numbers of results that are unrelated to their values. The paper's thresholds hold after
    # every single result, however the next is chosen.
    if (surplus := facts.surplus).added and spec.policy.stopping.any_time and not listed:
        rounds = list(surplus.rounds)
        yield Condition("surplus", added=surplus.added, rounds=rounds, returned=surplus.returned, asked=surplus.asked)
    if spec.seed_given and facts.partitioned_rows:
        yield Condition("seed_chosen")
    if spec.list is not None and (spec.seed_given or spec.list.order == "given"):
        yield Condition("order_chosen", given=spec.list.order == "given")
    if spec.same_list:
        yield Condition("same_list", studies=list(spec.same_list))
    if (found := disagreeing(state)) is not None:
        about = {"arm": spec.arms[found.arm], "round": found.batch, "chance": found.chance}
        yield Condition("rounds_differ", shifts=standing(state).compares, **about)
    if refuted is None and spec.columns.covariate is None and not means_hold(state):
        yield Condition("arms_moved")


def refutation_of(state: State) -> Reason | None:
    """Return how the results refute the noise model (Proposition 29); None if they do not.

    Batches that lie apart do not where the decision compares arms within batches and all arms moved together.
    """
    if state.summary.agreement is None:
        return None
    held = state.summary.agreement.refutation
    moving = None if held.moving is None or moved_together(state) else state.spec.arms[held.moving]
    if not held.spreading and moving is None:
        return None
    return Reason("refuted", spreading=bool(held.spreading), moving=moving, false_alarm=FALSE_ALARM)


def dangers_of(state: State, guarantee: Guarantee) -> list[Danger]:
    """Return what endangers the guarantee of a study."""
    doubts = map(Danger.of, (*guarantee.conditions, *guarantee.reasons))
    others = [_list_contradicts(state), _missing_differ(state), _sample_ratio_mismatch(state), _cap_differs(state)]
    for m, metric in enumerate(state.spec.metrics):
        own = state.of_metric(m)
        for each in (_missing_differ(own), _cap_differs(own)):
            others.append(None if each is None else Danger("metric", metric=metric.name, about=each.values()))
    return [each for each in (*doubts, *others) if each is not None]


def _list_contradicts(state: State) -> Danger | None:
    """Where later results complete the list, arithmetic may contradict the answer."""
    spec, verdict = state.spec, state.decided
    if spec.list is None or verdict is None or not state.late_files:
        return None
    told = state.trial.kept.results
    for names, file in state.late_files:
        later = Batch(file.counts, file.totals, rows=spec.list.rows([file], len(names), spec.seed))
        rows = of_arms(later, names, spec.arms).rows
        told = told if rows is None else merge_rows(told, rows)
    if told.shape != (len(spec.list), len(spec.arms)) or not np.isfinite(told).all():
        return None
    rule = spec.policy.stopping
    whole = Batch(np.full(len(spec.arms), float(len(told))), told.sum(axis=0), rows=told)
    start = begin(spec.problem, spec.acting)
    after = start._replace(kept=rule.fold(spec.problem, start.kept, start.plan, whole))
    right = spec.question.answer_to_json(rule.answer(spec.problem, after))
    means = told.mean(axis=0)
    if right == verdict["answer"] or bool(rule.correct(spec.problem, rule.answer(spec.problem, state.trial), means)):
        return None
    return Danger("list_contradicts", words=rule.answer_text(spec.problem, after, spec.arms))


def _cap_differs(state: State) -> Danger | None:
    """Where the cap cuts much more of one arm than of another, the question without it can have another answer."""
    if not state.spec.noise.outcome.clip:
        return None
    shares = cut_shares(state.row_checks.statistics.moments)
    if np.ptp(shares) <= MOST_CUT_APART:
        return None
    most, least = int(shares.argmax()), int(shares.argmin())
    names = state.spec.arms
    return Danger("cap_differs", most=names[most], least=names[least], cut=float(shares[most]), of=float(shares[least]))


def _missing_differ(state: State) -> Danger | None:
    lost = state.facts.missing
    if not any(lost.values()) or state.spec.list is not None:  # requests given up on a list help no arm
        return None
    missing = np.array([float(lost.get(name, 0)) for name in state.spec.arms])
    chance = missing_p_value(state.record.counts, missing)
    if chance >= SURPRISING:
        return None
    shares = missing / np.maximum(state.record.counts + missing, 1.0)
    return Danger("missing_differ", arm=state.spec.arms[int(shares.argmax())], chance=chance)


def _sample_ratio_mismatch(state: State) -> Danger | None:
    """Only where a round is a number of results, so that their split is left to chance."""
    spec = state.spec
    if not spec.by_number or any(each.kind != "relaxed" for each in state.changes):
        return None
    lost = np.array([float(state.summary.missing.get(name, 0)) for name in spec.arms])
    came = state.trial.record.counts + lost
    if spec.split is not None:
        wanted = np.array(spec.split)
        chance = split_p_value(wanted, came)
    else:
        splits = state.summary.splits
        wanted, chance = np.array(splits.asked), splits.chance
    if chance >= SURPRISING:
        return None
    expected = came.sum() * wanted / wanted.sum()
    off = (came - expected) / np.sqrt(np.maximum(expected, 1.0))
    arm = int(np.abs(off).argmax())
    numbers = {"returned": int(came[arm]), "expected": round(float(expected[arm]))}
    return Danger("sample_ratio_mismatch", arm=spec.arms[arm], chance=chance, **numbers)


def covariates_differ(state: State) -> float:
    """How likely chance alone lets mean covariates differ so much between arms, within rounds."""
    known = state.summary.covariate
    return chi_squared_tail(known.freedom, known.chi_squared) if known.freedom else 1.0


def bounds_hold(state: State) -> bool:
    """Whether bounds may be shown at all: not once their own assumptions are refuted."""
    return not standing(state).all_rejected and refutation_of(state) is None


def means_hold(state: State) -> bool:
    """Whether intervals of means may be shown: not either where no single means fit all rounds.

    Nor where results are adjusted for a covariate: every round moves all arms by as much as its center is off.
    """
    kept = state.summary.agreement
    return state.spec.columns.covariate is None and (kept is None or kept.refutation.moving is None)


def disagreeing(state: State) -> Disagreement | None:
    """How the batches differ by more than chance allows, in a way that matters to the decision; None if they agree."""
    found = disagreement_of(state, standing(state).compares)
    return None if found is None or found.chance >= SURPRISING else found


def disagreement_of(state: State, shifts: bool) -> Disagreement | None:
    """How well the batches agree, up to a `shift` of all arms together; None if that cannot be tested."""
    kept = state.summary.agreement
    return None if kept is None else find_disagreement(state.spec.problem, kept, shifts)


def standing(state: State) -> TrialStatus:
    """Its further status under the rule."""
    return state.spec.policy.stopping.standing(state.spec.problem, state.trial)


def notes_of(state: State, widened: Sequence[str]) -> list[Note]:
    """Return what else readers should know; intervals of `widened` arms were extended to their means."""
    late = (note for _, each in state.late_files for note in each.notes)
    return [*_notes(state, widened), *gather_notes([*state.facts.notes, *late])]


def _notes(state: State, widened: Sequence[str]) -> Iterator[Note]:
    policy, spec, facts = state.spec.policy, state.spec, state.facts
    if policy.stopping.exact_batches:
        yield Note("exact_rounds", policy=policy.name)
    for change in state.changes:
        about = {"arm": change.arm, "after": change.after, "why": visible(change.why.strip(), 300)}
        if change.kind == "relaxed":
            del about["arm"]
            yield Note("relaxed", noise=state.first.noise.name, **about)
            continue
        removed = change.kind == "dropped" and change.arm not in spec.arms
        yield Note(f"arm_{change.kind}", removed=removed, **about)
    before, now = state.first, spec
    if (before.policy.plans_budget, before.lead) != (now.policy.plans_budget, now.lead):
        gap, designs = spec.problem.wording.gap, (before, now)
        said = [{"budget": each.budget, "lead": None if each.lead is None else gap(each.lead)} for each in designs]
        yield Note("redesigned", before=said[0], now=said[1])
    elif before.budget is not None and now.budget is not None and before.budget != now.budget:
        yield Note("budget_changed", before=before.budget, now=now.budget)
    for remark in state.remarks[-MOST_REMARKS:]:
        by, text = visible(str(remark["by"])), visible(remark["text"].strip(), 500)
        yield Note("remark", by=by, at=remark["at"], text=text)
    if len(state.remarks) > MOST_REMARKS:
        yield Note("more_remarks", number=len(state.remarks) - MOST_REMARKS)
    yield from _collecting(state)
    if spec.list is not None and state.decided is not None:
        yield Note("this_run", chance=_another_winner(state), repeats=spec.list.repeats)
    few = state.row_checks.smallest
    if few.min(initial=np.inf) < spec.noise.few_rows and not state.trial.done:
        arm = int(few.argmin())
        yield Note("few_rows", arm=spec.arms[arm], rows=int(few[arm]), enough=int(spec.noise.few_rows))
    yield from policy.stopping.notes(spec.problem, state.trial)
    if policy.plans_budget and not state.trial.done and state.trial.record.samples:
        yield _levels(state)
    if moved_together(state):
        yield Note("moved_together", intervals=means_hold(state))
    if widened:
        yield Note("widened", arms=list(widened))
    if spec.noise.needs == "rows" and facts.sums_only:
        yield Note("sums_only")
    if spec.columns.covariate is not None and (known := state.summary.covariate).rows:
        yield Note("covariate", column=spec.columns.covariate, explained=known.explained)
    if spec.columns.denominator is not None:
        of, sums = spec.columns.outcome or "outcome", state.summary.ratios
        arms = {arm: [sums[arm].numerator, sums[arm].denominator] for arm in spec.arms if arm in sums}
        if arms := {arm: each for arm, each in arms.items() if each[1] > 0}:
            yield Note("ratio", numerator=of, denominator=spec.columns.denominator, arms=arms)
    yield from notes_on_rows(spec.noise, state.row_checks, spec.arms)
    waiting = state.partial_round
    if waiting is not None and state.closed is not None:
        yield Note("incomplete_round", round=waiting.number, results=waiting.results)
    for _, each in state.past:
        yield Note("earlier_data", results=int(each.counts.sum()), name=each.name)
    if late := int(state.late_sums.counts.sum()):
        yield Note(
            "after_decision", results=late, recounted=bool(facts.late_rounds), claims=spec.question.separate_claims
        )


def _levels(state: State) -> Note:
    """The level of each hypothesis that a designed study is still to reject, and how many rounds are planned."""
    spec, plan = state.spec, state.trial.plan
    claims = spec.policy.stopping.claims(spec.problem, state.trial, spec.arms)
    levels = [(each.words, math.exp(min(each.evidence - each.bar, 0.0))) for each in claims if not each.shown]
    planned = plan.looks is not None and np.isfinite(plan.looks) and plan.pulls.any()
    rounds = 1 + int(plan.looks) if planned and plan.looks is not None else 0
    return Note("levels", levels=sorted(levels, key=lambda each: -each[1]), rounds=rounds)


def _another_winner(state: State) -> float | None:
    """Roughly, how likely another run of the whole list names another best arm; None where repeats do not tell.

    Phi(-lead sqrt(N R / (2 (v_1 + v_2)))) for the two arms that lead, v their mean variance within items.
    """
    spec = state.spec
    if spec.list is None or spec.list.repeats == 1 or spec.question.name != "best-arm":
        return None
    told, repeats = state.trial.kept.results, spec.list.repeats
    values = np.full((len(spec.list), len(spec.arms)), np.nan)
    values[spec.list.places(spec.seed)[: len(told)]] = np.where(np.isfinite(told), told, np.nan)
    means = spec.question.sign * state.measured.means
    first, second = np.argsort(-means, kind="stable")[:2]
    within = 0.0
    for arm in (first, second):
        items = values[:, arm].reshape(-1, repeats)
        items = items[(~np.isnan(items)).sum(axis=1) >= 2]
        if not len(items):
            return None
        within += float(np.nanvar(items, axis=1, ddof=1).mean())
    if within <= 0:
        return 0.0
    return 0.5 * math.erfc(float(means[first] - means[second]) * math.sqrt(len(spec.list) / (4 * within)))


def find_waiting_arm(state: State) -> tuple[int, Floats] | None:
    """The arm that needs most results before it is bet on, while one has fewer, and how many each needs. (K)"""
    kept = state.spec.policy.stopping.past(state.trial.kept)
    needed = None if kept is None or state.trial.done else state.spec.problem.noise.rows_before_bets(kept)
    if kept is None or needed is None or not (needed > kept.counts).any():
        return None
    finite = np.where(np.isfinite(needed), needed, 0.0)
    return int(np.where(needed > kept.counts, finite, -1.0).argmax()), finite


def _collecting(state: State) -> Iterator[Note]:
    """How many results an arm needs before it is bet on, while one has fewer: of the one that needs most."""
    kept, waiting = state.spec.policy.stopping.past(state.trial.kept), find_waiting_arm(state)
    if waiting is None or kept is None:
        return
    noise, (arm, finite) = state.spec.problem.noise, waiting
    least = noise.rows_before_bets(Past.none(kept.counts.shape))
    skewed = least is not None and finite[arm] > least[arm]
    rows, skewness = int(float(f"{finite[arm]:.2g}")), float(kept.skewness[arm]) if skewed else None
    budget, split = state.spec.budget, state.spec.split
    most = math.inf if budget is None else budget  # of all arms; with a fixed split, as this one has its share of it
    all_in_all = finite.sum() if split is None else finite[arm] * sum(split) / max(split[arm], 1e-9)
    short = {} if all_in_all < most else {"budget": budget, "over": state.over is not None}
    yield Note("collecting", arm=state.spec.arms[arm], has=int(kept.counts[arm]), rows=rows, skewness=skewness, **short)


def gather_notes(notes: Sequence[FileNote]) -> list[FileNote]:
    """Return one note of each kind: that on the last file, with how many other files it applies to.

    Runs of an arm that were made one after another call for several sessions: once there are some, nothing is said.

    >>> found = gather_notes([FileNote("skipped", file=f"{day}.csv", rows=10 * day) for day in (1, 2, 3)])
    >>> [str(each) for each in found]
    ['3.csv: 30 rows were recorded before and were skipped. Likewise 2 other files.']
    """
    kinds: dict[tuple[str, ...], list[FileNote]] = {}
    for note in notes:
        kinds.setdefault(note.kind, []).append(note)
    found = []
    for every in kinds.values():
        fields = every[-1].fields
        others = len({each.fields["file"] for each in every} - {fields["file"]})
        if every[-1].code == "consecutive" and others + 1 >= SESSIONS:
            continue
        found.append(FileNote(every[-1].code, **fields, **({"others": others} if others else {})))
    return found


def moved_together(state: State) -> bool:
    """Whether rounds differ by more than chance: all arms moved together, which does not matter to the decision."""
    if disagreeing(state) is not None or not standing(state).compares or state.spec.columns.covariate is not None:
        return False
    moved = disagreement_of(state, False)
    return moved is not None and moved.chance < SURPRISING
