"""What a study means, in plain words for somebody who decides and reads no statistics."""

from __future__ import annotations

from roundwise.studies.guarantee import CONDITIONAL, KEPT
from roundwise.studies.report.model import Facts
from roundwise.studies.words import count, few, share


def in_a_hundred(delta: float) -> str:
    """A probability as people count: 5 in 100.

    >>> in_a_hundred(0.05), in_a_hundred(0.001), in_a_hundred(0.025)
    ('5 in 100', '1 in 1\\xa0000', '25 in 1\\xa0000')
    """
    of = 100
    while of < 10**9 and abs(delta * of - round(delta * of)) > 1e-9:
        of *= 10
    return f"{count(round(delta * of))} in {count(of)}"


def meaning(report: Facts) -> list[str]:
    """A few sentences: what is known, how sure it is, what to do and what not to do."""
    return [*_known(report), *_sure(report), *_do(report)]


def _known(report: Facts) -> list[str]:
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


def _sure(report: Facts) -> list[str]:
    often = in_a_hundred(report.delta)
    said = f"Of many studies like this one at most {often} say something wrong, however often one looks."
    if report.guarantee == KEPT:
        return [said]
    if report.guarantee.startswith(CONDITIONAL):
        return [f"{said} This holds only if what stands in the red box is true."]
    return ["There is no guarantee: the red box says why. Treat what it shows as a hint."]


def _do(report: Facts) -> list[str]:
    if report.status == "decided":
        return ["You can act on it. More results make the numbers finer, and do not change the answer."]
    if report.status == "closed":
        return ["The study was ended. Report what is left as it is, not the leader alone."]
    if report.results and report.claim_rows and report.claim_rows[0].arm is not None:
        return ["If you must stop today, report all that are still in the running, not the leader alone."]
    return ["If you must stop today, report only what is shown."]


def under_the_headline(report: Facts) -> str:
    """A sentence under the headline: how sure the shortlist, or the answer, is."""
    if report.guarantee.startswith("void"):
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
