"""Where files are: the one file system, and one open file with the reads this package needs.

Everything goes through `pyarrow.fs`, so that object stores come without a second code path. Input is opened for
reading only; what is written is a whole file, in a directory that the user named.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt
from pyarrow import fs

from kafka_segment_source.errors import FileChangedError, PathError

FILESYSTEM: fs.FileSystem = fs.LocalFileSystem()

Bytes = npt.NDArray[np.uint8]

_RACY_NANOS = 2_000_000_000  # the coarsest clock of a file system (FAT); git guards its index in the same way
_LARGEST_LONG = 2**63 - 1


class InputFile:
    """A file open for reading at absolute byte positions; a context manager.

    FileChangedError if it is not there; PathError if it cannot be opened or read, with the system's reason.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = FILESYSTEM.open_input_file(path)
        except FileNotFoundError as error:
            raise FileChangedError(
                f"file {path!r} was there when it was listed, but is gone now, deleted by retention or compaction,"
                " or not on this machine; plan the read anew"
            ) from error
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def size(self) -> int:
        """Bytes in the file as it is now."""
        return int(self._file.size())

    def read_all(self) -> bytes:
        """Everything in it."""
        return self.read_at(0, self.size)

    def read_at(self, position: int, count: int) -> bytes:
        """At most `count` bytes from `position`; fewer at the end of the file."""
        try:
            return bytes(self._file.read_at(count, position))
        except OSError as error:
            raise self._unreadable(error) from error

    def read_into(self, position: int, target: Bytes) -> None:
        """Fills `target` (uint8[n]) from `position`; FileChangedError if the file ends before."""
        done = 0
        try:
            self._file.seek(position)
            while done < len(target):
                count = self._file.readinto(memoryview(target)[done:])  # type: ignore[arg-type]  # any writable buffer
                if not count:
                    break
                done += count
        except OSError as error:
            raise self._unreadable(error) from error
        if done < len(target):
            raise FileChangedError(
                f"file {self.path!r} has shrunk since it was listed: found its end at byte {position + done},"
                f" expected {len(target) - done} bytes more; plan the read anew"
            )

    def _unreadable(self, error: OSError) -> PathError:
        return PathError(f"file {self.path!r} cannot be read: {system_reason(error)}")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What the file system says of one state of a file: bytes, inode, and when either was last changed (ctime, ns).

    changed is 0, which equals nothing, where a change that followed at once could have left the same ctime.
    """

    size: int
    inode: int
    changed: int

    def is_still(self, now: FileVersion) -> bool:
        """Whether the file that `now` was taken of is untouched since this was."""
        return self.changed != 0 and self == now


def file_version(path: str) -> FileVersion:
    """The state of a file. Take it before reading the file: a later change then shows. FileChangedError if it is gone."""
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise FileChangedError(f"file {path!r} was there when it was listed, but is gone now") from error
    except OSError as error:
        raise PathError(f"file {path!r} cannot be read: {system_reason(error)}") from error
    settled = time.time_ns() - found.st_ctime_ns > _RACY_NANOS
    return FileVersion(found.st_size, found.st_ino & _LARGEST_LONG, found.st_ctime_ns if settled else 0)


def exists(path: str) -> bool:
    """Whether a file is there."""
    return bool(FILESYSTEM.get_file_info(path).type == fs.FileType.File)


def write_atomically(path: str, data: bytes) -> None:
    """Puts `data` in the place of a file: whoever reads it, and whoever writes it too, sees the old or the new one whole.

    Makes its directory if need be. PathError with the system's reason where that cannot be done.
    """
    temporary = os.path.join(os.path.dirname(path), f".kafkaseg-{uuid.uuid4().hex}.tmp")
    try:
        FILESYSTEM.create_dir(os.path.dirname(path), recursive=True)
        with FILESYSTEM.open_output_stream(temporary) as out:
            out.write(data)
        FILESYSTEM.move(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            FILESYSTEM.delete_file(temporary)
        if isinstance(error, OSError):
            raise PathError(f"file {path!r} cannot be written: {system_reason(error)}") from error
        raise


def system_reason(error: OSError) -> str:
    """What the system says, without Arrow's words around it."""
    return os.strerror(error.errno) if error.errno else str(error)
