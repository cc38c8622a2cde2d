"""RecordColumns → pyarrow.RecordBatch. Only the requested columns are built, and Arrow takes over their buffers.

No Python object is made for a record. There are two exceptions, each for one batch with unusual data:

- Header keys are not UTF-8. Their wrong bytes are replaced, as Java's decoder replaces them.
- Microseconds cannot hold a timestamp. That is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source import kafka_format, schema
from kafka_segment_source.decoding.control_records import NO_TYPE, read_types
from kafka_segment_source.decoding.header_table import has_bit, is_control
from kafka_segment_source.decoding.records import RecordColumns, to_microseconds
from kafka_segment_source.decoding.scratch import MAX_ROWS
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import arrow_buffers, batch_headers, record_batches
from kafka_segment_source.storage.files import Bytes
from kafka_segment_source.storage.paths import name_of

_MIN_SEQUENCE_WRAP = 2**31
_KEYS_AT_ONCE = 65_536

Ints = npt.NDArray[np.int32]
Builder = Callable[[RecordColumns, SegmentSplit], pa.Array]


def to_record_batch(
    records: RecordColumns, split: SegmentSplit, arrow_schema: pa.Schema, builders: Mapping[str, Builder]
) -> pa.RecordBatch:
    """Makes one RecordBatch of exactly `arrow_schema`. It shares no memory with `records`.

    arrow_schema and builders belong to the same kind of table.
    """
    arrays = [builders[name](records, split) for name in arrow_schema.names]
    if not arrays:  # no column is requested: only the number of rows counts
        return schema.make_batch_without_columns(records.count)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def build_varying(source: Bytes, starts: Ints, lengths: Ints, n: int, size: int, kind: pa.DataType) -> pa.Array:
    """Builds a binary or string array of `n` slices of `source`. A negative length is a null. size: their bytes."""
    offsets, validity, data = np.empty(n + 1, np.int32), np.zeros((n + 7) // 8, np.uint8), np.empty(size, np.uint8)
    nulls: int = arrow_buffers.copy_parts(source, starts, lengths, n, offsets, validity, data)
    bitmap = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(kind, n, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _build_fixed(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Builds an array of a column of the kernels' tables, which is copied."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.copy())])


def _build_key(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    starts, lengths = records.ints[record_batches.KEY_AT], records.ints[record_batches.KEY_LENGTH]
    return build_varying(records.source, starts, lengths, records.count, records.key_bytes, pa.binary())


def _build_value(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    starts, lengths = records.ints[record_batches.VALUE_AT], records.ints[record_batches.VALUE_LENGTH]
    return build_varying(records.source, starts, lengths, records.count, records.value_bytes, pa.binary())


def _build_topic(records: RecordColumns, split: SegmentSplit) -> pa.Array:
    return repeat_value(split.topic, pa.string()).slice(0, records.count)


def _build_partition(records: RecordColumns, split: SegmentSplit) -> pa.Array:
    return repeat_value(split.partition, pa.int32()).slice(0, records.count)


@lru_cache(maxsize=4)  # the topics and partitions of two splits, of which threads decode both; a long name takes 16 MB
def repeat_value(value: str | int, kind: pa.DataType) -> pa.Array:
    """Repeats one value MAX_ROWS times. It is made once, since every batch of a task has the same value."""
    return pa.repeat(pa.scalar(value, kind), MAX_ROWS)


def _build_offset(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    return _build_fixed(records.longs[record_batches.OFFSET, : records.count], pa.int64())


def _build_timestamp(records: RecordColumns, split: SegmentSplit) -> pa.Array:
    micros, error = to_microseconds(split.path, records)
    if error is not None:
        raise error
    return pa.Array.from_buffers(schema.TIMESTAMP_TYPE, records.count, [None, pa.py_buffer(micros)])


def _spread_over_records(records: RecordColumns, values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Gives each record the value of its batch. values: int64[n] or bool[n], one for each batch."""
    return pa.array(values[records.ints[record_batches.BATCH, : records.count]], kind)


