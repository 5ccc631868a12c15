"""The report as a PDF: the page, printed by a browser that is on this machine, without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from roundwise.errors import InputError
from roundwise.studies.report.model import Facts
from roundwise.studies.report.page import page_of

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
PATIENCE = 120  # seconds
MARK = b"% a report of roundwise\n"  # a comment behind the end, by which we know what we wrote


def pdf_of(report: Facts) -> bytes:
    """The page of a report as a PDF."""
    found = browser()
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        page, target = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(page_of(report), encoding="utf-8")
        command = [found, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no sandbox
        command += ["--no-pdf-header-footer", f"--print-to-pdf={target}", page.as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
            return target.read_bytes().rstrip(b"\n") + b"\n" + MARK
        except (OSError, subprocess.SubprocessError) as error:
            kind = "did not end" if isinstance(error, subprocess.TimeoutExpired) else "failed"
            raise InputError(
                f"{found} {kind} when it was to print the report. Write it as .html, and print that from a browser."
            ) from None


def browser() -> str:
    """A browser that can print without a window."""
    for name in BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise InputError(
        "A PDF is printed by a browser, and neither Chromium, Chrome nor Edge was found on this machine. Install one, "
        "or write the report as .html and print that."
    )
