"""What is printed fits the terminal, and the commands that it names can be copied."""

import sys

import pytest

from roundwise.cli import complain

URL = "sqlite:///deep.db"


@pytest.fixture
def running(roundwise, tmp_path):
    """A study with a complete round, in a storage of its own."""
    words = ("--arms", "control,a longer name of an arm,red", "--binary", "--control", "control", "--budget", 400)
    assert roundwise("new", "button test", "--question", "claims", *words, "--storage", URL)[0] == 0
    assert roundwise("ask", "button test", "--storage", URL)[0] == 0
    arms = ("control", "a longer name of an arm", "red")
    rows = [f"{arm},{100 * (1 + i)},{40 + 60 * i}" for i, arm in enumerate(arms)]
    (tmp_path / "results.csv").write_text("arm,count,successes\n" + "\n".join(rows) + "\n")
    return roundwise


@pytest.mark.parametrize("command", ["tell", "status", "report", "list", "log", "ask", "plan"])
def test_lines_fit_80_columns(running, monkeypatch, command):
    names = {"list": (), "tell": ("button test", "results.csv"), "plan": ("--study", "button test")}
    if command != "tell":
        assert running("tell", "button test", "results.csv", "--storage", URL)[0] == 0
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = running(command, *names.get(command, ("button test",)), "--storage", URL)
    assert code == 0, err
    assert [line for line in out.splitlines() if len(line) > 80 and not line.startswith("`roundwise")] == []


def test_commands_keep_the_storage(running):
    for words in (("tell", "button test", "results.csv"), ("status", "button test"), ("ask", "button test"), ("list",)):
        _, out, _ = running(*words, "--storage", URL)
        assert f" --storage {URL}`" in out.splitlines()[-1], out
    running("export", "button test", "--out", "record.jsonl", "--storage", URL)
    _, out, _ = running("import", "record.jsonl", "--storage", "sqlite:///copy.db")
    assert "`roundwise verify 'button test' --storage sqlite:///copy.db`" in out
    assert "--storage" not in running("import", "record.jsonl")[1]


def test_ask_has_one_shape_in_json(running):
    import json

    before = json.loads(running("ask", "button test", "--json", "--storage", URL)[1])
    running("close", "button test", "--why", "enough", "--yes", "--storage", URL)
    after = json.loads(running("ask", "button test", "--json", "--storage", URL)[1])
    assert (before["status"], before["round"], after["status"], after["round"]) == ("undecided", 1, "closed", None)
    assert set(before) <= set(after)
    assert "arms" not in after


def test_errors_fit_a_terminal_and_are_one_line_elsewhere(monkeypatch, capsys):
    words = "a rather long sentence about a file " * 5 + "that names `a command of several words` to be copied."
    monkeypatch.setenv("COLUMNS", "80")
    complain(words)
    assert capsys.readouterr().err == f"roundwise: {words}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    complain(words)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    assert any("`a command of several words`" in line for line in lines)
