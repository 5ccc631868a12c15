"""A plan on the terminal, in a notebook, and as a page."""

from __future__ import annotations

import html
import math
import textwrap
from typing import Protocol

from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.request import PlanRequest
from roundwise.planning.rows import Row
from roundwise.planning.tradeoff import Setting
from roundwise.planning.wording import what_if
from roundwise.study.study import asked_in_words

Table = list[list[str]]
LINE = 80  # letters of a line on a terminal
KEPT = "\N{NO-BREAK SPACE}"
HEADS = {
    "lead": "if it is ahead by",
    "distance": "if they are off the level by",
    "largest effect": "if the largest effect is",
}


class Shown(Protocol):
    """What a page or a figure shows of a plan."""

    @property
    def wish(self) -> PlanRequest:
        """What is planned, with the recommended settings."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """What it takes."""

    @property
    def target(self) -> int:
        """The row that the settings are chosen for."""

    @property
    def row(self) -> Row:
        """That row."""

    @property
    def front(self) -> tuple[Setting, ...]:
        """Settings, and what they take."""

    @property
    def words(self) -> str:
        """What it means."""

    @property
    def protocol(self) -> str:
        """A paragraph for a protocol."""

    @property
    def command(self) -> str:
        """The command that creates the study."""


def text_of(plan: Shown) -> str:
    """The plan for a terminal."""
    blocks = [heading(plan) + "\n", *_aligned(row_table(plan)), ""]
    if any(row.claims for row in plan.rows):
        blocks += ["Power" + _within(plan) + ":", *_aligned(power_table(plan)), ""]
    blocks += [*_wrapped(f"In words. {plan.words}"), ""]
    beside = beside_words(plan)
    blocks += [*_wrapped(f"Beside it. {beside}"), ""] if beside else []
    if len(plan.front) > 1:
        blocks += [f"Settings, for {what_if(plan.row)}:", *_aligned(front_table(plan)), ""]
    blocks += [*_wrapped(f"For a protocol. {plan.protocol}"), ""]
    return "\n".join([*blocks, f"Create it: {plan.command}"])


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text.replace(" %", f"{KEPT}%"), LINE, break_on_hyphens=False, break_long_words=False)
    return [line.replace(f"{KEPT}%", " %") for line in lines]


def heading(plan: Shown) -> str:
    """What is planned, in one line."""
    wish = plan.wish
    return f"Plan of '{wish.name}': {asked_in_words(wish)} Error at most {wish.delta:g}."


def row_lines(plan: Shown) -> list[str]:
    """The rows as lines of text: what is shown while the rest is computed."""
    return _aligned(row_table(plan))


def row_table(plan: Shown) -> Table:
    """What it takes, a line for each row."""
    wish, rows = plan.wish, plan.rows
    days, cost = wish.costs.days is not None, wish.costs.known
    head = [
        HEADS[rows[0].expected.noun] if rows[0].expected.lead is not None else "if",
        "typical results",
        "19 in 20",
        "rounds",
        "19 in 20",
    ]
    head += ["days", "19 in 20"] if days else []
    head += ["cost", "19 in 20"] if cost else []
    what = "a true claim" if rows[0].claims else "answer"
    head += [] if wish.budget is None else [f"{what} within {exact(wish.budget)}"]
    head += ["a fixed design", "lower bound"]
    table = [head]
    for i, row in enumerate(rows):
        line = [("> " if i == plan.target and len(rows) > 1 else "") + row.expected.label]
        line += [
            whole(row.samples.typical),
            _or(row, row.samples.p95),
            _or(row, row.batches.typical),
            _or(row, row.batches.p95),
        ]
        line += [_or(row, row.days.typical), _or(row, row.days.p95)] if row.days is not None else []
        line += [_or(row, row.cost.typical), _or(row, row.cost.p95)] if row.cost is not None else []
        line += [] if row.within_budget is None else [_chance(row.at_least_one if row.claims else row.within_budget)]
        line += ["-" if row.fixed is None else whole(row.fixed.samples)]
        line += ["-" if row.lower_bound is None else whole(row.lower_bound)]
        table.append(line)
    return table


def power_table(plan: Shown) -> Table:
    """How likely each claim is shown."""
    rows = [row for row in plan.rows if row.claims]
    claims = [each.claim for each in rows[0].claims]
    table = [["claim", *(row.expected.label for row in rows)]]
    for j, claim in enumerate(claims):
        table.append([claim, *(_power(row.claims[j].power, row.claims[j].true) for row in rows)])
    table.append(["at least one that is true", *(_chance(row.at_least_one) for row in rows)])
    table.append(["all that are true", *(_chance(row.all_true) for row in rows)])
    table.append(["any that is false", *(_chance(row.any_false) for row in rows)])
    return table


def front_table(plan: Shown) -> Table:
    """What other settings take."""
    days = any(each.mean_days is not None for each in plan.front)
    cost = any(each.mean_cost is not None for each in plan.front)
    power = any(each.power is not None for each in plan.front)
    head = [
        "settings",
        "results on average",
        "rounds on average",
        *(["days"] if days else []),
        *(["cost"] if cost else []),
        *(["a true claim"] if power else []),
        "",
    ]
    table = [head]
    for each in plan.front:
        line = [each.words, whole(each.mean_samples), f"{each.mean_batches:.1f}"]
        line += [whole(each.mean_days or 0.0)] if days else []
        line += [whole(each.mean_cost or 0.0)] if cost else []
        line += [share(each.power or 0.0)] if power else []
        table.append([*line, "recommended" if each.recommended else ""])
    return table


def html_of(plan: Shown) -> str:
    """The plan as a piece of a page, in classes without styles of its own."""
    esc = _escaped
    parts = [f"<h2>{esc(heading(plan))}</h2>", _table(row_table(plan), plan.target)]
    if any(row.claims for row in plan.rows):
        parts += [f"<h3>Power{esc(_within(plan))}</h3>", _table(power_table(plan))]
    parts.append(f'<p class="words"><b>In words.</b> {esc(plan.words)}</p>')
    if beside_words(plan):
        parts.append(f'<p class="fixed">{esc(beside_words(plan))}</p>')
    if len(plan.front) > 1:
        parts += [f"<h3>Settings, for {esc(what_if(plan.row))}</h3>", _table(front_table(plan))]
    parts.append(f'<h3>Protocol</h3><p class="protocol">{esc(plan.protocol)}</p>')
    parts.append(f"<h3>Create it</h3><pre>{esc(plan.command)}</pre>")
    return f'<div class="roundwise-plan">{"".join(parts)}</div>'


def beside_words(plan: Shown) -> str:
    """What others need in the row that matters: a fixed design, one with looks, and any method at all."""
    row = plan.row
    said = [] if row.fixed is None else [fixed_words(row)]
    if row.lower_bound is not None:
        said.append(f"No method with this error needs fewer than {whole(row.lower_bound)} on average.")
    return " ".join(said)


def fixed_words(row: Row) -> str:
    """What a fixed design needs, in a sentence or two."""
    assert row.fixed is not None
    fixed, looks = row.fixed, row.fixed.sequential
    how = f"{fixed.method}, power {share(fixed.power)}"
    said = f"For {what_if(row)} a fixed design ({how}) needs {whole(fixed.samples)} results."
    if looks is not None:
        said += (
            f" With {looks.looks} looks (O'Brien-Fleming) it needs at most {whole(looks.most)}, and "
            f"{whole(looks.expected)} on average."
        )
    return said


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; }
th { text-align: left; } td { text-align: right; } td:first-child { text-align: left; }
tr.target { background: #fbfbe6; font-weight: bold; }
.words { background: #ecf3fd; border-left: 3px solid #3a6ea5; padding: .8rem; }
.protocol { font-style: italic; } pre { white-space: pre-wrap; }
.wide { overflow-x: auto; } .wide svg { width: 100%; min-width: 40rem; height: auto; }
@media (max-width: 34rem) { body { margin: .5rem auto; padding: 0 .6rem; } h2 { font-size: 1.2rem; }
  table { font-size: .85rem; } th, td { padding: .25rem .4rem; } }
@media print { .wide svg { min-width: 0; } }
"""


