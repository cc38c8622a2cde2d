"""What a process remembers of object stores: requests, names, and failures that would cost time again.

A copy in another process begins with nothing.
"""

from __future__ import annotations

import errno
import threading
import time

from kafka_segment_source.kafka_format import LOG_SUFFIX
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import FileVersion, ServiceError

SILENT_SECONDS = 20  # in which a file that did not answer is not asked again
MOST_REFUSALS = 6  # listings of one version that cannot be read


class Requests:
    """Counts requests, in several threads."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, count: int = 1) -> None:
        with self._lock:
            self.count += count

    def __reduce__(self) -> tuple[type[Requests], tuple[()]]:
        return Requests, ()


class NamedDirectories:
    """The directories that a listing has named in this process."""

    def __init__(self) -> None:
        self.paths: set[str] = set()

    def __reduce__(self) -> tuple[type[NamedDirectories], tuple[()]]:
        return NamedDirectories, ()


class Silences:
    """What did not answer in time, in all tries, a short while ago. So a read does not wait for each file in turn.

    A log counts alone. All other files of a bucket count as one, as reads do without most of them: one that answers
    ends it.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ServiceError]] = {}

    def check(self, root: str, key: str) -> None:
        """Raises the error of the last time if it was less than `SILENT_SECONDS` ago."""
        until, error = self._known.get(self._name(root, key), (0.0, None))
        if error is not None and time.monotonic() < until:
            raise ServiceError(str(error), error.errno)

    def note(self, root: str, key: str, error: OSError | None) -> None:
        """error: that of a request in all its tries, None for an answer."""
        name = self._name(root, key)
        if isinstance(error, ServiceError) and error.errno == errno.ETIMEDOUT:
            self._known[name] = time.monotonic() + SILENT_SECONDS, error
        elif error is None and self._known:
            self._known.pop(name, None)

    def _name(self, root: str, key: str) -> str:
        return join_path(root, key) if key.endswith(LOG_SUFFIX) else root

    def __reduce__(self) -> tuple[type[Silences], tuple[()]]:
        return Silences, ()


class Refusals:
    """Versions that the store lists, and does not have when they are read.

    A failure counts once for each listing that had the version again, as a plan that is made anew takes it from there.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, FileVersion], int] = {}
        self._are_new: set[tuple[str, FileVersion]] = set()  # failed, and not listed since

    def note_listed(self, path: str, version: FileVersion) -> None:
        if self._are_new:
            self._are_new.discard((path, version))

    def note_read(self, path: str, version: FileVersion) -> None:
        if self._counts:
            self._counts.pop((path, version), None)
            self._are_new.discard((path, version))

    def is_last(self, path: str, version: FileVersion) -> bool:
        """Notes a failure. Whether there were too many."""
        key = path, version
        if key not in self._are_new:
            self._are_new.add(key)
            self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] >= MOST_REFUSALS

    def __reduce__(self) -> tuple[type[Refusals], tuple[()]]:
        return Refusals, ()
