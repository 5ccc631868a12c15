"""The command line: a thin shell, one file a command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from roundwise.errors import RoundwiseError

app = typer.Typer(
    help="Find the best of several noisy options, in batches, with an error of at most delta.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from roundwise._version import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find the best of several noisy options, in batches, with an error of at most delta."""


def main() -> None:
    """Run the command line: a user's mistake is one sentence on standard error and exit code 2."""
    from roundwise.cli import (  # noqa: F401 - each registers its commands
        bounds,
        calibrate,
        complexity,
        paper,
        simulate,
        study,
        sweep,
    )

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
