"""Refuses copies of which one has a file of another partition: a segment that contradicts the one of the same name.

Copies are compared from their ends down to a batch that both have, as nothing below it can differ (`histories.py`).
That is so as long as each file is of this partition. A file that was restored into the wrong directory is not. Names
and sizes show where to look: of two segments of one name that differ in size, the first batches are compared. They are
compared only if both begin where their name says, so that no wrong offset decides. Their leader epochs decide nothing
here: both copies are cut to the offsets where their histories are valid, and one history has one record at an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import PathError
from kafka_segment_source.partition.batch_pairs import have_other_records
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.histories import explain_conflict


def refuse_foreign_segments(copies: Sequence[CopyView], near: OffsetRange) -> None:
    """Raises PathError if two segments of one name, around some offsets, begin with batches that contradict each
    other.

    copies: of one partition, each cut to the offsets where its history is valid. near: the offsets that are needed.
    """
    for one, other in combinations(copies, 2):
        common = one.log.offsets.intersect(other.log.offsets)
        named = {segment.base_offset: segment for segment in other.log.segments if segment.size}
        for segment in one.segments_around(near):
            base = segment.base_offset
            twin = named.get(base)
            if twin is None or segment.size in (0, twin.size) or not common.start <= base < common.end:
                continue
            batch, counterpart = one.first_batch_of(segment), other.first_batch_of(twin)
            if batch is None or counterpart is None or not base == batch.base_offset == counterpart.base_offset:
                continue
            if have_other_records(one, batch, other, counterpart):
                raise PathError(explain_conflict(one, other, base))
