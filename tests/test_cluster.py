"""Processes and a real dask cluster: the numbers of one core, whatever happens to the workers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from roundwise import PET, BestArm, GaussianArms, InputError, TrackAndStop, simulate
from roundwise.cli import main
from roundwise.environments import RandomGaps
from roundwise.simulation import workers as places

PAPER = GaussianArms(RandomGaps())
POLICIES = {"pet": PET(), "tas": TrackAndStop()}
LOOPBACK = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # None would still take port 8787
COLUMNS = ("samples", "batches", "decided", "answer", "correct", "complexity", "counts")


def same(ones, others):
    for one, other in zip(ones, others, strict=True):
        assert (one.policy, one.doubt, one.bound_for) == (other.policy, other.doubt, other.bound_for)
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture(scope="module", autouse=True)
def distributed():
    """The package, imported by the first test: every collection would take half a second longer."""
    return pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def local(distributed):
    """Two worker processes, everything on the loopback address."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **LOOPBACK) as cluster:
        yield cluster


@pytest.fixture
def client(local, distributed):
    with distributed.Client(local, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=300)
        yield client


def run(runs=20_500, **options):
    return simulate(BestArm(), PAPER, POLICIES, runs=runs, seed=7, keep_counts=True, **options)


@pytest.fixture(scope="module")
def alone():
    return run()


class TestTheNumbersOfOneCore:
    @pytest.mark.long
    def test_with_a_worker_killed_during_the_run(self, client, alone):
        before = client.run(os.getpid)
        victim = next(iter(before.values()))
        seen = []

        def progress(done):
            if not seen:
                os.kill(victim, signal.SIGKILL)
            seen.append(done)

        same(run(cluster=client, progress=progress), alone)
        assert sum(seen) == 2 * 20_500
        client.wait_for_workers(2, timeout=300)
        assert victim not in client.run(os.getpid).values()
        assert client.status == "running"  # a client that was given stays open

    def test_by_address(self, local, alone):
        same(run(cluster=local.scheduler_address), alone)

    def test_by_scheduler_file(self, local, tmp_path):
        path = tmp_path / "scheduler.json"
        path.write_text(json.dumps({"address": local.scheduler_address}))
        for where in (path, str(path)):
            same(run(500, cluster=where), run(500))

    def test_with_functions_that_only_a_cluster_can_take(self, client):
        def means(rng, runs):
            return rng.uniform(0, 1, (runs, 3)) + np.array([1.0, 0.0, 0.0])

        world = GaussianArms(means)
        (one,) = simulate(BestArm(), world, [PET()], runs=1500, cluster=client)
        (other,) = simulate(BestArm(), world, [PET()], runs=1500)
        np.testing.assert_array_equal(one.samples, other.samples)

    def test_with_processes(self, alone):
        same(run(workers=2), alone)

    def test_on_the_command_line(self, local, monkeypatch, capsys):
        words = ["roundwise", "simulate", "-q", "best-arm", "--means", "1,0", "--policy", "pet", "--runs", "1200"]
        found = []
        for more in ([], ["--cluster", local.scheduler_address]):
            monkeypatch.setattr(sys, "argv", [*words, "--json", *more])
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code == 0
            found.append(capsys.readouterr().out)
        assert found[0] == found[1]


class TestMistakes:
    def test_a_cluster_that_cannot_be_reached(self, monkeypatch, capsys):
        monkeypatch.setattr(places, "CONNECT", 0.5)
        words = "roundwise simulate -q best-arm --means 1,0 --cluster 127.0.0.1:9"
        monkeypatch.setattr(sys, "argv", words.split())
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code, out) == (2, "")
        assert err.startswith("roundwise: The cluster at 127.0.0.1:9 cannot be reached within 0.5 s")
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("where", "message"),
        [
            ("nonsense", "'nonsense'"),
            ("http://x:1", "unknown address scheme"),
            ("tls://127.0.0.1:9", "TLS"),
            ("nowhere.json", "nowhere.json"),
            (7, "`cluster` is a int"),
        ],
    )
    def test_what_is_no_cluster(self, where, message):
        with pytest.raises(InputError, match=message):
            run(10, cluster=where)

    def test_a_file_that_is_no_scheduler_file(self, tmp_path):
        (tmp_path / "a.json").write_text("[1]")
        with pytest.raises(InputError, match="scheduler"):
            run(10, cluster=tmp_path / "a.json")

    def test_workers_and_cluster_at_once(self):
        with pytest.raises(InputError, match="either `workers` or `cluster`"):
            run(10, workers=2, cluster="127.0.0.1:9")

    def test_a_closed_client(self, local, distributed):
        client = distributed.Client(local, set_as_default=False)
        client.close()
        with pytest.raises(InputError, match="closed"):
            run(10, cluster=client)

    def test_another_version_on_the_workers(self, client, monkeypatch):
        monkeypatch.setattr(places, "__version__", "0.0.0")
        with pytest.raises(places.ClusterError, match=r"but 0\.0\.0 is used here"):
            run(10, cluster=client)

    def test_what_is_not_installed_on_the_cluster(self, client, tmp_path, monkeypatch):
        (tmp_path / "only_here.py").write_text("def work(jobs):\n    return jobs\n")
        monkeypatch.syspath_prepend(tmp_path)
        import only_here

        with pytest.raises(places.ClusterError, match="'only_here'"):
            list(places.done(only_here.work, [1, 2], 2, cluster=client))
        assert len(client.nthreads()) == 2  # nobody was lost over it
        monkeypatch.setattr(places, "ASKED", "__import__('no_such_module')")
        with pytest.raises(places.ClusterError, match="'no_such_module'"):
            run(10, cluster=client)

    def test_what_cannot_be_sent(self, client):
        stuck = {"stuck": (x for x in ()).send}
        with pytest.raises(InputError, match="can be sent to another process"):
            run(10, cluster=client, watch=stuck)
        with pytest.raises(InputError, match="can be sent to another process"):
            run(2000, workers=2, watch={"local": lambda trial: trial.done})


