"""How many bytes the batches of some offsets have in one copy.

Brokers copy batches byte for byte. So copies that differ in these bytes differ in what compaction or damage has left of
them. Batches that state other offsets than those around them are no bytes of a segment's offsets. Raises StorageError,
and FileChangedError if a file changes meanwhile.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.strays import read_whole_batches


def bytes_between(copy: CopyView, offsets: OffsetRange) -> tuple[int, int]:
    """Returns the least and the largest number of bytes that the copy's batches of these offsets can have.

    The two differ where damage lies at either end.
    """
    start, end = _find_place(copy, offsets.start), _find_place(copy, offsets.end)
    # a batch of these offsets may lie before them, and one of other offsets between them
    before = _count_stray_bytes(copy, start.segment, 0, start.least)
    between = _count_stray_bytes(copy, end.segment, start.most if start.segment is end.segment else 0, end.least)
    certain = end.before + end.least - between - start.before - start.most
    most = end.before + end.most - start.before - start.least + before + _count_moved_bytes(copy, offsets)
    return max(certain, 0), most


def _count_moved_bytes(copy: CopyView, offsets: OffsetRange) -> int:
    """Returns the bytes of whole batches that state some of these offsets, and lie at a wrong place, as far as they are
    known."""
    strays = (stray.batch for segment in copy.segments_around(offsets) for stray in copy.all_strays_of(segment))
    return sum(batch.size for batch in strays if offsets.start <= batch.last_offset and batch.base_offset < offsets.end)


class _Place(NamedTuple):
    """Where an offset begins in a copy.

    segment: the last one that begins below the offset, or None.
    before: the bytes of all segments before it.
    least: the position in it where the last sound batch below the offset ends.
    most: the position in it of the first batch that reaches the offset.
    """

    segment: Segment | None
    before: int
    least: int
    most: int


def _find_place(copy: CopyView, offset: int) -> _Place:
    segment, before = copy.segment_below(offset)
    if segment is None:
        return _Place(None, 0, 0, 0)
    key = segment.path, offset
    if key not in copy.positions:
        is_below = segment.span.end <= offset
        copy.positions[key] = (segment.size, segment.size) if is_below else _find_positions(copy, segment, offset)
    return _Place(segment, before, *copy.positions[key])


def _count_stray_bytes(copy: CopyView, segment: Segment | None, start: int, end: int) -> int:
    """Returns the bytes between two positions that are no bytes of the segment's offsets, as far as they are known:
    whole batches that state other offsets than those around them, or are there twice, and all damage where no offset is
    missing."""
    places = [] if segment is None else [place for place in copy.left_out_places(segment) if start <= place.start < end]
    if segment is None or not places:
        return 0
    with copy.open_view(segment) as view:
        ends = [
            place.end if place.gap.is_empty else read_whole_batches(view, place.start, place.end)[1] for place in places
        ]
    return sum(end - place.start for end, place in zip(ends, places, strict=True))


def _find_positions(copy: CopyView, segment: Segment, offset: int) -> tuple[int, int]:
    if segment.is_last and offset >= copy.tail.end:
        return copy.tail.position, copy.tail.position
    if copy.survey_of(segment) is None:
        with copy.open_view(segment) as view:
            limit = limit_of(segment.base_offset, segment.next_base_offset)
            headers = list(islice(view.headers_from(offset), 1))
        if not headers:
            return segment.size, segment.size
        if headers[0] is not None and headers[0].last_offset < limit:
            return headers[0].position, headers[0].position
    survey = copy.survey(segment)  # damage lies before the offset, or a batch that states a wrong one
    at, count = survey.first_from(offset), survey.batches.shape[1]
    before = survey.header(at - 1).end if at else 0
    return before, survey.header(at).position if at < count else segment.size
