"""Files of the target: each step of writing them, with the errors of this package.

The target is a local directory that holds nothing else. Raises StorageError where the system fails (a full disk, no
permission), and PathError for a path that cannot be one of a file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from kafka_segment_source.storage.files import failure, write_atomically
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import LOCAL

_EARLY_BYTES = 8 * 1024 * 1024


@contextmanager
def written(path: str) -> Iterator[None]:
    """Turns an OSError of the block into an error of this package about the file at `path`."""
    try:
        yield
    except OSError as error:
        raise failure("written", path, error) from error


def replace_file(path: str, data: bytes) -> None:
    """Writes a small file whole: it has its old bytes or the new ones, never a part."""
    write_atomically(path, LOCAL, data)


def make_directory(path: str) -> None:
    """Makes a directory, with those above it. It may be there already."""
    with written(path):
        os.makedirs(path, exist_ok=True)


def rename(path: str, to: str) -> None:
    """Gives a file or directory of the target another name."""
    with written(to):
        os.rename(path, to)


def remove(path: str) -> None:
    """Removes a file of the target, if it is there."""
    with written(path):
        if os.path.lexists(path):
            os.unlink(path)


def remove_tree(path: str) -> None:
    """Removes a directory that the rebuild made with all in it, or a file."""
    with written(path):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def remove_unfinished(directory: str) -> None:
    """Removes what `replace_file` leaves in a directory if the process dies in it."""
    for name in list_names(directory):
        if name.startswith(".kafkaseg-"):
            remove(join_path(directory, name))


def list_names(path: str) -> list[str]:
    """Returns the names in a directory, sorted. It returns none if the directory does not exist."""
    with written(path):
        return sorted(os.listdir(path)) if os.path.isdir(path) else []


def read_whole(path: str) -> bytes | None:
    """Returns the bytes of a small file, or None if there is none."""
    with written(path):
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return file.read()


def count_free_bytes(path: str) -> int:
    """Returns the free bytes of the file system that holds a path, or will hold it."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    with written(path):
        return shutil.disk_usage(path).free


class NewFile:
    """A new file, written from its start to its end. `close` makes it durable."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._size = self._begun = 0  # bytes that were written, and of which the system was told to begin with
        with written(path):
            self._file = FileIO(path, "w")

    def write(self, data: memoryview | bytes) -> None:
        """Appends bytes."""
        with written(self.path):
            self._size += len(data)
            while len(data):
                data = data[self._file.write(data) :]
            if self._size - self._begun >= _EARLY_BYTES and hasattr(os, "posix_fadvise"):
                # Linux begins to write such pages to the disk, and does not wait; so `close` waits for fewer
                os.posix_fadvise(self._file.fileno(), self._begun, self._size - self._begun, os.POSIX_FADV_DONTNEED)
                self._begun = self._size

    def close(self) -> None:
        """Waits until the bytes are on the disk, and closes the file."""
        with written(self.path):
            os.fsync(self._file.fileno())
            self._file.close()

    def abandon(self) -> None:
        """Closes the file as it is. It may be closed already."""
        with written(self.path):
            self._file.close()
