"""What readers cost `roundwise serve`, each request against a fixed budget: `python benchmarks/hostile_readers.py`.

For each request of somebody who may only view (or upload): what was answered, after how many seconds, CPU-seconds of
the server until it was idle again, and how far its memory rose. A line over budget ends with "OVER"; the exit code then
is 1. Then many readers of one report while results come in. Words after the command choose the requests whose names
contain one of them. Never a test.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from roundwise import BestArm, Binary, TopK, create_study

CPU, MEMORY = 30.0, 500  # the budget of one request: CPU-seconds, MB
PATIENCE = 300.0  # seconds after which a request counts as endless
TOKENS = {role: f"{role}-0123456789abcdef" for role in ("view", "upload", "manage")}
OPTIONS = "\n".join(f"option {i}" for i in range(200))
READERS, NOTES = 20, 30


class Site:
    """A server as somebody with a role reaches it: by a token, and in the session of a browser."""

    def __init__(self, port: int, role: str) -> None:
        self.port, self.bearer = port, {"Authorization": f"Bearer {TOKENS[role]}"}
        _, headers, _ = self._asked("POST", "/login", urlencode({"token": TOKENS[role]}), {})
        self.cookie = {"Cookie": headers["set-cookie"].partition(";")[0]}
        page = self._asked("GET", "/plan", None, self.cookie)[2].decode()
        self.secret = re.findall(r'name="secret" value="([^"]+)"', page)[0]

    def get(self, path: str) -> str:
        return str(self._asked("GET", path, None, self.bearer)[0])

    def post(self, path: str, body: object) -> str:
        return str(self._asked("POST", path, json.dumps(body), self.bearer | {"Content-Type": "application/json"})[0])

    def form(self, path: str, leave: float | None = None, **fields: str) -> str:
        """Send a form of a page, and hang up after `leave` seconds, where that is given."""
        return str(self._asked("POST", path, urlencode(fields | {"secret": self.secret}), self.cookie, leave)[0])

    def _asked(
        self, method: str, path: str, body: str | None, headers: dict[str, str], leave: float | None = None
    ) -> tuple[int | str, http.client.HTTPMessage, bytes]:
        kind = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=leave or PATIENCE)
        try:
            connection.request(method, path, body, kind | headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except TimeoutError:
            return "left" if leave else "no end", http.client.HTTPMessage(), b""
        finally:
            connection.close()


Request = Callable[[Site], str]


def forecast(leave: float | None = None, path: str = "/plan/forecast", **fields: str) -> Request:
    given = {"arms": OPTIONS, "baseline": "30 %", "noise": "binary", **fields}
    return lambda site: site.form(path, leave, **given)


def lab(**fields: str) -> Request:
    given = {"runs": "5", "policies": "wager", "world": "normal", **fields}
    return lambda site: site.form("/lab", **given)


def report(form: str) -> Request:
    return lambda site: site.get(f"/api/v1/studies/large/report?format={form}")


def planned(question: str, arms: int, **settings: int) -> Request:
    names, noise = [str(i) for i in range(arms)], {"name": "binary"}
    wish = {"question": {"name": question, **settings}, "arms": names, "noise": noise, "baseline": 0.3}
    return lambda site: site.post("/api/v1/plan", wish)


# what it is called, the role of who sends it, and what sends it
REQUESTS: list[tuple[str, str, Request]] = [
    ("forecast, top 100 of 200", "view", forecast(question="top-k", k="100")),
    ("forecast, top 100 of 200, fine", "view", forecast(question="top-k", k="100", fine="1")),
    ("forecast, best of 200", "view", forecast(question="best-arm")),
    ("forecast, 199 claims", "view", forecast(question="claims")),
    ("forecast, 199 claims, budget", "view", forecast(question="claims", budget="1000000")),
    ("forecast, left after 1 s", "view", forecast(1.0, question="top-k", k="100")),
    ("forecast, counts of 1e15", "view", forecast(arms="a\nb", noise="poisson", baseline="1e15")),
    ("forecast to save, top 100 of 200", "view", forecast(path="/plan/save", question="top-k", k="100")),
    ("report, JSON", "view", report("json")),
    ("report, Excel", "view", report("xlsx")),
    ("report, PDF", "view", report("pdf")),
    ("page of a study", "view", lambda site: site.get("/studies/large")),
    ("page of a report", "view", lambda site: site.get("/studies/large/report")),
    ("forecast of a study of 200", "view", lambda site: site.get("/api/v1/studies/half/forecast")),
    ("verify", "view", lambda site: site.get("/api/v1/studies/large/verify")),
    ("record", "view", lambda site: site.get("/api/v1/studies/large/record")),
    ("effect", "view", lambda site: site.get("/api/v1/studies/large/effect?what=drop&arm=arm+1")),
    ("list of 10 000 studies", "view", lambda site: site.get("/api/v1/studies")),
    ("page of 10 000 studies", "view", lambda site: site.get("/")),
    ("unknown name among 10 000", "view", lambda site: site.get(f"/api/v1/studies/small%200471%20{'x' * 99}y")),
    ("lab, means of 2 MB", "upload", lab(means="1 " * 1_000_000)),
    ("lab, 200 means, top 100", "upload", lab(means="1 " * 100 + "0 " * 100, question="top-k", k="100")),
    ("lab, means 0, 0", "upload", lab(means="0, 0")),
    ("plan, top 1000 of 2000", "upload", planned("top-k", 2000, k=1000)),
    ("plan, top 140 of 280", "upload", planned("top-k", 280, k=140)),
    ("plan, best of 2000", "upload", planned("best-arm", 2000)),
]


class Server:
    """A server in a process of its own, and what it has used."""

    def __init__(self, storage: str) -> None:
        command = [sys.executable, "-m", "roundwise", "serve", "--storage", storage, "--port", "0", "--json"]
        tokens = ",".join(f"{role}={token}" for role, token in TOKENS.items())
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "ROUNDWISE_TOKENS": tokens})
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

    def close(self) -> float:
        """Seconds until it has ended, asked to as by Ctrl+C."""
        begun = time.monotonic()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return time.monotonic() - begun


def cost(storage: str, role: str, request: Request) -> tuple[str, float, float, int]:
    """Of one request to a fresh server: the answer, seconds, CPU-seconds, MB."""
    server = Server(storage)
    try:
        site = Site(server.port, role)
        server.settle()
        server.forget()
        cpu, memory, begun = server.cpu(), server.memory(peak=False), time.monotonic()
        answer = request(site)
        seconds = time.monotonic() - begun
        server.settle()
        return answer, seconds, server.cpu() - cpu, server.memory(peak=True) - memory
    finally:
        server.close()


def hammered(storage: str) -> None:
    """Many read one report again and again, while something is recorded again and again."""
    server = Server(storage)
    try:
        site, writer = Site(server.port, "view"), Site(server.port, "upload")
        path, before = "/api/v1/studies/large/report", server.cpu()
        site.get(path)
        once = server.cpu() - before
        waits: list[float] = []
        records: list[float] = []
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                begun = time.monotonic()
                assert site.get(path) == "200"
                waits.append(time.monotonic() - begun)

        threads = [threading.Thread(target=read) for _ in range(READERS)]
        before = server.cpu()
        for each in threads:
            each.start()
        for number in range(NOTES):
            begun = time.monotonic()
            assert writer.post("/api/v1/studies/large/note", {"text": f"note {number}"}) == "200"
            records.append(time.monotonic() - begun)
            time.sleep(0.5)
        over.set()
        for each in threads:
            each.join()
        cpu = server.cpu() - before
        server.settle()
        before = server.cpu()
        writer.post("/api/v1/studies/large/note", {"text": "now"})
        together = [threading.Thread(target=site.get, args=(path,)) for _ in range(READERS)]
        for each in together:
            each.start()
        for each in together:
            each.join()
        shared = server.cpu() - before
    finally:
        server.close()
    print(f"one report: {once:.2f} CPU-seconds; {READERS} readers of the next one at once: {shared:.2f}")
    print(
        f"{READERS} readers, {NOTES} entries recorded meanwhile: {len(waits)} reports, the longest wait "
        f"{max(waits):.1f} s, typically {np.median(waits):.1f} s; recording at most {max(records):.2f} s; "
        f"{cpu:.1f} CPU-seconds"
    )


def ended(storage: str) -> float:
    """Seconds until a server ends that works on a forecast."""
    server = Server(storage)
    site = Site(server.port, "view")
    thread = threading.Thread(target=lambda: _quietly(lambda: forecast(question="top-k", k="100")(site)))
    thread.start()
    time.sleep(3.0)
    found = server.close()
    thread.join()
    return found


def _quietly(work: Callable[[], object]) -> None:
    with suppress(OSError, http.client.HTTPException):  # the server has ended
        work()


def prepare(storage: str, file: Path) -> None:
    """A study of 100 options and ten rounds, one of the top half of 200, and 10 000 by name only."""
    rng = np.random.default_rng(1)
    for name, question, arms, rounds in (("large", BestArm(), 100, 10), ("half", TopK(100), 200, 1)):
        names = [f"arm {i}" for i in range(arms)]
        rates = dict(zip(names, np.linspace(0.30, 0.36, arms), strict=True))
        with create_study(
            name, question=question, arms=names, noise=Binary(), storage=storage, round_size=10 * arms, seed=1
        ) as study:
            for _ in range(rounds):
                asked = study.ask()
                if asked is None:
                    break
                came = [int(rng.binomial(n, rates[arm])) for arm, n in asked.table]
                columns = {"arm": [arm for arm, _ in asked.table], "count": [n for _, n in asked.table]}
                study.tell(columns | {"successes": came})
            study.ask()
    with closing(sqlite3.connect(file)) as connection:  # lines in the list, without records: a thousand times faster
        columns = "created_at, changed_at, entries, digest, checkpoint, overview"
        (line,) = connection.execute(f"select {columns} from roundwise_study where name = 'half'").fetchall()
        rows = ((f"small {number:04d} {'x' * 100}", *line) for number in itertools.islice(itertools.count(), 10_000))
        connection.executemany(f"insert into roundwise_study (name, {columns}) values (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()


def main() -> int:
    """Print the table."""
    over = 0
    print(f"{'request':34}{'role':9}{'answer':>8}{'seconds':>9}{'CPU s':>8}{'MB':>6}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "studies.db"
        storage = f"sqlite:///{file}"
        prepare(storage, file)
        for name, role, request in REQUESTS:
            if sys.argv[1:] and not any(each in name for each in sys.argv[1:]):
                continue
            answer, seconds, cpu, memory = cost(storage, role, request)
            beyond = cpu > CPU or memory > MEMORY or answer in ("500", "no end")
            over += beyond
            line = f"{name:34}{role:9}{answer:>8}{seconds:9.1f}{cpu:8.2f}{memory:6}"
            print(f"{line}{' OVER' * beyond}", flush=True)
        print(f"budget of each: {CPU:g} CPU-seconds, {MEMORY} MB; over: {over}")
        if not sys.argv[1:] or "hammer" in sys.argv[1:]:
            hammered(storage)
        if not sys.argv[1:] or "end" in sys.argv[1:]:
            print(f"a server that works on a forecast ends within {ended(storage):.1f} s")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
