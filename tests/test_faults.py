"""Disks that fail at any call of SQLite: what was acknowledged is there, nothing in part, and one sentence is said."""

import errno
import shutil

import pytest

import disk
from processes import child, ended
from roundwise import BestArm, Binary, InputError, create_study, load_study

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
        files = study.state.asked[0].files
        assert [each.counts.sum() for each in files] in ([1.0], [1.0, 3.0])
        there = len(files) == 2
        assert there or not acknowledged
        if there:
            with pytest.raises(InputError, match="already recorded"):
                study.tell(RESULTS)
        else:
            study.tell(RESULTS)
        assert study.state.asked[0].counts.tolist() == [2, 1, 1]
    return calls


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
