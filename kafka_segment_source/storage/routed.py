"""A storage that asks a bucket for the paths of a bucket, and the local file system for all others.

So one read may have a replica on a disk and another one in a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_segment_source.storage.object_store import ObjectStorage
from kafka_segment_source.storage.paths import is_remote
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.storage.store import LOCAL, Entries, Entry, FileVersion, OpenFile, Paths, ReadCost, Storage
from kafka_segment_source.storage.tiered.keys import NO_KEYS, TierKeys
from kafka_segment_source.storage.tiered.storage import TieredStorage


@dataclass(frozen=True, slots=True)
class RoutedStorage:
    """The local file system, and buckets by their settings."""

    objects: ObjectStorage
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

    def read_cost(self, path: str) -> ReadCost:
        return (self.objects if is_remote(path) else self.local).read_cost(path)  # asked for each segment

    def count_requests(self) -> int:
        return self.objects.count_requests()

    def _of(self, path: str) -> Storage:
        return self.objects if is_remote(path) else self.local


def make_storage(settings: Settings, keys: TierKeys = NO_KEYS) -> Storage:
    """Returns the storage of one read. keys: of the tiers in it that are encrypted."""
    return TieredStorage(RoutedStorage(ObjectStorage(settings)), keys)
