"""The arena as one HTML page that stands alone, as a page of the docs, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from roundwise.arena.ranking import KINDS, Standing, advice, standings
from roundwise.arrays import Plain
from roundwise.theory.figures.canvas import Figure, new_figure, save

MARKERS = "osD^vPX*"


def arena_figure(found: Sequence[Standing]) -> Figure:
    """A panel for each kind of question; hollow: no guarantee; whoever is wrong too often is left out."""
    shown = [each for each in found if each.over_bound and each.batches and not each.broken]
    kinds = [kind for kind in KINDS if any(each.kind == kind for each in shown)]
    names = list(dict.fromkeys(each.entrant for each in shown))
    columns = min(3, len(kinds))
    lines = -(-len(kinds) // columns)
    width = max(3.4 * columns + 0.2, 7.4)
    figure, only = new_figure(width, 2.9 * lines + 1.6)
    only.remove()
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, kind in zip(panels, kinds, strict=False):
        panel.set(xscale="log", yscale="log")
        panel.axhline(1.0, color="0.6", linewidth=0.8, linestyle="--")
        panel.grid(color="0.92", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title(KINDS[kind], loc="left", fontsize=9)
        for each in shown:
            if each.kind == kind:
                _point(panel, each, names.index(each.entrant))
        panel.set_xlabel("batches", fontsize=8)
        panel.tick_params(labelbottom=True, labelsize=8)
    for panel in panels[::columns]:
        panel.set_ylabel("results / lower bound", fontsize=8)
    for panel in panels[len(kinds) :]:
        panel.remove()
    handles: dict[str, object] = {}
    for panel in panels[: len(kinds)]:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=int(width // 1.8), fontsize=7, frameon=False
    )
    return figure


def _point(panel: Figure, each: Standing, number: int) -> None:
    colour = f"C{number % 10}"
    panel.plot(
        each.batches,
        each.over_bound,
        MARKERS[number // 10 * 3 % len(MARKERS)] if not each.sequential else "x",
        color=colour,
        markerfacecolor=colour if each.guarantee else "none",
        markersize=7,
        label=each.entrant + ("" if each.guarantee else " *"),
        linestyle="none",
    )


@dataclass(frozen=True)
class Column:
    """A heading, and the cell of a row: as it is sorted, and as it is shown."""

    heading: str
    key: str
    form: str = "{}"  # of the value, if there is one
    text: bool = False


STANDINGS = (
    Column("question", "question", text=True),
    Column("method", "entrant", text=True),
    Column("× bound", "over_bound", "{:.2f}"),
    Column("of Wager's", "over_wager", "{:.2f}"),
    Column("batches", "batches", "{:.1f}"),
    Column("decided", "decided", "{}"),
    Column("of", "contests", "{}"),
    Column("claims shown", "shown", "{:.0%}"),
    Column("error", "error", "{:.4f}"),
    Column("≤ (95 %)", "error_upper_95", "{:.4f}"),
    Column("ms a run", "ms_a_run", "{:.3g}"),
)
ROWS = (
    Column("contest", "contest", text=True),
    Column("from", "source", text=True),
    Column("method", "entrant", text=True),
    Column("arms", "arms", "{}"),
    Column("results", "samples_mean", "{:,.0f}"),
    Column("× bound", "samples_over_lower_bound", "{:.2f}"),
    Column("batches", "batches_mean", "{:.1f}"),
    Column("error", "error", "{:.3f}"),
    Column("undecided", "undecided", "{:.2f}"),
    Column("runs", "runs", "{}"),
    Column("ms a run", "ms_a_run", "{:.3g}"),
)


def html_page(rows: Sequence[Plain], refused: Mapping[str, Sequence[str]], about: str) -> str:
    """Everything on one page: words, picture, tables that can be sorted; nothing is loaded from elsewhere."""
    found = standings(rows)
    template = Template(files("roundwise.arena").joinpath("page.html").read_text(encoding="utf-8"))
    kinds = dict.fromkeys(row["question"] for row in rows)
    return template.substitute(
        about=escape(about),
        advice="".join(f"<p>{_bold(escape(each))}</p>" for each in advice(found)),
        figure=_svg(found),
        standings=_table("standings", STANDINGS, [_shown(each) for each in found]),
        kinds="".join(f'<option value="{escape(kind)}">{escape(KINDS.get(kind, kind))}</option>' for kind in kinds),
        rows=_table("rows", ROWS, list(rows)),
        refused="".join(f"<li>{escape(', '.join(who))}: {escape(why)}</li>" for why, who in refused.items()),
    )


def docs_page(rows: Sequence[Plain], about: str, command: str, picture: str) -> str:
    """The page of the docs, in Markdown: words, picture, a table for each kind of question."""
    found = standings(rows)
    parts = [
        "# The arena",
        f"Generated by `{command}`; do not edit. {about}",
        "## Which algorithm?",
        *advice(found),
        f"![Results over the lower bound against batches, for each kind of question]({picture})",
        "Each point is a method, over all contests of its kind (geometric means); dashed: what no method can stay "
        "below. Hollow and *: no guarantee. Crosses: sequential yardsticks, which look after every few results. "
        "Whoever is wrong too often is not drawn.",
        *_bounds_of_others(rows),
    ]
    for kind in dict.fromkeys(each.kind for each in found):
        parts += [f"## {KINDS[kind]}", _markdown([each for each in found if each.kind == kind])]
    parts += ["## Near-ties", _near_ties(rows), HOW]
    return "\n\n".join(parts) + "\n"


HOW = """## Read it yourself

