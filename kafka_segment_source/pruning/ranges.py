"""One segment and bounds → the byte range to read, or the reason to drop it.

Batch headers prove what a range rests on (`segment_view.py`). What is missing or odd means "might match": more is read,
never less. `since` uses a time index only under the head proof. It drops a segment only if the tail proof holds too:
from the batch of the last entry's offset to the end of the file nothing reaches `since`. Only entries with timestamps
strictly below `since` say where to start: an earlier record of the same batch can have the timestamp of the entry.
`until` is not used here: no entry says that what follows is later (`disorder.py`).

docs/pruning-rules.md has the proofs, and the logs that break simpler rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.pruning.disorder import settled_offset
from kafka_segment_source.times import format_millis

_ATTEMPTS = 8  # time index entries tried before reading more instead


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Whole batches to read: positions start ≤ p < end; every wanted row in them has first_offset ≤
    offset < end_offset."""

    start: int
    end: int
    first_offset: int
    end_offset: int = fmt.MAX_OFFSET


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why no row of a segment can match."""

    reason: str


def drop_by_name(segment: Segment, bounds: ScanBounds) -> Dropped | None:
    """What base offsets and sizes alone decide; no file is opened."""
    offsets = bounds.offsets
    if segment.size == 0:
        return Dropped("empty file")
    if offsets.is_empty or bounds.times.is_empty:
        return Dropped("the bounds leave no row")
    if segment.base_offset >= offsets.end:
        return Dropped(f"starts at offset {segment.base_offset}, the bounds end before {offsets.end}")
    if segment.next_base_offset is not None and segment.next_base_offset <= offsets.start:
        return Dropped(f"ends before offset {segment.next_base_offset}, the bounds start at {offsets.start}")
    return None


def narrow(view: SegmentView, bounds: ScanBounds, disorder: int | None = None) -> ByteRange | Dropped:
    """The byte range of a segment that holds every row inside `bounds`.

    disorder: the declared timestampDisorder in ms; it lets `since` do without a time index.
    """
    segment = view.segment
    dropped = drop_by_name(segment, bounds)
    if dropped is not None:
        return dropped
    first_offset = max(bounds.offsets.start, segment.base_offset)
    if bounds.times.has_since:
        latest = _latest_before(view, bounds.times.since)
        if latest is not None:
            return Dropped(f"nothing after {format_millis(latest)} (time index)")
        first_offset = max(first_offset, _first_offset_since(view, bounds.times.since, disorder))
    start = view.start_position(first_offset) if first_offset > segment.base_offset else 0
    end = None
    if bounds.offsets.end < (fmt.MAX_OFFSET if segment.next_base_offset is None else segment.next_base_offset):
        end = view.end_position(bounds.offsets.end)
    return ByteRange(start, segment.size if end is None else max(start, end), first_offset)


def _latest_before(view: SegmentView, since: int) -> int | None:
    """The segment's last indexed timestamp, if the head and tail proofs say that nothing in it reaches `since`."""
    times = view.times
    if len(times) == 0 or times.timestamps[-1] >= since or len(view.trusted_times) == 0:
        return None
    seen = 0
    for header in view.headers_from(int(times.offsets[-1])):
        if header is None or header.magic != fmt.MAGIC_V2 or header.max_timestamp >= since:
            return None
        seen += 1
    return int(times.timestamps[-1]) if seen else None  # an entry beyond the log says nothing about it


def _first_offset_since(view: SegmentView, since: int, disorder: int | None) -> int:
    """An offset below which no row is ≥ since: by the time index, or, without one, by the declared disorder."""
    slot = view.times.before(since)
    if slot >= 0 and len(view.trusted_times):
        for candidate in range(slot, max(slot - _ATTEMPTS, -1), -1):
            offset = int(view.times.offsets[candidate])
            if next(view.headers_from(offset), None) is not None:  # an entry beyond the log says nothing about it
                return offset + 1
        return 0
    if disorder is not None and not len(view.trusted_times):
        return settled_offset(view, since - disorder)
    return 0
