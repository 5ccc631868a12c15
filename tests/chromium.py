"""The browser of the tests: Debian's chromium, without a window, through playwright."""

import shutil
from contextlib import contextmanager

MISSING = (
    "The tests of the page need chromium and playwright: `apt-get install --no-install-recommends chromium` (Debian, "
    "Ubuntu) and `pip install playwright`; `make long` does both where it may. ROUNDWISE_BROWSER=skip leaves them out."
)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def found():
    """Where the browser is, or None."""
    return next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)


@contextmanager
def browser():
    """A browser, for as many tests as there are."""
    from playwright.sync_api import sync_playwright

    path = found()
    if path is None:
        raise RuntimeError(MISSING)
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=list(QUIET))
        try:
            yield running
        finally:
            running.close()