class TestLosses:
    def test_a_cluster_without_workers(self, monkeypatch, distributed):
        """With a client that is connected already: a busy machine may take longer than `CONNECT` to answer."""
        monkeypatch.setattr(places, "PATIENCE", 0.5)
        with (
            distributed.LocalCluster(n_workers=0, **LOOPBACK) as empty,
            distributed.Client(empty, set_as_default=False, timeout=300) as idle,
            pytest.raises(places.ClusterError, match="has had no worker for"),
        ):
            run(10, cluster=idle)

    @pytest.mark.long
    def test_workers_that_come_late_are_used(self, monkeypatch, alone, distributed):
        monkeypatch.setattr(places, "RECENT", 0.0)
        with distributed.LocalCluster(n_workers=0, threads_per_worker=1, **LOOPBACK) as growing:
            threading.Timer(1.0, growing.scale, [2]).start()
            same(run(cluster=growing.scheduler_address), alone)

        class Client:
            threads = {}

            def nthreads(self):
                if self.threads is None:
                    raise OSError
                return self.threads

        client = Client()
        slots = places._count_threads(client)
        assert slots() == 2
        client.threads = {"a": 4, "b": 3}
        assert slots() == 7
        client.threads = None  # the connection is lost
        assert slots() == 7

    def test_a_late_worker_of_another_version_is_refused(self):
        with pytest.raises(places.ClusterError, match="cluster"):
            places._work_on("0.0.1", b"")

    @pytest.mark.long
    def test_a_scheduler_that_dies(self, tmp_path, monkeypatch, capfd):
        monkeypatch.setattr(places, "CONNECT", 3.0)
        path = tmp_path / "scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        scheduler = subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", path], **quiet
        )
        try:
            for _ in range(10_000):
                if path.exists() and path.read_text():
                    break
                time.sleep(0.1)
            worker = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", path, "--nthreads", "1",
                 "--host", "127.0.0.1", "--no-dashboard", "--no-nanny", "--local-directory", tmp_path],
                **quiet,
            )  # fmt: skip
            try:
                with pytest.raises(places.ClusterError, match="scheduler"):
                    run(100_000, cluster=path, progress=lambda done: scheduler.kill())
                assert "Traceback" not in capfd.readouterr().err
            finally:
                worker.kill()
                worker.wait()
        finally:
            scheduler.kill()
            scheduler.wait()

    def test_a_process_that_dies(self):
        with pytest.raises(places.ClusterError, match="A worker process was killed"):
            run(3000, workers=2, watch={"end": end_of_the_process})

    def test_no_process_outlives_a_killed_parent(self, tmp_path):
        program = (
            "import os, roundwise\n"
            "from tests_of_cluster import slow\n"
            "roundwise.simulate(roundwise.BestArm(), roundwise.GaussianArms([1, 0]), [roundwise.PET()],"
            " runs=100_000, workers=2, watch={'pid': slow})\n"
        )
        (tmp_path / "tests_of_cluster.py").write_text(
            "import os, pathlib, time\n"
            "import numpy as np\n"
            "def slow(trial):\n"
            "    pathlib.Path(f'pid-{os.getpid()}').touch()\n"
            "    time.sleep(0.05)\n"
            "    return np.zeros(trial.done.shape)\n"
        )
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        parent = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
        while len(pids := [int(each.name[4:]) for each in tmp_path.glob("pid-*")]) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        parent.kill()
        parent.wait()
        while any(alive(pid) for pid in pids):
            time.sleep(0.05)  # it waits as long as it takes: a process that stays hangs the test


def alive(pid):
    """Whether a process runs; one that ended but was not yet reaped does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def end_of_the_process(trial):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_distributed_is_imported_only_when_it_is_used():
    program = (
        "import sys, roundwise, roundwise.simulation.workers; "
        "sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
