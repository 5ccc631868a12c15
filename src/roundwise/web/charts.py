"""Charts and bars of the page without styles of their own: classes say what is what, the style sheet how it looks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.errors import visible
from roundwise.report.html import Axis, drawn_of
from roundwise.report.model import Contents, Shown
from roundwise.report.wording import odds

LINES = 8  # options whose means are followed
HEIGHT, TOP, BOTTOM, LEFT = 200.0, 10.0, 26.0, 12.0  # the last in per cent of the width


class Line(NamedTuple):
    """A line of a chart."""

    name: str
    points: list[tuple[int, float]]
    kind: str  # its class


def means_by_round(report: Contents) -> str:
    """The mean of each option over all rounds up to each, with a legend below."""
    lines = _lines(report)
    if not lines or max(len(each.points) for each in lines) < 2:
        return ""
    rounds = sorted({at for each in lines for at, _ in each.points})
    axis = Axis.over([value for each in lines for _, value in each.points])
    parts, legend = [_grid(axis, report), _rounds(rounds)], []
    for each in reversed(lines):
        ends = [(_x(rounds, at), _y(axis, value)) for at, value in each.points]
        parts += [
            f'<line class="line {each.kind}" x1="{x1}%" y1="{y1}" x2="{x2}%" y2="{y2}"/>'
            for (x1, y1), (x2, y2) in itertools.pairwise(ends)
        ]
        parts.append(f'<circle class="dot {each.kind}" cx="{ends[-1][0]}%" cy="{ends[-1][1]}" r="4"/>')
        last = report.units.value(each.points[-1][1], "near")
        swatch = f'<rect class="dot {each.kind}" width="18" height="4" y="2"/>'
        swatch = f'<svg class="swatch" width="18" height="8">{swatch}</svg>'
        legend.append(f"<li>{swatch}{esc(short(each.name))}: {esc(last)}</li>")
    more = len({each.arm for each in report.cells}) - len(lines)
    legend = [*reversed(legend), *([f"<li>{more} more options are not drawn</li>"] if more > 0 else [])]
    label = esc(f"{report.units.mean} of each option by round")
    size = f'width="100%" height="{HEIGHT:g}"'
    chart = f'<svg class="by-round" {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'{chart}<ul class="legend">{"".join(legend)}</ul>'


def _lines(report: Contents) -> list[Line]:
    """The means so far of the options that are ahead, round by round."""
    ranked = [each for each in report.ranked if each.mean is not None][:LINES]
    colours = _colours(report, [each.name for each in ranked])
    found = []
    for arm in ranked:
        n, total, points = 0, 0.0, []
        for cell in report.cells:
            if cell.arm == arm.name and cell.counts and cell.mean is not None:
                n, total = n + cell.results, total + cell.results * cell.mean
                points.append((cell.round, total / n))
        if points:
            found.append(Line(arm.name, points, "out" if arm.place == "out" else f"n{colours[arm.name]}"))
    return found


def _colours(report: Contents, names: Sequence[str]) -> dict[str, int]:
    """The colour of each option: that of the claim about it in the chart of evidence, else one that is left."""
    claims = {each.claim: each.arm or each.compares for each in report.claim_rows}
    drawn = drawn_of([each for each in report.courses if each.rounds])
    taken = {claims.get(each.claim): i for i, each in enumerate(drawn) if not each.shown}
    left = iter([i for i in range(len(drawn) + len(names)) if i not in taken.values()])
    return {name: (taken[name] if name in taken else next(left)) % LINES for name in names}


def _x(rounds: Sequence[int], at: int) -> float:
    return round(LEFT + (98 - LEFT) * rounds.index(at) / max(len(rounds) - 1, 1), 2)


def _y(axis: Axis, value: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (axis.high - value) / (axis.high - axis.low), 1)


def _grid(axis: Axis, report: Contents) -> str:
    return "".join(
        f'<line class="grid" x1="{LEFT}%" x2="100%" y1="{_y(axis, tick)}" y2="{_y(axis, tick)}"/>'
        f'<text x="{LEFT - 1}%" y="{_y(axis, tick) + 4}" text-anchor="end">{esc(report.units.given(tick))}</text>'
        for tick in axis.ticks
    )


def _rounds(rounds: Sequence[int]) -> str:
    every = max(1, -(-len(rounds) // 8))
    return "".join(
        f'<text x="{_x(rounds, at)}%" y="{HEIGHT - 6}" text-anchor="middle">{at}</text>'
        for i, at in enumerate(rounds)
        if i % every == 0
    )


def short(name: str, longest: int = 40) -> str:
    """A name, cut where it is too long."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def esc(text: str) -> str:
    """A text as it may stand in a page."""
    return html.escape(visible(text))


MARK = 80.0  # where the odds that are needed stand, of 100


class Bar(NamedTuple):
    """A bar of 100 units."""

    filled: float
    kind: str  # done, open, given-up: its colour
    words: str


def bar_of(report: Contents, claim: Shown, done: str) -> Bar:
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


def title_of(report: Contents) -> str:
    """The question that the bars beside the options answer; empty where what must be shown is not about one option."""
    if not report.claim_rows:
        return ""
    first = report.claim_rows[0]
    return "is it out?" if first.arm is not None else "is it shown?" if first.compares is not None else ""


def bars_by_arm(report: Contents) -> dict[str, Bar]:
    """The bar of each option; of two claims about one the first that is shown, else the first."""
    found: dict[str, Bar] = {}
    for each in sorted(report.claim_rows, key=lambda claim: (not claim.shown, claim.below)):
        name, done = (each.arm, "out") if each.arm is not None else (each.compares, "shown")
        if name is not None and name not in found:
            words = "shown not to" if each.below and each.arm is None else done
            found[name] = bar_of(report, each, words)
    return found


def legend_of(report: Contents) -> str:
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
