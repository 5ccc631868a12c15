"""The report as a page: half a page for whoever decides, then the rest; one HTML file, and a card in a notebook."""

from __future__ import annotations

import html

from roundwise.errors import visible
from roundwise.studies.report.boss import meaning, under_the_headline
from roundwise.studies.report.charts import evidence_chart, means_chart
from roundwise.studies.report.markdown import evidence_of, facts_of, foot_of
from roundwise.studies.report.model import Facts
from roundwise.studies.report.tables import Table, arm_table, claim_table, file_table, round_table
from roundwise.studies.report.text import claims_apart, danger_of, extent_of, legend_of
from roundwise.studies.words import sentence

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


def page_of(report: Facts) -> str:
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


def card_of(report: Facts) -> str:
    """The report for a notebook: the head, the arms and the charts."""
    arms = f'<div class="card"><h2>Arms</h2>{_arms(report)}{means_chart(report)}</div>'
    return f'<style>{STYLE}</style><div class="rw">{_head(report)}{_facts(report)}{arms}{_evidence(report)}</div>'


def _head(report: Facts) -> str:
    """What endangers it, and the answer or the shortlist in a sentence."""
    dangers = [*danger_of(report), *report.dangers]
    danger = f'<div class="danger">{"".join(f"<p>{esc(each)}</p>" for each in dangers)}</div>' if dangers else ""
    under = f'<br><span class="hint">{esc(under_the_headline(report))}</span>' if under_the_headline(report) else ""
    colour = "head" if report.status == "decided" else "head open"
    return f"""
<h1>{esc(report.study)} <span class="hint">{esc(report.asks)}</span></h1>
{danger}
<div class="{colour}"><b>{esc(sentence(report.headline))}</b>{under}</div>"""


def _facts(report: Facts) -> str:
    facts = "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in facts_of(report))
    return f'<div class="card"><dl>{facts}</dl></div>'


def _arms(report: Facts) -> str:
    legend = f'<p class="hint">{esc(legend_of(report))}</p>' if legend_of(report) else ""
    return rows_of(arm_table(report), {each.name for each in report.arm_rows if each.place == "out"}) + legend


def _evidence(report: Facts) -> str:
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
