"""Charts as inline SVG: means with their intervals, and the evidence round by round.

Places across are in per cent of the width and letters in pixels, so that a chart is as readable on a phone as on a wide
screen; no script is needed.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.errors import visible
from roundwise.studies.report.model import Arm, Course, Facts
from roundwise.studies.words import count, odds

MOST = 60  # arms
LINES = 12  # courses of evidence
COLOURS = ("#1d5fa8", "#c98a00", "#176b2c", "#8e3b8e", "#b23a2a", "#0e7c86", "#6b5b1f", "#555555")
GREY = "#b5b5b5"


def means_chart(report: Facts) -> str:
    """Means with intervals and an axis, the level and the control if there are; nothing where there is nothing."""
    arms = [
        each for each in report.ranked if each.mean is not None and each.lower is not None and each.upper is not None
    ]
    if not arms or len(arms) > MOST:
        return ""
    marked = [] if report.level is None else [report.level]
    axis = Axis.over(
        [*marked, *(value for each in arms for value in (each.lower, each.upper, each.mean) if value is not None)]
    )
    out = {each.arm for each in report.claim_rows if each.arm is not None and each.shown}
    step, top = 34, 6
    bottom = top + step * len(arms)
    parts = []
    for tick in axis.ticks:
        x, text = axis.place(tick), _esc(report.units.given(tick))
        parts.append(
            f'<line x1="{x}%" x2="{x}%" y1="{top}" y2="{bottom}" stroke="#e8e8e8"/>'
            f'<text x="{x}%" y="{bottom + 16}" text-anchor="{_anchor(x)}" fill="#666">{text}</text>'
        )
    for value in marked:
        x = axis.place(value)
        parts.append(
            f'<line class="level" x1="{x}%" x2="{x}%" y1="{top}" y2="{bottom}" stroke="#1d5fa8" '
            'stroke-dasharray="4 3"/>'
        )
    for i, each in enumerate(arms):
        parts.append(_interval(report, each, axis, top + i * step, each.name in out))
    label = f"{report.units.mean} of each arm with its interval ({report.ends})"
    return _svg(parts, bottom + 24, label)


def _interval(report: Facts, arm: Arm, axis: Axis, y: int, out: bool) -> str:
    colour, ink = (GREY, "#888") if out else ("#1d5fa8", "#222")
    low, high, mean = (axis.place(value or 0.0) for value in (arm.lower, arm.upper, arm.mean))
    text = f"{_short(arm.name)}  {report.units.value(arm.mean or 0.0, 'near')}"
    return (
        f'<text x="0" y="{y + 12}" fill="{ink}">{_esc(text)}</text>'
        f'<line x1="{low}%" x2="{high}%" y1="{y + 22}" y2="{y + 22}" stroke="{colour}" stroke-width="3" '
        f'stroke-linecap="round"/><circle cx="{mean}%" cy="{y + 22}" r="5" fill="{colour}"/>'
    )


def evidence_chart(report: Facts) -> str:
    """The evidence for each claim round by round against the bar, on a log scale, with a legend below."""
    courses = [each for each in report.courses if len(each.rounds) > 0]
    if not courses or max(len(each.rounds) for each in courses) < 1:
        return ""
    bar = max(each.log_bar for each in report.claim_rows)
    drawn = drawn_of(courses)
    batches = sorted({batch for each in drawn for batch in each.rounds})
    low = min([0.0, *(value for each in drawn for value in each.log_evidence)])
    low, high = max(low, -bar), bar * 1.25
    top, height = 10, 180

    def across(batch: int) -> float:
        return round(13 + 85 * (batches.index(batch) + 1) / len(batches), 2)

    def down(value: float) -> float:
        return round(top + height * (high - min(max(value, low), high)) / (high - low), 1)

    parts = []
    for value, dashes in ((0.0, ""), (bar, ' stroke-dasharray="5 4"')):
        y = down(value)
        parts.append(
            f'<line x1="13%" x2="100%" y1="{y}" y2="{y}" stroke="#999"{dashes}/>'
            f'<text x="12%" y="{y + 4}" text-anchor="end" fill="#555">{_esc(odds(value))}</text>'
        )
    every = max(1, math.ceil(len(batches) / 8))
    for i, batch in enumerate(batches):
        if i % every == 0 or (batch == batches[-1] and i % every > every / 2):
            x = across(batch)
            parts.append(
                f'<text x="{x}%" y="{top + height + 18}" text-anchor="{_anchor(x)}" fill="#555">{batch}</text>'
            )
    legend = []
    for i, each in enumerate(drawn):
        colour, wide = COLOURS[i % len(COLOURS)], 1.5 if each.shown else 2.5
        points = [
            (13.0, down(0.0)),
            *((across(b), down(v)) for b, v in zip(each.rounds, each.log_evidence, strict=True)),
        ]
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            parts.append(f'<line x1="{x1}%" y1="{y1}" x2="{x2}%" y2="{y2}" stroke="{colour}" stroke-width="{wide}"/>')
        x, y = points[-1]
        parts.append(f'<circle cx="{x}%" cy="{y}" r="3.5" fill="{colour}"/>')
        said = f"shown in round {each.shown_at}" if each.shown else odds(each.log_evidence[-1])
        legend.append(f"<li>{_swatch(colour)}{_esc(_short(each.claim, 60))}: {_esc(said)}</li>")
    more = len(courses) - len(drawn)
    legend += [f"<li>and {count(more)} more, which are nearer to the bar</li>"] if more else []
    chart = _svg(parts, top + height + 26, "Evidence for each claim, round by round, against the bar it must pass")
    which = "bar" if len({odds(each.log_bar) for each in report.claim_rows}) == 1 else "highest bar"
    bars = f"Odds won for each claim, by round (log scale). The dashed line is the {which}: {odds(bar)}."
    return f'{chart}<p class="hint">{_esc(bars)}</p><ul class="legend">{"".join(legend)}</ul>'


def drawn_of(courses: Sequence[Course]) -> list[Course]:
    """Those that are drawn: what is open first, the farthest from the bar first."""
    return sorted(courses, key=lambda each: (each.shown, each.log_evidence[-1]))[:LINES]


class Axis(NamedTuple):
    """A scale with round ticks: values are placed in per cent of the width."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Sequence[float]) -> Axis:
        """One that holds all values.

        >>> Axis.over([0.21, 0.38]).ticks
        (0.2, 0.25, 0.3, 0.35, 0.4)
        """
        low, high = min(values), max(values)
        span = (high - low) or abs(high) or 1.0
        unit = 10.0 ** math.floor(math.log10(span / 4))
        step = next(unit * each for each in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (unit * each) <= 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        last = max(last, first + 1)
        return cls(first * step, last * step, tuple(round(i * step, 12) for i in range(first, last + 1)))

    def place(self, value: float) -> float:
        """Where a value is, with a little room at both ends."""
        return round(2 + 96 * (value - self.low) / (self.high - self.low), 2)


def _swatch(colour: str) -> str:
    return f'<svg class="swatch" width="18" height="8"><rect width="18" height="4" y="2" fill="{colour}"/></svg>'


def _anchor(x: float) -> str:
    return "start" if x < 8 else "end" if x > 92 else "middle"


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return (
        f'<svg width="100%" height="{height:.0f}" role="img" aria-label="{html.escape(label)}">{"".join(parts)}</svg>'
    )


def _esc(text: str) -> str:
    return html.escape(visible(text))


def _short(name: str, longest: int = 40) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
