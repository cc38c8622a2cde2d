"""Avro values → columns, by programs that `values/` makes of a writer's and a reader's schema.

A program is a sequence of steps in writer's order. Each row has the program of its writer, and all programs fill the
same columns, those of the reader. The kernel checks every length against the bytes left, and every row for bytes left
over. A row that does not fit is taken back, and costs no other row.

Columns lie in one arena of bytes, which is given in five types. A column has elements (numbers, or the ends of its
texts or lists, as Arrow's offsets), bytes of texts, and a byte for each element that says whether it is there. Where
one is full, the kernel takes the row back and returns, and the caller makes room.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import inline, kernel
from kafka_segment_source.kernels.primitives import FAILED, read_varlong
from kafka_segment_source.kernels.system_calls import copy_bytes

# Steps: their numbers. The words of a step follow its number; `values/avro_program.py` says what they are.
END = 0
INT = 1  # → int32
INT_TO_LONG = 2
LONG = 3
INT_TO_FLOAT = 4
INT_TO_DOUBLE = 5
LONG_TO_FLOAT = 6
LONG_TO_DOUBLE = 7
FLOAT = 8
FLOAT_TO_DOUBLE = 9
DOUBLE = 10
BOOLEAN = 11
STRING = 12  # UTF-8 is checked
BYTES = 13
FIXED = 14
DECIMAL = 15
DECIMAL_FIXED = 16
UUID_FIXED = 17
ENUM = 18
SKIP_INT = 19
SKIP_LONG = 20
SKIP_BYTES = 21
SKIP_FIXED = 22
SKIP_BOOLEAN = 23
SKIP_ENUM = 24
CONSTANT = 25
CONSTANT_BYTES = 26
PRESENT = 27
OPTION = 28
UNION = 29
JUMP = 30
REFUSE = 31
NULLS = 32
ITEMS = 33
NEXT_ITEM = 34
END_LIST = 35
CALL = 36
RETURN = 37
BEGIN_RAW = 38
END_RAW = 39
REST = 40
WORDS = 6  # of a step, with its number

# Kinds of columns, by their elements
EMPTY = 0  # of structs: only their number counts
BYTE = 1
FOUR = 4
EIGHT = 8
SIXTEEN = 16
LIST = 32  # the ends of lists
TEXT = 33  # the ends of texts, and their bytes

# Rows of the table of columns
KIND = 0
CAPACITY = 1  # elements
VALID_AT = 2  # byte in the arena; -1: all elements are there
DATA_AT = 3
BYTES_CAPACITY = 4
BYTES_AT = 5
CHILD = 6  # of a list: the column whose elements its items are
COLUMN_FIELDS = 7

# What becomes of a row
FITS = 0
IS_NULL = 1
NO_PREFIX = 2
UNKNOWN_SCHEMA = 3
CUT = 4
LEFT_OVER = 5
BAD_UTF8 = 6
BAD_NUMBER = 7
BAD_LENGTH = 8
BAD_BRANCH = 9
BAD_SYMBOL = 10
UNKNOWN_SYMBOL = 11
BAD_BOOLEAN = 12
TOO_MANY_ITEMS = 13
TOO_DEEP = 14
TOO_PRECISE = 15
BEYOND_TIME = 16
UNRESOLVED = 17
TOO_LARGE = 18
NO_ROOM = 99  # the row is tried again with more room

# How a row names its writer
BARE = 0
PREFIXED = 1  # byte 0 and four bytes of an id (Confluent)
SINGLE_OBJECT = 2  # C3 01 and eight bytes of a fingerprint (Avro)

MOST_EMPTY_ITEMS = 65_536  # items without bytes in a row
DEPTH = 128  # lists, maps and calls that are open at once


@inline
def _is_utf8(src, at, end):
    """Whether these bytes are UTF-8 (RFC 3629, table of section 4)."""
    high = np.uint8(0)
    for i in range(at, end):
        high |= src[np.uint64(i)]
    if high < 0x80:
        return True
    while at < end:
        first = np.int64(src[np.uint64(at)])
        if first < 0x80:
            at += 1
            continue
        least, most = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                least = 0xA0
            elif first == 0xED:
                most = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                least = 0x90
            elif first == 0xF4:
                most = 0x8F
        else:
            return False
        if at + more >= end:
            return False
        for i in range(1, more + 1):
            byte = np.int64(src[np.uint64(at + i)])
            if byte < least or byte > most:
                return False
            least, most = 0x80, 0xBF
        at += more + 1
    return True


@inline
def _read_long(src, at, end):
    """Reads a zig-zag varlong at src[at:end]: (value, position after it), or (_, FAILED)."""
    if at < end and src[np.uint64(at)] < 0x80:
        byte = np.int64(src[np.uint64(at)])
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, after = read_varlong(src, at, end)
    if after != FAILED and after - at == 10 and src[np.uint64(after - 1)] > 1:
        return np.int64(0), np.int64(FAILED)  # more than 64 bits
    return value, after


@inline
def _say_number(at, end):
    """What is wrong where no number can be read: cut, or too long."""
    return BAD_NUMBER if end - at >= 10 else CUT


@inline
def _read_bits(src, at, count):
    """Reads `count` little-endian bytes."""
    bits = np.int64(0)
    for i in range(count):
        bits |= np.int64(src[np.uint64(at + i)]) << (8 * i)
    return bits


@inline
def _find_key(keys, key):
    """Returns the place of a key in sorted keys, or -1."""
    low, high = np.int64(0), np.int64(keys.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if keys[np.uint64(middle)] < key:
            low = middle + 1
        else:
            high = middle
    if low < keys.shape[0] and keys[np.uint64(low)] == key:
        return low
    return np.int64(-1)


@inline
def _hex(nibble):
    return nibble + 48 if nibble < 10 else nibble + 87


@inline
def _append_empty(column, columns, counts, arena8, arena32, arena64):
    """Appends an element that is not there. Returns False where there is no room."""
    count = counts[0, np.uint64(column)]
    if count >= columns[CAPACITY, np.uint64(column)]:
        return False
    kind = columns[KIND, np.uint64(column)]
    at = columns[DATA_AT, np.uint64(column)]
    if kind == TEXT:
        arena32[np.uint64((at >> 2) + count + 1)] = np.int32(counts[1, np.uint64(column)])
    elif kind == LIST:
        child = columns[CHILD, np.uint64(column)]
        arena32[np.uint64((at >> 2) + count + 1)] = np.int32(counts[0, np.uint64(child)])
    elif kind == EIGHT:
        arena64[np.uint64((at >> 3) + count)] = 0
    elif kind == FOUR:
        arena32[np.uint64((at >> 2) + count)] = 0
    elif kind == BYTE:
        arena8[np.uint64(at + count)] = 0
    elif kind == SIXTEEN:
        arena64[np.uint64((at >> 3) + 2 * count)] = 0
        arena64[np.uint64((at >> 3) + 2 * count + 1)] = 0
    valid = columns[VALID_AT, np.uint64(column)]
    if valid >= 0:
        arena8[np.uint64(valid + count)] = 0
    counts[0, np.uint64(column)] = count + 1
    return True


@inline
def _take_back(columns, counts, saved, arena8):
    """Makes the columns as they were at the start of a row."""
    for column in range(counts.shape[1]):
        valid = columns[VALID_AT, np.uint64(column)]
        if valid >= 0:
            for i in range(saved[0, np.uint64(column)], min(counts[0, np.uint64(column)], columns[CAPACITY, column])):
                arena8[np.uint64(valid + i)] = 1
        counts[0, np.uint64(column)] = saved[0, np.uint64(column)]
        counts[1, np.uint64(column)] = saved[1, np.uint64(column)]


@inline
def _read_block(src, at, end, least, budget):
    """Reads the head of a block of items: (count, position, budget left, reason).

    least: bytes that an item has at least. budget: how many more items without bytes a row may have.
    """
    count, after = _read_long(src, at, end)
    if after == FAILED:
        return np.int64(0), at, budget, np.int64(_say_number(at, end))
    at = after
    if count < 0:
        if count < -0x7FFFFFFFFFFFFFFF:
            return np.int64(0), at, budget, np.int64(BAD_LENGTH)
        count = -count
        size, after = _read_long(src, at, end)
        if after == FAILED:
            return np.int64(0), at, budget, np.int64(_say_number(at, end))
        at = after
        if size < 0 or size > end - at:
            return np.int64(0), at, budget, np.int64(BAD_LENGTH)
    if least > 0:
        if count > (end - at) // least:
            return np.int64(0), at, budget, np.int64(BAD_LENGTH)
    elif count > budget:
        return np.int64(0), at, budget, np.int64(TOO_MANY_ITEMS)
    else:
        budget -= count
    return count, at, budget, np.int64(0)


@inline
def _store_decimal(src, at, size, precision_high, precision_low, place, arena64):
    """Writes a big-endian number as 128 bits at arena64[place:]. Returns whether it is within its precision.

    precision_high, precision_low: the halves of 10 ** precision.
    """
    negative = size > 0 and src[np.uint64(at)] >= 0x80
    fill = np.int64(-1) if negative else np.int64(0)
    extra = size - 16
    for i in range(extra):
        if np.int64(np.int8(src[np.uint64(at + i)])) != fill:
            return False
    if extra > 0:
        at += extra
        size = np.int64(16)
        if (src[np.uint64(at)] >= 0x80) != negative:
            return False
    low, high = fill, fill
    for i in range(size):
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | np.int64(src[np.uint64(at + i)])
    arena64[np.uint64(place)] = low
    arena64[np.uint64(place + 1)] = high
    if negative:  # the magnitude
        low = ~low + 1
        high = ~high + (1 if low == 0 else 0)
        if high < 0:
            return False
    if high != precision_high:
        return high < precision_high
    return (low ^ (-0x7FFFFFFFFFFFFFFF - 1)) < (precision_low ^ (-0x7FFFFFFFFFFFFFFF - 1))


@kernel(
    "int64(uint8[::1], int32[::1], int32[::1], int64, int64, int64, int64, int64[::1], int64[::1], int32[::1],"
    " int64[:,::1], int64[::1], uint8[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], uint8[::1],"
    " int32[::1], int64[::1], float32[::1], float64[::1], uint8[::1], int64[::1])"
)
def decode_rows(
    src,
    places,
    sizes,
    first,
    last,
    refused,
    form,
    keys,
    starts,
    chosen,
    steps,
    lists,
    texts,
    columns,
    counts,
    saved,
    frames,
    arena8,
    arena32,
    arena64,
    arena_float,
    arena_double,
    status,
    report,
):
    """Decodes rows [first, last). Returns the number of the first row that it has not decoded.

    places, sizes: of the values in src; a negative size is a null. refused: a row that is too large; -1: none.
    form: how a row names its writer. keys: what names the writers, in order. starts: the first steps of their programs.
    With BARE, all rows have the first program. chosen: for each row, the place of its program where a header names it,
    -1 where the value does, and -2 where a header names no program; or of length 0.
    steps: int64[n, WORDS]. lists: numbers that steps refer to; the first two are place and size of the columns that a
    row without a value leaves empty. texts: bytes that steps refer to.
    columns: int64[COLUMN_FIELDS, n]. counts, saved: int64[2, n]: elements and bytes of each column, now and at the
    start of the row. frames: int64[DEPTH, 2]. arena…: one memory, in five types.
    status: what became of each row. report: int64[3]: the column without room, and how many elements and bytes it
    needs.
    """
    last_key = np.int64(-1)
    last_found = np.int64(-1)
    known = False
    for row in range(first, last):
        size = np.int64(sizes[np.uint64(row)])
        at = np.int64(places[np.uint64(row)])
        end = at + size
        for column in range(counts.shape[1]):
            saved[0, np.uint64(column)] = counts[0, np.uint64(column)]
        for column in range(counts.shape[1]):
            saved[1, np.uint64(column)] = counts[1, np.uint64(column)]
        bad = np.int64(FITS)
        pc = np.int64(0)
        if size < 0:
            bad = np.int64(IS_NULL)
        elif row == refused:
            bad = np.int64(TOO_LARGE)
        elif chosen.shape[0] > 0 and chosen[np.uint64(row)] != -1:
            if chosen[np.uint64(row)] < 0:
                bad = np.int64(UNKNOWN_SCHEMA)
            else:
                pc = starts[np.uint64(chosen[np.uint64(row)])]
        elif form == BARE:
            pc = starts[np.uint64(0)]
        elif form == PREFIXED:
            if size < 5 or src[np.uint64(at)] != 0:
                bad = np.int64(NO_PREFIX)
            else:
                key = np.int64(0)
                for i in range(1, 5):
                    key = (key << 8) | np.int64(src[np.uint64(at + i)])
                if not known or key != last_key:
                    last_key, last_found, known = key, _find_key(keys, key), True
                if last_found < 0:
                    bad = np.int64(UNKNOWN_SCHEMA)
                else:
                    pc = starts[np.uint64(last_found)]
                    at += 5
        elif size < 10 or src[np.uint64(at)] != 0xC3 or src[np.uint64(at + 1)] != 1:
            bad = np.int64(NO_PREFIX)
        else:
            key = _read_bits(src, at + 2, 8)
            if not known or key != last_key:
                last_key, last_found, known = key, _find_key(keys, key), True
            if last_found < 0:
                bad = np.int64(UNKNOWN_SCHEMA)
            else:
                pc = starts[np.uint64(last_found)]
                at += 10

        depth = np.int64(0)
        budget = np.int64(MOST_EMPTY_ITEMS)
        need_column, need_bytes = np.int64(-1), np.int64(0)
        while bad == FITS:
            step = np.uint64(pc)
            code = steps[step, 0]
            a = steps[step, 1]
            pc += 1
            if (code <= UUID_FIXED and code != END) or code == ENUM:
                # ---- a value into column a ----
                column = np.uint64(a)
                count = counts[0, column]
                if count >= columns[CAPACITY, column]:
                    need_column = a
                    bad = np.int64(NO_ROOM)
                    break
                data_at = columns[DATA_AT, column]
                if code <= LONG_TO_DOUBLE:
                    value, after = _read_long(src, at, end)
                    if after == FAILED:
                        bad = np.int64(_say_number(at, end))
                        break
                    at = after
                    if code != LONG and code != LONG_TO_FLOAT and code != LONG_TO_DOUBLE:
                        if value > 0x7FFFFFFF or value < -0x80000000:
                            bad = np.int64(BAD_NUMBER)
                            break
                    if code == INT:
                        arena32[np.uint64((data_at >> 2) + count)] = np.int32(value)
                    elif code == LONG or code == INT_TO_LONG:
                        factor = steps[step, 2]
                        if factor != 1:
                            if value > 0x7FFFFFFFFFFFFFFF // factor or value < -(0x7FFFFFFFFFFFFFFF // factor):
                                bad = np.int64(BEYOND_TIME)
                                break
                            value *= factor
                        arena64[np.uint64((data_at >> 3) + count)] = value
                    elif code == INT_TO_FLOAT or code == LONG_TO_FLOAT:
                        arena_float[np.uint64((data_at >> 2) + count)] = np.float32(value)
                    else:
                        arena_double[np.uint64((data_at >> 3) + count)] = np.float64(value)
                elif code == STRING or code == BYTES:
                    length, after = _read_long(src, at, end)
                    if after == FAILED:
                        bad = np.int64(_say_number(at, end))
                        break
                    at = after
                    if length < 0 or length > end - at:
                        bad = np.int64(BAD_LENGTH)
                        break
                    if code == STRING and not _is_utf8(src, at, at + length):
                        bad = np.int64(BAD_UTF8)
                        break
                    used = counts[1, column]
                    if used + length > columns[BYTES_CAPACITY, column]:
                        need_column, need_bytes = a, used + length
                        bad = np.int64(NO_ROOM)
                        break
                    copy_bytes(arena8, columns[BYTES_AT, column] + used, src, at, length)
                    at += length
                    counts[1, column] = used + length
                    arena32[np.uint64((data_at >> 2) + count + 1)] = np.int32(used + length)
                elif code == DOUBLE:
                    if end - at < 8:
                        bad = np.int64(CUT)
                        break
                    arena64[np.uint64((data_at >> 3) + count)] = _read_bits(src, at, 8)
                    at += 8
                elif code == FLOAT:
                    if end - at < 4:
                        bad = np.int64(CUT)
                        break
                    arena32[np.uint64((data_at >> 2) + count)] = np.int32(_read_bits(src, at, 4))
                    at += 4
                elif code == FLOAT_TO_DOUBLE:
                    if end - at < 4:
                        bad = np.int64(CUT)
                        break
                    # by way of the place of the double, which is at least as large
                    arena32[np.uint64((data_at >> 2) + 2 * count)] = np.int32(_read_bits(src, at, 4))
                    single = arena_float[np.uint64((data_at >> 2) + 2 * count)]
                    arena_double[np.uint64((data_at >> 3) + count)] = np.float64(single)
                    at += 4
                elif code == BOOLEAN:
                    if at >= end:
                        bad = np.int64(CUT)
                        break
                    if src[np.uint64(at)] > 1:
                        bad = np.int64(BAD_BOOLEAN)
                        break
                    arena8[np.uint64(data_at + count)] = src[np.uint64(at)]
                    at += 1
                elif code == ENUM:
                    value, after = _read_long(src, at, end)
                    if after == FAILED:
                        bad = np.int64(_say_number(at, end))
                        break
                    at = after
                    if value < 0 or value >= steps[step, 2]:
                        bad = np.int64(BAD_SYMBOL)
                        break
                    entry = steps[step, 3] + 2 * value
                    length = lists[np.uint64(entry + 1)]
                    if length < 0:
                        bad = np.int64(UNKNOWN_SYMBOL)
                        break
                    used = counts[1, column]
                    if used + length > columns[BYTES_CAPACITY, column]:
                        need_column, need_bytes = a, used + length
                        bad = np.int64(NO_ROOM)
                        break
                    copy_bytes(arena8, columns[BYTES_AT, column] + used, texts, lists[np.uint64(entry)], length)
                    counts[1, column] = used + length
                    arena32[np.uint64((data_at >> 2) + count + 1)] = np.int32(used + length)
                elif code == FIXED:
                    length = steps[step, 2]
                    if length > end - at:
                        bad = np.int64(CUT)
                        break
                    used = counts[1, column]
                    if used + length > columns[BYTES_CAPACITY, column]:
                        need_column, need_bytes = a, used + length
                        bad = np.int64(NO_ROOM)
                        break
                    copy_bytes(arena8, columns[BYTES_AT, column] + used, src, at, length)
                    at += length
                    counts[1, column] = used + length
                    arena32[np.uint64((data_at >> 2) + count + 1)] = np.int32(used + length)
                elif code == UUID_FIXED:
                    if end - at < 16:
                        bad = np.int64(CUT)
                        break
                    used = counts[1, column]
                    if used + 36 > columns[BYTES_CAPACITY, column]:
                        need_column, need_bytes = a, used + 36
                        bad = np.int64(NO_ROOM)
                        break
                    to = columns[BYTES_AT, column] + used
                    for i in range(16):
                        byte = np.int64(src[np.uint64(at + i)])
                        arena8[np.uint64(to)] = np.uint8(_hex(byte >> 4))
                        arena8[np.uint64(to + 1)] = np.uint8(_hex(byte & 15))
                        to += 2
                        if i == 3 or i == 5 or i == 7 or i == 9:
                            arena8[np.uint64(to)] = np.uint8(45)
                            to += 1
                    at += 16
                    counts[1, column] = used + 36
                    arena32[np.uint64((data_at >> 2) + count + 1)] = np.int32(used + 36)
                else:  # DECIMAL, DECIMAL_FIXED
                    length = steps[step, 2]
                    if code == DECIMAL:
                        length, after = _read_long(src, at, end)
                        if after == FAILED:
                            bad = np.int64(_say_number(at, end))
                            break
                        at = after
                    if length < 0 or length > end - at:
                        bad = np.int64(BAD_LENGTH) if code == DECIMAL else np.int64(CUT)
                        break
                    place = (data_at >> 3) + 2 * count
                    if not _store_decimal(src, at, length, steps[step, 3], steps[step, 4], place, arena64):
                        bad = np.int64(TOO_PRECISE)
                        break
                    at += length
                counts[0, column] = count + 1
            elif code == OPTION:
                value, after = _read_long(src, at, end)
                if after == FAILED:
                    bad = np.int64(_say_number(at, end))
                    break
                at = after
                if value < 0 or value > 1:
                    bad = np.int64(BAD_BRANCH)
                elif value == a:
                    for i in range(steps[step, 2], steps[step, 2] + steps[step, 3]):
                        if not _append_empty(lists[np.uint64(i)], columns, counts, arena8, arena32, arena64):
                            need_column = lists[np.uint64(i)]
                            bad = np.int64(NO_ROOM)
                            break
                    pc = steps[step, 4]
            elif code == PRESENT:
                count = counts[0, np.uint64(a)]
                if count >= columns[CAPACITY, np.uint64(a)]:
                    need_column = a
                    bad = np.int64(NO_ROOM)
                    break
                counts[0, np.uint64(a)] = count + 1
            elif code == END:
                if at != end:
                    bad = np.int64(LEFT_OVER)
                break
            elif code == NULLS:
                for i in range(a, a + steps[step, 2]):
                    if not _append_empty(lists[np.uint64(i)], columns, counts, arena8, arena32, arena64):
                        need_column = lists[np.uint64(i)]
                        bad = np.int64(NO_ROOM)
                        break
            elif code == ITEMS:
                count, at, budget, bad = _read_block(src, at, end, steps[step, 2], budget)
                if bad != FITS:
                    break
                if count == 0:
                    pc = steps[step, 3]
                elif depth >= DEPTH:
                    bad = np.int64(TOO_DEEP)
                else:
                    frames[np.uint64(depth), 0] = count
                    depth += 1
            elif code == NEXT_ITEM:
                left = frames[np.uint64(depth - 1), 0] - 1
                if left == 0:
                    left, at, budget, bad = _read_block(src, at, end, steps[step, 2], budget)
                    if bad != FITS:
                        break
                if left == 0:
                    depth -= 1
                else:
                    frames[np.uint64(depth - 1), 0] = left
                    pc = a
            elif code == END_LIST:
                count = counts[0, np.uint64(a)]
                if count >= columns[CAPACITY, np.uint64(a)]:
                    need_column = a
                    bad = np.int64(NO_ROOM)
                    break
                items = counts[0, np.uint64(columns[CHILD, np.uint64(a)])]
                arena32[np.uint64((columns[DATA_AT, np.uint64(a)] >> 2) + count + 1)] = np.int32(items)
                counts[0, np.uint64(a)] = count + 1
            elif code == UNION:
                value, after = _read_long(src, at, end)
                if after == FAILED:
                    bad = np.int64(_say_number(at, end))
                    break
                at = after
                if value < 0 or value >= a:
                    bad = np.int64(BAD_BRANCH)
                    break
                pc = lists[np.uint64(steps[step, 2] + value)]
            elif code == JUMP:
                pc = a
            elif code == SKIP_INT or code == SKIP_LONG:
                value, after = _read_long(src, at, end)
                if after == FAILED:
                    bad = np.int64(_say_number(at, end))
                    break
                at = after
                if code == SKIP_INT and (value > 0x7FFFFFFF or value < -0x80000000):
                    bad = np.int64(BAD_NUMBER)
            elif code == SKIP_BYTES:
                length, after = _read_long(src, at, end)
                if after == FAILED:
                    bad = np.int64(_say_number(at, end))
                    break
                at = after
                if length < 0 or length > end - at:
                    bad = np.int64(BAD_LENGTH)
                    break
                if a == 1 and not _is_utf8(src, at, at + length):
                    bad = np.int64(BAD_UTF8)
                    break
                at += length
            elif code == SKIP_FIXED:
                if a > end - at:
                    bad = np.int64(CUT)
                    break
                at += a
            elif code == SKIP_BOOLEAN:
                if at >= end:
                    bad = np.int64(CUT)
                    break
                if src[np.uint64(at)] > 1:
                    bad = np.int64(BAD_BOOLEAN)
                at += 1
            elif code == SKIP_ENUM:
                value, after = _read_long(src, at, end)
                if after == FAILED:
                    bad = np.int64(_say_number(at, end))
                    break
                at = after
                if value < 0 or value >= a:
                    bad = np.int64(BAD_SYMBOL)
            elif code == CONSTANT:
                column = np.uint64(a)
                count = counts[0, column]
                if count >= columns[CAPACITY, column]:
                    need_column = a
                    bad = np.int64(NO_ROOM)
                    break
                kind = columns[KIND, column]
                data_at = columns[DATA_AT, column]
                if kind == BYTE:
                    arena8[np.uint64(data_at + count)] = np.uint8(steps[step, 2])
                elif kind == FOUR:
                    arena32[np.uint64((data_at >> 2) + count)] = np.int32(steps[step, 2])
                elif kind == EIGHT:
                    arena64[np.uint64((data_at >> 3) + count)] = steps[step, 2]
                else:
                    arena64[np.uint64((data_at >> 3) + 2 * count)] = steps[step, 2]
                    arena64[np.uint64((data_at >> 3) + 2 * count + 1)] = steps[step, 3]
                counts[0, column] = count + 1
            elif code == CONSTANT_BYTES:
                column = np.uint64(a)
                count = counts[0, column]
                used = counts[1, column]
                length = steps[step, 3]
                if count >= columns[CAPACITY, column] or used + length > columns[BYTES_CAPACITY, column]:
                    need_column, need_bytes = a, used + length
                    bad = np.int64(NO_ROOM)
                    break
                copy_bytes(arena8, columns[BYTES_AT, column] + used, texts, steps[step, 2], length)
                counts[1, column] = used + length
                arena32[np.uint64((columns[DATA_AT, column] >> 2) + count + 1)] = np.int32(used + length)
                counts[0, column] = count + 1
            elif code == CALL or code == BEGIN_RAW:
                if depth >= DEPTH:
                    bad = np.int64(TOO_DEEP)
                    break
                frames[np.uint64(depth), 0] = pc
                frames[np.uint64(depth), 1] = at
                depth += 1
                if code == CALL:
                    pc = a
            elif code == RETURN:
                depth -= 1
                pc = frames[np.uint64(depth), 0]
            elif code == END_RAW or code == REST:
                begin = at
                tag = np.int64(0)
                if code == END_RAW:
                    depth -= 1
                    begin = frames[np.uint64(depth), 1]
                    tag = np.int64(4)
                else:
                    at = end
                column = np.uint64(a)
                count = counts[0, column]
                used = counts[1, column]
                length = tag + at - begin
                if count >= columns[CAPACITY, column] or used + length > columns[BYTES_CAPACITY, column]:
                    need_column, need_bytes = a, used + length
                    bad = np.int64(NO_ROOM)
                    break
                to = columns[BYTES_AT, column] + used
                for i in range(tag):
                    arena8[np.uint64(to + i)] = np.uint8((steps[step, 2] >> (8 * i)) & 0xFF)
                copy_bytes(arena8, to + tag, src, begin, at - begin)
                counts[1, column] = used + length
                arena32[np.uint64((columns[DATA_AT, column] >> 2) + count + 1)] = np.int32(used + length)
                counts[0, column] = count + 1
            else:  # REFUSE
                bad = np.int64(UNRESOLVED)

        if bad != FITS:
            _take_back(columns, counts, saved, arena8)
            if bad != NO_ROOM:
                for i in range(lists[np.uint64(0)], lists[np.uint64(0)] + lists[np.uint64(1)]):
                    if not _append_empty(lists[np.uint64(i)], columns, counts, arena8, arena32, arena64):
                        need_column = lists[np.uint64(i)]
                        bad = np.int64(NO_ROOM)
                        break
            if bad == NO_ROOM:
                _take_back(columns, counts, saved, arena8)
                report[0] = need_column
                report[1] = counts[0, np.uint64(need_column)] + 1
                report[2] = need_bytes
                return row
        status[np.uint64(row)] = np.uint8(bad)
    return last
