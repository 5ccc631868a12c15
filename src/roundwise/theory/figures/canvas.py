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
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write a figure by the ending of its name; the same figure gives the same bytes."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    with mpl.rc_context({"svg.hashsalt": "roundwise", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=160, metadata=metadata)