def page_of(plan: Shown, drawing: str) -> str:
    """The plan as a page of its own, with its figure as SVG."""
    title = html.escape(heading(plan))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>{html_of(plan)}"
        f'<div class="wide">{drawing}</div></body></html>\n'
    )


def _within(plan: Shown) -> str:
    return "" if plan.wish.budget is None else f" within {exact(plan.wish.budget)} results"


def _power(power: float, true: bool) -> str:
    return share(power) + ("" if true else " (false)")


def _chance(value: float | None) -> str:
    return "-" if value is None else share(value)


def _or(row: Row, value: float) -> str:
    return whole(value) if math.isfinite(value) or row.answerable else ""


def _escaped(text: str) -> str:
    """Text that a page only shows; a number stays with its per cent."""
    return html.escape(text).replace(" %", "&nbsp;%")


def _table(table: Table, target: int | None = None) -> str:
    esc = _escaped
    head = "".join(f"<th>{esc(cell)}</th>" for cell in table[0])
    lines = []
    for i, row in enumerate(table[1:]):
        mark = ' class="target"' if i == target else ""
        cells = "".join(f"<td>{esc(cell.removeprefix('> '))}</td>" for cell in row)
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def _aligned(table: Table) -> list[str]:
    """A table in columns; where it is too wide for a terminal, its head has several lines."""
    cells = [max(len(row[i]) for row in table[1:]) for i in range(len(table[0]))]
    widths = [max(len(title), width) for title, width in zip(table[0], cells, strict=True)]
    head = [[title] for title in table[0]]
    if sum(widths) + 2 * len(widths) - 2 > LINE:
        whole_ones = {"19 in 20": f"19{KEPT}in{KEPT}20", "a fixed design": f"a{KEPT}fixed design"}
        titles = [whole_ones.get(title, title) for title in table[0]]
        widths = [max(width, *map(len, title.split(" "))) for title, width in zip(titles, cells, strict=True)]
        head = [textwrap.wrap(title, width) for title, width in zip(titles, widths, strict=True)]
    tall = max(len(each) for each in head)
    rows = [[each[i - tall] if len(each) >= tall - i else "" for each in head] for i in range(tall)]
    lines = []
    for row in [*rows, *table[1:]]:
        put = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(put).rstrip())
    return lines
