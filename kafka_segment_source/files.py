"""Where files are: the one file system, and one open file with the reads this package needs.

Everything goes through `pyarrow.fs`, so that object stores come without a second code path. Files are opened
for reading only, and only by `catalog`, `index` and `read`.
"""

from __future__ import annotations

from types import TracebackType

import numpy as np
import numpy.typing as npt
from pyarrow import fs

from kafka_segment_source.errors import CorruptRecordError, PathError

FILESYSTEM: fs.FileSystem = fs.LocalFileSystem()

Bytes = npt.NDArray[np.uint8]


class InputFile:
    """A file open for reading at absolute byte positions; a context manager. PathError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = FILESYSTEM.open_input_file(path)
        except FileNotFoundError as error:
            raise PathError(
                f"file {path!r} was there when it was listed, but is gone now; plan the read anew"
            ) from error
        except OSError as error:
            raise PathError(f"file {path!r} cannot be read: {error}") from error

    def read_at(self, position: int, count: int) -> bytes:
        """At most `count` bytes from `position`; fewer at the end of the file."""
        return bytes(self._file.read_at(count, position))

    def read_into(self, position: int, target: Bytes) -> None:
        """Fills `target` (uint8[n]) from `position`; CorruptRecordError if the file ends before."""
        self._file.seek(position)
        done = 0
        while done < len(target):
            count = self._file.readinto(memoryview(target)[done:])  # type: ignore[arg-type]  # takes any writable buffer
            if not count:
                raise CorruptRecordError(
                    "the file has shrunk since it was listed",
                    path=self.path,
                    position=position + done,
                    found="its end",
                    expected=f"{len(target) - done} bytes more",
                )
            done += count

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
