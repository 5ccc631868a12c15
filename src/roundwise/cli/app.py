"""The command line itself; each command registers with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

# the groups of commands in the help, in the order in which they are registered
STUDIES, PLANNING, RESEARCH = "Studies", "Planning", "Research"

app = typer.Typer(
    help="Find the best of several noisy options, in rounds, with an error of at most delta.",
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
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--own",
            help="A Python module of yours whose classes studies may use; repeatable.",
            envvar="ROUNDWISE_OWN",
            metavar="MODULE",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="The file with your token, for a storage http://...; or ROUNDWISE_TOKEN, ROUNDWISE_TOKEN_FILE.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Find the best of several noisy options, in rounds, with an error of at most delta."""
    if token_file is not None:
        os.environ["ROUNDWISE_TOKEN_FILE"] = str(token_file)
        os.environ.pop("ROUNDWISE_TOKEN", None)  # what is said here goes before
    if own:
        from roundwise.spec import imported

        for module in own:
            imported(module)
