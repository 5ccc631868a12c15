"""The worked cases of the page on planning: its tables are what the commands say today."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from roundwise.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "planning.md").read_text()
CASES = {
    shlex.split(line)[3]: line
    for line in re.findall(r"^\$ roundwise plan .*$", PAGE, flags=re.MULTILINE)
    if "--leads" not in line
}
STALE = 0.3  # what chance and rounding cannot do; `python benchmarks/plan.py --docs` writes the tables anew


def table(name):
    """The rows of the first table of a case."""
    block = PAGE.split(f"<!-- plan: {name} -->")[1].strip().split("\n\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return lines[0], lines[2:]


@pytest.mark.long
@pytest.mark.parametrize("name", ["checkout", "doses", "prompts"])
def test_a_worked_case(name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*shlex.split(CASES[name])[1:], "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    found = json.loads(capsys.readouterr().out)
    _, rows = table(name)
    assert [row[0].partition(" (")[0] for row in rows] == [row["label"] for row in found["rows"]]
    for said, row in zip(rows, found["rows"], strict=True):
        if row["within_budget"] is None:
            numbers = [row["samples"]["typical"], row["samples"]["p95"], row["rounds"]["typical"], row["rounds"]["p95"]]
        else:
            chance = 100 * row["within_budget"]
            numbers = [chance, row["samples"]["mean"], row["samples"]["p95"], row["rounds"]["mean"]]
        for text, number in zip(said[1:5], numbers, strict=True):
            if number is None:
                assert text in ("never", "")
            else:
                found = float(text.removesuffix(" %").replace("\N{NO-BREAK SPACE}", ""))
                assert found == pytest.approx(number, rel=STALE, abs=1)
