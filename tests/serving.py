"""A server for tests: in a thread of this process, or in a process of its own that may be killed."""

import http.client
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn

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
