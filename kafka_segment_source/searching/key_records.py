"""Searches one file for the records of a key. Damage is said, and does not end the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.arrow import build_varying
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.header_table import has_bit
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError, KafkaSegmentError
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.searching.blocks import Rows, may_match, take_records
from kafka_segment_source.searching.key_files import KeyFile
from kafka_segment_source.searching.pattern import Pattern
from kafka_segment_source.trust import Trust

_PIECE = 1024 * 1024


class KeyRecord(NamedTuple):
    """A record with the key.

    position: of its batch, in bytes.
    timestamp: ms.
    size: bytes of key and value.
    """

    offset: int
    timestamp: int
    position: int
    size: int
    is_tombstone: bool
    is_transactional: bool


class _Noted(Damage):
    """Keeps what is damaged, and up to which byte it is skipped."""

    def __init__(self) -> None:
        super().__init__(drop=True)
        self.ends: list[tuple[DataError, int | None]] = []

    def report(self, error: DataError) -> None:
        self.allow(error)
        self.ends.append((self.explain(error), None))

    def skip(self, error: DataError, end: int) -> None:
        self.ends.append((self.explain(error), end))


def search_file(file: KeyFile, key: bytes, trust: Trust, unsearched: list[str]) -> Iterator[KeyRecord]:
    """Yields the records of a file that have exactly this key, in order.

    unsearched: gets a sentence for each part that could not be searched.
    """
    split = SegmentSplit(
        path=file.path,
        topic=file.topic,
        partition=file.partition,
        start=0,
        end=file.size,
        segment_size=file.size,
        base_offset=file.base_offset,
        next_base_offset=None,
        bounds=ScanBounds(),
        version=file.version,
        storage=file.storage,
    )
    damage = _Noted()
    pattern = Pattern(key, fixed=True)
    end = 0
    try:
        with SplitFile(split, trust, damage) as source:
            decoder = source.decoder(include_control=False)
            for chunk in source.chunks():
                end = int(chunk.headers[batch_headers.POSITION, -1] + chunk.headers[batch_headers.SIZE, -1])
                for records in decoder.decode(chunk):
                    yield from _find_records(records, key, pattern)
            for error, stop in damage.ends:
                unsearched.append(f"could not be searched: {error}{_look_at(source, error.position, stop, key)}")
                end = max(end, stop or 0)
            if not _is_zero(source, end, file.size):
                unsearched.append(
                    f"could not be searched: bytes {end:,} to {file.size:,} of {file.path}, which follow its last whole"
                    f" batch{_look_at(source, end, file.size, key)}"
                )
    except KafkaSegmentError as error:
        unsearched.append(f"could not be searched to its end: {file.path}: {error}")


def _find_records(records: RecordColumns, key: bytes, pattern: Pattern) -> Iterator[KeyRecord]:
    rows: Rows = may_match(records, pattern) if key else np.arange(records.count)
    rows = rows[records.ints[record_batches.KEY_LENGTH, rows] == len(key)]
    if not len(rows):
        return
    chosen = take_records(records, rows)
    starts, lengths = chosen.ints[record_batches.KEY_AT], chosen.ints[record_batches.KEY_LENGTH]
    keys = build_varying(chosen.source, starts, lengths, chosen.count, chosen.key_bytes, pa.binary())
    for row in np.flatnonzero([row_key == key for row_key in keys.to_pylist()]).tolist():
        header = chosen.headers[:, chosen.ints[record_batches.BATCH, row]]
        length = int(chosen.ints[record_batches.VALUE_LENGTH, row])
        yield KeyRecord(
            int(chosen.longs[record_batches.OFFSET, row]),
            int(chosen.longs[record_batches.TIMESTAMP, row]),
            int(header[batch_headers.POSITION]),
            len(key) + max(length, 0),
            length < 0,
            bool(has_bit(header, kafka_format.TRANSACTIONAL_MASK)),
        )


def _is_zero(source: SplitFile, start: int, end: int) -> bool:
    """Whether all bytes from `start` to `end` are zeros, as a broker preallocates them."""
    return all(not any(source.read_at(at, min(_PIECE, end - at))) for at in range(start, end, _PIECE))


def _look_at(source: SplitFile, start: int, end: int | None, key: bytes) -> str:
    """Says whether the plain bytes of a key are in a part of a file that is not records."""
    if end is None or not key:
        return ""
    for at in range(start, end, _PIECE):
        at_byte = source.read_at(at, min(_PIECE + len(key) - 1, end - at)).find(key)
        if at_byte >= 0:
            return f"; the bytes of the key are there, at byte {at + at_byte:,}"
    return ""
