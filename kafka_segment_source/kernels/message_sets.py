"""Messages of magic 0 and 1 → the places of each wanted message's parts. Tables are those of record_batches.

The cursor and the report are the same too. A shallow entry is either one plain message or a wrapper. The decompressed
value of a wrapper is a message set again. The wrapper's magic decides whether inner offsets are relative (1) or
absolute (0). The inner message's own magic decides whether it has a timestamp. An old cleaner could make the two magics
differ (KAFKA-4298). Kafka: AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import format as fmt
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.kernels import record_batches as r
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
    if end - at < fmt.LOG_OVERHEAD:
        return TRUNCATED, at, end - at, np.int64(0)
    size = read_int32(src, at + fmt.LENGTH_AT)
    if size < fmt.MIN_LENGTH_V0:
        return BAD_MESSAGE_LENGTH, at, size, np.int64(0)
    if size > end - at - fmt.LOG_OVERHEAD:
        return TRUNCATED, at, size, np.int64(0)
    magic = np.int64(src[at + fmt.MAGIC_AT])
    if magic > fmt.MAGIC_V1:
        return BAD_MESSAGE_MAGIC, at, magic, magic
    if magic == fmt.MAGIC_V1 and size < fmt.MIN_LENGTH_V1:
        return BAD_MESSAGE_LENGTH, at, size, magic
    return r.DONE, at + fmt.LOG_OVERHEAD + size, np.int64(0), magic


@inline
def _sized(src, at, end):
    """Reads an i32 length (negative: null) and skips its bytes: (status, start, length, position after)."""
    if end - at < 4:
        return r.BAD_FIELD_LENGTH, at, end - at, at
    length = read_int32(src, at)
    at += 4
    if length > end - at:
        return r.BAD_FIELD_LENGTH, at, length, at
    return r.DONE, at, length, at + max(length, 0)


@inline
def _inner_offsets(src, at, end):
    """Walks a wrapper's plain set: (status, position of a fault, value found, first and last offset as stored)."""
    first = np.int64(-1)
    last = np.int64(-1)
    status = r.DONE
    while at < end:
        status, after, found, _ = _frame(src, at, end)
        if status == TRUNCATED:
            break
        if status != r.DONE:
            return status, at, found, first, last
        last = read_int64(src, at)
        if first < 0:
            first = last
        at = after
    if last < 0:
        return EMPTY_WRAPPER, at, np.int64(0), first, last
    return r.DONE, at, np.int64(0), first, last


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
    report[r.STATUS] = r.DONE
    for b in range(cursor[r.AT_BATCH], batches.shape[1]):
        cursor[r.AT_BATCH] = b
        end = payloads[1, b]
        wrapper = batches[h.ATTRIBUTES, b] & fmt.CODEC_MASK != fmt.CODEC_NONE
        append_time = batches[h.MAGIC, b] == fmt.MAGIC_V1 and batches[h.ATTRIBUTES, b] & fmt.TIMESTAMP_TYPE_MASK != 0
        if cursor[r.AT_RECORD] == 0:
            cursor[r.AT_BYTE], cursor[r.AT_DELTA], cursor[r.AT_SHIFT] = payloads[0, b], batches[h.AFTER, b], 0
            if wrapper:
                status, at, found, first, last = _inner_offsets(src, payloads[0, b], end)
                if status == r.DONE and batches[h.MAGIC, b] == fmt.MAGIC_V1:
                    cursor[r.AT_SHIFT] = batches[h.LAST_OFFSET, b] - last
                if status == r.DONE and (
                    cursor[r.AT_SHIFT] < 0 or last + cursor[r.AT_SHIFT] > batches[h.LAST_OFFSET, b]
                ):
                    status, found = BAD_WRAPPER_OFFSET, last
                if status != r.DONE:
                    report[r.STATUS], report[r.FAULT_AT], report[r.FOUND] = status, at, found
                    return n
                batches[h.BASE_OFFSET, b] = first + cursor[r.AT_SHIFT]
        at = cursor[r.AT_BYTE]
        while at < end:
            if n >= limits[r.ROWS] or used >= limits[r.BYTES]:
                cursor[r.AT_BYTE] = at
                report[r.STATUS] = r.FULL
                return n
            status, after, found, magic = _frame(src, at, end)
            if status == TRUNCATED and wrapper:
                break
            if status == r.DONE and wrapper and check_crcs:
                crc = crc32(src, at + fmt.MAGIC_AT, after)
                if crc != read_int32(src, at + fmt.LEGACY_CRC_AT) & 0xFFFFFFFF:
                    status, found = BAD_MESSAGE_CRC, crc
            if status == r.DONE and wrapper and src[at + fmt.LEGACY_ATTRIBUTES_AT] & fmt.CODEC_MASK != 0:
                status, found = NESTED_WRAPPER, np.int64(src[at + fmt.LEGACY_ATTRIBUTES_AT])
            offset = read_int64(src, at) + cursor[r.AT_SHIFT]
            if status == r.DONE and (offset <= cursor[r.AT_DELTA] or offset > batches[h.LAST_OFFSET, b]):
                status, found = BAD_MESSAGE_OFFSET, offset
            timestamp = np.int64(fmt.NO_TIMESTAMP)
            body = at + fmt.LEGACY_TIMESTAMP_AT
            if status == r.DONE and magic == fmt.MAGIC_V1:
                timestamp = read_int64(src, body)
                body += 8
            key_at = key_length = value_at = value_length = np.int64(0)
            if status == r.DONE:
                status, key_at, key_length, body = _sized(src, body, after)
                found = key_length
            if status == r.DONE:
                status, value_at, value_length, body = _sized(src, body, after)
                found = value_length
            if status == r.DONE and body != after:
                status, found = r.RECORD_NOT_USED_UP, after - body
            if status != r.DONE:
                report[r.STATUS], report[r.FAULT_AT], report[r.FOUND] = status, at, found
                return n
            used += after - at
            at = after
            cursor[r.AT_RECORD] += 1
            cursor[r.AT_DELTA] = offset

            kind = fmt.TIMESTAMP_TYPE_LOG_APPEND if append_time else fmt.TIMESTAMP_TYPE_CREATE
            if magic == fmt.MAGIC_V0 or batches[h.MAGIC, b] == fmt.MAGIC_V0:
                kind = fmt.TIMESTAMP_TYPE_NONE
            if magic == fmt.MAGIC_V1 and append_time:
                timestamp = batches[h.MAX_TIMESTAMP, b]
            if offset < bounds[r.FIRST_OFFSET] or offset > bounds[r.LAST_OFFSET]:
                continue
            if timestamp < bounds[r.FIRST_TIMESTAMP] or timestamp > bounds[r.LAST_TIMESTAMP]:
                continue
            longs[r.OFFSET, n] = offset
            longs[r.TIMESTAMP, n] = timestamp
            ints[r.BATCH, n] = b
            ints[r.TIMESTAMP_TYPE, n] = kind
            ints[r.KEY_AT, n] = key_at
            ints[r.KEY_LENGTH, n] = key_length
            ints[r.VALUE_AT, n] = value_at
            ints[r.VALUE_LENGTH, n] = value_length
            ints[r.HEADERS_AT, n] = value_at
            ints[r.HEADERS_COUNT, n] = 0
            n += 1
        cursor[r.AT_RECORD] = 0
    cursor[r.AT_BATCH] = batches.shape[1]
    return n
