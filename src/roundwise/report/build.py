"""Build the report of a study: its arms and claims with their bounds from one fold of the bets, and all other facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from shlex import quote
from typing import Any

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Floats, Unreadable
from roundwise.ingest import Results
from roundwise.messages import Guarantee, few, option, several
from roundwise.model.problem import Record
from roundwise.noise.base import Outcome
from roundwise.questions import Question
from roundwise.questions.claims import ODDS
from roundwise.report.export import Report
from roundwise.report.model import (
    RATIO,
    ArmDecision,
    ArmRow,
    ClaimRow,
    Event,
    EvidenceHistory,
    FileRow,
    MetricRow,
    RoundRow,
    Units,
    choose_units,
    list_events,
    share,
)
from roundwise.report.text import Findings, describe_open, list_decisions, name_answer, write_headline
from roundwise.rules import ClaimStatus
from roundwise.rules.base import Bounds, Interval, LinearForm
from roundwise.store import Entry, EventKind
from roundwise.store.log import format_time
from roundwise.study.fold import Round, evidence, restore_trial
from roundwise.study.guarantee import bounds_hold, dangers_of, guarantee_of, means_hold, notes_of, standing
from roundwise.study.spec import StudySpec
from roundwise.study.state import State

MANY_ARMS = 1000  # up to which intervals are computed
ROUNDING = 1e-9  # of a mean, within which a bound that is exact, as on a list, may miss it
USELESS = 100.0  # deviations of a result, from which a bound says nothing
MANY_CLAIMS = 10_000  # up to which it is computed by how much they hold
MOST_TRACED = 200  # claims, and rounds, up to which their evidence is followed


def build_report(state: State, intervals: bool, entries: Sequence[Entry] = ()) -> Report:
    """Build the report of a study.

    Args:
        state: The study as it stands.
        intervals: Whether to compute bounds, which takes up to a few seconds.
        entries: The whole record: dates, people and everything before the last checkpoint come from it.

    Returns:
        The report.
    """
    asked = state.rounds if entries or intervals else state.recent
    settings, events = state.spec, list_events(entries)
    question, waiting = settings.question, state.awaited_round
    verdict = state.decided or state.verdict()
    status = "decided" if verdict is not None else "undecided" if state.closed is None else "closed"
    answer = None if verdict is None else verdict["answer"]
    every = settings.policy.stopping.claims(settings.problem, state.trial, settings.arms)
    claims = [each for each in every if each.metric == 0]
    courses = trace_evidence(state, entries, [_name_metric(settings, each) for each in every])
    arm_rows, claim_rows = measure(state, claims, answer, courses, intervals)
    units = choose_units(settings.noise, settings.unit, _median_width(arm_rows))
    metric_rows = _list_metrics(state, every, claim_rows, units, intervals)
    decisions = _decide_arms(metric_rows) if settings.metrics else []
    ended, guarantee, name = status != "undecided" or state.over is not None, guarantee_of(state), quote(state.name)
    found = Findings(
        question,
        sorted(arm_rows, key=lambda arm: (arm.mean is None, -question.sign * (arm.mean or 0.0))),
        claim_rows,
        units,
        None if question.control is None else settings.arms[question.control],
        name_answer(question, answer, settings.arms),
        None if verdict is None else str(verdict["answer_text"]),
        ended,
        share(1 - settings.delta) if ended and not guarantee.reasons else "",
        None if settings.list is None else "On this list",
        _list_tied(settings, claims) if verdict is not None else (),
    )
    learnt = state.facts.mean_costs(settings.arms) if state.record.samples else None
    prices = learnt if settings.prices is None else settings.prices
    shared = settings.noise.shares_items and settings.list is None and state.record.samples > 0
    items = int(state.record.counts.max()) if shared else None
    each_end = f"{share(max(1 - 2 * settings.delta, 0))} bounds, each"
    joint = f"{share(1 - settings.delta)} interval"
    return Report(
        study=state.name,
        question=question.name,
        question_text=settings.question_words,
        status=status,
        answer=found.answer,
        headline=" ".join([*list_decisions(decisions), write_headline(found, _why_undecided(state, decisions))]),
        delta=settings.delta,
        results=int(state.record.samples),
        late=int(state.late_sums.counts.sum()),
        pending=0 if waiting is None else waiting.results,
        budget=settings.budget,
        rounds=int(state.trial.record.batches),
        list_results=_whole_list(settings),
        tied_arms=found.tied,
        cost=None if prices is None else float(np.dot(prices, state.record.counts)),
        max_cost=settings.max_cost,
        list_cost=None
        if prices is None or settings.list is None
        else len(settings.list) * float(sum(np.delete(prices, settings.list.known_arms(settings.arms)))),
        items=items,
        items_cost=None if prices is None or items is None else items * float(np.sum(prices)),
        cost_unit="" if settings.prices is not None else next(iter(state.facts.cost_units), ""),
        remaining={}
        if waiting is None
        else {arm: int(n) for arm, n in zip(settings.arms, waiting.outstanding, strict=True) if n > 0},
        arm_rows=tuple(arm_rows),
        claim_rows=tuple(claim_rows),
        metric_rows=tuple(metric_rows),
        decisions=tuple(decisions),
        round_rows=tuple(row for each in asked for row in _tabulate_round(each)),
        files=_list_files(state, asked, events),
        courses=courses,
        assumptions=" ".join(
            [
                f"{settings.assumed} {settings.reading_words}".strip(),
                *(f"{each.name} ({each.role}): {each.noise.words}" for each in settings.metrics),
            ]
        ),
        units=units,
        lower_is_better=question.lower_is_better,
        level=question.level,
        control=found.control,
        ends=each_end if standing(state).bounds_match_decision else joint,
        differences=each_end,
        dangers=tuple(dangers_of(state, guarantee)),
        notes=tuple(notes_of(state, [each.name for each in arm_rows if each.widened])),
        guarantee=guarantee,
        sentence=_write_sentence(state, found, guarantee, decisions),
        next=_next_step(state, verdict is not None),
        reproduce=f"roundwise export {name} --out record.jsonl\n"
        f"roundwise import record.jsonl --storage sqlite:///copy.db\n"
        f"roundwise verify {name} --storage sqlite:///copy.db" + (f" --digest {entries[-1].digest}" if entries else ""),
        policy=settings.policy.name,
        allocated=_describe_allocation(settings),
        created=events[0].at if events else _stamp(state.created),
        changed=events[-1].at if events else None,
        waiting_since=_waiting_since(state, status, events),
        by=tuple(dict.fromkeys(each.by for each in events)),
        digest=events[-1].digest if events else None if state.last is None else state.last.digest,
        version=__version__,
    )


def _whole_list(settings: StudySpec) -> int | None:
    """The results of the whole list that are not known beforehand."""
    items, arms = settings.list, settings.arms
    return None if items is None else len(items) * (len(arms) - len(items.known_arms(arms)))


def _list_tied(settings: StudySpec, claims: Sequence[ClaimStatus]) -> tuple[str, ...]:
    """The arms that share the first place of a list; none where one is ahead."""
    left = tuple(each.left for each in claims if each.left is not None and not each.shown)
    return left if settings.list is not None and len(left) > 1 else ()


def _name_metric(settings: StudySpec, claim: ClaimStatus) -> ClaimStatus:
    metric = settings.metrics[claim.metric - 1].name if claim.metric else None
    return claim if metric is None else claim._replace(words=f"{metric}: {claim.words}")


def _list_metrics(
    state: State, claims: Sequence[ClaimStatus], primary: Sequence[ClaimRow], units: Units, intervals: bool
) -> list[MetricRow]:
    settings = state.spec
    if not settings.metrics:
        return []
    name, arms = settings.columns.outcome or "outcome", settings.arms
    found = _list_metric_rows(name, "primary", settings.question, arms, primary, units)
    for m, metric in enumerate(settings.metrics):
        own = state.of_metric(m)
        _, rows = measure(own, [each for each in claims if each.metric == m + 1], None, (), intervals)
        units = choose_units(metric.noise, metric.unit, _median_width(rows))
        found += _list_metric_rows(metric.name, metric.role, own.spec.question, arms, rows, units)
    return sorted(found, key=lambda each: arms.index(each.arm))


def _list_metric_rows(
    metric: str, role: str, question: Question, arms: Sequence[str], claims: Sequence[ClaimRow], units: Units
) -> list[MetricRow]:
    """What is claimed of one metric: a row for each arm that is compared with the control.

    The claims come first, then their opposites.
    """
    forms, found = question.forms, []
    assert forms is not None  # claims have them
    for j, form in enumerate(forms):
        claim, opposite = claims[j], claims[j + len(forms)] if len(claims) > len(forms) else None
        (arm,) = [i for i in np.flatnonzero(form).tolist() if i != question.reference_arm]
        sign = question.sign if claim.scale is None else 1.0  # claims are about improvements
        lower, upper = _improvement(sign, claim.lower, claim.upper)
        found.append(
            MetricRow(
                arm=arms[arm],
                metric=metric,
                role=role,
                claim=claim.claim,
                shown=claim.shown,
                shown_at=claim.shown_at,
                refuted=opposite is not None and opposite.shown,
                refutation=None if opposite is None else opposite.claim,
                log_evidence=claim.log_evidence,
                log_threshold=claim.log_threshold,
                difference=None if claim.estimate is None else sign * claim.estimate,
                difference_lower=lower,
                difference_upper=upper,
                scale=claim.scale,
                units=units,
            )
        )
    return found


def _decide_arms(rows: Sequence[MetricRow]) -> list[ArmDecision]:
    """Decide on each arm: shipping needs the primary claim and every guardrail; secondary metrics do not count.

    Each verdict follows from what is shown alone, so any of them is wrong, ever, with probability at most delta.
    """
    found = []
    for arm in dict.fromkeys(each.arm for each in rows):
        own = [each for each in rows if each.arm == arm and each.role != "secondary"]
        against = [f"{each.refutation} ({each.metric})" for each in own if each.refuted]
        missing = [f"{each.claim} ({each.metric})" for each in own if not each.shown]
        shown = [f"{each.claim} ({each.metric})" for each in own if each.shown]
        if against:
            found.append(ArmDecision(arm=arm, decision="do not ship", why="; ".join(against)))
        elif missing:
            found.append(ArmDecision(arm=arm, decision="undecided", why=f"not shown: {'; '.join(missing)}"))
        else:
            found.append(ArmDecision(arm=arm, decision="ship", why="; ".join(shown)))
    return found


def _median_width(rows: Sequence[ArmRow] | Sequence[ClaimRow]) -> float | None:
    """The usual width of intervals, which says how many digits are worth showing."""
    widths = sorted(each.upper - each.lower for each in rows if each.lower is not None and each.upper is not None)
    return widths[len(widths) // 2] if widths else None


def _stamp(created: str) -> str | None:
    try:
        return format_time(datetime.fromisoformat(created))
    except ValueError:
        return None


def _why_undecided(state: State, decisions: Sequence[ArmDecision]) -> str:
    if state.closed is not None:
        return f"Closed undecided ({state.closed})"
    budget = state.spec.budget
    if state.over is not None and budget is not None and not state.spec.policy.stopping.exact_batches:
        return f"Undecided within the budget of {several(budget, 'result')}"
    if state.over is not None:
        return f"Undecided ({state.over})"
    waiting = [each.arm for each in decisions if each.decision == "undecided"]
    on = f" on {few(waiting, 4)}" if waiting and len(waiting) < len(decisions) else ""
    return f"Not decided yet{on}"


def _tabulate_round(asked: Round) -> list[RoundRow]:
    came = asked.whole
    return [
        RoundRow(
            round=asked.number,
            arm=arm,
            asked=int(pulls),
            results=int(count),
            mean=float(total / count) if count else None,
            counted=asked.counted,
        )
        for arm, pulls, count, total in zip(asked.arms, asked.pulls, came.counts, came.totals, strict=True)
        if pulls or count
    ]


def _list_files(state: State, rounds: Sequence[Round], events: Sequence[Event]) -> tuple[FileRow, ...]:
    recorded = {each.sha256: each for each in events if each.sha256 is not None}
    files: list[tuple[int | None, Results]] = []
    for asked in rounds:
        files += [(None if state.after_decision(asked) else asked.number, each) for each in asked.files]
    files += [(None, each) for _, each in state.late_files]
    found = []
    for number, each in files:
        event = recorded.get(each.digest)
        found.append(
            FileRow(
                name=each.name,
                round=number,
                results=int(each.counts.sum()),
                rows=each.rows,
                digest=each.digest,
                skipped=each.skipped,
                contradicts=None if each.contradicted is None else each.contradicted.plain(),
                at=None if event is None else event.at,
                by=None if event is None else event.by,
                first_time=None if each.times is None else each.times[0],
                last_time=None if each.times is None else each.times[1],
            )
        )
    return tuple(found)


def _waiting_since(state: State, status: str, events: Sequence[Event]) -> str | None:
    if status != "undecided" or state.over is not None or not events:
        return None
    asked = [each.at for each in events if each.kind == "asked"]
    return asked[-1] if state.awaited_round is not None and asked else events[-1].at


def _write_sentence(state: State, found: Findings, guarantee: Guarantee, decisions: Sequence[ArmDecision] = ()) -> str:
    settings, record, assumed = state.spec, state.trial.record, state.spec.assumed
    for metric in settings.metrics:
        words = metric.noise.words
        assumed = f"{assumed.rstrip('.')}, and of {metric.name} that {words[:1].lower() + words[1:]}"
    limit = "at most" if not guarantee.approximations else "in large samples at most"
    promise = (
        f"the probability of a wrong conclusion is {limit} {share(settings.delta)} at any number of rounds, assuming "
        f"that {assumed[:1].lower() + assumed[1:].rstrip('.')}"
    )
    if guarantee.reasons:
        promise = f"an error probability of {share(settings.delta)} was aimed at, but is not guaranteed"
    elif guarantee.conditions:
        promise += f", provided that {guarantee.provided}"
    what = f"has not concluded ({describe_open(found)})" if found.words is None else f"concluded that {found.words}"
    if verdicts := [f"{each.decision} {each.arm}" for each in decisions if each.decision != "undecided"]:
        what += f", and by all metrics together: {', '.join(verdicts)}"
    came = "1 result" if record.samples == 1 else f"{int(record.samples)} results"
    if settings.list is not None:
        came += f" (of {_whole_list(settings)} for the whole list)"
    return (
        f"With {came} of {len(settings.arms)} arms in {several(int(record.batches), 'round')}, "
        f"{_describe_allocation(settings)} (roundwise {__version__}), the study {what}; {promise}."
    )


def _describe_allocation(settings: StudySpec) -> str:
    if settings.split is None:
        return f"allocated by the {settings.policy.name} policy"
    shares = "equally" if len(set(settings.split)) == 1 else ":".join(f"{each:g}" for each in settings.split)
    return f"split {shares} as fixed in advance, judged by the rule of {settings.policy.name}"


def _next_step(state: State, decided: bool) -> str:
    name, waiting = quote(state.name), state.open_round
    keep = f"{option('report_file', study=name)} makes a report to keep"
    if decided:
        return f"{keep}."
    if state.closed is not None:
        return f"{keep}; the study is closed."
    if state.over is not None and state.spec.policy.stopping.exact_batches:
        return f"{keep}; a new study with {option('wager')} takes rounds of any size."
    if state.over is not None:
        return f"{keep}; what is open was not ruled out."
    if waiting is None:
        stop = f"; {option('end', study=name)} ends the study, and what is shown stands"
        endless = state.spec.question.separate_claims and state.spec.budget is None and bool(state.trial.record.batches)
        return f"{option('ask', study=name)} says what to do next{stop if endless else ''}."
    tell = option("tell", study=name)
    if not waiting.files:
        return f"do round {waiting.number}, then {tell}."
    left = int(waiting.outstanding.sum())
    are, it, them, they = ("is", "", "it", "it") if left == 1 else ("are", "s", "them", "they")
    return (
        f"{left} result{it} of round {waiting.number} {are} still to come: tell {them} with {tell}, or "
        f"{option('close_round', study=name)} if {they} will not."
    )


# --- how large everything is


def measure(
    state: State, claims: Sequence[ClaimStatus], answer: object, courses: Sequence[EvidenceHistory], intervals: bool
) -> tuple[list[ArmRow], list[ClaimRow]]:
    """The arms and what is claimed of them, with bounds where they are wanted; the bets are folded once."""
    settings, hold, margins = state.spec, bounds_hold(state), None
    arms = _list_arms(state)
    forms = [_form_of(state, each) for each in claims]
    leader = answer if isinstance(answer, int) and not isinstance(answer, bool) else None
    batches = state.batches if intervals and hold else []
    if batches:
        bounds = settings.policy.stopping.bounds(settings.problem, state.record, batches, state.trial.kept)
        margins = bounds.margins() if len(claims) <= MANY_CLAIMS else None
        if len(arms) <= MANY_ARMS:
            (lower, upper), gaps = bounds.means(), None if margins is None else bounds.gap_to_leader(leader, margins)
            for i, arm in enumerate(arms):
                arm.lower, arm.upper = _finite(lower[i]), _finite(upper[i])
                if gaps is not None:
                    arm.gap_to_best_lower = None if gaps.best is None else _finite(gaps.best[i])
                    arm.gap_to_leader_lower = None if gaps.least is None else _finite(gaps.least[i])
                    arm.gap_to_leader_upper = _finite(gaps.most[i])
            _compare_with_control(state, arms, bounds, claims, forms)
    by_name = {each.name: each for each in arms}
    sign = settings.question.sign
    best = max((each.mean for each in arms if each.mean is not None), key=lambda mean: sign * mean, default=None)
    since, record = {each.claim: each.shown_at for each in courses}, state.measured
    rows = []
    for i, (claim, form) in enumerate(zip(claims, forms, strict=True)):
        row = _size_claim(state, record, claim, form, by_name, best, None if margins is None else _finite(margins[i]))
        compared = by_name.get(row.compares or "")
        if compared is not None and compared.difference is not None:  # one number for one thing
            ends = _improvement(sign, compared.difference_lower, compared.difference_upper)
            row.lower, row.upper = (row.lower, ends[1]) if row.below else (ends[0], row.upper)
        if row.shown_at is None or state.relaxed is not None:  # its own number is that since the start
            row.shown_at = since.get(claim.words)
        if hold:
            row.lower, row.upper = _include(row.estimate, row.lower, row.upper)
            row.single_lower, row.single_upper = _include(row.estimate, row.single_lower, row.single_upper)
        else:
            row.lower = row.upper = row.single_lower = row.single_upper = row.margins = None
        rows.append(row)
    _drop_useless_bounds(state, arms, rows)
    _include_estimates(arms, sign, best, next((each.mean for each in arms if each.index == leader), None))
    _compare_with_leader(state, arms, leader)
    if not means_hold(state):
        for arm in arms:
            arm.lower = arm.upper = arm.lift_lower = arm.lift_upper = None
            arm.widened = False
    _place_arms(state, arms, rows, answer)
    return arms, rows


def _drop_useless_bounds(state: State, arms: Sequence[ArmRow], claims: Sequence[ClaimRow]) -> None:
    """Leave out bounds of hundreds of deviations, as two rows with an unknown spread give: they say nothing."""
    past = state.spec.policy.stopping.past(state.trial.kept) if state.spec.noise.estimates_variance else None
    if past is None or not (past.freedom > 0).any():
        return
    most = USELESS * math.sqrt(float(np.nanmax(past.own_variances)))

    def kept(estimate: float | None, *ends: float | None) -> list[float | None]:
        return [None if end is None or abs(end - (estimate or 0.0)) > most else end for end in ends]

    for arm in arms:
        arm.lower, arm.upper = kept(arm.mean, arm.lower, arm.upper)
        arm.difference_lower, arm.difference_upper = kept(arm.difference, arm.difference_lower, arm.difference_upper)
        (arm.gap_to_leader_upper,) = kept(0.0, arm.gap_to_leader_upper)
        if arm.difference is not None:
            arm.lift_lower = None if arm.difference_lower is None else arm.lift_lower
            arm.lift_upper = None if arm.difference_upper is None else arm.lift_upper
    for row in claims:
        if row.scale is None:
            row.lower, row.upper = kept(row.estimate, row.lower, row.upper)
            row.single_lower, row.single_upper = kept(row.estimate, row.single_lower, row.single_upper)


def _list_arms(state: State) -> list[ArmRow]:
    """The results of every arm, including recorded ones that do not count yet."""
    record, waiting = state.measured, state.awaited_round
    open_ = None if waiting is None or not waiting.files else waiting.whole
    missing = dict(state.facts.missing)
    for names, each in state.late_files:
        for name, lost in zip(names, [] if each.missing is None else each.missing.tolist(), strict=False):
            missing[name] = missing.get(name, 0) + int(lost)
    found = []
    for i, name in enumerate(state.spec.arms):
        n, early = int(record.counts[i]), 0 if open_ is None else int(open_.counts[i])
        found.append(
            ArmRow(
                name=name,
                index=i,
                results=n,
                mean=float(record.means[i]) if n else None,
                missing=missing.get(name, 0),
                pending=early,
                pending_mean=float(open_.totals[i] / early) if open_ is not None and early else None,
            )
        )
    return found


def _compare_with_control(
    state: State,
    arms: Sequence[ArmRow],
    bounds: Bounds,
    claims: Sequence[ClaimStatus],
    forms: Sequence[LinearForm | None],
) -> None:
    """Add differences from the control, as the rule estimates them if it does, with bounds that agree with the claims.

    Each end is wrong with probability at most 2 delta: half of delta for the bound, delta for the decision. A lift
    takes the difference and the control's own interval together. Where lower is better, claims are about how far an arm
    is below the control: signs change here, and again at the end.
    """
    control, sign = state.spec.question.control, state.spec.question.sign
    if control is None or not arms[control].results:
        return
    found = bounds.against(control) or Interval(np.full(len(arms), -np.inf), np.full(len(arms), np.inf))
    lower, upper = (np.array(each) for each in _improvement(sign, *found))
    estimates: dict[str, float] = {}
    for claim, form in zip(claims, forms, strict=True):
        name = _other_than_control(state, form)
        if form is None or name is None:
            continue
        i, level = state.spec.arms.index(name), form.level
        if claim.estimate is not None:
            estimates[name] = sign * claim.estimate
        lower[i] = max(lower[i], -np.inf if claim.lower is None else claim.lower)
        upper[i] = min(upper[i], np.inf if claim.upper is None else claim.upper)
        if not (claim.shown and not form.below):
            lower[i] = min(lower[i], level)
        elif lower[i] <= level:
            lower[i] = np.nextafter(level, np.inf)
        if not (claim.shown and form.below):
            upper[i] = max(upper[i], level)
        elif upper[i] >= level:
            upper[i] = np.nextafter(level, -np.inf)
    base = arms[control]
    lower, upper = _improvement(sign, lower, np.maximum(lower, upper))
    for arm, low, high in zip(arms, lower.tolist(), upper.tolist(), strict=True):
        if arm.index == control or arm.mean is None or base.mean is None:
            continue
        arm.difference = estimates.get(arm.name, arm.mean - base.mean)
        arm.difference_lower, arm.difference_upper = _finite(low), _finite(high)
        if not _has_positive_mean(state, base):
            continue
        of = float(state.trial.record.means[control]) if arm.name in estimates else base.mean  # before the same results
        arm.lift = arm.difference / of if of > 0 else None
        if base.lower and base.lower > 0 and base.upper is not None:
            arm.lift_lower, arm.lift_upper = _lift_ends(state, low, high, base.lower, base.upper)


def _improvement(sign: float, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The ends of how much better something is, from those of a difference; and back."""
    if sign > 0:
        return lower, upper
    return None if upper is None else -upper, None if lower is None else -lower


