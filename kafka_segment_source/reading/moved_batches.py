"""Whole batches at a wrong place in one of several copies: which of their offsets no piece of a mended read has.

A read meets such a batch as damage. Its offsets belong before what was read already, into another piece of the segment,
or into another segment. So no survey of the wanted offsets sees them. What the plan reads from elsewhere is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.partition.copy_bytes import bytes_between
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.survey import Survey
from kafka_segment_source.partition.twins import (
    find_lost_strays,
    find_twins,
    has_ends,
    is_elsewhere,
    is_in_place,
    join_batches,
)
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.trust import Trust


def find_lost_batches(
    split: SegmentSplit,
    reached: int,
    known: Sequence[OffsetRange],
    copies: Sequence[CopyView],
    error: CorruptRecordError,
    merge: Callable[[], PartitionLog],
) -> Iterator[OffsetRange]:
    """Yields the offsets of whole batches that the read of a split passes over, where `error` was found. The same ones
    may come twice.

    reached: the offset up to which rows were read (exclusive).
    known: the offsets that the mended read has, whole or as a loss. merge: makes one log of the copies, as a plan does.
    """
    here = ((copy, segment) for copy in copies for segment in copy.log.segments if segment.path == split.path)
    own, segment = next(here, (None, None))
    if own is None or segment is None or error.path != split.path:
        return  # the file is gone by now, or another one was read
    others = [copy for copy in copies if copy is not own]
    with SegmentView(segment, Trust()) as view:
        moved = view.probe.proven(error.position)
        damaged = view.probe.at(error.position) if moved is None else None
        is_given = moved is not None and _is_given(own, moved, others)
    yield from _find_under(split, own, segment, moved, others)
    if moved is not None:
        if moved.base_offset < segment.span.end:
            passed = _find_passed(split, known, own, moved)
            is_lost = _is_lost(own, segment, moved, others)
            is_held = any(is_in_place(own, segment, moved, other) for other in others)
            if passed and (is_lost or (is_held and not is_given)):
                yield from passed
            elif is_lost:
                yield from _find_of_other_part(split, own, moved, merge)
        for twin in find_twins(own, segment, moved, others):  # the offset that the batch states may be wrong too
            is_wanted = reached <= twin.last_offset and twin.base_offset < split.bounds.offsets.end
            if not is_wanted and not _is_given(own, twin, others):  # passed, or another piece's
                yield from _find_passed(split, known, own, twin)
    elif damaged is not None:
        # the batch read before it has a wrong offset, if it lies behind the offsets that the damaged one states
        passed = _find_passed(split, known, own, damaged)
        yield from (offsets for offsets in passed if any(other.has_batches_in(offsets) for other in others))
    if moved is None and own.log.compacted and error.position is not None:
        yield from _find_hidden(own.survey(segment), error.position, split.uncut or split.bounds.offsets, others)
    if not segment.is_last:
        own.survey(segment)
    yield from join_batches(find_lost_strays(own, segment, own.strays_of(segment), copies))
    if moved is not None and _is_lost(own, segment, moved, others):
        gaps = _find_gaps_for(own, moved, others)
        yield from (gap for gap in gaps if not _is_known(gap, known))
    if moved is not None and not segment.span.start <= moved.base_offset < segment.span.end:
        yield from _find_of_other_segment(own, segment, moved, others, None if is_given else merge)


def _find_hidden(
    surveyed: Survey, position: int, wanted: OffsetRange, others: Sequence[CopyView]
) -> Iterator[OffsetRange]:
    """Yields the gap before the batch that damage at a position follows, if another copy has batches in the gap, or
    none reaches it, and none has any where the damage is: that batch may lie over some, and the damage is the rest of
    them. It does not if the two have fewer bytes than a copy with all these batches."""
    at = int(np.searchsorted(surveyed.batches[batch_headers.POSITION], position)) - 1
    place = next((place for place in surveyed.left_out_places() if place.start == position), None)
    if at < 0 or place is None or any(other.has_batches_in(place.gap) for other in others if not other.has_lost):
        return
    before = int(surveyed.batches[batch_headers.LAST_OFFSET, at - 1]) + 1 if at else surveyed.segment.base_offset
    gap = OffsetRange(before, max(int(surveyed.firsts[at]), before)).intersect(wanted)
    is_reached = any(other.start <= gap.start < other.end for other in others)
    room = place.end - int(surveyed.batches[batch_headers.POSITION, at])
    all_there = OffsetRange(before, place.gap.end)
    is_over = any(other.has_batches_in(gap) and bytes_between(other, all_there)[0] <= room for other in others)
    if not gap.is_empty and (not is_reached or is_over):
        yield gap


def _is_given(own: CopyView, batch: BatchHeader, others: Sequence[CopyView]) -> bool:
    """Whether another copy gives a batch wherever this copy has a gap at its place: it is asked, it has the batch, and
    its history has not lost below."""
    holders = (other for other in others if other.has_at_its_place(batch))
    return not own.log.compacted and any(batch.last_offset < other.log.offsets.end for other in holders)


def _find_under(
    split: SegmentSplit, own: CopyView, segment: Segment, batch: BatchHeader | None, others: Sequence[CopyView]
) -> Iterator[OffsetRange]:
    """Yields the wanted offsets of a batch if the one right before it in the file states them too, and the one right
    behind follows it, or another copy has it at its place. Then the one before states more than it has, and gives none
    of these: a right CRC covers how many a batch states, so no flipped bit made that."""
    if batch is None:
        return
    surveyed = own.survey(segment)
    at = int(np.searchsorted(surveyed.batches[batch_headers.POSITION], batch.position)) - 1
    over = surveyed.header(max(at, 0)) if surveyed.batches.shape[1] else batch
    if over.end != batch.position or not over.base_offset < batch.base_offset <= over.last_offset:
        return
    with own.open_view(segment) as view:
        following = view.probe.at(batch.end)
    follows = following is not None and following.base_offset == batch.last_offset + 1
    wanted = _offsets_of(batch).intersect(split.uncut or split.bounds.offsets)
    if not wanted.is_empty and (follows or any(other.has_at_its_place(batch) for other in others)):
        yield wanted


def _find_passed(
    split: SegmentSplit, known: Sequence[OffsetRange], own: CopyView, batch: BatchHeader
) -> list[OffsetRange]:
    """Returns the wanted offsets of a batch that belongs before what was read, or into another piece of the segment:
    one range, or none."""
    there = own.batch_at(batch.base_offset)
    stated = _offsets_of(batch).intersect(split.bounds.offsets if split.uncut is None else split.uncut)
    if there is not None:
        stated = stated.intersect(OffsetRange(end=there.base_offset))
    return [] if stated.is_empty or _is_known(stated, known) else [stated]


def _is_known(offsets: OffsetRange, known: Sequence[OffsetRange]) -> bool:
    return any(span.start <= offsets.start < span.end for span in known)


def _find_of_other_part(
    split: SegmentSplit, own: CopyView, batch: BatchHeader, merge: Callable[[], PartitionLog]
) -> Iterator[OffsetRange]:
    """Yields the offsets of a batch that does not lie at its place in this copy, if the plan reads them from this copy,
    in another part of it.

    A read that ends, or begins, where its part does goes on with the next one, or comes from the one before.
    """
    held, part, there = _offsets_of(batch), split.uncut or split.bounds.offsets, own.batch_at(batch.base_offset)
    if there is not None and there.base_offset < held.end:
        return
    log = merge()
    parts = [segment.span.intersect(segment.offsets) for segment in log.segments if segment.path == split.path]
    is_wanted = any(span.end == part.end <= held.start or held.end <= span.start == part.start for span in parts)
    if is_wanted and _is_read_from(own, batch.base_offset, log):
        yield held


def _find_of_other_segment(
    own: CopyView,
    segment: Segment,
    moved: BatchHeader,
    others: Sequence[CopyView],
    merge: Callable[[], PartitionLog] | None,
) -> Iterator[OffsetRange]:
    """Yields the offsets of a batch that belongs into another segment, if the plan reads them from this copy, or if
    they belong before this segment and no copy has them. merge: None if the others are asked for them there."""
    held, there = _offsets_of(moved), own.batch_at(moved.base_offset)
    if there is not None and there.base_offset < held.end:
        return
    if any(is_in_place(own, segment, moved, other) for other in others):
        if merge is not None and _is_read_from(own, moved.base_offset, merge()):
            yield held
    elif held.start < segment.span.start and _is_lost(own, segment, moved, others):
        yield held


def _find_gaps_for(own: CopyView, moved: BatchHeader, others: Sequence[CopyView]) -> Iterator[OffsetRange]:
    """Yields the first gap of this copy that has just as many offsets as a batch that moved, and where no other copy
    has a batch. If the batch states offsets that another one has, it may belong there. Where this copy is marked as
    compacted, and another one reaches as far, compaction took what was in the gap.
    """
    stated = _offsets_of(moved)
    if all(header.crc == moved.crc for header in own.batches_in(stated)):
        return
    counting = [other for other in others if not other.has_lost]
    reached = own.start
    for header in own.headers_in(own.log.offsets):
        gap = OffsetRange(reached, header.base_offset)
        is_compacted = own.log.compacted and any(other.start <= gap.start < other.end for other in counting)
        is_held = is_compacted or any(other.has_batches_in(gap) for other in counting)
        if gap.end - gap.start == stated.end - stated.start and not is_held:
            yield gap
            return
        reached = header.last_offset + 1


def _offsets_of(batch: BatchHeader) -> OffsetRange:
    return OffsetRange(batch.base_offset, batch.last_offset + 1)


def _is_lost(own: CopyView, segment: Segment, moved: BatchHeader, others: Sequence[CopyView]) -> bool:
    """Whether no other copy has a batch that moved, and compaction did not remove it from one."""
    offsets = _offsets_of(moved)
    compacted = [other for other in others if other.log.compacted and other.log.segments]
    is_spanned = any(other.log.segments[0].base_offset <= offsets.start < other.end for other in compacted)
    is_thinned = any(other.has_batches_in(offsets) for other in others)
    if moved.last_offset < segment.base_offset and any(
        has_ends(other, moved) for other in others if not other.has_lost
    ):
        return False  # two cleanings leave other records of one batch
    return (is_thinned or not is_spanned) and not is_elsewhere(own, segment, moved, (own, *others))


def _is_read_from(copy: CopyView, offset: int, log: PartitionLog) -> bool:
    """Whether a read of a merged log takes an offset from a copy, in a segment without damage at its end: such a
    segment is mended when it is read."""
    segments = (segment for segment in log.segments if parent_of(segment.path) == copy.log.directory)
    spans = ((segment, segment.span.intersect(segment.offsets)) for segment in segments)
    return any(
        copy.tail.damage is None if segment.is_last else copy.end_of(segment) is not None
        for segment, span in spans
        if span.start <= offset < span.end
    )
