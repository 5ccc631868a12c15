"""The report as a page: half a page for whoever decides, then the rest; one HTML file, and a card in a notebook.

Its charts are inline SVG. Places across are in per cent of the width and letters in pixels, so that a chart is as
readable on a phone as on a wide screen; no script is needed.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from roundwise.errors import visible
from roundwise.report.claim_table import Table, claim_table, evidence_of
from roundwise.report.headline import meaning, under_the_headline
from roundwise.report.model import Arm, Contents, Course
from roundwise.report.terminal import (
    arm_table,
    claims_apart,
    danger_of,
    extent_of,
    facts_of,
    file_table,
    foot_of,
    legend_of,
    round_table,
)
from roundwise.report.wording import count, odds, sentence

STYLE = (
    ".rw{font:15px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;color:#222}"
    ".rw{max-width:60rem;margin:0 auto;padding:16px}"
    ".rw h1{font-size:22px;margin:6px 0 2px}.rw h2{font-size:16px;margin:0 0 8px}"
    ".rw .hint{color:#666;font-size:13px;font-weight:400}.rw p{margin:.4em 0;overflow-wrap:anywhere}"
    ".rw .head{border-left:6px solid #176b2c;background:#eaf5ec;padding:10px 16px;margin:12px 0;font-size:17px}"
    ".rw .head.open{border-color:#c98a00;background:#fff7e6}"
    ".rw .danger{border-left:6px solid #a00;background:#fdecea;padding:8px 16px;margin:12px 0}"
    ".rw .card{background:#fff;border:1px solid #ddd;border-radius:6px;padding:14px 16px;margin:0 0 14px}"
    ".rw .card{overflow-x:auto}"
    ".rw table{border-collapse:collapse;width:100%;font-size:14px}"
    ".rw th,.rw td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid #e5e5e5;vertical-align:top}"
    ".rw th{font-size:13px;color:#555}.rw td.n,.rw th.n{white-space:nowrap}.rw tr.out td{color:#777}"
    ".rw td.w{min-width:7em}"
    ".rw svg{display:block;font-size:13px;margin:8px 0;overflow:visible}"
    ".rw .legend{list-style:none;padding:0;margin:4px 0;font-size:13px;columns:22em}"
    ".rw .legend li{break-inside:avoid}"
    ".rw .legend svg{display:inline-block;margin:0 6px 0 0;vertical-align:middle}"
    ".rw pre{background:#f4f4f4;padding:10px;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".rw dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0}.rw dt{color:#666}.rw dd{margin:0}"
    "@media(max-width:34rem){.rw{padding:10px}.rw dl{font-size:14px;gap:2px 10px;grid-template-columns:5.5em 1fr}"
    ".rw .card{padding:10px 12px}"
    ".rw .many thead{display:none}.rw .many tr{display:block;padding:6px 0;border-bottom:1px solid #e5e5e5}"
    ".rw .many td{display:flex;justify-content:space-between;gap:12px;border:0;padding:1px 0;text-align:right}"
    ".rw .many td::before{content:attr(data-is);color:#666;text-align:left;white-space:nowrap}"
    ".rw .many td:first-child{font-weight:600}.rw .many td:first-child::before,.rw .many td:empty{display:none}}"
    ".rw .rest{font-size:18px;margin:22px 0 10px}"
    "@media print{.rw .card{break-inside:avoid;overflow:visible}.rw .rest{break-before:page;margin-top:0}}"
)
MANY = 5  # columns that are too many for a phone
PAGE = "body{margin:0;background:#f6f6f4}@media print{body{background:#fff}}"


def page_of(report: Contents) -> str:
    """The report as one HTML page that needs nothing else."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="roundwise">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{esc(report.study)}</title><style>{PAGE}{STYLE}</style></head><body>
