"""Evidence as a bar: how far it is on the way to the odds that are needed, on a log scale, with a mark at them."""

from __future__ import annotations

from typing import NamedTuple

from roundwise.studies.report.model import Facts, Shown
from roundwise.studies.words import odds

MARK = 80.0  # where the odds that are needed stand, of 100


class Bar(NamedTuple):
    """A bar of 100 units."""

    filled: float
    kind: str  # done, open, given-up: its colour
    words: str


def bar_of(report: Facts, claim: Shown, done: str) -> Bar:
    """The bar of a claim; `done` is what a claim that is shown is called."""
    won, needed = odds(claim.log_evidence), odds(claim.log_bar)
    part = 0.0 if claim.log_bar <= 0 else claim.log_evidence / claim.log_bar
    if claim.shown:
        at = "" if claim.shown_at is None else f", round {claim.shown_at}"
        return Bar(100.0, "done", f"{done}{at}")
    if claim.arm is not None and report.status == "decided":
        return Bar(0.0, "open", "the only one left")
    filled = round(min(max(part, 0.0), 1.0) * MARK, 1)
    almost = "almost " if won == needed else ""
    words = f"{almost}{won.removesuffix(' : 1')} of {needed}"
    return Bar(filled, "given-up", f"given up at {words}") if claim.given_up else Bar(filled, "open", words)


def title_of(report: Facts) -> str:
    """The question that the bars beside the options answer; empty where what must be shown is not about one option."""
    if not report.claim_rows:
        return ""
    first = report.claim_rows[0]
    return "is it out?" if first.arm is not None else "is it shown?" if first.compares is not None else ""


def bars_by_arm(report: Facts) -> dict[str, Bar]:
    """The bar of each option; of two claims about one the first that is shown, else the first."""
    found: dict[str, Bar] = {}
    for each in sorted(report.claim_rows, key=lambda claim: (not claim.shown, claim.below)):
        name, done = (each.arm, "out") if each.arm is not None else (each.compares, "shown")
        if name is not None and name not in found:
            words = "shown not to" if each.below and each.arm is None else done
            found[name] = bar_of(report, each, words)
    return found


def legend_of(report: Facts) -> str:
    """How to read the bars."""
    if not report.claim_rows:
        return ""
    bars = {odds(each.log_bar) for each in report.claim_rows if not each.shown}
    needed = bars.pop() if len(bars) == 1 else "the odds below each bar" if bars else odds(report.claim_rows[0].log_bar)
    if report.claim_rows[0].arm is not None:
        return (
            f"The bar is the evidence that this option is not the best. It is out at the mark ({needed}); evidence "
            "moves when a round is complete."
        )
    return (
        f"The bar is the evidence for a claim. It is shown at the mark ({needed}); evidence moves when a round is "
        "complete."
    )
