"""Positions of record parts → Arrow's buffers: offsets, validity bitmaps and copied bytes.

Positions and lengths come from `decode_records` and `decode_messages`, which have checked them.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import helper, inline, kernel
from kafka_segment_source.kernels.primitives import read_varint
from kafka_segment_source.kernels.system_calls import copy_bytes


@kernel("int64(int32[::1], int64, int32[::1], uint8[::1])", is_short=True)
def offsets_and_validity(counts, n, offsets, validity):
    """Fills Arrow offsets (int32[n + 1]) and a zeroed validity bitmap (≥ (n + 7) // 8 bytes). Returns the null count.

    They are those of lists with `counts` elements. A list without elements is a null.
    """
    total = 0
    nulls = 0
    offsets[0] = 0
    for i in range(n):
        if counts[i] < 1:
            nulls += 1
        else:
            validity[i >> 3] |= 1 << (i & 7)
            total += counts[i]
        offsets[i + 1] = total
    return nulls


@helper
def append_parts(src, starts, lengths, count, row, total, nulls, offsets, validity, data):
    """Copies `count` parts of src behind `total` bytes of `data`, from row `row` on. Returns the bytes and nulls then.

    A negative length is a null, as Kafka writes -1. total, nulls: of the rows before. offsets: int32, the end of each
    row's bytes at the place behind it. The bits of the validity bitmap are set from the first null on, those of the
    rows before it too: most columns have none.
    """
    for i in range(count):
        length = lengths[i]
        if length < 0:
            if nulls == 0:
                validity[: row >> 3] = 0xFF
                validity[row >> 3] |= (1 << (row & 7)) - 1
            nulls += 1
        else:
            if nulls > 0:
                validity[row >> 3] |= 1 << (row & 7)
            copy_bytes(data, total, src, starts[i], length)
            total += length
        row += 1
        offsets[row] = total
    return total, nulls


@kernel("int64(uint8[::1], int32[::1], int32[::1], int64, int32[::1], uint8[::1], uint8[::1])")
def copy_parts(src, starts, lengths, n, offsets, validity, data):
    """Copies `n` parts of src into `data`, side by side, with their offsets and validity. Returns the null count.

    offsets: int32[n + 1]. validity: a zeroed bitmap (≥ (n + 7) // 8 bytes); it stays so without a null. data: as many
    bytes as the parts have.
    """
    offsets[0] = 0
    none = np.int64(0)
    _, nulls = append_parts(src, starts, lengths, n, none, none, none, offsets, validity, data)
    return nulls


@inline
def is_beyond(millis, most):
    """Whether microseconds cannot hold a timestamp. most: the largest that they can hold, in ms."""
    return millis > most or millis < -most


@kernel("int64(int64[::1], int64, int64, int64[::1])", is_short=True)
def to_microseconds(millis, n, most, micros):
    """micros[i] = 1000 * millis[i], for i < n. It stops at the first value beyond ±most. Returns its place, or n."""
    for i in range(n):
        if is_beyond(millis[i], most):
            return i
        micros[i] = millis[i] * 1000
    return n


@kernel("void(uint8[::1], int32[::1], int32[::1], int64, int32[:,::1], int64[::1])")
def locate_headers(src, headers_at, headers_count, n, parts, sizes):
    """Fills `parts` with the place of each record header's key and value.

    Its rows are key start, key length, value start and value length (-1 null). sizes: int64[2], the bytes of all keys
    and of all values.
    """
    at_part = 0
    end = src.shape[0]
    sizes[:] = 0
    for i in range(n):
        at = headers_at[i]
        for _ in range(headers_count[i]):
            for row in range(2):
                length, at = read_varint(src, at, end)
                parts[2 * row, at_part] = at
                parts[2 * row + 1, at_part] = length
                at += max(length, 0)
                sizes[row] += max(length, 0)
            at_part += 1
