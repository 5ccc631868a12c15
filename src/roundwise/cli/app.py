"""The command line itself; each command registers with it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

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


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes groups of options (named tuples of them): each option stands where its group does."""
    options = _options(command)

    @wraps(command)
    def called(**given: Any) -> None:
        command(**_filled(command, given))

    called.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: each.annotation for name, each in options.items()}
    return called


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of what a function takes, evaluated."""
    hints = get_type_hints(function, include_extras=True)
    return {name: hints[name] for name in inspect.signature(function).parameters}


def _options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options of a command or a group by name, those of groups among them, all to be given by name."""
    found: dict[str, inspect.Parameter] = {}
    parameters = inspect.signature(function).parameters
    for name, hint in _hints(function).items():
        own = {name: parameters[name].replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)}
        found |= _options(hint) if hasattr(hint, "_fields") else own
    return found


def _filled(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """What a command or a group takes, of the options that were given."""
    return {
        name: hint(**_filled(hint, given)) if hasattr(hint, "_fields") else given[name]
        for name, hint in _hints(function).items()
    }
