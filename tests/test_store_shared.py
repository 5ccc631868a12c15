"""Stores that are shared: by studies and threads of one process, by forked processes, with others who read and close.

What was acknowledged must be found by every other process, and still be there after a kill. Most of what SQLite's own
list of ways to corrupt a database names is tried here: locks dropped, forks, links, files moved, replaced and copied,
folders of the network.
"""

import gc
import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import event

import postgres
from processes import child, ended
from roundwise import BestArm, Binary, DataError, InputError, create_study, load_study
from roundwise.errors import ConflictError, StoreError
from roundwise.store import database, open_store, read_log, write_log

ARMS = ("a", "b")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A storage URL under which there is nothing yet."""
    return f"sqlite:///{tmp_path}/studies.db" if request.param == "sqlite" else postgres.server().fresh()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studies.db"


@pytest.fixture
def file(path):
    """The storage URL of SQLite at `path`."""
    return f"sqlite:///{path}"


def results(folder, number):
    """A file of one result of each arm; its number is written into it, so that no two are the same."""
    path = folder / f"{number}.csv"
    path.write_text("arm,outcome,number\n" + "".join(f"{arm},{number % 2},{number}\n" for arm in ARMS))
    return path


def told(study):
    """The numbers of the files that were recorded."""
    return [int(Path(each.name).stem) for asked in study.state.rounds for each in asked.files]


def made(url, *names):
    for name in names:
        with create_study(name, question=BestArm(), arms=ARMS, noise=Binary(), storage=url) as study:
            study.ask()


@contextmanager
def living(work):
    """A child that is killed at the latest when the test goes on."""
    with child(work) as (pid, pipe):
        try:
            yield pid, pipe
        finally:
            with suppress(ChildProcessError, ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended(pid)


def python(code, *words):
    """What another process prints."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(url):
    """`roundwise list` in a process of its own, which reads, closes and ends."""
    words = [sys.executable, "-m", "roundwise", "list", "--storage", url]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


SEEN = """
import sys
from roundwise.store import open_store
with open_store(sys.argv[1], create=False) as store:
    print(*(len(store.read(each.name)) for each in store.studies()))
"""


def seen(url):
    """How many entries each study has for another process."""
    return [int(each) for each in python(SEEN, url).split()]


HOLDER = """
import sys, threading
from roundwise import load_study
url, how, *names = sys.argv[1:]
turns = threading.Barrier(len(names) + 1)
orders = {}

def hold(name, loaded):
    study = load_study(name, url)
    study.report()
    loaded.set()
    turns.wait()
    assert study.tell(orders[name])
    turns.wait()
    turns.wait()  # which holds it

if how == "threads":
    for name in names:
        loaded = threading.Event()
        threading.Thread(target=hold, args=(name, loaded), daemon=True).start()
        loaded.wait()
else:
    studies = {name: load_study(name, url) for name in names}
    for study in studies.values():
        study.report()
print("held", flush=True)
orders = dict(zip(names, sys.stdin.readline().split()))
if how == "threads":
    turns.wait()
    turns.wait()
else:
    for name in names:
        assert studies[name].tell(orders[name])
print("told", flush=True)
sys.stdin.readline()
"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["one after the other", "threads"])
def test_two_studies_in_one_process_while_another_reads_and_closes(url, tmp_path, how):
    """The hole: the second study dropped the locks of the first, so that the reader removed the log under both."""
    made(url, "one", "two")
    words = [sys.executable, "-c", HOLDER, url, how, "one", "two"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            assert "two" in listed(url)
            print(results(tmp_path, 1), results(tmp_path, 2), file=holder.stdin, flush=True)
            assert holder.stdout.readline() == "told\n"
            assert seen(url) == [3, 3]
        finally:
            holder.kill()
    assert seen(url) == [3, 3]
    for name, number in (("one", 1), ("two", 2)):
        with load_study(name, url) as study:
            assert told(study) == [number]


WATCHED = """
import sys
from pathlib import Path
path, results, log = sys.argv[1:]
touched = []

def hook(name, words):
    if name.startswith(("open", "os.", "shutil.")) and name not in ("os.stat", "os.chmod"):  # by name, opening nothing
        touched.extend(name for word in words if isinstance(word, (str, bytes, Path)) and path in str(word))