def _compare_with_leader(state: State, arms: Sequence[ArmRow], answer: int | None) -> None:
    """Add lifts over the arm that leads, where the best arm is asked for and means are positive.

    A lift takes the gap and the leader's own interval together, as with a control. As long as the leader may not be the
    best, the gap to the best says nothing of how far an arm is behind the leader, at least.
    """
    leader = next((each for each in arms if each.gap_to_leader_upper == 0.0), None)
    if leader is None or leader.mean is None or not _has_positive_mean(state, leader):
        return
    for arm in arms:
        if arm is leader or arm.mean is None:
            continue
        arm.lift = arm.mean / leader.mean - 1
        behind_best = arm.gap_to_best_lower if leader.index == answer else None
        least = behind_best if arm.gap_to_leader_lower is None else arm.gap_to_leader_lower
        most = arm.gap_to_leader_upper
        if leader.lower and leader.lower > 0 and leader.upper is not None and least is not None and most is not None:
            ends = _improvement(-state.spec.question.sign, least, most)
            arm.lift_lower, arm.lift_upper = _include(arm.lift, *_lift_ends(state, *ends, leader.lower, leader.upper))


def _has_positive_mean(state: State, arm: ArmRow) -> bool:
    """Whether relative sizes make sense: the mean of an arm is positive."""
    bounded = state.spec.noise.outcome.low >= 0 or (arm.lower is not None and arm.lower > 0)
    return bounded and arm.mean is not None and arm.mean > 0


