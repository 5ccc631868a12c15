"""Disks that fail at any call of SQLite: what was acknowledged is there, nothing in part, and one sentence is said."""

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

import failing_disk as disk
from processes import child, ended
from roundwise import BestArm, Binary, StoreError, create_study, load_study

RESULTS = {"arm": ["a", "b", "c"], "outcome": [1, 0, 1]}
WAYS = {  # what fails, for how long, and with what
    "once": {"code": errno.EIO},
    "from then on": {"code": errno.EIO, "for_good": True},
    "full": {"code": errno.ENOSPC, "for_good": True, "only": ["pwrite64", "pwrite", "ftruncate", "open"]},
}
pytestmark = pytest.mark.skipif(not disk.reachable(), reason="this Python carries SQLite inside itself")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A study with an open round."""
    path = tmp_path_factory.mktemp("sound") / "s.db"
    with create_study(
        "s", question=BestArm(), arms=["a", "b", "c"], noise=Binary(), storage=f"sqlite:///{path}"
    ) as new:
        new.ask()
        new.tell({"arm": ["a"], "outcome": [0]})
    return path


def told(sound, path, n, way, capfd):
    """Tell a file on a disk that fails at call n; how many calls there were, and whether it was acknowledged."""
    shutil.copy(sound, path)
    url = f"sqlite:///{path}"

    def work(acknowledge):
        tempfile.tempdir = str(path.parent)  # whoever is killed leaves a copy behind
        failing = disk.Failing(n, **WAYS[way])
        try:
            with load_study("s", url) as study:
                study.tell(RESULTS)
                acknowledge(1)
        finally:
            acknowledge(1000 + failing.calls)

    with child(work) as (pid, pipe):
        said = pipe.read()
        code = ended(pid)
    message = capfd.readouterr().err
    assert code in (0, 2), message
    assert code == 0 or (message.count("\n") == 1 and "Traceback" not in message), message
    numbers = [int.from_bytes(said[i : i + 4], "little") for i in range(0, len(said), 4)]
    return numbers[-1] - 1000, 1 in numbers


def checked(sound, path, n, way, capfd):
    calls, acknowledged = told(sound, path, n, way, capfd)
    with load_study("s", f"sqlite:///{path}") as study:
        files = study.state.rounds[0].files
        assert [each.counts.sum() for each in files] in ([1.0], [1.0, 3.0])
        there = len(files) == 2
        assert there or not acknowledged
        if not there:
            study.tell(RESULTS)
        assert study.state.rounds[0].counts.tolist() == [2, 1, 1]
    return calls


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_at_some_calls(sound, tmp_path, capfd, way):
    calls = checked(sound, tmp_path / "0.db", 0, way, capfd)
    assert calls > 20
    for n in range(1, calls + 1, max(1, calls // 12)):
        checked(sound, tmp_path / f"{n}.db", n, way, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_at_every_call(sound, tmp_path, capfd, way):
    for n in range(1, checked(sound, tmp_path / "0.db", 0, way, capfd) + 1):
        checked(sound, tmp_path / f"{n}.db", n, way, capfd)


# --- reading where nothing can be written


def test_a_full_disk_can_still_be_read(sound, tmp_path, capfd):
    """Not even the shared memory of readers can be made."""
    path = tmp_path / "full.db"
    shutil.copy(sound, path)

    def work(acknowledge):
        disk.Failing(1, errno.ENOSPC, for_good=True, only=["pwrite64", "pwrite", "ftruncate"])
        with load_study("s", f"sqlite:///{path}") as study:
            acknowledge(int(study.report().pending), len(study.entries()))
            study.note("it is full")

    with child(work) as (pid, pipe):
        assert pipe.read() == bytes([1, 0, 0, 0, 3, 0, 0, 0])
        assert ended(pid) == 2
    assert re.search("full.db (is full|refused)", capfd.readouterr().err)
    with load_study("s", f"sqlite:///{path}") as study:
        study.note("there is room again")


@pytest.mark.parametrize("log", [False, True], ids=["closed well", "with a log"])
def test_a_read_only_disk_can_be_read(sound, tmp_path, log):
    """As it is; or, where a process died and left its log, from a copy."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a disk")
    try:
        shutil.copy(sound, folder / "s.db")
        url = f"sqlite:///{folder}/s.db"
        if log:
            with child(lambda acknowledge: _dies_with_a_log(url)) as (pid, _):
                ended(pid)
            assert (folder / "s.db-wal").stat().st_size
        (folder / "s.db-shm").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        with load_study("s", url) as study:
            assert [entry.kind for entry in study.entries()][3:] == ["noted"] * log
            assert study.report().pending == 1
            with pytest.raises(StoreError, match="cannot be opened for writing"):
                study.note("no")
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _dies_with_a_log(url):
    with load_study("s", url) as study:
        study.store.reached()._settle = lambda connection: None  # what was committed stays in the log
        study.note("the last words")
        os.kill(os.getpid(), signal.SIGKILL)


def test_only_its_owner_may_read_a_new_database(tmp_path):
    before = os.umask(0o000)
    try:
        with create_study(
            "s", question=BestArm(), arms=["a", "b"], noise=Binary(), storage=f"sqlite:///{tmp_path}/x.db"
        ):
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes.pop("x.db") == 0o600
    assert set(modes.values()) <= {0o600}
