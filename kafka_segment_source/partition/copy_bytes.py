"""How many bytes the batches of some offsets have in one copy.

Brokers copy batches byte for byte. So copies that differ in these bytes differ in what compaction or damage has left of
them. Batches that state other offsets than those around them are no bytes of a segment's offsets. Raises StorageError,
and FileChangedError if a file changes meanwhile.
"""

from __future__ import annotations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.strays import read_whole_batches


def bytes_between(copy: CopyView, offsets: OffsetRange) -> tuple[int, int]:
    """Returns the least and the largest number of bytes that the copy's batches of these offsets can have.

    The two differ where damage lies at either end.
    """
    starts, ends = _count_bytes_below(copy, offsets.start), _count_bytes_below(copy, offsets.end)
    return max(ends[0] - starts[1], 0), ends[1] - starts[0]


def _count_bytes_below(copy: CopyView, offset: int) -> tuple[int, int]:
    """Returns the bytes up to the end of the last sound batch below an offset, and up to the first batch that reaches
    it."""
    segment, total = copy.segment_below(offset)
    if segment is None:
        return 0, 0
    key = segment.path, offset
    if key not in copy.positions:
        is_below = segment.span.end <= offset
        copy.positions[key] = (segment.size, segment.size) if is_below else _find_positions(copy, segment, offset)
    least, most = copy.positions[key]
    return total + least - _count_stray_bytes(copy, segment, least), total + most


def _count_stray_bytes(copy: CopyView, segment: Segment, end: int) -> int:
    """Returns the bytes before a position of whole batches that state other offsets than those around them, as far as
    they are known: they are no bytes of the segment's offsets."""
    if segment.is_last:
        return sum(stray.batch.size for stray in copy.tail.strays if stray.batch.position < end)
    surveyed = copy.survey_of(segment)
    places = [] if surveyed is None else [place for place in surveyed.left_out_places() if place.start < end]
    if not places:
        return 0
    with copy.open_view(segment) as view:
        ends = [read_whole_batches(view, place.start, place.end)[1] for place in places]
    return sum(end - place.start for end, place in zip(ends, places, strict=True))


def _find_positions(copy: CopyView, segment: Segment, offset: int) -> tuple[int, int]:
    if segment.is_last and offset >= copy.tail.end:
        return copy.tail.position, copy.tail.position
    with copy.open_view(segment) as view:
        limit = limit_of(segment.base_offset, segment.next_base_offset)
        for header in view.headers_from(offset):
            if header is not None and header.last_offset < limit:
                return header.position, header.position
            survey = copy.survey(segment)  # damage lies before the offset
            at, count = survey.first_from(offset), survey.batches.shape[1]
            before = survey.header(at - 1).end if at else 0
            return before, survey.header(at).position if at < count else segment.size
    return segment.size, segment.size
