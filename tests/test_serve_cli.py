"""`roundwise serve` as somebody starts it: what it refuses in one sentence, and what it says when it is up."""

import gc
import json
import socket
from contextlib import closing

import pytest

import serving
from roundwise.web.app import Application, steps
from roundwise.web.security import build_access
from serving import ask

TOKEN = "manage=0123456789abcdef"


@pytest.fixture
def refused(roundwise, monkeypatch):
    """The sentence of a command that must not start."""
    monkeypatch.delenv("ROUNDWISE_TOKENS", raising=False)

    def call(*words):
        code, out, err = roundwise(*words)
        assert (code, out) == (2, "")
        assert err.count("\n") <= 2
        return err

    return call


def test_what_does_not_start(refused, tmp_path):
    assert "tokens are needed" in refused("serve", "--host", "0.0.0.0", "--port", 0)
    (tmp_path / "tokens").write_text("boss=0123456789abcdef\n")
    assert "ROLE=TOKEN with a role of view, upload, manage" in refused("serve", "--tokens", "tokens", "--port", 0)
    assert "cannot be read as a file of tokens" in refused("serve", "--tokens", "nothing", "--port", 0)
    assert "not on another server" in refused("serve", "--storage", "http://127.0.0.1:9", "--port", 0)
    assert "does not exist" in refused("serve", "--storage", "sqlite:////no/such/folder/x.db", "--port", 0)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Cannot listen on" in refused("serve", "--port", taken.getsockname()[1])
    assert gc.isenabled()


@pytest.mark.long
def test_where_it_listens_as_json(tmp_path):
    with serving.process(f"sqlite:///{tmp_path}/studies.db", words=["--json"]) as (running, said):
        found = json.loads(said)
        assert ask(found["page"], "GET", "/health", raw=True)[2] == b"ok"
        assert found["api"] == f"{found['page']}/api/v1"
        assert ask(found["page"], "GET", "/api/v1/studies")[::2] == (200, [])
        assert running.poll() is None


def test_what_is_done_while_nobody_asks(tmp_path):
    """All that is imported when it is first wanted can be had before."""
    app = Application(f"sqlite:///{tmp_path}/studies.db", build_access("127.0.0.1", [], ""))
    with closing(app.state.staged), closing(app.state.jobs):
        for step in steps(app):
            step()
        assert app.api.found() is app.api.found()
        assert {"/api/v1/studies", "/api/v1/studies/{name}/results/preview"} <= set(app.openapi()["paths"])


def test_it_is_quiet_once_all_are_answered():
    access = build_access("127.0.0.1", [], "")
    with access.work("/studies/x"):
        assert access.quiet() == 0.0
        with access.work("/api/v1/events"):
            assert access.busy == 1
    assert access.busy == 0
    with access.work("/api/v1/studies/x/events"):  # a page that is open listens as long as it is
        assert access.busy == 0


def test_a_token_in_a_file(refused, monkeypatch, tmp_path):
    """The option goes before the environment; what it names is sent, and is in no message."""
    with serving.serving(f"sqlite:///{tmp_path}/studies.db", TOKEN) as (url, _):
        monkeypatch.setenv("ROUNDWISE_TOKEN", TOKEN.partition("=")[2])
        monkeypatch.setenv("ROUNDWISE_TOKEN_FILE", "restored after the test")
        (tmp_path / "token").write_text("0123456789wrong!\n")
        said = refused("--token-file", tmp_path / "token", "list", "--storage", url)
        assert "Send a token" in said
        assert "wrong!" not in said
        (tmp_path / "token").write_text(TOKEN.partition("=")[2])
        assert "There are no studies" in refused("--token-file", tmp_path / "token", "status", "x", "--storage", url)
    assert "cannot be read" in refused("--token-file", tmp_path / "none", "list", "--storage", url)
