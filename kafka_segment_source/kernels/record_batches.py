"""Records of magic 2 batches → the places of each wanted record's parts. Every record byte is checked here.

Nothing is copied here. `arrow_buffers.py` and `record_rows.py` copy the parts that the caller wants, from the places
that are checked here.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.primitives import FAILED, read_varint, read_varlong

# Rows of the int64 table. Each column is one record.
OFFSET = 0
TIMESTAMP = 1  # ms
LONGS = 2

# Rows of the int32 table. Each column is one record. Positions are in the source buffer.
BATCH = 0  # column of the header table
KEY_AT = 1
KEY_LENGTH = 2  # -1 null
VALUE_AT = 3
VALUE_LENGTH = 4  # -1 null
HEADERS_AT = 5
HEADERS_COUNT = 6
TIMESTAMP_TYPE = 7
INTS = 8

# Bounds, int64[4], all inclusive
FIRST_OFFSET = 0
LAST_OFFSET = 1
FIRST_TIMESTAMP = 2
LAST_TIMESTAMP = 3

# The cursor, int64[CURSOR]: where the next call goes on. It is all zeros for the first call.
AT_BATCH = 0  # column of the header table
AT_RECORD = 1  # 0: at the start of the batch
AT_BYTE = 2
AT_DELTA = 3  # offset delta of the record before; in a message set, the offset of the message before
AT_SHIFT = 4  # message sets: the number that makes a wrapper's inner offsets absolute
CURSOR = 5

# The report, int64[REPORT]. After an error, the cursor is at the batch of the error.
STATUS = 0
FAULT_AT = 1  # position in the source buffer
FOUND = 2  # the impossible value; BAD_VARINT: how many bytes were left for the varint
KEY_BYTES = 3  # of all keys that were found; not after an error
VALUE_BYTES = 4
USED = 5  # what counts for the limit BYTES; not after an error, and not of message sets
REPORT = 6

# Limits, int64[LIMITS]. Each record header counts as HEADER_COST more bytes, as two bytes of a record can be a header.
HEADER_COST = 32
ROWS = 0
BYTES = 1
HEADERS = 2  # of one record
LIMITS = 3

# Status
DONE = 0
FULL = 1  # a limit was reached: take the rows and call again
BAD_VARINT = 2
BAD_RECORD_LENGTH = 3
BAD_FIELD_LENGTH = 4
RECORD_NOT_USED_UP = 5
BATCH_NOT_USED_UP = 6
BAD_HEADERS_COUNT = 7
BAD_OFFSET_DELTA = 8
TOO_MANY_HEADERS = 9


@inline
def _field(src, at, end):
    """Reads a length and skips its bytes: (start, length, position after, status).

    After an error, length is the value found. Kafka writes -1 for null, and reads any negative length as null.
    """
    length, start = read_varint(src, at, end)
    if start == FAILED:
        return at, end - at, at, BAD_VARINT
    if length > end - start:
        return at, length, at, BAD_FIELD_LENGTH
    return start, length, start + max(length, 0), DONE


@inline
def _headers(src, at, end, count):
    """Checks `count` headers, whose keys are never null: (position after, value found, status)."""
    for _ in range(count):
        _, length, after, status = _field(src, at, end)
        if status == DONE and length < 0:
            status = BAD_FIELD_LENGTH
        if status != DONE:
            return at, length, status
        at = after
        _, length, after, status = _field(src, at, end)
        if status != DONE:
            return at, length, status
        at = after
    return at, np.int64(0), DONE


@inline
def _record(src, start, end):
    """Checks one record to its last byte: (status, position after or of the fault, value found, its parts)."""
    none = (np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    length, at = read_varint(src, start, end)
    if at == FAILED:
        return BAD_VARINT, start, end - start, none
    if length < 1 or length > end - at:
        return BAD_RECORD_LENGTH, start, length, none
    stop = at + length
    timestamp_delta, after = read_varlong(src, at + 1, stop)  # past the attributes byte, which is unused
    if after == FAILED:
        return BAD_VARINT, at + 1, stop - at - 1, none
    at = after
    offset_delta, after = read_varint(src, at, stop)
    if after == FAILED:
        return BAD_VARINT, at, stop - at, none
    key_at, key_length, at, status = _field(src, after, stop)
    if status != DONE:
        return status, at, key_length, none
    value_at, value_length, at, status = _field(src, at, stop)
    if status != DONE:
        return status, at, value_length, none
    headers_count, headers_at = read_varint(src, at, stop)
    if headers_at == FAILED:
        return BAD_VARINT, at, stop - at, none
    if headers_count < 0 or headers_count > (stop - headers_at) // kafka_format.MIN_HEADER_BYTES:
        return BAD_HEADERS_COUNT, at, headers_count, none
    at = headers_at
    if headers_count > 0:  # this test saves a fifth of the time, since most records have no headers
        at, found, status = _headers(src, headers_at, stop, headers_count)
        if status != DONE:
            return status, at, found, none
    if at != stop:
        return RECORD_NOT_USED_UP, at, stop - at, none
    parts = (timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, headers_at, headers_count)
    return DONE, stop, np.int64(0), parts


@inline
def find_records(src, batches, payloads, bounds, most_rows, most_bytes, most_headers, cursor, longs, ints, report):
    """The loop of `decode_records`, for other kernels. The limits are numbers."""
    n = 0
    used = 0
    key_bytes = 0
    value_bytes = 0
    report[STATUS] = DONE
    for b in range(cursor[AT_BATCH], batches.shape[1]):
        cursor[AT_BATCH] = b
        at = cursor[AT_BYTE] if cursor[AT_RECORD] > 0 else payloads[0, b]
        previous = cursor[AT_DELTA] if cursor[AT_RECORD] > 0 else np.int64(-1)
        base_offset = batches[batch_headers.BASE_OFFSET, b]
        for record in range(cursor[AT_RECORD], batches[batch_headers.COUNT, b]):
            if n >= most_rows or used >= most_bytes:
                cursor[AT_RECORD], cursor[AT_BYTE], cursor[AT_DELTA] = record, at, previous
                report[STATUS], report[KEY_BYTES], report[VALUE_BYTES], report[USED] = (
                    FULL,
                    key_bytes,
                    value_bytes,
                    used,
                )
                return n
            status, after, found, parts = _record(src, at, payloads[1, b])
            if status == DONE and (
                parts[1] <= previous or parts[1] > batches[batch_headers.LAST_OFFSET, b] - base_offset
            ):
                status, after, found = BAD_OFFSET_DELTA, at, parts[1]
            if status != DONE:
                report[STATUS], report[FAULT_AT], report[FOUND] = status, after, found
                return n
            timestamp_delta, previous, key_at, key_length, value_at, value_length, headers_at, headers_count = parts
            used += after - at + HEADER_COST * headers_count
            at = after

            offset = base_offset + previous
            timestamp = batches[batch_headers.BASE_TIMESTAMP, b] + timestamp_delta
            timestamp_type = kafka_format.TIMESTAMP_TYPE_CREATE
            if batches[batch_headers.ATTRIBUTES, b] & kafka_format.TIMESTAMP_TYPE_MASK:
                timestamp = batches[batch_headers.MAX_TIMESTAMP, b]
                timestamp_type = kafka_format.TIMESTAMP_TYPE_LOG_APPEND
            if offset < bounds[FIRST_OFFSET] or offset > bounds[LAST_OFFSET]:
                continue
            if timestamp < bounds[FIRST_TIMESTAMP] or timestamp > bounds[LAST_TIMESTAMP]:
                continue
            if headers_count > most_headers:
                report[STATUS], report[FAULT_AT], report[FOUND] = TOO_MANY_HEADERS, headers_at, headers_count
                return n
            key_bytes += max(key_length, 0)
            value_bytes += max(value_length, 0)
            longs[OFFSET, n] = offset
            longs[TIMESTAMP, n] = timestamp
            ints[BATCH, n] = b
            ints[KEY_AT, n] = key_at
            ints[KEY_LENGTH, n] = key_length
            ints[VALUE_AT, n] = value_at
            ints[VALUE_LENGTH, n] = value_length
            ints[HEADERS_AT, n] = headers_at
            ints[HEADERS_COUNT, n] = headers_count
            ints[TIMESTAMP_TYPE, n] = timestamp_type
            n += 1
        if at != payloads[1, b]:
            report[STATUS], report[FAULT_AT], report[FOUND] = BATCH_NOT_USED_UP, at, payloads[1, b] - at
            return n
        cursor[AT_RECORD] = 0
    cursor[AT_BATCH] = batches.shape[1]
    report[KEY_BYTES], report[VALUE_BYTES], report[USED] = key_bytes, value_bytes, used
    return n


@kernel(
    "int64(uint8[::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1],"
    " int64[::1], int64[:,::1], int32[:,::1], int64[::1])"
)
def decode_records(src, batches, payloads, bounds, limits, cursor, longs, ints, report):
    """Fills one column of `longs` and `ints` for each record inside `bounds`. Returns their number.

    batches: header table, int64[headers.FIELDS, n]. payloads: int64[2, n], start and end of each batch's plain records
    in src. limits: rows and source bytes after which to stop with FULL, and the most headers of a record.

    Every length is checked against the remaining bytes before it is used. Every byte of a batch must belong to a
    record. Offsets must grow inside [baseOffset, lastOffset]. Kafka: DefaultRecord.readFrom,
    DefaultRecordBatch.RecordIterator.
    """
    rows, count, headers = limits[ROWS], limits[BYTES], limits[HEADERS]
    return find_records(src, batches, payloads, bounds, rows, count, headers, cursor, longs, ints, report)