sys.addaudithook(hook)
from roundwise import BestArm, Binary, create_study, load_study
from roundwise.store import open_store, read_log, write_log
url = f"sqlite:///{path}"
with create_study("s", question=BestArm(), arms=("a", "b"), noise=Binary(), storage=url) as study:
    study.ask()
    with load_study("s", url) as again:
        again.tell(results)
    study.report()
    with open_store(url) as store:
        write_log(Path(log), store.read("s"))
        store.studies()
open(path, "rb").close()  # the hook would have seen it
print(touched)
"""


@pytest.mark.long
def test_nobody_but_sqlite_opens_the_file(path, tmp_path):
    assert python(WATCHED, path, results(tmp_path, 1), tmp_path / "log.jsonl") == "['open']\n"


def descriptors(path):
    """The descriptors of this process that lead to a database or the files beside it."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(each))
    return [each for each in found if each.startswith(str(path))]


def connected(access):
    return access.engine.pool.checkedin() + access.engine.pool.checkedout() > 0 or bool(access.open)


class TestOneEngine:
    def test_all_stores_of_a_process_share_it(self, url):
        first, second = open_store(url), open_store(url)
        assert first.reached() is second.reached()
        first.create("s", {})
        first.close()
        assert len(second.read("s")) == 1
        access = second.reached()
        assert connected(access)
        second.close()
        assert not connected(access)
        second.close()
        with open_store(url) as third:
            assert third.reached() is not access
            assert len(third.read("s")) == 1

    def test_a_closed_store_opens_itself_again(self, url):
        store = open_store(url)
        store.create("s", {})
        store.close()
        assert len(store.read("s")) == 1
        access = store.reached()
        store.close()
        assert not connected(access)

    def test_closed_by_one_thread_while_another_is_at_it(self, url):
        store = open_store(url)
        store.create("s", {})
        access = store.reached()
        with access.writing() as connection:
            thread = threading.Thread(target=store.close)
            thread.start()
            thread.join()
            assert store._head(connection, "s")[1].entries == 1
            assert connected(access)
        assert not connected(access)
        assert database.registry().accesses == {}

    def test_another_file_has_another(self, file, tmp_path):
        with open_store(file) as one, open_store(f"sqlite:///{tmp_path}/other.db") as other:
            assert one.reached() is not other.reached()

    @pytest.mark.long
    def test_a_store_forgotten_gives_back_its_share(self, url):
        with open_store(url) as store:
            other = open_store(url)
            assert store.reached().users == 2
            del other
            gc.collect()
            assert store.reached().users == 1
            store.create("s", {})

    def test_a_failure_to_open_gives_back_its_share(self, path, file):
        path.write_text("no database" * 100)
        for _ in range(2):
            with pytest.raises(DataError, match="database"):
                open_store(file)
        assert database.registry().accesses == {}
        assert descriptors(path) == []

    def test_nothing_stays_open(self, path, file):
        with open_store(file) as store:
            store.create("s", {})
            assert str(path) in descriptors(path)
        assert descriptors(path) == []
        assert [each.name for each in path.parent.iterdir()] == [path.name]

    @pytest.mark.long
    def test_threads_open_and_close_all_the_time(self, url, path):
        with open_store(url) as store:
            store.create("s", {})
        failures = []

        def work(who):
            try:
                for i in range(15):
                    with open_store(url) as mine:
                        while True:
                            try:
                                mine.append("s", [("told", {"who": who, "i": i})], mine.read("s")[-1].seq)
                                break
                            except ConflictError:
                                pass
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert database.registry().accesses == {}
        assert descriptors(path) == []
        with open_store(url) as store:
            found = [(entry.payload["who"], entry.payload["i"]) for entry in store.read("s", after=0)]
        assert sorted(found) == [(who, i) for who in range(6) for i in range(15)]

    def test_more_threads_than_a_pool_holds(self, file):
        """All are in a transaction at the same time."""
        with open_store(file) as store:
            store.create("s", {})
            meeting, counts = threading.Barrier(40), []

            def work():
                with store.reached().reading() as connection:
                    meeting.wait()
                    counts.append(store._head(connection, "s")[1].entries)

            threads = [threading.Thread(target=work) for _ in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert counts == [1] * 40


class TestFork:
    @pytest.mark.long
    def test_a_child_goes_on_with_the_store_it_inherits(self, url):
        """Its locks are its own: with the parent's store closed, one who reads and closes removes nothing of it."""
        with open_store(url) as store:
            store.create("s", {})
            go, begin = os.pipe()

            def work(acknowledge):
                store.append("s", [("child", {})], 0)
                acknowledge(1)
                os.read(go, 1)
                store.append("s", [("child", {})], 1)
                acknowledge(2)
                time.sleep(60)

            with living(work) as (pid, pipe):
                assert pipe.read(4)
                assert len(store.read("s")) == 2
                store.close()
                assert "s" in listed(url)
                os.write(begin, b"x")
                assert pipe.read(4)
                assert seen(url) == [3]
                os.kill(pid, signal.SIGKILL)
                ended(pid)
            assert seen(url) == [3]
            store.append("s", [("parent", {})], 2)
        assert seen(url) == [4]
        os.close(go)
        os.close(begin)

    @pytest.mark.long
    def test_the_end_of_a_child_leaves_the_parent_alone(self, url):
        """Also one that ends as programs do, with all that Python clears away."""
        code = """
import gc, os, sys
from roundwise.store import open_store
url = sys.argv[1]
store, second = open_store(url), open_store(url)
store.create("s", {})
for inherits in (True, False):
    pid = os.fork()
    if pid == 0:
        if inherits:
            second.close()
            del store, second
            gc.collect()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    store.append("s", [("told", {})], store.studies()[0].entries - 1)
print("told", flush=True)
sys.stdin.readline()
"""
        words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, url]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            try:
                assert parent.stdout.readline() == "told\n"
                listed(url)
                assert seen(url) == [3]
            finally:
                parent.kill()
        assert seen(url) == [3]

    def test_a_fork_waits_for_the_transactions_of_other_threads(self, url):
        with open_store(url) as store:
            store.create("s", {})
            inside, forking = threading.Event(), database.registry().gate
            order = []

            def transaction():
                with store.reached().writing() as connection:
                    inside.set()
                    while forking._forking is None:
                        time.sleep(0.001)
                    order.append(store._head(connection, "s")[1].entries)

            thread = threading.Thread(target=transaction)
            thread.start()
            inside.wait()

            def work(acknowledge):
                store.append("s", [("child", {})], 0)
                acknowledge(len(order))

            with child(work) as (pid, pipe):
                assert pipe.read(4) == struct.pack("i", 1)
                assert ended(pid) == 0
            thread.join()
            assert len(store.read("s")) == 2

    @pytest.mark.long
    def test_a_fork_in_the_midst_of_a_transaction(self, path, file, capfd):
        """It cannot be waited for: the child is told so, and the parent goes on."""
        with open_store(file) as store:
            store.create("s", {})
            with store.reached().writing(), child(lambda acknowledge: store.studies()) as (pid, _):
                assert ended(pid) == 2
            assert "was open in this process when it was forked" in capfd.readouterr().err
            store.append("s", [("told", {})], 0)
            with child(lambda acknowledge: store.append("s", [("child", {})], 1)) as (pid, _):
                assert ended(pid) == 0
        assert seen(file) == [3]

    @pytest.mark.long
    def test_a_fork_that_python_was_not_told_of(self, file):
        """As C programs do that carry an interpreter: nothing was closed, so the child is refused."""
        code = """
import ctypes, os, sys
from roundwise.errors import StoreError
from roundwise.store import open_store
store = open_store(sys.argv[1])
store.create("s", {})
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    try:
        open_store(sys.argv[1])
    except StoreError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(pid, 0)
"""
        assert "was open in this process when it was forked" in python(code, file)
        assert seen(file) == [1]

    @pytest.mark.long
    def test_processes_of_multiprocessing(self, url):
        code = """
import multiprocessing, sys
from roundwise.errors import ConflictError
from roundwise.store import open_store
store = open_store(sys.argv[1])
store.create("s", {})

def work(i):
    while True:
        try:
            return store.append("s", [("told", {"i": i})], store.read("s")[-1].seq)[0].seq
        except ConflictError:
            pass

with multiprocessing.get_context("fork").Pool(3) as pool:
    assert sorted(pool.map(work, range(30), chunksize=1)) == list(range(1, 31))
work(30)
print(sorted(entry.payload["i"] for entry in store.read("s", after=0)) == list(range(31)))
"""
        assert python(code, url) == "True\n"


