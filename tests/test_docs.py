"""The documentation is under test: its Python runs, its commands work, its links lead somewhere."""

import doctest
import importlib
import pkgutil
import re
import shlex
import sys
from pathlib import Path

import pytest

import roundwise
from roundwise.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language):
    return [
        pytest.param(block, id=f"{page.name}-{i}")
        for page in PAGES
        for i, block in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL))
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("code", blocks("console"))
def test_commands(code, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for line in code.splitlines():
        if line.startswith("$ roundwise "):
            monkeypatch.setattr(sys, "argv", shlex.split(line[2:]))
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(roundwise.__path__, "roundwise.")
    if not name.startswith("roundwise.cli.") and not name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
