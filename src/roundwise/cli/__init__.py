"""The command line: a thin shell, one file a command, which registers with the app."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from roundwise.cli.output import UnprintedError, take_recorded
from roundwise.errors import RoundwiseError
from roundwise.messages import LONGEST, Surface, few, keep_flags, rendering_for, visible
from roundwise.model.spec import import_module as import_user_module

COMMANDS = ("study", "serve", "plan", "bounds", "simulate", "experiments")  # in the order of the help
OWN = "ROUNDWISE_OWN"  # modules of the user's own classes, apart by blanks
HELP = ["-h", "--help"]
INTERRUPTED = 130  # 128 and the number of the signal, as shells have it

# the groups of commands in the help, in the order in which they are registered
STUDIES, PLANNING, RESEARCH = "Studies", "Planning", "Research"

app = typer.Typer(
    help="Find the best of several noisy options, in rounds, with an error probability of at most delta.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
)


def _version(wanted: bool) -> None:
    if wanted:
        from roundwise._version import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option("--own", help="Python module of your own classes; repeatable.", envvar=OWN, metavar="MODULE"),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help="File of your token for an http storage; or ROUNDWISE_TOKEN(_FILE).", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Find the best of several noisy options, in rounds, with an error probability of at most delta."""
    if token_file is not None:
        os.environ["ROUNDWISE_TOKEN_FILE"] = str(token_file)
        os.environ.pop("ROUNDWISE_TOKEN", None)  # the option takes precedence
    for module in own or ():
        import_user_module(module)
    keep_modules(own or ())


def keep_modules(modules: Iterable[str]) -> None:
    """Let the commands in messages import these modules, unless ROUNDWISE_OWN does."""
    known = os.environ.get(OWN, "").split()
    keep_flags(own="".join(f"--own {each} " for each in dict.fromkeys(modules) if each not in known))


def main() -> None:
    """Run the command line: a user's mistake is one sentence on standard error and exit code 2."""
    with rendering_for(Surface.SHELL):
        copy_context().run(_main)


def _main() -> None:
    take_recorded()
    if "" not in sys.path:
        sys.path.append("")  # modules of the user's own, where the command is run
    try:
        loaded()
        code = commands()(prog_name="roundwise", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except RoundwiseError as error:
        fail(str(error))
    except UnprintedError as error:
        unprinted(error)
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO):  # of standard output
            unprinted(error)
        fail(f"{error.filename or 'A file'}: {error.strerror or error}.")
    except (typer.Abort, KeyboardInterrupt):
        leave(INTERRUPTED, "interrupted")
    except Exception as error:
        # Typer's usage errors have no common public class across its versions; they all format themselves
        if not hasattr(error, "format_message"):
            raise
        fail(misused(error.format_message(), getattr(getattr(error, "ctx", None), "command_path", "roundwise COMMAND")))
    if code == INTERRUPTED:  # how newer versions of Typer say it
        leave(INTERRUPTED, "interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def loaded() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, so that the command can report what was recorded."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def commands() -> Callable[..., object]:
    """All commands; built once per process, because that takes longer than most of them."""
    for name in COMMANDS:
        import_module(f"roundwise.cli.{name}")  # registers what it has
    found = typer.main.get_command(app)
    for each in (found, *getattr(found, "commands", {}).values()):
        help_option = each.get_help_option(typer.Context(each, help_option_names=HELP))
        for option in each.params if help_option is None else [*each.params, help_option]:
            if getattr(option, "is_flag", False):
                option.metavar = ""  # a flag takes no value, whatever the help of some versions of Typer says
    return found


def misused(found: str, command: str) -> str:
    """What is wrong with a command, in Typer's words, and what to do if they do not say."""
    if not found:
        return "Give a command; `roundwise --help` lists them."
    if flag := re.match(r"No such option: (--[\w-]+)", found):
        listed = getattr(commands(), "commands", {}).items()
        others = [name for name, each in listed if any(flag[1] in option.opts for option in each.params)]
        if others:
            owners = few([f"`roundwise {each}`" for each in others])
            return f"`{command}` has no option {flag[1]}; it is one of {owners}."
    if any(each in found for each in ("Did you mean", "Possible options", "Invalid value")):
        return found
    blanks = " Quote arguments that contain blanks;" if "unexpected extra argument" in found else ""
    return f"{found.rstrip('.')}.{blanks} `{command} --help` lists the options."


def fail(sentence: str) -> NoReturn:
    """Print the error and exit with code 2, or 3 if something was recorded before."""
    done = take_recorded()
    complain(sentence if done is None else f"{done}, but: {sentence}")
    sys.exit(2 if done is None else 3)


def unprinted(error: Exception) -> NoReturn:
    """Standard output is full or closed: what was recorded stays recorded, and it is not the user's error."""
    why = getattr(error, "strerror", None) or str(error) or "it is closed"
    if sys.stdout is not None:  # its buffer would only raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    quiet = isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError)
    leave(141 if quiet else 1, f"could not print ({why})", quiet)


def leave(code: int, why: str, quiet: bool = True) -> NoReturn:
    """Exit early; if something was recorded before, report it, with exit code 3."""
    done = take_recorded()
    if done is not None:
        complain(f"{done}, but {why}.")
        sys.exit(3 if code != INTERRUPTED else code)
    if not quiet:
        complain(f"{why}.")
    sys.exit(code)


def complain(sentence: str) -> None:
    """A sentence on standard error, if that can be written to; nothing in it can steer the terminal."""
    with suppress(OSError, ValueError):
        said = f"roundwise: {visible(sentence, LONGEST)}"
        if sys.stderr.isatty():
            from roundwise.report.text import wrap_text

            said = wrap_text(said, shutil.get_terminal_size().columns)
        print(said, file=sys.stderr, flush=True)
