"""The map of view=latest: hash of a key → the newest offset of that key, as the log cleaner's `SkimpyOffsetMap` has it.

The hash is SipHash-1-3 with 128 bits, under a secret of this process (Aumasson and Bernstein, "SipHash: a fast
short-input PRF"). So nobody can choose keys that collide, and two keys that collide by chance are out of reach.

Entries lie one after another, and slots point to them: open addressing with linear probing, which begins at a cache
line of slots. So an entry never moves while the slots grow. A slot keeps the bits of the hash that choose its line, so
the slots grow without a look at the entries.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels import record_batches
from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.record_batches import find_records

# Columns of an entry, uint64[n, ENTRY]
LOW_HASH = 0
HIGH_HASH = 1
NEWEST = 2  # the offset, and TOMBSTONE
ENTRY = 3

TOMBSTONE = 1 << 63  # in NEWEST: the newest record has a null value
NO_KEY = 0xFFFFFFFFFFFFFFFF  # no record has this in NEWEST: that is a tombstone of the last offset that a number takes

# The state, int64[STATE]
COUNT = 0  # of entries
AT = 1  # the record to go on with
FIRST_SLICE = 2  # only keys in these slices are noted
LAST_SLICE = 3  # inclusive
FETCHED = 4  # the sum of what was fetched ahead: nothing to use
STATE = 5

SLICES = 1 << 20  # of the keys, by their hash

# What `hash_batches` has made, int64[MADE]
ALL_FOUND = 0  # records, with those without a key
LAST_FOUND = 1  # the offset of the last one
MADE = 2

# What `note_records` returns
DONE = 0
SLOTS_FULL = 1
ENTRIES_FULL = 2

BUCKET = 8  # slots of a cache line: a key belongs into one of them, or behind them
MOST_SLOTS = 1 << 31  # with more, the bits that a slot keeps would not choose its bucket
_ENTRY = 0xFFFFFFFF  # of a slot: the number of an entry, plus 1
_NONE = 0xFFFFFFFFFFFFFFFF
_ONE = np.uint64(1)
_WORD = 8


@inline
def keys_of(count):
    """How many keys this number of slots takes."""
    return count // 10 * 7


@inline
def _rotate(x, by):
    return (x << by) | (x >> (np.uint64(64) - by))


@inline
def _mix(v0, v1, v2, v3):
    """One SipRound."""
    v0 = v0 + v1
    v1 = _rotate(v1, np.uint64(13)) ^ v0
    v0 = _rotate(v0, np.uint64(32))
    v2 = v2 + v3
    v3 = _rotate(v3, np.uint64(16)) ^ v2
    v0 = v0 + v3
    v3 = _rotate(v3, np.uint64(21)) ^ v0
    v2 = v2 + v1
    v1 = _rotate(v1, np.uint64(17)) ^ v2
    v2 = _rotate(v2, np.uint64(32))
    return v0, v1, v2, v3


@inline
def _read_word(data, at, count):
    """Up to 8 bytes, the first one lowest."""
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(data[np.uint64(at + i)]) << np.uint64(8 * i)
    return word


@inline
def _read_last(data, start, end):
    """The bytes of data[start:end] behind its last whole word, the first one lowest."""
    rest = (end - start) % _WORD
    if rest == 0:
        return np.uint64(0)
    if end - start < _WORD:
        return _read_word(data, start, rest)
    # the last word of all bytes: one load instead of one for each byte
    return _read_word(data, end - _WORD, _WORD) >> np.uint64(8 * (_WORD - rest))


@inline
def _take_bytes(data, start, end, secret):
    """SipHash-1-3 with 128 bits of data[start:end], before its last rounds: the four words of its state."""
    v0 = secret[0] ^ np.uint64(0x736F6D6570736575)
    v1 = secret[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = secret[0] ^ np.uint64(0x6C7967656E657261)
    v3 = secret[1] ^ np.uint64(0x7465646279746573)
    at = start
    while end - at >= _WORD:
        word = _read_word(data, at, _WORD)
        v3 ^= word
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        v0 ^= word
        at += _WORD
    word = _read_last(data, start, end) | (np.uint64(end - start) << np.uint64(56))
    v3 ^= word
    v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
    v0 ^= word
    return v0, v1, v2 ^ np.uint64(0xEE), v3


@inline
def _end_hashes(states, count, first, low, high):
    """Makes hashes of `count` states, from place `first` on. The same steps for all: the compiler makes several at a
    time."""
    for i in range(np.uint64(count)):
        v0, v1, v2, v3 = states[0, i], states[1, i], states[2, i], states[3, i]
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        low[np.uint64(first) + i] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= np.uint64(0xDD)
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mix(v0, v1, v2, v3)
        high[np.uint64(first) + i] = v0 ^ v1 ^ v2 ^ v3


@inline
def _hash_found(src, longs, ints, n, secret, states, low, high, newest, count):
    """Hashes the keys of `n` records, and appends them to `count` others. Returns their number with these."""
    waiting = 0
    for i in range(n):
        length = np.int64(ints[record_batches.KEY_LENGTH, i])
        if length < 0:
            continue
        at = np.int64(ints[record_batches.KEY_AT, i])
        v0, v1, v2, v3 = _take_bytes(src, at, at + length, secret)
        states[0, waiting] = v0
        states[1, waiting] = v1
        states[2, waiting] = v2
        states[3, waiting] = v3
        waiting += 1
        newest[count] = np.uint64(longs[record_batches.OFFSET, i])
        if ints[record_batches.VALUE_LENGTH, i] < 0:
            newest[count] |= np.uint64(TOMBSTONE)
        count += 1
        if waiting == states.shape[1]:
            _end_hashes(states, waiting, count - waiting, low, high)
            waiting = 0
    _end_hashes(states, waiting, count - waiting, low, high)
    return count


@kernel(
    "int64(uint8[::1], int64[:,::1], int32[:,::1], int64, uint64[::1],"
    " uint64[:,::1], uint64[::1], uint64[::1], uint64[::1])"
)
def hash_records(src, longs, ints, n, secret, states, low, high, newest):
    """Hashes the keys of `n` records, but null ones. Returns their number.

    src, longs, ints: of `record_batches`. states: uint64[4, ≥ 1], to work in. low, high: uint64[≥ n], the halves of the
    hashes. newest: uint64[≥ n], of the records that have a key: the offset, and TOMBSTONE.
    """
    return _hash_found(src, longs, ints, n, secret, states, low, high, newest, 0)


@kernel(
    "int64(uint8[::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1],"
    " int64[::1], int64[:,::1], int32[:,::1], int64[::1],"
    " uint64[::1], uint64[:,::1], uint64[::1], uint64[::1], uint64[::1], int64[::1])"
)
def hash_batches(
    src, batches, payloads, bounds, limits, cursor, longs, ints, report, secret, states, low, high, newest, made
):
    """Finds the records inside `bounds`, and hashes their keys as `hash_records` does, while their bytes are in the
    processor's caches. Returns the number of those with a key.

    All parameters up to `report` are those of `record_batches.decode_records`, and so are the checks, the status, and
    the place where the next call goes on. longs, ints: room for `states.shape[1]` records. low, high, newest: room for
    as many records as there can be. made: int64[MADE], it is filled in.
    """
    n = np.int64(0)
    used = np.int64(0)
    count = np.int64(0)
    while True:
        rows = min(limits[record_batches.ROWS] - n, states.shape[1])
        left = limits[record_batches.BYTES] - used
        headers = limits[record_batches.HEADERS]
        found = find_records(src, batches, payloads, bounds, rows, left, headers, cursor, longs, ints, report)
        status = report[record_batches.STATUS]
        if status > record_batches.FULL:
            return count
        count = _hash_found(src, longs, ints, found, secret, states, low, high, newest, count)
        n += found
        used += report[record_batches.USED]
        if found > 0:
            made[LAST_FOUND] = longs[record_batches.OFFSET, found - 1]
        if status == record_batches.DONE or n >= limits[record_batches.ROWS] or used >= limits[record_batches.BYTES]:
            break
    made[ALL_FOUND] = n
    return count


@kernel("int64(int64[::1], int64, int64[:,::1], int32[:,::1], int64, int64[::1])")
def keep_offsets(wanted, at, longs, ints, n, sizes):
    """Moves the records with a wanted offset to the front of `longs` and `ints`. Returns their number.

    wanted: offsets, sorted; those before place `at` are below the offset of the first record. longs, ints: of
    `record_batches`, in the order of their offsets. sizes: int64[2], it is filled with the bytes of the keys and of the
    values that stay.
    """
    kept = 0
    sizes[0] = 0
    sizes[1] = 0
    for i in range(n):
        offset = longs[record_batches.OFFSET, i]
        while at < wanted.shape[0] and wanted[at] < offset:
            at += 1
        if at == wanted.shape[0]:
            break
        if wanted[at] != offset:
            continue
        sizes[0] += max(np.int64(ints[record_batches.KEY_LENGTH, i]), 0)
        sizes[1] += max(np.int64(ints[record_batches.VALUE_LENGTH, i]), 0)
        for row in range(record_batches.LONGS):
            longs[row, kept] = longs[row, i]
        for row in range(record_batches.INTS):
            ints[row, kept] = ints[row, i]
        kept += 1
    return kept


@inline
def _slice_of(high):
    return np.int64(high >> np.uint64(44))


@inline
def _tag_of(high):
    """Bits of a hash that a slot keeps, above the number of its entry. The bucket is made of these, and the slice of
    others."""
    return np.int64((high & np.uint64(0x7FFFFFFF)) << np.uint64(32))


@inline
def _first_slot(slots, high):
    """The first one of the key's bucket."""
    return np.int64(high & np.uint64(slots.shape[0] - BUCKET))


