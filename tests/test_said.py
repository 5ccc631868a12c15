"""Errors speak Python from Python: a command of the shell stands in `errors.said`, beside Python's words."""

import ast
from pathlib import Path

import pytest

from roundwise.errors import RoundwiseError, at_the_shell, said
from roundwise.store import open_store
from roundwise.store.client import Server
from roundwise.store.log import read_log
from roundwise.store.url import parse_url, sentences

PACKAGE = Path(__file__).parents[1] / "src" / "roundwise"
SHELL = "`roundwise "  # how a command is written
SPEAKS_SHELL = ("cli", "web/messages.py")  # the command line itself, and the words of it that the page replaces


def documentation(tree):
    """The strings that are documentation: first in a module, a class or a function, or said of a field of the API."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value
        if isinstance(node, ast.keyword) and node.arg == "description":
            yield from (each for each in ast.walk(node) if isinstance(each, ast.Constant))


def called(node):
    return getattr(node.func, "id", None) or getattr(node.func, "attr", None)


def untranslated(text):
    """The strings that name a command to somebody in Python, with their lines."""
    tree = ast.parse(text)
    left_out = set(documentation(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called(node) or "").startswith("said"):
            left_out.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in left_out and SHELL in str(node.value):
            yield node.lineno, node.value


def test_no_sentence_names_a_command_of_the_shell_in_python():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(SPEAKS_SHELL)
        for line, text in untranslated(path.read_text())
    ]
    assert found == []


def test_what_names_a_command_is_seen():
    """The control of the test above."""
    assert len(list(untranslated('raise E("Look with `roundwise status`.")\nEND = f"{x} `roundwise import`."'))) == 2
    assert not list(untranslated('"""As `roundwise ask`."""\nraise E(said("`ask`", "`roundwise ask`"))'))


def failing(error, place, connecting=False):
    """What a database said, as a sentence."""
    with sentences(parse_url(place), connecting):
        raise error


def sqlite_error(name):
    import sqlite3

    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorname = name
    return error


def cannot_be_reached():
    Server("http", "127.0.0.1", 9, "").get("/studies")


def no_log(tmp_path):
    (tmp_path / "log.jsonl").write_text("{}\n")
    read_log(tmp_path / "log.jsonl")


def nothing_yet(tmp_path):
    open_store(f"sqlite:///{tmp_path}/none.db", create=False)


@pytest.mark.parametrize(
    ("fails", "python", "shell"),
    [
        (no_log, "`export_study`", "`roundwise export`"),
        (nothing_yet, "`create_study`", "`roundwise new`"),
        (lambda _: failing(sqlite_error("SQLITE_IOERR_SHORT_READ"), "sqlite:///x.db"), "`import_study`", "import`"),
        (lambda _: failing(sqlite_error("SQLITE_CORRUPT"), "sqlite:///x.db"), "`import_study`", "`roundwise import`"),
        (lambda _: failing(sqlite_error("SQLITE_IOERR"), "sqlite:///x.db"), "`study.status()`", "`roundwise status`"),
        (lambda _: cannot_be_reached(), "Start it, or", "Start it (`roundwise serve`), or"),
    ],
)
def test_the_same_error_in_python_and_at_the_shell(fails, python, shell, tmp_path):
    with pytest.raises(RoundwiseError) as found:
        fails(tmp_path)
    assert python in str(found.value)
    assert SHELL not in str(found.value)
    with at_the_shell(), pytest.raises(RoundwiseError) as found:
        fails(tmp_path)
    assert shell in str(found.value)
    assert said("python", "shell") == "python"
