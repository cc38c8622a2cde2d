"""Messages of magic 0 and 1 → the places of each wanted message's parts. Tables are those of record_batches.

The cursor and the report are the same too. A shallow entry is either one plain message or a wrapper. The decompressed
value of a wrapper is a message set again. The wrapper's magic decides whether inner offsets are relative (1) or
absolute (0). The inner message's own magic decides whether it has a timestamp. An old cleaner could make the two magics
differ (KAFKA-4298). Kafka: AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.crc32 import crc32
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.primitives import read_int32, read_int64

# Status, after those of record_batches
TRUNCATED = 20  # an inner message that ends after its set; Kafka drops it without an error
BAD_MESSAGE_LENGTH = 21
BAD_MESSAGE_MAGIC = 22
BAD_MESSAGE_CRC = 23
EMPTY_WRAPPER = 24
NESTED_WRAPPER = 25
BAD_WRAPPER_OFFSET = 26
BAD_MESSAGE_OFFSET = 27


@inline
def _frame(src, at, end):
    """Frames the entry at src[at:end]: (status, position after it or of the fault, value found, magic)."""
    if end - at < kafka_format.LOG_OVERHEAD:
        return TRUNCATED, at, end - at, np.int64(0)
    size = read_int32(src, at + kafka_format.LENGTH_AT)
    if size < kafka_format.MIN_LENGTH_V0:
        return BAD_MESSAGE_LENGTH, at, size, np.int64(0)
    if size > end - at - kafka_format.LOG_OVERHEAD:
        return TRUNCATED, at, size, np.int64(0)
    magic = np.int64(src[at + kafka_format.MAGIC_AT])
    if magic > kafka_format.MAGIC_V1:
        return BAD_MESSAGE_MAGIC, at, magic, magic
    if magic == kafka_format.MAGIC_V1 and size < kafka_format.MIN_LENGTH_V1:
        return BAD_MESSAGE_LENGTH, at, size, magic
    return record_batches.DONE, at + kafka_format.LOG_OVERHEAD + size, np.int64(0), magic


@inline
def _report_fault(report, status, at, found):
    report[record_batches.STATUS] = status
    report[record_batches.FAULT_AT] = at
    report[record_batches.FOUND] = found


@inline
def _sized(src, at, end):
    """Reads an i32 length (negative: null) and skips its bytes: (status, start, length, position after)."""
    if end - at < 4:
        return record_batches.BAD_FIELD_LENGTH, at, end - at, at
    length = read_int32(src, at)
    at += 4
    if length > end - at:
        return record_batches.BAD_FIELD_LENGTH, at, length, at
    return record_batches.DONE, at, length, at + max(length, 0)


@inline
def _inner_offsets(src, at, end):
    """Walks a wrapper's plain set: (status, position of a fault, value found, first and last offset as stored)."""
    first = np.int64(-1)
    last = np.int64(-1)
    status = record_batches.DONE
    while at < end:
        status, after, found, _ = _frame(src, at, end)
        if status == TRUNCATED:
            break
        if status != record_batches.DONE:
            return status, at, found, first, last
        last = read_int64(src, at)
        if first < 0:
            first = last
        at = after
    if last < 0:
        return EMPTY_WRAPPER, at, np.int64(0), first, last
    return record_batches.DONE, at, np.int64(0), first, last


