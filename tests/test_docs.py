"""The documentation is under test: its Python runs and is typed, its commands work, what it names is there."""

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import roundwise
from roundwise import environments, errors, thresholds
from roundwise.arena import run_arena
from roundwise.calibration import calibrate
from roundwise.cli import main
from roundwise.simulation.sweep import run_sweep

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def blocks(language):
    return [
        pytest.param(block, id=f"{page.name}-{i}")
        for page in PAGES
        for i, block in enumerate(blocks_of(page, language))
    ]


def files_in(page):
    """The blocks of a page that begin with the name of the file that they are."""
    every = (*blocks_of(page, "python"), *blocks_of(page, "toml"))
    return {name[1]: block for block in every if (name := re.match(r"# (\w+\.\w+)\n", block))}


PRINTS = re.compile(r"```python\n(.*?)```\n\nIt prints\n\n```\n(.*?)```", flags=re.DOTALL)
PRINTED = dict(each for page in PAGES for each in PRINTS.findall(page.read_text()))


@pytest.mark.long
@pytest.mark.parametrize("code", blocks("python"))
def test_python(code, monkeypatch, tmp_path, capsys):
    """Every block runs, and prints what the page says that it prints."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    if code in PRINTED:
        printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert printed == [line.rstrip() for line in PRINTED[code].splitlines()]


@pytest.mark.long
def test_python_is_typed(tmp_path):
    """By the settings and the cache of the package itself, but a function needs no annotations."""
    loose = "\n# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs\n"
    names = {}
    for i, block in enumerate(blocks("python")):
        path = tmp_path / f"block_{i}.py"
        path.write_text(block.values[0] + loose)
        names[path.name] = block.id
    mypy = [sys.executable, "-m", "mypy", *map(str, tmp_path.iterdir())]
    found = subprocess.run(mypy, cwd=ROOT, env=os.environ | {"MYPYPATH": "src"}, capture_output=True, text=True)
    said = re.sub(r"\S*(block_\d+\.py)", lambda match: names[match[1]], found.stdout)
    assert found.returncode == 0, said + found.stderr


@pytest.mark.long
@pytest.mark.parametrize("code", blocks("console"))
def test_commands(code, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        for name, text in files_in(page).items() if code in page.read_text() else ():
            (tmp_path / name).write_text(text)
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


# --- what is named is there ------------------------------------------------------------------------------------------


def names_of(path):
    """All that a module defines, as in `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        for each in (node, *inside):
            targets = [getattr(each, "target", None), *getattr(each, "targets", [])]
            targets += [one for many in targets for one in getattr(many, "elts", [])]
            for name in {getattr(each, "name", None), *(getattr(target, "id", None) for target in targets)} - {None}:
                found.add(name if each is node else f"{node.name}.{name}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_places_in_the_code(page):
    for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", page.read_text()):
        path = ROOT / file if file.startswith(("tests/", "benchmarks/")) else ROOT / "src" / "roundwise" / file
        assert path.exists(), file
        assert name in names_of(path), f"{file}::{name}"


PACKAGE = ROOT / "src" / "roundwise"
FILES = ("py", "md", "csv", "db", "html", "json", "toml", "parquet", "u2")


def places():
    """Every way to name a module of the package, by its last parts, and all that such modules define."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = [*path.relative_to(PACKAGE).with_suffix("").parts]
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        names = names_of(path)
        if path.name == "__init__.py":  # what a room exports
            imports = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
            names |= {each.name for node in imports for each in node.names}
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), set()).update(names)
    return found


@pytest.mark.long
def test_names_with_a_module_are_there():
    """`module.function` in backticks, on a page or in a docstring, where the first word is a module of the package."""
    known, missing = places(), []
    for each in ("report", "study", "trial", "plan"):  # also what such an object is called where it is used
        known.pop(each, None)
    for text in (*PAGES, *PACKAGE.rglob("*.py")):
        for name in re.findall(r"`(?:roundwise\.)?([a-z_]+(?:\.\w+)+)`", text.read_text(encoding="utf-8")):
            parts = name.split(".")
            if parts[0] not in known or parts[-1] in FILES:
                continue
            cuts = range(1, len(parts) + 1)
            if not any(
                ".".join(parts[:i]) in known and (i == len(parts) or ".".join(parts[i:]) in known[".".join(parts[:i])])
                for i in cuts
            ):
                missing.append((text.name, name))
    assert not missing


# by examples and tests
WRITTEN = {
    "headlines.md",
    "report.md",
    "studies/checkout/report.md",
    "r.md",
    "only_here.py",
    "tests_of_cluster.py",
    "my_rules.py",
}
WRITTEN |= {
    "exports.py",
    "orders.py",
    "cohorts.py",
    "grade.py",
    "sessions.py",
    "questions.py",
    "quiz.py",
    "race.py",
    "assignment.py",
    "sitecustomize.py",
    "mine.py",
}
WRITTEN |= {"a.py", "broken.py", "evil.py", "my_question.py", "my_noise.py", "my_policy.py", "my_threshold.py"}


def test_files_that_are_named():
    """Every page and every module that is named, with or without its folder, is a file of the project."""
    modules = [path for room in ("src", "tests", "benchmarks", "examples") for path in (ROOT / room).rglob("*.py")]
    files = {f"/{path.relative_to(ROOT).as_posix()}" for path in (*PAGES, *modules, ROOT / "docs" / "conf.py")}
    missing = {}
    for text in (*PAGES, *modules):
        named = set(re.findall(r"(?<![\w*])\w[\w/-]*\.(?:md|py)\b", text.read_text(encoding="utf-8"))) - WRITTEN
        lost = sorted(name for name in named if not any(file.endswith(f"/{name}") for file in files))
        missing |= {text.relative_to(ROOT).as_posix(): lost} if lost else {}
    assert not missing


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text()
    public = (roundwise, roundwise.policies, thresholds, environments)
    listed = defaultdict(list)
    module = ""
    for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)$", page, flags=re.MULTILINE):
        if kind == "currentmodule":
            module = name
        else:
            listed[module].append(name)
            assert hasattr(importlib.import_module(module), name)
    everything = [name for names in listed.values() for name in names]
    assert len(everything) == len(set(everything))
    constants = {"__version__", "POLICIES", "THRESHOLDS"}
    missing = {name for module in public for name in module.__all__} - constants - set(everything)
    assert not missing, "add them to docs/api.md"
    assert sorted(listed["roundwise"]) == sorted({*roundwise.__all__} - constants)
    raised = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert raised <= set(everything)


def test_docstrings_name_every_parameter():
    """So that `help()` says what the fields and arguments are."""
    public = (roundwise, roundwise.policies, thresholds, environments)
    every = {name: getattr(module, name) for module in public for name in module.__all__}
    every |= {each.__name__: each for each in (run_sweep, run_arena, calibrate)}
    silent = {}
    for name in sorted({*every} - {"Report", "Study", "StudyPlan"}):  # made by functions, not by users
        if not callable(every[name]) or (isinstance(every[name], type) and issubclass(every[name], Exception)):
            continue
        said = inspect.getdoc(every[name]) or ""
        parameters = inspect.signature(every[name]).parameters.values()
        named = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        if missing := [each for each in named if not re.search(rf"\b{each}\b", said)]:
            silent[name] = missing
    assert silent == {}


MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(roundwise.__path__, "roundwise.")
    if not name.startswith(("roundwise.cli.", "roundwise.inspect")) and not name.endswith("__main__")
]


@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_citation_and_changelog_name_the_version():
    assert f"\nversion: {roundwise.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1] == roundwise.__version__