<main class="rw">{_head(report)}
<div class="card"><h2>In short</h2>
{"".join(f"<p>{esc(each)}</p>" for each in meaning(report))}
<p class="hint">{esc(extent_of(report))}</p>
{means_chart(report)}</div>
<h2 class="rest">For the statistician</h2>
{_facts(report)}
<div class="card"><h2>Arms</h2>
{_arms(report)}</div>
{_evidence(report)}
<div class="card"><h2>For a protocol or a paper</h2>
<p>{esc(report.sentence)}</p></div>
{_section("Rounds", rows_of(round_table(report))) if report.cells else ""}
{_section("Files", rows_of(file_table(report))) if report.files else ""}
<div class="card"><h2>To reproduce</h2>
<pre>{esc(report.reproduce)}</pre></div>
<p class="hint">{esc(foot_of(report))}</p>
</main></body></html>
"""


def card_of(report: Contents) -> str:
    """The report for a notebook: the head, the arms and the charts."""
    arms = f'<div class="card"><h2>Arms</h2>{_arms(report)}{means_chart(report)}</div>'
    return f'<style>{STYLE}</style><div class="rw">{_head(report)}{_facts(report)}{arms}{_evidence(report)}</div>'


def _head(report: Contents) -> str:
    """What endangers it, and the answer or the shortlist in a sentence."""
    dangers = [*danger_of(report), *map(str, report.dangers)]
    danger = f'<div class="danger">{"".join(f"<p>{esc(each)}</p>" for each in dangers)}</div>' if dangers else ""
    under = f'<br><span class="hint">{esc(under_the_headline(report))}</span>' if under_the_headline(report) else ""
    colour = "head" if report.status == "decided" else "head open"
    return f"""