def _lift_ends(state: State, low: float, high: float, least: float, most: float) -> tuple[float | None, float | None]:
    """The ends of a difference over a positive mean from `least` to `most`."""
    floor = -1.0 if state.spec.noise.outcome.low >= 0 else -math.inf
    return _finite(max(min(low / least, low / most), floor)), _finite(max(high / least, high / most))


def _size_claim(
    state: State,
    record: Record,
    claim: ClaimStatus,
    form: LinearForm | None,
    arms: dict[str, ArmRow],
    best: float | None,
    margin: float | None,
) -> ClaimRow:
    """A claim with the size of what it is about; sizes that a rule computes itself stay."""
    scale = math.exp if claim.scale == ODDS else float
    estimate = lower = upper = None
    gap = False
    if claim.left is not None:
        mean = arms[claim.left].mean
        if mean is not None and best is not None:
            estimate, lower, gap = abs(best - mean), margin, True
    elif form is not None:
        index, factors = list(form.arms), np.array(form.factors)
        if all(record.counts[index] > 0):
            estimate = float(factors @ record.means[index])
        gap = abs(float(factors.sum())) <= 1e-12 * float(np.abs(factors).sum()) or claim.scale is not None
        if margin is not None:
            lower, upper = (None, form.level - margin) if form.below else (form.level + margin, None)
    found = ClaimRow(
        claim=claim.words,
        shown=claim.shown,
        shown_at=claim.shown_at,
        log_evidence=claim.evidence,
        log_threshold=claim.bar,
        estimate=estimate if claim.estimate is None else scale(claim.estimate),
        lower=lower if claim.lower is None else scale(claim.lower),
        upper=upper if claim.upper is None else scale(claim.upper),
        scale=claim.scale,
        power=claim.chance,
        given_up=claim.given_up,
        margins=margin,
        arm=claim.left,
        gap=gap,
        below=claim.opposite or (form is not None and form.below),
        compares=_other_than_control(state, form),
        label=claim.label,
        log_adjusted=claim.adjusted,
        single_lower=claim.single_lower,
        single_upper=claim.single_upper,
    )
    if form is None or claim.scale in (None, ODDS):
        return found
    found = _as_ratio(found, form, record.means, state.spec.noise.outcome)
    return _invert_ratio(found) if state.spec.question.lower_is_better and found.scale == RATIO else found


