"""What a broker wrote beside its partitions: log start, high watermark, what was compacted, and the topic's id.

Comes in: the bytes of a checkpoint (`CheckpointFile`: version, number of entries, `topic partition offset` a line), of
a `partition.metadata`; or a partition's log. Goes out: offsets by topic and partition. A file that is missing or empty
says nothing; of one that cannot be right a warning says so, and nothing else of it is believed.

They are in the log directory, so beside the partition's own, and each holds for its own directory only. A log start is
listed where records below it are deleted, although a segment that holds others still holds them too; it may lie inside
a batch. The high watermark is written every few seconds: it lags behind, never ahead. Kafka: LogManager.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

from kafka_segment_source import format as fmt
from kafka_segment_source.errors import FileChangedError, OptionError, StorageError
from kafka_segment_source.logdir.listing import MOST_METADATA
from kafka_segment_source.logdir.names import named_partition
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage.files import UNUSABLE, InputFile

_MOST_BYTES = 64 * 1024 * 1024  # of a checkpoint of 200,000 partitions with the longest names
_MOST_ENTRIES = 200_000  # partitions; a broker has some thousands
_MOST_LINE = 512  # bytes; a topic's name has up to 255
_ENTRY_WORDS = 3  # topic, partition, offset
_MOST_DIGITS = 19  # of a number of 63 bits
_TOPIC_ID_LENGTH = 22  # characters of a UUID in base64


def parse_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """Offsets by topic and partition; empty bytes are no entries. ValueError says what cannot be right.

    Takes little more memory than the entries, whatever the bytes are: nothing is split before it is counted.
    """
    if not data:
        return {}
    lines = BytesIO(data)
    version = _line(lines)
    if version != str(fmt.CHECKPOINT_VERSION):
        raise ValueError(f"found version {version[:20]!r}, expected {fmt.CHECKPOINT_VERSION}")
    if (line_ends := data.count(b"\n")) > _MOST_ENTRIES + 2:
        raise ValueError(f"found {line_ends:,} lines, expected at most {_MOST_ENTRIES:,} entries")
    count = _line(lines) or "none"
    first = lines.tell()
    found = sum(1 for line in lines if line.strip())
    if count != str(found):
        raise ValueError(f"found {found} entries, expected {count[:20]}, as its second line says")
    lines.seek(first)
    return dict(_entry(line) for line in lines if line.strip())


def _entry(line: bytes) -> tuple[TopicPartition, int]:
    entry = line[:_MOST_LINE].decode("ascii", "replace").split()
    if len(entry) != _ENTRY_WORDS or len(line) > _MOST_LINE or not (_is_number(entry[1]) and _is_number(entry[2])):
        raise ValueError(f"found {' '.join(entry)[:60]!r}, expected topic, partition and offset")
    return (entry[0], int(entry[1])), int(entry[2])


def _line(lines: BytesIO) -> str:
    """The next line without its end; the beginning of one that is too long."""
    return lines.readline(_MOST_LINE).decode("ascii", "replace").strip()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) <= fmt.MAX_OFFSET


def parse_topic_id(data: bytes) -> str | None:
    """The topic's id, or None where a `partition.metadata` does not say one."""
    for line in data.decode("ascii", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == fmt.TOPIC_ID_KEY and len(value.strip()) == _TOPIC_ID_LENGTH:
            return value.strip()
    return None


def read_topic_id(directory: str) -> str | None:
    """The topic id of a partition directory; None where there is none (before Kafka 2.8), or none that can be read."""
    try:
        return parse_topic_id(_read(os.path.join(directory, fmt.PARTITION_METADATA), MOST_METADATA) or b"")
    except UNUSABLE:
        return None


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """One file: its entries; missing, if there is no such file; fault, if it cannot be believed; failed, if that is
    because the storage fails."""

    path: str
    entries: Mapping[TopicPartition, int] = field(default_factory=dict)
    missing: bool = False
    fault: str | None = None
    failed: StorageError | None = None


class Checkpoints:
    """The checkpoints beside partition directories, each read once; what is wrong with one goes into `warnings`."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings
        self._read: dict[str, _Checkpoint] = {}

    def log_start(self, log: ListedLog) -> int:
        """The offset below which this directory's records are deleted, though perhaps still in its files; 0: none."""
        return self.entry(log, fmt.LOG_START_CHECKPOINT) or 0

    def is_cleaned(self, log: ListedLog) -> bool:
        """Whether the broker has compacted this partition, so that gaps between its offsets mean nothing."""
        return self.entry(log, fmt.CLEANER_CHECKPOINT) is not None

    def high_watermark(self, log: ListedLog) -> int:
        """The offset below which every in-sync replica had each record. OptionError where that is not on record,
        StorageError where the record cannot be read."""
        checkpoint = self._beside(log, fmt.HIGH_WATERMARK_CHECKPOINT)
        offset = checkpoint.entries.get(named_partition(log.directory) or ("", -1))
        if offset is not None:
            return offset
        if checkpoint.failed is not None:
            raise checkpoint.failed
        why = "does not exist" if checkpoint.missing else checkpoint.fault or "does not list that directory"
        raise OptionError(
            f"option 'endAt' is 'highWatermark', but of {log.directory!r} it is not known: {checkpoint.path!r} {why};"
            " leave the option out to read to the end"
        )

    def entry(self, log: ListedLog, name: str) -> int | None:
        """What the checkpoint says of this directory: by its own name, whatever the options call it."""
        named = named_partition(log.directory)
        return None if named is None else self._beside(log, name).entries.get(named)

    def entries(self, log_directory: str, name: str) -> Mapping[TopicPartition, int]:
        """All that a checkpoint of a log directory says."""
        return self._at(os.path.join(log_directory, name)).entries

    def _beside(self, log: ListedLog, name: str) -> _Checkpoint:
        return self._at(os.path.join(os.path.dirname(log.directory), name))

    def _at(self, path: str) -> _Checkpoint:
        if path not in self._read:
            self._read[path] = _read_checkpoint(path)
            if self._read[path].fault is not None:
                self._warnings.append(f"checkpoint {path!r} {self._read[path].fault}; nothing that it says is used")
        return self._read[path]


def _read_checkpoint(path: str) -> _Checkpoint:
    try:
        data = _read(path, _MOST_BYTES)
        return _Checkpoint(path, missing=True) if data is None else _Checkpoint(path, parse_checkpoint(data))
    except UNUSABLE as error:
        failed = error if isinstance(error, StorageError) else None
        return _Checkpoint(path, fault=f"cannot be read ({error})", failed=failed)
    except ValueError as error:
        return _Checkpoint(path, fault=f"is damaged: {error}")


def _read(path: str, most: int) -> bytes | None:
    """The file's bytes; None if there is none. One of UNUSABLE if it cannot be read, or has more than `most`."""
    try:
        with InputFile(path) as file:
            return file.read_all(most)
    except FileChangedError:
        return None
