"""Where work is done: on several processes of this machine, or on a dask cluster that is already running.

Work is a pure function of its job, so it may be done anywhere, in any order, and again after a machine was lost: the
results are the same. Jobs are sent in bundles that last about half a second, and only a few bundles at a time, so
that millions of jobs need neither memory nor patience. `distributed` is imported only when a cluster is used.
"""

from __future__ import annotations

import json
import logging
import math
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from roundwise._version import __version__
from roundwise.errors import InputError, RoundwiseError

if TYPE_CHECKING:
    from distributed import Client

    Cluster = str | Path | Client

Connection = Any  # a client of `distributed`, many of whose functions have no types
Job = TypeVar("Job")
Made = TypeVar("Made")

LASTS = 0.5  # seconds a bundle should take: far more than the 2-3 ms that sending it costs
MOST = 64  # jobs in a bundle
CONNECT = 10.0  # seconds to wait for the scheduler of a cluster
RECENT = 2.0  # seconds for which the number of workers is taken as known
PATIENCE = 60.0  # seconds to wait for a cluster without any worker
ASKED = "__import__('roundwise').__version__"  # of scheduler and workers


class ClusterError(RoundwiseError):
    """A cluster or a worker process that stopped working; what was asked for was right."""


class Place(NamedTuple):
    """Somewhere to send work."""

    executor: Executor
    slots: Callable[[], int]  # how many bundles are worked on at once: workers come and go
    pickle: Callable[[object], bytes]  # how a bundle is pickled: here, so that no worker chokes on what it cannot read
    check: Callable[[], None]  # raises a ClusterError if there are no workers


def done(
    work: Callable[[list[Job]], list[Made]],
    jobs: Iterable[Job],
    number: int,
    workers: int = 1,
    cluster: Cluster | None = None,
) -> Iterator[tuple[int, Made]]:
    """Yield the place and result of each of `number` jobs, as they finish.

    `work` is called with some jobs at a time and returns one result for each. Every slot is kept busy with one bundle
    under way and one waiting.
    """
    numbered = iter(enumerate(jobs))
    finished: SimpleQueue[Future[tuple[float, bytes]]] = SimpleQueue()
    flying: set[Future[tuple[float, bytes]]] = set()
    size, sent = 1, 0
    with _processes(min(workers, number)) if cluster is None else _on_cluster(cluster) as place:
        try:
            while True:
                most = 2 * place.slots()
                while len(flying) < most:
                    share = (number - sent) // most  # towards the end small bundles, so that all end together
                    bundle = list(islice(numbered, max(1, min(size, share))))
                    if not bundle:
                        break
                    sent += len(bundle)
                    try:
                        packed = place.pickle((work, bundle))
                    except (TypeError, AttributeError, pickle.PicklingError):
                        raise InputError(
                            "`workers` and `cluster` need means, policies and watches that can be sent to another "
                            "process."
                        ) from None
                    future = place.executor.submit(_work_on, __version__, packed)
                    flying.add(future)
                    future.add_done_callback(finished.put)
                if not flying:
                    return
                try:
                    future = finished.get(timeout=PATIENCE)
                except Empty:
                    place.check()
                    continue
                flying.remove(future)
                seconds, packed = future.result()
                results: list[tuple[int, Made]] = pickle.loads(packed)
                size = max(1, min(MOST, 2 * size, int(LASTS * len(results) / max(seconds, 1e-9))))
                yield from results
        finally:
            for future in flying:
                future.cancel()


def _work_on(version: str, packed: bytes) -> tuple[float, bytes]:
    """Runs where the work is done: how long it took, and the results with the places of their jobs, pickled."""
    if version != __version__:  # a worker that came after `_check_versions`
        raise _other_version(__version__, version)
    work, bundle = pickle.loads(packed)
    start = time.perf_counter()
    results = list(zip([place for place, _ in bundle], work([job for _, job in bundle]), strict=True))
    return time.perf_counter() - start, pickle.dumps(results, protocol=pickle.HIGHEST_PROTOCOL)


