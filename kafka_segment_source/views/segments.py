"""view=segments: one row a `.log`, from names, sizes and index files. No `.log` is opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafka_segment_source.logdir.segments import ListedLog, Segment
from kafka_segment_source.reporting import few, logger
from kafka_segment_source.schema import MAX_MILLIS, TIMESTAMP_TYPE, Column, Table
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.index_files import (
    Task,
    plan_segments,
    read_aborts,
    read_offsets,
    read_segments,
    read_times,
)
from kafka_segment_source.views.view import View, to_batches

_TABLE = Table(
    (
        Column("topic", "string", pa.string()),
        Column("partition", "int", pa.int32()),
        Column("baseOffset", "bigint", pa.int64()),
        Column("nextBaseOffset", "bigint", pa.int64()),
        Column("size", "bigint", pa.int64()),
        Column("indexEntries", "bigint", pa.int64()),
        Column("timeIndexEntries", "bigint", pa.int64()),
        Column("largestTimestamp", "timestamp", TIMESTAMP_TYPE),
        Column("largestTimestampOffset", "bigint", pa.int64()),
        Column("isActive", "boolean", pa.bool_()),
        Column("abortedTransactions", "bigint", pa.int64()),
        Column("changed", "timestamp", TIMESTAMP_TYPE),
        Column("file_path", "string", pa.string()),
    )
)


def _read_rows(task: Task, _: Source, __: Policy) -> Iterator[pa.RecordBatch]:
    faults: list[str] = []

    def rows() -> Iterator[dict[str, Any]]:
        for row, said in read_segments(task, _make_row):
            faults.extend(said)
            yield row

    yield from to_batches(rows(), _TABLE)
    for fault in few(faults):
        logger.warning("%s; its columns are null", fault)


def _make_row(log: ListedLog, segment: Segment) -> tuple[dict[str, Any], list[str]]:
    """Returns the row of a segment, and a sentence about each index file that is damaged or missing."""
    offsets, offsets_fault = read_offsets(segment)
    times, times_fault = read_times(segment)
    aborts, aborts_fault = read_aborts(segment)
    timestamp = largest_offset = None
    if times_fault is None and len(times):
        largest, largest_offset = int(times.timestamps[-1]), int(times.offsets[-1])
        timestamp = largest * 1000 if largest <= MAX_MILLIS else None
    row = {
        "topic": log.topic,
        "partition": log.partition,
        "baseOffset": segment.base_offset,
        "nextBaseOffset": segment.next_base_offset,
        "size": segment.size,
        "indexEntries": len(offsets) if offsets_fault is None else None,
        "timeIndexEntries": len(times) if times_fault is None else None,
        "largestTimestamp": timestamp,
        "largestTimestampOffset": largest_offset,
        "isActive": segment.is_last,
        "abortedTransactions": len(aborts) if aborts_fault is None else None,
        "changed": segment.version.changed // 1000 or None,
        "file_path": segment.path,
    }
    return row, [fault for fault in (offsets_fault, times_fault, aborts_fault) if fault is not None]


VIEW = View(_TABLE, plan_segments, _read_rows)
