"""Every command, killed: at any moment, and just before and just after what it does is committed, on both stores.

Whatever happens, the record is as before or as after, its chain is unbroken, it is sound, and what was acknowledged is
there.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

import postgres
from processes import child, ended
from roundwise import BestArm, Binary, RoundwiseError, create_study, load_study
from roundwise.cli import main
from roundwise.errors import UnknownStudyError
from roundwise.store import open_store
from roundwise.store.database import Access
from roundwise.store.log import read_log, write_log
from roundwise.study.audit import audit_entries

NEW = ["--question", "best-arm", "--arms", "a,b,c", "--binary", "--budget", "900"]
COMMANDS = {  # the words, what is there before it (None: nothing), and the kinds of entries that it appends
    "new": (["new", "s", *NEW], None, ["created"]),
    "ask": (["ask", "s"], "fresh", ["asked"]),
    "tell": (["tell", "s", "more.csv"], "open", ["told"]),
    "round over": (["tell", "s", "more.csv", "--round-over", "late"], "open", ["told", "round_closed", "checkpoint"]),
    "amend": (["amend", "s", "one.csv", "--with", "more.csv", "--why", "typo"], "open", ["amended"]),
    "withdraw": (["amend", "s", "one.csv", "--why", "typo"], "open", ["amended"]),
    "drop": (["drop", "s", "c", "--why", "dear", "--yes"], "counted", ["dropped", "checkpoint"]),
    "add": (["add", "s", "d", "--yes"], "counted", ["added", "checkpoint"]),
    "extend": (["extend", "s", "--budget", "1000", "--yes"], "counted", ["extended"]),
    "import-past": (["import-past", "s", "one.csv", "--yes"], "fresh", ["past_imported"]),
    "close": (["close", "s", "--why", "enough", "--yes"], "open", ["closed"]),
    "reopen": (["reopen", "s", "--why", "more money", "--yes"], "closed", ["reopened"]),
    "note": (["note", "s", "a remark"], "fresh", ["noted"]),
    "remove": (["remove", "s", "--yes"], "fresh", None),
    "import": (["import", "open.jsonl"], None, ["created", "asked", "told"]),
    "export": (["export", "s", "--out", "out.jsonl"], "open", []),
    "report": (["report", "s", "--out", "out.html"], "open", []),
}
READING = ("export", "report")
MOMENTS = ("before the commit", "after the commit", "any")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else postgres.server().fresh()


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """The records that commands begin with, and their files in the present folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)
    (tmp_path / "one.csv").write_text("arm,count,successes\na,10,5\nb,10,3\n")
    (tmp_path / "more.csv").write_text("arm,outcome\na,1\nb,0\nc,1\n")
    found, url = {}, f"sqlite:///{tmp_path}/made.db"
    with create_study("s", question=BestArm(), arms=list("abc"), noise=Binary(), budget=900, storage=url) as study:
        found["fresh"] = study.entries()
        study.ask()
        study.tell("one.csv")
        found["open"] = study.entries()
        study.tell(round_over="late")
        found["counted"] = study.entries()
        study.end("enough")
        found["closed"] = study.entries()
    write_log(tmp_path / "open.jsonl", found["open"])
    return found


def kinds(url):
    """The kinds of entries that are there, None without the study; fails unless the record is sound."""
    with open_store(url) as store:
        try:
            entries = store.read("s")
        except UnknownStudyError:
            return None
    assert audit_entries(entries).sound
    with load_study("s", url) as study:
        study.state  # noqa: B018 - from the last checkpoint
    return [entry.kind for entry in entries]


def set_up(url, log):
    with open_store(url) as store:
        if any(each.name == "s" for each in store.studies()):
            store.remove("s", store.studies()[0].entries - 1)
        if log is not None:
            store.put(log)


def aimed(moment):
    """Have this process die just before, or just after, it commits something."""
    writing = Access.writing

    class Dying:
        def __init__(self, access):
            self.inside = writing(access)

        def __enter__(self):
            return self.inside.__enter__()

        def __exit__(self, *error):
            if moment == "before the commit" and error[0] is None:
                os.kill(os.getpid(), signal.SIGKILL)
            done = self.inside.__exit__(*error)
            os.kill(os.getpid(), signal.SIGKILL)
            return done

    Access.writing = lambda access: Dying(access)


def killed(url, words, moment, pause):
    """Run a command and kill it; whether it had ended well before, and how long it took."""

    def work(acknowledge):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with open_store(url):  # made, so that what is committed next is the command's
            pass
        if moment != "any":
            aimed(moment)
        sys.argv = ["roundwise", *words, "--storage", url]
        acknowledge(1)
        try:
            main()
        except SystemExit as end:
            acknowledge(2 if end.code == 0 else 100 + end.code)

    with child(work) as (pid, pipe):
        assert pipe.read(4)
        start = time.monotonic()
        if moment == "any":
            time.sleep(pause)
            os.kill(pid, signal.SIGKILL)
        said = pipe.read(4)
        took = time.monotonic() - start
        assert ended(pid) in (0, -signal.SIGKILL)
    assert said in (b"", (2).to_bytes(4, "little")), int.from_bytes(said, "little")
    return bool(said), took


def check(url, logs, name, moment, pause=0.0):
    """Kill a command once; how long it lived."""
    words, template, appended = COMMANDS[name]
    before = None if template is None else logs[template]
    set_up(url, before)
    acknowledged, took = killed(url, words, moment, pause)
    old = None if before is None else [entry.kind for entry in before]
    new = None if appended is None else [*(old or []), *appended]
    found = kinds(url)
    assert found in (old, new), (name, moment)
    assert found == new or not acknowledged
    if moment != "any" and name not in READING:
        assert found == (old if moment == "before the commit" else new)
    if name == "report" and os.path.exists("out.html"):
        assert Path("out.html").read_text().rstrip().endswith("</html>")
        os.unlink("out.html")
    if name == "export" and os.path.exists("out.jsonl"):
        assert len(read_log(Path("out.jsonl"))) == len(before)
        os.unlink("out.jsonl")
    assert not [each for each in os.listdir() if each.endswith(".part")] or name in READING
    for left in (each for each in os.listdir() if each.endswith(".part")):
        os.unlink(left)
    return took


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS[:2])
def test_around_the_commit(url, logs, moment):
    for name in COMMANDS:
        if name not in READING:
            check(url, logs, name, moment)


def some(url, logs, turns, seed, commands=tuple(COMMANDS)):
    """Kill each of the commands at random moments, once a turn."""
    moments, usual = random.Random(seed), dict.fromkeys(COMMANDS, 0.03)
    for _ in range(turns):
        for name in commands:
            took = check(url, logs, name, "any", moments.uniform(0, 2 * usual[name]))
            usual[name] = 0.8 * usual[name] + 0.2 * max(took, 0.01)


@pytest.mark.long
def test_at_any_moment(url, logs):
    some(url, logs, 1, 1, tuple(COMMANDS)[::3])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_thousand_kills(url, logs, seed):
    """Six slices of 170 on each store."""
    some(url, logs, 10, 100 + seed)


def test_what_was_recorded_is_not_recorded_again(url, logs):
    """After a kill between commit and acknowledgement the same file told again is refused; nothing counts twice."""
    check(url, logs, "tell", "after the commit")
    with load_study("s", url) as study:
        with pytest.raises(RoundwiseError, match="round"):
            study.tell("more.csv")
        assert study.state.rounds[0].counts.tolist() == [11, 11, 1]