Every run is in `cells/*.parquet`, every row of the tables in `arena.parquet`:

```py
import pandas as pd

rows = pd.read_parquet("results/arena/arena.parquet")
runs = pd.read_parquet("results/arena/cells")
```

```sql
select entrant, avg(samples_over_lower_bound) from 'results/arena/arena.parquet' group by entrant order by 2;
```

The same command goes on where it was interrupted. [Your own](own.md) policy takes part with
`--policy mymodule:MyPolicy`. A folder of real outcomes is given with `--data DIR`: a table `instances.csv` with the
columns `file,instance,question,param` (best arm, top-k, threshold, any-above; the parameter is k or the level), and
files with the columns `instance,arm,outcome,count`. Your own contests stand in a file that is given with
`--contests FILE`:

```toml
[[contest]]
name = "five rates"
question = { name = "best-arm" }
instance = { means = [0.5, 0.4, 0.4, 0.3, 0.2], rewards = "binary" }
budget = 20000
```"""


def _markdown(found: Sequence[Standing]) -> str:
    columns = [each for each in STANDINGS[1:] if any(_shown(one).get(each.key) is not None for one in found)]
    lines = ["| " + " | ".join(each.heading for each in columns) + " |"]
    lines.append("|" + "|".join(" --- " if each.text else " ---: " for each in columns) + "|")
    lines += ["| " + " | ".join(_cell(_shown(one), each) for each in columns) + " |" for one in found]
    return "\n".join(lines)


def _near_ties(rows: Sequence[Plain]) -> str:
    ties = [row for row in rows if row["near_tie"]]
    if not ties:
        return "None in this arena."
    lines = ["No sensible number of results decides these; whoever answers within the budget should be right.", ""]
    for name in dict.fromkeys(row["contest"] for row in ties):
        here = [row for row in ties if row["contest"] == name]
        said = [
            f"{row['entrant']} {1 - row['undecided']:.0%} ({row['error']:.0%} wrong)"
            for row in here
            if row["undecided"] < 1
        ]
        lines.append(f"- {name}, {here[0]['budget']:,.0f} results: decided by {', '.join(said) or 'nobody'}.")
    return "\n".join(lines)


def _bounds_of_others(rows: Sequence[Plain]) -> list[str]:
    """Of which contests the lower bound is that of other rewards."""
    others = dict.fromkeys(row["source"] for row in rows if row["lower_bound_for"] != "these rewards")
    if not others:
        return []
    return [
        f"In the contests from {', '.join(others)} the lower bound is that of normal rewards with the largest variance "
        "that their range allows: theirs is smaller, and a method that bets on what it sees may need less than it."
    ]


def _shown(each: Standing) -> Plain:
    star = "" if each.guarantee else " *"
    return each.plain() | {"question": KINDS[each.kind], "entrant": each.entrant + star}


def _cell(row: Plain, column: Column) -> str:
    value = row.get(column.key)
    if value is None:
        return ""
    return column.form.format(value) if not isinstance(value, float) or abs(value) < 1000 else f"{value:,.0f}"


def _table(name: str, columns: Sequence[Column], rows: Sequence[Plain]) -> str:
    columns = [each for each in columns if any(row.get(each.key) is not None for row in rows)]
    head = "".join(
        f'<th scope="col"{" class=text" if each.text else ""}><button>{escape(each.heading)}</button></th>'
        for each in columns
    )
    body = "".join(
        f'<tr data-kind="{escape(str(row["question"]))}">' + "".join(_td(row, each) for each in columns) + "</tr>"
        for row in rows
    )
    return f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _td(row: Plain, column: Column) -> str:
    value = row.get(column.key)
    if column.text:
        return f'<td class="text">{escape(str(value))}</td>'
    return f'<td data-value="{"" if value is None else f"{value:.6g}"}">{escape(_cell(row, column))}</td>'


def _svg(found: Sequence[Standing]) -> str:
    """The picture, to stand within the page."""
    if not any(each.over_bound is not None for each in found):
        return ""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arena.svg"
        save(arena_figure(found), path)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]


def _bold(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
