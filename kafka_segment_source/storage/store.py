"""Where files are: the few operations that this package asks of a file system, and the local one.

Everything that opens, lists or asks for a file goes through `STORAGE`. Another `Storage` in its place (the simulated
broker of the tests, an object store) needs to know only what this page says. Input is opened for reading only; what is
written is a whole file, in a directory that the user named.

Errors are the system's own (`OSError`); `files.py` turns them into this package's.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
import uuid
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol

_LARGEST_LONG = 2**63 - 1


class Kind(Enum):
    """What a name in a directory stands for. A link counts as what it leads to; BROKEN_LINK leads to nothing."""

    FILE = "a regular file"
    DIRECTORY = "a directory"
    BROKEN_LINK = "a link to nothing"
    OTHER = "neither a file nor a directory, but a pipe, a socket or a device"


class FileVersion(NamedTuple):
    """What the file system says of one state of a file: bytes, inode, and when either was last changed (ctime, ns)."""

    size: int
    inode: int
    changed: int


NO_VERSION = FileVersion(0, 0, 0)
"""Of what is not a file."""


class Entry(NamedTuple):
    """One name in a directory, or at the end of a path."""

    name: str
    kind: Kind
    version: FileVersion = NO_VERSION

    @property
    def size(self) -> int:
        """Bytes of a file; 0 of anything else."""
        return self.version.size


Entries = list[Entry]
Paths = list[str]


class VanishedError(OSError):
    """A name was gone from a directory before its size was read: list again."""


class OpenFile(Protocol):
    """A file open for reading. It stays what it was when it was opened, whatever its name comes to stand for."""

    def read_at(self, position: int, count: int) -> bytes:
        """At most `count` bytes from `position`; fewer at the end of the file only."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Fills `target` from `position` as far as the file goes; answers how many bytes that was."""

    def version(self) -> FileVersion:
        """The state of the open file now."""

    def close(self) -> None:
        """Ends reading."""


class Storage(Protocol):
    """A file system. Paths are absolute."""

    def look_at(self, path: str) -> Entry | None:
        """What is at a path; None if nothing is."""

    def list(self, directory: str) -> Entries:
        """What is in a directory, by names that are text; all names are read before any size is. Empty if it is gone.

        A file that is renamed meanwhile may be missing under both names: where a name was gone before its size was
        read, the answer is VanishedError.
        """

    def glob(self, pattern: str) -> Paths:
        """The paths that match a pattern, in order."""

    def read_link(self, path: str) -> str:
        """Where a link leads, as it says."""

    def open(self, path: str) -> OpenFile:
        """Opens a regular file. FileNotFoundError if nothing is there; OSError for anything that is no regular file."""

    def replace(self, path: str, data: bytes) -> None:
        """Replaces a file atomically, or makes it, with its directory. Readers see the old file or the
        new one, never a part."""


class LocalStorage:
    """Files of this machine, or mounted on it."""

    def look_at(self, path: str) -> Entry | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Entry(os.path.basename(path), Kind.BROKEN_LINK) if os.path.islink(path) else None
        return _entry(os.path.basename(path), found)

    def list(self, directory: str) -> Entries:
        # A broker that rolls closes one file before it makes the next: all names first, so that a file with a follower
        # is listed with all its bytes.
        try:
            with os.scandir(directory) as listing:
                children = list(listing)
        except FileNotFoundError:
            return []
        entries: Entries = []
        for child in children:
            if not child.name.isascii() and not _is_text(child.name):
                continue
            try:
                entries.append(_entry(child.name, child.stat()))
            except (FileNotFoundError, NotADirectoryError) as error:
                if not os.path.islink(child.path):
                    raise VanishedError(f"{child.path!r} vanished while its directory was listed") from error
                entries.append(Entry(child.name, Kind.BROKEN_LINK))
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                entries.append(Entry(child.name, Kind.BROKEN_LINK))
        return entries

    def glob(self, pattern: str) -> Paths:
        return sorted(glob.glob(pattern))

    def read_link(self, path: str) -> str:
        return os.readlink(path)

    def open(self, path: str) -> OpenFile:
        return _LocalFile(path)

    def replace(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = os.path.join(os.path.dirname(path), f".kafkaseg-{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


class _LocalFile:
    """One file descriptor."""

    def __init__(self, path: str) -> None:
        # O_NONBLOCK: a pipe without a writer must not keep the reader waiting. It changes nothing for regular files.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        mode = os.fstat(self._descriptor).st_mode
        if not stat.S_ISREG(mode):
            self.close()
            raise OSError(f"it is {_kind(mode).value}, not {Kind.FILE.value}")

    def read_at(self, position: int, count: int) -> bytes:
        self._check_open()
        data = os.pread(self._descriptor, count, position)
        if not 0 < len(data) < count:
            return data
        parts = [data]  # the end of the file, or a signal, or more than one call can give
        done = len(data)
        while done < count and (data := os.pread(self._descriptor, count - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def read_into(self, position: int, target: memoryview) -> int:
        self._check_open()
        done = 0
        while done < len(target):
            count = os.preadv(self._descriptor, [target[done:]], position + done)
            if not count:
                break
            done += count
        return done

    def version(self) -> FileVersion:
        return _version(os.fstat(self._descriptor))

    def _check_open(self) -> None:
        if self._descriptor < 0:
            raise ValueError("the file is closed")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _entry(name: str, found: os.stat_result) -> Entry:
    # as few calls as can be: a directory may hold a million names
    if stat.S_ISREG(found.st_mode):
        return Entry(name, Kind.FILE, FileVersion(found.st_size, found.st_ino & _LARGEST_LONG, found.st_ctime_ns))
    return Entry(name, _kind(found.st_mode))


def _kind(mode: int) -> Kind:
    return Kind.FILE if stat.S_ISREG(mode) else Kind.DIRECTORY if stat.S_ISDIR(mode) else Kind.OTHER


def _version(found: os.stat_result) -> FileVersion:
    return FileVersion(found.st_size, found.st_ino & _LARGEST_LONG, found.st_ctime_ns)


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8: nothing that Kafka names is anything else."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


STORAGE: Storage = LocalStorage()
"""The one in use. Ask for it by `storage.STORAGE` at each use, so that another one can take its place."""