class TestFileInUse:
    """What happens to the file of an open store is noticed before anything is acknowledged."""

    @pytest.fixture
    def store(self, path, file):
        with open_store(file) as store:
            store.create("s", {})
            subprocess.run(["cp", path, path.with_name("copy.db")], check=True)  # another process: it drops no locks
            yield store

    @pytest.mark.long
    @pytest.mark.parametrize("how", ["replaced", "moved", "deleted", "moved with its log", "folder moved"])
    def test_moved(self, store, path, file, how):
        if how == "replaced":
            os.replace(path.with_name("copy.db"), path)
        elif how == "deleted":
            path.unlink()
        elif how == "folder moved":
            path.parent.rename(path.parent.with_name("elsewhere"))
        else:
            path.rename(path.with_name("moved.db"))
            for ending in ("-wal", "-shm") if how == "moved with its log" else ():
                path.with_name(path.name + ending).rename(path.with_name("moved.db" + ending))
        for act in (lambda: store.append("s", [("told", {})], 0), store.studies, lambda: store.create("t", {})):
            with pytest.raises(StoreError, match="moved"):
                act()
        store.close()
        if how == "replaced":
            with open_store(file, create=False) as now:
                now.append("s", [("told", {})], 0)
            assert seen(file) == [2]
        else:
            assert not path.exists()  # it was not made anew behind anybody's back
            with pytest.raises(InputError, match="There are no studies|does not exist"):
                store.studies()
        if how == "moved with its log":
            assert seen(f"sqlite:///{path.with_name('moved.db')}") == [1]
        if how == "folder moved":
            assert seen(f"sqlite:///{path.parent.with_name('elsewhere')}/{path.name}") == [1]

    @pytest.mark.long
    def test_replaced_at_the_moment_of_the_commit(self, store, path, file):
        """It is not known which of the two files has it: not acknowledged."""

        @event.listens_for(store.reached().engine, "commit")
        def replace(connection):
            if path.with_name("copy.db").exists():
                os.replace(path.with_name("copy.db"), path)

        with pytest.raises(StoreError, match="moved"):
            store.append("s", [("told", {})], 0)
        assert seen(file) in ([1], [2])

    def test_replaced_before_a_new_connection(self, store, path, file):
        """A pool that grows, and one that was emptied by a fork."""
        with child(lambda acknowledge: None) as (pid, _):
            assert ended(pid) == 0
        assert not connected(store.reached())
        kept = open_store(file)  # connected again; the old file stays in use, so that the new one is another
        kept.studies()
        os.replace(path.with_name("copy.db"), path)
        with pytest.raises(StoreError, match="moved"):
            store.append("s", [("told", {})], 0)
        kept.close()

    CUT_OFF = """
import subprocess, sys
from roundwise.errors import StoreError
from roundwise.store import open_store
path, how = sys.argv[1:]
url = f"sqlite:///{path}"
store, second = open_store(url), open_store(url)
store.append("s", [("first", {})], 0)
if how == "log deleted":
    subprocess.run(["rm", f"{path}-wal"], check=True)
else:
    open(path, "rb").close()  # what a backup in this process would do
    subprocess.run([sys.executable, "-m", "roundwise", "list", "--storage", url], check=True, capture_output=True)
other = "from roundwise.store import open_store; open_store({!r}).append('s', [('other', {{}})], 1)".format(url)
subprocess.run([sys.executable, "-c", other], check=True)
for each in (store, second):
    for act in (lambda: each.append("s", [("told", {})], 1), each.studies, lambda: each.create("t", {})):
        try:
            act()
            print("acknowledged")
        except StoreError as error:
            assert "Start the program anew" in str(error)
    each.close()
try:
    open_store(url)
    print("opened")
except StoreError as error:
    print(error)
"""

    @pytest.mark.long
    @pytest.mark.parametrize("how", ["log deleted", "locks dropped"])
    def test_cut_off_from_its_log(self, path, file, how):
        """Nothing is acknowledged, and the end of the process does not write its log over what others wrote."""
        with open_store(file) as store:
            store.create("s", {})
        said = python(self.CUT_OFF, path, how)
        assert said.count("\n") == 1
        assert "lost its log while in use, and SQLite cannot use it here again" in said
        with open_store(file) as store:
            assert [entry.kind for entry in store.read("s")] == ["created", "first", "other"]
        with sqlite3.connect(path) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        connection.close()

    @pytest.mark.long
    def test_a_log_is_neither_written_over_it_nor_read_from_it(self, store, path, file, tmp_path):
        """Which would destroy it, or drop the locks."""
        (tmp_path / "link").symlink_to(path)
        for name in (path, path.with_name("studies.db-wal"), path.with_name("studies.db-shm"), tmp_path / "link"):
            with pytest.raises(InputError, match="database"):
                write_log(name, store.read("s"))
            with pytest.raises(InputError, match="database"):
                read_log(name)
        write_log(tmp_path / "log.jsonl", store.read("s"))
        assert read_log(tmp_path / "log.jsonl") == store.read("s")
        listed(file)
        store.append("s", [("told", {})], 0)
        assert seen(file) == [2]

    @pytest.mark.long
    def test_a_copy_of_the_file_alone_has_all_that_was_acknowledged(self, store, path):
        """Without its -wal: of an open store, and of one whose process was killed."""
        copy = path.with_name("copy.db")
        for i in range(5):
            store.append("s", [("told", {"x": "y" * 3000})] * 2, 2 * i)
            subprocess.run(["cp", path, copy], check=True)
            assert seen(f"sqlite:///{copy}") == [2 * i + 3]

        def work(acknowledge):
            store.append("s", [("told", {})], 10)
            os.kill(os.getpid(), signal.SIGKILL)

        with child(work) as (pid, _):
            assert ended(pid) == -signal.SIGKILL
        subprocess.run(["cp", path, copy], check=True)
        assert seen(f"sqlite:///{copy}") == [12]

    def test_checkpoints_are_made_under_the_lock_of_writers_alone(self, store):
        """A commit during a checkpoint may spoil the log of SQLite before 3.51.3."""
        with store.reached().reading() as connection:
            assert connection.exec_driver_sql("pragma wal_autocheckpoint").scalar() == 0
        store.close()
        access, said = store.reached(), []

        @event.listens_for(access.engine, "connect")
        def listen(connection, _):
            connection.set_trace_callback(said.append)

        def about(words):
            return [each.lower() for each in said if each.lower().startswith(words)]

        words = ("begin", "commit", "rollback", "pragma wal_checkpoint")
        store.append("s", [("told", {})], 0)
        assert about(words) == [
            "begin immediate",
            "commit",
            "begin immediate",
            "pragma wal_checkpoint(passive)",
            "rollback",
        ]
        with access.writing():  # whoever cannot have the lock at once goes without
            other = access.engine.connect()
            said.clear()
            access._settle(other)
            assert about(words) == ["begin immediate"]
            assert other.exec_driver_sql("pragma busy_timeout").scalar() == 10_000
            other.close()


