"""The rows of view=batches: header tables of one split → Arrow batches. It needs no bytes of records.

Which batches are rows (docs/views.md):

- By offsets: a batch whose last offset lies in the bounds. So splits that share a batch give it once.
- By time: a batch lasts from its first record's timestamp to its largest one. It is a row if that time has a part in
  the bounds. A batch that holds no record is no row then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source import batch_kinds, kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.header_table import (
    Mask,
    has_append_time,
    has_bit,
    is_control,
    is_wrapper,
    record_counts,
)
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.request import Content
from kafka_segment_source.schema import make_batch_without_columns, timestamp_array

Longs = npt.NDArray[np.int64]
_CODECS = [*kafka_format.CODEC_NAMES]
_CODECS += [f"unknown({number})" for number in range(len(_CODECS), kafka_format.CODEC_MASK + 1)]


class BatchRows:
    """Makes a row of each wanted batch of a chunk (a `RowMaker`)."""

    def __init__(self, source: SplitFile, content: Content, schema: pa.Schema, _: Scratch) -> None:
        self._split = source.split
        self._include_control = content.include_control
        self._schema = schema

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        wanted = _select_batches(chunk.headers, self._split.bounds, self._include_control)
        if not wanted.any():
            return
        headers = chunk.headers if wanted.all() else chunk.headers[:, wanted]
        yield _to_record_batch(headers, self._split, self._schema), int(headers[batch_headers.LAST_OFFSET, -1])


def _to_record_batch(headers: HeaderTable, split: SegmentSplit, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [BATCH_BUILDERS[name](headers, split) for name in schema.names]
    if not arrays:  # no column is requested: only the number of rows counts
        return make_batch_without_columns(headers.shape[1])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _select_batches(headers: HeaderTable, bounds: ScanBounds, include_control: bool) -> Mask:
    last, times = headers[batch_headers.LAST_OFFSET], bounds.times
    wanted = (last >= bounds.offsets.start) & (last < bounds.offsets.end)
    if not include_control:
        wanted &= ~is_control(headers)
    if times.has_since or times.has_until:
        first, largest = time_span(headers)
        wanted &= (headers[batch_headers.COUNT] != 0) & (largest >= times.since)
        if times.has_until:
            wanted &= first < times.until
    return np.asarray(wanted)


def time_span(headers: HeaderTable) -> tuple[Longs, Longs]:
    """The timestamps of the first record and of the largest one, in ms.

    Some headers state only the largest: under LogAppendTime, with a delete horizon, and those of wrappers.
    """
    largest = headers[batch_headers.MAX_TIMESTAMP]
    states_first = batch_kinds.states_first_timestamp(headers[batch_headers.MAGIC], headers[batch_headers.ATTRIBUTES])
    return np.where(states_first, np.minimum(headers[batch_headers.BASE_TIMESTAMP], largest), largest), largest


def _build_int(row: int, kind: type[np.signedinteger[Any]]) -> Callable[[HeaderTable, SegmentSplit], pa.Array]:
    return lambda headers, _: pa.array(headers[row].astype(kind))


def _build_flag(mask: int) -> Callable[[HeaderTable, SegmentSplit], pa.Array]:
    return lambda headers, _: pa.array(has_bit(headers, mask))


def _build_base_offset(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    """A wrapper of magic 0 or 1 has many records, and states only the last offset."""
    return pa.array(headers[batch_headers.BASE_OFFSET].copy(), mask=is_wrapper(headers))


def _build_count(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    return pa.array(record_counts(headers).astype(np.int32), mask=is_wrapper(headers))


def _build_base_timestamp(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    known = ~has_bit(headers, kafka_format.DELETE_HORIZON_MASK) & ~is_wrapper(headers)
    return timestamp_array(headers[batch_headers.BASE_TIMESTAMP], known)


def _build_max_timestamp(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    return timestamp_array(headers[batch_headers.MAX_TIMESTAMP])


def _build_delete_horizon(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    """With a delete horizon, a header has it in place of the base timestamp (KIP-534)."""
    return timestamp_array(headers[batch_headers.BASE_TIMESTAMP], has_bit(headers, kafka_format.DELETE_HORIZON_MASK))


def _build_timestamp_type(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    types = np.where(
        has_append_time(headers), kafka_format.TIMESTAMP_TYPE_LOG_APPEND, kafka_format.TIMESTAMP_TYPE_CREATE
    )
    types[headers[batch_headers.MAGIC] == kafka_format.MAGIC_V0] = kafka_format.TIMESTAMP_TYPE_NONE
    return pa.array(types.astype(np.int32))


def _build_codec(headers: HeaderTable, _: SegmentSplit) -> pa.Array:
    numbers = headers[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK
    if (numbers == numbers[0]).all():
        return _repeat(_CODECS[numbers[0]], pa.string(), len(numbers))
    return pa.array(_CODECS, pa.string()).take(pa.array(numbers))


@lru_cache(maxsize=8)  # of the batches of a task, most have the same topic, partition, file and codec
def _repeat_many(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _repeat(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """One value for each of `count` batches. The array is longer and made once, as chunks are of similar sizes."""
    return _repeat_many(value, kind, 1 << (count - 1).bit_length()).slice(0, count)


BATCH_BUILDERS: Mapping[str, Callable[[HeaderTable, SegmentSplit], pa.Array]] = {
    "topic": lambda headers, split: _repeat(split.topic, pa.string(), headers.shape[1]),
    "partition": lambda headers, split: _repeat(split.partition, pa.int32(), headers.shape[1]),
    "baseOffset": _build_base_offset,
    "lastOffset": _build_int(batch_headers.LAST_OFFSET, np.int64),
    "count": _build_count,
    "position": _build_int(batch_headers.POSITION, np.int64),
    "size": _build_int(batch_headers.SIZE, np.int32),
    "magic": _build_int(batch_headers.MAGIC, np.int32),
    "compresscodec": _build_codec,
    "timestampType": _build_timestamp_type,
    "baseTimestamp": _build_base_timestamp,
    "maxTimestamp": _build_max_timestamp,
    "partitionLeaderEpoch": _build_int(batch_headers.LEADER_EPOCH, np.int32),
    "producerId": _build_int(batch_headers.PRODUCER_ID, np.int64),
    "producerEpoch": _build_int(batch_headers.PRODUCER_EPOCH, np.int32),
    "baseSequence": _build_int(batch_headers.BASE_SEQUENCE, np.int32),
    "isTransactional": _build_flag(kafka_format.TRANSACTIONAL_MASK),
    "isControl": _build_flag(kafka_format.CONTROL_MASK),
    "deleteHorizon": _build_delete_horizon,
    "crc": _build_int(batch_headers.CRC, np.int64),
    "file_path": lambda headers, split: _repeat(split.path, pa.string(), headers.shape[1]),
}
