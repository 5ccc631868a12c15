"""The worked example of docs/service.md: it runs as it stands, and so do its requests without Python."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import serving
from roundwise import load_study
from roundwise.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "service.md").read_text()
RATES = {"Control": 0.20, "Short form": 0.22, "Big button": 0.24, "Guest checkout": 0.32}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving.serving(f"sqlite:///{tmp_path_factory.mktemp('service')}/studies.db") as (address, _):
        yield address


def block(kind):
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)
    return found


@pytest.mark.long
def test_the_assignment_service(url, monkeypatch, tmp_path):
    """Days of visitors, some of them few; the job of the night always runs twice."""
    words = shlex.split(block("shell-session").strip().removeprefix("$ "))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*words, "--storage", url])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    space = {}
    exec(compile(block("py"), "assignment.py", "exec"), space)
    rng = np.random.default_rng(3)
    days = 0
    while True:
        service = space["Assignment"]("checkout", url)  # a service that was started anew knows the same
        said = service.morning()
        if not said.startswith("round "):
            break
        days += 1
        assert days < 60, said
        visitors = [f"visitor {days}/{i}" for i in range(500 if days % 3 else 150)]
        seen = [(each, version := service.version(each), rng.random() < RATES[version]) for each in visitors]
        assert {version for _, version, _ in seen} <= RATES.keys()
        reports = [service.night(f"day {days}", seen) for _ in range(2)]
        assert reports[0].results == reports[1].results
    assert said.startswith("Guest checkout is best")
    assert {service.version(f"visitor {i}") for i in range(50)} == {"Guest checkout"}
    with load_study("checkout", url) as study:
        entries = study.entries()
        assert sum(each.kind == "told" for each in entries) == days
        assert study.status().answer == "Guest checkout"
        assert max(each.number for each in study.state.rounds) < days  # a day of few visitors left its round open


def test_versions_are_drawn_by_their_shares():
    space = {}
    exec(compile(block("py"), "assignment.py", "exec"), space)
    service = object.__new__(space["Assignment"])
    service.shares, service.salt = {"a": 0.2, "b": 0.0, "c": 0.8}, "x"
    drawn = [service.version(i) for i in range(20_000)]
    assert drawn == [service.version(i) for i in range(20_000)]
    assert drawn.count("b") == 0
    assert abs(drawn.count("a") - 4000) < 5 * (20_000 * 0.16) ** 0.5


def test_requests_without_python(url):
    """Each `curl` of the page, sent by Python: the same method, headers and body."""
    answers = []
    for command in block("sh").replace("\\\n", " ").strip().splitlines():
        words = shlex.split(command)
        assert words.pop(0) == "curl"
        method, headers, body, address = None, {}, None, None
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            elif word == "-d":
                body = words.pop(0).encode()
            else:
                address = word
        path = address.removeprefix("http://127.0.0.1:8000")
        assert path.startswith("/api/v1/")
        answers.append(serving.ask(url, method or ("GET" if body is None else "POST"), path, body, headers))
    assert [each[0] for each in answers] == [201, 200, 200, 200, 200, 404]
    assert answers[3][2]["results"] == 60
    assert answers[-1][2]["detail"] in PAGE