class TestLinks:
    @pytest.mark.long
    def test_a_file_with_two_names_is_refused(self, path, file):
        with open_store(file) as store:
            store.create("s", {})
            other = path.with_name("other.db")
            os.link(path, other)
            with pytest.raises(StoreError, match=r"studies.db"):
                store.append("s", [("told", {})], 0)
            assert len(store.read("s")) == 1
            for name in (path, other):
                with pytest.raises(StoreError, match="names"):
                    open_store(f"sqlite:///{name}")
            other.unlink()
            store.append("s", [("told", {})], 0)
        assert seen(file) == [2]

    @pytest.mark.long
    def test_symbolic_links_lead_to_one_store(self, path, file, tmp_path):
        (tmp_path / "folder").mkdir()
        link, through = tmp_path / "folder" / "link.db", tmp_path / "through"
        link.symlink_to(path)  # to nothing yet
        through.symlink_to(tmp_path / "folder")
        with open_store(f"sqlite:///{through}/link.db") as store, open_store(file) as direct:
            assert store.reached() is direct.reached()
            store.create("s", {})
            assert python(SEEN, f"sqlite:///{link}") == "1\n"
            assert {each.name for each in tmp_path.glob("**/*-wal")} == {"studies.db-wal"}
        assert seen(file) == [1]

    def test_links_in_a_circle(self, tmp_path):
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(StoreError, match="cannot be opened for writing"):
            open_store(f"sqlite:///{tmp_path}/a")


