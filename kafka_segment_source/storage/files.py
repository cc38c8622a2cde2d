"""One open file with the reads that this package needs, and files of our own replaced whole.

Errors of the storage become this package's own here: PathError where the name is wrong (`_WRONG_NAMES`), StorageError
for anything else. Input is opened for reading only.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from kafka_segment_source.storage import store
from kafka_segment_source.storage.store import Entry, FileVersion, Kind, VanishedError

T = TypeVar("T")

Bytes = npt.NDArray[np.uint8]

UNUSABLE = (PathError, StorageError)
"""Why a file cannot be used, although something is there."""

# What the system says where a path leads elsewhere than its user thinks. An OSError without a number is `store.py`'s
# own: what is there is no regular file.
_WRONG_NAMES = frozenset(
    {
        None,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENXIO,  # a socket
    }
)

_LISTINGS = 20  # of a directory from which files vanish
_TRIES = 20  # of what a changing directory keeps from being done
_QUICK_TRIES = 4  # at once: a broker renames the files of one segment in less
_PAUSE = 0.002  # s, doubled each time
_LONGEST_PAUSE = 0.25  # s; 20 tries take some 3 s
_RACY_NANOS = 2_000_000_000  # the coarsest clock of a file system (FAT); git guards its index in the same way


class InputFile:
    """A file open for reading at absolute byte positions; a context manager.

    FileChangedError if it is not there; PathError if it is no regular file; StorageError if it cannot be opened or
    read, with the system's reason.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = store.STORAGE.open(path)
        except FileNotFoundError as error:
            raise FileChangedError(
                f"file {path!r} was there when it was listed, but is gone now, deleted by retention or compaction,"
                " or not on this machine; plan the read anew"
            ) from error
        except OSError as error:
            raise failure("read", self.path, error) from error

    def version(self) -> FileVersion:
        """The state of the open file as it is now."""
        try:
            return self._file.version()
        except OSError as error:
            raise failure("read", self.path, error) from error

    def read_all(self, most: int) -> bytes:
        """Everything in it; PathError where that is more than `most` bytes."""
        data = self.read_at(0, most + 1)
        if len(data) > most:
            raise PathError(f"file {self.path!r} cannot be read: found more than {most:,} bytes, expected at most that")
        return data

    def read_at(self, position: int, count: int) -> bytes:
        """At most `count` bytes from `position`; fewer at the end of the file."""
        try:
            return self._file.read_at(position, count)
        except OSError as error:
            raise failure("read", self.path, error) from error

    def read_into(self, position: int, target: Bytes) -> None:
        """Fills `target` (uint8[n]) from `position`; FileChangedError if the file ends before."""
        try:
            done = self._file.read_into(position, target.data)
        except OSError as error:
            raise failure("read", self.path, error) from error
        if done < len(target):
            raise FileChangedError(
                f"file {self.path!r} has shrunk since it was listed: found its end at byte {position + done},"
                f" expected {len(target) - done} bytes more; plan the read anew"
            )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def look_at(path: str) -> Entry | None:
    """What is at a path; None if nothing is. PathError or StorageError where the system does not say."""
    try:
        return store.STORAGE.look_at(path)
    except OSError as error:
        raise failure("read", path, error) from error


def list_directory(directory: str, given: str | None = None) -> list[Entry]:
    """What is in a directory; nothing if it is gone. given: its name in an error, if the user called it otherwise.

    Raises StorageError where it cannot be listed, PathError where it is no directory, FileChangedError where it changes
    faster than it is listed.
    """
    for _ in range(_LISTINGS - 1):
        with suppress(VanishedError):
            return _list(directory, given)
    try:
        return _list(directory, given)
    except VanishedError as error:
        raise FileChangedError(str(error)) from error


def _list(directory: str, given: str | None) -> list[Entry]:
    try:
        return store.STORAGE.list(directory)
    except VanishedError:
        raise
    except OSError as error:
        raise failure("listed", directory if given is None else given, error) from error


def file_version(path: str) -> FileVersion | None:
    """The state of the file that a path leads to now; None if no file is there."""
    entry = look_at(path)
    return entry.version if entry is not None and entry.kind is Kind.FILE else None


def lasting_version(version: FileVersion) -> FileVersion:
    """A version to be kept: `changed` is 0, which equals nothing, where a change that follows at once could leave the
    same ctime."""
    settled = time.time_ns() - version.changed > _RACY_NANOS
    return version if settled else FileVersion(version.size, version.inode, 0)


def exists(path: str) -> bool:
    """Whether a file is there."""
    return file_version(path) is not None


def write_atomically(path: str, data: bytes) -> None:
    """Replaces a file atomically. Readers and concurrent writers see the old file or the new one, never a part.

    Makes its directory if need be. PathError where the path cannot lead to a file, StorageError where the system fails.
    """
    try:
        store.STORAGE.replace(path, data)
    except OSError as error:
        raise failure("written", path, error) from error


def failure(done: str, path: str, error: OSError) -> PathError | StorageError:
    """What to raise where something cannot be `done` (read, listed, written) with a path, with the system's reason."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    what = f"{'path' if done == 'listed' else 'file'} {path!r} cannot be {done}: {reason}"
    if error.errno in _WRONG_NAMES:
        return PathError(what)
    return StorageError(what, errno=error.errno, strerror=reason, filename=path)


def try_again(action: Callable[[], T], tries: int = _TRIES) -> T:
    """What `action` gives. It is repeated, with pauses, while files change under it; the last
    FileChangedError is raised."""
    for at in range(1, tries):
        with suppress(FileChangedError):
            return action()
        pause(at)
    return action()


def pause(tries: int) -> None:
    """Waits before another try, the longer the more there were."""
    if tries >= _QUICK_TRIES:
        wait(min(_PAUSE * 2 ** (tries - _QUICK_TRIES), _LONGEST_PAUSE))


def wait(seconds: float) -> None:
    """Every wait of the package for files to change; called as `files.wait`, so that a test can take its place."""
    time.sleep(seconds)