def _build_timestamp_type(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    return _build_fixed(records.ints[record_batches.TIMESTAMP_TYPE, : records.count], pa.int32())


def _build_headers(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    """Builds the column headers. It is null where a record has no headers, as in Spark's kafka source."""
    n = records.count
    counts = records.ints[record_batches.HEADERS_COUNT]
    offsets, validity = np.empty(n + 1, np.int32), np.zeros((n + 7) // 8, np.uint8)
    nulls: int = arrow_buffers.offsets_and_validity(counts, n, offsets, validity)
    total = int(offsets[n])
    parts, sizes = np.empty((4, total), np.int32), np.empty(2, np.int64)
    arrow_buffers.locate_headers(records.source, records.ints[record_batches.HEADERS_AT], counts, n, parts, sizes)
    keys = build_varying(records.source, parts[0], parts[1], total, int(sizes[0]), pa.string())
    values = build_varying(records.source, parts[2], parts[3], total, int(sizes[1]), pa.binary())
    pairs = pa.StructArray.from_arrays([_replace_invalid_utf8(keys), values], fields=list(schema.HEADER_TYPE))
    bitmap = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(schema.HEADERS_TYPE, n, [bitmap, pa.py_buffer(offsets)], nulls, children=[pairs])


def _replace_invalid_utf8(keys: pa.Array) -> pa.Array:
    """Replaces the bytes of keys that are not UTF-8.

    Each key becomes a Python object for a moment, so only _KEYS_AT_ONCE keys are handled at a time.
    """
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = keys.view(pa.binary())
        slices = (raw.slice(at, _KEYS_AT_ONCE).to_pylist() for at in range(0, len(raw), _KEYS_AT_ONCE))
        parts = [pa.array([key.decode("utf-8", "replace") for key in some], pa.string()) for some in slices]
        return pa.concat_arrays(parts)
    return keys


def _build_metadata(records: RecordColumns, split: SegmentSplit) -> pa.Array:
    """Builds one struct for each record. Its fields have the names that kafka-dump-log prints."""
    headers = records.headers
    codecs = pa.array(kafka_format.CODEC_NAMES, pa.string()).take(
        pa.array(headers[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK)
    )
    columns = [
        _spread_over_records(records, headers[batch_headers.BASE_OFFSET], pa.int64()),
        _spread_over_records(records, headers[batch_headers.POSITION], pa.int64()),
        _spread_over_records(records, headers[batch_headers.MAGIC], pa.int32()),
        codecs.take(pa.array(records.ints[record_batches.BATCH, : records.count])),
        _spread_over_records(records, headers[batch_headers.LEADER_EPOCH], pa.int32()),
        _spread_over_records(records, headers[batch_headers.PRODUCER_ID], pa.int64()),
        _spread_over_records(records, headers[batch_headers.PRODUCER_EPOCH], pa.int32()),
        _build_sequence(records),
        _spread_over_records(records, has_bit(headers, kafka_format.TRANSACTIONAL_MASK), pa.bool_()),
        pa.repeat(pa.scalar(split.path, pa.string()), records.count),
        pa.repeat(pa.scalar(name_of(split.path), pa.string()), records.count),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(schema.METADATA_TYPE))


def _build_sequence(records: RecordColumns) -> pa.Array:
    """Builds the sequence numbers: baseSequence + offset delta, which wraps to 0 after 2**31 - 1.

    The number is -1 where the producer is not idempotent.
    """
    batch = records.ints[record_batches.BATCH, : records.count]
    base = records.headers[batch_headers.BASE_SEQUENCE][batch]
    delta = records.longs[record_batches.OFFSET, : records.count] - records.headers[batch_headers.BASE_OFFSET][batch]
    sequence = np.where(base == kafka_format.NO_SEQUENCE, kafka_format.NO_SEQUENCE, (base + delta) % _MIN_SEQUENCE_WRAP)
    return pa.array(sequence.astype(np.int32))


def _build_control_type(records: RecordColumns, _: SegmentSplit) -> pa.Array:
    """Builds the type of each control record, with the names that kafka-dump-log prints. It is null for data.

    The control bit of the batch decides, since data may have the same key. UNKNOWN(n) is a type that Kafka 4.1 does not
    have, and UNKNOWN a key that is too short for a type (`clients.ControlRecordType`).
    """
    n = records.count
    rows = np.flatnonzero(is_control(records.headers)[records.ints[record_batches.BATCH, :n]])
    if not len(rows):
        return pa.nulls(n, pa.string())
    kinds, kind_of_row = np.unique(read_types(records, rows), return_inverse=True)
    places = np.full(n, len(kinds))
    places[rows] = kind_of_row
    return pa.array([*map(_name_control_type, kinds.tolist()), None], pa.string()).take(pa.array(places))


def _name_control_type(number: int) -> str:
    if 0 <= number < len(kafka_format.CONTROL_TYPES):
        return kafka_format.CONTROL_TYPES[number]
    return "UNKNOWN" if number == NO_TYPE else f"UNKNOWN({number})"


RECORD_BUILDERS: Mapping[str, Builder] = {
    "key": _build_key,
    "value": _build_value,
    "topic": _build_topic,
    "partition": _build_partition,
    "offset": _build_offset,
    "timestamp": _build_timestamp,
    "timestampType": _build_timestamp_type,
    "headers": _build_headers,
    "metadata": _build_metadata,
    "controlType": _build_control_type,
}
