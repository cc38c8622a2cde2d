"""Facts about some records at once: chunks of one split → Arrow batches of one row, which `totals.py` adds up.

No column of keys or values is made: sums need lengths, and estimates need hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.arrow import build_varying
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.record_rows import keep_wanted
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import MakeRows, SplitTable
from kafka_segment_source.kernels import arrow_buffers, batch_headers, key_hashes, record_batches
from kafka_segment_source.request import Content
from kafka_segment_source.schema import Column
from kafka_segment_source.statistics.heavy import keep_heaviest

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

LONGEST_KEY = 256  # bytes of a key or a header name that are kept; longer ones are cut
_ID_AT, _ID_BYTES = 1, 5  # of Confluent's prefix: a zero, and the id of four bytes

_HEAVY = pa.struct([("hash", pa.uint64()), ("weight", pa.int64()), ("key", pa.binary())])
_LARGE = pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("size", pa.int64()), ("key", pa.binary())])
_BY_ID = pa.struct([("id", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64())])
_BY_NAME = pa.struct([("id", pa.binary()), ("records", pa.int64()), ("bytes", pa.int64())])

SUMS = ("records", "keyBytes", "valueBytes", "headers", "headerBytes", "nullKeys", "tombstones")
"""headerBytes: of names and values. tombstones: null values."""

ERRORS = ("recordsError", "bytesError")
LISTS = {
    "hashes": pa.uint64(),
    "heavyByRecords": _HEAVY,
    "heavyByBytes": _HEAVY,
    "largest": _LARGE,
    "headerNames": _BY_NAME,
    "producers": _BY_ID,
    "keySchemas": _BY_ID,
    "valueSchemas": _BY_ID,
}


def block_table(most: int) -> SplitTable:
    """The table of the facts. most: how many of the largest records are kept."""
    columns = [
        Column("topic", "string", pa.string()),
        *(Column(name, "bigint", pa.int64()) for name in (*SUMS, *ERRORS)),
    ]
    columns += [Column(name, "array", pa.list_(kind)) for name, kind in LISTS.items()]
    make: MakeRows = partial(BlockRows, most)
    return SplitTable(tuple(columns), lambda: make)


class BlockRows:
    """Makes the facts of each block of records (a `RowMaker`)."""

    def __init__(self, most: int, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch) -> None:
        self._most = most
        self._split = source.split
        self._schema = schema
        keep = keep_wanted(content.raw_keys)
        self._decoder = source.decoder(content.include_control, scratch=scratch, keep=keep)

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for records in self._decoder.decode(chunk):
            last = int(records.longs[record_batches.OFFSET, records.count - 1])
            yield self._describe(records), last

    def _describe(self, records: RecordColumns) -> pa.RecordBatch:
        n = records.count
        key_lengths = records.ints[record_batches.KEY_LENGTH, :n]
        value_lengths = records.ints[record_batches.VALUE_LENGTH, :n]
        header_sizes, names, header_count = _measure_headers(records)
        sizes = np.maximum(key_lengths, 0).astype(np.int64) + np.maximum(value_lengths, 0) + header_sizes
        made: dict[str, object] = {
            "topic": self._split.topic,
            "records": n,
            "keyBytes": records.key_bytes,
            "valueBytes": records.value_bytes,
            "headers": header_count,
            "headerBytes": int(header_sizes.sum()),
            "nullKeys": int((key_lengths < 0).sum()),
            "tombstones": int((value_lengths < 0).sum()),
            "headerNames": names,
            "largest": self._find_largest(records, sizes),
            "producers": _sum_producers(records, sizes),
            "keySchemas": _sum_schemas(records, record_batches.KEY_AT, record_batches.KEY_LENGTH, sizes),
            "valueSchemas": _sum_schemas(records, record_batches.VALUE_AT, record_batches.VALUE_LENGTH, sizes),
            **_sum_keys(records, np.flatnonzero(key_lengths >= 0), sizes),
        }
        arrays = [
            _as_list(made[field.name], field.type) if field.name in LISTS else pa.array([made[field.name]], field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _find_largest(self, records: RecordColumns, sizes: Longs) -> pa.Array:
        count = min(self._most, len(sizes))
        rows = (
            np.argpartition(sizes, len(sizes) - count)[len(sizes) - count :] if count < len(sizes) else np.arange(count)
        )
        partitions = np.full(len(rows), self._split.partition, np.int32)
        offsets = records.longs[record_batches.OFFSET, rows]
        return _make_structs(_LARGE, partitions, offsets, sizes[rows], _take_keys(records, rows))


def _as_list(values: object, kind: pa.DataType) -> pa.Array:
    """One row: the list of these values."""
    assert isinstance(values, pa.Array)
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values).cast(kind)


def _make_structs(kind: pa.DataType, *columns: object) -> pa.Array:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, kind, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _take_keys(records: RecordColumns, rows: Longs) -> pa.Array:
    """Returns the keys of some rows, cut to LONGEST_KEY bytes."""
    starts = np.ascontiguousarray(records.ints[record_batches.KEY_AT, rows])
    lengths = np.minimum(records.ints[record_batches.KEY_LENGTH, rows], LONGEST_KEY).astype(np.int32)
    total = int(np.maximum(lengths, 0).sum())
    return build_varying(records.source, starts, lengths, len(rows), total, pa.binary())


def _sum_keys(records: RecordColumns, rows: Longs, sizes: Longs) -> dict[str, object]:
    """Adds up the rows that have a key, by the key: their number, and the bytes of the records."""
    starts = np.ascontiguousarray(records.ints[record_batches.KEY_AT, rows])
    lengths = np.ascontiguousarray(records.ints[record_batches.KEY_LENGTH, rows])
    hashes = np.empty(len(rows), np.uint64)
    key_hashes.hash_parts(records.source, starts, lengths, len(rows), hashes)
    slots = np.full(1 << max(2 * len(rows), 1).bit_length(), -1, np.int64)
    first, sums = np.empty(len(rows), np.int64), np.empty((2, len(rows)), np.int64)
    count = key_hashes.sum_by_hash(hashes, sizes[rows], len(rows), slots, first, sums)
    first = first[:count]
    made: dict[str, object] = {"hashes": pa.array(hashes[first])}
    for row, name, error_name in ((0, "heavyByRecords", "recordsError"), (1, "heavyByBytes", "bytesError")):
        places, weights, error = keep_heaviest(sums[row, :count])
        keys = _take_keys(records, rows[first[places]])
        made[name] = _make_structs(_HEAVY, hashes[first[places]], weights, keys)
        made[error_name] = error
    return made


def _measure_headers(records: RecordColumns) -> tuple[Longs, pa.Array, int]:
    """Returns the bytes of each record's headers, the sums of each header name, and the number of headers."""
    n = records.count
    counts = records.ints[record_batches.HEADERS_COUNT, :n]
    total = int(counts.sum(dtype=np.int64))
    if not total:
        return np.zeros(n, np.int64), pa.array([], _BY_NAME), 0
    parts, sums = np.empty((4, total), np.int32), np.empty(2, np.int64)
    at = records.ints[record_batches.HEADERS_AT]
    arrow_buffers.locate_headers(records.source, at, records.ints[record_batches.HEADERS_COUNT], n, parts, sums)
    sizes = parts[1].astype(np.int64) + np.maximum(parts[3], 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])[np.concatenate([[0], np.cumsum(counts)])]
    lengths = np.minimum(parts[1], LONGEST_KEY)
    names = build_varying(records.source, parts[0], lengths, total, int(lengths.sum(dtype=np.int64)), pa.binary())
    by_name = pa.table({"id": names, "bytes": sizes}).group_by("id").aggregate([("bytes", "count"), ("bytes", "sum")])
    columns = (by_name[name].combine_chunks() for name in ("id", "bytes_count", "bytes_sum"))
    return np.diff(ends), _make_structs(_BY_NAME, *columns), total


