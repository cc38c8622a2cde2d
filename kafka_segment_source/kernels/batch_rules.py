"""Rules over the headers of batches that follow each other in a file. Each is one pass over a header table.

`decoding/` says what each rule is for. They are kernels, since numpy would make a dozen small arrays for each rule and
chunk.
"""

from __future__ import annotations

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.jit import inline, kernel

# Rows of the report of `find_disorder`, int64[2]
FIRST_ALLOWED = 0
LAST_ALLOWED = 1

# Bits of the answer of `look_for_gaps`
HAS_GAPS = 1
HAS_OLD_FORMATS = 2
ENDS_BEHIND_GAP = 4


@inline
def _is_v2(headers, b):
    return headers[batch_headers.MAGIC, b] == kafka_format.MAGIC_V2


@inline
def _has_codec(headers, b):
    return headers[batch_headers.ATTRIBUTES, b] & kafka_format.CODEC_MASK != kafka_format.CODEC_NONE


@inline
def _is_same(headers, b, other):
    """Whether two batches have the same bytes, but for their offsets."""
    return (
        headers[batch_headers.CRC, b] == headers[batch_headers.CRC, other]
        and headers[batch_headers.SIZE, b] == headers[batch_headers.SIZE, other]
    )


@kernel("int64(int64[:,:], int64, int64, int64, boolean, int64[::1])", is_short=True)
def find_disorder(headers, before, limit, following, is_behind_damage, report):
    """Returns the column of the first batch whose offsets are wrong, or the number of batches. Fills in the row AFTER.

    before, limit, following, is_behind_damage: as in `offset_order.find_disorder`. report: the first and last offset
    that the place of the wrong batch allows, both inclusive.
    """
    n = headers.shape[1]
    wrong = n
    earlier = before
    for b in range(n):
        headers[batch_headers.AFTER, b] = earlier
        base = headers[batch_headers.BASE_OFFSET, b]
        last = headers[batch_headers.LAST_OFFSET, b]
        later = headers[batch_headers.BASE_OFFSET, b + 1] if b + 1 < n else following
        jumped = base > earlier + 1 and earlier < later <= last
        third = headers[batch_headers.BASE_OFFSET, b + 2] if b + 2 < n else following
        if jumped and later == base:  # the next batch repeats this one ...
            # ... unless, without the jump, it would exactly fill the gap, or it is another one that the third follows
            fills = later - earlier == last - base + 2
            is_other = b + 1 < n and not _is_same(headers, b, b + 1)
            jumped = fills or (is_other and third == headers[batch_headers.LAST_OFFSET, b + 1] + 1)
        # behind damage the next one has fallen instead if it exactly fills the place between this one and the third
        if jumped and b == 0 and is_behind_damage and n > 1:
            jumped = third - last != headers[batch_headers.LAST_OFFSET, b + 1] - later + 2
        if wrong == n and (base <= earlier or last >= limit or jumped):
            wrong = b
            report[FIRST_ALLOWED] = earlier + 1
            report[LAST_ALLOWED] = (later if jumped else limit) - 1
        earlier = last
    return wrong


@kernel("int64(int64[:,:], int64, int64)", is_short=True)
def look_for_gaps(headers, position, next_offset):
    """Returns HAS_GAPS if compaction shows among the batches, ENDS_BEHIND_GAP if the last of them shows one only by its
    place, and HAS_OLD_FORMATS if some are of magic 0 or 1.

    position, next_offset: the byte and the offset after the batch before them. Compaction shows where offsets are
    missing inside a batch, or before a batch that lies directly behind the one before it.
    """
    flags = 0
    end = headers.shape[1] - 1
    for b in range(headers.shape[1]):
        base = headers[batch_headers.BASE_OFFSET, b]
        last = headers[batch_headers.LAST_OFFSET, b]
        count = headers[batch_headers.COUNT, b]
        follows = headers[batch_headers.POSITION, b] == position
        if 0 <= count < last - base + 1:
            flags |= HAS_GAPS
        elif follows and base > next_offset:
            flags |= HAS_GAPS if b < end else ENDS_BEHIND_GAP
        if not _is_v2(headers, b):
            flags |= HAS_OLD_FORMATS
        position = headers[batch_headers.POSITION, b] + headers[batch_headers.SIZE, b]
        next_offset = last + 1
    return flags


@kernel("int64(int64[:,:], int64[::1], boolean, int64[::1])", is_short=True)
def select_batches(headers, bounds, include_control, chosen):
    """Fills `chosen` with the columns of the batches that may hold a wanted record. Returns their number.

    bounds: int64[4], as of `record_batches`. include_control: whether control records are wanted.

    maxTimestamp is an upper bound of the timestamps. A header has no lower bound. Under LogAppendTime, maxTimestamp is
    every record's timestamp. A wrapper of magic 0 or 1 states only its last offset. Its timestamp is used only under
    LogAppendTime, since Kafka 0.10.0 stored the timestamp that the producer sent.
    """
    n = 0
    for b in range(headers.shape[1]):
        attributes = headers[batch_headers.ATTRIBUTES, b]
        latest = headers[batch_headers.MAX_TIMESTAMP, b]
        is_v2 = _is_v2(headers, b)
        is_wrapper = not is_v2 and _has_codec(headers, b)
        is_append_time = (
            headers[batch_headers.MAGIC, b] > kafka_format.MAGIC_V0
            and attributes & kafka_format.TIMESTAMP_TYPE_MASK != 0
        )
        if headers[batch_headers.COUNT, b] == 0:
            continue
        if not include_control and is_v2 and attributes & kafka_format.CONTROL_MASK != 0:
            continue
        if headers[batch_headers.LAST_OFFSET, b] < bounds[record_batches.FIRST_OFFSET]:
            continue
        if headers[batch_headers.BASE_OFFSET, b] > bounds[record_batches.LAST_OFFSET] and not is_wrapper:
            continue
        if latest < bounds[record_batches.FIRST_TIMESTAMP] and (is_append_time or not is_wrapper):
            continue
        if latest > bounds[record_batches.LAST_TIMESTAMP] and is_append_time:
            continue
        chosen[n] = b
        n += 1
    return n


@kernel("int64(int64[:,:], int64)", is_short=True)
def find_end_of_run(headers, start):
    """Returns the column after the batches from `start` that one kernel decodes: all sets, or all of magic 2."""
    for b in range(start + 1, headers.shape[1]):
        if _is_v2(headers, b) != _is_v2(headers, start):
            return b
    return headers.shape[1]
