"""An empty figure in the style that all our figures share, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roundwise.errors import InputError

Figure = Any  # of matplotlib, which is imported only to draw
Axes = Any


def new_figure(width: float = 6.4, height: float = 4.0) -> tuple[Figure, Axes]:
    """An empty figure and its axes, in the style that all our figures share."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Figures need the extra 'sim': pip install 'roundwise[sim]'.") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    style(axes)
    return figure, axes


def new_panels(number: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """The same with several axes side by side."""
    figure, only = new_figure(width, height)
    only.remove()
    panels = list(figure.subplots(1, number))
    for axes in panels:
        style(axes)
    return figure, panels


def style(axes: Axes) -> None:
    """Two spines and a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)


def save(figure: Figure, path: Path) -> None:
    """Write a figure by the ending of its name; the same figure gives the same bytes."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with mpl.rc_context({"svg.hashsalt": "roundwise", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=160, metadata=metadata)