def _as_ratio(claim: ClaimRow, form: LinearForm, means: Floats, outcome: Outcome) -> ClaimRow:
    """A claim y - r p > 0 with y/p for its size, where no result is below 0; any other as it is.

    What is bounded is y - r p. From y - r p >= L >= 0 follows y/p >= r + L/p, and p is at most the largest result;
    where L < 0 nothing follows, as p may be as small as it likes: there is no bound then. Likewise above.
    """
    if form.level != 0 or not outcome.low >= 0:
        return claim
    (y, p), factors = form.arms, form.factors
    if factors[0] < 0:
        y, p, factors = p, y, factors[::-1]
    margin = -factors[1] / factors[0]

    def bound(of: float | None, side: int, decided: bool = False) -> float | None:
        return margin + of / outcome.high if of is not None and (side * of > 0 or decided) else None

    return replace(
        claim,
        scale=RATIO,
        margin=margin,
        estimate=float(means[y] / means[p]) if claim.estimate is not None and means[p] > 0 else None,
        lower=bound(claim.lower, 1, claim.shown and not claim.below),  # the bound of a decision is on its side of 0
        upper=bound(claim.upper, -1, claim.shown and claim.below),
        single_lower=bound(claim.single_lower, 1),
        single_upper=bound(claim.single_upper, -1),
    )


