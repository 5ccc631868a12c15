"""A disk that fails at the n-th call: SQLite lets its system calls be replaced (xSetSystemCall), for tests like these.

To be used in a child process: what is replaced stays so. Where Python carries SQLite inside itself, there is no way in,
and `reachable` is false.
"""

import _sqlite3
import ctypes
import errno

_INT, _VOID = ctypes.c_int, ctypes.c_void_p


class _Vfs(ctypes.Structure):
    _fields_ = [
        *((name, _INT) for name in ("iVersion", "szOsFile", "mxPathname")),
        *((name, _VOID) for name in ("pNext", "zName", "pAppData")),
        *((f"x{i}", _VOID) for i in range(13)),  # xOpen to xCurrentTimeInt64
        ("xSetSystemCall", ctypes.CFUNCTYPE(_INT, _VOID, ctypes.c_char_p, _VOID)),
        ("xGetSystemCall", ctypes.CFUNCTYPE(_VOID, _VOID, ctypes.c_char_p)),
    ]


_LONG = ctypes.c_long  # wide enough for every argument
CALLS = {  # number of arguments
    "open": 3, "ftruncate": 2, "fcntl": 3, "pread64": 4, "pread": 4, "pwrite64": 4, "pwrite": 4, "unlink": 1,
    "fstat": 2, "mmap": 6, "fchmod": 2,
}  # fmt: skip
_kept = []  # callbacks that SQLite holds


def _vfs():
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    return library.sqlite3_vfs_find(None)


def reachable():
    """Whether system calls of SQLite can be replaced."""
    try:
        return bool(_vfs().contents.xGetSystemCall(_vfs(), b"open"))
    except (AttributeError, OSError):
        return False


class Failing:
    """Counts the calls that SQLite makes; the n-th one fails, and with `for_good` all after it."""

    def __init__(self, n, code=errno.EIO, for_good=False, only=None):
        self.n, self.code, self.for_good, self.calls = n, code, for_good, 0
        self.only = set(only or CALLS)
        vfs = _vfs()
        for name in sorted(self.only):
            real = vfs.contents.xGetSystemCall(vfs, name.encode())
            if real:
                kind = ctypes.CFUNCTYPE(_LONG, *[_LONG] * CALLS[name], use_errno=True)
                replaced = kind(self._instead(name, kind(real)))
                _kept.append(replaced)
                vfs.contents.xSetSystemCall(vfs, name.encode(), ctypes.cast(replaced, _VOID))

    def _instead(self, name, real):
        def call(*words):
            self.calls += 1
            if self.calls == self.n or (self.for_good and self.calls > self.n > 0):
                ctypes.set_errno(self.code)
                return -1
            return real(*words)

        return call
