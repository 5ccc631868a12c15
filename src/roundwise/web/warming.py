"""What is done while nobody asks for anything: imports and templates for which the first to ask would have to wait."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from roundwise.web.app import Application
from roundwise.web.rendering import ENVIRONMENT

QUIET = 0.3  # seconds without a request, before each step

PAGES = ("base", "macros", "headline", "option", "stands", "study")  # what a study is shown with
NEEDED = ("scipy.special", "roundwise.planning")  # by the first result, and by the first forecast


def ready() -> None:
    """What is done before a server listens, so that the first page is as quick as any."""
    for each in PAGES:
        ENVIRONMENT.get_template(f"{each}.html")


@contextmanager
def warmed(app: Application) -> Iterator[None]:
    """Get an application ready beside its work, a step at a time, each when it has been quiet for a while."""
    over = threading.Event()
    app.state.doors.answered = time.monotonic()  # it begins to listen
    thread = threading.Thread(target=_warm, args=(app, over), name="warming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def steps(app: Application) -> Iterator[Callable[[], object]]:
    """What can be done beforehand, the most likely first."""
    yield from (partial(import_module, each) for each in NEEDED)
    yield from (app.planner.found, app.api.found, app.lab.found)
    yield from (partial(ENVIRONMENT.get_template, each) for each in ENVIRONMENT.list_templates(["html"]))


def _warm(app: Application, over: threading.Event) -> None:
    for step in steps(app):
        while not over.is_set() and (left := QUIET - app.state.doors.quiet()) > 0:
            over.wait(left)
        if over.is_set():
            return
        step()
    gc.freeze()  # none of it is ever rubbish
