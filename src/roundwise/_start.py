"""Ctrl-C ends the command line without a word until `cli.loaded`; programs that import us are left alone."""

from __future__ import annotations

import signal
import sys
import threading


def loading() -> None:
    """Let Ctrl-C end the process at once, if this is the command `roundwise` or `python -m roundwise`."""
    words = sys.orig_argv
    file = words[1].replace("\\", "/").rpartition("/")[2] if len(words) > 1 else ""
    named = file.removesuffix(".exe") == "roundwise"
    module = "-m" in words and words[words.index("-m") + 1 :][:1] == ["roundwise"]
    ours = (named or module) and threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
