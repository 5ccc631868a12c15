"""What a report holds, and how it looks on a terminal, in Markdown and as a page; `facts` decides what it says."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from roundwise.stopping import Claim
from roundwise.studies.guarantee import CONDITIONAL, KEPT
from roundwise.studies.report.words import SPARE, batches, number, odds, sentence

TINY = 1e-12  # what is less to spare is not worth a number: the decision shows it, the bound just agrees
_EVIDENCE = (
    "Each line is something that must be shown before the study may stop, with the odds won for it so far and the odds "
    "needed. The study stops when enough lines are shown: this table is the stopping rule."
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3rem .6rem;"
    "text-align:left}td:not(:first-child){white-space:nowrap}.headline{font-size:1.3rem;font-weight:600}"
    ".guarantee{border-left:4px solid #b22;padding-left:.8rem}pre{background:#f4f4f4;padding:.8rem;overflow:auto}"
    "svg{width:100%;height:auto;font-size:12px}.foot{color:#777;font-size:.85rem}"
)


@dataclass(frozen=True)
class Arm:
    """One arm: what came back, and bounds that hold at all times."""

    name: str
    count: int
    mean: float | None
    lower: float | None  # None where it was not computed or nothing is known
    upper: float | None
    behind: float | None  # how far behind the best, at least
    trails_least: float | None = None  # how far behind the arm that leads, at least, if a tolerance is allowed
    trails_most: float | None = None  # how far behind the arm that leads, at most; 0 for itself


@dataclass(frozen=True)
class Report:
    """Everything there is to say about a study."""

    study: str
    question: str
    status: str  # decided, undecided, closed
    answer: Any  # as in JSON, None if undecided
    headline: str
    delta: float
    samples: int
    batches: int
    outstanding: dict[str, int]
    arms: list[Arm]
    claims: list[Claim]
    assumed: str
    level: float | None  # that means are compared with, if the question has one
    ends: str  # what bounds of means are, with their probability, where they are shown
    warnings: list[str]
    guarantee: str  # "kept", "conditional on the assumption that ..." or "void because ..."
    sentence: str  # for a protocol or a paper
    next: str
    reproduce: str
    version: str

    def plain(self) -> dict[str, Any]:
        """The report as JSON."""
        found = asdict(self)
        found["claims"] = [
            {
                "claim": each.words,
                "log_evidence": each.evidence,
                "log_bar": each.bar,
                "shown": each.shown,
                "spare": each.spare,
            }
            for each in self.claims
        ]
        return found

    def top(self) -> str:
        """The headline for a terminal; above it what became of the guarantee, unless it was kept."""
        return "\n".join(_top(self))

    def text(self) -> str:
        """The report for a terminal."""
        return _text(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        return _markdown(self)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return _page(self)

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)


def _text(report: Report) -> str:
    """The report for a terminal."""
    lines = [*_top(report), ""]
    lines += [
        f"{report.samples} results in {batches(report.batches)}; error {_promise(report)}. {report.assumed}",
        "",
    ]
    lines += [*_aligned(_arm_table(report)), ""]
    lines += [*_aligned(_claim_table(report)), ""] if report.claims else []
    if report.outstanding:
        waiting = [f"{arm}: {n}" for arm, n in report.outstanding.items()]
        lines += [f"Outstanding: {', '.join(waiting[:30])}{', ...' if len(waiting) > 30 else ''}.", ""]
    return "\n".join([*lines, *(f"Note: {each}" for each in report.warnings), f"Next: {report.next}"])


def _markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# {_md(report.study)}", ""]
    lines += [] if report.guarantee == KEPT else [f"> {_md(_stands(report))}", ""]
    lines += [f"**{_md(sentence(report.headline))}**", "", _md(report.sentence), ""]
    lines += [f"- Question: {report.question}", f"- Error probability: {_promise(report)}"]
    lines += [f"- Results: {report.samples} in {batches(report.batches)}", f"- Assumed: {report.assumed}", ""]
    lines += ["## Arms", "", *_pipes(_arm_table(report)), ""]
    if report.claims:
        lines += ["## Evidence", "", _evidence(report), "", *_pipes(_claim_table(report)), ""]
    if report.warnings:
        lines += ["## Notes", "", *(f"- {_md(each)}" for each in report.warnings), ""]
    lines += ["## To reproduce", "", "```", report.reproduce, "```", "", f"roundwise {report.version}", ""]
    return "\n".join(lines)


def _page(report: Report) -> str:
    """The report as one HTML page that needs nothing else."""
    esc = html.escape
    arms = _arm_table(report)
    evidence = (
        f"<h2>Evidence</h2>\n<p>{esc(_evidence(report))}</p>\n{_rows(_claim_table(report))}" if report.claims else ""
    )
    notes = "".join(f"<li>{esc(each)}</li>" for each in report.warnings)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{esc(report.study)}</title><style>{_STYLE}</style></head><body>
<h1>{esc(report.study)}</h1>
{"" if report.guarantee == KEPT else f'<p class="guarantee">{esc(_stands(report))}</p>'}
<p class="headline">{esc(sentence(report.headline))}</p>
<p>{esc(report.sentence)}</p>
<ul><li>Question: {esc(report.question)}</li><li>Error probability: {_promise(report)}</li>
<li>Results: {report.samples} in {batches(report.batches)}</li><li>Assumed: {esc(report.assumed)}</li></ul>
<h2>Arms</h2>
{_interval_plot(report.arms, report.level)}
{_rows(arms)}
{evidence}
{f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""}
<h2>To reproduce</h2>
<pre>{esc(report.reproduce)}</pre>
<p class="foot">roundwise {esc(report.version)}</p>
</body></html>
"""


