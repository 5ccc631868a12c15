"""Nothing lost, nothing twice: processes really killed, disks really full, servers really stopped."""

import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

import postgres
from processes import child, ended
from roundwise import RoundwiseError
from roundwise.errors import ConflictError, StoreError
from roundwise.store import open_store
from roundwise.study.audit import list_studies

KILLS = 25  # a thousand of every command: test_killed_commands, behind the marker
PARTS = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request, tmp_path):
    """URLs of stores that are not there yet, one a call."""
    numbers = iter(range(1000))
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    return postgres.server().fresh


def pairs(data):
    return [struct.unpack_from("ii", data, at) for at in range(0, len(data) - 7, 8)]


def group(who, i):
    return [("part", {"who": who, "group": i, "part": part, "filler": "x" * 3000}) for part in range(PARTS)]


def appended(store, who, i):
    """Append a group, as often as it takes against other writers."""
    while True:
        last = store.studies()[0].entries - 1
        try:
            return store.append("s", group(who, i), last)
        except ConflictError:
            pass


def groups(entries):
    """The groups that were recorded; fails where one is torn, mixed with another or there twice."""
    found = []
    for at in range(0, len(entries), PARTS):
        parts = [entry.payload for entry in entries[at : at + PARTS]]
        assert [part["part"] for part in parts] == list(range(PARTS))
        assert len({(part["who"], part["group"]) for part in parts}) == 1
        found.append((parts[0]["who"], parts[0]["group"]))
    assert len(found) == len(set(found))
    return found


@pytest.mark.long
def test_kill_at_any_moment_of_append(fresh):
    url = fresh()
    moments = random.Random(1)
    acknowledged, recorded = set(), []
    with open_store(url) as store:
        store.create("s", {})
        for life in range(KILLS):

            def work(acknowledge, life=life):
                with open_store(url) as mine:
                    acknowledge(life, -1)
                    for i in range(1000):
                        appended(mine, life, i)
                        acknowledge(life, i)

            store.close()  # so that the file is recovered by the next to open it
            with child(work) as (pid, pipe):
                begun = pipe.read(8)
                told = pairs(pipe.read(8)) if life % 2 else []  # half of them lived to record something
                time.sleep(moments.uniform(0, 0.02))
                os.kill(pid, signal.SIGKILL)
                assert ended(pid) == -signal.SIGKILL
                told += pairs(pipe.read())
            assert pairs(begun) == [(life, -1)]
            acknowledged.update(told)
            recorded += groups(store.read("s", after=PARTS * len(recorded)))  # which checks the chain
            assert acknowledged <= set(recorded)
            if life % 10 == 0:
                appended(store, life, 1000)
                acknowledged.add((life, 1000))

    with open_store(url) as store:
        recorded = groups(store.read("s", after=0))
    assert acknowledged <= set(recorded)
    assert len(recorded) - len(acknowledged) <= KILLS  # of each life at most the group it was killed in
    assert len(acknowledged) >= KILLS // 2


@pytest.mark.long
def test_kill_while_a_store_is_made(fresh):
    moments = random.Random(2)
    for _ in range(20):
        url = fresh()

        def work(acknowledge, url=url):
            acknowledge(0, 0)
            with open_store(url) as store:
                store.create("s", {"x": 1})
                acknowledge(0, 1)

        with child(work) as (pid, pipe):
            pipe.read(8)
            time.sleep(moments.uniform(0, 0.05))
            os.kill(pid, signal.SIGKILL)
            ended(pid)
            created = pipe.read() != b""
        with open_store(url) as store:
            assert not created or len(store.read("s")) == 1
            if not store.studies():
                store.create("s", {"x": 1})
            appended(store, 0, 0)


@pytest.mark.long
def test_two_processes_at_once(fresh):
    url, each = fresh(), 60
    with open_store(url) as store:
        store.create("s", {})

    start, hold = os.pipe()

    def work(who):
        def run(acknowledge):
            with open_store(url) as store:
                os.close(hold)
                os.read(start, 1)  # until all have closed the other end
                for i in range(each):
                    appended(store, who, i)
                    acknowledge(who, i)

        return run

    with child(work(1)) as (first, one), child(work(2)) as (second, two):
        os.close(hold)
        acknowledged = pairs(one.read()) + pairs(two.read())
        os.close(start)
        assert (ended(first), ended(second)) == (0, 0)
    with open_store(url) as store:
        recorded = groups(store.read("s", after=0))
    assert sorted(recorded) == sorted(acknowledged) == [(who, i) for who in (1, 2) for i in range(each)]
    for who in (1, 2):
        assert [i for name, i in recorded if name == who] == list(range(each))


@pytest.mark.long
def test_many_open_a_store_at_once(fresh):
    for _ in range(3):
        url = fresh()

        def work(acknowledge, url=url):
            with open_store(url) as store:
                store.create(f"study {os.getpid()}", {})

        with (
            child(work) as (a, _),
            child(work) as (b, _),
            child(work) as (c, _),
            child(work) as (d, _),
        ):
            assert [ended(pid) for pid in (a, b, c, d)] == [0, 0, 0, 0]
        with open_store(url) as store:
            assert len(store.studies()) == 4