@inline
def _find_slot(slots, entries, low, high):
    """The slot of a key: the one that points to its entry, or the free one where it belongs."""
    mask = np.int64(slots.shape[0] - 1)
    slot = _first_slot(slots, high)
    tag = _tag_of(high)
    while slots[np.uint64(slot)] != 0:
        if slots[np.uint64(slot)] & ~_ENTRY == tag:
            entry = np.uint64((slots[np.uint64(slot)] & _ENTRY) - 1)
            if entries[entry, LOW_HASH] == low and entries[entry, HIGH_HASH] == high:
                break
        slot = (slot + 1) & mask
    return slot


@inline
def _guess_entries(highs, start, end, slots, entries, guesses):
    """Finds the entry of each key that its bucket alone names, or -1: it has the tag of the key.

    Each loop has the reads from memory of many keys, which wait for no other, and no branch that depends on them. The
    result means nothing: without one, the compiler would leave the reads out.
    """
    read = np.int64(0)
    for i in range(start, end):
        read += slots[np.uint64(_first_slot(slots, highs[i]))]
    for i in range(start, end):
        first = np.uint64(_first_slot(slots, highs[i]))
        tag = np.uint64(_tag_of(highs[i]))
        least = np.uint64(_NONE)  # of a slot with this tag, only the entry is left
        for j in range(np.uint64(BUCKET)):
            least = min(least, np.uint64(slots[first + j]) ^ tag)
        guesses[i - start] = np.int64(least) - 1 if least <= np.uint64(_ENTRY) else -1
    for i in range(end - start):
        entry = np.uint64(max(guesses[i], 0))
        read ^= np.int64((entries[entry, LOW_HASH] ^ entries[entry, NEWEST]) & _ONE)  # an entry may lie in two lines
    return read


