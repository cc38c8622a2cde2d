"""The proof of the batches in a buffer: their headers, their CRCs, and whether their offsets follow each other.

This is one call for each chunk. It holds no lock of Python, so other threads run meanwhile.
"""

from __future__ import annotations

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.crc32 import crc32
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.system_calls import crc32c

# Rows of the report, int64[REPORT]. The first two are those of `batch_headers`.
IN_ORDER = 2
REPORT = 3


@inline
def _has_crc(src, at, headers, b):
    """Whether the batch at src[at:] has the CRC that its header, column b, states. It ends inside src."""
    end = at + headers[batch_headers.SIZE, b]
    if headers[batch_headers.MAGIC, b] < kafka_format.MAGIC_V2:
        return crc32(src, at + kafka_format.MAGIC_AT, end) == headers[batch_headers.CRC, b]
    return crc32c(src, at + kafka_format.CRC_FROM, end) == headers[batch_headers.CRC, b]


@kernel("int64(uint8[::1], int64, boolean, int64, int64, int64[:,::1], boolean[::1], int64[::1])")
def prove_batches(src, position, check_crcs, before, limit, table, bad, report):
    """Fills one column of `table` for each whole batch in src, as `batch_headers.walk_headers` does. Returns their
    number.

    position: where src[0] lies in the file. check_crcs: whether bad[b] is set for each batch with a wrong CRC; else
    none is. before, limit: the last offset before these batches, and the exclusive bound of all offsets. report: as of
    a walk, and IN_ORDER: 1 if no batch is bad, each one begins at the offset after the one before it, and all end below
    the limit. Then AFTER is filled in too, and no rule about offsets can be broken.
    """
    n = batch_headers.walk(src, src.shape[0], position, table, report)
    in_order = True
    for b in range(n):
        bad[b] = check_crcs and not _has_crc(src, table[batch_headers.POSITION, b] - position, table, b)
        if bad[b] or table[batch_headers.BASE_OFFSET, b] != before + 1 or table[batch_headers.LAST_OFFSET, b] >= limit:
            in_order = False
        table[batch_headers.AFTER, b] = before
        before = table[batch_headers.LAST_OFFSET, b]
    report[IN_ORDER] = in_order
    return n
