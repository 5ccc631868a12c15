"""The first line of a report: the answer with its size, or what is shown and what is open.

Also what that means, in plain words for somebody who decides and reads no statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from roundwise.messages import GuaranteeStatus
from roundwise.questions import Above, BestArm, Claims, Linear, Question, SomeBeyond
from roundwise.report.model import ArmRow, ClaimRow, ReportData
from roundwise.report.wording import TINY, Units, count, few, share


class Findings(NamedTuple):
    """What a headline is made of."""

    question: Question
    arms: Sequence[ArmRow]  # the best first
    claims: Sequence[ClaimRow]
    units: Units
    control: str | None
    answer: Any  # by name, as JSON
    words: str | None  # of the answer, as the question says it


def write_headline(found: Findings, why: str) -> str:
    """The answer, or else `why` there is none, and what is shown and what is open."""
    if found.words is None:
        return f"{why}. {open_words(found)}"
    said = next((words for kind, words in ANSWERS if isinstance(found.question, kind)), _other)(found)
    return found.words if said is None else said


def name_answer(question: Question, answer: Any, arms: Sequence[str]) -> Any:
    """An answer as JSON, with names in place of indices: of arms, or of what the question names itself."""
    names = question.answer_names(arms)
    if answer is None or isinstance(answer, bool):
        return answer
    return [names[int(i)] for i in answer] if isinstance(answer, list) else names[int(answer)]


def open_words(found: Findings) -> str:
    """What is shown and what is still open."""
    if not any(each.results for each in found.arms):
        early = sum(each.waiting for each in found.arms)
        if early == 1:
            return "1 result waits for the rest of its round"
        return f"{count(early)} results wait for the rest of their round" if early else "No results yet"
    if not found.claims:
        return "Nothing has been ruled out"
    if found.claims[0].arm is not None:
        return _may_be_best(found)
    if found.question.separate_claims:
        return claims_words(found)
    shown, waiting = _said(found, True), _said(found, False)
    sizes = {each.name: each for each in found.arms}
    beats = [each for each in found.claims if each.shown and not each.below and each.compares in sizes]
    if found.control is not None and beats:
        ahead = few([_ahead(found, sizes[each.compares or ""]) for each in beats], 6)
        others = [each.claim for each in found.claims if each.shown and each not in beats]
        more = f"; {few(others, 6)}" if others else ""
        return f"Shown: {ahead} against {found.control}{more}; open: {few(waiting, 6)}"
    gone = [each.claim for each in found.claims if each.given_up and not each.shown]
    waiting = [each for each in waiting if each not in gone]
    parts = [f"Shown: {few(shown, 6)}"] if shown else ["Nothing is shown yet"]
    parts += [f"open: {few(waiting, 6)}"] if waiting else []
    parts += [f"given up: {few(gone, 6)}"] if gone else []
    return "; ".join(parts)


def _may_be_best(found: Findings) -> str:
    out = {each.arm for each in found.claims if each.shown}
    left = [each for each in found.arms if each.name not in out]
    leader = next((each for each in left if each.mean is not None), None)
    if not out:
        lead = "" if leader is None else f"; {sized(found, leader)} leads"
        return f"Any of the {len(found.arms)} arms may be the best{lead}"
    gone = [each.name for each in found.arms if each.name in out]
    are = "is" if len(gone) == 1 else "are"
    if not left:
        return "Every arm is ruled out"
    return f"{few([sized(found, each) for each in left], 6, 'or')} is the best; {few(gone, 6)} {are} out"


def _said(found: Findings, shown: bool) -> list[str]:
    return [each.claim for each in found.claims if each.shown is shown]


def sized(found: Findings, arm: ArmRow) -> str:
    """An arm with its mean."""
    return arm.name if arm.mean is None else f"{arm.name} ({found.units.value(arm.mean, 'near')})"


def _best(found: Findings) -> str | None:
    first = next((each for each in found.arms if each.name == found.answer), None)
    if first is None or first.mean is None:
        return None
    value, tolerance = found.units.value, found.question.tolerance
    near = _near(found, "of it")
    said = f"{first.name} is best{near}: {value(first.mean, 'near')}"
    second = next((each for each in found.arms if each is not first and each.mean is not None), None)
    if second is None:
        return said
    if not tolerance and second.gap_to_best_lower:
        least = min(each.gap_to_best_lower or 0.0 for each in found.arms if each is not first)
        if least <= TINY:
            return f"{said}, ahead of {sized(found, second)}"
        whom = second.name if least == second.gap_to_best_lower else "every other arm"
        return f"{said}, ahead of {whom} by at least {found.units.gap(least, 'down')}"
    return f"{said}; the next is {sized(found, second)}"


def _near(found: Findings, what: str) -> str:
    """', or within 2 points of it', nothing without a tolerance."""
    tolerance = found.question.tolerance
    return f", or within {found.units.given_gap(tolerance)} {what}" if tolerance else ""


def _sides(found: Findings) -> str | None:
    level = found.units.given(found.question.level or 0.0) + _near(found, "of it")
    above = [each for each in found.arms if each.name in found.answer]
    below = [each for each in found.arms if each.name not in found.answer]
    parts = [f"Above {level}: {few([sized(found, each) for each in above])}"] if above else []
    parts += (
        [f"{'below' if parts else f'No arm is above {level}; below'}: {few([sized(found, each) for each in below])}"]
        if below
        else []
    )
    return "; ".join(parts) or None


def _some(found: Findings) -> str | None:
    question = found.question
    level = found.units.given(question.level or 0.0) + _near(found, "of it")
    lowest = question.seeks_low_means
    measured = [each for each in found.arms if each.mean is not None]
    if not measured:
        return None
    side, end = ("below", "lowest") if lowest else ("above", "highest")
    extreme = (min if lowest else max)(measured, key=lambda arm: arm.mean or 0.0)
    what = "Some" if found.answer else "No"
    return f"{what} {found.units.mean} is {side} {level}; the {end} is that of {sized(found, extreme)}"


def _other(found: Findings) -> str | None:
    if found.control is not None and isinstance(found.answer, list):
        return _beating(found)
    names = {each.name: each for each in found.arms}
    if isinstance(found.answer, list) and set(found.answer) <= names.keys() and found.question.number_sought:
        ranked = [each for each in found.arms if each.name in found.answer]
        rest = next((each for each in found.arms if each.name not in found.answer and each.mean is not None), None)
        next_ = "" if rest is None else f"; the next is {sized(found, rest)}"
        return f"The top {len(ranked)}{_near(found, 'of them')}: {few([sized(found, each) for each in ranked])}{next_}"
    return None


def _beating(found: Findings) -> str | None:
    """Which arms beat the control, by how much."""
    margin = found.question.margin
    if margin is None:
        return None
    by = (f" by more than {found.units.given_gap(margin)}" if margin else "") + _near(found, "of that")
    beat = {each.compares for each in found.claims if each.shown and not each.below}
    sizes = [_ahead(found, each) for each in found.arms if each.name in beat]
    others = [each.name for each in found.arms if each.name not in beat and each.name != found.control]
    rest = f"; not so {few(others)}" if others else ""
    if not sizes:
        return f"No arm beats {found.control}{by}"
    return f"{few(sizes)} {'beats' if len(sizes) == 1 else 'beat'} {found.control}{by}{rest}"


def claims_words(found: Findings) -> str:
    """'Shown: 300mg (+17.7 points, at least +4.1). Open: 75mg and 150mg. Given up: 25mg'"""
    sizes = {each.name: each for each in found.arms}
    shown = [
        _ahead(found, sizes[each.compares]) if each.compares in sizes and not each.below else each.claim
        for each in found.claims
        if each.shown
    ]
    settled = {each.label for each in found.claims if each.shown}
    rest = [each for each in found.claims if not each.below and each.label not in settled]
    waiting = [each.label or each.claim for each in rest if not each.given_up]
    gone = [each.label or each.claim for each in rest if each.given_up]
    said = [("Shown", shown or ["nothing"]), ("Open", waiting), ("Given up", gone)]
    return ". ".join(f"{word}: {few(names, 6)}" for word, names in said if names)


def _ahead(found: Findings, arm: ArmRow) -> str:
    if arm.difference is None:
        return arm.name
    gap, bound = found.units.gap, arm.difference_lower
    least = "" if bound is None or bound <= TINY else f", at least +{gap(bound, 'down')}"
    sign = "+" if arm.difference > 0 else "-"
    return f"{arm.name} ({sign}{gap(abs(arm.difference), 'near')}{least})"


ANSWERS: tuple[tuple[type[Question], Callable[[Findings], str | None]], ...] = (  # None: in the question's own words
    (BestArm, _best),
    (Above, _sides),
    (SomeBeyond, _some),
    (Claims, claims_words),
    (Linear, lambda found: None),
)


def describe_odds_of_error(delta: float) -> str:
    """A probability as people count: 5 in 100.

    >>> describe_odds_of_error(0.05), describe_odds_of_error(0.001), describe_odds_of_error(0.025)
    ('5 in 100', '1 in 1\\xa0000', '25 in 1\\xa0000')
    """
    of = 100
    while of < 10**9 and abs(delta * of - round(delta * of)) > 1e-9:
        of *= 10
    return f"{count(round(delta * of))} in {count(of)}"


def meaning(report: ReportData) -> list[str]:
    """A few sentences: what is known, how sure it is, what to do and what not to do."""
    return [*_known(report), *_sure(report), *_do(report)]


def _known(report: ReportData) -> list[str]:
    if report.status == "decided":
        return ["It is decided, for good: what stands above is the answer."]
    out = [each.name for each in report.arm_rows if each.place == "out"]
    if not report.results:
        return ["Nothing is known yet: no round is complete."]
    if out:
        every, are = len(report.arm_rows), "is" if len(out) == 1 else "are"
        return [
            f"{few(out, 4)} {are} out for good; {count(every - len(out))} of {count(every)} are still in the running."
        ]
    if any(each.shown for each in report.claim_rows):
        return ["Something is shown for good, and the rest is still open."]
    return ["Nothing is ruled out yet: what leads now may lead by luck."]


def _sure(report: ReportData) -> list[str]:
    often = describe_odds_of_error(report.delta)
    said = f"Of many studies like this one at most {often} say something wrong, however often one looks."
    if report.guarantee.kept:
        return [said]
    if report.guarantee.status is GuaranteeStatus.CONDITIONAL:
        return [f"{said} This holds only if what stands in the red box is true."]
    return ["There is no guarantee: the red box says why. Treat what it shows as a hint."]


def _do(report: ReportData) -> list[str]:
    if report.status == "decided":
        return ["You can act on it. More results make the numbers finer, and do not change the answer."]
    if report.status == "closed":
        return ["The study was ended. Report what is left as it is, not the leader alone."]
    if report.results and report.claim_rows and report.claim_rows[0].arm is not None:
        return ["If you must stop today, report all that are still in the running, not the leader alone."]
    return ["If you must stop today, report only what is shown."]


def write_subheadline(report: ReportData) -> str:
    """A sentence under the headline: how sure the shortlist, or the answer, is."""
    if report.guarantee.status is GuaranteeStatus.VOID:
        return ""
    sure = share(1 - report.delta)
    if report.status == "decided":
        return f"Such an answer is right with at least {sure}."
    if not report.results or not report.claim_rows:
        return ""
    if report.claim_rows[0].arm is not None:
        return (
            f"What is still in the running contains the best with at least {sure}. If you must stop today, report "
            "that, not the leader."
        )
    return f"All that is shown is right with at least {sure}. What is open is not refuted."
