"""The command line: a thin shell, one file a command."""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from roundwise.cli.app import app
from roundwise.errors import RoundwiseError


def main() -> None:
    """Run the command line: a user's mistake is one sentence on standard error and exit code 2."""
    for name in ("study", "complexity", "simulate", "bounds", "sweep", "calibrate", "paper"):
        import_module(f"roundwise.cli.{name}")  # registers its commands, in the order of the help
    if "" not in sys.path:
        sys.path.append("")  # modules of the user's own, where the command is run
    try:
        code = app(prog_name="roundwise", standalone_mode=False)
    except RoundwiseError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'A file'}: {error.strerror or error}.")
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Typer's usage errors have no common public class across its versions; they all format themselves
        if not hasattr(error, "format_message"):
            raise
        fail(error.format_message() or "Give a command; `roundwise --help` lists them.")
    sys.exit(code if isinstance(code, int) else 0)


def fail(sentence: str) -> None:
    """Say what is wrong and leave with exit code 2."""
    print(f"roundwise: {sentence}", file=sys.stderr)
    sys.exit(2)
