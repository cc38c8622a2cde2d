"""Records of magic 2 batches → the Arrow buffers of the columns that most reads want, in one call.

Some records at a time are found (`record_batches.py`) and then copied, while their bytes are in the processor's caches.
The call holds no lock of Python.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels import record_batches
from kafka_segment_source.kernels.arrow_buffers import append_parts, is_beyond
from kafka_segment_source.kernels.jit import kernel
from kafka_segment_source.kernels.record_batches import find_records

BLOCK = 1024  # records that are found at a time

# What was made, int64[MADE]
KEY_BYTES = 0
VALUE_BYTES = 1
KEY_NULLS = 2
VALUE_NULLS = 3
LAST_OFFSET = 4  # of the last row
BEYOND_BATCH = 5  # the batch of the first timestamp that microseconds cannot hold, or -1
BEYOND_OFFSET = 6
BEYOND_MILLIS = 7
MADE = 8


@kernel(
    "int64(uint8[::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1],"
    " int64[::1], int64[:,::1], int32[:,::1], int64[::1], int64,"
    " int64[::1], int64[::1], int32[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1], uint8[::1],"
    " int64[::1])"
)
def build_rows(
    src,
    batches,
    payloads,
    bounds,
    limits,
    cursor,
    longs,
    ints,
    report,
    most_millis,
    offsets,
    micros,
    kinds,
    key_ends,
    key_validity,
    keys,
    value_ends,
    value_validity,
    values,
    made,
):
    """Fills the buffers of some columns with the records inside `bounds`. Returns the number of rows.

    All parameters up to `report` are those of `record_batches.decode_records`, and so are the checks, the status, and
    the place where the next call goes on. longs, ints: room for BLOCK records. most_millis: the largest timestamp that
    microseconds can hold; another one is told in `made`.

    A column whose array is empty is not wanted. The others have room for as many rows as there can be: offsets, micros:
    int64[rows]. kinds (timestampType): int32[rows]. key_ends, value_ends (Arrow's offsets): int32[rows + 1].
    key_validity, value_validity: zeroed bitmaps, as `arrow_buffers.copy_parts` fills them. keys, values: as many bytes
    as the parts of the batches can have.
    """
    n = np.int64(0)
    used = np.int64(0)
    key_bytes = value_bytes = key_nulls = value_nulls = np.int64(0)
    made[BEYOND_BATCH] = -1
    if key_ends.shape[0] > 0:
        key_ends[0] = 0
    if value_ends.shape[0] > 0:
        value_ends[0] = 0
    while True:
        rows = min(limits[record_batches.ROWS] - n, BLOCK)
        left = limits[record_batches.BYTES] - used
        headers = limits[record_batches.HEADERS]
        count = find_records(src, batches, payloads, bounds, rows, left, headers, cursor, longs, ints, report)
        status = report[record_batches.STATUS]
        if status > record_batches.FULL:
            return n
        if micros.shape[0] > 0:
            into = micros[n:]
            for i in range(count):
                millis = longs[record_batches.TIMESTAMP, i]
                if not is_beyond(millis, most_millis):
                    into[i] = millis * 1000
                elif made[BEYOND_BATCH] < 0:
                    made[BEYOND_BATCH] = ints[record_batches.BATCH, i]
                    made[BEYOND_OFFSET] = longs[record_batches.OFFSET, i]
                    made[BEYOND_MILLIS] = millis
        if offsets.shape[0] > 0:
            into = offsets[n:]  # an index that cannot be negative leaves registers to the loops below
            for i in range(count):
                into[i] = longs[record_batches.OFFSET, i]
        if kinds.shape[0] > 0:
            into_kinds = kinds[n:]
            for i in range(count):
                into_kinds[i] = ints[record_batches.TIMESTAMP_TYPE, i]
        if key_ends.shape[0] > 0:
            starts, lengths = ints[record_batches.KEY_AT], ints[record_batches.KEY_LENGTH]
            key_bytes, key_nulls = append_parts(
                src, starts, lengths, count, n, key_bytes, key_nulls, key_ends, key_validity, keys
            )
        if value_ends.shape[0] > 0:
            starts, lengths = ints[record_batches.VALUE_AT], ints[record_batches.VALUE_LENGTH]
            value_bytes, value_nulls = append_parts(
                src, starts, lengths, count, n, value_bytes, value_nulls, value_ends, value_validity, values
            )
        n += count
        used += report[record_batches.USED]
        if count > 0:
            made[LAST_OFFSET] = longs[record_batches.OFFSET, count - 1]
        if status == record_batches.DONE or n >= limits[record_batches.ROWS] or used >= limits[record_batches.BYTES]:
            break
    made[KEY_BYTES], made[VALUE_BYTES], made[KEY_NULLS], made[VALUE_NULLS] = (
        key_bytes,
        value_bytes,
        key_nulls,
        value_nulls,
    )
    return n
