"""Batches of lz4 and snappy → plain bytes, many batches in one call.

It takes the forms that Kafka's clients write, and leaves every other form and all damage to the libraries: it stops
before a batch that it does not take, and has no errors of its own. What it takes, the libraries take too, with the same
bytes. So it is stricter than the formats where a library is.

Sources: "LZ4 Block Format Description" with the end conditions of `LZ4_decompress_safe`, and "Snappy compressed format
description".
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.system_calls import copy_bytes

LZ4_HEADER = bytes.fromhex("04224d18604082")
"""The frame header that Kafka's Java clients and librdkafka write: independent blocks of 64 KiB, and no checksum except
the header's (Kafka: Lz4BlockOutputStream)."""
LZ4_BLOCK = 64 * 1024
LZ4_STORED = 1 << 31  # this bit in a block's size means that the block is not compressed

FAILED = -1  # returned as the end of the output: the library decides
_LZ4_HEADER = np.frombuffer(LZ4_HEADER, np.uint8)
_XERIAL = np.frombuffer(kafka_format.XERIAL_MAGIC, np.uint8)
_SPARE = 96  # bytes of room behind any output: short parts are copied by 16 bytes, whatever their length
_AT_ONCE = 16
_INPUT_LEFT = 32  # bytes of a block from which on each length is checked by itself
# Of lz4, how a block ends:
_LAST_LITERALS = 5  # after a match, a token and at least so many literals follow,
_LAST_MATCH = 12  # a match begins at least so many bytes before the end of the room for the block,
_AFTER_LITERALS = 8  # and at least so many bytes follow literals that are not the last ones
# Of snappy, by the tag of a copy:
_TAGS = np.arange(256)
_COPY_BYTES = np.array([0, 1, 2, 4])[_TAGS & 3]  # of its offset, after the tag
_COPY_MASK = np.array([0, 0xFF, 0xFFFF, 0xFFFFFFFF])[_TAGS & 3]
_COPY_HIGH = np.where(_TAGS & 3 == 1, _TAGS >> 5 << 8, 0)  # bits of the offset in the tag
_COPY_LENGTH = np.where(_TAGS & 3 == 1, (_TAGS >> 2 & 7) + 4, (_TAGS >> 2) + 1)


@inline
def _read_byte(src, at):
    return np.int64(src[np.uint64(at)])


@inline
def _starts_with(src, at, end, expected):
    if end - at < expected.shape[0]:
        return False
    for i in range(expected.shape[0]):
        if _read_byte(src, at + i) != expected[i]:
            return False
    return True


@inline
def _copy_match(dst, op, match, count):
    """dst[op:][:count] = dst[match:][:count], byte by byte where they overlap. It may write _SPARE bytes more."""
    if op - match >= _AT_ONCE:
        for i in range(0, count, _AT_ONCE):
            copy_bytes(dst, op + i, dst, match + i, _AT_ONCE)
    else:
        for i in range(count):
            dst[np.uint64(op + i)] = dst[np.uint64(match + i)]


@inline
def _read_lz4_length(src, at, end, count):
    """Adds the further bytes of a length of lz4: (length, position after it), or (FAILED, _)."""
    more = 255
    while more == 255:
        if at >= end:
            return np.int64(FAILED), at
        more = _read_byte(src, at)
        at += 1
        count += more
    return count, at


@inline
def _unpack_lz4_block(src, at, end, dst, begin):
    """Unpacks the block src[at:end] to dst[begin:]. Returns the end of the output, or FAILED.

    dst has room for LZ4_BLOCK + _SPARE bytes.
    """
    op = begin
    room = begin + LZ4_BLOCK
    while at < end:
        token = _read_byte(src, at)
        at += 1
        count = token >> 4
        if count < 15 and at < end - _INPUT_LEFT and op < room - _SPARE:
            copy_bytes(dst, op, src, at, _AT_ONCE)
            at += count
            op += count
            offset = _read_byte(src, at) | _read_byte(src, at + 1) << 8
            at += 2
            count = token & 15
            if offset >= _AT_ONCE and count < 15 and offset <= op - begin:  # most matches
                copy_bytes(dst, op, dst, op - offset, _AT_ONCE)
                copy_bytes(dst, op + _AT_ONCE, dst, op - offset + _AT_ONCE, 2)
                op += count + 4
                continue
        else:
            if count == 15:
                count, at = _read_lz4_length(src, at, end, count)
            if count < 0 or count > end - at or count > room - op:
                return np.int64(FAILED)
            copy_bytes(dst, op, src, at, count)
            at += count
            op += count
            if at == end:
                return op
            if end - at < _AFTER_LITERALS or room - op < _LAST_MATCH:
                return np.int64(FAILED)
            offset = _read_byte(src, at) | _read_byte(src, at + 1) << 8
            at += 2
            count = token & 15
        if count == 15:
            count, at = _read_lz4_length(src, at, end, count)
            if count < 0:
                return np.int64(FAILED)
        count += 4
        if end - at <= _LAST_LITERALS or count > room - _LAST_LITERALS - op:
            return np.int64(FAILED)
        if offset == 0 or offset > op - begin:
            return np.int64(FAILED)
        _copy_match(dst, op, op - offset, count)
        op += count
    return np.int64(FAILED)


