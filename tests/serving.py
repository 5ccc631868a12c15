"""A server for tests, in a thread or in a process of its own that may be killed; and studies for it to show."""

import http.client
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import uvicorn

from roundwise import Above, BestArm, Binary, Claims, TopK, create_study
from roundwise.web.app import Application
from roundwise.web.connections import configure_server, open_socket
from roundwise.web.security import build_access

TOKENS = {role: f"{role}-0123456789abcdef" for role in ("view", "upload", "manage")}


@contextmanager
def serving(storage, tokens="", host="127.0.0.1", names=()):
    """The address of a server in this process; its application is the second value."""
    access = build_access(host, names, tokens)
    app = Application(storage, access)
    with open_socket("127.0.0.1", 0) as at:
        server = uvicorn.Server(configure_server(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{at.getsockname()[1]}", app
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def process(storage, port=0, words=(), **environment):
    """`roundwise serve` in a process of its own: the process, and its address (or what it says, given more `words`)."""
    running = subprocess.Popen(
        [sys.executable, "-m", "roundwise", "serve", "--storage", storage, "--port", str(port), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        said = running.stdout.readline()
        yield running, said if words else said.split()[4]
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def ask(url, method, path, body=None, headers=(), raw=False):
    """The status, the headers and the content of an answer; JSON as it is, unless `raw`."""
    found = urlsplit(url)
    connection = http.client.HTTPConnection(found.hostname, found.port, timeout=60)
    sent = dict(headers)
    if body is not None and not isinstance(body, bytes):
        body, sent = json.dumps(body).encode(), {"Content-Type": "application/json"} | sent
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    plain = (
        content
        if raw or not content or not answer.headers.get("Content-Type", "").endswith("json")
        else json.loads(content)
    )
    return answer.status, dict(answer.headers), plain


def form(file=None, name="results.csv", **fields):
    """A form with a file in it: its bytes, and its headers."""
    lines = []
    for key, value in fields.items():
        lines.append(f'--border\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode())
    if file is not None:
        head = f'--border\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        lines.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + file + b"\r\n")
    return b"".join([*lines, b"--border--\r\n"]), {"Content-Type": "multipart/form-data; boundary=border"}


ARMS = ("Control", "Short form", "Big button", "Guest checkout")
RATES = dict(zip(ARMS, (0.31, 0.30, 0.345, 0.42), strict=True))


def rows_of(asked, rates, seed):
    """Rows of a round: an id, the arm and a 0/1 outcome, in random order."""
    rng = np.random.default_rng(seed)
    rows = [
        (arm, int(value))
        for arm, pulls in zip(asked.arms, asked.pulls, strict=True)
        for value in rng.binomial(1, rates[arm], int(pulls))
    ]
    return [(f"{seed}-{i}", *rows[j]) for i, j in enumerate(rng.permutation(len(rows)))]


def table_of(asked, rates=RATES, seed=1, heads=("user_id", "variant", "converted")):
    """The same as a CSV text."""
    return "\n".join([",".join(heads), *(",".join(map(str, row)) for row in rows_of(asked, rates, seed))]) + "\n"


def example(storage, name="checkout", rounds=3, arms=ARMS, rates=RATES, question=None, **settings):
    """A study with a few rounds told, and the next one asked for."""
    words = {"round_size": 600, "budget": 12_000, "seed": 1, **settings}
    with create_study(
        name, question=question or BestArm(), arms=arms, noise=Binary(), storage=storage, **words
    ) as study:
        for number in range(1, rounds + 1):
            asked = study.ask()
            if asked is None:
                return
            columns = list(zip(*rows_of(asked, rates, number), strict=True))
            study.tell({"user_id": columns[0], "arm": columns[1], "outcome": columns[2]})
        study.ask()


def examples(storage):
    """Studies of every kind of page."""
    example(storage, rates=dict(zip(ARMS, (0.31, 0.30, 0.345, 0.38), strict=True)))
    example(storage, "decided/2025", rounds=30)
    doses = ("Placebo", "75 mg", "300 mg")
    rates = dict(zip(doses, (0.3, 0.3, 0.6), strict=True))
    example(storage, "dose", 2, doses, rates, Claims.against_control(doses, "Placebo"), round_size=200)
    prompts = tuple("ABCDE")
    example(storage, "top two", 1, prompts, dict.fromkeys(prompts, 0.5), TopK(2))
    hostile = ("<img src=x onerror=alert(1)>", "'; drop table study; --", "“ü”")
    example(storage, "<b>hostile</b>", 1, hostile, dict.fromkeys(hostile, 0.5), Above(0.3))
    create_study("empty", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage, seed=1).close()


@contextmanager
def served(storage, tokens=""):
    """The address of a server that runs in a thread."""
    with serving(storage, tokens) as (address, _):
        yield address


AXE = Path(__file__).parent / "axe" / "axe.min.js"