<h1>{esc(report.study)} <span class="hint">{esc(report.asks)}</span></h1>
{danger}
<div class="{colour}"><b>{esc(sentence(report.headline))}</b>{under}</div>"""


def _facts(report: Contents) -> str:
    facts = "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in facts_of(report))
    return f'<div class="card"><dl>{facts}</dl></div>'


def _arms(report: Contents) -> str:
    legend = f'<p class="hint">{esc(legend_of(report))}</p>' if legend_of(report) else ""
    return rows_of(arm_table(report), {each.name for each in report.arm_rows if each.place == "out"}) + legend


def _evidence(report: Contents) -> str:
    evidence = f"<p>{esc(evidence_of(report))}</p>{rows_of(claim_table(report))}" if claims_apart(report) else ""
    course = evidence_chart(report)
    notes = "".join(f"<li>{esc(each)}</li>" for each in report.notes)
    return f"""{_section("Evidence", evidence + course) if evidence or course else ""}
{_section("Notes", f"<ul>{notes}</ul>") if notes else ""}"""


def _section(title: str, inside: str) -> str:
    return f'<div class="card"><h2>{title}</h2>\n{inside}</div>'


def rows_of(table: Table, out: frozenset[str] | set[str] = frozenset()) -> str:
    """A table in HTML; arms that are `out` in grey. On a phone, of many columns, a row is a list of its cells."""
    many = sum(any(row[i] for row in table[1:]) for i in range(len(table[0]))) >= MANY
    numeric = [all(len(row[i]) <= 24 for row in table[1:]) and i > 0 for i in range(len(table[0]))]

    def row(cells: list[str], tag: str) -> str:
        named = [f' data-is="{esc(title)}"' if many and tag == "td" else "" for title in table[0]]
        return "".join(
            f'<{tag} class="{"n" if short and tag == "td" else "w"}"{name}>{esc(cell)}</{tag}>'
            for cell, short, name in zip(cells, numeric, named, strict=True)
        )

    gone = {visible(name) for name in out}
    body = "".join(f"<tr{' class=out' if each[0] in gone else ''}>{row(each, 'td')}</tr>" for each in table[1:])
    kind = " class=many" if many else ""
    return f"<table{kind}><thead><tr>{row(table[0], 'th')}</tr></thead><tbody>{body}</tbody></table>"


def esc(text: str) -> str:
    """Text that a page only shows."""
    return html.escape(visible(text))


# --- charts: means with their intervals, and the evidence round by round


MOST = 60  # arms
LINES = 12  # courses of evidence
COLOURS = ("#1d5fa8", "#c98a00", "#176b2c", "#8e3b8e", "#b23a2a", "#0e7c86", "#6b5b1f", "#555555")
GREY = "#b5b5b5"


def means_chart(report: Contents) -> str:
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
        x, text = axis.place(tick), esc(report.units.given(tick))
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


def _interval(report: Contents, arm: Arm, axis: Axis, y: int, out: bool) -> str:
    colour, ink = (GREY, "#888") if out else ("#1d5fa8", "#222")
    low, high, mean = (axis.place(value or 0.0) for value in (arm.lower, arm.upper, arm.mean))
    text = f"{_short(arm.name)}  {report.units.value(arm.mean or 0.0, 'near')}"
    return (
        f'<text x="0" y="{y + 12}" fill="{ink}">{esc(text)}</text>'
        f'<line x1="{low}%" x2="{high}%" y1="{y + 22}" y2="{y + 22}" stroke="{colour}" stroke-width="3" '
        f'stroke-linecap="round"/><circle cx="{mean}%" cy="{y + 22}" r="5" fill="{colour}"/>'
    )


def evidence_chart(report: Contents) -> str:
    """The evidence for each claim round by round against the bar, on a log scale, with a legend below."""
    courses = [each for each in report.courses if len(each.rounds) > 0]
    if not courses or max(len(each.rounds) for each in courses) < 1:
        return ""
    bars = bars_of(courses)
    bar = max(bars.values())
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
    parts.append(f'<line x1="13%" x2="100%" y1="{down(0.0)}" y2="{down(0.0)}" stroke="#999"/>')
    steps = [(across(batch), down(bars[batch])) for batch in batches]
    for (x1, y1), (x2, y2) in itertools.pairwise([(13.0, steps[0][1]), *steps]):  # as it was for each round
        line = 'class="bar" stroke="#999" stroke-dasharray="5 4"'
        parts.append(f'<line x1="{x1}%" x2="{x2}%" y1="{y2}" y2="{y2}" {line}/>')
        parts += [] if y1 == y2 else [f'<line x1="{x1}%" x2="{x1}%" y1="{y1}" y2="{y2}" {line}/>']
    for value in dict.fromkeys([0.0, bars[batches[0]]]):
        parts.append(f'<text x="12%" y="{down(value) + 4}" text-anchor="end" fill="#555">{esc(odds(value))}</text>')
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
        said = esc(said).replace(" : ", "&nbsp;:&nbsp;")  # odds stay on one line
        legend.append(f"<li>{_swatch(colour)}{esc(_short(each.claim, 60))}: {said}</li>")
    more = len(courses) - len(drawn)
    legend += [f"<li>and {count(more)} more, which are nearer to the bar</li>"] if more else []
    chart = _svg(parts, top + height + 26, "Evidence for each claim, round by round, against the bar it must pass")
    first, last = odds(bars[batches[0]]), odds(bars[batches[-1]])
    which = "bar" if len({odds(each.log_bar) for each in report.claim_rows}) == 1 else "highest bar of what was open"
    moved = f", {first} in the first round and {last} now" if first != last else f": {last}"
    said = f"Odds won for each claim, by round (log scale). The dashed line is the {which}{moved}."
    return f'{chart}<p class="hint">{esc(said)}</p><ul class="legend">{"".join(legend)}</ul>'


def bars_of(courses: Sequence[Course]) -> dict[int, float]:
    """By round, the most that a claim had to reach which was not shown by then; if all were, what they had reached."""
    found: dict[int, tuple[bool, float]] = {}
    for each in courses:
        for batch, won, bar in zip(each.rounds, each.log_evidence, each.log_bar, strict=True):
            found[batch] = max(found.get(batch, (False, -math.inf)), (won < bar, bar))
    return {batch: bar for batch, (_, bar) in found.items()}


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


def _short(name: str, longest: int = 40) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