@kernel("int64(uint64[::1], uint64[::1], uint64[::1], int64, int64[::1], uint64[:,::1], int64[::1], int64[::1])")
def note_records(lows, highs, newest, count, slots, entries, guesses, state):
    """Notes the records from state[AT] on. Returns DONE, or what has no room for the record at state[AT].

    lows, highs, newest: of `hash_records`. slots: a power of two of them; 0, or an entry plus 1 and its tag. entries:
    see above. guesses: int64[≥ 1], to work in. A record whose key has a newer offset already changes nothing.
    """
    known = state[COUNT]
    limit = keys_of(np.int64(slots.shape[0]))
    guessed = first = state[AT]
    for i in range(state[AT], count):
        if i == guessed:
            first, guessed = i, min(i + guesses.shape[0], count)
            state[FETCHED] += _guess_entries(highs, first, guessed, slots, entries, guesses)
        low, high = lows[i], highs[i]
        in_slice = _slice_of(high)
        if in_slice < state[FIRST_SLICE] or in_slice > state[LAST_SLICE]:
            continue
        entry = np.uint64(guesses[i - first])
        if entry == _NONE or entries[entry, LOW_HASH] != low or entries[entry, HIGH_HASH] != high:
            slot = np.uint64(_find_slot(slots, entries, low, high))
            entry = np.uint64((slots[slot] & _ENTRY) - 1)
            if entry == _NONE:
                if known == entries.shape[0] or known >= limit:
                    state[COUNT], state[AT] = known, i
                    return ENTRIES_FULL if known == entries.shape[0] else SLOTS_FULL
                entries[known, LOW_HASH] = low
                entries[known, HIGH_HASH] = high
                entries[known, NEWEST] = newest[i]
                known += 1
                slots[slot] = known | _tag_of(high)
                continue
        if (entries[entry, NEWEST] << _ONE) < (newest[i] << _ONE):
            entries[entry, NEWEST] = newest[i]
    state[COUNT], state[AT] = known, count
    return DONE


