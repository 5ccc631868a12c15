"""What hostile requests cost `roundwise serve`, each against a fixed budget: `python benchmarks/hostile.py`.

For each request: what was answered, CPU-seconds of the server, how far its memory rose, the longest time that /health
took meanwhile, and what it wrote to its log. A line over budget ends with "OVER"; the exit code then is 1. Words after
the command choose the requests whose names contain one of them. Never a test.
"""

from __future__ import annotations

import io
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from roundwise import BestArm, Binary, create_study

CPU, MEMORY, WAIT = 1.0, 150, 2.0  # the budget of one request: CPU-seconds, MB, and seconds that others wait
DESCRIPTORS = 1024  # that the server may open, the usual limit
PATIENCE = 60.0  # seconds after which a request counts as endless
TOKENS = {role: f"{role}-0123456789abcdef" for role in ("view", "upload", "manage")}


class Site(NamedTuple):
    """A server, and the headers of somebody with a role (none without one)."""

    port: int
    headers: str

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, method: str, path: str, body: bytes = b"", headers: str = "", length: int | None = None) -> str:
        """The status of the answer; `headers` are lines that end with CRLF, `length` is what is announced."""
        announced = f"Content-Length: {len(body) if length is None else length}\r\n" if length != -1 else ""
        always = f"Host: localhost\r\nConnection: close\r\n{self.headers}"
        head = f"{method} {path} HTTP/1.1\r\n{always}{headers}{announced}\r\n"
        with self.connected() as connection:
            try:
                connection.sendall(head.encode("latin-1") + body)
            except TimeoutError:
                return "no end"
            except OSError:  # cut off while sending: the answer may be there
                pass
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                return "no answer"
            except OSError:
                return "closed"
        return answer[9:12].decode() or "closed"


Request = Callable[[Site], str]


def multipart(charset: str, content: bytes) -> Request:
    body = b'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\n' + content + b"\r\n--x--\r\n"
    kind = f"Content-Type: multipart/form-data; boundary=x; charset={charset}\r\n"
    return lambda site: site.send("POST", "/login", body, kind)


def ampersands(site: Site) -> str:
    kind = "Content-Type: application/x-www-form-urlencoded\r\n"
    return site.send("POST", "/login", b"&" * (32 << 20), kind)


def cookie(site: Site) -> str:
    return site.send("GET", "/", headers=f"Cookie: roundwise={'a' * 20};{'=' * 60_000}\r\n")


def quoted_cookie(site: Site) -> str:
    slashes = "\\" * 60_000
    return site.send("GET", "/", headers=f'Cookie: roundwise="{slashes}"\r\n')


def many_headers(site: Site) -> str:
    return site.send("GET", "/", headers="a:\r\n" * 20_000)


def endless_head(site: Site) -> str:
    return site.send("GET", "/", headers=f"X: {'x' * (8 << 20)}\r\n")


def long_content_type(site: Site) -> str:
    return site.send("POST", "/login", b"x", f"Content-Type: multipart/form-data;{';x=' * 4000}\r\n")


def ranges(site: Site) -> str:
    some = ",".join(f"{i}-" for i in range(2000))
    return site.send("GET", "/static/htmx.min.js", headers=f"Range: bytes={some}\r\n")


def announced_only(site: Site) -> str:
    """A large body for somebody who has no token, sent to its end."""
    return site.send("POST", "/api/v1/studies", b"x" * (200 << 20))


def tiny_chunks(path: str) -> Request:
    body = b"1\r\nx\r\n" * (4 << 17) + b"0\r\n\r\n"
    return lambda site: site.send("POST", path, body, "Transfer-Encoding: chunked\r\n", -1)


def half_sent(site: Site) -> str:
    """More requests than there are descriptors, none sent to its end; can somebody else still come in?"""
    with ExitStack() as stack:
        for _ in range(1100):
            try:
                one = stack.enter_context(site.connected())
                one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            except OSError:
                break
        time.sleep(3.0)
        return site.send("GET", "/health")


def pipelined(site: Site) -> str:
    one = b"GET /static/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with site.connected() as connection:
        connection.sendall(one * 2000)
        time.sleep(2.0)  # and nothing is read
    return "-"


