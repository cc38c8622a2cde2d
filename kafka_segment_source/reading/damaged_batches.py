"""Reads the header of the one batch that damage in a file is, and finds that batch in other copies.

Comes in: damage that a survey left out of a file. Goes out: headers, with the offsets that the batch had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.partition.choice import DAMAGED, VOID
from kafka_segment_source.partition.survey import Extent, LeftOut, Survey
from kafka_segment_source.storage.files import UNUSABLE
from kafka_segment_source.trust import Trust


def narrow_damage(extent: Extent, batch: BatchHeader) -> list[Extent]:
    """Returns the parts of damage that is known to be one batch: nothing, the batch, nothing."""
    held = OffsetRange(batch.base_offset, batch.last_offset + 1)
    return [
        Extent(extent.offsets.intersect(OffsetRange(end=held.start)), VOID),
        replace(extent, offsets=extent.offsets.intersect(held)),
        Extent(extent.offsets.intersect(OffsetRange(held.end)), VOID),
    ]


def is_damaged_batch(surveyed_file: Survey, extent: Extent) -> bool:
    """Whether an extent is one damaged batch whose header states just these offsets, as far as they were surveyed."""
    batch = read_damaged_batch(surveyed_file, extent)
    if batch is None:
        return False
    return OffsetRange(batch.base_offset, batch.last_offset + 1).intersect(surveyed_file.offsets) == extent.offsets


def find_damaged_batch(surveyed_file: Survey, extent: Extent, others: Sequence[Survey]) -> BatchHeader | None:
    """Returns the header of the one batch that an extent of damage is, if another copy has that batch. Otherwise None.

    The header states the CRC of the batch. So the file never held anything else there. Nothing says where damage at the
    end of a file ends.
    """
    batch = read_damaged_batch(surveyed_file, extent)
    if batch is None or batch.end == surveyed_file.segment.size:
        return None
    return batch if any(has_batch(other, batch) for other in others) else None


def read_damaged_batch(surveyed_file: Survey, extent: Extent) -> BatchHeader | None:
    """Returns the header that damage begins with, if its length ends where the damage does. None if its batch is whole:
    then the offset is what is wrong."""
    place = _find_place(surveyed_file, extent)
    if place is None:
        return None
    try:
        with SegmentView(surveyed_file.segment, Trust()) as view:
            batch = view.probe.at(place.start)
            if batch is None or view.probe.proven(place.start) is not None:
                return None
            # behind the last batch of a survey, the damage ends where the next sound batch begins
            is_end = batch.end == place.end or (_is_at_the_end(place, surveyed_file) and view.probe.proven(batch.end))
    except UNUSABLE:
        return None
    return batch if is_end else None


def _find_place(surveyed_file: Survey, extent: Extent) -> LeftOut | None:
    """Returns the place in a file of the damage that an extent is."""
    error = extent.error
    if extent.holding != DAMAGED or not isinstance(error, CorruptRecordError):
        return None
    places = surveyed_file.left_out_places() if error.path == surveyed_file.segment.path else []
    return next((place for place in places if place.start == error.position), None)


def _is_at_the_end(place: LeftOut, surveyed_file: Survey) -> bool:
    """Whether no batch of a survey lies behind damage."""
    return place.fault is surveyed_file.faults[-1]


def has_batch(surveyed_file: Survey, batch: BatchHeader) -> bool:
    """Whether a file has a sound batch with this header, at any position."""
    at = surveyed_file.first_from(batch.last_offset)
    return at < surveyed_file.batches.shape[1] and surveyed_file.header(at)._replace(position=batch.position) == batch
