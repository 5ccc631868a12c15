"""Races in Inspect; the cases are in inspect_races.py."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="needs inspect_ai")
def test_races(tmp_path):
    script = Path(__file__).with_name("inspect_races.py")
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
