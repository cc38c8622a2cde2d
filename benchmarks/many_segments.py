"""A simulated storage with any number of small segments, which takes hardly any memory or time itself.

All partitions have the same segments, of three batches each, and so the same bytes. Beside each `.log` are a `.index`
and a `.timeindex`, as Kafka writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from benchmarks.logs import INDEX_INTERVAL, LAST_OFFSET, LAST_TIMESTAMP, LogShape, Stamped, fill, index_files
from kafka_segment_source.storage.store import (
    Entries,
    Entry,
    FileInMemory,
    FileVersion,
    Kind,
    OpenFile,
    Paths,
    ReadCost,
)
from tests.support import writer

ROOT = "/logs"
TOPIC = "events"
_RECORDS = 24  # a segment
_BATCH_BYTES = INDEX_INTERVAL // 2


@dataclass(eq=False)
class ManySegments:
    """A `Storage`. partitions, segments: how many partitions, and how many segments each of them has."""

    partitions: int
    segments: int
    requests: int = 0
    last_timestamps: list[int] = field(default_factory=list)  # of each segment of a partition, in ms
    end_offsets: list[int] = field(default_factory=list)
    _files: dict[str, bytes] = field(default_factory=dict)  # of a partition, by name
    _entries: Entries = field(default_factory=list)
    written: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source = Stamped(LogShape(_RECORDS * self.segments, segments=self.segments, batch_bytes=_BATCH_BYTES))
        for number in range(self.segments):
            base = source.next_offset
            data, rows = fill(source, _RECORDS * (number + 1))
            index, time_index = index_files(rows, base)
            for suffix, content in ((".log", data), (".index", index), (".timeindex", time_index)):
                self._files[writer.segment_name(base, suffix)] = content
            self.last_timestamps.append(int(rows[-1][LAST_TIMESTAMP]))
            self.end_offsets.append(int(rows[-1][LAST_OFFSET]) + 1)
        self._entries = [
            Entry(name, Kind.FILE, FileVersion(len(data), number, 1))
            for number, (name, data) in enumerate(self._files.items())
        ]

    def look_at(self, path: str) -> Entry | None:
        name = PurePosixPath(path).name
        if path in self.written:
            return Entry(name, Kind.FILE, FileVersion(len(self.written[path]), 1, 1))
        if path == ROOT or (path.count("/") == 2 and path.startswith(ROOT)):
            return Entry(name, Kind.DIRECTORY)
        data = self._files.get(name)
        return None if data is None else Entry(name, Kind.FILE, FileVersion(len(data), [*self._files].index(name), 1))

    def list(self, directory: str) -> Entries:
        if directory == ROOT:
            return [Entry(f"{TOPIC}-{number}", Kind.DIRECTORY) for number in range(self.partitions)]
        return [*self._entries] if directory.startswith(f"{ROOT}/{TOPIC}-") else []

    def glob(self, pattern: str) -> Paths:
        return []

    def read_link(self, path: str) -> str:
        raise FileNotFoundError(path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        data = self.written.get(path)
        name = path[path.rindex("/") + 1 :]
        if data is None:
            data = self._files.get(name)
        if data is None:
            raise FileNotFoundError(path)
        return _Open(data, version or FileVersion(len(data), 1, 1))

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        self.written[path] = data

    def remove(self, path: str) -> None:
        self.written.pop(path, None)

    def read_cost(self, path: str) -> ReadCost:
        return _COST

    def count_requests(self) -> int:
        return 0


_COST = ReadCost(at_once=1, block=0)


@dataclass(slots=True)
class _Open(FileInMemory):
    data: bytes
    state: FileVersion

    def read_at(self, position: int, count: int) -> bytes:
        return self.data[position : position + count]

    def version(self) -> FileVersion:
        return self.state
