"""Child processes for tests that kill them."""

import os
import struct
import warnings
from contextlib import contextmanager

from roundwise import RoundwiseError


@contextmanager
def child(work):
    """A process that runs work(acknowledge) and whose acknowledgements, whole numbers, can be read."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of BLAS, which the child does not use
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(source)
            work(lambda *numbers: os.write(sink, struct.pack(f"{len(numbers)}i", *numbers)))
            code = 0
        except RoundwiseError as error:
            os.write(2, f"{error}\n".encode())
            code = 2
        except BaseException as error:  # pytest's own traceback would be printed twice
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(sink)
    with open(source, "rb") as acknowledged:
        yield pid, acknowledged


def ended(pid):
    """The exit code, or minus the signal, with which it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
