"""Hashes of keys, sums for each hash, and the registers of an estimate of how many different ones there are."""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import inline, kernel

_START = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0x87C37B91114253D5)
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(33)
_BYTE = np.uint64(8)
_ONE = np.uint64(1)


@inline
def _finish_hash(bits):
    """The last steps of MurmurHash3 (fmix64): every bit of the hash depends on every bit of `bits`."""
    bits ^= bits >> _HALF
    bits *= _FIRST
    bits ^= bits >> _HALF
    bits *= _SECOND
    bits ^= bits >> _HALF
    return bits


@kernel("void(uint8[::1], int32[::1], int32[::1], int64, uint64[::1])")
def hash_parts(src, starts, lengths, n, hashes):
    """hashes[i] = a hash of 64 bits of the i-th part of src, for i < n. That of a negative length is of no bytes."""
    for i in range(n):
        at, left = np.int64(starts[i]), np.int64(lengths[i])
        bits = _START ^ np.uint64(left if left > 0 else 0)
        while left > 0:
            word = np.uint64(0)
            if left >= 8:
                for j in range(8):
                    word |= np.uint64(src[np.uint64(at + j)]) << (_BYTE * np.uint64(j))
            else:
                for j in range(left):
                    word |= np.uint64(src[np.uint64(at + j)]) << (_BYTE * np.uint64(j))
            bits = (bits ^ word) * _STEP
            bits ^= bits >> _HALF
            at += 8
            left -= 8
        hashes[i] = _finish_hash(bits)


@kernel("int64(uint64[::1], int64[::1], int64, int64[::1], int64[::1], int64[:,::1])")
def sum_by_hash(hashes, sizes, n, slots, rows, sums):
    """Adds up rows with the same hash. Returns the number of different ones.

    slots: int64[a power of two > n], all -1. rows: the first row of each hash. sums: int64[2, n], its rows and sizes.
    """
    mask = np.int64(slots.shape[0] - 1)
    count = 0
    for i in range(n):
        at = np.int64(hashes[i] & np.uint64(mask))
        while slots[at] >= 0 and hashes[rows[slots[at]]] != hashes[i]:
            at = (at + 1) & mask
        group = slots[at]
        if group < 0:
            group = count
            slots[at] = group
            rows[group] = i
            sums[0, group] = 0
            sums[1, group] = 0
            count += 1
        sums[0, group] += 1
        sums[1, group] += sizes[i]
    return count


@kernel("void(uint64[::1], int64, int64, uint8[::1])")
def note_hashes(hashes, n, bits, registers):
    """Notes hashes in the registers of HyperLogLog, uint8[2**bits]: the most zeros that a hash begins with, and one."""
    for i in range(n):
        left = hashes[i] << np.uint64(bits)
        rank = 1
        while rank <= 64 - bits and left >> np.uint64(63) == 0:
            left <<= _ONE
            rank += 1
        register = np.int64(hashes[i] >> np.uint64(64 - bits))
        registers[register] = max(registers[register], np.uint8(rank))
