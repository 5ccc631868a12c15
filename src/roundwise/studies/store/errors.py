"""What a store raises.

RoundwiseError
├── InputError
│   ├── StudyExists    a new study under a name that is taken
│   ├── Untimely       what a study cannot take as it stands: no round is open, or it was recorded before
│   └── UnknownStudy   a name under which nothing is kept
├── DataError          a file or database that is not a store, or of a newer version
│   └── Damaged        a log or a file that is no longer as it was written
└── StoreError         the store cannot do it now: disk full, server away, file locked or not writable
    └── Conflict       somebody else wrote first
"""

# ruff: noqa: N818 - the names say what happened

from __future__ import annotations

from roundwise.errors import DataError, InputError, RoundwiseError


class StudyExists(InputError):
    """A new study under a name that is taken."""


class Untimely(InputError):
    """What a study cannot take as it stands: no round is open, or it was recorded before."""


class UnknownStudy(InputError):
    """A name under which nothing is kept."""


class Damaged(DataError):
    """A log or a file that is no longer as it was written."""


class StoreError(RoundwiseError):
    """The store cannot do it now: disk full, server away, file locked or not writable."""


class Conflict(StoreError):
    """Somebody else wrote first; nothing was changed."""
