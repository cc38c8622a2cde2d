"""Tells whether anything has changed since the logs were listed, by a look at names that any change touches.

A broker appends to the last `.log` of a partition. For everything else it makes, renames or removes files, which
changes the time of their directory. So these are looked at: the paths, the directories of the partitions, their last
`.log` files. That is much cheaper than to list them. A bucket has no such times, and a glob may match new paths. Both
are always listed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.storage.files import lasting_version, look_at
from kafka_segment_source.storage.paths import parent_of, resolve_path
from kafka_segment_source.storage.store import NO_VERSION, FileVersion, Kind, Storage

_MAY_BE_GLOB = set("*?[")


class LogWatch:
    """The times and sizes of what was there before the logs were listed."""

    def __init__(self, paths: Iterable[str], storage: Storage) -> None:
        self._storage = storage
        self._resolved = [resolve_path(path, storage) for path in paths]
        self._is_usable = not any(
            _MAY_BE_GLOB & set(path) or storage.read_cost(path).at_once > 1 for path in self._resolved
        )
        self._seen: dict[str, FileVersion] = {}

    def begin(self, logs: Iterable[PartitionLog]) -> None:
        """Looks at everything, just before the logs are listed again. logs: those of the last listing.

        What a listing finds in addition is not watched until the next one.
        """
        self._seen = {path: self._look(path) for path in self._find_paths(logs)} if self._is_usable else {}

    def is_unchanged(self, logs: Iterable[PartitionLog]) -> bool:
        """Whether all of it is as it was before the last listing, and the listing found nothing else. logs: what it
        found."""
        if not self._seen or self._seen.keys() != self._find_paths(logs):
            return False
        return all(
            version != NO_VERSION and version.changed and self._look(path) == version
            for path, version in self._seen.items()
        )

    def _find_paths(self, logs: Iterable[PartitionLog]) -> set[str]:
        found = set(self._resolved)
        for log in logs:
            directories = log.copies or (log.directory,)
            found.update(directories)
            found.update(parent_of(directory) for directory in directories)  # its checkpoints
            found.update(segment.path for segment in log.segments if segment.is_last)
        return found

    def _look(self, path: str) -> FileVersion:
        entry = look_at(path, self._storage)
        if entry is None or entry.kind not in (Kind.FILE, Kind.DIRECTORY):
            return NO_VERSION
        return lasting_version(entry.version)
