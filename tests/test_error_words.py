"""Errors carry what to do as values, and each surface renders it in its own words."""

import pickle

import pytest

from roundwise.errors import InputError, RoundwiseError
from roundwise.messages import OPTIONS, Remedy, Surface, option, rendering_for
from roundwise.store import open_store
from roundwise.store.database import parse_url, translate_errors
from roundwise.store.log import read_log
from roundwise.store.remote import Server

SHELL = "`roundwise "  # how a command is written


def failing(error, place, connecting=False):
    """What a database said, as a sentence."""
    with translate_errors(parse_url(place), connecting):
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
        (lambda _: cannot_be_reached(), "Start the server, or", "Start the server (`roundwise serve`), or"),
    ],
)
def test_the_same_error_in_python_and_at_the_shell(fails, python, shell, tmp_path):
    with pytest.raises(RoundwiseError) as found:
        fails(tmp_path)
    assert python in str(found.value)
    assert SHELL not in str(found.value)
    with rendering_for(Surface.SHELL), pytest.raises(RoundwiseError) as found:
        fails(tmp_path)
    with rendering_for(Surface.SHELL):
        assert shell in str(found.value)


def test_an_error_is_rendered_where_it_is_shown():
    """Not where it is raised; also after it was sent from another process."""
    error = pickle.loads(pickle.dumps(InputError("It is recorded.", Remedy("Use {@new}; see {file}.", file="{x}"))))
    assert error.remedy.options == ("new",)
    said = []
    for surface in Surface:
        with rendering_for(surface):
            said.append(str(error))
    words = [*OPTIONS["new"], '`"new": true`']
    assert said == [f"It is recorded. Use {each}; see {{x}}." for each in words]


def test_no_request_is_told_the_flags_of_the_command_line():
    fields = {"study": "x", "module": "y", "low": 0, "high": 1}
    with rendering_for(Surface.API):
        for name in OPTIONS.keys() - {"unsound"}:  # imported by the command line only
            assert "--" not in option(name, **fields).replace("--own", "")
        assert option("range", **fields) == '`"noise": {"name": "bounded", "low": 0, "high": 1}`'
        assert option("id_column") == '`"columns": {"id": NAME}`'


def test_settings_need_no_entry():
    assert option("max_round_size") == "`max_round_size`"
    with rendering_for(Surface.SHELL):
        assert option("max_round_size") == "--max-round-size"
