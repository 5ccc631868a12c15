"""A store that is moved, replaced or deleted while a server uses it: everything that needs it is answered with 503."""

import os
import shutil

import pytest

import serving
from roundwise import StoreError
from roundwise.store import open_store
from serving import ask

NEW = {"question": {"name": "best-arm"}, "arms": ["a", "b"], "noise": {"name": "binary"}}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "studies.db"


def move(path, how):
    if how == "deleted":
        for each in path.parent.glob("studies.db*"):
            each.unlink()
    elif how == "folder moved":
        path.parent.rename(path.parent.with_name("elsewhere"))
    elif how == "moved":
        path.rename(path.with_name("moved.db"))
    else:
        os.replace(path.with_name("other.db"), path)


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "folder moved"])
def test_everything_that_needs_it_answers_503(path, how):
    with open_store(f"sqlite:///{path.with_name('other.db')}"):
        pass  # an empty store, as a backup that is restored too early
    with serving.serving(f"sqlite:///{path}") as (url, _):
        assert ask(url, "POST", "/api/v1/studies", NEW | {"name": "s"})[0] == 201
        move(path, how)
        for method, address, body in (
            ("GET", "/api/v1/studies", None),
            ("GET", "/", None),
            ("GET", "/api/v1/studies/s", None),
            ("GET", "/studies/s", None),
            ("POST", "/api/v1/studies/s/ask", {}),
            ("POST", "/api/v1/studies", NEW | {"name": "lost"}),
            ("GET", "/api/v1/studies/s/events", None),
        ):
            status, _, found = ask(url, method, address, body)
            said = found.decode() if isinstance(found, bytes) else str(found)
            assert status == 503, (method, address, status, said)
            assert "was moved, replaced or deleted while in use" in said
        assert how == "replaced" or not path.exists()  # nothing was made in its place


def test_one_that_is_put_back_needs_a_new_start(path, tmp_path):
    """SQLite would write its log into a file that went on without it."""
    with serving.serving(f"sqlite:///{path}") as (url, _):
        ask(url, "POST", "/api/v1/studies", NEW | {"name": "s"})
        path.rename(tmp_path / "away.db")
        assert ask(url, "GET", "/api/v1/studies")[0] == 503
        shutil.copy(tmp_path / "away.db", path)
        assert ask(url, "GET", "/api/v1/studies")[0] == 503


def test_a_name_is_free_again_once_nobody_pins_it(path):
    with open_store(f"sqlite:///{path}") as store, store.pinned():
        path.unlink()
        with pytest.raises(StoreError, match="moved"):
            open_store(f"sqlite:///{path}")
        assert not path.exists()
    with open_store(f"sqlite:///{path}") as store:
        assert store.studies() == []
