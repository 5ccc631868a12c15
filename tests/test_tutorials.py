"""The worked jobs, each from its files to its report: the pages run as they stand, and print what they say.

A page has blocks `py`, which begin with the name of the file that they are, and blocks `shell-session`: commands, each
followed by lines that must be printed in this order. `...` stands for any lines, `<digest>` for a digest. When rules
change, `python tests/test_tutorials.py` puts the lines that are printed now in place of those that were; then read
the pages.
"""

import contextlib
import difflib
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest

from commands import shell

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    "../README.md",
    "tutorial-warehouse.md",
    "tutorial-trial.md",
    "tutorial-models.md",
    "tutorial-batch.md",
    "tutorial-revenue.md",
    "tutorial-flags.md",
    "tutorial-race.md",
]
BLOCK = re.compile(r"```(py|shell-session)\n(.*?)```", flags=re.DOTALL)
ROUND = 3  # commands, at most


def commands_of(block):
    """(words, lines that it prints) of each command."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0][:-1] + line[2:].strip(), [])
        elif line.strip():
            found[-1][1].append(line.rstrip())
    return found


def ran(command):
    """What a command prints, and its exit code; a script of the page returns nothing."""
    words = shlex.split(command)
    if words[0] == "printf":  # a small file
        subprocess.run(command, shell=True, check=True)
        return "", 0
    if words[0] == "python":
        with patch.object(sys, "argv", words[1:]):
            runpy.run_path(words[1], run_name="__main__")
        return "", 0
    found = shell(*words[1:])
    text = (found.stdout + found.stderr).replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\b[0-9a-f]{64}\b", "<digest>", text), found.returncode


def blocks_of(page):
    """The commands of a page with what they print, in the present folder; its files are written on the way."""
    for kind, block in BLOCK.findall((DOCS / page).read_text()):
        if kind == "py":
            Path(re.match(r"# (\S+)\n", block)[1]).write_text(block)
        else:
            yield from commands_of(block)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_it_runs_as_it_stands(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)
    since = 0  # commands since the round began
    for command, lines in blocks_of(page):
        out, code = ran(command)
        assert code == (2 if lines and lines[0].startswith("roundwise: ") else 0), out
        printed = iter(out.splitlines())
        for line in lines:
            assert line == "..." or any(line == each.rstrip() for each in printed), (
                f"not printed: {line!r}. If that is meant, `python tests/test_tutorials.py` updates the pages.\n{out}"
            )
        since = 1 if " ask " in command else since + (" tell " in command)
        assert since <= ROUND, command


def updated(page):
    """The page with the lines that are printed now."""
    text = (DOCS / page).read_text()
    for command, lines in blocks_of(page):
        out, _ = ran(command)
        for line in lines:
            near = difflib.get_close_matches(line, out.splitlines(), n=1, cutoff=0.0)
            if line != "..." and near:
                text = text.replace(line, near[0].rstrip(), 1)
    (DOCS / page).write_text(text)


if __name__ == "__main__":
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            updated(name)
