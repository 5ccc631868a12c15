"""Fixtures that many tests share."""

import os
import shutil

import pytest

from commands import shell

os.environ.pop("COLUMNS", None)  # what commands print is not wrapped
MEMORY = "/dev/shm"
if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 4 << 30:  # bytes
    # a study waits for the disk half of the time; tests kill processes, not the machine, and memory survives that
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


@pytest.fixture
def roundwise(tmp_path, monkeypatch):
    """Run a command in an empty folder: its exit code, what it printed, and its errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)

    def call(*words):
        found = shell(*words)
        return found.returncode, found.stdout, found.stderr

    return call
