"""Tells whether anything has changed since the logs were listed, by a look at names that any change touches.

A broker appends to the last `.log` of a partition. For everything else it makes, renames or removes files, which
changes the time of their directory. So these are looked at: the paths, the directories of the partitions, their last
`.log` files. That is much cheaper than to list them. A bucket has no such times, and a glob may match new paths. Both
are always listed.

A broker writes the checkpoints of a log directory again every few seconds. They mostly say the same. So where the time
of a log directory is another one, its names and the bytes of its checkpoints are compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.storage.files import UNUSABLE, InputFile, lasting_version, list_directory, look_at
from kafka_segment_source.storage.paths import join_path, parent_of, resolve_path
from kafka_segment_source.storage.store import NO_VERSION, FileVersion, Kind, Storage

_MAY_BE_GLOB = set("*?[")
_MOST_BYTES = 1024 * 1024  # of a checkpoint that is compared; enough for some ten thousand partitions
_WRITTEN_OFTEN = frozenset({*kafka_format.CHECKPOINTS, *(f"{name}.tmp" for name in kafka_format.CHECKPOINTS)})

_Holding = tuple[frozenset[str], tuple[bytes | None, ...]]
"""What a log directory holds: its names but those of the checkpoints, and the bytes of each checkpoint."""


class LogWatch:
    """The times and sizes of what was there before the logs were listed."""

    def __init__(self, paths: Iterable[str], storage: Storage) -> None:
        self._storage = storage
        self._resolved = [resolve_path(path, storage) for path in paths]
        self._is_usable = not any(
            _MAY_BE_GLOB & set(path) or storage.read_cost(path).takes_round_trips for path in self._resolved
        )
        self._seen: dict[str, FileVersion] = {}
        self._held: dict[str, _Holding | None] = {}

    def begin(self, logs: Iterable[PartitionLog]) -> None:
        """Looks at everything, just before the logs are listed again. logs: those of the last listing.

        What a listing finds in addition is not watched until the next one.
        """
        if not self._is_usable:
            return
        logs = list(logs)
        self._seen = {path: self._look(path) for path in self._find_paths(logs)}
        self._held = {path: self._find_holding(path) for path in _find_log_directories(logs)}

    def is_unchanged(self, logs: Iterable[PartitionLog]) -> bool:
        """Whether all of it is as it was before the last listing, and the listing found nothing else. logs: what it
        found."""
        if not self._seen or self._seen.keys() != self._find_paths(logs):
            return False
        return all(self._is_same(path, version) for path, version in self._seen.items())

    def _is_same(self, path: str, version: FileVersion) -> bool:
        listed = self._look(path)
        if NO_VERSION in (version, listed):
            return False
        if version.changed and listed == version:
            return True
        held = self._held.get(path)
        if held is None or self._find_holding(path) != held:
            return False
        self._seen[path] = listed  # it was looked at before it was compared
        return True

    def _find_holding(self, directory: str) -> _Holding | None:
        """Finds what a log directory holds. None if that cannot be read."""
        try:
            names = frozenset(entry.name for entry in list_directory(directory, self._storage))
            return names - _WRITTEN_OFTEN, tuple(
                self._read(join_path(directory, name)) if name in names else None for name in kafka_format.CHECKPOINTS
            )
        except (*UNUSABLE, FileChangedError):
            return None

    def _read(self, path: str) -> bytes:
        with InputFile(path, self._storage) as file:
            return file.read_all(_MOST_BYTES)

    def _find_paths(self, logs: Iterable[PartitionLog]) -> set[str]:
        paths = set(self._resolved)
        for log in logs:
            directories = log.copies or (log.directory,)
            paths.update(directories)
            paths.update(parent_of(directory) for directory in directories)  # its checkpoints
            paths.update(segment.path for segment in log.segments if segment.is_last)
        return paths

    def _look(self, path: str) -> FileVersion:
        entry = look_at(path, self._storage)
        if entry is None or entry.kind not in (Kind.FILE, Kind.DIRECTORY):
            return NO_VERSION
        return lasting_version(entry.version)


def _find_log_directories(logs: Iterable[PartitionLog]) -> set[str]:
    """Finds the directories that hold partitions, and are none themselves."""
    directories = {directory for log in logs for directory in (log.copies or (log.directory,))}
    return {parent_of(directory) for directory in directories} - directories