@inline
def _unpack_lz4(src, at, end, dst, begin, limit):
    """Unpacks the frame src[at:end]. Bytes after its end mark do not count."""
    if not _starts_with(src, at, end, _LZ4_HEADER):
        return np.int64(FAILED)
    at += _LZ4_HEADER.shape[0]
    op = begin
    while end - at >= 4:
        word = 0
        for i in range(4):
            word |= _read_byte(src, at + i) << (8 * i)
        at += 4
        if word == 0:
            return op
        size = word & ~LZ4_STORED
        room = dst.shape[0] - op - _SPARE
        if size > end - at or size > room or room < LZ4_BLOCK:
            return np.int64(FAILED)
        if word & LZ4_STORED:
            copy_bytes(dst, op, src, at, size)
            op += size
        else:
            op = _unpack_lz4_block(src, at, at + size, dst, op)
        if op < 0 or op - begin > limit:
            return np.int64(FAILED)
        at += size
    return np.int64(FAILED)


@inline
def _unpack_snappy_block(src, at, end, dst, begin, limit):
    """Unpacks the raw block src[at:end], which begins with its plain length, of at most `limit` bytes."""
    size = 0
    shift = 0
    byte = 0x80
    while byte >= 0x80:
        if at >= end or shift > 21:
            return np.int64(FAILED)
        byte = _read_byte(src, at)
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
    if (byte == 0 and shift > 7) or size > limit or size + _SPARE > dst.shape[0] - begin:
        return np.int64(FAILED)
    op = begin
    stop = begin + size
    while at < end:
        tag = _read_byte(src, at)
        at += 1
        if tag & 3 == 0:
            count = (tag >> 2) + 1
            if count <= _AT_ONCE and end - at >= _AT_ONCE:
                if count > stop - op:
                    return np.int64(FAILED)
                copy_bytes(dst, op, src, at, _AT_ONCE)
            else:
                if count > 60:
                    more = count - 60
                    if more > end - at:
                        return np.int64(FAILED)
                    count = 1
                    for i in range(more):
                        count += _read_byte(src, at + i) << (8 * i)
                    at += more
                if count > end - at or count > stop - op:
                    return np.int64(FAILED)
                copy_bytes(dst, op, src, at, count)
            at += count
            op += count
            continue
        count = _COPY_LENGTH[tag]
        offset = _COPY_HIGH[tag]
        if end - at >= 4:
            word = _read_byte(src, at) | _read_byte(src, at + 1) << 8
            word |= _read_byte(src, at + 2) << 16 | _read_byte(src, at + 3) << 24
            offset |= word & _COPY_MASK[tag]
        else:
            if end - at < _COPY_BYTES[tag]:
                return np.int64(FAILED)
            for i in range(_COPY_BYTES[tag]):
                offset |= _read_byte(src, at + i) << (8 * i)
        at += _COPY_BYTES[tag]
        if offset == 0 or offset > op - begin or count > stop - op:
            return np.int64(FAILED)
        if offset >= _AT_ONCE:  # most copies
            copy_bytes(dst, op, dst, op - offset, _AT_ONCE)
            if count > _AT_ONCE:
                copy_bytes(dst, op + _AT_ONCE, dst, op - offset + _AT_ONCE, _AT_ONCE)
                if count > 2 * _AT_ONCE:
                    copy_bytes(dst, op + 2 * _AT_ONCE, dst, op - offset + 2 * _AT_ONCE, _AT_ONCE)
                    copy_bytes(dst, op + 3 * _AT_ONCE, dst, op - offset + 3 * _AT_ONCE, _AT_ONCE)
        else:
            _copy_match(dst, op, op - offset, count)
        op += count
    return op if op == stop else np.int64(FAILED)


@inline
def _unpack_snappy(src, at, end, dst, begin, limit):
    """Unpacks src[at:end]: one raw block, or blocks in xerial framing (snappy-java: SnappyOutputStream)."""
    if not _starts_with(src, at, end, _XERIAL):
        return _unpack_snappy_block(src, at, end, dst, begin, limit)
    at += kafka_format.XERIAL_HEADER
    op = begin
    while end - at >= 4:
        size = 0
        for i in range(4):
            size = size << 8 | _read_byte(src, at + i)
        at += 4
        if size > end - at:
            return np.int64(FAILED)
        op = _unpack_snappy_block(src, at, at + size, dst, op, limit - (op - begin))
        if op < 0:
            return np.int64(FAILED)
        at += size
    return op if at == end else np.int64(FAILED)


@kernel("int64(uint8[::1], int64[::1], int64[::1], int64[::1], int64, uint8[::1], int64, int64, int64, int64[::1])")
def unpack_batches(src, starts, ends, codecs, first, dst, used, enough, limit, places):
    """Unpacks batches one after the other to dst[used:], from batch `first` on. Returns the number of batches.

    starts, ends: int64[n], positions in src of each batch's stored records. codecs: int64[n], of each batch. dst:
    uint8, the bytes after the last output are written too. enough: it stops once so many bytes of dst are used. limit:
    plain bytes of a batch. places: int64[n] at least: places[i] gets the end of the output of batch first + i.

    It stops before a batch of another codec, and before one that it does not take, for whatever reason.
    """
    count = 0
    while first + count < starts.shape[0] and used < enough:
        at = starts[first + count]
        end = ends[first + count]
        if at < 0 or end > src.shape[0]:
            return count
        if codecs[first + count] == kafka_format.CODEC_LZ4:
            used = _unpack_lz4(src, at, end, dst, used, limit)
        elif codecs[first + count] == kafka_format.CODEC_SNAPPY:
            used = _unpack_snappy(src, at, end, dst, used, limit)
        else:
            return count
        if used < 0:
            return count
        places[count] = used
        count += 1
    return count
