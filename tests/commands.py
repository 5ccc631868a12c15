"""Commands as a user types them, in the process of the test: a process of its own takes longer than most commands."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from roundwise.cli import main


def shell(*words):
    """A command in the present folder: what it returned and printed."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["roundwise", *map(str, words)]),
        redirect_stdout(out),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return SimpleNamespace(returncode=ended.value.code, stdout=out.getvalue(), stderr=errors.getvalue())
