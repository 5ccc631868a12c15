"""A report in words: the headline and what it means, the tables as cells for people, and the report for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from roundwise.messages import Guarantee, GuaranteeStatus, count, day, few, several, visible
from roundwise.messages import number as amount
from roundwise.questions import Above, BestArm, BestGroup, Claims, Linear, Question, SomeBeyond
from roundwise.questions.claims import ODDS
from roundwise.report.model import (
    RATIO,
    TINY,
    ArmDecision,
    ArmRow,
    ClaimRow,
    MetricRow,
    ReportData,
    Side,
    Units,
    decimals,
    number,
    odds,
    per_cent,
    progress,
    sentence,
    share,
)

MOST = 60  # rows of a table; programs get all
Say = Callable[..., str]  # writes a number, rounded to a side
Table = list[list[str]]  # the titles, and then the rows

_BLANK = "\ue000"  # stands for a blank at which no line may end
_TOGETHER = re.compile(r"`[^`]*`|\d %|± \d")  # commands that people copy; numbers with their signs


# --- the headline


class Findings(NamedTuple):
    """The facts behind a headline."""

    question: Question
    arms: Sequence[ArmRow]  # the best first
    claims: Sequence[ClaimRow]
    units: Units
    control: str | None
    answer: Any  # by name, as JSON
    words: str | None  # of the answer, in the words of the question
    ended: bool = False  # whether nothing more is asked for: what is open is not shown any more
    confidence: str = ""  # of a shortlist that is the end of a study
    scope: str | None = None  # "On this list", where the answer is about no more than that
    tied: tuple[str, ...] = ()  # arms that share the first place

    @property
    def open(self) -> str:
        """The word for claims that are not shown."""
        return "not shown" if self.ended else "open"

    def sized(self, arm: ArmRow) -> str:
        """An arm with its mean."""
        return arm.name if arm.mean is None else f"{arm.name} ({self.units.value(arm.mean)})"

    def ahead(self, arm: ArmRow) -> str:
        """An arm with how far it is ahead of the control."""
        if arm.difference is None:
            return arm.name
        gap, lower = self.units.gap, self.question.lower_is_better
        size = f"{'+' if arm.difference > 0 else '-'}{gap(abs(arm.difference))}"
        bound = arm.difference_upper if lower else arm.difference_lower  # the end that is nearer to the control
        if bound is None or self.question.sign * bound <= TINY:
            return f"{arm.name} ({size})"
        least = f"at least {gap(-bound, 'down')} below" if lower else f"at least +{gap(bound, 'down')}"
        return f"{arm.name} ({size}, {least})"

    def lead(self, least: float, behind: ArmRow) -> str:
        """A lead over an arm of at least this, also in per cent of the other mean where means are positive."""
        size = self.units.gap(least, "down")
        if behind.lift is None or not behind.upper:
            return size
        relative = least / behind.upper
        return f"{size} ({per_cent(relative, 'down', digits=1)})" if relative >= 0.001 else size

    def near(self, what: str) -> str:
        """', or within 2 points of it'; nothing without a tolerance."""
        tolerance = self.question.tolerance
        return f", or within {self.units.wording.gap(tolerance)} {what}" if tolerance else ""


def write_headline(found: Findings, why: str) -> str:
    """The answer with its size, or else `why` there is none, and what is shown and what is open."""
    if found.words is None:
        return f"{why}. {describe_open(found)}"
    written = next((words for kind, words in ANSWERS if isinstance(found.question, kind)), _describe_other)(found)
    if found.scope is None or written is None:
        return written or found.words
    named = any(written.startswith(each.name) for each in found.arms)
    return f"{found.scope}, {written if named else written[:1].lower() + written[1:]}"


def name_answer(question: Question, answer: Any, arms: Sequence[str]) -> Any:
    """An answer as JSON, with names in place of indices: of arms, or of what the question names itself."""
    names = question.answer_names(arms)
    if answer is None or isinstance(answer, bool):
        return answer
    return [names[int(i)] for i in answer] if isinstance(answer, list) else names[int(answer)]


def describe_open(found: Findings) -> str:
    """The part of a headline on shown and open claims."""
    if not any(each.results for each in found.arms):
        early = sum(each.pending for each in found.arms)
        if early == 1:
            return "1 result waits for the rest of its round"
        return f"{count(early)} results wait for the rest of their round" if early else "No results yet"
    if not found.claims:
        return "Nothing has been ruled out"
    if found.claims[0].arm is not None:
        return _describe_candidates(found)
    if found.question.separate_claims:
        return _describe_claims(found)
    shown = [each for each in found.claims if each.shown]
    waiting = [each for each in found.claims if not each.shown]
    arms = {each.name: each for each in found.arms}
    beats = [each for each in shown if not each.below and each.compares in arms]
    if found.control is not None and beats:
        ahead = few([found.ahead(arms[each.compares or ""]) for each in beats], 6)
        others = [each.claim for each in shown if each not in beats]
        more = f"; {few(others, 6)}" if others else ""
        rest = few([each.claim for each in waiting], 6)
        return f"Shown: {ahead} against {found.control}{more}; {found.open}: {rest}"
    parts = [] if shown else ["Nothing is shown" if found.ended else "Nothing is shown yet"]
    groups = {
        "Shown": shown,
        found.open: [each for each in waiting if not each.given_up],
        "given up": [each for each in waiting if each.given_up],
    }
    parts += [f"{word}: {few([each.claim for each in group], 6)}" for word, group in groups.items() if group]
    return "; ".join(parts)


def _describe_candidates(found: Findings) -> str:
    out = {each.arm for each in found.claims if each.shown}
    left = [each for each in found.arms if each.name not in out]
    gone = [each.name for each in found.arms if each.name in out]
    if not out:
        leader = next((each for each in left if each.mean is not None), None)
        lead = "" if leader is None else f"; {found.sized(leader)} leads"
        return f"Any of the {len(found.arms)} arms may be the best{lead}"
    if not left:
        return "Every arm is ruled out"
    candidates = few([found.sized(each) for each in left], 6, "or" if len(left) <= 6 else "and")
    one_of = "One of " if len(left) > 6 else ""
    sure = f" ({found.confidence})" if found.confidence else ""
    return f"{one_of}{candidates} is the best{sure}; {few(gone, 6)} {'is' if len(gone) == 1 else 'are'} out"


def _describe_best(found: Findings) -> str | None:
    first = next((each for each in found.arms if each.name == found.answer), None)
    if first is None or first.mean is None:
        return None
    if found.tied:
        return f"{few(list(found.tied))} share the first place: {found.units.value(first.mean)}"
    lower = found.question.lower_is_better
    which = found.units.lowest if lower else "is best"
    best = f"{first.name} {which}{found.near('of it')}: {found.units.value(first.mean)}"
    second = next((each for each in found.arms if each is not first and each.mean is not None), None)
    if second is None:
        return best
    if found.question.tolerance or not second.gap_to_best_lower:
        return f"{best}; the next is {found.sized(second)}"
    least = min(each.gap_to_best_lower or 0.0 for each in found.arms if each is not first)
    if least <= TINY < second.gap_to_best_lower:  # some that were dropped early are known less well
        least = second.gap_to_best_lower
    if least <= TINY:
        return f"{best}, ahead of {found.sized(second)}"
    nearest = least == second.gap_to_best_lower
    lead = found.lead(least, second) if nearest else found.units.gap(least, "down")
    whom = second.name if nearest else "every other arm"
    return f"{best}, at least {lead} below {whom}" if lower else f"{best}, ahead of {whom} by at least {lead}"


def _describe_sides(found: Findings) -> str | None:
    level = found.units.wording.value(found.question.level or 0.0) + found.near("of it")
    inside = few([found.sized(each) for each in found.arms if each.name in found.answer])
    others = few([found.sized(each) for each in found.arms if each.name not in found.answer])
    side, rest = ("below", "above") if found.question.lower_is_better else ("above", "below")
    if not found.answer:
        return f"No arm is {side} {level}; {rest}: {others}"
    return f"{side.capitalize()} {level}: {inside}" + (
        f"; {rest}: {others}" if len(found.answer) < len(found.arms) else ""
    )


def _describe_any_beyond(found: Findings) -> str | None:
    question, measured = found.question, [each for each in found.arms if each.mean is not None]
    if not measured:
        return None
    level = found.units.wording.value(question.level or 0.0) + found.near("of it")
    choose, side, end = (min, "below", "lowest") if question.lower_is_better else (max, "above", "highest")
    extreme = choose(measured, key=lambda arm: arm.mean or 0.0)
    some = "Some" if found.answer else "No"
    return f"{some} {found.units.wording.mean} is {side} {level}; the {end} is that of {found.sized(extreme)}"


def _describe_other(found: Findings) -> str | None:
    if not isinstance(found.answer, list):
        return None
    if found.control is not None:
        return _describe_beating(found)
    if not (set(found.answer) <= {each.name for each in found.arms} and found.question.number_sought):
        return None
    ranked = [each for each in found.arms if each.name in found.answer]
    rest = [each for each in found.arms if each.name not in found.answer and each.mean is not None]
    following = f"; the next is {found.sized(rest[0])}" if rest else ""
    if found.scope is not None and rest and (rest[0].mean, rest[0].results) == (ranked[-1].mean, ranked[-1].results):
        level = [each.name for each in rest if each.mean == rest[0].mean]  # at the end of a list: either is right
        following = f"; {few(level)} {'ties' if len(level) == 1 else 'tie'} with {ranked[-1].name}"
    top = "lowest" if found.question.lower_is_better else "top"
    return f"The {top} {len(ranked)}{found.near('of them')}: {few([found.sized(each) for each in ranked])}{following}"


def _describe_beating(found: Findings) -> str | None:
    margin = found.question.margin
    if margin is None:
        return None
    by = (f" by more than {found.units.wording.gap(margin)}" if margin else "") + found.near("of that")
    beat = {each.compares for each in found.claims if each.shown and not each.below}
    sizes = [found.ahead(each) for each in found.arms if each.name in beat]
    others = [each.name for each in found.arms if each.name not in beat and each.name != found.control]
    verb, verbs = ("is below", "are below") if found.question.lower_is_better else ("beats", "beat")
    if not sizes:
        return f"No arm {verb} {found.control}{by}"
    singular, plural = ("is", "are") if found.question.lower_is_better else ("does", "do")
    rest = f"; {few(others)} {singular if len(others) == 1 else plural} not" if others else ""
    return f"{few(sizes)} {verb if len(sizes) == 1 else verbs} {found.control}{by}{rest}"


def _describe_claims(found: Findings) -> str:
    """'Shown: 300mg (+17.7 points, at least +4.1). Open: 75mg and 150mg. Given up: 25mg'"""
    arms = {each.name: each for each in found.arms}
    shown = [
        found.ahead(arms[each.compares]) if each.compares in arms and not each.below else each.claim
        for each in found.claims
        if each.shown
    ]
    settled = {each.label for each in found.claims if each.shown}
    rest = [each for each in found.claims if not each.below and each.label not in settled]
    groups = {
        "Shown": shown or ["nothing"],
        found.open.capitalize(): [each.label or each.claim for each in rest if not each.given_up],
        "Given up": [each.label or each.claim for each in rest if each.given_up],
    }
    return ". ".join(f"{word}: {few(names, 6)}" for word, names in groups.items() if names)


ANSWERS: tuple[tuple[type[Question], Callable[[Findings], str | None]], ...] = (  # None: in the question's own words
    (BestArm, _describe_best),
    (Above, _describe_sides),
    (SomeBeyond, _describe_any_beyond),
    (Claims, _describe_claims),
    (Linear, lambda found: None),
)


def write_subheadline(report: ReportData) -> str:
    """A sentence under the headline: how sure the shortlist, or the answer, is."""
    if report.guarantee.status is GuaranteeStatus.VOID:
        return "The red box counts, not this one: nothing is guaranteed any more." if report.results else ""
    sure = share(1 - report.delta) + describe_proviso(report.guarantee)
    red = " The red box says what to check before you rely on it." if report.dangers else ""
    if report.guarantee.status is GuaranteeStatus.CONDITIONAL:
        red = " It counts only if the statements in the red box are true."
    if report.status == "decided":
        return f"An answer like this is right with probability at least {sure}.{red}"
    if not report.results or not report.claim_rows:
        return ""
    if report.claim_rows[0].arm is not None:
        return (
            f"The arms still in the running include the best with probability at least {sure}.{red} If you must stop "
            "today, report all of them, not just the leader."
        )
    return f"Everything shown is true with probability at least {sure}.{red} What is open has not been refuted."


def describe_proviso(guarantee: Guarantee) -> str:
    """What follows a probability: ' in large samples', ' if results are normal', or nothing."""
    return (" in large samples" if guarantee.approximations else "") + guarantee.proviso


def describe_odds_of_error(delta: float) -> str:
    """A probability as people count: 5 in 100.

    >>> describe_odds_of_error(0.05), describe_odds_of_error(0.001), describe_odds_of_error(0.025)
    ('5 in 100', '1 in 1\\xa0000', '25 in 1\\xa0000')
    """
    of = 100
    while of < 10**9 and abs(delta * of - round(delta * of)) > 1e-9:
        of *= 10
    return f"{count(round(delta * of))} in {count(of)}"


def explain_meaning(report: ReportData) -> list[str]:
    """The result, its certainty and the next step, for decision makers without statistics."""
    out, every = [each.name for each in report.arm_rows if each.place == "out"], len(report.arm_rows)
    if report.status == "decided":
        known = "The study is decided: the answer above is final."
    elif not report.results:
        known = "Nothing is known yet: no round is complete."
    elif out:
        are = "is" if len(out) == 1 else "are"
        left = f"{count(every - len(out))} of {count(every)}"
        known = f"{few(out, 4)} {are} out; {left} are still in the running."
    elif any(each.shown for each in report.claim_rows):
        known = "Some claims are shown permanently; the rest are still open."
    else:
        known = "Nothing is ruled out yet: the current leader may lead by chance."
    often = describe_odds_of_error(report.delta)
    proviso = report.guarantee.proviso
    sure = f"Of many studies like this one, at most {often} say something wrong{proviso}, however often you look."
    if report.guarantee.approximations:
        sure = f"In large samples, at most {often} studies like this one say something wrong, however often you look."
    if report.guarantee.status is GuaranteeStatus.CONDITIONAL:
        sure += " This holds only if the statements in the red box are true."
    elif report.guarantee.status is GuaranteeStatus.VOID:
        sure = "There is no guarantee; the red box says why. Treat the results as a hint."
    if report.status == "decided":
        act = "You can act on it. "
        if report.dangers or report.guarantee.status in (GuaranteeStatus.CONDITIONAL, GuaranteeStatus.VOID):
            act = "Check what the red box says before you act on it. "
        advice = f"{act}More results make the numbers more precise but do not change the answer."
    elif report.status == "closed":
        advice = "The study was closed. Report everything that is still possible, not just the leader."
    elif report.results and report.claim_rows and report.claim_rows[0].arm is not None:
        advice = "If you must stop today, report every arm still in the running, not just the leader."
    else:
        advice = "If you must stop today, report only what is shown."
    return [known, sure, advice]


# --- the tables


class Column(NamedTuple):
    """A column of a table for people."""

    title: str
    cells: list[str]
    numeric: bool = False  # aligned to the right
    kind: str = ""  # for surfaces that show only some columns: lift, place, size


def as_rows(columns: Sequence[Column]) -> Table:
    """The titles of a table and its rows."""
    rows = zip(*(each.cells for each in columns), strict=True)
    return [[each.title for each in columns], *([visible(cell) for cell in row] for row in rows)]


def arm_table(report: ReportData, most: int = MOST) -> list[Column]:
    """The arms, best first, without empty columns."""
    every, units = report.ranked, report.units
    arms = every[:most]
    shares = [each.mean for each in arms if each.mean is not None]
    least = min(max(map(decimals, shares), default=1) or 1, 2)  # of rates in one column
    columns = [
        Column("arm", [each.name for each in arms]),
        Column("results", [count(each.results) for each in arms], True),
    ]
    means, ends = [], []
    for each in arms:
        say: Say = units.value
        if units.rates:  # bounds have the decimals of the mean
            say = partial(per_cent, digits=max(decimals(each.mean or 0.0), least))
        means.append("-" if each.mean is None else say(each.mean) + (" *" if each.widened else ""))
        ends.append(_describe_interval(say, units.sign_first, each.lower, each.upper))
    columns.append(Column(units.wording.mean, means, True))
    if any(each.lower is not None or each.upper is not None for each in every):
        complete = all(each.lower is not None and each.upper is not None for each in arms)
        columns.append(Column(report.ends, ends, complete))
    if any(each.difference is not None for each in every):
        differences = [_describe_difference(report, each) for each in arms]
        columns.append(Column(f"against {report.control}", differences))
    if any(each.gap_to_leader_upper is not None for each in every):
        columns.append(Column("behind the leader by", [_describe_gap(report, each) for each in arms]))
    if any(each.lift is not None for each in every):
        base = "the leader" if report.control is None else report.control
        columns.append(Column(f"lift over {base}", [_describe_lift(each) for each in arms], kind="lift"))
    if any(each.place or each.gap_to_best_lower is not None for each in every):
        rows = {each.arm: each for each in reversed(report.claim_rows) if each.arm is not None}
        places = [_describe_place(report, each, rows.get(each.name)) for each in arms]
        columns.append(Column("", places, kind="place"))
    if any(each.missing for each in every):
        columns.append(Column("missing", [count(each.missing) for each in arms], True))
    if report.pending > 0:
        cells = [
            count(each.pending) + ("" if each.pending_mean is None else f", {units.value(each.pending_mean)}")
            if each.pending
            else "-"
            for each in arms
        ]
        columns.append(Column("pending", cells, True))
    return columns


def _describe_interval(say: Say, sign_first: bool, lower: float | None, upper: float | None) -> str:
    """From the lower to the upper bound; the unit is written once."""
    if lower is None:
        return "no bound yet" if upper is None else f"at most {say(upper, 'up')}"
    if upper is None:
        return f"at least {say(lower, 'down')}"
    return f"{say(lower, 'down', unit=sign_first)} to {say(upper, 'up', unit=not sign_first)}"


def _describe_difference(report: ReportData, arm: ArmRow) -> str:
    if arm.name == report.control:
        return "-"
    if arm.difference is None:
        return "?"
    say = partial(_describe_signed, report.units)
    return _add_ends(say(arm.difference, "near", True), say, arm.difference_lower, arm.difference_upper)


def _describe_signed(units: Units, value: float, side: Side, unit: bool = False) -> str:
    """A difference with its sign, but for one that is next to nothing."""
    size = units.gap(value, side, unit).lstrip("-")
    return size if abs(value) < TINY else f"-{size}" if value < 0 else f"+{size}"


def _add_ends(text: str, say: Callable[[float, Side], str], lower: float | None, upper: float | None) -> str:
    """An estimate with its bounds, as far as there are any."""
    if upper is None:
        return text if lower is None else f"{text} (at least {say(lower, 'down')})"
    if lower is None:
        return f"{text} (at most {say(upper, 'up')})"
    return f"{text} ({say(lower, 'down')} to {say(upper, 'up')})"


def _describe_lift(arm: ArmRow) -> str:
    if arm.lift is None:
        return "-"

    def signed(value: float) -> str:
        return f"{100 * value:+.1f}" if abs(value) >= 0.0005 else "0.0"

    text = f"{signed(arm.lift)} %"
    if arm.lift_lower is None or arm.lift_upper is None:
        return text
    return f"{text} ({signed(arm.lift_lower)} to {signed(arm.lift_upper)})"


def _describe_gap(report: ReportData, arm: ArmRow) -> str:
    """How far behind the leader: from what is shown to the bound."""
    gap, most = report.units.gap, arm.gap_to_leader_upper
    if most == 0.0:
        return "leads"
    best = arm.gap_to_best_lower if report.status == "decided" else None  # else the leader may not be the best
    least = best if arm.gap_to_leader_lower is None else arm.gap_to_leader_lower
    if least is None or least <= 0:
        return "no bound yet" if most is None else f"at most {gap(most, 'up')}"
    return _describe_interval(gap, report.units.sign_first, least, most)


def _describe_place(report: ReportData, arm: ArmRow, row: ClaimRow | None) -> str:
    if row is None or (not row.shown and report.status == "decided"):
        return arm.place
    if not row.shown:
        return f"{progress(row.log_evidence, row.log_threshold)} out"
    out = "out" if row.shown_at is None else f"out, round {row.shown_at}"
    if arm.gap_to_best_lower is None or arm.gap_to_leader_upper is not None:
        return out
    return f"{out}; behind by {_at_least(report, arm.gap_to_best_lower)}"


def _at_least(report: ReportData, bound: float) -> str:
    """A bound from below; one that is next to nothing has no number."""
    return "more than 0" if bound < TINY else f"at least {report.units.gap(bound, 'down')}"


def list_decisions(decisions: Sequence[ArmDecision]) -> list[str]:
    """The decisions on arms, one sentence each."""
    found = [each for each in decisions if each.decision != "undecided"]
    return [f"{each.decision.capitalize()} {each.arm}: {each.why}." for each in found]


def decision_table(report: ReportData) -> list[Column]:
    """The table of decisions on arms, with reasons."""
    return [
        Column("arm", [each.arm for each in report.decisions]),
        Column("decision", [each.decision for each in report.decisions]),
        Column("because", [each.why for each in report.decisions]),
    ]


def metric_table(report: ReportData) -> list[Column]:
    """The table of metrics, arm by arm."""
    rows = report.metric_rows
    return [
        Column("arm", [each.arm for each in rows]),
        Column("metric", [f"{each.metric} ({each.role})" for each in rows]),
        Column(f"against {report.control or 'the control'}", [_describe_metric(each) for each in rows]),
        Column("claim", [each.claim for each in rows]),
        Column("", [_describe_metric_status(each) for each in rows]),
    ]


def _describe_metric(row: MetricRow) -> str:
    """The difference from the control with its bounds, or the ratio."""
    signed, text = partial(_describe_signed, row.units), "?"
    if row.difference is not None:
        text = signed(row.difference, "near", True) if row.scale is None else number(row.difference)
    if row.scale is None:
        return _add_ends(text, signed, row.difference_lower, row.difference_upper)
    return _add_ends(f"{text} ({row.scale})", number, row.difference_lower, row.difference_upper)


def _describe_metric_status(row: MetricRow) -> str:
    if row.shown:
        return "shown" if row.shown_at is None else f"shown, round {row.shown_at}"
    if row.refuted:
        return f"refuted: {row.refutation}"
    return f"open, {progress(row.log_evidence, row.log_threshold)}"


def file_table(report: ReportData) -> list[Column]:
    """The files, the last first."""
    files = report.files[: -MOST - 1 : -1]
    return [
        Column("file", [visible(each.name, 80) for each in files]),
        Column("round", ["after the decision" if each.round is None else str(each.round) for each in files]),
        Column("results", [count(each.results) for each in files], True),
        Column("recorded", ["" if each.at is None else day(each.at) for each in files]),
        Column("by", [each.by or "" for each in files]),
    ]


def round_table(report: ReportData) -> list[Column]:
    """The rounds: what was asked, what came."""
    found: dict[int, list[int]] = {}
    counted = {}
    for each in report.round_rows:
        sums = found.setdefault(each.round, [0, 0, 0])
        for i, more in enumerate((each.asked, each.results, bool(each.results))):
            sums[i] += more
        counted[each.round] = each.counted
    rounds = list(found)[-MOST:]
    open_ = "after the decision" if report.status == "decided" else "still open"
    return [
        Column("round", [str(each) for each in rounds], True),
        Column("asked", [count(found[each][0]) for each in rounds], True),
        Column("results", [count(found[each][1]) for each in rounds], True),
        Column("arms", [str(found[each][2]) for each in rounds], True),
        Column("", ["" if counted[each] else open_ for each in rounds]),
    ]


EVIDENCE = (
    "Each line is something that must be shown before the study may stop, with the odds won for it so far and the odds "
    "needed. The study stops when enough lines are shown: this table is the stopping rule."
)
BOUNDS = " Bounds are one-sided, {units}; each is wrong with at most twice the error probability of the study."
ONE_BY_ONE = (
    "Each line is shown separately and permanently, once the odds won for it reach the odds needed. These fall as "
    "other lines are shown. The study stops when {settled}, when its budget is used up, or when the rest of the budget "
    "is unlikely to show more. What is open then has been neither shown nor refuted. Intervals of arms have a level of "
    "their own: where one seems to contradict a line here, the line counts."
)
ALL_BOUNDS = " Bounds are one-sided, {units}; the notes say what they guarantee."


def has_claim_table(report: ReportData) -> bool:
    """Whether claims have a separate table; those that rule out arms are shown with the arms."""
    return bool(report.claim_rows) and report.claim_rows[0].arm is None


def claim_table(report: ReportData) -> list[Column]:
    """The table of claims, with sizes."""
    rows: Sequence[ClaimRow] = report.claim_rows
    rows = rows if len(rows) <= MOST else sorted(rows, key=lambda each: each.log_evidence)[:MOST]
    needed = [odds(each.log_threshold) for each in rows]
    won = [
        f"almost {bar}" if bar == odds(each.log_evidence) and not each.shown else odds(each.log_evidence)
        for each, bar in zip(rows, needed, strict=True)
    ]
    columns = [
        Column("to be shown", [each.claim for each in rows]),
        Column("evidence", won, True),
        Column("needed", needed, True),
        Column("", [_describe_status(report, each) for each in rows]),
    ]
    if any(size is not None for each in rows for size in (each.estimate, each.lower, each.upper)):
        columns.append(Column("so far", [_describe_size(report, each) for each in rows], kind="size"))
    if any(each.power is not None for each in rows):
        chances = ["" if each.power is None else f"{100 * each.power:.0f} %" for each in rows]
        columns.append(Column("forecast", chances, True))
    return columns


def describe_evidence(report: ReportData) -> str:
    """How to read the table of claims."""
    rows = report.claim_rows
    units = "in the units of the results"
    if any(each.scale == RATIO for each in rows):
        units = "as ratios"
    elif any(each.scale == ODDS for each in rows):
        units = "as odds ratios"
    elif report.units.rates:
        units = "rates in per cent, differences in percentage points"
    one_by_one = any(each.label is not None for each in rows)  # claims, each of which has a name
    text, bounds = (ONE_BY_ONE, ALL_BOUNDS) if one_by_one else (EVIDENCE, BOUNDS)
    settled = "one side of each claim is shown" if any(each.below for each in rows) else "all lines are shown"
    bounded = any(each.lower is not None or each.upper is not None for each in rows)
    return text.format(settled=settled) + (bounds.format(units=units) if bounded else "")


def _describe_status(report: ReportData, claim: ClaimRow) -> str:
    if claim.shown:
        return "shown" if claim.shown_at is None else f"shown in round {claim.shown_at}"
    if claim.arm is not None and report.status == "decided":
        return "the only one left"
    if claim.label is not None and any(each.shown and each.label == claim.label for each in report.claim_rows):
        return "other side shown"
    return "given up" if claim.given_up else "not shown" if report.status == "decided" else "open"


def _describe_size(report: ReportData, claim: ClaimRow) -> str:
    """The estimate of what a claim is about, with its bound."""
    estimate, lower, upper = claim.estimate, claim.lower, claim.upper
    if claim.scale == RATIO and claim.margin is not None:
        parts = [] if estimate is None else [number(estimate)]
        direction = "be below" if report.lower_is_better else "exceed"
        shown, than = "shown" if claim.shown else "not shown", "be at most" if claim.below else direction
        parts.append(f"{shown} to {than} {claim.margin:g}")
        parts += [f"at least {number(lower, 'down')}"] if lower is not None and lower > claim.margin + TINY else []
        parts += [f"at most {number(upper, 'up')}"] if upper is not None and upper < claim.margin - TINY else []
        return f"{RATIO} {', '.join(parts)}"
    if claim.arm is not None:  # how far the arm is behind the best
        if lower is not None and claim.shown:
            return f"behind by {_at_least(report, lower)}"
        return "" if estimate is None else f"{report.units.gap(estimate)} behind" if estimate else "leads"
    say: Say = report.units.gap if claim.gap else report.units.value
    if claim.scale == ODDS:
        say = number
    # a bound that just agrees with the decision lies beyond what was asked, by an amount that no digit shows
    agrees = claim.shown and claim.compares is None and claim.margins is not None and claim.margins < TINY
    parts = [] if estimate is None else [say(estimate, "near")]
    if lower is not None:
        parts.append(f"{'above' if agrees or 0 < abs(lower) < TINY else 'at least'} {say(lower, 'down')}")
    if upper is not None:
        parts.append(f"{'below' if agrees or 0 < abs(upper) < TINY else 'at most'} {say(upper, 'up')}")
    of = "" if claim.scale is None or not parts else f"{claim.scale} " if claim.scale == ODDS else f"{claim.scale}: "
    return of + ", ".join(parts)


# --- for a terminal, and the sentences that all forms share


def render_text(report: ReportData, width: int | None) -> str:
    """The report for a terminal of this width, or for one without end."""

    def aligned(columns: Sequence[Column]) -> str:
        if width is not None and sum(max(map(len, [each.title, *each.cells])) + 2 for each in columns) - 2 > width:
            columns = [each for each in columns if each.kind != "lift"]  # the other forms of the report have it
        return "\n".join(align_table(as_rows(columns), [each.numeric for each in columns], width))

    before = [*render_top(report), *(f"Note: {each}" for each in report.waiting), ""]
    before += [f"{report.study}: {report.question_text}"]
    before += [f"{describe_extent(report)}; {describe_error(report)}."]
    before += [f"{report.assumptions} {describe_history(report)}".strip(), ""]
    legend = describe_places(report)
    after = [f"Still to come: {describe_outstanding(report)}.", ""] if report.remaining else []
    after += [f"Note: {each}" for each in report.notes if each not in report.waiting]
    after += [] if report.forecast is None else [f"Forecast: {report.forecast}."]
    after += [] if report.digest is None else [f"The record ends with {report.digest}."]
    blocks = [wrap_text(visible(line), width) for line in before] + [aligned(arm_table(report)), ""]
    blocks += [wrap_text(legend, width), ""] if legend else []
    blocks += [aligned(decision_table(report)), "", aligned(metric_table(report)), ""] if report.decisions else []
    blocks += [aligned(claim_table(report)), ""] if has_claim_table(report) else []
    return "\n".join([*blocks, *(wrap_text(visible(line), width) for line in [*after, f"Next: {report.next}"])])


def render_top(report: ReportData) -> list[str]:
    """The status of the guarantee unless kept, the dangers, and the headline."""
    dangers = [f"Danger: {each}" for each in report.dangers]
    return [visible(each) for each in [*describe_guarantee(report), *dangers, sentence(report.headline)]]


def describe_guarantee(report: ReportData) -> list[str]:
    """The status of the guarantee as a sentence, unless it is kept."""
    return [] if report.guarantee.kept else [f"The guarantee is {report.guarantee}."]


def describe_extent(report: ReportData) -> str:
    """How much came back: of the budget, in how many rounds."""
    within = several(report.rounds, "round")
    if report.late:
        before = f"{count(report.results - report.late)} in {within}"
        return f"{several(report.results, 'result')}, {before} and {count(report.late)} after the decision"
    came = several(report.results, "result")
    if report.list_results is not None:
        part = share(round(report.results / report.list_results, 3))
        came = f"{count(report.results)} of {count(report.list_results)} results of the whole list ({part})"
    if report.budget is not None:
        came = f"{count(report.results)} of at most {count(report.budget)} results"
    every = 0 if report.items is None else report.items * len(report.arm_rows)
    if every > report.results:
        part = share(round(report.results / every, 3))
        came += f" ({part} of running all arms on {count(report.items or 0)} items)"
    if report.cost is not None:
        most = "" if report.max_cost is None else f" of at most {amount(report.max_cost)}"
        came += f", at a price of {amount(report.cost)}{most} {report.cost_unit}".rstrip()
    if report.list_cost and report.cost is not None:
        came += f" ({share(round(report.cost / report.list_cost, 3))} of the whole list)"
    if report.items_cost and report.cost is not None and every > report.results:
        came += f" ({share(round(report.cost / report.items_cost, 3))} of all arms on these items)"
    waiting = f", and {count(report.pending)} of the open round, which do not count yet" if report.pending else ""
    return f"{came} in {within}{waiting}"


def describe_error(report: ReportData) -> str:
    """How likely an error is."""
    if report.guarantee.status is GuaranteeStatus.VOID:
        return f"an error of {share(report.delta)} was aimed at, without a guarantee"
    under = ", under the conditions above" if report.guarantee.conditions else ""
    return f"wrong with probability at most {share(report.delta)}{describe_proviso(report.guarantee)}{under}"


def describe_history(report: ReportData) -> str:
    """When, by whom, with how many files; all of them are known where the whole record was read."""
    if report.created is None:
        return ""
    last = f", last change {day(report.changed)}" if report.changed not in (None, report.created) else ""
    who = f" by {few(report.by, 4)}" if report.by else ""
    files = f", {several(len(report.files), 'file')}" if report.files and report.changed is not None else ""
    return f"Started {day(report.created)}{last}{who}{files}."


def describe_dates(report: ReportData) -> str:
    """From when to when the data are: by their own times, or else by when their files were recorded."""
    own = [each for file in report.files for each in (file.first_time, file.last_time) if each is not None]
    stamps = sorted(each[:10] for each in own or [file.at for file in report.files if file.at is not None])
    if not stamps:
        return ""
    ends = (date.fromisoformat(each) for each in (stamps[0], stamps[-1]))
    days = list(dict.fromkeys(f"{each.day} {each:%b %Y}" for each in ends))
    return f"{'results of' if own else 'files recorded'} {' to '.join(days)}"


def describe_outstanding(report: ReportData) -> str:
    """The results still missing in the open round."""
    names = [f"{arm} {count(n)}" for arm, n in report.remaining.items()]
    return f"{', '.join(names[:30])}{', ...' if len(names) > 30 else ''}"


def describe_places(report: ReportData) -> str:
    """How to read the place of an arm."""
    if not report.claim_rows or report.claim_rows[0].arm is None:
        return ""
    bar = odds(report.claim_rows[0].log_threshold)
    end = "those that are left are of one group" if report.question == BestGroup.name else "one is left"
    return (
        f"An arm is out once bets against its being the best have won {bar}; until then the table says how much of the "
        f"way there is done (on a log scale). The study stops when {end}."
    )


def list_facts(report: ReportData) -> list[tuple[str, str]]:
    """The question, the number of results, and the guarantee."""
    error, allocation = describe_error(report), report.allocated
    facts = {
        "Question": report.question_text,
        "Results": describe_extent(report),
        "Error": error[:1].upper() + error[1:],
        "Assumptions": report.assumptions,
        "Allocation": allocation[:1].upper() + allocation[1:],
        "Data": (dates := describe_dates(report))[:1].upper() + dates[1:],
        "History": describe_history(report),
        "Still to come": describe_outstanding(report),
        "Forecast": report.forecast,
    }
    return [(name, visible(value)) for name, value in facts.items() if value]


def describe_version(report: ReportData) -> str:
    """The version, and the last entry of the record."""
    digest = "" if report.digest is None else f"; the record ends with {report.digest}"
    return f"roundwise {report.version}{digest}"


# --- paragraphs and tables in columns, for a terminal of some width


def wrap_text(text: str, width: int | None) -> str:
    """Break the lines of a text at blanks, so that they fit into a width; what stands in backticks stays whole.

    >>> print(wrap_text("Next: run `roundwise tell study results.csv` today.", 30))
    Next: run
    `roundwise tell study results.csv`
    today.
    """
    return text if width is None else "\n".join(each for line in text.split("\n") for each in _wrap_line(line, width))


def _wrap_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    kept = _TOGETHER.sub(lambda found: found[0].replace(" ", _BLANK), line)
    lines = textwrap.wrap(kept, max(width, 1), break_on_hyphens=False, break_long_words=False)
    return [each.replace(_BLANK, " ") for each in lines]


def align_table(table: Table, numeric: Sequence[bool], width: int | None = None) -> list[str]:
    """Align the columns of a table, numbers to the right; one that is too wide gets cells of several lines.

    >>> align_table([["arm", "results"], ["a", "12"], ["blue", "5"]], [False, True])
    ['arm   results', 'a          12', 'blue        5']
    >>> align_table([["arm", "results so far"], ["a", "12"]], [False, True], 12)
    ['     results', 'arm   so far', 'a         12']
    """
    columns = list(zip(*table, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is not None:
        words = [[max(map(len, _words(cell))) for cell in column] for column in columns]
        unbroken = [max([title, *map(len, cells)]) for (title, *_), (_, *cells) in zip(words, columns, strict=True)]
        for least in (unbroken, [max(column) for column in words]):  # titles are broken before cells
            while sum(widths) + 2 * (len(widths) - 1) > width and widths != least:
                _, widest = max((each, i) for i, each in enumerate(widths) if each > least[i])
                widths[widest] -= 1
    lines = []
    for place, row in enumerate(table):
        cells = [_wrap_line(cell, size) for cell, size in zip(row, widths, strict=True)]
        tall = max(map(len, cells))
        for cell in cells:
            cell[len(cell) if place else 0 : 0] = [""] * (tall - len(cell))  # titles stand on the rows below them
        for parts in zip(*cells, strict=True):
            put = [
                part.rjust(size) if right else part.ljust(size)
                for part, size, right in zip(parts, widths, numeric, strict=True)
            ]
            lines.append("  ".join(put).rstrip())
    return lines


def _words(cell: str) -> list[str]:
    return _TOGETHER.sub(lambda found: found[0].replace(" ", _BLANK), cell).split(" ")
