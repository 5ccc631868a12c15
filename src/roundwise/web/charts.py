"""Charts of the page as SVG without styles of its own: classes say what is what, the style sheet says how it looks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.errors import visible
from roundwise.studies.report.model import Facts
from roundwise.studies.report.page import Axis, drawn_of

LINES = 8  # options whose means are followed
HEIGHT, TOP, BOTTOM, LEFT = 200.0, 10.0, 26.0, 12.0  # the last in per cent of the width


class Line(NamedTuple):
    """A line of a chart."""

    name: str
    points: list[tuple[int, float]]
    kind: str  # its class


def means_by_round(report: Facts) -> str:
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
        legend.append(f"<li>{swatch}{_esc(_short(each.name))}: {_esc(last)}</li>")
    more = len({each.arm for each in report.cells}) - len(lines)
    legend = [*reversed(legend), *([f"<li>{more} more options are not drawn</li>"] if more > 0 else [])]
    label = _esc(f"{report.units.mean} of each option by round")
    size = f'width="100%" height="{HEIGHT:g}"'
    chart = f'<svg class="by-round" {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'{chart}<ul class="legend">{"".join(legend)}</ul>'


def _lines(report: Facts) -> list[Line]:
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


def _colours(report: Facts, names: Sequence[str]) -> dict[str, int]:
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


def _grid(axis: Axis, report: Facts) -> str:
    return "".join(
        f'<line class="grid" x1="{LEFT}%" x2="100%" y1="{_y(axis, tick)}" y2="{_y(axis, tick)}"/>'
        f'<text x="{LEFT - 1}%" y="{_y(axis, tick) + 4}" text-anchor="end">{_esc(report.units.given(tick))}</text>'
        for tick in axis.ticks
    )


def _rounds(rounds: Sequence[int]) -> str:
    every = max(1, -(-len(rounds) // 8))
    return "".join(
        f'<text x="{_x(rounds, at)}%" y="{HEIGHT - 6}" text-anchor="middle">{at}</text>'
        for i, at in enumerate(rounds)
        if i % every == 0
    )


def _short(name: str, longest: int = 40) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _esc(text: str) -> str:
    return html.escape(visible(text))
