"""The arena as a self-contained HTML page, as a page of the docs, and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roundwise.arena.ranking import KINDS, Standing, advice, standings
from roundwise.arrays import Plain
from roundwise.render.html import render_markdown, render_page
from roundwise.render.svg import CROSS, SERIES, SHAPES, Axis, Chart, merge_legends, render_legend


def draw_arena(found: Sequence[Standing]) -> list[Chart]:
    """Draw a chart for each kind of question: results over the lower bound against batches, both on log scales.

    Hollow points have no guarantee; methods that are wrong too often are left out.
    """
    shown = [each for each in found if each.over_bound and each.batches and not each.broken]
    names = list(dict.fromkeys(each.entrant for each in shown))
    if not shown:
        return []
    x = Axis.logarithmic(each.batches or 1.0 for each in shown)
    y = Axis.logarithmic([1.0, *(each.over_bound or 1.0 for each in shown)])
    charts = []
    for kind in (kind for kind in KINDS if any(each.kind == kind for each in shown)):
        chart = Chart(x, y, top=46.0)
        chart.draw_names("batches", "results / lower bound", KINDS[kind])
        chart.draw_ticks(lambda tick: f"{tick:g}", lambda tick: f"{tick:g}")
        chart.draw_level(1.0, across=True, kind="threshold")
        for each in (each for each in shown if each.kind == kind):
            number = names.index(each.entrant)
            look = f"s{number % SERIES}" + ("" if each.guarantee else " hollow")
            shape = CROSS if each.sequential else SHAPES[number // SERIES % len(SHAPES)]
            name = _starred(each)
            chart.draw_point(each.batches or 1.0, each.over_bound or 1.0, look, shape, title=name)
            chart.explain(name, look, shape)
        charts.append(chart)
    return charts


@dataclass(frozen=True)
class RankingColumn:
    """A column: its heading, sort key and displayed text."""

    heading: str
    key: str
    form: str = "{}"  # of the value, if there is one
    text: bool = False


STANDINGS = (
    RankingColumn("question", "question", text=True),
    RankingColumn("method", "entrant", text=True),
    RankingColumn("× bound", "over_bound", "{:.2f}"),
    RankingColumn("of Wager's", "over_wager", "{:.2f}"),
    RankingColumn("batches", "batches", "{:.1f}"),
    RankingColumn("decided", "decided", "{}"),
    RankingColumn("of", "contests", "{}"),
    RankingColumn("claims shown", "shown", "{:.0%}"),
    RankingColumn("error", "error", "{:.4f}"),
    RankingColumn("≤ (95 %)", "error_upper_95", "{:.4f}"),
    RankingColumn("ms a run", "ms_a_run", "{:.3g}"),
)
CONTEST_COLUMNS = (
    RankingColumn("contest", "contest", text=True),
    RankingColumn("from", "source", text=True),
    RankingColumn("method", "entrant", text=True),
    RankingColumn("arms", "arms", "{}"),
    RankingColumn("results", "samples_mean", "{:,.0f}"),
    RankingColumn("× bound", "samples_over_lower_bound", "{:.2f}"),
    RankingColumn("batches", "batches_mean", "{:.1f}"),
    RankingColumn("error", "error", "{:.3f}"),
    RankingColumn("undecided", "undecided", "{:.2f}"),
    RankingColumn("runs", "runs", "{}"),
    RankingColumn("ms a run", "ms_a_run", "{:.3g}"),
)


def html_page(rows: Sequence[Plain], refused: Mapping[str, Sequence[str]], about: str) -> str:
    """Render everything on one page: advice, charts, tables that can be sorted; nothing is loaded from elsewhere."""
    found = standings(rows)
    charts = draw_arena(found)
    return render_page(
        "arena.html",
        about=about,
        advice=advice(found),
        explained=EXPLAINED,
        charts=[chart.render_plot() for chart in charts],
        legend=render_legend(merge_legends(charts)),
        standings=_cells(STANDINGS, [_shown(each) for each in found]),
        rows=_cells(CONTEST_COLUMNS, rows),
        kinds={kind: KINDS.get(kind, kind) for kind in dict.fromkeys(row["question"] for row in rows)},
        refused=refused,
    )


def docs_page(rows: Sequence[Plain], about: str, command: str, picture: str) -> str:
    """The page of the docs, in Markdown: words, picture, a table for each kind of question."""
    found = standings(rows)
    ties: dict[str, list[Plain]] = {}
    for row in rows:
        if row["near_tie"]:
            ties.setdefault(f"{row['contest']}, {row['budget']:,.0f} results", []).append(row)
    return render_markdown(
        "arena.md",
        about=about,
        command=command,
        picture=picture,
        advice=advice(found),
        explained=EXPLAINED,
        others=dict.fromkeys(row["source"] for row in rows if row["lower_bound_for"] != "these rewards"),
        right=[each.heading for each in STANDINGS if not each.text],
        tables={
            KINDS[kind]: _table([_shown(each) for each in found if each.kind == kind])
            for kind in dict.fromkeys(each.kind for each in found)
        },
        ties={
            name: [
                f"{row['entrant']} {1 - row['undecided']:.0%} ({row['error']:.0%} wrong)"
                for row in here
                if row["undecided"] < 1
            ]
            for name, here in ties.items()
        },
    )


def _table(rows: Sequence[Plain]) -> tuple[list[str], list[list[str]]]:
    """Titles and rows of the columns that are not empty."""
    used = [each for each in STANDINGS[1:] if any(row.get(each.key) is not None for row in rows)]
    return [each.heading for each in used], [[_cell(row, each) for each in used] for row in rows]


EXPLAINED = (
    "Each point is a method, over all contests of its kind (geometric means); no method stays below the dashed line. "
    "Hollow and *: no guarantee. Crosses: sequential references, which look after every few results. Methods that are "
    "wrong more often than allowed are not drawn."
)


def _starred(each: Standing) -> str:
    return each.entrant + ("" if each.guarantee else " *")


def _shown(each: Standing) -> Plain:
    return each.plain() | {"question": KINDS[each.kind], "entrant": _starred(each)}


def _cell(row: Plain, column: RankingColumn) -> str:
    value = row.get(column.key)
    if value is None:
        return ""
    return column.form.format(value) if not isinstance(value, float) or abs(value) < 1000 else f"{value:,.0f}"


def _cells(columns: Sequence[RankingColumn], rows: Sequence[Plain]) -> Plain:
    """A table for the page: its non-empty columns, and each row with its sort keys."""
    used = [each for each in columns if any(row.get(each.key) is not None for row in rows)]

    def cell(row: Plain, column: RankingColumn) -> tuple[RankingColumn, str, str | None]:
        value = row.get(column.key)
        return column, _cell(row, column), None if column.text else "" if value is None else f"{value:.6g}"

    return {"columns": used, "lines": [(row["question"], [cell(row, each) for each in used]) for row in rows]}
