"""What a row of view=transactions is: its columns and states. And what a task reads: the log of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.schema import TIMESTAMP_TYPE, Column, Table

COMMITTED = "committed"
ABORTED = "aborted"
OPEN = "open"
UNKNOWN = "unknown"
STATES = (COMMITTED, ABORTED, OPEN, UNKNOWN)

TABLE = Table(
    (
        Column("topic", "string", pa.string()),
        Column("partition", "int", pa.int32()),
        Column("producerId", "bigint", pa.int64()),
        Column("producerEpoch", "int", pa.int32()),
        Column("firstOffset", "bigint", pa.int64()),
        Column("lastOffset", "bigint", pa.int64()),
        Column("state", "string", pa.string()),
        Column("batches", "bigint", pa.int64()),
        Column("records", "bigint", pa.int64()),
        Column("bytes", "bigint", pa.int64()),
        Column("firstTimestamp", "timestamp", TIMESTAMP_TYPE),
        Column("lastTimestamp", "timestamp", TIMESTAMP_TYPE),
        Column("durationMs", "bigint", pa.int64()),
        Column("coordinatorEpoch", "int", pa.int32()),
        Column("withheldRecords", "bigint", pa.int64()),
        Column("withheldBytes", "bigint", pa.int64()),
    )
)
"""What each column says is in docs/views.md."""


@dataclass(frozen=True, slots=True)
class TransactionTask:
    """The log of one partition.

    splits: whole segments, in order.
    start: the log start; earlier records cannot be read.
    holes: offsets from which on offsets are missing, by evidence that planning found.
    compacted: whether gaps between offsets are no loss.
    shown: the offsets of the given files, where paths name files and not the directory. A transaction with no part in
    them is no row.
    """

    topic: str
    partition: int
    splits: tuple[SegmentSplit, ...]
    start: int
    holes: tuple[int, ...]
    compacted: bool
    shown: tuple[OffsetRange, ...] | None