def _invert_ratio(claim: ClaimRow) -> ClaimRow:
    """Where lower is better, the ratio of an arm to the control in place of the control to the arm."""

    def inverse(value: float | None) -> float | None:
        return 1 / value if value else None

    return replace(
        claim,
        margin=inverse(claim.margin),
        estimate=inverse(claim.estimate),
        lower=inverse(claim.upper),
        upper=inverse(claim.lower),
        single_lower=inverse(claim.single_upper),
        single_upper=inverse(claim.single_lower),
    )


def _other_than_control(state: State, form: LinearForm | None) -> str | None:
    control = state.spec.question.control
    if control is None or form is None or len(form.arms) != 2 or control not in form.arms:
        return None
    return state.spec.arms[next(i for i in form.arms if i != control)]


def _form_of(state: State, claim: ClaimStatus) -> LinearForm | None:
    """The form that a claim is about; a statement and its negation have the same one."""
    form, question = claim.about, state.spec.question
    if form is None or question.forms is None or question.levels is None or question.separate_claims:
        return form
    dense = np.zeros(question.forms.shape[1])
    dense[list(form.arms)] = form.factors
    if (question.forms == dense).all(axis=1).any() or not (question.forms == -dense).all(axis=1).any():
        return form
    return form._replace(factors=tuple(-each for each in form.factors), level=-form.level, below=True)