class TestMounts:
    LINE = "36 35 98:0 / {where} rw,noatime shared:1 - {kind} server:/export rw\n"

    @pytest.fixture
    def mounted(self, tmp_path, monkeypatch):
        """Pretend that folders are mounted."""

        def pretend(*mounts):
            lines = [self.LINE.format(where="/", kind="ext4"), "nonsense\n"]
            lines += [self.LINE.format(where=str(where).replace(" ", "\\040"), kind=kind) for where, kind in mounts]
            (tmp_path / "mountinfo").write_text("".join(lines))
            monkeypatch.setattr(database, "MOUNTS", tmp_path / "mountinfo")

        return pretend

    @pytest.mark.parametrize(
        "kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.s3fs", "virtiofs", "lustre", "ceph"]
    )
    @pytest.mark.parametrize("there", [False, True])
    def test_of_the_network_is_refused(self, tmp_path, mounted, kind, there):
        folder = tmp_path / "my share"
        (folder / "deep").mkdir(parents=True)
        if there:
            open_store(f"sqlite:///{folder}/deep/x.db").close()
        mounted((folder, kind))
        message = (
            rf"x.db is in a folder of the network \(.*/my share, {kind}\).* a disk of this machine, or a PostgreSQL"
        )
        with pytest.raises(StoreError, match=message):
            open_store(f"sqlite:///{folder}/deep/x.db")
        assert (folder / "deep" / "x.db").exists() == there

    @pytest.mark.parametrize(
        "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuseblk", "fuse.gocryptfs"]
    )
    def test_of_this_machine_is_not(self, tmp_path, mounted, kind):
        mounted((tmp_path, kind))
        open_store(f"sqlite:///{tmp_path}/x.db").close()

    def test_the_nearest_and_the_last_count(self, tmp_path, mounted):
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "ab").mkdir()
        mounted((tmp_path / "a", "nfs4"), (tmp_path / "a" / "b", "ext4"))
        open_store(f"sqlite:///{tmp_path}/a/b/x.db").close()
        open_store(f"sqlite:///{tmp_path}/ab/x.db").close()
        with pytest.raises(StoreError, match="of the network"):
            open_store(f"sqlite:///{tmp_path}/a/x.db")
        mounted((tmp_path, "autofs"), (tmp_path, "nfs"))
        with pytest.raises(StoreError, match="of the network"):
            open_store(f"sqlite:///{tmp_path}/x.db")

    def test_a_link_into_the_network(self, tmp_path, mounted):
        (tmp_path / "share").mkdir()
        (tmp_path / "x.db").symlink_to(tmp_path / "share" / "x.db")
        mounted((tmp_path / "share", "nfs4"))
        with pytest.raises(StoreError, match="of the network"):
            open_store(f"sqlite:///{tmp_path}/x.db")

    def test_a_system_that_does_not_say(self, tmp_path, monkeypatch):
        monkeypatch.setattr(database, "MOUNTS", tmp_path / "none")
        open_store(f"sqlite:///{tmp_path}/x.db").close()

    @pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="Linux says what is mounted in /proc")
    def test_this_system_does_say(self, tmp_path):
        assert all(database.find_mount(tmp_path))

    def test_a_single_file(self, path, file, tmp_path, mounted):
        """As containers are given one: its log would stay in the container, and go with it."""
        open_store(file).close()
        inside = tmp_path / "inside.db"
        inside.touch()
        bound = not subprocess.run(["mount", "--bind", path, inside], capture_output=True).returncode
        if not bound:  # only root can
            mounted((inside, "ext4"))
        try:
            with pytest.raises(StoreError, match=r"inside.db"):
                open_store(f"sqlite:///{inside}")
        finally:
            if bound:
                subprocess.run(["umount", inside], check=True)


