"""An empty figure in the style that all our figures share, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roundwise.errors import InputError

Figure = Any  # of matplotlib, which is imported only to draw
Axes = Any


def new_figure(width: float = 6.4, height: float = 4.0, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes, one or several side by side: two spines, and a faint grid behind the data."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Figures need the extra 'sim': pip install 'roundwise[sim]'.") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    every = list(figure.subplots(1, panels, squeeze=False)[0])
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, every


def save(figure: Figure, path: Path) -> Path:
    """Write a figure by the ending of its name and return the path; the same figure gives the same bytes."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with mpl.rc_context({"svg.hashsalt": "roundwise", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=160, metadata=metadata)
    return path
