"""What `roundwise serve` costs, in CPU of the server's process: `python benchmarks/serve.py`. Never a test.

--docs    write the table into docs/service.md
"""

from __future__ import annotations

import compileall
import http.client
import itertools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from roundwise import BestArm, Binary, create_study, load_study
from roundwise.store import open_store

SOURCE = Path(__file__).parents[1] / "src"
PAGE = Path(__file__).parents[1] / "docs" / "service.md"
ARMS = [f"arm {i}" for i in range(100)]
RATES = np.linspace(0.30, 0.36, len(ARMS))
ROUNDS, STUDIES, READERS = 30, 1000, 50


@contextmanager
def server(storage: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """A server: its address, and what gives the CPU that it has used, in milliseconds."""
    command = [sys.executable, "-m", "roundwise", "serve", "--storage", storage, "--port", "0", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None

    def used() -> float:
        return 1000 * time.clock_gettime((~running.pid << 3) | 2)  # Linux: the clock of a process, all its threads

    try:
        yield json.loads(running.stdout.readline())["page"], used
    finally:
        running.kill()
        running.wait()


def get(url: str, path: str) -> bytes:
    """What is answered."""
    found = urlsplit(url)
    connection = http.client.HTTPConnection(str(found.hostname), found.port, timeout=600)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return content


def results(pulls: list[tuple[str, int]], rng: np.random.Generator) -> dict[str, list[object]]:
    """What a round brings."""
    rates = dict(zip(ARMS, RATES, strict=True))
    counts = [n for _, n in pulls]
    sums = [int(rng.binomial(n, rates[arm])) for arm, n in pulls]
    return {"arm": [arm for arm, _ in pulls], "count": list(counts), "successes": list(sums)}


def prepare(storage: str) -> None:
    """A study of 100 arms and 30 rounds, and many small ones."""
    rng = np.random.default_rng(1)
    words = {"question": BestArm(), "arms": ARMS, "noise": Binary(), "storage": storage, "round_size": 1000, "seed": 1}
    with create_study("large", **words) as study:  # type: ignore[arg-type]
        for _ in range(ROUNDS):
            asked = study.ask()
            assert asked is not None
            study.tell(results(asked.table, rng), new=True)
        study.ask()
        payload, state = study.state.spec.to_json(), study.state
    from roundwise.study.study import overview

    with open_store(storage) as store:
        for i in range(STUDIES):
            store.create(f"study {i}", payload, overview=overview(state))


def per_request(used: Callable[[], float], work: Callable[[], object], times: int) -> float:
    """CPU of the server for one request, the mean of many."""
    before = used()
    for _ in range(times):
        work()
    return (used() - before) / times


def quiet(used: Callable[[], float]) -> None:
    """Wait until the server has done what it does while nobody asks."""
    before = -1.0
    while used() - before > 10 or before < 0:
        before = used()
        time.sleep(1.0)


def between(found: list[float]) -> str:
    """The least and the most."""
    return f"{min(found):.0f} to {max(found):.0f} ms"


def read(url: str, told: str) -> None:
    """Many who read the list, a large study and the one that is told, again and again, until this process is ended."""

    def again() -> None:
        for path in itertools.cycle(("/", "/studies/large", f"/studies/{told}")):
            get(url, path)

    for _ in range(READERS):
        threading.Thread(target=again, daemon=True).start()
    get(url, "/studies/large")
    begun("reading")
    time.sleep(3600)


def idle(url: str, told: str) -> None:
    """Nothing."""
    begun("waiting")
    time.sleep(3600)


def busy(url: str, told: str) -> None:
    """Keep a processor busy and ask the server for nothing: what sharing the machine costs, without any reader."""
    begun("working")
    while True:
        math.sqrt(2.0)


def begun(what: str) -> None:
    """Tell the process that waits for it."""
    print(what, flush=True)


BESIDE = {"idle": idle, "busy": busy, "read": read}


def waits(url: str, storage: str, beside: str) -> list[float]:
    """How long each `tell` takes by the clock, in milliseconds, while somebody does something beside."""
    name, found = f"told-beside-{beside}", []
    with create_study(
        name, question=BestArm(), arms=["a", "b"], noise=Binary(), storage=storage, round_size=10
    ) as study:
        study.note("this one is told")
    with subprocess.Popen([sys.executable, __file__, beside, url, name], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            with load_study(name, url) as study:
                for i in range(9):
                    study.ask()
                    rows = {"arm": ["a", "b"], "count": [5, 5], "successes": [i % 3, 2]}
                    begun = time.perf_counter()
                    study.tell(rows, new=True)
                    found.append(1000 * (time.perf_counter() - begun))
        finally:
            other.kill()
    with load_study(name, storage) as study:
        assert study.status().rounds == 9
    return found


def main() -> None:
    """Print the table."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/studies.db"
        compileall.compile_dir(str(SOURCE), quiet=1)  # as an installation does
        prepare(storage)
        arms, many = f"{len(ARMS)} arms, {ROUNDS} rounds", f"{STUDIES} studies"
        starts, at_once, ready = [], [], []
        for _ in range(5):
            with server(storage) as (url, used):
                get(url, "/health")
                starts.append(used())
                at_once.append(per_request(used, lambda url=url: get(url, "/studies/large"), 1))  # type: ignore[misc]
            with server(storage) as (url, used):
                quiet(used)
                ready.append(per_request(used, lambda url=url: get(url, "/studies/large"), 1))  # type: ignore[misc]
        rows.append(("start-up, until it answers", "< 1000 ms", between(starts)))
        rows.append((f"page of a study of {arms}, the first request of all", "< 150 ms", between(at_once)))
        rows.append(("the same, a few seconds after the start", "< 150 ms", between(ready)))
        with server(storage) as (url, used):
            quiet(used)
            get(url, "/studies/large")
            get(url, "/")

            def changed() -> None:
                with load_study("large", storage) as study:
                    study.note("something new")
                get(url, "/studies/large")

            rows.append(
                (f"page of a study of {arms}, after a change", "< 150 ms", f"{per_request(used, changed, 10):.0f} ms")
            )
            again = per_request(used, lambda: get(url, "/studies/large"), 20)
            rows.append((f"page of a study of {arms}, seen before", "< 150 ms", f"{again:.0f} ms"))
            brief = per_request(used, lambda: get(url, "/api/v1/studies/large"), 20)
            rows.append(("its status as JSON", "", f"{brief:.0f} ms"))

            def changed_list() -> None:
                with load_study("large", storage) as study:
                    study.note("something new")
                get(url, "/")

            listing = f"{per_request(used, changed_list, 10):.0f} ms"
            rows.append((f"page with a list of {many}, after a change", "< 100 ms", listing))
            listing = f"{per_request(used, lambda: get(url, '/'), 10):.0f} ms"
            rows.append((f"page with a list of {many}, seen before", "< 100 ms", listing))
            listed = per_request(used, lambda: get(url, "/api/v1/studies"), 10)
            rows.append((f"list of {many} as JSON", "< 100 ms", f"{listed:.0f} ms"))
            clocks = [statistics.median(waits(url, storage, each)) for each in BESIDE]
            what = f"`tell` by the clock: alone, beside a busy process, while {READERS} read"
            rows.append((what, "not blocked", f"{', '.join(f'{each:.0f}' for each in clocks)} ms"))
    for row in rows:
        print(" | ".join(row))
    if "--docs" in sys.argv:
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        text = PAGE.read_text()
        PAGE.write_text(
            re.sub(r"(\| what \| wanted \| found \|\n\|---\|---\|---\|\n)(\|.*\n)*", lambda m: m[1] + table, text)
        )


if __name__ == "__main__":
    BESIDE[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:2] and sys.argv[1] in BESIDE else main()