@contextmanager
def _processes(number: int) -> Iterator[Place]:
    pool = ProcessPoolExecutor(number, initializer=follow_parent)
    try:
        yield Place(pool, lambda: number, pickle.dumps, lambda: None)
    except BrokenProcessPool:
        raise ClusterError(
            "A worker process was killed, perhaps because memory ran out; try fewer `workers`, or a cluster, "
            "which repeats what is lost."
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def follow_parent() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end when it ends, even if it is killed."""
    import multiprocessing
    import os
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def connected(cluster: Cluster) -> Iterator[Connection]:
    """A client of the cluster: of an address or a scheduler file, or the client itself.

    A client opened here is closed at the end; a client that was given stays open.
    """
    try:
        import distributed
    except ImportError:
        raise InputError("A cluster needs the extra 'cluster': pip install 'roundwise[cluster]'.") from None
    kind: Connection = distributed.Client
    if isinstance(cluster, kind):
        if cluster.asynchronous:
            raise InputError("`cluster` is an asynchronous client; make one with `Client(address)`.")
        if cluster.status != "running":
            raise InputError(f"`cluster` is a client that is {cluster.status}; make a new one.")
        yield cluster
        return
    if not isinstance(cluster, str | Path):
        raise InputError(
            f"`cluster` is a {type(cluster).__name__}, but must be an address, a scheduler file "
            "or a distributed Client."
        )
    address = _scheduler_address(cluster)
    with _silence("distributed", "tornado"):
        try:
            client = kind(address, timeout=CONNECT, set_as_default=False)
        except OSError:
            raise InputError(
                f"The cluster at {address} cannot be reached within {CONNECT:g} s: is its scheduler running, "
                "and does this machine see it?"
            ) from None
        except (ValueError, TypeError, RuntimeError) as error:
            raise InputError(
                f"The cluster '{address}' cannot be used: {str(error).rstrip('.')}. "
                "Give the address of a dask scheduler, such as tcp://10.0.0.1:8786, or its scheduler file."
            ) from None
        try:
            yield client
        finally:
            client.close()


@contextmanager
def _silence(*families: str) -> Iterator[None]:
    """Keep libraries from printing tracebacks of errors that we report in a sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in families]
    loggers = [each for each in map(logging.getLogger, names) if not each.disabled]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each in loggers:
            each.disabled = False


def _scheduler_address(cluster: str | Path) -> str:
    """The address itself, or the one that is written in a scheduler file."""
    path = Path(cluster)
    if isinstance(cluster, str) and not path.is_file() and path.suffix != ".json":
        if ":" not in cluster:
            raise InputError(
                f"'{cluster}' is neither an address of a dask scheduler, such as tcp://10.0.0.1:8786, "
                "nor a scheduler file."
            )
        return cluster
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except OSError as error:
        raise InputError(f"{path}: the scheduler file cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not a scheduler file, the one that `dask scheduler --scheduler-file` writes."
        ) from None


@contextmanager
def _on_cluster(cluster: Cluster) -> Iterator[Place]:
    with connected(cluster) as client:
        from distributed import KilledWorker
        from distributed.protocol.pickle import dumps

        lost = ClusterError("The connection to the scheduler of the cluster was lost.")

        def check() -> None:
            if client.status != "running":
                raise lost
            if not client.nthreads():
                raise ClusterError(
                    f"The cluster at {client.scheduler.address} has had no worker for {PATIENCE:g} s: start some."
                )

        _check_versions(client)
        executor = client.get_executor(pure=False)
        try:
            yield Place(executor, _count_threads(client), dumps, check)
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers of the cluster died during the same piece of work, perhaps "
                "because memory ran out; on machines that come and go, raise `distributed.scheduler.allowed-failures`."
            ) from None
        except CancelledError:
            raise lost from None
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"The workers of the cluster lack the module '{error.name}': install it there too."
            ) from None
        finally:
            executor.shutdown(wait=False)


def _count_threads(client: Connection) -> Callable[[], int]:
    """How many threads the workers have, asked again when the last answer is old."""
    known, asked = 0, -math.inf

    def now() -> int:
        nonlocal known, asked
        if time.monotonic() > asked + RECENT:
            with suppress(OSError, TimeoutError):  # a lost connection is noticed by the futures
                known = sum(client.nthreads().values())
            asked = time.monotonic()
        return max(2, known)

    return now


def _check_versions(client: Connection) -> None:
    """Raise a ClusterError unless scheduler and workers have this roundwise: numbers are the same only with it.

    A worker that is sent code that it cannot import gives up altogether, so the question needs no import.
    """
    try:
        found = [client.run_on_scheduler(eval, ASKED), *client.run(eval, ASKED).values()]
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"The cluster lacks '{error.name}': install roundwise {__version__} on its scheduler and workers."
        ) from None
    for version in found:
        if version != __version__:
            raise _other_version(version, __version__)


def _other_version(there: str, here: str) -> ClusterError:
    return ClusterError(
        f"The cluster has roundwise {there}, but {here} is used here; numbers are the same only with the same version."
    )
