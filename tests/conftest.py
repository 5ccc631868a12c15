"""Fixtures that many tests share."""

import os

import pytest

from commands import shell

os.environ.pop("COLUMNS", None)  # what commands print is not wrapped


@pytest.fixture
def roundwise(tmp_path, monkeypatch):
    """Run a command in an empty folder: its exit code, what it printed, and its errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUNDWISE_STORAGE", raising=False)

    def call(*words):
        found = shell(*words)
        return found.returncode, found.stdout, found.stderr

    return call
