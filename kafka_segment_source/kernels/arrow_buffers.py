"""Positions of record parts → Arrow's buffers: offsets, validity bitmaps and copied bytes.

Positions and lengths come from `decode_records` and `decode_messages`, which have checked them.
"""

from __future__ import annotations

from kafka_segment_source.kernels.jit import kernel
from kafka_segment_source.kernels.primitives import read_varint
from kafka_segment_source.kernels.system_calls import copy_bytes


@kernel("int64(int32[::1], int64, int64, int32[::1], uint8[::1])")
def offsets_and_validity(lengths, n, null_below, offsets, validity):
    """Fills Arrow offsets (int32[n + 1]) and a zeroed validity bitmap (≥ (n + 7) // 8 bytes). Returns the null count.

    A length below `null_below` is a null. It is 0 for binary, since Kafka writes -1 for null. It is 1 for a list of
    headers, since a record without headers gets null.
    """
    total = 0
    nulls = 0
    offsets[0] = 0
    for i in range(n):
        length = lengths[i]
        if length < null_below:
            nulls += 1
        else:
            validity[i >> 3] |= 1 << (i & 7)
            total += length
        offsets[i + 1] = total
    return nulls


@kernel("void(uint8[::1], int32[::1], int32[::1], int64, uint8[::1])")
def copy_slices(src, starts, offsets, n, data):
    """data[offsets[i]:offsets[i + 1]] = src[starts[i]:...], for i < n."""
    for i in range(n):
        length = offsets[i + 1] - offsets[i]
        if length > 0:
            copy_bytes(data, offsets[i], src, starts[i], length)


@kernel("void(uint8[::1], int32[::1], int32[::1], int64, int32[:,::1])")
def locate_headers(src, headers_at, headers_count, n, parts):
    """Fills `parts` with the place of each record header's key and value.

    Its rows are key start, key length, value start and value length (-1 null).
    """
    at_part = 0
    end = src.shape[0]
    for i in range(n):
        at = headers_at[i]
        for _ in range(headers_count[i]):
            for row in range(0, 4, 2):
                length, at = read_varint(src, at, end)
                parts[row, at_part] = at
                parts[row + 1, at_part] = length
                at += max(length, 0)
            at_part += 1
