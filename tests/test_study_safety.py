"""Nothing lost, nothing twice: processes really killed while they tell, two that tell at once, disks really full."""

import os
import random
import re
import resource
import signal
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import postgres
import roundwise.store.database
from processes import child, ended
from roundwise import BestArm, Binary, DataError, InputError, create_study, load_study
from roundwise.ingest import Columns
from roundwise.study import replay

KILLS = 21  # on each store, in `tell` alone; a thousand of every command: test_killed_commands, behind the marker
ARMS = ("a", "b", "c")
IDS = Columns(id="id")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A storage URL under which there is nothing yet."""
    return f"sqlite:///{tmp_path}/studies.db" if request.param == "sqlite" else postgres.server().fresh()


@pytest.fixture
def study(url):
    with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), storage=url, columns=IDS) as study:
        study.ask()
        yield study


def results(path, number):
    """A file of one result of each arm; its number is written into it, so that no two are the same."""
    path = path / f"{number}.csv"
    path.write_text("arm,outcome,id\n" + "".join(f"{arm},{number % 2},{number}{arm}\n" for arm in ARMS))
    return path


def told(state):
    """The numbers of the files that were recorded; fails where one is there in part."""
    found = []
    for asked in state.rounds:
        for each in asked.files:
            assert each.counts.tolist() == [1.0] * len(ARMS)
            found.append(int(os.path.basename(each.name).removesuffix(".csv")))
    return found


@pytest.mark.long
def test_kill_at_any_moment_of_tell(url, tmp_path):
    """A file is recorded wholly or not at all; told again it is recorded, or said to be there."""
    moments = random.Random(1)
    files = [results(tmp_path, number) for number in range(KILLS)]
    with create_study("s", question=BestArm(), arms=ARMS, noise=Binary(), storage=url, columns=IDS) as study:
        study.ask()

        def tell(acknowledge, file):
            with load_study("s", url) as mine:
                mine.store.studies()  # connected
                acknowledge(1)
                mine.tell(file)
                acknowledge(2)

        with child(lambda acknowledge: tell(acknowledge, files[0])) as (pid, pipe):  # how long it takes
            pipe.read(4)
            start = time.monotonic()
            pipe.read(4)
            usual = time.monotonic() - start
            assert ended(pid) == 0
        recorded = [0]
        for number in range(1, KILLS):
            file = files[number]
            study.store.close()
            with child(lambda acknowledge, file=file: tell(acknowledge, file)) as (pid, pipe):
                assert pipe.read(4)
                time.sleep(moments.uniform(0, 2 * usual))
                os.kill(pid, signal.SIGKILL)
                ended(pid)
                acknowledged = bool(pipe.read(4))
            usual *= 0.9 if acknowledged else 1.1  # it takes longer as the log grows, and on a busy machine
            with load_study("s", url) as again:  # which replays
                there = told(again.state)
                assert there[: len(recorded)] == recorded
                assert there[len(recorded) :] in ([], [number])
                recorded = there
                if number in there:
                    with pytest.raises(InputError, match=f"{number}.csv is already recorded as round [0-9]+"):
                        again.tell(file)
                else:
                    assert not acknowledged
                    if number % 3 == 0:  # the others stay untold
                        again.tell(file)
                        recorded = [*recorded, number]
                state = again.state
                assert told(state) == recorded
                if state.open_round is None:
                    assert not state.trial.done
                    again.ask()
    with load_study("s", url) as study:
        state = study.state
        batches = state.batches
        assert state.trial.record.samples == sum(batch.counts.sum() for batch in batches)
        assert sum(batch.counts.sum() for batch in batches) + (
            0 if state.open_round is None else state.open_round.counts.sum()
        ) == len(ARMS) * len(recorded)


@pytest.mark.long
def test_kill_while_the_study_is_decided(url, tmp_path):
    """The verdict is recorded with the results that bring it, or neither is."""
    moments = random.Random(2)
    usual = 0.02
    (tmp_path / "1.csv").write_text("arm,count,successes\na,30,13\nb,30,14\nc,30,16\n")
    (tmp_path / "2.csv").write_text("arm,count,successes\na,200,20\nb,200,100\nc,200,190\n")
    for turn in range(20):
        name = f"s{turn}"
        with create_study(name, question=BestArm(), arms=ARMS, noise=Binary(), storage=url) as study:
            study.ask()
            study.tell(tmp_path / "1.csv")
            study.ask()

        def work(acknowledge, name=name):
            with load_study(name, url) as mine:
                acknowledge(1)
                mine.tell(tmp_path / "2.csv")

        with child(work) as (pid, pipe):
            pipe.read(4)
            time.sleep(moments.uniform(0, 2 * usual))
            os.kill(pid, signal.SIGKILL)
            ended(pid)
        with load_study(name, url) as study:
            state = study.state
            assert (state.decided is not None) == bool(state.trial.done) == bool(state.rounds[1].files)
            usual *= 0.8 if state.decided is not None else 1.25
            if state.decided is None:
                study.tell(tmp_path / "2.csv")
            assert study.state.decided["answer"] == 2
            assert study.state.seq == 7


def at_once(url, jobs):
    """Run the jobs in processes that start together; their exit codes."""
    start, hold = os.pipe()

    def work(job):
        def run(acknowledge):
            os.close(hold)
            with load_study("s", url) as mine:
                mine.store.studies()
                acknowledge(1)
                os.read(start, 1)  # until everybody is there
                for file in job:
                    mine.tell(file)

        return run

    with child(work(jobs[0])) as (one, first), child(work(jobs[1])) as (two, second):
        first.read(4)
        second.read(4)
        os.close(hold)
        codes = (ended(one), ended(two))
    os.close(start)
    return codes


def test_two_tell_different_files_at_once(study, url, tmp_path):
    files = [results(tmp_path, number) for number in range(12)]
    for number in range(0, 12, 4):
        assert at_once(url, [files[number : number + 2], files[number + 2 : number + 4]]) == (0, 0)
    assert sorted(told(study.state)) == list(range(12))
    assert study.state.rounds[0].counts.tolist() == [12] * 3


@pytest.mark.parametrize("same", [True, False])
def test_another_tells_between_reading_and_writing(study, url, tmp_path, monkeypatch, same):
    mine, other = results(tmp_path, 1), results(tmp_path, 1 if same else 2)
    append, turns = study.store.append, []

    def late(*words, **named):
        if not turns:
            turns.append(1)
            with load_study("s", url) as faster:
                faster.tell(other)
        return append(*words, **named)

    monkeypatch.setattr(study.store, "append", late)
    if same:
        with pytest.raises(InputError, match=r"1.csv"):
            study.tell(mine)
    else:
        study.tell(mine)
    assert told(study.state) == ([1] if same else [2, 1])


@pytest.mark.long
def test_two_tell_the_same_file_at_once(study, url, tmp_path, capfd):
    for number in range(5):
        file = results(tmp_path, number)
        assert sorted(at_once(url, [[file], [file]])) == [0, 2]
        assert re.search(rf"{number}.csv is already recorded as round 1 \(identical contents\)", capfd.readouterr().err)
        assert told(study.state) == list(range(number + 1))


def test_two_ask_at_once(study, url):
    study.tell(round_over="the first is of no interest")

    def work(acknowledge):
        with load_study("s", url) as mine:
            mine.ask()

    with child(work) as (one, _), child(work) as (two, _):
        assert (ended(one), ended(two)) == (0, 0)
    assert [asked.number for asked in study.state.rounds] == [1, 2]


def test_full_disk(tmp_path, capfd):
    """What a quota does: one sentence, and nothing of the file is recorded."""
    url = f"sqlite:///{tmp_path}/x.db"
    file = tmp_path / "large.csv"
    rows = np.random.default_rng(0).random(20_000)
    file.write_text("arm,outcome\n" + "".join(f"{'ab'[i % 2]},{x}\n" for i, x in enumerate(rows)))
    with create_study("s", question=BestArm(), arms=("a", "b"), noise=roundwise.Bounded(0, 1), storage=url) as study:
        study.ask()
        before = study.store.read("s")

    def work(acknowledge):
        with load_study("s", url) as mine:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
            try:
                mine.tell(file)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    with child(work) as (pid, _):
        assert ended(pid) == 2
    message = capfd.readouterr().err
    assert re.search(r"x.db (is full|refused)", message)
    assert message.count("\n") == 1
    with load_study("s", url) as study:
        assert study.store.read("s") == before
        assert study.tell(file).results == 20_000


def test_a_clock_that_goes_back(study, tmp_path, monkeypatch):
    class Yesterday(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(UTC) - timedelta(days=1)

    last = study.store.read("s")[-1].at
    monkeypatch.setattr(roundwise.store.database, "datetime", Yesterday)
    study.tell(results(tmp_path, 0))
    study.tell(results(tmp_path, 1))
    entries = study.store.read("s")
    assert [entry.seq for entry in entries] == [0, 1, 2, 3]
    assert all(entry.at == last for entry in entries[2:])  # the time stands still, the order is kept
    assert told(replay(entries)) == [0, 1]


@pytest.mark.long
def test_a_file_cut_anywhere(study, tmp_path):
    """Cut within a line it is refused, or read as what it says with a note; never a traceback."""
    whole = results(tmp_path, 1).read_bytes()
    outcomes = set()
    for length in range(len(whole)):
        cut = tmp_path / "7.csv"
        cut.write_bytes(whole[:length])
        before = study.state.seq
        try:
            report = study.tell(cut)
        except (DataError, InputError):
            assert study.state.seq == before
            outcomes.add("refused")
        else:
            ends_well = whole[:length].endswith(b"\n")
            assert ends_well or any("7.csv" in note for note in report.warnings)
            outcomes.add("recorded")
    assert outcomes == {"refused", "recorded"}


@pytest.mark.parametrize("seed", range(2))
def test_noise_instead_of_a_file(study, tmp_path, seed):
    noise = random.Random(seed)
    file = tmp_path / "noise.csv"
    for start in (b"", b"arm,outcome\n", b"PK\x03\x04", b"PAR1", b"\x1f\x8b"):
        file.write_bytes(start + noise.randbytes(3000))
        before = study.state.seq
        with pytest.raises(DataError, match="noise.csv"):
            study.tell(file)
        assert study.state.seq == before
