"""Big-endian integers and zig-zag varints. The kernels use them."""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import inline

FAILED = -1  # returned as the next position: the varint is longer than its bytes or its type


@inline
def read_int16(src, at):
    return np.int64(np.int8(src[at])) << 8 | np.int64(src[at + 1])


@inline
def read_int32(src, at):
    high = np.int64(np.int8(src[at])) << 24
    return high | np.int64(src[at + 1]) << 16 | np.int64(src[at + 2]) << 8 | np.int64(src[at + 3])


@inline
def read_int64(src, at):
    return read_int32(src, at) << 32 | (read_int32(src, at + 4) & 0xFFFFFFFF)


@inline
def read_varlong(src, at, end):
    """Reads a zig-zag varlong of at most 10 bytes at src[at:end]: (value, position after it), or (_, FAILED)."""
    raw = np.int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = np.int64(src[np.uint64(at)])
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), at
        shift += 7
    return np.int64(0), np.int64(FAILED)


@inline
def read_varint(src, at, end):
    """Reads a zig-zag varint of ≤ 5 bytes and 32 bits at src[at:end]: (value, position after it), or (_, FAILED)."""
    if at < end and src[np.uint64(at)] < 0x80:  # most lengths and deltas have one byte or two
        byte = np.int64(src[np.uint64(at)])
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end and src[np.uint64(at + 1)] < 0x80:
        both = (np.int64(src[np.uint64(at)]) & 0x7F) | np.int64(src[np.uint64(at + 1)]) << 7
        return (both >> 1) ^ -(both & 1), at + 2
    value, after = read_varlong(src, at, min(end, at + 5))
    if after == FAILED or value > 0x7FFFFFFF or value < -0x80000000:
        return np.int64(0), np.int64(FAILED)
    return value, after
