"""Returns the byte range to read of one segment under some bounds, or the reason to drop the segment.

Batch headers prove every range (`segment_view.py`). Missing or unusual data means "might match". Then more is read,
never less.

`since` uses a time index only under the head proof. To drop a segment it also needs the tail proof. This means that
from the batch of the last entry's offset to the end of the file no batch reaches `since`. Only entries with timestamps
strictly below `since` give a start. An earlier record of the same batch can have the timestamp of the entry. `until` is
not used here, because no entry states that the following records are later (`disorder.py`).

docs/pruning-rules.md has the proofs, and the logs that break simpler rules.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import DropKind, DroppedSegment, Segment
from kafka_segment_source.pruning.disorder import settled_offset, stop_timestamp
from kafka_segment_source.times import format_millis

_ATTEMPTS = 8  # time index entries to try; after that more bytes are read


class ByteRange(NamedTuple):
    """Whole batches to read.

    Their positions have start ≤ position < end. Every wanted row in them has first_offset ≤ offset < end_offset.
    """

    start: int
    end: int
    first_offset: int
    end_offset: int = kafka_format.MAX_OFFSET


class Pruned(NamedTuple):
    """The rest of a byte range after zone maps: disjoint pieces in order, with disjoint offsets.

    covered: the byte position up to which the zones show what must be read.
    is_stale: whether some zones are not of this file.
    by_keys: bytes that are left out by keys alone.
    """

    pieces: tuple[ByteRange, ...]
    covered: int = 0
    is_stale: bool = False
    by_keys: int = 0


def drop_by_name(segment: Segment, bounds: ScanBounds) -> DroppedSegment | None:
    """Drops a segment by base offsets and sizes alone, without opening a file. Returns None if it may hold a wanted
    row."""
    offsets = bounds.offsets
    if segment.size == 0:
        return DroppedSegment(segment, DropKind.EMPTY, "empty file")
    if offsets.is_empty or bounds.times.is_empty:
        return DroppedSegment(segment, DropKind.NO_ROW, "the bounds leave no row")
    if segment.base_offset >= offsets.end:
        return DroppedSegment(
            segment,
            DropKind.AFTER_OFFSETS,
            f"starts at offset {segment.base_offset}, the bounds end before {offsets.end}",
        )
    if segment.next_base_offset is not None and segment.next_base_offset <= offsets.start:
        return DroppedSegment(
            segment,
            DropKind.BEFORE_OFFSETS,
            f"ends before offset {segment.next_base_offset}, the bounds start at {offsets.start}",
        )
    return None


def narrow(
    view: SegmentView,
    bounds: ScanBounds,
    disorder: int | None = None,
    gap_is_loss: bool = False,
    has_copies: bool = False,
) -> ByteRange | DroppedSegment:
    """Returns the byte range of a segment that holds every row inside `bounds`.

    disorder: the declared timestampDisorder in ms. With it, `since` does not need a time index.
    gap_is_loss: offsets that are missing after the segment are lost (`PartitionLog.gap_is_loss`). If wanted ones are,
    the range has the end of the segment, where a read notices them.
    has_copies: other copies may have these offsets (`PartitionLog.copies`). A read looks there where it finds damage.
    So the range has the end of the segment too if its last batch has a wrong offset.
    """
    segment = view.segment
    dropped = drop_by_name(segment, bounds)
    if dropped is not None:
        return dropped
    first_offset = max(bounds.offsets.start, segment.base_offset)
    if bounds.times.has_since:
        since, cost = bounds.times.since, segment.storage.read_cost(segment.path)
        is_one_request = cost.takes_round_trips and segment.size <= cost.block and view.trusts_indexes
        if is_one_request:
            newest = _find_newest(view)
            if (
                newest is not None
                and newest.timestamp < since
                and not newest.hides_rows(view, bounds, gap_is_loss, has_copies)
                and not newest.is_cut(view, bounds)
            ):
                reason = f"nothing after {format_millis(newest.timestamp)} (batch headers)"
                return DroppedSegment(segment, DropKind.BEFORE_TIMES, reason)
        if not (is_one_request and _begins_at(view, since)):
            if cost.takes_round_trips:
                view.read_together(since, stop_timestamp(bounds.times, disorder))
            latest = _find_latest_before(view, since)
            if latest is not None and not latest.hides_rows(view, bounds, gap_is_loss, has_copies):
                reason = f"nothing after {format_millis(latest.timestamp)} ({_name_source(segment, since)})"
                return DroppedSegment(segment, DropKind.BEFORE_TIMES, reason)
            first_offset = max(first_offset, _find_first_offset_since(view, since, disorder))
    start = view.start_position(first_offset) if first_offset > segment.base_offset else 0
    end = None
    if bounds.offsets.end < segment.span.end:
        end = view.end_position(bounds.offsets.end)
    return ByteRange(start, segment.size if end is None else max(start, end), first_offset)


def _name_source(segment: Segment, since: int) -> str:
    """Returns what says that a segment ends before `since`."""
    return "time index" if segment.latest is None or segment.latest >= since else "manifest"


class _End(NamedTuple):
    """What is known of the end of a segment.

    timestamp: No row is newer.
    last_offset: The last offset of its batches. None if it is not known.
    is_wrong: Whether the last batch states another one, which its segment cannot have.
    """

    timestamp: int
    last_offset: int | None = None
    is_wrong: bool = False

    def hides_rows(self, view: SegmentView, bounds: ScanBounds, gap_is_loss: bool, has_copies: bool) -> bool:
        """Whether wanted offsets are missing behind the last offset, and a read of it would notice that."""
        return (gap_is_loss or (has_copies and self.is_wrong)) and self._is_before_gap(view, bounds)

    def is_cut(self, view: SegmentView, bounds: ScanBounds) -> bool:
        """Whether wanted offsets are lost behind the last offset, by the `.index`. They may have any timestamp."""
        if self.last_offset is None or not self._is_before_gap(view, bounds):
            return False
        return view.find_lost_end(self.last_offset + 1) is not None

    def _is_before_gap(self, view: SegmentView, bounds: ScanBounds) -> bool:
        """Whether wanted offsets are missing behind the last offset."""
        if self.last_offset is None:
            return False
        return not view.segment.gap_behind(self.last_offset).intersect(bounds.offsets).is_empty


def _find_newest(view: SegmentView) -> _End | None:
    """Finds the largest timestamp of a segment whose `.log` is read by one request, from all its batch headers.

    Index files would take more requests, and say less. None if a header is not proven.
    """
    newest, last = kafka_format.NO_TIMESTAMP, None
    for header in view.strict_probe.walk(0):
        if header is None or header.magic != kafka_format.MAGIC_V2:
            return None
        newest, last = max(newest, header.max_timestamp), header
    return _find_end(view, last, newest)


def _begins_at(view: SegmentView, since: int) -> bool:
    """Whether the first batch shows that a time index has no entry before `since`. Then the segment is read whole."""
    header = view.strict_probe.proven(0)
    if header is None or not header.has_data:
        return False
    return header.max_timestamp >= since


def _find_latest_before(view: SegmentView, since: int) -> _End | None:
    """Returns the segment's last indexed timestamp if the head and tail proofs show that no row reaches `since`.
    Otherwise None."""
    times = view.time_ends
    if len(times) == 0 or times.timestamps[-1] >= since or not view.has_trusted_times:
        return None
    stated = view.segment.latest
    if stated is not None and stated < since:
        return _End(stated)  # the manifest bounds what the head proof does not
    last = None
    for header in view.headers_from(int(times.offsets[-1])):
        if header is None or header.magic != kafka_format.MAGIC_V2 or header.max_timestamp >= since:
            return None
        last = header
    if last is None:
        return None  # an entry beyond the log proves nothing about it
    return _find_end(view, last, int(times.timestamps[-1]))


def _find_end(view: SegmentView, last: BatchHeader | None, newest: int) -> _End:
    """Returns what the last batch of a segment says of its end. If it states an offset that its segment cannot have, it
    has those right behind the batch before it: no offsets are missing inside a file."""
    following = view.segment.next_base_offset
    if last is None:
        return _End(newest)
    if following is None or last.last_offset < following:
        return _End(newest, last.last_offset)
    before = view.segment.base_offset - 1
    for header in view.probe.walk(view.start_position(following - 1)):
        if header is None or header.position >= last.position:
            break
        before = header.last_offset
    return _End(newest, before + last.last_offset - last.base_offset + 1, is_wrong=True)


def _find_first_offset_since(view: SegmentView, since: int, disorder: int | None) -> int:
    """Returns an offset below which no row is ≥ since. It uses the time index, or without one the declared disorder."""
    times = view.times_around(since)
    slot = times.before(since)
    if slot >= 0 and view.has_trusted_times:
        for candidate in range(slot, max(slot - _ATTEMPTS, -1), -1):
            offset = int(times.offsets[candidate])
            if next(view.headers_from(offset), None) is not None:  # an entry beyond the log proves nothing about it
                return offset + 1
        return 0
    if disorder is not None and not view.has_trusted_times:
        return settled_offset(view, since - disorder)
    return 0
