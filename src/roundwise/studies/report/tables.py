"""The tables of a report as cells for people."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from roundwise.errors import visible
from roundwise.questions.claim_words import ODDS
from roundwise.studies.report.model import Arm, Facts, Shown
from roundwise.studies.report.words import TINY, Side, alike, count, day, decimals, number, odds, per_cent

MOST = 60  # rows of a table; programs get all

Table = list[list[str]]


def arm_table(report: Facts, most: int = MOST) -> Table:
    """The arms for people, the best first: only the columns that have something to say."""
    arms, units = report.ranked, report.units

    def any_of(name: str) -> bool:
        return any(getattr(each, name) is not None for each in arms)

    bounds, behind, trails = any_of("lower") or any_of("upper"), any_of("behind"), any_of("trails_most")
    places, waiting, compared = any(each.place for each in arms), report.waiting > 0, any_of("difference")
    head = ["arm", "results", units.mean]
    head += [report.ends] if bounds else []
    head += [f"against {report.control}"] if compared else []
    head += [f"lift over {report.control}"] if compared and any_of("lift") else []
    head += ["behind the leader by"] if trails else []
    head += [""] if places or behind else []
    lost = any(each.missing for each in arms)
    head += ["missing"] if lost else []
    head += ["waiting"] if waiting else []
    table = [head]
    least = alike([each.mean for each in arms[:most] if each.mean is not None])
    for each in arms[:most]:
        digits = max(decimals(each.mean or 0.0), least) if units.rates else None  # the bounds have those of the mean
        say = partial(per_cent, digits=digits) if units.rates else units.value
        row = [each.name, count(each.results), "-" if each.mean is None else say(each.mean, "near")]
        if each.mean is not None and outside(each):
            row[-1] += " *"
        row += [_between(say, each.lower, each.upper)] if bounds else []
        row += [_against(report, each)] if compared else []
        row += [_lift(each)] if compared and any_of("lift") else []
        row += [_trailing(report, each)] if trails else []
        row += [_place(report, each)] if places or behind else []
        row += [count(each.missing)] if lost else []
        row += [_waiting(report, each)] if waiting else []
        table.append([visible(cell) for cell in row])
    return table


def outside(arm: Arm) -> bool:
    """Whether a mean lies outside its own bounds, which needs a word."""
    if arm.mean is None:
        return False
    slack = TINY * max(1.0, abs(arm.mean))
    return (arm.lower is not None and arm.mean < arm.lower - slack) or (
        arm.upper is not None and arm.mean > arm.upper + slack
    )


def claim_table(report: Facts) -> Table:
    """What must be shown, for people."""
    rows = report.claim_rows
    rows = rows if len(rows) <= MOST else tuple(sorted(rows, key=lambda each: each.log_evidence)[:MOST])
    chances = any(each.chance is not None for each in rows)
    sizes = any(each.estimate is not None or _bounded(each) for each in rows)
    table = [
        ["to be shown", "evidence", "needed", "", *(["so far"] if sizes else []), *(["forecast"] if chances else [])]
    ]
    for each in rows:
        won, bar = odds(each.log_evidence), odds(each.log_bar)
        if won == bar and not each.shown:
            won = f"almost {won}"
        row = [each.claim, won, bar, _stands(report, each)]
        row += [_size(report, each)] if sizes else []
        row += ["" if each.chance is None else f"{100 * each.chance:.0f} %"] if chances else []
        table.append([visible(cell) for cell in row])
    return table


def file_table(report: Facts) -> Table:
    """The files, the last first."""
    rows = [["file", "round", "results", "recorded", "by"]]
    for each in reversed(report.files[-MOST:]):
        when = "" if each.at is None else day(each.at)
        batch = "after the decision" if each.round is None else str(each.round)
        rows.append([visible(each.name, 80), batch, count(each.results), when, each.by or ""])
    return rows


def round_table(report: Facts) -> Table:
    """The rounds: what was asked, what came."""
    rows = [["round", "asked", "results", "arms", ""]]
    found: dict[int, tuple[int, int, int, bool]] = {}
    for each in report.cells:
        asked, came, arms, counts = found.get(each.round, (0, 0, 0, True))
        found[each.round] = (asked + each.asked, came + each.results, arms + bool(each.results), each.counts)
    for batch, (asked, came, arms, counts) in list(found.items())[-MOST:]:
        rows.append([str(batch), count(asked), count(came), str(arms), "" if counts else "still open"])
    return rows


def _between(value: Callable[[float, Side], str], lower: float | None, upper: float | None) -> str:
    if lower is None:
        return "no bound yet" if upper is None else f"at most {value(upper, 'up')}"
    if upper is None:
        return f"at least {value(lower, 'down')}"
    return f"{value(lower, 'down').removesuffix(' %')} to {value(upper, 'up')}"


def _against(report: Facts, arm: Arm) -> str:
    if arm.name == report.control:
        return "-"
    if arm.difference is None:
        return "?"
    gap = report.units.gap
    text = signed(arm.difference, gap(abs(arm.difference), "near"))
    if arm.difference_lower is None and arm.difference_upper is None:
        return text

    def end(value: float | None, side: Side) -> str:
        return "?" if value is None else signed(value, gap(value, side).lstrip("-").removesuffix(" points"))

    return f"{text} ({end(arm.difference_lower, 'down')} to {end(arm.difference_upper, 'up')})"


def _lift(arm: Arm) -> str:
    if arm.lift is None:
        return "-"
    text = f"{100 * arm.lift:+.1f} %"
    if arm.lift_lower is None or arm.lift_upper is None:
        return text
    return f"{text} ({100 * arm.lift_lower:+.1f} to {100 * arm.lift_upper:+.1f})"


def signed(value: float, text: str) -> str:
    """A number with its sign; text is its size."""
    return text if abs(value) < TINY else f"-{text}" if value < 0 else f"+{text}"


def _trailing(report: Facts, arm: Arm) -> str:
    """How far behind the leader: from what is shown to the bound."""
    if arm.trails_most == 0.0:
        return "leads"
    gap, least = report.units.gap, arm.trails_least if arm.trails_least is not None else arm.behind
    most = None if arm.trails_most is None else gap(arm.trails_most, "up")
    if least is not None and least > 0:
        bound = gap(least, "down").removesuffix(" points")
        return f"{bound} to {most}" if most is not None else f"at least {gap(least, 'down')}"
    return "no bound yet" if most is None else f"at most {most}"


def _place(report: Facts, arm: Arm) -> str:
    row = next((each for each in report.claim_rows if each.arm == arm.name), None)
    if row is None or (not row.shown and report.status == "decided"):
        return arm.place
    if row.shown:
        at = "" if row.shown_at is None else f", round {row.shown_at}"
        by = "" if arm.behind is None or arm.trails_most is not None else f"; behind by {at_least(report, arm.behind)}"
        return f"out{at}{by}"
    return f"{arm.place} ({odds(row.log_evidence).removesuffix(' : 1')} of {odds(row.log_bar)})"


def at_least(report: Facts, bound: float) -> str:
    """A bound from below in words; nothing is said of a size that is next to none."""
    return "more than 0" if bound < TINY else f"at least {report.units.gap(bound, 'down')}"


def _waiting(report: Facts, arm: Arm) -> str:
    if not arm.waiting:
        return "-"
    mean = "" if arm.waiting_mean is None else f", {report.units.value(arm.waiting_mean, 'near')}"
    return f"{count(arm.waiting)}{mean}"


def _stands(report: Facts, claim: Shown) -> str:
    if not claim.shown:
        if claim.arm is not None and report.status == "decided":
            return "the only one left"
        return "given up" if claim.given_up else "open"
    at = "" if claim.shown_at is None else f" in round {claim.shown_at}"
    return f"shown{at}"


def _bounded(claim: Shown) -> bool:
    return claim.lower is not None or claim.upper is not None


def _size(report: Facts, claim: Shown) -> str:
    """The estimate of what a claim is about, with its bound."""
    units = report.units
    gap = claim.arm is not None or claim.gap
    say = units.gap if gap else units.value
    if claim.scale == ODDS:
        say = number
    if claim.arm is not None:  # how far the arm is behind the best
        if claim.lower is not None and claim.shown:
            return f"behind by {at_least(report, claim.lower)}"
        return (
            ""
            if claim.estimate is None
            else ("leads" if not claim.estimate else f"{say(claim.estimate, 'near')} behind")
        )
    parts = [] if claim.estimate is None else [say(claim.estimate, "near")]
    lower, upper = claim.lower, claim.upper
    parts += [] if lower is None else [f"{_strictly('at least', 'above', claim, lower)} {say(lower, 'down')}"]
    parts += [] if upper is None else [f"{_strictly('at most', 'below', claim, upper)} {say(upper, 'up')}"]
    of = "" if claim.scale is None or not parts else f"{claim.scale} " if claim.scale == ODDS else f"{claim.scale}: "
    return of + ", ".join(parts)


def _strictly(reached: str, passed: str, claim: Shown, bound: float) -> str:
    """A bound that just agrees with the decision lies beyond what was asked, by an amount that no digit shows."""
    agrees = claim.shown and claim.compares is None and claim.spare is not None and claim.spare < TINY
    return passed if agrees or 0 < abs(bound) < TINY else reached


def waiting_words(report: Facts) -> str:
    """What is still to come of the open round."""
    names = [f"{arm} {count(n)}" for arm, n in report.still_to_come.items()]
    return f"{', '.join(names[:30])}{', ...' if len(names) > 30 else ''}"
