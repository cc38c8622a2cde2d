"""Transaction events of a small segment, from one read of its file. It runs on the driver, without the kernels.

Input: a segment as it was listed. Output: `SegmentEvents`, or None if the segment is unusual in any way. Then
`walk.walk_split` must read the segment, since it handles all cases. For a segment of a few batches, it costs ten
times as much, and a log may have thousands of such segments.

A segment is usual if all of this holds:

- The version of the file shows that it is the listed one.
- Whole batches of magic 2 fill the file. With checkCrcs, each has the CRC that it states.
- Their offsets ascend, and end before the next segment.
- Each control batch of a producer is a marker in the layout that brokers write.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.checksums import crc32c
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.transactions.producers import DATA, MARKER, Event
from kafka_segment_source.trust import Trust

MOST_BYTES = 64 * 1024  # of a file; for a larger one, reading costs more than opening
_EVERYTHING = OffsetRange()
_PRODUCERS = kafka_format.TRANSACTIONAL_MASK | kafka_format.CONTROL_MASK
# length 16 · attributes · timestampDelta · offsetDelta · keyLength 4 · key · valueLength 6 · value · no headers
_MARKER = struct.Struct(">5shhB6sB")
_MARKER_HEAD = b"\x20\x00\x00\x00\x08"
_MARKER_VALUE = 0x0C


class SegmentEvents(NamedTuple):
    """The transaction events of some batches, in offset order.

    end: the offset after the last batch.
    size: bytes read.
    """

    events: list[Event]
    end: int
    size: int


def read_small_segment(segment: Segment, trust: Trust) -> SegmentEvents | None:
    """Reads the events of a whole segment; None if it is not small and usual. Raises what InputFile raises."""
    if not 0 < segment.size <= MOST_BYTES or segment.offsets != _EVERYTHING:
        return None
    with InputFile(segment.path, segment.storage, segment.version) as file:
        if file.version() != segment.version:
            return None
        data = file.read_at(0, segment.size)
    return _read_events(data, segment, trust) if len(data) == segment.size else None


def _read_events(data: bytes, segment: Segment, trust: Trust) -> SegmentEvents | None:
    events: list[Event] = []
    at, end = 0, segment.base_offset
    limit = segment.span.end
    while at < len(data):
        if len(data) - at < kafka_format.BATCH_OVERHEAD:
            return None
        base, length, _, magic, crc, attributes, delta, _, _, producer, _, _, count = (
            kafka_format.BATCH_HEADER.unpack_from(data, at)
        )
        size = length + kafka_format.LOG_OVERHEAD
        if magic != kafka_format.MAGIC_V2 or not kafka_format.BATCH_OVERHEAD <= size <= min(
            len(data) - at, trust.max_batch_bytes
        ):
            return None
        if base < end or delta < 0 or base + delta >= limit or count < 0:
            return None
        if trust.check_crcs and crc32c(data[at + kafka_format.CRC_FROM : at + size]) != crc:
            return None
        if producer > kafka_format.NO_PRODUCER and attributes & _PRODUCERS:
            if not attributes & kafka_format.CONTROL_MASK:
                events.append((base, DATA, producer))
            elif count:
                kind = _read_marker(data, at, size) if count == 1 and not attributes & kafka_format.CODEC_MASK else None
                if kind is None:
                    return None
                events.append((base, MARKER, producer))
        at, end = at + size, base + delta + 1
    return SegmentEvents(events, end, len(data))


def _read_marker(data: bytes, at: int, size: int) -> int | None:
    """Reads the type of a batch's control record; None unless it is an ABORT or COMMIT in the brokers' layout."""
    if size != kafka_format.BATCH_OVERHEAD + _MARKER.size:
        return None
    head, _, kind, value_length, _, headers = _MARKER.unpack_from(data, at + kafka_format.BATCH_OVERHEAD)
    if head != _MARKER_HEAD or value_length != _MARKER_VALUE or headers:
        return None
    return int(kind) if kind in (kafka_format.CONTROL_ABORT, kafka_format.CONTROL_COMMIT) else None