def _include(estimate: float | None, lower: float | None, upper: float | None) -> tuple[float | None, float | None]:
    """The ends of an interval, extended to the estimate if that lies outside."""
    if estimate is None:
        return lower, upper
    return None if lower is None else min(lower, estimate), None if upper is None else max(upper, estimate)


def _include_estimates(arms: Sequence[ArmRow], sign: float, best: float | None, leading: float | None) -> None:
    """Extend bounds that leave out their own estimate: a wider interval holds where a narrower one does."""
    for arm in arms:
        if arm.mean is None or best is None:
            continue
        lower, upper, beyond = arm.lower, arm.upper, ROUNDING * abs(arm.mean)
        arm.lower, arm.upper = _include(arm.mean, lower, upper)
        arm.widened = (lower is not None and arm.mean < lower - beyond) or (
            upper is not None and arm.mean > upper + beyond
        )
        arm.gap_to_best_lower, _ = _include(sign * (best - arm.mean), arm.gap_to_best_lower, None)
        if leading is not None and arm.gap_to_leader_upper != 0.0:
            ends = _include(sign * (leading - arm.mean), arm.gap_to_leader_lower, arm.gap_to_leader_upper)
            arm.gap_to_leader_lower, arm.gap_to_leader_upper = ends
        arm.difference_lower, arm.difference_upper = _include(
            arm.difference, arm.difference_lower, arm.difference_upper
        )
        arm.lift_lower, arm.lift_upper = _include(arm.lift, arm.lift_lower, arm.lift_upper)