@kernel(
    "int64(uint8[::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1],"
    " int64[::1], int64[:,::1], int32[:,::1], int64[::1], boolean)"
)
def decode_messages(src, batches, payloads, bounds, limits, cursor, longs, ints, report, check_crcs):
    """Does for shallow entries of magic 0 and 1 what record_batches.decode_records does for magic 2.

    payloads: for a plain message the whole entry, for a wrapper its decompressed value. batches: a wrapper's
    BASE_OFFSET is set to its first message's offset, as Kafka reports it. check_crcs: whether to check the CRCs of
    messages inside wrappers.
    """
    n = 0
    used = 0
    report[record_batches.STATUS] = record_batches.DONE
    report[record_batches.KEY_BYTES] = 0
    report[record_batches.VALUE_BYTES] = 0
    for b in range(cursor[record_batches.AT_BATCH], batches.shape[1]):
        cursor[record_batches.AT_BATCH] = b
        end = payloads[1, b]
        wrapper = batches[batch_headers.ATTRIBUTES, b] & kafka_format.CODEC_MASK != kafka_format.CODEC_NONE
        append_time = (
            batches[batch_headers.MAGIC, b] == kafka_format.MAGIC_V1
            and batches[batch_headers.ATTRIBUTES, b] & kafka_format.TIMESTAMP_TYPE_MASK != 0
        )
        if cursor[record_batches.AT_RECORD] == 0:
            cursor[record_batches.AT_BYTE], cursor[record_batches.AT_DELTA], cursor[record_batches.AT_SHIFT] = (
                payloads[0, b],
                batches[batch_headers.AFTER, b],
                0,
            )
            if wrapper:
                status, at, found, first, last = _inner_offsets(src, payloads[0, b], end)
                if status == record_batches.DONE and batches[batch_headers.MAGIC, b] == kafka_format.MAGIC_V1:
                    cursor[record_batches.AT_SHIFT] = batches[batch_headers.LAST_OFFSET, b] - last
                if status == record_batches.DONE and (
                    cursor[record_batches.AT_SHIFT] < 0
                    or last + cursor[record_batches.AT_SHIFT] > batches[batch_headers.LAST_OFFSET, b]
                ):
                    status, found = BAD_WRAPPER_OFFSET, last
                if status != record_batches.DONE:
                    _report_fault(report, status, at, found)
                    return n
                batches[batch_headers.BASE_OFFSET, b] = first + cursor[record_batches.AT_SHIFT]
        at = cursor[record_batches.AT_BYTE]
        while at < end:
            if n >= limits[record_batches.ROWS] or used >= limits[record_batches.BYTES]:
                cursor[record_batches.AT_BYTE] = at
                report[record_batches.STATUS] = record_batches.FULL
                return n
            status, after, found, magic = _frame(src, at, end)
            if status == TRUNCATED and wrapper:
                break
            if status == record_batches.DONE and wrapper and check_crcs:
                crc = crc32(src, at + kafka_format.MAGIC_AT, after)
                if crc != read_int32(src, at + kafka_format.LEGACY_CRC_AT) & 0xFFFFFFFF:
                    status, found = BAD_MESSAGE_CRC, crc
            if (
                status == record_batches.DONE
                and wrapper
                and src[at + kafka_format.LEGACY_ATTRIBUTES_AT] & kafka_format.CODEC_MASK != 0
            ):
                status, found = NESTED_WRAPPER, np.int64(src[at + kafka_format.LEGACY_ATTRIBUTES_AT])
            offset = read_int64(src, at) + cursor[record_batches.AT_SHIFT]
            if status == record_batches.DONE and (
                offset <= cursor[record_batches.AT_DELTA] or offset > batches[batch_headers.LAST_OFFSET, b]
            ):
                status, found = BAD_MESSAGE_OFFSET, offset
            timestamp = np.int64(kafka_format.NO_TIMESTAMP)
            body = at + kafka_format.LEGACY_TIMESTAMP_AT
            if status == record_batches.DONE and magic == kafka_format.MAGIC_V1:
                timestamp = read_int64(src, body)
                body += 8
            key_at = key_length = value_at = value_length = np.int64(0)
            if status == record_batches.DONE:
                status, key_at, key_length, body = _sized(src, body, after)
                found = key_length
            if status == record_batches.DONE:
                status, value_at, value_length, body = _sized(src, body, after)
                found = value_length
            if status == record_batches.DONE and body != after:
                status, found = record_batches.RECORD_NOT_USED_UP, after - body
            if status != record_batches.DONE:
                _report_fault(report, status, at, found)
                return n
            used += after - at
            at = after
            cursor[record_batches.AT_RECORD] += 1
            cursor[record_batches.AT_DELTA] = offset

            kind = kafka_format.TIMESTAMP_TYPE_LOG_APPEND if append_time else kafka_format.TIMESTAMP_TYPE_CREATE
            if magic == kafka_format.MAGIC_V0 or batches[batch_headers.MAGIC, b] == kafka_format.MAGIC_V0:
                kind = kafka_format.TIMESTAMP_TYPE_NONE
            if magic == kafka_format.MAGIC_V1 and append_time:
                timestamp = batches[batch_headers.MAX_TIMESTAMP, b]
            if offset < bounds[record_batches.FIRST_OFFSET] or offset > bounds[record_batches.LAST_OFFSET]:
                continue
            if timestamp < bounds[record_batches.FIRST_TIMESTAMP] or timestamp > bounds[record_batches.LAST_TIMESTAMP]:
                continue
            report[record_batches.KEY_BYTES] += max(key_length, 0)
            report[record_batches.VALUE_BYTES] += max(value_length, 0)
            longs[record_batches.OFFSET, n] = offset
            longs[record_batches.TIMESTAMP, n] = timestamp
            ints[record_batches.BATCH, n] = b
            ints[record_batches.TIMESTAMP_TYPE, n] = kind
            ints[record_batches.KEY_AT, n] = key_at
            ints[record_batches.KEY_LENGTH, n] = key_length
            ints[record_batches.VALUE_AT, n] = value_at
            ints[record_batches.VALUE_LENGTH, n] = value_length
            ints[record_batches.HEADERS_AT, n] = value_at
            ints[record_batches.HEADERS_COUNT, n] = 0
            n += 1
        cursor[record_batches.AT_RECORD] = 0
    cursor[record_batches.AT_BATCH] = batches.shape[1]
    return n
