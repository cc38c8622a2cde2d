"""Open files with the reads that this package needs, and atomic replacement of the files that it writes.

Here the errors of the storage become this package's own: PathError if the name is wrong (`_WRONG_NAMES`), StorageError
for anything else. Input is opened for reading only.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from types import TracebackType

import numpy as np
import numpy.typing as npt

from kafka_segment_source.errors import DataError, FileChangedError, KafkaSegmentError, PathError, StorageError
from kafka_segment_source.storage.store import (
    Entry,
    ExplainedFile,
    FileVersion,
    Kind,
    ReplacedError,
    ServiceError,
    Storage,
    VanishedError,
    find_object,
)

Bytes = npt.NDArray[np.uint8]

UNUSABLE = (PathError, StorageError)
"""The errors of a file that exists but cannot be used."""

# Error numbers that mean the path is wrong. `store.py` raises an OSError without a number for anything that is not a
# regular file.
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

_MOST_TRIES_TO_LIST = 20  # most listings of a directory from which files vanish
_RACY_NANOS = 2_000_000_000  # the coarsest clock of a file system (FAT); git guards its index in the same way


class InputFile:
    """A file that is open for reading at absolute byte positions. It is a context manager.

    Raises FileChangedError if the file does not exist, and PathError if it is not a regular file. Raises StorageError
    with the system's reason if it cannot be opened or read.

    version: as it was listed, if that is known. In a bucket, another version is a FileChangedError.
    """

    def __init__(self, path: str, storage: Storage, version: FileVersion | None = None) -> None:
        self.path = path
        try:
            self._file = storage.open(path, version)
        except OSError as error:
            raise self._make_error(error) from error

    def _make_error(self, error: OSError) -> KafkaSegmentError:
        if isinstance(error, FileNotFoundError):
            path = find_object(error, self.path)
            return FileChangedError(
                f"file {path!r} was there when it was listed, but is gone now, deleted by retention or compaction,"
                " or not on this machine; plan the read again"
            )
        if isinstance(error, VanishedError):
            return FileChangedError(f"{error}; plan the read again")
        if isinstance(error, ReplacedError):
            path = find_object(error, self.path)
            return FileChangedError(f"file {path!r} has changed since it was listed: {error}; plan the read again")
        return failure("read", find_object(error, self.path), error)

    def version(self) -> FileVersion:
        """Returns the present state of the open file."""
        try:
            return self._file.version()
        except OSError as error:
            raise self._make_error(error) from error

    def read_all(self, most: int) -> bytes:
        """Returns all its bytes. Raises PathError if there are more than `most`."""
        data = self.read_at(0, most + 1)
        if len(data) > most:
            raise PathError(f"file {self.path!r} cannot be read: found more than {most:,} bytes, expected at most that")
        return data

    def read_at(self, position: int, count: int) -> bytes:
        """Returns at most `count` bytes from `position`, fewer at the end of the file."""
        try:
            return self._file.read_at(position, count)
        except OSError as error:
            raise self._make_error(error) from error

    def read_into(self, position: int, target: Bytes) -> None:
        """Fills `target` (uint8[n]) from `position`. Raises FileChangedError if the file ends before that."""
        try:
            done = self._file.read_into(position, target.data)
        except OSError as error:
            raise self._make_error(error) from error
        if done < len(target):
            raise FileChangedError(
                f"file {self.path!r} has shrunk since it was listed: found its end at byte {position + done},"
                f" expected {len(target) - done} bytes more; plan the read again"
            )

    def read_ahead(self, start: int, end: int) -> None:
        """Says that the bytes with start ≤ position < end will be read in order. A slow storage begins to fetch
        them."""
        self._file.read_ahead(start, end)

    def is_all_under_way(self) -> bool:
        """Whether no range that `read_ahead` named is left to ask for."""
        return self._file.is_all_under_way()

    def descriptor(self) -> int | None:
        """Returns the descriptor of a local file, for kernels that read it. None anywhere else."""
        return self._file.descriptor()

    def explain(self, error: DataError) -> DataError:
        """Returns what the file knows about the damage at the position of an error, or else the error itself."""
        if not isinstance(self._file, ExplainedFile):
            return error
        known = self._file.find_fault(error.position)
        if known is None:
            return error
        return type(known)(
            known.what,
            path=known.path,
            position=error.position,
            offset=error.offset,
            found=known.found,
            expected=known.expected,
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def look_at(path: str, storage: Storage) -> Entry | None:
    """Returns the entry at a path, or None if nothing exists there. Raises PathError or StorageError if the system
    fails."""
    try:
        return storage.look_at(path)
    except VanishedError as error:
        raise FileChangedError(f"{error}; plan the read again") from error
    except OSError as error:
        raise failure("read", find_object(error, path), error) from error


def find_matches(pattern: str, storage: Storage, given: str) -> list[str]:
    """Returns the paths that match a glob, in order. Raises PathError or StorageError if the system fails.

    given: the glob as the user wrote it, for error messages.
    """
    try:
        return storage.glob(pattern)
    except OSError as error:
        raise failure("listed", given, error) from error


def list_directory(directory: str, storage: Storage, given: str | None = None) -> list[Entry]:
    """Returns the entries of a directory. It returns nothing if the directory is gone.

    Raises StorageError if it cannot be listed, PathError if it is not a directory, and FileChangedError if it changes
    too fast to be listed.

    given: the name for error messages, if the user gave another one.
    """
    for _ in range(_MOST_TRIES_TO_LIST - 1):
        with suppress(VanishedError):
            return _list_once(directory, storage, given)
    try:
        return _list_once(directory, storage, given)
    except VanishedError as error:
        raise FileChangedError(str(error)) from error


def _list_once(directory: str, storage: Storage, given: str | None) -> list[Entry]:
    try:
        return storage.list(directory)
    except VanishedError:
        raise
    except OSError as error:
        listed = directory if given is None else given
        path = find_object(error, listed)  # an object that had to be read for the listing, or the directory
        raise failure("listed" if path == listed else "read", path, error) from error


def file_version(path: str, storage: Storage) -> FileVersion | None:
    """Returns the present state of the file at a path, or None if there is no file."""
    entry = look_at(path, storage)
    return entry.version if entry is not None and entry.kind is Kind.FILE else None


def lasting_version(version: FileVersion) -> FileVersion:
    """Returns a version that can be kept.

    A change right after this one could leave the same ctime. In that case `changed` is 0, which equals no real ctime.
    An object's version has no such time.
    """
    settled = time.time_ns() - version.changed > _RACY_NANOS
    return version if settled else version._replace(changed=0)


def exists(path: str, storage: Storage) -> bool:
    """Whether a file exists at the path."""
    return file_version(path, storage) is not None


def write_atomically(path: str, storage: Storage, data: bytes, known: FileVersion | None = None) -> None:
    """Replaces a file atomically. Readers and concurrent writers see the old file or the new one, never a part.

    It creates the directory if that does not exist. Raises PathError if the path cannot be that of a file, and
    StorageError if the system fails.

    known: the version that is to be replaced, NO_VERSION if there was no file, None for any. A bucket then raises
        FileChangedError for another version.
    """
    try:
        storage.replace(path, data, known)
    except ReplacedError as error:
        raise FileChangedError(f"file {path!r} was written by another process meanwhile: {error}") from error
    except OSError as error:
        raise failure("written", path, error) from error


def remove(path: str, storage: Storage) -> None:
    """Removes a file that this package wrote, if it is there. Raises PathError or StorageError if the system fails."""
    try:
        storage.remove(path)
    except OSError as error:
        raise failure("removed", path, error) from error


def failure(done: str, path: str, error: OSError) -> PathError | StorageError:
    """Returns the error to raise if a path cannot be `done` (read, listed, written), with the system's reason."""
    if isinstance(error, ServiceError):
        reason, is_wrong_name = str(error), error.is_wrong_name
    else:
        reason = os.strerror(error.errno) if error.errno else str(error)
        is_wrong_name = error.errno in _WRONG_NAMES
    what = f"{'path' if done == 'listed' else 'file'} {path!r} cannot be {done}: {reason}"
    if is_wrong_name:
        return PathError(what)
    return StorageError(what, errno=error.errno, strerror=reason, filename=path)