def _place_arms(state: State, arms: Sequence[ArmRow], claims: Sequence[ClaimRow], answer: object) -> None:
    """Say which arms may still be the best, which are out, and which are the answer."""
    out = {each.arm for each in claims if each.arm is not None and each.shown}
    about_arms = any(each.arm is not None for each in claims)
    for arm in arms:
        if about_arms:
            left = "the only one left" if len(out) == len(arms) - 1 else "in the running"
            arm.place = "out" if arm.name in out else left
        elif isinstance(answer, int | list) and not isinstance(answer, bool) and not state.spec.question.names:
            if isinstance(answer, list) and arm.index in answer:
                arm.place = "in the answer"
            elif arm.index == answer:
                arm.place = "the answer"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def trace_evidence(
    state: State, entries: Sequence[Entry], claims: Sequence[ClaimStatus]
) -> tuple[EvidenceHistory, ...]:
    """The evidence after every round, as it was recorded, for each claim that is made now."""
    settings = state.spec
    checkpoints = sum(entry.kind == EventKind.CHECKPOINT for entry in entries)
    if not entries or not claims or max(len(claims), checkpoints) > MOST_TRACED:
        return ()
    found: dict[str, dict[int, tuple[float, float, bool]]] = {each.words: {} for each in claims}
    anew = False  # whether the next count is of all rounds: what was won in each is not recorded again
    for entry in entries:
        anew |= entry.kind in (EventKind.AMENDED, EventKind.RELAXED) or bool(entry.payload.get("unrelated"))
        if entry.kind != EventKind.CHECKPOINT:
            continue
        if anew:
            found, anew = {words: {} for words in found}, False
        try:
            trial = restore_trial(settings, entry.payload)
        except (Unreadable, KeyError, TypeError, ValueError):  # of other arms, or of a version that is not known
            continue
        if settings.question.separate_claims:  # without bounds, in the order of the claims
            columns = (each.tolist() for each in evidence(settings, trial))
            then = {each.words: at for each, at in zip(claims, zip(*columns, strict=True), strict=True)}
        else:
            now = settings.policy.stopping.claims(settings.problem, trial, settings.arms)
            then = {each.words: (each.evidence, each.bar, each.shown) for each in now}
        for words in found.keys() & then.keys():
            found[words][int(entry.payload["round"])] = then[words]
    courses = []
    for words, steps in found.items():
        won, bars, shown = zip(*steps.values(), strict=True) if steps else ((), (), ())
        since = None
        for number in reversed(steps):
            if not steps[number][2]:
                break
            since = number
        courses.append(EvidenceHistory(words, tuple(steps), won, bars, bool(shown) and shown[-1], since))
    return tuple(courses)
