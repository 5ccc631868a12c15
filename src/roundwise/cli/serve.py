"""`roundwise serve`: the page and the API."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import tempfile
import webbrowser
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roundwise.cli import STUDIES, app
from roundwise.cli.options import option
from roundwise.cli.output import say
from roundwise.cli.study.rounds import Storage
from roundwise.errors import DataError, InputError

if TYPE_CHECKING:
    from roundwise.web.app import Application

NEEDED = ("uvicorn", "starlette", "fastapi", "jinja2", "python_multipart")  # what the extra has


@app.command(rich_help_panel=STUDIES)
def serve(
    storage: Storage = None,
    host: Annotated[
        str, option("--host", "Address to listen on; any other than localhost requires tokens.", "ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", "Port; 0 picks a free one.", "NUMBER", min=0, max=65535)] = 8000,
    name: Annotated[list[str] | None, option("--name", "Host name of the server; repeatable.", "HOST")] = None,
    tokens: Annotated[
        Path | None, option("--tokens", "File of lines ROLE=TOKEN (view, upload, manage); or ROUNDWISE_TOKENS.", "FILE")
    ] = None,
    example: Annotated[bool, option("--example", "Serve example studies from a temporary storage.")] = False,
    open_: Annotated[bool, option("--open", "Open the page in a browser.")] = False,
    as_json: Annotated[bool, option("--json", "Print the address as one line of JSON.")] = False,
) -> None:
    """Serve the web page and the REST API: plan, run and watch studies in a browser or from a service."""
    missing = [each for each in NEEDED if find_spec(each) is None]
    if missing:
        raise InputError(f"The page needs the extra 'serve' ({missing[0]} is missing): pip install 'roundwise[serve]'.")
    with ExitStack() as stack:
        gc.disable()  # objects imported before it listens never become garbage
        stack.callback(gc.enable)
        from roundwise.store import open_store
        from roundwise.web.app import Application
        from roundwise.web.connections import open_socket
        from roundwise.web.security import build_access

        access = build_access(host, name or [], _tokens(tokens))
        if example:
            if storage is not None:
                raise InputError("--example has its own storage. Leave out --storage.")
            from roundwise.web.example import example_studies

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="roundwise-"))
            storage = f"sqlite:///{Path(folder) / 'example.db'}"
            example_studies(storage)
        store = open_store(storage)
        stack.callback(store.close)
        if store.server is not None:
            raise InputError(
                "A server keeps its studies in a database, not on another server. Give --storage sqlite:///... or "
                "postgresql://...; nothing was started."
            )
        _served(Application(storage, access), host, stack.enter_context(open_socket(host, port)), open_, as_json)


def _served(application: Application, host: str, at: socket.socket, open_: bool, as_json: bool) -> None:
    import uvicorn

    from roundwise.web.app import ready, warmed
    from roundwise.web.connections import configure_server

    # what goes wrong in a request is logged by the application
    config = configure_server(application, log_level="critical", timeout_graceful_shutdown=2)
    ready()
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # what listens everywhere is also reached from here
    shown = f"[{here}]" if ":" in here else here
    address = f"http://{shown}:{at.getsockname()[1]}"
    if as_json:
        say(json.dumps({"page": address, "api": f"{address}/api/v1"}))
    else:
        say(f"The page is at {address} and the API at {address}/api/v1; press Ctrl+C to stop.")
    if open_:
        webbrowser.open(address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended as by Ctrl+C, so that nothing is left behind
    gc.freeze()
    gc.enable()
    with warmed(application):
        uvicorn.Server(config).run(sockets=[at])


def _tokens(path: Path | None) -> str:
    """Tokens from a file or the environment; never from the command line, which others can see."""
    if path is None:
        return os.environ.get("ROUNDWISE_TOKENS", "")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as a file of tokens ({error}).") from None
