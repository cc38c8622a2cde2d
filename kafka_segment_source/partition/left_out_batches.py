"""Batches that were left out of a copy as damage, where their headers show which leader wrote them.

Comes in: a copy, of which some files were read whole. Goes out: headers, with the offsets that belong to the batches.

A damaged or torn batch has its place if it states the offset after the batch before it, but for one bit: its length, or
what follows that, may be what is damaged. A whole batch has its place where just as many offsets are missing as it has,
and no other bytes lie there: then its base offset alone is wrong, which no CRC covers. Two numbers that fit are no
accident. But another batch that was left out, and states these offsets, has a better claim: two batches changed places,
or the name of the file is what is wrong. No CRC covers the leader epoch either, and epochs never fall along a log. So
the batches around must bear it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.kafka_format import MAGIC_V2
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.strays import Stray, find_stray_batches
from kafka_segment_source.partition.survey import LeftOut, Survey


def find_left_out_batches(copy: CopyView) -> Iterator[BatchHeader]:
    """Yields the batches between sound ones that were left out of the files of a copy that were read whole."""
    for segment in copy.log.segments:
        surveyed = copy.survey_of(segment)
        if surveyed is not None and segment.path not in copy.left_out:
            copy.left_out[segment.path] = _find_in_file(copy, surveyed)
        yield from copy.left_out.get(segment.path, ())


def _find_in_file(copy: CopyView, surveyed: Survey) -> list[BatchHeader]:
    places = [place for place in surveyed.left_out_places() if not place.gap.is_empty]
    if not places:
        return []
    with copy.open_view(surveyed.segment) as view:
        headers = [_read_header(view, place) for place in places]
    borne_out = [header for header in headers if header is not None and _is_borne_out(copy, surveyed, header)]
    strays = find_stray_batches(surveyed, copy.policy).strays if borne_out else ()
    return [header for header in borne_out if not _is_elsewhere(copy, surveyed, header, strays)]


def _read_header(view: SegmentView, place: LeftOut) -> BatchHeader | None:
    """Returns the header of the batch with which damage begins, with the offsets that belong to it. None if nothing
    shows which they are."""
    header, whole = view.probe.repaired(place.start, place.gap), view.probe.proven(place.start)
    if whole is None and header is not None:
        # its last offset may be what is damaged
        is_certain = header.last_offset + 1 == place.gap.end
        return header if is_certain else header._replace(last_offset=header.base_offset)
    if whole is None or whole.magic != MAGIC_V2 or whole.end != place.end:
        return None  # more bytes than those of the batch belong to these offsets
    held = OffsetRange(place.gap.start, place.gap.start + whole.last_offset - whole.base_offset + 1)
    return whole._replace(base_offset=held.start, last_offset=held.end - 1) if held == place.gap else None


def _is_borne_out(copy: CopyView, surveyed: Survey, header: BatchHeader) -> bool:
    """Whether the leader epoch of a batch lies between those of the sound batches around it."""
    at = surveyed.first_from(header.base_offset)
    base_offset = surveyed.segment.base_offset
    before = surveyed.header(at - 1) if at else copy.batch_at(base_offset - 1)
    after = surveyed.header(at) if at < surveyed.batches.shape[1] else copy.batch_at(surveyed.segment.span.end)
    least = 0 if before is None else max(before.leader_epoch, 0)
    return after is not None and least <= header.leader_epoch <= after.leader_epoch


def _is_elsewhere(copy: CopyView, surveyed: Survey, header: BatchHeader, strays: Sequence[Stray]) -> bool:
    """Whether another batch that was left out of the same file has some of the offsets of a header, or one of the file
    before, where no batch of this file lies before it. strays: those of the file."""
    stated, before = OffsetRange(header.base_offset, header.last_offset + 1), copy.segment_before(surveyed.segment)
    batches = [stray.batch for stray in strays if stray.batch.position != header.position]
    if before is not None and before.size and surveyed.first_from(header.base_offset) == 0:
        copy.survey(before)
        batches += [stray.batch for stray in copy.strays_of(before)]
    held = (OffsetRange(batch.base_offset, batch.last_offset + 1) for batch in batches)
    return any(not stated.intersect(offsets).is_empty for offsets in held)
