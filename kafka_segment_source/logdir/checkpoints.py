"""Reads the checkpoints of a log directory, and the topic id of a partition directory.

The checkpoints record the log start, the high watermark, the recovery point, and which logs were compacted.

Comes in: the bytes of a checkpoint or of a `partition.metadata`, or a partition's log. A checkpoint has the format of
Kafka's `CheckpointFile`: a version, the number of entries, then one `topic partition offset` on each line. Goes out:
offsets by topic and partition. A missing or empty file has no entries. An invalid file gives a warning, and none of its
entries is used.

A checkpoint lies in the log directory, beside the partition directories. It is valid for its own log directory only.

The log start is the offset below which records are deleted. A segment may still hold records below it, and it may lie
inside a batch. A broker writes the high watermark every few seconds. So the file may show a lower value than the broker
has, but never a higher one. Kafka: LogManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError, OptionError, PathError, StorageError
from kafka_segment_source.logdir.names import named_partition
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.files import UNUSABLE, InputFile
from kafka_segment_source.storage.paths import join_path, parent_of
from kafka_segment_source.storage.store import Storage

MOST_METADATA = 64 * 1024  # bytes of a `partition.metadata`; brokers write 43
_MOST_BYTES = 64 * 1024 * 1024  # enough for 200,000 partitions with the longest names
_MOST_ENTRIES = 200_000  # partitions; a broker has some thousands
_MOST_LINE = 512  # bytes; a topic's name has at most 255
_ENTRY_WORDS = 3  # topic, partition, offset
_MOST_DIGITS = 19  # a number of 63 bits has no more
_TOPIC_ID_LENGTH = 22  # characters of a UUID in base64


def parse_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """Returns offsets by topic and partition. Empty bytes give no entries. Raises ValueError for an invalid checkpoint.

    It counts lines before it splits them. So it takes little more memory than the entries need, whatever the bytes are.
    """
    if not data:
        return {}
    lines = BytesIO(data)
    version = _read_line(lines)
    if version != str(kafka_format.CHECKPOINT_VERSION):
        raise ValueError(f"found version {version[:20]!r}, expected {kafka_format.CHECKPOINT_VERSION}")
    if (line_ends := data.count(b"\n")) > _MOST_ENTRIES + 2:
        raise ValueError(f"found {line_ends:,} lines, expected at most {_MOST_ENTRIES:,} entries")
    count = _read_line(lines) or "none"
    first = lines.tell()
    filled = sum(1 for line in lines if line.strip())
    if count != str(filled):
        raise ValueError(f"found {filled} entries, expected {count[:20]}, as its second line says")
    lines.seek(first)
    return dict(_parse_entry(line) for line in lines if line.strip())


def _parse_entry(line: bytes) -> tuple[TopicPartition, int]:
    entry = line[:_MOST_LINE].decode("ascii", "replace").split()
    if len(entry) != _ENTRY_WORDS or len(line) > _MOST_LINE or not (_is_number(entry[1]) and _is_number(entry[2])):
        raise ValueError(f"found {' '.join(entry)[:60]!r}, expected topic, partition and offset")
    return (entry[0], int(entry[1])), int(entry[2])


def _read_line(lines: BytesIO) -> str:
    """Returns the next line without its line end. Of a line that is too long it returns the beginning."""
    return lines.readline(_MOST_LINE).decode("ascii", "replace").strip()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) <= kafka_format.MAX_OFFSET


def parse_topic_id(data: bytes) -> str | None:
    """Returns the topic id in the bytes of a `partition.metadata`, or None if they have none."""
    for line in data.decode("ascii", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == kafka_format.TOPIC_ID_KEY and len(value.strip()) == _TOPIC_ID_LENGTH:
            return value.strip()
    return None


def read_topic_id(directory: str, storage: Storage) -> str | None:
    """Returns the topic id of a partition directory.

    None if the directory has no id (before Kafka 2.8), or a file that cannot have one. Raises StorageError: without the
    id, two topics of one name would be taken for one.
    """
    try:
        return parse_topic_id(
            _read_file(join_path(directory, kafka_format.PARTITION_METADATA), storage, MOST_METADATA) or b""
        )
    except PathError:
        return None


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """One checkpoint file and its entries.

    missing: whether the file does not exist.
    fault: why the file is not used, or None.
    failed: the error of the storage, if that is the reason.
    """

    path: str
    entries: Mapping[TopicPartition, int] = field(default_factory=dict)
    missing: bool = False
    fault: str | None = None
    failed: StorageError | None = None


class Checkpoints:
    """The checkpoints beside partition directories. Each file is read once. `warnings` gets a sentence for each invalid
    file.

    faults: what is wrong with each of these files.
    """

    def __init__(self, warnings: Warnings, storage: Storage) -> None:
        self.storage = storage
        self.faults: list[str] = []
        self._warnings = warnings
        self._read: dict[str, _Checkpoint] = {}
        self._ahead: dict[str, _Checkpoint] = {}  # read, but not asked for yet

    def log_start(self, log: ListedLog) -> int:
        """Returns the offset below which this directory's records are deleted, or 0. Its files may still hold such
        records."""
        return self.entry(log, kafka_format.LOG_START_CHECKPOINT) or 0

    def is_cleaned(self, log: ListedLog) -> bool:
        """Whether the broker has compacted this partition. Gaps between its offsets are then no sign of loss."""
        return self.entry(log, kafka_format.CLEANER_CHECKPOINT) is not None

    def high_watermark(self, log: ListedLog) -> int:
        """Returns the offset below which every in-sync replica has each record.

        Raises OptionError if the checkpoint does not record it, and StorageError if the checkpoint cannot be read.
        """
        checkpoint = self._read_beside(log, kafka_format.HIGH_WATERMARK_CHECKPOINT)
        offset = checkpoint.entries.get(named_partition(log.directory) or ("", -1))
        if offset is not None:
            return offset
        if checkpoint.failed is not None:
            raise checkpoint.failed
        why = "does not exist" if checkpoint.missing else checkpoint.fault or "does not list that directory"
        raise OptionError(
            f"option 'endAt' is 'highWatermark', but of {log.directory!r} it is not known: {checkpoint.path!r} {why};"
            " endAt=end reads to the end of the files",
            options=("endAt",),
        )

    def high_watermark_if_known(self, log: ListedLog) -> int:
        """Returns the high watermark of a log, or MAX_OFFSET where no such checkpoint lies beside the directory.

        A checkpoint that does not list the directory gives 0: a broker adds a new partition within seconds. Raises
        OptionError for a checkpoint that is damaged, and StorageError for one that cannot be read.
        """
        named = named_partition(log.directory)
        checkpoint = self._read_beside(log, kafka_format.HIGH_WATERMARK_CHECKPOINT)
        if named is None or checkpoint.missing:
            return kafka_format.MAX_OFFSET
        if checkpoint.fault is None and named not in checkpoint.entries:
            self._warnings.add(
                f"checkpoint {checkpoint.path!r} does not list {log.directory!r} yet, so nothing of it is read;"
                " endAt=end reads to the end of the files",
                "not in the checkpoint",
            )
            return 0
        return self.high_watermark(log)

    def entry(self, log: ListedLog, name: str) -> int | None:
        """Returns the checkpoint's entry for this directory, or None.

        The entry is found by the directory's own name. The options `topic` and `partition` do not change it.
        """
        named = named_partition(log.directory)
        return None if named is None else self._read_beside(log, name).entries.get(named)

    def entries(self, log_directory: str, name: str) -> Mapping[TopicPartition, int]:
        """Returns all entries of a checkpoint of a log directory."""
        return self._read_once(join_path(log_directory, name)).entries

    def _read_beside(self, log: ListedLog, name: str) -> _Checkpoint:
        return self._read_once(join_path(parent_of(log.directory), name))

    def _read_once(self, path: str) -> _Checkpoint:
        if path not in self._read:
            if path not in self._ahead:
                self._read_ahead(path)
            self._read[path] = self._ahead.pop(path)
            if self._read[path].fault is not None:
                self.faults.append(f"checkpoint {path!r} {self._read[path].fault}")
                self._warnings.add(f"{self.faults[-1]}; nothing that it says is used", "unusable checkpoint")
        return self._read[path]

    def _read_ahead(self, path: str) -> None:
        """Reads a checkpoint. Where a read takes a round trip, it reads those beside it at the same time."""
        at_once = self.storage.read_cost(path).at_once
        paths = [path] if at_once == 1 else [join_path(parent_of(path), name) for name in kafka_format.CHECKPOINTS]
        for other_path, checkpoint in zip(
            paths, map_ahead(lambda at: _read_checkpoint(at, self.storage), paths, at_once), strict=True
        ):
            self._ahead[other_path] = checkpoint


def _read_checkpoint(path: str, storage: Storage) -> _Checkpoint:
    try:
        data = _read_file(path, storage, _MOST_BYTES)
        return _Checkpoint(path, missing=True) if data is None else _Checkpoint(path, parse_checkpoint(data))
    except UNUSABLE as error:
        failed = error if isinstance(error, StorageError) else None
        return _Checkpoint(path, fault=f"cannot be read ({error})", failed=failed)
    except ValueError as error:
        return _Checkpoint(path, fault=f"is damaged: {error}")


def _read_file(path: str, storage: Storage, most: int) -> bytes | None:
    """Returns the file's bytes, or None if the file does not exist.

    Raises an error of UNUSABLE if the file cannot be read or has more than `most` bytes.
    """
    try:
        with InputFile(path, storage) as file:
            return file.read_all(most)
    except FileChangedError:
        return None
