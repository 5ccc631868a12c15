"""The worked jobs, each from its files to its report: the pages run as they stand, and print what they say.

A page has blocks `py`, which begin with the name of the file that they are, and blocks `shell-session`: commands, each
followed by lines that must be printed in this order. `...` stands for any lines, `<digest>` for a digest.
"""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from roundwise.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["tutorial-warehouse.md", "tutorial-trial.md", "tutorial-models.md"]
BLOCK = re.compile(r"```(py|shell-session)\n(.*?)```", flags=re.DOTALL)
ROUND = 3  # commands, at most


def commands_of(block):
    """(words, lines that it prints) of each command."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]} {line[2:].strip()}", [])
        elif line.strip():
            found[-1][1].append(line.rstrip())
    return [(command.replace("\\ ", " "), lines) for command, lines in found]


def run(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def compared(out, lines):
    """Raise an error unless the lines stand in what was printed, one after the other."""
    plain = out.replace("\N{NO-BREAK SPACE}", " ")
    printed = iter(re.sub(r"\b[0-9a-f]{64}\b", "<digest>", plain).splitlines())
    for line in lines:
        if line != "...":
            assert any(line == each.rstrip() for each in printed), f"not printed: {line!r}\n{out}"


@pytest.mark.parametrize("page", PAGES)
def test_it_runs_as_it_stands(page, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    since = 0  # commands since the last round
    for kind, block in BLOCK.findall((DOCS / page).read_text()):
        if kind == "py":
            (tmp_path / re.match(r"# (\S+)\n", block)[1]).write_text(block)
            continue
        for command, lines in commands_of(block):
            words = shlex.split(command)
            if words[0] == "python":
                monkeypatch.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
                continue
            since = 1 if words[1] == "ask" else since + (words[1] == "tell")
            assert since <= ROUND, command
            code = run(words, monkeypatch)
            out, err = capsys.readouterr()
            assert code == (2 if lines and lines[0].startswith("roundwise: ") else 0), f"{command}\n{err}"
            compared(out + err, lines)
