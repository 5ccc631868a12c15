"""What can be known of a database file without opening it.

Nobody but SQLite may open the file, nor its -wal and -shm: closing any descriptor of a file drops all locks that the
process holds on it (POSIX), and those are what keeps another process from removing the log under an open store. A
look by name (`os.stat`) opens nothing.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from roundwise.errors import DataError, InputError, said
from roundwise.studies.store.address import Address
from roundwise.studies.store.errors import StoreError

Identity = tuple[int, int]  # device and inode

# Another machine takes part in these, and it sees neither the locks nor the shared memory of this one.
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|9p|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs|davfs\d?|ceph|lustre|gpfs|beegfs|glusterfs"
    r"|orangefs|pvfs2|ocfs2|gfs2|"
    r"fuse\.(sshfs|s3fs|goofys|gcsfuse|blobfuse\d?|rclone|davfs\d?|curlftpfs|glusterfs|ceph-fuse|ceph|smbnetfs|cifs|nfs"
    r"|juicefs|seaweedfs|weed|moosefs|mfs|lizardfs|hdfs|hadoop-hdfs|vmhgfs-fuse|grpcfuse|osxfs|gvfsd-fuse|google-drive"
    r"-ocamlfuse|onedriver|afp|httpfs\d?|keybase)"
)
SMALLEST = 512  # bytes in a page of SQLite; a file of one byte it would overwrite
MOUNTS = Path("/proc/self/mountinfo")  # Linux; elsewhere nothing is known of mounts


def identity(file: Path) -> Identity | None:
    """Which file the path leads to now, None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def beside(file: Path, ending: str) -> Path:
    """SQLite's own file next to a database."""
    return file.with_name(file.name + ending)


def room(address: Address, create: bool) -> None:
    """Raise an error where the file of a store cannot be, or is not there and may not be made."""
    file = address.file
    if file is None:
        return
    if not os.access(file.parent, os.X_OK) and file.parent.is_dir():
        raise StoreError(f"You may not look into the folder {file.parent}. Give yourself that right.")
    if file.is_dir():
        raise InputError(
            f"{address.place} is a folder. Give the name of a file in it: sqlite:///{address.place}/roundwise.db."
        )
    if not file.parent.is_dir():
        raise InputError(
            f"The folder {file.parent} does not exist, so {address.place} cannot be opened. "
            f"Create it (mkdir -p {file.parent}) or correct the storage URL."
        )
    if not file.exists():
        if not create:
            raise nothing_there(address)
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise StoreError(
                f"{address.place} cannot be created: you may not write to the folder {file.parent}. "
                "Give yourself that right, or choose another place."
            )
    else:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or 0 < found.st_size < SMALLEST:
            raise not_a_database(address)
        one_name(address)
    _local(address, file)


def one_name(address: Address) -> None:
    """Raise an error where a file has several names: SQLite keeps a log for each, and none sees the others'."""
    try:
        names = address.file.stat().st_nlink if address.file else 1
    except OSError:
        return  # it was moved or deleted, which is another matter
    if names > 1:
        raise StoreError(
            f"{address.place} has {names} names (hard links), and SQLite would keep a log of its own for each, "
            "so that results get lost. Nothing was changed; remove the other names (find / -samefile FILE lists them), "
            "or give a copy."
        )


def _local(address: Address, file: Path) -> None:
    """Raise an error where a file is on another machine, or is mounted without its folder."""
    where, kind = mount(file)
    if NETWORK.fullmatch(kind):
        raise StoreError(
            f"{address.place} is in a folder of the network ({where}, {kind}), where SQLite cannot keep processes "
            "apart and results get lost. Nothing was changed; give a file on a disk of this machine, or a PostgreSQL "
            "server (postgresql://user:password@host/database) to be reached from several."
        )
    if where == str(file):
        raise StoreError(
            f"{address.place} is mounted as a single file, so that its log (-wal) would be kept apart from it and get "
            f"lost. Nothing was changed; mount its folder {file.parent} instead."
        )


def mount(file: Path) -> tuple[str, str]:
    """Where the file system that holds a path is mounted, and its kind; empty where the system does not say."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, behind = before.split(" "), after.split(" ")
        if len(fields) < 5 or not behind[0]:
            continue
        where = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = str(file) == where or str(file).startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):  # of two at one place the later one is on top
            best, kind = where, behind[0]
    return best, kind


def not_a_database(address: Address) -> DataError:
    """The error for a file that is something else."""
    return DataError(f"{address.place} is not an SQLite database. Give another file for the studies of roundwise.")


def nothing_there(address: Address) -> InputError:
    """The error for a store that was never made."""
    where = address.file or address.place
    return InputError(
        f"There are no studies in {where} yet. {said('`create_study`', '`roundwise new`')} begins the first; if there "
        f"should be some, correct {said('`storage`', '--storage')} or ROUNDWISE_STORAGE."
    )