def _top(report: Report) -> list[str]:
    """What became of the guarantee, unless it was kept, and then the headline."""
    return [*([] if report.guarantee == KEPT else [_stands(report)]), f"{report.study}: {report.headline}"]


def _stands(report: Report) -> str:
    """What became of the guarantee, as a sentence."""
    return f"The guarantee is {report.guarantee}."


def _promise(report: Report) -> str:
    if report.guarantee == KEPT:
        return f"at most {report.delta:g}"
    if report.guarantee.startswith(CONDITIONAL):
        return f"at most {report.delta:g}, under the conditions above"
    return f"aimed at {report.delta:g}, without a guarantee"


def _arm_table(report: Report) -> list[list[str]]:
    bounds = any(each.lower is not None or each.upper is not None for each in report.arms)
    behind = any(each.behind is not None for each in report.arms)
    shown = report.arms if len(report.arms) <= 60 else sorted(report.arms, key=lambda arm: -(arm.mean or 0.0))[:60]
    head = ["arm", "results", "mean"]
    trails = any(each.trails_most is not None for each in report.arms)
    head += [report.ends] if bounds else []
    head += ["behind the best by"] if behind else []
    head += ["behind the leader by"] if trails else []
    table = [head]
    for each in shown:
        row = [each.name, str(each.count), number(each.mean)]
        row += [_between(each.lower, each.upper)] if bounds else []
        if behind:
            best = "the best" if report.status == "decided" else "may be the best"
            row.append(f"at least {number(each.behind)}" if each.behind else best)
        if trails:
            row.append("leads" if each.trails_most == 0.0 else _between(each.trails_least, each.trails_most))
        table.append(row)
    return table


def _between(lower: float | None, upper: float | None) -> str:
    if lower is None:
        return "no bound yet" if upper is None else f"at most {number(upper)}"
    return f"at least {number(lower)}" if upper is None else f"{number(lower)} to {number(upper)}"


def _evidence(report: Report) -> str:
    return _EVIDENCE + (SPARE if any(each.shown and each.spare is not None for each in report.claims) else "")


def _claim_table(report: Report) -> list[list[str]]:
    shown = report.claims if len(report.claims) <= 60 else sorted(report.claims, key=lambda each: each.evidence)[:60]
    table = [["to be shown", "evidence", "needed", ""]]
    for each in shown:
        won, bar = odds(each.evidence), odds(each.bar)
        if won == bar and not each.shown:
            won = f"almost {won}"
        table.append([each.words, won, bar, _holds(each.spare) if each.shown else "open"])
    return table


def _holds(spare: float | None) -> str:
    if spare is None:
        return "shown"
    return f"shown, {'more than 0' if spare < TINY else f'at least {number(spare)}'} to spare"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _pipes(table: list[list[str]]) -> list[str]:
    rows = ["| " + " | ".join(_md(cell) for cell in row) + " |" for row in table]
    return [rows[0], "|" + " --- |" * len(table[0]), *rows[1:]]


def _md(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|*`\[\]])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def _rows(table: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _interval_plot(arms: list[Arm], level: float | None) -> str:
    """Means and intervals as inline SVG, with the level if there is one; nothing where there are none, or too many."""
    shown = [each for each in arms if each.mean is not None and each.lower is not None and each.upper is not None]
    if not shown or len(shown) > 60:
        return ""
    marked = [] if level is None else [level]
    low = min([each.lower or 0.0 for each in shown] + marked)
    high = max([each.upper or 0.0 for each in shown] + marked)
    width, left, step = 640, 160, 26
    scale = (width - left - 20) / ((high - low) or 1.0)

    def place(value: float | None) -> float:
        return left + ((value or 0.0) - low) * scale

    marks = []
    for i, each in enumerate(shown):
        y = 18 + i * step
        marks.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(_short(each.name))}</text>'
            f'<line x1="{place(each.lower):.1f}" x2="{place(each.upper):.1f}" y1="{y}" y2="{y}" stroke="#555" '
            f'stroke-width="2"/><circle cx="{place(each.mean):.1f}" cy="{y}" r="4" fill="#b22"/>'
        )
    height = 18 + len(shown) * step + 14
    for value in marked:
        x = place(value)
        marks.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height - 16}" stroke="#26c" stroke-dasharray="4 3"/>'
            f'<text x="{x:.1f}" y="{height - 2}" text-anchor="middle" fill="#26c">{value:.4g}</text>'
        )
    ends = (
        f'<text x="{left}" y="{height - 2}">{low:.4g}</text>'
        f'<text x="{width - 20}" y="{height - 2}" text-anchor="end">{high:.4g}</text>'
    )
    title = "Mean of each arm with its interval"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{"".join(marks)}{ends}</svg>'


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"
