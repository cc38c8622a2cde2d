"""Cuts a range of offsets where a batch begins, so that two pieces do not read the same batch.

A cut lies inside a batch only if the piece would be empty otherwise, and only where a number of offsets is the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.streams.limits import spread
from kafka_segment_source.trust import Trust


def cut_at_offset(log: PartitionLog, wanted: OffsetRange, trust: Trust) -> int:
    """Returns the end of the range, or the last offset in it where a batch begins, if a batch lies across the end.

    It is the end of the range too where no batch begins after its start.
    """
    for segment in reversed(_segments_of(log, wanted)):
        if segment.base_offset >= wanted.end:
            continue
        edge = max(segment.base_offset, segment.offsets.start)
        with SegmentView(segment, trust) as view:
            for header in view.probe.walk(view.start_position(wanted.end)):
                if header is None:
                    break
                if _first_offset_is_known(header) and header.base_offset <= wanted.end:
                    edge = max(edge, header.base_offset)
                if header.last_offset >= wanted.end:
                    break
                edge = max(edge, header.last_offset + 1)
        edge = wanted.end if edge > wanted.end else edge
        return edge if edge > wanted.start else wanted.end
    return wanted.end


def cut_by_bytes(
    logs: Mapping[TopicPartition, PartitionLog],
    waiting: Mapping[TopicPartition, OffsetRange],
    most: int,
    trust: Trust,
) -> dict[TopicPartition, int]:
    """Returns where to end with each partition, so that their batches have at most `most` bytes in `.log` files.

    The bytes are spread in proportion to what waits. If not one batch fits, the first batch of the partition with the
    most waiting is taken alone.
    """
    waiting = {key: offsets for key, offsets in waiting.items() if not offsets.is_empty}
    sizes = {key: _count_bytes(logs[key], offsets, trust) for key, offsets in waiting.items()}
    if sum(sizes.values()) <= most:
        return {}
    shares = spread(most, sizes)
    ends = {
        key: _cut_log(logs[key], offsets, shares[key], trust) if shares[key] < sizes[key] else offsets.end
        for key, offsets in waiting.items()
    }
    if all(end == waiting[key].start for key, end in ends.items()):
        largest = max(sizes, key=lambda key: sizes[key])
        ends[largest] = _end_of_first_batch(logs[largest], waiting[largest], trust)
    return ends


def _count_bytes(log: PartitionLog, wanted: OffsetRange, trust: Trust) -> int:
    """Counts the bytes from the batch that holds the start of a range, to the end of the last segment that holds some
    of it."""
    total = 0
    for segment in _segments_of(log, wanted):
        total += segment.size
        if segment.base_offset < wanted.start:
            with SegmentView(segment, trust) as view:
                total -= _find_position(view, wanted.start) or 0
    return total


def _find_position(view: SegmentView, offset: int) -> int | None:
    """Finds the position of the batch that holds an offset, or of the first one after it. None if there is none."""
    return next((header.position for header in view.headers_from(offset) if header is not None), None)


def _cut_log(log: PartitionLog, wanted: OffsetRange, share: int, trust: Trust) -> int:
    """Returns the offset where to end, so that the batches before it have at most `share` bytes."""
    edge = wanted.start
    for segment in _segments_of(log, wanted):
        with SegmentView(segment, trust) as view:
            start = _find_position(view, wanted.start)
            if start is None:
                return edge
            if segment.size - start <= share and not segment.is_last:
                share -= segment.size - start
                edge = max(edge, segment.span.end)
                continue
            for header in view.probe.walk(_position_before(view, start, start + share)):
                if header is None or header.end > start + share:
                    return min(edge, wanted.end)
                edge = max(edge, header.last_offset + 1)
    return min(edge, wanted.end)


def _position_before(view: SegmentView, start: int, end: int) -> int:
    """Returns the position of a batch by the index: the last entry whose batch ends before `end`, or `start`."""
    offsets = view.offsets
    for slot in range(int((offsets.positions < end).sum()) - 1, -1, -1):
        position = int(offsets.positions[slot])
        if position <= start:
            break
        header = view.probe.proven(position)
        if header is not None and header.end <= end:
            return position
    return start


def _end_of_first_batch(log: PartitionLog, wanted: OffsetRange, trust: Trust) -> int:
    for segment in _segments_of(log, wanted):
        with SegmentView(segment, trust) as view:
            for header in view.headers_from(wanted.start):
                if header is None:
                    return wanted.end  # the read reports the damage
                return min(header.last_offset + 1, wanted.end)
    return wanted.end


def _segments_of(log: PartitionLog, wanted: OffsetRange) -> list[Segment]:
    """Returns the segments that can hold offsets of a range, in order."""
    return [
        segment
        for segment in log.segments
        if segment.size and not segment.span.intersect(segment.offsets).intersect(wanted).is_empty
    ]


def _first_offset_is_known(header: BatchHeader) -> bool:
    """Whether the header states its first offset. A compressed message set of magic 0 or 1 states its last one."""
    return not header.is_wrapper
