"""The storage of a read: it asks a bucket, a tier or the local file system, by the path.

So one read may have a replica on a disk and another one in a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kafka_segment_source.storage.paths import is_remote
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.storage.store import LOCAL, Entries, Entry, FileVersion, OpenFile, Paths, ReadCost, Storage
from kafka_segment_source.storage.tiered.encryption import NO_KEYS, TierKeys
from kafka_segment_source.storage.tiered.names import is_shown

if TYPE_CHECKING:
    from kafka_segment_source.storage.object_store import ObjectStorage
    from kafka_segment_source.storage.tiered.segments import TierSegment
    from kafka_segment_source.storage.tiered.storage import TieredStorage


@dataclass(frozen=True)
class RoutedStorage:
    """The local file system, buckets by their settings, and the tiers in both.

    keys: of the tiers that are encrypted.
    """

    settings: Settings = Settings()
    keys: TierKeys = field(default=NO_KEYS, compare=False)  # they change nothing about where files are
    local: Storage = LOCAL

    def look_at(self, path: str) -> Entry | None:
        return self._of(path).look_at(path)

    def list(self, directory: str) -> Entries:
        return self._of(directory).list(directory)

    def glob(self, pattern: str) -> Paths:
        return self._of(pattern).glob(pattern)

    def read_link(self, path: str) -> str:
        return self._of(path).read_link(path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        return self._of(path).open(path, version)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        self._of(path).replace(path, data, known)

    def remove(self, path: str) -> None:
        self._of(path).remove(path)

    def read_cost(self, path: str) -> ReadCost:
        return (self._buckets if is_remote(path) else self.local).read_cost(path)  # asked for each segment

    def count_requests(self) -> int:
        made: ObjectStorage | None = vars(self).get("_buckets")
        return 0 if made is None else made.count_requests()

    def find_segment(self, path: str) -> tuple[str, TierSegment] | None:
        """Returns the segment that a `.log` stands for, and the tier's directory of its partition, as listed last. None
        for any other file."""
        return self._tiers.find_segment(path) if is_shown(path) else None

    def _of(self, path: str) -> Storage:
        if is_shown(path):
            return self._tiers
        return self._buckets if is_remote(path) else self.local

    @cached_property
    def _buckets(self) -> ObjectStorage:
        from kafka_segment_source.storage.object_store import ObjectStorage  # noqa: PLC0415  # most paths are local

        return ObjectStorage(self.settings)

    @cached_property
    def _tiers(self) -> TieredStorage:
        from kafka_segment_source.storage.tiered.storage import TieredStorage  # noqa: PLC0415  # most logs have no tier

        return TieredStorage(self, self.keys)


def make_storage(settings: Settings, keys: TierKeys = NO_KEYS) -> Storage:
    """Returns the storage of one read. keys: of the tiers in it that are encrypted."""
    return RoutedStorage(settings, keys)


def find_segment(storage: Storage, path: str) -> tuple[str, TierSegment] | None:
    """Returns what `RoutedStorage.find_segment` does. None for any other storage."""
    return storage.find_segment(path) if isinstance(storage, RoutedStorage) else None
