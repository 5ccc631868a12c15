"""What a calibration found: a table for the terminal, a page with a picture for the docs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.calibration.cells import Refused
from roundwise.calibration.measure import FALSE_ALARM, POWER, CalibrationResult, CellCount, by_rule, source

FEW = 5  # strikes that a cell must allow for its rate to be shown

PARTS = {
    "rules": "rules, where their error is nearest to delta",
    "product": "questions x noise models x rules",
    "live": "live studies: ways to tell x noise models, changes",
    "bounds": "bounds and intervals of reports, at all times",
    "conditions": "policies that promise under a condition, where it holds",
    "reproductions": "holes of the first release, as they were found",
    "controls": "controls: broken copies, must be caught",
    "violations": "violations: in how many studies they were not flagged",
}


def plain(counted: CalibrationResult, refused: Sequence[Refused]) -> Plain:
    """Everything as JSON."""
    found, rules = counted.found, by_rule(counted.found)
    cells = len(found)
    return {
        "runs": sum(each.runs for each in found),
        "source": source(),
        "false_alarm": FALSE_ALARM,
        "as_it_should": not list_problems(counted),
        "rules": [
            {
                "rule": each.rule,
                "cells": len(each.cells),
                "runs": each.runs,
                "happened": each.happened,
                "allowed": each.allowed,
                "chance": each.chance,
                "broken": each.broken(len(rules)),
            }
            for each in rules
        ],
        "cells": [
            {
                "part": each.cell.part,
                "row": each.cell.row,
                "column": each.cell.column,
                "delta": each.cell.delta,
                "runs": each.runs,
                "happened": each.happened,
                "upper_95": each.upper,
                "chance": each.chance,
                "must_fail": each.cell.must_fail,
                "as_it_should": each.as_it_should(cells),
            }
            for each in found
        ],
        "failed": [{"cell": each.cell.name, "why": each.why} for each in counted.failed],
        "refused": [vars(each) for each in refused],
    }


def list_problems(counted: CalibrationResult) -> list[str]:
    """A sentence for each rule and each cell that is not as it should be, and for each that could not be counted."""
    found, rules = counted.found, by_rule(counted.found)
    sentences = [
        f"{each.rule}, all cells together: {each.happened} of {each.runs} runs, at most {each.allowed:.0f} on average "
        f"are allowed, by chance once in {1 / max(each.chance, 1e-99):.3g}."
        for each in rules
        if each.broken(len(rules))
    ]
    sentences += [
        f"{each.cell.name}: {each.happened} of {each.runs} runs, "
        + (
            "but a control must be caught."
            if each.cell.must_fail
            else f"by chance once in {1 / max(each.chance, 1e-99):.3g}."
        )
        for each in found
        if not each.as_it_should(len(found))
    ]
    return sentences + [f"{each.cell.name} could not be counted: {each.why}." for each in counted.failed]


def rule_rows(found: Sequence[CellCount]) -> tuple[list[str], list[list[str]]]:
    """A row a rule: its runs, its error over what it promises, at worst, at most, and that of its broken copy."""
    rules = by_rule(found)
    copies = {each.cell.row: each for each in found if each.cell.part == "controls"}
    titles = ["rule", "cells", "runs", "error / delta", "worst cell", "at most", "kept", "broken copy"]
    rows = []
    for each in rules:
        copy, worst, kept = copies.get(each.rule), each.worst, not each.broken(len(rules))
        kept &= all(cell.as_it_should(len(found)) for cell in each.cells)
        rows.append(
            [
                each.rule,
                _whole(len(each.cells)),
                _whole(each.runs),
                f"{each.happened / each.allowed:.2f}",
                f"{worst.rate / worst.cell.delta:.2f}",
                f"{max(cell.upper / cell.cell.delta for cell in each.cells):.2f}",
                "yes" if kept else "NO",
                "-"
                if copy is None
                else f"{copy.rate / copy.cell.delta:.2f}, {'caught' if copy.as_it_should(len(found)) else 'MISSED'}",
            ]
        )
    return titles, rows


def overview(found: Sequence[CellCount], refused: Sequence[Refused]) -> tuple[list[str], list[list[str]]]:
    """A row a part: cells, refusals, runs, and the worst."""
    titles = ["part", "cells", "refused", "runs", "worst / allowed", "as it should be"]
    rows = []
    for part, words in PARTS.items():
        mine = [each for each in found if each.cell.part == part]
        if not mine:
            continue
        worst = max(_ratio(each) for each in mine)
        good = sum(each.as_it_should(len(found)) for each in mine)
        rows.append(
            [
                words,
                _whole(len(mine)),
                _whole(sum(each.part == part for each in refused)),
                _whole(sum(each.runs for each in mine)),
                f"{worst:.2f}",
                "all" if good == len(mine) else f"{good} of {len(mine)}",
            ]
        )
    return titles, rows


def _ratio(each: CellCount) -> float:
    return each.rate / each.cell.delta if each.cell.delta else float(each.happened)


def summed(found: Sequence[CellCount], part: str, key: Callable[[CellCount], str], title: str) -> list[str]:
    """A row for each key: runs, error over what is allowed in all cells, and in the worst that says something."""
    rows: dict[str, list[CellCount]] = {}
    for each in found:
        if each.cell.part == part:
            rows.setdefault(key(each), []).append(each)
    table = []
    for name, mine in rows.items():
        allowed = sum(each.runs * each.cell.delta for each in mine)
        happened = sum(each.happened for each in mine)
        telling = [_ratio(each) for each in mine if each.runs * each.cell.delta >= FEW]
        table.append(
            [
                name,
                _whole(sum(each.runs for each in mine)),
                f"{happened / allowed:.2f}" if allowed else str(happened),
                f"{max(telling):.2f}" if telling else "-",
            ]
        )
    return _markdown([title, "runs", "error / delta", "worst"], table)


def page(counted: CalibrationResult, refused: Sequence[Refused], command: str, figure: str) -> str:
    """The page of the docs: first what was found of each rule, then the rest in few words; JSON has every cell."""
    found, rules = counted.found, by_rule(counted.found)
    cells, runs = len(found), sum(each.runs for each in found)
    others = [each for each in found if not each.cell.must_fail]
    sentences = list_problems(counted)
    lines = [
        "# Calibration: is the guarantee kept?",
        "",
        f"Generated by `{command}` (roundwise {__version__}, code {source()}): "
        f"{_whole(runs)} runs in {_whole(cells)} cells.",
        "",
        "**Every rule keeps its promise, and every broken copy was caught.**"
        if not sentences
        else "**Not as it should be:** " + " ".join(sentences[:5]),
        "",
        _paragraph(
            "We count the runs in which **a true null was ever rejected, a wrong answer given, or a true value",
            "excluded by a bound**; each run goes to its horizon, even past its end. That must have probability at",
            "most delta. Each rule is run where its error was measured to come closest to delta: ties of two arms,",
            "one mean on a level, one claim at its margin. In easier cells a rule with twice the error may still be",
            "below delta, and no number of runs would show it.",
        ),
        "",
        _paragraph(
            "*The test.* Exact binomial tests against delta, of every cell and of all cells of a rule together.",
            f"{_whole(cells)} cells share half of a familywise error of {FALSE_ALARM:g}, {len(rules)} rules the other",
            f"half: if every promise is kept, anything is called broken with probability at most {FALSE_ALARM:g}.",
            "*The power.* The short calibration, which CI runs, gives each of these cells enough runs to catch an",
            f"error of twice delta with probability {POWER:g}. *The check of the check.* A copy of each rule is broken",
            "(a bar three or more times too low, or a standard deviation assumed too small) until its error exceeds",
            "twice delta. It is counted in the same way and must be caught. Whole studies run the rules above them.",
        ),
        "",
        "## Rule by rule",
        "",
        _paragraph(
            "Error over delta: in all cells, in the worst cell, and the largest 95 % upper bound of any cell.",
            "Likelihood ratios with proved thresholds and the rules of other authors stay far below their bounds.",
        ),
        "",
        *_markdown(*rule_rows(found)),
        "",
        "## Everything else",
        "",
        *_markdown(*overview(found, refused)),
        "",
        f"![Measured error over delta, cell by cell]({figure})",
        "",
        "Each dot is a cell: how often it happened, over what is allowed. Controls, in red, are known to be wrong.",
        "",
    ]
    if any(each.cell.part == "product" for each in found):
        lines += [
            "## The whole product",
            "",
            _paragraph(
                "Every shape of a question with every noise model and every rule, measured or refused with a sentence",
                f"({_whole(len(refused))} are). The worst is that of a cell that allows at least {FEW} errors.",
            ),
            "",
            *summed(found, "product", lambda each: each.cell.question, "question"),
            "",
            *summed(found, "product", lambda each: each.cell.column.split("; ")[0], "noise"),
            "",
        ]
    for part, title in (("live", "Live studies"), ("bounds", "Bounds and intervals")):
        if any(each.cell.part == part for each in found):
            lines += [f"## {title}", "", *summed(found, part, lambda each: each.cell.row, "what"), ""]
    nearest = sorted(others, key=lambda each: (each.chance, each.cell.name))[:8]
    lines += [
        "## Nearest to the bound",
        "",
        *_markdown(["cell", "delta", "runs", "happened", "rate", "at most (95 %)"], [_row(each) for each in nearest]),
        "",
        "With so many cells some upper bounds exceed delta by chance; the test takes their number into account.",
        "`calibration.json`, written beside this page by `--out`, has every cell and every refusal.",
        "",
    ]
    return "\n".join(lines)


def _paragraph(*lines: str) -> str:
    return textwrap.fill(" ".join(lines), 118, break_on_hyphens=False)


def _row(each: CellCount) -> list[str]:
    return [
        f"{each.cell.row} / {each.cell.column}",
        f"{each.cell.delta:g}",
        _whole(each.runs),
        _whole(each.happened),
        f"{each.rate:.4f}",
        f"{each.upper:.4f}",
    ]


def _markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(titles), "|" + " --- |" * len(titles), *(line(row) for row in rows)]


def _whole(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def draw(found: Sequence[CellCount], path: Path) -> None:
    """Every cell as a dot: its rate over delta, part by part."""
    from roundwise.theory.figures.canvas import new_figure, save

    rng = np.random.default_rng(0)
    picture, (axes,) = new_figure(8.0, 4.2)
    parts = [part for part in PARTS if any(each.cell.part == part for each in found)]
    for x, part in enumerate(parts):
        mine = [each for each in found if each.cell.part == part and each.cell.delta > 0]
        heights = [max(each.rate / each.cell.delta, 0.003) for each in mine]
        places = x + rng.uniform(-0.35, 0.35, len(mine))
        colour = "#c22" if part == "controls" else "#26a"
        many = len(mine) > 200
        axes.plot(
            places,
            heights,
            ".",
            markersize=3 if many else 6,
            color=colour,
            alpha=0.35 if many else 0.8,
            rasterized=many,  # thousands of dots would make a file of megabytes
        )
    axes.axhline(1.0, color="black", linewidth=1)
    axes.annotate("what is allowed", (len(parts) - 0.5, 1.0), ha="right", va="bottom", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([0.003, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
    axes.set_xticks(range(len(parts)), [f"{part}\n({sum(each.cell.part == part for each in found)})" for part in parts])
    axes.set_ylabel("happened / allowed")
    save(picture, path)