def _sum_producers(records: RecordColumns, sizes: Longs) -> pa.Array:
    of_row = records.ints[record_batches.BATCH, : records.count]
    counts = np.bincount(of_row, minlength=records.headers.shape[1])
    sums = np.bincount(of_row, weights=sizes, minlength=records.headers.shape[1]).astype(np.int64)
    there = np.flatnonzero(counts)
    return _sum_ids(records.headers[batch_headers.PRODUCER_ID, there], counts[there], sums[there])


def _sum_schemas(records: RecordColumns, at: int, length: int, sizes: Longs) -> pa.Array:
    """Adds up records by the id of a schema in Confluent's prefix: a zero, and a positive number of four bytes."""
    is_long = records.ints[length, : records.count] >= _ID_BYTES
    starts = np.where(is_long, records.ints[at, : records.count], 0)
    rows = np.flatnonzero(is_long & (records.source[starts] == 0))
    starts = starts[rows]
    ids = np.zeros(len(rows), np.int64)
    for byte in range(_ID_AT, _ID_BYTES):
        ids = ids << 8 | records.source[starts + byte]
    is_positive = (ids > 0) & (ids < 2**31)
    return _sum_ids(ids[is_positive], np.ones(int(is_positive.sum()), np.int64), sizes[rows[is_positive]])


def _sum_ids(ids: Longs, counts: Longs, sizes: Longs) -> pa.Array:
    distinct, inverse = np.unique(ids, return_inverse=True)
    sums = np.zeros((2, len(distinct)), np.int64)
    np.add.at(sums[0], inverse, counts)
    np.add.at(sums[1], inverse, sizes)
    return _make_structs(_BY_ID, distinct, sums[0], sums[1])