class TestNotAFile:
    def test_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.db")
        with pytest.raises(DataError, match=r"pipe.db"):
            open_store(f"sqlite:///{tmp_path}/pipe.db")

    def test_a_single_letter_is_not_overwritten(self, path, file):
        path.write_text("S")
        with pytest.raises(DataError, match="database"):
            open_store(file)
        assert path.read_text() == "S"

    def test_a_name_that_means_something_in_a_uri(self, tmp_path):
        (tmp_path / "100% #").mkdir()
        with open_store(f"sqlite:///{tmp_path}/100% #/ä.db") as store:
            store.create("s", {})
        assert (tmp_path / "100% #" / "ä.db").exists()


@pytest.mark.long
def test_interrupted_at_any_moment(url, monkeypatch):
    """A key pressed (Ctrl-C) again and again: what was acknowledged is there, once, and others can go on."""
    monkeypatch.setattr(database, "PATIENCE", 1)
    with open_store(url) as store:
        store.create("s", {})

    def work(acknowledge):
        armed, pressed = [], []

        def press(number, frame):
            if armed:
                pressed.append(armed.pop())
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, press)
        with open_store(url) as store:
            acknowledge(-1)
            i = 0
            while len(pressed) < 30:
                i += 1
                try:
                    armed.append(i)
                    store.append("s", [("told", {"i": i})], store.studies()[0].entries - 1)
                    acknowledge(i)
                    armed.clear()
                except KeyboardInterrupt:
                    pass
                except Exception:  # an interrupted transaction is not cleared away yet, or a library was hit in between
                    gc.collect()

    moments = random.Random(7)
    with child(work) as (pid, pipe):
        pipe.read(4)
        while (end := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            os.kill(pid, signal.SIGINT)
            time.sleep(moments.uniform(0.002, 0.02))
        assert os.waitstatus_to_exitcode(end[1]) == 0
        acknowledged = [number for (number,) in struct.iter_unpack("i", pipe.read())]
    with open_store(url) as store:
        found = [entry.payload["i"] for entry in store.read("s", after=0)]
        store.append("s", [("told", {})], len(found))
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)


