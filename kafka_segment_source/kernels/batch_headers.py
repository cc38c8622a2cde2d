"""The walk over batch headers: a buffer of log bytes → one column of numbers for each batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.primitives import read_int16, read_int32, read_int64
from kafka_segment_source.kernels.system_calls import read_file

HeaderTable = npt.NDArray[np.int64]  # int64[FIELDS, n]: each column is one batch

# Rows of a header table
POSITION = 0  # absolute byte position in the file
SIZE = 1  # bytes of the whole batch, header included
MAGIC = 2
CRC = 3
ATTRIBUTES = 4
BASE_OFFSET = 5  # magic 0 and 1: the entry's own offset, a wrapper's last
LAST_OFFSET = 6
BASE_TIMESTAMP = 7  # ms
MAX_TIMESTAMP = 8  # ms
PRODUCER_ID = 9
PRODUCER_EPOCH = 10
BASE_SEQUENCE = 11
COUNT = 12  # -1 for magic 0 and 1
LEADER_EPOCH = 13
AFTER = 14  # the last offset before this batch; this batch's offsets must be larger; `batch_proof` or `batch_rules` fills it in
FIELDS = 15

# Why a walk stopped
USED_UP = 0  # the bytes have ended, or the table is full
INCOMPLETE = 1  # a batch begins here and needs more bytes than the buffer has
ZEROS = 2  # a header of zeros: preallocated space
BAD_LENGTH = 3
BAD_MAGIC = 4
BAD_COUNT = 5
BAD_LAST_OFFSET = 6

# Rows of a walk's report, int64[2]. The walk stopped after the last batch that it filled in.
STOPPED_BY = 0
FOUND = 1  # INCOMPLETE: the bytes that the batch needs; errors: the impossible value


@inline
def _fill_v2(src, at, table, n):
    table[CRC, n] = read_int32(src, at + kafka_format.CRC_AT) & 0xFFFFFFFF
    table[ATTRIBUTES, n] = read_int16(src, at + kafka_format.ATTRIBUTES_AT)
    table[LAST_OFFSET, n] = table[BASE_OFFSET, n] + read_int32(src, at + kafka_format.LAST_OFFSET_DELTA_AT)
    table[BASE_TIMESTAMP, n] = read_int64(src, at + kafka_format.BASE_TIMESTAMP_AT)
    table[MAX_TIMESTAMP, n] = read_int64(src, at + kafka_format.MAX_TIMESTAMP_AT)
    table[PRODUCER_ID, n] = read_int64(src, at + kafka_format.PRODUCER_ID_AT)
    table[PRODUCER_EPOCH, n] = read_int16(src, at + kafka_format.PRODUCER_EPOCH_AT)
    table[BASE_SEQUENCE, n] = read_int32(src, at + kafka_format.BASE_SEQUENCE_AT)
    table[COUNT, n] = read_int32(src, at + kafka_format.RECORDS_COUNT_AT)
    table[LEADER_EPOCH, n] = read_int32(src, at + kafka_format.LEADER_EPOCH_AT)


@inline
def _fill_legacy(src, at, table, n):
    timestamp = kafka_format.NO_TIMESTAMP
    if table[MAGIC, n] == kafka_format.MAGIC_V1:
        timestamp = read_int64(src, at + kafka_format.LEGACY_TIMESTAMP_AT)
    table[CRC, n] = read_int32(src, at + kafka_format.LEGACY_CRC_AT) & 0xFFFFFFFF
    table[ATTRIBUTES, n] = src[at + kafka_format.LEGACY_ATTRIBUTES_AT]
    table[LAST_OFFSET, n] = table[BASE_OFFSET, n]
    table[BASE_TIMESTAMP, n] = timestamp
    table[MAX_TIMESTAMP, n] = timestamp
    table[PRODUCER_ID, n] = -1
    table[PRODUCER_EPOCH, n] = -1
    table[BASE_SEQUENCE, n] = -1
    table[COUNT, n] = -1
    table[LEADER_EPOCH, n] = -1


@inline
def _smallest_length(magic):
    if magic >= kafka_format.MAGIC_V2:
        return kafka_format.MIN_BATCH_LENGTH
    if magic == kafka_format.MAGIC_V1:
        return kafka_format.MIN_LENGTH_V1
    return kafka_format.MIN_LENGTH_V0


@inline
def _all_zero(src, at, count):
    for i in range(at, at + count):
        if src[i] != 0:
            return False
    return True


@inline
def _fill_in(src, at, left, position, table, n, report):
    """Fills column n with the batch at src[at:], which lies at `position` in the file. Returns whether it did.

    left: bytes from there on that the batch may have. report says why no column was filled in.
    """
    if left < kafka_format.MAGIC_END:
        report[STOPPED_BY] = INCOMPLETE
        report[FOUND] = kafka_format.MAGIC_END
        return False
    size = read_int32(src, at + kafka_format.LENGTH_AT)
    magic = read_int16(src, at + kafka_format.MAGIC_AT - 1)
    magic = magic & 0xFF
    if size == 0 and _all_zero(src, at, kafka_format.MAGIC_END):
        report[STOPPED_BY] = ZEROS
        return False
    if magic > kafka_format.MAGIC_V2:
        report[STOPPED_BY] = BAD_MAGIC
        report[FOUND] = magic
        return False
    if size < _smallest_length(magic):
        report[STOPPED_BY] = BAD_LENGTH
        report[FOUND] = size
        return False
    if size + kafka_format.LOG_OVERHEAD > left:
        report[STOPPED_BY] = INCOMPLETE
        report[FOUND] = size + kafka_format.LOG_OVERHEAD
        return False
    table[POSITION, n] = position
    table[SIZE, n] = size + kafka_format.LOG_OVERHEAD
    table[MAGIC, n] = magic
    table[BASE_OFFSET, n] = read_int64(src, at)
    table[AFTER, n] = -1
    if magic == kafka_format.MAGIC_V2:
        _fill_v2(src, at, table, n)
        if table[COUNT, n] < 0:
            report[STOPPED_BY] = BAD_COUNT
            report[FOUND] = table[COUNT, n]
            return False
    else:
        _fill_legacy(src, at, table, n)
    is_before = magic == kafka_format.MAGIC_V2 and (
        table[BASE_OFFSET, n] < 0 or table[LAST_OFFSET, n] < table[BASE_OFFSET, n]
    )
    if is_before or table[LAST_OFFSET, n] == kafka_format.MAX_OFFSET:  # no offset follows that one
        report[STOPPED_BY] = BAD_LAST_OFFSET
        report[FOUND] = table[LAST_OFFSET, n]
        return False
    return True


@inline
def walk(src, length, position, table, report):
    """The loop of `walk_headers`, for other kernels."""
    at = 0
    n = 0
    report[STOPPED_BY] = USED_UP
    while at < length and n < table.shape[1]:
        if not _fill_in(src, at, length - at, position + at, table, n, report):
            return n
        at += table[SIZE, n]
        n += 1
    return n


@kernel("int64(uint8[::1], int64, int64, int64[:,::1], int64[::1])", is_short=True)
def walk_headers(src, length, position, table, report):
    """Fills one column of `table` (int64[FIELDS, n]) for each whole batch in src[:length]. Returns their number.

    position: where src[0] lies in the file. report (int64[2]): why the walk stopped. A batch that does not end inside
    src[:length] is never filled in. The walk checks zeros, magic, length, count and offsets. The caller checks CRCs.
    Kafka: FileLogInputStream.nextBatch.
    """
    return walk(src, length, position, table, report)


@kernel("int64(int32, uint8[::1], int64, int64, int64[:,::1], int64[::1])")
def read_headers(descriptor, src, position, end, table, report):
    """Fills one column of `table` for each whole batch of an open local file, from `position` up to `end`.

    src: room for one header. It reads the headers alone, each by one call of pread(2). It stops where it cannot read,
    with USED_UP.
    """
    n = 0
    report[STOPPED_BY] = USED_UP
    while position < end and n < table.shape[1]:
        left = end - position
        wanted = min(left, kafka_format.BATCH_OVERHEAD)
        if read_file(descriptor, src, wanted, position) != wanted:
            return n
        if not _fill_in(src, 0, left, position, table, n, report):
            return n
        position += table[SIZE, n]
        n += 1
    return n


@inline
def _looks_like_v2(src, at, first_offset, end_offset):
    base = read_int64(src, at)
    delta = read_int32(src, at + kafka_format.LAST_OFFSET_DELTA_AT)
    if base < first_offset or base >= end_offset or delta < 0 or delta >= end_offset - base:
        return False
    return read_int32(src, at + kafka_format.RECORDS_COUNT_AT) >= 0


@kernel("int64(uint8[::1], int64, int64, int64, int64)")
def find_batch(src, at, length, first_offset, end_offset):
    """The first position ≥ at in src[:length] that looks like a batch header, or -1.

    It looks like one if magic, length and count are possible and its offsets lie in [first_offset, end_offset). A magic
    newer than this package is possible; then only the base offset is checked. Only the CRC proves that it is a batch.
    The reader uses this to go on after damage.
    """
    for i in range(at, length - kafka_format.MIN_LENGTH_V0 - kafka_format.LOG_OVERHEAD + 1):
        magic = src[i + kafka_format.MAGIC_AT]
        if magic > kafka_format.LARGEST_MAGIC or read_int32(src, i + kafka_format.LENGTH_AT) < _smallest_length(magic):
            continue
        if magic == kafka_format.MAGIC_V2:
            if length - i >= kafka_format.BATCH_OVERHEAD and _looks_like_v2(src, i, first_offset, end_offset):
                return i
            continue
        offset = read_int64(src, i)
        if first_offset <= offset < end_offset:
            return i
    return -1