class TestFullDisk:
    @pytest.fixture
    def small(self, tmp_path):
        """A disk of one megabyte, and a function that makes it larger."""
        folder = tmp_path / "small"
        folder.mkdir()
        mounted = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", str(folder)]
        if subprocess.run(mounted, capture_output=True).returncode:
            pytest.skip("only root can mount a small disk; the limit on the size of files is tested all the same")
        yield folder, lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

    def filled(self, append):
        """How many groups went onto the disk, and what was said of the next."""
        for i in range(1000):
            try:
                append(i)
            except StoreError as error:
                assert i > 3
                return i, str(error)
        raise AssertionError("the disk did not fill")

    def test_sqlite(self, small):
        folder, enlarge = small
        with open_store(f"sqlite:///{folder}/x.db") as store:
            store.create("s", {})
            done, message = self.filled(lambda i: appended(store, 0, i))
            assert re.search(r"disk that holds .*x.db is full. Nothing of this was recorded, .* Make room and", message)
            assert groups(store.read("s", after=0)) == [(0, i) for i in range(done)]
            with open_store(f"sqlite:///{folder}/x.db") as other:
                assert len(groups(other.read("s", after=0))) == done
            with pytest.raises(StoreError, match="is full"):
                appended(store, 0, done)
            enlarge()
            appended(store, 0, done)
            assert groups(store.read("s", after=0)) == [(0, i) for i in range(done + 1)]

    def test_sqlite_where_nothing_fits_at_all(self, small):
        folder, enlarge = small
        (folder / "large").write_bytes(bytes(1024 * 1024))
        with pytest.raises(StoreError, match=r"disk that holds .*x.db (is full|refused)"):
            open_store(f"sqlite:///{folder}/x.db")
        enlarge()
        with open_store(f"sqlite:///{folder}/x.db") as store:
            store.create("s", {})

    def test_postgresql(self, small):
        folder, enlarge = small
        server = postgres.server()
        for parent in (folder, *folder.parents[:-2]):  # the server's account must reach it
            parent.chmod(0o755)
        (folder / "space").mkdir()
        shutil.chown(folder / "space", server.data.owner())
        server.sql(f"create tablespace small location '{folder}/space'")
        url = server.fresh()
        try:
            with open_store(url.replace("options=", "options=-cdefault_tablespace%3Dsmall%20")) as store:
                store.create("s", {})
                noise = random.Random(4)
                done, message = self.filled(
                    lambda i: store.append("s", [("told", {"x": noise.randbytes(20_000).hex()})], i)
                )
                assert re.search(r"The disk of the server of .* is full. Nothing of this was recorded", message)
                assert len(store.read("s")) == done + 1
                enlarge()
                store.append("s", [("told", {})], done)
        finally:
            server.sql(f"drop schema {url.rpartition('%3D')[2]} cascade")
            server.sql("drop tablespace small")

    def test_limit_on_the_size_of_files(self, tmp_path):
        """What a quota does, for those who are not root."""
        url = f"sqlite:///{tmp_path}/x.db"

        def work(acknowledge):
            with open_store(url) as store:
                store.create("s", {})
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
                try:
                    for i in range(1000):
                        appended(store, 0, i)
                        acknowledge(0, i)
                except StoreError as error:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                    (tmp_path / "message").write_text(str(error))
                appended(store, 1, 0)

        with child(work) as (pid, pipe):
            acknowledged = pairs(pipe.read())
            assert ended(pid) == 0
        message = (tmp_path / "message").read_text()
        assert "x.db is full" in message or "x.db refused (SQLITE_IOERR_WRITE): a quota, a limit" in message
        with open_store(url) as store:
            assert groups(store.read("s", after=0)) == [*acknowledged, (1, 0)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["fast", "immediate", "kill", "backend"])
def test_the_server_goes_away_during_append(how):
    server = postgres.server()
    moments = random.Random(how)
    url = server.fresh()
    acknowledged, messages = [], []

    def work(store, life):
        for i in range(100_000):
            try:
                appended(store, life, i)
            except StoreError as error:
                messages.append(str(error))
                return
            acknowledged.append((life, i))

    with open_store(url) as store:  # one for all the lives of the server: it finds the new one by itself
        store.create("s", {})
        for life in range(2):
            thread = threading.Thread(target=work, args=(store, life))
            thread.start()
            time.sleep(moments.uniform(0.05, 0.15))
            if how == "backend":  # the server then throws out everybody and recovers by itself
                ((pid,),) = server.sql("select pid from pg_stat_activity where application_name = 'roundwise' limit 1")
                os.kill(pid, signal.SIGKILL)
                thread.join()
            else:
                server.stop(how)
                thread.join()
                with pytest.raises(StoreError, match="server"):
                    store.studies()
                with pytest.raises(StoreError, match="server"):
                    open_store(url)
                server.start()
            recorded = _when_back(store)
            assert set(acknowledged) <= set(recorded)
            assert len(recorded) <= len(acknowledged) + life + 1
            appended(store, life, -1)
            acknowledged.append((life, -1))
    assert len(messages) == 2
    for message in messages:
        assert "was lost" in message or "cannot be reached" in message
        assert "\n" not in message


