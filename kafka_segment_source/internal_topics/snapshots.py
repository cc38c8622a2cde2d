"""Finds and reads the snapshots of `__cluster_metadata`: `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`.

A snapshot has the format of a segment. It begins with the control record SNAPSHOT_HEADER and ends with SNAPSHOT_FOOTER,
and holds what the log says before its end offset. One without both, or with damage, was not finished (KIP-630).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.tables import RECORDS, Reading
from kafka_segment_source.errors import DataError, DataLossError
from kafka_segment_source.internal_topics.log_records import TopicRead
from kafka_segment_source.internal_topics.messages import MessageError, MessageReader
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content
from kafka_segment_source.scanning import read_split
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import list_directory
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import Kind
from kafka_segment_source.trust import Policy, Trust

_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_HEADER, _FOOTER = "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"  # of kafka_format.CONTROL_TYPES


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole snapshot.

    values: of its records, in order.
    end_offset: the first offset that it does not cover.
    """

    path: str
    end_offset: int
    values: tuple[bytes | None, ...]


def newest_snapshot(topic: str, directories: Iterable[str], read: TopicRead, warnings: Warnings) -> Snapshot | None:
    """Returns the newest whole snapshot of some directories, or None if there is none.

    With `until`, only one whose log ended before that moment. warnings: gets a sentence for each newer one that is not
    whole.
    """
    storage = read.source.storage
    snapshots = []
    for directory in dict.fromkeys(directories):
        for entry in list_directory(directory, storage):
            name = _NAME.fullmatch(entry.name)
            if name is not None and entry.kind is Kind.FILE:
                snapshots.append((int(name[1]), int(name[2]), join_path(directory, entry.name), entry.size))
    for end_offset, _, path, size in sorted(snapshots, reverse=True):
        try:
            moment, values = _read(topic, path, size, read.source, read.policy.trust)
        except (DataError, DataLossError, MessageError) as error:
            warnings.add(
                f"the snapshot {path!r} is not whole, so an older state is read, and the log after it: {error}"
            )
            continue
        if read.until is None or moment < read.until:
            return Snapshot(path, end_offset, values)
    return None


def _read(topic: str, path: str, size: int, source: Source, trust: Trust) -> tuple[int, tuple[bytes | None, ...]]:
    """Returns the timestamp of the last record that a snapshot covers (epoch ms), and its values.

    Raises MessageError if the header or the footer is missing.
    """
    split = SegmentSplit(
        path,
        topic,
        0,
        0,
        size,
        size,
        base_offset=0,
        next_base_offset=None,
        bounds=ScanBounds(),
        storage=source.storage,
    )
    reading = Reading(source, Policy(trust, reads_control=True), Content(include_control=True), RECORDS)
    values: list[bytes | None] = []
    moment: int | None = None
    last: str | None = None
    for batch in read_split(split, reading, RECORDS.arrow_schema(["controlType", "value"])):
        for control, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            last = control
            if control is None:
                values.append(value)
            elif control == _HEADER:
                moment = _read_header(value)
    if moment is None or last != _FOOTER:
        raise MessageError(f"it has no {_HEADER if moment is None else _FOOTER}")
    return moment, tuple(values)


def _read_header(value: bytes | None) -> int:
    """Returns the timestamp of the last record that the snapshot covers, in epoch ms (`SnapshotHeaderRecord`)."""
    reader = MessageReader(value or b"")
    reader.read_int16()  # version
    return reader.read_int64()
