"""The picture of the arena: for each kind of question, results over the lower bound against batches."""

from __future__ import annotations

from collections.abc import Sequence

from roundwise.arena.ranking import KINDS, Standing
from roundwise.theory.figures.canvas import Figure, new_figure

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
