"""Where files are: the one file system, and one open file with the reads this package needs.

Everything goes through `pyarrow.fs`, so that object stores come without a second code path. Files are opened
for reading only, and only by `catalog`, `index` and `read`.
"""

from __future__ import annotations

import os
from types import TracebackType

import numpy as np
import numpy.typing as npt
from pyarrow import fs

from kafka_segment_source.errors import FileChangedError, PathError

FILESYSTEM: fs.FileSystem = fs.LocalFileSystem()

Bytes = npt.NDArray[np.uint8]


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


def system_reason(error: OSError) -> str:
    """What the system says, without Arrow's words around it."""
    return os.strerror(error.errno) if error.errno else str(error)