def parquet(site: Site) -> str:
    """A small file with one long text, which stands in many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target, rows = io.BytesIO(), 1300
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * (1 << 20)]))
    pq.write_table(pa.table({"arm": column, "outcome": pa.array([1] * rows)}), target, compression="zstd")
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.parquet"\r\n\r\n'
    body = head + target.getvalue() + b"\r\n--x--\r\n"
    assert len(body) < 50_000, len(body)
    kind = "Content-Type: multipart/form-data; boundary=x\r\n"
    return site.send("POST", "/api/v1/studies/s/files/preview", body, kind)


# what it is called, the role of who sends it (empty: no token at all), and what sends it
REQUESTS: list[tuple[str, str, Request]] = [
    ("form in punycode, 1 MB", "", multipart("punycode", b"a" * (1 << 20))),
    ("form in punycode that is none", "", multipart("punycode", b"a-z")),
    ("form of 32 MB of &", "", ampersands),
    ("cookie of 60 KB", "", cookie),
    ("cookie of 60 KB, quoted", "", quoted_cookie),
    ("20 000 headers", "", many_headers),
    ("head of 8 MB", "", endless_head),
    ("content type of 12 KB", "", long_content_type),
    ("2000 ranges of a file", "", ranges),
    ("body of 200 MB without a token", "", announced_only),
    ("chunks of 1 byte, 3 MB", "", tiny_chunks("/login")),
    ("1100 half-sent requests", "", half_sent),
    ("2000 requests, nothing read", "", pipelined),
    ("chunks of 1 byte, 3 MB", "view", tiny_chunks("/api/v1/plan")),
    ("Parquet with one long text", "upload", parquet),
]


class Server:
    """A server in a process of its own, and what it has used."""

    def __init__(self, storage: str, log: Path) -> None:
        command = [sys.executable, "-m", "roundwise", "serve", "--storage", storage, "--port", "0", "--json"]
        self.log = log.open("wb")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "ROUNDWISE_TOKENS": ",".join(f"{role}={token}" for role, token in TOKENS.items())},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
        )
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["page"].rpartition(":")[2])
        self.settle()

    def cpu(self) -> float:
        return time.clock_gettime((~self.process.pid << 3) | 2)  # Linux: the clock of a process, all its threads

    def memory(self, peak: bool) -> int:
        """In MB, now or at most since `forget`."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:" if peak else "VmRSS:")[2].split()[0]) >> 10

    def forget(self) -> None:
        """Let the peak of memory begin anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def settle(self) -> None:
        """Wait until it has nothing to do, but not for ever."""
        end, before = time.monotonic() + PATIENCE, -1.0
        while self.cpu() - before > 0.02 and time.monotonic() < end:
            before = self.cpu()
            time.sleep(0.7)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()


@contextmanager
def visited(site: Site) -> Iterator[list[float]]:
    """How long it takes somebody else to be answered, again and again."""
    found: list[float] = []
    over = threading.Event()

    def visit() -> None:
        while not over.wait(0.1):
            begun = time.monotonic()
            try:
                answer = site.send("GET", "/health")
            except OSError:
                answer = "refused"
            found.append(time.monotonic() - begun if answer == "200" else PATIENCE)

    thread = threading.Thread(target=visit)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def cost(storage: str, log: Path, role: str, request: Request) -> tuple[str, float, int, float, int]:
    """Of one request to a fresh server: the answer, CPU-seconds, MB, the longest wait of others, KB of its log."""
    server = Server(storage, log)
    try:
        server.forget()
        cpu, memory = server.cpu(), server.memory(peak=False)
        with visited(Site(server.port, "")) as waits:
            answer = request(Site(server.port, f"Authorization: Bearer {TOKENS[role]}\r\n" if role else ""))
            server.settle()
        rise = server.memory(peak=True) - memory
        return answer, server.cpu() - cpu, rise, max(waits, default=0.0), log.stat().st_size >> 10
    finally:
        server.close()


def main() -> int:
    """Print the table."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    over = 0
    print(f"{'request':34}{'role':9}{'answer':>10}{'CPU s':>8}{'MB':>6}{'wait s':>8}{'log KB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/studies.db"
        with create_study("s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage) as study:
            study.ask()
        for name, role, request in REQUESTS:
            if sys.argv[1:] and not any(each in name for each in sys.argv[1:]):
                continue
            answer, cpu, memory, wait, log = cost(storage, Path(folder) / "log", role, request)
            beyond = cpu > CPU or memory > MEMORY or wait > WAIT or log > 100
            over += beyond
            print(
                f"{name:34}{role or '-':9}{answer:>10}{cpu:8.2f}{memory:6}{wait:8.2f}{log:8}{' OVER' * beyond}",
                flush=True,
            )
    print(f"budget of each: {CPU:g} CPU-seconds, {MEMORY} MB, {WAIT:g} s for others to wait; over: {over}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
