"""Keys of records: their hashes (xxHash64), the filters made of hashes, and the records that have one of some keys.

Places and lengths of keys come from `decode_records` and `decode_messages`, which have checked them.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels import record_batches
from kafka_segment_source.kernels.jit import inline, kernel

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_PRIME_12 = np.uint64(0x60EA27EEADC0B5D6)  # the sum of primes 1 and 2, in 64 bits
_MINUS_1 = np.uint64(0x61C8864E7A143579)  # minus prime 1, in 64 bits

WORDS = 8  # of 32 bits, in a block of a filter
# Parquet's format, BloomFilter.md: a key sets one bit in each word of its block.
SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint64
)


@inline
def _rotate(value, bits):
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inline
def _read(src, at, count):
    """Reads `count` bytes as a little-endian number."""
    value = np.uint64(0)
    for i in range(count):
        value |= np.uint64(src[np.uint64(at + i)]) << np.uint64(8 * i)
    return value


@inline
def _round(sum_, lane):
    return _rotate(sum_ + lane * _PRIME_2, 31) * _PRIME_1


@inline
def _merge(value, lane):
    return (value ^ _round(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4


@inline
def _xxh64(src, at, length):
    """xxHash64 of src[at:][:length] with seed 0 (the specification of xxHash, section XXH64)."""
    end = at + length
    if length >= 32:
        one, two, three, four = _PRIME_12, _PRIME_2, np.uint64(0), _MINUS_1
        while end - at >= 32:
            one = _round(one, _read(src, at, 8))
            two = _round(two, _read(src, at + 8, 8))
            three = _round(three, _read(src, at + 16, 8))
            four = _round(four, _read(src, at + 24, 8))
            at += 32
        value = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
        value = _merge(_merge(_merge(_merge(value, one), two), three), four)
    else:
        value = _PRIME_5
    value += np.uint64(length)
    while end - at >= 8:
        value = _rotate(value ^ _round(np.uint64(0), _read(src, at, 8)), 27) * _PRIME_1 + _PRIME_4
        at += 8
    if end - at >= 4:
        value = _rotate(value ^ (_read(src, at, 4) * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        at += 4
    while at < end:
        value = _rotate(value ^ (np.uint64(src[np.uint64(at)]) * _PRIME_5), 11) * _PRIME_1
        at += 1
    value = (value ^ (value >> np.uint64(33))) * _PRIME_2
    value = (value ^ (value >> np.uint64(29))) * _PRIME_3
    return value ^ (value >> np.uint64(32))


@kernel("int64(uint8[::1], int32[:,::1], int64, uint64[::1], int32[::1])")
def hash_keys(src, ints, n, hashes, batches):
    """Fills the hashes of the keys of `n` records that are not null, and the columns of their batches. Returns their
    number."""
    count = 0
    for i in range(n):
        length = np.int64(ints[record_batches.KEY_LENGTH, i])
        if length >= 0:
            hashes[count] = _xxh64(src, np.int64(ints[record_batches.KEY_AT, i]), length)
            batches[count] = ints[record_batches.BATCH, i]
            count += 1
    return count


@kernel("void(uint64[::1], int64, uint32[:,::1])")
def fill_filter(hashes, count, blocks):
    """Sets the bits of `count` hashes in a filter: uint32[blocks, WORDS], at least one block (Parquet's format)."""
    size = np.uint64(blocks.shape[0])
    for i in range(count):
        block = np.int64(((hashes[i] >> np.uint64(32)) * size) >> np.uint64(32))
        low = hashes[i] & np.uint64(0xFFFFFFFF)
        for word in range(WORDS):
            bit = ((low * SALT[word]) & np.uint64(0xFFFFFFFF)) >> np.uint64(27)
            blocks[block, word] |= np.uint32(np.uint64(1) << bit)


@inline
def _find_slot(src, at, length, wanted, places, slots):
    """Returns the slot of a key: the one that names it, or the empty one where it would stand."""
    mask = slots.shape[0] - 1
    slot = np.int64(_xxh64(src, at, length) >> np.uint64(1)) & mask
    while slots[slot] >= 0:
        number = slots[slot]
        start = places[number]
        if places[number + 1] - start == length:
            same = 0
            while same < length and src[np.uint64(at + same)] == wanted[np.uint64(start + same)]:
                same += 1
            if same == length:
                return slot
        slot = (slot + 1) & mask
    return slot


@kernel("void(uint8[::1], int64[::1], int32[::1])")
def fill_slots(wanted, places, slots):
    """Fills a hash table of keys: `slots` (int32[a power of two, more than the keys], −1: empty) by number of the key.

    wanted: the bytes of all keys. places: int64[keys + 1], where each begins, and the end.
    """
    for number in range(places.shape[0] - 1):
        slot = _find_slot(wanted, places[number], places[number + 1] - places[number], wanted, places, slots)
        slots[slot] = number


@kernel("int64(uint8[::1], uint8[::1], int64[::1], int32[::1], int64[::1], int64[:,::1], int32[:,::1], int64)")
def keep_keys(src, wanted, places, slots, sizes, longs, ints, n):
    """Moves the records with one of some keys to the front of `longs` and `ints`. Returns their number.

    wanted, places, slots: as `fill_slots` takes them. sizes: int64[4], the least and the largest length of a wanted
    key; it fills the bytes of the keys and of the values that stay.
    """
    kept = 0
    sizes[2] = 0
    sizes[3] = 0
    for i in range(n):
        length = np.int64(ints[record_batches.KEY_LENGTH, i])
        if length < sizes[0] or length > sizes[1]:
            continue
        slot = _find_slot(src, np.int64(ints[record_batches.KEY_AT, i]), length, wanted, places, slots)
        if slots[slot] < 0:
            continue
        sizes[2] += length
        sizes[3] += max(np.int64(ints[record_batches.VALUE_LENGTH, i]), 0)
        for row in range(record_batches.LONGS):
            longs[row, kept] = longs[row, i]
        for row in range(record_batches.INTS):
            ints[row, kept] = ints[row, i]
        kept += 1
    return kept