def _when_back(store):
    for _ in range(200):
        try:
            return groups(store.read("s", after=0))
        except StoreError:
            time.sleep(0.05)
    raise AssertionError("the server did not come back")


USES = (  # whatever reads or writes a store
    lambda store: store.studies(),
    lambda store: list_studies(f"sqlite:///{store.address.file}"),
    lambda store: store.ends(),
    lambda store: store.read("s"),
    lambda store: store.recent("s"),
    lambda store: store.head("s"),
    lambda store: store.head("another"),
    lambda store: store.link("s"),
    lambda store: store.make_link("s"),
    lambda store: [entry.payload["text"] for entry in store.find("s", "request k")],
    lambda store: store.append("s", [("noted", {"key": "l"})], 1, overview={"arms": 2}),
    lambda store: store.append("s", [("noted", {})], 0),
    lambda store: store.remove("s", 1),
)


class TestDamagedFile:
    @pytest.fixture
    def sound(self, tmp_path):
        path = tmp_path / "sound.db"
        with open_store(f"sqlite:///{path}") as store:
            store.create("s", {})
            for i in range(12):
                appended(store, 0, i)
            entries = store.read("s")
        return path, entries

    def outcome(self, path, entries):
        """'sound' or the sentence; fails where damage goes unnoticed or is a traceback."""
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        try:
            with open_store(f"sqlite:///{path}", create=False) as store:
                assert store.read("s") == entries
                store.studies()
        except RoundwiseError as error:
            return str(error)
        return "sound"

    def test_cut(self, sound, tmp_path):
        path, entries = sound
        data, cut = path.read_bytes(), tmp_path / "cut.db"
        assert self.outcome(path, entries) == "sound"
        for length in [*range(0, len(data), 4096), 1, 100, 511, 5000, len(data) - 1]:
            cut.write_bytes(data[:length])
            message = self.outcome(cut, entries)
            expected = "is damaged|was changed|not an SQLite database" if length else "There are no studies in"
            assert re.search(expected, message), length

    @pytest.mark.long
    def test_bits_that_flip(self, sound, tmp_path):
        path, entries = sound
        data, flipped = path.read_bytes(), tmp_path / "flipped.db"
        places = random.Random(5)
        outcomes = []
        for turn in range(150):
            changed = bytearray(data)
            # half of them in the pages of the schema and of the study
            place = places.randrange(len(data) if turn % 2 else min(len(data), 5 * 4096))
            changed[place] ^= 1 << places.randrange(8)
            flipped.write_bytes(changed)
            outcomes.append(self.outcome(flipped, entries))
        assert sum(outcome != "sound" for outcome in outcomes) > 30
        assert not any("\n" in outcome or "SQLite failed" in outcome for outcome in outcomes)

    def test_overwritten(self, sound, tmp_path):
        path, entries = sound
        data = bytearray(path.read_bytes())
        data[4096:12288] = random.Random(6).randbytes(8192)
        path.write_bytes(data)
        assert "sound.db is damaged" in self.outcome(path, entries)

    @pytest.mark.long
    @pytest.mark.parametrize(
        "table", ["roundwise_study", "roundwise_entry", "roundwise_key", "roundwise_link", "roundwise_schema"]
    )
    def test_cells_of_another_type(self, table, tmp_path):
        """A damaged byte of a row's header turns a text or a number into anything, also into nothing."""
        whole = tmp_path / "whole.db"
        with open_store(f"sqlite:///{whole}") as store:
            store.create("s", {})
            store.append("s", [("noted", {"text": "x", "key": "k"})], 0)
            store.make_link("s")
        with closing(sqlite3.connect(whole)) as connection:  # SQLite itself keeps no type, but for what this says
            connection.execute("pragma writable_schema = on")
            connection.execute("update sqlite_master set sql = replace(sql, ' NOT NULL', '') where type = 'table'")
            connection.commit()
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        for column in columns:
            for value in ("null", "7", "x'ff00'", "1e300", "'[1]'"):
                path = tmp_path / "cell.db"
                for ending in ("", "-wal", "-shm"):
                    Path(f"{path}{ending}").unlink(missing_ok=True)
                shutil.copyfile(whole, path)
                with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.IntegrityError):
                    connection.execute(f"update {table} set {column} = {value}")
                    connection.commit()
                with suppress(RoundwiseError), open_store(f"sqlite:///{path}", create=False) as store:
                    for use in USES:
                        with suppress(RoundwiseError):
                            use(store)


@pytest.mark.long
def test_messages_have_no_traceback_on_the_way_out(tmp_path):
    """The driver's error, which holds SQL and payload, is not chained to ours."""
    path = tmp_path / "x.db"
    path.write_text("not a database" * 1000)
    code = f"from roundwise.store import open_store\nopen_store('sqlite:///{path}')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sqlite3" not in done.stderr
    assert "is not an SQLite database" in done.stderr
    assert json.dumps(done.stderr).count("Traceback") == 1
