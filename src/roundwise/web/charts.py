"""Charts of the page as SVG without styles of its own: classes say what is what, the style sheet says how it looks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.errors import visible
from roundwise.studies.report.charts import Axis
from roundwise.studies.report.model import Facts

LINES = 8  # options whose means are followed
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640.0, 220.0, 52.0, 175.0, 10.0, 26.0


class Line(NamedTuple):
    """A line of a chart."""

    name: str
    points: list[tuple[int, float]]
    kind: str  # its class


def means_by_round(report: Facts) -> str:
    """The mean of each option over all rounds up to each, with the name at its end."""
    lines = _lines(report)
    if not lines or max(len(each.points) for each in lines) < 2:
        return ""
    rounds = sorted({at for each in lines for at, _ in each.points})
    axis = Axis.over([value for each in lines for _, value in each.points])
    parts = [_grid(axis, report), _rounds(rounds)]
    names = _apart([(_y(axis, each.points[-1][1]), each) for each in lines])
    beside = WIDTH - RIGHT + 8
    for end, each in names:
        drawn = " ".join(f"{_x(rounds, at)},{_y(axis, value)}" for at, value in each.points)
        last = _esc(report.units.value(each.points[-1][1], "near"))
        parts.append(
            f'<polyline class="line {each.kind}" points="{drawn}"><title>{_esc(each.name)}: {last}</title></polyline>'
            f'<text class="{each.kind}" x="{beside}" y="{end + 4:.1f}">{_esc(_short(each.name))} {last}</text>'
        )
    more = len({each.arm for each in report.cells}) - len(lines)
    label = f"{report.units.mean} of each option by round" + (
        f"; {more} more options are not drawn" if more > 0 else ""
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{_esc(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _lines(report: Facts) -> list[Line]:
    """The means so far of the options that are ahead, round by round."""
    ranked = [each for each in report.ranked if each.mean is not None][:LINES]
    out = {each.name for each in ranked if each.place == "out"}
    found = []
    for place, arm in enumerate(ranked):
        n, total, points = 0, 0.0, []
        for cell in report.cells:
            if cell.arm == arm.name and cell.counts and cell.mean is not None:
                n, total = n + cell.results, total + cell.results * cell.mean
                points.append((cell.round, total / n))
        if points:
            kind = "out" if arm.name in out else "first" if not place else "second" if place == 1 else "rest"
            found.append(Line(arm.name, points, kind))
    return found


def _x(rounds: Sequence[int], at: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * rounds.index(at) / max(len(rounds) - 1, 1), 1)


def _y(axis: Axis, value: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (axis.high - value) / (axis.high - axis.low), 1)


def _grid(axis: Axis, report: Facts) -> str:
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(axis, tick)}" y2="{_y(axis, tick)}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{_y(axis, tick) + 4}" text-anchor="end">'
        f"{_esc(report.units.given(tick))}</text>"
        for tick in axis.ticks
    )


def _rounds(rounds: Sequence[int]) -> str:
    every = max(1, -(-len(rounds) // 10))
    return "".join(
        f'<text class="tick" x="{_x(rounds, at)}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{'round ' if not i else ''}{at}</text>"
        for i, at in enumerate(rounds)
        if i % every == 0
    )


def _apart(ends: list[tuple[float, Line]], least: float = 15.0) -> list[tuple[float, Line]]:
    """Where the names stand: beside the ends of their lines, but not on each other."""
    found: list[tuple[float, Line]] = []
    for y, each in sorted(ends, key=lambda end: end[0]):
        found.append((max(y, found[-1][0] + least) if found else y, each))
    over = found[-1][0] - (HEIGHT - BOTTOM) if found else 0.0
    return [(y - max(over, 0.0), each) for y, each in found]


def _short(name: str, longest: int = 14) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _esc(text: str) -> str:
    return html.escape(visible(text))
