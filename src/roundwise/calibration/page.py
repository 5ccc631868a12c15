"""Reports of a calibration: tables for the terminal, a page with a figure for the docs, everything as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.calibration import skewed
from roundwise.calibration.cells import Refused
from roundwise.calibration.measure import FALSE_ALARM, POWER, CalibrationResult, CellCount, by_rule, source

FEW = 5  # errors that a cell must allow for its rate to be shown

PARTS = {
    "rules": "rules, where their error is nearest to delta",
    "product": "questions x noise models x rules",
    "live": "live studies: ways to tell x noise models, changes",
    "bounds": "bounds and intervals of reports, at all times",
    "conditions": "policies that promise under a condition, where it holds",
    "reproductions": "holes of the first release, as they were found",
    skewed.PART: "skewed results under large-sample, whose guarantee is approximate",
    "controls": "controls: broken copies, must be caught",
    "violations": "violations: in how many studies they were not flagged",
}
Table = tuple[list[str], list[list[str]]]  # titles and rows


def plain(counted: CalibrationResult, refused: Sequence[Refused]) -> Plain:
    """Everything as JSON."""
    found, rules = counted.found, by_rule(counted.found)
    return {
        "runs": sum(each.runs for each in found),
        "source": source(),
        "false_alarm": FALSE_ALARM,
        "as_expected": not list_problems(counted),
        "rules": [
            {
                "rule": each.rule,
                "cells": len(each.cells),
                "runs": each.runs,
                "errors": each.errors,
                "allowed": each.allowed,
                "p_value": each.p_value,
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
                "errors": each.errors,
                "upper_95": each.upper,
                "p_value": each.p_value,
                "must_fail": each.cell.must_fail,
                "as_expected": each.as_expected(len(found)),
            }
            for each in found
        ],
        "failed": [{"cell": each.cell.name, "why": each.why} for each in counted.failed],
        "refused": [vars(each) for each in refused],
    }


def list_problems(counted: CalibrationResult) -> list[str]:
    """A sentence for each rule and each cell that is not as expected, and for each that could not be counted."""
    found, rules, sentences = counted.found, by_rule(counted.found), []
    for rule in rules:
        if rule.broken(len(rules)):
            sentences.append(
                f"{rule.rule}, all cells together: {rule.errors} of {rule.runs} runs, at most {rule.allowed:.0f} on "
                f"average are allowed, {_odds(rule.p_value)}."
            )
    for each in found:
        if not each.as_expected(len(found)):
            why = "but a control must be caught" if each.cell.must_fail else _odds(each.p_value)
            sentences.append(f"{each.cell.name}: {each.errors} of {each.runs} runs, {why}.")
    return sentences + [f"{each.cell.name} could not be counted: {each.why}." for each in counted.failed]


def _odds(p_value: float) -> str:
    return f"by chance once in {1 / max(p_value, 1e-99):.3g}"


def rule_rows(found: Sequence[CellCount]) -> Table:
    """A row a rule: its runs, its error over what it promises, at worst, at most, and that of its broken copy."""
    rules = by_rule(found)
    copies = {each.cell.row: each for each in found if each.cell.part == "controls"}
    rows = []
    for each in rules:
        kept = not each.broken(len(rules)) and all(cell.as_expected(len(found)) for cell in each.cells)
        copy, words = copies.get(each.rule), "-"
        if copy is not None:
            words = f"{_ratio(copy):.2f}, {'caught' if copy.as_expected(len(found)) else 'MISSED'}"
        rows.append(
            [
                each.rule,
                _whole(len(each.cells)),
                _whole(each.runs),
                f"{each.errors / each.allowed:.2f}",
                f"{max(map(_ratio, each.cells)):.2f}",
                f"{max(cell.upper / cell.cell.delta for cell in each.cells):.2f}",
                "yes" if kept else "NO",
                words,
            ]
        )
    return ["rule", "cells", "runs", "error / delta", "worst cell", "at most", "kept", "broken copy"], rows


def overview(found: Sequence[CellCount], refused: Sequence[Refused]) -> Table:
    """A row a part: cells, refusals, runs, and the worst."""
    rows = []
    for part, words in PARTS.items():
        mine = [each for each in found if each.cell.part == part]
        if mine:
            good = sum(each.as_expected(len(found)) for each in mine)
            rows.append(
                [
                    words,
                    _whole(len(mine)),
                    _whole(sum(each.part == part for each in refused)),
                    _whole(sum(each.runs for each in mine)),
                    f"{max(map(_ratio, [each for each in mine if not each.cell.must_fail] or mine)):.2f}",
                    "all" if good == len(mine) else f"{good} of {len(mine)}",
                ]
            )
    return ["part", "cells", "refused", "runs", "worst / allowed", "as expected"], rows


def _summed(found: Sequence[CellCount], part: str, key: Callable[[CellCount], str], title: str) -> Table:
    """A row for each key: runs, error over what is allowed in all cells, and in the worst that says something."""
    groups: dict[str, list[CellCount]] = {}
    for each in found:
        if each.cell.part == part:
            groups.setdefault(key(each), []).append(each)
    rows = []
    for name, mine in groups.items():
        allowed = sum(each.runs * each.cell.delta for each in mine)
        errors = sum(each.errors for each in mine)
        telling = [_ratio(each) for each in mine if each.runs * each.cell.delta >= FEW]
        error = f"{errors / allowed:.2f}" if allowed else str(errors)
        rows.append([name, _whole(sum(each.runs for each in mine)), error, f"{max(telling):.2f}" if telling else "-"])
    return [title, "runs", "error / delta", "worst"], rows


def _skewed(found: Sequence[CellCount]) -> Table:
    """A row a law, a column a size of rounds: wrong in per cent, and of the control whether it was caught."""
    mine = [each for each in found if each.cell.part == skewed.PART]
    columns = list(dict.fromkeys(each.cell.column for each in mine))
    rows = []
    for law in dict.fromkeys(each.cell.row for each in mine):
        counts = {each.cell.column: each for each in mine if each.cell.row == law}
        rates = [f"{100 * counts[key].rate:.1f}" if key in counts else "-" for key in columns]
        if any(each.cell.must_fail for each in counts.values()):
            caught = all(each.as_expected(len(found)) for each in counts.values())
            words = f"control: must fail, {'caught' if caught else 'MISSED'}"
        else:
            kept = all(each.as_expected(len(found)) for each in counts.values())
            words = "approximate: " + ("within 5 %" if kept else "EXCEEDED")
        rows.append([law, *rates, _whole(sum(each.runs for each in counts.values())), words])
    return ["law of the leader : the other", *columns, "runs", "guarantee"], rows


def _nearest(found: Sequence[CellCount]) -> Table:
    """The cells whose counts are least likely."""
    kept = [each for each in found if not each.cell.must_fail]
    rows = [
        [
            f"{each.cell.row} / {each.cell.column}",
            f"{each.cell.delta:g}",
            _whole(each.runs),
            _whole(each.errors),
            f"{each.rate:.4f}",
            f"{each.upper:.4f}",
        ]
        for each in sorted(kept, key=lambda each: (each.p_value, each.cell.name))[:8]
    ]
    return ["cell", "delta", "runs", "errors", "rate", "at most (95 %)"], rows


def _ratio(each: CellCount) -> float:
    return each.rate / each.cell.delta if each.cell.delta else float(each.errors)


def _whole(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def page(counted: CalibrationResult, refused: Sequence[Refused], command: str, figure: str) -> str:
    """The page of the docs: first what was found of each rule, then the rest in few words; JSON has every cell."""
    from roundwise.render.html import render_markdown

    found = counted.found
    return render_markdown(
        "calibration.md",
        about=f"`{command}` (roundwise {__version__}, code {source()})",
        figure=figure,
        runs=_whole(sum(each.runs for each in found)),
        cells=_whole(len(found)),
        refused=_whole(len(refused)),
        problems=list_problems(counted),
        false_alarm=f"{FALSE_ALARM:g}",
        power=f"{POWER:g}",
        few=FEW,
        rules=rule_rows(found),
        parts=overview(found, refused),
        questions=_summed(found, "product", lambda each: each.cell.question, "question"),
        noises=_summed(found, "product", lambda each: each.cell.column.split("; ")[0], "noise"),
        live=_summed(found, "live", lambda each: each.cell.row, "what"),
        bounds=_summed(found, "bounds", lambda each: each.cell.row, "what"),
        skewed=_skewed(found),
        nearest=_nearest(found),
    )


def draw(found: Sequence[CellCount], path: Path) -> None:
    """Every cell as a dot: its rate over delta, part by part."""
    from roundwise.theory.figures.canvas import new_figure, save

    rng = np.random.default_rng(0)
    picture, (axes,) = new_figure(8.0, 4.2)
    parts = [part for part in PARTS if any(each.cell.part == part for each in found)]
    for x, part in enumerate(parts):
        heights = [max(_ratio(each), 0.003) for each in found if each.cell.part == part and each.cell.delta > 0]
        places = x + rng.uniform(-0.35, 0.35, len(heights))
        color = "#c22" if part == "controls" else "#26a"
        many = len(heights) > 200  # thousands of dots would make a file of megabytes
        look = {"markersize": 3, "alpha": 0.35} if many else {"markersize": 6, "alpha": 0.8}
        axes.plot(places, heights, ".", color=color, rasterized=many, **look)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.annotate("what is allowed", (len(parts) - 0.5, 1.0), ha="right", va="bottom", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([0.003, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
    axes.set_xticks(range(len(parts)), [f"{part}\n({sum(each.cell.part == part for each in found)})" for part in parts])
    axes.set_ylabel("errors / allowed")
    save(picture, path)