def hostile(url, folder, kills, seed):
    """Kill processes that hold two studies and tell from threads while others list; (acknowledged, found).

    In every other life the kill waits for a first acknowledgement, so that there is something to lose.
    """
    moments = random.Random(seed)
    numbers = iter(range(1, 1_000_000))
    acknowledged, found = set(), set()
    failures = folder / "failures"

    def lists(acknowledge):
        acknowledge(1)
        while True:
            with open_store(url, create=False) as store:
                store.studies()

    def tells(acknowledge, names, start):
        def hold(who, name):
            with load_study(name, url) as study:
                for i in range(1000):
                    number = start + 2 * i + who
                    study.tell(results(folder, number), new=True)  # two rows are soon the same
                    acknowledge(number)
                    if study.state.open_round is None:
                        study.ask()

        def comes_and_goes():
            while True:
                with open_store(url) as store:
                    store.studies()

        def noted(work, *words):
            try:
                work(*words)
            except BaseException as error:
                failures.write_text(f"{type(error).__name__}: {error}")
                raise

        held = [threading.Thread(target=noted, args=(hold, *each)) for each in enumerate(names)]
        for thread in [*held, threading.Thread(target=noted, args=(comes_and_goes,), daemon=True)]:
            thread.start()
        for thread in held:
            thread.join()

    for life in range(kills):
        if life % 10 == 0:  # a study that grows takes longer to tell
            names = (f"one {life}", f"two {life}")
            made(url, *names)
        start = 2000 * next(numbers)
        with (
            living(lists) as (lister, says),
            living(lambda acknowledge, names=names, start=start: tells(acknowledge, names, start)) as (teller, pipe),
        ):
            assert says.read(4)
            heard = b""
            if life % 2:
                heard = pipe.read(4)
                assert heard
            time.sleep(moments.uniform(0, 0.1))
            victims = [teller, lister] if moments.random() < 0.7 else [lister, teller]
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
                assert ended(victim) == -signal.SIGKILL
            heard += pipe.read()
            acknowledged.update(number for (number,) in struct.iter_unpack("i", heard))
        for name in names:
            with load_study(name, url) as study:  # which replays
                there = told(study)
                assert len(there) == len(set(there))
                found.update(there)
                if study.state.open_round is None and not study.state.trial.done:
                    study.ask()
        assert not failures.exists(), failures.read_text()
        assert acknowledged <= found, (life, acknowledged - found)
        for each in folder.glob("*.csv"):
            each.unlink()
    assert len(acknowledged) >= kills // 2
    return len(acknowledged), len(found)


@pytest.mark.long
def test_killed_while_threads_tell_and_others_list(url, tmp_path):
    hostile(url, tmp_path, kills=10, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 300), ("postgresql", 60)])
def test_killed_again_and_again_while_threads_tell_and_others_list(kind, kills, tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db" if kind == "sqlite" else postgres.server().fresh()
    acknowledged, found = hostile(url, tmp_path, kills=kills, seed=12)
    print(f"{kind}: {kills} kills, {acknowledged} acknowledged, all found; {found - acknowledged} more were recorded")
