"""Bytes → transaction markers: which batches hold data of transactions, and which records end them.

Markers lie in the log, under the CRC of their batches. So they are always there and can be trusted. Empty control
batches, which compaction leaves, and other types of control record have no meaning here.

Brokers answer from `.txnindex` files, but this package does not use them. They have no checksum. A lost file cannot be
distinguished from one that never existed. They would save the short look ahead only if an abort follows the range in
its segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.control_records import NO_TYPE, read_coordinator_epoch, read_types
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.header_table import has_producer, is_control
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.trust import Trust


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction, at an offset.

    timestamp: ms.
    coordinator_epoch: None if the value is null or too short.
    """

    producer_id: int
    offset: int
    aborts: bool
    timestamp: int = kafka_format.NO_TIMESTAMP
    coordinator_epoch: int | None = None


class Markers(NamedTuple):
    """The markers in a chunk, in offset order.

    errors: control records that could not be read.
    """

    markers: tuple[Marker, ...] = ()
    errors: tuple[DataError, ...] = ()

    @property
    def gaps(self) -> tuple[int, ...]:
        """The offsets of the control records that could not be read. Each may have been a marker."""
        return tuple(error.offset for error in self.errors if error.offset is not None)


class MarkerReader:
    """Reads the markers in chunks of one segment."""

    def __init__(self, split: SegmentSplit, trust: Trust, damage: Damage) -> None:
        self._split = split
        self._trust = trust
        self._damage = damage
        self._made: Decoder | None = None

    @property
    def _decoder(self) -> Decoder:
        """The decoder, made for the first marker. Most segments have none."""
        if self._made is None:
            everything = self._split._replace(bounds=ScanBounds())
            self._made = Decoder(everything, self._trust, self._damage, include_control=True)
        return self._made

    def read(self, chunk: Chunk) -> Markers:
        """Returns the markers in a chunk. Under FAILFAST it raises CorruptRecordError for an unreadable control
        record."""
        control = is_control(chunk.headers) & has_producer(chunk.headers)
        if not control.any():
            return Markers()
        seen = len(self._damage.skipped)
        markers: list[Marker] = []
        for records in self._decoder.decode(Chunk(chunk.data, chunk.headers[:, control], chunk.position)):
            markers += self._parse_markers(records)
        return Markers(tuple(markers), tuple(self._damage.skipped[seen:]))

    def _parse_markers(self, records: RecordColumns) -> Iterator[Marker]:
        n = records.count
        types = read_types(records, np.arange(n))
        for at in np.flatnonzero(types == NO_TYPE).tolist():
            header = records.headers[:, records.ints[record_batches.BATCH, at]]
            length = int(records.ints[record_batches.KEY_LENGTH, at])
            self._damage.report(Faults(self._split.path).short_control_key(header, length))
        producers = records.headers[batch_headers.PRODUCER_ID, records.ints[record_batches.BATCH, :n]]
        offsets, times = records.longs[[record_batches.OFFSET, record_batches.TIMESTAMP], :n]
        values = records.ints[[record_batches.VALUE_AT, record_batches.VALUE_LENGTH], :n].T
        columns = (types.tolist(), producers.tolist(), offsets.tolist(), times.tolist(), values.tolist())
        for kind, producer_id, offset, timestamp, (value_at, length) in zip(*columns, strict=True):
            if kind in (kafka_format.CONTROL_ABORT, kafka_format.CONTROL_COMMIT):
                value = None if length < 0 else bytes(records.source[value_at : value_at + length])
                aborts = kind == kafka_format.CONTROL_ABORT
                yield Marker(producer_id, offset, aborts, timestamp, read_coordinator_epoch(value))