@kernel("void(int64[::1], uint64[:,::1], int64)")
def fill_slots(slots, entries, count):
    """Makes the slots of `count` entries. All slots are 0 before."""
    for entry in range(count):
        low, high = entries[entry, LOW_HASH], entries[entry, HIGH_HASH]
        slots[_find_slot(slots, entries, low, high)] = (entry + 1) | _tag_of(high)


@inline
def _put_anew(slots, slot):
    """Puts what a slot held into the first free one of its bucket, or behind it."""
    mask = np.int64(slots.shape[0] - 1)
    at = _first_slot(slots, np.uint64(slot >> 32))
    while slots[np.uint64(at)] != 0:
        at = (at + 1) & mask
    slots[np.uint64(at)] = slot


@kernel("int64(int64[::1], int64[::1])")
def spread_slots(slots, aside):
    """Spreads what the first half of the slots holds over all of them. Returns 1; or 0 if `aside` is too small, and
    then the slots have to be filled.

    slots: the second half of them is 0, and in the first half one is free. aside: int64[≥ 1], to work in.

    A key stays in its slot, comes to one before it, or goes to the second half. So no key that has its place is behind
    one that has not. What lies before the first free slot may belong to the end of the half: it waits aside.
    """
    first = np.int64(0)
    while slots[first] != 0:
        if first == aside.shape[0]:
            return 0
        aside[first] = slots[first]
        slots[first] = 0
        first += 1
    for at in range(first, slots.shape[0] // 2):
        slot = slots[at]
        if slot != 0:
            slots[at] = 0
            _put_anew(slots, slot)
    for at in range(first):
        _put_anew(slots, aside[at])
    return 1


@kernel("int64(uint64[:,::1], int64, int64)")
def keep_slices(entries, count, last_slice):
    """Keeps the entries whose slice is at most `last_slice`, at the front, in order. Returns how many."""
    kept = 0
    for entry in range(count):
        if _slice_of(entries[entry, HIGH_HASH]) <= last_slice:
            entries[kept, LOW_HASH] = entries[entry, LOW_HASH]
            entries[kept, HIGH_HASH] = entries[entry, HIGH_HASH]
            entries[kept, NEWEST] = entries[entry, NEWEST]
            kept += 1
    return kept
