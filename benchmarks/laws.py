"""The pictures of docs/which-model.md: `python benchmarks/laws.py --figure docs/figures/laws.svg`."""

import argparse
from pathlib import Path

import numpy as np

from roundwise.theory.figures.canvas import new_figure, save

RNG = np.random.default_rng(1)
ROWS = 4000
LAWS = {  # what a result is: rows, and edges of the bars
    "yes or no": (RNG.binomial(1, 0.3, ROWS), np.arange(-0.5, 2)),
    "stars, 1 to 5": (RNG.choice([1, 2, 3, 4, 5], ROWS, p=[0.08, 0.07, 0.15, 0.3, 0.4]), np.arange(0.5, 6)),
    "defects": (RNG.poisson(2.5, ROWS), np.arange(-0.5, 11)),
    "a lab value": (RNG.normal(100, 12, ROWS), np.linspace(60, 140, 21)),
    "a time, s": (RNG.lognormal(1.0, 0.8, ROWS), np.linspace(0, 20, 21)),
    "revenue per visitor, $": (
        np.where(RNG.random(ROWS) < 0.1, RNG.lognormal(3.5, 0.8, ROWS), 0.0),
        np.linspace(-5, 205, 22),
    ),
}
MODELS = ("--binary", "--range 1 5", "--counts", "--normal", "--large-sample", "--large-sample\nor --cap")


def draw(path):
    figure, every = new_figure(11.0, 2.1, len(LAWS))
    for axes, (name, (rows, edges)), model in zip(every, LAWS.items(), MODELS, strict=True):
        shares, _ = np.histogram(rows, edges)
        axes.bar((edges[1:] + edges[:-1]) / 2, shares / ROWS, width=0.9 * np.diff(edges), color="#4878a8")
        axes.set_yticks([])
        if len(edges) < 8:  # whole numbers
            axes.set_xticks((edges[1:] + edges[:-1]) / 2)
        axes.set_title(model, fontsize=9, family="monospace")
        axes.set_xlabel(name, fontsize=9)
        axes.tick_params(labelsize=8)
    print(save(figure, path))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--figure", type=Path, default=Path("docs/figures/laws.svg"))
    draw(options.parse_args().figure)
