"""Errors speak Python from Python: a command of the shell stands in `errors.said`, beside Python's words."""

import pytest

from roundwise.errors import RoundwiseError, at_the_shell, said
from roundwise.store import open_store
from roundwise.store.client import Server
from roundwise.store.log import read_log
from roundwise.store.url import parse_url, sentences

SHELL = "`roundwise "  # how a command is written


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
